"""Text as ids of a model's own tokenizer, as a corpus that maps, stencils and attacks take.

corpus = encode(encoder.tokenizer, texts, longest=128)
fixed = special_ids(encoder.tokenizer)         # never replaced, never put out
decode(encoder.tokenizer, corpus)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.models import FastTokenizer
from textpriv.tokens import Corpus

IntArray = NDArray[np.int64]

_UNUSED = re.compile(r"\[unused\d+\]|<\|reserved_special_token_\d+\|>|<unk>|<pad>")


def vocabulary(tokenizer: FastTokenizer) -> tuple[str, ...]:
    """The pieces in the order of their ids; an id without a piece gives the empty string."""
    names = [""] * (max(tokenizer.get_vocab().values()) + 1)
    for piece, number in tokenizer.get_vocab().items():
        names[number] = piece
    return tuple(names)


def special_ids(tokenizer: FastTokenizer) -> IntArray:
    """Ids that are no text: special tokens and rows that no text uses, ascending."""
    special = set(tokenizer.all_special_ids)
    for number, piece in enumerate(vocabulary(tokenizer)):
        if not piece or _UNUSED.fullmatch(piece):
            special.add(number)
    return np.array(sorted(special), dtype=np.int64)


def encode(tokenizer: FastTokenizer, texts: Sequence[str], *, longest: int | None = None) -> Corpus:
    """Pieces of every text, no special token added; the first `longest` of each.

    Parameters
    ----------
    longest : >= 1; None: all
    """
    if isinstance(texts, str):
        raise InvalidInput("texts: got one string, expected a list of strings; use [text]")
    if longest is not None:
        check_count(longest, what="longest")
    rows: list[list[int]] = []
    if len(texts):
        encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        rows = [row[:longest] for row in encoded]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Corpus(ids=np.array([i for row in rows for i in row], dtype=np.int64), offsets=offsets)


def decode(tokenizer: FastTokenizer, corpus: Corpus) -> list[str]:
    """The texts that the pieces spell, special tokens left out."""
    rows = (corpus[document].tolist() for document in range(len(corpus)))
    return [str(tokenizer.decode(row, skip_special_tokens=True)) for row in rows]
