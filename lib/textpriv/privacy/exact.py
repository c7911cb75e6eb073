"""Exact audits: every output of every pair of words, from the probabilities themselves.

    audit_exactly(SanText(embedding, epsilon=3))        every pair, or a stated choice of pairs;
                                                        and draws, which must follow that law
    tight_loss(SanText(embedding, epsilon=3)).loss      the epsilon that really holds

The loss of a pair w, w' is max over y of |ln P(y|w) - ln P(y|w')|, and a claim is broken when
it exceeds `claimed_loss`. Between all pairs of a vocabulary of V words that is V^3 comparisons.
Two ways out need V^2 only:

- the largest loss of all, which is max over y of (max over w - min over w) of ln P(y|w);
- for energies that are a metric e (SanText, and TEM, whose energy is cut at gamma and is a metric
  still), e(w', y) - e(w, y) is largest at y = w and least at y = w', by the triangle inequality:
  the worst output of a pair is one of the two words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.channel import (
    Channel,
    FloatArray,
    IntArray,
    SparseChannel,
    check_aligned,
    check_ids,
)
from textpriv.checks import COUNT, at_least, check_kind, checked
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import FiniteMechanism, Mechanism
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.mechanisms.prompt import tight_loss as tight_token_loss
from textpriv.mechanisms.sentences import DeepCandidate
from textpriv.mechanisms.stencil import Stencil
from textpriv.neighbors import ExactSearch
from textpriv.privacy.claims import PAIR, ClaimedLoss, claimed_loss, published_loss
from textpriv.privacy.fit import with_fit
from textpriv.privacy.released import (
    DRAWS,
    released_candidates,
    released_map,
    released_prompt,
    released_stencil,
    released_words,
)
from textpriv.privacy.results import Audit, audited

SLACK = 1e-9  # of rounding, in nats; measured losses of valid mechanisms stay below it
EVERY_PAIR = 1500  # words up to which all pairs are compared at all outputs
_IMPOSSIBLE = 1e300  # stands for -ln 0, so that two impossible outputs differ by 0
_BYTES = 64 << 20
NOTHING = "none: deterministic, the same input always looks the same"  # a claim
_DOCUMENTS = 6  # of which DeepCandidate's draws are looked at


def losses(channel: Channel, words: IntArray, others: IntArray) -> FloatArray:
    """max over all outputs of |ln P(y|w) - ln P(y|w')| for aligned pairs: (pairs,).

    inf where an output is possible for one word only.
    """
    x, z = check_aligned(words, others, channel.size, names=PAIR)
    of_some = _sparse_losses if isinstance(channel, SparseChannel) else _dense_losses
    order = np.argsort(x, kind="stable")  # pairs of one word share its row
    result = np.empty(len(x))
    parts = min(len(x), -(-len(x) * 24 * channel.size // _BYTES))
    for part in np.array_split(order, max(1, parts)):
        result[part] = of_some(channel, x[part], z[part])  # type: ignore[arg-type]
    return result


def _dense_losses(channel: Channel, x: IntArray, z: IntArray) -> FloatArray:
    distinct, place = np.unique(np.concatenate([x, z]), return_inverse=True)
    rows = _log_rows(channel, distinct)
    pairs = zip(place[: len(x)], place[len(x) :], strict=True)
    return _found(np.array([np.abs(rows[one] - rows[other]).max() for one, other in pairs]))


def _sparse_losses(channel: SparseChannel, x: IntArray, z: IntArray) -> FloatArray:
    logs = channel.log_matrix.copy()
    largest = np.abs(logs.data).max(initial=1.0)
    logs.data += 4 * largest  # at least 3 times the largest, where what is not stored is 0
    apart = abs(logs[x] - logs[z]).max(axis=1).toarray().ravel()
    return np.where(apart > 2 * largest, np.inf, apart)


def every_loss(channel: Channel, words: IntArray) -> FloatArray:
    """The same for every pair i < j of some words, flat in that order."""
    return _every_pair(_log_rows(channel, check_ids(words, channel.size, what="words")))


def _every_pair(rows: FloatArray) -> FloatArray:
    """Largest differences of all pairs of rows."""
    return _found(torch.pdist(torch.from_numpy(rows), p=float("inf")).numpy())


def _log_rows(channel: Channel, words: IntArray) -> FloatArray:
    """ln P(.|w), with a large negative number for what is impossible."""
    rows = channel.log_rows(words)
    return np.where(np.isneginf(rows), -_IMPOSSIBLE, rows)


def _found(apart: FloatArray) -> FloatArray:
    return np.where(apart > _IMPOSSIBLE / 2, np.inf, apart)


# --- Audits ------------------------------------------------------------------------------------


@checked(random_pairs=at_least(0))
def audit_exactly(
    mechanism: FiniteMechanism,
    *,
    rng: np.random.Generator | None = None,
    random_pairs: int = 10_000,
    published: bool = False,
) -> Audit:
    """Hold a mechanism's probabilities against its claim, at all outputs, and draws against them.

    All pairs of protected words, up to EVERY_PAIR words; beyond, every word with its nearest
    neighbour and some random pairs, of words between which something is claimed. Where groups
    decide, all pairs inside groups.

    Parameters
    ----------
    rng : draws the random pairs, and then outputs; needed beyond EVERY_PAIR words, else None is
        a generator of seed 0
    random_pairs : >= 0
    published : against the stronger reading, where there is one (`Mechanism.published`)
    """
    _check_finite(mechanism, "audit_words(mechanism, draw_words(...))")
    drawing = np.random.default_rng(0) if rng is None else rng
    claim = published_loss(mechanism) if published else claimed_loss(mechanism)
    words = claim.protected
    if (grouped := claim.pairs()) is not None:
        pairs, method = grouped, "exact, every pair of a group"
        loss = losses(mechanism, *pairs)
    elif len(words) <= EVERY_PAIR:
        i, j = np.triu_indices(len(words), 1)
        pairs, method = (words[i], words[j]), "exact, every pair"
        loss = every_loss(mechanism, words)
    else:
        if rng is None:
            raise InvalidInput("rng: got None, expected a generator: pairs are drawn at random")
        pairs = near_and_random(mechanism.embedding.vectors, claim.parts(), random_pairs, rng)
        method = f"exact, every nearest pair and {random_pairs:,} random ones"
        loss = losses(mechanism, *pairs)
    audit = judge(mechanism, *pairs, loss, method, claim)
    if published and mechanism.published:
        audit = replace(audit, claim=mechanism.published.definition, published=True)
    return with_fit(audit, released_words(mechanism, drawing))


def _check_finite(mechanism: object, instead: str) -> None:
    check_kind(
        mechanism,
        FiniteMechanism,
        what="mechanism",
        expected="one with an explicit P(y|x)",
        do=f"for noise take textpriv.privacy.{instead}",
    )


def nearest_pairs(vectors: NDArray[np.floating], words: IntArray) -> tuple[IntArray, IntArray]:
    """Every one of some words with the nearest other one of them."""
    nearest, _ = ExactSearch(vectors[words]).nearest(vectors[words], 2)
    own = np.arange(len(words))
    return words, words[np.where(nearest[:, 0] == own, nearest[:, 1], nearest[:, 0])]


def near_and_random(
    vectors: NDArray[np.floating],
    parts: Sequence[IntArray],
    random_pairs: int,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Every word with the nearest other one of its part, and random pairs within parts."""
    words = sum(map(len, parts))
    pairs = []
    for part in parts:
        pairs.append(np.stack(nearest_pairs(vectors, part)))
        pairs.append(rng.choice(part, size=(2, round(random_pairs * len(part) / words))))
    first, second = np.concatenate(pairs, axis=1)
    return first, second


def judge(
    mechanism: Mechanism,
    words: IntArray,
    others: IntArray,
    loss: FloatArray,
    method: str,
    claim: ClaimedLoss,
) -> Audit:
    """The losses of some pairs against what is claimed for them."""
    claimed = claim.between(words, others)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(loss <= SLACK, 0.0, loss / claimed)
    worst = int(ratio.argmax()) if len(ratio) else None
    return audited(
        mechanism,
        method,
        int(np.isfinite(claimed).sum()),
        worst_ratio=np.nan if worst is None else float(ratio[worst]),
        worst_pair=("", "") if worst is None else _named(mechanism, words[worst], others[worst]),
        violations=int(_exceeds(loss, claimed).sum()),
    )


def _exceeds(loss: FloatArray, claimed: FloatArray | float) -> NDArray[np.bool_]:
    """Which losses are beyond their claims, but for rounding."""
    finite = np.where(np.isfinite(claimed), claimed, 0)
    return np.asarray(loss > claimed + SLACK * (1 + finite))


def audit_map(mapper: LossyMap) -> Audit:
    """A map that claims nothing: how many pairs of words its output tells apart for certain.

    Two words of one group have the same output and a loss of 0; two words of different groups
    never do, and have an infinite one.
    """
    check_kind(mapper, LossyMap, what="mapper", expected="a LossyMap")
    free = np.setdiff1d(np.arange(mapper.size), mapper.fixed)
    sizes, count = np.bincount(mapper.representative[free]), len(free)
    pairs, hidden = count * (count - 1) // 2, int((sizes * (sizes - 1) // 2).sum())
    setting = f"{(sizes > 0).sum():,} groups; {pairs - hidden:,} pairs told apart for certain"
    audit = Audit(mapper.name, setting, NOTHING, "exact, every pair", pairs)
    return with_fit(audit, released_map(mapper))


def audit_stencil(stencil: Stencil, corpus: Corpus) -> Audit:
    """A stencil that claims nothing: whether its output is the token nearest to every mean.

    An attacker who solves the linear map `Stencil.weights` takes that for granted.
    """
    setting = f"window {stencil.window}, sigma {stencil.sigma:g}, {len(corpus.ids):,} tokens"
    audit = Audit(stencil.name, setting, NOTHING, "exact, every token", 0)
    return with_fit(audit, released_stencil(stencil, corpus))


# --- Sentences and tokens ------------------------------------------------------------------------


@checked(size=COUNT)
def audit_candidates(
    mechanism: DeepCandidate,
    sentences: NDArray[np.floating],
    *,
    size: int,
    rng: np.random.Generator | None = None,
) -> Audit:
    """All documents of `size` sentences out of a few, and all pairs that differ in one.

    Draws are made for those documents whose law is the farthest from uniform.

    Parameters
    ----------
    sentences : (distinct, width) float32, of which documents are made, repeats allowed
    size : sentences per document, >= 1
    rng : of the draws; None: seed 0
    """
    pool = np.asarray(sentences, dtype=np.float32)
    documents = list(combinations_with_replacement(range(len(pool)), size))
    rows = np.stack([mechanism.log_probability(pool[list(each)]) for each in documents])
    places = {each: number for number, each in enumerate(documents)}
    neighbours = {
        (place, places[other])
        for each, place in places.items()
        for left_out in range(size)
        for new in range(len(pool))
        for other in [tuple(sorted((*each[:left_out], *each[left_out + 1 :], new)))]
        if places[other] > place
    }
    pairs = np.array(sorted(neighbours), dtype=np.int64).reshape(-1, 2)
    ratio = np.abs(rows[pairs[:, 0]] - rows[pairs[:, 1]]).max(1) / mechanism.epsilon
    worst = pairs[int(ratio.argmax())]
    unequal = np.argsort(-np.abs(np.exp(rows) - 1 / rows.shape[1]).sum(1), kind="stable")
    fit = released_candidates(
        mechanism,
        [pool[list(documents[number])] for number in unequal[:_DOCUMENTS]],
        np.random.default_rng(0) if rng is None else rng,
        draws=2 * DRAWS,
    )
    audit = audited(
        mechanism,
        f"exact, every document of {size} out of {len(pool)} sentences",
        len(pairs),
        f"eps {mechanism.epsilon:g}, {rows.shape[1]:,} candidates, {size} sentences",
        worst_ratio=float(ratio.max()),
        worst_pair=(str(documents[worst[0]]), str(documents[worst[1]])),
        violations=int((ratio * mechanism.epsilon > mechanism.epsilon + SLACK).sum()),
    )
    return with_fit(audit, fit)


def audit_prompt(
    mechanism: DPPrompt, texts: Sequence[str], scores: FloatArray, *, seed: int
) -> Audit:
    """`audit_next_token` of DP-Prompt over a toy vocabulary, and `released_prompt` of texts."""
    fit = released_prompt(mechanism, texts, seed)
    assert mechanism.limits is not None  # without them there is no law to fit
    audit = audit_next_token(mechanism.log_weights, mechanism.limits, mechanism.temperature, scores)
    return with_fit(audit, fit)


def audit_texts(
    mechanism: DPMLM, pairs: Sequence[tuple[str, str]], *, published: bool = False
) -> Audit:
    """Whole texts, two by two, at their worst output.

    Parameters
    ----------
    pairs : at least one, of two texts with as many words
    published : against epsilon for two texts that differ in one word, in place of n epsilon
    """
    if not pairs:
        raise InvalidInput("pairs: got none, expected at least one pair of texts")
    loss = np.array([mechanism.loss(*pair) for pair in pairs])
    spent = np.array([mechanism.spent(text) for text, _ in pairs])
    claimed = np.full(len(pairs), mechanism.epsilon) if published else spent
    worst = int((loss / claimed).argmax())
    claim = mechanism.published if published and mechanism.published else mechanism.claim
    return Audit(
        mechanism.name,
        f"eps {mechanism.epsilon:g} a draw, {len(mechanism.words):,} words",
        claim.definition,
        "exact, the worst output of every pair of texts",
        len(pairs),
        worst_ratio=float(loss[worst] / claimed[worst]),
        worst_pair=pairs[worst],
        violations=int((loss > claimed * (1 + SLACK)).sum()),
        published=published,
    )


def audit_next_token(
    log_weights: Callable[[torch.Tensor], torch.Tensor],
    limits: Limits,
    temperature: float,
    scores: FloatArray,
    *,
    claimed: float | None = None,
) -> Audit:
    """One token of DP-Prompt on a toy vocabulary: all pairs of score vectors, and the corners.

    To the given scores are added, for every token, the two that the tight loss says are worst:
    this token at its upper limit and all others at their lower ones, and the other way round.

    Parameters
    ----------
    log_weights : `DPPrompt.log_weights`: (rows, vocabulary) scores to logarithms of weights
    limits, temperature : what the loss is claimed for
    scores : (rows, vocabulary) what a hostile model may give: huge, infinite, NaN
    claimed : loss per token, in nats; None: `tight_loss` of the limits
    """
    claim = tight_token_loss(limits, temperature) if claimed is None else claimed
    corners = np.where(np.eye(len(limits), dtype=bool), limits.high, limits.low)
    opposite = np.where(np.eye(len(limits), dtype=bool), limits.low, limits.high)
    every = np.concatenate([np.asarray(scores, dtype=np.float64), corners, opposite])
    weights = log_weights(torch.from_numpy(every)).double()
    rows = (weights - torch.logsumexp(weights, 1, keepdim=True)).numpy()
    loss = _every_pair(np.where(np.isfinite(rows), rows, -_IMPOSSIBLE))
    i, j = np.triu_indices(len(rows), 1)
    worst = int(loss.argmax())
    return Audit(
        mechanism="dp-prompt",
        setting=f"T {temperature:g}, a vocabulary of {len(limits)} tokens",
        claim=DPPrompt.claim.definition,
        method="exact, every pair of score vectors and all corners",
        pairs=len(loss),
        worst_ratio=float(loss[worst] / claim),
        worst_pair=(f"scores {i[worst]}", f"scores {j[worst]}"),
        violations=int(_exceeds(loss, claim).sum()),
    )


def _named(mechanism: Mechanism, word: int, other: int) -> tuple[str, str]:
    return mechanism.embedding.words[word], mechanism.embedding.words[other]


# --- The epsilon that really holds --------------------------------------------------------------


@dataclass(frozen=True)
class Tight:
    """What a finite mechanism really costs per word, over a fixed public vocabulary."""

    epsilon: float  # as set
    loss: float  # largest between two protected words, in nats; exact, inf where supports differ
    pair: tuple[str, str]
    claimed: float  # largest claimed loss between two protected words
    share: float  # of its own claim that some pair reaches: exact for SanText and TEM, else or more
    share_pair: tuple[str, str]
    words: int  # protected ones


def tight_loss(mechanism: FiniteMechanism) -> Tight:
    """The largest loss of a mechanism, and the largest share of a claim that is reached.

    One pass over all columns P(y|.): for every output the likeliest input against the least
    likely one; and the output's own word against all others, which for a metric energy is the
    worst output of each such pair.

    Raises
    ------
    InvalidInput : no word is protected
    """
    _check_finite(mechanism, "certified_losses(mechanism, ...)")
    claim = claimed_loss(mechanism)
    words = claim.protected
    if len(words) < 2:
        raise InvalidInput(f"mechanism: {mechanism.name} protects no pair of words")
    if (grouped := claim.pairs()) is not None:
        first, second = grouped
        pair_losses = losses(mechanism, first, second)
        worst = int(pair_losses.argmax())
        pair = _named(mechanism, first[worst], second[worst])
        loss, claimed = float(pair_losses[worst]), claim.largest()
        return Tight(mechanism.epsilon, loss, pair, claimed, loss / claimed, pair, len(words))
    share = largest = (-1.0, 0, 0)  # and the pair; of equal ones the first is kept
    parts = min(len(words), -(-len(words) * 32 * mechanism.size // _BYTES))
    for outputs in np.array_split(words, parts):
        columns = np.maximum(mechanism.log_columns(outputs), -_IMPOSSIBLE)
        own = columns[np.arange(len(outputs)), outputs, None]
        claimed_rows = claim.rows(outputs)
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.where(claimed_rows > 0, np.abs(own - columns) / claimed_rows, 0.0)
        row, column = np.unravel_index(int(reached.argmax()), reached.shape)
        found_share = float(reached[row, column]), int(outputs[row]), int(column)
        share = max(share, found_share, key=itemgetter(0))
        compared = columns if len(words) == mechanism.size else columns[:, words]
        span = compared.max(1) - compared.min(1)
        likely, unlikely = compared[at := int(span.argmax())].argmax(), compared[at].argmin()
        found_loss = float(span[at]), int(words[likely]), int(words[unlikely])
        largest = max(largest, found_loss, key=itemgetter(0))
    return Tight(
        epsilon=mechanism.epsilon,
        loss=np.inf if largest[0] > _IMPOSSIBLE / 2 else largest[0],
        pair=_named(mechanism, *largest[1:]),
        claimed=claim.largest(),
        share=share[0],
        share_pair=_named(mechanism, *share[1:]),
        words=len(words),
    )
