"""Distances between rows of one table, and ranks by distance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
        exact = np.asarray(vectors, dtype=np.float64)
        self.points = torch.from_numpy(exact - exact.mean(0))
        self.squared = (self.points**2).sum(1)

    def to(self, rows: IntArray, columns: IntArray | None = None) -> torch.Tensor:
        """Distances from `rows` to `columns` (ascending; all by default)."""
        return self._between(rows, *self._gathered(columns))

    def towards(self, columns: IntArray | None) -> Callable[[IntArray], torch.Tensor]:
        """Measures from rows to these columns (ascending; None: all), gathered only once."""
        points, squared = self._gathered(columns)
        return partial(self._between, points=points, squared=squared)

    def _gathered(self, columns: IntArray | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Points of the columns and their squared lengths."""
        if columns is None or len(columns) == len(self.points):
            return self.points, self.squared
        column = torch.from_numpy(columns)
        return self.points[column], self.squared[column]

    @torch.inference_mode()
    def _between(self, rows: IntArray, points: torch.Tensor, squared: torch.Tensor) -> torch.Tensor:
        row = torch.from_numpy(rows)
        own = self.squared[row, None]
        result = torch.addmm(squared, self.points[row], points.T, alpha=-2.0).add_(own)
        at, column = (result < NEAR * own).nonzero(as_tuple=True)
        for near in torch.arange(len(at)).split(PAIR_CHUNK):
            offset = self.points[row[at[near]]] - points[column[near]]
            result[at[near], column[near]] = (offset**2).sum(1)
        return result.sqrt_()

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
