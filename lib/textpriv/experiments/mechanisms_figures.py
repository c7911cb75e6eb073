"""The pictures of notebook 01; each takes a table of the notebook and what to say above it.

More mechanisms than an eye follows in one panel are parted by their family: noise after which the
nearest word is looked up, and words drawn by a probability that is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.mechanisms.registry import NOISE, WORD_LEVEL
from textpriv.report.figures import PAGE, band, label, percent, reach, style

FAMILIES = ("noise, then the nearest word", "words drawn by P(y|x)")
BESIDE = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": 7, "title_fontsize": 7}


@drawing
def kept_and_distinct(outcomes: pd.DataFrame, title: str) -> Figure:
    """N_w against epsilon in units of each mechanism's own middle; S_w against N_w.

    Of columns mechanism, epsilon (a grid that is even in its logarithm), quantity ("kept",
    "distinct"), value, low, high, n (words), draws.
    """
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 6.0), sharex="col", sharey="col")
    for (left, right), (family, members) in zip(axes, _families(outcomes), strict=True):
        for name, part in members.groupby("mechanism", sort=False):
            kept, distinct = (part[part["quantity"] == each] for each in ("kept", "distinct"))
            middle = np.sqrt(kept["epsilon"].min() * kept["epsilon"].max())
            look = _look(str(name), int(part["n"].max()))
            band(left, kept["epsilon"] / middle, kept["value"], kept["low"], kept["high"], **look)
            right.errorbar(
                kept["value"], distinct["value"], reach(distinct), elinewidth=0.7, **look
            )
        left.set(ylabel="N_w: share kept", title=family)
        right.set(ylabel=f"S_w: distinct outputs\nin {int(outcomes['draws'].max()):,} draws")
        right.legend(title="mechanism (words)", **BESIDE)
        percent(left.yaxis)
    axes[1, 0].set(xscale="log", xlabel="epsilon over matched epsilon")
    axes[1, 0].set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"], minor=False)
    axes[1, 0].set_xticks([], minor=True)
    axes[1, 1].set(yscale="log", xlabel="N_w: share kept")
    percent(axes[1, 1].xaxis)
    fig.suptitle(title)
    return fig


@drawing
def how_far(far: pd.DataFrame, size: int, title: str) -> Figure:
    """Cumulative share of replacements by rank (1 = nearest) among `size` words, by mechanism."""
    fig, axes = plt.subplots(2, 1, figsize=(PAGE, 5.4), sharex=True)
    for ax, (family, members) in zip(axes, _families(far), strict=True):
        for name, part in members.groupby("mechanism", sort=False):
            look = _look(str(name), len(part))
            sns.ecdfplot(x=part["rank"], ax=ax, markevery=0.12, ms=4, lw=1.3, **look)
        ranks = np.geomspace(1, size, 100)
        ax.plot(ranks, ranks / size, color="black", lw=1, ls=":", label="any word, uniformly")
        ax.set(xscale="log", xlim=(1, size), ylim=(0, 1.02), title=family)
        ax.set(xlabel="rank among the word's neighbours (1 = nearest)")
        ax.set(ylabel="replacements with\nat most this rank")
        percent(ax.yaxis)
        ax.legend(title="mechanism (replacements)", **BESIDE)
    axes[0].set_xlabel("")
    fig.suptitle(title)
    return fig


@drawing
def sentiment(accuracy: pd.DataFrame, title: str) -> Figure:
    """Accuracy of a classifier trained on clean text, a row for each mechanism.

    Of `mechanisms.accuracies`, with a column corpus ("sentences", "reviews"); a colour for each
    share of content words kept.
    """
    sanitized = accuracy[accuracy["mechanism"] != "original"]
    names, levels = list(sanitized["mechanism"].unique())[::-1], sorted(sanitized["kept"].unique())
    height = 1.6 + 0.26 * len(names)
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, height), sharey=True, sharex=True)
    shades = sns.color_palette("viridis", len(levels) + 1)
    for ax, (corpus, table) in zip(axes, accuracy.groupby("corpus", sort=False), strict=True):
        clean = table.loc[table["mechanism"] == "original", "accuracy"].item()
        ax.axvline(clean, color="black", lw=1, label="clean text")
        ax.axvline(0.5, lw=1, **{**style("chance"), "marker": ""}, label=label("chance"))
        for level, color in zip(levels, shades, strict=False):
            part = table[(table["kept"] == level) & (table["mechanism"] != "original")]
            row = part["mechanism"].map(names.index) + 0.2 * (levels.index(level) - 1)
            marks = {"fmt": "o", "ms": 3.5, "lw": 1, "color": color}
            spread = reach(part, "accuracy")
            ax.errorbar(part["accuracy"], row, xerr=spread, label=f"{level:.0%} kept", **marks)
        ax.set(xlabel="accuracy of sentiment", title=f"{corpus}, n = {int(table['n'].max()):,}")
        ax.grid(axis="y", visible=False)
        percent(ax.xaxis)
    axes[0].set_yticks(range(len(names)), [label(str(name)) for name in names])
    axes[1].legend(**BESIDE)
    fig.suptitle(title)
    return fig


def _families(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of either family of mechanisms, with its name."""
    is_noise = table["mechanism"].map(lambda name: WORD_LEVEL[str(name)].line == NOISE)
    yield FAMILIES[0], table[is_noise]
    yield FAMILIES[1], table[~is_noise]


def _look(name: str, n: int) -> dict[str, Any]:
    return {**style(name), "label": f"{label(name)} ({n:,})"}
