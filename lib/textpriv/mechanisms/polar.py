"""STAMP's polar mechanism: a word's direction is turned by a random angle, its length forgotten.

    mechanism = Polar(embedding, epsilon=400)
    mechanism.sanitize(["the rock is destined to be the new conan"])

The random direction alone carries the guarantee; the look-up of the word with the largest cosine
is post-processing. Turned towards a fixed tangent t by an angle a, the direction u becomes
cos(a) u + sin(a) t, and word z overtakes where tan(a) <t, z> > 1 - <u, z>: lines in tan(a), as
those of noise are lines in its length. One tangent therefore serves every epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.stats import vonmises_fisher

from textpriv.channel import FloatArray, IntArray
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim, Mechanism
from textpriv.neighbors import AllRadii, ExactSearch, random_directions

DRAW_CHUNK = 8192  # directions held at once
CELLS = 4096  # angles at which their law is worked out
_REACH = 12.0  # standard deviations around the likeliest angle that are looked at


class Polar(Mechanism):
    """A direction from the law of von Mises and Fisher around the word's, then the nearest word.

    The density of direction v is proportional to exp((eps / pi) <u, v>), u = x / |x| that of the
    word; the output is the word with the largest cosine to v.

    Parameters
    ----------
    embedding : the public vocabulary; at least two dimensions, no vector of length 0
    epsilon : see `claim.unit`

    Attributes
    ----------
    units : (words, dimension) float32 directions of the words

    Notes
    -----
    Log-densities of two words differ by (eps / pi) <u - u', v>, at most eps / pi times the chord
    |u - u'|. A chord is at most 2, so that 2 eps / pi bounds the loss of any two words. The factor
    1 / pi is that of the authors' code, made for an angle of up to pi; algorithm 1 and theorem 3 of
    the paper have eps in its place, so that the paper's epsilon is 1 / pi of this one.

    References
    ----------
    Tian et al. 2026, STAMP: Selective Task-Aware Mechanism for Text Privacy; the law of directions
    is that of Weggenmann and Kerschbaum 2021, "Differential Privacy for Directional Data". STAMP's
    other half, a part of epsilon for each group of words, is in `mechanisms.allotted`.
    """

    name = "polar"
    least_epsilon = 1e-12  # below 1e-14 SciPy draws no directions in three dimensions
    claim = Claim(
        definition=(
            "metric differential privacy: P(M(w)=y) <= exp((eps / pi) * |u - u'|) * P(M(w')=y) for "
            "all words w, w', y of the vocabulary, u = w / |w| the direction of a word"
        ),
        protects="one word against another, the less the wider the angle between them",
        unit="pi / chord between directions; 2 eps / pi bounds the loss of any two words",
        in_clear="the number of tokens",
        unknown=(
            "cannot be told apart from each other; from a known word by a factor of at most "
            "exp(2 eps / pi)"
        ),
        composition="sum of (eps / pi) * |u - u'| over the words of a text and repeated queries",
    )

    def __init__(self, embedding: Embedding, *, epsilon: float) -> None:
        super().__init__(embedding, epsilon=epsilon)
        points = embedding.vectors.astype(np.float64)
        length = np.linalg.norm(points, axis=1, keepdims=True)
        if embedding.dimension < 2 or not length.all():
            raise InvalidInput(
                f"embedding: got {embedding.dimension} dimension(s) and {int((length == 0).sum())} "
                "vectors of length 0, expected directions: at least two dimensions, and no vector 0"
            )
        self.units = (points / length).astype(np.float32)
        self.search = ExactSearch(self.units)

    @property
    def concentration(self) -> float:
        """kappa of the law of directions."""
        return self.epsilon / np.pi

    def noisy_vectors(self, ids: IntArray, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Random directions around those of the words, some thousand at a time."""
        pole = np.eye(self.embedding.dimension)[0]
        law = vonmises_fisher(pole, self.concentration)
        for start in range(0, len(ids), DRAW_CHUNK):
            units = self.units[ids[start : start + DRAW_CHUNK]].astype(np.float64)
            drawn = law.rvs(len(units), random_state=rng).reshape(units.shape)
            yield mirrored(drawn, units)

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        parts = [self.search.nearest(each)[0][:, 0] for each in self.noisy_vectors(ids, rng)]
        return np.concatenate([*parts, ids[:0]])

    def crossing_angles(self, words: IntArray, rng: np.random.Generator) -> FloatArray:
        """Angle at which each word is overtaken along one random tangent: (words,), 0 to pi.

        Below it the word is kept, at every epsilon.
        """
        units = self.units[words].astype(np.float64)
        tangents = random_directions(len(words), units.shape[1], rng)
        tangents -= (tangents * units).sum(1, keepdims=True) * units
        tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
        tangent_of_angle = AllRadii(self.search).first_crossing(words, tangents[:, None])[0][:, 0]
        angles = np.arctan(tangent_of_angle)
        table = self.units.astype(np.float64)
        for row in np.flatnonzero(np.isinf(tangent_of_angle)):  # overtaken beyond a right angle
            short = 1 - table @ units[row]
            apart = short > 1e-9
            rate = (table[apart] @ tangents[row]) / short[apart]
            angles[row] = np.pi / 2 - np.arctan(rate.max(initial=-np.inf))
        return angles


def mirrored(vectors: NDArray[np.floating], units: NDArray[np.floating]) -> FloatArray:
    """Every vector mirrored so that the first axis falls on a unit vector, and back."""
    normal = -np.asarray(units, dtype=np.float64)
    normal[:, 0] += 1
    squared = (normal**2).sum(1)
    along = 2 * (vectors * normal).sum(1) / np.where(squared > 0, squared, 1.0)
    return np.asarray(vectors - along[:, None] * normal)


def angle_law(dimension: int, concentration: float) -> tuple[FloatArray, FloatArray]:
    """Angles, and P(angle <= each) of a density proportional to e^(kappa cos a) sin(a)^(n - 2)."""

    # The likeliest angle solves kappa sin(a)^2 = (n - 2) cos(a); the curvature there is the width.
    free = dimension - 2
    half = free / (2 * concentration)
    cosine = 1 / (half + np.hypot(1, half))
    peak, squared_sine = np.arccos(cosine), max(1 - cosine**2, 1e-18)
    reach = _REACH / np.sqrt(concentration * cosine + (free / squared_sine if free else 0.0))
    angles = np.linspace(max(0.0, peak - reach), min(np.pi, peak + reach), CELLS)
    log = concentration * (np.cos(angles) - cosine)
    if free:
        with np.errstate(divide="ignore"):
            log += free * np.log(np.sin(angles))
    reached = cumulative_trapezoid(np.exp(log - log.max()), angles, initial=0)
    return angles, reached / reached[-1]


def angle_cdf(angle: FloatArray, dimension: int, concentration: float) -> FloatArray:
    """P(the angle of a random direction with its mean is at most `angle`)."""
    return np.interp(angle, *angle_law(dimension, concentration))
