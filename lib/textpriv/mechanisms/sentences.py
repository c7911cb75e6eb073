"""Sentence-level mechanisms: what is put out for a document hides any one of its sentences.

    public, private = embed(encoder, public_texts), embed(encoder, texts)
    noisy = TruncatedLaplace(Box.learn(public), epsilon=10)
    noisy.sanitize(private, rng)                   # (documents, width) vectors
    chosen = DeepCandidate(public, learn_recoder(public), epsilon=10)
    chosen.sanitize(private, rng)                  # (documents,) each a public document's number

Both take a document for the set of its sentence vectors, whose number k is public. The first adds
noise to their mean. The second puts out a public document, the likelier the deeper it lies among
the sentences, and is a finite channel: `DeepCandidate.log_probability`.

The bounds hold in exact arithmetic; rounding to 53 bits and the generator's grid are left out of
account (Mironov 2012).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import COUNT, Interval, at_least, check_ends, check_kind, checked
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim, check_epsilon, entropy
from textpriv.models import Training, endless, fine_tune, held_out_documents
from textpriv.models.vectors import SentenceVectors
from textpriv.neighbors import random_directions
from textpriv.seeds import stream

Recode = Callable[[NDArray[np.floating]], FloatArray]

DOCUMENTS = 256  # documents held at once in float64
_CANDIDATES = 512  # candidates counted at once, so that the counts stay in the processor's cache
_DROPOUT = 0.5
_HELD_OUT = 0.1


class SentenceMechanism(ABC):
    """Puts out something else for every document, at random, given its sentence vectors.

    Parameters
    ----------
    width : coordinates of the sentence vectors
    epsilon : finite number > 0, for one sentence
    """

    name: str
    claim: Claim

    def __init__(self, width: int, *, epsilon: float) -> None:
        self.width, self.epsilon = width, check_epsilon(epsilon)

    def with_epsilon(self, epsilon: float) -> Self:
        """The same mechanism at another epsilon; what does not depend on it is shared."""
        other = copy.copy(self)
        other.epsilon = check_epsilon(epsilon)
        return other

    @abstractmethod
    def sanitize(
        self, sentences: SentenceVectors, rng: np.random.Generator | None = None
    ) -> NDArray[np.generic]:
        """One output per document.

        Without `rng` a generator (PCG64, not cryptographic) is seeded by the operating system.
        A known seed makes the output reproducible and therefore not private: with `rng` comes
        the warning `SeededOutput`.
        """

    def _check(self, sentences: SentenceVectors) -> None:
        _check_kind(sentences, what="sentences")
        if sentences.width != self.width:
            raise InvalidInput(
                f"sentences: got vectors of width {sentences.width}, expected {self.width}; embed "
                "public and private documents with the same encoder"
            )


def _check_kind(sentences: object, *, what: str) -> None:
    expected, do = "SentenceVectors", "see textpriv.models.vectors.embed"
    check_kind(sentences, SentenceVectors, what=what, expected=expected, do=do)


# --- Truncated Laplace --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Box:
    """Public limits of every coordinate.

    Parameters
    ----------
    low, high : (width,) finite, low < high
    """

    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        do = "learn them from more, and different, documents"
        check_ends(self.low, self.high, what="low, high", each="coordinate", rising=True, do=do)

    @classmethod
    @checked(share=Interval(Real, 0, 1, closed="right"))
    def learn(cls, public: SentenceVectors, *, share: float = 0.75) -> Self:
        """In each coordinate, the range of the public documents' means nearest to their median.

        The limits come from means of documents and clip single sentences, which spread more:
        many a coordinate of a sentence lies outside.

        Parameters
        ----------
        public : not private; Utpala et al. take 5,000 documents
        share : 0 < share <= 1 of the documents, the nearest to the median of the coordinate

        References
        ----------
        Meehan et al. 2022; Utpala et al. 2023, appendix C.2.
        """
        _check_kind(public, what="public")
        means = public.mean()
        distance = np.abs(means - np.median(means, axis=0))
        nearest = np.argsort(distance, axis=0, kind="stable")[: max(1, round(share * len(means)))]
        kept = np.take_along_axis(means, nearest, axis=0)
        return cls(kept.min(0), kept.max(0))

    @property
    def range(self) -> FloatArray:
        """high - low: (width,)."""
        result: FloatArray = self.high - self.low
        return result


class TruncatedLaplace(SentenceMechanism):
    """The mean of a document's clipped sentence vectors, with Laplace noise.

    Replacing one of k sentences moves coordinate j of the clipped mean by at most range_j / k.
    Noise of scale b_j = range_j * width / (k eps) lets that coordinate tell the two documents
    apart by at most (range_j / k) / b_j = eps / width, and all of them together by eps. Replacing
    all k sentences moves it by range_j, which costs k eps.

    Parameters
    ----------
    box : public limits
    epsilon : see `SentenceMechanism`

    References
    ----------
    Meehan et al. 2022; Utpala et al. 2023, appendix C.2.
    """

    name = "truncated-laplace"
    claim = Claim(
        definition="differential privacy: P(M(d) in S) <= exp(eps) * P(M(d') in S) for all "
        "documents d, d' of the same number of sentences that differ in one of them",
        protects="one sentence of a document, replaced by any other; a whole one of k sentences "
        "by k eps",
        unit="none (one sentence)",
        in_clear="the number of sentences of every document",
        unknown="no vocabulary; a document without a sentence counts as one empty sentence",
        composition="sum of eps over the sentences that differ and over repeated queries",
    )

    def __init__(self, box: Box, *, epsilon: float) -> None:
        check_kind(box, Box, what="box", expected="a Box", do="see Box.learn")
        super().__init__(len(box.low), epsilon=epsilon)
        self.box = box

    def clipped_mean(self, sentences: SentenceVectors) -> FloatArray:
        """What the noise is added to, not private: (documents, width), inside the box."""
        self._check(sentences)
        result = np.empty((len(sentences), self.width))
        for start in range(0, len(sentences), DOCUMENTS):
            offsets = sentences.offsets[start : start + DOCUMENTS + 1]
            # Each sentence is clipped: a clipped mean could move by all of range_j.
            clipped = np.clip(
                sentences.vectors[offsets[0] : offsets[-1]].astype(np.float64),
                self.box.low,
                self.box.high,
            )
            total = np.add.reduceat(clipped, offsets[:-1] - offsets[0], axis=0)
            result[start : start + DOCUMENTS] = total / np.diff(offsets)[:, None]
        return result

    def scale(self, sentences: SentenceVectors) -> FloatArray:
        """Scale of the noise, public as it depends on numbers of sentences: (documents, width)."""
        self._check(sentences)
        return self.box.range * self.width / (sentences.sizes[:, None] * self.epsilon)

    def sanitize(
        self, sentences: SentenceVectors, rng: np.random.Generator | None = None
    ) -> FloatArray:
        """A noisy vector per document: (documents, width)."""
        rng = entropy(rng)
        mean = self.clipped_mean(sentences)
        return mean + self.scale(sentences) * rng.laplace(size=mean.shape)


# --- Recoding -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Recoder:
    """Vectors as the last hidden layer of a network sees them, which was taught clusters.

    Parameters
    ----------
    network : from vectors to the last hidden layer, in evaluation mode
    width : coordinates of vectors, and of what they become
    accuracy : share of held-out public documents whose cluster the network tells
    """

    network: torch.nn.Module
    width: int
    accuracy: float

    @torch.inference_mode()
    def __call__(self, vectors: NDArray[np.floating]) -> FloatArray:
        """(n, width) >= 0 from (n, width)."""
        points = torch.from_numpy(np.asarray(vectors, dtype=np.float32))
        if points.ndim != 2 or points.shape[1] != self.width:
            raise InvalidInput(
                f"vectors: got shape {tuple(points.shape)}, expected (n, {self.width})"
            )
        return self.network(points).double().numpy()


@checked(clusters=at_least(2))
def learn_recoder(
    public: SentenceVectors,
    *,
    clusters: int = 50,
    training: Training | None = None,
    seed: int = 0,
) -> Recoder:
    """A recoder whose network tells which cluster of public documents a vector belongs to.

    Means of documents are clustered with k-means. A perceptron of three layers, as wide as the
    vectors, with dropout 0.5 learns the clusters from nine tenths of the documents. Documents of
    one cluster come to lie close together, so that a document's sentences have candidates
    between them.

    Parameters
    ----------
    public : not private; of more different documents than clusters
    clusters : >= 2
    training : None: 600 steps of 64 documents; its `dropout` is not used
    seed : of the clusters, the weights, the order and the dropout

    Notes
    -----
    Same seed, same recoder, on one machine; with another processor or number of threads the last
    digits of the weights differ.

    References
    ----------
    Meehan et al. 2022; Utpala et al. 2023, appendix C.2 (who keep the best of several states, and
    whose code has wider layers, the last of them linear, a rate of 1e-3 and 50 epochs).
    """
    _check_kind(public, what="public")
    means = public.mean().astype(np.float32)
    different = len(np.unique(means, axis=0))
    if different <= clusters:
        raise InvalidInput(
            f"public: got {different} different documents, expected more than the {clusters} "
            "clusters; give more documents or ask for fewer clusters"
        )
    training = Training(steps=600, batch=64, learning_rate=1e-2) if training is None else training
    draws = stream(seed, "recoder")
    cluster = KMeans(clusters, n_init=4, random_state=int(draws.integers(2**32))).fit_predict(means)
    hidden, last = _perceptron(public.width, clusters, int(draws.integers(2**62)))
    is_held = held_out_documents(len(means), _HELD_OUT, seed)
    order = endless(np.flatnonzero(~is_held), draws)
    points, truth = torch.from_numpy(means), torch.from_numpy(cluster.astype(np.int64))

    def loss(step: int) -> torch.Tensor:
        batch = torch.from_numpy(order(step * training.batch, (step + 1) * training.batch))
        return F.cross_entropy(last(hidden(points[batch])), truth[batch])

    def measure() -> float:
        predicted = last(hidden(points[is_held])).argmax(1)
        return float((predicted == truth[is_held]).double().mean())

    curve = fine_tune([hidden, last], loss, training, seed=seed, measure=measure)
    return Recoder(hidden.requires_grad_(False), public.width, curve.accuracy[-1])


def _perceptron(width: int, clusters: int, seed: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The hidden layers, and the last one that names the cluster."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        hidden = torch.nn.Sequential(
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Dropout(_DROPOUT),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
        )
        return hidden, torch.nn.Sequential(
            torch.nn.Dropout(_DROPOUT), torch.nn.Linear(width, clusters)
        )


# --- DeepCandidate ------------------------------------------------------------------------------


def tukey_depth(points: FloatArray, candidates: FloatArray) -> IntArray:
    """How deep each candidate lies among the points, along some directions: (candidates,) int64.

    Along a direction it is the number of points on the side of the candidate that has fewer,
    points level with it counted on both sides; the depth is the least of these numbers. It is
    at least Tukey's depth, which takes all directions.

    Replacing one point changes it by at most 1: it changes the number on either side by at most
    1, the lesser of two numbers by no more than the one that changes most, and so the least over
    the directions.

    Parameters
    ----------
    points, candidates : (directions, points) and (directions, candidates), where they are along
        each direction, at least one; sorting would not pay for so few points

    References
    ----------
    Tukey 1975; Gilad-Bachrach and Burges 2012.
    """
    count = points.shape[1]
    result = np.empty(candidates.shape[1], dtype=np.int64)
    for start in range(0, len(result), _CANDIDATES):
        place = candidates[:, start : start + _CANDIDATES]
        up_to, below = np.zeros(place.shape, dtype=np.int32), np.zeros(place.shape, dtype=np.int32)
        for point in points.T[:, :, None]:
            up_to += point <= place
            below += point < place
        result[start : start + _CANDIDATES] = np.minimum(up_to, count - below).min(0)
    return result


class DeepCandidate(SentenceMechanism):
    """A public document that lies deep among the recoded sentences of the private one.

    P(c | d) is proportional to exp(eps * depth(c) / 2), where depth is `tukey_depth` of the
    candidate among the sentences. As depth changes by at most 1 with one sentence, this is the
    exponential mechanism with the bound eps: the weight of c changes by a factor of at most
    exp(eps / 2), and their sum as well.

    Parameters
    ----------
    public : documents to choose from, not private; Utpala et al. take 5,000
    recode : what vectors are turned into before depths are computed; `learn_recoder` learns it.
        Every vector by itself, and without regard to private text. Candidates are recoded means
        of documents.
    epsilon : see `SentenceMechanism`
    directions : >= 1, drawn at random
    seed : of the directions, which are public

    Attributes
    ----------
    candidates : (candidates, recoded width) recoded means of the public documents

    Raises
    ------
    InvalidInput : a recoder that gives another number of vectors, or NaN

    Notes
    -----
    Few sentences in many dimensions have nearly no candidate between them. With 2,000 clothes
    reviews as candidates and 384 coordinates only one in seven other reviews, of five sentences
    on average, had one of depth above 0; for the rest the choice is uniform at any epsilon.

    References
    ----------
    Meehan et al. 2022; Utpala et al. 2023, appendix C.2.
    """

    name = "deep-candidate"
    claim = replace(
        TruncatedLaplace.claim,
        composition="sum of eps over the sentences that differ and over repeated queries; as an "
        "exponential mechanism it has eps-bounded range, so that n queries, chosen in the "
        "light of earlier answers or not, also satisfy (n eps^2 / 8)-zCDP",
        bounded_range=True,
    )

    @checked(directions=COUNT)
    def __init__(
        self,
        public: SentenceVectors,
        recode: Recode,
        *,
        epsilon: float,
        directions: int = 100,
        seed: int = 0,
    ) -> None:
        _check_kind(public, what="public")
        super().__init__(public.width, epsilon=epsilon)
        self._recode = recode
        self.candidates = self._recoded(public.mean())
        self._directions = random_directions(
            directions, self.candidates.shape[1], stream(seed, "deep-candidate", "directions")
        )
        self._places = self._directions @ self.candidates.T  # (directions, candidates)

    def depth(self, vectors: NDArray[np.floating]) -> IntArray:
        """Depth of every candidate among the sentences (sentences, width): (candidates,)."""
        document = np.asarray(vectors, dtype=np.float32)
        offsets = np.array([0, len(document)], dtype=np.int64)
        (depth,) = self._depths(SentenceVectors(document, offsets))
        return depth

    def log_probability(self, vectors: NDArray[np.floating]) -> FloatArray:
        """ln P(candidate | document), a row of the channel: (candidates,)."""
        return self._log_law(self.depth(vectors))

    def sanitize(
        self, sentences: SentenceVectors, rng: np.random.Generator | None = None
    ) -> IntArray:
        """Number of the public document that stands for each document: (documents,).

        It gives the public text to who sees text, and its vector, or the recoded one in
        `candidates`, to who sees vectors.
        """
        rng = entropy(rng)
        uniform = rng.random(len(sentences))
        result = np.empty(len(sentences), dtype=np.int64)
        for document, depth in enumerate(self._depths(sentences)):
            cumulative = np.cumsum(np.exp(self._log_law(depth)))
            drawn = np.searchsorted(cumulative, uniform[document] * cumulative[-1], side="right")
            result[document] = min(drawn, len(cumulative) - 1)  # where rounding passed the last
        return result

    def _log_law(self, depth: IntArray) -> FloatArray:
        scores = self.epsilon / 2 * depth
        result: FloatArray = scores - logsumexp(scores)
        return result

    def _depths(self, sentences: SentenceVectors) -> Iterator[IntArray]:
        """Depths of the candidates, document by document; recoded some hundred at a time."""
        self._check(sentences)
        for start in range(0, len(sentences), DOCUMENTS):
            offsets = sentences.offsets[start : start + DOCUMENTS + 1]
            recoded = self._recoded(sentences.vectors[offsets[0] : offsets[-1]])
            places = self._directions @ recoded.T
            for begin, end in zip(offsets[:-1] - offsets[0], offsets[1:] - offsets[0], strict=True):
                yield tukey_depth(places[:, begin:end], self._places)

    def _recoded(self, vectors: NDArray[np.floating]) -> FloatArray:
        recoded = np.asarray(self._recode(vectors), dtype=np.float64)
        if recoded.ndim != 2 or len(recoded) != len(vectors) or not np.isfinite(recoded).all():
            raise InvalidInput(
                f"recode: got shape {recoded.shape} for {len(vectors)} vectors, expected "
                f"({len(vectors)}, width) of finite numbers"
            )
        return recoded
