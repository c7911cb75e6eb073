"""A registry with one asset, `tiny`, in formats that real assets have, and what serves it."""

from __future__ import annotations

import hashlib
import io
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.numpy

REVISION = "0123456789abcdef0123456789abcdef01234567"


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


def write_wheel(
    path: Path, members: dict[str, bytes], *others: tuple[str | zipfile.ZipInfo, bytes]
) -> Path:
    """An archive with the members under `data/`, and with other entries, in this order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"data/{name}", data)
        for entry, data in others:
            archive.writestr(entry, data)
    return path


def register(path: Path, source: Path, members: dict[str, bytes], kind: str) -> None:
    """Put the members where `kind` serves them ("wheel", "github") and pin them in a registry."""
    source.mkdir(parents=True, exist_ok=True)
    if kind == "wheel":
        wheel = source / "tiny.whl"
        if not wheel.exists():
            write_wheel(wheel, members)
        data = wheel.read_bytes()
        served = f"""
            package = "tiny"
            version = "1.0"
            size = {len(data)}
            sha256 = "{sha(data)}"
        """
    else:
        for name, data in members.items():
            target = source / "data" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        served = f"""
            repo = "someone/tiny"
            revision = "{REVISION}"
        """
    head = f"""
        [[assets.tiny.sources]]
        kind = "{kind}"
        folder = "data"
        licence = "MIT"
    """
    text = described(members) + textwrap.dedent(head) + textwrap.dedent(served)
    path.write_text(text)


def described(members: Mapping[str, bytes]) -> str:
    """The entry of a tiny asset with these members, up to its sources."""
    listed = ", ".join(
        f'{{ name = "{name}", size = {len(data)}, sha256 = "{sha(data)}" }}'
        for name, data in members.items()
    )
    return textwrap.dedent(f"""
        [defaults]
        ids = ["tiny"]
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
