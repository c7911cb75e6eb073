"""What the workers of test_parallel run; a module of its own, so that they import little."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from textpriv.errors import InvalidInput
from textpriv.seeds import stream


def drawn(number: int, seed: int, table: np.ndarray) -> tuple[int, np.ndarray]:
    """Noise of the shard's own stream, through floating point that order would change."""
    noise = stream(seed, "shard", number).standard_normal((64, len(table)))
    return number, np.tanh(noise @ table).sum(1)


def drawn_by_the_dying(
    number: int, seed: int, table: np.ndarray, folder: Path
) -> tuple[int, np.ndarray]:
    """`drawn`, but shard 5 takes its process with it, the first time."""
    (folder / f"{number}-{os.getpid()}").touch()
    if number == 5 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return drawn(number, seed, table)


def fails(number: int) -> int:
    if number == 3:
        raise InvalidInput("shard 3: got 3, expected another number")
    return number


def fails_first(number: int, folder: Path) -> int:
    (folder / str(number)).touch()
    time.sleep(0.2)
    return fails(number + 3)


def threads(_: int) -> int:
    """That this process gives to linear algebra."""
    return int(os.environ["OMP_NUM_THREADS"])


def process(_: int) -> int:
    return os.getpid()


def place_of(table: np.ndarray, _: int) -> tuple[int, int]:
    """Process, and where the table lies in it."""
    return os.getpid(), id(table)


def inside(_: int) -> tuple[int, list[int]]:
    """Cores that a loop inside a shard gets, and the processes that it runs in."""
    return effective_n_jobs(-1), Parallel(n_jobs=-1)(delayed(process)(i) for i in range(3))


def described() -> dict[str, str]:
    """Another version in workers than in the process that started them."""
    return {"numpy": "1.0" if multiprocessing.parent_process() else "2.0"}
