"""What runs on a GPU: checked against float64 on the processor, timed, put beside the limits.

    python -m benchmarks.gpu --out gpu.json                      # all parts
    python -m benchmarks.gpu --out gpu.json --part radius --all-words
    python -m benchmarks.gpu --out gpu.json --small              # seconds on any processor

Every row names what was counted as work. Its fraction is that work over the time, against the
rate of a large matrix product, measured in the same run. Beside the table of `--vectors` there are
synthetic ones. The table in Markdown is written next to the JSON, after every part. That encoders
and generators give on a GPU what they give on a processor is in tests/test_gpu_paths.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import gammainc

from textpriv.neighbors import AllRadii, ExactSearch, fused, random_directions

EPSILONS = np.arange(5.0, 60.0, 5.0)


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    large: tuple[int, int] = (319_774, 300)  # rows and dimensions of GloVe 840B in the paper
    narrow: tuple[int, int] = (400_000, 50)  # of GloVe 6B
    queries: int = 1 << 17
    directions: int = 1000
    words: int = 2048  # of those whose N_w is timed before all are
    product: int = 8192


SMALL = Sizes(
    large=(1000, 300), narrow=(1000, 50), queries=256, directions=64, words=4, product=256
)


@dataclass(frozen=True)
class Check:
    """One comparison with float64: the largest difference found, and what is allowed."""

    what: str
    found: float
    bound: float

    @property
    def is_right(self) -> bool:
        """NaN never is."""
        return self.found <= self.bound


@dataclass(frozen=True)
class Timed:
    """One speed, with the work that was counted and its fraction of the limit."""

    what: str
    unit: str
    per_second: float
    seconds: float
    work: str
    fraction: float


@dataclass
class Run:
    """A run's device, sizes and limits, and what was found so far; written after every part."""

    out: Path
    device: str
    sizes: Sizes
    vectors: Path | None = None  # a real table, as .npy
    all_words: bool = False  # in N_w, which takes minutes
    limits: dict[str, float] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def check(self, what: str, found: float, bound: float) -> None:
        self.checks.append(Check(what, float(found), bound))
        print(self.checks[-1], flush=True)

    def time(
        self, what: str, unit: str, action: Callable[[], object], items: float, *, work: str,
        each: float, repeats: int = 3,
    ) -> None:  # fmt: skip
        """Median seconds of `action`, which does `items` of `each` operations."""
        action()  # compiling, caches
        seconds = float(np.median([self.seconds(action) for _ in range(repeats)]))
        fraction = items * each / seconds / self.limits[PRODUCT]
        self.timed.append(Timed(what, unit, items / seconds, seconds, work, fraction))
        print(self.timed[-1], flush=True)

    def seconds(self, action: Callable[[], object]) -> float:
        self.wait()
        start = time.perf_counter()
        action()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def write(self) -> None:
        found = {
            **self.machine(),
            "sizes": asdict(self.sizes),
            "limits": self.limits,
            "checks": [asdict(each) | {"is_right": each.is_right} for each in self.checks],
            "timed": [asdict(each) for each in self.timed],
            "measured": self.measured,
        }
        self.out.write_text(json.dumps(found, indent=1) + "\n")
        self.out.with_suffix(".md").write_text(self.table() + "\n")

    def machine(self) -> dict[str, str]:
        """Names and versions of the device and of what drives it."""
        found = {"device": "cpu", "torch": torch.__version__}
        if self.device != "cpu":
            found |= {"device": torch.cuda.get_device_name(), "driver": driver()}
            found["cuda"] = str(torch.version.cuda)
            found["triton"] = getattr(fused.triton, "__version__", "none")
        return found

    def table(self) -> str:
        """All that was found, in Markdown."""
        lines = ["", ", ".join(f"{name} {value}" for name, value in self.machine().items()), ""]
        lines += ["| limit | measured |", "|---|---|"]
        lines += [f"| {name} | {value:.3g} |" for name, value in self.limits.items()]
        lines += ["", "| check against float64 | found | allowed | |", "|---|---|---|---|"]
        lines += [
            f"| {c.what} | {c.found:.3g} | {c.bound:.3g} | {'ok' if c.is_right else 'WRONG'} |"
            for c in self.checks
        ]
        lines += ["", "| what | speed | seconds | work counted | fraction of the bf16 product |"]
        lines += ["|---|---|---|---|---|"]
        lines += [
            f"| {t.what} | {t.per_second:,.0f} {t.unit} | {t.seconds:.3g} | {t.work} | "
            f"{t.fraction:.1%} |"
            for t in self.timed
        ]
        lines += [f"\n{name}: {value}" for name, value in self.measured.items()]
        return "\n".join(lines)


def driver() -> str:
    """Version of the GPU's driver."""
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    return answer.split("\n")[0].strip() or "unknown"


# --- Limits -------------------------------------------------------------------------------------

PRODUCT = "the bf16 product (FLOP/s)"


def limits(run: Run) -> None:
    """Rates of large products; of random numbers, since zeros run faster."""
    size, device = run.sizes.product, run.device
    allowed = torch.backends.cuda.matmul.allow_tf32
    for name, dtype, tf32 in (
        (PRODUCT, torch.bfloat16, False),
        ("the tf32 product (FLOP/s)", torch.float32, True),
        ("the fp32 product (FLOP/s)", torch.float32, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        run.limits[name] = 2 * size**3 / rate(run, lambda a=left, b=right: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = allowed
    print(run.limits, flush=True)


def rate(run: Run, action: Callable[[], object]) -> float:
    """Seconds of one of ten calls in a row, median of five such rows."""
    action()
    return float(np.median([run.seconds(lambda: [action() for _ in range(10)]) / 10
                            for _ in range(5)]))  # fmt: skip


# --- Neighbours ---------------------------------------------------------------------------------


def vectors_like(rows: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Synthetic word vectors: clusters of ten, norms and nearest neighbours as in GloVe 840B.

    There norms are 5.0 to 8.3 (1% and 99%) and the nearest neighbour is 4.5 away (medians of
    33,860 words).
    """
    shape = (rows, dimension)
    centers = rng.standard_normal((-(-rows // 10), dimension), dtype=np.float32)
    own = rng.standard_normal(shape, dtype=np.float32)
    table = 0.87 * centers[rng.integers(len(centers), size=rows)] + 0.49 * own
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    return table * np.exp(rng.normal(np.log(6.6), 0.11, (rows, 1))).astype(np.float32)


def tables(run: Run) -> Iterator[tuple[str, np.ndarray]]:
    if run.vectors is not None:
        table = np.load(run.vectors, allow_pickle=False).astype(np.float32)
        yield f"{run.vectors.stem}, {table.shape[0]:,} x {table.shape[1]}", table
    for rows, dimension in (run.sizes.narrow, run.sizes.large):
        rng = np.random.default_rng((0, dimension))
        yield f"synthetic, {rows:,} x {dimension}", vectors_like(rows, dimension, rng)


def noisy(table: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Words under the noise at epsilon = dimension / 30, of length 30 on average."""
    _, n = table.shape
    length = rng.gamma(n, 30 / n, (count, 1))
    return table[rng.integers(len(table), size=count)] + length * random_directions(count, n, rng)


def search_part(run: Run) -> None:
    rng = np.random.default_rng(1)
    for label, table in tables(run):
        exact = ExactSearch(table, device=run.device)
        some = noisy(table, 64, rng)
        found, distance = exact.nearest(some, k=1)
        truth, least = nearest_in_float64(table, some)
        run.check(f"nearest rows that differ, {label}", (found[:, 0] != truth).mean(), 0.0)
        error = np.abs(distance[:, 0] / least - 1).max()
        run.check(f"distance to the nearest, relative, {label}", error, 1e-12)
        queries = noisy(table, run.sizes.queries, rng)
        run.time(
            f"exact nearest neighbour, {label}", "queries/s",
            lambda e=exact, q=queries: e.nearest(q), len(queries),
            work="2 x rows x dimensions", each=2 * table.size,
        )  # fmt: skip


def nearest_in_float64(table: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest row of each query, and its distance: of ten by score, the least difference."""
    exact = table.astype(np.float64)
    scores = queries @ exact.T - (exact**2).sum(1) / 2
    ten = np.argpartition(-scores, min(10, len(exact) - 1), axis=1)[:, :10]
    distances = np.linalg.norm(queries[:, None] - exact[ten], axis=2)
    best = distances.argmin(1)[:, None]
    return np.take_along_axis(ten, best, 1)[:, 0], np.take_along_axis(distances, best, 1)[:, 0]


def radius_part(run: Run) -> None:
    rng = np.random.default_rng(2)
    sizes = run.sizes
    for label, table in tables(run):
        radii = AllRadii(ExactSearch(table, device=run.device))
        check_radii(run, radii, table, label, rng)
        if label.startswith("synthetic") and table.shape != sizes.large:
            continue
        count = len(table) if run.all_words else min(sizes.words, len(table))
        words = np.sort(rng.choice(len(table), count, replace=False))
        curves: list[np.ndarray] = []

        def kept(
            words: np.ndarray = words, radii: AllRadii = radii, curves: list[np.ndarray] = curves
        ) -> None:
            curves.append(radii.kept(words, EPSILONS, directions=sizes.directions, rng=rng))

        what = f"N_w, {sizes.directions} directions and {len(EPSILONS)} epsilons a word, {label}"
        run.time(
            f"{what}, {count:,} words", "words/s", kept, count,
            work="2 x rows x dimensions x directions", each=2.0 * table.size * sizes.directions,
            repeats=1 if run.all_words else 2,
        )  # fmt: skip
        run.measured[f"N_w, mean over {count:,} words, {label}"] = dict(
            zip(EPSILONS.tolist(), curves[-1].mean(1).round(5).tolist(), strict=True)
        )


def check_radii(
    run: Run, radii: AllRadii, table: np.ndarray, label: str, rng: np.random.Generator
) -> None:
    """Few and many directions a word, which take different paths, and the law of the radius."""
    exact = table.astype(np.float64)
    for words, k in ((8, 4), (3, 64)):
        ids = rng.integers(len(table), size=words)
        units = random_directions(words * k, table.shape[1], rng).reshape(words, k, -1)
        found, takers = radii.first_crossing(ids, units)
        error, others = 0.0, 0
        for row, word in enumerate(ids):
            offset = exact - exact[word]
            slope, cost = offset @ units[row].T, (offset**2).sum(1)[:, None] / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = np.where(slope > 0, cost / slope, np.inf)
            crossing[word] = np.inf
            error = max(error, float(np.abs(found[row] / crossing.min(0) - 1).max()))
            others += int((takers[row] != crossing.argmin(0)).sum())
        run.check(f"first crossing, relative, {k} directions, {label}", error, 1e-9)
        run.check(f"words that cross first and differ, {k} directions, {label}", others, 0)
    n = table.shape[1]
    masses = EPSILONS * np.quantile(found, np.linspace(0, 1, 21))[:, None]
    shape = torch.tensor(float(n), dtype=torch.float64, device=run.device)
    ours = torch.special.gammainc(shape, torch.from_numpy(masses).to(run.device)).cpu().numpy()
    run.check(f"law of the radius, {label}", np.abs(ours - gammainc(n, masses)).max(), 1e-9)


# --- All of it ----------------------------------------------------------------------------------

PARTS = {"search": search_part, "radius": radius_part}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--part", choices=PARTS, nargs="+", default=[*PARTS])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--all-words", action="store_true", help="N_w of every word: minutes")
    parser.add_argument("--vectors", type=Path, help="a real table too, as .npy")
    chosen = parser.parse_args()
    sizes = SMALL if chosen.small else Sizes()
    run = Run(chosen.out, chosen.device, sizes, chosen.vectors, chosen.all_words)
    limits(run)
    for name in chosen.part:
        print(f"{name}: {run.seconds(partial(PARTS[name], run)):.0f} s", flush=True)
        run.write()
    print(run.table())
    if not all(check.is_right for check in run.checks):
        raise SystemExit("a check failed: see the table")


if __name__ == "__main__":
    main()
