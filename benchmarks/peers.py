"""How released code does the same work: one token at a time.

Written for comparison from the methods' descriptions; nothing is copied. They are not used
outside the benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
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


def context_free_loop(
    ids: list[int], sources: dict[int, dict[int, float]], prior: dict[int, float], constant: float
) -> list[int]:
    """A product per candidate and token: the inputs that may have given the output.

    `sources[y][x]` is P(y|x): the table is turned around beforehand, which helps the loop.
    """
    guesses = []
    for y in ids:
        best, highest = -1, -1.0
        for x, chance in sources[y].items():
            score = chance * (prior.get(x, 0.0) + constant)
            if score > highest:
                best, highest = x, score
        guesses.append(best)
    return guesses


def forward_backward_loop(
    words: list[list[int]],
    likelihood: list[list[float]],
    step: Callable[[int, int], float],
    start: int,
    end: int,
) -> list[int]:
    """The word of largest posterior at each position, one pair of candidates at a time.

    `step(a, b)` is P(b | a), looked up in dictionaries.
    """
    forward = [[p * step(start, w) for w, p in zip(words[0], likelihood[0], strict=True)]]
    for place in range(1, len(words)):
        row = []
        for word, chance in zip(words[place], likelihood[place], strict=True):
            total = 0.0
            for earlier, mass in zip(words[place - 1], forward[-1], strict=True):
                total += mass * step(earlier, word)
            row.append(total * chance)
        scale = sum(row)
        forward.append([value / scale for value in row])
    backward = [step(word, end) for word in words[-1]]
    guesses = []
    for place in range(len(words) - 1, -1, -1):
        posterior = [a * b for a, b in zip(forward[place], backward, strict=True)]
        guesses.append(words[place][max(range(len(posterior)), key=posterior.__getitem__)])
        if place:
            row = []
            for earlier in words[place - 1]:
                total = 0.0
                for word, chance, mass in zip(
                    words[place], likelihood[place], backward, strict=True
                ):
                    total += step(earlier, word) * chance * mass
                row.append(total)
            scale = sum(row)
            backward = [value / scale for value in row]
    return guesses[::-1]


def stencil_loop(
    texts: list[list[int]],
    vectors: NDArray[np.float32],
    fixed: IntArray,
    window: int,
    sigma: float,
) -> list[int]:
    """A mixture, its cosine with the whole table and an argmax per token; the output differs.

    The cosine is a function of two arrays, as libraries have it: it knows no lengths beforehand.
    """
    half, special = window // 2, set(fixed.tolist())
    raw = [math.exp(-((o / sigma) ** 2) / 2) for o in range(-half, half + 1)]
    outputs = []
    for text in texts:
        words = [place for place, token in enumerate(text) if token not in special]
        for place, token in enumerate(text):
            if token in special:
                outputs.append(token)
                continue
            near = [other for other in words if abs(other - place) <= half]
            held = [raw[other - place + half] / sum(raw) for other in near]
            missing = (1 - sum(held)) / len(held)
            mixture = np.zeros(vectors.shape[1], dtype=np.float32)
            for other, weight in zip(near, held, strict=True):
                mixture += np.float32(weight + missing) * vectors[text[other]]
            cosine = vectors @ mixture
            cosine /= np.linalg.norm(vectors, axis=1) * np.linalg.norm(mixture)
            cosine[fixed] = cosine[token] = -np.inf
            outputs.append(int(cosine.argmax()))
    return outputs


def oracle_loop(
    output: list[int],
    preimages: dict[int, list[int]],
    opening: int,
    model: Any,
    mass: float,
    most: int,
    batch: int = 16,
) -> tuple[list[int], int]:
    """Every prefix run from its first token at every step; the least likely ones are dropped.

    The likeliest text, and how many prefixes were scored. Those of a step have one length, so
    that they fill batches without padding.
    """
    live: list[list[int]] = [[]]
    scored = 0
    for token in output:
        candidates = [[*prefix, choice] for prefix in live for choice in preimages[token]]
        scores: list[float] = []
        for start in range(0, len(candidates), batch):
            ids = torch.tensor([[opening, *text] for text in candidates[start : start + batch]])
            known = model(ids).logits[:, :-1].float().log_softmax(2)
            scores += known.gather(2, ids[:, 1:, None])[..., 0].sum(1).tolist()
        scored += len(candidates)
        ranked = sorted(range(len(candidates)), key=scores.__getitem__, reverse=True)
        weights = [math.exp(scores[number] - scores[ranked[0]]) for number in ranked]
        held, live = 0.0, []
        for number, weight in zip(ranked, weights, strict=True):
            if held >= mass * sum(weights) or len(live) == most:
                break
            live.append(candidates[number])
            held += weight
    return live[0], scored
