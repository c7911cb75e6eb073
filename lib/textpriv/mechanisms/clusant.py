"""CluSanT: a cluster of words is chosen first, and then a word of that cluster.

    mechanism = CluSanT(embedding, epsilon=16)
    mechanism.sanitize(["the rock is destined to be the new conan"])

Both choices are exponential mechanisms, the first on distances between the centroids of clusters,
the second on distances between words. Clusters are disjoint, so that an output says which cluster
was chosen, and P(y|x) is the product of the two probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from textpriv.channel import ROW_BYTES, FloatArray, IntArray, by_distinct, check_ids, inverted
from textpriv.checks import NOT_NEGATIVE, check_count, check_integers, checked
from textpriv.data.embeddings import Embedding
from textpriv.mechanisms.base import METRIC_CLAIM, Claim
from textpriv.mechanisms.finite import Normalized, greedy_groups


def greedy_clusters(points: NDArray[np.floating], count: int) -> IntArray:
    """Clusters of equal size: the first free word and the free words nearest to it, and so on.

    Parameters
    ----------
    points : (words, dimension) finite vectors
    count : how many clusters, from 1 to the number of words

    Returns
    -------
    (words,) number of every word's cluster, from 0. There may be fewer than `count`, where it
    does not divide the number of words; the last one holds what is left over.
    """
    check_count(count, 1, len(points), what="count")
    groups = greedy_groups(points, -(-len(points) // count))
    first = np.where(groups >= 0, groups, len(points)).min(axis=1)
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


class CluSanT(Normalized):
    """A cluster by the distance of its centroid, then a word of it by its own distance.

    With c(x) the centroid of the cluster of x, C the cluster of y, |.| the Euclidean distance and
    D_C the diameter of C, the largest distance between two of its words,

        P(C|x)   proportional to   exp(-eps K |c(x) - c_C| / 2)        over all clusters,
        P(y|x,C) proportional to   exp(-eps |x - y| / (2 D_C))         over the words of C.

    A large K keeps the cluster, as CusText keeps its group; with K = 0 any cluster is as likely.
    One cluster makes it SanText at eps / D. The paper's epsilon is twice this one, for it gives
    each choice one half.

    Parameters
    ----------
    embedding : the public vocabulary
    epsilon : of each of the two choices, as in released code; see `claim.unit`
    cluster_scale : K, finite and >= 0, by which the centroids are stretched apart
    clusters : (words,) integers, equal for words of one cluster; chosen without the private text.
        None: `greedy_clusters`, as many as the square root of the number of words

    Attributes
    ----------
    cluster : (words,) number of every word's cluster, from 0
    centroids : (clusters, dimension) means of their vectors
    members : the words of every cluster, ascending
    diameters : (clusters,) D of every cluster

    Notes
    -----
    What holds. The first choice is the same for all words of a cluster. Between two clusters every
    score changes by at most K |c(x) - c(x')| / 2 times eps, and so does the normaliser's logarithm:
    together eps K |c(x) - c(x')|. In the second, scores of one C shift by eps (|x - y| - |x' - y|)
    / (2 D_C), and log P(y|x,C) by at most the range of that shift over y. A shift lies within
    |x - x'| of 0, and each of its two terms varies by at most D_C inside C: a range of at most
    eps min(|x - x'| / D_C, 1). The least diameter, of those that are not 0, is the worst case.

    What does not. Two near words on either side of a border between clusters pay for the distance
    of the centroids, which their own distance does not bound.

    References
    ----------
    Awon et al. 2025, CluSanT: Differentially Private and Semantically Coherent Text Sanitization,
    figure 2 and theorem 5. There the second choice is divided by one number for all clusters, the
    largest distance of any two words (at least 1), and each cluster is a random word with those
    nearest to it; the diameter of each cluster is that of one released version. The square root is
    ours.
    """

    name = "clusant"
    claim = Claim(
        definition=(
            "P(M(w)=y) <= exp(eps * (K * |c - c'| + min(1, d(w,w') / D))) * P(M(w')=y) for all "
            "words w, w', y of the vocabulary; c, c' the centroids of the clusters of w and w', D "
            "the least diameter of a cluster"
        ),
        protects=(
            "one word against another: by eps inside a cluster, beyond it the less the greater the "
            "distance of the centroids"
        ),
        unit="none inside a cluster; 1 / Euclidean distance of the embedding between centroids",
        in_clear="the number of tokens",
        unknown=(
            "cannot be told apart from each other; from a known word as from the word that the "
            "bound separates from it most"
        ),
        composition=(
            "sum of eps * (K * |c - c'| + min(1, d / D)) over the words of a text and over "
            "repeated queries"
        ),
    )
    # Theorem 5 without its condition, for the paper's epsilon, which is twice ours.
    published: Claim | None = replace(
        METRIC_CLAIM,
        definition=(
            "metric local differential privacy: P(M(w)=y) <= exp(2 * eps * d(w,w')) * P(M(w')=y), "
            "d the distance of the words in the paper's embedding (for K = 1 in the given one); "
            "its theorem says so of words whose clusters have centroids at most 2 d - 1 apart"
        ),
        loss=None,
    )

    @checked(cluster_scale=NOT_NEGATIVE)
    def __init__(
        self,
        embedding: Embedding,
        *,
        epsilon: float,
        cluster_scale: float = 1.0,
        clusters: IntArray | None = None,
    ) -> None:
        super().__init__(embedding, epsilon=epsilon)
        self.cluster_scale = float(cluster_scale)
        if clusters is None:
            clusters = greedy_clusters(embedding.vectors, round(self.size**0.5))
        given = check_integers(clusters, self.size, what="clusters")
        self.cluster = np.unique(given, return_inverse=True)[1].astype(np.int64)  # from 0
        self.order = np.argsort(self.cluster, kind="stable")  # words, cluster by cluster
        self.starts = np.flatnonzero(np.diff(self.cluster[self.order], prepend=-1))
        self.members = np.split(self.order, self.starts[1:])
        self.distances = embedding.distances
        points = embedding.vectors.astype(np.float64)
        self.centroids = np.stack([points[each].mean(0) for each in self.members])
        self.between_centroids: FloatArray = cdist(self.centroids, self.centroids)
        self.diameters = np.array([self._diameter(each) for each in self.members])

    def _diameter(self, members: IntArray) -> float:
        parts = np.array_split(members, -(-len(members) // _row_chunk(len(members))))
        return max(float(self.distances.to(part, members).max()) for part in parts)

    @property
    def rates(self) -> FloatArray:
        """eps / (2 D) of every cluster; 0 where its words coincide and are equally likely."""
        distinct = self.diameters > 0
        return np.where(distinct, self.epsilon / 2, 0.0) / np.where(distinct, self.diameters, 1.0)

    @cached_property
    def log_cluster_probabilities(self) -> FloatArray:
        """log P(chosen cluster | cluster of the input): (clusters, clusters)."""
        weights = -self.epsilon / 2 * self.cluster_scale * self.between_centroids
        return weights - logsumexp(weights, axis=1, keepdims=True)

    @torch.inference_mode()
    def _normalizers_of(self, others: Sequence[Self]) -> FloatArray:
        """log of the sum of the second choice's weights: (mechanisms, clusters, inputs)."""
        result = np.full((len(others), len(self.members), self.size), -np.inf)
        rates = np.array([other.rates for other in others]).reshape(result.shape[:2])
        scratch = torch.empty(self.row_chunk, self.size, dtype=torch.float64)
        for cluster, members in enumerate(self.members):
            for part in np.array_split(members, -(-len(members) // self.row_chunk)):
                distance = self.distances.to(part)  # |x - y| = |y - x|: from words of the cluster
                nearest = distance.amin(0)
                distance.sub_(nearest)
                for log_sum, rate in zip(result[:, cluster], rates[:, cluster], strict=True):
                    weight = torch.mul(distance, -rate, out=scratch[: len(part)])
                    sums = weight.exp_().sum(0)
                    np.logaddexp(log_sum, (sums.log_() - rate * nearest).numpy(), out=log_sum)
        return result

    def _log_weights(self, inputs: IntArray) -> FloatArray:
        """Logarithms of the second choice's weights, of all words: (inputs, size)."""
        return -self.rates[self.cluster] * self.distances.to(inputs).numpy()

    def _log_sums(self, log_weights: FloatArray) -> FloatArray:
        """log of the sum of weights over every cluster: (rows, size) to (rows, clusters)."""
        ordered = log_weights[:, self.order]
        highest = np.maximum.reduceat(ordered, self.starts, axis=1)
        ordered -= highest[:, self.cluster[self.order]]
        np.exp(ordered, out=ordered)
        return highest + np.log(np.add.reduceat(ordered, self.starts, axis=1))

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        rows = self._log_weights(x)
        chosen = self.log_cluster_probabilities[self.cluster[x]] - self._log_sums(rows)
        rows += chosen[:, self.cluster]
        return rows

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        chosen = self.cluster[y]
        # |x - y| = |y - x|, so that the distances of a column are those of a row.
        columns = -self.rates[chosen, None] * self.distances.to(y).numpy()
        columns -= self._log_normalizers[chosen]
        columns += self.log_cluster_probabilities.T[chosen][:, self.cluster]
        return columns

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        first, second = rng.random((2, len(x)))  # in the order of the text
        clusters_law = np.cumsum(np.exp(self.log_cluster_probabilities), axis=1)
        chosen = inverted(self.cluster[x], first, clusters_law.__getitem__, len(clusters_law))
        result = np.empty(len(x), dtype=np.int64)
        for clusters, occurrences in by_distinct(chosen, len(clusters_law)):
            for cluster, where in zip(clusters.tolist(), occurrences, strict=True):
                members, law = self.members[cluster], partial(self._cumulative_in, cluster)
                column = inverted(x[where], second[where], law, _row_chunk(len(members)))
                result[where] = members[column]
        return result

    def _cumulative_in(self, cluster: int, inputs: IntArray) -> FloatArray:
        """Cumulative weights of the second choice in one cluster: (inputs, its words)."""
        energy = self.rates[cluster] * self.distances.to(inputs, self.members[cluster]).numpy()
        return np.cumsum(np.exp(energy.min(1, keepdims=True) - energy), axis=1)


def _row_chunk(columns: int) -> int:
    """Rows of so many numbers that fit in ROW_BYTES."""
    return max(1, ROW_BYTES // (8 * columns))
