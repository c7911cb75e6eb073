"""N-gram models against a second writing of modified Kneser-Ney, with dictionaries.

`Plain` follows Chen and Goodman 1999, equations 26 and 27, one n-gram at a time. Wrong
versions that must be caught: lower orders from raw counts, no end of a sentence, no start
before the first word, backoff left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import refused
from hypothesis import given
from hypothesis import strategies as st

from textpriv.attacks.ngrams import Lexicon, NGrams, _Table
from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.errors import InvalidInput

START, END = "<s>", "</s>"


def corpus(documents: list[list[int]], kept: dict[int, str] | None = None) -> Corpus:
    ids = np.array([word for document in documents for word in document], dtype=np.int64)
    return Corpus(ids, np.cumsum([0, *map(len, documents)]), kept or {})


class Plain:
    """The model, from sentences of words; `events` are all that can be predicted but END."""

    def __init__(self, sentences: list[list[Any]], events: int, order: int) -> None:
        self.order, self.events = order, events + 1
        self.counts: dict[int, Counter[Any]] = {}
        full: Counter[Any] = Counter()
        for sentence in sentences:
            padded = [START] * (order - 1) + sentence + [END]
            full.update(tuple(padded[i : i + order]) for i in range(len(padded) - order + 1))
        self.counts[order] = full
        for length in range(order - 1, 0, -1):
            longer, lower = self.counts[length + 1], Counter[Any]()
            for gram, count in longer.items():
                # What begins a sentence has one word before it, START: there counts are raw.
                lower[gram[1:]] += count if length > 1 and gram[1] == START else 1
            self.counts[length] = lower
        self.discounts = {length: self._discounts(c) for length, c in self.counts.items()}
        self.after: dict[Any, dict[Any, int]] = defaultdict(dict)
        for counts in self.counts.values():
            for gram, count in counts.items():
                self.after[gram[:-1]][gram[-1]] = count

    def _discounts(self, counts: Counter[Any]) -> list[float]:
        n1, n2, n3, n4 = (max(1, sum(c == k for c in counts.values())) for k in (1, 2, 3, 4))
        y = n1 / (n1 + 2 * n2)
        raw = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        most = (0.95, 1.95, 2.95)
        return [0.0, *(min(max(d, 0.1), m) for d, m in zip(raw, most, strict=True))]

    def probability(self, word: Any, history: tuple[Any, ...]) -> float:
        """P(word | history) of up to order - 1 words."""
        lower = self.probability(word, history[1:]) if history else 1 / self.events
        if history not in self.after:
            return lower
        after, discounts = self.after[history], self.discounts[len(history) + 1]
        total = sum(after.values())
        freed = sum(discounts[min(3, count)] for count in after.values())
        count = after.get(word, 0)
        return (count - discounts[min(3, count)] + freed * lower) / total

    def sentence(self, words: list[Any]) -> list[float]:
        """P of each word and of the end."""
        padded = [START] * (self.order - 1) + words + [END]
        width = self.order - 1
        return [
            self.probability(padded[i], tuple(padded[i - width : i]))
            for i in range(width, len(padded))
        ]


def plain(documents: list[list[int]], size: int, order: int) -> Plain:
    """Over a lexicon of `size` words without kept tokens: one more event, the unknown word."""
    return Plain(documents, size + 1, order)


def assert_same_law(model: NGrams, reference: Plain) -> None:
    lexicon = model.lexicon
    names = {lexicon.start: START, lexicon.end: END}
    events = np.arange(lexicon.events)
    pasts = [[*range(lexicon.unknown + 1), lexicon.start]] * (model.order - 1)
    for history in product(*pasts):
        if lexicon.start in history[1:] and history[: model.order - 1][0] != lexicon.start:
            continue  # a start after a word does not occur
        probabilities = model.probability(
            events, np.tile(np.array(history, dtype=np.int64), (len(events), 1))
        )
        named = tuple(names.get(word, word) for word in history)
        expected = [reference.probability(names.get(e, e), named) for e in events.tolist()]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12, err_msg=str(history))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12) and (probabilities > 0).all()


DOCUMENTS = [[0, 1], [0, 1, 2], [0, 2], [1]]


def test_bigrams_by_hand() -> None:
    """Bigrams: s0 3, s1 1, 01 2, 02 1, 12 1, 1e 2, 2e 2: n1 = 3, n2 = 3, n3 = 1, n4 = 0 -> 1.

    Y = 3/9, D = 1 - 2/3 = 1/3, 2 - 1/3 = 5/3, 3 - 4/3 = 5/3. Contexts before 0: 1 (start),
    1: 2 (start, 0), 2: 2 (0, 1), end: 2 (1, 2); n1 = 1, n2 = 3, Y = 1/7, D = 1/7, 2 - 1/7.
    """
    lexicon = Lexicon(3)
    model = NGrams.train(lexicon, [corpus(DOCUMENTS)], order=2)
    d1, d2 = 1 / 7, 2 - 3 / 7 / 3
    even = (d1 + 3 * d2) / 7 / 5  # five events: 0, 1, 2, unknown, end
    unigram = np.array([(1 - d1) / 7, *[(2 - d2) / 7] * 2, 0, (2 - d2) / 7]) + even
    np.testing.assert_allclose(model.unigram, unigram)
    start = np.full((5, 1), lexicon.start)
    seen = np.array([3 - 5 / 3, 1 - 1 / 3, 0, 0, 0]) / 4
    np.testing.assert_allclose(
        model.probability(np.arange(5), start), seen + (5 / 3 + 1 / 3) / 4 * unigram
    )
    parts = model.parts(np.array([1, 2, 0, 0]), np.array([[0], [0], [0], [lexicon.unknown]]))
    np.testing.assert_allclose(parts[0], np.array([2 - 5 / 3, 1 - 1 / 3, 0, 0]) / [3, 3, 3, 1])
    np.testing.assert_allclose(parts[1], [2 / 3, 2 / 3, 2 / 3, 1])  # unseen: all by backoff


def test_after_the_start_of_a_sentence_counts_are_raw() -> None:
    """In the bigrams of a trigram model s0 has its count 3, and 01 its one context (start)."""
    reference = plain(DOCUMENTS, 3, 3)
    assert reference.counts[2][(START, 0)] == 3 and reference.counts[2][(START, 1)] == 1
    assert reference.counts[2][(0, 1)] == 1 and reference.counts[2][(1, END)] == 2
    assert reference.counts[1][(1,)] == 2
    assert_same_law(NGrams.train(Lexicon(3), [corpus(DOCUMENTS)], order=3), reference)


texts = st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=12).filter(any)


@given(texts, texts, st.integers(1, 3))
def test_the_model_is_modified_kneser_ney(a: Any, b: Any, order: int) -> None:
    """Of several corpora as of one text."""
    model = NGrams.train(Lexicon(4), [corpus(a), corpus(b)], order=order)
    assert_same_law(model, plain(a + b, 4, order))


@given(texts, texts, st.integers(1, 3))
def test_log_likelihoods_are_those_of_a_loop(train: Any, read: Any, order: int) -> None:
    model, reference = (
        NGrams.train(Lexicon(4), [corpus(train)], order=order),
        plain(train, 4, order),
    )
    expected = [np.log(p) for document in read for p in reference.sentence(document)[:-1]]
    np.testing.assert_allclose(model.log_likelihood(corpus(read)), expected, rtol=1e-10)


def test_log_likelihoods_see_kept_and_unknown_tokens() -> None:
    text = corpus([[0, KEPT, 1], [], [KEPT, UNKNOWN]], {1: "!", 3: "?"})
    lexicon = Lexicon(2, [text] * 3)
    model = NGrams.train(lexicon, [text], order=3)
    bang, query, unknown = 2, 3, 4
    sentences = [[0, bang, 1], [], [query, unknown]]
    reference = Plain(sentences, 5, 3)
    expected = [np.log(p) for sentence in sentences for p in reference.sentence(sentence)[:-1]]
    np.testing.assert_allclose(model.log_likelihood(text), expected)


class RawLower(Plain):
    """Wrong: lower orders from raw counts."""

    def __init__(self, sentences: list[list[Any]], events: int, order: int) -> None:
        super().__init__(sentences, events, order)
        for length in range(1, order):
            part = Plain(sentences, events, length)
            self.counts[length] = part.counts[length]
            self.discounts[length] = part.discounts[length]
            for gram, count in part.counts[length].items():
                self.after[gram[:-1]][gram[-1]] = count


@pytest.mark.parametrize("order", [2, 3])
def test_wrong_models_are_found_out(order: int) -> None:
    documents = [[0, 1], [0, 1, 2], [0, 1], [1, 0, 2, 2], [2]]
    model = NGrams.train(Lexicon(3), [corpus(documents)], order=order)
    assert_same_law(model, plain(documents, 3, order))
    with pytest.raises(AssertionError):  # one text without ends
        assert_same_law(model, plain([sum(documents, [])], 3, order))
    with pytest.raises(AssertionError):  # no start: the first word is never predicted
        assert_same_law(model, plain([d[1:] for d in documents if d[1:]], 3, order))
    with pytest.raises(AssertionError):
        assert_same_law(model, RawLower(documents, 4, order))
    forgetful = NGrams(model.lexicon, np.zeros_like(model.unigram), model._orders)
    with pytest.raises(AssertionError):  # no backoff to single words
        assert_same_law(forgetful, plain(documents, 3, order))


def test_a_lexicon_by_hand() -> None:
    text = corpus(
        [[0, KEPT, KEPT], [KEPT, UNKNOWN, 2, KEPT, KEPT]],
        {1: ".", 2: "Bob", 3: ".", 6: ".", 7: ","},
    )
    lexicon = Lexicon(3, [text])
    assert lexicon.kept == {".": 3}
    assert (lexicon.unknown, lexicon.end, lexicon.start, lexicon.events) == (4, 5, 6, 6)
    assert lexicon.ids(text).tolist() == [0, 3, 4, 3, 4, 2, 3, 4]
    every = Lexicon(3, [text, text, text])
    assert every.kept == {",": 3, ".": 4, "Bob": 5} and every.unknown == 6
    # A lexicon of one text reads another, whose own tokens are unknown to it.
    other = corpus([[KEPT, 1]], {0: "?"})
    assert lexicon.ids(other).tolist() == [4, 1]
    assert Lexicon(3).ids(corpus([[]])).tolist() == []


test_bad_input_is_named = refused(
    (lambda: Lexicon(0), "size: got 0"),
    (lambda: Lexicon(3).ids(corpus([[0, 3]])), "corpus: got id 3, expected 0..2"),
    (lambda: NGrams.train(Lexicon(3), [corpus([[0]])], order=4), "order: got 4, expected 1,"),
    (lambda: NGrams.train(Lexicon(3), [corpus([[], []])], order=2), "corpora: got no token"),
)


def test_keys_fit_in_64_bits_or_are_refused() -> None:
    largest = round(2 ** (63 / 3))  # 2097152: its cube is 2^63
    text = corpus([[0, 1]])
    with pytest.raises(InvalidInput, match="order: 3-grams of .* do not fit in 64 bits"):
        NGrams.train(Lexicon(largest), [text], order=3)
    # One word less, and the largest key is just below 2^63: the four events beyond the words.
    size = largest - 4
    model = NGrams.train(Lexicon(size), [corpus([[size - 1] * 4])], order=3)
    assert model.lexicon.start + 1 == largest - 1
    last = np.full((1, 2), size - 1)
    seen = model.parts(np.array([size - 1, 0]), np.repeat(last, 2, axis=0))[0]
    assert seen[0] > 0 == seen[1]
    assert model.parts(np.array([model.lexicon.end]), last)[0][0] > 0


@pytest.mark.parametrize("bits", [1, 3, 25])
@given(st.sets(st.integers(0, 2**62)), st.lists(st.integers(0, 2**62)))
def test_a_table_is_a_dictionary_whatever_collides(
    bits: int, keys: set[int], others: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Table, "_BITS", bits)
        ordered = np.array(sorted(keys), dtype=np.int64)
        values = np.arange(1.0, len(keys) + 1)
        table, known = _Table(ordered, values), dict(zip(sorted(keys), values, strict=True))
        asked = np.array([*others, *sorted(keys), *[k + 1 for k in keys]], dtype=np.int64)
        expected = [known.get(key, -7.0) for key in asked.tolist()]
        assert table.get(asked, -7.0).tolist() == expected
        where, stored = table.find(asked)
        assert where.tolist() == [i for i, key in enumerate(asked.tolist()) if key in known]
        assert stored.tolist() == [value for value in expected if value != -7.0]
        square = np.array([[0, 5], [7, 9]])
        assert table.get(square, 0.0).shape == (2, 2)
