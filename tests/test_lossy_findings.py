"""Sentences of notebook 03 on made-up measurements: no verdict without a test behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from textpriv.experiments import lossy_findings as findings
from textpriv.experiments.lossy import Sizes
from textpriv.report.difference import Difference
from textpriv.report.results import Measurement, measure
from textpriv.stats import Influence

SIZES = Sizes(
    encoder="tiny", corpora={"imdb": 9, "sst2": 9}, longest={}, public=10, windows=(5, 9),
    sigmas=(0.2, 1.0), crossing=(9, 0.2), etas=(50, 150), seeds=1, test_share=0.3, tuned=(),
    tuned_steps={}, attacked={}, rehearsed=1, guesses=5, oracle={}, oracle_longest={},
    oracle_most=1,
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
    return findings.findings(run, NAMES, SIZES)


def test_equal_measurements_decide_nothing() -> None:
    text = said(Made())
    assert "is undecided at this size" in text and "in 0 of" in text and "nan" not in text.lower()
    assert ", more" not in text and ", less" not in text
    table = findings.stencils(Made(), NAMES, SIZES)  # type: ignore[arg-type]
    assert table["language model over ridge, Pr@1"].str.endswith("undecided").all()
    assert len(table) == 2 * 2 * 2 and not table.isna().any().any()


@pytest.mark.parametrize(("ridge", "verdict"), [(0.9, "all the same"), (0.1, "finds less")])
def test_the_headline_follows_the_ridge(ridge: float, verdict: str) -> None:
    assert verdict in said(Made(**{".deconvolution": ridge}))
    assert "undecided at this size" in said(Made(error=9.0, **{".deconvolution": ridge}))


def test_a_language_model_that_loses_is_said_to() -> None:
    table = findings.stencils(Made(**{".deconvolution_lm": 0.3}), NAMES, SIZES)  # type: ignore[arg-type]
    for top in (1, 5):
        assert table[f"language model over ridge, Pr@{top}"].str.endswith("less").all()


def test_training_on_manipulated_text_is_counted_where_it_helps() -> None:
    text = said(Made(**{"noise-50.imdb.all": 0.9, "low-freq.imdb.all": 0.2}))
    assert "settings: noise-50." in text and "in 1 of" in text
