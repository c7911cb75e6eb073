"""The pictures of notebook 06; each takes tables of the notebook and returns a figure.

Filled markers stand for means and for folds that keep documents apart, hollow ones for what nine
in ten exceed and for the paper's folds between rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from textpriv.experiments.slm_utility import EPS_ONLY, LOST
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
from textpriv.utility.prediction import TARGET

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
    left.errorbar(*_ends(measured)[:2], yerr=_reach(measured), label="measured", **look)
    left.set(ylabel="share of tokens changed", ylim=(-0.03, 1.03))
    left.legend()
    left.set_title(f"n = {_n(measured)} documents, {_n(predicted):,} tokens", fontsize=9)
    right.errorbar(*_ends(off)[:2], yerr=_reach(off), **look)
    right.axhline(0, color=RED)
    right.set(ylabel="difference of shares")
    right.set_title("measured less predicted, same tokens", fontsize=9)
    for ax in (left, right):
        _epsilons(ax, table["epsilon"])
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
        sns.ecdfplot(x=values, color=look.color, ls=look.linestyle, label=look.label, ax=left)
        for what, face in (("original", {}), ("original.p10", HOLLOW)):
            row = worth[(worth["model"] == model) & (worth["what"] == what)]
            dot = {"fmt": look.marker, "color": look.color, "ms": 6, **face}
            right.errorbar(row["value"], [place], xerr=_reach(row), **dot)
    left.axhline(0.1, color=GREY, lw=0.8)
    left.set(xlabel="similarity to the original", ylabel="share of documents below")
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.set(xlabel="similarity to the original", ylim=(-0.5, len(models) - 0.5))
    right.set_yticks(range(len(models)), [LOOKS[model].label for model in models])
    right.set_title(f"n = {_n(worth)} documents", fontsize=9)
    fig.suptitle(title)
    _legend(fig, left, ["mean", "exceeded by nine in ten (grey line)"])
    return fig


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
    _legend(fig, ax, [])
    return fig


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
    sns.move_legend(ax, "upper left", title=None)
    return fig


def regressions(table: pd.DataFrame, title: str) -> Figure:
    """R2 and RMSE of every set of features in both kinds of folds (Table 1)."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.8), sharey=True)
    names = list(dict.fromkeys(table["features"]))[::-1]
    measures = {"r2": "R2", "rmse": "root mean squared error"}
    for ax, (measure, text) in zip(axes, measures.items(), strict=True):
        found = table[table["measure"] == measure].set_index(["features", "by"])
        for height, name in enumerate(names):
            for by, up, face in (("document", 0.16, {}), ("row", -0.16, HOLLOW)):
                row = found.loc[[(name, by)]]
                dot = {"fmt": "o", "color": FEATURES[name][1], "ms": 5, **face}
                ax.errorbar(row["value"], [height + up], xerr=_reach(row), **dot)
        alone = found.loc[(EPS_ONLY, "document"), "value"]
        ax.axvline(alone, color=GREY, lw=0.8, zorder=0)
        ax.set(xlabel=text)
    axes[0].set_yticks(range(len(names)), [FEATURES[each][0] for each in names])
    axes[0].set_title(f"n = {_n(table):,} rows", fontsize=9)
    fig.suptitle(title)
    _legend(fig, axes[0], ["folds by document", "folds by row, as in the paper"])
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


def _reach(found: pd.DataFrame) -> np.ndarray:
    """How far intervals go below and above their values: (2, points)."""
    below, above = found["value"] - found["low"], found["high"] - found["value"]
    return np.clip(np.vstack([below, above]), 0, None)


def _n(found: pd.DataFrame) -> int:
    """Observations that every point rests on; tables of this notebook have one number."""
    return int(found["n"].max())


def _legend(fig: Figure, ax: Axes, filled_and_hollow: Sequence[str]) -> None:
    """One legend below all panels: what `ax` names, and what filled and hollow markers mean."""
    handles, _ = ax.get_legend_handles_labels()
    for label, face in zip(filled_and_hollow, ({}, HOLLOW), strict=False):
        handles += ax.plot([], [], "o", color=GREY, label=label, **face)
    fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=7.5)
