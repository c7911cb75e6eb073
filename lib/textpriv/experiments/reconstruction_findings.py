"""The sentences of notebook 05 that compare: each is chosen by a test of the numbers in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from textpriv.attacks import contextual
from textpriv.data.corpora import label as corpus_label
from textpriv.experiments.reconstruction_models import (
    EXTENDED,
    FREE,
    INVERSIONS,
    SEEN,
    SENTENCE,
    TOKEN,
    Trained,
    headline_epsilon,
    training_table,
)
from textpriv.experiments.reconstruction_texts import PUBLIC, SHADOW, Sizes
from textpriv.models import Encoder
from textpriv.report.difference import Difference
from textpriv.report.run import Run

SAID = {"above": "higher", "below": "lower", "undecided": "not significantly different"}
FORMS = {
    TOKEN: "as the paper's would end: a classifier per output, which reads the output alone",
    SENTENCE: "one network, which reads the sentence and names a word that the channel allows",
    FREE: "the same, which may name any word",
}


def tested(
    tests: pd.DataFrame, corpus: str, first: str, second: str, epsilon: float
) -> Difference | None:
    """A row of `reconstruction.compare` of CusText+, with its corrected p-value; None: not run."""
    keys = ["corpus", "defense", "epsilon", "first", "second"]
    rows = tests[(tests[keys] == [corpus, "custext", epsilon, first, second]).all(axis=1)]
    if rows.empty:
        return None
    return Difference(*rows.iloc[0][["difference", "low", "high", "p"]])


def verdict(difference: Difference | None, *, p: bool = True) -> str:
    """Higher, lower or neither, with the difference in points, its interval and its p-value."""
    if difference is None:
        return "not run in this profile"
    wording = difference.says(**SAID)
    value, low, high = (100 * each for each in (difference.value, difference.low, difference.high))
    tested = f"; p = {difference.p:.2g}" if p else ""
    return f"{wording} ({value:+.1f} points, {low:+.1f} to {high:+.1f}{tested})"


@dataclass(frozen=True, eq=False)
class Quotes:
    """How the sentences quote what was recorded, and the paired tests of the same tokens."""

    run: Run
    duels: pd.DataFrame
    sizes: Sizes
    corpus: str

    @property
    def ends(self) -> list[float]:
        """The smallest and the largest epsilon of CusText+ at which networks attack, or the one."""
        epsilons = self.sizes.model_focus["custext"]
        return sorted({min(epsilons), max(epsilons)})

    def name(self, attack: str, epsilon: float, defense: str = "custext", kind: str = "asr") -> str:
        """What a success rate is recorded as."""
        return f"{kind}.{defense}.{self.corpus}.eps{epsilon:g}.{attack.replace('-', '_')}"

    def rates(self, attack: str) -> str:
        """Success on all sentences at both ends."""
        rates = (self.run.measurement(self.name(attack, epsilon)).value for epsilon in self.ends)
        return " and ".join(f"{rate:.1%}" for rate in rates)

    def compared(
        self, first: str, second: str, epsilon: float, defense: str = "custext", kind: str = "asr"
    ) -> Difference:
        """Two attacks without a network, or of another kind of measurement."""
        one, other = (self.name(attack, epsilon, defense, kind) for attack in (first, second))
        return self.run.difference(one, other)

    def duel(self, first: str, second: str) -> str:
        """The corrected tests under CusText+ at every epsilon with networks."""
        tests = {
            epsilon: tested(self.duels, self.corpus, first, second, epsilon)
            for epsilon in self.sizes.model_focus["custext"]
        }
        run = {epsilon: test for epsilon, test in tests.items() if test}
        agree = len({test.verdict for test in run.values()}) == 1
        if not agree or len(run) < max(2, len(tests)):
            return "; ".join(f"{verdict(test)} (epsilon {at:g})" for at, test in tests.items())
        wording = next(iter(run.values())).says(**SAID)
        apart = ", ".join(f"{100 * test.value:+.1f} at {at:g}" for at, test in run.items())
        every = "any" if wording == SAID["undecided"] else "every"
        return f"{wording} at {every} epsilon ({apart}, in points)"


def findings(run: Run, trained: Sequence[Trained], duels: pd.DataFrame, sizes: Sizes) -> str:
    """What notebook 05 found against the paper, as a list: its headline first."""
    quotes = Quotes(run, duels, sizes, trained[0].outcome.corpus)
    knowledge = (
        f"**Knowledge and method.** With the shadow data alone the same method reaches "
        f"{quotes.rates(SHADOW)}; public text without context (frequencies only) "
        f"{quotes.rates('context-free-public')}."
    )
    detector = (
        "**What the detector adds** to context-free Bayes: "
        f"{quotes.duel('contextual-bayes', 'context-free-bayes')}. In the paper's Table 2 it is "
        "between -1.9 and +0.9 points."
    )
    bullets = [
        _headline(quotes, trained),
        _noisy_channel(quotes),
        knowledge,
        _against_contextual(quotes),
        _bound_as_in_the_paper(quotes, len(trained[0].outcome.truth)),
        detector,
        _santext(quotes),
    ]
    return "\n".join(f"- {bullet}" for bullet in bullets)


def _headline(quotes: Quotes, trained: Sequence[Trained]) -> str:
    """The paper's two attacks against every form of Inversion BERT."""
    sizes, epsilon = quotes.sizes, headline_epsilon(quotes.sizes)
    setting = {"corpus": quotes.corpus, "defense": "custext", "epsilon": epsilon}
    chosen = next(one for one in trained if one.outcome.setting == setting)
    outcome = chosen.outcome
    rate = {name: float(hits.mean()) for name, hits in outcome.hits.items()}
    attacks = {"contextual-bayes": "contextual", "context-free-bayes": "context-free"}
    lines = [
        "**The headline.** In the paper the contextual attack is 46.4% above Inversion BERT and "
        "the context-free attack 39.2% (SST-2, CusText+, epsilon 4; it does not say whether "
        "relatively or in points). Here, on "
        f"{corpus_label(outcome.corpus)} at epsilon {epsilon:g} ({len(outcome.truth):,} tokens), "
        f"they recover {rate['contextual-bayes']:.1%} and {rate['context-free-bayes']:.1%} of the "
        "words. Compared with Inversion BERT, in three forms:"
    ]
    for name, what in FORMS.items():
        against = "; ".join(
            f"the {kind} attack is "
            f"{verdict(tested(quotes.duels, outcome.corpus, attack, name, epsilon))}, relatively "
            + (f"{rate[attack] / rate[name] - 1:+.0%}" if rate[name] else "(of none)")
            for attack, kind in attacks.items()
        )
        several = ""
        if not np.isnan(spread := chosen.spread.get(name, np.nan)):
            several = f" ({sizes.inversion_seeds} trainings, standard deviation {spread:.1%})"
        lines.append(f"  - {what}: {rate[name]:.1%}{several}. {against[0].upper()}{against[1:]}.")
    n = quotes.run.measurement(quotes.name(TOKEN, epsilon)).n
    apart = verdict(quotes.compared("context-free-bayes", TOKEN, epsilon), p=False)
    lines.append(
        f"\n  On all {n:,} tokens the context-free attack, compared with the first form, is {apart}"
        ". That form is where the training of its classifiers would end; the released code stops "
        "after three epochs, however few examples one has, which was not measured here."
    )
    return "\n".join(lines)


def _noisy_channel(quotes: Quotes) -> str:
    epsilons = " and ".join(f"{each:g}" for each in quotes.ends)
    above = [
        verdict(quotes.compared(PUBLIC, "context-free-bound", epsilon), p=False)
        for epsilon in quotes.ends
    ]
    return (
        f"**Noisy channel.** On CusText+ at epsilon {epsilons} it recovers "
        f"{quotes.rates(PUBLIC)} of the sanitized words, the context-free attack "
        f"{quotes.rates('context-free-bayes')}, and the context-free bound, which holds for "
        f"attackers who look at one token, {quotes.rates('context-free-bound')}. Compared with "
        f"that bound it is {', and '.join(above)}."
    )


def _against_contextual(quotes: Quotes) -> str:
    low = quotes.ends[0]
    extended = verdict(tested(quotes.duels, quotes.corpus, PUBLIC, EXTENDED, low))
    return (
        "**The noisy channel compared with the attacks that need a network** (same tokens). With "
        f"the contextual attack: {quotes.duel(PUBLIC, 'contextual-bayes')}; where its detector has "
        f"read a little public text too, {extended} (epsilon {low:g}). With the K-ASR bound: "
        f"{quotes.duel(PUBLIC, 'contextual-bound')}. From shadow data alone, with the contextual "
        f"attack: {quotes.duel(SHADOW, 'contextual-bayes')}; with Inversion BERT that reads the "
        f"sentence: {quotes.duel(SHADOW, SENTENCE)}. An attack above the bound is no "
        "contradiction: Theorem 2 grants the exact $P(c \\mid x, y)$, and what is computed in "
        "its place is a classifier's score."
    )


def _bound_as_in_the_paper(quotes: Quotes, tokens: int) -> str:
    sizes, low = quotes.sizes, quotes.ends[0]
    seen = quotes.compared(SEEN, "contextual-bound", low, kind="paired")
    times = 16 * sizes.detector_further_steps / tokens  # of 32 pairs a token has two
    so_long = f" (each token {times:.1f} times, in the paper 90)" if sizes.detector_steps else ""
    return (
        "**The K-ASR bound with the paper's training sentences** has a detector that was trained "
        "on the very sentences that it then answers for, in other sanitized copies"
        f"{so_long}. It is {verdict(seen, p=False)}, compared with a detector of other private "
        f"sentences (epsilon {low:g}). Compared with the context-free bound: "
        f"{quotes.duel(SEEN, 'context-free-bound')}."
    )


def _santext(quotes: Quotes) -> str:
    epsilons = quotes.sizes.santext_epsilons
    gains = [
        quotes.compared(PUBLIC, "context-free-bayes", epsilon, "santext") for epsilon in epsilons
    ]
    counts = Counter(gain.verdict for gain in gains)
    values = [gain.value for gain in gains]
    return (
        f"**SanText+.** On {corpus_label(quotes.corpus)} the noisy channel is above context-free "
        f"Bayes at {counts['above']} of {len(gains)} epsilons, below at {counts['below']}, and "
        f"undecided at {counts['undecided']}; the differences go from {100 * min(values):+.1f} to "
        f"{100 * max(values):+.1f} points."
    )


def trained_enough(trained: Sequence[Trained], encoder: Encoder, sizes: Sizes) -> str:
    """How far the trainings got, in the numbers that would show that they stopped too early."""
    table = training_table(trained)
    moves = 100 * table["gain at the end"].drop(SEEN, level="attack", errors="ignore")
    is_inversion = moves.index.get_level_values("attack").isin(INVERSIONS)
    detectors, inversions = moves[~is_inversion], moves[is_inversion]
    tokens = contextual.MEASURED // 2  # each has two pairs
    return (
        f"Is it trained enough? The masked LM is right at {encoder.accuracy:.1%} of the masked "
        f"words of held-out reviews, and at {encoder.rare_accuracy:.1%} of the rarer ones. Between "
        "their last two marks the accuracy of the detectors that had not read the attacked "
        f"sentences moved by {detectors.min():+.1f} to {detectors.max():+.1f} points, on up to "
        f"{tokens:,} held-out tokens (a standard error of {50 / tokens**0.5:.1f} points or more), "
        "and that of Inversion BERT, which reads the sentence, by "
        f"{inversions.min():+.1f} to {inversions.max():+.1f} points. "
        + (
            f"The detectors saw {16 * sizes.detector_steps:,} shadow tokens, where the paper takes "
            "100 copies of all, three times."
            if sizes.detector_steps
            else "The detectors were trained as long as the paper's."
        )
    )
