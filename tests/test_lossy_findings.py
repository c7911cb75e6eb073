"""Sentences of notebook 03 on made-up measurements: no verdict without its test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from textpriv.experiments import lossy_findings as findings
from textpriv.experiments.lossy import Sizes
from textpriv.report.difference import Difference
from textpriv.report.results import Measurement, measure
from textpriv.stats import Influence

SIZES = Sizes(
    encoder="tiny", corpora={"imdb": 9, "sst2": 9}, longest={}, public=10, windows=(5, 9),
    sigmas=(0.2, 1.0), crossing=(9, 0.2), etas=(50, 150), seeds=1, splits=1, test_share=0.3,
    tuned=(), tuned_steps={}, attacked={}, rehearsed=1, guesses=5, oracle={}, oracle_longest={},
    oracle_most=1, maps=2,
)  # fmt: skip
NAMES = ["imdb", "sst2"]


class Made:
    """A run in which a measurement is 0.5, or what `values` says of parts of its name."""

    def __init__(self, error: float = 0.01, **values: float) -> None:
        self.error, self.values = error, values

    def measurement(self, name: str) -> Measurement:
        value = next((v for part, v in self.values.items() if name.endswith(part)), 0.5)
        return measure(name, value, max(0.0, value - 0.02), min(1.0, value + 0.02), 100)

    def difference(self, one: str, other: str) -> Difference:
        first, second = (
            Influence("made up", np.arange(50), np.full(50, sign * self.error / 50**0.5 / 2))
            for sign in (1, -1)
        )
        return Difference.between(self.measurement(one), self.measurement(other), (first, second))


def said(run: Any) -> str:
    """Everything that the notebook says of such a run."""
    pairs = [findings.utility(run, "imdb", SIZES), findings.attackers(run, "imdb", SIZES)]
    texts = [*(text for pair in pairs for text in pair), findings.oracle(run, "imdb")]
    return "\n".join([*texts, findings.sigma_window(run, "imdb", SIZES)])


def test_equal_measurements_decide_nothing() -> None:
    text = said(Made())
    assert text.count("undecided at this size") == 4  # a title each, and once more in the text
    assert "in 0 of" in text and "nan" not in text.lower()
    assert "significantly more" not in text and "significantly less" not in text
    table = findings.language_model(Made(), NAMES, SIZES)  # type: ignore[arg-type]
    assert table["language model over ridge, Pr@1"].str.endswith("no significant difference").all()
    assert len(table) == 2 * 2 * 2 and not table.isna().any().any()


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({".deconvolution": 0.9}, "finds what looking at the same position misses"),
        ({"2-random.imdb.mrr": 0.9}, "finds the true text more easily under pairs"),
        ({"high-freq.imdb.all": 0.9}, "keeps the frequent words costs a classifier less"),
        ({"high-freq.imdb.all": 0.1}, "keeps the frequent words costs a classifier more"),
    ],
)
def test_titles_follow_the_measurements(values: dict[str, float], title: str) -> None:
    assert title in said(Made(**values))
    assert title not in said(Made(error=9.0, **values))


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.9, "significantly more"), (0.1, "significantly less")]
)
def test_what_changes_follows_the_measurements(value: float, verdict: str) -> None:
    for error, expected in ((0.01, verdict), (9.0, "no significant difference")):
        run: Any = Made(error, **{"w9-s1.0.imdb.all": value, ".deconvolution_lm": value})
        first, second = findings.sigma_window(run, "imdb", SIZES).split("; from window 5 to 9")
        assert f"at window 9 the accuracy changes by {value - 0.5:+.3f} (" in first
        assert first.endswith(f"), {expected}") and second.endswith(", no significant difference.")
        table = findings.language_model(run, NAMES, SIZES)
        assert table["language model over ridge, Pr@1"].str.endswith(expected).all()


def test_training_on_manipulated_text_is_counted_where_it_helps() -> None:
    text = said(Made(**{"noise-50.imdb.all": 0.9, "low-freq.imdb.all": 0.2}))
    assert "settings: noise-50." in text and "in 1 of" in text


def test_grammar_survives_where_its_interval_is_above_chance() -> None:
    columns = ["label", "kind", "bits", "low", "chance"]
    rows = [
        ("plain", "plain", 1.0, 0.9, 0.2),
        ("a", "noise", 2.5, 0.3, 0.2),
        ("b", "noise", 2.0, 0.1, 0.2),
    ]
    text = findings.language(pd.DataFrame(rows, columns=columns))
    assert text.endswith("in 1 of 2 settings: a.")
    assert "1.00 bits per character, a has the most, 2.50" in text
