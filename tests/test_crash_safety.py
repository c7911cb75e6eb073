"""Killed with kill -9 at any step: the old state or the new one, never a torn one.

Every operation on files counts as a step, and so does every piece of a file. After each kill what
is there must be old or complete, and the same call again must give what an undisturbed one gives,
byte for byte, with nothing left beside it.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import DeadKernelError
from tiny_assets import Tiny, files_below, real_members
from tools import execute
from tools.notebooks import Declaration, Notebook

from textpriv import assets, files
from textpriv.assets import store
from textpriv.errors import RunError, StorageError
from textpriv.files import disk_refusal, write_atomic

CHANGES = {"os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def forked(act: Callable[[], object], below: Path, at: int | None = None) -> tuple[int, int]:
    """Act in a fork that dies before its `at`-th change of files below a folder.

    Its exit status (-9: killed) and how many changes it came to. Python's audit hooks tell of each
    before it happens, so that killing at step k leaves what k - 1 operations made.
    """
    read, written = os.pipe()
    if not (child := os.fork()):
        counted, status = itertools.count(1), 1

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            changes = bool(arguments[2] & WRITES) if event == "open" else event in CHANGES
            if changes and isinstance(arguments[0], str | bytes):
                name = os.fsdecode(arguments[0])
                # What removes a tree names its files alone, relative to a descriptor.
                if name.startswith(str(below)) or not os.path.isabs(name):
                    os.write(written, b".")
                    if next(counted) == at:
                        os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            act()
            status = 0
        finally:
            os._exit(status)
    os.close(written)
    with os.fdopen(read, "rb") as pipe:
        steps = len(pipe.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), steps


def build(folder: Path) -> None:
    """A computation that writes several files, bit by bit."""
    for name in ("first.txt", "folder/second.txt", "third.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        for number in range(6):
            with (folder / name).open("ab") as file:
                file.write(bytes([number]) * 5000)


@pytest.mark.parametrize("damaged", [False, True], ids=["fresh", "repaired"])
def test_killed_at_every_step(damaged: bool, cache: Path) -> None:
    """Of a computation; assets come into the cache by the same `store.make_folder`."""

    def make(at: int | None = None) -> tuple[int, int]:
        return forked(lambda: assets.derived("table", key="1", build=build), cache, at)

    def reset() -> None:
        shutil.rmtree(cache)
        for name, data in expected.items() if damaged else ():
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            (cache / name).write_bytes(data[:-1] if name.endswith("third.bin") else data)

    def assert_old_or_new() -> None:
        """Only the whole result may pass for it."""
        if store.is_intact(folder):
            assert {f"{inside}/{n}": data for n, data in files_below(folder).items()} == expected
        assert len([*cache.rglob("*.partial")]) <= 1

    folder = assets.derived("table", key="1", build=build)
    inside, expected = folder.relative_to(cache), files_below(cache)
    reset()
    status, steps = make()
    assert status == 0 and steps >= 25
    for at in range(1, steps + 1):
        reset()
        assert make(at) == (-9, at)
        assert_old_or_new()
        assert make()[0] == 0
        assert files_below(cache) == expected  # as undisturbed, and nothing is left beside it
        assert not [*cache.rglob("*.partial")]
        assert make() == (0, 0)  # and what is whole is used as it is
    reset()
    assert make(steps + 1)[0] == 0  # no step was overlooked
    reset()
    for at in [*range(2, steps, 3), *range(steps - 1, 2, -3)]:
        make(at)  # again and again: nothing piles up
        assert_old_or_new()


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


def test_a_file_is_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "results" / "file.json"
    write_atomic(path, b"old")
    status, steps = forked(lambda: write_atomic(path, b"old"), tmp_path)
    assert status == 0 and steps >= 4
    seen = set()
    for at in range(1, steps + 1):
        assert forked(lambda: write_atomic(path, b"new" * 9000), tmp_path, at) == (-9, at)
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
    refusal = disk_refusal(error)
    assert refusal is None if reason is None else refusal is not None and refusal.startswith(reason)
