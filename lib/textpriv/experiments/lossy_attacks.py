"""Notebook 03: what its attacks need beyond those of `textpriv.attacks`."""

from __future__ import annotations

import numpy as np

from textpriv.attacks.base import (
    NONE,
    Attack,
    BoolArray,
    FloatArray,
    Guesses,
    IntArray,
    Observed,
    check_targets,
    check_top,
)
from textpriv.attacks.deconvolution import hits_anywhere
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.experiments.lossy import TokenNoise, Vocabulary
from textpriv.mechanisms.estimated import NoiseChannel


class OutputItself(Attack):
    """The output is the guess, and the only one: right for what a lossy map leaves as it is."""

    name = "naive"

    def guess(
        self, observed: Observed, targets: IntArray | None = None, *, top: int = 5
    ) -> Guesses:
        check_top(top)
        words = observed.corpus.ids[check_targets(observed, targets)][:, None]
        return Guesses(words, np.zeros(words.shape))


class InRows(Attack):
    """An attack in the numbers of `noise.madlib`, asked about pieces and answering in pieces."""

    def __init__(self, noise: TokenNoise, attack: Attack) -> None:
        self.noise, self.attack, self.name = noise, attack, attack.name

    def guess(
        self, observed: Observed, targets: IntArray | None = None, *, top: int = 5
    ) -> Guesses:
        rows = Observed(self.noise.in_rows(observed.corpus), observed.sanitized)
        found = self.attack.guess(rows, targets, top=top)
        words = np.where(found.words == NONE, NONE, self.noise.inputs[found.words])
        return Guesses(words, found.scores)


def noise_decoder(noise: TokenNoise, vocabulary: Vocabulary) -> NoisyChannel:
    """A noisy channel in MADLIB's numbers: P(output | input) estimated, triples of public pieces.

    The weight of the language model is the one that does best on public text that it has not read,
    after noise drawn from `noise.rng`.
    """
    eta = noise.madlib.epsilon
    estimate = NoiseChannel.estimate(
        noise.madlib, [eta], noise.rng, directions=8, sampled_words=64
    )[eta]
    _, shadow, unread = (noise.in_rows(each) for each in vocabulary.parts)
    triples = NGrams.train(Lexicon(noise.madlib.size, [unread]), [unread], order=3)
    tried = Observed(noise.sanitize_rows(shadow), shadow.ids >= 0)
    weight = tuned_weight(estimate, triples, tried, shadow, weights=(0.25, 0.5, 1.0))
    return NoisyChannel(estimate, model=triples, weight=weight)


def hits(
    name: str, guesses: Guesses, observed: Observed, truth: IntArray
) -> dict[int, BoolArray | FloatArray]:
    """Which targets an attack of this name has found: (targets,), by how many guesses count.

    "anywhere" counts the guesses of "naive" for any position of the document,
    "naive_skip_elsewhere" how often those of "naive_skip" would be right at another place: who is
    no better has learned from the place nothing but how frequent tokens are.
    """
    if name == "anywhere":
        return {5: hits_anywhere(guesses, observed.corpus, observed.targets, truth)}
    if name == "naive_skip_elsewhere":
        counts = np.bincount(truth, minlength=int(guesses.words.max()) + 1)
        frequency = np.append(counts, 0) / len(truth)  # the last stands for NONE
        return {5: frequency[guesses.words].sum(1)}
    return {top: guesses.hits(truth, top=top) for top in sorted({1, guesses.words.shape[1]})}
