"""Whether a Dask cluster can do this machine's work: asked before a run starts.

    cluster.check("tcp://10.0.0.1:8786")     # RunError says what is wrong, and what to do

Results keep their bits only where scheduler and workers have the same library, the same packages,
and run one shard at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from textpriv import parallel
from textpriv.errors import RunError
from textpriv.report import provenance

PACKAGE = Path(__file__).resolve().parents[1]
MOST_NAMED = 3  # machines in a message


def check(address: str) -> int:
    """Number of workers of a cluster that has what this process has; RunError where it has not."""
    own = described()
    with parallel.connected(address) as client:
        threads = client.nthreads()
        try:
            descriptions = {
                "the scheduler": client.run_on_scheduler(described),
                **client.run(described),
            }
        except Exception as error:  # of a module that is missing there, Dask makes a plain one
            raise RunError(
                f"a machine of the cluster at {address} cannot say what it has ({error}); start "
                "scheduler and workers in the same environment and repository as this run"
            ) from error
    crowded = [worker for worker, count in threads.items() if count != 1]
    if crowded:
        raise RunError(
            f"workers: {_some(crowded)} run several shards at once, expected one each; start them "
            "with --nthreads 1 (and as many as there are cores)"
        )
    for name, expected in own.items():
        others = {where: str(has.get(name)) for where, has in descriptions.items()}
        differ = [f"{where} ({got})" for where, got in others.items() if got != expected]
        if differ:
            raise RunError(
                f"{name}: {_some(differ)}, expected {expected} as here; update and restart them"
            )
    return len(threads)


@lru_cache
def described() -> Mapping[str, str]:
    """Versions of Python and libraries, and a digest of textpriv's own code.

    Kept by each process from its first answer on: a worker that was started before the code changed
    goes on with what it has loaded.
    """
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return {**provenance.versions(), "code of textpriv": digest.hexdigest()[:12]}


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
