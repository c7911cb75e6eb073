"""What the texts of a person cost under a word-level mechanism.

account_texts(mechanism, corpus).epsilon              against any other texts of these lengths
account_texts(mechanism, corpus, other=another)       against these very texts
token_counts(mechanism, corpus).in_clear              tokens that are passed on as they are
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from textpriv.channel import FloatArray
from textpriv.checks import check_kind
from textpriv.data.tokens import KEPT, UNKNOWN, Corpus, check_corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism, SanTextPlus
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import ClaimedLoss, claimed_loss


def account_texts(mechanism: Mechanism, corpus: Corpus, *, other: Corpus | None = None) -> Account:
    """The claimed cost of all documents together, each word sanitized by itself.

    Parameters
    ----------
    corpus : documents as the mechanism gets them, at least one
    other : documents of the same lengths to which these are compared; None: the worst ones that
        agree with them in what the output shows: kept tokens, words that are not protected, the
        group of a word under CusText. Under `Allotted` it does not show the group, so that a word
        may stand against one of another group, and the cost is inf

    Raises
    ------
    InvalidInput : no document, others of other lengths, or ids of another vocabulary

    Notes
    -----
    An unknown word (of a policy that replaces them) is a uniform mixture of the vocabulary.
    Against another unknown one it costs nothing. Against a known word it costs at most as much as
    the worst pair, and nothing bounds it where some pair has no bound: under CusText the mixture
    gives words of every group, and a known word those of its own only.
    """
    check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
    check_corpus(corpus, mechanism.size, mechanism.vocabulary)
    if not len(corpus):
        raise InvalidInput("corpus: got no document, expected at least one")
    if other is not None:
        check_corpus(other, mechanism.size, mechanism.vocabulary, what="other")
    losses = _losses(mechanism, corpus, other)
    return account(losses, ranges=losses if mechanism.claim.bounded_range else None)


def _losses(mechanism: Mechanism, corpus: Corpus, other: Corpus | None) -> FloatArray:
    claim, ids = claimed_loss(mechanism), corpus.ids
    worst, of_unknown = claim.largest(), _of_unknown(mechanism, claim)
    if other is None:
        is_protected = np.isin(ids, claim.protected)
        if np.isinf(worst):  # no word has a bound, or none with words of another group
            is_protected = ids >= 0
        return np.where(ids == UNKNOWN, of_unknown, np.where(is_protected, worst, 0.0))
    if not np.array_equal(corpus.offsets, other.offsets):
        raise InvalidInput("other: expected documents of the same lengths, got others")
    losses = np.zeros(len(ids))
    known = (ids >= 0) & (other.ids >= 0)
    losses[known] = claim.between(ids[known], other.ids[known])
    mixed = (ids == UNKNOWN) != (other.ids == UNKNOWN)
    losses[mixed] = of_unknown
    one = np.where(ids == UNKNOWN, other.ids, ids)[mixed]  # the known one of the two
    losses[np.flatnonzero(mixed)[~np.isin(one, claim.protected)]] = np.inf
    for position in np.flatnonzero((ids == KEPT) | (other.ids == KEPT)).tolist():
        same = corpus.kept.get(position) == other.kept.get(position)
        losses[position] = 0.0 if same and ids[position] == other.ids[position] else np.inf
    return losses


def _of_unknown(mechanism: Mechanism, claim: ClaimedLoss) -> float:
    """Largest loss between an unknown word and a protected one: that of the worst pair mixed."""
    words = mechanism.fallback
    together = claim.between(np.full(len(words), words[0]), words)
    return claim.largest() if np.isfinite(together).all() else np.inf


@dataclass(frozen=True)
class TokenCounts:
    """What becomes of the tokens of some texts.

    Attributes
    ----------
    texts : how many
    sanitized : tokens that go through the mechanism
    unknown : of these, words that the vocabulary lacks; a random word is sanitized in their place
    in_clear : tokens that are passed on as they are, by the reason why
    """

    texts: int
    sanitized: int
    unknown: int
    in_clear: Mapping[str, int]

    @property
    def passed(self) -> int:
        """Tokens that are passed on as they are."""
        return sum(self.in_clear.values())

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.sanitized + self.passed


SPARED = "words that the mechanism spares"


def token_counts(mechanism: Mechanism, corpus: Corpus) -> TokenCounts:
    """How many tokens a mechanism sanitizes, and how many are passed on in clear, and why.

    A word that SanText+ replaces with some probability only counts as passed on.
    """
    check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
    check_corpus(corpus, mechanism.size, mechanism.vocabulary)
    is_replaced = np.zeros(mechanism.size, dtype=bool)
    is_replaced[slice(None) if mechanism.inputs is None else mechanism.inputs] = True
    if isinstance(mechanism, SanTextPlus):
        is_replaced = mechanism.is_sensitive
    known, unknown = corpus.ids[corpus.ids >= 0], int((corpus.ids == UNKNOWN).sum())
    sanitized = int(is_replaced[known].sum())
    spared = {SPARED: len(known) - sanitized} if len(known) > sanitized else {}
    return TokenCounts(len(corpus), sanitized + unknown, unknown, corpus.in_clear | spared)
