"""Notebook 06's experiments, on made-up text and tiny models, and on tables with known answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tiny_generators import tiny_family
from tiny_models import tiny_encoder

from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.experiments import slm_utility as experiment
from textpriv.experiments.slm_utility import EPS_ONLY, SETS, Material, Sizes
from textpriv.experiments.slm_utility_findings import findings
from textpriv.mechanisms import TEM, Madlib, RankRepair
from textpriv.models import Encoder
from textpriv.neighbors import AnnoySearch
from textpriv.prediction import FREE, KEPT, TARGET
from textpriv.preview import PieceTable, Reader
from textpriv.report import claims, results
from textpriv.report.run import Run
from textpriv.seeds import stream
from textpriv.summaries import Extractive, Writer, similarity

SEED = 5
WORDS = ("cat", "dog", "fish", "the", "sat", "ran", "on", "mat", "!", "snowball")
SIZES: dict[str, Any] = {
    "corpus": "made up",
    "documents": 8,
    "public": 30,
    "longest": 12,
    "tokens": 5,
    "batch": 4,
    "encoder": "tiny",
    "small": "extractive",
    "large": "tiny",
    "shares": (0.8, 0.4),
    "words": 200,
    "annoy_trees": 2,
    "regressors": ("linear", "tree", "support", "boosting"),
    "regressor": "tree",
    "folds": 3,
    "resamples": 100,
    "level": 0.6,
    "thresholds": (0.0, 0.5),
    "corrected_documents": 3,
    "corrected_shares": (0.4,),
}


def sizes(**other: Any) -> Sizes:
    return Sizes(**(SIZES | other))


def texts(count: int, seed: int) -> tuple[str, ...]:
    rng = np.random.default_rng(seed)
    return tuple(" ".join(rng.choice(WORDS, rng.integers(3, 20))) for _ in range(count))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("slm"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    generator = tiny_family(tmp_path_factory.mktemp("large"), "llama", longest=400, chat=True)
    return Writer(generator, tokens=5)


@pytest.fixture(scope="module")
def material(encoder: Encoder) -> Material:
    small = Extractive(encoder, tokens=5, passage=(2, 4))
    reader = Reader.of(encoder, small, texts(30, 1))
    written = texts(8, 2)
    summaries = np.array([text[:8] for text in written], dtype=object)
    documents = Documents("made up", written, {"summary": summaries})
    original = reader.table.encode(written, longest=12)
    return Material(documents, reader, original, np.arange(200) % len(reader.table.embedding))


@pytest.fixture(scope="module")
def measured(material: Material, large: Writer) -> pd.DataFrame:
    made = experiment.mechanism("madlib", material, sizes())
    return experiment.measure(material, made, [3.0, 12.0], large, stream(SEED, "noise"))


# --- Material -----------------------------------------------------------------------------------


def test_public_text_shares_nothing_with_private(
    monkeypatch: pytest.MonkeyPatch, encoder: Encoder
) -> None:
    quoted = " ".join(["cat dog fish the sat ran on mat"] * 2)
    many = Documents("made up", (*texts(20, 0), *[f"{quoted} {word}" for word in WORDS]))
    monkeypatch.setattr(experiment.corpora, "load", lambda name: many)
    monkeypatch.setattr(experiment, "load_encoder", lambda name, device: encoder)
    wanted = sizes(documents=10, public=20)
    found = experiment.gather(wanted, lambda *keys: stream(SEED, *keys))
    assert len(found.documents) == len(found.original) == 10
    assert np.diff(found.original.offsets).max() <= 12
    assert any(quoted in text for text in found.documents.texts)
    # Eight words of the quotation are private: no public text holds them.
    apart = [text for text in many.texts if text not in found.documents.texts]
    public = [text for text in apart if quoted not in text]
    counts = found.reader.table.encode(public).counts(len(found.reader.counts))
    assert (found.reader.counts == counts).all()
    assert len(found.words) == 200 and (found.reader.counts[found.words] > 0).all()
    assert found.reader.small.name == "extractive"
    again = experiment.gather(wanted, lambda *keys: stream(SEED, *keys))
    assert again.documents.texts == found.documents.texts


def test_only_whole_documents_near_their_summaries(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document of 12 pieces is whole at 12 and not at 11; its own text is a summary at 1."""
    kept = texts(200, 4)
    table = PieceTable.of(encoder)
    lengths = np.diff(table.encode(kept).offsets)
    summaries = np.array([text if n % 2 else "cat" for n, text in enumerate(kept)], dtype=object)
    whole = Documents("made up", kept, {"summary": summaries})
    monkeypatch.setattr(experiment.corpora, "load", lambda name: whole)
    monkeypatch.setattr(experiment, "load_encoder", lambda name, device: encoder)

    def gathered(**other: Any) -> set[str]:
        found = experiment.gather(
            sizes(documents=20, public=30, **other), lambda *keys: stream(SEED, *keys)
        )
        return set(found.documents.texts)

    short = {text for text, length in zip(kept, lengths, strict=True) if length <= 12}
    same = set(kept[1::2])
    assert len(short) < 180 and max(lengths) > 12
    assert gathered() - short and gathered() - same
    assert gathered(only_whole=True) <= short and gathered(only_whole=True) - same
    assert gathered(only_whole=True, least_similarity=0.999) <= short & same
    with pytest.raises(InvalidInput, match="made up: got 0 documents that are whole and near"):
        gathered(only_whole=True, longest=8, least_similarity=1.1)


def test_mechanisms_by_name(material: Material) -> None:
    made = {name: experiment.mechanism(name, material, sizes()) for name in experiment.MECHANISMS}
    assert isinstance(made["tem"], TEM) and isinstance(made["rank-repair"], RankRepair)
    assert isinstance(made["madlib"], Madlib) and isinstance(made["madlib-annoy"], Madlib)
    assert isinstance(made["madlib-annoy"].search, AnnoySearch)
    with pytest.raises(InvalidInput, match="mechanism: got 'none'"):
        experiment.mechanism("none", material, sizes())


def test_a_grid_is_that_of_the_profile_or_of_its_shares(material: Material) -> None:
    made = experiment.mechanism("madlib", material, sizes())
    rng = np.random.default_rng
    assert experiment.epsilons(material, made, sizes(grid=(1.0, 2.0)), rng(0)) == [1, 2]
    found = experiment.epsilons(material, made, sizes(), rng(0))
    assert len(found) == 2 and found[0] < found[1]
    assert all(float(f"{epsilon:.3g}") == epsilon for epsilon in found)
    with pytest.raises(InvalidInput, match="ascending"):
        experiment.epsilons(material, made, sizes(grid=(2.0, 1.0)), rng(0))


def test_summarizers_by_name(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = experiment.summarizer("extractive", sizes(), encoder)
    assert isinstance(small, Extractive) and small.tokens == 5
    with pytest.raises(InvalidInput, match="name: got 'parrot'"):
        experiment.summarizer("parrot", sizes(), encoder)
    monkeypatch.setattr(experiment, "GENERATORS", ("t5", "bart", "llama"))
    told = {}
    for family in ("t5", "bart", "llama"):
        generator = tiny_family(tmp_path_factory.mktemp(family), family)
        monkeypatch.setattr(experiment, "load_generator", lambda *_, made=generator: made)
        writer = experiment.summarizer(family, sizes(), encoder)
        assert isinstance(writer, Writer) and (writer.tokens, writer.batch) == (5, 4)
        told[family] = writer.instruction
    assert told["t5"] == "summarize:" and told["bart"] == ""
    assert told["llama"].startswith("Your task is to summarize")


# --- What is measured ---------------------------------------------------------------------------


def test_rows_hold_what_the_models_said(
    material: Material, measured: pd.DataFrame, large: Writer
) -> None:
    assert len(measured) == 16 and measured["mechanism"].unique().tolist() == ["madlib"]
    assert measured["original"].tolist() == material.texts * 2
    encoder = material.reader.encoder
    answers = large.summarize(list(measured["sanitized"]))
    assert measured["summary_large"].tolist() == answers
    worth = similarity(encoder, list(measured["original"]), answers)
    np.testing.assert_allclose(measured[TARGET], worth, atol=1e-3)
    plain = similarity(encoder, material.texts, large.summarize(material.texts))
    np.testing.assert_allclose(measured["large_original"], np.tile(plain, 2), atol=1e-3)


def test_originals_by_model(material: Material, measured: pd.DataFrame) -> None:
    found = experiment.originals(material, measured)
    assert found["model"].unique().tolist() == ["small", "large", "people"]
    assert (found.groupby("model").size() == 8).all()
    written = material.documents.columns["summary"].tolist()
    people = found[found["model"] == "people"]["similarity"]
    expected = similarity(material.reader.encoder, material.texts, written)
    np.testing.assert_allclose(people, expected, atol=1e-3)
    table = experiment.worth(found, np.random.default_rng(0)).set_index(["model", "what"])
    assert table.loc[("people", "mean"), "value"] == pytest.approx(people.mean())
    assert table.loc[("people", "tenth"), "value"] == pytest.approx(people.quantile(0.1))
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()


def test_losses_by_hand() -> None:
    rows = pd.DataFrame(
        {
            "epsilon": [1.0, 1.0, 2.0, 2.0],
            "document": [0, 1, 0, 1],
            "changed": [1.0, 0.5, 0.0, 0.0],
            "text_similarity": [0.2, 0.4, 1.0, 1.0],
            "small_original": [0.9, 0.7, 0.9, 0.7],
            "small_sanitized": [0.1, 0.1, 0.9, 0.5],
            "large_original": [0.8, 0.8, 0.8, 0.8],
            TARGET: [0.3, 0.1, 0.8, 0.6],
        }
    )
    found = experiment.losses(rows).pivot(index="epsilon", columns="what", values="value")
    assert found.loc[1.0, ["changed", "text", "small", "large"]].tolist() == pytest.approx(
        [0.75, 0.7, 0.7, 0.6]
    )
    assert found.loc[2.0].to_dict() == pytest.approx(
        {"changed": 0, "text": 0, "small": 0.1, "large": 0.1}
    )


def levelled(**columns: Any) -> pd.DataFrame:
    """Two documents at epsilons 10, 20 and 40; a column is given as (documents, epsilons)."""
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
    return pd.DataFrame(where | flat)


def headlines(**columns: Any) -> pd.DataFrame:
    rows = levelled(**columns).sample(frac=1, random_state=0)
    return experiment.headlines(rows, np.random.default_rng(0)).set_index("name")


def test_headlines_by_hand() -> None:
    found = headlines(**{TARGET: [[0.0, 0.3, 0.9], [0.1, 0.2, 0.8]]})
    value = found["value"]
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
    assert (found["low"] <= value).all() and (value <= found["high"]).all()
    assert (found["n"] == 2).all()


def test_headlines_at_the_widest_epsilon() -> None:
    found = headlines(**{TARGET: [[0.1, 0.0, 0.8], [0.2, 0.6, 0.9]]})["value"]
    assert found["similarity.llm.widest.lowest"] == 0
    assert found["similarity.llm.widest.highest"] == 0.6
    assert found["similarity.llm.widest.p80_minus_p20"] == pytest.approx(0.6 * 0.6)


def test_headlines_leave_out_what_is_not_there() -> None:
    found = headlines(
        **{TARGET: [[0.1, 0.2, 0.3]] * 2, "small_sanitized": [[0.85, 0.9, 0.9]] * 2},
        changed=[[0.96, 0.9, 0.0]] * 2,
    )
    assert "knee.llm.eps" not in found.index  # always lost
    assert found["value"]["knee.slm.eps"] == 10  # never lost
    assert "similarity.llm.gain.nearly_all_changed" not in found.index
    none = headlines(changed=[[0.9, 0.5, 0.0]] * 2)
    assert "similarity.llm.gain.nearly_all_changed" not in none.index


def test_the_knee_is_predicted(material: Material) -> None:
    """Many copies of one document, so that the measured share has little error."""
    copies = material.original.subset(np.zeros(400, dtype=np.int64))
    many = Material(material.documents, material.reader, copies, material.words)
    made = experiment.mechanism("madlib", many, sizes())
    changed = []
    for epsilon in (3.0, 12.0):
        outputs = made.with_epsilon(epsilon).sanitize_corpus(copies, np.random.default_rng(1))
        share = np.add.reduceat(outputs.ids != copies.ids, copies.offsets[:-1])
        changed.append(share / np.diff(copies.offsets))
    rows = pd.DataFrame(
        {
            "epsilon": np.repeat([3.0, 12.0], 400),
            "document": np.tile(np.arange(400), 2),
            "changed": np.concatenate(changed),
        }
    )
    found = experiment.knee(rows, many, made, np.random.default_rng(2))
    table = found.pivot(index="epsilon", columns="what", values="value")
    np.testing.assert_allclose(table["predicted"], table["measured"], atol=0.05)
    np.testing.assert_allclose(table["difference"], table["measured"] - table["predicted"])
    assert table.loc[3.0, "measured"] > table.loc[12.0, "measured"] + 0.1


def changed_alike(material: Material, share: float) -> pd.DataFrame:
    count = len(material.original)
    return pd.DataFrame({"epsilon": 3.0, "document": np.arange(count), "changed": share})


def test_the_length_of_a_document_is_no_error(material: Material) -> None:
    """Of documents of 3 to 12 tokens, each about half changes: little is left open."""
    assert np.ptp(np.diff(material.original.offsets)) > 3
    made = experiment.mechanism("madlib", material, sizes())
    rows = changed_alike(material, 0.5).sample(frac=1, random_state=0)
    rows["changed"] += np.where(rows["document"] % 2, 0.01, -0.01)
    found = experiment.knee(rows, material, made, np.random.default_rng(0)).set_index("what")
    measured = found.loc["measured"]
    assert measured["value"] == pytest.approx(0.5, abs=0.01)
    assert measured["n"] == len(material.original)
    assert measured["high"] - measured["low"] < 0.05
    assert found.loc["predicted", "high"] > found.loc["predicted", "low"]  # by its directions


def test_the_difference_on_the_same_tokens_covers(material: Material) -> None:
    """The intervals of 100 draws hold 0 in 95%; below 82 with a chance of 1e-6."""
    copies = material.original.subset(np.tile(np.arange(8), 8))
    many = Material(material.documents, material.reader, copies, material.words)
    made = experiment.mechanism("madlib", many, sizes(), epsilon=8.0)
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        outputs = made.sanitize_corpus(copies, rng)
        share = np.add.reduceat(outputs.ids != copies.ids, copies.offsets[:-1])
        rows = changed_alike(many, 0.0).assign(epsilon=8.0, changed=share / np.diff(copies.offsets))
        found = experiment.knee(rows, many, made, rng).set_index("what")
        held += found.loc["difference", "low"] <= 0 <= found.loc["difference", "high"]
    assert held >= 82


def test_the_verdict_on_the_knee_is_that_of_the_difference() -> None:
    def knee(*ends: tuple[float, float]) -> str:
        rows = [
            {"epsilon": 10.0 + n, "what": "difference", "value": (low + high) / 2}
            | {"low": low, "high": high, "n": 5}
            for n, (low, high) in enumerate(ends)
        ]
        return experiment.knee_verdict(pd.DataFrame(rows))

    assert knee((-0.1, 0.1), (-0.1, 0.2)).startswith("At none of 2 epsilons")
    missed = knee((-0.1, 0.1), (-0.012, -0.002))
    assert missed.startswith("At 1 of 2 epsilons") and "11: -0.0070, -0.0120 to -0.0020" in missed


# --- Tables with known answers ------------------------------------------------------------------


def known(documents: int = 40, seed: int = 0) -> pd.DataFrame:
    """Worth rises with epsilon; the small model tells what the document adds, in part."""
    rng, levels = np.random.default_rng(seed), np.array([1.0, 2.0, 4.0])
    document, epsilon = np.repeat(np.arange(documents), 3), np.tile(levels, documents)
    own = rng.normal(0, 0.15, documents)[document]
    count = len(document)
    rise = np.log2(epsilon) / 4
    noise = 0.02 * rng.standard_normal((count, 3))
    return pd.DataFrame(
        {
            "mechanism": "madlib",
            "document": document,
            "epsilon": epsilon,
            "small_original": 0.5 + 0.02 * rng.standard_normal(count),
            "small_sanitized": rise + own + noise[:, 0],
            "changed": 1 - rise,
            "surprise": rng.random(count),
            "text_similarity": rise,
            TARGET: rise + own + noise[:, 1],
        }
    )


def test_features_are_compared_in_both_kinds_of_folds() -> None:
    found = experiment.regressions(known(), sizes(), SEED)
    assert set(found["features"]) == set(SETS) and len(found) == len(SETS) * 4
    value = found.set_index(["features", "measure", "by"])["value"]
    r2 = value.xs("r2", level="measure").xs("document", level="by")
    assert r2["all"] > r2[EPS_ONLY] + 0.15 and r2["no_c"] < r2["all"] - 0.15
    assert r2["no_b"] == pytest.approx(r2["all"], abs=0.1)
    assert r2["free"] < r2["all"] - 0.1  # in this world they add nothing


def test_folds_by_row_see_the_document_that_they_ask_about() -> None:
    rows, worth = known(), np.random.default_rng(1).random(40)
    rows["small_original"] = rows["document"] * 1.0
    rows[TARGET] = worth[rows["document"]]
    memory = sizes(regressor="table")  # a tree that is grown to the end
    found = experiment.regressions(rows, memory, SEED).set_index(["features", "measure", "by"])
    assert found.loc[("no_c", "r2", "row"), "value"] > 0.5
    assert found.loc[("no_c", "r2", "document"), "value"] < 0.2


def test_regressors_share_folds_and_gains_are_differences() -> None:
    rows = known()
    columns = ["regressor", "features", "measure", "by"]
    by_name = experiment.regressors(rows, sizes(), SEED).set_index(columns)
    by_set = experiment.regressions(rows, sizes(), SEED).set_index(["features", "measure", "by"])
    key = ("r2", "document")
    for features in ("all", "no_bc"):
        found = by_name.loc[("tree", features, *key), "value"]
        assert found == by_set.loc[(features, *key), "value"]
    gained = experiment.gains(rows, sizes(), SEED).set_index(["features", "measure"])
    expected = by_set.loc[("all", *key), "value"] - by_set.loc[(EPS_ONLY, *key), "value"]
    assert gained.loc[("all", "r2"), "value"] == pytest.approx(expected)
    assert gained.loc[("all", "r2"), "low"] > 0 > gained.loc[("all", "rmse"), "high"]


def test_table_1_holds_the_small_model_against_epsilon() -> None:
    rows, small = known(), sizes()
    found = experiment.table_1(rows, small, SEED).set_index("name")["value"]
    by_set = experiment.regressions(rows, small, SEED).set_index(["features", "measure", "by"])
    value = by_set["value"].xs("row", level="by")
    expected = value["all", "r2"] - value["no_bc", "r2"]
    assert found["regression.gain.r2.by_row"] == pytest.approx(expected) and expected > 0
    expected = value["no_bc", "rmse"] - value["all", "rmse"]
    assert found["regression.gain.rmse.by_row"] == pytest.approx(expected) and expected > 0
    expected = value[EPS_ONLY, "r2"] / value["all", "r2"]
    assert found["regression.share.eps_only.r2.by_row"] == pytest.approx(expected)
    rows[TARGET] = np.random.default_rng(3).random(len(rows))
    assert len(experiment.table_1(rows, small, SEED)) == 2  # no share of nothing


def test_misjudgements_fall_with_what_is_known() -> None:
    found = experiment.misjudgements(known(), sizes(), SEED).set_index(["features", "by", "kind"])
    for kind in ("optimistic", "pessimistic"):
        row = found.loc[("all", "document", kind)]
        assert row["value"] < found.loc[(EPS_ONLY, "document", kind), "value"]


def test_intervals_are_narrower_where_more_is_known() -> None:
    found = experiment.intervals(known(60), sizes(level=0.8), SEED)
    assert tuple(found) == experiment.JUDGED
    table = experiment.coverage(found, np.random.default_rng(0))
    table = table.set_index(["features", "what", "epsilon"])
    assert table.loc[("all", "covered", 1.0), "n"] == 60
    every = table[table.index.get_level_values("epsilon").isna()].droplevel("epsilon")
    assert every.loc[("all", "covered"), "n"] == 180
    assert every.loc[("all", "covered"), "value"] > 0.7
    for features in experiment.JUDGED:  # two ways to the same interval
        closed, drawn = every.loc[(features, "covered")], every.loc[(features, "resampled")]
        assert closed["value"] == pytest.approx(drawn["value"])
        assert drawn["low"] < drawn["value"] < drawn["high"] and drawn["n"] == 60
        assert drawn[["low", "high"]].tolist() == pytest.approx(
            closed[["low", "high"]].tolist(), abs=0.04
        )
    widths = every.loc[[("all", "width"), (EPS_ONLY, "width")], "value"]
    assert every.loc[("all", "narrower"), "value"] == pytest.approx(widths.iloc[1] - widths.iloc[0])
    assert every.loc[("all", "narrower"), "low"] > 0
    assert (EPS_ONLY, "narrower") not in every.index  # 0 by construction


def test_decisions_know_the_truth_and_pay_for_not_knowing_it() -> None:
    rows = known(60)
    found = experiment.intervals(rows, sizes(level=0.8), SEED)
    table = experiment.decisions(rows, found, [0.2, 9.0])
    value = table.set_index(["threshold", "features", "rule", "what"])["value"]
    assert value[0.2, "truth", "truth", "cost"] == 0
    assert value[0.2, "all", "predicted", "cost"] < value[0.2, EPS_ONLY, "predicted", "cost"]
    # A cautious rule wastes less money; a threshold that nothing reaches sends nothing.
    assert value[0.2, "all", "low", "wasted"] < value[0.2, EPS_ONLY, "predicted", "wasted"]
    assert not value[9.0].any()
    assert KEPT == -1


def test_transfer_asks_about_documents_that_did_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, other = known(), known(20, seed=0)
    fitted = []
    fit = experiment.Predictor.fit

    def noted(table: pd.DataFrame, *arguments: Any, **options: Any) -> Any:
        fitted.append(set(table["document"]))
        return fit(table, *arguments, **options)

    monkeypatch.setattr(experiment.Predictor, "fit", noted)
    found = experiment.transfer(rows, {"tem": other}, sizes(), SEED)
    assert found["source"].unique().tolist() == ["elsewhere", "own"]
    assert len(found) == 12
    for number in range(0, len(fitted), 3):
        three = fitted[number : number + 3]  # the folds of one job
        absent = [set(range(20)) - documents for documents in three]
        assert set().union(*absent) == set(range(20)) and sum(map(len, absent)) == 20
    assert max(map(len, fitted)) > 30  # the other twenty documents train too


def test_elsewhere_measures_the_first_documents(material: Material, large: Writer) -> None:
    wanted = sizes(transfer=("tem",), transfer_documents=3, transfer_shares=(0.9, 0.5))
    found = experiment.elsewhere(material, large, wanted, lambda *keys: stream(SEED, *keys))
    assert list(found) == ["tem"] and len(found["tem"]) == 6
    assert set(found["tem"]["document"]) == {0, 1, 2}
    assert set(found["tem"]["mechanism"]) == {"tem"}
    assert found["tem"]["original"][:3].tolist() == material.texts[:3]
    means = found["tem"].groupby("epsilon")["changed"].mean()
    assert means.is_monotonic_decreasing
    assert experiment.elsewhere(material, large, sizes(), lambda *keys: stream(0, *keys)) == {}


def test_corrections_compare_the_same_texts(
    material: Material, measured: pd.DataFrame, large: Writer
) -> None:
    found = experiment.corrections(material, measured, large, sizes())
    assert len(found) == 4 and (found["n"] == 3).all()
    epsilon = found["epsilon"].unique()
    assert len(epsilon) == 1
    chosen = measured[(measured["document"] < 3) & (measured["epsilon"] == epsilon[0])]
    as_is = found[~found["corrected"]].set_index("what")["value"]
    assert as_is["text"] == pytest.approx(chosen["text_similarity"].mean())
    assert as_is["summary"] == pytest.approx(chosen[TARGET].mean())
    small = material.reader.small
    with pytest.raises(InvalidInput, match="expected a model that writes"):
        experiment.corrections(material, measured, small, sizes())


def test_the_preview_gets_a_predictor_of_everything() -> None:
    made = experiment.predictor(known(), sizes(), SEED)
    assert made.features == SETS["everything"] and set(FREE) <= set(made.features)
    assert made.epsilons.tolist() == [1, 2, 4]


def test_the_live_controls_preview_own_text(material: Material, measured: pd.DataFrame) -> None:
    fitted = experiment.predictor(measured, sizes(), SEED)
    made = experiment.mechanism("madlib", material, sizes())
    box: Any = experiment.interactive(material, made, fitted, [3.0, 12.0], "cat", level=0.6)
    own, again, output = box.children
    assert own.value == "cat" and output.outputs is not None
    again.click()
    own.value = ""  # is told what is wrong, and does not raise
    again.click()


def test_assets_are_those_of_the_profile() -> None:
    wanted = sizes(corpus="xsum", encoder="minilm-l6", large="smollm2-135m-instruct")
    assert experiment.assets_of(wanted) == ["minilm-l6", "smollm2-135m-instruct", "xsum-test"]
    paper = sizes(corpus="multi-news", table="bart", small="bart", encoder="mpnet", large="llama")
    assert experiment.assets_of(paper) == ["bart", "llama", "mpnet", "multi-news"]


# --- Results ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(material: Material, measured: pd.DataFrame, large: Writer) -> dict[str, pd.DataFrame]:
    """Every table of the notebook, by the name under which it is recorded."""
    rows, small = known(), sizes()
    found = experiment.intervals(rows, small, SEED)
    made = experiment.mechanism("madlib", material, small)
    return {
        "worth": experiment.worth(
            experiment.originals(material, measured), np.random.default_rng(0)
        ),
        "losses": experiment.losses(measured),
        "headlines": experiment.headlines(measured, np.random.default_rng(0)),
        "knee": experiment.knee(measured, material, made, np.random.default_rng(0)),
        "regressions": experiment.regressions(rows, small, SEED),
        "regressors": experiment.regressors(rows, small, SEED),
        "gains": experiment.gains(rows, small, SEED),
        "table_1": experiment.table_1(rows, small, SEED),
        "misjudgements": experiment.misjudgements(rows, small, SEED),
        "coverage": experiment.coverage(found, np.random.default_rng(0)),
        "decisions": experiment.decisions(rows, found, small.thresholds),
        "transfer": experiment.transfer(rows, {"tem": known(9)}, small, SEED),
        "corrections": experiment.corrections(material, measured, large, small),
    }


def test_the_findings_are_chosen_by_what_was_recorded(tables: dict[str, pd.DataFrame]) -> None:
    run = Run("06_slm_utility", "smoke", SEED, {})
    experiment.record(run, **tables)
    grid = [3.0, 12.0]
    told = {
        "knee": tables["knee"], "headlines": tables["headlines"], "corrected": tables["corrections"]
    }  # fmt: skip
    said = findings(run, sizes(transfer=("tem",)), grid, **told)
    assert "nan" not in said and "inf" not in said
    # Of these made-up rows the small model tells a part of the worth, and the mean does not.
    assert "with the small model (a gain, +" in said and "narrower, -" in said
    gain = run.difference("regression.all.r2.by_document", "regression.eps_only.r2.by_document")
    assert gain.verdict == "above" and str(gain) in said
    # The models that write are random here: eight documents tell none of their summaries apart.
    models = run.difference("similarity.llm.original", "similarity.slm.original")
    said_of = {"above": "better", "below": "worse", "undecided": "undecided at this size"}
    assert f"the large one is {said_of[models.verdict]}, {models}." in said
    assert experiment.knee_verdict(tables["knee"]) in said


def test_every_table_can_be_recorded(tables: dict[str, pd.DataFrame]) -> None:
    recorded: dict[str, Any] = {}

    paired = set()

    def record(name: str, *, influence: Any, **estimate: Any) -> None:
        assert name not in recorded
        recorded[name] = results.measure(name, **estimate)
        if influence is not None:
            paired.add(name)

    run = SimpleNamespace(record=record)
    experiment.record(run, **tables)  # type: ignore[arg-type]
    assert len(recorded) == sum(map(len, tables.values()))
    for name in (
        "regression.no_bc.r2.by_document",
        "regression.eps_only.rmse.by_row",
        "interval.all.covered.eps2",
        "interval.all.narrower.every",
        "decision.all.low.wasted.at0.5",
        "changed.predicted.eps12",
        "changed.difference.eps12",
        "similarity.llm.mild",
        "loss.slm.mild",
        "similarity.llm.original",
        "similarity.people.original.p10",
        "loss.slm.eps12",
        "loss.llm.lowest_eps",
        "regression.gain.r2.by_row",
        "decision.all.low.wasted.at0.0",
    ):
        assert name in recorded
    # What claims and sentences compare is compared in pairs.
    assert paired >= {
        "similarity.llm.original",
        "similarity.slm.original",
        "loss.llm.eps12",
        "regressor.linear.all.r2.by_row",
        "regression.eps_only.rmse.by_document",
        "decision.all.low.cost.at0.5",
        "transfer.tem.no_epsilon.own.rmse",
    }
    starts = tuple(f"correction.text.{kind}.eps" for kind in ("as_is", "corrected"))
    assert all(any(name.startswith(start) for name in recorded) for start in starts)
    assert recorded["interval.all.covered.eps2"].unit == "share"
    assert recorded["regression.all.r2.by_row"].unit == "R2"
    with pytest.raises(InvalidInput, match="got 'other'"):
        experiment.record(run, other=tables["worth"])  # type: ignore[arg-type]


def test_every_claim_that_can_be_compared_is_recorded() -> None:
    rows, small = known(), sizes()
    plain = pd.DataFrame(
        {"model": ["small"] * 3 + ["large"] * 3, "similarity": np.linspace(0.3, 0.8, 6)}
    )
    recorded: set[str] = set()
    run = SimpleNamespace(record=lambda name, **estimate: recorded.add(name))
    experiment.record(
        run,  # type: ignore[arg-type]
        worth=experiment.worth(plain, np.random.default_rng(0)),
        headlines=experiment.headlines(levelled(), np.random.default_rng(0)),
        regressions=experiment.regressions(rows, small, SEED),
        regressors=experiment.regressors(rows, small, SEED),
        table_1=experiment.table_1(rows, small, SEED),
    )
    wanted = [claim for claim in claims.of("06_slm_utility") if claim.is_compared("default")]
    assert len(wanted) > 10
    assert {name for claim in wanted for name in claim.measurements} <= recorded
