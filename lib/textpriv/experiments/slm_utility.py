"""Notebook 06: what a sanitized prompt is still worth, and whether that can be told before.

News articles are cut and sanitized at epsilons that change given shares of their tokens. A small
and a large model summarize the original and every sanitized version; what a summary is worth is
its similarity to the original. From what can be known at home, regressors predict what the large
model's summary would be worth.

    material = gather(sizes, run.stream)
    mechanism = madlib(material, 1.0)
    grid = epsilons(material, mechanism, sizes, run.stream("grid"))
    rows = measure(material, mechanism, grid, large, run.stream("noise"))
    regressions(rows, sizes, run.seed)

The small model is extractive, and the large one has 135 million parameters: both are small. The
paper's asymmetry (BART against Llama-3-8B) is that of its own profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field
from sklearn.metrics import r2_score

from textpriv import corpora, splits, stats
from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.generators import NAMES as GENERATORS
from textpriv.generators import load_generator
from textpriv.mechanisms import TEM, Madlib, Mechanism, RankRepair
from textpriv.mechanisms.sweep import chance_kept, check_grid, epsilons_for
from textpriv.models import Encoder, load_encoder
from textpriv.neighbors import AnnoySearch
from textpriv.prediction import (
    ALL,
    FREE,
    KEPT,
    TARGET,
    A,
    B,
    By,
    C,
    Predictor,
    Scores,
    cross_intervals,
    decide,
    folds,
    gain,
    misjudged,
    out_of_fold,
    scores,
)
from textpriv.preview import PieceTable, Reader, preview, sanitized_at
from textpriv.seeds import stream
from textpriv.stats import Estimate, Influence
from textpriv.summaries import CORRECTION, INSTRUCTION, Extractive, Summarizer, Writer, similarity
from textpriv.tokens import UNKNOWN, Corpus

if TYPE_CHECKING:
    from textpriv.report.run import Run

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

EXTRACTIVE = "extractive"
SAMPLE = "documents"  # by which measurements are compared in pairs
MECHANISMS = ("madlib", "madlib-annoy", "rank-repair", "tem")
EPS_ONLY = "eps_only"  # the mean at each epsilon: what anyone can know without looking at a text
# Table 1 leaves out one feature after the other; "free" needs no model that writes.
SETS: Mapping[str, tuple[str, ...]] = {
    "all": ALL,
    "no_b": (*A, *C),
    "no_c": (*A, *B),
    "no_bc": A,
    "free": (*A, *FREE),
    "everything": (*ALL, *FREE),
    "no_epsilon": (*B, *C, *FREE),
    EPS_ONLY: A,
}
TABLE_1 = ("all", "no_b", "no_c", "no_bc")
BY: tuple[By, ...] = ("document", "row")
_RESAMPLES = 2000


class Sizes(BaseModel):
    """Sizes of notebook 06, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str
    documents: int = Field(ge=4)  # private: those that are sanitized
    public: int = Field(ge=2)  # at most: for the n-grams, the attacker's prior and the grid
    longest: int = Field(ge=8)  # pieces that are kept of a document
    only_whole: bool = False  # leave out documents that would have to be cut
    least_similarity: float = -1.0  # of a document and its own summary, or it is left out
    tokens: int = Field(ge=4)  # most of a summary
    batch: int = Field(default=32, ge=1)
    encoder: str  # says how alike two texts are
    table: str = ""  # generator whose tokens are sanitized; "": the encoder's
    small: str  # "extractive" or the name of a generator
    large: str
    mechanism: Literal["madlib", "madlib-annoy", "rank-repair", "tem"] = "madlib"
    shares: tuple[float, ...] = ()  # of tokens that change, at each of which an epsilon is taken
    grid: tuple[float, ...] = ()  # or the epsilons themselves
    words: int = Field(ge=10)  # public tokens by which shares become epsilons
    annoy_trees: int = Field(default=50, ge=1)
    repair_c: float = Field(default=0.006, gt=0)
    regressors: tuple[str, ...]
    regressor: str  # of all that follows
    folds: int = Field(ge=2)
    resamples: int = Field(ge=100)
    level: float = Field(gt=0, lt=1)
    thresholds: tuple[float, ...]
    transfer: tuple[str, ...] = ()  # mechanisms on which the predictor has not learned
    transfer_documents: int = Field(default=0, ge=0)
    transfer_shares: tuple[float, ...] = ()
    corrected_documents: int = Field(default=0, ge=0)
    corrected_shares: tuple[float, ...] = ()


# --- What is sanitized --------------------------------------------------------------------------


def assets_of(sizes: Sizes) -> list[str]:
    """Data and models that the notebook's results rest on."""
    models = {sizes.encoder, sizes.table, sizes.small, sizes.large} - {"", EXTRACTIVE}
    return sorted({corpora.asset_of(sizes.corpus), *models})


@dataclass(frozen=True, eq=False)
class Material:
    """Documents, what is known in public, and the models at home.

    Parameters
    ----------
    documents : as they are written
    reader : measures features; its encoder also says what a summary is worth
    original : the documents, cut, as rows of the reader's table
    words : public tokens, drawn at random, by which a grid is chosen
    """

    documents: Documents
    reader: Reader
    original: Corpus
    words: IntArray

    @property
    def texts(self) -> list[str]:
        """The documents as they are sanitized and summarized: cut, in the encoder's writing."""
        return self.reader.table.decode(self.original)

    def first(self, count: int) -> Material:
        """The first documents, with the same public knowledge."""
        some = np.arange(min(count, len(self.original)))
        return Material(
            self.documents.subset(some), self.reader, self.original.subset(some), self.words
        )


def summarizer(name: str, sizes: Sizes, encoder: Encoder, *, device: str = "cpu") -> Summarizer:
    """A model that summarizes, by its name in the profile."""
    if name == EXTRACTIVE:
        return Extractive(encoder, tokens=sizes.tokens)
    if name not in GENERATORS:
        raise InvalidInput(f"name: got {name!r}, expected {EXTRACTIVE!r} or one of {GENERATORS}")
    generator = load_generator(name, device)
    told = INSTRUCTION
    if generator.is_encoder_decoder:  # trained to summarize; only T5 wants to be told so
        told = "summarize:" if generator.model.config.model_type == "t5" else ""
    return Writer(
        generator, tokens=sizes.tokens, instruction=told, batch=sizes.batch, progress=True
    )


def gather(
    sizes: Sizes, stream_of: Callable[..., np.random.Generator], *, device: str = "cpu"
) -> Material:
    """Private documents at random, and public ones that share no run of eight words with them."""
    encoder = load_encoder(sizes.encoder, device)
    table = PieceTable.of(load_generator(sizes.table, device) if sizes.table else encoder)
    corpus = corpora.load(sizes.corpus)
    corpus = corpus.subset(stream_of("documents").permutation(len(corpus)))
    corpus = _sound(corpus, table, encoder, sizes)
    documents = corpus.subset(np.arange(sizes.documents))
    public = corpus.subset(np.arange(sizes.documents, len(corpus)))
    apart = np.flatnonzero(~splits.shares_ngram(public.texts, documents.texts))
    small = summarizer(sizes.small, sizes, encoder, device=device)
    reader = Reader.of(encoder, small, public.subset(apart).texts, table=table)
    original = reader.table.encode(documents.texts, longest=sizes.longest)
    weights = reader.counts / reader.counts.sum()
    words = stream_of("words").choice(len(weights), size=sizes.words, p=weights)
    return Material(documents, reader, original, words)


def _sound(corpus: Documents, table: PieceTable, encoder: Encoder, sizes: Sizes) -> Documents:
    """The first documents that are whole and near enough to their own summaries."""
    wanted, rows = sizes.documents + sizes.public, np.arange(len(corpus))
    if sizes.only_whole:
        lengths = np.diff(table.encode(corpus.texts, longest=sizes.longest + 1).offsets)
        rows = rows[lengths <= sizes.longest]
    if sizes.least_similarity > -1 and len(rows):
        rows = rows[: 2 * wanted]  # few are left out by it
        some = corpus.subset(rows)
        near = similarity(encoder, some.texts, list(some.columns["summary"]))
        rows = rows[near >= sizes.least_similarity]
    if len(rows) <= sizes.documents:
        raise InvalidInput(
            f"{sizes.corpus}: got {len(rows)} documents that are whole and near their summaries, "
            f"expected more than the {sizes.documents} private ones; lower least_similarity or "
            "raise longest"
        )
    return corpus.subset(rows[:wanted])


def mechanism(name: str, material: Material, sizes: Sizes, epsilon: float = 1.0) -> Mechanism:
    """A mechanism over the reader's table, by its name in the profile."""
    embedding = material.reader.table.embedding
    if name == "tem":
        return TEM(embedding, epsilon=epsilon)
    if name == "madlib-annoy":
        search = AnnoySearch(embedding.vectors, trees=sizes.annoy_trees)
        return Madlib(embedding, epsilon=epsilon, search=search)
    exact = Madlib(embedding, epsilon=epsilon)
    if name == "madlib":
        return exact
    if name == "rank-repair":
        return RankRepair(exact, c=sizes.repair_c)
    raise InvalidInput(f"mechanism: got {name!r}, expected one of {MECHANISMS}")


def epsilons(
    material: Material, made: Mechanism, sizes: Sizes, rng: np.random.Generator
) -> list[float]:
    """The profile's grid, or the epsilons that change its shares of public tokens; ascending.

    To three digits, so that results have names that can be read.
    """
    if sizes.grid:
        return check_grid(sizes.grid)
    return _rounded(epsilons_for(made, material.words, sizes.shares, rng))


def _rounded(values: FloatArray) -> list[float]:
    return sorted({float(f"{value:.3g}") for value in values})


# --- What is measured ---------------------------------------------------------------------------


def measure(
    material: Material,
    made: Mechanism,
    grid: Sequence[float],
    large: Summarizer,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Every document at every epsilon: features, texts, and what the summaries are worth.

    Columns: mechanism, those of `Reader.features`, large_original and large_sanitized (similarity
    of the original and the large model's summary of the original, of the sanitized text), and
    summary_large.
    """
    reader, encoder = material.reader, material.reader.encoder
    versions = sanitized_at(made, material.original, grid, rng)
    rows = reader.features(material.original, versions, grid)
    plain = material.texts
    answers = large.summarize([*plain, *rows["sanitized"]])
    rows["summary_large"] = answers[len(plain) :]
    worth = similarity(encoder, plain, answers[: len(plain)])
    rows["large_original"] = worth[rows["document"]]
    rows[TARGET] = similarity(encoder, list(rows["original"]), answers[len(plain) :])
    rows.insert(0, "mechanism", made.name)
    return rows


def originals(material: Material, rows: pd.DataFrame) -> pd.DataFrame:
    """What summaries of the originals are worth, as in Fig. 2.

    Columns: model ("small", "large", and "people" where the corpus has summaries), document,
    similarity.
    """
    once = rows.drop_duplicates("document").sort_values("document")
    found = {"small": once["small_original"].array, "large": once["large_original"].array}
    if "summary" in material.documents.columns:
        written = material.documents.columns["summary"].tolist()
        found["people"] = similarity(material.reader.encoder, material.texts, written)
    parts = [
        pd.DataFrame({"model": name, "document": once["document"].array, "similarity": values})
        for name, values in found.items()
    ]
    return pd.concat(parts, ignore_index=True)


def worth(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Mean of the similarities of `originals`, and what nine documents in ten exceed.

    Columns: model, what ("mean" or "tenth"), value, low, high, n.
    """
    result = []
    for model, some in table.groupby("model", sort=False):
        values = some["similarity"].to_numpy()
        drawn = rng.choice(values, size=(_RESAMPLES, len(values)))
        low, high = np.quantile(np.quantile(drawn, 0.1, axis=1), [0.025, 0.975])
        tenth = Estimate(float(np.quantile(values, 0.1)), float(low), float(high), len(values))
        result += [
            {"model": model, "what": what, **estimate.columns()}
            for what, estimate in (("mean", _mean(values, "similarity")), ("tenth", tenth))
        ]
    return pd.DataFrame(result)


LOSSES = ("changed", "text", "small", "large")


def losses(rows: pd.DataFrame) -> pd.DataFrame:
    """Tokens changed and similarities lost against epsilon, as in Fig. 4.

    Columns: epsilon, what (one of LOSSES), value, low, high, n: means over documents of the share
    of tokens changed, of 1 - similarity of original and sanitized text, and of what the
    summaries of the small and the large model lose against those of the original.
    """
    table = rows.assign(
        text=1 - rows["text_similarity"],
        small=rows["small_original"] - rows["small_sanitized"],
        large=rows["large_original"] - rows[TARGET],
    )
    return pd.DataFrame(
        {"epsilon": epsilon, "what": what, **_mean(some[what], what).columns()}
        for epsilon, some in table.sort_values("document").groupby("epsilon")
        for what in LOSSES
    )


LOST = 0.1  # loss below which the paper takes a model as recovered
NEARLY_ALL = 0.95  # share of tokens changed
MILD = 0.5  # share of tokens changed, up to which a text counts as mildly sanitized


def headlines(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Single numbers that the paper states about Figs. 3 and 4, under the names of its claims.

    Columns: name, value, low, high, n (documents), unit. Intervals are percentiles of a bootstrap
    over documents.

    - `knee.slm.eps`, `knee.llm.eps`: where the mean loss falls below LOST, on the line between
      the logarithms of two epsilons of the grid. Absent if it never does; a resample in which it
      never does counts as the largest epsilon.
    - `changed.lowest_eps`, `loss.text.highest_eps` and so on: the means of `losses`;
      `loss.range.lowest_eps`: how far the losses of the two models are apart.
    - `similarity.llm.widest.*`: at the epsilon at which the 80% and 20% quantiles are farthest
      apart, which the resamples take as known. The lowest and highest have no interval.
    - `similarity.slm.mild`, `loss.llm.mild` and so on: means over the epsilons at which at most
      MILD of the tokens change; absent if there is none.
    - `similarity.llm.gain.nearly_all_changed`: what the largest epsilon at which NEARLY_ALL tokens
      still change adds to the mean at the smallest; absent if that is the same epsilon.
    """
    grid = np.unique(rows["epsilon"])
    worth = _levels(rows, TARGET)
    lost = {
        "text": 1 - _levels(rows, "text_similarity"),
        "slm": _levels(rows, "small_original") - _levels(rows, "small_sanitized"),
        "llm": _levels(rows, "large_original") - worth,
    }
    changed = _levels(rows, "changed")
    quantiles = np.quantile(worth, [0.2, 0.8], axis=0)
    widest = int(np.argmax(quantiles[1] - quantiles[0]))
    nearly = int((changed.mean(0) >= NEARLY_ALL).sum()) - 1

    def knee_of(some: FloatArray) -> float:
        found = _crossing(grid, some.mean(0))
        return float(grid[-1]) if np.isnan(found) else found

    def spread(some: FloatArray) -> float:
        low, high = np.quantile(some[:, widest], [0.2, 0.8])
        return float(high - low)

    wanted: list[tuple[str, str, FloatArray, Callable[[FloatArray], float]]] = [
        ("similarity.llm.widest.p80_minus_p20", "similarity", worth, spread),
        (
            "loss.range.lowest_eps",
            "similarity",
            lost["slm"] - lost["llm"],
            lambda some: abs(float(some[:, 0].mean())),
        ),
    ]
    for model in ("slm", "llm"):
        if not np.isnan(_crossing(grid, lost[model].mean(0))):
            wanted.append((f"knee.{model}.eps", "epsilon", lost[model], knee_of))
    if nearly > 0:
        wanted.append(
            (
                "similarity.llm.gain.nearly_all_changed",
                "similarity",
                worth[:, [0, nearly]],
                lambda some: float((some[:, 1] - some[:, 0]).mean()),
            )
        )
    result: list[dict[str, Any]] = [
        {"name": name, "unit": unit, **_bootstrapped(table, statistic, rng).columns()}
        for name, unit, table, statistic in wanted
    ]
    for what, table in {"changed": changed, **{f"loss.{k}": v for k, v in lost.items()}}.items():
        for end, level in (("lowest_eps", 0), ("highest_eps", -1)):
            unit = "share" if what == "changed" else "similarity"
            found = _mean(table[:, level], what)
            result.append({"name": f"{what}.{end}", "unit": unit, **found.columns()})
    mild = changed.mean(0) <= MILD
    near = {"slm": _levels(rows, "small_sanitized"), "llm": worth}
    for model, table in near.items() if mild.any() else ():
        for name, levels in (("similarity", table), ("loss", lost[model])):
            found = _mean(levels[:, mild].mean(1), name)
            result.append({"name": f"{name}.{model}.mild", "unit": "similarity", **found.columns()})
    for end, value in (("lowest", worth[:, widest].min()), ("highest", worth[:, widest].max())):
        name, exact = f"similarity.llm.widest.{end}", float(value)
        estimate = Estimate(exact, exact, exact, len(worth))
        result.append({"name": name, "unit": "similarity", **estimate.columns()})
    return pd.DataFrame(result)


def _crossing(grid: FloatArray, loss: FloatArray) -> float:
    """First epsilon at which a loss is below LOST, or NaN; see `headlines`."""
    below = np.flatnonzero(loss < LOST)
    if not len(below):
        return float("nan")
    last = int(below[0])
    if not last:
        return float(grid[0])
    before, after = loss[last - 1], loss[last]
    share = (before - LOST) / (before - after)
    return float(grid[last - 1] * (grid[last] / grid[last - 1]) ** share)


def _bootstrapped(
    table: FloatArray, statistic: Callable[[FloatArray], float], rng: np.random.Generator
) -> Estimate:
    """A statistic of (documents, levels), with a percentile interval over documents."""
    count, value = len(table), statistic(table)
    drawn = [statistic(table[rng.integers(count, size=count)]) for _ in range(_RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value), count)


def knee(
    rows: pd.DataFrame, material: Material, made: Mechanism, rng: np.random.Generator
) -> pd.DataFrame:
    """Share of tokens changed, as the all-radii form predicts it and as it was measured.

    Columns: epsilon, what, value, low, high, n.

    - "predicted": for the documents' own tokens, without a look-up; its error is that of the
      random directions, one for each token (n: tokens)
    - "measured": shares of tokens, whose error is that of the documents (n: documents)
    - "difference": measured less predicted, of the same tokens. Its interval, by document, holds
      the errors of the directions and of the noise, and not the choice of documents.
    """
    ids, document = material.original.ids, material.original.document
    known = ids != UNKNOWN
    kept = chance_kept(made, ids[known], rng)
    result = []
    for epsilon, some in rows.groupby("epsilon"):
        predicted = np.ones(len(ids))  # an unknown token always changes
        predicted[known] = 1 - kept(float(some["epsilon"].iloc[0]))
        changed = some.sort_values("document")["changed"].to_numpy()[document]
        found = {
            "predicted": stats.mean(predicted, bounds=(0.0, 1.0)),
            "measured": stats.clustered_mean(changed, document, bounds=(0.0, 1.0)),
            "difference": stats.clustered_mean(changed - predicted, document, bounds=(-1.0, 1.0)),
        }
        counts = {"predicted": len(ids)}
        result += [
            {"epsilon": epsilon, "what": what, **each.columns()}
            | {"n": counts.get(what, len(material.original))}
            for what, each in found.items()
        ]
    return pd.DataFrame(result)


def knee_verdict(table: pd.DataFrame) -> str:
    """A sentence on where the prediction of `knee` misses, by the intervals of the difference."""
    off = table[table["what"] == "difference"].sort_values("epsilon")
    missed = off[(off["low"] > 0) | (off["high"] < 0)]
    most = off.loc[off["value"].abs().idxmax()]
    largest = f"the largest difference is {most['value']:+.4f} at epsilon {most['epsilon']:g}"
    if missed.empty:
        return f"At none of {len(off)} epsilons does it miss by more than its error; {largest}."
    where = "; ".join(
        f"{row.epsilon:g}: {row.value:+.4f}, {row.low:+.4f} to {row.high:+.4f}"
        for row in missed.itertuples()
    )
    return (
        f"At {len(missed)} of {len(off)} epsilons, which share one draw of the noise, the 95% "
        f"interval of measured less predicted leaves out 0 ({where}); {largest}."
    )


# --- What can be predicted ----------------------------------------------------------------------


def _regressor(features: str, sizes: Sizes) -> str:
    return "table" if features == EPS_ONLY else sizes.regressor


def _predictions(
    rows: pd.DataFrame, features: str, regressor: str, by: By, sizes: Sizes, seed: int | None
) -> FloatArray:
    """Out of fold; the folds are the same for all features and regressors."""
    fold = folds(rows["document"], sizes.folds, stream(seed, "06", "folds", by), by=by)
    return out_of_fold(rows, SETS[features], fold, regressor=regressor, seed=seed)


def regressions(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> pd.DataFrame:
    """R2 and RMSE with every set of features, in both kinds of folds (Table 1).

    Columns: features (one of SETS), by ("document" or "row"), measure ("r2" or "rmse"), value,
    low, high, n.
    """
    return pd.DataFrame(
        {"features": features, "by": by, **row}
        for features in SETS
        for by in BY
        for row in _scored(
            rows,
            _predictions(rows, features, _regressor(features, sizes), by, sizes, seed),
            sizes,
            seed,
        )
    )


def regressors(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> pd.DataFrame:
    """R2 and RMSE of every regressor of the profile, with the features of Table 1.

    Columns: regressor, features (one of TABLE_1), by, measure, value, low, high, n.
    """
    return pd.DataFrame(
        {"regressor": name, "features": features, "by": by, **row}
        for name in sizes.regressors
        for features in TABLE_1
        for by in BY
        for row in _scored(rows, _predictions(rows, features, name, by, sizes, seed), sizes, seed)
    )


def _scored(
    rows: pd.DataFrame, predicted: FloatArray, sizes: Sizes, seed: int | None
) -> list[dict[str, Any]]:
    found = scores(
        rows[TARGET],
        predicted,
        rows["document"],
        stream(seed, "06", "scores"),
        resamples=sizes.resamples,
        sample=SAMPLE,
    )
    return [{"measure": what, **estimate.columns()} for what, estimate in vars(found).items()]


def gains(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> pd.DataFrame:
    """By how much features beat epsilon alone, on the same documents.

    Columns: features, measure, value, low, high, n; a difference in R2 is good above 0, one in
    RMSE below. Folds by document.
    """

    def predicted(features: str) -> FloatArray:
        return _predictions(rows, features, _regressor(features, sizes), "document", sizes, seed)

    alone = predicted(EPS_ONLY)
    result = []
    for features in SETS:
        if features != EPS_ONLY:
            found = gain(
                rows[TARGET],
                predicted(features),
                alone,
                rows["document"],
                stream(seed, "06", "scores"),
                resamples=sizes.resamples,
            )
            result += [
                {"features": features, "measure": what, **estimate.columns()}
                for what, estimate in vars(found).items()
            ]
    return pd.DataFrame(result)


def table_1(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> pd.DataFrame:
    """What the small model adds to epsilon in the paper's folds, under the names of its claims.

    Columns: name, value, low, high, n (rows), unit. `regression.gain.r2.by_row` is what the
    features B and C add to R2, `regression.gain.rmse.by_row` what they take off the RMSE, with
    the same regressor, and `regression.share.eps_only.r2.by_row` the R2 of the mean at each epsilon
    as a share of that of all features (its interval takes the latter as exact; absent where that
    is not above 0).
    """
    truth, document = rows[TARGET], rows["document"]

    def beyond(features: str, other: str) -> Scores:
        first, second = (
            _predictions(rows, name, _regressor(name, sizes), "row", sizes, seed)
            for name in (features, other)
        )
        rng = stream(seed, "06", "scores")
        return gain(truth, first, second, document, rng, resamples=sizes.resamples)

    added, taken = beyond("all", "no_bc").r2, beyond("no_bc", "all").rmse
    short = beyond(EPS_ONLY, "all").r2
    fitted = _predictions(rows, "all", sizes.regressor, "row", sizes, seed)
    whole = r2_score(truth, fitted)
    found = {
        ("regression.gain.r2.by_row", "R2"): added.columns(),
        ("regression.gain.rmse.by_row", "similarity"): taken.columns(),
    }
    if whole > 0:  # else there is nothing to have a share of
        parts = {each: 1 + getattr(short, each) / whole for each in ("value", "low", "high")}
        found["regression.share.eps_only.r2.by_row", "ratio"] = {**parts, "n": short.n}
    return pd.DataFrame(
        {"name": name, "unit": unit, **estimate} for (name, unit), estimate in found.items()
    )


def misjudgements(
    rows: pd.DataFrame, sizes: Sizes, seed: int | None, *, threshold: float = 0.1
) -> pd.DataFrame:
    """How often a prediction promises too much or too little, as the follow-up counts it.

    Columns: features, by, kind ("optimistic" or "pessimistic"), value, low, high, n.
    """
    result = []
    for features in SETS:
        for by in BY:
            name = _regressor(features, sizes)
            predicted = _predictions(rows, features, name, by, sizes, seed)
            found = misjudged(rows[TARGET], predicted, rows["document"], threshold=threshold)
            result += [
                {"features": features, "by": by, "kind": kind, **estimate.columns()}
                for kind, estimate in vars(found).items()
            ]
    return pd.DataFrame(result)


# --- Intervals and what they are good for -------------------------------------------------------

JUDGED = ("everything", "all", "free", EPS_ONLY)


def intervals(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> dict[str, pd.DataFrame]:
    """`prediction.cross_intervals` of every set in JUDGED, over all documents."""
    return {
        features: cross_intervals(
            rows,
            SETS[features],
            regressor=_regressor(features, sizes),
            level=sizes.level,
            count=sizes.folds,
            seed=seed,
        )
        for features in JUDGED
    }


def coverage(found: Mapping[str, pd.DataFrame], rng: np.random.Generator) -> pd.DataFrame:
    """Coverage and width of the intervals, at each epsilon and over all.

    Columns: features, epsilon (NaN: all), what ("covered", "width", or "narrower": the width of
    the eps-only interval less this one's), value, low, high, n; by document. "resampled" is the
    coverage with a bootstrap over documents, which is too sure where every document is covered.
    """
    alone = found[EPS_ONLY]
    result = []
    for features, table in found.items():
        width = table["high"] - table["low"]
        narrower = (alone["high"] - alone["low"]) - width
        for epsilon in (np.nan, *np.unique(table["epsilon"])):
            some = np.isnan(epsilon) | (table["epsilon"] == epsilon)
            document = table["document"][some]
            inside = table[some].pivot(index="document", columns="epsilon", values="covered")
            measured = {
                "covered": stats.clustered_share(table["covered"][some], document, sample=SAMPLE),
                "resampled": _bootstrapped(inside.to_numpy(float), np.mean, rng),
                "width": stats.clustered_mean(
                    width[some], document, bounds=(0.0, 2.0), sample=SAMPLE
                ),
            }
            if features != EPS_ONLY:
                measured["narrower"] = stats.clustered_mean(
                    narrower[some], document, bounds=(-2.0, 2.0)
                )
            result += [
                {"features": features, "epsilon": epsilon, "what": what, **estimate.columns()}
                for what, estimate in measured.items()
            ]
    return pd.DataFrame(result)


RULES = ("predicted", "low")


def decisions(
    rows: pd.DataFrame, found: Mapping[str, pd.DataFrame], thresholds: Sequence[float]
) -> pd.DataFrame:
    """What is wasted when the most private level that promises a threshold is sent.

    A prompt is sent at the smallest epsilon whose prediction ("predicted") or whose interval's
    lower end ("low") reaches the threshold, and kept if none does. "truth" knows the outcome.

    Columns: threshold, features, rule, what ("sent", "lowered": sent, but not at the most private
    level, "wasted", "missed", "exposed", "cost", see `prediction.Decisions`), value, low, high,
    n (documents).
    """
    truth, revealed = _levels(rows, TARGET), 1 - _levels(rows, "changed")
    believed = {
        (features, rule): _levels(table, rule)
        for features, table in found.items()
        for rule in RULES
    }
    believed["truth", "truth"] = truth
    result = []
    for threshold in thresholds:
        for (features, rule), table in believed.items():
            made = decide(table, truth, revealed, threshold)
            measured = {
                "sent": made.level != KEPT,
                "lowered": made.level > 0,
                "wasted": made.wasted,
                "missed": made.missed,
                "exposed": made.exposed,
                "cost": made.cost(),
            }
            where = {"threshold": threshold, "features": features, "rule": rule}
            result += [
                {**where, "what": what, **_mean(values, what).columns()}
                for what, values in measured.items()
            ]
    return pd.DataFrame(result)


def _levels(rows: pd.DataFrame, column: str) -> FloatArray:
    """(documents, epsilons), the smallest epsilon first."""
    table = rows.pivot(index="document", columns="epsilon", values=column)
    return table.to_numpy(dtype=np.float64)


_LIMITS = {  # of a mean over documents; of losses, which are differences of cosines, -2 to 2
    "changed": (0.0, 1.0),
    "exposed": (0.0, 1.0),
    "cost": (0.0, 2.0),  # who pays for nothing misses no answer
    "similarity": (-1.0, 1.0),
}


def _mean(values: ArrayLike, what: str) -> Estimate:
    """Mean over documents, in their order, or a share of them; the interval stays in its range."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return stats.share(int(array.sum()), len(array))
    return stats.mean(array, bounds=_LIMITS.get(what, (-2.0, 2.0)), sample=SAMPLE)


# --- Another mechanism, and mended text ---------------------------------------------------------


def elsewhere(
    material: Material,
    large: Summarizer,
    sizes: Sizes,
    stream_of: Callable[..., np.random.Generator],
) -> dict[str, pd.DataFrame]:
    """The first documents under the other mechanisms, each at the epsilons of the same shares."""
    result = {}
    for name in sizes.transfer:
        part = material.first(sizes.transfer_documents)
        made = mechanism(name, part, sizes)
        shares = sizes.transfer_shares
        grid = _rounded(epsilons_for(made, part.words, shares, stream_of("grid", name)))
        result[name] = measure(part, made, grid, large, stream_of("noise", name))
    return result


# An epsilon is in other units under another mechanism; "no_epsilon" means the same under both.
TRANSFERRED = ("all", "everything", "no_epsilon")


def transfer(
    rows: pd.DataFrame, others: Mapping[str, pd.DataFrame], sizes: Sizes, seed: int | None
) -> pd.DataFrame:
    """How a predictor from one mechanism does on another, about documents that it has not seen.

    Parameters
    ----------
    rows : of the mechanism that is learned
    others : of other mechanisms, about some of the same documents

    Returns
    -------
    Columns: mechanism, features (one of TRANSFERRED), source ("elsewhere", or "own": from other
    documents of that mechanism itself), measure, value, low, high, n.
    """
    return pd.DataFrame(
        {"mechanism": name, "features": features, "source": source, **row}
        for name, table in others.items()
        for features in TRANSFERRED
        for source, learned in (("elsewhere", rows), ("own", table))
        for row in _scored(table, _about_others(learned, table, features, sizes, seed), sizes, seed)
    )


def _about_others(
    learned: pd.DataFrame, asked: pd.DataFrame, features: str, sizes: Sizes, seed: int | None
) -> FloatArray:
    """Predictions about each fold of `asked` from the other documents of `learned`."""
    fold = folds(asked["document"], sizes.folds, stream(seed, "06", "folds", "transfer"))
    result = np.empty(len(asked))
    for number in range(sizes.folds):
        test = asked[fold == number]
        apart = learned[~learned["document"].isin(test["document"])]
        predictor = Predictor.fit(
            apart, SETS[features], regressor=sizes.regressor, count=2, seed=seed
        )
        result[fold == number] = predictor.predict(test)
    return result


def corrections(
    material: Material, rows: pd.DataFrame, large: Summarizer, sizes: Sizes, *, device: str = "cpu"
) -> pd.DataFrame:
    """Whether mending the grammar of sanitized text before it is sent makes it worth more.

    The large model's own generator mends the first documents at the grid's epsilons that are
    nearest to the shares; then it summarizes what it mended.

    Columns: epsilon, what ("text" or "summary"), corrected, value, low, high, n: similarity to the
    original of the text and of the large summary, as it is and corrected.
    """
    if not isinstance(large, Writer):
        raise InvalidInput(f"large: got {large.name}, expected a model that writes")
    chosen = rows[rows["document"] < sizes.corrected_documents]
    by_share = rows.groupby("epsilon")["changed"].mean()
    levels = {float((by_share - share).abs().idxmin()) for share in sizes.corrected_shares}
    chosen = chosen[chosen["epsilon"].isin(levels)]
    mender = Writer(
        large.generator,
        tokens=sizes.longest,
        instruction=CORRECTION,
        batch=sizes.batch,
        progress=True,
    )
    encoder, original = material.reader.encoder, list(chosen["original"])
    mended = mender.summarize(list(chosen["sanitized"]))
    columns = {
        ("text", False): chosen["text_similarity"].to_numpy(),
        ("text", True): similarity(encoder, original, mended),
        ("summary", False): chosen[TARGET].to_numpy(),
        ("summary", True): similarity(encoder, original, large.summarize(mended)),
    }
    return pd.DataFrame(
        {
            "epsilon": epsilon,
            "what": what,
            "corrected": corrected,
            **_mean(values[(chosen["epsilon"] == epsilon).to_numpy()], "similarity").columns(),
        }
        for epsilon in sorted(levels)
        for (what, corrected), values in columns.items()
    )


def predictor(rows: pd.DataFrame, sizes: Sizes, seed: int | None) -> Predictor:
    """The predictor that a preview uses: all features, all documents."""
    return Predictor.fit(
        rows, SETS["everything"], regressor=sizes.regressor, count=sizes.folds, seed=seed
    )


def interactive(
    material: Material,
    made: Mechanism,
    fitted: Predictor,
    epsilons: Sequence[float],
    text: str,
    *,
    level: float,
) -> object:
    """Widget: own text; what `textpriv.preview.preview` says about it, as a table and a figure."""
    import ipywidgets as widgets
    import matplotlib.pyplot as plt
    from IPython.display import display

    own = widgets.Textarea(value=text, description="text", layout=widgets.Layout(width="90%"))
    again = widgets.Button(description="preview")
    output = widgets.Output()

    def show(_: object = None) -> None:
        with output:
            output.clear_output(wait=True)
            try:
                found = preview(
                    own.value, made, epsilons, reader=material.reader, predictor=fitted, level=level
                )
            except InvalidInput as error:  # of an empty text, say
                print(error)
                return
            figure = found.figure()
            display(found.table().round(2), figure)
            plt.close(figure)  # or the notebook would show it a second time

    again.on_click(show)
    show()
    return widgets.VBox([own, again, output])


# --- Results ------------------------------------------------------------------------------------

# Name of a measurement: a prefix, then the values of these columns.
_NAMES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "worth": ("similarity", ("model", "what")),
    "losses": ("loss", ("what", "epsilon")),
    "knee": ("changed", ("what", "epsilon")),
    "regressions": ("regression", ("features", "measure", "by")),
    "regressors": ("regressor", ("regressor", "features", "measure", "by")),
    "gains": ("gain", ("features", "measure")),
    "misjudgements": ("misjudged", ("features", "kind", "by")),
    "coverage": ("interval", ("features", "what", "epsilon")),
    "decisions": ("decision", ("features", "rule", "what", "threshold")),
    "transfer": ("transfer", ("mechanism", "features", "source", "measure")),
    "corrections": ("correction", ("what", "corrected", "epsilon")),
}


_SHARES = ("changed", "covered", "resampled", "sent", "lowered", "wasted", "missed", "exposed")
_NAMED = ("headlines", "table_1")  # tables that name their measurements themselves
_SPELLED = {  # models, and what is measured of them, as the claims call them
    "small": "slm",
    "large": "llm",
    "mean": "original",
    "tenth": "original.p10",
}


def record(run: Run, **tables: pd.DataFrame) -> None:
    """Record tables, each under the name of the function that made it.

    Names of measurements: `similarity.llm.original.p10`, `loss.slm.eps81.3`,
    `regression.all.r2.by_document`, `interval.all.covered.eps81.3` (`.every`: over all epsilons),
    `decision.all.low.wasted.at0.5`, `changed.predicted.eps81.3`,
    `correction.summary.corrected.eps81.3`; see `_NAMES`, `headlines` and `table_1` for the others.
    """
    for kind, table in tables.items():
        if kind not in (*_NAMES, *_NAMED):
            known = (*_NAMES, *_NAMED)
            raise InvalidInput(f"tables: got {kind!r}, expected some of {known}")
        for row in table.to_dict("records"):
            name, unit = _named(kind, row)
            estimate = {key: row[key] for key in ("value", "low", "high", "n")}
            run.record(name, **estimate, unit=unit, influence=_influence(row))


def _influence(row: Mapping[Any, Any]) -> Influence | None:
    found = row.get("influence")  # NaN where another row of the table has one
    return found if isinstance(found, Influence) else None


def _named(kind: str, row: Mapping[Any, Any]) -> tuple[str, str]:
    """Name and unit of a measurement."""
    if kind in _NAMED:
        return row["name"], row["unit"]
    prefix, columns = _NAMES[kind]
    return ".".join([prefix, *(_spelled(each, row[each]) for each in columns)]), _unit(kind, row)


def _spelled(column: str, value: Any) -> str:
    if column == "epsilon":
        return "every" if np.isnan(value) else f"eps{value:g}"
    if column == "corrected":
        return "corrected" if value else "as_is"
    if column in ("model", "what"):
        return _SPELLED.get(value, value)
    prefix = {"by": "by_", "threshold": "at"}.get(column, "")
    return f"{prefix}{value}"


def _unit(kind: str, row: Mapping[Any, Any]) -> str:
    if kind == "knee" and row["what"] == "difference":
        return "difference of shares"
    if kind in ("knee", "misjudgements") or row.get("what") in _SHARES:
        return "share"
    if row.get("what") == "cost":
        return "cost"
    return "R2" if row.get("measure") == "r2" else "similarity"
