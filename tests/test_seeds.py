"""Random streams: named by what they are for, independent, and the same in any order.

And what mechanisms say when they are handed one: that their output is not private.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ALARM, cdf_distance, margin, normal_embedding
from mutants import BOX, CANDIDATES, POOL, recode
from scipy import stats
from tiny_generators import tiny_generator

from textpriv import experiments
from textpriv.attacks.base import observe
from textpriv.data.tokens import Tokenizer
from textpriv.errors import InvalidInput, SeededOutput
from textpriv.mechanisms import Madlib, RankRepair, SanText
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.prompt import DPPrompt, learn_limits, sanitize_at
from textpriv.mechanisms.registry import examples
from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.sweep import epsilons_for, sweep
from textpriv.models.vectors import SentenceVectors
from textpriv.privacy import audit_laplace, draw_words
from textpriv.seeds import stream
from textpriv.utility.preview import recovered

KEYS: list[tuple[Any, ...]] = [
    (), ("",), (1,), (1.0,), ("1",), (True,), ("1", 1), (1, "1"), (11,), (1, 1), ("11",),
    ("a", "b"), ("ab",), ("b", "a"), ("a\x1fb",), ("a", "", "b"), ("a'", "b"), ("'a", "b"),
    ("a'\x1fstr:'b",), (0,), (0.0,), (-0.0,), (-1,), (False,), (2**64,), (2**64 + 1,), (1e300,),
    (float("inf"),), ("\ud800",), ("\udfff",), ("é",), ("e\u0301",), ("table2", "hockey", 19.0),
]  # fmt: skip


def first(seed: int | None, *keys: Any) -> int:
    return int(stream(seed, *keys).integers(2**63))


def test_keys_of_another_value_order_or_type_name_another_stream() -> None:
    assert len({first(7, *keys) for keys in KEYS}) == len(KEYS)
    assert first(8, "a") != first(7, "a")
    assert first(7) != int(np.random.default_rng(7).integers(2**63))
    assert first(None, "a") != first(None, "a")


def test_streams_do_not_depend_on_what_was_asked_before() -> None:
    alone = {keys: stream(7, *keys).random(3).tolist() for keys in [("a", 1), ("b", 2), ("c", 3)]}
    for order in itertools.permutations(alone):
        opened = {keys: stream(7, *keys) for keys in order}
        assert {keys: opened[keys].random(3).tolist() for keys in reversed(order)} == alone


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


def test_the_streams_stay_the_same_from_version_to_version() -> None:
    assert first(7, "table2", "hockey", 19.0) == 3513109770529100546


def test_seeds_are_counts_and_keys_are_strings_or_numbers() -> None:
    seeds: list[Any] = [-1, 1.0, "7", True, np.nan]
    for seed in seeds:
        with pytest.raises(InvalidInput, match=f"seed: got {seed!r}, expected an integer"):
            stream(seed, "a")
    keys: list[Any] = [None, (1,), b"a", np.zeros(2)]
    for key in keys:
        with pytest.raises(InvalidInput, match="key: got .*expected a string or a number"):
            stream(7, "a", key)


TABLE = normal_embedding(40, 3, seed=2)
MADLIB = Madlib(TABLE, epsilon=2.0)
REPAIR = RankRepair(MADLIB, c=0.1)
SANTEXT = SanText(TABLE, epsilon=2.0)
CORPUS = Tokenizer(TABLE.words).encode(["w1 w2 w1 unknown", "w3"])
SENTENCES = SentenceVectors(POOL, np.array([0, 2, 5]))
IDS = np.array([1, 2, 3])


def said(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """Warnings of the kind that a call gives, every one of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [each for each in caught if issubclass(each.category, SeededOutput)]


CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda rng, each=each: each.sanitize(["word1 word2"], rng)  # type: ignore[misc]
        for name, each in examples().items()
    },
    "rank repair of ids": lambda rng: REPAIR.sanitize_ids(IDS, rng),
    "a corpus": lambda rng: SANTEXT.sanitize_corpus(CORPUS, rng),
    "a corpus, draws used again": lambda rng: SANTEXT.sanitize_corpus(CORPUS, rng, reuse=True),
    "truncated laplace": lambda rng: TruncatedLaplace(BOX, epsilon=2.0).sanitize(SENTENCES, rng),
    "deep candidate": lambda rng: DeepCandidate(CANDIDATES, recode, epsilon=2.0).sanitize(
        SENTENCES, rng
    ),
    "sweep of noise": lambda rng: sweep(MADLIB, IDS, [1.0, 2.0], rng),
    "sweep of one": lambda rng: sweep(MADLIB, IDS, [1.0], rng),
    "sweep of others": lambda rng: sweep(SANTEXT, IDS, [1.0, 2.0], rng),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_seeded_mechanism_warns_once_where_it_was_called(name: str) -> None:
    caught = said(lambda: CALLS[name](np.random.default_rng(7)))
    assert [warning.filename for warning in caught] == [__file__]
    assert "not private" in str(caught[0].message) and "generator" in str(caught[0].message)
    assert said(lambda: CALLS[name](None)) == []


def test_dp_prompt_warns_of_a_seed(tmp_path: Path) -> None:
    generator = tiny_generator(tmp_path)
    prompt = DPPrompt(generator, temperature=1.5, tokens=2)
    for call in (
        lambda seed: prompt.sanitize(["a cat"], seed),
        lambda seed: sanitize_at([prompt, prompt], ["a cat"], seed),
    ):
        caught = said(lambda call=call: call(7))  # type: ignore[misc]
        assert [warning.filename for warning in caught] == [__file__]
        assert "a seed was passed" in str(caught[0].message)
        assert said(lambda call=call: call(None)) == []  # type: ignore[misc]
    assert said(lambda: learn_limits(generator, ["a cat"], tokens=2, seed=7)) == []  # public text


def test_simulations_and_audits_say_nothing() -> None:
    rng = np.random.default_rng(7)
    prior = np.ones(40)
    for call in (
        lambda: observe(MADLIB, CORPUS, rng),
        lambda: recovered(SANTEXT, IDS, [1.0, 2.0], prior=prior),
        lambda: recovered(MADLIB, IDS, [1.0], prior=prior, rng=rng),
        lambda: epsilons_for(REPAIR, IDS, [0.5], rng),
        lambda: draw_words(MADLIB, [1], draws=5, seed=7),
        lambda: audit_laplace(TruncatedLaplace(BOX, epsilon=2.0), POOL[:2], draws=50, seed=7),
    ):
        assert said(call) == []

    def simulated() -> None:
        with simulation():
            MADLIB.sanitize_ids(IDS, rng)

    assert said(simulated) == [] and len(said(lambda: MADLIB.sanitize_ids(IDS, rng))) == 1


def test_experiments_say_nothing() -> None:
    """Workers import the package together with the functions that they are sent."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        importlib.reload(experiments)
        MADLIB.sanitize_ids(IDS, np.random.default_rng(7))
        warnings.warn("another", UserWarning, stacklevel=1)
    assert [str(each.message) for each in caught] == ["another"]
