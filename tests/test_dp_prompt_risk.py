"""The strongest attacker, equal risk, means and likeness of notebook 04: tables by hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from tiny_models import tiny_encoder

from textpriv import paths, report
from textpriv.attacks.f1 import f1_estimate, macro_f1
from textpriv.experiments import dp_prompt_risk as experiment
from textpriv.experiments.dp_prompt import DOCUMENTS, Output
from textpriv.experiments.dp_prompt_risk import STATIC
from textpriv.models import Encoder, similarity
from textpriv.report.difference import Difference
from textpriv.stats import Influence, clustered_mean

IntArray = NDArray[np.int64]

TARGETS = ("author", "sentiment")
ADAPTIVE, EMBEDDING, TEXT = "adaptive", "embedding", "text"
NUMBER = np.arange(36)
RANDOM = {"author": 0.1, "sentiment": 0.5}


@pytest.fixture(scope="module")
def encoder(exact_throughout: None, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("risk"), longest=256)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> report.Run:
    """Of notebook 04, so that its claims say which pairs matter; it writes into a folder."""
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    return report.begin("04_dp_prompt", "smoke")


def influence(*labels: Any) -> Influence:
    draw = np.random.default_rng(list("/".join(map(str, labels)).encode()))
    return Influence(DOCUMENTS, NUMBER, 0.005 * draw.standard_normal(36))


def made(
    mechanism: str,
    levels: Sequence[float],
    author: Sequence[float],
    sentiment: Sequence[float],
    *,
    attacker: str = ADAPTIVE,
    access: str = EMBEDDING,
    unit: str = "eps",
) -> list[dict[str, Any]]:
    """Rows of a table; the interval of a sentiment reaches 0.05 down and 0.02 up.

    Effects of the 36 documents are 0.005 on average, of every row others.
    """
    return [
        {
            "mechanism": mechanism,
            "setting": f"{unit}{level:g}",
            "level": level,
            "target": target,
            "attacker": attacker,
            "access": access,
            "value": value,
            "low": value - down,
            "high": min(value + up, 1.0),
            "n": 36,
            "influence": influence(mechanism, level, target, attacker, access),
        }
        for level, *values in zip(levels, author, sentiment, strict=True)
        for target, value, down, up in zip(TARGETS, values, (0.1, 0.05), (0.1, 0.02), strict=True)
    ]


AT_RISK = ["mechanism", "risk", "level", "value", "low", "high", "by", "influence"]
HERE: dict[str, str] = {"attacker": ADAPTIVE, "access": EMBEDDING}
REACH = 1.959964


def four_attackers() -> pd.DataFrame:
    """As DP-Prompt was found: the adaptive attacker with embeddings is not the strongest."""
    static, text = {"attacker": STATIC}, {"access": TEXT}
    prompt = partial(made, "dp-prompt", [0.75, 1.75], unit="t")
    return pd.DataFrame(
        [
            *prompt([0.13, 0.06], [0.58, 0.48]),
            *prompt([0.22, 0.07], [0.51, 0.45], **static),
            *prompt([0.15, 0.14], [0.50, 0.49], **text),
            *prompt([0.25, 0.08], [0.55, 0.44], **static, **text),
            *made("truncated-laplace", [5, 400], [0.1, 0.3], [0.4, 0.6]),
            *made("truncated-laplace", [5, 400], [0.2, 0.5], [0.5, 0.5], **static),
        ]
    )


def test_the_strongest_attacker_by_hand() -> None:
    table = four_attackers()
    strongest = experiment.strongest_of(table)
    assert list(strongest.columns) == [*table.columns, "by", "tried"]
    keys = ["mechanism", "setting", "target", "by", "tried", "value"]
    assert strongest[keys].to_numpy().tolist() == [
        ["dp-prompt", "t0.75", "author", "static text", 4, 0.25],
        ["dp-prompt", "t0.75", "sentiment", "adaptive embedding", 4, 0.58],
        ["dp-prompt", "t1.75", "author", "adaptive text", 4, 0.14],
        ["dp-prompt", "t1.75", "sentiment", "adaptive text", 4, 0.49],
        ["truncated-laplace", "eps5", "author", "static embedding", 2, 0.2],
        ["truncated-laplace", "eps5", "sentiment", "static embedding", 2, 0.5],
        ["truncated-laplace", "eps400", "author", "static embedding", 2, 0.5],
        ["truncated-laplace", "eps400", "sentiment", "adaptive embedding", 2, 0.6],
    ]
    assert set(strongest["attacker"]) == {experiment.STRONGEST}
    # Simultaneous over four: 2.4977 in place of 1.96 deviations.
    first = strongest.iloc[0]
    assert [first["low"], first["high"]] == pytest.approx([0.12257, 0.37743], abs=1e-4)
    (own,) = table.loc[table["value"] == first["value"], "influence"]
    assert first["influence"] is own


def test_what_is_left_where_the_author_is_hidden() -> None:
    clean = [row | {"setting": "plain"} for row in made("clean", [0], [0.6], [0.7])]
    # Intervals of authors reach 0.1 up; 0.2 + 0.1 is at most 0.3, 0.23 + 0.1 is not.
    words = made("madlib", [2, 5, 8], [0.05, 0.2, 0.23], [0.5, 0.55, 0.65])
    table = pd.DataFrame([*clean, *words, *made("tem", [1], [0.1], [0.52])])
    for most, best in ((0.31, "0.55 at best (MADLIB, ε 5"), (0.34, "0.65 at best (MADLIB, ε 8")):
        assert f"{best}; clean: 0.70)" in experiment.hidden(table, most)
    assert experiment.hidden(table, 0.1).startswith("No setting is shown to hide")


def test_equal_risk_is_that_of_the_strongest_attacker() -> None:
    """Who reads it off for the adaptive attacker alone, the named wrong version, finds 0.5."""
    table = four_attackers()
    (row,) = experiment.at_equal_risk(experiment.strongest_of(table), [0.195])[
        lambda level: level["mechanism"] == "dp-prompt"
    ].itertuples()
    assert row.value == pytest.approx((0.58 + 0.49) / 2) and row.level == pytest.approx(1.25)
    assert row.by == "adaptive text or static text"
    reach = 2.49771 * row.influence.error
    assert (row.low, row.high) == pytest.approx((row.value - reach, row.value + reach))
    alone = experiment.at_equal_risk(table, [0.195], **HERE)
    assert "dp-prompt" not in set(alone["mechanism"])  # which its author F1 never reaches


def test_equal_risk_by_hand() -> None:
    table = pd.DataFrame(
        [
            *made("madlib", [8, 2, 5], [0.5, 0.1, 0.3], [0.7, 0.6, 0.8]),
            *made("tem", [1, 2, 3, 4], [0.4, 0.2, 0.3, 0.1], [0.9, 0.5, 0.6, 0.3]),  # up, and down
            *made("dp-prompt", [2, 1], [0.2, 0.4], [0.5, 0.6]),  # hot is private
            *made("clean", [0], [0.2], [0.9]),  # one setting is no line
            *made("madlib", [2, 8], [0.1, 0.9], [0.1, 0.1], attacker=STATIC),
            *made("madlib", [2, 8], [0.1, 0.9], [0.2, 0.2], access=TEXT),
        ]
    )
    assert list(experiment.at_equal_risk(table, [0], **HERE).columns) == AT_RISK
    at_risk = experiment.at_equal_risk(table, [0.05, 0.2, 0.35, 0.5, 0.55], **HERE)
    assert list(at_risk.columns) == AT_RISK
    assert set(at_risk["by"]) == {"adaptive embedding"}
    assert at_risk[["mechanism", "risk", "level", "value"]].to_numpy().tolist() == [
        ["madlib", 0.2, pytest.approx(3.5), pytest.approx(0.7)],
        ["madlib", 0.35, pytest.approx(5.75), pytest.approx(0.775)],
        ["madlib", 0.5, pytest.approx(8.0), pytest.approx(0.7)],
        ["tem", 0.2, pytest.approx(2.0), pytest.approx(0.5)],
        ["dp-prompt", 0.2, pytest.approx(2.0), pytest.approx(0.5)],
        ["dp-prompt", 0.35, pytest.approx(1.25), pytest.approx(0.575)],
    ]
    reach = [REACH * each.error for each in at_risk["influence"]]
    assert (at_risk["value"] - at_risk["low"]).tolist() == pytest.approx(reach)
    assert (at_risk["high"] - at_risk["value"]).tolist() == pytest.approx(reach)
    for kind, value in (({"attacker": STATIC}, 0.1), ({"access": TEXT}, 0.2)):
        (other,) = experiment.at_equal_risk(table, [0.5], **HERE | kind)["value"]
        assert other == pytest.approx(value)


def test_influence_at_equal_risk_by_hand() -> None:
    """A third of the way from 0.2 to 0.5 on a line whose slope is 2 / 3."""
    rows = made("madlib", [2, 8], [0.2, 0.5], [0.6, 0.8])
    (author, sentiment), (other_author, other_sentiment) = (
        [row["influence"].effect for row in rows[start : start + 2]] for start in (0, 2)
    )
    at_start, at_end = sentiment - 2 / 3 * author, other_sentiment - 2 / 3 * other_author
    level = made("madlib", [2, 8], [0.2, 0.2], [0.6, 0.8])
    for table, risk, expected in (
        (rows, 0.3, 2 / 3 * at_start + 1 / 3 * at_end),
        (rows, 0.2, at_start),  # at an end that of the setting there, moved along its line
        (level, 0.2, sentiment),  # two settings with the same risk have no line between them
    ):
        (combined,) = experiment.at_equal_risk(pd.DataFrame(table), [risk], **HERE)["influence"]
        np.testing.assert_allclose(combined.effect, expected)


def test_the_error_at_equal_risk_is_that_of_the_bootstrap() -> None:
    """Within 15%, where 1,000 resamples leave 2.2% to chance.

    With the author F1 taken for exact, the named wrong version, it is less than 0.75 of it.
    """
    rng = np.random.default_rng(0)
    classes = {"author": 3, "sentiment": 2}
    truth = {target: rng.integers(most, size=300) for target, most in classes.items()}
    guess = {
        (level, target): np.where(
            rng.random(300) < right, truth[target], rng.integers(classes[target], size=300)
        )
        for level, *rights in ((2, 0.2, 0.1), (8, 0.5, 0.7))
        for target, right in zip(TARGETS, rights, strict=True)
    }
    whole = pd.DataFrame(
        {"mechanism": "madlib", "level": level, "target": target, "attacker": ADAPTIVE}
        | {"access": EMBEDDING}
        | f1_estimate(truth[target], each, classes[target], rng, sample="made up").columns()
        for (level, target), each in guess.items()
    )
    risk = whole.loc[whole["target"] == "author", "value"].mean()
    (combined,) = experiment.at_equal_risk(whole, [risk], **HERE)["influence"]
    drawn = []
    for _ in range(1000):
        rows = rng.integers(300, size=300)
        f1 = {
            (level, target): macro_f1(truth[target][rows], each[rows], classes[target])
            for (level, target), each in guess.items()
        }
        line = ([f1[level, target] for level in (2, 8)] for target in TARGETS)
        drawn.append(np.interp(risk, *line))
    assert combined.error == pytest.approx(np.std(drawn), rel=0.15)
    ends = whole.loc[whole["target"] == "sentiment", "influence"].tolist()
    assert ((ends[0] + ends[1]) * 0.5).error < 0.75 * np.std(drawn)


SAID = ("the cat sat", "dog ran on", "fish", "the mat", "cat cat dog", "the dog sat on the mat")
TURNED = tuple(" ".join(reversed(text.split())) + " cat" for text in SAID)


def outputs_of(*texts: Sequence[str]) -> list[Output]:
    """Clean documents, and what is made of them."""
    vectors = np.zeros((1, len(texts[0]), 2))
    names = [("clean", 0.0), ("madlib", 90.0), ("dp-prompt", 0.75)]
    return [Output(*name, [each], vectors) for name, each in zip(names, texts, strict=False)]


def test_alike_is_that_of_direct_calls(encoder: Encoder) -> None:
    silent = Output("truncated-laplace", 5.0, [], np.zeros((1, 6, 2)))
    rows = np.array([4, 0, 3, 1])
    table = experiment.alike(encoder, [*outputs_of(SAID, SAID, TURNED), silent], rows)
    assert table[["mechanism", "setting", "level", "measure", "n"]].to_numpy().tolist() == [
        [*output, measure, 4]
        for output in (
            ["other", "plain", 0.0],
            ["madlib", "eps90", 90.0],
            ["dp-prompt", "t0.75", 0.75],
        )
        for measure in ("bertscore", "cosine")
    ]
    originals, turned = ([texts[row] for row in rows] for texts in (SAID, TURNED))
    others = [*originals[1:], originals[0]]
    rows_of = table.to_dict("records")
    for texts, bert, cosine in zip(
        (others, originals, turned), rows_of[::2], rows_of[1::2], strict=True
    ):
        for row, measure in ((bert, similarity.bert_score), (cosine, similarity.cosine)):
            scores = measure(encoder, originals, texts)
            assert row["value"] == pytest.approx(scores.mean(), abs=1e-6)
        if texts is not others:
            alone = clustered_mean(np.clip(scores, -1, 1), rows, bounds=(-1, 1), sample=DOCUMENTS)
            ends = cosine["low"], cosine["high"]
            assert ends == pytest.approx((alone.low, alone.high), abs=1e-6)
        assert (cosine["value"] > 0.99) == (texts is originals)


def test_each_document_is_in_two_pairs_of_others(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text is a number, a pair's score their mean: over all pairs, that of the numbers.

    The error is on the safe side of theirs by a factor of sqrt(1.5). Pairs taken for independent,
    the named wrong version, would be off by sqrt(0.5).
    """
    number = np.random.default_rng(0).uniform(-0.5, 0.5, size=400)

    def score(encoder: Any, first: Sequence[str], second: Sequence[str], **options: Any) -> Any:
        return np.array([(float(a) + float(b)) / 2 for a, b in zip(first, second, strict=True)])

    monkeypatch.setattr(similarity, "cosine", score)
    monkeypatch.setattr(similarity, "bert_score", score)
    order = np.random.default_rng(1).permutation(400)
    table = experiment.alike(encoder, outputs_of([*map(str, number)]), order)
    error = number.std() / np.sqrt(400)
    assert table["measure"].tolist() == ["bertscore", "cosine"]
    for row in table.to_dict("records"):
        assert row["value"] == pytest.approx(number.mean())
        assert row["influence"].error == pytest.approx(error * np.sqrt(1.5), rel=0.1)
        # Document by document: what leaving out both of its pairs does to the mean.
        pairs = (number[order] + np.roll(number[order], -1)) / 2
        left = [row["value"] - np.delete(pairs, [at - 1, at]).mean() for at in range(400)]
        effect = row["influence"].effect[order]
        np.testing.assert_allclose(effect, np.sqrt(400 / 399) * 398 / 400 * np.array(left))


def summary_table() -> pd.DataFrame:
    """Lines whose values at any risk r are known: 0.3 + r, 0.4 + r and 0.35 + r / 2."""
    static: dict[str, Any] = {"attacker": STATIC}
    heat: dict[str, Any] = {"unit": "t"}
    return pd.DataFrame(
        [
            *made("madlib", [8, 2], [0.6, 0.2], [0.9, 0.5]),
            *made("madlib-300d", [8, 2], [0.6, 0.2], [1.0, 0.6]),
            *made("mahalanobis", [2, 8], [0.3, 0.5], [0.5, 0.6]),
            *made("deep-candidate", [5, 400], [0.12, 0.14], [0.4, 0.5], **static),
            *made("deep-candidate", [5, 400], [0.9, 0.9], [0.9, 0.9]),
            *made("dp-prompt", [1.75, 0.75], [0.1, 0.4], [0.6, 0.8], **heat),
            *made("dp-prompt-clipped", [0.75], [0.4], [0.8], **heat),
            *made("dp-prompt-top-k40", [0.75, 1.25], [0.3, 0.2], [0.77, 0.9], **heat),
            *made("dp-prompt", [0.75], [0.5], [0.7], **heat, **static),
            *made("dp-prompt-top-k40", [0.75], [0.5], [0.75], **heat, **static),
        ]
    )


GAIN = "f1.gain.{mechanism}.{target}.{attacker}.{access}"
SPREAD = "f1.spread.word-level.{target}.{attacker}.{access}"


def summed(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Rows of all summaries by their names, as the notebook records them."""
    parts = [
        (name, rows.assign(unit=unit)) for name, unit, rows in experiment.summaries(table, RANDOM)
    ]
    for attacker in (STATIC, ADAPTIVE):
        parts += zip((GAIN, SPREAD), experiment.word_level_gains(table, attacker), strict=True)
    rows = [(name.format_map(row), row) for name, part in parts for row in part.to_dict("records")]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def test_summaries_by_hand() -> None:
    summarised = {name: row["value"] for name, row in summed(summary_table()).items()}
    adaptive, static = "adaptive.embedding", "static.embedding"
    means = {
        "madlib": (0.4, 0.7),
        "madlib-300d": (0.4, 0.8),
        "mahalanobis": (0.4, 0.55),
        "deep-candidate": (0.9, 0.9),
        "dp-prompt": (0.25, 0.7),
        "dp-prompt-clipped": (0.4, 0.8),
        "dp-prompt-top-k40": (0.25, 0.835),
    }
    expected = {
        f"f1.mean.{name}.{target}.{adaptive}": value
        for name, values in means.items()
        for target, value in zip(TARGETS, values, strict=True)
    } | {
        "f1.random.plain.author": 0.1,
        "f1.random.plain.sentiment": 0.5,
        f"f1.mean.deep-candidate.author.{static}": 0.13,
        f"f1.mean.deep-candidate.sentiment.{static}": 0.45,
        f"f1.mean.dp-prompt.author.{static}": 0.5,
        f"f1.mean.dp-prompt.sentiment.{static}": 0.7,
        f"f1.mean.dp-prompt-top-k40.author.{static}": 0.5,
        f"f1.mean.dp-prompt-top-k40.sentiment.{static}": 0.75,
        f"f1.fall.author.dp-prompt.{adaptive}": 0.75,
        f"f1.fall.sentiment.dp-prompt.{adaptive}": 0.25,
        f"f1.excess.deep-candidate.author.{static}": 0.03,
        f"f1.excess.deep-candidate.sentiment.{static}": -0.05,
        # 0.3 + r and 0.35 + r / 2 are furthest apart where both end, at 0.5.
        f"f1.spread.word-level.sentiment.{adaptive}": 0.2,
        f"f1.gain.madlib-300d.sentiment.{adaptive}": 0.1,
        f"f1.gain.dp-prompt-top-k40.t0.75.sentiment.{adaptive}": -0.03,
        f"f1.gain.dp-prompt-top-k40.t0.75.sentiment.{static}": 0.05,
    }
    assert summarised == pytest.approx(expected)


def test_influences_of_summaries_are_their_derivatives() -> None:
    """What a document does to all F1 at once, a millionth of it, does so much to every summary."""
    table = summary_table()
    # Off the grid of risks, so that the same ones are within reach.
    table["value"] += np.where(table["target"] == "author", 0.003, 0)
    whole = summed(table)
    kinds = {name.split(".")[1] for name in whole}
    assert kinds == {"random", "mean", "fall", "excess", "spread", "gain"}
    for document in (0, 20, 35):
        moved = table.copy()
        moved["value"] += 1e-6 * np.array([each.effect[document] for each in table["influence"]])
        again = summed(moved)
        effects = {name: row["influence"].effect[document] for name, row in whole.items()
                   if "influence" in row}  # fmt: skip
        slopes = {name: (again[name]["value"] - whole[name]["value"]) / 1e-6 for name in effects}
        assert effects == pytest.approx(slopes, rel=1e-3, abs=1e-7)


def test_intervals_of_summaries_stay_within_their_ranges() -> None:
    """But for a spread, a maximum over pairs, of which the interval of one says little."""
    table = summary_table()
    rows = summed(table.assign(influence=[each * 30 for each in table["influence"]]))
    ranges = {"mean": (0, 1), "gain": (-1, 1), "fall": (-np.inf, 1), "excess": (-0.5, 0.9)}
    for name, row in rows.items():
        least, most = ranges.get(name.split(".")[1], (-np.inf, np.inf))
        assert row.get("high", 0) <= most + 1e-9 and row.get("low", 0) >= least
        assert ("low" in row) == (name.split(".")[1] in ranges)


def test_differences_at_equal_risk(run: report.Run) -> None:
    rows = [
        *made("madlib", [2, 8], [0.1, 0.4], [0.5, 0.6]),
        *made("tem", [2, 8], [0.1, 0.4], [0.7, 0.8]),
        *made("dp-prompt", [8, 2], [0.1, 0.25], [0.9, 0.9]),
    ]
    level = experiment.at_equal_risk(pd.DataFrame(rows), [0.2, 0.3], **HERE)
    run.record_rows(level, "f1_at_risk.{risk:g}.{mechanism}")
    pairs = experiment.pairs_at_risk(run, level, tried=2)
    first = ["0.2 dp-prompt madlib", "0.2 dp-prompt tem", "0.2 madlib tem", "0.3 madlib tem"]
    assert pairs.index.tolist() == first
    assert pairs["value"].tolist()[2:] == pytest.approx([-0.2, -0.2])
    assert pairs["verdict"].tolist()[2:] == ["below", "below"]
    alone = experiment.compared(run, ["madlib"], "f1_at_risk.0.3.{}", "f1_at_risk.0.3.tem")
    # Four pairs and two attackers: 2.734 in place of 1.96 deviations.
    wide, narrow = (each["high"].iloc[-1] - each["value"].iloc[-1] for each in (pairs, alone))
    assert wide / narrow == pytest.approx(2.73437 / REACH, rel=1e-5)
    assert pairs["p"].iloc[-1] == pytest.approx(8 * alone["p"].iloc[-1])
    nothing = experiment.pairs_at_risk(run, level.iloc[:0], tried=2)
    assert experiment.tally(nothing) == "of 0, 0 above, 0 below, 0 undecided"


@pytest.mark.parametrize(
    ("left", "madlib", "said"),
    [
        (0.55, 0.3, "1 of 2 comparisons favour a mechanism\nsignificantly (TEM), 1 the words"),
        (0.95, 0.3, "0 of 2 comparisons favour a mechanism\nsignificantly, 2 the words"),
        (0.8, 0.8, "no mechanism is told apart"),
        (None, 0.3, "No mechanism has the risk of any share"),
    ],
)
def test_mechanisms_against_words_left_out(
    run: report.Run, left: float | None, madlib: float, said: str
) -> None:
    rows = [
        *made("madlib", [2, 8], [0.1, 0.25], [madlib, madlib]),
        *made("tem", [2, 8], [0.1, 0.4], [0.8, 0.8]),
    ]
    cut = made("left-out", [0.1, 0.4], [0.1, 0.25], [left, left]) if left else []
    cut += made("first-words", [1, 4], [0.1, 0.25], [0.7, 0.7])
    table = experiment.at_equal_risk(pd.DataFrame([*rows, *cut]), [0.2, 0.3], **HERE)
    run.record_rows(table, "f1_at_risk.{risk:g}.{mechanism}")
    apart, finding = experiment.against_scissors(run, table, tried=3)
    assert said in finding.title and apart.index.tolist() == ["0.2 madlib", "0.2 tem"] * bool(left)
    if left == madlib:
        assert "left out is +0.00 (0.2 madlib) to +0.00" in finding.text


def test_who_learns_from_every_run_is_held_against_who_learns_from_one(run: report.Run) -> None:
    """In pairs at every setting, and mechanisms against words left out under one attacker."""
    every: dict[str, Any] = {"attacker": "rehearsed", "access": TEXT}
    one: dict[str, Any] = {"attacker": ADAPTIVE, "access": TEXT}
    cut = made("left-out", [0.1, 0.4], [0.1, 0.25], [0.6, 0.6], **every)
    learned = pd.DataFrame([*made("madlib-300d", [2, 8], [0.1, 0.45], [0.8, 0.8], **every), *cut])
    adaptive = [*made("madlib-300d", [2, 8], [0.1, 0.2], [0.8, 0.8], **one)]
    adaptive += made("left-out", [0.1, 0.4], [0.4, 0.25], [0.6, 0.6], **one)
    for table in (learned, pd.DataFrame(adaptive)):
        run.record_rows(table, "f1.{mechanism}.{setting}.{target}.{attacker}.{access}")
    more, apart, said = experiment.from_every_run(run, learned, [0.2])
    verdicts = {"madlib-300d eps2": "undecided", "madlib-300d eps8": "above"}
    verdicts |= {"left-out eps0.1": "below", "left-out eps0.4": "undecided"}
    assert more["verdict"].to_dict() == verdicts
    assert apart["value"].to_dict() == {"0.2 madlib-300d": pytest.approx(0.2)}
    assert run.measurement("f1_by_every_run.madlib-300d.eps8").value == pytest.approx(0.25)
    assert "of 4, 1 above, 1 below, 2 undecided" in said and ", ε 8: 0.45)" in said
    assert "significantly (MADLIB, 300 dimensions), 0 the words left out" in said


def test_two_attackers_are_compared_on_average_where_the_first_ran(run: report.Run) -> None:
    for name, value in (("static", 0.2), ("informed", 0.5)):
        run.record(f"f1.mean.tem.author.{name}.linear", value, value - 0.1, value + 0.1, 36)
    table = pd.DataFrame({"access": ["linear", "text"], "mechanism": ["tem", "madlib"]})
    differences = experiment.means_apart(run, table, "informed.linear", "static.linear")
    assert differences["value"].to_dict() == {"tem": pytest.approx(0.3)}


def test_the_difference_of_two_maxima_is_one_of_many() -> None:
    """Four attackers whose values do not differ, 2,000 times; no difference is decided in 95%."""
    drawn = 0.05 * np.random.default_rng(0).standard_normal((2000, 2, 4)).max(2)
    error = 0.05 * np.sqrt(2)

    def difference(name: str, other: str) -> Difference:
        v = float(np.diff(drawn[int(name)])[0])
        return Difference(
            v, v - REACH * error, v + REACH * error, 2 * float(norm.sf(abs(v) / error))
        )

    run: Any = SimpleNamespace(difference=difference)
    differences = experiment.compared(run, map(str, range(2000)), "{}", "", tests=4)
    assert (differences["verdict"] != "undecided").mean() < 0.05
    assert ((differences["low"] <= 0) & (differences["high"] >= 0)).mean() > 0.95
