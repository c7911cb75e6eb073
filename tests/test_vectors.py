"""Sentence vectors: by hand, against sentence-transformers, and what embedding must not mix up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import refused
from tiny_models import tiny_encoder, write_tiny_model

from textpriv.data.splits import sentences_of
from textpriv.models import Encoder
from textpriv.models.vectors import SentenceVectors, embed

TEXTS = [
    "The cat sat on the mat. The dog ran!",
    "Snowball",
    "",
    "Fish. Fish sat. The fish sat on the dog! The mat",
    "  \n ",
    "The cat sat on the mat. The dog ran!",
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"), longest=300)


def three() -> SentenceVectors:
    """Documents of 2, 1 and 3 sentences in the plane."""
    vectors = np.array([[1, 0], [0, 2], [5, 6], [0, 0], [3, 3], [0, 6]], dtype=np.float32)
    return SentenceVectors(vectors, np.array([0, 2, 3, 6]))


def test_documents_by_hand() -> None:
    several = three()
    assert len(several) == 3 and several.width == 2
    assert several.sizes.tolist() == [2, 1, 3]
    assert several.document.tolist() == [0, 0, 1, 2, 2, 2]
    assert several[2].tolist() == [[0, 0], [3, 3], [0, 6]]
    assert several.mean().tolist() == [[0.5, 1], [5, 6], [1, 3]]
    assert several.mean().dtype == np.float64


def test_means_are_summed_in_double_precision() -> None:
    vectors = np.full((3, 1), 0.1, dtype=np.float32)
    vectors[0] = 2**24
    mean = SentenceVectors(vectors, np.array([0, 3])).mean()
    assert mean[0, 0] == pytest.approx((2**24 + 2 * float(np.float32(0.1))) / 3, rel=1e-15)


def test_a_subset_in_its_order_with_repeats() -> None:
    subset = three().subset(np.array([2, 0, 2]))
    assert subset.offsets.tolist() == [0, 3, 5, 8] and subset.offsets.dtype == np.int64
    for row, document in enumerate([2, 0, 2]):
        assert subset[row].tolist() == three()[document].tolist()


def test_every_sentence_has_a_vector_of_length_1(encoder: Encoder) -> None:
    embedded = embed(encoder, TEXTS)
    assert embedded.sizes.tolist() == [2, 1, 1, 4, 1, 2]
    assert embedded.vectors.dtype == np.float32 and embedded.width == encoder.width
    np.testing.assert_allclose(np.linalg.norm(embedded.vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(embedded[2], embedded[4], atol=1e-5)
    np.testing.assert_allclose(embedded[0], embedded[5], atol=1e-5)
    assert abs(embedded[0][0] - embedded[0][1]).max() > 0.01


def test_vectors_do_not_depend_on_the_company(encoder: Encoder) -> None:
    embedded = embed(encoder, TEXTS)
    for row, text in enumerate(TEXTS):
        for vector, sentence in zip(embedded[row], list(sentences_of(text)) or [""], strict=True):
            (alone,) = embed(encoder, [sentence])[0]
            np.testing.assert_allclose(vector, alone, atol=0.02)  # bfloat16


def test_the_vectors_of_sentence_transformers(tmp_path: Path, encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer  # slow to import

    folder = write_tiny_model(tmp_path, longest=300)
    whole = SentenceTransformer(str(folder), device="cpu")  # adds the mean over states
    flat = [sentence for text in TEXTS for sentence in list(sentences_of(text)) or [""]]
    expected = whole.encode(flat, normalize_embeddings=True)
    vectors = embed(encoder, TEXTS).vectors
    assert (vectors * expected).sum(1).min() > 0.999  # 0.99996 with MiniLM in bfloat16
    assert (vectors[:2] * expected[1::-1]).sum(1).max() < 0.99


FLOAT, ENDS = np.zeros((2, 3), dtype=np.float32), np.array([0, 2])
table: Any = SentenceVectors

test_bad_input_is_named = refused(
    (lambda: three().subset(np.array([3])), r"documents: got ids 3..3, expected 0..2"),
    (lambda: table(FLOAT.astype(float), ENDS), "vectors: got float64"),
    (lambda: table(FLOAT[0], ENDS), r"vectors: got float32 \(3,\)"),
    (lambda: table(FLOAT + np.float32(np.nan), ENDS), "vectors: got NaN or infinity"),
    (lambda: table(FLOAT[:0], ENDS[:1]), "offsets: got no document"),
    (lambda: table(FLOAT, np.array([0, 1])), "offsets: got 0 .. 1, expected 0 .. 2"),
    (lambda: table(FLOAT, np.array([0, 1, 1, 2])), "offsets: got no sentence in document 1"),
    (lambda: table(FLOAT, np.array([0, 2, 1, 2])), "offsets: got some that decrease"),
    (lambda encoder: embed(encoder, []), "texts: got no document"),
)
