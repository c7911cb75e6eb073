"""A mechanism's channel as an attacker learns it who can only run the mechanism.

    channel = RankChannel.estimate(Vickrey(madlib, t=0.75), public.ids, rng)
    Bayes(channel, prior).guess(observed)

Nobody has worked out P(y|x) of most mechanisms that choose among near words by noise. But whoever
knows the mechanism can sanitize public words as often as they like, and count. Single pairs are far
too many, so the outputs are counted by their rank: how many words are nearer to the input.
`channel_of` takes what is known better, where it is.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse
import torch

from textpriv import assets
from textpriv.attacks.base import is_input
from textpriv.channel import ROW_BYTES, Channel, FloatArray, IntArray, check_ids
from textpriv.checks import COUNT, check_generator, check_kind, checked
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.base import Mechanism, simulation
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.neighbors import Distances

DIRECTIONS = 6  # of the estimate of a noise's channel, which is attacked and not judged
_DRAWN = 4000  # words in place of public text


class RankChannel(Channel):
    """An estimate of P(y|x) by the rank of y among the neighbours of x, 0 for x itself.

    The first ranks are told apart one by one, the others in bins that double. Words fall into
    groups by the distance of their nearest neighbour, since noise takes a word in a crowd farther
    through the ranks; in a group all words have one law of ranks.

    An attack that uses it is a real attack on the real outputs: what it achieves can be achieved, a
    lower bound on what an attacker achieves who knows the true probabilities. Neither its largest
    ratio of two rows nor a success computed from it says anything of the mechanism.

    Parameters
    ----------
    near : the neighbours of every word
    group : (size,) of every word, from 0 on
    law : (groups, ranks + bins) P(rank); of a bin, that of all its ranks together
    """

    def __init__(self, near: Neighbours, group: IntArray, law: FloatArray) -> None:
        self.size, ranks = near.words.shape
        self.distances, self._radii, self._group = near.distances, near.radii, group
        with np.errstate(divide="ignore"):
            self._far = np.log(law[:, ranks:]) - np.log(np.diff(near.edges))
            close = np.log(law[group, :ranks])
        row = np.repeat(np.arange(self.size), ranks)
        place, shape = (row, near.words.ravel()), (self.size, self.size)
        self._rows = scipy.sparse.csr_array((close.ravel(), place), shape=shape)
        self._columns = self._rows.tocsc()

    @classmethod
    @checked(ranks=COUNT, groups=COUNT, draws=COUNT)
    def estimate(
        cls,
        mechanism: Mechanism,
        words: IntArray,
        rng: np.random.Generator,
        *,
        ranks: int = 100,
        groups: int = 10,
        draws: int = 60_000,
    ) -> Self:
        """The law of ranks that a mechanism shows on some words.

        Parameters
        ----------
        words : ids of public text, so that frequent words count for more; those that the vocabulary
            lacks or the mechanism passes are left out
        ranks : >= 1, that are told apart one by one
        groups : >= 1, of as many of `words` each
        draws : >= 1 outputs, together

        Raises
        ------
        InvalidInput : none of the words is replaced, or a number out of its range
        """
        check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
        check_generator(rng)
        public = words[words >= 0]
        public = public[is_input(mechanism)[public]]
        if not len(public):
            raise InvalidInput("words: got none that the mechanism replaces, expected public text")
        near = _neighbours(mechanism.embedding, min(ranks, mechanism.size))
        cuts = np.quantile(near.gap[public], np.arange(1, groups) / groups)
        group = np.searchsorted(cuts, near.gap)
        inputs = rng.choice(public, draws)
        with simulation():
            outputs = mechanism.sanitize_ids(inputs, rng)
        rank = near.distances.ranks(inputs, outputs)
        rank = np.maximum(rank, outputs != inputs)  # another word of the same vector is no rank 0
        first = np.arange(near.words.shape[1] + 1)  # each rank alone, and where the bins begin
        bins = np.concatenate([first[:-1], near.edges[:-1]])
        place = np.searchsorted(bins, rank, side="right") - 1
        # A draw more for the word itself, one for all the other ranks, and one for each bin.
        counts = np.ones((groups, len(bins)))
        counts[:, 1 : len(first) - 1] = 1 / max(1, len(first) - 2)
        np.add.at(counts, (group[inputs], place), 1.0)
        made = cls(near, group, counts / counts.sum(1, keepdims=True))
        made.vocabulary, made.inputs = mechanism.vocabulary, getattr(mechanism, "inputs", None)
        return made

    @torch.inference_mode()
    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        apart = self.distances.to(x).numpy()
        rows = self._beyond(apart, self._radii[x].T[..., None], self._group[x][:, None])
        close = self._rows[x].tocoo()
        rows[close.row, close.col] = close.data
        return rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)  # words of one vector

    @torch.inference_mode()
    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        apart = self.distances.to(y).numpy()  # from x as from y
        columns = self._beyond(apart, self._radii.T[:, None, :], self._group[None])
        close = self._columns[:, y].tocoo()
        columns[close.col, close.row] = close.data
        return columns

    def _beyond(self, apart: FloatArray, radii: FloatArray, group: IntArray) -> FloatArray:
        """log P of words so far apart, in the bin of the largest radius that they pass."""
        if not self._far.size:  # the ranks are all there are
            return np.full(apart.shape, -np.inf)
        place = np.zeros(apart.shape, dtype=np.int8)
        for radius in radii:
            place += apart >= radius
        return self._far[group, place]


class Neighbours(NamedTuple):
    """The words around every word of a vocabulary.

    words : (size, ranks) ids, each word itself first, then the nearest
    gap : (size,) distance of the nearest other word
    edges : (bins + 1,) ranks at which bins begin, each twice as far as the one before; the size
    radii : (size, bins - 1) distances at which all but the first do
    """

    distances: Distances
    words: IntArray
    gap: FloatArray
    edges: IntArray
    radii: FloatArray


@lru_cache(maxsize=1)
def _neighbours(embedding: Embedding, ranks: int) -> Neighbours:
    """In one pass over all distances, which no epsilon changes: a minute for 34,000 words."""
    size, distances = len(embedding), embedding.distances
    edges = ranks * 2 ** np.arange(max(0, math.ceil(math.log2(size / ranks))))
    words = np.empty((size, ranks), dtype=np.int64)
    further = edges[1:]
    gap, radii = np.zeros(size), np.empty((size, len(further)))
    for part in np.array_split(np.arange(size), -(-size * 8 * size // ROW_BYTES)):
        apart, row = distances.to(part).numpy(), np.arange(len(part))[:, None]
        apart[row[:, 0], part] = -1.0  # itself first, before other words of its vector
        near = np.argpartition(apart, ranks - 1, axis=1)[:, :ranks]
        words[part] = near[row, apart[row, near].argsort(axis=1)]
        apart.sort(axis=1)
        gap[part] = apart[:, min(1, size - 1)]
        radii[part] = (apart[:, further - 1] + apart[:, further]) / 2  # between two words
    return Neighbours(distances, words, gap, np.append(edges, size), radii)


# --- A channel for any mechanism ----------------------------------------------------------------


def channel_of(
    mechanism: object, words: IntArray | None = None, *, prior: FloatArray | None = None
) -> Channel:
    """P(y|x) of a mechanism that replaces words: exact where there is one, or an estimate.

    That of noise takes half a minute for a large vocabulary, once: it lies in the cache then. Any
    other mechanism is run on public words (`RankChannel`), which takes as long each time.

    Parameters
    ----------
    words : public text, ids, on which a mechanism is run; None: words drawn by the prior
    prior : (size,) weights >= 0 of the words; None: Zipf's law

    Raises
    ------
    InvalidInput : no such mechanism, or noise that cannot be estimated
    """
    check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
    if isinstance(mechanism, Channel):
        return mechanism
    assert isinstance(mechanism, Mechanism)
    if isinstance(mechanism, Madlib):
        return _estimated(mechanism)
    rng = np.random.default_rng(0)
    if words is None:
        law = zipf(mechanism) if prior is None else prior
        words = rng.choice(mechanism.size, _DRAWN, p=law / law.sum())
    return RankChannel.estimate(mechanism, words, rng)


def zipf(channel: Channel | Mechanism) -> FloatArray:
    """Weights of a vocabulary that is ordered by frequency: 1 / (rank + 2.7), Mandelbrot's form."""
    return is_input(channel) / (np.arange(channel.size) + 2.7)


def _estimated(mechanism: Madlib) -> NoiseChannel:
    """The estimate for a noise, from the cache where it was made before."""
    vectors = mechanism.embedding.vectors
    metric = mechanism.stretched(np.eye(vectors.shape[1]))
    bits = [hashlib.sha256(each.tobytes()).hexdigest() for each in (vectors, metric)]
    key = canonical_json(["noise channel, version 1", *bits, mechanism.epsilon, DIRECTIONS])

    def build(folder: Path) -> None:
        made = NoiseChannel.estimate(
            mechanism, [mechanism.epsilon], np.random.default_rng(0), directions=DIRECTIONS
        )[mechanism.epsilon]
        np.savez(folder / "channel.npz", **made.parameters(), allow_pickle=False)

    folder = assets.derived("noise-channel", key=key, build=build)
    with np.load(folder / "channel.npz", allow_pickle=False) as kept:
        channel = NoiseChannel(
            mechanism.embedding.distances,
            kept=kept["kept"],
            reach=float(kept["reach"]),
            decay=float(kept["decay"]),
            log_normalizers=kept["log_normalizers"],
        )
    channel.vocabulary = mechanism.vocabulary
    return channel
