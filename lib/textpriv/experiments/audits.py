"""The long audits: every claim put to the test on public tables, task by task.

    for task in tasks(["exact", "sampled"], draws=1_000_000, seed=7):
        task.done(code).value            # made now, or taken from where it was kept

A task is a function of this module with plain arguments and a JSON value as its result, so that
it can be sent to another process, and kept in the cache under all that it depends on: its
arguments, the data and the code (`code_digest`). An interrupted run goes on from there.
`make audit` runs them, with progress, and wrong mechanisms beside them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from numpy.typing import NDArray

from textpriv import assets
from textpriv.channel import check_ids
from textpriv.data import embeddings
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
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
from textpriv.mechanisms.allotted import STAMP, Allotted
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.polar import Polar
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.mechanisms.registry import WORD_LEVEL, examples
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.mechanisms.sweep import epsilons_for
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.models.generators import Generator
from textpriv.models.vectors import SentenceVectors
from textpriv.neighbors import ExactSearch, Search
from textpriv.privacy.certified import certified_losses
from textpriv.privacy.exact import (
    audit_candidates,
    audit_exactly,
    audit_map,
    audit_prompt,
    audit_stencil,
    tight_loss,
)
from textpriv.privacy.fit import with_fit
from textpriv.privacy.released import Noisy, audit_noise, released_laplace
from textpriv.privacy.results import Audit, audit_of, plain
from textpriv.privacy.sampled import (
    Drawn,
    PlainSearch,
    at_most,
    audit_laplace,
    audit_noise_length,
    audit_words,
    draw_word,
    draw_words,
    spread_words,
)
from textpriv.seeds import stream

IntArray = NDArray[np.int64]

LARGE = "glove-840b-300d-34k"
SMALL = "glove-6b-50d"
ALLOTTED = "santext, allotted"
WORDS, INPUTS = 500, 24  # of a small vocabulary; 24 inputs make 276 pairs
WORKING_WORDS, WORKING_INPUTS = 2000, 200  # of a table as it is used, across all frequencies
WORKING_DRAWS = 100  # at most, per input and half: enough to see 0.97 of the noise
PARTS = ("exact", "tight", "certified", "sampled")
# What the audits reach, in the package; what is kept depends on all of it.
CODE = (
    "channel.py", "checks.py", "seeds.py", "data/embeddings.py", "data/tokens.py",
    "models/vectors.py", "models/generators/*.py", "mechanisms/*.py", "neighbors/*.py",
    "privacy/*.py", "experiments/audits.py",
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
        stored = json.loads((folder / "value.json").read_text())
        return Done(stored["value"], stored["seconds"], not made)


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
    queue: list[Task] = []
    for part in parts:
        if part == "exact":
            queue += [Task(part, f"{name}, eps {epsilon:g}", exact, (name, epsilon, seed))
                      for name, epsilon in (*EXACT, *unlisted())]  # fmt: skip
            queue += [Task(part, f"{name}, eps {epsilon:g}, stronger reading", exact,
                           (name, epsilon, seed, True))
                      for name, epsilon in overstated()]  # fmt: skip
            queue += [Task(part, name, toy, (name, seed)) for name in TOYS]
            queue += [Task(part, f"{name}, eps {epsilon:g}, from inside", inside,
                           (name, epsilon, seed)) for name, epsilon in INSIDE]  # fmt: skip
        elif part == "tight":
            queue += [Task(part, f"{name}, eps {epsilon:g}", tight, (name, epsilon))
                      for name, epsilon in (*TIGHT, *unlisted(claimed=True))]  # fmt: skip
        elif part == "certified":
            queue += [Task(part, f"{name}, {word} / {other}", certified,
                           (name, word, other, CERTIFIED[name], seed))
                      for name in CERTIFIED for word, other in PAIRS]  # fmt: skip
        elif part == "sampled":
            queue += [Task(part, f"truncated-laplace, width {width}", laplace,
                           (width, draws, seed)) for width in (1, 3)]  # fmt: skip
            queue += [
                Task(part, f"{setting.title}, word {word}", counts, (number, word, draws, seed))
                for number, setting in enumerate(SETTINGS)
                for word in prepared(setting)[1].tolist()
            ]
            queue += [
                Task(part, f"{setting.title}, its noise", noise_length,
                     (number, min(draws, WORKING_DRAWS), seed))
                for number, setting in enumerate(WORKING)
            ]  # fmt: skip
        else:
            raise InvalidInput(f"part: got {part!r}, expected one of {PARTS}")
    return queue


def audits_of(results: Mapping[Task, Any]) -> list[Audit]:
    """The audits that the results of tasks are, or together make, in the order of the tasks."""
    whole = (exact, toy, inside, laplace, noise_length)
    audits = [audit_of(value) for task, value in results.items() if task.make in whole]
    drawn = {task.arguments[:2]: value for task, value in results.items() if task.make is counts}
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
    return [
        *audits,
        *breaches(row for task, rows in results.items() if task.make is certified for row in rows),
    ]


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
    if name == ALLOTTED:  # words in four groups by their rank, at STAMP's budgets
        return Allotted(over_table("santext", epsilon), np.arange(len(table)) % len(STAMP), STAMP)
    if name not in WORD_LEVEL:
        raise InvalidInput(f"name: got {name!r}, expected a word-level mechanism")
    return WORD_LEVEL[name].make(table, ExactSearch(table.vectors)).with_epsilon(epsilon)


def finite(name: str, epsilon: float) -> FiniteMechanism:
    """The same where it has an explicit P(y|x)."""
    made = over_table(name, epsilon)
    assert isinstance(made, FiniteMechanism)
    return made


# --- Exact -----------------------------------------------------------------------------------

TIGHT = (
    ("santext", 1.0), ("santext", 2.4), ("santext", 15.0), ("santext+", 2.4), ("tem", 2.4),
    ("custext-conservative", 4.0), ("randomized-response", 10.4),
)  # fmt: skip
EXACT = (*TIGHT, ("custext+", 4.0), ("custext-aggressive", 4.0), (ALLOTTED, 2.4))
TOYS = (
    "santext", "tem", "2-random", "stencil", "punctuated-stencil", "deep-candidate", "dp-prompt"
)  # fmt: skip
INSIDE = (
    ("madlib", 13.0), ("mahalanobis", 17.0), ("rank-repair", 13.0), ("vickrey", 13.0),
    ("polar", 400.0),
)  # fmt: skip


def unlisted(*, claimed: bool = False) -> list[tuple[str, float]]:
    """Registered mechanisms with an explicit P(y|x) that EXACT leaves out, at their usual epsilon.

    `claimed`: those alone whose claim is an ordinary one.
    """
    listed = {name for name, _ in EXACT}
    return [
        (name, made.epsilon)
        for name, made in examples().items()
        if isinstance(made, FiniteMechanism) and name not in listed
        if made.claim.loss or not claimed
    ]


def overstated() -> list[tuple[str, float]]:
    """Registered mechanisms of which more is read than they keep, at their usual epsilon."""
    made = examples().items()
    stated = [(name, mechanism.epsilon) for name, mechanism in made if mechanism.published]
    return [*stated, *(each for each in EXACT if each[0] == ALLOTTED)]


def exact(name: str, epsilon: float, seed: int, published: bool = False) -> dict[str, Any]:
    """A finite mechanism on the whole table: every nearest pair and random ones.

    `published`: against the stronger reading, which is expected to be broken.
    """
    rng = stream(seed, "audit", "pairs")
    return plain(audit_exactly(finite(name, epsilon), rng=rng, published=published))


def toy(name: str, seed: int) -> dict[str, Any]:
    """What can be enumerated: every pair of the 1,000 most frequent words, or a toy."""
    table, rng = _table(LARGE), stream(seed, "audit", name)
    if name in ("santext", "tem"):
        frequent = table.subset(np.arange(min(1000, len(table))))
        return plain(audit_exactly((SanText if name == "santext" else TEM)(frequent, epsilon=3.0)))
    if name == "2-random":
        return plain(audit_map(LossyMap.random(len(table), 2, rng)))
    if name in ("stencil", "punctuated-stencil"):
        tokens = TokenTable(table.vectors[: min(1000, len(table))])
        text = rng.integers(tokens.size, size=2000)
        corpus = Corpus(ids=text, offsets=np.array([0, 1, 3, 2000]), kept={})
        return plain(audit_stencil(Stencil(tokens, punctuated=name != "stencil"), corpus))
    if name == "deep-candidate":
        points = rng.standard_normal((500, 3)).astype(np.float32)
        public = SentenceVectors(points, np.arange(501))
        chosen = DeepCandidate(public, partial(np.asarray, dtype=np.float64), epsilon=2.0)
        return plain(audit_candidates(chosen, rng.standard_normal((8, 3)), size=4, rng=rng))
    low = rng.normal(size=12) * 3
    limits = Limits(low, low + rng.gamma(2, 1, size=12))
    scores = rng.standard_cauchy((300, 12)) * 10
    prompt = DPPrompt(small_generator(12, seed), temperature=0.75, tokens=2, limits=limits)
    return plain(audit_prompt(prompt, ["t1", "t2 t3", "t4 t4 t11"], scores, seed=seed))


def small_generator(words: int, seed: int) -> Generator:
    """A network with random weights that writes "t1", "t2", ...; token 0 ends an output."""
    vocabulary = {"</s>": 0, **{f"t{number}": number for number in range(1, words)}}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t1"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="</s>", eos_token="</s>"
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=words,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                max_position_embeddings=64,
                initializer_range=1.0,
                bos_token_id=0,
                eos_token_id=0,
            )
        ).eval()
    return Generator("small", tokenizer, network, torch.device("cpu"), f"small {words} {seed}")


def inside(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Noise on the whole table, in its own dimension, by its density."""
    mechanism = over_table(name, epsilon)
    assert isinstance(mechanism, Noisy)
    return plain(audit_noise(mechanism, stream(seed, "audit", "inside", name)))


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
    assert isinstance(mechanism, Madlib)
    rng = stream(seed, "audit", "certified", name, word, other)
    losses = certified_losses(mechanism, word, other, epsilons, rng)
    return [{"mechanism": name, "word": word, "other": other, **plain(loss)} for loss in losses]


def breaches(rows: Iterable[Mapping[str, Any]]) -> list[Audit]:
    """An audit for every certain loss above its claim; one below it proves nothing."""
    return [
        Audit(
            mechanism=row["mechanism"],
            setting=f"eps {row['epsilon']:g}",
            claim="P(M(w)=w) <= exp(eps * d(w,w')) * P(M(w')=w)",
            method="certain bounds of one event",
            pairs=1,
            worst_ratio=float(row["low"]) / row["claimed"],
            worst_pair=(row["word"], row["other"]),
            violations=1,
        )
        for row in rows
        if float(row["low"]) > row["claimed"]
    ]


# --- Sampled -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A noise mechanism on a small vocabulary."""

    label: str
    dimension: int
    words: int
    make: Callable[[Embedding, Search], Mechanism]

    @property
    def title(self) -> str:
        """How progress calls it."""
        return f"{self.label}, dimension {self.dimension}"


def _madlib(table: Embedding, search: Search) -> Madlib:
    return Madlib(table, epsilon=1.0, search=search)


def _mahalanobis(table: Embedding, search: Search, strength: float = 1.0) -> Mechanism:
    return Mahalanobis(table, epsilon=1.0, strength=strength, search=search)


def _rank_repair(table: Embedding, search: Search, c: float) -> Mechanism:
    return RankRepair(_madlib(table, search), c=c)


def _vickrey(table: Embedding, search: Search) -> Mechanism:
    return Vickrey(_madlib(table, search), t=0.75)


_part_mahalanobis = partial(_mahalanobis, strength=0.2)


SETTINGS = (
    Setting("madlib", 2, WORDS, _madlib),
    Setting("madlib", 5, WORDS, _madlib),
    Setting("madlib", 50, WORDS, _madlib),
    Setting("mahalanobis", 2, WORDS, _mahalanobis),
    Setting("mahalanobis", 5, WORDS, _part_mahalanobis),
    Setting("rank-repair", 2, 100, partial(_rank_repair, c=0.05)),
    Setting("vickrey", 2, WORDS, _vickrey),
    Setting("polar", 3, WORDS, lambda table, _: Polar(table, epsilon=1.0)),
)
# As they are used: no event tells two words apart there, but the noise's length shows.
WORKING = (
    Setting("madlib", 50, WORKING_WORDS, _madlib),
    Setting("madlib", 300, WORKING_WORDS, _madlib),
    Setting("mahalanobis", 300, WORKING_WORDS, _mahalanobis),
    Setting("mahalanobis", 300, WORKING_WORDS, _part_mahalanobis),
    Setting("rank-repair", 300, WORKING_WORDS, partial(_rank_repair, c=0.006)),
    Setting("vickrey", 300, WORKING_WORDS, _vickrey),
)


def small_vocabulary(dimension: int, words: int = WORDS) -> Embedding:
    """The most frequent words of a public table, by their first principal components."""
    table = _table(SMALL).subset(np.arange(words))
    centered = table.vectors.astype(np.float64)
    centered = centered - centered.mean(0)
    axes = np.linalg.svd(centered, full_matrices=False)[2][:dimension]
    return from_arrays(f"{SMALL}, {dimension} components", table.words, centered @ axes.T)


@cache
def working(setting: Setting) -> tuple[Mechanism, IntArray]:
    """The mechanism over words of all frequencies, and its inputs, spread alike.

    Its epsilon is the one at which the noise, followed by the nearest word, changes half of them.
    """
    table = _table(LARGE if setting.dimension == 300 else SMALL)
    sample = table.subset(np.linspace(0, len(table) - 1, setting.words).astype(np.int64))
    mechanism = setting.make(sample, ExactSearch(sample.vectors))
    inputs = np.linspace(0, setting.words - 1, WORKING_INPUTS).astype(np.int64)
    noise = mechanism.madlib if isinstance(mechanism, AfterNoise) else mechanism
    rng = stream(0, "audit", "working epsilon", setting.title)
    (epsilon,) = epsilons_for(noise, inputs, [0.5], rng).tolist()
    return mechanism.with_epsilon(float(f"{epsilon:.2g}")), inputs


def noise_length(number: int, draws: int, seed: int) -> dict[str, Any]:
    """Whether a mechanism of WORKING releases the noise that it claims."""
    mechanism, words = working(WORKING[number])
    label = f"noise {number} {WORKING[number].title}"
    drawn = draw_words(mechanism, words, draws=draws, seed=seed, label=label)
    shape = f", strength {mechanism.strength:g}" if isinstance(mechanism, Mahalanobis) else ""
    told = f"eps {mechanism.epsilon:g}, {mechanism.size:,} words"
    told += f", dimension {mechanism.embedding.dimension}{shape}"
    return plain(audit_noise_length(mechanism, drawn, setting=told))


@cache
def prepared(setting: Setting) -> tuple[Mechanism, IntArray]:
    """The mechanism at an epsilon that lets its pairs be told apart, and its inputs."""
    table = small_vocabulary(setting.dimension, setting.words)
    mechanism = setting.make(table, PlainSearch(table.vectors))
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
    inner = rng.random((max(2, 21 - len(corners)), width))
    noisy = TruncatedLaplace(Box(np.zeros(width), np.ones(width)), epsilon=2.0)
    every, kept = np.concatenate([corners, inner]), np.full((1, width), 0.5)
    audit = audit_laplace(noisy, every, draws=draws, seed=seed, kept=kept)
    documents = [np.vstack([row, kept]).astype(np.float32) for row in every]
    return plain(with_fit(audit, released_laplace(noisy, documents, rng)))
