"""Features of the surface by hand, and a ledger that finds each leak and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from textpriv.attacks import ledger as module
from textpriv.attacks.author import TrainingData
from textpriv.attacks.f1 import macro_f1
from textpriv.attacks.ledger import (
    EVERYTHING,
    HASHES,
    case,
    digits,
    features,
    ledger,
    length,
    punctuation,
    stopwords,
    unknown_words,
)

KNOWN = {"dress", "fit", "great", "size", "small", "wore", "color", "night"}
WORDS = sorted(KNOWN)


def test_length() -> None:
    (values, nothing) = np.expm1(length(["It fits. I wore it!", ""]))
    assert values == pytest.approx([19, 5, 2, 2.5, 19 / 5])
    assert nothing.tolist() == [0] * 5


def test_case() -> None:
    """Ab CD eF i I. gh: 5 of 9 letters are capitals, 2 of 6 words are titles ("I" is one)."""
    (values,) = case(["Ab CD eF i I. gh"])
    assert values == pytest.approx([5 / 10, 2 / 6, 1 / 6, 1 / 6, 1 / 2, 1 / 6, 1 / 6])
    assert case(["", "123 ..."]).tolist() == [[0] * 7] * 2


def test_punctuation() -> None:
    text = "Wow!! So ,nice.Very\n  good"
    (values,) = punctuation([text])
    named = dict(zip(module._MARKS, values.tolist(), strict=False))
    assert named["!"] == 2 / len(text) and named[","] == named["."] == 1 / len(text)
    assert sum(named.values()) == pytest.approx(4 / len(text))
    assert values[-5:] * len(text) == pytest.approx([1, 1, 2, 1, 1])
    assert not punctuation(["", "plain words"]).any()


def test_digits() -> None:
    text = "I am 5'4 and 120 lbs"
    (values,) = digits([text])
    assert values[:10] * len(text) == pytest.approx([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    assert values[10:] == pytest.approx([3 / 7, 5 / 3, 1 / 7])
    assert not digits(["", "no digits"]).any()


def test_stopwords() -> None:
    (values, nothing) = stopwords(["The dress and THE night", ""])
    place = {word: row for row, word in enumerate(module._STOPWORDS)}
    assert len(values) == len(place) == 318
    assert values[place["the"]] == 2 / 5 and values[place["and"]] == 1 / 5
    assert values.sum() == pytest.approx(3 / 5) and not nothing.any()


def test_unknown_words() -> None:
    texts = ["Dress qwx great qwx asdf", "qwx", "dress", ""]
    values = unknown_words(texts, KNOWN)
    assert values.shape == (4, HASHES + 2)
    assert np.expm1(values[:, 0]) == pytest.approx([3, 1, 0, 0])
    assert values[:, 1] == pytest.approx([3 / 5, 1, 0, 0])
    which = values[:, 2:]
    assert which.sum(1).tolist() == [2, 1, 0, 0]  # each once
    assert which[0] @ which[1] == 1  # the same word, the same column


def test_features_look_at_nothing_else() -> None:
    """A change of one kind leaves the others as they are."""
    base = "It fit so well, I wore it at 9. Great color"
    changes = {
        "case": base.replace("It", "it"),
        "digits": base.replace("9", "8"),
        "punctuation": base.replace(",", ";"),
        "stopwords": base.replace(" at ", " on "),
        "unknown words": base.replace("color", "zzzzz"),
    }
    kinds = features(KNOWN | {"it", "so", "well", "i", "at", "on", "9", "8"})
    for kind, text in changes.items():
        changed = {
            name for name, feature in kinds.items() if np.ptp(feature([base, text]), axis=0).any()
        }
        assert changed == {kind}
    assert np.ptp(kinds["length"]([base, base + " Great"]), axis=0).any()


def test_no_texts() -> None:
    for name, feature in features(KNOWN).items():
        assert feature([]).shape == (0, feature(["a"]).shape[1]), name


LEAKS = {
    "length": lambda words, label: " ".join(words * (1 + 2 * label)),
    "case": lambda words, label: " ".join(w.upper() if label else w for w in words),
    "punctuation": lambda words, label: " ".join(words) + "!;"[label],
    "digits": lambda words, label: " ".join(words) + (" 12", " 77")[label],
    "stopwords": lambda words, label: " ".join(words) + (" the", " and")[label],
    "unknown words": lambda words, label: " ".join(words) + (" qwx", " asd")[label],
}


def leaking(kind: str, documents: int, seed: int) -> tuple[list[str], Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=documents)
    return [LEAKS[kind](rng.choice(WORDS, 6).tolist(), label) for label in labels.tolist()], labels


@pytest.mark.parametrize("kind", LEAKS)
def test_the_ledger_finds_the_leak(kind: str) -> None:
    """The kind that differs tells the authors, and so does all together; another kind does not.

    Where nothing is told 200 fair coins stay below F1 0.7 but for a chance below 1e-6.
    """
    train, held = leaking(kind, 150, 0), leaking(kind, 30, 1)
    asked, truth = leaking(kind, 200, 2)
    kinds = features(KNOWN | {"the", "and", "12", "77"})
    predictions = ledger(kinds, TrainingData(*train, *held), [asked, asked[:7], []], classes=2)
    assert list(predictions) == [*kinds, EVERYTHING]
    reached = {name: macro_f1(truth, guesses[0], 2) for name, guesses in predictions.items()}
    assert reached[kind] > 0.95 and reached[EVERYTHING] > 0.95
    for guess, first, none in predictions.values():
        assert (guess[:7] == first).all() and none.shape == (0,)
    silent = {"case", "stopwords", "unknown words"} - {kind}
    if kind == "length":
        silent -= {"stopwords"}
    assert all(reached[name] < 0.7 for name in silent)


def test_a_sanitizer_that_passes_case_on_leaks_case() -> None:
    """Static: trained on clean texts, asked about texts in lower case, it knows nothing."""
    train, held = leaking("case", 150, 0), leaking("case", 30, 1)
    asked, truth = leaking("case", 200, 2)
    kinds = {"case": case}
    clean, lower = ledger(
        kinds, TrainingData(*train, *held), [asked, [text.lower() for text in asked]], classes=2
    )["case"]
    assert macro_f1(truth, clean, 2) > 0.95 and macro_f1(truth, lower, 2) < 0.5


def test_test_texts_do_not_enter_the_standardising() -> None:
    train, held = leaking("length", 100, 0), leaking("length", 20, 1)
    asked, _ = leaking("length", 50, 2)
    kinds = {"length": length}
    alone, beside = (
        ledger(kinds, TrainingData(*train, *held), [asked + more], classes=2)["length"][0][:50]
        for more in ([], ["long " * 10_000] * 50)
    )
    assert (alone == beside).all()
