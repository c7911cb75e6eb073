"""Texts in, words out: nothing crashes, nothing hangs, and what a policy hides stays hidden."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers import POWER, fits, power_of_share, refused, share_fits
from hypothesis import given, settings
from hypothesis import strategies as st

from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, KEPT, UNKNOWN, Corpus, Tokenizer, TokenPolicy
from textpriv.mechanisms import Madlib, SanText

WORDS = ("the", "rock", "is", "not", "can", "ca", "do", "will", "we", "have", "great", "3", "u.s",
         "!", "...", "…", "é", "rock-solid", "a b")  # fmt: skip
SMALL = from_arrays("small", ["one", "two", "three", "four"], np.eye(4)[:, :3])
everything = st.text(st.characters(exclude_categories=()))  # surrogates too
more = settings(max_examples=300)


def corpus(ids: list[int], *lengths: int, kept: dict[int, str] | None = None) -> Corpus:
    return Corpus(np.array(ids, dtype=np.int64), np.cumsum([0, *lengths]), kept or {})


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t\r\n\u2028\u00a0\u3000\x1c", []),
        ("Hockey is GREAT!", ["hockey", "is", "great", "!"]),
        ("the U.S. (1,000.5 dollars)", ["the", "u.s", ".", "(", "1,000.5", "dollars", ")"]),
        ("rock-solid snake_case", ["rock", "-", "solid", "snake", "_", "case"]),
        ("we’ll", ["we", "will"]),
        ("don't", ["do", "not"]),
        ("can't won't shan't ain't", ["can", "not", "will", "not", "shall", "not", "ai", "not"]),
        ("we're I've I'd I'm", ["we", "are", "i", "have", "i", "would", "i", "am"]),
        ("the rock's", ["the", "rock", "'s"]),
        ("o'clock 'tis rocks'", ["o'clock", "'", "tis", "rocks", "'"]),
        ("'s n't", ["'", "s", "n't"]),  # nothing before: no contraction
        ("e\u0301", ["é"]),  # composed, as vocabularies are
        ("naïve Ærø ﬁ", ["naïve", "ærø", "ﬁ"]),
        ("שלום\u202eabc", ["שלום", "\u202e", "abc"]),
        ("👍🏽", ["👍", "🏽"]),
        ("a\u200bb\x00c", ["a", "\u200b", "b", "\x00", "c"]),
        ("\ud800x", ["\ud800", "x"]),
        ("日本語です", ["日本語です"]),
    ],
)
def test_a_text_splits_into_tokens(text: str, tokens: list[str]) -> None:
    assert Tokenizer(WORDS).split(text) == tokens


def test_contractions_follow_the_vocabulary() -> None:
    clitics = ("do", "ca", "n't", "'s", "he", "we'll", "not")
    for apostrophe in "'’":
        text = "don't can't he's we'll".replace("'", apostrophe)
        assert Tokenizer(clitics).split(text)[:6] == ["do", "n't", "ca", "n't", "he", "'s"]
    assert Tokenizer(clitics).split("we'll") == ["we'll"]  # a word of its own
    assert Tokenizer(("do", "not")).split("don't") == ["do", "not"]
    # A clitic is a word where the vocabulary has it, and else punctuation.
    assert Tokenizer(("he", "'s")).encode(["he's"]).ids.tolist() == [0, 1]
    assert Tokenizer(("he", "is")).encode(["he's"]).ids.tolist() == [0]


@given(everything)
@more
def test_tokens_are_what_is_not_white_space(text: str) -> None:
    tokens = Tokenizer(WORDS).split(text)
    assert all(token and not re.search(r"\s", token) for token in tokens)
    if "'" not in text and "’" not in text:  # contractions may change letters
        expected = unicodedata.normalize("NFC", text).lower()
        assert "".join(tokens) == re.sub(r"\s", "", expected)


MILLION = 300_000
HOSTILE: dict[str, Callable[[], str]] = {
    "one word": lambda: "a" * MILLION,
    "words": lambda: "the x " * (MILLION // 6),
    "full stops inside": lambda: "a." * (MILLION // 2),
    "apostrophes inside": lambda: "a'" * (MILLION // 2),
    "contractions in a row": lambda: "n't" * (MILLION // 3),
    "white space": lambda: " " * MILLION,
    "NUL": lambda: "\0" * MILLION,
    "lone surrogates": lambda: "\ud800" * MILLION,
    "right to left": lambda: "\u202eשלום " * (MILLION // 6),
    "emoji": lambda: "👩‍👩‍👧" * (MILLION // 5),
    "one mark repeated": lambda: "a" + "\u0301" * MILLION,
    "marks out of order": lambda: "a" + "\u0315\u0300" * (MILLION // 2),
    "marks that compose": lambda: "a\u0323\u0302" * (MILLION // 3),
    "letters that grow": lambda: "İ" * (MILLION // 4),
    "Hangul letters": lambda: "\u1100\u1161\u11a8" * (MILLION // 3),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_neither_crashes_nor_hangs(name: str) -> None:
    text, tokenizer = HOSTILE[name](), Tokenizer(WORDS)
    started = time.process_time()
    encoded = tokenizer.encode([text, "the rock"])
    assert time.process_time() - started < 5
    assert encoded[1].tolist() == [0, 1]
    clean = encoded.with_ids(np.maximum(encoded.ids, 0))
    assert set(tokenizer.decode(clean)[0].split()) <= {"the", "not"}


def test_marks_beyond_what_scripts_stack_are_dropped_and_no_others() -> None:
    split = Tokenizer(WORDS).split
    vietnamese, stacked = "Tiếng Việt", "e" + "\u0315\u0300" * 15
    assert split(unicodedata.normalize("NFD", vietnamese)) == ["tiếng", "việt"]
    assert split(stacked) == split(stacked + "\u0315\u0300" * 50)
    assert len(split(stacked)) == 1 + 29  # one of thirty marks composes with its letter


TEXT = "The rock, 3 or 44: Xanadu!"  # known: the rock 3 !   unknown: or 44 xanadu , :


@pytest.mark.parametrize(
    ("options", "expected"),
    [  # what is put for each token: its id, -1 unknown, -2 kept, nothing where dropped
        ({}, [0, 1, 11, -1, -1, -1]),
        ({"punctuation": "word"}, [0, 1, -1, 11, -1, -1, -1, -1, 13]),
        ({"punctuation": "keep"}, [0, 1, -2, 11, -1, -1, -2, -1, -2]),
        ({"numbers": "drop"}, [0, 1, -1, -1]),
        ({"numbers": "keep"}, [0, 1, -2, -1, -2, -1]),
        ({"unknown": "drop"}, [0, 1, 11]),
        ({"unknown": "keep"}, [0, 1, 11, -2, -2, -2]),
        ({"unknown": "drop", "punctuation": "word"}, [0, 1, 11, 13]),
        ({"unknown": "keep", "punctuation": "word"}, [0, 1, -2, 11, -2, -2, -2, -2, 13]),
    ],
)
def test_every_option_does_what_it_says(options: dict[str, Any], expected: list[int]) -> None:
    tokenizer = Tokenizer(WORDS, TokenPolicy(name="tried", **options))
    encoded = tokenizer.encode([TEXT])
    assert encoded.ids.tolist() == expected
    assert set(encoded.kept) == set(np.flatnonzero(encoded.ids == KEPT).tolist())
    assert set(encoded.kept.values()) <= set(Tokenizer(WORDS).split(TEXT))


def test_what_is_kept_comes_out_at_its_place() -> None:
    tokenizer = Tokenizer(WORDS, KEEP_UNKNOWN)
    assert tokenizer.decode(tokenizer.encode([TEXT, "Do not!"])) == [
        "the rock , 3 or 44 : xanadu !",
        "do not !",
    ]


def test_words_of_are_the_tokens_that_a_mechanism_sees() -> None:
    tokenizer = Tokenizer(WORDS)
    texts = [TEXT, "", "don't!"]
    words = tokenizer.words_of(texts)
    assert words == ["the rock 3 or 44 xanadu", "", "do not"]
    lengths = [len(text.split()) for text in words]
    assert lengths == np.diff(tokenizer.encode(texts).offsets).tolist()


def test_encode_gives_flat_ids_with_offsets() -> None:
    encoded = Tokenizer(WORDS).encode(text for text in ["the rock", "", "Xanadu is great"])
    assert encoded.ids.tolist() == [0, 1, UNKNOWN, 2, 10]
    assert encoded.offsets.tolist() == [0, 2, 2, 5] and len(encoded) == 3
    assert encoded[0].tolist() == [0, 1] and encoded[1].tolist() == []
    assert encoded.document.tolist() == [0, 0, 2, 2, 2]
    assert encoded.counts(len(WORDS)).tolist() == [1, 1, 1, *[0] * 7, 1, *[0] * 8]
    assert encoded.ids.dtype == encoded.offsets.dtype == np.int64
    empty = Tokenizer(WORDS).encode([])
    assert (len(empty), Tokenizer(WORDS).decode(empty)) == (0, [])


@given(st.lists(st.lists(st.integers(0, 3)), max_size=5))
@more
def test_decoding_is_the_inverse_of_encoding(documents: list[list[int]]) -> None:
    tokenizer = Tokenizer(SMALL.words)
    texts = [" ".join(SMALL.words[word] for word in document) for document in documents]
    encoded = tokenizer.encode(texts)
    assert [encoded[i].tolist() for i in range(len(encoded))] == documents
    assert tokenizer.decode(encoded) == texts


def test_kept_tokens_and_document_bounds_stay() -> None:
    before = corpus([0, KEPT, 2, UNKNOWN, 1], 2, 0, 3, kept={1: "Xanadu"})
    for reuse in (False, True):
        after = SanText(SMALL, epsilon=1.0).sanitize_corpus(before, reuse=reuse)
        np.testing.assert_array_equal(after.offsets, before.offsets)
        assert np.flatnonzero(after.ids == KEPT).tolist() == [1] and after.kept == before.kept
        assert np.delete(after.ids, 1).min() >= 0
        assert before.ids.tolist() == [0, KEPT, 2, UNKNOWN, 1]


@pytest.mark.parametrize("mechanism", [SanText(SMALL, epsilon=1.0), Madlib(SMALL, epsilon=1.0)])
def test_how_tokens_are_cut_into_documents_does_not_matter(mechanism: Any) -> None:
    ids = np.random.default_rng(0).integers(-1, 4, 60).tolist()
    cuts = [corpus(ids, 60), corpus(ids, *[1] * 60), corpus(ids, 0, 25, 0, 30, 5, 0)]
    drawn = [mechanism.sanitize_corpus(cut, np.random.default_rng(5)).ids for cut in cuts]
    for one, other in pairwise(drawn):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        drawn[0], mechanism.sanitize_ids(np.array(ids), np.random.default_rng(5))
    )


def test_a_kept_token_takes_no_draw() -> None:
    santext = SanText(SMALL, epsilon=1.0)
    with_kept = corpus([0, KEPT, 2, KEPT], 4, kept={1: ",", 3: "!"})
    drawn = santext.sanitize_corpus(with_kept, np.random.default_rng(5)).ids[[0, 2]]
    np.testing.assert_array_equal(
        drawn, santext.sanitize_ids(np.array([0, 2]), np.random.default_rng(5))
    )


def repeated(documents: int) -> Corpus:
    """Documents `one two one <unknown> one <unknown>`."""
    return corpus([0, 1, 0, UNKNOWN, 0, UNKNOWN] * documents, *[6] * documents)


def test_reuse_gives_one_draw_per_word_and_document() -> None:
    n = 20_000
    santext = SanText(SMALL, epsilon=1.0)
    law = np.exp(santext.log_rows(np.arange(4)))
    table = santext.sanitize_corpus(repeated(n), np.random.default_rng(1), reuse=True).ids
    table = table.reshape(n, 6)
    assert (table[:, [2, 4]] == table[:, [0]]).all()
    assert fits(np.bincount(table[:, 0], minlength=4), law[0])
    assert fits(np.bincount(table[:, 1], minlength=4), law[1])
    # Independent between documents, between words, and for each unknown token.
    unknown = law.mean(0)
    for one, other, agree in (
        (table[:-1:2, 0], table[1::2, 0], law[0] @ law[0]),
        (table[:, 0], table[:, 1], law[0] @ law[1]),
        (table[:, 3], table[:, 5], unknown @ unknown),
        (table[:, 0], table[:, 3], law[0] @ unknown),
    ):
        assert share_fits(int((one == other).sum()), len(one), agree)
        assert power_of_share(1.0, agree, len(one)) >= POWER  # wrong: one draw for all


def test_without_reuse_every_token_has_its_own_draw() -> None:
    n = 20_000
    santext = SanText(SMALL, epsilon=1.0)
    law = np.exp(santext.log_rows([0]))[0]
    table = santext.sanitize_corpus(repeated(n), np.random.default_rng(1)).ids.reshape(n, 6)
    for a, b in ((0, 2), (0, 4), (2, 4)):
        assert share_fits(int((table[:, a] == table[:, b]).sum()), n, law @ law)


@given(
    st.lists(st.lists(st.integers(-2, 5), max_size=4), min_size=1, max_size=6),
    st.lists(st.integers(0, 100), max_size=8),
)
@more
def test_a_subset_is_a_list_of_documents(documents: list[list[int]], chosen: list[int]) -> None:
    ids = [word for document in documents for word in document]
    texts = {place: f"t{place}" for place, word in enumerate(ids) if word == KEPT}
    whole = corpus(ids, *map(len, documents), kept=texts)
    rows = [number % len(documents) for number in chosen]
    part = whole.subset(np.array(rows, dtype=np.int64))
    assert [part[i].tolist() for i in range(len(part))] == [documents[row] for row in rows]
    named = [
        texts.get(place)
        for row in rows
        for place in range(whole.offsets[row], whole.offsets[row + 1])
    ]
    assert [part.kept.get(place) for place in range(len(part.ids))] == named


def made(ids: Any, offsets: Any) -> Corpus:
    return Corpus(np.array(ids), np.array(offsets, dtype=None if offsets else np.int64))


policy: Any = partial(TokenPolicy, name="wrong")
encode: Any = Tokenizer(WORDS).encode
decode = Tokenizer(SMALL.words).decode
THREE = corpus([0, KEPT, 2], 1, 2, kept={1: "x"})
NO_TEXT = "texts?: got .*expected a string"

test_bad_input_is_named = refused(
    (lambda: policy(punctuation="hide"), "punctuation: got .*expected one of"),
    (lambda: policy(numbers="hide"), "numbers: got .*expected one of"),
    (lambda: policy(unknown="hide"), "unknown: got .*expected one of"),
    (lambda: decode(corpus([UNKNOWN], 1)), "unknown words.*sanitize first"),
    (lambda: decode(corpus([4], 1)), "got id 4, expected 0..3"),
    (lambda: decode(corpus([-3], 1)), "-3"),
    (lambda: Tokenizer("text"), "words: got 'text', expected a list of words"),
    (lambda: Tokenizer([]), "at least two words"),
    (lambda: Tokenizer(["one"]), "at least two words"),
    (lambda: Tokenizer(["one", "two", "one"]), "expected no word twice"),
    (lambda: encode([None]), NO_TEXT),
    (lambda: encode("the rock"), r"use \[text\]"),
    (lambda: made([0, 1], []), "offsets: got int64 of shape"),
    (lambda: made([0, 1], [0, 1]), "got 0 .. 1, expected 0 .. 2"),
    (lambda: made([0, 1], [1, 2]), "got 1 .. 2"),
    (lambda: made([0, 1], [0, 2, 1, 2]), "some that decrease"),
    (lambda: made([0, KEPT], [0, 2]), "kept: expected a text for every token"),
    (lambda: made([0.0, 1.0], [0, 2]), "ids: expected a 1-d int64 array"),
    (lambda: made([[0, 1]], [0, 1]), "ids: expected a 1-d int64 array"),
    (lambda: made([0, 1], [[0, 2]]), "offsets: got int64 of shape"),
    (lambda: THREE.with_ids(np.arange(2)), r"ids: got shape \(2,\), expected \(3,\)"),
)
