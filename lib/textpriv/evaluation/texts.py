"""Texts from wherever they are: a list, a column of pandas or datasets, a file.

texts_of(["one text", "another"])
texts_of(frame["review"])
texts_of("tickets.csv", column="body")
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from textpriv.checks import check_texts
from textpriv.errors import InvalidInput

LONGEST = 20_000_000  # characters in all, beyond which an evaluation would not end today


def texts_of(
    source: object, *, column: str = "text", what: str = "texts", empty: bool = False
) -> list[str]:
    """A list of texts, each a string.

    Parameters
    ----------
    source : a list, tuple, NumPy array, pandas Series or datasets column of strings; or the path of
        a .csv, .tsv, .jsonl or .parquet file with a column of texts, or of a .txt file with a text
        per line
    column : of a file, the column of the texts
    what : how errors call it
    empty : whether rows and lines of a file may be empty; else empty lines are left out
    """
    if isinstance(source, Path) or (isinstance(source, str) and _is_path(source)):
        from textpriv.data import corpora  # opens Arrow tables, which takes a second to import

        return list(corpora.read_table(source, text=column, empty=empty).texts)
    if isinstance(source, str):
        raise InvalidInput(
            f"{what}: got one string that is no file, {source!r:.60}; give a list, [text], or the "
            "path of a file that exists"
        )
    texts = check_texts(source, what=what)
    if not texts:
        raise InvalidInput(f"{what}: got none, expected at least one text")
    if (size := sum(map(len, texts))) > LONGEST:
        raise InvalidInput(
            f"{what}: got {size:,} characters, expected at most {LONGEST:,}; take a sample"
        )
    return texts


def pairs_of(original: object, sanitized: object, *, column: str) -> tuple[list[str], list[str]]:
    """Texts before and after, in the same order; see `texts_of`.

    Nothing may have been made of a text. Of a file row stands beside row, and what was made of an
    empty one is left out.
    """
    before = texts_of(original, column=column, what="original", empty=True)
    after = texts_of(sanitized, column=column, what="sanitized", empty=True)
    if len(after) != len(before):
        raise InvalidInput(
            f"sanitized: got {len(after)} texts for {len(before)} originals, expected one each "
            "(of a file empty lines count)"
        )
    from_file = isinstance(original, str | Path)
    rows = [row for row, text in enumerate(before) if text or not from_file]
    return [before[row] for row in rows], [after[row] for row in rows]


def column_of(source: object, length: int, *, what: str, fewest: int = 1) -> np.ndarray:
    """One label per text, numbered from 0 in the order of their names: (length,) integers."""
    if isinstance(source, str | bytes) or not hasattr(source, "__iter__"):
        raise InvalidInput(f"{what}: got {source!r:.60}, expected a label for each text")
    given: list[Any] = list(source)
    values = ["" if pd.isna(each) else str(each) for each in given]
    if len(values) != length:
        raise InvalidInput(f"{what}: got {len(values)} for {length} texts, expected one for each")
    if "" in values:
        raise InvalidInput(f"{what}: got none for some text, expected one for each; drop these")
    names, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
    least = int(counts.argmin())
    if counts[least] < fewest:
        raise InvalidInput(
            f"{what}: {str(names[least])!r:.60} has {counts[least]} of the texts, expected at "
            f"least {fewest} for each; leave these out, or give them the name of others"
        )
    if len(names) < 2:
        raise InvalidInput(
            f"{what}: got {str(names[0])!r} for every text, expected at least two kinds"
        )
    return numbers.astype(np.int64)


def _is_path(source: str) -> bool:
    """Whether a string can only be meant as a file: it exists, or it has a table's ending."""
    if len(source) > 4096 or "\n" in source or "\0" in source:
        return False
    return os.path.exists(source) or Path(source).suffix.lower() in (
        ".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".zip",
    )  # fmt: skip
