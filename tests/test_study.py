"""The loop over a grid: every point once, in order, and errors as they are."""

from __future__ import annotations

import pytest

from textpriv import study
from textpriv.errors import InvalidInput
from textpriv.seeds import stream


def test_a_grid_has_every_combination_and_its_last_axis_varies_fastest() -> None:
    points = study.grid(corpus={"films": 1, "clothes": 2}, epsilon=[1.0, 2.0])
    assert points == [
        {"corpus": "films", "epsilon": 1.0},
        {"corpus": "films", "epsilon": 2.0},
        {"corpus": "clothes", "epsilon": 1.0},
        {"corpus": "clothes", "epsilon": 2.0},
    ]
    assert study.grid(corpus=[], epsilon=[1.0]) == []


def test_processes_give_what_this_process_gives() -> None:
    scale = 3.0  # as a notebook's function uses what was defined before it

    def drawn(name: str, count: int) -> list[float]:
        return [*(scale * stream(7, name, count).random(count))]

    over = study.grid(name=["a", "b"], count=[1, 3])
    here = study.measure(drawn, over, processes=1)
    assert here == [drawn(**point) for point in over]
    assert study.measure(drawn, over, processes=2) == here


def test_an_empty_grid_and_an_error_at_a_point_are_told() -> None:
    def refuses(epsilon: float) -> None:
        raise InvalidInput(f"epsilon: got {epsilon}")

    with pytest.raises(InvalidInput, match="over: got no point"):
        study.measure(refuses, [])
    with pytest.raises(InvalidInput, match=r"epsilon: got 2\.0"):
        study.measure(refuses, study.grid(epsilon=[2.0]), processes=2)
