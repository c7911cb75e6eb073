"""Word for word: what an attacker who has run the same tool on texts of their own reads back.

    pairs = WordPairs.from_texts(originals, sanitized)  # texts in which words stand one for one
    pairs.hits(pairs.learned())                         # (words,) whether the guess is right
    pairs.hits(pairs.output)                            # the output taken for the original

Nothing is known of the tool but what it did: other texts and what it made of them, from which the
attacker learns the original that most often stood behind each output. Texts whose number of words
has changed take no part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv.attacks.linkage import checked_pair_of_lists
from textpriv.checks import BoolArray, IntArray

_FOLDS = 4
_WORD = re.compile(r"\w+(?:['’]\w+)*")


def words_of(text: str) -> list[str]:
    """Lower-case words of a text; punctuation is left out."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class WordPairs:
    """Original words and what stands in their places.

    Parameters
    ----------
    original, output : (words,) numbers of words
    document : (words,) which text each stands in
    words : the words that are numbered
    """

    original: IntArray
    output: IntArray
    document: IntArray
    words: tuple[str, ...]

    @classmethod
    def from_texts(cls, originals: Sequence[str], sanitized: Sequence[str]) -> Self:
        """The words of the pairs of texts that have as many words before and after."""
        first, second = checked_pair_of_lists(originals, sanitized)
        pairs = [(words_of(a), words_of(b)) for a, b in zip(first, second, strict=True)]
        level = [number for number, (a, b) in enumerate(pairs) if a and len(a) == len(b)]
        before, after = (
            list(chain.from_iterable(pairs[number][side] for number in level)) for side in (0, 1)
        )
        words, numbers = np.unique(np.array([*before, *after], dtype=object), return_inverse=True)
        original, output = np.split(numbers.astype(np.int64), [len(before)])
        lengths = [len(pairs[number][0]) for number in level]
        return cls(original, output, np.repeat(level, lengths), tuple(words))

    @property
    def content(self) -> BoolArray:
        """Whether each original is no stop word of English: (words,)."""
        spared = np.array([word in ENGLISH_STOP_WORDS for word in self.words], dtype=bool)
        return ~spared[self.original]

    def hits(self, guesses: IntArray) -> BoolArray:
        """Whether each guess is the original."""
        return guesses == self.original

    @property
    def fold(self) -> IntArray:
        """Which quarter of the texts each word stands in: (words,)."""
        return np.asarray(np.unique(self.document, return_inverse=True)[1] % _FOLDS)

    def learned(self) -> IntArray:
        """The original that most often stood behind each output in the other folds' texts.

        An output that they lack is taken for the original, as it is among equally frequent ones.
        """
        size, fold = len(self.words), self.fold
        guesses = self.output.copy()
        for number in range(_FOLDS):
            asked = fold == number
            learned, original = self.output[~asked], self.original[~asked]
            behind, count = np.unique(learned * size + original, return_counts=True)
            output, word = np.divmod(behind, size)
            # The last of each output is the most frequent, and the output itself among equals.
            order = np.lexsort((output == word, count, output))
            best = np.arange(size)
            best[output[order]] = word[order]
            guesses[asked] = best[self.output[asked]]
        return guesses

    def most_frequent(self) -> IntArray:
        """Chance: the content word that is most frequent in the other folds' texts."""
        guesses, content = np.zeros(len(self.output), dtype=np.int64), self.content
        fold = self.fold
        for number in range(_FOLDS):
            counts = np.bincount(self.original[(fold != number) & content], minlength=1)
            guesses[fold == number] = counts.argmax()
        return guesses
