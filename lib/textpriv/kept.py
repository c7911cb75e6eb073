"""A result of a point of `study.measure` as bytes and back, to the last bit, without pickle.

A ZIP of NumPy arrays, which notices damage when it is read. Kept are None, numbers, texts, arrays,
tables with one label a row, the library's own dataclasses, and lists, tuples and dictionaries of
these; nothing is run to read them.
"""

from __future__ import annotations

import dataclasses
import io
import json
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from textpriv.errors import InvalidInput


def encoded(value: object) -> bytes:
    """InvalidInput names what is of another kind."""
    arrays: list[Any] = []
    tree = json.dumps(_tree(value, arrays)).encode()  # how the arrays belong together
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(tree, np.uint8), *arrays, allow_pickle=False)
    return buffer.getvalue()


def decoded(data: bytes) -> Any:
    """What was encoded; ValueError, BadZipFile or another error where the bytes are damaged."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        tree, *arrays = file.values()
    return _value(json.loads(tree.tobytes()), arrays)


def _tree(value: Any, arrays: list[Any]) -> Any:
    kind, inside = type(value), partial(_tree, arrays=arrays)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        arrays.append(value)
        return ["array", len(arrays) - 1]
    if kind in (list, tuple):
        return [kind.__name__, *map(inside, value)]
    if kind is dict:
        return ["dict", *([inside(key), inside(each)] for key, each in value.items())]
    if kind is pd.DataFrame and _is_plain(value):
        columns = ([inside(k), str(each.dtype), inside([*each])] for k, each in value.items())
        return ["table", inside(_labels(value.index)), value.columns.name, *columns]
    if dataclasses.is_dataclass(value) and kind.__module__.startswith("textpriv."):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return ["object", kind.__module__, kind.__qualname__, inside(fields)]
    raise InvalidInput(f"results: {kind.__name__} is of no kind that is kept")


def _is_plain(table: pd.DataFrame) -> bool:
    """Whether rows and columns have one label each, and none is categorical."""
    single = not any(isinstance(axis, pd.MultiIndex) for axis in table.axes)
    dtypes = [*table.dtypes, table.index.dtype]
    known = all(isinstance(each, np.dtype) or each == "str" for each in dtypes)
    return single and known and table.columns.is_unique


def _labels(index: pd.Index[Any]) -> list[Any]:
    """Labels of rows: their name and kind, and themselves unless they are 0, 1, 2 and so on."""
    numbered = index.dtype == np.int64 and index.equals(pd.RangeIndex(len(index)))
    return [index.name, str(index.dtype), len(index) if numbered else [*index]]


def _value(tree: Any, arrays: list[Any]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, *rest = tree
    inside = partial(_value, arrays=arrays)
    if kind == "array":
        return arrays[rest[0]][()]  # of a number, itself
    if kind == "dict":
        return {inside(key): inside(each) for key, each in rest}
    if kind == "table":
        name, dtype, labels = inside(rest[0])
        _, over, *columns = rest
        numbered = isinstance(labels, int)
        rows: Any = pd.RangeIndex(labels) if numbered else pd.Index(labels, dtype=dtype)
        made = {inside(k): pd.Series(inside(each), rows, kind) for k, kind, each in columns}
        return pd.DataFrame(made, rows.rename(name)).rename_axis(columns=over)
    if kind == "object" and rest[0].startswith("textpriv."):
        made = object.__new__(getattr(import_module(rest[0]), rest[1]))
        for name, each in inside(rest[2]).items():
            object.__setattr__(made, name, each)
        return made
    return {"list": list, "tuple": tuple}[kind](map(inside, rest))
