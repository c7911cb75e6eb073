"""The long audits: every claim put to the test on public tables, task by task.

    for task in tasks(["exact", "sampled"], draws=1_000_000, seed=7):
        task.done(code).value            # made now, or taken from where it was kept

A task is a function of this module with plain arguments and a JSON value as its result, so that
it can be sent to another process, and kept in the cache under all that it depends on: its
arguments, the data and the code (`code_digest`). An interrupted run goes on from there.
`textpriv.report.audits` runs them, with progress.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textpriv import assets, embeddings, paths
from textpriv.channel import check_ids
from textpriv.embeddings import Embedding, from_arrays
from textpriv.errors import InvalidInput, RunError
from textpriv.files import canonical_json
from textpriv.mechanisms import (
    TEM,
    CusText,
    FiniteMechanism,
    Madlib,
    Mahalanobis,
    Mechanism,
    RankRepair,
    SanText,
)
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import Limits
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.neighbors import ExactSearch
from textpriv.privacy.certified import certified_losses
from textpriv.privacy.exact import (
    audit_candidates,
    audit_exactly,
    audit_map,
    audit_next_token,
    tight_loss,
)
from textpriv.privacy.results import Audit, audit_of, plain
from textpriv.privacy.sampled import (
    Drawn,
    PlainSearch,
    at_most,
    audit_laplace,
    audit_words,
    draw_word,
    spread_words,
)
from textpriv.seeds import stream
from textpriv.vectors import SentenceVectors

IntArray = NDArray[np.int64]

LARGE = "glove-840b-300d-34k"
SMALL = "glove-6b-50d"
WORDS, INPUTS = 500, 24  # of a small vocabulary; 24 inputs make 276 pairs
PARTS = ("exact", "tight", "certified", "sampled", "mutants")
MUTANTS = "tests/mutants.py"  # in the repository
# What the audits reach, in the package; what is kept depends on all of it.
CODE = (
    "channel.py", "checks.py", "embeddings.py", "seeds.py", "tokens.py", "vectors.py",
    "mechanisms/*.py",
    "neighbors/*.py", "privacy/certified.py", "privacy/claims.py", "privacy/exact.py",
    "privacy/results.py", "privacy/sampled.py", "experiments/audits.py",
)  # fmt: skip


@dataclass(frozen=True)
class Done:
    """What a task gave, how long it took, and whether it was made now or had been kept."""

    value: Any
    seconds: float
    kept: bool


@dataclass(frozen=True)
class Task:
    """One piece of the audits.

    Parameters
    ----------
    part : one of PARTS
    label : how progress calls it
    make : function of this module
    arguments : of that function, JSON values
    """

    part: str
    label: str
    make: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def done(self, code: str) -> Done:
        """Its result, made anew where nothing is kept for this code; see `code_digest`."""
        made = False

        def build(folder: Path) -> None:
            nonlocal made
            start = time.perf_counter()
            value = self.make(*self.arguments)
            kept = {"value": value, "seconds": time.perf_counter() - start}
            (folder / "value.json").write_text(json.dumps(kept, allow_nan=False))
            made = True

        key = canonical_json([self.make.__name__, list(self.arguments), code])
        folder = assets.derived("audit", key=key, build=build)
        found = json.loads((folder / "value.json").read_text())
        return Done(found["value"], found["seconds"], not made)


def code_digest() -> str:
    """Digest of the code, the data and the libraries that the audits' results depend on."""
    package = Path(__file__).resolve().parents[1]
    files = sorted(path for pattern in CODE for path in package.glob(pattern))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    for name in (LARGE, SMALL):
        digest.update(_table(name).digest.encode())
    for name in ("numpy", "scipy", "torch"):
        digest.update(f"{name}=={metadata.version(name)}".encode())
    return digest.hexdigest()


def tasks(parts: Iterable[str], *, draws: int, seed: int) -> list[Task]:
    """The tasks of some parts, those that take longest first within each."""
    found: list[Task] = []
    for part in parts:
        if part == "exact":
            found += [Task(part, f"{name}, eps {epsilon:g}", exact, (name, epsilon, seed))
                      for name, epsilon in EXACT]  # fmt: skip
            found += [Task(part, name, toy, (name, seed)) for name in TOYS]
        elif part == "tight":
            found += [Task(part, f"{name}, eps {epsilon:g}", tight, (name, epsilon))
                      for name, epsilon in TIGHT]  # fmt: skip
        elif part == "certified":
            found += [Task(part, f"{name}, {word} / {other}", certified,
                           (name, word, other, CERTIFIED[name], seed))
                      for name in CERTIFIED for word, other in PAIRS]  # fmt: skip
        elif part == "sampled":
            found += [Task(part, f"truncated-laplace, width {width}", laplace,
                           (width, draws, seed)) for width in (1, 3)]  # fmt: skip
            found += [
                Task(part, f"{setting.title}, word {word}", counts, (number, word, draws, seed))
                for number, setting in enumerate(SETTINGS)
                for word in prepared(setting)[1].tolist()
            ]
        elif part == "mutants":
            found.append(Task(part, "wrong mechanisms", mutants, (_mutants_digest(),)))
        else:
            raise InvalidInput(f"part: got {part!r}, expected one of {PARTS}")
    return found


def audits_of(found: Mapping[Task, Any]) -> list[Audit]:
    """The audits that the results of tasks are, or together make, in the order of the tasks."""
    audits = [
        audit_of(value) for task, value in found.items() if task.make in (exact, toy, laplace)
    ]
    drawn = {task.arguments[:2]: value for task, value in found.items() if task.make is counts}
    for number in sorted({number for number, _ in drawn}):
        mechanism, words = prepared(SETTINGS[number])
        halves = np.array([drawn[number, word] for word in words.tolist()], dtype=np.int64)
        audits.append(
            audit_words(
                mechanism,
                Drawn(words, halves[:, 0], halves[:, 1]),
                setting=f"eps {mechanism.epsilon:.3g}, {mechanism.size} words, "
                f"dimension {SETTINGS[number].dimension}",
            )
        )
    return audits


# --- Mechanisms over public tables --------------------------------------------------------------


@cache
def _table(name: str) -> Embedding:
    return embeddings.load(name)


@cache
def shared_words() -> Embedding:
    """The large table's words that the small one has too: the tables of notebook 04."""
    large = _table(LARGE)
    return large.subset(np.flatnonzero(_table(SMALL).ids(large.words) >= 0))


def over_table(name: str, epsilon: float) -> Mechanism:
    """A word-level mechanism at the settings of the notebooks, over the whole public table.

    Frequencies are the table's order, which is public. Mahalanobis is over the words of
    notebook 04, the others over those of notebooks 01 and 05.
    """
    table = shared_words() if name == "mahalanobis" else _table(LARGE)
    if name == "custext-aggressive":
        return CusText(table, epsilon=epsilon)
    if name not in WORD_LEVEL:
        raise InvalidInput(f"name: got {name!r}, expected a word-level mechanism")
    return WORD_LEVEL[name].make(table, ExactSearch(table.vectors)).with_epsilon(epsilon)


def finite(name: str, epsilon: float) -> FiniteMechanism:
    """The same where it has an explicit P(y|x)."""
    made = over_table(name, epsilon)
    if not isinstance(made, FiniteMechanism):
        raise InvalidInput(f"name: got {name!r}, expected a mechanism with an explicit P(y|x)")
    return made


# --- Exact -----------------------------------------------------------------------------------

TIGHT = (
    ("santext", 1.0), ("santext", 2.4), ("santext", 15.0), ("santext+", 2.4), ("tem", 2.4),
    ("custext-conservative", 4.0),
)  # fmt: skip
EXACT = (*TIGHT, ("custext+", 4.0), ("custext-aggressive", 4.0))
TOYS = ("santext", "tem", "2-random", "deep-candidate", "dp-prompt")


def exact(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """A finite mechanism on the whole table: every nearest pair and random ones."""
    return plain(audit_exactly(finite(name, epsilon), rng=stream(seed, "audit", "pairs")))


def toy(name: str, seed: int) -> dict[str, Any]:
    """What can be enumerated: every pair of the 1,000 most frequent words, or a toy."""
    table, rng = _table(LARGE), stream(seed, "audit", name)
    if name in ("santext", "tem"):
        some = table.subset(np.arange(min(1000, len(table))))
        return plain(audit_exactly((SanText if name == "santext" else TEM)(some, epsilon=3.0)))
    if name == "2-random":
        return plain(audit_map(LossyMap.random(len(table), 2, rng)))
    if name == "deep-candidate":
        points = rng.standard_normal((500, 3)).astype(np.float32)
        public = SentenceVectors(points, np.arange(501))
        chosen = DeepCandidate(public, partial(np.asarray, dtype=np.float64), epsilon=2.0)
        return plain(audit_candidates(chosen, rng.standard_normal((8, 3)), size=4))
    low = rng.normal(size=12) * 3
    limits = Limits(low, low + rng.gamma(2, 1, size=12))
    scores = rng.standard_cauchy((300, 12)) * 10
    return plain(audit_next_token(lambda logits: limits.clip(logits) / 0.75, limits, 0.75, scores))


def tight(name: str, epsilon: float) -> dict[str, Any]:
    """The largest loss between any two words of the whole table."""
    return {"mechanism": name, **plain(tight_loss(finite(name, epsilon)))}


# --- Certified ---------------------------------------------------------------------------------

PAIRS = (("hockey", "soccer"), ("good", "great"), ("doctor", "nurse"))
CERTIFIED = {"madlib": (10.0, 13.0, 15.0, 20.0, 30.0), "mahalanobis": (17.0,)}


def certified(
    name: str, word: str, other: str, epsilons: Sequence[float], seed: int
) -> list[dict[str, Any]]:
    """What noise loses between near words, against its claim."""
    mechanism = over_table(name, 1.0)
    if not isinstance(mechanism, Madlib):
        raise InvalidInput(f"name: got {name!r}, expected 'madlib' or 'mahalanobis'")
    rng = stream(seed, "audit", "certified", name, word, other)
    found = certified_losses(mechanism, word, other, epsilons, rng)
    return [{"mechanism": name, "word": word, "other": other, **plain(each)} for each in found]


# --- Sampled -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A noise mechanism on a small vocabulary."""

    label: str
    dimension: int
    words: int
    make: Callable[[Embedding], Mechanism]

    @property
    def title(self) -> str:
        """How progress calls it."""
        return f"{self.label}, dimension {self.dimension}"


def _madlib(table: Embedding) -> Madlib:
    return Madlib(table, epsilon=1.0, search=PlainSearch(table.vectors))


def _mahalanobis(table: Embedding) -> Mechanism:
    return Mahalanobis(table, epsilon=1.0, search=PlainSearch(table.vectors))


def _part_mahalanobis(table: Embedding) -> Mechanism:
    search = PlainSearch(table.vectors)
    return Mahalanobis(table, epsilon=1.0, strength=0.2, search=search)


def _rank_repair(table: Embedding) -> Mechanism:
    return RankRepair(_madlib(table), c=0.05)


def _vickrey(table: Embedding) -> Mechanism:
    return Vickrey(_madlib(table), t=0.75)


SETTINGS = (
    Setting("madlib", 2, WORDS, _madlib),
    Setting("madlib", 5, WORDS, _madlib),
    Setting("madlib", 50, WORDS, _madlib),
    Setting("mahalanobis", 2, WORDS, _mahalanobis),
    Setting("mahalanobis", 5, WORDS, _part_mahalanobis),
    Setting("rank-repair", 2, 100, _rank_repair),
    Setting("vickrey", 2, WORDS, _vickrey),
)


def small_vocabulary(dimension: int, words: int = WORDS) -> Embedding:
    """The most frequent words of a public table, by their first principal components."""
    table = _table(SMALL).subset(np.arange(words))
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


def counts(number: int, word: int, draws: int, seed: int) -> list[list[int]]:
    """How often each output was drawn for one word of a setting, in both halves."""
    mechanism, words = prepared(SETTINGS[number])
    (word,) = check_ids([word], mechanism.size, what="word").tolist()
    label = f"{SETTINGS[number].label} {SETTINGS[number].dimension}"
    halves = draw_word(mechanism, word, draws=draws, seed=seed, label=label)
    return [half.tolist() for half in halves]


def laplace(width: int, draws: int, seed: int) -> dict[str, Any]:
    """Corners of the box, where pairs are told apart best, and points inside it."""
    rng = stream(seed, "audit", "sentences", width)
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * width), -1).reshape(-1, width)
    inside = rng.random((max(2, 21 - len(corners)), width))
    return plain(
        audit_laplace(
            TruncatedLaplace(Box(np.zeros(width), np.ones(width)), epsilon=2.0),
            np.concatenate([corners, inside]),
            draws=draws,
            seed=seed,
            kept=np.full((1, width), 0.5),
        )
    )


# --- Mutants -----------------------------------------------------------------------------------


def _mutants_digest() -> str:
    path = paths.REPOSITORY / MUTANTS
    if not path.is_file():
        raise RunError(f"no {MUTANTS}: the mutants are part of the repository, not of the package")
    files = [path, path.with_name("helpers.py")]
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def mutants(digest: str) -> list[dict[str, Any]]:
    """Wrong mechanisms under the small audits: flaw, audit, worst ratio, whether it was caught.

    Parameters
    ----------
    digest : of the files that hold them, which the result depends on

    Raises
    ------
    RunError : the file has changed meanwhile, or fails
    """
    if digest != _mutants_digest():
        raise RunError(f"{MUTANTS} has changed since the audits began: start them again")
    ran = subprocess.run(
        [sys.executable, str(paths.REPOSITORY / MUTANTS), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise RunError(f"{MUTANTS} failed: {ran.stderr.strip()[-500:]}")
    rows: list[dict[str, Any]] = json.loads(ran.stdout)
    return rows
