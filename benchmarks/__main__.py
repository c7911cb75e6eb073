"""Run every comparison and print one table.

Each row times both sides in turn, several times, within this process, and quotes the median
of the ratios. Absolute speeds are this machine's and only the ratios should be compared.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import peers
from textpriv import corpora, embeddings
from textpriv.mechanisms import TEM, CusText, Madlib, Mahalanobis, SanText
from textpriv.neighbors import (
    AllRadii,
    ExactSearch,
    FaissSearch,
    radius_cdf,
    random_directions,
)
from textpriv.tokens import Tokenizer

EPSILONS = np.arange(5.0, 60.0, 5.0)


@dataclass(frozen=True)
class Row:
    """One comparison: speeds in items per second, their ratio, and what we ask of it."""

    what: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    target: float

    def __str__(self) -> str:
        mark = "ok" if self.ratio >= self.target else "BELOW TARGET"
        return (
            f"{self.what:<58} {self.ours:>13,.0f} {self.theirs:>13,.0f} {self.unit:<13}"
            f"{self.ratio:>9.1f}x  (at least {self.target:g}x) {mark}"
        )


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(
    what: str,
    unit: str,
    ours: tuple[Callable[[], object], int],
    theirs: tuple[Callable[[], object], int],
    target: float,
    *,
    repeats: int = 5,
    factor: float = 1.0,
) -> Row:
    """Time both sides alternately; each side is an action and its number of items.

    `factor` is how many of our items do the work of one of theirs, and more.
    """
    ours[0]()  # caches, threads and pages
    pairs = [(ours[1] / seconds(ours[0]), theirs[1] / seconds(theirs[0])) for _ in range(repeats)]
    ratio = float(np.median([a / b for a, b in pairs])) * factor
    fast, slow = (float(np.median(speeds)) for speeds in zip(*pairs, strict=True))
    return Row(what, unit, fast, slow, ratio, target)


def search_rows() -> Iterator[Row]:
    """Exact search, and the all-radii form, against faiss' exact scan."""
    rng = np.random.default_rng(0)
    for name, target in (("glove-840b-300d-34k", 1.0), ("glove-6b-50d", 2.0)):
        embedding = embeddings.load(name)
        vectors, dimension = embedding.vectors, embedding.dimension
        exact, faiss = ExactSearch(vectors), FaissSearch(vectors, "flat")
        count = 1024
        ids = rng.integers(0, len(vectors), count)
        madlib = Madlib(embedding, epsilon=dimension / 30, search=exact)
        queries = np.concatenate(list(madlib.noisy_vectors(ids, rng)))
        single = np.ascontiguousarray(queries, dtype=np.float32)
        scan = (lambda faiss=faiss, single=single: faiss.index.search(single, 1), count)
        label = f"{len(vectors):,} x {dimension}"
        search = (lambda exact=exact, queries=queries: exact.nearest(queries), count)
        yield compare(
            f"exact search, {label}, against faiss flat", "queries/s", search, scan, target
        )

        radii = AllRadii(exact)
        units = random_directions(4 * count, dimension, rng).reshape(4, count, dimension)
        form = (lambda r=radii, i=ids[:4], u=units: r.first_crossing(i, u), 4 * count)
        yield compare(
            f"first crossings, {label}, against faiss flat", "directions/s", form, scan, 1.5
        )
        for directions, target in ((64, 15), (4, 1)):
            yield kept_curve_row(radii, scan, ids[: 1024 // directions], directions, label, target)


def kept_curve_row(
    radii: AllRadii,
    scan: tuple[Callable[[], object], int],
    words: np.ndarray,
    directions: int,
    label: str,
    target: float,
) -> Row:
    """The cost of N_w at 11 epsilons for one largest standard error, against drawing.

    Drawing needs a search per epsilon and has variance p (1 - p) per word; a direction
    serves all epsilon and has the variance of P(kept | direction). Both variances are
    within words, as when every word of the table is in the sample. The more directions a
    word has (the paper draws 1,000 times per word), the less its distances cost each.
    """
    rng = np.random.default_rng(1)

    def units(count: int, k: int) -> np.ndarray:
        return random_directions(count * k, radii.dimension, rng).reshape(count, k, -1)

    sample = rng.integers(0, radii.size, 256)
    crossing = radii.first_crossing(sample, units(256, 8))[0]
    kept = radius_cdf(crossing, radii.dimension, EPSILONS[:, None, None])
    ours = float(kept.var(2, ddof=1).mean(1).max())
    average = kept.mean(2)
    # The square of an estimated mean exceeds p^2 by the estimate's variance.
    drawing = float((average * (1 - average) + kept.var(2, ddof=1) / 8).mean(1).max())
    factor = len(EPSILONS) * drawing / ours
    some = units(len(words), directions)
    form = (lambda: radii.first_crossing(words, some), len(words) * directions)
    what = f"N_w at {len(EPSILONS)} epsilons, {label}, {directions} directions a word"
    return compare(what, "directions/s", form, scan, target, factor=factor)


def sanitizing_rows() -> Iterator[Row]:
    """Whole corpora in one call against a loop over tokens."""
    rng = np.random.default_rng(0)
    full = embeddings.load("glove-840b-300d-34k")
    texts = corpora.load("imdb").texts[:12_000]
    # The table of the loop has |V|^2 entries: 8,000 words are half a gigabyte.
    small = full.subset(np.arange(8000))
    corpus = Tokenizer(small.words).encode(texts)
    ids = corpus.ids[corpus.ids >= 0]
    few = ids[:4000].tolist()

    santext = SanText(small, epsilon=3)
    matrix = peers.santext_matrix(small.vectors.astype(np.float64), 3)
    loop = (lambda: peers.santext_loop(few, matrix), len(few))
    whole = (lambda: santext.sanitize_ids(ids, rng), len(ids))
    yield compare("SanText, 8,000 words, against a loop", "tokens/s", whole, loop, 50, repeats=3)

    tem, vectors = TEM(full, epsilon=3), full.vectors.astype(np.float64)
    loop = (lambda: peers.tem_loop(few[:40], vectors, 3, 0.001, rng), 40)
    whole = (lambda: tem.sanitize_ids(ids[:200_000], rng), 200_000)
    yield compare("TEM, 33,860 words, against a loop", "tokens/s", whole, loop, 50, repeats=3)

    custext = CusText(small, epsilon=4)
    weights = np.exp(custext.log_probabilities)
    candidates = {i: row.tolist() for i, row in enumerate(custext.candidates)}
    chances = {i: (row / row.sum()).tolist() for i, row in enumerate(weights)}
    loop = (lambda: peers.custext_loop(few, candidates, chances), len(few))
    whole = (lambda: custext.sanitize_ids(ids, rng), len(ids))
    yield compare("CusText, against a loop", "tokens/s", whole, loop, 20, repeats=3)

    part = full.subset(np.arange(16_000))
    exact = part.vectors.astype(np.float64)
    loop = (lambda: peers.custext_mapping_loop(exact, range(20), 20), 20)
    whole = (lambda: CusText(part, epsilon=4), len(part))
    yield compare("CusText's mapping, 16,000 words", "words/s", whole, loop, 40, repeats=3)

    mahalanobis = Mahalanobis(full, epsilon=20)
    shape = mahalanobis.root @ mahalanobis.root
    loop = (lambda: peers.mahalanobis_loop(10, shape, 20, rng), 10)
    whole = (lambda: mahalanobis.noise(20_000, rng), 20_000)
    yield compare("Mahalanobis noise, against a root per token", "vectors/s", whole, loop, 20)


def memory_of_400_000_words() -> float:
    """Peak memory in GiB of a process that searches and sanitizes with 400,000 words."""
    code = (
        "import numpy as np; from textpriv import embeddings;"
        "from textpriv.report import provenance;"
        "from textpriv.mechanisms import Madlib, SanText; from textpriv.neighbors import *;"
        "e = embeddings.load('glove-6b-50d'); r = np.random.default_rng(0);"
        "m = Madlib(e, epsilon=5); i = r.integers(0, len(e), 5000); m.sanitize_ids(i, r);"
        "u = random_directions(2000, 50, r).reshape(500, 4, 50);"
        "AllRadii(m.search).first_crossing(i[:500], u);"
        "SanText(e, epsilon=5).sanitize_ids(i[:100], r);"
        "AllRadii(m.search).envelope(i[:100], u[:100], max_radius=30.0);"
        "print(provenance.peak_mb())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1e6 / 2**30


def main() -> None:
    """Print the table; the exit status tells whether every target was met."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", help="search, sanitizing or memory (default: all)")
    parts = parser.parse_args().part or ["search", "sanitizing", "memory"]
    print(f"{'comparison':<58} {'ours':>13} {'theirs':>13} {'':<13}{'ratio':>10}")
    missed = 0
    for name, rows in (("search", search_rows), ("sanitizing", sanitizing_rows)):
        for row in rows() if name in parts else ():
            print(row, flush=True)
            missed += row.ratio < row.target
    if "memory" in parts:
        peak = memory_of_400_000_words()
        missed += peak > 2
        print(f"peak memory with 400,000 words: {peak:.2f} GiB (at most 2 GiB)")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
