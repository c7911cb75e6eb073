"""Corpora: documents with their labels and authors, as tables of `datasets`.

    reviews = load("rotten-tomatoes")
    reviews.texts[0], reviews.columns["label"][0]
    reviews.sample(1000, rng).table                  # the same rows as a datasets.Dataset

`load` reads the corpora of `registry` and files of your own, `read_table` those with columns of any
name. A pair of texts is a text and its column `second`.

What was loaded lies in the cache as Arrow and is mapped into memory: to choose documents costs
their numbers, and texts are read where they are asked for. Splits stand in `textpriv.data.splits`,
since `train_test_split` knows neither groups nor named streams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import datasets
import numpy as np
import numpy.typing as npt
from datasets import Dataset

from textpriv import assets
from textpriv.checks import check_ids
from textpriv.data.corpora import tables
from textpriv.data.corpora.registry import CORPORA, OWN, Entry, own
from textpriv.data.corpora.tables import TEXT, Column
from textpriv.errors import AssetUnavailable, InvalidInput

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
            table = tables.table_of(name, {TEXT: texts, **(columns or {})})
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

    def column(self, name: str) -> Column:
        """A column that has to be there; InvalidInput names those that are."""
        if name not in self.columns:
            raise InvalidInput(
                f"{self.name}: expected a column {name!r}, got {[*self.columns]}; "
                "add it to the file, or choose another corpus"
            )
        return self.columns[name]

    def subset(self, indices: npt.ArrayLike) -> Documents:
        """Documents at `indices` (integers in 0 .. len - 1), in that order; repeats are allowed."""
        rows = check_ids(indices, len(self), what=f"{self.name}, indices")
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
    columns: Sequence[str] = (),
    optional: Collection[str] = (),
    name: str | None = None,
    empty: bool = False,
) -> Documents:
    """Read documents from a table of your own.

    Parameters
    ----------
    path : a .tsv, .csv, .jsonl or .parquet file in UTF-8 whose columns have names, a .txt file with
        a text per line, or a .zip archive with exactly one of the former. In TSV a quotation mark
        is a character like any other; CSV quotes as usual (RFC 4180).
    text : the column that holds the texts
    columns : further columns to keep. A missing number becomes NaN, a missing str "".
    optional : those of them that the table may lack
    name : of the corpus; the file's name without its ending by default
    empty : whether texts may be missing or empty, as what a tool made of others may be; else empty
        lines of a .txt file are left out, and an empty text of a table is an error
    """
    path = Path(path)
    table = tables.read(path, text, {key: key for key in columns}, optional=optional)
    missing = [row for row, each in enumerate(table[TEXT][:]) if not each]
    if len(missing) == len(table):
        raise InvalidInput(f"{path}: expected at least one text, got {len(missing)} empty ones")
    if path.suffix.lower() == ".txt" and not empty:
        table = table.select(np.setdiff1d(np.arange(len(table)), missing))
    elif missing and not empty:
        raise InvalidInput(
            f"{path}: expected a text in every row of column {text!r}, got {len(missing)} without, "
            f"the first of them row {missing[0]} (counted from 0); drop these rows"
        )
    return Documents(path.stem if name is None else name, table)


def load(name: str) -> Documents:
    """A corpus of the registry, downloaded, verified and parsed on first use, or a file.

    Parameters
    ----------
    name : one of `names()`, or the path of a file of your own (see `registry.own`)
        Of "imdb" each run of `<br />` becomes one space; rows without a text are left out, of
        "multi-news" an archive's notice in the place of the first article. What is a pair of texts
        has the second one in its column `second`. The layout of "chatgpt-paraphrases-imdb" and
        "chatgpt-paraphrases-yelp" is not known: unless it is one table with a column `paraphrase`,
        the error says what is there; name the column of the texts in assets.local.toml.

    Raises
    ------
    InvalidInput, and those of `textpriv.assets.fetch`
    """
    corpus = entry(name)
    if not corpus.asset:
        known = ["label", "author"]
        return read_table(corpus.member, columns=known, optional=known, name=own(name)[0])
    if corpus.joined:
        parts = [load(part).table for part in corpus.joined]
        return Documents(name, datasets.concatenate_datasets(parts))
    if replacement := assets.local(corpus.asset):
        columns = {**corpus.columns, **(replacement.columns or {})}
        path = _local_path(corpus, replacement)
        return Documents(name, _read(corpus, path, replacement.text or corpus.text, columns))
    path, *beside = (assets.file(corpus.asset, each) for each in (corpus.member, *corpus.beside))

    def build(folder: Path) -> None:
        _read(corpus, path, corpus.text, corpus.columns).save_to_disk(folder)

    key = f"{_FORMAT}: {' '.join(map(assets.sha256, (path, *beside)))}"
    return Documents(name, Dataset.load_from_disk(assets.derived(name, key=key, build=build)))


def at_most(documents: Documents, count: int | None, rng: np.random.Generator) -> Documents:
    """A sample of so many documents, in random order; all, as they are, where `count` is None."""
    return documents if count is None else documents.sample(min(count, len(documents)), rng)


def names() -> tuple[str, ...]:
    """Names that `load` knows."""
    return tuple(CORPORA)


def entry(name: str) -> Entry:
    """The entry of a corpus, or of the path of a file; UnknownAsset where it is neither."""
    if name not in CORPORA and Path(name).suffix.lower() in tables.READERS:
        return own(name)[1]
    return assets.look_up("corpus", name, CORPORA)


def called(name: str) -> str:
    """What results call a corpus: its name, of a file one that is made from the file's name."""
    return name if entry(name).asset else own(name)[0]


def label(name: str) -> str:
    """What figures call a corpus; a name that is not in the registry, one's own, as it is."""
    return CORPORA[name].label if name in CORPORA else name


def asset_of(name: str) -> str:
    """Id of the asset that a corpus is read from, "" for a file of one's own."""
    return entry(name).asset


def _read(corpus: Entry, path: Path, text: str, columns: Mapping[str, str]) -> Dataset:
    """The corpus' rows of a table that have a text, cleaned."""
    table = tables.read(path, text, columns, corpus.only)
    table = table.filter(lambda texts: [*map(bool, texts)], batched=True, input_columns=TEXT)
    if not len(table):
        raise InvalidInput(f"{path}: expected rows with {corpus.only or text}, got none")
    if (clean := corpus.clean) is None:
        return table
    return table.map(lambda texts: {TEXT: [*map(clean, texts)]}, batched=True, input_columns=TEXT)


def _local_path(corpus: Entry, replacement: assets.Local) -> Path:
    path = replacement.path
    if corpus.split is None or (path.is_file() and corpus.split == "train"):
        return replacement.file(corpus.member)
    files = sorted(path.glob(f"{corpus.split}*")) if path.is_dir() else []
    readable = [file for file in files if file.suffix.lower() in tables.READERS]
    if len(readable) != 1:
        raise AssetUnavailable(
            f"{corpus.asset}: expected one {corpus.split}.* ({', '.join(tables.READERS)}) in the "
            f"local folder {path}, got {len(readable)}; name a folder that holds it"
        )
    return readable[0]
