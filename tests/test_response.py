"""Randomized response: its law in closed form, its draws, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import refused
from scipy.stats import chisquare

from textpriv.data.embeddings import from_arrays
from textpriv.mechanisms.response import RandomizedResponse
from textpriv.privacy import claimed_loss, exact

TABLE = from_arrays("made up", list("abcde"), np.eye(5))


def test_the_law_by_hand() -> None:
    mechanism = RandomizedResponse(TABLE, epsilon=np.log(6))  # 6 to 1 to 1 to 1 to 1
    every = np.arange(5)
    law = np.full((5, 5), 0.1) + 0.5 * np.eye(5)
    np.testing.assert_allclose(np.exp(mechanism.log_rows(every)), law)
    np.testing.assert_allclose(np.exp(mechanism.log_columns(every)), law)
    assert mechanism.kept == pytest.approx(0.6)
    assert RandomizedResponse.keeping(TABLE, 0.6).epsilon == pytest.approx(np.log(6))


def test_draws_follow_the_law() -> None:
    mechanism = RandomizedResponse(TABLE, epsilon=1.0)
    for word in range(5):
        drawn = mechanism.sanitize_ids(np.full(40_000, word), np.random.default_rng(word))
        law = np.exp(mechanism.log_rows(np.array([word])))[0]
        assert chisquare(np.bincount(drawn, minlength=5), 40_000 * law).pvalue > 1e-4
    rare = RandomizedResponse(TABLE, epsilon=40.0).sanitize_ids(np.zeros(1000, int))
    assert (rare == 0).all()  # others in fewer than one of 10^13 draws


def test_the_promise_is_met_and_no_smaller_one_would_be() -> None:
    mechanism = RandomizedResponse(TABLE, epsilon=2.5)
    pairs = np.array([0, 1]), np.array([4, 2])
    assert claimed_loss(mechanism).between(*pairs).tolist() == [2.5, 2.5]
    np.testing.assert_allclose(exact.losses(mechanism, *pairs), 2.5)


test_impossible_ones = refused(
    (lambda: RandomizedResponse.keeping(TABLE, 0.1), "epsilon"),  # others would be likelier
    (lambda: RandomizedResponse.keeping(TABLE, 1.0), "share"),
)
