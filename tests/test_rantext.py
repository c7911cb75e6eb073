"""RANTEXT: the law of its radius, the channel against integrals, draws, and what is not kept.

Error rates: see `helpers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    ALARM,
    FloatArray,
    assert_draws_follow,
    embedding,
    law_of,
    margin,
    normal_embedding,
)
from scipy.integrate import quad
from scipy.stats import gamma, kstest

from textpriv.errors import InvalidInput
from textpriv.mechanisms import noise_length, rantext
from textpriv.mechanisms.noise_length import LaplaceLength
from textpriv.mechanisms.rantext import RanText, noise_epsilon
from textpriv.privacy import audit_exactly, claimed_loss
from textpriv.privacy.exact import losses

SMALL = normal_embedding(40, 3, seed=2)
LINE = embedding([[0.0], [1.0], [3.0], [2.1]])


def test_one_coordinate_has_an_exponential_length_however_far() -> None:
    radius = np.array([0.3, 1.0, 5.0, 20.0, 60.0, 500.0])
    np.testing.assert_allclose(LaplaceLength([2.0]).log_survival(radius), -radius / 2, atol=0.01)
    np.testing.assert_allclose(LaplaceLength([2.0, 0.0]).log_survival(radius), -radius / 2,
                               atol=0.01)  # fmt: skip


@pytest.mark.parametrize("dimension", [3, 300])
def test_lengths_follow_the_law(dimension: int) -> None:
    """False alarm at most ALARM beyond the 0.005 that the grid may be off."""
    rng = np.random.default_rng(1)
    scales = rng.uniform(0.5, 1.5, dimension)
    drawn = np.linalg.norm(rng.laplace(scale=scales, size=(20_000, dimension)), axis=1)
    length = LaplaceLength(scales)
    gap = kstest(drawn, lambda r: -np.expm1(length.log_survival(r))).statistic
    assert gap <= margin(20_000, ALARM) + 0.005


def test_the_far_tail_is_that_of_the_widest_coordinate() -> None:
    """z_1 of scale 1 beside noise a hundredth as wide: P(|z| > r) is nearly e^-r."""
    length = LaplaceLength([1.0, *[0.01] * 20])
    tails = length.log_survival(np.array([20.0, 40.0, 200.0]))
    np.testing.assert_allclose(tails, [-20, -40, -200], atol=0.02)


@pytest.mark.parametrize("scales", [[], [0.0, 0.0], [-1.0], [np.nan], [[1.0]]])
def test_wrong_scales(scales: object) -> None:
    with pytest.raises(InvalidInput, match="scales: got shape"):
        LaplaceLength(scales)  # type: ignore[arg-type]


def test_equal_vectors_have_no_radius() -> None:
    with pytest.raises(InvalidInput, match="got equal vectors only"):
        RanText(embedding(np.ones((4, 2))), epsilon=6.0)


@pytest.mark.parametrize("epsilon", [1.0, 6.0, 40.0])
def test_the_law_is_the_integral_over_the_radius(epsilon: float) -> None:
    """On a line the radius is exponential: one integral for each pair of words."""
    points = LINE.vectors[:, 0].astype(float)
    scale = np.ptp(points) / noise_epsilon(epsilon)
    expected = np.empty((4, 4))
    for x in range(4):
        distance = np.abs(points - points[x])
        ends = [*np.unique(distance), distance.max() + 60 * scale]
        for y in range(4):

            def integrand(r: float, distance: FloatArray = distance, y: int = y) -> float:
                weights = np.where(distance < r, np.exp(epsilon / 2 * (1 - distance / r)), 0.0)
                return float(np.exp(-r / scale) / scale * weights[y] / weights.sum())

            parts = zip(ends[:-1], ends[1:], strict=True)
            expected[x, y] = sum(quad(integrand, *each, limit=200)[0] for each in parts)
    np.testing.assert_allclose(law_of(RanText(LINE, epsilon=epsilon)), expected, rtol=0.04)
    np.testing.assert_allclose(law_of(RanText(LINE, epsilon=epsilon)), expected, atol=5e-4)


def test_finer_grids_change_little(monkeypatch: pytest.MonkeyPatch) -> None:
    table = normal_embedding(300, 300, seed=3)
    coarse = law_of(RanText(table, epsilon=6.0))
    monkeypatch.setattr(rantext, "GRID", 4096)
    monkeypatch.setattr(rantext, "FAR", 256)
    monkeypatch.setattr(noise_length, "CELLS", 8192)
    np.testing.assert_allclose(coarse, law_of(RanText(table, epsilon=6.0)), rtol=0.01)


def test_no_epsilon_at_all_gives_any_word() -> None:
    np.testing.assert_allclose(law_of(RanText(SMALL, epsilon=1e-6)), 1 / 40, rtol=1e-3)


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_draws_follow_the_law(epsilon: float) -> None:
    assert_draws_follow(RanText(SMALL, epsilon=epsilon), [0, 13, 39], 20_000)


def test_the_radius_hardly_knows_epsilon() -> None:
    assert noise_epsilon(1.999) == 1.999
    assert noise_epsilon(2) == pytest.approx(9.12, abs=0.01)  # of released code
    assert 9.3 < noise_epsilon(2.1) < noise_epsilon(14) < 9.41


def test_what_is_published_does_not_hold() -> None:
    """A far word costs the tail of the radius, which no epsilon of the choice pays for."""
    far = embedding([[0.0], [0.1], [30.0], [30.2]])
    mechanism = RanText(far, epsilon=6.0)
    # A radius of 30 (exponential, of mean 30.2 / 9.38) is 9.3 nats from word 1, none from word 3.
    loss = losses(mechanism, np.array([1]), np.array([3]))[0]
    assert loss > 29.9 / 30.2 * noise_epsilon(6.0) - 1 > 6
    assert np.isinf(claimed_loss(mechanism).between(np.array([0]), np.array([1]))[0])
    assert audit_exactly(mechanism).verdict == "no claim"
    stated = audit_exactly(mechanism, published=True)
    assert stated.verdict == "broken" and stated.worst_ratio > 1.4


def test_noise_of_a_uniform_direction_is_told_apart() -> None:
    """A wrong version: noise as of MADLIB, whose length is Gamma(dimension)."""
    scales = np.ones(3)
    drawn = gamma(3).rvs(20_000, random_state=1)
    length = LaplaceLength(scales)
    assert kstest(drawn, lambda r: -np.expm1(length.log_survival(r))).statistic > 0.1
