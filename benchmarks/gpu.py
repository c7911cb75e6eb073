"""What a GPU computes: checked against the processor, timed, and put beside the limit.

    python -m benchmarks.gpu > gpu.md                   # minutes on a GPU
    python -m benchmarks.gpu --small                    # seconds on any processor

The output is a table in Markdown. The work of a query or a direction is counted as 2 x rows x
dimensions; its fraction of the limit is that work over the time, against the rate of a large matrix
product, measured in the same run; of N_w, directions are drawn and the law of the radius is worked
out on the processor. The tables of vectors are synthetic. What encoders and generators give on a
GPU is tested by tests/test_gpu_paths.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from timeit import repeat
from typing import NamedTuple

import numpy as np
import torch

from textpriv.neighbors import AllRadii, ExactSearch, radius_cdf, random_directions

EPSILONS = np.arange(5.0, 60.0, 5.0)

Row = tuple[str, str, str, str]


class Sizes(NamedTuple):
    """How large everything is."""

    tables: tuple[tuple[int, int], ...] = ((400_000, 50), (319_774, 300))  # GloVe 6B, the paper's
    queries: int = 1 << 17
    words: int = 2048  # whose N_w is timed, on the last table
    directions: int = 1000
    product: int = 8192


SMALL = Sizes(((1000, 50), (1000, 300)), queries=256, words=4, directions=64, product=256)


def rows(sizes: Sizes, device: str) -> Iterator[Row]:
    """What, what was found, what is allowed or the seconds, and what that says."""
    left, right = (  # random numbers, since zeros run faster
        torch.randn(sizes.product, sizes.product, device=device).bfloat16() for _ in range(2)
    )
    limit = 20 * sizes.product**3 / seconds(lambda: [left @ right for _ in range(10)])
    yield "bf16 product", f"{limit:.3g} FLOP/s", "", ""
    for size, n in sizes.tables:
        rng, label = np.random.default_rng((0, n)), f"synthetic, {size:,} x {n}"
        table = vectors_like(size, n, rng)
        search, exact = (ExactSearch(table, device=each) for each in (device, "cpu"))
        radii, expected = AllRadii(search), AllRadii(exact)

        queries = noisy(table, 64, rng)
        yield from checked(f"nearest, {label}", search.nearest(queries), exact.nearest(queries))
        for words, k in ((8, 4), (3, 64)):  # which take different paths
            ids = rng.integers(size, size=words)
            units = random_directions(words * k, n, rng).reshape(words, k, n)
            crossings, right_ones = (each.first_crossing(ids, units) for each in (radii, expected))
            yield from checked(f"first crossing, {k} directions, {label}", crossings, right_ones)

        many = noisy(table, sizes.queries, rng)
        spent = seconds(lambda search=search, many=many: search.nearest(many))
        work = 2 * table.size * len(many)
        yield timed(f"nearest, {label}", "queries", len(many), spent, work / limit)

    words = np.sort(rng.choice(size, sizes.words, replace=False))
    spent = seconds(lambda: kept(radii, words, sizes.directions, rng), 2)
    what = f"N_w, {sizes.directions} directions and {len(EPSILONS)} epsilons a word, {label}"
    work = 2 * table.size * sizes.directions * len(words)
    yield timed(what, "words", len(words), spent, work / limit)


def vectors_like(rows: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Synthetic word vectors: clusters of ten, norms and nearest neighbours as in GloVe 840B.

    There norms are 5.0 to 8.3 (1% and 99%) and the nearest neighbour is 4.5 away (medians of
    33,860 words).
    """
    centers = rng.standard_normal((-(-rows // 10), dimension), dtype=np.float32)
    own = rng.standard_normal((rows, dimension), dtype=np.float32)
    table = 0.87 * centers[rng.integers(len(centers), size=rows)] + 0.49 * own
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    return table * np.exp(rng.normal(np.log(6.6), 0.11, (rows, 1))).astype(np.float32)


def kept(
    radii: AllRadii, words: np.ndarray, directions: int, rng: np.random.Generator
) -> np.ndarray:
    """N_w of every word at every epsilon, as notebook 02 works it out: (epsilons, words)."""
    n, parts = radii.dimension, []
    for part in np.array_split(words, -(-len(words) // 64)):
        units = random_directions(len(part) * directions, n, rng).reshape(len(part), directions, n)
        crossings, _ = radii.first_crossing(part, units)
        parts.append([radius_cdf(crossings, n, each).mean(1) for each in EPSILONS])
    return np.concatenate(parts, axis=1)


def noisy(table: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Words under the noise at epsilon = dimension / 30, of length 30 on average."""
    size, n = table.shape
    length = rng.gamma(n, 30 / n, (count, 1))
    return table[rng.integers(size, size=count)] + length * random_directions(count, n, rng)


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Median time of an action, after a first one, which compiles and fills caches."""

    def whole() -> None:
        action()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return float(np.median(repeat(whole, number=1, repeat=repeats + 1)[1:]))


def checked(
    what: str, actual: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]
) -> Iterator[Row]:
    """The largest relative difference of ids and of distances; NaN is never right."""
    for one, other in zip(actual, expected, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(one == other, 0.0, np.abs(one / other - 1)).max()
        kind = "ids" if np.issubdtype(one.dtype, np.integer) else "distances"
        yield f"{what}: {kind}", f"{apart:.3g}", "1e-09", "ok" if apart <= 1e-9 else "WRONG"


def timed(what: str, items: str, count: int, spent: float, at_limit: float) -> Row:
    """`at_limit`: seconds that the work would take at the rate of the product."""
    share = f"{at_limit / spent:.1%} of the product"
    return what, f"{count / spent:,.0f} {items}/s", f"{spent:.3g}", share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try it out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    name = "cpu" if chosen.device == "cpu" else torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}\n")
    print("| what | found | allowed, or seconds | |\n|---|---|---|---|")
    marks = []
    for row in rows(SMALL if chosen.small else Sizes(), chosen.device):
        print(f"| {' | '.join(row)} |", flush=True)
        marks.append(row[-1])
    if "WRONG" in marks:
        raise SystemExit("a check failed: see the table")


if __name__ == "__main__":
    main()
