"""Predicting what a sanitized text is still worth, with intervals that hold for a new document.

    predictor = Predictor.fit(rows, ALL, regressor="boosting", seed=0)
    predictor.predict(others)                       # expected similarity of the large summary
    predictor.interval(others, level=0.9)           # low, high

`rows` is a table with one line per document and epsilon: the columns "document" and "epsilon",
features, and the `TARGET`. The lines of one document resemble each other, and what is asked is
how well a prediction does on a document that nobody has seen. So documents are what is exchanged
everywhere: folds are cut between documents, resampling draws documents, and an interval counts
one document as one observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from textpriv import stats
from textpriv.channel import FloatArray, IntArray
from textpriv.checks import check_count, check_ids, check_integers
from textpriv.errors import InvalidInput
from textpriv.seeds import stream
from textpriv.stats import Estimate, Influence

TARGET = "large_sanitized"
BOUNDS = (-1.0, 1.0)  # of a cosine
MISJUDGED = 0.1  # beyond that, in the code released after Carpentier et al. 2024

# The paper's features (Carpentier et al., section 4.4).
A = ("epsilon",)
B = ("small_original",)  # similarity of the small model's summary of the original to the original
C = ("small_sanitized",)  # the same of its summary of the sanitized text
ALL = (*A, *B, *C)
# Features for which no model need write anything.
FREE = ("changed", "surprise", "text_similarity")

# All as scikit-learn has them, as in the release of Carpentier et al. (who has boosting).
_REGRESSORS: Mapping[str, Callable[[int], Any]] = {
    "mean": lambda seed: DummyRegressor(),
    "linear": lambda seed: LinearRegression(),
    "splines": lambda seed: make_pipeline(SplineTransformer(extrapolation="linear"), Ridge()),
    "neighbors": lambda seed: make_pipeline(StandardScaler(), KNeighborsRegressor()),
    "support": lambda seed: make_pipeline(StandardScaler(), SVR()),
    "tree": lambda seed: DecisionTreeRegressor(random_state=seed),
    "forest": lambda seed: RandomForestRegressor(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
}
REGRESSORS = tuple(_REGRESSORS)


def regressor(name: str, seed: int | None = 0) -> Any:
    """An unfitted regressor of scikit-learn, one of REGRESSORS; `seed` is of those that draw."""
    if name not in _REGRESSORS:
        raise InvalidInput(f"regressor: got {name!r}, expected one of {', '.join(REGRESSORS)}")
    return _REGRESSORS[name](int(stream(seed, "regressor", name).integers(2**31)))


# --- Folds for what was not seen ----------------------------------------------------------------


def folds(documents: ArrayLike, count: int, rng: np.random.Generator) -> IntArray:
    """Fold of each row, 0 .. count - 1, the same for all rows of a document: (rows,)."""
    group = check_integers(documents, what="documents")
    state = int(rng.integers(2**32))
    result = np.empty(len(group), dtype=np.int64)
    parts = GroupKFold(count, shuffle=True, random_state=state).split(group, groups=group)
    for number, (_, held_out) in enumerate(parts):
        result[held_out] = number
    return result


def _fitted(name: str, values: FloatArray, truth: FloatArray, seed: int | None) -> Any:
    return regressor(name, seed).fit(values, truth)


# --- How good a prediction is -------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """R2 and root mean squared error, with intervals over documents."""

    r2: Estimate
    rmse: Estimate


def scores(
    truth: ArrayLike,
    predicted: ArrayLike,
    documents: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
    sample: str | None = None,
) -> Scores:
    """R2 and RMSE of predictions; 95% percentile intervals of a bootstrap over documents.

    Of few documents these are too narrow: of 24 they cover in about 91%, and in 82% (R2) and 76%
    (RMSE) where a few documents are far off the others; of 480 in 94%.

    Parameters
    ----------
    truth, predicted : (rows,) finite; the truth not all equal
    documents : (rows,) integers, at least two different ones
    sample : name of what the documents were drawn from; keeps the `Influence` of each

    References
    ----------
    Carpentier et al. 2024, Table 1 (without intervals).
    """
    sums = _Sums.from_rows(truth, predicted, documents)
    weights = sums.resampled(resamples, rng)
    r2, rmse = (sums.estimate(statistic, weights) for statistic in (sums.r2, sums.rmse))
    if sample is None:
        return Scores(r2, rmse)
    of_r2, of_rmse = (Influence(sample, sums.document, each) for each in sums.effects())
    return Scores(replace(r2, influence=of_r2), replace(rmse, influence=of_rmse))


def gain(
    truth: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike,
    documents: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
) -> Scores:
    """By how much `predicted` beats `other` on the same rows: R2 that is more, RMSE that is less.

    See `scores`; both are resampled together, so that what is hard for both cancels.
    """
    first, second = (_Sums.from_rows(truth, each, documents) for each in (predicted, other))
    weights = first.resampled(resamples, rng)
    return Scores(
        first.estimate(lambda drawn: first.r2(drawn) - second.r2(drawn), weights),
        first.estimate(lambda drawn: second.rmse(drawn) - first.rmse(drawn), weights),
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Per document: its number, rows, sum of the truth and of its square, squared error."""

    document: IntArray
    count: FloatArray
    total: FloatArray
    square: FloatArray
    error: FloatArray

    @classmethod
    def from_rows(cls, truth: ArrayLike, predicted: ArrayLike, documents: ArrayLike) -> Self:
        group = check_integers(documents, what="documents")
        true, guess = both = np.stack([truth, predicted]).astype(np.float64)
        if not np.isfinite(both).all() or not np.ptp(true):
            raise InvalidInput("truth, predicted: expected finite numbers, the truth not all equal")
        unit, label = np.unique(group, return_inverse=True)
        if label.max() < 1:
            raise InvalidInput("documents: got one document, expected at least two to resample")
        center = true - true.mean()  # so that the sum of squares keeps its digits
        parts = (np.ones_like(true), center, center**2, (true - guess) ** 2)
        return cls(unit, *(np.bincount(label, part).astype(np.float64) for part in parts))

    def r2(self, weights: FloatArray) -> FloatArray:
        square = weights @ self.square
        spread = square - (weights @ self.total) ** 2 / (weights @ self.count)
        # Where all rows that were drawn are equal there is nothing to explain.
        spread = np.where(spread > 1e-12 * square, spread, np.nan)
        return 1 - (weights @ self.error) / spread

    def rmse(self, weights: FloatArray) -> FloatArray:
        return np.sqrt((weights @ self.error) / (weights @ self.count))

    def effects(self) -> tuple[FloatArray, FloatArray]:
        """What each document does to R2 and to RMSE, linearised: (documents,) each."""
        rows, error = self.count.sum(), self.error.sum()
        mean = self.total.sum() / rows
        # What a document adds to the sum of squares about the mean.
        square = self.square - 2 * mean * self.total + mean**2 * self.count
        spread = square.sum()
        to_r2 = -(self.error - error / spread * square) / spread
        to_rmse = self.error - error / rows * self.count
        if error:  # else all is right, and no document makes it less so
            to_rmse /= 2 * np.sqrt(rows * error)
        units = len(self.count)
        widened = np.sqrt(units / (units - 1))
        return widened * to_r2, widened * to_rmse

    def resampled(self, resamples: int, rng: np.random.Generator) -> FloatArray:
        """How often each document is drawn: (resamples, documents)."""
        units = len(self.count)
        return rng.multinomial(units, np.full(units, 1 / units), size=resamples).astype(np.float64)

    def estimate(
        self, statistic: Callable[[FloatArray], FloatArray], weights: FloatArray
    ) -> Estimate:
        """A function of weights where each document counts once, and its percentile interval."""
        value = float(statistic(np.ones((1, len(self.count))))[0])
        tail = (1 - stats.CONFIDENCE) / 2
        low, high = np.nanquantile(statistic(weights), [tail, 1 - tail])
        n = int(self.count.sum())
        return Estimate(value, min(float(low), value), max(float(high), value), n)


def misjudged(truth: ArrayLike, predicted: ArrayLike, documents: ArrayLike) -> dict[str, Estimate]:
    """Shares of rows that are promised more ("optimistic") or less ("pessimistic") than is true.

    By more than MISJUDGED.
    """
    excess = np.asarray(predicted, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
    return {
        "optimistic": stats.clustered_share(excess > MISJUDGED, documents),
        "pessimistic": stats.clustered_share(excess < -MISJUDGED, documents),
    }


# --- A predictor with intervals -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Predictor:
    """Regressors of several folds, and how wrong each was about its held-out documents (CV+).

    Made by `fit`. A prediction is the mean of the folds' regressors. The interval of a new row
    holds, with m_k the regressor that did not see fold k and R_i the error of row i of fold k(i)
    out of fold,

        from  the largest v  with  sum_i w_i [m_k(i)(x) - R_i >= v] >= level
        to    the smallest v with  sum_i w_i [m_k(i)(x) + R_i <= v] >= level

    A document counts once, whatever its number of rows: of K documents, each of the N rows of one
    has w_i = 1 / ((K + 1) N), and the new document has the rest, at infinity.
    """

    features: tuple[str, ...]  # columns that are read
    models: tuple[Any, ...]  # one per fold
    fold: IntArray  # of every training row, and so are:
    error: FloatArray
    epsilon: FloatArray
    document: IntArray

    @classmethod
    def fit(
        cls,
        rows: pd.DataFrame,
        features: Sequence[str] = ALL,
        *,
        regressor: str = "boosting",
        count: int = 5,
        seed: int | None = 0,
    ) -> Self:
        """Fit one of REGRESSORS to all documents but a fold's, for each of `count` folds."""
        values, truth = _columns(rows, features), _columns(rows, [TARGET])[:, 0]
        epsilon = _columns(rows, ["epsilon"])[:, 0]
        document = check_integers(rows["document"], what="documents")
        fold = folds(document, count, stream(seed, "predictor", "folds"))
        models, error = [], np.empty(len(rows))
        for number in range(count):
            mine = fold == number
            models.append(_fitted(regressor, values[~mine], truth[~mine], seed))
            error[mine] = np.abs(truth[mine] - models[-1].predict(values[mine]))
        return cls(tuple(features), tuple(models), fold, error, epsilon, document)

    def predict(self, rows: pd.DataFrame) -> FloatArray:
        """Mean of the folds' predictions: (rows,)."""
        return self._by_fold(rows).mean(0)

    def interval(self, rows: pd.DataFrame, *, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end for rows of new documents: (rows,) each, inside BOUNDS.

        Only errors at the same epsilon count, so that the coverage holds at each epsilon and not
        only on average over them. A row at another epsilon takes the nearest one by ratio, and
        has no guarantee.

        Notes
        -----
        The guarantee is marginal: over the draw of the training documents and of one new document,
        exchangeable with them. It says nothing about a given document. In the worst case it is
        `worst_coverage`, for rows drawn one from each document; where regressors are stable it is
        close to `level`, which `cross_intervals` measures. With fewer than level / (1 - level)
        documents the interval is all of BOUNDS.

        References
        ----------
        Barber, Candes, Ramdas and Tibshirani 2021 (CV+); Lee, Barber and Willett 2023 (documents
        with several rows); Vovk et al. 2003 (a quantile for each category).
        """
        predicted = self._by_fold(rows)
        low, high = np.empty(len(rows)), np.empty(len(rows))
        nearest = self._nearest(_columns(rows, ["epsilon"])[:, 0])
        for epsilon in np.unique(nearest):
            own, new = np.flatnonzero(self.epsilon == epsilon), np.flatnonzero(nearest == epsilon)
            center, error = predicted[self.fold[own]][:, new], self.error[own, None]
            low[new] = -_upper_end(error - center, self.document[own], level)
            high[new] = _upper_end(center + error, self.document[own], level)
        low, high = np.clip(low, *BOUNDS), np.clip(high, *BOUNDS)
        # Where the folds disagree the ends may cross; the interval is then their middle.
        middle = (low + high) / 2
        return np.minimum(low, middle), np.maximum(high, middle)

    def _by_fold(self, rows: pd.DataFrame) -> FloatArray:
        values = _columns(rows, self.features)
        return np.stack([model.predict(values) for model in self.models])

    def _nearest(self, epsilon: FloatArray) -> FloatArray:
        """The epsilon of training rows that is nearest by ratio."""
        known = np.unique(self.epsilon)
        return known[np.abs(np.log(epsilon)[:, None] - np.log(known)).argmin(1)]


def worst_coverage(level: float, documents: int, count: int) -> float:
    """Least coverage of the intervals of a `Predictor` that theory guarantees, 0..1.

    Below 2 level - 1, which is the jackknife+'s (`count` = `documents`), by at most
    sqrt(2 / documents); `documents` train in `count` folds of equal size.

    References
    ----------
    Barber, Candes, Ramdas and Tibshirani 2021, Theorem 4.
    """
    check_count(count, 2, documents, what="count")
    by_fold = 2 * (1 - 1 / count) / (documents / count + 1)
    by_document = (1 - count / documents) / (count + 1)
    return max(0.0, 2 * level - 1 - min(by_fold, by_document))


def _upper_end(values: FloatArray, document: IntArray, level: float) -> FloatArray:
    """Smallest v of each column with `level` of the weight at or below it, see `Predictor`."""
    _, label, count = np.unique(document, return_inverse=True, return_counts=True)
    weight = np.append(1 / ((len(count) + 1) * count[label]), 1 / (len(count) + 1))
    ends = np.vstack([values, np.full(values.shape[1], np.inf)])
    reached = level - 1e-12  # by a sum of rounded shares
    upper: FloatArray = np.quantile(ends, reached, axis=0, weights=weight, method="inverted_cdf")
    return upper


def cross_intervals(
    rows: pd.DataFrame,
    features: Sequence[str] = ALL,
    *,
    regressor: str = "boosting",
    level: float = 0.9,
    count: int = 5,
    seed: int | None = 0,
) -> pd.DataFrame:
    """Prediction and interval of every row from a `Predictor` of other documents.

    Documents are cut into folds; a predictor is fitted, with folds of its own, to all but one of
    these and asked about that one: the coverage that is measured is that of new documents.

    Returns
    -------
    Columns: document, epsilon, truth, predicted, low, high, covered; indexed as `rows`.
    """
    document = check_integers(rows["document"], what="documents")
    outer = folds(document, count, stream(seed, "cross intervals", "folds"))
    result = pd.DataFrame(
        {"document": document, "epsilon": rows["epsilon"], "truth": rows[TARGET]}, index=rows.index
    ).assign(predicted=np.nan, low=np.nan, high=np.nan)
    for held_out in range(count):
        test = outer == held_out
        others = rows[~test]
        predictor = Predictor.fit(others, features, regressor=regressor, count=count, seed=seed)
        low, high = predictor.interval(rows[test], level=level)
        predictions = np.column_stack([predictor.predict(rows[test]), low, high])
        result.loc[test, ["predicted", "low", "high"]] = predictions
    result["covered"] = result["truth"].between(result["low"], result["high"])
    return result


# --- The decision -------------------------------------------------------------------------------


def promised(believed: FloatArray, threshold: float) -> IntArray:
    """The first level that is believed to reach a threshold, by number: (documents,).

    That of `believed`, (documents, levels) predictions or lower ends of intervals, the most private
    level first; the number of levels where none is, which says: keep the prompt.
    """
    reaches = np.asarray(believed) >= threshold
    return np.where(reaches.any(1), reaches.argmax(1), reaches.shape[1])


def outcome(
    level: IntArray, truth: FloatArray, revealed: FloatArray, threshold: float
) -> pd.DataFrame:
    """What becomes of prompts that are sent, each at a level, or kept.

    A line per document, columns: sent, wasted (sent, and paid, for an answer below the threshold),
    missed (kept, though some level would have served), exposed (privacy that bought nothing, 0..1:
    what was revealed beyond the first level that would have served, and all that was revealed where
    the answer was no use), cost (the sum of the last three).

    Parameters
    ----------
    level : (documents,) the number of a level, or that of all levels for a prompt that is kept
    truth : (documents, levels) what came out, or would have come; the most private level first
    revealed : (documents, levels) what a level gives away, 0..1; it should grow along a row
    threshold : the least value that is of use
    """
    truth, revealed = both = np.stack([truth, revealed])
    if not (np.isfinite(both).all() and np.isfinite(threshold)):
        raise InvalidInput("truth, revealed, threshold: expected finite numbers")
    count = truth.shape[1]
    level = check_ids(level, count + 1, what="level")
    useful, document = truth >= threshold, np.arange(len(truth))
    sent, at = level < count, np.minimum(level, count - 1)
    served = sent & useful[document, at]
    spent = np.where(sent, revealed[document, at], 0.0)
    needed = np.where(served, revealed[document, useful.argmax(1)], 0.0)
    wasted, missed = sent & ~served, ~sent & useful.any(1)
    exposed = np.maximum(spent - needed, 0.0)
    parts = {"sent": sent, "wasted": wasted, "missed": missed, "exposed": exposed}
    return pd.DataFrame(parts | {"cost": wasted + missed + exposed})


def _columns(rows: pd.DataFrame, names: Sequence[str]) -> FloatArray:
    """Columns as finite numbers: (rows, names)."""
    values = rows[list(names)].to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise InvalidInput(f"rows: got NaN or infinity in {list(names)}, expected numbers")
    return values
