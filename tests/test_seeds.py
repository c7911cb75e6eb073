"""Random streams: named by what they are for, independent, and the same in any order."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from helpers import ALARM, cdf_distance, margin
from scipy import stats

from textpriv.errors import InvalidInput
from textpriv.seeds import stream

KEYS: list[tuple[Any, ...]] = [
    (), ("",), (1,), (1.0,), ("1",), (True,), ("1", 1), (1, "1"), (11,), (1, 1), ("11",),
    ("a", "b"), ("ab",), ("b", "a"), ("a\x1fb",), ("a", "", "b"), ("a'", "b"), ("'a", "b"),
    ("a'\x1fstr:'b",), (0,), (0.0,), (-0.0,), (-1,), (False,), (2**64,), (2**64 + 1,), (1e300,),
    (float("inf"),), ("\ud800",), ("\udfff",), ("é",), ("e\u0301",), ("table2", "hockey", 19.0),
]  # fmt: skip


def first(seed: int | None, *keys: Any) -> int:
    return int(stream(seed, *keys).integers(2**63))


def test_a_stream_repeats_itself() -> None:
    for keys in KEYS:
        np.testing.assert_array_equal(stream(7, *keys).random(5), stream(7, *keys).random(5))


def test_keys_of_another_value_order_or_type_name_another_stream() -> None:
    assert len({first(7, *keys) for keys in KEYS}) == len(KEYS)
    assert first(8, "a") != first(7, "a")
    assert first(7) != int(np.random.default_rng(7).integers(2**63))


def test_streams_do_not_depend_on_what_was_asked_before() -> None:
    alone = {keys: stream(7, *keys).random(3).tolist() for keys in [("a", 1), ("b", 2), ("c", 3)]}
    for order in itertools.permutations(alone):
        opened = {keys: stream(7, *keys) for keys in order}
        assert {keys: opened[keys].random(3).tolist() for keys in reversed(order)} == alone


def test_ten_thousand_keys_give_ten_thousand_streams() -> None:
    draws = {first(7, name, i) for name in ("a", "b") for i in range(5000)}
    assert len(draws) == 10_000  # by chance two are equal once in 10^11 seeds


def linked(draws: Any) -> bool:
    """Whether draws of stream i and of stream i + 1 correlate; false alarm at most 4 ALARM."""
    pairs = [(draws[:-1, a], draws[1:, b]) for a in (0, 1) for b in (0, 1)]
    bound = stats.norm.isf(ALARM / 2) / np.sqrt(len(draws))
    return any(abs(np.corrcoef(*pair)[0, 1]) > bound for pair in pairs)


def test_first_draws_of_many_streams_are_uniform_and_unlinked() -> None:
    n = 20_000
    draws = np.array([stream(7, "x", i).random(2) for i in range(n)])
    assert cdf_distance(draws.ravel(), stats.uniform.cdf) <= margin(2 * n, ALARM)
    assert not linked(draws)
    overlapping = np.random.default_rng(7).random(n + 1)  # wrong: stream i is i draws ahead
    assert linked(np.stack([overlapping[:-1], overlapping[1:]], axis=1))


def test_numpy_numbers_name_the_stream_of_the_number_they_equal() -> None:
    assert first(7, np.float64(19.0)) == first(7, 19.0)
    assert first(7, np.int64(3)) == first(7, 3) == first(np.int64(7), 3)  # type: ignore[arg-type]
    assert first(7, np.str_("a")) == first(7, "a")


def test_no_seed_is_a_fresh_stream() -> None:
    assert first(None, "a") != first(None, "a")


def test_the_streams_stay_the_same_from_version_to_version() -> None:
    assert first(7, "table2", "hockey", 19.0) == 3513109770529100546


@pytest.mark.parametrize("seed", [-1, 1.0, "7", True, np.nan, [7]])
def test_a_seed_is_a_non_negative_integer(seed: Any) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"seed: got {seed!r}, expected an integer")):
        stream(seed, "a")


@pytest.mark.parametrize("key", [None, (1,), [1], object(), b"a", {}, np.zeros(2)])
def test_a_key_is_a_string_or_a_number(key: Any) -> None:
    with pytest.raises(InvalidInput, match="key: got .*expected a string or a number"):
        stream(7, "a", key)
