"""One pass at every epsilon: the same points by hand, the law in closed form, grids by share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import embedding, normal_embedding, power_of_share, refused, share_fits
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv.data.tokens import UNKNOWN
from textpriv.mechanisms import TEM, Madlib, Mahalanobis, RankRepair
from textpriv.mechanisms import sweep as module
from textpriv.mechanisms.sweep import chance_kept, check_grid, epsilons_for, sweep
from textpriv.neighbors import AnnoySearch, random_directions

Rng = np.random.default_rng
GRID = [0.5, 8.0, 2.0, 2.0, 40.0]


def by_hand(mechanism: Madlib, ids: Any, epsilons: list[float], seed: int) -> Any:
    """Every point of the same noise, and the nearest of all words."""
    rng, dimension = Rng(seed), mechanism.embedding.dimension
    length = rng.gamma(dimension, size=(len(ids), 1))
    unit = mechanism.stretched(random_directions(len(ids), dimension, rng))
    vectors = mechanism.embedding.vectors.astype(np.float64)
    rows = []
    for epsilon in epsilons:
        points = vectors[ids] + length / epsilon * unit
        rows.append(np.linalg.norm(points[:, None] - vectors, axis=2).argmin(1))
    return np.stack(rows)


@pytest.mark.parametrize("kind", [Madlib, Mahalanobis])
@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_every_row_is_the_nearest_word_to_the_same_noise(kind: Any, dimension: int) -> None:
    mechanism = kind(normal_embedding(50, dimension), epsilon=1.0)
    ids = np.arange(300) % 50
    outputs = sweep(mechanism, ids, GRID, Rng(3))
    np.testing.assert_array_equal(outputs, by_hand(mechanism, ids, GRID, 3))
    assert len(np.unique(outputs)) > 10


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.lists(st.floats(0.01, 100), min_size=1, max_size=5))
def test_any_table_and_any_grid(seed: int, epsilons: list[float]) -> None:
    mechanism = Madlib(normal_embedding(9, 2, seed), epsilon=1.0)
    ids = np.arange(9)
    outputs = sweep(mechanism, ids, epsilons, Rng(seed))
    np.testing.assert_array_equal(outputs, by_hand(mechanism, ids, epsilons, seed))


def test_in_one_dimension_every_epsilon_has_the_law_of_laplace() -> None:
    """Two words at distance 2: P(switch) = exp(-epsilon) / 2; false alarm 1e-6 each."""
    n, epsilons = 20_000, [0.3, 1.0, 2.5]
    mechanism = Madlib(embedding([[0.0], [2.0]]), epsilon=1.0)
    outputs = sweep(mechanism, np.zeros(n, dtype=np.int64), epsilons, Rng(5))
    for row, epsilon in zip(outputs, epsilons, strict=True):
        right = np.exp(-epsilon) / 2
        assert share_fits(row.sum(), n, right)
        # A scale of epsilon in place of 1 / epsilon, or a gamma of shape 2, is caught.
        for wrong in (np.exp(-1 / epsilon) / 2, np.exp(-epsilon) * (1 + epsilon) / 2):
            assert epsilon == 1.0 or power_of_share(wrong, right, n) > 0.999


def test_tokens_are_independent_and_epsilons_share_their_noise() -> None:
    mechanism = Madlib(embedding([[0.0], [2.0]]), epsilon=1.0)
    weak, strong = sweep(mechanism, np.zeros(4000, dtype=np.int64), [1.0, 2.0], Rng(1))
    assert (strong <= weak).all()  # what switches at 2 has switched at 1
    both = (weak[::2] * weak[1::2]).sum()
    assert share_fits(both, 2000, (np.exp(-1) / 2) ** 2)


def test_how_tokens_are_parted_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, ids = Madlib(normal_embedding(30, 4), epsilon=1.0), np.arange(100) % 30
    whole = sweep(mechanism, ids, GRID, Rng(2))
    monkeypatch.setattr(module, "_TOKENS", 7)
    np.testing.assert_array_equal(sweep(mechanism, ids, GRID, Rng(2)), whole)


def test_equal_vectors_give_the_first() -> None:
    mechanism = Madlib(embedding([[0.0, 0.0], [0.0, 0.0], [9.0, 9.0]]), epsilon=1.0)
    assert (sweep(mechanism, np.array([0, 1]), [1e6], Rng(0)) == 0).all()


def test_unknown_words_become_any_word() -> None:
    mechanism = Madlib(normal_embedding(4, 2), epsilon=1.0)
    ids = np.full(4000, UNKNOWN)
    outputs = sweep(mechanism, ids, [1e6], Rng(0))[0]
    assert all(share_fits((outputs == word).sum(), 4000, 0.25) for word in range(4))
    assert (ids == UNKNOWN).all()  # left as it was


def test_no_token_gives_no_output() -> None:
    outputs = sweep(Madlib(normal_embedding(4, 2), epsilon=1.0), np.empty(0, np.int64), [1, 2])
    assert outputs.shape == (2, 0)


@pytest.mark.parametrize("kind", [Madlib, Mahalanobis])
def test_a_single_epsilon_is_drawn_by_the_mechanism_itself(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No envelope for one point of it; unknown words and the epsilon that is asked for included."""

    def refused(*_: Any) -> None:
        raise AssertionError("an envelope")

    monkeypatch.setattr(module, "AllRadii", refused)
    mechanism, ids = kind(normal_embedding(40, 3), epsilon=90.0), np.append(np.arange(40), UNKNOWN)
    expected = mechanism.with_epsilon(3.0).sanitize_ids(ids, Rng(4))
    outputs = sweep(mechanism, ids, [3.0], Rng(4))
    np.testing.assert_array_equal(outputs, expected[None])
    assert (outputs[0] != mechanism.sanitize_ids(ids, Rng(4))).any()
    with pytest.raises(AssertionError, match="an envelope"):
        sweep(mechanism, ids, [3.0, 4.0], Rng(4))


def others(table: Any) -> dict[str, Any]:
    madlib = Madlib(table, epsilon=1.0)
    return {
        "annoy": Madlib(table, epsilon=1.0, search=AnnoySearch(table.vectors, trees=5)),
        "rank-repair": RankRepair(madlib, c=0.1),
        "tem": TEM(table, epsilon=1.0),
    }


@pytest.mark.parametrize("name", ["annoy", "rank-repair", "tem"])
def test_other_mechanisms_draw_every_row_by_itself(name: str) -> None:
    mechanism, ids = others(normal_embedding(40, 3))[name], np.arange(40)
    outputs = sweep(mechanism, ids, [1.0, 6.0], Rng(4))
    rng = Rng(4)
    for row, epsilon in zip(outputs, [1.0, 6.0], strict=True):
        alone = mechanism.with_epsilon(epsilon).sanitize_ids(ids, rng)
        np.testing.assert_array_equal(row, alone)


def test_the_expected_change_has_its_closed_form() -> None:
    """In one dimension half of the directions lead to the other word, 2 away."""
    mechanism = Madlib(embedding([[0.0], [2.0]]), epsilon=7.0)
    kept = chance_kept(mechanism, np.zeros(20_000, dtype=np.int64), Rng(0))
    few, many = 1 - kept(3.0).mean(), 1 - kept(1.0).mean()
    assert many == pytest.approx(np.exp(-1) / 2, abs=0.01)
    assert few / many == pytest.approx(np.exp(-2))


@pytest.mark.parametrize("name", ["madlib", "mahalanobis", "annoy", "rank-repair", "tem"])
def test_what_is_expected_comes_out(name: str) -> None:
    table = normal_embedding(60, 5)
    made = {
        "madlib": Madlib(table, epsilon=1.0),
        "mahalanobis": Mahalanobis(embedding(table.vectors * [6, 6, 1, 0.3, 0.3]), epsilon=1.0),
        **others(table),
    }[name]
    words = np.arange(6000) % 60
    epsilon = 4.0
    expected = 1 - chance_kept(made, words, Rng(1))(epsilon).mean()
    drawn = (made.with_epsilon(epsilon).sanitize_ids(words, Rng(2)) != words).mean()
    assert drawn == pytest.approx(expected, abs=0.04)  # six deviations of a share of 6,000
    assert 0.05 < expected < 0.95


@pytest.mark.parametrize("name", ["madlib", "rank-repair", "tem"])
def test_a_grid_changes_the_shares_that_were_asked_for(name: str) -> None:
    table = normal_embedding(60, 5)
    made = {"madlib": Madlib(table, epsilon=1.0), **others(table)}[name]
    words = np.arange(3000) % 60
    shares = [0.9, 0.5, 0.2]
    grid = epsilons_for(made, words, shares, Rng(1))
    assert (np.diff(grid) > 0).all()
    rng = Rng(1)
    looked_at = rng.choice(words, 128, replace=False) if name == "tem" else words
    kept = chance_kept(made, looked_at, rng)
    slack = 0.01 if name == "rank-repair" else 1e-4
    assert [1 - kept(epsilon).mean() for epsilon in grid] == pytest.approx(shares, abs=slack)


MADLIB, FIVE = Madlib(normal_embedding(5, 2), epsilon=1.0), np.arange(5)

test_bad_input_is_named = refused(
    (lambda: sweep(MADLIB, FIVE, []), "epsilons: got none"),
    (lambda: sweep(MADLIB, FIVE, [1.0, 0.0]), "epsilon: got 0"),
    (lambda: sweep(MADLIB, np.array([0, 5]), [1.0]), "ids: got ids 0..5"),
    (lambda: chance_kept(MADLIB, FIVE[:0], Rng(0)), "words: got none"),
    (lambda: epsilons_for(MADLIB, FIVE, [1.0], Rng(0)), "shares: got 1"),
    (lambda: epsilons_for(MADLIB, FIVE, [0.99], Rng(0)), "expected from"),  # one in five stays
    (lambda: check_grid([2.0, 1.0]), "ascending and none twice"),
    (lambda: check_grid([1.0, 1.0]), "ascending and none twice"),
)
