"""The loop over a grid, interrupted and resumed; test_parallel.py has processes and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from textpriv import kept, study
from textpriv.errors import InvalidInput
from textpriv.experiments.reconstruction import Outcome
from textpriv.seeds import stream
from textpriv.stats import Influence


def test_a_grid_has_every_combination_and_its_last_axis_varies_fastest() -> None:
    points = study.grid(corpus={"films": 1, "clothes": 2}, epsilon=[1.0, 2.0])
    assert points == [
        {"corpus": "films", "epsilon": 1.0},
        {"corpus": "films", "epsilon": 2.0},
        {"corpus": "clothes", "epsilon": 1.0},
        {"corpus": "clothes", "epsilon": 2.0},
    ]
    assert study.grid(corpus=[], epsilon=[1.0]) == []


def test_an_empty_grid_is_told() -> None:
    with pytest.raises(InvalidInput, match="over: got no point"):
        study.measure(float, [])


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Begins a run that keeps its points, again and again in the same folder."""

    def begin() -> Path:
        study.keep_in(tmp_path)
        return tmp_path

    yield begin
    study.keep_in(None)


def outcome(number: int) -> Outcome:
    """As notebook 05 has them, with all kinds of values inside."""
    drawn = stream(7, number).random((3, 4))
    rows = pd.DataFrame({"name": ["a", "b"], "low": [np.nan, 0.1], "n": [1, 2]})
    rows["influence"] = [Influence("texts", np.arange(4), row) for row in drawn[:2]]
    hits: dict[str, Any] = {"one": np.asfortranarray(drawn), "other": np.float32(1 / 3)}
    weights: dict[str, Any] = {"rows": rows, "pair": (None, [True, float("inf")]), "é": -0.0}
    epsilon = number / 3
    return Outcome("films", "custext", epsilon, drawn[0] > 0.5, drawn[1], drawn[2], hits,
                   weights=weights)  # fmt: skip


def test_what_is_kept_keeps_its_bits_and_kinds() -> None:
    before = outcome(1)
    after = kept.decoded(kept.encoded(before))
    assert kept.encoded(after) == kept.encoded(before) != kept.encoded(outcome(2))
    assert isinstance(after, Outcome) and isinstance(after.weights["pair"], tuple)
    assert after.hits["one"].flags.f_contiguous and after.truth.dtype == bool
    pd.testing.assert_frame_equal(
        after.weights["rows"].drop(columns="influence"),
        before.weights["rows"].drop(columns="influence"),
    )
    table = pd.DataFrame({"a": ["x", "y"]})
    for each in (table[1:], table.set_axis(["r", "s"]).rename_axis("i", columns="name"), table[:0]):
        pd.testing.assert_frame_equal(
            kept.decoded(kept.encoded(each)), each, check_index_type=False
        )
    two = pd.MultiIndex.from_tuples([(1, 2), (1, 3)])
    for refused in (
        object(),
        np.array([object()]),
        {1, 2},
        table.astype("category"),
        table.set_index(two),
    ):
        with pytest.raises(InvalidInput, match="is of no kind that is kept"):
            kept.encoded([refused])
    with pytest.raises(KeyError):  # no class but the library's is made
        kept._value(["object", "subprocess", "Popen", ["dict"]], [])


def test_an_interrupted_loop_goes_on_where_it_was(keep: Callable[[], Path]) -> None:
    made: list[int] = []
    stop = 4

    def one(number: int) -> Any:
        if number == stop:
            raise KeyboardInterrupt
        made.append(number)
        if number == 1:
            return print  # a function is of no kind that is kept
        return study.measure(outcome, study.grid(number=[number, 9]), processes=1)

    def both() -> list[Any]:
        first = study.measure(one, study.grid(number=range(3)), processes=1)
        return first + study.measure(one, study.grid(number=range(3, 6)), processes=1)

    folder = keep()
    with pytest.raises(KeyboardInterrupt):
        both()
    assert made == [0, 1, 2, 3]
    made.clear()
    stop = 7
    files = sorted(folder.rglob("*.npz"))
    assert [path.relative_to(folder).as_posix() for path in files] == [
        "1/0.npz", "1/2.npz", "2/0.npz"
    ]  # fmt: skip
    whole = files[1].read_bytes()
    for torn in (b"", whole[:50], whole[:-1], whole.replace(b"films", b"filmz")):
        files[1].write_bytes(torn)
        keep()
        resumed = both()
        assert made == ([1, 2, 4, 5] if torn == b"" else [1, 2])
        made.clear()
        assert files[1].read_bytes() == whole
    study.keep_in(None)
    undisturbed = both()
    assert resumed.pop(1) is undisturbed.pop(1) is print
    assert kept.encoded(resumed) == kept.encoded(undisturbed)


def test_points_of_another_machine_are_named(tmp_path: Path) -> None:
    def run(machine: str, count: int) -> list[str]:
        study.keep_in(tmp_path, machine)
        study.measure(float, [{}] * count, processes=1)
        return study.other_machines()

    assert run("one", 1) == []
    assert run("two", 2) == ["one"]
    assert run("one", 2) == ["two"]
    study.keep_in(None)
    assert study.other_machines() == []


def test_the_seconds_of_an_interrupted_run_count(keep: Callable[[], Path]) -> None:
    folder = keep()
    assert study.seconds_before() == 0
    study.measure(outcome, study.grid(number=[1]), processes=1)
    before = float((folder / "seconds").read_text())
    keep()
    assert study.seconds_before() == before > 0
    study.measure(outcome, study.grid(number=[1, 2]), processes=1)
    assert float((folder / "seconds").read_text()) > before
