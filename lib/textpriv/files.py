"""Atomic writes (a file is complete or absent) and canonical JSON (one text per value)."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from textpriv.errors import InvalidInput, StorageError


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no spaces, NaN refused."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected finite JSON values, got {value!r}: {error}") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file that a reader finds complete or not at all; makes its folder.

    Raises
    ------
    StorageError : the folder cannot be written; a file that was there before is kept
    """
    try:
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
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; "
            "free some space or make its folder writable"
        ) from error
