"""The distinguishability game: its bound holds, finds what can be found, and says what it cannot.

Error rates: see `helpers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ALARM
from scipy.stats import beta, binom
from sklearn.linear_model import LogisticRegression

from textpriv.attacks.game import FEWEST, most_shown, play
from textpriv.errors import InvalidInput


def response(truth: int, epsilon: float, n: int, rng: np.random.Generator) -> list[str]:
    """Randomised response about one bit: exactly epsilon, and no other claim is tight."""
    is_kept = rng.random(n) < 1 / (1 + np.exp(-epsilon))
    return [f"it was {'yes' if kept == bool(truth) else 'no'}" for kept in is_kept]


def test_the_bound_by_hand() -> None:
    """100 outputs each, always told apart: 50 of 50 and 0 of 50, two-sided 95%."""
    played = play(["yes"] * 100, ["no"] * 100, np.random.default_rng(0))
    low, high = beta.ppf(0.025, 50, 1), beta.ppf(0.975, 1, 50)
    assert played.epsilon == pytest.approx(np.log(low / high)) == most_shown(100)
    assert played.accuracy.value == 1 and played.accuracy.n == 100
    assert (played.likely.value, played.unlikely.value) == (1, 0)
    allowing = play(["yes"] * 100, ["no"] * 100, np.random.default_rng(0), delta=0.5)
    assert allowing.epsilon == pytest.approx(np.log((low - 0.5) / high))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
def test_the_bound_exceeds_epsilon_no_more_often_than_stated(epsilon: float) -> None:
    """Over 120 games at confidence 0.9; so many failures or more have probability ALARM."""
    games, failures = 120, 0
    for seed in range(games):
        rng = np.random.default_rng(seed)
        outputs = [response(truth, epsilon, 100, rng) for truth in (1, 0)]
        failures += play(*outputs, rng, confidence=0.9).epsilon > epsilon
    assert failures <= binom.isf(ALARM, games, 0.1)


def test_the_bound_nears_epsilon_with_many_draws() -> None:
    """Power: with 4,000 draws of a randomised response at epsilon 2, at least 1.7 is shown."""
    rng = np.random.default_rng(1)
    outputs = [response(truth, 2.0, 4000, rng) for truth in (1, 0)]
    assert 1.7 < play(*outputs, rng).epsilon <= 2.0


def test_noise_proves_nothing_though_it_can_be_learned_by_heart() -> None:
    """A wrong version counts the outputs that it has learned from: all of them are named."""
    rng = np.random.default_rng(2)
    x, truth = rng.normal(size=(120, 300)), np.repeat([1, 0], 60)
    by_heart = LogisticRegression(C=10.0, max_iter=1000).fit(x, truth)
    assert (by_heart.predict(x) == truth).all()
    assert play(*np.split(x, 2), rng, confidence=0.999).epsilon == 0


def test_a_rare_event_is_found() -> None:
    """One text leads to a word in a tenth of its outputs, the other never: seen by no average."""
    rng = np.random.default_rng(3)
    first = ["a secret" if each < 0.1 else "a b" for each in rng.random(2000)]
    played = play(first, ["a b"] * 2000, rng)
    assert played.epsilon > 2 and played.accuracy.value < 0.6
    other_way = play(["a b"] * 2000, first, rng)
    assert other_way.epsilon > 2


def test_vectors_and_lengths_tell_too() -> None:
    rng = np.random.default_rng(4)
    low, high = rng.normal(size=(2, 400, 3))
    assert play(low, high + 3, rng).epsilon > 1
    assert play(["a b"] * 40, ["a b b b"] * 40, rng).accuracy.value == 1
    assert play([""] * 40, ["a"] * 40, rng).accuracy.value == 1


def test_wrong_use() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match=f"expected at least {FEWEST}"):
        play(["a"] * 5, ["b"] * 5, rng)
    with pytest.raises(InvalidInput, match="got texts and vectors"):
        play(["a"] * 30, np.zeros((30, 2)), rng)
    with pytest.raises(InvalidInput, match="delta"):
        play(["a"] * 30, ["b"] * 30, rng, delta=1.0)
