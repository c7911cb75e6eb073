"""Notebook 08: sentences with a name as their secret, and what is counted and drawn of attacks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import ne
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv.attacks import likelihood, linkage
from textpriv.attacks.game import GameOutcome
from textpriv.attacks.vector_words import FEWEST, learned
from textpriv.channel import Channel, FloatArray, IntArray
from textpriv.data import corpora, splits
from textpriv.data.embeddings import Embedding
from textpriv.data.names import person_names
from textpriv.data.tokens import PRIVATE, Tokenizer
from textpriv.drawing import drawing
from textpriv.mechanisms.allotted import Allotted, at_positions
from textpriv.mechanisms.base import Mechanism
from textpriv.mechanisms.dp_fusion import DPFusion, divergence
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.noise import AfterNoise, Madlib
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.mechanisms.sweep import epsilons_for
from textpriv.models import Encoder, pieces
from textpriv.models.classifiers import features
from textpriv.neighbors import ExactSearch
from textpriv.privacy import claimed_loss, published_loss
from textpriv.privacy.exact import losses
from textpriv.report.figures import COLORS, PAGE, legend_below, percent, reach
from textpriv.stats import clustered_share, paired_test

BLANK = "_"  # stands for a secret in a redaction
WORDS = 8, 18  # of a sentence
NAMED = 2, 5  # names and other content words that are guessed of a sentence, word by word
ALL_OUTPUTS = "matched"  # the linkage attack that looks at all outputs together
SENTENCES = "sentences"  # the sample of all estimates; a unit is a sentence
_WORD = re.compile(r"[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*")  # Ann of Ann's, all of O'Brien
_MATCHED = 300  # content words at which mechanisms on words are made alike
_LONGEST = 64  # pieces that the encoder reads of a sentence


@dataclass(frozen=True)
class Secrets:
    """Sentences, the same without the names in them, and with other names."""

    texts: list[str]
    redacted: list[str]
    swapped: list[str]
    names: list[frozenset[str]]  # of each sentence, in lower case
    listed: list[str]  # all names that the list has, in lower case
    reviews: list[str]  # other ones
    public: list[str]  # sentences of these


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 08, set by the profile."""

    encoder: str
    generator: str
    table: str  # word vectors of mechanisms on words
    reviews: int = Field(ge=10)  # IMDb reviews
    private: int = Field(ge=5)  # of these; the others are public
    sentences: int = Field(ge=8)  # private ones, each with a name
    public: int = Field(ge=20)  # sentences
    masked_steps: int = Field(ge=1)  # of DP-MLM's language model
    limit_texts: int = Field(ge=1)
    tokens: int = Field(ge=2)  # public cap on what is written
    temperature: float = Field(gt=0)
    word_epsilon: float = Field(gt=0)  # of DP-MLM, for a word
    bound: float = Field(gt=0)  # of DP-Fusion, for a token
    orders: tuple[float, ...]
    tight_bound: float = Field(gt=0)  # of the mechanisms that are wrong
    allotted_epsilon: float = Field(gt=0)  # of SanText, the largest of STAMP's groups
    words: int = Field(ge=500)  # most frequent ones, the vocabulary of linkage on words
    sentence_epsilons: tuple[float, ...]  # of truncated Laplace
    document_epsilon: float = Field(gt=0)  # of DeepCandidate, for a sentence
    documents: int = Field(ge=2)  # public ones, DeepCandidate's outputs
    document_sentences: int = Field(ge=2)
    clusters: int = Field(ge=2)
    pairs: int = Field(ge=1)  # of texts, for each mechanism and kind
    draws: int = Field(ge=20)  # of each text of a pair
    compared: int = Field(ge=1)  # pairs whose losses are computed along an output
    inverted: int = Field(ge=2)  # sentences
    longest: int = Field(ge=1)  # tokens of what the inversion writes
    reread: int = Field(ge=2)  # paraphrases whose likelihood under every text is computed
    batch: int = Field(ge=2)


def gather(sizes: Sizes, rng: np.random.Generator) -> Secrets:
    """Sentences of 8 to 18 words of film reviews that name someone, and public ones of others.

    What is public shares no run of eight words with a private sentence. A name is replaced by
    another one of the list, the same for all its places.
    """
    reviews = corpora.load("imdb").sample(sizes.reviews, rng)
    parts = np.split(np.arange(len(reviews)), [sizes.private])
    ours, others = (reviews.subset(part) for part in parts)
    names = sorted(person_names(others.texts))
    sentences = dict.fromkeys(splits.sentences(ours, *WORDS).texts)
    with_names = [(text, names_in(text, names)) for text in sentences]
    with_names = [(text, own) for text, own in with_names if own and BLANK not in text]
    rows = rng.permutation(len(with_names))[: sizes.sentences]
    texts, own = [with_names[row][0] for row in rows], [with_names[row][1] for row in rows]
    drawn = [{name: names[rng.integers(len(names))].capitalize() for name in sorted(each)}
             for each in own]  # fmt: skip
    pairs = list(zip(texts, drawn, strict=True))
    others = others.subset(np.flatnonzero(~splits.shares_ngram(others.texts, texts)))
    public = splits.sentences(others, *WORDS)
    return Secrets(
        texts,
        redacted=[replaced(text, dict.fromkeys(swap, BLANK)) for text, swap in pairs],
        swapped=[replaced(*pair) for pair in pairs],
        names=own,
        listed=names,
        reviews=list(others.texts),
        public=list(public.sample(min(sizes.public, len(public)), rng).texts),
    )


def names_in(text: str, names: Sequence[str]) -> frozenset[str]:
    """Names of the list that a text writes with a capital, in lower case."""
    words = {word.lower() for word in _WORD.findall(text) if word[:1].isupper()}
    return frozenset(words.intersection(names))


def replaced(text: str, swap: Mapping[str, str]) -> str:
    """The text with something else in place of some capitalised words, given in lower case."""
    return _WORD.sub(
        lambda word: swap.get(word[0].lower(), word[0]) if word[0][0].isupper() else word[0], text
    )


def encode(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vector of every text, which is taken for one sentence: (texts, width)."""
    corpus = pieces.encode(encoder.tokenizer, list(texts), longest=_LONGEST)
    return features(encoder, corpus, longest=_LONGEST)


# --- What is counted ----------------------------------------------------------------------------


def word_hits(wanted: Sequence[Set[str]], guesses: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Sentence of every word that is wanted, in lower case, and whether its guess has the word."""
    rows = [
        (number, word in spelled)
        for number, (words, spelled) in enumerate(zip(wanted, map(_spelled, guesses), strict=True))
        for word in sorted(words)
    ]
    sentence, hits = np.array(rows, dtype=np.int64).T
    return sentence, hits


def _spelled(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def content_words(text: str) -> set[str]:
    """The words of a text but stop words and single letters (the s of Bob's), in lower case."""
    return {word for word in _spelled(text) if len(word) > 1} - ENGLISH_STOP_WORDS


def named(words: Sequence[str], scores: FloatArray, listed: Set[str]) -> list[str]:
    """Of every row of scores (rows, words) the words that score most, as many names and others.

    A text has about as many content words, and every private one has a name.
    """
    is_name = np.array([word in listed for word in words])
    kinds = np.flatnonzero(is_name), np.flatnonzero(~is_name)
    chosen = [kind[np.argsort(-scores[:, kind], axis=1, kind="stable")[:, :count]]
              for kind, count in zip(kinds, NAMED, strict=True)]  # fmt: skip
    return [" ".join(words[each] for each in row) for row in np.hstack(chosen)]


def ceiling(
    goal: Sequence[str], names: Sequence[Set[str]], public: Sequence[Set[str]], listed: Set[str]
) -> str:
    """What `named` finds at best of the content words and names, of words that public ones have."""
    known = {*learned(public).vocabulary_}
    words, (people, others) = [content_words(text) for text in goal], NAMED
    most = sum(
        min(people, len(each & listed & known)) + min(others, len((each & known) - listed))
        for each in words
    )
    most_names = sum(min(people, len(own & known)) for own in names)
    return (
        f"Two names and five other words, out of {len(known):,} that at least {FEWEST} public "
        f"sentences have, are at most {most / sum(map(len, words)):.0%} of the content words and "
        f"{most_names / sum(map(len, names)):.0%} of the names."
    )


def claimed(mechanism: likelihood.Mechanism, text: str) -> float:
    """The epsilon that is claimed for a text and any other of its kind; inf where none is."""
    if isinstance(mechanism, DPMLM):
        return mechanism.spent(text)
    return mechanism.guarantee.epsilon if isinstance(mechanism, DPPrompt) else mechanism.epsilon


def told(game: GameOutcome) -> dict[str, float]:
    """What a game shows of epsilon, and the share of outputs whose text was named."""
    return {"shown": game.epsilon, "right": game.accuracy.value}


def game_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Of each mechanism's games the one that says most, beside what is claimed for its pair.

    Of columns mechanism, shown, claimed and any others. A game that refutes its own claim comes
    before all others; then the one that shows most. A claim that is infinite is NaN, and not
    refuted (column `refuted`).
    """
    table = pd.DataFrame(rows).replace(np.inf, np.nan)
    table["refuted"] = table["shown"] > table["claimed"]
    best = table.sort_values(["refuted", "shown"], ascending=False, kind="stable")
    return best.drop_duplicates("mechanism").sort_index().reset_index(drop=True)


def shown_rows(table: pd.DataFrame, draws: int) -> pd.DataFrame:
    """A table's column `shown` as values to record: bounds, which have no interval of their own."""
    return table.assign(value=table["shown"], low=np.nan, high=np.nan, n=draws)


def along(fusion: DPFusion, texts: tuple[str, str], redacted: str, output: str) -> dict[str, float]:
    """What two documents with one redaction lose along an output, in nats.

    The largest log-ratio of any token and its sum over the output, the largest divergence before a
    token, and by how much the epsilons differ that would be reported for the two: from the
    divergences that each document met on the way.
    """
    one, other, none = (fusion.laws_along(text, redacted, output) for text in (*texts, redacted))
    ratio, apart = (one - other).abs().amax(1), divergence(one, other, order=fusion.order)
    met = [float(divergence(law, none, order=fusion.order).sum()) for law in (one, other)]
    factor = 2 if np.isinf(fusion.order) else 4 / fusion.order  # from the redaction to each other
    return {
        "log-ratio of a token": float(ratio.max()),
        "summed largest log-ratios": float(ratio.sum()),
        "divergence of a token": float(apart.max()),
        "reported apart": factor * abs(met[0] - met[1]),
    }


@dataclass(frozen=True)
class BetweenGroups:
    """What budgets by groups lose between a listed name and the nearest word that is none."""

    secret: str  # the name and the word that lie nearest to each other, of all names
    stranger: str
    distance: float  # of their vectors
    share: float  # of the largest epsilon, for the secret's group
    lost: float  # nats of theirs, at the worst output
    read: float  # the largest epsilon times the distance
    worst: float  # of all names, the largest share of that which is lost
    inside: float  # largest share of its claim that a name and the nearest of its group lose


def between_groups(allotted: Allotted, listed: IntArray) -> BetweenGroups:
    """All listed names (ids), with the nearest word that is none and the nearest name of the group.

    At all outputs, from the probabilities themselves.
    """
    table = allotted.embedding
    others = np.setdiff1d(np.arange(len(table)), listed)
    strangers = nearest_among(table, listed, others)
    lost = losses(allotted, listed, strangers)
    read = published_loss(allotted).between(listed, strangers)
    # Names are of two groups, important for the task or not; no claim holds between these.
    inside, groups = 0.0, allotted.group[listed]
    for own in (listed[groups == each] for each in np.unique(groups)):
        if len(own) > 1:
            kin = own, nearest_among(table, own, own)
            told = losses(allotted, *kin) / claimed_loss(allotted).between(*kin)
            inside = max(inside, float(told.max()))
    at = int(read.argmin())
    return BetweenGroups(
        secret=table.words[listed[at]],
        stranger=table.words[strangers[at]],
        distance=float(read[at] / allotted.epsilon),
        share=allotted.shares[allotted.group[listed[at]]],
        lost=float(lost[at]),
        read=float(read[at]),
        worst=float((lost / read).max()),
        inside=inside,
    )


def by_place(
    mechanism: Mechanism, text: str, epsilons: FloatArray, count: int, rng: np.random.Generator
) -> list[str]:
    """So many outputs for a text, whose words have public epsilons, place by place."""
    words = mechanism.embedding.words
    ids = Tokenizer(words, PRIVATE).encode([text]).ids
    made = at_positions(mechanism, np.tile(ids, count), np.tile(epsilons, count), rng)
    return [" ".join(words[each] for each in row) for row in made.reshape(count, -1)]


def read_off(
    releases: Mapping[str, Mapping[str, Sequence[str]]],
    goal: Sequence[str],
    names: Sequence[frozenset[str]],
    guessing: str,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Content words and names found by each attack's guesses, for each release: a row each.

    `p` is of equal success of the same guesses for the next sentence, in pairs by sentence, times
    the number of all such tests (Bonferroni): who is no better is not shown to have learned from a
    release. It is 1 for the attack that knows nothing of the release (`guessing`).
    """
    wanted = {"content words": [content_words(text) for text in goal], "names": names}
    rows = []
    for release, attacks in releases.items():
        for what, words in wanted.items():
            for attack, guesses in attacks.items():
                sentence, hits = word_hits(words, guesses)
                _, elsewhere = word_hits(words, [*guesses[1:], guesses[0]])
                p = 1.0 if attack == guessing else paired_test(hits, elsewhere, sentence, rng)
                share = clustered_share(hits, sentence, sample=SENTENCES)
                row = {"release": release, "attack": attack, "what": what, "p": p}
                rows.append({**row, **share.columns()})
    table = pd.DataFrame(rows)
    tests = int((table["attack"] != guessing).sum())
    told = [f"{value:.0%}" for value in table["value"]]
    return table.assign(p=(table["p"] * tests).clip(upper=1), share=told)


def strongest(table: pd.DataFrame, guessing: str) -> pd.DataFrame:
    """Of rows of `read_off` those of the strongest attack on each release, but the one blind."""
    attacked = table[table["attack"] != guessing]
    return attacked.loc[attacked.groupby(["release", "what"], sort=False)["value"].idxmax()]


def read_from_vectors(table: pd.DataFrame, guessing: str, noisy: str) -> str:
    """A title: what is read of the first release, of a noisy one, and by who knows nothing.

    A share is marked that is not shown to be read from its release (`p` of `read_off`).
    """
    best = strongest(table, guessing).set_index(["release", "what"])
    best = best["share"].where(best["p"] < 0.05, best["share"] + " (not significant)")
    blind = table[table["attack"] == guessing].set_index(["release", "what"])["share"]
    first = table["release"].iloc[0]
    (words, names), (later_words, later_names), (blind_words, blind_names) = (
        (shares[release, "content words"], shares[release, "names"])
        for shares, release in ((best, first), (best, noisy), (blind, first))
    )
    return (
        f"The best attack reads {words} of a vector's content words, {names} of its names;\n"
        f"{noisy}: {later_words} and {later_names};\n"
        f"{guessing}: {blind_words} and {blind_names}"
    )


def one_word_apart(texts: Sequence[str], others: Sequence[str]) -> list[int]:
    """Rows of which both texts have as many words, one of them another."""
    pairs = zip(map(_spelled, texts), map(_spelled, others), strict=True)
    return [
        row
        for row, (one, other) in enumerate(pairs)
        if len(one) == len(other) and sum(map(ne, one, other)) == 1
    ]


def nearest_among(table: Embedding, words: IntArray, among: IntArray) -> IntArray:
    """The nearest of some words, itself left out, to each of others: (words,) ids."""
    indices = ExactSearch(table.vectors[among]).nearest(table.vectors[words], 2)[0]
    near = among[indices]
    return np.where(near[:, 0] == words, near[:, 1], near[:, 0])


def half_kept(
    table: Embedding, texts: Sequence[str], rng: np.random.Generator
) -> dict[str, Mechanism]:
    """Every registered mechanism on words where half of the content words of texts are changed."""
    tokenizer, search = Tokenizer(table.words, PRIVATE), ExactSearch(table.vectors)
    ids = tokenizer.encode(texts).ids
    content = ids[(ids >= 0) & ~np.isin(ids, table.ids(sorted(ENGLISH_STOP_WORDS)))]
    content = rng.permutation(content)[:_MATCHED]
    result = {}
    for entry in WORD_LEVEL.values():
        made = entry.make(table, search)
        (epsilon,) = epsilons_for(made, content, [0.5], rng)
        result[entry.label] = made.with_epsilon(float(epsilon))
    return result


def channel_of(mechanism: Mechanism, rng: np.random.Generator) -> Channel | None:
    """P(output | word) where it is known; of noise on vectors, whatever follows, an estimate."""
    if isinstance(mechanism, AfterNoise):
        mechanism = mechanism.madlib
    if isinstance(mechanism, Madlib):
        return NoiseChannel.estimate(mechanism, [mechanism.epsilon], rng)[mechanism.epsilon]
    return mechanism if isinstance(mechanism, Channel) else None


def similarities(
    texts: Sequence[str], outputs: Sequence[str], encoder: Encoder
) -> dict[str, FloatArray]:
    """The attacks of `linkage` that know nothing of the tool: (outputs, texts) each."""
    return {
        "words": linkage.bm25(texts, outputs),
        "letters": linkage.letters(texts, outputs),
        "vectors": linkage.by_vectors(encode(encoder, texts), encode(encoder, outputs)),
    }


def linkage_table(
    attacks: Mapping[str, Mapping[str, FloatArray]], laws: Mapping[str, FloatArray]
) -> pd.DataFrame:
    """What each attack on each mechanism links, from its scores (outputs, texts): a row each.

    Where ln P(output | text) is known (`laws`), by it too, of one output and of all together.
    """
    rows = []
    for name, scores in attacks.items():
        if name in laws:
            known, together = linkage.by_likelihood(laws[name]), linkage.by_matching(laws[name])
            scores = {**scores, "likelihood": known, ALL_OUTPUTS: together}
        for attack, each in scores.items():
            texts = each.shape[1]
            row: dict[str, object] = {"mechanism": name, "attack": attack, "candidates": texts}
            row |= linkage.linked(each, sample=f"{texts} texts").columns()
            row["mean_rank"] = float(linkage.ranks_of_truth(each).mean())
            row["at_1_percent"] = linkage.true_positive_rate(each, 0.01).value
            rows.append(row)
    return pd.DataFrame(rows)


def by_attack(links: pd.DataFrame) -> pd.DataFrame:
    """Shares by mechanism (rows) and attack, and what else is known of each row's strongest.

    Of those attacks that look at one output at a time.
    """
    alone = links[links["attack"] != ALL_OUTPUTS]
    best = links.loc[alone.groupby("mechanism", sort=False)["value"].idxmax()]
    told = ["low", "high", "n", "candidates", "mean_rank", "at_1_percent"]
    best = best.set_index("mechanism")[told]
    shares = links.pivot(index="mechanism", columns="attack", values="value")
    return shares[list(dict.fromkeys(links["attack"]))].loc[best.index].join(best)


# --- What is drawn ------------------------------------------------------------------------------


def rounded_down(bound: float) -> str:
    """A lower bound above 0, with two digits, and never more than it is."""
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.floor(bound / unit + 1e-9) * unit:#.2g}".removesuffix(".")


@drawing
def claims_and_games(table: pd.DataFrame, most: float, draws: int) -> Figure:
    """What outputs prove of epsilon (bars), what is claimed (diamonds) and what is so (crosses).

    Of columns mechanism, pair, shown, claimed (NaN where nothing is), exact (NaN where it is not
    known) and refuted; `most` is what games of so many draws of each text could show at best.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 0.62 * len(table) + 1.7))
    place = np.arange(len(table))[::-1]
    ax.barh(place, table["shown"], height=0.6, color=COLORS["blue"])
    ax.axvline(most, ls=":", color="black")
    ax.scatter(table["claimed"], place, marker="D", s=50, color=COLORS["orange"], zorder=4,
               label="claimed")  # fmt: skip
    ax.scatter(table["exact"], place, marker="x", s=60, color="black", zorder=5,
               clip_on=False, label="exact, for this pair")  # fmt: skip
    for at, shown, claim in zip(place, table["shown"], table["claimed"], strict=True):
        proved = f"at least {rounded_down(shown)}" if shown > 0 else "no epsilon shown"
        inside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 10}
        where, color = (0.0, "white") if shown > 1.9 else (shown, "black")
        box = {"color": "white", "pad": 0.5} if color == "black" else None
        ax.annotate(proved, (where, at), color=color, xytext=(8, -4), bbox=box, **inside)
        if np.isnan(claim):
            ax.annotate("no pure epsilon claimed", (1, at), xycoords=("axes fraction", "data"),
                        ha="right", xytext=(-4, -4), **inside)  # fmt: skip
    ax.annotate("most that could\nbe shown", (most, 1), xycoords=("data", "axes fraction"),
                xytext=(4, 4), textcoords="offset points", fontsize=10)  # fmt: skip
    ax.set(xscale="symlog", xlim=(0, None))
    ax.set_xlabel(
        f"epsilon for the pair named\n(bars: lower bounds, {draws} outputs of either text)"
    )
    ax.set_yticks(place, table["mechanism"] + "\n" + table["pair"], fontsize=10)
    legend_below(fig, 2)
    refuted = ", ".join(table.loc[table["refuted"], "mechanism"])
    beyond = f"{(table['claimed'] > most).sum()} claims lie beyond what {draws} draws can show"
    apart = f"{(table['shown'] > 0).sum()} of {len(table)}"
    verdict = f"refuted: {refuted}" if refuted else beyond
    fig.suptitle(f"An epsilon above 0 is shown for {apart} tools;\n{verdict}")
    return fig


@drawing
def inversions(table: pd.DataFrame, guessing: str, title: str) -> Figure:
    """Content words and names found, by what was released and by attack.

    Of columns release, attack, what ("content words", "names"), value, low, high, n; `guessing` is
    the attack that knows nothing of the vector, which is drawn as a line.
    """
    kinds = table["what"].unique()
    fig, axes = plt.subplots(1, len(kinds), figsize=(PAGE, 3.9), sharey=True, squeeze=False)
    releases = table["release"].unique()[::-1]
    attacks = [attack for attack in table["attack"].unique() if attack != guessing]
    colors = dict(zip(attacks, ("blue", "orange", "green"), strict=False))
    height = 0.72 / len(attacks)
    for ax, kind in zip(axes[0], kinds, strict=True):
        here = table[table["what"] == kind]
        for number, attack in enumerate(attacks):
            part = here[here["attack"] == attack].set_index("release").reindex(releases)
            place = np.arange(len(part)) - height * (number - (len(attacks) - 1) / 2)
            look = {"color": COLORS[colors[attack]], "label": attack}
            ax.barh(place, part["value"], 0.95 * height, xerr=reach(part), **look)
        chance = here.loc[here["attack"] == guessing, "value"].mean()
        ax.axvline(chance, ls=":", color="black", label=guessing)
        ax.set(xlabel=f"{kind} found (n = {here['n'].max():.0f})")
        percent(ax.xaxis)
    axes[0, 0].set_yticks(np.arange(len(releases)), releases, fontsize=10)
    legend_below(fig, 2, fontsize=9, handlelength=1.2, columnspacing=1.2)
    fig.suptitle(title)
    return fig
