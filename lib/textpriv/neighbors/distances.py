"""Distances between rows of one table, and ranks by distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.channel import IntArray, by_distinct

NEAR = 1e-6  # squared distance over squared length below which the difference is taken
PAIR_CHUNK = 1 << 14


class Distances:
    """Euclidean distances between rows of one table, in float64.

    A matrix product is exact to about 1e-15 of the squared lengths, too little where two
    rows nearly coincide: there the difference of the rows is taken. So every distance is
    exact to about 1e-12 of the row's length, and 0 between identical rows.

    Parameters
    ----------
    vectors : (rows, dimension) float array, finite
    """

    def __init__(self, vectors: NDArray[np.floating]) -> None:
        self.vectors = vectors
        exact = np.asarray(vectors, dtype=np.float64)
        self.points = torch.from_numpy(exact - exact.mean(0))
        self.squared = (self.points**2).sum(1)

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to another process, what is worked out here is worked out there.
        return Distances, (self.vectors,)

    def to(self, rows: IntArray, columns: IntArray | None = None) -> torch.Tensor:
        """Distances from `rows` to `columns` (ascending; all by default)."""
        return self.towards(columns)(rows)

    def towards(self, columns: IntArray | None) -> Towards:
        """Measures from rows to these columns (ascending; None: all), gathered only once."""
        return Towards(self, columns)

    def ranks(self, words: IntArray, outputs: IntArray) -> IntArray:
        """Rank of each output among the neighbours of its word: 0 is the word, 1 the nearest.

        `words` and `outputs` are aligned row numbers. Equally near rows share a rank.
        """
        ranks = np.zeros(len(words), dtype=np.int64)
        for rows, places in by_distinct(words, 64):
            for row, at in zip(self.to(rows).numpy(), places, strict=True):
                ranks[at] = np.searchsorted(np.sort(row), row[outputs[at]], side="left")
        ranks[words == outputs] = 0
        return ranks


class Towards:
    """Distances from rows of a table to some of them (ascending; None: to all)."""

    def __init__(self, distances: Distances, columns: IntArray | None) -> None:
        self.distances, self.columns = distances, columns
        self._points, self._squared = distances.points, distances.squared
        if columns is not None and len(columns) < len(self._points):
            column = torch.from_numpy(columns)
            self._points, self._squared = self._points[column], self._squared[column]

    def __reduce__(self) -> tuple[Any, ...]:
        return Towards, (self.distances, self.columns)

    @torch.inference_mode()
    def __call__(self, rows: IntArray) -> torch.Tensor:
        """(rows, columns)"""
        points, row = self.distances.points, torch.from_numpy(rows)
        own = self.distances.squared[row, None]
        result = torch.addmm(self._squared, points[row], self._points.T, alpha=-2.0).add_(own)
        at, column = (result < NEAR * own).nonzero(as_tuple=True)
        for near in torch.arange(len(at)).split(PAIR_CHUNK):
            offset = points[row[at[near]]] - self._points[column[near]]
            result[at[near], column[near]] = (offset**2).sum(1)
        return result.sqrt_()
