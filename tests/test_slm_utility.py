"""Notebook 06: its loop and its folds as they stand in it, and its tables with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cells import function_of
from tiny_generators import tiny_family

from textpriv.data.corpora import Documents
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.experiments import slm_utility as experiment
from textpriv.experiments import slm_utility_findings as findings
from textpriv.experiments.slm_utility import EPS_ONLY, Sizes
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.sweep import chance_kept, sweep
from textpriv.models import Encoder
from textpriv.report.run import Run
from textpriv.seeds import stream
from textpriv.utility.prediction import ALL, FREE, TARGET, A, B, C, cross_intervals, scores
from textpriv.utility.preview import PieceTable, Reader
from textpriv.utility.summaries import INSTRUCTION, Extractive, Writer, similarity

SEED = 5
WORDS = ("cat", "dog", "fish", "the", "sat", "ran", "on", "mat", "!", "snowball")
SIZES: dict[str, Any] = {
    "corpus": "made up",
    "documents": 8,
    "public": 30,
    "longest": 12,
    "tokens": 5,
    "encoder": "tiny",
    "small": "extractive",
    "large": "tiny",
    "words": 200,
    "regressors": (),
    "regressor": "tree",
    "folds": 3,
    "resamples": 100,
    "level": 0.6,
    "thresholds": (0.0, 0.5),
}


def sizes(**other: Any) -> Sizes:
    return Sizes(**(SIZES | other))


def texts(count: int, seed: int) -> tuple[str, ...]:
    rng = np.random.default_rng(seed)
    return tuple(" ".join(rng.choice(WORDS, rng.integers(3, 20))) for _ in range(count))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    generator = tiny_family(tmp_path_factory.mktemp("large"), "llama", longest=400, chat=True)
    return Writer(generator, tokens=5)


@pytest.fixture(scope="module")
def reader(encoder: Encoder) -> Reader:
    small = Extractive(encoder, tokens=5)
    return Reader.of(encoder, small, texts(30, 1), PieceTable.of(encoder))


@pytest.fixture(scope="module")
def original(reader: Reader) -> Corpus:
    return reader.table.encode(texts(8, 2), longest=12)


@pytest.fixture(scope="module")
def measured(reader: Reader, original: Corpus, large: Writer) -> pd.DataFrame:
    home = {"encoder": reader.encoder, "table": reader.table, "small": reader.small}
    summarized = function_of("06_slm_utility", "summarized", reader=reader, large=large, **home)
    rows: pd.DataFrame = summarized(
        Madlib(reader.table.embedding, epsilon=1), original, [3.0, 12.0], stream(SEED, "noise")
    )
    return rows


def test_the_same_noise_serves_every_epsilon(
    reader: Reader, original: Corpus, measured: pd.DataFrame
) -> None:
    made, grid = Madlib(reader.table.embedding, epsilon=1), [3.0, 12.0]
    ids = sweep(made, original.ids, grid, stream(SEED, "noise"))
    expected = reader.features(original, [original.with_ids(each) for each in ids], grid)
    pd.testing.assert_frame_equal(measured[[*expected.columns]], expected)


def test_rows_hold_what_the_large_model_said(
    reader: Reader, measured: pd.DataFrame, large: Writer
) -> None:
    answers = large.summarize(list(measured["sanitized"]))
    assert measured["summary_large"].tolist() == answers
    worth = similarity(reader.encoder, list(measured["original"]), answers)
    np.testing.assert_allclose(measured[TARGET], worth, atol=1e-3)
    plain = list(measured["original"][:8])
    worth = similarity(reader.encoder, plain, large.summarize(plain))
    np.testing.assert_allclose(measured["large_original"], np.tile(worth, 2), atol=1e-3)


def test_folds_by_document_keep_its_rows_together_and_folds_by_row_do_not() -> None:
    rows = known(20)
    cut = function_of("06_slm_utility", "cut", sizes=sizes(folds=5), seed=SEED)
    for by, together in (("document", True), ("row", False)):
        folds = cut(rows, by)
        held_out = np.concatenate([test for _, test in folds])
        assert sorted(held_out) == list(range(60)) and {len(test) for _, test in folds} == {12}
        for train, test in folds:
            assert not set(train) & set(test)
            shared = set(rows["document"][train]) & set(rows["document"][test])
            assert bool(shared) is not together


def test_only_whole_documents_near_their_summaries(encoder: Encoder) -> None:
    """A document of 12 pieces is whole at 12 and not at 11; its own text is a summary at 1."""
    kept = texts(200, 4)
    table = PieceTable.of(encoder)
    lengths = np.diff(table.encode(kept).offsets)
    summaries = np.array([text if n % 2 else "cat" for n, text in enumerate(kept)], dtype=object)
    corpus = Documents("made up", kept, {"summary": summaries})

    def wanted(**other: Any) -> set[str]:
        settings = sizes(documents=20, public=30, **other)
        eligible = experiment.eligible(corpus, table, encoder, settings)
        assert 20 < len(eligible) <= 50
        return set(eligible.texts)

    short = {text for text, length in zip(kept, lengths, strict=True) if length <= 12}
    same = set(kept[1::2])
    assert len(short) < 180 and max(lengths) > 12
    assert wanted() == set(kept[:50])
    assert wanted(only_whole=True) <= short and wanted(only_whole=True) - same
    assert wanted(only_whole=True, least_similarity=0.999) <= short & same
    with pytest.raises(InvalidInput, match="made up: got 0 documents that are whole and near"):
        wanted(only_whole=True, longest=8, least_similarity=1.1)


@pytest.mark.parametrize(("family", "told"), [("t5", "summarize:"), ("bart", "")])
def test_models_are_told_what_they_were_not_trained_to(
    family: str, told: str, tmp_path: Path, large: Writer
) -> None:
    assert experiment.instruction(tiny_family(tmp_path, family)) == told
    assert experiment.instruction(large.generator) == INSTRUCTION


def test_the_worth_of_originals() -> None:
    values = np.linspace(0.1, 0.9, 20)
    table = pd.DataFrame({"model": "people", "document": np.arange(20), "similarity": values})
    worth = experiment.worth(table, np.random.default_rng(0))
    assert worth["value"].tolist() == pytest.approx([0.5, np.quantile(values, 0.1)])
    assert (worth["low"] < worth["value"]).all() and (worth["value"] < worth["high"]).all()


def test_means_by_epsilon() -> None:
    rows = pd.DataFrame(
        {"epsilon": [2.0, 1.0, 2.0, 1.0], "document": [1, 1, 0, 0], "lost": [0.2, 0.5, 0.0, 0.1]}
    )
    means = experiment.means(rows, {"lost": (-2, 2)})
    assert means["value"].tolist() == pytest.approx([0.3, 0.1]) and (means["n"] == 2).all()
    assert means["influence"][0].effect.tolist() == pytest.approx([-0.14142, 0.14142], rel=1e-4)


def headlines(**columns: Any) -> pd.DataFrame:
    """Of two documents at epsilons 10, 20 and 40; a column is given as (documents, epsilons)."""
    base = {
        "changed": [[1.0, 0.96, 0.0]] * 2,
        "text_similarity": [[0.1, 0.2, 1.0]] * 2,
        "small_original": [[0.9] * 3] * 2,
        "small_sanitized": [[0.1, 0.2, 0.9]] * 2,
        "large_original": [[0.8] * 3] * 2,
        TARGET: [[0.1, 0.2, 0.8]] * 2,
    }
    flat = {name: np.ravel(values) for name, values in (base | columns).items()}
    where = {"document": np.repeat([0, 1], 3), "epsilon": np.tile([10.0, 20.0, 40.0], 2)}
    rows = pd.DataFrame(where | flat).sample(frac=1, random_state=0)
    lost = rows.assign(
        text=1 - rows["text_similarity"],
        small=rows["small_original"] - rows["small_sanitized"],
        large=rows["large_original"] - rows[TARGET],
    )
    return experiment.headlines(lost, np.random.default_rng(0)).set_index("name")


def test_headlines_by_hand() -> None:
    table = headlines(**{TARGET: [[0.0, 0.3, 0.9], [0.1, 0.2, 0.8]]})
    value = table["value"]
    # Mean losses of the large model: 0.75, 0.55, -0.05; of the small one 0.8, 0.7, 0.
    assert value["knee.llm.eps"] == pytest.approx(20 * 2 ** (0.45 / 0.6))
    assert value["knee.slm.eps"] == pytest.approx(20 * 2 ** (0.6 / 0.7))
    assert value["loss.range.lowest_eps"] == pytest.approx(0.05)
    assert value["loss.llm.lowest_eps"] == pytest.approx(0.75)
    assert value["loss.llm.highest_eps"] == pytest.approx(-0.05)
    assert value["loss.slm.lowest_eps"] == pytest.approx(0.8)
    assert value["loss.text.highest_eps"] == pytest.approx(0)
    assert value["changed.lowest_eps"] == 1 and value["changed.highest_eps"] == 0
    assert value["similarity.llm.gain.nearly_all_changed"] == pytest.approx(0.2)
    # Where 96% of the tokens change, which is nearest to half of them.
    assert value["similarity.llm.half_changed.lowest"] == 0.2
    assert value["similarity.llm.half_changed.highest"] == 0.3
    assert value["similarity.llm.half_changed.p80_minus_p20"] == pytest.approx(0.06)
    assert (table["low"] <= value).all() and (value <= table["high"]).all()
    assert (table["n"] == 2).all()


def test_two_models_may_lose_as_much() -> None:
    """The large one loses 0.1 less of one document, 0.08 more of the other."""
    table = headlines(**{TARGET: [[0.1, 0.2, 0.8], [-0.08, 0.2, 0.8]]})
    row = table.loc["loss.range.lowest_eps", ["value", "low", "high"]]
    assert row.tolist() == pytest.approx([0.01, 0.0, 0.1])


def test_headlines_leave_out_what_is_not_there() -> None:
    table = headlines(
        **{TARGET: [[0.1, 0.2, 0.3]] * 2, "small_sanitized": [[0.85, 0.9, 0.9]] * 2},
        changed=[[0.96, 0.9, 0.0]] * 2,
    )
    assert "knee.llm.eps" not in table.index  # always lost
    assert table["value"]["knee.slm.eps"] == 10  # never lost
    assert "similarity.llm.gain.nearly_all_changed" not in table.index
    none = headlines(changed=[[0.9, 0.5, 0.0]] * 2)
    assert "similarity.llm.gain.nearly_all_changed" not in none.index


def changed_by(mechanism: Madlib, corpus: Corpus, rng: np.random.Generator) -> Any:
    """Share of each document's tokens that one sanitizing changes."""
    outputs = mechanism.sanitize_corpus(corpus, rng)
    return np.add.reduceat(outputs.ids != corpus.ids, corpus.offsets[:-1]) / np.diff(corpus.offsets)


def changes(by_epsilon: dict[float, Any]) -> pd.DataFrame:
    """The share of each document that changed, as rows."""
    rows = pd.DataFrame(by_epsilon).rename_axis(index="document", columns="epsilon")
    return rows.stack().reset_index(name="changed")


def test_the_length_of_a_document_is_no_error(original: Corpus) -> None:
    """Of documents of 3 to 12 tokens, each about half changes: little is left open."""
    assert np.ptp(np.diff(original.offsets)) > 3
    rows = changes({3.0: 0.5 + 0.01 * (-1) ** np.arange(8)}).sample(frac=1, random_state=0)
    predicted = np.linspace(0.2, 0.9, len(original.ids))
    knee = experiment.knee(rows, original, {3.0: predicted}).set_index("what")
    measured = knee.loc["measured"]
    assert measured["value"] == pytest.approx(0.5, abs=0.01)
    assert measured["n"] == 8 and knee.loc["predicted", "n"] == len(original.ids)
    assert measured["high"] - measured["low"] < 0.05
    assert knee.loc["predicted", "high"] > knee.loc["predicted", "low"]  # by its directions


def test_the_difference_on_the_same_tokens_covers(reader: Reader, original: Corpus) -> None:
    """The intervals of 60 draws hold 0 in 95%; below 47 with a chance of 1e-6."""
    copies = original.subset(np.tile(np.arange(8), 8))
    made = Madlib(reader.table.embedding, epsilon=8.0)
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = changes({8.0: changed_by(made, copies, rng)})
        chance = 1 - chance_kept(made, copies.ids, rng)(8.0)
        knee = experiment.knee(rows, copies, {8.0: chance}).set_index("what")
        covered += knee.loc["difference", "low"] <= 0 <= knee.loc["difference", "high"]
    assert covered >= 47


def test_the_verdict_on_the_knee_is_that_of_the_difference() -> None:
    ends = np.array([[-0.1, 0.1], [-0.012, -0.002]])
    table = pd.DataFrame(ends, columns=["low", "high"]).assign(value=ends.mean(1))
    table = table.assign(what="difference", epsilon=[10.0, 11.0])
    missed = findings.knee(table).text
    assert "the 95% interval at 1 of 2 epsilons" in missed
    assert "(outside at 11: -0.0070, -0.0120 to -0.0020)" in missed


def known(documents: int = 40, seed: int = 0) -> pd.DataFrame:
    """Worth rises with epsilon; the small model tells what the document adds, in part."""
    rng = np.random.default_rng(seed)
    document, epsilon = np.repeat(np.arange(documents), 3), np.tile([1.0, 2.0, 4.0], documents)
    rise, own = np.log2(epsilon) / 4, rng.normal(0, 0.15, documents)[document]
    noise = 0.02 * rng.standard_normal((3, len(document)))
    rows = pd.DataFrame({"document": document, "epsilon": epsilon, "text_similarity": rise})
    rows["small_original"], rows["small_sanitized"] = 0.5 + noise[2], rise + own + noise[0]
    rows["changed"], rows["surprise"] = 1 - rise, rng.random(len(document))
    return rows.assign(**{TARGET: rise + own + noise[1]})


# The sets of features of the notebook that its tables ask for.
SETS = {"all": ALL, "no_b": (*A, *C), "no_c": (*A, *B), "no_bc": A, "free": (*A, *FREE)}
SETS |= {"everything": (*ALL, *FREE), EPS_ONLY: A}


def predictions(rows: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """Out of fold, as in the notebook."""
    space = {"sizes": sizes(), "seed": SEED}
    cut = function_of("06_slm_utility", "cut", **space)
    ask = function_of("06_slm_utility", "out_of_fold", cut=cut, features=SETS, **space)
    answers: dict[tuple[str, str], Any] = ask(rows, dict.fromkeys(SETS, "tree"))
    return answers


def test_gains_are_differences_and_tell_which_features_help() -> None:
    rows = known()
    predicted = predictions(rows)
    drawn, document = np.random.default_rng(0), rows["document"]
    both = {
        key: scores(rows[TARGET], each, document, drawn, resamples=100)
        for key, each in predicted.items()
    }
    r2 = {key: each.r2.value for key, each in both.items()}
    rmse = {key: each.rmse.value for key, each in both.items()}
    gained = experiment.gains(rows, predicted, sizes(), SEED).set_index(["features", "measure"])
    assert EPS_ONLY not in gained.index
    expected = r2["all", "document"] - r2[EPS_ONLY, "document"]
    assert gained.loc[("all", "r2"), "value"] == pytest.approx(expected) and expected > 0.15
    assert gained.loc[("all", "r2"), "low"] > 0 and gained.loc[("all", "rmse"), "low"] > 0
    value = gained["value"]
    assert value["no_c", "r2"] < value["all", "r2"] - 0.15
    # What the small model adds to epsilon, in the paper's folds and on unseen documents.
    gains = experiment.gains_of_small_model(rows, predicted, sizes(), SEED)
    value = gains.set_index(["by", "measure"])["value"]
    for by in ("row", "document"):
        assert (
            value[by, "r2"] == pytest.approx(r2["all", by] - r2["no_bc", by])
            and value[by, "r2"] > 0
        )
        assert value[by, "rmse"] == pytest.approx(rmse["no_bc", by] - rmse["all", by])
        assert value[by, "ratio"] == pytest.approx(r2["no_bc", by] / r2["all", by])
    assert (gains["low"] <= gains["value"]).all() and (gains["value"] <= gains["high"]).all()
    rows[TARGET] = np.random.default_rng(3).random(len(rows))
    gains = experiment.gains_of_small_model(rows, predictions(rows), sizes(), SEED)
    assert "ratio" not in set(gains["measure"])  # nothing to divide by


@pytest.fixture(scope="module")
def intervals() -> dict[str, pd.DataFrame]:
    """Of `known(60)`, as in the notebook."""
    return {
        each: cross_intervals(known(60), SETS[each], regressor=name, level=0.8, count=3, seed=SEED)
        for each, name in (("all", "linear"), (EPS_ONLY, "tree"))
    }


def test_intervals_are_narrower_where_more_is_known(intervals: dict[str, pd.DataFrame]) -> None:
    table = experiment.coverage(intervals)
    table = table.set_index(["features", "what", "epsilon"])
    assert table.loc[("all", "covered", 1.0), "n"] == 60
    every = table[table.index.get_level_values("epsilon").isna()].droplevel("epsilon")
    assert every.loc[("all", "covered"), "n"] == 180
    assert every.loc[("all", "covered"), "value"] > 0.7
    widths = every["value"].unstack()["width"]
    assert widths["all"] < widths[EPS_ONLY] - 0.1
    together = intervals["all"].pivot(index="document", columns="epsilon", values="covered")
    assert every.loc[("all", "together"), "value"] == together.to_numpy().all(1).mean() < 0.8


def test_rules_that_know_more_cost_less(intervals: dict[str, pd.DataFrame]) -> None:
    table = experiment.decisions(known(60), intervals, SETS, sizes(thresholds=(0.2, 9.0)), SEED)
    value = table.set_index(["threshold", "features", "rule", "what"])["value"]
    assert value[0.2, "all", "predicted", "cost"] < value[0.2, EPS_ONLY, "predicted", "cost"]
    assert value[0.2, "all", "cost", "cost"] < value[0.2, EPS_ONLY, "cost", "cost"] - 0.05
    # A cautious rule wastes less money; a threshold that nothing reaches sends nothing.
    assert value[0.2, "all", "low", "wasted"] < value[0.2, EPS_ONLY, "predicted", "wasted"]
    assert not value[9.0].any()


def test_the_cheapest_level_by_hand() -> None:
    """Of all others on average; with a feature, of those that are like the document."""
    rows = known(60)
    own = np.arange(60) % 2
    rows["small_original"] = own[rows["document"]]
    costs = np.column_stack([own, 1.0 - own, np.full(60, 0.6), np.full(60, 0.4)])
    fold = np.arange(60) // 2 % 3
    alone = experiment.cheapest(rows, A, costs, fold)
    assert alone.tolist() == [3] * 60  # keeping
    told = experiment.cheapest(rows, (*A, *B), costs, fold)
    assert told.tolist() == np.where(own, 1, 0).tolist()
    # Nothing of a document's own cost is learned: noise says no more than the average.
    noise = np.random.default_rng(0).random((60, 4))
    chosen = experiment.cheapest(rows, A, noise, fold)
    assert all(len(set(chosen[fold == number])) == 1 for number in range(3))


def test_a_margin_is_learned_from_other_documents() -> None:
    """Predictions are 0.2 too high, but for those of one fold, where they are 0.2 too low.

    Sending at the threshold of 0.5 costs 1 where the answer falls short, keeping 0.3 wherever one
    would have served. The fold that differs gets the others' margin, and they get theirs.
    """
    truth = np.tile([0.4, 0.6], 30)[:, None]
    fold = np.arange(60) // 2 % 3
    believed = truth + np.where(fold == 2, -0.2, 0.2)[:, None]
    costs = np.column_stack([truth[:, 0] < 0.5, 0.3 * (truth[:, 0] > 0.5)]).astype(float)
    level = experiment.with_margin(believed, costs, 0.5, fold)
    assert (level[fold == 2] == 1).all()  # keeps all, by a margin that the others have taught it
    right = np.where(truth[:, 0] > 0.5, 0, 1)
    for wrong in (0.2, 0.0, -0.2):
        assert (experiment.with_margin(truth + wrong, costs, 0.5, fold) == right).all()


def test_others_are_asked_about_documents_that_did_not_train(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, other = known(), known(20, seed=0)
    fitted = []
    fit = experiment.Predictor.fit

    def noted(table: pd.DataFrame, *arguments: Any, **options: Any) -> Any:
        fitted.append(set(table["document"]))
        return fit(table, *arguments, **options)

    monkeypatch.setattr(experiment.Predictor, "fit", noted)
    for learned in (rows, other):
        predicted = experiment.about_others(learned, other, ALL, sizes(), SEED)
        assert np.isfinite(predicted).all() and len(predicted) == 60
    for folds in (fitted[:3], fitted[3:]):
        absent = [set(range(20)) - documents for documents in folds]
        assert set().union(*absent) == set(range(20)) and sum(map(len, absent)) == 20
    assert max(map(len, fitted[:3])) > 30  # the other twenty documents train too


def test_findings_are_chosen_by_what_was_recorded() -> None:
    run = Run("06_slm_utility", "smoke", SEED, {})
    named = {
        "regression.{}.r2.by_document": {"eps_only": 0.4, "all": 0.6, "free": 0.4, "text": 0.5}
        | {"everything": 0.7},
        "regressor.boosting.{}.r2.by_document": {"all": 0.5, "no_bc": 0.5, "no_b": 0.45}
        | {"no_c": 0.4},
        "boosting.gain.r2.by_{}": {"row": 0.01, "document": -0.02},
        "similarity.{}.original": {"llm": 0.5, "slm": 0.505, "people": 0.7},
        "{}": {"regression.all.rmse.by_row": 0.2, "loss.llm.eps3": 0.6, "loss.llm.eps12": 0.1}
        | {"knee.llm.eps": 11.0},
    }
    costs = {"eps_only.cost": 0.5, "everything.predicted": 0.6, "everything.margin": 0.5,
             "everything.cost": 0.4, "all.cost": 0.5, "text.cost": 0.3}  # fmt: skip
    named |= {f"decision.{{}}.cost.at{at}": costs for at in sizes().thresholds}
    for name, values in named.items():
        for each, value in values.items():
            run.record(name.format(each), value, value - 0.01, value + 0.01, 60, unit="made up")

    title, said, _ = findings.prediction(run, 0.25)
    assert title == "The text predicts better than its epsilon alone"
    assert "with the small model (a gain, " in said and "free features instead (undecided" in said
    assert "everything explains 50% of what epsilon leaves open" in said
    assert "the truth of 0.33. Here it is 0.25" in said  # 0.1 / 0.3
    for people in (False, True):
        title, said, _ = findings.models(run, people=people)
        assert title.endswith("is undecided at this size") and ("reach 0.700" in said) == people
    title, said, _ = findings.small_model(run)
    assert (
        title.endswith("is undecided at this size")
        and "0.400 (0.390 to 0.410) with A and B" in said
    )
    title, said, _ = findings.decision(run, sizes())
    assert "to send where the prediction reaches it costs more than one epsilon" in title
    assert "(more, +0.100" in said and "(less, -0.100" in said
    for rule, more, less in (
        ("costs", 2, 0),
        ("a margin", 0, 0),
        ("everything", 0, 2),
        ("of it", 0, 0),
    ):
        assert f"{rule} significantly more at {more}, less at {less}; " in said
    for name, where in (("knee.llm.eps", "at epsilon 11.0 ("), ("", "nowhere on this grid")):
        title, said, _ = findings.losses(run, [3.0, 12.0], pd.DataFrame({"name": [name]}))
        assert title == "The large model's loss falls as epsilon grows"
        assert where in said and "small model" not in said
