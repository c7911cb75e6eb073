"""STAMP's polar mechanism: the law of its angles, directions, the all-epsilon form, the claim.

Error rates: see `helpers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    ALARM,
    FloatArray,
    assert_caught,
    assert_follows,
    embedding,
    follows,
    normal_embedding,
)
from scipy.integrate import quad

from textpriv.errors import InvalidInput
from textpriv.mechanisms.polar import Polar, angle_cdf, angle_law
from textpriv.mechanisms.sweep import chance_kept
from textpriv.neighbors import random_directions
from textpriv.privacy import claimed_loss

SMALL = normal_embedding(40, 3, seed=2)
WIDE = normal_embedding(400, 50, seed=3)


def directions(mechanism: Polar, word: int, n: int, rng: np.random.Generator) -> FloatArray:
    return np.concatenate(list(mechanism.noisy_vectors(np.full(n, word), rng)))


def angles(mechanism: Polar, word: int, n: int, rng: np.random.Generator) -> FloatArray:
    unit = mechanism.units[word].astype(float)
    drawn = directions(mechanism, word, n, rng)
    along = drawn @ unit
    return np.arctan2(np.linalg.norm(drawn - along[:, None] * unit, axis=1), along)


@pytest.mark.parametrize("dimension", [2, 3, 8])
@pytest.mark.parametrize("concentration", [0.1, 3.0, 60.0])
def test_the_law_of_the_angle_is_the_integral_of_its_density(
    dimension: int, concentration: float
) -> None:
    def density(angle: float) -> float:
        fall = np.exp(concentration * (np.cos(angle) - 1))
        return float(fall * np.sin(angle) ** (dimension - 2))

    total = quad(density, 0, np.pi, epsabs=1e-13)[0]
    for angle in (0.1, 0.5, 1.5, 3.0):
        expected = quad(density, 0, angle, epsabs=1e-13)[0] / total
        probability = angle_cdf(np.array([angle]), dimension, concentration)[0]
        assert probability == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("epsilon", [2.0, 300.0])
@pytest.mark.parametrize("table", [SMALL, WIDE], ids=["3", "50"])
def test_angles_follow_their_law(epsilon: float, table: object) -> None:
    mechanism = Polar(table, epsilon=epsilon)  # type: ignore[arg-type]
    dimension = mechanism.embedding.dimension

    def drawn(n: int, rng: np.random.Generator) -> FloatArray:
        return angles(mechanism, 7, n, rng)

    def without_pi(n: int, rng: np.random.Generator) -> FloatArray:
        return angles(mechanism.with_epsilon(np.pi * epsilon), 7, n, rng)

    def law(angle: FloatArray) -> FloatArray:
        return angle_cdf(angle, dimension, epsilon / np.pi)

    assert_follows(drawn, law)
    assert_caught(without_pi, law)


def test_a_direction_is_turned_to_every_side_alike() -> None:
    mechanism, rng = Polar(SMALL, epsilon=20.0), np.random.default_rng(3)
    drawn = directions(mechanism, 5, 20_000, rng)
    unit = mechanism.units[5].astype(float)
    first = np.cross(unit, [0.0, 0.0, 1.0])
    first /= np.linalg.norm(first)
    around = np.arctan2(drawn @ np.cross(unit, first), drawn @ first)
    assert follows(around, lambda a: (a + np.pi) / (2 * np.pi), ALARM)


def test_a_word_is_kept_up_to_its_crossing_angle() -> None:
    """Turned a little less it is still the nearest, a little more and it is not: by all cosines."""
    mechanism, words = Polar(SMALL, epsilon=1.0), np.arange(40)
    crossing = mechanism.crossing_angles(words, np.random.default_rng(5))
    rng, units = np.random.default_rng(5), mechanism.units.astype(float)
    tangents = random_directions(40, 3, rng)
    tangents -= (tangents * units).sum(1, keepdims=True) * units
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    for factor, kept in ((0.999, True), (1.001, False)):
        angle = crossing[:, None] * factor
        nearest = ((np.cos(angle) * units + np.sin(angle) * tangents) @ units.T).argmax(1)
        assert ((nearest == words) == kept).all()


def test_words_on_one_side_are_overtaken_beyond_a_right_angle() -> None:
    """Two words, a right angle apart, of the plane: away from the other one turns by 3 / 4 pi."""
    mechanism = Polar(embedding([[2.0, 0.0], [0.0, 3.0]]), epsilon=1.0)
    crossings = {
        round(float(each), 6)
        for seed in range(20)
        for each in mechanism.crossing_angles(np.array([0]), np.random.default_rng(seed))
    }
    assert crossings == {round(np.pi / 4, 6), round(3 * np.pi / 4, 6)}
    # Each side has half of the circle, shared by the bisectors: kept up to 1/4 and 3/4 of pi.
    even = Polar(embedding([[2.0, 0.0], [0.0, 3.0]]), epsilon=1e-9)
    kept = chance_kept(even, np.zeros(4000, dtype=np.int64), np.random.default_rng(1))(1e-9)
    assert kept.mean() == pytest.approx(0.5, abs=0.05)


def test_the_claim_is_that_of_chords_and_ignores_lengths() -> None:
    """Words at a right angle: a chord of sqrt 2, whatever their lengths; opposite ones: 2."""
    table = embedding([[5.0, 0.0], [0.0, 0.1], [-2.0, 0.0]])
    claim = claimed_loss(Polar(table, epsilon=np.pi))
    bounds = claim.between(np.array([0, 0]), np.array([1, 2]))
    np.testing.assert_allclose(bounds, [np.sqrt(2), 2.0])
    assert claim.largest() == pytest.approx(2.0)


def test_densities_of_two_words_differ_by_no_more() -> None:
    """The ratio of densities is largest along u - u', where it is all that is claimed."""
    mechanism = Polar(SMALL, epsilon=30.0)
    bound = claimed_loss(mechanism).between(np.array([3]), np.array([4]))[0]
    one, other = mechanism.units[3].astype(float), mechanism.units[4].astype(float)
    drawn = random_directions(100_000, 3, np.random.default_rng(8))
    loss = mechanism.concentration * (drawn @ (one - other))
    assert 0.99 * bound < np.abs(loss).max() <= bound * (1 + 1e-6)
    along = (one - other) / np.linalg.norm(one - other)
    assert mechanism.concentration * along @ (one - other) == pytest.approx(bound)


@pytest.mark.parametrize("dimension", [2, 3, 8])
def test_an_epsilon_too_small_for_the_directions_is_refused(dimension: int) -> None:
    """At 1e-20 all words pass in clear in three dimensions; at the least any direction is drawn."""
    mechanism = Polar(normal_embedding(40, dimension, seed=2), epsilon=Polar.least_epsilon)
    drawn = directions(mechanism, 3, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    assert np.abs(drawn.mean(0)).max() < 6 / np.sqrt(20_000 * dimension)
    for make in (mechanism.with_epsilon, lambda least: Polar(SMALL, epsilon=least)):
        with pytest.raises(InvalidInput, match="epsilon: got 1e-20, expected at least 1e-12"):
            make(1e-20)


@pytest.mark.parametrize("vectors", [[[1.0], [2.0]], [[0.0, 0.0], [1.0, 1.0]]])
def test_vectors_without_a_direction(vectors: list[list[float]]) -> None:
    with pytest.raises(InvalidInput, match="expected directions: at least two dimensions"):
        Polar(embedding(vectors), epsilon=1.0)


@pytest.mark.parametrize("concentration", [1e-9, 1e-3, 1e6])
@pytest.mark.parametrize("dimension", [2, 3, 300])
def test_the_law_is_one_at_every_scale(dimension: int, concentration: float) -> None:
    angle, reached = angle_law(dimension, concentration)
    assert np.isfinite(reached).all() and reached[0] == 0 and reached[-1] == 1
    assert (np.diff(reached) >= 0).all() and (np.diff(angle) > 0).all()
