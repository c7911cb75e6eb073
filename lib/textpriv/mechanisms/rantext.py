"""RANTEXT: a random radius around the word, then an exponential choice among the words inside.

    mechanism = RanText(embedding, epsilon=6)
    mechanism.sanitize(["the rock is destined to be the new conan"])

The radius is the length of a noise vector, which is thrown away. Given it the choice is known, and
P(y|x) is an integral over the radius. It depends on y by the distance from x alone, so that one
curve over distances says all about x.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from textpriv.channel import ROW_BYTES, FloatArray, IntArray, by_distinct, check_ids
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.mechanisms.noise_length import LaplaceLength
from textpriv.neighbors import Distances

GRID = 1024  # steps between the distances at which the curve of a word is worked out
FAR = 64  # radii beyond the largest distance
LIMIT = 1e-12  # of the radii: the largest has this chance of being exceeded


def noise_epsilon(epsilon: float) -> float:
    """The epsilon of the noise behind the radius: epsilon below 2, from there on always about 9.

    The constants are those of the authors' code (InferDPT), a fit of the size of the adjacency
    lists that they wanted.
    """
    if epsilon < 2:
        return epsilon
    size = 19.064721649556482 * epsilon - 38.1294334077209  # > 0
    return float(0.01658160142016071 * np.log(size) + 9.311083811697406)


class _Grid:
    """Equal steps of distance, up to one that no two words reach, not even by rounding."""

    def __init__(self, distances: Distances, chunk: int) -> None:
        self.distances, self.chunk = distances, chunk  # rows of distances held at once
        self.largest = 2.001 * float(distances.squared.max().sqrt())
        self.steps = np.linspace(0, self.largest, GRID + 1)

    def places(self, words: IntArray) -> tuple[IntArray, FloatArray]:
        """The step below the distance to every word, and how far to the next: (words, size)."""
        at = self.distances.to(words).numpy() * (GRID / self.largest)
        low = at.astype(np.int64)
        return low, at - low

    def counts(self, low: IntArray, share: FloatArray) -> FloatArray:
        """Words at each step, from the places of all words: (rows, GRID + 1)."""
        flat = (low + np.arange(len(low))[:, None] * (GRID + 1)).ravel()
        cells = len(low) * (GRID + 1)
        above = np.asarray(np.bincount(flat, share.ravel(), cells), dtype=np.float64)
        counts: FloatArray = np.bincount(flat, minlength=cells) - above
        counts[1:] += above[:-1]
        return counts.reshape(len(low), GRID + 1)

    @cached_property
    def every_count(self) -> FloatArray:
        """Counts as every word sees them, which takes all distances: (size, GRID + 1)."""
        size = len(self.distances.points)
        parts = np.split(np.arange(size), range(self.chunk, size, self.chunk))
        return np.concatenate([self.counts(*self.places(words)) for words in parts])


class RanText(FiniteMechanism):
    """A word inside a random radius: P(y|x, r) proportional to 1{d < r} exp(eps (1 - d / r) / 2).

    d is the Euclidean distance of x and y. The radius r is the length of a vector of independent
    Laplace numbers with scales (max_w w_j - min_w w_j) / e, e = `noise_epsilon`(eps), one for each
    coordinate j of the embedding.

    Parameters
    ----------
    embedding : the public vocabulary
    epsilon : of the choice; of the radius only below 2

    Raises
    ------
    InvalidInput : vectors that are all equal

    Notes
    -----
    The statement of eps-local differential privacy takes the set of words inside the radius for
    given. The set depends on the word, so that two words give another far word by different
    chances of a radius at all: the loss of a pair is the difference of two tails of the noise,
    which eps hardly moves and does not bound. The output shows that one of its near words was sent.

    P(y|x) is worked out on a grid: words at `GRID` + 1 equal steps of distance (each shared between
    the two beside it), radii in the steps between and in `FAR` steps beyond. In 300 dimensions
    finer grids move a probability by less than 1% of it (a test holds that).

    References
    ----------
    Tong et al. 2023, InferDPT: Privacy-Preserving Inference for Black-box Large Language Models.
    """

    name = "rantext"
    claim = Claim(
        definition="none: radii that reach a far word are likelier from one word than from another",
        protects="no pair of words in general",
        unit="none (scores are scaled to [0, 1])",
        in_clear="the number of tokens",
        unknown="cannot be told apart from each other; from a known word no bound is claimed",
        composition="none",
    )
    # The paper's theorem takes the set of words inside the radius for given; its text does not.
    published: Claim | None = replace(
        claim,
        definition="local differential privacy: P(M(w)=y) <= exp(eps) * P(M(w')=y)",
        protects="one word against any other",
        unknown="as known words",
        composition="eps per word",
        loss="constant",
    )

    def __init__(self, embedding: Embedding, *, epsilon: float) -> None:
        super().__init__(embedding, epsilon=epsilon)
        points = embedding.vectors.astype(np.float64)
        self.ranges = np.ptp(points, axis=0)
        if not self.ranges.any():
            raise InvalidInput("embedding: got equal vectors only, expected some to differ")
        self.distances = embedding.distances
        self.length = LaplaceLength(self.ranges)  # of noise at epsilon 1
        self.grid = _Grid(self.distances, self.row_chunk)

    def sweep(self, epsilons: Iterable[float]) -> list[Self]:
        _ = self.grid.every_count  # which all of them share
        return super().sweep(epsilons)

    @cached_property
    def _radii(self) -> tuple[FloatArray, FloatArray]:
        """Radii and their log-probabilities, ascending: (GRID + FAR,) each."""
        grid, noise = self.grid.steps, noise_epsilon(self.epsilon)
        lengths = np.geomspace(1e-3, 1e3, 2000) * np.linalg.norm(self.ranges)
        last = np.interp(-np.log(LIMIT), -self.length.log_survival(lengths), lengths) / noise
        beyond = np.geomspace(grid[-1], max(last, 1.01 * grid[-1]), FAR + 1)
        edges = np.append(grid, beyond[1:])
        reached = self.length.log_survival(edges * noise)
        with np.errstate(divide="ignore"):
            mass = reached[:-1] + np.log(-np.expm1(np.diff(reached)))
        mass[-1] = reached[-2]  # and all longer ones
        return (edges[1:] + edges[:-1]) / 2, mass

    @cached_property
    def _choices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What radii do at each distance of the grid: (GRID + 1, radii), (GRID + 1,), as the first.

        Weights 1{d < r} exp(-eps d / (2 r)); log of the largest weight times its radius's chance;
        all such products, divided by the largest.
        """
        grid, (radii, mass) = self.grid.steps[:, None], self._radii
        weights = np.where(grid < radii, -self.epsilon / 2 * grid / radii, -np.inf)
        highest = (weights + mass).max(1)
        return np.exp(weights), highest, np.exp(weights + mass - highest[:, None])

    def _curves(self, counts: FloatArray) -> FloatArray:
        """log P(y|x) by the distance of y, from the words at each distance: (rows, GRID + 1)."""
        weights, highest, relative = self._choices
        curves = highest + np.log(1 / (counts @ weights) @ relative.T)
        return curves - np.log((counts * np.exp(curves)).sum(1, keepdims=True))

    def _read(self, curves: FloatArray, low: IntArray, share: FloatArray) -> FloatArray:
        """Curves at places, a row of each: between steps P is straight, as in `_Grid.counts`."""
        row = np.arange(len(low))[:, None]
        below = curves[row, low]
        return below + np.log1p(share * np.expm1(curves[row, low + 1] - below))

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        places = self.grid.places(x)
        return self._read(self._curves(self.grid.counts(*places)), *places)

    @cached_property
    def _every_curve(self) -> FloatArray:
        """Curves of all words: (size, GRID + 1)."""
        counts = self.grid.every_count
        parts = np.split(counts, range(self.row_chunk, self.size, self.row_chunk))
        return np.concatenate([self._curves(each) for each in parts])

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        low, share = self.grid.places(y)
        columns = [
            self._read(self._every_curve, *each)[:, 0]
            for each in zip(low[:, :, None], share[:, :, None], strict=True)
        ]
        return np.stack(columns) if columns else np.empty((0, self.size))

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        noise, radii = self.ranges / noise_epsilon(self.epsilon), np.empty(len(x))
        step = max(1, ROW_BYTES // (8 * len(noise)))
        for start in range(0, len(x), step):
            part = radii[start : start + step]
            part[:] = np.linalg.norm(rng.laplace(scale=noise, size=(len(part), len(noise))), axis=1)
        uniform, result = rng.random(len(x)), np.empty(len(x), dtype=np.int64)
        for words, occurrences in by_distinct(x, self.row_chunk):
            for row, where in zip(self.distances.to(words).numpy(), occurrences, strict=True):
                near = np.flatnonzero(row <= radii[where].max())  # farther ones are never drawn
                order = near[np.argsort(row[near], kind="stable")]
                ordered = row[order]
                for at in where:
                    inside = ordered[: max(1, np.searchsorted(ordered, radii[at]))]
                    law = np.cumsum(np.exp(-self.epsilon / 2 * inside / radii[at]))
                    place = np.searchsorted(law, uniform[at] * law[-1], side="right")
                    result[at] = order[min(int(place), len(inside) - 1)]
        return result
