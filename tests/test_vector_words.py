"""Words read from vectors: against Bayes' rule, through noise, and what knows nothing."""

from __future__ import annotations

import numpy as np
import pytest

from textpriv.attacks.vector_words import VectorWords
from textpriv.channel import FloatArray, IntArray
from textpriv.errors import InvalidInput
from textpriv.models import Training

WORDS = ["film", "dull", "grand", "plot"]  # in 60, 50, 30 and 20% of the sentences
SHARES = np.array([0.6, 0.5, 0.3, 0.2])
LONG = Training(steps=1500, batch=256, learning_rate=0.02)


def sentences(count: int, seed: int) -> tuple[FloatArray, list[frozenset[str]]]:
    """Whether each has each word, independently, and the words: the vector says them all."""
    has = (np.random.default_rng(seed).random((count, len(WORDS))) < SHARES).astype(float)
    return has, [frozenset(WORDS[each] for each in np.flatnonzero(row)) for row in has]


def test_words_are_read_from_vectors_that_say_them() -> None:
    known, said = sentences(400, 0)
    reader = VectorWords(known, said, training=Training(steps=300, batch=64, learning_rate=0.05))
    seen, _ = sentences(50, 1)
    order = [list(reader.words).index(word) for word in WORDS]
    np.testing.assert_array_equal(reader.log_odds(seen)[:, order] > 0, seen == 1)
    np.testing.assert_allclose(reader.frequency[order], known.mean(0))


def test_through_gaussian_noise_it_learns_the_posterior() -> None:
    """With Gaussian noise the log odds are linear, and known: Bayes' rule, for every word.

    A wrong version learns from the vectors without noise, and is far too sure of itself.
    """
    known, said = sentences(4000, 0)
    spread = 0.8

    def noisy(rows: IntArray, rng: np.random.Generator) -> FloatArray:
        return np.asarray(known[rows] + spread * rng.normal(size=(len(rows), known.shape[1])))

    seen = np.random.default_rng(1).normal(size=(200, len(WORDS))) * spread + 0.5
    share = known.mean(0)
    posterior = 1 / (1 + (1 / share - 1) * np.exp(-(2 * seen - 1) / (2 * spread**2)))

    def error(**release: object) -> float:
        reader = VectorWords(known, said, training=LONG, **release)  # type: ignore[arg-type]
        order = [list(reader.words).index(word) for word in WORDS]
        learned = 1 / (1 + np.exp(-reader.log_odds(seen)[:, order]))
        return float(np.abs(learned - posterior).max())

    assert error(release=noisy) < 0.1 < 0.3 < error()


def test_vectors_that_say_nothing_leave_the_frequencies() -> None:
    _, said = sentences(2000, 0)
    reader = VectorWords(np.random.default_rng(2).normal(size=(2000, 3)), said, training=LONG)
    learned = 1 / (1 + np.exp(-reader.log_odds(np.zeros((1, 3)))[0]))
    np.testing.assert_allclose(learned, reader.frequency, atol=0.05)


def test_rare_words_are_not_learned() -> None:
    said = [frozenset({"film", "once"}), *[frozenset({"film"})] * 5, frozenset[str]()]
    reader = VectorWords(np.eye(7), said, training=Training(steps=2))
    assert reader.words.tolist() == ["film"] and reader.log_odds(np.eye(7)).shape == (7, 1)
    with pytest.raises(InvalidInput, match="no word is in 5"):
        VectorWords(np.eye(4), said[:4])
    with pytest.raises(InvalidInput, match="expected a finite vector for every sentence"):
        VectorWords(np.eye(6), said)
