"""Atomic writes (a file is complete or absent) and canonical JSON (one text per value).

    write_atomic(path, data)    the old file or the new one, whenever the process is killed
    disk_refusal(error)         "No space left on device", or None if it was not the disk

A disk that refuses is a StorageError, which says what to do.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from textpriv.errors import InvalidInput, StorageError

_PARTIAL = ".partial"
_ABANDONED = 600.0  # seconds: writing a file takes a few, so whoever began one before is dead

# numpy (a short write), annoy and safetensors write with code of their own, and say only in
# words that the disk refused; so do pip and the client of the hub, which retell an error.
_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
_DENIED = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_SHORT_WRITE = r"\d+ requested and \d+ written"
_REFUSED = re.compile("|".join([*(re.escape(os.strerror(code)) for code in _CODES), _SHORT_WRITE]))


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no spaces, NaN refused."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"expected finite JSON values, got {value!r}: {error}") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file that a reader finds complete or not at all; makes its folder.

    What is no file (a device, a pipe) takes the bytes and stays what it is. A process that is
    killed meanwhile leaves a hidden `.partial` file, which a later write takes away.

    Raises
    ------
    StorageError : the folder cannot be written; a file that was there before is kept
    """
    prefix = f".{path.name}."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        _clear_abandoned(path.parent, prefix)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=_PARTIAL)
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
        raise cannot_write(path, error.strerror or str(error), needed=len(data)) from error


def _clear_abandoned(folder: Path, prefix: str) -> None:
    for each in folder.iterdir():
        if each.name.startswith(prefix) and each.name.endswith(_PARTIAL):
            with suppress(FileNotFoundError):  # whoever writes the same file has just finished
                if time.time() - each.stat().st_mtime > _ABANDONED:
                    each.unlink()


def cannot_write(path: Path, reason: str, *, needed: int | None = None) -> StorageError:
    """The error that says why `path` cannot be written, the bytes needed, and what to do."""
    size = "" if needed is None else f" ({needed:,} bytes)"
    return StorageError(
        f"cannot write {path}{size}: {reason}; free some space or make its folder writable"
    )


def disk_refusal(error: Exception | str) -> str | None:
    """Why the disk refused to write, in words; None for an error of another kind.

    Want of memory, a lost connection or an absent file are of another kind.
    """
    if isinstance(error, OSError) and error.errno in (*_CODES, *_DENIED):
        return error.strerror or str(error)
    said = _REFUSED.search(str(error))
    if said is None:
        return None
    short = re.fullmatch(_SHORT_WRITE, said[0])
    return f"{said[0]}, most often because the disk is full" if short else said[0]
