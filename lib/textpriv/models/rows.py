"""Rows of WordPieces: texts with a word replaced, hidden or set beside another, in batches.

    pieces = Pieces(encoder.tokenizer, words, corpus)
    before, after = pieces.around(targets, window=None, room=room)
    first, mask, last = (pieces.special(which, len(targets)) for which in ("first", "mask", "last"))
    rows = pieces.rows([first, before, mask, after, last])     # every target hidden in its text

The pieces of all words and texts lie in one pool, and a row is made of a few stretches of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from textpriv.channel import IntArray
from textpriv.data.tokens import KEPT, Corpus, ranges
from textpriv.errors import InvalidInput
from textpriv.later import transformers

FastTokenizer: TypeAlias = "transformers.PreTrainedTokenizerFast"

SPACE = "Ġ"  # how pieces of bytes write a space


Spans = tuple[IntArray, IntArray]  # starts and lengths in a pool of pieces, one pair per row


@dataclass(frozen=True, eq=False)
class Rows:
    """Sequences of WordPieces, padded to one length: ids, (rows, length).

    `segments` (rows, length) is which of a row's segments a piece belongs to, -1 beyond its end.
    """

    ids: IntArray
    segments: IntArray

    @classmethod
    def from_pool(cls, pool: IntArray, segments: Sequence[Spans], pad: int) -> Rows:
        """Stretches of a pool of pieces, written one after the other in every row."""
        starts = np.stack([span[0] for span in segments], axis=1)
        lengths = np.stack([span[1] for span in segments], axis=1)
        ends = lengths.cumsum(1)
        columns = np.arange(int(ends[:, -1].max(initial=0)))
        segment = (columns[None, :, None] >= ends[:, None, :]).sum(2)
        is_end = segment == len(segments)
        inside = np.where(is_end, 0, segment)
        begin = np.take_along_axis(starts - (ends - lengths), inside, axis=1)
        ids = np.where(is_end, pad, pool[np.where(is_end, 0, begin + columns)])
        return cls(ids, np.where(is_end, -1, segment))

    def first(self, segment: int) -> IntArray:
        """Column of the first piece of a segment, in every row."""
        matches = self.segments == segment
        if not matches.any(1).all():
            raise InvalidInput(f"segment: got {segment}, which some row has no piece of")
        return matches.argmax(1)


class Pieces:
    """WordPieces of all words of a vocabulary and all tokens of a corpus, made once.

    A token keeps its pieces whatever stands beside it: a sentence with one word replaced differs
    in the pieces of that word alone.

    Parameters
    ----------
    tokenizer : WordPiece, else InvalidInput: others write a word after a space otherwise
    words : the vocabulary of the corpus' ids
    corpus : a sanitized text: no token is UNKNOWN
    """

    def __init__(self, tokenizer: FastTokenizer, words: Sequence[str], corpus: Corpus) -> None:
        ids = corpus.ids
        if len(ids) and not (ids.max() < len(words) and (ids[ids != KEPT] >= 0).all()):
            raise InvalidInput(
                f"corpus: got ids {ids.min()}..{ids.max()}, expected 0..{len(words) - 1} or KEPT; "
                "unknown words have no text"
            )
        kept = tuple(sorted(set(corpus.kept.values())))
        place = {word: len(words) + row for row, word in enumerate(kept)}
        entry = ids.copy()
        for position in np.flatnonzero(ids == KEPT).tolist():
            entry[position] = place[corpus.kept[position]]
        vocabulary, ends = pieces_of(tokenizer, tuple(words))
        others, other_ends = pieces_of(tokenizer, kept)
        flat = np.concatenate([vocabulary, others])
        bounds = np.concatenate([ends, len(vocabulary) + other_ends[1:]])
        special = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id]
        running = flat[ranges(bounds[entry], np.diff(bounds)[entry])]
        self.pool = np.concatenate([special, flat, running]).astype(np.int64)
        self.pad = int(tokenizer.pad_token_id)
        self._words = len(special) + bounds[: len(words) + 1]
        lengths = np.diff(bounds)[entry]
        self._tokens = len(special) + len(flat) + np.concatenate([[0], np.cumsum(lengths)])
        self._offsets, self._document = corpus.offsets, corpus.document

    def special(self, which: Literal["first", "last", "mask"], rows: int) -> Spans:
        """The piece that opens, that closes a sequence, or that hides a word, in every row."""
        return np.full(rows, ["first", "last", "mask"].index(which)), np.ones(rows, dtype=np.int64)

    def words(self, ids: IntArray) -> Spans:
        """Pieces of words of the vocabulary."""
        return self._words[ids], self._words[ids + 1] - self._words[ids]

    def tokens(self, positions: IntArray) -> Spans:
        """Pieces of tokens of the corpus."""
        return self._tokens[positions], self._tokens[positions + 1] - self._tokens[positions]

    def around(
        self, positions: IntArray, *, window: int | None, room: IntArray
    ) -> tuple[Spans, Spans]:
        """What stands before and after a token in its document.

        At most `window` tokens on either side and `room` pieces on both together, a number for
        each position; what lies farthest from the token goes first.
        """
        if window is not None and window < 0:
            raise InvalidInput(f"window: got {window}, expected at least 0 or None")
        document = self._document[positions]
        first, last = self._offsets[document], self._offsets[document + 1]
        if window is not None:
            first = np.maximum(first, positions - window)
            last = np.minimum(last, positions + 1 + window)
        before = self._tokens[positions] - self._tokens[first]
        after = self._tokens[last] - self._tokens[positions + 1]
        before = np.minimum(before, np.maximum(room - after, room // 2))
        after = np.minimum(after, room - before)
        return (self._tokens[positions] - before, before), (self._tokens[positions + 1], after)

    def passages(self, longest: int) -> IntArray:
        """Bounds, in tokens, of stretches of documents that fit in rows of `longest` pieces.

        Tokens bounds[i] .. bounds[i + 1] - 1 form passage i: (passages + 1,).
        """
        lengths = np.diff(self._tokens)
        room = longest - 1 - int(lengths.max(initial=1))  # every token of a passage starts in it
        if room < 1:
            raise InvalidInput(f"longest: got {longest}, which some token does not fit in")
        inside = self._tokens[:-1] - self._tokens[self._offsets[self._document]]
        is_change = (np.diff(self._document) != 0) | (np.diff(inside // room) != 0)
        ends = [np.flatnonzero(is_change) + 1, np.array([len(lengths)])]
        return np.concatenate([np.zeros(1, dtype=np.int64), *(ends if len(lengths) else [])])

    def stretch(self, starts: IntArray, ends: IntArray) -> Spans:
        """Pieces of the tokens start .. end - 1."""
        return self._tokens[starts], self._tokens[ends] - self._tokens[starts]

    def rows(self, segments: Sequence[Spans]) -> Rows:
        """Segments written one after the other, in every row."""
        return Rows.from_pool(self.pool, segments, self.pad)


@functools.lru_cache(maxsize=4)  # a vocabulary takes most of a second
def pieces_of(tokenizer: FastTokenizer, words: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """WordPieces of words, [UNK] for one that has none: all, and the bounds (words + 1,) of each.

    InvalidInput for a tokenizer that is not WordPiece.
    """
    if not is_wordpiece(tokenizer):
        kind = type(tokenizer.backend_tokenizer.model).__name__
        raise InvalidInput(
            f"tokenizer: got {kind}, expected WordPiece, which writes a word alike wherever it "
            "stands; use a BERT"
        )
    if not words:
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    encoded = tokenizer(list(words), add_special_tokens=False)["input_ids"]
    pieces = [each or [tokenizer.unk_token_id] for each in encoded]
    flat = np.array([piece for each in pieces for piece in each], dtype=np.int64)
    bounds = np.cumsum([0, *(len(each) for each in pieces)])
    flat.flags.writeable = bounds.flags.writeable = False
    return flat, bounds


def by_length(lengths: IntArray, batch: int) -> Iterator[IntArray]:
    """Batches of rows of similar length, so that little is padding; the longest first."""
    order = np.argsort(-lengths, kind="stable")
    return (order[start : start + batch] for start in range(0, len(order), batch))


def is_wordpiece(tokenizer: FastTokenizer) -> bool:
    """Whether the tokenizer is that of a BERT, which marks what goes on with a word ("##ing")."""
    return type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece"
