"""Notebook 07: what it makes of the numbers that the other notebooks have left.

    judged(verdicts.judge(...))         what the papers state, and what became of it
    contradictions(board)               where papers contradict themselves or each other
    equal_risk(points, risks)           words: accuracy where the best attack succeeds equally often
    equal_utility(board)                words: who protects more where both leave as much of a text
    whole_texts(board)                  rewritten texts: linked to their originals, and the game
    audits()                            did we break it?

*Equal risk* means that the best attack succeeds equally often, whatever epsilon that takes. It is
read off between the epsilons that were measured, and never beyond them.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, Field

from textpriv import paths
from textpriv.experiments.equal_utility import strongest
from textpriv.experiments.mechanisms import OWN
from textpriv.experiments.whole_texts import ALL_OUTPUTS
from textpriv.privacy import Audit, read_audits
from textpriv.report import claims, results
from textpriv.report.board import Board
from textpriv.report.claims import Claim, Kind
from textpriv.report.difference import ALONE
from textpriv.report.figures import labelled, of_hundred
from textpriv.report.verdicts import Judgement, Verdict, Z

COMPARED = tuple(each for each in Verdict if each != Verdict.NOT_COMPARABLE)

CORPUS = "rotten-tomatoes"  # the one that notebooks 01, 05 and 09 share
NEWER = ("clusant", "diffractor", "rantext", "polar")  # than the papers, attacked in notebook 09
WITH_MODEL = "spoken_equal"  # of notebook 09: pairs that a language model has attacked too
# Notebook 05 calls SanText+ and CusText+ as the paper's figure does.
DEFENSES = {"custext": "custext+", "santext": "santext+"}


class Sizes(BaseModel, extra="forbid", frozen=True):
    """What notebook 07 shows, set by the profile."""

    risks: tuple[float, ...] = Field(min_length=1)  # successes of the best attack, rising
    shown_risk: float = Field(gt=0, lt=1)  # the one at which all attacks are shown


def sources(board: Board) -> pd.DataFrame:
    """Where the numbers come from: one row per notebook."""
    rows: list[dict[str, Any]] = [
        {
            "notebook": name,
            "measurements": len(each.measurements),
            "claims": len(claims.for_notebook(name)),
            "commit": (each.commit or "")[:7] + (" and changes" if each.dirty else ""),
            "device": each.device,
            "minutes": each.seconds / 60,
        }
        for name, each in board.results.items()
    ]
    rows += [{"notebook": name, "commit": reason} for name, reason in board.missing.items()]
    return pd.DataFrame(rows)


# --- Claims -------------------------------------------------------------------------------------


def judged(judgements: Iterable[Judgement]) -> pd.DataFrame:
    """The statements that could be tested; `cells` is how many orderings one is about."""
    columns = ["paper", "place", "states", "cells", "kind", "verdict", "reason"]
    rows = [
        [judgement.paper, judgement.place, judgement.statement.says, len(judgement.cells),
         str(judgement.kind), str(judgement.verdict), judgement.reason]
        for judgement in judgements
        if judgement.verdict != Verdict.NOT_COMPARABLE
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def counts_of_findings(judgements: Iterable[Judgement]) -> pd.DataFrame:
    """How many of each paper's statements have each verdict; those that are evidence."""
    table = judged(judgement for judgement in judgements if judgement.kind == Kind.FINDING)
    counted = pd.crosstab(table["paper"], table["verdict"])
    return counted.reindex([*claims.PAPERS], columns=[*map(str, COMPARED)], fill_value=0)


# --- Contradictions -----------------------------------------------------------------------------


def contradictions(board: Board) -> pd.DataFrame:
    """Where papers contradict themselves, each other, their code or our measurements.

    Columns: papers, against, about, printed, measured; numbers are looked up, and what was not
    measured under this profile is left out.
    """
    path = claims.FILE.with_name("contradictions.toml")
    printed = {claim.id: _printed(claim) for claim in claims.load()}
    measured = {name: each.told() for name, each in board.measured.items()}
    return pd.DataFrame(
        {
            "papers": ", ".join(claims.PAPERS[paper] for paper in each["papers"]),
            "against": each["against"],
            "about": each["about"],
            "printed": _listed(each.get("printed", {}), printed),
            "measured": _listed(each.get("measured", {}), measured),
        }
        for each in tomllib.loads(path.read_text(encoding="utf-8"))["contradiction"]
    )


def _printed(claim: Claim) -> str:
    trend = claim.trend
    return f"{trend.bound:g}" if trend and trend.form == "at_most" else claim.stated


def _listed(names: Mapping[str, str], known: Mapping[str, str]) -> str:
    return "; ".join(f"{what}: {known[name]}" for what, name in names.items() if name in known)


def printed_twice() -> pd.DataFrame:
    """Numbers that a paper prints twice for one setting, further apart than their rounding."""
    groups: dict[tuple[str, str, str], list[Claim]] = {}
    for claim in claims.load():
        if claim.value is not None:
            key = claim.paper, claim.setting, str(claim.measurement)
            groups.setdefault(key, []).append(claim)
    rows = []
    for (paper, setting, _), group in groups.items():
        for first, second in combinations(group, 2):
            # both are rounded, each by at most half a unit
            allowed = ((first.rounding or 0) + (second.rounding or 0)) / 2
            apart = abs((first.value or 0) - (second.value or 0))
            if apart > allowed and not math.isclose(apart, allowed):
                rows.append([paper, setting, first.place, first.value, second.place, second.value])
    columns = ["paper", "setting", "place", "value", "other place", "other value"]
    return pd.DataFrame(rows, columns=columns)


def untrue_of_own_numbers() -> pd.DataFrame:
    """Orderings and bounds that fail on the numbers that the same paper prints."""
    rows = []
    for paper in claims.PAPERS:
        stated = [claim for claim in claims.load() if claim.paper == paper]
        printed = {c.measurement: c.value for c in stated if c.value is not None and c.measurement}
        for claim in stated:
            is_known = {*claim.measurements} <= {*printed}
            if claim.trend and is_known and not claim.trend.holds(printed):
                shown = ", ".join(f"{printed[name]:g}" for name in claim.measurements)
                rows.append([paper, claim.place, claim.setting, claim.stated, shown])
    return pd.DataFrame(rows, columns=["paper", "place", "setting", "stated", "printed"])


# --- Equal risk ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Place:
    """Where a curve reaches what was asked: `weight` of the way between two of its rows."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    along: str  # the column that reaches it
    weight: float
    error: float  # standard error of the place, in the unit of that column

    def interpolated(self, column: str) -> float:
        """A column of the curve there, interpolated."""
        return self._between(self.before[column], self.after[column])

    def slope(self, column: str) -> float:
        """By how much a column changes per unit of `along` there, without sign."""
        first, last = self.before, self.after
        return abs(float((last[column] - first[column]) / (last[self.along] - first[self.along])))

    def estimate(self) -> dict[str, float]:
        """Value and interval there, with both errors: the value's own, and the place's.

        The two neighbours were measured on the same texts, so their errors add up in full.
        """
        value, own = self.interpolated("value"), self._own_error("low", "high")
        reach = Z * math.hypot(own, self.error * self.slope("value"))
        return {"value": value, "low": max(0.0, value - reach), "high": min(1.0, value + reach)}

    def _own_error(self, low: str, high: str) -> float:
        """Standard error behind 95% intervals, interpolated."""
        return self._between(*((e[high] - e[low]) / (2 * Z) for e in (self.before, self.after)))

    def _between(self, before: float, after: float) -> float:
        return float((1 - self.weight) * before + self.weight * after)


def crossing(curve: pd.DataFrame, along: str, wanted: float, error: float = 0.0) -> Place | None:
    """The first place along a curve at which a column reaches a value; None where it does not.

    A curve has a row per epsilon, in their order. `error` is the standard error of what is wanted;
    that of the column is taken where the curve has one.
    """
    for before, after in pairwise(curve.to_dict("records")):
        low, high = before[along], after[along]
        if min(low, high) <= wanted <= max(low, high) and low != high:
            place = Place(before, after, along, float((wanted - low) / (high - low)), error)
            if f"{along}_low" in curve:
                place = replace(place, error=place._own_error(f"{along}_low", f"{along}_high"))
            return place
    return None


def word_points(board: Board) -> pd.DataFrame:
    """Word-level mechanisms: at every epsilon the best attack, accuracy, and words kept.

    Of the plotted numbers of notebook 09. Intervals of the best are simultaneous over the attacks.
    Columns: mechanism, epsilon, attack (the best), risk, risk_low, risk_high, value (accuracy),
    low, high, kept (share of the words that come out unchanged), p (that the attack is no better
    than believing each word as sent, by a paired test), n (words), sentences.
    """
    columns = ["mechanism", "epsilon", "attack", "risk", "risk_low", "risk_high"]
    columns += ["value", "low", "high", "kept", "p", "n", "sentences"]
    plotted = _plotted(board, "09_equal_utility", "fig09_risk")
    if plotted.empty:
        return pd.DataFrame(columns=columns)
    best = strongest(plotted, "mechanism", "epsilon")
    renamed = {"value": "risk", "low": "risk_low", "high": "risk_high"}
    renamed |= {"accuracy": "value", "accuracy_low": "low", "accuracy_high": "high"}
    return best.rename(columns=renamed).reindex(columns=columns)


def equal_risk(points: pd.DataFrame, risks: Iterable[float]) -> pd.DataFrame:
    """The accuracy that each mechanism leaves where the best attack has one of these successes.

    Of `word_points`: a row per mechanism and risk that its epsilons reach. Columns: mechanism,
    risk, epsilon, kept, kept_error (that the error of the risk puts on `kept`), value, low, high.
    """
    rows = []
    for mechanism, curve in points.groupby("mechanism", sort=False):
        for risk in risks:
            place = crossing(curve.sort_values("epsilon"), "risk", risk)
            if place is None:  # nothing is said beyond the epsilons that were measured
                continue
            at = {"mechanism": mechanism, "risk": risk}
            at |= {column: place.interpolated(column) for column in ("epsilon", "kept")}
            at["kept_error"] = place.error * place.slope("kept")
            rows.append({**at, **place.estimate()})
    columns = ["mechanism", "risk", "epsilon", "kept", "kept_error", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def left_at_risk(board: Board) -> pd.DataFrame:
    """By how much accuracies differ where attackers recover as much, by notebook 09's paired tests.

    Columns: risk, first, second, value (accuracy of the first less that of the second), low, high,
    n, p (corrected for all of them).
    """
    columns = ["risk", "first", "second"]
    return board.rows("left", *columns, "p")[[*columns, "value", "low", "high", "n", "p"]]


def read_where_useful(board: Board) -> pd.DataFrame:
    """What the best attack recovers where a text is just useful, least first; notebook 09 has it.

    Columns: mechanism, value, low, high (simultaneous over the mechanisms).
    """
    rows = board.rows("read", "mechanism")[["mechanism", "value", "low", "high"]]
    return rows.sort_values("value", kind="stable", ignore_index=True)


def equal_utility(board: Board, measured: str = "equal") -> pd.DataFrame:
    """Who is read back less where two mechanisms leave as much of a text, by paired tests.

    Notebook 09 has them, from the same sentences; with a language model among the attackers too
    (`measured` WITH_MODEL).

    Columns: utility, quarter (of its range), level (the utility there), first, second, value (risk
    of the first less that of the second), low, high, n, p (corrected for all of them), less (which
    of the two is read back less, for certain; None where undecided).
    """
    columns = ["utility", "quarter", "level", "first", "second"]
    table = board.rows(measured, *columns, "p")
    lower = table["first"].where(table["value"] < 0, table["second"])
    less = lower.astype(object).where((table["p"] < ALONE) & table["value"].ne(0), None)
    return table.assign(less=less)[[*columns, "value", "low", "high", "n", "p", "less"]]


def kept_curves(board: Board) -> pd.DataFrame:
    """Accuracy of notebook 01 against words kept, of mechanisms without an attack too.

    Columns: mechanism, task, kept (the share that was matched on sentences), kept here (the share
    on the task's own texts), value, low, high.
    """
    named = ("data", "mechanism", "kept", "kept_here")
    curves = board.rows("sentiment", *named, reader="words", words=OWN)
    curves = curves.rename(columns={"data": "task", "kept_here": "kept here"})
    columns = ["mechanism", "task", "kept", "kept here", "value", "low", "high"]
    return curves[columns].sort_values("kept", kind="stable", ignore_index=True)


def _plotted(board: Board, notebook: str, stem: str) -> pd.DataFrame:
    """Numbers of a figure, of the run whose results the board holds: `full` borrows `default`'s."""
    own = results.file(notebook, board.profile).exists()
    profile = board.profile if own else "default"
    path = paths.output_directory(profile, "figures") / f"{stem}.csv"
    return pd.read_csv(path) if notebook in board.results and path.exists() else pd.DataFrame()


# --- Where risk is measured otherwise -----------------------------------------------------------


def manipulated_tokens(board: Board) -> pd.DataFrame:
    """Maps, stencils and noise of notebook 03: the strongest attack and the accuracy left.

    Columns: corpus, mapper, mechanism, attack, risk, risk_low, risk_high, anywhere, value, low,
    high. Risk is the share of tokens that the strongest attack names in their places at its first
    guess, with an interval that allows for the choice of the attack; `anywhere` the share that it
    names, or that the outputs of a stencil show, in whatever place.
    """
    renamed = {"value": "risk", "low": "risk_low", "high": "risk_high"}
    shared = ["corpus", "label"]
    shown = board.rows("in_sight", *shared, what="tokens")[[*shared, "value"]]
    accuracy = board.rows("accuracy", *shared, scenario="all")[[*shared, *renamed]]
    table = strongest(board.rows("pr1", *shared, "attack"), *shared).rename(columns=renamed)
    table = table.merge(shown.rename(columns={"value": "anywhere"}), on=shared, how="left")
    table["anywhere"] = table[["risk", "anywhere"]].max(axis=1)
    table = table.merge(accuracy, on=shared)
    mechanism = table["label"].astype(str).str.replace(r"-(?:w\d|\d{2}).*", "", regex=True)
    table = table.rename(columns={"label": "mapper"}).assign(mechanism=mechanism)
    numbers = [*renamed.values(), "anywhere", *renamed]
    return table[["corpus", "mapper", "mechanism", "attack", *numbers]]


def whole_texts(board: Board) -> pd.DataFrame:
    """What rewrites or hides whole texts, of notebook 08: the strongest linkage, and the game.

    Of linkage attacks that look at one output at a time; intervals of the strongest are
    simultaneous over these.

    Columns: mechanism, linked (share of the texts that the strongest attack finds among all
    originals), low, high, n, candidates (how many originals), attack, shown (epsilon that the game
    proves to be exceeded, at 95%), right (the share of right guesses in that game), claimed
    (epsilon of its text). What was not measured is NaN.
    """
    links = board.rows("linked", "mechanism", "attack", "candidates")
    best = strongest(links[links["attack"] != ALL_OUTPUTS], "mechanism")
    games = board.rows("game", "mechanism").groupby("mechanism", sort=False)["value"].max()
    table = best.rename(columns={"value": "linked"}).set_index("mechanism")
    table = table.join(games.rename("shown"), how="outer").sort_values("linked", kind="stable")
    plotted = _plotted(board, "08_whole_texts", "fig08_games")
    played = plotted.reindex(columns=["mechanism", "shown", "right", "claimed"])
    most = played.sort_values("shown", kind="stable").groupby("mechanism").last()
    columns = ["mechanism", "linked", "low", "high", "n", "candidates", "attack", "shown"]
    table = table.join(most[["right", "claimed"]]).reset_index()
    return table[[*columns, "right", "claimed"]]


def missing_measures(tables: Mapping[str, pd.DataFrame]) -> str:
    """Which comparisons lack their measurements under this profile, in a sentence."""
    absent = [what for what, each in tables.items() if each.empty]
    return f"Not measured under this profile: {', '.join(absent)}." if absent else ""


# --- Did we break it? ---------------------------------------------------------------------------


_CLIPPED = {"dp-prompt": "dp-prompt-clipped"}  # as notebook 04 names what has a guarantee


def audits() -> list[Audit]:
    """The audits that `make audit` has left; none when it has not run here."""
    path = _audit_file("audits")
    kept = read_audits(path) if path.exists() else []
    return [replace(each, mechanism=_CLIPPED.get(each.mechanism, each.mechanism)) for each in kept]


def statements() -> pd.DataFrame:
    """What each guarantee means for one text, as `make audit` has left it.

    Columns: mechanism, setting; of the whole text epsilon nominal, tight and at least (NaN: not
    known); and what the best attack that was measured did. Empty when it has not run here.
    """
    columns = ["mechanism", "setting", "nominal", "tight", "least", "attacked"]
    table = pd.DataFrame(_kept("statements").get("statements", []), columns=columns)
    clipped = table["setting"].astype(str).str.endswith("clipped")
    table["mechanism"] = table["mechanism"].mask(clipped, table["mechanism"].replace(_CLIPPED))
    best = [
        each["did"].format(of_hundred(each["success"]["value"])) if each else ""
        for each in table.pop("attacked")
    ]
    numbers = dict.fromkeys(["nominal", "tight", "least"], float)  # infinity and NaN are words
    table = table.astype(numbers).assign(**{"the best attack": best})
    return table.rename(columns={"least": "at least"})


def audit_summary(audited: Sequence[Audit]) -> pd.DataFrame:
    """A row per mechanism: how often its claim was attacked, the largest loss, and the verdict.

    Columns: mechanism, audits, worst ratio (largest loss as a share of the claim; NaN without a
    claim), verdict (the worst one).
    """
    worst = ["broken", "undecided", "not broken", "no claim"]
    rows = [[audit.label, audit.worst_ratio, worst.index(audit.verdict)] for audit in audited]
    table = pd.DataFrame(rows, columns=["mechanism", "worst ratio", "verdict"])
    asked = {"audits": ("verdict", "size"), "worst ratio": ("worst ratio", "max")}
    summary = table.groupby("mechanism", sort=False).agg(**asked, verdict=("verdict", "min"))
    return summary.assign(verdict=[worst[rank] for rank in summary["verdict"]]).reset_index()


def mutants() -> tuple[int, int]:
    """How many mechanisms that were made wrong on purpose the audits catch, and of how many."""
    kept = _kept("audits")
    return int(kept.get("mutants_caught", 0)), int(kept.get("mutants_tried", 0))


def _audit_file(name: str) -> Path:
    return paths.REPOSITORY / "results" / "audits" / f"{name}.json"


def _kept(name: str) -> dict[str, Any]:
    """What `make audit` has written into a file; nothing where it has not run."""
    path = _audit_file(name)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


# --- Tables of a notebook -----------------------------------------------------------------------


def shown(table: pd.DataFrame, digits: int = 2) -> str:
    """A table as HTML with labels for ids, in cells that wrap, so that it fits the width of a page.

    Counts are whole.
    """
    table = labelled(table)
    numbers = table.select_dtypes("float")
    counts = [each for each in numbers if (numbers[each].dropna() % 1 == 0).all()]
    whole = table.astype(dict.fromkeys(counts, "Int64")).rename_axis(columns=None)
    html = whole.to_html(
        index=False, border=0, na_rep="", justify="left", float_format=f"{{:,.{digits}f}}".format
    )
    left = "text-align: left; white-space: normal"
    html = html.replace("&lt;NA&gt;", "").replace("<td>", f'<td style="{left}">')
    return html.replace("<th>", f'<th style="{left}">')


def folded(summary: str, table: pd.DataFrame, digits: int = 2) -> str:
    """The same behind a line that opens it."""
    return f"<details><summary>{escape(summary)}</summary>{shown(table, digits)}</details>"
