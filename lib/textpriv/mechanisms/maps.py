"""Lossy maps: a partition of the vocabulary, and in every group one word that stands for all.

    mapper = LossyMap.random(len(words), 2, rng, fixed=special)      # 2-Random
    mapper = LossyMap.by_frequency(counts, keep="frequent", fixed=special)      # High-freq
    mapper.sanitize_corpus(corpus)        # every token by the representative of its group
    mapper.preimages(output)              # what an output may have been

A map is a channel whose probabilities are 0 and 1, so that the attacks on channels apply to it.
It is deterministic and carries no privacy claim: who knows the partition has a handful of words
to choose from at every position, and the same word always looks the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

import numpy as np
import scipy.sparse

from textpriv.channel import IntArray, SparseChannel, check_ids
from textpriv.checks import (
    StrOptions,
    at_least,
    check_count,
    check_generator,
    check_integers,
    checked,
)
from textpriv.data.tokens import Corpus, check_corpus
from textpriv.errors import InvalidInput

NO_IDS = np.empty(0, dtype=np.int64)


class LossyMap(SparseChannel):
    """Sends every member of a group of words to the group's representative.

    Parameters
    ----------
    name : how results call it
    representative : (size,) id that stands for each word; a representative stands for itself
    fixed : ids, such as special tokens, that are no input: they pass and nothing is sent to them

    Raises
    ------
    InvalidInput : a representative that is sent to another word, or a fixed id in a group

    References
    ----------
    Harel et al. 2024, section 2.
    """

    def __init__(self, name: str, representative: IntArray, *, fixed: IntArray = NO_IDS) -> None:
        size = len(representative)
        self.name, self.size = name, size
        self.representative = check_ids(representative, size, what="representative")
        again = self.representative[self.representative]
        if (again != self.representative).any():
            first = int(np.flatnonzero(again != self.representative)[0])
            raise InvalidInput(
                f"representative: {first} is sent to {self.representative[first]}, which is sent "
                f"to {again[first]}; expected every representative to stand for itself"
            )
        self.fixed = np.unique(check_ids(fixed, size, what="fixed"))
        is_free = np.ones(size, dtype=bool)
        is_free[self.fixed] = False
        self.inputs = np.flatnonzero(is_free)
        if (np.bincount(self.representative, minlength=size)[self.fixed] != 1).any():
            raise InvalidInput("fixed: some id shares a group, expected it to stand alone")

    @classmethod
    @checked(group=at_least(2))
    def random(
        cls, size: int, group: int, rng: np.random.Generator, *, fixed: IntArray = NO_IDS
    ) -> Self:
        """Groups and representatives drawn uniformly: 2-Random, 3-Random.

        Parameters
        ----------
        size : of the vocabulary
        group : words per group, >= 2. What is left over makes a smaller group; a single word
            that is left stands for itself.
        """
        check_generator(rng)
        order = rng.permutation(_free(size, fixed))
        representative = np.arange(size)
        # The order is random, so the first of a group is a uniform choice.
        representative[order] = np.repeat(order[::group], group)[: len(order)]
        return cls(f"{group}-random", representative, fixed=fixed)

    @classmethod
    @checked(keep=StrOptions({"frequent", "rare"}))
    def by_frequency(
        cls, counts: IntArray, *, keep: Literal["frequent", "rare"], fixed: IntArray = NO_IDS
    ) -> Self:
        """The most frequent word paired with the least frequent one, and so on inwards.

        Parameters
        ----------
        counts : (size,) how often each word occurs in text that is not private; equal counts
            are ranked by id
        keep : which word of a pair stands for both: High-freq or Low-freq. In an odd number of
            words the one in the middle stands for itself.
        """
        numbers = check_integers(counts, what="counts")
        free = _free(len(numbers), fixed)
        ranked = free[np.lexsort((free, -numbers[free]))]
        half = len(ranked) // 2
        first, last = ranked[:half], ranked[::-1][:half]
        representative = np.arange(len(numbers))
        if keep == "frequent":
            representative[last] = first
        else:
            representative[first] = last
        name = "high-freq" if keep == "frequent" else "low-freq"
        return cls(name, representative, fixed=fixed)

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """P(y|x), 0 or 1, as a sparse (size, size) matrix."""
        entries = (np.ones(self.size), (np.arange(self.size), self.representative))
        return scipy.sparse.csr_array(entries, shape=(self.size, self.size))

    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        """The corpus with every token replaced; tokens without an id stay."""
        check_corpus(corpus, self.size)
        ids = corpus.ids
        return corpus.with_ids(np.where(ids >= 0, self.representative[np.maximum(ids, 0)], ids))

    def preimages(self, output: int) -> IntArray:
        """The words that are sent to an output, ascending; none where nothing is."""
        (word,) = check_ids([output], self.size, what="output")
        return self._members[self._bounds[word] : self._bounds[word + 1]]

    @cached_property
    def _members(self) -> IntArray:
        return np.argsort(self.representative, kind="stable")

    @cached_property
    def _bounds(self) -> IntArray:
        sizes = np.bincount(self.representative, minlength=self.size)
        return np.concatenate([[0], np.cumsum(sizes)])


def _free(size: int, fixed: IntArray) -> IntArray:
    """Ids that take part in the partition."""
    check_count(size, least=2, what="size")
    free = np.setdiff1d(np.arange(size), check_ids(fixed, size, what="fixed"))
    if len(free) < 2:
        raise InvalidInput(f"fixed: leaves {len(free)} words, expected at least two")
    return free
