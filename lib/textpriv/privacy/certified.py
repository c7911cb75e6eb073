"""What MADLIB really loses between two words, from the all-radii form, with certain bounds.

    for bound in certified_losses(madlib, "hockey", "soccer", [5, 10, 20], rng):
        print(bound.epsilon, bound.low, bound.high, bound.claimed)

The claim eps * d is the loss of the noisy vector. The word next to it says less: how much less has
no closed form, but can be bounded for the event that attackers use most, that a word came out as
itself. Its loss is ln P(w|w) - ln P(w|w'), and both are means over directions u of what is known
exactly along u, for every epsilon (`neighbors.radius`):

- P(w|w): the Gamma mass up to the first crossing r*(u);
- P(w|w') from below: the noise around w is that around w' but for a factor, so it is the mean of
  the integral up to r*(u) of g(r) exp(-eps (|r u + w - w'| - r)) dr. The factor grows with r:
  sums at the left ends of pieces are lower bounds. Large values are cut, which only lowers it;
- P(w|w') from above: the mass of w on the envelope around w'.

The means have bounds that hold for every law of bounded values (Maurer & Pontil 2009, Theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from textpriv.channel import FloatArray
from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mahalanobis
from textpriv.mechanisms.base import check_epsilons
from textpriv.neighbors import (
    AllRadii,
    ExactSearch,
    largest_radius,
    radius_cdf,
    random_directions,
)
from textpriv.privacy.claims import claimed_loss

CONFIDENCE = 0.999  # of all bounds of one epsilon together
_PIECES = 64  # of equal mass along a direction
_PILOT = 8  # one direction in so many only says where to cut


@dataclass(frozen=True)
class Certified:
    """Bounds of the loss of "the word came out as itself", between the word and another.

    Attributes
    ----------
    epsilon : as set
    claimed : epsilon * d, in nats
    low, high : the loss lies between them, with CONFIDENCE; -inf and inf are
        possible. Neither takes the claim for granted: low > claimed breaks it.
    kept : estimate of P(w|w)
    """

    epsilon: float
    claimed: float
    low: float
    high: float
    kept: float


def certified_losses(
    mechanism: Madlib,
    word: str,
    other: str,
    epsilons: Iterable[float],
    rng: np.random.Generator,
    *,
    directions: int = 2000,
) -> list[Certified]:
    """Bounds at several epsilons, which share the directions; those of each hold with CONFIDENCE.

    Parameters
    ----------
    mechanism : MADLIB or Mahalanobis with exact search; its own epsilon does not count
    word, other : two words of the vocabulary with different vectors
    epsilons : finite numbers > 0, at least one
    directions : >= 16, around each of the two words

    Raises
    ------
    InvalidInput : an approximate search, a word that the vocabulary lacks
    """
    check_count(directions, 16, what="directions")
    if not isinstance(mechanism, Madlib) or not isinstance(mechanism.search, ExactSearch):
        raise InvalidInput("mechanism: expected a Madlib with exact search")
    ids = mechanism.embedding.ids([word, other])
    if (ids < 0).any():
        raise InvalidInput(f"word, other: got {word!r}, {other!r}; the vocabulary lacks one")
    wanted = check_epsilons(epsilons)
    n, every = mechanism.embedding.dimension, AllRadii(mechanism.search)
    units = random_directions(2 * directions, n, rng).reshape(2, directions, n)
    shaped = np.stack([mechanism.stretched(part) for part in units])
    crossing = every.first_crossing(ids[:1], shaped[:1])[0][0]
    envelope = every.envelope(
        ids[1:], shaped[1:], max_radius=largest_radius(n, min(wanted), tail=1e-12)
    )
    x, z = mechanism.embedding.vectors[ids].astype(np.float64)
    offset = x - z
    if isinstance(mechanism, Mahalanobis):
        offset = np.linalg.solve(mechanism.root, offset)
    along = units[0] @ offset
    level = (1 - CONFIDENCE) / 4
    bounds = []
    for epsilon in wanted:
        kept = radius_cdf(crossing, n, epsilon)
        weighed = _weighed(crossing, along, float(offset @ offset), n, epsilon)
        itself = envelope.output == ids[0]
        mass = np.zeros(directions)
        np.add.at(mass, envelope.pair[itself], envelope.segment_mass(epsilon)[itself])
        claimed = float(claimed_loss(mechanism.with_epsilon(epsilon)).between(ids[:1], ids[1:])[0])
        least = _least_mean(weighed, level)
        stay = _mean_bounds(kept, level / 2)
        with np.errstate(divide="ignore"):
            low = np.log(stay[0]) - np.log(_mean_bounds(mass, level)[1])
            high = np.log(stay[1]) - np.log(least)
        bounds.append(Certified(epsilon, claimed, float(low), float(high), float(kept.mean())))
    return bounds


def _weighed(
    crossing: FloatArray, along: FloatArray, squared: float, n: int, epsilon: float
) -> FloatArray:
    """Lower bound, along every direction, of the mass that another word's noise puts there."""
    within = radius_cdf(crossing, n, epsilon)
    left = gammaincinv(n, np.outer(within, np.arange(_PIECES) / _PIECES)) / epsilon
    distance = np.sqrt(np.maximum(left**2 + 2 * left * along[:, None] + squared, 0.0))
    return np.asarray(within * np.exp(-epsilon * (distance - left)).mean(1))


def _least_mean(values: FloatArray, level: float) -> float:
    """Lower bound of the mean of values >= 0 that fails with probability `level`.

    Values are cut where it pays most in a part of them that is then left out.
    """
    pilot, rest = values[::_PILOT], np.delete(values, np.s_[::_PILOT])
    cuts = [float(cut) for cut in np.quantile(pilot, [0.5, 0.75, 0.9, 0.97, 1.0]) if cut > 0]

    def bound(sample: FloatArray, cut: float) -> float:
        return cut * _mean_bounds(np.minimum(sample, cut) / cut, level, len(rest))[0]

    return bound(rest, max(cuts, key=lambda cut: bound(pilot, cut))) if cuts else 0.0


def _mean_bounds(values: FloatArray, level: float, count: int | None = None) -> tuple[float, float]:
    """Bounds of the mean of values in [0, 1], each of which fails with probability `level`.

    `count`: what the bounds would be of so many values like these.
    """
    n, log = len(values) if count is None else count, np.log(2 / level)
    reach = np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))
    mean = float(values.mean())
    return max(0.0, mean - float(reach)), min(1.0, mean + float(reach))
