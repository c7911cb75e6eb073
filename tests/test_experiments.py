"""What the notebooks call, on a small made-up table: right numbers, right shapes, no surprises."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from cells import assigned
from scipy.stats import binomtest, gamma

from textpriv import seeds, stats
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.experiments import ann_vs_exact, mechanisms
from textpriv.experiments import ann_vs_exact_figures as figures
from textpriv.mechanisms import TEM, CusText, Madlib, Mahalanobis, SanText
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import (
    AllRadii,
    AnnoySearch,
    Distances,
    ExactSearch,
    FaissSearch,
    random_directions,
)

matplotlib.use("Agg")

WORDS = [f"w{number}" for number in range(300)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTPRIV_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    vectors = np.random.default_rng(3).standard_normal((300, 6))
    return from_arrays("made up", WORDS, vectors)


# --- Notebook 02 ---------------------------------------------------------------------------


def stream(*keys: seeds.Key) -> np.random.Generator:
    return seeds.stream(5, *keys)


def directions(words: int, count: int, dimension: int) -> np.ndarray:
    u = random_directions(words * count, dimension, stream("directions"))
    return u.reshape(words, count, dimension)


def test_the_lead_of_a_word_by_hand() -> None:
    """40 draws of the word and 30 of the next: 0.1, with the error of a multinomial draw."""
    draws = {
        "some": Counter({"cat": 40, "dog": 30, "cow": 20, "elk": 10}),
        "all": Counter({"cat": 100}),
        "none": Counter({"dog": 60, "cow": 40}),
    }
    lead = {name: ann_vs_exact.lead(counts, "cat") for name, counts in draws.items()}
    values = {name: each.value for name, each in lead.items()}
    assert values == pytest.approx({"some": 0.1, "all": 1.0, "none": -0.6})
    half = 1.96 * np.sqrt((0.4 + 0.3 - 0.1**2) / 100)
    assert lead["some"].high - lead["some"].low == pytest.approx(2 * half, rel=0.1)
    assert lead["all"].low < 1  # 100 equal draws are not certain


def test_table_2_side_by_side_by_hand() -> None:
    """The most frequent outputs first; a search with fewer of them leaves cells empty."""
    base = {"word": "cat", "epsilon": 1.0}
    annoy = {**base, "search": "annoy", "counts": Counter({"cow": 2, "cat": 5, "elk": 1})}
    exact = {**base, "search": "exact", "counts": Counter({"cat": 8})}
    table = ann_vs_exact.side_by_side(pd.DataFrame([annoy, exact]), top=2)
    assert table["cat", "annoy"].to_list() == ["(5) cat", "(2) cow"]
    assert table["cat", "exact"].to_list() == ["(8) cat", ""]
    assert table.index.to_list() == [(1.0, 1), (1.0, 2)]


def strata(value: float) -> dict[str, float]:
    return {"epsilon": 10.0, "kept": value, "low": value - 0.05, "high": value + 0.05, "n": 100}


def test_sentences_of_notebook_02_follow_their_tests() -> None:
    kept = pd.DataFrame(
        [
            {"embedding": "a", "stratum": 0, **strata(0.6)},
            {"embedding": "a", "stratum": 1, **strata(0.4)},
            {"embedding": "b", "stratum": 0, **strata(0.40)},
            {"embedding": "b", "stratum": 1, **strata(0.41)},
        ]
    )
    said = ann_vs_exact.frequency_says(kept)
    assert "a 60% against 40% (more: +0.200" in said
    assert "b 40% against 41% (undecided at this size: -0.010" in said

    near = {"band": "rank 1-10", "dimension": 3, "epsilon": 1.0, "n": 50}
    few = pd.DataFrame([{**near, "share": 0.1, "low": 0.05, "high": 0.2}])
    assert "nowhere half" in ann_vs_exact.nearest_says(few)
    many = few.assign(share=0.48, high=0.6)
    assert "in some case half" in ann_vs_exact.nearest_says(many)
    several = ann_vs_exact.nearest_says(pd.concat([many, few, few.assign(dimension=2)]))
    assert "10.0% (5.0% to 20.0%) in 2 dimensions, 48.0% (5.0% to 60.0%) in 3 dim" in several

    rows = [
        {"c": c, "kept": 0.5, "epsilon": 10.0, "rank 1-10": share}
        for c, share in ((0.1, 0.4), (0.5, 0.2), (np.inf, 0.1))
    ]
    said = ann_vs_exact.repair_says(pd.DataFrame(rows), 0.5, 1000)
    assert "c = 0.1 puts 40%" in said and "no repair 10% (more)" in said
    assert "undecided" in ann_vs_exact.repair_says(pd.DataFrame(rows), 0.5, 4)
    assert "nothing to compare" in ann_vs_exact.repair_says(pd.DataFrame(rows[:2]), 0.5, 4)

    forests = pd.DataFrame(
        [
            {"table": table, "forest": forest, "search": "annoy", "word": "w", "value": value}
            for table, pair in {"glove6b50": (0.30, 0.34), "glove6b50_cut": (0.60, 0.56)}.items()
            for forest, value in enumerate(pair)
        ]
    )
    said = ann_vs_exact.forests_apart(forests)
    assert "up to 0.04" in said and said.endswith("58% of the words under Annoy, whole 32% (more).")
    alone = ann_vs_exact.forests_apart(forests[forests["forest"] == 0])
    assert alone.startswith("Cut to") and alone.endswith("(undecided at this size).")


@pytest.mark.parametrize("count", [None, 40, 10_000])
def test_words_are_drawn_evenly_over_frequency_ranks(count: int | None) -> None:
    words, stratum = ann_vs_exact.stratified_words(100, count, 4, stream("s"))
    assert len(set(words)) == len(words) == (40 if count == 40 else 100)
    assert (stratum == words * 4 // 100).all()
    assert len(set(np.bincount(stratum))) == 1


def test_a_cached_forest_is_that_of_its_trees_and_seed(embedding: Embedding) -> None:
    queries = embedding.vectors + 0.5
    first, second = (ann_vs_exact.cached_annoy(embedding, trees=1, seed=seed) for seed in (1, 2))
    for forest, seed in ((first, 1), (second, 2), (first, 1)):
        built = AnnoySearch(embedding.vectors, trees=1, seed=seed)
        assert (forest.nearest(queries)[0] == built.nearest(queries)[0]).all()
    assert (first.nearest(queries)[0] != second.nearest(queries)[0]).any()


def test_kept_words_by_stratum_and_over_all() -> None:
    stratum = np.repeat([0, 1, 2], 20)
    kept = np.random.default_rng(0).random((2, 60)) * [[0.5], [1.0]]
    table = ann_vs_exact.kept_table(kept, stratum, [1.0, 4.0])
    assert len(table) == 2 * 4 and (table["low"] <= table["kept"]).all()
    assert (table["kept"] <= table["high"]).all() and table["high"].le(1).all()
    parts = table[table["stratum"] >= 0].pivot(index="epsilon", columns="stratum", values="kept")
    assert np.allclose(parts, kept.reshape(2, 3, 20).mean(2))
    overall = table[table["stratum"] < 0]
    assert np.allclose(overall["kept"], kept.mean(1)) and (overall["n"] == 60).all()

    searches = {"exact": table, "annoy": table.assign(kept=table["kept"] / 2)}
    both = pd.concat(searches, names=["search"]).reset_index(0).assign(embedding="glove840b300")
    assert len(figures.kept_words(both, figures.paper_points()).axes) == 1


def test_bands_of_rank_share_out_all_outputs(embedding: Embedding) -> None:
    found = {}
    for dimension in (2, 6):
        table = ann_vs_exact.project(embedding, dimension)
        assert table.dimension == dimension and table.words == embedding.words
        radii = AllRadii(ExactSearch(table.vectors))
        words, u = np.arange(0, 300, 10), directions(30, 2, dimension)
        envelope = radii.envelope(words, u, max_radius=100.0)
        rank = Distances(table.vectors).ranks(envelope.word[envelope.pair], envelope.output)
        stratum, epsilons = np.arange(30) // 10, [1.0, 4.0, 400.0]
        found[dimension] = ann_vs_exact.shares_by_rank(envelope, rank, stratum, epsilons)
        own = found[dimension].query("band == 'itself'")["share"].to_numpy()
        crossing = radii.first_crossing(words, u)[0]
        expected = [gamma.cdf(epsilon * crossing, dimension).mean() for epsilon in epsilons]
        assert np.allclose(own, expected) and own[-1] > 0.99
    bands = pd.concat(found, names=["dimension"]).reset_index(0)
    assert np.allclose(bands.groupby(["dimension", "epsilon"])["share"].sum(), 1)
    assert figures.near_words_by_dimension(bands).axes
    assert figures.replacements(bands[bands["dimension"] == 6], "made up").axes


def test_outputs_along_an_envelope_have_the_law_of_draws_and_those_of_a_wrong_one_not(
    embedding: Embedding,
) -> None:
    rng, epsilon, word = stream("c"), 4.0, np.array([7])
    envelope = AllRadii(ExactSearch(embedding.vectors)).envelope(
        word, directions(1, 1500, 6), max_radius=100.0
    )
    length = rng.gamma(6, 1 / epsilon, 1500)
    drawn = Madlib(embedding, epsilon=epsilon).sanitize_ids(np.repeat(word, 1500), rng)
    right = ann_vs_exact.outputs_at(envelope, length)
    assert ann_vs_exact.same_law(right, drawn) > 1e-4
    forgotten_factor = replace(envelope, start=envelope.start * 2)
    wrong = ann_vs_exact.outputs_at(forgotten_factor, length)
    assert ann_vs_exact.same_law(wrong, drawn) < 1e-6


def test_two_samples_of_one_law_are_not_told_apart_and_of_two_laws_are() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 30, 4000), rng.integers(0, 30, 2000)
    assert ann_vs_exact.same_law(first, second) > 1e-4
    assert ann_vs_exact.same_law(first, rng.integers(0, 33, 2000)) < 1e-6
    assert np.isnan(ann_vs_exact.same_law(np.zeros(50, int), np.zeros(50, int)))
    assert np.isnan(ann_vs_exact.same_law(np.arange(50), np.arange(50, 100)))  # all pooled


def test_lines_of_one_direction_cross_where_the_winner_changes(embedding: Embedding) -> None:
    radii, u = AllRadii(ExactSearch(embedding.vectors)), directions(1, 100, 6)[0]
    found = ann_vs_exact.lines_along(radii, embedding, "w7", u)
    wide = found.pivot(index="radius", columns="other", values="score")
    winners = set(found.loc[found["wins"], "other"])
    assert wide["w7"].abs().max() < 1e-12 and "w7" in winners
    assert set(wide.idxmax(axis=1)) <= winners
    assert figures.lines(found, "w7", 6).axes


def test_the_recall_of_an_index_by_hand(embedding: Embedding) -> None:
    queries = {1.0: embedding.vectors + 0.1, 2.0: embedding.vectors}
    truth = {key: ExactSearch(embedding.vectors).nearest(each)[0] for key, each in queries.items()}
    truth[2.0][:30] = -1  # what no index answers
    build = partial(FaissSearch, embedding.vectors, "flat")
    found = ann_vs_exact.recall_and_speed(build, queries, truth)
    assert found["recall"].to_list() == [1.0, 0.9] and (found["n"] == 300).all()
    assert (found["queries_per_second"] > 0).all()
    tried = {name: found.assign(setting="") for name in ("exact", "annoy")}
    tried = pd.concat(tried, names=["index"]).reset_index(0)
    assert figures.index_trade_off(tried).axes


def test_interpolation_at_equal_kept_by_hand() -> None:
    shares = {2.0: (0.2, 0.8, 0.0, 0.0), 4.0: (0.6, 0.1, 0.3, 0.0)}
    bands = pd.DataFrame(
        {"c": 1.0, "epsilon": epsilon, **dict(zip(ann_vs_exact.RANK_BANDS, each, strict=True))}
        for epsilon, each in shares.items()
    )
    matched = ann_vs_exact.at_equal_kept(bands, [0.4, 0.9])  # the other is out of reach
    assert matched[["c", "kept", "epsilon"]].to_numpy().tolist() == [[1, 0.4, pytest.approx(3)]]
    row = matched.iloc[0]
    assert row["rank 1-10"] == pytest.approx(0.45) and row["rank 11-1000"] == pytest.approx(0.15)


# --- Notebook 01 ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORD_LEVEL)
def test_a_matched_epsilon_keeps_what_it_promises(embedding: Embedding, name: str) -> None:
    mechanism = WORD_LEVEL[name].make(embedding, ExactSearch(embedding.vectors))
    ids = np.random.default_rng(1).integers(0, 300, 400)
    curve = mechanisms.kept_curve(mechanism, ids, np.random.default_rng(2))
    epsilon = mechanisms.epsilon_keeping(0.6, curve)
    outputs = mechanism.with_epsilon(epsilon).sanitize_ids(ids, np.random.default_rng(0))
    # The error of the curve (one direction or draw per token) and of the draws, six of both.
    assert abs((outputs == ids).mean() - 0.6) < 6 * np.sqrt(2 * 0.25 / len(ids))
    low, high = mechanisms.epsilon_range(epsilon, curve, len(ids))
    assert low < epsilon < high


def test_matching_is_exact_for_a_channel_and_says_when_it_is_out_of_reach(
    embedding: Embedding,
) -> None:
    ids, rng = np.arange(300), np.random.default_rng(0)
    santext = SanText(embedding, epsilon=1)
    epsilon = mechanisms.epsilon_keeping(0.5, mechanisms.kept_curve(santext, ids, rng))
    at = santext.with_epsilon(epsilon)
    assert np.exp(at.log_prob(ids, ids)).mean() == pytest.approx(0.5, abs=0.001)
    two = CusText(embedding, epsilon=1, set_size=2, mapping="aggressive")
    assert np.isnan(mechanisms.epsilon_keeping(0.1, mechanisms.kept_curve(two, ids, rng)))


@pytest.mark.parametrize("kind", [Madlib, Mahalanobis])
def test_the_kept_curve_of_noise_agrees_with_draws(
    embedding: Embedding, kind: type[Madlib]
) -> None:
    mechanism = kind(embedding, epsilon=5)
    ids = np.tile(np.arange(300), 10)
    curve = mechanisms.kept_curve(mechanism, ids, np.random.default_rng(0))
    drawn = (mechanism.sanitize_ids(ids, np.random.default_rng(1)) == ids).mean()
    assert 0.1 < drawn < 0.9
    assert abs(curve(5.0) - drawn) < 6 * np.sqrt(2 * 0.25 / len(ids))


def test_the_range_of_a_matched_epsilon_by_hand() -> None:
    """Two standard errors are 0.1; the share grows by 0.05 when epsilon grows by a tenth."""
    low, high = mechanisms.epsilon_range(5.0, lambda epsilon: min(1.0, epsilon / 10), 100)
    assert low == pytest.approx(5 * np.exp(-0.2), rel=0.01)
    assert high == pytest.approx(5 * np.exp(0.2), rel=0.01)
    # Two tokens, one of which stays: no slope to tell a range by, and no warning.
    assert np.isnan(mechanisms.epsilon_range(3.0, lambda _: 0.5, 2)).all()


def test_accuracies_average_runs_and_count_the_documents_of_one() -> None:
    runs = (("original", 1.0, 9, 1.0), ("b", 0.5, 8, 0.4), ("a", 0.5, 7, 0.6), ("a", 0.5, 4, 0.7))
    outcomes = [(name, kept, np.arange(10) < right, here) for name, kept, right, here in runs]
    table = mechanisms.accuracies(outcomes)
    assert [*table["mechanism"]] == ["original", "b", "a"]  # in the order of the first runs
    last = table.iloc[2]
    assert (last["accuracy"], last["kept_here"], last["n"], last["runs"]) == (0.55, 0.7, 10, 2)
    interval = stats.share(6, 10)  # 5.5 of 10, to the nearest even number
    assert (last["low"], last["high"]) == (interval.low, interval.high)


def test_released_tem_and_the_closed_form_agree(embedding: Embedding) -> None:
    """The loop that benchmarks compare with draws from the same law: a check of both."""
    from benchmarks import peers

    tem = TEM(embedding, epsilon=8, beta=0.2)
    distance = np.linalg.norm(embedding.vectors - embedding.vectors[9], axis=1)
    assert 1 < (distance <= tem.gamma).sum() < 250  # the truncation matters here
    draws = peers.tem_loop(
        [9] * 4000, embedding.vectors.astype(float), 8, 0.2, np.random.default_rng(0)
    )
    probability = float(np.exp(tem.log_prob(np.array([9]), np.array([9]))[0]))
    assert binomtest(draws.count(9), len(draws), probability).pvalue > 1e-6
    assert ann_vs_exact.same_law(
        np.array(draws), tem.sanitize_ids(np.full(4000, 9), np.random.default_rng(1))
    ) > 1e-6  # fmt: skip


def test_slow_mechanisms_are_measured_on_a_random_part_of_the_words() -> None:
    """A uniform sample of 25 x 5 of 300 words has a mean id of 149.5 +- 7.8; six of these."""
    means = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        run, sizes = SimpleNamespace(stream=lambda _, rng=rng: rng), SimpleNamespace(words=40)
        given = {"np": np, "run": run, "sizes": sizes, "known": np.repeat(np.arange(300), 2)}
        part = assigned("01_mechanisms", "part", **given)
        assert len(np.unique(part)) == 5
        means.append(part.mean())
    assert abs(np.mean(means) - 149.5) < 6 * 7.8
