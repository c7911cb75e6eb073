"""Vickrey: its law against simulation and closed forms, its limits, its claim, the registry."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers import ALARM, POWER, Sparse, embedding, fits, normal_embedding, power_of_fit
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as laws

from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mahalanobis
from textpriv.mechanisms.vickrey import Vickrey, share_of_nearest
from textpriv.neighbors import ExactSearch
from textpriv.privacy import claimed_loss

POINTS = embedding([[0.0], [1.0], [3.0]])  # three words on a line


def law_on_the_line(word: int, epsilon: float, t: float, *, swapped: bool = False) -> Any:
    """P(output | word) of POINTS by integration over the noise, which is Laplace's.

    Nothing of the library is used. `swapped` weighs the distances the wrong way round.
    """
    points, law = POINTS.vectors[:, 0].astype(float), np.zeros(3)
    nodes, weights = np.polynomial.legendre.leggauss(100)  # between kinks
    for low, high in pairwise([-60.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 60.0]):
        place = (low + high + (high - low) * nodes) / 2
        mass = (high - low) / 2 * weights * laws.laplace.pdf(place, points[word], 1 / epsilon)
        distance = np.abs(points - place[:, None])
        first, second = np.argsort(distance, axis=1, kind="stable")[:, :2].T
        near, far = np.sort(distance, axis=1)[:, :2].T
        if swapped:
            near, far = far, near
        nearest = (1 - t) * far / (t * near + (1 - t) * far)
        np.add.at(law, first, mass * nearest)
        np.add.at(law, second, mass * (1 - nearest))
    return law / law.sum()  # the tails beyond 60 hold less than 1e-20


@pytest.mark.parametrize("word", [0, 1, 2])
@pytest.mark.parametrize("t", [0.5, 0.75])
def test_draws_follow_the_law(word: int, t: float) -> None:
    """False alarm at most ALARM each; the distances the wrong way round, and MADLIB, are caught."""
    n, mechanism = 120_000, Vickrey(Madlib(POINTS, epsilon=1.0), t=t)
    drawn = mechanism.sanitize_ids(np.full(n, word), np.random.default_rng(4))
    right = law_on_the_line(word, 1.0, t)
    assert fits(np.bincount(drawn, minlength=3), right, ALARM)
    for wrong in (law_on_the_line(word, 1.0, t, swapped=True), law_on_the_line(word, 1.0, 0.0)):
        assert power_of_fit(wrong, right, n) >= POWER
        false = np.random.default_rng(4).multinomial(n, wrong)
        assert not fits(false, right, ALARM)


def test_hand_computed_shares() -> None:
    distances = np.array([[1.0, 3.0], [2.0, 2.0], [0.0, 1.0]])
    # (1 - t) d2 / (t d1 + (1 - t) d2) with t = 1/4: 2.25 / 2.5, 3/4, 1
    np.testing.assert_allclose(share_of_nearest(distances, 0.25), [0.9, 0.75, 1.0])
    np.testing.assert_allclose(share_of_nearest(distances, 0.5), [0.75, 0.5, 1.0])
    np.testing.assert_array_equal(share_of_nearest(distances[:2], 0.0), [1, 1])
    np.testing.assert_array_equal(share_of_nearest(distances, 1.0), [0, 0, 0])
    for t in (0.0, 0.3, 1.0):  # where the formula has no value
        assert share_of_nearest(np.zeros((1, 2)), t) == pytest.approx(1 - t)


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 10))
def test_shares_are_probabilities_and_favour_the_nearer(t: float, near: float, more: float) -> None:
    share = share_of_nearest(np.array([[near, near + more]]), t)[0]
    assert 0 <= share <= 1 and share >= 1 - t - 1e-12


@pytest.mark.parametrize("inner", [Madlib, Mahalanobis])
def test_the_limits(inner: type[Madlib]) -> None:
    """t = 0 gives the word that the noise gives, t = 1 the second nearest, of the same noise."""
    table, ids = normal_embedding(60, 5), np.arange(60).repeat(5)
    madlib = inner(table, epsilon=4.0)
    rng = np.random.default_rng(2)
    rng.random(len(ids))  # what chooses between the two
    queries = np.concatenate(list(madlib.noisy_vectors(ids, rng)))
    nearest = ExactSearch(table.vectors).nearest(queries, 2)[0]
    for t, place in ((0.0, 0), (1.0, 1)):
        drawn = Vickrey(madlib, t=t).sanitize_ids(ids, np.random.default_rng(2))
        np.testing.assert_array_equal(drawn, nearest[:, place])
        assert (drawn != nearest[:, 1 - place]).all()


@pytest.mark.parametrize("inner", [Madlib, Mahalanobis])
def test_it_claims_what_its_noise_claims(inner: type[Madlib]) -> None:
    madlib = inner(normal_embedding(9, 2), epsilon=1.0)
    assert Vickrey(madlib, t=0.5).claim == madlib.claim
    assert ("A^-1" in Vickrey(madlib, t=0.5).claim.protects) == (inner is Mahalanobis)
    words, others = np.arange(9), np.arange(9)[::-1]
    losses = [claimed_loss(each).between(words, others) for each in (madlib, Vickrey(madlib, t=0))]
    np.testing.assert_array_equal(*losses)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("t", [0.0, 0.5, 1.0])
def test_an_index_may_find_less(t: float) -> None:
    table = normal_embedding(30, 3)
    one = Vickrey(Madlib(table, epsilon=1.0, search=Sparse(1, table)), t=t)
    assert set(one.sanitize_ids(np.zeros(50, dtype=int))) == {0}
    none = Vickrey(Madlib(table, epsilon=1.0, search=Sparse(0, table)), t=t)
    drawn = none.sanitize_ids(np.zeros(3000, dtype=int), np.random.default_rng(0))
    assert fits(np.bincount(drawn, minlength=30), np.full(30, 1 / 30))


@pytest.mark.parametrize("t", [-0.1, 1.1, np.nan, "half"])
def test_wrong_thresholds(t: Any) -> None:
    with pytest.raises(InvalidInput, match="t: got .*, expected a number >= 0 and <= 1"):
        Vickrey(Madlib(POINTS, epsilon=1.0), t=t)
