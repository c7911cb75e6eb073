"""Notebook 05: word-level mechanisms where an attacker is equally successful.

Epsilon has another unit in every mechanism, so they are compared by what attacks recover and by
what a classifier still achieves, on the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from statsmodels.stats.multitest import multipletests

from textpriv import stats, study
from textpriv.attacks.base import NONE, FloatArray, IntArray, is_input, observe
from textpriv.attacks.bayes import Bayes
from textpriv.channel import Channel
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEEP_UNKNOWN, Tokenizer
from textpriv.experiments.mechanisms import classifier
from textpriv.experiments.reconstruction import noisy
from textpriv.experiments.reconstruction_texts import PUBLIC, Knowledge, Material, Sizes
from textpriv.mechanisms import FiniteMechanism, Madlib, Mechanism
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.models import Encoder
from textpriv.models.similarity import cosine
from textpriv.neighbors import ExactSearch
from textpriv.seeds import stream

AS_SENT = "as-sent"  # the attack that believes what it sees
UTILITIES = ("accuracy", "meaning")  # of sentiment, and of a sentence's vector
QUARTERS = (0.25, 0.5, 0.75)  # of the range of a utility: where mechanisms are compared
_DRAWS = 4000  # of sentences, held at once

_Outcome = tuple[list[dict[str, Any]], FloatArray, dict[str, FloatArray]]


@dataclass(frozen=True, eq=False)
class Contenders:
    """Word-level mechanisms over one vocabulary, by name, each made where it is attacked.

    Making one, at all of its epsilons and with the channels that are attacked, may take longer than
    its attacks.
    """

    embedding: Embedding
    make: Mapping[str, Callable[[], list[tuple[Mechanism, Channel]]]]


def risk_mechanisms(
    embedding: Embedding,
    known: Mapping[str, Mapping[float, FiniteMechanism]],
    sizes: Sizes,
    rng: np.random.Generator,
) -> Contenders:
    """The mechanisms of the profile.

    CusText+ and SanText+ come from `known`, the others from the registry. SanText without the plus
    spares no word and is left out, being the same otherwise.
    """
    given = {"custext+": known["custext"], "santext+": known["santext"]}

    def one_made(name: str, epsilons: Sequence[float]) -> list[tuple[Mechanism, Channel]]:
        """Finite mechanisms are their own channels; that of MADLIB is an estimate."""
        if name in given:
            return [(each, each) for each in map(given[name].__getitem__, epsilons)]
        mechanism = WORD_LEVEL[name].make(embedding, ExactSearch(embedding.vectors))
        if isinstance(mechanism, Madlib):
            channels = NoiseChannel.estimate(mechanism, epsilons, rng)
            return [(mechanism.with_epsilon(e), channel) for e, channel in channels.items()]
        return [(each, each) for each in cast(FiniteMechanism, mechanism).sweep(epsilons)]

    wanted = sizes.risk_epsilons.items()
    return Contenders(embedding, {name: partial(one_made, name, each) for name, each in wanted})


@dataclass(frozen=True, eq=False)
class Risks:
    """What attacks recover and what the sanitized text is still worth, by mechanism and epsilon."""

    # A row per mechanism, epsilon and attack: value, low, high, n (content words), and for each of
    # UTILITIES its value with `_low` and `_high`; sentences, kept, p (see `p_as_sent`).
    table: pd.DataFrame
    clean: float  # accuracy on the sentences in clear; NaN where they have no labels
    recovered: FloatArray  # (settings, sentences) content words that the strongest attack recovers
    content: FloatArray  # (sentences,) content words
    utility: Mapping[str, FloatArray]  # by name, (settings, sentences)


def risk(
    material: Material,
    mechanisms: Contenders,
    knowledge: Knowledge,
    encoder: Encoder,
    sizes: Sizes,
    seed: int | None,
) -> Risks:
    """Success of attacks on content words, and what is left of sentiment and of meaning.

    Function words count for nothing, so every attack guesses the likeliest of the other words. The
    simplest believes each word as it was sent.

    All mechanisms sanitize the same sentences. The classifier has learned from other sentences,
    in clear; meaning is the cosine of a sentence's vector before and after. Of a corpus without
    labels every accuracy is NaN.
    """
    weights = {PUBLIC: 0.75}  # what most rehearsals choose; the results list them
    count = min(sizes.risk_sentences, len(material.texts) // 2)
    embedding = mechanisms.embedding
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    words = tokenizer.words_of(material.texts)
    labels = np.zeros(len(words)) if material.labels is None else material.labels
    model = None if material.labels is None else classifier(0).fit(words[count:], labels[count:])
    private, aim = material.first(count), material.private.counts(len(embedding)).astype(float)
    spared = embedding.ids(sorted(ENGLISH_STOP_WORDS))
    aim[spared[spared >= 0]] = 0
    content = np.flatnonzero((private.ids >= 0) & ~np.isin(private.ids, spared))
    of_sentence = private.document[content]

    def attacked(mechanism: Mechanism, channel: Channel) -> _Outcome:
        rng = stream(seed, "05", "risk", mechanism.name, mechanism.epsilon)
        seen = observe(mechanism, private, rng)
        made = tokenizer.decode(seen.corpus)
        utility = {"meaning": cosine(encoder, words[:count], made)}
        if model:
            utility["accuracy"] = (model.predict(made) == labels[:count]).astype(float)
        worth = {name: stats.mean(each, bounds=(-1, 1)) for name, each in utility.items()}
        targets = content[seen.sanitized[content]]
        bound = Bayes(channel, aim * is_input(channel), name="context-free-bound")
        decoder = noisy(channel, knowledge.public, PUBLIC, weights, sizes)
        named = {AS_SENT: seen.corpus.ids[targets]}
        for attack in (bound, decoder):
            guesses = attack.guess(seen, targets, top=sizes.kept)
            named[attack.name] = likeliest_except(guesses.words, spared)
        kept = float((seen.corpus.ids[content] == private.ids[content]).mean())
        right: dict[str, FloatArray] = {}
        for attack_name, guessed in named.items():
            recovered = np.ones(len(private.ids))  # what passes in clear is
            recovered[targets] = guessed == private.ids[targets]
            right[attack_name] = recovered[content]
        strongest = max(right, key=lambda name: right[name].sum())
        rng = stream(seed, "05", "risk tests", mechanism.name, mechanism.epsilon)
        p = p_as_sent(right, strongest, of_sentence, rng)
        rows = [
            {
                "mechanism": mechanism.name,
                "epsilon": mechanism.epsilon,
                "attack": attack_name,
                **stats.clustered_share(each, of_sentence).columns(),
                **_utilities(worth),
                "sentences": count,
                "kept": kept,
                "p": p,
            }
            for attack_name, each in right.items()
        ]
        hits = np.bincount(of_sentence, right[strongest], count).astype(float)
        return rows, hits, utility

    def attacked_at_each(name: str) -> list[_Outcome]:
        made = mechanisms.make[name]()[::-1]
        return [attacked(*made.pop()) for _ in range(len(made))]  # what each worked out is freed

    names = [*mechanisms.make][::-1]  # of the profiles' mechanisms the dearest stand last
    made = study.measure(attacked_at_each, over=study.grid(name=names))
    rows, hits, utility = zip(*chain.from_iterable(made[::-1]), strict=True)
    return Risks(
        pd.DataFrame([*chain.from_iterable(rows)]),
        float((model.predict(words[:count]) == labels[:count]).mean()) if model else np.nan,
        np.array(hits),
        np.bincount(of_sentence, minlength=count).astype(float),
        {name: np.array([each[name] for each in utility]) for name in utility[0]},
    )


def p_as_sent(
    right: Mapping[str, FloatArray],
    strongest: str,
    of_sentence: IntArray,
    rng: np.random.Generator,
) -> float:
    """Whether the strongest attack is no better than believing each word as sent: a p-value.

    A paired test of the same words, (words,) 1 where an attack is `right`, by sentence. Corrected
    (Bonferroni) for the strongest having been chosen from all but AS_SENT.
    """
    p = stats.paired_test(right[strongest], right[AS_SENT], of_sentence, rng)
    return min(1.0, (len(right) - 1) * p)


def likeliest_except(guesses: IntArray, excluded: IntArray) -> IntArray:
    """The first of the guesses, (tokens, top) ids, that is not excluded: (tokens,), or NONE."""
    aimed = ~np.isin(guesses, [*excluded, NONE])
    first = guesses[np.arange(len(aimed)), aimed.argmax(axis=1)]
    return np.where(aimed.any(axis=1), first, NONE)


def _utilities(worth: Mapping[str, stats.Estimate]) -> dict[str, float]:
    """Columns of a row: each utility with its interval; NaN where it was not measured."""
    unknown = stats.Estimate(np.nan, np.nan, np.nan, 0)
    columns: dict[str, float] = {}
    for name in UTILITIES:
        found = worth.get(name, unknown)
        columns |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return columns


def at_equal_utility(
    risks: Risks, rng: np.random.Generator, *, resamples: int = 40_000
) -> pd.DataFrame:
    """What two mechanisms let an attacker recover where both leave as much of a utility.

    The utilities compared are a quarter, a half and three quarters of the way from the least to the
    most that any setting has. Along a mechanism's epsilons its risk is interpolated in its utility,
    never beyond its ends. All mechanisms sanitized the same sentences, so that a difference is
    drawn anew with its sentences (bootstrap), both mechanisms on the same draw. No p is below
    2 / (resamples + 1) before it is corrected: eight mechanisms make up to 168 rows, of which 4,000
    draws could have decided none at 5%.

    Columns: utility, quarter, level, first, second, value (risk of the first minus that of the
    second), low, high (95%, percentiles), n (sentences), p (two-sided, corrected for all rows by
    Holm).
    """
    count = len(risks.content)
    totals = _drawn_anew([risks.recovered, risks.content[None], *risks.utility.values()],
                         rng, resamples)  # fmt: skip
    risk_of = totals[0] / totals[1]
    settings = risks.table[["mechanism", "epsilon"]].drop_duplicates(ignore_index=True)
    rows = []
    for (utility, values), sums in zip(risks.utility.items(), totals[2:], strict=True):
        worth = sums / count
        levels = np.quantile([values.mean(1).min(), values.mean(1).max()], QUARTERS)
        for number, level in enumerate(levels):
            curves = {
                str(name): _interpolated(worth[:, each.index], risk_of[:, each.index], level)
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


def _interpolated(utility: FloatArray, risk: FloatArray, level: float) -> FloatArray:
    """Risk at a utility, along the settings of a mechanism, of every draw; NaN beyond the ends.

    Utility rises with epsilon; where chance has it fall, the larger one stays (both are (draws,
    settings), settings in the order of epsilon).
    """
    rising = np.maximum.accumulate(utility, axis=1)
    result = np.full(len(utility), np.nan)
    for right in range(utility.shape[1] - 1, 0, -1):  # the first crossing is written last
        below, above = rising[:, right - 1], rising[:, right]
        crosses = (below <= level) & (level <= above)
        step = np.where(above > below, above - below, 1.0)
        part = np.clip((level - below) / step, 0, 1)
        between = risk[:, right - 1] + part * (risk[:, right] - risk[:, right - 1])
        result[crosses] = between[crosses]
    return result
