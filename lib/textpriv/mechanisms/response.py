"""Randomized response: every other word is as likely as any, whatever the words mean.

    mechanism = RandomizedResponse(embedding, epsilon=10.4)
    mechanism.kept                                    # 0.5 of the words stay, of 33,860
    RandomizedResponse.keeping(embedding, 0.5)        # the same, by the share

The oldest local mechanism, and the line to beat for all that prefer near words: where every word is
to stay equally often, none has a smaller epsilon that holds for any two words.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import LEVEL, check_number
from textpriv.data.embeddings import Embedding
from textpriv.mechanisms.base import Claim
from textpriv.mechanisms.finite import FiniteMechanism


class RandomizedResponse(FiniteMechanism):
    """k-ary randomized response: P(x|x) = e^eps / (e^eps + |V| - 1), all other words alike.

    Parameters
    ----------
    embedding : the public vocabulary; vectors are not looked at
    epsilon : of any two words, without a unit

    References
    ----------
    Warner 1965 (of two answers); Kairouz, Oh and Viswanath 2016, Extremal Mechanisms for Local
    Differential Privacy, section 3.
    """

    name = "randomized-response"
    claim = Claim(
        definition="local differential privacy: P(M(w)=y) <= exp(eps) * P(M(w')=y)",
        protects="one word against any other",
        unit="none",
        in_clear="the number of tokens",
        unknown="cannot be told apart from each other; from a known word as known words",
        composition="eps per word",
        loss="constant",
    )

    @classmethod
    def keeping(cls, embedding: Embedding, share: float) -> Self:
        """The mechanism that returns each word with this probability, in (0, 1)."""
        share = check_number(share, LEVEL, what="share")
        odds = np.log(share) - np.log1p(-share)
        return cls(embedding, epsilon=float(odds + np.log(len(embedding) - 1)))

    @property
    def kept(self) -> float:
        """P(x|x), the same for every word."""
        return float(np.exp(self._log_kept))

    @property
    def _log_kept(self) -> float:
        return float(self.epsilon - np.logaddexp(self.epsilon, np.log(self.size - 1)))

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = np.full((len(x), self.size), self._log_kept - self.epsilon)
        rows[np.arange(len(x)), x] = self._log_kept
        return rows

    def log_columns(self, outputs: IntArray) -> FloatArray:
        return self.log_rows(check_ids(outputs, self.size, what="outputs"))

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        other = (x + rng.integers(1, self.size, len(x))) % self.size
        return np.where(rng.random(len(x)) < self.kept, x, other)
