"""What chooses the next token: the likeliest, or a draw from the softmax of the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from textpriv.channel import IntArray
from textpriv.checks import POSITIVE, checked
from textpriv.errors import InvalidInput
from textpriv.seeds import Key, stream

# Scores of the next token, float32 (rows, vocabulary), and the number of each row's prompt, to
# one column per row. Column c stands for the token `generator.sayable[c]`.
Choose = Callable[[torch.Tensor, IntArray], IntArray]

_RARE = 2.0**-20  # weight, next to the largest, below which a token is drawn in a second step
_FINE = 2.0**-26  # uniforms below it get new bits


def likeliest(scores: torch.Tensor, numbers: IntArray) -> IntArray:
    """A `Choose`: the token with the largest score, of equal ones the first."""
    return scores.argmax(1).cpu().numpy()


class Sampled:
    """A `Choose`: a token from softmax(scores / temperature), over the whole vocabulary.

    Every prompt has a random stream of its own, named by the seed, the keys and its number (see
    `textpriv.seeds.stream`), so that what it draws depends neither on the batch nor on the order.
    """

    @checked(temperature=POSITIVE)
    def __init__(
        self, temperature: float = 1.0, *, seed: int | None, keys: Sequence[Key] = ()
    ) -> None:
        self.temperature, self._seed, self._keys = float(temperature), seed, tuple(keys)
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, scores: torch.Tensor, numbers: IntArray) -> IntArray:
        return draw(scores.double() / self.temperature, self.streams(numbers))

    def streams(self, numbers: IntArray) -> list[np.random.Generator]:
        """The random stream of each prompt, as far as it was used."""
        for number in numbers.tolist():
            if number not in self._streams:
                self._streams[number] = stream(self._seed, *self._keys, number)
        return [self._streams[number] for number in numbers.tolist()]


def draw(log_weights: torch.Tensor, streams: Sequence[np.random.Generator]) -> IntArray:
    """One column per row, with probability proportional to exp(log_weights): (rows,).

    By inversion, in float64. A cumulative sum would lose what is rarer than 2^-53, and a mechanism
    has to say even a token of probability e^-90 as often as it claims. So all that is rarer than
    2^-20 of the most frequent is one event, whose uniform has as many bits near 0 as anywhere;
    where it occurs, one of these is drawn in the same way. With 50,000 columns every probability
    is right within a factor of 1 + 1e-4 for each such step.

    Parameters
    ----------
    log_weights : float64 (rows, columns), no NaN, at least one finite and none +inf; -inf is
        never chosen
    streams : (rows,) of random numbers; one draw takes one or, rarely, more
    """
    top = log_weights.amax(1, keepdim=True)
    if not bool(torch.isfinite(top).all()):
        raise InvalidInput(
            "scores: got NaN, +inf or nothing but -inf, expected finite ones; the model "
            "overflows, or its weights are damaged"
        )
    weights = (log_weights - top).exp()
    is_rare = weights < _RARE
    frequent = weights.masked_fill(is_rare, 0.0)
    cumulative = frequent.cumsum(1)
    rare, total = (weights - frequent).sum(1).cpu().numpy(), cumulative[:, -1].cpu().numpy()
    uniform = np.array([_uniform(each) for each in streams])
    place = np.clip(uniform * (rare + total) - rare, 0.0, np.nextafter(total, 0))
    chosen = torch.searchsorted(
        cumulative, torch.from_numpy(place).to(cumulative.device)[:, None], right=True
    )
    result: IntArray = chosen[:, 0].cpu().numpy()
    again = np.flatnonzero(uniform * (rare + total) < rare)
    if len(again):
        rows = torch.from_numpy(again).to(log_weights.device)
        left = log_weights[rows].masked_fill(~is_rare[rows], -torch.inf)
        result[again] = draw(left, [streams[row] for row in again.tolist()])
    return result


def _uniform(rng: np.random.Generator) -> float:
    """Uniform on [0, 1), with at least 26 significant bits however small it is."""
    value, scale = rng.random(), 1.0
    while value < _FINE and scale > 0:
        # Given that it is below, it is uniform there.
        value, scale = rng.random(), scale * _FINE
    return value * scale
