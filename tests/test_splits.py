"""Overlaps against a search by force, divisions against what they promise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers import refused
from hypothesis import given
from hypothesis import strategies as st

from textpriv.data.corpora import Documents
from textpriv.data.splits import (
    parent_sentences,
    private_and_shadow,
    sentences,
    shares_ngram,
    words,
)
from textpriv.errors import InvalidInput

SENTENCE = "one two three four five six seven eight nine ten"

# Texts over three words, so that runs recur, of 0 to 9 words.
TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=9).map(" ".join), min_size=1, max_size=8)


def runs(text: str, length: int) -> set[tuple[str, ...]]:
    parts = text.split()
    return {tuple(parts[i : i + length]) for i in range(len(parts) - length + 1)}


def by_force(text: str, others: list[str], n: int, shortest: int) -> bool:
    for other in others:
        length = min(n, len(text.split()), len(other.split()))
        if length >= min(n, shortest) and runs(text, length) & runs(other, length):
            return True
    return False


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("It didn't work.", "it did n't work"),
        ("A half-baked idea", "a half baked idea"),
        ("the film's naive cafe", "The film 's naïve Café"),
        ("(They'll) go!", "they 'll go"),
    ],
)
def test_copies_in_another_tokenisation_are_equal(text: str, other: str) -> None:
    assert words(text) == words(other)


def test_words_divide() -> None:
    assert words("He said: 'stop', 3 times...") == ["he", "said", "stop", "3", "times"]
    assert words(" -- ") == []


@given(TEXTS, TEXTS, st.integers(1, 5), st.integers(1, 5))
def test_overlap_equals_a_search_by_force(
    texts: list[str], others: list[str], n: int, shortest: int
) -> None:
    expected = [by_force(text, others, n, shortest) for text in texts]
    assert shares_ngram(texts, others, n, shortest).tolist() == expected


def test_overlap_is_found_where_one_word_decides() -> None:
    eight, seven = (
        "0 one two three four five six seven eight 1",
        "0 one two three four five six seven",
    )
    assert shares_ngram([SENTENCE, SENTENCE.upper()], [eight]).all()
    assert not shares_ngram([SENTENCE], [seven]).any()
    assert shares_ngram([SENTENCE], [seven], n=7).all()


def test_short_texts_are_shared_as_a_whole_or_not() -> None:
    """Five words or more, unless told otherwise; a longer text with the same run in its midst is
    not shared."""
    third = "1 two three four five six 1"
    texts = ["two three four five six", "two three four five", "two three four five 6", "", third]
    assert shares_ngram(texts, [SENTENCE]).tolist() == [True, False, False, False, False]


def test_overlap_of_nothing() -> None:
    assert shares_ngram([], [SENTENCE]).shape == (0,)
    assert not shares_ngram([SENTENCE], []).any()
    assert not shares_ngram(["", "..."], [""]).any()


def test_phrases_join_their_sentence() -> None:
    other = "a quite different sentence about something else"
    phrases = [
        "three four five six seven", other, SENTENCE, "six seven", "about something else",
        "alone", "one two three four five six", "alone", "", "Six, seven!",
    ]  # fmt: skip
    assert parent_sentences(phrases).tolist() == [0, 1, 0, 0, 1, 2, 0, 2, 3, 0]


@given(TEXTS, st.integers(2, 5))
def test_groups_are_the_finest_without_common_runs(texts: list[str], shared: int) -> None:
    groups = parent_sentences(texts, shared)
    grams = [runs(text, shared) for text in texts]
    long = [row for row, gram in enumerate(grams) if gram]
    # By force: merge until no two sets of documents have a run in common.
    merged = [({row}, grams[row]) for row in long]
    while True:
        pair = next(((a, b) for a in merged for b in merged if a is not b and a[1] & b[1]), None)
        if pair is None:
            break
        merged = [group for group in merged if group is not pair[0] and group is not pair[1]]
        merged.append((pair[0][0] | pair[1][0], pair[0][1] | pair[1][1]))
    expected = {frozenset(rows) for rows, _ in merged}
    grouped = {frozenset(r for r in long if groups[r] == groups[row]) for row in long}
    assert grouped == expected


@given(TEXTS)
def test_equal_and_contained_phrases_have_company(texts: list[str]) -> None:
    groups = parent_sentences(texts, 4)
    assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))
    for row, text in enumerate(texts):
        length = len(text.split())
        if not 0 < length < 4:
            continue
        longer = [
            other
            for other, each in enumerate(texts)
            if len(each.split()) > length and runs(text, length) & runs(each, length)
        ]
        same = [other for other, each in enumerate(texts) if each == text]
        assert groups[row] == groups[(longer or same)[0]]


def documents(count: int) -> Documents:
    return Documents("numbers", [str(row) for row in range(count)], {"row": np.arange(count)})


def rows(*sides: Documents) -> list[int]:
    return [int(row) for side in sides for row in side.columns["row"]]


def test_the_choice_is_uniform_disjoint_and_follows_the_stream() -> None:
    first, again = (
        private_and_shadow(documents(50), 20, 20, np.random.default_rng(7)) for _ in range(2)
    )
    assert rows(*first) == rows(*again)
    rng = np.random.default_rng(2)
    picked, ten = np.zeros((2, 10)), documents(10)
    for _ in range(500):
        sides = private_and_shadow(ten, 3, 2, rng)
        assert len(set(rows(*sides))) == 5
        for side, chosen in enumerate(sides):
            picked[side, [int(text) for text in chosen.texts]] += 1
    # Each row is private 150 times (sd 10.2) and shadow 100 times (sd 8.9); six sd.
    assert abs(picked - [[150], [100]]).max() < 61


@given(
    st.lists(st.integers(-3, 12), min_size=20, max_size=40), st.integers(1, 4), st.integers(1, 4)
)
def test_no_group_is_on_both_sides(groups: list[int], private: int, shadow: int) -> None:
    try:
        sides = private_and_shadow(
            documents(len(groups)), private, shadow, np.random.default_rng(0), groups
        )
    except InvalidInput:  # only where a group is too large for what may be left over
        assert max(map(groups.count, groups)) > len(groups) - private - shadow + 1
        return
    assert [len(side) for side in sides] == [private, shadow]
    first, second = ({groups[row] for row in rows(side)} for side in sides)
    assert not first & second
    assert len(set(rows(*sides))) == private + shadow


def test_each_side_draws_from_many_groups() -> None:
    groups = np.repeat(np.arange(100), 10)
    private, shadow = private_and_shadow(documents(1000), 200, 20, np.random.default_rng(3), groups)
    # 91 of the groups are private: 200 draws miss about 10 of them, 20 draws hit about 8 of 9.
    assert len(set(groups[rows(private)])) > 65
    assert len(set(groups[rows(shadow)])) >= 5


def test_phrases_of_one_sentence_never_end_on_both_sides() -> None:
    rng = np.random.default_rng(4)
    parents = [" ".join(rng.choice(300, size=20).astype(str)) for _ in range(40)]
    cuts = [(row, *sorted(rng.choice(21, size=2, replace=False))) for row in range(40)] * 3
    texts = parents + [" ".join(parents[row].split()[a:b]) for row, a, b in cuts]
    phrases = Documents("phrases", texts)
    sides = private_and_shadow(phrases, 60, 40, rng, parent_sentences(texts))
    for side, other in (sides, sides[::-1]):
        assert not shares_ngram(side.texts, other.texts, n=5, shortest=5).any()
    apart = private_and_shadow(phrases, 60, 40, rng)  # without groups they do
    assert shares_ngram(apart[0].texts, apart[1].texts, n=5, shortest=5).any()


@pytest.mark.parametrize(
    "parts",
    [
        ["It ends.", "Then it begins!", "Does it?", "Yes..."],
        ['He said "Stop."', '"Why?"', "(Nobody knows.)", "3 years later."],
        ["Mr. Smith met J. R. Jones vs. Dr. No."],
        ["He likes 2.5 stars, e.g. Ms. Kidman in the U.S. Senate."],
        ["no capitals. so one sentence"],
        ["It was late…", "So it ends."],
    ],
)
def test_sentence_ends(parts: list[str]) -> None:
    divided = sentences(Documents("one", [" ".join(parts)]))
    assert list(divided.texts) == parts


def test_a_missing_space_divides() -> None:
    divided = sentences(Documents("one", ["It ends.Then it begins. See Imdb.com"]))
    assert list(divided.texts) == ["It ends.", "Then it begins.", "See Imdb.com"]


def test_sentences_keep_their_document_and_its_columns() -> None:
    texts = ["One two three. Four five.", "...", "Six seven eight nine. Ten!"]
    several = Documents("several", texts, {"label": np.array([1, 0, 2])})
    divided = sentences(several, fewest=2, most=3)
    assert divided.texts == ("One two three.", "Four five.")
    divided = sentences(several, fewest=3)
    assert divided.texts == ("One two three.", "Six seven eight nine.")
    assert divided.columns["document"].tolist() == [0, 2]
    assert divided.columns["label"].tolist() == [1, 2]


@given(st.lists(st.text(alphabet="aB .!?\"'\n", max_size=30), min_size=1, max_size=4))
def test_sentences_lose_nothing_but_space(texts: list[str]) -> None:
    if not any(words(text) for text in texts):
        return
    divided = sentences(Documents("any", texts))
    assert all(a <= b for a, b in pairwise(divided.columns["document"].tolist()))
    for row, text in enumerate(texts):
        pieces = [
            piece
            for piece, document in zip(divided.texts, divided.columns["document"], strict=True)
            if document == row
        ]
        assert sum((words(piece) for piece in pieces), []) == words(text)


SHORT = Documents("one", ["Too short."])


def chosen(private: int, shadow: int, groups: Any = None) -> Any:
    return private_and_shadow(documents(10), private, shadow, np.random.default_rng(0), groups)


test_bad_input_is_named = refused(
    (lambda: parent_sentences([SENTENCE], shared=1), "shared: got 1, expected an integer >= 2"),
    (lambda: shares_ngram(SENTENCE, [SENTENCE]), r"use \[text\]"),
    (lambda: chosen(8, 3), "at least 11 documents"),
    (lambda: chosen(-1, 3), "-1 private"),
    (lambda: chosen(5, 2, [1] * 9 + [2]), "largest has 9"),
    (lambda: chosen(5, 2, [1] * 9), "10 integers"),
    (lambda: chosen(5, 2, [0.5] * 10), "10 integers"),
    (lambda: sentences(SHORT, fewest=20, most=30), "20 to 30 words, got none"),
)
