"""1-Diffractor: words laid out in one line, and a random number of steps along it.

    mechanism = Diffractor(embedding, epsilon=1)
    mechanism.sanitize(["the rock is destined to be the new conan"])

A list holds every word of the vocabulary once, each followed by a near one. One of several lists
is chosen at random, and the output stands k steps from the input, k a two-sided geometric number;
who would step beyond an end stops there. Both choices are known, and so is P(y|x).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textpriv.channel import FloatArray, IntArray, check_aligned, check_ids
from textpriv.checks import check_count
from textpriv.data.embeddings import Embedding
from textpriv.mechanisms.base import Claim
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.neighbors import ExactSearch

NEIGHBORS = 64  # looked at before all words that are free


def greedy_list(points: NDArray[np.floating], start: int, near: IntArray) -> IntArray:
    """A list of all words: the first one, then always the nearest word that is still free.

    Parameters
    ----------
    points : (words, dimension) finite vectors
    start : the word that stands first
    near : (words, k) the k nearest words of each, nearest first; only saves time

    Returns
    -------
    (words,) ids in the order of the list; of words equally near, the lower id comes first
    """
    check_count(start, 0, len(points) - 1, what="start")
    exact = np.asarray(points, dtype=np.float64)
    free, left = np.ones(len(exact), dtype=bool), np.arange(len(exact))
    table, half = exact, (exact**2).sum(1) / 2
    result, word = np.empty(len(exact), dtype=np.int64), start
    for place in range(len(exact)):
        result[place], free[word] = word, False
        around = near[word][free[near[word]]]
        if len(around):
            word = int(around[0])
        elif place + 1 < len(exact):
            if len(exact) - place < 0.8 * len(left):  # drop the rows that are taken
                kept = free[left]
                left, table, half = left[kept], table[kept], half[kept]
            nearness = table @ exact[word] - half
            nearness[~free[left]] = -np.inf
            word = int(left[nearness.argmax()])
    return result


class Diffractor(FiniteMechanism):
    """A list at random, then a two-sided geometric number of steps along it.

    With a = exp(-eps) and p_l(x) the place of x in list l of L, places cut at both ends,

        P(y|x) = 1/L sum_l P(p_l(x) + k, cut, is p_l(y)),    P(k) = (1 - a) / (1 + a) a^|k| .

    Parameters
    ----------
    embedding : the public vocabulary
    epsilon : per step of a list; see `claim.unit`
    lists : L >= 1, at most the number of words; list l begins at word l * (words // L)

    Attributes
    ----------
    order : (lists, words) ids in the order of every list
    place : (lists, words) place of every word in every list, from 0

    Notes
    -----
    A bound "per step" says nothing about near words: a greedy list visits every word once, so that
    the neighbours of a word that were passed over stand thousands of steps away. An epsilon of a
    list can therefore not be compared with an epsilon of any other mechanism.

    References
    ----------
    Meisenbacher, Chevli, Matthes 2024, 1-Diffractor: Efficient and Utility-Preserving Text
    Obfuscation Leveraging Word-Level Metric Differential Privacy. The paper takes one list from
    each of several embeddings, with random beginnings; these are lists of one embedding with
    several beginnings. Released code lets stopwords, punctuation and words outside its lists pass
    in clear, and its later package seeds the noise with a constant by default; here none of this
    happens. The paper's second variant, with the noise of TEM, is not here.
    """

    name = "diffractor"
    least_epsilon = 1e-12  # numbers of steps fit 64 bits
    claim = Claim(
        definition=(
            "metric differential privacy along lists: P(M(w)=y) <= exp(eps * s(w,w')) * "
            "P(M(w')=y) for all words w, w', y of the vocabulary; s the most steps between w and "
            "w' in any of the lists"
        ),
        protects="one word against another, the less the more steps they are apart in some list",
        unit="1 / step of a list",
        in_clear="the number of tokens",
        unknown=(
            "cannot be told apart from each other; from a known word by a factor of at most "
            "exp(eps * S), S the most steps of that word to any other"
        ),
        composition="sum of eps * s over the words of a text and over repeated queries",
    )

    def __init__(self, embedding: Embedding, *, epsilon: float, lists: int = 4) -> None:
        super().__init__(embedding, epsilon=epsilon)
        check_count(lists, 1, self.size, what="lists")
        points = embedding.vectors
        near = ExactSearch(points).nearest(points, min(NEIGHBORS, self.size))[0]
        starts = np.arange(lists) * (self.size // lists)
        self.order = np.stack([greedy_list(points, int(start), near) for start in starts])
        self.place = np.argsort(self.order, axis=1)

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        return self._log_law(self.place[:, x, None], self.place[:, None, :])

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        return self._log_law(self.place[:, None, :], self.place[:, y, None])

    def log_prob(self, inputs: IntArray, outputs: IntArray) -> FloatArray:
        x, y = check_aligned(inputs, outputs, self.size, names=("inputs", "outputs"))
        return self._log_law(self.place[:, x], self.place[:, y])

    def _log_law(self, origin: IntArray, end: IntArray) -> FloatArray:
        """log P(places `end` | places `origin`): the first axis, over lists, is averaged away."""
        total: FloatArray | float = -np.inf
        for one, other in zip(origin, end, strict=True):
            # All steps beyond an end lead to it: the sum of a^k from k = d on is a^d / (1 - a).
            is_end = (other == 0) | (other == self.size - 1)
            stays = np.where(is_end, 0.0, np.log(-np.expm1(-self.epsilon)))
            log_law = stays - self.epsilon * np.abs(one - other)
            total = np.logaddexp(total, log_law)
        return np.asarray(total) - np.log1p(np.exp(-self.epsilon)) - np.log(len(self.order))

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        chosen = rng.integers(len(self.order), size=len(x))
        # The difference of two geometric numbers is two-sided geometric.
        up, down = rng.geometric(-np.expm1(-self.epsilon), size=(2, len(x)))
        return self.order[chosen, np.clip(self.place[chosen, x] + up - down, 0, self.size - 1)]
