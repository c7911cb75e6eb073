"""The pictures of notebook 04; each takes tables of the experiments and returns a figure.

Hollow markers stand for tables of 300 dimensions; what is left of a figure is private, what is
high is useful.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textpriv.experiments.dp_prompt import CLEAN, CLIPPED, LARGE, PROMPTED, WHOLE
from textpriv.experiments.dp_prompt_attacks import ADAPTIVE, EMBEDDING, STATIC, TEXT
from textpriv.report.figures import BLACK, GREY, PAGE, band, label, style

ACCESS = {EMBEDDING: "sees embeddings", TEXT: "sees texts"}
TARGETS = {"author": "macro F1 for the author", "sentiment": "macro F1 for the sentiment"}
TOP_K = f"{PROMPTED}-top-k"


def _look(mechanism: str) -> dict[str, Any]:
    """Colour, marker and line of a mechanism; 300 dimensions are hollow."""
    look: dict[str, Any] = {**style(mechanism.removesuffix(LARGE))}
    return look | ({"markerfacecolor": "white"} if mechanism.endswith(LARGE) else {})


def _name(mechanism: str) -> str:
    if mechanism == CLEAN:
        return "clean documents"
    large = mechanism.endswith(LARGE)
    return label(mechanism.removesuffix(LARGE)) + (", 300 dimensions" if large else "")


def _wide(table: pd.DataFrame, attacker: str, access: str) -> pd.DataFrame:
    """Both targets side by side: a row per mechanism and level, in the order of levels."""
    part = table[(table["attacker"] == attacker) & (table["access"] == access)]
    return part.pivot_table(
        index=["mechanism", "level"],
        columns="target",
        values=["value", "low", "high"],
        sort=False,
    ).sort_index(level="level", sort_remaining=False)


def _errors(part: pd.DataFrame, target: str) -> np.ndarray:
    value = part["value", target]
    found = np.array([value - part["low", target], part["high", target] - value])
    return np.clip(found, 0, None)


def _draw(ax: Axes, wide: pd.DataFrame, mechanisms: Sequence[str]) -> None:
    """A line per mechanism through its settings, with 95% intervals both ways."""
    for name in mechanisms:
        if name not in wide.index.get_level_values("mechanism"):
            continue
        part = wide.loc[name]
        ax.errorbar(
            part["value", "author"],
            part["value", "sentiment"],
            xerr=_errors(part, "author"),
            yerr=_errors(part, "sentiment"),
            label=_name(name),
            elinewidth=0.5,
            ms=5,
            lw=1.2,
            **_look(name),
        )


def _landmarks(ax: Axes, table: pd.DataFrame, random: Mapping[str, float], access: str) -> None:
    """Clean documents, and who guesses at random."""
    # Of clean text the static attacker is the adaptive one.
    wide = _wide(table[table["mechanism"] == CLEAN], STATIC, access)
    look: dict[str, Any] = {"ls": "", "ms": 11, "color": BLACK, "zorder": 5}
    values = wide["value"]
    ax.plot(values["author"], values["sentiment"], marker="*", label=_name(CLEAN), **look)
    ax.axhline(random["sentiment"], color=GREY, lw=0.8, ls=":")
    ax.axvline(random["author"], color=GREY, lw=0.8, ls=":", label="guessing at random")


def _axes(ax: Axes, title: str) -> None:
    ax.set(xlabel=TARGETS["author"], ylabel=TARGETS["sentiment"], title=title)
    ax.label_outer()


def _legend(fig: Figure, ax: Axes, columns: int) -> None:
    handles, names = ax.get_legend_handles_labels()
    fig.legend(handles, names, ncols=columns, loc="outside lower center", frameon=False)


def _documents(table: pd.DataFrame) -> int:
    return int(table.loc[table["mechanism"] == CLEAN, "n"].max())


def plane(table: pd.DataFrame, random: Mapping[str, float]) -> Figure:
    """Sentiment against author under all four attackers; upper left is useful and private."""
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 7.4), sharex=True, sharey=True)
    shown = [
        name
        for name in table["mechanism"].unique()
        if name != CLEAN and not name.endswith(LARGE) and name != WHOLE and TOP_K not in name
    ]
    for ax, (access, attacker) in zip(
        axes.ravel(), product(ACCESS, (STATIC, ADAPTIVE)), strict=True
    ):
        _draw(ax, _wide(table, attacker, access), shown)
        _landmarks(ax, table, random, access)
        _axes(ax, f"{attacker}, {ACCESS[access]} (n = {_documents(table)})")
    _legend(fig, axes[0, 0], 3)
    return fig


def dimensions(table: pd.DataFrame, random: Mapping[str, float]) -> Figure:
    """50 and 300 dimensions over the same words, and the whole table: adaptive attackers."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.4), sharex=True, sharey=True)
    names = [name.removesuffix(LARGE) for name in table["mechanism"].unique() if LARGE in name]
    shown = [*names, *(name + LARGE for name in names), WHOLE]
    for ax, access in zip(axes, ACCESS, strict=True):
        _draw(ax, _wide(table, ADAPTIVE, access), shown)
        _landmarks(ax, table, random, access)
        _axes(ax, f"adaptive, {ACCESS[access]} (n = {_documents(table)})")
    _legend(fig, axes[0], 3)
    return fig


def clipping(table: pd.DataFrame, guaranteed: pd.DataFrame, random: Mapping[str, float]) -> Figure:
    """F1 and epsilon against temperature, without limits, clipped and with top-k."""
    fig, axes = plt.subplots(1, 3, figsize=(PAGE, 3.9))
    names = [name for name in table["mechanism"].unique() if name.startswith(PROMPTED)]
    part = table[(table["attacker"] == ADAPTIVE) & (table["access"] == EMBEDDING)]
    for ax, target in zip(axes, TARGETS, strict=False):
        for name in names:
            line = part[(part["mechanism"] == name) & (part["target"] == target)]
            line = line.sort_values("level")
            look = {**style(name), "label": label(name), "lw": 1.2}
            band(ax, line["level"], line["value"], line["low"], line["high"], **look)
        ax.axhline(random[target], color=GREY, lw=0.8, ls=":", label="guessing at random")
        ax.set(xlabel="temperature", ylabel=TARGETS[target])
        ax.set_ylim(0, 1)
    bounded = guaranteed[guaranteed["mechanism"] == CLIPPED].sort_values("temperature")
    for kind, text, marker in (("paper", "paper's bound", "s"), ("tight", "exact", "o")):
        axes[2].plot(
            bounded["temperature"],
            bounded[kind],
            color=style(CLIPPED)["color"],
            marker=marker,
            ls="--" if kind == "paper" else "-",
        )
        last = bounded.iloc[0]
        axes[2].annotate(
            text, (last["temperature"], last[kind]), xytext=(6, 2), textcoords="offset points"
        )
    tokens = int(guaranteed["tokens"].iloc[0])
    axes[2].set(xlabel="temperature", ylabel=f"epsilon of {tokens} tokens, clipped")
    axes[2].set_ylim(bottom=0)
    axes[0].set_title(f"adaptive, {ACCESS[EMBEDDING]}")
    axes[1].set_title(f"n = {_documents(table)}")
    _legend(fig, axes[0], 3)
    return fig


def equal_risk(table: pd.DataFrame, random: float) -> Figure:
    """Sentiment F1 where the strongest attacker is equally successful: a panel per risk.

    Parameters
    ----------
    table : as of `at_equal_risk`; a mechanism without a row has no setting with that risk
    random : sentiment F1 of guessing
    """
    risks = sorted(table["risk"].unique())
    names = list(table.groupby("mechanism")["value"].mean().sort_values().index)
    fig, axes = plt.subplots(
        1,
        max(1, len(risks)),
        figsize=(PAGE, 1.4 + 0.27 * len(names)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for ax, risk in zip(axes[0], risks, strict=False):  # an empty panel where there is none
        for row in table[table["risk"] == risk].itertuples():
            height = names.index(row.mechanism)
            look = {**_look(row.mechanism), "linestyle": ""}
            error = [[max(0.0, row.value - row.low)], [max(0.0, row.high - row.value)]]
            ax.errorbar(row.value, height, xerr=error, elinewidth=1, **look)
        there = set(table.loc[table["risk"] == risk, "mechanism"])
        for height in (number for number, name in enumerate(names) if name not in there):
            look = {"va": "center", "fontsize": 6.8, "color": GREY}
            ax.text(0.03, height, "no such risk", transform=ax.get_yaxis_transform(), **look)
        ax.axvline(random, color=GREY, lw=0.8, ls=":")
        ax.set(title=f"author F1 = {risk:g}", xlabel="best sentiment F1")
    fig.suptitle("Where the strongest attacker is equally successful", fontsize=9)
    axes[0, 0].set_yticks(range(len(names)), [_name(each) for each in names])
    return fig


def ledger(table: pd.DataFrame, random: float) -> Figure:
    """Author F1 by trait (columns) and output (rows), as a heat map."""
    grid = table.assign(output=table["mechanism"] + " " + table["setting"]).pivot_table(
        index="output", columns="feature", values="value", sort=False
    )
    fig, ax = plt.subplots(figsize=(PAGE, 1.6 + 0.38 * len(grid)))
    image = ax.imshow(grid, aspect="auto", cmap="cividis", vmin=0, vmax=max(0.5, grid.max().max()))
    for (row, column), value in np.ndenumerate(grid.to_numpy()):
        shade = "black" if value > 0.3 else "white"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    names = [
        f"{_name(output.split()[0])}, {output.split()[1]}".replace(", plain", "")
        for output in grid.index
    ]
    ax.set_yticks(range(len(grid)), names)
    ax.set_xticks(range(grid.shape[1]), [str(each) for each in grid], rotation=30, ha="right")
    ax.grid(visible=False)
    ax.set_title(f"author F1 by one trait alone; {random:.2f} is guessing (n = {table['n'].max()})")
    fig.colorbar(image, ax=ax, label=TARGETS["author"])
    return fig


def repeated(table: pd.DataFrame, random: float) -> Figure:
    """Author F1 against the number of averaged outputs: a panel per mechanism."""
    groups = list(table.groupby(["mechanism", "setting"], sort=False))
    fig, axes = plt.subplots(1, len(groups), figsize=(PAGE, 3.7), sharey=True, squeeze=False)
    for ax, ((mechanism, setting), part) in zip(axes[0], groups, strict=True):
        for attacker, line_style in ((STATIC, "--"), (ADAPTIVE, "-")):
            line = part[part["attacker"] == attacker].sort_values("k")
            look = {**style(mechanism), "label": attacker, "linestyle": line_style}
            band(ax, line["k"], line["value"], line["low"], line["high"], **look)
        ax.axhline(random, color=GREY, lw=0.8, ls=":")
        ax.set_xscale("log")
        ks = sorted(part["k"].unique())
        ax.set_xticks(ks, [str(k) for k in ks])
        ax.set_xticks([], minor=True)
        ax.set(
            title=f"{_name(mechanism)}, {setting} (n = {part['n'].max()})",
            xlabel="outputs per document, averaged",
        )
        ax.legend(frameon=False)
    axes[0, 0].set_ylabel(TARGETS["author"])
    return fig


def similarity(table: pd.DataFrame) -> Figure:
    """BERTScore and cosine of original and output by setting: word level, and by temperature."""
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 6.2), sharey="row")
    other = table[table["mechanism"] == "other document"].iloc[0]
    is_prompt = table["setting"].str.match(r"t[\d.]+$")
    groups = {
        "epsilon": table[~is_prompt & (table["mechanism"] != "other document")],
        "temperature": table[is_prompt],
    }
    for row, measure in zip(axes, ("bertscore", "cosine"), strict=True):
        for ax, (what, part) in zip(row, groups.items(), strict=True):
            for name, line in part.groupby("mechanism", sort=False):
                ordered = line.sort_values("level")
                ax.plot(
                    ordered["level"], ordered[measure], label=_name(str(name)), **_look(str(name))
                )
            ax.axhline(other[measure], color=BLACK, lw=1, ls="--", label="other document")
            ax.set_xlabel(what)
            if what == "epsilon":
                ax.set_xscale("log")
        row[0].set_ylabel("BERTScore F1 (MiniLM)" if measure == "bertscore" else "cosine (MiniLM)")
    keys = {
        name: handle
        for ax in axes[0]
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    fig.legend(list(keys.values()), list(keys), ncols=3, loc="outside lower center", frameon=False)
    return fig
