"""An estimate of MADLIB's channel, so that an attack that asks a channel can ask MADLIB's.

    channels = NoiseChannel.estimate(Madlib(embedding, epsilon=10), [10, 12, 14], rng)
    ContextFreeBound(channels[12], private).guess(observed)

Noise, then the nearest word, has no P(y|x) in closed form. The estimate is

    P(x|x) = kept(x)
    P(y|x) = (1 - kept(x)) exp(reach |y|^2 - decay |x - y|^2) / Z(x)    for y != x

with y measured from the mean of all vectors. Along one direction u the word is kept up to its
first crossing, at every epsilon (see `neighbors.radius`): kept(x) is the mean over some
directions and their opposites. `reach` and `decay` are fitted by maximum likelihood to the
exact envelopes of a sample of words, and Z(x) is a sum over all words.

Why this form: in n dimensions the noise is nearly Gaussian with variance n / epsilon^2 in each
coordinate. Then P(y|x) is, up to a factor of x and a factor of y, the mean of
exp(<x, p> epsilon^2 / n) over the points p nearest to y: nearly exponential in <x, y>, as here.
A histogram has nothing to offer: replacements are spread over the whole vocabulary, and those
seen from 4,000 words of GloVe predict the others' worse than the uniform law does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import scipy.optimize
import scipy.sparse
import torch

from textpriv.channel import ROW_BYTES, Channel, FloatArray, IntArray, check_ids
from textpriv.checks import COUNT, check_generator, check_kind, checked
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import check_epsilons
from textpriv.mechanisms.noise import Madlib
from textpriv.neighbors import (
    AllRadii,
    Distances,
    ExactSearch,
    largest_radius,
    radius_cdf,
    random_directions,
)

SAMPLED_DIRECTIONS = 8  # per word whose envelope is followed
PENALTY = 1e-2  # keeps the fit finite where next to nothing is replaced


class _Replacement(NamedTuple):
    """exp(reach |y|^2 - decay |x - y|^2): the weight of y as a replacement of x."""

    reach: float
    decay: float


class NoiseChannel(Channel):
    """An estimate of P(y|x) of MADLIB (or `Mahalanobis`) with exact search; see the module.

    An attack that uses it is a real attack on the real outputs: what it achieves can be
    achieved, a lower bound on what the best attacker achieves who knows the true channel.
    `attacks.bayes.bayes_success` and the `posterior` of this channel are estimates, and bounds
    in neither direction; nor does its largest ratio of two rows say what epsilon holds.

    Parameters
    ----------
    distances : between all words
    kept : (size,) P(x|x), inside (0, 1)
    reach, decay : of the law of replacements; decay >= 0
    log_normalizers : (size,) log Z(x), summed in float32

    Notes
    -----
    `log_rows` sums to 1 in float64. `log_columns` and `likeliest_inputs` use
    `log_normalizers`, so that they agree with the rows to about 1e-5 only, far inside the
    error of the estimate.
    """

    def __init__(
        self,
        distances: Distances,
        *,
        kept: FloatArray,
        reach: float,
        decay: float,
        log_normalizers: FloatArray,
    ) -> None:
        self.distances, self.size = distances, len(distances.points)
        self.reach, self.decay = reach, decay
        self.attraction = reach * distances.squared  # of each word as a replacement
        self.log_kept = np.log(kept)
        self._log_leaving = np.log1p(-kept) - log_normalizers

    @classmethod
    @checked(directions=COUNT, sampled_words=COUNT)
    def estimate(
        cls,
        mechanism: Madlib,
        epsilons: Iterable[float],
        rng: np.random.Generator,
        *,
        directions: int = 24,
        sampled_words: int = 256,
    ) -> dict[float, Self]:
        """The channel of a mechanism at each of several epsilons, which share all distances.

        Parameters
        ----------
        mechanism : its own epsilon does not count
        epsilons : finite numbers > 0, at least one
        directions : >= 1, along which, and along whose opposites, all words are followed to
            their first crossing. The error of `kept` has a standard deviation of at most
            1 / (2 sqrt(directions)), and similar words err alike: they share the directions
        sampled_words : >= 1, whose envelopes are followed; they take
            4 * sampled_words * size bytes

        Raises
        ------
        InvalidInput : an approximate search, which has another channel; words with equal
            vectors, of which only the first is ever put out; a number out of its range
        """
        check_kind(mechanism, Madlib, what="mechanism", expected="a Madlib or Mahalanobis")
        check_generator(rng)
        size, vectors = mechanism.size, mechanism.embedding.vectors
        wanted = check_epsilons(epsilons)
        if not isinstance(mechanism.search, ExactSearch):
            name = type(mechanism.search).__name__
            raise InvalidInput(f"mechanism: searches with {name}, expected ExactSearch")
        if equal := mechanism.embedding.duplicate_vectors:
            raise InvalidInput(
                f"mechanism: {equal} words have the vector of an earlier word, expected none"
            )
        distances = mechanism.embedding.distances
        words = np.sort(rng.choice(size, min(sampled_words, size), replace=False))
        fitted = _fitted(mechanism, AllRadii(mechanism.search), distances, wanted, words, rng)
        units = mechanism.stretched(random_directions(directions, vectors.shape[1], rng))
        radii, log_normalizers = _pass_over(distances, units, fitted)
        channels = {}
        for epsilon, law, normalizers in zip(wanted, fitted, log_normalizers, strict=True):
            along = radius_cdf(radii, vectors.shape[1], epsilon)
            # The mean of all words counts as one more direction: nothing is certain.
            kept = (along.sum(0) + along.mean()) / (len(along) + 1)
            channels[epsilon] = cls(
                distances,
                kept=np.clip(kept, np.finfo(np.float64).tiny, 1 - 2.0**-53),
                reach=law.reach,
                decay=law.decay,
                log_normalizers=normalizers,
            )
            channels[epsilon].vocabulary = mechanism.vocabulary
        return channels

    def parameters(self) -> dict[str, FloatArray]:
        """What it is made of beside the distances, by the names of its arguments."""
        kept = np.exp(self.log_kept)
        return {
            "kept": kept,
            "reach": np.array(self.reach),
            "decay": np.array(self.decay),
            "log_normalizers": np.log1p(-kept) - self._log_leaving,
        }

    @torch.inference_mode()
    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = self._log_weights(x).add_(self.attraction)
        own = np.arange(len(x)), x
        rows[own] = -torch.inf
        rows.sub_(torch.logsumexp(rows, dim=1, keepdim=True))
        log_kept = torch.from_numpy(self.log_kept[x])
        rows.add_(torch.log(-torch.expm1(log_kept))[:, None])
        rows[own] = log_kept
        return rows.numpy()

    @torch.inference_mode()
    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        # |x - y| = |y - x|, so that the weights of a column are those of a row.
        columns = self._log_weights(y).add_(self.attraction[y, None])
        columns.add_(torch.from_numpy(self._log_leaving))
        columns[np.arange(len(y)), y] = torch.from_numpy(self.log_kept[y])
        return columns.numpy()

    def _log_weights(self, words: IntArray) -> torch.Tensor:
        return self.distances.to(words).square_().mul_(-self.decay)

    def _joint(self, inputs: IntArray, log_prior: FloatArray) -> Callable[[IntArray], FloatArray]:
        given = torch.from_numpy(log_prior + self._log_leaving[inputs])
        if_kept = torch.from_numpy(log_prior + self.log_kept[inputs])
        position = np.full(self.size, -1)  # of a word among these inputs
        position[inputs] = np.arange(len(inputs))
        distances_to = self.distances.towards(inputs)

        def joint(outputs: IntArray) -> FloatArray:
            rows = distances_to(outputs).square_().mul_(-self.decay).add_(given)
            rows.add_(self.attraction[outputs, None])
            itself = np.flatnonzero(position[outputs] >= 0)
            column = position[outputs[itself]]
            rows[itself, column] = if_kept[column]
            return rows.numpy()

        return joint


@torch.inference_mode()
def _fitted(
    mechanism: Madlib,
    every: AllRadii,
    distances: Distances,
    epsilons: Sequence[float],
    words: IntArray,
    rng: np.random.Generator,
) -> list[_Replacement]:
    """The law of replacements of greatest likelihood, given the envelopes of some words."""
    size, dimension = distances.points.shape
    drawn = random_directions(len(words) * SAMPLED_DIRECTIONS, dimension, rng)
    units = mechanism.stretched(drawn).reshape(len(words), SAMPLED_DIRECTIONS, dimension)
    farthest = largest_radius(dimension, min(epsilons))
    envelope = every.envelope(words, units, max_radius=farthest)
    scale = float(distances.squared.mean())
    length = (distances.squared / scale).float()
    apart = torch.empty(len(words), size)
    for part in np.array_split(np.arange(len(words)), -(-len(words) * 8 * size // ROW_BYTES)):
        apart[part] = (distances.to(words[part]).square_() / scale).float()
    result = []
    for epsilon in epsilons:
        law = envelope.law(epsilon, words=words, size=size)
        reach, decay = _likeliest(law, apart, length, words)
        result.append(_Replacement(reach / scale, decay / scale))
    return result


@torch.inference_mode()
def _likeliest(
    law: scipy.sparse.csr_array, apart: torch.Tensor, length: torch.Tensor, words: IntArray
) -> tuple[float, float]:
    """argmax of sum_xy law(x, y) log P(y | x is replaced by y): a concave problem.

    `apart` and `length` are |x - y|^2 and |y|^2 in the same unit.
    """
    entries = law.tocoo()
    other = entries.col != words[entries.row]
    row, column, mass = entries.row[other], entries.col[other], entries.data[other]
    replaced = torch.from_numpy(np.bincount(row, mass, minlength=len(words))).double()
    seen = np.array([mass @ length[column].numpy(), mass @ apart[row, column].numpy()])
    chunks = torch.arange(len(words)).split(max(1, ROW_BYTES // (4 * apart.shape[1])))

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        reach, decay = parameters
        total, expected = 0.0, np.zeros(2)
        for part in chunks:
            weight = torch.add(reach * length, apart[part], alpha=-decay)
            weight[np.arange(len(part)), words[part]] = -torch.inf
            highest = weight.amax(1, keepdim=True)
            normalizer = weight.sub_(highest).exp_().sum(1)
            share = replaced[part] / normalizer
            total += float(replaced[part] @ (normalizer.double().log() + highest[:, 0]))
            expected[0] += float(share @ (weight @ length).double())
            expected[1] += float(share @ weight.mul_(apart[part]).sum(1).double())
        value = total - reach * seen[0] + decay * seen[1] + PENALTY * (parameters**2).sum()
        slope = np.array([1.0, -1.0]) * (expected - seen) + 2 * PENALTY * parameters
        return value, slope

    best = scipy.optimize.minimize(
        loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None)]
    )
    return float(best.x[0]), float(best.x[1])


@torch.inference_mode()
def _pass_over(
    distances: Distances, units: FloatArray, laws: Sequence[_Replacement]
) -> tuple[FloatArray, FloatArray]:
    """What needs all distances, in float32: first crossings and log Z(x).

    All words share the directions, whose products with the table are then made only once; an
    opposite direction costs nothing more, and what the two get wrong partly cancels.

    Returns
    -------
    radii : (2 * directions, size) at which another word takes over, first along the
        directions, then along their opposites; inf where none does
    log_normalizers : (laws, size)
    """
    points, squared = distances.points.float(), distances.squared.float()
    size = len(points)
    along = (torch.from_numpy(units) @ distances.points.T).float()
    attractions = [(law.reach * distances.squared).float() for law in laws]
    rate = torch.empty(2, len(units), size)  # 1 / (2 radius)
    log_normalizers = torch.empty(len(laws), size)
    floor = 1e-6 * float(squared.max())  # below it a squared distance is rounding
    chunk = min(size, max(1, ROW_BYTES // (8 * size)))
    both = torch.empty(2, chunk, size)  # new memory for each step would cost more
    for start in range(0, size, chunk):
        rows = torch.arange(start, min(start + chunk, size))
        apart, scratch = both[:, : len(rows)]
        own = torch.arange(len(rows)), rows
        torch.addmm(squared, points[rows], points.T, alpha=-2, out=apart)
        apart.add_(squared[rows, None])
        for law, attraction, normalizers in zip(laws, attractions, log_normalizers, strict=True):
            torch.add(attraction, apart, alpha=-law.decay, out=scratch)
            scratch[own] = -torch.inf
            highest = scratch.amax(1, keepdim=True)
            normalizers[rows] = scratch.sub_(highest).exp_().sum(1).log_().add_(highest[:, 0])
        apart.clamp_(min=floor).reciprocal_()
        for direction, product in enumerate(along):
            torch.sub(product, product[rows, None], out=scratch)
            scratch.mul_(apart)  # 0 for the word itself, so that no rate is negative
            rate[0, direction, rows] = scratch.amax(1)
            rate[1, direction, rows] = scratch.amin(1).abs()
    radii = rate.double().mul_(2).reciprocal_().flatten(0, 1)
    return radii.numpy(), log_normalizers.double().numpy()
