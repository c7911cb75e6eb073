"""The points of `study.measure` side by side: on the cores of this machine, or on a Dask cluster.

A shard is one call of a function, at one point. Two habits give the same bits whatever runs where:
a shard draws from `seeds.stream(seed, ...)` keyed by what the shard is (its epsilon, its first
word), never from a stream that shards share; and it changes nothing but what it returns.

Where the environment variable TEXTPRIV_SCHEDULER holds the address of a Dask scheduler, all shards
go there (`run_all.sh --backend dask --scheduler ADDRESS` sets it). When a worker dies, Dask runs
its shards again on another one. docs/CLUSTER.md has a script for SLURM.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from tqdm.auto import tqdm

from textpriv.checks import check_count
from textpriv.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

SCHEDULER = "TEXTPRIV_SCHEDULER"
"""Environment variable with the address of the scheduler; unset or empty: this machine."""

CONNECT_SECONDS = 5
WORKER_SECONDS = 30  # for a first worker to join
ON_GPU = 6  # processes that share a GPU: in its memory each has its own copy of the models

ADDRESS = re.compile(r"(tcp|tls|ucx|wss?)://\S+:\d+/?")

Result = TypeVar("Result")


def one_by_one(
    function: Callable[..., Result],
    points: Sequence[Mapping[str, Any]],
    *,
    processes: int,
    label: str | None,
) -> Iterable[Result]:
    """`function(**point)` in the order of the points, each once it and those before it are there.

    Parameters
    ----------
    processes : on this machine; 1 works in this process and copies nothing, -1 takes one per
        core. They share out the cores; of those that use a GPU at most `ON_GPU` run at once. A
        cluster uses all its workers.
    label : of the progress bar; None shows none

    Raises
    ------
    RunError : the scheduler does not answer, or is lost before the end
    Whatever the function raises, with its type and message.
    """
    if processes != -1:
        check_count(processes, what="processes")
    if address := os.environ.get(SCHEDULER):
        results = _on_cluster(address, function, points)
    else:
        many = _processes(processes)
        shards = (delayed(_tidied)(function, point) for point in points)
        # Threads do not depend on the points, of which an interrupted run has fewer left: their
        # number may change the last digits.
        _give_back()
        with parallel_config("loky", inner_max_num_threads=max(1, cpu_count() // many)):
            # None waits in this process: with all that a shard uses it may be hundreds of MB.
            results = Parallel(n_jobs=many, return_as="generator", pre_dispatch="n_jobs")(shards)
    shown: Iterable[Result] = tqdm(
        results, total=len(points), desc=label, mininterval=5, disable=label is None
    )
    return shown


def _tidied(function: Callable[..., Result], point: Mapping[str, Any]) -> Result:
    """One shard, which leaves no memory behind."""
    try:
        return function(**point)
    finally:
        _give_back()


def _give_back() -> None:
    """Memory that was freed goes back to the system: glibc keeps it, hundreds of MB of networks."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)


def _processes(asked: int) -> int:
    """As many as were asked for; where this process uses a GPU, no more than have room on it."""
    many = effective_n_jobs(asked)
    torch = sys.modules.get("torch")  # what has not imported it uses no GPU
    return min(many, ON_GPU) if torch and torch.cuda.is_initialized() else many


# --- On a cluster ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Held:
    """An argument on its way: Dask looks into lists and dictionaries, but not into this."""

    value: Any


def connected(address: str) -> Client:
    """A client of the scheduler at `address`, to be closed after use.

    Raises
    ------
    RunError : no address, the package distributed is missing, nothing answers, or no worker joins
    """
    if not ADDRESS.fullmatch(address):
        raise RunError(f"scheduler: got {address!r}, expected an address like tcp://10.0.0.1:8786")
    try:
        from distributed import Client
    except ImportError as error:
        raise RunError(
            "a Dask cluster needs packages that are not installed; "
            "run python -m pip install -e '.[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RunError(
            f"no Dask scheduler answers at {address} ({error}); start it, and see that this "
            "machine reaches it"
        ) from error
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise RunError(
            f"the scheduler at {address} has no worker; start some (dask worker {address})"
        ) from error
    return client


def _on_cluster(
    address: str, function: Callable[..., Result], points: Sequence[Mapping[str, Any]]
) -> Iterator[Result]:
    # Not joblib's own Dask backend: it scatters arguments, which are lost with their worker, takes
    # a shard that was given up for a result, and leaves a cluster of one worker idle.
    import dask

    # Without a warning of large graphs: the function goes through the scheduler, with what it uses.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with connected(address) as client, dask.config.set(quiet):  # set after distributed is imported
        # Sent once, as the result of a task, which Dask runs again when the worker that holds it
        # dies. Scattered, it would be lost, and with it the shards.
        sent = client.submit(_unchanged, _Held(function), pure=False)
        futures = [client.submit(_run, sent, _Held(point), pure=False) for point in points]
        try:
            for future in futures:
                yield future.result()
        except CancelledError as error:
            raise RunError(f"the scheduler at {address} went away; start it, run again") from error


def _run(function: _Held, point: _Held) -> Any:
    """One shard, on a worker; loops inside it (scikit-learn has some) stay there."""
    with parallel_config("sequential"):
        return function.value(**point.value)


def _unchanged(held: _Held) -> _Held:
    return held
