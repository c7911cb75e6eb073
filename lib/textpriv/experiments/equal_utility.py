"""Notebook 09: which mechanism gives less away where as much of a text is left?

    point(setting, hits, ...)       one setting: what each attack recovers, what the text is worth
    gathered(points, ...)           all of them (`Points`)
    at_equal_utility(points, rng)   mechanisms in pairs where both leave as much, tested

Epsilon has another unit in every mechanism, so they are compared by what attacks recover and by
what is left for a classifier and of a sentence's vector, on the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from statsmodels.stats.multitest import multipletests

from textpriv import stats
from textpriv.attacks import f1
from textpriv.attacks.base import FloatArray, IntArray
from textpriv.attacks.noisy_channel import Candidates
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEPT, Corpus
from textpriv.drawing import drawing
from textpriv.experiments.mechanisms import classifier, right, vector_classifier
from textpriv.report.difference import ALONE, Finding
from textpriv.report.figures import (
    BLACK,
    GREY,
    PAGE,
    called,
    label,
    legend_below,
    listing,
    percent,
    reach,
    style,
)

AS_SENT = "as-sent"  # the attack that believes what it sees
UTILITIES = {
    "meaning": "the mean cosine of a sentence before and after",
    "accuracy": "the accuracy of sentiment",
}
ESTIMATED = ("madlib", "rank-repair", "vickrey", "polar")
"""Mechanisms whose probabilities attackers have estimated: they recover too little."""

QUARTERS = (0.25, 0.5, 0.75)  # of the range of a utility: where mechanisms are compared
CLOSE = 0.05  # accuracy that a useful output may lose
SHOWN = (
    "rank-repair", "vickrey", "madlib", "santext+", "custext+", "custext-conservative", "clusant",
    "randomized-response",
)  # fmt: skip
"""In colour in the figure, which has no more than eight; the others lie among these."""

CLEAR, SANITIZED = "clear text", "sanitized text"  # what a classifier has learned from
_DRAWS = 4000  # of sentences, held at once


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 09, set by the profile."""

    corpus: str  # of sentences with a label
    vocabulary: int | None = None  # most frequent words of the embedding; None: all
    epsilons: Mapping[str, tuple[float, ...]]  # by mechanism of the registry, rising
    sentences: int = Field(ge=10)  # under attack
    training: int = Field(ge=20)  # sentences that classifiers learn from
    choosing: int = Field(ge=10)  # sentences on which the best classifier is chosen
    shadow: int = Field(ge=4)
    public: int | None = None  # public reviews; None: all
    candidates: int = Field(ge=1)  # of the noisy channel
    narrowed: int = Field(ge=1)  # of these, decoded with word triples
    encoder: str

    @property
    def private(self) -> int:
        """Sentences that attackers have not read."""
        return self.sentences + self.training + self.choosing

    @property
    def shadow_pool(self) -> int:
        """Of a corpus that is cut from reviews."""
        return self.shadow


# --- One setting ----------------------------------------------------------------------------------


def in_clear(corpus: Corpus, words: IntArray, spelled: Sequence[str]) -> Corpus:
    """The same text with some words in clear: no mechanism replaces them, all attackers see them.

    Parameters
    ----------
    words : ids; `spelled` are the words of the vocabulary
    """
    there = np.flatnonzero(np.isin(corpus.ids, words)).tolist()
    kept = {at: spelled[corpus.ids[at]] for at in there}
    ids = corpus.ids.copy()
    ids[there] = KEPT
    return replace(corpus, ids=ids, kept={**corpus.kept, **kept})


def best_read(
    clear: Sequence[str],
    sanitized: Sequence[str],
    labels: NDArray[Any],
    sizes: Sizes,
    embedding: Embedding,
) -> tuple[str, FloatArray]:
    """Which classifier reads sanitized text best, and whether it is right about each private text.

    Two kinds (one counts words, one averages word vectors), each learned from clear text and from
    text that the same mechanism has sanitized. The best is chosen on texts that serve for nothing
    else, so that the choice does not flatter it.

    Parameters
    ----------
    clear, sanitized, labels : of the private texts, then those to learn from, then those to choose
        by, as many as `sizes` says

    Returns
    -------
    its name, and (private texts,) 1 where it is right
    """
    private, learn = slice(sizes.sentences), slice(sizes.sentences, sizes.private - sizes.choosing)
    choose = slice(sizes.private - sizes.choosing, sizes.private)
    models = {
        f"{kind}, learned from {source}": make().fit(texts[learn], labels[learn])
        for kind, make in {
            "counts words": partial(classifier, 0),
            "averages vectors": partial(vector_classifier, embedding, 0),
        }.items()
        for source, texts in {CLEAR: clear, SANITIZED: sanitized}.items()
    }

    def is_right(name: str, part: slice) -> FloatArray:
        return right([models[name]], list(sanitized[part]), labels[part])

    best = max(models, key=lambda name: is_right(name, choose).mean())
    return best, is_right(best, private)


def listed(candidates: Candidates, targets: IntArray, truth: IntArray) -> float:
    """Share of the targets whose true word a decoder considers at all."""
    words = candidates.guesses(targets, int(candidates.counts.max())).words
    return float((words == truth[:, None]).any(axis=1).mean())


@dataclass(frozen=True, eq=False)
class Point:
    """What attacks recover at one setting, and what the sanitized text is still worth."""

    rows: list[dict[str, Any]]  # a row per attack
    recovered: FloatArray  # (sentences,) content words that the strongest attack recovers
    utility: dict[str, FloatArray]  # of UTILITIES, (sentences,)


def point(
    setting: Mapping[str, Any],
    hits: Mapping[str, FloatArray],
    of_sentence: IntArray,
    utility: Mapping[str, FloatArray],
    rng: np.random.Generator,
) -> Point:
    """The outcome of one setting.

    Parameters
    ----------
    setting : columns of its rows
    hits : by attack (AS_SENT among them), (content words,) 1 where its guess is right
    of_sentence : (content words,) the sentence of each, from 0 on
    utility : of UTILITIES, (sentences,)

    Each row has value, low, high, n (content words), for each utility its mean with `_low` and
    `_high`, sentences, and p (see `p_as_sent`).
    """
    count = len(next(iter(utility.values())))
    worth: dict[str, float] = {}
    for name, each in utility.items():
        mean = stats.mean(each, bounds=(-1, 1))
        worth |= {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}
    strongest = max(hits, key=lambda name: hits[name].sum())
    common = {**setting, **worth, "sentences": count}
    common["p"] = p_as_sent(hits, strongest, of_sentence, rng)
    rows = [
        {**common, "attack": name, **stats.clustered_share(each, of_sentence).columns()}
        for name, each in hits.items()
    ]
    recovered = np.bincount(of_sentence, hits[strongest], count).astype(float)
    return Point(rows, recovered, dict(utility))


def p_as_sent(
    hits: Mapping[str, FloatArray],
    strongest: str,
    of_sentence: IntArray,
    rng: np.random.Generator,
) -> float:
    """Whether the strongest attack is no better than believing each word as sent: a p-value.

    A paired test of the same words, (words,) 1 where an attack is right, by sentence. Corrected
    (Bonferroni) for the strongest having been chosen from all but AS_SENT.
    """
    p = stats.paired_test(hits[strongest], hits[AS_SENT], of_sentence, rng)
    return min(1.0, (len(hits) - 1) * p)


# --- All settings ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Points:
    """All settings: rows of attacks, and what each sentence adds."""

    table: pd.DataFrame  # a row per mechanism, epsilon and attack; see `point`
    recovered: FloatArray  # (settings, sentences) content words that the strongest attack recovers
    content: FloatArray  # (sentences,) content words
    utility: Mapping[str, FloatArray]  # by name, (settings, sentences)


def gathered(points: Sequence[Point], of_sentence: IntArray) -> Points:
    """The outcomes of all settings, in their order."""
    utilities = points[0].utility
    return Points(
        pd.DataFrame([row for each in points for row in each.rows]),
        np.array([each.recovered for each in points]),
        np.bincount(of_sentence, minlength=len(points[0].recovered)).astype(float),
        {name: np.array([each.utility[name] for each in points]) for name in utilities},
    )


def at_equal_utility(
    points: Points, rng: np.random.Generator, *, resamples: int = 40_000
) -> pd.DataFrame:
    """What two mechanisms let an attacker recover where both leave as much of a utility.

    The utilities compared are a quarter, a half and three quarters of the way from the least to the
    most that any setting has. Along a mechanism's epsilons its risk is interpolated in its utility,
    never beyond its ends. All mechanisms sanitized the same sentences, so that a difference is
    drawn anew with its sentences (bootstrap), both mechanisms on the same draw. No p is below
    2 / (resamples + 1) before it is corrected: twelve mechanisms make up to 396 rows, of which
    4,000 draws could have decided none at 5%.

    Columns: utility, quarter, level, first, second, value (risk of the first minus that of the
    second), low, high (95%, percentiles), n (sentences), p (two-sided, corrected for all rows by
    Holm).
    """
    count = len(points.content)
    totals = _drawn_anew([points.recovered, points.content[None], *points.utility.values()],
                         rng, resamples)  # fmt: skip
    risk_of = totals[0] / totals[1]
    settings = points.table[["mechanism", "epsilon"]].drop_duplicates(ignore_index=True)
    rows = []
    for (utility, values), sums in zip(points.utility.items(), totals[2:], strict=True):
        worth = sums / count
        levels = np.quantile([values.mean(1).min(), values.mean(1).max()], QUARTERS)
        for number, level in enumerate(levels):
            curves = {
                str(name): risk_at(worth[:, each.index], risk_of[:, each.index], level)
                for name, each in settings.groupby("mechanism", sort=False)
            }
            met = [name for name, curve in curves.items() if np.isfinite(curve).mean() > 0.99]
            for first, second in combinations(met, 2):
                apart = curves[first] - curves[second]
                drawn = apart[1:][np.isfinite(apart[1:])]
                low, high = np.quantile(drawn, [0.025, 0.975])
                least = min((drawn <= 0).sum(), (drawn >= 0).sum())
                p = min(1.0, 2 * (least + 1) / (len(drawn) + 1))
                names = {"utility": utility, "quarter": number + 1, "level": level}
                pair = {"first": first, "second": second}
                ends = {"value": apart[0], "low": low, "high": high, "n": count, "p": p}
                rows.append(names | pair | ends)
    columns = ["utility", "quarter", "level", "first", "second", "value", "low", "high", "n", "p"]
    table = pd.DataFrame(rows, columns=columns)
    if len(table):
        table["p"] = multipletests(table["p"], method="holm")[1]
    return table


def _drawn_anew(
    values: Sequence[FloatArray], rng: np.random.Generator, resamples: int
) -> list[FloatArray]:
    """Sums over sentences as they are (row 0) and drawn anew: (resamples + 1, rows) of each.

    `values` are (rows, sentences); all of them are summed over the same draws.
    """
    count = values[0].shape[1]
    parts = [[each.sum(1)[None] for each in values]]
    for start in range(0, resamples, _DRAWS):
        size = min(_DRAWS, resamples - start)
        times = rng.multinomial(count, np.full(count, 1 / count), size=size).astype(float)
        parts.append([times @ each.T for each in values])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def risk_at(utility: FloatArray, risk: FloatArray, level: float) -> FloatArray:
    """Risk at a utility, along the settings of a mechanism, of every draw; NaN beyond the ends.

    Utility rises with epsilon; where chance has it fall, the larger one stays (both are (draws,
    settings), settings in the order of epsilon).
    """
    rising = np.maximum.accumulate(utility, axis=1)
    result = np.full(len(utility), np.nan)
    for right_end in range(utility.shape[1] - 1, 0, -1):  # the first crossing is written last
        below, above = rising[:, right_end - 1], rising[:, right_end]
        crosses = (below <= level) & (level <= above)
        step = np.where(above > below, above - below, 1.0)
        part = np.clip((level - below) / step, 0, 1)
        between = risk[:, right_end - 1] + part * (risk[:, right_end] - risk[:, right_end - 1])
        result[crosses] = between[crosses]
    return result


# --- What is said and drawn -----------------------------------------------------------------------


def said_of_pairs(pairs: pd.DataFrame) -> str:
    """How many pairs of mechanisms differ halfway along each utility, and who is at both ends.

    `pairs` is as `at_equal_utility` makes it.
    """
    said = []
    for utility, what in UTILITIES.items():
        rows = pairs[(pairs["utility"] == utility) & (pairs["quarter"] == 2)]
        if rows.empty:
            continue
        decided = rows[rows["p"] < ALONE]
        less = decided["first"].where(decided["value"] < 0, decided["second"])
        more = decided["first"].where(decided["value"] > 0, decided["second"])
        told = ""
        if len(decided):
            best, worst = (each.value_counts() for each in (less, more))
            told = (
                f" Significantly less is recovered under {called(best.index[0])} than under "
                f"{best.iloc[0]} others, significantly more under {called(worst.index[0])} than "
                f"under {worst.iloc[0]}."
            )
        said.append(
            f"Where {what} is {rows['level'].iloc[0]:.2f}, {len(decided)} of {len(rows)} pairs of "
            f"mechanisms differ significantly (paired bootstrap over sentences, Holm's method over "
            f"all {len(pairs)} tests).{told}"
        )
    return "\n\n".join(said) or "No two mechanisms leave as much of the text in this profile."


def matrix(pairs: pd.DataFrame, utility: str, quarter: int = 2) -> pd.DataFrame:
    """Points by which attackers recover more under the row's mechanism than under the column's.

    A text in each place, with a star where the difference is significant; empty where a mechanism
    does not reach that utility. The row of which least is recovered stands first.
    """
    rows = pairs[(pairs["utility"] == utility) & (pairs["quarter"] == quarter)]
    turned = rows.rename(columns={"first": "second", "second": "first"})
    both = pd.concat([rows, turned.assign(value=-rows["value"])])
    star = np.where(both["p"] < ALONE, "*", "")
    text = [f"{100 * value:+.0f}{mark}" for value, mark in zip(both["value"], star, strict=True)]
    order = both.groupby("first")["value"].mean().sort_values().index
    wide = both.assign(text=text).pivot(index="first", columns="second", values="text")
    wide = wide.reindex(index=order, columns=order).fillna("")
    return wide.rename(index=called, columns=called).rename_axis(index=None, columns=None)


OUTCOMES = ("less", "more", "undecided")


def against(pairs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """At how many levels attackers recover less, more, or not decidedly either, than a baseline.

    Of `at_equal_utility`. Columns: utility, mechanism, outcome (OUTCOMES), value (levels).
    """
    second = pairs["second"] == baseline
    own = pairs.assign(
        mechanism=pairs["first"].where(second, pairs["second"]),
        outcome=np.where((pairs["value"] > 0) == second, "more", "less"),
    )[second | (pairs["first"] == baseline)]
    own.loc[own["p"] >= ALONE, "outcome"] = "undecided"
    counts = own.groupby(["utility", "mechanism"])["outcome"].value_counts().unstack(fill_value=0)
    counts = counts.reindex(columns=[*OUTCOMES], fill_value=0).rename_axis(columns="outcome")
    return counts.stack().rename("value").reset_index()


def said_against(counts: pd.DataFrame) -> Finding:
    """What `against` random words comes to."""
    said, title = [], ""
    for utility in UTILITIES:
        rows = counts[counts["utility"] == utility]
        if rows.empty:
            said.append(
                f"By {utility} none is compared with random words: their curve is too uncertain to "
                "reach the same level for sure."
            )
            continue
        wide = rows.pivot(index="mechanism", columns="outcome", values="value") > 0
        less, more = wide.index[wide["less"]], wide.index[wide["more"]]
        less, more, both = less.difference(more), more.difference(less), less.intersection(more)
        title = title or (
            f"At equal {utility} less is read back under {len(less)} of {len(wide)} mechanisms "
            "than under random words"
        )
        told = [f"fewer words under {listing(less)}", f"more under {listing(more)}"]
        told += [f"either, by the level, under {listing(both)}"] * bool(len(both))
        said.append(
            f"Where {UTILITIES[utility]} is the same as with random words, attackers recover "
            f"significantly {', '.join(told)}."
        )
        weaker = [name for name in wide.index[wide["less"]] if name in ESTIMATED]
        if weaker:
            said.append(
                f"The probabilities of {listing(weaker)} are estimated: those "
                "attackers may be weaker."
            )
    return Finding(title or "Nothing was compared with random words", " ".join(said))


def strongest(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """The row of the strongest attack of each group, with an interval that allows for the choice.

    Of columns attack, value, low, high and n; see `f1.strongest`.
    """
    rows = []
    for _, group in table.groupby([*keys], sort=False):
        who, rate = f1.strongest({at: stats.Estimate.of(row) for at, row in group.iterrows()})
        rows.append(group.loc[who].to_dict() | {"low": rate.low, "high": rate.high})
    return pd.DataFrame(rows, columns=table.columns).astype(table.dtypes)


@drawing
def risk(found: pd.DataFrame, clear: float) -> Figure:
    """Success of the strongest attack that was run against what is left, by either utility.

    `clear` is the accuracy on clear text.
    """
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 4.4), sharey=True)
    best = strongest(found.reset_index(drop=True), "mechanism", "epsilon")
    axis = {"accuracy": "accuracy of sentiment (guessing: 50%)", "meaning": "meaning (cosine)"}
    for ax, (utility, what) in zip(axes, axis.items(), strict=True):
        order = best["mechanism"].isin(SHOWN).sort_values(ascending=False, kind="stable").index
        for name, line in best.loc[order].groupby("mechanism", sort=False):
            line = line.sort_values("value")
            look: dict[str, Any] = {"color": GREY, "alpha": 0.5, "label": "others", "zorder": 1}
            if name in SHOWN:
                look = {**style(str(name)), "label": label(str(name))}
            ax.plot(line[utility], line["value"], ms=4, lw=1.1, **look)
        _widest_interval(ax, best, utility)
        ax.set_xlabel(what, fontsize=9)
    axes[0].axvline(clear, color=BLACK, lw=2, alpha=0.5, label="original text")
    axes[0].set_ylabel("content words recovered", fontsize=9)
    percent(axes[0].xaxis, axes[0].yaxis)
    axes[0].xaxis.set_major_locator(MultipleLocator(0.05))
    useful = best[best["accuracy"] >= clear - CLOSE]
    near = f"within {100 * CLOSE:g} points of the accuracy on the original text"
    title = f"No setting was measured {near}"
    if len(useful):
        least = f"{useful['value'].min():.0%}"
        title = f"At all settings {near}\nat least {least} of the content words are read back"
    fig.suptitle(f"{title} (n = {int(best['n'].max()):,} words)", fontsize=9.5)
    legend_below(fig, 3, fontsize=7.5)
    return fig


def _widest_interval(ax: Axes, found: pd.DataFrame, utility: str) -> None:
    """One cross in a corner for all points: their intervals are nearly equal and would overlap."""
    columns = [utility, f"{utility}_low", f"{utility}_high"]
    worth = found[columns].set_axis(["value", "low", "high"], axis=1)
    across, along = (float(np.max(reach(each))) for each in (worth, found))  # the wider sides
    x, y = found[utility].max() - 2 * across, found["value"].min() + along
    ax.errorbar(x, y, along, across, fmt="none", ecolor=BLACK, elinewidth=1, capsize=2)
    note = "widest 95% interval"
    ax.annotate(note, (x, y + along), (0, 4), textcoords="offset points", ha="center", fontsize=7)
