"""Summaries: a small summariser, larger ones, and how much of a text its summary holds.

    small = Extractive(load_encoder(), tokens=48)         # passages of the text itself
    large = Writer(load_generator(), tokens=48)           # SmolLM2 is asked to summarize
    similarity(encoder, texts, large.summarize(texts))    # (texts,) cosines

A summariser takes texts and gives texts, and does not know whether they were sanitized. The
extractive one needs units, and sanitized text need not have sentences, since full stops are
replaced like all else. So a *passage* ends with a full stop or, without one, after some pieces:
plain text is cut into sentences and noise into windows, by one rule.

What counts as small and large is the user's: here a 6-layer encoder that writes nothing and a
language model of 135 million parameters, both small; in the papers BART, T5 or TinyLlama beside
Llama-3-8B. What matters is that one runs for nothing at home and the other does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from textpriv.checks import FloatArray, IntArray, check_count, check_texts
from textpriv.data.tokens import Corpus, ranges
from textpriv.models import Encoder, pieces
from textpriv.models.classifiers import features
from textpriv.models.generators import Generator, generate, likeliest
from textpriv.models.similarity import cosine

INSTRUCTION = "Your task is to summarize your input text."
CORRECTION = (
    "Correct the grammar of the text below. Answer with the corrected text and nothing else."
)
_ENDS = (".", "!", "?")


# --- A small one: passages of the text ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Extractive:
    """Summarizes by the passages that are nearest to the whole, and far from each other.

    Greedily the passage of highest

        weight <v, m> - (1 - weight) max over chosen c of <v, c>

    is added while it fits: v and c are the passages' vectors and m that of the whole text, the
    direction of their mean. The summary keeps the order of the text.

    Parameters
    ----------
    encoder : see `textpriv.models.load_encoder`; vectors are means of its states
    tokens : >= 1, pieces that a summary has at most; a first passage that is longer is cut

    References
    ----------
    Carbonell and Goldstein 1998 (maximal marginal relevance).
    """

    encoder: Encoder
    tokens: int = 48
    # Shortest and longest passage, in pieces: a full stop ends one that has the shortest.
    passage: ClassVar[tuple[int, int]] = (5, 24)
    weight: ClassVar[float] = 0.7  # of nearness against redundancy

    def __post_init__(self) -> None:
        check_count(self.tokens, what="tokens")

    def summarize(self, texts: Sequence[str]) -> list[str]:
        """One summary per text: at most `tokens` pieces of it; nothing of an empty text."""
        corpus = pieces.encode(self.encoder.tokenizer, texts)
        cut, counts = self.passages(corpus)
        states = features(self.encoder, cut, longest=self.encoder.longest).astype(np.float64)
        vectors = states / np.linalg.norm(states, axis=1, keepdims=True)
        lengths = np.diff(cut.offsets)
        rows: list[IntArray] = []
        for first, count in zip(np.cumsum(counts) - counts, counts, strict=True):
            part = slice(first, first + count)
            chosen = first + self.choose(vectors[part], lengths[part])
            positions = ranges(cut.offsets[:-1][chosen], lengths[chosen])
            rows.append(cut.ids[positions][: self.tokens])
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        ids = np.concatenate([np.empty(0, dtype=np.int64), *rows])
        return pieces.decode(self.encoder.tokenizer, Corpus(ids=ids, offsets=offsets))

    def passages(self, corpus: Corpus) -> tuple[Corpus, IntArray]:
        """Passages as documents of their own, and how many each document has."""
        known = self.encoder.tokenizer.get_vocab()
        is_end = np.isin(corpus.ids, [known[end] for end in _ENDS if end in known])
        shortest, longest = self.passage
        cuts, counts = [0], np.zeros(len(corpus), dtype=np.int64)
        for document, (begin, end) in enumerate(
            zip(corpus.offsets[:-1].tolist(), corpus.offsets[1:].tolist(), strict=True)
        ):
            for position in range(begin, end):
                length = position + 1 - cuts[-1]
                is_last = position + 1 == end or length == longest
                if is_last or (is_end[position] and length >= shortest):
                    cuts.append(position + 1)
                    counts[document] += 1
        return Corpus(ids=corpus.ids, offsets=np.array(cuts, dtype=np.int64)), counts

    def choose(self, vectors: FloatArray, lengths: IntArray) -> IntArray:
        """Passages of the summary, ascending: of unit vectors (passages, width), in pieces."""
        if not len(vectors):
            return np.empty(0, dtype=np.int64)
        mean = vectors.mean(0)
        nearness = vectors @ (mean / max(float(np.linalg.norm(mean)), np.finfo(float).tiny))
        chosen = [int(nearness.argmax())]
        redundancy = vectors @ vectors[chosen[0]]
        while True:
            fits = lengths <= self.tokens - lengths[chosen].sum()
            fits[chosen] = False
            if not fits.any():
                return np.sort(np.array(chosen, dtype=np.int64))
            score = self.weight * nearness - (1 - self.weight) * redundancy
            best = int(np.where(fits, score, -np.inf).argmax())
            chosen.append(best)
            redundancy = np.maximum(redundancy, vectors @ vectors[best])


# --- Larger ones: models that write -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Writer:
    """A language model that is told what to do with a text, or was trained to do one thing.

    The likeliest token is taken at each step, so that a text has one answer.

    Parameters
    ----------
    generator : a chat model, or one that was trained to summarize (BART, T5)
    tokens : >= 1, that an answer has at most
    instruction : stands before the text, between them an empty line; "" for a model that was
        trained to summarize whatever it reads. T5 was trained with "summarize:".
    batch : texts that are answered together
    progress : show a bar

    References
    ----------
    Carpentier et al. 2024, section 4.2, for the instruction.
    """

    generator: Generator
    tokens: int = 48
    instruction: str = INSTRUCTION
    batch: int = 32
    progress: bool = False

    def summarize(self, texts: Sequence[str]) -> list[str]:
        """One answer per text, white space around it stripped; it may be empty."""
        texts = check_texts(texts)
        before = f"{self.instruction}\n\n" if self.instruction else ""
        prompts = [self.generator.ask(before + text) for text in texts]
        result = [""] * len(texts)
        options: Any = {"tokens": self.tokens, "batch": self.batch, "progress": self.progress}
        for numbers, outputs in generate(self.generator, prompts, likeliest, **options):
            for number, text in zip(numbers.tolist(), self.generator.say(outputs), strict=True):
                result[number] = text
        return result


# --- What a summary is worth --------------------------------------------------------------------


def similarity(encoder: Encoder, texts: Sequence[str], others: Sequence[str]) -> FloatArray:
    """Cosine of the vectors of two texts: (texts,), from -1 to 1.

    A vector is the mean of the encoder's states over the whole text, as far as the encoder
    reads. A text that holds nothing but white space says nothing: its similarity is 0.

    Parameters
    ----------
    encoder : one that was trained for the mean of its states, as all-MiniLM-L6-v2 was
    texts, others : as many of each; a text that occurs several times is read once

    References
    ----------
    Carpentier et al. 2024, section 4.1, with all-mpnet-base-v2.
    """
    if not len(texts) and not len(others):
        return np.empty(0)
    cosines = cosine(encoder, texts, others)
    speaks = [bool(a.strip() and b.strip()) for a, b in zip(texts, others, strict=True)]
    return np.where(speaks, cosines, 0.0)
