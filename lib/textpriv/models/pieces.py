"""Text as ids of a model's own tokenizer, as a corpus that maps, stencils and attacks take.

corpus = encode(encoder.tokenizer, texts, longest=128)
fixed = special_ids(encoder.tokenizer)         # never replaced, never put out
decode(encoder.tokenizer, corpus)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from textpriv.channel import IntArray
from textpriv.checks import COUNT, check_texts, checked
from textpriv.data.tokens import Corpus
from textpriv.models.rows import SPACE, FastTokenizer, is_wordpiece

_UNUSED = re.compile(
    r"\[unused\d+\]|<\|reserved_special_token_\d+\|>|<unk>|<pad>|<extra_id_\d+>|madeupword\d{4}"
)

_TEXTS = 4096  # read at once: what a tokenizer says of a text takes a hundred times its room
_AFTER_SPACE = (SPACE, "▁")  # how pieces of bytes and those of SentencePiece write a space


def vocabulary(tokenizer: FastTokenizer) -> tuple[str, ...]:
    """The pieces in the order of their ids; an id without a piece gives the empty string."""
    names = [""] * (max(tokenizer.get_vocab().values()) + 1)
    for piece, number in tokenizer.get_vocab().items():
        names[number] = piece
    return tuple(names)


def as_wordpieces(tokenizer: FastTokenizer) -> tuple[str, ...]:
    """The vocabulary as WordPiece writes it: "the" opens a word, "##ing" goes on with one.

    Other tokenizers mark what follows a space ("Ġthe", "▁the"). A letter or digit without the mark
    goes on with a word, also at the beginning of a text; punctuation stands for itself.
    """
    names = vocabulary(tokenizer)
    if is_wordpiece(tokenizer):
        return names
    return tuple(_as_wordpiece(tokenizer, name) for name in names)


def _as_wordpiece(tokenizer: FastTokenizer, name: str) -> str:
    text = tokenizer.convert_tokens_to_string([name]).strip()
    if not text or name in tokenizer.all_special_tokens:
        return name
    return text if name.startswith(_AFTER_SPACE) or not text[0].isalnum() else f"##{text}"


def special_ids(tokenizer: FastTokenizer) -> IntArray:
    """Ids that are no text: special tokens and rows that no text uses, ascending."""
    special = set(tokenizer.all_special_ids)
    for number, piece in enumerate(vocabulary(tokenizer)):
        if not piece or _UNUSED.fullmatch(piece):
            special.add(number)
    return np.array(sorted(special), dtype=np.int64)


@checked(longest=(None, COUNT))
def encode(tokenizer: FastTokenizer, texts: Sequence[str], *, longest: int | None = None) -> Corpus:
    """Pieces of every text, no special token added; all, or the first `longest` of each."""
    texts = check_texts(texts)
    plain: dict[str, bool] = {
        "add_special_tokens": False, "verbose": False,
        "return_attention_mask": False, "return_token_type_ids": False,
    }  # fmt: skip
    rows: list[IntArray] = []
    for start in range(0, len(texts), _TEXTS):
        encoded = tokenizer(texts[start : start + _TEXTS], **plain)["input_ids"]
        rows += [np.array(row[:longest], dtype=np.int64) for row in encoded]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Corpus(ids=np.concatenate([*rows, np.empty(0, np.int64)]), offsets=offsets)


def decode(tokenizer: FastTokenizer, corpus: Corpus) -> list[str]:
    """The texts that the pieces spell, special tokens left out."""
    rows = (corpus[document].tolist() for document in range(len(corpus)))
    return [str(tokenizer.decode(row, skip_special_tokens=True)) for row in rows]
