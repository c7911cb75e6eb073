"""The options of `./run_all.sh`, with the standard library alone: --help needs no set-up."""

from __future__ import annotations

import argparse
from pathlib import Path

from textpriv.report import DEFAULT_SEED

_PROFILES = Path(__file__).parents[1] / "lib" / "textpriv" / "experiments" / "profiles"


def parser() -> argparse.ArgumentParser:
    """Of the command line of the runner."""
    profiles = ", ".join(sorted(path.stem for path in _PROFILES.glob("*.toml")))
    made = argparse.ArgumentParser(
        prog="run_all.sh", description="Run the notebooks; write figures/ and results/."
    )
    add = made.add_argument
    add("--profile", default="default", help=f"one of {profiles}")
    add("--only", nargs="+", action="extend", metavar="NN", help="run these notebooks only")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="notebooks side by side, which share the cores (default: 2, with a GPU 1)",
    )
    add("--backend", choices=["local", "dask"], default="local", help="where shards of work run")
    add("--scheduler", default="", metavar="ADDRESS", help="of the Dask cluster (tcp://host:8786)")
    add("--corpus", metavar="FILE", help="texts of your own in place of the notebooks' corpora")
    add("--seed", type=int, default=DEFAULT_SEED, help=f"default: {DEFAULT_SEED}")
    add("--force", action="store_true", help="run also what is up to date")
    add(
        "--any-machine",
        action="store_true",
        help="go on with points (runs/PROFILE/points) that another machine has made",
    )
    add("--redraw", action="store_true", help="draw all figures again from the numbers of the run")
    add("--list", action="store_true", help="say what would run and why, and stop")
    add("--dry-run", action="store_true", help="say what would be fetched and cost, and stop")
    return made


if __name__ == "__main__":
    parser().parse_args()
