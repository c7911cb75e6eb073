"""The long audits, with progress; interrupted, the same call goes on where it was.

    python -m textpriv.privacy                    everything, on two processes
    python -m textpriv.privacy exact --output audits.json

Draws are kept in the cache per setting and word, whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

from textpriv import assets, embeddings
from textpriv.embeddings import Embedding, from_arrays
from textpriv.errors import TextprivError
from textpriv.files import canonical_json
from textpriv.mechanisms import TEM, CusText, Madlib, Mahalanobis, Mechanism, RankRepair, SanText
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import Limits
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.privacy.certified import certified_losses
from textpriv.privacy.exact import (
    audit_candidates,
    audit_exactly,
    audit_map,
    audit_next_token,
    tight_loss,
)
from textpriv.privacy.results import Audit, audit_table, write_audits
from textpriv.privacy.sampled import (
    Drawn,
    IntArray,
    PlainSearch,
    at_most,
    audit_laplace,
    audit_words,
    draw_word,
    spread_words,
)
from textpriv.seeds import stream
from textpriv.vectors import SentenceVectors

LARGE = "glove-840b-300d-34k"
SMALL = "glove-6b-50d"
WORDS, INPUTS = 500, 24  # of a small vocabulary; 24 inputs make 276 pairs
_FORMAT = "counts of draws, 1"  # part of what draws are kept under; raise it when they change


# --- Exact -----------------------------------------------------------------------------------


def exact_audits(seed: int) -> Iterator[Audit]:
    """Finite mechanisms on the whole public table, and toys that can be enumerated."""
    table = embeddings.load(LARGE)
    for mechanism in (
        SanText(table, epsilon=1.0),
        SanText(table, epsilon=15.0),
        TEM(table, epsilon=3.0),
        CusText(table, epsilon=4.0, mapping="conservative"),
        CusText(table, epsilon=4.0),
    ):
        audit = audit_exactly(mechanism, rng=stream(seed, "audit", "pairs"))
        yield audit
        if audit.pairs:
            found = tight_loss(mechanism)
            print(
                f"{mechanism.name} at eps {mechanism.epsilon:g}: largest loss {found.loss:.3f} of "
                f"{found.claimed:.3f} claimed ({' / '.join(found.pair)}); a pair reaches at most "
                f"{found.share:.3f} of its claim ({' / '.join(found.share_pair)})",
                flush=True,
            )
    yield audit_map(LossyMap.random(len(table), 2, stream(seed, "audit", "map")))
    some = table.subset(np.arange(min(1000, len(table))))
    for kind in (SanText, TEM):
        yield audit_exactly(kind(some, epsilon=3.0))
    rng = stream(seed, "audit", "candidates")
    public = SentenceVectors(rng.standard_normal((500, 3)).astype(np.float32), np.arange(501))
    chosen = DeepCandidate(public, partial(np.asarray, dtype=np.float64), epsilon=2.0)
    yield audit_candidates(chosen, rng.standard_normal((8, 3)), size=4)
    low = rng.normal(size=12) * 3
    limits = Limits(low, low + rng.gamma(2, 1, size=12))
    scores = rng.standard_cauchy((300, 12)) * 10
    yield audit_next_token(lambda logits: limits.clip(logits) / 0.75, limits, 0.75, scores)


def certified_table(seed: int) -> pd.DataFrame:
    """What MADLIB loses between near words, against its claim."""
    madlib = Madlib(embeddings.load(LARGE), epsilon=1.0)
    rows = []
    for word, other in (("hockey", "soccer"), ("good", "great"), ("doctor", "nurse")):
        rng = stream(seed, "audit", "certified", word, other)
        for found in certified_losses(madlib, word, other, (10, 15, 20, 30), rng):
            rows.append({"word": word, "other": other} | vars(found))
    return pd.DataFrame(rows)


# --- Sampled -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A noise mechanism on a small vocabulary; `make` is a function so that it can be sent."""

    label: str
    dimension: int
    words: int
    make: Callable[[Embedding], Mechanism]


def _madlib(table: Embedding) -> Mechanism:
    return Madlib(table, epsilon=1.0, search=PlainSearch(table.vectors))


def _mahalanobis(table: Embedding) -> Mechanism:
    return Mahalanobis(table, epsilon=1.0, search=PlainSearch(table.vectors))


def _part_mahalanobis(table: Embedding) -> Mechanism:
    search = PlainSearch(table.vectors)
    return Mahalanobis(table, epsilon=1.0, strength=0.2, search=search)


def _rank_repair(table: Embedding) -> Mechanism:
    madlib = Madlib(table, epsilon=1.0, search=PlainSearch(table.vectors))
    return RankRepair(madlib, c=0.05)


SETTINGS = (
    Setting("madlib", 2, WORDS, _madlib),
    Setting("madlib", 5, WORDS, _madlib),
    Setting("madlib", 50, WORDS, _madlib),
    Setting("mahalanobis", 2, WORDS, _mahalanobis),
    Setting("mahalanobis", 5, WORDS, _part_mahalanobis),
    Setting("rank-repair", 2, 100, _rank_repair),
)


def small_vocabulary(dimension: int, words: int = WORDS) -> Embedding:
    """The most frequent words of a public table, by their first principal components."""
    table = embeddings.load(SMALL).subset(np.arange(words))
    centered = table.vectors.astype(np.float64)
    centered = centered - centered.mean(0)
    axes = np.linalg.svd(centered, full_matrices=False)[2][:dimension]
    return from_arrays(f"{SMALL}, {dimension} components", table.words, centered @ axes.T)


@cache
def prepared(setting: Setting) -> tuple[Mechanism, IntArray]:
    """The mechanism at an epsilon that lets its pairs be told apart, and its inputs."""
    mechanism = setting.make(small_vocabulary(setting.dimension, setting.words))
    words = spread_words(mechanism, INPUTS, around=setting.words // 5)
    return at_most(mechanism, words), words


def _counts(number: int, word: int, draws: int, seed: int) -> IntArray:
    """Draws of one word, from the cache where they are there: (2, words)."""
    mechanism, _ = prepared(SETTINGS[number])

    def build(folder: Path) -> None:
        label = f"{SETTINGS[number].label} {SETTINGS[number].dimension}"
        halves = draw_word(mechanism, word, draws=draws, seed=seed, label=label)
        np.save(folder / "counts.npy", np.stack(halves), allow_pickle=False)

    key = canonical_json(
        [_FORMAT, SETTINGS[number].label, mechanism.embedding.digest, mechanism.epsilon,
         int(word), draws, seed]
    )  # fmt: skip
    folder = assets.derived("audit", key=key, build=build)
    counts: IntArray = np.load(folder / "counts.npy", allow_pickle=False)
    return counts


def _laplace(width: int, draws: int, seed: int) -> Audit:
    """Corners of the box, where pairs are told apart best, and points inside it."""
    rng = stream(seed, "audit", "sentences", width)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * width), -1).reshape(-1, width)
    inside = rng.random((max(2, 21 - len(corners)), width))
    return audit_laplace(
        TruncatedLaplace(Box(np.zeros(width), np.ones(width)), epsilon=2.0),
        np.concatenate([corners, inside]),
        draws=draws,
        seed=seed,
        kept=np.full((1, width), 0.5),
    )


def sampled_audits(seed: int, draws: int, jobs: int) -> Iterator[Audit]:
    """Noise mechanisms: all draws first, side by side, then their comparison."""
    tasks = [
        (number, int(word))
        for number, setting in enumerate(SETTINGS)
        for word in prepared(setting)[1]
    ]
    work = [delayed(_counts)(*task, draws, seed) for task in tasks]
    laplace = [delayed(_laplace)(width, draws, seed) for width in (1, 3)]
    found = Parallel(n_jobs=jobs, return_as="generator")([*laplace, *work])
    done = list(tqdm(found, total=len(work) + len(laplace), desc="inputs drawn", mininterval=5))
    yield from done[: len(laplace)]
    counts = dict(zip(tasks, done[len(laplace) :], strict=True))
    for number, setting in enumerate(SETTINGS):
        mechanism, words = prepared(setting)
        first, second = np.stack([counts[number, int(word)] for word in words], axis=1)
        yield audit_words(
            mechanism,
            Drawn(words, first, second),
            setting=f"eps {mechanism.epsilon:.3g}, {mechanism.size} words, "
            f"dimension {setting.dimension}",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 when no claim is broken and every audit could tell, else 1."""
    parser = argparse.ArgumentParser(prog="python -m textpriv.privacy", description=__doc__)
    parser.add_argument("part", nargs="*", choices=["exact", "certified", "sampled", []])
    parser.add_argument("--draws", type=int, default=1_000_000, help="per input and half")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--output", type=Path, help="keep the table here, as JSON")
    asked = parser.parse_args(arguments)
    parts, start = asked.part or ["exact", "certified", "sampled"], time.monotonic()
    results: list[Audit] = []

    def took() -> str:
        return f"{time.monotonic() - start:.0f} s"

    try:
        for part in parts:
            if part == "certified":
                print(certified_table(asked.seed).to_string(index=False), took(), flush=True)
                continue
            audits = (
                exact_audits(asked.seed)
                if part == "exact"
                else sampled_audits(asked.seed, asked.draws, asked.jobs)
            )
            for audit in audits:
                results.append(audit)
                print(f"{audit.mechanism}, {audit.setting}: {audit.verdict}, {took()}", flush=True)
        if asked.output and results:
            write_audits(results, asked.output)
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; what was drawn is kept", file=sys.stderr)
        return 130
    if results:
        print(audit_table(results).drop(columns="claim").to_string(index=False))
    return 0 if all(audit.verdict in ("holds", "no claim") for audit in results) else 1


if __name__ == "__main__":
    sys.exit(main())
