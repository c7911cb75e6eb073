"""What chooses the next token: the likeliest, or a draw from the softmax of the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from textpriv.channel import FloatArray, IntArray
from textpriv.errors import InvalidInput
from textpriv.seeds import Key, stream

# Scores of the next token, float32 (rows, vocabulary), and the number of each row's prompt, to
# one column per row. Column c stands for the token `generator.sayable[c]`.
Choose = Callable[[torch.Tensor, IntArray], IntArray]

_RARE = 2.0**-20  # weight, next to the largest, below which a token is drawn in a second step
_FINE = 2.0**-26  # uniforms below it get new bits
_TINY = 1e-30  # sums of weights below it are not those of float32
_ROWS = 8  # at once: what is computed of them stays in the processor's cache
_BLOCK = 256  # columns whose weights are summed in float32


def likeliest(scores: torch.Tensor, numbers: IntArray) -> IntArray:
    """A `Choose`: the token with the largest score, of equal ones the first."""
    return scores.argmax(1).cpu().numpy()


class Sampled:
    """A `Choose`: a token from softmax(scores), over the whole vocabulary.

    Every prompt has a random stream of its own, named by the seed, the keys and its number (see
    `textpriv.seeds.stream`), so that what it draws depends neither on the batch nor on the order.
    """

    def __init__(self, *, seed: int | None, keys: Sequence[Key] = ()) -> None:
        self._seed, self._keys = seed, tuple(keys)
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, scores: torch.Tensor, numbers: IntArray) -> IntArray:
        return draw(scores, self.streams(numbers))

    def streams(self, numbers: IntArray) -> list[np.random.Generator]:
        """The random stream of each prompt, as far as it was used."""
        for number in numbers.tolist():
            if number not in self._streams:
                self._streams[number] = stream(self._seed, *self._keys, number)
        return [self._streams[number] for number in numbers.tolist()]


def draw(log_weights: torch.Tensor, streams: Sequence[np.random.Generator]) -> IntArray:
    """One column per row, with probability proportional to exp(log_weights): (rows,).

    By inversion. A cumulative sum would lose what is rarer than 2^-53, and a mechanism has to say
    even a token of probability e^-90 as often as it claims. So all that is rarer than 2^-20 of the
    most frequent is one event, whose uniform has as many bits near 0 as anywhere; where it occurs,
    one of these is drawn in the same way. The whole vocabulary is looked at in float32, first by
    blocks of columns; the one block that is drawn, and all sums over blocks, are in float64. With
    50,000 columns every probability is right within a factor of 1 + 1e-4 for each such step.

    Parameters
    ----------
    log_weights : float32 or float64 (rows, columns), no NaN, at least one finite and none +inf;
        -inf is never chosen
    streams : (rows,) of random numbers; one draw takes one or, rarely, more
    """
    if len(log_weights) > _ROWS and log_weights.device.type == "cpu":
        ends = range(0, len(log_weights), _ROWS)
        parts = [draw(log_weights[a : a + _ROWS], streams[a : a + _ROWS]) for a in ends]
        return np.concatenate(parts)
    top = log_weights.amax(1, keepdim=True)
    if not bool(torch.isfinite(top).all()):
        raise InvalidInput(
            "scores: got NaN, +inf or nothing but -inf, expected finite ones; the model "
            "overflows, or its weights are damaged"
        )
    weights = (log_weights - top).float().exp_()
    frequent = torch.nn.functional.threshold(weights, _RARE, 0.0)
    blocks = torch.nn.functional.pad(frequent, (0, -frequent.shape[1] % _BLOCK))
    blocks = blocks.view(len(weights), -1, _BLOCK)
    cumulative = blocks.sum(2).double().cumsum(1)
    rare, total = _rare(log_weights - top, weights - frequent), cumulative[:, -1].cpu().numpy()
    uniform = np.array([_uniform(each) for each in streams])
    place = np.clip(uniform * (rare + total) - rare, 0.0, np.nextafter(total, 0))
    result: IntArray = _at(torch.from_numpy(place).to(weights.device), cumulative, blocks)
    again = np.flatnonzero(uniform * (rare + total) < rare)
    if len(again):
        rows = torch.from_numpy(again).to(log_weights.device)
        left = log_weights[rows].masked_fill(frequent[rows] > 0, -torch.inf)
        result[again] = draw(left, [streams[row] for row in again.tolist()])
    return result


def _rare(logarithm: torch.Tensor, weights: torch.Tensor) -> FloatArray:
    """Sums of the rare weights (float32), from their logarithms where they are too small for it."""
    total = weights.sum(1).double()
    tiny = total < _TINY
    if tiny.any():
        rare = logarithm[tiny].double().exp()
        total[tiny] = rare.masked_fill(rare > _RARE, 0.0).sum(1)
    return total.cpu().numpy()


def _at(place: torch.Tensor, cumulative: torch.Tensor, blocks: torch.Tensor) -> IntArray:
    """The column at which the cumulative weight passes a place: (rows,)."""
    row = torch.arange(len(place), device=place.device)
    block = torch.searchsorted(cumulative, place[:, None], right=True)[:, 0]
    before = torch.where(block > 0, cumulative[row, (block - 1).clamp(min=0)], 0.0)
    inside = blocks[row, block].double().cumsum(1)
    # In a block sums have another order, so that the last place may lie beyond its end.
    end = torch.nextafter(inside[:, -1], torch.zeros_like(before))
    column = torch.searchsorted(inside, torch.minimum(place - before, end)[:, None], right=True)
    return (block * _BLOCK + column[:, 0]).cpu().numpy()


def _uniform(rng: np.random.Generator) -> float:
    """Uniform on [0, 1), with at least 26 significant bits however small it is."""
    value, scale = rng.random(), 1.0
    while value < _FINE and scale > 0:
        # Given that it is below, it is uniform there.
        value, scale = rng.random(), scale * _FINE
    return value * scale
