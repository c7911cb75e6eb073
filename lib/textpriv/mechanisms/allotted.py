"""Budgets by groups of words: each is replaced at the epsilon of its group (STAMP's other half).

    group = by_sensitivity(glove, sensitive=names, task="who directed the film")
    mechanism = Allotted(SanText(glove, epsilon=8), group, shares=STAMP)      # any of words
    mechanism.sanitize(["John directed the film"])

STAMP takes four groups of words, by how sensitive a word is and how important for a task, and a
mechanism at four epsilons in the ratio 2 : 1 : 4 : 3. Two words of one group keep the claim of the
mechanism at the group's epsilon. Of two words of different groups nothing follows from either
epsilon: let P_a be the law at epsilon a. Then the loss between x at a and x' at b is

    max over y of |ln P_a(y|x) - ln P_b(y|x')| ,

which does not vanish where x and x' are near each other, not even where they are the same word. For
SanText it is at most (a d(x, x') + |a - b| D) / 2 and the difference of the normalisers, with D the
largest distance to an output: it does not vanish with d(x, x'). So a group that
is decided by the private word shows in the output, and "this word has epsilon a" promises nothing
against the words of other groups.

What is sound is a budget that the private text does not decide. Where epsilon i of *position* i is
public, position i loses at most epsilon i d(x, x') between any two words, and these add up over
positions: so `at_positions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import LEVEL, check_kind, checked
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import PRIVATE, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim, Mechanism, check_epsilons, entropy, simulation
from textpriv.mechanisms.finite import FiniteMechanism

STAMP = (0.5, 0.25, 1.0, 0.75)
"""Shares of the largest epsilon of STAMP's groups 1 to 4, see `by_sensitivity`: 2 : 1 : 4 : 3."""


class Allotted(FiniteMechanism):
    """A mechanism on words at one of several epsilons, by the group of the word that is replaced.

    Parameters
    ----------
    mechanism : any mechanism on words; its epsilon is that of a share of 1. What is asked of a
        channel (`log_rows`, `log_columns`) is answered where it is one itself
    group : (size,) number of each word's group, 0 and up: a function of the word alone
    shares : of epsilon, in (0, 1], one for each group, the largest 1

    References
    ----------
    Tian et al. 2026, STAMP: Selective Task-Aware Mechanism for Text Privacy, definition 3 and
    theorems 1 and 2, which compare words of one group and texts with the same groups. The text
    around them takes groups from recognisers of names, which read the whole private text: the group
    of a word then depends on its neighbours too, which is worse than what stands here.
    """

    name = "allotted"

    def __init__(self, mechanism: Mechanism, group: ArrayLike, shares: Sequence[float]) -> None:
        check_kind(mechanism, Mechanism, what="mechanism", expected="one on words")
        super().__init__(mechanism.embedding, epsilon=mechanism.epsilon)
        self.mechanism, self.shares = mechanism, tuple(check_epsilons(shares))
        if max(self.shares) != 1:
            raise InvalidInput(f"shares: got {self.shares}, expected the largest to be 1")
        self.group = check_ids(group, len(self.shares), what="group")
        if len(self.group) != self.size:
            raise InvalidInput(f"group: got {len(self.group)} words, expected {self.size}")
        self.name = f"{mechanism.name}, allotted"
        self.inputs, self.outputs = mechanism.inputs, getattr(mechanism, "outputs", None)

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        inside = self.mechanism.claim
        return replace(
            inside,
            definition=f"between words of one group, at the group's share of eps: "
            f"{inside.definition}; between words of different groups nothing",
            protects=f"inside a group: {inside.protects}",
            in_clear=f"{inside.in_clear}; the group of every word",
            unknown="no bound is claimed from known words: an unknown one becomes one of any group",
            composition=f"position by position of texts with the same groups: {inside.composition}",
            loss=None,
            bounded_range=False,
        )

    @property
    def published(self) -> Claim | None:  # type: ignore[override]
        """How a budget "for a token" is read: the largest epsilon between any two words."""
        read = replace(self.mechanism.claim, bounded_range=False)
        return replace(read, definition=f"read as if of any two words: {read.definition}")

    def at_group(self, group: int) -> Mechanism:
        """The mechanism at the epsilon of a group."""
        return self.mechanism.with_epsilon(self.epsilon * self.shares[group])

    @property
    def fallback(self) -> IntArray:
        return self.mechanism.fallback

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        x = check_ids(inputs, self.size, what="inputs")
        return at_positions(
            self.mechanism, x, self.epsilon * np.array(self.shares)[self.group[x]], rng
        )

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        result = np.empty((len(x), self.size))
        for group in np.unique(self.group[x]):
            rows = np.flatnonzero(self.group[x] == group)
            result[rows] = self._channels[group].log_rows(x[rows])
        return result

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        result = np.empty((len(y), self.size))
        for group in np.unique(self.group):
            words = np.flatnonzero(self.group == group)
            result[:, words] = self._channels[group].log_columns(y)[:, words]
        return result

    @cached_property
    def _channels(self) -> list[FiniteMechanism]:
        """The channel of each group."""
        made = [self.at_group(group) for group in range(len(self.shares))]
        for each in made:
            check_kind(
                each, FiniteMechanism, what="mechanism", expected="one with an explicit P(y|x)"
            )
        return [each for each in made if isinstance(each, FiniteMechanism)]


def at_positions(
    mechanism: Mechanism,
    ids: ArrayLike,
    epsilons: ArrayLike,
    rng: np.random.Generator | None = None,
) -> IntArray:
    """Words (tokens,) replaced, each at the epsilon of its position (tokens,).

    Where the epsilons are public (decided without the words), the loss between two texts is the sum
    over positions of what the mechanism claims at that epsilon. InvalidInput where they are not as
    many as the words.
    """
    words, budgets = np.asarray(ids), np.asarray(epsilons, dtype=np.float64)
    if words.shape != budgets.shape:
        raise InvalidInput(f"epsilons: got {budgets.shape}, expected the words' {words.shape}")
    rng, result = entropy(rng), np.empty(len(words), dtype=np.int64)
    for epsilon in np.unique(budgets):
        here = np.flatnonzero(budgets == epsilon)
        with simulation():  # the warning has been given
            result[here] = mechanism.with_epsilon(float(epsilon)).sanitize_ids(words[here], rng)
    return result


@checked(share=LEVEL)
def by_sensitivity(
    embedding: Embedding, *, sensitive: ArrayLike, task: str, share: float = 0.25
) -> NDArray[np.int64]:
    """STAMP's group of every word, as a public map of words: (size,) 0 to 3, for `STAMP`.

    Parameters
    ----------
    sensitive : ids of the words that are secrets, such as names
    task : what the text is for: a question, or a few words
    share : of all words that count as important: those nearest by cosine to the mean of the task's

    Returns
    -------
    0 sensitive and important, 1 sensitive, 2 important, 3 neither. InvalidInput for a task without
    a known word.
    """
    ids = Tokenizer(embedding.words, PRIVATE).encode([task]).ids
    if not (ids >= 0).any():
        raise InvalidInput(f"task: got {task!r}, expected some word of the vocabulary")
    points = embedding.vectors.astype(np.float64)
    lengths = np.maximum(np.linalg.norm(points, axis=1), 1e-12)
    nearness = points @ points[ids[ids >= 0]].mean(0) / lengths
    is_important = nearness >= np.quantile(nearness, 1 - share)
    is_sensitive = np.zeros(len(embedding), dtype=bool)
    is_sensitive[check_ids(sensitive, len(embedding), what="sensitive")] = True
    return np.where(is_sensitive, 0, 2) + ~is_important
