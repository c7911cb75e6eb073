"""One text as it is sent, and as an attacker reads it back, word by word.

reader = Reader(public_texts)
reader.read("The hotel was wonderful.", "custext+", epsilon=2)     # in a notebook: marked words
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from textpriv.attacks.base import Attack, Observed
from textpriv.attacks.bayes import EmbeddingInversion
from textpriv.checks import check_kind
from textpriv.data.tokens import KEPT, Corpus, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.evaluation import page, risks
from textpriv.evaluation.sanitizers import embedding, sanitizer
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.base import check_epsilon, simulation

CLEAR, RIGHT, WRONG = "in clear", "right", "wrong"


@dataclass(frozen=True)
class Reading:
    """A text word by word.

    Attributes
    ----------
    original, sanitized, guessed : (words) what was written, what was sent, what the attacker takes
        it for
    states : (words) CLEAR where a word was sent as it is on purpose, RIGHT where the attacker names
        a sanitized one, WRONG where not
    attack : by which it was read
    """

    original: tuple[str, ...]
    sanitized: tuple[str, ...]
    guessed: tuple[str, ...]
    states: tuple[str, ...]
    attack: str

    def __str__(self) -> str:
        return f"sent:    {' '.join(self.sanitized)}\nguessed: {' '.join(self.guessed)}"

    def _repr_html_(self) -> str:
        return page.marked(self)


def readings(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    private: Corpus,
    observed: Observed,
    guess: Corpus,
    attack: str,
) -> tuple[Reading, ...]:
    """The first documents of a corpus, those of these texts, as they were sent and read."""
    right = np.where(guess.ids == private.ids, RIGHT, WRONG)
    states = np.where(observed.sanitized, right, CLEAR)

    def spelled(corpus: Corpus, start: int, end: int) -> tuple[str, ...]:
        return tuple(
            private.kept[at] if corpus.ids[at] == KEPT else tokenizer.words[corpus.ids[at]]
            for at in range(start, end)
        )

    bounds = private.offsets.tolist()
    written = tokenizer.words_of(texts)  # unknown words as they are
    return tuple(
        Reading(
            tuple(words.split()),
            spelled(observed.corpus, start, end),
            spelled(guess, start, end),
            tuple(states[start:end].tolist()),
            attack,
        )
        for words, start, end in zip(written, bounds, bounds[1:], strict=False)
    )


class Reader:
    """Sanitizes a text and reads it back, at any mechanism and epsilon, in a moment.

    Parameters
    ----------
    public : what the attacker has read; nothing of the texts to come
    words : of the vocabulary, the most frequent: a smaller one is ready sooner; None: all
    """

    def __init__(self, public: Sequence[str], *, words: int | None = 10_000) -> None:
        self.words, self.embedding = words, embedding(words)
        self.tokenizer = Tokenizer(self.embedding.words)
        read = self.tokenizer.encode(public)
        self.language, self._words = risks.language(len(self.embedding), read), read.ids
        self._mechanism = lru_cache(maxsize=None)(self._made)
        self._attack = lru_cache(maxsize=16)(self._attack_on)

    def read(
        self, text: str, mechanism: str, epsilon: float, rng: np.random.Generator | None = None
    ) -> Reading:
        """The text as it is sent, and as read back by the strongest attack that is ready.

        The noisy channel reads by the mechanism's probabilities, or by an estimate of them; where
        there is none the nearest words are taken.
        """
        check_kind(text, str, what="text", expected="one string")
        made = self._mechanism(mechanism).with_epsilon(check_epsilon(epsilon))
        private = self.tokenizer.encode([text])
        hidden = risks.passing(made, private)
        with simulation():
            observed = Observed(made.sanitize_corpus(private, rng), hidden)
        attack = self._attack(mechanism, made.epsilon)
        guess = observed.corpus.ids.copy()
        if hidden.any():
            guess[observed.targets] = attack.guess(observed, top=1).words[:, 0]
        (reading,) = readings(
            self.tokenizer, [text], private, observed, private.with_ids(guess), attack.name
        )
        return reading

    def _made(self, name: str) -> Mechanism:
        made = sanitizer(name, epsilon=1.0, words=self.words).mechanism
        if made is None:
            raise InvalidInput(f"mechanism: got {name}, expected one that replaces words")
        return made

    def _attack_on(self, name: str, epsilon: float) -> Attack:
        made = self._mechanism(name).with_epsilon(epsilon)
        try:
            return risks.attack_for(made, self.language, words=self._words)
        except InvalidInput:
            return EmbeddingInversion(made, self.embedding)  # type: ignore[arg-type]
