"""Which of two texts was it? A classifier that has seen outputs of both, and what it proves.

    first, second = mechanism.sanitize([text] * 400), mechanism.sanitize([other] * 400)
    played = play(first, second, rng)
    played.epsilon          a guarantee below this one is refuted
    most_shown(400)         what a classifier that is always right would show

Half of the outputs teach the attacker, and choose the event that separates the two texts best; the
other half, unseen until then, counts it. If the mechanism guarantees epsilon for these two texts,
then P(event | one) <= exp(epsilon) P(event | other) for every event, whatever happens inside: so
this is an audit of tools of which nothing but outputs is known. The classifier looks at words,
letters, case, white space, shapes and lengths; what is hidden otherwise it does not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from textpriv import stats
from textpriv.attacks.linkage import checked_pair_of_lists
from textpriv.attacks.style import shape, visible
from textpriv.checks import LEVEL, FloatArray, check_generator, checked
from textpriv.errors import InvalidInput
from textpriv.stats import Estimate

FEWEST = 20  # outputs of either text

_FOLDS = 5  # of the half that teaches: scores of outputs that the classifier has not seen

_share = lru_cache(maxsize=4096)(stats.share)  # the same few at the many thresholds of a game


@dataclass(frozen=True)
class GameOutcome:
    """What came of a game.

    Attributes
    ----------
    epsilon : lower bound on the epsilon of the mechanism for these two texts, at the stated
        confidence; 0 where nothing was shown
    accuracy : share of unseen outputs whose text was named; guessing gives 0.5 where there are as
        many of either text
    """

    epsilon: float
    accuracy: Estimate


@checked(confidence=LEVEL)
def play(
    first: Sequence[str] | FloatArray,
    second: Sequence[str] | FloatArray,
    rng: np.random.Generator,
    *,
    confidence: float = stats.CONFIDENCE,
) -> GameOutcome:
    """Tell outputs of one text from those of another, and bound the epsilon that allows it.

    Parameters
    ----------
    first, second : at least FEWEST outputs each, independent draws: texts, or vectors as rows
    rng : divides them into halves
    confidence : that epsilon is not below the bound

    Raises
    ------
    InvalidInput : fewer outputs

    Notes
    -----
    Both ends of the bound are Clopper and Pearson's and hold together (Bonferroni). A small bound
    says that this attacker shows no more with so few draws; see `most_shown`. After Jagielski,
    Ullman, Oprea 2020, Auditing Differentially Private Machine Learning; here each draw is one
    output.
    """
    check_generator(rng)
    x, classifier = _seen(first, second)
    is_first = np.repeat([1, 0], [len(first), len(second)])
    is_counted = np.zeros(len(is_first), dtype=bool)
    for which in (0, 1):
        rows = rng.permutation(np.flatnonzero(is_first == which))
        is_counted[rows[: len(rows) // 2]] = True
    taught, counted = (
        (x[np.flatnonzero(rows)], is_first[rows] == 1) for rows in (~is_counted, is_counted)
    )
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
    tried = cross_val_predict(classifier, *taught, cv=folds, method="decision_function")
    levels = np.unique(tried)
    thresholds = [0.0, *(levels[1:] + levels[:-1]) / 2]
    events = [(threshold, towards) for threshold in thresholds for towards in (True, False)]
    bounds = [_bound(tried, taught[1], *event, confidence) for event in events]
    scores = classifier.fit(*taught).decision_function(counted[0])
    best = events[int(np.argmax(bounds))]
    epsilon = _bound(scores, counted[1], *best, confidence)
    right = int(((scores > 0) == counted[1]).sum())
    return GameOutcome(max(0.0, epsilon), stats.share(right, len(scores)))


def most_shown(draws: int, *, confidence: float = stats.CONFIDENCE) -> float:
    """The bound that `play` would give for so many outputs of each text, all told apart."""
    counted = draws // 2
    ends = (stats.share(hits, counted, confidence=confidence) for hits in (counted, 0))
    always, never = ends
    return float(np.log(always.low / never.high))


def _bound(
    scores: FloatArray,
    is_first: NDArray[np.bool_],
    threshold: float,
    towards: bool,
    confidence: float,
) -> float:
    """ln P(event | one) / P(event | other) from below.

    The event is a score from the threshold on, which speaks for the first text, or one below it.
    """
    happens = (scores >= threshold) == towards
    likely, unlikely = (
        _share(int(happens[text].sum()), int(text.sum()), confidence=confidence)
        for text in (is_first == towards, is_first != towards)
    )
    with np.errstate(divide="ignore"):
        return float(np.log(likely.low) - np.log(unlikely.high))


def _seen(
    first: Sequence[str] | FloatArray, second: Sequence[str] | FloatArray
) -> tuple[sparse.csr_matrix | NDArray[np.object_] | FloatArray, Pipeline]:
    """All outputs, and a classifier for outputs of their kind."""
    if min(len(first), len(second)) < FEWEST:
        raise InvalidInput(
            f"first, second: got {len(first)} and {len(second)} outputs, expected at least {FEWEST}"
        )
    last = LogisticRegression(C=10.0, max_iter=1000)
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.concatenate([first, second]), make_pipeline(StandardScaler(), last)
    weights: dict[str, Any] = {"lowercase": False, "sublinear_tf": True}
    words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), **weights)
    letters, shapes = (
        TfidfVectorizer(preprocessor=read, analyzer="char", ngram_range=(1, most), **weights)
        for read, most in ((visible, 4), (shape, 8))
    )
    lengths = make_pipeline(FunctionTransformer(_lengths), StandardScaler())
    known, seen = checked_pair_of_lists(first, second)
    # A mark that all outputs have: an empty one is an output too.
    marked = np.array([f"| {each}" for each in (*known, *seen)], dtype=object)
    return marked, make_pipeline(make_union(words, letters, shapes, lengths), last)


def _lengths(texts: NDArray[np.object_]) -> FloatArray:
    """Logarithms of the numbers of characters and of words: (texts, 2)."""
    return np.log1p([[len(text), len(text.split())] for text in texts])
