"""Where a result comes from: the commit, the libraries, and the memory it took."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from textpriv import __version__, paths

LIBRARIES = (
    "annoy",
    "faiss-cpu",
    "faiss-gpu",
    "matplotlib",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "statsmodels",
    "torch",
)
"""The libraries whose version can move a number or a pixel."""

_WRITTEN = (":!figures", ":!results", ":!README.md")  # made by runs, so no sign of other code


def commit() -> str | None:
    """Commit that is checked out; None outside a clone of this repository."""
    inside = _git("rev-parse", "--show-toplevel")
    if inside is None or Path(inside).resolve() != paths.REPOSITORY:
        return None  # an unpacked archive that lies inside somebody else's repository
    return _git("rev-parse", "HEAD")


def dirty() -> bool | None:
    """Whether the code differs from `commit()`; None when there is no commit."""
    if commit() is None:
        return None
    return _git("status", "--porcelain", "--", ".", *_WRITTEN) != ""


def versions() -> dict[str, str]:
    """Versions of Python, of textpriv and of those of `LIBRARIES` that are installed."""
    found = {"python": platform.python_version(), "textpriv": __version__}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # faiss comes as faiss-cpu or as faiss-gpu
    return found


def processor() -> str:
    """Kind of processor, and which of the instructions that decide a dtype it has."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    has = {
        key.strip(): value.strip()
        for key, _, value in (each.partition(":") for each in first.splitlines())
    }
    kind = ", ".join(f"{key} {has[key]}" for key in ("cpu family", "model") if key in has)
    name = has.get("model name", platform.machine())
    special = [flag for flag in ("avx512_bf16", "amx_bf16") if flag in has.get("flags", "").split()]
    return f"{name} ({kind}); {', '.join(special) or 'no bfloat16 instructions'}"


def peak_mb() -> float:
    """Largest resident memory of this process so far, in MB (10^6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would also count the process that this one was forked from
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=paths.REPOSITORY, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # no git here
    return done.stdout.strip() if done.returncode == 0 else None
