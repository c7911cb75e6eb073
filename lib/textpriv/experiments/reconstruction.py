"""Notebook 05: how many words an attacker gets back.

Private sentences are sanitized, shadow sentences and public text are what the attacker has
read. Every attack answers for the same tokens of the same sanitized text, so that attacks are
compared in pairs. This module has the attacks without a neural network; what trains one is in
`reconstruction_models`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.pipeline import Pipeline
from statsmodels.stats.multitest import multipletests

from textpriv import corpora, parallel, splits, stats
from textpriv.attacks.base import (
    BoolArray,
    Guesses,
    IntArray,
    Observed,
    is_input,
    is_sensitive,
    observe,
)
from textpriv.attacks.bayes import (
    Bayes,
    ContextFreeBayes,
    ContextFreeBound,
    EmbeddingInversion,
    bayes_success,
    prior_of,
)
from textpriv.attacks.inversion import InversionPerToken
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.channel import Channel
from textpriv.corpora import Documents
from textpriv.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.experiments.mechanisms import classifier, some
from textpriv.mechanisms import (
    TEM,
    CusText,
    FiniteMechanism,
    Madlib,
    Mechanism,
)
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.names import person_names
from textpriv.report.difference import Difference
from textpriv.seeds import stream
from textpriv.stats import Estimate
from textpriv.tokens import KEEP_UNKNOWN, Corpus, Tokenizer

if TYPE_CHECKING:
    from textpriv.report.run import Run

FloatArray = NDArray[np.float64]

CORPORA = ("rotten-tomatoes", "imdb", "sst2", "sst2-by-sentence", "rented-clothes")
DEFENSES = ("custext", "santext")
PUBLIC = "noisy-channel"  # shadow data and public text of the domain, order 3
SHADOW = "noisy-channel-shadow"  # shadow data alone, order 2
COMPARED = (
    "embedding-inversion",
    "context-free-bayes",
    "context-free-bound",
    SHADOW,
    PUBLIC,
)
PAIRS = tuple(
    (first, second)
    for first in (PUBLIC, SHADOW)
    for second in ("context-free-bayes", "context-free-bound")
)
ELSEWHERE = "rented-clothes"  # another domain than the films of the other corpora
SETTING = ("defense", "corpus", "epsilon", "attack")


class Sizes(BaseModel):
    """Sizes of notebook 05, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    risk_epsilons: Mapping[str, tuple[float, ...]]
    risk_sentences: int = Field(ge=10)
    model_sentences: int = Field(ge=2)  # attacked with trained models
    model_focus: Mapping[str, tuple[float, ...]]
    masked_steps: int = Field(ge=1)
    masked_texts: int = Field(ge=100)
    detector_steps: int = Field(ge=0)  # 0: as the paper trains, three epochs of all copies
    detector_further_steps: int = Field(ge=1)
    pooling: Literal["target", "first"]
    detector_marks: int = Field(ge=1)
    inversion_steps: int = Field(ge=1)
    inversion_seeds: int = Field(ge=1)  # trainings of each inversion network of CusText+, averaged
    window: int = Field(ge=0)  # words about a token that the detector reads; 0: all
    contextual_k: tuple[int, ...]
    encoder: str
    pretrained: bool  # whether a pretrained causal model is tried as a prior


# --- What is attacked, and what the attacker has read ---------------------------------------


@dataclass(frozen=True, eq=False)
class Material:
    """One corpus, split into private, shadow and public text.

    Parameters
    ----------
    private, shadow : as in Tong et al.: disjoint documents of one kind
    read : the shadow documents that share no run of 8 words with a private one
    pool : the same, and more of their kind where there are more
    public : other text of the domain that shares none either
    texts, public_texts : private and public documents as strings
    cluster, pool_cluster : number of the review, or of the sentence, that a private document, or
        one of the pool, was cut from: what counts as independent in intervals and rehearsals
    labels : sentiment of the private documents, where the corpus has it
    coverage : share of the private words (no punctuation, no numbers) that the vocabulary has
    dropped : documents that the two filters took from shadow and public text
    """

    name: str
    private: Corpus
    shadow: Corpus
    read: Corpus
    pool: Corpus
    public: Corpus
    texts: tuple[str, ...]
    public_texts: tuple[str, ...]
    cluster: IntArray
    pool_cluster: IntArray
    labels: NDArray[Any] | None
    coverage: float
    dropped: tuple[int, int]

    def first(self, count: int) -> Corpus:
        """The first private documents: those under attack."""
        return self.private.subset(np.arange(min(count, len(self.private))))

    def shadow_tokens(self, mechanism: FiniteMechanism) -> int:
        """alpha: tokens of the shadow data that a mechanism would replace."""
        return int(is_sensitive(mechanism, self.shadow).sum())

    def without_public(self) -> Material:
        """The same but for the public text, which need not go where models have read it."""
        return replace(self, public=self.read, public_texts=())


def gather(name: str, embedding: Embedding, sizes: Sizes, rng: np.random.Generator) -> Material:
    """Load a corpus and divide it.

    Rotten Tomatoes and SST-2 take the IMDb reviews as public text, and never each other: they
    are made of the same sentences. "sst2-by-sentence" keeps the phrases of one sentence on one
    side. IMDb and the clothes reviews are cut into sentences of 5 to 60 words; private, shadow
    and public ones come from different reviews.
    """
    if name in ("imdb", "rented-clothes"):
        private, shadow, public = _from_reviews(corpora.load(name), sizes, rng)
    elif name in CORPORA:
        documents = corpora.load(name.removesuffix("-by-sentence"))
        groups = splits.parent_sentences(documents.texts) if "by-sentence" in name else None
        count = min(sizes.private, len(documents) - sizes.shadow)
        private, shadow = splits.private_and_shadow(documents, count, sizes.shadow, rng, groups)
        public = some(corpora.load("imdb"), sizes.public, rng)
    else:
        raise InvalidInput(f"corpus: got {name!r}, expected one of {CORPORA}")
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
        name,
        private=encoded,
        shadow=pool.subset(np.arange(min(sizes.shadow, len(pool)))),
        read=pool.subset(rows[rows < sizes.shadow]),
        pool=pool.subset(rows),
        public=tokenizer.encode(public_texts),
        texts=private.texts,
        public_texts=public_texts,
        cluster=_clusters(private),
        pool_cluster=_clusters(shadow)[rows],
        labels=private.columns.get("label"),
        coverage=known / (known + unknown),
        dropped=(int((~unseen[: sizes.shadow]).sum()), int((~apart).sum())),
    )


def _clusters(documents: Documents) -> IntArray:
    if "document" in documents.columns:
        return documents.columns["document"].astype(np.int64)
    if documents.name.startswith("sst2"):
        return splits.parent_sentences(documents.texts)
    return np.arange(len(documents))


def gather_all(
    embedding: Embedding, sizes: Sizes, stream_of: Callable[..., np.random.Generator]
) -> dict[str, Material]:
    """The profile's corpora, and the one of another domain."""
    names = (*sizes.corpora, ELSEWHERE)
    return {name: gather(name, embedding, sizes, stream_of("material", name)) for name in names}


def _from_reviews(
    reviews: Documents, sizes: Sizes, rng: np.random.Generator
) -> tuple[Documents, Documents, Documents]:
    """Private and shadow sentences and public reviews, from different reviews."""
    reviews = some(reviews, 25_000, rng)
    order = rng.permutation(len(reviews))
    # A review has about ten sentences of 5 to 60 words; clothes reviews have about four.
    first, second = round(len(reviews) * 0.3), round(len(reviews) * 0.36)
    parts = []
    for rows, count in ((order[:first], sizes.private), (order[first:second], sizes.shadow_pool)):
        found = splits.sentences(reviews.subset(rows), 5, 60)
        parts.append(found.sample(min(count, len(found)), rng))
    return parts[0], parts[1], some(reviews.subset(order[second:]), sizes.public, rng)


def describe(materials: Iterable[Material]) -> pd.DataFrame:
    """Sizes of the corpora, the coverage, and what the filters took away."""
    rows = [
        {
            "corpus": m.name,
            "private documents": len(m.private),
            "private tokens": len(m.private.ids),
            "words in the vocabulary": m.coverage,
            "shadow documents": len(m.shadow),
            "of these shared": m.dropped[0],
            "public documents": len(m.public),
            "left out as shared": m.dropped[1],
            "public tokens": len(m.public.ids),
        }
        for m in materials
    ]
    return pd.DataFrame(rows).set_index("corpus")


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Language models of an attacker: of shadow data, of shadow data and public text.

    Parameters
    ----------
    read : the shadow documents
    rehearsed : those of them that `half` has not read, nor any of their review or sentence;
        `public_alone` has read none
    counts : of the words in all that was read
    """

    read: Corpus
    rehearsed: BoolArray
    counts: IntArray
    shadow: NGrams
    public: NGrams
    half: NGrams
    public_alone: NGrams


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


# --- The attacks ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the attacks made of one sanitized text.

    Parameters
    ----------
    truth, guessed_from, document : (targets,) original word, observed word, cluster
    hits, top5, substring : by attack, (targets,) whether the best guess, one of the first five,
        or the best guess as a string that holds the word was right; of an attack that was
        trained several times, the share of its trainings
    confidence : by attack, the probability it gives its best guess; attacks with a posterior
    seconds : by attack
    weights : of the language model, by attack, as tuned on shadow data
    """

    corpus: str
    defense: str
    epsilon: float
    truth: IntArray
    guessed_from: IntArray
    document: IntArray
    hits: dict[str, FloatArray] = field(default_factory=dict)
    top5: dict[str, FloatArray] = field(default_factory=dict)
    substring: dict[str, FloatArray] = field(default_factory=dict)
    confidence: dict[str, FloatArray] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def setting(self) -> dict[str, Any]:
        """Corpus, defense and epsilon, as tables name them."""
        return {"corpus": self.corpus, "defense": self.defense, "epsilon": self.epsilon}

    @contextmanager
    def timed(self, *names: str) -> Iterator[None]:
        """Add the seconds that the block takes to these attacks."""
        began = time.perf_counter()
        yield
        for name in names:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def add(self, name: str, guesses: Guesses, words: Sequence[str], *, posterior: bool) -> None:
        """Keep what one attack achieved."""
        self.add_trainings(name, [guesses], words)
        if posterior:
            self.confidence[name] = np.maximum(guesses.scores[:, 0], 0.0)

    def add_trainings(self, name: str, trainings: Sequence[Guesses], words: Sequence[str]) -> None:
        """Keep what one attack achieved on average over its trainings."""

        def mean(hits: Callable[[Guesses], BoolArray]) -> FloatArray:
            return np.mean([hits(each) for each in trainings], axis=0)

        self.hits[name] = mean(lambda each: each.hits(self.truth))
        self.top5[name] = mean(lambda each: each.hits(self.truth, top=min(5, each.words.shape[1])))
        self.substring[name] = mean(lambda each: each.substring_hits(self.truth, words))

    def gain(self, first: str, second: str) -> Estimate:
        """Success of one attack minus that of another, on the same tokens, by document."""
        apart = self.hits[first] - self.hits[second]
        return stats.clustered_mean(apart, self.document, bounds=(-1.0, 1.0), sample=self.corpus)


def sanitized(
    mechanism: FiniteMechanism, private: Corpus, material: str, seed: int | None
) -> Observed:
    """The sanitized text that every experiment of this corpus and mechanism attacks."""
    return observe(
        mechanism, private, stream(seed, "05", material, mechanism.name, mechanism.epsilon)
    )


def outcome_of(
    material: Material,
    defense: str,
    mechanism: FiniteMechanism,
    private: Corpus,
    observed: Observed,
) -> Outcome:
    """An outcome without attacks yet, of the first private documents."""
    targets = observed.targets
    return Outcome(
        material.name,
        defense,
        mechanism.epsilon,
        truth=private.ids[targets],
        guessed_from=observed.corpus.ids[targets],
        document=material.cluster[private.document[targets]],
    )


def weights_of(
    mechanism: FiniteMechanism,
    knowledge: Knowledge,
    rng: np.random.Generator,
    *,
    documents: int = 150,
) -> dict[str, float]:
    """Weights of the language models, tuned by rehearsing on some of the shadow data."""
    count = len(knowledge.read)
    rows = np.unique(np.linspace(0, count - 1, min(documents, count)).astype(int))
    shadow = knowledge.read.subset(rows)
    rehearsal = observe(mechanism, shadow, rng)
    apart = rehearsal.targets[knowledge.rehearsed[rows][shadow.document[rehearsal.targets]]]
    return {
        PUBLIC: tuned_weight(mechanism, knowledge.public_alone, rehearsal, shadow),
        SHADOW: tuned_weight(mechanism, knowledge.half, rehearsal, shadow, apart),
    }


def public_bayes(mechanism: FiniteMechanism, knowledge: Knowledge) -> Bayes:
    """Bayes' rule on one token with the word frequencies of all that was read."""
    prior = np.where(is_input(mechanism), knowledge.counts + 1.0, 0.0)
    return Bayes(mechanism, prior, name="context-free-public")


# --- What the outcomes show -----------------------------------------------------------------


def success_rates(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Success rate of every attack, with an interval that allows for tokens of one document.

    Columns: corpus, defense, epsilon, attack, value, low, high, n, influence (by document), top5,
    inflation (points that the substring test adds), seconds.
    """
    rows = []
    for found in outcomes:
        for name in found.hits:
            rate = stats.clustered_share(found.hits[name], found.document, sample=found.corpus)
            rows.append(
                {
                    **found.setting,
                    "attack": name,
                    **rate.columns(),
                    "top5": float(found.top5[name].mean()),
                    "inflation": float(found.substring[name].mean() - rate.value),
                    "seconds": found.seconds.get(name, np.nan),
                }
            )
    return pd.DataFrame(rows)


def one(outcomes: Iterable[Outcome], corpus: str, defense: str, epsilon: float) -> Outcome:
    """The outcome of one setting."""
    for found in outcomes:
        if (found.corpus, found.defense, found.epsilon) == (corpus, defense, epsilon):
            return found
    raise InvalidInput(f"no outcome for {corpus}, {defense}, epsilon {epsilon:g}")


def in_focus(outcomes: Iterable[Outcome], sizes: Sizes) -> list[Outcome]:
    """The outcomes at the epsilons that are looked at closely."""
    return [found for found in outcomes if found.epsilon in sizes.focus[found.defense]]


def compare(
    outcomes: Iterable[Outcome],
    pairs: Sequence[tuple[str, str]],
    rng: np.random.Generator,
    *,
    planned: Sequence[tuple[str, str]] = (),
    resamples: int = 9999,
) -> pd.DataFrame:
    """Paired tests between attacks on the same tokens, corrected for their number (Holm).

    Columns: corpus, defense, epsilon, first, second, difference (first minus second), low,
    high (95%, by document), n, planned, p (corrected).

    Parameters
    ----------
    planned : pairs that the claim about CusText+ is about, named before anything was measured.
        Their tests are corrected among themselves, all others among themselves.
    """
    rows = []
    for found in outcomes:
        for first, second in pairs:
            if first in found.hits and second in found.hits:
                gap = found.gain(first, second)
                rows.append(
                    {
                        **found.setting,
                        "first": first,
                        "second": second,
                        "difference": gap.value,
                        "low": gap.low,
                        "high": gap.high,
                        "n": gap.n,
                        "planned": (first, second) in planned and found.defense == "custext",
                        "p": stats.paired_test(
                            found.hits[first],
                            found.hits[second],
                            found.document,
                            rng,
                            resamples=resamples,
                        ),
                    }
                )
    table = pd.DataFrame(rows)
    families = table.groupby("planned")["p"]
    table["p"] = families.transform(lambda p: multipletests(p, method="holm")[1])
    return table


def by_frequency(
    outcomes: Iterable[Outcome], attacks: Sequence[str], edges: Sequence[int]
) -> pd.DataFrame:
    """Success by the rank of the true word in the vocabulary's order of frequency."""
    rows = []
    for found in outcomes:
        group = np.digitize(found.truth, edges)
        for number in range(len(edges) + 1):
            chosen = group == number
            if not chosen.any():
                continue
            low, high = [0, *edges][number], [*edges, None][number]
            for name in attacks:
                rate = stats.clustered_share(found.hits[name][chosen], found.document[chosen])
                rows.append(
                    {
                        **found.setting,
                        "attack": name,
                        "ranks": f"{low:,}-{high:,}" if high else f"from {low:,}",
                        "group": number,
                        **rate.columns(),
                    }
                )
    return pd.DataFrame(rows)


def on_words(
    outcomes: Iterable[Outcome], words: Iterable[int], attacks: Sequence[str]
) -> pd.DataFrame:
    """Success on the tokens whose original is one of these words (person names, say)."""
    wanted = np.fromiter(words, dtype=np.int64)
    rows = []
    for found in outcomes:
        chosen = np.isin(found.truth, wanted)
        if not chosen.any():
            continue
        for name in attacks:
            rate = stats.clustered_share(
                found.hits[name][chosen], found.document[chosen], sample=found.corpus
            )
            rows.append(
                {
                    **found.setting,
                    "attack": name,
                    **rate.columns(),
                    "words": len(np.unique(found.truth[chosen])),
                }
            )
    if not rows:
        raise InvalidInput(
            "words: none of the private tokens is one of them; attack more sentences"
        )
    return pd.DataFrame(rows)


def schemes(
    outcomes: Iterable[Outcome], attacks: Sequence[str], sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """All tokens against the scheme of the released code of Tong et al.

    That code draws output types uniformly and evaluates random occurrences of these types, so
    that rare outputs count for more than they occur.
    """
    rows = []
    for found in in_focus(outcomes, sizes):
        types = np.unique(found.guessed_from)
        count = min(sizes.output_types, len(types))
        drawn = np.isin(found.guessed_from, rng.choice(types, size=count, replace=False))
        places = np.flatnonzero(drawn)
        places = rng.choice(places, size=min(sizes.output_tokens, len(places)), replace=False)
        for name in attacks:
            every = stats.clustered_share(found.hits[name], found.document)
            some = stats.clustered_share(found.hits[name][places], found.guessed_from[places])
            rows.append(
                {
                    **found.setting,
                    "attack": name,
                    "all tokens": every.value,
                    "types": some.value,
                    "low": some.low,
                    "high": some.high,
                    "n": some.n,
                }
            )
    return pd.DataFrame(rows)


def calibration(
    outcomes: Iterable[Outcome], corpus: str, epsilons: Mapping[str, Sequence[float]], *, bins: int
) -> pd.DataFrame:
    """Share of right guesses against the probability that an attack gave them.

    Of one corpus, at the `epsilons` of each defense.
    """
    rows = []
    for found in outcomes:
        if found.corpus != corpus or found.epsilon not in epsilons[found.defense]:
            continue
        for name in ("context-free-bayes", SHADOW, PUBLIC):
            stated, right = found.confidence[name], found.hits[name]
            group = np.minimum((stated * bins).astype(int), bins - 1)
            for number in np.unique(group):
                chosen = group == number
                rate = stats.clustered_share(right[chosen], found.document[chosen])
                rows.append(
                    {
                        **found.setting,
                        "attack": name,
                        "stated": float(stated[chosen].mean()),
                        **rate.columns(),
                    }
                )
    return pd.DataFrame(rows)


def _middle(epsilons: Sequence[float]) -> Sequence[float]:
    return epsilons[len(epsilons) // 2 :][:1]


def closed_form(
    materials: Mapping[str, Material],
    mechanisms: Mapping[str, Mapping[float, FiniteMechanism]],
    sizes: Sizes,
    rates: pd.DataFrame,
) -> pd.DataFrame:
    """sum_y max_x P(y|x) P(x) with the private frequencies: what the bound is in expectation.

    CusText+ at every epsilon; SanText+, whose rows are dense, for the first corpus and in the
    middle of the grid. Beside it the success rate that was measured, with its interval.
    """
    settings = [
        (name, defense, epsilon)
        for name in materials
        for defense, by_epsilon in mechanisms.items()
        for epsilon in (by_epsilon if defense == "custext" else _middle(sizes.focus[defense]))
        if defense == "custext" or name == next(iter(materials))
    ]
    shards = [
        (mechanisms, defense, epsilon, materials[name].private)
        for name, defense, epsilon in settings
    ]
    keys = ["corpus", "defense", "epsilon"]
    bound = parallel.map(_bayes_success_at, shards, processes=-1)
    table = pd.DataFrame(settings, columns=keys).assign(value=bound)
    measured = rates[rates["attack"] == "context-free-bound"]
    columns = {"value": "measured", "low": "measured low", "high": "measured high"}
    measured = measured[[*keys, *columns, "n"]].rename(columns={**columns, "n": "tokens"})
    return table.merge(measured, on=keys)


def _bayes_success_at(
    mechanisms: Mapping[str, Mapping[float, FiniteMechanism]],
    defense: str,
    epsilon: float,
    private: Corpus,
) -> float:
    mechanism = mechanisms[defense][epsilon]
    return bayes_success(mechanism, prior_of(mechanism, private))


# --- What a setting changes -----------------------------------------------------------------


def constant_name(times: float) -> str:
    """What success with a constant, in units of 1/alpha, is recorded as."""
    return {0.0: "without", 1.0: "with"}.get(times, f"times_{times:g}")


def shadow_sizes(
    material: Material,
    mechanisms: Mapping[float, FiniteMechanism],
    sizes: Sizes,
    seed: int | None,
) -> pd.DataFrame:
    """Attacks that read shadow data, by its size in percent of the private data (Table 2)."""
    rows = []
    private = material.first(sizes.attacked["custext"][material.name])
    for percent in sizes.shadow_percents:
        documents = max(2, round(percent / 100 * len(material.private)))
        if documents > len(material.pool):
            raise InvalidInput(
                f"shadow_percents: {percent:g}% of {len(material.private)} private documents are "
                f"more than the {len(material.pool)} shadow documents at hand; raise shadow_pool"
            )
        knowledge = learn(material, next(iter(mechanisms.values())).size, documents=documents)
        for epsilon in sizes.focus["custext"]:
            mechanism = mechanisms[epsilon]
            observed = sanitized(mechanism, private, material.name, seed)
            found = outcome_of(material, "custext", mechanism, private, observed)
            rng = stream(seed, "05", "shadow size", percent, epsilon)
            weights = weights_of(mechanism, knowledge, rng)
            for made in (
                ContextFreeBayes(mechanism, knowledge.read),
                noisy(mechanism, knowledge.shadow, SHADOW, weights, sizes),
                noisy(mechanism, knowledge.public, PUBLIC, weights, sizes),
            ):
                found.add(made.name, made.guess(observed), mechanism.embedding.words,
                          posterior=True)  # fmt: skip
            rows.append(success_rates([found]).assign(percent=percent, documents=documents))
    return pd.concat(rows, ignore_index=True)


def misaligned(
    materials: Mapping[str, Material],
    mechanisms: Mapping[float, FiniteMechanism],
    knowledge: Mapping[str, Knowledge],
    sizes: Sizes,
    seed: int | None,
) -> list[Outcome]:
    """Attacks on clothes reviews by an attacker who has read such reviews, or films' only.

    Sentences that share a run of words with a film review are left out. Beside the paper's
    attacks stands the inversion that it trains on the same shadow data.
    """
    target, other = materials[ELSEWHERE], next(iter(materials.values()))
    outcomes = []
    count = sizes.attacked["santext"][target.name]
    apart = ~splits.shares_ngram(target.texts[:count], other.public_texts)
    rows = np.flatnonzero(apart)
    attacked = replace(target, private=target.private.subset(rows), cluster=target.cluster[rows])
    private = attacked.private
    for epsilon in sizes.focus["custext"]:
        mechanism = mechanisms[epsilon]
        observed = sanitized(mechanism, private, target.name, seed)
        found = outcome_of(attacked, "custext", mechanism, private, observed)
        words = mechanism.embedding.words
        inversion = EmbeddingInversion(mechanism, mechanism.embedding)
        found.add(inversion.name, inversion.guess(observed), words, posterior=False)
        bound = ContextFreeBound(mechanism, target.private)
        found.add(bound.name, bound.guess(observed), words, posterior=True)
        for read, suffix in ((target, ""), (other, ", misaligned")):
            rng = stream(seed, "05", "misaligned", read.name, epsilon)
            weights = weights_of(mechanism, knowledge[read.name], rng)
            for made in (
                ContextFreeBayes(mechanism, read.shadow),
                InversionPerToken(mechanism, read.shadow, seed=seed or 0),
                noisy(mechanism, knowledge[read.name].shadow, SHADOW, weights, sizes),
                noisy(mechanism, knowledge[read.name].public, PUBLIC, weights, sizes),
            ):
                found.add(made.name + suffix, made.guess(observed), words, posterior=True)
        outcomes.append(found)
    return outcomes


def noisy(
    mechanism: FiniteMechanism,
    model: NGrams,
    name: str,
    weights: Mapping[str, float],
    sizes: Sizes,
) -> NoisyChannel:
    """The noisy-channel attack under one of its names, with its tuned weight."""
    made = NoisyChannel(
        mechanism,
        model=model,
        weight=weights[name],
        candidates=sizes.candidates,
        kept=sizes.kept,
    )
    made.name = name
    return made


# --- Mechanisms at equal risk ---------------------------------------------------------------


def risk_mechanisms(
    embedding: Embedding,
    known: Mapping[str, Mapping[float, FiniteMechanism]],
    sizes: Sizes,
    rng: np.random.Generator,
) -> list[tuple[Mechanism, Channel]]:
    """Every word-level mechanism at each of its epsilons, with the channel that is attacked.

    The finite mechanisms are their own channels; that of MADLIB is an estimate. CusText+ and
    SanText+ come from `known`; SanText without the plus spares no word and is left out, being
    the same otherwise.
    """
    grid = sizes.risk_epsilons
    conservative = CusText(embedding, epsilon=1, mapping="conservative")
    finite: list[FiniteMechanism] = [
        *(known["custext"][each] for each in grid["custext+"]),
        *(conservative.with_epsilon(each) for each in grid["custext-conservative"]),
        *(known["santext"][each] for each in grid["santext+"]),
        *TEM(embedding, epsilon=1).sweep(grid["tem"]),
    ]
    madlib = Madlib(embedding, epsilon=1)
    estimated = NoiseChannel.estimate(madlib, grid["madlib"], rng)
    return [(each, each) for each in finite] + [
        (madlib.with_epsilon(epsilon), channel) for epsilon, channel in estimated.items()
    ]


def risk(
    material: Material,
    mechanisms: Sequence[tuple[Mechanism, Channel]],
    knowledge: Knowledge,
    sizes: Sizes,
    seed: int | None,
) -> tuple[pd.DataFrame, float]:
    """Success of attacks on content words, and accuracy of sentiment on the sanitized text.

    All mechanisms sanitize the same sentences. The classifier has learned from other sentences,
    in clear; its accuracy on the sentences in clear is returned beside the table.
    """
    if material.labels is None:
        raise InvalidInput(f"{material.name}: has no labels, expected a corpus with sentiment")
    count = min(sizes.risk_sentences, len(material.texts) // 2)
    embedding = mechanisms[0][0].embedding
    words = Tokenizer(embedding.words, KEEP_UNKNOWN).words_of(material.texts)
    model = classifier(0).fit(words[count:], material.labels[count:])
    labels = material.labels[:count]
    clean = float((model.predict(words[:count]) == labels).mean())
    private = material.first(count)
    prior = material.private.counts(len(embedding)).astype(float)
    spared = embedding.ids(sorted(ENGLISH_STOP_WORDS))
    content = (private.ids >= 0) & ~np.isin(private.ids, spared)
    shards = [
        (mechanisms, number, private, content, prior, knowledge, model, labels, sizes, seed)
        for number in range(len(mechanisms))
    ]
    return pd.concat(parallel.map(_risk_of, shards, processes=-1), ignore_index=True), clean


def _risk_of(
    mechanisms: Sequence[tuple[Mechanism, Channel]],
    number: int,
    private: Corpus,
    content: BoolArray,
    prior: FloatArray,
    knowledge: Knowledge,
    model: Pipeline,
    labels: NDArray[Any],
    sizes: Sizes,
    seed: int | None,
) -> pd.DataFrame:
    mechanism, channel = mechanisms[number]
    rng = stream(seed, "05", "risk", mechanism.name, mechanism.epsilon)
    observed = observe(mechanism, private, rng)
    tokenizer = Tokenizer(mechanism.embedding.words, KEEP_UNKNOWN)
    right = model.predict(tokenizer.decode(observed.corpus)) == labels
    accuracy = stats.share(int(right.sum()), len(right))
    targets = np.flatnonzero(content & observed.sanitized)
    truth, words = private.ids[targets], np.flatnonzero(content)
    attacks = (
        Bayes(channel, prior * is_input(channel), name="context-free-bound"),
        NoisyChannel(
            channel,
            model=knowledge.public,
            weight=0.75,  # what most rehearsals choose; the results list them
            candidates=sizes.candidates,
            kept=sizes.kept,
        ),
    )
    rows = []
    for made in attacks:
        recovered = np.ones(len(private.ids), dtype=bool)  # what passes in clear is
        recovered[targets] = made.guess(observed, targets).hits(truth)
        rate = stats.clustered_share(recovered[words], private.document[words])
        rows.append(
            {
                "mechanism": mechanism.name,
                "epsilon": mechanism.epsilon,
                "attack": made.name,
                **rate.columns(),
                "accuracy": accuracy.value,
                "accuracy_low": accuracy.low,
                "accuracy_high": accuracy.high,
                "sentences": accuracy.n,
                "kept": float((observed.corpus.ids[words] == private.ids[words]).mean()),
            }
        )
    return pd.DataFrame(rows)


# --- Person names ---------------------------------------------------------------------------


def names_in(reviews: Documents, embedding: Embedding) -> IntArray:
    """Ids of the person names that cased reviews use, as far as the vocabulary has them."""
    ids = embedding.ids(sorted(person_names(reviews.texts)))
    return np.unique(ids[ids >= 0])


def largest_of(named: pd.DataFrame) -> pd.DataFrame:
    """The rows of the corpus with the most tokens, under CusText+."""
    part = named[named["defense"] == "custext"]
    return part[part["corpus"] == part.loc[part["n"].idxmax(), "corpus"]]


# --- What the notebook records --------------------------------------------------------------


def by_epsilon(rates: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Success rates of each defense: a row per corpus and attack, a column per epsilon."""
    return {
        str(defense): part.pivot_table(
            index=["corpus", "attack"], columns="epsilon", values="value", sort=False
        )
        for defense, part in rates.groupby("defense", sort=False)
    }


def record_grid(run: Run, outcomes: Sequence[Outcome], rates: pd.DataFrame) -> None:
    """Record the success rates, the gains of context-free Bayes and the tuned weights."""
    where = "{defense}.{corpus}.eps{epsilon:g}"
    run.record_rows(rates, f"asr.{where}.{{attack!n}}")
    run.record_rows(gains(outcomes, GAINS), f"gain.{where}.{OVER}", unit="difference")
    weights = [
        {**each.setting, "attack": name, "value": weight}
        for each in outcomes
        for name, weight in each.weights.items()
    ]
    run.record_rows(pd.DataFrame(weights), f"weight.{where}.{{attack!n}}", unit="exponent")


def record_table2(run: Run, larger: pd.DataFrame) -> None:
    """Record success by shadow size at the largest epsilon that was measured."""
    kinds = {"context-free-bayes": "context_free", SHADOW: "noisy_channel_shadow"}
    chosen = larger[(larger["epsilon"] == larger["epsilon"].max()) & larger["attack"].isin(kinds)]
    chosen = chosen.assign(kind=chosen["attack"].map(kinds))
    run.record_rows(chosen, "table2.shadow{percent:g}.{kind}")


def tested(
    tests: pd.DataFrame, first: str, second: str, defense: str, epsilon: float
) -> Difference | None:
    """A row of `compare`, with its corrected p-value; None where it was not run."""
    at = (tests["defense"] == defense) & (tests["epsilon"] == epsilon)
    found = tests[at & (tests["first"] == first) & (tests["second"] == second)]
    if found.empty:
        return None
    row = found.iloc[0]
    return Difference(row["difference"], row["low"], row["high"], row["p"])


GAINS = (
    ("context-free-bayes", "embedding-inversion"),
    ("context-free-bayes", "inversion-bert-token"),
    ("context-free-bound", "inversion-bert-token"),
)  # of attacks without a network, on all sentences


OVER = "{first!n}_over_{second!n}"  # in names of measurements


def gains(outcomes: Iterable[Outcome], pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """By how much one attack is above another, on the same tokens, at every setting.

    Columns: those of the setting, first, second, and of the estimate.
    """
    rows = [
        {**each.setting, "first": first, "second": second, **each.gain(first, second).columns()}
        for each in outcomes
        for first, second in pairs
        if {first, second} <= set(each.hits)
    ]
    return pd.DataFrame(rows)


MISALIGNED = (
    ("context-free-bayes, misaligned", "embedding-inversion"),
    ("context-free-bayes, misaligned", "inversion-bert-token, misaligned"),
    ("context-free-bayes", "context-free-bayes, misaligned"),
)  # what reading text of another domain leaves of the paper's attack (its Figure 8)


def epsilon_that_meets(rates: pd.DataFrame, corpus: str, attack: str, value: float) -> float:
    """Epsilon of CusText+ at which an attack reaches a success rate, by interpolation.

    NaN where it does not, between the smallest and the largest epsilon.
    """
    chosen = rates[(rates["corpus"] == corpus) & (rates["defense"] == "custext")]
    line = chosen[chosen["attack"] == attack].sort_values("epsilon")
    return float(np.interp(value, line["value"], line["epsilon"], left=np.nan, right=np.nan))


def assets_of(sizes: Sizes) -> list[str]:
    """Data and models that the notebook's results rest on."""
    of_corpus = {"sst2": "sst2", "sst2-by-sentence": "sst2"}
    named = [of_corpus.get(name, "movie-reviews") for name in sizes.corpora]
    pretrained = ["smollm2-135m-instruct"] * sizes.pretrained
    return sorted({"glove-840b-300d-34k", "movie-reviews", "rented-clothes-reviews",
                   sizes.encoder, *named, *pretrained})  # fmt: skip
