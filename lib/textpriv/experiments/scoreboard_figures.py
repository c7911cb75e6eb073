"""The pictures of notebook 07; each takes tables of `scoreboard` and returns a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from textpriv.drawing import drawing
from textpriv.experiments.scoreboard import COMPARED, OTHER, SET_UP, UNMEASURED
from textpriv.report import claims
from textpriv.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    RED,
    SKY,
    label,
    legend_below,
    percent,
    reach,
    style,
)
from textpriv.report.verdicts import Verdict

# Told apart by lightness and hatching as well as by hue.
OUTCOMES: Mapping[str, dict[str, str]] = {
    Verdict.MATCH: {"color": BLUE, "hatch": ""},
    Verdict.SAME_TREND: {"color": GREEN, "hatch": ""},
    Verdict.WITHIN: {"color": SKY, "hatch": ""},
    Verdict.TIE: {"color": "#FFFFFF", "hatch": "...."},
    Verdict.UNDECIDED: {"color": "#D9D9D9", "hatch": ""},
    Verdict.DIFFERS: {"color": RED, "hatch": "////"},
    OTHER: {"color": "#B3B3B3", "hatch": ""},
    UNMEASURED: {"color": "#E6E6E6", "hatch": "xxxx"},
    SET_UP: {"color": "#FFFFFF", "hatch": ""},
}
ALL_COMPARED = "compared with ours"
VERDICTS = {"holds": (BLUE, "o"), "undecided": (ORANGE, "s"), "broken": (RED, "X")}
NO_AUDITS = "No audits are kept here: run make audit, then this again."
SMALL_PRINT = 7.5


# --- Claims -------------------------------------------------------------------------------------


@drawing
def verdict_counts(counts: pd.DataFrame, findings: pd.DataFrame) -> Figure:
    """How many claims of each paper are compared, and what becomes of what the paper states.

    Parameters
    ----------
    counts : of `scoreboard.counts`, by paper
    findings : of `scoreboard.counts_of_findings`
    """
    papers = [paper for paper in claims.PAPERS if paper in counts.index][::-1]
    counts, findings = counts.loc[papers], findings.loc[papers]
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 2.9), width_ratios=(1, 1.35))
    held = counts[list(COMPARED)].sum(axis=1)
    every = counts[[OTHER, UNMEASURED, SET_UP]].assign(**{ALL_COMPARED: held})
    looks = {**OUTCOMES, ALL_COMPARED: {"color": BLACK, "hatch": ""}}
    _stacked(left, every[[ALL_COMPARED, OTHER, UNMEASURED, SET_UP]], looks)
    _stacked(right, findings, looks)
    left.set_yticks(range(len(papers)), [claims.PAPERS[paper] for paper in papers])
    right.set_yticks(range(len(papers)), [])
    left.set_title(f"all {int(counts.to_numpy().sum())} claims", fontsize=9)
    right.set_title(f"the {int(findings.to_numpy().sum())} statements tested", fontsize=9)
    for ax, unit in ((left, "claims"), (right, "statements, each tested as one")):
        ax.set(xlabel=unit)
        ax.grid(visible=False, axis="y")
    shown = [*every.columns[every.any()], *(name for name in COMPARED if findings[name].any())]
    handles = [
        plt.Rectangle((0, 0), 1, 1, label=name, ec=BLACK, lw=0.5, **_fill(looks[name]))
        for name in (ALL_COMPARED, *OUTCOMES)
        if name in shown
    ]
    legend_below(fig, ncols=4, keys=handles, fontsize=SMALL_PRINT)
    return fig


def _stacked(ax: Axes, table: pd.DataFrame, looks: Mapping[str, dict[str, str]]) -> None:
    """Bars side by side in a row, with their numbers where these fit."""
    begin = np.zeros(len(table))
    widest = max(1.0, float(table.sum(axis=1).max()))
    for name in table:
        widths = table[name].to_numpy(dtype=float)
        look = _fill(looks[str(name)])
        ax.barh(range(len(table)), widths, left=begin, height=0.62, ec=BLACK, lw=0.5, **look)
        for place, (start, width) in enumerate(zip(begin, widths, strict=True)):
            if width > 0.032 * len(f"{width:.0f}") * widest:
                dark = looks[str(name)]["color"] in (BLACK, BLUE, GREEN)
                box = {"fc": "white", "ec": "none", "pad": 0.4} if look["hatch"] else None
                text: dict[str, Any] = {
                    "fontsize": SMALL_PRINT,
                    "color": "white" if dark else BLACK,
                    "bbox": box,
                }
                middle: dict[str, Any] = {"ha": "center", "va": "center"}
                ax.text(start + width / 2, place, f"{width:.0f}", **middle, **text)
        begin += widths


def _fill(look: Mapping[str, str]) -> dict[str, Any]:
    return {"fc": look["color"], "hatch": look["hatch"]}


# --- Risk and utility ---------------------------------------------------------------------------


@drawing
def risk_utility(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """What is left for a classifier against what the strongest attack gets: a panel per family.

    Parameters
    ----------
    panels : by their titles; columns mechanism, risk, value, low, high, and any may be empty.
        Hollow markers are tables of 300 dimensions.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(PAGE, 3.9))
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        for name, part in table.sort_values("risk").groupby("mechanism", sort=False):
            large = str(name).endswith("-300d")
            bare = str(name).removesuffix("-300d")
            look: dict[str, Any] = {**style(bare), "label": "" if large else label(bare), "ms": 4}
            look |= {"markerfacecolor": "white"} if large else {}
            if "mapper" in part:  # of many settings, in no order
                look["linestyle"] = ""
            ax.errorbar(part["risk"], part["value"], reach(part), lw=1, elinewidth=0.5, **look)
        ax.set_title(title, fontsize=8.5)
        percent(ax.xaxis, ax.yaxis)
        if table.empty:
            note = "nothing that could be compared\nunder this profile"
            ax.text(0.5, 0.5, note, ha="center", transform=ax.transAxes, fontsize=7, color=GREY)
    axes[len(axes) // 2].set_xlabel("share that the strongest attack names (authors: F1)")
    axes[0].set_ylabel("sentiment that is left: accuracy, F1")
    legend_below(fig, ncols=4, fontsize=6.8)
    return fig


# --- Did we break it? ---------------------------------------------------------------------------


@drawing
def audits(table: pd.DataFrame) -> Figure:
    """Largest loss over its claim for every audit, with what the audit could have overlooked.

    Parameters
    ----------
    table : of `privacy.audit_table`; an empty one is said to be none
    """
    claimed = table[table["worst ratio"].notna()] if len(table) else table
    fig, ax = plt.subplots(figsize=(PAGE, 1.3 + 0.26 * max(1, len(claimed))))
    if table.empty:
        ax.axis("off")
        ax.text(0.5, 0.5, NO_AUDITS, ha="center", va="center", fontsize=10)
        return fig
    names = []
    for place, row in enumerate(claimed[::-1].to_dict("records")):
        color, marker = VERDICTS[row["verdict"]]
        ratio, excess = row["worst ratio"], row["detectable excess"]
        if 0 < excess < np.inf:  # an exact audit overlooks nothing
            ax.plot([ratio, max(ratio, 1 + excess)], [place, place], color=color, lw=1, alpha=0.6)
        ax.plot(ratio, place, marker, color=color, ms=6, label=row["verdict"])
        near = ", near pairs" if "nearest" in row["audit"] else ""
        names.append(f"{row['mechanism']}, {row['setting']}{near}")
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.axvline(1, color=BLACK, lw=1)
    ax.set(xlabel="largest loss found, as a share of the claim (above 1: broken)")
    ax.set_ylim(-0.6, len(claimed) - 0.4)
    rest = len(table) - len(claimed)
    more = f"; {rest} without a claim" if rest else ""
    ax.set_title(f"{len(claimed)} attempts to break a claim{more}", fontsize=9)
    unseen = "a loss up to here could go unseen (drawn audits; exact ones miss nothing)"
    ax.plot([], [], color=GREY, lw=1, label=unseen)
    legend_below(fig, ncols=4, fontsize=SMALL_PRINT)
    return fig
