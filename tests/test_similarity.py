"""BERTScore and cosine against a plain forward pass, one text at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import refused

from textpriv.models import Encoder, similarity
from textpriv.models.similarity import bert_score, cosine

REFERENCES = ["the cat sat on the mat", "a dog", "cat dog cat", "the"]
CANDIDATES = ["a cat sat", "a dog", "", "mat mat the the mat on a"]


def states(encoder: Encoder, text: str) -> torch.Tensor:
    """All states of one text, special pieces included, by transformers itself."""
    with torch.inference_mode():
        output = encoder.model.bert(**encoder.tokenizer([text], return_tensors="pt"))
    return output.last_hidden_state[0].float()


def by_hand(encoder: Encoder, reference: str, candidate: str) -> float:
    """The harmonic mean of precision and recall."""
    left, right = states(encoder, reference)[1:-1], states(encoder, candidate)[1:-1]
    if not len(left) or not len(right):
        return 0.0
    table = torch.cosine_similarity(right[:, None], left[None], dim=2)
    precision, recall = float(table.amax(1).mean()), float(table.amax(0).mean())
    assert recall != pytest.approx(precision, abs=1e-3) or len(left) == len(right)
    return 2 * precision * recall / (precision + recall)


def test_bert_score_is_that_of_a_plain_forward_pass(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [by_hand(encoder, *pair) for pair in zip(REFERENCES, CANDIDATES, strict=True)]
    for batch, pairs in ((32, 512), (1, 512), (2, 3)):
        monkeypatch.setattr(similarity, "_PAIRS", pairs)
        monkeypatch.setattr(similarity, "_BATCH", batch)
        scores = bert_score(encoder, REFERENCES, CANDIDATES)
        np.testing.assert_allclose(scores, expected, atol=2e-2)
    assert scores[1] == pytest.approx(1, abs=1e-5)  # a text and itself


def test_texts_are_cut_where_said(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_LONGEST", 4)
    cut = bert_score(encoder, ["the cat sat on the mat"], ["the cat"])
    assert cut == pytest.approx(1, abs=1e-5)


def test_cosine_is_that_of_the_mean_states(encoder: Encoder) -> None:
    left = [states(encoder, text).mean(0) for text in REFERENCES]
    right = [states(encoder, text).mean(0) for text in CANDIDATES]
    expected = [
        float(torch.cosine_similarity(a, b, dim=0)) for a, b in zip(left, right, strict=True)
    ]
    similarities = cosine(encoder, REFERENCES, CANDIDATES, longest=40)
    np.testing.assert_allclose(similarities, expected, atol=2e-2)
    assert similarities[1] == pytest.approx(1, abs=1e-5)


def test_no_pairs_have_no_scores(encoder: Encoder) -> None:
    assert bert_score(encoder, [], []).shape == cosine(encoder, [], []).shape == (0,)


test_what_is_no_list_of_pairs_is_refused = refused(
    (lambda encoder: bert_score(encoder, ["a"], ["a", "b"]), "candidates: got 2 for 1"),
    (lambda encoder: cosine(encoder, ["a"], ["a", "b", "c"]), "candidates: got 3 for 1"),
)
