"""Authors chosen and documents divided, against hand cases and what a division promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv.data.authors import NEITHER, as_many_of_each, by_authors, by_rating, parts, quoting
from textpriv.data.corpora import Documents
from textpriv.errors import InvalidInput

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def text(number: int, words: int = 4) -> str:
    """A text of its own, all of whose words are its own."""
    name = "".join(LETTERS[int(digit)] for digit in str(number))
    return " ".join(f"{name}{LETTERS[word]}" for word in range(words))


def written(counts: dict[Any, tuple[int, int]]) -> tuple[Documents, Any]:
    """Documents by author: so many with sentiment 0, so many with 1, all authors mixed."""
    pairs = [
        (who, kind) for who, both in counts.items() for kind in (0, 1) for _ in range(both[kind])
    ]
    order = np.random.default_rng(0).permutation(len(pairs))
    columns = {"user_id": [pairs[row][0] for row in order]}
    texts = tuple(text(number) for number in range(len(pairs)))
    return Documents("made up", texts, columns), np.array([pairs[row][1] for row in order])


def ready(counts: dict[Any, tuple[int, int]]) -> Documents:
    documents, sentiment = written(counts)
    return Documents(
        "ready", documents.texts, {"author": documents.columns["user_id"], "sentiment": sentiment}
    )


def test_sentiment_by_rating() -> None:
    assert by_rating([2.0, 8.0, 9.0, 10.0, np.nan]).tolist() == [0, 0, NEITHER, 1, NEITHER]


def test_authors_are_chosen_by_their_rarer_sentiment() -> None:
    """9 writes most, but one kind; 7 and 4 are equal, so the smaller name comes first."""
    documents, sentiment = written({9: (50, 2), 7: (4, 5), 4: (9, 4), 5: (6, 8), 1: (3, 3)})
    chosen = by_authors(documents, sentiment, authors=3, fewest_words=1)
    numbers = {5: 0, 4: 1, 7: 2}
    expected = [numbers[user] for user in chosen.columns["user_id"].tolist()]
    assert chosen.columns["author"].tolist() == expected
    assert np.bincount(chosen.columns["author"]).tolist() == [14, 13, 9]
    kept = np.isin(documents.columns["user_id"], [4, 5, 7])
    assert chosen.texts == tuple(np.array(documents.texts, dtype=object)[kept])
    assert (chosen.columns["sentiment"] == sentiment[kept]).all()


def test_authors_may_be_named() -> None:
    documents, sentiment = written({"ann": (3, 4), "bob": (4, 4), "cy": (9, 2)})
    chosen = by_authors(documents, sentiment, authors=2, fewest_words=1)
    assert {(name, number) for name, number in zip(
        chosen.columns["user_id"], chosen.columns["author"].tolist(), strict=True
    )} == {("bob", 0), ("ann", 1)}  # fmt: skip


def test_short_copied_and_undecided_documents_are_left_out() -> None:
    """A copy counts by its words; what is left out earlier does not stand for its copies."""
    texts = [text(number, 5) for number in range(12)]
    texts += [
        "Too short for this",
        texts[0].upper() + "!",  # words of document 0, by another author
        "an undecided one of words",
        "An undecided one, of words.",
    ]
    users = [1, 2] * 6 + [1, 2, 1, 2]
    sentiment = [0, 0, 1, 1] * 3 + [1, 1, NEITHER, 0]
    documents = Documents("made up", tuple(texts), {"user_id": users})
    chosen = by_authors(documents, sentiment, authors=2, fewest_words=5)
    assert chosen.texts == (*texts[:12], texts[15])


def choose(*sentiment: int) -> Documents:
    documents = Documents("made up", (text(1), text(2)), {"user_id": [1, 2]})
    return by_authors(documents, sentiment, authors=2, fewest_words=1)


test_what_choosing_refuses = refused(
    (lambda: choose(1), r"sentiment: got int64 of shape \(1,\), expected 2 integers"),
    (lambda: choose(0, 1), r"got 2, but made up has 0 authors .*\(2 documents of 2 authors"),
)


def test_an_author_with_too_few_documents() -> None:
    documents, sentiment = written({1: (5, 5), 2: (5, 2), 3: (3, 3)})
    assert len(by_authors(documents, sentiment, authors=2, fewest_words=1)) == 16
    with pytest.raises(InvalidInput, match="authors: got 3, but made up has 2 authors"):
        by_authors(documents, sentiment, authors=3, fewest_words=1)


def test_as_many_of_each() -> None:
    documents = ready({0: (60, 20), 1: (2, 3)})
    drawn = as_many_of_each(documents, 10, np.random.default_rng(0))
    assert np.bincount(drawn.columns["author"]).tolist() == [10, 5]
    places = [documents.texts.index(each) for each in drawn.texts]
    assert places == sorted(places) and len(set(places)) == 15
    assert as_many_of_each(documents, 10, np.random.default_rng(1)).texts != drawn.texts
    assert as_many_of_each(documents, 80, np.random.default_rng(0)).texts == documents.texts
    with pytest.raises(InvalidInput, match="count: got 0"):
        as_many_of_each(documents, 0, np.random.default_rng(0))


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=2, max_size=6),
    st.integers(2, 5),
    st.integers(0, 99),
)
def test_parts_are_balanced_in_every_cell(
    cells: list[tuple[int, int]], count: int, seed: int
) -> None:
    documents = ready(dict(enumerate(cells)))
    part = parts(documents, count, np.random.default_rng(seed))
    assert np.ptp(np.bincount(part, minlength=count)) <= 1
    for who in range(len(cells)):
        for kind in (0, 1):
            rows = (documents.columns["author"] == who) & (documents.columns["sentiment"] == kind)
            assert np.ptp(np.bincount(part[rows], minlength=count)) <= 1


def test_parts_are_random() -> None:
    """A document is in every part with probability 1/3, over 600 divisions (false alarm 1e-6)."""
    documents = ready({0: (3, 6), 1: (6, 3)})  # sizes that three parts divide
    rng = np.random.default_rng(3)
    drawn = np.stack([parts(documents, 3, rng) for _ in range(600)])
    reach = np.sqrt(np.log(2 * 3 * len(documents) / 1e-6) / (2 * 600))
    for number in range(3):
        assert np.abs((drawn == number).mean(0) - 1 / 3).max() < reach
    with pytest.raises(InvalidInput, match="count: got 1, expected an integer >= 2"):
        parts(documents, 1, rng)


def test_quoting_is_counted_within_an_author_and_across_parts() -> None:
    """Three of author 0 share a passage of 8 words; one of author 1 has it too, alone there."""
    passage = "one two three four five six seven eight"
    texts = [text(number) for number in range(24)]
    for row in (0, 1, 2, 12):
        texts[row] += f" {passage}"
    columns = {"author": np.repeat([0, 1], 12), "sentiment": np.tile([0, 1], 12)}
    documents = Documents("quoting", tuple(texts), columns)
    together = np.arange(24) // 3 % 2  # 0, 1 and 2 are in one part
    assert not quoting(documents, together).any()
    apart = np.arange(24) % 2  # 1 is in the other part
    assert np.flatnonzero(quoting(documents, apart)).tolist() == [0, 1, 2]
