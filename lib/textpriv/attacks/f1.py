"""Macro F1 with intervals: how well attackers name authors, and the strongest of several.

macro_f1(author[test], guess, 10)
f1_estimate(author[test], guess, 10, rng)                  # with its interval
strongest({"static": one, "adaptive": other})              # the risk: the greatest of them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student_t

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import check_ids, check_integers
from textpriv.errors import InvalidInput
from textpriv.stats import CONFIDENCE, Estimate, Influence, share

Name = TypeVar("Name")

_CHUNK = 1 << 22  # weights of resampled documents that are held at once


def macro_f1(truth: ArrayLike, guess: ArrayLike, classes: int) -> float:
    """Mean over the classes of F1 = 2 TP / (2 TP + FP + FN), 0 for a class that never occurs.

    `truth` and `guess` are (documents,) 0 .. classes - 1, at least one; classes >= 2.
    """
    actual, guessed = label_pair(truth, guess, classes)
    right = np.bincount(actual[actual == guessed], minlength=classes)
    both = np.bincount(actual, minlength=classes) + np.bincount(guessed, minlength=classes)
    return float(_mean_f1(right, both))


def f1_estimate(
    truth: ArrayLike,
    guess: ArrayLike,
    classes: int,
    rng: np.random.Generator,
    *,
    document: ArrayLike | None = None,
    resamples: int = 2000,
    sample: str | None = None,
) -> Estimate:
    """Macro F1 with an interval by resampling documents.

    Documents are drawn with replacement, each with all its guesses. The interval is Student's t on
    the scale of log-odds, with the standard deviation of the resampled F1 or the jackknife's error,
    whichever is larger: near guessing the first is too small, near 1 the second, and a symmetric
    interval of 80 documents misses one in ten times. It covers the choice of documents and the
    mechanism's noise, but not the training of the attacker, which all guesses of a call have in
    common. Where all resamples agree, or the F1 is 0 or 1, it is that of a share with documents as
    trials.

    Parameters
    ----------
    truth, guess, classes : see `macro_f1`
    rng : of the resamples
    document : (guesses,) integers, which document each guess is about, when several runs of a
        mechanism stand one after the other; None: each about another
    resamples : >= 100
    sample : name of what the documents were drawn from; keeps the `Influence` of each, under its
        number in `document`, by the jackknife: what leaving it out takes from the F1

    Returns
    -------
    Estimate within 0..1, of all guesses; `n` counts guesses
    """
    actual, guessed = label_pair(truth, guess, classes)
    unit, right, both = _counts(actual, guessed, document, classes)
    value = float(_mean_f1(right.sum(0), both.sum(0)))
    influence = _jackknife(sample or "", unit, right, both)
    drawn = _resampled(right, both, rng, resamples)
    if np.ptp(drawn) < 1e-9 or min(value, 1 - value) < 1e-9:  # no more than rounding
        exact = share(round(value * len(right)), len(right))
        low, high = min(value, exact.low), max(value, exact.high)
    else:
        error = max(float(drawn.std()), influence.error)
        low, high = _interval(value, error, len(unit) - 1)
    return Estimate(value, low, high, len(actual), influence if sample else None)


def strongest(estimates: Mapping[Name, Estimate]) -> tuple[Name, Estimate]:
    """The attacker who reaches the greatest F1, and that F1: what is at risk.

    The greatest of several estimates tends to lie above the greatest of what they estimate. Its
    interval is therefore simultaneous over all attackers (Bonferroni): with the interval of each
    of k widened to the level 1 - 0.05 / k, it reaches from the highest low end to the highest high
    end, and holds the greatest true F1 with 95%.

    Returns who it is (of equal ones the first), and the estimate; its influence and n are that
    attacker's.
    """
    who = max(estimates, key=lambda name: estimates[name].value)
    ends = [_widened(estimate, len(estimates)) for estimate in estimates.values()]
    low, high = np.max(ends, axis=0).tolist()
    return who, replace(estimates[who], low=low, high=high)


def _widened(estimate: Estimate, count: int) -> tuple[float, float]:
    """The ends of a 95% interval that is to hold in all of `count` cases with 95%."""
    if estimate.value in (0, 1):  # of a share of which all agree it ends at level ** (1 / n)
        level = (1 - CONFIDENCE) / 2
        power = np.log(level / count) / np.log(level)
        return estimate.low**power, 1 - (1 - estimate.high) ** power
    wider = bonferroni(count)
    low, high = estimate.value - estimate.low, estimate.high - estimate.value
    return max(0.0, estimate.value - wider * low), min(1.0, estimate.value + wider * high)


def bonferroni(count: int) -> float:
    """How many times wider 95% intervals must be to hold in all of `count` cases with 95%."""
    level = (1 - CONFIDENCE) / 2
    return float(norm.isf(level / count) / norm.isf(level))


def _mean_f1(right: NDArray[np.number], both: NDArray[np.number]) -> FloatArray:
    """Macro F1 from right guesses and from documents plus guesses of each class: (..., classes)."""
    ratio = np.zeros(np.shape(both))
    np.divide(2.0 * right, both, out=ratio, where=both > 0)
    mean: FloatArray = ratio.mean(-1)
    return mean


def _counts(
    actual: IntArray, guessed: IntArray, document: ArrayLike | None, classes: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Every document, and what `_mean_f1` takes of it: (documents,), twice (documents, classes)."""
    given = np.arange(len(actual)) if document is None else document
    about = check_integers(given, len(actual), what="document")
    unit, first, row = np.unique(about, return_index=True, return_inverse=True)
    if (actual != actual[first][row]).any():
        raise InvalidInput("document: got one with two true classes; align it with truth")
    size = len(first) * classes
    right = np.bincount((row * classes + actual)[actual == guessed], minlength=size)
    both = np.bincount(row * classes + actual, minlength=size)
    both += np.bincount(row * classes + guessed, minlength=size)
    shape = len(first), classes
    return unit, right.reshape(shape).astype(float), both.reshape(shape).astype(float)


def _jackknife(sample: str, unit: IntArray, right: FloatArray, both: FloatArray) -> Influence:
    """That of every document on macro F1: what leaving it out takes from it, times a factor near 1.

    Efron & Tibshirani 1993, An Introduction to the Bootstrap, section 11.2.
    """
    without = _mean_f1(right.sum(0) - right, both.sum(0) - both)
    effect = np.sqrt((len(unit) - 1) / len(unit)) * (without.mean() - without)
    return Influence(sample, unit, effect)


def _resampled(
    right: FloatArray, both: FloatArray, rng: np.random.Generator, resamples: int
) -> FloatArray:
    """Macro F1 of documents drawn with replacement: (resamples,)."""
    documents = len(right)
    result = np.empty(resamples)
    step = max(1, _CHUNK // documents)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.multinomial(documents, np.full(documents, 1 / documents), size=rows)
        weights = drawn.astype(float)
        result[start : start + rows] = _mean_f1(weights @ right, weights @ both)
    return result


def _interval(value: float, error: float, freedom: int) -> tuple[float, float]:
    """Student's t interval of a share, 0 < value < 1, on the scale of log-odds."""
    reach = float(student_t.ppf((1 + CONFIDENCE) / 2, freedom)) * error / (value * (1 - value))
    low, high = expit(logit(value) + np.array([-reach, reach]))
    return float(low), float(high)


def label_pair(truth: ArrayLike, guess: ArrayLike, classes: int) -> tuple[IntArray, IntArray]:
    actual = check_ids(truth, classes, what="truth")
    guessed = check_ids(guess, classes, what="guess")
    if len(actual) != len(guessed) or not len(actual):
        raise InvalidInput(
            f"guess: got {len(guessed)} for {len(actual)} true classes, expected one for each, and "
            "at least one"
        )
    return actual, guessed
