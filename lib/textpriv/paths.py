"""Where things are: the repository, the cache, and what a run writes."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
RUNS = REPOSITORY / "runs"
COMMITTED = {"default": "", "full": "full"}  # folders of the runs whose outputs git holds


def cache_directory() -> Path:
    """Folder of downloaded assets and of what is derived from them.

    `TEXTPRIV_CACHE` overrides the platform's usual cache folder.
    """
    override = os.environ.get("TEXTPRIV_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("textpriv"))


def output_directory(run: str, kind: str) -> Path:
    """Folder of a run's "figures" or "results".

    Git holds those of `COMMITTED`; the others lie under `runs/<run>`, which it ignores.
    """
    if run not in COMMITTED:
        return RUNS / run / kind
    return REPOSITORY / kind / COMMITTED[run]
