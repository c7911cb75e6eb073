"""What notebook 09 says and draws: by tests of the pairs that `equal_utility` compares."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from textpriv.drawing import drawing
from textpriv.experiments.equal_utility import LEFT_OUT, UTILITIES, strongest
from textpriv.experiments.mechanisms import RANDOM
from textpriv.report.difference import ALONE, Finding
from textpriv.report.figures import (
    BLACK,
    GREY,
    PAGE,
    called,
    label,
    legend_below,
    listing,
    percent,
    reach,
    style,
)

ESTIMATED = ("madlib", "rank-repair", "vickrey", "polar")
"""Mechanisms whose probabilities attackers have estimated: they recover too little."""

BASELINES = {LEFT_OUT: "with words left out", RANDOM: "with random words"}
"""What takes no notice of meaning, as sentences call it."""

READABLE_ACCURACY = 0.7
"""Accuracy of a classifier of two sentiments at which a sanitized text counts as useful."""
SHOWN = (
    "rank-repair", "vickrey", "madlib", "santext+", "custext+", "custext-conservative",
    "randomized-response", LEFT_OUT,
)  # fmt: skip
"""In colour in the figure, which has no more than eight; the others lie among these."""


def said_of_pairs(pairs: pd.DataFrame) -> str:
    """How many pairs of mechanisms differ halfway along each utility, and who is at both ends.

    `pairs` is as `at_equal_utility` makes it.
    """
    said = []
    for utility, what in UTILITIES.items():
        rows = pairs[(pairs["utility"] == utility) & (pairs["quarter"] == 2)]
        if rows.empty:
            continue
        decided = rows[rows["p"] < ALONE]
        told = ""
        if len(decided):
            less = decided["first"].where(decided["value"] < 0, decided["second"])
            more = decided["first"].where(decided["value"] > 0, decided["second"])
            told = f" Significantly less is recovered {_most(less)}, more {_most(more)}."
        said.append(
            f"Halfway along the range of {what} that both reach, {len(decided)} of {len(rows)} "
            "pairs of mechanisms differ significantly (paired bootstrap over sentences, Holm's "
            f"method over all {len(pairs)} tests).{told}"
        )
    return "\n\n".join(said) or "No two mechanisms leave as much of the text in this profile."


def _most(names: pd.Series) -> str:
    """Who is named most often, all of them where several are."""
    counts = names.value_counts()
    first = sorted(counts.index[counts == counts.iloc[0]])
    others = "1 other" if counts.iloc[0] == 1 else f"{counts.iloc[0]} others"
    return f"under {listing(first)} than under {others}{' each' if len(first) > 1 else ''}"


def said_at_risk(pairs: pd.DataFrame) -> str:
    """How many pairs differ in accuracy where attackers recover as many words under both.

    `pairs` is as `equal_utility.at_equal_risk` makes it.
    """
    said = []
    for risk, rows in pairs.groupby("risk"):
        decided = rows[rows["p"] < ALONE]
        told = ""
        if len(decided):
            better = decided["first"].where(decided["value"] > 0, decided["second"])
            told = f"; a higher accuracy is left {_most(better)}"
        said.append(f"{risk:.0%} of the words: {len(decided)} of {len(rows)} pairs{told}")
    if not said:
        return "No two mechanisms share a risk in this profile."
    return (
        "Pairs that differ significantly in accuracy (Holm's method), where attackers recover as "
        "much under both:\n- " + "\n- ".join(said)
    )


def matrix(pairs: pd.DataFrame, utility: str) -> pd.DataFrame:
    """Points by which attackers recover more under the row's mechanism than under the column's.

    Halfway along the range of the utility: a text in each place, with a star where the difference
    is significant; empty where a mechanism does not reach it. The least recovered stands first.
    """
    rows = pairs[(pairs["utility"] == utility) & (pairs["quarter"] == 2)]
    turned = rows.rename(columns={"first": "second", "second": "first"})
    both = pd.concat([rows, turned.assign(value=-rows["value"])])
    star = np.where(both["p"] < ALONE, "*", "")
    text = [f"{100 * value:+.0f}{mark}" for value, mark in zip(both["value"], star, strict=True)]
    order = both.groupby("first")["value"].mean().sort_values().index
    wide = both.assign(text=text).pivot(index="first", columns="second", values="text")
    wide = wide.reindex(index=order, columns=order).fillna("")
    return wide.rename(index=called, columns=called).rename_axis(index=None, columns=None)


OUTCOMES = ("less", "more", "undecided")


def against(pairs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """At how many levels attackers recover less, more, or not decidedly either, than a baseline.

    Of `at_equal_utility`; other BASELINES are no mechanisms, and are left out. Columns: utility,
    mechanism, outcome (OUTCOMES), value (levels).
    """
    second = pairs["second"] == baseline
    own = pairs.assign(
        mechanism=pairs["first"].where(second, pairs["second"]),
        outcome=np.where((pairs["value"] > 0) == second, "more", "less"),
    )[second | (pairs["first"] == baseline)]
    own = own[~own["mechanism"].isin(BASELINES)]
    own.loc[own["p"] >= ALONE, "outcome"] = "undecided"
    counts = own.groupby(["utility", "mechanism"])["outcome"].value_counts().unstack(fill_value=0)
    counts = counts.reindex(columns=[*OUTCOMES], fill_value=0).rename_axis(columns="outcome")
    return counts.stack().rename("value").reset_index()


def outcomes(counts: pd.DataFrame, utility: str) -> dict[str, list[str]]:
    """Mechanisms by what `against` a baseline comes to over all levels of a utility.

    "less", "more", "either" (less at one level, more at another) and "undecided"; {} where none was
    compared.
    """
    rows = counts[counts["utility"] == utility]
    if rows.empty:
        return {}
    wide = rows.pivot(index="mechanism", columns="outcome", values="value") > 0
    less, more = wide["less"], wide["more"]
    parts = {"less": less & ~more, "more": more & ~less, "either": less & more}
    parts["undecided"] = ~(less | more)
    return {outcome: wide.index[each].tolist() for outcome, each in parts.items()}


def said_against(counts: pd.DataFrame, baseline: str) -> Finding:
    """What `against` a baseline comes to by each utility: a title, and who is on which side."""
    said, titles, like, less = [], [], BASELINES[baseline], set()
    words = {"less": "fewer", "more": "more", "either": "fewer or more, by the level,"}
    for utility, what in UTILITIES.items():
        named = outcomes(counts, utility)
        if not named:
            said.append(f"By {utility} none is compared with that baseline.")
            continue
        less |= {*named["less"], *named["either"]}
        most = max(("less", "more"), key=lambda outcome: len(named[outcome]))
        every = sum(map(len, named.values()))
        titles.append((utility, most, f"under {len(named[most])} of {every}"))
        told = [
            f"{words[each]} under {listing(named[each])}"
            for each in words
            if named[each] or each != "either"
        ]
        notes = [f"{len(named['undecided'])} undecided"] if named["undecided"] else []
        if (always := throughout(counts, utility, most)) < len(named[most]) + len(named["either"]):
            notes.append(f"{words[most]} at every level compared under {always}")
        also = f" ({'; '.join(notes)})" if notes else ""
        said.append(
            f"Where {what} is the same as {like}, attackers recover significantly "
            f"{', '.join(told)}{also}."
        )
    if weaker := [name for name in ESTIMATED if name in less]:
        said.append(
            f"The probabilities of {listing(weaker)} are estimated: those attackers may be weaker."
        )
    if not titles:
        return Finding("Nothing was compared with that baseline", " ".join(said))
    (utility, most, under), *others = titles
    title = f"At equal {utility} {most} is read back {under} mechanisms than {like}"
    for utility, other, under in others:
        title += f", at equal {utility} {'' if other == most else f'{other} '}{under}"
    return Finding(title, " ".join(said))


def throughout(counts: pd.DataFrame, utility: str, outcome: str) -> int:
    """Under how many mechanisms an outcome of `against` holds at every level that was compared."""
    rows = counts[counts["utility"] == utility]
    wide = rows.pivot(index="mechanism", columns="outcome", values="value")
    return int((wide[outcome] == wide.sum(axis=1)).sum())


def said_of_gain(gains: pd.DataFrame) -> str:
    """What the language model and its wider choice add under the ends, and what the model alone.

    `gains` has a row per mechanism and what it is compared with (`beside`, "usual" or "wider"),
    each as `equal_utility.gain` has it.
    """
    by = {beside: rows.set_index("mechanism") for beside, rows in gains.groupby("beside")}
    order = by["usual"].drop(LEFT_OUT, errors="ignore")["value"].sort_values().index
    ends = dict.fromkeys([*order[-1:], *order[:1], *by["usual"].index.intersection([LEFT_OUT])])
    said = "; ".join(
        f"{called(name)} {_points(by['usual'].loc[name])}, of which the model "
        f"{_points(by['wider'].loc[name])}"
        for name in ends
    )
    return (
        f"On {gains['n'].max():,} content words and on average over the settings, the language "
        "model with more candidates recovers so many more of a hundred words than the attack that "
        f"is strongest on all sentences (at the ends of the mechanisms; 95% intervals): {said}."
    )


def _points(row: pd.Series[Any]) -> str:
    value, low, high = (100 * row[each] for each in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


@drawing
def risk(risks: pd.DataFrame, clear: float, bare: Mapping[str, float], title: str) -> Figure:
    """Success of the strongest attack that was run against what is left, by either utility.

    `clear` is the accuracy on clear text, `bare` both utilities where no content word is sent.
    """
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.4), sharey=True)
    best = strongest(risks.reset_index(drop=True), "mechanism", "epsilon")
    axis = {"accuracy": "accuracy of sentiment", "meaning": "meaning (cosine)"}
    for ax, (utility, what) in zip(axes, axis.items(), strict=True):
        order = best["mechanism"].isin(SHOWN).sort_values(ascending=False, kind="stable").index
        for name, line in best.loc[order].groupby("mechanism", sort=False):
            line = line.sort_values("value")
            look: dict[str, Any] = {"color": GREY, "alpha": 0.5, "label": "others", "zorder": 1}
            if name in SHOWN:
                look = {**style(str(name)), "label": label(str(name))}
            wide = 2.2 if name == LEFT_OUT else 1.1
            ax.plot(line[utility], line["value"], ms=4, lw=wide, **look)
        _widest_interval(ax, best, utility)
        ax.axvline(bare[utility], color=BLACK, lw=1, ls=":", label="no content word sent")
        ax.set_xlabel(what, fontsize=9)
    axes[0].axvline(clear, color=BLACK, lw=2, alpha=0.5, label="original text")
    axes[0].set_ylabel("content words recovered", fontsize=9)
    percent(axes[0].xaxis, axes[0].yaxis)
    axes[0].xaxis.set_major_locator(MultipleLocator(0.05))
    fig.suptitle(f"{fill(title, 60)}\n(n = {int(best['n'].max()):,} words)", fontsize=9.5)
    legend_below(fig, 3, fontsize=7.5)
    return fig


def readable(at_accuracy: pd.DataFrame) -> str:
    """What is read back at least where a text is just useful; of `equal_utility.at_accuracy`."""
    rows = at_accuracy[at_accuracy["mechanism"] != LEFT_OUT]
    if rows.empty:
        return f"No mechanism has settings on both sides of an accuracy of {READABLE_ACCURACY:.0%}."
    ends = [
        f"{value:.0%} ({low:.0%} to {high:.0%}) under {called(name)}"
        for name, value, low, high in rows[["mechanism", "value", "low", "high"]]
        .iloc[[0, -1]]
        .values
    ]
    return (
        f"Read off where classifiers are right in {READABLE_ACCURACY:.0%} of the sentences, under "
        f"{len(rows)} mechanisms with settings on both sides, attackers recover "
        f"{' to '.join(ends)} (simultaneous 95% intervals)."
    )


def _widest_interval(ax: Axes, points: pd.DataFrame, utility: str) -> None:
    """One cross in a corner for all points: their intervals are nearly equal and would overlap."""
    columns = [utility, f"{utility}_low", f"{utility}_high"]
    worth = points[columns].set_axis(["value", "low", "high"], axis=1)
    across, along = (float(np.max(reach(table))) for table in (worth, points))  # the wider sides
    x, y = points[utility].max() - 2 * across, points["value"].min() + along
    ax.errorbar(x, y, along, across, fmt="none", ecolor=BLACK, elinewidth=1, capsize=2)
    note = "widest 95% interval"
    ax.annotate(note, (x, y + along), (0, 4), textcoords="offset points", ha="center", fontsize=7)
