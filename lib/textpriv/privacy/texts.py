"""What texts cost under a word-level mechanism: of one document, of a person, of a corpus.

spent = account_texts(mechanism, corpus)              against any other texts of these lengths
spent.documents[3].epsilon, spent.costliest.epsilon, spent.together.epsilon
account_texts(mechanism, corpus, other=another)       against these very texts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textpriv.errors import InvalidInput
from textpriv.mechanisms import CusText, Mechanism
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import claimed_loss, has_bounded_range
from textpriv.tokens import KEPT, UNKNOWN, Corpus

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class TextAccount:
    """What some documents cost.

    Attributes
    ----------
    documents : of each document alone
    costliest : of the document that costs most, which bounds what any of several persons pays
        who wrote one each
    together : of all of them, if one person wrote them all
    """

    documents: Sequence[Account]
    costliest: Account
    together: Account


def account_texts(
    mechanism: Mechanism,
    corpus: Corpus,
    *,
    other: Corpus | None = None,
    delta: float = 1e-6,
    queries: int = 1,
) -> TextAccount:
    """The claimed cost of documents, each word sanitized by itself.

    Parameters
    ----------
    corpus : documents as the mechanism gets them, at least one
    other : documents of the same lengths to which these are compared; None: the worst ones that
        agree with them in what leaves in clear (kept tokens, words that are not protected)
    delta, queries : see `accounting.account`

    Raises
    ------
    InvalidInput : no document, or others of other lengths

    Notes
    -----
    An unknown word is a uniform mixture of the vocabulary: against a known word it costs at most
    as much as the worst pair (under CusText there is no bound), against another unknown one
    nothing.
    """
    if not len(corpus):
        raise InvalidInput("corpus: got no document, expected at least one")
    losses = _losses(mechanism, corpus, other)
    bounded = has_bounded_range(mechanism)

    def spent(part: FloatArray) -> Account:
        ranges = part if bounded else None
        return account(part, ranges=ranges, delta=delta, queries=queries)

    documents = [
        spent(losses[a:b]) for a, b in zip(corpus.offsets, corpus.offsets[1:], strict=False)
    ]
    costliest = max(documents, key=lambda each: (each.epsilon, each.composed))
    return TextAccount(documents, costliest, spent(losses))


def _losses(mechanism: Mechanism, corpus: Corpus, other: Corpus | None) -> FloatArray:
    claim, ids = claimed_loss(mechanism), corpus.ids
    worst = claim.largest()
    if other is None:
        is_protected = np.isin(ids, claim.protected) | (ids == UNKNOWN)
        if np.isinf(worst):  # no word has a bound
            is_protected = ids != KEPT
        return np.where(is_protected, worst, 0.0)
    if not np.array_equal(corpus.offsets, other.offsets):
        raise InvalidInput("other: expected documents of the same lengths, got others")
    losses = np.zeros(len(ids))
    known = (ids >= 0) & (other.ids >= 0)
    losses[known] = claim.between(ids[known], other.ids[known])
    mixed = (ids == UNKNOWN) != (other.ids == UNKNOWN)
    losses[mixed] = np.inf if isinstance(mechanism, CusText) else worst
    one = np.where(ids == UNKNOWN, other.ids, ids)[mixed]  # the known one of the two
    losses[np.flatnonzero(mixed)[~np.isin(one, claim.protected)]] = np.inf
    for position in np.flatnonzero((ids == KEPT) | (other.ids == KEPT)).tolist():
        same = corpus.kept.get(position) == other.kept.get(position)
        losses[position] = 0.0 if same and ids[position] == other.ids[position] else np.inf
    return losses
