"""The pictures of notebook 01; each takes a table of the notebook and what to say above it.

They are as wide as a column, so that print and a phone show them at their own size. More mechanisms
than an eye follows in one panel are parted by their family: noise after which the nearest word is
looked up, and words drawn by a probability that is known.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from textpriv.drawing import drawing
from textpriv.experiments.mechanisms import BETTER, READERS
from textpriv.mechanisms.registry import NOISE, WORD_LEVEL
from textpriv.report.figures import band, dot, label, legend_below, percent, reach, style

COLUMN = 4.4  # inches; printed at 85 mm, text of 8 points has six
SMALL: dict[str, Any] = {"fontsize": 7, "title_fontsize": 7}
FAMILIES = {True: "noise, then the nearest word", False: "words drawn by P(y|x)"}


@drawing
def kept_and_distinct(curves: pd.DataFrame, distinct: pd.DataFrame, title: str) -> Figure:
    """N_w against epsilon over the epsilon that is matched, with S_w there in the legend.

    Of `curves`, with columns mechanism, relative (epsilon over the matched one), value, low, high,
    n (words), and of `distinct`, with columns mechanism, value, draws.
    """
    fig, axes = plt.subplots(2, 1, figsize=(COLUMN, 5.4), sharex=True)
    outputs = distinct.set_index("mechanism")["value"]
    is_noise = curves["mechanism"].map(lambda name: WORD_LEVEL[str(name)].line == NOISE)
    every = max(1, len(curves["relative"].unique()) // 4)
    for ax, (noise, family) in zip(axes, FAMILIES.items(), strict=True):
        for name, part in curves[is_noise == noise].groupby("mechanism", sort=False):
            look: dict[str, Any] = {**style(str(name)), "ms": 4, "lw": 1.3, "markevery": every}
            look["label"] = f"{label(str(name))}: {outputs[name]:,.0f}"
            band(ax, part, "relative", **look)
        ax.axhline(0.5, color="black", lw=0.6, zorder=1)
        ax.set(ylabel="draws that keep the word", title=family, ylim=(-0.02, 1.02))
        percent(ax.yaxis)
        heading = f"outputs of a word\nin {int(distinct['draws'].max()):,} draws"
        ax.legend(title=heading, loc="center left", bbox_to_anchor=(1.0, 0.5), **SMALL)
    axes[1].set(xscale="log", xlabel="epsilon over the epsilon that keeps half")
    axes[1].set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"], minor=False)
    axes[1].set_xticks([], minor=True)
    fig.suptitle(f"{title}\n(n = {int(curves['n'].max()):,} words; bands: 95%)")
    return fig


@drawing
def how_far(near: pd.DataFrame, chance: dict[int, float], title: str) -> Figure:
    """Share of replacements among a word's nearest neighbours, a row for each mechanism.

    Of columns mechanism, within (ranks: 10, 1000), value, low, high, n (replacements), and what a
    word drawn uniformly would give at each rank.
    """
    order = near[near["within"] == min(chance)].sort_values("value")
    fig, ax = plt.subplots(figsize=(COLUMN, 1.8 + 0.24 * len(order)))
    place = {name: at for at, name in enumerate(order["mechanism"])}
    kinds = [*zip(chance.items(), (None, "white"), strict=True)]
    for (within, share), fill in reversed(kinds):  # the nearest above, as they may coincide
        for row in near[near["within"] == within].itertuples():
            color = style(str(row.mechanism))["color"]
            dot(ax, row, place[row.mechanism], marker="o", ms=4.5, lw=1, color=color, mfc=fill)
        key = f"among the {within:,} nearest"
        ax.plot([], [], color="black", marker="o", ls="", ms=4.5, mfc=fill, label=key)
        line, uniform = "-" if fill is None else ":", f"uniform word: {share:.2%}"
        ax.axvline(share, color=style("chance")["color"], lw=1, ls=line, label=uniform)
    counted = order["mechanism"].map(label) + order["n"].map(" ({:,})".format)
    ax.set_yticks(range(len(order)), counted)
    ax.grid(axis="y", visible=False)
    ax.set(xlim=(-0.02, 1.02), xlabel="share of replacements")
    percent(ax.xaxis)
    legend_below(fig, 2, fontsize=7)
    fig.suptitle(title)
    return fig


@drawing
def gains(differences: pd.DataFrame, near: pd.DataFrame, title: str) -> Figure:
    """Accuracy on a mechanism's own replacements minus that on random words in their places.

    Of columns corpus, mechanism, reader (of READERS, or BETTER), value, low, high, n, verdict; a
    row for each mechanism, in the order of its share of near replacements, `near`, with columns
    mechanism and value; a colour and marker for each classifier. What the title counts is filled.
    """
    order = near[near["mechanism"].isin(differences["mechanism"])].sort_values("value")
    rows = {name: at for at, name in enumerate(order["mechanism"])}
    size = COLUMN, 2.2 + 0.3 * len(rows)
    fig, axes = plt.subplots(1, 2, figsize=size, sharey=True, sharex=True)
    colors = sns.color_palette("colorblind", len(READERS))
    looks = dict(zip(READERS, zip(colors, "os", (0.25, -0.25), strict=True), strict=True))
    for ax, (corpus, table) in zip(axes, differences.groupby("corpus", sort=False), strict=True):
        ax.axvline(0, color="black", lw=0.8, zorder=1)
        for reader, (color, marker, away) in looks.items():
            part = table[table["reader"] == reader]
            dots: dict[str, Any] = {"fmt": marker, "ms": 3, "lw": 0.8, "color": color}
            dots["label"] = f"classifier {READERS[reader]}"
            ax.errorbar(part["value"], part["mechanism"].map(rows) + away, xerr=reach(part), **dots)
        better = table[table["reader"] == BETTER]
        for is_sure, part in better.groupby(better["verdict"] != "undecided"):
            what = "the better of the two on each text" + " (significant)" * bool(is_sure)
            look: dict[str, Any] = {"fmt": "D", "ms": 4.5, "lw": 1, "color": "black", "label": what}
            look["mfc"] = "black" if is_sure else "white"
            ax.errorbar(part["value"], part["mechanism"].map(rows), xerr=reach(part), **look)
        ax.set(xlabel="gain in accuracy", title=f"{corpus}\nn = {int(table['n'].max()):,}")
        ax.grid(axis="y", visible=False)
        ax.xaxis.set_major_locator(MaxNLocator(3))  # their labels would meet
        percent(ax.xaxis)
    named = order["mechanism"].map(label) + order["value"].map(" ({:.0%} near)".format)
    axes[0].set_yticks(range(len(rows)), named)
    legend_below(fig, 1, fontsize=7)
    fig.suptitle(title)
    return fig
