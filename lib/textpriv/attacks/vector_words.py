"""Words of a sentence, read from its released vector: a logistic regression for every word.

    reader = VectorWords(vectors, sentences)       # public: vectors, and the words of each
    scores = reader.log_odds(released)             # (released, words) of every word
    reader.words[scores[0].argmax()]               # the word that the first most likely has

The attacker needs no encoder, only public sentences and their vectors. Where vectors are released
with noise of a known law, it learns from noisy ones, drawn anew whenever a sentence is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.feature_extraction.text import CountVectorizer

from textpriv.channel import FloatArray, IntArray
from textpriv.errors import InvalidInput
from textpriv.models import Training, endless, fine_tune
from textpriv.seeds import stream

FEWEST = 5  # public sentences that have a word which is learned
_STANDARD = 4096  # vectors from which the range of every coordinate is learned

Release = Callable[[IntArray, np.random.Generator], NDArray[np.floating]]


def learned(sentences: Sequence[Set[str]]) -> CountVectorizer:
    """Tells which words a sentence has, of those that FEWEST of these sentences have."""
    counter = CountVectorizer(analyzer=sorted, min_df=FEWEST, binary=True, dtype=np.float32)
    try:
        return counter.fit(sentences)
    except ValueError as error:  # scikit-learn's only answer where there is none
        raise InvalidInput(
            f"sentences: no word is in {FEWEST} of them, expected some; give more sentences"
        ) from error


class VectorWords:
    """ln odds that a sentence has each word, linear in its vector; learned for all words at once.

    Parameters
    ----------
    vectors : (sentences, width) of public sentences
    sentences : the words of each
    release : what is put out for the sentences of some numbers, drawn anew in each call; None for
        the vectors themselves
    training : None: 1,500 steps of 256 sentences
    seed : of the order and of the noise

    Attributes
    ----------
    words : (words,) those that FEWEST of the public sentences have
    frequency : (words,) share of the public sentences that have each

    References
    ----------
    Song and Raghunathan 2020, Information Leakage in Embedding Models (inversion as classification
    with many labels).
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        sentences: Sequence[Set[str]],
        *,
        release: Release | None = None,
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        known = np.asarray(vectors, dtype=np.float32)
        if known.ndim != 2 or len(known) != len(sentences) or not np.isfinite(known).all():
            raise InvalidInput(
                f"vectors, sentences: got {known.shape} and {len(sentences)}, expected a finite "
                "vector for every sentence"
            )
        counter = learned(sentences)
        has = counter.transform(sentences)
        self.words = counter.get_feature_names_out()
        self.frequency = np.asarray(has.sum(axis=0, dtype=np.float64)).ravel() / len(sentences)
        look = release or (lambda rows, _: known[rows])
        given = training or Training(steps=1500, batch=256, learning_rate=5e-3)
        rng = stream(seed, "vector words")
        order = endless(np.arange(len(known)), rng)
        seen = look(rng.permutation(len(known))[:_STANDARD], rng)
        self._centre, self._spread = seen.mean(0), seen.std(0) + 1e-9
        self._linear = torch.nn.utils.skip_init(torch.nn.Linear, known.shape[1], len(self.words))
        with torch.no_grad():  # at first, what is known without a vector
            self._linear.weight.zero_()
            self._linear.bias.copy_(torch.from_numpy(logit(self.frequency.clip(max=0.99))))

        def loss(step: int) -> torch.Tensor:
            rows = order(step * given.batch, (step + 1) * given.batch)
            scores, truth = self._scores(look(rows, rng)), torch.from_numpy(has[rows].toarray())
            return F.binary_cross_entropy_with_logits(scores, truth, reduction="sum") / len(rows)

        fine_tune([self._linear], loss, given, seed=seed, measure=lambda: 0.0)

    @torch.inference_mode()
    def log_odds(self, released: NDArray[np.floating]) -> FloatArray:
        """ln odds of every word under each released vector: (released, words)."""
        return np.asarray(self._scores(released).double().numpy())

    def _scores(self, released: NDArray[np.floating]) -> torch.Tensor:
        standard = (np.asarray(released) - self._centre) / self._spread
        scores: torch.Tensor = self._linear(torch.from_numpy(standard.astype(np.float32)))
        return scores
