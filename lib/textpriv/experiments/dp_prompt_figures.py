"""The pictures of notebook 04; each takes tables and a title that says the finding.

Hollow markers stand for tables of 300 dimensions; what is left of a figure is private, what is
high is useful. Intervals are those of the tables, 95%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.experiments.dp_prompt import CLEAN, CLIPPED, EMBEDDING, LARGE, PROMPTED, TEXT, WHOLE
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
def plane(table: pd.DataFrame, random: Mapping[str, float], title: str) -> Figure:
    """Sentiment against author under all four attackers; upper left is useful and private."""
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 7.6), sharex=True, sharey=True)
    hidden = table["mechanism"].str.contains(f"{LARGE}|{WHOLE}|top-k|^{CLEAN}$")
    names = table.loc[~hidden, "mechanism"].unique()
    for ax, (access, attacker) in zip(axes.flat, product(ACCESS, (STATIC, ADAPTIVE)), strict=True):
        _panel(ax, table[table["access"] == access], random, names, attacker)
    legend_below(fig, ncols=3)
    fig.suptitle(title, fontsize=9)
    return fig


@drawing
def dimensions(table: pd.DataFrame, random: Mapping[str, float], title: str) -> Figure:
    """50 and 300 dimensions over the same words, and the whole table: adaptive attackers."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.6), sharex=True, sharey=True)
    large = [name for name in table["mechanism"].unique() if name.endswith(LARGE)]
    names = [*(name.removesuffix(LARGE) for name in large), *large, WHOLE]
    for ax, access in zip(axes, ACCESS, strict=True):
        _panel(ax, table[table["access"] == access], random, names, ADAPTIVE)
    legend_below(fig, ncols=3)
    fig.suptitle(title, fontsize=9)
    return fig


def _panel(
    ax: Axes, table: pd.DataFrame, random: Mapping[str, float], names: Sequence[str], attacker: str
) -> None:
    """A line per mechanism through its settings, clean documents, and who guesses at random."""
    for name in names:
        part = table[(table["mechanism"] == name) & (table["attacker"] == attacker)]
        if len(part):
            x, y = (part[part["target"] == each].sort_values("level") for each in TARGETS)
            bars: dict[str, Any] = {"xerr": reach(x), "yerr": reach(y), "elinewidth": 0.5}
            ax.errorbar(x["value"], y["value"], lw=1.2, **bars, **_look(name))
    # Of clean text the static attacker is the adaptive one.
    clean = table[table["mechanism"] == CLEAN].groupby("target")["value"].max()
    star: dict[str, Any] = {"marker": "*", "ls": "", "ms": 11, "color": BLACK, "zorder": 5}
    ax.plot(clean["author"], clean["sentiment"], label=_name(CLEAN), **star)
    ax.axhline(random["sentiment"], **GUESSING)
    ax.axvline(random["author"], label="guessing at random", **GUESSING)
    ax.set(xlabel=TARGETS["author"], ylabel=TARGETS["sentiment"])
    access = ACCESS[table["access"].iloc[0]]
    ax.set_title(f"{attacker}, {access} (n = {table['n'].max()})", fontsize=9)
    ax.label_outer()


@drawing
def clipping(
    table: pd.DataFrame, guaranteed: pd.DataFrame, random: Mapping[str, float], title: str
) -> Figure:
    """F1, and what is `guaranteed`, against temperature: no limits, clipped, and with top-k."""
    fig, (*panels, bound) = plt.subplots(1, 3, figsize=(PAGE, 3.9))
    prompted = table[
        table["mechanism"].str.startswith(PROMPTED)
        & (table["attacker"] == ADAPTIVE)
        & (table["access"] == EMBEDDING)
    ].sort_values("level")
    for ax, target in zip(panels, TARGETS, strict=True):
        for name, line in prompted[prompted["target"] == target].groupby("mechanism"):
            ends = (line[each] for each in ("level", "value", "low", "high"))
            band(ax, *ends, lw=1.2, **_look(str(name)))
        ax.axhline(random[target], label="guessing at random", **GUESSING)
        ax.set(xlabel="temperature", ylabel=TARGETS[target], ylim=(0, 1))
    clipped = guaranteed[guaranteed["mechanism"] == CLIPPED].sort_values("temperature")
    for kind, text, look in (("paper", "paper's bound", "s--"), ("tight", "exact", "o-")):
        bound.plot(clipped["temperature"], clipped[kind], look, color=style(CLIPPED)["color"])
        place = clipped["temperature"].iloc[0], clipped[kind].iloc[0]
        bound.annotate(text, place, xytext=(6, 2), textcoords="offset points")
    tokens = int(guaranteed["tokens"].iloc[0])
    bound.set(xlabel="temperature", ylabel=f"epsilon of {tokens} tokens, clipped")
    bound.set_ylim(bottom=0)
    panels[0].set_title(f"adaptive, {ACCESS[EMBEDDING]}", fontsize=9)
    panels[1].set_title(f"n = {table['n'].max()}", fontsize=9)
    legend_below(fig, ncols=3)
    fig.suptitle(title, fontsize=9)
    return fig


@drawing
def equal_risk(table: pd.DataFrame, random: Mapping[str, float], title: str) -> Figure:
    """Sentiment F1 where the strongest attacker is equally successful: a panel per risk."""
    risks = sorted(table["risk"].unique())
    names = list(table.groupby("mechanism")["value"].mean().sort_values().index)
    shape: dict[str, Any] = {"figsize": (PAGE, 1.6 + 0.27 * len(names)), "squeeze": False}
    fig, axes = plt.subplots(1, max(1, len(risks)), sharex=True, sharey=True, **shape)
    for ax, risk in zip(axes[0], risks, strict=False):  # an empty panel where there is none
        for height, name in enumerate(names):
            row = table[(table["risk"] == risk) & (table["mechanism"] == name)]
            if len(row):
                look = {**_look(name), "linestyle": "", "elinewidth": 1}
                ax.errorbar(row["value"], [height], xerr=reach(row), **look)
            else:
                at = ax.get_yaxis_transform()
                ax.text(0.03, height, "no such risk", va="center", size=6.8, transform=at)
        ax.axvline(random["sentiment"], **GUESSING)
        ax.set(xlabel="best sentiment F1")
        ax.set_title(f"author F1 = {risk:g}", fontsize=9)
    axes[0, 0].set_yticks(range(len(names)), [_name(each) for each in names])
    fig.suptitle(title, fontsize=9)
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


@drawing
def similarity(table: pd.DataFrame, title: str) -> Figure:
    """BERTScore and cosine of original and output by setting: by epsilon, and by temperature."""
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 6.4), sharey="row", sharex="col")
    is_prompt = table["mechanism"].str.startswith(PROMPTED)
    is_other = table["mechanism"] == "other document"
    panels = {"epsilon": table[~is_prompt & ~is_other], "temperature": table[is_prompt]}
    measures = {"bertscore": "BERTScore F1 (MiniLM)", "cosine": "cosine (MiniLM)"}
    for row, (measure, text) in zip(axes, measures.items(), strict=True):
        ends = {measure: "value", f"{measure}_low": "low", f"{measure}_high": "high"}
        for ax, (unit, part) in zip(row, panels.items(), strict=True):
            for name, line in part.rename(columns=ends).groupby("mechanism", sort=False):
                line = line.sort_values("level")
                look = {"yerr": reach(line), "elinewidth": 0.5, "lw": 1.2, **_look(str(name))}
                ax.errorbar(line["level"], line["value"], **look)
            other = table.loc[is_other, measure].iloc[0]
            ax.axhline(other, color=BLACK, lw=1, ls="--", label="other document")
            ax.set(xlabel=unit, ylabel=text, xscale="log" if unit == "epsilon" else "linear")
            ax.label_outer()
    legend_below(fig, ncols=3)
    fig.suptitle(f"{title} (n = {table['n'].max()})", fontsize=9)
    return fig
