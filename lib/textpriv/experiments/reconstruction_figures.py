"""The pictures of notebook 05; each takes tables of the experiments and returns a figure."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textpriv.data.corpora import label as corpus_label
from textpriv.drawing import drawing
from textpriv.report.figures import PAGE, band, dot, label, legend_below, percent, reach, style

DEFENSE = {"custext": "CusText+", "santext": "SanText+"}
PANELS = 4  # settings that fit into a row
LINES = (  # against epsilon; the tables have all attacks
    "embedding-inversion",
    "context-free-bayes",
    "context-free-bound",
    "noisy-channel-shadow",
    "noisy-channel",
)
PRETRAINED = "noisy-channel-lm"  # its model may have read the sentences under attack
STEPS = (  # of the ladder: each knows more than the one before
    "embedding-inversion",
    "inversion-bert",
    "context-free-bayes",
    "contextual-bayes",
    "noisy-channel",
    PRETRAINED,
)


@drawing
def success(rates: pd.DataFrame) -> Figure:
    """Success rate against epsilon: a panel per defense and corpus, a line per attack of LINES.

    All lines of a panel are of the same tokens, whose number its title states.
    """
    corpora = list(dict.fromkeys(rates["corpus"]))
    fig, axes = plt.subplots(
        len(DEFENSE), len(corpora), figsize=(PAGE, 5.8), squeeze=False, sharey="row"
    )
    for row, defense in zip(axes, DEFENSE, strict=True):
        for ax, corpus in zip(row, corpora, strict=True):
            part = rates[(rates["defense"] == defense) & (rates["corpus"] == corpus)]
            for name in [attack for attack in LINES if attack in set(part["attack"])]:
                band(ax, part[part["attack"] == name], "epsilon", ms=4, **_look(name))
            ax.set_title(f"{DEFENSE[defense]}, {corpus_label(corpus)}\n({_n(part)})", fontsize=8.5)
            ax.set(xlabel="epsilon" if defense == "custext" else "epsilon (1 / distance)")
            ax.set_ylim(0, 1)
            percent(ax.yaxis)
        row[0].set_ylabel("words recovered")
    fig.suptitle(_lifted(rates), fontsize=9.5)
    legend_below(fig, 2)
    return fig


def _lifted(table: pd.DataFrame) -> str:
    """The finding: where a model of public text adds most to Bayes' rule word by word."""
    rates = table.pivot_table("value", ["defense", "corpus", "epsilon"], "attack")
    whole, single = rates["noisy-channel"], rates["context-free-public"]
    defense, corpus, epsilon = at = (whole - single).idxmax()
    return (
        f"Largest gain from public text ({DEFENSE[defense]}, ε {epsilon:g}, "
        f"{corpus_label(corpus)}): decoding whole sentences\nrecovers {whole[at]:.0%} of the "
        f"words, word by word {single[at]:.0%}"
    )


@drawing
def ladder(rates: pd.DataFrame) -> Figure:
    """What more knowledge gives at a few settings: `STEPS`, and the paper's contextual bound.

    Of the first corpus.
    """
    rates = rates[rates["corpus"] == rates["corpus"].iloc[0]]
    shown = rates[rates["attack"].isin(STEPS)]
    names = [name for name in STEPS if name in set(shown["attack"])]
    fig, panels = _by_setting(shown, 1.6 + 0.52 * len(names), sharex=True)
    for ax, defense, epsilon, part in panels:
        for row in part.itertuples():
            place = len(names) - 1 - names.index(row.attack)
            dot(ax, row, place, ms=6, lw=1.2, **style(row.attack))
            ax.annotate(f"{row.value:.0%}", (row.value, place), (0, 7), ha="center",
                        textcoords="offset points", fontsize=8, zorder=9,
                        bbox={"color": "white", "pad": 0.5})  # fmt: skip
        for bound in _bounds(rates, defense, epsilon):
            ax.axvline(bound, color="black", lw=1, ls="--", label="K-ASR bound, our estimate")
        ax.set(xlim=(-0.1, 1), ylim=(-0.5, len(names) - 0.3), xticks=[0, 0.5])
        ax.set_title(f"{DEFENSE[defense]}\nε {epsilon:g}\n{_n(part)}", fontsize=8.5)
        ax.set_xlabel("words\nrecovered", fontsize=8.5)
        percent(ax.xaxis)
    fig.axes[0].set_yticks(range(len(names)), [fill(label(name), 18) for name in reversed(names)])
    fig.suptitle(_climbed(rates, shown), fontsize=9.5)
    legend_below(fig, 1)
    return fig


def _bounds(rates: pd.DataFrame, defense: object, epsilon: object) -> pd.Series:
    """The paper's contextual bound at a setting, in the larger of both forms that were trained."""
    here = (rates["defense"] == defense) & (rates["epsilon"] == epsilon)
    forms = rates["attack"].isin(["contextual-bound", "contextual-bound-seen"])
    return rates.loc[here & forms, "value"].nlargest(1)


def _climbed(rates: pd.DataFrame, shown: pd.DataFrame) -> str:
    """The finding: what is recovered where the paper's bound is left behind most, and by whom.

    By an attacker that has not read the sentences; the pretrained model, which may have, beside it.
    """
    bounds = shown[["defense", "epsilon"]].apply(lambda at: _bounds(rates, *at).max(), axis=1)
    pretrained = shown["attack"] == PRETRAINED
    best = (shown["value"] - bounds.fillna(0))[~pretrained].idxmax()
    row, bound = shown.loc[best], bounds[best]
    there = (shown[["defense", "epsilon"]] == row[["defense", "epsilon"]]).all(axis=1)
    setting, beside = f"{DEFENSE[row['defense']]} at ε {row['epsilon']:g}", label(row["attack"])
    for value in shown.loc[there & pretrained, "value"]:
        beside += f"; pretrained model: {value:.0%}"
    if not pd.isna(bound):
        setting = f"Farthest above the bound, {setting}"
        beside += f"; estimated bound: {bound:.0%}"
    return f"{setting}: {row['value']:.0%} of the words are recovered\n({beside})"


@drawing
def frequency(rates: pd.DataFrame, names: pd.DataFrame, attacks: Sequence[str]) -> Figure:
    """Success by frequency of the true word, and on person names."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 4.4), sharey=True)
    for ax, table, x in ((left, rates, "group"), (right, names, "epsilon")):
        for name in attacks:
            if len(line := table[table["attack"] == name].sort_values(x)):
                band(ax, line, x, ms=4, **_look(name))
    groups = rates.drop_duplicates("group").sort_values("group")
    ticks = [f"{row.ranks}\n({row.n:,})" for row in groups.itertuples()]
    left.set_xticks(groups["group"], ticks, fontsize=7.5, rotation=45)
    left.set(xlabel="rank of the true word (tokens)", ylabel="attack success rate")
    percent(left.yaxis)
    right.set(xlabel="epsilon")
    first = rates.iloc[0]
    setting = f"{DEFENSE[first['defense']]} ε {first['epsilon']:g}"
    left.set_title(f"{setting}, {corpus_label(first['corpus'])}:\nby frequency", fontsize=8.5)
    where = "no person names"
    if len(names):
        n, words = int(names["n"].max()), int(names["words"].max())
        corpus, defense = corpus_label(names["corpus"].iloc[0]), DEFENSE[names["defense"].iloc[0]]
        where = f"{defense}, {corpus}:\n{n:,} person names, {words:,} different"
    right.set_title(where, fontsize=8.5)
    best = rates[rates["attack"] == rates.loc[rates["value"].idxmax(), "attack"]]
    best = best.sort_values("group")
    common, rare = best.iloc[0], best.iloc[-1]
    fig.suptitle(
        f"Of the most frequent words {common['value']:.0%} are recovered, of the rarest "
        f"{rare['value']:.0%}\n({label(common['attack'])})",
        fontsize=9.5,
    )
    legend_below(fig, 3, fontsize=7.5)
    return fig


@drawing
def calibration(shares: pd.DataFrame) -> Figure:
    """Share of right guesses against the probability that was stated."""
    fig, panels = _by_setting(shares, 3.4)
    for ax, defense, epsilon, part in panels:
        ax.plot([0, 1], [0, 1], color="#7F7F7F", lw=0.8, zorder=1)
        for name, line in part.groupby("attack", sort=False):
            ax.errorbar(line["stated"], line["value"], reach(line), ms=4, lw=1.2, **_look(name))
        total = int(part.groupby("attack")["n"].sum().max())
        ax.set_title(f"{DEFENSE[defense]}\nε {epsilon:g}\n(n = {total:,})", fontsize=8.5)
        ax.set(xlabel="stated\nprobability", xlim=(0, 1), ylim=(0, 1), xticks=[0, 1])
    fig.axes[0].set(ylabel="share that is right")
    apart = shares.assign(above=shares["stated"] - shares["value"])
    off = apart.groupby(["defense", "epsilon", "attack"])[["above", "n"]].apply(
        lambda part: np.average(part["above"], weights=part["n"])
    )
    defense, epsilon, worst = off.abs().idxmax()
    how = "sure" if off[defense, epsilon, worst] > 0 else "modest"
    fig.suptitle(
        f"Farthest off: under {DEFENSE[defense]}, ε {epsilon:g}, {label(worst)}\n"
        f"is too {how} by {100 * off.abs().max():.0f} points on average",
        fontsize=9.5,
    )
    legend_below(fig, 2, fontsize=7.5)
    return fig


def _by_setting(
    table: pd.DataFrame, height: float, **shared: Any
) -> tuple[Figure, list[tuple[Axes, str, float, pd.DataFrame]]]:
    """A row of panels: each with its defense and epsilon, and the rows of the table."""
    groups = list(table.groupby(["defense", "epsilon"], sort=False))[:PANELS]
    fig, axes = plt.subplots(
        1, len(groups), figsize=(PAGE, height), sharey=True, squeeze=False, **shared
    )
    panels = zip(axes[0], groups, strict=True)
    return fig, [(ax, defense, epsilon, part) for ax, ((defense, epsilon), part) in panels]


def _look(name: object) -> dict[str, Any]:
    """Of a mechanism or an attack, with its name for the legend."""
    return {**style(str(name)), "label": label(str(name))}


def _n(table: pd.DataFrame) -> str:
    return f"n = {int(table['n'].max()):,}"
