"""The pictures of notebook 01; each takes a table of `mechanisms` and returns a figure."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter

from textpriv.report.figures import PAGE, band, label, style


def kept_and_distinct(found: pd.DataFrame) -> Figure:
    """N_w and S_w against epsilon, one line per mechanism."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.7))
    titles = {
        "kept": "N_w: share of draws that\nreturn the word",
        "distinct": "S_w: distinct outputs",
    }
    for ax, (quantity, title) in zip(axes, titles.items(), strict=True):
        for name, part in found[found["quantity"] == quantity].groupby("mechanism", sort=False):
            look = {**style(str(name)), "label": f"{label(str(name))} ({int(part['n'].max())})"}
            band(ax, part["epsilon"], part["value"], part["low"], part["high"], **look)
        ax.set(xscale="log", xlabel="epsilon (unit differs between mechanisms)")
        _plain_log(ax)
        ax.set_title(title, fontsize=9)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[1].set(yscale="log", ylabel=f"in {int(found['draws'].max()):,} draws")
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4, title="mechanism (words)")
    return fig


def how_far(far: pd.DataFrame, kept: float, size: int) -> Figure:
    """Cumulative share of replacements by rank, at one matched setting."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.6))
    for name, part in far.groupby("mechanism", sort=False):
        values = np.sort(part["rank"])
        cumulative = np.arange(1, len(values) + 1) / len(values)
        ax.plot(values, cumulative, markevery=0.12, ms=4, lw=1.3, **_look(str(name), len(part)))
    ranks = np.geomspace(1, size, 100)
    ax.plot(ranks, ranks / size, color="black", lw=1, ls=":", label="any word, uniformly")
    ax.set(xscale="log", xlim=(1, size), ylim=(0, 1.02))
    ax.set(xlabel="rank among the word's neighbours (1 = nearest)")
    ax.set(ylabel="share of replacements\nwith at most this rank")
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_title(f"Where replacements lie when {kept:.0%} of the content words are kept")
    ax.legend(title="mechanism (replacements)", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def sentiment(sentences: pd.DataFrame, reviews: pd.DataFrame) -> Figure:
    """Accuracy of a classifier trained on clean text, by share of content words kept."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.0), sharey=True)
    titles = ("sentences (Rotten Tomatoes)", "whole reviews (IMDb)")
    names = [name for name in dict.fromkeys(sentences["mechanism"]) if name != "original"]
    levels = sorted(sentences.loc[sentences["mechanism"] != "original", "kept"].unique())
    for ax, found, title in zip(axes, (sentences, reviews), titles, strict=True):
        original = found[found["mechanism"] == "original"].iloc[0]
        for name, height in (("original", original["accuracy"]), ("chance", 0.5)):
            ax.axhline(height, **{**style(name), "marker": ""}, lw=1, label=label(name))
        for position, name in enumerate(names):
            part = found[found["mechanism"] == name]
            place = part["kept"].map(levels.index) + 0.09 * (position - (len(names) - 1) / 2)
            spread = np.vstack([part["accuracy"] - part["low"], part["high"] - part["accuracy"]])
            look = {**style(name), "linestyle": ""}
            ax.errorbar(place, part["accuracy"], yerr=spread, **look, lw=1, ms=4.5,
                        label=label(name))  # fmt: skip
        ax.set_xticks(range(len(levels)), [f"{level:.0%}" for level in levels])
        ax.set(xlabel="share of content words kept", xlim=(-0.5, len(levels) - 0.5))
        ax.grid(axis="x", visible=False)
        for edge in range(1, len(levels)):
            ax.axvline(edge - 0.5, color="#E4E4E4", lw=0.8)
        ax.set_title(f"{title}, n = {int(found['n'].max()):,}", fontsize=9)
    axes[0].set(ylabel="accuracy of sentiment")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4)
    return fig


def speed(found: pd.DataFrame) -> Figure:
    """Tokens per second of every mechanism, ids in and ids out."""
    part = found.sort_values("tokens_per_second").reset_index(drop=True)
    fig, ax = plt.subplots(figsize=(5.5, 2.8))
    for row in part.itertuples():
        look = style(row.mechanism)
        ax.plot(row.tokens_per_second, row.Index, color=look["color"], marker=look["marker"], ms=7)
        text = f"{row.tokens_per_second:,.0f}"
        ax.annotate(text, (row.tokens_per_second, row.Index), (7, 0), va="center",
                    textcoords="offset points")  # fmt: skip
    ax.set_yticks(
        range(len(part)), [f"{label(r.mechanism)} ({r.tokens:,})" for r in part.itertuples()]
    )
    ax.set(xscale="log", xlabel="tokens per second (one run on this machine)")
    ax.set_xlim(right=float(part["tokens_per_second"].max()) * 8)
    ax.set_title("Speed of sanitizing (tokens)")
    return fig


def _look(name: str, n: int) -> dict[str, Any]:
    return {**style(name), "label": f"{label(name)} ({n:,})"}


def _plain_log(ax: Axes) -> None:
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
