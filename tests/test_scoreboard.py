"""Notebook 07: claims are complete, and what is read off lies where it should."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from textpriv import paths
from textpriv.errors import InvalidInput
from textpriv.experiments import scoreboard
from textpriv.experiments import scoreboard_figures as figures
from textpriv.experiments.scoreboard import Board, Contradiction, Sizes, crossing
from textpriv.privacy import Audit, write_audits
from textpriv.report import claims, results
from textpriv.report.claims import Claim
from textpriv.report.figures import style, use_style
from textpriv.report.results import Measurement, Results, measure
from textpriv.report.run import Run

matplotlib.use("Agg")

Z = 1.96


@pytest.fixture(autouse=True)
def _close() -> Any:
    use_style()  # as a notebook does first
    yield
    plt.close("all")


# --- Made-up results ----------------------------------------------------------------------------


def results_of(notebook: str, found: Iterable[Measurement], profile: str = "default") -> Results:
    return Results(
        notebook=notebook,
        profile=profile,
        seed=7,
        overrides={},
        commit="0123456789",
        dirty=True,
        device="cpu",
        dtype="float32",
        seconds=90.0,
        peak_mb=100.0,
        versions={},
        assets={},
        figures=[],
        measurements=[*found, measure("run.seconds", 90.0, unit="s")],
    )


def board(*found: Measurement, notebook: str = "05_reconstruction_attacks") -> Board:
    return Board("default", {notebook: results_of(notebook, found)}, {})


def rate(name: str, value: float, error: float = 0.0) -> Measurement:
    return measure(name, value, value - Z * error, value + Z * error, n=100)


def points(**curves: list[tuple[float, float, float, float]]) -> pd.DataFrame:
    """Rows of (epsilon, risk, accuracy, kept) per mechanism, with errors of 0.01 and 0.02."""
    return pd.DataFrame(
        [
            {
                "mechanism": mechanism,
                "epsilon": epsilon,
                "attack": "noisy-channel",
                "risk": risk,
                "risk_low": risk - Z * 0.01,
                "risk_high": risk + Z * 0.01,
                "accuracy": accuracy,
                "accuracy_low": accuracy - Z * 0.02,
                "accuracy_high": accuracy + Z * 0.02,
                "kept": kept,
            }
            for mechanism, rows in curves.items()
            for epsilon, risk, accuracy, kept in rows
        ]
    )


# --- The claims are complete --------------------------------------------------------------------

TABLES = {  # numbers that the papers print in their tables, as far as the text has kept them
    ("tong", "Table 1"): 10,
    ("tong", "Table 2"): 8,
    ("harel", "Table 1"): 30,
    ("harel", "Table 3"): 18,
    ("harel", "Table 4"): 42,
    ("harel", "Table 5"): 78,
    ("harel", "Table 6"): 78,
    ("utpala", "Table 2"): 81,  # one of them not clipped
    ("utpala", "Table 3"): 80,
    ("utpala", "Table 4"): 10,
    ("utpala", "Table 5"): 70,
    ("carpentier", "Table 1"): 8,
    ("carpentier", "Table 2"): 71,  # 24 originals and 47 replacements
}


def numbers() -> list[Claim]:
    return [claim for claim in claims.load() if claim.value is not None]


@pytest.mark.parametrize(("paper", "place"), TABLES)
def test_every_cell_of_every_table_is_a_claim(paper: str, place: str) -> None:
    cells = [
        claim
        for claim in numbers()
        if (claim.paper, claim.place) == (paper, place)
        and scoreboard.kind_of(claim) == scoreboard.VALUE
    ]
    assert len(cells) == TABLES[paper, place]


def test_every_claim_says_where_how_exact_and_against_what_or_why_not() -> None:
    every = claims.load()
    assert len({claim.id for claim in every}) == len(every)
    for claim in every:
        assert claim.place.strip() and claim.setting.strip(), claim.id
        assert claim.notebook in scoreboard.NOTEBOOKS, claim.id
        assert claim.compared == "always" or claim.reason.strip(), claim.id
        assert (claim.rounding is None) == (claim.value is None), claim.id


def test_no_number_is_printed_finer_than_its_rounding() -> None:
    for claim in numbers():
        if claim.id == "tong.figure4.agnews.embedding_inversion_to_inversion_bert":
            continue  # "approximately one-third"
        steps = (claim.value or 0) / (claim.rounding or 1)
        assert math.isclose(steps, round(steps), abs_tol=1e-6), claim.id


def test_carpentiers_replacements() -> None:
    """The second to fourth rows of each block of Table 2; draws cannot exceed a thousand."""
    found = {claim.id: claim.value for claim in claims.load()}
    prefix = "carpentier.table2"
    assert found[f"{prefix}.encryption.eps19.annoy.encrypted"] == 0.039
    assert found[f"{prefix}.hockey.eps25.exact.played"] == 0.001
    assert found[f"{prefix}.spacecraft.eps43.annoy.satellites"] == 0.008
    for word in ("encryption", "hockey", "spacecraft"):
        for eps in (19, 25, 35, 43):
            for search in ("annoy", "exact"):
                shown = [
                    value
                    for name, value in found.items()
                    if name.startswith(f"{prefix}.{word}.eps{eps}.{search}") and value is not None
                ]
                assert sum(shown) <= 1 + 1e-9
                assert max(shown) == found[f"{prefix}.{word}.eps{eps}.{search}"]


def test_settings_are_told_from_findings() -> None:
    kinds = Counter(scoreboard.kind_of(claim) for claim in claims.load())
    assert kinds[scoreboard.SETTING] == 63
    assert not [c.id for c in claims.load() if ".setting." in c.id and c.compared != "never"]
    assert set(kinds) == {scoreboard.VALUE, scoreboard.SETTING, *map(str, claims.Kind)}


# --- Verdicts -----------------------------------------------------------------------------------


def stated(name: str, **form: Any) -> Claim:
    return Claim.model_validate(
        {
            "id": name,
            "paper": "tong",
            "notebook": "05_reconstruction_attacks",
            "place": "Table 1",
            "setting": "any",
            "compared": "always",
            **form,
        }
    )


EXAMPLES = {
    "tong.same": stated("tong.same", trend={"greater": "a.high", "than": "a.low"}),
    "tong.within": stated("tong.within", trend={"greater": "a.high", "than": "a.close"}),
    "tong.tie": stated("tong.tie", trend={"greater": "a.high", "than": "a.same"}, tie="one map"),
    "tong.open": stated("tong.open", trend={"greater": "a.close", "than": "a.high"}),
    "tong.differs": stated("tong.differs", trend={"greater": "a.low", "than": "a.high"}),
    "tong.match": stated("tong.match", value=0.5, rounding=0.1, measurement="a.high"),
    "tong.missing": stated("tong.missing", trend={"greater": "a.high", "than": "a.absent"}),
    "tong.other": stated("tong.other", value=0.5, rounding=0.1, measurement="a.high",
                         compared="never", reason="another corpus"),
    "tong.setting.copies": stated("tong.setting.copies", value=3.0, rounding=1.0,
                                  measurement="setting.copies", compared="never", reason="chosen"),
}  # fmt: skip
OURS = (
    rate("a.high", 0.5, 0.01),
    rate("a.same", 0.5, 0.01),
    rate("a.close", 0.49, 0.01),
    rate("a.low", 0.2, 0.01),
)
EXPECTED = {
    "tong.same": scoreboard.SAME,
    "tong.within": scoreboard.WITHIN,
    "tong.tie": scoreboard.TIE,
    "tong.open": scoreboard.UNDECIDED,
    "tong.differs": scoreboard.DIFFERS,
    "tong.match": scoreboard.MATCH,
    "tong.missing": scoreboard.UNMEASURED,
    "tong.other": scoreboard.OTHER,
    "tong.setting.copies": scoreboard.SET_UP,
}


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "load", lambda: list(EXAMPLES.values()))


def test_every_outcome(examples: None) -> None:
    table = scoreboard.verdicts(board(*OURS)).set_index("claim")
    assert table["outcome"].to_dict() == EXPECTED
    assert table.loc["tong.same", "ours"] == "0.5, 0.2"
    assert table.loc["tong.differs", "verdict"] == "differs"
    assert set(EXPECTED.values()) == set(scoreboard.OUTCOMES)
    counted = scoreboard.counts(table.reset_index(), "paper")
    assert counted.loc["tong"].to_dict() == dict.fromkeys(scoreboard.OUTCOMES, 1)
    held = scoreboard.obstacles(table.reset_index())
    assert dict(zip(held["reason"], held["claims"], strict=True)) == {
        "another corpus": 1,
        "not measured: a.absent": 1,
    }


def test_statements_are_shown_with_their_verdicts(examples: None) -> None:
    found = scoreboard.judge(board(*OURS))
    table = scoreboard.judged(found)
    assert table["verdict"].tolist() == [
        "same trend", "same trend within the error", "tie", "undecided", "differs",
    ]  # fmt: skip
    assert scoreboard.judged(found, verdict=scoreboard.DIFFERS)["cells"].tolist() == [1]
    counted = scoreboard.counts_of_findings(found)
    assert counted.loc["tong"].to_dict() == dict.fromkeys(scoreboard.COMPARED, 1) | {"match": 0}
    assert counted.loc["harel"].sum() == 0
    nothing = scoreboard.judge(Board("smoke", board(*OURS).found, {}))
    assert scoreboard.judged(nothing).empty
    assert scoreboard.counts_of_findings(nothing).to_numpy().sum() == 0


def test_a_claim_of_the_paper_profile_is_compared_there(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = stated("tong.sst2", value=0.5, rounding=0.1, measurement="b.high", compared="paper",
                   under_paper={"b.": "a."}, reason="another corpus")  # fmt: skip
    monkeypatch.setattr(claims, "load", lambda: [claim])
    found = board(*OURS).found
    for profile, outcome, ours in (
        ("paper", scoreboard.MATCH, "0.5"),
        ("default", scoreboard.OTHER, ""),
    ):
        (row,) = scoreboard.verdicts(Board(profile, found, {})).to_dict("records")
        assert (row["outcome"], row["ours"]) == (outcome, ours)


def test_smoke_and_missing_notebooks_are_not_compared(examples: None) -> None:
    smoke = Board("smoke", board(*OURS).found, {})
    nothing = Board("default", {}, {"05_reconstruction_attacks": "run it"})
    for each in (smoke, nothing):
        outcomes = set(scoreboard.verdicts(each)["outcome"])
        assert outcomes == {scoreboard.UNMEASURED, scoreboard.OTHER, scoreboard.SET_UP}
    assert scoreboard.sources(nothing)["commit"].tolist() == ["run it"]
    row = scoreboard.sources(board(*OURS)).iloc[0]
    assert (row["commit"], row["minutes"]) == ("0123456 and changes", 1.5)


def test_gather_takes_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    found = results_of("01_mechanisms", [measure("a.b", 0.5)], "smoke")
    results.write(found, results.file("01_mechanisms", "smoke"))
    made = scoreboard.gather("smoke")
    assert list(made.found) == ["01_mechanisms"]
    assert list(made.missing) == list(scoreboard.NOTEBOOKS[1:])
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
    assert scoreboard.told([]) == "none"
    assert scoreboard.told(["a"]) == "a"
    assert scoreboard.told(["a", "b", "c"]) == "a, b and c"


def test_the_ends_differ_only_by_a_test() -> None:
    """0.1 apart with errors of 0.03 each: p 0.018, which three pairs make 0.055."""
    columns = ["mechanism", "value", "low", "high"]

    def at(*rows: tuple[str, float, float]) -> pd.DataFrame:
        return pd.DataFrame([[m, v, v - Z * e, v + Z * e] for m, v, e in rows], columns=columns)

    two = at(("tem", 0.7, 0.03), ("madlib", 0.6, 0.03))
    said = scoreboard.ends(two, 0.5)
    assert "recovers 50%" in said and said.endswith("(TEM): they differ.")
    assert said.index("0.60") < said.index("0.70")
    three = pd.concat([two, at(("santext", 0.65, 0.03))])
    assert scoreboard.ends(three, 0.5).endswith("undecided at this size.")
    assert scoreboard.ends(two[:1], 0.5).startswith("No two mechanisms share a risk")


def test_what_hiding_costs_is_said_by_a_test() -> None:
    made = board(
        rate("pr1.noise-50.imdb.naive", 0.1),  # nobody has attacked it in earnest
        rate("accuracy.noise-50.imdb.all", 0.5),
        rate("pr1.stencil-w9-s0.2.imdb.naive", 0.9),
        rate("pr1.stencil-w9-s0.2.imdb.deconvolution", 0.8),
        rate("pr1.punctuated-stencil-w9-s1.0.imdb.deconvolution_lm", 0.3),
        rate("accuracy.plain.imdb.all", 0.8, 0.01),
        rate("accuracy.stencil-w9-s0.2.imdb.all", 0.7, 0.01),
        rate("accuracy.punctuated-stencil-w9-s1.0.imdb.all", 0.6, 0.01),
    )
    said = scoreboard.least_read(made, scoreboard.manipulated_tokens(made))
    assert "punctuated-stencil-w9-s1.0 is read back least" in said and "30% of the tokens" in said
    assert said.endswith("a loss beyond the error.")
    close = board(
        *(each for each in made.measured.values() if each.name != "accuracy.plain.imdb.all"),
        rate("accuracy.plain.imdb.all", 0.61, 0.01),
    )
    tokens = scoreboard.manipulated_tokens(close)
    assert scoreboard.least_read(close, tokens).endswith("undecided at this size.")
    assert scoreboard.least_read(board(), scoreboard.manipulated_tokens(board())) == ""


# --- Contradictions -----------------------------------------------------------------------------


def test_every_contradiction_names_claims_that_exist() -> None:
    table = scoreboard.contradictions(board())
    assert len(table) == len(scoreboard.CONTRADICTIONS)
    assert set(table["measured"]) == {""}
    for each in scoreboard.CONTRADICTIONS:
        assert set(each.papers) <= set(claims.PAPERS)
        assert each.printed or each.measured
        for name in each.measured.values():
            measure(name, 0.5)


@pytest.mark.skipif(
    not results.file("05_reconstruction_attacks").exists(), reason="no committed results"
)
def test_contradictions_quote_what_the_notebooks_have_measured() -> None:
    made = scoreboard.gather("default")
    missing = [
        name
        for each in scoreboard.CONTRADICTIONS
        for name in each.measured.values()
        if name not in made.measured
    ]
    assert not missing


def test_numbers_of_contradictions_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Contradiction(
        ("tong",), "itself", "two numbers",
        {"first": "tong.table1.k1.attack", "second": "tong.table2.shadow5.context_free"},
        {"ours": "a.b", "not there": "a.c"},
    )  # fmt: skip
    monkeypatch.setattr(scoreboard, "CONTRADICTIONS", (one,))
    row = scoreboard.contradictions(board(measure("a.b", 0.25, 0.2, 0.3))).iloc[0]
    assert row["printed"] == "first: 0.47; second: 0.496"
    assert row["measured"] == "ours: 0.25 (0.2 to 0.3)"
    wrong = one._replace(printed={"first": "tong.absent"})
    monkeypatch.setattr(scoreboard, "CONTRADICTIONS", (wrong,))
    with pytest.raises(InvalidInput, match=r"expected ids of claims, got tong\.absent"):
        scoreboard.contradictions(board())


def test_numbers_printed_twice() -> None:
    """Table 4 against 5 and 5 against 6; 54.0 against 54.1 is within the rounding of both."""
    table = scoreboard.printed_twice()
    assert set(table["paper"]) == {"harel"}
    found = {
        (row.setting, row.value, row.other)
        for row in table.rename(columns={"other value": "other"}).itertuples()
    }
    assert ("SST2, RoBERTa, Stenp(9, 1.0), Test", 0.85, 0.86) in found
    assert ("QNLI, T5-small, Sten(9, 0.2), All", 0.851, 0.847) in found
    assert len(found) == 8
    assert not [setting for setting, *_ in found if setting == "QNLI, T5-small, Sten(9, 0.8), Pr@5"]


def test_orderings_that_the_papers_own_numbers_deny() -> None:
    table = scoreboard.untrue_of_own_numbers()
    assert table["printed"].tolist() == ["12", "0.814, 0.817", "0.814, 0.82", "0.814, 0.816"]


# --- Equal risk ---------------------------------------------------------------------------------


def test_crossing_lies_between_the_neighbours() -> None:
    at = crossing([0.1, 0.3, 0.7], 0.4)
    assert at is not None
    assert (at.left, at.weight) == (1, pytest.approx(0.25))
    assert at.of([1.0, 2.0, 6.0]) == pytest.approx(3.0)
    assert crossing([0.1, 0.3], 0.31) is None  # never beyond what was measured
    assert crossing([0.1, 0.3], 0.09) is None
    assert crossing([0.5], 0.5) is None
    assert crossing([0.5, 0.5], 0.5) is None
    assert crossing([0.1, 0.3], 0.1) == (0, 0.0)
    first = crossing([0.1, 0.5, 0.2, 0.5], 0.3)  # of several places the first
    assert first is not None and first.left == 0
    falling = crossing([0.5, 0.1], 0.2)
    assert falling is not None and falling.weight == pytest.approx(0.75)


def test_tasks_at_equal_risk_by_hand() -> None:
    """Half-way between two epsilons, with the errors of accuracy and of the risk."""
    found = points(
        tem=[(3, 0.65, 0.9, 0.7), (1, 0.4, 0.6, 0.3), (2, 0.6, 0.8, 0.5)],
        madlib=[(9, 0.9, 0.9, 0.9)],
    )
    table = scoreboard.tasks_at_equal_risk(found, board(), (0.5, 0.7))
    assert len(table) == 1  # 0.7 is reached by nobody, and madlib has one epsilon
    row = table.iloc[0]
    assert (row["mechanism"], row["task"], row["epsilon"]) == ("tem", "attacked sentences", 1.5)
    assert row["value"] == pytest.approx(0.7)
    slope = 0.2 / 0.2  # accuracy per risk
    error = math.hypot(0.02, slope * 0.01)
    assert row["high"] - row["value"] == pytest.approx(Z * error)
    assert row["value"] - row["low"] == pytest.approx(Z * error)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the plotted numbers of notebook 01."""
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)


@pytest.mark.usefixtures("no_figures")
def test_tasks_on_other_corpora_are_read_off_at_the_same_words_kept() -> None:
    found = points(tem=[(1, 0.4, 0.6, 0.2), (2, 0.6, 0.8, 0.6)])
    made = board(
        rate("sentiment.imdb.tem.kept0.3", 0.70, 0.03),
        rate("sentiment.imdb.tem.kept0.5", 0.80, 0.03),
        rate("sentiment.imdb.tem.kept0.7", 0.99, 0.0),
        rate("sentiment.imdb.madlib.kept0.3", 0.1, 0.03),
        rate("sentiment.imdb.original.kept1", 0.9, 0.03),
    )
    table = scoreboard.tasks_at_equal_risk(found, made, (0.5,)).set_index("task")
    row = table.loc["imdb"]
    assert row["value"] == pytest.approx(0.75)  # 0.4 of the words are kept
    per_risk = (0.1 / 0.2) * (0.4 / 0.2)  # accuracy per word kept, words kept per risk
    assert row["high"] - row["value"] == pytest.approx(Z * math.hypot(0.03, per_risk * 0.01))
    # Where notebook 01 has no such share of words, nothing is read off.
    assert "imdb" not in scoreboard.tasks_at_equal_risk(found, made, (0.42,))["task"].tolist()


@pytest.mark.usefixtures("no_figures")
def test_mechanisms_without_an_attack_are_shown_at_equal_effect() -> None:
    made = board(
        rate("sentiment.imdb.vickrey.kept0.5", 0.80, 0.03),
        rate("sentiment.imdb.tem.kept0.5", 0.70, 0.03),
        rate("sentiment.rotten-tomatoes.tem.kept0.3", 0.60, 0.02),
    )
    table = scoreboard.at_equal_effect(points(tem=[(1, 0.4, 0.6, 0.2)]), made)
    assert len(table) == 3
    row = table[table["mechanism"] == "vickrey"].iloc[0]
    assert (row["kept"], row["task"], row["value"], row["attacked"]) == (0.5, "imdb", 0.8, False)
    assert row["high"] - row["value"] == pytest.approx(Z * 0.03)
    assert table[table["mechanism"] == "tem"]["attacked"].all()
    assert table["kept here"].tolist() == table["kept"].tolist()  # nothing else is known
    assert scoreboard.at_equal_effect(points(tem=[(1, 0.4, 0.6, 0.2)]), board()).empty


def test_reviews_are_read_off_at_the_words_kept_in_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "figures").mkdir()
    pd.DataFrame(
        [
            ("tem", 0.3, 0.2, "reviews"),
            ("tem", 0.5, 0.4, "reviews"),
            ("tem", 0.3, 0.9, "sentences"),
        ],
        columns=["mechanism", "kept", "kept_here", "corpus"],
    ).to_csv(tmp_path / "figures" / "fig01_sentiment.csv", index=False)
    made = board(
        rate("sentiment.imdb.tem.kept0.3", 0.70, 0.03),
        rate("sentiment.imdb.tem.kept0.5", 0.80, 0.03),
    )
    found = points(tem=[(1, 0.4, 0.6, 0.2), (2, 0.6, 0.8, 0.6)])
    effect = scoreboard.at_equal_effect(found, made)
    assert effect["kept"].tolist() == [0.3, 0.5] and effect["kept here"].tolist() == [0.2, 0.4]
    table = scoreboard.tasks_at_equal_risk(found, made, (0.45,)).set_index("task")
    assert table.loc["imdb", "value"] == pytest.approx(0.75)  # 0.3 of the words


def test_accuracies_stay_between_0_and_1() -> None:
    found = points(tem=[(1, 0.4, 0.999, 0.2), (2, 0.6, 0.001, 0.6)])
    table = scoreboard.tasks_at_equal_risk(found, board(), (0.4, 0.6))
    assert table["high"].tolist()[0] == 1 and table["low"].tolist()[1] == 0


def test_the_best_attack_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    assert scoreboard.word_points(board()).empty  # no figure of notebook 05
    by_epsilon = {2.0: (0.5, 0.4), 1.0: (0.2, 0.3)}
    rows = [
        ("tem", epsilon, attack, value)
        for epsilon, pair in by_epsilon.items()
        for attack, value in zip(("context-free-bound", "noisy-channel"), pair, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["mechanism", "epsilon", "attack", "value"])
    for name in ("low", "high", "accuracy", "accuracy_low", "accuracy_high", "kept"):
        table[name] = 0.5
    (tmp_path / "figures").mkdir()
    table.to_csv(tmp_path / "figures" / "fig05_risk.csv", index=False)
    found = scoreboard.word_points(board()).set_index("epsilon")
    assert found["risk"].to_dict() == {2.0: 0.5, 1.0: 0.3}
    assert found["attack"].to_dict() == {2.0: "context-free-bound", 1.0: "noisy-channel"}
    assert scoreboard.word_points(Board("default", {}, {})).empty


def test_attacks_at_equal_risk() -> None:
    """Each attack at the epsilon where the best one has the risk, between its own epsilons."""
    found = points(**{"custext+": [(2, 0.4, 0.6, 0.2), (6, 0.8, 0.8, 0.6)]})
    made = board(
        rate("asr.custext.rotten-tomatoes.eps2.embedding_inversion", 0.1, 0.01),
        rate("asr.custext.rotten-tomatoes.eps4.embedding_inversion", 0.3, 0.01),
        rate("asr.custext.rotten-tomatoes.eps6.embedding_inversion", 0.9, 0.01),
        rate("asr.custext.imdb.eps2.embedding_inversion", 0.9, 0.01),
        rate("asr.custext.rotten-tomatoes.eps4.noisy_channel", 0.1, 0.02),
        rate("risk.custext+.eps2.noisy_channel", 0.4, 0.02),
        rate("risk.custext+.eps6.noisy_channel", 0.8, 0.02),
        rate("paired.custext.rotten-tomatoes.eps2.embedding_inversion", 0.7, 0.01),
        rate("paired.custext.rotten-tomatoes.eps6.inversion_bert", 0.7, 0.01),
    )
    table = scoreboard.attacks_at_equal_risk(found, made, 0.5).set_index("attack")
    assert set(table["mechanism"]) == {"custext+"}
    # epsilon 3: half-way between 2 and 4 of the attack, which "paired" does not override
    assert table.loc["embedding-inversion", "value"] == pytest.approx(0.2)
    assert table.loc["embedding-inversion", "apart"] == 2
    assert table.loc["noisy-channel", "value"] == pytest.approx(0.5)
    # Of the best attack's own sentences, and of others; a curve never mixes the two.
    assert table["same"].to_dict() == {"embedding-inversion": False, "noisy-channel": True}
    assert "inversion-bert" not in table.index  # one epsilon is no curve
    assert scoreboard.attacks_at_equal_risk(found, made, 0.9).empty


def test_other_panels() -> None:
    made = board(
        rate("pr1.stencil-w9-s0.2.rotten-tomatoes.naive", 0.3),
        rate("pr1.stencil-w9-s0.2.rotten-tomatoes.deconvolution_lm", 0.6),
        rate("pr1.punctuated-stencil-w9-s1.0.imdb.naive", 0.1),
        rate("pr1.noise-100.imdb.naive", 0.8),
        rate("pr1.2-random.imdb.context_free", 0.7),
        rate("accuracy.stencil-w9-s0.2.rotten-tomatoes.all", 0.66),
        rate("accuracy.punctuated-stencil-w9-s1.0.imdb.all", 0.65),
        rate("accuracy.noise-100.imdb.all", 0.64),
        rate("accuracy.noise-100.imdb.test", 0.5),
        rate("f1_at_risk.0.15.dp-prompt", 0.5, 0.01),
        rate("loss.llm.eps27.2", 0.4, 0.01),
        rate("loss.changed.eps27.2", 0.9, 0.01),
        rate("loss.llm.eps30", 0.4, 0.01),
    )
    tokens = scoreboard.manipulated_tokens(made).set_index("mapper")
    assert list(tokens.index) == ["stencil-w9-s0.2", "punctuated-stencil-w9-s1.0", "noise-100"]
    assert tokens["mechanism"].tolist() == ["stencil", "punctuated-stencil", "noise"]
    row = tokens.loc["stencil-w9-s0.2"]
    assert (row["attack"], row["risk"], row["value"]) == ("deconvolution-lm", 0.6, 0.66)
    assert tokens.loc["noise-100", "value"] == 0.64  # trained on manipulated text
    for name in tokens["mechanism"]:
        style(name)
    assert scoreboard.authors(made).iloc[0].tolist()[:3] == ["dp-prompt", 0.15, 0.5]
    summaries = scoreboard.summaries(made)
    assert len(summaries) == 1  # eps 30 has no count of pieces
    assert summaries.iloc[0]["kept"] == pytest.approx(0.1)


def test_what_is_missing_is_said() -> None:
    empty = Board("smoke", {}, {"03_lossy_and_stencil": "run it"})
    nothing = points()
    columns = ["mechanism", "task", "risk", "epsilon", "value", "low", "high"]
    tasks = pd.DataFrame(columns=columns)
    nothing = nothing.reindex(columns=["mechanism", "epsilon"])
    said = " ".join(scoreboard.missing_measures(nothing, tasks, empty))
    for part in (
        "Notebook 03",
        "run it",
        "word-level",
        "notebook 03",
        "notebook 04",
        "notebook 06",
    ):
        assert part in said
    one = points(tem=[(1, 0.4, 0.6, 0.2)])
    said = " ".join(scoreboard.missing_measures(one, tasks, empty))
    assert "No common risk lies between the epsilons of tem" in said


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


def test_audits_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "audits.json"
    assert scoreboard.audits(path) is None
    assert scoreboard.caught(path) == ""
    note = scoreboard.audited(None)
    assert "make audit" in note["note"].iloc[0]
    write_audits(AUDITS, path, {"mutants_caught": 18, "mutants_tried": 19})
    found = scoreboard.audits(path)
    assert found is not None
    assert scoreboard.audited(found)["verdict"].tolist() == [
        "holds", "holds", "undecided", "broken", "no claim",
    ]  # fmt: skip
    assert "Of 19" in scoreboard.caught(path) and "catch 18" in scoreboard.caught(path)


def test_statements(tmp_path: Path) -> None:
    path = tmp_path / "statements.json"
    assert "make audit" in scoreboard.statements(path)["note"].iloc[0]
    row = {"mechanism": "tem", "setting": "eps 2.4", "nominal": 240.0, "tight": "nan",
           "attacked": {"success": {"value": 0.34}}, "said": "At most."}  # fmt: skip
    other = row | {"mechanism": "noise", "nominal": "inf", "attacked": None}
    path.write_text(json.dumps({"statements": [row, other]}))
    table = scoreboard.statements(path)
    assert table["mechanism"].tolist() == ["tem", "noise"]
    assert table["nominal"].tolist() == [240.0, math.inf]
    assert table["tight"].isna().all()
    assert table["success"].iloc[0] == 0.34 and math.isnan(table["success"].iloc[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON"),
        ("[]", "expected a table, got list"),
        ("{}", "expected statements of make audit"),
        ('{"statements": [{"mechanism": "tem"}]}', "expected statements of make audit"),
    ],
)
def test_other_files_are_no_statements(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "statements.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        scoreboard.statements(path)


# --- Records ------------------------------------------------------------------------------------


def test_record(examples: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run("07_scoreboard", "smoke", 7, {})
    found = points(**{"custext+": [(1, 0.4, 0.6, 0.3), (2, 0.6, 0.8, 0.5)]})
    tasks = scoreboard.tasks_at_equal_risk(found, board(), (0.55,))
    effect = scoreboard.at_equal_effect(found, board(rate("sentiment.imdb.tem.kept0.3", 0.7, 0.03)))
    stated = scoreboard.judge(board(*OURS))
    scoreboard.record(run, scoreboard.verdicts(board(*OURS)), stated, tasks, effect, AUDITS)
    counted = {name: run.measurement(f"claims.findings.{name}").value
               for name in ("holds", "against", "open", "tie")}  # fmt: skip
    assert counted == {"holds": 1, "against": 1, "open": 2, "tie": 1}
    assert run.measurement("claims.findings.holds").unit == "statements"
    assert run.measurement("equal_effect.kept0.3.tem.imdb").value == 0.7
    assert run.measurement("claims.tong.same_trend_within_the_error").value == 1
    assert run.measurement("claims.tong.differs").unit == "claims"
    at = run.measurement("equal_risk.0.55.custext+.attacked_sentences")
    assert at.low is not None and at.low < at.value == pytest.approx(0.75)
    assert run.measurement("audit.wrong.violations").value == 2
    assert run.measurement("audit.santext.worst_ratio").value == 0.74
    again = Run("07_scoreboard", "smoke", 7, {})
    scoreboard.record(again, scoreboard.verdicts(board(*OURS)), stated, tasks, effect, None)
    with pytest.raises(InvalidInput):
        again.measurement("audit.santext.worst_ratio")


@pytest.mark.parametrize("profile", ["smoke", "default", "paper"])
def test_sizes_of_every_profile(profile: str) -> None:
    sizes = Run("07_scoreboard", profile, 7, {}).sizes(Sizes)
    assert sizes.shown_risk in sizes.risks
    assert list(sizes.risks) == sorted(sizes.risks)


# --- Figures ------------------------------------------------------------------------------------


def test_bars_are_as_long_as_the_counts(examples: None) -> None:
    table = scoreboard.verdicts(board(*OURS))
    findings = scoreboard.counts_of_findings(scoreboard.judge(board(*OURS)))
    fig = figures.verdict_counts(scoreboard.counts(table, "paper"), findings)
    left, right = fig.axes

    def bars(ax: Any) -> list[tuple[float, float, str]]:
        found = [
            patch for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_width()
        ]
        return [(p.get_x(), p.get_width(), to_hex(p.get_facecolor())) for p in found]

    assert [width for _, width, _ in bars(left)] == [6, 1, 1, 1]  # six are compared with ours
    shown = [name for name in scoreboard.COMPARED if name != scoreboard.MATCH]  # of a number
    assert [start for start, *_ in bars(right)] == [0, 1, 2, 3, 4]
    expected = [figures.OUTCOMES[name]["color"].lower() for name in shown]
    assert [color for *_, color in bars(right)] == expected
    assert "9 claims" in left.get_title(loc="left") and "5" in right.get_title(loc="left")
    named = {text.get_text() for text in fig.legends[0].get_texts()}
    assert named == {*scoreboard.OUTCOMES, figures.ALL_COMPARED} - {scoreboard.MATCH}


def test_outcomes_look_different_in_grey_or_by_hatching() -> None:
    def grey(color: str) -> float:
        return float(np.dot(matplotlib.colors.to_rgb(color), (0.299, 0.587, 0.114)))

    looks = [figures.OUTCOMES[name] for name in scoreboard.COMPARED]
    assert len({(round(grey(look["color"]), 2), look["hatch"]) for look in looks}) == len(looks)
    assert figures.OUTCOMES[scoreboard.DIFFERS]["hatch"]


def test_risk_and_utility() -> None:
    found = points(**{"custext+": [(2, 0.4, 0.6, 0.2), (6, 0.8, 0.8, 0.6)]})
    made = board(
        rate("asr.custext.rotten-tomatoes.eps4.noisy_channel", 0.1, 0.02),
        rate("risk.custext+.eps2.noisy_channel", 0.4, 0.02),
        rate("risk.custext+.eps6.noisy_channel", 0.8, 0.02),
        rate("pr1.noise-100.imdb.naive", 0.8),
        rate("accuracy.noise-100.imdb.all", 0.64),
        rate("f1_at_risk.0.15.tem-300d", 0.5, 0.01),
        rate("loss.llm.eps27", 0.4, 0.01),
        rate("loss.changed.eps27", 0.9, 0.01),
    )
    tasks = scoreboard.tasks_at_equal_risk(found, made, (0.5, 0.6))
    fig = figures.risk_utility(
        scoreboard.attacks_at_equal_risk(found, made, 0.5),
        tasks,
        scoreboard.manipulated_tokens(made),
        scoreboard.authors(made),
        scoreboard.summaries(made),
        risk=0.5,
    )
    fig.canvas.draw()
    attacks, by_risk, at, tokens, authors, summaries, names = fig.axes
    assert [tick.get_text() for tick in attacks.get_yticklabels()] == ["CusText+"]
    drawn = attacks.containers[0].lines[0]
    assert drawn.get_xdata()[0] == pytest.approx(0.5)
    assert drawn.get_color() == style("noisy-channel")["color"]
    assert by_risk.containers[0].lines[0].get_ydata() == pytest.approx([0.65, 0.7])
    assert at.containers[0].lines[0].get_xdata()[0] == pytest.approx(0.65)
    assert (tokens.lines[0].get_xdata()[0], tokens.lines[0].get_ydata()[0]) == (0.8, 0.64)
    assert authors.containers[0].lines[0].get_markerfacecolor() == "white"
    assert summaries.containers[0].lines[0].get_xdata()[0] == pytest.approx(0.1)
    legend = names.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["CusText+", "noise", "TEM"]


def test_nothing_to_compare_is_said_in_every_panel() -> None:
    nothing = Board("smoke", {}, {})
    none = scoreboard.word_points(nothing)
    fig = figures.risk_utility(
        scoreboard.attacks_at_equal_risk(none, nothing, 0.5),
        scoreboard.tasks_at_equal_risk(none, nothing, (0.5,)),
        scoreboard.manipulated_tokens(nothing),
        scoreboard.authors(nothing),
        scoreboard.summaries(nothing),
        risk=0.5,
    )
    fig.canvas.draw()
    said = [text.get_text() for ax in fig.axes for text in ax.texts]
    assert len([text for text in said if text.startswith("nothing")]) == 6


def test_audits_are_drawn_against_1() -> None:
    fig = figures.audits(scoreboard.audited(AUDITS))
    (ax,) = fig.axes
    dots = [line for line in ax.lines if line.get_marker() in {"o", "s", "X"}]
    assert [line.get_xdata()[0] for line in dots] == [0.74, 0.9, 0.8, 1.3]
    assert [line.get_color() for line in dots] == [
        figures.VERDICTS[name][0] for name in ("holds", "holds", "undecided", "broken")
    ]
    assert [line.get_ydata()[0] for line in dots] == [3, 2, 1, 0]
    reach = [line.get_xdata()[1] for line in ax.lines if line.get_marker() == "None"]
    assert reach == [1.05, 1]  # of madlib, which was drawn, and the claim's own line
    assert "1 without a claim" in ax.get_title(loc="left")
    note = figures.audits(scoreboard.audited(None))
    assert "make audit" in note.axes[0].texts[0].get_text()
