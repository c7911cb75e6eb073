"""One notebook through papermill, and an end to the processes of notebooks that are given up.

A line is printed when a cell starts and one when it ends, and an error names the cell. The
executed copy is the old one until the new one is complete.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import papermill
import psutil
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from textpriv import paths
from textpriv.errors import RunError
from textpriv.files import cannot_write, disk_refusal
from textpriv.report import results
from tools.notebooks import Notebook, heading, say

_LAST_LINES = 12  # of a traceback
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # has no place in a log file

logging.getLogger("papermill").setLevel(logging.CRITICAL)  # our own lines say it all


class Watched(AsyncZMQSocketChannel):
    """A channel that looks again every second.

    nbclient sends an output widget's state while it waits for the end of its cell, on the same
    socket and past the event loop. A reply that comes at this moment wakes nobody: without another
    look the cell never ends, which happened in half of the runs on a busy machine.
    """

    async def get_msg(  # type: ignore[override]  # the class above says the same of its own
        self, timeout: float | None = None
    ) -> dict[str, Any]:
        """The next message; Empty after so many seconds."""
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        while not await self.socket.poll(1000) and time.monotonic() < end:
            pass
        return await super().get_msg(timeout=0)


class OwnKernel(AsyncKernelManager):
    """Of this very interpreter, whatever the user has installed under the name "python3"."""

    def client(self, **options: Any) -> AsyncKernelClient:  # type: ignore[override]
        made = super().client(**options)
        made.shell_channel_class = Watched
        return made

    @property
    def kernel_spec(self) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python 3", language="python")


class Log:
    """The progress of one notebook, as lines that read well in a file and in a terminal."""

    def __init__(self, notebook: Notebook) -> None:
        self.name = notebook.name
        self.cell = "before the first cell"  # and then the current one
        self._start = time.monotonic()
        own = [index for index, cell in enumerate(notebook.cells) if cell.runs]
        self._called = {
            notebook.cells[index].id: f"cell {number}/{len(own)} ({heading(notebook.cells, index)})"
            for number, index in enumerate(own, start=1)
        }

    def start(self, cell: NotebookNode, cell_index: int) -> None:
        if cell.id in self._called:  # neither text nor the cell that papermill injects
            self.cell = self._called[cell.id]
            self._start = time.monotonic()
            say(self.name, f"{self.cell} ...")

    def end(self, cell: NotebookNode, cell_index: int, execute_reply: dict[str, Any]) -> None:
        if cell.id in self._called and execute_reply["content"]["status"] == "ok":
            say(self.name, f"{self.cell} done in {self._seconds:.1f} s")

    def explained(self, error: Exception, cell_minutes: float | None) -> str:
        """What went wrong, in which cell."""
        if isinstance(error, PapermillExecutionError):
            lines = _COLOUR.sub("", "\n".join(error.traceback)).splitlines() or [str(error)]
            trace = "\n".join(f"    {line}" for line in lines[-_LAST_LINES:])
            what = f"{error.ename}: {error.evalue}".splitlines()[0]
            return f"{self.cell} failed after {self._seconds:.1f} s: {what}\n{trace}"
        if isinstance(error, CellTimeoutError):
            return f"{self.cell} took longer than {cell_minutes:g} minutes"
        return (
            f"{self.cell}: the kernel died after {self._seconds:.1f} s; "
            "it was killed, most often because memory ran out"
        )

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start


def execute(
    notebook: Notebook,
    output: Path,
    parameters: Mapping[str, Any],
    cell_minutes: float | None,
    interrupted: Event,
) -> None:
    """Run a notebook and save the executed copy; RunError names the cell that failed.

    papermill saves after every cell, beside `output`. What failed is kept as well, to be looked
    at; what is interrupted leaves the old copy, and so does a full disk (StorageError).
    """
    log = Log(notebook)
    unfinished = output.with_name(f".{output.stem}.partial{output.suffix}")
    seconds = None if cell_minutes is None else max(1, round(cell_minutes * 60))
    try:
        try:
            papermill.execute_notebook(
                paths.NOTEBOOKS / notebook.file,
                unfinished,
                dict(parameters),
                kernel_name="python3",
                kernel_manager_class=OwnKernel,
                progress_bar=False,
                execution_timeout=seconds,
                extra_arguments=["--log-level=CRITICAL"],  # what a cell raises comes another way
                on_cell_start=log.start,
                on_cell_executed=log.end,
            )
        except (PapermillExecutionError, CellTimeoutError, DeadKernelError) as error:
            if not interrupted.is_set():
                os.replace(unfinished, output)
            raise RunError(log.explained(error, cell_minutes)) from error
        os.replace(unfinished, output)
    except OSError as error:
        if (reason := disk_refusal(error)) is None:
            raise
        raise cannot_write(Path(error.filename or output), reason) from error
    finally:
        unfinished.unlink(missing_ok=True)


def end_processes(folder: Path) -> bool:
    """Kill every other process of a run's notebooks, known by its environment.

    Kernels, and what they have started. Whether there was any: some may have been left by a
    runner that was killed, and would write into the files of the next.
    """
    running = [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(results.RUNNER) == str(folder)
        and process.pid != os.getpid()
    ]
    for process in running:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(running, timeout=5)
    return bool(running)
