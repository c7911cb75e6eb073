"""Noise mechanisms: the law of the noise, and what the look-up makes of it.

Error rates: see `helpers`. Wrong laws that the audits must catch are in `mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import (
    POWER,
    FloatArray,
    Sampler,
    Sparse,
    assert_caught,
    assert_follows,
    cdf_distance,
    embedding,
    fits,
    margin,
    normal_embedding,
    power_of_fit,
    power_of_share,
    refused,
    share_fits,
)
from scipy import integrate, stats

from textpriv.data.embeddings import Embedding
from textpriv.mechanisms import Madlib, Mahalanobis, RankRepair, noise
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.neighbors import AnnoySearch, ExactSearch, exact

Rng = np.random.Generator


def length(vectors: FloatArray) -> FloatArray:
    return np.linalg.norm(vectors, axis=1)


def sphere(count: int, dimension: int, rng: Rng) -> FloatArray:
    gaussian = rng.standard_normal((count, dimension))
    return gaussian / length(gaussian)[:, None]


def gamma_cdf(shape: int, epsilon: float) -> Callable[[FloatArray], FloatArray]:
    return stats.gamma(shape, scale=1 / epsilon).cdf


def lengths_of(epsilon: float, dimension: int) -> Sampler:
    madlib = Madlib(normal_embedding(5, dimension), epsilon=epsilon)
    return lambda n, rng: length(madlib.noise(n, rng))


@pytest.mark.parametrize("dimension", [1, 2, 5, 50])
@pytest.mark.parametrize("epsilon", [0.1, 10.0])
def test_the_length_of_the_noise_is_gamma(dimension: int, epsilon: float) -> None:
    assert_follows(lengths_of(epsilon, dimension), gamma_cdf(dimension, epsilon))


def projections(n: int) -> FloatArray:
    """Directions along which uniformity is looked at: an axis, the diagonal, a random one."""
    chosen = np.stack([np.eye(n)[0], np.ones(n), np.random.default_rng(8).standard_normal(n)])
    return chosen / length(chosen)[:, None]


def projection_cdf(n: int) -> Callable[[FloatArray], FloatArray]:
    """Law of one coordinate of a uniform point on the sphere in dimension n >= 2."""
    return lambda t: stats.beta((n - 1) / 2, (n - 1) / 2).cdf((t + 1) / 2)


@pytest.mark.parametrize("dimension", [2, 3, 20])
@pytest.mark.parametrize("along", range(3))
def test_the_direction_of_the_noise_is_uniform(dimension: int, along: int) -> None:
    madlib = Madlib(normal_embedding(5, dimension), epsilon=3.0)

    def projected(count: int, rng: Rng) -> FloatArray:
        drawn = madlib.noise(count, rng)
        return drawn @ projections(dimension)[along] / length(drawn)

    assert_follows(projected, projection_cdf(dimension))


def test_in_one_dimension_the_noise_is_laplace() -> None:
    madlib = Madlib(normal_embedding(5, 1), epsilon=3.0)
    assert_follows(lambda n, rng: madlib.noise(n, rng)[:, 0], stats.laplace(scale=1 / 3).cdf)
    assert_caught(lambda n, rng: np.abs(madlib.noise(n, rng)[:, 0]), stats.laplace(scale=1 / 3).cdf)


def separable(values: FloatArray, by: FloatArray) -> float:
    """Distance between the laws of `values` where `by` is below and above its median."""
    low = by < np.median(by)
    ordered = np.sort(values[low])
    return cdf_distance(values[~low], lambda t: np.searchsorted(ordered, t, "right") / len(ordered))


def same_law_in_halves(values: FloatArray, by: FloatArray) -> bool:
    """Whether `values` may be independent of `by`; false alarm at most 2e-6.

    Both empirical laws of independent values are within their margin of the common one.
    """
    return separable(values, by) <= 2 * margin(len(values) // 2, 1e-6) + 2 / len(values)


def test_length_and_direction_are_independent() -> None:
    drawn = Madlib(normal_embedding(5, 3), epsilon=1.0).noise(40_000, np.random.default_rng(3))
    assert same_law_in_halves(length(drawn), np.abs(drawn[:, 0]) / length(drawn))
    laplace = np.random.default_rng(3).laplace(size=(40_000, 3))
    assert not same_law_in_halves(length(laplace), np.abs(laplace).max(1) / length(laplace))


def stretched(size: int = 200, seed: int = 5) -> Embedding:
    """Vectors of a covariance far from round, in four dimensions."""
    rng = np.random.default_rng(seed)
    mix = np.diag([6.0, 2.0, 1.0, 0.2]) @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    return embedding(rng.standard_normal((size, 4)) @ mix + 3.0)


def shape_matrix(table: Embedding, strength: float) -> FloatArray:
    """A, computed from its definition with sums."""
    x = table.vectors.astype(np.float64)
    offset = x - x.mean(0)
    covariance = sum(np.outer(row, row) for row in offset) / (len(x) - 1)
    scaled = covariance / np.mean(np.diag(covariance))
    return strength * scaled + (1 - strength) * np.eye(x.shape[1])


def whitening(matrix: FloatArray) -> FloatArray:
    values, basis = np.linalg.eigh(matrix)
    return (basis / np.sqrt(values)) @ basis.T


@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_the_root_is_the_symmetric_root_of_the_scaled_covariance(strength: float) -> None:
    table = stretched()
    root = Mahalanobis(table, epsilon=1.0, strength=strength).root
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    np.testing.assert_allclose(root @ root, shape_matrix(table, strength), atol=1e-10)
    assert np.trace(root @ root) == pytest.approx(4)


def whitened_noise(strength: float, *, renormalised: bool = False) -> Sampler:
    """A^(-1/2) z; `renormalised` is the wrong version, which makes |z| = R again."""
    table = stretched()
    mechanism = Mahalanobis(table, epsilon=2.0, strength=strength)
    back = whitening(shape_matrix(table, strength))

    def draw(n: int, rng: Rng) -> FloatArray:
        if not renormalised:
            return mechanism.noise(n, rng) @ back
        shaped = sphere(n, 4, rng) @ mechanism.root
        radius = rng.gamma(4, 1 / 2.0, (n, 1))
        return radius * shaped / length(shaped)[:, None] @ back

    return draw


@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_whitened_mahalanobis_noise_has_a_gamma_length(strength: float) -> None:
    right, wrong = whitened_noise(strength), whitened_noise(strength, renormalised=True)
    assert_follows(lambda n, rng: length(right(n, rng)), gamma_cdf(4, 2.0))
    assert_caught(lambda n, rng: length(wrong(n, rng)), gamma_cdf(4, 2.0), n=2_000_000)


def test_without_strength_mahalanobis_is_madlib() -> None:
    table = stretched()
    plain, shaped = Madlib(table, epsilon=2.0), Mahalanobis(table, epsilon=2.0, strength=0.0)
    np.testing.assert_allclose(shaped.root, np.eye(4), atol=1e-12)
    one, other = (m.noise(100, np.random.default_rng(1)) for m in (plain, shaped))
    np.testing.assert_allclose(one, other, rtol=1e-12)


FLAT = embedding(np.outer(np.arange(6.0), [3.0, 4.0]))


def test_a_flat_vocabulary_has_noise_at_half_strength() -> None:
    drawn = Mahalanobis(FLAT, epsilon=1.0, strength=0.5).noise(1000, np.random.default_rng(0))
    assert np.abs(drawn @ [4.0, -3.0]).min() > 0  # noise across the line as well


def switch_probability(dimension: int, epsilon: float, threshold: float) -> float:
    """P(<z, e> > threshold) for MADLIB's noise z and a unit vector e, by quadrature."""
    if dimension == 1:
        return float(np.exp(-epsilon * threshold) / 2)

    def density(angle: float) -> float:
        reach = stats.gamma.sf(threshold / np.cos(angle), dimension, scale=1 / epsilon)
        return float(reach * np.sin(angle) ** (dimension - 2))

    total = integrate.quad(lambda angle: np.sin(angle) ** (dimension - 2), 0, np.pi)[0]
    return float(integrate.quad(density, 0, np.pi / 2, limit=200)[0] / total)


def two_words(dimension: int, distance: float) -> Embedding:
    direction = projections(dimension)[2]
    return embedding(np.outer([-distance / 2, distance / 2], direction) + 1.0)


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_two_words_switch_with_the_probability_of_the_closed_form(
    dimension: int, epsilon: float
) -> None:
    distance, n = dimension / epsilon, 80_000 if dimension == 10 else 20_000
    madlib = Madlib(two_words(dimension, distance), epsilon=epsilon)
    switched = madlib.sanitize_ids(np.zeros(n, dtype=np.int64), np.random.default_rng(6)).sum()
    right = switch_probability(dimension, epsilon, distance / 2)
    assert share_fits(switched, n, right)
    # Wrong: the word changes only when the whole distance is passed, or one dimension too many.
    for wrong in (
        switch_probability(dimension, epsilon, distance),
        switch_probability(dimension + 1, epsilon, distance / 2),
    ):
        assert power_of_share(wrong, right, n) >= POWER
        assert not share_fits(round(wrong * n), n, right)


def rank_law(size: int, rate: float, *, first: int = 0) -> FloatArray:
    weights = np.exp(-rate * np.arange(size))
    law = np.zeros(size)
    law[first:] = weights[: size - first] / weights[: size - first].sum()
    return law


@pytest.mark.parametrize(("size", "c"), [(30, 0.02), (30, 0.5), (400, 0.006), (5, 1e-9)])
def test_ranks_follow_the_truncated_geometric_law(size: int, c: float) -> None:
    repair = RankRepair(Madlib(normal_embedding(size, 3), epsilon=10.0), c=c)
    n = 100_000
    ranks = repair.ranks(n, np.random.default_rng(7))
    right = rank_law(size, 10 * c)
    assert fits(np.bincount(ranks, minlength=size), right)
    one_based = np.bincount(np.minimum(ranks + 1, size - 1), minlength=size)
    assert not fits(one_based, right)
    for wrong in (rank_law(size, 10 * c, first=1), rank_law(size, 12 * c + 0.1)):
        assert power_of_fit(wrong, right, n) >= POWER
        drawn = np.random.default_rng(7).choice(size, n, p=wrong)
        assert not fits(np.bincount(drawn, minlength=size), right)


def ranks_around(table: Embedding, points: FloatArray, outputs: Any) -> Any:
    distance = np.linalg.norm(table.vectors[None].astype(np.float64) - points[:, None], axis=2)
    return np.argsort(np.argsort(distance, axis=1), axis=1)[np.arange(len(outputs)), outputs]


@pytest.mark.parametrize("inner", [Madlib, Mahalanobis])
def test_the_output_has_the_drawn_rank_around_the_word_that_madlib_draws(
    inner: type[Madlib],
) -> None:
    table = normal_embedding(60, 6)
    repair = RankRepair(inner(table, epsilon=4.0), c=0.01)
    ids = np.arange(600) % 60
    outputs = repair.sanitize_ids(ids, np.random.default_rng(9))
    rng = np.random.default_rng(9)
    ranks = repair.ranks(len(ids), rng)
    points = np.concatenate(list(repair.madlib.noisy_vectors(ids, rng)))
    words = ExactSearch(table.vectors).nearest(points)[0][:, 0]
    measured = ranks_around(table, table.vectors[words], outputs)
    assert (measured == ranks).all() and len(set(ranks)) == 60
    for wrong in (points, table.vectors[ids]):  # the noisy vector, the input
        assert (ranks_around(table, wrong, outputs) == ranks).mean() < 0.8


def test_rank_zero_is_the_word_itself_where_others_have_its_vector() -> None:
    table = embedding([[0.0, 1.0]] * 3 + [[9.0, 9.0]])
    steep: Any = RankRepair(Madlib(table, epsilon=1.0), c=1e6)
    steep.madlib._replace = lambda ids, rng: ids
    assert steep.sanitize_ids([2, 0, 1, 3], np.random.default_rng(1)).tolist() == [2, 0, 1, 3]


def mechanisms(table: Embedding, epsilon: float = 4.0) -> dict[str, Any]:
    madlib = Madlib(table, epsilon=epsilon)
    return {
        "madlib": madlib,
        "mahalanobis": Mahalanobis(table, epsilon=epsilon, strength=0.5),
        "rank-repair": RankRepair(madlib, c=0.05),
        "vickrey": Vickrey(madlib, t=0.6),
    }


every_look_up = pytest.mark.parametrize("name", mechanisms(normal_embedding(5, 2)))


@every_look_up
def test_draws_do_not_depend_on_how_the_work_is_cut(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = mechanisms(normal_embedding(70, 5))[name]
    ids = np.random.default_rng(0).integers(-1, 70, 500)
    whole = mechanism.sanitize_ids(ids, np.random.default_rng(3))
    monkeypatch.setattr(noise, "DRAW_CHUNK", 7)
    monkeypatch.setattr(noise, "ROW_BYTES", 8 * 70 * 3)
    monkeypatch.setattr(exact, "QUERY_CHUNK", 5)
    np.testing.assert_array_equal(mechanism.sanitize_ids(ids, np.random.default_rng(3)), whole)
    assert (mechanism.sanitize_ids(ids, np.random.default_rng(4)) != whole).any()
    assert mechanism.sanitize_ids([]).tolist() == []


@every_look_up
def test_another_epsilon_gives_the_mechanism_made_with_it(name: str) -> None:
    table = normal_embedding(70, 5)
    ids = np.arange(70).repeat(5)
    mechanism = mechanisms(table)[name]
    before = mechanism.sanitize_ids(ids, np.random.default_rng(3))
    other, fresh = mechanism.with_epsilon(0.5), mechanisms(table, 0.5)[name]
    drawn = other.sanitize_ids(ids, np.random.default_rng(3))
    np.testing.assert_array_equal(drawn, fresh.sanitize_ids(ids, np.random.default_rng(3)))
    assert (drawn != before).any() and (mechanism.epsilon, other.epsilon) == (4.0, 0.5)
    np.testing.assert_array_equal(mechanism.sanitize_ids(ids, np.random.default_rng(3)), before)


def test_a_huge_epsilon_keeps_every_word_and_equal_vectors_give_the_first() -> None:
    vectors = np.random.default_rng(0).standard_normal((20, 3))
    vectors[7] = vectors[3]
    drawn = Madlib(embedding(vectors), epsilon=1e9).sanitize_ids(np.arange(20))
    assert drawn.tolist() == [*range(7), 3, *range(8, 20)]


def test_where_an_index_finds_nothing_any_word_is_put() -> None:
    table = normal_embedding(9, 2)
    madlib = Madlib(table, epsilon=1.0, search=Sparse(0, table))
    drawn = madlib.sanitize_ids(np.zeros(9000, dtype=int), np.random.default_rng(1))
    assert fits(np.bincount(drawn, minlength=9), np.full(9, 1 / 9))


def test_an_approximate_index_changes_the_words_and_not_the_noise() -> None:
    table = normal_embedding(300, 10)
    ids = np.arange(300)
    annoy = AnnoySearch(table.vectors, trees=1, search_k=1)
    right = Madlib(table, epsilon=5.0).sanitize_ids(ids, np.random.default_rng(1))
    rough = Madlib(table, epsilon=5.0, search=annoy).sanitize_ids(ids, np.random.default_rng(1))
    assert 0 < (right == rough).mean() < 1


NINE, EIGHT = normal_embedding(9, 2), ExactSearch(normal_embedding(8, 2).vectors)

test_wrong_arguments = refused(
    (lambda: Mahalanobis(FLAT, epsilon=1.0), "covariance is singular"),
    (lambda: Mahalanobis(NINE, epsilon=1.0, strength=1.1), "strength: got 1.1.*>= 0 and <= 1"),
    (lambda: Mahalanobis(embedding(np.ones((3, 2))), epsilon=1.0), "got equal vectors only"),
    (lambda: Madlib(NINE, epsilon=1.0, search=EIGHT), r"search: got an index of 8 x 2, .*\(9, 2\)"),
    (lambda: Madlib(NINE, epsilon=1.0, search=object()), "search: got an index of None"),  # type: ignore[arg-type]
    (lambda: Madlib(NINE.vectors, epsilon=1.0), "embedding: got ndarray"),  # type: ignore[arg-type]
    (lambda: RankRepair(Madlib(NINE, epsilon=1.0), c=0), "c: got 0, expected"),
    (lambda: RankRepair(NINE, c=1.0), "madlib: got an object of type Embedding"),  # type: ignore[arg-type]
)
