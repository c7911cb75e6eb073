"""The pictures of notebook 01; each takes a table of the notebook and what to say above it."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.report.figures import PAGE, band, label, legend_below, percent, reach, style


@drawing
def kept_and_distinct(outcomes: pd.DataFrame, title: str) -> Figure:
    """N_w against epsilon in units of each mechanism's own middle; S_w against N_w.

    Of columns mechanism, epsilon (a grid that is even in its logarithm), quantity ("kept",
    "distinct"), value, low, high, n (words), draws.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.9))
    for name, part in outcomes.groupby("mechanism", sort=False):
        kept, distinct = (part[part["quantity"] == each] for each in ("kept", "distinct"))
        middle = np.sqrt(kept["epsilon"].min() * kept["epsilon"].max())
        look = _look(str(name), int(part["n"].max()))
        band(left, kept["epsilon"] / middle, kept["value"], kept["low"], kept["high"], **look)
        right.errorbar(kept["value"], distinct["value"], reach(distinct), elinewidth=0.7, **look)
    left.set(xscale="log", xlabel="epsilon over matched epsilon", ylabel="N_w: share kept")
    left.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"], minor=False)
    left.set_xticks([], minor=True)
    right.set(yscale="log", xlabel="N_w: share kept")
    right.set(ylabel=f"S_w: distinct outputs in {int(outcomes['draws'].max()):,} draws")
    percent(left.yaxis, right.xaxis)
    fig.suptitle(title)
    legend_below(fig, ncols=4, title="mechanism (words)")
    return fig


@drawing
def how_far(far: pd.DataFrame, size: int, title: str) -> Figure:
    """Cumulative share of replacements by rank (1 = nearest) among `size` words, by mechanism."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.6))
    for name, part in far.groupby("mechanism", sort=False):
        look = _look(str(name), len(part))
        sns.ecdfplot(x=part["rank"], ax=ax, markevery=0.12, ms=4, lw=1.3, **look)
    ranks = np.geomspace(1, size, 100)
    ax.plot(ranks, ranks / size, color="black", lw=1, ls=":", label="any word, uniformly")
    ax.set(xscale="log", xlim=(1, size), ylim=(0, 1.02), title=title)
    ax.set(xlabel="rank among the word's neighbours (1 = nearest)")
    ax.set(ylabel="share of replacements\nwith at most this rank")
    percent(ax.yaxis)
    ax.legend(title="mechanism (replacements)", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@drawing
def sentiment(accuracy: pd.DataFrame, title: str) -> Figure:
    """Accuracy of a classifier trained on clean text, by share of content words kept.

    Of `mechanisms.accuracies`, with a column corpus ("sentences", "reviews").
    """
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.2), sharey=True)
    sanitized = accuracy[accuracy["mechanism"] != "original"]
    names, levels = list(sanitized["mechanism"].unique()), sorted(sanitized["kept"].unique())
    for ax, (corpus, table) in zip(axes, accuracy.groupby("corpus", sort=False), strict=True):
        for name, part in table.groupby("mechanism", sort=False):
            look = {**style(str(name)), "label": label(str(name))}
            if name == "original":
                ax.axhline(part["accuracy"].item(), lw=1, **look)
                continue
            place = part["kept"].map(levels.index) + 0.09 * (names.index(name) - len(names) / 2)
            look["linestyle"] = ""
            ax.errorbar(place, part["accuracy"], reach(part, "accuracy"), lw=1, ms=4.5, **look)
        ax.axhline(0.5, lw=1, **style("chance"), label=label("chance"))
        ax.set_xticks(range(len(levels)), [f"{level:.0%}" for level in levels])
        ax.set(xlabel="share of content words kept", xlim=(-0.5, len(levels) - 0.5))
        ax.grid(axis="x", visible=False)
        ax.set_title(f"{corpus}, n = {int(table['n'].max()):,}", fontsize=9)
    axes[0].set(ylabel="accuracy of sentiment")
    percent(axes[0].yaxis)
    fig.suptitle(title)
    legend_below(fig, ncols=4)
    return fig


def _look(name: str, n: int) -> dict[str, Any]:
    return {**style(name), "label": f"{label(name)} ({n:,})"}
