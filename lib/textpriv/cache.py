"""Computed once, kept by what it depends on.

`arrays("envelopes", key, compute)` runs `compute` the first time and reads its arrays
back every later time. The key is everything that the result depends on: parameters,
asset digests and the digest of the code (`code_digest`). A file is complete or absent,
and whatever does not read back as it was written is computed afresh.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from textpriv.errors import InvalidInput, StorageError
from textpriv.paths import cache_directory

Arrays = dict[str, np.ndarray]

_KEY = "__key__"  # the entry of the file that holds its own key
_RESERVED = {_KEY, "file", "allow_pickle"}  # the last two are parameters of numpy.savez


def arrays(
    purpose: str,
    key: Mapping[str, Any],
    compute: Callable[[], Mapping[str, Any]],
    *,
    directory: Path | None = None,
) -> Arrays:
    """Arrays that `compute` returns, from the cache when they are there.

    Parameters
    ----------
    purpose : what the arrays are for, in lower case ("envelopes"); names the folder
    key : everything that they depend on, as JSON values
    compute : returns the named arrays; runs at most once per key, also when several
        processes ask at the same time
    directory : folder of the cache, `cache_directory() / "computed"` when None

    Returns
    -------
    dict of numpy arrays

    Raises
    ------
    InvalidInput : the key is not JSON, or an array holds Python objects
    StorageError : the folder cannot be written (found out before `compute` runs)
    """
    text = canonical_json(key)
    path = _path(purpose, text, directory or cache_directory() / "computed")
    found = _read(path, text)
    if found is not None:
        return found
    with _locked(path):
        found = _read(path, text, warn=False)  # another process may have been faster
        if found is None:
            found = _plain(compute())
            write_atomic(path, _packed(found, text))
        return found


def code_digest(*objects: Any) -> str:
    """SHA-256 of the source of the given modules, classes and functions, in that order.

    It covers their own text and not what they call: name every module that matters.
    """
    return hashlib.sha256("\0".join(map(inspect.getsource, objects)).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no spaces, NaN refused."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected finite JSON values, got {value!r}: {error}") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file that a reader finds complete or not at all."""
    with _storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)  # mkstemp makes it private; results are to be read by others
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _path(purpose: str, text: str, directory: Path) -> Path:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", purpose):
        raise InvalidInput(f"purpose: expected lower case like 'envelopes', got {purpose!r}")
    return directory / purpose / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"


def _plain(named: Mapping[str, Any]) -> Arrays:
    found = {name: np.asarray(value) for name, value in named.items()}
    for name, array in found.items():
        if array.dtype.hasobject:
            raise InvalidInput(f"array {name!r}: expected numbers or fixed-width text, got objects")
        if name in _RESERVED:
            raise InvalidInput(f"array {name!r}: this name is taken, choose another")
    return found


def _packed(named: Arrays, text: str) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **named, **{_KEY: np.array(text)})
    return buffer.getvalue()


def _read(path: Path, text: str, *, warn: bool = True) -> Arrays | None:
    """The stored arrays; None when there are none that can be trusted."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in stored.files}
        if found.pop(_KEY).item() != text:
            raise ValueError("it was stored under another key")
        return found
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        if warn:
            warnings.warn(f"{path} is damaged ({error}); computing it again", stacklevel=3)
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = FileLock(path.with_suffix(".lock"))
    with _storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    """Say what the operating system's refusal means here."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; "
            "free some space or point TEXTPRIV_CACHE to a folder that can be written"
        ) from error
