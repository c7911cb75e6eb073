"""The first figure of README and of notebook 07, and what is said beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from textpriv.experiments import scoreboard
from textpriv.experiments.equal_utility import LEFT_OUT
from textpriv.experiments.equal_utility_findings import ESTIMATED, READABLE_ACCURACY
from textpriv.report.board import Board
from textpriv.report.difference import ALONE, Finding
from textpriv.report.figures import called, listing, of_hundred

SETTINGS: Mapping[str, str] = {
    "custext+": "one of a few similar words",
    "diffractor": "some steps along a list of words",
    "santext+": "any word, near ones likelier",
    "rantext": "a word within a random distance",
    "madlib": "the word nearest to a noisy vector",
    "vickrey": "one of two words near a noisy vector",
}
"""Mechanisms of the first figure, and what they put in a word's place."""

READABLE = 1 / 3
"""Share of the words that comes out unchanged at the settings of the first figure, about."""

COUNTED = "context-free-bound"
"""The attack of who knows how often each word occurs in the private texts."""

FEW_WORDS = 0.1  # recovered: what protects a text alone leaves no more

SMALL_GAP = 0.05  # of the words: shown by a test, and still hardly more

CHANCE = 0.5  # accuracy of guessing between two sentiments


def told(value: float, low: float, high: float, unit: str = "%") -> str:
    """A share of a hundred, with its interval where there is one."""
    whole = f"{of_hundred(value)}{unit}"
    return whole if math.isnan(low) else f"{whole} ({of_hundred(low)} to {of_hundred(high)})"


def settings(points: pd.DataFrame) -> pd.DataFrame:
    """One setting of each of SETTINGS, at which about a third of the words comes out unchanged.

    Of `scoreboard.word_points`. Columns: mechanism, epsilon, kept, value (risk), low, high, n,
    attack, p; the widest gap first.
    """
    shown = points[points["mechanism"].isin([*SETTINGS])]
    away = (shown["kept"] - READABLE).abs()
    near = shown.loc[away.groupby(shown["mechanism"], sort=False).idxmin()]
    risk = {"risk": "value", "risk_low": "low", "risk_high": "high"}
    table = near.drop(columns=["value", "low", "high"]).rename(columns=risk)
    order = (table["value"] - table["kept"]).sort_values(ascending=False, kind="stable").index
    columns = ["mechanism", "epsilon", "kept", "value", "low", "high", "n", "attack", "p"]
    return table.loc[order, columns].reset_index(drop=True)


def headline(chosen: pd.DataFrame) -> Finding:
    """Whether a changed word is a hidden one, by the one of `settings` of the widest gap."""
    if chosen.empty:
        return Finding("Not measured under this profile", "Notebook 09 has not run.")
    rows = chosen.to_dict("records")
    above = [row for row in rows if _beyond(row, len(rows))]
    low, high = (100 * chosen["value"].agg(end) for end in ("min", "max"))
    text = (
        f"At these settings the strongest of three attacks recovers {low:.0f} to {high:.0f} of 100 "
        "content words (all but stop words and words outside the vocabulary)."
    )
    wide = [row for row in above if row["value"] - row["kept"] > SMALL_GAP]
    title = "An attacker recovers hardly more words than come out unchanged"
    if wide:
        least = math.floor(100 * (wide[-1]["value"] - wide[-1]["kept"]))
        title = (
            f"Changed is not hidden: under {len(wide)} of {len(rows)} mechanisms an attacker\n"
            f"recovers at least {least} more of 100 words than come out unchanged"
        )
        text += " A changed word need not be a hidden one: significantly more are recovered than "
        text += f"come out unchanged under {_beside(wide)}."
    if few := [row for row in above if row not in wide]:
        gap = max(100 * (row["value"] - row["kept"]) for row in few)
        text += f" Under {_beside(few)} significantly more are recovered too, but by {gap:.1f} of "
        text += "100 at most"
        if given := [row["mechanism"] for row in few if row["attack"] == COUNTED]:
            text += f" ({listing(given)}: given the private texts' own word counts)"
        text += "."
    if same := [row for row in rows if row not in above]:
        gap = max(100 * abs(row["value"] - row["kept"]) for row in same)
        text += f" Under {_beside(same)} the two differ by {gap:.1f} or less, not significantly."
    return Finding(title, text)


def _beside(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mechanisms, with how many words come out unchanged and how many are recovered."""
    return listing(
        f"{called(row['mechanism'])} ({100 * row['kept']:.0f}→{100 * row['value']:.0f})"
        for row in rows
    )


def alone(board: Board) -> str:
    """Whether any mechanism that leaves a text useful hides most of its words, by notebook 09."""
    read = scoreboard.read_where_useful(board)
    own = read[read["mechanism"] != LEFT_OUT]
    if own.empty:
        return ""
    least, most = own.iloc[0], own.iloc[-1]
    answer = "Not as the only protection"
    if least["high"] < FEW_WORDS:
        answer = "Attacks recovered few words under one of them, and stronger ones may recover more"
    estimated = ", attacked with estimated probabilities: a lower limit"
    estimated *= least["mechanism"] in ESTIMATED
    least_read, most_read = (
        f"{told(row['value'], row['low'], row['high'])} under {called(str(row['mechanism']))}"
        for row in (least, most)
    )
    said = (
        f"**Should you use one?** {answer}. Where a mechanism is set so that a text stays useful "
        f"(the best classifier of sentiment tried is right in {READABLE_ACCURACY:.0%}; "
        f"{told_ends(board)}), the strongest of three attacks recovers, of the content words "
        f"and by point estimate, from {least_read}{estimated} to {most_read} "
        f"({_set_so(own, scoreboard.word_points(board))})."
    )
    if len(bare := read[read["mechanism"] == LEFT_OUT]):
        value, low, high = bare.iloc[0][["value", "low", "high"]]
        said += " If words are simply left out, the others sent unchanged: "
        said += f"{told(value, low, high)}."
    return said


def _set_so(read: pd.DataFrame, points: pd.DataFrame) -> str:
    """How many mechanisms can be set so, and what of `scoreboard.word_points` tells of others."""
    others = points[~points["mechanism"].isin([*read["mechanism"], LEFT_OUT])]
    every = len(read) + others["mechanism"].nunique()
    said = f"{len(read)} of {every} mechanisms can be set so"
    if others.empty or others["value"].min() < READABLE_ACCURACY:
        return said
    least = others.groupby("mechanism")["risk"].min()
    return (
        f"{said}; the others leave more at every setting tried, and {least.min():.0%} to "
        f"{least.max():.0%} at least are recovered"
    )


def ends(board: Board) -> dict[str, float]:
    """Accuracies between which those of notebook 09 lie, by name; guessing where it has none."""
    named = {"original text": "accuracy.clear", "without the replaced words": "accuracy.empty"}
    measured = {what: board.measured.get(name) for what, name in named.items()}
    known = {what: each.value for what, each in measured.items() if each}
    return known or {"guessing": CHANCE}


def told_ends(board: Board) -> str:
    """The same, for a sentence."""
    return ", ".join(f"{what}: {value:.0%}" for what, value in ends(board).items())


def _beyond(row: Mapping[str, float], tests: int) -> bool:
    """Whether more words are recovered than stay, by a test in pairs, one of so many."""
    return row["value"] > row["kept"] and row["p"] * tests < ALONE


def guessing(board: Board) -> float:
    """Success of always naming the most frequent words, on the corpus of the first figure."""
    rows = board.rows("asr", "defense", attack="prior-only", corpus=scoreboard.CORPUS)
    return float(rows["value"].max())
