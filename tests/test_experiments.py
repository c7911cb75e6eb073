"""What the notebooks call, on a small made-up table: right numbers, right shapes, no surprises."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from textpriv import profiles, seeds, stats
from textpriv.embeddings import Embedding, from_arrays
from textpriv.experiments import ann_vs_exact, ann_vs_exact_figures, mechanisms, mechanisms_figures
from textpriv.mechanisms import CusText, Madlib, Mahalanobis, SanText
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import ExactSearch

matplotlib.use("Agg")

WORDS = [f"w{number}" for number in range(300)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTPRIV_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    vectors = np.random.default_rng(3).standard_normal((300, 6))
    return from_arrays("made up", WORDS, vectors)


@pytest.fixture(scope="module")
def sizes() -> ann_vs_exact.Sizes:
    return profiles.load(
        "smoke",
        "02_ann_vs_exact",
        ann_vs_exact.Sizes,
        {
            "table2_words": ["w5", "not in the table", "w250"],
            "table2_epsilons": [3.0, 30.0],
            "nw_epsilons": [1.0, 4.0, 40.0],
            "nw_words_glove840": 100,
            "nw_strata": 4,
            "replacement_dimensions": [2, 6],
            "check_words": ["w7"],
            "check_epsilons": [4.0],
            "check_directions": 1500,
            "check_draws": 1500,
        },
    )


@pytest.fixture
def table(embedding: Embedding, sizes: ann_vs_exact.Sizes) -> ann_vs_exact.Table:
    return ann_vs_exact.build(embedding, sizes, seed=1)


def stream(*keys: seeds.Key) -> np.random.Generator:
    return seeds.stream(5, *keys)


# --- Notebook 02 ---------------------------------------------------------------------------


def test_table_2_counts_all_draws_and_leaves_out_unknown_words(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.table2(table, sizes, sizes.table2_epsilons, stream("t"), top=300)
    assert set(found["word"]) == {"w5", "w250"}
    by = ["word", "epsilon", "search"]
    assert (found.groupby(by)["count"].sum() == sizes.table2_draws).all()
    own = found[found["output"] == found["word"]]
    assert (own["count"] == own["kept"]).all()
    assert found.groupby("search")["kept"].max()["exact"] == sizes.table2_draws  # at epsilon 30


def test_table_2_looks_up_the_same_noise_in_both_searches(
    embedding: Embedding, sizes: ann_vs_exact.Sizes, table: ann_vs_exact.Table
) -> None:
    twin = table._replace(annoy=table.exact)  # an "approximate" index that makes no error
    found = ann_vs_exact.table2(twin, sizes, [3.0], stream("t"))
    exact, annoy = (found[found["search"] == s].drop(columns="search") for s in ("exact", "annoy"))
    pd.testing.assert_frame_equal(exact.reset_index(drop=True), annoy.reset_index(drop=True))


def test_the_lead_of_a_word_by_hand() -> None:
    """40 draws of the word and 30 of the next: 0.1, with the error of a multinomial draw."""
    base = {"word": "cat", "epsilon": 1.0, "draws": 100}
    first, second = base | {"search": "annoy", "kept": 40}, base | {"search": "exact", "kept": 100}
    third = base | {"search": "other", "kept": 0}
    found = pd.DataFrame(
        [
            {**first, "output": "cat", "count": 40},
            {**first, "output": "dog", "count": 30},
            {**first, "output": "cow", "count": 9},
            {**second, "output": "cat", "count": 100},
            {**third, "output": "dog", "count": 60},
        ]
    )
    lead = ann_vs_exact.ahead(found).set_index("search")
    assert lead["value"].to_dict() == pytest.approx({"annoy": 0.1, "exact": 1.0, "other": -0.6})
    half = 1.96 * np.sqrt((0.4 + 0.3 - 0.1**2) / 100)
    assert lead.loc["annoy", "high"] - lead.loc["annoy", "low"] == pytest.approx(2 * half, rel=0.1)
    assert lead.loc["exact", "low"] < 1  # 100 equal draws are not certain


@pytest.mark.parametrize(
    ("replaced", "missed", "said"),
    [
        ((10, 4), (5, 1), "50% of 10 at epsilon 10, 25% of 4 at epsilon 19"),
        ((8, 0), (8, 0), "100%"),
    ],
)
def test_the_sentence_on_index_errors_names_every_epsilon(
    replaced: tuple[int, int], missed: tuple[int, int], said: str
) -> None:
    errors = pd.DataFrame({"replaced": replaced, "missed": missed}, index=[10.0, 19.0])
    shares = errors.assign(share=errors["missed"] / errors["replaced"].clip(lower=1))
    sentence = ann_vs_exact.errors_by_epsilon(shares)
    assert said in sentence and "nan" not in sentence


def strata(value: float, half: float) -> dict[str, object]:
    return {"kept": value, "low": value - half, "high": value + half, "n": 100}


def test_sentences_of_notebook_02_follow_their_tests() -> None:
    base = {"search": "exact", "epsilon": 10.0}
    kept = pd.DataFrame(
        [
            {"embedding": "a", "stratum": 0, **strata(0.6, 0.05), **base},
            {"embedding": "a", "stratum": 1, **strata(0.4, 0.05), **base},
            {"embedding": "b", "stratum": 0, **strata(0.40, 0.05), **base},
            {"embedding": "b", "stratum": 1, **strata(0.41, 0.05), **base},
        ]
    )
    said = ann_vs_exact.frequency_says(kept, 10.0)
    assert "a more: +0.200" in said and "b undecided at this size: -0.010" in said

    near = {"band": "rank 1-10", "dimension": 3, "epsilon": 1.0, "n": 50}
    few = pd.DataFrame([{**near, "share": 0.1, "low": 0.05, "high": 0.2}])
    assert "nowhere half" in ann_vs_exact.nearest_says(few)
    many = few.assign(share=0.48, high=0.6)
    assert "in some case half" in ann_vs_exact.nearest_says(many)

    rows = [
        {"c": c, "kept": 0.5, "epsilon": 10.0, "rank 1-10": share}
        for c, share in ((0.1, 0.4), (0.5, 0.2), (np.inf, 0.1))
    ]
    said = ann_vs_exact.repair_says(pd.DataFrame(rows), 0.5, 1000)
    assert "c = 0.1 puts 40%" in said and "(more)" in said
    assert "undecided" in ann_vs_exact.repair_says(pd.DataFrame(rows), 0.5, 4)
    assert "nothing to compare" in ann_vs_exact.repair_says(pd.DataFrame(rows[:2]), 0.5, 4)

    forests = pd.DataFrame(
        [
            {"table": table, "forest": forest, "search": "annoy", "word": "w", "kept": kept_}
            for table, pair in {"glove6b50": (30, 34), "glove6b50_cut": (60, 56)}.items()
            for forest, kept_ in enumerate(pair)
        ]
    ).assign(draws=100)
    said = ann_vs_exact.forests_apart(forests)
    assert "up to 0.04" in said and said.endswith("58% of the words under Annoy, whole 32% (more).")
    alone = ann_vs_exact.forests_apart(forests[forests["forest"] == 0])
    assert alone.startswith("Cut to") and alone.endswith("(undecided at this size).")


@pytest.mark.parametrize("count", [None, 40, 10_000])
def test_words_are_drawn_evenly_over_frequency_ranks(count: int | None) -> None:
    words, stratum = ann_vs_exact.sample_by_frequency(100, count, 4, stream("s"))
    assert len(set(words)) == len(words) == (40 if count == 40 else 100)
    assert (stratum == words * 4 // 100).all()
    assert len(set(np.bincount(stratum))) == 1


def test_kept_words_agree_between_the_one_pass_form_and_drawing(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    words = np.arange(300)
    kept = ann_vs_exact.kept_exact(table, words, sizes, stream("e"), label="")
    drawn = ann_vs_exact.kept_by_drawing(
        table, table.exact, words, sizes.nw_epsilons, stream("d"), label=""
    )
    # Bernoulli variance of the draws, and less for the directions: six standard errors.
    error = 6 * np.sqrt(2 * 0.25 / 300)
    assert (np.abs(kept.mean(1) - drawn.mean(1)) < error).all()
    assert kept.mean(1)[0] < kept.mean(1)[1] < kept.mean(1)[2]


def test_tables_of_kept_words_have_a_row_per_stratum_and_one_for_all(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.kept_tables({"glove840b300": (table, 100)}, sizes, stream)
    assert len(found) == 2 * 3 * 5
    assert found[["kept", "low", "high"]].stack().between(0, 1).all()
    assert (found["low"] <= found["kept"]).all() and (found["kept"] <= found["high"]).all()
    overall = found[(found["stratum"] < 0) & (found["search"] == "exact")]
    parts = found[(found["stratum"] >= 0) & (found["search"] == "exact")]
    mean = parts.groupby("epsilon")["kept"].mean()
    assert np.allclose(mean, overall.set_index("epsilon")["kept"])  # strata of one size
    ends = ann_vs_exact.frequent_and_rare(found, 4.0)
    at_4 = parts[parts["epsilon"] == 4.0].set_index("stratum")["kept"]
    assert ends.loc["glove840b300"].tolist() == [at_4[0], at_4[3]]
    figure = ann_vs_exact_figures.kept_words(found, ann_vs_exact_figures.paper_points())
    assert len(figure.axes) == 1
    assert ann_vs_exact_figures.kept_by_frequency(found).axes


def test_bands_of_rank_share_out_all_outputs(
    embedding: Embedding, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.replacements_by_dimension(embedding, sizes, stream)
    total = found.groupby(["dimension", "epsilon"])["share"].sum()
    assert np.allclose(total, 1) and set(found["dimension"]) == {2, 6}
    own = found[(found["band"] == "itself") & (found["dimension"] == 6)].sort_values("epsilon")
    assert own["share"].is_monotonic_increasing and own["share"].iloc[-1] > 0.99
    assert ann_vs_exact_figures.near_words_by_dimension(found).axes
    six = found[found["dimension"] == 6]
    assert ann_vs_exact_figures.replacements(six, "made up").axes


def test_the_envelope_form_passes_its_check_and_a_wrong_law_does_not(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ann_vs_exact.check_all_radii(table, sizes, stream("c"))
    assert (right["p_value"] > 1e-4).all()
    assert ann_vs_exact_figures.check(right).axes

    def forgets_a_factor_of_two(*arguments: object, **options: object) -> object:
        envelope = original(*arguments, **options)  # type: ignore[arg-type]
        return type(envelope)(**{**vars(envelope), "start": envelope.start * 2})

    original = table.radii.envelope
    monkeypatch.setattr(table.radii, "envelope", forgets_a_factor_of_two)
    assert (ann_vs_exact.check_all_radii(table, sizes, stream("c"))["p_value"] < 1e-6).all()


def test_two_samples_of_one_law_are_not_told_apart_and_of_two_laws_are() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 30, 4000), rng.integers(0, 30, 2000)
    assert ann_vs_exact.same_law(first, second) > 1e-4
    assert ann_vs_exact.same_law(first, rng.integers(0, 33, 2000)) < 1e-6
    assert np.isnan(ann_vs_exact.same_law(np.zeros(50, int), np.zeros(50, int)))
    assert np.isnan(ann_vs_exact.same_law(np.arange(50), np.arange(50, 100)))  # all pooled


def test_lines_of_one_direction_cross_where_the_winner_changes(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.lines_along(table, "w7", sizes, stream("l"))
    wide = found.pivot(index="radius", columns="other", values="score")
    winners = set(found.loc[found["wins"], "other"])
    assert wide["w7"].abs().max() < 1e-12 and "w7" in winners
    assert set(wide.idxmax(axis=1)) <= winners
    assert ann_vs_exact_figures.lines(found, "w7", 6).axes


def test_indexes_are_compared_on_the_same_queries(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.index_trade_off(table, sizes, stream("i"), seed=1)
    exact = found[found["index"].isin(["exact", "faiss-flat"])]
    assert (exact["recall"] == 1).all()
    assert found["recall"].between(0, 1).all() and (found["queries_per_second"] > 0).all()
    assert ann_vs_exact_figures.index_trade_off(found).axes


def test_rank_repair_brings_near_words_at_equal_kept_share(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    chosen = sizes.model_copy(
        update={"repair_draws": 240, "repair_c": (0.3,), "repair_epsilons": (1, 2, 4, 8, 16)}
    )
    found = ann_vs_exact.rank_repair(table, chosen, stream("rr"))
    assert np.allclose(found.groupby(["c", "epsilon"])["share"].sum(), 1)
    matched = ann_vs_exact.at_equal_kept(found, "c", [0.5, 0.999999]).set_index("c")
    assert set(matched["kept"]) == {0.5}  # the other is out of reach on this grid
    assert matched.loc[0.3, "rank 1-10"] > matched.loc[np.inf, "rank 1-10"]
    assert ann_vs_exact_figures.rank_repair(matched.reset_index(), 240).axes


def test_interpolation_at_equal_kept_by_hand() -> None:
    bands = pd.DataFrame(
        [
            {"c": 1.0, "epsilon": e, "band": band, "share": share}
            for e, shares in ((2.0, (0.2, 0.8, 0.0, 0.0)), (4.0, (0.6, 0.1, 0.3, 0.0)))
            for band, share in zip(ann_vs_exact.RANK_BANDS, shares, strict=True)
        ]
    )
    row = ann_vs_exact.at_equal_kept(bands, "c", [0.4]).iloc[0]
    assert row["epsilon"] == pytest.approx(3)
    assert row["rank 1-10"] == pytest.approx(0.45) and row["rank 11-1000"] == pytest.approx(0.15)


def test_forests_share_their_noise(embedding: Embedding, sizes: ann_vs_exact.Sizes) -> None:
    smaller = ann_vs_exact.shared_words(embedding, embedding.subset(np.arange(0, 300, 5)))
    assert smaller.words == tuple(WORDS[::5])
    chosen = sizes.model_copy(update={"forests": 2})
    cases = {"whole": (embedding, 3.0), "cut": (smaller, 3.0)}
    found = ann_vs_exact.by_forest(cases, chosen, stream)
    exact = found[found["search"] == "exact"].groupby(["table", "word"])["kept"]
    assert (exact.nunique() == 1).all()  # the exact search does not know of forests
    table = ann_vs_exact.forest_table(found)
    assert set(table.index) == {("whole", 0), ("whole", 1), ("cut", 0), ("cut", 1)}


def test_missed_words_are_those_that_the_exact_search_would_have_kept(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.table2(table, sizes, [3.0], stream("t")).drop_duplicates(
        ["word", "search"]
    )
    wide = found.pivot(index="word", columns="search", values=["kept", "missed"])
    assert (wide["missed", "exact"] == 0).all()
    assert (wide["missed", "annoy"] >= wide["kept", "exact"] - wide["kept", "annoy"]).all()
    errors = ann_vs_exact.index_errors(found)
    assert errors.loc[3.0, "missed"] == wide["missed", "annoy"].sum() > 0
    assert errors["share"].between(0, 1).all()


def test_the_first_to_take_over_is_another_word(
    table: ann_vs_exact.Table, sizes: ann_vs_exact.Sizes
) -> None:
    found = ann_vs_exact.first_takers(table, sizes, stream("f"))
    assert (found["rank"] >= 1).all() and (found["rank"] < 300).all() and len(found)


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


def outcome(mechanism: str, kept: float, right: int, here: float) -> tuple[object, ...]:
    """A run in which the first of ten documents are answered rightly."""
    return mechanism, kept, np.arange(10) < right, here


def test_accuracies_average_runs_and_count_the_documents_of_one() -> None:
    outcomes = [outcome("original", 1.0, 9, 1.0), outcome("b", 0.5, 8, 0.4)]
    outcomes += [outcome("a", 0.5, 7, 0.6), outcome("a", 0.5, 4, 0.7)]
    table = mechanisms.accuracies(outcomes)  # type: ignore[arg-type]
    assert [*table["mechanism"]] == ["original", "b", "a"]  # in the order of the first runs
    last = table.iloc[2]
    assert (last["accuracy"], last["kept_here"], last["n"], last["runs"]) == (0.55, 0.7, 10, 2)
    interval = stats.share(6, 10)  # 5.5 of 10, to the nearest even number
    assert (last["low"], last["high"]) == (interval.low, interval.high)


def test_the_classifier_learns_what_words_tell() -> None:
    rng = np.random.default_rng(1)
    labels = np.arange(90) % 2
    texts = [" ".join(WORDS[i] for i in rng.integers(0, 100, 8) + 100 * each) for each in labels]
    model = mechanisms.classifier(0).fit(texts[:60], labels[:60])
    assert (model.predict(texts[60:]) == labels[60:]).mean() > 0.9


def test_figures_of_notebook_01_draw_every_mechanism() -> None:
    names = ["madlib", "santext"]
    sweep = pd.DataFrame(
        [
            {"mechanism": name, "epsilon": epsilon, "quantity": quantity, "value": value}
            for name in names
            for epsilon, kept in ((1.0, 0.1), (2.0, 0.5), (4.0, 0.9))
            for quantity, value in (("kept", kept), ("distinct", 1 / kept))
        ]
    )
    sweep = sweep.assign(low=sweep["value"] * 0.9, high=sweep["value"] * 1.1, n=5, draws=10)
    far = pd.DataFrame({"mechanism": names * 50, "rank": np.arange(100) + 1})
    accuracy = pd.DataFrame(
        [
            {"mechanism": name, "kept": kept, "corpus": corpus}
            for corpus in ("sentences", "reviews")
            for name, kept in (("original", 1.0), ("madlib", 0.5), ("santext", 0.5))
        ]
    ).assign(accuracy=0.7, low=0.6, high=0.8, n=9)
    timing = pd.DataFrame({"mechanism": names, "tokens": 5, "tokens_per_second": [10.0, 1000.0]})
    drawn = [
        mechanisms_figures.kept_and_distinct(sweep, "title"),
        mechanisms_figures.how_far(far, 300, "title"),
        mechanisms_figures.sentiment(accuracy, "title"),
        mechanisms_figures.speed(timing, "title"),
    ]
    for figure in drawn:
        shown = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
        assert "title" in shown
        for name in ("MADLIB", "SanText"):
            assert any(text.startswith(name) for text in shown)
    left = drawn[0].axes[0].lines[0]
    np.testing.assert_allclose(left.get_xdata(), [0.5, 1, 2])  # in units of the middle one


def test_released_tem_and_the_closed_form_agree(embedding: Embedding) -> None:
    """The loop that benchmarks compare with draws from the same law: a check of both."""
    from benchmarks import peers

    from textpriv.mechanisms import TEM

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
