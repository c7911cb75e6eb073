"""Where a result comes from: the commit, the libraries, and the memory it took."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Thread

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
    installed = {"python": platform.python_version(), "textpriv": __version__}
    for name in LIBRARIES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # faiss comes as faiss-cpu or as faiss-gpu
    return installed


def processor() -> str:
    """Kind of processor, which of the instructions that decide a dtype it has, and the GPU."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    import torch  # late: most of what asks for a commit has no need of it

    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    has = {
        key.strip(): value.strip()
        for key, _, value in (each.partition(":") for each in first.splitlines())
    }
    kind = ", ".join(f"{key} {has[key]}" for key in ("cpu family", "model") if key in has)
    name = has.get("model name", platform.machine())
    special = [flag for flag in ("avx512_bf16", "amx_bf16") if flag in has.get("flags", "").split()]
    card = f"; {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{name} ({kind}); {', '.join(special) or 'no bfloat16 instructions'}{card}"


def machine(device: str) -> str:
    """What decides the last digits of a number: device, processor and version of PyTorch."""
    return f"{device}, {processor()}, torch {metadata.version('torch')}"


def peak_mb() -> float:
    """Largest resident memory of this process so far, in MB (10^6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would also count the process that this one was forked from
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


class Memory:
    """The most that this process and those that it starts have held together, in MB.

    Pages that several of them share are counted once (their proportional set size). Looked at
    every second or so: what is held for less can be missed, though never of this process alone.
    """

    def __init__(self) -> None:
        self._most = 0.0
        Thread(target=self._watch, daemon=True).start()

    @property
    def peak_mb(self) -> float:
        """So far."""
        return max(self._most, peak_mb())

    def _watch(self) -> None:
        while True:
            start = time.perf_counter()
            self._most = max(self._most, held_mb())
            time.sleep(max(1.0, 20 * (time.perf_counter() - start)))  # a twentieth of a core


@cache
def memory() -> Memory:
    """The one that watches this process, from the first call on."""
    return Memory()


def held_mb() -> float:
    """What this process and those that it started hold now, in MB; 0 where that is not known."""
    import psutil  # late: comes with the notebooks

    held = 0.0
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            held += getattr(process.memory_full_info(), "pss", 0)
        except psutil.Error:  # it has ended, or does not let itself be looked at
            continue
    return held / 1e6


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=paths.REPOSITORY, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # no git here
    return done.stdout.strip() if done.returncode == 0 else None
