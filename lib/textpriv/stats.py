"""Estimates with intervals: no share or mean is reported without its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, permutation_test
from scipy.stats import t as student_t
from statsmodels.stats.proportion import proportion_confint

from textpriv.errors import InvalidInput

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its two-sided confidence interval and the number of observations."""

    value: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence: got {confidence!r}, expected a number between 0 and 1")


def share(successes: int, n: int, *, confidence: float = CONFIDENCE) -> Estimate:
    """A share with Wilson's interval.

    Parameters
    ----------
    successes, n : 0 <= successes <= n, n >= 1, independent trials
    """
    if not 0 <= successes <= n or n < 1:
        raise InvalidInput(f"share: got {successes} of {n}, expected 0 <= successes <= n, n >= 1")
    _check_confidence(confidence)
    low, high = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    value = successes / n
    return Estimate(value, min(float(low), value), max(float(high), value), int(n))


def clustered_mean(
    values: ArrayLike,
    cluster: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Mean of observations that come in clusters (the tokens of a document).

    Observations of one cluster may depend on each other, clusters are independent. The mean is
    a ratio of sums over clusters; its interval is Student's t with the linearised variance
    (Cochran 1977, section 2.11), open if there is one cluster only.

    Parameters
    ----------
    values : (n,) finite observations, n >= 1
    cluster : (n,) integer label of each observation's cluster
    bounds : range of the quantity, to which the interval is cut
    """
    observed = np.asarray(values, dtype=np.float64)
    if observed.ndim != 1 or not len(observed) or np.shape(cluster) != observed.shape:
        raise InvalidInput(
            f"values: got shape {observed.shape} with clusters {np.shape(cluster)}, "
            "expected (n,) and (n,), n >= 1"
        )
    if not np.isfinite(observed).all():
        raise InvalidInput("values: got NaN or infinity, expected finite numbers")
    _check_confidence(confidence)
    _, group = np.unique(np.asarray(cluster), return_inverse=True)
    size, total = np.bincount(group), np.bincount(group, weights=observed)
    value, clusters = float(observed.mean()), len(size)
    if clusters < 2:
        return Estimate(value, *bounds, len(observed))
    residual = total - value * size
    error = np.sqrt(clusters / (clusters - 1) * (residual**2).sum()) / len(observed)
    reach = float(student_t.ppf((1 + confidence) / 2, clusters - 1) * error)
    return Estimate(
        value, max(bounds[0], value - reach), min(bounds[1], value + reach), len(observed)
    )


def clustered_share(
    successes: ArrayLike, cluster: ArrayLike, *, confidence: float = CONFIDENCE
) -> Estimate:
    """A share of trials that come in clusters; see `clustered_mean`.

    Where all trials agree, or all clusters, the variance of the sample is 0; then the interval
    is Wilson's with clusters as trials.
    """
    success = np.asarray(successes, dtype=np.float64)
    found = clustered_mean(success, cluster, confidence=confidence, bounds=(0.0, 1.0))
    if found.high - found.low > 1e-9:  # more than rounding
        return found
    clusters = len(np.unique(cluster))
    wilson = share(round(found.value * clusters), clusters, confidence=confidence)
    return Estimate(found.value, wilson.low, wilson.high, found.n)


def paired_test(
    first: ArrayLike,
    second: ArrayLike,
    cluster: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 9999,
) -> float:
    """Two-sided p-value for equal success of two attacks on the same trials.

    The difference of successes is summed within clusters and the signs of these sums are
    flipped at random: a permutation test that is exact where the two are exchangeable in
    every cluster. The smallest possible value is 2 / (resamples + 1).

    Parameters
    ----------
    first, second : (n,) bool, aligned
    cluster : (n,) integer label of each trial's cluster
    """
    shapes = np.shape(first), np.shape(second), np.shape(cluster)
    if len(set(shapes)) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        raise InvalidInput(
            f"first, second, cluster: got shapes {shapes}, expected (n,) each, n >= 1"
        )
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
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
    confidence: float = CONFIDENCE,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of independent values with the normal interval, which is open for one value.

    Parameters
    ----------
    values : (n,) finite observations
    bounds : range of the quantity, to which the interval is cut
    """
    stratum = np.zeros(np.shape(values), dtype=np.int64)
    return stratified_mean(values, stratum, [1.0], confidence, bounds=bounds)


def stratified_mean(
    values: ArrayLike,
    stratum: ArrayLike,
    weights: ArrayLike,
    confidence: float = CONFIDENCE,
    *,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of a population from a sample drawn independently within strata.

    Parameters
    ----------
    values : (n,) finite observations
    stratum : (n,) stratum number of each, 0 .. len(weights) - 1, none empty
    weights : share of the population in each stratum, > 0 (any sum)
    bounds : range of the quantity, to which the interval is cut

    Notes
    -----
    The variance is that of sampling with replacement, which is at least the true one.
    Observations of one word along several directions must be averaged first.
    """
    observed = np.asarray(values, dtype=np.float64)
    group = np.asarray(stratum)
    part = np.asarray(weights, dtype=np.float64)
    _check_confidence(confidence)
    if observed.ndim != 1 or observed.shape != group.shape or not len(observed):
        raise InvalidInput(
            f"values: got shape {observed.shape}, strata {group.shape}, expected (n,), n >= 1"
        )
    if not np.isfinite(observed).all():
        raise InvalidInput("values: got NaN or infinity, expected finite numbers")
    if part.ndim != 1 or not (np.isfinite(part) & (part > 0)).all():
        raise InvalidInput(f"weights: got {part.tolist()}, expected finite numbers > 0")
    if not np.issubdtype(group.dtype, np.integer) or group.min() < 0:
        raise InvalidInput(f"stratum: expected integers from 0, got {group.dtype} {group[:1]}..")
    count = np.bincount(group, minlength=len(part))
    if len(count) != len(part) or (count == 0).any():
        raise InvalidInput(
            f"stratum: got counts {count.tolist()}, expected {len(part)} strata, none empty"
        )
    part = part / part.sum()
    average = np.bincount(group, weights=observed, minlength=len(part)) / count
    squares = np.bincount(group, weights=(observed - average[group]) ** 2, minlength=len(part))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(count > 1, squares / (count - 1), np.inf)
    error = float(np.sqrt((part**2 * variance / count).sum()))
    value = float(part @ average)
    reach = float(norm.ppf((1 + confidence) / 2)) * error
    low, high = value - reach, value + reach
    if bounds is not None:
        value = float(np.clip(value, *bounds))  # a mean of numbers in bounds, but for rounding
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Estimate(value, low, high, len(observed))


def strata_by_rank(size: int, strata: int) -> NDArray[np.int64]:
    """Stratum of each of `size` ranked words: equal parts, the first the most frequent."""
    if not 1 <= strata <= size:
        raise InvalidInput(f"strata: got {strata}, expected 1 to {size}")
    return np.arange(size, dtype=np.int64) * strata // size
