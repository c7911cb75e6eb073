"""How alike two texts are, by an encoder: piece by piece (BERTScore) and as a whole (cosine).

    bert_score(encoder, references, candidates)   # (pairs,)
    cosine(encoder, references, candidates)

BERTScore matches every piece of one text with the piece of the other whose state is nearest in
angle. It has no fixed zero: unrelated English texts have many states in common, so that it must
be read beside the score of texts that belong to others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from textpriv.channel import FloatArray
from textpriv.errors import InvalidInput
from textpriv.models import Encoder, by_length, pieces
from textpriv.models.classifiers import features, sequences

_PAIRS, _BATCH = 512, 32  # pairs whose states are held at once; texts that BERTScore reads at once
_LONGEST = 256  # pieces that BERTScore reads of a text


def cosine(
    encoder: Encoder,
    references: Sequence[str],
    candidates: Sequence[str],
    *,
    longest: int | None = None,
) -> FloatArray:
    """Cosine of the mean states of two texts: (pairs,), from -1 to 1.

    Parameters
    ----------
    encoder : one that was trained for it, as all-MiniLM-L6-v2
    references, candidates : as many of one as of the other
    longest : pieces that are read of a text; None: all that fit
    """
    _check_pairs(references, candidates)
    states = directions(encoder, [*references, *candidates], longest=longest)
    first, second = np.split(states, 2)
    return np.clip((first * second).sum(1), -1, 1)


def directions(encoder: Encoder, texts: Sequence[str], *, longest: int | None = None) -> FloatArray:
    """The mean state of every text at length 1, (texts, width); each distinct text is read once.

    For the parameters see `cosine`, which is the product of two of these.
    """
    most = encoder.longest if longest is None else longest
    distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    corpus = pieces.encode(encoder.tokenizer, list(distinct), longest=most)
    states = features(encoder, corpus, longest=most).astype(np.float64)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    return states[[distinct[text] for text in texts]]


@torch.inference_mode()
def bert_score(
    encoder: Encoder, references: Sequence[str], candidates: Sequence[str]
) -> FloatArray:
    """F1 of BERTScore of every pair, (pairs,) in -1..1: by the last states, not weighted or scaled.

    The paper has roberta-large at its 17th layer: the numbers of another encoder are on another
    scale. A text without a piece scores 0.

    References
    ----------
    Zhang et al. 2020, BERTScore, section 3; Utpala et al. 2023, tables 4 and 5.
    """
    _check_pairs(references, candidates)
    if not len(references):
        return np.empty(0)
    parts = [
        _matched(
            _states(encoder, references[start : start + _PAIRS]),
            _states(encoder, candidates[start : start + _PAIRS]),
        )
        for start in range(0, len(references), _PAIRS)
    ]
    precision, recall = np.concatenate(parts, axis=1)
    product, total = 2 * precision * recall, precision + recall
    return np.divide(product, total, out=np.zeros_like(total), where=total > 0)


def _states(encoder: Encoder, texts: Sequence[str]) -> list[torch.Tensor]:
    """Unit states of every text's own pieces, special ones left out: each (pieces, width)."""
    longest = min(_LONGEST, encoder.longest)
    corpus = pieces.encode(encoder.tokenizer, texts, longest=longest)
    read = sequences(encoder, corpus, longest=longest)
    before, after = map(len, encoder.framed(1))
    result = [torch.empty(0, encoder.width)] * len(texts)
    for numbers in by_length(read.lengths, _BATCH):
        states = torch.nn.functional.normalize(encoder.states(read.rows(numbers)).float(), dim=2)
        for row, text in enumerate(numbers.tolist()):
            result[text] = states[row, before : int(read.lengths[text]) - after].cpu()
    return result


def _matched(references: list[torch.Tensor], candidates: list[torch.Tensor]) -> FloatArray:
    """Precision and recall of every pair: (2, pairs)."""
    scores = np.zeros((2, len(references)))
    for pair, (reference, candidate) in enumerate(zip(references, candidates, strict=True)):
        products = candidate @ reference.T
        if products.numel():
            scores[:, pair] = [products.amax(1).mean(), products.amax(0).mean()]
    return scores


def _check_pairs(references: Sequence[str], candidates: Sequence[str]) -> None:
    if len(references) != len(candidates):
        raise InvalidInput(f"candidates: got {len(candidates)} for {len(references)} references")
