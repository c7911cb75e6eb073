"""The distinguishability game: its bound holds and finds what can be found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers import refused
from scipy.stats import beta, binom
from sklearn.linear_model import LogisticRegression

from textpriv.attacks.game import FEWEST, _bound, most_shown, play


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


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("n", [20, 60])
def test_the_bound_of_an_event_holds_at_its_confidence(epsilon: float, n: int) -> None:
    """Every outcome of n and n draws of a randomised response, with its exact probability.

    The bound exceeds epsilon with probability 0.1 at most. A wrong version, the plain ratio of
    shares, exceeds it far more often.
    """
    share, hits = 1 / (1 + np.exp(-epsilon)), np.arange(n + 1)
    likely, unlikely = binom.pmf(hits, n, share), binom.pmf(hits, n, 1 - share)
    wrong, plain = 0.0, 0.0
    is_first = np.repeat([True, False], n)
    for one in hits:
        for other in hits:
            scores = np.concatenate([hits[1:] <= one, hits[1:] <= other]).astype(float)
            bound = _bound(scores, is_first, 0.5, True, 0.9)
            probability = likely[one] * unlikely[other]
            wrong += probability * (bound > epsilon)
            plain += probability * (one > np.exp(epsilon) * other)
    assert wrong <= 0.1 and plain > 0.3


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
    assert play([""] * 40, ["a"] * 40, rng).accuracy.value == 1


def words(count: int, rng: np.random.Generator) -> str:
    return " ".join("".join(rng.choice(list("abcdefgh"), 4)) for _ in range(count))


@pytest.mark.parametrize(
    "other",
    [
        lambda text: text.capitalize(),
        lambda text: text.replace(" ", "  ", 1),
        lambda text: text.replace(" ", "\u200b ", 1),
        lambda text: f"{text} {text[:14]}",
        lambda text: text.replace(" ", "ab "),
    ],
    ids=["case", "white space", "invisible", "three words more", "longer words"],
)
def test_what_is_hidden_beside_the_words_tells(other: Callable[[str], str]) -> None:
    """Outputs are of random words. A wrong version lower-cases, folds white space, weighs to 1."""
    rng = np.random.default_rng(4)
    first, second = ([words(9, rng) for _ in range(150)] for _ in range(2))
    assert play(first, second, rng, confidence=0.99).epsilon == 0
    outcome = play(first, [other(text) for text in second], rng)
    assert outcome.accuracy.value > 0.9 and outcome.epsilon > 1


def test_the_event_is_chosen_among_outputs_that_are_not_counted() -> None:
    """Of two equal laws half of the games at most show an epsilon above 0 at a confidence of 0.5.

    A wrong version takes the event that stands out most among the counted outputs, and shows one in
    78 of 100 games; a right one fails here with probability 0.001.
    """
    rng = np.random.default_rng(6)
    games = (play(*rng.normal(size=(2, 200, 1)), rng, confidence=0.5) for _ in range(100))
    assert binom.sf(sum(game.epsilon > 0 for game in games) - 1, 100, 0.5) > 0.001


def test_who_tells_all_apart_shows_the_most() -> None:
    """At distinct scores: a wrong version tries fifty of their quantiles, and never the gap."""
    rng = np.random.default_rng(5)
    low, high = rng.normal(size=(2, 400, 1))
    assert play(low, high + 8, rng).epsilon == pytest.approx(most_shown(400))


RNG = np.random.default_rng(0)

test_wrong_use = refused(
    (lambda: play(["a"] * 5, ["b"] * 5, RNG), f"expected at least {FEWEST}"),
)
