"""What a sentence may say of two measurements."""

import math

import numpy as np
import pytest

from textpriv import stats
from textpriv.report.difference import Difference, Finding
from textpriv.report.results import Measurement


def measured(values: np.ndarray, sample: str = "documents") -> tuple[Measurement, stats.Influence]:
    estimate = stats.mean(values, sample=sample)
    assert estimate.influence is not None
    return Measurement(name="a.b", value=estimate.value, low=estimate.low, high=estimate.high), (
        estimate.influence
    )


def test_by_hand():
    first = Measurement(name="a.b", value=0.6, low=0.6 - 0.0196, high=0.6 + 0.0196)
    second = Measurement(name="a.c", value=0.5, low=0.5 - 0.0196, high=0.5 + 0.0196)
    difference = Difference.between(first, second)
    assert difference.verdict == "above"
    assert difference.high - difference.value == pytest.approx(0.0196 * math.sqrt(2), rel=1e-3)
    assert Difference.between(second, first).says(above="more", below="less", undecided="?") == (
        "less"
    )


def test_pairs_see_what_independent_errors_cannot():
    rng = np.random.default_rng(0)
    text = rng.normal(size=100)
    first, one = measured(text + 0.1 + 0.1 * rng.normal(size=100))
    second, other = measured(text)
    assert Difference.between(first, second).verdict == "undecided"
    assert Difference.between(first, second, (one, other)).verdict == "above"


@pytest.mark.parametrize("units", [5, 30])
def test_says_something_in_one_of_twenty_where_nothing_differs(units):
    rng = np.random.default_rng(1)
    runs, said = 2000, 0
    for _ in range(runs):
        first, one = measured(rng.normal(size=units))
        second, other = measured(rng.normal(size=units))
        said += Difference.between(first, second, (one, other)).verdict != "undecided"
    assert said <= runs * 0.05 + 4 * math.sqrt(runs * 0.05 * 0.95)  # fails one time in 30,000


@pytest.mark.parametrize("units", [5, 10])
def test_few_units_that_agree_decide(units):
    """A wrong version allows for few units twice, and decides nothing of six or fewer."""
    rng = np.random.default_rng(2)
    text = rng.normal(size=units)
    first, one = measured(text + 1 + 0.1 * rng.normal(size=units))
    second, other = measured(text)
    difference = Difference.between(first, second, (one, other))
    assert difference.low > 0 and difference.verdict == "above"


def test_one_unit_or_no_error_decides_nothing():
    first, one = measured(np.array([1.0]))
    second, other = measured(np.array([0.0]))
    assert Difference.between(first, second, (one, other)).verdict == "undecided"
    bare = Measurement(name="a.b", value=1.0), Measurement(name="a.c", value=0.0)
    assert Difference.between(*bare).verdict == "undecided"
    assert "nan" not in str(Difference.between(*bare))


def test_a_finding_is_escaped_and_folds_its_details() -> None:
    bare = Finding("a < b", "So & so.")
    assert str(bare) == "**a < b.** So & so."
    assert bare.as_html() == "<p><b>a &lt; b.</b> So &amp; so.</p>"
    folded = bare._replace(details="1 > 0.").as_html()
    assert folded.endswith("<details><summary>details</summary>1 &gt; 0.</details>")
