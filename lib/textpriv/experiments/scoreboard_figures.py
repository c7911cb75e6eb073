"""The pictures of notebook 07; each takes tables of `scoreboard` and returns a figure.

Colours and markers of mechanisms and attacks are those of the other notebooks. Where several
corpora share a panel, the first one's markers are filled and the others' hollow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from textpriv.data.corpora import label as corpus_label
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
TASKS = {
    "attacked sentences": "sentiment, attacked sentences",
    **{name: f"sentiment, {corpus_label(name)}" for name in ("rotten-tomatoes", "imdb")},
}
VERDICTS = {"holds": (BLUE, "o"), "undecided": (ORANGE, "s"), "broken": (RED, "X")}
NO_AUDITS = "No audits are kept here: run make audit, then this again."
SMALL_PRINT = 7.5
HOLLOW = {"markerfacecolor": "white"}


# --- Claims -------------------------------------------------------------------------------------


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
    fig.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=SMALL_PRINT)
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


def risk_utility(
    attacks: pd.DataFrame,
    tasks: pd.DataFrame,
    tokens: pd.DataFrame,
    authors: pd.DataFrame,
    summaries: pd.DataFrame,
    *,
    risk: float,
) -> Figure:
    """All mechanisms against all attacks and on all tasks, at equal success of the best attack.

    Parameters
    ----------
    attacks : mechanism, attack, epsilon, value, low, high, same
    tasks : mechanism, task, risk, value, low, high
    tokens, authors, summaries : of `scoreboard`; any of the five may be empty
    risk : success of the best attack at which the upper panels are drawn
    """
    fig = plt.figure(figsize=(PAGE, 10.2))
    # Rows of their own, or the first one's long legend would narrow all panels.
    rows: Any = fig.subfigures(4, 1, height_ratios=(1.15, 1.05, 1.0, 0.95))
    first = rows[0].subplots()
    second, third, fourth = (row.subplots(1, 2) for row in rows[1:])
    mechanisms = list(dict.fromkeys([*attacks["mechanism"], *tasks["mechanism"]]))
    _attacks(first, attacks, mechanisms, risk)
    _tasks_by_risk(second[0], tasks[tasks["task"] == next(iter(TASKS))])
    _tasks_at(second[1], tasks[tasks["risk"] == risk], mechanisms, risk)
    _tokens(third[0], tokens)
    _authors(third[1], authors)
    _summaries(fourth[0], summaries)
    _names(fourth[1], _bare([*mechanisms, *tokens["mechanism"], *authors["mechanism"]]))
    return fig


def _attacks(ax: Axes, table: pd.DataFrame, mechanisms: Sequence[str], risk: float) -> None:
    places = {name: len(mechanisms) - 1 - row for row, name in enumerate(mechanisms)}
    attacks = list(dict.fromkeys(table.sort_values("value")["attack"]))
    for row in table.itertuples():
        shift = 0.32 - 0.64 * attacks.index(row.attack) / max(1, len(attacks) - 1)
        look: dict[str, Any] = {**style(row.attack), "linestyle": ""}
        if not row.same:
            look["markerfacecolor"] = "white"
        _across(ax, row.value, row.low, row.high, places[row.mechanism] + shift, ms=4.5, **look)
    ax.axvline(risk, color=BLACK, lw=0.8, ls=":")
    ax.set_yticks(list(places.values()), [label(name) for name in places])
    ax.set(ylim=(-0.6, len(mechanisms) - 0.4), xlim=(-0.02, 0.85))
    ax.set(
        xlabel="content words that an attack recovers (hollow: of other sentences, replaced words)"
    )
    title = f"Words: every attack, where the best of those run on all (dotted) recovers {risk:.0%}"
    ax.set_title(title, fontsize=9)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    keys = [_key(label(name), **{**style(name), "linestyle": ""}) for name in attacks]
    if keys:
        place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        ax.legend(handles=keys, fontsize=6.8, handlelength=1.2, labelspacing=0.35, **place)
    _say_if_empty(ax, table)


def _tasks_by_risk(ax: Axes, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["mechanism"]))
    for number, name in enumerate(names):
        part = table[table["mechanism"] == name].sort_values("risk")
        x = part["risk"] + 0.004 * (number - (len(names) - 1) / 2)
        reach = [part["value"] - part["low"], part["high"] - part["value"]]
        look: dict[str, Any] = {**style(name)}
        ax.errorbar(x, part["value"], yerr=reach, ms=4, lw=1, elinewidth=0.6, **look)
    ax.set(xlabel="content words that the best attack recovers", ylabel="accuracy")
    ax.set_title("Words: sentiment, attacked sentences", fontsize=9)
    _percent(ax)
    _say_if_empty(ax, table)


def _tasks_at(ax: Axes, table: pd.DataFrame, mechanisms: Sequence[str], risk: float) -> None:
    places = {name: len(mechanisms) - 1 - row for row, name in enumerate(mechanisms)}
    tasks = [task for task in TASKS if task in set(table["task"])]
    shapes: tuple[tuple[str, dict[str, str]], ...] = (("o", {}), ("s", HOLLOW), ("D", {}))
    markers = dict(zip(TASKS, shapes, strict=True))
    for row in table.itertuples():
        marker, face = markers[row.task]
        shift = 0.22 - 0.22 * list(TASKS).index(row.task)
        look: dict[str, Any] = {"color": style(row.mechanism)["color"], "marker": marker, **face}
        _across(
            ax, row.value, row.low, row.high, places[row.mechanism] + shift, ms=4.5, ls="", **look
        )
    ax.set_yticks(list(places.values()), [label(name) for name in places], fontsize=7)
    ax.set(ylim=(-0.6, len(mechanisms) - 0.4), xlabel="accuracy")
    ax.set_title(f"Words: every task where it recovers {risk:.0%}", fontsize=9)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    keys = [
        _key(TASKS[task].removeprefix("sentiment, "), marker=markers[task][0], **markers[task][1])
        for task in tasks
    ]
    if keys:
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.4, -0.26)}
        ax.legend(handles=keys, fontsize=6.8, ncols=3, handlelength=0.8, columnspacing=0.8, **place)
    _say_if_empty(ax, table)


def _tokens(ax: Axes, table: pd.DataFrame) -> None:
    corpora = list(dict.fromkeys(table["corpus"]))
    for row in table.itertuples():
        face = {} if row.corpus == corpora[0] else HOLLOW
        look: dict[str, Any] = {**style(row.mechanism), "linestyle": "", **face}
        ax.plot(row.risk, row.value, ms=4.5, **look)
    ax.set(xlabel="tokens that the strongest attack names", ylabel="accuracy, trained on the same")
    ax.set_title("Tokens: maps, stencils, noise", fontsize=9)
    ax.set_xlim(0, 1.03)
    if len(corpora) > 1:
        ax.text(0.02, 0.97, f"filled: {corpus_label(corpora[0])}\nhollow: "
                f"{corpus_label(corpora[1])}", va="top", fontsize=6.8,
                transform=ax.transAxes)  # fmt: skip
    _percent(ax)
    _say_if_empty(ax, table)


def _authors(ax: Axes, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["mechanism"]))
    for number, name in enumerate(names):
        part = table[table["mechanism"] == name].sort_values("risk")
        x = part["risk"] + 0.004 * (number - (len(names) - 1) / 2)
        reach = [part["value"] - part["low"], part["high"] - part["value"]]
        face = HOLLOW if name.endswith("-300d") else {}
        look: dict[str, Any] = {**style(name.removesuffix("-300d")), **face}
        ax.errorbar(x, part["value"], yerr=reach, ms=4, lw=1, elinewidth=0.5, **look)
    ax.set(xlabel="author F1 of the strongest attacker", ylabel="best sentiment F1")
    ax.set_title("Documents: sentiment at equal author F1", fontsize=9)
    if any(name.endswith("-300d") for name in names):
        ax.text(0.99, 0.02, "hollow: 300 dimensions", ha="right", transform=ax.transAxes,
                fontsize=6.8)  # fmt: skip
    _say_if_empty(ax, table)


def _summaries(ax: Axes, table: pd.DataFrame) -> None:
    looks = {"large": (BLUE, "o", "-"), "small": (ORANGE, "s", "--")}
    for model, (color, marker, line) in looks.items():
        part = table[table["model"] == model].sort_values("kept")
        if len(part):
            reach = [part["value"] - part["low"], part["high"] - part["value"]]
            look: dict[str, Any] = {"color": color, "marker": marker, "ls": line, "ms": 4, "lw": 1}
            look["label"] = f"{model} model"
            ax.errorbar(part["kept"], part["value"], yerr=reach, elinewidth=0.6, **look)
    ax.set(xlabel="word pieces that MADLIB keeps", ylabel="similarity lost")
    ax.set_title("Summaries: what sanitizing costs", fontsize=9)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if len(table):
        ax.legend(fontsize=SMALL_PRINT)
    _say_if_empty(ax, table)


def _bare(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.removesuffix("-300d") for name in names))


def _names(ax: Axes, names: Sequence[str]) -> None:
    """The legend of all mechanisms, in a panel of its own."""
    ax.axis("off")
    keys = [_key(label(name), **style(name)) for name in names]
    if keys:
        ax.legend(handles=keys, loc="center", fontsize=6.8, ncols=2, columnspacing=0.9,
                  title="mechanisms", title_fontsize=SMALL_PRINT)  # fmt: skip


def _say_if_empty(ax: Axes, table: pd.DataFrame) -> None:
    if table.empty:
        ax.text(0.5, 0.5, "nothing that could be compared\nunder this profile", ha="center",
                va="center", transform=ax.transAxes, fontsize=8, color=GREY)  # fmt: skip


def _percent(ax: Axes) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _across(ax: Axes, x: float, low: float, high: float, y: float, **look: Any) -> None:
    reach = [[max(0.0, x - low)], [max(0.0, high - x)]]
    ax.errorbar(x, y, xerr=reach, elinewidth=0.6, capsize=0, **look)


def _key(text: str, **look: Any) -> Line2D:
    return Line2D([], [], label=text, **{"color": BLACK, "linestyle": "", "ms": 4.5, **look})


# --- Did we break it? ---------------------------------------------------------------------------


def audits(table: pd.DataFrame) -> Figure:
    """Largest loss over its claim for every audit, with what the audit could have overlooked.

    Parameters
    ----------
    table : of `privacy.audit_table`; an empty one is said to be none
    """
    if table.empty:
        fig, ax = plt.subplots(figsize=(PAGE, 1.2))
        ax.axis("off")
        ax.text(0.5, 0.5, NO_AUDITS, ha="center", va="center", fontsize=10)
        return fig
    claimed = table[table["worst ratio"].notna()]
    rest = len(table) - len(claimed)
    fig, ax = plt.subplots(figsize=(PAGE, 1.3 + 0.26 * max(1, len(claimed))))
    for place, row in zip(range(len(claimed) - 1, -1, -1), claimed.to_dict("records"), strict=True):
        color, marker = VERDICTS[row["verdict"]]
        ratio, excess = row["worst ratio"], row["detectable excess"]
        if 0 < excess < np.inf:  # an exact audit overlooks nothing
            ax.plot([ratio, max(ratio, 1 + excess)], [place, place], color=color, lw=1, alpha=0.6)
        ax.plot(ratio, place, marker, color=color, ms=6)
    names = [
        f"{row['mechanism']}, {row['setting']}"
        + (", near pairs" if "nearest" in row["audit"] else "")
        for row in claimed.to_dict("records")
    ]
    ax.set_yticks(range(len(claimed) - 1, -1, -1), names, fontsize=7)
    ax.axvline(1, color=BLACK, lw=1)
    ax.set(
        xlabel="largest loss found, as a share of the claim (above 1: broken)",
        ylim=(-0.6, len(claimed) - 0.4),
    )
    more = f"; {rest} without a claim" if rest else ""
    ax.set_title(f"{len(claimed)} attempts to break a claim{more}", fontsize=9)
    shown = [verdict for verdict in VERDICTS if verdict in set(claimed["verdict"])]
    keys = [
        _key(verdict, color=VERDICTS[verdict][0], marker=VERDICTS[verdict][1]) for verdict in shown
    ]
    sampled = "a loss up to here could go unseen (drawn audits; exact ones miss nothing)"
    keys.append(Line2D([], [], color=GREY, lw=1, label=sampled))
    fig.legend(handles=keys, loc="outside lower center", ncols=4, fontsize=SMALL_PRINT)
    return fig
