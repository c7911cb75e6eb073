"""What attacks share: what is seen of a sanitized text, and what counts as a right guess."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from helpers import normal_embedding, refused
from test_channel import Table

from textpriv.attacks.base import (
    NONE,
    Attack,
    Guesses,
    Observed,
    check_targets,
    is_sensitive,
    observe,
)
from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.mechanisms import CusTextPlus, SanText

SMALL = normal_embedding(8, 3)


def corpus(ids: list[int], *lengths: int) -> Corpus:
    array = np.array(ids, dtype=np.int64)
    kept = {int(place): "!" for place in np.flatnonzero(array == KEPT)}
    return Corpus(array, np.cumsum([0, *(lengths or [len(ids)])]), kept)


def test_tokens_that_the_mechanism_replaces_are_the_targets() -> None:
    mechanism = CusTextPlus(SMALL, epsilon=1.0, stopwords=["w1", "w4"], set_size=4)
    private = corpus([0, 1, KEPT, 4, 7, 7], 3, 0, 3)
    seen = observe(mechanism, private, np.random.default_rng(0))
    assert seen.sanitized.tolist() == [True, False, False, False, True, True]
    assert seen.targets.tolist() == [0, 4, 5]
    np.testing.assert_array_equal(seen.corpus.ids[[1, 2, 3]], [1, KEPT, 4])  # in clear
    np.testing.assert_array_equal(seen.corpus.offsets, private.offsets)
    again = observe(mechanism, private, np.random.default_rng(0))
    np.testing.assert_array_equal(again.corpus.ids, seen.corpus.ids)


def test_one_draw_for_a_word_that_is_repeated_in_a_document() -> None:
    mechanism = SanText(normal_embedding(50, 3), epsilon=0.01)
    private = corpus([3] * 40, 20, 20)
    once = observe(mechanism, private, np.random.default_rng(0), reuse=True).corpus
    assert len(set(once[0].tolist())) == len(set(once[1].tolist())) == 1
    each = observe(mechanism, private, np.random.default_rng(0)).corpus
    assert len(set(each[0].tolist())) > 5


def test_words_that_are_unknown_or_kept_are_not_sensitive() -> None:
    channel = Table(np.eye(8))
    sensitive = is_sensitive(channel, corpus([0, UNKNOWN, KEPT, 7]))
    assert sensitive.tolist() == [True, False, False, True]
    channel.inputs = np.array([7])
    assert is_sensitive(channel, corpus([0, UNKNOWN, KEPT, 7])).tolist() == [0, 0, 0, 1]


SEEN = Observed(corpus([0, 1, 2, 3]), np.array([True, False, True, True]))


def test_targets_are_sanitized_tokens() -> None:
    assert check_targets(SEEN, None).tolist() == [0, 2, 3]
    assert check_targets(SEEN, np.array([3, 0, 3])).tolist() == [3, 0, 3]
    assert check_targets(SEEN, np.array([], dtype=int)).tolist() == []


def test_hits_by_hand() -> None:
    words = np.array([[1, 2, 3], [2, 1, NONE], [0, NONE, NONE], [NONE, NONE, NONE]])
    made = Guesses(words, np.zeros(words.shape))
    truth = np.array([1, 1, 5, UNKNOWN])
    assert made.hits(truth).tolist() == [True, False, False, False]
    assert made.hits(truth, top=2).tolist() == [True, True, False, False]
    # An unknown word has the same number as a missing guess, which is no success.
    assert made.hits(np.full(4, UNKNOWN), top=3).tolist() == [False] * 4


def test_the_released_test_is_for_substrings() -> None:
    words = ("other", "another", "the", "cat", "ther")
    guesses = np.array([[1], [0], [3], [NONE], [1], [1]])
    made = Guesses(guesses, np.zeros(guesses.shape))
    truth = np.array([0, 1, 2, 3, 4, 1])
    hits = made.substring_hits(truth, words)
    #  other in another; another not in other; the not in cat; nothing; ther in another; same
    assert hits.tolist() == [True, False, False, False, True, True]
    assert (hits >= made.hits(truth)).all()
    # Of an unknown word, -1, the last of the words is no part of the guess.
    assert not made.substring_hits(np.full(6, UNKNOWN), words).any()
    none = Guesses(np.empty((0, 1), dtype=np.int64), np.empty((0, 1)))
    assert none.substring_hits(np.array([], dtype=np.int64), words).shape == (0,)


PART, WHOLE, PRIVATE = Table(np.eye(8)), Table(np.eye(8)), corpus([0, KEPT, 1])
PART.inputs = np.array([2, 3])
GUESSES, TRUTH = Guesses(np.ones((4, 3), dtype=int), np.zeros((4, 3))), np.ones(4, dtype=int)
observed: Any = partial(Observed, PRIVATE)
targets: Any = partial(check_targets, SEEN)

test_bad_input_is_named = refused(
    (lambda: is_sensitive(PART, corpus([])), "corpus: none of its 0 tokens is replaced"),
    (lambda: is_sensitive(PART, corpus([UNKNOWN, KEPT])), "but for 1 unknown words, of which no"),
    (lambda: is_sensitive(PART, corpus([0, 1, 0])), "corpus: none of its 3 tokens is replaced"),
    (lambda: is_sensitive(WHOLE, corpus([0, 8])), "corpus: got id 8, expected 0..7"),
    (lambda: observed(np.array([True])), r"got bool \(1,\), expected a bool for each of the 3"),
    (lambda: observed(np.array([1, 0, 0])), r"sanitized: got int64 \(3,\)"),
    (lambda: observed(np.array([True, True, False])), "corpus: a sanitized token is no word"),
    (lambda: Attack().guess(SEEN, np.array([1])), "targets: some position holds a token that was"),
    (lambda: targets([1]), "targets: some position holds a token that was not sanitized"),
    (lambda: targets([4]), "targets: got ids 4..4, expected 0..3"),
    (lambda: targets(np.array([True, False, True, True])), "targets: got bool"),
    (lambda: GUESSES.hits(TRUTH[:2]), r"truth: got \(2,\), expected \(4,\)"),
    (lambda: GUESSES.hits(TRUTH, top=0), "top: got 0, expected 1 to 3"),
    (lambda: GUESSES.hits(TRUTH, top=4), "top: got 4, expected 1 to 3"),
)
