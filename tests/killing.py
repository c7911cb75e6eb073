"""Kill -9 at the k-th step: every operation that changes files below a folder counts as one.

`install` is for a process that dies for a test. Python's audit hooks tell of each file that is
opened for writing, renamed, made or removed before it happens, so that killing at step k leaves
what k - 1 operations made; `step` adds points of a program's own, such as between two chunks of a
file. As a script, this module obeys orders: it imports the library once and forks one process per
order, which takes milliseconds where a fresh one would take a second.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = {
    "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
    "os.truncate", "shutil.rmtree",
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

step: Callable[[], None] = lambda: None  # noqa: E731  # `install` replaces it


def install(below: str, at: int | None, tell: Callable[[int], None] | None = None) -> None:
    """Count the changes below a folder, `tell` the count so far, and die at number `at`."""
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if tell:
            tell(count)
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            changes = bool(flags & _WRITES)
        else:
            path, changes = arguments[0] if arguments else None, event in _CHANGES
        if changes and isinstance(path, str | bytes):
            name = os.fsdecode(path)
            # What removes a tree names its files alone, relative to a descriptor.
            if name.startswith(below) or not os.path.isabs(name):
                counted()

    global step
    step = counted
    fsync = os.fsync

    def counted_fsync(descriptor: int) -> None:
        counted()
        fsync(descriptor)

    os.fsync = counted_fsync
    sys.addaudithook(hook)


# --- Operations, done in a fork -------------------------------------------------------------------

PARTS = {"first.txt": 40, "folder/second.txt": 25, "third.bin": 60}  # lines of 1,000 bytes


def build(folder: Path) -> None:
    """A computation that writes several files, bit by bit."""
    for name, lines in PARTS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb", buffering=0) as file:
            for number in range(lines):
                file.write(bytes([number]) * 1000)
                if number % 5 == 0:
                    step()


def derive(order: dict[str, Any]) -> None:
    from textpriv import assets

    assets.derived("table", key="1", build=build)


def write(order: dict[str, Any]) -> None:
    from textpriv.files import write_atomic

    write_atomic(Path(order["path"]), order["text"].encode())


OPERATIONS = {"derive": derive, "write": write}


def _obey(order: dict[str, Any]) -> dict[str, Any]:
    """Fork, and let the child do what is ordered."""
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["TEXTPRIV_CACHE"] = order["below"]
            install(order["below"], order.get("at"), lambda _: os.write(written, b"."))
            OPERATIONS[order["do"]](order)
            status = 0
        finally:
            os._exit(status)
    os.close(written)
    with os.fdopen(read, "rb") as pipe:
        steps = len(pipe.read())
    _, status = os.waitpid(child, 0)
    return {"status": os.waitstatus_to_exitcode(status), "steps": steps}


class Forks:
    """The process that forks, as a test sees it."""

    def __init__(self) -> None:
        library = Path(__file__).resolve().parents[1] / "lib"
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, do: str, **order: Any) -> dict[str, Any]:
        """Exit status (-9 when killed), and steps taken."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


if __name__ == "__main__":
    sys.modules["killing"] = sys.modules["__main__"]
    import textpriv.assets
    import textpriv.files  # noqa: F401  # now, not in every fork

    for line in sys.stdin:
        print(json.dumps(_obey(json.loads(line))), flush=True)
