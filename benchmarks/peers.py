"""How released code does the same work: one token at a time.

Written for comparison from the methods' descriptions; nothing is copied. They are not used
outside the benchmarks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def santext_matrix(vectors: FloatArray, epsilon: float) -> FloatArray:
    """The whole |V| x |V| table of probabilities, made before the loop."""
    squared = (vectors**2).sum(1)
    distance = np.sqrt(np.maximum(squared[:, None] + squared - 2 * vectors @ vectors.T, 0))
    weights = np.exp(-epsilon / 2 * distance)
    return weights / weights.sum(1, keepdims=True)


def santext_loop(ids: list[int], matrix: FloatArray) -> list[int]:
    """A weighted choice among all words per token."""
    words = np.arange(len(matrix))
    return [int(np.random.choice(words, p=matrix[i])) for i in ids]  # noqa: NPY002


def tem_loop(
    ids: list[int], vectors: FloatArray, epsilon: float, beta: float, rng: np.random.Generator
) -> list[int]:
    """Distances to all words per token, Gumbel noise on the near ones and on one far element."""
    size = len(vectors)
    gamma = 2 / epsilon * np.log((1 - beta) * (size - 1) / beta)
    outputs = []
    for i in ids:
        distance = np.linalg.norm(vectors - vectors[i], axis=1)
        near = np.flatnonzero(distance <= gamma)
        far = np.flatnonzero(distance > gamma)
        score = -distance[near] + rng.gumbel(0, 2 / epsilon, len(near))
        if not len(far):
            outputs.append(int(near[score.argmax()]))
            continue
        bottom = -gamma + 2 / epsilon * np.log(len(far)) + rng.gumbel(0, 2 / epsilon)
        outputs.append(int(near[score.argmax()] if score.max() > bottom else rng.choice(far)))
    return outputs


def custext_loop(
    ids: list[int], candidates: dict[int, list[int]], weights: dict[int, list[float]]
) -> list[int]:
    """A weighted choice among a word's candidates per token."""
    choice = np.random.choice  # noqa: NPY002
    return [int(choice(candidates[i], 1, p=weights[i])[0]) for i in ids]


def custext_mapping_loop(vectors: FloatArray, rows: range, set_size: int) -> list[list[int]]:
    """A sort of all distances per word."""
    found = []
    for row in rows:
        distance = np.linalg.norm(vectors - vectors[row], axis=1)
        found.append(sorted(range(len(vectors)), key=distance.__getitem__)[:set_size])
    return found


def mahalanobis_loop(
    count: int, shape: FloatArray, epsilon: float, rng: np.random.Generator
) -> FloatArray:
    """A root of the covariance per token."""
    dimension = len(shape)
    noise = np.empty((count, dimension))
    for row in range(count):
        values, basis = np.linalg.eigh(shape)
        root = (basis * np.sqrt(np.maximum(values, 0))) @ basis.T
        direction = rng.standard_normal(dimension)
        direction /= np.linalg.norm(direction)
        noise[row] = rng.gamma(dimension, 1 / epsilon) * (root @ direction)
    return noise
