"""The pictures of notebook 07; each takes tables of `scoreboard` and returns a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from textpriv.drawing import drawing
from textpriv.experiments.equal_utility import LEFT_OUT
from textpriv.experiments.equal_utility_findings import ESTIMATED
from textpriv.report import claims
from textpriv.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PAGE,
    RED,
    SKY,
    dot,
    label,
    legend_below,
    percent,
    reach,
    style,
)
from textpriv.report.verdicts import Verdict

# Told apart by lightness and hatching as well as by hue.
OUTCOMES: Mapping[str, dict[str, Any]] = {
    Verdict.MATCH: {"fc": BLUE, "hatch": ""},
    Verdict.CONFIRMED: {"fc": GREEN, "hatch": ""},
    Verdict.LEANS_FOR: {"fc": SKY, "hatch": ""},
    Verdict.TIE: {"fc": "#FFFFFF", "hatch": "...."},
    Verdict.LEANS_AGAINST: {"fc": "#D9D9D9", "hatch": ""},
    Verdict.CONTRADICTED: {"fc": RED, "hatch": "////"},
}
PALE = "#C9C9C9"
SMALL_PRINT = 9


# --- Claims -------------------------------------------------------------------------------------


@drawing
def verdict_counts(findings: pd.DataFrame, throughout: int, set_aside: int) -> Figure:
    """What becomes of what each paper states: a row per paper, a bar per verdict.

    Of `scoreboard.counts_of_findings`, and of how many statements are confirmed `throughout`, in
    every one of their cells, or were set aside.
    """
    findings = findings.loc[[paper for paper in claims.PAPERS if paper in findings.index][::-1]]
    findings = findings.loc[:, findings.any()]
    fig, ax = plt.subplots(figsize=(PAGE, 2.8))
    _stacked(ax, findings)
    ax.set_yticks(range(len(findings)), [claims.PAPERS[paper] for paper in findings.index])
    ax.set(xlabel="statements, each tested as one")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.grid(visible=False, axis="y")
    fig.suptitle(_fates(findings, throughout, set_aside), fontsize=12)
    looks = {name: {"label": name, "ec": BLACK, "lw": 0.5} | OUTCOMES[name] for name in findings}
    keys = [plt.Rectangle((0, 0), 1, 1, **look) for look in looks.values()]
    legend_below(fig, ncols=3, keys=keys, fontsize=SMALL_PRINT)
    return fig


def _fates(findings: pd.DataFrame, throughout: int, set_aside: int) -> str:
    """The finding: how many statements a test decides, and which way."""
    tested = int(findings.to_numpy().sum())
    if not tested:
        return "No statement of the papers can be tested under this profile"
    decided = [Verdict.CONFIRMED, Verdict.CONTRADICTED]
    holds, against = findings.reindex(columns=decided, fill_value=0).sum()
    aside = f" ({set_aside} more set aside)" * bool(set_aside)
    return (
        f"{holds} of {tested} statements are confirmed ({throughout} in every table cell),\n"
        f"{against} contradicted{aside}"
    )


def _stacked(ax: Axes, table: pd.DataFrame) -> None:
    """Bars side by side in a row, with their numbers where these fit."""
    begin = np.zeros(len(table))
    widest = max(1.0, float(table.sum(axis=1).max()))
    for name in table:
        widths = table[name].to_numpy(dtype=float)
        look = OUTCOMES[str(name)]
        ax.barh(range(len(table)), widths, left=begin, height=0.62, ec=BLACK, lw=0.5, **look)
        for place, (start, width) in enumerate(zip(begin, widths, strict=True)):
            if width > (0.055 * len(f"{width:.0f}") - 0.015) * widest:
                dark = look["fc"] in (BLACK, BLUE, GREEN)
                box = {"fc": "white", "ec": "none", "pad": 0.4} if look["hatch"] else None
                ax.text(
                    start + width / 2, place, f"{width:.0f}", ha="center", va="center",
                    fontsize=SMALL_PRINT, color="white" if dark else BLACK, bbox=box,
                )  # fmt: skip
        begin += widths


# --- Risk and utility ---------------------------------------------------------------------------


@drawing
def headline(rows: pd.DataFrame, ways: Mapping[str, str], guessing: float, title: str) -> Figure:
    """How many words come out unchanged, and how many an attacker names: a pair of bars a setting.

    Of `scoreboard_headline.settings`, of the `ways` in which mechanisms replace a word, in words,
    and of the success of always naming the most frequent ones (NaN where it was not measured).
    """
    fig, ax = plt.subplots(figsize=(PAGE, 1.3 + 0.75 * max(1, len(rows))))
    places = np.arange(len(rows))[::-1]
    ax.barh(places + 0.19, rows["kept"], 0.34, color=PALE, label="come out unchanged")
    ax.barh(places - 0.19, rows["value"], 0.34, color=BLUE, label="recovered by an attacker")
    ax.errorbar(rows["value"], places - 0.19, xerr=reach(rows), fmt="none", color=BLACK, lw=1)
    for place, row in zip(places, rows.itertuples(), strict=True):
        for value, end, up in ((row.kept, row.kept, 0.19), (row.value, row.high, -0.19)):
            ax.annotate(f"{100 * value:.0f}", (end, place + up), (4, 0), va="center",
                        textcoords="offset points", fontsize=11)  # fmt: skip
    names = [
        f"{label(row.mechanism)}, ε {row.epsilon:g}\n{ways[str(row.mechanism)]}"
        for row in rows.itertuples()
    ]
    ax.set_yticks(places, names, fontsize=8.5)
    if np.isfinite(guessing):
        ax.axvline(guessing, color=GREY, ls=":", lw=1.4, label=f"guessing ({100 * guessing:.0f})")
    counted = f" (n = {rows['n'].max():,.0f})" if len(rows) and rows["n"].notna().all() else ""
    ax.set(xlabel=f"of 100 content words{counted}", xlim=(0, 1))
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f}")
    ax.xaxis.label.set_fontsize(10)
    ax.grid(visible=False, axis="y")
    fig.suptitle(title, fontsize=11)
    legend_below(fig, ncols=3, fontsize=9)
    return fig


@drawing
def risk_utility(
    at: pd.DataFrame, marks: Mapping[str, float], sentences: float, title: str
) -> Figure:
    """What is left for a classifier at one risk of `scoreboard.equal_risk`.

    `marks` are accuracies to compare with, by name. The accuracy was measured on so many
    `sentences` (NaN where that is not known).
    """
    rows = at.sort_values("value", kind="stable").reset_index(drop=True)
    fig, ax = plt.subplots(figsize=(PAGE, 1.5 + 0.36 * max(1, len(rows))))
    for place, row in enumerate(rows.itertuples()):
        dot(ax, row, place, ms=8, lw=1.6, **style(str(row.mechanism)))
        ax.annotate(f"{row.value:.0%}", (row.high, place), (6, 0), va="center",
                    textcoords="offset points", fontsize=10)  # fmt: skip
    names = [
        f"{label(row.mechanism)}, {1 - row.epsilon:.0%} of them"
        if row.mechanism == LEFT_OUT
        else f"{label(row.mechanism)}{'*' * (row.mechanism in ESTIMATED)}, ε {row.epsilon:.3g}"
        for row in rows.itertuples()
    ]
    ax.set_yticks(range(len(rows)), names, fontsize=9)
    for what, value in marks.items():  # each written towards the rows
        ax.axvline(value, color=GREY, ls=":", lw=1.4)
        inward, side = (-4, "right") if value > rows["value"].max() else (4, "left")
        ax.annotate(what, (value, len(rows) - 0.55), (inward, 0), textcoords="offset points",
                    color=GREY, fontsize=9.5, ha=side)  # fmt: skip
    counted = f" (n = {sentences:.0f} sentences)" if np.isfinite(sentences) else ""
    starred = ""
    if rows["mechanism"].isin(ESTIMATED).any():
        starred = "\n* probabilities estimated: the risk may be higher"
    ax.set_xlabel(f"accuracy of sentiment{counted}{starred}", fontsize=10)
    ax.set_ylim(-0.6, max(1, len(rows)) - 0.2)
    ax.grid(visible=False, axis="y")
    percent(ax.xaxis)
    if rows.empty:
        note = "nothing that could be compared under this profile"
        ax.text(0.5, 0.5, note, ha="center", transform=ax.transAxes, fontsize=10, color=GREY)
    fig.suptitle(title, fontsize=11)
    return fig
