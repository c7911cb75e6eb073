"""One notebook in a process of its own: `python -m tools.execute`.

The runner starts this module once per notebook. It runs the notebook through papermill,
prints one line when a cell starts and one when it ends, and on failure names the cell.
The executed copy is the old one until the new one is complete.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import papermill
from filelock import FileLock
from jupyter_client.kernelspec import KernelSpecManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from textpriv import paths
from textpriv.errors import RunError, TextprivError
from textpriv.files import cannot_write, disk_refusal
from tools.notebooks import Notebook, heading, read

KERNEL = "python3"
_LAST_LINES = 12  # of a traceback
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # has no place in a log file


class Log:
    """The progress of one notebook, as lines that read well in a file and in a terminal."""

    def __init__(self, notebook: Notebook) -> None:
        self.name = notebook.name
        self.cell = ""  # the current one
        self._start = time.monotonic()
        own = [index for index, cell in enumerate(notebook.cells) if cell.runs]
        self._called = {
            notebook.cells[index].id: f"cell {number}/{len(own)} ({heading(notebook.cells, index)})"
            for number, index in enumerate(own, start=1)
        }

    def say(self, text: str) -> None:
        print(f"{self.name}  {text}", flush=True)

    def start(self, cell: NotebookNode, cell_index: int) -> None:
        if cell.id in self._called:  # neither text nor the cell that papermill injects
            self.cell = self._called[cell.id]
            self._start = time.monotonic()
            self.say(f"{self.cell} ...")

    def end(self, cell: NotebookNode, cell_index: int, execute_reply: dict[str, Any]) -> None:
        if cell.id in self._called and execute_reply["content"]["status"] == "ok":
            self.say(f"{self.cell} done in {self.seconds:.1f} s")

    @property
    def seconds(self) -> float:
        """Since the current cell started."""
        return time.monotonic() - self._start


def execute(
    name: str, output: Path, parameters: dict[str, Any], cell_minutes: float | None
) -> None:
    """Run a notebook and save the executed copy; RunError names the cell that failed.

    StorageError says that the copy, or a file of the kernel's, cannot be written.
    """
    source = paths.NOTEBOOKS / f"{name}.ipynb"
    log = Log(read(source))
    try:
        with _alone(name, output.parent), _replaced(output) as unfinished:
            done = papermill.execute_notebook(
                source,
                unfinished,
                parameters,
                kernel_name=KERNEL,
                cwd=paths.NOTEBOOKS,
                progress_bar=False,
                execution_timeout=(
                    None if cell_minutes is None else max(1, round(cell_minutes * 60))
                ),
                extra_arguments=["--log-level=CRITICAL"],  # what a cell raises comes another way
                on_cell_start=log.start,
                on_cell_executed=log.end,
            )
    except PapermillExecutionError as error:
        lines = _COLOUR.sub("", "\n".join(error.traceback)).splitlines() or [str(error)]
        trace = "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
        what = f"{error.ename}: {error.evalue}".splitlines()[0]
        raise RunError(f"{log.cell} failed after {log.seconds:.1f} s: {what}\n{trace}") from error
    except CellTimeoutError as error:
        raise RunError(f"{log.cell} took longer than {cell_minutes:g} minutes") from error
    except DeadKernelError as error:
        raise RunError(
            f"{log.cell}: the kernel died after {log.seconds:.1f} s; "
            "it was killed, most often because memory ran out"
        ) from error
    except OSError as error:
        if (reason := disk_refusal(error)) is None:
            raise
        raise cannot_write(Path(error.filename or output), reason) from error
    _check_counts(done)


@contextmanager
def _alone(name: str, folder: Path) -> Iterator[None]:
    """Wait for a process that still runs this notebook: one whose runner was killed just now.

    It stops within seconds, but until then its kernel would write into the new run's files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{name}.lock"):
        yield


@contextmanager
def _replaced(output: Path) -> Iterator[Path]:
    """Where papermill may write, which saves anew after every cell; becomes `output` at the end.

    What failed is kept as well, to be looked at. What is interrupted leaves the old copy, and so
    does a full disk, on which what papermill wrote is cut off.
    """
    unfinished = output.with_name(f".{output.stem}.partial{output.suffix}")
    try:
        try:
            yield unfinished
        except (PapermillExecutionError, CellTimeoutError, DeadKernelError):
            os.replace(unfinished, output)
            raise
        os.replace(unfinished, output)
    finally:
        unfinished.unlink(missing_ok=True)


def check_kernel() -> None:
    """Refuse a kernel `python3` that belongs to another environment.

    The runner sets JUPYTER_PATH, which puts this environment's own kernel before any that
    the user has installed under the same name.
    """
    spec = KernelSpecManager().get_kernel_spec(KERNEL)
    own = {sys.executable, "python", "python3", "python{}.{}".format(*sys.version_info)}
    if spec.argv[0] not in own:
        raise RunError(
            f"the Jupyter kernel {KERNEL!r} starts {spec.argv[0]}, expected {sys.executable}; run "
            f"{sys.executable} -m ipykernel install --sys-prefix"
        )


def _check_counts(done: NotebookNode) -> None:
    code = [cell for cell in done.cells if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(counts) + 1)):
        raise RunError(f"expected cells to run 1 to {len(counts)} in order, got {counts}")


def _stop_with(parent: int) -> None:
    """End when the runner is gone, so that no notebook runs on unwatched."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)  # lets papermill shut the kernel down
    time.sleep(10)
    os._exit(130)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.execute", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("output", type=Path)
    parser.add_argument("parameters", type=json.loads)
    parser.add_argument("--cell-minutes", type=float)
    arguments = parser.parse_args()
    threading.Thread(target=_stop_with, args=[os.getppid()], daemon=True).start()
    logging.getLogger("papermill").setLevel(logging.ERROR)  # our own lines say it all
    try:
        check_kernel()
        execute(**vars(arguments))
    except TextprivError as error:
        print(f"{arguments.name}  {error}", flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
