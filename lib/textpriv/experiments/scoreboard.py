"""Notebook 07: every claim with its verdict, all mechanisms at equal risk, and broken guarantees.

Nothing is measured here: the numbers are those that the other notebooks have left in their
results. What a profile has not measured is left out, and said to be missing.

    board = gather(run.others)
    judged(board)                       what the papers state, and what became of it
    verdicts(board)                     every number and ordering of the papers, and ours
    contradictions(board)               where papers contradict themselves or each other
    points = word_points(board)
    tasks_at_equal_risk(points, board, sizes.risks)
    audits()                            did we break it?

*Equal risk* means that the best attack succeeds equally often, whatever epsilon that takes. It is
read off between the epsilons that were measured, and never beyond them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from textpriv import paths
from textpriv.errors import InvalidInput, RunError
from textpriv.privacy import Audit, audit_numbers, audit_table, read_audits
from textpriv.report import claims, results
from textpriv.report.claims import Claim, Comparison, Findings, Judgement, Kind, Verdict
from textpriv.report.difference import LEVEL, Difference
from textpriv.report.figures import label
from textpriv.report.results import Measurement, Results

if TYPE_CHECKING:
    from textpriv.report.run import Run

NOTEBOOKS = (
    "01_mechanisms",
    "02_ann_vs_exact",
    "03_lossy_and_stencil",
    "04_dp_prompt",
    "05_reconstruction_attacks",
    "06_slm_utility",
)
VALUE, SETTING = "number", "set-up"

MATCH, SAME, WITHIN, TIE, UNDECIDED, DIFFERS = [*map(str, Verdict)][:6]
OTHER, UNMEASURED, SET_UP = "another setting", "not measured here", "number of the set-up"
COMPARED = (MATCH, SAME, WITHIN, TIE, UNDECIDED, DIFFERS)
OUTCOMES = (*COMPARED, OTHER, UNMEASURED, SET_UP)
OPEN = (WITHIN, UNDECIDED)  # verdicts that a test leaves open

AUDITS = Path("results", "audits", "audits.json")
STATEMENTS = Path("results", "audits", "statements.json")

_CORPUS = "rotten-tomatoes"  # the one that notebooks 01 and 05 share
_DEFENSES = {"custext": "custext+", "santext": "santext+"}  # the names of the paper's figure


class Sizes(BaseModel):
    """What notebook 07 shows, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    risks: tuple[float, ...] = Field(min_length=1)  # successes of the best attack, rising
    shown_risk: float = Field(gt=0, lt=1)  # the one at which all attacks are shown


# --- What there is ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Board:
    """The results of the other notebooks under a profile.

    Attributes
    ----------
    found : results by notebook
    missing : what to do about each notebook that has left none
    """

    profile: str
    found: Mapping[str, Results]
    missing: Mapping[str, str]

    @cached_property
    def measured(self) -> Mapping[str, Measurement]:
        """Every measurement by its name, but for what a run itself cost."""
        return {
            name: each
            for result in self.found.values()
            for name, each in result.by_name().items()
            if not name.startswith("run.")
        }

    def matching(self, pattern: str) -> list[tuple[dict[str, str], Measurement]]:
        """Measurements whose whole name matches, with the groups of the match."""
        compiled = re.compile(pattern)
        matches = ((compiled.fullmatch(name), each) for name, each in self.measured.items())
        return [(match.groupdict(), each) for match, each in matches if match]

    def told(self, name: str, digits: int = 2) -> str:
        """A measurement with its interval, for a sentence."""
        found = self.measured.get(name)
        if found is None:
            return "(not measured here)"
        return _shown(found, f".{digits}f")

    def says(self, first: str, second: str, *, above: str, below: str) -> str:
        """The sentence that is true of two measurements, by a test of their difference."""
        left, right = (self.measured.get(name) for name in (first, second))
        if left is None or right is None:
            return "one of the two was not measured here"
        apart = Difference.between(left, right)
        return apart.says(above=above, below=below, undecided="undecided at this size")


def gather(profile: str, notebooks: Sequence[str] = NOTEBOOKS) -> Board:
    """Read the results of the other notebooks, as far as there are any; see `Run.others`."""
    found, missing = {}, {}
    for notebook in notebooks:
        try:
            found[notebook] = results.load(notebook, profile)
        except RunError as error:
            missing[notebook] = str(error)
    return Board(profile, found, missing)


def sources(board: Board) -> pd.DataFrame:
    """Where the numbers come from: one row per notebook."""
    rows: list[dict[str, Any]] = [
        {
            "notebook": name,
            "measurements": len(each.measurements),
            "claims": len(claims.of(name)),
            "commit": (each.commit or "")[:7] + (" and changes" if each.dirty else ""),
            "device": each.device,
            "minutes": each.seconds / 60,
        }
        for name, each in board.found.items()
    ]
    rows += [{"notebook": name, "commit": reason} for name, reason in board.missing.items()]
    return pd.DataFrame(rows)


# --- Claims -------------------------------------------------------------------------------------


def judge(board: Board) -> list[Judgement]:
    """Every statement of the papers, tested as one; see `claims.judge`."""
    measured = {name: each.by_name() for name, each in board.found.items()}
    return claims.judge(measured, board.profile)


def judged(found: Iterable[Judgement], *, verdict: str | None = None) -> pd.DataFrame:
    """The statements that could be tested, or those with one verdict, for display.

    Columns: paper, place, states, cells (how many orderings it is about), kind, verdict, reason.
    """
    columns = ["paper", "place", "states", "cells", "kind", "verdict", "reason"]
    rows = [
        [claims.PAPERS[each.paper], each.place, each.statement.says, len(each.cells),
         str(each.kind), str(each.verdict), each.reason]
        for each in found
        if each.verdict != Verdict.NOT_COMPARABLE and verdict in (None, str(each.verdict))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def counts_of_findings(found: Iterable[Judgement]) -> pd.DataFrame:
    """How many of each paper's statements have each verdict; those that are evidence."""
    table = judged(each for each in found if each.kind == Kind.FINDING)
    names = {name: paper for paper, name in claims.PAPERS.items()}
    counted = pd.crosstab(table["paper"].map(names), table["verdict"])
    return counted.reindex(list(claims.PAPERS), columns=list(COMPARED), fill_value=0)


def verdicts(board: Board) -> pd.DataFrame:
    """Every claim with its outcome.

    Columns: claim, paper, notebook, kind (number, set-up, or what an ordering is evidence of),
    place, setting, stated, ours, verdict, outcome (one of OUTCOMES: the verdict, told apart by what
    hinders a comparison), reason.
    """
    rows = []
    for notebook in dict.fromkeys(claim.notebook for claim in claims.load()):
        stated = claims.of(notebook, board.profile)
        result = board.found.get(notebook)
        measured = result.by_name() if result else {}
        compared = claims.compare_all(stated, measured, board.profile)
        for claim, found in zip(stated, compared, strict=True):
            rows.append(
                {
                    "claim": claim.id,
                    "paper": claim.paper,
                    "notebook": notebook,
                    "kind": kind_of(claim),
                    "place": claim.place,
                    "setting": claim.setting,
                    "stated": claim.stated,
                    "ours": claims.ours(claim, measured),
                    "verdict": str(found.verdict),
                    "outcome": outcome_of(claim, found, board.profile),
                    "reason": found.reason,
                }
            )
    return pd.DataFrame(rows)


def kind_of(claim: Claim) -> str:
    """A number, one of the paper's set-up, or what an ordering is evidence of."""
    if ".setting." in claim.id:
        return SETTING
    return str(claim.kind) if claim.trend else VALUE


def outcome_of(claim: Claim, found: Comparison, profile: str) -> str:
    """The verdict, told apart by what hinders a comparison."""
    if kind_of(claim) == SETTING:
        return SET_UP
    if not claim.is_compared(profile):
        return OTHER
    if found.verdict == Verdict.NOT_COMPARABLE:
        return UNMEASURED
    return str(found.verdict)


def counts(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """How many claims have each outcome.

    Parameters
    ----------
    table : of `verdicts`
    by : "paper", "notebook" or "kind"
    """
    found = pd.crosstab(table[by], table["outcome"])
    return found.reindex(columns=list(OUTCOMES), fill_value=0).rename_axis(columns=None)


def obstacles(table: pd.DataFrame, most: int = 12) -> pd.DataFrame:
    """The commonest reasons for which numbers cannot be compared."""
    held = table[table["outcome"].isin([OTHER, UNMEASURED])]
    found = held.groupby(["paper", "reason"], sort=False).size().rename("claims").reset_index()
    return found.sort_values("claims", ascending=False, kind="stable").head(most)


# --- Contradictions -----------------------------------------------------------------------------


class Contradiction(NamedTuple):
    """Two statements that cannot both stand.

    printed, measured : what to call a number, and the id of the claim or name of the measurement
    """

    papers: tuple[str, ...]
    against: str
    about: str
    printed: Mapping[str, str]
    measured: Mapping[str, str]


ITSELF, EACH_OTHER, CODE, US = "itself", "each other", "its own code", "what we measured"
_P2, _P6 = "paired.custext.rotten-tomatoes.eps2.", "paired.custext.rotten-tomatoes.eps6."
_PUNCTUATED = "pr5.punctuated-stencil-w9-s1.0.rotten-tomatoes."
CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction(
        ("tong",), ITSELF,
        "With one candidate the contextual attack can only name the context-free attack's guess; "
        "the tables print two successes.",
        {"contextual, K = 1": "tong.table1.k1.attack",
         "context-free, same shadow data": "tong.table2.shadow5.context_free"},
        {"contextual, K = 1": "table1.k1.attack", "context-free": f"{_P6}context_free_bayes"},
    ),
    Contradiction(
        ("tong",), ITSELF,
        "Tables 1 and 2 share one setting (K = 10, shadow data of 5%) and print two numbers.",
        {"Table 1": "tong.table1.k10.attack", "Table 2": "tong.table2.shadow5.contextual"},
        {"ours": "table1.k10.attack"},
    ),
    Contradiction(
        ("tong",), ITSELF,
        "Context is said to help the attack; with little shadow data the table says that it hurts.",
        {"contextual, 1%": "tong.table2.shadow1.contextual",
         "context-free, 1%": "tong.table2.shadow1.context_free"},
        {"contextual, 5%": f"{_P6}contextual_bayes",
         "context-free, 5%": f"{_P6}context_free_bayes"},
    ),
    Contradiction(
        ("carpentier",), ITSELF,
        "The text says that the small model adds 0.02 to R2, the table 0.01.",
        {"text": "carpentier.section4.4.slm_adds_r2", "all features": "carpentier.table1.all.r2",
         "epsilon alone": "carpentier.table1.no_bc.r2"},
        {"all features": "regression.all.r2.by_row",
         "epsilon alone": "regression.no_bc.r2.by_row",
         "added on unseen documents, over the mean at each epsilon": "gain.all.r2"},
    ),
    Contradiction(
        ("carpentier",), ITSELF,
        "A small model has at most a billion parameters; TinyLlama, one of the three, has 1.1.",
        {"billions": "carpentier.setting.slm_parameters"}, {},
    ),
    Contradiction(
        ("harel",), ITSELF,
        "Two average lengths of SST2 (and so two reasons for the best window).",
        {"section 2.3": "harel.section2.3.sst2.length",
         "section 3.3, at most": "harel.section3.3.sst2.length_below_10"}, {},
    ),
    Contradiction(
        ("harel",), ITSELF,
        "65 tokens per IMDb review, although full reviews are several times longer.",
        {"tokens": "harel.section2.3.imdb.length"}, {},
    ),
    Contradiction(
        ("harel",), ITSELF,
        "A window of 11 is called optimal for QNLI; Table 6 prints more for one of 7.",
        {"window 11": "harel.table6.qnli.stencil-w11-s0.2.test",
         "window 7": "harel.table6.qnli.stencil-w7-s0.2.test"},
        {"window 11, Rotten Tomatoes": "accuracy.stencil-w11-s0.2.rotten-tomatoes.test",
         "window 7, Rotten Tomatoes": "accuracy.stencil-w7-s0.2.rotten-tomatoes.test"},
    ),
    Contradiction(
        ("utpala",), ITSELF,
        "How far the author's F1 falls under DP-Prompt with ChatGPT (adaptive, embeddings).",
        {"abstract": "utpala.abstract.imdb.drop.author.adaptive",
         "section 4.2": "utpala.section4.2.imdb.drop.author.adaptive.embedding"},
        {"with SmolLM2, from T 0.75 to 1.75": "f1.fall.author.dp-prompt.adaptive.embedding"},
    ),
    Contradiction(
        ("tong", "utpala", "carpentier"), EACH_OTHER,
        "Each calls some epsilons private and others not. Mechanisms that keep half of the words "
        "take epsilons that are several times apart, so that no such number carries over.",
        {"Carpentier: eps at which Llama-3 recovers": "carpentier.figure4.knee.llm"},
        {"MADLIB": "matched.madlib.kept0.5", "CusText+": "matched.custext+.kept0.5",
         "SanText+": "matched.santext+.kept0.5"},
    ),
    Contradiction(
        ("utpala", "carpentier"), EACH_OTHER,
        "Utpala's word-level curves rest on Annoy, which Carpentier shows to be another mechanism: "
        "with the exact search words stay.",
        {"Annoy, mean over words": "carpentier.experiment2.eps43.annoy",
         "exact": "carpentier.experiment2.eps43.exact"},
        {"Annoy, eps 25": "nw.glove840b300.eps25.annoy",
         "exact, eps 25": "nw.glove840b300.eps25.exact"},
    ),
    Contradiction(
        ("harel", "carpentier"), EACH_OTHER,
        "Harel's attacker on noise may never guess the token that it sees; with the exact search "
        "that is the right guess nearly always, as Carpentier finds.",
        {"Harel: noise 150, Pr@5": "harel.table4.sst2.noise-150.pr5",
         "Carpentier: word stays, eps 43": "carpentier.experiment2.eps43.exact"},
        {"output allowed as a guess": "pr5.noise-150.rotten-tomatoes.naive",
         "output skipped": "pr5.noise-150.rotten-tomatoes.naive_skip"},
    ),
    Contradiction(
        ("tong",), CODE,
        "The detector of the K-ASR bound learns from the very sentences that are attacked, with "
        "their labels.",
        {"bound, K = 10": "tong.table1.k10.bound"},
        {"as published": f"{_P2}contextual_bound_seen",
         "other sentences": f"{_P2}contextual_bound"},
    ),
    Contradiction(
        ("harel",), CODE,
        "0.0% for the punctuated stencil is the attacker who looks at one place and skips the "
        "output; a deconvolution lies in the release, with its call commented out.",
        {"Pr@5 in the paper": "harel.table4.sst2.punctuated-stencil-w9-s1.0.pr5"},
        {"output skipped": f"{_PUNCTUATED}naive_skip", "any place": f"{_PUNCTUATED}anywhere",
         "deconvolution": f"{_PUNCTUATED}deconvolution",
         "and a language model": f"{_PUNCTUATED}deconvolution_lm"},
    ),
    Contradiction(
        ("utpala",), CODE,
        "The guarantee needs clipped logits; the released generator clips nothing. What clipping "
        "guarantees for a document:",
        {},
        {"epsilon by the paper's formula, T 0.75": "epsilon.dp-prompt-clipped.t0.75.paper",
         "tight": "epsilon.dp-prompt-clipped.t0.75.tight",
         "author F1, not clipped, strongest attacker": "f1_strongest.dp-prompt.t0.75.author",
         "clipped": "f1_strongest.dp-prompt-clipped.t0.75.author"},
    ),
    Contradiction(
        ("utpala",), CODE,
        "The library is said to cut to the 40 likeliest tokens; the one that is used cuts to 50 "
        "when it is not told otherwise.",
        {"top-k": "utpala.setting.default_top_k"}, {},
    ),
    Contradiction(
        ("carpentier",), CODE,
        "The definition says nearest word, the code that it reproduces asks Annoy.",
        {"hockey, eps 19, exact": "carpentier.table2.hockey.eps19.exact",
         "Annoy": "carpentier.table2.hockey.eps19.annoy"},
        {"exact": "table2.hockey.eps19.exact.kept", "Annoy": "table2.hockey.eps19.annoy.kept"},
    ),
    Contradiction(
        ("tong",), US,
        "The K-ASR bound bounds one attack, not the attacker, who may decode the whole sentence.",
        {"bound, K = 10": "tong.table1.k10.bound"},
        {"K-ASR bound": f"{_P6}contextual_bound",
         "noisy channel, bigrams": f"{_P6}noisy_channel",
         "noisy channel, language model": f"{_P6}noisy_channel_lm"},
    ),
    Contradiction(
        ("tong",), US,
        "Inversion BERT is the baseline to beat; one that also reads the sentence around the "
        "sanitized token is another attacker.",
        {},
        {"contextual attack, eps 2": f"{_P2}contextual_bayes",
         "context-free attack": f"{_P2}context_free_bayes",
         "Inversion BERT that reads the sentence": f"{_P2}inversion_bert"},
    ),
    Contradiction(
        ("utpala",), US,
        "An adaptive attacker is called the stronger one. The author F1 on truncated Laplace, mean "
        "over the settings:",
        {},
        {"truncated Laplace, adaptive": "f1.mean.truncated-laplace.author.adaptive.embedding",
         "static": "f1.mean.truncated-laplace.author.static.embedding"},
    ),
)  # fmt: skip


def contradictions(board: Board) -> pd.DataFrame:
    """Where papers contradict themselves, each other, their code or our measurements.

    Columns: papers, against, about, printed, measured; numbers are looked up, and what was not
    measured under this profile is left out.
    """
    stated = {claim.id: claim for claim in claims.load()}
    rows = []
    for each in CONTRADICTIONS:
        unknown = [name for name in each.printed.values() if name not in stated]
        if unknown:
            raise InvalidInput(f"contradiction: expected ids of claims, got {', '.join(unknown)}")
        measured = {
            what: _shown(board.measured[name])
            for what, name in each.measured.items()
            if name in board.measured
        }
        rows.append(
            {
                "papers": ", ".join(claims.PAPERS[paper] for paper in each.papers),
                "against": each.against,
                "about": each.about,
                "printed": _listed({what: _printed(stated[n]) for what, n in each.printed.items()}),
                "measured": _listed(measured),
            }
        )
    return pd.DataFrame(rows)


def _printed(claim: Claim) -> str:
    bound = claim.trend.at_most if claim.trend else None
    return claim.stated if bound is None else f"{bound:g}"


def _shown(found: Measurement, style: str = ".3g") -> str:
    if found.low is None or found.high is None:
        return format(found.value, style)
    low, high = format(found.low, style), format(found.high, style)
    return f"{found.value:{style}} ({low} to {high})"


def _listed(named: Mapping[str, str]) -> str:
    return "; ".join(f"{what}: {value}" for what, value in named.items())


def printed_twice() -> pd.DataFrame:
    """Numbers that a paper prints twice for one setting, further apart than their rounding.

    Columns: paper, setting, place, value, other place, other value.
    """
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
            if claim.trend and set(claim.measurements) <= set(printed):
                if not claim.trend.holds(printed):
                    shown = ", ".join(f"{printed[name]:g}" for name in claim.measurements)
                    rows.append([paper, claim.place, claim.setting, claim.stated, shown])
    return pd.DataFrame(rows, columns=["paper", "place", "setting", "stated", "printed"])


# --- Words at equal risk ------------------------------------------------------------------------


def word_points(board: Board) -> pd.DataFrame:
    """Word-level mechanisms: at every epsilon the best attack, utility, and words kept.

    Read from the plotted numbers of notebook 05 (`fig05_risk`). Columns: mechanism, epsilon,
    attack (the best), risk, risk_low, risk_high, accuracy, accuracy_low, accuracy_high, kept.
    """
    columns = ["mechanism", "epsilon", "attack", "risk", "risk_low", "risk_high"]
    columns += ["accuracy", "accuracy_low", "accuracy_high", "kept"]
    path = paths.output_directory(board.profile) / "figures" / "fig05_risk.csv"
    if "05_reconstruction_attacks" not in board.found or not path.exists():
        return pd.DataFrame(columns=columns)
    table = pd.read_csv(path)
    best = table.loc[table.groupby(["mechanism", "epsilon"], sort=False)["value"].idxmax()]
    renamed = {"value": "risk", "low": "risk_low", "high": "risk_high"}
    return best.rename(columns=renamed)[columns].reset_index(drop=True)


class Between(NamedTuple):
    """Where a curve crosses a risk: the share `weight` of the way from row `left` to the next."""

    left: int
    weight: float

    def of(self, values: Any) -> float:
        """A quantity of the curve there, interpolated."""
        return float((1 - self.weight) * values[self.left] + self.weight * values[self.left + 1])


def crossing(risk: Any, wanted: float) -> Between | None:
    """The first place along a curve at which it reaches a risk; None where it does not.

    Parameters
    ----------
    risk : (n,) along the epsilons, finite
    """
    for left, (low, high) in enumerate(pairwise(np.asarray(risk, dtype=np.float64))):
        if min(low, high) <= wanted <= max(low, high) and low != high:
            return Between(left, float((wanted - low) / (high - low)))
    return None


def tasks_at_equal_risk(points: pd.DataFrame, board: Board, risks: Sequence[float]) -> pd.DataFrame:
    """What is left of each task where the best attack on every mechanism succeeds equally often.

    The interval holds the error of the utility and that of the risk, which moves the place at
    which it is read off. Tasks: sentiment on the attacked sentences (notebook 05), and on the
    corpora of notebook 01 at the same share of words kept.

    Columns: mechanism, task, risk, epsilon, value, low, high.
    """
    elsewhere = _kept_tasks(board)
    rows = []
    for mechanism, part in points.groupby("mechanism", sort=False):
        part = part.sort_values("epsilon", ignore_index=True)
        for wanted in risks:
            at = crossing(part["risk"], wanted)
            if at is None:
                continue
            shared = {"mechanism": mechanism, "risk": wanted, "epsilon": at.of(part["epsilon"])}
            risk_error = at.of((part["risk_high"] - part["risk_low"]) / (2 * claims.Z))
            here = pd.DataFrame(
                {
                    "at": part["risk"],
                    "value": part["accuracy"],
                    "low": part["accuracy_low"],
                    "high": part["accuracy_high"],
                }
            )
            rows.append({**shared, "task": "attacked sentences", **_read_off(here, at, risk_error)})
            kept = at.of(part["kept"])
            slope = _slope(part["kept"], part["risk"], at)
            for task, curve in elsewhere.get(str(mechanism), {}).items():
                there = crossing(curve["at"], kept)
                if there is not None:
                    found = _read_off(curve, there, risk_error * slope)
                    rows.append({**shared, "task": task, **found})
    return pd.DataFrame(
        rows, columns=["mechanism", "task", "risk", "epsilon", "value", "low", "high"]
    )


_TEXTS = {"rotten-tomatoes": "sentences", "imdb": "reviews"}  # as notebook 01's figure names them


def _kept_tasks(board: Board) -> dict[str, dict[str, pd.DataFrame]]:
    """Accuracy against words kept (notebook 01), by mechanism and corpus.

    Columns: kept (the share that was matched on sentences), at (the share on these very texts,
    where the plotted numbers of notebook 01 are there), value, low, high.
    """
    rows: dict[str, dict[str, list[Any]]] = {}
    here = _kept_here(board.profile)
    pattern = r"sentiment\.(?P<task>[a-z-]+)\.(?P<mechanism>[a-z+-]+)\.kept(?P<kept>[\d.]+)"
    for found, each in board.matching(pattern):
        mechanism, task, kept = found["mechanism"], found["task"], float(found["kept"])
        at = here.get((mechanism, _TEXTS.get(task, task), kept), kept)
        row = [kept, at, each.value, each.low, each.high]
        rows.setdefault(mechanism, {}).setdefault(task, []).append(row)
    columns = ["kept", "at", "value", "low", "high"]
    return {
        mechanism: {
            task: pd.DataFrame(sorted(part), columns=columns, dtype=float)
            for task, part in tasks.items()
        }
        for mechanism, tasks in rows.items()
    }


def _kept_here(profile: str) -> dict[tuple[str, str, float], float]:
    """Share of words kept by mechanism, kind of text and nominal share."""
    path = paths.output_directory(profile) / "figures" / "fig01_sentiment.csv"
    if not path.exists():
        return {}
    table = pd.read_csv(path)
    keys = zip(table["mechanism"], table["corpus"], table["kept"], strict=True)
    return dict(zip(keys, table["kept_here"], strict=True))


def at_equal_effect(points: pd.DataFrame, board: Board) -> pd.DataFrame:
    """Every word-level mechanism at equal shares of words kept, those without an attack too.

    Who takes every output for the input names just that share, so that it is a risk, and the
    least: an attack that knows the mechanism does at least as well.

    Columns: kept (matched on sentences), mechanism, task, kept here (on the task's own texts),
    value, low, high, attacked (whether `points` have it).
    """
    attacked = set(points["mechanism"])
    rows = [
        {
            "kept": row.kept,
            "mechanism": mechanism,
            "task": task,
            "kept here": row.at,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "attacked": mechanism in attacked,
        }
        for mechanism, tasks in _kept_tasks(board).items()
        for task, curve in tasks.items()
        for row in curve.itertuples()
    ]
    columns = ["kept", "mechanism", "task", "kept here", "value", "low", "high", "attacked"]
    return pd.DataFrame(rows, columns=columns)


def _slope(values: pd.Series[float], along: pd.Series[float], at: Between) -> float:
    """By how much `values` change per unit of `along` around a place, without sign."""
    here = slice(at.left, at.left + 2)
    return float(abs(np.diff(values[here])[0] / np.diff(along[here])[0]))


def _read_off(curve: pd.DataFrame, at: Between, error: float) -> dict[str, float]:
    """Value and interval at a place that is itself known up to a standard error.

    The two neighbours were measured on the same texts, so their errors add up in full.
    """
    value = at.of(curve["value"])
    own = at.of((curve["high"] - curve["low"]) / (2 * claims.Z))
    reach = claims.Z * math.hypot(own, error * _slope(curve["value"], curve["at"], at))
    return {"value": value, "low": max(0.0, value - reach), "high": min(1.0, value + reach)}


def attacks_at_equal_risk(points: pd.DataFrame, board: Board, risk: float) -> pd.DataFrame:
    """Every attack's success at the epsilon at which the best one reaches a risk.

    Where an attack was not run on the sentences of the best one's curve, it is taken from the
    larger experiment of notebook 05, which counts those words that the mechanism may replace.
    All are interpolated between the epsilons at which they were run.

    Columns: mechanism, attack, epsilon, value, low, high, apart (epsilons between the two that
    it was interpolated from), same (whether on the sentences of the best one's curve).
    """
    curves = _attack_curves(board)
    rows = []
    for mechanism, part in points.groupby("mechanism", sort=False):
        part = part.sort_values("epsilon", ignore_index=True)
        at = crossing(part["risk"], risk)
        if at is None:
            continue
        epsilon = at.of(part["epsilon"])
        for attack, curve in curves.get(str(mechanism), {}).items():
            there = crossing(curve["epsilon"], epsilon)
            if there is not None:
                found = {name: there.of(curve[name]) for name in ("value", "low", "high")}
                apart = float(np.diff(curve["epsilon"][there.left : there.left + 2])[0])
                row = {"mechanism": mechanism, "attack": attack, "epsilon": epsilon}
                same = bool(curve["same"].all())
                rows.append({**row, **found, "apart": apart, "same": same})
    columns = ["mechanism", "attack", "epsilon", "value", "low", "high", "apart", "same"]
    return pd.DataFrame(rows, columns=columns)


def _attack_curves(board: Board) -> dict[str, dict[str, pd.DataFrame]]:
    """Success against epsilon, by mechanism and attack: notebook 05's, on its first corpus.

    All of a curve is from one experiment; column `same` says whether from the best attack's.
    """
    named = (
        r"risk\.(?P<mechanism>[a-z+-]+)\.eps(?P<eps>[\d.]+)\.(?P<attack>[a-z_]+)",
        rf"asr\.(?P<mechanism>[a-z+-]+)\.{_CORPUS}\.eps(?P<eps>[\d.]+)\.(?P<attack>[a-z_]+)",
        rf"paired\.(?P<mechanism>[a-z+-]+)\.{_CORPUS}\.eps(?P<eps>[\d.]+)\.(?P<attack>[a-z_]+)",
    )
    curves: dict[str, dict[str, pd.DataFrame]] = {}
    for pattern in named:
        rows: dict[tuple[str, str], list[list[float]]] = {}
        for found, each in board.matching(pattern):
            mechanism = _DEFENSES.get(found["mechanism"], found["mechanism"])
            low = each.value if each.low is None else each.low
            high = each.value if each.high is None else each.high
            row = [float(found["eps"]), each.value, low, high]
            rows.setdefault((mechanism, found["attack"].replace("_", "-")), []).append(row)
        for (mechanism, attack), curve in rows.items():
            table = pd.DataFrame(sorted(curve), columns=["epsilon", "value", "low", "high"])
            own = curves.setdefault(mechanism, {})
            own.setdefault(attack, table.assign(same=pattern == named[0]))  # the first counts
    return curves


# --- Where risk is measured otherwise -----------------------------------------------------------


def manipulated_tokens(board: Board) -> pd.DataFrame:
    """Maps, stencils and noise of notebook 03: the strongest attack and the accuracy left.

    Columns: corpus, mapper, mechanism, attack, risk, risk_low, risk_high, value, low, high. Risk
    is the share of tokens that the strongest attack names at its first guess.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    pattern = r"pr1\.(?P<mapper>.+)\.(?P<corpus>[a-z0-9-]+)\.(?P<attack>[a-z_]+)"
    for found, each in board.matching(pattern):
        key = found["corpus"], found["mapper"]
        accuracy = board.measured.get(f"accuracy.{found['mapper']}.{found['corpus']}.all")
        if accuracy is None or each.value <= rows.get(key, {"risk": -1.0})["risk"]:
            continue
        mechanism = re.split(r"-(?:w\d|\d{2})", found["mapper"])[0]
        rows[key] = {
            "corpus": found["corpus"],
            "mapper": found["mapper"],
            "mechanism": mechanism,
            "attack": found["attack"].replace("_", "-"),
            "risk": each.value,
            "risk_low": each.low,
            "risk_high": each.high,
            "value": accuracy.value,
            "low": accuracy.low,
            "high": accuracy.high,
        }
    columns = ["corpus", "mapper", "mechanism", "attack", "risk", "risk_low", "risk_high"]
    return pd.DataFrame(list(rows.values()), columns=[*columns, "value", "low", "high"])


def authors(board: Board) -> pd.DataFrame:
    """Best sentiment F1 of notebook 04 where the strongest attacker's author F1 is the same.

    Columns: mechanism, risk, value, low, high.
    """
    found = board.matching(r"f1_at_risk\.(?P<risk>0\.\d+)\.(?P<mechanism>.+)")
    rows = [
        [name["mechanism"], float(name["risk"]), each.value, each.low, each.high]
        for name, each in found
    ]
    return pd.DataFrame(rows, columns=["mechanism", "risk", "value", "low", "high"])


def summaries(board: Board) -> pd.DataFrame:
    """Notebook 06: similarity that summaries lose, against tokens that stay.

    Columns: model ("small" or "large"), epsilon, kept, value, low, high.
    """
    models = {"slm": "small", "llm": "large"}
    rows = []
    for name, each in board.matching(r"loss\.(?P<model>slm|llm)\.eps(?P<eps>[\d.]+)"):
        changed = board.measured.get(f"loss.changed.eps{name['eps']}")
        if changed is not None:
            row = [models[name["model"]], float(name["eps"]), 1 - changed.value]
            rows.append([*row, each.value, each.low, each.high])
    columns = ["model", "epsilon", "kept", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values(
        ["model", "epsilon"], ascending=[False, True], ignore_index=True
    )


def missing_measures(points: pd.DataFrame, tasks: pd.DataFrame, board: Board) -> list[str]:
    """What the comparison at equal risk lacks under this profile, in sentences."""
    found = [
        f"Notebook {name[:2]} has left no results ({why})." for name, why in board.missing.items()
    ]
    unread = sorted(set(points["mechanism"]) - set(tasks["mechanism"]))
    if unread:
        found.append(f"No common risk lies between the epsilons of {', '.join(unread)}.")
    if points.empty:
        found.append("There are no word-level mechanisms with attacks and a task on the same text.")
    for what, table in (
        ("manipulated tokens (notebook 03)", manipulated_tokens(board)),
        ("authors at equal risk (notebook 04)", authors(board)),
        ("summaries (notebook 06)", summaries(board)),
    ):
        if table.empty:
            found.append(f"There is nothing on {what}.")
    return found


# --- Did we break it? ---------------------------------------------------------------------------


def audits(path: Path | None = None) -> list[Audit] | None:
    """The audits that `make audit` has left; None when it has not run here."""
    path = path or paths.REPOSITORY / AUDITS
    return read_audits(path) if path.exists() else None


def audited(found: Sequence[Audit] | None) -> pd.DataFrame:
    """The table of `privacy.audit_table`; a single sentence when there are no audits."""
    if found:
        return audit_table(found)
    return pd.DataFrame({"note": ["No audits are kept here: run make audit, then this again."]})


def caught(path: Path | None = None) -> str:
    """How many mechanisms that were made wrong on purpose the audits have caught, in a sentence."""
    path = path or paths.REPOSITORY / AUDITS
    kept = _kept(path) if path.exists() else {}
    if not kept.get("mutants_tried"):
        return ""
    wrong, of = kept["mutants_caught"], kept["mutants_tried"]
    return f"Of {of} mechanisms that were made wrong on purpose the same audits catch {wrong}."


def statements(path: Path | None = None) -> pd.DataFrame:
    """What each guarantee means for one text, as `make audit` has left it.

    Columns: mechanism, setting, nominal and tight (epsilon of the whole text; NaN: not known),
    success (of the best attack that was measured), said (all of it in sentences).

    Raises
    ------
    InvalidInput : the file holds something else
    """
    path = path or paths.REPOSITORY / STATEMENTS
    if not path.exists():
        return pd.DataFrame({"note": ["No statements are kept here: run make audit."]})
    kept = _kept(path)
    try:
        return pd.DataFrame(
            [
                {
                    "mechanism": row["mechanism"],
                    "setting": row["setting"],
                    "nominal": float(row["nominal"]),  # infinity and NaN are kept as words
                    "tight": float(row["tight"]),
                    "success": (row["attacked"] or {"success": {"value": np.nan}})["success"][
                        "value"
                    ],
                    "said": row["said"],
                }
                for row in kept["statements"]
            ]
        )
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidInput(f"{path.name}: expected statements of make audit: {error!r}") from error


def _kept(path: Path) -> dict[str, Any]:
    """What `make audit` has written into a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInput(f"{path.name}: expected JSON, got {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path.name}: expected a table, got {type(found).__name__}")
    return found


# --- Records ------------------------------------------------------------------------------------


def record(
    run: Run,
    table: pd.DataFrame,
    stated: Sequence[Judgement],
    tasks: pd.DataFrame,
    effect: pd.DataFrame,
    found: Sequence[Audit] | None,
) -> None:
    """Keep what notebook 07 says: counts of outcomes, utility at equal risk or effect, audits."""
    for name, number in Findings.of(stated)._asdict().items():
        run.record(f"claims.findings.{name}", float(number), unit="statements")
    for paper, row in counts(table, "paper").iterrows():
        for outcome, number in row.items():
            name = re.sub(r"[^a-z]+", "_", str(outcome))
            run.record(f"claims.{paper}.{name}", float(number), unit="claims")
    for row in tasks.itertuples():
        task = str(row.task).replace(" ", "_")
        name = f"equal_risk.{row.risk:g}.{row.mechanism}.{task}"
        run.record(name, row.value, row.low, row.high)
    for row in effect.itertuples():
        name = f"equal_effect.kept{row.kept:g}.{row.mechanism}.{row.task}"
        run.record(name, row.value, row.low, row.high)
    for name, (value, unit) in audit_numbers(found or []).items():
        if math.isfinite(value):
            run.record(name, value, unit=unit)


# --- Sentences ----------------------------------------------------------------------------------


def ends(tasks: pd.DataFrame, risk: float) -> str:
    """Between which accuracies the mechanisms lie at one risk, and whether they differ.

    Parameters
    ----------
    tasks : rows of `tasks_at_equal_risk` of one task and one risk
    """
    if len(tasks) < 2:
        return "No two mechanisms share a risk under this profile."
    ordered = tasks.sort_values("value")
    worst, best = (
        Measurement(name=row.mechanism, value=row.value, low=row.low, high=row.high)
        for row in (next(ordered.itertuples()), next(ordered[::-1].itertuples()))
    )
    pairs = math.comb(len(ordered), 2)  # the two were chosen for lying farthest apart
    certain = Difference.between(best, worst).p * pairs < LEVEL
    differ = "they differ" if certain else "undecided at this size"
    return (
        f"Where the better of these two attacks recovers {risk:.0%} of the content words, the "
        f"accuracy goes from {_shown(worst, '.2f')} ({label(worst.name)}) to "
        f"{_shown(best, '.2f')} ({label(best.name)}): {differ}."
    )


def least_read(board: Board, tokens: pd.DataFrame) -> str:
    """What the token mechanism that the attacks read back least costs a classifier, in sentences.

    Of those alone on which an attack was run that does more than look for the nearest tokens.

    Parameters
    ----------
    tokens : of `manipulated_tokens`
    """
    pattern = r"pr1\.(?P<mapper>.+)\.[a-z0-9-]+\.(?!naive|anywhere)[a-z_]+"
    attacked = {found["mapper"] for found, _ in board.matching(pattern)}
    hidden = tokens[(tokens["mechanism"] != "plain") & tokens["mapper"].isin(attacked)]
    if hidden.empty:
        return ""
    row = hidden.sort_values("risk").iloc[0]
    names = [f"accuracy.{mapper}.{row['corpus']}.all" for mapper in ("plain", row["mapper"])]
    plain = board.told(names[0])
    lost = board.says(
        *names,
        above="a loss beyond the error",
        below="more, beyond the error",
    )
    return (
        f"Of the token mechanisms {row['mapper']} is read back least by the best of the attacks "
        f"that were run on it ({row['risk']:.0%} of the tokens, {label(row['attack'])}); its "
        f"accuracy is {row['value']:.2f}, on plain text {plain}: {lost}."
    )


def guarantees(found: Sequence[Audit] | None) -> str:
    """How many audits there are, and which claims they broke."""
    if not found:
        return "No audits are kept here: run `make audit`."
    broken = told(audit.mechanism for audit in found if audit.verdict == "broken")
    return f"{len(found)} audits; broken claims: {broken}. {caught()}"


def told(names: Iterable[str]) -> str:
    """Things in a sentence: "a, b and c"; "none" without any."""
    known = list(names)
    if len(known) < 2:
        return known[0] if known else "none"
    return f"{', '.join(known[:-1])} and {known[-1]}"
