"""Notebook 09: which mechanism gives less away where as much of a text is left?

    LeftOut(embedding, ...)         the line to beat: some words are kept, the others left out
    read_as(receiver, sent, ...)    what a receiver who knows the mechanism makes of its words

    point(setting, hits, ...)       one setting: what each attack recovers, what the text is worth
    gathered(points, ...)           all of them (`Points`)
    drawn_anew(points, rng)         their risks and utilities on sentences drawn anew
    at_equal_utility(drawn)         mechanisms in pairs where both leave as much, tested
    at_equal_risk(drawn, risks)     the same where attackers recover as much of both

Epsilon has another unit in every mechanism, so they are compared by what attacks recover and by
what is left for a classifier and of a sentence's vector, on the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product, starmap
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from statsmodels.stats.multitest import multipletests

from textpriv import stats
from textpriv.attacks import f1
from textpriv.attacks.base import NONE, FloatArray, Guesses, IntArray
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.noisy_channel import Candidates
from textpriv.channel import check_ids
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEPT, Corpus, Tokenizer
from textpriv.experiments.mechanisms import classifier, right, vector_classifier
from textpriv.mechanisms import FiniteMechanism

AS_SENT = "as-sent"  # the attack that believes what it sees
UTILITIES = {
    "meaning": "the mean cosine of a sentence before and after",
    "accuracy": "the accuracy of sentiment",
}
LEFT_OUT = "left-out"
QUARTERS = (0.25, 0.5, 0.75)  # of the range that both reach: where two mechanisms are compared
FOLDS = 5  # of the sentences; a classifier reads the one that it has not learned from
MODEL_WEIGHTS = (0.25, 0.5, 1.0)
"""What a pretrained language model may count, as exponents; a rehearsal chooses one, or none."""
_BOUNDS = {"meaning": (-1, 1), "accuracy": (0, 1)}
_LISTED = 10  # words that a receiver considers: what is not among them has less than a tenth
_DRAWS = 1000  # of sentences, held at once


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 09, set by the profile."""

    corpus: str  # of sentences with a label
    vocabulary: int | None = None  # most frequent words of the embedding; None: all
    epsilons: Mapping[str, tuple[float, ...]]  # by mechanism of the registry, rising
    private: int = Field(ge=20)  # sentences that attackers have not read
    judged: int = Field(ge=20)  # of these, by classifiers that learn from the others
    sentences: int = Field(ge=10)  # of those judged, under attack
    risks: tuple[float, ...]  # shares recovered at which accuracies are compared
    shadow: int = Field(ge=4)
    public: int | None = None  # public reviews; None: all
    candidates: int = Field(ge=1)  # of the noisy channel
    narrowed: int = Field(ge=1)  # of these, decoded with word triples
    model_sentences: int = Field(ge=1)  # of those under attack, decoded with `generator` too
    model_rehearsal: int = Field(ge=1)  # sentences of the shadow data that choose its weight
    reading_rehearsal: int = Field(ge=1)  # and those that choose how a receiver reads
    encoder: str
    generator: str

    @model_validator(mode="after")
    def _attacks_what_is_judged(self) -> Self:
        counts = self.model_sentences, self.sentences, self.judged, self.private
        if list(counts) != sorted(counts):
            names = "model_sentences", "sentences", "judged", "private"
            asked = ", ".join(map("{} {}".format, names, counts))
            raise ValueError(f"got {asked}, expected each to be at most the next")
        return self

    @property
    def shadow_pool(self) -> int:
        """Of a corpus that is cut from reviews."""
        return self.shadow


# --- One setting ----------------------------------------------------------------------------------


class LeftOut(FiniteMechanism):
    """A word is kept or left out, and a mark says where: no mechanism to recommend, a line to beat.

    It promises nothing: a word that is kept can have been no other, so that no finite epsilon
    holds. What is called `epsilon`, as in the others, is the share of the words that is kept, in
    (0, 1). `mark` is the id that stands for a word left out; a word that no text has.
    """

    name = LEFT_OUT

    def __init__(self, embedding: Embedding, *, epsilon: float, mark: int) -> None:
        super().__init__(embedding, epsilon=epsilon)
        self.mark = mark

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = np.full((len(x), self.size), -np.inf)
        rows[np.arange(len(x)), x] = np.log(self.epsilon)
        rows[:, self.mark] = np.where(x == self.mark, 0.0, np.log1p(-self.epsilon))
        return rows

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        columns = np.full((len(y), self.size), -np.inf)
        columns[np.arange(len(y)), y] = np.log(self.epsilon)
        columns[y == self.mark] = np.log1p(-self.epsilon)
        columns[y == self.mark, self.mark] = 0.0
        return columns

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        return np.where(rng.random(len(x)) < self.epsilon, x, self.mark)


def in_clear(corpus: Corpus, words: IntArray, spelled: Sequence[str] | Mapping[int, str]) -> Corpus:
    """The same text with some words, ids, in clear: no mechanism replaces them, all see them.

    `spelled` are the words of the vocabulary, by id.
    """
    there = np.flatnonzero(np.isin(corpus.ids, words)).tolist()
    kept = {at: spelled[corpus.ids[at]] for at in there}
    ids = corpus.ids.copy()
    ids[there] = KEPT
    return replace(corpus, ids=ids, kept={**corpus.kept, **kept})


class Reading(NamedTuple):
    """How a receiver who knows the mechanism reads a word that was sent, by Bayes' rule.

    guesses : whether the likeliest original is read in place of the word itself
    belief : what is read must be at least as probable, or it is passed over
    """

    guesses: bool
    belief: float

    def __str__(self) -> str:
        read = "likeliest original" if self.guesses else "as sent"
        return f"{read}, believed to {self.belief:.0%}" if self.belief else read


READINGS = tuple(starmap(Reading, product((False, True), (0.0, 0.1, 0.3, 0.5))))
"""The first is to take each word as it was sent; a rehearsal chooses."""


def read_as(receiver: Bayes, sent: IntArray, reading: Reading, mark: int) -> IntArray:
    """Words as a receiver reads them, `mark` in place of what is passed over: (words,) ids."""
    outputs, place = np.unique(sent, return_inverse=True)
    likeliest = receiver.guess_words(outputs, _LISTED)
    if reading.guesses:
        words, belief = likeliest.words[:, 0], likeliest.scores[:, 0]
    else:
        is_itself = likeliest.words == outputs[:, None]
        words, belief = outputs, np.where(is_itself, likeliest.scores, 0.0).max(axis=1)
    believed = (words != NONE) & (belief >= reading.belief)
    return np.where(believed, words, mark)[place]


def cross_fitted(
    texts: Sequence[str], labels: NDArray[Any], embedding: Embedding, source: str
) -> dict[str, list[Pipeline]]:
    """Classifiers of two kinds, one per fold of the texts, which learns from all other folds.

    Folds depend on the labels alone. Names say the kind, and the `source` that was learned from.
    """
    kinds = {
        "counts words": partial(classifier, 0),
        "averages vectors": partial(vector_classifier, embedding, 0),
    }
    learn = [others for others, _ in _folds(labels)]
    return {
        f"{kind}, learned from {source}": [
            make().fit([texts[i] for i in each], labels[each]) for each in learn
        ]
        for kind, make in kinds.items()
    }


def readers(
    models: Mapping[str, Sequence[Pipeline]], texts: Sequence[str], labels: NDArray[Any]
) -> dict[str, list[FloatArray]]:
    """By classifier, for each fold (texts of the fold,) 1 where it reads a text right.

    `models` are those of `cross_fitted`: a fold is read by the one that has not learned from it.
    """
    folds = [fold for _, fold in _folds(labels)]
    return {
        name: [
            right([model], [texts[i] for i in fold], labels[fold])
            for model, fold in zip(each, folds, strict=True)
        ]
        for name, each in models.items()
    }


def best_read(
    outcome: Mapping[str, Sequence[FloatArray]], labels: NDArray[Any]
) -> tuple[str, FloatArray]:
    """The name of the reader that reads most folds, and (texts,) 1 where a text is read right.

    Each fold is read by the one that is right most often about the other folds, so that the choice
    does not flatter it. `outcome` is that of `readers`.
    """
    is_right, chosen = np.empty(len(labels)), []
    for number, (_, fold) in enumerate(_folds(labels)):
        elsewhere = {
            name: np.concatenate([*each[:number], *each[number + 1 :]]).mean()
            for name, each in outcome.items()
        }
        chosen.append(max(elsewhere, key=elsewhere.__getitem__))
        is_right[fold] = outcome[chosen[-1]][number]
    return max(chosen, key=chosen.count), is_right


def _folds(labels: NDArray[Any]) -> list[tuple[IntArray, IntArray]]:
    """(other texts, texts) of each fold; every fold has its share of each label."""
    parts = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return list(parts.split(np.zeros(len(labels)), labels))


def leaving_out(corpus: Corpus, mark: int, tokenizer: Tokenizer) -> list[str]:
    """The texts without the tokens that `LeftOut` has marked."""
    bare = in_clear(corpus, np.array([mark]), {mark: ""})
    return [" ".join(text.split()) for text in tokenizer.decode(bare)]


def nearly(guesses: IntArray, close: IntArray) -> FloatArray:
    """(words,) 1 where a guess is the true word or close to it; `close` has these, a row a word."""
    return (close == guesses[:, None]).any(axis=1).astype(float)


def aimed_near(guesses: Guesses, close: IntArray) -> IntArray:
    """(targets,) of the words that are listed, the one that is likeliest to be close to the truth.

    `guesses` have probabilities as scores; `close` has the words that each word of the vocabulary
    is close to, a row a word, itself among them.
    """
    probable = np.where(guesses.words == NONE, 0.0, guesses.scores)
    likely = np.zeros(guesses.words.shape)
    for number, word in enumerate(guesses.words.T):  # that may be named
        is_close = (close[guesses.words] == word[:, None, None]).any(axis=2)
        likely[:, number] = (probable * is_close).sum(axis=1) * (word != NONE)
    return np.take_along_axis(guesses.words, likely.argmax(axis=1)[:, None], axis=1)[:, 0]


def listed(candidates: Candidates, targets: IntArray, truth: IntArray) -> float:
    """Share of the targets whose true word a decoder considers at all."""
    words = candidates.guesses(targets, int(candidates.counts.max())).words
    return float((words == truth[:, None]).any(axis=1).mean())


@dataclass(frozen=True, eq=False)
class Point:
    """What attacks recover at one setting, and what the sanitized text is still worth."""

    rows: list[dict[str, Any]]  # a row per attack
    recovered: FloatArray  # (sentences,) content words that the strongest attack recovers
    utility: dict[str, FloatArray]  # of UTILITIES, each of the first sentences or of all


def point(
    setting: Mapping[str, Any],
    hits: Mapping[str, FloatArray],
    of_sentence: IntArray,
    utility: Mapping[str, FloatArray],
    rng: np.random.Generator,
) -> Point:
    """The outcome of one setting, whose columns all rows have.

    Each row has value, low, high, n (content words), for each utility its mean with `_low` and
    `_high`, sentences (the most that a utility is of), and p (see `p_as_sent`).

    Parameters
    ----------
    hits : by attack (AS_SENT among them), (content words,) 1 where its guess is right
    of_sentence : (content words,) the sentence of each, from 0 on
    utility : of UTILITIES, of each sentence; some may be of the first ones alone
    """
    count = max(map(len, utility.values()))
    worth: dict[str, float] = {}
    for name, each in utility.items():
        mean = stats.mean(each, bounds=_BOUNDS[name])
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
    hits: Mapping[str, FloatArray], strongest: str, of_sentence: IntArray, rng: np.random.Generator
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
    content: FloatArray  # (sentences,) content words under attack
    utility: Mapping[str, FloatArray]  # by name, (settings, sentences, or the first of them)


def gathered(points: Sequence[Point], of_sentence: IntArray) -> Points:
    """The outcomes of all settings, in their order."""
    utilities = points[0].utility
    return Points(
        pd.DataFrame([row for each in points for row in each.rows]),
        np.array([each.recovered for each in points]),
        np.bincount(of_sentence, minlength=len(points[0].recovered)).astype(float),
        {name: np.array([each.utility[name] for each in points]) for name in utilities},
    )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Risk and utilities of all settings, on the sentences as they are and drawn anew."""

    settings: pd.DataFrame  # mechanism, epsilon
    risk: FloatArray  # (1 + resamples, settings); row 0 on the sentences as they are
    utility: Mapping[str, FloatArray]  # by name, the same
    counts: Mapping[str, int]  # sentences behind each utility

    @property
    def mechanisms(self) -> dict[str, IntArray]:
        """The settings of each mechanism, by its name, in their order."""
        grouped = self.settings.groupby("mechanism", sort=False).indices
        return {str(name): at for name, at in grouped.items()}


def drawn_anew(points: Points, rng: np.random.Generator, *, resamples: int = 40_000) -> Drawn:
    """Bootstrap over sentences: all settings are measured anew on the same draw.

    Where some measure is of the first sentences alone, it takes those of the draw that are.
    """
    parts = {"": (points.recovered, points.content)}
    parts |= {name: (each, np.ones(each.shape[1])) for name, each in points.utility.items()}

    def means(times: FloatArray) -> list[FloatArray]:
        drawn = [(times[:, : len(weight)], each, weight) for each, weight in parts.values()]
        return [(there @ each.T) / (there @ weight)[:, None] for there, each, weight in drawn]

    count = len(points.content)
    rows = [means(np.ones((1, count)))]
    for start in range(0, resamples, _DRAWS):
        size = min(_DRAWS, resamples - start)
        rows.append(
            means(rng.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64))
        )
    risk, *worth = (np.concatenate(each) for each in zip(*rows, strict=True))
    settings = points.table[["mechanism", "epsilon"]].drop_duplicates(ignore_index=True)
    counts = {name: each.shape[1] for name, each in points.utility.items()}
    return Drawn(settings, risk, dict(zip(points.utility, worth, strict=True)), counts)


def at_equal_utility(drawn: Drawn) -> pd.DataFrame:
    """What two mechanisms let an attacker recover where both leave as much of a utility.

    Two mechanisms are compared a quarter, a half and three quarters of the way along the range of a
    utility that both reach. See `_apart` for the test.

    Columns: utility, quarter, level, first, second, value (risk of the first minus that of the
    second), low, high, n (sentences), p (corrected for all rows by Holm).
    """
    rows = []
    for utility, worth in drawn.utility.items():
        for (first, one), (second, other) in combinations(drawn.mechanisms.items(), 2):
            ends = worth[0, one], worth[0, other]
            low, high = max(map(np.min, ends)), min(map(np.max, ends))
            if low >= high:
                continue
            for number, level in enumerate(np.quantile([low, high], QUARTERS)):
                curves = (read_at(worth[:, at], drawn.risk[:, at], level) for at in (one, other))
                if difference := _apart(*curves):
                    names = {"utility": utility, "quarter": number + 1, "level": level}
                    names |= {"first": first, "second": second, "n": drawn.counts[utility]}
                    rows.append(names | difference)
    return _corrected(rows, ["utility", "quarter", "level"])


def at_equal_risk(drawn: Drawn, risks: Sequence[float]) -> pd.DataFrame:
    """What accuracy two mechanisms leave where attackers recover as many words under both.

    Columns: risk, first, second, value (accuracy under the first minus that under the second), low,
    high, n (sentences), p (corrected for all rows by Holm).
    """
    worth, rows = drawn.utility["accuracy"], []
    for risk in risks:
        curves = {
            name: read_at(drawn.risk[:, at], worth[:, at], risk)
            for name, at in drawn.mechanisms.items()
        }
        for first, second in combinations(curves, 2):
            if difference := _apart(curves[first], curves[second]):
                names = {"risk": risk, "first": first, "second": second}
                rows.append(names | {"n": drawn.counts["accuracy"]} | difference)
    return _corrected(rows, ["risk"])


def at_accuracy(drawn: Drawn, accuracy: float) -> pd.DataFrame:
    """What attackers recover under each mechanism where it leaves an accuracy, least first.

    Intervals are simultaneous over the mechanisms (Bonferroni), so that the least of them has one
    too. Where a draw's accuracies do not reach the level, its risk is that of the nearest setting:
    nothing is extrapolated.

    Columns: mechanism, value, low, high, n (sentences).
    """
    worth, rows = drawn.utility["accuracy"], []
    for name, at in drawn.mechanisms.items():
        risk = read_at(worth[:, at], drawn.risk[:, at], accuracy)
        if np.isfinite(risk[0]):
            beyond = np.where(worth[:, at].max(1) < accuracy, at[-1], at[0])
            risk = np.where(np.isfinite(risk), risk, drawn.risk[np.arange(len(risk)), beyond])
            rows.append({"mechanism": name, "value": risk[0], "drawn": risk[1:]})
    tail = 0.025 / max(1, len(rows))
    for row in rows:
        row["low"], row["high"] = np.quantile(row.pop("drawn"), [tail, 1 - tail])
        row["n"] = drawn.counts["accuracy"]
    table = pd.DataFrame(rows, columns=["mechanism", "value", "low", "high", "n"])
    return table.sort_values("value", kind="stable", ignore_index=True)


def _apart(first: FloatArray, second: FloatArray) -> dict[str, float] | None:
    """By how much a first curve lies above a second one, tested; None where one is not reached.

    Both are (1 + resamples,), row 0 on the sentences as they are, and every other row on one draw
    of the sentences for both: a comparison in pairs. p is two-sided, and never below 2 / (resamples
    + 1): thirteen mechanisms make up to 468 comparisons, of which 4,000 draws could have decided
    none at 5% once p is corrected.
    """
    apart = first - second
    anew = apart[1:][np.isfinite(apart[1:])]
    if not np.isfinite(apart[0]) or len(anew) < 0.95 * (len(apart) - 1):
        return None
    low, high = np.quantile(anew, [0.025, 0.975])
    least = min((anew <= 0).sum(), (anew >= 0).sum())
    p = min(1.0, 2 * (least + 1) / (len(anew) + 1))
    return {"value": apart[0], "low": low, "high": high, "p": p}


def _corrected(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> pd.DataFrame:
    """All comparisons, with p corrected for their number (Holm)."""
    columns = [*keys, "first", "second", "value", "low", "high", "n", "p"]
    table = pd.DataFrame(rows, columns=columns)
    if len(table):
        table["p"] = multipletests(table["p"], method="holm")[1]
    return table


def read_at(along: FloatArray, value: FloatArray, level: float) -> FloatArray:
    """A value where `along` has a level, between a mechanism's settings; NaN beyond the ends.

    Both are (draws, settings), settings in the order of epsilon, with which `along` rises; where
    chance has it fall, the larger one stays.
    """
    rising = np.maximum.accumulate(along, axis=1)
    result = np.full(len(along), np.nan)
    for right_end in range(along.shape[1] - 1, 0, -1):  # the first crossing is written last
        below, above = rising[:, right_end - 1], rising[:, right_end]
        crosses = (below <= level) & (level <= above)
        step = np.where(above > below, above - below, 1.0)
        part = np.clip((level - below) / step, 0, 1)
        between = value[:, right_end - 1] + part * (value[:, right_end] - value[:, right_end - 1])
        result[crosses] = between[crosses]
    return result


def gain(
    hits: Sequence[Mapping[str, FloatArray]], usual: Sequence[str], attack: str, words: IntArray
) -> stats.Estimate:
    """What an attack recovers beyond the usual one, on average over a mechanism's settings.

    Parameters
    ----------
    hits : of each setting, by attack, (words,) 1 where its guess is right
    usual : of each setting, the attack that is strongest on all sentences
    words : (words,) the sentence of each
    """
    more = [each[attack] - each[other] for each, other in zip(hits, usual, strict=True)]
    return stats.clustered_mean(np.mean(more, axis=0), words, bounds=(-1, 1))


def strongest(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """The row of the strongest attack of each group, with an interval that allows for the choice.

    Of columns attack, value, low, high and n; see `f1.strongest`.
    """
    rows = []
    for _, group in table.groupby([*keys], sort=False):
        who, rate = f1.strongest({at: stats.Estimate.from_row(row) for at, row in group.iterrows()})
        rows.append(group.loc[who].to_dict() | {"low": rate.low, "high": rate.high})
    return pd.DataFrame(rows, columns=table.columns).astype(table.dtypes)
