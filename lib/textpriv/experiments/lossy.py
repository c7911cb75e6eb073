"""Notebook 03: texts in an encoder's own pieces, how they are replaced, and attacks of its own.

A `Setting` is one way to manipulate a text, under the label that results use; the notebook makes
the mechanism of each. A profile may let another encoder read some corpora, as the paper has T5 read
pairs of sentences: a `Text` names the encoder that reads it, a `Vocabulary` belongs to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from textpriv import stats
from textpriv.attacks.base import (
    NONE,
    Attack,
    BoolArray,
    Guesses,
    Observed,
    TokenAttack,
    hits_anywhere,
)
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.channel import FloatArray, IntArray
from textpriv.data import corpora, splits
from textpriv.data.corpora import Documents
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.stencil import TokenTable
from textpriv.models import Encoder, FastTokenizer, pieces
from textpriv.seeds import stream
from textpriv.stats import Estimate

MAPS = ("2-random", "3-random", "high-freq", "low-freq")
STENCILS = ("stencil", "punctuated-stencil")


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 03, set by the profile."""

    encoder: str
    encoders: Mapping[str, str] = Field(default_factory=dict)  # of corpora that another one reads
    corpora: Mapping[str, int]  # documents, by corpus
    longest: Mapping[str, int]  # pieces that are kept of a text: of a pair, of each one
    public: int = Field(ge=10)  # reviews that anyone can read: frequencies, language models
    windows: tuple[int, ...]
    sigmas: tuple[float, ...]
    crossing: tuple[int, float]  # window and sigma at which the paper varies the other
    etas: tuple[float, ...]
    seeds: int = Field(ge=1)  # draws of the random maps and the noise
    splits: int = Field(ge=1)  # of the probes
    test_share: float = Field(gt=0, lt=1)
    tuned: tuple[str, ...]  # labels for which the encoder is fine-tuned
    tuned_seeds: int = Field(1, ge=1)  # the first so many splits, with a draw of the maps each
    tuned_draws: int = Field(1, ge=1)  # of a random map, for who has learned plain text, a split
    tuned_steps: Mapping[str, int]  # 0: not on this corpus
    tuned_rates: Mapping[str, float] = Field(default_factory=dict)  # learning rates, 1e-4 if absent
    attacked: Mapping[str, int]  # documents under attack
    maps: int = Field(ge=1)  # draws of a random map under attack, each for a part of the documents
    rehearsed: int = Field(ge=1)  # public reviews that an attacker rehearses with
    guesses: int = Field(ge=5)  # candidates that a language model chooses from
    oracle: Mapping[str, int]  # documents that the oracle attacks
    oracle_longest: Mapping[str, int]  # tokens of the causal model that are kept of them
    oracle_most: int = Field(ge=1)  # prefixes that stay alive
    readable: int = Field(default=60, ge=2)  # documents whose grammar is looked at
    corpus: str = ""  # one of your own in place of all others, at the sizes of the first of these

    @model_validator(mode="after")
    def _documents_for_every_map(self) -> Self:
        under_attack = [*self.attacked.values(), *self.oracle.values()]
        if (least := min(under_attack, default=self.maps)) < self.maps:
            raise ValueError(
                f"maps: got {self.maps}, expected at most {least}, the least number of documents "
                "under attack, as each draw of a map is attacked on documents of its own"
            )
        return self

    @classmethod
    def for_corpus(cls, values: Mapping[str, Any], corpus: str) -> dict[str, Any]:
        """A profile's values for one corpus alone; see `profiles.load`."""
        (first, count), called = next(iter(values["corpora"].items())), corpora.called(corpus)
        tables = {key: each for key, each in values.items() if isinstance(each, dict)}
        sized = {key: {called: each[first]} for key, each in tables.items() if first in each}
        return {**values, **sized, "corpora": {corpus: count}}


# --- Settings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One way to manipulate a text."""

    kind: str  # "plain", one of MAPS, "noise" or one of STENCILS
    window: int = 0  # of a stencil, as is sigma
    sigma: float = 0.0
    eta: float = 0.0  # of the noise

    @property
    def label(self) -> str:
        """What results call it."""
        if self.kind in STENCILS:
            return f"{self.kind}-w{self.window}-s{self.sigma:.1f}"
        return f"noise-{self.eta:g}" if self.kind == "noise" else self.kind

    @property
    def is_random(self) -> bool:
        """Whether another seed gives another text."""
        return self.is_random_map or self.kind == "noise"

    @property
    def is_random_map(self) -> bool:
        """Whether one draw decides about all tokens of a text; noise is drawn for each anew."""
        return self.kind in ("2-random", "3-random")

    def columns(self) -> dict[str, Any]:
        """As columns of a table: label, kind, window, sigma, eta."""
        return {"label": self.label, **asdict(self)}


def crossing(sizes: Sizes) -> list[Setting]:
    """Every setting of the paper's tables: of the stencils the crossing window and sigma."""
    window, sigma = sizes.crossing
    cross = [(window, each) for each in sizes.sigmas]
    cross += [(each, sigma) for each in sizes.windows if each != window]
    settings = [
        *(Setting(kind) for kind in ("plain", *MAPS)),
        *(Setting("noise", eta=eta) for eta in sizes.etas),
        *(Setting(kind, *each) for kind in STENCILS for each in cross),
    ]
    known = [each.label for each in settings]
    if unknown := set(sizes.tuned) - set(known):
        raise InvalidInput(f"tuned: got {sorted(unknown)}, expected labels among {known}")
    return settings


# --- What is manipulated ------------------------------------------------------------------------


def documents(
    sizes: Sizes, stream_of: Callable[..., np.random.Generator]
) -> tuple[dict[str, Documents], tuple[str, ...]]:
    """The private documents of every corpus, and the public reviews.

    IMDb's private and public reviews are different ones, and no public review shares a run of eight
    words with a private text. A corpus with a column "second" is one of pairs.
    """
    private = {}
    reviews = corpora.load("imdb")
    order = stream_of("reviews").permutation(len(reviews))
    for name, count in sizes.corpora.items():
        if name == "imdb":
            private[name], order = reviews.subset(order[:count]), order[count:]
        else:
            every = corpora.load(name)
            private[every.name] = corpora.at_most(every, count, stream_of("documents", every.name))
    public = reviews.subset(order[: sizes.public])
    known = [text for each in private.values() for text in (*each.texts, *_second(each))]
    return private, public.subset(np.flatnonzero(~splits.shares_ngram(public.texts, known))).texts


def _second(documents: Documents) -> tuple[str, ...]:
    """Second texts of pairs; none where documents are single texts."""
    return tuple(documents.columns.get("second", ()))


@dataclass(frozen=True, eq=False)
class Text:
    """A corpus of labelled documents, in the pieces of the encoder that reads it.

    Of pairs the second texts stand behind all first ones, so that no window reaches across.
    """

    name: str
    encoder: str  # its name
    documents: tuple[str, ...]  # of pairs the first texts
    labels: IntArray  # (documents,) 0 or 1
    cluster: IntArray  # (documents,) which depend on each other: phrases of one sentence (SST-2)
    pieces: Corpus
    longest: int  # pieces that the encoder reads of a document, special ones included
    splits: tuple[tuple[IntArray, IntArray], ...] = ()  # documents to train and to test on

    @classmethod
    def of(
        cls, documents: Documents, name: str, encoder: Encoder, sizes: Sizes, seed: int | None
    ) -> Self:
        """The documents as an encoder of this name reads them, split `sizes.splits` times."""
        longest = sizes.longest[documents.name]
        first, second = (
            pieces.encode(encoder.tokenizer, texts, longest=longest)
            for texts in (documents.texts, _second(documents))
        )
        labels = np.asarray(documents.columns["label"]).astype(np.int64)
        is_phrase = documents.name == "sst2"
        cluster = splits.parent_sentences(documents.texts) if is_phrase else np.arange(len(labels))
        texts = 2 if len(second) else 1
        offsets = np.concatenate([first.offsets, len(first.ids) + second.offsets[1:]])
        both = Corpus(np.concatenate([first.ids, second.ids]), offsets)
        longest = texts * longest + sum(map(len, encoder.framed(texts)))
        # Splits are stratified, or keep clusters on one side.
        splitter, groups = StratifiedShuffleSplit, None
        if len(np.unique(cluster)) < len(labels):
            splitter, groups = GroupShuffleSplit, cluster
        parts = []
        for number in range(sizes.splits):
            rng = stream(seed, "03", "split", documents.name, number)
            split = splitter(1, test_size=sizes.test_share, random_state=int(rng.integers(2**32)))
            parts += split.split(labels, labels, groups)
        about = documents.name, name, documents.texts, labels, cluster
        return cls(*about, both, longest, tuple(parts))

    @property
    def unit(self) -> IntArray:
        """(pieces,) the cluster of each piece's document, by which intervals are made."""
        return self.cluster[self.pieces.document % len(self.labels)]

    def first(self, count: int) -> Text:
        """The first documents; see `subset`."""
        return self.subset(np.arange(min(count, len(self.labels))))

    def under(self, setting: Setting, draws: int) -> list[Text]:
        """All documents, or as many parts as a random map is drawn times, to be attacked."""
        parts = draws if setting.is_random_map else 1
        return [self.subset(np.arange(part, len(self.labels), parts)) for part in range(parts)]

    def subset(self, chosen: IntArray) -> Text:
        """Some documents, of pairs both texts; without splits."""
        is_pair = len(self.pieces) > len(self.labels)
        texts = [chosen, len(self.labels) + chosen] if is_pair else [chosen]
        return replace(
            self,
            documents=tuple(self.documents[each] for each in chosen),
            labels=self.labels[chosen],
            cluster=self.cluster[chosen],
            pieces=self.pieces.subset(np.concatenate(texts)),
            splits=(),
        )

    def read(self, seen: Corpus, documents: IntArray | None = None) -> tuple[Corpus, Corpus | None]:
        """What a classifier reads of manipulated pieces: texts and, of pairs, the second ones."""
        chosen = np.arange(len(self.labels)) if documents is None else documents
        is_pair = len(seen) > len(self.labels)
        second = seen.subset(len(self.labels) + chosen) if is_pair else None
        return seen.subset(chosen), second

    def unchanged(self, seen: Corpus) -> Estimate:
        """Share of the pieces that stay as they are, with an interval by cluster."""
        return stats.clustered_share(seen.ids == self.pieces.ids, self.unit, sample=self.name)


@dataclass(frozen=True, eq=False)
class Counted:
    """A vocabulary whose pieces are counted in public text: all that a lossy map needs."""

    counts: IntArray  # (size,) how often each piece occurs
    fixed: IntArray  # special pieces, which stay as they are


@dataclass(frozen=True, eq=False)
class Vocabulary(Counted):
    """The pieces of one encoder, and what public text says about them."""

    tokenizer: FastTokenizer
    table: TokenTable  # nearest pieces; special and unused ones take no part
    public: Corpus  # reviews that share no run of eight words with a private document
    rehearsed: int  # of them, from which an attacker learns what a mechanism does

    @classmethod
    def of(cls, encoder: Encoder, public: Sequence[str], rehearsed: int) -> Self:
        """That of an encoder; rows of its table without a piece are left out."""
        text = pieces.encode(encoder.tokenizer, public)
        named = len(pieces.vocabulary(encoder.tokenizer))
        vectors = encoder.table.detach().cpu().numpy()[:named]
        table = TokenTable(vectors, fixed=pieces.special_ids(encoder.tokenizer))
        counts = text.counts(len(vectors))
        return cls(counts, table.fixed, encoder.tokenizer, table, text, rehearsed)

    def counted_in(self, tokenizer: FastTokenizer) -> Counted:
        """Another model's tokens, counted in 2,000 public reviews as spelt by these pieces."""
        first = self.public.subset(np.arange(min(2000, len(self.public))))
        text = pieces.encode(tokenizer, pieces.decode(self.tokenizer, first))
        return Counted(text.counts(len(tokenizer)), pieces.special_ids(tokenizer))

    @property
    def parts(self) -> tuple[Corpus, Corpus, Corpus]:
        """Public reviews: to rehearse with, to calibrate with, and for the language model."""
        learned = min(self.rehearsed, len(self.public) - 2)
        last = min(learned + -(-learned // 4), len(self.public) - 1)
        reviews = np.split(np.arange(len(self.public)), [learned, last])
        rehearsal, calibration, unread = (self.public.subset(each) for each in reviews)
        return rehearsal, calibration, unread


class TokenNoise:
    """MADLIB on the vectors of an encoder's own pieces, with epsilon = eta; fixed pieces stay.

    The words of its `madlib` are the pieces that may be replaced; the noise is drawn from `rng`.
    """

    def __init__(self, vocabulary: Vocabulary, eta: float, rng: np.random.Generator) -> None:
        table = vocabulary.table
        names = pieces.vocabulary(vocabulary.tokenizer)
        rows = from_arrays("pieces", [names[i] for i in table.inputs], table.vectors[table.inputs])
        self.madlib, self.inputs, self.rng = Madlib(rows, epsilon=eta), table.inputs, rng
        self._row = np.full(table.size, -1)
        self._row[self.inputs] = np.arange(len(self.inputs))

    def in_rows(self, corpus: Corpus) -> Corpus:
        """A text of pieces in the numbers of MADLIB's words; -1 where a piece is fixed."""
        return corpus.with_ids(self._row[corpus.ids])

    def sanitize_rows(self, corpus: Corpus) -> Corpus:
        """A text in MADLIB's numbers after the noise."""
        ids = corpus.ids.copy()
        ids[ids >= 0] = self.madlib.sanitize_ids(ids[ids >= 0], self.rng)
        return corpus.with_ids(ids)

    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        """A text of pieces after the noise."""
        rows = self.sanitize_rows(self.in_rows(corpus)).ids
        return corpus.with_ids(np.where(rows >= 0, self.inputs[rows], corpus.ids))


# --- Attacks of its own -------------------------------------------------------------------------


class OutputItself(TokenAttack):
    """The output is the guess, and the only one: right for what a lossy map leaves as it is."""

    name = "naive"

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        return Guesses(outputs[:, None], np.zeros((len(outputs), 1)))


class InRows(Attack):
    """An attack in the numbers of `noise.madlib`, asked about pieces and answering in pieces."""

    def __init__(self, noise: TokenNoise, attack: Attack) -> None:
        self.noise, self.attack, self.name = noise, attack, attack.name

    def guess(
        self, observed: Observed, targets: IntArray | None = None, *, top: int = 5
    ) -> Guesses:
        rows = Observed(self.noise.in_rows(observed.corpus), observed.sanitized)
        guesses = self.attack.guess(rows, targets, top=top)
        words = np.where(guesses.words == NONE, NONE, self.noise.inputs[guesses.words])
        return Guesses(words, guesses.scores)


def noise_decoder(noise: TokenNoise, vocabulary: Vocabulary) -> NoisyChannel:
    """A noisy channel in MADLIB's numbers: P(output | input) estimated, triples of public pieces.

    The weight of the language model is the one that does best on public text that it has not read,
    after noise drawn from `noise.rng`.
    """
    eta = noise.madlib.epsilon
    estimate = NoiseChannel.estimate(
        noise.madlib, [eta], noise.rng, directions=8, sampled_words=64
    )[eta]
    _, shadow, unread = (noise.in_rows(each) for each in vocabulary.parts)
    triples = NGrams.train(Lexicon(noise.madlib.size, [unread]), [unread], order=3)
    tried = Observed(noise.sanitize_rows(shadow), shadow.ids >= 0)
    weight = tuned_weight(estimate, triples, tried, shadow, weights=(0.25, 0.5, 1.0))
    return NoisyChannel(estimate, model=triples, weight=weight)


def hits(
    name: str, guesses: Guesses, observed: Observed, truth: IntArray
) -> dict[int, BoolArray | FloatArray]:
    """Which targets an attack of this name has found: (targets,), by how many guesses count.

    "anywhere" counts the guesses of "naive" for any position of the document,
    "naive_skip_elsewhere" how often those of "naive_skip" would be right at another place: who is
    no better has learned from the place nothing but how frequent tokens are.
    """
    if name == "anywhere":
        return {5: hits_anywhere(guesses, observed.corpus, observed.targets, truth)}
    if name == "naive_skip_elsewhere":
        counts = np.bincount(truth, minlength=int(guesses.words.max()) + 1)
        frequency = np.append(counts, 0) / len(truth)  # the last stands for NONE
        return {5: frequency[guesses.words].sum(1)}
    return {top: guesses.hits(truth, top=top) for top in sorted({1, guesses.words.shape[1]})}
