"""Sampled audits: draws of two inputs, and an event that the claim says cannot differ so much.

    drawn = draw_words(madlib, words, draws=1_000_000, seed=7)
    audit_words(madlib, drawn)

For two inputs x, x' with the claimed loss L, an event S breaks the claim when
P(S|x) > e^L P(S|x'). Any event will do, so the strongest is looked for: the first half of the
draws orders the outputs by their estimated ratio and takes the first so many of them, as the
lemma of Neyman and Pearson has it, and besides the best single output and all outputs of x that
x' was never seen to give (the support). The second half, which knows nothing of that choice,
bounds P(S|x) from below and P(S|x') from above (Clopper and Pearson 1934). All bounds of an audit
hold together with the stated confidence (Bonferroni: over both directions of all pairs, three
events each, two bounds per event), so that a valid mechanism is called broken with probability
0.001 at most.

What such an audit overlooks is said as well. The *detectable excess* of a pair is the c for which
a loss of (1 + c) L at the chosen event would just have been found out. It grows with L and as L
nears 0: hence pairs with L from `LEAST` to `MOST`.

That is a matter of events, and in many dimensions none tells half of the noise from all of it. So
the same draws are compared with simulated ones of the noise that is claimed (`privacy.noise`), in
a test that errs with probability 0.001 too: a mechanism that lacks noise is broken even where no
event shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import COUNT, check_count, checked
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.sentences import TruncatedLaplace
from textpriv.privacy.claims import claimed_loss
from textpriv.privacy.noise import (
    ReleasedNoise,
    is_simulated,
    laplace_noise,
    laplace_radius,
    lower_bound,
    released_noise,
    upper_bound,
)
from textpriv.privacy.released import copies
from textpriv.privacy.results import MOST_EXCESS, Audit, audited
from textpriv.seeds import stream

CONFIDENCE = 0.999  # of all bounds of one audit together
LEAST, MOST = 0.3, 3.0  # claimed losses, in nats, between which sampling can decide anything
DRAWS = 1 << 17  # at once
_QUERIES = 1 << 13  # rows of scores held at once
_CLEAR = 0.75  # of the largest excess: what the second half may lose against the first
EVENTS = 3  # per direction of a pair: the best output, the best set, the support


@dataclass(frozen=True)
class Drawn:
    """How often each of some words gave each output, in two independent halves.

    Parameters
    ----------
    words : (inputs,) ids
    first, second : (inputs, size) counts; each row sums to `draws`
    """

    words: IntArray
    first: IntArray
    second: IntArray

    @property
    def draws(self) -> int:
        """Draws per input and half."""
        return int(self.first[0].sum())


@simulation()
@checked(draws=COUNT)
def draw_word(
    mechanism: Mechanism, word: int, *, draws: int, seed: int, label: str = ""
) -> tuple[IntArray, IntArray]:
    """Counts of the outputs of one word in both halves: (size,) each.

    Each part of DRAWS draws has a stream of its own, named by label, word, half and part.
    """
    halves = []
    for half in range(2):
        counts = np.zeros(mechanism.size, dtype=np.int64)
        for part, start in enumerate(range(0, draws, DRAWS)):
            rng = stream(seed, "audit", label, int(word), half, part)
            ids = np.full(min(DRAWS, draws - start), word)
            outputs = check_ids(mechanism.sanitize_ids(ids, rng), mechanism.size, what="outputs")
            counts += np.bincount(outputs, minlength=mechanism.size)
        halves.append(counts)
    return halves[0], halves[1]


def draw_words(
    mechanism: Mechanism, words: Sequence[int] | IntArray, *, draws: int, seed: int, label: str = ""
) -> Drawn:
    """Counts of the outputs of some distinct words, `draws` of each in either half."""
    ids = check_ids(words, mechanism.size, what="words")
    counts = [draw_word(mechanism, word, draws=draws, seed=seed, label=label) for word in ids]
    first, second = (np.stack(half) for half in zip(*counts, strict=True))
    return Drawn(ids, first, second)


class PlainSearch:
    """Nearest rows of a small table by looking at all of them in float32.

    `ExactSearch` is made for large tables. Which of two rows wins a near tie does not matter to
    the privacy of noise, and neither does this search: it comes after the noise.
    """

    name = "plain"

    def __init__(self, vectors: NDArray[np.floating]) -> None:
        self.size, self.dimension = vectors.shape
        self._rows = torch.from_numpy(np.array(vectors, dtype=np.float32))
        self._half = (self._rows.double() ** 2).sum(1).div(2).float()

    @torch.inference_mode()
    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """See `neighbors.Search`."""
        ids = np.empty((len(queries), k), dtype=np.int64)
        for start in range(0, len(queries), _QUERIES):
            part = torch.from_numpy(np.asarray(queries[start : start + _QUERIES], np.float32))
            nearness = torch.addmm(self._half, part, self._rows.T, beta=-1)
            top = nearness.argmax(1)[:, None] if k == 1 else nearness.topk(k).indices
            ids[start : start + _QUERIES] = top.numpy()
        offset = self._rows.numpy()[ids].astype(np.float64) - queries[:, None]
        return ids, np.linalg.norm(offset, axis=2)


# --- One pair --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What the draws say of one ordered pair."""

    loss: float  # ln P(S|x) - ln P(S|x') that is certain for the worst event; may be negative
    excess: float  # detectable excess of the set, as a share of the claim


def examine(
    first: tuple[IntArray, IntArray],
    second: tuple[IntArray, IntArray],
    claim: float,
    *,
    level: float,
) -> Finding:
    """Events chosen in the first half, judged in the second; for `level` see `bound_level`.

    A half holds counts of all outputs of x and of x', of as many draws each.
    """
    draws = int(second[0].sum())
    events = list(_events(*first, claim, z=float(norm.isf(level))))
    mine, others = (np.array([half[event].sum() for event in events]) for half in second)
    with np.errstate(divide="ignore"):
        least = np.log(lower_bound(mine, draws, level))
    certain = least - np.log(upper_bound(others, draws, level))
    return Finding(float(certain.max()), _excess(mine[-1], draws, claim, level))


def bound_level(pairs: int, confidence: float = CONFIDENCE) -> float:
    """Probability that each bound of an audit of `pairs` unordered pairs may fail."""
    return (1 - confidence) / (max(1, pairs) * 2 * EVENTS * 2)


def _events(mine: IntArray, others: IntArray, claim: float, *, z: float) -> Iterator[IntArray]:
    """The support, the best single output and the best set, as arrays of outputs."""
    yield np.flatnonzero((mine > 0) & (others == 0))
    a, b = mine + 0.5, others + 0.5
    yield np.array([int(np.argmax(_certain(a, b, z)))])
    order = np.argsort(b / a, kind="stable")
    a, b = np.cumsum(a[order]), np.cumsum(b[order])
    # A set of few draws would leave a small violation unseen: of the others the best.
    blur = z * (np.sqrt(1 / a) + np.sqrt(np.exp(claim) / a))
    clear = blur <= _CLEAR * MOST_EXCESS * claim
    score = np.where(clear, _certain(a, b, z), -np.inf) if clear.any() else _certain(a, b, z)
    yield order[: int(np.argmax(score)) + 1]


def _certain(a: NDArray[np.floating], b: NDArray[np.floating], z: float) -> FloatArray:
    """About what the bounds would leave of the loss ln(a / b)."""
    return np.asarray(np.log(a / b) - z * np.sqrt(1 / a + 1 / b))


def _excess(seen: int, draws: int, claim: float, level: float) -> float:
    """c such that `seen` against e^(-(1 + c) claim) of it is just beyond both bounds."""
    if not seen:
        return np.inf
    least = lower_bound(np.array([seen]), draws, level)[0]

    def short(c: float) -> float:
        """By how much such counts fall short of proving a breach."""
        most = upper_bound(np.array([int(seen * np.exp(-(1 + c) * claim))]), draws, level)[0]
        return float(claim - np.log(least / most))

    # A count of 0 proves the most that `seen` can.
    largest = np.log(seen) / claim
    return float(brentq(short, 0.0, largest)) if short(largest) < 0 < short(0.0) else np.inf


# --- Word-level mechanisms -----------------------------------------------------------------------


def audit_words(
    mechanism: Mechanism,
    drawn: Drawn,
    *,
    setting: str | None = None,
) -> Audit:
    """Compare the draws of some words with the mechanism's claim.

    All pairs of them whose claimed loss lies between LEAST and MOST are compared, both ways. The
    draws of noise with an exact search are compared with the noise that is claimed as well.

    Parameters
    ----------
    drawn : from this mechanism
    setting : how tables call it; by default epsilon and the size of the vocabulary
    """
    claim = claimed_loss(mechanism)
    i, j = np.triu_indices(len(drawn.words), 1)
    losses = claim.between(drawn.words[i], drawn.words[j])
    chosen = (losses >= LEAST) & (losses <= MOST)
    i, j, losses = i[chosen], j[chosen], losses[chosen]
    level = bound_level(len(i))

    def halves(a: int, b: int) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        return (drawn.first[a], drawn.first[b]), (drawn.second[a], drawn.second[b])

    findings = [
        (examine(*halves(a, b), loss, level=level), examine(*halves(b, a), loss, level=level))
        for a, b, loss in zip(i.tolist(), j.tolist(), losses.tolist(), strict=True)
    ]
    words = [mechanism.embedding.words[word] for word in drawn.words.tolist()]
    noise = _noise_of(mechanism, drawn) if is_simulated(mechanism) else None
    return _judged(mechanism, setting, (words, i, j), losses, findings, drawn.draws, noise)


def audit_noise_length(
    mechanism: Mechanism,
    drawn: Drawn,
    *,
    setting: str | None = None,
) -> Audit:
    """Compare the draws of some words with the noise that is claimed, and with that alone.

    Where only the noise's length is tested, the worst ratio is that of epsilons: a noisy vector
    with a share s of the noise loses claim / s, whatever the word next to it shows of that.

    Parameters
    ----------
    mechanism : noise with an exact search, see `privacy.noise.released_noise`
    drawn : from this mechanism, at an epsilon where words are kept now and then
    setting : see `audit_words`

    Returns
    -------
    Audit whose `pairs` counts words
    """
    released = _noise_of(mechanism, drawn)
    return audited(
        mechanism,
        "sampled, length of the noise",
        len(drawn.words),
        setting,
        draws=drawn.draws,
        worst_ratio=1 / released.high,
        violations=len(drawn.words) if released.high < 1 else 0,
        excess=1 / released.caught_from - 1 if released.caught_from else np.inf,
        noise=(released.low, released.high),
        caught_from=released.caught_from,
    )


def _noise_of(mechanism: Mechanism, drawn: Drawn) -> ReleasedNoise:
    """Both halves: the simulation has chosen the event."""
    counts = drawn.first + drawn.second
    return released_noise(mechanism, drawn.words, counts, confidence=CONFIDENCE)


def _judged(
    mechanism: Mechanism | TruncatedLaplace,
    setting: str | None,
    pairs: tuple[Sequence[str], IntArray, IntArray],
    claimed: FloatArray | float,
    findings: Sequence[tuple[Finding, Finding]],
    draws: int,
    noise: ReleasedNoise | None,
) -> Audit:
    """Both directions of all pairs as one audit; a pair's excess is that of its worse direction.

    `pairs` are the names of all inputs, and the numbers of the two of each pair.
    """
    names, i, j = pairs
    ratio = np.array([max(one.loss, two.loss) for one, two in findings]) / claimed
    worst = int(ratio.argmax()) if len(ratio) else None
    return audited(
        mechanism,
        "sampled, best output, set and support",
        len(ratio),
        setting,
        draws=draws,
        worst_ratio=np.nan if worst is None else float(ratio[worst]),
        worst_pair=("", "") if worst is None else (names[i[worst]], names[j[worst]]),
        violations=int((ratio > 1).sum()),
        excess=max((max(one.excess, two.excess) for one, two in findings), default=np.inf),
        noise=None if noise is None else (noise.low, noise.high),
        caught_from=None if noise is None else noise.caught_from,
    )


def spread_words(mechanism: Mechanism, count: int, *, around: int = 0) -> IntArray:
    """Words whose claimed losses are alike: near one word, and far from each other.

    The 4 * count words nearest to a word are taken; of these one after the other the one
    farthest from those taken before. Pairs of them have losses within a small factor.

    Parameters
    ----------
    count : >= 2, at most the vocabulary
    around : the word that comes first
    """
    check_count(count, 2, mechanism.size, what="count")
    claim = claimed_loss(mechanism)
    near = np.argsort(claim.rows(np.array([around]))[0], kind="stable")[: 4 * count]
    table = claim.rows(near)[:, near]
    taken, reach = [0], table[0].copy()
    while len(taken) < count:
        taken.append(int(reach.argmax()))
        reach = np.minimum(reach, table[taken[-1]])
    return near[taken]


def at_most(mechanism: Mechanism, words: IntArray, loss: float = MOST) -> Mechanism:
    """The mechanism at the epsilon where the farthest two of some words have this loss."""
    ids = check_ids(words, mechanism.size, what="words")
    largest = float(claimed_loss(mechanism).rows(ids)[:, ids].max())
    if not 0 < largest < np.inf:
        raise InvalidInput(f"words: their largest claimed loss is {largest}, expected finite, > 0")
    return mechanism.with_epsilon(mechanism.epsilon * loss * (1 - 1e-9) / largest)


# --- Sentence-level noise ------------------------------------------------------------------------

_CELLS = 400  # of the statistic, between its least and largest possible value


@simulation()
@checked(draws=COUNT)
def audit_laplace(
    mechanism: TruncatedLaplace,
    sentences: NDArray[np.floating],
    *,
    draws: int,
    seed: int,
    kept: NDArray[np.floating] | None = None,
) -> Audit:
    """Compare noisy means of documents that differ in one sentence with the claim.

    Outputs are vectors. They are told apart by the statistic sum_j (|y_j - m'_j| - |y_j - m_j|)
    / b_j, cut into cells, where m and m' are the clipped means without noise and b the scale that
    is claimed: if the claim holds this is the logarithm of the ratio of densities, and no event
    has a larger loss than one of its cells. The length of the noise, sum_j |y_j - m_j| / b_j, is
    compared with its law.

    Parameters
    ----------
    sentences : (inputs, width); document i holds sentence i, all pairs of documents are compared
    draws : >= 1, per document and half
    seed : of the draws
    kept : (k - 1, width) the sentences that all documents have in common; None: no other

    Notes
    -----
    All pairs have the claim eps, however near their means: a pair tells something only if its
    sentences lie at opposite ends of the box.
    """
    if not LEAST <= mechanism.epsilon <= MOST:
        raise InvalidInput(f"epsilon: got {mechanism.epsilon:g}, expected {LEAST} to {MOST}")
    common = np.empty((0, mechanism.width)) if kept is None else np.asarray(kept)
    documents = [np.vstack([row, common]).astype(np.float32) for row in np.asarray(sentences)]
    i, j = np.triu_indices(len(documents), 1)
    counts, inside = _laplace_cells(mechanism, documents, (i, j), draws, seed)
    level = bound_level(len(i))

    def examined(pair: int, a: int) -> Finding:
        chosen, judged = ((half[a, pair], half[1 - a, pair]) for half in counts)
        return examine(chosen, judged, mechanism.epsilon, level=level)

    names = [f"document {number}" for number in range(len(documents))]
    sizes = f"{len(common) + 1} sentences, width {mechanism.width}"
    return _judged(
        mechanism,
        f"eps {mechanism.epsilon:g}, {sizes}, no last digits",
        (names, i, j),
        mechanism.epsilon,
        [(examined(pair, 0), examined(pair, 1)) for pair in range(len(i))],
        draws,
        laplace_noise(inside, 2 * draws * len(documents), mechanism.width, confidence=CONFIDENCE),
    )


def _laplace_cells(
    mechanism: TruncatedLaplace,
    documents: Sequence[NDArray[np.float32]],
    pairs: tuple[IntArray, IntArray],
    draws: int,
    seed: int,
) -> tuple[IntArray, int]:
    """Draws in each cell of the statistic, (half, side, pair, cell), and those of short noise."""
    k, box = len(documents[0]), mechanism.box
    clipped = [np.clip(rows, box.low, box.high) for rows in documents]
    means = np.stack([rows.astype(np.float64).mean(0) for rows in clipped])
    scale = box.range * mechanism.width / (k * mechanism.epsilon)
    i, j = pairs
    # Beyond both means the statistic is +-epsilon but for rounding, which is not to be cut: there
    # the last digits of y tell the documents apart (Mironov 2012), as the mechanism says.
    edges = np.linspace(-1, 1, _CELLS - 1) * mechanism.epsilon * (1 - 1e-9)
    counts = np.zeros((2, 2, len(i), _CELLS), dtype=np.int64)
    radius, inside = laplace_radius(mechanism.width), 0
    for half, (document, rows) in product(range(2), enumerate(documents)):
        for part, start in enumerate(range(0, draws, DRAWS)):
            rng = stream(seed, "audit", document, half, part)
            y = mechanism.sanitize(copies(rows, min(DRAWS, draws - start)), rng) / scale
            apart = np.stack([np.abs(y - mean / scale).sum(1) for mean in means])
            inside += int((apart[document] <= radius).sum())
            for side, own in enumerate((i, j)):
                for pair in np.flatnonzero(own == document):
                    statistic = apart[j[pair]] - apart[i[pair]]
                    cell = np.searchsorted(edges, statistic, side="right")
                    counts[half, side, pair] += np.bincount(cell, minlength=_CELLS)
    return counts, inside
