"""Notebook 02: does d_X-privacy return near words, or the word itself and then anything?

Carpentier et al., section 4.5, and the experiment of Feyisetan et al. that it repeats: sizes, what
it samples and counts with, and sentences.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from scipy.stats import chi2_contingency, ttest_ind
from scipy.stats.contingency import crosstab
from sklearn.decomposition import PCA

from textpriv import assets, stats
from textpriv.channel import FloatArray, IntArray
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.neighbors import AllRadii, AnnoySearch, Envelope, Search, annoy_build, largest_radius
from textpriv.report.difference import Difference
from textpriv.report.results import measure
from textpriv.stats import Estimate

UNDECIDED = "undecided at this size"
TABLES = {"glove840b300": "GloVe 840B", "glove6b50": "GloVe 6B"}  # as sentences call them
WORDS_AT_ONCE = 1024
RANK_BANDS = ("itself", "rank 1-10", "rank 11-1000", "rank over 1000")
BAND_STARTS = (1, 11, 1001)  # of all but the first, as `numpy.digitize` takes them


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 02, set by the profile."""

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


# --- Samples and indexes ---------------------------------------------------------------------


def cached_annoy(embedding: Embedding, *, trees: int, seed: int) -> AnnoySearch:
    """`AnnoySearch(embedding.vectors, trees=trees, seed=seed)`, built once and cached."""
    # Another compiled code of Annoy grows other trees, and so is another index.
    key = f"{embedding.digest} trees={trees} seed={seed} annoy={annoy_build()}"

    def build(folder: Path) -> None:
        AnnoySearch(embedding.vectors, trees=trees, seed=seed).save(folder / "index.ann")

    folder = assets.derived("annoy", key=key, build=build)
    return AnnoySearch.load(embedding.vectors, folder / "index.ann")


def project(embedding: Embedding, dimension: int) -> Embedding:
    """The embedding in its first principal components."""
    if dimension >= embedding.dimension:
        return embedding
    reduced = PCA(dimension, svd_solver="covariance_eigh").fit_transform(embedding.vectors)
    return from_arrays(f"{embedding.name}-pca{dimension}", embedding.words, reduced)


def stratified_words(
    size: int, count: int | None, strata: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Words drawn evenly from strata of frequency rank, with their strata; None takes all."""
    stratum = np.arange(size) * strata // size  # equal parts, the first the most frequent
    if count is None or count >= size:
        return np.arange(size), stratum
    members = [np.flatnonzero(stratum == number) for number in range(strata)]
    counts = [min(max(2, count // strata), len(each)) for each in members]
    drawn = [rng.choice(m, n, replace=False) for m, n in zip(members, counts, strict=True)]
    words = np.concatenate([np.sort(each) for each in drawn])
    return words, stratum[words]


def blocks(words: IntArray, normals: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Points of a grid (see `study.measure`): a block of words, and the stream where it begins.

    Each word takes so many `normals` from the stream, whatever the blocks and whatever runs where.
    """
    for start in range(0, len(words), WORDS_AT_ONCE):
        block = words[start : start + WORDS_AT_ONCE]
        yield {"words": block, "rng": copy.deepcopy(rng)}
        rng.standard_normal(len(block) * normals)  # the next words begin where these end


# --- Table 2 -----------------------------------------------------------------------------------


def lead(counts: Mapping[str, int], word: str) -> Estimate:
    """By how much the word leads its most frequent other output, as a share of draws, -1 to 1."""
    draws, kept = sum(counts.values()), counts.get(word, 0)
    other = max((count for output, count in counts.items() if output != word), default=0)
    leads = np.repeat([1.0, -1.0, 0.0], [kept, other, draws - kept - other])
    return stats.mean(leads, bounds=(-1.0, 1.0))


def side_by_side(table2: pd.DataFrame) -> pd.DataFrame:
    """Table 2 as the paper prints it: a column per word and search, rows by epsilon and rank.

    Of columns word, epsilon, search and counts (a `Counter` of the outputs, of which four stand).
    """
    most = [counts.most_common(4) for counts in table2["counts"]]
    cells = table2.assign(cell=most).reset_index(drop=True).explode("cell")
    cells["rank"] = cells.groupby(level=0).cumcount() + 1
    cells["cell"] = [f"({count}) {output}" for output, count in cells["cell"]]
    wide = cells.pivot(index=["epsilon", "rank"], columns=["word", "search"], values="cell")
    return wide.fillna("")


def forests_apart(forests: pd.DataFrame) -> str:
    """A sentence on how much a forest decides, and on a vocabulary that is cut.

    Of columns table, forest, search, word, epsilon, value (share of draws that keep the word).
    Forests are the units of the comparison (Welch's t-test): it says nothing of other words.
    """
    annoy = forests[forests["search"] == "annoy"]
    count = annoy["forest"].nunique()
    by_word = annoy.groupby(["table", "word"])["value"]
    by_forest = annoy.groupby(["table", "forest"])["value"].mean()
    cut, whole = by_forest["glove6b50_cut"], by_forest["glove6b50"]
    verdict = UNDECIDED
    if count > 1 and ttest_ind(cut, whole, equal_var=False).pvalue < 0.05:
        verdict = f"significantly {'more' if cut.mean() > whole.mean() else 'fewer'}"
    moved = (by_word.max() - by_word.min()).max()
    between = f"Between {count} forests of one table a word's share moves by up to {moved:.2f}. "
    (epsilon,) = annoy.loc[annoy["table"] == "glove6b50", "epsilon"].unique()
    return (
        f"{between if count > 1 else ''}At epsilon {epsilon:g} Annoy keeps these "
        f"{annoy['word'].nunique()} words in {cut.mean():.0%} of the draws in GloVe 6B cut to the "
        f"other table's words, and in {whole.mean():.0%} in the whole ({verdict}, by forests)."
    )


# --- Words that are kept, and what replaces them -----------------------------------------------


def kept_table(
    kept: NDArray[np.floating] | NDArray[np.bool_], stratum: IntArray, epsilons: Sequence[float]
) -> pd.DataFrame:
    """N_w at every epsilon, over all words (stratum -1) and per stratum.

    Of the probability that a word is kept, or whether it is: (epsilons, words). Columns: epsilon,
    stratum, kept, low, high, n.
    """
    rows = []
    for epsilon, values in zip(epsilons, kept, strict=True):
        for number in (-1, *np.unique(stratum).tolist()):
            here = (stratum == number) | (number < 0)
            _, group = np.unique(stratum[here], return_inverse=True)
            share = stats.stratified_mean(values[here], group, bounds=(0, 1))
            rows.append({"epsilon": epsilon, "stratum": number, **share.columns()})
    return pd.DataFrame(rows).rename(columns={"value": "kept"})


def frequency_says(kept: pd.DataFrame) -> str:
    """A sentence on the most frequent and the rarest words, by embedding, at one epsilon.

    Of the strata of `kept_table` under the exact search, with a column embedding.
    """
    epsilon, said = kept["epsilon"].iloc[0], []
    for name, part in kept.groupby("embedding", sort=False):
        ends = part.sort_values("stratum").iloc[[0, -1]]
        frequent, rare = (Estimate(r.kept, r.low, r.high, r.n) for r in ends.itertuples())
        apart = _difference(frequent, rare)
        by = f"of the frequent, by {100 * abs(apart.value):.1f} points"
        verdict = apart.says(
            above=f"significantly more {by}", below=f"significantly fewer {by}", undecided=UNDECIDED
        )
        said.append(
            f"{TABLES[str(name)]} keeps {frequent.value:.0%} of the most frequent words and "
            f"{rare.value:.0%} of the rarest ({verdict})"
        )
    return f"At epsilon {epsilon:g}, {'; '.join(said)}."


def shares_by_rank(
    envelope: Envelope, rank: IntArray, stratum: IntArray, epsilons: Sequence[float]
) -> pd.DataFrame:
    """Share of outputs per band of rank: epsilon, band, share, low, high, n (words).

    The envelope has as many directions for every word, the words in order; `rank` is that of each
    segment's output among the neighbours of its word.
    """
    directions = len(envelope.word) // len(stratum)
    place = envelope.pair // directions, np.digitize(rank, BAND_STARTS)
    rows = []
    for epsilon in epsilons:
        per_word = np.zeros((len(stratum), len(RANK_BANDS)))
        np.add.at(per_word, place, envelope.segment_mass(epsilon) / directions)
        for name, shares in zip(RANK_BANDS, per_word.T, strict=True):
            share = stats.stratified_mean(shares, stratum, bounds=(0, 1))
            rows.append({"epsilon": epsilon, "band": name, **share.columns()})
    return pd.DataFrame(rows).rename(columns={"value": "share"})


def nearest_says(bands: pd.DataFrame) -> str:
    """A sentence on the largest share of near words at any epsilon, by dimension."""
    near = bands[bands["band"] == "rank 1-10"].sort_values("share")
    most = near.groupby("dimension").tail(1).sort_values("dimension")
    shares = ", ".join(
        f"{row.share:.1%} ({row.low:.1%} to {row.high:.1%}) in {row.dimension} dimensions"
        for row in most.itertuples()
    )
    return f"At the best of the epsilons tried, the share of the ten nearest words is {shares}."


# --- Approximate indexes and the rank repair ---------------------------------------------------


def recall_and_speed(
    build: Callable[[], Search],
    queries: Mapping[float, FloatArray],
    truth: Mapping[float, IntArray],
) -> pd.DataFrame:
    """Recall@1 of an index and its speed, the median of three batches, by epsilon.

    Of noisy vectors, (count, dimension), and their nearest rows, (count, 1). Columns: epsilon,
    recall, low, high, n, queries_per_second, build_seconds.
    """
    rows, began = [], time.perf_counter()
    search = build()
    built = time.perf_counter() - began
    for epsilon, noisy in queries.items():
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            answers = search.nearest(noisy)[0]
            seconds.append(time.perf_counter() - began)
        right = stats.share(int((answers == truth[epsilon]).sum()), len(noisy)).columns()
        speed = {"queries_per_second": len(noisy) / float(np.median(seconds))}
        rows.append({"epsilon": epsilon, **right, **speed, "build_seconds": built})
    return pd.DataFrame(rows).rename(columns={"value": "recall"})


def at_equal_kept(bands: pd.DataFrame, kept: Sequence[float]) -> pd.DataFrame:
    """Shares of the bands at given shares of kept words, interpolated along epsilon.

    Of columns c, epsilon and one per band of rank. Shares that are out of reach on the grid of
    epsilon of a c are left out.
    """
    rows = []
    for c, part in bands.groupby("c", sort=False):
        part = part.sort_values(["itself", "epsilon"])
        stays = part["itself"]
        for target in kept:
            if stays.min() <= target <= stays.max():
                columns = part[["epsilon", *RANK_BANDS]]
                at = {name: np.interp(target, stays, each) for name, each in columns.items()}
                rows.append({"c": c, "kept": target, **at})
    return pd.DataFrame(rows)


def repair_says(matched: pd.DataFrame, kept: float, n: int) -> str:
    """A sentence on what the smallest c of the repair does at an equal share of kept words.

    Of the rows of `at_equal_kept`, where c = inf is no repair, each resting on n draws.
    """
    at = matched[matched["kept"] == kept].set_index("c")
    if np.inf not in at.index or len(at) < 2:
        return f"At {kept:.0%} of words kept there is nothing to compare on this grid of epsilon."
    c = min(at.index)
    near = [stats.share(round(at.loc[each, "rank 1-10"] * n), n) for each in (c, np.inf)]
    more, fewer = "significantly more with the repair", "significantly fewer with the repair"
    verdict = _difference(*near).says(above=more, below=fewer, undecided=UNDECIDED)
    return (
        f"At {kept:.0%} of words kept, c = {c:g} (epsilon {at.loc[c, 'epsilon']:.0f}) puts "
        f"{near[0].value:.0%} of the outputs among the ten nearest words, no repair (epsilon "
        f"{at.loc[np.inf, 'epsilon']:.0f}) {near[1].value:.0%}: {verdict}."
    )


def _difference(first: Estimate, second: Estimate) -> Difference:
    """First minus second of two shares that nothing is recorded of."""
    one, other = (measure("a.share", e.value, e.low, e.high, e.n) for e in (first, second))
    return Difference.between(one, other)


# --- The all-radii form, seen and checked ------------------------------------------------------


def lines_along(
    radii: AllRadii, embedding: Embedding, word: str, directions: FloatArray
) -> pd.DataFrame:
    """The lines of `word` and its rivals along one direction: other, radius, score, wins.

    Rivals are the 40 nearest words and those that win somewhere. Of the directions (count,
    dimension) it is the one whose envelope has closest to five pieces, shown up to a little beyond
    the last crossing.
    """
    ids, dimension = embedding.ids([word]), embedding.dimension
    reach = largest_radius(dimension, 3 * dimension / 100)
    envelope = radii.envelope(ids, directions[None], max_radius=reach)
    shown = int(np.argmin(np.abs(np.bincount(envelope.pair) - 5)))
    here = envelope.pair == shown
    winners, end = envelope.output[here], float(envelope.start[here].max()) * 1.25
    origin = embedding.vectors[ids[0]].astype(np.float64)
    near = radii.search.nearest(origin[None], min(41, len(embedding)))[0][0]
    radius = np.linspace(0, end, 101)
    lines = []
    for other in dict.fromkeys([*winners.tolist(), *near.tolist()]):
        offset = embedding.vectors[other].astype(np.float64) - origin
        score = radius * float(offset @ directions[shown]) - float(offset @ offset) / 2
        line = {"other": embedding.words[other], "radius": radius, "score": score}
        lines.append(pd.DataFrame({**line, "wins": other in winners}))
    return pd.concat(lines, ignore_index=True)


def outputs_at(envelope: Envelope, radius: FloatArray) -> IntArray:
    """The output along each direction of an envelope at its own length of the noise: (pairs,)."""
    first = np.searchsorted(envelope.pair, np.arange(len(radius)))
    reached = envelope.start <= radius[envelope.pair]
    return envelope.output[first + np.add.reduceat(reached, first) - 1]


def same_law(first: IntArray, second: IntArray) -> float:
    """p-value of a chi-square test that two samples of words share a law; NaN if untestable.

    Words are pooled until each cell expects at least five in the smaller sample; with
    one cell left there is nothing to test.
    """
    sizes = len(first), len(second)
    counts = crosstab(np.repeat([0, 1], sizes), np.concatenate([first, second])).count
    rare = counts.sum(0) * min(sizes) < 5 * sum(sizes)
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    pooled = pooled[:, pooled.sum(0) * min(sizes) >= 5 * sum(sizes)]
    return float(chi2_contingency(pooled).pvalue) if pooled.shape[1] > 1 else float("nan")
