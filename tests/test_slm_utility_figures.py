"""The pictures of notebook 06 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import drawn, legend
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from textpriv.experiments import slm_utility_figures as figures
from textpriv.experiments.slm_utility import EPS_ONLY
from textpriv.prediction import TARGET
from textpriv.report.figures import use_style

matplotlib.use("Agg")

GRID = (27.2, 39.3, 51.2, 62.3, 73.2, 84.7, 104.0, 137.0)
DOCUMENTS = 60
FOLDS = ("document", "row")
MEASURES = ("r2", "rmse")
LOSSES = ("changed", "text", "small", "large")
SETS = tuple(figures.FEATURES)
TITLE = "What is seen"


# --- Made-up tables -----------------------------------------------------------------------------


def around(value: float, n: int = DOCUMENTS) -> dict[str, float]:
    return {"value": value, "low": value - 0.03, "high": value + 0.05, "n": n}


def table(columns: Sequence[str], *values: Sequence[Any], n: int = DOCUMENTS) -> pd.DataFrame:
    """Every combination, each with another value."""
    rows = list(product(*values))
    return pd.DataFrame(
        dict(zip(columns, row, strict=True)) | around(0.1 + 0.7 * number / len(rows), n)
        for number, row in enumerate(rows)
    )


def measured(documents: int = DOCUMENTS) -> pd.DataFrame:
    """As the notebook measures, as far as it is drawn."""
    rng = np.random.default_rng(0)
    epsilon = np.repeat(GRID, documents)
    rise = np.log(epsilon / 27) / 2
    return pd.DataFrame(
        {
            "document": np.tile(np.arange(documents), len(GRID)),
            "epsilon": epsilon,
            "small_sanitized": np.clip(rise + rng.normal(0, 0.1, len(rise)), -1, 1),
            TARGET: np.clip(rise - 0.1 + rng.normal(0, 0.2, len(rise)), -1, 1),
        }
    )


def summaries(models: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Similarities of originals, and `slm_utility.worth` of them."""
    rng = np.random.default_rng(1)
    plain = pd.DataFrame(
        {"model": model, "document": number, "similarity": value}
        for model in models
        for number, value in enumerate(rng.uniform(0.2, 0.9, DOCUMENTS))
    )
    return plain, table(("model", "what"), models, ("original", "original.p10"))


# --- What is read off a figure ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


def bars(ax: Axes) -> list[tuple[float, float, float, float]]:
    """Every marker with an interval: x, y and the interval's ends, rounded, in the order drawn."""
    found = []
    for container in ax.containers:
        line, _, (segments,) = container
        for (x, y), ends in zip(line.get_xydata(), segments.get_segments(), strict=True):
            (x0, y0), (x1, y1) = ends
            low, high = (y0, y1) if x0 == x1 else (x0, x1)
            found.append((x, y, low, high))
    return [tuple(round(float(each), 6) for each in row) for row in found]


def faces(ax: Axes) -> list[bool]:
    """Whether each of these is filled."""
    return [
        container[0].get_markerfacecolor() != "white"
        for container in ax.containers
        for _ in container[0].get_xydata()
    ]


def rounded(values: Any) -> list[float]:
    return [round(float(each), 6) for each in values]


# --- The figures --------------------------------------------------------------------------------


def test_looks_are_told_apart_and_named_for_all() -> None:
    pairs = Counter((look.color, look.marker) for look in figures.LOOKS.values())
    assert max(pairs.values()) == 1
    labels = [*(look.label for look in figures.LOOKS.values()), *dict(figures.FEATURES.values())]
    assert len(set(labels)) == len(labels)


def test_knee_draws_both_and_their_difference() -> None:
    found = table(("what", "epsilon"), ("predicted", "measured", "difference"), GRID)
    figure = figures.knee(found.sample(frac=1, random_state=0), TITLE)
    drawn(figure)
    left, right = figure.axes
    by_what = {what: part for what, part in found.groupby("what")}
    predicted, off = by_what["predicted"], by_what["difference"]
    np.testing.assert_allclose(left.lines[0].get_ydata(), predicted["value"])
    measured = by_what["measured"]
    assert [row[1:] for row in bars(left)] == [
        tuple(rounded(row)) for row in measured[["value", "low", "high"]].to_numpy()
    ]
    assert [row[1:] for row in bars(right)] == [
        tuple(rounded(row)) for row in off[["value", "low", "high"]].to_numpy()
    ]
    assert f"n = {DOCUMENTS} documents" in left.get_title(loc="left") + left.get_title()
    assert [text.get_text() for text in left.get_xticklabels()] == [f"{e:g}" for e in GRID]


@pytest.mark.parametrize("models", [("small", "large", "people"), ("small", "large")])
def test_originals_draw_every_document(models: tuple[str, ...]) -> None:
    plain, worth = summaries(models)
    figure = figures.originals(plain, worth, TITLE)
    drawn(figure)
    left, right = figure.axes
    for line, model in zip(left.lines, models, strict=False):
        values = np.sort(plain.loc[plain["model"] == model, "similarity"])
        np.testing.assert_allclose(line.get_xdata()[1:], values)  # it rises from minus infinity
        assert line.get_ydata()[-1] == 1 and line.get_ydata()[1] == pytest.approx(1 / DOCUMENTS)
    expected = worth.sort_values("model", key=lambda names: names.map(list(models).index))
    assert [row[0] for row in bars(right)] == rounded(expected["value"])
    assert faces(right) == [True, False] * len(models)
    assert [text.get_text() for text in right.get_yticklabels()] == [
        figures.LOOKS[model].label for model in models
    ]


def test_distributions_draw_boxes() -> None:
    rows = measured()
    figure = figures.distributions(rows)
    drawn(figure)
    (ax,) = figure.axes
    flat = [line for line in ax.lines if len(line.get_ydata()) == 2]
    heights = {
        round(float(line.get_ydata()[0]), 6) for line in flat if not np.ptp(line.get_ydata())
    }
    for column in ("small_sanitized", TARGET):
        assert set(rounded(rows.groupby("epsilon")[column].median())) <= heights
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"{each:g}" for each in GRID]
    assert f"n = {DOCUMENTS} documents" in ax.get_title() + ax.get_title(loc="left")


def test_losses_draw_every_curve() -> None:
    found = table(("what", "epsilon"), LOSSES, GRID)
    figure = figures.losses(found, TITLE)
    drawn(figure)
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.lines}
    for what, part in found.groupby("what"):
        np.testing.assert_allclose(lines[figures.LOOKS[what].label].get_ydata(), part["value"])
    assert lines["loss of 0.1"].get_ydata()[0] == 0.1
    assert len(ax.collections) == len(LOSSES)  # the intervals
    assert len(legend(figure)) == len(LOSSES) + 1


def test_regressions_tell_folds_apart() -> None:
    found = table(("features", "by", "measure"), SETS, FOLDS, MEASURES, n=480)
    figure = figures.regressions(found, TITLE)
    drawn(figure)
    for ax, measure in zip(figure.axes, MEASURES, strict=True):
        part = found[found["measure"] == measure]
        assert [row[0] for row in bars(ax)] == rounded(part["value"])
        assert faces(ax) == (part["by"] == "document").tolist()
        heights = [row[1] for row in bars(ax)]
        assert heights == sorted(heights, reverse=True)  # the first set at the top
        alone = part[(part["features"] == EPS_ONLY) & (part["by"] == "document")]["value"].iloc[0]
        lines = [line for line in ax.lines if len(set(line.get_xdata())) == 1]
        assert alone in [line.get_xdata()[0] for line in lines if len(line.get_xdata()) == 2]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names[::-1] == [figures.FEATURES[name][0] for name in SETS]


def test_a_crowded_grid_names_some_epsilons() -> None:
    grid = (1.0, *np.arange(5.0, 101.0, 5.0))
    what = ("what", "epsilon"), ("predicted", "measured", "difference")
    figure = figures.knee(table(*what, grid), TITLE)
    drawn(figure)
    names = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert 4 < len(names) < 14 and names[0] == "1"
    drawn(figures.knee(table(*what, (3.0,)), TITLE))
    many = figures.distributions(measured().assign(epsilon=np.repeat(grid[:16], 30)))
    drawn(many)
