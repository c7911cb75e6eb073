"""Candidates for a token, weighed: how much each sign counts, and how much the language model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
from scipy.special import log_softmax

from textpriv.attacks.base import NONE, BoolArray, FloatArray, IntArray, Observed
from textpriv.attacks.ngrams import NGrams
from textpriv.attacks.noisy_channel import Candidates, decode_each

_CONSIDERED = 25  # likeliest words of each token, by themselves, that are looked at in context
_KEPT = 8  # of these, after decoding in pairs; see `NoisyChannel`
_PENALTY = 1e-3  # on squared standardised factors: keeps the calibration on few tokens finite


@dataclass(frozen=True, eq=False)
class Calibration:
    """How much counts what an attacker has seen, and what the language model says.

    The sum of the columns of `LanguageDeconvolution.evidence`, weighted by `factors` (4,), is a
    candidate's log-likelihood.
    """

    factors: FloatArray
    weight: float  # from 0 (not heard) to 1, exponent of the language model


def named_first(words: IntArray) -> BoolArray:
    """Whether a word has not been named before in its row: (rows, words)."""
    order = np.argsort(words, axis=1, kind="stable")
    ranked = np.take_along_axis(words, order, axis=1)
    first = np.ones(words.shape, dtype=bool)
    np.put_along_axis(first, order[:, 1:], ranked[:, 1:] != ranked[:, :-1], axis=1)
    return first


def likeliest_factors(evidence: FloatArray, log_prior: FloatArray, true: IntArray) -> FloatArray:
    """Factors of greatest likelihood, P(word) proportional to exp(evidence @ factors + log_prior).

    A conditional logit (McFadden 1974): concave, so that there is one maximum. The evidence is
    (tokens, candidates, signs), the prior -inf for what cannot be, `true` the truth's column.
    """
    spread = evidence[np.isfinite(log_prior)].std(0)
    scaled = evidence / np.where(spread > 0, spread, 1.0)
    row = np.arange(len(true))

    def loss(factors: FloatArray) -> tuple[float, FloatArray]:
        log_posterior = log_softmax(scaled @ factors + log_prior, axis=1)
        expected = np.matmul(np.exp(log_posterior)[:, None], scaled)[:, 0]
        value = -log_posterior[row, true].mean() + _PENALTY * (factors**2).sum()
        slope = (expected - scaled[row, true]).mean(0) + 2 * _PENALTY * factors
        return float(value), slope

    best = scipy.optimize.minimize(loss, np.zeros(len(spread)), jac=True, method="L-BFGS-B")
    factors: FloatArray = best.x / np.where(spread > 0, spread, 1.0)
    return factors


def chosen(
    words: IntArray, log_likelihood: FloatArray, observed: Observed, model: NGrams, weight: float
) -> Candidates:
    """Posterior of candidates under a language model; tokens in clear stand for themselves.

    Parameters
    ----------
    words, log_likelihood : (replaced, candidates); -inf rules a candidate out, one must be left
    weight : exponent of the model, as in `NoisyChannel`; 0 weighs all words alike
    """
    present = ~np.isneginf(log_likelihood)
    likelihood = np.exp(log_likelihood - log_likelihood.max(1, keepdims=True))
    posterior = likelihood * model.unigram[words] ** weight
    posterior /= posterior.sum(1, keepdims=True)
    clear, named = model.lexicon.ids(observed.corpus), np.where(present, words, NONE)
    result = Candidates.from_targets(observed, clear, named, likelihood, posterior)
    if model.order == 1 or not weight:
        return result
    considered = result.keep(_CONSIDERED)
    return decode_each(considered, observed.corpus, model, [weight], kept=_KEPT)[0]
