"""What notebook 03 has found, in sentences that are chosen by tests of its measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import pandas as pd

from textpriv.experiments import lossy_tables as tables
from textpriv.experiments.lossy import STENCILS, Setting, Sizes, Text, Vocabulary, crossing
from textpriv.mechanisms.stencil import Stencil
from textpriv.report.figures import label
from textpriv.report.run import Run

ORDER = ("plain", "high-freq", "2-random", "3-random", "low-freq")  # of accuracy in the paper
SKIP, RIDGE, LANGUAGE = "naive_skip", "deconvolution", "deconvolution_lm"


def told(run: Run, name: str) -> str:
    """A share with its interval."""
    return run.measurement(name).told(".1%")


def compared(run: Run, one: str, other: str) -> str:
    """How far one measurement lies above another, and whether that is more than the error."""
    apart, more, less = run.difference(one, other), "significantly more", "significantly less"
    return f"{apart}, {apart.says(above=more, below=less, undecided='no significant difference')}"


def language_model(run: Run, corpora: Sequence[str], sizes: Sizes) -> pd.DataFrame:
    """What a language model adds to the ridge alone, on both stencils.

    Columns: corpus, mechanism, sigma, and the differences at the first guess and among five.
    """
    rows = []
    for corpus, sigma, kind in product(corpora, sizes.sigmas, STENCILS):
        name = f"{kind}-w{sizes.crossing[0]}-s{sigma:.1f}.{corpus}"
        row = {"corpus": corpus, "mechanism": label(kind), "sigma": f"{sigma:g}"}
        for top in (1, 5):
            ends = f"pr{top}.{name}.{LANGUAGE}", f"pr{top}.{name}.{RIDGE}"
            row[f"language model over ridge, Pr@{top}"] = compared(run, *ends)
        rows.append(row)
    return pd.DataFrame(rows)


def attackers(run: Run, corpus: str, sizes: Sizes) -> tuple[str, str]:
    """A title, and what was found of both stencils, of noise and of maps."""
    window, low, high = sizes.crossing[0], sizes.sigmas[0], sizes.sigmas[-1]

    def stencil(kind: str, sigma: float, attack: str, top: int = 5) -> str:
        return f"pr{top}.{kind}-w{window}-s{sigma:.1f}.{corpus}.{attack}"

    skip, chance, ridge, language = (
        stencil("punctuated-stencil", high, each)
        for each in (SKIP, "naive_skip_elsewhere", RIDGE, LANGUAGE)
    )
    solved = run.difference(ridge, skip)
    title = solved.says(
        above="Solving the known map finds what looking at the same position misses",
        below="Solving the known map finds less than looking at the same position",
        undecided="Whether solving the known map finds more is undecided at this size",
    )
    punctuated = (
        f"**The punctuated stencil. {title}.** The paper's 0.0% rests on an attacker who looks at "
        f"the same position only. On {corpus}, window {window}, sigma {high:g}, that attacker has "
        f"{told(run, skip)} (Pr@5); the same guesses for other places, which is chance, "
        f"{told(run, chance)}. Solving the known linear map gives {told(run, ridge)}, a difference "
        f"of {solved}: it needs the stencil, its vectors and a ridge. With what public text "
        f"teaches it is {told(run, language)}. The table tests at every sigma what that adds."
    )
    simulated = stencil("stencil", low, "stencil_simulation", 1)
    skip, language = (stencil("stencil", high, each) for each in (SKIP, LANGUAGE))
    skip_low, language_low = (stencil("stencil", low, each) for each in (SKIP, LANGUAGE))
    plain = (
        f"**The plain stencil.** At sigma {high:g} the paper's attacker has {told(run, skip)} "
        f"(Pr@5), the deconvolution with a language model {told(run, language)}: "
        f"{compared(run, language, skip)}. From sigma {low:g} to {high:g} the paper's attacker "
        f"changes by {compared(run, skip, skip_low)}, the other by "
        f"{compared(run, language, language_low)}. At sigma {low:g}, simulating the stencil names "
        f"{told(run, simulated)} at the first guess; compared with the deconvolution, "
        f"{compared(run, simulated, stencil('stencil', low, LANGUAGE, 1))}."
    )
    said = []
    for eta in sizes.etas:
        near, alone, whole = (
            f"pr1.noise-{eta:g}.{corpus}.{a}" for a in ("naive", "context_free", "noisy_channel")
        )
        said.append(
            f"eta {eta:g}: {told(run, near)} by the nearest piece, {told(run, alone)} by Bayes' "
            f"rule, {told(run, whole)} by the noisy channel (beyond the nearest piece "
            f"{compared(run, whole, near)})"
        )
    noise = f"**Noise**, at the first guess: {'; '.join(said)}."
    known, context = (f"pr1.2-random.{corpus}.{a}" for a in ("context_free", "noisy_channel"))
    maps = (
        "**Lossy maps.** An attacker who knows the pairs and counts word frequencies recovers "
        f"{told(run, known)} of the tokens under 2-Random, with triples of pieces "
        f"{told(run, context)}: {compared(run, context, known)}."
    )
    shown = f"Punctuated stencil: {title[0].lower()}{title[1:]}"
    return shown, "\n\n".join([punctuated, plain, noise, maps])


def unaided(
    run: Run,
    texts: Mapping[str, Text],
    vocabularies: Mapping[str, Vocabulary],
    sizes: Sizes,
    make: Callable[[Setting, Vocabulary, Any], Stencil],
    corpus: str,
) -> str:
    """Record what who computes nothing has of a text, and say it of a corpus.

    See `lossy_tables.blind` and `lossy_tables.in_sight`.
    """
    run.record_rows(tables.blind(texts, vocabularies, sizes.attacked), "blind{top}.{corpus}")
    sight = tables.in_sight(texts, vocabularies, sizes, make)
    run.record_rows(sight, "in_sight.{label}.{corpus}.{what}")
    five, one = (told(run, f"blind{top}.{corpus}") for top in (5, 1))
    said = f"The five name {five} of the tokens of {corpus}, the most frequent one alone {one}."
    for setting in (f"punctuated-stencil-{each}" for each in ("w9-s1.0", "w5-s0.2", "w11-s0.2")):
        if (sight["label"] == setting).any():
            own, tokens, content, other = (
                told(run, f"in_sight.{setting}.{corpus}.{what}")
                for what in ("own", "tokens", "content", "other")
            )
            said += (
                f"\n\nOf the outputs of *{setting}* {own} are tokens of their text. As they are, "
                f"they show {tokens} of its tokens, and {content} of its content words, in "
                f"whatever place (those of another text show {other})."
            )
    return said


def oracle(run: Run, corpus: str) -> str:
    """A title: which map resists who knows the groups."""
    pairs, triplets = (f"oracle.{kind}.{corpus}.mrr" for kind in ("2-random", "3-random"))
    return run.difference(pairs, triplets).says(
        above="Whoever knows the groups finds the true text more easily under pairs than triplets",
        below="Whoever knows the groups finds the true text more easily under triplets than pairs",
        undecided="Whether pairs or triplets resist the oracle better is undecided at this size",
    )


def utility(run: Run, corpus: str, sizes: Sizes) -> tuple[str, str]:
    """A title, what the maps cost in the paper's order, and where learning the new text helps."""

    def name(setting: str, scenario: str = "all") -> str:
        return f"accuracy.{setting}.{corpus}.{scenario}"

    title = run.difference(name("high-freq"), name("2-random")).says(
        above="A map that keeps the frequent words costs a classifier less than random pairs",
        below="A map that keeps the frequent words costs a classifier more than random pairs",
        undecided="Which map costs a classifier less is undecided at this size",
    )
    steps = "; ".join(
        f"{one} minus {two} {compared(run, name(one), name(two))}" for one, two in pairwise(ORDER)
    )
    settings = [each.label for each in crossing(sizes)[1:]]
    helped = [
        each
        for each in settings
        if run.difference(name(each), name(each, "test")).verdict == "above"
    ]
    return title, (
        f"The probe on {corpus}, trained on manipulated text, in the paper's order: {steps}. "
        "Training on manipulated text does better than training on plain text, each tested at the "
        f"5% level, in {len(helped)} of {len(settings)} settings: {', '.join(helped) or 'none'}."
    )


def sigma_window(run: Run, corpus: str, sizes: Sizes) -> str:
    """What sigma and the window change for a classifier."""

    def name(window: int, sigma: float) -> str:
        return f"accuracy.punctuated-stencil-w{window}-s{sigma:.1f}.{corpus}.all"

    window, sigma = sizes.crossing
    low, high = min(sizes.sigmas), max(sizes.sigmas)
    narrow, wide = min(sizes.windows), max(sizes.windows)
    return (
        f"The punctuated stencil on {corpus}, the probe trained on manipulated text: from sigma "
        f"{low:g} to {high:g} at window {window} the accuracy changes by "
        f"{compared(run, name(window, high), name(window, low))}; from window {narrow} to {wide} "
        f"at sigma {sigma:g} by {compared(run, name(wide, sigma), name(narrow, sigma))}."
    )


def grid(table: pd.DataFrame) -> str:
    """The extremes of two attacks on the punctuated stencil, over all sigmas, windows."""
    five = table[(table["kind"] == "punctuated-stencil") & (table["top"] == 5)]
    extremes = five.groupby("attack")["value"].agg(["min", "max"])
    most, least = extremes.loc[SKIP, "max"], extremes.loc[RIDGE, "min"]
    return (
        f"Punctuated: nearest tokens (the output skipped) find at most {most:.0%}, solving the map "
        f"at least {least:.0%}"
    )


def language(table: pd.DataFrame) -> str:
    """How much is left of grammar and readability; of rows of `lossy_tables.language`."""
    changed = table[table["kind"] != "plain"]
    kept = changed.loc[changed["low"] > changed["chance"], "label"]
    bits = table.set_index("label")["bits"]
    return (
        f"Plain text has {bits['plain']:.2f} bits per character, {bits.idxmax()} has the most, "
        f"{bits.max():.2f}. The interval of the parts of speech kept lies above chance in "
        f"{len(kept)} of {len(changed)} settings: {', '.join(kept) or 'none'}."
    )
