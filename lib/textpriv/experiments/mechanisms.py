"""Parts of notebook 01: at which epsilon a mechanism keeps a share of the words, and a classifier.

Epsilon means something else in every mechanism, so they are compared at *matched* settings:
each at the epsilon at which it keeps the same share of the content words of a corpus. That
makes their effect on the text alike, not their protection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field
from scipy.optimize import brentq
from scipy.special import logit
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import Corpus, Tokenizer
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.sweep import chance_kept
from textpriv.report.difference import ALONE, Difference, Finding

RANDOM = "randomized-response"
READERS = {"words": "counts words", "vectors": "averages word vectors"}
"""Classifiers by what they do."""
BETTER = "better"  # whichever of them is right more often about a kind of text
_WHO = {name: f"a classifier that {does}" for name, does in READERS.items()}
_WHO[BETTER] = "whichever of the two is right more often on each side"
OWN, REDRAWN = "own", "redrawn"  # a mechanism's replacements, or random words in their places


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 01, set by the profile."""

    corpus: str  # of sentences with a label
    vocabulary: int | None = None  # most frequent words of the embedding; None: all
    documents: int | None = None  # sentences; None: all
    matched_kept: tuple[float, ...] = Field(min_length=1)  # shares of content words
    matching_tokens: int = Field(ge=10)
    words: int = Field(ge=2)  # distinct content words, for N_w and S_w
    draws: int = Field(ge=10)  # of each word
    grid_points: int = Field(ge=3)  # epsilons of the curves of N_w
    replaced_tokens: int = Field(ge=10)
    test_documents: int = Field(ge=10)
    classifier_seeds: int = Field(ge=1)
    long_documents: int = Field(ge=10)
    long_training: int = Field(ge=100)
    slow: tuple[str, ...]  # which sanitize sentences only, not whole reviews


def kept_curve(
    mechanism: Mechanism, ids: NDArray[np.int64], rng: np.random.Generator
) -> Callable[[float], float]:
    """Expected share of tokens (ids, with repeats) that stay, as a function of epsilon > 0.

    The mean of `sweep.chance_kept`. All randomness is drawn here: the function returned is
    deterministic.
    """
    kept = chance_kept(mechanism, ids, rng)
    return lambda epsilon: float(kept(epsilon).mean())


def epsilon_keeping(kept: float, curve: Callable[[float], float], near: float = 10.0) -> float:
    """Epsilon between 0.1 and 2,000 at which a `kept_curve` reaches `kept`, to one in a thousand.

    NaN where the mechanism keeps more or fewer at every epsilon. The curve, which grows, is looked
    at in steps of a factor of two away from `near`, the same for every share, so that a curve that
    remembers is asked little.
    """

    def excess(log_epsilon: float) -> float:
        share = np.clip(curve(float(np.exp(log_epsilon))), 1e-9, 1 - 1e-9)
        return float(logit(share) - logit(kept))  # nearly straight

    lowest, highest = np.log([0.1, 2000.0])
    low = high = float(np.clip(np.log(near), lowest, highest))
    while excess(high) < 0:
        if high == highest:
            return np.nan
        low, high = high, min(high + np.log(2), highest)
    while excess(low) > 0:
        if low == lowest:
            return np.nan
        low, high = max(low - np.log(2), lowest), low
    return float(np.exp(low if low == high else brentq(excess, low, high, xtol=1e-3)))


def epsilon_range(
    epsilon: float, curve: Callable[[float], float], tokens: int
) -> tuple[float, float]:
    """Epsilons two standard errors of a share of so many tokens away, by the curve's slope.

    NaN where the curve is flat, as one that is drawn on few tokens may be.
    """
    step = 0.05
    below, above = curve(epsilon * np.exp(-step)), curve(epsilon * np.exp(step))
    if above <= below:
        return np.nan, np.nan
    share = curve(epsilon)
    reach = 2 * np.sqrt(share * (1 - share) / tokens) * 2 * step / (above - below)
    return float(epsilon * np.exp(-reach)), float(epsilon * np.exp(reach))


def window(epsilons: ArrayLike, shares: ArrayLike) -> float:
    """Factor by which epsilon grows while a share goes from 10% to 90%; NaN beyond these epsilons.

    Of ascending epsilons and the share at each, (points,). Between two of them the log odds of the
    share are taken for straight in log epsilon.
    """
    reached = np.maximum.accumulate(np.asarray(shares, dtype=np.float64))  # but for errors of draws
    if reached[0] > 0.1 or reached[-1] < 0.9:
        return np.nan
    odds = logit(np.clip(reached, 1e-9, 1 - 1e-9))
    low, high = np.interp(logit([0.1, 0.9]), odds, np.log(epsilons))
    return float(np.exp(high - low))


def redrawn(clean: Corpus, sanitized: Corpus, size: int, rng: np.random.Generator) -> Corpus:
    """What was replaced, replaced by any other of `size` words, all alike; the rest stays.

    So two texts differ in nothing but which words replace others.
    """
    others = (clean.ids + rng.integers(1, size, len(clean.ids))) % size
    return sanitized.with_ids(np.where(sanitized.ids == clean.ids, clean.ids, others))


def beside_random(
    accuracy: pd.DataFrame, difference: Callable[[str, str], Difference]
) -> pd.DataFrame:
    """Accuracy on a mechanism's own replacements minus that on random words in their places.

    Of columns corpus, data, mechanism, kept, reader, words (OWN or REDRAWN), value and n, and of
    `Run.difference`. A row for every mechanism, share kept and reader, then one whose reader is
    BETTER: there each of the two texts is read by the classifier that is right more often about it.
    Columns: corpus, mechanism, kept, reader, value, low, high (95% of this comparison, for the
    readers chosen), n, p (corrected for all pairs of readers in all rows, Bonferroni), verdict
    ("above", "below" or "undecided").
    """
    name = "sentiment.{data}.{mechanism}.kept{kept:g}.{reader}.{words}".format_map
    at = accuracy[~accuracy["mechanism"].isin(["original", RANDOM])]
    at = at.assign(name=[name(row) for row in at.to_dict("records")])
    keys = ["corpus", "mechanism", "kept", "reader"]
    better = at.loc[at.groupby([*keys[:3], "words"], sort=False)["value"].idxmax()]
    every = pd.concat([at, better.assign(reader=BETTER)])
    own, random = (
        every.loc[every["words"] == words, [*keys, "name", "n"]] for words in (OWN, REDRAWN)
    )
    compared = own.merge(random, on=keys, suffixes=("", "_random"))
    tests = len(READERS) ** 2 * int((compared["reader"] == BETTER).sum())
    rows = []
    for row in compared.to_dict("records"):
        apart = difference(row["name"], row["name_random"])
        p = min(1.0, apart.p * tests)
        verdict = apart.verdict if p < ALONE else "undecided"
        gain = {"value": apart.value, "low": apart.low, "high": apart.high, "n": row["n"], "p": p}
        rows.append({key: row[key] for key in keys} | gain | {"verdict": verdict})
    return pd.DataFrame(rows)


def near_or_random(gains: pd.DataFrame, kept: float) -> Finding:
    """What `beside_random` comes to: under which mechanisms own replacements are worth more.

    Needs names of mechanisms as figures write them.
    """
    told = []
    ordered = gains.sort_values(["corpus", "kept"], ascending=[False, True], kind="stable")
    for (corpus, share, reader), part in ordered.groupby(["corpus", "kept", "reader"], sort=False):
        if share == kept or reader == BETTER:  # at other shares the better one alone
            names = part.groupby("verdict")["mechanism"].agg(", ".join)
            more, less = (names.get(each, "none") for each in ("above", "below"))
            about = f"On {corpus}, {share:.0%} kept, {_WHO[str(reader)]}"
            told.append(f"- {about}: more under {more}; less under {less}.")
    corpus = ordered["corpus"].iloc[0]
    first = gains.query("corpus == @corpus and kept == @kept and reader == @BETTER")["verdict"]
    more, less, undecided = ((first == each).sum() for each in ("above", "below", "undecided"))
    return Finding(
        "Compared with random words in the same places,\nreplacements are worth more under "
        f"{more} of {len(first)} mechanisms,\nless under {less} ({undecided} undecided; {kept:.0%} "
        f"kept, {corpus})",
        "Accuracy on a mechanism's replacements, compared with random words in the same places "
        "(significantly, corrected for all comparisons):\n" + "\n".join(told),
    )


def classifier(seed: int) -> Pipeline:
    """A classifier that counts: TF-IDF of words and pairs of words, then logistic regression."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\S+"),
        LogisticRegression(C=4.0, max_iter=1000, random_state=seed),
    )


def vector_classifier(embedding: Embedding, seed: int) -> Pipeline:
    """A classifier that knows which words are near: the mean vector, then logistic regression.

    To it a near word in place of another is hardly a change.
    """
    return make_pipeline(
        CountVectorizer(vocabulary=embedding.words, lowercase=False, token_pattern=r"\S+"),
        Normalizer("l1"),
        FunctionTransformer(lambda shares: shares @ embedding.vectors),
        StandardScaler(),
        LogisticRegression(C=0.01, max_iter=1000, random_state=seed),
    )


def right(models: Sequence[Pipeline], texts: list[str], labels: NDArray[Any]) -> NDArray[Any]:
    """Share of the classifiers that are right about each text: (texts,).

    Half of the texts, those with the highest scores, are called positive, as half of them are: to
    a shift of all scores, as sanitizing may cause, accuracy is blind.
    """
    scores = [model.decision_function(texts) for model in models]
    positive = labels == models[0].classes_[1]
    return np.mean([(each > np.median(each)) == positive for each in scores], axis=0)


def trained(
    documents: Documents,
    tokenizer: Tokenizer,
    readers: Mapping[str, Callable[[int], Pipeline]],
    test_size: int,
    count: int,
    rng: np.random.Generator,
) -> tuple[list[str], NDArray[Any], dict[str, list[Pipeline]]]:
    """Texts and labels of a stratified test set, and `count` classifiers of each reader.

    Each is made by a seed and learns from 90% of the other documents. What differs between those of
    a reader is which 90% they saw, so that one sanitized test set serves all of them.
    """
    texts = np.array(tokenizer.words_of(documents.texts), dtype=object)
    labels = np.asarray(documents.column("label"))
    train, test = train_test_split(
        np.arange(len(texts)),
        test_size=test_size,
        stratify=labels,
        random_state=int(rng.integers(2**31)),
    )
    parts = [rng.choice(train, size=int(0.9 * len(train)), replace=False) for _ in range(count)]
    models = {
        name: [make(number).fit(texts[part], labels[part]) for number, part in enumerate(parts)]
        for name, make in readers.items()
    }
    return [documents.texts[i] for i in test], labels[test], models
