"""Notebook 01: what each word-level mechanism does to the same text.

Epsilon means something else in every mechanism, so they are compared at *matched* settings:
each at the epsilon at which it keeps the same share of the content words of a corpus. That
makes their effect on the text alike, not their protection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.optimize import brentq
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from tqdm.auto import tqdm

from textpriv import stats
from textpriv.channel import Channel
from textpriv.corpora import Documents
from textpriv.embeddings import Embedding
from textpriv.mechanisms import TEM, FiniteMechanism, Madlib, Mechanism
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import AllRadii, Distances, ExactSearch, radius_cdf, random_directions
from textpriv.privacy import claimed_loss
from textpriv.tokens import Corpus, Tokenizer

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Sizes(BaseModel):
    """Sizes of notebook 01, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vocabulary: int | None = None  # most frequent words of the embedding; None: all
    documents: int | None = None  # sentences; None: all
    shown: tuple[int, ...]
    matched_kept: tuple[float, ...]
    matching_tokens: int = Field(ge=10)
    words: int = Field(ge=2)
    draws: int = Field(ge=2)
    grid_points: int = Field(ge=2)
    replaced_tokens: int = Field(ge=10)
    speed_tokens: int = Field(ge=10)
    test_documents: int = Field(ge=10)
    classifier_seeds: int = Field(ge=1)
    long_documents: int = Field(ge=10)
    long_training: int = Field(ge=100)
    interactive_words: int = Field(ge=100)
    slow: tuple[str, ...]


@dataclass(frozen=True)
class Material:
    """Sentences, their ids, and every mechanism over one embedding (at a nominal epsilon)."""

    embedding: Embedding
    documents: Documents
    tokenizer: Tokenizer
    corpus: Corpus
    mechanisms: Mapping[str, Mechanism]
    build_seconds: Mapping[str, float]


def most_frequent(embedding: Embedding, count: int | None) -> Embedding:
    """The first words of an embedding in order of frequency; all of them where `count` is None."""
    return embedding if count is None else embedding.subset(np.arange(min(count, len(embedding))))


def some(documents: Documents, count: int | None, rng: np.random.Generator) -> Documents:
    """A sample of the documents; all of them where `count` is None."""
    return documents if count is None else documents.sample(min(count, len(documents)), rng)


def prepare(embedding: Embedding, documents: Documents, *, device: str = "cpu") -> Material:
    """Encode the documents and build the mechanisms.

    Word frequencies, which SanText+ and conservative CusText need, are the embedding's own
    order, which is public. Frequencies of the private text would void the claim.
    """
    tokenizer = Tokenizer(embedding.words)
    search = ExactSearch(embedding.vectors, device=device)
    mechanisms, seconds = {}, {}
    for name, entry in WORD_LEVEL.items():
        start = time.perf_counter()
        mechanisms[name] = entry.make(embedding, search)
        seconds[name] = time.perf_counter() - start
    corpus = tokenizer.encode(documents.texts)
    return Material(embedding, documents, tokenizer, corpus, mechanisms, seconds)


def explain(material: Material) -> pd.DataFrame:
    """The claim of every mechanism: what is protected, the unit of epsilon, what stays clear."""
    rows = {
        name: {
            "guarantee": mechanism.claim.definition,
            "protects": mechanism.claim.protects,
            "unit of epsilon": mechanism.claim.unit,
            "stays in clear": mechanism.claim.in_clear,
            "unknown words": mechanism.claim.unknown,
        }
        for name, mechanism in material.mechanisms.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


# --- Matched settings ----------------------------------------------------------------------


def content_tokens(material: Material) -> IntArray:
    """Tokens of the corpus that the vocabulary has and that are no stopwords."""
    known = material.corpus.ids[material.corpus.ids >= 0]
    return known[~np.isin(known, material.embedding.ids(sorted(ENGLISH_STOP_WORDS)))]


def kept_curve(
    mechanism: Mechanism, ids: IntArray, rng: np.random.Generator
) -> Callable[[float], float]:
    """Expected share of these tokens that stay, as a function of epsilon.

    Exact for a channel; integrated over the noise's length, along one direction per token,
    for MADLIB and Mahalanobis; one draw per token, always with the same random numbers,
    otherwise.
    """
    if isinstance(mechanism, Channel):
        channel = cast(FiniteMechanism, mechanism)
        words, counts = np.unique(ids, return_counts=True)

        def exact(epsilon: float) -> float:
            stays = np.exp(channel.with_epsilon(epsilon).log_prob(words, words))
            return float(counts @ stays / counts.sum())

        return exact
    if isinstance(mechanism, Madlib) and isinstance(mechanism.search, ExactSearch):
        dimension = mechanism.embedding.dimension
        units = mechanism.stretched(random_directions(len(ids), dimension, rng))
        radii = AllRadii(mechanism.search).first_crossing(ids, units[:, None])[0]
        return lambda epsilon: float(radius_cdf(radii, dimension, epsilon).mean())
    seed = int(rng.integers(2**32))

    def drawn(epsilon: float) -> float:
        outputs = mechanism.with_epsilon(epsilon).sanitize_ids(ids, np.random.default_rng(seed))
        return float((outputs == ids).mean())

    return drawn


def match(curve: Callable[[float], float], kept: float) -> float | None:
    """Epsilon between 0.1 and 2,000 at which the curve reaches `kept`, to one in a thousand.

    None where the mechanism keeps more or fewer at every epsilon.
    """

    def excess(log_epsilon: float) -> float:
        return curve(float(np.exp(log_epsilon))) - kept

    low, high = float(np.log(0.1)), float(np.log(2000.0))
    if excess(low) > 0 or excess(high) < 0:
        return None
    return float(np.exp(brentq(excess, low, high, xtol=1e-3)))


def matched_settings(material: Material, sizes: Sizes, rng: np.random.Generator) -> pd.DataFrame:
    """Epsilon of every mechanism at each share of kept content tokens.

    Columns: mechanism, kept, epsilon, low, high (epsilons at which the share is about two
    standard errors of the token sample lower and higher), claimed and ratio (see `_allowed`; of
    the distinct words of the sample), n.
    """
    content = content_tokens(material)
    ids = rng.choice(content, size=min(sizes.matching_tokens, len(content)), replace=False)
    words = np.unique(ids)
    nearest = _nearest_others(material.embedding, words)
    rows = []
    for name, mechanism in tqdm(material.mechanisms.items(), desc="matching", mininterval=5):
        curve = cache(kept_curve(mechanism, ids, rng))
        for kept in sizes.matched_kept:
            epsilon = match(curve, kept)
            low, high, claimed, ratio = (np.nan,) * 4
            if epsilon is not None:
                low, high = _range(curve, epsilon, len(ids))
                claimed, ratio = _allowed(mechanism.with_epsilon(epsilon), words, nearest)
            rows.append(
                {
                    "mechanism": name,
                    "kept": kept,
                    "epsilon": epsilon,
                    "low": low,
                    "high": high,
                    "claimed": claimed,
                    "ratio": ratio,
                    "n": len(ids),
                }
            )
    return pd.DataFrame(rows).astype({"epsilon": float, "low": float, "high": float})


def _nearest_others(embedding: Embedding, words: IntArray) -> IntArray:
    """The nearest other word of each: (words,)."""
    two = ExactSearch(embedding.vectors).nearest(embedding.vectors[words], 2)[0]
    return np.where(two[:, 0] == words, two[:, 1], two[:, 0])  # a twin may come first


def _allowed(mechanism: Mechanism, words: IntArray, others: IntArray) -> tuple[float, float]:
    """What a mechanism claims about some pairs of words, in the median.

    Returns
    -------
    claimed : share of the pairs about which it claims anything, 0..1
    ratio : median over these of the largest ln P(y|word) - ln P(y|other), in nats; NaN of none
    """
    bounds = claimed_loss(mechanism).between(words, others)
    finite = np.isfinite(bounds)
    return float(finite.mean()), float(np.median(bounds[finite])) if finite.any() else np.nan


def _range(curve: Callable[[float], float], epsilon: float, n: int) -> tuple[float, float]:
    """Epsilons two standard errors of a share of n tokens away, by the curve's slope.

    NaN where the curve is flat, as one that is drawn on few tokens may be.
    """
    step = 0.05
    below, above = curve(epsilon * np.exp(-step)), curve(epsilon * np.exp(step))
    if above <= below:
        return np.nan, np.nan
    share = curve(epsilon)
    reach = 2 * np.sqrt(share * (1 - share) / n) * 2 * step / (above - below)
    return float(epsilon * np.exp(-reach)), float(epsilon * np.exp(reach))


def show_settings(settings: pd.DataFrame) -> pd.DataFrame:
    """`matched_settings` for display: epsilon, its range, and the factor that is allowed."""

    def cell(row: pd.Series) -> str:
        if np.isnan(row["epsilon"]):
            return "-"
        factor = "any factor" if np.isnan(row["ratio"]) else f"e^{row['ratio']:.1f}"
        covered = f" for {row['claimed']:.0%}" if 0 < row["claimed"] < 1 else ""
        open_ = "" if np.isnan(row["low"]) else f" ({row['low']:.2f}-{row['high']:.2f})"
        return f"{row['epsilon']:.2f}{open_}, {factor}{covered}"

    cells = settings.assign(cell=settings.apply(cell, axis=1))
    table = cells.pivot(index="mechanism", columns="kept", values="cell")
    return table.loc[list(dict.fromkeys(settings["mechanism"]))]


def beyond_cutoff(tem: TEM, *, words: int = 200) -> float:
    """Share of the pairs of words whose distance TEM cuts off, from evenly spaced words."""
    some = np.unique(np.linspace(0, tem.size - 1, min(words, tem.size)).astype(np.int64))
    distance = Distances(tem.embedding.vectors).to(some).numpy()
    return float((distance > tem.gamma).sum() / (len(some) * (tem.size - 1)))


def at_matched(material: Material, settings: pd.DataFrame, kept: float) -> dict[str, Mechanism]:
    """Every mechanism that reaches this share of kept tokens, at its epsilon."""
    chosen = settings[(settings["kept"] == kept) & settings["epsilon"].notna()]
    return {
        row.mechanism: material.mechanisms[row.mechanism].with_epsilon(float(row.epsilon))
        for row in chosen.itertuples()
    }


def examples(
    material: Material, settings: pd.DataFrame, sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """The same sentences through every mechanism at every matched setting."""
    subset = material.documents.subset([i % len(material.documents) for i in sizes.shown])
    rows = [
        {"sentence": i, "kept": 1.0, "mechanism": "original", "epsilon": np.nan, "text": text}
        for i, text in enumerate(material.tokenizer.words_of(subset.texts))
    ]
    for kept in sizes.matched_kept:
        for name, mechanism in at_matched(material, settings, kept).items():
            rows += [
                {
                    "sentence": i,
                    "kept": kept,
                    "mechanism": name,
                    "epsilon": mechanism.epsilon,
                    "text": text,
                }
                for i, text in enumerate(mechanism.sanitize(subset.texts, rng))
            ]
    return pd.DataFrame(rows).sort_values(
        ["sentence", "kept"], ascending=[True, False], kind="stable", ignore_index=True
    )


# --- Kept words and distinct outputs -------------------------------------------------------


def kept_and_distinct(
    material: Material, settings: pd.DataFrame, sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """N_w and S_w against epsilon: share of draws that return the word, distinct outputs.

    Words are drawn from the distinct words of the corpus; `slow` mechanisms get a random part of
    them. The grid of epsilon of each mechanism spans a quarter to four times its matched epsilon
    in the middle setting.
    """
    known = np.unique(material.corpus.ids[material.corpus.ids >= 0])
    words = rng.choice(known, size=min(sizes.words, len(known)), replace=False)
    part = np.sort(words[: max(5, len(words) // 8)])  # before sorting, which is by frequency
    words = np.sort(words)
    middle = sizes.matched_kept[len(sizes.matched_kept) // 2]
    rows = []
    for name, mechanism in tqdm(
        at_matched(material, settings, middle).items(), desc="N_w and S_w", mininterval=5
    ):
        draws = sizes.draws
        chosen = part if name in sizes.slow else words
        for epsilon in mechanism.epsilon * np.geomspace(1 / 4, 4, sizes.grid_points):
            outputs = mechanism.with_epsilon(float(epsilon)).sanitize_ids(
                np.repeat(chosen, draws), rng
            )
            per_word = outputs.reshape(len(chosen), draws)
            kept = stats.mean((per_word == chosen[:, None]).mean(1), bounds=(0.0, 1.0))
            distinct = stats.mean([len(np.unique(row)) for row in per_word], bounds=(1.0, draws))
            for quantity, found in (("kept", kept), ("distinct", distinct)):
                rows.append(
                    {
                        "mechanism": name,
                        "epsilon": float(epsilon),
                        "quantity": quantity,
                        "value": found.value,
                        "low": max(0.0, found.low),
                        "high": min(1.0 if quantity == "kept" else float(draws), found.high),
                        "n": found.n,
                        "draws": draws,
                    }
                )
    return pd.DataFrame(rows)


def steepness(found: pd.DataFrame, *, low: float = 0.1, high: float = 0.9) -> str:
    """A sentence: by which factor epsilon grows while N_w goes from `low` to `high`.

    Read off between the epsilons of `kept_and_distinct`, along their logarithms.
    """
    factors, beyond = {}, []
    for name, part in found[found["quantity"] == "kept"].groupby("mechanism", sort=False):
        part = part.sort_values("epsilon")
        share = np.maximum.accumulate(part["value"])  # but for the error of the draws
        if share.min() > low or share.max() < high:
            beyond.append(str(name))
            continue
        ends = np.interp([low, high], share, np.log(part["epsilon"]))
        factors[str(name)] = float(np.exp(ends[1] - ends[0]))
    said = ", ".join(
        f"{name} {factors[name]:.1f}" for name in sorted(factors, key=factors.__getitem__)
    )
    rest = f" Not within this grid: {', '.join(beyond)}." if beyond else ""
    return (
        f"From {low:.0%} to {high:.0%} kept, epsilon grows by a factor of: {said or 'none'}.{rest}"
    )


# --- How far the replacements lie ----------------------------------------------------------


def how_far(
    material: Material,
    settings: pd.DataFrame,
    kept: float,
    sizes: Sizes,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Rank (1 = nearest) and distance of the words that replace a word, per mechanism."""
    content = content_tokens(material)
    ids_of_all = rng.choice(content, size=sizes.replaced_tokens, replace=False)
    vectors, distances = material.embedding.vectors, Distances(material.embedding.vectors)
    rows = []
    for name, mechanism in at_matched(material, settings, kept).items():
        outputs = mechanism.sanitize_ids(ids_of_all, rng)
        changed = outputs != ids_of_all
        ids, outputs = ids_of_all[changed], outputs[changed]
        offset = vectors[outputs].astype(np.float64) - vectors[ids]
        rows.append(
            pd.DataFrame(
                {
                    "mechanism": name,
                    "rank": distances.ranks(ids, outputs),
                    "distance": np.linalg.norm(offset, axis=1),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def far_summary(far: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of rank and the median distance of replacements, per mechanism."""
    by = far.groupby("mechanism", sort=False)
    return pd.DataFrame(
        {
            "replaced": by.size(),
            "rank, lower quartile": by["rank"].quantile(0.25),
            "rank, median": by["rank"].median(),
            "rank, upper quartile": by["rank"].quantile(0.75),
            "distance, median": by["distance"].median(),
            "within 10 nearest": by["rank"].apply(lambda rank: float((rank <= 10).mean())),
            "within 1000 nearest": by["rank"].apply(lambda rank: float((rank <= 1000).mean())),
        }
    )


def near_says(summary: pd.DataFrame, size: int) -> str:
    """A sentence on which mechanisms mostly replace by one of the ten nearest words.

    Parameters
    ----------
    summary : of `far_summary`
    size : words of the vocabulary
    """
    shares = {
        str(name): stats.share(round(row["within 10 nearest"] * row["replaced"]), row["replaced"])
        for name, row in summary.iterrows()
    }
    groups = {
        "more than half": [name for name, each in shares.items() if each.low > 0.5],
        "fewer than half": [name for name, each in shares.items() if each.high < 0.5],
    }
    open_ = [name for name in shares if not any(name in names for names in groups.values())]
    groups["undecided"] = open_
    said = "; ".join(
        f"{what}: " + ", ".join(f"{name} {shares[name].value:.1%}" for name in names)
        for what, names in groups.items()
        if names
    )
    return (
        f"Of the replacements, among the ten nearest words are: {said}. A uniform word would be "
        f"one of them in {10 / (size - 1):.2%} of cases."
    )


# --- What the text is still good for -------------------------------------------------------


def classifier(seed: int) -> Pipeline:
    """TF-IDF of words and pairs of words, then logistic regression."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\S+"),
        LogisticRegression(C=4.0, max_iter=1000, random_state=seed),
    )


def sentiment(
    material: Material, settings: pd.DataFrame, sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """Accuracy on sanitized sentences of a classifier trained on clean sentences.

    Columns: mechanism, kept (nominal), kept_here (share of content tokens kept in the test
    sentences), accuracy, low, high, n, runs. The interval is over test sentences; splits and
    draws differ between the runs that are averaged. `slow` mechanisms get one run.
    """
    texts = np.array(material.tokenizer.words_of(material.documents.texts), dtype=object)
    labels = np.asarray(material.documents.columns["label"])
    correct: dict[tuple[str, float], list[NDArray[np.bool_]]] = {}
    achieved: dict[tuple[str, float], float] = {}
    for seed in tqdm(range(sizes.classifier_seeds), desc="sentiment", mininterval=5):
        train, test = train_test_split(
            np.arange(len(texts)),
            test_size=min(sizes.test_documents, len(texts) // 3),
            stratify=labels,
            random_state=int(rng.integers(2**31)),
        )
        model = classifier(seed).fit(texts[train], labels[train])
        clean = model.predict(texts[test]) == labels[test]
        correct.setdefault(("original", 1.0), []).append(clean)
        held_out = material.tokenizer.encode([material.documents.texts[i] for i in test])
        for kept in sizes.matched_kept:
            for name, mechanism in at_matched(material, settings, kept).items():
                if name in sizes.slow and seed > 0:
                    continue
                sanitized = mechanism.sanitize_corpus(held_out, rng)
                right = model.predict(material.tokenizer.decode(sanitized)) == labels[test]
                correct.setdefault((name, kept), []).append(right)
                achieved[name, kept] = kept_content(material, held_out, sanitized)
    return pd.DataFrame(
        [_accuracy(*key, runs, achieved.get(key, 1.0)) for key, runs in correct.items()]
    )


def kept_content(material: Material, original: Corpus, sanitized: Corpus) -> float:
    """Share of the content tokens of a corpus that its sanitized form still has."""
    content = np.isin(original.ids, np.unique(content_tokens(material)))
    return float((original.ids == sanitized.ids)[content].mean())


def _accuracy(
    name: str, kept: float, runs: list[NDArray[np.bool_]], achieved: float = 1.0
) -> dict[str, object]:
    """Mean accuracy; the interval counts one run's sentences, since runs share sentences."""
    value = float(np.mean([run.mean() for run in runs]))
    n = len(runs[0])
    found = stats.share(round(value * n), n)
    return {
        "mechanism": name,
        "kept": kept,
        "kept_here": achieved,
        "accuracy": value,
        "low": min(found.low, value),
        "high": max(found.high, value),
        "n": n,
        "runs": len(runs),
    }


def sentiment_of_reviews(
    material: Material,
    reviews: Documents,
    settings: pd.DataFrame,
    sizes: Sizes,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """The same on whole reviews, where hundreds of words vote; without the `slow` ones.

    Epsilons are those matched on the sentences; `kept_here` says what they keep in reviews.
    """
    chosen = reviews.sample(sizes.long_training + sizes.long_documents, rng)
    words = material.tokenizer.words_of(chosen.texts)
    labels = np.asarray(chosen.columns["label"])
    cut = sizes.long_documents
    model = classifier(0).fit(words[cut:], labels[cut:])
    rows = [_accuracy("original", 1.0, [model.predict(words[:cut]) == labels[:cut]])]
    held_out = material.tokenizer.encode(chosen.texts[:cut])
    for kept in tqdm(sizes.matched_kept, desc="sentiment of reviews", mininterval=5):
        for name, mechanism in at_matched(material, settings, kept).items():
            if name in sizes.slow:
                continue
            sanitized = mechanism.sanitize_corpus(held_out, rng)
            right = model.predict(material.tokenizer.decode(sanitized)) == labels[:cut]
            here = kept_content(material, held_out, sanitized)
            rows.append(_accuracy(name, kept, [right], here))
    return pd.DataFrame(rows)


# --- Speed ---------------------------------------------------------------------------------


def speed(
    material: Material, settings: pd.DataFrame, kept: float, sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """Tokens per second of many sentences at once, ids in and ids out, and seconds to build."""
    rows = []
    for name, mechanism in at_matched(material, settings, kept).items():
        ids = material.corpus.ids[: sizes.speed_tokens]
        if name in sizes.slow:
            ids = ids[: len(ids) // 10]
        start = time.perf_counter()
        mechanism.sanitize_ids(ids, rng)
        seconds = time.perf_counter() - start
        rows.append(
            {
                "mechanism": name,
                "tokens": len(ids),
                "tokens_per_second": len(ids) / seconds,
                "build_seconds": material.build_seconds[name],
            }
        )
    return pd.DataFrame(rows)


# --- An attacker's first guess -------------------------------------------------------------


def best_guesses(
    channel: Channel, outputs: IntArray, prior: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The likeliest input of each output under a prior, and its posterior probability."""
    posterior = channel.posterior(outputs, prior)
    guess = posterior.argmax(1)
    return guess, posterior[np.arange(len(guess)), guess]


def attack_table(
    mechanism: FiniteMechanism,
    text: str,
    prior: FloatArray,
    rng: np.random.Generator | None = None,
) -> pd.DataFrame:
    """Token by token: what was written, what is sent, what an attacker guesses, how surely.

    The attacker considers words of the vocabulary only, so an unknown word is never
    guessed, however sure the guess.
    """
    tokenizer = Tokenizer(mechanism.embedding.words)
    corpus = tokenizer.encode([text])
    if not len(corpus.ids):
        return pd.DataFrame(columns=["written", "sent", "guessed", "sure", "right"])
    sent = mechanism.sanitize_corpus(corpus, rng).ids
    guess, confidence = best_guesses(mechanism, sent, prior)
    words = mechanism.embedding.words
    return pd.DataFrame(
        {
            "written": [words[i] if i >= 0 else "(unknown word)" for i in corpus.ids],
            "sent": [words[i] for i in sent],
            "guessed": [words[i] for i in guess],
            "sure": confidence.round(2),
            "right": guess == corpus.ids,
        }
    )


def interactive(mechanisms: Mapping[str, FiniteMechanism], prior: FloatArray, text: str) -> object:
    """Widget: mechanism, epsilon, own sentence; live output beside the attacker's guess."""
    import ipywidgets as widgets
    from IPython.display import display

    mechanism = widgets.Dropdown(options=list(mechanisms), description="mechanism")
    epsilon = widgets.FloatLogSlider(value=3, min=-1, max=2, description="epsilon")
    own = widgets.Text(value=text[:80], description="text", layout=widgets.Layout(width="90%"))
    again = widgets.Button(description="draw again")
    output = widgets.Output()

    def show(_: object = None) -> None:
        chosen = mechanisms[mechanism.value].with_epsilon(epsilon.value)
        with output:
            output.clear_output(wait=True)
            display(attack_table(chosen, own.value, prior))

    for control in (mechanism, epsilon, own):
        control.observe(show, names="value")
    again.on_click(show)
    show()
    return widgets.VBox([mechanism, epsilon, own, again, output])


def small_vocabulary(
    material: Material, texts: Sequence[str], kept: float, sizes: Sizes, rng: np.random.Generator
) -> tuple[dict[str, FiniteMechanism], FloatArray]:
    """Channels over the embedding's most frequent words, quick enough for live use, and a prior.

    Parameters
    ----------
    texts : public text whose word frequencies the attacker takes for the prior
    kept : share of content tokens at which the mechanisms are matched, on this vocabulary
    """
    embedding = most_frequent(material.embedding, sizes.interactive_words)
    part = prepare(embedding, material.documents)
    channels = {n: m for n, m in part.mechanisms.items() if isinstance(m, FiniteMechanism)}
    only = replace(part, mechanisms=channels)
    settings = matched_settings(only, sizes.model_copy(update={"matched_kept": (kept,)}), rng)
    prior = part.tokenizer.encode(texts).counts(len(embedding)) + 1.0
    matched = cast(dict[str, FiniteMechanism], at_matched(only, settings, kept))
    return matched, prior / prior.sum()
