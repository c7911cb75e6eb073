"""Inversion of sentence vectors: against all texts tried one by one, and what each part is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, refused
from tiny_generators import tiny_family

from textpriv.attacks.vector_inversion import VectorInversion
from textpriv.models.generators import Generator

LETTERS = "abcdefghijklmnopqrstuvwxyz "
PUBLIC = ["a cat", "the dog", "zebra"]


def letters(texts: Sequence[str]) -> FloatArray:
    """How often each letter occurs, and a constant, so that no vector is 0."""
    return np.array([[*(text.count(letter) for letter in LETTERS), 0.1] for text in texts])


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_family(tmp_path_factory.mktemp("llama"), "llama")


def attack(
    generator: Generator, public: Sequence[str] = PUBLIC, tokens: int = 20, **changed: Any
) -> VectorInversion:
    kind = type("Changed", (VectorInversion,), {"fluency": 0.0} | changed)
    made: VectorInversion = kind(generator, letters, public, tokens=tokens)
    return made


def cosine(texts: Sequence[str], goal: FloatArray) -> FloatArray:
    rows = letters(texts)
    return np.asarray(rows @ goal / np.linalg.norm(rows, axis=1) / np.linalg.norm(goal))


def test_with_every_token_kept_the_best_of_all_texts_is_found(generator: Generator) -> None:
    every = [int(token) for token in generator.sayable
             if token not in generator.tokenizer.all_special_ids]  # fmt: skip
    pairs = [(one, other) for one in every for other in every]
    texts = [*generator.say([(each,) for each in every]), *generator.say(pairs)]
    goals = letters(["zq", "cat w", "doge"])
    size = len(generator.sayable)
    wide = attack(generator, beam=size, expansions=size, tokens=2)
    for goal, guess in zip(goals, wide.guess(goals), strict=True):
        assert cosine([guess], goal)[0] == pytest.approx(cosine(texts, goal).max())
    narrow = attack(generator, beam=1, expansions=2, tokens=2).guess(goals)
    assert np.mean(
        [cosine([guess], goal)[0] for goal, guess in zip(goals, narrow, strict=True)]
    ) < (np.mean([cosine(texts, goal).max() for goal in goals]))


def test_public_sentences_propose_tokens_that_the_model_does_not(generator: Generator) -> None:
    goals = letters(["zebra"])
    with_public = attack(generator, beam=2, expansions=2, tokens=6, neighbors=1).guess(goals)
    far = attack(generator, ["mmm"], beam=2, expansions=2, tokens=6).guess(goals)
    assert cosine(with_public, goals[0])[0] > cosine(far, goals[0])[0]


def test_the_nearest_public_sentence(generator: Generator) -> None:
    made = attack(generator)
    assert made.nearest(letters(["dog the", "a zebra"])) == ["the dog", "zebra"]
    assert made.nearest(5 * letters(["cat"])) == ["a cat"]
    swapped = VectorInversion(generator, letters, PUBLIC, vectors=letters(PUBLIC[::-1]))
    assert swapped.nearest(letters(["dog the", "a zebra"])) == ["the dog", "a cat"]


def test_fluency_prefers_what_the_model_says(generator: Generator) -> None:
    goals = letters(["zq"])
    fluent = attack(generator, fluency=10.0, beam=3, tokens=4).guess(goals)
    plain = attack(generator, beam=3, tokens=4).guess(goals)
    assert cosine(plain, goals[0])[0] > cosine(fluent, goals[0])[0]


def test_goals_do_not_depend_on_each_other(generator: Generator) -> None:
    goals = letters(["zq", "cat w", "doge"])
    made = attack(generator, tokens=3)
    assert made.guess(goals) == [made.guess(goals[[row]])[0] for row in range(3)]


made: Any = VectorInversion

test_wrong_use = refused(
    (lambda generator: made(generator, letters, []), "public: got no sentence"),
    (lambda generator: made(generator, letters, PUBLIC, vectors=letters(["a"])), "one for each"),
    (lambda generator: attack(generator).guess(np.full((2, 3), np.nan)), "vectors: got shape"),
    (lambda tmp_path: made(tiny_family(tmp_path, "t5"), letters, PUBLIC), "expected a causal one"),
)
