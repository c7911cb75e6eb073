"""Words of a sentence, read from its released vector: a logistic regression for every word.

    reader = VectorWords(vectors, sentences)       # public: vectors, and the words of each
    scores = reader.log_odds(released)             # (released, words) of every word
    reader.words[scores[0].argmax()]               # the word that the first most likely has

The attacker needs no encoder, only public sentences and their vectors. Where vectors are released
with noise of a known law, it learns from noisy ones, drawn anew whenever a sentence is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import COUNT, checked
from textpriv.errors import InvalidInput
from textpriv.models import Training, endless, fine_tune
from textpriv.seeds import stream

FEWEST = 5  # public sentences that have a word which is learned
_STANDARD = 4096  # vectors from which the range of every coordinate is learned

Release = Callable[[IntArray, np.random.Generator], NDArray[np.floating]]


class VectorWords:
    """ln odds that a sentence has each word, linear in its vector; learned for all words at once.

    Parameters
    ----------
    vectors : (sentences, width) of public sentences
    sentences : the words of each
    release : what is put out for the sentences of some numbers, drawn anew in each call; None for
        the vectors themselves
    fewest : words of so many public sentences are learned
    training : None: 1,500 steps of 256 sentences
    seed : of the order and of the noise

    Attributes
    ----------
    words : those that are learned, most frequent first
    frequency : (words,) share of the public sentences that have each

    References
    ----------
    Song and Raghunathan 2020, Information Leakage in Embedding Models, section 4.1 (inversion as
    classification with many labels).
    """

    @checked(fewest=COUNT)
    def __init__(
        self,
        vectors: NDArray[np.floating],
        sentences: Sequence[Set[str]],
        *,
        release: Release | None = None,
        fewest: int = FEWEST,
        training: Training | None = None,
        seed: int = 0,
    ) -> None:
        known = np.asarray(vectors, dtype=np.float32)
        if known.ndim != 2 or len(known) != len(sentences) or not np.isfinite(known).all():
            raise InvalidInput(
                f"vectors, sentences: got {known.shape} and {len(sentences)}, expected a finite "
                "vector for every sentence"
            )
        count = Counter(word for words in sentences for word in sorted(words))
        self.words = [word for word, times in count.most_common() if times >= fewest]
        if not self.words:
            raise InvalidInput(f"sentences: no word is in {fewest} of them; give more sentences")
        self.frequency = np.array([count[word] for word in self.words]) / len(sentences)
        has = self._has(sentences)
        given = training or Training(steps=1500, batch=256, learning_rate=5e-3)
        rng = stream(seed, "vector words")
        order = endless(np.arange(len(known)), rng)
        some = rng.permutation(len(known))[:_STANDARD]
        seen = known[some] if release is None else release(some, rng)
        self._centre, self._spread = seen.mean(0), seen.std(0) + 1e-9
        self._linear = torch.nn.Linear(known.shape[1], len(self.words))
        with torch.no_grad():  # at first, what is known without a vector
            self._linear.weight.zero_()
            self._linear.bias.copy_(torch.from_numpy(logit(self.frequency.clip(max=0.99))))

        def loss(step: int) -> torch.Tensor:
            rows = order(step * given.batch, (step + 1) * given.batch)
            shown = known[rows] if release is None else release(rows, rng)
            truth = torch.from_numpy(has[rows].toarray())
            return F.binary_cross_entropy_with_logits(
                self._scores(shown), truth, reduction="sum"
            ) / len(rows)

        fine_tune([self._linear], loss, given, seed=seed, measure=lambda: 0.0)

    @torch.inference_mode()
    def log_odds(self, released: NDArray[np.floating]) -> FloatArray:
        """ln odds of every word under each released vector: (released, words)."""
        return np.asarray(self._scores(released).double().numpy())

    def _scores(self, released: NDArray[np.floating]) -> torch.Tensor:
        standard = (np.asarray(released) - self._centre) / self._spread
        scores: torch.Tensor = self._linear(torch.from_numpy(standard.astype(np.float32)))
        return scores

    def _has(self, sentences: Sequence[Set[str]]) -> sparse.csr_matrix:
        """Whether a sentence has a word, 0 or 1: (sentences, words)."""
        column = {word: number for number, word in enumerate(self.words)}
        rows = [[column[word] for word in words if word in column] for words in sentences]
        start = np.cumsum([0, *map(len, rows)])
        ones = np.ones(start[-1], dtype=np.float32)
        return sparse.csr_matrix(
            (ones, np.concatenate([np.array(row, dtype=np.int64) for row in rows]), start),
            shape=(len(sentences), len(self.words)),
        )
