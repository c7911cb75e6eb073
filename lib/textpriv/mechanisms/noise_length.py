"""How long a vector of independent Laplace numbers is: P(|z| > r), down to its far tail.

    length = LaplaceLength(scales)            z_j with density exp(-|z_j| / b_j) / (2 b_j)
    length.log_survival(radius)

|z|^2 is a sum of independent numbers z_j^2 with a known law. Their laws are convolved on a grid,
one after the other. All that is added is positive, so that no digit cancels and a probability of
1e-100 is as exact as one of a half; a product of Fourier transforms would lose it at 1e-16.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from textpriv.channel import FloatArray
from textpriv.errors import InvalidInput

CELLS = 4096  # of the grid of squared lengths
REACH = 4.0  # squared lengths that the grid holds, in means of the squared length
_END = 32  # cells at its end, from which the tail beyond is told
_TINY = 1e-290  # below which a product of probabilities loses digits


class LaplaceLength:
    """The length of a vector of independent Laplace numbers.

    Parameters
    ----------
    scales : (dimension,) b_j >= 0, some > 0

    Notes
    -----
    Every z_j^2 is spread over the two grid points beside it so that its mean stays. The sum's mean
    is then exact, and its variance too large by at most dimension / 4 cells squared. Beyond the
    grid log P falls on as it does at its end.
    """

    def __init__(self, scales: ArrayLike) -> None:
        b = np.asarray(scales, dtype=np.float64)
        if b.ndim != 1 or not np.isfinite(b).all() or not (b >= 0).all() or not b.any():
            raise InvalidInput(
                f"scales: got shape {b.shape}, expected a list of finite numbers >= 0, some > 0"
            )
        b = b[b > 0]
        # The mean 2 sum b^2 tells how far most lengths reach, the widest coordinate the tail.
        top = max(REACH * 2 * float((b**2).sum()), (12 * float(b.max())) ** 2)
        edges = np.linspace(0, top, CELLS + 1)
        law = np.ones(1)
        for scale in b:
            law = np.convolve(law, _split(edges / scale**2))[:CELLS]
        held = np.flatnonzero(law > _TINY)[-1] + 1
        law, step, length = law[:held], edges[1], np.sqrt(edges[:held])
        # Beyond the grid log P is straight in the length, as of one exponential number.
        by_length = np.log(law[-_END:] * length[-_END:])
        self._fall = (by_length[0] - by_length[-1]) / (length[-1] - length[-_END])
        beyond = law[-1] * 2 * length[-1] / (step * self._fall)
        # A grid point stands for half a cell on either side.
        self._length = np.sqrt(np.maximum(edges[:held] - step / 2, 0))
        self._log_survival = np.minimum(np.log(np.cumsum(law[::-1])[::-1] + beyond), 0.0)

    def log_survival(self, radius: ArrayLike) -> FloatArray:
        """log P(|z| > radius), for any shape of radii >= 0."""
        r = np.asarray(radius, dtype=np.float64)
        beyond = self._fall * np.maximum(r - self._length[-1], 0.0)
        return cast(FloatArray, np.interp(r, self._length, self._log_survival) - beyond)


def _split(edges: FloatArray) -> FloatArray:
    """P(E^2 at each grid point), E exponential, each number split between the points beside it.

    With F the distribution of E^2 and I(t) its integral from 0 to t, point k of step h holds
    (I(k h + h) - 2 I(k h) + I(k h - h)) / h; I(t) = t - 2 + 2 (1 + sqrt t) exp(-sqrt t).
    """
    step, root = edges[1], np.sqrt(edges)
    tail = 2 * (1 + root) * np.exp(-root)  # E[(E^2 - t)+], of which I(t) = t - 2 + tail
    second = tail[2:] - 2 * tail[1:-1] + tail[:-2]
    # Where the difference cancels, the second derivative of the tail, the density, is used.
    density = np.exp(-root[1:-1]) / (2 * root[1:-1]) * step**2
    inner = np.where(second > 1e-9 * tail[1:-1], second, density) / step
    return np.concatenate([[1 - (tail[0] - tail[1]) / step], inner])
