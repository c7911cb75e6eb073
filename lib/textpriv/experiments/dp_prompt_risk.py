"""Notebook 04: the strongest attacker, mechanisms at equal risk, and means that papers compare.

Tables have a row per mechanism, setting, target ("author" or "sentiment"), attacker ("static",
"adaptive" or another) and access ("embedding", "text", "tuned"), with the columns of an `Estimate`.
The risk of a mechanism at a setting is the author F1 of the strongest of its attackers, and its
utility the sentiment F1 of the best of the same classifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from textpriv.attacks.f1 import bonferroni, strongest
from textpriv.channel import IntArray
from textpriv.experiments.dp_prompt import (
    BY_WORD,
    CLEAN,
    CLIPPED,
    DOCUMENTS,
    EMBEDDING,
    FIRST,
    LARGE,
    PIECES,
    PROMPTED,
    Output,
    rows_of,
    shown,
)
from textpriv.experiments.equal_utility import LEFT_OUT
from textpriv.models import Encoder, similarity
from textpriv.report.difference import Finding
from textpriv.report.figures import called, label, listing
from textpriv.report.run import Run
from textpriv.stats import CONFIDENCE, Estimate, Influence, clustered_mean, combined

STATIC, ADAPTIVE, REHEARSED = "static", "adaptive", "rehearsed"
STRONGEST, ANY = "strongest", "any"  # attacker and access of the greatest F1 of all
ATTACK = ["mechanism", "target", "attacker", "access"]

# --- The strongest attacker ---------------------------------------------------------------------


def strongest_of(table: pd.DataFrame) -> pd.DataFrame:
    """The greatest F1 for each target at every setting, of all attackers in the table.

    Intervals are simultaneous over the attackers (`attacks.f1.strongest`). The table's columns,
    with attacker "strongest" and access "any", and: by (who it is, "static text"), tried (number of
    attackers).
    """
    keys, rows = ["mechanism", "setting", "level", "target"], []
    for key, part in table.groupby(keys, sort=False):
        ran = {
            f"{row['attacker']} {row['access']}": Estimate.from_row(row)
            for _, row in part.iterrows()
        }
        by, greatest = strongest(ran)
        named = dict(zip(keys, key, strict=True)) | {"attacker": STRONGEST, "access": ANY}
        rows.append({**named, **greatest.columns(), "by": by, "tried": len(ran)})
    return pd.DataFrame(rows)


def hidden(table: pd.DataFrame, most: float) -> str:
    """What is left of the sentiment where no attacker finds the author, as a title.

    Of rows of `strongest_of`. Hidden means that the strongest attacker's F1 is at most `most`, by
    the upper end of its interval. The best of several settings is too good on average, which makes
    the statement a mild one.
    """
    author, sentiment = (
        table[table["target"] == target].set_index(["mechanism", "setting"])
        for target in ("author", "sentiment")
    )
    clean = sentiment.loc[CLEAN, "value"].item()
    is_hidden = (author["high"] <= most).reindex(sentiment.index, fill_value=False)
    left, risk = sentiment.loc[is_hidden, "value"], f"F1 at most {most:g}"
    if left.empty:
        return f"No setting is shown to hide the author ({risk}); clean sentiment F1: {clean:.2f}"
    mechanism, setting = left.idxmax()
    best = f"sentiment F1 is {left.max():.2f} at best ({label(mechanism)}, {shown(setting)}"
    return f"Where none of the attackers finds the author ({risk}),\n{best}; clean: {clean:.2f})"


def compared(
    run: Run, cases: Iterable[Any], first: str, second: str, *, tests: int = 1
) -> pd.DataFrame:
    """First minus second of recorded measurements, in pairs, and which is above at the 5% level.

    A row for each case, a string or a tuple, over which the two names are format strings. Intervals
    and p-values hold for so many `tests` at once: two maxima over k attackers differ by at most as
    much as some attacker's two values do, so that their difference is one of k (Bonferroni).
    Columns: value, low, high, p, verdict ("above", "below" or "undecided").
    """
    wider, rows = bonferroni(max(1, tests)), {}
    for case in cases:
        fields = case if isinstance(case, tuple) else (case,)
        alone = run.difference(first.format(*fields), second.format(*fields))
        low = alone.value - wider * (alone.value - alone.low)
        high = alone.value + wider * (alone.high - alone.value)
        corrected = replace(alone, low=low, high=high, p=min(1.0, tests * alone.p))
        rows[" ".join(map(str, fields))] = {**vars(corrected), "verdict": corrected.verdict}
    return pd.DataFrame.from_dict(rows, orient="index")


def means_apart(run: Run, table: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    """`compared` of two attackers' author F1, on average over settings, for every mechanism.

    Attackers are called like "adaptive.text"; the table says which mechanisms the first attacked.
    """
    attacked = table.loc[table["access"] == one.split(".")[1], "mechanism"].unique()
    first, second = (f"f1.mean.{{}}.author.{each}" for each in (one, other))
    return compared(run, attacked, first, second)


def gained(run: Run, again: pd.DataFrame) -> pd.DataFrame:
    """What attackers who read several outputs of a document gain by the most of them: `compared`.

    `again` has a row for each mechanism, setting, access (what is read) and k (how many outputs).
    """
    most = again.groupby(["mechanism", "setting", "access"], sort=False)["k"].agg(["max", "min"])
    cases = [*most.reset_index().itertuples(index=False, name=None)]
    ends = "repeated.{0}.{1}.k{3}.{2}", "repeated.{0}.{1}.k{4}.{2}"
    return compared(run, cases, *ends, tests=len(cases))


def tally(table: pd.DataFrame) -> str:
    """How many of `compared` are above, below and undecided."""
    verdicts = list(table["verdict"]) if len(table) else []
    counts = [f"{verdicts.count(each)} {each}" for each in ("above", "below", "undecided")]
    return f"of {len(verdicts)}, {', '.join(counts)}"


# --- At equal risk ------------------------------------------------------------------------------


def at_equal_risk(
    table: pd.DataFrame, risks: Sequence[float], *, attacker: str = STRONGEST, access: str = ANY
) -> pd.DataFrame:
    """What is left of the sentiment where every mechanism gives the author away alike.

    Of the table of `strongest_of`, or one with other attackers. Between the first two neighbouring
    settings of a mechanism, the most private first, of which one has at most so much risk and the
    next at least so much, the sentiment F1 is interpolated. Its interval allows for the errors of
    both F1 and, where they are those of the strongest, for the number of attackers (Bonferroni);
    see `_influence_at`. Where there are no two such settings there is no row. Columns: mechanism,
    risk, level (epsilon or temperature, interpolated), value, low, high, by (who names the author
    on either side), influence.
    """
    chosen = table[(table["attacker"] == attacker) & (table["access"] == access)]
    if "by" not in chosen:
        chosen = chosen.assign(by=f"{attacker} {access}", tried=1)
    rows = []
    for mechanism, part in chosen.groupby("mechanism", sort=False):
        is_cold = mechanism.startswith(PROMPTED)  # a high temperature is private, a low epsilon
        by_level = {target: group.set_index("level") for target, group in part.groupby("target")}
        author = by_level["author"].sort_index(ascending=not is_cold)
        sentiment = by_level["sentiment"].loc[author.index]
        risk, wider = author["value"].to_numpy(), bonferroni(int(part["tried"].max()))
        for wanted in risks:
            starts = np.flatnonzero((risk[:-1] <= wanted) & (wanted <= risk[1:]))
            if not len(starts):
                continue
            both = slice(starts[0], starts[0] + 2)  # the settings on either side
            influence = _influence_at(wanted, author[both], sentiment[both])
            reach = wider * float(norm.ppf((1 + CONFIDENCE) / 2)) * influence.error
            at_level, read = (
                float(np.interp(wanted, risk[both], values[both]))
                for values in (author.index.to_numpy(), sentiment["value"].to_numpy())
            )
            row = {"mechanism": mechanism, "risk": wanted, "level": at_level, "value": read}
            row |= {"low": max(0.0, read - reach), "high": min(1.0, read + reach)}
            by = " or ".join(dict.fromkeys(author["by"].iloc[both]))
            rows.append({**row, "by": by, "influence": influence})
    columns = ["mechanism", "risk", "level", "value", "low", "high", "by", "influence"]
    return pd.DataFrame(rows, columns=columns)


def pairs_at_risk(run: Run, table: pd.DataFrame, tried: int) -> pd.DataFrame:
    """`compared` of recorded rows of `at_equal_risk`, in pairs, for `tried` attackers."""
    couples = [
        (risk, *couple)
        for risk, part in table.groupby("risk")
        for couple in combinations((PROMPTED, CLIPPED, *BY_WORD), 2)
        if {*couple} <= {*part["mechanism"]}
    ]
    ends, tests = ("f1_at_risk.{0:g}.{1}", "f1_at_risk.{0:g}.{2}"), tried * len(couples)
    return compared(run, couples, *ends, tests=tests)


def against_scissors(
    run: Run, table: pd.DataFrame, tried: int, which: str = ""
) -> tuple[pd.DataFrame, Finding]:
    """`compared` of mechanisms with words left out at equal risk, and what is seen.

    The table is one of `at_equal_risk`, recorded, under `tried` attackers. Records the differences.
    `which` attackers these are ends the names: "f1_at_risk" for all, "f1_at_risk_rehearsed".
    """
    reached = table.loc[table["mechanism"] == LEFT_OUT, "risk"]
    there = table[table["risk"].isin(reached) & ~table["mechanism"].isin([LEFT_OUT, FIRST])]
    cases = [*there[["risk", "mechanism"]].itertuples(index=False, name=None)]
    names = f"f1_at_risk{which}.{{0:g}}.{{1}}", f"f1_at_risk{which}.{{0:g}}.{LEFT_OUT}"
    apart = compared(run, cases, *names, tests=tried * len(cases))
    if not cases:
        return apart, Finding("No mechanism has the risk of any share of words left out", "")
    named = pd.DataFrame(cases, columns=["risk", "mechanism"], index=apart.index)
    name = f"f1_over_{LEFT_OUT}{which}.{{risk:g}}.{{mechanism}}"
    run.record_rows(named.join(apart), name, unit="difference", also=["p"])
    more, less = ((apart["verdict"] == each).sum() for each in ("above", "below"))
    value = apart["value"]
    least, most = (f"{value[c]:+.2f} ({c})" for c in (value.idxmin(), value.idxmax()))
    text = f"Sentiment F1 minus that of words left out is {least} to {most}; {tally(apart)}"
    favoured = named.loc[apart["verdict"] == "above", "mechanism"].unique()
    title = (
        f"At equal risk {more} of {len(cases)} comparisons favour a mechanism\n"
        f"significantly{f' ({listing(favoured)})' if more else ''}, {less} the words left out"
        if more or less
        else "At equal risk no mechanism is told apart from leaving words out at random"
    )
    return apart, Finding(title, f"{text} (5% level over all).")


def from_every_run(
    run: Run, learned: pd.DataFrame, risks: Sequence[float]
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """What the attacker on texts gains who learns from every run, and what is kept against it.

    `learned` has its F1, recorded; so is that of who learns from one output. First the difference
    of author F1 at every setting (`compared`), recorded; then `against_scissors` at equal risk,
    both under this one attacker; and both in words.
    """
    author = learned[learned["target"] == "author"].set_index(["mechanism", "setting"])["value"]
    ends = (f"f1.{{0}}.{{1}}.author.{each}.text" for each in (REHEARSED, ADAPTIVE))
    more = compared(run, author.index, *ends, tests=len(author))
    named = author.index.to_frame(index=False).join(more.reset_index(drop=True))
    name = "f1_by_every_run.{mechanism}.{setting}"
    run.record_rows(named, name, unit="difference", also=["p"])
    level = at_equal_risk(learned, risks, attacker=REHEARSED, access="text")
    run.record_rows(level, f"f1_at_risk_{REHEARSED}.{{risk:g}}.{{mechanism}}")
    apart, finding = against_scissors(run, level, 1, f"_{REHEARSED}")
    most = int(more["value"].argmax())
    mechanism, setting = author.index[most]
    said = (
        f"Author F1, learned from every run minus from one: {tally(more)} (5% level over all); "
        f"most {more['value'].iloc[most]:+.2f} ({called(mechanism)}, {shown(setting)}: "
        f"{author.iloc[most]:.2f}). At equal risk under this attacker: {finding}"
    )
    return more, apart, said


def _influence_at(wanted: float, author: pd.DataFrame, sentiment: pd.DataFrame) -> Influence:
    """Influence on a sentiment F1 that is interpolated at a risk, where both are estimates.

    Between two settings with risks a and b the value is v = (1 - s) v_a + s v_b with s = (wanted -
    a) / (b - a), so that dv = (1 - s) (dv_a - m da) + s (dv_b - m db), with m = (v_b - v_a) /
    (b - a) the slope.
    """
    (start, end), (first, last) = author["value"], sentiment["value"]
    # Two equal risks have no slope; one of the two values is meant.
    share = (wanted - start) / (end - start) if end > start else 0.0
    slope = (last - first) / (end - start) if end > start else 0.0
    before, after = (
        value - risk * slope
        for risk, value in zip(author["influence"], sentiment["influence"], strict=True)
    )
    return before * (1 - share) + after * share


# --- Means, falls and gains ---------------------------------------------------------------------


def summaries(
    table: pd.DataFrame, random: Mapping[str, float]
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The numbers that the paper's statements compare: how they are named, their unit, and a table.

    All attackers are asked about the same documents, so that neither is the error of a mean over
    settings that of one setting, nor do errors of two attackers add up.

    f1.random : of guessing
    f1.mean : over a mechanism's settings
    f1.fall : of DP-Prompt, from the lowest temperature to the highest, as a share of the first
    f1.excess : of DeepCandidate, the static attacker's mean beyond guessing at random
    f1.gain : sentiment F1 that a cut to the likeliest tokens adds at the same temperature
    """
    guessing = pd.DataFrame(random.items(), columns=["target", "value"])
    yield "f1.random.plain.{target}", "share", guessing
    means = pd.DataFrame(
        attack | combined([1 / len(f1)] * len(f1), f1, bounds=(0.0, 1.0)).columns()
        for attack, f1 in _by_level(table)
    )
    yield "f1.mean.{mechanism}.{target}.{attacker}.{access}", "share", means
    falls = _rows(
        attack | _relative_fall(f1[0], f1[-1]).columns()
        for attack, f1 in _by_level(table)
        if attack["mechanism"] in (PROMPTED, CLIPPED) and len(f1) > 1
    )
    yield "f1.fall.{target}.{mechanism}.{attacker}.{access}", "difference", falls
    is_deep = means["mechanism"] == "deep-candidate"
    excess = means[is_deep & (means["attacker"] == STATIC) & (means["access"] == EMBEDDING)]
    guessed = np.array([random[target] for target in excess["target"]])
    excess = excess.assign(**{end: excess[end] - guessed for end in ("value", "low", "high")})
    yield "f1.excess.{mechanism}.{target}.{attacker}.{access}", "difference", excess
    gains = _rows(_top_k_gains(table))
    yield "f1.gain.{mechanism}.{setting}.{target}.{attacker}.{access}", "difference", gains


def _rows(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table with all columns even where it has no row."""
    records, columns = list(rows), [*ATTACK, "setting", "value", "low", "high"]
    return pd.DataFrame(records) if records else pd.DataFrame(columns=columns)


def _by_level(table: pd.DataFrame) -> Iterator[tuple[dict[str, str], list[Estimate]]]:
    """Every attack on every mechanism, with its F1 in the order of epsilon or temperature."""
    for key, part in table.groupby(ATTACK, sort=False):
        ordered = part.sort_values("level").to_dict("records")
        yield dict(zip(ATTACK, key, strict=True)), [Estimate.from_row(row) for row in ordered]


def _relative_fall(first: Estimate, last: Estimate) -> Estimate:
    """1 - last / first, whose differential is (ratio d first - d last) / first."""
    ratio = last.value / first.value
    weights, bounds = [ratio / first.value, -1 / first.value], (-np.inf, ratio)
    linear, by = combined(weights, [first, last], bounds=bounds), 1 - ratio
    return replace(linear, value=linear.value + by, low=linear.low + by, high=linear.high + by)


def _top_k_gains(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Sentiment F1 with a cut to the likeliest tokens minus that without, at every temperature."""
    same = ["setting", "target", "attacker", "access"]
    sentiment = table[table["target"] == "sentiment"]
    uncut = sentiment[sentiment["mechanism"] == PROMPTED].set_index(same)
    for row in sentiment.to_dict("records"):
        named = {key: row[key] for key in ["mechanism", *same]}
        at = tuple(row[key] for key in same)
        if row["mechanism"].startswith(f"{PROMPTED}-top-k") and at in uncut.index:
            both = [Estimate.from_row(row), Estimate.from_row(uncut.loc[at])]
            yield named | combined([1, -1], both, bounds=(-1.0, 1.0)).columns()


def word_level_gains(table: pd.DataFrame, attacker: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Word-level mechanisms at equal author F1, under an attacker who sees embeddings.

    Risks and mechanisms are taken as they were found: those that both tables reach, and those that
    are farthest apart. First what 300 dimensions add to the sentiment F1, on average over the
    risks; then the largest difference between two mechanisms of 50 dimensions, without an interval,
    which would be that of one pair and not of a maximum.
    """
    risks = np.linspace(0, 1, 101).tolist()
    level = at_equal_risk(table, risks, attacker=attacker, access=EMBEDDING)
    level = level.assign(n=int(table["n"].min()))
    at = level.set_index(["mechanism", "risk"])
    wide = level.pivot_table(index="risk", columns="mechanism", values="value")
    attack = {"target": "sentiment", "attacker": attacker, "access": EMBEDDING}
    gains, spreads = [], []
    for name in BY_WORD:
        both = [name + LARGE, name]
        within = wide[both].dropna().index.tolist() if {*both} <= {*wide} else []
        if within:
            weights = [sign / len(within) for sign in (1, -1) for _ in within]
            ends = [Estimate.from_row(at.loc[each, risk]) for each in both for risk in within]
            gain = combined(weights, ends, bounds=(-1.0, 1.0))
            gains.append({"mechanism": name + LARGE, **attack, **gain.columns()})
    words = wide[[name for name in BY_WORD if name in wide]].dropna()
    if len(words) and words.shape[1] > 1:
        apart = (words.max(axis=1) - words.min(axis=1)).max()
        spreads.append({**attack, "value": apart, "n": int(table["n"].min())})
    return _rows(gains), _rows(spreads)


# --- What a paraphrase keeps --------------------------------------------------------------------


def alike(encoder: Encoder, outputs: Sequence[Output], documents: IntArray) -> pd.DataFrame:
    """BERTScore F1 and cosine of original and sanitized document, by the encoder at hand.

    The first output is of clean documents; of several runs the first counts, of `documents` these
    rows. The mechanism "other" has another document's original in place of the sanitized one: what
    two texts of this corpus have in common anyway. Columns: mechanism, setting, level, measure
    ("bertscore" or "cosine"), and those of an `Estimate`.
    """
    clean, *sanitized = outputs
    originals = rows_of(clean.texts[0], documents)
    other = {**clean.columns, "mechanism": "other"}
    pairs = [(other, [*originals[1:], originals[0]])]
    pairs += [(each.columns, rows_of(each.texts[0], documents)) for each in sanitized if each.texts]
    rows = []
    for columns, texts in pairs:
        for measure, scores in (
            ("bertscore", similarity.bert_score(encoder, originals, texts)),
            ("cosine", similarity.cosine(encoder, originals, texts, longest=PIECES)),
        ):
            values = np.clip(scores, -1, 1)  # a text resembles itself by 1, but for rounding
            if columns is other:
                # Each document is in two pairs, and takes both with it, as in the jackknife.
                values = values + np.roll(values, 1) - values.mean()
            mean = clustered_mean(values, documents, bounds=(-1.0, 1.0), sample=DOCUMENTS)
            rows.append({**columns, "measure": measure, **mean.columns()})
    return pd.DataFrame(rows)
