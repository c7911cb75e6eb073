"""Notebook 07: claims are complete, and what is read off lies where it should."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import results_of
from matplotlib import pyplot as plt
from test_claims import claim, trend

from textpriv import paths, profiles
from textpriv.experiments import scoreboard
from textpriv.experiments import scoreboard_advice as advice
from textpriv.experiments import scoreboard_figures as figures
from textpriv.experiments import scoreboard_findings as findings
from textpriv.experiments import scoreboard_headline as first
from textpriv.experiments.equal_utility_findings import said_of_pairs
from textpriv.experiments.scoreboard import Sizes, crossing
from textpriv.mechanisms import registry
from textpriv.privacy import Audit, write_audits
from textpriv.report import board as boards
from textpriv.report import claims, results
from textpriv.report.board import Board, gather
from textpriv.report.claims import Claim
from textpriv.report.difference import Finding
from textpriv.report.figures import style, use_style
from textpriv.report.results import Measurement, measure
from textpriv.report.run import Run
from textpriv.report.verdicts import judge

Z = 1.96


@pytest.fixture(autouse=True)
def _close() -> Any:
    use_style()  # as a notebook does first
    yield
    plt.close("all")


def board(*measurements: Measurement, notebook: str = "05_reconstruction_attacks") -> Board:
    return Board("default", {notebook: results_of(notebook, measurements)}, {})


def rate(name: str, value: float, error: float = 0.0) -> Measurement:
    """A share of a hundred with its standard error."""
    return measure(name, value, value - Z * error, value + Z * error, n=100)


def recorded(
    quantity: str, value: float, reach: float | None = None, n: int = 100, **columns: Any
) -> Measurement:
    """A row of a table as a notebook records it, with an interval that reaches so far."""
    ends = {} if reach is None else {"low": value - reach, "high": value + reach}
    parts = (re.sub("[ ,]+", "_", str(each).lower()) for each in columns.values())
    name = ".".join([quantity, *parts])
    measurement = measure(name, value, **ends, n=n, unit="difference")
    return measurement.model_copy(update={"columns": columns})


def several(names: str, *rows: Any, reach: float = 0.02, **same: Any) -> list[Measurement]:
    """Rows of a quantity: the value, and then the columns of which `names` has the names."""
    quantity, *columns = names.split()
    named = [(value, dict(zip(columns, others, strict=True))) for value, *others in rows]
    return [recorded(quantity, value, reach, **each, **same) for value, each in named]


def of_token(label: str, attack: str, value: float, corpus: str = "imdb") -> Measurement:
    """What an attack of notebook 03 recovers under a mechanism on tokens."""
    return recorded("pr1", value, 0.0, label=label, corpus=corpus, attack=attack)


def accuracy(label: str, value: float, corpus: str = "imdb", scenario: str = "all") -> Measurement:
    """What a classifier of notebook 03 reads under it, with an error of 0.01."""
    return recorded("accuracy", value, Z * 0.01, label=label, corpus=corpus, scenario=scenario)


def attacked(label: str, attack: str, risk: float, value: float, corpus: str = "imdb") -> Any:
    """Both of a mechanism: what this attack recovers, and the accuracy."""
    return [of_token(label, attack, risk, corpus), accuracy(label, value, corpus)]


def points(*rows: tuple[float, float, float, float]) -> pd.DataFrame:
    """Rows of (epsilon, risk, accuracy, kept), with errors of 0.01 and 0.02."""
    table = pd.DataFrame(rows, columns=["epsilon", "risk", "value", "kept"])
    return table.assign(
        risk_low=table["risk"] - Z * 0.01,
        risk_high=table["risk"] + Z * 0.01,
        low=table["value"] - Z * 0.02,
        high=table["value"] + Z * 0.02,
    )


# How many numbers the papers print in their tables, as far as the text has kept them, and a digest
# of them: a number that changes must be noticed, and looked up in the paper before the digest is.
TABLES = {
    ("tong", "Table 1"): (10, "83348b567fc7"),
    ("tong", "Table 2"): (8, "202715725e4f"),
    ("harel", "Table 1"): (30, "3efbb46ff399"),
    ("harel", "Table 3"): (18, "d9ff65726e73"),
    ("harel", "Table 4"): (42, "5b9cd2710f46"),
    ("harel", "Table 5"): (78, "3974f0b52b05"),
    ("harel", "Table 6"): (78, "d802fa446557"),
    ("utpala", "Table 2"): (81, "5ff587afd39f"),  # one of them not clipped
    ("utpala", "Table 3"): (80, "1dbe2323f694"),
    ("utpala", "Table 4"): (10, "ea0de4ace86f"),
    ("utpala", "Table 5"): (70, "7ff508d1c72d"),
    ("carpentier", "Table 1"): (8, "1fc88fe14f87"),
    ("carpentier", "Table 2"): (71, "d995db17c160"),  # 24 originals and 47 replacements
}


def numbers() -> list[Claim]:
    return [claim for claim in claims.load() if claim.value is not None]


@pytest.mark.parametrize(("paper", "place"), TABLES)
def test_every_cell_of_every_table_is_a_claim(paper: str, place: str) -> None:
    cells = [
        claim
        for claim in numbers()
        if (claim.paper, claim.place) == (paper, place) and ".setting." not in claim.id
    ]
    rows = sorted(f"{claim.id},{claim.value},{claim.rounding}" for claim in cells)
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12]
    assert (len(cells), digest) == TABLES[paper, place]


def test_every_claim_says_where_and_no_set_up_is_compared() -> None:
    for each in claims.load():
        assert each.place.strip() and each.setting.strip(), each.id
        assert each.notebook in boards.NOTEBOOKS, each.id
        if ".setting." in each.id:
            assert each.compared == "never", each.id


def test_no_number_is_printed_finer_than_its_rounding() -> None:
    for each in numbers():
        if each.id == "tong.figure4.agnews.embedding_inversion_to_inversion_bert":
            continue  # "approximately one-third"
        steps = (each.value or 0) / (each.rounding or 1)
        assert math.isclose(steps, round(steps), abs_tol=1e-6), each.id


EXAMPLES = [
    trend("greater", "a.high", "a.low", id="tong.same"),
    trend("greater", "a.high", "a.close", id="tong.within"),
    trend("greater", "a.high", "a.same", id="tong.tie", tie="one map"),
    trend("greater", "a.close", "a.high", id="tong.open"),
    trend("greater", "a.low", "a.high", id="tong.differs"),
    trend("greater", "a.high", "a.absent", id="tong.missing"),
    claim(measurement="a.high", id="tong.match"),
    claim(measurement="a.high", id="tong.other", compared="never", reason="another corpus"),
]
OURS = (
    rate("a.high", 0.5, 0.01),
    rate("a.same", 0.5, 0.01),
    rate("a.close", 0.49, 0.01),
    rate("a.low", 0.2, 0.01),
)


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "load", lambda: EXAMPLES)


def test_statements_are_shown_with_their_verdicts(examples: None) -> None:
    judgements = judge(board(*OURS).by_notebook)
    table = scoreboard.judged(judgements)
    assert table["verdict"].tolist() == [
        "confirmed", "leans towards the paper", "tie", "leans against the paper", "contradicted",
    ]  # fmt: skip
    assert table["cells"].tolist() == [1] * 5 and set(table["paper"]) == {"tong"}
    counted = scoreboard.counts_of_findings(judgements)
    assert counted.loc["tong"].to_dict() == dict.fromkeys(scoreboard.COMPARED, 1) | {"match": 0}
    assert counted.loc["harel"].sum() == 0


def test_smoke_and_missing_notebooks_are_not_compared(examples: None) -> None:
    smoke = Board("smoke", board(*OURS).results, {})
    nothing = Board("default", {}, {"05_reconstruction_attacks": "run it"})
    for each in (smoke, nothing):
        judgements = judge(each.by_notebook, each.profile)
        assert scoreboard.judged(judgements).empty
        assert scoreboard.counts_of_findings(judgements).to_numpy().sum() == 0
    assert scoreboard.sources(nothing)["commit"].tolist() == ["run it"]
    row = scoreboard.sources(board(*OURS)).iloc[0]
    assert (row["commit"], row["minutes"]) == ("0123456 and changes", 1.5)


def test_rows_are_selected_by_the_columns_that_they_were_recorded_with() -> None:
    run = Run("05_reconstruction_attacks", "smoke", 7, {})
    table = pd.DataFrame({"defense": "custext", "corpus": ["imdb", "ag-news"], "epsilon": 2.5,
                          "attack": "noisy_channel", "value": [0.5, 0.25]})  # fmt: skip
    run.record_rows(table, "asr.{defense}.{corpus}.eps{epsilon:g}.{attack!n}")
    names = [f"asr.custext.{corpus}.eps2.5.noisy_channel" for corpus in table["corpus"]]
    made = board(*(run.measurement(name) for name in names))
    rows = made.rows("asr", "attack", "epsilon", defense="custext", corpus="imdb")
    assert rows[["attack", "epsilon", "value"]].to_numpy().tolist() == [["noisy-channel", 2.5, 0.5]]
    assert made.rows("asr", "absent").empty and made.rows("risk", "epsilon").empty
    assert made.rows("asr", epsilon=2.5)["value"].tolist() == [0.5, 0.25]


def test_gather_takes_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    written = results_of("01_mechanisms", [measure("a.b", 0.5)], "smoke")
    results.write(written, results.file("01_mechanisms", "smoke"))
    made = gather("smoke")
    assert list(made.results) == ["01_mechanisms"]
    assert list(made.missing) == list(boards.NOTEBOOKS[1:])
    assert "./run_all.sh --profile smoke --only 02" in made.missing["02_ann_vs_exact"]
    assert list(made.measured) == ["a.b"]  # not what the run cost


def test_what_a_sentence_says() -> None:
    made = board(*OURS)
    assert made.told("a.high", 1) == "0.5 (0.5 to 0.5)"
    assert made.told("a.absent") == "(not measured here)"
    answers = {"above": "larger", "below": "smaller"}
    assert made.says("a.high", "a.low", **answers) == "larger"
    assert made.says("a.low", "a.high", **answers) == "smaller"
    assert made.says("a.high", "a.close", **answers) == "undecided at this size"
    assert "not measured" in made.says("a.high", "a.absent", **answers)
    # With errors of 0.03 each: p 0.0067 and 0.0058, which eight tests make 0.053 and 0.046.
    for one, expected in ((0.615, "undecided at this size"), (0.617, "larger")):
        near = board(rate("a.one", one, 0.03), rate("a.other", 0.5, 0.03))
        assert near.says("a.one", "a.other", **answers) == expected


def at(*rows: tuple[str, float, float], risk: float = 0.5) -> pd.DataFrame:
    """Rows of (mechanism, accuracy, its error), at one risk."""
    columns = ["mechanism", "value", "low", "high"]
    table = pd.DataFrame([[m, v, v - Z * e, v + Z * e] for m, v, e in rows], columns=columns)
    return table.assign(risk=risk, epsilon=1.0)


def at_risk(first: str, second: str, value: float, p: float) -> Measurement:
    """A paired test of the accuracies under two mechanisms, as notebook 09 records it."""
    return recorded("left", value, 0.02, risk=0.5, first=first, second=second, p=p)


def test_mechanisms_at_equal_risk_differ_only_by_a_test() -> None:
    two = at(("tem", 0.7, 0.03), ("madlib", 0.6, 0.03))
    pairs = scoreboard.left_at_risk(board(at_risk("madlib", "tem", -0.1, 0.04)))
    title, said, _ = findings.at_equal_risk(two, pairs)
    assert "1 of the 1 pairs differ" in title and "in favour of TEM (each of 1). " in said
    title, said, _ = findings.at_equal_risk(two, pairs.assign(p=0.06))
    assert "no mechanism is shown" in title and "of the 1 pairs that were compared none" in said
    assert findings.at_equal_risk(two[:1], pairs).title.startswith("No two mechanisms share")


def test_leaders_are_those_whom_no_test_sets_below_the_best() -> None:
    """0.1 apart with errors of 0.03 each: p 0.018, which three pairs make 0.055."""
    three = at(("tem", 0.7, 0.03), ("santext", 0.65, 0.03), ("madlib", 0.6, 0.03))
    assert advice.leaders(three.drop(1)) == ["tem"]
    assert advice.leaders(three) == ["tem", "santext", "madlib"]
    tests = [at_risk("madlib", "tem", -0.1, 0.04), at_risk("tem", "santext", 0.05, 0.06),
             at_risk("madlib", "santext", 0.05, 0.01)]  # fmt: skip
    pairs = scoreboard.left_at_risk(board(*tests))
    assert advice.leaders(three, pairs) == ["tem", "santext"]  # in pairs


def equal(pair: str, utility: str = "meaning", measured: str = "equal") -> Measurement:
    """A paired test of risks at equal utility: less is read back under a in `a < b`; `a ~ b`."""
    first, sign, second = pair.split()
    value, p = {"<": (-0.05, 0.04), ">": (0.05, 0.04), "~": (0.05, 0.06)}[sign]
    about = {"utility": utility, "quarter": 2, "level": 0.7, "first": first, "second": second}
    return recorded(measured, value, 0.02, **about, p=p)


PAIRS = ["clusant < tem", "madlib > clusant", "clusant > santext+", "rantext ~ tem",
         "clusant > rantext"]  # fmt: skip
BESIDE_RANDOM = ["clusant < randomized-response", "randomized-response < tem"]


def test_pairs_at_equal_utility_are_decided_by_their_corrected_p() -> None:
    table = scoreboard.equal_utility(board(*map(equal, PAIRS), equal("clusant ~ tem", "accuracy")))
    less = ["clusant", "clusant", "santext+", None, "rantext", None]
    assert table["less"].tolist() == less and scoreboard.equal_utility(board()).empty
    said = findings.protects(table).text  # a newer mechanism beside an older one
    assert "CluSanT in 2 of 3 comparisons (more in 1), under RANTEXT in 0 of 1" in said
    assert "accuracy of sentiment 0 of 1" in said and "4 of 5 pairs" in said_of_pairs(table)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (PAIRS, "win some comparisons and lose some"),
        (PAIRS[:1], "win some comparisons and are shown to lose none"),
        (["rantext ~ tem"], "are shown to win no comparisons and are"),
        *((none, "No newer") for none in (["tem ~ madlib"], BESIDE_RANDOM, [])),
    ],
)
def test_newer_mechanisms_win_by_tests(pairs: list[str], said: str) -> None:
    table = scoreboard.equal_utility(board(*map(equal, pairs)))
    assert said in findings.protects(table).title


def test_mechanisms_are_counted_beside_both_baselines() -> None:
    def against_both(*rows: Measurement) -> Finding:
        made = board(*map(equal, (*BESIDE_RANDOM, "tem > left-out")), *rows)
        return findings.against_both(made, scoreboard.equal_utility(made))

    title, said, details = against_both()
    assert title.endswith(": 1 of 1 at equal meaning, none was compared at equal accuracy")
    assert "1 of 2 at equal meaning (less: 1), none" in said and "language model" not in details
    accuracy = [equal(each, "accuracy")
                for each in ("tem > left-out", "clusant ~ randomized-response")]  # fmt: skip
    spoken = [equal(each, "meaning", scoreboard.WITH_MODEL)
              for each in ("tem > left-out", "madlib ~ left-out")]  # fmt: skip
    added = recorded("model_adds", 0.02, n=870, mechanism="tem", beside="usual")
    title, said, details = against_both(*accuracy, *spoken, added)
    assert title.endswith("1 of 1 at equal accuracy") and "0 of 1 at equal accuracy (und" in said
    assert "(870 words)" in details and "under 1 of 2 at equal meaning (undecided: 1)" in details
    random = equal("tem ~ randomized-response", "meaning", scoreboard.WITH_MODEL)
    said = against_both(*accuracy, *spoken, added, random).text
    assert "; with a small language model 0 of 1 at equal meaning (undecided: 1). Meaning" in said


def test_mechanisms_are_told_beside_scissors() -> None:
    rows = several(
        "f1_over_left-out mechanism p",
        (-0.02, "madlib", 0.04), (0.01, "tem-300d", 1.0), (0.1, "dp-prompt-clipped", 0.06),
        (0.2, "dp-prompt-top-k40", 0.02), (-0.5, "truncated-laplace", 0.001), risk=0.2,
    )  # fmt: skip
    said = findings.beside_scissors(board(*rows))  # the last two are of neither family
    assert "-0.02 to +0.01 under mechanisms on words, +0.10 to +0.10 under DP-Prompt" in said
    assert said.endswith("(significant: 1 of 3).")
    assert "DP-Prompt" not in findings.beside_scissors(board(*rows[:2]))
    assert findings.beside_scissors(board(rows[4])) == findings.beside_scissors(board()) == ""


def test_replacements_are_told_beside_random_words() -> None:
    rows = several(
        "beside_random mechanism p corpus kept reader",
        (-0.1, "tem", 0.001, "s", 0.5, "better"), (0.1, "vickrey", 0.04, "s", 0.5, "better"),
        (0.1, "madlib", 0.06, "s", 0.5, "better"), (0.1, "tem", 0.001, "s", 0.5, "words"),
        (0.1, "tem", 0.001, "s", 0.7, "better"), (-0.1, "tem", 0.06, "r", 0.5, "better"),
    )  # fmt: skip
    title, said, _ = findings.near_words(board(*rows))
    assert title.endswith("under 1 of 3 mechanisms")
    assert "more under 1 (Vickrey), less under 1; on r no difference" in said
    assert "not compared" in findings.near_words(board()).title


def test_attacks_on_whole_sentences_are_compared_by_tests() -> None:
    pair, clothes = "paired.custext.rotten-tomatoes.eps6.", "misaligned.eps6."
    values = {pair + "noisy_channel": 0.62, pair + "context_free_bound": 0.53,
              clothes + "noisy_channel.misaligned": 0.54, clothes + "context_free_bayes": 0.55,
              clothes + "context_free_bayes.misaligned": 0.46}  # fmt: skip
    measured, close = (
        board(*(rate(name, value, 0.01) for name, value in (values | changes).items()))
        for changes in ({}, {pair + "noisy_channel": 0.54})
    )
    title, said, details = findings.context(measured)
    assert "beats the best guess" in title and "recovers 62% (60 to 64)" in said
    assert "of films significantly more and of other clothes reviews not sig" in details
    assert "is not shown to beat" in findings.context(close).title and "trained less" in details
    assert "trained less" not in findings.context(replace(measured, profile="paper")).details


@pytest.fixture
def chosen() -> pd.DataFrame:
    """Settings of the first figure: a gap of 25 words in a hundred, and none."""
    rows = [("custext+", 1.0, 0.10, 0.5), ("custext+", 4.0, 0.30, 0.55), ("madlib", 13.0, 0.4, 0.4),
            ("tem", 2.4, 0.34, 0.9)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["mechanism", "epsilon", "kept", "risk"])
    table = table.assign(value=0.7, low=0.6, high=0.8, n=100, attack="noisy-channel", risk_low=0.3,
                         risk_high=0.9, p=[0.5, 0.02, 0.9, 1e-4])  # fmt: skip
    return first.settings(table)


def test_a_setting_of_the_first_figure_keeps_about_a_third_of_the_words(
    chosen: pd.DataFrame,
) -> None:
    assert chosen[["mechanism", "epsilon", "value", "low"]].to_numpy().tolist() == [
        ["custext+", 4.0, 0.55, 0.3], ["madlib", 13.0, 0.4, 0.3],
    ]  # fmt: skip
    assert "under CusText+ (30→55)" in first.headline(chosen).text
    assert first.headline(chosen[:0]).title == "Not measured under this profile"


SMALL: dict[str, Any] = {"kept": [0.3, 0.387], "p": 1e-4}
WIDER: dict[str, Any] = {"kept": [0.1, 0.3], "value": [0.6, 0.55]}


@pytest.mark.parametrize(
    ("changes", "wide", "said"),
    [
        ({}, 1, "Under MADLIB (40→40) the two differ by 0.0 or less, not significantly."),
        (SMALL, 1, "(39→40) significantly more are recovered too, but by 1.3 of 100 at most."),
        (SMALL | {"attack": first.COUNTED}, 1, "(MADLIB: given the private texts' own word c"),
        ({"p": 0.03}, 0, ""),  # which would be enough for one setting
        (WIDER | {"p": [0.2, 0.001]}, 1, ""),  # a wider gap that chance may explain
        (WIDER | {"p": 1e-4}, 2, ""),
    ],
)
def test_the_first_title_counts_wide_gaps_that_tests_show(
    chosen: pd.DataFrame, changes: dict[str, Any], wide: int, said: str
) -> None:
    finding = first.headline(chosen.assign(**changes))
    counted = f"under {wide} of 2 mechanisms an attacker\nrecovers at least 25 more of 100"
    assert (counted if wide else "recovers hardly more") in finding.title
    assert said in finding.text


def test_whether_a_sanitizer_is_enough_is_said_where_texts_are_as_useful() -> None:
    def alone(*rows: tuple[float, str], clear: Sequence[Measurement] = ()) -> str:
        return first.alone(board(*several("read mechanism", *rows, reach=0.08), *clear))

    said = alone((0.63, "tem"), (0.3, "custext+"), clear=[measure("accuracy.clear", 0.75)])
    assert "original text: 75%" in said and "from 30% (22 to 38) under CusText+ to 63% (" in said
    said = alone((0.63, "tem"), (0.4, "left-out"))
    assert "guessing: 50%" in said and "lower limit" not in said
    assert said.endswith("sent unchanged: 40% (32 to 48).")
    assert "under MADLIB, attacked with estimated probabilities" in alone((0.3, "madlib"))
    assert "stronger ones may recover more" in alone((0.01, "tem"))
    assert alone((0.4, "left-out")) == alone() == ""


def test_mechanisms_that_leave_more_than_is_asked_for_are_told_beside_the_others() -> None:
    read = pd.DataFrame({"mechanism": ["tem"]})
    curve = points((1, 0.4, 0.6, 0.3), (2, 0.6, 0.8, 0.5))
    more = points((1, 0.5, 0.71, 0.3), (2, 0.7, 0.75, 0.5)).assign(mechanism="custext+")
    measured = pd.concat([curve.assign(mechanism="tem"), more])
    said = first._set_so(read, measured)
    assert said.startswith("1 of 2 mechanisms can") and "and 50% to 50% at least" in said
    less = more.assign(value=0.69)
    assert first._set_so(read, less) == "1 of 2 mechanisms can be set so"
    assert first._set_so(read, curve.assign(mechanism="left-out")).startswith("1 of 1 mechanisms")


def test_whole_texts_stand_by_their_strongest_linkage_and_with_their_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linked = several(
        "linked mechanism attack candidates",
        (0.2, "DP-MLM", "words", 200), (0.3, "DP-MLM", "vectors", 200),
        (0.9, "DP-Prompt", "words", 200), (0.05, "DP-Prompt, short", "words", 33),
        (0.95, "redaction alone", "words", 200), reach=0.05,
    )  # fmt: skip
    played = several("game mechanism", (1.58, "DP-MLM"), (0.0, "truncated Laplace"))
    games = [["DP-MLM", 1.58, 1.0, 1600], ["DP-MLM", 0.2, 0.6, 1800],  # the more that is shown
             ["truncated Laplace", 0.0, 0.5, 400]]  # fmt: skip
    plotted = pd.DataFrame(games, columns=["mechanism", "shown", "right", "claimed"])
    monkeypatch.setattr(scoreboard, "_plotted", lambda *_: plotted)
    table = scoreboard.whole_texts(board(*linked, *played, notebook="08_whole_texts"))
    tools = ["DP-Prompt, short", "DP-MLM", "DP-Prompt", "redaction alone", "truncated Laplace"]
    assert table["mechanism"].tolist() == tools  # the next two write, among 200
    columns = ["linked", "attack", "shown", "right", "claimed"]
    assert table.loc[1, columns].tolist() == [0.3, "vectors", 1.58, 1.0, 1600]
    assert math.isnan(table["linked"].iloc[4])
    said = findings.rewritten(table, "full").text
    assert "30% (24 to 36) of 100 outputs under DP-MLM" in said and "90% under DP-Prompt (" in said
    assert "point estimate" not in findings.rewritten(table.drop(2), "full").text
    assert "1 of 2 settings" in findings.games(table)
    assert "1.5 under DP-MLM (claim: 1,600), about" in findings.games(table)
    nothing = scoreboard.whole_texts(board())
    assert "not measured" in findings.rewritten(nothing, "full").title
    assert findings.games(nothing) == ""


def test_what_vectors_give_away_is_compared_with_what_is_named_without() -> None:
    def vectors(read: float) -> Finding:
        name = "inverted.vector_as_it_is.{}.content_words".format
        return findings.vectors(board(rate(name("words_by_regression"), read, 0.01),
                                      rate(name("named_blindly"), 0.05, 0.01)))  # fmt: skip

    title, said, _ = vectors(0.4)
    assert title.endswith("gives its words away") and "40% (38 to 42)" in said
    assert said.endswith("without its vector 5% and (not measured here).")
    assert "is not shown" in vectors(0.06).title
    assert "not measured" in findings.vectors(board()).title
    attacks = [(0.9, "vectors"), (0.95, "likelihood"), (0.96, "matched")]  # the last sees them all
    noisy = "truncated Laplace, eps 400"
    rows = several("linked attack", *attacks, mechanism=noisy, candidates=200)
    said = findings._linked(board(*rows))
    assert said.startswith(", yet among 200 sentences 95% (")


def test_more_outputs_are_compared_by_the_strongest_attacker_on_one_and_on_several() -> None:
    def said(*rows: tuple[float, int, str]) -> str:
        about = {"mechanism": "madlib", "setting": "eps8"}
        made = several("repeated k access", *rows, reach=0.06, **about)
        return findings.asked_again(board(*made))

    once = [(0.2, 1, "embedding"), (0.44, 1, "text")]
    weaker = [(0.4, 3, "embedding"), (0.3, 30, "text")]
    surely = said(*once, (0.61, 3, "text"), *weaker)  # p 9e-5, six times over
    assert "0.44 (0.37 to 0.51) on one" in surely and ") on 3 (significantly more)" in surely
    # 0.12 apart: p 0.006 for two that were not chosen, and 0.03 for the best of six pairs.
    assert "(significantly more" in said(*once, (0.56, 3, "text"))
    assert "(not surely more" in said(*once, (0.55, 3, "text"), *weaker)
    assert said(*once) == ""


def test_settings_are_counted_where_every_run_helps() -> None:
    rows = several(
        "f1_by_every_run mechanism setting p", (0.14, "madlib", "eps8", 1e-4),
        (0.02, "tem", "eps3", 0.06), (-0.05, "madlib", "eps2", 0.04),
        (0.05, "tem", "eps9", 0.04), (0.3, "deep-candidate", "eps25", 1e-9),
    )  # fmt: skip
    said = findings._by_every_run(board(*rows))
    assert "significantly more at 2 of 4 settings" in said and "significantly less at 1;" in said
    assert said.endswith("most +0.14 (MADLIB at epsilon 8).")
    assert findings._by_every_run(board()) == ""


def test_what_an_engineer_is_told_of_words_is_chosen_by_tests() -> None:
    rows = at(("tem", 0.7, 0.03), ("santext", 0.65, 0.03), ("madlib", 0.6, 0.03))
    (said,) = advice.choice(board(), rows).to_dict("records")
    assert said["use"].startswith("no clear winner: 2 of 2 others are not sig")
    assert "70% (63 to 77); under the others 60% to 65%; guessing: 50%" in said["what is left"]
    assert "language model" not in said["an attacker still gets"]
    gains = [(0.041, "tem", "usual"), (0.061, "tem", "wider"), (0.01, "left-out", "usual")]
    added = board(*several("model_adds mechanism beside", *gains))
    (said,) = advice.choice(added, rows).to_dict("records")
    assert "on average 1 (words left out) to 4 points (TEM)" in said["an attacker still gets"]
    told_apart = board(at_risk("madlib", "tem", -0.1, 0.01))
    use = advice.choice(told_apart, rows)["use"].tolist()
    assert use == ["TEM; not significantly worse: SanText"]
    assert advice.choice(board(), rows[:0]).empty
    left_out = at(("madlib", 0.7, 0.03), ("left-out", 0.65, 0.03), ("tem", 0.6, 0.03))
    (use,) = advice.choice(board(), left_out)["use"]
    assert (
        "2 of 2 others, words left out among them, are" in use
        and "MADLIB (its probabilities are" in use
    )


def test_a_setting_that_beats_what_is_read_off_is_told() -> None:
    """Less is recovered there than 60%, and more is left than 0.7; elsewhere one of the two."""
    measured = points((1, 0.5, 0.75, 0.3), (2, 0.65, 0.8, 0.5), (3, 0.55, 0.69, 0.5))
    said = advice._better_setting(measured.assign(mechanism="tem"), 0.6, 0.7)
    assert said == "; but 75% was measured under TEM at epsilon 1 (50% recovered)"
    assert advice._better_setting(measured[1:].assign(mechanism="tem"), 0.6, 0.7) == ""


def test_an_attacker_of_one_setting_is_told_where_it_finds_more() -> None:
    setting = {"mechanism": "dp-prompt-clipped", "setting": "t0.75"}
    usual = measure("f1_strongest.dp-prompt-clipped.t0.75.author", 0.28)
    once, often = (recorded("repeated", value, 0.05, **setting, k=k, access="added")
                   for value, k in ((0.37, 1), (0.57, 10)))  # fmt: skip
    said = advice._at_one_setting(board(usual, once, often))
    assert said.endswith("clipped DP-Prompt alone reaches 0.37 there, not 0.28")
    weaker = recorded("repeated", 0.2, 0.05, **setting, k=1, access="added")
    assert advice._at_one_setting(board(usual, weaker)) == advice._at_one_setting(board()) == ""


def test_what_an_engineer_is_told_of_tokens_keeps_half_of_the_gain() -> None:
    films = scoreboard.CORPUS
    read = {"plain": (1.0, 0.8), "noise-50": (0.1, 0.64), "high-freq": (0.6, 0.7),
            "low-freq": (0.8, 0.7)}  # fmt: skip
    tokens = [each for label, (risk, value) in read.items()
              for each in attacked(label, "context-free", risk, value, films)]  # fmt: skip
    # Of those that surely keep half of what plain text gives: of noise 0.64 it is not sure.
    both = advice.choice(board(*tokens), at())
    assert both["use"].str.startswith("high-freq (no guarantee): fewest rec").tolist() == [True] * 2
    assert both["what is left"].str.contains("plain text 80%").all()
    shown = recorded("in_sight", 0.9, label="high-freq", corpus=films, what="tokens")
    in_place, anywhere = advice.choice(board(*tokens, shown), at()).to_dict("records")
    assert in_place["use"].startswith("high-freq") and anywhere["use"].startswith("low-freq")
    assert in_place["an attacker still gets"].startswith("at least 60%")
    assert anywhere["an attacker still gets"].startswith("at least 80% of the tokens in whatever")


def test_what_the_least_bound_comes_to() -> None:
    table = pd.DataFrame({"mechanism": ["tem", "custext+"], "nominal": [240.0, math.inf],
                          "tight": [120.0, math.nan]})  # fmt: skip
    large = findings.proved(table)
    assert large.startswith("No guarantee is strong") and "is 120 (TEM)" in large
    assert "22,000 times likelier" in large  # exp(10) is 22,026
    assert findings.proved(table.assign(tight=[2.0, math.nan])).endswith("is 2 (TEM).")
    assert "120 (TEM and CusText+)" in findings.proved(table.assign(tight=120.0))
    assert "make audit" in findings.proved(table[:0])


@pytest.mark.parametrize(("plain", "less"), [(0.8, "significantly less."), (0.61, "undecided")])
def test_what_hiding_costs_is_said_by_a_test(plain: float, less: str) -> None:
    made = board(
        *attacked("noise-50", "naive", 0.1, 0.5),  # nobody has attacked it in earnest
        *attacked("stencil-w9-s0.2", "deconvolution", 0.8, 0.7),
        *attacked("punctuated-stencil-w9-s1.0", "deconvolution-lm", 0.3, 0.6),
        accuracy("plain", plain),
    )
    said = findings.window(made, scoreboard.manipulated_tokens(made)).details
    assert "punctuated stencil, window 9, sigma 1.0 is read back least" in said
    assert "30% of the tokens in" in said and f": {less}" in said
    nothing = findings.window(board(), scoreboard.manipulated_tokens(board()))
    assert "read back least" not in nothing.details


def test_every_contradiction_names_what_exists() -> None:
    path = claims.FILE.with_name("contradictions.toml")
    measured, stated = gather("full").measured, {claim.id for claim in claims.load()}
    every = tomllib.loads(path.read_text(encoding="utf-8"))["contradiction"]
    for each in every:
        assert {*each} <= {"papers", "against", "about", "printed", "measured"}
        assert set(each["papers"]) <= set(claims.PAPERS)
        printed, ours = each.get("printed", {}), each.get("measured", {})
        assert printed or ours
        assert set(printed.values()) <= stated and set(ours.values()) <= set(measured)
    table = scoreboard.contradictions(board())
    assert len(table) == len(every) and set(table["measured"]) == {""}


def test_numbers_of_contradictions_are_looked_up() -> None:
    """Of the first, whose second measurement is not there."""
    row = scoreboard.contradictions(board(measure("table1.k1.attack", 0.25, 0.2, 0.3))).iloc[0]
    assert row["printed"] == "contextual, K = 1: 0.47; context-free, same shadow data: 0.496"
    assert row["measured"] == "contextual, K = 1: 0.25 (0.2 to 0.3)"


def test_numbers_printed_twice() -> None:
    """Table 4 against 5 and 5 against 6; 54.0 against 54.1 is within the rounding of both."""
    table = scoreboard.printed_twice()
    assert set(table["paper"]) == {"harel"}
    pairs = {
        (row.setting, row.value, row.other)
        for row in table.rename(columns={"other value": "other"}).itertuples()
    }
    assert ("SST2, RoBERTa, Stenp(9, 1.0), Test", 0.85, 0.86) in pairs
    assert ("QNLI, T5-small, Sten(9, 0.2), All", 0.851, 0.847) in pairs
    assert len(pairs) == 8
    assert not [setting for setting, *_ in pairs if setting == "QNLI, T5-small, Sten(9, 0.8), Pr@5"]


def test_orderings_that_the_papers_own_numbers_deny() -> None:
    """Table 6 prefers windows of 5 to 9 for QNLI, and section 2.3 says 12 tokens: no others."""
    table = scoreboard.untrue_of_own_numbers()
    assert set(table["paper"]) == {"harel"}
    assert table["printed"].tolist() == ["12", "0.814, 0.817", "0.814, 0.82", "0.814, 0.816"]


def along(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"x": values})


def test_crossing_lies_between_the_neighbours() -> None:
    at = crossing(along(0.1, 0.3, 0.7).assign(y=[1.0, 2.0, 6.0]), "x", 0.4)
    assert at is not None
    assert (at.weight, at.interpolated("y")) == pytest.approx((0.25, 3.0))
    assert crossing(along(0.1, 0.3), "x", 0.31) is None  # never beyond what was measured
    assert crossing(along(0.1, 0.3), "x", 0.09) is None
    assert crossing(along(0.5), "x", 0.5) is None
    assert crossing(along(0.5, 0.5), "x", 0.5) is None
    first = crossing(along(0.1, 0.5, 0.2, 0.5), "x", 0.3)  # of several places the first
    assert first is not None and first.weight == pytest.approx(0.5) and first.after["x"] == 0.5
    falling = crossing(along(0.5, 0.1), "x", 0.2)
    assert falling is not None and falling.weight == pytest.approx(0.75)


def test_an_estimate_has_both_errors() -> None:
    """Half-way between two epsilons, with the errors of accuracy and of the risk."""
    curve = points((1, 0.4, 0.6, 0.3), (2, 0.6, 0.8, 0.5), (3, 0.65, 0.9, 0.7))
    at = crossing(curve, "risk", 0.5)
    assert at is not None and at.interpolated("epsilon") == pytest.approx(1.5)
    estimate, slope = at.estimate(), 0.2 / 0.2  # accuracy per risk
    assert estimate["value"] == pytest.approx(0.7) and at.error == pytest.approx(0.01)
    reach = Z * math.hypot(0.02, slope * 0.01)
    assert estimate["high"] - estimate["value"] == pytest.approx(reach)
    assert estimate["value"] - estimate["low"] == pytest.approx(reach)
    (same,) = scoreboard.equal_risk(curve.assign(mechanism="tem"), [0.3, 0.5]).to_dict(
        "records"
    )  # a risk of 0.3 lies below what was measured
    assert {name: same[name] for name in ("value", "low", "high")} == pytest.approx(estimate)
    assert (same["risk"], same["epsilon"], same["kept"]) == pytest.approx((0.5, 1.5, 0.4))
    assert same["kept_error"] == pytest.approx(0.01)
    # On another corpus, at the same words kept: 0.2 of them per 0.2 of risk.
    other = pd.DataFrame({"here": [0.3, 0.5], "value": [0.7, 0.8], "low": 0.65, "high": 0.85})
    there = crossing(other, "here", at.interpolated("kept"), at.error * at.slope("kept"))
    assert there is not None and there.estimate()["value"] == pytest.approx(0.75)
    assert there.error == pytest.approx(0.01)
    ends = [crossing(points((1, 0.4, 0.999, 0.2), (2, 0.6, 0.001, 0.6)), "risk", risk)
            for risk in (0.4, 0.6)]  # fmt: skip
    assert [ends[0].estimate()["high"], ends[1].estimate()["low"]] == [1, 0]  # shares


def test_reviews_are_read_off_at_the_words_kept_in_them() -> None:
    def read(kept: float, here: float, value: float, reader: str = "words",
             words: str = "own") -> Measurement:  # fmt: skip
        about = {"data": "imdb", "mechanism": "tem", "kept": kept, "kept_here": here}
        return recorded("sentiment", value, **about, reader=reader, words=words)

    made = board(read(0.5, 0.4, 0.8), read(0.3, 0.2, 0.7), read(0.3, 0.2, 0.9, "vectors"),
                 read(0.3, 0.2, 0.6, words="redrawn"))  # fmt: skip
    curves = scoreboard.kept_curves(made)
    assert curves["value"].tolist() == [0.7, 0.8] and curves["kept here"].tolist() == [0.2, 0.4]
    assert scoreboard.kept_curves(board()).empty


def test_the_best_attack_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    made = board(notebook="09_equal_utility")
    assert scoreboard.word_points(made).empty  # no figure of notebook 09
    by_epsilon = {2.0: (0.5, 0.4), 1.0: (0.2, 0.3)}
    rows = [
        ("tem", epsilon, attack, value)
        for epsilon, pair in by_epsilon.items()
        for attack, value in zip(("context-free-bound", "noisy-channel"), pair, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["mechanism", "epsilon", "attack", "value"])
    for name in ("low", "high", "accuracy", "accuracy_low", "accuracy_high", "kept"):
        table[name] = 0.5
    table = table.assign(n=100, sentences=20)
    (tmp_path / "figures").mkdir()
    table.to_csv(tmp_path / "figures" / "fig09_risk.csv", index=False)
    assert scoreboard.word_points(made)["p"].isna().all()  # results of before the paired tests
    table.assign(p=0.01).to_csv(tmp_path / "figures" / "fig09_risk.csv", index=False)
    best = scoreboard.word_points(made).set_index("epsilon")
    assert best["risk"].to_dict() == {2.0: 0.5, 1.0: 0.3}
    assert best["p"].to_dict() == {2.0: 0.01, 1.0: 0.01}
    assert best["attack"].to_dict() == {2.0: "context-free-bound", 1.0: "noisy-channel"}
    assert scoreboard.word_points(Board("default", {}, {})).empty


def test_the_strongest_attack_on_manipulated_tokens() -> None:
    made = board(
        of_token("stencil-w9-s0.2", "naive", 0.3),
        *attacked("stencil-w9-s0.2", "deconvolution_lm", 0.6, 0.66),
        *attacked("punctuated-stencil-w9-s1.0", "naive", 0.1, 0.65, "ag-news"),
        *attacked("noise-100", "naive", 0.8, 0.64),
        of_token("high-freq", "context-free", 0.7),
        accuracy("noise-100", 0.5, scenario="test"),
    )
    tokens = scoreboard.manipulated_tokens(made).set_index("mapper")
    assert list(tokens.index) == ["stencil-w9-s0.2", "punctuated-stencil-w9-s1.0", "noise-100"]
    assert tokens["mechanism"].tolist() == ["stencil", "punctuated-stencil", "noise"]
    row = tokens.loc["stencil-w9-s0.2"]
    assert (row["attack"], row["risk"], row["value"]) == ("deconvolution-lm", 0.6, 0.66)
    assert tokens.loc["noise-100", "value"] == 0.64  # trained on manipulated text
    for name in tokens["mechanism"]:
        style(name)


def audit(mechanism: str, ratio: float, violations: int = 0, excess: float = 0.0) -> Audit:
    pair = ("a", "b")
    return Audit(mechanism, "eps 1", "a claim", "exact", 6, 0, ratio, pair, violations, excess)


AUDITS = [
    audit("santext", 0.74),
    audit("madlib", 0.9, excess=0.05),
    audit("tem", 0.8, excess=math.inf),
    audit("wrong", 1.3, violations=2),
    audit("2-random", math.nan),
]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where `make audit` leaves its files."""
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "results" / "audits").mkdir(parents=True)
    return tmp_path / "results" / "audits"


def test_audits_are_read_where_they_are(kept: Path) -> None:
    assert scoreboard.audits() == [] and "make audit" in findings.guarantees([]).text
    write_audits(AUDITS, kept / "audits.json", {"mutants_caught": 18, "mutants_tried": 19})
    audits = scoreboard.audits()
    assert [audit.verdict for audit in audits] == [
        "not broken", "not broken", "undecided", "broken", "no claim",
    ]  # fmt: skip
    title, said, _ = findings.guarantees(audits)
    assert title == "4 audits of a claim broke that of wrong"
    assert said.startswith("Of 19 mechanisms") and "catch 18" in said
    stated = [*AUDITS, dataclasses.replace(audit("toy", 2.0, violations=1), published=True)]
    stronger = findings.guarantees(stated).text
    assert stronger.startswith("Stronger readings of a claim are refuted for toy. Of 19")
    assert findings.guarantees(AUDITS[:1]).title == "1 audits of a claim broke none"


def test_advice_says_where_nothing_is_guaranteed() -> None:
    unclaimed = {
        name for name, made in registry.examples().items() if made.claim.composition == "none"
    }
    assert unclaimed and unclaimed <= set(advice.UNPROVED)
    assert advice._take(["rantext"], 3) == "RANTEXT (no finite epsilon holds)"
    assert advice._take(["tem", "rantext"], 3) == "TEM; not significantly worse: RANTEXT"


def test_a_mechanism_stands_by_the_worst_of_its_audits() -> None:
    table = scoreboard.audit_summary([*AUDITS, audit("wrong", 0.5), audit("madlib", 0.95)])
    assert table.to_numpy().tolist()[:4] == [
        ["santext", 1, 0.74, "not broken"], ["madlib", 2, 0.95, "not broken"],
        ["tem", 1, 0.8, "undecided"], ["wrong", 2, 1.3, "broken"],
    ]  # fmt: skip
    assert math.isnan(table["worst ratio"].iloc[4]) and table["verdict"].iloc[4] == "no claim"
    assert scoreboard.audit_summary([]).empty


def test_statements(kept: Path) -> None:
    assert scoreboard.statements().empty
    row = {"mechanism": "tem", "setting": "eps 2.4", "nominal": 240.0, "tight": "nan",
           "least": "nan",
           "attacked": {"success": {"value": 0.34}, "did": "named {} of 100"}}  # fmt: skip
    other = row | {"mechanism": "noise", "nominal": "inf", "attacked": None}
    (kept / "statements.json").write_text(json.dumps({"statements": [row, other]}))
    table = scoreboard.statements()
    assert table["mechanism"].tolist() == ["tem", "noise"]
    assert table["nominal"].tolist() == [240.0, math.inf]
    assert table["tight"].isna().all()
    assert table["the best attack"].tolist() == ["named 34 of 100", ""]


@pytest.mark.parametrize("profile", profiles.names())
def test_sizes_of_every_profile(profile: str) -> None:
    sizes = Run("07_scoreboard", profile, 7, {}).sizes(Sizes)
    assert sizes.shown_risk in sizes.risks
    assert list(sizes.risks) == sorted(sizes.risks)


def test_bars_of_the_first_figure_are_as_long_as_their_shares() -> None:
    rows = [("custext+", 4.0, 0.3, 0.5), ("madlib", 13.0, 0.4, 0.4)]
    table = pd.DataFrame(rows, columns=["mechanism", "epsilon", "kept", "value"])
    table = table.assign(low=table["value"] - 0.1, high=table["value"] + 0.1, n=2000)
    ways = {"custext+": "similar words", "madlib": "noise"}
    fig = figures.headline(table, ways, 0.02, "A title")
    fig.canvas.draw()
    (ax,) = fig.axes
    kept, named, _ = ax.containers
    assert [bar.get_width() for bar in kept] == [0.3, 0.4]
    assert [bar.get_width() for bar in named] == [0.5, 0.4]
    tops = [bar.get_y() for bar in named]
    assert tops[0] > tops[1] and "n = 2,000" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_yticklabels()][0] == "CusText+, ε 4\nsimilar words"
    assert fig.get_suptitle() == "A title"
    assert figures.headline(table[:0], ways, math.nan, "Nothing").axes[0].containers


def test_what_is_left_is_drawn_in_its_order() -> None:
    rows = at(("tem", 0.7, 0.03), ("madlib", 0.6, 0.03))
    fig = figures.risk_utility(rows, {"guessing": 0.5}, 300, "A title")
    fig.canvas.draw()
    (ax,) = fig.axes
    assert [each[0].get_xydata().tolist() for each in ax.containers] == [[[0.6, 0]], [[0.7, 1]]]
    assert "MADLIB" in ax.get_yticklabels()[0].get_text()
    assert figures.risk_utility(rows[:0], {"guessing": 0.5}, math.nan, "Nothing").axes[0].texts


def test_what_was_not_measured_is_named() -> None:
    rows = at(("tem", 0.7, 0.03))
    said = scoreboard.missing_measures({"words": rows, "tokens": rows[:0], "texts": rows[:0]})
    assert said.endswith(": tokens, texts.") and scoreboard.missing_measures({"words": rows}) == ""


def test_tables_are_escaped_folded_and_have_whole_counts() -> None:
    table = pd.DataFrame({"who": ["a<b", "c"], "share": [0.25, math.nan], "n": [200.0, math.nan]})
    html = scoreboard.folded("1 < 2", table)
    assert html.startswith("<details><summary>1 &lt; 2</summary>") and html.endswith("</details>")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells == ["a&lt;b", "0.25", "200", "c", "", ""]
