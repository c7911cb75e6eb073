"""Inversion BERT: it learns from shadow pairs, and chooses from the classes it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers import assert_form, corpus
from tiny_models import (
    CAT,
    DOG,
    FISH,
    ON,
    SAT,
    SNOWBALL,
    THE,
    WORDS,
    TableMechanism,
    piece,
    swapping,
    tiny_encoder,
    vocabulary,
)

from textpriv.attacks import inversion
from textpriv.attacks.base import NONE, IntArray, Observed, observe
from textpriv.attacks.bayes import ContextFreeBayes
from textpriv.attacks.contextual import repeat
from textpriv.attacks.inversion import InversionBert, InversionPerToken, word_vectors
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mechanism
from textpriv.models import Encoder, Rows, Training, endless
from textpriv.seeds import stream

VERB = {CAT: SAT, DOG: ON, FISH: SAT, SNOWBALL: ON}  # what tells the words of a pair apart


def sentences(size: int = 120, seed: int = 2) -> Corpus:
    """the cat sat, the dog on, the fish sat, ...; every fifth sentence has two subjects."""
    rng = np.random.default_rng(seed)
    documents = []
    for number in range(size):
        subjects = rng.integers(4, size=2 if number % 5 == 0 else 1).tolist()
        documents.append([word for subject in subjects for word in (THE, subject, VERB[subject])])
    return corpus(*documents)


def attack(encoder: Encoder, steps: int = 150, **options: Any) -> InversionBert:
    training = Training(steps=steps, learning_rate=5e-3, batch=16, marks=2)
    given = {"encoder": encoder, "training": training, "seed": 1} | options
    return InversionBert(given.pop("mechanism", swapping()), sentences(), **given)


def private() -> tuple[Observed, IntArray]:
    clear = sentences(seed=3)
    observed = observe(swapping(), clear, np.random.default_rng(4))
    return observed, clear.ids[observed.targets]


def test_possible_classes_need_a_channel(encoder: Encoder) -> None:
    with pytest.raises(InvalidInput, match="'possible' with madlib.*use classes='vocabulary'"):
        attack(encoder, mechanism=Madlib(vocabulary(), epsilon=1.0))


@pytest.mark.parametrize("classes", ["vocabulary", "possible"])
def test_it_learns_what_context_tells(encoder: Encoder, classes: Any) -> None:
    made = attack(encoder, classes=classes)
    assert made.curve.steps == (75, 150) and made.curve.accuracy[-1] > 0.9
    observed, truth = private()
    guesses = made.guess(observed, top=2)
    assert guesses.hits(truth).mean() > 0.9  # the output alone: 0.5
    assert (np.diff(guesses.scores, axis=1) <= 0).all() and (guesses.scores <= 1).all()


def test_wrong_truths_are_seen(encoder: Encoder) -> None:
    """Trained on sentences whose words say the opposite, it guesses the opposite."""
    clear = sentences()
    exchanged = {CAT: DOG, DOG: CAT, FISH: SNOWBALL, SNOWBALL: FISH}
    other = clear.with_ids(np.array([exchanged.get(word, word) for word in clear.ids.tolist()]))
    training = Training(steps=150, learning_rate=5e-3, batch=16)
    made = InversionBert(swapping(), other, encoder=encoder, training=training, seed=1)
    observed, truth = private()
    assert made.guess(observed).hits(truth).mean() < 0.1


def test_held_out_sentences_do_not_train(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        inversion, "endless", lambda passages, rng: drawn.append(passages) or endless(passages, rng)
    )
    attack(encoder, steps=1)
    assert len(drawn[0]) == len(np.unique(drawn[0])) == 108  # of 120 sentences, one copy


def test_batches_of_similar_length_hold_what_the_order_has() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, size=500)
    order = endless(np.arange(500), np.random.default_rng(1))
    plain = endless(np.arange(500), np.random.default_rng(1))
    steps = range(2 * inversion.POOLED)
    batches = [inversion.batch_of_similar_length(order, lengths, 32, step, 3) for step in steps]
    assert all(len(each) == 32 for each in batches)
    half = len(steps) // 2
    for block in range(2):
        used = np.concatenate(batches[block * half : (block + 1) * half])
        drawn = plain(block * half * 32, (block + 1) * half * 32)
        assert sorted(used.tolist()) == sorted(drawn.tolist())
        longest = [lengths[each].max() for each in batches[block * half : (block + 1) * half]]
        assert longest != sorted(longest)  # batches come in random order
        as_drawn = [lengths[each].max() for each in drawn.reshape(half, 32)]
        assert np.mean(longest) < 0.75 * np.mean(as_drawn)  # what padding costs


def test_the_state_read_is_that_of_the_target(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = attack(encoder, steps=1)
    observed, _ = private()
    seen: list[Rows] = []
    states_at = Encoder.states_at

    def spy(self: Encoder, rows: Rows, *at: IntArray) -> torch.Tensor:
        seen.append(rows)
        return states_at(self, rows, *at)

    monkeypatch.setattr(Encoder, "states_at", spy)
    reader = inversion._Reader(made, observed, observed.targets)
    reader.scores(np.unique(reader.passage))
    first = {CAT: "cat", DOG: "dog", FISH: "fish", SNOWBALL: "snow"}
    expected = [piece(first[word]) for word in observed.corpus.ids[observed.targets].tolist()]
    assert seen[0].ids[reader.passage, reader.column].tolist() == expected


def test_classes(encoder: Encoder) -> None:
    observed, _ = private()
    outputs = observed.corpus.ids[observed.targets]
    guesses = attack(encoder, steps=1).guess(observed, top=5)
    pairs = {CAT: {CAT, DOG}, DOG: {CAT, DOG}, FISH: {FISH, SNOWBALL}, SNOWBALL: {FISH, SNOWBALL}}
    for output, row in zip(outputs.tolist(), guesses.words.tolist(), strict=True):
        assert set(row[:2]) == pairs[output] and row[2:] == [NONE] * 3
    assert np.allclose(guesses.scores[:, :2].sum(1), 1)
    assert np.isneginf(guesses.scores[:, 2:]).all()
    every = attack(encoder, steps=1, classes="vocabulary").guess(observed, top=5)
    assert all(
        set(row[:4]) == {CAT, DOG, FISH, SNOWBALL} and row[4] == NONE
        for row in every.words.tolist()
    )
    assert np.allclose(every.scores[:, :4].sum(1), 1)


def test_a_limit_keeps_the_likeliest_inputs(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InversionBert, "limit", 1)
    made = attack(encoder, steps=1, mechanism=swapping(stay=0.7))
    observed, _ = private()
    guesses = made.guess(observed, top=2)
    assert (guesses.words[:, 0] == observed.corpus.ids[observed.targets]).all()
    assert (guesses.words[:, 1] == NONE).all() and np.allclose(guesses.scores[:, 0], 1)


def test_targets_in_any_order_and_each_in_its_sentence(encoder: Encoder) -> None:
    observed, _ = private()
    assert_form(attack(encoder, steps=20), observed, 0.02, top=2, chosen=[7, 3, 3, 0])


def test_long_documents_are_read_in_passages(tmp_path: Any) -> None:
    short = tiny_encoder(tmp_path / "short", longest=8)
    made = attack(short, steps=2)
    whole = corpus(sentences().ids)  # one long document
    observed = observe(swapping(), whole, np.random.default_rng(0))
    guesses = made.guess(observed, top=1)
    assert len(guesses.words) == len(observed.targets) and (guesses.words != NONE).all()


def test_word_vectors_are_means_of_pieces(encoder: Encoder) -> None:
    vectors = word_vectors(encoder, WORDS)
    table = encoder.table.detach()
    assert torch.allclose(vectors[CAT], table[piece("cat")])
    both = (table[piece("snow")] + table[piece("##ball")]) / 2
    assert torch.allclose(vectors[SNOWBALL], both) and not vectors.requires_grad


class NoChannel(Mechanism):
    name = "no channel"

    def __init__(self) -> None:
        super().__init__(vocabulary(), epsilon=1.0)

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        return ids


def test_a_mechanism_without_channel(encoder: Encoder) -> None:
    observed, _ = private()
    made = attack(encoder, steps=1, mechanism=NoChannel(), classes="vocabulary")
    assert (made.guess(observed, top=10).words != NONE).all()


def test_a_classifier_per_token_names_originals_by_their_share() -> None:
    """Of four shadow words three are cats; cat and dog are exchanged half of the time."""
    copies = 4000
    made = InversionPerToken(swapping(), corpus([CAT, THE, CAT, DOG, CAT]), copies=copies, seed=1)
    guesses = made.guess_words(np.array([DOG, CAT, FISH]), 3)
    assert guesses.words.tolist() == [[CAT, DOG, NONE], [CAT, DOG, NONE], [NONE] * 3]
    error = np.sqrt(0.75 * 0.25 / (2 * copies))  # half of four words show either output
    assert np.allclose(guesses.scores[:2, :2], [0.75, 0.25], atol=5 * error)
    assert np.isneginf(guesses.scores[2]).all()  # no copy shows a fish: no classifier, no guess


def test_a_classifier_per_token_is_the_optimum_of_training_one() -> None:
    """Gradient descent on a constant input, the training of the released code, ends there."""
    shadow = corpus([CAT, CAT, DOG])
    made = InversionPerToken(swapping(0.7), shadow, copies=50, seed=3)
    clear = repeat(shadow, 50)
    seen = observe(swapping(0.7), clear, stream(3, "shadow copies"))
    labels = torch.from_numpy((clear.ids[seen.corpus.ids == DOG] == DOG).astype(np.int64))
    layer = torch.nn.Linear(4, 2)
    steps = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(500):
        steps.zero_grad()
        constant = torch.ones(len(labels), 4)
        torch.nn.functional.cross_entropy(layer(constant), labels).backward()
        steps.step()
    learned = torch.softmax(layer(torch.ones(4)), 0).detach().numpy()
    guesses = made.guess_words(np.array([DOG]), 2)
    of_dog = float(guesses.scores[0, guesses.words[0] == DOG][0])
    assert learned[1] == pytest.approx(of_dog, abs=1e-3)


def test_many_copies_are_bayes_rule_without_a_constant() -> None:
    law = np.random.default_rng(5).dirichlet(np.full(len(WORDS), 0.5), size=len(WORDS))
    mechanism = TableMechanism(law)
    shadow = corpus(np.random.default_rng(6).integers(len(WORDS), size=40))
    counted = InversionPerToken(mechanism, shadow, copies=3000, seed=2)
    exact = ContextFreeBayes(mechanism, shadow, constant=0)
    outputs = np.arange(len(WORDS))
    guesses, expected = counted.guess_words(outputs, 1), exact.guess_words(outputs, 1)
    error = np.sqrt(0.25 / (3000 * 40 * law[shadow.ids].mean(0)))
    assert (np.abs(guesses.scores - expected.scores)[:, 0] < 5 * error).all()
