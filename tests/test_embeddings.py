"""Embeddings: what is loaded is exactly what the file says, and nothing malformed gets in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import refused

from textpriv import assets
from textpriv.data import embeddings
from textpriv.data.embeddings import Embedding, from_arrays, from_word2vec_text
from textpriv.errors import InvalidInput

WORDS = ("the", "at\xa0name@domain.com", "…", "a b", "hockey")
VECTORS = np.arange(15, dtype=np.float32).reshape(5, 3) / 7


@pytest.fixture
def small() -> Embedding:
    return from_arrays("small", WORDS, VECTORS)


def write_text(path: Path, *, header: bool = True, end: str = "\n") -> Path:
    lines = [f"{len(WORDS)} 3"] if header else []
    rows = zip(WORDS, VECTORS.tolist(), strict=True)
    lines += [" ".join([word, *map(str, row)]) for word, row in rows]
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


@pytest.mark.parametrize(
    "convert",
    [
        lambda v: v.astype(np.float64),
        np.asfortranarray,
        lambda v: v.astype(">f4"),
        lambda v: v.tolist(),
    ],
    ids=["float64", "fortran", "big endian", "list"],
)
def test_any_real_array_becomes_float32_rows(
    small: Embedding, convert: Callable[[np.ndarray[Any, Any]], Any]
) -> None:
    other = from_arrays("other", WORDS, convert(VECTORS))
    assert other.vectors.dtype == np.dtype("float32") and other.vectors.flags.c_contiguous
    np.testing.assert_array_equal(other.vectors, VECTORS)
    assert other.digest == small.digest


def test_ids(small: Embedding) -> None:
    ids = small.ids(["hockey", "unknown", "the", "hockey", ""])
    assert ids.dtype == np.int64
    assert ids.tolist() == [4, -1, 0, 4, -1]
    assert small.ids([]).tolist() == []
    assert small.ids(word for word in ("the",)).tolist() == [0]


def test_subset(small: Embedding) -> None:
    part = small.subset([4, 0])
    assert part.words == ("hockey", "the")
    np.testing.assert_array_equal(part.vectors, VECTORS[[4, 0]])
    assert part.ids(["the"]).tolist() == [1]
    assert not part.vectors.flags.writeable
    assert part.digest != small.digest == small.subset(range(5)).digest


def test_duplicate_vectors_are_allowed_and_counted() -> None:
    vectors = [[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [0.0, 1.0]]  # -0.0 is at distance 0 from 0.0
    assert from_arrays("twins", "abcd", vectors).duplicate_vectors == 2
    assert from_arrays("all different", WORDS, VECTORS).duplicate_vectors == 0


def test_digest_tells_contents_apart(small: Embedding) -> None:
    nudged = VECTORS.copy()
    nudged[4, 2] = np.nextafter(nudged[4, 2], 9)
    others = [
        from_arrays("small", WORDS, nudged),
        from_arrays("small", (*WORDS[:4], "x"), VECTORS),
        from_arrays("small", WORDS[::-1], VECTORS),
        from_arrays("small", WORDS, VECTORS.reshape(5, 3)[:, :2]),
    ]
    assert len({small.digest, *(other.digest for other in others)}) == 5
    assert from_arrays("another name", WORDS, VECTORS).digest == small.digest


def test_sent_to_another_process_it_stays_checked(small: Embedding) -> None:
    assert small.index and small.digest  # what was computed meanwhile does not travel
    received = copy.deepcopy(small)  # by the same protocol
    assert received.digest == small.digest and not received.vectors.flags.writeable
    assert received.__dict__.keys() == {"name", "words", "vectors", "digest"}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n"])
def test_word2vec_text(tmp_path: Path, small: Embedding, header: bool, end: str) -> None:
    read = from_word2vec_text(write_text(tmp_path / "table.txt", header=header, end=end))
    assert read.name == "table" and read.words == WORDS
    assert read.digest == small.digest


def test_separators_that_unicode_knows_do_not_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes("a\u2028b 1 2\nc\x85d 3 4\n\x0c 5 6\ne\rf 7 8\n".encode())
    assert from_word2vec_text(path, name="odd").words == ("a\u2028b", "c\x85d", "\x0c", "e\rf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"3 2\na 1 2\nb 3 4\n", "expected 3 words as the first line says, got 2"),
        (b"1 2\na 1 2\nb 3 4\n", "expected 1 words as the first line says, got 2"),
        (b"2 2\na 1 2\nb 3\n", "line 3: expected a word and 2 numbers"),
        (b"2 2\na 1 2\nb 3 x\n", "line 3: expected a word and 2 numbers"),
        (b"2 2\na 1 2\n 3 4\n", "expected a non-empty word in row 1"),
        (b"a 1 2\nb 3 4 5\n", None),  # "b 3" is a word with a space
        (b"a 1 2\na 3 4\n", "expected unique words"),
        (b"2 1\na 1\nb nan\n", "got 1 rows with NaN"),
        (b"\xff\xfe 1 2\nb 3 4\n", "expected UTF-8"),
        (b"", "expected at least 2 words, got 0"),
    ],
)
def test_malformed_text(tmp_path: Path, text: bytes, says: str | None) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(text)
    if says is None:
        assert from_word2vec_text(path).words == ("a", "b 3")
    else:
        with pytest.raises(InvalidInput, match=says):
            from_word2vec_text(path)
    with pytest.raises(InvalidInput, match=r"absent\.txt: expected a readable file: No such file"):
        from_word2vec_text(tmp_path / "absent.txt")


def test_load_glove_840b_parses_once(
    members: Path, small: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_text(members / "glove.840B.300d_filtered.txt")
    first = embeddings.load("glove-840b-300d-34k")
    assert first.name == "glove-840b-300d-34k" and first.digest == small.digest
    with monkeypatch.context() as patch:
        patch.setattr(embeddings, "_read_word2vec_text", None)  # calling it would be a TypeError
        assert embeddings.load("glove-840b-300d-34k").digest == small.digest
    path.write_text("2 1\nother 1\nwords 2\n")  # other bytes, other cache entry
    assert embeddings.load("glove-840b-300d-34k").words == ("other", "words")


def test_load_glove_6b(members: Path) -> None:
    np.save(members / "glove_6B_50d_emb.npy", np.asfortranarray(VECTORS))
    pd.DataFrame({"index": WORDS}).to_parquet(members / "glove_6B_index.parquet")
    loaded = embeddings.load("glove-6b-50d")
    assert loaded.words == WORDS and loaded.vectors.flags.c_contiguous
    np.testing.assert_array_equal(loaded.vectors, VECTORS)
    np.save(members / "glove_6B_50d_emb.npy", np.array([print], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        embeddings.load("glove-6b-50d")


@pytest.mark.parametrize("name", embeddings._LOADERS)
def test_a_text_file_of_the_user_replaces_any_embedding(
    mine: Path, small: Embedding, name: str
) -> None:
    write_text(mine / "mine.txt")
    asset_id = embeddings._LOADERS[name][0]
    (mine / "local.toml").write_text(f'[{asset_id}]\npath = "mine.txt"\n')
    loaded = embeddings.load(name)
    assert loaded.name == name and loaded.digest == small.digest


def test_every_loader_names_a_registered_member() -> None:
    for asset_id, member, _ in embeddings._LOADERS.values():
        assert assets.registry()[asset_id].member(member).sha256


bad: Any = partial(from_arrays, "bad")

test_bad_input_is_named = refused(
    (lambda small: small.ids("the cat"), "expected a list of words, got the text 'the cat'"),
    (lambda small: small.subset([0, -1]), "0 .. 4, got -1; drop unknown words"),
    (lambda small: small.subset([0, 5]), "0 .. 4, got 5"),
    (lambda small: small.subset([1, 1]), "expected unique words"),
    (lambda small: small.subset([1]), "expected at least 2 words, got 1"),
    (lambda: bad(["a"], [[1.0]]), "bad: expected at least 2 words, got 1"),
    (lambda: bad([*"aba"], [[1]] * 3), r"expected unique words, got 1 repeated ones \('a'\)"),
    (lambda: bad(["a", ""], [[1], [2]]), "expected a non-empty word in row 1, got ''"),
    (lambda: bad(["a", "b"], [[1]] * 3), r"expected one vector for each of the 2 words.*\(3, 1\)"),
    (lambda: bad(["a", "b"], [1, 2]), r"got shape \(2,\)"),
    (lambda: bad(["a", "b"], [[1, 2], [3, np.nan]]), "got 1 rows with NaN or infinity.* row 1"),
    (lambda: bad(["a", "b"], [[1e300], [1]]), "in the range of float32, got 1 rows"),
    (lambda: bad(["a", "b"], [[1j], [1]]), "expected real vectors, got an array of complex128"),
)
