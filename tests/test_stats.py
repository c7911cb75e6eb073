"""Estimates: known values by hand, and coverage by simulation."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import ALARM, POWER, half_width, refused
from scipy import stats as scipy_stats

from textpriv.stats import (
    Estimate,
    clustered_mean,
    clustered_share,
    combined,
    draw_labels,
    mean,
    over_draws,
    paired_test,
    share,
    stratified_mean,
)

INF = float("inf")


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_ends_of_a_shares_interval_are_just_rejected_by_the_exact_test(
    confidence: float,
) -> None:
    tail = (1 - confidence) / 2
    for successes, n in ((0, 10), (3, 10), (7, 200), (10, 10)):
        estimate = share(successes, n, confidence=confidence)
        assert (estimate.value, estimate.n) == (successes / n, n)
        if successes:
            assert scipy_stats.binom.sf(successes - 1, n, estimate.low) == pytest.approx(tail)
        if successes < n:
            assert scipy_stats.binom.cdf(successes, n, estimate.high) == pytest.approx(tail)
    assert share(0, 20).high == pytest.approx(1 - 0.025 ** (1 / 20))  # by hand


def test_a_mean_by_hand() -> None:
    assert mean([4.0]) == Estimate(4.0, -INF, INF, 1)
    assert mean([0.4], bounds=(0, 1)) == Estimate(0.4, 0, 1, 1)
    assert mean([0.9, 1.0, 1.0]).high > 1 >= mean([0.9, 1.0, 1.0], bounds=(0, 1)).high > 0.99
    estimate = mean([1.0, 2.0, 6.0])
    # Mean 3, variance (4 + 1 + 9) / 2 = 7, standard error sqrt(7 / 3), t(2) = 4.302653.
    assert (estimate.value, estimate.n) == (3.0, 3)
    assert half_width(estimate) == pytest.approx(4.302653 * np.sqrt(7 / 3), rel=1e-6)


def test_values_that_all_agree_leave_an_interval() -> None:
    """Ten texts recovered without an error are no proof that every text is."""
    assert mean([4.0, 4.0]) == Estimate(4.0, -INF, INF, 2)
    sure = mean(np.ones(10), bounds=(0, 1))
    assert (sure.low, sure.high) == (pytest.approx(0.025**0.1), 1)  # 0.69, as of ten draws
    inside = mean(np.full(10, 0.5), bounds=(0, 2))
    assert (inside.low, inside.high) == (
        pytest.approx(0.5 * 0.025**0.1),
        pytest.approx(2 - 1.5 * 0.025**0.1),
    )
    strata = stratified_mean([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1], bounds=(0, 1))
    assert (strata.low, strata.high) == (pytest.approx(0.025**0.25), 1)


def test_a_stratified_mean_by_hand() -> None:
    # Two halves of the population: means 2 and 10, variances 2 and 50, 2 values each.
    estimate = stratified_mean([1.0, 5.0, 3.0, 15.0], [0, 1, 0, 1])
    assert estimate.value == pytest.approx(6)
    error = np.sqrt(0.5**2 * 2 / 2 + 0.5**2 * 50 / 2)
    assert half_width(estimate) == pytest.approx(4.302653 * error, rel=1e-6)  # 4 - 2 degrees
    assert estimate.n == 4


def test_one_value_in_a_stratum_opens_the_interval_unless_bounds_close_it() -> None:
    values, stratum = [0.2, 0.4, 0.9], [0, 0, 1]
    assert stratified_mean(values, stratum).high == INF
    bounded = stratified_mean(values, stratum, bounds=(0, 1))
    assert (bounded.low, bounded.high) == (0, 1) and bounded.value == pytest.approx(0.6)


TRIALS = 4000


def covers(hits: int, least: float) -> bool:
    """Whether coverage may be at least `least`; false alarm at most ALARM."""
    return bool(scipy_stats.binom.cdf(hits, TRIALS, least) >= ALARM)


def power_against(coverage: float, least: float) -> float:
    """Probability with which `covers` finds out an interval of this coverage."""
    refused = scipy_stats.binom.ppf(ALARM, TRIALS, least) - 1
    return float(scipy_stats.binom.cdf(refused, TRIALS, coverage))


def test_the_interval_of_a_share_covers_the_truth() -> None:
    """0.95 at every n and p, by the exact sum over all counts. Wilson's does not (0.87)."""
    for n in (2, 5, 10, 30, 100):
        estimates = [share(successes, n) for successes in range(n + 1)]
        low, high = (
            np.array([getattr(estimate, end) for estimate in estimates]) for end in ("low", "high")
        )
        for p in (0.003, 0.01, 0.03, 0.1, 0.3, 0.5):
            inside = (low <= p) & (p <= high)
            assert scipy_stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95


RANKS = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 0])
OFTEN = np.array([0.8, 0.08, 0.04, 0.02, 0.02, 0.02, 0.02])
BOUNDED = {
    "trials, 0.03": (lambda rng, size: (rng.random(size) < 0.03).astype(float), 0.03),
    "trials, 0.4": (lambda rng, size: (rng.random(size) < 0.4).astype(float), 0.4),
    "uniform": (lambda rng, size: rng.random(size), 0.5),
    "two humps": (lambda rng, size: rng.beta(0.5, 0.5, size), 0.5),
    "high": (lambda rng, size: rng.beta(8, 2, size), 0.8),
    "ranks": (lambda rng, size: rng.choice(RANKS, size, p=OFTEN), float(RANKS @ OFTEN)),
    "mostly zero": (lambda rng, size: (rng.random(size) < 0.1) * rng.random(size), 0.05),
}


@pytest.mark.parametrize("law", BOUNDED)
@pytest.mark.parametrize("n", [2, 5, 10, 30, 100])
def test_the_interval_of_a_bounded_mean_covers_the_truth(law: str, n: int) -> None:
    """Least coverage stated: 0.93. The normal interval has 0.64 where n = 10 and p = 0.4."""
    draw, truth = BOUNDED[law]
    values = draw(np.random.default_rng(8), (TRIALS // 4, n))
    estimates = [mean(sample, bounds=(0, 1)) for sample in values]
    hits = sum(
        estimate.low <= truth + 1e-9 and truth - 1e-9 <= estimate.high for estimate in estimates
    )
    assert scipy_stats.binom.cdf(hits, TRIALS // 4, 0.93) >= ALARM
    assert all(estimate.low < estimate.high for estimate in estimates)


@pytest.mark.parametrize(("n", "least"), [(3, 0.8), (10, 0.87), (100, 0.93)])
def test_a_long_tail_is_covered_less_often(n: int, least: float) -> None:
    """Beta(0.2, 2), median 0.01 and mean 0.09: ten values seldom show the tail. Not hidden."""
    truth, rng = 0.2 / 2.2, np.random.default_rng(9)
    estimates = [mean(sample, bounds=(0, 1)) for sample in rng.beta(0.2, 2, (TRIALS // 4, n))]
    hits = sum(estimate.low <= truth <= estimate.high for estimate in estimates)
    assert scipy_stats.binom.cdf(hits, TRIALS // 4, least) >= ALARM


def test_the_stratified_interval_covers_the_truth() -> None:
    """Least coverage stated: 0.93 with 60 values. Ignoring the strata fails."""
    rng = np.random.default_rng(4)
    centers, spreads = np.array([0.0, 5.0]), np.array([1.0, 3.0])
    stratum, truth = np.repeat([0, 1], [20, 40]), float(centers.mean())
    hits = unweighted = narrow = 0
    for _ in range(TRIALS):
        values = rng.normal(centers[stratum], spreads[stratum])
        estimate, plain = stratified_mean(values, stratum), mean(values)
        hits += estimate.low <= truth <= estimate.high
        unweighted += plain.low <= truth <= plain.high
        narrow += abs(estimate.value - truth) <= 0.8 * half_width(estimate)
    assert covers(hits, 0.93)
    assert not covers(unweighted, 0.93)
    assert not covers(narrow, 0.93) and power_against(0.885, 0.93) >= POWER


@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_interval_of_an_unbounded_mean_covers_the_truth(n: int) -> None:
    """Least coverage stated: 0.94. The normal interval has 0.88 at n = 5."""
    rng = np.random.default_rng(5)
    estimates = [mean(values) for values in rng.normal(1.0, 2.0, (TRIALS, n))]
    assert covers(sum(e.low <= 1.0 <= e.high for e in estimates), 0.94)
    z = 1.959964 / scipy_stats.t.isf(0.025, n - 1)
    normal = sum(abs(e.value - 1.0) <= z * half_width(e) for e in estimates)
    assert covers(normal, 0.93) == (n == 30)


def test_a_clustered_mean_by_hand() -> None:
    # Clusters {1, 3}, {5}, {3}: mean 3, residuals of the sums -2, 2, 0; three clusters, n = 4.
    estimate = clustered_mean([1.0, 5.0, 3.0, 3.0], [7, -1, 7, 2])
    error = np.sqrt(3 / 2 * (4 + 4 + 0)) / 4
    assert (estimate.value, estimate.n) == (3.0, 4)
    assert half_width(estimate) == pytest.approx(
        4.302653 * error, rel=1e-6
    )  # Student's t, 2 degrees
    assert clustered_mean([1.0, 3.0], [0, 1], bounds=(0, 4)).high <= 4
    assert clustered_mean([1.0, 5.0], [3, 3]) == Estimate(3.0, -INF, INF, 2)
    assert clustered_share([1, 0, 1], [0, 0, 0]) == Estimate(2 / 3, 0.0, 1.0, 3)


def test_clusters_of_one_are_a_plain_mean_with_students_t() -> None:
    values = np.random.default_rng(0).normal(size=40)
    estimate = clustered_mean(values, np.arange(40))
    low, high = scipy_stats.t.interval(0.95, 39, values.mean(), values.std(ddof=1) / np.sqrt(40))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))
    # Labels and order do not matter; a cluster that is repeated n times over is one cluster.
    shuffled = np.random.default_rng(1).permutation(40)
    again = clustered_mean(values[shuffled], 100 - shuffled)
    assert (again.low, again.high) == pytest.approx((low, high))
    twice = clustered_mean(np.repeat(values, 5), np.repeat(np.arange(40), 5))
    assert (twice.low, twice.high, twice.n) == (pytest.approx(low), pytest.approx(high), 200)


def test_where_all_agree_clusters_are_the_trials() -> None:
    for value in (0, 1):
        estimate = clustered_share(np.full(60, value), np.arange(60) // 3)
        expected = share(20 * value, 20)
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))
        assert estimate.value == value
        assert estimate.n == 60
    # So are they where every cluster has the same share, whatever rounding leaves.
    for size in (2, 3, 10, 49):
        estimate = clustered_share(np.arange(6 * size) % size == 0, np.arange(6 * size) // size)
        assert estimate.low < 1 / size < estimate.high and half_width(estimate) > 0.1
        assert estimate.value == pytest.approx(1 / size)


def drawn_clusters(rng: np.random.Generator, documents: int, p: float) -> Any:
    """Documents of 1 to 30 tokens whose shares vary around p (beta, intraclass correlation 1/6)."""
    length = rng.integers(1, 31, documents)
    own = rng.beta(5 * p, 5 * (1 - p), documents)
    cluster = np.repeat(np.arange(documents), length)
    return rng.random(len(cluster)) < own[cluster], cluster


@pytest.mark.parametrize(("documents", "p"), [(20, 0.5), (30, 0.03), (60, 0.3), (200, 0.1)])
def test_the_clustered_interval_covers_the_truth(documents: int, p: float) -> None:
    """Least coverage stated: 0.92. Student's t has 0.875 for 30 documents and p = 0.03.

    An interval of independent trials fails: it takes tokens for independent.
    """
    rng = np.random.default_rng(6)
    hits = independent = student = 0
    for _ in range(TRIALS):
        success, cluster = drawn_clusters(rng, documents, p)
        estimate = clustered_share(success, cluster, sample="a")
        hits += estimate.low <= p <= estimate.high
        assert estimate.influence is not None
        reach = scipy_stats.t.isf(0.025, documents - 1) * estimate.influence.error
        student += abs(estimate.value - p) <= reach
        if p == 0.3:
            plain = share(int(success.sum()), len(success))
            independent += plain.low <= p <= plain.high
    assert covers(hits, 0.92)
    if p == 0.3:
        assert not covers(independent, 0.92)
        assert power_against(0.87, 0.92) >= POWER and independent / TRIALS < 0.85
    assert covers(student, 0.92) == (p >= 0.1)


@pytest.mark.parametrize(("draws", "spread"), [(2, 0.05), (3, 0.0), (3, 0.05), (6, 0.1)])
def test_an_interval_over_documents_and_draws_covers_the_truth(draws: int, spread: float) -> None:
    """Trainings whose accuracies differ, each asked about the same 150 documents; 0.94 is stated.

    The interval of the documents alone fails wherever trainings differ.
    """
    rng, labels = np.random.default_rng(17), draw_labels("training", np.arange(draws))
    hits = alone = 0
    for _ in range(TRIALS):
        own = rng.normal(0.7, spread, draws)
        ease = rng.normal(0.0, 0.5, 150)  # of a document, for all trainings
        right = scipy_stats.norm.ppf(np.clip(own, 0.02, 0.98)) * np.hypot(1, 0.5) + ease[:, None]
        right = rng.normal(size=right.shape) < right
        estimate = clustered_share(right.ravel(), np.repeat(np.arange(150), draws), sample="a")
        alone += estimate.low <= 0.7 <= estimate.high
        estimate = over_draws(estimate, right.mean(0), labels, bounds=(0.0, 1.0))
        hits += estimate.low <= 0.7 <= estimate.high
    assert covers(hits, 0.94)
    assert covers(alone, 0.94) == (spread == 0)


def test_draws_add_their_error_and_cancel_where_they_are_shared() -> None:
    sample = clustered_share([1, 0, 1, 1, 0, 1], [0, 1, 2, 0, 1, 2], sample="a")
    labels = draw_labels("training", [1, 0])
    estimate = over_draws(sample, [0.6, 0.4], labels, bounds=(0.0, 1.0))
    assert sample.influence is not None and estimate.influence is not None
    widened = scipy_stats.t.isf(0.025, 1) / scipy_stats.norm.isf(0.025)
    error = np.hypot(sample.influence.error, widened * 0.1)  # of a mean of two, 0.1 above or below
    assert estimate.influence.error == pytest.approx(error)
    assert estimate.low <= sample.low and sample.high <= estimate.high and estimate.n == sample.n
    assert set(estimate.influence.unit) == {0, 1, 2, *labels.tolist()} and labels.max() < 0
    same = over_draws(sample, [0.5, 0.3], labels)
    assert same.influence is not None and (estimate.influence - same.influence).error < 1e-12
    own = over_draws(sample, [0.5, 0.3], draw_labels("another", [0, 1]))
    assert own.influence is not None
    apart = (estimate.influence - own.influence).error
    assert apart == pytest.approx(widened * 0.1 * np.sqrt(2))
    assert over_draws(sample, [0.6], labels[:1]) is sample


def test_draws_of_something_else_do_not_tell_of_a_single_document() -> None:
    one = clustered_share([1, 0, 1], [0, 0, 0], sample="a")
    assert over_draws(one, [0.6, 0.7, 0.65], draw_labels("training", [0, 1, 2])) is one


def sign_flips(sums: list[float]) -> float:
    """Two-sided p-value over all 2^n signs: twice the smaller tail."""
    every = np.array([np.dot(signs, sums) for signs in product((-1, 1), repeat=len(sums))])
    observed = sum(sums)
    tails = (every >= observed - 1e-9).mean(), (every <= observed + 1e-9).mean()
    return float(min(1.0, 2 * min(tails)))


@pytest.mark.parametrize("seed", range(4))
def test_few_clusters_are_tested_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second, cluster = rng.random(30) < 0.7, rng.random(30) < 0.4, rng.integers(0, 8, 30)
    sums = np.bincount(cluster, first.astype(float) - second)
    p = paired_test(first, second, cluster, np.random.default_rng(0))
    assert p == pytest.approx(sign_flips(sums[sums != 0].tolist()))
    assert paired_test(second, first, cluster, np.random.default_rng(0)) == pytest.approx(p)
    # Another generator changes nothing: no draw is made.
    assert paired_test(first, second, cluster, np.random.default_rng(9)) == p


def test_p_values_by_hand() -> None:
    five = np.arange(5)
    # All five clusters speak for the first: 2 of 32 assignments of signs are as extreme.
    assert paired_test([1] * 5, [0] * 5, five, np.random.default_rng(0)) == pytest.approx(2 / 32)
    assert paired_test([1] * 5, [0] * 5, [3] * 5, np.random.default_rng(0)) == 1
    assert paired_test([1, 0, 1], [1, 0, 1], [0, 1, 2], np.random.default_rng(0)) == 1
    # Differences that cancel within a cluster are no difference.
    assert paired_test([1, 0], [0, 1], [0, 0], np.random.default_rng(0)) == 1
    assert paired_test([1, 0], [0, 1], [0, 1], np.random.default_rng(0)) == 1
    many = np.arange(40)
    least = paired_test([1] * 40, [0] * 40, many, np.random.default_rng(0), resamples=999)
    assert least == pytest.approx(2 / 1000)  # never 0


def test_the_paired_test_keeps_its_level() -> None:
    """Two attacks that are alike, in clusters: rejected at 0.05 in no more than 5% of cases.

    False alarm at most ALARM. Taking tokens for independent rejects far more often.
    """
    rng = np.random.default_rng(8)
    rejected = naive = 0
    trials = 1000
    for _ in range(trials):
        lean = rng.choice([-1, 1], 25)  # a document favours one attack, in all its tokens
        cluster = np.repeat(np.arange(25), 8)
        first = rng.random(200) < 0.5 + 0.3 * lean[cluster]
        second = rng.random(200) < 0.5 - 0.3 * lean[cluster]
        p = paired_test(first, second, cluster, rng, resamples=199)
        assert 0 < p <= 1
        rejected += p <= 0.05
        naive += (
            scipy_stats.binomtest(
                int((first & ~second).sum()), max(1, int((first ^ second).sum()))
            ).pvalue
            <= 0.05
        )
    assert scipy_stats.binom.sf(rejected - 1, trials, 0.05) >= ALARM
    assert scipy_stats.binom.sf(naive - 1, trials, 0.05) < ALARM
    assert rejected / trials > 0.02  # nor is it idle


def two_attacks(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Tokens in documents of their own difficulty, and which of them two attacks name."""
    cluster = np.repeat(np.arange(60), rng.integers(1, 12, 60))
    easy = rng.beta(0.6, 0.6, 60)[cluster]
    first = rng.random(len(cluster)) < easy
    return first, first ^ (rng.random(len(cluster)) < 0.05), cluster


def test_influences_of_a_mean_by_hand() -> None:
    influence = clustered_mean([1.0, 3.0, 8.0, 0.0], [7, 7, 9, 4], sample="a").influence
    assert influence is not None and influence.unit.tolist() == [4, 7, 9]
    factor = np.sqrt(3 / 2) / 4  # residual sums from the mean of 3: -3, -2, 5
    assert influence.effect == pytest.approx(factor * np.array([-3, -2, 5]))
    assert influence.error == pytest.approx(factor * np.sqrt(38))
    one = clustered_mean([1.0, 0.0], [4, 4], sample="a").influence
    assert one is not None and len(one.unit) == 0  # one cluster tells nothing of its error
    assert clustered_mean([1.0, 0.0], [0, 1]).influence is None  # of a sample without a name


@pytest.mark.parametrize("estimate", [clustered_mean, clustered_share])
def test_the_error_of_an_influence_is_that_of_the_interval(estimate: Any) -> None:
    first, _, cluster = two_attacks(np.random.default_rng(1))
    interval = estimate(first, cluster, sample="a")
    student = scipy_stats.t.ppf(0.975, 59)
    assert interval.influence.error * student == pytest.approx(half_width(interval), rel=0.05)


def test_a_difference_in_pairs_is_the_mean_of_the_differences() -> None:
    first, second, cluster = two_attacks(np.random.default_rng(2))
    left, right = (clustered_share(hits, cluster, sample="a") for hits in (first, second))
    direct = clustered_mean(first.astype(float) - second, cluster, sample="a")
    difference = combined((1, -1), (left, right))
    assert difference.value == pytest.approx(direct.value)
    assert difference.influence is not None and direct.influence is not None
    assert difference.influence.error == pytest.approx(direct.influence.error)
    assert (difference.low, difference.high) == pytest.approx((direct.low, direct.high))
    apart = np.hypot(left.influence.error, right.influence.error)  # type: ignore[union-attr]
    assert difference.influence.error < 0.5 * apart  # what taking them for independent would say


def test_differences_in_pairs_cover() -> None:
    rng, repeats = np.random.default_rng(3), 400
    inside = 0
    for _ in range(repeats):
        first, second, cluster = two_attacks(rng)
        difference = combined(
            (1, -1), [clustered_share(h, cluster, sample="a") for h in (first, second)]
        )
        # `second` flips 5% of the answers either way and the difficulty is symmetric about 1/2
        inside += difference.low <= 0 <= difference.high
    low, high = scipy_stats.binom.ppf([ALARM, 1 - ALARM], repeats, 0.95)
    assert low <= inside <= high  # independent errors would cover in all 400
    assert inside < repeats


def test_estimates_of_one_sample_are_combined() -> None:
    three = [clustered_mean(values, [0, 1], sample="a") for values in ([0, 2], [1, 5], [4, 4])]
    average = combined([1 / 3] * 3, three)
    direct = clustered_mean([5 / 3, 11 / 3], [0, 1], sample="a")
    assert average.value == pytest.approx(direct.value) and average.n == 2
    assert average.influence is not None and direct.influence is not None
    assert average.influence.effect == pytest.approx(direct.influence.effect)


def test_a_mean_of_ones_is_one() -> None:
    sure = clustered_mean([1.0, 1.0], [0, 1], sample="a")
    assert float(np.dot([1 / 9] * 9, [1.0] * 9)) > 1  # what the bounds are for
    assert combined([1 / 9] * 9, [sure] * 9, bounds=(0.0, 1.0)).value == 1


def test_documents_that_all_agree_leave_an_error() -> None:
    ones, zeros = (
        clustered_mean(np.full(10, each), np.arange(10), sample="a") for each in (1.0, 0.0)
    )
    assert ones.influence is not None and zeros.influence is not None
    assert (ones.influence - zeros.influence).error == 0
    assert ones.influence.error_if_equal(zeros.influence, 1.0) == pytest.approx(1 / np.sqrt(10))
    single = clustered_mean([1.0], [3], sample="a").influence
    assert single is not None and ones.influence.error_if_equal(single, 0.5) is None


NAN, SHARES = float("nan"), "share: got .*expected 0 <= successes <= n"
ONE, OTHER = (clustered_mean([0.0, 1.0], [0, 1], sample=name) for name in "ab")

test_bad_input_is_named = refused(
    (lambda: share(6, 5), SHARES),
    (lambda: share(NAN, 5), SHARES),  # type: ignore[arg-type]
    (lambda: stratified_mean([1.0], [1]), r"stratum: got counts \[0, 1\]"),
    (lambda: over_draws(ONE, [0.6, 0.4], draw_labels("x", [1])), "expected one label a value"),
    (lambda: over_draws(ONE, [0.6, 0.4], draw_labels("x", [1, 1])), "expected each draw once"),
    (lambda: clustered_mean([], []), "values: got none"),
    (lambda: clustered_mean([1.0, NAN], [0, 1]), "NaN or infinity"),
    (lambda: combined((1, -1), (ONE, OTHER)), "'a' and 'b'"),
    (lambda: combined((), ()), "estimates: got 0, 0 of them with an influence, for 0 weights"),
    (lambda: combined((1,), (ONE, ONE)), "estimates: got 2, 2 .* for 1 weights"),
    (lambda: combined((1,), (share(1, 2),)), "got 1, 0 of them with an influence"),
)
