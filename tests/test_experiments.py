"""What the notebooks call, on a small made-up table: right numbers, right shapes, no surprises."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import drawn
from matplotlib.text import Text
from scipy.stats import binomtest, chisquare, gamma

from textpriv import seeds
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import Tokenizer
from textpriv.experiments import ann_vs_exact, mechanisms, mechanisms_figures
from textpriv.experiments import ann_vs_exact_figures as figures
from textpriv.mechanisms import TEM, CusText, Madlib, SanText
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import (
    AllRadii,
    AnnoySearch,
    Distances,
    ExactSearch,
    FaissSearch,
    random_directions,
)
from textpriv.report.difference import Difference
from textpriv.report.figures import use_style

WORDS = [f"w{number}" for number in range(300)]


pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    vectors = np.random.default_rng(3).standard_normal((300, 6))
    return from_arrays("made up", WORDS, vectors)


def stream(*keys: seeds.Key) -> np.random.Generator:
    return seeds.stream(5, *keys)


def directions(words: int, count: int, dimension: int) -> np.ndarray:
    u = random_directions(words * count, dimension, stream("directions"))
    return u.reshape(words, count, dimension)


def test_the_lead_of_a_word_by_hand() -> None:
    """40 draws of the word and 30 of the next: 0.1, with the error of a multinomial draw."""
    draws = {"cat": 40, "dog": 30, "cow": 20, "elk": 10}, {"cat": 100}, {"dog": 60, "cow": 40}
    slight, every, none = (ann_vs_exact.lead(counts, "cat") for counts in draws)
    assert [slight.value, every.value, none.value] == pytest.approx([0.1, 1.0, -0.6])
    half = 1.96 * np.sqrt((0.4 + 0.3 - 0.1**2) / 100)
    assert slight.high - slight.low == pytest.approx(2 * half, rel=0.1)
    assert every.low < 1  # 100 equal draws are not certain


def test_table_2_side_by_side_by_hand() -> None:
    """The most frequent outputs first; a search with fewer of them leaves cells empty."""
    base = {"word": "cat", "epsilon": 1.0}
    annoy = {**base, "search": "annoy", "counts": Counter(cow=4, cat=6, elk=2, owl=2, ant=1)}
    exact = {**base, "search": "exact", "counts": Counter(cat=8)}
    table = ann_vs_exact.side_by_side(pd.DataFrame([annoy, exact]))
    assert table["cat", "annoy"].to_list() == ["(6) cat", "(4) cow", "(2) elk", "(2) owl"]
    assert table["cat", "exact"].to_list() == ["(8) cat", "", "", ""]
    assert table.index.to_list() == [(1.0, rank) for rank in (1, 2, 3, 4)]


def test_sentences_of_notebook_02_follow_their_tests() -> None:
    one, other = ann_vs_exact.TABLES
    ends = [(one, 0, 0.6), (one, 1, 0.4), (other, 0, 0.40), (other, 1, 0.41)]
    kept = pd.DataFrame(ends, columns=["embedding", "stratum", "kept"])
    kept = kept.assign(epsilon=10.0, low=kept["kept"] - 0.05, high=kept["kept"] + 0.05, n=100)
    said = ann_vs_exact.frequency_says(kept)
    assert "40% of the rarest (significantly more" in said and "41% of the rarest (und" in said
    bands = pd.DataFrame({"band": "rank 1-10", "dimension": [3, 3, 2], "epsilon": 1.0, "n": 50,
                          "share": [0.48, 0.1, 0.1], "low": 0.05, "high": 0.6})  # fmt: skip
    said = ann_vs_exact.nearest_says(bands)
    assert "10.0% (5.0% to 60.0%) in 2 dimensions, 48.0% (" in said
    rows = {"c": [0.1, 0.5, np.inf], "kept": 0.5, "epsilon": 10.0, "rank 1-10": [0.4, 0.2, 0.1]}
    matched = pd.DataFrame(rows)
    said = ann_vs_exact.repair_says(matched, 0.5, 1000)
    assert "c = 0.1 (epsilon 10) puts 40%" in said and "10%: significantly more with" in said
    assert "undecided" in ann_vs_exact.repair_says(matched, 0.5, 4)
    assert "nothing to compare" in ann_vs_exact.repair_says(matched[:2], 0.5, 4)
    shares = {"glove6b50": [0.30, 0.34], "glove6b50_cut": [0.60, 0.56], "forest": [0, 1]}
    forests = pd.DataFrame(shares).melt("forest", var_name="table")
    forests = forests.assign(search="annoy", word="w", epsilon=8.0)
    said = ann_vs_exact.forests_apart(forests)
    assert "up to 0.04. " in said and "58%" in said and "32% in the whole (significantly m" in said
    assert "(undecided" in ann_vs_exact.forests_apart(forests[forests["forest"] == 0])


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
    shares = {}
    for dimension in (2, 6):
        table = ann_vs_exact.project(embedding, dimension)
        assert table.dimension == dimension and table.words == embedding.words
        radii = AllRadii(ExactSearch(table.vectors))
        words, u = np.arange(0, 300, 10), directions(30, 2, dimension)
        envelope = radii.envelope(words, u, max_radius=100.0)
        rank = Distances(table.vectors).ranks(envelope.word[envelope.pair], envelope.output)
        stratum, epsilons = np.arange(30) // 10, [1.0, 4.0, 400.0]
        shares[dimension] = ann_vs_exact.shares_by_rank(envelope, rank, stratum, epsilons)
        own = shares[dimension].query("band == 'itself'")["share"].to_numpy()
        crossing = radii.first_crossing(words, u)[0]
        expected = [gamma.cdf(epsilon * crossing, dimension).mean() for epsilon in epsilons]
        assert np.allclose(own, expected) and own[-1] > 0.99
    bands = pd.concat(shares, names=["dimension"]).reset_index(0)
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
    lines = ann_vs_exact.lines_along(radii, embedding, "w7", u)
    wide = lines.pivot(index="radius", columns="other", values="score")
    winners = set(lines.loc[lines["wins"], "other"])
    assert wide["w7"].abs().max() < 1e-12 and "w7" in winners
    assert set(wide.idxmax(axis=1)) <= winners
    assert figures.lines(lines, "w7", 6).axes


def test_the_recall_of_an_index_by_hand(embedding: Embedding) -> None:
    queries = {1.0: embedding.vectors + 0.1, 2.0: embedding.vectors}
    truth = {key: ExactSearch(embedding.vectors).nearest(each)[0] for key, each in queries.items()}
    truth[2.0][:30] = -1  # what no index answers
    build = partial(FaissSearch, embedding.vectors, "flat")
    recalls = ann_vs_exact.recall_and_speed(build, queries, truth)
    assert recalls["recall"].to_list() == [1.0, 0.9] and (recalls["n"] == 300).all()
    assert (recalls["queries_per_second"] > 0).all()
    tried = {name: recalls.assign(setting="") for name in ("exact", "annoy")}
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


def test_the_range_of_a_matched_epsilon_by_hand() -> None:
    """Two standard errors are 0.1; the share grows by 0.05 when epsilon grows by a tenth."""
    low, high = mechanisms.epsilon_range(5.0, lambda epsilon: min(1.0, epsilon / 10), 100)
    assert low == pytest.approx(5 * np.exp(-0.2), rel=0.01)
    assert high == pytest.approx(5 * np.exp(0.2), rel=0.01)
    # Two tokens, one of which stays: no slope to tell a range by, and no warning.
    assert np.isnan(mechanisms.epsilon_range(3.0, lambda _: 0.5, 2)).all()


@pytest.mark.parametrize("near", [0.01, 0.3, 8.0, 900.0, 1e6])
@pytest.mark.parametrize("kept", [0.05, 0.5, 0.9])
def test_the_search_for_an_epsilon_starts_anywhere_and_asks_little(
    near: float, kept: float
) -> None:
    asked: list[float] = []

    def curve(epsilon: float) -> float:
        asked.append(epsilon)
        return float(epsilon**3 / (epsilon**3 + 8.0**3))  # a half at 8

    wanted = 8 * (kept / (1 - kept)) ** (1 / 3)
    assert mechanisms.epsilon_keeping(kept, curve, near) == pytest.approx(wanted, rel=0.002)
    assert len(asked) < 30 and 0.0999 < min(asked) and max(asked) < 2000.1
    assert np.isnan(mechanisms.epsilon_keeping(kept, lambda _: kept / 2, near))
    assert np.isnan(mechanisms.epsilon_keeping(kept, lambda _: (1 + kept) / 2, near))


def test_the_window_of_a_logistic_curve_by_hand() -> None:
    """At odds epsilon^2 the share is 10% at epsilon 1/3 and 90% at 3, between points or not."""
    epsilons = np.geomspace(1 / 16, 16, 4)
    shares = epsilons**2 / (1 + epsilons**2)
    assert mechanisms.window(epsilons, shares) == pytest.approx(9)
    assert mechanisms.window([1, 2, 4], [0.1, 0.5, 0.9]) == pytest.approx(4)  # at the very ends
    assert mechanisms.window([1, 2, 3, 4], [0.0, 0.95, 0.94, 1.0]) < 2  # an error of the draws
    assert np.isnan(mechanisms.window([1, 2], [0.11, 1.0]))
    assert np.isnan(mechanisms.window([1, 2], [0.0, 0.89]))


def test_figures_of_notebook_01_fit_a_column_with_at_most_eight_series() -> None:
    use_style()

    def rows(**columns: Any) -> pd.DataFrame:
        """Of every mechanism and each of these values, with an estimate."""
        keys = pd.MultiIndex.from_product([[*WORD_LEVEL], *columns.values()])
        table = keys.to_frame(index=False, name=["mechanism", *columns])
        return table.assign(value=0.5, low=0.4, high=0.7, n=40)

    distinct = rows().assign(value=range(len(WORD_LEVEL)), draws=200)
    near = rows(within=[10, 1000])
    readers = [*mechanisms.READERS, mechanisms.BETTER]
    gained = rows(corpus=["sentences", "reviews"], reader=readers)
    gained["verdict"] = np.where(gained["mechanism"] == "vickrey", "above", "undecided")
    curves, gained = (each[each["mechanism"] != mechanisms.RANDOM]
                      for each in (rows(relative=[0.25, 1.0, 4.0]), gained))  # fmt: skip
    kept = mechanisms_figures.kept_and_distinct(curves, distinct, "Kept")
    named = [ax.get_legend_handles_labels()[1] for ax in kept.axes]
    assert "MADLIB: 0" in named[0] and "SanText: 3" in named[1]
    far = mechanisms_figures.how_far(near, {10: 0.01, 1000: 0.2}, "Far")
    gains = mechanisms_figures.gains(gained, near[near["within"] == 10], "Gains")
    for figure, series in ((kept, 8), (far, 4), (gains, 4)):
        assert figure.get_figwidth() <= 4.5
        for ax in figure.axes:
            assert len(ax.get_legend_handles_labels()[0]) <= series
        drawn(figure)
        smallest = min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text())
        assert smallest * 3.35 / figure.get_figwidth() >= 5  # points where it is printed at 85 mm


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


def test_a_classifier_of_vectors_reads_a_near_word_as_the_word() -> None:
    """The mean vector decides; one that counts words has never seen the near ones."""
    angles = np.deg2rad([0, 5, 90, 95])
    table = from_arrays("made up", ["good", "great", "bad", "awful"],
                        np.stack([np.cos(angles), np.sin(angles)], axis=1))  # fmt: skip
    texts, labels = ["good", "good good", "bad", "bad bad"] * 10, np.tile([1, 1, 0, 0], 10)
    averaging = mechanisms.vector_classifier(table, 0).fit(texts, labels)
    counting = mechanisms.classifier(0).fit(texts, labels)
    unseen = ["great great", "awful"]
    assert averaging.predict(unseen).tolist() == [1, 0]
    assert len({*map(tuple, counting.predict_proba(unseen))}) == 1
    assert averaging.predict(["unheard good"]).tolist() == [1]  # unknown words have no vector


def test_only_what_was_replaced_is_redrawn_and_all_other_words_are_alike() -> None:
    clean = Tokenizer([*"abcdefg"]).encode(["a b c unheard"] * 20_000)
    sanitized = clean.with_ids(np.where(clean.ids == 1, 1, 3))  # b stays, the others become d
    drawn = mechanisms.redrawn(clean, sanitized, 7, np.random.default_rng(0)).ids.reshape(-1, 4)
    assert (drawn[:, 1] == 1).all() and drawn.min() == 0
    for column, word in ((0, 0), (2, 2)):
        counted = np.bincount(drawn[:, column], minlength=7)
        assert counted[word] == 0
        assert chisquare(np.delete(counted, word)).pvalue > 1e-4


def test_a_shift_of_all_scores_costs_no_accuracy() -> None:
    """Half of the texts count as positive: by hand, with scores that are all above zero."""

    class Shifted:
        classes_ = np.array([0, 1])

        def __init__(self, *scores: float) -> None:
            self.scores = np.array(scores)

        def decision_function(self, texts: list[str]) -> Any:
            return self.scores[: len(texts)]

    models: Any = [Shifted(5.0, 6.0, 7.0, 8.0), Shifted(6.0, 5.0, 8.0, 4.0)]
    labels = np.array([0, 0, 1, 1])
    assert mechanisms.right(models, [*"abcd"], labels).tolist() == [0.5, 1.0, 1.0, 0.5]


def test_replacements_are_compared_with_random_words_by_each_reader() -> None:
    """Corrected for all pairs of readers; the better reader of each side may be another one."""
    values = {("words", "own"): 0.60, ("words", "redrawn"): 0.65,
              ("vectors", "own"): 0.70, ("vectors", "redrawn"): 0.61}  # fmt: skip
    accuracy = pd.DataFrame(
        {"corpus": "s", "data": "d", "reader": reader, "words": words, "mechanism": name}
        | {"kept": 0.5, "n": 9, "value": value}
        for name in ("a", "b", mechanisms.RANDOM, "original")
        for (reader, words), value in values.items()
    )  # fmt: skip
    asked = {}

    def difference(first: str, second: str) -> Difference:
        asked[first, len(asked)] = second
        p = 0.006 if first == "sentiment.d.a.kept0.5.vectors.own" else 0.007  # 8 pairs of readers
        return Difference(0.05, -0.05, 0.15, p)

    gains = mechanisms.beside_random(accuracy, difference)
    assert gains[["mechanism", "reader", "verdict"]].to_numpy().tolist() == [
        ["a", "words", "undecided"], ["a", "vectors", "above"], ["b", "words", "undecided"],
        ["b", "vectors", "undecided"], ["a", "better", "above"], ["b", "better", "undecided"],
    ]  # fmt: skip
    assert gains["p"].max() == pytest.approx(0.056)
    name = "sentiment.d.b.kept0.5.{}.{}".format
    assert asked[name("words", "own"), 2] == name("words", "redrawn")
    assert asked[name("vectors", "own"), 3] == name("vectors", "redrawn")
    assert asked[name("vectors", "own"), 5] == name("words", "redrawn")  # each by its better reader


def test_what_is_said_of_replacements_follows_the_verdicts() -> None:
    rows = pd.DataFrame(
        [("s", "A", "words", 0.5, "below"), ("s", "A", "better", 0.5, "above"),
         ("s", "B", "better", 0.5, "below"), ("s", "C", "better", 0.5, "undecided"),
         ("s", "A", "better", 0.3, "above"), ("s", "A", "words", 0.3, "above"),
         ("r", "A", "vectors", 0.5, "below")],
        columns=["corpus", "mechanism", "reader", "kept", "verdict"],
    )  # fmt: skip
    title, said, _ = mechanisms.near_or_random(rows, 0.5)
    assert "under 1 of 3 mechanisms,\nless under 1 (1 undecided; 50% kept, s)" in title
    told = [(line[2:16], line[line.index(": more") :]) for line in said.splitlines()[1:]]
    assert told == [  # elsewhere than at half the better reader alone
        ("On s, 30% kept", ": more under A; less under none."),
        ("On s, 50% kept", ": more under none; less under A."),
        ("On s, 50% kept", ": more under A; less under B."),
        ("On r, 50% kept", ": more under none; less under A."),
    ]
