"""The one loop: call a notebook's function at every point of a grid, side by side.

    def attacked(corpus, defense, epsilon):              # written in the notebook, in sight
        ...
        return attack.guess(seen).hits(truth)

    outcomes = study.measure(attacked, over=study.grid(corpus=texts, epsilon=[1, 2, 4]))

A point draws from its own stream, `seeds.stream(seed, ...)` keyed by what the point is, and so
gives the same bits in whatever process, on whatever machine and in whatever order it runs. In a
notebook that `./run_all.sh` executes, finished points are kept (`keep_in`) until the notebook is
finished: interrupted, the same command goes on where it was, or on another machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from textpriv import kept, parallel
from textpriv.errors import InvalidInput
from textpriv.files import write_atomic

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
    processes : on this machine; 1 works in this process and copies nothing, -1 takes one per
        core, and where a GPU is in use six at most. A cluster uses all its workers.

    Raises
    ------
    Whatever `one` raises, with its type and message.
    """
    points = list(over)
    if not points:
        raise InvalidInput("over: got no point, expected at least one; see textpriv.study.grid")
    global _keeper
    keeper, _keeper = _keeper, None  # what a point measures inside is a part of that point
    try:
        results = {} if keeper is None else keeper.finished(len(points))
        missing = [number for number in range(len(points)) if number not in results]
        asked = [points[number] for number in missing]
        measured = parallel.one_by_one(one, asked, processes=processes, label=label)
        for number, result in zip(missing, measured, strict=True):
            results[number] = result if keeper is None else keeper.keep(number, result)
    finally:
        _keeper = keeper
    return [results[number] for number in range(len(points))]


def keep_in(folder: Path | None, machine: str = "") -> None:
    """Keep finished points in a folder from now on, and use those that lie there already.

    Calls of `measure` are known by their number, so what lies there has to come from the same code,
    data and parameters; the runner sees to that. A result of no kind for `kept` is made again.
    `machine` names what makes points from now on.
    """
    global _keeper
    _keeper = None if folder is None else _Keeper(folder, machine)


def seconds_before() -> float:
    """How long interrupted runs took, each up to the last point that it kept."""
    return 0.0 if _keeper is None else _keeper.before


def other_machines() -> list[str]:
    """The names of the machines that made points which were used here, this one left out."""
    return [] if _keeper is None else sorted(_keeper.others)


class _Keeper:
    """The finished points of a notebook: a folder for each call of `measure`, in it a file each."""

    def __init__(self, folder: Path, machine: str) -> None:
        self._folder, self._calls, self._machine = folder, 0, machine
        self.others: set[str] = set()
        self._clock, self._start = folder / "seconds", time.monotonic()
        self.before = float(self._clock.read_text()) if self._clock.exists() else 0.0

    def finished(self, count: int) -> dict[int, Any]:
        """What was kept of the next call, by the numbers of its points."""
        self._calls += 1
        results = {}
        for number in range(count):
            with suppress(Exception):  # there is none, or it is damaged in whatever way
                result, machine = kept.decoded(self._file(number).read_bytes())
                results[number] = result
                self.others.update({machine} - {self._machine})
        return results

    def keep(self, number: int, result: Any) -> Any:
        """The result as it will be read, so that resumed or not the bits are the same."""
        try:
            data = kept.encoded((result, self._machine))
        except InvalidInput:
            return result
        write_atomic(self._file(number), data)
        write_atomic(self._clock, str(self.before + time.monotonic() - self._start).encode())
        return kept.decoded(data)[0]

    def _file(self, number: int) -> Path:
        return self._folder / str(self._calls) / f"{number}.npz"


_keeper: _Keeper | None = None
