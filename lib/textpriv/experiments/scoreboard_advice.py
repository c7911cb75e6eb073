"""What notebook 07 and README advise an engineer to take, by tests of the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from textpriv.data.corpora import label as corpus_label
from textpriv.experiments import scoreboard
from textpriv.experiments.equal_utility import LEFT_OUT, strongest
from textpriv.experiments.equal_utility_findings import ESTIMATED
from textpriv.experiments.scoreboard_findings import CLEAR, PROMPT, between, fewest_read
from textpriv.experiments.scoreboard_headline import CHANCE, told, told_ends
from textpriv.report.board import Board
from textpriv.report.difference import ALONE, Difference
from textpriv.report.figures import called, listing
from textpriv.report.results import Measurement

FEW = 3  # names in a cell of the table

COMPARED_AT = "set alike for all"

PLACES: Mapping[str, str] = {"risk": "in their places", "anywhere": "in whatever place"}
"""Columns of `scoreboard.manipulated_tokens`: which tokens count as recovered."""

USEFUL = 1 / 2
"""Share of what plain text gives above guessing that a mechanism for a classifier has to leave."""

PROMPTED_CLIPPED = "dp-prompt-clipped"  # at the setting of PROMPT

UNPROVED: Mapping[str, str] = {
    "dp-prompt": "no proven guarantee",
    "left-out": "no guarantee",
    "first-words": "no guarantee",
    **dict.fromkeys(
        ("custext+", "rantext", "dp-prompt-top-k40", "dp-prompt-top-k80"), "no finite epsilon holds"
    ),
}
"""Mechanisms that advice may name and that claim nothing."""


def choice(board: Board, at: pd.DataFrame) -> pd.DataFrame:
    """Which mechanism stands out for what one wants to send, by tests.

    A row for each thing that was measured; `at` is as for `at_equal_risk`. Columns: you send, use,
    an attacker still gets, what is left.
    """
    rows = [_for_words(board, at), *_for_tokens(board), _for_authors(board)]
    columns = ["you send", "use", "an attacker still gets", "what is left"]
    return pd.DataFrame([row for row in rows if row], columns=columns)


def leaders(rows: pd.DataFrame, pairs: pd.DataFrame | None = None) -> list[str]:
    """Mechanisms that a test does not tell from the one of largest value; the best first.

    Of columns mechanism, value, low, high, and of paired tests of the same values (first, second, p
    corrected); a pair that is not there was not told apart. Without them errors are taken for
    independent, which is cautious, and corrected for the number of all pairs (Bonferroni), as the
    best was chosen for being the best.
    """
    ordered = rows.sort_values("value", ascending=False, kind="stable")
    measured = [
        Measurement(name=row.pop("mechanism"), **row)
        for row in ordered[["mechanism", "value", "low", "high"]].to_dict("records")
    ]
    best = measured[0]
    if pairs is not None:
        told = pairs.loc[pairs["p"] < ALONE, ["first", "second"]]
        apart = {*told[(told == best.name).any(axis=1)].stack()} - {best.name}
        return [measurement.name for measurement in measured if measurement.name not in apart]
    count = math.comb(len(measured), 2)
    return [
        measurement.name
        for measurement in measured
        if measurement is best or Difference.between(best, measurement).p * count >= ALONE
    ]


def _take(names: Sequence[str], every: int) -> str:
    """The mechanisms that no test sets below the best."""
    best = called(names[0])
    best += f" ({UNPROVED[names[0]]})" if names[0] in UNPROVED else ""
    if names[0] in ESTIMATED:
        best += " (its probabilities are estimated)"
    if len(names) == 1:
        return best
    if len(names) > FEW or len(names) == every:
        others = f"{len(names) - 1} of {every - 1} others"
        if LEFT_OUT in names[1:]:
            others += f", {called(LEFT_OUT)} among them,"
        return (
            f"no clear winner: {others} are not significantly worse than {best}, the best by point "
            "estimate"
        )
    return f"{best}; not significantly worse: {listing(names[1:])}"


def _for_words(board: Board, at: pd.DataFrame) -> list[str] | None:
    if at.empty:
        return None
    risk, pairs = at["risk"].iloc[0], scoreboard.left_at_risk(board)
    names = leaders(at, pairs[pairs["risk"] == risk])
    rows = at.sort_values("value", ascending=False, kind="stable")
    others = rows["value"].iloc[1:]
    most = strongest(rows.assign(n=0), "risk").iloc[0]  # its interval allows for the choice
    left = told(most["value"], most["low"], most["high"])
    if len(others):
        left += f"; under the others {others.min():.0%} to {others.max():.0%}"
    left += f"; {told_ends(board)}"
    return [
        "a text whose content words are replaced (stop words stand)",
        _take(names, len(at)),
        f"at least {risk:.0%} of the content words ({COMPARED_AT}){_model_adds(board)}",
        f"sentiment, by the best classifier tried, at an accuracy of {left}"
        + _better_setting(scoreboard.word_points(board), risk, most["value"]),
    ]


def _model_adds(board: Board) -> str:
    """By how much a language model moves the risks apart that are alike without it."""
    added = board.rows("model_adds", "mechanism", beside="usual")
    if added.empty or round(100 * added["value"].max()) <= 0:
        return ""
    least, most = (added.loc[added["value"].agg(end)] for end in ("idxmin", "idxmax"))
    return (
        "; a language model with more candidates adds on average "
        f"{100 * max(0.0, least['value']):.0f} ({called(least['mechanism'])}) to "
        f"{100 * most['value']:.0f} points ({called(most['mechanism'])})"
    )


def _better_setting(points: pd.DataFrame, risk: float, accuracy: float) -> str:
    """A measured setting of less risk that leaves more than is read off at a risk, if any.

    Accuracy need not fall with the risk, and between two settings it is read off on a line.
    """
    better = points[(points["risk"] < risk) & (points["value"] > accuracy)]
    if better.empty:
        return ""
    best = better.loc[better["value"].idxmax()]
    return (
        f"; but {best['value']:.0%} was measured under {called(best['mechanism'])} at epsilon "
        f"{best['epsilon']:g} ({best['risk']:.0%} recovered)"
    )


def _for_tokens(board: Board) -> list[list[str]]:
    """One row for who must name a token in its place, and one for who need not."""
    tokens = scoreboard.manipulated_tokens(board)
    tokens = tokens[tokens["corpus"] == scoreboard.CORPUS]
    clear = tokens[tokens["mechanism"] == "plain"]
    plain, most = clear["value"].max(), clear["high"].max()
    useful = tokens[tokens["low"] >= CHANCE + USEFUL * (most - CHANCE)]
    rows = []
    for by, where in PLACES.items():
        row = fewest_read(board, useful, by)
        if row is None:
            return []
        unproved = "" if row["mechanism"] == "noise" else " (no guarantee)"
        risk = told(row[by], *(row.get(f"{by}_{end}", math.nan) for end in ("low", "high")))
        sent, also = "the same", " (stronger of two attacks)"
        least = "fewest recovered of the same settings, by point estimate"
        if by == "risk":
            sent = "tokens that are mapped, mixed or noisy, for a classifier"
            also = f" ({row['anywhere']:.0%} {PLACES['anywhere']})"
            least = "fewest recovered, by point estimate, of settings that surely keep half of "
            least += "plain text's gain over guessing"
        rows.append([
            f"{sent}; hidden {where}",
            f"{called(row['mapper'])}{unproved}: {least}",
            f"at least {risk} of the tokens {where}{also}",
            f"sentiment at an accuracy of {told(row['value'], row['low'], row['high'])}; on plain "
            f"text {plain:.0%} ({corpus_label(row['corpus'])})",
        ])  # fmt: skip
    return rows


def _for_authors(board: Board) -> list[str] | None:
    rows = board.rows("f1_at_risk", "mechanism", "risk")
    if rows.empty:
        return None
    risk = rows.groupby("risk")["mechanism"].nunique().idxmax()  # that the most mechanisms share
    own = rows[rows["risk"] == risk]
    names = leaders(own)
    most = strongest(own, "risk").iloc[0]
    plain = [board.measured.get(CLEAR + target) for target in ("author", "sentiment")]
    clear = [f"; on clean text {each.value:.2f}" if each else "" for each in plain]
    return [
        "a text whose author is the secret",
        _take(names, len(own)),
        f"the author with a macro F1 of at least {risk:.2f} ({COMPARED_AT}){clear[0]}"
        + _at_one_setting(board),
        f"sentiment with a macro F1 of {between(most)}{clear[1]}",
    ]


def _at_one_setting(board: Board) -> str:
    """What the attacker of one output finds who was not run at every setting, where it is more."""
    once = board.rows("repeated", mechanism=PROMPTED_CLIPPED, setting="t0.75", k=1)["value"].max()
    usual = board.measured.get(f"{PROMPT}author")
    if usual is None or not once > usual.value:
        return ""
    return (
        f"; an attacker run at one setting of {called(PROMPTED_CLIPPED)} alone reaches {once:.2f} "
        f"there, not {usual.value:.2f}"
    )
