"""Prediction: folds without leaks, scores by hand, intervals with measured coverage, decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import half_width, refused
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, PredefinedSplit, cross_val_predict

from textpriv.utility.prediction import (
    ALL,
    REGRESSORS,
    TARGET,
    Predictor,
    cross_intervals,
    folds,
    gain,
    misjudged,
    outcome,
    promised,
    regressor,
    scores,
    worst_coverage,
)

Rng = np.random.default_rng
EPSILONS = (40.0, 60.0, 80.0, 100.0)


def rows_of(documents: int, seed: int = 0, *, noise: float = 0.03) -> pd.DataFrame:
    """Similarity that rises with epsilon and depends on the document, which B tells in part."""
    rng = Rng(seed)
    level = rng.normal(0.0, 0.1, documents)
    table = pd.DataFrame(
        {
            "document": np.repeat(np.arange(documents), len(EPSILONS)),
            "epsilon": np.tile(EPSILONS, documents),
        }
    )
    rise = (table["epsilon"] - 40) / 100
    each = level[table["document"]]
    count = len(table)
    return table.assign(
        small_original=0.6 + each + 0.02 * rng.standard_normal(count),
        small_sanitized=rise + each + noise * rng.standard_normal(count),
        **{TARGET: rise + each + noise * rng.standard_normal(count)},
    )


def out_of_fold(table: pd.DataFrame, columns: Any, cv: Any, name: str, seed: int = 0) -> Any:
    """Predictions as the notebook makes them; `cv` as scikit-learn takes it."""
    return cross_val_predict(regressor(name, seed), table[[*columns]], table[TARGET], cv=cv)


@given(
    st.lists(st.integers(0, 9), min_size=12, max_size=60),
    st.integers(2, 4),
    st.integers(0, 2**32 - 1),
)
def test_folds_by_document_never_part_one(documents: list[int], count: int, seed: int) -> None:
    if len(set(documents)) < count:
        return
    fold = folds(documents, count, Rng(seed))
    table = pd.DataFrame({"document": documents, "fold": fold})
    assert (table.groupby("document")["fold"].nunique() == 1).all()
    assert set(fold) == set(range(count))
    assert (fold == folds(documents, count, Rng(seed))).all()


def memory(documents: int = 60, rows: int = 6, seed: int = 3) -> pd.DataFrame:
    """What a document is worth follows from nothing, but a feature names the document."""
    rng = Rng(seed)
    document = np.repeat(np.arange(documents), rows)
    worth, name = rng.normal(0, 0.2, documents), rng.permutation(documents) * 10.0
    table = pd.DataFrame(
        {"document": document, "epsilon": np.tile(np.arange(1.0, rows + 1), documents)}
    )
    table["name"] = name[document] + 0.01 * rng.random(len(document))
    table[TARGET] = worth[document] + 0.02 * rng.standard_normal(len(document))
    return table


def test_rows_of_the_same_document_leak_and_grouped_folds_do_not() -> None:
    table = memory()
    together = PredefinedSplit(folds(table["document"], 5, Rng(0)))
    apart = KFold(5, shuffle=True, random_state=0)
    by_document, by_row = (
        r2_score(table[TARGET], out_of_fold(table, ["name"], cv, "neighbors"))
        for cv in (together, apart)
    )
    assert by_row > 0.8 and by_document < 0.1


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_regressor_is_reproducible_and_learns(name: str) -> None:
    table = rows_of(24)
    cv = PredefinedSplit(folds(table["document"], 2, Rng(0)))
    first, again = (out_of_fold(table, ALL, cv, name, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (r2_score(table[TARGET], first) > 0.5) == (name != "mean")


def test_a_tree_on_epsilon_alone_is_the_mean_at_each_epsilon() -> None:
    table = rows_of(10)
    model = regressor("tree").fit(table[["epsilon"]].to_numpy(), table[TARGET])
    means = table.groupby("epsilon")[TARGET].mean()
    np.testing.assert_allclose(model.predict(np.array(EPSILONS)[:, None]), means)


def test_scores_by_hand() -> None:
    truth, predicted = [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 1.0]
    estimates = scores(truth, predicted, [0, 0, 1, 1], Rng(0))
    assert estimates.r2.value == pytest.approx(1 - 4 / 5)
    assert estimates.rmse.value == pytest.approx(1.0)
    assert estimates.r2.n == 4
    # Resampled: one document twice or both; R2 0.2, 1 (no error) or 1 - 8 / 1.
    assert estimates.r2.low == pytest.approx(-7) and estimates.r2.high == pytest.approx(1)
    assert estimates.rmse.low == pytest.approx(0) and estimates.rmse.high == pytest.approx(
        np.sqrt(2)
    )


def test_a_draw_of_equal_rows_has_no_r2_and_is_left_out() -> None:
    estimates = scores([0.0, 1.0], [0.5, 0.5], [0, 1], Rng(0))  # often one document twice
    assert (estimates.r2.low, estimates.r2.value, estimates.r2.high) == (0, 0, 0)


def test_r2_is_that_of_scikit_learn_far_from_0() -> None:
    rng = Rng(5)
    truth = 1e6 + rng.standard_normal(200)
    predicted = truth + 0.5 * rng.standard_normal(200)
    estimates = scores(truth, predicted, np.arange(200) // 4, Rng(0))
    assert estimates.r2.value == pytest.approx(r2_score(truth, predicted), abs=1e-9)


def test_the_bootstrap_draws_documents_and_not_rows() -> None:
    """Rows of a document all err alike: 10 rows say no more than one."""
    rng = Rng(1)
    truth, error = rng.standard_normal(60), rng.standard_normal(60)
    once = scores(truth, truth + error, np.arange(60), Rng(2))
    often = scores(
        np.repeat(truth, 10), np.repeat(truth + error, 10), np.repeat(np.arange(60), 10), Rng(2)
    )
    as_rows = scores(np.repeat(truth, 10), np.repeat(truth + error, 10), np.arange(600), Rng(2))
    width = half_width(once.rmse)
    assert half_width(often.rmse) == pytest.approx(width, rel=1e-6)
    assert half_width(as_rows.rmse) < width / 2


@pytest.mark.parametrize(("skewed", "least"), [(False, 0.88), (True, 0.73)])
def test_few_documents_are_covered_less_often_than_stated(skewed: bool, least: float) -> None:
    """24 documents of 8 rows, predicted by the mean of each row: measured 0.91 and 0.76."""
    rng, runs = Rng(11), 600
    level, document = np.tile(np.linspace(0.05, 0.85, 8), 24), np.repeat(np.arange(24), 8)
    covered = 0
    for _ in range(runs):
        own = 1 - rng.exponential(size=24) if skewed else rng.standard_normal(24)
        truth = level + 0.12 * (own[document] + rng.standard_normal(len(level)))
        rmse = scores(truth, level, document, rng, resamples=400).rmse
        covered += rmse.low <= 0.12 * np.sqrt(2) <= rmse.high
    # Fails one time in a thousand where this much is covered; and it is less than is stated.
    assert binom.cdf(covered, runs, least) > 0.001 and binom.cdf(covered, runs, 0.95) < 0.001


def test_the_influence_of_documents_is_their_jackknife() -> None:
    """Leaving out a document moves R2 and RMSE by its effect, to first order."""
    rng = Rng(4)
    document = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    truth = rng.standard_normal(300)[document] + rng.standard_normal(len(document))
    predicted = truth + rng.standard_normal(len(document))
    estimates = scores(truth, predicted, document, rng, resamples=4000, sample="these")
    for name, estimate in vars(estimates).items():
        influence = estimate.influence
        assert influence is not None and influence.sample == "these"
        # The bootstrap knows the same error; each of the two to about 2%.
        assert influence.error == pytest.approx((estimate.high - estimate.low) / 3.92, rel=0.12)
        for left_out in (0, 17, 299):
            rest = document != left_out
            without = scores(truth[rest], predicted[rest], document[rest], rng, resamples=100)
            moved = estimate.value - getattr(without, name).value
            assert moved == pytest.approx(influence.effect[left_out], rel=0.05, abs=1e-4)
    assert scores(truth, predicted, document, rng, resamples=100).r2.influence is None


def test_who_is_always_right_has_no_error() -> None:
    truth = Rng(0).standard_normal(12)
    told = scores(truth, truth, np.arange(12) // 3, Rng(0), resamples=100, sample="these")
    for estimate in vars(told).values():
        assert estimate.influence is not None and estimate.influence.effect.tolist() == [0] * 4


def test_a_gain_is_paired() -> None:
    table = rows_of(40)
    cv = PredefinedSplit(folds(table["document"], 5, Rng(0)))
    worse, better = (out_of_fold(table, each, cv, "linear") for each in (["epsilon"], ALL))
    truth, documents = table[TARGET], table["document"]
    gains = gain(truth, better, worse, documents, Rng(3))
    alone = [scores(truth, each, documents, Rng(3)) for each in (better, worse)]
    assert gains.r2.value == pytest.approx(alone[0].r2.value - alone[1].r2.value)
    assert gains.rmse.value == pytest.approx(alone[1].rmse.value - alone[0].rmse.value)
    assert gains.r2.low > 0 and gains.rmse.low > 0
    nothing = gain(truth, better, better, documents, Rng(3))
    assert (nothing.r2.low, nothing.r2.value, nothing.r2.high) == (0, 0, 0)


def test_misjudged_by_hand() -> None:
    truth = np.full(4, 0.5)
    predicted, documents = truth + [0.11, 0.09, -0.2, 0.3], [0, 0, 1, 1]
    shares = misjudged(truth, predicted, documents)
    assert {kind: each.value for kind, each in shares.items()} == {
        "optimistic": 0.5,
        "pessimistic": 0.25,
    }


class Constant:
    """A regressor that says one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, values: Any) -> Any:
        return np.full(len(values), self.value)


def made(errors: list[float], document: list[int] | None = None, **other: Any) -> Predictor:
    """One fold that always says 0, and these errors."""
    count = len(errors)
    fields: dict[str, Any] = {
        "features": ("epsilon",),
        "models": (Constant(0.0),),
        "fold": np.zeros(count, dtype=np.int64),
        "error": np.array(errors),
        "epsilon": np.ones(count),
        "document": np.arange(count) if document is None else np.array(document),
    }
    return Predictor(**(fields | other))


ONE = pd.DataFrame({"epsilon": [1.0]})


@pytest.mark.parametrize(
    ("level", "end"),
    [(0.9, 0.09), (0.8, 0.08), (0.81, 0.09), (0.1, 0.01), (0.05, 0.01), (0.91, 1.0)],
)
def test_the_end_is_the_order_statistic_of_split_conformal(level: float, end: float) -> None:
    """Of 9 documents the ceil(10 level)-th smallest error, or no limit if that is the tenth."""
    errors = [0.03, 0.01, 0.02, 0.09, 0.05, 0.04, 0.06, 0.08, 0.07]
    low, high = made(errors).interval(ONE, level=level)
    assert high[0] == pytest.approx(end) and low[0] == pytest.approx(-end)


def test_many_rows_of_one_document_count_as_one() -> None:
    # 4 documents; that of the large errors has 6 rows: 1/5 of the weight, not 6/10.
    errors, document = [0.1, 0.2, 0.3] + [0.9] * 6, [0, 1, 2] + [3] * 6
    low, high = made(errors, document).interval(ONE, level=0.6)
    assert (low[0], high[0]) == pytest.approx((-0.3, 0.3))
    by_row = made(errors).interval(ONE, level=0.6)
    assert by_row[1][0] == pytest.approx(0.9)


def test_each_end_is_built_from_the_model_that_did_not_see_the_document() -> None:
    predictor = made(
        [0.1, 0.1, 0.1, 0.2], models=(Constant(0.0), Constant(0.5)), fold=np.array([0, 0, 1, 1])
    )
    low, high = predictor.interval(ONE, level=0.6)  # third of four: 1/5 each
    assert high[0] == pytest.approx(0.6)  # of 0.1, 0.1, 0.6, 0.7
    assert low[0] == pytest.approx(-0.1)  # of 0.4, 0.3, -0.1, -0.1 from above
    assert predictor.predict(ONE)[0] == pytest.approx(0.25)


def test_ends_that_cross_meet_in_their_middle() -> None:
    predictor = made([0.0] * 4, models=(Constant(0.0), Constant(0.5)), fold=np.array([0, 0, 1, 1]))
    low, high = predictor.interval(ONE, level=0.3)  # 0 and 0.5 from the wrong sides
    assert low[0] == high[0] == pytest.approx(0.25)


def test_errors_at_the_same_epsilon_count_and_others_take_the_nearest() -> None:
    predictor = made([0.1, 0.1, 0.4, 0.4], [0, 1, 0, 1], epsilon=np.array([10.0, 10, 40, 40]))
    asked = pd.DataFrame({"epsilon": [10.0, 40.0, 19.0, 21.0]})
    _, high = predictor.interval(asked, level=0.6)
    assert high == pytest.approx([0.1, 0.4, 0.1, 0.4])


def test_errors_are_those_of_the_folds_that_did_not_see_the_document() -> None:
    table = rows_of(12)
    made = Predictor.fit(table, ["epsilon"], regressor="mean", count=3)
    truth = table[TARGET].to_numpy()
    for number in range(3):
        held_out = made.fold == number
        mean = truth[~held_out].mean()
        assert made.error[held_out] == pytest.approx(np.abs(truth[held_out] - mean))


def simulated(rng: np.random.Generator, documents: int) -> pd.DataFrame:
    """Half of the documents have one row with a large error, half have eight alike, at noise."""
    sizes = np.where(np.arange(documents) % 2, 8, 1)
    document = np.repeat(np.arange(documents), sizes)
    own = rng.standard_normal(documents) * np.where(sizes == 1, 0.4, 0.05)
    table = pd.DataFrame({"document": document, "epsilon": 1.0})
    table[TARGET] = own[document] + 0.01 * rng.standard_normal(len(document))
    return table


def test_new_documents_are_covered_and_the_naive_form_fails() -> None:
    """False alarm below 1e-6 for a coverage of 0.9; the naive form covers about 0.6."""
    rng, trials = Rng(11), 120
    hits = {"honest": 0, "naive": 0}
    for trial in range(trials):
        table, new = simulated(rng, 40), simulated(rng, 2)
        asked = new[new["document"] == trial % 2].sample(1, random_state=trial)
        honest = Predictor.fit(table, ["epsilon"], regressor="mean", seed=trial)
        # Every row as an observation of its own.
        naive = replace(honest, document=np.arange(len(table)))
        for what, predictor in (("honest", honest), ("naive", naive)):
            low, high = predictor.interval(asked, level=0.9)
            hits[what] += int(low[0] <= asked[TARGET].iloc[0] <= high[0])
    least = int(binom.ppf(1e-6, trials, 0.9))
    assert hits["honest"] >= least > hits["naive"]


def test_cross_intervals_ask_about_new_documents_and_cover_them() -> None:
    table = rows_of(80)
    intervals = cross_intervals(table, ALL, regressor="linear", seed=1)
    assert intervals.index.equals(table.index)
    assert (intervals["low"] <= intervals["high"]).all()
    share = intervals.groupby("epsilon")["covered"].mean()
    assert (share > 0.75).all() and intervals["covered"].mean() < 1
    # What is known of the document makes intervals narrower than those of epsilon alone.
    plain = cross_intervals(table, ["epsilon"], regressor="tree", seed=1)
    assert (intervals["high"] - intervals["low"]).mean() < (plain["high"] - plain["low"]).mean()
    np.testing.assert_array_equal(
        intervals, cross_intervals(table, ALL, regressor="linear", seed=1)
    )


def test_cross_intervals_do_not_see_the_document_that_they_are_about() -> None:
    table = memory(documents=20)
    intervals = cross_intervals(table, ["name"], regressor="neighbors", count=4)
    changed = table.copy()
    mine = changed["document"] == 7
    changed.loc[mine, TARGET] = 0.9
    again = cross_intervals(changed, ["name"], regressor="neighbors", count=4)
    columns = ["predicted", "low", "high"]
    np.testing.assert_array_equal(intervals.loc[mine, columns], again.loc[mine, columns])
    assert (intervals.loc[~mine, columns] != again.loc[~mine, columns]).any(axis=None)


def test_the_worst_coverage_by_hand_and_at_its_ends() -> None:
    # 48 documents in 5 folds: 0.8 less min(2 * 0.8 / 10.6, (43 / 48) / 6).
    assert worst_coverage(0.9, 48, 5) == pytest.approx(0.8 - 43 / 288)
    assert worst_coverage(0.9, 4, 4) == pytest.approx(0.8)  # the jackknife+
    assert worst_coverage(0.5, 48, 5) == 0


@given(st.floats(0.8, 0.999), st.integers(2, 10_000), st.data())
def test_the_worst_coverage_lies_within_its_bounds(
    level: float, documents: int, data: st.DataObject
) -> None:
    coverage = worst_coverage(level, documents, data.draw(st.integers(2, documents)))
    least = max(0.0, 2 * level - 1 - np.sqrt(2 / documents))
    assert least - 1e-12 <= coverage <= 2 * level - 1 + 1e-12


def test_outcomes_by_hand() -> None:
    revealed = np.tile([0.1, 0.5, 0.9], (5, 1))
    believed = np.array([[0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]], dtype=float)
    truth = np.array([[1, 1, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=float)
    level = promised(believed, 0.5)
    assert level.tolist() == [1, 0, 3, 2, 3]  # 3: kept
    outcomes = outcome(level, truth, revealed, 0.5)
    assert outcomes["sent"].tolist() == [True, True, False, True, False]
    assert outcomes["wasted"].tolist() == [False, True, False, False, False]
    assert outcomes["missed"].tolist() == [False, False, True, False, False]
    # Sent at 0.5 where 0.1 would do; 0.1 shown for nothing; kept; no more than needed; kept.
    assert outcomes["exposed"].tolist() == pytest.approx([0.4, 0.1, 0, 0, 0])
    assert outcomes["cost"].tolist() == pytest.approx([0.4, 1.1, 1, 0, 0])


@given(st.integers(0, 2**32 - 1), st.floats(-1, 1))
def test_the_truth_itself_wastes_nothing(seed: int, threshold: float) -> None:
    rng = Rng(seed)
    truth, revealed = rng.uniform(-1, 1, (6, 4)), np.sort(rng.random((6, 4)), axis=1)
    outcomes = outcome(promised(truth, threshold), truth, revealed, threshold)
    assert not outcomes["cost"].any()


ZEROS, FIRST = np.zeros((2, 3)), np.ones(2, np.int64)
SIX = rows_of(6)
HOLES = SIX.assign(small_original=np.nan)

test_bad_input_is_named = refused(
    (lambda: worst_coverage(0.9, 4, 5), "count: got 5, expected an integer from 2 to 4"),
    (lambda: regressor("xgboost"), "regressor: got 'xgboost', expected one of mean, linear"),
    (lambda: Predictor.fit(HOLES, ALL), "NaN or infinity in .*'small_original'"),
    (lambda: scores([0, 1], [0, 1], [3, 3], Rng(0)), "at least two to resample"),
    (lambda: scores([1, 1], [0, 1], [0, 1], Rng(0)), "not all equal"),
    (lambda: outcome(FIRST, ZEROS, ZEROS, np.nan), "expected finite"),
    (lambda: outcome(4 * FIRST, ZEROS, ZEROS, 0.5), "level: got ids 4..4, expected 0..3"),
)
