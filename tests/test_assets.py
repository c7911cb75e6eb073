"""Assets: only pinned bytes come through, and nothing half-done stays behind.

No test needs a network: a tiny wheel stands in for the package index, either copied by a
fake download or found by the real pip in a local folder.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from tiny_assets import described

from textpriv import assets
from textpriv.errors import (
    AssetCorrupt,
    AssetUnavailable,
    InvalidInput,
    StorageError,
    TextprivError,
    UnknownAsset,
)

MEMBERS = {
    "words.txt": b"the\nof\nto\n" * 400,
    "sub/noise.npy": b"".join(hashlib.sha256(bytes([i])).digest() for i in range(40)),
}
REVISION = "0123456789abcdef0123456789abcdef01234567"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(path: Path, entries: dict[str, bytes | tuple[bytes, int]]) -> Path:
    """A wheel that pip accepts; an entry may carry Unix mode bits (for symbolic links)."""
    entries = {
        **entries,
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in entries.items():
            data, mode = entry if isinstance(entry, tuple) else (entry, 0o100644)
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return path


@dataclass(frozen=True)
class Shop:
    """A registry with one asset, `tiny`, and the wheel that serves it."""

    root: Path
    wheel: Path
    cache: Path
    registry: Path
    hub: bool = False

    def register(
        self, *, wheel_sha256: str | None = None, members: dict[str, bytes] | None = None
    ) -> None:
        """Write the registry; by default it pins exactly what the wheel holds."""
        data = self.wheel.read_bytes()
        text = f"""
            [[assets.tiny.sources]]
            kind = "wheel"
            package = "tiny"
            version = "1.0"
            size = {len(data)}
            sha256 = "{wheel_sha256 or sha(data)}"
            folder = "tiny/data"
            licence = "MIT"
        """
        if self.hub:
            text += f"""
            [[assets.tiny.sources]]
            kind = "hub"
            repo = "someone/tiny"
            repo_type = "dataset"
            revision = "{REVISION}"
            folder = "data"
            licence = "MIT"
            """
        pinned = described(members or MEMBERS)
        self.registry.write_text(pinned + textwrap.dedent(text))
        assets._parsed.cache_clear()

    def assert_nothing_kept(self) -> None:
        left = [p for p in self.cache.rglob("*") if p.is_file() and p.suffix != ".lock"]
        folders = [p for p in self.cache.rglob("*") if p.is_dir() and not any(p.glob("*.lock"))]
        assert left == []
        assert {p.name for p in folders} <= {"assets"}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / "index").mkdir()
    wheel = tmp_path / "index" / "tiny-1.0-py3-none-any.whl"
    write_wheel(wheel, {f"tiny/data/{name}": data for name, data in MEMBERS.items()})
    shop = Shop(tmp_path, wheel, tmp_path / "cache", tmp_path / "assets.toml")
    monkeypatch.setattr(assets, "REGISTRY", shop.registry)
    monkeypatch.setattr(assets, "REPOSITORY", tmp_path)  # no assets.local.toml of a user
    monkeypatch.delenv("TEXTPRIV_LOCAL_ASSETS", raising=False)
    monkeypatch.setenv("TEXTPRIV_CACHE", str(shop.cache))
    # The real pip, when a test lets it run, looks into this folder and nowhere else.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    shop.register()
    yield shop
    assets._parsed.cache_clear()


@pytest.fixture
def copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """As `shop`, with a download that copies the wheel and checks nothing, unlike pip."""

    def copy(asset: assets.Asset, source: assets.WheelSource, folder: Path) -> Path:
        return Path(shutil.copy(shop.wheel, folder))

    monkeypatch.setattr(assets, "download_wheel", copy)
    return shop


# --- The registry itself ------------------------------------------------------------------


def test_lock_follows_from_the_registry() -> None:
    assert assets.LOCK.read_text(encoding="utf-8") == assets.lock_text()


def test_lock_pins_every_wheel_once() -> None:
    lines = [line for line in assets.lock_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", s) for s in lines)
    pinned = {
        (source.package, source.version)
        for asset in assets.registry().values()
        for source in asset.sources
        if source.kind == "wheel"
    }
    assert len(lines) == len(pinned) == 8


def test_registry_holds_what_the_design_names() -> None:
    assert list(assets.registry()) == [
        "glove-840b-300d-34k",
        "glove-6b-50d",
        "minilm-l6",
        "bert-base-uncased",
        "smollm2-135m-instruct",
        "movie-reviews",
        "rented-clothes-reviews",
        "xsum-test",
        "multilexsum-test",
        "sst2",
        "pos-lexicon",
        "bert-base-cased",
        "roberta-base",
        "roberta-large",
        "all-mpnet-base-v2",
        "gpt2",
        "gpt2-xl",
        "t5-small",
        "t5-3b",
        "flan-t5-xl",
        "bart-large-cnn",
        "falconsai-text-summarization",
        "tinyllama-chat",
        "llama-3-8b-instruct",
        "qnli",
        "paws",
        "ag-news",
        "yelp-polarity",
        "multi-news",
        "imdb-authors",
        "yelp-authors",
        "chatgpt-paraphrases-imdb",
        "chatgpt-paraphrases-yelp",
    ]
    assert set(assets.defaults()) == {
        "glove-840b-300d-34k",
        "glove-6b-50d",
        "movie-reviews",
        "minilm-l6",
        "rented-clothes-reviews",
        "smollm2-135m-instruct",
        "pos-lexicon",
    }


def test_models_are_safetensors_or_gguf() -> None:
    for asset in assets.registry().values():
        names = {Path(m.name).suffix for m in asset.members}
        assert asset.kind != "model" or names & {".safetensors", ".gguf"}, asset.id
        assert not names & {".bin", ".h5", ".msgpack", ".ot", ".pt"}


def test_a_card_says_so_where_the_revision_alone_pins_bytes() -> None:
    for asset in assets.registry().values():
        if any(m.pin is None for m in asset.members):
            assert "by revision alone" in asset.flaws[0], asset.id


def test_default_assets_need_no_hub() -> None:
    for asset_id in assets.defaults():
        assert assets.registry()[asset_id].sources[0].kind == "wheel"


@pytest.mark.parametrize("name", ["model.bin", "m.pkl", "w.pt", "run.py", "noending"])
def test_formats_that_can_run_code_cannot_be_registered(name: str) -> None:
    with pytest.raises(ValidationError, match=r"expected one of .*\.safetensors"):
        assets.Member(name=name, size=1, sha256="0" * 64)


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "a/../../b.txt", "\\a.txt", "C:/a.txt"])
def test_members_stay_in_their_folder(name: str) -> None:
    with pytest.raises(ValidationError, match="relative path"):
        assets.Member(name=name, size=1, sha256="0" * 64)


@pytest.mark.parametrize("revision", ["main", "v1.0", "0123abc", "G" * 40])
def test_hub_revisions_must_be_immutable(revision: str) -> None:
    with pytest.raises(ValidationError, match="revision"):
        assets.HubSource(
            kind="hub", repo="a/b", repo_type="model", revision=revision, folder="", licence=""
        )


def test_digest_depends_on_names_and_hashes(shop: Shop) -> None:
    first = assets.registry()["tiny"].digest
    shop.register(members={**MEMBERS, "words.txt": b"other"})
    second = assets.registry()["tiny"].digest
    renamed = {"renamed.txt": MEMBERS["words.txt"], "sub/noise.npy": MEMBERS["sub/noise.npy"]}
    shop.register(members=renamed)
    assert len({first, second, assets.registry()["tiny"].digest}) == 3


# --- Fetching -----------------------------------------------------------------------------


def test_fetch_through_pip(shop: Shop) -> None:
    folder = assets.fetch("tiny")
    assert folder == shop.cache / "assets" / "tiny" / assets.registry()["tiny"].digest[:12]
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert found == {*MEMBERS, "receipt.json"}  # no wheel, no metadata, nothing else
    for name, data in MEMBERS.items():
        assert (folder / name).read_bytes() == data
        assert assets.file("tiny", name) == folder / name
    assert list(shop.cache.rglob("*.partial")) == []
    assert "tiny" not in sys.modules


def test_pip_checks_hashes_installs_nothing_and_stays_in_the_cache(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def run(command: list[str], **options: Any) -> SimpleNamespace:
        seen.update(options, command=command)
        seen["lock"] = Path(command[command.index("-r") + 1]).read_text()
        shutil.copy(shop.wheel, command[command.index("-d") + 1])
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    assets.fetch("tiny")
    assert seen["command"][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(seen["command"])
    assert seen["lock"] == f"tiny==1.0 --hash=sha256:{sha(shop.wheel.read_bytes())}\n"
    # What pip leaves behind when it is killed lies where the next fetch clears it away.
    assert Path(seen["env"]["TMPDIR"]).is_relative_to(shop.cache / "assets" / "tiny")
    assert not Path(seen["env"]["TMPDIR"]).exists()


def test_fetch_downloads_once_and_needs_no_lock_afterwards(
    copied: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = assets.fetch("tiny")

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a cached asset was downloaded or locked again")

    monkeypatch.setattr(assets, "download_wheel", forbidden)
    monkeypatch.setattr(assets, "FileLock", forbidden)  # the cache may be read-only by now
    assert assets.fetch("tiny") == folder
    assert assets.file("tiny", "words.txt").read_bytes() == MEMBERS["words.txt"]
    assert assets.verify("tiny") == folder


def test_unknown_ids_suggest_close_ones(shop: Shop) -> None:
    with pytest.raises(UnknownAsset, match="no asset is called 'tyni': did you mean tiny") as info:
        assets.fetch("tyni")
    assert not str(info.value).startswith(("'", '"'))  # KeyError would quote the message
    with pytest.raises(UnknownAsset, match=r"no member of tiny is called 'word\.txt'"):
        assets.file("tiny", "word.txt")


def test_unknown_kind_of_source(copied: Shop) -> None:
    with pytest.raises(InvalidInput, match=r"tiny: expected source to be one of \['wheel'\]"):
        assets.fetch("tiny", source="hub")


# --- Wrong bytes --------------------------------------------------------------------------


def flip(path: Path, original: bytes, position: int) -> None:
    damaged = bytearray(original)
    damaged[position] ^= 0x40
    path.write_bytes(damaged)


def test_a_flipped_byte_anywhere_in_the_wheel_is_caught(copied: Shop) -> None:
    original = copied.wheel.read_bytes()
    for position in [*range(0, len(original), 7), len(original) - 1]:
        flip(copied.wheel, original, position)
        with pytest.raises(AssetCorrupt, match=r"tiny: wheel tiny==1\.0: expected SHA-256"):
            assets.fetch("tiny")
    copied.assert_nothing_kept()
    copied.wheel.write_bytes(original)
    assets.fetch("tiny")


def test_members_are_checked_even_if_the_wheel_is_as_pinned(copied: Shop) -> None:
    """The second line of defence: a registry that pins a damaged wheel by mistake."""
    original = copied.wheel.read_bytes()
    with zipfile.ZipFile(copied.wheel) as archive:
        info = archive.getinfo("tiny/data/sub/noise.npy")
    caught = 0
    for position in range(0, len(original), 9):
        flip(copied.wheel, original, position)
        copied.register()
        try:
            folder = assets.fetch("tiny")
        except AssetCorrupt:
            caught += 1
            copied.assert_nothing_kept()
        else:  # the flip hit what nobody reads; the members must be the real ones
            assert {n: (folder / n).read_bytes() for n in MEMBERS} == MEMBERS
            shutil.rmtree(folder)
    assert caught >= info.compress_size // 9


@pytest.mark.parametrize("keep", [0, 1, 100, -200, -22, -1])
def test_a_truncated_wheel_is_caught(copied: Shop, keep: int) -> None:
    data = copied.wheel.read_bytes()
    copied.wheel.write_bytes(data[:keep])
    with pytest.raises(AssetCorrupt, match=f"tiny==1.0: expected bytes {len(data)}, got bytes"):
        assets.fetch("tiny")
    copied.assert_nothing_kept()
    copied.register()  # pinned as it is: now the archive, not its hash, has to fail
    with pytest.raises(AssetCorrupt) if keep else pytest.raises(ValidationError):
        assets.fetch("tiny")
    copied.assert_nothing_kept()


def test_pip_refuses_another_wheel_and_we_say_which(shop: Shop) -> None:
    shop.register(wheel_sha256="0" * 64)
    with pytest.raises(AssetCorrupt) as info:
        assets.fetch("tiny")
    message = str(info.value)
    assert "tiny" in message and "\n" not in message
    assert f"expected SHA-256 {'0' * 64}, got SHA-256 {sha(shop.wheel.read_bytes())}" in message
    assert "Write it yourself." in message  # the way out
    shop.assert_nothing_kept()


def test_a_member_that_is_missing_or_different_is_named(copied: Shop) -> None:
    copied.register(members={**MEMBERS, "absent.txt": b"x"})
    with pytest.raises(AssetCorrupt, match=r"absent\.txt"):
        assets.fetch("tiny")
    copied.register(members={**MEMBERS, "words.txt": b"X" * len(MEMBERS["words.txt"])})
    with pytest.raises(AssetCorrupt, match=r"tiny: words\.txt: expected SHA-256"):
        assets.fetch("tiny")
    copied.assert_nothing_kept()


def test_a_member_larger_than_pinned_is_not_unpacked(copied: Shop) -> None:
    bomb = bytes(64 << 20)
    write_wheel(copied.wheel, {"tiny/data/words.txt": bomb, "tiny/data/sub/noise.npy": b""})
    copied.register()
    written = 0
    original = Path.open

    def counting(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        stream = original(path, mode, *rest, **more)
        if mode != "xb":
            return stream

        class Counting:
            def __enter__(self) -> Counting:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

            def write(self, data: bytes) -> int:
                nonlocal written
                written += len(data)
                return stream.write(data)

        return Counting()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", counting)
        with pytest.raises(AssetCorrupt, match=r"words\.txt: expected bytes 4000, got bytes"):
            assets.fetch("tiny")
    assert written <= 4000
    copied.assert_nothing_kept()


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("../evil.txt", 0o100644, "leads outside"),
        ("tiny/../../evil.txt", 0o100644, "leads outside"),
        ("/evil.txt", 0o100644, "leads outside"),
        ("C:/evil.txt", 0o100644, "leads outside"),
        ("..\\evil.txt", 0o100644, "leads outside"),
        ("tiny/link.txt", 0o120777, "symbolic link"),
    ],
)
def test_unsafe_archive_paths_are_refused(copied: Shop, name: str, mode: int, says: str) -> None:
    members = {f"tiny/data/{key}": data for key, data in MEMBERS.items()}
    write_wheel(copied.wheel, {**members, name: (b"/etc/passwd", mode)})
    copied.register()
    with pytest.raises(AssetCorrupt, match=f"tiny: .*plain members.*{says}"):
        assets.fetch("tiny")
    copied.assert_nothing_kept()
    assert not list(copied.root.rglob("evil.txt"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.unlink(),
    ],
    ids=["changed", "cut off", "gone"],
)
def test_damage_in_the_cache_is_caught_before_use(
    copied: Shop, damage: Callable[[Path], object]
) -> None:
    folder = assets.fetch("tiny")
    damage(folder / "words.txt")
    for use in (assets.fetch, assets.verify, lambda each: assets.file(each, "words.txt")):
        with pytest.raises(AssetCorrupt) as info:
            use("tiny")
        message = str(info.value)
        assert message.startswith("tiny: words.txt in the cache was changed or cut off")
        assert sha(MEMBERS["words.txt"]) in message and f"delete {folder}" in message
    assert assets.file("tiny", "sub/noise.npy").is_file()  # the other member is still good
    shutil.rmtree(folder)
    assets.fetch("tiny")


def test_a_file_is_hashed_once_per_process_and_by_verify_always(
    copied: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = assets.file("tiny", "words.txt")
    before = path.stat()
    path.write_bytes(b"X" * len(MEMBERS["words.txt"]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # size, time, inode as before
    assert assets.file("tiny", "words.txt") == path
    with pytest.raises(AssetCorrupt):
        assets.verify("tiny")


# --- Storage ------------------------------------------------------------------------------


def test_disk_full_while_extracting(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if mode == "xb" and path.name == "noise.npy":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageError, match=r"tiny: .*No space left on device.*TEXTPRIV_CACHE"):
        assets.fetch("tiny")
    copied.assert_nothing_kept()


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_disk_full_at_the_end(copied: Shop, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path if step == "write_text" else os, step, full)
    with pytest.raises(StorageError, match="No space left"):
        assets.fetch("tiny")
    monkeypatch.undo()
    copied.assert_nothing_kept()


def test_disk_full_in_pip(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stderr="ERROR: [Errno 28] No space left on device")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(StorageError, match=r"tiny: .*No space left"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


def test_too_little_space_is_said_before_the_download(
    copied: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(assets, "download_wheel", None)  # calling it would be a TypeError
    with pytest.raises(StorageError, match=r"tiny: expected [\d,]+ free bytes .* got 1,000"):
        assets.fetch("tiny")
    copied.assert_nothing_kept()


def test_read_only_cache(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(StorageError, match=r"tiny: .*Read-only file system"):
        assets.fetch("tiny")


def test_cache_below_a_file(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTPRIV_CACHE", str(copied.wheel / "cache"))
    with pytest.raises(StorageError, match=r"tiny: .*Not a directory"):
        assets.fetch("tiny")


# --- Several processes, and interrupted ones ------------------------------------------------


def start(shop: Shop, program: str) -> subprocess.Popen[str]:
    """Another Python process that sees the same registry, cache and index."""
    prelude = f"""
        import shutil, sys, time
        from pathlib import Path
        from textpriv import assets
        assets.REGISTRY = Path({str(shop.registry)!r})
        assets.REPOSITORY = Path({str(shop.root)!r})
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(program)
    library = Path(assets.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(library)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_fetch_at_once(shop: Shop) -> None:
    program = f"""
        def slow(asset, source, folder):
            with open({str(shop.root / "downloads")!r}, "a") as log:
                log.write("one\\n")
            time.sleep(0.5)
            return Path(shutil.copy({str(shop.wheel)!r}, folder))
        assets.download_wheel = slow
        print("ready", flush=True)
        print(assets.fetch("tiny"))
    """
    processes = [start(shop, program) for _ in range(2)]
    results = [process.communicate(timeout=30) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert len({out for out, _ in results}) == 1
    assert (shop.root / "downloads").read_text() == "one\n"  # the second waited for the first
    assert assets.verify("tiny").is_dir()


def test_killed_while_extracting_leaves_no_asset_and_no_obstacle(copied: Shop) -> None:
    program = f"""
        def copy(asset, source, folder):
            return Path(shutil.copy({str(copied.wheel)!r}, folder))
        def stuck(asset, member, deliver, target):
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(next(deliver(member))[:10])
            print("extracting", flush=True)
            time.sleep(60)
        assets.download_wheel, assets._copy = copy, stuck
        assets.fetch("tiny")
    """
    process = start(copied, program)
    assert process.stdout is not None
    assert process.stdout.readline() == "extracting\n"
    process.kill()
    process.wait()
    process.communicate()
    folder = copied.cache / "assets" / "tiny" / assets.registry()["tiny"].digest[:12]
    assert list(folder.parent.glob("*.partial"))  # the kill came in the middle
    assert not folder.exists() and not assets.is_cached("tiny")
    assert assets.fetch("tiny") == folder
    assert {p.name for p in folder.parent.iterdir()} == {folder.name, folder.name + ".lock"}


# --- No network, and the hub ----------------------------------------------------------------


def test_missing_network(shop: Shop) -> None:
    shop.wheel.unlink()
    with pytest.raises(AssetUnavailable) as info:
        assets.fetch("tiny")
    message = str(info.value)
    assert message.startswith("tiny: expected a download, got nothing (wheel tiny==1.0: ERROR:")
    assert "assets.local.toml" in message and "\n" not in message
    shop.assert_nothing_kept()


@pytest.fixture
def hub(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A shop whose asset also has a hub source, and a fake hub that records how it is asked."""
    import huggingface_hub

    replace(shop, hub=True).register()
    state: dict[str, Any] = {"calls": [], "files": dict(MEMBERS), "error": None}

    def download(repo: str, name: str, **options: Any) -> str:
        state["calls"].append((repo, name, options))
        if state["error"]:
            raise state["error"]
        path = Path(options["local_dir"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(state["files"][name.removeprefix("data/")])
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return state


def test_hub_is_asked_for_the_pinned_revision(hub: dict[str, Any]) -> None:
    folder = assets.fetch("tiny", source="hub")
    assert {name: (folder / name).read_bytes() for name in MEMBERS} == MEMBERS
    for (repo, name, options), member in zip(hub["calls"], MEMBERS, strict=True):
        assert (repo, name) == ("someone/tiny", f"data/{member}")
        assert options["revision"] == REVISION and options["repo_type"] == "dataset"
    assert assets.provenance("tiny")["source"] == f"hub someone/tiny@{REVISION}"


def test_hub_serves_what_the_index_cannot(shop: Shop, hub: dict[str, Any]) -> None:
    shop.wheel.unlink()
    from_hub = assets.provenance("tiny")
    assert from_hub["source"].startswith("hub ")
    assert from_hub["digest"] == assets.registry()["tiny"].digest  # whoever served it


def test_hub_does_not_paper_over_a_corrupt_wheel(copied: Shop, hub: dict[str, Any]) -> None:
    copied.wheel.write_bytes(copied.wheel.read_bytes()[:-1])
    with pytest.raises(AssetCorrupt):
        assets.fetch("tiny")
    assert hub["calls"] == []


def test_wrong_bytes_from_the_hub(shop: Shop, hub: dict[str, Any]) -> None:
    hub["files"]["words.txt"] = b"X" * len(MEMBERS["words.txt"])
    with pytest.raises(AssetCorrupt, match=r"tiny: words\.txt: expected SHA-256"):
        assets.fetch("tiny", source="hub")
    shop.assert_nothing_kept()


@pytest.mark.parametrize("error", [ConnectionError("no route"), RuntimeError("odd"), OSError("x")])
def test_hub_out_of_reach(shop: Shop, hub: dict[str, Any], error: Exception) -> None:
    shop.wheel.unlink()
    hub["error"] = error
    with pytest.raises(AssetUnavailable, match=rf"wheel tiny.*hub someone/tiny@.*{error}"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


def test_disk_full_in_the_hub_client(shop: Shop, hub: dict[str, Any]) -> None:
    hub["error"] = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(StorageError, match="No space left"):
        assets.fetch("tiny", source="hub")
    shop.assert_nothing_kept()


def test_a_hub_member_without_a_pinned_hash_is_pinned_when_fetched(
    shop: Shop, hub: dict[str, Any]
) -> None:
    text = shop.registry.read_text()
    text = re.sub(r', size = \d+, sha256 = "\w+"', "", text)
    wheel = r"\[\[assets\.tiny\.sources\]\]\nkind = .wheel.*?(?=\[\[)"
    shop.registry.write_text(re.sub(wheel, "", text, flags=re.S))
    assets._parsed.cache_clear()
    folder = assets.fetch("tiny")
    assert assets.verify("tiny") == folder
    first = assets.provenance("tiny")["digest"]
    (folder / "words.txt").write_bytes(b"changed")
    with pytest.raises(AssetCorrupt, match=sha(MEMBERS["words.txt"])):
        assets.fetch("tiny")
    shutil.rmtree(folder)
    hub["files"]["words.txt"] = b"changed"
    assert assets.provenance("tiny")["digest"] != first  # the results file tells them apart


def test_a_wheel_needs_pinned_members(shop: Shop) -> None:
    text = shop.registry.read_text()
    shop.registry.write_text(re.sub(r', sha256 = "\w+" \}', " }", text, count=1))
    assets._parsed.cache_clear()
    with pytest.raises(ValidationError, match="members need sha256"):
        assets.registry()


# --- GitHub -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name"),  # as `git hash-object` prints them
    [
        (b"", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
        (b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
        (b"blob 6\0hello\n", "dc93d88d7b9d691be200b77ce5cef34ced4131ac"),
    ],
)
def test_git_blob(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / "file").write_bytes(data)
    assert assets.git_blob(tmp_path / "file") == name


def test_git_blob_of_a_file_longer_than_one_chunk(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000  # 2.4 chunks
    (tmp_path / "file").write_bytes(data)
    assert assets.git_blob(tmp_path / "file") == blob(data)


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()


@dataclass
class Github:
    """What the fake server answers, and what it was asked."""

    body: bytes
    asked: list[str]
    error: Exception | None = None
    breaks: bool = False

    def urlopen(self, url: str, *, timeout: float) -> Any:
        self.asked.append(url)
        assert timeout > 0
        if self.error:
            raise self.error
        return self

    def __enter__(self) -> Github:
        self._left = io.BytesIO(self.body)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        if self.breaks and self._left.tell():
            raise http.client.IncompleteRead(b"")
        return self._left.read(10 if self.breaks else size)


@pytest.fixture
def github(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Github:
    """A shop whose asset is one archive on GitHub, pinned by the name that git gives to it."""
    server = Github(hashlib.sha256(b"archive").digest() * 20, [])
    monkeypatch.setattr(urllib.request, "urlopen", server.urlopen)
    head = shop.registry.read_text().split("members = ")[0]
    shop.registry.write_text(
        f"""{head}members = [{{ name = "clean data.zip", git_blob = "{blob(server.body)}" }}]
[[assets.tiny.sources]]
kind = "github"
repo = "someone/tiny"
revision = "{REVISION}"
folder = "data/clean"
licence = "MIT"
"""
    )
    assets._parsed.cache_clear()
    return server


def test_github_is_asked_for_the_pinned_commit(github: Github) -> None:
    path = assets.file("tiny", "clean data.zip")
    assert path.read_bytes() == github.body
    host = "https://raw.githubusercontent.com"
    assert github.asked == [f"{host}/someone/tiny/{REVISION}/data/clean/clean%20data.zip"]
    assert assets.verify("tiny") == assets.fetch("tiny", source="github") == path.parent
    assert len(github.asked) == 1  # and never again
    provenance = assets.provenance("tiny")
    assert provenance["source"] == f"github someone/tiny@{REVISION}"
    assert f"`git blob {blob(github.body)}`" in assets.card("tiny")
    path.write_bytes(b"changed")
    with pytest.raises(AssetCorrupt, match=sha(github.body)):  # pinned when it was fetched
        assets.verify("tiny")


def test_a_flipped_byte_from_github_is_caught(shop: Shop, github: Github) -> None:
    original = github.body
    for position in [*range(0, len(original), 13), len(original) - 1]:
        damaged = bytearray(original)
        damaged[position] ^= 0x01
        github.body = bytes(damaged)
        with pytest.raises(
            AssetCorrupt, match=rf"expected git blob {blob(original)}, got git blob"
        ):
            assets.fetch("tiny")
    shop.assert_nothing_kept()
    github.body = original
    assets.fetch("tiny")


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"\0"])
def test_other_lengths_from_github_are_caught(
    shop: Shop, github: Github, change: Callable[[bytes], bytes]
) -> None:
    github.body = change(github.body)
    with pytest.raises(AssetCorrupt, match=rf"git blob \w+ of {len(github.body)} bytes"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


@pytest.mark.parametrize("error", [urllib.error.URLError("no route"), TimeoutError("too slow")])
def test_github_out_of_reach(shop: Shop, github: Github, error: Exception) -> None:
    github.error = error
    with pytest.raises(AssetUnavailable, match=r"tiny: expected a download.*github someone/tiny@"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


def test_a_broken_download_from_github(shop: Shop, github: Github) -> None:
    github.breaks = True
    with pytest.raises(AssetUnavailable, match="IncompleteRead"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


def test_the_digest_depends_on_the_git_blob(shop: Shop, github: Github) -> None:
    first = assets.registry()["tiny"].digest
    text = shop.registry.read_text()
    shop.registry.write_text(text.replace(blob(github.body), blob(b"other")))
    assets._parsed.cache_clear()
    assert assets.registry()["tiny"].digest != first


def test_members_from_github_need_a_hash(shop: Shop, github: Github) -> None:
    text = shop.registry.read_text()
    shop.registry.write_text(text.replace(f', git_blob = "{blob(github.body)}"', ""))
    assets._parsed.cache_clear()
    with pytest.raises(ValidationError, match="members from GitHub need sha256 or git_blob"):
        assets.registry()


@pytest.mark.parametrize("pin", ["abc", "G" * 40, "0" * 64])
def test_git_blobs_have_forty_digits(pin: str) -> None:
    with pytest.raises(ValidationError, match="git_blob"):
        assets.Member(name="a.zip", git_blob=pin)


# --- Local replacements -------------------------------------------------------------------


def test_local_file_replaces_an_asset(copied: Shop) -> None:
    (copied.root / "mine.tsv").write_text("text\nhello\n")
    (copied.root / "assets.local.toml").write_text(
        '[tiny]\npath = "mine.tsv"\ntext = "sentence"\ncolumns = {label = "polarity"}\n'
    )
    mine = copied.root / "mine.tsv"
    assert assets.fetch("tiny") == assets.file("tiny", "words.txt") == assets.verify("tiny") == mine
    replacement = assets.local("tiny")
    assert replacement is not None
    assert (replacement.text, replacement.columns) == ("sentence", {"label": "polarity"})
    first = assets.provenance("tiny")
    assert first["source"] == "local" and re.fullmatch("[0-9a-f]{64}", first["digest"])
    mine.write_text("text\nworld!\n")
    assert assets.provenance("tiny")["digest"] != first["digest"]
    assert not copied.cache.exists()


def test_local_folder_and_environment(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied.root / "mine"
    folder.mkdir()
    (folder / "words.txt").write_text("x")
    (copied.root / "other.toml").write_text(f'[tiny]\npath = "{folder}"\n')
    monkeypatch.setenv("TEXTPRIV_LOCAL_ASSETS", str(copied.root / "other.toml"))
    assert assets.fetch("tiny") == folder
    assert assets.file("tiny", "words.txt") == folder / "words.txt"
    with pytest.raises(AssetUnavailable, match=r"tiny: expected the file sub/noise\.npy .*found w"):
        assets.file("tiny", "sub/noise.npy")
    before = assets.provenance("tiny")["digest"]
    (folder / "words.txt").rename(folder / "renamed.txt")
    assert assets.provenance("tiny")["digest"] != before


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ('[tiny]\npath = "nowhere.tsv"\n', AssetUnavailable, "which does not exist"),
        ('[tyni]\npath = "x"\n', UnknownAsset, "did you mean tiny"),
        ('[tiny]\nfile = "x"\n', InvalidInput, r"\[tiny\]: expected path"),
        ('[tiny]\npath = "."\nhash = "x"\n', InvalidInput, r"\[tiny\]: expected path"),
        ("tiny = 3\n", InvalidInput, r"\[tiny\]: expected path"),
        ('[tiny]\npath = "."\ncolumns = ["label"]\n', InvalidInput, r"\[tiny\]: expected path"),
        ('[tiny]\npath = "."\ntext = 3\n', InvalidInput, r"\[tiny\]: expected path"),
        ("[tiny\n", InvalidInput, "expected TOML"),
    ],
)
def test_mistakes_in_the_local_registry(
    copied: Shop, text: str, error: type[TextprivError], says: str
) -> None:
    (copied.root / "assets.local.toml").write_text(text)
    with pytest.raises(error, match=says):
        assets.fetch("tiny")


def test_a_local_registry_that_is_named_must_exist(
    copied: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXTPRIV_LOCAL_ASSETS", str(copied.root / "absent.toml"))
    with pytest.raises(AssetUnavailable, match=r"tiny: TEXTPRIV_LOCAL_ASSETS names .*absent\.toml"):
        assets.fetch("tiny")


def test_provenance_of_a_download(copied: Shop) -> None:
    expected = {"source": "wheel tiny==1.0", "digest": assets.registry()["tiny"].digest}
    assert assets.provenance("tiny") == expected
    (assets.fetch("tiny") / "receipt.json").write_text("{}")
    with pytest.raises(AssetCorrupt, match=r"tiny: expected a readable receipt\.json"):
        assets.provenance("tiny")


# --- Derived results ----------------------------------------------------------------------


def test_derived_is_built_once_per_key(copied: Shop) -> None:
    built: list[str] = []

    def build(folder: Path) -> None:
        built.append(folder.name)
        (folder / "a.txt").write_text("result")

    first = assets.derived("table", key="1", build=build)
    assert assets.derived("table", key="1", build=build) == first
    assert len(built) == 1
    assert (first / "a.txt").read_text() == "result"
    assert first.parent == copied.cache / "derived" and first.name.startswith("table-")
    assert assets.derived("table", key="2", build=build) != first
    assert len(built) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "a.txt").write_text("damage"),
        lambda folder: (folder / "a.txt").unlink(),
        lambda folder: (folder / "receipt.json").unlink(),
        lambda folder: (folder / "receipt.json").write_text("[]"),
    ],
)
def test_damaged_derived_results_are_built_again(
    copied: Shop, damage: Callable[[Path], object]
) -> None:
    def build(folder: Path) -> None:
        (folder / "a.txt").write_text("result")

    damage(assets.derived("table", key="1", build=build))
    assert (assets.derived("table", key="1", build=build) / "a.txt").read_text() == "result"


def test_a_failed_build_leaves_nothing(copied: Shop) -> None:
    def build(folder: Path) -> None:
        (folder / "a.txt").write_text("half")
        raise InvalidInput("the input is bad")

    with pytest.raises(InvalidInput, match="the input is bad"):
        assets.derived("table", key="1", build=build)
    assert [p for p in copied.cache.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "input"), OSError("no model")])
def test_errors_of_a_build_that_are_not_about_storage_stay_as_they_are(
    copied: Shop, error: OSError
) -> None:
    def build(folder: Path) -> None:
        raise error

    with pytest.raises(OSError) as info:
        assets.derived("table", key="1", build=build)
    assert info.value is error


# --- Command line -------------------------------------------------------------------------


def test_command_line(copied: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert assets.main(["list"]) == 0
    assert re.search(r"tiny +dataset +\S+ MB +- +not stated", capsys.readouterr().out)
    assert assets.main(["fetch"]) == 0  # the default profile's
    assert "tiny: ready at" in capsys.readouterr().out
    assert assets.main(["list"]) == 0
    assert re.search(r"tiny .* cached", capsys.readouterr().out)
    assert assets.main(["verify"]) == 0
    assert "tiny: intact" in capsys.readouterr().out
    assert assets.main(["lock"]) == 0
    assert capsys.readouterr().out == assets.lock_text()


@pytest.mark.parametrize("command", ["fetch", "verify", "card"])
def test_command_line_errors_are_one_line(
    copied: Shop, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert assets.main([command, "tyni"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: no asset is called 'tyni': did you mean tiny?\n"


def test_command_line_reports_damage(copied: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    folder = assets.fetch("tiny")
    (folder / "words.txt").write_bytes(b"")
    assert assets.main(["verify"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: tiny: words.txt") and error.count("\n") == 1


def test_verify_of_what_is_not_there(copied: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert assets.main(["verify", "tiny"]) == 1
    assert "run: python -m textpriv.assets fetch tiny" in capsys.readouterr().err


def test_cards_say_all_that_the_registry_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert assets.main(["card"]) == 0
    cards = capsys.readouterr().out
    for asset in assets.registry().values():
        section = cards.split(f"## {asset.title}\n")[1].split("\n## ")[0]
        told = [asset.id, asset.data_licence, asset.redistribution_why, asset.reference]
        told += [*asset.flaws, *map(str, asset.sources), *(s.licence for s in asset.sources)]
        told += [m.pin or "by revision" for m in asset.members]
        told += [" ".join(asset.otherwise.split())]
        assert [each for each in told if each not in section] == []


def test_receipts_are_plain_json(copied: Shop) -> None:
    receipt = json.loads((assets.fetch("tiny") / "receipt.json").read_text())
    hashes = {name: sha(data) for name, data in MEMBERS.items()}
    assert receipt == {"source": "wheel tiny==1.0", "sha256": hashes}
