"""Where things are: the repository, the cache, and what a run writes."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
RUNS = REPOSITORY / "runs"


def cache_directory() -> Path:
    """Folder of downloaded assets and of what is derived from them.

    `TEXTPRIV_CACHE` overrides the platform's usual cache folder.
    """
    override = os.environ.get("TEXTPRIV_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("textpriv"))


def output_directory(profile: str) -> Path:
    """Folder under which a profile's `figures/` and `results/` lie.

    Only the default profile writes the committed figures and results; the others
    write under `runs/<profile>`, which git ignores.
    """
    return REPOSITORY if profile == "default" else RUNS / profile
