"""The pictures of notebook 06; each takes tables of the notebook and returns a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.experiments.slm_utility import LOST
from textpriv.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    RED,
    Style,
    band,
    legend_below,
    reach,
)
from textpriv.utility.prediction import TARGET

# What is summarized, and by whom.
LOOKS: Mapping[str, Style] = {
    "large": Style("large model", BLUE, "o", "-"),
    "small": Style("small model", ORANGE, "s", "--"),
    "people": Style("people", BLACK, "^", ":"),
    "text": Style("text itself", GREEN, "D", "-."),
    "changed": Style("tokens changed", GREY, "v", ":"),
}
HOLLOW: Mapping[str, Any] = {"markerfacecolor": "white"}


@drawing
def knee(table: pd.DataFrame, title: str) -> Figure:
    """Share of tokens changed against epsilon, measured minus predicted on the same tokens."""
    fig, ax = plt.subplots(figsize=(PAGE, 2.6))
    off = table[table["what"] == "difference"]
    ax.errorbar(off["epsilon"], off["value"], yerr=reach(off), fmt="o", color=BLUE, ms=5)
    ax.axhline(0, color=RED)
    ax.set(ylabel="measured minus predicted")
    _epsilons(ax, table["epsilon"])
    ax.set_title(f"{title} (n = {_n(off)} documents)", fontsize=9)
    return fig


@drawing
def originals(worth: pd.DataFrame, title: str) -> Figure:
    """Similarity of originals and their summaries: mean, and what nine in ten exceed (Fig. 2).

    Of a table of `slm_utility.worth`.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 2.4))
    models = list(dict.fromkeys(worth["model"]))
    for place, model in enumerate(models):
        look = LOOKS[model]
        for what, face in (("original", {}), ("original.p10", HOLLOW)):
            row = worth[(worth["model"] == model) & (worth["what"] == what)]
            dot = {"fmt": look.marker, "color": look.color, "ms": 6, **face}
            ax.errorbar(row["value"], [place], xerr=reach(row), **dot)
    ax.set(xlabel="similarity to the original", ylim=(-0.5, len(models) - 0.5))
    ax.set_yticks(range(len(models)), [LOOKS[model].label for model in models])
    ax.plot([], [], "o", color=GREY, label="mean")
    ax.plot([], [], "o", color=GREY, label="exceeded by nine in ten", **HOLLOW)
    ax.set_title(f"{title} (n = {_n(worth)} documents)", fontsize=9)
    legend_below(fig, ncols=2, fontsize=7.5)
    return fig


@drawing
def losses(table: pd.DataFrame, title: str) -> Figure:
    """Tokens changed and similarity lost against epsilon (Fig. 4)."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.9))
    for what, part in table.groupby("what", sort=False):
        band(ax, part.sort_values("epsilon"), "epsilon", **LOOKS[str(what)]._asdict(), ms=5)
    ax.axhline(LOST, color=BLACK, lw=0.8, ls=":", label=f"loss of {LOST:g}")
    ax.axhline(0, color=GREY, lw=0.8)
    _epsilons(ax, table["epsilon"])
    ax.set(ylabel="share of tokens, loss of similarity")
    ax.set_title(f"{title} (n = {_n(table)} documents)", fontsize=9)
    legend_below(fig, ncols=3, fontsize=7.5)
    return fig


@drawing
def distributions(rows: pd.DataFrame) -> Figure:
    """Similarity of the original and the summary of its sanitized text, by epsilon (Fig. 3).

    Boxes hold the middle half and the median, whiskers nine documents in ten.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 3.6))
    names = {"small_sanitized": LOOKS["small"].label, TARGET: LOOKS["large"].label}
    long = rows.rename(columns=names).melt("epsilon", list(names.values()), "model")
    axes = {"x": "epsilon", "y": "value", "hue": "model"}
    colors = [LOOKS["small"].color, LOOKS["large"].color]
    look: dict[str, Any] = {"palette": colors, "showfliers": False, "fill": False, "gap": 0.1}
    sns.boxplot(long, **axes, **look, whis=(5, 95), formatter="{:g}".format, ax=ax)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.tick_params(axis="x", rotation=60 if rows["epsilon"].nunique() > 10 else 0)
    ax.set(ylabel="similarity to the original")
    ends = rows.groupby("epsilon")[TARGET].quantile([0.05, 0.95]).unstack()
    widest = (ends[0.95] - ends[0.05]).max()
    ax.set_title(
        f"At the same epsilon the worth of the large model's summaries\ndiffers by up to "
        f"{widest:.2f} (middle 90%, n = {rows['document'].nunique()} documents)",
        fontsize=9,
    )
    sns.move_legend(ax, "upper left", title=None)
    return fig


def _epsilons(ax: Axes, epsilons: pd.Series) -> None:
    """A logarithmic axis that names its epsilons as far as there is room."""
    values = np.unique(epsilons)
    named = values[:1].tolist()
    for each in values[1:]:
        if np.log(each / named[-1]) > 0.08 * np.log(values[-1] / values[0]):
            named.append(each)
    ax.set(xscale="log", xlabel="epsilon")
    ax.set_xticks(named, [f"{each:g}" for each in named], rotation=60)
    ax.minorticks_off()


def _n(table: pd.DataFrame) -> int:
    """Observations that every point rests on; tables of this notebook have one number."""
    return int(table["n"].max())
