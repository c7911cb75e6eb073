"""Noise seen from inside: its density, and what is made of it, in the dimension at work.

    audit_noise(madlib, np.random.default_rng(7))

A vector of density proportional to exp(-eps |z|) loses eps d between any two words, by the
triangle inequality, and no more is lost by what is done with it. That is the law; here the noise
that `sanitize` really uses is taken down and compared with it: its length, its direction, and the
word that is made of the noisy vector. A flaw that leaves no trace in words, as there are many in
300 dimensions, shows all the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import beta, gamma

from textpriv.mechanisms import Madlib, RankRepair
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.privacy.claims import metric_root
from textpriv.privacy.fit import GRID, FloatArray, IntArray, fit_of, with_fit
from textpriv.privacy.released import readable, sanitized
from textpriv.privacy.results import Audit

_NEAR = 1e-5  # relative: distances closer than this may be either way round in float32
_AXES = 4  # along which the direction is looked at
_BYTES = 64 << 20


@simulation()
def audit_noise(
    mechanism: Madlib | AfterNoise,
    rng: np.random.Generator,
    *,
    words: int = 20,
    draws: int = 200,
    setting: str | None = None,
) -> Audit:
    """Noise by its density, for all pairs of words, and the noise of `sanitize` against it.

    Tested are the radius (Gamma), the direction, and the output given the noisy vector: the
    nearest word (MADLIB, Mahalanobis), one of geometric rank (rank repair), one of the nearest
    two (Vickrey).

    Parameters
    ----------
    mechanism : with exact search
    words, draws : random words, and draws of each
    setting : how tables call it
    """
    noise, seen = mechanism.madlib if isinstance(mechanism, AfterNoise) else mechanism, []

    def recorded(ids: IntArray, rng: np.random.Generator) -> Iterator[FloatArray]:
        for vectors in noise.noisy_vectors(ids, rng):
            seen.append(vectors.copy())
            yield vectors

    watched = copy.copy(noise)
    watched.noisy_vectors = recorded  # type: ignore[method-assign]
    tried: Madlib | AfterNoise = watched
    if isinstance(mechanism, AfterNoise):
        tried = copy.copy(mechanism)
        tried.madlib = watched
    ids = readable(mechanism.embedding.words, None, words, rng)
    outputs = sanitized(tried, ids, draws, rng).ravel()
    vectors = np.concatenate([*seen, np.empty((0, noise.embedding.dimension))])
    table = mechanism.embedding.vectors.astype(np.float64)
    if len(vectors) != len(outputs) or (outputs < 0).any():
        places = [np.full(len(outputs), np.nan)]  # some output came without noise
    else:
        offsets = vectors - table[ids.repeat(draws)]
        added = np.asarray(np.linalg.solve(metric_root(noise), offsets.T).T, dtype=np.float64)
        given = _given_noise(mechanism, vectors, outputs, rng)
        places = [*_isotropic(added, mechanism.epsilon, rng), given]
    n = noise.embedding.dimension

    def errors(factor: float) -> list[float]:
        return [float(np.abs(gamma.cdf(factor * gamma.ppf(GRID, n), n) - GRID).max())]

    audit = Audit(
        mechanism=mechanism.name,
        setting=setting or f"eps {mechanism.epsilon:g}, {mechanism.size:,} words, dimension {n}",
        claim=mechanism.claim.definition,
        method="density of the noise, every pair; from inside",
        pairs=mechanism.size * (mechanism.size - 1) // 2,
        draws=0,
        worst_ratio=1.0,
        worst_pair=("", ""),
        violations=0,
    )
    return with_fit(audit, fit_of(places, errors))


def _isotropic(noise: FloatArray, epsilon: float, rng: np.random.Generator) -> list[FloatArray]:
    """Places of the radius, Gamma(n, 1 / eps), and of the direction along a few axes."""
    count, n = noise.shape
    radius = np.linalg.norm(noise, axis=1)
    places = [np.asarray(gamma.cdf(epsilon * radius, n))]
    for axis in np.unique(np.linspace(0, n - 1, _AXES).astype(int)):
        cosine = noise[:, axis] / radius
        if n == 1:  # a sign
            places.append((rng.random(count) + (cosine > 0)) / 2)
        else:
            places.append(np.asarray(beta.cdf((1 + cosine) / 2, (n - 1) / 2, (n - 1) / 2)))
    return places


@torch.inference_mode()
def _given_noise(
    mechanism: Madlib | AfterNoise, vectors: FloatArray, outputs: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Place of every output by its rank around the noisy vector."""
    table = torch.from_numpy(mechanism.embedding.vectors.astype(np.float64))
    rank, nearest = np.empty(len(outputs)), np.empty((len(outputs), 2))
    parts = -(-len(vectors) * 16 * len(table) // _BYTES)
    for part in np.array_split(np.arange(len(vectors)), max(1, parts)):
        apart = torch.cdist(torch.from_numpy(vectors[part]), table)
        own = apart.gather(1, torch.from_numpy(outputs[part])[:, None])
        rank[part] = (apart < own * (1 - _NEAR)).sum(1).numpy()
        nearest[part] = apart.topk(2, largest=False).values.numpy()
    share = rng.random(len(outputs))
    if isinstance(mechanism, RankRepair):
        rate = mechanism.c * mechanism.epsilon
        upto = np.expm1(-rate * np.stack([rank, rank + 1])) / np.expm1(-rate * mechanism.size)
        return np.asarray(upto[0] + share * (upto[1] - upto[0]))
    first = np.ones(len(outputs))
    if isinstance(mechanism, Vickrey):
        near, far = mechanism.t * nearest[:, 0], (1 - mechanism.t) * nearest[:, 1]
        first = far / (near + far)
    second = first + share * (1 - first)
    place = np.where(rank == 0, share * first, np.where(rank == 1, second, np.nan))
    return np.where((rank == 1) & (first == 1), np.nan, place)
