"""Word embeddings: words in a fixed order and one vector for each.

    embedding = load("glove-840b-300d-34k")
    embedding.ids(["hockey", "xyzzy"])      array([5226, -1])
    embedding.vectors[5226]                 the 300 coordinates of "hockey"

Everything inside the library speaks in row numbers (ids); words appear at the edges.
Rows keep the order of the source, which for GloVe is by frequency.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from textpriv import assets
from textpriv.checks import IntArray, check_integers
from textpriv.errors import InvalidInput

if TYPE_CHECKING:
    from textpriv.neighbors import Distances

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """Words and their vectors, checked when made (else InvalidInput) and never changed.

    Parameters
    ----------
    name : what the embedding is called in results and figures
    words : at least two, unique, none empty
    vectors : finite real numbers, one row per word and at least one column; kept as a
        read-only, C-contiguous float32 array (shared with the argument where it is one already)
    """

    name: str
    words: tuple[str, ...]
    vectors: Vectors

    def __post_init__(self) -> None:
        words = tuple(self.words)
        _check_words(self.name, words)
        vectors = _as_vectors(self.name, self.vectors, len(words))
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "vectors", vectors)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Embedding({self.name!r}, {len(self):,} words x {self.dimension})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to another process, the copy is checked and read-only again.
        return Embedding, (self.name, self.words, self.vectors)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def distances(self) -> Distances:
        """Euclidean distances between the words, which all mechanisms on them share."""
        from textpriv.neighbors import Distances  # late: needs PyTorch

        return Distances(self.vectors)

    @cached_property
    def duplicate_vectors(self) -> int:
        """How many words have the vector of an earlier word: no distance tells them apart."""
        distinct = {(row + 0.0).tobytes() for row in self.vectors}  # + 0.0 turns -0.0 into 0.0
        return len(self) - len(distinct)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over words and vectors; the name does not count."""
        digest = hashlib.sha256(repr(self.vectors.shape).encode())
        digest.update("\0".join(self.words).encode("utf-8", "surrogatepass"))
        digest.update(self.vectors.astype("<f4", copy=False).data)
        return digest.hexdigest()

    def ids(self, words: Iterable[str]) -> IntArray:
        """Rows of the words as int64; -1 where a word is unknown."""
        if isinstance(words, str):
            raise InvalidInput(f"expected a list of words, got the text {words!r}; split it first")
        return np.fromiter((self.index.get(word, -1) for word in words), dtype=np.int64)

    def subset(self, ids: npt.ArrayLike) -> Embedding:
        """Embedding of the rows `ids`, in that order: at least two, distinct, in 0 .. len - 1."""
        rows = check_integers(ids, what="ids")
        outside = rows[(rows < 0) | (rows >= len(self))]
        if outside.size:
            raise InvalidInput(
                f"{self.name}: expected ids in 0 .. {len(self) - 1}, got {outside[0]}; "
                "drop unknown words (-1) first"
            )
        return Embedding(self.name, tuple(self.words[row] for row in rows), self.vectors[rows])


def from_arrays(name: str, words: Sequence[str], vectors: npt.ArrayLike) -> Embedding:
    """Embedding of your own words and vectors; see `Embedding` for what is checked."""
    return Embedding(name, tuple(words), np.asarray(vectors))


def from_word2vec_text(path: Path | str, *, name: str | None = None) -> Embedding:
    """Read the text format of word2vec and GloVe: a word and its coordinates in each line.

    Words may contain spaces of any kind; the coordinates are counted from the right. A first line
    "<words> <dimension>" is optional, and binding where present. The name is that of the file by
    default. InvalidInput if it is missing, not UTF-8, cut off, or a line does not fit.
    """
    path = Path(path)
    words, vectors = _read_word2vec_text(path)
    return Embedding(path.stem if name is None else name, words, vectors)


def load(name: str) -> Embedding:
    """Embedding of the registry of assets, downloaded (`assets.fetch`) and parsed on first use."""
    asset_id, member, read = assets.look_up("embedding", name, _LOADERS)
    replacement = assets.local(asset_id)
    if replacement and replacement.path.is_file():
        return from_word2vec_text(replacement.path, name=name)
    words, vectors = read(assets.file(asset_id, member))
    return Embedding(name, words, vectors)


def most_frequent(embedding: Embedding, count: int | None) -> Embedding:
    """The first words of an embedding in order of frequency; all of them where `count` is None."""
    return embedding if count is None else embedding.subset(np.arange(min(count, len(embedding))))


# --- Checks -------------------------------------------------------------------------------


def _check_words(name: str, words: tuple[str, ...]) -> None:
    if len(words) < 2:
        raise InvalidInput(f"{name}: expected at least 2 words, got {len(words)}")
    for row, word in enumerate(words):
        if not isinstance(word, str) or not word:
            raise InvalidInput(f"{name}: expected a non-empty word in row {row}, got {word!r}")
    if len(set(words)) < len(words):
        repeated = [word for word, count in Counter(words).items() if count > 1]
        raise InvalidInput(
            f"{name}: expected unique words, got {len(repeated)} repeated ones "
            f"({', '.join(map(repr, repeated[:3]))}); keep one row of each"
        )


def _as_vectors(name: str, values: npt.ArrayLike, count: int) -> Vectors:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name}: expected real vectors, got an array of {array.dtype}")
    if array.ndim != 2 or array.shape[0] != count or array.shape[1] < 1:
        raise InvalidInput(
            f"{name}: expected one vector for each of the {count} words, shape ({count}, n >= 1), "
            f"got shape {array.shape}"
        )
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is reported as such
        vectors = np.ascontiguousarray(array, dtype=np.float32).view()
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InvalidInput(
            f"{name}: expected finite vectors in the range of float32, got {np.sum(~finite)} rows "
            f"with NaN or infinity, the first of them row {np.argmin(finite)}; drop or repair them"
        )
    vectors.flags.writeable = False
    return vectors


# --- Readers ------------------------------------------------------------------------------

_Table = tuple[tuple[str, ...], Vectors]


def _read_word2vec_text(path: Path) -> _Table:
    try:
        # Only "\n" ends a line: words may contain the other separators that Unicode knows.
        with path.open(encoding="utf-8", newline="\n") as lines:
            header = _header(lines.readline())
            if header is None:
                lines.seek(0)
            return _parse_lines(path, lines, header)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: expected UTF-8, got {error.reason}; convert it") from error
    except OSError as error:
        raise InvalidInput(f"{path}: expected a readable file: {error.strerror}") from error


def _header(line: str) -> tuple[int, int] | None:
    fields = line.split()
    is_header = len(fields) == 2 and all(field.isascii() and field.isdigit() for field in fields)
    return (int(fields[0]), int(fields[1])) if is_header else None


def _parse_lines(path: Path, lines: Iterable[str], header: tuple[int, int] | None) -> _Table:
    words: list[str] = []
    rows: list[Vectors] = []
    dimension = header[1] if header else None
    for number, ended in enumerate(lines, start=2 if header else 1):
        line = ended.rstrip(" \r\n")
        if not line:
            continue
        if dimension is None:
            dimension = line.count(" ")
        word, *coordinates = line.rsplit(" ", dimension)
        try:
            rows.append(np.array([float(each) for each in coordinates], dtype=np.float32))
        except ValueError:
            coordinates = []
        if len(coordinates) != dimension:
            raise InvalidInput(
                f"{path}, line {number}: expected a word and {dimension} numbers separated by "
                f"single spaces, got {line[:60]!r}"
            )
        words.append(word)
    if header and len(words) != header[0]:
        raise InvalidInput(
            f"{path}: expected {header[0]} words as the first line says, got {len(words)}; "
            "the file is cut off or its first line is wrong"
        )
    return tuple(words), np.stack(rows) if rows else np.empty((0, 1), dtype=np.float32)


def _read_parsed_text(path: Path) -> _Table:
    """Like `_read_word2vec_text`, but slow only once: the parsed arrays stay in the cache."""

    def build(folder: Path) -> None:
        words, vectors = _read_word2vec_text(path)
        np.save(folder / "vectors.npy", vectors, allow_pickle=False)
        (folder / "words.txt").write_text("\n".join(words), encoding="utf-8", newline="\n")

    folder = assets.derived(path.stem, key=f"word2vec text, 1: {assets.sha256(path)}", build=build)
    words = (folder / "words.txt").read_bytes().decode("utf-8").split("\n")
    return tuple(words), np.load(folder / "vectors.npy", allow_pickle=False)


def _read_glove_6b(path: Path) -> _Table:
    index = pd.read_parquet(assets.file("glove-6b-50d", "glove_6B_index.parquet"))["index"]
    return tuple(index.tolist()), np.load(path, allow_pickle=False)


# Name: asset, the member that holds the vectors, and how to read it.
_LOADERS: dict[str, tuple[str, str, Callable[[Path], _Table]]] = {
    "glove-840b-300d-34k": (
        "glove-840b-300d-34k",
        "glove.840B.300d_filtered.txt",
        _read_parsed_text,
    ),
    "glove-6b-50d": ("glove-6b-50d", "glove_6B_50d_emb.npy", _read_glove_6b),
}
