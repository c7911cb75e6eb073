"""Authors chosen and documents divided, against hand cases and what a division promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv.authors import (
    NEITHER,
    Split,
    by_authors,
    by_rating,
    class_counts,
    sample,
    split,
)
from textpriv.corpora import Documents
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


# --- Choosing -----------------------------------------------------------------------------------


def test_sentiment_by_rating() -> None:
    assert by_rating([2.0, 8.0, 9.0, 10.0, np.nan]).tolist() == [0, 0, NEITHER, 1, NEITHER]
    assert by_rating([1, 3, 5], positive=4, negative=2).tolist() == [0, NEITHER, 1]
    with pytest.raises(InvalidInput, match="negative: got 8, expected a number below 8"):
        by_rating([1.0], positive=8)


def test_authors_are_chosen_by_their_rarer_sentiment() -> None:
    """9 writes most, but one kind; 7 and 4 are equal, so the smaller name comes first."""
    documents, sentiment = written({9: (50, 2), 7: (4, 5), 4: (9, 4), 5: (6, 8), 1: (3, 3)})
    found = by_authors(documents, sentiment, authors=3, fewest_words=1)
    numbers = {5: 0, 4: 1, 7: 2}
    expected = [numbers[user] for user in found.columns["user_id"].tolist()]
    assert found.columns["author"].tolist() == expected
    assert np.bincount(found.columns["author"]).tolist() == [14, 13, 9]
    kept = np.isin(documents.columns["user_id"], [4, 5, 7])
    assert found.texts == tuple(np.array(documents.texts, dtype=object)[kept])
    assert (found.columns["sentiment"] == sentiment[kept]).all()


def test_authors_may_be_named() -> None:
    documents, sentiment = written({"ann": (3, 4), "bob": (4, 4), "cy": (9, 2)})
    found = by_authors(documents, sentiment, authors=2, fewest_words=1)
    assert {(name, number) for name, number in zip(
        found.columns["user_id"], found.columns["author"].tolist(), strict=True
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
    found = by_authors(documents, sentiment, authors=2, fewest_words=5)
    assert found.texts == (*texts[:12], texts[15])


@pytest.mark.parametrize(
    ("options", "sentiment", "says"),
    [
        (
            {"author": "writer"},
            [0, 1],
            r"author: got 'writer', expected one of the columns \['user_id'\]",
        ),
        ({"authors": 1}, [0, 1], "authors: got 1, expected an integer >= 2"),
        ({"fewest_words": 0}, [0, 1], "fewest_words: got 0"),
        ({}, [0, 0], r"sentiment: got the values \[0\], expected 0 and 1"),
        ({}, [1, 2], r"sentiment: got the values \[1, 2\]"),
        ({}, [0.0, 1.0], "sentiment: got float64"),
        ({}, [1], r"sentiment: got int64 of shape \(1,\), expected 2 integers"),
        ({}, [0, 1], r"authors: got 2, but made up has 0 authors .*\(2 documents of 2 authors"),
    ],
)
def test_what_choosing_refuses(options: Any, sentiment: Any, says: str) -> None:
    documents = Documents("made up", (text(1), text(2)), {"user_id": [1, 2]})
    with pytest.raises(InvalidInput, match=says):
        by_authors(documents, sentiment, **{"authors": 2, "fewest_words": 1} | options)


def test_fewer_documents_than_authors() -> None:
    documents, sentiment = written({1: (1, 1), 2: (1, 0)})
    with pytest.raises(InvalidInput, match="has 0 authors with at least 3 documents"):
        by_authors(documents, sentiment, authors=10, fewest_words=1)


def test_an_author_with_too_few_documents() -> None:
    documents, sentiment = written({1: (5, 5), 2: (5, 2), 3: (3, 3)})
    assert len(by_authors(documents, sentiment, authors=2, fewest_words=1)) == 16
    with pytest.raises(InvalidInput, match="authors: got 3, but made up has 2 authors"):
        by_authors(documents, sentiment, authors=3, fewest_words=1)


# --- Dividing -----------------------------------------------------------------------------------


CELLS = st.lists(
    st.tuples(st.integers(3, 40), st.integers(3, 40)), min_size=2, max_size=6
).map(lambda both: dict(enumerate(both)))  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(CELLS, st.floats(0.05, 0.9), st.floats(0.05, 0.9), st.integers(0, 99))
def test_every_document_in_one_part_and_every_cell_in_all(
    counts: dict[int, tuple[int, int]], test: float, validation: float, seed: int
) -> None:
    documents = ready(counts)
    parts = split(documents, np.random.default_rng(seed), test=test, validation=validation)
    everything = np.concatenate([parts.train, parts.validation, parts.test])
    assert np.sort(everything).tolist() == list(range(len(documents)))
    for part in (parts.train, parts.validation, parts.test):
        assert (np.diff(part) > 0).all()
    table = class_counts(documents, parts)
    assert (table.to_numpy() >= 1).all()
    for who, both in counts.items():
        for kind in (0, 1):
            wanted = min(max(round(test * both[kind]), 1), both[kind] - 2)
            assert table.loc[who, ("test", kind)] == wanted
            rest = both[kind] - wanted
            second = min(max(round(validation * rest), 1), rest - 1)
            assert table.loc[who, ("validation", kind)] == second
            assert table.loc[who].xs(kind, level="sentiment").sum() == both[kind]


def test_the_shares_of_the_paper() -> None:
    """100 documents of each of 2 x 2 cells: 30 test, 7 of 70 validation."""
    table = class_counts(*divided({0: (100, 100), 1: (100, 100)}))
    assert table["test"].to_numpy().tolist() == [[30, 30], [30, 30]]
    assert table["validation"].to_numpy().tolist() == [[7, 7], [7, 7]]
    assert table["train"].to_numpy().tolist() == [[63, 63], [63, 63]]


def divided(counts: dict[int, tuple[int, int]], seed: int = 0) -> tuple[Documents, Split]:
    documents = ready(counts)
    return documents, split(documents, np.random.default_rng(seed))


def test_a_split_is_random_and_the_same_for_a_seed() -> None:
    one, same, other = (divided({0: (9, 9), 1: (9, 9)}, seed)[1].test for seed in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()


def test_every_document_is_as_often_tested() -> None:
    """150 splits; each document is in the test with probability 3/10 (false alarm 1e-6 in all).

    A split that takes the first documents of a cell is caught with certainty.
    """
    documents = ready({0: (10, 10), 1: (10, 10)})
    rng, hits = np.random.default_rng(3), np.zeros(40)
    for _ in range(150):
        hits[split(documents, rng).test] += 1
    reach = np.sqrt(np.log(2 * 40 / 1e-6) / (2 * 150))
    assert np.abs(hits / 150 - 0.3).max() < reach


def test_quoting_documents_are_counted_within_an_author() -> None:
    """Three of author 0 share a passage of 8 words; one of author 1 has it too, alone there."""
    passage = "one two three four five six seven eight"
    texts = [text(number) for number in range(24)]
    for row in (0, 1, 2, 12):
        texts[row] += f" {passage}"
    columns = {"author": np.repeat([0, 1], 12), "sentiment": np.tile([0, 1], 12)}
    documents = Documents("quoting", tuple(texts), columns)
    seen = set()
    for seed in range(20):
        parts = split(documents, np.random.default_rng(seed))
        tested = np.isin([0, 1, 2], parts.test)
        expected = [] if tested.all() else np.flatnonzero(tested).tolist()
        assert parts.quoting.tolist() == expected
        seen.add(len(expected))
        none = split(documents, np.random.default_rng(seed), quoted=9).quoting
        assert none.tolist() == []
    assert len(seen) > 1


def test_a_sample_keeps_the_shares() -> None:
    documents = ready({0: (60, 20), 1: (20, 100)})
    found = sample(documents, 50, np.random.default_rng(0))
    cells = found.columns["author"] * 2 + found.columns["sentiment"]
    assert np.bincount(cells).tolist() == [15, 5, 5, 25]
    places = [documents.texts.index(each) for each in found.texts]
    assert places == sorted(places) and len(set(places)) == 50
    other = sample(documents, 50, np.random.default_rng(1))
    assert other.texts != found.texts
    assert sample(documents, 200, np.random.default_rng(0)).digest == documents.digest
    with pytest.raises(InvalidInput, match="count: got 201, expected an integer from 1 to 200"):
        sample(documents, 201, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("counts", "options", "says"),
    [
        ({0: (3, 3), 1: (3, 3)}, {"test": 0.0}, "test: got 0.0, expected 0 < test < 1"),
        ({0: (3, 3), 1: (3, 3)}, {"validation": 1.0}, "validation: got 1.0"),
        ({0: (3, 3), 1: (3, 3)}, {"quoted": 0}, "quoted: got 0"),
        ({0: (5, 5)}, {}, r"ready: got \[0\] in column 'author', expected at least two"),
        ({0: (5, 0), 1: (5, 0)}, {}, r"ready: got \[0\] in column 'sentiment'"),
        ({0: (5, 5), 1: (1, 5)}, {}, "got 1 documents of author 1 with sentiment 0"),
    ],
)
def test_what_a_split_refuses(counts: Any, options: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        split(ready(counts), np.random.default_rng(0), **options)


def test_a_split_refuses_copies_and_other_documents() -> None:
    documents = ready({0: (3, 3), 1: (3, 3)})
    copied = Documents("copied", (*documents.texts[:-1], documents.texts[0]), documents.columns)
    with pytest.raises(InvalidInput, match="copied: expected every text once"):
        split(copied, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="expected a column 'author', got"):
        split(Documents("bare", ("a",)), np.random.default_rng(0))


def test_an_author_may_lack_one_sentiment() -> None:
    documents, parts = divided({0: (9, 9), 1: (9, 0)})
    table = class_counts(documents, parts)
    assert table.loc[1].xs(1, level="sentiment").tolist() == [0, 0, 0]
