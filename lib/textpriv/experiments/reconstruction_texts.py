"""Notebook 05: what is attacked, and what the attackers have read.

Private sentences are sanitized; shadow sentences and public text are what attackers know. What
language models read shares no run of eight words with a private sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from textpriv.attacks.base import BoolArray, IntArray, observe
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import tuned_weight
from textpriv.data import corpora, splits
from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding
from textpriv.data.names import person_names
from textpriv.data.tokens import KEEP_UNKNOWN, Corpus, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms import FiniteMechanism

if TYPE_CHECKING:
    from textpriv.experiments import equal_utility

ELSEWHERE = "rented-clothes"  # another domain than the films of the other corpora
PUBLIC = "noisy-channel"  # shadow data and public text of the domain, order 3
SHADOW = "noisy-channel-shadow"  # shadow data alone, order 2


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 05, set by the profile."""

    vocabulary: int | None = None  # most frequent words of the embedding; None: all
    corpora: tuple[str, ...]
    private: int = Field(ge=10)  # sentences, where the corpus has as many
    shadow: int = Field(ge=4)
    shadow_pool: int = Field(ge=4)  # of corpora cut from reviews, to vary the shadow data's size
    public: int | None = None  # public documents; None: all
    custext_epsilons: tuple[float, ...]
    santext_epsilons: tuple[float, ...]
    attacked: Mapping[str, Mapping[str, int]]  # sentences under attack, by defense and corpus
    candidates: int = Field(ge=1)  # of the noisy channel
    kept: int = Field(ge=1)
    focus: Mapping[str, tuple[float, ...]]  # epsilons of what is measured at few of them
    output_types: int = Field(ge=1)  # of the paper's scheme of sampling tokens
    output_tokens: int = Field(ge=1)
    constants: tuple[float, ...]  # times 1/alpha
    shadow_percents: tuple[float, ...]  # of the private sentences
    detector_percents: tuple[float, ...] = ()  # the same for the contextual attack,
    detector_sentences: int = Field(48, ge=2)  # on so many sentences
    model_sentences: int = Field(ge=2)  # attacked with trained models
    model_corpora: int = Field(1, ge=1)  # the first so many corpora are
    model_focus: Mapping[str, tuple[float, ...]]
    masked_steps: int = Field(ge=1)
    masked_texts: int = Field(ge=100)
    detector_steps: int = Field(ge=0)  # 0: as the paper trains, three epochs of all copies
    detector_further_steps: int = Field(ge=1)
    detector_seeds: int = Field(1, ge=1)  # trainings of each detector on the first corpus, averaged
    pooling: Literal["target", "first"]
    detector_marks: int = Field(ge=1)
    inversion_steps: int = Field(ge=1)
    inversion_seeds: int = Field(ge=1)  # trainings of each inversion network on it, averaged
    elsewhere_seeds: int = Field(1, ge=1)  # trainings of each network on the other corpora
    window: int = Field(ge=0)  # words about a token that the detector reads; 0: all
    contextual_k: tuple[int, ...]
    encoder: str
    pretrained: bool  # whether a pretrained causal model is tried as a prior
    model_beam: int = Field(8, ge=1)  # prefixes of a sentence that it keeps
    model_rehearsal: int = Field(8, ge=1)  # shadow sentences that choose its weight

    corpus: str = ""  # one of your own, in place of all others

    @model_validator(mode="after")
    def _looks_closer_at_what_it_has(self) -> Self:
        """Only the epsilons of the two defenses can be looked at again."""
        swept = {"custext": self.custext_epsilons, "santext": self.santext_epsilons}
        asked = {"focus": self.focus, "model_focus": self.model_focus}
        for (defense, epsilons), (key, chosen) in product(swept.items(), asked.items()):
            if unknown := sorted({*chosen.get(defense, ())} - {*epsilons}):
                message = f"{key}.{defense}: got {unknown}, expected some of {epsilons}"
                raise ValueError(f"{message}; extend {defense}_epsilons or choose from them")
        return self

    @classmethod
    def for_corpus(cls, values: Mapping[str, Any], corpus: str) -> dict[str, Any]:
        """A profile's values for one corpus alone; see `profiles.load`."""
        return {**values, "corpora": [corpus]}

    def under_attack(self, defense: str, corpus: str) -> int:
        """Sentences under attack; of a corpus that the profile does not name, the fewest."""
        counts = self.attacked[defense]
        return counts.get(corpus, min(counts.values()))


@dataclass(frozen=True, eq=False)
class Material:
    """One corpus, split into private, shadow and public text.

    Private and shadow documents are disjoint and of one kind, as in Tong et al.
    """

    name: str
    private: Corpus
    shadow: Corpus
    read: Corpus  # the shadow documents that share no run of 8 words with a private one
    pool: Corpus  # the same, and more of their kind where there are more
    public: Corpus  # other text of the domain that shares none either
    texts: tuple[str, ...]  # the private documents
    public_texts: tuple[str, ...]
    # Review or sentence that each document of `private`, `pool` was cut from: what counts as
    # independent in intervals and rehearsals.
    cluster: IntArray
    pool_cluster: IntArray
    labels: NDArray[Any] | None  # sentiment of the private documents, where the corpus has it
    coverage: float  # share of the private words (no punctuation, no numbers) in the vocabulary
    dropped: tuple[int, int]  # documents that the two filters took from shadow and public text

    def first(self, count: int) -> Corpus:
        """The first private documents: those under attack."""
        return self.private.subset(np.arange(min(count, len(self.private))))

    def rest(self, count: int, most: int) -> Corpus:
        """The private documents after the first `count`, at most so many."""
        return self.private.subset(np.arange(count, len(self.private))[:most])

    def shadow_of(self, percent: float) -> Corpus:
        """Shadow documents of the pool, as many as so many percent of the private ones."""
        documents = max(2, round(percent / 100 * len(self.private)))
        if documents > len(self.pool):
            raise InvalidInput(
                f"shadow_percents: {percent:g}% of {len(self.private)} private documents are more "
                f"than the {len(self.pool)} shadow documents at hand; raise shadow_pool"
            )
        return self.pool.subset(np.arange(documents))

    def without_public(self) -> Material:
        """The same but for the public text, which need not go where models have read it."""
        return replace(self, public=self.read, public_texts=())


def gather(
    name: str, embedding: Embedding, sizes: Sizes | equal_utility.Sizes, rng: np.random.Generator
) -> Material:
    """Load a corpus, or a file of one's own (see `textpriv.data.corpora.load`), and divide it.

    Rotten Tomatoes, SST-2 and files take the IMDb reviews as public text, and never each other: the
    first two are made of the same sentences. Reviews are cut into sentences of 5 to 60 words;
    private, shadow and public ones come from different reviews. Of a small file at most a quarter
    is shadow data.
    """
    entry, documents = corpora.entry(name), corpora.load(name)
    if entry.kind == "reviews":
        private, shadow, public = _from_reviews(documents, sizes, rng)
    else:
        groups = splits.parent_sentences(documents.texts) if entry.apart else None
        read = min(sizes.shadow, len(documents) // 4)
        count = min(sizes.private, len(documents) - read)
        private, shadow = splits.private_and_shadow(documents, count, read, rng, groups)
        public = corpora.at_most(corpora.load(entry.public), sizes.public, rng)
    unseen = ~splits.shares_ngram(shadow.texts, private.texts)
    apart = ~splits.shares_ngram(public.texts, private.texts)
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    encoded = tokenizer.encode(private.texts)
    pool = tokenizer.encode(shadow.texts)
    rows = np.flatnonzero(unseen)
    unknown = sum(text[0].isalpha() for text in encoded.kept.values())
    known = int((encoded.ids >= 0).sum())
    public_texts = tuple(public.texts[row] for row in np.flatnonzero(apart))
    return Material(
        documents.name,
        private=encoded,
        shadow=pool.subset(np.arange(min(sizes.shadow, len(pool)))),
        read=pool.subset(rows[rows < sizes.shadow]),
        pool=pool.subset(rows),
        public=tokenizer.encode(public_texts),
        texts=private.texts,
        public_texts=public_texts,
        cluster=_clusters(private, entry.kind),
        pool_cluster=_clusters(shadow, entry.kind)[rows],
        labels=private.columns.get("label"),
        coverage=known / (known + unknown),
        dropped=(int((~unseen[: sizes.shadow]).sum()), int((~apart).sum())),
    )


def _clusters(documents: Documents, kind: str) -> IntArray:
    if kind == "reviews":
        return documents.columns["document"].astype(np.int64)
    if kind == "phrases":
        return splits.parent_sentences(documents.texts)
    return np.arange(len(documents))


def gather_all(
    embedding: Embedding, sizes: Sizes, stream_of: Callable[..., np.random.Generator]
) -> dict[str, Material]:
    """The profile's corpora, and the one of another domain, by what results call them."""
    names = {corpora.called(name): name for name in (*sizes.corpora, ELSEWHERE)}
    return {
        called: gather(name, embedding, sizes, stream_of("material", called))
        for called, name in names.items()
    }


def _from_reviews(
    reviews: Documents, sizes: Sizes | equal_utility.Sizes, rng: np.random.Generator
) -> tuple[Documents, Documents, Documents]:
    """Private and shadow sentences and public reviews, from different reviews."""
    reviews = corpora.at_most(reviews, 25_000, rng)
    order = rng.permutation(len(reviews))
    # A review has about ten sentences of 5 to 60 words; clothes reviews have about four.
    first, second = round(len(reviews) * 0.3), round(len(reviews) * 0.36)
    ours, theirs, read = (reviews.subset(rows) for rows in np.split(order, [first, second]))
    private, shadow = (
        corpora.at_most(splits.sentences(part, 5, 60), count, rng)
        for part, count in ((ours, sizes.private), (theirs, sizes.shadow_pool))
    )
    return private, shadow, corpora.at_most(read, sizes.public, rng)


def describe(materials: Iterable[Material]) -> pd.DataFrame:
    """Sizes of the corpora, the coverage, and what the filters took away."""
    return pd.DataFrame(
        {
            "corpus": each.name,
            "private documents": len(each.private),
            "private tokens": len(each.private.ids),
            "words in the vocabulary": each.coverage,
            "shadow documents": len(each.shadow),
            "of these shared": each.dropped[0],
            "public documents": len(each.public),
            "left out as shared": each.dropped[1],
            "public tokens": len(each.public.ids),
        }
        for each in materials
    ).set_index("corpus")


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Language models of an attacker, and what they have read."""

    read: Corpus  # the shadow documents
    rehearsed: BoolArray  # those that `half` has not read, nor any of their review or sentence
    counts: IntArray  # of the words in all that was read
    shadow: NGrams  # of shadow data
    public: NGrams  # of shadow data and public text
    half: NGrams  # of about half of the shadow data
    public_alone: NGrams  # of no shadow data


def learn(material: Material, size: int, *, documents: int | None = None) -> Knowledge:
    """Train the language models of one corpus, on the first shadow documents of its pool."""
    count = len(material.read) if documents is None else documents
    shadow = material.pool.subset(np.arange(count))
    # Every other review or sentence: its parts on both sides would flatter the rehearsal.
    rehearsed = pd.factorize(material.pool_cluster[:count])[0] % 2 == 1
    half = shadow.subset(np.flatnonzero(~rehearsed))
    public = Lexicon(size, [shadow, material.public])
    return Knowledge(
        read=shadow,
        rehearsed=rehearsed,
        counts=shadow.counts(size) + material.public.counts(size),
        shadow=NGrams.train(Lexicon(size, [shadow]), [shadow], order=2),
        public=NGrams.train(public, [shadow, material.public], order=3),
        half=NGrams.train(Lexicon(size, [half]), [half], order=2),
        public_alone=NGrams.train(public, [material.public], order=2),
    )


def weights_of(
    mechanism: FiniteMechanism, knowledge: Knowledge, rng: np.random.Generator
) -> dict[str, float]:
    """Weights of the language models, tuned by rehearsing on 150 documents of the shadow data."""
    count = len(knowledge.read)
    rows = np.unique(np.linspace(0, count - 1, min(150, count)).astype(int))
    shadow = knowledge.read.subset(rows)
    rehearsal = observe(mechanism, shadow, rng)
    apart = rehearsal.targets[knowledge.rehearsed[rows][shadow.document[rehearsal.targets]]]
    return {
        PUBLIC: tuned_weight(mechanism, knowledge.public_alone, rehearsal, shadow),
        SHADOW: tuned_weight(mechanism, knowledge.half, rehearsal, shadow, apart),
    }


def names_in(reviews: Documents, embedding: Embedding) -> IntArray:
    """Ids of the person names that cased reviews use, as far as the vocabulary has them."""
    ids = embedding.ids(sorted(person_names(reviews.texts)))
    return np.unique(ids[ids >= 0])


def assets_of(sizes: Sizes) -> list[str]:
    """Data and models that the notebook's results rest on."""
    read = {corpora.asset_of(name) for name in (*sizes.corpora, ELSEWHERE, "imdb")} - {""}
    pretrained = {"smollm2-135m-instruct"} if sizes.pretrained else set()
    return sorted({"glove-840b-300d-34k", sizes.encoder, *read, *pretrained})
