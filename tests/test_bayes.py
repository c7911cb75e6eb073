"""Attacks on one token, by hand on small channels and by enumeration of all outputs.

Wrong versions that must be caught: a prior that is forgotten, a channel that is transposed,
a constant that is added to words the channel does not replace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, assert_form, embedding, refused
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from test_attacks import corpus
from test_channel import Table

from textpriv import channel as channels
from textpriv.attacks.base import NONE, Observed, TokenAttack
from textpriv.attacks.bayes import (
    Bayes,
    ContextFreeBayes,
    ContextFreeBound,
    EmbeddingInversion,
    PriorOnly,
    bayes_success,
    prior_of,
)
from textpriv.data.tokens import KEPT, UNKNOWN

LAW = np.array([[0.6, 0.4, 0.0, 0.0], [0.5, 0.3, 0.2, 0.0], [0.1, 0.1, 0.8, 0.0], [0, 0, 0.5, 0.5]])
CHANNEL = Table(LAW)
SHADOW = corpus([0, 1, 1, 1, 2, KEPT, UNKNOWN, 1, 2], 5, 4)  # counts 1, 4, 2, 0 of 7
PART = Table(LAW)  # word 2 passes
PART.inputs = np.array([0, 1, 3])
POINTS = embedding([[0.0], [1.0], [3.0], [7.0]])


def guesses(attack: TokenAttack, outputs: list[int], top: int) -> tuple[Any, FloatArray]:
    seen = Observed(corpus(outputs), np.ones(len(outputs), dtype=bool))
    made = attack.guess(seen, top=top)
    return made.words.tolist(), made.scores


def test_a_prior_by_hand() -> None:
    np.testing.assert_allclose(prior_of(CHANNEL, SHADOW), np.array([1, 4, 2, 0]) / 7)
    np.testing.assert_allclose(prior_of(PART, SHADOW), np.array([1, 4, 0, 0]) / 5)
    np.testing.assert_allclose(ContextFreeBayes(CHANNEL, SHADOW).prior * 7, [2, 5, 3, 1])
    # The constant goes to words that are replaced, seen or not, and to no other.
    for constant, expected in (
        (None, [0.4, 1, 0, 0.2]),
        (0.5, [0.7, 1.3, 0, 0.5]),
        (0, [0.2, 0.8, 0, 0]),
    ):
        prior = ContextFreeBayes(PART, SHADOW, constant=constant).prior
        np.testing.assert_allclose(prior, expected)


def test_context_free_bayes_by_hand() -> None:
    # Weights 2, 5, 3, 1 (of 7) times the columns:
    #   y = 0: 1.2, 2.5, 0.3, 0     y = 2: 0, 1.0, 2.4, 0.5
    words, scores = guesses(ContextFreeBayes(CHANNEL, SHADOW), [0, 2, 0], 4)
    assert words == [[1, 0, 2, NONE], [2, 1, 3, NONE], [1, 0, 2, NONE]]
    np.testing.assert_allclose(scores[0, :3], np.array([2.5, 1.2, 0.3]) / 4.0)
    np.testing.assert_allclose(scores[1, :3], np.array([2.4, 1.0, 0.5]) / 3.9)
    assert np.isneginf(scores[:, 3]).all()


def test_the_bound_takes_the_frequencies_of_the_private_text() -> None:
    # Weights 1, 4, 2, 0: word 3 alone gives output 3, and the private text has no word 3.
    words, scores = guesses(ContextFreeBound(CHANNEL, SHADOW), [0, 3], 3)
    assert words == [[1, 0, 2], [NONE] * 3]
    np.testing.assert_allclose(scores[0], np.array([2.0, 0.6, 0.2]) / 2.8)
    assert np.isneginf(scores[1]).all()


def test_prior_only_guesses_the_frequent_words() -> None:
    words, scores = guesses(PriorOnly(CHANNEL, SHADOW), [3, 0], 5)
    assert words == [[1, 2, 0, NONE, NONE]] * 2
    np.testing.assert_allclose(scores[1, :3], np.array([4, 2, 1]) / 7)
    assert guesses(PriorOnly(CHANNEL, corpus([2, 0])), [1], 3)[0] == [[0, 2, NONE]]  # a tie


def test_embedding_inversion_guesses_the_nearest_words() -> None:
    words, scores = guesses(EmbeddingInversion(CHANNEL, POINTS), [1, 3], 3)
    assert words == [[1, 0, 2], [3, 2, 1]]
    np.testing.assert_allclose(scores, -np.array([[0, 1, 2], [0, 4, 6]]), atol=1e-6)
    # Among those that can be an input; more than there are stay empty.
    words, scores = guesses(EmbeddingInversion(PART, POINTS), [2], 5)
    assert words == [[1, 0, 3, NONE, NONE]]
    np.testing.assert_allclose(scores[0, :3], [-2, -3, -4], atol=1e-6)


def test_ties_go_to_the_lower_word() -> None:
    channel = Table(np.full((6, 6), 1 / 6))
    for top in range(1, 8):
        words, _ = guesses(Bayes(channel, np.ones(6), name="tie"), [3], top)
        assert words == [[*range(min(6, top)), *[NONE] * (top - 6)]]
    words, _ = guesses(Bayes(channel, np.array([1, 2, 1, 2, 0, 1]), name="tie"), [3], 3)
    assert words == [[1, 3, 0]]
    words, scores = guesses(Bayes(channel, np.zeros(6), name="no word"), [3], 1)
    assert words == [[NONE]] and np.isneginf(scores).all()


@pytest.mark.parametrize(
    "attack",
    [
        ContextFreeBayes(CHANNEL, SHADOW),
        ContextFreeBound(CHANNEL, SHADOW),
        PriorOnly(CHANNEL, SHADOW),
        EmbeddingInversion(CHANNEL, POINTS),
    ],
    ids=lambda attack: attack.name,
)
def test_form(attack: TokenAttack) -> None:
    seen = Observed(corpus([0, 1, 2, 2]), np.array([True, False, True, True]))
    many = assert_form(attack, seen)
    for top in range(1, 9):
        made = attack.guess(seen, top=top)
        np.testing.assert_array_equal(made.words, many.words[:, :top])
        np.testing.assert_array_equal(made.scores, many.scores[:, :top])
    assert (np.diff(many.scores[:, :3]) <= 0).all()
    assert_form(attack, Observed(corpus([0, 1, 2, 1], 1, 0, 3), np.ones(4, dtype=bool)))


def expected_success(attack: TokenAttack, law: FloatArray, truth: FloatArray) -> float:
    """sum over x, y of P(x) P(y|x) [the guess for y is x]."""
    possible = np.flatnonzero(truth @ law > 0)
    best = np.array(guesses(attack, possible.tolist(), 1)[0])[:, 0]
    return float(sum(truth[x] * law[x, y] for x, y in zip(best, possible, strict=True) if x >= 0))


laws = st.integers(2, 5).flatmap(
    lambda size: st.tuples(
        arrays.arrays(np.float64, (size, size), elements=st.integers(0, 6).map(float)),
        arrays.arrays(np.int64, (12,), elements=st.integers(0, size - 1)),
        arrays.arrays(np.int64, (5,), elements=st.integers(0, size - 1)),
    )
)


@given(laws)
def test_the_optimal_attack_is_the_best_and_prior_only_beats_chance(made: Any) -> None:
    weights, private, shadow = made
    weights = weights + np.eye(len(weights)) * (weights.sum(1) == 0)[:, None]
    law = weights / weights.sum(1, keepdims=True)
    channel, size = Table(law), len(law)
    text, other = corpus(private.tolist()), corpus(shadow.tolist())
    truth = prior_of(channel, text)
    optimal = bayes_success(channel, truth)
    bound = ContextFreeBound(channel, text)
    assert expected_success(bound, law, truth) == pytest.approx(optimal)
    for attack in (
        ContextFreeBayes(channel, other),
        ContextFreeBayes(channel, text),
        PriorOnly(channel, other),
        PriorOnly(channel, text),
        EmbeddingInversion(channel, embedding(np.arange(size)[:, None])),
    ):
        assert expected_success(attack, law, truth) <= optimal + 1e-12
    known = expected_success(PriorOnly(channel, text), law, truth)
    assert optimal + 1e-12 >= known >= 1 / size - 1e-12 and known == pytest.approx(truth.max())
    # With its own prior the Bayesian attack lies between prior and bound: nothing beats it.
    own = prior_of(channel, text)
    bayes = expected_success(Bayes(channel, own, name="own"), law, truth)
    assert optimal + 1e-12 >= bayes >= known - 1e-12
    assert 0 <= optimal <= 1


@given(laws)
def test_scores_are_the_posterior(made: Any) -> None:
    weights, private, _ = made
    channel = Table((weights + 0.5) / (weights + 0.5).sum(1, keepdims=True))
    size = channel.size
    attack = ContextFreeBayes(channel, corpus(private.tolist()))
    words, scores = guesses(attack, list(range(size)), size)
    np.testing.assert_allclose(scores.sum(1), 1)
    assert (np.diff(scores) <= 0).all()
    expected = channel.posterior(np.arange(size), attack.prior)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, np.array(words), axis=1))


class Forgets(Bayes):
    """Wrong: no prior."""

    def __init__(self, channel: Table, corpus: Any) -> None:
        super().__init__(channel, np.ones(channel.size), name="wrong")


def transposed(law: FloatArray) -> Table:
    """Wrong: columns for rows, as where P(x|y) is taken for P(y|x)."""
    return Table(law.T / np.maximum(law.T.sum(1, keepdims=True), 1e-300))


def test_wrong_versions_fall_short_of_the_bound() -> None:
    law = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
    truth = corpus([0] * 3 + [1] + [2] * 6)
    prior = prior_of(Table(law), truth)
    best = bayes_success(Table(law), prior)
    assert best == pytest.approx(expected_success(ContextFreeBound(Table(law), truth), law, prior))
    assert best - expected_success(Forgets(Table(law), truth), law, prior) > 0.05
    wrong = ContextFreeBound(transposed(law), truth)
    assert best - expected_success(wrong, law, prior) > 0.05


def test_the_success_of_the_best_attacker_by_hand() -> None:
    # max over x of P(y|x) P(x) with P = (1, 4, 2, 0) / 7: y = 0: 2.0, 1: 1.2, 2: 1.6, 3: 0.
    assert bayes_success(CHANNEL, prior_of(CHANNEL, SHADOW)) == pytest.approx(4.8 / 7)
    assert bayes_success(Table(np.eye(4)), np.full(4, 0.25)) == pytest.approx(1)
    assert bayes_success(Table(np.full((4, 4), 0.25)), np.array([0.1, 0.2, 0.3, 0.4])) == 0.4


def test_the_closed_form_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bayes_success(CHANNEL, prior_of(CHANNEL, SHADOW))
    monkeypatch.setattr(channels, "ROW_BYTES", 1)
    assert bayes_success(CHANNEL, prior_of(CHANNEL, SHADOW)) == pytest.approx(whole)


UNEVEN = Table(LAW + np.outer([0, 0, 1, 0], [0.1, 0, 0, 0]))  # a row sums to 1.1
EVEN = np.full(4, 0.25)
NEGATIVE = np.array([1.0, 1, 1, -1])
NO_PRIOR = "prior: got shape .*expected 4 probabilities"

test_bad_input_is_named = refused(
    (lambda: bayes_success(CHANNEL, np.ones(4)), NO_PRIOR),
    (lambda: bayes_success(CHANNEL, np.full(3, 1 / 3)), NO_PRIOR),
    (lambda: bayes_success(CHANNEL, NEGATIVE / 2), NO_PRIOR),
    (lambda: bayes_success(CHANNEL, np.array([np.nan, 0.5, 0.25, 0.25])), NO_PRIOR),
    (lambda: guesses(Bayes(CHANNEL, NEGATIVE, name="wrong"), [0], 1), "4 finite weights >= 0"),
    (lambda: bayes_success(UNEVEN, EVEN), "channel: the row of input 2 sums to 1.1"),
    (lambda: guesses(Bayes(CHANNEL, EVEN, name="x"), [4], 1), "outputs: got ids 4..4"),
    (lambda: EmbeddingInversion(Table(np.eye(3)), POINTS), "expected one of the channel.s 3"),
    (lambda: PriorOnly(PART, corpus([2, 2])), "none of its 2 tokens is replaced"),
)
