"""Files of texts, read by pandas: TSV, CSV, JSON lines, parquet, a text per line, ZIP archives.

`Dataset.from_csv` and `from_json` take "NA" for nothing and "2020-01-01" for a time, and keep
copies that nobody verifies.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from datasets import Dataset

from textpriv.errors import InvalidInput

Column = npt.NDArray[Any]

TEXT = "(text)"  # column of the texts in a corpus' table, beside columns of any name
SOURCES, SUMMARIES = ".src.cleaned", ".tgt"  # how Multi-News ends the names of its two files
_SHOWN = 5  # names of an archive's files in an error


def read(
    path: Path,
    text: str,
    columns: Mapping[str, str],
    only: tuple[str, str] | None = None,
    optional: Collection[str] = (),
) -> Dataset:
    """The texts, "" where one is missing, and the named columns under their new names.

    Of a table with the column `only[0]` the rows with the value `only[1]`; a user's own may lack
    it and hold one corpus alone. Of the columns a table may lack the `optional` ones.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput(f"{path}: expected a {', '.join(READERS)} file; convert it")
    try:
        table = reader(path, text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: expected UTF-8, got {error.reason}; convert it") from error
    except OSError as error:
        problem = error.strerror or error
        raise InvalidInput(f"{path}: expected a readable file, got: {problem}") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        problem = " ".join(str(error).split())
        raise InvalidInput(
            f"{path}: expected a table, got: {problem}; repair it (columns of a .csv are separated "
            "by commas, of a .tsv by tabs)"
        ) from error
    columns = {new: old for new, old in columns.items() if old in table or old not in optional}
    absent = [key for key in (text, *columns.values()) if key not in table]
    if absent:
        raise InvalidInput(
            f"{path}: expected the columns {absent}, got only {list(map(str, table.columns))}; "
            "name others (column=, in the shell --column, --label, --author) or rename them"
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
    return table_of(path, {key: _filled(values) for key, values in chosen.items()})


def _filled(values: pd.Series[Any]) -> Column:
    """Numbers, NaN where one is missing, or str, "" where one is missing."""
    if not pd.api.types.is_numeric_dtype(values):
        strings = values.astype(object).where(values.notna(), "").map(str)
        return strings.to_numpy(dtype=object)
    return (
        values.to_numpy(dtype=float, na_value=np.nan) if values.isna().any() else values.to_numpy()
    )


def table_of(where: Path | str, columns: Mapping[str, npt.ArrayLike]) -> Dataset:
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
    summaries = path.with_name(path.name.removesuffix(SOURCES) + SUMMARIES)
    documents = [line.replace("NEWLINE_CHAR", "\n") for line in _lines(path)]
    table = {text: documents, "summary": _lines(summaries)}
    if len(table["summary"]) != len(documents):
        raise ValueError(f"{len(documents)} lines, but {len(table['summary'])} in {summaries.name}")
    return pd.DataFrame(table)


def _read_lines(path: Path, text: str) -> pd.DataFrame:
    """A text per line."""
    return pd.DataFrame({text: _lines(path)})


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
READERS = {
    **_TABLES,
    ".zip": _read_archive,
    ".txt": _read_lines,
    ".cleaned": _read_multi_news,
}
