"""A mechanism's channel as an attacker learns it who can only run the mechanism.

    channel = RankChannel.estimate(Vickrey(madlib, t=0.75), public.ids, rng)
    Bayes(channel, prior).guess(observed)

Nobody has worked out P(y|x) of most mechanisms that choose among near words by noise. But whoever
knows the mechanism can sanitize public words as often as they like, and count. Single pairs are far
too many, so the outputs are counted by their rank: how many words are nearer to the input.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse

from textpriv.attacks.base import is_input
from textpriv.channel import Channel, FloatArray, IntArray, check_ids
from textpriv.checks import COUNT, check_generator, check_kind, checked
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Mechanism, simulation
from textpriv.neighbors import ExactSearch


class RankChannel(Channel):
    """An estimate of P(y|x) by the rank of y among the neighbours of x, 0 for x itself.

    Words fall into groups by the distance of their nearest neighbour, since noise takes a word in a
    crowd farther through the ranks. In a group all words have one law of ranks; beyond the last
    rank all words are alike.

    An attack that uses it is a real attack on the real outputs: what it achieves can be achieved, a
    lower bound on what an attacker achieves who knows the true probabilities. Neither its largest
    ratio of two rows nor a success computed from it says anything of the mechanism.

    Parameters
    ----------
    neighbours : (size, ranks) ids, each word itself first
    group : (size,) of every word, from 0 on
    law : (groups, ranks + 1) P(rank); last, that of all other words together
    """

    def __init__(self, neighbours: IntArray, group: IntArray, law: FloatArray) -> None:
        self.size, ranks = neighbours.shape
        with np.errstate(divide="ignore"):  # nothing is beyond the ranks of a small vocabulary
            beyond = np.log(law[:, -1]) - np.log(max(1, self.size - ranks))
            near = np.log(law[group, :ranks])
        self._beyond = beyond[group]
        row = np.repeat(np.arange(self.size), ranks)
        place, shape = (row, neighbours.ravel()), (self.size, self.size)
        self._rows = scipy.sparse.csr_array((near.ravel(), place), shape=shape)
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
        ranks : >= 1, that are told apart
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
        neighbours, gap = _neighbours(mechanism, ranks)
        group = np.searchsorted(np.quantile(gap[public], np.arange(1, groups) / groups), gap)
        inputs = rng.choice(public, draws)
        with simulation():
            outputs = mechanism.sanitize_ids(inputs, rng)
        found = neighbours[inputs] == outputs[:, None]
        ranks = neighbours.shape[1]  # fewer in a small vocabulary
        rank = np.where(found.any(1), found.argmax(1), ranks)
        counts = np.zeros((groups, ranks + 1))
        np.add.at(counts, (group[inputs], rank), 1.0)
        counts[:, 1:ranks] += 1 / ranks  # a draw more for all ranks together: none is impossible
        counts[:, 0] += 0.5
        counts[:, ranks] += 0.5 * (mechanism.size > ranks)
        made = cls(neighbours, group, counts / counts.sum(1, keepdims=True))
        made.vocabulary, made.inputs = mechanism.vocabulary, getattr(mechanism, "inputs", None)
        return made

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = np.repeat(self._beyond[x][:, None], self.size, axis=1)
        near = self._rows[x].tocoo()
        rows[near.row, near.col] = near.data
        return rows

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        columns = np.repeat(self._beyond[None], len(y), axis=0)
        near = self._columns[:, y].tocoo()
        columns[near.col, near.row] = near.data
        return columns


def _neighbours(mechanism: Mechanism, ranks: int) -> tuple[IntArray, FloatArray]:
    """The nearest words of every word, itself first: (size, ranks), and the distance to the next.

    Words of one vector are each the first of their own list.
    """
    vectors, own = mechanism.embedding.vectors, np.arange(mechanism.size)[:, None]
    found, distances = ExactSearch(vectors).nearest(vectors, min(ranks + 1, mechanism.size))
    others = np.argsort(found == own, axis=1, kind="stable")  # itself last, wherever it stood
    near = np.concatenate([own, np.take_along_axis(found, others, 1)], axis=1)
    gap = np.take_along_axis(distances, others[:, :1], 1)[:, 0]
    return near[:, : min(ranks, mechanism.size)], gap
