"""What every reconstruction attack shares: what it sees, and ranked guesses with scores.

observed = observe(mechanism, private, rng)          # the sanitized text, as an attacker sees it
attack = ContextFreeBayes(mechanism, shadow)         # a channel and shadow data go in
guesses = attack.guess(observed, targets, top=5)     # ranked words with scores come out
guesses.hits(private.ids[targets]).mean()            # top-1 attack success rate
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textpriv.channel import Channel, FloatArray, IntArray, check_ids
from textpriv.checks import BoolArray, check_count, check_kind, described
from textpriv.data.tokens import UNKNOWN, Corpus, check_corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mechanism
from textpriv.mechanisms.base import simulation

NONE = -1  # in place of a guess where an attack has fewer than were asked for


@dataclass(frozen=True, eq=False)
class Observed:
    """A sanitized text, and which of its tokens went through the mechanism.

    Which tokens were sanitized is known to the attacker, as in Tong et al., whose attacks
    choose among the sensitive words only. The other tokens stand in clear.
    """

    corpus: Corpus
    sanitized: BoolArray  # (tokens,) whether a token went through the mechanism

    def __post_init__(self) -> None:
        if self.sanitized.shape != self.corpus.ids.shape or self.sanitized.dtype != np.bool_:
            raise InvalidInput(
                f"sanitized: got {self.sanitized.dtype} {self.sanitized.shape}, expected a bool "
                f"for each of the {len(self.corpus.ids)} tokens"
            )
        if (self.corpus.ids[self.sanitized] < 0).any():
            raise InvalidInput("corpus: a sanitized token is no word of the vocabulary")

    @property
    def targets(self) -> IntArray:
        """Positions of the sanitized tokens."""
        return np.flatnonzero(self.sanitized)


def observe(
    mechanism: Mechanism,
    private: Corpus,
    rng: np.random.Generator | None = None,
    *,
    reuse: bool = False,
) -> Observed:
    """Sanitize a corpus and hide the rest: what an attacker gets to see.

    A word that the vocabulary lacks and the policy replaces goes through the mechanism too; no
    guess for it can be right. `reuse` gives a word that is repeated in a document one draw
    (see `sanitize_corpus`).
    """
    check_kind(mechanism, Mechanism, what="mechanism", expected="a mechanism that replaces words")
    sanitized = is_sensitive(mechanism, private) | (private.ids == UNKNOWN)
    with simulation():
        return Observed(mechanism.sanitize_corpus(private, rng, reuse=reuse), sanitized)


def check_channel(channel: object) -> None:
    """A channel, which an attack can ask for P(y|x), or InvalidInput."""
    if isinstance(channel, Channel):
        return
    do = "; attacks with classes='vocabulary', PriorOnly and EmbeddingInversion need none"
    if isinstance(channel, Madlib):
        do = (
            ", which noise has in no closed form; estimate it: textpriv.mechanisms.estimated."
            "NoiseChannel.estimate(mechanism, [epsilon], rng)[epsilon]"
        )
    elif isinstance(channel, type) and issubclass(channel, Channel):
        do = f"; make one, {channel.__name__}(...)"
    got = channel.name if isinstance(channel, Mechanism) else described(channel)
    raise InvalidInput(f"channel: got {got}, expected a Channel, that is P(y|x){do}")


def is_input(channel: Channel | Mechanism) -> BoolArray:
    """Whether each word is one that the channel replaces: (size,)."""
    expected = "a channel or a mechanism that replaces words"
    check_kind(channel, (Channel, Mechanism), what="channel", expected=expected)
    result = np.zeros(channel.size, dtype=bool)
    result[slice(None) if channel.inputs is None else channel.inputs] = True
    return result


def is_sensitive(channel: Channel | Mechanism, corpus: Corpus) -> BoolArray:
    """Tokens of a corpus in clear that the channel would replace; InvalidInput for none."""
    replaced = np.append(is_input(channel), False)  # the last stands for what is unknown
    check_corpus(corpus, channel.size, channel.vocabulary)
    sensitive = replaced[np.maximum(corpus.ids, -1)]
    if not sensitive.any():
        unknown = int((corpus.ids == UNKNOWN).sum())
        why = f", but for {unknown} unknown words, of which no guess is right" if unknown else ""
        raise InvalidInput(
            f"corpus: none of its {len(corpus.ids)} tokens is replaced by this mechanism{why}; "
            "there is nothing to attack"
        )
    return sensitive


@dataclass(frozen=True, eq=False)
class Guesses:
    """Ranked guesses, the best first.

    Parameters
    ----------
    words : (targets, top) ids; NONE where the attack has no further candidate
    scores : (targets, top) decreasing along a row, -inf beside NONE. Of an attack whose
        `posterior` is true they are the probabilities that it assigns.
    """

    words: IntArray
    scores: FloatArray

    def hits(self, truth: IntArray, *, top: int = 1) -> BoolArray:
        """Whether the true word is among the first `top` guesses, by equality of ids."""
        original = np.asarray(truth)
        if original.shape != (len(self.words),):
            raise InvalidInput(f"truth: got {original.shape}, expected ({len(self.words)},)")
        if not 1 <= top <= self.words.shape[1]:
            raise InvalidInput(f"top: got {top}, expected 1 to {self.words.shape[1]}")
        best = self.words[:, :top]
        return ((best == original[:, None]) & (best != NONE)).any(1)

    def substring_hits(self, truth: IntArray, words: Sequence[str]) -> BoolArray:
        """Whether the true word is part of the best guess as a string.

        This is the test of the released code of Tong et al.: guessing "another" counts when
        the word was "other". It can only find more successes than `hits`.
        """
        best = self.words[:, 0]
        pairs, inverse = np.unique(np.stack([np.asarray(truth), best]), axis=1, return_inverse=True)
        hits = [
            word >= 0 and guess != NONE and words[word] in words[guess]
            for word, guess in pairs.T.tolist()
        ]
        return np.array(hits, dtype=bool)[inverse.ravel()]


class Attack:
    """Guesses the original words of sanitized tokens.

    A subclass takes a channel and shadow data when it is made. `name` is what results and
    figures call it; `posterior` says whether its scores are probabilities; `vocabulary` is the
    channel's, "" where it is not known.
    """

    name: str
    posterior: bool = False
    vocabulary: str = ""

    def guess(
        self, observed: Observed, targets: IntArray | None = None, *, top: int = 5
    ) -> Guesses:
        """The `top` best guesses for every target, a position of a sanitized token; None: all."""
        check_count(top, what="top")
        return self._guess(observed, check_targets(observed, targets, self.vocabulary), top)

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        """The same for positions that were checked; what a subclass writes."""
        raise NotImplementedError


def hits_anywhere(
    guesses: Guesses, corpus: Corpus, targets: IntArray, truth: IntArray
) -> BoolArray:
    """The unordered test: is a token among the guesses for any position of its document?

    Parameters
    ----------
    guesses : for every one of `targets`
    corpus : whose documents count; `targets` are positions in it
    truth : (targets,) original ids
    """
    document = corpus.document[targets]
    size = int(max(guesses.words.max(initial=0), truth.max(initial=0))) + 1
    present = guesses.words != NONE
    guessed = (document[:, None] * size + guesses.words)[present]
    # An unknown word, -1, would have the number of the largest word of the document before.
    return (truth >= 0) & np.isin(document * size + truth, guessed)


class TokenAttack(Attack):
    """An attack whose guesses for a token depend on that token alone."""

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        types, inverse = np.unique(observed.corpus.ids[positions], return_inverse=True)
        guesses = self.guess_words(types, top)
        return Guesses(guesses.words[inverse], guesses.scores[inverse])

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        """Guesses for single output words, whatever their context."""
        raise NotImplementedError


def padded(words: IntArray, scores: FloatArray, top: int) -> Guesses:
    """Guesses with `top` columns, filled up with NONE."""
    missing = ((0, 0), (0, top - words.shape[1]))
    return Guesses(
        np.pad(words, missing, constant_values=NONE),
        np.pad(scores, missing, constant_values=-np.inf),
    )


def check_targets(observed: Observed, targets: IntArray | None, vocabulary: str = "") -> IntArray:
    """Positions of sanitized tokens of a text over this vocabulary, or InvalidInput."""
    do = "sanitize with textpriv.attacks.base.observe(mechanism, private)"
    check_kind(observed, Observed, what="observed", expected="an Observed text", do=do)
    corpus = observed.corpus
    if vocabulary and corpus.vocabulary and corpus.vocabulary != vocabulary:
        raise InvalidInput(
            "observed: got a text over another vocabulary than that of the attack's channel; "
            "encode both with one Tokenizer"
        )
    if targets is None:
        return observed.targets
    positions = check_ids(targets, len(observed.corpus.ids), what="targets")
    if not observed.sanitized[positions].all():
        raise InvalidInput("targets: some position holds a token that was not sanitized")
    return positions
