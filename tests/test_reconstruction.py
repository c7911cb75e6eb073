"""Notebook 05 on a made-up language: what is kept apart, what is counted and what is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv import profiles, stats, study
from textpriv.attacks.base import Guesses
from textpriv.attacks.bayes import ContextFreeBound, PriorOnly
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.data import corpora, splits
from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.errors import InvalidInput, ProfileError
from textpriv.experiments import reconstruction as experiment
from textpriv.experiments import reconstruction_findings as findings
from textpriv.experiments import reconstruction_models as networks
from textpriv.experiments import reconstruction_texts as sources
from textpriv.experiments.reconstruction_models import FREE, TOKEN
from textpriv.mechanisms import CusTextPlus, SanText, SanTextPlus, least_frequent
from textpriv.models import LearningCurve
from textpriv.report.difference import Difference
from textpriv.report.results import measure
from textpriv.seeds import stream

NOUNS = [f"noun{number}" for number in range(40)]
VERBS = [f"verb{number}" for number in range(40)]
WORDS = ["the", "a", *NOUNS, *VERBS]
COUNTS = {"rotten-tomatoes": 120, "imdb": 90, "rented-clothes": 90}
SEED = 3


def text(rng: np.random.Generator, sentences: int) -> str:
    """The noun with number i is followed by the verb with number i: context tells."""
    numbers = rng.integers(40, size=(sentences, 3))
    return " ".join(
        "The " + " the ".join(f"noun{i} verb{i}" for i in row) + "." for row in numbers.tolist()
    )


def documents(name: str) -> Documents:
    rng = np.random.default_rng(len(name))
    count = COUNTS[name]
    texts = tuple(text(rng, 1 if name == "rotten-tomatoes" else 6) for _ in range(count))
    return Documents(name, texts, {"label": rng.integers(2, size=count)})


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    return from_arrays("made up", WORDS, np.random.default_rng(1).standard_normal((82, 5)))


@pytest.fixture(scope="module")
def sizes() -> sources.Sizes:
    changes: dict[str, Any] = {
        "vocabulary": 1000,
        "private": 60,
        "shadow": 30,
        "shadow_pool": 40,
        "public": None,
        "santext_epsilons": [2.0, 6.0],
        "focus": {"custext": [2, 6], "santext": [2.0]},
        "attacked": {kind: dict.fromkeys(COUNTS, 50) for kind in ("custext", "santext")},
    }
    return profiles.load("smoke", "05_reconstruction_attacks", sources.Sizes, changes)


@pytest.fixture(scope="module")
def materials(embedding: Embedding, sizes: sources.Sizes) -> dict[str, sources.Material]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "load", documents)
        patch.setattr(splits, "shares_ngram", shares_nothing_but_copies)
        return sources.gather_all(
            embedding, sizes, lambda *keys: np.random.default_rng(len(str(keys)))
        )


def shares_nothing_but_copies(texts: Any, others: Any) -> np.ndarray:
    known = set(others)
    return np.array([each in known for each in texts])


@pytest.fixture(scope="module")
def mechanisms(embedding: Embedding, sizes: sources.Sizes) -> Any:
    """As notebook 05 builds them."""
    custext = CusTextPlus(embedding, epsilon=1, stopwords=sorted(ENGLISH_STOP_WORDS))
    rarity = np.arange(len(embedding))[::-1]
    santext = SanTextPlus(embedding, epsilon=1, sensitive=least_frequent(rarity, 0.999))
    return {
        "custext": {epsilon: custext.with_epsilon(epsilon) for epsilon in sizes.custext_epsilons},
        "santext": dict(zip([2.0, 6.0], santext.sweep([2.0, 6.0]), strict=True)),
    }


@pytest.fixture(scope="module")
def knowledge(materials: Any, embedding: Embedding) -> dict[str, sources.Knowledge]:
    return {name: sources.learn(each, len(embedding)) for name, each in materials.items()}


@pytest.fixture(scope="module")
def outcomes(
    materials: Any, mechanisms: Any, knowledge: Any, sizes: sources.Sizes
) -> list[experiment.Outcome]:
    def attacked(corpus: str, defense: str, epsilon: float) -> experiment.Outcome:
        mechanism, material = mechanisms[defense][epsilon], materials[corpus]
        rng = stream(SEED, corpus, defense, epsilon)
        seen, outcome = experiment.sanitized(material, defense, mechanism, material.first(50), rng)
        words = mechanism.embedding.words
        outcome.run(PriorOnly(mechanism, material.shadow), seen, words)
        outcome.run(ContextFreeBound(mechanism, material.private), seen, words)
        for attack in experiment.reading(mechanism, material.shadow, knowledge[corpus], sizes, rng):
            outcome.run(attack, seen, words)
        return outcome

    over = study.grid(corpus=sizes.corpora, defense=mechanisms, epsilon=[2.0, 6.0])
    return study.measure(attacked, over, processes=1)


def test_a_rehearsal_is_decoded_by_models_that_have_not_read_it(
    materials: dict[str, sources.Material],
    knowledge: dict[str, sources.Knowledge],
    embedding: Embedding,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong version decodes shadow data with the model of all shadow data."""
    asked = []

    def tuned(
        mechanism: Any, model: Any, rehearsal: Any, shadow: Any, targets: Any = None
    ) -> float:
        asked.append((model, shadow, targets))
        return 1.0

    monkeypatch.setattr(sources, "tuned_weight", tuned)
    known = next(iter(knowledge.values()))
    mechanism = SanText(embedding, epsilon=2.0)
    sources.weights_of(mechanism, known, np.random.default_rng(1))
    (public, *_), (half, shadow, targets) = asked
    assert public is known.public_alone and half is known.half
    rows = np.unique(np.linspace(0, len(known.read) - 1, min(150, len(known.read))).astype(int))
    assert known.rehearsed[rows][shadow.document[targets]].all() and len(targets)
    learned = known.read.subset(np.flatnonzero(~known.rehearsed))
    again = NGrams.train(Lexicon(len(embedding), [learned]), [learned], order=2)
    np.testing.assert_array_equal(known.half.unigram, again.unigram)


def test_nothing_private_is_read(materials: dict[str, sources.Material]) -> None:
    for each in materials.values():
        assert not set(each.texts) & set(each.public_texts)
        assert len(each.cluster) == len(each.private) == len(each.texts)
        assert len(each.read) <= len(each.shadow) <= len(each.pool) + each.dropped[0]
        assert each.coverage == 1.0  # every word of the language is in the vocabulary


def test_overlapping_documents_are_dropped_from_what_models_read(
    embedding: Embedding, sizes: sources.Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "load", documents)
    flags = iter([np.arange(30) < 4, np.arange(90) < 7])  # shadow, then public
    monkeypatch.setattr(splits, "shares_ngram", lambda texts, others: next(flags))
    material = sources.gather("rotten-tomatoes", embedding, sizes, np.random.default_rng(0))
    assert material.dropped == (4, 7)
    assert (len(material.shadow), len(material.read), len(material.public)) == (30, 26, 83)


def test_no_review_is_on_both_sides_of_a_rehearsal(
    materials: dict[str, sources.Material], knowledge: dict[str, sources.Knowledge]
) -> None:
    material, known = materials["imdb"], knowledge["imdb"]
    assert len(np.unique(material.cluster)) < len(material.private)
    rotten = materials["rotten-tomatoes"]
    assert len(np.unique(rotten.cluster)) == len(rotten.private)
    cluster = material.pool_cluster[: len(known.read)]
    assert len(np.unique(cluster)) < len(cluster)  # reviews give several sentences
    decoded, learned = cluster[known.rehearsed], cluster[~known.rehearsed]
    assert len(decoded) and len(learned)
    assert not set(decoded) & set(learned)


def test_a_file_of_ones_own_is_attacked(
    embedding: Embedding, sizes: sources.Sizes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its texts are private but for a quarter; other people's reviews are public."""
    path, load = tmp_path / "My texts.txt", corpora.load
    path.write_text("\n".join(text(np.random.default_rng(n), 1) for n in range(40)))
    monkeypatch.setattr(
        corpora, "load", lambda name: load(name) if " " in name else documents(name)
    )
    mine = sources.gather(str(path), embedding, sizes, np.random.default_rng(0))
    assert mine.name == "my-texts" and mine.labels is None
    assert (len(mine.private), len(mine.shadow)) == (30, 10)
    assert set(mine.public_texts) <= set(documents("imdb").texts)
    assert sizes.under_attack("custext", mine.name) == 50
    assert corpora.asset_of(str(path)) not in sources.assets_of(sizes)


def test_context_pays_where_words_come_in_pairs(outcomes: list[experiment.Outcome]) -> None:
    # Nouns and verbs come in pairs here, so that decoding must beat any guess on one token.
    outcome = experiment.one(outcomes, "rotten-tomatoes", "custext", 2)
    alone = outcome.hits["context-free-bound"].mean()
    assert outcome.hits[sources.PUBLIC].mean() > alone + 0.2
    assert outcome.hits["context-free-bound"].mean() >= outcome.hits["prior-only"].mean()


def test_success_rates_are_those_of_the_same_tokens(outcomes: list[experiment.Outcome]) -> None:
    rates = experiment.success_rates(outcomes)
    assert len(rates) == sum(len(outcome.hits) for outcome in outcomes)
    for row in rates.itertuples():
        outcome = experiment.one(outcomes, row.corpus, row.defense, row.epsilon)
        right = outcome.hits[row.attack]
        assert row.value == pytest.approx(right.mean()) and row.low <= row.value <= row.high
        assert len(right) == len(outcome.truth) and (outcome.substring[row.attack] >= right).all()


def made_up(hits: dict[str, list[bool]], truth: list[int], document: list[int]) -> Any:
    words, clusters = np.array(truth), np.array(document)
    outcome = experiment.Outcome("rotten-tomatoes", "custext", 2.0, words, words, clusters)
    for name, right in hits.items():
        guessed = np.where(right, truth, 81)[:, None]
        outcome.add(name, Guesses(guessed, np.full(guessed.shape, 0.75)), WORDS, posterior=True)
    return outcome


def test_compare_by_hand() -> None:
    first = [True, True, True, False] * 20
    second = [False, True, False, False] * 20
    outcome = made_up({"a": first, "b": second}, [5, 6, 7, 8] * 20, list(np.repeat(range(40), 2)))
    table = experiment.compare([outcome], [("a", "b"), ("b", "a"), ("a", "absent")],
                               np.random.default_rng(0))  # fmt: skip
    assert table["difference"].tolist() == [0.5, -0.5]
    assert (table["low"] <= table["difference"]).all() and (table["p"] <= 0.001).all()
    row = findings.tested(table, outcome.corpus, "a", "b", 2.0)
    assert row is not None and (row.value, row.verdict) == (0.5, "above")
    assert findings.tested(table, outcome.corpus, "a", "absent", 2.0) is None
    assert findings.tested(table, "another", "a", "b", 2.0) is None


def test_planned_tests_are_corrected_among_themselves() -> None:
    rng = np.random.default_rng(4)
    good, bad = rng.random(90) < 0.7, rng.random(90) < 0.45
    outcome = made_up({"a": good, "b": bad, "c": ~bad}, [5] * 90, list(range(90)))

    def p(pairs: list[tuple[str, str]], planned: list[tuple[str, str]]) -> float:
        stream = np.random.default_rng(9)
        return float(experiment.compare([outcome], pairs, stream, planned=planned)["p"][0])

    alone = p([("a", "b")], [])
    among_three = p([("a", "b"), ("a", "c"), ("b", "c")], [])
    assert alone == p([("a", "b"), ("a", "c"), ("b", "c")], [("a", "b")]) < among_three


def test_success_by_frequency_and_on_words_by_hand() -> None:
    outcome = made_up({"a": [True, False, True, True]}, [3, 4, 50, 60], [0, 0, 1, 1])
    by = experiment.by_frequency([outcome], ["a"], [10, 55])
    assert by[["ranks", "value", "n"]].values.tolist() == [
        ["0-10", 0.5, 2], ["10-55", 1.0, 1], ["from 55", 1.0, 1]
    ]  # fmt: skip
    names = experiment.on_words([outcome], [4, 60, 70], ["a"])
    assert names[["value", "n", "words"]].values.tolist() == [[0.5, 2, 2]]
    assert experiment.on_words([outcome], [70], ["a"]).empty


def test_schemes_draw_types_uniformly(sizes: sources.Sizes) -> None:
    # 99 tokens of one type that is guessed, one token of another that is not.
    outcome = made_up({"a": [True] * 99 + [False]}, [3] * 99 + [4], list(range(100)))
    one_type = sizes.model_copy(update={"output_types": 1})
    drawn = [
        experiment.schemes([outcome], ["a"], one_type, np.random.default_rng(seed)).iloc[0]
        for seed in range(40)
    ]
    assert {row["all tokens"] for row in drawn} == {0.99}
    share = np.mean([row["types"] for row in drawn])
    assert 0.2 < share < 0.8  # each type is drawn half of the time, not 99 to 1


def test_calibration_by_hand() -> None:
    hits = [True, True, True, False]
    names = ("context-free-bayes", sources.SHADOW, sources.PUBLIC)
    outcome = made_up(dict.fromkeys(names, hits), [3, 4, 5, 6], [0, 1, 2, 3])
    table = experiment.calibration(
        [outcome], "rotten-tomatoes", {"custext": [2.0], "santext": []}, bins=10
    )
    assert table["attack"].tolist() == list(names)
    assert (table["stated"] == 0.75).all() and (table["value"] == 0.75).all()


def test_closed_form_meets_what_is_measured(
    materials: Any, mechanisms: Any, sizes: sources.Sizes, outcomes: list[experiment.Outcome]
) -> None:
    rates = experiment.success_rates(outcomes)
    chosen = {"rotten-tomatoes": materials["rotten-tomatoes"]}
    table = experiment.closed_form(chosen, mechanisms, sizes, rates)
    assert set(table["defense"]) == {"custext", "santext"}
    # 50 of 60 sentences are attacked: three standard errors and the missing sentences.
    gap = (table["value"] - table["measured"]).abs()
    assert (gap < 3 * (table["measured high"] - table["measured low"]) / 2 + 0.02).all()


def test_shadow_sizes_and_misaligned(
    materials: Any, mechanisms: Any, knowledge: Any, sizes: sources.Sizes
) -> None:
    larger = sizes.model_copy(update={"shadow_percents": (10.0, 45.0)})
    custext = mechanisms["custext"]
    table = experiment.shadow_sizes(materials["imdb"], custext, larger, SEED)
    documents = sorted(table["documents"].unique())
    assert documents == [6, 27]
    with pytest.raises(InvalidInput, match="raise shadow_pool"):
        too_many = sizes.model_copy(update={"shadow_percents": (90.0,)})
        experiment.shadow_sizes(materials["imdb"], custext, too_many, SEED)

    outcomes = experiment.misaligned(materials, custext, knowledge, sizes, SEED)
    names = list(outcomes[0].hits)
    assert f"{sources.PUBLIC}, misaligned" in names and sources.PUBLIC in names


TOKENS = 400
ATTACKS = sorted({name for pair in networks.DUELS for name in pair})


def guesses(share: float, seed: int) -> Guesses:
    """Right at about this share of the tokens, whose truth is word 1."""
    right = np.random.default_rng(seed).random(TOKENS) < share
    return Guesses(np.where(right, 1, 2)[:, None], np.ones((TOKENS, 1)))


def trained(sizes: sources.Sizes, rates: dict[str, float]) -> list[networks.Trained]:
    """A setting at each epsilon of the profile, with these rates (0.3 where none is given)."""
    settings, truth, document = [], np.ones(TOKENS, dtype=np.int64), np.arange(TOKENS) // 4
    for defense, epsilons in sizes.model_focus.items():
        for epsilon in epsilons:
            outcome = experiment.Outcome("imdb", defense, epsilon, truth, truth, document)
            for number, name in enumerate(ATTACKS):
                ranked = guesses(rates.get(name, 0.3), number)
                outcome.add(name, ranked, WORDS, posterior=False)
            settings.append(networks.Trained(outcome, untrained=0.5, tested=100))
    return settings


def inverted(share: float, seed: int) -> tuple[Guesses, LearningCurve, float]:
    return guesses(share, seed), LearningCurve((5, 10), (1.0, 2.0), (0.1, share)), 1.0 + seed


def run(apart: float) -> Any:
    """A run in which every recorded difference is this one."""

    def difference(first: str, second: str) -> Difference:
        assert first != second
        p = 0.001 if apart else 1.0
        return Difference(apart, apart - 0.01, apart + 0.01, p)

    return SimpleNamespace(
        measurement=lambda name: measure(name, 0.25, n=17_519), difference=difference
    )


@pytest.mark.parametrize("profile", ["smoke", "default", "paper"])
@pytest.mark.parametrize(
    ("rates", "apart", "says"),
    [
        ({"contextual-bayes": 0.6, TOKEN: 0.3}, 0.05, "relatively +"),
        ({"contextual-bayes": 0.2, TOKEN: 0.6}, -0.05, "relatively -"),
        ({"contextual-bayes": 0.0, TOKEN: 0.0}, 0.0, "relatively (of none)"),
    ],
)
def test_verdicts_follow_the_numbers(
    profile: str, rates: dict[str, float], apart: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(first: Any, second: Any, *_: Any, **__: Any) -> float:
        return 0.0 if abs(first.mean() - second.mean()) > 0.1 else 1.0

    monkeypatch.setattr(stats, "paired_test", quick)
    sizes = profiles.load(profile, "05_reconstruction_attacks", sources.Sizes)
    settings = trained(sizes, rates)
    duels = networks.duels(settings, np.random.default_rng(0))
    text = findings.findings(run(apart), settings, duels, sizes)
    assert text.startswith("- **The headline.**")
    assert "nan" not in text.lower().replace("finance", "")
    form = next(line for line in text.splitlines() if findings.FORMS[TOKEN] in line)
    ours = form.split("; the ")[0]
    assert says in ours
    expected = {0.05: "higher", -0.05: "lower", 0.0: "not significantly different"}[apart]
    assert f"The contextual attack is {expected}" in ours
    assert f"compared with that bound it is {expected}" in text.lower()
    above = len(sizes.santext_epsilons) if apart > 0 else 0
    assert f"is above context-free Bayes at {above} of {len(sizes.santext_epsilons)}" in text
    assert ("at epsilon 6 it recovers" in text) == (profile == "smoke")  # the one epsilon, once


def test_trainings_of_a_network_are_averaged_and_their_spread_is_kept() -> None:
    sizes = profiles.load("default", "05_reconstruction_attacks", sources.Sizes)
    setting = trained(sizes, {})[0]
    several = [inverted(share, seed) for share, seed in ((0.2, 1), (0.4, 2), (0.6, 3))]
    setting.add_inversions(FREE, several, WORDS)
    right = [ranked.hits(setting.outcome.truth) for ranked, *_ in several]
    assert setting.outcome.seconds[FREE] == 3.0
    assert np.allclose(setting.outcome.hits[FREE], np.mean(right, axis=0))  # token by token
    assert setting.spread[FREE] == pytest.approx(np.std([hits.mean() for hits in right], ddof=1))
    assert setting.curves["training"].tolist() == [0, 0, 1, 1, 2, 2]
    table = networks.training_table([setting])
    assert table["trainings"].tolist() == [3]
    assert table["accuracy"].iloc[0] == pytest.approx(0.4)
    assert table["between trainings"].iloc[0] == setting.spread[FREE]


def test_the_budget_leaves_out_what_the_sizes_say() -> None:
    sizes = profiles.load("full", "05_reconstruction_attacks", sources.Sizes)
    first, *_, last = sizes.model_focus["custext"]
    assert networks.EXTENDED not in networks.budget(sizes, "custext", first)[1]
    assert networks.EXTENDED in networks.budget(sizes, "custext", last)[1]
    counts, spared = networks.budget(sizes, "santext", sizes.model_focus["santext"][0])
    assert max(counts) == networks.K and networks.PRETRAINED in spared
    assert max(networks.budget(sizes, "custext", last)[0]) == max(sizes.contextual_k)


def test_another_training_widens_intervals_and_tests() -> None:
    """Two trainings that are far apart leave open what each of them alone would decide."""
    rng = np.random.default_rng(3)
    base, good = rng.random(400) < 0.5, rng.random(400) < 0.62
    outcome = made_up({"a": good, "b": base}, [5] * 400, list(range(400)))
    alone = experiment.compare([outcome], [("a", "b")], np.random.default_rng(0)).iloc[0]
    outcome.trainings["a"] = np.repeat([[0.45], [0.79]], 400, axis=1)
    several = experiment.compare([outcome], [("a", "b")], np.random.default_rng(0)).iloc[0]
    assert alone["p"] < 0.01 < 0.2 < several["p"]
    assert several["low"] < 0 < alone["low"] and several["difference"] == alone["difference"]
    assert outcome.share("a").low < stats.clustered_share(good, outcome.document).low
    half = np.arange(400) < 200
    assert outcome.share("a", half).low < 0.4 < 0.84 < outcome.share("a", half).high


def test_detectors_that_go_on_from_one_another_are_compared_training_by_training() -> None:
    """Both are good where the first was: apart they differ by chance, together by 0.1 always."""
    rng = np.random.default_rng(4)
    bases = np.array([0.3, 0.5, 0.7])
    base, plus = ((rng.random((3, 900)) < bases[:, None] + more).astype(float) for more in (0, 0.1))
    outcome = made_up({"a": [True] * 900, "b": [False] * 900}, [5] * 900, list(range(900)))
    for name, hits in (("a", plus), ("b", base)):
        outcome.trainings[name], outcome.hits[name] = hits, hits.mean(0)
    assert outcome.gain("a", "b").low < 0
    outcome.drawn.update(a=networks.DETECTOR, b=networks.DETECTOR)
    assert 0 < outcome.gain("a", "b").low < 0.1 < outcome.gain("a", "b").high
    assert outcome.share("a").high - outcome.share("a").low > 0.5


def test_trainings_of_a_detector_are_put_together_by_setting() -> None:
    curve = inverted(0.5, 1)[1]
    points = [{"corpus": "x", "number": n} for n in (0, 1)] + [{"corpus": "y", "number": 0}]
    measured = []
    for point in points:
        outcome = made_up({"other": [True] * 4}, [5] * 4, list(range(4)))
        outcome = replace(outcome, corpus=point["corpus"])
        words = np.full((4, networks.K), 6)
        words[: 2 - point["number"], 0] = 5  # the first training is right twice, the second once
        ranked = {networks.K: Guesses(words, np.ones(words.shape))}
        measured.append(
            (outcome, {"contextual-bayes": networks.DetectorTraining(ranked, curve, 8, 2.0)})
        )
    first, second = networks.by_setting(points, measured, WORDS)
    assert first.outcome.hits["contextual-bayes"].tolist() == [1, 0.5, 0, 0]
    assert first.outcome.trainings["contextual-bayes"].shape == (2, 4)
    assert "contextual-bayes" not in second.outcome.trainings
    assert first.curves["training"].unique().tolist() == [0, 1]


def test_three_trainings_are_no_hundred() -> None:
    """Student's t with two degrees of freedom, by hand, where trainings are all that varies."""
    outcome = made_up({"a": [True] * 300, "b": [False] * 300}, [5] * 300, list(range(300)))
    outcome.hits["a"] = np.full(300, 0.5)
    rates = np.array([0.44, 0.5, 0.56])
    outcome.trainings["a"] = np.repeat(rates[:, None], 300, axis=1)
    (p,) = experiment.compare([outcome], [("a", "b")], np.random.default_rng(0))["p"]
    t = 0.5 / (rates.std(ddof=1) / np.sqrt(3))
    assert p == pytest.approx(1 - t / np.sqrt(2 + t**2)) and p > 0.004


def test_tests_over_trainings_keep_small_levels() -> None:
    """As Holm's correction asks of them: at 1%, of networks that differ by chance alone."""
    rng, rejected, times = np.random.default_rng(5), 0, 1000
    outcome = made_up({"a": [True] * 60, "b": [False] * 60}, [5] * 60, list(range(60)))
    for _ in range(times):
        rates = 0.5 + 0.05 * rng.standard_normal(3)
        outcome.trainings["a"] = np.repeat(rates[:, None], 60, axis=1)
        outcome.hits["a"] = np.full(60, outcome.trainings["a"].mean())
        outcome.hits["b"] = np.full(60, 0.5)
        rejected += experiment._p_over_trainings(outcome, "a", "b") < 0.01
    assert rejected <= 21  # of 10 by chance with probability below 0.1%


@pytest.mark.parametrize(("key", "name"), [("focus", "custext"), ("model_focus", "santext")])
def test_epsilons_that_no_defense_has_are_named(key: str, name: str) -> None:
    table = profiles.table("default", "05_reconstruction_attacks")[key]
    with pytest.raises(ProfileError, match=rf"{key}\.{re.escape(name)}: got \[99.*epsilons"):
        profiles.load(
            "default", "05_reconstruction_attacks", sources.Sizes, {key: {**table, name: [99]}}
        )
