"""The pictures of notebook 04; each takes tables and a title that says the finding.

Hollow markers stand for tables of 300 dimensions; what is left of a figure is private, what is
high is useful. Intervals are those of the tables, 95%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.experiments.dp_prompt import CLEAN, EMBEDDING, LARGE, TEXT
from textpriv.experiments.dp_prompt_risk import ADAPTIVE, STATIC
from textpriv.report.figures import BLACK, GREY, PAGE, band, label, legend_below, reach, style

ACCESS = {EMBEDDING: "sees embeddings", TEXT: "sees texts"}
TARGETS = {"author": "macro F1 for the author", "sentiment": "macro F1 for the sentiment"}
GUESSING: dict[str, Any] = {"color": GREY, "lw": 0.8, "ls": ":"}


def _look(mechanism: str) -> dict[str, Any]:
    """Colour, marker, line and name of a mechanism; 300 dimensions are hollow."""
    look = {**style(mechanism.removesuffix(LARGE)), "label": _name(mechanism)}
    return look | ({"markerfacecolor": "white"} if mechanism.endswith(LARGE) else {})


def _name(mechanism: str) -> str:
    if mechanism == CLEAN:
        return "clean documents"
    large = ", 300 dimensions" if mechanism.endswith(LARGE) else ""
    return label(mechanism.removesuffix(LARGE)) + large


@drawing
def plane(
    top: pd.DataFrame, names: Sequence[str], random: Mapping[str, float], title: str
) -> Figure:
    """Sentiment against author under the strongest attackers, a line for each mechanism.

    Upper left is useful and private. The ends of every line say which epsilon or temperature.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 5))
    for name in names:
        part = top[top["mechanism"] == name]
        x, y = (part[part["target"] == each].sort_values("level") for each in TARGETS)
        bars: dict[str, Any] = {"xerr": reach(x), "yerr": reach(y), "elinewidth": 0.4, "capsize": 0}
        ax.errorbar(x["value"], y["value"], lw=1.4, **bars, **_look(name))
        for end in {0, len(x) - 1}:
            place = x["value"].iloc[end], y["value"].iloc[end]
            text = x["setting"].iloc[end]
            color = _look(name)["color"]
            ax.annotate(text, place, (5, 4), textcoords="offset points", color=color, fontsize=7.5)
    clean = top[top["mechanism"] == CLEAN].set_index("target")["value"]
    star: dict[str, Any] = {"marker": "*", "ls": "", "ms": 12, "color": BLACK, "zorder": 5}
    ax.plot(clean["author"], clean["sentiment"], label=_name(CLEAN), **star)
    ax.axhline(random["sentiment"], **GUESSING)
    ax.axvline(random["author"], label="guessing at random", **GUESSING)
    ax.set(xlabel=f"{TARGETS['author']} (risk)", ylabel=f"{TARGETS['sentiment']} (utility)")
    legend_below(fig, ncols=3)
    ax.set_title(fill(title, 80), fontsize=9)
    return fig


@drawing
def ledger(table: pd.DataFrame, random: Mapping[str, float], title: str) -> Figure:
    """Author F1 by trait (columns) and output (rows), as a heat map about what guessing gives."""
    names = table["mechanism"].map(_name) + ", " + table["setting"]
    rows = table.assign(output=names.str.removesuffix(", plain"))
    grid = rows.pivot_table(index="output", columns="feature", values="value", sort=False)
    fig, ax = plt.subplots(figsize=(PAGE, 1.8 + 0.38 * len(grid)))
    shades: dict[str, Any] = {"cmap": "vlag", "center": random["author"]}
    sns.heatmap(grid, annot=True, fmt=".2f", **shades, cbar_kws={"label": TARGETS["author"]}, ax=ax)
    ax.set(xlabel="", ylabel="")
    ax.set_title(f"{title} (n = {table['n'].max()})", fontsize=9)
    ax.tick_params(axis="x", rotation=30)
    ax.tick_params(axis="y", rotation=0)
    return fig


@drawing
def repeated(table: pd.DataFrame, random: Mapping[str, float], title: str) -> Figure:
    """Author F1 against the number of averaged outputs: a panel per mechanism."""
    groups = list(table.groupby(["mechanism", "setting"], sort=False))
    fig, axes = plt.subplots(1, len(groups), figsize=(PAGE, 3.7), sharey=True, squeeze=False)
    for ax, ((mechanism, setting), part) in zip(axes[0], groups, strict=True):
        for attacker, line_style in ((STATIC, "--"), (ADAPTIVE, "-")):
            line = part[part["attacker"] == attacker].sort_values("k")
            look = {**_look(mechanism), "label": attacker, "linestyle": line_style}
            band(ax, line["k"], line["value"], line["low"], line["high"], **look)
        ax.axhline(random["author"], **GUESSING)
        ax.set(xscale="log", xlabel="outputs per document, averaged")
        ax.set_xticks(line["k"], line["k"].astype(str))
        ax.set_xticks([], minor=True)
        ax.set_title(f"{_name(mechanism)}, {setting} (n = {part['n'].max()})", fontsize=9)
        ax.legend()
    axes[0, 0].set_ylabel(TARGETS["author"])
    fig.suptitle(title, fontsize=9)
    return fig
