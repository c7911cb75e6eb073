"""Shards side by side: on the cores of this machine, or on a Dask cluster, with the same bits.

    rates = parallel.map(attacked_at, [(material, epsilon, 7) for epsilon in (1.0, 2.0, 4.0)])

A shard is one call of a function, given by its arguments. Two habits make the result the same
whatever runs where: a shard draws from `seeds.stream(seed, ...)` keyed by what the shard is (its
epsilon, its first word), never from a stream that shards share; and it changes nothing but what it
returns.

Where the environment variable TEXTPRIV_SCHEDULER holds the address of a Dask scheduler, every
`map` goes there (`run_all.sh --backend dask --scheduler ADDRESS` sets it). When a worker dies, Dask
runs its shards again on another one. docs/CLUSTER.md has a script for SLURM.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from joblib import Parallel, delayed, parallel_config
from tqdm.auto import tqdm

from textpriv.checks import check_count
from textpriv.errors import InvalidInput, RunError

if TYPE_CHECKING:
    from distributed import Client, Future

SCHEDULER = "TEXTPRIV_SCHEDULER"
"""Environment variable with the address of the scheduler; unset or empty: this machine."""

CONNECT_SECONDS = 5
WORKER_SECONDS = 30  # for a first worker to join

ADDRESS = re.compile(r"(tcp|tls|ucx|wss?)://\S+:\d+/?")
SMALL = (str, int, float, type(None))  # sent with each shard

Result = TypeVar("Result")
Shard = tuple[Any, ...]


def map(
    function: Callable[..., Result],
    shards: Iterable[Shard],
    *,
    processes: int = 1,
    label: str | None = None,
) -> list[Result]:
    """`[function(*shard) for shard in shards]`, side by side; see `one_by_one`."""
    return list(one_by_one(function, shards, processes=processes, label=label))


def one_by_one(
    function: Callable[..., Result],
    shards: Iterable[Shard],
    *,
    processes: int = 1,
    label: str | None = None,
) -> Iterable[Result]:
    """The results in the order of the shards, each as soon as it and those before it are there.

    Parameters
    ----------
    function : at the top of a module, so that workers can import it
    shards : arguments of each call. What is large and common to several should be the same
        object in each, an argument of its own: on a cluster it is then sent once.
    processes : on this machine; 1 works in this process and copies nothing, -1 takes one per
        core. A cluster uses all its workers.
    label : of the progress bar; None shows none

    Raises
    ------
    InvalidInput : a function that workers cannot import, a shard that is no tuple, or `processes`
        that are neither positive nor -1
    RunError : the scheduler does not answer, or is lost before the end
    Whatever the function raises, with its type and message.
    """
    _check(function, processes)
    calls = list(shards)
    for call in calls:
        if not isinstance(call, tuple):
            raise InvalidInput(f"shards: got {call!r:.60}, expected tuples of arguments")
    address = os.environ.get(SCHEDULER)
    found = _on_cluster(address, function, calls) if address else _here(function, calls, processes)
    shown: Iterable[Result] = tqdm(
        found, total=len(calls), desc=label, mininterval=5, disable=label is None
    )
    return shown


def _check(function: Callable[..., Any], processes: int) -> None:
    name = getattr(function, "__qualname__", "<unnamed>")
    if "<" in name:  # <lambda>, <locals>
        raise InvalidInput(
            f"function: got {name}, expected a function at the top of a module, which a worker "
            "can import"
        )
    if processes != -1:
        check_count(processes, what="processes")


def _here(
    function: Callable[..., Result], calls: Sequence[Shard], processes: int
) -> Iterator[Result]:
    return Parallel(n_jobs=processes, return_as="generator")(
        delayed(function)(*call) for call in calls
    )


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
    address: str, function: Callable[..., Result], calls: Sequence[Shard]
) -> Iterator[Result]:
    # Not joblib's own Dask backend: it scatters arguments, which are lost with their worker, takes
    # a shard that was given up for a result, and leaves a cluster of one worker idle.
    import dask

    # Without a warning of large graphs: arguments go through the scheduler, see `_sent`.
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with connected(address) as client, dask.config.set(quiet):  # set after distributed is imported
        sent = _sent(client, calls)
        futures = [
            client.submit(
                _run, function, *(sent.get(id(each), _Held(each)) for each in call), pure=False
            )
            for call in calls
        ]
        try:
            for future in futures:
                yield future.result()
        except CancelledError as error:
            raise RunError(f"the scheduler at {address} went away; start it, run again") from error


def _run(function: Callable[..., Result], *arguments: _Held) -> Result:
    """One shard, on a worker; loops inside it (scikit-learn has some) stay there."""
    with parallel_config("sequential"):
        return function(*(each.value for each in arguments))


def _sent(client: Client, calls: Sequence[Shard]) -> dict[int, Future]:
    """What several shards have in common, by id, on its way to the cluster once.

    As the result of a task: when the worker that holds it dies, Dask runs the task again.
    Scattered data would be lost, and with it the shards.
    """
    by_id = {id(each): each for call in calls for each in call if not isinstance(each, SMALL)}
    times = Counter(key for call in calls for key in {id(each) for each in call})
    return {
        key: client.submit(_unchanged, _Held(each), pure=False)
        for key, each in by_id.items()
        if times[key] > 1
    }


def _unchanged(held: _Held) -> _Held:
    return held
