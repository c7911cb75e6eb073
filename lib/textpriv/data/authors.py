"""Documents of a few authors, each with a sentiment, and their division for an attack.

    reviews = load("rented-clothes")
    chosen = by_authors(reviews, by_rating(reviews.columns["rating"]))
    chosen.columns["author"], chosen.columns["sentiment"]            # 0 .. 9, and 0 or 1
    documents = as_many_of_each(chosen, 30, rng)
    part = parts(documents, 3, rng)                                  # each is asked about in turn
    quoting(documents, part)                                         # copied passages across parts

Who wrote a document is what an attacker wants to know, and whether it praises is what the
sanitized text shall still tell (Utpala et al. 2023, section 4.1). Every author must have written
both kinds, or the one would give the other away. So authors are chosen by their rarer kind.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from textpriv.checks import IntArray, check_count, check_integers
from textpriv.data.corpora import Documents
from textpriv.data.splits import shares_ngram, words
from textpriv.errors import InvalidInput

NEITHER = -1  # a document that is neither positive nor negative
POSITIVE, NEGATIVE = 10, 8  # ratings
FEWEST = 3  # documents of one author and sentiment: one each to train, validate and test


def by_rating(ratings: ArrayLike) -> IntArray:
    """Sentiment from ratings: 1 from POSITIVE on, 0 up to NEGATIVE, NEITHER between and NaN.

    These suit the clothes reviews, rated 2, 4, .. 10: heavy users rate 8 or 10, so that anything
    less than the full rating counts as reserve.
    """
    values = np.asarray(ratings, dtype=np.float64)
    return np.select([values >= POSITIVE, values <= NEGATIVE], [1, 0], NEITHER).astype(np.int64)


def by_authors(
    documents: Documents,
    sentiment: ArrayLike,
    *,
    author: str = "user_id",
    authors: int = 10,
    fewest_words: int = 15,
) -> Documents:
    """All long enough documents of the authors with the most documents of their rarer sentiment.

    Of documents with the same words (see `splits.words`) the first stays, whoever wrote them: a
    copy would stand in training and test at once.

    Parameters
    ----------
    sentiment : (documents,) 0, 1 or NEITHER; see `by_rating`
    author : the column that names authors
    authors : >= 2, how many; among equals the first in the order of names
    fewest_words : >= 1, `splits.words` that a document must have

    Returns
    -------
    Documents in their old order, with the columns "author", numbered from 0 by the size of the
    rarer sentiment, and "sentiment"; InvalidInput where fewer authors than asked for have at least
    3 documents of either sentiment
    """
    truth = check_integers(sentiment, len(documents), what="sentiment")
    rows = _long_and_different(documents, np.flatnonzero(truth != NEITHER), fewest_words)
    truth = truth[rows]
    names, who = np.unique(documents.columns[author][rows], return_inverse=True)
    counts = [np.bincount(who[truth == each], minlength=len(names)) for each in (0, 1)]
    rarer = np.min(counts, axis=0)
    able = int((rarer >= FEWEST).sum())
    if able < authors:
        raise InvalidInput(
            f"authors: got {authors}, but {documents.name} has {able} authors with at least "
            f"{FEWEST} documents of either sentiment ({len(rows)} documents of {len(names)} "
            f"authors in all, {int(truth.sum())} of them positive); ask for fewer"
        )
    chosen = np.argsort(-rarer, kind="stable")[:authors]
    number = np.full(len(names), NEITHER, dtype=np.int64)
    number[chosen] = np.arange(authors)
    kept = number[who] != NEITHER
    subset = documents.subset(rows[kept])
    columns = {**subset.columns, "author": number[who[kept]], "sentiment": truth[kept]}
    return Documents(documents.name, subset.texts, columns)


def as_many_of_each(documents: Documents, count: int, rng: np.random.Generator) -> Documents:
    """At most `count` (>= 1) random documents of every "author", in the old order."""
    check_count(count, what="count")
    order = rng.permutation(len(documents))
    author = pd.Series(documents.columns["author"][order])
    return documents.subset(np.sort(order[author.groupby(author).cumcount() < count]))


def parts(documents: Documents, count: int, rng: np.random.Generator) -> IntArray:
    """Random parts (>= 2) of equal size in which authors and sentiments are mixed alike.

    Sizes differ by at most one, and so do the numbers of documents of an "author" and "sentiment".
    """
    check_count(count, 2, what="count")
    author = np.asarray(documents.columns["author"])
    sentiment = np.asarray(documents.columns["sentiment"])
    order = np.lexsort((rng.random(len(documents)), sentiment, author))
    part = np.empty(len(documents), dtype=np.int64)
    part[order] = np.arange(len(documents)) % count
    return part


def quoting(documents: Documents, part: IntArray) -> NDArray[np.bool_]:
    """Whether each document shares a run of 8 words with one of the same author in another part.

    Stock phrases of an author are style, but copied passages make an attack look better than it is.
    See `parts` and `splits.shares_ngram`.
    """
    author, result = documents.columns["author"], np.zeros(len(documents), dtype=bool)
    for who in np.unique(author):
        for number in np.unique(part[author == who]):
            mine = np.flatnonzero((author == who) & (part == number))
            others = np.flatnonzero((author == who) & (part != number))
            result[mine] = shares_ngram(
                [documents.texts[row] for row in mine], [documents.texts[row] for row in others]
            )
    return result


def _long_and_different(documents: Documents, rows: IntArray, fewest_words: int) -> IntArray:
    """Those of the rows that have enough words, the first of every text."""
    first: dict[str, int] = {}
    for row in rows.tolist():
        tokens = words(documents.texts[row])
        if len(tokens) >= fewest_words:
            first.setdefault(" ".join(tokens), row)
    return np.array(list(first.values()), dtype=np.int64)
