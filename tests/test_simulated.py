"""A channel learned by running the mechanism, against laws of ranks that are known.

Wrong versions that must be caught: one law for crowds and for lone words; outputs in the place of
inputs.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import FloatArray, normal_embedding, refused

from textpriv.attacks.simulated import RankChannel
from textpriv.data.embeddings import from_arrays
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.noise import RankRepair
from textpriv.mechanisms.vickrey import Vickrey

SIZE = 400
EMBEDDING = normal_embedding(SIZE, 6, seed=2)
NOISE = Madlib(EMBEDDING, epsilon=30.0)
VICKREY = Vickrey(NOISE, t=0.95)  # keeps a quarter of the words
PUBLIC = np.arange(SIZE)


def estimated(mechanism: Madlib | Vickrey | RankRepair, **options: int) -> RankChannel:
    return RankChannel.estimate(mechanism, PUBLIC, np.random.default_rng(3), **options)


def test_the_law_of_ranks_is_that_of_the_mechanism() -> None:
    """Next to no noise, then rank k with a probability that halves from rank to rank."""
    still = Madlib(EMBEDDING, epsilon=1e5)
    channel = estimated(RankRepair(still, c=np.log(2) / 1e5), ranks=30, groups=1, draws=40_000)
    apart = np.linalg.norm(EMBEDDING.vectors[7] - EMBEDDING.vectors, axis=1)
    row = np.exp(channel.log_rows(np.array([7]))[0])[apart.argsort()]
    law = 0.5 ** np.arange(1, 7)
    error = np.sqrt(law * (1 - law) / 40_000)
    assert (np.abs(row[:6] - law) < 4.5 * error).all()  # six at 7e-6 each
    assert row[30:].max() < 1e-5 and row.sum() == pytest.approx(1)


@pytest.mark.parametrize("ranks", [1, 20, SIZE, 5 * SIZE])
def test_rows_are_probabilities_and_columns_hold_the_same(ranks: int) -> None:
    estimated(VICKREY, ranks=ranks, draws=2000).check()


def test_words_in_a_crowd_have_a_law_of_their_own() -> None:
    """Ten words far from all others stay what they are, those in the crowd seldom."""
    rng = np.random.default_rng(4)
    vectors = np.concatenate([rng.normal(size=(90, 5)), 50 + 30 * rng.normal(size=(10, 5))])
    words = [f"w{each}" for each in range(100)]
    mechanism = Madlib(from_arrays("crowd", words, vectors.astype(np.float32)), epsilon=4.0)
    channel = RankChannel.estimate(mechanism, np.arange(100), rng, ranks=30)
    stay = np.exp(channel.log_rows(np.arange(100)).diagonal())
    with simulation():
        seen = mechanism.sanitize_ids(np.repeat([3, 95], 4000), rng).reshape(2, -1)
    for word, outputs in zip((3, 95), seen, strict=True):
        assert stay[word] == pytest.approx((outputs == word).mean(), abs=0.15)
    assert stay[95] > 0.9 and stay[:90].mean() < 0.6
    alone = RankChannel.estimate(mechanism, np.arange(100), rng, ranks=30, groups=1)
    assert np.ptp(alone.log_rows(np.arange(100)).diagonal()) < 1e-12  # one law for all


def test_words_of_one_vector_are_each_their_own_first_neighbour() -> None:
    vectors = np.repeat(np.random.default_rng(5).normal(size=(20, 4)), 2, axis=0)
    twins = from_arrays("twins", [f"w{each}" for each in range(40)], vectors.astype(np.float32))
    still = Madlib(twins, epsilon=1e4)  # of two, the first comes out
    channel = RankChannel.estimate(still, np.arange(40), np.random.default_rng(6), ranks=5)
    row = np.exp(channel.log_rows(np.array([1]))[0])
    assert row[[0, 1]] == pytest.approx([0.5, 0.5], abs=0.02)


def test_who_has_run_the_mechanism_reads_more_than_was_sent() -> None:
    """Where words seldom stay, and mostly give way to the nearest other one: half are read back."""
    inputs = np.tile(PUBLIC, 10)
    with simulation():
        outputs = VICKREY.sanitize_ids(inputs, np.random.default_rng(8))
    stay = float((outputs == inputs).mean())
    channel = estimated(VICKREY)

    def success(law: FloatArray) -> float:
        """Of the likeliest input under a law of log P(column | row), all inputs alike."""
        return float((law[:, outputs].argmax(0) == inputs).mean())

    law = channel.log_rows(PUBLIC)
    assert success(law) > stay + 0.2
    assert success(law.T) < success(law) - 0.1


def test_it_forgets_no_word_of_the_vocabulary() -> None:
    """An output that no draw showed is possible all the same."""
    channel = estimated(VICKREY, ranks=10, draws=50)
    assert np.isfinite(channel.log_columns(np.array([0, SIZE - 1]))).all()


test_bad_input_is_named = refused(
    (lambda: RankChannel.estimate(NOISE, np.array([-1, -2]), np.random.default_rng(0)),
     "words: got none that the mechanism replaces"),
    (lambda: RankChannel.estimate("noise", PUBLIC, np.random.default_rng(0)), "mechanism: "),
    (lambda: estimated(NOISE, ranks=0), "ranks: got 0"),
)  # fmt: skip
