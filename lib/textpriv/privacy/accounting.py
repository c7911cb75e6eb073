"""What a text costs: the sum of its words' losses, and less where more is known than their size.

    spent = account(losses, ranges=ranges, delta=1e-6)
    spent.epsilon        the sum: holds for every mechanism
    spent.composed       epsilon at this delta, where losses partly cancel

A mechanism has *bounded range* r between two inputs when its privacy loss, whatever the output,
lies in an interval of length r. Exponential mechanisms do: SanText, TEM, CusText inside a group,
the choice among candidates, sampling from clipped scores. So r-bounded range lies between (r/2)-
and r-differential privacy. Of noise mechanisms no such interval is known: their losses
are just added here, although they cancel too (their Renyi divergences would give less).

Among all laws of the loss on an interval [t - r, t] the two-point law on its ends is the worst,
for every convex divergence: the ratio of probabilities has mean 1, and a convex function is
largest at the ends. It is "generalised randomised response":

    P(first) = (1 - e^(t-r)) / (1 - e^-r),   Q(first) = (e^-t - e^-r) / (1 - e^-r),   0 <= t <= r.

Two bounds follow. `optimal_delta` is exact for losses of equal range whose mechanisms are fixed
beforehand. `composed_epsilon` adds Renyi divergences, each at its worst t: it holds for ranges
that differ, and where a step depends on what came out before (a language model's next token).

References
----------
Durfee & Rogers 2019 (bounded range); Dong, Durfee & Rogers 2020 (optimal composition, the cost
of adaptivity); Cesar & Rogers 2021 (r^2/8-zCDP); Canonne, Kamath & Steinke 2020, Prop. 12
(from Renyi divergence to epsilon and delta).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from textpriv.channel import FloatArray
from textpriv.checks import LEVEL, NOT_NEGATIVE, POSITIVE, Interval, at_least, checked
from textpriv.errors import InvalidInput

ORDERS = 1 + np.logspace(-4, 6, 600)  # of Renyi divergences; each order gives a valid bound
_CELLS = 1 << 22  # numbers held at once


@dataclass(frozen=True)
class Account:
    """What some texts cost, given that the mechanism's claim holds.

    Attributes
    ----------
    tokens : words that are protected
    epsilon : the sum of all losses; inf where a word has no bound
    delta : in (0, 1), added to the probability of every event
    composed : an epsilon that holds with this delta; the sum itself where no range is known
    """

    tokens: int
    epsilon: float
    delta: float
    composed: float


@checked(delta=LEVEL)
def account(
    losses: ArrayLike,
    *,
    ranges: ArrayLike | None = None,
    adaptive: bool = False,
    delta: float = 1e-6,
) -> Account:
    """The cost of a text, or of all texts of a person.

    Parameters
    ----------
    losses : (tokens,) bound on each token's loss, >= 0, in nats; inf where there is none
    ranges : (tokens,) bounds on the lengths of the intervals that hold the losses, for
        mechanisms that have them (`Claim.bounded_range`); None: the losses just add up
    adaptive : whether a token's law depends on earlier outputs, as a language model's does
    delta : in (0, 1)

    Notes
    -----
    For a corpus give the losses of all texts of one person: texts of different persons do not
    add up for any of them, and the corpus costs what its costliest person pays. A text that is
    sanitized several times, each time afresh, costs the sum of all times.
    """
    each = _check_losses(losses)
    total = composed = float(each.sum())
    if ranges is not None:
        lengths = _check_losses(ranges)
        if lengths.shape != each.shape:
            raise InvalidInput(f"ranges: got {lengths.shape}, expected the losses' {each.shape}")
        if np.isfinite(lengths).all():
            composed = min(composed, composed_epsilon(lengths, delta))
            steps, equal = len(each), len(each) > 0 and not np.ptp(lengths)
            if equal and not adaptive and steps <= LARGEST_OPTIMAL:
                composed = min(composed, optimal_epsilon(float(lengths[0]), steps, delta))
    return Account(len(each), total, delta, composed)


# --- Ranges that may differ, steps that may depend on each other ---------------------------------


@checked(order=Interval(Real, 1, None, closed="neither"))
def renyi_divergence(ranges: ArrayLike, order: float) -> FloatArray:
    """Largest Renyi divergence of an order that bounded range allows, for every range.

    At most order * range^2 / 8 (the range's concentrated differential privacy) and at most
    the range; below both in between.

    Parameters
    ----------
    ranges : >= 0, finite
    order : > 1

    Notes
    -----
    With s = e^t the divergence of randomised response is a constant times A s^(a-1) - B s^a,
    A = 1 - e^(-a r), B = e^-r - e^(-a r). It is largest at s = (a-1) A / (a B), inside [1, e^r].
    """
    r = _check_losses(ranges)
    if not np.isfinite(r).all():
        raise InvalidInput("ranges: got inf, expected finite numbers")
    limit = np.minimum(r, order * r**2 / 8)
    known = r > 1e-5  # below, the closed form is all rounding and the limit is as good
    x = np.where(known, r, 1.0)
    scale = np.log1p(-1 / order) + x - _log_rest((order - 1) * x)
    total = order * _log_rest(order * x) - np.log(order) + (order - 1) * scale - _log_rest(x)
    return np.where(known, np.clip(total / (order - 1), 0.0, limit), limit)


@checked(delta=LEVEL)
def composed_epsilon(ranges: ArrayLike, delta: float) -> float:
    """Epsilon that holds up to delta for mechanisms of bounded range, adaptive or not.

    `ranges` are (steps,) finite numbers >= 0; for the others see `account`.
    """
    r = _check_losses(ranges)
    distinct, times = np.unique(r, return_counts=True)
    total = float(r.sum())
    if not total > 0:
        return 0.0
    best = total
    for order in ORDERS:
        spent = float(renyi_divergence(distinct, order) @ times)
        rest = -np.log(order * delta) / (order - 1) + np.log1p(-1 / order)
        best = min(best, spent + float(rest))
    return max(0.0, best)


# --- Equal ranges, fixed beforehand: the exact optimum -------------------------------------------

LARGEST_OPTIMAL = 4096  # steps; the work grows with their square


@checked(bound=POSITIVE, count=at_least(1, LARGEST_OPTIMAL), epsilon=NOT_NEGATIVE)
def optimal_delta(bound: float, count: int, epsilon: float) -> float:
    """Least delta that always holds for `count` fixed mechanisms of one range.

    Parameters
    ----------
    bound : the range, > 0, finite
    count : 1 to LARGEST_OPTIMAL
    epsilon : >= 0

    References
    ----------
    Dong, Durfee & Rogers 2020, Theorem 2: of all t only
    (epsilon + (l + 1) range) / (count + 1), l = 0 .. count, cut to [0, range], can be the worst.
    """
    r = float(bound)
    fewer = np.arange(count + 1)
    shifts = np.clip((epsilon + (fewer + 1) * r) / (count + 1), 0.0, r)
    worst = -np.inf
    for part in np.array_split(shifts, -(-len(shifts) * len(shifts) // _CELLS)):
        worst = max(worst, float(_log_delta(part, r, count, epsilon).max()))
    return float(np.exp(min(worst, 0.0)))


def _log_delta(shifts: FloatArray, bound: float, count: int, epsilon: float) -> FloatArray:
    """ln of E[(P/Q - e^epsilon)+] under Q, for `count` responses, at every shift t."""
    t, second = shifts[:, None], np.arange(count + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_first = -t + _log_rest(bound - t) - _log_rest(bound)
        log_second = _log_rest(t) - _log_rest(bound)
        # 0 * -inf is nothing, not NaN: no response of a kind that never comes.
        firsts = np.where(second == count, 0.0, (count - second) * log_first)
        seconds = np.where(second == 0, 0.0, second * log_second)
        ways = gammaln(count + 1) - gammaln(second + 1) - gammaln(count - second + 1)
        loss = count * t - second * bound
        gain = np.where(
            loss > epsilon, loss + np.log(-np.expm1(np.minimum(epsilon - loss, 0.0))), -np.inf
        )
    terms = ways + firsts + seconds + gain
    return np.asarray(logsumexp(np.where(np.isnan(terms), -np.inf, terms), axis=1))


@checked(delta=LEVEL)
def optimal_epsilon(bound: float, count: int, delta: float) -> float:
    """Least epsilon that holds up to delta for `count` fixed mechanisms of one range."""
    if bound == 0 or optimal_delta(bound, count, 0.0) <= delta:
        return 0.0
    root = brentq(
        lambda epsilon: optimal_delta(bound, count, epsilon) - delta, 0.0, bound * count, xtol=1e-9
    )
    return min(float(root) + 1e-8, bound * count)  # to the safe side of the root


def _log_rest(x: ArrayLike) -> FloatArray:
    """ln(1 - e^-x) for x >= 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-np.asarray(x, dtype=np.float64))))


def _check_losses(values: ArrayLike) -> FloatArray:
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 1 or np.isnan(losses).any() or (losses < 0).any():
        raise InvalidInput(
            f"losses: got shape {losses.shape}, expected a 1-d array of numbers >= 0"
        )
    return losses
