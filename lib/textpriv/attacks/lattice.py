"""Decoding a sentence whose every position has a few candidates: sums and maxima over paths.

A lattice holds, for many documents at once, a *node* for every candidate at every position and
its likelihood, and *edges* between the nodes of neighbouring positions. Forward-backward gives
each node's posterior probability, Viterbi the likeliest path. A step from node a to node b has

    weight(a, b) = edge(a, b) + backoff(a) * base(b)

so that a smoothed n-gram model needs an edge only where the n-gram was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from textpriv.checks import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Lattice:
    """Nodes sorted by position, edges sorted by their later node.

    Parameters
    ----------
    step : (nodes,) place of the node's position in its document, from 0; ascending
    document : (nodes,) document number, 0 .. documents - 1, ascending within a step
    likelihood : (nodes,) >= 0, up to a factor per position
    backoff, base : (nodes,) see above; at step 0 `base` is the weight of the first step
    last : (nodes,) weight of ending after the node, where it is its document's last
    source, target, edge : (edges,) earlier node, later node, weight
    """

    step: IntArray
    document: IntArray
    likelihood: FloatArray
    backoff: FloatArray
    base: FloatArray
    last: FloatArray
    source: IntArray
    target: IntArray
    edge: FloatArray

    def steps(self) -> Iterator[tuple[slice, slice]]:
        """Nodes of each step and the edges that lead to them, from the first step on."""
        bounds = np.searchsorted(self.step, np.arange(int(self.step[-1]) + 2))
        edges = np.searchsorted(self.target, bounds)
        for here in range(len(bounds) - 1):
            yield slice(*bounds[here : here + 2]), slice(*edges[here : here + 2])

    def tempered(self, exponent: float) -> Lattice:
        """The same lattice with every weight raised to a power; likelihoods stay."""
        if exponent == 1:
            return self
        backoff, base = self.backoff**exponent, self.base**exponent
        by_backoff = self.backoff[self.source] * self.base[self.target]
        # What an edge adds to the backoff, after both were raised.
        edge = (self.edge + by_backoff) ** exponent - by_backoff**exponent
        return replace(self, backoff=backoff, base=base, last=self.last**exponent, edge=edge)

    @property
    def ends(self) -> FloatArray:
        """`last` at the nodes of each document's last position, 1 elsewhere."""
        final = np.zeros(int(self.document.max()) + 1, dtype=np.int64)
        np.maximum.at(final, self.document, self.step)
        return np.where(self.step == final[self.document], self.last, 1.0)


def forward_backward(lattice: Lattice) -> FloatArray:
    """Posterior probability of every node given the whole document: (nodes,).

    The nodes of one position sum to 1. Each step is scaled to avoid underflow.
    """
    documents = int(lattice.document.max()) + 1
    emission = lattice.likelihood * lattice.ends
    forward = np.empty(len(emission))
    steps = list(lattice.steps())
    for nodes, _ in steps:  # so that no product with a small factor underflows
        emission[nodes] = _scaled(emission[nodes], lattice.document[nodes], documents)
    for number, (nodes, edges) in enumerate(steps):
        document = lattice.document[nodes]
        if number == 0:
            reached = lattice.base[nodes]
        else:
            source, start = lattice.source[edges], nodes.start
            flow = forward[source] * lattice.edge[edges]
            reached = _summed(flow, lattice.target[edges] - start, nodes.stop - start)
            before = steps[number - 1][0]
            left = forward[before] * lattice.backoff[before]
            mass = _summed(left, lattice.document[before], documents)
            reached = reached + mass[document] * lattice.base[nodes]
        forward[nodes] = _scaled(reached * emission[nodes], document, documents)
    backward = np.ones(len(emission))
    for number in range(len(steps) - 2, -1, -1):
        (nodes, _), (after, edges) = steps[number], steps[number + 1]
        onward = emission[after] * backward[after]
        source, start = lattice.source[edges] - nodes.start, nodes.start
        flow = onward[lattice.target[edges] - after.start] * lattice.edge[edges]
        reached = _summed(flow, source, nodes.stop - start)
        mass = _summed(onward * lattice.base[after], lattice.document[after], documents)
        document = lattice.document[nodes]
        ended = np.bincount(lattice.document[after], minlength=documents)[document] == 0
        reached = np.where(ended, 1.0, reached + lattice.backoff[nodes] * mass[document])
        backward[nodes] = _scaled(reached, document, documents)
    posterior = np.empty(len(emission))
    for nodes, _ in steps:
        product = forward[nodes] * backward[nodes]
        posterior[nodes] = _scaled(product, lattice.document[nodes], documents)
    return posterior


def viterbi(lattice: Lattice) -> NDArray[np.bool_]:
    """Whether a node lies on the likeliest path of its document: (nodes,)."""
    documents = int(lattice.document.max()) + 1
    with np.errstate(divide="ignore"):
        emission = np.log(lattice.likelihood * lattice.ends)
        log_base, log_backoff = np.log(lattice.base), np.log(lattice.backoff)
    score, origin = np.empty(len(emission)), np.full(len(emission), -1)
    steps = list(lattice.steps())
    for number, (nodes, edges) in enumerate(steps):
        if number == 0:
            score[nodes] = log_base[nodes] + emission[nodes]
            continue
        before, document = steps[number - 1][0], lattice.document[nodes]
        # The best way in by backoff is the same for all nodes of a document ...
        best, came = _best_by(
            lattice.document[before], score[before] + log_backoff[before], documents
        )
        reached = best[document] + log_base[nodes]
        origin[nodes] = before.start + came[document]
        # ... and an edge, which adds to the backoff, may beat it.
        source, target = lattice.source[edges], lattice.target[edges]
        with np.errstate(divide="ignore"):
            weight = np.log(lattice.edge[edges] + lattice.backoff[source] * lattice.base[target])
        by_edge, through = _best_by(
            target - nodes.start, score[source] + weight, nodes.stop - nodes.start
        )
        better = by_edge > reached
        reached = np.where(better, by_edge, reached)
        if len(source):
            origin[nodes] = np.where(better, source[through], origin[nodes])
        score[nodes] = reached + emission[nodes]
    chosen = np.zeros(len(emission), dtype=bool)
    path = np.full(documents, -1)  # the chosen node of each document in the step after
    for nodes, _ in reversed(steps):
        document = lattice.document[nodes]
        _, last = _best_by(document, score[nodes], documents)
        here = np.unique(document)
        node = np.where(path[here] < 0, nodes.start + last[here], origin[path[here]])
        chosen[node] = True
        path[here] = node
    return chosen


def _scaled(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Values divided by the sum of their group."""
    return values / _summed(values, group, groups)[group]


def _summed(values: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Sum of the values of each group."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64)


def _best_by(group: IntArray, values: FloatArray, groups: int) -> tuple[FloatArray, IntArray]:
    """Largest value of each group and where it is (the first on ties); -inf and 0 if empty."""
    best = np.full(groups, -np.inf)
    np.maximum.at(best, group, values)
    where = np.zeros(groups, dtype=np.int64)
    is_best = np.flatnonzero(values == best[group])[::-1]
    where[group[is_best]] = is_best
    return best, where
