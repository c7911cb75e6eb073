"""The pictures of notebooks 03, 04 and 06 on made-up tables: they draw what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import drawn
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from textpriv.experiments import dp_prompt_figures, lossy_figures, slm_utility_figures
from textpriv.experiments.dp_prompt import columns_of
from textpriv.experiments.lossy import MAPS, Setting
from textpriv.report.figures import use_style
from textpriv.utility.prediction import TARGET

SAID = "What is seen, in words"


def table(**columns: Any) -> pd.DataFrame:
    """Every combination, each with another value; of a dictionary its keys are columns."""
    rows = pd.DataFrame(product(*columns.values()), columns=[*columns])
    value = 0.1 + 0.7 * np.arange(len(rows)) / len(rows)
    rows = rows.assign(value=value, low=value - 0.03, high=value + 0.05, n=60)
    for name in [name for name, values in columns.items() if isinstance(values[0], dict)]:
        rows = rows.join(pd.DataFrame([*rows.pop(name)]))
    return rows


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
    rows: list[list[float]] = table.round(9).to_numpy().tolist()
    return rows


CORPORA = ("rotten-tomatoes", "imdb")


def points(ax: Axes, *, hollow: bool) -> list[float]:
    """Where single markers stand along x, ascending."""
    single = [line for line in ax.lines if len(line.get_xdata()) == 1]
    marked = [line for line in single if line.get_marker() not in ("|", "_", "None", "")]
    chosen = [line for line in marked if (line.get_markerfacecolor() == "white") == hollow]
    return sorted(float(np.asarray(line.get_xdata())[0]) for line in chosen)


def test_accuracy_draws_every_value() -> None:
    settings = [*map(Setting, ("plain", *MAPS)), Setting("noise", eta=50), Setting("stencil", 9, 1)]
    each = [setting.columns() for setting in settings]
    probed = table(corpus=CORPORA, setting=each, scenario=("test", "all"))
    tuned = probed.head(6)
    figure = lossy_figures.accuracy(probed, tuned, SAID)
    drawn(figure)
    both = pd.concat([probed, tuned])
    both = both[both["kind"].isin((*MAPS, "noise"))]
    for ax, corpus in zip(figure.axes, CORPORA, strict=True):
        for scenario in ("test", "all"):
            asked = both.query(f"corpus == '{corpus}' and scenario == '{scenario}'")
            assert points(ax, hollow=scenario == "test") == sorted(asked["value"])


def test_the_oracle_is_drawn_beside_the_papers() -> None:
    kinds, measures, paper = ("2-random", "high-freq"), ("mrr", "pr5"), lossy_figures.published()
    values = paper.set_index(["kind", "corpus", "measure"])["value"]
    assert values.index.is_unique and values.notna().all()
    assert values["high-freq", "imdb", "mrr"] == 0.63
    assert values["2-random", "rotten-tomatoes", "pr5"] == 0.97
    rows = table(corpus=CORPORA, kind=kinds, measure=(*measures, "token_success"))
    figure = lossy_figures.oracle(rows, paper, SAID)
    drawn(figure)
    for ax, (corpus, each) in zip(figure.axes, product(CORPORA, measures), strict=True):
        asked = f"corpus == '{corpus}' and measure == '{each}' and kind in {kinds}"
        assert points(ax, hollow=False) == sorted(rows.query(asked)["value"])
        assert points(ax, hollow=True) == sorted(paper.query(asked)["value"])


RANDOM = {"author": 0.1, "sentiment": 0.47}
LEVELS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("madlib", "mahalanobis", "tem"), (14.0, 2.0, 8.0)),  # not in order
    **dict.fromkeys(("truncated-laplace", "deep-candidate"), (5.0, 400.0)),
    "dp-prompt": (0.75, 1.25, 1.75),
    "dp-prompt-clipped": (1.75, 0.75, 1.25),
}


def test_plane_draws_every_setting_in_the_order_of_levels() -> None:
    outputs = [columns_of(name, level) for name, levels in LEVELS.items() for level in levels]
    rows = table(target=[*RANDOM], output=outputs)
    clean = table(target=[*RANDOM], output=[columns_of("clean", 0.0)])
    whole = pd.concat([clean, rows, rows.assign(mechanism="tem-300d")])
    figure = dp_prompt_figures.plane(whole, [*LEVELS], RANDOM, SAID)
    drawn(figure)
    (ax,) = figure.axes
    for name in LEVELS:
        part = rows[rows["mechanism"] == name].sort_values("level")
        both = part.pivot(index="level", columns="target", values="value")
        assert curves(ax)[dp_prompt_figures._name(name)] == listed(both[[*RANDOM]])
    words = [name for name in LEVELS if not name.startswith("dp-prompt")]
    mildest = [f"ε {max(LEVELS[name]):g}" for name in words] + ["T 0.75"] * 2
    assert sorted(text.get_text() for text in ax.texts) == sorted(mildest)
    assert curves(ax)["clean documents"] == [clean["value"].round(9).tolist()]


def test_ledger_writes_every_cell() -> None:
    outputs = [columns_of(*each) for each in (("clean", 0.0), ("madlib", 8), ("dp-prompt", 0.75))]
    rows = table(output=outputs, feature=("length", "case", "unknown words", "all"))
    figure = dp_prompt_figures.ledger(rows, RANDOM, SAID)
    drawn(figure)
    assert [text.get_text() for text in figure.axes[0].texts] == [f"{v:.2f}" for v in rows.value]


def test_repeated_draws_every_attacker_and_names_the_strongest() -> None:
    outputs = [columns_of("madlib", 8), columns_of("dp-prompt-clipped", 0.75)]
    rows = table(k=(1, 30, 10, 3), access=tuple(dp_prompt_figures.READ), output=outputs)
    figure = dp_prompt_figures.repeated(rows, RANDOM)
    drawn(figure)
    (ax,) = figure.axes
    called = {"madlib": "MADLIB, ε 8", "dp-prompt-clipped": "clipped DP-Prompt, T 0.75"}
    for name, written in called.items():
        own = rows[rows["mechanism"] == name]
        for access, (told, _) in dp_prompt_figures.READ.items():
            part = own[own["access"] == access]
            assert curves(ax)[f"{written}: {told}"] == listed(part.sort_values("k")[["k", "value"]])
        one, many = (own.loc[own["k"] == k, "value"].max() for k in (1, 30))
        assert f"of {written}: {one:.2f}, from 30: {many:.2f}" in ax.get_title("left")


GRID = (27.2, 39.3, 51.2, 62.3, 73.2, 84.7, 104.0, 137.0)
EPSILONS = [f"{each:g}" for each in GRID]


def check_bars(ax: Axes, expected: pd.DataFrame) -> None:
    """Value, low and high of every marker with an interval, in the order drawn."""
    bars = []
    for line, _, (segments,) in ax.containers:
        for point, ends in zip(line.get_xydata(), segments.get_segments(), strict=True):
            axis = int(ends[0, 0] == ends[1, 0])  # 1: the bar is upright
            bars.append((point[axis], *ends[:, axis]))
    np.testing.assert_allclose(bars, expected[["value", "low", "high"]])


def test_knee_draws_the_difference() -> None:
    rows = table(what=("predicted", "measured", "difference"), epsilon=GRID)
    figure = slm_utility_figures.knee(rows, SAID)
    drawn(figure)
    (ax,) = figure.axes
    check_bars(ax, rows[rows["what"] == "difference"])
    assert [text.get_text() for text in ax.get_xticklabels()] == EPSILONS


def test_originals_draw_both_of_every_model() -> None:
    worth = table(model=("small", "large", "people"), what=("original", "original.p10"))
    figure = slm_utility_figures.originals(worth, SAID)
    drawn(figure)
    check_bars(figure.axes[0], worth)


def test_distributions_draw_boxes() -> None:
    rng, rows = np.random.default_rng(0), table(document=range(60), epsilon=GRID)
    rows = rows.assign(**{each: rng.random(len(rows)) for each in ("small_sanitized", TARGET)})
    figure = slm_utility_figures.distributions(rows.drop(columns="value"))
    drawn(figure)
    (ax,) = figure.axes
    heights = {round(float(line.get_ydata()[0]), 6) for line in ax.lines}
    medians = rows.groupby("epsilon")[["small_sanitized", TARGET]].median().to_numpy()
    assert {*medians.ravel().round(6)} <= heights
    assert [text.get_text() for text in ax.get_xticklabels()] == EPSILONS


def test_losses_draw_every_curve() -> None:
    rows = table(what=("changed", "text", "small", "large"), epsilon=GRID)
    figure = slm_utility_figures.losses(rows, SAID)
    drawn(figure)
    for what, part in rows.groupby("what"):
        line = curves(figure.axes[0])[slm_utility_figures.LOOKS[what].label]
        assert line == listed(part[["epsilon", "value"]])
