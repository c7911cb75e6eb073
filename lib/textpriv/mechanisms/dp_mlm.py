"""DP-MLM: every word of a text is hidden in turn, and a masked language model fills the gap.

    limits = learn_range(encoder, public)                  # (least, greatest) logit
    mechanism = DPMLM(encoder, epsilon=100, limits=limits)
    mechanism.sanitize(["the rock is destined to be the new conan"])

The model reads the whole text, beside it the text with one word masked, and a word is drawn by its
clipped score. So each of the n draws of a text sees all n words, and changing one of them moves
all n laws: their losses add up to at most n eps, and not to the eps of one word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import check_texts
from textpriv.data.tokens import PRIVATE, Corpus, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim, check_epsilon, entropy
from textpriv.models.encoders import Encoder
from textpriv.models.generators import draw
from textpriv.models.rows import Pieces, by_length

BATCH = 64  # masked texts at once
_NONE = ("a", "an")  # a vocabulary for texts without a word


class DPMLM:
    """Words drawn by a masked language model that reads the text itself beside the masked one.

    With u_w the logit of word w for the gap, clipped between the limits l <= h,

        P(w | text, gap)   proportional to   exp(eps u_w / (2 (h - l))) .

    Parameters
    ----------
    encoder : with a trained masked-LM head, not trained on the private texts
    epsilon : of one draw, against any other text whatever
    limits : finite l < h, public or learned on public text

    Attributes
    ----------
    words : what may be drawn: all words of letters that are a single piece of the encoder

    Notes
    -----
    Texts are read as the token policy PRIVATE has it: lower case, without numbers and punctuation.
    A text that fills more than half of the model's rows is cut around each gap on both sides.
    Words are drawn as tokens are (`models.generators.draw`), the rarest as often as is claimed.

    References
    ----------
    Meisenbacher, Chevli, Vladika, Matthes 2024, DP-MLM: Differentially Private Text Rewriting
    Using Masked Language Models. The authors' code clips RoBERTa's logits to -3.2093 .. 16.3048 and
    lets stopwords, punctuation and case pass in clear; here the number of words alone does. It
    draws from all pieces of the model, here from whole words. By default it masks the text as it
    was, as here; in the paper's algorithm 2 later draws see the earlier replacements.
    """

    name = "dp-mlm"
    claim = Claim(
        definition=(
            "local differential privacy: P(M(x)=y) <= exp(n eps) * P(M(x')=y) for any two texts "
            "x, x' of n words each"
        ),
        protects="one text against any other with as many words",
        unit="none, per draw (logits are scaled by their limits)",
        in_clear="the number of words",
        unknown="as known words: the text enters through the logits alone",
        composition="n eps for a text of n words",
        bounded_range=True,
    )
    # Not the paper's: it says n eps. What one might take "epsilon per word" for.
    published: Claim | None = Claim(
        definition=(
            "as some users state it, as if draws of different words composed in parallel: "
            "P(M(x)=y) <= exp(eps) * P(M(x')=y) for two texts that differ in one word"
        ),
        protects="one word of a text against any other",
        unit=claim.unit,
        in_clear=claim.in_clear,
        unknown=claim.unknown,
        composition="eps per word",
    )

    def __init__(self, encoder: Encoder, *, epsilon: float, limits: tuple[float, float]) -> None:
        self.encoder, self.epsilon = encoder, check_epsilon(epsilon)
        ends = np.asarray(limits, dtype=np.float64)
        if ends.shape != (2,) or not (np.isfinite(ends).all() and ends[0] < ends[1]):
            raise InvalidInput(f"limits: got {limits!r}, expected two finite numbers, rising")
        self.low, self.high = map(float, ends)
        self._pieces, self.words = sayable(encoder)

    def log_law(self, text: str) -> FloatArray:
        """log P of every word at every gap of a text: (words of the text, `words`)."""
        corpus, vocabulary = _read([text])
        result = np.empty((len(corpus.ids), len(self.words)))
        for positions, law in self._laws(corpus, vocabulary):
            result[positions] = law
        return result

    def sanitize(self, texts: Sequence[str], rng: np.random.Generator | None = None) -> list[str]:
        """Every word of every text replaced: words in lower case, joined by single spaces.

        The model reads equal texts once. Each draw has a random stream of its own, spawned from
        `rng` in the order of the texts, so that it does not depend on how they are batched.
        """
        rng = entropy(rng)
        given = check_texts(texts)
        row = {text: place for place, text in enumerate(dict.fromkeys(given))}
        corpus, vocabulary = _read(list(row))
        start, length = corpus.offsets[:-1], np.diff(corpus.offsets)
        # Which place of which different text each word to be written comes from.
        which = np.array([row[text] for text in given], dtype=np.int64)
        ends = np.cumsum(length[which])
        place = np.arange(ends[-1] if len(ends) else 0)
        place += np.repeat(start[which] - ends + length[which], length[which])
        streams, drawn = rng.spawn(len(place)), np.empty(len(place), dtype=np.int64)
        written = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[written], np.arange(len(corpus.ids) + 1))
        for positions, law in self._laws(corpus, vocabulary):
            for position, row_of in zip(positions.tolist(), torch.from_numpy(law), strict=True):
                own = written[bounds[position] : bounds[position + 1]]
                many = row_of.expand(len(own), -1)
                drawn[own] = draw(many, [streams[each] for each in own.tolist()])
        return [
            " ".join(self.words[each] for each in drawn[end - count : end])
            for end, count in zip(ends.tolist(), length[which].tolist(), strict=True)
        ]

    def spent(self, text: str) -> float:
        """n eps, what is claimed of a text of n words."""
        return self.epsilon * len(_read([text])[0].ids)

    def loss(self, text: str, other: str) -> float:
        """max over outputs of |ln P(output | text) - ln P(output | other)|, exactly.

        Draws are independent given the text, so that the worst output is made of the worst words.
        InvalidInput where the texts have not as many words.
        """
        first, second = self.log_law(text), self.log_law(other)
        if len(first) != len(second):
            raise InvalidInput(
                f"other: got {len(second)} words, expected {len(first)}, those of the text: "
                "the number of words is in clear"
            )
        return float(max((first - second).max(1).sum(), (second - first).max(1).sum()))

    def _laws(
        self, corpus: Corpus, vocabulary: Sequence[str]
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        for positions, logits in _gaps(self.encoder, corpus, vocabulary, self._pieces):
            clipped = logits.nan_to_num(nan=self.low).clamp(self.low, self.high)
            heated = clipped * (self.epsilon / (2 * (self.high - self.low)))
            yield positions, torch.log_softmax(heated, dim=1).cpu().numpy()


def learn_range(encoder: Encoder, texts: Sequence[str]) -> tuple[float, float]:
    """The least and the greatest logit that the gaps of public texts get.

    The paper takes the mean and the mean plus four standard deviations of RoBERTa's.
    """
    pieces, _ = sayable(encoder)
    parts = [
        (float(logits.min()), float(logits.max()))
        for _, logits in _gaps(encoder, *_read(check_texts(texts)), pieces)
    ]
    if not parts:
        raise InvalidInput("texts: got no word, expected public texts to learn the limits from")
    least, greatest = zip(*parts, strict=True)
    return min(least), max(greatest)


def sayable(encoder: Encoder) -> tuple[IntArray, tuple[str, ...]]:
    """Whole words of letters that are a single piece, and their pieces."""
    if not encoder.can_fill:
        raise InvalidInput(
            f"encoder: got {encoder.name}, whose masked-LM head is untrained; expected the result "
            "of textpriv.models.masked_language_model"
        )
    names = encoder.tokenizer.convert_ids_to_tokens(list(range(len(encoder.tokenizer))))
    kept = [row for row, name in enumerate(names) if name.isascii() and name.isalpha()]
    return np.array(kept, dtype=np.int64), tuple(names[row] for row in kept)


def _read(texts: Sequence[str]) -> tuple[Corpus, tuple[str, ...]]:
    """Texts as ids of their own words, none of which is unknown."""
    spelled = Tokenizer(_NONE, PRIVATE).words_of(list(texts))
    vocabulary = tuple(sorted({*_NONE, *(word for text in spelled for word in text.split())}))
    return Tokenizer(vocabulary, PRIVATE).encode(spelled), vocabulary


@torch.inference_mode()
def _gaps(
    encoder: Encoder, corpus: Corpus, vocabulary: Sequence[str], choices: IntArray
) -> Iterator[tuple[IntArray, torch.Tensor]]:
    """Positions and float64 logits of the choices: [CLS] text [SEP] text with a gap [SEP]."""
    pieces = Pieces(encoder.tokenizer, vocabulary, corpus)
    every, wanted = np.arange(len(corpus.ids)), torch.from_numpy(choices).to(encoder.device)
    # Both copies hold the word, the second as one piece; three special ones besides.
    room = (encoder.longest - 4 - pieces.tokens(every)[1]) // 2
    before, after = pieces.around(every, window=None, room=room)
    for part in by_length(before[1] + after[1], BATCH):
        count = len(part)
        opening, closing, gap = (pieces.special(s, count) for s in ("first", "last", "mask"))
        left, right = ((start[part], length[part]) for start, length in (before, after))
        whole = [opening, left, pieces.tokens(every[part]), right, closing]
        rows = pieces.rows([*whole, left, gap, right, closing])
        at = (rows.segments == len(whole) + 1).argmax(1)
        states = encoder.states_at(rows, np.arange(count), at, types=rows.segments >= len(whole))
        yield every[part], encoder.logits(states)[:, wanted].double()
