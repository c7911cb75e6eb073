"""What notebook 03 has found, in sentences that are chosen by tests of its measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pandas as pd

from textpriv.experiments.lossy import STENCILS, Sizes, crossing
from textpriv.report.figures import label

if TYPE_CHECKING:
    from textpriv.report.run import Run

ORDER = ("plain", "high-freq", "2-random", "3-random", "low-freq")  # of accuracy in the paper
SKIP, RIDGE, LANGUAGE = "naive_skip", "deconvolution", "deconvolution_lm"


def told(run: Run, name: str) -> str:
    """A share with its interval."""
    found = run.measurement(name)
    return f"{found.value:.1%} ({found.low:.1%} to {found.high:.1%})"


def compared(run: Run, one: str, other: str) -> str:
    """How far one measurement lies above another, and whether that is more than the error."""
    apart = run.difference(one, other)
    return f"{apart}, {apart.says(above='more', below='less', undecided='undecided')}"


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
    window, sigma = sizes.crossing[0], sizes.sigmas[-1]
    name = f"pr5.punctuated-stencil-w{window}-s{sigma:.1f}.{corpus}."
    solved = run.difference(name + RIDGE, name + SKIP)
    title = solved.says(
        above="Solving the known map finds what looking at the same position misses",
        below="Solving the known map finds less than looking at the same position",
        undecided="Whether solving the known map finds more is undecided at this size",
    )
    punctuated = (
        f"**The punctuated stencil. {title}.** The paper's 0.0% rests on an attacker who looks at "
        f"the same position only. On {corpus}, window {window}, sigma {sigma:g}, that attacker has "
        f"{told(run, name + SKIP)} (Pr@5); the same guesses for other places, which is chance, "
        f"{told(run, name + 'naive_skip_elsewhere')}. Solving the known linear map gives "
        f"{told(run, name + RIDGE)}, a difference of {solved}: it needs nothing but the definition "
        f"of the stencil. With what public text teaches it is {told(run, name + LANGUAGE)}. The "
        "table tests at every sigma what that adds."
    )
    parts = (_plain_stencil, _noise, _maps)
    return title, "\n\n".join([punctuated, *(part(run, corpus, sizes) for part in parts)])


def _plain_stencil(run: Run, corpus: str, sizes: Sizes) -> str:
    def name(sigma: float, attack: str, top: int = 5) -> str:
        return f"pr{top}.stencil-w{sizes.crossing[0]}-s{sigma:.1f}.{corpus}.{attack}"

    low, high = sizes.sigmas[0], sizes.sigmas[-1]
    simulated = name(low, "stencil_simulation", 1)
    return (
        f"**The plain stencil.** At sigma {high:g} the paper's attacker has "
        f"{told(run, name(high, SKIP))} (Pr@5), the deconvolution with a language model "
        f"{told(run, name(high, LANGUAGE))}: "
        f"{compared(run, name(high, LANGUAGE), name(high, SKIP))}. "
        f"From sigma {low:g} to {high:g} the paper's attacker changes by "
        f"{compared(run, name(high, SKIP), name(low, SKIP))}, the other by "
        f"{compared(run, name(high, LANGUAGE), name(low, LANGUAGE))}. At sigma {low:g}, simulating "
        f"the stencil names {told(run, simulated)} at the first guess; compared with the "
        f"deconvolution, {compared(run, simulated, name(low, LANGUAGE, 1))}."
    )


def _noise(run: Run, corpus: str, sizes: Sizes) -> str:
    said = []
    for eta in sizes.etas:
        near, channel = (f"pr1.noise-{eta:g}.{corpus}.{a}" for a in ("naive", "noisy_channel"))
        said.append(
            f"eta {eta:g}: {told(run, near)} by the nearest piece, {told(run, channel)} by the "
            f"noisy channel ({compared(run, channel, near)})"
        )
    return f"**Noise**, at the first guess: {'; '.join(said)}."


def _maps(run: Run, corpus: str, sizes: Sizes) -> str:
    known, context = (f"pr1.2-random.{corpus}.{a}" for a in ("context_free", "noisy_channel"))
    return (
        "**Lossy maps.** Who knows the pairs and counts word frequencies has "
        f"{told(run, known)} of the tokens back under 2-Random, with triples of pieces "
        f"{told(run, context)}: {compared(run, context, known)}."
    )


def oracle(run: Run, corpora: Sequence[str]) -> tuple[str, str]:
    """A title, and the mean reciprocal rank of whole texts under every map on every corpus."""
    pairs, triplets = (f"oracle.{kind}.{corpora[0]}.mrr" for kind in ("2-random", "3-random"))
    title = run.difference(pairs, triplets).says(
        above="Who knows the groups ranks the true text higher under pairs than under triplets",
        below="Who knows the groups ranks the true text lower under pairs than under triplets",
        undecided="Whether pairs or triplets resist the oracle better is undecided at this size",
    )
    ranks = "; ".join(
        f"{kind} {' and '.join(told(run, f'oracle.{kind}.{each}.mrr') for each in corpora)}"
        for kind in ("2-random", "3-random", "high-freq")
    )
    return title, (
        f"The oracle's mean reciprocal rank of whole texts, on {' and '.join(corpora)}: {ranks}. "
        "The corpora differ in length, in kind and in what the language model may have read, so "
        "that nothing follows about length."
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
        f"{one} less {two} {compared(run, name(one), name(two))}" for one, two in pairwise(ORDER)
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


def sigma_window(run: Run, corpus: str, sizes: Sizes) -> tuple[str, str]:
    """A title, and what sigma and the window change for a classifier."""

    def name(window: int, sigma: float) -> str:
        return f"accuracy.punctuated-stencil-w{window}-s{sigma:.1f}.{corpus}.all"

    window, sigma = sizes.crossing
    low, high = min(sizes.sigmas), max(sizes.sigmas)
    narrow, wide = min(sizes.windows), max(sizes.windows)
    title = run.difference(name(window, high), name(window, low)).says(
        above="The punctuated stencil leaves a classifier more at a larger sigma",
        below="The punctuated stencil leaves a classifier less at a larger sigma",
        undecided="What sigma costs under the punctuated stencil is undecided at this size",
    )
    return title, (
        f"The punctuated stencil on {corpus}, trained on manipulated text: from sigma {low:g} to "
        f"{high:g} at window {window} the accuracy changes by "
        f"{compared(run, name(window, high), name(window, low))}; from window {narrow} to {wide} "
        f"at sigma {sigma:g} by {compared(run, name(wide, sigma), name(narrow, sigma))}."
    )


def grid(table: pd.DataFrame) -> str:
    """A title: the extremes of two attacks on the punctuated stencil, over all sigmas, windows."""
    five = table[(table["kind"] == "punctuated-stencil") & (table["top"] == 5)]
    found = five.groupby("attack")["value"].agg(["min", "max"])
    most, least = found.loc[SKIP, "max"], found.loc[RIDGE, "min"]
    return (
        f"Punctuated: nearest tokens find at most {most:.0%}, solving the map at least {least:.0%}"
    )


def language(table: pd.DataFrame) -> tuple[str, str]:
    """A title, and how much is left of grammar and readability; of `lossy_tables.language`."""
    changed = table[table["kind"] != "plain"]
    kept = changed.loc[changed["low"] > changed["chance"], "label"]
    count = f"{len(kept)} of {len(changed)} settings"
    bits = table.set_index("label")["bits"]
    return f"Parts of speech survive better than by chance in {count}", (
        f"Plain text has {bits['plain']:.2f} bits per character, {bits.idxmax()} has the most, "
        f"{bits.max():.2f}. The interval of the parts of speech kept lies above chance in "
        f"{count}: {', '.join(kept) or 'none'}."
    )
