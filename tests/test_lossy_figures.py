"""The pictures of notebook 03 on made-up tables: the paper's and plain training are hollow."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from drawing import drawn
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from textpriv.experiments import lossy
from textpriv.experiments import lossy_figures as figures
from textpriv.experiments.lossy import MAPS
from textpriv.report.figures import use_style

matplotlib.use("Agg")

CORPORA = ("rotten-tomatoes", "imdb")


def made_up(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows with values of their own and intervals around them."""
    values = np.random.default_rng(len(rows)).uniform(0.1, 0.9, len(rows)).round(4)
    return pd.DataFrame(rows).assign(value=values, low=values - 0.01, high=values + 0.01, n=50)


def points(ax: Axes, *, hollow: bool) -> list[float]:
    """Where single markers stand along x, ascending."""
    single = [line for line in ax.lines if len(line.get_xdata()) == 1]
    found = [line for line in single if line.get_marker() not in ("|", "_", "None", "")]
    chosen = [line for line in found if (line.get_markerfacecolor() == "white") == hollow]
    return sorted(float(np.asarray(line.get_xdata())[0]) for line in chosen)


def test_published_reads_the_claims() -> None:
    values = figures.published().set_index(["kind", "corpus", "measure"])["value"]
    assert values.index.is_unique and values.notna().all()
    assert values["high-freq", "imdb", "mrr"] == 0.63
    assert values["2-random", "rotten-tomatoes", "pr5"] == 0.97


def test_figures_draw_every_value() -> None:
    use_style()
    sizes: Any = SimpleNamespace(
        windows=(9,), sigmas=(0.2,), crossing=(9, 0.2), etas=(150.0,), tuned=()
    )
    over = product(CORPORA, lossy.crossing(sizes), ("test", "all"))
    probed = made_up([{"corpus": c, **each.columns(), "scenario": s} for c, each, s in over])
    tuned = probed.head(6)
    figure = figures.accuracy(probed, tuned, "What it shows")
    drawn(figure)
    both = pd.concat([probed, tuned])
    both = both[both["kind"].isin((*MAPS, "noise"))]
    for ax, corpus in zip(figure.axes, CORPORA, strict=True):
        for scenario in ("test", "all"):
            asked = both.query(f"corpus == '{corpus}' and scenario == '{scenario}'")
            assert points(ax, hollow=scenario == "test") == sorted(asked["value"])

    kinds, measures, paper = ("2-random", "high-freq"), ("mrr", "pr5"), figures.published()
    every = product(CORPORA, kinds, (*measures, "token_success"))
    table = made_up([{"corpus": c, "kind": kind, "measure": m} for c, kind, m in every])
    figure = figures.oracle(table, paper, "What it shows")
    drawn(figure)
    for ax, (corpus, measure) in zip(figure.axes, product(CORPORA, measures), strict=True):
        asked = f"corpus == '{corpus}' and measure == '{measure}' and kind in {kinds}"
        assert points(ax, hollow=False) == sorted(table.query(asked)["value"])
        assert points(ax, hollow=True) == sorted(paper.query(asked)["value"])
    plt.close("all")
