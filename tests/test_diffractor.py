"""1-Diffractor: its lists and its law by hand, draws, and the claim along lists.

Error rates: see `helpers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    FloatArray,
    assert_draws_follow,
    assert_within_claim,
    embedding,
    law_of,
    normal_embedding,
)
from hypothesis import given
from hypothesis import strategies as st

from textpriv.errors import InvalidInput
from textpriv.mechanisms.diffractor import Diffractor, greedy_list
from textpriv.neighbors import ExactSearch
from textpriv.privacy import audit_exactly, claimed_loss
from textpriv.privacy.exact import every_loss

SMALL = normal_embedding(30, 3, seed=2)
LINE = embedding([[0.0], [1.0], [3.0], [2.1]])  # from word 0 on: 0, 1, 3, 2


def plain_list(points: FloatArray, start: int) -> list[int]:
    order = [start]
    while len(order) < len(points):
        distance = np.linalg.norm(points - points[order[-1]], axis=1)
        distance[order] = np.inf
        order.append(int(distance.argmin()))
    return order


def plain_law(orders: list[list[int]], epsilon: float) -> FloatArray:
    """One step after the other, as far as float64 sees them."""
    size, a = len(orders[0]), np.exp(-epsilon)
    law = np.zeros((size, size))
    for order in orders:
        for at, word in enumerate(order):
            for k in range(-int(40 / epsilon) - 1, int(40 / epsilon) + 2):
                stop = order[min(max(at + k, 0), size - 1)]
                law[word, stop] += (1 - a) / (1 + a) * a ** abs(k) / len(orders)
    return law


@pytest.mark.parametrize("neighbors", [1, 4, 30])
@pytest.mark.parametrize("start", [0, 17])
def test_a_list_goes_on_to_the_nearest_word_that_is_free(neighbors: int, start: int) -> None:
    points = SMALL.vectors.astype(np.float64)
    near = ExactSearch(points).nearest(points, neighbors)[0]
    assert greedy_list(points, start, near).tolist() == plain_list(points, start)


def test_lists_hold_every_word_once_and_begin_apart() -> None:
    mechanism = Diffractor(SMALL, epsilon=1.0, lists=3)
    assert (np.sort(mechanism.order, axis=1) == np.arange(30)).all()
    assert mechanism.order[:, 0].tolist() == [0, 10, 20]
    assert all(mechanism.place[row, mechanism.order[row, 7]] == 7 for row in range(3))


def test_the_law_of_one_list_by_hand() -> None:
    """a = 1/2: no step has 1/3; at the end 0, all steps down as well, 1/3 + 1/6 + ... = 2/3."""
    law = law_of(Diffractor(LINE, epsilon=np.log(2), lists=1))
    np.testing.assert_allclose(law[0] * 12, [8, 2, 1, 1])  # words 1 and 3 are 1 and 2 steps away
    np.testing.assert_allclose(law[1] * 12, [4, 4, 2, 2])
    np.testing.assert_allclose(law[2] * 12, [1, 1, 8, 2])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 12.0])
@pytest.mark.parametrize("lists", [1, 3])
def test_the_law_sums_over_steps_and_lists(epsilon: float, lists: int) -> None:
    mechanism = Diffractor(SMALL, epsilon=epsilon, lists=lists)
    expected = plain_law(mechanism.order.tolist(), epsilon)
    np.testing.assert_allclose(law_of(mechanism), expected, rtol=1e-9, atol=1e-16)


def test_draws_follow_the_law() -> None:
    """One list in place of four, or one-sided steps, fail."""
    mechanism = Diffractor(SMALL, epsilon=0.5)
    one, sharper = Diffractor(SMALL, epsilon=0.5, lists=1), mechanism.with_epsilon(0.55)
    assert_draws_follow(mechanism, [0, 13, 29], 50_000, law_of(one), law_of(sharper))


@given(st.integers(0, 100_000), st.floats(0.01, 30), st.integers(1, 3))
def test_no_pair_loses_more_than_is_claimed(seed: int, epsilon: float, lists: int) -> None:
    rng = np.random.default_rng(seed)
    table = embedding(rng.standard_normal((int(rng.integers(3, 12)), 2)).round(1))
    assert_within_claim(Diffractor(table, epsilon=epsilon, lists=lists))


def test_one_list_loses_all_that_is_claimed() -> None:
    """The words themselves as outputs: no two of one list are closer than their steps."""
    mechanism = Diffractor(SMALL, epsilon=0.3, lists=1)
    first, second = np.triu_indices(30, 1)
    bound = claimed_loss(mechanism).between(first, second)
    np.testing.assert_allclose(every_loss(mechanism, np.arange(30)), bound)
    assert audit_exactly(mechanism).worst_ratio == pytest.approx(1)


def test_near_words_may_be_many_steps_apart() -> None:
    """Word 0 between two arms: the list goes down one, and comes back to the other last."""
    arms = np.append(np.arange(20) * 1.0, -np.arange(1, 20) * 1.1)[:, None]
    mechanism = Diffractor(embedding(arms), epsilon=1.0, lists=1)
    assert claimed_loss(mechanism).between(np.array([0]), np.array([20]))[0] == 20


def test_an_epsilon_too_small_for_the_numbers_of_steps_is_refused() -> None:
    """At 1e-20 these overflow, and most words would pass in clear; at the least they follow P."""
    mechanism = Diffractor(SMALL, epsilon=Diffractor.least_epsilon, lists=1)
    assert_draws_follow(mechanism, [0], 20_000)
    for make in (mechanism.with_epsilon, lambda least: Diffractor(SMALL, epsilon=least)):
        with pytest.raises(InvalidInput, match="epsilon: got 1e-20, expected at least 1e-12"):
            make(1e-20)


@pytest.mark.parametrize("lists", [0, 31, 2.0])
def test_wrong_numbers_of_lists(lists: int) -> None:
    with pytest.raises(InvalidInput, match="lists: got .*, expected an integer from 1 to 30"):
        Diffractor(SMALL, epsilon=1.0, lists=lists)
