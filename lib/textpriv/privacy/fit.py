"""Draws against a law: goodness of fit with a stated error and power.

Each output is turned into its place on [0, 1]: the law's mass of all outputs that stand before it
in some order, and a uniform share of its own. Whatever the law, with rare outputs or without,
this place is uniform if the output was drawn from it (randomised probability integral transform),
and Kolmogorov's test finds out if it is not. Two orders are looked at: from the likeliest output
down, along which a wrong epsilon shows, and a random one. Each input is tested by itself, and all
together; so are draws of one place in their texts, and what two draws have in common. Right draws
fail with probability LEVEL at most, over all tests of an audit (Bonferroni).

Power: a law whose distribution function is off by `gap` somewhere, along either order and over
all inputs together, is caught with probability POWER (Hoeffding 1963). `factor` says the same of
epsilon: draws at so many times epsilon are caught, over all inputs together or for one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import kstest, kstwo

from textpriv.channel import FloatArray, IntArray
from textpriv.privacy.results import LEVEL, Audit

POWER = 0.99
GRID = np.linspace(0, 1, 1001)  # where two distribution functions are compared
_FARTHEST = 20.0  # factor of epsilon beyond which nothing is looked for


@dataclass(frozen=True)
class Fit:
    """Draws against a law.

    Attributes
    ----------
    p : of all tests together; below LEVEL the draws are of another law
    draws : how many there were, over all inputs
    gap : an error of the distribution function that would be caught with probability POWER
    factor : of epsilon, from which on draws would be caught; inf where none up to 20 changes the
        law by as much as `gap`, or there is no epsilon
    """

    p: float
    draws: int
    gap: float
    factor: float


def with_fit(audit: Audit, fit: Fit) -> Audit:
    """The audit with what the draws say; of other draws than those judged nothing is known."""
    return replace(
        audit,
        fit=fit.p,
        fit_draws=fit.draws,
        fit_gap=fit.gap,
        caught_from=1 / fit.factor if np.isfinite(fit.factor) else None,
    )


def fit_of(
    places: Sequence[FloatArray], errors: Callable[[float], Sequence[float] | FloatArray]
) -> Fit:
    """Kolmogorov's test of several samples that are each uniform on [0, 1] if all is right.

    Parameters
    ----------
    places : one array per test; NaN where an output came that the law rules out. The first one
        holds all draws.
    errors : of a factor of epsilon: by how much the distribution functions of the first so many
        would be off
    """
    tests, draws = len(places), len(places[0])
    if any(np.isnan(sample).any() for sample in places):
        least = 0.0
    else:
        least = min(float(kstest(sample, "uniform").pvalue) for sample in places)
    seen = _seen(np.array([len(sample) for sample in places]), LEVEL / tests)

    def beyond(log_factor: float) -> float:
        distances = np.asarray(errors(float(np.exp(log_factor))))
        return float((distances - seen[: len(distances)]).max())

    most = float(np.log(_FARTHEST))
    factor = np.exp(brentq(beyond, 0.0, most, xtol=1e-3)) if beyond(most) > 0 else np.inf
    return Fit(min(1.0, tests * least), draws, float(seen[0]), float(factor))


def _seen(draws: IntArray, level: float) -> FloatArray:
    """Errors of a distribution function that tests of this level find with probability POWER."""
    return np.asarray(kstwo.isf(level, draws) + np.sqrt(-np.log1p(-POWER) / 2 / draws))


def fit_draws(
    law: Callable[[float], FloatArray],
    drawn: IntArray,
    rng: np.random.Generator,
    *,
    strata: Sequence[IntArray] = (),
    pairs: Sequence[tuple[IntArray, IntArray]] = (),
) -> Fit:
    """Draws of several inputs over finitely many outcomes.

    Parameters
    ----------
    law : of a factor of epsilon: P(outcome | input), (inputs, outcomes)
    drawn : (inputs, draws) outcomes, -1 for what is none
    strata : each of the shape of `drawn`: draws of equal values are tested by themselves too
    pairs : places in `drawn`, flat, of draws that must not depend on each other; the second ones of
        a list are distinct. How far places lie apart along the outcomes as they are numbered, on a
        circle, is uniform if they do not
    """
    judged = law(1.0)
    likeliest = np.argsort(-judged, axis=1, kind="stable")
    numbered = np.broadcast_to(np.arange(judged.shape[1]), judged.shape)
    shuffled = np.broadcast_to(rng.permutation(judged.shape[1]), judged.shape)
    placed = [
        np.stack([_places(*row, rng) for row in zip(judged, drawn, order, strict=True)])
        for order in (likeliest, shuffled, numbered)
    ]
    places = [part for each in placed[:2] for part in (each.ravel(), *each)]
    places += [placed[0][each == value] for each in strata for value in np.unique(each)]
    along = placed[2].ravel()
    places += [(along[second] - along[first]) % 1 for first, second in pairs if len(first)]
    reached = np.cumsum(np.take_along_axis(judged, likeliest, axis=1), axis=1)

    def errors(factor: float) -> list[float]:
        other = np.cumsum(np.take_along_axis(law(factor), likeliest, axis=1), axis=1)
        curves = [
            np.interp(GRID, np.append(0.0, knots), np.append(0.0, values))
            for knots, values in zip(reached, other, strict=True)
        ]
        return [float(np.abs(each - GRID).max()) for each in (np.mean(curves, axis=0), *curves)]

    return fit_of(places, errors)


def _places(
    law: FloatArray, drawn: IntArray, order: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Where draws of one input stand on [0, 1]; NaN for what the law rules out."""
    before = np.empty(len(law))
    before[order] = np.cumsum(law[order]) - law[order]
    possible = (drawn >= 0) & (law[drawn] > 0)
    place = np.clip(before[drawn] + rng.random(len(drawn)) * law[drawn], 0.0, 1.0)
    return np.where(possible, place, np.nan)


def equal(drawn: NDArray[np.generic], expected: NDArray[np.generic]) -> Fit:
    """What has one possible output: every one must be it."""
    same = drawn.shape == expected.shape and bool((drawn == expected).all())
    return Fit(float(same), expected.size, 0.0, np.inf)
