"""Vickrey: the nearest or the second nearest word to a noisy vector, by their distances.

    mechanism = Vickrey(Madlib(embedding, epsilon=10), t=0.75)
    mechanism.sanitize(["the rock is destined to be the new conan"])

With little noise the nearest word is the input itself. As in a Vickrey auction, where the second
highest price is paid, the second nearest may be shown instead.
"""

from __future__ import annotations

import numpy as np

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import SHARE, check_number
from textpriv.mechanisms.noise import AfterNoise, Madlib


def share_of_nearest(distances: FloatArray, t: float) -> FloatArray:
    """Probability of the nearest word: (1 - t) d2 / (t d1 + (1 - t) d2).

    Parameters
    ----------
    distances : (count, 2), d1 <= d2: of the noisy vectors to the nearest two words
    t : in [0, 1]

    Returns
    -------
    (count,) in [0, 1]; 1 - t, the value at d1 = d2, where the formula has 0 / 0
    """
    first, second = t * distances[:, 0], (1 - t) * distances[:, 1]
    total = first + second
    undefined = total == 0
    share: FloatArray = np.where(undefined, 1 - t, second / np.where(undefined, 1.0, total))
    return share


class Vickrey(AfterNoise):
    """The nearest word to MADLIB's noisy vector, or the second nearest.

    The nearest of all words, the input among them, is drawn with probability
    (1 - t) d2 / (t d1 + (1 - t) d2), where d1 and d2 are the Euclidean distances from the noisy
    vector to the nearest two words; else the second nearest is taken.

    Parameters
    ----------
    madlib : see `AfterNoise`; its search finds the two words
    t : in [0, 1]; 0 is MADLIB, 1 always takes the second nearest, and 1/2 chooses by distance
        alone

    References
    ----------
    Xu et al. 2021, On a Utilitarian Approach to Privacy Preserving Text Generation: the Vickrey
    mechanism; with `Mahalanobis` as the noise its regularized form.
    """

    name = "vickrey"

    def __init__(self, madlib: Madlib, *, t: float) -> None:
        super().__init__(madlib)
        self.t = check_number(t, SHARE, what="t")

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        uniform = rng.random(len(ids))  # drawn first: the same however the work is cut
        result = np.empty(len(ids), dtype=np.int64)
        start = 0
        for queries in self.madlib.noisy_vectors(ids, rng):
            part = slice(start, start + len(queries))
            nearest, distances = self.madlib.search.nearest(queries, 2)
            alone = nearest[:, 1] < 0  # an approximate index may find one row, or none
            distances[alone] = 0.0
            second = ~alone & (uniform[part] >= share_of_nearest(distances, self.t))
            result[part] = np.where(second, nearest[:, 1], nearest[:, 0])
            start = part.stop
        none = result < 0  # any word, blindly
        result[none] = rng.integers(self.size, size=int(none.sum()))
        return result
