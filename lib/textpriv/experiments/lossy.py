"""Notebook 03: what lossy maps and stencils do to a text, and what an attacker gets back.

Text is a corpus of the encoder's WordPieces. A `Setting` is one way to manipulate it, under the
label that results use; `manipulate` applies it. Utility is measured in `lossy_utility`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from textpriv.models import Encoder
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
    corpora: Mapping[str, int]  # documents, by corpus
    longest: Mapping[str, int]  # pieces that are kept of a document
    public: int = Field(ge=10)  # reviews that anyone can read: frequencies, language models
    windows: tuple[int, ...]
    sigmas: tuple[float, ...]
    crossing: tuple[int, float]  # window and sigma at which the paper varies the other
    etas: tuple[float, ...]
    seeds: int = Field(ge=1)  # splits of the probes, draws of the random maps
    test_share: float = Field(gt=0, lt=1)
    tuned: tuple[str, ...]  # labels for which the encoder is fine-tuned
    tuned_steps: Mapping[str, int]  # 0: not on this corpus
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
    """

    name: str
    documents: Documents
    corpus: Corpus

    @property
    def labels(self) -> NDArray[Any]:
        """(documents,) 0 or 1."""
        return np.asarray(self.documents.columns["label"]).astype(np.int64)

    def first(self, count: int) -> Corpus:
        """The first documents: those under attack."""
        return self.corpus.subset(np.arange(min(count, len(self.corpus))))


@dataclass(frozen=True, eq=False)
class Tools:
    """What manipulations and attacks need besides the text.

    Parameters
    ----------
    encoder : its word table is the vocabulary
    table : nearest pieces; special and unused ones take no part
    public : reviews that share no run of eight words with a private document, as pieces
    counts : how often each piece occurs in them
    """

    encoder: Encoder
    table: TokenTable
    public: Corpus
    counts: IntArray


def gather(
    encoder: Encoder, sizes: Sizes, stream_of: Callable[..., np.random.Generator]
) -> tuple[dict[str, Material], Tools]:
    """The private corpora, and the public text and tables beside them.

    IMDb's private and public reviews are different ones.
    """
    materials = {}
    reviews = corpora.load("imdb")
    order = stream_of("reviews").permutation(len(reviews))
    for name, count in sizes.corpora.items():
        if name == "imdb":
            documents = reviews.subset(order[:count])
            order = order[count:]
        else:
            documents = some(corpora.load(name), count, stream_of("documents", name))
        corpus = pieces.encode(encoder.tokenizer, documents.texts, longest=sizes.longest[name])
        materials[name] = Material(name, documents, corpus)
    public = reviews.subset(order[: sizes.public])
    private = [text for each in materials.values() for text in each.documents.texts]
    apart = public.subset(np.flatnonzero(~splits.shares_ngram(public.texts, private)))
    text = pieces.encode(encoder.tokenizer, apart.texts)
    vectors = encoder.table.detach().cpu().numpy()
    table = TokenTable(vectors, fixed=pieces.special_ids(encoder.tokenizer))
    return materials, Tools(encoder, table, text, text.counts(len(vectors)))


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


def _noised(eta: float, corpus: Corpus, tools: Tools, rng: np.random.Generator) -> Corpus:
    """MADLIB on the encoder's own table, with epsilon = eta."""
    inputs = tools.table.inputs
    names = pieces.vocabulary(tools.encoder.tokenizer)
    embedding = from_arrays("pieces", [names[i] for i in inputs], tools.table.vectors[inputs])
    row = np.full(tools.table.size, -1)
    row[inputs] = np.arange(len(inputs))
    rows = row[corpus.ids]
    result = corpus.ids.copy()
    replaced = np.flatnonzero(rows >= 0)
    result[replaced] = inputs[Madlib(embedding, epsilon=eta).sanitize_ids(rows[replaced], rng)]
    return corpus.with_ids(result)
