"""Notebook 04: documents of real authors: sanitized by word, by sentence, or written anew.

Every mechanism gives `Output`s: the same documents, sanitized several times at one setting. What
attackers make of them is measured in `dp_prompt_attacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from textpriv import corpora, embeddings
from textpriv.authors import as_many_of_each, by_authors, by_rating, parts, quoting
from textpriv.corpora import Documents
from textpriv.embeddings import Embedding
from textpriv.generators import Generator
from textpriv.mechanisms import TEM, Madlib, Mahalanobis, Mechanism
from textpriv.mechanisms.prompt import DPPrompt, Limits, learn_limits, sanitize_at
from textpriv.mechanisms.sentences import (
    Box,
    DeepCandidate,
    TruncatedLaplace,
    learn_recoder,
)
from textpriv.mechanisms.sweep import sweep
from textpriv.models import Encoder
from textpriv.neighbors import ExactSearch
from textpriv.splits import shares_ngram
from textpriv.tokens import Tokenizer
from textpriv.vectors import SentenceVectors, embed

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Stream = Callable[..., np.random.Generator]

PROMPTED, CLIPPED, CLEAN = "dp-prompt", "dp-prompt-clipped", "clean"
WORD_LEVEL = ("madlib", "mahalanobis", "tem")
SENTENCE_LEVEL = ("truncated-laplace", "deep-candidate")
LARGE = "-300d"  # ends the name of a mechanism over the table of 300 dimensions
WHOLE = "madlib-whole"  # MADLIB over the whole table of 50 dimensions
PIECES = 256  # that the encoder reads of a document or of a sentence


class Sizes(BaseModel):
    """Sizes of notebook 04, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str
    encoder: str
    generator: str
    authors: int = Field(ge=2)
    documents: int = Field(ge=4)  # under attack, as many of each author as there are
    fewest_words: int = Field(ge=1)
    most_words: int = Field(ge=1)  # what follows is cut off, of private and public documents
    runs: int = Field(ge=2)  # draws of the cheap mechanisms; as many parts are attacked in turn
    public: int = Field(ge=10)  # documents of other authors: limits, candidates
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
    batch: int = Field(ge=1)
    tuned: tuple[str, ...]  # "mechanism setting": attacked by the fine-tuned encoder too
    ledger: tuple[str, ...]  # "mechanism setting": whose surface is looked at
    risks: tuple[float, ...]  # author F1 at which mechanisms are compared
    repeats: tuple[int, ...]  # how often one document is sanitized
    repeated_epsilon: float = Field(gt=0)
    generated_repeats: int = Field(ge=1)  # of the generator, at most
    repeated_temperature: float = Field(gt=0)
    compared: int = Field(ge=2)  # documents whose paraphrases are compared with them
    example_documents: int = Field(ge=1)


# --- Material ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Material:
    """Documents under attack, public ones, and the tables of words.

    Parameters
    ----------
    private : columns author (0, 1, ...) and sentiment (0, 1)
    part : (documents,) which of `runs` parts each belongs to; every part is attacked in turn, by
        an attacker who has learned from the others
    public : documents of other authors
    vectors : sentence vectors of the private documents
    public_vectors : of the public ones
    small, large : word tables of 50 and 300 dimensions over the same words
    whole : the table of 50 dimensions with all its words
    """

    private: Documents
    part: IntArray
    public: Documents
    encoder: Encoder
    vectors: SentenceVectors
    public_vectors: SentenceVectors
    small: Embedding
    large: Embedding
    whole: Embedding

    def labels(self, target: str) -> IntArray:
        """(documents,) of "author" or "sentiment"."""
        return np.asarray(self.private.columns[target]).astype(np.int64)


def gather(encoder: Encoder, sizes: Sizes, stream: Stream) -> Material:
    """Choose authors and documents, cut them, and embed their sentences.

    Where a corpus has ratings and no labels, as `rented-clothes`, the rating gives the sentiment.
    Public documents are of other authors where there are any, else those that are not drawn; they
    share no run of eight words with a private one.
    """
    whole = corpora.load(sizes.corpus)
    author = "author" if "author" in whole.columns else "user_id"
    rated = "label" not in whole.columns
    sentiment = by_rating(whole.columns["rating"]) if rated else whole.columns["label"]
    chosen = by_authors(
        whole, sentiment, author=author, authors=sizes.authors, fewest_words=sizes.fewest_words
    )
    each = sizes.documents // sizes.authors
    drawn = as_many_of_each(chosen, each, stream("documents"))
    private = _cut(drawn, sizes.most_words)
    others = stream("public").permutation(_strangers(whole, author, chosen, drawn))
    public = _cut(whole.subset(others[: 2 * sizes.public]), sizes.most_words)
    apart = np.flatnonzero(~shares_ngram(public.texts, private.texts))
    public = public.subset(apart[: sizes.public])
    small, large = _shared_words(sizes.vocabulary)
    return Material(
        private=private,
        part=parts(private, sizes.runs, stream("parts")),
        public=public,
        encoder=encoder,
        vectors=embed(encoder, private.texts, longest=PIECES),
        public_vectors=embed(encoder, public.texts, longest=PIECES),
        small=small,
        large=large,
        whole=small if sizes.vocabulary else embeddings.load("glove-6b-50d"),
    )


def _strangers(whole: Documents, author: str, chosen: Documents, drawn: Documents) -> IntArray:
    """Rows by other authors than the chosen; where there are none, rows that are not drawn."""
    who, ours = whole.columns[author], set(chosen.texts)
    names = np.unique(who[np.array([text in ours for text in whole.texts])])
    others = np.flatnonzero(~np.isin(who, names))
    private = set(drawn.texts)
    left = [row for row, text in enumerate(whole.texts) if text not in private]
    return others if len(others) else np.array(left, dtype=np.int64)


def _cut(documents: Documents, most_words: int) -> Documents:
    """The first words of every document: a public cap, the same for all."""
    texts = tuple(" ".join(text.split()[:most_words]) for text in documents.texts)
    return Documents(documents.name, texts, dict(documents.columns))


def _shared_words(count: int | None) -> tuple[Embedding, Embedding]:
    """The tables of 50 and of 300 dimensions over the words that both have."""
    small, large = embeddings.load("glove-6b-50d"), embeddings.load("glove-840b-300d-34k")
    ids = small.ids(large.words)
    both = np.flatnonzero(ids >= 0)[:count]
    return small.subset(ids[both]), large.subset(both)


def described(material: Material) -> pd.DataFrame:
    """Documents of every author by sentiment and part, and how many quote another part."""
    table = pd.DataFrame(
        {
            "author": material.labels("author"),
            "sentiment": np.where(material.labels("sentiment") == 1, "positive", "negative"),
            "part": material.part,
        }
    )
    counts = table.pivot_table(
        index="author", columns=["part", "sentiment"], aggfunc="size", fill_value=0
    )
    quotes = pd.Series(quoting(material.private, material.part))
    counts["quoting", "eight words"] = quotes.groupby(table["author"]).sum()
    return counts


# --- Outputs ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trace:
    """Shares that were seen while an output was made; private, and no part of it.

    Parameters
    ----------
    document, value : (observations,) row of the document, and a share in 0..1
    """

    document: IntArray
    value: FloatArray


@dataclass(frozen=True, eq=False)
class Output:
    """The private documents as a mechanism puts them out at one setting.

    Parameters
    ----------
    mechanism : name in results and figures
    level : epsilon, or temperature
    unit : "eps" or "t", which the level is
    texts : of every run, as many as there are documents; none where only vectors come out
    vectors : (documents, width) of every run, what an attacker with access to embeddings has
    epsilon, epsilon_paper : that hold for a whole document, tight and by the paper's formula; NaN
        where the claim is about words or sentences, or where there is none
    traces : what was seen while it was made, by name
    """

    mechanism: str
    level: float
    unit: str
    texts: tuple[tuple[str, ...], ...]
    vectors: tuple[FloatArray, ...]
    epsilon: float = np.nan
    epsilon_paper: float = np.nan
    traces: Mapping[str, Trace] = field(default_factory=dict)

    @property
    def setting(self) -> str:
        """What results call the level."""
        return f"{self.unit}{self.level:g}" if self.unit else "plain"

    @property
    def label(self) -> str:
        """Mechanism and setting."""
        return f"{self.mechanism} {self.setting}"


def clean(material: Material) -> Output:
    """The documents as they are."""
    texts = (tuple(material.private.texts),)
    return Output(CLEAN, 0.0, "", texts, (material.vectors.mean(),))


def embedded(encoder: Encoder, texts: Sequence[Sequence[str]]) -> tuple[FloatArray, ...]:
    """Document vectors of several runs, in one pass over the encoder."""
    flat = [text for run in texts for text in run]
    vectors = embed(encoder, flat, longest=PIECES).mean()
    return tuple(np.split(vectors, np.cumsum([len(run) for run in texts])[:-1]))


def word_level(material: Material, sizes: Sizes, stream: Stream) -> list[Output]:
    """MADLIB, Mahalanobis and TEM over both tables, MADLIB over the whole one too.

    All epsilons of one draw of MADLIB's noise come from one pass (`mechanisms.sweep`): every
    output has its mechanism's law, and outputs at two epsilons share what is random.
    """
    jobs: list[tuple[str, Mechanism, tuple[float, ...], int]] = []
    for table, suffix, epsilons in (
        (material.small, "", sizes.word_epsilons),
        (material.large, LARGE, sizes.large_epsilons),
    ):
        search = ExactSearch(table.vectors)
        for each in (
            Madlib(table, epsilon=1, search=search),
            Mahalanobis(table, epsilon=1, search=search),
            TEM(table, epsilon=1),
        ):
            jobs.append((each.name + suffix, each, epsilons, sizes.runs))
    jobs.append((WHOLE, Madlib(material.whole, epsilon=1), sizes.whole_epsilons, 1))
    made: list[tuple[str, float, tuple[tuple[str, ...], ...]]] = []
    for name, mechanism, epsilons, runs in jobs:
        if not epsilons:
            continue
        tokenizer = Tokenizer(mechanism.embedding.words)
        corpus = tokenizer.encode(material.private.texts)
        rows = sweep(mechanism, np.tile(corpus.ids, runs), epsilons, stream("words", name))
        for epsilon, row in zip(epsilons, rows, strict=True):
            draws = (corpus.with_ids(ids) for ids in np.split(row, runs))
            made.append((name, epsilon, tuple(tuple(tokenizer.decode(each)) for each in draws)))
    runs_of = [len(texts) for _, _, texts in made]
    vectors = embedded(material.encoder, [run for _, _, texts in made for run in texts])
    starts = np.cumsum([0, *runs_of])
    return [
        Output(name, epsilon, "eps", texts, vectors[start : start + len(texts)])
        for (name, epsilon, texts), start in zip(made, starts[:-1].tolist(), strict=True)
    ]


def sentence_level(material: Material, sizes: Sizes, stream: Stream) -> list[Output]:
    """Truncated Laplace gives vectors, DeepCandidate public documents.

    As in the paper, an attacker with embeddings sees the recoded vector of the public document, and
    one with texts the document itself.
    """
    made = []
    public, runs = material.public_vectors, range(sizes.runs)
    seed = _seed(stream("recoder"))
    laplace = TruncatedLaplace(Box.learn(public), epsilon=1)
    recoder = learn_recoder(public, clusters=sizes.clusters, seed=seed)
    candidate = DeepCandidate(public, recoder, epsilon=1, seed=seed)
    for epsilon in sizes.sentence_epsilons:
        at = laplace.with_epsilon(epsilon)
        noisy = (at.sanitize(material.vectors, stream("laplace", epsilon, run)) for run in runs)
        made.append(Output(laplace.name, epsilon, "eps", (), tuple(noisy)))
    for epsilon in sizes.sentence_epsilons:
        deep = candidate.with_epsilon(epsilon)
        drawn = [deep.sanitize(material.vectors, stream("deep", epsilon, run)) for run in runs]
        texts = tuple(tuple(material.public.texts[row] for row in rows) for rows in drawn)
        recoded = tuple(candidate.candidates[rows] for rows in drawn)
        traces = {"drawn_inside": drawn_inside(deep, material.vectors)}
        made.append(Output(deep.name, epsilon, "eps", texts, recoded, traces=traces))
    return made


def drawn_inside(mechanism: DeepCandidate, vectors: SentenceVectors) -> Trace:
    """With which probability the candidate drawn lies among the sentences of each document.

    That is, has a depth above 0. Where no candidate has, all are equally likely at any epsilon.
    """
    inside = []
    for start, end in zip(vectors.offsets[:-1], vectors.offsets[1:], strict=True):
        own = vectors.vectors[start:end]
        probability = np.exp(mechanism.log_probability(own))
        inside.append(min(1.0, float(probability[mechanism.depth(own) > 0].sum())))
    return Trace(np.arange(len(inside)), np.array(inside))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def limits_of(generator: Generator, material: Material, sizes: Sizes, stream: Stream) -> Limits:
    """Limits of the logits on public documents, one pair per token id."""
    return learn_limits(
        generator,
        material.public.texts[: sizes.limit_documents],
        tokens=sizes.tokens,
        batch=sizes.batch,
        seed=_seed(stream("limits")),
        progress=True,
    )


def prompts(generator: Generator, limits: Limits, sizes: Sizes) -> list[tuple[str, DPPrompt]]:
    """DP-Prompt at every setting: without limits, with them, and cut to the k likeliest tokens."""

    def at(temperature: float, bounds: Limits | None = None, top_k: int | None = None) -> DPPrompt:
        return DPPrompt(
            generator,
            temperature=temperature,
            tokens=sizes.tokens,
            limits=bounds,
            top_k=top_k,
            ablation=top_k is not None,
        )

    return [
        *((PROMPTED, at(each)) for each in sizes.temperatures),
        *((CLIPPED, at(each, limits)) for each in sizes.clipped_temperatures),
        *(
            (f"{PROMPTED}-top-k{k}", at(each, top_k=k))
            for k in sizes.top_k
            for each in sizes.top_k_temperatures
        ),
    ]


def guarantees(mechanisms: Sequence[tuple[str, DPPrompt]]) -> pd.DataFrame:
    """What DP-Prompt guarantees at every setting.

    Columns: mechanism, setting, temperature, tokens, token_tight, token_paper (loss of one token),
    tight, paper (epsilon of a document), withdrawn (why there is none).
    """
    rows = []
    for name, mechanism in mechanisms:
        found = mechanism.guarantee
        rows.append(
            {
                "mechanism": name,
                "setting": f"t{found.temperature:g}",
                "temperature": found.temperature,
                "tokens": found.tokens,
                "token_tight": found.tight_loss,
                "token_paper": found.paper_loss,
                "tight": found.epsilon,
                "paper": found.epsilon_paper,
                "withdrawn": found.withdrawn,
            }
        )
    return pd.DataFrame(rows)


def prompted(
    mechanisms: Sequence[tuple[str, DPPrompt]], material: Material, sizes: Sizes, stream: Stream
) -> list[Output]:
    """One run of each: writing takes longer than everything else here.

    With the traces "logits_clipped" and "probability_moved" (`DPPrompt.moved_by_clipping`) of
    every token, where there are limits.
    """
    seen: dict[int, list[tuple[IntArray, FloatArray, FloatArray]]] = {}

    def watch(which: int, scores: torch.Tensor, documents: IntArray) -> None:
        if mechanisms[which][1].limits is not None:
            found = mechanisms[which][1].moved_by_clipping(scores)
            seen.setdefault(which, []).append((documents, *found))

    texts = sanitize_at(
        [mechanism for _, mechanism in mechanisms],
        material.private.texts,
        seed=_seed(stream("prompt")),
        batch=sizes.batch,
        progress=True,
        watch=watch,
    )
    traces = {}
    for which, steps in seen.items():
        documents, clipped, moved = (np.concatenate(each) for each in zip(*steps, strict=True))
        traces[which] = {
            "logits_clipped": Trace(documents, clipped),
            "probability_moved": Trace(documents, moved),
        }
    vectors = embedded(material.encoder, texts)
    return [
        Output(
            name,
            mechanism.temperature,
            "t",
            (tuple(own),),
            (points,),
            epsilon=mechanism.guarantee.epsilon,
            epsilon_paper=mechanism.guarantee.epsilon_paper,
            traces=traces.get(which, {}),
        )
        for which, ((name, mechanism), own, points) in enumerate(
            zip(mechanisms, texts, vectors, strict=True)
        )
    ]


# --- Again and again ----------------------------------------------------------------------------


def words_again(
    material: Material, epsilon: float, documents: IntArray, count: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Vectors of `count` outputs of MADLIB over 50 dimensions for each of these documents."""
    mechanism = Madlib(material.small, epsilon=epsilon)
    tokenizer = Tokenizer(material.small.words)
    corpus = tokenizer.encode([material.private.texts[row] for row in documents.tolist()])
    drawn = np.split(mechanism.sanitize_ids(np.tile(corpus.ids, count), rng), count)
    texts = [tokenizer.decode(corpus.with_ids(ids)) for ids in drawn]
    return list(embedded(material.encoder, texts))


def prompts_again(
    mechanism: DPPrompt,
    material: Material,
    documents: IntArray,
    count: int,
    batch: int,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Vectors of `count` paraphrases of each of these documents."""
    texts = [material.private.texts[row] for row in documents.tolist()]
    written = mechanism.sanitize(texts * count, seed=_seed(rng), batch=batch, progress=True)
    each = len(texts)
    runs = [written[start : start + each] for start in range(0, len(written), each)]
    return list(embedded(material.encoder, runs))
