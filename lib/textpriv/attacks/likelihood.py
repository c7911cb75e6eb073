"""ln P(output | text) of every output and candidate: what linkage knows who knows the mechanism.

    law = noise_law(laplace, embed(encoder, texts), released)        # (outputs, texts)
    linkage.linked(linkage.by_likelihood(law))

Where every candidate is as likely beforehand, nobody names the right one more often than who names
the one under which the output is likeliest (Bayes' rule). Row i belongs to the i-th output, column
j to the j-th text; -inf stands for what is impossible, or was left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import logsumexp

from textpriv.channel import Channel, FloatArray, IntArray
from textpriv.checks import COUNT, checked
from textpriv.data.tokens import KEPT, Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms.dp_fusion import DPFusion
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace
from textpriv.models.generators import Generator, generate, generate_both
from textpriv.models.rows import by_length
from textpriv.models.vectors import SentenceVectors

# --- Word by word -------------------------------------------------------------------------------


def word_law(channel: Channel, fallback: IntArray, texts: Corpus, outputs: Corpus) -> FloatArray:
    """Of a mechanism that replaces each word by itself; a text of another length is impossible.

    Parameters
    ----------
    channel : of the mechanism, or an estimate
    fallback : words one of which, drawn uniformly, is replaced instead of an unknown word
        (`Mechanism.fallback`)
    texts, outputs : over the channel's vocabulary, without kept tokens; an output has no unknown
        word
    """
    if (texts.ids == KEPT).any() or (outputs.ids < 0).any():
        raise InvalidInput(
            "texts, outputs: got kept tokens, or an unknown word in outputs; expected texts under "
            "the policy PRIVATE, and what a mechanism made of them"
        )
    result = np.full((len(outputs), len(texts)), -np.inf)
    read, written = np.diff(texts.offsets), np.diff(outputs.offsets)
    for length in np.intersect1d(read, written).tolist():
        rows, columns = np.flatnonzero(written == length), np.flatnonzero(read == length)
        place = np.arange(length)
        seen = outputs.ids[outputs.offsets[rows][:, None, None] + place]
        given = texts.ids[texts.offsets[columns][None, :, None] + place]
        x, y = (each.ravel() for each in np.broadcast_arrays(given, seen))
        law = _word_log_prob(channel, fallback, x, y).reshape(len(rows), len(columns), length)
        result[np.ix_(rows, columns)] = law.sum(2)
    return result


def _word_log_prob(channel: Channel, fallback: IntArray, x: IntArray, y: IntArray) -> FloatArray:
    """ln P(y | x), aligned; an unknown word is a uniform mixture of the fallback."""
    unknown = x < 0
    result = np.empty(len(x))
    result[~unknown] = channel.log_prob(x[~unknown], y[~unknown])
    words, inverse = np.unique(y[unknown], return_inverse=True)
    mixed = np.empty(len(words))
    for start in range(0, len(words), channel.row_chunk):
        part = slice(start, start + channel.row_chunk)
        mixed[part] = logsumexp(channel.log_columns(words[part])[:, fallback], axis=1)
    result[unknown] = mixed[inverse] - np.log(len(fallback))
    return result


def gap_law(mechanism: DPMLM, texts: Sequence[str], outputs: Sequence[str]) -> FloatArray:
    """Of DP-MLM, exactly; a text of another number of words is impossible."""
    row = {word: number for number, word in enumerate(mechanism.words)}
    written = [np.array([row[word] for word in each.split()], dtype=int) for each in outputs]
    result = np.full((len(outputs), len(texts)), -np.inf)
    for column, text in enumerate(texts):
        law = mechanism.log_law(text)
        for number, words in enumerate(written):
            if len(words) == len(law):
                result[number, column] = law[np.arange(len(words)), words].sum()
    return result


# --- Sentence by sentence -----------------------------------------------------------------------


def noise_law(
    mechanism: TruncatedLaplace, texts: SentenceVectors, outputs: FloatArray
) -> FloatArray:
    """Of truncated Laplace, exactly: a density, from released vectors (outputs, width)."""
    columns = [
        -(np.abs(outputs - mean) / scale + np.log(2 * scale)).sum(1)
        for mean, scale in zip(mechanism.clipped_mean(texts), mechanism.scale(texts), strict=True)
    ]
    return np.stack(columns, axis=1)


def candidate_law(
    mechanism: DeepCandidate, texts: SentenceVectors, outputs: IntArray
) -> FloatArray:
    """Of DeepCandidate, exactly, from numbers of public documents (outputs,)."""
    columns = [mechanism.log_probability(texts[row])[outputs] for row in range(len(texts))]
    return np.stack(columns, axis=1)


# --- Token by token -----------------------------------------------------------------------------


@checked(batch=COUNT)
def prompt_law(
    mechanism: DPPrompt,
    texts: Sequence[str],
    outputs: Sequence[str],
    candidates: IntArray,
    *,
    batch: int = 32,
) -> FloatArray:
    """Of DP-Prompt, under some candidates of each output.

    Exact but for two things: an output is read anew, so that its tokens may be others than were
    drawn, and in bfloat16 scores differ in their last digits with the batch.

    Parameters
    ----------
    candidates : (outputs, tried) numbers of texts, those of one output all different
    batch : prompts that are run together
    """
    prompts = mechanism.prompts(texts)
    tried, followed = _followed(mechanism.generator, outputs, candidates, mechanism.tokens)

    def choose(scores: torch.Tensor, rows: IntArray) -> IntArray:
        return followed(mechanism.log_weights(scores).double().log_softmax(1), rows)

    asked = [prompts[text] for text in tried]
    for _ in generate(mechanism.generator, asked, choose, tokens=mechanism.tokens, batch=batch):
        pass
    return followed.law(candidates, len(texts))


@checked(batch=COUNT)
def fusion_law(
    mechanism: DPFusion,
    texts: Sequence[str],
    redacted: Sequence[str],
    outputs: Sequence[str],
    candidates: IntArray,
    *,
    batch: int = 32,
) -> FloatArray:
    """Of DP-Fusion, under some candidates of each output, with their redactions; see `prompt_law`.

    `batch` counts prompts, two for a candidate, as in `DPFusion.sanitize`.
    """
    pairs = mechanism._pairs(texts, redacted)
    tried, followed = _followed(mechanism.generator, outputs, candidates, mechanism.tokens)
    lengths = np.array([len(pairs[text][1]) for text in tried], dtype=np.int64)
    for part in by_length(lengths, max(1, batch // 2)):

        def choose(
            private: torch.Tensor, shown: torch.Tensor, rows: IntArray, part: IntArray = part
        ) -> IntArray:
            return followed(mechanism.log_law(private, shown), part[rows])

        known, public = ([pairs[tried[row]][side] for row in part.tolist()] for side in (0, 1))
        generate_both(mechanism.generator, known, public, choose, tokens=mechanism.tokens)
    return followed.law(candidates, len(texts))


class _Followed:
    """Chooses the tokens of given outputs one after the other, and adds up their ln P."""

    def __init__(self, columns: Sequence[IntArray]) -> None:
        self._columns = columns
        self._step, self._total = np.zeros(len(columns), dtype=int), np.zeros(len(columns))

    def __call__(self, log_law: torch.Tensor, rows: IntArray) -> IntArray:
        chosen = np.array([self._columns[row][self._step[row]] for row in rows.tolist()])
        self._total[rows] += log_law[np.arange(len(rows)), chosen].cpu().numpy()
        self._step[rows] += 1
        return chosen

    def law(self, candidates: IntArray, texts: int) -> FloatArray:
        """What was added up, at its place: (outputs, texts)."""
        result = np.full((len(candidates), texts), -np.inf)
        np.put_along_axis(result, candidates, self._total.reshape(candidates.shape), axis=1)
        return result


def _followed(
    generator: Generator, outputs: Sequence[str], candidates: IntArray, tokens: int
) -> tuple[list[int], _Followed]:
    """The text of each row that is tried, and the columns of its output, the end included."""
    if np.ndim(candidates) != 2 or len(candidates) != len(outputs):
        raise InvalidInput(
            f"candidates: got shape {np.shape(candidates)}, expected ({len(outputs)}, tried): "
            "numbers of texts for each output"
        )
    said = [[*each, generator.end][:tokens] for each in generator.encode(outputs)]
    columns = [np.searchsorted(generator.sayable, each) for each in said]
    tried = candidates.shape[1]
    return candidates.ravel().tolist(), _Followed([each for each in columns for _ in range(tried)])
