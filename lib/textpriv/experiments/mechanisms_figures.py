"""The pictures of notebook 01; each takes a table of `mechanisms` and returns a figure."""

from __future__ import annotations

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


def how_far(far: pd.DataFrame, kept: float) -> Figure:
    """Cumulative share of replacements by rank and by distance, at one matched setting."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.7), sharey=True)
    for name, part in far.groupby("mechanism", sort=False):
        look = {**style(str(name)), "label": f"{label(str(name))} ({len(part):,})"}
        for ax, column in zip(axes, ("rank", "distance"), strict=True):
            values = np.sort(part[column])
            cumulative = np.arange(1, len(values) + 1) / len(values)
            ax.plot(values, cumulative, **look, markevery=0.15, ms=4)
    axes[0].set(xscale="log", xlabel="rank among the word's neighbours (1 = nearest)")
    axes[1].set(xlabel="distance to the word")
    axes[0].set(ylabel="share of replacements\nup to here", ylim=(0, 1.02))
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    fig.suptitle(
        f"Where replacements lie when {kept:.0%} of all tokens are kept", x=0.01, ha="left"
    )
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(
        handles, labels, loc="outside lower center", ncols=4, title="mechanism (replacements)"
    )
    return fig


def sentiment(sentences: pd.DataFrame, reviews: pd.DataFrame) -> Figure:
    """Accuracy of a classifier trained on clean text against the share of tokens kept."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.9), sharey=True)
    titles = ("sentences (Rotten Tomatoes)", "whole reviews (IMDb)")
    for ax, found, title in zip(axes, (sentences, reviews), titles, strict=True):
        original = found[found["mechanism"] == "original"].iloc[0]
        ax.axhline(original["accuracy"], **{**style("original"), "marker": ""})
        ax.axhline(0.5, **{**style("chance"), "marker": ""})
        rest = found[found["mechanism"] != "original"]
        names = list(dict.fromkeys(sentences["mechanism"]))
        for name, part in rest.groupby("mechanism", sort=False):
            shift = 0.008 * (names.index(str(name)) - len(names) / 2)
            spread = np.vstack([part["accuracy"] - part["low"], part["high"] - part["accuracy"]])
            ax.errorbar(
                part["kept"] + shift, part["accuracy"], yerr=spread, **style(str(name)),
                lw=1, ms=4, label=label(str(name)),
            )  # fmt: skip
        ax.set(xlabel="share of tokens kept")
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_title(f"{title}, n = {int(found['n'].max()):,}", fontsize=9)
        ax.annotate("original text", (0.02, original["accuracy"]), (0, 2), fontsize=8,
                    xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
        ax.annotate("chance", (0.02, 0.5), (0, 2), fontsize=8,
                    xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
    axes[0].set(ylabel="accuracy of sentiment")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4)
    return fig


def speed(found: pd.DataFrame) -> Figure:
    """Tokens per second of every mechanism, ids in and ids out."""
    part = found.sort_values("tokens_per_second")
    fig, ax = plt.subplots(figsize=(5.5, 2.8))
    names = [label(name) for name in part["mechanism"]]
    ax.barh(names, part["tokens_per_second"], color=[style(n)["color"] for n in part["mechanism"]])
    for row, value in enumerate(part["tokens_per_second"]):
        ax.annotate(f"{value:,.0f}", (value, row), (3, 0), textcoords="offset points", va="center")
    ax.set(xscale="log", xlabel="tokens per second (whole corpus, this machine)")
    ax.set_xlim(right=float(part["tokens_per_second"].max()) * 6)
    ax.grid(axis="y", visible=False)
    ax.set_title(f"Sanitizing {int(found['tokens'].max()):,} tokens")
    return fig


def _plain_log(ax: Axes) -> None:
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
