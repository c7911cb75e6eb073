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
    percent,
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
    """Share of tokens changed against epsilon, predicted and measured, and their difference.

    On the left the band and the bars are the errors of the directions and of the documents, on the
    right those of the difference on the same tokens.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.1))
    predicted, measured, off = (
        table[table["what"] == what].sort_values("epsilon")
        for what in ("predicted", "measured", "difference")
    )
    band(left, *_ends(predicted), color=RED, label="predicted")
    look: dict[str, Any] = {"fmt": "o", "color": BLUE, "ms": 5}
    left.errorbar(*_ends(measured)[:2], yerr=reach(measured), label="measured", **look)
    left.set(ylabel="share of tokens changed", ylim=(-0.03, 1.03))
    left.legend()
    left.set_title(f"n = {_n(measured)} documents, {_n(predicted):,} tokens", fontsize=9)
    right.errorbar(*_ends(off)[:2], yerr=reach(off), **look)
    right.axhline(0, color=RED)
    right.set(ylabel="difference of shares")
    right.set_title("measured less predicted, same tokens", fontsize=9)
    for ax in (left, right):
        _epsilons(ax, table["epsilon"])
    fig.suptitle(title)
    return fig


@drawing
def originals(table: pd.DataFrame, worth: pd.DataFrame, title: str) -> Figure:
    """Similarity of originals and their summaries (the paper's Fig. 2).

    Parameters
    ----------
    table : columns model, document, similarity
    worth : see `slm_utility.worth`
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.1))
    models = list(dict.fromkeys(table["model"]))
    for place, model in enumerate(models):
        look = LOOKS[model]
        values = table.loc[table["model"] == model, "similarity"]
        sns.ecdfplot(x=values, color=look.color, ls=look.linestyle, label=look.label, ax=left)
        for what, face in (("original", {}), ("original.p10", HOLLOW)):
            row = worth[(worth["model"] == model) & (worth["what"] == what)]
            dot = {"fmt": look.marker, "color": look.color, "ms": 6, **face}
            right.errorbar(row["value"], [place], xerr=reach(row), **dot)
    left.axhline(0.1, color=GREY, lw=0.8)
    left.set(xlabel="similarity to the original", ylabel="share of documents below")
    percent(left.yaxis)
    right.set(xlabel="similarity to the original", ylim=(-0.5, len(models) - 0.5))
    right.set_yticks(range(len(models)), [LOOKS[model].label for model in models])
    right.set_title(f"n = {_n(worth)} documents", fontsize=9)
    fig.suptitle(title)
    right.plot([], [], "o", color=GREY, label="mean")
    right.plot([], [], "o", color=GREY, label="exceeded by nine in ten (grey line)", **HOLLOW)
    legend_below(fig, ncols=3, fontsize=7.5)
    return fig


@drawing
def losses(table: pd.DataFrame, title: str) -> Figure:
    """Tokens changed and similarity lost against epsilon (Fig. 4)."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.9))
    for what, part in table.groupby("what", sort=False):
        band(ax, *_ends(part.sort_values("epsilon")), **LOOKS[str(what)]._asdict(), ms=5)
    ax.axhline(LOST, color=BLACK, lw=0.8, ls=":", label=f"loss of {LOST:g}")
    ax.axhline(0, color=GREY, lw=0.8)
    _epsilons(ax, table["epsilon"])
    ax.set(ylabel="share of tokens, loss of similarity")
    ax.set_title(f"n = {_n(table)} documents, 95% intervals", fontsize=9)
    fig.suptitle(title)
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
    ax.set_title(f"n = {rows['document'].nunique()} documents at each epsilon", fontsize=9)
    ends = rows.groupby("epsilon")[TARGET].quantile([0.05, 0.95]).unstack()
    widest = (ends[0.95] - ends[0.05]).max()
    fig.suptitle(
        f"At one epsilon nine documents in ten lie up to {widest:.2f} apart "
        f"({LOOKS['large'].label}'s summary)"
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


def _ends(found: pd.DataFrame) -> list[pd.Series]:
    """What `band` draws."""
    return [found[each] for each in ("epsilon", "value", "low", "high")]


def _n(found: pd.DataFrame) -> int:
    """Observations that every point rests on; tables of this notebook have one number."""
    return int(found["n"].max())
