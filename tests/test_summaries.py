"""Summaries: passages and the greedy choice by hand, models that write, similarity by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import refused
from hypothesis import given
from hypothesis import strategies as st
from tiny_generators import tiny_family
from tiny_models import PIECES

from textpriv.models import Encoder, pieces
from textpriv.models.classifiers import features
from textpriv.models.generators import Generator, generate, likeliest
from textpriv.utility.summaries import INSTRUCTION, Extractive, Writer, similarity


def extractive(encoder: Encoder, tokens: int = 48, **changed: Any) -> Extractive:
    """With other passages or another weight than its own."""
    made: Extractive = type("Changed", (Extractive,), changed)(encoder, tokens)
    return made


def cut(small: Extractive, texts: list[str]) -> list[list[str]]:
    """Passages of every text, as pieces."""
    corpus = pieces.encode(small.encoder.tokenizer, texts)
    passages, counts = small.passages(corpus)
    assert counts.sum() == len(passages)
    spelled = [" ".join(PIECES[i] for i in passages[row].tolist()) for row in range(len(passages))]
    ends = np.cumsum([0, *counts])
    return [spelled[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


def test_a_passage_ends_with_a_stop_or_where_it_is_full(encoder: Encoder) -> None:
    small = extractive(encoder, passage=(2, 4))
    text = "cat sat ! dog ran on the mat fish ! ! cat"
    passages = cut(small, [text, "", "dog", "cat sat on mat", "dog ! cat", "cat dog fish cat dog"])
    assert passages == [
        # After four pieces the passage is full; "!" alone is too short to end one.
        ["cat sat !", "dog ran on the", "mat fish !", "! cat"],
        [],
        ["dog"],
        ["cat sat on mat"],
        ["dog !", "cat"],
        ["cat dog fish cat", "dog"],  # windows where there is no stop
    ]


@given(words=st.lists(st.sampled_from(["cat", "dog", "!", "snowball"]), max_size=30))
def test_passages_are_the_text_in_order(words: list[str], encoder: Encoder) -> None:
    small = extractive(encoder, passage=(3, 5))
    corpus = pieces.encode(encoder.tokenizer, [" ".join(words), "cat"])
    passages, counts = small.passages(corpus)
    np.testing.assert_array_equal(passages.ids, corpus.ids)
    lengths = np.diff(passages.offsets)
    assert (lengths >= 1).all() and (lengths <= 5).all()
    assert np.add.reduceat(lengths, [counts[0]])[0] == 1 == counts[1]


def units(*degrees: float) -> Any:
    angle = np.radians(degrees)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def test_the_choice_by_hand(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=20, weight=0.5)
    # Mean direction of 0, 10, 20 and 90 degrees: 27.6. The nearest is 20, then with half the
    # weight on novelty 90: cos 62.4 - cos 70 = 0.12, against cos 17.6 - cos 10 = -0.03.
    vectors, lengths = units(0, 10, 20, 90), np.array([10, 10, 10, 10])
    assert small.choose(vectors, lengths).tolist() == [2, 3]
    near = extractive(encoder, tokens=20, weight=1.0)
    assert near.choose(vectors, lengths).tolist() == [1, 2]


def test_the_choice_is_what_fits(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=20, weight=1.0)
    vectors = units(0, 10, 20, 90)
    assert small.choose(vectors, np.array([5, 11, 10, 6])).tolist() == [0, 2]
    assert small.choose(vectors, np.array([5, 5, 30, 5])).tolist() == [2]
    assert small.choose(vectors[:0], np.empty(0, np.int64)).tolist() == []


def test_redundancy_is_against_the_most_similar_one_chosen(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=3, weight=0.3)
    one = np.ones(5, dtype=np.int64)
    # 55 first, then 0. By the one chosen last, 80 would come next; but 55 is nearer to it than 0
    # is to 40.
    assert small.choose(units(0, 40, 55, 80, 60), one).tolist() == [0, 1, 2]


def test_a_summary_is_made_of_the_text(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=6, passage=(2, 3))
    text = "cat sat ! dog ran on the mat fish the snowball ran"
    (summary,) = small.summarize([text])
    corpus = pieces.encode(encoder.tokenizer, [text])
    passages, _ = small.passages(corpus)
    states = features(encoder, passages, longest=encoder.longest).astype(float)
    vectors = states / np.linalg.norm(states, axis=1, keepdims=True)
    chosen = small.choose(vectors, np.diff(passages.offsets))
    expected = pieces.decode(encoder.tokenizer, passages.subset(chosen))
    assert summary == " ".join(expected) and len(chosen) == 2


def test_summaries_do_not_depend_on_the_other_texts(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=5, passage=(2, 3))
    texts = ["cat sat on the mat ! dog ran", "", "fish", "dog dog dog cat ! the mat ran on"]
    together = small.summarize(texts)
    assert together == [small.summarize([text])[0] for text in texts]
    assert together[1] == "" and together[2] == "fish"


def test_a_first_passage_that_is_too_long_is_cut(encoder: Encoder) -> None:
    small = extractive(encoder, tokens=2, passage=(2, 5))
    assert small.summarize(["cat sat on the mat"]) == ["cat sat"]


@pytest.fixture(scope="module", params=["llama", "llama-chat", "bart", "t5"])
def generator(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    family = request.param.removesuffix("-chat")
    chat = request.param.endswith("-chat")
    folder = tmp_path_factory.mktemp(request.param)
    return tiny_family(folder, family, longest=160, chat=chat)


TEXTS = ["the cat", "do the dog the cat sat", "", "a cat sat on the dog the cat"]


@pytest.mark.parametrize("instruction", [INSTRUCTION, ""])
def test_every_family_writes_a_summary(generator: Generator, instruction: str) -> None:
    """Without an instruction the text stands alone."""
    texts = [text for text in TEXTS if text or instruction]
    summaries = Writer(generator, tokens=5, batch=2, instruction=instruction).summarize(texts)
    for text, summary in zip(texts, summaries, strict=True):
        prompt = generator.ask(f"{instruction}\n\n{text}" if instruction else text)
        ((_, outputs),) = generate(generator, [prompt], likeliest, tokens=5)
        assert summary == generator.say(outputs)[0]
    assert any(summaries)


def test_nothing_said_is_worth_nothing(encoder: Encoder) -> None:
    scores = similarity(encoder, ["cat", "", " \n", "cat"], ["", "cat", " ", "cat"])
    assert scores[:3].tolist() == [0, 0, 0] and scores[3] == pytest.approx(1)
    assert similarity(encoder, [], []).shape == (0,)


test_bad_input_is_named = refused(
    (lambda encoder: extractive(encoder, tokens=2.5), "tokens: got"),
    (lambda encoder: similarity(encoder, ["cat"], ["cat", "dog"]), "candidates: got 2 for 1 ref"),
    (lambda encoder: extractive(encoder).summarize("cat"), "got one string"),
)
