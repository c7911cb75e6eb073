"""What the texts of a person cost under a word-level mechanism.

account_texts(mechanism, corpus).epsilon      against any other texts of these lengths
token_counts(mechanism, corpus).in_clear      tokens that are passed on as they are
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from textpriv.checks import check_kind
from textpriv.data.tokens import UNKNOWN, Corpus, check_corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism, SanTextPlus
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import ClaimedLoss, claimed_loss


def account_texts(mechanism: Mechanism, corpus: Corpus) -> Account:
    """The claimed cost of all documents together, each word sanitized by itself.

    It is against the worst other documents of these lengths that agree with them in what the output
    shows: kept tokens, words that are not protected, the group of a word under CusText. Under
    `Allotted` it does not show the group: a word may stand against one of another group, and where
    several groups have protected words the cost is inf.

    Parameters
    ----------
    corpus : documents as the mechanism gets them, at least one, over its vocabulary

    Notes
    -----
    An unknown word (of a policy that replaces them) is a uniform mixture of the vocabulary. Against
    a known word it costs at most as much as the worst pair, and nothing bounds it where some pair
    has no bound: under CusText the mixture gives words of every group, and a known word those of
    its own only.
    """
    check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
    check_corpus(corpus, mechanism.size, mechanism.vocabulary)
    if not len(corpus):
        raise InvalidInput("corpus: got no document, expected at least one")
    claim, ids = claimed_loss(mechanism), corpus.ids
    worst, of_unknown = claim.largest(), _of_unknown(mechanism, claim)
    # inf: no word has a bound, or none with words of another group.
    costs = ids >= 0 if np.isinf(worst) else np.isin(ids, claim.protected)
    losses = np.where(ids == UNKNOWN, of_unknown, np.where(costs, worst, 0.0))
    return account(losses, ranges=losses if mechanism.claim.bounded_range else None)


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
