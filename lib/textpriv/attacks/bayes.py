"""Attacks on one token at a time: nearest word, most frequent word, and Bayes' rule.

For a channel P(y|x) and a prior P(x) no guess beats argmax_x P(y|x) P(x) for an attacker who
sees one token (Tong et al., Theorem 1). The prior decides what it is called: from shadow data
it is the context-free Bayesian attack, from the private text itself the context-free bound.
"""

from __future__ import annotations

import numpy as np

from textpriv.attacks.base import (
    NONE,
    FloatArray,
    Guesses,
    IntArray,
    TokenAttack,
    check_channel,
    is_input,
    is_sensitive,
    padded,
)
from textpriv.channel import Channel, check_ids, check_sums
from textpriv.checks import NOT_NEGATIVE, check_kind, checked
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import Corpus, fingerprint
from textpriv.errors import InvalidInput
from textpriv.neighbors import ExactSearch


def prior_of(channel: Channel, corpus: Corpus) -> FloatArray:
    """Share of each word among the tokens of a corpus that the channel would replace: (size,)."""
    sensitive = is_sensitive(channel, corpus)
    counts = np.bincount(corpus.ids[sensitive], minlength=channel.size)
    return counts / counts.sum()


class Bayes(TokenAttack):
    """argmax_x P(y|x) P(x) for a given prior.

    `prior` are (size,) weights >= 0 of any sum; words of weight 0 are never guessed, and an output
    that no other word can give gets no guess. `name` says what the prior makes of the attack.
    """

    posterior = True

    def __init__(self, channel: Channel, prior: FloatArray, *, name: str) -> None:
        check_channel(channel)
        expected = "as many weights >= 0 as the channel has words"
        check_kind(prior, (np.ndarray, list, tuple), what="prior", expected=expected)
        self.channel, self.prior, self.name = channel, np.asarray(prior, np.float64), name
        self.vocabulary = channel.vocabulary

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        words, joint, evidence = self.channel.likeliest_inputs(outputs, self.prior, top)
        with np.errstate(invalid="ignore"):
            scores = np.exp(joint - evidence[:, None])
        return Guesses(words, np.where(words == NONE, -np.inf, scores))


class ContextFreeBayes(Bayes):
    """argmax_x P(y|x) (Pr_shadow(x) + constant), over the words that the channel replaces.

    As in Tong et al., Eq. 10, `constant` is by default 1 / alpha, alpha the number of tokens in the
    shadow data that the channel would replace.
    """

    @checked(constant=(None, NOT_NEGATIVE))
    def __init__(self, channel: Channel, shadow: Corpus, *, constant: float | None = None) -> None:
        added = 1 / int(is_sensitive(channel, shadow).sum()) if constant is None else constant
        prior = prior_of(channel, shadow) + added * is_input(channel)
        super().__init__(channel, prior, name="context-free-bayes")


class ContextFreeBound(Bayes):
    """argmax_x P(y|x) P(x) with the frequencies of the private text itself.

    Its success rate is the context-free ASR bound of Tong et al. (Theorem 1, Definition 1);
    `bayes_success` is its expectation.
    """

    def __init__(self, channel: Channel, private: Corpus) -> None:
        super().__init__(channel, prior_of(channel, private), name="context-free-bound")


class PriorOnly(TokenAttack):
    """The most frequent sensitive words of the shadow data, whatever is observed."""

    name = "prior-only"
    posterior = True

    def __init__(self, channel: Channel, shadow: Corpus) -> None:
        self.prior, self.vocabulary = prior_of(channel, shadow), channel.vocabulary

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        best = np.argsort(-self.prior, kind="stable")[: min(top, np.count_nonzero(self.prior))]
        shape = (len(outputs), len(best))
        return padded(np.broadcast_to(best, shape), np.broadcast_to(self.prior[best], shape), top)


class EmbeddingInversion(TokenAttack):
    """The inputs whose vectors are nearest to that of the output (Qu et al. 2021).

    Scores are -distance. An output that can itself be an input is its own nearest word.
    """

    name = "embedding-inversion"

    def __init__(self, channel: Channel, embedding: Embedding) -> None:
        check_kind(embedding, Embedding, what="embedding", expected="an Embedding")
        vocabulary = fingerprint(embedding.words)
        if len(embedding) != channel.size or channel.vocabulary not in ("", vocabulary):
            raise InvalidInput(
                f"embedding: got {embedding!r}, expected one of the channel's {channel.size} words"
            )
        self.vectors, self.vocabulary = embedding.vectors, vocabulary
        self.inputs = np.flatnonzero(is_input(channel))
        self.search = ExactSearch(self.vectors[self.inputs])

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        seen = self.vectors[check_ids(outputs, len(self.vectors), what="outputs")]
        near, distance = self.search.nearest(seen, min(top, len(self.inputs)))
        return padded(self.inputs[near], -distance, top)


def bayes_success(channel: Channel, prior: FloatArray) -> float:
    """sum_y max_x P(y|x) P(x): what the best attacker on one token achieves in expectation.

    `prior` are (size,) probabilities of the inputs, which sum to 1. InvalidInput for another
    prior, or a row of the channel that does not sum to 1.
    """
    check_channel(channel)
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (channel.size,) or not (
        abs(weights.sum() - 1) <= 1e-9 and weights.min() >= 0
    ):
        raise InvalidInput(
            f"prior: got shape {weights.shape} and sum {weights.sum():.6g}, expected "
            f"{channel.size} probabilities that sum to 1"
        )
    best = np.zeros(channel.size)
    inputs = np.flatnonzero(weights)
    for start in range(0, len(inputs), channel.row_chunk):
        words = inputs[start : start + channel.row_chunk]
        rows = np.exp(channel.log_rows(words))
        check_sums(rows, words)
        np.maximum(best, (rows * weights[words, None]).max(0), out=best)
    return float(best.sum())
