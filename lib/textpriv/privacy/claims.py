"""Claims as numbers: how large a loss each mechanism admits between two words.

    claimed = claimed_loss(mechanism)
    claimed.between(words, others)      bounds of aligned pairs, in nats; inf where none is claimed
    claimed.largest()                   the worst pair of the vocabulary

`mechanism.claim` says it in words, and by its `loss` which of the ordinary claims it is; any other
has a function here. The audits hold what a mechanism does against these numbers, so they are
worked out from the public vectors alone, by differences of rows, and share nothing with the code
that draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from textpriv.channel import FloatArray, IntArray, check_aligned, check_ids
from textpriv.checks import described
from textpriv.errors import InvalidInput
from textpriv.mechanisms import CusText, Mahalanobis, Mechanism, SanTextPlus
from textpriv.mechanisms.allotted import Allotted
from textpriv.mechanisms.base import Claim, check_epsilon
from textpriv.mechanisms.clusant import CluSanT
from textpriv.mechanisms.diffractor import Diffractor
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.polar import Polar
from textpriv.mechanisms.prompt import Limits
from textpriv.mechanisms.rantext import RanText
from textpriv.neighbors import Distances

PAIR = "words", "others"  # what two aligned arrays of ids are called
_ROWS = 256  # of distances to all words held at once


class ClaimedLoss(ABC):
    """Largest |ln P(y|w) - ln P(y|w')| that is claimed for two words, over all outputs y.

    Attributes
    ----------
    size : of the vocabulary
    protected : words that have a finite bound with some other word
    per : what epsilon is counted by; of bounds that grow with a distance its unit as well
    """

    size: int
    protected: IntArray
    per = "word"

    @abstractmethod
    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        """Bounds of aligned pairs: (pairs,), 0 for a word and itself, inf for no bound."""

    @abstractmethod
    def largest(self) -> float:
        """Bound of the worst pair among the words that are protected."""

    def pairs(self) -> tuple[IntArray, IntArray] | None:
        """Every pair that has a bound, where groups decide that; None where all protected do."""
        return None

    def parts(self) -> list[IntArray]:
        """The protected words, parted so that any two of a part have a bound."""
        return [self.protected]

    def rows(self, words: IntArray) -> FloatArray:
        """Bounds between some words and all: (len(words), size)."""
        ids = check_ids(words, self.size, what="words")
        every = np.arange(self.size)
        return np.stack([self.between(np.full(self.size, word), every) for word in ids])


class _Scaled(ClaimedLoss):
    """epsilon times the Euclidean distance of some points, between the words that are protected."""

    def __init__(
        self,
        points: NDArray[np.floating],
        epsilon: float,
        protected: IntArray | None = None,
        per: str = "word and unit of distance",
    ) -> None:
        self.per, self.points, self.epsilon = per, np.asarray(points, dtype=np.float64), epsilon
        self.size = len(points)
        self.distances = Distances(self.points)
        self.protected = np.arange(self.size) if protected is None else protected

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = check_aligned(words, others, self.size, names=PAIR)
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
    """One bound between the words of a group; alone in its group, a word has none."""

    def __init__(self, group: IntArray, epsilon: float) -> None:
        _, self.group, members = np.unique(group, return_inverse=True, return_counts=True)
        self.epsilon, self.size = epsilon, len(group)
        self.protected = np.flatnonzero(members[self.group] > 1)
        self.several = int((members > 1).sum()) != 1

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = check_aligned(words, others, self.size, names=PAIR)
        together = self.group[x] == self.group[z]
        return np.where(x == z, 0.0, np.where(together, self.epsilon, np.inf))

    def largest(self) -> float:
        return self.epsilon if len(self.protected) else np.inf

    def pairs(self) -> tuple[IntArray, IntArray] | None:
        if not self.several:
            return None
        one = (np.ones(self.size, dtype=bool), (np.arange(self.size), self.group))
        member = scipy.sparse.csr_array(one)
        first, second = scipy.sparse.triu(member @ member.T, 1).nonzero()
        order = np.lexsort((second, first))
        return first[order].astype(np.int64), second[order].astype(np.int64)


class _Clusters(ClaimedLoss):
    """epsilon (K |c - c'| + min(1, d / D)): c, c' centroids of two words, D the least diameter."""

    per = "word inside a cluster, and unit of distance between clusters"

    def __init__(
        self, points: NDArray[np.floating], cluster: IntArray, scale: float, epsilon: float
    ) -> None:
        self.points, self.cluster = np.asarray(points, dtype=np.float64), cluster
        self.epsilon, self.size = epsilon, len(points)
        self.protected = np.arange(self.size)
        self.distances = Distances(self.points)
        self.members = [np.flatnonzero(cluster == each) for each in range(cluster.max() + 1)]
        centroids = np.array([self.points[each].mean(0) for each in self.members])
        self.apart = scale * cdist(centroids, centroids)
        diameters = [diameter(self.points[each]) for each in self.members]
        self.least = min((each for each in diameters if each > 0), default=np.inf)

    def _bound(self, apart: FloatArray, distance: FloatArray) -> FloatArray:
        bound: FloatArray = self.epsilon * (apart + np.minimum(1.0, distance / self.least))
        return bound

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = check_aligned(words, others, self.size, names=PAIR)
        distance = np.linalg.norm(self.points[x] - self.points[z], axis=1)
        return self._bound(self.apart[self.cluster[x], self.cluster[z]], distance)

    def rows(self, words: IntArray) -> FloatArray:
        ids = check_ids(words, self.size, what="words")
        apart = self.apart[self.cluster[ids]][:, self.cluster]
        return self._bound(apart, self.distances.to(ids).numpy())

    def largest(self) -> float:
        best = 0.0
        for pair in np.argsort(-self.apart, axis=None, kind="stable").tolist():
            one, other = divmod(pair, len(self.apart))
            if self.epsilon * (self.apart[one, other] + 1) <= best:
                break  # no pair of clusters that is left can be worse
            words = self.members[one]
            for part in np.array_split(words, -(-len(words) // _ROWS)):
                best = max(best, float(self.rows(part)[:, self.members[other]].max()))
        return best


class _Steps(ClaimedLoss):
    """epsilon times the most steps between two words in any of several lists of all words."""

    per = "word and step of a list"

    def __init__(self, place: IntArray, epsilon: float) -> None:
        self.place, self.epsilon, self.size = place, epsilon, place.shape[1]
        self.protected = np.arange(self.size)

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = check_aligned(words, others, self.size, names=PAIR)
        bound: FloatArray = self.epsilon * np.abs(self.place[:, x] - self.place[:, z]).max(0)
        return bound

    def largest(self) -> float:
        return self.epsilon * (self.size - 1)  # from one end of a list to the other


class _ByGroup(ClaimedLoss):
    """The claim of a group between its words, and none between groups."""

    def __init__(self, group: IntArray, inside: Sequence[ClaimedLoss]) -> None:
        self.group, self.inside, self.size = group, inside, len(group)
        kept = [each.protected[group[each.protected] == at] for at, each in enumerate(inside)]
        # Alone in its group, a word has no bound.
        self.protected = np.unique(np.concatenate([each for each in kept if len(each) > 1] or [[]]))
        self.protected = self.protected.astype(np.int64)

    def between(self, words: IntArray, others: IntArray) -> FloatArray:
        x, z = check_aligned(words, others, self.size, names=PAIR)
        result = np.where(x == z, 0.0, np.inf)
        for at, claim in enumerate(self.inside):
            both = np.flatnonzero((self.group[x] == at) & (self.group[z] == at))
            result[both] = claim.between(x[both], z[both])
        return result

    def parts(self) -> list[IntArray]:
        groups = self.group[self.protected]
        return [self.protected[groups == each] for each in np.unique(groups)]

    def largest(self) -> float:
        """inf where words of several groups are protected: no two of different groups have one."""
        if len(np.unique(self.group[self.protected])) != 1:
            return np.inf
        words = self.protected
        parts = np.array_split(words, -(-len(words) // _ROWS))
        return max(float(self.rows(part)[:, words].max()) for part in parts)


@singledispatch
def claimed_loss(mechanism: Mechanism) -> ClaimedLoss:
    """The claim of a mechanism as numbers: what `claim.loss` says, or a function of this module.

    Raises
    ------
    InvalidInput : a mechanism whose claim says no `loss`, and which is not registered here
    """
    ordinary = isinstance(mechanism, Mechanism) and _ordinary(mechanism, mechanism.claim)
    if not ordinary:
        raise InvalidInput(
            f"mechanism: got {described(mechanism)}, expected one whose claim is known, made with "
            "its epsilon; say the `loss` of its claim, or add your own with claimed_loss.register"
        )
    return ordinary


@singledispatch
def published_loss(mechanism: Mechanism) -> ClaimedLoss:
    """The stronger reading of a mechanism, as numbers; see `Mechanism.published`.

    Raises
    ------
    InvalidInput : a mechanism without such a claim, or one whose claim says no `loss`
    """
    published = mechanism.published
    ordinary = published and _ordinary(mechanism, published)
    if not ordinary:
        raise InvalidInput(
            f"mechanism: got {mechanism.name}, expected one with a `published` claim that says its "
            "`loss`; what it keeps is claimed_loss(mechanism)"
        )
    return ordinary


@published_loss.register
def _(mechanism: CluSanT) -> ClaimedLoss:
    # The paper's embedding stretches the centroids apart by K, with their words around them.
    centroids = mechanism.centroids[mechanism.cluster]
    points = mechanism.embedding.vectors + (mechanism.cluster_scale - 1) * centroids
    return _Scaled(points, 2 * mechanism.epsilon)


def _ordinary(mechanism: Mechanism, claim: Claim) -> ClaimedLoss | None:
    """A claim by its `loss`; None where it says none."""
    if claim.loss == "distance":
        return _Scaled(mechanism.embedding.vectors, mechanism.epsilon, mechanism.inputs)
    if claim.loss == "constant":
        group = np.arange(mechanism.size)  # a word that passes in clear is alone
        group[slice(None) if mechanism.inputs is None else mechanism.inputs] = mechanism.size
        return _Groups(group, mechanism.epsilon)
    return None


@claimed_loss.register
def _(mechanism: Mahalanobis) -> ClaimedLoss:
    x = mechanism.embedding.vectors.astype(np.float64)
    # |L^-1 (x - x')|^2 = (x - x')' A^-1 (x - x') with A = L L'.
    return _Scaled(np.linalg.solve(metric_root(mechanism), x.T).T, mechanism.epsilon)


def metric_root(mechanism: Mechanism) -> FloatArray:
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
    words = np.arange(mechanism.size)
    present = mechanism.candidates >= 0
    alone = (present.sum(1) == 1) | (mechanism.mapping == "aggressive")
    lowest = np.where(present, mechanism.candidates, mechanism.size).min(1)
    return _Groups(np.where(alone, mechanism.size + words, lowest), mechanism.epsilon)


@claimed_loss.register
def _(mechanism: CluSanT) -> ClaimedLoss:
    points, scale = mechanism.embedding.vectors, mechanism.cluster_scale
    return _Clusters(points, mechanism.cluster, scale, mechanism.epsilon)


@claimed_loss.register
def _(mechanism: Diffractor) -> ClaimedLoss:
    return _Steps(mechanism.place, mechanism.epsilon)


@claimed_loss.register
def _(mechanism: Polar) -> ClaimedLoss:
    points = mechanism.embedding.vectors.astype(np.float64)
    units = points / np.sqrt((points**2).sum(1, keepdims=True))
    return _Scaled(units, mechanism.epsilon / np.pi, per="word and pi of chord between directions")


@claimed_loss.register
def _(mechanism: RanText) -> ClaimedLoss:
    return _Groups(np.arange(mechanism.size), mechanism.epsilon)  # no two words have a bound


@claimed_loss.register
def _(mechanism: Allotted) -> ClaimedLoss:
    groups = range(len(mechanism.shares))
    return _ByGroup(mechanism.group, [claimed_loss(mechanism.at_group(each)) for each in groups])


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
