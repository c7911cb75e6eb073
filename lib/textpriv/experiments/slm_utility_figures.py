"""The pictures of notebook 06; each takes tables of the notebook and returns a figure.

Filled markers stand for means and for folds that keep documents apart, hollow ones for what nine
in ten exceed and for the paper's folds between rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from textpriv.experiments.slm_utility import EPS_ONLY, LOST
from textpriv.prediction import TARGET
from textpriv.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    RED,
    SKY,
    Style,
    band,
)

# What is summarized, and by whom.
LOOKS: Mapping[str, Style] = {
    "large": Style("large model", BLUE, "o", "-"),
    "small": Style("small model", ORANGE, "s", "--"),
    "people": Style("people", BLACK, "^", ":"),
    "text": Style("text itself", GREEN, "D", "-."),
    "changed": Style("tokens changed", GREY, "v", ":"),
}
# What a prediction looks at, and its colour; A, B and C are the paper's names.
FEATURES: Mapping[str, tuple[str, str]] = {
    "all": ("epsilon, small model (A, B, C)", ORANGE),
    "no_b": ("the same without B", ORANGE),
    "no_c": ("the same without C", ORANGE),
    "no_bc": ("epsilon alone, regressed (A)", GREY),
    "free": ("epsilon, free features", GREEN),
    "everything": ("epsilon, small model, free", BLUE),
    "no_epsilon": ("the same without epsilon", SKY),
    EPS_ONLY: ("mean at each epsilon", BLACK),
}
HOLLOW: Mapping[str, Any] = {"markerfacecolor": "white"}
SMALL_PRINT = 7.5


def knee(table: pd.DataFrame, title: str) -> Figure:
    """Share of tokens changed against epsilon, predicted and measured, and their difference.

    On the left the band and the bars are the errors of the directions and of the documents, on the
    right those of the difference on the same tokens.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.1))
    by_what = {what: part.sort_values("epsilon") for what, part in table.groupby("what")}
    predicted, measured, off = (by_what[w] for w in ("predicted", "measured", "difference"))
    x = predicted["epsilon"].to_numpy()
    ends = (predicted[each].to_numpy() for each in ("value", "low", "high"))
    band(left, x, *ends, color=RED, label="predicted")
    look: dict[str, Any] = {"marker": "o", "ls": "", "color": BLUE, "ms": 5}
    left.errorbar(x, measured["value"], yerr=_reach(measured), label="measured", **look)
    left.set(ylabel="share of tokens changed", ylim=(-0.03, 1.03))
    left.legend(fontsize=SMALL_PRINT)
    left.set_title(f"n = {_n(measured)} documents, {_n(predicted):,} tokens", fontsize=9)
    right.errorbar(x, off["value"], yerr=_reach(off), **look)
    right.axhline(0, color=RED)
    right.set(ylabel="difference of shares")
    right.set_title("measured less predicted, same tokens", fontsize=9)
    for ax in (left, right):
        _epsilons(ax, x)
    fig.suptitle(title)
    return fig


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
        sns.ecdfplot(x=values, color=look.color, ls=look.linestyle, ax=left)
        for row in worth[worth["model"] == model].itertuples():
            shape = {"color": look.color, "marker": look.marker, "ms": 6}
            _dot(right, row, place, filled=row.what == "original", **shape)
    left.axhline(0.1, color=GREY, lw=0.8)
    left.set(xlabel="similarity to the original", ylabel="share of documents below")
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.set(xlabel="similarity to the original", ylim=(-0.5, len(models) - 0.5))
    right.set_yticks(range(len(models)), [LOOKS[model].label for model in models])
    right.set_title(f"n = {_n(worth)} documents", fontsize=9)
    fig.suptitle(title)
    keys = [
        *(_key(LOOKS[m].label, ls=LOOKS[m].linestyle, color=LOOKS[m].color) for m in models),
        _key("mean", marker="o", ms=6),
        _key("exceeded by nine in ten (grey line)", marker="o", ms=6, **HOLLOW),
    ]
    _legend(fig, keys, 3)
    return fig


def losses(table: pd.DataFrame, title: str) -> Figure:
    """Tokens changed and similarity lost against epsilon (Fig. 4)."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.9))
    for what, part in table.groupby("what", sort=False):
        look, part = LOOKS[str(what)], part.sort_values("epsilon")
        columns = (part[each] for each in ("epsilon", "value", "low", "high"))
        band(ax, *columns, **look._asdict(), ms=5)
    ax.axhline(LOST, color=BLACK, lw=0.8, ls=":", label=f"loss of {LOST:g}")
    ax.axhline(0, color=GREY, lw=0.8)
    _epsilons(ax, table["epsilon"])
    ax.set(ylabel="share of tokens, loss of similarity")
    ax.set_title(f"n = {_n(table)} documents, 95% intervals", fontsize=9)
    fig.suptitle(title)
    _legend(fig, ax.get_legend_handles_labels()[0], 3)
    return fig


def distributions(rows: pd.DataFrame) -> Figure:
    """Similarity of the original and the summary of its sanitized text, by epsilon (Fig. 3).

    Boxes hold the middle half and the median, whiskers nine documents in ten.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 3.6))
    columns = {"small_sanitized": LOOKS["small"].label, TARGET: LOOKS["large"].label}
    long = rows.melt("epsilon", [*columns], var_name="model", value_name="similarity")
    sns.boxplot(
        long.replace({"model": columns}),
        x="epsilon",
        y="similarity",
        hue="model",
        palette=[LOOKS["small"].color, LOOKS["large"].color],
        whis=(5, 95),
        showfliers=False,
        fill=False,
        gap=0.1,
        formatter=lambda epsilon: f"{epsilon:g}",
        ax=ax,
    )
    ax.axhline(0, color=GREY, lw=0.8)
    ax.tick_params(axis="x", rotation=60 if rows["epsilon"].nunique() > 10 else 0)
    ax.set(ylabel="similarity to the original")
    ax.set_title(f"n = {rows['document'].nunique()} documents at each epsilon", fontsize=9)
    sns.move_legend(ax, "upper left", title=None)
    return fig


def regressions(table: pd.DataFrame, title: str) -> Figure:
    """R2 and RMSE of every set of features in both kinds of folds (Table 1)."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.8), sharey=True)
    measures = {"r2": "R2", "rmse": "root mean squared error"}
    names = list(dict.fromkeys(table["features"]))
    for ax, (measure, text) in zip(axes, measures.items(), strict=True):
        for row in table[table["measure"] == measure].itertuples():
            filled = row.by == "document"
            height = len(names) - 1 - names.index(row.features) + (0.16 if filled else -0.16)
            color = FEATURES[row.features][1]
            _dot(ax, row, height, filled=filled, color=color, marker="o", ms=5)
            if row.features == EPS_ONLY and filled:
                ax.axvline(row.value, color=GREY, lw=0.8, zorder=0)
        ax.set(xlabel=text)
    axes[0].set_yticks(range(len(names)), [FEATURES[each][0] for each in reversed(names)])
    axes[0].set_title(f"n = {_n(table):,} rows", fontsize=9)
    fig.suptitle(title)
    keys = [
        _key("folds by document", marker="o"),
        _key("folds by row, as in the paper", marker="o", **HOLLOW),
    ]
    _legend(fig, keys, 2)
    return fig


# --- What the pictures share --------------------------------------------------------------------


def _dot(ax: Axes, row: Any, height: float, *, filled: bool, **look: Any) -> None:
    """A measurement and its interval along the x axis."""
    face = {} if filled else HOLLOW
    ax.errorbar(row.value, height, xerr=_reach(row), linestyle="", **look, **face)


def _epsilons(ax: Axes, epsilons: ArrayLike) -> None:
    """A logarithmic axis that names its epsilons as far as there is room."""
    values = np.unique(np.asarray(epsilons, dtype=np.float64))
    named = [float(values[0])]
    for each in values[1:]:
        if np.log(each / named[-1]) > 0.08 * np.log(values[-1] / values[0]):
            named.append(float(each))
    ax.set(xscale="log", xlabel="epsilon")
    ax.set_xticks(named, [f"{each:g}" for each in named], rotation=60)
    ax.minorticks_off()


def _reach(found: Any) -> NDArray[np.float64]:
    """How far an interval goes below and above its value: (2, points)."""
    below, above = found.value - found.low, found.high - found.value
    return np.clip(np.vstack([below, above]), 0, None)


def _n(found: pd.DataFrame) -> int:
    """Observations that every point rests on; tables of this notebook have one number."""
    return int(found["n"].max())


def _key(text: str, **look: Any) -> Line2D:
    """An entry of a legend that stands for no single line."""
    return Line2D([], [], **{"color": GREY, "linestyle": "", "label": text, **look})


def _legend(fig: Figure, handles: Iterable[Any], columns: int) -> None:
    """One legend below all panels."""
    fig.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, fontsize=SMALL_PRINT
    )
