"""Parts of notebook 01: at which epsilon a mechanism keeps a share of the words, and a classifier.

Epsilon means something else in every mechanism, so they are compared at *matched* settings:
each at the epsilon at which it keeps the same share of the content words of a corpus. That
makes their effect on the text alike, not their protection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field
from scipy.optimize import brentq
from scipy.special import logit
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline

from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import Corpus, Tokenizer
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.sweep import chance_kept
from textpriv.report.difference import ALONE, Difference, Finding

RANDOM: Mapping[str, bool] = MappingProxyType({"random-words": False, "random-words+": True})
"""Names of random words (`random_words`), and whether function words are kept."""


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


def randomized_response(
    ids: NDArray[np.int64], kept: float, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Each word (id) itself with probability `kept`, else another of `size`, all alike.

    k-ary randomized response, which knows nothing of meaning: what mechanisms that prefer near
    words have to beat. Unknown words (-1) become any word.

    References
    ----------
    Kairouz, Oh and Viswanath 2016, Extremal Mechanisms for Local Differential Privacy.
    """
    others = (ids + rng.integers(1, size, ids.shape)) % size
    drawn = np.where(ids < 0, rng.integers(size, size=ids.shape), others)
    return np.where((ids >= 0) & (rng.random(ids.shape) < kept), ids, drawn)


def random_words(
    corpus: Corpus, kept: float, table: Embedding, rng: np.random.Generator, *, spared: bool
) -> Corpus:
    """A corpus under `randomized_response`; with `spared` function words stay as they are."""
    ids = randomized_response(corpus.ids, kept, len(table), rng)
    function_words = table.ids(sorted(ENGLISH_STOP_WORDS))
    stay = spared & (corpus.ids >= 0) & np.isin(corpus.ids, function_words)
    return corpus.with_ids(np.where(stay, corpus.ids, ids))


def verdicts(
    accuracy: pd.DataFrame, kept: float, difference: Callable[[str, str], Difference]
) -> pd.DataFrame:
    """Each mechanism's accuracy at one share kept, compared with clean text and random words.

    Of columns corpus, data, mechanism, kept. Columns `clean` and `random` are added: "above",
    "below" or "undecided", each corrected for all rows (Bonferroni). What spares function words
    (a name that ends in +) is compared with random words that do.

    Parameters
    ----------
    difference : of two measurements by name, see `Run.difference`
    """
    rows = accuracy[(accuracy["kept"] == kept) & ~accuracy["mechanism"].isin(RANDOM)]

    def verdict(row: Mapping[str, Any], other: str) -> str:
        names = (f"sentiment.{row['data']}.{name}" for name in (f"{row['mechanism']}{at}", other))
        apart = difference(*names)
        return apart.verdict if apart.p * len(rows) < ALONE else "undecided"

    at, table = f".kept{kept:g}", rows.to_dict("records")
    spares = ["+" if row["mechanism"].endswith("+") else "" for row in table]
    return rows.assign(
        clean=[verdict(row, "original.kept1") for row in table],
        random=[
            verdict(row, f"random-words{plus}{at}") for row, plus in zip(table, spares, strict=True)
        ],
    )


def counts(rows: pd.DataFrame) -> pd.DataFrame:
    """How many mechanisms `verdicts` sets above, below or neither of random words, by corpus.

    Columns corpus, verdict, value, n (mechanisms).
    """
    return pd.DataFrame(
        {"corpus": corpus, "verdict": verdict, "value": (part == verdict).sum(), "n": len(part)}
        for corpus, part in rows.groupby("corpus", sort=False)["random"]
        for verdict in ("above", "below", "undecided")
    )


def beside_random(rows: pd.DataFrame, kept: float) -> Finding:
    """What `verdicts` come to: under how many mechanisms near words help, and which.

    Needs names of mechanisms as figures write them.
    """
    told = [
        f"on {corpus}, {verdict}: {', '.join(part['mechanism'])}"
        for (corpus, verdict), part in rows.groupby(["corpus", "random"], sort=False)
    ]
    found = counts(rows)
    better, worse = (found[found["verdict"] == each] for each in ("above", "below"))
    more = ", ".join(f"{row.value} of {row.n} on {row.corpus}" for row in better.itertuples())
    title = "Some mechanisms help" if better["value"].any() else "No mechanism is shown to help"
    clear = int((rows["clean"] == "below").sum())
    return Finding(
        f"{title} a classifier more\nthan random words do ({kept:.0%} kept): better in\n"
        f"{more}, worse in {' and '.join(map(str, worse['value']))}",
        f"At {kept:.0%} kept, compared with random words in the same number: {'; '.join(told)}. "
        f"Below clean text: {clear} of {len(rows)}.",
    )


def response_epsilon(kept: float, size: int) -> float:
    """What `randomized_response` promises: the largest log-ratio of an output, for any two words.

    An output is likeliest under the word itself (`kept`) and least likely under every other, where
    it is one of `size` - 1.
    """
    return float(logit(kept) + np.log(size - 1))


def classifier(seed: int) -> Pipeline:
    """TF-IDF of words and pairs of words, then logistic regression."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\S+"),
        LogisticRegression(C=4.0, max_iter=1000, random_state=seed),
    )


def trained(
    documents: Documents, tokenizer: Tokenizer, test_size: int, count: int, rng: np.random.Generator
) -> tuple[list[str], NDArray[Any], list[Pipeline]]:
    """Texts and labels of a stratified test set, and `count` classifiers of 90% of the rest each.

    What differs between the classifiers is which 90% they saw, so that one sanitized test set
    serves all of them.
    """
    texts = np.array(tokenizer.words_of(documents.texts), dtype=object)
    labels = np.asarray(documents.column("label"))
    train, test = train_test_split(
        np.arange(len(texts)),
        test_size=test_size,
        stratify=labels,
        random_state=int(rng.integers(2**31)),
    )
    models = []
    for number in range(count):
        part = rng.choice(train, size=int(0.9 * len(train)), replace=False)
        models.append(classifier(number).fit(texts[part], labels[part]))
    return [documents.texts[i] for i in test], labels[test], models
