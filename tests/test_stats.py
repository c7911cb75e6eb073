"""Estimates: known values by hand, and coverage by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import ALARM, POWER
from scipy import stats as scipy_stats

from textpriv.errors import InvalidInput
from textpriv.stats import Estimate, mean, share, strata_by_rank, stratified_mean

INF = float("inf")


# --- Shares ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),  # Newcombe 1998, table I, method 3
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_a_share_has_wilsons_interval(successes: int, n: int, low: float, high: float) -> None:
    found = share(successes, n)
    assert (found.value, found.n) == (successes / n, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.half_width == pytest.approx((found.high - found.low) / 2)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_ends_of_wilsons_interval_are_just_rejected_by_the_score_test(
    confidence: float,
) -> None:
    quantile = scipy_stats.norm.isf((1 - confidence) / 2)
    for successes, n in ((0, 10), (3, 10), (7, 200), (10, 10)):
        found = share(successes, n, confidence=confidence)
        for end in (found.low, found.high):
            if 0 < end < 1:
                score = abs(successes / n - end) / np.sqrt(end * (1 - end) / n)
                assert score == pytest.approx(quantile, rel=1e-6)


def test_a_higher_confidence_is_a_wider_interval_around_the_value() -> None:
    widths = [share(3, 40, confidence=c).half_width for c in (0.5, 0.9, 0.95, 0.999)]
    assert widths == sorted(widths) and len(set(widths)) == 4
    for successes in range(0, 201, 5):
        found = share(successes, 200)
        assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0), (float("nan"), 5)])
def test_impossible_shares(successes: Any, n: Any) -> None:
    with pytest.raises(InvalidInput, match="share: got .*expected 0 <= successes <= n"):
        share(successes, n)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, float("nan")])
def test_a_confidence_lies_between_0_and_1(confidence: Any) -> None:
    for make in (
        lambda: share(1, 2, confidence=confidence),
        lambda: mean([1.0, 2.0], confidence=confidence),
    ):
        with pytest.raises(InvalidInput, match="confidence: got .*expected"):
            make()


# --- Means ----------------------------------------------------------------------------------


def test_a_mean_by_hand() -> None:
    found = mean([1.0, 2.0, 6.0])
    # Mean 3, variance (4 + 1 + 9) / 2 = 7, standard error sqrt(7 / 3), z = 1.959964.
    assert (found.value, found.n) == (3.0, 3)
    assert found.half_width == pytest.approx(1.959964 * np.sqrt(7 / 3), rel=1e-6)
    assert mean([1.0, 2.0, 6.0], confidence=0.5).half_width < found.half_width


def test_one_value_says_nothing_about_its_error() -> None:
    assert mean([4.0]) == Estimate(4.0, -INF, INF, 1)
    assert mean([4.0, 4.0]) == Estimate(4.0, 4.0, 4.0, 2)


def test_a_stratified_mean_by_hand() -> None:
    # Strata of weight 3/4 and 1/4: means 2 and 10, variances 2 and 50, 2 values each.
    found = stratified_mean([1.0, 5.0, 3.0, 15.0], [0, 1, 0, 1], [3, 1])
    assert found.value == pytest.approx(0.75 * 2 + 0.25 * 10)
    error = np.sqrt(0.75**2 * 2 / 2 + 0.25**2 * 50 / 2)
    assert found.half_width == pytest.approx(1.959964 * error, rel=1e-6)
    assert found.n == 4


def test_one_value_in_a_stratum_opens_the_interval_unless_bounds_close_it() -> None:
    values, stratum, weights = [0.2, 0.4, 0.9], [0, 0, 1], [1, 1]
    assert stratified_mean(values, stratum, weights).high == INF
    bounded = stratified_mean(values, stratum, weights, bounds=(0, 1))
    assert (bounded.low, bounded.high) == (0, 1) and bounded.value == pytest.approx(0.6)


def test_bounds_cut_the_interval() -> None:
    found = stratified_mean([0.9, 1.0, 1.0], [0, 0, 0], [1], bounds=(0, 1))
    assert found.high == 1 and 0.85 < found.low < found.value < 1
    assert mean([0.9, 1.0, 1.0], bounds=(0, 1)) == found
    assert mean([0.9, 1.0, 1.0]).high > 1


def test_strata_of_ranks_are_equal_parts_in_order() -> None:
    assert strata_by_rank(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert strata_by_rank(4, 4).tolist() == [0, 1, 2, 3]
    counts = np.bincount(strata_by_rank(33_860, 10))
    assert len(counts) == 10 and counts.max() - counts.min() <= 1


@pytest.mark.parametrize("strata", [0, -1, 5])
def test_impossible_strata(strata: int) -> None:
    with pytest.raises(InvalidInput, match=f"strata: got {strata}, expected 1 to 4"):
        strata_by_rank(4, strata)


@pytest.mark.parametrize(
    ("values", "stratum", "weights", "says"),
    [
        ([], [], [1], "values: got shape"),
        ([[1.0]], [[0]], [1], r"values: got shape \(1, 1\)"),
        ([1.0, 2.0], [0], [1], "values: got shape"),
        ([1.0, float("nan")], [0, 0], [1], "values: got NaN or infinity"),
        ([1.0, INF], [0, 0], [1], "values: got NaN or infinity"),
        ([1.0], [1], [1, 1], r"stratum: got counts \[0, 1\]"),
        ([1.0], [0], [1, 1], r"stratum: got counts \[1, 0\]"),
        ([1.0, 2.0], [0, 1], [1], r"stratum: got counts \[1, 1\], expected 1 strata"),
        ([1.0], [-1], [1], "stratum: expected integers from 0"),
        ([1.0], [0.5], [1], "stratum: expected integers from 0"),
        ([1.0, 2.0], [0, 1], [1, 0], r"weights: got .*expected finite numbers > 0"),
        ([1.0, 2.0], [0, 1], [2, -1], r"weights: got .*expected finite numbers > 0"),
        ([1.0], [0], [float("nan")], r"weights: got .*expected finite numbers > 0"),
    ],
)
def test_malformed_samples(values: Any, stratum: Any, weights: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        stratified_mean(values, stratum, weights)


# --- Coverage, by simulation ------------------------------------------------------------------

TRIALS = 4000


def covers(hits: int, least: float) -> bool:
    """Whether coverage may be at least `least`; false alarm at most ALARM."""
    return bool(scipy_stats.binom.cdf(hits, TRIALS, least) >= ALARM)


def power_against(coverage: float, least: float) -> float:
    """Probability with which `covers` finds out an interval of this coverage."""
    refused = scipy_stats.binom.ppf(ALARM, TRIALS, least) - 1
    return float(scipy_stats.binom.cdf(refused, TRIALS, coverage))


def test_wilsons_interval_covers_the_truth() -> None:
    """Least coverage stated: 0.93 for n = 200 and these p. The plain normal interval fails."""
    rng = np.random.default_rng(3)
    for p in (0.01, 0.1, 0.5):
        drawn = rng.binomial(200, p, TRIALS)
        found = [share(int(k), 200) for k in drawn]
        assert covers(sum(e.low <= p <= e.high for e in found), 0.93)
        if p == 0.01:  # the interval p +- 1.96 sqrt(p (1 - p) / n) covers in 86.5% of cases
            reach = 1.959964 * np.sqrt(drawn / 200 * (1 - drawn / 200) / 200)
            hits = int((np.abs(drawn / 200 - p) <= reach).sum())
            assert not covers(hits, 0.93) and power_against(0.87, 0.93) >= POWER


def test_the_stratified_interval_covers_the_truth() -> None:
    """Least coverage stated: 0.93 with 60 values. Ignoring the strata's weights fails."""
    rng = np.random.default_rng(4)
    weights, centers, spreads = np.array([0.9, 0.1]), np.array([0.0, 5.0]), np.array([1.0, 3.0])
    stratum, truth = np.repeat([0, 1], 30), float(weights @ centers)
    hits = unweighted = narrow = 0
    for _ in range(TRIALS):
        values = rng.normal(centers[stratum], spreads[stratum])
        found, plain = stratified_mean(values, stratum, weights), mean(values)
        hits += found.low <= truth <= found.high
        unweighted += plain.low <= truth <= plain.high
        narrow += abs(found.value - truth) <= 0.8 * found.half_width
    assert covers(hits, 0.93)
    assert not covers(unweighted, 0.93)
    assert not covers(narrow, 0.93) and power_against(0.885, 0.93) >= POWER


@pytest.mark.parametrize(("n", "least"), [(5, 0.87), (30, 0.925), (200, 0.935)])
def test_the_normal_interval_of_a_mean_needs_some_values(n: int, least: float) -> None:
    """With few values the normal quantile is too small: 88% at n = 5. Stated, not hidden."""
    rng = np.random.default_rng(5)
    found = [mean(values) for values in rng.normal(1.0, 2.0, (TRIALS, n))]
    hits = sum(e.low <= 1.0 <= e.high for e in found)
    assert covers(hits, least)
    assert (not covers(hits, 0.93)) == (n == 5)
