"""Sums and maxima over paths against the enumeration of all paths.

Wrong versions that must be caught: Viterbi for posteriors, a backoff that is left out, an end
that is left out, documents that leak into each other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray
from hypothesis import given
from hypothesis import strategies as st

from textpriv.attacks.lattice import Lattice, forward_backward, viterbi

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(["mixed", "edges", "backoff"])


def random_lattice(
    seed: int, kind: str = "mixed", *, lengths: Any = None, wide: int = 4
) -> Lattice:
    """One to four documents of one to five positions with up to `wide` nodes each."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, rng.integers(1, 5)).tolist() if lengths is None else lengths
    step, document = [], []
    for place in range(max(lengths)):
        for number, length in enumerate(lengths):
            if place < length:
                nodes = int(rng.integers(1, wide + 1))
                step += [place] * nodes
                document += [number] * nodes
    size = len(step)
    steps, documents = np.array(step), np.array(document)
    pairs = [
        (a, b)
        for b in range(size)
        for a in range(b)
        if steps[b] == steps[a] + 1 and documents[a] == documents[b]
    ]
    chance = {"mixed": 0.5, "edges": 1.0, "backoff": 0.0}[kind]
    kept = [pair for pair in pairs if rng.random() < chance]
    source, target = np.array(kept, dtype=np.int64).reshape(-1, 2).T
    backoff, base = rng.random(size) + 0.01, rng.random(size) + 0.01
    if kind == "edges":
        backoff = np.zeros(size)
        base = np.where(steps == 0, base, 0.0)
    return Lattice(
        step=steps,
        document=documents,
        likelihood=rng.random(size) ** 3 + 1e-3,
        backoff=backoff,
        base=base,
        last=rng.random(size) + 0.01,
        source=source,
        target=target,
        edge=rng.random(len(source)) * 2,
    )


def paths(lattice: Lattice, document: int) -> list[tuple[tuple[int, ...], float]]:
    """All paths through a document with their weights."""
    edges = {
        (a, b): w
        for a, b, w in zip(
            lattice.source.tolist(), lattice.target.tolist(), lattice.edge.tolist(), strict=True
        )
    }
    mine = np.flatnonzero(lattice.document == document)
    places = [mine[lattice.step[mine] == place].tolist() for place in np.unique(lattice.step[mine])]
    weighted = []
    for path in product(*places):
        weight = lattice.base[path[0]] * lattice.last[path[-1]]
        for node in path:
            weight *= lattice.likelihood[node]
        for a, b in zip(path[:-1], path[1:], strict=True):
            weight *= edges.get((a, b), 0.0) + lattice.backoff[a] * lattice.base[b]
        weighted.append((path, float(weight)))
    return weighted


def enumerated(made: Lattice) -> FloatArray:
    result = np.zeros(len(made.step))
    for document in np.unique(made.document):
        every = paths(made, document)
        total = sum(weight for _, weight in every)
        for path, weight in every:
            result[list(path)] += weight / total
    return result


def assert_best(made: Lattice, chosen: Any) -> None:
    """One node per position, and no path of any document weighs more."""
    for document in np.unique(made.document):
        every = dict(paths(made, document))
        path = tuple(np.flatnonzero(chosen & (made.document == document)).tolist())
        assert path in every
        assert every[path] >= max(every.values()) * (1 - 1e-12)


@given(seeds, kinds, st.sampled_from([0.25, 0.5, 1.0]))
def test_sums_and_maxima_are_those_of_all_paths(seed: int, kind: str, exponent: float) -> None:
    """And tempering raises the weight of every path to a power, but for its likelihoods."""
    made = random_lattice(seed, kind)
    np.testing.assert_allclose(forward_backward(made), enumerated(made), rtol=1e-10, atol=1e-14)
    assert_best(made, viterbi(made))
    tempered = made.tempered(exponent)
    for document in np.unique(made.document):
        likelihood = [np.prod(made.likelihood[list(path)]) for path, _ in paths(made, document)]
        before = np.array([w for _, w in paths(made, document)]) / likelihood
        after = np.array([w for _, w in paths(tempered, document)]) / likelihood
        np.testing.assert_allclose(after, before**exponent, rtol=1e-9)


@given(seeds, kinds)
def test_ties_and_impossible_steps(seed: int, kind: str) -> None:
    """Weights 0 and 1 only: many paths tie, and some are impossible."""
    made = random_lattice(seed, kind)
    rng = np.random.default_rng(seed)
    made = replace(
        made,
        likelihood=np.ones(len(made.step)),
        base=np.where(made.base > 0, 1.0, 0.0),
        backoff=np.where(made.backoff > 0, 1.0, 0.0),
        last=np.ones(len(made.step)),
        edge=rng.integers(0, 2, len(made.edge)).astype(np.float64),
    )
    possible = all(
        sum(weight for _, weight in paths(made, document)) > 0
        for document in np.unique(made.document)
    )
    if possible:
        np.testing.assert_allclose(forward_backward(made), enumerated(made), rtol=1e-10)
        assert_best(made, viterbi(made))


@given(seeds, kinds, st.sampled_from([1e-300, 1e-150, 1e100, 1e300]))
def test_factors_of_a_position_do_not_matter(seed: int, kind: str, factor: float) -> None:
    made = random_lattice(seed, kind)
    scaled = replace(made, likelihood=made.likelihood * factor)
    expected = forward_backward(made)
    np.testing.assert_allclose(forward_backward(scaled), expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(viterbi(scaled), viterbi(made))
    each = replace(made, likelihood=made.likelihood * 10.0 ** -(60 * (made.step % 5)))
    np.testing.assert_allclose(forward_backward(each), expected, rtol=1e-9, atol=1e-14)


def test_long_documents_do_not_underflow() -> None:
    """500 steps of likelihoods near 1e-300 and weights near 1e-12."""
    plain = random_lattice(3, lengths=[500, 7, 499], wide=3)
    small = {name: getattr(plain, name) * 1e-12 for name in ("base", "edge", "last")}
    lattice = replace(plain, likelihood=plain.likelihood * 1e-300, **small)
    posterior = forward_backward(lattice)
    np.testing.assert_allclose(posterior, forward_backward(plain), rtol=1e-9)
    key = lattice.document * 500 + lattice.step
    totals = np.bincount(key, posterior)
    np.testing.assert_allclose(totals[np.unique(key)], 1)
    assert viterbi(lattice).sum() == 500 + 7 + 499


EXAMPLE = random_lattice(11, lengths=[4, 1, 3])


def test_wrong_versions_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = enumerated(EXAMPLE)
    np.testing.assert_allclose(forward_backward(EXAMPLE), right, rtol=1e-10)
    wrong = {
        "viterbi for posterior": viterbi(EXAMPLE).astype(float),
        "no backoff": forward_backward(replace(EXAMPLE, backoff=EXAMPLE.backoff * 1e-9)),
        "no end": forward_backward(replace(EXAMPLE, last=np.ones(len(EXAMPLE.last)))),
        "no edges": forward_backward(replace(EXAMPLE, edge=EXAMPLE.edge * 0)),
        "one document": forward_backward(replace(EXAMPLE, document=EXAMPLE.document * 0)),
    }
    monkeypatch.setattr(Lattice, "ends", property(lambda self: self.last))
    wrong["an end at every step"] = forward_backward(EXAMPLE)
    for name, posterior in wrong.items():
        assert np.abs(posterior - right).max() > 1e-3, name
