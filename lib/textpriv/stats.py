"""Estimates with intervals: no share or mean is reported without its uncertainty.

Intervals of bounded quantities are those of Korn and Graubard (1998): Clopper and Pearson's for
as many independent draws as would have the estimated error. They keep inside the bounds, cover
with two values as with a hundred (tests/test_stats.py), and are never without width. Where values
of a document are alike, documents few and the event is rare, 95% are about 91%. Those of unbounded
quantities are Student's t.

Two estimates from the same documents share most of their error, and their difference is known far
better than either. An estimate that names its `sample` therefore keeps what each document did to
it, its `Influence`; influences can be subtracted.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, norm, permutation_test
from scipy.stats import t as student_t
from statsmodels.stats.proportion import proportion_confint

from textpriv.checks import LEVEL, checked
from textpriv.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Influence:
    """What each independent unit, say a document, did to an estimate.

    The variance of the estimate is the sum of the squared effects (linearisation, or the
    jackknife), and that of a difference of two estimates the sum of the squared differences of
    effects.

    Parameters
    ----------
    sample : what the units were drawn from; units of another sample are other units
    unit : (units,) distinct integers, ascending
    effect : (units,) in the unit of the estimate; none where one unit was all there is
    """

    sample: str
    unit: NDArray[np.int64]
    effect: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Standard error of the estimate."""
        return float(np.sqrt((self.effect**2).sum()))

    def __add__(self, other: Influence) -> Influence:
        """That of the sum of two estimates from one sample."""
        if self.sample != other.sample:
            raise InvalidInput(
                f"influence: got samples {self.sample!r} and {other.sample!r}, expected one sample"
            )
        unit = np.union1d(self.unit, other.unit)
        effect = np.zeros(len(unit))
        for each in (self, other):
            effect[np.searchsorted(unit, each.unit)] += each.effect
        return Influence(self.sample, unit, effect)

    def __mul__(self, factor: float) -> Influence:
        """That of an estimate times a number."""
        return Influence(self.sample, self.unit, factor * self.effect)

    def __sub__(self, other: Influence) -> Influence:
        """That of the difference of two estimates from one sample."""
        return self + other * -1.0

    def error_if_equal(self, other: Influence, apart: float) -> float | None:
        """Standard error of a difference that is `apart`, if there were none; None if unknown.

        A test asks for this one: the spread of the units about 0 and not about their mean, so that
        ten documents that all agree are not certain.
        """
        units = min(len(self.unit), len(other.unit))
        return float(np.hypot((self - other).error, apart / np.sqrt(units))) if units > 1 else None


@dataclass(frozen=True)
class Estimate:
    """A value, its two-sided interval, the number of observations, and what each unit did to it.

    The `influence` is there where the sample was named.
    """

    value: float
    low: float
    high: float
    n: int
    influence: Influence | None = field(default=None, repr=False, compare=False)

    def columns(self) -> dict[str, Any]:
        """As columns of a table; the influence is one where the sample was named."""
        return {key: each for key, each in vars(self).items() if each is not None}

    @classmethod
    def from_row(cls, row: Mapping[str, Any] | pd.Series[Any]) -> Estimate:
        """The estimate whose `columns` a row of a table has."""
        return cls(**{each.name: row[each.name] for each in fields(cls) if each.name in row})


@checked(confidence=LEVEL)
def share(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Estimate:
    """A share of n >= 1 independent trials with the interval of Clopper and Pearson (1934).

    It covers at every n and share.
    """
    if not 0 <= successes <= n or n < 1:
        raise InvalidInput(f"share: got {successes} of {n}, expected 0 <= successes <= n, n >= 1")
    low, high = proportion_confint(successes, n, alpha=1 - confidence, method="beta")
    return Estimate(successes / n, float(low), float(high), int(n))


def _interval(
    value: float,
    error: float,
    units: int,
    bounds: tuple[float, float],
    *,
    degrees: int | None = None,
    most_trials: float = np.inf,
) -> tuple[float, float]:
    """The interval of a mean from its standard error.

    Within finite bounds it is Clopper and Pearson's of so many trials as have this error, with
    the degrees of freedom of the error allowed for (Korn & Graubard 1998, Survey Methodology 24).
    Units that all agree leave no error to go by. Then the interval says what their number alone
    does: that the next unit is below the lowest seen, or above the highest, with a probability
    of at most 1 - (alpha / 2)^(1 / units), and may then lie as far as the bound.

    Parameters
    ----------
    error : estimated standard error; infinite where unknown
    units : independent units behind it
    degrees : degrees of freedom of the error; units - 1 when None
    most_trials : at most so many trials, where observations are trials
    """
    low, high = bounds
    degrees = units - 1 if degrees is None else degrees
    if units < 2 or degrees < 1 or np.isinf(error):
        return bounds
    span, tail = high - low, (1 - CONFIDENCE) / 2
    agree = error <= 1e-9 * (span if np.isfinite(span) else abs(value))  # but for rounding
    if not np.isfinite(span):
        reach = np.inf if agree else float(student_t.isf(tail, degrees)) * error
        return max(low, value - reach), min(high, value + reach)
    part = min(max((value - low) / span, 0.0), 1.0)
    if agree:
        all_inside = tail ** (1 / units)
        bounded = low + part * all_inside * span, high - (1 - part) * all_inside * span
        return min(bounded[0], value), max(bounded[1], value)
    narrower = (norm.isf(tail) / student_t.isf(tail, degrees)) ** 2
    trials = min(part * (1 - part) / (error / span) ** 2, most_trials) * narrower
    hits, misses = part * trials, (1 - part) * trials
    least = float(beta.ppf(tail, hits, misses + 1)) if hits > 0 else 0.0
    most = float(beta.isf(tail, hits + 1, misses)) if misses > 0 else 1.0
    return min(low + least * span, value), max(low + most * span, value)


def _observations(values: ArrayLike) -> NDArray[np.float64]:
    """The values, finite and at least one; InvalidInput, since a mean of others is silently NaN."""
    observed = np.asarray(values, dtype=np.float64)
    if not observed.size or not np.isfinite(observed).all():
        raise InvalidInput("values: got none, NaN or infinity, expected finite numbers")
    return observed


def clustered_mean(
    values: ArrayLike,
    cluster: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    sample: str | None = None,
    are_trials: bool = False,
) -> Estimate:
    """Mean of observations that come in independent clusters (the tokens of a document).

    A ratio of sums over clusters with the linearised variance (Cochran 1977, section 2.11); its
    interval (`_interval`) is as wide as the bounds if there is one cluster only.

    Parameters
    ----------
    values, cluster : (n,) finite observations, n >= 1, and the integer label of each one's cluster
    bounds : range of the quantity
    sample : name of what the clusters were drawn from; keeps the `Influence` of each
    are_trials : whether the interval is never narrower than that of as many independent trials
    """
    observed = _observations(values)
    unit, group = np.unique(np.asarray(cluster), return_inverse=True)
    size, total = np.bincount(group), np.bincount(group, weights=observed)
    value, clusters = float(np.clip(observed.mean(), *bounds)), len(size)  # but for rounding
    if clusters < 2:
        unknown = Influence(sample, unit[:0], np.empty(0)) if sample else None
        return Estimate(value, *bounds, len(observed), unknown)
    effect = np.sqrt(clusters / (clusters - 1)) * (total - value * size) / len(observed)
    influence = Influence(sample or "", unit, effect)
    most_trials = len(observed) if are_trials else np.inf
    low, high = _interval(value, influence.error, clusters, bounds, most_trials=most_trials)
    return Estimate(value, low, high, len(observed), influence if sample else None)


def clustered_share(
    successes: ArrayLike, cluster: ArrayLike, *, sample: str | None = None
) -> Estimate:
    """A share of trials that come in clusters; see `clustered_mean`."""
    return clustered_mean(successes, cluster, bounds=(0.0, 1.0), sample=sample, are_trials=True)


def draw_labels(what: str, numbers: ArrayLike) -> NDArray[np.int64]:
    """Units of draws that are no documents, say "split" 0 to 2: the same for the same name.

    They are below zero, where no document is, so that both stand in one `Influence`.
    """
    return -1 - (zlib.crc32(what.encode()) * 1024 + np.asarray(numbers, dtype=np.int64))


def over_draws(
    estimate: Estimate,
    values: ArrayLike,
    labels: NDArray[np.int64],
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """An estimate over documents and over few draws of something else: a map, a split, a training.

    Both vary by chance, and the variances add up. Each draw is one more unit of the influence, with
    its effect widened as Student's t exceeds the normal law at so few, for an interval of 95%: a
    test at a far smaller level rejects more often than it states where draws are nearly all. What
    differs between draws because of their documents is counted twice, which errs on the safe side.

    Parameters
    ----------
    estimate : the mean over all draws, with the error of its documents, and its influence
    values : (draws,) the same under each draw alone; a single one tells of no error
    labels : (draws,) from `draw_labels`, each once: equal ones where two estimates share a draw
    bounds : range of the quantity
    """
    value = np.asarray(values, dtype=np.float64)
    if estimate.influence is None or value.shape != np.shape(labels):
        raise InvalidInput(
            f"over_draws: got {value.shape} values, {np.shape(labels)} labels and "
            f"{estimate!r}, expected one label a value, and an estimate that names its sample"
        )
    if len(np.unique(labels)) < len(labels):
        raise InvalidInput(f"labels: got {labels.tolist()}, expected each draw once")
    draws, documents = len(value), int((estimate.influence.unit >= 0).sum())
    if draws < 2 or documents < 2:  # the error of a single document is unknown, whatever is drawn
        return estimate
    tail = (1 - CONFIDENCE) / 2
    widened = float(student_t.isf(tail, draws - 1) / norm.isf(tail))
    effect = widened * (value - value.mean()) / np.sqrt(draws * (draws - 1))
    order = np.argsort(labels)
    drawn = Influence(estimate.influence.sample, labels[order], effect[order])
    influence = estimate.influence + drawn
    low, high = _interval(estimate.value, influence.error, documents, bounds)
    ends = min(low, estimate.low), max(high, estimate.high)
    return Estimate(estimate.value, *ends, estimate.n, influence)


def paired_test(
    first: ArrayLike,
    second: ArrayLike,
    cluster: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 9999,
) -> float:
    """Two-sided p-value for equal success of two attacks on the same trials, each (n,) bool.

    The difference of successes is summed within clusters and the signs of these sums are
    flipped at random: a permutation test that is exact where the two are exchangeable in
    every cluster. No value is below 2 / (resamples + 1), nor below 2 / 2^n with n clusters.
    """
    difference = np.subtract(*np.stack([first, second]).astype(np.float64))
    _, group = np.unique(np.asarray(cluster), return_inverse=True)
    sums = np.bincount(group, weights=difference)
    sums = sums[sums != 0]  # clusters without a difference change nothing
    if len(sums) < 2:  # one cluster is as likely to favour either
        return 1.0
    drawn = permutation_test(
        (sums,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, (1 << 22) // len(sums)),
        rng=rng,
    )
    return float(drawn.pvalue)


def mean(
    values: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    sample: str | None = None,
) -> Estimate:
    """Mean of independent values, numbered from 0; see `clustered_mean`.

    Without bounds the interval is Student's t, open where all agree or there is one value.
    """
    return clustered_mean(values, np.arange(np.size(values)), bounds=bounds, sample=sample)


def combined(
    weights: Sequence[float],
    estimates: Sequence[Estimate],
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """A weighted sum of estimates from one sample, with its 95% interval and the smallest n.

    A mean of k of them has weights 1 / k, a difference 1 and -1. What the estimates share cancels
    or adds up as it does in each unit, and is not taken for independent.

    Parameters
    ----------
    weights, estimates : as many of either, at least one; every estimate with its influence
    bounds : range of the quantity, which a sum without error needs for an interval
    """
    influences = [each.influence for each in estimates if each.influence is not None]
    if not len(weights) == len(estimates) == len(influences) > 0:
        raise InvalidInput(
            f"estimates: got {len(estimates)}, {len(influences)} of them with an influence, for "
            f"{len(weights)} weights, expected at least one, each with a weight and an influence; "
            "name their `sample` when they are made"
        )
    value = float(np.clip(np.dot(weights, [each.value for each in estimates]), *bounds))
    parts = [each * weight for each, weight in zip(influences, weights, strict=True)]
    influence = reduce(operator.add, parts)
    low, high = _interval(value, influence.error, len(influence.unit), bounds)
    return Estimate(value, low, high, min(each.n for each in estimates), influence)


def stratified_mean(
    values: ArrayLike,
    stratum: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Mean of a population from a sample drawn independently within strata, its equal parts.

    The variance is that of sampling with replacement, which is at least the true one.
    Observations of one word along several directions must be averaged first.

    Parameters
    ----------
    values : (n,) finite observations
    stratum : (n,) stratum number of each, from 0, none empty
    """
    observed, group = _observations(values), np.asarray(stratum)
    count = np.bincount(group)
    if (count == 0).any():
        raise InvalidInput(f"stratum: got counts {count.tolist()}, expected none empty")
    part = np.full(len(count), 1 / len(count))
    average = np.bincount(group, weights=observed) / count
    squares = np.bincount(group, weights=(observed - average[group]) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(count > 1, squares / (count - 1), np.inf)
    error = float(np.sqrt((part**2 * variance / count).sum()))
    value = float(np.clip(part @ average, *bounds))  # in bounds but for rounding
    units, degrees = len(observed), len(observed) - len(part)
    low, high = _interval(value, error, units, bounds, degrees=degrees)
    return Estimate(value, low, high, units)
