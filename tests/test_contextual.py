"""The contextual attack: training pairs one by one, pairs of sentences piece by piece."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import corpus
from tiny_models import (
    CAT,
    DOG,
    FISH,
    MAT,
    ON,
    SAT,
    SNOWBALL,
    THE,
    WORDS,
    piece,
    swapping,
    tiny_encoder,
)

from textpriv.attacks import contextual
from textpriv.attacks.base import NONE, Attack, Guesses, IntArray, Observed, observe
from textpriv.attacks.contextual import (
    ContextualBayes,
    Detector,
    Pairs,
    Reader,
    training_pairs,
    weigh,
)
from textpriv.data.tokens import KEPT, Corpus
from textpriv.errors import InvalidInput
from textpriv.models import Encoder, Pieces, Training, endless


class Fake(Attack):
    """Context-free guesses from a table: output word -> (words, scores)."""

    name = "fake"
    posterior = True

    def __init__(self, table: dict[int, list[tuple[int, float]]]) -> None:
        self.table = table

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        words = np.full((len(positions), top), NONE, dtype=np.int64)
        scores = np.full((len(positions), top), -np.inf)
        for row, output in enumerate(observed.corpus.ids[positions].tolist()):
            for column, (word, score) in enumerate(self.table[output][:top]):
                words[row, column], scores[row, column] = word, score
        return Guesses(words, scores)


FAKE = Fake(
    {
        CAT: [(CAT, 0.6), (DOG, 0.4)],
        DOG: [(CAT, 0.55), (DOG, 0.45)],
        FISH: [(FISH, 1.0)],
        SNOWBALL: [(SNOWBALL, 0.9), (FISH, 0.1)],
    }
)


def test_training_pairs_by_hand() -> None:
    best = np.array([[CAT, DOG], [CAT, DOG], [DOG, CAT], [FISH, NONE], [FISH, NONE]])
    truth = np.array([CAT, DOG, FISH, FISH, SNOWBALL])
    pairs = training_pairs(best, truth)
    triples = list(
        zip(pairs.rows.tolist(), pairs.candidates.tolist(), pairs.labels.tolist(), strict=True)
    )
    assert triples == [
        (0, CAT, True),  # the guess is right ...
        (0, DOG, False),  # ... so the second guess is the wrong one
        (1, CAT, False),  # the guess is wrong ...
        (1, DOG, True),  # ... so the truth stands beside it (here also the second guess)
        (2, DOG, False),
        (2, FISH, True),  # the truth, which no guess named
        (3, FISH, True),  # right, and there is no second guess
        (4, FISH, False),
        (4, SNOWBALL, True),
    ]


def test_labels_say_whether_the_candidate_is_the_truth() -> None:
    rng = np.random.default_rng(0)
    best = rng.permuted(np.tile(np.arange(5), (400, 1)), axis=1)[:, :2]
    truth = rng.integers(5, size=400)
    pairs = training_pairs(best, truth)
    assert (pairs.labels == (pairs.candidates == truth[pairs.rows])).all()
    assert pairs.labels.mean() == 0.5 and (np.bincount(pairs.rows) == 2).all()


SENTENCES = corpus([THE, SNOWBALL, SAT, ON, THE, MAT], [CAT, SAT, KEPT], kept={8: "!"})


def sentences(encoder: Encoder, position: int, word: int, window: int | None = None) -> Any:
    pieces = Pieces(encoder.tokenizer, WORDS, SENTENCES)
    rows = Reader(encoder, window).rows(pieces, np.array([position]), np.array([word]))
    return " ".join(encoder.tokenizer.convert_ids_to_tokens(rows.ids[0].tolist())), rows


def test_the_pair_is_the_sentence_and_the_same_with_the_candidate(encoder: Encoder) -> None:
    _, rows = sentences(encoder, 1, CAT)  # as the tokenizer writes both, long words included
    whole = encoder.tokenizer("the snowball sat on the mat", "the cat sat on the mat")
    assert rows.ids[0].tolist() == whole["input_ids"]
    assert (rows.segments[0] >= 5).astype(int).tolist() == whole["token_type_ids"]
    assert rows.ids[0][rows.first(2)[0]] == piece("snow")
    assert rows.ids[0][rows.first(6)[0]] == piece("cat")


def test_the_sentences_differ_in_the_target_only(encoder: Encoder) -> None:
    for place, word, window, one, other in (
        # The second "the", not the first; and no word of the sentence before.
        (4, FISH, None, "the snow ##ball sat on the mat", "the snow ##ball sat on fish mat"),
        (6, SNOWBALL, None, "cat sat !", "snow ##ball sat !"),
        (6, CAT, None, "cat sat !", "cat sat !"),
        (1, CAT, 1, "the snow ##ball sat", "the cat sat"),
        (1, CAT, 0, "snow ##ball", "cat"),
    ):
        text, _ = sentences(encoder, place, word, window)
        assert text == f"[CLS] {one} [SEP] {other} [SEP]"


def test_long_sentences_lose_what_is_farthest_away(tmp_path: Path) -> None:
    # 3 special, 2 + 1 pieces of the words: 6 pieces are left, 3 on each side pair
    text, rows = sentences(tiny_encoder(tmp_path, longest=12), 1, CAT)
    assert text == "[CLS] the snow ##ball sat on [SEP] the cat sat on [SEP]"
    assert rows.ids.shape[1] <= 12


HELD = np.arange(120) >= 90  # tokens of `data`


def shadow(seed: int = 2, size: int = 100) -> Corpus:
    """Cats sit and dogs are on: the context tells what the word was."""
    words = np.random.default_rng(seed).integers(2, size=size)
    return corpus(*([THE, word, [SAT, ON][word]] for word in words.tolist()))


def data(seed: int = 0) -> tuple[Observed, Pairs]:
    clear = shadow(seed, 120)
    observed = observe(swapping(), clear, np.random.default_rng(seed))
    best = FAKE.guess(observed, top=2).words
    return observed, training_pairs(best, clear.ids[observed.targets])


def fit(encoder: Encoder, steps: int = 100, *, pairs: Any = None, **options: Any) -> Detector:
    observed, right = data()
    options = {"learning_rate": 5e-3, "marks": 2, "dropout": 0.0} | options
    names = set(options) & set(Training.__dataclass_fields__)
    training = Training(steps=steps, **{name: options.pop(name) for name in names})
    reader = Reader(encoder, pooling=options.pop("pooling", "target"))
    given = right if pairs is None else pairs
    return Detector.fit(reader, WORDS, observed, given, held_out=HELD, training=training, **options)


@pytest.fixture(scope="module")
def trained(encoder: Encoder) -> Detector:
    return fit(encoder, from_start=True)


def right(detector: Detector) -> float:
    """Share of new pairs that it judges rightly."""
    observed, pairs = data(seed=1)
    probabilities = detector.probability(observed, observed.targets[pairs.rows], pairs.candidates)
    return float(((probabilities > 0.5) == pairs.labels).mean())


def test_the_detector_learns_what_context_tells(encoder: Encoder, trained: Detector) -> None:
    assert trained.curve.steps == (0, 50, 100)
    assert 0.2 < trained.curve.accuracy[0] < 0.8 and trained.curve.accuracy[-1] == 1.0
    assert right(trained) > 0.95
    assert right(fit(encoder, pooling="first")) > 0.95


def test_labels_that_say_the_opposite_are_seen(encoder: Encoder) -> None:
    """A detector of swapped labels fails where the right one succeeds."""
    pairs = data()[1]
    assert right(fit(encoder, pairs=replace(pairs, labels=~pairs.labels))) < 0.05


def test_a_detector_goes_on_from_another(encoder: Encoder, trained: Detector) -> None:
    again = fit(encoder, steps=1, learning_rate=1e-9, start=trained, seed=9)
    assert again.curve.accuracy == (1.0,)
    fresh = fit(encoder, steps=1, learning_rate=1e-9, seed=9)
    assert fresh.curve.accuracy[0] < 0.9


def test_held_out_tokens_measure_and_do_not_train(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labels of the held-out pairs are swapped, so that a right detector gets none right."""
    drawn: list[Any] = []
    monkeypatch.setattr(
        contextual, "endless", lambda rows, rng: drawn.append(rows) or endless(rows, rng)
    )
    pairs = data()[1]
    detector = fit(encoder, pairs=replace(pairs, labels=pairs.labels ^ HELD[pairs.rows]))
    assert drawn[0].tolist() == list(range(90))
    assert detector.curve.accuracy[-1] < 0.05


def test_probability_does_not_depend_on_the_batch(encoder: Encoder) -> None:
    detector = fit(encoder, steps=2)
    observed = Observed(SENTENCES, np.isin(np.arange(9), [1, 6]))
    positions, candidates = np.array([1, 6, 1, 6]), np.array([CAT, CAT, FISH, SNOWBALL])
    together = detector.probability(observed, positions, candidates)
    alone = [detector.probability(observed, positions[[i]], candidates[[i]])[0] for i in range(4)]
    assert np.allclose(together, alone, atol=0.02)  # bfloat16 rounds padded rows differently
    assert len(set(np.round(together, 3))) == 4


def test_the_encoder_is_told_which_sequence_is_the_second(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = Detector(Reader(encoder), WORDS)
    seen: list[Any] = []
    states_at = Encoder.states_at

    def spy(self: Encoder, rows: Any, *at: Any, types: Any = None) -> torch.Tensor:
        seen.append((rows.ids[0].tolist(), types[0].astype(int).tolist()))
        return states_at(self, rows, *at, types=types)

    monkeypatch.setattr(Encoder, "states_at", spy)
    detector.probability(Observed(SENTENCES, np.arange(9) == 1), np.array([1]), np.array([CAT]))
    whole = encoder.tokenizer("the snowball sat on the mat", "the cat sat on the mat")
    assert seen == [(whole["input_ids"], whole["token_type_ids"])]


@pytest.mark.parametrize("held", [np.zeros(120, bool), np.ones(120, bool), np.zeros(3, bool)])
def test_wrong_held_out(encoder: Encoder, held: Any) -> None:
    observed, pairs = data()
    with pytest.raises(InvalidInput, match="held_out"):
        Detector.fit(
            Reader(encoder), WORDS, observed, pairs, held_out=held, training=Training(steps=1)
        )


def test_scores_are_products_and_order_follows_them() -> None:
    words = np.array([[CAT, DOG, FISH], [CAT, DOG, NONE]])
    scores = np.array([[0.5, 0.3, 0.2], [0.6, 0.4, -np.inf]])
    weights = np.array([[0.1, 0.2, 0.9], [0.5, 0.0, 0.9]])
    weighed = weigh(Guesses(words, scores), weights, top=2)
    assert weighed.words.tolist() == [[FISH, DOG], [CAT, DOG]]
    assert np.allclose(weighed.scores, [[0.18, 0.06], [0.3, 0.0]])
    wide = weigh(Guesses(words, scores), weights, top=4)
    assert wide.words[1].tolist() == [CAT, DOG, NONE, NONE]
    assert np.isneginf(wide.scores[1, 2:]).all() and np.isneginf(wide.scores[0, 3])


def attack(encoder: Encoder, **options: Any) -> ContextualBayes:
    training = Training(steps=100, learning_rate=5e-3)
    given = {"context_free": FAKE, "reader": Reader(encoder), "training": training, "seed": 1}
    return ContextualBayes(swapping(), shadow(), **given | options)


def test_the_attack_uses_the_context(encoder: Encoder) -> None:
    private = shadow(seed=3)
    observed = observe(swapping(), private, np.random.default_rng(4))
    truth = private.ids[observed.targets]
    made = attack(encoder)
    guesses = made.guess(observed, top=2)
    assert guesses.hits(truth).mean() > 0.95 > 0.7 > FAKE.guess(observed).hits(truth).mean()
    assert guesses.hits(truth, top=2).all()
    # With one candidate it is the context-free attack.
    best = weigh(*made.judged(observed, None, 1), top=1)
    assert (best.words == FAKE.guess(observed, top=1).words).all()
    # More candidates than there are, and fewer targets, in another order.
    chosen = observed.targets[[5, 2, 7]]
    wide = made.guess(observed, chosen, top=12)
    assert (wide.words[:, :2] == guesses.words[[5, 2, 7]]).all() and (
        wide.words[:, 2:] == NONE
    ).all()
    assert np.allclose(wide.scores[:, :2], guesses.scores[[5, 2, 7]], rtol=0.05)


def test_scores_are_context_free_score_times_detector(encoder: Encoder) -> None:
    made = attack(encoder, training=Training(steps=3))
    observed = observe(swapping(), shadow(seed=3, size=5), np.random.default_rng(4))
    before, after = FAKE.guess(observed, top=2), made.guess(observed, top=2)
    for row, position in enumerate(observed.targets):
        weight = made.detector.probability(observed, np.full(2, position), before.words[row])
        product = np.sort(before.scores[row] * weight)[::-1]
        assert np.allclose(product, after.scores[row], rtol=0.05)


def test_one_seed_one_attack(encoder: Encoder) -> None:
    observed = observe(swapping(), shadow(seed=3), np.random.default_rng(4))
    one, same, other = (
        attack(encoder, training=Training(steps=2), seed=seed).guess(observed).scores
        for seed in (5, 5, 6)
    )
    assert (one == same).all() and (one != other).any()


def test_three_epochs_without_sizes(encoder: Encoder) -> None:
    """10 documents of one word, 2 copies: 3 epochs of 40 pairs in batches of 32."""
    made = ContextualBayes(
        swapping(), shadow(size=10), context_free=FAKE, reader=Reader(encoder), copies=2, seed=1
    )
    assert made.detector.curve.steps[-1] == 4


def test_wrong_options(encoder: Encoder) -> None:
    with pytest.raises(InvalidInput, match="window: got -1"):
        attack(encoder, reader=Reader(encoder, window=-1), training=Training(steps=1))


def test_the_best_guess_alone_is_the_same_with_fewer_readings(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steep = Fake({CAT: [(CAT, 0.7), (DOG, 0.3)], DOG: [(DOG, 0.7), (CAT, 0.3)]})
    made = attack(encoder, context_free=steep, training=Training(steps=20, learning_rate=5e-3))
    observed = observe(swapping(), shadow(seed=9, size=60), np.random.default_rng(3))
    read: list[int] = []
    inner = Detector.probability

    def counted(self: Detector, *given: Any, **options: Any) -> Any:
        read.append(len(given[1]))
        return inner(self, *given, **options)

    monkeypatch.setattr(Detector, "probability", counted)
    before, every = made.judged(observed, None, 2)
    fully = sum(read)
    read.clear()
    same, fewer = made.judged(observed, None, 2, only_best=True)
    assert len(observed.targets) < sum(read) < fully
    assert np.allclose(fewer[fewer > 0], every[fewer > 0], rtol=0.05)  # what was read is the same
    for k in (1, 2):  # of the first k as well
        whole, lazy = (
            weigh(Guesses(each.words[:, :k], each.scores[:, :k]), weights[:, :k], top=1)
            for each, weights in ((before, every), (same, fewer))
        )
        assert (whole.words == lazy.words).all()
    assert (made.guess(observed, top=1).words == made.guess(observed, top=2).words[:, :1]).all()
