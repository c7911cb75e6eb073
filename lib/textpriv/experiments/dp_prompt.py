"""Notebook 04: documents of real authors, what mechanisms make of them, and who asks about whom.

What a mechanism puts out at one setting is an `Output`. Documents are divided into parts, and each
part is asked about by attackers who have learned from the others (`Fold`). Authors are asked for of
reviews, the sentiment of film reviews beside them (`with_films`), where clean text shows it well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator
from sklearn.model_selection import train_test_split

from textpriv import study
from textpriv.attacks.author import TrainingData, random_baseline
from textpriv.attacks.f1 import f1_estimate
from textpriv.channel import FloatArray, IntArray
from textpriv.data import corpora, embeddings
from textpriv.data.authors import NEITHER, by_authors, by_rating
from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding
from textpriv.data.splits import shares_ngram
from textpriv.experiments.equal_utility import LEFT_OUT
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.sentences import DeepCandidate
from textpriv.models import Encoder
from textpriv.models.vectors import SentenceVectors, embed
from textpriv.seeds import stream
from textpriv.stats import clustered_mean

Seen = FloatArray | Sequence[str]  # what an attacker has of every document
Setting = tuple[str, float]  # a mechanism's name, and its epsilon or temperature
Tokens = Sequence[NDArray[Any]]  # document, share of logits clipped, probability moved of each

PROMPTED, CLIPPED, CLEAN = "dp-prompt", "dp-prompt-clipped", "clean"
BY_WORD = ("madlib", "mahalanobis", "tem")
LARGE = "-300d"  # ends the name of a mechanism over the table of 300 dimensions
WHOLE = "madlib-whole"  # MADLIB over the whole table of 50 dimensions
FIRST = "first-words"  # of a text: shortened by no mechanism, with no guarantee, as LEFT_OUT
UNITS = {FIRST: "first", LEFT_OUT: "kept"}  # of levels; t is DP-Prompt's, eps the others'
EMBEDDING = "embedding"  # what an attacker sees of a document, in place of its text
ON_VECTORS = EMBEDDING, "linear"  # two ways to read it
DOCUMENTS = "private documents"  # the sample of all estimates here; a unit is a document's row
PIECES = 256  # that the encoder reads of a document or of a sentence
VALIDATION = 0.1  # of the documents that train; the paper does not say its share
FILMS = "imdb"  # labelled film reviews
ASSETS = "rented-clothes-reviews", "movie-reviews", "glove-6b-50d", "glove-840b-300d-34k"
ON_GPU = 16  # times as many outputs that are written at once


@dataclass(frozen=True, eq=False)
class Output:
    """The private documents as a mechanism puts them out at one setting."""

    mechanism: str  # name in results and figures
    level: float  # epsilon, or temperature
    texts: Sequence[Sequence[str]]  # of every run; none where only vectors come out
    vectors: FloatArray  # (runs, documents, width) what an attacker who sees embeddings has

    @property
    def name(self) -> str:
        return name_of(self.mechanism, self.level)

    @property
    def columns(self) -> dict[str, Any]:
        return columns_of(self.mechanism, self.level)

    def seen(self, access: str, run: int) -> Seen:
        """All documents as an attacker has them; runs are used in turn, one for every part."""
        runs: Any = self.vectors if access in ON_VECTORS else self.texts
        return runs[run % len(runs)]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows of the documents that train an attacker, choose its settings, and are asked about."""

    number: int
    train: IntArray
    validation: IntArray
    test: IntArray

    def learn(self, views: Sequence[Seen], labels: IntArray) -> TrainingData[Any]:
        """Training and validation documents with their labels, in each view of all documents."""
        sets: list[Any] = []
        for rows in (self.train, self.validation):
            seen = [rows_of(view, rows) for view in views]
            is_array = isinstance(seen[0], np.ndarray)
            sets.append(np.concatenate(seen) if is_array else list(chain(*seen)))
            sets.append(np.tile(labels[rows], len(views)))
        return TrainingData(*sets)

    def ask(self, seen: Seen) -> Any:
        """The documents that are asked about."""
        return rows_of(seen, self.test)


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 04, set by the profile."""

    corpus: str
    encoder: str
    generator: str
    authors: int = Field(ge=2)
    documents: int = Field(ge=4)  # under attack, at most as many of each author
    films: int = Field(ge=0)  # film reviews, of which the sentiment is asked; 0: of the documents
    fewest_words: int = Field(ge=1)
    most_words: int = Field(ge=1)  # what follows is cut off, of private and public documents
    runs: int = Field(ge=2)  # draws of the cheap mechanisms; as many parts are attacked in turn
    prompt_runs: int = Field(default=1, ge=1)  # of DP-Prompt without limits or top-k
    public: int = Field(ge=10)  # documents of other authors, or films: limits, candidates
    word_epsilons: tuple[float, ...]
    large_epsilons: tuple[float, ...]  # over 300 dimensions
    whole_epsilons: tuple[float, ...]  # over the whole table, one draw
    vocabulary: int | None = None  # words of the tables; None: all that both have
    sentence_epsilons: tuple[float, ...]
    clusters: int = Field(ge=2)
    temperatures: tuple[float, ...]
    clipped_temperatures: tuple[float, ...]
    top_k: tuple[int, ...]
    top_k_temperatures: tuple[float, ...]
    tokens: int = Field(ge=1)  # public cap on what is written
    limit_documents: int = Field(ge=1)  # public documents on which the limits are learned
    batch: int = Field(ge=1)  # outputs that a processor writes at once
    chunk: int = Field(default=60, ge=1)  # documents after which an interrupted run goes on
    tuned: tuple[str, ...]  # "mechanism setting": attacked by the fine-tuned encoder too
    ledger: tuple[str, ...]  # "mechanism setting": whose surface is looked at
    risks: tuple[float, ...]  # author F1 at which mechanisms are compared
    hidden: float = Field(gt=0, lt=1)  # author F1 below which nobody is named
    first_words: tuple[int, ...]  # of every document, in place of a mechanism
    kept_words: tuple[float, ...]  # shares of its words that are kept at random
    repeats: tuple[int, ...]  # how often one document is sanitized
    repeated_epsilon: float = Field(gt=0)
    generated_repeats: int = Field(ge=1)  # of the generator, at most
    repeated_temperature: float = Field(gt=0)
    compared: int = Field(ge=2)  # documents whose paraphrases are compared with them

    def rows(self, device: str) -> int:
        """Outputs that are written at once: the more, the better a GPU is used."""
        return self.batch if device == "cpu" else ON_GPU * self.batch

    @property
    def levels(self) -> dict[str, tuple[float, ...]]:
        """Epsilons, or temperatures of DP-Prompt, of every mechanism by its name."""
        return {
            **dict.fromkeys(BY_WORD, self.word_epsilons),
            **dict.fromkeys([name + LARGE for name in BY_WORD], self.large_epsilons),
            WHOLE: self.whole_epsilons,
            **dict.fromkeys(("truncated-laplace", "deep-candidate"), self.sentence_epsilons),
            PROMPTED: self.temperatures,
            CLIPPED: self.clipped_temperatures,
            **{f"{PROMPTED}-top-k{k}": self.top_k_temperatures for k in self.top_k},
        }

    @model_validator(mode="after")
    def _outputs_are_made(self) -> Self:
        """What later cells ask for by its name; a missing one shall not show after half an hour."""
        wanted = {*self.tuned, *self.ledger, name_of("madlib", self.repeated_epsilon)}
        wanted.add(name_of(CLIPPED, self.repeated_temperature))
        made = [name_of(name, level) for name, levels in self.levels.items() for level in levels]
        if unknown := sorted(wanted - {name_of(CLEAN), *made}):
            raise ValueError(f"tuned, ledger, repeated: got {unknown}, expected among {made}")
        return self


# --- Documents ----------------------------------------------------------------------------------


def by_author(sizes: Sizes) -> tuple[Documents, str, Documents]:
    """The corpus, its column of authors, and all documents of the authors under attack."""
    corpus = corpora.load(sizes.corpus)
    author = "author" if "author" in corpus.columns else "user_id"
    is_rated = "rating" in corpus.columns
    sentiment = by_rating(corpus.column("rating")) if is_rated else corpus.column("label")
    options: dict[str, Any] = {"authors": sizes.authors, "fewest_words": sizes.fewest_words}
    return corpus, author, by_authors(corpus, sentiment, author=author, **options)


def first_words(documents: Documents, count: int) -> Documents:
    """The first words of every document: a public cap, the same for all."""
    texts = tuple(" ".join(text.split()[:count]) for text in documents.texts)
    return Documents(documents.name, texts, dict(documents.columns))


def public_documents(
    corpus: Documents,
    author: str,
    chosen: Documents,
    private: Documents,
    sizes: Sizes,
    rng: np.random.Generator,
) -> Documents:
    """Documents of other authors, cut, that share no run of eight words with a private one.

    Where a corpus has no other authors, those that are not `private`, the uncut documents under
    attack, of all that were `chosen`; the column `author` says whose they are.
    """
    who, ours = corpus.columns[author], set(chosen.texts)
    names = np.unique(who[np.array([text in ours for text in corpus.texts])])
    others, taken = np.flatnonzero(~np.isin(who, names)), set(private.texts)
    if not len(others):
        others = np.flatnonzero([text not in taken for text in corpus.texts])
    drawn = corpus.subset(rng.permutation(others)[: 2 * sizes.public])
    public = first_words(drawn, sizes.most_words)
    quoting = shares_ngram(public.texts, first_words(private, sizes.most_words).texts)
    return public.subset(np.flatnonzero(~quoting)[: sizes.public])


def with_films(
    private: Documents, public: Documents, sizes: Sizes, rng: np.random.Generator
) -> tuple[Documents, Documents]:
    """Private and public documents with labelled film reviews among them, cut like the others.

    Of the films the sentiment is asked, of the other private documents the author; what is not
    asked of a document is NEITHER in its column. Half of the public documents become films that
    share no run of eight words with a private one, in random order. Without films both are as
    before, and each private document is asked for both.
    """
    count, half = sizes.films, len(public) // 2
    if not count:
        return private, public
    films = corpora.load(FILMS)
    rows = rng.permutation(len(films))
    asked = first_words(films.subset(rows[:count]), sizes.most_words)
    others = first_words(films.subset(rows[count : count + 2 * half]), sizes.most_words)
    label = np.asarray(asked.columns["label"], np.int64)
    columns = {
        "author": np.append(private.columns["author"], np.full(count, NEITHER)),
        "sentiment": np.append(np.full(len(private), NEITHER), label),
    }
    fresh = np.flatnonzero(~shares_ngram(others.texts, asked.texts))[:half]
    known = [*public.texts[: len(public) - half], *(others.texts[row] for row in fresh)]
    mixed = tuple(known[row] for row in rng.permutation(len(known)))
    texts = (*private.texts, *asked.texts)
    return Documents(private.name, texts, columns), Documents(public.name, mixed)


def shared_words(count: int | None) -> tuple[Embedding, Embedding]:
    """GloVe with 50 and with 300 dimensions over the first words that both tables have."""
    small, large = embeddings.load("glove-6b-50d"), embeddings.load("glove-840b-300d-34k")
    ids = small.ids(large.words)
    both = np.flatnonzero(ids >= 0)[:count]
    return small.subset(ids[both]), large.subset(both)


# --- What mechanisms make of them ---------------------------------------------------------------


def name_of(mechanism: str, level: float = 0.0) -> str:
    """How an output is called: "madlib eps8", "dp-prompt t0.75", "clean plain"."""
    unit = "t" if mechanism.startswith(PROMPTED) else UNITS.get(mechanism, "eps")
    return f"{mechanism} {'plain' if mechanism == CLEAN else f'{unit}{level:g}'}"


def columns_of(mechanism: str, level: float) -> dict[str, Any]:
    """What a table says of an output: mechanism, setting, level."""
    setting = name_of(mechanism, level).removeprefix(f"{mechanism} ")
    return {"mechanism": mechanism, "setting": setting, "level": level}


def shown(setting: str) -> str:
    """How figures and sentences write a setting: "eps8" as "ε 8", "t0.75" as "T 0.75"."""
    signs = {"eps": "ε", "t": "T"}
    return re.sub(r"^[a-z]+(?=\d)", lambda unit: f"{signs.get(unit[0], unit[0])} ", setting)


def embedded(encoder: Encoder, texts: Mapping[Setting, Sequence[Sequence[str]]]) -> list[Output]:
    """Outputs with the mean sentence vectors of their documents."""

    def vectors(mechanism: str, level: float) -> FloatArray:
        runs = texts[mechanism, level]
        means = embed(encoder, [text for run in runs for text in run], longest=PIECES).mean()
        return means.reshape(len(runs), -1, encoder.width)

    over = [{"mechanism": mechanism, "level": level} for mechanism, level in texts]
    made = study.measure(vectors, over, label="vectors")
    return [Output(*key, texts[key], each) for key, each in zip(texts, made, strict=True)]


def shortened(
    encoder: Encoder, texts: Sequence[str], sizes: Sizes, rng: np.random.Generator
) -> dict[str, Output]:
    """What scissors make of texts, by name: their first words, or words kept at random.

    A text of which no word is left is a full stop.
    """
    words, runs = [text.split() for text in texts], range(sizes.runs)
    short: dict[Setting, list[list[str]]] = {}
    for count in sizes.first_words:
        short[FIRST, count] = [[" ".join(each[:count]) for each in words]]
    for share in sizes.kept_words:
        kept = [[[w for w in each if rng.random() < share] for each in words] for _ in runs]
        short[LEFT_OUT, share] = [[" ".join(each) or "." for each in run] for run in kept]
    return {each.name: each for each in embedded(encoder, short)}


def drawn_inside(mechanism: DeepCandidate, vectors: SentenceVectors) -> FloatArray:
    """Probability that the candidate drawn lies among the sentences of each document: (documents,).

    That is, has a depth above 0. Where no candidate has, all are equally likely at any epsilon.
    """
    inside = []
    for document in range(len(vectors)):
        probability = np.exp(mechanism.log_probability(vectors[document]))
        deep = mechanism.depth(vectors[document]) > 0
        inside.append(min(1.0, float(probability[deep].sum())))
    return np.array(inside)


def guarantees(prompts: Mapping[Setting, DPPrompt]) -> pd.DataFrame:
    """What DP-Prompt guarantees, by its name and temperature.

    Columns: mechanism, setting, temperature, tokens, token_tight, token_paper (loss of one token),
    tight, paper (epsilon of a document), withdrawn (why there is none).
    """
    rows = []
    for (name, temperature), mechanism in prompts.items():
        named = {"mechanism": name, "setting": f"t{temperature:g}", "temperature": temperature}
        at = mechanism.guarantee
        token = {"tokens": at.tokens, "token_tight": at.tight_loss, "token_paper": at.paper_loss}
        whole = {"tight": at.epsilon, "paper": at.epsilon_paper, "withdrawn": at.withdrawn}
        rows.append(named | token | whole)
    return pd.DataFrame(rows)


class ClippingWatch:
    """Sees what limits change in the law of every token that is drawn; private.

    Given as `watch` to `prompt.sanitize_at`, which has the mechanisms in the same order.
    """

    def __init__(self, prompts: Mapping[Setting, DPPrompt]) -> None:
        self.prompts = list(prompts.items())
        self.seen: dict[Setting, list[tuple[IntArray, FloatArray, FloatArray]]] = {}

    def __call__(self, which: int, scores: torch.Tensor, documents: IntArray) -> None:
        """The number of a mechanism, what it draws from, and for which documents."""
        setting, mechanism = self.prompts[which]
        if mechanism.limits is not None:
            moved = mechanism.moved_by_clipping(scores)
            self.seen.setdefault(setting, []).append((documents, *moved))

    def tokens(self) -> dict[Setting, Tokens]:
        """What it has seen of every setting with limits, in the order of time."""
        return {
            setting: [np.concatenate(each) for each in zip(*steps, strict=True)]
            for setting, steps in self.seen.items()
        }


def clipping_shares(seen: Sequence[Mapping[Setting, Tokens]]) -> Iterator[dict[str, Any]]:
    """Means over the tokens that watches have seen of chunks of documents (`ClippingWatch.tokens`).

    Rows of mechanism, setting, level, trace, value, ..., influence. Traces: logits_clipped and
    probability_moved, see `DPPrompt.moved_by_clipping`.
    """
    for key in dict.fromkeys(key for tokens in seen for key in tokens):
        parts = [tokens[key] for tokens in seen if key in tokens]
        document, *shares = (np.concatenate(each) for each in zip(*parts, strict=True))
        for trace, share in zip(("logits_clipped", "probability_moved"), shares, strict=True):
            yield {**columns_of(*key), "trace": trace, **mean_share(share, document)}


def runs_of(
    chunks: Sequence[Mapping[Setting, list[str]]], points: Sequence[Mapping[str, Any]]
) -> dict[Setting, list[list[str]]]:
    """Chunks of documents put together: of every setting its runs, each of all documents.

    Chunks are in the order of documents; the "number" of its point says of which run one is.
    """
    runs: dict[Setting, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for point, chunk in zip(points, chunks, strict=True):
        for setting, texts in chunk.items():
            runs[setting][point["number"]] += texts
    return {setting: [*texts.values()] for setting, texts in runs.items()}


def mean_share(share: FloatArray, document: IntArray | None = None) -> dict[str, Any]:
    """Mean of shares in 0..1, its interval by documents (None: one share of each), as columns."""
    document = np.arange(len(share)) if document is None else document
    return clustered_mean(share, document, bounds=(0.0, 1.0), sample=DOCUMENTS).columns()


# --- Who is asked about whom --------------------------------------------------------------------


def rows_of(seen: Seen, rows: IntArray) -> Any:
    """These rows of an array, or these of some texts as a list."""
    return seen[rows] if isinstance(seen, np.ndarray) else [seen[row] for row in rows.tolist()]


def folds(labels: IntArray, part: IntArray, seed: int | None) -> list[Fold]:
    """One per part (see `authors.parts`), which is asked about; of the others a tenth validates.

    Documents with the label NEITHER are in none.
    """
    made, asked = [], labels != NEITHER
    for number in np.unique(part).tolist():
        others = np.flatnonzero(asked & (part != number))
        train, validation = train_test_split(
            others,
            test_size=max(round(VALIDATION * len(others)), len(np.unique(labels[others]))),
            stratify=labels[others],
            random_state=int(stream(seed, "04", "fold", number).integers(2**32)),
        )
        test = np.flatnonzero(asked & (part == number))
        made.append(Fold(number, np.sort(train), np.sort(validation), test))
    return made


def random_baselines(labels: Mapping[str, IntArray]) -> dict[str, float]:
    """Macro F1 of who guesses uniformly, by target, over the documents that are asked for it."""
    known = {target: truth[truth != NEITHER] for target, truth in labels.items()}
    return {each: random_baseline(truth, int(truth.max()) + 1) for each, truth in known.items()}


def attack_points(
    access: str, kinds: Sequence[str], targets: Iterable[str], outputs: Sequence[str]
) -> list[dict[str, Any]]:
    """Attackers of these kinds; static ones learn from clean documents, others from an output."""
    return [
        {"access": access, "target": target, "learned": learned, "kind": kind}
        for kind in kinds
        for target in targets
        for learned in outputs
        if (learned == name_of(CLEAN)) == (kind == "static")
    ]


def macro_f1_of(
    guesses: Sequence[IntArray], parts: Sequence[Fold], labels: IntArray, seed: int | None
) -> dict[str, Any]:
    """Macro F1 of the answers for some parts together, with its interval, as columns of a table.

    `guesses` are for the documents that each part asks about, `labels` of all documents.
    """
    document = np.concatenate([fold.test for fold in parts])
    answers, classes = np.concatenate(guesses), int(labels.max()) + 1
    rng = stream(seed, "04", "resample")  # the same documents are drawn for all attackers
    by_document: dict[str, Any] = {"document": document, "sample": DOCUMENTS}
    return f1_estimate(labels[document], answers, classes, rng, **by_document).columns()


def seed_from(rng: np.random.Generator) -> int:
    """A seed for what takes a number in place of a generator."""
    return int(rng.integers(2**31))
