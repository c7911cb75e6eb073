"""Pieces of a tokenizer as a corpus: a tiny WordPiece one, and a byte-level one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers
from helpers import refused
from tiny_generators import tiny_tokenizer
from tiny_models import PIECES, SPECIAL, piece, tiny_family

from textpriv.data.tokens import Corpus
from textpriv.models import pieces

UNUSED = ["[unused0]", "[unused12]"]
NOT_UNUSED = ["[unused]", "unused7", "[unused1]x"]


def wordpiece(names: list[str]) -> Any:
    """The tiny models' tokenizer with a vocabulary of these pieces."""
    return transformers.BertTokenizerFast(
        vocab={name: row for row, name in enumerate(names)}, do_lower_case=True
    )


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return wordpiece(PIECES)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tokenizers of the families that are no BERT."""
    folder = tmp_path_factory.mktemp("others")
    return {
        family: tiny_family(folder / family, family).tokenizer
        for family in ("roberta", "mpnet", "t5")
    }


def rows(corpus: Corpus) -> list[list[str]]:
    return [[PIECES[i] for i in corpus[row]] for row in range(len(corpus))]


def test_texts_become_pieces_and_texts_again(tokenizer: Any) -> None:
    assert len(pieces.encode(tokenizer, [])) == 0
    texts = ["The cat sat on the mat!", "", "SNOWBALL ran", "   "]
    corpus = pieces.encode(tokenizer, texts)
    assert rows(corpus) == ["the cat sat on the mat !".split(), [], ["snow", "##ball", "ran"], []]
    assert corpus.ids.dtype == corpus.offsets.dtype == np.int64
    assert corpus.offsets.tolist() == [0, 7, 7, 10, 10]
    decoded = pieces.decode(tokenizer, corpus)
    joined = [each.replace(" !", "!") for each in decoded]
    assert joined == ["the cat sat on the mat!", "", "snowball ran", ""]
    assert all(type(each) is str for each in decoded)
    again = pieces.encode(tokenizer, decoded)
    assert again.ids.tolist() == corpus.ids.tolist()


def test_no_special_token_is_added_and_none_is_spelled(tokenizer: Any) -> None:
    corpus = pieces.encode(tokenizer, ["cat xyz dog"])
    assert rows(corpus) == [["cat", "[UNK]", "dog"]]
    assert pieces.decode(tokenizer, corpus) == ["cat dog"]
    framed = Corpus(
        np.array([piece(name) for name in ("[CLS]", "cat", "[SEP]", "[PAD]")]), np.array([0, 4])
    )
    assert pieces.decode(tokenizer, framed) == ["cat"]


@pytest.mark.parametrize("longest", [1, 7, np.int64(2)])
def test_the_first_pieces_are_kept(tokenizer: Any, longest: int) -> None:
    texts = ["the cat sat on the mat!", "dog", "", "snowball snowball"]
    every = pieces.encode(tokenizer, texts)
    cut = pieces.encode(tokenizer, texts, longest=longest)
    for row in range(len(texts)):
        assert cut[row].tolist() == every[row][:longest].tolist()


def test_texts_that_are_read_in_parts_are_the_same_texts(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(PIECES[-n:]) for n in (3, 1, 4)] + ["", " ".join(PIECES[-2:])]
    whole = pieces.encode(tokenizer, texts, longest=3)
    monkeypatch.setattr(pieces, "_TEXTS", 2)
    parts = pieces.encode(tokenizer, texts, longest=3)
    assert np.diff(parts.offsets).max() == 3 and (parts.offsets == whole.offsets).all()
    assert (parts.ids == whole.ids).all()


def test_a_text_beyond_the_models_length_is_whole_without_a_warning(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    short = wordpiece(PIECES)
    short.model_max_length = 4
    with caplog.at_level("WARNING"):
        corpus = pieces.encode(short, ["cat " * 50])
    assert len(corpus.ids) == 50 and not caplog.records


def test_the_vocabulary_is_in_the_order_of_ids() -> None:
    assert pieces.vocabulary(wordpiece(PIECES)) == tuple(PIECES)
    byte_level = tiny_tokenizer()
    names = pieces.vocabulary(byte_level)
    assert names == tuple(byte_level.convert_ids_to_tokens(list(range(len(byte_level)))))


def test_special_ids_are_special_and_unused_pieces() -> None:
    names = [*SPECIAL[:2], *UNUSED, *SPECIAL[2:], "cat", *NOT_UNUSED, "[unused3]"]
    ids = pieces.special_ids(wordpiece(names))
    assert ids.dtype == np.int64
    assert [names[i] for i in ids] == [*SPECIAL[:2], *UNUSED, *SPECIAL[2:], "[unused3]"]
    assert ids.tolist() == sorted(ids.tolist())
    assert pieces.special_ids(wordpiece(PIECES)).tolist() == [0, 1, 2, 3, 4]


def test_special_ids_of_every_family(others: dict[str, Any]) -> None:
    expected = {
        "roberta": ["<s>", "<pad>", "</s>", "<unk>", "madeupword0000", "<mask>"],
        "mpnet": ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"],
        "t5": ["<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>"],
    }
    for family, tokenizer in others.items():
        ids = pieces.special_ids(tokenizer).tolist()
        assert tokenizer.convert_ids_to_tokens(ids) == expected[family]


def test_pieces_as_wordpiece_writes_them(tokenizer: Any, others: dict[str, Any]) -> None:
    """Among them: a letter and a full stop without a space before, the space alone."""
    assert pieces.as_wordpieces(tokenizer) == tuple(PIECES)
    expected = {
        "roberta": {
            "Ġcat": "cat", "t": "##t", ".": ".", "Ġ": "Ġ", "4": "##4", "<mask>": "<mask>",
            "<s>": "<s>",
        },
        "t5": {"▁cat": "cat", "ball": "##ball", "▁": "▁", "</s>": "</s>"},
        "mpnet": {"cat": "cat", "##ball": "##ball", "<mask>": "<mask>"},
    }  # fmt: skip
    for family, names in expected.items():
        every = pieces.vocabulary(others[family])
        spelt = dict(zip(every, pieces.as_wordpieces(others[family]), strict=True))
        assert {name: spelt[name] for name in names} == names


def test_texts_become_pieces_of_every_family(others: dict[str, Any]) -> None:
    for tokenizer in others.values():
        corpus = pieces.encode(tokenizer, [" the cat sat", "", " on the mat"])
        assert np.diff(corpus.offsets).tolist() == [3, 0, 3]
        decoded = [text.strip() for text in pieces.decode(tokenizer, corpus)]
        assert decoded == ["the cat sat", "", "on the mat"]


test_bad_input = refused(
    (lambda tokenizer: pieces.encode(tokenizer, "cat"), "texts: got one string"),
    (lambda tokenizer: pieces.encode(tokenizer, ["cat"], longest=0), "longest: got 0, expected N"),
)
