"""Encoders, the masked LM, fine-tuning and rows of WordPieces, with tiny random models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers import refused
from tiny_models import (
    CAT,
    FAMILIES,
    FISH,
    MAT,
    PIECES,
    SAT,
    SNOWBALL,
    THE,
    WORDS,
    piece,
    tiny_family,
    write_family,
)
from transformers.models.t5.modeling_t5 import T5Attention

from textpriv.data.tokens import KEPT, UNKNOWN, Corpus, ranges
from textpriv.errors import InvalidInput
from textpriv.models import (
    Encoder,
    MaskedSizes,
    Pieces,
    Rows,
    Training,
    autocast,
    by_length,
    endless,
    filling,
    fine_tune,
    from_folder,
    held_out_documents,
    masked_language_model,
)
from textpriv.models.classifiers import Classifier


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", params=FAMILIES)
def any_encoder(folder: Path, request: pytest.FixtureRequest) -> Encoder:
    return tiny_family(folder / f"any-{request.param}", request.param)


@pytest.fixture(scope="module")
def roberta(folder: Path) -> Encoder:
    return tiny_family(folder / "roberta", "roberta", head=True)


@pytest.fixture(scope="module")
def t5(folder: Path) -> Encoder:
    return tiny_family(folder / "t5", "t5")


def two_rows(encoder: Encoder) -> Rows:
    """Two rows of three and five pieces, padded."""
    ids = encoder.tokenizer(["the cat", "the cat sat on"], add_special_tokens=False)["input_ids"]
    most = max(map(len, ids))
    pad = encoder.tokenizer.pad_token_id
    return Rows(
        np.array([row + [pad] * (most - len(row)) for row in ids]),
        np.array([[0] * len(row) + [-1] * (most - len(row)) for row in ids]),
    )


def test_states_and_gradients_at_some_positions(any_encoder: Encoder, exact: None) -> None:
    """Packed they are those of the whole model, whatever the padding and the types."""
    encoder, rows = any_encoder.clone(), two_rows(any_encoder)
    row, column = np.array([1, 0, 1]), np.array([rows.ids.shape[1] - 1, 1, 0])
    types = np.tile(np.arange(rows.ids.shape[1]) > 0, (2, 1))
    weights = [each for each in encoder.body.parameters() if each.requires_grad]
    both = []
    for states in (
        encoder.states(rows, types=types)[row, column],
        encoder.states_at(rows, row, column, types=types),
    ):
        gradients = torch.autograd.grad(states.square().sum(), weights, allow_unused=True)
        both.append([states, *(each for each in gradients if each is not None)])
    assert len(both[0]) == len(both[1])
    for whole, packed in zip(*both, strict=True):
        assert torch.allclose(whole, packed, atol=1e-4, rtol=1e-4)
    noisy = any_encoder.clone(dropout=0.5)
    noisy.model.train()
    assert not torch.allclose(noisy.states_at(rows, row, column, types=types), both[0][0])


def test_what_stands_between_texts_is_what_the_tokenizer_writes(any_encoder: Encoder) -> None:
    tokenizer = any_encoder.tokenizer
    one, other = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("the cat", "dog")
    )
    first, last = any_encoder.framed(1)
    assert first + one + last == tokenizer("the cat")["input_ids"]
    first, middle, last = any_encoder.framed(2)
    assert first + one + middle + other + last == tokenizer("the cat", "dog")["input_ids"]


def test_the_longest_row_fits(any_encoder: Encoder) -> None:
    """And one piece more does not, but where positions are relative."""
    for more in (0, 1):
        ids = np.full(
            (1, any_encoder.longest + more), any_encoder.tokenizer.convert_tokens_to_ids("on")
        )
        rows = Rows(ids, np.zeros_like(ids))
        with torch.inference_mode():
            if more and any_encoder.model.config.model_type != "t5":
                with pytest.raises((IndexError, RuntimeError)):
                    any_encoder.states(rows)
            else:
                assert any_encoder.states(rows).shape[1] == any_encoder.longest + more


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_heads(folder: Path, family: str, exact: None) -> None:
    """A head of the folder is read as it is; an absent one lets the state itself ask the table."""
    where = write_family(folder / f"{family}-head", family, head=True)
    encoder = from_folder(family, where, digest="")
    rows = two_rows(encoder)
    reference = transformers.AutoModelForMaskedLM.from_pretrained(where).eval()
    with torch.inference_mode():
        states = encoder.states(rows)
        expected = reference(
            input_ids=torch.from_numpy(rows.ids),
            attention_mask=torch.from_numpy(rows.segments >= 0),
        ).logits
        assert encoder.can_fill and torch.allclose(encoder.logits(states), expected, atol=1e-5)
        by_hand = encoder.asked(states) @ encoder.table.T + encoder.head.bias
        assert torch.allclose(encoder.logits(states), by_hand, atol=1e-5)
        plain = tiny_family(folder / f"{family}-headless", family)
        states = plain.states(rows)
        width = (plain.width,)
        asked = torch.nn.functional.layer_norm(torch.nn.functional.gelu(states), width, eps=1e-12)
        assert not plain.can_fill and torch.allclose(plain.asked(states), asked, atol=1e-4)
        assert torch.allclose(plain.logits(states), asked @ plain.table.T, atol=1e-3)


class Body(torch.nn.Module):
    """The first module of a SentenceTransformer: pieces become states."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.body, self.device = encoder.body, encoder.device

    def forward(self, given: dict[str, Any]) -> dict[str, Any]:
        with autocast(self.device):
            states = self.body(**given).last_hidden_state
        return {**given, "token_embeddings": states.float()}


def test_states_are_pooled_as_by_a_sentence_transformer(any_encoder: Encoder) -> None:
    """To the last bit, and so is what a classifier on top of it learns: parameters in one order."""
    from sentence_transformers import SentenceTransformer  # slow to import
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder, rows = any_encoder, two_rows(any_encoder)
    modules = [Body(encoder), Pooling(encoder.width, "mean")]
    whole = SentenceTransformer(modules=modules, device="cpu").eval()
    types = np.tile(np.arange(rows.ids.shape[1]) > 0, (2, 1))
    with torch.inference_mode():
        pooled = encoder.pooled(rows, types=types)
        expected = whole(encoder.inputs(rows, types=types))["sentence_embedding"]
    assert torch.equal(pooled, expected) and pooled.shape == (len(rows.ids), encoder.width)
    made = Classifier(encoder)
    parameters = [*whole.parameters(), *made.pooler.parameters(), *made.classifier.parameters()]
    assert list(map(id, made.parameters())) == list(map(id, parameters))


def test_dropout_of_a_clone_is_that_of_every_layer(any_encoder: Encoder) -> None:
    """Attention included: without dropout, a model in training gives the states of any other."""
    rows = two_rows(any_encoder)
    states = any_encoder.states(rows)
    still, noisy = any_encoder.clone(), any_encoder.clone(dropout=0.5)
    for each in (still, noisy):
        each.model.train()
    assert torch.equal(still.states(rows), states)
    assert not torch.allclose(noisy.states(rows), states, atol=1e-2)
    with torch.no_grad():
        still.table.zero_()
    assert any_encoder.table.abs().sum() > 0  # a copy
    rates = {
        getattr(module, "p", module.dropout if hasattr(module, "dropout") else None)
        for module in noisy.model.modules()
        if isinstance(module, torch.nn.Dropout | T5Attention)
    }
    assert rates == {0.5}


def test_other_models_are_refused(folder: Path) -> None:
    where = write_family(folder / "other", "roberta")
    config = json.loads((where / "config.json").read_text())
    for change, says in (
        ({"pad_token_id": 3}, "tokenizer with padding 1, expected .* configuration, 3"),
        ({"num_hidden_layers": 3}, "expected the weights of a ROBERTA"),
        ({"model_type": "gpt2"}, "model_type 'gpt2', expected one of .*'roberta'"),
    ):
        (where / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(InvalidInput, match=says):
            from_folder("other", where, digest="")


def test_schedules() -> None:
    linear = Training(steps=20, learning_rate=1.0)
    assert [linear.rate(step) for step in (0, 1)] == [0.5, 1.0]
    rates = [linear.rate(step) for step in range(20)]
    assert max(rates) == 1.0 and rates[2:] == sorted(rates[2:], reverse=True)
    assert 0 < rates[-1] < 0.1
    tenths = Training(steps=5000, learning_rate=5e-5, schedule="tenths")
    assert [tenths.rate(step) for step in (0, 999)] == [5e-5, 5e-5]
    assert np.allclose([tenths.rate(step) for step in (1000, 2500)], [5e-6, 5e-7])


@pytest.mark.parametrize(("marks", "expected"), [(1, {10}), (2, {5, 10}), (30, set(range(1, 11)))])
def test_marks(marks: int, expected: set[int]) -> None:
    assert Training(steps=10, marks=marks).marked == expected


def test_fine_tuning_reaches_the_minimum() -> None:
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(layer.weight), torch.nn.init.zeros_(layer.bias)
    x = torch.linspace(-1, 1, 21)[:, None]
    seen: list[tuple[int, bool]] = []

    def loss(step: int) -> torch.Tensor:
        seen.append((step, layer.training))
        return ((layer(x) - (3 * x + 1)) ** 2).mean()

    def measure() -> float:
        assert torch.is_inference_mode_enabled() and not layer.training
        return float(layer.weight.detach())

    sizes = Training(steps=300, learning_rate=0.1, marks=3)
    curve = fine_tune([layer], loss, sizes, seed=0, measure=measure)
    assert seen == [(step, True) for step in range(300)]
    assert curve.steps == (100, 200, 300) and curve.seconds == tuple(sorted(curve.seconds))
    assert abs(curve.accuracy[-1] - 3) < 0.01 and abs(float(layer.bias.detach()) - 1) < 0.01


def test_fine_tuning_leaves_the_global_generator_alone() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    sizes = Training(steps=2)
    fine_tune([layer], lambda _: layer(torch.ones(2, 4)).sum(), sizes, seed=1, measure=lambda: 0.0)
    assert torch.equal(torch.rand(3), expected)


def test_endless_order() -> None:
    order = endless(np.array([4, 5, 6]), np.random.default_rng(0))
    drawn = order(0, 8)
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == [4, 5, 6]
    assert (order(2, 5) == drawn[2:5]).all()


# After "cat" always "sat", after "dog" always "ran": what a masked LM can learn.
SENTENCES = ["the cat sat on the snowball !", "the dog ran on the mat !"]


def texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(SENTENCES[which] for which in rng.integers(2, size=8)) for _ in range(count)]


def small(steps: int = 150, **options: Any) -> MaskedSizes:
    training = Training(steps=steps, batch=16, learning_rate=5e-3)
    return MaskedSizes(
        **{"training": training, "length": 24, "held_out": 40, "frequent": 1.0} | options
    )


def test_a_masked_lm_learns_and_says_how_well(encoder: Encoder, cache: Path) -> None:
    filler = masked_language_model(encoder, texts(200), small())
    assert filler.can_fill and filler.name == "tiny-masked-lm" and filler.digest != encoder.digest
    assert filler.accuracy is not None and filler.accuracy > 0.75
    held, _ = filling._blocks(encoder, texts(60, seed=9), 24, 40, 1)
    for verb, other in (("sat", "ran"), ("ran", "sat")):
        verbs = np.argwhere(held == piece(verb))
        rows = held[verbs[:, 0]]
        rows[np.arange(len(rows)), verbs[:, 1]] = piece("[MASK]")
        with torch.inference_mode():
            states = filler.states(Rows(rows, np.zeros_like(rows)))
            scores = filler.logits(states[np.arange(len(rows)), verbs[:, 1]])
        assert len(rows) > 20
        is_right = scores[:, piece(verb)] > scores[:, piece(other)]
        assert is_right.float().mean() > 0.75  # 0.5 without context
    (kept,) = (cache / "derived").glob("tiny-masked-lm-*/")
    measured = json.loads((kept / "measured.json").read_text())
    assert measured["accuracy"] == filler.accuracy


def test_it_is_trained_once_and_again_when_something_changes(
    encoder: Encoder, cache: Path, monkeypatch: Any
) -> None:
    trained = []
    train = filling._train_masked

    def count(*arguments: Any) -> Any:
        trained.append(arguments)
        return train(*arguments)

    monkeypatch.setattr(filling, "_train_masked", count)
    one = masked_language_model(encoder, texts(60), small(2))
    same = masked_language_model(encoder, texts(60), small(2))
    assert len(trained) == 1 and one.accuracy == same.accuracy
    assert all(
        torch.equal(value, same.model.state_dict()[key])
        for key, value in one.model.state_dict().items()
    )
    assert same.model.cls.predictions.decoder.weight is same.table  # still tied
    assert torch.equal(train(encoder, texts(60), small(2), 0)[0].table, one.table)  # one seed
    others: list[Encoder] = [
        masked_language_model(encoder, texts(60), small(2), seed=1),
        masked_language_model(encoder, texts(60, seed=1), small(2)),
        masked_language_model(encoder, texts(60), small(2, share=0.2)),
    ]
    assert len(trained) == 4 and len({one.digest, *(each.digest for each in others)}) == 4


def test_held_out_text_is_not_trained_on(encoder: Encoder) -> None:
    documents = ["the cat sat on the mat ! " * 6] * 30 + ["the dog ran on the snowball ! " * 6] * 8
    held, rows = filling._blocks(encoder, documents, 24, 16, 100)
    assert piece("dog") in held and piece("cat") not in held
    assert piece("cat") in rows and piece("dog") not in rows
    for block in (held, rows):
        assert block.shape[1] == 24 and len(block)
        assert (block[:, 0] == piece("[CLS]")).all() and (block[:, -1] == piece("[SEP]")).all()


def test_only_whole_words_are_masked(encoder: Encoder) -> None:
    ids = np.array([encoder.tokenizer("the snowball sat ! xyz cat")["input_ids"]])
    names = encoder.tokenizer.convert_ids_to_tokens(ids[0].tolist())
    assert names == ["[CLS]", "the", "snow", "##ball", "sat", "!", "[UNK]", "cat", "[SEP]"]
    whole = filling._WholeWords(encoder.tokenizer)
    mask = whole.draw(ids, np.ones(len(PIECES)), np.random.default_rng(0))
    assert mask[0].tolist() == [False, True, False, False, True, True, False, True, False]
    shares = np.zeros(len(PIECES))
    shares[piece("cat")] = 1.0
    only = whole.draw(ids, shares, np.random.default_rng(0))
    assert np.flatnonzero(only[0]).tolist() == [7]


def test_whole_words_of_pieces_of_bytes(roberta: Encoder) -> None:
    """A word is what stands between spaces, and whole if it is one piece."""
    tokenizer = roberta.tokenizer
    ids = np.array([tokenizer(" cat catty dog ran. sat")["input_ids"]])
    names = tokenizer.convert_ids_to_tokens(ids[0].tolist())
    assert names == ["<s>", "Ġcat", "Ġcat", "t", "y", "Ġdog", "Ġran", ".", "Ġsat", "</s>"]
    mask = filling._WholeWords(tokenizer).draw(
        ids, np.ones(len(tokenizer)), np.random.default_rng(0)
    )
    assert [names[i] for i in np.flatnonzero(mask[0])] == ["Ġcat", "Ġdog", "Ġsat"]
    assert mask[0, 1] and not mask[0, 2]


CORPUS = Corpus(
    ids=np.array([THE, SNOWBALL, SAT, CAT, KEPT, MAT], dtype=np.int64),
    offsets=np.array([0, 3, 3, 6], dtype=np.int64),
    kept={4: "!"},
)


def names(encoder: Encoder, rows: Rows) -> list[str]:
    return [" ".join(encoder.tokenizer.convert_ids_to_tokens(row.tolist())) for row in rows.ids]


def test_pieces_of_words_and_tokens(encoder: Encoder) -> None:
    pieces = Pieces(encoder.tokenizer, WORDS, CORPUS)
    every = np.arange(len(WORDS))
    assert names(encoder, pieces.rows([pieces.words(every)])) == [
        "cat [PAD]", "dog [PAD]", "fish [PAD]", "snow ##ball", "the [PAD]", "sat [PAD]",
        "ran [PAD]", "[UNK] [PAD]", "on [PAD]", "mat [PAD]",
    ]  # fmt: skip
    tokens = pieces.rows([pieces.tokens(np.array([4, 1, 0]))])
    assert names(encoder, tokens) == ["! [PAD]", "snow ##ball", "the [PAD]"]


def test_segments_follow_each_other(encoder: Encoder) -> None:
    pieces = Pieces(encoder.tokenizer, WORDS, CORPUS)
    spans = [pieces.special(which, 2) for which in ("first", "mask", "last")]
    word = pieces.words(np.array([SNOWBALL, FISH]))
    nothing = (word[0], np.zeros(2, dtype=np.int64))
    rows = pieces.rows([spans[0], word, nothing, spans[1], spans[2]])
    expected = ["[CLS] snow ##ball [MASK] [SEP]", "[CLS] fish [MASK] [SEP] [PAD]"]
    assert names(encoder, rows) == expected
    assert rows.segments.tolist() == [[0, 1, 1, 3, 4], [0, 1, 3, 4, -1]]
    assert rows.first(3).tolist() == [3, 2]
    with pytest.raises(InvalidInput, match="segment: got 2"):
        rows.first(2)


def test_what_stands_around(encoder: Encoder) -> None:
    pieces = Pieces(encoder.tokenizer, WORDS, CORPUS)

    def around(position: int, window: int | None = None, room: int = 30) -> list[str]:
        spans = pieces.around(np.array([position]), window=window, room=np.array([room]))
        return [names(encoder, pieces.rows([span]))[0] for span in spans]

    assert around(0) == ["", "snow ##ball sat"]
    assert around(2) == ["the snow ##ball", ""]
    assert around(3) == ["", "! mat"]  # nothing of the document before
    assert around(2, window=1) == ["snow ##ball", ""]
    assert around(2, room=2) == ["snow ##ball", ""]
    assert around(1, room=1) == ["", "sat"]
    assert around(4, room=2) == ["cat", "mat"]
    assert around(0, room=2) == ["", "snow ##ball"]


def test_passages(encoder: Encoder) -> None:
    pieces = Pieces(encoder.tokenizer, WORDS, CORPUS)
    assert pieces.passages(40).tolist() == [0, 3, 6]
    assert pieces.passages(5).tolist() == [0, 2, 3, 5, 6]
    assert pieces.passages(4).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_passages_never_cross_documents_and_fit(encoder: Encoder) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, size=60)
    corpus = Corpus(
        ids=rng.integers(len(WORDS), size=lengths.sum()),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
    )
    pieces = Pieces(encoder.tokenizer, WORDS, corpus)
    for longest in (5, 8, 20):
        bounds = pieces.passages(longest)
        assert bounds[0] == 0 and bounds[-1] == len(corpus.ids) and (np.diff(bounds) > 0).all()
        document = corpus.document
        assert (document[bounds[:-1]] == document[bounds[1:] - 1]).all()
        assert pieces.stretch(bounds[:-1], bounds[1:])[1].max() <= longest - 2
    empty = Corpus(ids=np.zeros(0, dtype=np.int64), offsets=np.zeros(3, dtype=np.int64))
    assert Pieces(encoder.tokenizer, WORDS, empty).passages(9).tolist() == [0]


def test_ranges_and_batches() -> None:
    assert ranges(np.array([5, 9, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]
    assert len(ranges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0
    batches = [each.tolist() for each in by_length(np.array([3, 9, 5, 9, 1]), 2)]
    assert batches == [[1, 3], [2, 0], [4]]


NO_HEAD = "tiny-t5: has no masked-LM head"
STATES, ROOM = torch.zeros(1, 1, 16), np.array([30])


def split(encoder: Encoder, *ids: int) -> Pieces:
    made = Corpus(np.array(ids), np.array([0, len(ids)])) if ids else CORPUS
    return Pieces(encoder.tokenizer, WORDS, made)


test_bad_input_is_named = refused(
    (lambda t5: t5.asked(STATES), NO_HEAD),
    (lambda t5, cache: masked_language_model(t5, texts(60), small(1)), NO_HEAD),
    (lambda encoder: encoder.clone(dropout=1.0), "dropout: got 1.0"),
    (lambda: Training(steps=0), "steps: got 0"),
    (lambda: Training(steps=1, batch=0), "batch: got 0"),
    (lambda: Training(steps=1, marks=0), "marks: got 0"),
    (lambda: Training(steps=1, learning_rate=0.0), "learning_rate: got 0.0"),
    (lambda: Training(steps=1, learning_rate=float("nan")), "learning_rate: got nan"),
    (lambda: Training(steps=1, dropout=1.0), "dropout: got 1.0"),
    (lambda: Training(steps=1, weight_decay=-1.0), "weight_decay: got -1.0"),
    (lambda: held_out_documents(1, 0.5, 0), "documents: got 1, expected at least 2"),
    (lambda: Training(steps=1, schedule="cosine"), "schedule: got 'cosine'"),  # type: ignore[arg-type]
    (lambda encoder: filling._blocks(encoder, ["the cat sat on"], 24, 40, 1), "texts: got 1"),
    (lambda encoder: split(encoder).around(np.array([0]), window=-1, room=ROOM), "window: got -1"),
    (lambda encoder: split(encoder).passages(3), "longest: got 3"),
    (lambda encoder: split(encoder, UNKNOWN), "corpus: got ids"),
    (lambda roberta: split(roberta), "tokenizer: got BPE, expected WordPiece"),
    (lambda t5: split(t5), "tokenizer: got Unigram, expected WordPiece"),
)
