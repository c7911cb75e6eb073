"""What notebook 06 needs beside the library's parts: its sizes and tables.

`rows` is the notebook's table with one line per document and epsilon: document, epsilon, the
features of `prediction`, what the summaries are worth (similarity to the original), and the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from textpriv import stats
from textpriv.channel import FloatArray, IntArray
from textpriv.data import corpora
from textpriv.data.corpora import Documents
from textpriv.data.tokens import UNKNOWN, Corpus
from textpriv.errors import InvalidInput
from textpriv.models import Encoder
from textpriv.models.generators import Generator
from textpriv.seeds import stream
from textpriv.stats import Estimate
from textpriv.utility.prediction import TARGET, A, Predictor, folds, gain, outcome, promised
from textpriv.utility.preview import PieceTable
from textpriv.utility.summaries import INSTRUCTION, similarity

Mechanism = Literal["madlib", "rank-repair", "tem"]  # as the notebook makes them

EXTRACTIVE = "extractive"
SAMPLE = "documents"  # by which measurements are compared in pairs
EPS_ONLY = "eps_only"  # the mean at each epsilon: what anyone can know without looking at a text
LOST = 0.1  # loss below which the paper takes a model as recovered
NEARLY_ALL = 0.94  # share of tokens changed; the grid is chosen for 0.95, on other texts
MILD = 0.5  # share of tokens changed, up to which a text counts as mildly sanitized
ON_GPU = 16  # times as many texts that are answered at once
CUTS = 10  # divisions of the documents into folds, over which rules are averaged that learn
MARGINS = np.linspace(-0.4, 0.4, 33)  # beyond the threshold, from which a rule chooses
_RESAMPLES = 2000


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 06, set by the profile."""

    corpus: str
    documents: int = Field(ge=4)  # private: those that are sanitized
    public: int = Field(ge=2)  # at most: for the n-grams, the attacker's prior and the grid
    longest: int = Field(ge=8)  # pieces that are kept of a document
    only_whole: bool = False  # leave out documents that would have to be cut
    least_similarity: float = -1.0  # of a document and its own summary, or it is left out
    tokens: int = Field(ge=4)  # most of a summary
    batch: int = Field(default=32, ge=1)  # texts that a processor answers at once
    encoder: str  # says how alike two texts are
    table: str = ""  # generator whose tokens are sanitized; "": the encoder's
    small: str  # "extractive" or the name of a generator
    large: str
    mechanism: Mechanism = "madlib"
    shares: tuple[float, ...] = ()  # of tokens that change, at each of which an epsilon is taken
    grid: tuple[float, ...] = ()  # or the epsilons themselves
    words: int = Field(ge=10)  # public tokens by which shares become epsilons
    repair_c: float = Field(default=0.006, gt=0)
    fine_documents: int = Field(default=0, ge=0)  # that are sanitized on a finer grid besides
    fine_shares: tuple[float, ...] = ()
    regressors: tuple[str, ...]
    regressor: str  # of all that follows
    folds: int = Field(ge=2)
    resamples: int = Field(ge=100)
    level: float = Field(gt=0, lt=1)
    thresholds: tuple[float, ...]
    transfer: tuple[Mechanism, ...] = ()  # mechanisms on which the predictor has not learned
    transfer_documents: int = Field(default=0, ge=0)
    transfer_shares: tuple[float, ...] = ()
    corrected_documents: int = Field(default=0, ge=0)
    corrected_shares: tuple[float, ...] = ()

    def rows(self, device: str) -> int:
        """Texts that are answered at once: the more, the better a GPU is used."""
        return self.batch if device == "cpu" else ON_GPU * self.batch


UNITS: Mapping[str, str] = {  # of what is measured, and of units themselves; else: similarity
    **{unit: unit for unit in ("R2", "cost", "epsilon", "ratio", "share")},
    **dict.fromkeys(("changed", "predicted", "measured", "covered"), "share"),
    **dict.fromkeys(("wasted", "missed", "exposed"), "share"),
    "r2": "R2",
    "difference": "difference of shares",
}


# --- Documents and models -----------------------------------------------------------------------


def assets_of(sizes: Sizes) -> list[str]:
    """Data and models that the notebook's results rest on."""
    models = {sizes.encoder, sizes.table, sizes.small, sizes.large} - {"", EXTRACTIVE}
    return sorted({corpora.asset_of(sizes.corpus), *models} - {""})  # a file is no asset


def eligible(corpus: Documents, table: PieceTable, encoder: Encoder, sizes: Sizes) -> Documents:
    """The first documents, private and public, that the profile has no reason to leave out.

    The paper leaves out those that would have to be cut (`only_whole`), and those whose own
    summary is less alike than `least_similarity`.
    """
    count, rows = sizes.documents + sizes.public, np.arange(len(corpus))
    if sizes.only_whole:
        lengths = np.diff(table.encode(corpus.texts, longest=sizes.longest + 1).offsets)
        rows = rows[lengths <= sizes.longest]
    if sizes.least_similarity > -1 and len(rows):
        rows = rows[: 2 * count]  # few are left out by it
        first = corpus.subset(rows)
        near = similarity(encoder, first.texts, list(first.columns["summary"]))
        rows = rows[near >= sizes.least_similarity]
    if len(rows) <= sizes.documents:
        raise InvalidInput(
            f"{sizes.corpus}: got {len(rows)} documents that are whole and near their summaries, "
            f"expected more than the {sizes.documents} private ones; lower least_similarity or "
            "raise longest"
        )
    return corpus.subset(rows[:count])


def instruction(generator: Generator) -> str:
    """What a model is told before a text: BART nothing, and T5 which of its tasks is meant."""
    if not generator.is_encoder_decoder:
        return INSTRUCTION
    return "summarize:" if generator.model.config.model_type == "t5" else ""


# --- What summaries are worth -------------------------------------------------------------------


def means(rows: pd.DataFrame, columns: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """Means over documents, at each epsilon, of columns with the range of each one's values.

    Columns: epsilon, what (the column), value, low, high, n (documents), influence.
    """
    return pd.DataFrame(
        {"epsilon": epsilon, "what": column, **_mean(group[column], bounds).columns()}
        for epsilon, group in rows.sort_values("document").groupby("epsilon")
        for column, bounds in columns.items()
    )


def worth(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """What the summaries of the originals are worth, as in Fig. 2.

    Of a table with columns model, document and similarity. Columns: model, what ("original": the
    mean, or "original.p10": what nine documents in ten exceed, with a bootstrap over documents),
    value, low, high, n, influence.
    """
    result = []
    for model, group in table.groupby("model", sort=False):
        values = group["similarity"].to_numpy()
        drawn = rng.choice(values, size=(_RESAMPLES, len(values)))
        low, high = np.quantile(np.quantile(drawn, 0.1, axis=1), [0.025, 0.975])
        tenth = Estimate(float(np.quantile(values, 0.1)), float(low), float(high), len(values))
        for what, estimate in {"": _mean(values, (-1.0, 1.0)), ".p10": tenth}.items():
            result.append({"model": model, "what": f"original{what}", **estimate.columns()})
    return pd.DataFrame(result)


def headlines(lost: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Single numbers that the paper states about Figs. 3 and 4, under the names of its claims.

    Columns: name, unit, value, low, high, n (documents), influence. See `_resampled`, and:

    - `changed.lowest_eps`, `loss.text.highest_eps` and so on: means over documents
    - `similarity.slm.mild`, `loss.llm.mild` and so on: means over the epsilons at which at most
      MILD of the tokens change; absent if there is none
    - `similarity.llm.half_changed.lowest` and `highest`: of all documents where half of the tokens
      change, without interval

    Of `rows` with what is lost, as columns text, small and large.
    """
    changed, large = _levels(lost, "changed"), _levels(lost, TARGET)
    losses = {"text": "text", "slm": "small", "llm": "large"}
    estimates = _resampled(lost, rng)
    for end, level in {"lowest_eps": 0, "highest_eps": -1}.items():
        estimates[f"changed.{end}", "share"] = _mean(changed[:, level], (0.0, 1.0))
        for name, column in losses.items():
            estimates[f"loss.{name}.{end}", "similarity"] = _mean(_levels(lost, column)[:, level])
    mild = changed.mean(0) <= MILD
    if mild.any():
        for name, summary in {"slm": "small_sanitized", "llm": TARGET}.items():
            alike, loss = _levels(lost, summary)[:, mild], _levels(lost, losses[name])[:, mild]
            estimates[f"similarity.{name}.mild", "similarity"] = _mean(alike.mean(1), (-1.0, 1.0))
            estimates[f"loss.{name}.mild", "similarity"] = _mean(loss.mean(1))
    half = large[:, _half_changed(changed)]
    for end, value in {"lowest": float(half.min()), "highest": float(half.max())}.items():
        exact = Estimate(value, value, value, len(half))
        estimates[f"similarity.llm.half_changed.{end}", "similarity"] = exact
    return pd.DataFrame(
        {"name": name, "unit": unit, **estimate.columns()}
        for (name, unit), estimate in estimates.items()
    )


def _half_changed(changed: FloatArray) -> int:
    """The epsilon at which about half of the tokens change, by its number."""
    return int(np.abs(changed.mean(0) - 0.5).argmin())


def _resampled(lost: pd.DataFrame, rng: np.random.Generator) -> dict[tuple[str, str], Estimate]:
    """The headlines, by name and unit, whose interval is a bootstrap over documents.

    - `similarity.llm.half_changed.p80_minus_p20`: at the epsilon at which about half of the tokens
      change; where it is widest it would be too wide, being chosen for that
    - `loss.range.lowest_eps`: how far the mean losses of the two models are apart
    - `knee.slm.eps`, `knee.llm.eps`: where the mean loss falls below LOST, on the line between
      the logarithms of two epsilons of the grid. Absent if it never does; a resample in which it
      never does counts as the largest epsilon.
    - `similarity.llm.gain.nearly_all_changed`: what the largest epsilon at which NEARLY_ALL tokens
      still change adds to the mean at the smallest; absent if that is the same epsilon
    """
    grid, large = np.unique(lost["epsilon"]), _levels(lost, TARGET)
    losses = {"slm": _levels(lost, "small"), "llm": _levels(lost, "large")}
    changed = _levels(lost, "changed")
    nearly = int((changed.mean(0) >= NEARLY_ALL).sum()) - 1
    half, apart = large[:, _half_changed(changed)], (losses["slm"] - losses["llm"])[:, 0]

    asked: dict[tuple[str, str], tuple[FloatArray, Callable[[FloatArray], Any]]] = {
        ("similarity.llm.half_changed.p80_minus_p20", "similarity"): (
            half, lambda values: np.ptp(np.quantile(values, [0.2, 0.8])),
        ),
        ("loss.range.lowest_eps", "similarity"): (apart, np.mean),
    }  # fmt: skip
    for name, levels in losses.items():
        if _crossing(grid, levels.mean(0)) is not None:
            asked[f"knee.{name}.eps", "epsilon"] = (
                levels, lambda drawn: _crossing(grid, drawn.mean(0)) or grid[-1],
            )  # fmt: skip
    if nearly > 0:
        gained = large[:, nearly] - large[:, 0]
        asked["similarity.llm.gain.nearly_all_changed", "similarity"] = gained, np.mean
    estimates = {name: _bootstrapped(*each, rng) for name, each in asked.items()}
    gap = "loss.range.lowest_eps", "similarity"
    return estimates | {gap: _size(estimates[gap])}


def _size(signed: Estimate) -> Estimate:
    """The absolute value: resamples of it lie above 0, and their quantiles never hold 0."""
    low, high = max(signed.low, -signed.high, 0.0), max(signed.high, -signed.low)
    return replace(signed, value=abs(signed.value), low=low, high=high)


def _crossing(grid: FloatArray, loss: FloatArray) -> float | None:
    """First epsilon at which a loss is below LOST, if any; see `_resampled`."""
    below = np.flatnonzero(loss < LOST)
    if not len(below) or not below[0]:
        return float(grid[0]) if len(below) else None
    last = int(below[0])
    share = (loss[last - 1] - LOST) / (loss[last - 1] - loss[last])
    return float(grid[last - 1] * (grid[last] / grid[last - 1]) ** share)


def _bootstrapped(
    values: FloatArray, statistic: Callable[[FloatArray], Any], rng: np.random.Generator
) -> Estimate:
    """A statistic of (documents, ...), with a percentile interval over documents."""
    count, value = len(values), float(statistic(values))
    drawn = [statistic(values[rng.integers(count, size=count)]) for _ in range(_RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value), count)


def _levels(rows: pd.DataFrame, column: str) -> FloatArray:
    """(documents, epsilons), the smallest epsilon first."""
    table = rows.pivot(index="document", columns="epsilon", values=column)
    return table.to_numpy(dtype=np.float64)


def _mean(values: ArrayLike, bounds: tuple[float, float] = (-2.0, 2.0)) -> Estimate:
    """Mean over documents, in their order, or a share of them; losses lie from -2 to 2."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return stats.share(int(array.sum()), len(array))
    return stats.mean(array, bounds=bounds, sample=SAMPLE)


def knee(
    rows: pd.DataFrame, original: Corpus, predicted: Mapping[float, FloatArray]
) -> pd.DataFrame:
    """Share of tokens changed, as it was predicted and as it was measured.

    Predicted is, by epsilon, for every token of the original documents but the UNKNOWN ones, which
    always change, the chance that it changes. Columns: epsilon, what, value, low, high, n.

    - "predicted": its error is that of the random directions, one for each token (n: tokens)
    - "measured": shares of tokens, whose error is that of the documents (n: documents)
    - "difference": measured minus predicted, of the same tokens. Its interval, by document, holds
      the errors of the directions and of the noise, and not the choice of documents.
    """
    document, result = original.document, []
    for epsilon, expected in predicted.items():
        chance = np.ones(len(document))
        chance[original.ids != UNKNOWN] = expected
        at = rows[rows["epsilon"] == epsilon].sort_values("document")
        changed = at["changed"].to_numpy()[document]
        estimates = {
            "predicted": stats.mean(chance, bounds=(0.0, 1.0)),
            "measured": stats.clustered_mean(changed, document, bounds=(0.0, 1.0)),
            "difference": stats.clustered_mean(changed - chance, document, bounds=(-1.0, 1.0)),
        }
        for what, estimate in estimates.items():
            n = len(document if what == "predicted" else original)
            result.append({"epsilon": epsilon, "what": what, **estimate.columns(), "n": n})
    return pd.DataFrame(result)


# --- What can be predicted ----------------------------------------------------------------------


def gains(
    rows: pd.DataFrame, predicted: Mapping[tuple[str, str], FloatArray], sizes: Sizes, seed: Any
) -> pd.DataFrame:
    """By how much sets of features beat the mean at each epsilon, on the same unseen documents.

    Predictions are out of fold, by features and by what folds keep together ("document" or "row").
    Columns: features, measure ("r2": more of it, "rmse": less), value, low, high, n.
    """
    return pd.DataFrame(
        {"features": features, **row}
        for features, by in predicted
        if by == "document" and features != EPS_ONLY
        for row in _gained(rows, predicted[features, by], predicted[EPS_ONLY, by], sizes, seed)
    )


def gains_of_small_model(
    rows: pd.DataFrame, predicted: Mapping[tuple[str, str], FloatArray], sizes: Sizes, seed: Any
) -> pd.DataFrame:
    """What B and C add to epsilon alone, by one regressor, for each way of cutting folds.

    Columns: by ("row", as the release cuts them, or "document"), measure ("r2", "rmse", see
    `gains`; "ratio": the R2 of epsilon alone divided by that of A, B and C, which the interval
    takes as exact; absent where that is not above 0), value, low, high, n.
    """
    result = []
    for by in ("row", "document"):
        gained = _gained(rows, predicted["all", by], predicted["no_bc", by], sizes, seed)
        result += [{"by": by, **row} for row in gained]
        whole = r2_score(rows[TARGET], predicted["all", by])
        if whole > 0:  # else there is nothing to divide by
            r2 = gained[0]
            ends = {"value": "value", "low": "high", "high": "low"}
            ratio = {end: 1 - r2[of_gain] / whole for end, of_gain in ends.items()}
            result.append({"by": by, "measure": "ratio", **ratio, "n": r2["n"]})
    return pd.DataFrame(result)


def _gained(
    rows: pd.DataFrame, first: FloatArray, second: FloatArray, sizes: Sizes, seed: Any
) -> list[dict[str, Any]]:
    """`prediction.gain` of predictions over others, a row for R2 and one for the error."""
    drawn, document = stream(seed, "06", "scores"), rows["document"]
    gained = gain(rows[TARGET], first, second, document, drawn, resamples=sizes.resamples)
    return [{"measure": what, **each.columns()} for what, each in vars(gained).items()]


# --- Intervals and what they are good for -------------------------------------------------------


def coverage(intervals: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Coverage and width of `prediction.cross_intervals`, at each epsilon and over all.

    Errors of shares are by document. A width has none: it rests on the errors of the documents
    that train, which resampling those that are asked about would leave as they are. Columns:
    features, epsilon (NaN: all), what ("covered", "width"; of all epsilons "together" too, the
    share of documents whose intervals all cover), value, low, high, n.
    """
    result = []
    for features, table in intervals.items():
        parts = {np.nan: table, **dict(list(table.groupby("epsilon")))}
        for epsilon, part in parts.items():
            where, document = {"features": features, "epsilon": epsilon}, part["document"]
            covered = stats.clustered_share(part["covered"], document, sample=SAMPLE)
            width = {"value": (part["high"] - part["low"]).mean(), "n": covered.n}
            result += [
                {**where, "what": "covered", **covered.columns()},
                {**where, "what": "width", **width},
            ]
        together = _mean(table.groupby("document")["covered"].all().to_numpy())
        result.append({**where, "epsilon": np.nan, "what": "together", **together.columns()})
    return pd.DataFrame(result)


def decisions(
    rows: pd.DataFrame,
    intervals: Mapping[str, pd.DataFrame],
    features: Mapping[str, Sequence[str]],
    sizes: Sizes,
    seed: Any,
) -> pd.DataFrame:
    """What is wasted by each rule that sends a prompt at some epsilon, or keeps it.

    Rules, each by what is known of a text, the `features` of its cross intervals:

    - "predicted", "low": the smallest epsilon whose prediction, or whose interval's lower end,
      reaches the threshold; kept if none does
    - "margin": the same of predictions with a margin, see `with_margin`
    - "cost": what is expected to cost least, see `cheapest`

    The last two learn from other documents; what they waste is the mean over CUTS divisions into
    folds, since one alone may move a cost by more than the rules differ.

    Columns: threshold, features, rule, what (see `prediction.outcome`), value, low, high, n
    (documents), influence.
    """
    truth, revealed = _levels(rows, TARGET), 1 - _levels(rows, "changed")
    count, result = np.arange(len(truth)), []
    cuts = [folds(count, sizes.folds, stream(seed, "06", "cost", str(cut))) for cut in range(CUTS)]
    for threshold in sizes.thresholds:
        everywhere = (np.full(len(truth), level) for level in range(truth.shape[1] + 1))
        by_level = [outcome(level, truth, revealed, threshold)["cost"] for level in everywhere]
        costs = np.stack(by_level, axis=1)
        for known, table in intervals.items():
            told = {rule: _levels(table, rule) for rule in ("predicted", "low")}
            chosen = {rule: [promised(believed, threshold)] for rule, believed in told.items()}
            margin = partial(with_margin, told["predicted"], costs, threshold)
            chosen["margin"] = [margin(cut) for cut in cuts]
            chosen["cost"] = [cheapest(rows, features[known], costs, cut) for cut in cuts]
            for rule, levels in chosen.items():
                where = {"threshold": threshold, "features": known, "rule": rule}
                became = [outcome(level, truth, revealed, threshold) * 1.0 for level in levels]
                for what, values in (sum(became[1:], became[0]) / len(became)).items():
                    most = 2.0 if what == "cost" else 1.0  # who pays for nothing misses no answer
                    result.append({**where, "what": what, **_mean(values, (0.0, most)).columns()})
    return pd.DataFrame(result)


def with_margin(
    believed: FloatArray, costs: FloatArray, threshold: float, fold: IntArray
) -> IntArray:
    """`promised` with the margin, one of MARGINS, that costs the other folds of documents least.

    `believed` are (documents, levels), `costs` (documents, levels + 1), `fold` (documents,); a
    margin above 0 asks for more than the threshold.
    """
    level = np.stack([promised(believed - margin, threshold) for margin in MARGINS], axis=1)
    cost = np.take_along_axis(costs, level, axis=1)
    result = np.empty(len(costs), np.int64)
    for test in (fold == number for number in np.unique(fold)):
        result[test] = level[test, cost[~test].mean(axis=0).argmin()]
    return result


def cheapest(
    rows: pd.DataFrame, features: Sequence[str], costs: FloatArray, fold: IntArray
) -> IntArray:
    """The level, or the last column of `costs` for keeping, that is expected to cost least.

    For each fold of documents, from the others: the mean cost of each column, and where features
    say more than epsilon, a line through them at each level. (documents,) columns of `costs`, which
    are (documents, levels + 1).
    """
    known = [_levels(rows, each) for each in features if each not in A]
    result = np.empty(len(costs), np.int64)
    for test in (fold == number for number in np.unique(fold)):
        expected = np.tile(costs[~test].mean(0), (int(test.sum()), 1))
        for level in range(costs.shape[1] - 1 if known else 0):
            seen = np.column_stack([each[:, level] for each in known])
            line = LinearRegression().fit(seen[~test], costs[~test, level])
            expected[:, level] = line.predict(seen[test])
        result[test] = expected.argmin(1)
    return result


# --- Another mechanism --------------------------------------------------------------------------


def about_others(
    learned: pd.DataFrame, asked: pd.DataFrame, features: Sequence[str], sizes: Sizes, seed: Any
) -> FloatArray:
    """Predictions about each fold of `asked` from the other documents of `learned`: (rows,).

    These are rows of two mechanisms, or of one; some of the documents are the same.
    """
    fold = folds(asked["document"], sizes.folds, stream(seed, "06", "folds", "transfer"))
    result = np.empty(len(asked))
    for number in range(sizes.folds):
        test = asked[fold == number]
        apart = learned[~learned["document"].isin(test["document"])]
        predictor = Predictor.fit(apart, features, regressor=sizes.regressor, count=2, seed=seed)
        result[fold == number] = predictor.predict(test)
    return result
