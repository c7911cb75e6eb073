"""The pictures of notebook 04; each takes tables and a title that says the finding.

What is left of a figure is private, what is high is useful. Intervals are those of the tables, 95%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from textpriv.drawing import drawing
from textpriv.experiments.dp_prompt import CLEAN, CLIPPED, FIRST, PROMPTED, shown
from textpriv.experiments.equal_utility import LEFT_OUT
from textpriv.report.figures import BLACK, GREY, PAGE, band, label, legend_below, reach, style

TARGETS = {"author": "macro F1 for the author", "sentiment": "macro F1 for the sentiment"}
ENDS = {  # where the label of a line stands beside its end, in points: these ends are crowded
    "madlib": ("left", 6, -12),
    "left-out": ("left", 6, -10),
    "first-words": ("left", 2, -19),
    "dp-prompt-clipped": ("right", -6, 4),
}
GUESSING: dict[str, Any] = {"color": GREY, "lw": 0.8, "ls": ":"}


def _name(mechanism: str) -> str:
    return "clean documents" if mechanism == CLEAN else label(mechanism)


@drawing
def plane(
    top: pd.DataFrame, names: Sequence[str], guessing: Mapping[str, float], title: str
) -> Figure:
    """Sentiment against author under the strongest attackers, a line for each mechanism.

    Upper left is useful and private. The mildest setting of every line is written beside it.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 4.6))
    for name in names:
        part = top[top["mechanism"] == name]
        x, y = (part[part["target"] == each].sort_values("level") for each in TARGETS)
        look: dict[str, Any] = {**style(name), "label": _name(name)}
        bars: dict[str, Any] = {"capsize": 0, "elinewidth": 0.6, "lw": 1.4}
        bars["ecolor"] = to_rgba(look["color"], 0.35)
        ax.errorbar(x["value"], y["value"], xerr=reach(x), yerr=reach(y), **bars, **look)
        is_prompt = x["setting"].iloc[0].startswith("t")  # whose mildest setting is the coldest
        end = 0 if is_prompt else -1
        side, right, up = ENDS.get(name, ("left", 5, 4))
        place, text = (x["value"].iloc[end], y["value"].iloc[end]), shown(x["setting"].iloc[end])
        written: dict[str, Any] = {"ha": side, "color": look["color"], "fontsize": 8}
        written["path_effects"] = [withStroke(linewidth=2, foreground="white")]
        ax.annotate(text, place, (right, up), textcoords="offset points", **written)
    clean = top[top["mechanism"] == CLEAN].set_index("target")["value"]
    star: dict[str, Any] = {"marker": "*", "ls": "", "ms": 12, "color": BLACK, "zorder": 5}
    ax.plot(clean["author"], clean["sentiment"], label=_name(CLEAN), **star)
    ax.axhline(guessing["sentiment"], **GUESSING)
    ax.axvline(guessing["author"], label="guessing", **GUESSING)
    ax.set(xlabel=f"{TARGETS['author']} (risk)", ylabel=f"{TARGETS['sentiment']} (utility)")
    legend_below(fig, ncols=3)
    ax.set_title(title, fontsize=9)
    return fig


def scissors(top: pd.DataFrame, guessing: Mapping[str, float], title: str) -> Figure:
    """The plane of mechanisms on words, DP-Prompt in its forms, and texts that were shortened."""
    cut = [each for each in top["mechanism"].unique() if each.startswith(f"{PROMPTED}-top-k")]
    names = ["madlib", "tem", PROMPTED, CLIPPED, *cut[:1], LEFT_OUT, FIRST]
    return plane(top, names, guessing, title)


@drawing
def ledger(table: pd.DataFrame, guessing: Mapping[str, float], title: str) -> Figure:
    """Author F1 by trait (columns) and output (rows), as a heat map about what guessing gives."""
    names = table["mechanism"].map(_name) + ", " + table["setting"].map(shown)
    rows = table.assign(output=names.str.removesuffix(", plain"))
    grid = rows.pivot_table(index="output", columns="feature", values="value", sort=False)
    grid.columns = grid.columns.str.replace(" ", "\n")
    fig, ax = plt.subplots(figsize=(PAGE, 1.4 + 0.34 * len(grid)))
    shades: dict[str, Any] = {"cmap": "vlag", "center": guessing["author"]}
    sns.heatmap(grid, annot=True, fmt=".2f", **shades, cbar=False, ax=ax)
    ax.set(xlabel=f"{TARGETS['author']}, by what of the text is read", ylabel="")
    ax.set_title(f"{title} (n = {table['n'].max():,})", fontsize=9)
    ax.tick_params(axis="y", rotation=0)
    ax.tick_params(axis="x", rotation=30)
    return fig


READ = {"added": ("added scores", "-"), "voted": ("votes", "--")}
"""How several outputs of a document are read together, and the line that shows it."""


@drawing
def repeated(table: pd.DataFrame, guessing: Mapping[str, float]) -> Figure:
    """Author F1 against the number of outputs of a document, by mechanism and attacker.

    Of columns mechanism, setting, access (of READ), k, value. The title says what the strongest
    attacker reaches on the fewest outputs and on the most.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 3.2))
    title = []
    for (mechanism, setting), rows in table.groupby(["mechanism", "setting"], sort=False):
        name = f"{_name(mechanism)}, {shown(setting)}"
        for access, part in rows.groupby("access", sort=False):
            how, line = READ[access]
            own = {**style(mechanism), "label": f"{name}: {how}", "linestyle": line}
            band(ax, part.sort_values("k"), "k", **own)
        most = rows.groupby("k")["value"].max()
        title.append(f"of {name}: {most.iloc[0]:.2f}, from {most.index[-1]}: {most.iloc[-1]:.2f}")
    ax.axhline(guessing["author"], label="guessing", **GUESSING)
    ax.set(xscale="log", xlabel="outputs per document, read together", ylabel=TARGETS["author"])
    counts = table["k"].unique()
    ax.set_xticks(counts, counts.astype(str))
    ax.set_xticks([], minor=True)
    ax.set_ylim(bottom=0)
    legend_below(fig, ncols=2)
    lines, count = ";\n".join(title), f"(n = {table['n'].max():,})"
    ax.set_title(f"Author F1 from one output {lines} {count}", fontsize=9)
    return fig
