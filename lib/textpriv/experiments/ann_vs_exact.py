"""Notebook 02: does d_X-privacy return near words, or the word itself and then anything?

Carpentier et al., section 4.5, and the experiment of Feyisetan et al. that it repeats.
Every function returns a DataFrame in long form: one row per plotted or printed number.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.stats import chi2_contingency, ttest_ind
from sklearn.decomposition import PCA
from tqdm.auto import tqdm

from textpriv import assets, parallel, stats
from textpriv.embeddings import Embedding, from_arrays
from textpriv.mechanisms import Madlib, RankRepair
from textpriv.neighbors import (
    AllRadii,
    AnnoySearch,
    Distances,
    ExactSearch,
    FaissSearch,
    Search,
    annoy_build,
    largest_radius,
    radius_cdf,
    random_directions,
)
from textpriv.report.difference import Difference
from textpriv.report.results import measure

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

INDEX_REPEATS = 3
WORDS_AT_ONCE = 1024
RANK_BANDS = ("itself", "rank 1-10", "rank 11-1000", "rank over 1000")


class Sizes(BaseModel):
    """Sizes of notebook 02, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table2_words: tuple[str, ...]
    table2_epsilons: tuple[float, ...]
    forests: int = Field(ge=1)
    forests_epsilon: float = Field(gt=0)
    table2_draws: int = Field(ge=1)
    nw_epsilons: tuple[float, ...]
    nw_strata: int = Field(ge=1)
    nw_words_glove840: int | None = None  # None: every word
    nw_words_glove6b: int | None
    nw_directions: int = Field(ge=1)
    annoy_draws: int = Field(ge=1)
    annoy_trees: int = Field(ge=1)
    replacement_words: int = Field(ge=1)
    replacement_directions: int = Field(ge=1)
    replacement_dimensions: tuple[int, ...]
    replacement_epsilons: tuple[float, ...]
    index_queries: int = Field(ge=1)
    index_epsilons: tuple[float, ...]
    index_annoy: tuple[tuple[int, int], ...]
    index_ivf_probes: tuple[int, ...]
    index_hnsw_effort: tuple[int, ...]
    repair_c: tuple[float, ...]
    repair_draws: int = Field(ge=1)
    repair_epsilons: tuple[float, ...]
    check_words: tuple[str, ...]
    check_epsilons: tuple[float, ...]
    check_directions: int = Field(ge=1)
    check_draws: int = Field(ge=1)


class Table(NamedTuple):
    """One embedding with its searches."""

    embedding: Embedding
    exact: ExactSearch
    annoy: AnnoySearch | None
    radii: AllRadii


def build(embedding: Embedding, sizes: Sizes, *, seed: int, device: str = "cpu") -> Table:
    """Exact search, all-radii form and Annoy's index (kept in the cache) over one embedding."""
    exact = ExactSearch(embedding.vectors, device=device)
    key = f"{embedding.digest} trees={sizes.annoy_trees} seed={seed} annoy={annoy_build()}"

    def build_annoy(folder: Path) -> None:
        index = AnnoySearch(embedding.vectors, trees=sizes.annoy_trees, seed=seed)
        index.save(folder / "index.ann")

    folder = assets.derived("annoy", key=key, build=build_annoy)
    annoy = AnnoySearch.load(embedding.vectors, folder / "index.ann")
    return Table(embedding, exact, annoy, AllRadii(exact))


# --- Table 2 ------------------------------------------------------------------------------


def table2(
    table: Table,
    sizes: Sizes,
    epsilons: Sequence[float],
    rng: np.random.Generator,
    *,
    top: int = 4,
) -> pd.DataFrame:
    """Most frequent outputs of single words: word, epsilon, search, rank, output, count.

    Further columns: kept (draws that return the word), missed (draws that do not although
    the exact search does), draws.

    Both searches look up the very same noisy vectors, so that they differ by the search.
    """
    rows = []
    assert table.annoy is not None
    searches: Mapping[str, Search] = {"annoy": table.annoy, "exact": table.exact}
    for word in sizes.table2_words:
        word_id = int(table.embedding.ids([word])[0])
        if word_id < 0:
            continue  # a small vocabulary may lack it
        for epsilon in epsilons:
            madlib = Madlib(table.embedding, epsilon=epsilon, search=table.exact)
            ids = np.full(sizes.table2_draws, word_id)
            queries = np.concatenate(list(madlib.noisy_vectors(ids, rng)))
            answers = {name: search.nearest(queries)[0][:, 0] for name, search in searches.items()}
            for name, found in answers.items():
                missed = (answers["exact"] == word_id) & (found != word_id)
                outputs, counts = np.unique(found, return_counts=True)
                order = np.lexsort((outputs, -counts))[:top]
                rows += [
                    {
                        "word": word,
                        "epsilon": epsilon,
                        "search": name,
                        "rank": rank,
                        "output": table.embedding.words[outputs[i]],
                        "count": int(counts[i]),
                        "kept": int((found == word_id).sum()),
                        "missed": int(missed.sum()),
                        "draws": len(found),
                    }
                    for rank, i in enumerate(order, start=1)
                ]
    return pd.DataFrame(rows)


def table2_side_by_side(found: pd.DataFrame) -> pd.DataFrame:
    """Table 2 as the paper prints it: a column per word and search, rows by epsilon and rank."""
    cells = found.assign(cell="(" + found["count"].astype(str) + ") " + found["output"])
    return cells.pivot_table(
        index=["epsilon", "rank"],
        columns=["word", "search"],
        values="cell",
        aggfunc="first",
        sort=False,
    ).fillna("")


def ahead(found: pd.DataFrame) -> pd.DataFrame:
    """By how much the word leads its most frequent other output, as a share of the draws.

    Columns: word, epsilon, search, value, low, high, n; above 0 the word is the top output.
    """
    rows = []
    for (word, epsilon, search), part in found.groupby(["word", "epsilon", "search"], sort=False):
        kept, draws = int(part["kept"].iloc[0]), int(part["draws"].iloc[0])
        other = int(part.loc[part["output"] != word, "count"].max()) if kept < draws else 0
        leads = np.repeat([1.0, -1.0, 0.0], [kept, other, draws - kept - other])
        lead = stats.mean(leads, bounds=(-1.0, 1.0))
        rows.append({"word": word, "epsilon": epsilon, "search": search, **lead.columns()})
    return pd.DataFrame(rows)


def errors_by_epsilon(errors: pd.DataFrame) -> str:
    """A sentence on what replaces a word under Annoy, from `index_errors`."""
    parts = [
        f"{row.share:.0%} of {row.replaced:,} at epsilon {row.Index:g}"
        for row in errors.itertuples()
        if row.replaced
    ]
    return f"Annoy's replacements that the exact search would not have made: {', '.join(parts)}."


def index_errors(found: pd.DataFrame) -> pd.DataFrame:
    """How many of Annoy's replacements the exact search would not have made, per epsilon.

    Columns: replaced (draws in which Annoy returns another word), missed (of these, draws in
    which the exact search returns the word), share (missed of replaced).
    """
    annoy = found[found["search"] == "annoy"].drop_duplicates(["word", "epsilon"])
    counts = annoy.assign(replaced=annoy["draws"] - annoy["kept"])
    total = counts.groupby("epsilon")[["replaced", "missed"]].sum()
    return total.assign(share=total["missed"] / total["replaced"].clip(lower=1))


def shared_words(larger: Embedding, smaller: Embedding) -> Embedding:
    """`larger` cut to the words that `smaller` has too: the same vectors, fewer rivals."""
    ids = larger.ids(smaller.words)
    return larger.subset(np.sort(ids[ids >= 0]))


def by_forest(
    cases: Mapping[str, tuple[Embedding, float]],
    sizes: Sizes,
    stream: Callable[..., np.random.Generator],
) -> pd.DataFrame:
    """Table 2 at one epsilon per embedding, under several forests of Annoy.

    Parameters
    ----------
    cases : per name an embedding and its epsilon

    Returns
    -------
    columns table, forest, search, word, kept, draws
    """
    rows = []
    for name, (embedding, epsilon) in cases.items():
        for forest in range(sizes.forests):
            table = build(embedding, sizes, seed=forest)
            # The same noise for every forest.
            found = table2(table, sizes, [epsilon], stream("forests", name))
            once = found.drop_duplicates(["word", "search"]).assign(table=name, forest=forest)
            rows.append(once[["table", "forest", "search", "word", "kept", "draws"]])
    return pd.concat(rows, ignore_index=True)


def forest_table(found: pd.DataFrame) -> pd.DataFrame:
    """`by_forest` for display: a row per table and forest, a column per search and word."""
    share = found.assign(share=found["kept"] / found["draws"])
    rows = share.pivot(index=["table", "forest"], columns=["search", "word"], values="share")
    return rows.sort_index(axis=1)


def forests_apart(found: pd.DataFrame) -> str:
    """A sentence on how much a forest decides, and on a cut vocabulary, from `by_forest`.

    Forests are the units of the comparison (Welch's t-test).
    """
    annoy = found[found["search"] == "annoy"]
    forests, share = annoy["forest"].nunique(), annoy["kept"] / annoy["draws"]
    of_word = share.groupby([annoy["table"], annoy["word"]])
    of_forest = share.groupby([annoy["table"], annoy["forest"]]).mean()
    cut, whole = of_forest["glove6b50_cut"], of_forest["glove6b50"]
    verdict = "undecided at this size"
    if forests > 1 and ttest_ind(cut, whole, equal_var=False).pvalue < 0.05:
        verdict = "more" if cut.mean() > whole.mean() else "fewer"
    moved = (of_word.max() - of_word.min()).max()
    between = f"Between {forests} forests of one table a word's share moves by up to {moved:.2f}. "
    return (
        f"{between if forests > 1 else ''}Cut to the words of the other table, GloVe 6B keeps "
        f"{cut.mean():.0%} of the words under Annoy, whole {whole.mean():.0%} ({verdict})."
    )


# --- N_w: share of words that are kept -----------------------------------------------------


def sample_by_frequency(
    size: int, count: int | None, strata: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Words drawn evenly from strata of frequency rank, with their strata; None takes all."""
    stratum = stats.strata_by_rank(size, strata)
    if count is None or count >= size:
        return np.arange(size), stratum
    members = [np.flatnonzero(stratum == s) for s in range(strata)]
    per_stratum = max(2, count // strata)
    words = np.concatenate(
        [np.sort(rng.choice(m, size=min(per_stratum, len(m)), replace=False)) for m in members]
    )
    return words, stratum[words]


def kept_exact(
    table: Table, words: IntArray, sizes: Sizes, rng: np.random.Generator, *, label: str
) -> FloatArray:
    """P(word is kept) at every epsilon from one pass: (epsilons, words).

    Averaged over each word's directions; the length of the noise is integrated exactly.
    """
    shards = []
    for start in range(0, len(words), WORDS_AT_ONCE):
        chunk = words[start : start + WORDS_AT_ONCE]
        shards.append((table.radii, chunk, sizes, copy.deepcopy(rng)))
        _directions(chunk, table.radii, sizes, rng)  # the next words begin where these end
    kept = parallel.map(_kept_along, shards, label=f"N_w exact, {label}")
    return np.concatenate(kept, axis=1)


def _kept_along(
    radii: AllRadii, words: IntArray, sizes: Sizes, rng: np.random.Generator
) -> FloatArray:
    units = _directions(words, radii, sizes, rng)
    crossing, _ = radii.first_crossing(words, units)
    epsilons = np.array(sizes.nw_epsilons)[:, None, None]
    return radius_cdf(crossing, units.shape[2], epsilons).mean(2)


def _directions(
    words: IntArray, radii: AllRadii, sizes: Sizes, rng: np.random.Generator
) -> FloatArray:
    """Directions of the noise of each word: (words, directions, dimension)."""
    shape = (len(words), sizes.nw_directions, radii.search.dimension)
    return random_directions(shape[0] * shape[1], shape[2], rng).reshape(shape)


def kept_by_drawing(
    table: Table,
    search: Search,
    words: IntArray,
    epsilons: Sequence[float],
    rng: np.random.Generator,
    *,
    label: str,
) -> NDArray[np.bool_]:
    """Whether each word was kept in one draw per epsilon: (epsilons, words)."""
    kept = np.empty((len(epsilons), len(words)), dtype=bool)
    for row, epsilon in enumerate(
        tqdm(epsilons, desc=f"N_w {search.name}, {label}", mininterval=5)
    ):
        madlib = Madlib(table.embedding, epsilon=epsilon, search=search)
        kept[row] = madlib.sanitize_ids(words, rng) == words
    return kept


def kept_table(
    kept: NDArray[np.floating] | NDArray[np.bool_],
    stratum: IntArray,
    sizes: Sizes,
    *,
    embedding: str,
    search: str,
) -> pd.DataFrame:
    """N_w with its interval at every epsilon, over all words and (stratum >= 0) per stratum."""
    rows = []
    for epsilon, values in zip(sizes.nw_epsilons, kept, strict=True):
        weights = np.full(int(stratum.max()) + 1, 1.0)
        overall = stats.stratified_mean(values, stratum, weights, bounds=(0, 1))
        parts = {
            s: stats.stratified_mean(
                values[stratum == s],
                np.zeros((stratum == s).sum(), dtype=int),
                [1.0],
                bounds=(0, 1),
            )
            for s in range(len(weights))
        }
        for number, estimate in {-1: overall, **parts}.items():
            rows.append(
                {
                    "embedding": embedding,
                    "search": search,
                    "epsilon": epsilon,
                    "stratum": number,
                    "kept": estimate.value,
                    "low": estimate.low,
                    "high": estimate.high,
                    "n": estimate.n,
                }
            )
    return pd.DataFrame(rows)


def kept_tables(
    tables: Mapping[str, tuple[Table, int | None]],
    sizes: Sizes,
    stream: Callable[..., np.random.Generator],
) -> pd.DataFrame:
    """`kept_table` for every embedding, exact and Annoy.

    Parameters
    ----------
    tables : per embedding its table, and how many words the exact form takes (None: all)
    stream : gives the random stream that its arguments name
    """
    parts = []
    for name, (table, count) in tables.items():
        size = len(table.embedding)
        words, stratum = sample_by_frequency(size, count, sizes.nw_strata, stream("words", name))
        kept = kept_exact(table, words, sizes, stream("exact", name), label=name)
        parts.append(kept_table(kept, stratum, sizes, embedding=name, search="exact"))
        assert table.annoy is not None
        words, stratum = sample_by_frequency(
            size, sizes.annoy_draws, sizes.nw_strata, stream("annoy words", name)
        )
        drawn = kept_by_drawing(
            table, table.annoy, words, sizes.nw_epsilons, stream("annoy", name), label=name
        )
        parts.append(kept_table(drawn, stratum, sizes, embedding=name, search="annoy"))
    return pd.concat(parts, ignore_index=True)


def frequent_and_rare(kept: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """N_w of the most frequent and the rarest stratum at one epsilon: a row per embedding."""
    exact = kept[(kept["search"] == "exact") & (kept["stratum"] >= 0)]
    here = exact[exact["epsilon"] == epsilon]
    ends = here[here["stratum"].isin([0, here["stratum"].max()])]
    wide = ends.pivot(index="embedding", columns="stratum", values="kept")
    return wide.set_axis(["most frequent", "rarest"], axis=1)


def frequency_says(kept: pd.DataFrame, epsilon: float) -> str:
    """Sentences on `frequent_and_rare`, with the errors of both strata."""
    here = kept[(kept["search"] == "exact") & (kept["epsilon"] == epsilon)]
    said = []
    for name, part in here[here["stratum"] >= 0].groupby("embedding", sort=False):
        ends = part.sort_values("stratum").iloc[[0, -1]]
        frequent, rare = (
            measure(f"nw.{end}", row.kept, row.low, row.high, row.n)
            for end, row in zip(("frequent", "rare"), ends.itertuples(), strict=True)
        )
        apart = Difference.between(frequent, rare)
        verdict = apart.says(above="more", below="fewer", undecided="undecided at this size")
        said.append(f"{name} {verdict}: {apart}")
    return (
        f"At epsilon {epsilon:g}, of the most frequent words compared with the rarest are kept: "
        + "; ".join(said)
        + "."
    )


# --- What replaces a word ------------------------------------------------------------------


def replacements(
    table: Table,
    words: IntArray,
    stratum: IntArray,
    epsilons: Sequence[float],
    sizes: Sizes,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Share of outputs per band of rank at every epsilon, from upper envelopes.

    Columns: dimension, epsilon, band, share, low, high, n (words).
    """
    dimension = table.embedding.dimension
    k = sizes.replacement_directions
    units = random_directions(len(words) * k, dimension, rng).reshape(len(words), k, dimension)
    reach = largest_radius(dimension, min(epsilons))
    envelope = table.radii.envelope(words, units, max_radius=reach)
    segment_word = envelope.word[envelope.pair]
    rank = Distances(table.embedding.vectors).ranks(segment_word, envelope.output)
    band = np.digitize(rank, [1, 11, 1001])
    rows = []
    for epsilon in epsilons:
        mass = envelope.segment_mass(epsilon)
        per_word = np.zeros((len(words), len(RANK_BANDS)))
        np.add.at(per_word, (envelope.pair // k, band), mass / k)
        for number, name in enumerate(RANK_BANDS):
            weights = np.ones(int(stratum.max()) + 1)
            found = stats.stratified_mean(per_word[:, number], stratum, weights, bounds=(0, 1))
            rows.append(
                {
                    "dimension": dimension,
                    "epsilon": epsilon,
                    "band": name,
                    "share": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": found.n,
                }
            )
    return pd.DataFrame(rows)


def project(embedding: Embedding, dimension: int) -> Embedding:
    """The embedding in its first principal components."""
    if dimension >= embedding.dimension:
        return embedding
    reduced = PCA(dimension, svd_solver="covariance_eigh").fit_transform(embedding.vectors)
    return from_arrays(f"{embedding.name}-pca{dimension}", embedding.words, reduced)


def replacements_by_dimension(
    embedding: Embedding,
    sizes: Sizes,
    stream: Callable[..., np.random.Generator],
    *,
    device: str = "cpu",
) -> pd.DataFrame:
    """`replacements` of the same words in fewer and fewer principal components.

    The epsilons of each dimension are scaled so that all reach the same lengths of noise:
    the mean length is dimension / epsilon.
    """
    words, stratum = sample_by_frequency(
        len(embedding), sizes.replacement_words, sizes.nw_strata, stream("replaced words")
    )
    shards = []
    for dimension in sizes.replacement_dimensions:
        reduced = project(embedding, dimension)
        factor = reduced.dimension / embedding.dimension
        scaled = [float(epsilon * factor) for epsilon in sizes.replacement_epsilons]
        rng = stream("replacements", dimension)
        shards.append((reduced, words, stratum, scaled, sizes, rng, device))
    return pd.concat(parallel.map(_replaced_in, shards, label="dimensions"), ignore_index=True)


def nearest_says(bands: pd.DataFrame) -> str:
    """A sentence on the largest share of near words at any epsilon, by dimension."""
    near = bands[bands["band"] == "rank 1-10"]
    most = near.loc[near.groupby("dimension")["share"].idxmax()].sort_values("dimension")
    shares = ", ".join(
        f"{row.share:.1%} ({row.low:.1%} to {row.high:.1%}) in {row.dimension} dimensions"
        for row in most.itertuples()
    )
    rule = "nowhere half" if most["high"].max() < 0.5 else "in some case half, within the error"
    return f"At the best epsilon the ten nearest words make up {shares} of all outputs: {rule}."


def _replaced_in(
    embedding: Embedding,
    words: IntArray,
    stratum: IntArray,
    epsilons: Sequence[float],
    sizes: Sizes,
    rng: np.random.Generator,
    device: str,
) -> pd.DataFrame:
    exact = ExactSearch(embedding.vectors, device=device)
    table = Table(embedding, exact, None, AllRadii(exact))
    return replacements(table, words, stratum, epsilons, sizes, rng)


def first_takers(table: Table, sizes: Sizes, rng: np.random.Generator) -> pd.DataFrame:
    """Which word takes over first as the noise grows: word, rank of the taker.

    One row per word and direction; ranks count from 1, the nearest word.
    """
    words, _ = sample_by_frequency(
        len(table.embedding), sizes.replacement_words, sizes.nw_strata, rng
    )
    k, dimension = sizes.replacement_directions, table.embedding.dimension
    units = random_directions(len(words) * k, dimension, rng).reshape(len(words), k, dimension)
    takers = table.radii.first_crossing(words, units)[1].ravel()
    word = np.repeat(words, k)
    rank = Distances(table.embedding.vectors).ranks(word, takers)
    return pd.DataFrame({"word": word, "rank": rank})[rank > 0]


# --- Approximate indexes -------------------------------------------------------------------


def index_trade_off(
    table: Table, sizes: Sizes, rng: np.random.Generator, *, seed: int
) -> pd.DataFrame:
    """Recall@1 on noisy queries and queries per second (median of repeats) of several indexes.

    Columns: index, setting, epsilon, recall, low, high, n, queries_per_second, build_seconds.
    """
    vectors = table.embedding.vectors
    words = rng.integers(0, len(vectors), sizes.index_queries)
    noisy = {
        epsilon: np.concatenate(
            list(
                Madlib(table.embedding, epsilon=epsilon, search=table.exact).noisy_vectors(
                    words, rng
                )
            )
        )
        for epsilon in sizes.index_epsilons
    }
    rows = []

    truth = {epsilon: table.exact.nearest(queries)[0] for epsilon, queries in noisy.items()}

    def time_and_score(index: str, setting: str, search: Search, build: float) -> None:
        for epsilon, queries in noisy.items():
            answers, seconds = [], []
            for _ in range(INDEX_REPEATS):
                start = time.perf_counter()
                answers.append(search.nearest(queries)[0])
                seconds.append(time.perf_counter() - start)
            found = stats.share(int((answers[0] == truth[epsilon]).sum()), len(queries))
            rows.append(
                {
                    "index": index,
                    "setting": setting,
                    "epsilon": epsilon,
                    "recall": found.value,
                    "low": found.low,
                    "high": found.high,
                    "n": found.n,
                    "queries_per_second": len(queries) / float(np.median(seconds)),
                    "build_seconds": build,
                }
            )

    def timed(make: type, *arguments: object, **options: object) -> tuple[Any, float]:
        start = time.perf_counter()
        return make(*arguments, **options), time.perf_counter() - start

    search, build = timed(ExactSearch, vectors)
    time_and_score("exact", "this library", search, build)
    search, build = timed(FaissSearch, vectors, "flat")
    time_and_score("faiss-flat", "exact scan", search, build)
    for trees in dict.fromkeys(trees for trees, _ in sizes.index_annoy):
        search, build = timed(AnnoySearch, vectors, trees=trees, seed=seed)
        for effort in (effort for t, effort in sizes.index_annoy if t == trees):
            search.effort = effort
            shown = "default" if effort < 0 else f"{effort:,}"
            time_and_score("annoy", f"{trees} trees, search_k {shown}", search, build)
    search, build = timed(FaissSearch, vectors, "ivf")
    for probes in sizes.index_ivf_probes:
        search.effort = probes
        time_and_score("ivf", f"{probes} probes", search, build)
    search, build = timed(FaissSearch, vectors, "hnsw")
    for effort in sizes.index_hnsw_effort:
        search.effort = effort
        time_and_score("hnsw", f"efSearch {effort}", search, build)
    return pd.DataFrame(rows)


# --- Rank repair ---------------------------------------------------------------------------


def rank_repair(table: Table, sizes: Sizes, rng: np.random.Generator) -> pd.DataFrame:
    """Bands of rank of the output with and without the rank repair, against epsilon.

    c = inf stands for no repair (always the nearest word). Columns: c, epsilon, band,
    share, low, high, n.
    """
    words, _ = sample_by_frequency(len(table.embedding), sizes.repair_draws, sizes.nw_strata, rng)
    distances = Distances(table.embedding.vectors)
    rows = []
    for c in (*sizes.repair_c, np.inf):
        for epsilon in sizes.repair_epsilons:
            madlib = Madlib(table.embedding, epsilon=epsilon, search=table.exact)
            mechanism = madlib if np.isinf(c) else RankRepair(madlib, c=c)
            outputs = mechanism.sanitize_ids(words, rng)
            band = np.digitize(distances.ranks(words, outputs), [1, 11, 1001])
            for number, name in enumerate(RANK_BANDS):
                found = stats.share(int((band == number).sum()), len(band))
                rows.append(
                    {
                        "c": c,
                        "epsilon": epsilon,
                        "band": name,
                        "share": found.value,
                        "low": found.low,
                        "high": found.high,
                        "n": found.n,
                    }
                )
    return pd.DataFrame(rows)


def at_equal_kept(bands: pd.DataFrame, by: str, kept: Sequence[float]) -> pd.DataFrame:
    """Shares of the bands at given shares of kept words, interpolated along epsilon."""
    rows = []
    for value, part in bands.groupby(by, sort=False):
        wide = part.pivot(index="epsilon", columns="band", values="share").sort_values("itself")
        for target in kept:
            if not wide["itself"].min() <= target <= wide["itself"].max():
                continue  # not reached on this grid of epsilon
            row = {name: np.interp(target, wide["itself"], wide[name]) for name in RANK_BANDS}
            epsilon = np.interp(target, wide["itself"], wide.index)
            rows.append({by: value, "kept": target, "epsilon": epsilon, **row})
    return pd.DataFrame(rows)


def repair_says(matched: pd.DataFrame, kept: float, n: int) -> str:
    """A sentence on what the smallest c of the repair does at an equal share of kept words.

    Parameters
    ----------
    matched : of `at_equal_kept`, by "c"
    n : draws that each share rests on
    """
    at = matched[matched["kept"] == kept].set_index("c")
    if np.inf not in at.index or len(at) < 2:
        return f"At {kept:.0%} of words kept there is nothing to compare on this grid of epsilon."
    c = min(at.index)
    repaired, plain = at.loc[c], at.loc[np.inf]
    shares = [stats.share(round(row["rank 1-10"] * n), n) for row in (repaired, plain)]
    with_it, without = (
        measure(f"near.{name}", each.value, each.low, each.high, each.n)
        for name, each in zip(("repaired", "plain"), shares, strict=True)
    )
    verdict = Difference.between(with_it, without).says(
        above="more", below="fewer", undecided="undecided at this size"
    )
    return (
        f"At {kept:.0%} of words kept, c = {c:g} puts {with_it.value:.0%} of the outputs among the "
        f"ten nearest words, no repair {without.value:.0%} ({verdict}), at epsilon "
        f"{repaired['epsilon']:.0f} and {plain['epsilon']:.0f}."
    )


# --- The all-radii form, seen and checked ----------------------------------------------------


def lines_along(
    table: Table, word: str, sizes: Sizes, rng: np.random.Generator, *, others: int = 40
) -> pd.DataFrame:
    """The lines of `word` and its rivals along one direction: other, radius, score, wins.

    Among `check_directions` directions one is shown whose envelope has close to five pieces,
    up to a little beyond its last crossing.
    """
    word_id = table.embedding.ids([word])
    dimension = table.embedding.dimension
    units = random_directions(sizes.check_directions, dimension, rng)[None]
    reach = largest_radius(dimension, 3 * dimension / 100)
    envelope = table.radii.envelope(word_id, units, max_radius=reach)
    pieces = np.bincount(envelope.pair)
    shown = int(np.argmin(np.abs(pieces - 5)))
    here = envelope.pair == shown
    winners, end = envelope.output[here], float(envelope.start[here].max()) * 1.25
    origin = table.embedding.vectors[word_id[0]].astype(np.float64)
    near = table.exact.nearest(origin[None], min(others + 1, len(table.embedding)))[0][0]
    radius = np.linspace(0, end, 101)
    rows = []
    for other in dict.fromkeys([*winners.tolist(), *near.tolist()]):
        offset = table.embedding.vectors[other].astype(np.float64) - origin
        score = radius * float(offset @ units[0, shown]) - float(offset @ offset) / 2
        rows.append(
            pd.DataFrame(
                {
                    "other": table.embedding.words[other],
                    "radius": radius,
                    "score": score,
                    "wins": other in winners,
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def check_all_radii(table: Table, sizes: Sizes, rng: np.random.Generator) -> pd.DataFrame:
    """Laws from envelopes beside independent draws, with a chi-square test of homogeneity.

    Per word and epsilon: P(kept) from first crossings (interval over directions), the share
    in `check_draws` draws, and the p-value of a two-sample test on whole output laws. For
    the test each direction of the envelope yields one output, at a radius of its own, so that
    both samples consist of independent draws. The epsilons of a word share its directions.
    """
    rows = []
    dimension = table.embedding.dimension
    for word in sizes.check_words:
        word_id = int(table.embedding.ids([word])[0])
        if word_id < 0:
            continue
        ids = np.array([word_id])
        units = random_directions(sizes.check_directions, dimension, rng)[None]
        reach = largest_radius(dimension, min(sizes.check_epsilons))
        envelope = table.radii.envelope(ids, units, max_radius=reach)
        radii = table.radii.first_crossing(ids, units)[0][0]
        first = np.searchsorted(envelope.pair, np.arange(sizes.check_directions))
        for epsilon in sizes.check_epsilons:
            kept = stats.mean(radius_cdf(radii, dimension, epsilon), bounds=(0, 1))
            length = rng.gamma(dimension, 1 / epsilon, sizes.check_directions)
            reached = envelope.start <= length[envelope.pair]
            segment = first + np.add.reduceat(reached, first) - 1
            madlib = Madlib(table.embedding, epsilon=epsilon, search=table.exact)
            drawn = madlib.sanitize_ids(np.full(sizes.check_draws, word_id), rng)
            share = stats.share(int((drawn == word_id).sum()), len(drawn))
            rows.append(
                {
                    "word": word,
                    "epsilon": epsilon,
                    "all_radii": kept.value,
                    "all_radii_low": kept.low,
                    "all_radii_high": kept.high,
                    "drawn": share.value,
                    "drawn_low": share.low,
                    "drawn_high": share.high,
                    "p_value": same_law(envelope.output[segment], drawn),
                }
            )
    return pd.DataFrame(rows)


def same_law(first: IntArray, second: IntArray) -> float:
    """p-value of a chi-square test that two samples of words share a law; NaN if untestable.

    Words are pooled until each cell expects at least five in the smaller sample; with
    one cell left there is nothing to test.
    """
    words, inverse = np.unique(np.concatenate([first, second]), return_inverse=True)
    sample = np.repeat([0, 1], [len(first), len(second)])
    counts = np.zeros((2, len(words)), dtype=np.int64)
    np.add.at(counts, (sample, inverse), 1)
    total = len(first) + len(second)
    rare = counts.sum(0) * min(len(first), len(second)) < 5 * total
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    pooled = pooled[:, pooled.sum(0) * min(len(first), len(second)) >= 5 * total]
    return float(chi2_contingency(pooled).pvalue) if pooled.shape[1] > 1 else float("nan")
