"""Utility: mean states by hand, a probe with stated error rates, an encoder that learns a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers import POWER, corpus, power_of_share, refused, share_fits
from tiny_models import FAMILIES, PIECES, piece, tiny_family, words_of_many_lengths

from textpriv import models
from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.errors import InvalidInput
from textpriv.models import Encoder, Training
from textpriv.models import classifiers as utility
from textpriv.models.classifiers import Classifier, features, fine_tuned, probe
from textpriv.models.pieces import encode

LONGEST = 40
FIRST, LAST = piece("[CLS]"), piece("[SEP]")
CAT, DOG, FISH = piece("cat"), piece("dog"), piece("fish")
FILLERS = [piece(name) for name in ("the", "sat", "ran", "on", "mat", "!")]


def of_many_lengths(seed: int = 0, documents: int = 30, longest: int = 20) -> Corpus:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, size=documents)
    return corpus(*(rng.integers(5, len(PIECES), size=length) for length in lengths))


def telling(
    count: int, words: list[int], seed: int, *, spread: int = 8
) -> tuple[Corpus, np.ndarray[Any, np.dtype[np.int64]]]:
    """Documents of random fillers, one of `words` at a random place; its number is the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(words), size=count)
    documents = []
    for label in labels:
        document = rng.choice(FILLERS, size=rng.integers(1, spread)).tolist()
        document.insert(int(rng.integers(len(document) + 1)), words[label])
        documents.append(document)
    return corpus(*documents), labels


def alone(encoder: Encoder, ids: list[int], kinds: list[int] | None = None) -> Any:
    """Mean state of one sequence by a direct forward pass: nothing is padded."""
    with torch.inference_mode():
        output = encoder.model.bert(
            input_ids=torch.tensor([ids]),
            token_type_ids=None if kinds is None else torch.tensor([kinds]),
        )
    return output.last_hidden_state[0].numpy().mean(0)


def test_long_documents_lose_their_end(encoder: Encoder, exact: None) -> None:
    document = [CAT, DOG, FISH, *FILLERS]
    vectors = features(encoder, corpus(document, document[:4], document[:3]), longest=6)
    assert np.allclose(vectors[0], alone(encoder, [FIRST, *document[:4], LAST]), atol=1e-5)
    assert np.allclose(vectors[0], vectors[1], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-3)
    full = features(encoder, corpus(document), longest=len(document) + 2)
    assert np.allclose(full, alone(encoder, [FIRST, *document, LAST]), atol=1e-5)
    assert features(encoder, corpus(), longest=LONGEST).shape == (0, encoder.width)


def test_the_longer_text_of_a_pair_is_cut_first(encoder: Encoder, exact: None) -> None:
    first = [[CAT, *FILLERS], [CAT], [], [CAT, DOG, FISH], [CAT, *FILLERS]]
    second = [[DOG, *FILLERS], [DOG, *FILLERS], [FISH], [], [DOG]]
    kept = [(3, 2), (1, 4), (0, 1), (3, 0), (4, 1)]
    vectors = features(encoder, corpus(*first), second=corpus(*second), longest=8)
    for row, (one, two) in enumerate(kept):
        ids = [FIRST, *first[row][:one], LAST, *second[row][:two], LAST]
        expected = alone(encoder, ids, [0] * (one + 2) + [1] * (two + 1))
        assert np.allclose(vectors[row], expected, atol=1e-5), row


def of_one(encoder: Encoder, token: int = CAT, longest: int = LONGEST, **options: Any) -> Any:
    """Features of a document of one piece."""
    document = corpus([token], kept={0: "kept"} if token == KEPT else None)
    return features(encoder, document, longest=longest, **options)


test_what_features_refuse = refused(
    (lambda encoder: of_one(encoder, len(PIECES)), r"corpus: got ids 16..16, expected 0..15"),
    (lambda encoder: of_one(encoder, longest=2), f"got 2, expected an integer from 3 to {LONGEST}"),
    (lambda encoder: of_one(encoder, longest=4, second=corpus([DOG])), "longest: got 4.* from 5"),
)


@pytest.fixture(scope="module", params=FAMILIES)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Encoder, Any]:
    """A tiny encoder, and the same model and tokenizer as the library alone reads them."""
    folder = tmp_path_factory.mktemp("family")
    encoder = tiny_family(folder, request.param, longest=LONGEST)
    kind = transformers.T5EncoderModel if request.param == "t5" else transformers.AutoModel
    model = kind.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def read(*texts: str) -> Any:
        with torch.inference_mode():
            output = model(**tokenizer(*([text] for text in texts), return_tensors="pt"))
        return output.last_hidden_state[0].numpy().mean(0)

    return encoder, read


@pytest.mark.parametrize("batch", [1, 7])
def test_features_are_those_of_the_library(
    family: tuple[Encoder, Any], exact: None, batch: int
) -> None:
    """The tokenizer writes the special pieces, the model counts positions, nothing is padded."""
    encoder, read = family
    texts = words_of_many_lengths(16, seed=0)
    vectors = features(encoder, encode(encoder.tokenizer, texts), longest=LONGEST, batch=batch)
    assert np.allclose(vectors, [read(text) for text in texts], atol=1e-5)
    distances = np.abs(vectors[:, None] - vectors[None]).max(2) + np.eye(len(texts))
    assert distances.min() > 1e-3  # so that a mix-up would show


@pytest.mark.parametrize("batch", [1, 7])
def test_pairs_are_those_of_the_library(
    family: tuple[Encoder, Any], exact: None, batch: int
) -> None:
    encoder, read = family
    first = words_of_many_lengths(16, seed=1, longest=7)
    second = words_of_many_lengths(16, seed=2, longest=7)[::-1]
    one, two = (encode(encoder.tokenizer, texts) for texts in (first, second))
    vectors = features(encoder, one, second=two, longest=LONGEST, batch=batch)
    expected = [read(a, b) for a, b in zip(first, second, strict=True)]
    assert np.allclose(vectors, expected, atol=1e-5)
    swapped = features(encoder, two, second=one, longest=LONGEST)
    assert np.abs(vectors - swapped).max(1).min() > 1e-3


def test_a_probe_separates_what_is_separable() -> None:
    """Also where coordinates differ in scale by six orders, which the standardising undoes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    states = 0.1 * rng.standard_normal((300, 5))
    states[np.arange(300), labels] += 1.0
    scaled = (states * np.logspace(-3, 3, 5) + 10.0).astype(np.float32)
    order = rng.permutation(300)
    for values in (states, scaled):
        correct = probe(values, labels, order[:200], order[200:])
        assert correct.shape == (100,) and correct.dtype == np.bool_ and correct.all()


def test_a_probe_is_at_chance_where_nothing_can_be_learned() -> None:
    """Labels are fair coins beside the features, so that hits are exactly binomial.

    False alarm at most 1e-6; a probe that saw test labels and is right 65% of the time is caught
    with probability >= POWER. Fitted to all rows it would be right more often.
    """
    rng = np.random.default_rng(1)
    states, labels = rng.standard_normal((2000, 400)), rng.integers(2, size=2000)
    correct = probe(states, labels, np.arange(1000), np.arange(1000, 2000))
    assert share_fits(int(correct.sum()), 1000, 0.5)
    assert power_of_share(0.65, 0.5, 1000) >= POWER


def test_correctness_is_in_the_order_of_the_test_rows() -> None:
    """Two test rows carry the other label and are the only ones that are wrong."""
    states = np.repeat([[-1.0], [1.0]], 20, axis=0)
    labels = np.repeat([0, 1], 20)
    labels[[3, 30]] = [1, 0]
    test = np.array([30, 4, 31, 3])
    train = np.setdiff1d(np.arange(40), test)
    assert probe(states, labels, train, test).tolist() == [False, True, True, False]


def test_test_rows_do_not_enter_the_standardising() -> None:
    """A test row far away changes no other row's prediction."""
    states = np.random.default_rng(2).uniform(0.5, 1.0, size=(60, 1))
    states[::2] *= -1
    labels = np.arange(60) % 2
    states[59] = -1e9
    correct = probe(states, labels, np.arange(40), np.arange(40, 60))
    assert correct[:-1].all() and not correct[-1]


FOUR, IN_TURN = np.array([[0.0], [1.0], [0.0], [1.0]]), [0, 1, 0, 1]

test_what_the_probe_refuses = refused(
    (lambda: probe(FOUR, IN_TURN[:3], [0, 1], [2, 3]), r"labels: got int64 of shape \(3,\), .* 4"),
    (lambda: probe(FOUR, IN_TURN, [0, 1], [1, 2]), "got 1 rows in both"),
)


def small(steps: int = 120, **options: Any) -> Training:
    return Training(**{"steps": steps, "batch": 16, "learning_rate": 5e-3} | options)


def tuned(
    encoder: Encoder, text: Corpus, labels: Any, steps: int = 3, **options: Any
) -> Classifier:
    given = {"training": small(steps), "longest": LONGEST} | options
    return fine_tuned(encoder, text, labels, **given)


def test_an_encoder_learns_the_word_that_decides(encoder: Encoder) -> None:
    text, labels = telling(400, [CAT, DOG, FISH], seed=0)
    training = small(marks=2)
    model = tuned(encoder, text, labels, training=training, classes=3)
    others, truth = telling(300, [CAT, DOG, FISH], seed=1)
    assert (model.predict(others) == truth).mean() > 0.95
    assert model.curve.steps == (60, 120) and model.curve.accuracy[-1] > 0.95
    assert not model.training
    assert not torch.equal(model.encoder.table, encoder.table)


def probability(model: Classifier, text: Corpus) -> Any:
    """Of every class for every document."""
    read = utility.sequences(model.encoder, text, longest=LONGEST)
    return model.probability(read, np.arange(len(text)))


def test_probabilities(encoder: Encoder, exact: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows sum to 1, whatever stands in the same batch; the likeliest class is predicted."""
    text, labels = telling(60, [CAT, DOG, FISH], seed=2)
    model = tuned(encoder, text, labels, classes=3)
    asked, order = of_many_lengths(), np.random.default_rng(0).permutation(30)
    probabilities = probability(model, asked)
    assert probabilities.shape == (30, 3) and probabilities.dtype == np.float64
    assert np.allclose(probabilities.sum(1), 1, atol=1e-12) and (probabilities > 0).all()
    assert (model.predict(asked) == probabilities.argmax(1)).all()
    assert model.predict(corpus()).shape == (0,)
    for batch in (utility.BATCH, 1):
        monkeypatch.setattr(utility, "BATCH", batch)
        assert np.allclose(probabilities[order], probability(model, asked.subset(order)), atol=1e-5)
    with pytest.raises(InvalidInput, match=r"corpus: got ids -1..-1"):
        model.predict(corpus([UNKNOWN]))


def test_the_head_by_hand(encoder: Encoder, exact: None) -> None:
    ids = [FIRST, CAT, *FILLERS, LAST]
    model = Classifier(encoder, 2, longest=LONGEST)
    with torch.inference_mode():
        states = encoder.model.bert(input_ids=torch.tensor([ids])).last_hidden_state[0]
        expected = model.classifier(torch.tanh(model.pooler(states.mean(0)))).softmax(0)
    probabilities = probability(model, corpus(ids[1:-1]))[0]
    assert np.allclose(probabilities, expected.numpy(), atol=1e-5)


def test_held_out_documents_do_not_train(encoder: Encoder) -> None:
    """They alone hold a piece, whose row of the table then never changes."""
    text, labels = telling(60, [CAT, DOG], seed=3)
    is_held = models.held_out_documents(60, 0.25, 5)
    documents = [
        [piece("##ball")] if held else text[row].tolist() for row, held in enumerate(is_held)
    ]
    for share, is_still in ((0.25, True), (0.2, False)):
        model = tuned(encoder, corpus(*documents), labels, 12, held_out=share, seed=5)
        same = torch.equal(model.encoder.table[piece("##ball")], encoder.table[piece("##ball")])
        assert same == is_still


def test_held_out_documents_measure_the_accuracy(encoder: Encoder) -> None:
    """Their labels are the wrong ones, and nothing else is: the curve has to be near 0."""
    text, labels = telling(300, [CAT, DOG], seed=6)
    is_held = models.held_out_documents(300, 0.2, 7)
    model = tuned(encoder, text, np.where(is_held, 1 - labels, labels), 60, held_out=0.2, seed=7)
    assert model.curve.accuracy[-1] < 0.1
    assert model.curve.accuracy[-1] == (model.predict(text) != labels)[is_held].mean()


def test_one_seed_one_classifier(encoder: Encoder) -> None:
    text, labels = telling(60, [CAT, DOG], seed=4)
    training = small(3, dropout=0.1)
    one, same, other = (
        tuned(encoder, text, labels, training=training, seed=seed) for seed in (1, 1, 2)
    )
    weights, again = one.state_dict(), same.state_dict()
    assert all(torch.equal(value, again[key]) for key, value in weights.items())
    assert one.curve.accuracy == same.curve.accuracy
    assert not torch.equal(one.encoder.table, other.encoder.table)
    heads = [Classifier(encoder, seed=seed).pooler.weight for seed in (1, 1, 2)]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[1], heads[2])


def test_the_global_generator_is_left_alone(encoder: Encoder) -> None:
    text, labels = telling(40, [CAT, DOG], seed=5)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tuned(encoder, text, labels, 1)
    assert torch.equal(torch.rand(3), expected)


def test_batches_are_random_and_of_similar_length() -> None:
    """Every document once per round, in other batches each time, with little padding."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 100, size=1500)
    documents = np.flatnonzero(rng.random(1500) < 0.9)
    count = sum(
        -(-len(documents[start : start + utility.SORTED * 8]) // 8)
        for start in range(0, len(documents), utility.SORTED * 8)
    )
    batches = utility._batches(documents, lengths, 8, np.random.default_rng(1))
    rounds = [[next(batches) for _ in range(count)] for _ in range(2)]
    for batch_list in rounds:
        assert (np.sort(np.concatenate(batch_list)) == documents).all()
        assert {len(batch) for batch in batch_list} <= {7, 8}
        spread = np.mean([np.ptp(lengths[batch]) for batch in batch_list])
        assert spread < 10  # about 75 in batches of 8 that are not sorted
        means = np.array([lengths[batch].mean() for batch in batch_list])
        assert 0.35 < (np.diff(means) > 0).mean() < 0.65  # short and long batches take turns
    shared = {frozenset(b.tolist()) for b in rounds[0]} & {frozenset(b.tolist()) for b in rounds[1]}
    assert not shared


@pytest.mark.parametrize("share", [1e-9, 0.3, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("count", [2, 3, 40])
def test_some_documents_train_and_others_measure(count: int, share: float) -> None:
    """A wrong version holds all of them out, and whoever trains then waits forever."""
    assert 1 <= models.held_out_documents(count, share, 0).sum() <= count - 1


def of_four(encoder: Encoder, *labels: int, **options: Any) -> Classifier:
    """A classifier that learns from four documents."""
    return tuned(encoder, corpus([CAT], [DOG], [FISH], []), labels, 1, **options)


test_what_fine_tuning_refuses = refused(
    (lambda encoder: of_four(encoder, 0, 1, 0), r"labels: got int64 of shape \(3,\), expected 4"),
    (lambda encoder: of_four(encoder, *IN_TURN, held_out=0.0), "held_out: got 0.0"),
)
