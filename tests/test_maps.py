"""Lossy maps: true partitions, uniform draws, ranks by hand, the law of a channel, bad input.

Error rates: see `helpers`. `problems` says what is wrong with a map, and is shown to bite.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import POWER, FloatArray, fits, ids, likeliest_by_hand, power_of_fit, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.mechanisms.maps import LossyMap

more = settings(max_examples=200)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[int, Any]:
    """A size and fixed ids that leave at least two words; the ids may repeat."""
    size = draw(st.integers(2, 40))
    order = draw(st.permutations(range(size)))
    fixed = order[: draw(st.integers(0, size - 2))]
    return size, ids(*fixed, *fixed[:2])


def problems(representative: Any, group: int, fixed: Any) -> list[str]:
    """What keeps an array from being a map of groups of `group` words and at most one smaller."""
    faults, size = [], len(representative)
    if (representative[representative] != representative).any():
        faults.append("a representative does not stand for itself")
    if (representative[fixed] != fixed).any():
        faults.append("a fixed id is replaced")
    free = np.setdiff1d(np.arange(size), fixed)
    if np.isin(representative[free], fixed).any():
        faults.append("a fixed id is put out")
    sizes = np.bincount(representative[free], minlength=size)
    expected = [group] * (len(free) // group)
    if len(free) % group:
        expected.append(len(free) % group)
    if sorted(sizes[sizes > 0]) != sorted(expected):
        faults.append("a group of another size")
    return faults


@given(vocabularies(), st.integers(2, 6), st.integers(0, 2**32))
@more
def test_a_random_map_is_a_partition(made: tuple[int, Any], group: int, seed: int) -> None:
    size, fixed = made
    mapper = LossyMap.random(size, group, np.random.default_rng(seed), fixed=fixed)
    assert problems(mapper.representative, group, fixed) == []
    assert mapper.name == f"{group}-random" and mapper.size == size
    assert mapper.representative.dtype == np.int64


@given(vocabularies(), st.sampled_from(["frequent", "rare"]), st.data())
@more
def test_a_map_by_frequency_is_a_partition(
    made: tuple[int, Any], keep: Any, data: st.DataObject
) -> None:
    size, fixed = made
    counts = np.array(data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)))
    mapper = LossyMap.by_frequency(counts, keep=keep, fixed=fixed)
    assert problems(mapper.representative, 2, fixed) == []
    free = np.setdiff1d(np.arange(size), fixed)
    better = counts if keep == "frequent" else -counts
    assert (better[mapper.representative[free]] >= better[free]).all()
    if len(free) % 2:
        # The word in the middle is the one that stands alone.
        sizes = np.bincount(mapper.representative, minlength=size)
        (alone,) = free[sizes[free] == 1]
        ranked = sorted(free.tolist(), key=lambda word: (-counts[word], word))
        assert alone == ranked[len(free) // 2] == mapper.representative[alone]


def test_preimages_by_hand() -> None:
    mapper = LossyMap("by hand", ids(2, 1, 2, 5, 2, 5), fixed=ids(1))
    preimages = [mapper.preimages(word).tolist() for word in range(6)]
    assert preimages == [[], [1], [0, 2, 4], [], [], [3, 5]]
    assert mapper.name == "by hand" and mapper.size == 6
    assert mapper.inputs is not None and mapper.inputs.tolist() == [0, 2, 3, 4, 5]
    assert mapper.fixed.tolist() == [1]


DRAWS = 6000
MAP_SIZE, FIXED = 8, ids(1, 6)  # six words: 15 pairings, two choices in each of three pairs
WORDS = (0, 2, 3, 4, 5, 7)
OUTCOMES = sorted(
    {
        tuple(sorted(zip(order[::2], order[1::2], strict=True)))
        for order in itertools.permutations(WORDS)
    }
)
Maker = Callable[[np.random.Generator], Any]


def two_random(rng: np.random.Generator) -> Any:
    return LossyMap.random(MAP_SIZE, 2, rng, fixed=FIXED).representative


def drawn(make: Maker, seed: int = 5) -> FloatArray:
    """How often each of the ordered pairings (representative, other) was drawn."""
    rng, place = np.random.default_rng(seed), {each: row for row, each in enumerate(OUTCOMES)}
    counts = np.zeros(len(OUTCOMES))
    for _ in range(DRAWS):
        representative = make(rng)
        pairs = [(int(representative[w]), w) for w in WORDS if representative[w] != w]
        counts[place[tuple(sorted(pairs))]] += 1
    return counts


def test_two_random_draws_pairs_and_representatives_uniformly() -> None:
    # A false alarm has probability ALARM (chi-square with 119 degrees of freedom).
    assert len(OUTCOMES) == 15 * 2**3
    assert fits(drawn(two_random), np.full(120, 1 / 120))


def test_three_random_draws_representatives_uniformly() -> None:
    rng, counts = np.random.default_rng(8), np.zeros(6)
    for _ in range(4000):
        # One word of a map: its words depend on each other.
        counts[LossyMap.random(6, 3, rng).representative[0]] += 1
    # Word 0 stands for itself one time in three, each other word for it two times in fifteen.
    law = np.array([1 / 3, *[2 / 15] * 5])
    assert fits(counts, law)
    assert power_of_fit(np.eye(6)[0], law, 4000) > POWER


def test_a_single_word_left_over_is_any_word() -> None:
    rng, counts = np.random.default_rng(9), np.zeros(5)
    for _ in range(3000):
        representative = LossyMap.random(5, 2, rng).representative
        sizes = np.bincount(representative, minlength=5)
        counts[int(np.flatnonzero(sizes == 1)[0])] += 1
    assert fits(counts, np.full(5, 0.2))
    assert power_of_fit(np.eye(5)[4], np.full(5, 0.2), 3000) > POWER


@pytest.mark.parametrize(
    ("counts", "fixed", "frequent", "rare"),
    [
        # Ranks 3 1 0 2: 3 with 2, 1 with 0.
        ([4, 6, 1, 9], [], [1, 1, 3, 3], [0, 0, 2, 2]),
        # Ties by id: ranks 1 3 0 2 4, so 1 with 4 and 3 with 2; 0 is in the middle.
        ([0, 7, 0, 7, 0], [], [0, 1, 3, 3, 1], [0, 4, 2, 2, 4]),
        # All equal: 0 with 3, 1 with 2.
        ([5, 5, 5, 5], [], [0, 1, 1, 0], [3, 2, 2, 3]),
        # Fixed ids have no rank, however frequent: 4 with 1, 3 with 5; ranks 4 3 5 1.
        ([99, 0, 50, 2, 3, 1], [0, 2], [0, 4, 2, 3, 4, 3], [0, 1, 2, 5, 1, 5]),
        # Three words, the middle one stands for itself.
        ([1, 3, 2], [], [1, 1, 2], [0, 0, 2]),
        ([1, 2], [], [1, 1], [0, 0]),
    ],
)
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint64])
def test_by_frequency_by_hand(
    counts: list[int], fixed: list[int], frequent: list[int], rare: list[int], kind: Any
) -> None:
    numbers = np.array(counts, dtype=kind)
    high = LossyMap.by_frequency(numbers, keep="frequent", fixed=ids(*fixed))
    low = LossyMap.by_frequency(numbers, keep="rare", fixed=ids(*fixed))
    assert high.representative.tolist() == frequent and high.name == "high-freq"
    assert low.representative.tolist() == rare and low.name == "low-freq"


MAPPER = LossyMap.random(23, 3, np.random.default_rng(4), fixed=ids(0, 5))
EVERY = np.arange(23)


def test_rows_are_zeros_and_a_one() -> None:
    law = np.exp(MAPPER.log_rows(EVERY))
    np.testing.assert_array_equal(law.sum(1), 1)
    np.testing.assert_array_equal(law, MAPPER.matrix.toarray())
    np.testing.assert_array_equal(law.argmax(1), MAPPER.representative)
    assert set(law.ravel()) == {0.0, 1.0}
    MAPPER.check()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_likeliest_inputs_are_those_of_the_columns(count: int) -> None:
    rng = np.random.default_rng(count)
    outputs = rng.permutation(np.concatenate([EVERY, EVERY[:5]]))
    # Equal and zero weights: ties go to the lower id, the impossible is left out.
    prior = rng.integers(0, 3, 23).astype(np.float64)
    likeliest = MAPPER.likeliest_inputs(outputs, prior, count)
    words, joints, evidence = likeliest_by_hand(MAPPER, outputs, prior, count)
    np.testing.assert_array_equal(likeliest[0], words)
    np.testing.assert_allclose(likeliest[1], joints, rtol=1e-12)
    np.testing.assert_allclose(likeliest[2], evidence, rtol=1e-12)
    assert (likeliest[0] == -1).any() and (prior == 0).any()


def test_a_corpus_keeps_its_offsets_and_what_has_no_id() -> None:
    mapper = LossyMap("by hand", ids(2, 1, 2, 5, 2, 5), fixed=ids(1))
    corpus = Corpus(ids(0, UNKNOWN, 3, 1, KEPT, 5, 4), ids(0, 3, 3, 7), {4: "Anna"})
    image = mapper.sanitize_corpus(corpus)
    assert image.ids.tolist() == [2, UNKNOWN, 5, 1, KEPT, 5, 2] and image.ids.dtype == np.int64
    assert image.offsets.tolist() == [0, 3, 3, 7] and image.kept == {4: "Anna"}
    assert corpus.ids.tolist() == [0, UNKNOWN, 3, 1, KEPT, 5, 4]  # unchanged
    assert mapper.sanitize_corpus(image).ids.tolist() == image.ids.tolist()  # nothing is left to do


def random(**changed: Any) -> LossyMap:
    arguments: dict[str, Any] = {"size": 6, "group": 2, "rng": np.random.default_rng(0)}
    return LossyMap.random(**arguments | changed)


def by_frequency(**changed: Any) -> LossyMap:
    arguments: dict[str, Any] = {"counts": np.arange(6), "keep": "rare"}
    return LossyMap.by_frequency(**arguments | changed)


test_bad_input = refused(
    (lambda: LossyMap("m", ids(1, 2, 2)), "0 is sent to 1, which is sent to 2; expected every"),
    (lambda: LossyMap("m", ids(0, 3)), r"representative: got ids 0..3, expected 0..1"),
    (lambda: LossyMap("m", ids(1, 1, 2), fixed=ids(0)), "expected it to stand alone"),
    (lambda: LossyMap("m", ids(1, 1, 2), fixed=ids(1)), "expected it to stand alone"),
    (lambda: random(size=1), "size: got 1, expected an integer >= 2"),
    (lambda: random(fixed=np.arange(5)), "fixed: leaves 1 words, expected at least two"),
    (
        lambda: by_frequency(counts=np.ones((2, 3), dtype=int)),
        r"counts: got int64 of shape \(2, 3\)",
    ),
    (lambda: MAPPER.sanitize_corpus(Corpus(ids(23), ids(0, 1))), "corpus: got id 23"),
    (lambda: MAPPER.likeliest_inputs(ids(0), np.ones(22), 1), "prior: expected 23 finite"),
)
