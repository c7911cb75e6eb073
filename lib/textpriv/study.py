"""The one loop: call a notebook's function at every point of a grid, side by side.

    def attacked(corpus, defense, epsilon):              # written in the notebook, in sight
        ...
        return attack.guess(seen).hits(truth)

    outcomes = study.measure(attacked, over=study.grid(corpus=texts, epsilon=[1, 2, 4]))

A point draws from its own stream, `seeds.stream(seed, ...)` keyed by what the point is, and so
gives the same bits in whatever process, on whatever machine and in whatever order it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from textpriv import parallel
from textpriv.errors import InvalidInput

Result = TypeVar("Result")
Point = Mapping[str, Any]


def grid(**axes: Iterable[Any]) -> list[dict[str, Any]]:
    """All combinations of the values of some axes, the last axis varying fastest.

    Parameters
    ----------
    axes : values by name; of a mapping the keys count. Values are small (names, numbers): what is
        large is looked up by its name.
    """
    values = {name: list(axis) for name, axis in axes.items()}
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def measure(
    one: Callable[..., Result],
    over: Iterable[Point],
    *,
    label: str | None = None,
    processes: int = -1,
) -> list[Result]:
    """`[one(**point) for point in over]`, one process per core, or on a Dask cluster.

    Parameters
    ----------
    one : may be defined in a notebook, and use what the notebook has defined before; it changes
        nothing but what it returns
    over : keyword arguments of each call
    label : of the progress bar; None shows none
    processes : as in `parallel.map`; 1 works in this process and copies nothing

    Returns
    -------
    list of results, in the order of the points

    Raises
    ------
    InvalidInput : no point
    Whatever `one` raises, with its type and message.
    """
    points = list(over)
    if not points:
        raise InvalidInput("over: got no point, expected at least one; see textpriv.study.grid")
    calls = [(one, point) for point in points]
    return parallel.map(_at, calls, processes=processes, label=label)


def _at(one: Callable[..., Result], point: Point) -> Result:
    return one(**point)
