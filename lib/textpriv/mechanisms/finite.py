"""Mechanisms with an explicit P(y|x): SanText, SanText+, CusText, CusText+, TEM.

Each is an exponential mechanism on distances between word vectors and is its own channel:
it answers `log_rows`, `log_columns`, `sample`, `posterior`. Distances and probabilities are
float64; rows of the |V| x |V| table are made when asked for and never all at once.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp

from textpriv.channel import Channel, FloatArray, SparseChannel, check_ids, inverted
from textpriv.checks import (
    LEVEL,
    SHARE,
    StrOptions,
    check_count,
    check_integers,
    check_number,
    checked,
)
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import (
    METRIC_CLAIM,
    UNKNOWN_METRIC,
    Claim,
    IntArray,
    Mechanism,
)
from textpriv.neighbors import ExactSearch


class FiniteMechanism(Mechanism, Channel):
    """A mechanism that is its own channel."""

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        return self.sample(ids, rng)

    def sweep(self, epsilons: Iterable[float]) -> list[Self]:
        """The same mechanism at several epsilons, ready for attacks: what they share is made."""
        return [self.with_epsilon(epsilon) for epsilon in epsilons]


class Normalized(FiniteMechanism):
    """P(y|x) is a weight over the sum of such weights, which takes all distances of x.

    An attack needs the sums of all words. Distances do not depend on epsilon, so that several
    epsilons share one pass over them.
    """

    @abstractmethod
    def _normalizers_of(self, others: Sequence[Self]) -> FloatArray:
        """Logarithms of the sums of such mechanisms as this one: (mechanisms, ...)."""

    @cached_property
    def _log_normalizers(self) -> FloatArray:
        return self._normalizers_of([self])[0]

    def sweep(self, epsilons: Iterable[float]) -> list[Self]:
        others = super().sweep(epsilons)
        for other, normalizers in zip(others, self._normalizers_of(others), strict=True):
            other.__dict__["_log_normalizers"] = normalizers
        return others


class _DistanceMechanism(Normalized):
    """P(y|x) proportional to exp(-energy(d(x,y))) over the words that may be output."""

    def __init__(
        self, embedding: Embedding, *, epsilon: float, outputs: IntArray | None = None
    ) -> None:
        super().__init__(embedding, epsilon=epsilon)
        self.distances = embedding.distances
        self.outputs = outputs  # None: all words
        self._to_outputs = self.distances.towards(outputs)

    @abstractmethod
    def _energy(self, distance: torch.Tensor) -> torch.Tensor:
        """Negative logarithm of the unnormalised probability (may overwrite its argument)."""

    def _log_weights(self, inputs: IntArray) -> torch.Tensor:
        return self._energy(self._to_outputs(inputs)).neg_()

    @torch.inference_mode()
    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        weights = self._log_weights(x)
        log_probability = weights.sub_(torch.logsumexp(weights, dim=1, keepdim=True)).numpy()
        if self.outputs is None:
            return log_probability
        rows = np.full((len(x), self.size), -np.inf)
        rows[:, self.outputs] = log_probability
        return rows

    @torch.inference_mode()
    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        # d(x, y) = d(y, x), so that the energies of a column are those of a row.
        columns = -self._energy(self.distances.to(y)).numpy() - self._log_normalizers
        if self.outputs is not None:
            columns[~np.isin(y, self.outputs)] = -np.inf
        return columns

    def _joint(self, inputs: IntArray, log_prior: FloatArray) -> Callable[[IntArray], FloatArray]:
        given = torch.from_numpy(log_prior - self._log_normalizers[inputs])
        distances_to = self.distances.towards(inputs)

        def joint(outputs: IntArray) -> FloatArray:
            rows = (given - self._energy(distances_to(outputs))).numpy()
            if self.outputs is not None:
                rows[~np.isin(outputs, self.outputs)] = -np.inf
            return rows

        return joint

    @torch.inference_mode()
    def _normalizers_of(self, others: Sequence[Self]) -> FloatArray:
        """log of the sum of weights of every row: (mechanisms, size)."""
        result = np.empty((len(others), self.size))
        for start in range(0, self.size, self.row_chunk):
            rows = np.arange(start, min(start + self.row_chunk, self.size))
            distance = self._to_outputs(rows)
            scratch = torch.empty_like(distance)  # new memory for each step would cost more
            for row, other in zip(result, others, strict=True):
                weight = other._energy(scratch.copy_(distance)).neg_()
                highest = weight.amax(1, keepdim=True)
                total = weight.sub_(highest).exp_().sum(1)
                row[rows] = (total.log_() + highest[:, 0]).numpy()
        return result

    @torch.inference_mode()
    def _cumulative(self, inputs: IntArray) -> FloatArray:
        weights = self._log_weights(inputs)
        weights.sub_(weights.amax(1, keepdim=True)).exp_()
        return weights.cumsum_(1).numpy()


def least_frequent(counts: NDArray[np.integer], fraction: float) -> IntArray:
    """Ids of the least frequent `fraction` of a vocabulary, rarest first, then the higher id."""
    share = check_number(fraction, SHARE, what="fraction")
    frequency = check_integers(counts, what="counts")
    order = np.lexsort((-np.arange(len(frequency)), frequency))
    return order[: round(share * len(frequency))]


class SanText(_DistanceMechanism):
    """Exponential mechanism on Euclidean distance: P(y|x) proportional to exp(-eps d(x,y) / 2).

    Parameters
    ----------
    embedding : the public vocabulary; taken from the private corpus (as released code
        does) it voids the claim
    epsilon : in units of 1/distance

    References
    ----------
    Yue et al. 2021, Algorithm 1.
    """

    name = "santext"
    claim = dataclasses.replace(
        METRIC_CLAIM,
        composition="sum of eps * d; bounded-range composition is tighter",
        bounded_range=True,
    )

    def _energy(self, distance: torch.Tensor) -> torch.Tensor:
        return distance.mul_(self.epsilon / 2)


class SanTextPlus(SanText):
    """SanText that spares frequent words.

    Outputs come from the sensitive words V_S. A sensitive word is replaced as in SanText; any
    other word is replaced with probability `replace`, else it stays in clear.

    Parameters
    ----------
    sensitive : ids of V_S, see `least_frequent`; Tong et al. take 99.9% of the vocabulary
    replace : in [0, 1]; Tong et al. take 0
    embedding, epsilon : see `SanText`

    References
    ----------
    Yue et al. 2021, Algorithm 2.
    """

    name = "santext+"
    claim = Claim(
        definition=(
            "metric differential privacy between sensitive words: "
            "P(M(w)=y) <= exp(eps * d(w,w')) * P(M(w')=y)"
        ),
        protects="one sensitive word against another, the less the greater their distance d",
        unit="1 / Euclidean distance of the embedding",
        in_clear=(
            "the number of tokens; which of them are sensitive; the others as they are "
            "(with probability 1 - replace)"
        ),
        unknown="treated as sensitive: " + UNKNOWN_METRIC + "; from other words as such",
        composition="sum of eps * d over the sensitive words of texts that agree elsewhere",
        bounded_range=True,
    )

    def __init__(
        self,
        embedding: Embedding,
        *,
        epsilon: float,
        sensitive: IntArray,
        replace: float = 0.0,
    ) -> None:
        ids = np.unique(check_ids(sensitive, len(embedding), what="sensitive"))
        if not len(ids):
            raise InvalidInput("sensitive: got no word, expected at least one to choose from")
        super().__init__(embedding, epsilon=epsilon, outputs=ids)
        self.replace = check_number(replace, SHARE, what="replace")
        self.is_sensitive = np.zeros(self.size, dtype=bool)
        self.is_sensitive[ids] = True
        self.inputs = ids if self.replace == 0 else None

    @property
    def fallback(self) -> IntArray:
        return np.flatnonzero(self.is_sensitive)

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = super().log_rows(x)
        spared = np.flatnonzero(~self.is_sensitive[x])
        with np.errstate(divide="ignore"):
            rows[spared] += np.log(self.replace)
            rows[spared, x[spared]] = np.log1p(-self.replace)
        return rows

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        columns = super().log_columns(y)
        with np.errstate(divide="ignore"):
            columns[:, ~self.is_sensitive] += np.log(self.replace)
            spared = np.flatnonzero(~self.is_sensitive[y])
            columns[spared, y[spared]] = np.log1p(-self.replace)
        return columns

    def _joint(self, inputs: IntArray, log_prior: FloatArray) -> Callable[[IntArray], FloatArray]:
        # Words that may pass in clear have another law; then the columns are made whole.
        plain = self.replace == 0 and self.is_sensitive[inputs].all()
        return (SanText if plain else Channel)._joint(self, inputs, log_prior)

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        replaced = self.is_sensitive[x] | (rng.random(len(x)) < self.replace)
        result = x.copy()
        # A word that is replaced draws from the same law, sensitive or not.
        result[replaced] = super().sample(x[replaced], rng)
        return result


class TEM(_DistanceMechanism):
    """Truncated exponential mechanism: words beyond a distance gamma share one weight.

    P(y|x) proportional to exp(-(eps/2) min(d(x,y), gamma)),
    gamma = (2/eps) ln((1 - beta)(|V| - 1) / beta): the word comes from within gamma with
    probability at least 1 - beta. This is the closed form of drawing with Gumbel noise among
    the near words and one element that stands for all far ones.

    Parameters
    ----------
    beta : in (0, 1), probability allowed to the far words
    embedding, epsilon : see `SanText`

    References
    ----------
    Carvalho et al. 2021, Algorithm 1.
    """

    name = "tem"
    claim = SanText.claim

    def __init__(self, embedding: Embedding, *, epsilon: float, beta: float = 0.001) -> None:
        super().__init__(embedding, epsilon=epsilon)
        self.beta = check_number(beta, LEVEL, what="beta")

    @property
    def gamma(self) -> float:
        """Distance beyond which all words weigh the same."""
        odds = (1 - self.beta) * (self.size - 1) / self.beta
        return max(0.0, 2 / self.epsilon * float(np.log(odds)))

    def _energy(self, distance: torch.Tensor) -> torch.Tensor:
        return distance.clamp_max_(self.gamma).mul_(self.epsilon / 2)


class CusText(SparseChannel, FiniteMechanism):
    """Customised output sets: every word is replaced by one of K words.

    The score of y for x is u = -(d - min) / (max - min) over the set of x, d the Euclidean
    distance, and P(y|x) is proportional to exp(eps u / 2).

    Parameters
    ----------
    set_size : K >= 2, at most the vocabulary
    mapping : "aggressive": the K nearest words of each word, which overlap. Supports differ,
        so no finite epsilon holds between words; it is what Tong et al. attack.
        "conservative": disjoint groups of K, made greedily in the order of the vocabulary;
        epsilon-DP between the members of a group, which late groups fill with far words.
    embedding : see `Mechanism`
    epsilon : without a unit, since scores are scaled to [0, 1]

    References
    ----------
    Chen et al. 2023, section 3.
    """

    @checked(mapping=StrOptions({"aggressive", "conservative"}))
    def __init__(
        self,
        embedding: Embedding,
        *,
        epsilon: float,
        set_size: int = 20,
        mapping: Literal["aggressive", "conservative"] = "aggressive",
    ) -> None:
        super().__init__(embedding, epsilon=epsilon)
        check_count(set_size, 2, self.size, what="set_size")
        self.set_size, self.mapping = int(set_size), mapping
        sets = nearest_sets if mapping == "aggressive" else greedy_groups
        self.candidates = sets(embedding.vectors, self.set_size)
        self.name = f"custext-{mapping}"
        self.scores = self._scores()

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        conservative = self.mapping == "conservative"
        return Claim(
            definition=(
                "local differential privacy within a group: P(M(w)=y) <= exp(eps) * P(M(w')=y)"
                if conservative
                else "none: the output sets of two words differ, so no finite eps holds"
            ),
            protects=(
                "one word against another word of its group"
                if conservative
                else "no pair of words in general"
            ),
            unit="none (scores are scaled to [0, 1])",
            in_clear="the number of tokens, and "
            + (
                "the group of every word"
                if conservative
                else "that each word is one of the few that can become the word sent"
            ),
            unknown="cannot be told apart from each other; from a known word without bound",
            composition="eps per word within groups" if conservative else "none",
            bounded_range=conservative,
        )

    def _scores(self) -> FloatArray:
        """u(x, y) in [-1, 0] for every candidate; -inf where there is none."""
        points, present = self.embedding.vectors, self.candidates >= 0
        distance = np.empty(self.candidates.shape)
        for start in range(0, self.size, 2048):
            block = slice(start, start + 2048)
            exact = points[block].astype(np.float64)
            offset = points[self.candidates[block]] - exact[:, None]
            distance[block] = np.linalg.norm(offset, axis=2)
        low = np.where(present, distance, np.inf).min(1, keepdims=True)
        high = np.where(present, distance, -np.inf).max(1, keepdims=True)
        span = np.where(high > low, high - low, 1.0)
        return np.where(present, -(distance - low) / span, -np.inf)

    @cached_property
    def log_probabilities(self) -> FloatArray:
        """log P(candidate | word): (size, set_size)."""
        weights = np.full(self.scores.shape, -np.inf)
        np.multiply(self.epsilon / 2, self.scores, out=weights, where=self.candidates >= 0)
        return weights - logsumexp(weights, axis=1, keepdims=True)

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """P(y|x) as a sparse (size, size) matrix."""
        return self._at_candidates(np.exp(self.log_probabilities))

    @cached_property
    def log_matrix(self) -> scipy.sparse.csr_array:
        """log P(y|x) of the candidates, which does not underflow."""
        return self._at_candidates(self.log_probabilities)

    def _at_candidates(self, values: FloatArray) -> scipy.sparse.csr_array:
        """Values of the candidates at their place in a sparse (size, size) matrix."""
        present = self.candidates >= 0
        rows = np.repeat(np.arange(self.size), present.sum(1))
        entries = (values[present], (rows, self.candidates[present]))
        return scipy.sparse.csr_array(entries, shape=(self.size, self.size))

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")

        def cumulative(words: IntArray) -> FloatArray:
            return np.cumsum(np.exp(self.log_probabilities[words]), axis=1)

        return self.candidates[x, inverted(x, rng.random(len(x)), cumulative, 1 << 16)]


class CusTextPlus(CusText):
    """CusText that leaves stopwords in clear.

    Parameters
    ----------
    stopwords : words kept as they are; those outside the vocabulary do not matter
    embedding, epsilon, options : see `CusText`

    References
    ----------
    Chen et al. 2023, section 3.3 ("CusText+").
    """

    def __init__(
        self,
        embedding: Embedding,
        *,
        epsilon: float,
        stopwords: Iterable[str],
        **options: Any,
    ) -> None:
        super().__init__(embedding, epsilon=epsilon, **options)
        self.name = "custext+"
        if isinstance(stopwords, str):
            raise InvalidInput(f"stopwords: got the text {stopwords!r:.40}, expected a list")
        ids = embedding.ids(sorted(set(stopwords)))
        self.is_kept = np.zeros(self.size, dtype=bool)
        self.is_kept[ids[ids >= 0]] = True
        if self.is_kept.all():
            raise InvalidInput("stopwords: got all words, expected some word to sanitize")
        self.inputs = np.flatnonzero(~self.is_kept)
        kept = np.flatnonzero(self.is_kept)
        self.candidates[kept] = -1
        self.candidates[kept, 0] = kept
        self.scores[kept] = -np.inf
        self.scores[kept, 0] = 0.0

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        plain, spared = super().claim, " (stopwords excepted)" * (self.mapping == "conservative")
        shown = "; which words are stopwords"
        return dataclasses.replace(
            plain, protects=plain.protects + spared, in_clear=plain.in_clear + shown
        )

    @property
    def fallback(self) -> IntArray:
        return np.flatnonzero(~self.is_kept)


def nearest_sets(points: NDArray[np.floating], set_size: int) -> IntArray:
    """The `set_size` nearest words of every word, itself first: (words, set_size)."""
    # Small groups: many neighbours per query are found in nearly as many groups.
    nearest = ExactSearch(points, group=8).nearest(points, set_size)[0]
    own = np.arange(len(nearest))[:, None]
    # Words with the same vector stand in the order of their ids, perhaps all of them before it.
    nearest[(nearest != own).all(1), -1] = own[(nearest != own).all(1), 0]
    order = np.argsort(nearest != own, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1)


def greedy_groups(points: NDArray[np.floating], set_size: int) -> IntArray:
    """Disjoint groups: the first free word and its nearest free words, and so on.

    Returns
    -------
    (words, set_size or one more) members of every word's group, -1 where there are fewer. The
    last group holds what is left over; a single word left over joins it, since alone it
    could only be replaced by itself.
    """
    size = len(points)
    exact = torch.from_numpy(np.asarray(points, dtype=np.float64))
    squared = (exact**2).sum(1)
    free_ids, table, half = torch.arange(size), exact, squared / 2
    is_free = torch.ones(size, dtype=torch.bool)
    width = set_size + (size % set_size == 1)
    groups = np.full((size, width), -1, dtype=np.int64)
    for word in range(size):
        if not is_free[word]:
            continue
        nearness = table @ exact[word] - half
        nearness[~is_free[free_ids]] = -torch.inf
        nearness[free_ids == word] = torch.inf  # first in its own group
        left = int(is_free.sum())
        count = left if left <= width else set_size
        members = free_ids[torch.topk(nearness, count).indices]
        is_free[members] = False
        groups[members.numpy(), :count] = members.numpy()
        if int(is_free.sum()) < 0.8 * len(free_ids):  # drop the rows that are taken
            free_ids = free_ids[is_free[free_ids]]
            table, half = exact[free_ids], squared[free_ids] / 2
    return groups
