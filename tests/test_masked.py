"""Mask token inference: what it sees, what it can guess, and what it cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from helpers import assert_form, corpus, refused
from tiny_models import (
    CAT,
    DOG,
    FISH,
    ON,
    PIECES,
    SAT,
    SNOWBALL,
    THE,
    WORDS,
    XYZ,
    TableMechanism,
    piece,
    swapping,
    tiny_encoder,
)

from textpriv.attacks.base import NONE, Observed
from textpriv.attacks.masked import MaskInference, single_pieces
from textpriv.models import Encoder, Rows


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), head=True)


SANITIZED = corpus([THE, DOG, SAT], [SNOWBALL, ON, CAT])
OBSERVED = Observed(SANITIZED, np.array([0, 1, 0, 1, 0, 1], dtype=bool))
LAW = np.full((len(WORDS), len(WORDS)), 1 / len(WORDS))
EVERYTHING = TableMechanism(LAW)


def ranked(encoder: Encoder, text: str, allowed: list[int]) -> tuple[list[int], list[float]]:
    """Words in the order of the masked LM's scores, computed one by one."""
    ids = encoder.tokenizer(text)["input_ids"]
    with torch.inference_mode():
        states = encoder.states(Rows(np.array([ids]), np.zeros((1, len(ids)), dtype=np.int64)))
        logits = encoder.logits(states)[0, ids.index(piece("[MASK]"))]
    scores = {word: float(logits[piece(WORDS[word])]) for word in allowed}
    order = sorted(allowed, key=lambda word: -scores[word])
    return order, [scores[word] for word in order]


SINGLE = [word for word in range(len(WORDS)) if word not in (SNOWBALL, XYZ)]
TEXTS = ["the [MASK] sat", "[MASK] on cat", "snowball on [MASK]"]  # one per target


def test_single_pieces(encoder: Encoder) -> None:
    ids = single_pieces(encoder, WORDS)
    assert [PIECES[each] if each != NONE else None for each in ids] == [
        "cat", "dog", "fish", None, "the", "sat", "ran", None, "on", "mat"
    ]  # fmt: skip


def test_the_guesses_are_the_ranking_of_the_masked_lm(encoder: Encoder) -> None:
    guesses = MaskInference(EVERYTHING, WORDS, encoder).guess(OBSERVED, top=8)
    for row, text in enumerate(TEXTS):
        words, scores = ranked(encoder, text, SINGLE)
        assert np.allclose(guesses.scores[row], scores, atol=0.05)
        close = np.abs(np.diff(scores)).min() < 0.1  # bfloat16 may exchange what is nearly equal
        assert close or guesses.words[row].tolist() == words
        assert set(guesses.words[row].tolist()) == set(SINGLE)
    assert len({tuple(row) for row in guesses.words.tolist()}) > 1


def test_the_sanitized_word_itself_is_not_seen(encoder: Encoder) -> None:
    """Whatever stands at the target, the scores are the same; the context matters."""
    attack = MaskInference(EVERYTHING, WORDS, encoder)
    before = attack.guess(OBSERVED, np.array([1]), top=8).scores

    def scores(position: int, word: int) -> Any:
        ids = SANITIZED.ids.copy()
        ids[position] = word
        changed = Observed(SANITIZED.with_ids(ids), OBSERVED.sanitized)
        return attack.guess(changed, np.array([1]), top=8).scores

    assert np.array_equal(scores(1, FISH), before) and np.array_equal(scores(1, SNOWBALL), before)
    assert not np.allclose(scores(2, FISH), before, atol=0.05)
    assert np.array_equal(scores(3, FISH), before)  # another document


def test_only_replaced_words_of_one_piece_are_guessed(encoder: Encoder) -> None:
    attack = MaskInference(swapping(), WORDS, encoder)
    every, more = attack.guess(OBSERVED, top=3), attack.guess(OBSERVED, top=5)
    # Not snowball, not "the"; more guesses than there are words are filled up.
    assert all(sorted(row) == [CAT, DOG, FISH] for row in every.words.tolist())
    assert np.array_equal(more.words[:, :3], every.words) and (more.words[:, 3:] == NONE).all()
    assert np.array_equal(more.scores[:, :3], every.scores)
    assert np.isneginf(more.scores[:, 3:]).all()


def test_possible_inputs_only(encoder: Encoder) -> None:
    attack = MaskInference(swapping(), WORDS, encoder, knows="support")
    assert attack.name == "mask-inference-support"
    guesses = attack.guess(OBSERVED, top=3)
    assert [sorted(set(row) - {NONE}) for row in guesses.words.tolist()] == [
        [CAT, DOG],
        [FISH],  # of snowball's two inputs the other is snowball, two pieces
        [CAT, DOG],
    ]
    assert (np.isneginf(guesses.scores) == (guesses.words == NONE)).all()
    free = MaskInference(swapping(), WORDS, encoder).guess(OBSERVED, top=3)
    for row in (0, 2):
        each = (free.scores[row].tolist(), free.words[row].tolist())
        order = [word for word in free.words[row].tolist() if word != FISH]
        assert guesses.words[row, :2].tolist() == order
        rest = [score for score, word in zip(*each, strict=True) if word != FISH]
        assert np.allclose(guesses.scores[row, :2], rest)  # P(y|x) is not used


def test_the_likelihood_is_added(encoder: Encoder) -> None:
    law = np.full((len(WORDS), len(WORDS)), 0.02)
    law[CAT, DOG] = 0.5  # dog is most likely a cat
    law[FISH, DOG] = 0.0
    mechanism = TableMechanism(law)
    attack = MaskInference(mechanism, WORDS, encoder, knows="likelihood")
    assert attack.name == "mask-bayes"
    target = np.array([1])  # where dog stands
    guesses = attack.guess(OBSERVED, target, top=8)
    free = MaskInference(mechanism, WORDS, encoder).guess(OBSERVED, target, top=8)
    prior = dict(zip(free.words[0].tolist(), free.scores[0].tolist(), strict=True))
    for word, score in zip(guesses.words[0].tolist(), guesses.scores[0].tolist(), strict=True):
        if word != NONE:
            assert np.isclose(score, prior[word] + np.log(law[word, DOG]))
    assert FISH in free.words and FISH not in guesses.words and (guesses.words == NONE).sum() == 1


@pytest.mark.parametrize("chosen", [[2, 0], [1, 1, 0, 2]])
def test_any_order_of_targets(encoder: Encoder, chosen: list[int]) -> None:
    assert_form(MaskInference(EVERYTHING, WORDS, encoder), OBSERVED, 0.05, top=2, chosen=chosen)


LONG = TableMechanism(LAW, np.array([SNOWBALL, XYZ]))
attack: Any = partial(MaskInference, EVERYTHING, WORDS)

test_wrong_options = refused(
    (lambda encoder: attack(replace(encoder, can_fill=False)), "head is untrained"),
    (lambda encoder: MaskInference(LONG, WORDS, encoder), "nothing to guess"),
)
