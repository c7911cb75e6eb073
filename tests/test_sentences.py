"""Sentence-level mechanisms: their laws, their depth by hand, and their bounds audited exactly.

Error rates: see `helpers`. Wrong laws that the audits must catch are in `mutants`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import POWER, FloatArray, assert_follows, fits, power_of_fit, refused
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from textpriv.errors import InvalidInput
from textpriv.mechanisms import sentences as module
from textpriv.mechanisms.sentences import (
    Box,
    DeepCandidate,
    Recoder,
    SentenceMechanism,
    TruncatedLaplace,
    learn_recoder,
    tukey_depth,
)
from textpriv.models import Training
from textpriv.models.vectors import SentenceVectors

Rng = np.random.Generator


def documents(*tables: Any) -> SentenceVectors:
    """One document per table of sentences."""
    parts = [np.asarray(table, dtype=np.float32) for table in tables]
    return SentenceVectors(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))


def singles(vectors: Any) -> SentenceVectors:
    """Documents of one sentence each."""
    return documents(*np.asarray(vectors, dtype=np.float32)[:, None])


def copies(table: Any, count: int) -> SentenceVectors:
    return documents(table).subset(np.zeros(count, dtype=np.int64))


def test_the_box_by_hand() -> None:
    public = singles([[0, 9], [1, 8], [2, -7], [3, 6], [4, 5], [5, 4], [6, 3], [70, 2]])
    box = Box.learn(public)  # 6 of 8; medians 3.5 and 4.5
    assert box.low.tolist() == [1, 2] and box.high.tolist() == [6, 8]
    assert box.range.tolist() == [5, 6]
    whole = Box.learn(public, share=1.0)
    assert whole.low.tolist() == [0, -7] and whole.high.tolist() == [70, 9]
    means = Box.learn(documents([[-90], [90]], [[1], [3]], [[1]]), share=1.0)
    assert means.low.tolist() == [0] and means.high.tolist() == [2]


BOX = Box(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 10.0]))
# Far outside on one side, so that clipping the mean is not the mean of clipped ones.
SENTENCES = [[0, 0.25, 3], [5, 0.5, 4], [0.5, -3, 60], [-0.5, 0.125, 2]]
EPSILON = 6.0


def clipped_mean(table: FloatArray, box: Box) -> FloatArray:
    return np.clip(table, box.low, box.high).mean(0)


def test_the_clipped_mean_and_the_scale_by_hand() -> None:
    laplace = TruncatedLaplace(BOX, epsilon=EPSILON)
    several = documents(SENTENCES, [[7, 7, 7]])
    np.testing.assert_allclose(
        laplace.clipped_mean(several),
        [
            [(0 + 1 + 0.5 - 0.5) / 4, (0.25 + 0.5 + 0 + 0.125) / 4, (3 + 4 + 10 + 2) / 4],
            [1, 0.5, 7],
        ],
    )
    # range_j * 3 / (k * 6)
    np.testing.assert_allclose(laplace.scale(several), [[0.25, 0.0625, 1], [1, 0.25, 4]])


def test_chunks_of_documents_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    several = documents(*(rng.normal(scale=3, size=(k, 3)) for k in (1, 4, 2, 1, 3, 5, 2)))
    laplace = TruncatedLaplace(BOX, epsilon=1.0)
    expected = [clipped_mean(several[row].astype(float), BOX) for row in range(7)]
    drawn = laplace.sanitize(several, np.random.default_rng(0))
    for chunk in (1, 2, 3, 7):
        monkeypatch.setattr(module, "DOCUMENTS", chunk)
        np.testing.assert_allclose(laplace.clipped_mean(several), expected)
        np.testing.assert_allclose(laplace.sanitize(several, np.random.default_rng(0)), drawn)


@pytest.mark.parametrize("coordinate", range(3))
def test_the_noise_is_laplace(coordinate: int) -> None:
    """In units of the scale that it should have."""
    laplace = TruncatedLaplace(BOX, epsilon=EPSILON)
    mean = clipped_mean(np.array(SENTENCES), BOX)[coordinate]
    scale = (BOX.high - BOX.low)[coordinate] * 3 / (4 * EPSILON)

    def sample(n: int, rng: Rng) -> FloatArray:
        return (laplace.sanitize(copies(SENTENCES, n), rng)[:, coordinate] - mean) / scale

    assert_follows(sample, stats.laplace.cdf)


def test_noise_of_different_coordinates_and_documents_is_its_own() -> None:
    laplace = TruncatedLaplace(BOX, epsilon=EPSILON)
    drawn = laplace.sanitize(copies(SENTENCES, 2000), np.random.default_rng(0))
    positive = drawn > laplace.clipped_mean(copies(SENTENCES, 1))
    for first, second in ((positive[:, 0], positive[:, 1]), (positive[1:, 2], positive[:-1, 2])):
        assert abs((first == second).mean() - 0.5) < 0.07  # 6 deviations


numbers = st.floats(-5, 15, width=32)


def library_mean(table: FloatArray, box: Box) -> FloatArray:
    return TruncatedLaplace(box, epsilon=1.0).clipped_mean(documents(table))[0]


def loss(laplace: TruncatedLaplace, document: Any, neighbour: Any) -> float:
    """Supremum of ln p(y | document) / p(y | neighbour): sum_j |difference_j| / b_j."""
    difference = library_mean(np.asarray(document), BOX) - library_mean(np.asarray(neighbour), BOX)
    return float((np.abs(difference) / laplace.scale(documents(document))[0]).sum())


@given(
    document=arrays(np.float32, st.tuples(st.integers(1, 5), st.just(3)), elements=numbers),
    other=arrays(np.float32, 3, elements=numbers),
    place=st.integers(0, 4),
)
def test_one_sentence_costs_at_most_eps(document: Any, other: Any, place: int) -> None:
    neighbour = document.copy()
    neighbour[place % len(document)] = other
    laplace = TruncatedLaplace(BOX, epsilon=EPSILON)
    moved = library_mean(document, BOX) - library_mean(neighbour, BOX)
    assert (np.abs(moved) <= BOX.range / len(document) + 1e-9).all()
    assert np.abs(moved).sum() <= BOX.range.sum() / len(document) + 1e-9
    assert loss(laplace, document, neighbour) <= EPSILON + 1e-9


def test_the_bound_is_reached_and_a_document_costs_k_eps() -> None:
    laplace = TruncatedLaplace(BOX, epsilon=EPSILON)
    low, high = [-9.0, -9.0, -9.0], [99.0, 99.0, 99.0]
    rest = [[0.0, 0.25, 3.0]] * 3
    one = loss(laplace, [low, *rest], [high, *rest])
    assert one == pytest.approx(EPSILON, rel=1e-12)
    assert loss(laplace, [low] * 4, [high] * 4) == pytest.approx(4 * EPSILON)
    # The same from densities: far to one side they differ by all of it.
    scale = laplace.scale(documents([low, *rest]))[0]
    means = [library_mean(np.array([end, *rest]), BOX) for end in (low, high)]
    first, second = (stats.laplace.logpdf([-30, -30, -30], at, scale).sum() for at in means)
    assert first - second == pytest.approx(EPSILON)


def depth(points: FloatArray, candidates: FloatArray, directions: FloatArray) -> Any:
    return tukey_depth(directions @ points.T, directions @ candidates.T)


def test_depth_on_a_line_by_hand() -> None:
    points = np.array([[0, 1, 2, 2, 5]], dtype=float).T
    candidates = np.array([[-1, 0, 1.5, 2, 5, 6]], dtype=float).T
    for direction in ([[1.0]], [[-3.0]], [[1.0], [-1.0]]):
        depths = depth(points, candidates, np.array(direction))
        assert depths.tolist() == [0, 1, 2, 3, 1, 0] and depths.dtype == np.int64


def depth_by_hand(points: FloatArray, candidates: FloatArray, directions: FloatArray) -> list[int]:
    depths = []
    for candidate in candidates:
        sides = []
        for direction in directions:
            along = [float(direction @ point) for point in points]
            place = float(direction @ candidate)
            sides += [sum(a <= place for a in along), sum(a >= place for a in along)]
        depths.append(min(sides))
    return depths


whole = st.integers(-3, 3).map(float)  # many ties, no rounding


def table(rows: Any) -> Any:
    return arrays(float, st.tuples(rows, st.just(2)), elements=whole)


@given(table(st.integers(1, 7)), table(st.integers(1, 6)), table(st.integers(1, 5)))
def test_depth_against_brute_force(points: Any, candidates: Any, directions: Any) -> None:
    depths = depth(points, candidates, directions)
    assert depths.tolist() == depth_by_hand(points, candidates, directions)
    assert (depths <= depth(points, candidates, directions[:1])).all()


def test_depth_of_many_candidates() -> None:
    rng = np.random.default_rng(0)
    points, candidates, directions = (rng.normal(size=(n, 3)) for n in (9, 1300, 4))
    depths = depth(points, candidates, directions)
    assert depths.tolist() == depth_by_hand(points, candidates, directions)
    assert len(np.unique(depths)) > 3


@given(
    table(st.integers(1, 7)),
    table(st.integers(1, 9)),
    table(st.integers(1, 5)),
    arrays(float, 2, elements=whole),
    st.integers(0, 6),
)
def test_one_sentence_moves_depth_by_at_most_1(
    points: Any, candidates: Any, directions: Any, other: Any, place: int
) -> None:
    neighbour = points.copy()
    neighbour[place % len(points)] = other
    moved = depth(points, candidates, directions) - depth(neighbour, candidates, directions)
    assert np.abs(moved).max() <= 1


def plain(vectors: Any) -> FloatArray:
    """No recoding."""
    return np.asarray(vectors, dtype=np.float64)


def deep(public: Any, epsilon: float, **options: Any) -> DeepCandidate:
    return DeepCandidate(singles(public), plain, epsilon=epsilon, **options)


def worst(mechanism: DeepCandidate, document: Any, neighbour: Any) -> float:
    """max_c |ln P(c | document) - ln P(c | neighbour)|, exact."""
    laws = [mechanism.log_probability(np.asarray(each)) for each in (document, neighbour)]
    return float(np.abs(laws[0] - laws[1]).max())


def test_the_law_by_hand() -> None:
    mechanism = deep([[-1], [0], [1.5], [2]], 3.0)
    document = [[0], [1], [2], [2], [5]]
    assert mechanism.depth(np.array(document)).tolist() == [0, 1, 2, 3]
    weights = np.exp(1.5 * np.arange(4))
    np.testing.assert_allclose(
        mechanism.log_probability(np.array(document)), np.log(weights / weights.sum())
    )
    high = mechanism.with_epsilon(5000.0).log_probability(np.array(document))
    assert high.tolist() == [-7500, -5000, -2500, 0]


def test_the_channel_is_of_recoded_means_and_sentences() -> None:
    public = documents([[0], [4]], [[1]], [[10], [20], [30]])
    mechanism = DeepCandidate(public, lambda v: plain(v) ** 2, epsilon=1.0)
    assert mechanism.candidates.tolist() == [[4], [1], [400]]
    # Sentences -2, 1, 3 become 4, 1, 9: their mean, or their means squared, would not do.
    assert mechanism.depth(np.array([[-2], [1], [3]])).tolist() == [2, 1, 0]


def extreme_pair(others: int) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """Candidates and neighbours: one candidate loses a depth of 1, all others win it."""
    return [[-1.0], *[[1.0]] * others], [[-2.0], [0.0]], [[2.0], [0.0]]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_bound_is_reached(epsilon: float) -> None:
    public, document, neighbour = extreme_pair(round(200 * np.exp(epsilon)))
    mechanism = deep(public, epsilon)
    assert 0.99 * epsilon < worst(mechanism, document, neighbour) <= epsilon + 1e-12
    twice = mechanism.with_epsilon(2 * epsilon)  # exp(eps * depth)
    assert worst(twice, document, neighbour) > 1.5 * epsilon


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_neighbours_are_within_eps_and_a_document_within_k_eps(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    mechanism = deep(rng.normal(size=(60, 2)), epsilon, directions=20)
    one_sentence, whole_document, too_sharp = [], [], []
    for _ in range(60):
        document, other = rng.normal(size=(2, 5, 2))
        neighbour = document.copy()
        neighbour[2] = other[2] * 3
        one_sentence.append(worst(mechanism, document, neighbour))
        too_sharp.append(worst(mechanism.with_epsilon(2 * epsilon), document, neighbour))
        whole_document.append(worst(mechanism, document, other))
    assert epsilon / 2 < max(one_sentence) <= epsilon + 1e-12 < max(too_sharp)
    assert max(one_sentence) < max(whole_document) <= 5 * epsilon


def test_bounded_range() -> None:
    """ln P(c|d) / P(c|d') lies in an interval of length eps, whatever the candidates."""
    public, document, neighbour = extreme_pair(3)
    laws = [deep(public, 2.0).log_probability(np.array(each)) for each in (document, neighbour)]
    assert np.ptp(laws[0] - laws[1]) == pytest.approx(2.0)
    rng = np.random.default_rng(6)
    mechanism = deep(rng.normal(size=(60, 2)), 2.0, directions=20)
    for _ in range(20):
        document, neighbour = np.repeat(rng.normal(size=(1, 5, 2)), 2, axis=0)
        neighbour[0] = rng.normal(size=2)
        laws = [mechanism.log_probability(each) for each in (document, neighbour)]
        assert np.ptp(laws[0] - laws[1]) <= 2 + 1e-12


def test_the_choice_follows_the_law() -> None:
    mechanism = deep([[-1], [0], [1.5], [2], [7]], 0.8)
    document = [[0], [1], [2], [2], [5]]
    law = np.exp(mechanism.log_probability(np.array(document)))
    n = 6_000
    chosen = mechanism.sanitize(copies(document, n), np.random.default_rng(0))
    assert chosen.dtype == np.int64 and chosen.shape == (n,)
    counts = np.bincount(chosen, minlength=5)
    assert fits(counts, law)
    for wrong in (1.6, 0.4):
        other = np.exp(mechanism.with_epsilon(wrong).log_probability(np.array(document)))
        assert power_of_fit(law, other, n) > POWER and not fits(counts, other)


def test_each_document_has_its_law_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = deep([[-10], [0], [10]], 200.0)  # the deepest one for sure
    several = documents([[9], [11], [12]], [[-1], [2]], [[-10]], [[0], [9], [30], [31]])
    expected = [2, 1, 0, 2]
    for chunk in (1, 2, 3, 256):
        monkeypatch.setattr(module, "DOCUMENTS", chunk)
        assert mechanism.sanitize(several, np.random.default_rng(3)).tolist() == expected
        flat = mechanism.with_epsilon(1e-9).sanitize(several, np.random.default_rng(3))
        assert flat.tolist() == (np.random.default_rng(3).random(4) * 3).astype(int).tolist()


def test_directions_are_public_and_fixed() -> None:
    rng = np.random.default_rng(1)
    public, document = rng.normal(size=(200, 6)), rng.normal(size=(40, 6))
    first, again, other = (deep(public, 1.0, seed=seed) for seed in (0, 0, 1))
    assert first.depth(document).tolist() == again.depth(document).tolist()
    assert first.depth(document).tolist() != other.depth(document).tolist()
    few, many = (deep(public, 1.0, directions=count) for count in (2, 1000))
    assert few.depth(document).mean() > first.depth(document).mean() > many.depth(document).mean()
    assert first.with_epsilon(3.0).candidates is first.candidates


def blobs(count: int = 120, seed: int = 0) -> tuple[SentenceVectors, FloatArray]:
    """Documents about three points, and which of them."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=count)
    return singles(np.eye(3, 8)[kind] + rng.normal(scale=0.1, size=(count, 8))), kind


QUICK = Training(steps=150, batch=32, learning_rate=1e-2)


@pytest.fixture(scope="module")
def recoder() -> Recoder:
    return learn_recoder(blobs()[0], clusters=3, training=QUICK)


def spread_within(points: FloatArray, kind: FloatArray) -> float:
    """Share of the variance that lies within groups."""
    inside = sum(((points[kind == k] - points[kind == k].mean(0)) ** 2).sum() for k in range(3))
    return float(inside / ((points - points.mean(0)) ** 2).sum())


def test_the_recoder_tells_clusters_and_draws_them_together(recoder: Recoder) -> None:
    public, kind = blobs(seed=1)
    recoded = recoder(public.vectors)
    assert recoder.accuracy == 1.0
    assert recoded.shape == (120, 8) and recoded.dtype == np.float64 and recoded.min() >= 0
    assert spread_within(recoded, kind) < 0.6 * spread_within(public.vectors.astype(float), kind)
    np.testing.assert_array_equal(recoded, recoder(public.vectors))  # no dropout


def test_the_accuracy_is_of_documents_not_trained_on() -> None:
    """What is noise without clusters is told for the documents trained on only."""
    public = singles(np.random.default_rng(0).normal(size=(60, 30)))
    training = Training(steps=300, batch=54, learning_rate=1e-2)
    assert learn_recoder(public, clusters=20, training=training).accuracy <= 0.5


def test_the_same_seed_gives_the_same_recoder() -> None:
    public = blobs()[0]
    short = replace(QUICK, steps=5)
    state = torch.get_rng_state()
    first, again, other = (
        learn_recoder(public, clusters=3, training=short, seed=seed)(public.vectors)
        for seed in (0, 0, 1)
    )
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0.01


def both() -> list[SentenceMechanism]:
    return [TruncatedLaplace(BOX, epsilon=2.0), deep(np.eye(3), 2.0)]


@pytest.mark.parametrize("mechanism", both(), ids=lambda m: m.name)
def test_draws_follow_the_generator(mechanism: SentenceMechanism) -> None:
    several = copies(SENTENCES, 50)
    first, again = (mechanism.sanitize(several, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (mechanism.sanitize(several) != mechanism.sanitize(several)).any()


@pytest.mark.parametrize("mechanism", both(), ids=lambda m: m.name)
def test_sentences_of_another_kind(mechanism: SentenceMechanism) -> None:
    with pytest.raises(InvalidInput, match="sentences: got vectors of width 2, expected 3"):
        mechanism.sanitize(singles([[1.0, 2.0]]))
    with pytest.raises(InvalidInput, match="sentences: got .*ndarray, expected SentenceVectors"):
        mechanism.sanitize(np.eye(3))  # type: ignore[arg-type]


PUBLIC = singles(np.eye(4))


def box(low: Any, high: Any) -> Box:
    return Box(np.array(low, dtype=float), np.array(high, dtype=float))


test_bad_input = refused(
    (lambda: box([0, 1], [1, 1]), "got 1 to 1 for coordinate 1, expected low < high"),
    (lambda: box([0, np.nan], [1, 2]), "got NaN or infinity"),
    (lambda: box([0], [1, 2]), r"got shapes \(1,\) and \(2,\)"),
    (lambda: box([], []), r"got shapes \(0,\)"),
    (lambda: Box.learn(singles([[0, 1], [1, 1]])), "for coordinate 1, expected low < high"),
    (lambda: Box.learn(np.eye(3)), "public: got .*ndarray"),
    (lambda: TruncatedLaplace((0, 1), epsilon=1), "box: got .*tuple, expected a Box"),
    (lambda: TruncatedLaplace(BOX, epsilon=np.nan), "epsilon: got nan"),
    (
        lambda: learn_recoder(PUBLIC.subset(np.arange(40) % 4), clusters=4),
        "public: got 4 different documents, expected more than the 4 clusters",
    ),
    (lambda: DeepCandidate(PUBLIC, lambda v: plain(v)[0], epsilon=1), r"recode: got .*\(4,\)"),
    (lambda: DeepCandidate(PUBLIC, lambda v: plain(v)[:2], epsilon=1), r"recode: got .*\(2, 4"),
    (lambda: DeepCandidate(PUBLIC, lambda v: plain(v) * np.nan, epsilon=1), "recode: got"),
    (lambda: deep(np.eye(3), 1.0).depth(np.eye(2)), "width 2, expected 3"),
)
