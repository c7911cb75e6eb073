"""N-gram language models: how likely a word is after the words before it.

    lexicon = Lexicon(len(words), [public])           # ids of words, punctuation and the rest
    model = NGrams.train(lexicon, [shadow, public], order=2)
    model.probability(words, history)                 # P(word | history), vectorised

Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999): of every count a discount
is taken off; what is freed goes to the model of the next lower order, whose counts say in how
many *different* contexts a word was seen. So P(w | h) = seen(h, w) + backoff(h) P(w | h'),
where h' is h without its first word, and the decoder can treat the two parts apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textpriv.checks import FloatArray, IntArray, check_count
from textpriv.data.tokens import KEPT, Corpus, check_corpora, check_corpus
from textpriv.errors import InvalidInput


class Lexicon:
    """Ids of a language model: the vocabulary's words, tokens that stay in clear, and the rest.

    Words keep their ids, 0 .. size - 1; a kept token (punctuation, a number, a name that the
    vocabulary lacks) that occurs at least three times in the corpora gets an id above them; all
    else is one unknown word.
    """

    def __init__(self, size: int, corpora: Sequence[Corpus] = ()) -> None:
        check_count(size, what="size")
        check_corpora(corpora, size, what="corpora")
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.kept.values())
        frequent = sorted(text for text, count in counts.items() if count >= 3)
        self.kept = {text: size + row for row, text in enumerate(frequent)}
        self.size = size
        self.unknown = size + len(frequent)
        self.end = self.unknown + 1  # of a sentence; a word like any other to the model
        self.start = self.end + 1  # before a sentence; never predicted
        self.events = self.start  # number of what can be predicted

    def ids(self, corpus: Corpus) -> IntArray:
        """Ids of all tokens of a corpus over the same vocabulary: (tokens,)."""
        check_corpus(corpus, self.size)
        result = np.where(corpus.ids >= 0, corpus.ids, self.unknown)
        for position in np.flatnonzero(corpus.ids == KEPT).tolist():
            result[position] = self.kept.get(corpus.kept[position], self.unknown)
        return result


class _Table:
    """Values by key, 0 where absent; a bit map in the processor's cache answers most absences."""

    _SPARSE = 32  # places of the map for each key
    _BITS = 25  # of the largest map, 33 MB

    def __init__(self, keys: IntArray, values: FloatArray) -> None:
        self.keys, self.values = keys, values  # keys ascending
        self._bits = min(self._BITS, (self._SPARSE * len(keys) + 1).bit_length())
        self._map = np.zeros(1 << self._bits, dtype=np.bool_)
        self._map[self._slot(keys)] = True

    def _slot(self, keys: IntArray) -> NDArray[np.uint64]:
        spread = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        spread >>= np.uint64(64 - self._bits)
        return spread

    def find(self, keys: IntArray) -> tuple[IntArray, FloatArray]:
        """Where in `keys` a key is present, and its values."""
        maybe = np.flatnonzero(self._map[self._slot(keys)])
        if not len(self.keys):
            return maybe[:0], self.values[:0]
        wanted = keys[maybe]
        row = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        present = self.keys[row] == wanted
        return maybe[present], self.values[row[present]]

    def get(self, keys: IntArray, default: float) -> FloatArray:
        """Values of all keys."""
        result = np.full(keys.shape, default)
        where, values = self.find(keys.ravel())
        result.ravel()[where] = values
        return result


class _Order(NamedTuple):
    """The part of one order: seen(h, w) of the n-grams, backoff(h) of their histories."""

    seen: _Table
    backoff: _Table


class NGrams:
    """An interpolated modified Kneser-Ney model; see `train`."""

    def __init__(self, lexicon: Lexicon, unigram: FloatArray, orders: Sequence[_Order]) -> None:
        self.lexicon, self.unigram, self._orders = lexicon, unigram, tuple(orders)
        self.order = 1 + len(self._orders)

    @classmethod
    def train(cls, lexicon: Lexicon, corpora: Sequence[Corpus], *, order: int) -> NGrams:
        """Count n-grams inside the documents of all corpora, order 1 to 3, and smooth them."""
        if order not in (1, 2, 3):
            raise InvalidInput(f"order: got {order!r}, expected 1, 2 or 3")
        check_corpora(corpora, lexicon.size, what="corpora")
        if not sum(len(corpus.ids) for corpus in corpora):
            raise InvalidInput("corpora: got no token, expected text to learn from")
        base = lexicon.start + 1
        text = np.concatenate([_padded(lexicon, corpus, order)[0] for corpus in corpora])
        grams, counts = _count(text, order, lexicon.start, base)
        levels = []
        for length in range(order, 1, -1):
            levels.append(_discounted(grams, counts, base))
            grams, counts = _lower(grams, counts, base ** (length - 1), lexicon.start)
        unigram = _unigram(grams, counts, lexicon)
        return cls(lexicon, unigram, levels[::-1])

    def probability(self, words: IntArray, history: IntArray) -> FloatArray:
        """P(word | history), aligned: (n,).

        Parameters
        ----------
        words : (n,) lexicon ids; the start of a sentence has probability 0
        history : (n, length) the words before, the nearest last, filled up with
            `lexicon.start`; a length below order - 1 takes the model of that lower order
        """
        result = np.append(self.unigram, 0.0)[words]
        length = history.shape[1]
        for level in range(1, length + 1):
            seen, backoff = self.parts(words, history[:, length - level :])
            result = seen + backoff * result
        return result

    def parts(self, words: IntArray, history: IntArray) -> tuple[FloatArray, FloatArray]:
        """seen(h, w) and backoff(h) of histories of 1 to order - 1 words: (n,) each."""
        key, level = np.zeros(len(history), dtype=np.int64), self._orders[history.shape[1] - 1]
        for column in history.T:
            key = key * (self.lexicon.start + 1) + column
        return (
            level.seen.get(key * (self.lexicon.start + 1) + words, 0.0),
            level.backoff.get(key, 1.0),
        )

    def find(self, words: IntArray, before: IntArray) -> tuple[IntArray, FloatArray]:
        """Where seen(h, w) > 0 for histories of one word, and its values."""
        return self._orders[0].seen.find(before * (self.lexicon.start + 1) + words)

    def backoff(self, before: IntArray) -> FloatArray:
        """backoff(h) of histories of one word; 1 where never seen: (n,)."""
        return self._orders[0].backoff.get(before, 1.0)

    def log_likelihood(self, corpus: Corpus) -> FloatArray:
        """ln P(token | the tokens before it in its document), every token: (tokens,)."""
        text, place = _padded(self.lexicon, corpus, self.order)
        history = text[place[:, None] - np.arange(self.order - 1, 0, -1)]
        return np.log(self.probability(text[place], history))


def _padded(lexicon: Lexicon, corpus: Corpus, order: int) -> tuple[IntArray, IntArray]:
    """Documents one after another, each between order - 1 (at least one) starts and an end.

    Beside them where each token of the corpus stands.
    """
    width = max(1, order - 1)
    lengths = np.diff(corpus.offsets)
    result = np.full(len(corpus.ids) + len(corpus) * (width + 1), lexicon.start)
    place = np.arange(len(corpus.ids)) + corpus.document * (width + 1) + width
    result[place] = lexicon.ids(corpus)
    result[np.cumsum(lengths + width + 1) - 1] = lexicon.end
    return result, place


def _count(
    text: IntArray, order: int, start: int, base: int
) -> tuple[IntArray, NDArray[np.integer]]:
    """Distinct n-grams that do not end in a start, packed, with how often they occur."""
    if base**order >= 2**63:
        raise InvalidInput(f"order: {order}-grams of {base} words do not fit in 64 bits; lower it")
    length = len(text) - order + 1
    packed = np.zeros(length, dtype=np.int64)
    for back in range(order):
        packed = packed * base + text[back : back + length]
    return np.unique(packed[text[order - 1 :] != start], return_counts=True)


def _lower(
    grams: IntArray, counts: NDArray[np.integer], first: int, start: int
) -> tuple[IntArray, NDArray[np.integer]]:
    """The n-grams without their first word, with the number of words that precede them.

    After the start of a sentence nothing else can precede: there the counts stay.
    """
    suffix = grams % first
    rest, inverse = np.unique(suffix, return_inverse=True)
    contexts = np.bincount(inverse)
    total = np.bincount(inverse, weights=counts).astype(np.int64)
    # All but unigrams: the history's own first word is the leading digit of the suffix.
    base = start + 1
    leading = rest // (first // base) if first > base else np.full(len(rest), -1)
    return rest, np.where(leading == start, total, contexts)


def _discounts(counts: NDArray[np.integer]) -> FloatArray:
    """Discounts of counts 0, 1, 2 and 3 or more (Chen and Goodman 1999, Eq. 26)."""
    n1, n2, n3, n4 = (max(1, int((counts == times).sum())) for times in (1, 2, 3, 4))
    share = n1 / (n1 + 2 * n2)
    raw = np.array([0.0, 1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3])
    # Few counts make the estimate wild; a discount above 0 keeps every backoff above 0.
    return np.clip(raw, [0.0, 0.1, 0.1, 0.1], [0.0, 0.95, 1.95, 2.95])


def _discounted(grams: IntArray, counts: NDArray[np.integer], base: int) -> _Order:
    discount = _discounts(counts)[np.minimum(counts, 3)]
    histories, inverse = np.unique(grams // base, return_inverse=True)
    total = np.bincount(inverse, weights=counts)
    freed = np.bincount(inverse, weights=discount)
    return _Order(
        _Table(grams, (counts - discount) / total[inverse]), _Table(histories, freed / total)
    )


def _unigram(grams: IntArray, counts: NDArray[np.integer], lexicon: Lexicon) -> FloatArray:
    """Every event's probability; what the discounts free is shared out evenly."""
    discount = _discounts(counts)[np.minimum(counts, 3)]
    result = np.full(lexicon.events, discount.sum() / counts.sum() / lexicon.events)
    result[grams] += (counts - discount) / counts.sum()
    return result
