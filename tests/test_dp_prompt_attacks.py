"""The attacks of notebook 04: who learns from what, who is asked about what, and tables by hand.

Most tests put recorders in place of the attackers. What they are given says where it comes from:
every vector is (output, run, document), and every text is such a triple in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.metrics import f1_score
from tiny_models import tiny_encoder, vocabulary

from textpriv import generators, models, paths, report, similarity, stats
from textpriv.attacks.author import f1_estimate, macro_f1
from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.experiments import dp_prompt_attacks as experiment
from textpriv.experiments.dp_prompt import Material, Output, Trace, clean
from textpriv.experiments.dp_prompt_attacks import ADAPTIVE, EMBEDDING, STATIC, TARGETS, TEXT, TUNED
from textpriv.models import Encoder
from textpriv.report import results
from textpriv.report.difference import Difference
from textpriv.stats import Influence, clustered_mean
from textpriv.vectors import SentenceVectors

IntArray = NDArray[np.int64]

SEED, AUTHORS, PARTS = 3, 3, 3
NUMBER = np.arange(36)
AUTHOR, SENTIMENT, PART = NUMBER % 3, NUMBER // 3 % 2, NUMBER // 6 % 3
LABELS = {"author": AUTHOR, "sentiment": SENTIMENT}
TARGET_OF = {3: "author", 2: "sentiment"}  # by the number of classes
CLEAN_CODE = 0


def vectors_of(code: int, run: int) -> Any:
    return np.column_stack([np.full(36, code), np.full(36, run), NUMBER]).astype(np.float64)


def texts_of(code: int, run: int) -> tuple[str, ...]:
    return tuple(f"o{code} r{run} d{number}" for number in NUMBER.tolist())


def output(mechanism: str, level: float, unit: str, code: int, *, runs: int, says: bool) -> Output:
    texts = tuple(texts_of(code, run) for run in range(runs)) if says else ()
    return Output(
        mechanism, level, unit, texts, tuple(vectors_of(code, run) for run in range(runs))
    )


MADLIB = output("madlib", 8.0, "eps", 1, runs=3, says=True)
LAPLACE = output("truncated-laplace", 5.0, "eps", 2, runs=3, says=False)
PROMPT = output("dp-prompt", 0.75, "t", 3, runs=1, says=True)
OUTPUTS = (MADLIB, LAPLACE, PROMPT)
CODES = {"clean": CLEAN_CODE, "madlib": 1, "truncated-laplace": 2, "dp-prompt": 3}
RUNS = {"clean": 1, "madlib": 3, "truncated-laplace": 3, "dp-prompt": 1}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    """In float32, so that two ways to the same number agree."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (models, generators):
            patch.setattr(module, "bfloat16_is_fast", lambda _: False)
        yield tiny_encoder(tmp_path_factory.mktemp("attacks"), longest=256)


def of_documents(documents: Documents, part: IntArray, vectors: Any, encoder: Encoder) -> Material:
    """One sentence in each document."""
    count = len(documents)
    sentences = SentenceVectors(vectors.astype(np.float32), np.arange(count + 1))
    table = vocabulary()
    return Material(
        private=documents,
        part=part,
        public=documents,
        encoder=encoder,
        vectors=sentences,
        public_vectors=sentences,
        small=table,
        large=table,
        whole=table,
    )


@pytest.fixture(scope="module")
def material(encoder: Encoder) -> Material:
    documents = Documents("made up", texts_of(CLEAN_CODE, 0), LABELS)
    return of_documents(documents, PART, vectors_of(CLEAN_CODE, 0), encoder)


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    """Jobs run here, one after the other."""
    with parallel_config(backend="sequential"):
        yield


# --- Recorders ----------------------------------------------------------------------------------


def triples(seen: Any) -> Any:
    """(documents, 3): output, run and number of document."""
    if isinstance(seen, np.ndarray):
        return seen
    return np.array([[int(word[1:]) for word in text.split()] for text in seen], dtype=np.float64)


@dataclass(frozen=True)
class Call:
    """What an attacker was given, as triples."""

    access: str
    train: Any
    validation: Any
    tests: list[Any]
    labels: tuple[IntArray, IntArray]
    options: dict[str, Any]

    @property
    def target(self) -> str:
        return TARGET_OF[self.options["classes"]]

    @property
    def learned(self) -> tuple[float, float]:
        """Output and run that it has learned from, all of one."""
        return source(np.concatenate([self.train, self.validation]))

    @property
    def fold(self) -> int:
        """The part that is asked about."""
        (number,) = {part for test in self.tests for part in PART[test[:, 2].astype(int)].tolist()}
        return int(number)


def source(rows: Any) -> tuple[float, float]:
    (found,) = {tuple(row) for row in rows[:, :2].tolist()}
    return found


def guessed(access: str, learned: float, rows: Any, classes: int) -> IntArray:
    """Answers that depend on all that they may depend on; most are right."""
    labels = LABELS[TARGET_OF[classes]][rows[:, 2].astype(int)]
    period = {EMBEDDING: 2, TEXT: 5, TUNED: 3}[access] + rows[:, 0] + 4 * (learned == CLEAN_CODE)
    wrong = (rows[:, 2] + 2 * rows[:, 1]) % period == 0
    return np.where(wrong, (labels + 1) % classes, labels)


def watched(patch: pytest.MonkeyPatch) -> list[Call]:
    """Recorders in place of all attackers; what they were given, in order."""
    calls: list[Call] = []

    def attack(access: str) -> Callable[..., list[IntArray]]:
        def run(
            train: Any, truth: Any, validation: Any, held: Any, tests: Any, **options: Any
        ) -> list[IntArray]:
            seen = [triples(each) for each in tests]
            own = Call(access, triples(train), triples(validation), seen, (truth, held), options)
            calls.append(own)
            first = own.train[0, 0]
            return [guessed(access, first, each, options["classes"]) for each in seen]

        return run

    tuned = attack(TUNED)
    patch.setattr(experiment, "embedding_attack", attack(EMBEDDING))
    patch.setattr(experiment, "text_attack", attack(TEXT))
    patch.setattr(
        experiment,
        "tuned_attack",
        lambda encoder, *given, **options: tuned(*given, encoder=encoder, **options),
    )
    return calls


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    return watched(monkeypatch)


@pytest.fixture(scope="module")
def everything(material: Material) -> tuple[pd.DataFrame, list[Call]]:
    with pytest.MonkeyPatch.context() as patch, parallel_config(backend="sequential"):
        found = watched(patch)
        return experiment.attacked(material, OUTPUTS, ANY, SEED), found


ANY: Any = SimpleNamespace()  # sizes that nobody asks for


def one(table: pd.DataFrame, **keys: Any) -> Any:
    (row,) = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].itertuples()
    return row


# --- Who is asked about whom --------------------------------------------------------------------


def test_every_document_is_asked_about_once(material: Material) -> None:
    made = experiment.folds(material, SEED)
    assert [fold.number for fold in made] == [0, 1, 2]
    assert sorted(np.concatenate([fold.test for fold in made])) == NUMBER.tolist()
    for fold in made:
        assert (PART[fold.test] == fold.number).all()
        whole = np.concatenate([fold.train, fold.validation, fold.test])
        assert sorted(whole) == NUMBER.tolist()  # none in two of them
        for rows in (fold.train, fold.validation, fold.test):
            assert (np.diff(rows) > 0).all()
        # A tenth of 24 is 2, but validation needs every author.
        assert np.bincount(AUTHOR[fold.validation]).tolist() == [1, 1, 1]


def test_folds_have_a_tenth_for_validation_and_a_seed(encoder: Encoder) -> None:
    number = np.arange(300)
    documents = Documents("many", tuple(map(str, number)), {"author": number % 10})
    many = of_documents(documents, number // 10 % 3, number[:, None] / 300, encoder)
    made, again, other = (experiment.folds(many, seed) for seed in (1, 1, 2))
    for fold, same, different in zip(made, again, other, strict=True):
        assert np.bincount(fold.validation % 10, minlength=10).tolist() == [2] * 10
        assert fold.validation.tolist() == same.validation.tolist()
        assert fold.validation.tolist() != different.validation.tolist()
        assert fold.test.tolist() == different.test.tolist()


def test_runs_are_used_in_turn() -> None:
    for access in (EMBEDDING, TEXT):
        runs = [experiment._seen(MADLIB, access, run) for run in range(4)]
        assert [source(triples(each)) for each in runs] == [(1, 0), (1, 1), (1, 2), (1, 0)]
        assert source(triples(experiment._seen(PROMPT, access, 2))) == (3, 0)


# --- The plane ----------------------------------------------------------------------------------


def test_columns_and_rows(everything: tuple[pd.DataFrame, list[Call]]) -> None:
    table, _ = everything
    assert list(table.columns) == [
        *("mechanism", "setting", "level", "target", "attacker", "access"),
        *("value", "low", "high", "n", "influence"),
    ]
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["n"] == len(NUMBER)).all()
    found = {tuple(row) for row in table[["mechanism", "target", "attacker", "access"]].to_numpy()}
    expected = {
        (name, target, attacker, access)
        for name in CODES
        for target in TARGETS
        for attacker in (STATIC, ADAPTIVE)
        for access in (EMBEDDING, TEXT)
        if (name, attacker) != ("clean", ADAPTIVE) and (name, access) != (LAPLACE.mechanism, TEXT)
    }
    assert found == expected and len(table) == len(expected)
    levels = table.drop_duplicates("mechanism").set_index("mechanism")
    assert levels["setting"].to_dict() == {
        "clean": "plain",
        "madlib": "eps8",
        "truncated-laplace": "eps5",
        "dp-prompt": "t0.75",
    }
    assert levels["level"].to_dict() == {
        "clean": 0.0,
        "madlib": 8.0,
        "truncated-laplace": 5.0,
        "dp-prompt": 0.75,
    }


def test_static_attackers_learn_from_clean_text_and_adaptive_ones_from_the_output(
    everything: tuple[pd.DataFrame, list[Call]],
) -> None:
    _, calls = everything
    static = [call for call in calls if len(call.tests) > 1]
    adaptive = [call for call in calls if len(call.tests) == 1]
    # Two targets, three parts, and either access; a static attacker learns once for all outputs.
    assert len(static) == 2 * 3 * 2 and len(adaptive) == 2 * 3 * (3 + 2)
    assert {call.learned for call in static} == {(CLEAN_CODE, 0)}
    for call in static:
        able = [name for name in CODES if call.access == EMBEDDING or name != LAPLACE.mechanism]
        assert [source(each) for each in call.tests] == [
            (CODES[name], call.fold % RUNS[name]) for name in able
        ]
    for call in adaptive:
        assert call.learned == source(call.tests[0])
    seen = {(call.access, call.target, call.fold, *call.learned) for call in adaptive}
    assert seen == {
        (access, target, fold, CODES[name], fold % RUNS[name])
        for access in (EMBEDDING, TEXT)
        for target in TARGETS
        for fold in range(PARTS)
        for name in CODES
        if name != "clean" and (name, access) != (LAPLACE.mechanism, TEXT)
    }


def test_what_an_attacker_is_given_is_a_fold_with_its_labels(
    everything: tuple[pd.DataFrame, list[Call]], material: Material
) -> None:
    _, calls = everything
    made = experiment.folds(material, SEED)
    for call in calls:
        fold = made[call.fold]
        for rows, expected in (
            (call.train, fold.train),
            (call.validation, fold.validation),
            *((each, fold.test) for each in call.tests),
        ):
            assert rows[:, 2].tolist() == expected.tolist()
        for rows, labels in zip((fold.train, fold.validation), call.labels, strict=True):
            assert labels.tolist() == LABELS[call.target][rows].tolist()


def test_seeds_of_attackers(everything: tuple[pd.DataFrame, list[Call]]) -> None:
    """One per target and part; those who see texts need none."""
    _, calls = everything
    assert {"seed" in call.options for call in calls if call.access == TEXT} == {False}
    seeds: dict[tuple[str, int], set[int]] = {}
    for call in calls:
        if call.access == EMBEDDING:
            seeds.setdefault((call.target, call.fold), set()).add(call.options["seed"])
    assert all(len(each) == 1 for each in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds) == 2 * PARTS


def answered(mechanism: str, target: str, attacker: str, access: str, per: Sequence[Any]) -> Any:
    """Rows of the documents of these parts, and the answers for them."""
    classes = len(set(LABELS[target].tolist()))
    documents, answers = [], []
    for part in per:
        rows = np.flatnonzero(PART == part)
        run = part % RUNS[mechanism]
        seen = np.column_stack(
            [np.full(len(rows), CODES[mechanism]), np.full(len(rows), run), rows]
        )
        learned = CLEAN_CODE if attacker == STATIC else CODES[mechanism]
        documents.append(rows)
        answers.append(guessed(access, learned, seen, classes))
    return np.concatenate(documents), np.concatenate(answers)


def by_hand(mechanism: str, target: str, attacker: str, access: str, per: Sequence[Any]) -> float:
    """F1 by scikit-learn of the answers for all documents of these parts."""
    rows, answers = answered(mechanism, target, attacker, access, per)
    return float(f1_score(LABELS[target][rows], answers, average="macro"))


def test_answers_are_pooled(everything: tuple[pd.DataFrame, list[Call]]) -> None:
    table, _ = everything
    apart = []
    for row in table.itertuples():
        keys = (row.mechanism, row.target, row.attacker, row.access)
        assert row.value == pytest.approx(by_hand(*keys, range(PARTS)))
        apart.append(np.mean([by_hand(*keys, [part]) for part in range(PARTS)]))
    # The mean over the parts is another number, and so are those of other attackers.
    assert np.abs(np.array(apart) - table["value"]).max() > 0.001
    assert table["value"].nunique() > 12


def test_the_same_seed_gives_the_same_table(
    everything: tuple[pd.DataFrame, list[Call]], material: Material, calls: list[Call]
) -> None:
    table, first = everything
    again = experiment.attacked(material, OUTPUTS, ANY, SEED)
    pd.testing.assert_frame_equal(again.drop(columns="influence"), table.drop(columns="influence"))
    assert [call.options for call in calls] == [call.options for call in first]
    other = experiment.attacked(material, OUTPUTS, ANY, SEED + 1)
    assert (other["value"] == table["value"]).all() and (other["low"] != table["low"]).any()


def test_an_output_that_a_static_attacker_takes_for_another_author(encoder: Encoder) -> None:
    """Real attackers; every author comes out as the next one, which only clean text hides."""
    rng = np.random.default_rng(0)
    centres = 4 * np.eye(3)

    def points(author: IntArray) -> Any:
        return centres[author] + 0.3 * rng.standard_normal((36, 3))

    documents = Documents("made up", texts_of(0, 0), LABELS)
    halves = of_documents(documents, NUMBER // 6 % 2, points(AUTHOR), encoder)
    moved = Output("truncated-laplace", 1.0, "eps", (), (points((AUTHOR + 1) % 3),))
    table = experiment.attacked(halves, [moved], ANY, SEED)
    found = {
        (row.mechanism, row.attacker): row.value
        for row in table.itertuples()
        if (row.target, row.access) == ("author", EMBEDDING)
    }
    assert found["clean", STATIC] == found[moved.mechanism, ADAPTIVE] == 1.0
    assert found[moved.mechanism, STATIC] == 0.0


def test_baselines(material: Material) -> None:
    """Against many guessers; 3 authors of 12 documents each, 2 sentiments of 18."""
    found = experiment.baselines(material)
    assert list(found) == ["author", "sentiment"]
    rng = np.random.default_rng(0)
    for target, classes in (("author", 3), ("sentiment", 2)):
        drawn = [
            f1_score(LABELS[target], rng.integers(classes, size=36), average="macro")
            for _ in range(400)
        ]
        # Six deviations of the mean; the two targets are further apart.
        assert found[target] == pytest.approx(np.mean(drawn), abs=6 * np.std(drawn) / 20)
    assert found["sentiment"] - found["author"] > 0.1


# --- The fine-tuned encoder ---------------------------------------------------------------------


def test_the_tuned_attacker_sees_the_first_part_only(material: Material, calls: list[Call]) -> None:
    sizes: Any = SimpleNamespace(tuned=("dp-prompt t0.75", "clean plain", "madlib eps8"))
    table = experiment.tuned(material, OUTPUTS, sizes, SEED)
    assert table[["mechanism", "attacker"]].to_numpy().tolist() == [
        *([name, STATIC] for name in ("clean", "dp-prompt", "madlib")),
        *([name, ADAPTIVE] for name in ("dp-prompt", "madlib")),
    ]
    assert set(table["access"]) == {TUNED}
    assert set(table["target"]) == {"author"} and set(table["n"]) == {12}
    fold = experiment.folds(material, SEED)[0]
    # One training on clean text, asked about all of them, and one on each of the others.
    assert [call.learned for call in calls] == [(0, 0), (3, 0), (1, 0)]
    asked = [(call, test) for call in calls for test in call.tests]
    assert [source(test) for _, test in asked] == [(0, 0), (3, 0), (1, 0), (3, 0), (1, 0)]
    for (call, test), row in zip(asked, table.itertuples(), strict=True):
        assert call.access == TUNED and call.options["encoder"] is material.encoder
        assert (call.options["epochs"], call.options["learning_rate"]) == (10, 3e-4)
        assert test[:, 2].tolist() == fold.test.tolist()
        assert call.train[:, 2].tolist() == fold.train.tolist()
        assert call.labels[0].tolist() == AUTHOR[fold.train].tolist()
        answers = guessed(TUNED, call.learned[0], test, 3)
        assert row.value == pytest.approx(f1_score(AUTHOR[fold.test], answers, average="macro"))


def test_settings_that_are_not_there(material: Material, calls: list[Call]) -> None:
    sizes: Any = SimpleNamespace(tuned=("madlib eps9",), ledger=("madlib eps9", "clean plain"))
    for which, run in (("tuned", experiment.tuned), ("ledger", experiment.ledgers)):
        with pytest.raises(InvalidInput, match=rf"{which}: got \['madlib eps9'\].*'madlib eps8'"):
            run(material, OUTPUTS, sizes, SEED)
    assert not calls


# --- What gives an author away ------------------------------------------------------------------


def test_ledgers_ask_about_every_document(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []

    def fake(
        kinds: Any, train: Any, truth: Any, validation: Any, held: Any, tests: Any, *, classes: int
    ) -> dict[str, list[IntArray]]:
        (test,) = map(triples, tests)
        seen.append((kinds, triples(train), truth, triples(validation), held, test))
        answers = guessed(TEXT, triples(train)[0, 0], test, classes)
        return {"length": [answers], "unknown words": [np.zeros(len(test), dtype=np.int64)]}

    monkeypatch.setattr(experiment, "ledger", fake)
    sizes: Any = SimpleNamespace(ledger=("madlib eps8", "clean plain"))
    table = experiment.ledgers(material, OUTPUTS, sizes, SEED)
    assert list(table.columns) == [
        *("mechanism", "setting", "feature", "value", "low", "high", "n", "influence")
    ]
    names = [("madlib", "length"), ("madlib", "unknown words")]
    names += [("clean", feature) for _, feature in names]
    assert [tuple(row) for row in table[["mechanism", "feature"]].to_numpy()] == names
    assert set(table["n"]) == {36}
    adaptive = by_hand("madlib", "author", ADAPTIVE, TEXT, range(PARTS))
    assert one(table, mechanism="madlib", feature="length").value == pytest.approx(adaptive)
    plain = by_hand("clean", "author", STATIC, TEXT, range(PARTS))
    assert one(table, mechanism="clean", feature="length").value == pytest.approx(plain)
    # Who always says the first of three equally frequent authors.
    assert one(table, mechanism="clean", feature="unknown words").value == pytest.approx(1 / 6)
    made = experiment.folds(material, SEED)
    for (_, train, truth, validation, held, test), (code, fold) in zip(
        seen, [(code, fold) for code in (1, 0) for fold in made], strict=True
    ):
        run = fold.number if code else 0
        for rows, expected in (
            (train, fold.train),
            (validation, fold.validation),
            (test, fold.test),
        ):
            assert source(rows) == (code, run) and rows[:, 2].tolist() == expected.tolist()
        assert truth.tolist() == AUTHOR[fold.train].tolist()
        assert held.tolist() == AUTHOR[fold.validation].tolist()
    kinds = seen[0][0]
    assert {"length", "case", "punctuation", "digits", "stopwords", "unknown words"} == set(kinds)
    outside = kinds["unknown words"](["the cat sat", "a zebra sat on a cat"])
    assert np.expm1(outside[:, 0]).round().tolist() == [0, 3]


# --- Asked again and again ----------------------------------------------------------------------


def again(fold: experiment.Fold, code: int, count: int) -> list[Any]:
    """Further outputs for the documents of the first part, numbered as runs."""
    return [vectors_of(code, run)[fold.test] for run in range(count)]


def test_repeated_outputs_are_averaged(material: Material, calls: list[Call]) -> None:
    fold = experiment.folds(material, SEED)[0]
    table = experiment.repeated(material, MADLIB, again(fold, 1, 5), [1, 3, 4], 2.5, SEED)
    assert list(table.columns) == [
        *("mechanism", "setting", "k", "epsilon", "attacker"),
        *("value", "low", "high", "n", "influence"),
    ]
    assert table["k"].tolist() == [1, 3, 4] * 2
    assert table["epsilon"].tolist() == [2.5, 7.5, 10.0] * 2
    assert table["attacker"].tolist() == [STATIC] * 3 + [ADAPTIVE] * 3
    assert set(table["mechanism"]) == {"madlib"} and set(table["setting"]) == {"eps8"}
    assert set(table["n"]) == {12}
    static, adaptive = calls
    assert static.learned == (CLEAN_CODE, 0)
    assert adaptive.learned == (1, 1)  # the mean of the runs 0, 1 and 2
    assert static.options["seed"] != adaptive.options["seed"]
    for call, learned in ((static, 0), (adaptive, 1)):
        assert call.access == EMBEDDING and call.target == "author"
        assert call.train[:, 2].tolist() == fold.train.tolist()
        # The mean of the first k outputs, whose numbers are 0 .. k - 1.
        assert [source(each) for each in call.tests] == [(1, 0), (1, 1), (1, 1.5)]
        for k, test in zip((1, 3, 4), call.tests, strict=True):
            assert test[:, 2].tolist() == pytest.approx(fold.test.tolist())
            expected = np.mean(again(fold, 1, 5)[:k], axis=0)
            np.testing.assert_allclose(test, expected)
            attacker = STATIC if call is static else ADAPTIVE
            answers = guessed(EMBEDDING, learned, test, 3)
            f1 = f1_score(AUTHOR[fold.test], answers, average="macro")
            assert one(table, k=k, attacker=attacker).value == pytest.approx(f1)
    with pytest.raises(InvalidInput, match="repeats: got 6, expected at most 5 outputs"):
        experiment.repeated(material, MADLIB, again(fold, 1, 5), [1, 6], 2.5, SEED)


def test_asked_again(
    material: Material, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = experiment.folds(material, SEED)[0]
    written = replace(PROMPT, mechanism="dp-prompt-clipped", epsilon=12.5, epsilon_paper=99.0)
    asked: list[tuple[Any, ...]] = []

    def words(given: Material, epsilon: float, rows: IntArray, count: int, rng: Any) -> list[Any]:
        asked.append((given is material, epsilon, rows.tolist(), count, rng))
        return again(fold, 1, count)

    def prompts(
        mechanism: Any, given: Material, rows: IntArray, count: int, batch: int, rng: Any
    ) -> list[Any]:
        asked.append((mechanism, given is material, rows.tolist(), count, batch, rng))
        return again(fold, 3, count)

    monkeypatch.setattr(experiment, "words_again", words)
    monkeypatch.setattr(experiment, "prompts_again", prompts)
    cool, hot = SimpleNamespace(temperature=0.75), SimpleNamespace(temperature=1.75)
    free = SimpleNamespace(temperature=0.75)
    mechanisms: Any = [
        ("dp-prompt", free),
        ("dp-prompt-clipped", cool),
        ("dp-prompt-clipped", hot),
        ("dp-prompt-top-k40", free),
    ]
    sizes: Any = SimpleNamespace(
        repeats=(1, 3, 5),
        generated_repeats=3,
        repeated_epsilon=8,
        repeated_temperature=0.75,
        batch=7,
    )

    def stream(*keys: str) -> Any:
        return keys

    outputs = [MADLIB, LAPLACE, PROMPT, written]
    table = experiment.asked_again(material, outputs, mechanisms, sizes, stream, SEED)
    rows = fold.test.tolist()
    assert asked == [
        (True, 8, rows, 5, ("again", "words")),
        (cool, True, rows, 3, 7, ("again", "prompt")),
    ]
    static = table[table["attacker"] == STATIC]
    assert static[["mechanism", "k", "epsilon"]].to_numpy().tolist() == [
        ["madlib", 1, 8.0],
        ["madlib", 3, 24.0],
        ["madlib", 5, 40.0],
        ["dp-prompt-clipped", 1, 12.5],
        ["dp-prompt-clipped", 3, 37.5],
    ]
    assert table.index.tolist() == list(range(10))


# --- At equal risk ------------------------------------------------------------------------------


def influence(*of: Any) -> Influence:
    draw = np.random.default_rng(list("/".join(map(str, of)).encode()))
    return Influence(experiment.DOCUMENTS, NUMBER, 0.005 * draw.standard_normal(36))


def made(
    mechanism: str,
    levels: Sequence[float],
    author: Sequence[float],
    sentiment: Sequence[float],
    *,
    attacker: str = ADAPTIVE,
    access: str = EMBEDDING,
    unit: str = "eps",
) -> list[dict[str, Any]]:
    """Rows of a table; the interval of a sentiment reaches 0.05 down and 0.02 up.

    Effects of the 36 documents are 0.005 on average, of every row others.
    """
    return [
        {
            "mechanism": mechanism,
            "setting": f"{unit}{level:g}",
            "level": level,
            "target": target,
            "attacker": attacker,
            "access": access,
            "value": value,
            "low": value - down,
            "high": min(value + up, 1.0),
            "n": 36,
            "influence": influence(mechanism, level, target, attacker, access),
        }
        for level, *values in zip(levels, author, sentiment, strict=True)
        for target, value, down, up in zip(TARGETS, values, (0.1, 0.05), (0.1, 0.02), strict=True)
    ]


AT_RISK = ["mechanism", "risk", "level", "value", "low", "high", "by", "influence"]
HERE: dict[str, str] = {"attacker": ADAPTIVE, "access": EMBEDDING}
REACH = 1.959964


def four_attackers() -> pd.DataFrame:
    """As DP-Prompt was found: the adaptive attacker with embeddings is not the strongest."""
    static, text = {"attacker": STATIC}, {"access": TEXT}
    return pd.DataFrame(
        [
            *made("dp-prompt", [0.75, 1.75], [0.13, 0.06], [0.58, 0.48], unit="t"),
            *made("dp-prompt", [0.75, 1.75], [0.22, 0.07], [0.51, 0.45], unit="t", **static),
            *made("dp-prompt", [0.75, 1.75], [0.15, 0.14], [0.50, 0.49], unit="t", **text),
            *made(
                "dp-prompt", [0.75, 1.75], [0.25, 0.08], [0.55, 0.44], unit="t", **static, **text
            ),
            *made("truncated-laplace", [5, 400], [0.1, 0.3], [0.4, 0.6]),
            *made("truncated-laplace", [5, 400], [0.2, 0.5], [0.5, 0.5], **static),
        ]
    )


def test_the_strongest_attacker_by_hand() -> None:
    table = four_attackers()
    found = experiment.strongest_of(table)
    assert list(found.columns) == [*table.columns, "by", "tried"]
    keys = ["mechanism", "setting", "target", "by", "tried", "value"]
    assert found[keys].to_numpy().tolist() == [
        ["dp-prompt", "t0.75", "author", "static text", 4, 0.25],
        ["dp-prompt", "t0.75", "sentiment", "adaptive embedding", 4, 0.58],
        ["dp-prompt", "t1.75", "author", "adaptive text", 4, 0.14],
        ["dp-prompt", "t1.75", "sentiment", "adaptive text", 4, 0.49],
        ["truncated-laplace", "eps5", "author", "static embedding", 2, 0.2],
        ["truncated-laplace", "eps5", "sentiment", "static embedding", 2, 0.5],
        ["truncated-laplace", "eps400", "author", "static embedding", 2, 0.5],
        ["truncated-laplace", "eps400", "sentiment", "adaptive embedding", 2, 0.6],
    ]
    assert set(found["attacker"]) == {experiment.STRONGEST}
    # Simultaneous over four: 2.4977 in place of 1.96 deviations.
    first = found.iloc[0]
    assert (first["low"], first["high"]) == pytest.approx(
        (0.25 - 0.12743, 0.25 + 0.12743), abs=1e-4
    )
    (row,) = table[
        (table["setting"] == "t0.75") & (table["target"] == "author")
        & (table["attacker"] == STATIC) & (table["access"] == TEXT)
    ].itertuples()  # fmt: skip
    assert first["influence"] is row.influence
    kept = recorded(experiment.record_strongest, found)
    assert len(kept) == len(found)
    assert kept["f1_strongest.dp-prompt.t0.75.author"].value == 0.25


def test_equal_risk_is_that_of_the_strongest_attacker() -> None:
    """Who reads it off for the adaptive attacker alone, the named wrong version, finds 0.5."""
    table = four_attackers()
    (found,) = experiment.at_equal_risk(experiment.strongest_of(table), [0.195])[
        lambda level: level["mechanism"] == "dp-prompt"
    ].itertuples()
    assert found.value == pytest.approx((0.58 + 0.49) / 2) and found.level == pytest.approx(1.25)
    assert found.by == "adaptive text or static text"
    reach = 2.49771 * found.influence.error
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach))
    alone = experiment.at_equal_risk(table, [0.195], **HERE)
    assert "dp-prompt" not in set(alone["mechanism"])  # which its author F1 never reaches


def test_pairs_of_word_level_mechanisms(run: report.Run) -> None:
    rows = [
        *made("madlib", [2, 8], [0.1, 0.4], [0.5, 0.6]),
        *made("tem", [2, 8], [0.1, 0.4], [0.6, 0.7]),
        *made("dp-prompt", [2, 8], [0.1, 0.4], [0.7, 0.8]),
    ]
    level = experiment.at_equal_risk(pd.DataFrame(rows), [0.2, 0.3], **HERE)
    experiment.record_equal_risk(run, level)
    found = experiment.word_level_pairs(run, level)
    assert list(found) == ["madlib less tem at 0.2", "madlib less tem at 0.3"]
    for each in found.values():
        assert each.value == pytest.approx(-0.1) and each.verdict == "below"
    assert not experiment.word_level_pairs(run, level.iloc[:0])


def test_a_tally_counts_what_is_certain(run: report.Run) -> None:
    rows = [
        *made("madlib", [2, 8], [0.5, 0.6], [0.5, 0.5]),
        *made("madlib", [2, 8], [0.2, 0.3], [0.5, 0.5], attacker=STATIC),
        *made("tem", [2, 8], [0.1, 0.2], [0.5, 0.5]),
        *made("tem", [2, 8], [0.4, 0.5], [0.5, 0.5], attacker=STATIC),
        *made("mahalanobis", [2, 8], [0.3, 0.3], [0.5, 0.5]),
        *made("mahalanobis", [2, 8], [0.301, 0.3], [0.5, 0.5], attacker=STATIC),
    ]
    experiment.record(run, pd.DataFrame(rows), RANDOM)
    names = ("madlib", "tem", "mahalanobis")
    said = experiment.tally(run, names, "adaptive.embedding", "static.embedding")
    assert said == "better on 1 of 3 mechanisms and worse on 1"


def test_the_difference_of_two_maxima_is_one_of_many() -> None:
    """Four attackers whose values do not differ, 2,000 times; no difference is decided in 95%."""
    drawn = 0.05 * np.random.default_rng(0).standard_normal((2000, 2, 4)).max(2)
    error = 0.05 * np.sqrt(2)
    found = [
        Difference(v, v - REACH * error, v + REACH * error, 2 * float(norm.sf(abs(v) / error)))
        for v in np.diff(drawn, axis=1)[:, 0]
    ]
    right = [experiment.corrected(each, 4) for each in found]
    assert np.mean([each.verdict != "undecided" for each in right]) < 0.05
    assert np.mean([each.low <= 0 <= each.high for each in right]) > 0.95
    first = right[0]
    assert first.high - first.value == pytest.approx(2.49771 * error, rel=1e-4)
    assert first.p == pytest.approx(min(1, 4 * found[0].p))


def test_traces_are_recorded_with_intervals_by_documents() -> None:
    trace = Trace(np.array([0, 0, 1, 2]), np.array([0.1, 0.3, 0.2, 0.6]))
    moved = replace(PROMPT, traces={"probability_moved": trace})
    (found,) = recorded(experiment.record_traces, [MADLIB, moved]).items()
    expected = clustered_mean(trace.value, trace.document, bounds=(0, 1))
    name, kept = found
    assert name == "trace.dp-prompt.t0.75.probability_moved"
    assert (kept.value, kept.low, kept.high) == (expected.value, expected.low, expected.high)


def test_equal_risk_by_hand() -> None:
    table = pd.DataFrame(
        [
            *made("madlib", [8, 2, 5], [0.5, 0.1, 0.3], [0.7, 0.6, 0.8]),
            *made("tem", [1, 2, 3], [0.4, 0.2, 0.3], [0.9, 0.5, 0.6]),  # the risk does not rise
            *made("clean", [0], [0.2], [0.9]),  # one setting is no line
            *made("madlib", [2, 8], [0.1, 0.9], [0.1, 0.1], attacker=STATIC),
            *made("madlib", [2, 8], [0.1, 0.9], [0.2, 0.2], access=TEXT),
        ]
    )
    risks = [0.05, 0.2, 0.35, 0.5, 0.55]
    found = experiment.at_equal_risk(table, risks, attacker=ADAPTIVE, access=EMBEDDING)
    assert list(found.columns) == AT_RISK
    assert set(found["by"]) == {"adaptive embedding"}
    expected = [
        ("madlib", 0.2, 3.5, 0.7),
        ("madlib", 0.35, 5.75, 0.775),
        ("madlib", 0.5, 8.0, 0.7),
        ("tem", 0.2, 2.0, 0.5),
        ("tem", 0.35, 2.0, 0.75),
    ]
    assert found["mechanism"].tolist() == [row[0] for row in expected]
    for column, position in (("risk", 1), ("level", 2), ("value", 3)):
        assert found[column].tolist() == pytest.approx([row[position] for row in expected])
    reach = [REACH * each.error for each in found["influence"]]
    assert (found["value"] - found["low"]).tolist() == pytest.approx(reach)
    assert (found["high"] - found["value"]).tolist() == pytest.approx(reach)
    static = experiment.at_equal_risk(table, [0.5], attacker=STATIC, access=EMBEDDING)
    assert static[["mechanism", "value"]].to_numpy().tolist() == [["madlib", pytest.approx(0.1)]]
    texts = experiment.at_equal_risk(table, [0.5], attacker=ADAPTIVE, access=TEXT)
    assert texts["value"].tolist() == pytest.approx([0.2])


def test_no_risk_in_reach() -> None:
    table = pd.DataFrame(made("tem", [1, 2], [0.4, 0.5], [0.1, 0.2]))
    found = experiment.at_equal_risk(table, [0], **HERE)
    assert not len(found) and list(found.columns) == AT_RISK


def test_influence_at_equal_risk_by_hand() -> None:
    """A third of the way from 0.2 to 0.5 on a line whose slope is 2 / 3."""
    rows = made("madlib", [2, 8], [0.2, 0.5], [0.6, 0.8])
    (author, sentiment), (other_author, other_sentiment) = (
        [row["influence"].effect for row in rows[start : start + 2]] for start in (0, 2)
    )
    (found,) = experiment.at_equal_risk(pd.DataFrame(rows), [0.3], **HERE)["influence"]
    expected = 2 / 3 * (sentiment - 2 / 3 * author)
    expected = expected + 1 / 3 * (other_sentiment - 2 / 3 * other_author)
    np.testing.assert_allclose(found.effect, expected)
    # At an end it is that of the setting there, moved along its line.
    (found,) = experiment.at_equal_risk(pd.DataFrame(rows), [0.2], **HERE)["influence"]
    np.testing.assert_allclose(found.effect, sentiment - 2 / 3 * author)
    # Two settings with the same risk have no line between them.
    equal = pd.DataFrame(made("madlib", [2, 8], [0.2, 0.2], [0.6, 0.8]))
    (found,) = experiment.at_equal_risk(equal, [0.2], **HERE)["influence"]
    np.testing.assert_allclose(found.effect, sentiment)


def test_the_error_at_equal_risk_is_that_of_the_bootstrap() -> None:
    """Within 15%, where 1,000 resamples leave 2.2% to chance.

    With the author F1 taken for exact, the named wrong version, it is less than 0.75 of it.
    """
    rng = np.random.default_rng(0)
    classes = {"author": 3, "sentiment": 2}
    truth = {target: rng.integers(most, size=300) for target, most in classes.items()}
    guess = {
        (level, target): np.where(
            rng.random(300) < right, truth[target], rng.integers(classes[target], size=300)
        )
        for level, *rights in ((2, 0.2, 0.1), (8, 0.5, 0.7))
        for target, right in zip(TARGETS, rights, strict=True)
    }
    whole = pd.DataFrame(
        {"mechanism": "madlib", "level": level, "target": target, "attacker": ADAPTIVE}
        | {"access": EMBEDDING}
        | f1_estimate(truth[target], each, classes[target], rng, sample="made up").columns()
        for (level, target), each in guess.items()
    )
    risk = whole.loc[whole["target"] == "author", "value"].mean()
    (found,) = experiment.at_equal_risk(whole, [risk], **HERE)["influence"]
    drawn = []
    for _ in range(1000):
        rows = rng.integers(300, size=300)
        f1 = {
            (level, target): macro_f1(truth[target][rows], each[rows], classes[target])
            for (level, target), each in guess.items()
        }
        line = ([f1[level, target] for level in (2, 8)] for target in TARGETS)
        drawn.append(np.interp(risk, *line))
    assert found.error == pytest.approx(np.std(drawn), rel=0.15)
    ends = whole.loc[whole["target"] == "sentiment", "influence"].tolist()
    assert ((ends[0] + ends[1]) * 0.5).error < 0.75 * np.std(drawn)


# --- What a paraphrase keeps --------------------------------------------------------------------

SAID = ("the cat sat", "dog ran on", "fish", "the mat", "cat cat dog", "the dog sat on the mat")
TURNED = tuple(" ".join(reversed(text.split())) + " cat" for text in SAID)


def test_alike_is_that_of_direct_calls(encoder: Encoder) -> None:
    documents = Documents("made up", SAID, {"author": np.arange(6) % 2})
    given = of_documents(documents, np.arange(6) % 2, np.ones((6, 2)), encoder)
    nothing = np.zeros((6, 2))
    same = Output("madlib", 90.0, "eps", (SAID, TURNED), (nothing, nothing))
    turned = Output("dp-prompt", 0.75, "t", (TURNED,), (nothing,))
    silent = Output("truncated-laplace", 5.0, "eps", (), (nothing,))
    found = experiment.alike(given, [same, silent, turned], 4, np.random.default_rng(1))
    assert list(found.columns) == [
        *("mechanism", "setting", "level", "bertscore", "bertscore_low", "bertscore_high"),
        *("cosine", "cosine_low", "cosine_high", "words", "n", "influence"),
    ]
    keys = found[["mechanism", "setting", "level", "n"]].to_numpy().tolist()
    assert keys == [
        ["other document", "plain", 0.0, 4],
        ["madlib", "eps90", 90.0, 4],
        ["dp-prompt", "t0.75", 0.75, 4],
    ]
    chosen = np.random.default_rng(1).permutation(6)[:4].tolist()
    originals = [SAID[row] for row in chosen]
    others = [SAID[row] for row in [*chosen[1:], chosen[0]]]
    for row, texts in zip(
        found.itertuples(), (others, originals, [TURNED[row] for row in chosen]), strict=True
    ):
        direct = {
            "bertscore": similarity.bert_score(encoder, originals, texts).f1,
            "cosine": similarity.cosine(encoder, originals, texts),
        }
        assert row.words == np.mean([len(text.split()) for text in texts])
        for measure, scores in direct.items():
            value, low, high = (getattr(row, measure + end) for end in ("", "_low", "_high"))
            assert value == pytest.approx(scores.mean(), abs=1e-6)
            assert low <= value <= high <= 1
            influence = row.influence[measure]
            assert influence.unit.tolist() == sorted(chosen)
            if texts is not others:
                within = np.clip(scores, -1, 1)
                alone = clustered_mean(within, chosen, bounds=(-1, 1), sample=experiment.DOCUMENTS)
                assert (low, high) == pytest.approx((alone.low, alone.high), abs=1e-6)
                assert alone.influence is not None
                np.testing.assert_allclose(influence.effect, alone.influence.effect, atol=1e-6)
    assert found["bertscore"][1] == pytest.approx(1) and found["cosine"][1] == pytest.approx(1)
    assert (found["cosine"][[0, 2]] < 0.99).all()
    assert len(experiment.alike(given, [], 99, np.random.default_rng(1))) == 1


def test_each_document_is_in_two_pairs_of_others(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text is a number, a pair's score their mean: over all pairs, that of the numbers.

    The error is on the safe side of theirs by a factor of sqrt(1.5). Pairs taken for independent,
    the named wrong version, would be off by sqrt(0.5).
    """
    number = np.random.default_rng(0).uniform(-0.5, 0.5, size=400)

    def score(encoder: Any, first: Sequence[str], second: Sequence[str], **options: Any) -> Any:
        return np.array([(float(a) + float(b)) / 2 for a, b in zip(first, second, strict=True)])

    monkeypatch.setattr(similarity, "cosine", score)
    monkeypatch.setattr(similarity, "bert_score", lambda *given: SimpleNamespace(f1=score(*given)))
    documents = Documents("made up", tuple(map(str, number)), {"author": np.arange(400) % 2})
    given = of_documents(documents, np.arange(400) % 2, np.ones((400, 2)), encoder)
    (row,) = experiment.alike(given, [], 400, np.random.default_rng(1)).itertuples()
    error = number.std() / np.sqrt(400)
    for measure, found in row.influence.items():
        assert getattr(row, measure) == pytest.approx(number.mean())
        assert found.error == pytest.approx(error * np.sqrt(1.5), rel=0.1)
    # Document by document: what leaving out both of its pairs does to the mean.
    order = np.random.default_rng(1).permutation(400)
    pairs = (number[order] + np.roll(number[order], -1)) / 2
    left = [row.cosine - np.delete(pairs, [at - 1, at]).mean() for at in range(400)]
    effect = row.influence["cosine"].effect[order]
    np.testing.assert_allclose(effect, np.sqrt(400 / 399) * 398 / 400 * np.array(left))


# --- Summaries ----------------------------------------------------------------------------------

RANDOM = {"author": 0.1, "sentiment": 0.5}


def summary_table() -> pd.DataFrame:
    """Lines whose values at any risk r are known: 0.3 + r, 0.4 + r and 0.35 + r / 2."""
    static: dict[str, Any] = {"attacker": STATIC}
    heat: dict[str, Any] = {"unit": "t"}
    return pd.DataFrame(
        [
            *made("madlib", [8, 2], [0.6, 0.2], [0.9, 0.5]),
            *made("madlib-300d", [8, 2], [0.6, 0.2], [1.0, 0.6]),
            *made("mahalanobis", [2, 8], [0.3, 0.5], [0.5, 0.6]),
            *made("deep-candidate", [5, 400], [0.12, 0.14], [0.4, 0.5], **static),
            *made("deep-candidate", [5, 400], [0.9, 0.9], [0.9, 0.9]),
            *made("dp-prompt", [1.75, 0.75], [0.1, 0.4], [0.6, 0.8], **heat),
            *made("dp-prompt-clipped", [0.75], [0.4], [0.8], **heat),
            *made("dp-prompt-top-k40", [0.75, 1.25], [0.3, 0.2], [0.77, 0.9], **heat),
            *made("dp-prompt", [0.75], [0.5], [0.7], **heat, **static),
            *made("dp-prompt-top-k40", [0.75], [0.5], [0.75], **heat, **static),
        ]
    )


def test_summaries_by_hand() -> None:
    found = experiment.summaries(summary_table(), RANDOM)
    adaptive, static = "adaptive.embedding", "static.embedding"
    means = {
        "madlib": (0.4, 0.7),
        "madlib-300d": (0.4, 0.8),
        "mahalanobis": (0.4, 0.55),
        "deep-candidate": (0.9, 0.9),
        "dp-prompt": (0.25, 0.7),
        "dp-prompt-clipped": (0.4, 0.8),
        "dp-prompt-top-k40": (0.25, 0.835),
    }
    expected = {
        f"f1.mean.{name}.{target}.{adaptive}": value
        for name, values in means.items()
        for target, value in zip(TARGETS, values, strict=True)
    } | {
        f"f1.mean.deep-candidate.author.{static}": 0.13,
        f"f1.mean.deep-candidate.sentiment.{static}": 0.45,
        f"f1.mean.dp-prompt.author.{static}": 0.5,
        f"f1.mean.dp-prompt.sentiment.{static}": 0.7,
        f"f1.mean.dp-prompt-top-k40.author.{static}": 0.5,
        f"f1.mean.dp-prompt-top-k40.sentiment.{static}": 0.75,
        f"f1.fall.author.dp-prompt.{adaptive}": 0.75,
        f"f1.fall.sentiment.dp-prompt.{adaptive}": 0.25,
        f"f1.excess.deep-candidate.author.{static}": 0.03,
        f"f1.excess.deep-candidate.sentiment.{static}": -0.05,
        # 0.3 + r and 0.35 + r / 2 are furthest apart where both end, at 0.5.
        f"f1.spread.word-level.sentiment.{adaptive}": 0.2,
        f"f1.gain.madlib-300d.sentiment.{adaptive}": 0.1,
        f"f1.gain.dp-prompt-top-k40.t0.75.sentiment.{adaptive}": -0.03,
        f"f1.gain.dp-prompt-top-k40.t0.75.sentiment.{static}": 0.05,
    }
    assert found == pytest.approx(expected)


def test_what_no_two_mechanisms_have_in_common_is_left_out() -> None:
    table = pd.DataFrame(
        [
            *made("madlib", [2, 8], [0.2, 0.3], [0.5, 0.6]),
            *made("tem", [2, 8], [0.4, 0.5], [0.5, 0.6]),
            *made("tem-300d", [2, 8], [0.6, 0.7], [0.5, 0.6]),
        ]
    )
    names = experiment.summaries(table, RANDOM)
    assert not [name for name in names if not name.startswith("f1.mean.")]
    alone = experiment.summaries(table[table["mechanism"] == "madlib"], RANDOM)
    assert not any("spread" in name for name in alone)


# --- Records ------------------------------------------------------------------------------------


def recorded(record: Callable[..., None], *given: Any) -> dict[str, results.Measurement]:
    found: dict[str, results.Measurement] = {}

    def keep(name: str, *numbers: Any, influence: Any = None, **known: Any) -> None:
        assert name not in found
        found[name] = results.measure(name, *numbers, **known)

    record(SimpleNamespace(record=keep), *given)
    return found


def test_the_interval_of_a_fall_by_hand() -> None:
    """From 0.4 to 0.1, and from 0.1 to 0.4; its largest value is 1."""
    for cold, hot, factor in ((0.4, 0.1, 1.0), (0.1, 0.4, 1.0), (0.4, 0.1, 20.0)):
        rows = made("dp-prompt", [1.75, 0.75, 1.25], [hot, cold, 0.9], [0.6, 0.8, 0.7], unit="t")
        for row in rows:
            row["influence"] = row["influence"] * factor
        last, first = rows[0]["influence"].effect, rows[2]["influence"].effect
        error = np.sqrt(((hot * first / cold**2 - last / cold) ** 2).sum())
        found = recorded(experiment.record, pd.DataFrame(rows), RANDOM)
        fall = found["f1.fall.author.dp-prompt.adaptive.embedding"]
        value = 1 - hot / cold
        assert fall.value == pytest.approx(value) and fall.n == 36
        reach = student_t.ppf(0.975, 35) * error
        assert fall.low == pytest.approx(value - reach)
        assert fall.high == pytest.approx(min(1, value + reach))
        assert (fall.high == 1) == (factor > 1)


def test_the_interval_of_a_mean_by_hand() -> None:
    """Settings share their documents: what these do to all stays, and what cancels goes."""
    rows = made("madlib", [2, 8], [0.2, 0.6], [0.5, 0.9])
    effect = rows[0]["influence"].effect
    for other, expected in ((effect, effect), (-effect / 2, effect / 4)):
        rows[2]["influence"] = replace(rows[0]["influence"], effect=other)
        found = recorded(experiment.record, pd.DataFrame(rows), RANDOM)
        mean = found["f1.mean.madlib.author.adaptive.embedding"]
        within = stats._interval(0.4, np.sqrt((expected**2).sum()), 36, (0, 1), 0.95)
        assert (mean.value, mean.low, mean.high) == pytest.approx((0.4, *within))
        assert mean.n == 36


def test_the_interval_of_a_spread_by_hand() -> None:
    """Level lines, read off an eighth of the way between two settings; the third is in between."""
    heights = {"madlib": 0.5, "mahalanobis": 0.7, "tem": 0.9}
    rows = [
        row
        for name, height in heights.items()
        for row in made(name, [2, 8], [0.205, 0.245], [height, height])
    ]
    sentiment = {
        (row["mechanism"], row["level"]): row["influence"].effect
        for row in rows
        if row["target"] == "sentiment"
    }
    expected = 7 / 8 * (sentiment["tem", 2] - sentiment["madlib", 2])
    expected = expected + 1 / 8 * (sentiment["tem", 8] - sentiment["madlib", 8])
    within = stats._interval(0.4, np.sqrt((expected**2).sum()), 36, (0, 1), 0.95)
    name = "f1.spread.word-level.sentiment.adaptive.embedding"
    spread = experiment._summarized(pd.DataFrame(rows), RANDOM)[name]
    assert (spread.value, spread.n) == (pytest.approx(0.4), 36)
    assert (spread.low, spread.high) == pytest.approx(within)
    # The maximum over mechanisms and risks is recorded without the interval of this one pair.
    kept = recorded(experiment.record, pd.DataFrame(rows), RANDOM)[name]
    assert (kept.value, kept.low, kept.n) == (pytest.approx(0.4), None, 36)


def test_influences_of_summaries_are_their_derivatives() -> None:
    """What a document does to all F1 at once, a millionth of it, does so much to every summary."""
    table = summary_table()
    # Off the grid of risks, so that the same ones are within reach.
    table["value"] += np.where(table["target"] == "author", 0.003, 0)
    whole = experiment._summarized(table, RANDOM)
    assert {name.split(".")[1] for name in whole} == {"mean", "fall", "excess", "spread", "gain"}
    for document in (0, 20, 35):
        moved = table.copy()
        moved["value"] += 1e-6 * np.array([each.effect[document] for each in table["influence"]])
        slopes = {
            name: (value - whole[name].value) / 1e-6
            for name, value in experiment.summaries(moved, RANDOM).items()
        }
        effects = {name: each.influence.effect[document] for name, each in whole.items()
                   if each.influence}  # fmt: skip
        assert effects == pytest.approx(slopes, rel=1e-3, abs=1e-7)


def test_intervals_of_summaries_stay_within_their_ranges() -> None:
    table = summary_table()
    wide = table.assign(influence=[each * 30 for each in table["influence"]])
    found = experiment._summarized(wide, RANDOM)
    ranges = {"mean": (0, 1), "spread": (0, 1), "gain": (-1, 1), "fall": (-np.inf, 1)}
    for kind, (least, most) in ranges.items():
        chosen = [each for name, each in found.items() if name.startswith(f"f1.{kind}")]
        lows, highs = ([getattr(each, end) for each in chosen] for end in ("low", "high"))
        assert max(highs) <= most + 1e-9 and min(lows) >= least
    excess = found["f1.excess.deep-candidate.author.static.embedding"]
    assert -0.1 <= excess.low < excess.high <= 0.9


# --- In pairs -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> report.Run:
    """Of notebook 04, so that its claims say which pairs matter; it writes into a folder."""
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    return report.begin("04_dp_prompt", "smoke")


def left_out(keys: tuple[str, ...], per: Sequence[Any]) -> Any:
    """(36,) effects by scoring anew without each document; 0 for those not asked about."""
    rows, answers = answered(*keys, per)
    truth = LABELS[keys[1]][rows]
    without = np.array(
        [
            macro_f1(*(np.delete(each, at) for each in (truth, answers)), 3)
            for at in range(len(rows))
        ]
    )
    effect = np.zeros(36)
    effect[rows] = np.sqrt((len(rows) - 1) / len(rows)) * (without.mean() - without)
    return effect


def as_if_equal(error: float, found: Any, one: str, other: str, documents: int) -> float:
    """The error of a difference in pairs, if there were none."""
    apart = found[one].value - found[other].value
    return float(np.hypot(error, apart / np.sqrt(documents)))


def test_attackers_are_compared_in_pairs(
    everything: tuple[pd.DataFrame, list[Call]],
    material: Material,
    calls: list[Call],
    run: report.Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fine-tuned one is asked about a third of the documents, under their own rows."""
    prompt = "f1.dp-prompt.t0.75.author.adaptive."
    static = prompt.replace(ADAPTIVE, STATIC) + EMBEDDING
    of_mean = "f1.mean.madlib.author.{}.embedding"
    pairs = [
        (prompt + TEXT, prompt + EMBEDDING),
        (prompt + TUNED, prompt + EMBEDDING),
        (prompt + EMBEDDING, static),
        (of_mean.format(ADAPTIVE), of_mean.format(STATIC)),
    ]
    monkeypatch.setattr("textpriv.report.claims.pairs", lambda *_: pairs)
    sizes: Any = SimpleNamespace(tuned=("dp-prompt t0.75", "clean plain"))
    experiment.record(run, everything[0], RANDOM)
    experiment.record(run, experiment.tuned(material, OUTPUTS, sizes, SEED))
    run.finish()
    found = results.load("04_dp_prompt", "smoke").by_name()
    keys = ("dp-prompt", "author", ADAPTIVE)
    whole = left_out((*keys, EMBEDDING), range(PARTS))
    for name, other, part in (
        (prompt + "text", (*keys, TEXT), range(PARTS)),
        (prompt + "tuned", (*keys, TUNED), [0]),
    ):
        error = np.sqrt(((left_out(other, part) - whole) ** 2).sum())
        expected = as_if_equal(error, found, name, prompt + "embedding", 12 * len(part))
        paired = found[name].paired_errors
        assert paired == pytest.approx({prompt + "embedding": expected}) and error > 0.01
    names = prompt + EMBEDDING, static
    apart = whole - left_out(("dp-prompt", "author", STATIC, EMBEDDING), range(PARTS))
    expected = as_if_equal(np.sqrt((apart**2).sum()), found, *names, 36)
    assert found[names[0]].paired_errors[names[1]] == pytest.approx(expected)
    mean = found["f1.mean.madlib.author.adaptive.embedding"]
    assert list(mean.paired_errors) == ["f1.mean.madlib.author.static.embedding"]


def test_falls_and_likeness_are_compared_in_pairs(run: report.Run) -> None:
    experiment.record(run, summary_table(), RANDOM)
    experiment.record_alike(run, likeness())
    run.finish()
    found = results.load("04_dp_prompt", "smoke").by_name()
    summed = experiment._summarized(summary_table(), RANDOM)
    one, other = (f"f1.fall.{target}.dp-prompt.adaptive.embedding" for target in TARGETS)
    first, second = summed[one].influence, summed[other].influence
    assert first is not None and second is not None
    expected = as_if_equal((first - second).error, found, one, other, 36)
    assert found[one].paired_errors == pytest.approx({other: expected})
    likes = [f"bertscore.dp-prompt.t{level}" for level in ("0.75", "1.25")]
    apart = influence("bertscore", 0.75) - influence("bertscore", 1.25)
    expected = as_if_equal(apart.error, found, *likes, len(apart.unit))
    assert found[likes[0]].paired_errors == pytest.approx({likes[1]: expected})


# --- Further records ----------------------------------------------------------------------------


def test_records_of_f1(everything: tuple[pd.DataFrame, list[Call]], material: Material) -> None:
    table, _ = everything
    found = recorded(experiment.record, table)
    assert len(found) == len(table)
    row = one(table, mechanism="dp-prompt", target="sentiment", attacker=STATIC, access=TEXT)
    kept = found["f1.dp-prompt.t0.75.sentiment.static.text"]
    assert (kept.value, kept.low, kept.high, kept.n) == (row.value, row.low, row.high, 36)
    # Of clean text there is one attacker.
    assert "f1.clean.plain.author.adaptive.embedding" in found
    assert not any(name.startswith("f1.clean") and "static" in name for name in found)
    assert {each.unit for each in found.values()} == {"share"}
    random = experiment.baselines(material)
    more = recorded(experiment.record, table, random)
    assert {name: more[name].value for name in more if name.startswith("f1.random")} == {
        f"f1.random.plain.{target}": random[target] for target in TARGETS
    }
    summed = experiment.summaries(table, random)
    assert set(more) == set(found) | {f"f1.random.plain.{each}" for each in TARGETS} | set(summed)


def test_records_of_summaries_may_be_negative() -> None:
    found = recorded(experiment.record, summary_table(), RANDOM)
    expected = {
        **dict.fromkeys(("random", "mean", "spread"), "share"),
        **dict.fromkeys(("fall", "excess", "gain"), "difference"),
    }
    units = {name.split(".")[1]: each.unit for name, each in found.items()}
    assert {kind: units[kind] for kind in expected} == expected
    assert found["f1.gain.dp-prompt-top-k40.t0.75.sentiment.adaptive.embedding"].value < 0


def test_records_of_guarantees() -> None:
    rows = [
        ("dp-prompt", "t0.75", np.inf, np.inf, np.inf, np.inf, "not clipped"),
        ("dp-prompt-clipped", "t0.75", 70.0, 90.0, 2240.0, 2880.0, ""),
    ]
    columns = ["mechanism", "setting", "token_tight", "token_paper", "tight", "paper", "withdrawn"]
    found = recorded(experiment.record_guarantees, pd.DataFrame(rows, columns=columns))
    assert {name: (each.value, each.unit) for name, each in found.items()} == {
        f"epsilon.dp-prompt-clipped.t0.75.{kind}": (value, "nats")
        for kind, value in zip(columns[2:6], rows[1][2:6], strict=True)
    }


def test_records_of_the_other_tables() -> None:
    rate = {"value": 0.5, "low": 0.4, "high": 0.7, "influence": influence("any")}
    risk = pd.DataFrame([{"mechanism": "madlib-300d", "risk": 0.15, "level": 3.0, **rate}])
    found = recorded(experiment.record_equal_risk, risk)
    assert list(found) == ["f1_at_risk.0.15.madlib-300d"]
    of = {"mechanism": "tem", "setting": "eps3"}
    ledger = pd.DataFrame(
        [{**of, "feature": feature, **rate, "n": 9} for feature in ("length", "unknown words")]
    )
    found |= recorded(experiment.record_ledger, ledger)
    assert list(found)[1:] == ["ledger.tem.eps3.length", "ledger.tem.eps3.unknown-words"]
    repeats = pd.DataFrame(
        [
            {**of, "k": k, "epsilon": 3.0 * k, "attacker": attacker, **rate, "n": 9}
            for k in (1, 10)
            for attacker in (STATIC, ADAPTIVE)
        ]
    )
    found |= recorded(experiment.record_repeated, repeats)
    assert list(found)[3:] == [
        f"repeated.tem.eps3.k{k}.{attacker}" for k in (1, 10) for attacker in (STATIC, ADAPTIVE)
    ]
    for name, each in found.items():
        assert (each.value, each.low, each.high, each.unit) == (0.5, 0.4, 0.7, "share")
        assert each.n == (None if name.startswith("f1_at_risk") else 9)


def likeness() -> pd.DataFrame:
    rows = [
        ("other document", "plain", 0.3, -0.1),
        ("dp-prompt", "t0.75", 0.8, 0.7),
        ("dp-prompt", "t1.25", 0.6, 0.5),
    ]
    measures = ("bertscore", "cosine")
    return pd.DataFrame(
        {"mechanism": mechanism, "setting": setting, "n": 4}
        | dict(zip(measures, values, strict=True))
        | {f"{each}_low": value - 0.1 for each, value in zip(measures, values, strict=True)}
        | {f"{each}_high": value + 0.2 for each, value in zip(measures, values, strict=True)}
        | {"influence": {each: influence(each, setting.removeprefix("t")) for each in measures}}
        for mechanism, setting, *values in rows
    )


def test_records_of_likeness_may_be_negative() -> None:
    found = recorded(experiment.record_alike, likeness())
    assert {name: each.value for name, each in found.items()} == {
        "bertscore.other.plain": 0.3,
        "cosine.other.plain": -0.1,
        "bertscore.dp-prompt.t0.75": 0.8,
        "cosine.dp-prompt.t0.75": 0.7,
        "bertscore.dp-prompt.t1.25": 0.6,
        "cosine.dp-prompt.t1.25": 0.5,
    }
    for each in found.values():
        assert (each.n, each.unit) == (4, "cosine")
        assert (each.low, each.high) == pytest.approx((each.value - 0.1, each.value + 0.2))


def test_clean_documents_are_an_output(material: Material) -> None:
    """What the recorders above rely on."""
    found = clean(material)
    assert source(found.vectors[0]) == source(triples(found.texts[0])) == (CLEAN_CODE, 0)
    assert (found.label, len(found.texts), len(found.vectors)) == ("clean plain", 1, 1)
