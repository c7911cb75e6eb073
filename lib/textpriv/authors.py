"""Documents of a few authors, each with a sentiment, and their division for an attack.

    reviews = load("rented-clothes")
    documents = by_authors(reviews, by_rating(reviews.columns["rating"]))
    documents.columns["author"], documents.columns["sentiment"]      # 0 .. 9, and 0 or 1
    parts = split(documents, rng)
    parts.train, parts.validation, parts.test                        # rows of `documents`
    class_counts(documents, parts)                                   # a table to look at

Who wrote a document is what an attacker wants to know, and whether it praises is what the
sanitized text shall still tell (Utpala et al. 2023, section 4.1). Every author must have written
both kinds, or the one would give the other away. So authors are chosen by their rarer kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from textpriv.checks import check_count
from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.splits import shares_ngram, words

IntArray = NDArray[np.int64]

NEITHER = -1  # a document that is neither positive nor negative
FEWEST = 3  # documents of one author and sentiment: one each to train, validate and test


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of documents that train an attacker, choose its settings, and are asked about.

    Parameters
    ----------
    train, validation, test : row numbers, ascending, none in two of them
    quoting : rows of `test` that have a run of words in common with a document of the same author
        in the other parts. Stock phrases of an author are style, but copied passages make an
        attack look better than it is.
    """

    train: IntArray
    validation: IntArray
    test: IntArray
    quoting: IntArray


def by_rating(ratings: ArrayLike, *, positive: float = 10, negative: float = 8) -> IntArray:
    """Sentiment from ratings: 1 from `positive` on, 0 up to `negative`, NEITHER between and NaN.

    The defaults suit the clothes reviews, rated 2, 4, .. 10: heavy users rate 8 or 10, so that
    anything less than the full rating counts as reserve.

    Parameters
    ----------
    ratings : (documents,) numbers or NaN
    positive, negative : negative < positive

    Returns
    -------
    (documents,) int64
    """
    if not negative < positive:
        raise InvalidInput(f"negative: got {negative}, expected a number below {positive}")
    values = np.asarray(ratings, dtype=np.float64)
    return np.select([values >= positive, values <= negative], [1, 0], NEITHER).astype(np.int64)


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
    documents : with a column that names authors
    sentiment : (documents,) 0, 1 or NEITHER; see `by_rating`
    author : the column, of numbers or str
    authors : >= 2, how many; among equals the first in the order of names
    fewest_words : >= 1, `splits.words` that a document must have

    Returns
    -------
    Documents in their old order, with the columns "author", numbered from 0 by the size of the
    rarer sentiment, and "sentiment" beside the old ones

    Raises
    ------
    InvalidInput : no such column, another number of sentiments or other values, one sentiment
        only, or fewer authors than asked for with at least 3 documents of either sentiment
    """
    check_count(authors, 2, what="authors")
    check_count(fewest_words, what="fewest_words")
    if author not in documents.columns:
        raise InvalidInput(
            f"author: got {author!r}, expected one of the columns {list(documents.columns)}"
        )
    truth = _checked_sentiment(sentiment, len(documents))
    rows = _long_and_different(documents, np.flatnonzero(truth != NEITHER), fewest_words)
    truth = truth[rows]
    names, who = np.unique(documents.columns[author][rows], return_inverse=True)
    counts = np.zeros((len(names), 2), dtype=np.int64)
    np.add.at(counts, (who, truth), 1)
    rarer = counts.min(1)
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
    found = documents.subset(rows[kept])
    columns = {**found.columns, "author": number[who[kept]], "sentiment": truth[kept]}
    return Documents(documents.name, found.texts, columns)


def sample(documents: Documents, count: int, rng: np.random.Generator) -> Documents:
    """A smaller corpus with the same shares of authors and sentiments, in the old order.

    Parameters
    ----------
    documents : with columns "author" and "sentiment"
    count : 1 .. len(documents)
    """
    check_count(count, 1, len(documents), what="count")
    rank, size = _rank_in_cell(documents, rng)
    # Every cell spreads its documents evenly over 0..1, so that the first ones are a fair share.
    return documents.subset(np.sort(np.argsort((rank + 0.5) / size, kind="stable")[:count]))


def split(
    documents: Documents,
    rng: np.random.Generator,
    *,
    test: float = 0.3,
    validation: float = 0.1,
    quoted: int = 8,
) -> Split:
    """Divide at random within every author and sentiment.

    Every author and sentiment has at least one document in each part, also where its share would
    round to none.

    Parameters
    ----------
    documents : with columns "author" and "sentiment", see `by_authors`; no text twice
    rng : source of randomness
    test : 0 < share < 1 of all documents
    validation : 0 < share < 1 of the others
    quoted : >= 1, words of a run that makes a test document a quoting one

    Returns
    -------
    Split

    Raises
    ------
    InvalidInput : a text that stands there twice, fewer than 3 documents of an author and a
        sentiment that occurs with that author, one author or one sentiment only

    References
    ----------
    Utpala et al. 2023: 30% test, 10% of the rest validation, there without stratification.
    """
    for what, share in (("test", test), ("validation", validation)):
        if not 0 < share < 1:
            raise InvalidInput(f"{what}: got {share!r}, expected 0 < {what} < 1")
    check_count(quoted, what="quoted")
    rank, size = _rank_in_cell(documents, rng)
    _check_cells(documents, size)
    tests = np.clip(np.round(test * size), 1, size - 2)
    validations = np.clip(np.round(validation * (size - tests)), 1, size - tests - 1)
    is_test, is_train = rank < tests, rank >= tests + validations
    rows = np.flatnonzero(is_test)
    return Split(
        train=np.flatnonzero(is_train),
        validation=np.flatnonzero(~is_test & ~is_train),
        test=rows,
        quoting=rows[_quotes(documents, rows, np.flatnonzero(~is_test), quoted)],
    )


def class_counts(documents: Documents, parts: Split) -> pd.DataFrame:
    """Documents of every author (rows) by part and sentiment (columns)."""
    part = np.full(len(documents), "", dtype=object)
    for name in ("train", "validation", "test"):
        part[getattr(parts, name)] = name
    author, sentiment = documents.columns["author"], documents.columns["sentiment"]
    names = pd.Categorical(part, categories=["train", "validation", "test"])
    counts = pd.crosstab(author, [names, sentiment], dropna=False)
    return counts.rename_axis(index="author", columns=["part", "sentiment"])


# --- Parts and checks ---------------------------------------------------------------------------


def _long_and_different(documents: Documents, rows: IntArray, fewest_words: int) -> IntArray:
    """Those of the rows that have enough words, the first of every text."""
    first: dict[str, int] = {}
    for row in rows.tolist():
        found = words(documents.texts[row])
        if len(found) >= fewest_words:
            first.setdefault(" ".join(found), row)
    return np.array(list(first.values()), dtype=np.int64)


def _rank_in_cell(documents: Documents, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Random place of every document among those of its author and sentiment; their number."""
    for name in ("author", "sentiment"):
        if name not in documents.columns:
            raise InvalidInput(
                f"documents: expected a column {name!r}, got {list(documents.columns)}; "
                "see by_authors"
            )
    author, sentiment = documents.columns["author"], documents.columns["sentiment"]
    cell = pd.DataFrame({"author": author, "sentiment": sentiment}).groupby(["author", "sentiment"])
    order = rng.permutation(len(documents))
    number = cell.ngroup().to_numpy()
    sizes = np.bincount(number)
    by_cell = order[np.argsort(number[order], kind="stable")]
    rank = np.empty(len(documents), dtype=np.int64)
    rank[by_cell] = np.arange(len(documents)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank, sizes[number]


def _check_cells(documents: Documents, size: IntArray) -> None:
    if len({" ".join(words(text)) for text in documents.texts}) < len(documents):
        raise InvalidInput(
            f"{documents.name}: expected every text once, got copies; see by_authors"
        )
    for name in ("author", "sentiment"):
        found = np.unique(documents.columns[name])
        if len(found) < 2:
            raise InvalidInput(
                f"{documents.name}: got {found.tolist()} in column {name!r}, expected at least two"
            )
    if size.min() < FEWEST:
        row = int(size.argmin())
        raise InvalidInput(
            f"{documents.name}: got {size[row]} documents of author "
            f"{documents.columns['author'][row]} with sentiment "
            f"{documents.columns['sentiment'][row]}, expected at least {FEWEST}; leave it out"
        )


def _quotes(documents: Documents, rows: IntArray, others: IntArray, n: int) -> NDArray[np.bool_]:
    """Whether each of the rows shares n words in a row with another of the same author."""
    author = documents.columns["author"]
    result = np.zeros(len(rows), dtype=bool)
    for who in np.unique(author):
        mine = np.flatnonzero(author[rows] == who)
        theirs = others[author[others] == who]
        result[mine] = shares_ngram(
            [documents.texts[row] for row in rows[mine]],
            [documents.texts[row] for row in theirs],
            n,
        )
    return result


def _checked_sentiment(sentiment: ArrayLike, documents: int) -> IntArray:
    array = np.asarray(sentiment)
    if array.shape != (documents,) or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(
            f"sentiment: got {array.dtype} of shape {array.shape}, expected {documents} integers"
        )
    found = set(np.unique(array).tolist())
    if not {0, 1} <= found <= {NEITHER, 0, 1}:
        raise InvalidInput(
            f"sentiment: got the values {sorted(found)}, expected 0 and 1, and {NEITHER} for "
            "documents to leave out"
        )
    return array.astype(np.int64)
