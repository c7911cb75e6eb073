"""The pictures of notebook 06 on made-up tables: what they draw is what the tables hold."""

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

from textpriv.experiments import slm_utility_figures as figures
from textpriv.report.figures import use_style
from textpriv.utility.prediction import TARGET

matplotlib.use("Agg")

GRID = (27.2, 39.3, 51.2, 62.3, 73.2, 84.7, 104.0, 137.0)
WHAT = ("predicted", "measured", "difference")
MODELS = ("small", "large", "people")
TITLE = "What is seen"


def table(n: int = 60, **columns: Any) -> pd.DataFrame:
    """Every combination, each with another value."""
    rows = pd.DataFrame(product(*columns.values()), columns=[*columns])
    value = 0.1 + 0.7 * np.arange(len(rows)) / len(rows)
    return rows.assign(value=value, low=value - 0.03, high=value + 0.05, n=n)


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


def bars(ax: Axes) -> np.ndarray:
    """Value, low and high of every marker with an interval, in the order drawn."""
    found = []
    for line, _, (segments,) in ax.containers:
        for point, ends in zip(line.get_xydata(), segments.get_segments(), strict=True):
            axis = int(ends[0, 0] == ends[1, 0])  # 1: the bar is upright
            found.append((point[axis], *ends[:, axis]))
    return np.array(found)


def check_bars(ax: Axes, expected: pd.DataFrame) -> None:
    np.testing.assert_allclose(bars(ax), expected[["value", "low", "high"]])


def test_knee_draws_the_difference() -> None:
    found = table(what=WHAT, epsilon=GRID)
    figure = figures.knee(found, TITLE)
    drawn(figure)
    (ax,) = figure.axes
    check_bars(ax, found[found["what"] == "difference"])
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"{e:g}" for e in GRID]


def test_originals_draw_both_of_every_model() -> None:
    worth = table(model=MODELS, what=("original", "original.p10"))
    figure = figures.originals(worth, TITLE)
    drawn(figure)
    check_bars(figure.axes[0], worth)


def test_distributions_draw_boxes() -> None:
    rng = np.random.default_rng(0)
    rows = table(document=range(60), epsilon=GRID)[["document", "epsilon"]]
    rows = rows.assign(**{each: rng.random(len(rows)) for each in ("small_sanitized", TARGET)})
    figure = figures.distributions(rows)
    drawn(figure)
    (ax,) = figure.axes
    heights = {round(float(line.get_ydata()[0]), 6) for line in ax.lines}
    medians = rows.groupby("epsilon")[["small_sanitized", TARGET]].median().to_numpy()
    assert {*medians.ravel().round(6)} <= heights
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"{each:g}" for each in GRID]


def test_losses_draw_every_curve() -> None:
    found = table(what=("changed", "text", "small", "large"), epsilon=GRID)
    figure = figures.losses(found, TITLE)
    drawn(figure)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    for what, part in found.groupby("what"):
        np.testing.assert_allclose(lines[figures.LOOKS[what].label].get_ydata(), part["value"])
