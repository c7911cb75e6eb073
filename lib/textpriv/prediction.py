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
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from textpriv import stats
from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.seeds import stream
from textpriv.stats import Estimate, Influence

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TARGET = "large_sanitized"
BOUNDS = (-1.0, 1.0)  # of a cosine
_VALUES = 1 << 22  # ends of intervals that are held at once

# The paper's features (Carpentier et al., section 4.4).
A = ("epsilon",)
B = ("small_original",)  # similarity of the small model's summary of the original to the original
C = ("small_sanitized",)  # the same of its summary of the sanitized text
ALL = (*A, *B, *C)
# Features for which no model need write anything.
FREE = ("changed", "surprise", "text_similarity")

_REGRESSORS: Mapping[str, Callable[[int], Any]] = {
    "mean": lambda seed: DummyRegressor(),
    "linear": lambda seed: make_pipeline(StandardScaler(), LinearRegression()),
    "ridge": lambda seed: make_pipeline(StandardScaler(), Ridge(alpha=1.0)),
    "neighbors": lambda seed: make_pipeline(StandardScaler(), KNeighborsRegressor()),
    "support": lambda seed: make_pipeline(StandardScaler(), SVR(epsilon=0.05)),
    "tree": lambda seed: DecisionTreeRegressor(min_samples_leaf=10, random_state=seed),
    "forest": lambda seed: RandomForestRegressor(100, min_samples_leaf=5, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=100, max_leaf_nodes=8, random_state=seed
    ),
    # Asked about epsilon alone: the mean of the training rows at each epsilon.
    "table": lambda seed: DecisionTreeRegressor(random_state=seed),
}
REGRESSORS = tuple(_REGRESSORS)


def regressor(name: str, seed: int | None = 0) -> Any:
    """An unfitted regressor of scikit-learn.

    Parameters
    ----------
    name : one of REGRESSORS
    seed : of those that draw; same seed, same predictions to the last digit

    Raises
    ------
    InvalidInput : another name
    """
    if name not in _REGRESSORS:
        raise InvalidInput(f"regressor: got {name!r}, expected one of {REGRESSORS}")
    return _REGRESSORS[name](int(stream(seed, "regressor", name).integers(2**31)))


# --- Folds for what was not seen ----------------------------------------------------------------


def folds(documents: ArrayLike, count: int, rng: np.random.Generator) -> IntArray:
    """Fold of each row, 0 .. count - 1, the same for all rows of a document: (rows,).

    Parameters
    ----------
    documents : (rows,) integer label of each row's document
    count : >= 2, at most the number of documents

    Raises
    ------
    InvalidInput : fewer documents than folds
    """
    group = _checked_documents(documents)
    check_count(count, 2, len(np.unique(group)), what="count")
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

    Parameters
    ----------
    truth, predicted : (rows,) finite; the truth not all equal
    documents : (rows,) integers, at least two different ones
    resamples : >= 100
    sample : name of what the documents were drawn from; keeps the `Influence` of each

    Raises
    ------
    InvalidInput : anything else

    References
    ----------
    Carpentier et al. 2024, Table 1 (without intervals).
    """
    sums = _Sums.of(truth, predicted, documents)
    weights = _resampled(len(sums.count), resamples, rng)
    r2, rmse = sums.r2(weights), sums.rmse(weights)
    once = np.ones((1, len(sums.count)))
    n = int(sums.count.sum())
    found = Scores(
        _percentile(float(sums.r2(once)[0]), r2, n), _percentile(float(sums.rmse(once)[0]), rmse, n)
    )
    if sample is None:
        return found
    of_r2, of_rmse = (Influence(sample, sums.document, each) for each in sums.effects())
    return Scores(replace(found.r2, influence=of_r2), replace(found.rmse, influence=of_rmse))


def gain(
    truth: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike,
    documents: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 2000,
) -> Scores:
    """By how much the R2 and RMSE of `predicted` exceed those of `other`, on the same rows.

    See `scores`; both are resampled together, so that what is hard for both cancels.
    """
    first, second = (_Sums.of(truth, each, documents) for each in (predicted, other))
    weights = _resampled(len(first.count), resamples, rng)
    once = np.ones((1, len(first.count)))
    n = int(first.count.sum())

    def difference(of: Callable[[_Sums, FloatArray], FloatArray]) -> Estimate:
        value = float((of(first, once) - of(second, once))[0])
        return _percentile(value, of(first, weights) - of(second, weights), n)

    return Scores(difference(_Sums.r2), difference(_Sums.rmse))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Per document: its number, rows, sum of the truth and of its square, squared error."""

    document: IntArray
    count: FloatArray
    total: FloatArray
    square: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, truth: ArrayLike, predicted: ArrayLike, documents: ArrayLike) -> Self:
        group = _checked_documents(documents)
        true, guess = (np.asarray(each, dtype=np.float64) for each in (truth, predicted))
        if true.shape != group.shape or guess.shape != group.shape:
            raise InvalidInput(
                f"truth, predicted: got shapes {true.shape} and {guess.shape}, expected "
                f"{group.shape}, one for each row"
            )
        if not (np.isfinite(true).all() and np.isfinite(guess).all()) or not np.ptp(true):
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
        to_rmse = (self.error - error / rows * self.count) / (2 * np.sqrt(rows * error))
        units = len(self.count)
        widened = np.sqrt(units / (units - 1))
        return widened * to_r2, widened * to_rmse


def _resampled(documents: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each document is drawn: (resamples, documents)."""
    check_count(resamples, 100, what="resamples")
    equal = np.full(documents, 1 / documents)
    return rng.multinomial(documents, equal, size=resamples).astype(np.float64)


def _percentile(value: float, drawn: FloatArray, n: int) -> Estimate:
    tail = (1 - stats.CONFIDENCE) / 2
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value), n)


@dataclass(frozen=True)
class Misjudged:
    """Shares of rows whose prediction is too high, and too low, by more than a threshold."""

    optimistic: Estimate
    pessimistic: Estimate


def misjudged(
    truth: ArrayLike, predicted: ArrayLike, documents: ArrayLike, *, threshold: float = 0.1
) -> Misjudged:
    """How often a prediction promises too much, or too little.

    Parameters
    ----------
    threshold : >= 0, difference that does not count

    References
    ----------
    The code released after Carpentier et al. 2024, with threshold 0.1.
    """
    if not threshold >= 0:
        raise InvalidInput(f"threshold: got {threshold!r}, expected a number >= 0")
    excess = np.asarray(predicted, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
    return Misjudged(
        stats.clustered_share(excess > threshold, documents),
        stats.clustered_share(excess < -threshold, documents),
    )


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

    Parameters
    ----------
    features : columns that are read
    models : one per fold
    fold, error, epsilon, document : of every training row
    """

    features: tuple[str, ...]
    models: tuple[Any, ...]
    fold: IntArray
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
        target: str = TARGET,
        seed: int | None = 0,
    ) -> Self:
        """Fit one regressor to all documents but a fold's, for each of `count` folds.

        Parameters
        ----------
        rows : see the module
        features : columns, at least one
        regressor : one of REGRESSORS
        count : folds, 2 to the number of documents
        target : column that is predicted

        Raises
        ------
        InvalidInput : a column that is absent or not finite, another regressor, too few documents
        """
        values, truth = _columns(rows, features), _columns(rows, [target])[:, 0]
        epsilon = _columns(rows, ["epsilon"])[:, 0]
        document = _checked_documents(rows["document"])
        fold = folds(document, count, stream(seed, "predictor", "folds"))
        models = tuple(
            _fitted(regressor, values[fold != number], truth[fold != number], seed)
            for number in range(count)
        )
        predicted = np.empty(len(rows))
        for number, model in enumerate(models):
            predicted[fold == number] = model.predict(values[fold == number])
        return cls(tuple(features), models, fold, np.abs(truth - predicted), epsilon, document)

    @property
    def epsilons(self) -> FloatArray:
        """The epsilons of the training rows, ascending."""
        return np.unique(self.epsilon)

    def predict(self, rows: pd.DataFrame) -> FloatArray:
        """Mean of the folds' predictions: (rows,)."""
        return self._by_fold(rows).mean(0)

    def interval(
        self, rows: pd.DataFrame, *, level: float = 0.9, per_epsilon: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end for rows of new documents: (rows,) each, inside BOUNDS.

        Parameters
        ----------
        rows : of documents that did not train
        level : 0 < level < 1
        per_epsilon : whether only errors at the same epsilon count, so that the coverage holds at
            each epsilon and not only on average over them. A row at another epsilon takes
            the nearest one by ratio, and has no guarantee.

        Notes
        -----
        The guarantee is marginal: over the draw of the training documents and of one new document
        (and, without `per_epsilon`, of one of its rows), exchangeable with them. It says
        nothing about a given document. In the worst case it is `worst_coverage`, for rows drawn
        one from each document; where regressors are stable it is close to `level`, which
        `cross_intervals` measures. With fewer than level / (1 - level) documents the
        interval is all of BOUNDS.

        References
        ----------
        Barber, Candes, Ramdas and Tibshirani 2021 (CV+); Lee, Barber and Willett 2023 (documents
        with several rows); Vovk et al. 2003 (a quantile for each category).
        """
        if not 0 < level < 1:
            raise InvalidInput(f"level: got {level!r}, expected a number between 0 and 1")
        predicted = self._by_fold(rows)
        low, high = np.empty(len(rows)), np.empty(len(rows))
        asked = self._category(_columns(rows, ["epsilon"])[:, 0], per_epsilon)
        known = self._category(self.epsilon, per_epsilon)
        for category in np.unique(asked):
            own, new = np.flatnonzero(known == category), np.flatnonzero(asked == category)
            weight = document_weights(self.document[own])
            for start in range(0, len(new), max(1, _VALUES // len(own))):
                some = new[start : start + max(1, _VALUES // len(own))]
                center = predicted[self.fold[own]][:, some]
                error = self.error[own, None]
                low[some] = -_quantile(error - center, weight, level)
                high[some] = _quantile(center + error, weight, level)
        low, high = np.clip(low, *BOUNDS), np.clip(high, *BOUNDS)
        # Where the folds disagree the ends may cross; the interval is then their middle.
        middle = (low + high) / 2
        return np.minimum(low, middle), np.maximum(high, middle)

    def _by_fold(self, rows: pd.DataFrame) -> FloatArray:
        values = _columns(rows, self.features)
        return np.stack([model.predict(values) for model in self.models])

    def _category(self, epsilon: FloatArray, per_epsilon: bool) -> IntArray:
        """Number of the nearest training epsilon by ratio; 0 where all count alike."""
        if not per_epsilon:
            return np.zeros(len(epsilon), dtype=np.int64)
        distance = np.abs(np.log(epsilon)[:, None] - np.log(self.epsilons))
        return distance.argmin(1)


def worst_coverage(level: float, documents: int, count: int) -> float:
    """Least coverage of the intervals of a `Predictor` that theory guarantees, 0..1.

    Below 2 level - 1, which is the jackknife+'s (`count` = `documents`), by at most
    sqrt(2 / documents).

    Parameters
    ----------
    level : 0 < level < 1, asked for
    documents : >= 2, that trained
    count : folds of equal size, 2 to `documents`

    References
    ----------
    Barber, Candes, Ramdas and Tibshirani 2021, Theorem 4.
    """
    check_count(count, 2, documents, what="count")
    by_fold = 2 * (1 - 1 / count) / (documents / count + 1)
    by_document = (1 - count / documents) / (count + 1)
    return max(0.0, 2 * level - 1 - min(by_fold, by_document))


def document_weights(document: IntArray) -> FloatArray:
    """1 / ((K + 1) N) for each of the N rows of each of K documents: (rows,)."""
    _, label, count = np.unique(document, return_inverse=True, return_counts=True)
    result: FloatArray = 1 / ((len(count) + 1) * count[label])
    return result


def _quantile(values: FloatArray, weight: FloatArray, level: float) -> FloatArray:
    """Smallest v whose column has at least `level` of weight at or below it; inf if none has.

    Parameters
    ----------
    values : (rows, columns)
    weight : (rows,) of a sum below 1; what is left lies at infinity
    """
    order = np.argsort(values, axis=0, kind="stable")
    reached = np.cumsum(weight[order], axis=0) >= level - 1e-12  # a sum of rounded shares
    first = reached.argmax(0)
    columns = np.arange(values.shape[1])
    found = values[order[first, columns], columns]
    return np.where(reached[-1], found, np.inf)


def cross_intervals(
    rows: pd.DataFrame,
    features: Sequence[str] = ALL,
    *,
    regressor: str = "boosting",
    level: float = 0.9,
    count: int = 5,
    target: str = TARGET,
    per_epsilon: bool = True,
    seed: int | None = 0,
) -> pd.DataFrame:
    """Prediction and interval of every row from a `Predictor` of other documents.

    Documents are cut into folds; a predictor is fitted, with folds of its own, to all but one of
    these and asked about that one. So the coverage that is measured is that of new documents.

    Returns
    -------
    Columns: document, epsilon, truth, predicted, low, high, covered; indexed as `rows`.
    """
    document = _checked_documents(rows["document"])
    outer = folds(document, count, stream(seed, "cross intervals", "folds"))
    result = pd.DataFrame(
        {"document": document, "epsilon": rows["epsilon"], "truth": rows[target]}, index=rows.index
    ).assign(predicted=np.nan, low=np.nan, high=np.nan)
    for held_out in range(count):
        test = outer == held_out
        predictor = Predictor.fit(
            rows[~test], features, regressor=regressor, count=count, target=target, seed=seed
        )
        low, high = predictor.interval(rows[test], level=level, per_epsilon=per_epsilon)
        found = np.column_stack([predictor.predict(rows[test]), low, high])
        result.loc[test, ["predicted", "low", "high"]] = found
    result["covered"] = result["truth"].between(result["low"], result["high"])
    return result


# --- The decision -------------------------------------------------------------------------------

KEPT = -1  # in place of a level: the prompt is not sent


@dataclass(frozen=True, eq=False)
class Decisions:
    """What came of sending each document at the first level that promised enough.

    Parameters
    ----------
    level : (documents,) at which each was sent, or KEPT
    wasted : sent, and paid, for an answer below the threshold
    missed : kept, though some level would have served
    exposed : privacy that bought nothing, 0..1: what was revealed beyond the first level that
        would have served, and all that was revealed where the answer was no use
    """

    level: IntArray
    wasted: BoolArray
    missed: BoolArray
    exposed: FloatArray

    def cost(self, *, money: float = 1.0, privacy: float = 1.0, missed: float = 1.0) -> FloatArray:
        """Prices of a wasted request, of all of a text's privacy and of a missed answer, summed."""
        return money * self.wasted + privacy * self.exposed + missed * self.missed


def decide(
    believed: FloatArray, truth: FloatArray, revealed: FloatArray, threshold: float
) -> Decisions:
    """Send at the first level that is believed to be worth it, or keep the prompt.

    Parameters
    ----------
    believed : (documents, levels) predictions, or lower ends of intervals; the most private
        level, at which the user would like to send, comes first, and the last is as far as
        they would go
    truth : (documents, levels) what came out, or would have come
    revealed : (documents, levels) what a level gives away, 0..1; it should grow along a row
    threshold : the least value that is of use

    Raises
    ------
    InvalidInput : different shapes, no level, numbers that are not finite
    """
    tables = [np.asarray(each, dtype=np.float64) for each in (believed, truth, revealed)]
    if len({each.shape for each in tables}) > 1 or tables[0].ndim != 2 or not tables[0].shape[1]:
        raise InvalidInput(
            f"believed, truth, revealed: got shapes {[each.shape for each in tables]}, expected "
            "three times (documents, levels), levels >= 1"
        )
    if not all(np.isfinite(each).all() for each in (*tables, np.asarray(threshold))):
        raise InvalidInput("believed, truth, revealed, threshold: expected finite numbers")
    promised, useful, shown = tables[0] >= threshold, tables[1] >= threshold, tables[2]
    document = np.arange(len(shown))
    is_sent, first = promised.any(1), promised.argmax(1)
    served = is_sent & useful[document, first]
    spent = np.where(is_sent, shown[document, first], 0.0)
    needed = np.where(served, shown[document, useful.argmax(1)], 0.0)
    return Decisions(
        level=np.where(is_sent, first, KEPT),
        wasted=is_sent & ~served,
        missed=np.asarray(~is_sent & useful.any(1)),
        exposed=np.maximum(spent - needed, 0.0),
    )


# --- Checks -------------------------------------------------------------------------------------


def _checked_documents(documents: ArrayLike) -> IntArray:
    array = np.asarray(documents)
    if array.ndim != 1 or not len(array) or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(
            f"documents: got {array.dtype} of shape {array.shape}, expected (rows,) integers, "
            "at least one"
        )
    return array.astype(np.int64)


def _columns(rows: pd.DataFrame, names: Sequence[str]) -> FloatArray:
    """Columns as finite numbers: (rows, names)."""
    if isinstance(names, str) or not len(names):
        raise InvalidInput(f"features: got {names!r}, expected a list of at least one column")
    absent = [name for name in names if name not in rows]
    if absent:
        raise InvalidInput(f"rows: no column {absent}, expected them among {list(rows.columns)}")
    values = rows[list(names)].to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        column = names[int(np.argmin(np.isfinite(values).all(0)))]
        raise InvalidInput(f"rows: got NaN or infinity in column {column!r}, expected numbers")
    return values
