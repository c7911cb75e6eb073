"""What every word-level mechanism shares: a claim, a vocabulary, texts in and texts out.

    class Uniform(Mechanism):
        name = "uniform"
        claim = replace(METRIC_CLAIM, loss="constant")

        def _replace(self, ids, rng):                  # all that a mechanism has to say
            return rng.integers(self.size, size=len(ids))

    Uniform(embedding, epsilon=1).sanitize(["the rock is destined to be the new conan"])

`SanText` and its like, whose P(output | input) is known, begin with `finite.FiniteMechanism`.
"""

from __future__ import annotations

import copy
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np

from textpriv.channel import IntArray, check_ids
from textpriv.checks import POSITIVE, check_generator, check_number, described
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import (
    KEPT,
    PRIVATE,
    UNKNOWN,
    Corpus,
    Tokenizer,
    TokenPolicy,
    check_corpus,
    fingerprint,
)
from textpriv.errors import InvalidInput, SeededOutput


def check_epsilon(epsilon: object, *, what: str = "epsilon") -> float:
    """A finite number > 0 (no bool, no string), or InvalidInput."""
    return check_number(epsilon, POSITIVE, what=what)


def check_epsilons(epsilons: Iterable[float]) -> list[float]:
    """At least one finite number > 0, or InvalidInput."""
    if not isinstance(epsilons, Iterable):
        raise InvalidInput(f"epsilons: got {described(epsilons)}, expected a list of numbers > 0")
    wanted = [check_epsilon(each) for each in epsilons]
    if not wanted:
        raise InvalidInput("epsilons: got none, expected at least one")
    return wanted


# --- Seeds ------------------------------------------------------------------------------------


def entropy(rng: np.random.Generator | None) -> np.random.Generator:
    """What a mechanism draws from: fresh entropy, or the generator passed in, with a warning."""
    if rng is None:
        return np.random.default_rng()
    check_generator(rng)
    warn_of("generator")
    return rng


def warn_of(what: str) -> None:
    """`SeededOutput`, placed where the library was called; `what`: "seed" or "generator".

    `textpriv.experiments` silences it by its name, `simulation` for a while.
    """
    warnings.warn(
        f"a {what} was passed to a mechanism: whoever knows the seed can undo the output, which "
        f"is then not private. To release text leave the {what} out; in an experiment use "
        "warnings.simplefilter('ignore', textpriv.errors.SeededOutput)",
        SeededOutput,
        stacklevel=_caller(),
    )


@contextmanager
def simulation() -> Iterator[None]:
    """Inside, seeded mechanisms do not warn: for attacks and audits, which release no text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededOutput)
        yield


def _caller() -> int:
    """Frames between whoever asks and the code that called the library, itself included."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "textpriv":
        frame, level = frame.f_back, level + 1
    return level


# --- Claims and mechanisms ----------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """The guarantee that a mechanism states.

    Attributes
    ----------
    definition : the inequality, in words and symbols
    protects : adjacency: which two inputs are made hard to tell apart
    unit : unit of epsilon
    in_clear : what the output shows of the input as it is, under the token policy PRIVATE
        (see `TokenPolicy.in_clear` for what another policy adds)
    unknown : what holds for words that the vocabulary lacks, under the same policy
    composition : what several uses cost
    loss : the largest |ln P(y|w) - ln P(y|w')| of two words that are replaced, over all outputs y:
        "distance": epsilon times the Euclidean distance of their vectors; "constant": epsilon.
        None: something else, which `privacy.claims` works out
    bounded_range : whether it bounds max - min over y of ln P(y|w) - ln P(y|w') too, so that
        composition is tighter. True of exponential mechanisms whose scores differ between two
        words by at most half of the loss, and not of noise
    """

    definition: str
    protects: str
    unit: str
    in_clear: str
    unknown: str
    composition: str
    loss: Literal["distance", "constant"] | None = None
    bounded_range: bool = False


# An unknown word is a uniform mixture of known ones, and has no distance of its own.
UNKNOWN_METRIC = (
    "cannot be told apart from each other; from a known word by a factor of at most exp(eps * D), "
    "D the largest distance of that word to any other"
)
METRIC_CLAIM = Claim(
    definition="metric differential privacy: P(M(w)=y) <= exp(eps * d(w,w')) * P(M(w')=y) for all "
    "words w, w', y of the vocabulary",
    protects="one word against another, the less the greater the Euclidean distance d",
    unit="1 / Euclidean distance of the embedding",
    in_clear="the number of tokens",
    unknown=UNKNOWN_METRIC,
    composition="sum of eps * d over the words of a text and over repeated queries",
    loss="distance",
)


class Mechanism(ABC):
    """Replaces every word of a text, independently, by a random word of a vocabulary.

    Parameters
    ----------
    embedding : the public vocabulary with its vectors; fixed without the private text
    epsilon : finite number > 0; its unit is the mechanism's (`claim.unit`)

    Notes
    -----
    Whatever a subclass derives from epsilon is a property, never set when made.
    """

    name: str
    claim: Claim
    published: Claim | None = None  # a stronger reading of its paper, which says whose it is
    vocabulary: str = ""  # `tokens.fingerprint` of the words
    inputs: IntArray | None = None  # words that are replaced, the others pass; None: all
    least_epsilon = 0.0  # below it float64 does not hold what is drawn

    def __init__(self, embedding: Embedding, *, epsilon: float) -> None:
        if not isinstance(embedding, Embedding):
            raise InvalidInput(
                f"embedding: got {type(embedding).__name__}, expected an Embedding; "
                "see textpriv.data.embeddings.load or from_arrays"
            )
        self.embedding, self.epsilon = embedding, self._usable(epsilon)
        self.size, self.vocabulary = len(embedding), fingerprint(embedding.words)

    def with_epsilon(self, epsilon: float) -> Self:
        """The same mechanism at another epsilon; what does not depend on it is shared."""
        other = copy.copy(self)
        other.epsilon = self._usable(epsilon)
        for kind in type(self).__mro__:
            for name, member in vars(kind).items():
                if isinstance(member, cached_property):
                    other.__dict__.pop(name, None)
        return other

    def _usable(self, epsilon: object) -> float:
        """A finite number > 0 that is not below the least one, or InvalidInput."""
        number = check_epsilon(epsilon)
        if number < self.least_epsilon:
            raise InvalidInput(
                f"epsilon: got {number!r}, expected at least {self.least_epsilon:g}: below it the "
                f"draws of {self.name} leave the range of float64, and words may pass in clear"
            )
        return number

    @abstractmethod
    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        """One output per id; ids are checked and lie in the vocabulary."""

    @property
    def fallback(self) -> IntArray:
        """Words among which one is drawn, uniformly, in place of an unknown word."""
        return np.arange(self.size)

    def sanitize_ids(self, ids: IntArray, rng: np.random.Generator | None = None) -> IntArray:
        """One output id per input id (1-d, each in the vocabulary or UNKNOWN).

        Without `rng` a generator (PCG64, not cryptographic) is seeded by the operating system.
        A known seed makes the output reproducible and therefore not private: with `rng` comes
        the warning `SeededOutput`.
        """
        rng = entropy(rng)
        array = np.asarray(ids)
        unknown = array == UNKNOWN
        if unknown.any():
            array = array.copy()
            array[unknown] = rng.choice(self.fallback, size=int(unknown.sum()))
        return self._replace(check_ids(array, self.size, what="ids"), rng)

    def sanitize_corpus(
        self, corpus: Corpus, rng: np.random.Generator | None = None, *, reuse: bool = False
    ) -> Corpus:
        """A corpus of the same shape, sanitized; tokens that the policy keeps stay.

        With `reuse` a word that is repeated in a document gets one draw for all its
        occurrences, as in the sanitizer that Tong et al. attack (unknown words excepted). This
        weakens the claim: which positions hold the same known word is in clear. The bound
        holds only between documents with the same pattern of repeats, and adds up over
        their distinct words; changing one of several occurrences has no finite bound.
        """
        check_corpus(corpus, self.size, self.vocabulary)
        result = corpus.ids.copy()
        active = np.flatnonzero(corpus.ids != KEPT)
        ids = corpus.ids[active]
        if not reuse:
            result[active] = self.sanitize_ids(ids, rng)
            return corpus.with_ids(result)
        known = ids != UNKNOWN
        # A key per (document, word); unknown tokens each get a key of their own.
        key = corpus.document[active] * (self.size + 1) + ids
        key[~known] = -1 - np.arange(int((~known).sum()))
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        result[active] = self.sanitize_ids(ids[first], rng)[inverse]
        return corpus.with_ids(result)

    def sanitize(
        self,
        texts: Iterable[str],
        rng: np.random.Generator | None = None,
        *,
        policy: TokenPolicy = PRIVATE,
    ) -> list[str]:
        """Sanitized texts: lower-case words joined by single spaces under the default policy."""
        tokenizer = Tokenizer(self.embedding.words, policy)
        return tokenizer.decode(self.sanitize_corpus(tokenizer.encode(texts), rng))
