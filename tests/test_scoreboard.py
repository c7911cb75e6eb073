"""Notebook 07: claims are complete, and what is read off lies where it should."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import tomllib
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


# --- Made-up results ----------------------------------------------------------------------------


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
    name = ".".join([quantity, *(str(each).lower().replace(" ", "_") for each in columns.values())])
    measurement = measure(name, value, **ends, n=n, unit="difference")
    return measurement.model_copy(update={"columns": columns})


def of_token(label: str, attack: str, value: float, corpus: str = "imdb") -> Measurement:
    """What an attack of notebook 03 recovers under a mechanism on tokens."""
    return recorded("pr1", value, 0.0, label=label, corpus=corpus, attack=attack)


def accuracy(label: str, value: float, corpus: str = "imdb", scenario: str = "all") -> Measurement:
    """What a classifier of notebook 03 reads under it, with an error of 0.01."""
    return recorded("accuracy", value, Z * 0.01, label=label, corpus=corpus, scenario=scenario)


def points(*rows: tuple[float, float, float, float]) -> pd.DataFrame:
    """Rows of (epsilon, risk, accuracy, kept), with errors of 0.01 and 0.02."""
    table = pd.DataFrame(rows, columns=["epsilon", "risk", "value", "kept"])
    return table.assign(
        risk_low=table["risk"] - Z * 0.01,
        risk_high=table["risk"] + Z * 0.01,
        low=table["value"] - Z * 0.02,
        high=table["value"] + Z * 0.02,
    )


# --- The claims are complete --------------------------------------------------------------------

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


# --- Verdicts -----------------------------------------------------------------------------------


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
    finding = findings.at_equal_risk(two, pairs)
    differ = "1 of the 1 pairs differ significantly"
    assert differ in finding.title
    assert f"{differ}, most of them in favour of TEM (each of 1). " in finding.text
    finding = findings.at_equal_risk(two, pairs.assign(p=0.06))
    assert finding.title.startswith("At equal risk no mechanism is shown to leave more")
    assert "of the 1 pairs that were compared none differs significantly. " in finding.text
    assert findings.at_equal_risk(two[:1], pairs).title.startswith("No two mechanisms share")


def test_leaders_are_those_whom_no_test_sets_below_the_best() -> None:
    """0.1 apart with errors of 0.03 each: p 0.018, which three pairs make 0.055."""
    two = at(("tem", 0.7, 0.03), ("madlib", 0.6, 0.03))
    three = pd.concat([two, at(("santext", 0.65, 0.03))])
    assert advice.leaders(two) == ["tem"]
    assert advice.leaders(three) == ["tem", "santext", "madlib"]
    tests = [at_risk("madlib", "tem", -0.1, 0.04), at_risk("tem", "santext", 0.05, 0.06),
             at_risk("madlib", "santext", 0.05, 0.01)]  # fmt: skip
    pairs = scoreboard.left_at_risk(board(*tests))
    assert advice.leaders(three, pairs) == ["tem", "santext"]  # in pairs


def equal(
    first: str,
    second: str,
    value: float,
    p: float,
    utility: str = "meaning",
    measured: str = "equal",
) -> Measurement:
    """A paired test of the risks where two mechanisms leave as much of a utility."""
    about = {"utility": utility, "quarter": 2, "level": 0.7, "first": first, "second": second}
    return recorded(measured, value, 0.02, **about, p=p)


def test_pairs_at_equal_utility_are_decided_by_their_corrected_p() -> None:
    pairs = [equal("clusant", "tem", -0.05, 0.01), equal("madlib", "clusant", 0.01, 0.2),
             equal("tem", "madlib", 0.04, 0.04)]  # fmt: skip
    assert scoreboard.equal_utility(board(*pairs))["less"].tolist() == ["clusant", None, "madlib"]
    assert scoreboard.equal_utility(board()).empty


def test_what_is_said_of_pairs_at_equal_utility() -> None:
    pairs = [equal("clusant", "tem", -0.05, 0.01), equal("madlib", "clusant", 0.05, 0.01),
             equal("clusant", "santext+", 0.05, 0.01), equal("rantext", "tem", 0.0, 1.0),
             equal("clusant", "rantext", 0.05, 0.01),
             equal("clusant", "tem", -0.05, 0.2, "accuracy")]  # fmt: skip
    table = scoreboard.equal_utility(board(*pairs))
    finding = findings.protects(table)
    assert (
        "under CluSanT in 2 of 3 comparisons (more in 1), under RANTEXT in 0 of 1" in finding.text
    )
    assert "accuracy of sentiment 0 of 1 comparisons" in finding.text
    assert "4 of 5 pairs" in said_of_pairs(table)
    random = [equal("clusant", "randomized-response", -0.05, 0.01),
              equal("randomized-response", "tem", -0.05, 0.01)]  # fmt: skip
    for compared, said in (
        (pairs, "win some comparisons and lose some"),
        (pairs[:1], "win some comparisons and are shown to lose none"),
        ([equal("rantext", "tem", 0.0, 1.0)], "are shown to win no comparisons and are"),
        ([equal("tem", "madlib", 0.0, 1.0)], "No newer mechanism was compared"),
        (random, "No newer mechanism was compared"),
        ([], "No newer mechanism was compared"),
    ):
        assert said in findings.protects(scoreboard.equal_utility(board(*compared))).title
    left_out = equal("tem", "left-out", 0.05, 0.01)
    more = [equal("tem", "left-out", 0.05, 0.01, "accuracy"),
            equal("clusant", "randomized-response", 0.05, 0.3, "accuracy")]  # fmt: skip

    def against_both(*rows: Measurement) -> Finding:
        made = board(*rows)
        return findings.against_both(made, scoreboard.equal_utility(made))

    title, said, details = against_both(*random, left_out)
    assert title.endswith("out: 1 of 1 at equal meaning, none was compared at equal accuracy")
    assert ": 1 of 2 at equal meaning (less: 1), none was compared" in said
    assert "fewer under" in details and "language model" not in details  # none attacked these
    title, said, _ = against_both(*random, left_out, *more)
    assert title.endswith(": 1 of 1 at equal meaning, 1 of 1 at equal accuracy")
    assert "(less: 1), 0 of 1 at equal accuracy (undecided: 1)." in said
    spoken = [equal("tem", "left-out", 0.05, 0.01, measured=scoreboard.WITH_MODEL),
              equal("madlib", "left-out", 0.05, 0.5, measured=scoreboard.WITH_MODEL)]  # fmt: skip
    added = recorded("model_adds", 0.02, n=870, mechanism="tem", beside="usual")
    details = against_both(*random, left_out, *spoken, added).details
    assert "language model attacks too (870 words), more is read back than with" in details
    assert "left out under 1 of 2 at equal meaning (undecided: 1), none was" in details


def test_mechanisms_are_told_beside_scissors() -> None:
    def apart(mechanism: str, risk: float, value: float, p: float) -> Measurement:
        return recorded("f1_over_left-out", value, mechanism=mechanism, risk=risk, p=p)

    rows = [
        apart("madlib", 0.2, -0.02, 0.4),
        apart("tem-300d", 0.3, 0.01, 1.0),
        apart("dp-prompt-clipped", 0.2, 0.1, 0.4),
        apart("dp-prompt-top-k40", 0.3, 0.2, 0.02),
        apart("truncated-laplace", 0.4, -0.5, 0.001),  # of neither family
    ]
    assert findings.beside_scissors(board(*rows)) == (
        "At equal author F1, sentiment F1 minus that with words left out is -0.02 to +0.01 under "
        "mechanisms on words, +0.10 to +0.10 under DP-Prompt (significant: 0 of 3)."
    )
    assert "DP-Prompt" not in findings.beside_scissors(board(*rows[:2]))
    assert findings.beside_scissors(board(rows[4])) == findings.beside_scissors(board()) == ""


def test_replacements_are_told_beside_random_words() -> None:
    def gain(corpus: str, mechanism: str, value: float, p: float, kept: float = 0.5, *,
             reader: str = "better") -> Measurement:  # fmt: skip
        about = {"corpus": corpus, "mechanism": mechanism, "kept": kept, "reader": reader}
        return recorded("beside_random", value, **about, p=p)

    rows = [gain("s", "tem", -0.1, 0.001), gain("s", "vickrey", 0.1, 0.001),
            gain("s", "madlib", 0.1, 0.06), gain("s", "tem", 0.1, 0.001, reader="words"),
            gain("s", "tem", 0.1, 0.001, 0.7), gain("r", "tem", -0.1, 0.06)]  # fmt: skip
    finding = findings.near_words(board(*rows))
    assert finding.title.endswith("shown to beat random ones under 1 of 3 mechanisms")
    assert ": on s more under 1 (Vickrey), less under 1; on r no difference" in finding.text
    assert finding.text.endswith("on r no difference is significant.")
    assert "not compared" in findings.near_words(board()).title


def test_attacks_on_whole_sentences_are_compared_by_tests() -> None:
    pair = "paired.custext.rotten-tomatoes.eps6."
    values = {"contextual_bound_seen": 0.55, "noisy_channel": 0.62, "noisy_channel_lm": 0.69,
              "noisy_channel_shadow": 0.48, "context_free_bound": 0.53}  # fmt: skip
    clothes = [rate("misaligned.eps6.noisy_channel.misaligned", 0.54, 0.01),
               rate("misaligned.eps6.context_free_bayes.misaligned", 0.46, 0.01),
               rate("misaligned.eps6.context_free_bayes", 0.55, 0.01)]  # fmt: skip
    measured = board(*(rate(pair + name, value, 0.01) for name, value in values.items()), *clothes)
    title, said, details = findings.context(measured)
    assert title.endswith("beats the best guess word by word")
    assert "recovers 62% (60 to 64) of the words" in said and "frequencies, 53%. A small" in said
    assert "frequencies of films significantly more and of other clothes reviews not" in details
    assert "trained less than theirs, is 55% (53 to 57) of the words" in details
    assert " trained less" not in findings.context(replace(measured, profile="paper")).details
    values["noisy_channel"] = 0.54
    close = board(*(rate(pair + name, value, 0.01) for name, value in values.items()))
    assert "is not shown to beat the best guess" in findings.context(close).title


def test_a_setting_of_the_first_figure_keeps_about_a_third_of_the_words() -> None:
    rows = [("custext+", 1.0, 0.10, 0.5), ("custext+", 4.0, 0.30, 0.55), ("madlib", 13.0, 0.4, 0.4),
            ("tem", 2.4, 0.34, 0.9)]  # fmt: skip
    columns = ["mechanism", "epsilon", "kept", "risk"]
    table = pd.DataFrame(rows, columns=columns).assign(value=0.7, low=0.6, high=0.8, n=100)
    table = table.assign(attack="noisy-channel", risk_low=table["risk"] - Z * 0.02,
                         risk_high=table["risk"] + Z * 0.02, p=[0.5, 0.02, 0.9, 1e-4])  # fmt: skip
    chosen = first.settings(table)
    assert chosen[["mechanism", "epsilon", "value"]].to_numpy().tolist() == [
        ["custext+", 4.0, 0.55], ["madlib", 13.0, 0.4],
    ]  # fmt: skip
    said = first.headline(chosen)
    assert "1 of 2 mechanisms" in said.title and "at least 25 more of 100" in said.title
    assert "recovers 40 to 55 of 100" in said.text
    assert "than come out unchanged under CusText+ (30→55)." in said.text
    assert said.text.endswith("Under MADLIB (40→40) the two differ by 0.0 or less, not "
                              "significantly.")  # fmt: skip
    given = chosen.assign(p=1e-4, kept=[0.3, 0.387], attack=["noisy-channel", first.COUNTED])
    assert "(MADLIB: given the private texts' own word counts)" in first.headline(given).text
    small = first.headline(chosen.assign(p=1e-4, kept=[0.3, 0.387]))
    assert small.title == said.title
    assert "(39→40) significantly more are recovered too, but by 1.3 of 100 at most" in small.text
    close = chosen.assign(p=0.03)  # which would be enough for one setting
    assert first.headline(close).title.startswith("An attacker recovers hardly more")
    assert first.headline(chosen[:0]).title == "Not measured under this profile"
    # A wider gap that chance may explain is not what the title tells.
    unsure = chosen.iloc[[-1, 0]].assign(kept=[0.1, 0.3], value=[0.6, 0.55], p=[0.2, 0.001])
    assert first.headline(unsure).title == said.title
    two = first.headline(unsure.assign(p=1e-4))
    assert "under 2 of 2 mechanisms" in two.title and "at least 25 more" in two.title


def test_whether_a_sanitizer_is_enough_is_said_where_texts_are_as_useful() -> None:
    def read(mechanism: str, value: float) -> Measurement:
        return recorded("read", value, 0.08, mechanism=mechanism)

    ends = [measure("accuracy.empty", 0.62, 0.6, 0.64), measure("accuracy.clear", 0.75, 0.7, 0.8)]
    said = first.alone(board(read("tem", 0.63), read("custext+", 0.3), *ends))
    assert "in 70%; original text: 75%, without the replaced words: 62%), the" in said
    assert "from 30% (22 to 38) under CusText+ to 63% (55 to 71) under TEM" in said
    bare = first.alone(board(read("tem", 0.63), read("left-out", 0.4)))
    assert "guessing: 50%)" in bare and "(1 can be set so)" in bare
    assert bare.endswith("sent unchanged: 40% (32 to 48).")
    madlib = first.alone(board(read("madlib", 0.3)))
    assert "under MADLIB, attacked with estimated probabilities: a lower limit to" in madlib
    assert "stronger ones may recover more" in first.alone(board(read("tem", 0.01)))
    assert first.alone(board(read("left-out", 0.4))) == first.alone(board()) == ""


def test_whole_texts_stand_by_their_strongest_linkage_and_with_their_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def linked(mechanism: str, value: float, attack: str = "words") -> Measurement:
        n = 33 if mechanism == "DeepCandidate" else 200
        about = {"mechanism": mechanism, "attack": attack, "candidates": n}
        return recorded("linked", value, 0.05, n, **about)

    made = board(
        linked("DP-MLM", 0.2),
        linked("DP-MLM", 0.3, "vectors"),
        linked("DP-Prompt", 0.9),
        linked("DeepCandidate", 0.05),
        linked("redaction alone", 0.95),
        recorded("game", 1.58, mechanism="DP-MLM"),
        recorded("game", 0.0, mechanism="truncated Laplace"),
        notebook="08_whole_texts",
    )
    games = [["DP-MLM", 1.58, 1.0, 1600], ["DP-MLM", 0.2, 0.6, 1800]]  # the more that is shown
    games.append(["truncated Laplace", 0.0, 0.5, 400])
    plotted = pd.DataFrame(games, columns=["mechanism", "shown", "right", "claimed"])
    monkeypatch.setattr(scoreboard, "_plotted", lambda *_: plotted)
    table = scoreboard.whole_texts(made).set_index("mechanism")
    assert table.loc["DP-MLM", ["right", "claimed"]].tolist() == [1.0, 1600]
    tools = ["DeepCandidate", "DP-MLM", "DP-Prompt", "redaction alone", "truncated Laplace"]
    assert list(table.index) == tools  # of which two write, and are counted below
    assert table.loc["DP-MLM", ["linked", "attack", "shown"]].tolist() == [0.3, "vectors", 1.58]
    assert math.isnan(table.loc["truncated Laplace", "linked"])
    said = findings.rewritten(table.reset_index(), "full").text
    assert "30% (24 to 36) of 200 outputs under DP-MLM (epsilon 100 for each word), by" in said
    assert said.endswith("90% under DP-Prompt (temperature 1, at most 16 tokens).")
    alone = table.loc[["DP-MLM", "redaction alone"]].reset_index()  # one that writes
    assert "under DP-Prompt" not in findings.rewritten(alone, "full").text
    said = findings.games(table.reset_index())
    assert "1 of 2" in said and "1.5 under DP-MLM (claim: 1,600), about" in said
    assert "(Notebook 08.)" in str(findings.rewritten(scoreboard.whole_texts(board()), "full"))
    assert findings.games(scoreboard.whole_texts(board())) == ""


def test_what_vectors_give_away_is_compared_with_what_is_named_without() -> None:
    def vectors(read: float) -> Finding:
        shares = {"vector_as_it_is.words_by_regression.content_words": read,
                  "vector_as_it_is.named_blindly.content_words": 0.05,
                  "noise.eps_400.words_by_regression.names": 0.1}  # fmt: skip
        rows = [measure(f"inverted.{name}", value, value - 0.02, value + 0.02)
                for name, value in shares.items()]  # fmt: skip
        return findings.vectors(board(*rows, notebook="08_whole_texts"))

    title, said, details = vectors(0.4)
    assert title == "The vector of a sentence gives its words away"
    assert "40% (38 to 42) of a sentence's content words and (not measured here)" in said
    assert said.endswith("without its vector 5% and (not measured here).")
    assert details.endswith("(epsilon 400) the guesses find (not measured here) and 10%.")
    about = {"mechanism": "truncated Laplace, eps 400", "candidates": 200}
    attacks = {"vectors": 0.9, "likelihood": 0.95, "matched": 0.96}  # the last looks at all outputs
    linked = [
        rate(f"linked.{name}", value, 0.01).model_copy(
            update={"columns": {**about, "attack": name}}
        )
        for name, value in attacks.items()
    ]
    said = findings._linked(board(*linked))
    assert said.startswith(", yet among 200 sentences 95% (") and said.endswith("are linked")
    assert vectors(0.06).title.endswith("is not shown to give its words away")
    assert findings.vectors(board()).title == "One of the two was not measured here"


def test_more_outputs_are_compared_by_the_strongest_attacker_on_one_and_on_several() -> None:
    def asked(k: int, access: str, value: float) -> Measurement:
        about = {"mechanism": "madlib", "setting": "eps8", "k": k, "access": access}
        return recorded("repeated", value, 0.06, **about)

    once = [asked(1, "embedding", 0.2), asked(1, "text", 0.44)]
    often = [asked(3, "text", 0.61), asked(3, "embedding", 0.4), asked(30, "text", 0.3)]
    said = findings.asked_again(board(*once, *often))
    assert "Under MADLIB at epsilon 8 the strongest attacker who was asked about several" in said
    assert "reaches 0.44 (0.37 to 0.51) on one, 0.61 (" in said
    assert ") on 3 (significantly more)" in said  # p 9e-5, six times over
    # 0.12 apart: p 0.006 for two that were not chosen, and 0.03 for the best of six pairs.
    assert "(significantly more" in findings.asked_again(board(*once, asked(3, "text", 0.56)))
    close = [asked(3, "text", 0.55), asked(3, "embedding", 0.4), asked(30, "text", 0.3)]
    assert "(not surely more" in findings.asked_again(board(*once, *close))
    assert "MADLIB" not in findings.asked_again(board(*once))


def test_settings_are_counted_where_every_run_helps() -> None:
    gains = {("madlib", "eps8"): (0.14, 1e-4), ("tem", "eps3"): (0.02, 0.4), ("madlib", "eps2"):
             (-0.05, 1e-3), ("deep-candidate", "eps25"): (0.3, 1e-9)}  # fmt: skip
    rows = [
        recorded("f1_by_every_run", value, mechanism=name, setting=setting, p=p)
        for (name, setting), (value, p) in gains.items()
    ]
    said = findings._by_every_run(board(*rows))
    assert "significantly more at 1 of 3 settings" in said and "significantly less at 1;" in said
    assert said.endswith("most +0.14 (MADLIB at epsilon 8).")
    assert findings._by_every_run(board()) == ""


def test_what_an_engineer_is_told_is_chosen_by_tests() -> None:
    rows = at(("tem", 0.7, 0.03), ("santext", 0.65, 0.03), ("madlib", 0.6, 0.03))
    (said,) = advice.choice(board(), rows).to_dict("records")
    assert said["use"] == (
        "no clear winner: 2 of 2 others are not significantly worse than TEM, the best by point "
        "estimate"
    )
    assert said["what is left"].endswith("70% (63 to 77); under the others 60% to 65%; "
                                         "guessing: 50%")  # fmt: skip
    assert "language model" not in said["an attacker still gets"]
    gains = [("tem", "usual", 0.041), ("tem", "wider", 0.061), ("left-out", "usual", 0.01)]
    added = [
        recorded("model_adds", value, mechanism=name, beside=beside)
        for name, beside, value in gains
    ]
    (said,) = advice.choice(board(*added), rows).to_dict("records")
    assert said["an attacker still gets"].endswith("and more candidates up to 4 points more")
    two = at(("tem", 0.7, 0.03), ("madlib", 0.6, 0.03))
    told_apart = board(at_risk("madlib", "tem", -0.1, 0.01))
    assert advice.choice(told_apart, two)["use"].tolist() == ["TEM"]
    films = scoreboard.CORPUS
    tokens = board(
        of_token("plain", "naive", 1.0, films),
        accuracy("plain", 0.8, films),
        *(made
          for name, risk, value in (("noise-50", 0.1, 0.64), ("high-freq", 0.6, 0.7),
                                    ("low-freq", 0.8, 0.7))
          for made in (of_token(name, "context-free", risk, films), accuracy(name, value, films))),
    )  # fmt: skip
    in_place, anywhere = advice.choice(tokens, rows[:0]).to_dict("records")
    # Of those that surely keep half of what plain text gives: of noise 0.64 it is not sure.
    assert in_place["use"].startswith("high-freq (no guarantee): fewest recovered")
    assert in_place["an attacker still gets"].startswith("at least 60%")
    assert anywhere["use"].startswith("high-freq") and "plain text 80%" in in_place["what is left"]
    shown = recorded("in_sight", 0.9, label="high-freq", corpus=films, what="tokens")
    in_place, anywhere = advice.choice(board(*tokens.measured.values(), shown), rows[:0]).to_dict(
        "records"
    )
    assert in_place["use"].startswith("high-freq") and anywhere["use"].startswith("low-freq")
    assert anywhere["an attacker still gets"] == "at least 80% of the tokens in whatever place"
    assert advice.choice(board(), rows[:0]).empty


def test_what_the_least_bound_comes_to() -> None:
    table = pd.DataFrame({"mechanism": ["tem", "custext+"], "nominal": [240.0, math.inf],
                          "tight": [120.0, math.nan]})  # fmt: skip
    large = findings.proved(table)
    assert large.startswith("No guarantee is strong") and "is 120 (TEM)" in large
    assert "22,000 times likelier" in large  # exp(10) is 22,026
    small = findings.proved(table.assign(tight=[2.0, math.nan]))
    assert small.startswith("Where everything") and small.endswith("is 2 (TEM).")
    two = findings.proved(table.assign(tight=[120.0, 120.0]))
    assert "120 (TEM and CusText+)" in two
    assert "make audit" in findings.proved(table[:0])


def test_what_hiding_costs_is_said_by_a_test() -> None:
    for plain, expected in ((0.8, "significantly less."), (0.61, "undecided at this size.")):
        made = board(
            of_token("noise-50", "naive", 0.1),  # nobody has attacked it in earnest
            accuracy("noise-50", 0.5),
            of_token("stencil-w9-s0.2", "naive", 0.9),
            of_token("stencil-w9-s0.2", "deconvolution", 0.8),
            of_token("punctuated-stencil-w9-s1.0", "deconvolution-lm", 0.3),
            accuracy("plain", plain),
            accuracy("stencil-w9-s0.2", 0.7),
            accuracy("punctuated-stencil-w9-s1.0", 0.6),
        )
        said = findings.window(made, scoreboard.manipulated_tokens(made)).details
        assert "punctuated stencil, window 9, sigma 1.0 is read back least, by point est" in said
        assert "30% of the tokens in" in said and said.endswith(expected)
    nothing = findings.window(board(), scoreboard.manipulated_tokens(board()))
    assert "read back least" not in nothing.details


# --- Contradictions -----------------------------------------------------------------------------


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


# --- Equal risk ---------------------------------------------------------------------------------


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
        of_token("stencil-w9-s0.2", "deconvolution_lm", 0.6),
        of_token("punctuated-stencil-w9-s1.0", "naive", 0.1, "ag-news"),
        of_token("noise-100", "naive", 0.8),
        of_token("high-freq", "context-free", 0.7),
        accuracy("stencil-w9-s0.2", 0.66),
        accuracy("punctuated-stencil-w9-s1.0", 0.65, "ag-news"),
        accuracy("noise-100", 0.64),
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


# --- Audits -------------------------------------------------------------------------------------


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


# --- Figures ------------------------------------------------------------------------------------


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
    drawn = [each[0].get_xydata().tolist() for each in ax.containers]
    assert drawn == [[[0.6, 0]], [[0.7, 1]]] and "n = 300" in ax.get_xlabel()
    assert "MADLIB" in ax.get_yticklabels()[0].get_text()
    nothing = figures.risk_utility(rows[:0], {"guessing": 0.5}, math.nan, "Nothing").axes[0]
    assert "nothing that could be compared" in nothing.texts[-1].get_text()
    tables = {"words": rows, "tokens": rows[:0], "texts": rows[:0]}
    said = "Not measured under this profile: tokens, texts."
    assert scoreboard.missing_measures(tables) == said
    assert scoreboard.missing_measures({"words": rows}) == ""


def test_tables_are_escaped_folded_and_have_whole_counts() -> None:
    table = pd.DataFrame({"who": ["a<b", "c"], "share": [0.25, math.nan], "n": [200.0, math.nan]})
    html = scoreboard.folded("1 < 2", table)
    assert html.startswith("<details><summary>1 &lt; 2</summary>") and html.endswith("</details>")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells == ["a&lt;b", "0.25", "200", "c", "", ""]


def test_verdicts_are_drawn_as_long_as_their_counts(examples: None) -> None:
    findings = scoreboard.counts_of_findings(judge(board(*OURS).by_notebook))
    fig = figures.verdict_counts(findings, 0, 2)
    assert fig.get_suptitle().startswith("1 of 5 statements are confirmed (0 in every")
    assert "1 contradicted (2 more" in fig.get_suptitle()
    assert [bar.get_width() for bar in fig.axes[0].patches if bar.get_width()] == [1] * 5
