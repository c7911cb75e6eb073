"""The pictures of notebook 05; each takes tables of the experiments and returns a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from textpriv.attacks.registry import ON_WORDS
from textpriv.data.corpora import label as corpus_label
from textpriv.data.corpora import style as corpus_style
from textpriv.report.figures import PAGE, band, label, style

DEFENSE = {"custext": "CusText+", "santext": "SanText+"}
PANELS = 4  # settings that fit into a row
PERCENT = PercentFormatter(1, decimals=0)


def success(found: pd.DataFrame) -> Figure:
    """Success rate against epsilon: a panel per defense and corpus, a line per attack.

    All lines of a panel are of the same tokens, whose number its title states.
    """
    corpora = list(dict.fromkeys(found["corpus"]))
    fig, axes = plt.subplots(
        len(DEFENSE), len(corpora), figsize=(PAGE, 5.8), squeeze=False, sharey="row"
    )
    for row, defense in zip(axes, DEFENSE, strict=True):
        for ax, corpus in zip(row, corpora, strict=True):
            part = found[(found["defense"] == defense) & (found["corpus"] == corpus)]
            for name, line in part.groupby("attack", sort=False):
                _line(ax, line, "epsilon", _look(name))
            ax.set_title(f"{DEFENSE[defense]}, {corpus_label(corpus)} ({_n(part)})", fontsize=8.5)
            ax.set(xlabel="epsilon" if defense == "custext" else "epsilon (1 / distance)")
            ax.set_ylim(0, 1)
            ax.yaxis.set_major_formatter(PERCENT)
        row[0].set_ylabel("attack success rate")
    _shared_legend(fig, list(axes.ravel()), ncols=3)
    return fig


def ladder(found: pd.DataFrame) -> Figure:
    """Success of every attack at a few settings, in the order of the registry."""
    names = [name for name in ON_WORDS if name in set(found["attack"])]
    fig, panels = _by_setting(found, 4.2, sharex=True)
    for ax, defense, epsilon, part in panels:
        for row in part.itertuples():
            place = len(names) - 1 - names.index(row.attack)
            _point(ax, row, place, {**style(row.attack), "ms": 6, "lw": 1.2})
            ax.annotate(f"{row.value:.2f}", (row.high, place), (4, 0), va="center",
                        textcoords="offset points", fontsize=7.5)  # fmt: skip
        ax.set(xlim=(0, min(1.0, 1.3 * found["high"].max())))
        ax.set_title(f"{DEFENSE[defense]}\neps {epsilon:g}\n({_n(part)})", fontsize=9)
        ax.xaxis.set_major_formatter(PERCENT)
    fig.axes[0].set_yticks(range(len(names)), [label(name) for name in reversed(names)])
    fig.supxlabel("attack success rate", fontsize=9)
    return fig


def constants(found: pd.DataFrame) -> Figure:
    """The context-free attack against the constant that is added to the shadow frequencies."""
    defenses = list(dict.fromkeys(found["defense"]))
    fig, axes = plt.subplots(1, len(defenses), figsize=(PAGE, 3.6), squeeze=False)
    values = sorted(found["constant"].unique())
    found = found.assign(place=found["constant"].map(values.index))
    for ax, defense in zip(axes[0], defenses, strict=True):
        part = found[found["defense"] == defense]
        shades = plt.get_cmap("cividis")(np.linspace(0, 0.85, part["epsilon"].nunique()))
        for shade, (epsilon, at) in zip(shades, part.groupby("epsilon"), strict=True):
            for corpus, line in at.groupby("corpus", sort=False):
                name = f"eps {epsilon:g}, {corpus_label(str(corpus))} ({int(line['n'].max()):,})"
                look = {**corpus_style(str(corpus)), "color": shade, "label": name}
                _line(ax, line, "place", look)
        ax.set_xticks(range(len(values)), ["none" if v == 0 else f"{v:g}" for v in values])
        ax.set(xlabel="added constant, in units of 1/alpha")
        ax.set_title(DEFENSE[defense], fontsize=9)
        ax.yaxis.set_major_formatter(PERCENT)
        ax.legend(fontsize=6.5, title="(tokens)", loc="upper center", bbox_to_anchor=(0.5, -0.2))
    axes[0][0].set(ylabel="context-free success rate")
    return fig


def detectors(curves: pd.DataFrame, by_k: pd.DataFrame) -> Figure:
    """Held-out accuracy along the trainings, of detectors and inversions; success against K."""
    fig, axes = plt.subplots(1, 3, figsize=(PAGE, 5.6))
    settings = list(dict.fromkeys(curves["setting"]))[:PANELS]
    over, ends = ["attack", "setting", "step"], {"value": "mean", "low": "min", "high": "max"}
    means = curves.groupby(over, sort=False)["accuracy"].agg(**ends).reset_index()
    is_inversion = means["attack"].str.startswith("inversion-bert")
    tables = ((means[~is_inversion], "step"), (means[is_inversion], "step"), (by_k, "k"))
    for ax, (table, x) in zip(axes, tables, strict=True):
        for (attack, setting), line in table.groupby(["attack", "setting"], sort=False):
            if setting in settings:
                _line(ax, line, x, _setting_look(str(attack), str(setting), settings))
        ax.yaxis.set_major_formatter(PERCENT)
    axes[0].axhline(0.5, **{**style("chance"), "marker": ""}, lw=1)
    axes[0].set(xlabel="step (32 pairs each)", ylabel="held-out accuracy")
    axes[0].set_title("detectors", fontsize=9)
    axes[1].set(xlabel="step (32 sentences each)")
    trainings = curves["training"].nunique()  # detectors have one
    axes[1].set_title(
        f"inversion BERT ({trainings} trainings,\nband: lowest to highest)", fontsize=9
    )
    axes[2].set(xlabel="K, candidates weighed", ylabel="attack success rate")
    _shared_legend(fig, axes, ncols=2)
    return fig


def frequency(found: pd.DataFrame, names: pd.DataFrame, attacks: Sequence[str]) -> Figure:
    """Success by frequency of the true word, and on person names."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.6), sharey=True)
    for ax, table, x in ((axes[0], found, "group"), (axes[1], names, "epsilon")):
        for name in attacks:
            if len(line := table[table["attack"] == name].sort_values(x)):
                _line(ax, line, x, _look(name))
    groups = found.drop_duplicates("group").sort_values("group")
    ticks = [f"{row.ranks}\n({row.n:,})" for row in groups.itertuples()]
    axes[0].set_xticks(groups["group"], ticks, fontsize=7.5)
    axes[0].set(xlabel="rank of the true word in the vocabulary (tokens)")
    axes[0].set(ylabel="attack success rate")
    axes[0].yaxis.set_major_formatter(PERCENT)
    axes[1].set(xlabel="epsilon")
    first = found.iloc[0]
    setting = f"{DEFENSE[first['defense']]} eps {first['epsilon']:g}"
    axes[0].set_title(f"{setting}, {corpus_label(first['corpus'])}: by frequency", fontsize=9)
    where = "no person names"
    if len(names):
        n, words = int(names["n"].max()), int(names["words"].max())
        corpus, defense = corpus_label(names["corpus"].iloc[0]), DEFENSE[names["defense"].iloc[0]]
        where = f"{defense}, {corpus}: person names\n({n:,} tokens, {words:,} words)"
    axes[1].set_title(where, fontsize=9)
    _shared_legend(fig, axes, ncols=3)
    return fig


def shadow(found: pd.DataFrame, misaligned: pd.DataFrame) -> Figure:
    """Success against the size of the shadow data; and with text of another domain."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.4))
    lines = dict(zip(sorted(found["epsilon"].unique()), ("-", "--", "-.", ":"), strict=False))
    for (attack, epsilon), part in found.groupby(["attack", "epsilon"], sort=False):
        name = f"{label(str(attack))}, eps {epsilon:g}"
        look = {**style(str(attack)), "linestyle": lines.get(epsilon, ":"), "label": name}
        _line(axes[0], part, "documents", look)
    axes[0].set(xlabel="shadow sentences", ylabel="attack success rate", xscale="log")
    axes[0].set_xticks(found["documents"].unique(), [f"{d:,}" for d in found["documents"].unique()])
    axes[0].minorticks_off()
    axes[0].set_title(f"{corpus_label(found['corpus'].iloc[0])} ({_n(found)})", fontsize=9)
    order = list(dict.fromkeys(misaligned["attack"]))[::-1]
    for number, (_, part) in enumerate(misaligned.groupby("epsilon", sort=False)):
        fill = {} if number == 0 else {"markerfacecolor": "white"}
        for row in part.itertuples():
            place = order.index(row.attack) - 0.16 + 0.32 * number
            look = {**style(row.attack.split(",")[0]), **fill, "ms": 5, "lw": 1}
            _point(axes[1], row, place, look)
    ticks = [label(each.split(",")[0]) + ", other domain" * ("," in each) for each in order]
    axes[1].set_yticks(range(len(order)), ticks, fontsize=7)
    axes[1].set(xlabel="attack success rate")
    epsilons = [f"{each:g}" for each in misaligned["epsilon"].unique()]
    filled = f"filled: eps {epsilons[0]}" + "".join(f", open: eps {e}" for e in epsilons[1:])
    corpus = corpus_label(misaligned["corpus"].iloc[0])
    axes[1].set_title(f"{corpus} ({_n(misaligned)})\n{filled}", fontsize=9)
    for axis in (axes[0].yaxis, axes[1].xaxis):
        axis.set_major_formatter(PERCENT)
    _shared_legend(fig, axes[:1], ncols=2)
    return fig


def calibration(found: pd.DataFrame) -> Figure:
    """Share of right guesses against the probability that was stated."""
    fig, panels = _by_setting(found, 3.4)
    for ax, defense, epsilon, part in panels:
        ax.plot([0, 1], [0, 1], color="#7F7F7F", lw=0.8, zorder=1)
        for name, line in part.groupby("attack", sort=False):
            reach = np.clip([line["value"] - line["low"], line["high"] - line["value"]], 0, None)
            ax.errorbar(line["stated"], line["value"], yerr=reach, ms=4, lw=1.2, **_look(name))
        total = int(part.groupby("attack")["n"].sum().max())
        ax.set_title(f"{DEFENSE[defense]}, eps {epsilon:g} (n = {total:,})", fontsize=8.5)
        ax.set(xlabel="probability that the attack states", xlim=(0, 1), ylim=(0, 1))
    fig.axes[0].set(ylabel="share that is right")
    _shared_legend(fig, fig.axes, ncols=2)
    return fig


def seconds(found: pd.DataFrame) -> Figure:
    """Time per 1,000 attacked tokens, the training of networks included and named."""
    part = found.sort_values("per_thousand").reset_index(drop=True)
    fig, ax = plt.subplots(figsize=(5.8, 3.4))
    for row in part.itertuples():
        look = style(row.attack)
        ax.plot(row.per_thousand, row.Index, color=look["color"], marker=look["marker"], ms=7)
        digits = 0 if row.per_thousand >= 10 else 1 - int(np.floor(np.log10(row.per_thousand)))
        ax.annotate(f"{row.per_thousand:,.{digits}f} s", (row.per_thousand, row.Index), (7, 0),
                    va="center", textcoords="offset points", fontsize=8)  # fmt: skip
    ax.set_yticks(range(len(part)), [f"{label(r.attack)} ({r.n:,})" for r in part.itertuples()])
    ax.set(xscale="log", xlabel="seconds per 1,000 tokens (one run on this machine)")
    ax.set_xlim(right=float(part["per_thousand"].max()) * 6)
    ax.set_title("Time of an attack (tokens it was measured on)", fontsize=9, loc="center")
    return fig


def risk(found: pd.DataFrame, clean: float) -> Figure:
    """Success of the strongest attack that was run against accuracy on the sanitized text."""
    fig, ax = plt.subplots(figsize=(5.8, 4.6))
    strongest = found.loc[found.groupby(["mechanism", "epsilon"], sort=False)["value"].idxmax()]
    for name, line in strongest.groupby("mechanism", sort=False):
        line = line.sort_values("value")
        reach = [line["value"] - line["low"], line["high"] - line["value"]]
        across = [line["accuracy"] - line["accuracy_low"],
                  line["accuracy_high"] - line["accuracy"]]  # fmt: skip
        ax.errorbar(line["accuracy"], line["value"], xerr=across, yerr=reach, ms=4.5,
                    lw=0.9, elinewidth=0.6, **_look(name))  # fmt: skip
    original: dict[str, Any] = {**style("original"), "marker": ""}
    ax.axvline(clean, **original, lw=1)
    ax.set(xlabel="accuracy of sentiment on sanitized text")
    ax.set_title(f"The stronger of both attacks ({_n(strongest)})", fontsize=9)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PERCENT)
    ax.set(ylabel="content words that are recovered")
    _shared_legend(fig, [ax], ncols=3)
    return fig


def _by_setting(
    found: pd.DataFrame, height: float, **shared: Any
) -> tuple[Figure, list[tuple[Axes, str, float, pd.DataFrame]]]:
    """A row of panels: each with its defense and epsilon, and the rows of the table."""
    groups = list(found.groupby(["defense", "epsilon"], sort=False))[:PANELS]
    fig, axes = plt.subplots(
        1, len(groups), figsize=(PAGE, height), sharey=True, squeeze=False, **shared
    )
    panels = zip(axes[0], groups, strict=True)
    return fig, [(ax, defense, epsilon, part) for ax, ((defense, epsilon), part) in panels]


def _line(ax: Axes, table: pd.DataFrame, x: str, look: Mapping[str, Any]) -> None:
    """Values against a column, with their intervals."""
    band(ax, table[x], table["value"], table["low"], table["high"], ms=4, **look)


def _point(ax: Axes, row: Any, place: float, look: Mapping[str, Any]) -> None:
    """A value in a row of its own, with its interval."""
    reach = [[row.value - row.low], [row.high - row.value]]
    ax.errorbar(row.value, place, xerr=reach, **{**look, "linestyle": ""})


def _look(name: object) -> dict[str, Any]:
    """Of a mechanism or an attack, with its name for the legend."""
    return {**style(str(name)), "label": label(str(name))}


def _n(table: pd.DataFrame) -> str:
    return f"n = {int(table['n'].max()):,}"


def _setting_look(attack: str, setting: str, settings: Sequence[str]) -> dict[str, Any]:
    """The attack's look, its line by the setting."""
    name, _, rest = setting.partition(",")
    return {
        **style(attack),
        "linestyle": ("-", "--", ":", "-.")[settings.index(setting)],
        "label": f"{label(attack)}, {DEFENSE[name]}{rest}",
    }


def _shared_legend(fig: Figure, axes: Sequence[Axes], ncols: int) -> None:
    """One legend below all panels, each name once."""
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(text, handle)
    fig.legend(named.values(), named.keys(), loc="outside lower center", ncols=ncols, fontsize=7.5)
