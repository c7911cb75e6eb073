"""Utility under manipulations, on made-up text of two classes that a tiny encoder reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.model_selection import train_test_split
from tiny_models import PIECES, SPECIAL, piece, tiny_encoder

from textpriv import stats
from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.experiments import lossy
from textpriv.experiments import lossy_utility as experiment
from textpriv.experiments.lossy import Material, Setting, Sizes, Tools
from textpriv.mechanisms.stencil import TokenTable
from textpriv.models import Encoder, Training
from textpriv.report import results
from textpriv.seeds import stream
from textpriv.tokens import Corpus
from textpriv.utility import features, fine_tuned, probe

SEED = 3
CAT, DOG = piece("cat"), piece("dog")  # which of them a document has says its label
FILLERS = [piece(name) for name in ("the", "sat", "ran", "on", "mat", "!")]
PLAIN, HIGH, RANDOM = Setting("plain"), Setting("high-freq"), Setting("2-random")
NOISE, STENCIL = Setting("noise", eta=0.5), Setting("stencil", 3, 0.8)
SETTINGS = (PLAIN, RANDOM, HIGH, NOISE, STENCIL)
KEYS = ["corpus", "label", "scenario"]


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    """Jobs run here, one after the other; `test_workers` lets them go elsewhere."""
    with parallel_config(backend="sequential"):
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("lossy-utility"))


def material(name: str, documents: int, seed: int) -> Material:
    """Fillers at random, and the word of the label as often."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(documents) % 2)
    rows = []
    for label, count in zip(labels, rng.integers(2, 6, size=documents), strict=True):
        row = [*rng.choice(FILLERS, size=count), *[(CAT, DOG)[label]] * count]
        rows.append(rng.permutation(row).tolist())
    corpus = Corpus(
        ids=np.array([number for row in rows for number in row], dtype=np.int64),
        offsets=np.cumsum([0, *map(len, rows)], dtype=np.int64),
    )
    texts = [" ".join(PIECES[number] for number in row) for row in rows]
    return Material(name, Documents(name, tuple(texts), {"label": labels}), corpus)


@pytest.fixture(scope="module")
def materials() -> dict[str, Material]:
    return {"rotten-tomatoes": material("rotten-tomatoes", 400, 0), "imdb": material("imdb", 80, 1)}


def tools_with(encoder: Encoder, counts: dict[int, int]) -> Tools:
    """Tools in whose public text words occur so many times; all others occur ten times."""
    times = np.full(len(PIECES), 10)
    times[list(counts)] = list(counts.values())
    times[: len(SPECIAL)] = 0
    public = np.repeat(np.arange(len(PIECES)), times)
    table = TokenTable(encoder.table.detach().numpy(), fixed=np.arange(len(SPECIAL)))
    corpus = Corpus(ids=public, offsets=np.array([0, len(public)]))
    return Tools(encoder, table, corpus, corpus.counts(len(PIECES)))


@pytest.fixture(scope="module")
def tools(encoder: Encoder) -> Tools:
    """The most frequent word is "cat" and the rarest one "dog": High-freq sends both to "cat"."""
    return tools_with(encoder, {CAT: 99, DOG: 1})


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    names = ("rotten-tomatoes", "imdb")
    return Sizes(
        encoder="tiny",
        corpora=dict.fromkeys(names, 1),
        longest=dict.fromkeys(names, 10),
        public=10,
        windows=(3,),
        sigmas=(0.8,),
        crossing=(3, 0.8),
        etas=(0.5,),
        seeds=3,
        test_share=0.3,
        tuned=("plain", "2-random", "high-freq"),
        tuned_steps={"rotten-tomatoes": 60, "imdb": 0},
        attacked={},
        rehearsed=1,
        guesses=5,
        oracle={},
        oracle_longest={},
        oracle_most=1,
    )


@pytest.fixture(scope="module")
def probed(materials: dict[str, Material], tools: Tools, sizes: Sizes) -> pd.DataFrame:
    with parallel_config(backend="sequential"):
        return experiment.probes(materials, tools, SETTINGS, sizes, SEED)


@pytest.fixture(scope="module")
def tuned(
    materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> tuple[pd.DataFrame, pd.DataFrame]:
    with pytest.MonkeyPatch.context() as patch, parallel_config(backend="sequential"):
        patch.setattr(experiment, "LEARNING_RATE", 5e-3)  # the encoder knows nothing yet
        return experiment.tuned(materials, tools, SETTINGS, sizes, SEED)


def one(table: pd.DataFrame, corpus: str, setting: Setting, scenario: str) -> Any:
    keys = dict(zip(KEYS, (corpus, setting.label, scenario), strict=True))
    (row,) = table[(table[KEYS] == pd.Series(keys)).all(axis=1)].itertuples()
    return row


# --- The probe ----------------------------------------------------------------------------------


def test_one_row_per_corpus_setting_and_scenario(probed: pd.DataFrame) -> None:
    assert tuple(probed.columns) == experiment.COLUMNS
    expected = [
        (corpus, setting.label, scenario)
        for corpus in ("rotten-tomatoes", "imdb")
        for setting in SETTINGS
        for scenario in ("test", "all")
    ]
    assert list(probed[KEYS].itertuples(index=False, name=None)) == expected
    row = one(probed, "imdb", STENCIL, "all")
    assert (row.kind, row.window, row.sigma, row.eta) == ("stencil", 3, 0.8, 0.0)
    assert not probed.isna().any().any()


def test_intervals_cover_and_all_splits_count(probed: pd.DataFrame, sizes: Sizes) -> None:
    assert (probed["low"] <= probed["value"]).all() and (probed["value"] <= probed["high"]).all()
    assert (probed["low"] < probed["high"]).all()
    tests = probed["corpus"].map({"rotten-tomatoes": 120, "imdb": 24})
    draws = np.where(probed["label"].isin(["2-random", "noise-0.5"]), sizes.seeds, 1)
    assert (probed["n"] == draws * sizes.seeds * tests).all()


def test_plain_text_has_one_scenario(probed: pd.DataFrame) -> None:
    for corpus in ("rotten-tomatoes", "imdb"):
        test, every = (one(probed, corpus, PLAIN, scenario) for scenario in ("test", "all"))
        assert (test.value, test.low, test.high) == (every.value, every.low, every.high)
        assert test.unchanged == 1.0


def test_what_a_map_merges_is_lost(
    probed: pd.DataFrame, materials: dict[str, Material], encoder: Encoder, sizes: Sizes
) -> None:
    """The two words that are the labels become one; with other counts they stay two."""
    assert one(probed, "rotten-tomatoes", PLAIN, "all").low > 0.75
    for scenario in ("test", "all"):
        row = one(probed, "rotten-tomatoes", HIGH, scenario)
        assert row.low <= 0.5 <= row.high
    apart = tools_with(encoder, {CAT: 99, DOG: 98})
    found = experiment.probes(materials, apart, [HIGH], sizes, SEED)
    assert one(found, "rotten-tomatoes", HIGH, "all").low > 0.75


def test_probes_are_those_of_direct_calls(
    probed: pd.DataFrame, materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    """Splits do not depend on the setting or the draw; every draw meets every split."""
    given = materials["imdb"]
    plain = features(tools.encoder, given.corpus, longest=12)
    for setting in (HIGH, RANDOM, NOISE):
        correct: dict[str, list[Any]] = {"test": [], "all": []}
        document, unchanged = [], []
        for draw in range(sizes.seeds if setting.is_random else 1):
            rng = stream(SEED, "03", "manipulate", "imdb", setting.label, draw)
            text = lossy.manipulate(setting, given.corpus, tools, rng)
            unchanged.append((text.ids == given.corpus.ids).mean())
            states = features(tools.encoder, text, longest=12)
            for number in range(sizes.seeds):
                train, test = split_by_hand(given, sizes, number)
                mixed = np.where(np.isin(np.arange(80), train)[:, None], plain, states)
                correct["test"].append(probe(mixed, given.labels, train, test))
                correct["all"].append(probe(states, given.labels, train, test))
                document.append(test)
        for scenario, right in correct.items():
            row = one(probed, "imdb", setting, scenario)
            expected = stats.clustered_share(np.concatenate(right), np.concatenate(document))
            assert (row.value, row.low, row.high) == (expected.value, expected.low, expected.high)
            assert row.unchanged == pytest.approx(np.mean(unchanged))
            assert 0 < row.unchanged_low < row.unchanged < row.unchanged_high < 1
        # What training on manipulated text brings, in pairs, is known as well as its own mean.
        gap = np.concatenate(correct["all"]).astype(float) - np.concatenate(correct["test"])
        both = [one(probed, "imdb", setting, scenario).influence for scenario in ("all", "test")]
        direct = stats.clustered_mean(gap, np.concatenate(document), sample="imdb")
        assert (both[0] - both[1]).error == pytest.approx(direct.influence.error)


def test_phrases_of_one_sentence_stay_on_one_side_and_are_one_unit(
    materials: dict[str, Material], tools: Tools, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SST-2's phrases: a classifier that has read one knows the others."""
    given = materials["imdb"]
    pairs = np.arange(len(given.corpus)) // 2
    monkeypatch.setattr(lossy.splits, "parent_sentences", lambda texts: pairs)
    phrases = replace(given, name="sst2")
    assert (phrases.cluster == pairs).all() and (given.cluster == np.arange(len(pairs))).all()
    made = sizes.model_copy(update={"longest": {**sizes.longest, "sst2": sizes.longest["imdb"]}})
    task = experiment._task(phrases, tools.encoder, made, SEED)
    for train, test in task.splits:
        assert not set(pairs[train]) & set(pairs[test])
        assert sorted([*train, *test]) == list(range(len(pairs)))
    found = task.unchanged(task.corpus)
    assert found.influence is not None and len(found.influence.unit) == len(np.unique(pairs))


def split_by_hand(given: Material, sizes: Sizes, number: int) -> Any:
    state = int(stream(SEED, "03", "split", given.name, number).integers(2**32))
    return train_test_split(
        np.arange(len(given.corpus)),
        test_size=sizes.test_share,
        stratify=given.labels,
        random_state=state,
    )


def test_splits_are_stratified_and_differ(
    materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    given = materials["rotten-tomatoes"]
    splits = experiment._task(given, tools.encoder, sizes, SEED).splits
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(400))
        assert given.labels[test].mean() == 0.5
    assert len({tuple(sorted(test)) for _, test in splits}) == sizes.seeds


@pytest.mark.parametrize("setting", [RANDOM, NOISE, HIGH], ids=lambda setting: setting.label)
def test_draws(
    materials: dict[str, Material], tools: Tools, sizes: Sizes, setting: Setting
) -> None:
    """Another draw is another text where the setting is random; the same draw is the same."""
    task = experiment._task(materials["imdb"], tools.encoder, sizes, SEED)
    first, again, other, seeded = (
        task.manipulated(setting, draw, tools, seed).ids.tolist()
        for draw, seed in ((0, SEED), (0, SEED), (1, SEED), (0, SEED + 1))
    )
    assert first == again
    assert (first != other) == (first != seeded) == setting.is_random


def test_workers(
    probed: pd.DataFrame, materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    """In other processes, in another order and beside other settings: the same numbers."""
    with parallel_config(backend="loky"):
        found = experiment.probes(materials, tools, [STENCIL, RANDOM], sizes, SEED)
    expected = probed.merge(found[KEYS], on=KEYS)
    both = expected.merge(found, on=KEYS)
    assert len(both) == 8
    for column in ("value", "low", "high", "n", "unchanged"):
        assert np.allclose(both[f"{column}_x"], both[f"{column}_y"], atol=1e-12), column


def test_workers_get_no_public_text(tools: Tools) -> None:
    light = experiment._private(tools, "imdb")
    assert len(light.public) == 0 and len(light.public.ids) == 0
    assert light.encoder is tools.encoder and light.table is tools.table


# --- The encoder fine-tuned ---------------------------------------------------------------------


def test_tuned_table(tuned: Any, sizes: Sizes) -> None:
    """Only the labels and the corpora that the profile names."""
    table, curves = tuned
    assert tuple(table.columns) == experiment.COLUMNS
    expected = [
        ("rotten-tomatoes", label, scenario)
        for label in sizes.tuned
        for scenario in ("test", "all")
    ]
    assert list(table[KEYS].itertuples(index=False, name=None)) == expected
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["n"] == 120).all()  # the first split only
    assert list(curves.columns) == ["corpus", "label", "step", "accuracy"]
    for label in sizes.tuned:
        steps = curves[curves["label"] == label]["step"].tolist()
        assert steps == [12, 24, 36, 48, 60]


def test_tuned_encoder_learns_what_is_left(tuned: Any) -> None:
    table, curves = tuned
    test, every = (one(table, "rotten-tomatoes", PLAIN, each) for each in ("test", "all"))
    assert (test.value, test.low, test.high) == (every.value, every.low, every.high)
    assert test.value > 0.95 and test.unchanged == 1.0
    for scenario in ("test", "all"):
        merged = one(table, "rotten-tomatoes", HIGH, scenario)
        assert merged.low <= 0.5 <= merged.high
    last = curves.groupby("label")["accuracy"].last()
    assert last["plain"] > 0.9 > last["high-freq"]


def test_tuned_is_that_of_direct_calls(
    tuned: Any, materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    """The text is that of the probe's first draw, and so is the split."""
    given = materials["rotten-tomatoes"]
    train, test = split_by_hand(given, sizes, 0)
    rng = stream(SEED, "03", "manipulate", given.name, "2-random", 0)
    text = lossy.manipulate(RANDOM, given.corpus, tools, rng)
    for learned, scenario in ((given.corpus, "test"), (text, "all")):
        model = fine_tuned(
            tools.encoder,
            learned.subset(train),
            given.labels[train],
            training=Training(steps=60, learning_rate=5e-3, marks=5),
            longest=12,
            seed=int(stream(SEED, "03", "tuned", given.name).integers(2**31)),
        )
        correct = model.predict(text.subset(test)) == given.labels[test]
        row = one(tuned[0], given.name, RANDOM, scenario)
        assert row.value == correct.mean()
        assert row.unchanged == (text.ids == given.corpus.ids).mean()


def test_plain_text_is_learned_even_where_it_is_not_asked_about(
    materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    few = sizes.model_copy(update={"tuned": ("high-freq",), "tuned_steps": {"imdb": 2}})
    table, curves = experiment.tuned(materials, tools, SETTINGS, few, SEED)
    assert table["label"].tolist() == ["high-freq"] * 2
    assert table["scenario"].tolist() == ["test", "all"]
    assert curves["label"].unique().tolist() == ["plain", "high-freq"]


def test_no_corpus_to_tune_on(materials: dict[str, Material], tools: Tools, sizes: Sizes) -> None:
    none = sizes.model_copy(update={"tuned_steps": {}})
    table, curves = experiment.tuned(materials, tools, SETTINGS, none, SEED)
    assert tuple(table.columns) == experiment.COLUMNS and not len(table) and not len(curves)


def test_unknown_label(materials: dict[str, Material], tools: Tools, sizes: Sizes) -> None:
    other = sizes.model_copy(update={"tuned": ("plain", "high-frequency")})
    with pytest.raises(InvalidInput, match=r"tuned: got \['high-frequency'\], expected .*plain"):
        experiment.tuned(materials, tools, SETTINGS, other, SEED)


# --- Pairs, which another encoder reads ---------------------------------------------------------


@pytest.fixture(scope="module")
def pairs() -> dict[str, Material]:
    """The label stands in the second texts."""
    second = material("qnli", 200, 7)
    first = material("qnli", 200, 8)
    return {"qnli": Material("qnli", second.documents, first.corpus, second.corpus)}


@pytest.fixture(scope="module")
def two_tools(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Another tiny encoder for the pairs, with the same pieces."""
    other = tiny_encoder(tmp_path_factory.mktemp("lossy-pairs"), seed=1)
    others = {"qnli": tools_with(other, {CAT: 99, DOG: 1})}
    return Tools(tools.encoder, tools.table, tools.public, tools.counts, others)


@pytest.fixture(scope="module")
def of_pairs(sizes: Sizes) -> Sizes:
    changes = {"longest": {"qnli": 8}, "tuned_steps": {"qnli": 60}, "tuned_rates": {"qnli": 5e-3}}
    return sizes.model_copy(update=changes)


def test_pairs_are_probed_by_their_own_encoder(
    pairs: dict[str, Material], two_tools: Tools, of_pairs: Sizes
) -> None:
    """Both texts are manipulated, by one map, and read together: three special pieces."""
    given, own = pairs["qnli"], two_tools.of("qnli")
    found = experiment.probes(pairs, two_tools, [RANDOM], of_pairs, SEED)
    correct, document = [], []
    plain = features(own.encoder, given.corpus, second=given.second, longest=19)
    for draw in range(of_pairs.seeds):
        rng = stream(SEED, "03", "manipulate", "qnli", RANDOM.label, draw)
        text = lossy.manipulate(RANDOM, given.texts, own, rng)
        halves = [text.subset(np.arange(200) + start) for start in (0, 200)]
        states = features(own.encoder, halves[0], second=halves[1], longest=19)
        for number in range(of_pairs.seeds):
            train, test = split_by_hand(given, of_pairs, number)
            mixed = np.where(np.isin(np.arange(200), train)[:, None], plain, states)
            correct.append(probe(mixed, given.labels, train, test))
            document.append(test)
    expected = stats.clustered_share(np.concatenate(correct), np.concatenate(document))
    row = one(found, "qnli", RANDOM, "test")
    assert (row.value, row.low, row.high) == (expected.value, expected.low, expected.high)


def test_an_encoder_is_tuned_to_pairs(
    pairs: dict[str, Material], two_tools: Tools, of_pairs: Sizes
) -> None:
    table, _ = experiment.tuned(pairs, two_tools, SETTINGS, of_pairs, SEED)
    assert one(table, "qnli", PLAIN, "all").value > 0.9
    given, own = pairs["qnli"], two_tools.of("qnli")
    assert given.second is not None
    train, test = split_by_hand(given, of_pairs, 0)
    model = fine_tuned(
        own.encoder,
        given.corpus.subset(train),
        given.labels[train],
        second=given.second.subset(train),
        training=Training(steps=60, learning_rate=5e-3, marks=5),
        longest=19,
        seed=int(stream(SEED, "03", "tuned", "qnli").integers(2**31)),
    )
    text = lossy.manipulate(HIGH, given.texts, own, np.random.default_rng(0))
    asked = model.predict(text.subset(test), text.subset(200 + test))
    row = one(table, "qnli", HIGH, "test")
    assert row.value == (asked == given.labels[test]).mean()
    assert row.unchanged == (text.ids == given.texts.ids).mean()


def test_the_learning_rate_is_the_profiles(sizes: Sizes, of_pairs: Sizes) -> None:
    assert experiment._training("qnli", of_pairs).learning_rate == 5e-3
    assert experiment._training("rotten-tomatoes", sizes).learning_rate == experiment.LEARNING_RATE


# --- The two together ---------------------------------------------------------------------------


def accuracies(values: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [
        {"corpus": corpus, "scenario": scenario, "label": label, "value": value}
        for (corpus, scenario), given in values.items()
        for label, value in zip("abcd", given, strict=False)
    ]
    return pd.DataFrame(rows)


def test_ranks_by_hand() -> None:
    first = accuracies({("imdb", "test"): [0.5, 0.6, 0.7, 0.9], ("imdb", "all"): [0.5, 0.6, 0.7],
                        ("sst2", "all"): [0.5, 0.5]})  # fmt: skip
    second = accuracies({("imdb", "test"): [0.1, 0.3, 0.2], ("imdb", "all"): [0.9, 0.8, 0.7],
                         ("sst2", "all"): [0.5, 0.7]})  # fmt: skip
    found = experiment.ranks_alike(first, second)
    assert found["corpus"].tolist() == ["imdb", "imdb", "sst2"]
    assert found["scenario"].tolist() == ["test", "all", "all"]
    assert found["n"].tolist() == [3, 3, 2]
    assert found["spearman"].tolist()[:2] == pytest.approx([0.5, -1.0])
    assert np.isnan(found["spearman"].iloc[2])  # one table has ties only


def test_ranks_are_those_of_the_tables(probed: pd.DataFrame, tuned: Any) -> None:
    found = experiment.ranks_alike(probed, tuned[0])
    assert found["corpus"].tolist() == ["rotten-tomatoes"] * 2
    assert (found["n"] == 3).all() and (found["spearman"].abs() <= 1).all()


def recorded(table: pd.DataFrame, classifier: Any) -> dict[str, results.Measurement]:
    found: dict[str, results.Measurement] = {}

    def keep(name: str, *numbers: Any, influence: Any) -> None:
        assert name not in found
        found[name] = results.measure(name, *numbers)

    experiment.record(SimpleNamespace(record=keep), table, classifier)  # type: ignore[arg-type]
    return found


def test_records(probed: pd.DataFrame, tuned: Any) -> None:
    """Every row has its name, and no name has two meanings."""
    linear, trained = recorded(probed, "probe"), recorded(tuned[0], "fine-tuned")
    assert len(linear) == len(probed) * 3 // 2 and len(trained) == len(tuned[0])
    assert not linear.keys() & trained.keys()
    row = one(probed, "imdb", STENCIL, "all")
    kept = linear["accuracy.stencil-w3-s0.8.imdb.all"]
    assert (kept.value, kept.low, kept.high, kept.n) == (row.value, row.low, row.high, row.n)
    assert linear["unchanged.stencil-w3-s0.8.imdb"].value == row.unchanged
    assert "accuracy_tuned.2-random.rotten-tomatoes.test" in trained
