"""Claims as numbers: how large a loss each mechanism admits between two words.

    claimed = claimed_loss(mechanism)
    claimed.between(words, others)      bounds of aligned pairs, in nats; inf where none is claimed
    claimed.largest()                   the worst pair of the vocabulary
    has_bounded_range(mechanism)        whether they are ranges too, see `accounting`

`mechanism.claim` says it in words. The audits hold what a mechanism does against these numbers,
so they are worked out here from the public vectors alone, by differences of rows, and share
nothing with the code that draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import described
from textpriv.errors import InvalidInput
from textpriv.mechanisms import (
    TEM,
    CusText,
    Madlib,
    Mahalanobis,
    Mechanism,
    SanText,
    SanTextPlus,
)
from textpriv.mechanisms.base import check_epsilon
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.prompt import Limits
from textpriv.mechanisms.sentences import DeepCandidate
from textpriv.neighbors import Distances

_ROWS = 256  # of distances to all words held at once


class ClaimedLoss(ABC):
    """Largest |ln P(y|w) - ln P(y|w')| that is claimed for two words, over all outputs y.

    Attributes
    ----------
    size : of the vocabulary
    protected : words that have a finite bound with some other word
    per_distance : whether the bound grows with a distance of the words
    """

    size: int
    protected: IntArray
    per_distance = False

    @abstractmethod
    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        """Bounds of aligned pairs: (pairs,), 0 for a word and itself, inf for no bound."""

    @abstractmethod
    def largest(self) -> float:
        """Bound of the worst pair among the words that are protected."""

    def pairs(self) -> tuple[IntArray, IntArray] | None:
        """Every pair that has a bound, where groups decide that; None where all protected do."""
        return None

    def rows(self, words: IntArray) -> FloatArray:
        """Bounds between some words and all: (len(words), size)."""
        ids = check_ids(words, self.size, what="words")
        every = np.arange(self.size)
        return np.stack([self.between(np.full(self.size, word), every) for word in ids])


class _Scaled(ClaimedLoss):
    """epsilon times the Euclidean distance of some points, between the words that are protected."""

    per_distance = True

    def __init__(
        self, points: NDArray[np.floating], epsilon: float, protected: IntArray | None = None
    ) -> None:
        self.points, self.epsilon = np.asarray(points, dtype=np.float64), epsilon
        self.size = len(points)
        self.distances = Distances(self.points)
        self.protected = np.arange(self.size) if protected is None else protected

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = _check_pairs(words, others, self.size)
        both = np.isin(x, self.protected) & np.isin(z, self.protected)
        bound = self.epsilon * np.linalg.norm(self.points[x] - self.points[z], axis=1)
        return np.where(both | (x == z), bound, np.inf)

    def rows(self, words: IntArray) -> FloatArray:
        ids = check_ids(words, self.size, what="words")
        bound = self.epsilon * self.distances.to(ids).numpy()
        bound[:, np.setdiff1d(np.arange(self.size), self.protected)] = np.inf
        bound[~np.isin(ids, self.protected)] = np.inf
        bound[np.arange(len(ids)), ids] = 0.0
        return bound

    def largest(self) -> float:
        return self.epsilon * diameter(self.points[self.protected])


class _Groups(ClaimedLoss):
    """One bound between words of which one is in the other's set; alone in it, a word has none."""

    def __init__(self, sets: IntArray, epsilon: float) -> None:
        self.sets, self.epsilon, self.size = sets, epsilon, len(sets)
        self.is_protected = (sets >= 0).sum(1) > 1
        self.protected = np.flatnonzero(self.is_protected)

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = _check_pairs(words, others, self.size)
        together = (self.sets[x] == z[:, None]).any(1) | (self.sets[z] == x[:, None]).any(1)
        together &= self.is_protected[x] & self.is_protected[z]
        return np.where(x == z, 0.0, np.where(together, self.epsilon, np.inf))

    def largest(self) -> float:
        return self.epsilon

    def pairs(self) -> tuple[IntArray, IntArray]:
        sets = self.sets
        pairs = np.stack([np.repeat(np.arange(len(sets)), sets.shape[1]), sets.ravel()])
        pairs = np.unique(np.sort(pairs[:, pairs[1] >= 0], axis=0), axis=1)
        first, second = pairs[:, pairs[0] != pairs[1]]
        claimed = np.isfinite(self.between(first, second))
        return first[claimed], second[claimed]


@singledispatch
def claimed_loss(mechanism: Mechanism) -> ClaimedLoss:
    """The claim of a mechanism as numbers.

    Raises
    ------
    InvalidInput : a mechanism whose claim nobody has written down here; register it
    """
    raise InvalidInput(
        f"mechanism: got {described(mechanism)}, expected one whose claim is known, made with its "
        "epsilon; add one of your own with claimed_loss.register"
    )


@claimed_loss.register(Madlib)
@claimed_loss.register(SanText)
@claimed_loss.register(TEM)
def _(mechanism: Madlib | SanText | TEM) -> ClaimedLoss:
    return _Scaled(mechanism.embedding.vectors, mechanism.epsilon)


@claimed_loss.register
def _(mechanism: Mahalanobis) -> ClaimedLoss:
    x = mechanism.embedding.vectors.astype(np.float64)
    # |L^-1 (x - x')|^2 = (x - x')' A^-1 (x - x') with A = L L'.
    return _Scaled(np.linalg.solve(metric_root(mechanism), x.T).T, mechanism.epsilon)


def metric_root(mechanism: Madlib) -> FloatArray:
    """L of the metric |L^-1 (x - x')| in which the claim measures: (dimension, dimension)."""
    if not isinstance(mechanism, Mahalanobis):
        return np.eye(mechanism.embedding.dimension)
    x = mechanism.embedding.vectors.astype(np.float64)
    covariance = np.atleast_2d(np.cov(x, rowvar=False))
    share = mechanism.strength
    shape = share * covariance * len(covariance) / np.trace(covariance)
    return np.linalg.cholesky(shape + (1 - share) * np.eye(len(covariance)))


@claimed_loss.register
def _(mechanism: AfterNoise) -> ClaimedLoss:
    return claimed_loss(mechanism.madlib)


@claimed_loss.register
def _(mechanism: SanTextPlus) -> ClaimedLoss:
    sensitive = np.flatnonzero(mechanism.is_sensitive)
    return _Scaled(mechanism.embedding.vectors, mechanism.epsilon, sensitive)


@claimed_loss.register
def _(mechanism: CusText) -> ClaimedLoss:
    if mechanism.mapping == "conservative":
        return _Groups(mechanism.candidates, mechanism.epsilon)
    return _Groups(np.arange(mechanism.size)[:, None], np.inf)  # every word alone: no bound


def has_bounded_range(mechanism: object) -> bool:
    """Whether claimed losses are bounded ranges as well: of exponential mechanisms, not of noise.

    P(y|w) is proportional to e^{s_w(y)} with scores that differ between two words by at most half
    the claimed loss in either direction; the normalisers shift all outputs alike.
    """
    if isinstance(mechanism, CusText):
        return mechanism.mapping == "conservative"
    return isinstance(mechanism, SanText | TEM | DeepCandidate)


def token_range(limits: Limits, temperature: float) -> float:
    """Bounded range of one token of DP-Prompt: the two widest limits together, over T.

    At most the paper's 2 max_i (h_i - l_i) / T, and not less than the tight loss. The clipped
    logits of two documents differ at token i by at most h_i - l_i, one way at one token and the
    other way at another; the normalisers shift all tokens alike.
    """
    temperature = check_epsilon(temperature, what="temperature")
    widths = np.sort(limits.high - limits.low)[-2:]
    return float(widths.sum() / temperature) if len(widths) > 1 else 0.0


def diameter(points: NDArray[np.floating]) -> float:
    """Largest Euclidean distance between two rows, exact in float64.

    Two rows are at most the sum of their distances from the mean apart, so that rows are taken
    from the outermost inwards until no pair that is left can be farther apart.
    """
    exact = np.asarray(points, dtype=np.float64)
    if exact.ndim != 2 or not len(exact):
        raise InvalidInput(f"points: got shape {exact.shape}, expected (rows >= 1, dimension)")
    length = np.linalg.norm(exact - exact.mean(0), axis=1)
    order = np.argsort(-length, kind="stable")
    distances, length = Distances(exact[order]), length[order]
    best = 0.0
    for start in range(0, len(exact), _ROWS):
        reach = int(np.searchsorted(-length, length[start] - best, side="right"))
        if reach <= start:
            break
        rows = np.arange(start, min(start + _ROWS, reach))
        best = max(best, float(distances.to(rows, np.arange(reach)).max()))
    return best


def _check_pairs(words: IntArray, others: IntArray, size: int) -> tuple[IntArray, IntArray]:
    x, z = check_ids(words, size, what="words"), check_ids(others, size, what="others")
    if x.shape != z.shape:
        raise InvalidInput(f"others: got {z.shape}, expected the words' shape {x.shape}")
    return x, z
