"""The pictures of notebook 04 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import drawn
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from textpriv.experiments import dp_prompt_figures as figures
from textpriv.experiments.dp_prompt import columns_of
from textpriv.report.figures import use_style

matplotlib.use("Agg")

RANDOM = {"author": 0.1, "sentiment": 0.47}
WORDS = ("madlib", "mahalanobis", "tem")
LEVELS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(WORDS, (14.0, 2.0, 8.0)),  # not in order
    **{f"{name}-300d": (3.0, 11.0) for name in WORDS},
    "madlib-whole": (8.0,),
    "truncated-laplace": (5.0, 400.0),
    "deep-candidate": (5.0, 400.0),
    "dp-prompt": (0.75, 1.25, 1.75),
    "dp-prompt-clipped": (1.75, 0.75, 1.25),
    "dp-prompt-top-k40": (0.75, 1.25),
}
PLANE = [*WORDS, "truncated-laplace", "deep-candidate", "dp-prompt", "dp-prompt-clipped"]
OUTPUTS = [columns_of(name, level) for name, levels in LEVELS.items() for level in levels]
ATTACKERS = ("static", "adaptive")
SAID = "What is seen, in words"


def table(outputs: list[dict[str, Any]], **columns: Any) -> pd.DataFrame:
    """Every combination with every output, each with another value."""
    axes = (dict(zip(columns, each, strict=True)) for each in product(*columns.values()))
    rows = pd.DataFrame(output | each for each, output in product(axes, outputs))
    value = 0.1 + 0.7 * np.arange(len(rows)) / len(rows)
    return rows.assign(value=value, low=value - 0.03, high=value + 0.05, n=300)


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


def curves(ax: Axes) -> dict[str, list[list[float]]]:
    """Points of every named line, in the order in which it joins them."""
    named = {each: str(each.get_label()) for each in ax.lines}
    named |= {bar.lines[0]: str(bar.get_label()) for bar in ax.containers}  # type: ignore[attr-defined]
    return {name: line.get_xydata().round(9).tolist() for line, name in named.items()}


def listed(table: pd.DataFrame) -> list[list[float]]:
    found: list[list[float]] = table.round(9).to_numpy().tolist()
    return found


def test_plane_draws_every_setting_in_the_order_of_levels() -> None:
    found = table(OUTPUTS, target=("author", "sentiment"))
    clean = table([columns_of("clean", 0.0)], target=("author", "sentiment"))
    figure = figures.plane(pd.concat([clean, found]), PLANE, RANDOM, SAID)
    drawn(figure)
    (ax,) = figure.axes
    written = [text.get_text() for text in ax.texts]
    for name in PLANE:
        part = found[found["mechanism"] == name].sort_values("level")
        both = part.pivot(index="level", columns="target", values="value")
        assert curves(ax)[figures._name(name)] == listed(both[[*RANDOM]])
    words = [name for name in PLANE if not name.startswith("dp-prompt")]
    mildest = [f"ε {max(LEVELS[name]):g}" for name in words] + ["T 0.75"] * 2
    assert sorted(written) == sorted(mildest)
    assert curves(ax)["clean documents"] == [clean["value"].round(9).tolist()]


def test_ledger_writes_every_cell() -> None:
    outputs = [columns_of(*each) for each in (("clean", 0.0), ("madlib", 8), ("dp-prompt", 0.75))]
    found = table(outputs, feature=("length", "case", "unknown words", "all"))
    figure = figures.ledger(found, RANDOM, SAID)
    drawn(figure)
    values = found["value"].to_numpy().reshape(4, 3).T
    assert [text.get_text() for text in figure.axes[0].texts] == [f"{v:.2f}" for v in values.flat]


def test_repeated_draws_the_adaptive_attacker() -> None:
    outputs = [columns_of("madlib", 8), columns_of("dp-prompt-clipped", 0.75)]
    found = table(outputs, k=(1, 30, 10, 3), attacker=ATTACKERS)
    figure = figures.repeated(found, RANDOM, SAID)
    drawn(figure)
    adaptive = found[found["attacker"] == "adaptive"].sort_values("k")
    for name, written in (("madlib", "MADLIB, ε 8"), ("dp-prompt-clipped", "DP-Prompt, T 0.75")):
        expected = listed(adaptive[adaptive["mechanism"] == name][["k", "value"]])
        assert curves(figure.axes[0])[written] == expected
