"""Nearest neighbours: exact means exact, at any scale and in either precision.

The reference counts in rational numbers, or in long doubles where that takes too long.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import annoy.annoylib
import numpy as np
import pytest
import torch
from helpers import FloatArray, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from textpriv.errors import InvalidInput
from textpriv.neighbors import (
    AnnoySearch,
    Distances,
    ExactSearch,
    FaissSearch,
    Search,
    annoy_build,
    exact,
)
from textpriv.neighbors.table import GroupedTable

PRECISIONS: tuple[Any, ...] = ("bf16", "fp32")
more = settings(max_examples=250)


def squared(row: FloatArray, query: FloatArray) -> Fraction:
    """Squared distance without any rounding."""
    return sum(
        ((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, query, strict=True)),
        Fraction(0),
    )


def assert_nearest(table: FloatArray, queries: FloatArray, k: int, ids: Any, reported: Any) -> None:
    """Ids and distances are the k nearest, but for ties that float64 cannot break."""
    rows = np.asarray(table, dtype=np.float32)
    assert ids.shape == reported.shape == (len(queries), k) and ids.dtype == np.int64
    for query, chosen, distances in zip(queries, ids.tolist(), reported, strict=True):
        true = [squared(row, query) for row in rows]
        order = sorted(range(len(rows)), key=lambda row: (true[row], row))
        assert len(set(chosen)) == k
        for position, (got, expected) in enumerate(zip(chosen, order, strict=False)):
            same = got == expected or abs(true[got] - true[expected]) <= true[expected] / 10**13
            assert same, (position, got, expected, float(true[got]), float(true[expected]))
            assert distances[position] == pytest.approx(float(true[got]) ** 0.5, rel=1e-12)
        for first, second in zip(chosen, chosen[1:], strict=False):  # equal rows by number
            assert first < second or not np.array_equal(rows[first], rows[second])


def long_nearest(table: FloatArray, queries: FloatArray, k: int = 1) -> Any:
    rows = np.asarray(table, dtype=np.float32).astype(np.longdouble)
    nearest = [
        np.argsort(((rows - query) ** 2).sum(1), kind="stable")[:k]
        for query in queries.astype(np.longdouble)
    ]
    return np.array(nearest)


VALUES = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([1e4, 1e4 + 2**-9, 1e4 - 2**-9, 10000.5, -1e4, 1e-3, 1e-20, 1e-30, 1e-38,
                     -1e-38, 1e-45, 1e11, 0.1, 1 / 3, -0.0]),
    st.floats(-10, 10, width=32),
)  # fmt: skip


@st.composite
def problems(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, int, int]:
    dimension, size = draw(st.integers(1, 4)), draw(st.integers(1, 14))
    table = draw(hnp.arrays(np.float32, (size, dimension), elements=VALUES.map(np.float32)))
    shape = draw(st.integers(1, 4)), dimension
    queries = draw(hnp.arrays(np.float64, shape, elements=VALUES))
    if draw(st.booleans()):  # at or halfway between rows, where ties are
        picks = draw(hnp.arrays(np.int64, (2, shape[0]), elements=st.integers(0, size - 1)))
        queries = (table[picks[0]].astype(np.float64) + table[picks[1]]) / 2
    return table, queries, draw(st.integers(1, size)), draw(st.sampled_from([1, 2, 5, 8, 32]))


@given(problems())
@more
def test_the_exact_search_is_exact(problem: tuple[FloatArray, FloatArray, int, int]) -> None:
    table, queries, k, group = problem
    answers = [
        ExactSearch(table, precision=precision, group=group).nearest(queries, k)
        for precision in PRECISIONS
    ]
    assert_nearest(table, queries, k, *answers[0])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)


def normal(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal(shape) * scale + shift


@pytest.mark.parametrize("size", [1, 2, 32, 33, 127, 2049])
@pytest.mark.parametrize("dimension", [1, 3, 300])
def test_sizes_of_any_kind(size: int, dimension: int) -> None:
    table, queries = normal(size, dimension), normal(20, dimension, seed=1, scale=2)
    k = min(size, 7)
    expected = long_nearest(table, queries, k)
    answers = [ExactSearch(table, precision=p).nearest(queries, k) for p in PRECISIONS]
    for ids, distances in answers:
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(distances, answers[0][1])
        assert (np.diff(distances) >= 0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("group", [1, 8, 64, 1000])
@pytest.mark.parametrize("few", [0, 1000])  # all by a scan, or all by groups
def test_any_number_of_neighbours_and_queries_at_once(
    precision: Any, group: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "FEW", few)
    monkeypatch.setattr(exact, "SCAN_BYTES", 4 * 200 * 2)
    table, queries = normal(200, 6), normal(9, 6, seed=1)
    search, every = ExactSearch(table, precision=precision, group=group), np.empty((0, 6))
    assert search.nearest(every, 3)[0].shape == (0, 3)
    for k, chunk in ((1, 1024), (5, 2), (40, 1024), (199, 7), (200, 1024)):
        monkeypatch.setattr(exact, "QUERY_CHUNK", chunk)
        np.testing.assert_array_equal(
            search.nearest(queries, k)[0], long_nearest(table, queries, k)
        )


@pytest.mark.parametrize("scale", [1e-38, 1e-22, 1e-19, 1e-16, 1e-6, 1.0, 1e6, 1e11])
@pytest.mark.parametrize("away", [1.0, 1e3, 1e8])
def test_any_scale_of_table_and_queries(scale: float, away: float) -> None:
    """Too small for float32 products (1e-19) or for float64 distances to differ (1e8)."""
    table = normal(300, 8, scale=scale).astype(np.float32)
    queries = normal(60, 8, seed=1, scale=scale * away)
    expected = long_nearest(table, queries)
    for precision in PRECISIONS:
        ids, _ = ExactSearch(table, precision=precision).nearest(queries)
        np.testing.assert_array_equal(ids, expected)


def test_queries_so_far_away_that_distances_are_equal() -> None:
    table, queries = normal(500, 20), normal(200, 20, seed=1, scale=1e12)
    table = np.concatenate([table, table * (1 + 1e-6)]).astype(np.float32)
    expected = long_nearest(table, queries)
    by_distance = [np.linalg.norm(table - query, axis=1).argmin() for query in queries]
    assert (by_distance != expected[:, 0]).sum() > 20  # float64 distances go wrong here
    for precision in PRECISIONS:
        ids, distances = ExactSearch(table, precision=precision).nearest(queries)
        np.testing.assert_array_equal(ids, expected)
        assert np.isfinite(distances).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_large_norms_with_tiny_gaps(precision: Any) -> None:
    steps = np.random.default_rng(0).integers(0, 6, (400, 5))
    table = (1e4 + steps * 2.0**-10).astype(np.float32)  # neighbours in float32
    queries = table[::20] + normal(20, 5, scale=1e-3)
    ids, distances = ExactSearch(table, precision=precision).nearest(queries, 3)
    assert_nearest(table, queries, 3, ids, distances)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("row", [[0.0, 0.0], [1e4, -3.3], [1e-30, 0.0]])
def test_equal_rows_are_ranked_by_their_number(precision: Any, row: list[float]) -> None:
    search = ExactSearch(np.array([row] * 77), precision=precision, group=8)
    ids, distances = search.nearest(np.array([[0.0, 1.0], row]), 77)
    np.testing.assert_array_equal(ids, [range(77)] * 2)
    np.testing.assert_array_equal(distances[1], distances[1, 0])


def test_many_equal_rows_take_no_extra_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.concatenate([normal(50, 10), np.zeros((5000, 10))])
    queries = normal(40, 10, seed=1, scale=1e-3)
    expected = ExactSearch(table).nearest(queries, 2)
    assert (expected[0] == [50, 51]).all()
    monkeypatch.setattr(exact, "GATHER_BYTES", 8 * 10 * 3)  # three pairs at a time
    for one, other in zip(expected, ExactSearch(table[:200]).nearest(queries, 2), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("size", "dimension"), [(1, 3), (50, 1), (3000, 3), (2500, 150)])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_rows_at_least_as_near_as_a_given_row(
    precision: Any, size: int, dimension: int, offset: float
) -> None:
    """None of them is missing, and what is there besides is hardly farther."""
    table = normal(size, dimension) + offset
    queries = np.concatenate([normal(60, dimension, seed=1) + offset, table[:40] * 3 - offset])
    than = np.arange(len(queries)) % size
    search = ExactSearch(table, precision=precision)
    row, query = search.as_near(torch.from_numpy(queries), torch.from_numpy(than))
    assert len(np.unique(np.stack([row, query]), axis=1).T) == len(row)
    rows = search.table.rows[:size].double().numpy()
    distance = np.linalg.norm(queries[:, None] - rows, axis=2)
    wanted = distance <= distance[np.arange(len(queries)), than][:, None]
    returned = np.zeros_like(wanted)
    returned[query, row] = True
    assert returned[wanted].all()
    wide = 1.02 if precision == "bf16" else 1.00001
    if not offset:
        assert (distance <= wide * distance[np.arange(len(queries)), than][:, None])[
            returned
        ].mean() > 0.9


def first_pass_choice(search: ExactSearch, queries: FloatArray) -> Any:
    """The row that the rounded scores alone would choose."""
    table = search.table
    centered = torch.from_numpy(queries) - table.center
    rounded, _, _ = table.rounded_queries(centered, {0: 1.0, 1: 1.0})
    scores = (table.rounded @ rounded).float()[: search.size]
    return scores.argmax(0).numpy()


def rounded(values: FloatArray) -> FloatArray:
    """Values that bfloat16 holds."""
    return torch.from_numpy(values).bfloat16().double().numpy()


def test_rows_that_only_the_shift_of_the_scores_could_lose() -> None:
    """Rows and queries are whole in bfloat16, so that nothing but the mark is rounded."""
    half = rounded(normal(1500, 2, scale=30.0))
    table, queries = np.concatenate([half, -half]), rounded(normal(300, 2, seed=1, scale=30.0))
    scores = queries @ table.T - (table**2).sum(1) / 2
    than = np.random.default_rng(2).integers(0, len(table), len(queries))
    search = ExactSearch(table, precision="bf16", group=1)
    assert not search.table.group_residual.any()
    returned = np.zeros(scores.shape, dtype=bool)
    row, query = search.as_near(torch.from_numpy(queries), torch.from_numpy(than))
    returned[query, row] = True
    assert returned[scores >= scores[np.arange(len(queries)), than][:, None]].all()


def contest(rivals: FloatArray, query: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A table in which the two rivals alone are near the query, centered at exactly 0."""
    rows = rivals.astype(np.float32)
    return np.concatenate([rows, -rows]), query[None]


def on_a_sphere(query: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Two points at nearly the distance |query| from it: their scores are nearly 0."""
    sides = rng.standard_normal((2, len(query)))
    reach = np.linalg.norm(query) * (1 + rng.choice([-1, 1], 2) * 10.0 ** rng.uniform(-8, -2, 2))
    return query + sides / np.linalg.norm(sides, axis=1, keepdims=True) * reach[:, None]


def contests(kind: str) -> list[tuple[FloatArray, FloatArray]]:
    """Close contests that rounding decides wrongly; each kind isolates one term of the bound."""
    rng, made = np.random.default_rng(7), []
    for number in range({"sum": 30, "output": 1000}.get(kind, 300)):
        n = (1, 2, 3, 10, 60)[number % 5]
        if kind == "row":  # the query is exact in bfloat16, the rows are not
            query = rounded(rng.standard_normal(n))
            made.append(contest(on_a_sphere(query, rng), query))
        elif kind in ("query", "output"):  # the rows are exact; the query solves for the scores
            rows = rounded(rng.standard_normal((2, max(2, n))))
            rows = np.abs(rows) if kind == "output" else rows
            gap = rng.choice([-1, 1], 2) * 10.0 ** rng.uniform(-8, -2, 2)
            # Large scores are rounded when stored, small ones are not.
            aim = 10.0 ** rng.uniform(-1, 3) * (1 + gap) if kind == "output" else gap
            query = np.linalg.lstsq(rows, aim + (rows**2).sum(1) / 2, rcond=None)[0]
            made.append(contest(rows, query))
        elif kind == "sum":  # exact in float32; large partial sums that cancel
            half = 1e-3 * np.abs(rng.standard_normal((1, 1000))).astype(np.float32)
            other = half * np.float32(1 + 1e-3)
            query = 1e4 * np.concatenate([np.ones(1000), -np.ones(1000)])
            query = (query + rng.standard_normal(2000)).astype(np.float32).astype(np.float64)
            made.append(contest(np.tile(np.stack([half[0], other[0]]), 2), query))
    return made


def half_norm_contest() -> tuple[FloatArray, FloatArray]:
    """Everything is exact in bfloat16 but half a squared norm, which decides."""
    rng = np.random.default_rng(0)
    while True:
        row = rounded(rng.uniform(0.4, 0.6, 4))
        half = float((row**2).sum() / 2)
        high = float(rounded(np.array([half]))[0])
        over = high + float(rounded(np.array([half - high]))[0]) - half
        if 0.5 <= half < 1 and over > 0.9 * 2.0**-18:
            break
    # Scores: 0 for the row, but computed as -over; -2^-19, computed as such, for the other.
    rivals = np.zeros((2, 5))
    rivals[0, :4], rivals[1, 4] = row, 2.0**-8
    return contest(rivals, np.append(row / 2, 3 * 2.0**-11))


def decided(cases: list[tuple[FloatArray, FloatArray]], precision: Any) -> tuple[int, int]:
    """How many answers are wrong, of the search and of its first pass alone.

    Wrong is a lower score than the nearest row's, by more than float64 errs; the first pass has to
    name that row.
    """
    wrong = unchecked = 0
    for table, query in cases:
        search, right = ExactSearch(table, precision=precision, group=1), long_nearest(table, query)
        unchecked += first_pass_choice(search, query)[0] != right[0, 0]
        rows = table[[right[0, 0], search.nearest(query)[0][0, 0]]].astype(np.longdouble)
        best, mine = rows @ query[0].astype(np.longdouble) - (rows**2).sum(1) / 2
        wrong += int(best - mine > 1e-13 * np.abs(table).max() * np.abs(query).sum())
    return wrong, unchecked


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["row", "query", "sum", "output"])
def test_contests_that_rounding_decides_wrongly_are_decided_rightly(
    kind: str, precision: Any
) -> None:
    cases = contests(kind)
    wrong, unchecked = decided(cases, precision)
    assert wrong == 0
    if precision == "bf16" or kind == "sum":
        assert unchecked > 0.05 * len(cases)


def test_a_contest_that_the_half_norm_decides() -> None:
    table, query = half_norm_contest()
    assert decided([(table, query)], "bf16") == (0, 1)
    assert long_nearest(table, query)[0, 0] == 0


def test_rows_that_float64_distances_cannot_tell_apart_are_ranked_by_number() -> None:
    """Whether the first pass could tell them apart or not."""
    table = np.array([[1e-17, 0], [-1e-17, 0], [0, 1], [0, -1]])
    for precision in PRECISIONS:
        search = ExactSearch(table, precision=precision, group=1)
        for k, expected in ((1, [0]), (2, [0, 1])):
            ids, distances = search.nearest(np.array([[-2.0, 0.0], [2.0, 0.0]]), k)
            assert ids.tolist() == [expected] * 2 and (distances == 2).all()


def test_a_bound_without_the_rounding_of_rows_and_queries_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = GroupedTable.rounded_queries

    def optimistic(self: GroupedTable, *args: Any) -> Any:
        rounded, norm, lost = honest(self, *args)
        return rounded, norm * 0, lost * 0

    monkeypatch.setattr(GroupedTable, "rounded_queries", optimistic)
    assert min(decided(contests(kind), "bf16")[0] for kind in ("row", "query")) > 5


def test_the_bound_holds_for_every_row_of_random_tables() -> None:
    """|true - rounded score| never exceeds the bound as its derivation states it."""
    worst = 0.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, size = int(rng.choice([1, 2, 7, 50, 300])), int(rng.choice([3, 40, 300]))
        table = (rng.standard_normal((size, n)) * 10.0 ** rng.integers(-3, 5)).astype(np.float32)
        if seed % 3 == 0:
            table = np.abs(table)  # no cancellation: errors add up
        queries = rng.standard_normal((4, n)) * 10.0 ** rng.integers(-3, 5)
        search = ExactSearch(table, precision=PRECISIONS[seed % 2], group=1)
        parts, centered = search.table, torch.from_numpy(queries) - search.table.center
        rounded, norm, lost = parts.rounded_queries(centered, {0: 1.0, 1: 1.0})
        score = (parts.rounded @ rounded).double().numpy()
        long = (parts.rows.double() - parts.center).numpy().astype(np.longdouble)
        true = long @ centered.numpy().T.astype(np.longdouble) - (long**2).sum(1)[:, None] / 2
        half = (2.0**-15 + 2 * parts.accumulation) * parts.group_norm**2 / 2
        bound = (
            parts.group_norm[:, None] * (lost + 2 * parts.accumulation * norm)
            + parts.group_residual[:, None] * norm
            + half[:, None]
        ).numpy() + 2 * parts.output_rounding * np.abs(score)
        worst = max(worst, float((np.abs(true - score) / bound).max()))
    assert 0.5 < worst <= 1  # and the bound is no idle one


def test_distances_are_exact_even_between_rows_that_nearly_coincide() -> None:
    table = normal(120, 30, shift=3).astype(np.float32)
    table[1] = table[0]
    for row in range(2, 40, 2):
        table[row + 1] = table[row]
        table[row + 1, row % 30] += np.float32(10.0 ** (-row / 6))
    long = table.astype(np.longdouble)
    true = np.sqrt(((long[:, None] - long[None]) ** 2).sum(2)).astype(np.float64)
    rows = np.array([5, 0, 119, 1])
    columns = np.array([0, 1, 4, 5, 60, 119])
    distances = Distances(table)
    np.testing.assert_allclose(distances.to(np.arange(120)).numpy(), true, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(
        distances.to(rows, columns).numpy(), true[np.ix_(rows, columns)], rtol=1e-9, atol=1e-13
    )
    assert (np.diag(distances.to(np.arange(120)).numpy()) == 0).all()
    assert distances.to(np.array([0])).numpy()[0, 1] == 0
    # The product form alone errs far more: the same comparison refuses it.
    x = table.astype(np.float64)
    x -= x.mean(0)
    product = (x**2).sum(1)[:, None] + (x**2).sum(1) - 2 * x @ x.T
    assert not np.allclose(np.sqrt(np.maximum(product, 0)), true, rtol=1e-9, atol=1e-13)


def test_ranks_count_the_rows_that_are_nearer() -> None:
    table = normal(50, 3).astype(np.float32)
    order = long_nearest(table, table.astype(np.float64), 50)
    words, ranks = (grid.ravel() for grid in np.meshgrid(np.arange(50), np.arange(50)))
    np.testing.assert_array_equal(Distances(table).ranks(words, order[words, ranks]), ranks)
    line = Distances(np.array([[0.0], [1.0], [-1.0], [2.0]]))
    zero = np.zeros(4, dtype=int)
    assert line.ranks(zero, np.array([0, 1, 2, 3])).tolist() == [0, 1, 1, 3]  # a tie shares


TABLE, QUERIES = normal(400, 12).astype(np.float32), normal(50, 12, seed=1)
INDEXES = {
    "annoy": lambda: AnnoySearch(TABLE, trees=10),
    "flat": lambda: FaissSearch(TABLE, "flat"),
    "ivf": lambda: FaissSearch(TABLE, "ivf", lists=20, probes=2),
    "hnsw": lambda: FaissSearch(TABLE, "hnsw"),
}
every_index = pytest.mark.parametrize("name", INDEXES)


@every_index
@pytest.mark.parametrize("k", [1, 5, 400])
def test_an_index_answers_ids_with_their_distances_nearest_first(name: str, k: int) -> None:
    search = INDEXES[name]()
    ids, distances = search.nearest(QUERIES, k)
    assert ids.shape == distances.shape == (50, k) and ids.dtype == np.int64
    assert (search.size, search.dimension) == TABLE.shape
    held = ids >= 0
    assert held.all() or name != "flat"
    assert not held.all() or name != "ivf" or k < 400
    assert held[:, 0].all() and (held[:, :-1] >= held[:, 1:]).all()  # -1 only at the end
    true = np.linalg.norm(TABLE[ids].astype(np.float64) - QUERIES[:, None], axis=2)
    np.testing.assert_allclose(distances[held], true[held], rtol=1e-12)
    assert (distances[~held] == np.inf).all()
    assert (np.diff(np.where(held, distances, 1e9)) >= -1e-5).all()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in ids)


def test_a_flat_index_is_the_exact_search() -> None:
    right, flat = ExactSearch(TABLE), INDEXES["flat"]()
    np.testing.assert_array_equal(flat.nearest(QUERIES, 9)[0], right.nearest(QUERIES, 9)[0])


def recall(search: Search, exact: Search, queries: FloatArray, k: int) -> float:
    """Share of the exact k nearest that `search` finds."""
    returned, truth = search.nearest(queries, k)[0], exact.nearest(queries, k)[0]
    return float((returned[:, :, None] == truth[:, None, :]).any(1).mean())


@pytest.mark.parametrize(
    ("name", "low"),
    [
        ("annoy", lambda: AnnoySearch(TABLE, trees=1, search_k=1)),
        ("ivf", lambda: FaissSearch(TABLE, "ivf", lists=40)),
        ("hnsw", lambda: FaissSearch(TABLE, "hnsw", effort=1)),
    ],
)
def test_more_effort_finds_more(name: str, low: Any) -> None:
    right = ExactSearch(TABLE)
    assert recall(low(), right, QUERIES, 5) < recall(INDEXES[name](), right, QUERIES, 5)


def test_annoy_measures_euclidean_distance_and_not_angles() -> None:
    table = np.array([[1.0, 0.0], [10.0, 0.1], [0.9, 0.9]])
    query = np.array([[1.0, 0.01]])  # by angle row 1 is nearest
    assert AnnoySearch(table).nearest(query)[0].tolist() == [[0]]
    angular = annoy.AnnoyIndex(2, "angular")  # wrong
    for row, vector in enumerate(table):
        angular.add_item(row, vector)
    angular.build(5)
    assert angular.get_nns_by_vector(query[0], 1) == [1]


def test_a_loaded_annoy_index_answers_as_the_one_that_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "index.ann"
    built = AnnoySearch(TABLE, trees=3, search_k=30, seed=5)
    before = built.nearest(QUERIES, 5)[0]
    built.save(file)
    loaded = AnnoySearch.load(TABLE, file, search_k=30)
    np.testing.assert_array_equal(built.nearest(QUERIES, 5)[0], before)
    np.testing.assert_array_equal(loaded.nearest(QUERIES, 5)[0], before)
    assert (AnnoySearch(TABLE, trees=3, search_k=30).nearest(QUERIES, 5)[0] != before).any()


def test_the_build_of_annoy_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compiled otherwise, it has another name: what it built is not taken for ours."""
    ours = annoy_build()
    assert ours == annoy_build() and ours.startswith("1.")
    other = tmp_path / "annoylib.so"
    other.write_bytes(Path(annoy.annoylib.__file__).read_bytes() + b"0")
    monkeypatch.setattr(annoy.annoylib, "__file__", str(other))
    assert annoy_build() != ours


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    AnnoySearch(TABLE, trees=1).save(tmp_path / "index.ann")
    with pytest.raises(InvalidInput, match="got an index of 400 rows, expected 399"):
        AnnoySearch.load(TABLE[:-1], tmp_path / "index.ann")
    with pytest.raises(InvalidInput, match="search_k: got -2"):
        AnnoySearch.load(TABLE, tmp_path / "index.ann", search_k=-2)
    with pytest.raises(OSError, match="Unable to open"):
        AnnoySearch.load(TABLE, tmp_path / "absent")


def test_effort_set_anew_is_that_of_an_index_made_with_it() -> None:
    search, made = AnnoySearch(TABLE, trees=3), AnnoySearch(TABLE, trees=3, search_k=5)
    before = search.nearest(QUERIES, 5)[0]
    assert search.effort == -1
    search.effort = 5
    assert search.effort == made.effort == 5
    after = search.nearest(QUERIES, 5)[0]
    np.testing.assert_array_equal(after, made.nearest(QUERIES, 5)[0])
    assert (after != before).any()


MAKERS: dict[str, Any] = {
    "exact": ExactSearch,
    "annoy": AnnoySearch,
    "flat": FaissSearch,
    "ivf": lambda t: FaissSearch(t, "ivf"),
    "hnsw": lambda t: FaissSearch(t, "hnsw"),
}
NAN, INF = float("nan"), float("inf")
BAD_TABLES = [
    (np.zeros(3), r"got shape \(3,\), expected \(rows, dimension\)"),
    (np.zeros((3, 0)), r"got shape \(3, 0\)"),
    (np.zeros((0, 3)), "got 0 rows"),
    (np.zeros((3, 3), dtype=int), "got dtype int64, expected a float type"),
    (np.array([[1.0], [NAN], [INF]]), "2 of 3 rows hold NaN or infinity"),
    (np.array([[1.0], [-1e13]]), r"a coordinate of size 1e\+13, expected at most"),
]


BAD_QUERIES = [
    (np.zeros(12), r"got shape \(12,\)"),
    (np.zeros((2, 11)), "got dimension 11, expected the table's 12"),
    (np.zeros((2, 12), dtype=int), "expected a float type"),
    (np.full((2, 12), NAN), "2 of 2 rows hold NaN"),
    (np.full((2, 12), 1e30), r"a coordinate of size 1e\+30"),
]


@pytest.mark.parametrize("name", MAKERS)
def test_malformed_tables_and_questions(name: str) -> None:
    for table, says in BAD_TABLES:
        with pytest.raises(InvalidInput, match="vectors: .*" + says):
            MAKERS[name](table)
    search = MAKERS[name](TABLE)
    for queries, says in BAD_QUERIES:
        with pytest.raises(InvalidInput, match="queries: .*" + says):
            search.nearest(queries)
    for k in (0, 401, 1.0, True):
        with pytest.raises(InvalidInput, match="k: got .*expected an integer from 1 to 400"):
            search.nearest(QUERIES, k)


test_wrong_options = refused(
    (lambda: ExactSearch(TABLE, precision="fp16"), "precision: got 'fp16'"),  # type: ignore[arg-type]
    (lambda: AnnoySearch(TABLE, trees=0), "trees: got 0"),
    (lambda: AnnoySearch(TABLE, search_k=-2), "search_k: got -2"),
    (lambda: FaissSearch(TABLE, "lsh"), "got 'lsh', expected 'flat', 'ivf' or 'hnsw'"),  # type: ignore[arg-type]
    (lambda: FaissSearch(TABLE, "ivf", lists=401), "lists: got 401.* from 1 to 400"),
)
