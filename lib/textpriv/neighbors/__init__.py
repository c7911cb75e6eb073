"""Nearest neighbours behind one call, and the all-radii form.

Every search answers `nearest(queries, k) -> (ids, distances)`:

- `ExactSearch`: exact in float64, faster than a plain scan.
- `AnnoySearch`, `FaissSearch`: approximate, as released code uses them.

`AllRadii` answers what noise-then-nearest does at every radius, so at every epsilon.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from textpriv.neighbors.approximate import AnnoySearch, FaissSearch, annoy_build
from textpriv.neighbors.distances import Distances
from textpriv.neighbors.exact import ExactSearch
from textpriv.neighbors.radius import (
    AllRadii,
    Envelope,
    largest_radius,
    radius_cdf,
    random_directions,
)
from textpriv.neighbors.table import FloatArray, IntArray


class Search(Protocol):
    """What a mechanism asks of an index."""

    name: str
    size: int
    dimension: int

    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """Ids and distances of the k nearest rows, (count, k) each, nearest first."""
