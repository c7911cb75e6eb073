"""Parts of notebook 01: at which epsilon a mechanism keeps a share of the words, and accuracies.

Epsilon means something else in every mechanism, so they are compared at *matched* settings:
each at the epsilon at which it keeps the same share of the content words of a corpus. That
makes their effect on the text alike, not their protection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.optimize import brentq
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from textpriv import stats
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.sweep import chance_kept


class Sizes(BaseModel):
    """Sizes of notebook 01, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str  # of sentences with a label
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
    slow: tuple[str, ...]


def kept_curve(
    mechanism: Mechanism, ids: NDArray[np.int64], rng: np.random.Generator
) -> Callable[[float], float]:
    """Expected share of tokens (ids, with repeats) that stay, as a function of epsilon > 0.

    The mean of `sweep.chance_kept`. All randomness is drawn here: the function returned is
    deterministic.
    """
    kept = chance_kept(mechanism, ids, rng)
    return lambda epsilon: float(kept(epsilon).mean())


def epsilon_keeping(kept: float, curve: Callable[[float], float]) -> float:
    """Epsilon between 0.1 and 2,000 at which a `kept_curve` reaches `kept`, to one in a thousand.

    NaN where the mechanism keeps more or fewer at every epsilon.
    """

    def excess(log_epsilon: float) -> float:
        return curve(float(np.exp(log_epsilon))) - kept

    low, high = float(np.log(0.1)), float(np.log(2000.0))
    if excess(low) > 0 or excess(high) < 0:
        return np.nan
    return float(np.exp(brentq(excess, low, high, xtol=1e-3)))


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


def classifier(seed: int) -> Pipeline:
    """TF-IDF of words and pairs of words, then logistic regression."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\S+"),
        LogisticRegression(C=4.0, max_iter=1000, random_state=seed),
    )


def accuracies(outcomes: Iterable[tuple[str, float, NDArray[np.bool_], float]]) -> pd.DataFrame:
    """Mean accuracy of each mechanism at each setting, over the runs of a classifier.

    A run is its mechanism, nominal share of words kept, whether the answer to each document was
    right, and the share of words kept in these documents. Columns: mechanism, kept, kept_here (of
    the last run), accuracy, low, high, n, runs. The interval counts one run's documents, since runs
    share documents.
    """
    table = pd.DataFrame([*outcomes], columns=["mechanism", "kept", "right", "kept_here"])
    rows = []
    for _, runs in table.groupby(["mechanism", "kept"], sort=False):
        row = runs.iloc[-1].drop("right").to_dict()
        accuracy, n = float(np.mean([right.mean() for right in runs["right"]])), len(runs.iat[0, 2])
        found = stats.share(round(accuracy * n), n)
        low, high = min(found.low, accuracy), max(found.high, accuracy)
        row |= {"accuracy": accuracy, "low": low, "high": high, "n": n, "runs": len(runs)}
        rows.append(row)
    return pd.DataFrame(rows)
