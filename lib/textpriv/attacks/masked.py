"""Mask token inference: hide the sanitized word, and let a masked LM fill in the gap.

    attack = MaskInference(mechanism, words, encoder)            # the published attack
    attack = MaskInference(mechanism, words, encoder, knows="likelihood")   # and the channel too

As published the attack sees the sanitized context and neither the sanitized word nor how the
mechanism drew it: it is the attacker who ignores the channel. `knows` gives it the channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from textpriv.attacks.base import NONE, Attack, Guesses, Observed, check_channel, is_input, padded
from textpriv.channel import Channel
from textpriv.checks import IntArray, StrOptions, checked
from textpriv.errors import InvalidInput
from textpriv.models import Encoder, Pieces, by_length, pieces_of
from textpriv.models.rows import Spans

Knowledge = Literal["inputs", "support", "likelihood"]
NAMES = {
    "inputs": "mask-inference",
    "support": "mask-inference-support",
    "likelihood": "mask-bayes",
}
MASK = 2  # the segment of the hidden word; see `_scores`


class MaskInference(Attack):
    """The masked LM's ranking of the words that the channel replaces.

    Parameters
    ----------
    channel : which words are replaced, and what else the attack `knows`
    words : the channel's vocabulary
    encoder : a masked LM whose head was trained; see `textpriv.models.masked_language_model`
    knows : "inputs": which words are replaced, and nothing else of the channel; the published
        attack (`name` "mask-inference"). "support": guesses only inputs with P(y|x) > 0 ("mask-
        inference-support"). "likelihood": adds log P(y|x) to the scores, so that they are a
        posterior whose prior is the masked LM's ("mask-bayes"). The last two are not published;
        they ask what the published attack lacks.

    Notes
    -----
    The hidden word is one [MASK], however many pieces the sanitized word has, which the masked LM
    fills with one; words of more than one WordPiece are never guessed and count as failures.

    References
    ----------
    Yue et al. 2021, section 5.3 ("mask token inference attack").
    """

    name = "mask-inference"

    @checked(knows=StrOptions(set(NAMES)))
    def __init__(
        self,
        channel: Channel,
        words: Sequence[str],
        encoder: Encoder,
        *,
        knows: Knowledge = "inputs",
    ) -> None:
        check_channel(channel)
        if not encoder.can_fill:
            raise InvalidInput(
                f"encoder: got {encoder.name}, whose masked-LM head is untrained; expected the "
                "result of textpriv.models.masked_language_model"
            )
        self.channel, self.words, self.encoder = channel, tuple(words), encoder
        self.vocabulary, self.knows, self.name = channel.vocabulary, knows, NAMES[knows]
        piece = single_pieces(encoder, self.words)
        self._ids = np.flatnonzero(is_input(channel) & (piece != NONE))
        if not len(self._ids):
            raise InvalidInput("words: none is replaced and a single WordPiece; nothing to guess")
        self._pieces = torch.from_numpy(piece[self._ids]).to(encoder.device)

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        pieces = Pieces(self.encoder.tokenizer, self.words, observed.corpus)
        words = np.full((len(positions), min(top, len(self._ids))), NONE, dtype=np.int64)
        scores = np.full(words.shape, -np.inf)
        before, after = self._around(pieces, positions)
        for batch in by_length(before[1] + after[1], 64):
            best, column = torch.topk(
                self._scores(pieces, positions[batch], observed), words.shape[1], dim=1
            )
            scores[batch] = best.cpu().numpy()
            words[batch] = np.where(scores[batch] > -np.inf, self._ids[column.cpu().numpy()], NONE)
        return padded(words, scores, top)

    @torch.inference_mode()
    def _scores(self, pieces: Pieces, positions: IntArray, observed: Observed) -> torch.Tensor:
        """Scores of the words that can be guessed: (positions, words)."""
        count = len(positions)
        before, after = self._around(pieces, positions)
        first, mask, last = (pieces.special(which, count) for which in ("first", "mask", "last"))
        rows = pieces.rows([first, before, mask, after, last])
        states = self.encoder.states_at(rows, np.arange(count), rows.first(MASK))
        scores = self.encoder.logits(states)[:, self._pieces].double()
        if self.knows != "inputs":
            columns = self.channel.log_columns(observed.corpus.ids[positions])[:, self._ids]
            if self.knows == "support":
                columns = np.where(np.isneginf(columns), -np.inf, 0.0)
            scores += torch.from_numpy(columns).to(scores.device)
        return scores

    def _around(self, pieces: Pieces, positions: IntArray) -> tuple[Spans, Spans]:
        room = np.full(len(positions), self.encoder.longest - 3)
        return pieces.around(positions, window=None, room=room)


def single_pieces(encoder: Encoder, words: Sequence[str]) -> IntArray:
    """The WordPiece of every word that is a single known one, NONE for the others: (words,)."""
    pieces, bounds = pieces_of(encoder.tokenizer, tuple(words))
    first = pieces[bounds[:-1]]
    is_single = (np.diff(bounds) == 1) & (first != encoder.tokenizer.unk_token_id)
    return np.where(is_single, first, NONE)
