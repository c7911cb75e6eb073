"""Sentences of notebook 03 on made-up measurements: no verdict without its test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from textpriv.experiments import lossy_findings as findings
from textpriv.report.difference import Difference
from textpriv.report.results import Measurement, measure
from textpriv.stats import Influence

SIZES: Any = SimpleNamespace(
    crossing=(9, 0.2), sigmas=(0.2, 1.0), windows=(5, 9), etas=(50,), tuned=()
)


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
    texts = [*findings.utility(run, "imdb", SIZES), *findings.attackers(run, "imdb", SIZES)]
    return "\n".join([*texts, findings.oracle(run, "imdb")])


def added(run: Any) -> pd.Series:
    """What the language model adds at the first guess."""
    return findings.language_model(run, ["imdb"], SIZES)["language model over ridge, Pr@1"]


def test_equal_measurements_decide_nothing() -> None:
    text = said(Made())
    assert text.count("undecided at this size") == 4  # a title each, and once more in the text
    assert "in 0 of" in text and "nan" not in text.lower() and "significantly" not in text
    assert added(Made()).str.endswith("no significant difference").tolist() == [True] * 4


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({".deconvolution": 0.9}, "finds what looking at the same position misses"),
        ({"2-random.imdb.mrr": 0.9}, "finds the true text more easily under pairs"),
        ({"high-freq.imdb.all": 0.9}, "keeps the frequent words costs a classifier less"),
        ({"high-freq.imdb.all": 0.1}, "keeps the frequent words costs a classifier more"),
        ({"noise-50.imdb.all": 0.9, "low-freq.imdb.all": 0.2}, "settings: noise-50."),
    ],
)
def test_titles_and_counts_follow_the_tests(values: dict[str, float], expected: str) -> None:
    assert expected in said(Made(**values))
    assert expected not in said(Made(error=9.0, **values))


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.9, 0.01, "significantly more"),
        (0.1, 0.01, "significantly less"),
        (0.9, 9.0, "no significant difference"),
    ],
)
def test_what_changes_follows_the_tests(value: float, error: float, expected: str) -> None:
    run: Any = Made(error, **{"w9-s1.0.imdb.all": value, ".deconvolution_lm": value})
    first, second = findings.sigma_window(run, "imdb", SIZES).split("; from window 5 to 9")
    assert f"changes by {value - 0.5:+.3f} (" in first and first.endswith(f"), {expected}")
    assert second.endswith(", no significant difference.")
    assert added(run).str.endswith(expected).all()


def test_grammar_survives_where_its_interval_is_above_chance() -> None:
    rows = [("plain", "plain", 1.0, 0.9), ("a", "noise", 2.5, 0.3), ("b", "noise", 2.0, 0.1)]
    table = pd.DataFrame(rows, columns=["label", "kind", "bits", "low"]).assign(chance=0.2)
    text = findings.language(table)
    assert "a has the most, 2.50" in text and text.endswith("in 1 of 2 settings: a.")
