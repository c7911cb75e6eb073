"""One comparison: two ways to do the same, timed in turn within one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from timeit import timeit

import numpy as np


@dataclass(frozen=True)
class Row:
    """One comparison: speeds in items per second, their ratio, and what we ask of it."""

    what: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    target: float

    def __str__(self) -> str:
        mark = "ok" if self.ratio >= self.target else "BELOW TARGET"
        return (
            f"{self.what:<58} {self.ours:>13,.0f} {self.theirs:>13,.0f} {self.unit:<13}"
            f"{self.ratio:>9.1f}x  (at least {self.target:g}x) {mark}"
        )


def compare(
    what: str,
    unit: str,
    ours: tuple[Callable[[], object], int],
    theirs: tuple[Callable[[], object], int],
    target: float,
    *,
    repeats: int = 5,
    factor: float = 1.0,
) -> Row:
    """Time both sides alternately; each side is an action and its number of items.

    `factor` is how many of our items do the work of one of theirs, and more.
    """
    ours[0]()  # caches, threads and pages
    pairs = [
        tuple(items / timeit(action, number=1) for action, items in (ours, theirs))
        for _ in range(repeats)
    ]
    ratio = float(np.median([a / b for a, b in pairs])) * factor
    fast, slow = (float(np.median(speeds)) for speeds in zip(*pairs, strict=True))
    return Row(what, unit, fast, slow, ratio, target)
