"""A registry with one asset, `tiny`, in formats that real assets have, and what serves it."""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.numpy

from textpriv import assets
from textpriv.assets import catalogue, store

REVISION = "0123456789abcdef0123456789abcdef01234567"
WHEEL = "tiny-1.0-py3-none-any.whl"
METADATA = (
    ("tiny-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"),
    ("tiny-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nTag: py3-none-any\n"),
    ("tiny-1.0.dist-info/RECORD", b""),
)


def fetch_anew(asset_id: str) -> Path:
    """As a new process does, which has not hashed anything yet."""
    store._hashed.clear()
    return assets.fetch(asset_id)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def real_members() -> dict[str, bytes]:
    """A few kilobytes as the libraries write them: weights, numbers, a table, words."""
    rng = np.random.default_rng(5)
    numbers, table = io.BytesIO(), io.BytesIO()
    np.save(numbers, rng.normal(size=(40, 8)), allow_pickle=False)
    frame = pd.DataFrame({"text": [f"document {i}" for i in range(50)], "label": range(50)})
    frame.to_parquet(table, index=False)
    return {
        "model.safetensors": safetensors.numpy.save({"a": rng.normal(size=(20, 20))}),
        "config.json": b'{"model_type": "tiny", "hidden_size": 20}\n',
        "vectors.npy": numbers.getvalue(),
        "data/train.parquet": table.getvalue(),
        "vocab.txt": "\n".join(f"word{i}" for i in range(200)).encode(),
    }


def fake_members() -> dict[str, bytes]:
    """Bytes without meaning, one file longer than a chunk."""
    rng = np.random.default_rng(6)
    sizes = {"noise.npy": 150_000, "sub/deep/more.txt": 5_000, "one.json": 1}
    return {name: rng.bytes(size) for name, size in sizes.items()}


def write_wheel(path: Path, members: dict[str, bytes], *others: tuple[str, bytes]) -> Path:
    """An archive with the members under `data/`, and with other entries, in this order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"data/{name}", data)
        for entry, data in others:
            archive.writestr(entry, data)
    return path


def register(path: Path, source: Path, members: dict[str, bytes], *kinds: str) -> None:
    """Put the members where each kind of source serves them, and pin them in a registry.

    In a wheel that pip accepts, which may be there already; or in a folder (hub, GitHub).
    """
    source.mkdir(parents=True, exist_ok=True)
    text = described(members)
    for kind in kinds:
        text += f'[[assets.tiny.sources]]\nkind = "{kind}"\nfolder = "data"\nlicence = "MIT"\n'
        if kind == "wheel":
            if not (wheel := source / WHEEL).exists():
                write_wheel(wheel, members, *METADATA)
            data = wheel.read_bytes()
            text += f'package = "tiny"\nversion = "1.0"\nsize = {len(data)}\n'
            text += f'sha256 = "{sha(data)}"\n'
            continue
        for name, data in members.items():
            target = source / "data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        text += f'repo = "someone/tiny"\nrevision = "{REVISION}"\n'
        text += 'repo_type = "dataset"\n' if kind == "hub" else ""
    path.write_text(text)


class Tiny:
    """The asset `tiny` in a test: its members, its registry, what serves it, and the cache."""

    def __init__(self, root: Path) -> None:
        self.root, self.source, self.cache = root, root / "source", root / "cache"
        self.registry, self.wheel = root / "assets.toml", root / "source" / WHEEL
        self.members: dict[str, bytes] = {}

    def serve(self, members: dict[str, bytes], *kinds: str) -> Tiny:
        """Register it with these members, from these sources."""
        self.members = members
        register(self.registry, self.source, members, *kinds)
        catalogue._parsed.cache_clear()
        return self

    def edit(self, pattern: str, new: str, count: int = 0) -> None:
        """Write something else into the registry."""
        text, changes = re.subn(pattern, new, self.registry.read_text(), count=count, flags=re.S)
        assert changes
        self.registry.write_text(text)
        catalogue._parsed.cache_clear()

    def assert_nothing_kept(self) -> None:
        assert files_below(self.cache) == {} and not list(self.cache.rglob("*.partial"))


def described(members: Mapping[str, bytes]) -> str:
    """The entry of a tiny asset with these members, up to its sources."""
    listed = ", ".join(
        f'{{ name = "{name}", size = {len(data)}, sha256 = "{sha(data)}" }}'
        for name, data in members.items()
    )
    return textwrap.dedent(f"""
        [assets.tiny]
        title = "Tiny"
        kind = "dataset"
        contents = "For tests."
        reference = "none"
        data_licence = "not stated"
        redistribution = "unclear"
        redistribution_why = "nothing is stated"
        flaws = ["it is tiny"]
        otherwise = "Write it yourself."
        members = [{listed}]
    """)


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file by its path inside the folder, except locks."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
