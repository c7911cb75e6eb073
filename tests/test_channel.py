"""What every channel shares: ids checked, rows inverted, posteriors by Bayes' rule."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers import POWER, FloatArray, Given, fits, likeliest_by_hand, power_of_fit, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv import channel
from textpriv.channel import Channel, check_ids
from textpriv.errors import InvalidInput

more = settings(max_examples=200)


class Table(Channel):
    """The channel of a matrix."""

    def __init__(self, law: Any) -> None:
        self.law = np.array(law, dtype=np.float64)
        self.size = len(self.law)

    def log_rows(self, inputs: Any) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.law[inputs])

    def log_columns(self, outputs: Any) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.law[:, outputs].T)


LAW = np.array(
    [
        [0.5, 0.25, 0.25, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
        [0.1, 0.2, 0.3, 0.4, 0.0],
        [0.0, 0.9, 0.0, 0.1, 0.0],
        [0.2, 0.2, 0.2, 0.4, 0.0],
    ]
)
MADE: Any = Table(LAW)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.int64, list, tuple])
def test_integers_of_any_kind_become_int64(kind: Any) -> None:
    ids = kind([3, 0, 3]) if kind in (list, tuple) else np.array([3, 0, 3], dtype=kind)
    checked = check_ids(ids, 5, what="ids")
    assert checked.dtype == np.int64 and checked.tolist() == [3, 0, 3]
    assert check_ids([], 5, what="ids").dtype == np.int64


@pytest.mark.parametrize("word", range(5))
def test_samples_follow_the_rows(word: int) -> None:
    """Against a sampler that is off by one word; false alarm and power as in `helpers`."""
    n = 100_000
    drawn = MADE.sample(np.full(n, word), np.random.default_rng(word))
    counts = np.bincount(drawn, minlength=5)
    assert fits(counts, LAW[word])
    shifted = np.roll(LAW[word], 1)
    assert not fits(np.roll(counts, 1), LAW[word])
    assert power_of_fit(shifted, np.maximum(LAW[word], 1e-9), n) >= POWER


def test_a_uniform_draw_is_inverted_at_the_steps_of_the_row() -> None:
    just_below = np.nextafter(0.5, 0)
    draws = [0.0, just_below, 0.5, 0.75, np.nextafter(1.0, 0)]
    assert MADE.sample(np.zeros(5, dtype=int), Given(draws)).tolist() == [0, 0, 1, 2, 2]
    assert MADE.sample(np.ones(5, dtype=int), Given(draws)).tolist() == [3] * 5


def test_draws_belong_to_positions_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(0).integers(0, 5, 500)
    whole = MADE.sample(words, np.random.default_rng(1))
    pairs = MADE.log_prob(words, whole)
    monkeypatch.setattr(channel, "ROW_BYTES", 1)
    assert MADE.row_chunk == 1
    np.testing.assert_array_equal(MADE.sample(words, np.random.default_rng(1)), whole)
    np.testing.assert_array_equal(MADE.log_prob(words, whole), pairs)
    # A longer text begins with the same draws.
    longer = MADE.sample(np.append(words, [0, 1]), np.random.default_rng(1))
    np.testing.assert_array_equal(longer[:500], whole)


def test_log_prob_reads_pairs() -> None:
    x, y = np.array([0, 2, 3, 3, 0]), np.array([1, 3, 0, 1, 1])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(MADE.log_prob(x, y), np.log(LAW[x, y]))
    assert MADE.log_prob([], []).shape == (0,)


def test_a_posterior_by_hand() -> None:
    # y = 3 comes from x = 1 (1.0), 2 (0.4), 3 (0.1), 4 (0.4); weights 1, 0, 5, 10, 5.
    posterior = MADE.posterior([3, 0], np.array([1.0, 0.0, 5.0, 10.0, 5.0]))
    np.testing.assert_allclose(posterior[0], np.array([0, 0, 2, 1, 2]) / 5)
    np.testing.assert_allclose(posterior[1], np.array([0.5, 0, 0.5, 0, 1.0]) / 2)
    scaled = MADE.posterior([3, 0], 1e-300 * np.array([1.0, 0.0, 5.0, 10.0, 5.0]))
    np.testing.assert_allclose(scaled, posterior)


def test_the_likeliest_inputs_by_hand() -> None:
    # y = 3 comes from x = 1 (1.0), 2 (0.4), 3 (0.1), 4 (0.4); weights 0.8, 0, 5, 10, 5.
    prior = np.array([0.8, 0.0, 5.0, 10.0, 5.0])
    words, log_joint, log_evidence = MADE.likeliest_inputs([3, 0, 4], prior, 3)
    assert words.tolist() == [[2, 4, 3], [4, 2, 0], [-1, -1, -1]]  # 2 and 4 tie
    np.testing.assert_allclose(np.exp(log_joint), [[2, 2, 1], [1, 0.5, 0.4], [0, 0, 0]])
    np.testing.assert_allclose(np.exp(log_evidence), [5, 1.9, 0])
    # More than there are candidates: the rest is empty, and the evidence counts all in any case.
    words, log_joint, log_evidence = MADE.likeliest_inputs([3], prior, 7)
    assert words.tolist() == [[2, 4, 3, -1, -1, -1, -1]] and np.isneginf(log_joint[0, 3:]).all()
    assert MADE.likeliest_inputs([3], prior, 1)[2] == log_evidence
    assert MADE.likeliest_inputs([], prior, 2)[0].shape == (0, 2)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4), st.sampled_from([1, 8 << 20])
)
@more
def test_the_likeliest_inputs_of_any_table(seed: int, size: int, levels: int, memory: int) -> None:
    """Few levels: many ties, also where the last candidate is cut off."""
    rng = np.random.default_rng(seed)
    # Not normalised, and weights 0 and 1 only, so that ties are exact.
    law = 0.5 ** rng.integers(0, levels, (size, size)) * rng.integers(0, 2, (size, size))
    prior = rng.integers(0, 2, size).astype(np.float64)
    outputs = rng.integers(0, size, 5)
    count = int(rng.integers(1, size + 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "ROW_BYTES", memory)
        likeliest = Table(law).likeliest_inputs(outputs, prior, count)
    expected = likeliest_by_hand(Table(law), outputs, prior, count)
    np.testing.assert_array_equal(likeliest[0], expected[0])
    for each, by_hand in zip(likeliest[1:], expected[1:], strict=True):
        np.testing.assert_allclose(np.exp(each), np.exp(by_hand), rtol=1e-12)


class Torn(Table):
    """Columns of another table."""

    def __init__(self, law: Any, other: Any) -> None:
        super().__init__(law)
        self.other = Table(other)

    def log_columns(self, outputs: Any) -> FloatArray:
        return self.other.log_columns(outputs)


def test_a_channel_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    MADE.check()
    MADE.check([3, 0])
    short = LAW.copy()
    short[3, 1] -= 1e-3
    with pytest.raises(InvalidInput, match="channel: the row of input 3 sums to 0.999, expected 1"):
        Table(short).check()
    Table(short).check([0, 1, 2, 4])  # only what is asked for
    with pytest.raises(InvalidInput, match="channel: the row of input 0 sums to nan"):
        Table(LAW * np.nan).check()
    with pytest.raises(InvalidInput, match=r"channel: P\(0 \| 2\) is 0.1 in the row and 0.25 in"):
        Torn(LAW, LAW.T).check([2, 0])
    with pytest.raises(InvalidInput, match="inputs: got ids 5..5"):
        MADE.check([5])
    monkeypatch.setattr(channel, "ROW_BYTES", 1)
    MADE.check()
    with pytest.raises(InvalidInput, match="the row of input 3"):
        Table(short).check()


ids: Any = partial(check_ids, size=5, what="ids")
ONES = np.ones(5)

test_bad_input_is_named = refused(
    (lambda: ids([5]), "ids: got ids 5..5, expected 0..4"),
    (lambda: ids([-1, 2]), "ids: got ids -1..2"),
    (lambda: ids([[1]]), r"ids: got int64 of shape \(1, 1\), expected a 1-d integer array"),
    (lambda: ids(2), r"of shape \(\)"),
    (lambda: ids([1.0]), "ids: got float64"),
    (lambda: ids([True]), "ids: got bool"),
    (lambda: ids(["1"]), "expected a 1-d integer array"),
    (lambda: ids(None), "ids: got object"),
    (lambda: ids(np.array([2**63], dtype=np.uint64)), "got ids 9223372036854775808"),
    (lambda: MADE.log_prob([0, 1], [0]), r"outputs: got \(1,\), expected the inputs' shape \(2,"),
    (lambda: MADE.posterior([0], ONES[:4]), "prior: expected 5 finite weights >= 0, got shape"),
    (lambda: MADE.posterior([0], ONES[None]), "prior: expected 5"),
    (lambda: MADE.posterior([0], [1, 1, 1, 1, -1]), "prior: expected 5 finite weights >= 0"),
    (lambda: MADE.posterior([0], [1, 1, 1, 1, np.nan]), "prior: expected 5 finite weights"),
    (lambda: MADE.posterior([0], [1, 1, 1, 1, np.inf]), "prior: expected 5 finite weights"),
    (lambda: MADE.posterior([0, 4], ONES), "outputs: 4 has probability 0 under this prior"),
    (lambda: MADE.posterior([0, 2], [0, 1, 0, 1, 0]), "outputs: 0 has probability 0"),
    (lambda: MADE.posterior([0], 0 * ONES), "outputs: 0 has probability 0"),
    (lambda: MADE.likeliest_inputs([5], ONES, 1), "outputs: got ids 5..5, expected 0..4"),
    (lambda: MADE.likeliest_inputs([-1], ONES, 1), "outputs: got ids -1..-1"),
    (lambda: MADE.likeliest_inputs([0], ONES[:4], 1), "prior: expected 5 finite weights >= 0"),
    (lambda: MADE.likeliest_inputs([0], [1, 1, 1, 1, -1], 1), "prior: expected 5"),
    (lambda: MADE.likeliest_inputs([0], ONES, 0), "count: got 0, expected an integer >= 1"),
)
