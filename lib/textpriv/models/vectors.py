"""Sentence vectors: every sentence of every document as a point on the unit sphere.

    sentences = embed(load_encoder(), texts)       # 384 numbers per sentence
    sentences.mean()                               # (documents, width): a vector per document
    sentences[3]                                   # (sentences of document 3, width)

Sentence-level mechanisms and attackers with access to embeddings work on these vectors. They are
those of sentence-transformers: the mean of the encoder's last hidden states, scaled to length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import check_offsets, check_texts
from textpriv.data.splits import sentences_of
from textpriv.data.tokens import ranges
from textpriv.errors import InvalidInput
from textpriv.models import Encoder, pieces
from textpriv.models.classifiers import features


@dataclass(frozen=True, eq=False)
class SentenceVectors:
    """Documents as one flat table of sentence vectors with offsets.

    Parameters
    ----------
    vectors : (sentences, width) float32, finite
    offsets : (documents + 1,) int64: document i is vectors[offsets[i]:offsets[i + 1]]; at least
        one document, and in each at least one sentence
    """

    vectors: NDArray[np.float32]
    offsets: IntArray

    def __post_init__(self) -> None:
        vectors, offsets = np.asarray(self.vectors), np.asarray(self.offsets)
        if vectors.ndim != 2 or vectors.dtype != np.float32 or not vectors.shape[1]:
            raise InvalidInput(
                f"vectors: got {vectors.dtype} {vectors.shape}, expected float32 "
                "(sentences, width), width >= 1"
            )
        if not np.isfinite(vectors).all():
            raise InvalidInput("vectors: got NaN or infinity, expected finite numbers")
        check_offsets(offsets, len(vectors))
        if len(offsets) < 2:
            raise InvalidInput("offsets: got no document, expected at least one")
        empty = np.flatnonzero(np.diff(offsets) < 1)
        if len(empty):
            raise InvalidInput(
                f"offsets: got no sentence in document {empty[0]}, expected at least one in each; "
                "the empty text has a vector too"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> NDArray[np.float32]:
        return self.vectors[self.offsets[document] : self.offsets[document + 1]]

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        return int(self.vectors.shape[1])

    @property
    def sizes(self) -> IntArray:
        """Sentences of every document: (documents,), each >= 1."""
        return np.diff(self.offsets)

    @property
    def document(self) -> IntArray:
        """Document number of every sentence."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def mean(self) -> FloatArray:
        """Mean of every document's sentence vectors: (documents, width)."""
        total = np.add.reduceat(self.vectors, self.offsets[:-1], axis=0, dtype=np.float64)
        result: FloatArray = total / self.sizes[:, None]
        return result

    def subset(self, documents: IntArray) -> SentenceVectors:
        """The documents of these numbers, in that order; repeats are allowed."""
        chosen = check_ids(documents, len(self), what="documents")
        sizes = self.sizes[chosen]
        return SentenceVectors(
            vectors=self.vectors[ranges(self.offsets[:-1][chosen], sizes)],
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
        )


def embed(encoder: Encoder, texts: Sequence[str], *, longest: int = 128) -> SentenceVectors:
    """Vectors of length 1 of the sentences (`splits.sentences_of`) of every text (one or more).

    A text without a sentence, such as the empty one, gets the vector of the empty text. In its last
    digits a vector depends on those with which it is batched.

    Parameters
    ----------
    encoder : one that was trained for the mean of its states (Reimers and Gurevych 2019)
    longest : pieces that are read of a sentence: see `features`
    """
    texts = check_texts(texts)
    if not len(texts):
        raise InvalidInput("texts: got no document, expected at least one")
    divided = [list(sentences_of(text)) or [""] for text in texts]
    flat = [sentence for sentences in divided for sentence in sentences]
    corpus = pieces.encode(encoder.tokenizer, flat, longest=longest)
    states = features(encoder, corpus, longest=longest)
    return SentenceVectors(
        vectors=states / np.linalg.norm(states, axis=1, keepdims=True),
        offsets=np.cumsum([0, *map(len, divided)], dtype=np.int64),
    )
