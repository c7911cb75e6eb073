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
ATTACKERS, ACCESSES = ("static", "adaptive"), ("embedding", "text")
SAID = "What is seen, in words"


def table(outputs: list[dict[str, Any]], **columns: Any) -> pd.DataFrame:
    """Every combination with every output, each with another value."""
    axes = (dict(zip(columns, each, strict=True)) for each in product(*columns.values()))
    rows = pd.DataFrame(output | each for each, output in product(axes, outputs))
    value = 0.1 + 0.7 * np.arange(len(rows)) / len(rows)
    return rows.assign(value=value, low=value - 0.03, high=value + 0.05, n=300)


def f1() -> pd.DataFrame:
    """As the notebook's; truncated Laplace has no texts, clean text one attacker."""
    clean = [columns_of("clean", 0.0)]
    targets: dict[str, Any] = {"access": ACCESSES, "target": ("author", "sentiment")}
    found = table(OUTPUTS, attacker=ATTACKERS, **targets)
    silent = (found["mechanism"] == "truncated-laplace") & (found["access"] == "text")
    return pd.concat([table(clean, attacker=("static",), **targets), found[~silent]])


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


@pytest.mark.parametrize("kind", ["plane", "dimensions"])
def test_planes_draw_every_setting_in_the_order_of_levels(kind: str) -> None:
    found = f1()
    figure = getattr(figures, kind)(found, RANDOM, SAID)
    drawn(figure)
    large = [*WORDS, *(f"{name}-300d" for name in WORDS), "madlib-whole"]
    shown = PLANE if kind == "plane" else large
    attackers = ATTACKERS if kind == "plane" else ["adaptive"]
    for ax, (access, attacker) in zip(figure.axes, product(ACCESSES, attackers), strict=True):
        at = found[(found["access"] == access) & (found["attacker"] == attacker)]
        for name in (name for name in shown if access == "embedding" or "laplace" not in name):
            part = at[at["mechanism"] == name].sort_values("level")
            both = part.pivot(index="level", columns="target", values="value")
            assert curves(ax)[figures._name(name)] == listed(both[[*RANDOM]])
        clean = found[(found["mechanism"] == "clean") & (found["access"] == access)]
        assert curves(ax)["clean documents"] == [clean["value"].round(9).tolist()]


def test_clipping_draws_both_targets_and_epsilon() -> None:
    found = f1()
    guaranteed = pd.DataFrame({"mechanism": "dp-prompt-clipped", "temperature": [1.75, 0.75]})
    guaranteed = guaranteed.assign(tokens=32, tight=[5.0, 9.0], paper=[7.0, 15.0])
    figure = figures.clipping(found, guaranteed, RANDOM, SAID)
    drawn(figure)
    *panels, bound = figure.axes
    seen = found[(found["attacker"] == "adaptive") & (found["access"] == "embedding")]
    for ax, target in zip(panels, RANDOM, strict=True):
        for name in ("dp-prompt", "dp-prompt-clipped", "dp-prompt-top-k40"):
            part = seen[(seen["mechanism"] == name) & (seen["target"] == target)]
            expected = listed(part.sort_values("level")[["level", "value"]])
            assert curves(ax)[figures._name(name)] == expected
    tops = {line.get_linestyle(): line.get_ydata().tolist() for line in bound.lines}
    assert tops == {"--": [15, 7], "-": [9, 5]}


def test_equal_risk_has_a_row_for_each_mechanism() -> None:
    found = table(OUTPUTS[::3], risk=(0.3, 0.15)).iloc[1:]  # one mechanism lacks a risk
    figure = figures.equal_risk(found, RANDOM, SAID)
    drawn(figure)
    rows = list(found.groupby("mechanism")["value"].mean().sort_values().index)
    for ax, risk in zip(figure.axes, (0.15, 0.3), strict=True):
        part = found[found["risk"] == risk].set_index("mechanism")["value"]
        points = [line.get_xydata()[0] for line, *_ in ax.containers]
        assert {rows[int(height)]: x for x, height in points} == part.to_dict()
    drawn(figures.equal_risk(found.iloc[:0], RANDOM, SAID))  # no mechanism has any of the risks


def test_ledger_writes_every_cell() -> None:
    outputs = [columns_of(*each) for each in (("clean", 0.0), ("madlib", 8), ("dp-prompt", 0.75))]
    found = table(outputs, feature=("length", "case", "unknown words", "all"))
    figure = figures.ledger(found, RANDOM, SAID)
    drawn(figure)
    values = found["value"].to_numpy().reshape(4, 3).T
    assert [text.get_text() for text in figure.axes[0].texts] == [f"{v:.2f}" for v in values.flat]


def test_repeated_draws_both_attackers() -> None:
    outputs = [columns_of("madlib", 8), columns_of("dp-prompt-clipped", 0.75)]
    found = table(outputs, k=(1, 30, 10, 3), attacker=ATTACKERS)
    figure = figures.repeated(found, RANDOM, SAID)
    drawn(figure)
    for ax, output in zip(figure.axes, outputs, strict=True):
        part = found[found["mechanism"] == output["mechanism"]].sort_values("k")
        for attacker in ATTACKERS:
            expected = listed(part[part["attacker"] == attacker][["k", "value"]])
            assert curves(ax)[attacker] == expected


def test_similarity_parts_epsilons_from_temperatures() -> None:
    found = table([{"mechanism": "other document", "level": 0.0}, *OUTPUTS])
    for measure in ("bertscore", "cosine"):
        ends = {measure: "value", f"{measure}_low": "low", f"{measure}_high": "high"}
        found = found.assign(**{end: found[column] for end, column in ends.items()})
    figure = figures.similarity(found.drop(columns=["value", "low", "high"]), SAID)
    drawn(figure)
    for ax, (measure, is_prompt) in zip(
        figure.axes, product(("bertscore", "cosine"), (False, True)), strict=True
    ):
        for name in (name for name in LEVELS if name.startswith("dp-prompt") == is_prompt):
            part = found[found["mechanism"] == name].sort_values("level")
            assert curves(ax)[figures._name(name)] == listed(part[["level", measure]])
