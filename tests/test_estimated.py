"""The estimated channel of MADLIB: a channel, near the mechanism's law, and with its own parts.

Error rates: see `helpers`. Where an estimate is held against a law, its own error is bounded
by Hoeffding's inequality over the pairs of opposite directions.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, embedding, likeliest_by_hand, margin, normal_embedding, refused
from scipy import stats
from scipy.special import logsumexp

from textpriv.mechanisms import Madlib, Mahalanobis, estimated
from textpriv.mechanisms.estimated import NoiseChannel, _Replacement
from textpriv.neighbors import AllRadii, AnnoySearch, Distances, ExactSearch, random_directions

SIZE, DIMENSION, EPSILONS = 60, 4, (1.0, 2.0, 4.0)
WORDS = np.arange(SIZE)
SMALL = normal_embedding(SIZE, DIMENSION, seed=3)


@cache
def channels(directions: int = 200) -> dict[float, NoiseChannel]:
    rng = np.random.default_rng(0)
    return NoiseChannel.estimate(Madlib(SMALL, epsilon=1), EPSILONS, rng, directions=directions)


def formula(made: NoiseChannel) -> FloatArray:
    """P(y|x) as the docstring has it, word by word."""
    rows = SMALL.vectors.astype(np.float64)
    law = np.empty((SIZE, SIZE))
    for x in WORDS:
        apart = ((rows - rows[x]) ** 2).sum(1)
        length = ((rows - rows.mean(0)) ** 2).sum(1)
        weight = np.exp(made.reach * length - made.decay * apart)
        weight[x] = 0
        kept = np.exp(made.log_kept[x])
        law[x] = (1 - kept) * weight / weight.sum()
        law[x, x] = kept
    return law


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rows_are_the_formula_and_sum_to_one_and_columns_are_theirs(epsilon: float) -> None:
    made = channels()[epsilon]
    rows = np.exp(made.log_rows(WORDS))
    assert made.decay > 0
    np.testing.assert_allclose(rows.sum(1), 1, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rows, formula(made), rtol=1e-9)
    log_rows = np.log(rows)
    np.testing.assert_allclose(made.log_rows([7, 2, 7]), log_rows[[7, 2, 7]], rtol=1e-9)
    np.testing.assert_allclose(made.log_columns(WORDS), log_rows.T, rtol=0, atol=1e-5)
    np.testing.assert_allclose(made.log_columns([9, 4]), log_rows.T[[9, 4]], rtol=0, atol=1e-5)


def test_the_likeliest_inputs_are_those_of_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    made, rng = channels()[2.0], np.random.default_rng(1)
    partial = rng.random(SIZE)
    partial[rng.permutation(SIZE)[:40]] = 0
    outputs = rng.permutation(SIZE)  # many of them impossible as inputs
    for prior in (partial, np.ones(SIZE), np.eye(SIZE)[11]):
        best, joints, evidence = likeliest_by_hand(made, outputs, prior, SIZE + 3)
        # One row at a time, and seven at a time.
        for count, size in itertools.product((1, 5, SIZE + 3), (1, 8 * SIZE * 7)):
            monkeypatch.setattr("textpriv.channel.ROW_BYTES", size)
            words, log_joint, log_evidence = made.likeliest_inputs(outputs, prior, count)
            np.testing.assert_array_equal(words, best[:, :count])
            np.testing.assert_allclose(log_joint, joints[:, :count], rtol=1e-12)
            np.testing.assert_allclose(log_evidence, evidence, rtol=1e-12)


def line_kept(left: float, right: float, epsilon: float) -> float:
    """P(kept) on a line, where the noise is Laplace: half the gap to either side is the cell."""
    cdf = stats.laplace(scale=1 / epsilon).cdf
    return float(cdf(right / 2) - cdf(-left / 2))


def test_three_words_on_a_line_are_kept_by_the_known_law() -> None:
    """On a line an opposite pair has both directions there are: the estimate has no noise."""
    madlib = Madlib(embedding([[-1.0], [0.0], [3.0]]), epsilon=1)
    directions, epsilon = 4000, 1.5
    made = NoiseChannel.estimate(
        madlib, [epsilon], np.random.default_rng(0), directions=directions
    )[epsilon]
    law = [line_kept(*gaps, epsilon) for gaps in ((np.inf, 1), (1, 3), (3, np.inf))]
    # The mean over words counts as one direction more.
    assert np.abs(np.exp(made.log_kept) - law).max() <= 1 / (2 * directions + 1) + 1e-6
    whole_gaps = [line_kept(*gaps, epsilon) for gaps in ((np.inf, 2), (2, 6), (6, np.inf))]
    assert np.abs(np.array(whole_gaps) - law).min() > 0.01


def kept_by_draws(madlib: Madlib, draws: int) -> FloatArray:
    drawn = madlib.sanitize_ids(np.repeat(WORDS, draws), np.random.default_rng(5))
    return (drawn.reshape(SIZE, draws) == WORDS[:, None]).mean(1)


@pytest.mark.parametrize(("kind", "epsilon"), [(Madlib, 1.0), (Madlib, 4.0), (Mahalanobis, 2.0)])
def test_the_kept_share_is_that_of_draws(kind: Any, epsilon: float) -> None:
    """False alarm at most 2e-6 over both samples: a pair's mean and a draw lie in [0, 1]."""
    directions, draws, mechanism = 2000, 1500, kind(SMALL, epsilon=epsilon)
    rng = np.random.default_rng(2)
    made = NoiseChannel.estimate(mechanism, [epsilon], rng, directions=directions)[epsilon]
    kept = np.exp(made.log_kept)
    alarm = 1e-6 / SIZE
    bound = margin(directions, alarm) + margin(draws, alarm) + 1 / (2 * directions + 1)
    assert np.abs(kept - kept_by_draws(mechanism, draws)).max() <= bound
    # Noise of another epsilon is caught.
    assert np.abs(kept - kept_by_draws(mechanism.with_epsilon(2 * epsilon), draws)).max() > bound


def test_the_pass_finds_the_first_crossings_and_the_sums() -> None:
    units = random_directions(6, DIMENSION, np.random.default_rng(4))
    law = _Replacement(reach=0.3, decay=0.5)
    distances = Distances(SMALL.vectors)
    radii, log_normalizers = estimated._pass_over(distances, units, [law])
    every = np.concatenate([units, -units])
    expected, _ = AllRadii(ExactSearch(SMALL.vectors)).first_crossing(
        WORDS, np.broadcast_to(every, (SIZE, *every.shape)).copy()
    )
    assert np.isinf(expected).any() and np.isfinite(expected).any()
    np.testing.assert_allclose(radii, expected.T, rtol=1e-4)
    weights = law.reach * distances.squared.numpy() - law.decay * distances.to(WORDS).numpy() ** 2
    np.fill_diagonal(weights, -np.inf)
    np.testing.assert_allclose(log_normalizers[0], logsumexp(weights, axis=1), atol=1e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_fit_is_the_likeliest(epsilon: float) -> None:
    """No other reach or decay nearby explains the replacements in an exact law better."""
    size, dimension = 40, 3
    table = normal_embedding(size, dimension, seed=8)
    mechanism, rng = Madlib(table, epsilon=epsilon), np.random.default_rng(0)
    distances, words = Distances(table.vectors), np.arange(size)
    apart = (distances.to(words) ** 2).float()
    length = distances.squared.float()
    units = random_directions(size * 50, dimension, rng).reshape(size, 50, dimension)
    envelope = AllRadii(ExactSearch(table.vectors)).envelope(words, units, max_radius=50.0)
    law = envelope.law(epsilon, words=words, size=size)
    reach, decay = estimated._likeliest(law, apart, length, words)
    assert mechanism.epsilon == epsilon and decay > 0

    def log_likelihood(reach: float, decay: float) -> float:
        weights = reach * length.double().numpy() - decay * apart.double().numpy()
        np.fill_diagonal(weights, -np.inf)
        log_law = weights - logsumexp(weights, axis=1, keepdims=True)
        np.fill_diagonal(log_law, 0)
        penalty = estimated.PENALTY * (reach**2 + decay**2)
        dense = law.toarray()
        np.fill_diagonal(dense, 0)
        return float((dense * log_law).sum() - penalty)

    best = log_likelihood(reach, decay)
    for step in (-0.02, 0.02):
        assert log_likelihood(reach + step, decay) < best
        assert log_likelihood(reach, decay + step) < best
    assert log_likelihood(reach, -decay) < best - 1


def test_the_estimate_explains_real_outputs_better_than_chance() -> None:
    """Mean log P(y|x) of fresh replaced pairs, against a uniform replacement; 5 standard errors."""
    rng = np.random.default_rng(7)
    for epsilon, made in channels().items():
        x = np.repeat(WORDS, 200)
        y = Madlib(SMALL, epsilon=epsilon).sanitize_ids(x, rng)
        replaced = x != y
        x, y = x[replaced], y[replaced]
        log_uniform = np.log1p(-np.exp(made.log_kept[x])) - np.log(SIZE - 1)
        gain = made.log_prob(x, y) - log_uniform
        assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
        flipped = NoiseChannel(
            made.distances,
            kept=np.exp(made.log_kept),
            reach=made.reach,
            decay=-made.decay,
            log_normalizers=np.zeros(SIZE),  # of no account in rows
        )
        assert (flipped.log_prob(x, y) - log_uniform).mean() < 0


def test_every_epsilon_has_its_channel_and_a_seed_decides() -> None:
    made = channels()
    assert list(made) == list(EPSILONS)
    kept = [np.exp(each.log_kept).mean() for each in made.values()]
    assert kept == sorted(kept) and all(0 < each < 1 for each in kept)
    again = NoiseChannel.estimate(
        Madlib(SMALL, epsilon=9), EPSILONS, np.random.default_rng(0), directions=200
    )
    other = NoiseChannel.estimate(Madlib(SMALL, epsilon=1), [2.0], np.random.default_rng(1))
    for epsilon in EPSILONS:
        np.testing.assert_array_equal(made[epsilon].log_rows(WORDS), again[epsilon].log_rows(WORDS))
    assert np.abs(other[2.0].log_rows(WORDS) - made[2.0].log_rows(WORDS)).max() > 1e-3


@pytest.mark.parametrize("epsilon", [1e-3, 1e4])
def test_extreme_noise_gives_a_channel(epsilon: float) -> None:
    """Everything or nothing is replaced; nothing is certain, and rows still sum to one."""
    rng = np.random.default_rng(0)
    made = NoiseChannel.estimate(Madlib(SMALL, epsilon=1), [epsilon], rng)[epsilon]
    rows = made.log_rows(WORDS)
    np.testing.assert_allclose(np.exp(rows).sum(1), 1, rtol=0, atol=1e-9)
    assert np.isfinite(made.log_columns(WORDS)).all()
    assert (np.exp(np.diagonal(rows)) > 0.999).all() == (epsilon == 1e4)


def test_the_mean_counts_as_one_more_direction() -> None:
    """An opposite pair that finds a word never kept does not make it impossible."""
    rng = np.random.default_rng(0)
    made = NoiseChannel.estimate(Madlib(SMALL, epsilon=1), [1.0], rng, directions=1)[1.0]
    kept = np.exp(made.log_kept)
    assert kept.min() >= kept.mean() / 3 - 1e-12
    without = (3 * kept - kept.mean()) / 2  # the mean is as it was
    assert without.min() < kept.mean() / 30


APPROXIMATE = Madlib(SMALL, epsilon=1, search=AnnoySearch(SMALL.vectors))
EQUAL = Madlib(embedding([[0.0], [1.0], [1.0]]), epsilon=1)


def estimate(madlib: Madlib | None = None, epsilons: Any = (1.0,), **options: Any) -> Any:
    rng = np.random.default_rng(0)
    return NoiseChannel.estimate(madlib or Madlib(SMALL, epsilon=1), epsilons, rng, **options)


test_bad_input_is_named = refused(
    (lambda: estimate(epsilons=[]), "epsilons: got none"),
    (lambda: estimate(epsilons=[1.0, -1.0]), "epsilon: got -1.0"),
    (lambda: estimate(APPROXIMATE), "searches with AnnoySearch, expected ExactSearch"),
    (lambda: estimate(EQUAL), "1 words have the vector of an earlier word"),
)
