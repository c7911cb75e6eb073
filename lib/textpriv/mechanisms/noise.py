"""Noise, then the nearest word: MADLIB (d_X-privacy), Mahalanobis noise, rank repair.

A word's vector gets a random vector added, and the word nearest to the sum is the output.
The noise alone carries the guarantee; the look-up is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import numpy as np

from textpriv.channel import FloatArray, by_distinct
from textpriv.checks import SHARE, check_kind, check_number
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import (
    METRIC_CLAIM,
    Claim,
    IntArray,
    Mechanism,
    check_epsilon,
)
from textpriv.neighbors import ExactSearch, Search, random_directions

DRAW_CHUNK = 8192  # noisy vectors held at once
ROW_BYTES = 64 << 20  # distances held at once to find words of given ranks


class Madlib(Mechanism):
    """d_X-privacy for words: isotropic noise, then the nearest word.

    The noise is z = R u with u uniform on the sphere and R ~ Gamma(shape n, scale 1/epsilon),
    whose density is proportional to exp(-epsilon |z|).

    Parameters
    ----------
    embedding, epsilon : see `Mechanism`; epsilon is in units of 1/distance of the embedding
    search : index over the embedding's vectors; exact by default, which is the definition.
        An approximate index over a public vocabulary costs fidelity and not privacy.

    References
    ----------
    Feyisetan et al. 2020, Algorithm 1.
    """

    name = "madlib"
    claim = METRIC_CLAIM

    def __init__(
        self, embedding: Embedding, *, epsilon: float, search: Search | None = None
    ) -> None:
        super().__init__(embedding, epsilon=epsilon)
        self.search = ExactSearch(embedding.vectors) if search is None else search
        shape = getattr(search, "size", None), getattr(search, "dimension", None)
        if search is not None and shape != embedding.vectors.shape:
            raise InvalidInput(
                f"search: got an index of {shape[0]} x {shape[1]}, "
                f"expected one over the embedding, {embedding.vectors.shape}"
            )

    def noise(self, count: int, rng: np.random.Generator) -> FloatArray:
        """`count` independent noise vectors: (count, dimension)."""
        return next(self._noise(count, max(1, count), rng))

    def _noise(self, count: int, chunk: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """The same noise whatever the chunk: all lengths first, then the directions in order."""
        dimension = self.embedding.dimension
        length = rng.gamma(shape=dimension, scale=1 / self.epsilon, size=(count, 1))
        for start in range(0, max(1, count), chunk):
            part = length[start : start + chunk]
            yield self.stretched(part * random_directions(len(part), dimension, rng))

    def stretched(self, directions: FloatArray) -> FloatArray:
        """Isotropic vectors in the shape of this mechanism's noise: (count, dimension)."""
        return directions

    def noisy_vectors(self, ids: IntArray, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Vectors of the words plus noise, some thousand at a time."""
        start = 0
        for noise in self._noise(len(ids), DRAW_CHUNK, rng):
            yield self.embedding.vectors[ids[start : start + len(noise)]] + noise
            start += len(noise)

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        outputs = np.concatenate(
            [self.search.nearest(queries)[0][:, 0] for queries in self.noisy_vectors(ids, rng)]
        )
        none = outputs < 0  # an approximate index may find no row: any word, blindly
        outputs[none] = rng.integers(self.size, size=int(none.sum()))
        return outputs


class Mahalanobis(Madlib):
    """Noise that follows the shape of the vocabulary.

    z = R A^(1/2) u with A = strength * Sigma + (1 - strength) * I, where Sigma is the sample
    covariance of the vectors scaled to trace n. A word in a sparse region gets more noise
    along the directions in which the vocabulary spreads. The vector A^(1/2) u is not
    renormalised: that would void the guarantee.

    Parameters
    ----------
    strength : in [0, 1]; 0 is MADLIB, 1 the full covariance
    embedding, epsilon, search : see `Madlib`

    References
    ----------
    Xu et al. 2020; strength 1 in Utpala et al.'s comparison.
    """

    name = "mahalanobis"
    claim = replace(
        METRIC_CLAIM,
        loss=None,
        protects="one word against another, with d = sqrt(delta' A^-1 delta)",
        unit="1 / Mahalanobis distance of the embedding",
    )

    def __init__(
        self,
        embedding: Embedding,
        *,
        epsilon: float,
        strength: float = 1.0,
        search: Search | None = None,
    ) -> None:
        super().__init__(embedding, epsilon=epsilon, search=search)
        self.strength = check_number(strength, SHARE, what="strength")
        covariance = np.cov(embedding.vectors, rowvar=False, dtype=np.float64).reshape(
            embedding.dimension, embedding.dimension
        )
        if not np.trace(covariance) > 0:
            raise InvalidInput("embedding: got equal vectors only, expected some to differ")
        scaled = covariance * embedding.dimension / np.trace(covariance)
        shape = self.strength * scaled + (1 - self.strength) * np.eye(embedding.dimension)
        values, basis = np.linalg.eigh(shape)
        if values.min() <= 1e-10 * values.max():
            raise InvalidInput(
                "strength: the covariance is singular (fewer words than dimensions, or a constant "
                "coordinate), so that the claim has no metric; expected a strength below 1"
            )
        self.root = (basis * np.sqrt(values)) @ basis.T  # symmetric; once per mechanism

    def stretched(self, directions: FloatArray) -> FloatArray:
        return directions @ self.root


class AfterNoise(Mechanism):
    """A mechanism that chooses its output by MADLIB's noisy vector, and not by the word itself.

    Such a choice is post-processing: whatever it is, the guarantee of the noise stays.

    Parameters
    ----------
    madlib : the mechanism whose noise is used (or `Mahalanobis`)
    """

    def __init__(self, madlib: Madlib) -> None:
        check_kind(madlib, Madlib, what="madlib", expected="a Madlib")
        super().__init__(madlib.embedding, epsilon=madlib.epsilon)
        self.madlib = madlib

    def with_epsilon(self, epsilon: float) -> Self:
        other = super().with_epsilon(epsilon)
        other.madlib = self.madlib.with_epsilon(epsilon)
        return other

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        return self.madlib.claim


class RankRepair(AfterNoise):
    """A neighbour of random rank of MADLIB's output, in place of the output.

    MADLIB draws a word; the vocabulary is ranked by distance from that word (0 = the word itself),
    and rank k is drawn with probability proportional to exp(-c * epsilon * k). It spreads the
    output over near words.

    Parameters
    ----------
    madlib : see `AfterNoise`
    c : finite number > 0; Asghar et al. use 0.04 with GloVe 6B in 300 dimensions, the code that
        Carpentier et al. published later 0.006 with BART's table

    References
    ----------
    Asghar et al. 2024, as in its authors' code.
    """

    name = "rank-repair"

    def __init__(self, madlib: Madlib, *, c: float) -> None:
        super().__init__(madlib)
        self.c = check_epsilon(c, what="c")
        self.distances = self.embedding.distances

    def ranks(self, count: int, rng: np.random.Generator) -> IntArray:
        """`count` ranks in 0..size-1 from the truncated geometric law, by inversion."""
        rate = self.c * self.epsilon
        # P(rank < k) = (1 - e^(-rate k)) / (1 - e^(-rate size))
        total = -np.expm1(-rate * self.size)
        drawn = np.floor(-np.log1p(-rng.random(count) * total) / rate)
        return np.minimum(drawn.astype(np.int64), self.size - 1)

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        ranks = self.ranks(len(ids), rng)
        result = self.madlib._replace(ids, rng)
        chunk = max(1, ROW_BYTES // (8 * self.size))
        for words, places in by_distinct(result.copy(), chunk):
            apart = self.distances.to(words).numpy()
            apart[np.arange(len(words)), words] = -1.0  # before words of the same vector
            for row, at in zip(apart, places, strict=True):
                result[at] = row.argpartition(np.unique(ranks[at]))[ranks[at]]
        return result
