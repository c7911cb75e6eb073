"""What keeps private, shadow and public text apart.

    private, shadow = private_and_shadow(corpus, 20_000, 1_000, rng, parent_sentences(corpus.texts))
    prior = reviews.subset(np.flatnonzero(~shares_ngram(reviews.texts, private.texts)))

An attack that has seen the private text is no attack. Two documents of a corpus may be cut
from one sentence, and a public corpus may quote the private one. Both show as runs of words
that two texts have in common, and both are found exactly: a run of words is numbered by the
pair of runs, one word shorter, that it consists of (Karp, Miller & Rosenberg 1972), so that
equal numbers mean equal runs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from textpriv.checks import check_count, check_integers
from textpriv.data.corpora import Documents
from textpriv.data.tokens import Corpus, IntArray
from textpriv.errors import InvalidInput

_WORD = re.compile(r"[^\W_]+")
# "did n't" as a treebank writes it: pulled together, so that it equals "didn't".
_CLITIC = re.compile(r"\s+(?=(?:n['’]t|['’](?:s|re|ve|ll|d|m))\b)")
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])"  # a stop, and a capital after the space
    r"|(?<=[a-z][.!?])(?=[A-Z][a-z])"  # the same where the writer forgot the space
)
_NO_END = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|jr|sr|prof|gen|col|capt|lt|sgt|rev|vs|e\.g|i\.e|[a-z])"
    r"|\.[a-z])\.$",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Words by which texts are compared: lower case, letters and digits, no accents.

    Punctuation is ignored and divides ("half-baked" is two words, "didn't" and the treebank's
    "did n't" are both "didn", "t"), so that differently tokenised copies are the same.
    """
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(each for each in decomposed if not unicodedata.combining(each))
    return _WORD.findall(_CLITIC.sub("", text.lower()))


def shares_ngram(
    texts: Iterable[str], others: Iterable[str], n: int = 8, shortest: int = 5
) -> NDArray[np.bool_]:
    """Whether each text has a run of n words in common with any of the others; exact.

    A text of fewer than n words, on either side, has no such run. If it has at least
    `shortest` words, it is shared when it stands as a whole inside a text of the other side.
    Still shorter ones ("a very good movie") recur by chance and are never shared.

    Parameters
    ----------
    n : >= 1, in `words`; Brown et al. (2020) call 8 to 13 an overlap with test data
    shortest : >= 1; from n on, texts of fewer than n words are never shared
    """
    corpus, border = _numbered(texts, others)
    document, size, room = corpus.document, np.diff(corpus.offsets), _room(corpus)
    last = corpus.offsets[border]  # tokens before it belong to `texts`
    shared = np.zeros(border, dtype=bool)
    places, numbers = np.arange(len(corpus.ids)), corpus.ids
    for length in range(1, n + 1):
        if length > 1:
            places, numbers = _one_longer(places, numbers, room, length)
        # A run on both sides consists of two that are: all others can be forgotten.
        on_side = np.zeros((2, int(numbers.max(initial=-1)) + 1), dtype=bool)
        on_side[(places >= last).astype(int), numbers] = True
        kept = (on_side[0] & on_side[1])[numbers]
        places, numbers = places[kept], numbers[kept]
        if length >= min(shortest, n):
            theirs = places >= last
            enough = (length == n) | (size[document[places]] == length)  # n words or the whole
            enough_there = np.zeros(on_side.shape[1], dtype=bool)
            enough_there[numbers[theirs & enough]] = True
            shared[document[places[~theirs & (enough | enough_there[numbers])]]] = True
    return shared


def private_and_shadow(
    documents: Documents,
    private: int,
    shadow: int,
    rng: np.random.Generator,
    groups: ArrayLike | None = None,
) -> tuple[Documents, Documents]:
    """Random private and shadow documents, none in both, in random order.

    Without groups every choice is equally probable. With groups these are divided at random,
    in the ratio of private to shadow documents, and each side draws from its own groups.

    Parameters
    ----------
    private, shadow : numbers of documents, >= 1; InvalidInput where there are too few
    groups : (documents,) int or None; documents of one group never end on both sides
    """
    if not 0 < private < private + shadow <= len(documents):
        raise InvalidInput(
            f"{documents.name}: expected at least {private + shadow} documents for {private} "
            f"private and {shadow} shadow ones, got {len(documents)}; ask for fewer"
        )
    if groups is None:
        order = rng.permutation(len(documents))
        return documents.subset(order[:private]), documents.subset(order[private:][:shadow])
    given = check_integers(groups, len(documents), what="groups")
    numbers = pd.factorize(given)[0].astype(np.int64)
    sides = _divide(numbers, private, shadow, rng)
    chosen = (
        rng.choice(np.flatnonzero(sides == side), size=count, replace=False)
        for side, count in ((True, private), (False, shadow))
    )
    first, second = (documents.subset(rows) for rows in chosen)
    return first, second


def parent_sentences(texts: Iterable[str], shared: int = 5) -> IntArray:
    """Group of every phrase, for corpora of phrases cut from common sentences (SST-2).

    Phrases that have a run of `shared` words in common are in one group, and so on through
    chains of phrases. Hence divided groups have no run of `shared` words on both sides. To
    apply this to all lengths would put everything into one group by way of phrases like "the
    film". A phrase of fewer than `shared` words joins the group of the first longer phrase
    that contains it, else that of the first phrase equal to it; it may occur in other groups
    as well. Groups are numbered from 0 in the order of appearance.

    Parameters
    ----------
    shared : >= 2; with the default no short text is shared in the sense of `shares_ngram` either
    """
    check_count(shared, 2, what="shared")
    corpus, count = _numbered(texts, ())
    document, room = corpus.document, _room(corpus)
    size = np.diff(corpus.offsets)
    parent = np.arange(count)
    places, numbers = np.arange(len(corpus.ids)), corpus.ids
    for length in range(1, shared):
        if length > 1:
            places, numbers = _one_longer(places, numbers, room, length)
        owner = document[places]
        whole = size[owner] == length
        # The longer ones are written last and so prevail; among equals, the first.
        first = np.empty(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
        for kind in (whole, ~whole):
            first[numbers[kind][::-1]] = owner[kind][::-1]
        parent[owner[whole]] = first[numbers[whole]]
    places, numbers = _one_longer(places, numbers, room, shared)
    group = _connected(document[places], numbers, count)
    for length in range(shared - 1, 0, -1):  # a parent is longer, so its group is known
        rows = np.flatnonzero(size == length)
        group[rows] = group[parent[rows]]
    return pd.factorize(group)[0].astype(np.int64)


def sentences(documents: Documents, fewest: int = 1, most: int | None = None) -> Documents:
    """The sentences of every document with its columns and a column "document", its row.

    A sentence ends at ".", "!", "?" or "…" (and closing quotes) before white space and a capital or
    a digit, but not after a title, an initial or a common abbreviation ("Mr.", "J.", "vs."),
    and at the end of the document. A missing space ("It ends.Then") is seen between a small
    letter and a capital.

    Parameters
    ----------
    fewest, most : numbers of `words` that a sentence must have to be kept (InvalidInput where none
        has); most None is no limit
    """
    limit = np.inf if most is None else most
    kept = [
        (row, sentence)
        for row, text in enumerate(documents.texts)
        for sentence in sentences_of(text)
        if fewest <= len(words(sentence)) <= limit
    ]
    if not kept:
        raise InvalidInput(
            f"{documents.name}: expected sentences of {fewest} to {limit} words, got none; "
            "widen the range"
        )
    rows = np.array([row for row, _ in kept])
    columns = {key: values[rows] for key, values in documents.columns.items()}
    texts = tuple(sentence for _, sentence in kept)
    return Documents(documents.name, texts, {**columns, "document": rows})


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a text, in order; none where there is nothing but white space."""
    begin = 0
    for end in _END.finditer(text):
        if not _NO_END.search(text, begin, end.start()):
            yield text[begin : end.end()].strip()
            begin = end.end()
    if text[begin:].strip():
        yield text[begin:].strip()


# --- Runs of words ------------------------------------------------------------------------


def _numbered(texts: Iterable[str], others: Iterable[str]) -> tuple[Corpus, int]:
    """Both, with equal ids for equal words, and where the others begin."""
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__
    ids: list[int] = []
    offsets = [0]
    border = 0
    for side, several in enumerate((texts, others)):
        if isinstance(several, str):
            raise InvalidInput("texts: got one string, expected several; use [text]")
        for text in several:
            ids.extend(map(vocabulary.__getitem__, words(text)))
            offsets.append(len(ids))
        if side == 0:
            border = len(offsets) - 1
    corpus = Corpus(ids=np.array(ids, dtype=np.int64), offsets=np.array(offsets, dtype=np.int64))
    return corpus, border


def _room(corpus: Corpus) -> IntArray:
    """Number of words from each position to the end of its document."""
    ends = np.repeat(corpus.offsets[1:], np.diff(corpus.offsets))
    return ends - np.arange(len(corpus.ids))


def _one_longer(
    places: IntArray, numbers: IntArray, room: IntArray, length: int
) -> tuple[IntArray, IntArray]:
    """Runs of `length` words from those one word shorter: where they begin, and their numbers.

    `places` increase; neighbours that are absent yield no longer run. `numbers` are equal exactly
    where runs are equal.
    """
    pairs = np.flatnonzero((np.diff(places) == 1) & (room[places[:-1]] >= length))
    # Numbers count distinct runs, so that the key of a pair stays below (2^31)^2.
    keys = numbers[pairs] * (int(numbers.max(initial=0)) + 1) + numbers[pairs + 1]
    return places[pairs], pd.factorize(keys)[0].astype(np.int64)


def _connected(document: IntArray, numbers: IntArray, count: int) -> IntArray:
    """Component of each of `count` documents when equal numbers join their documents."""
    size = count + int(numbers.max(initial=-1)) + 1
    joined = sparse.coo_array((np.ones(len(numbers)), (document, count + numbers)), (size, size))
    labels = connected_components(joined, directed=False)[1]
    return labels[:count].astype(np.int64)


# --- Choices ------------------------------------------------------------------------------


def _divide(
    groups: IntArray, private: int, shadow: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Whether each document is on the private side."""
    order = rng.permutation(int(groups.max()) + 1)
    filled = np.cumsum(np.bincount(groups)[order])  # documents in the first groups of the order
    possible = np.flatnonzero((filled >= private) & (len(groups) - filled >= shadow))
    if not possible.size:
        raise InvalidInput(
            f"groups: no place to divide {len(groups)} documents in {len(order)} groups (the "
            f"largest has {np.bincount(groups).max()}) into at least {private} private and "
            f"{shadow} shadow ones; ask for fewer, or draw again"
        )
    wanted = len(groups) * private / (private + shadow)
    last = possible[np.argmin(abs(filled[possible] - wanted))]
    on_private_side = np.zeros(len(order), dtype=bool)
    on_private_side[order[: last + 1]] = True
    return on_private_side[groups]
