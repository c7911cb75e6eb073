"""Notebook 03: what lossy maps and stencils do to a text, and what an attacker gets back.

Text is a corpus of the encoder's pieces. A `Setting` is one way to manipulate it, under the
label that results use; `manipulate` applies it. Utility is measured in `lossy_utility`.

A profile may let another encoder read some corpora, as the paper has T5 read pairs of sentences:
`Tools.of` has the word table and the public text in the pieces of that encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from textpriv import corpora, pieces, splits
from textpriv.corpora import Documents
from textpriv.embeddings import from_arrays
from textpriv.experiments.mechanisms import some
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.models import Encoder, load_encoder
from textpriv.tokens import Corpus

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

PLAIN = "plain"
MAPS = ("2-random", "3-random", "high-freq", "low-freq")
STENCILS = ("stencil", "punctuated-stencil")


class Sizes(BaseModel):
    """Sizes of notebook 03, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: str
    encoders: Mapping[str, str] = Field(default_factory=dict)  # of corpora that another one reads
    corpora: Mapping[str, int]  # documents, by corpus
    longest: Mapping[str, int]  # pieces that are kept of a text: of a pair, of each one
    public: int = Field(ge=10)  # reviews that anyone can read: frequencies, language models
    windows: tuple[int, ...]
    sigmas: tuple[float, ...]
    crossing: tuple[int, float]  # window and sigma at which the paper varies the other
    etas: tuple[float, ...]
    seeds: int = Field(ge=1)  # splits of the probes, draws of the random maps
    test_share: float = Field(gt=0, lt=1)
    tuned: tuple[str, ...]  # labels for which the encoder is fine-tuned
    tuned_steps: Mapping[str, int]  # 0: not on this corpus
    tuned_rates: Mapping[str, float] = Field(default_factory=dict)  # learning rates, 1e-4 if absent
    attacked: Mapping[str, int]  # documents under attack
    rehearsed: int = Field(ge=1)  # public reviews that an attacker rehearses with
    guesses: int = Field(ge=5)  # candidates that a language model chooses from
    oracle: Mapping[str, int]  # documents that the oracle attacks
    oracle_longest: Mapping[str, int]  # tokens of the causal model that are kept of them
    oracle_most: int = Field(ge=1)  # prefixes that stay alive
    readable: int = Field(default=60, ge=2)  # documents whose grammar is looked at


# --- Settings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """One way to manipulate a text.

    Parameters
    ----------
    kind : "plain", one of MAPS, "noise" or one of STENCILS
    window, sigma : of a stencil
    eta : of the noise
    """

    kind: str
    window: int = 0
    sigma: float = 0.0
    eta: float = 0.0

    @property
    def label(self) -> str:
        """What results call it."""
        if self.kind in STENCILS:
            return f"{self.kind}-w{self.window}-s{self.sigma:.1f}"
        return f"noise-{self.eta:g}" if self.kind == "noise" else self.kind

    @property
    def is_random(self) -> bool:
        """Whether another seed gives another text."""
        return self.kind in ("2-random", "3-random", "noise")


def crossing(sizes: Sizes) -> list[Setting]:
    """Every setting of the paper's tables: of the stencils the crossing window and sigma."""
    window, sigma = sizes.crossing
    cross = [(window, each) for each in sizes.sigmas]
    cross += [(each, sigma) for each in sizes.windows if each != window]
    return [
        Setting(PLAIN),
        *(Setting(kind) for kind in MAPS),
        *(Setting("noise", eta=eta) for eta in sizes.etas),
        *(Setting(kind, *each) for kind in STENCILS for each in cross),
    ]


def grid(sizes: Sizes) -> list[Setting]:
    """Both stencils at every window and sigma."""
    return [
        Setting(kind, window, sigma)
        for kind in STENCILS
        for window in sizes.windows
        for sigma in sizes.sigmas
    ]


# --- What is manipulated ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Material:
    """One corpus of documents with labels, as pieces of the encoder.

    Parameters
    ----------
    documents : as text, with the column "label"
    corpus : their pieces, at most `longest` of each
    second : likewise of the second texts, where documents are pairs
    """

    name: str
    documents: Documents
    corpus: Corpus
    second: Corpus | None = None

    @property
    def labels(self) -> NDArray[Any]:
        """(documents,) 0 or 1."""
        return np.asarray(self.documents.columns["label"]).astype(np.int64)

    @property
    def cluster(self) -> IntArray:
        """(documents,) which of them depend on each other: phrases of one sentence (SST-2)."""
        if self.name == "sst2":
            return splits.parent_sentences(self.documents.texts)
        return np.arange(len(self.corpus))

    @property
    def texts(self) -> Corpus:
        """All texts, the second ones behind the first ones, so that no window reaches across."""
        return self.corpus if self.second is None else _joined(self.corpus, self.second)

    def first(self, count: int) -> Corpus:
        """The texts of the first documents: those under attack, of pairs both."""
        chosen = np.arange(min(count, len(self.corpus)))
        if self.second is None:
            return self.corpus.subset(chosen)
        return _joined(self.corpus.subset(chosen), self.second.subset(chosen))


def _joined(one: Corpus, other: Corpus) -> Corpus:
    offsets = np.concatenate([one.offsets, len(one.ids) + other.offsets[1:]])
    return Corpus(ids=np.concatenate([one.ids, other.ids]), offsets=offsets)


@dataclass(frozen=True, eq=False)
class Tools:
    """What manipulations and attacks need besides the text.

    Parameters
    ----------
    encoder : its word table is the vocabulary
    table : nearest pieces; special and unused ones take no part
    public : reviews that share no run of eight words with a private document, as pieces
    counts : how often each piece occurs in them
    others : tools of the corpora that another encoder reads
    """

    encoder: Encoder
    table: TokenTable
    public: Corpus
    counts: IntArray
    others: Mapping[str, Tools] = field(default_factory=dict)

    def of(self, corpus: str) -> Tools:
        """The tools of the encoder that reads a corpus, without the others'."""
        return self.others[corpus] if corpus in self.others else replace(self, others={})


def gather(
    encoder: Encoder, sizes: Sizes, stream_of: Callable[..., np.random.Generator]
) -> tuple[dict[str, Material], Tools]:
    """The private corpora, and the public text and tables beside them.

    IMDb's private and public reviews are different ones. A corpus with a column "second" is one of
    pairs.
    """
    documents = {}
    reviews = corpora.load("imdb")
    order = stream_of("reviews").permutation(len(reviews))
    for name, count in sizes.corpora.items():
        if name == "imdb":
            documents[name] = reviews.subset(order[:count])
            order = order[count:]
        else:
            documents[name] = some(corpora.load(name), count, stream_of("documents", name))
    public = reviews.subset(order[: sizes.public])
    private = [text for each in documents.values() for text in (*each.texts, *_second(each))]
    apart = public.subset(np.flatnonzero(~splits.shares_ngram(public.texts, private))).texts
    device = str(encoder.device)
    others = {
        name: _tools(load_encoder(each, device), apart)
        for name, each in sizes.encoders.items()
        if name in documents
    }
    tools = replace(_tools(encoder, apart), others=others)
    materials = {
        name: _material(each, tools.of(name).encoder, sizes.longest[name])
        for name, each in documents.items()
    }
    return materials, tools


def _second(documents: Documents) -> tuple[str, ...]:
    """Second texts of pairs; none where documents are single texts."""
    return tuple(documents.columns.get("second", ()))


def _material(documents: Documents, encoder: Encoder, longest: int) -> Material:
    first, second = (
        pieces.encode(encoder.tokenizer, texts, longest=longest)
        for texts in (documents.texts, _second(documents))
    )
    return Material(documents.name, documents, first, second if len(second) else None)


def _tools(encoder: Encoder, public: Sequence[str]) -> Tools:
    """Table and public text of one encoder; rows of its table without a piece are left out."""
    text = pieces.encode(encoder.tokenizer, public)
    named = len(pieces.vocabulary(encoder.tokenizer))
    vectors = encoder.table.detach().cpu().numpy()[:named]
    table = TokenTable(vectors, fixed=pieces.special_ids(encoder.tokenizer))
    return Tools(encoder, table, text, text.counts(len(vectors)))


def mapper(
    setting: Setting, counts: IntArray, fixed: IntArray, rng: np.random.Generator
) -> LossyMap:
    """The lossy map of a setting, over a vocabulary with these counts."""
    if setting.kind in ("2-random", "3-random"):
        return LossyMap.random(len(counts), int(setting.kind[0]), rng, fixed=fixed)
    if setting.kind == "high-freq":
        return LossyMap.by_frequency(counts, keep="frequent", fixed=fixed)
    return LossyMap.by_frequency(counts, keep="rare", fixed=fixed)


def stencil(setting: Setting, tools: Tools) -> Stencil:
    """The stencil of a setting."""
    return Stencil(
        tools.table,
        window=setting.window,
        sigma=setting.sigma,
        punctuated=setting.kind == "punctuated-stencil",
    )


def manipulate(setting: Setting, corpus: Corpus, tools: Tools, rng: np.random.Generator) -> Corpus:
    """The corpus after the manipulation; special pieces stay."""
    if setting.kind == PLAIN:
        return corpus
    if setting.kind in STENCILS:
        return stencil(setting, tools).sanitize_corpus(corpus)
    if setting.kind in MAPS:
        made = mapper(setting, tools.counts, tools.table.fixed, rng)
        return made.sanitize_corpus(corpus)
    return _noised(setting.eta, corpus, tools, rng)


def noise(eta: float, tools: Tools) -> tuple[Madlib, IntArray]:
    """MADLIB on the encoder's own table, with epsilon = eta; the row of each piece in its own.

    Fixed pieces have row -1: the noise leaves them as they are.
    """
    inputs = tools.table.inputs
    names = pieces.vocabulary(tools.encoder.tokenizer)
    embedding = from_arrays("pieces", [names[i] for i in inputs], tools.table.vectors[inputs])
    row = np.full(tools.table.size, -1)
    row[inputs] = np.arange(len(inputs))
    return Madlib(embedding, epsilon=eta), row


def _noised(eta: float, corpus: Corpus, tools: Tools, rng: np.random.Generator) -> Corpus:
    """Every piece but the fixed ones after the noise."""
    madlib, row = noise(eta, tools)
    rows = row[corpus.ids]
    result = corpus.ids.copy()
    replaced = np.flatnonzero(rows >= 0)
    result[replaced] = tools.table.inputs[madlib.sanitize_ids(rows[replaced], rng)]
    return corpus.with_ids(result)
