"""What runs on a GPU: checked against float64 on the processor, timed, put beside the limit.

    python -m benchmarks.gpu > gpu.md                   # minutes on a GPU
    python -m benchmarks.gpu --small                    # seconds on any processor

The output is a table in Markdown. Every speed names what was counted as work. Its fraction is that
work over the time, against the rate of a large matrix product, measured in the same run. The
tables of vectors are synthetic. That encoders and generators give on a GPU what they give on a
processor is in tests/test_gpu_paths.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import gammainc

from textpriv.neighbors import AllRadii, ExactSearch, random_directions

EPSILONS = np.arange(5.0, 60.0, 5.0)


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    large: tuple[int, int] = (319_774, 300)  # words of the paper's table (GloVe 6B) and dimensions
    narrow: tuple[int, int] = (400_000, 50)  # of GloVe 6B
    queries: int = 1 << 17
    directions: int = 1000
    words: int = 2048  # whose N_w is timed
    product: int = 8192


SMALL = Sizes(
    large=(1000, 300), narrow=(1000, 50), queries=256, directions=64, words=4, product=256
)


class Run:
    """A run on one device, which prints each row of its table; `right`: no check has failed."""

    def __init__(self, device: str, sizes: Sizes) -> None:
        self.device, self.sizes, self.right = device, sizes, True
        name = "cpu" if device == "cpu" else torch.cuda.get_device_name()
        print(f"{name}, torch {torch.__version__}\n")
        print("| what | found | allowed, or seconds | |\n|---|---|---|---|")
        self.limit = self._limit()
        print(f"| bf16 product | {self.limit:.3g} FLOP/s | | |", flush=True)

    def check(self, what: str, found: float, bound: float) -> None:
        """The largest difference from float64; NaN is never right."""
        is_right = bool(found <= bound)
        self.right &= is_right
        mark = "ok" if is_right else "WRONG"
        print(f"| {what} | {found:.3g} | {bound:.3g} | {mark} |", flush=True)

    def time(
        self, what: str, unit: str, action: Callable[[], object], items: float, *, work: str,
        each: float, repeats: int = 3,
    ) -> None:  # fmt: skip
        """Median seconds of `action`, which does `items` of `each` operations."""
        action()  # compiling, caches
        seconds = float(np.median([self._seconds(action) for _ in range(repeats)]))
        share = items * each / seconds / self.limit
        print(
            f"| {what} | {items / seconds:,.0f} {unit} | {seconds:.3g} | "
            f"{share:.1%} of the product, {work} |",
            flush=True,
        )

    def _seconds(self, action: Callable[[], object]) -> float:
        self._wait()
        start = time.perf_counter()
        action()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _limit(self) -> float:
        """FLOP/s of a large product; of random numbers, since zeros run faster."""
        size = self.sizes.product
        left, right = (torch.randn(size, size, device=self.device).bfloat16() for _ in range(2))

        def ten() -> None:
            for _ in range(10):
                left @ right

        ten()
        return 20 * size**3 / float(np.median([self._seconds(ten) for _ in range(5)]))


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


def tables(sizes: Sizes) -> Iterator[tuple[str, np.ndarray]]:
    for rows, dimension in (sizes.narrow, sizes.large):
        rng = np.random.default_rng((0, dimension))
        yield f"synthetic, {rows:,} x {dimension}", vectors_like(rows, dimension, rng)


def noisy(table: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Words under the noise at epsilon = dimension / 30, of length 30 on average."""
    _, n = table.shape
    length = rng.gamma(n, 30 / n, (count, 1))
    return table[rng.integers(len(table), size=count)] + length * random_directions(count, n, rng)


def search_part(run: Run) -> None:
    rng = np.random.default_rng(1)
    for label, table in tables(run.sizes):
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
    for label, table in tables(run.sizes):
        radii = AllRadii(ExactSearch(table, device=run.device))
        check_radii(run, radii, table, label, rng)
        if table.shape != sizes.large:
            continue
        count = min(sizes.words, len(table))
        words = np.sort(rng.choice(len(table), count, replace=False))
        what = f"N_w, {sizes.directions} directions and {len(EPSILONS)} epsilons a word, {label}"
        run.time(
            f"{what}, {count:,} words", "words/s",
            lambda r=radii, w=words: r.kept(w, EPSILONS, directions=sizes.directions, rng=rng),
            count, work="2 x rows x dimensions x directions",
            each=2.0 * table.size * sizes.directions, repeats=2,
        )  # fmt: skip


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
            first = crossing.min(0)
            with np.errstate(invalid="ignore"):
                apart = np.where(found[row] == first, 0.0, np.abs(found[row] / first - 1))
            error = float(np.maximum(error, apart.max()))  # NaN stays
            others += int((takers[row] != crossing.argmin(0)).sum())
        run.check(f"first crossing, relative, {k} directions, {label}", error, 1e-9)
        run.check(f"words that cross first and differ, {k} directions, {label}", others, 0)
    n = table.shape[1]
    masses = EPSILONS * np.quantile(found, np.linspace(0, 1, 21))[:, None]
    shape = torch.tensor(float(n), dtype=torch.float64, device=run.device)
    ours = torch.special.gammainc(shape, torch.from_numpy(masses).to(run.device)).cpu().numpy()
    run.check(f"law of the radius, {label}", np.abs(ours - gammainc(n, masses)).max(), 1e-9)


# --- All of it ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    run = Run(chosen.device, SMALL if chosen.small else Sizes())
    search_part(run)
    radius_part(run)
    if not run.right:
        raise SystemExit("a check failed: see the table")


if __name__ == "__main__":
    main()
