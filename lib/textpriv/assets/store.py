"""Folders of the cache: they appear whole or not at all, and are checked before they are used.

    folder = derived("table", key=digest, build=write_files)

Beside the files of a folder lies a receipt: who served or made them, and which bytes they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from filelock import FileLock

from textpriv.errors import StorageError, TextprivError
from textpriv.files import disk_refusal
from textpriv.paths import cache_directory

RECEIPT = "receipt.json"
_STRAY = (".DS_Store",)  # that a file manager leaves in folders that were opened
_hashed: dict[Path, tuple[tuple[int, int, int], str]] = {}


def derived(name: str, *, key: str, build: Callable[[Path], None]) -> Path:
    """Folder with the files that `build(folder)` wrote: computed once, reused when unchanged.

    For what is costly to make from an asset (parsed tables, converted models). A build that fails
    or is killed leaves nothing behind; a damaged result is built again. `name` is the readable part
    of the folder's name, `key` everything that the result depends on (digests of assets,
    parameters, format version).
    """

    def build_and_sign(folder: Path) -> None:
        build(folder)
        Receipt(name, hashes(folder)).write(folder)

    folder = cache_directory() / "derived" / f"{name}-{_text_digest(key)[:12]}"
    if not is_intact(folder):
        make_folder(name, folder, build_and_sign, keep_if=is_intact)
    return folder


def make_folder(
    name: str,
    folder: Path,
    build: Callable[[Path], None],
    keep_if: Callable[[Path], bool] = Path.is_dir,
) -> None:
    """Build beside `folder` and move into place in one step, one process at a time."""
    with storage_errors(name, "write", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(folder.name + ".lock")):
            if keep_if(folder):
                return
            # Whoever left these held the lock, so is no longer at work on them. What it started
            # (pip) may be, for a moment: hence a new name every time.
            beside = (n for n in os.listdir(folder.parent) if n.startswith(f"{folder.name}."))
            for leftover in (folder.name, *(n for n in beside if n.endswith("partial"))):
                shutil.rmtree(folder.with_name(leftover), ignore_errors=True)
            partial = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.partial")
            partial.mkdir()
            try:
                build(partial)
                os.replace(partial, folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def storage_errors(name: str, verb: Literal["read", "write"], folder: Path) -> Iterator[None]:
    """Turn a disk's refusal, whoever met it, into a StorageError; let other errors through."""
    try:
        yield
    except TextprivError:
        raise
    except Exception as error:  # safetensors has a kind of its own
        reason = disk_refusal(error)
        if reason is None:  # not about storage: what `build` met elsewhere
            raise
        if verb == "write":
            there = next(each for each in folder.parents if os.path.isdir(each))
            free = shutil.disk_usage(there).free
            reason += f", with {free:,} bytes free; nothing was kept. Free space"
        else:
            reason += ". Repair the disk"
        raise StorageError(
            f"{name}: expected to {verb} {folder}, got: {reason} or get permission, "
            "or let TEXTPRIV_CACHE name another folder"
        ) from error


class Receipt(NamedTuple):
    """What lies in a folder, written with it: who served or made it, and the files' hashes."""

    source: str
    sha256: dict[str, str]

    def text(self) -> str:
        return json.dumps(self._asdict(), indent=1) + "\n"

    def write(self, folder: Path) -> None:
        (folder / RECEIPT).write_text(self.text(), encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, folder: Path) -> Receipt | None:
        """The receipt of a folder; None if it is not, byte for byte, one that was written."""
        try:
            data = (folder / RECEIPT).read_bytes()
            receipt = cls(**json.loads(data))
            return receipt if receipt.text().encode() == data else None
        except (OSError, ValueError, TypeError):
            return None


def is_intact(folder: Path) -> bool:
    """Whether a folder holds what its receipt names, every byte of it, and nothing else."""
    receipt = Receipt.read(folder)
    try:
        return receipt is not None and receipt.sha256 == hashes(folder)
    except OSError:  # unreadable, or another process is at work on it
        return False


def names(folder: Path) -> list[str]:
    """Paths, inside a folder, of all that lies below it, without the receipt and stray files."""
    paths = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    inside = (p.relative_to(folder).as_posix() for p in paths if p.name not in _STRAY)
    return [name for name in inside if name != RECEIPT]


def hashes(folder: Path) -> dict[str, str]:
    return {name: sha256(folder / name) for name in names(folder)}


def sha256(path: Path) -> str:
    """SHA-256 of a file; hashed once per process unless size, time or inode change."""
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
    known = _hashed.get(path)
    if known is None or known[0] != stamp:
        with path.open("rb") as stream:
            known = _hashed[path] = (stamp, hashlib.file_digest(stream, "sha256").hexdigest())
    return known[1]


def git_blob(path: Path) -> str:
    """Name that git gives to the bytes of a file: SHA-1 of `blob <length>\\0` and the bytes.

    Nobody is known to be able to make other bytes with the SHA-1 of a given file. Two files with
    one SHA-1 can be made by whoever makes both, which a pinned SHA-256 would rule out as well.
    """
    begun = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: begun).hexdigest()


def digest_of(hashes: Mapping[str, str]) -> str:
    """One SHA-256 over the names and hashes of files, whatever their order."""
    return _text_digest("".join(f"{name}\0{hashes[name]}\n" for name in sorted(hashes)))


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
