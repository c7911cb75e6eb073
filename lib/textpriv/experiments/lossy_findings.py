"""What notebook 03 has found, in sentences that are chosen by tests of its measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pandas as pd

from textpriv.experiments.lossy import STENCILS, Sizes, crossing
from textpriv.experiments.lossy_attacks import LANGUAGE, RAW, RIDGE, SKIP
from textpriv.report.figures import label

if TYPE_CHECKING:
    from textpriv.report.run import Run

ORDER = ("plain", "high-freq", "2-random", "3-random", "low-freq")  # of accuracy in the paper


def told(run: Run, name: str) -> str:
    """A share with its interval."""
    found = run.measurement(name)
    if found.low is None or found.high is None:
        return f"{found.value:.1%}"
    return f"{found.value:.1%} ({found.low:.1%} to {found.high:.1%})"


def compared(run: Run, one: str, other: str) -> str:
    """How far one measurement lies above another, and whether that is more than the error."""
    apart = run.difference(one, other)
    return f"{apart}, {apart.says(above='more', below='less', undecided='undecided')}"


def stencils(run: Run, corpora: Sequence[str], sizes: Sizes) -> pd.DataFrame:
    """Attacks on both stencils at the first guess and among five, and what a model adds.

    Columns: corpus, mechanism, sigma, one per attack ("Pr@1 / Pr@5"), the differences of the
    language model and the ridge alone in either.
    """
    rows = []
    for corpus, sigma, kind in product(corpora, sizes.sigmas, STENCILS):
        name = f"{kind}-w{sizes.crossing[0]}-s{sigma:.1f}.{corpus}"
        row = {"corpus": corpus, "mechanism": label(kind), "sigma": f"{sigma:g}"}
        for attack in (SKIP, RAW, RIDGE, LANGUAGE):
            both = (run.measurement(f"pr{top}.{name}.{attack}").value for top in (1, 5))
            row[label(attack)] = " / ".join(f"{value:.3f}" for value in both)
        for top in (1, 5):
            ends = f"pr{top}.{name}.{LANGUAGE}", f"pr{top}.{name}.{RIDGE}"
            row[f"language model over ridge, Pr@{top}"] = compared(run, *ends)
        rows.append(row)
    return pd.DataFrame(rows)


def findings(run: Run, corpora: Sequence[str], sizes: Sizes) -> str:
    """All of it, a paragraph for each kind of manipulation; most of it about the first corpus."""
    parts = (_punctuated, _plain_stencil, _noise)
    said = [part(run, corpora[0], sizes) for part in parts]
    return "\n\n".join([*said, _maps(run, corpora), _utility(run, corpora[0], sizes)])


def _punctuated(run: Run, corpus: str, sizes: Sizes) -> str:
    window, sigma = sizes.crossing[0], sizes.sigmas[-1]
    name = f"pr5.punctuated-stencil-w{window}-s{sigma:.1f}.{corpus}."
    solved = run.difference(name + RIDGE, name + SKIP)
    found = solved.says(
        above="What the paper's attacker misses is there all the same.",
        below="Solving for the text finds less than looking at one place.",
        undecided="Whether solving for the text finds more is undecided at this size.",
    )
    return (
        f"**The punctuated stencil. {found}** The paper's 0.0% rests on an attacker who looks at "
        f"the same position only. On {corpus}, window {window}, sigma {sigma:g}, that attacker has "
        f"{told(run, name + SKIP)} (Pr@5); the same guesses for other places, which is chance, "
        f"{told(run, name + 'naive_skip_elsewhere')}. Solving the known linear map gives "
        f"{told(run, name + RIDGE)}, a difference of {solved}: it needs nothing but the definition "
        f"of the stencil. With what public text teaches it is {told(run, name + LANGUAGE)}. The "
        "table tests at every sigma what that adds."
    )


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


def _maps(run: Run, corpora: Sequence[str]) -> str:
    known, context = (f"pr1.2-random.{corpora[0]}.{a}" for a in ("context_free", "noisy_channel"))
    oracle = "; ".join(
        f"{kind} {' and '.join(told(run, f'oracle.{kind}.{each}.mrr') for each in corpora)}"
        for kind in ("2-random", "3-random", "high-freq")
    )
    return (
        "**Lossy maps.** Who knows the pairs and counts word frequencies has "
        f"{told(run, known)} of the tokens back under 2-Random, with triples of pieces "
        f"{told(run, context)}: {compared(run, context, known)}. The oracle's mean reciprocal rank "
        f"of whole texts, on {' and '.join(corpora)}: {oracle}. The corpora differ in length, in "
        "kind and in what the language model may have read, so that nothing follows about length."
    )


def _utility(run: Run, corpus: str, sizes: Sizes) -> str:
    def name(setting: str, scenario: str = "all") -> str:
        return f"accuracy.{setting}.{corpus}.{scenario}"

    steps = "; ".join(
        f"{one} less {two} {compared(run, name(one), name(two))}" for one, two in pairwise(ORDER)
    )
    narrow, wide = (
        name(f"punctuated-stencil-w{window}-s{sizes.crossing[1]:.1f}")
        for window in (min(sizes.windows), max(sizes.windows))
    )
    settings = [each.label for each in crossing(sizes)[1:]]
    helped = [
        each
        for each in settings
        if run.difference(name(each), name(each, "test")).verdict == "above"
    ]
    return (
        f"**Utility** (the probe on {corpus}, trained on manipulated text). In the paper's order: "
        f"{steps}. The punctuated stencil, from window {min(sizes.windows)} to "
        f"{max(sizes.windows)} at sigma {sizes.crossing[1]:g}: {compared(run, wide, narrow)}. "
        "Training on manipulated text does better than training on plain text, each tested at the "
        f"5% level, in {len(helped)} of {len(settings)} settings: {', '.join(helped) or 'none'}."
    )
