"""A text at every epsilon in one pass: one draw of the noise, cut to every length.

    grid = epsilons_for(mechanism, words, [0.9, 0.5, 0.1], rng)   # shares of words that change
    sweep(mechanism, ids, grid, rng)                              # (epsilons, tokens)

An epsilon says nothing without its table of vectors: at 100 all words of one change and none of
another. So a grid is chosen by the share of words that change, which the all-radii form predicts
without a single look-up.

The noise of MADLIB is (G / epsilon) u with G ~ Gamma(shape n, scale 1), so that one draw of
(u, G) serves every epsilon: its points x + (G / epsilon) u lie on one line. Which word is nearest
where on that line takes two passes over the table (`AllRadii.nearest_along`), however many epsilons
there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from scipy.optimize import brentq

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import LEVEL, check_number
from textpriv.data.tokens import UNKNOWN
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Mechanism, check_epsilons, entropy, simulation
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.mechanisms.noise import Madlib
from textpriv.mechanisms.polar import Polar, angle_cdf
from textpriv.neighbors import AllRadii, ExactSearch, radius_cdf, random_directions

EXTREMES = (1e-6, 1e6)  # between which an epsilon is looked for
_ROWS = 128  # of a finite mechanism, from which a share is predicted
_TOKENS = 1 << 12  # tokens whose envelopes are held at once


def sweep(
    mechanism: Mechanism,
    ids: IntArray,
    epsilons: Iterable[float],
    rng: np.random.Generator | None = None,
) -> IntArray:
    """Sanitized ids at every epsilon: (epsilons, tokens).

    Each row has exactly the law of `mechanism.with_epsilon(epsilon).sanitize_ids(ids)`. With
    `Madlib` or `Mahalanobis` over an exact search the rows share their noise, which costs little
    more than a few rows and takes the noise between epsilons out of a curve. With others every
    row is drawn by itself.

    Parameters
    ----------
    mechanism : its own epsilon does not count
    ids : (tokens,) words of its vocabulary, or UNKNOWN, which becomes a word drawn uniformly
    epsilons : finite numbers > 0, at least one, in any order

    Notes
    -----
    Each row by itself has its mechanism's guarantee, several rows together have none where they
    share their noise: from two points on a known line of the form x + z / epsilon, x follows.
    Send one row and show nobody the others.
    """
    rng = entropy(rng)
    wanted = check_epsilons(epsilons)
    if len(wanted) == 1 or not (
        isinstance(mechanism, Madlib) and isinstance(mechanism.search, ExactSearch)
    ):
        with simulation():  # the warning has been given
            rows = [mechanism.with_epsilon(each).sanitize_ids(ids, rng) for each in wanted]
        return np.stack(rows)
    words = np.array(ids)
    unknown = words == UNKNOWN
    words[unknown] = rng.choice(mechanism.fallback, size=int(unknown.sum()))
    words = check_ids(words, mechanism.size, what="ids")
    lines, dimension = AllRadii(mechanism.search), mechanism.embedding.dimension
    # All lengths first: the same noise however the tokens are parted.
    lengths = rng.gamma(shape=dimension, size=(len(words), 1))
    parts = [np.empty((len(wanted), 0), dtype=np.int64)]
    for start in range(0, len(words), _TOKENS):
        part = slice(start, start + _TOKENS)
        units = mechanism.stretched(random_directions(len(words[part]), dimension, rng))
        # In units of its direction's length, the noise of epsilon has length 1 / epsilon.
        noise = lengths[part] * units
        parts.append(lines.nearest_along(words[part], noise, 1 / np.array(wanted)))
    return np.concatenate(parts, axis=1)


# --- Which epsilons -----------------------------------------------------------------------------


def chance_kept(
    mechanism: Mechanism, words: IntArray, rng: np.random.Generator
) -> Callable[[float], FloatArray]:
    """Probability that each of some words is kept, as a function of epsilon: (words,).

    With `Madlib` or `Mahalanobis` over an exact search: given one random direction for each word,
    GammaCDF(first crossing); with `Polar`, given one tangent, the same of the angle. Of a finite
    mechanism P(kept) itself. Of others one draw, 0 or 1, at every epsilon from the same random
    numbers.

    Parameters
    ----------
    words : (words,) at least one; occurrences count, so that text weighs as text
    """
    ids = check_ids(words, mechanism.size, what="words")
    if not len(ids):
        raise InvalidInput("words: got none, expected at least one")
    dimension = mechanism.embedding.dimension
    if isinstance(mechanism, Madlib) and isinstance(mechanism.search, ExactSearch):
        drawn = mechanism.stretched(random_directions(len(ids), dimension, rng))
        radii = AllRadii(mechanism.search).first_crossing(ids, drawn[:, None])[0][:, 0]
        return lambda epsilon: radius_cdf(radii, dimension, epsilon)
    if isinstance(mechanism, Polar):
        angles = mechanism.crossing_angles(ids, rng)
        return lambda epsilon: angle_cdf(
            angles, dimension, mechanism.with_epsilon(epsilon).concentration
        )
    if isinstance(mechanism, FiniteMechanism):
        types, inverse = np.unique(ids, return_inverse=True)

        def finite(epsilon: float) -> FloatArray:
            kept = mechanism.with_epsilon(epsilon).log_prob(types, types)
            return np.asarray(np.exp(kept)[inverse])

        return finite
    seed = int(rng.integers(2**62))

    def drawn_anew(epsilon: float) -> FloatArray:
        same = np.random.default_rng(seed)
        with simulation():
            outputs = mechanism.with_epsilon(epsilon).sanitize_ids(ids, same)
        return (outputs == ids).astype(np.float64)

    return drawn_anew


def epsilons_for(
    mechanism: Mechanism, words: IntArray, shares: Iterable[float], rng: np.random.Generator
) -> FloatArray:
    """Epsilons at which given shares of some words change in expectation: (shares,).

    That is one minus the mean of `chance_kept`, of a finite mechanism over 128 of the words.

    Parameters
    ----------
    words : see `chance_kept`
    shares : inside (0, 1); the larger the share, the smaller its epsilon

    Raises
    ------
    InvalidInput : a share out of range, or one that no epsilon from 1e-6 to 1e6 gives
    """
    if isinstance(mechanism, FiniteMechanism) and len(words):
        words = rng.choice(words, min(len(words), _ROWS), replace=False)
    kept = chance_kept(mechanism, words, rng)
    change = cache(lambda epsilon: float(1 - kept(epsilon).mean()))
    result = []
    for share in shares:
        check_number(share, LEVEL, what="shares")
        if not change(EXTREMES[0]) >= share >= change(EXTREMES[1]):
            raise InvalidInput(
                f"shares: got {share:g}, expected from {change(EXTREMES[1]):.3g} to "
                f"{change(EXTREMES[0]):.3g}, what {mechanism.name} gives at epsilons {EXTREMES}"
            )

        def excess(logarithm: float, share: float = share) -> float:
            return change(float(np.exp(logarithm))) - share

        result.append(float(np.exp(brentq(excess, *np.log(EXTREMES), xtol=1e-6))))
    return np.array(result)


def check_grid(epsilons: Iterable[float]) -> list[float]:
    """Finite numbers > 0 in ascending order, none twice, at least one; or InvalidInput."""
    wanted = check_epsilons(epsilons)
    if (np.diff(wanted) <= 0).any():
        raise InvalidInput(
            f"epsilons: got {wanted}, expected them ascending and none twice; "
            "use sorted(set(epsilons))"
        )
    return wanted
