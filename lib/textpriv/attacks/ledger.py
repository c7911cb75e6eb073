"""Leak ledger: what single features of the surface tell an attacker about the author.

    kinds = features(public_vocabulary)                   # {"length": ..., "case": ..., ...}
    guesses = ledger(kinds, known, [test], classes=10)     # known: `author.TrainingData`
    macro_f1(test_author, guesses["punctuation"][0], 10)

A sanitizer changes words and is judged by words. Yet authors also differ in how long they write, in
capitals, punctuation, digits, function words and in words that no public list holds, and a
mechanism may pass these on untouched. The ledger asks the same classifier what each of these
alone gives away, and what all of them give together; asked about texts in clear and about
sanitized ones it shows which leak a mechanism closes. Static and adaptive attackers differ in
what is passed, as in `textpriv.attacks.author`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, HashingVectorizer
from sklearn.preprocessing import StandardScaler

from textpriv.attacks.author import TrainingData, best_regression
from textpriv.checks import FloatArray, IntArray
from textpriv.data.splits import sentences_of, words

Feature = Callable[[Sequence[str]], FloatArray]

EVERYTHING = "all"  # the entry of the ledger for all features together
PENALTIES = (0.001, 0.01, 0.1, 1.0)  # C of the logistic regression
HASHES = 1024  # columns into which unknown words fall

_MARKS = string.punctuation + "’‘“”…–—"
_RUN = re.compile(r"([^\w\s])\1+")  # "!!", "...", "--"
_GAP = re.compile(r"\s[,.;:!?]")  # a space before a mark, where none belongs
_TIGHT = re.compile(r"[,.;:!?][^\W\d_]")  # no space after it
_TOKEN = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d[\d.,]*")
_STOPWORDS = sorted(ENGLISH_STOP_WORDS)


# --- Features -----------------------------------------------------------------------------------


def features(vocabulary: Collection[str]) -> dict[str, Feature]:
    """Every kind of feature by its name; each maps texts to (documents, features).

    `vocabulary` are public words in lower case; those outside count as unknown.
    """
    known = frozenset(vocabulary)
    return {
        "length": length,
        "case": case,
        "punctuation": punctuation,
        "digits": digits,
        "stopwords": stopwords,
        "unknown words": lambda texts: unknown_words(texts, known),
    }


def length(texts: Sequence[str]) -> FloatArray:
    """Logarithm of 1 + characters, words and sentences, words per sentence, characters per word."""
    sizes = [
        [len(text), len(words(text)), sum(bool(words(sentence)) for sentence in sentences_of(text))]
        for text in texts
    ]
    counts = np.array(sizes, dtype=np.float64).reshape(-1, 3)
    characters, tokens, stops = counts.T
    per_sentence, per_word = tokens / np.maximum(stops, 1), characters / np.maximum(tokens, 1)
    return np.log1p(np.column_stack([counts, per_sentence, per_word]))


def case(texts: Sequence[str]) -> FloatArray:
    """Shares of capitals among letters; of words that begin with one, are all of them, mix them.

    Further the share of sentences that begin with a small letter, and of words that are a single
    small letter or a single capital ("i", "I").
    """
    return np.array([_case(text) for text in texts], dtype=np.float64).reshape(-1, 7)


def punctuation(texts: Sequence[str]) -> FloatArray:
    """Each mark per character; runs of marks, and spaces before or none after them."""
    rows = []
    for text in texts:
        marks = [text.count(mark) for mark in _MARKS]
        habits = [len(habit.findall(text)) for habit in (_RUN, _GAP, _TIGHT)]
        breaks = [text.count("  "), text.count("\n")]
        rows.append(np.array([*marks, *habits, *breaks]) / max(1, len(text)))
    return np.array(rows, dtype=np.float64).reshape(-1, len(_MARKS) + 5)


def digits(texts: Sequence[str]) -> FloatArray:
    """Each digit per character; numbers per word, their mean length, and sizes such as 5'4."""
    rows = []
    for text in texts:
        size, tokens = max(1, len(text)), max(1, len(_TOKEN.findall(text)))
        numbers = _NUMBER.findall(text)
        long = sum(map(len, numbers)) / max(1, len(numbers))
        heights = len(re.findall(r"\d\s*['’]\s*\d", text))
        each = [text.count(digit) / size for digit in string.digits]
        rows.append([*each, len(numbers) / tokens, long, heights / tokens])
    return np.array(rows, dtype=np.float64).reshape(-1, 13)


def stopwords(texts: Sequence[str]) -> FloatArray:
    """Share of each of scikit-learn's 318 English function words among the words of a text."""
    counter = CountVectorizer(analyzer=words, vocabulary=_STOPWORDS)
    counts = np.asarray(counter.transform(texts).toarray(), dtype=np.float64)
    tokens = np.array([len(words(text)) for text in texts]).reshape(-1, 1)
    return counts / np.maximum(tokens, 1)


def unknown_words(texts: Sequence[str], known: Collection[str]) -> FloatArray:
    """How many words are outside a vocabulary, as logarithm and share, and which.

    Which ones: 1 in the column of `HASHES` into which a word falls, so that no list of words has
    to be learned from the texts.
    """
    outside = [[word for word in words(text) if word not in known] for text in texts]
    count = np.array([len(each) for each in outside], dtype=np.float64).reshape(-1, 1)
    tokens = np.array([len(words(text)) for text in texts]).reshape(-1, 1)
    hashing = HashingVectorizer(
        analyzer=list, n_features=HASHES, binary=True, norm=None, alternate_sign=False
    )
    hashed = hashing.transform([*outside, []])  # it takes no empty list of texts
    which = np.asarray(hashed.toarray(), dtype=np.float64)[:-1]
    return np.hstack([np.log1p(count), count / np.maximum(tokens, 1), which])


def _case(text: str) -> list[float]:
    letters = [each for each in text if each.isalpha()]
    tokens = [token for token in _TOKEN.findall(text) if token.isalpha()]
    starts = [s[0] for s in re.split(r"[.!?…]\s+", text.strip()) if s and s[0].isalpha()]

    def part(which: Sequence[bool]) -> float:
        return sum(which) / max(1, len(which))

    return [
        part([each.isupper() for each in letters]),
        part([token.istitle() for token in tokens]),
        part([token.isupper() and len(token) > 1 for token in tokens]),
        part([not (token.istitle() or token.isupper() or token.islower()) for token in tokens]),
        part([start.islower() for start in starts]),
        part([token == "i" for token in tokens]),
        part([token == "I" for token in tokens]),
    ]


# --- The ledger ---------------------------------------------------------------------------------


def ledger(
    kinds: Mapping[str, Feature],
    known: TrainingData[Sequence[str]],
    tests: Sequence[Sequence[str]],
    *,
    classes: int,
) -> dict[str, list[IntArray]]:
    """Guesses of one classifier that sees one kind of feature, for every kind, and for all of them.

    The classifier is `author.best_regression` on features standardised by the training texts.

    Guesses stand by kind, as those of `attacks.author.text_attack`; EVERYTHING comes last. On the
    clothes reviews in clear, gradient boosting on histograms and random trees reach less on average
    over the kinds, and take ten times as long.
    """
    truth, held = known.labels(classes)
    seen = {
        name: [feature(texts) for _, texts in known.sets(tests)] for name, feature in kinds.items()
    }
    seen[EVERYTHING] = [np.hstack(each) for each in zip(*seen.values(), strict=True)]
    return {name: _guesses(values, truth, held) for name, values in seen.items()}


def _guesses(values: Sequence[FloatArray], truth: IntArray, held: IntArray) -> list[IntArray]:
    """For every set of features after those of training and validation texts."""
    scaler = StandardScaler().fit(values[0])
    learned, measured, *asked = (scaler.transform(each) if len(each) else each for each in values)
    best = best_regression(learned, truth, measured, held, PENALTIES)
    return [best.predict(each) if len(each) else np.empty(0, dtype=np.int64) for each in asked]
