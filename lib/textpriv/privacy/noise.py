"""Whether the noise that is released is as long as the noise that is claimed.

    noise = released_noise(madlib, words, counts)     # outputs drawn from each word
    noise.low, noise.high                             # as shares of the claimed length
    noise.caught_from                                 # 0.97: with 97% of the noise it would show

In many dimensions a claim says nearly nothing of the words that come out: most of eps * d is lost
in the look-up of the nearest word, so that half of the noise need not break it on any event. The
length of the noise shows all the same. The event "the output is one of the k words nearest to the
input" (k = 0: the input itself) is the likelier, the less noise there is. How likely it should be
is simulated by plain code that shares nothing with the mechanism: noise by its definition, all
distances, the rule of the paper. Noise of every length is simulated with the same random numbers,
and k is chosen by simulations of their own, so that `TARGET` of the noise stands out most.

The bounds are those of Clopper and Pearson on both sides. They hold for draws of several words
together, as a sum of unequal trials spreads less than the binomial of their mean (Hoeffding 1956).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, gammainc
from scipy.stats import binom

from textpriv.channel import FloatArray, IntArray
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mechanism, RankRepair
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.privacy.claims import claimed_loss, metric_root
from textpriv.seeds import stream

SHARES = np.array(
    [0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0]
)  # of the claimed noise, at which it is simulated
TARGET = 0.8  # of the claimed noise, which every audit should catch
POWER = 0.99  # with which less noise is caught from `caught_from` on
SIMULATED = 1 << 17  # draws over all words
_PILOT = 4  # one simulation in so many only chooses the event
_ROWS = 256  # simulated at once
_SEARCHES = ("exact", "plain")  # names of those that find the nearest word indeed


@dataclass(frozen=True)
class ReleasedNoise:
    """The noise behind some draws, as a share of the length that is claimed.

    Attributes
    ----------
    low, high : the share lies between them at the confidence asked for; 0 and inf are possible.
        Less noise than is claimed: high < 1
    caught_from : the largest share that is found to be less than 1 with probability POWER;
        0 where none is
    """

    low: float
    high: float
    caught_from: float


def lower_bound(successes: NDArray[np.integer], draws: int, level: float) -> FloatArray:
    """Clopper and Pearson's lower bound of a probability; fails with probability `level`."""
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), draws - k + 1, level), 0.0)


def upper_bound(successes: NDArray[np.integer], draws: int, level: float) -> FloatArray:
    """Clopper and Pearson's upper bound of a probability; fails with probability `level`."""
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k < draws, betainccinv(k + 1, np.maximum(draws - k, 1), level), 1.0)


def released_noise(
    mechanism: Mechanism,
    words: IntArray,
    counts: IntArray,
    *,
    confidence: float = 0.999,
    seed: int = 0,
) -> ReleasedNoise:
    """The noise of a mechanism, judged by what it released.

    Parameters
    ----------
    mechanism : one that `is_simulated`
    words : (inputs,) ids
    counts : (inputs, size) how often each gave each output; as many draws of each
    confidence : of both ends of the interval together
    seed : of the simulations, which are drawn apart from all that is judged
    """
    if not is_simulated(mechanism):
        raise InvalidInput(
            f"mechanism: got {mechanism.name}, expected noise with an exact search: Madlib, "
            "Mahalanobis, RankRepair or Vickrey"
        )
    ranks = ranks_around(mechanism, words)
    near = np.zeros(mechanism.size, dtype=np.int64)
    for row, rank in zip(counts, ranks, strict=True):
        near[rank] += row
    released = int(near.sum())
    per_word = -(-min(SIMULATED, 2 * released) // len(words))
    pilot, shares = stream(seed, "noise", "pilot"), np.array([TARGET, 1.0])
    less, right = _simulated(mechanism, words, ranks, -(-per_word // _PILOT), shares, pilot)
    k = _clearest(less.cumsum() / less.sum(), right.cumsum() / right.sum())
    simulated = _simulated(
        mechanism, words, ranks, per_word, SHARES, stream(seed, "noise", "simulated")
    )
    inside, draws, level = simulated[:, : k + 1].sum(1), per_word * len(words), (1 - confidence) / 4
    return _judged(
        int(near[: k + 1].sum()),
        released,
        inside / draws,
        (lower_bound(inside, draws, level), upper_bound(inside, draws, level)),
        level,
    )


def laplace_radius(width: int) -> float:
    """Where to cut sum_j |z_j| / b_j, z Laplace noise of scales b, to see less of it best."""
    radii = np.linspace(0, 3 * width + 10, 400)[1:]
    return float(radii[_clearest(gammainc(width, radii / TARGET), gammainc(width, radii))])


def laplace_noise(
    inside: int, released: int, width: int, *, confidence: float = 0.999
) -> ReleasedNoise:
    """The same of Laplace noise in each of `width` coordinates, where nothing is simulated.

    Of the draws `released`, those `inside` have a sum_j |z_j| / b_j, which is Gamma(width), of at
    most `laplace_radius(width)`.
    """
    expected = gammainc(width, laplace_radius(width) / SHARES)
    return _judged(inside, released, expected, (expected, expected), (1 - confidence) / 2)


def is_simulated(mechanism: Mechanism) -> bool:
    """Whether what a mechanism claims to draw can be simulated: noise with an exact search."""
    noise = _source(mechanism)
    return isinstance(noise, Madlib) and getattr(noise.search, "name", "") in _SEARCHES


def _source(mechanism: Mechanism) -> Mechanism:
    """The mechanism whose noise is used."""
    return mechanism.madlib if isinstance(mechanism, RankRepair | Vickrey) else mechanism


def ranks_around(mechanism: Mechanism, words: IntArray) -> IntArray:
    """(words, size): rank of each word by distance from some, as the claim measures: 0 itself."""
    apart = claimed_loss(mechanism).rows(words)
    apart[np.arange(len(words)), words] = -1.0  # before words of the same vector
    return apart.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")


def _clearest(less: FloatArray, right: FloatArray) -> int:
    """The event whose probability rises most, in standard deviations, where noise is missing."""
    middle = (less + right) / 2
    return int(np.argmax((less - right) / np.sqrt(middle * (1 - middle) + 1e-6)))


def _judged(
    inside: int,
    released: int,
    expected: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    level: float,
) -> ReleasedNoise:
    """All shares of the noise that a count agrees with; `expected` at SHARES, within `bounds`."""
    least, most = (np.minimum.accumulate(bound) for bound in bounds)
    seen = np.array(inside)
    lower, upper = lower_bound(seen, released, level), upper_bound(seen, released, level)
    shares, first, last = np.log(SHARES), float(np.log(SHARES[0])), float(np.log(SHARES[-1]))
    low = np.interp(-upper, -least, shares, left=-np.inf, right=last)
    high = np.interp(-lower, -most, shares, left=first, right=np.inf)
    likely = binom.ppf(1 - POWER, released, np.clip(expected, 0, 1)).astype(np.int64)
    beyond = lower_bound(likely, released, level) - most[SHARES == 1.0]
    caught = np.interp(0.0, -np.minimum.accumulate(beyond), shares, left=-np.inf)
    return ReleasedNoise(*(float(np.exp(value)) for value in (low, high, caught)))


# --- The claimed law, from its definition -------------------------------------------------------


def _simulated(
    mechanism: Mechanism,
    words: IntArray,
    ranks: IntArray,
    draws: int,
    shares: FloatArray,
    rng: np.random.Generator,
) -> IntArray:
    """How often the output had each rank around its input: (shares, size), over all words.

    Word w beats another from x + s z where s <z, w - x> - |w - x|^2 / 2 is larger: one product
    of the noise with the table serves every share s.
    """
    vectors = mechanism.embedding.vectors.astype(np.float64)
    root = metric_root(_source(mechanism))
    around = _neighbours(mechanism) if isinstance(mechanism, RankRepair) else None
    counts = np.zeros((len(shares), mechanism.size), dtype=np.int64)
    for word, rank in zip(words, ranks, strict=True):
        offset = torch.from_numpy(vectors - vectors[word])
        half = (offset**2).sum(1) / 2
        for start in range(0, draws, _ROWS):
            noise = _noise(min(_ROWS, draws - start), root, mechanism.epsilon, rng)
            along, choice = torch.from_numpy(noise) @ offset.T, rng.random(len(noise))
            for count, share in zip(counts, shares, strict=True):
                nearness = torch.add(-half, along, alpha=float(share))  # -distance^2 / 2 + const
                length = share**2 * (noise**2).sum(1)
                outputs = _chosen(mechanism, around, nearness, length, choice)
                count += np.bincount(rank[outputs], minlength=mechanism.size)
    return counts


def _noise(count: int, root: FloatArray, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """R L u with L L' = A: of the same law as R A^(1/2) u, since u has no direction."""
    n = len(root)
    directions = rng.standard_normal((count, n))
    directions /= np.sqrt((directions**2).sum(1, keepdims=True))
    radius = rng.standard_gamma(n, (count, 1)) / epsilon
    return (radius * directions) @ root.T


def _neighbours(mechanism: RankRepair) -> IntArray:
    """Words by distance from each word, itself first: (size, ranks that are ever drawn)."""
    size, points = mechanism.size, torch.from_numpy(mechanism.embedding.vectors.astype(np.float64))
    ranks = min(size, int(np.ceil(40 / (mechanism.c * mechanism.epsilon))))  # the rest: below e^-40
    around = np.empty((size, ranks), dtype=np.int64)
    for word in torch.arange(size).split(_ROWS):
        apart = torch.cdist(points[word], points)
        apart[torch.arange(len(word)), word] = -1.0
        around[word] = apart.topk(ranks, largest=False).indices.numpy()
    return around


def _chosen(
    mechanism: Mechanism,
    around: IntArray | None,
    nearness: torch.Tensor,
    length: FloatArray,
    choice: FloatArray,
) -> IntArray:
    """The word put out by each paper's rule, given uniform numbers `choice`: (count,).

    The squared distance of the noisy vector is `length`, of its noise, less twice `nearness`.
    """
    if isinstance(mechanism, RankRepair):
        assert around is not None
        weights = np.exp(-mechanism.c * mechanism.epsilon * np.arange(around.shape[1]))
        cumulative = weights.cumsum() / weights.sum()
        rank = np.minimum(np.searchsorted(cumulative, choice, side="right"), len(weights) - 1)
        return np.asarray(around[nearness.argmax(1).numpy(), rank])
    if isinstance(mechanism, Vickrey):
        values, two = nearness.topk(2)
        first, second = np.sqrt(np.maximum(0, length[:, None] - 2 * values.numpy())).T
        t = mechanism.t
        takes_first = choice * (t * first + (1 - t) * second) < (1 - t) * second
        return np.where(takes_first, *two.numpy().T)
    return np.asarray(nearness.argmax(1).numpy())
