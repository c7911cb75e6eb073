"""The pictures of notebook 03 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import drawn, legend
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from textpriv.experiments import lossy
from textpriv.experiments import lossy_figures as figures
from textpriv.experiments.lossy import MAPS, STENCILS, Setting
from textpriv.report.figures import label, use_style

matplotlib.use("Agg")

CORPORA = ("rotten-tomatoes", "imdb")
WINDOWS, SIGMAS = (5, 7, 9, 11), (0.2, 0.6, 0.8, 1.0)
SIZES: Any = SimpleNamespace(
    windows=WINDOWS, sigmas=SIGMAS, crossing=(9, 0.2), etas=(100.0, 150.0), tuned=()
)
SETTINGS = lossy.crossing(SIZES)
GRID = [Setting(*each) for each in product(STENCILS, WINDOWS, SIGMAS)]
TITLE = "What it shows"


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


@pytest.fixture(params=[CORPORA, CORPORA[:1]], ids=["two", "one"])
def corpora(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


def made_up(rows: list[dict[str, Any]], n: int = 3000) -> pd.DataFrame:
    """Rows with values of their own and intervals around them."""
    values = np.random.default_rng(len(rows)).uniform(0.1, 0.9, len(rows)).round(4)
    return pd.DataFrame(rows).assign(value=values, low=values - 0.01, high=values + 0.01, n=n)


def successes(corpora: tuple[str, ...], settings: list[Setting] = GRID) -> pd.DataFrame:
    every = ("naive", "naive_skip", "anywhere", "deconvolution_raw", "deconvolution")
    rows = [
        {"corpus": corpus, **setting.columns(), "attack": attack, "top": top}
        for corpus, setting, top in product(corpora, settings, (1, 5))
        for attack in (*every, *["stencil_simulation"] * (setting.kind == "stencil"))
    ]
    return made_up(rows)


def points(ax: Axes, *, hollow: bool | None = None) -> list[float]:
    """Where single markers stand along x, ascending; all, or by whether they are hollow."""
    single = [line for line in ax.lines if len(line.get_xdata()) == 1]
    found = [line for line in single if line.get_marker() not in ("|", "_", "None", "")]
    faces = [line.get_markerfacecolor() == "white" for line in found]
    chosen = [each for each, face in zip(found, faces, strict=True) if hollow in (None, face)]
    return sorted(float(np.asarray(line.get_xdata())[0]) for line in chosen)


def test_published_reads_the_claims() -> None:
    table = figures.published()
    assert set(table["corpus"]) >= set(CORPORA) and table["value"].notna().all()
    values = table.set_index(["kind", "corpus", "measure"])["value"]
    assert values.index.is_unique
    assert values["high-freq", "imdb", "mrr"] == 0.63
    assert values["2-random", "rotten-tomatoes", "pr5"] == 0.97
    assert {*table["kind"]} <= {*MAPS} and {*table["measure"]} == {"mrr", "pr5"}


@pytest.mark.parametrize("tuned_rows", [40, 0])
def test_accuracy_draws_every_setting(corpora: tuple[str, ...], tuned_rows: int) -> None:
    over = product(corpora, SETTINGS, ("test", "all"))
    rows = [{"corpus": c, **setting.columns(), "scenario": s} for c, setting, s in over]
    probed, tuned = made_up(rows), made_up(rows, n=1000).head(tuned_rows)
    figure = figures.accuracy(probed, tuned, TITLE)
    drawn(figure)
    for ax, corpus in zip(figure.axes, corpora, strict=True):
        both = pd.concat([probed, tuned]).query(f"corpus == '{corpus}'")
        shown = both[both["kind"].isin((*MAPS, "noise"))]
        assert points(ax) == pytest.approx(sorted(shown["value"]))
        plain_only = shown.loc[shown["scenario"] == "test", "value"]
        assert points(ax, hollow=True) == pytest.approx(sorted(plain_only))
        lines = [each.get_xdata()[0] for each in ax.lines if each.get_label() == "plain text"]
        clean = both[(both["kind"] == "plain") & (both["scenario"] == "all")]
        assert lines == pytest.approx([*clean["value"]])
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sorted(names) == sorted([*map(label, MAPS), "noise, eta 100", "noise, eta 150"])
    assert "n = 3,000 answers" in figure.axes[0].get_title(loc="left")
    assert {"plain text", "chance", "trained on plain text"} <= legend(figure)


def test_attackers_draw_every_attack(corpora: tuple[str, ...]) -> None:
    table = successes(corpora)
    figure = figures.attackers(table, 9, TITLE)
    drawn(figure)
    panels = product(corpora, STENCILS[::-1])
    for ax, (corpus, kind) in zip(figure.axes, panels, strict=True):
        of_panel = f"corpus == '{corpus}' and kind == '{kind}'"
        shown = table.query(f"window == 9 and top == 5 and {of_panel}")
        lines = {line.get_label(): line for line in ax.lines}
        assert set(lines) == {label(each) for each in shown["attack"]}
        for attack, each in shown.groupby("attack"):
            np.testing.assert_allclose(lines[label(str(attack))].get_ydata(), each["value"])


def test_heat_writes_every_cell_and_leaves_a_missing_one_empty() -> None:
    table = successes(CORPORA[:1], [each for each in GRID if each.label != "stencil-w5-s0.2"])
    figure = figures.heat(table, TITLE)
    drawn(figure)
    assert [len(ax.texts) for ax in figure.axes] == [16, 15, 16, 15]
    part = table.query("attack == 'deconvolution' and top == 5 and kind == 'punctuated-stencil'")
    found = part.pivot(index="sigma", columns="window", values="value").to_numpy().ravel()
    ax = figure.axes[2]
    assert [text.get_text() for text in ax.texts] == [f"{value:.0%}" for value in found]
    assert ax.get_ylim() == (0, 4)  # sigma grows upwards


def test_oracle_beside_the_paper(corpora: tuple[str, ...]) -> None:
    kinds, measures, paper = ("2-random", "high-freq"), ("mrr", "pr5"), figures.published()
    over = product(corpora, kinds, (*measures, "token_success"))
    table = made_up([{"corpus": c, "kind": kind, "measure": m} for c, kind, m in over], n=50)
    figure = figures.oracle(table, paper, TITLE)
    drawn(figure)
    for ax, (corpus, measure) in zip(figure.axes, product(corpora, measures), strict=True):
        asked = f"corpus == '{corpus}' and measure == '{measure}' and kind in {kinds}"
        assert points(ax, hollow=False) == pytest.approx(sorted(table.query(asked)["value"]))
        assert points(ax, hollow=True) == sorted(paper.query(asked)["value"])
