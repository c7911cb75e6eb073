"""ln P(output | text) of every output and candidate: what linkage knows who knows the mechanism.

    law = noise_law(laplace, embed(encoder, texts), released)        # (outputs, texts)
    linkage.linked(linkage.by_likelihood(law))

Of one output by itself, where every candidate is as likely beforehand, nobody names the right one
more often than who names the one under which the output is likeliest (Bayes' rule). Row i belongs
to the i-th output, column j to the j-th text; -inf stands for what is impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp
from tqdm.auto import tqdm

from textpriv.channel import Channel, FloatArray, IntArray
from textpriv.data.tokens import KEPT, Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms.dp_fusion import DPFusion
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace
from textpriv.models import Encoder
from textpriv.models.encoders import autocast
from textpriv.models.generators import ROOT, Generator, Prefixes
from textpriv.models.vectors import SentenceVectors, embed

Mechanism = DPPrompt | DPMLM | DPFusion | TruncatedLaplace | DeepCandidate

_ROWS = 64  # laws of the next token that are held at once
_OUTPUTS = 64  # that are read in one tree

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
    blocks: list[tuple[tuple[IntArray, ...], IntArray, IntArray]] = []
    for length in np.intersect1d(read, written).tolist():
        rows, columns = np.flatnonzero(written == length), np.flatnonzero(read == length)
        place = np.arange(length)
        seen = outputs.ids[outputs.offsets[rows][:, None, None] + place]
        given = texts.ids[texts.offsets[columns][None, :, None] + place]
        x, y = np.broadcast_arrays(given, seen)
        blocks.append((np.ix_(rows, columns), x, y))
    if not blocks:
        return result
    # All at once: a channel works out the row of a word, and has it for all texts.
    x = np.concatenate([given.ravel() for _, given, _ in blocks])
    y = np.concatenate([seen.ravel() for _, _, seen in blocks])
    law, start = _word_log_prob(channel, fallback, x, y), 0
    for at, given, _ in blocks:
        result[at] = law[start : start + given.size].reshape(given.shape).sum(2)
        start += given.size
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


# --- Two texts ----------------------------------------------------------------------------------


def log_ratio(
    mechanism: Mechanism, pair: Sequence[str], redaction: str, outputs: Any, *, encoder: Encoder
) -> FloatArray:
    """ln P(output | one text) - ln P(output | the other): (outputs, 1).

    No event separates two texts better than one that this score decides (Neyman and Pearson), where
    it is exact; of DP-Prompt and DP-Fusion see `prompt_law`.

    Parameters
    ----------
    mechanism : DPPrompt, DPMLM, DPFusion, TruncatedLaplace or DeepCandidate
    pair : two texts; of DP-Fusion both have the `redaction`
    outputs : texts, released vectors, or numbers of public documents, as the mechanism gives them
    encoder : of those that read vectors

    Raises
    ------
    InvalidInput : an output that a text cannot give: no finite epsilon allows it, and no classifier
        of scores has to tell the texts apart
    """
    if isinstance(mechanism, DPPrompt):
        law = prompt_law(mechanism, pair, outputs)
    elif isinstance(mechanism, DPMLM):
        law = gap_law(mechanism, pair, outputs)
    elif isinstance(mechanism, DPFusion):
        law = fusion_law(mechanism, pair, [redaction] * 2, outputs)
    elif isinstance(mechanism, TruncatedLaplace):
        law = noise_law(mechanism, embed(encoder, pair), outputs)
    else:
        law = candidate_law(mechanism, embed(encoder, pair), outputs)
    impossible = int((~np.isfinite(law)).any(1).sum())
    if impossible:
        raise InvalidInput(
            f"outputs: got {impossible} of {len(law)} that one of the texts cannot give, expected "
            "all to be possible under both, so that their log-ratios are finite; give a pair of as "
            "many words, which DP-MLM shows, and a mechanism without top-k"
        )
    return law[:, :1] - law[:, 1:]


def worst_log_ratio(mechanism: Mechanism, pair: Sequence[str], encoder: Encoder) -> float:
    """The largest |log-ratio| of any output for two texts; NaN where it is not known.

    Known of DP-MLM, DeepCandidate and, for as many sentences in both, truncated Laplace.
    """
    if isinstance(mechanism, DPMLM):
        return mechanism.loss(*pair)
    if isinstance(mechanism, DeepCandidate):
        read = embed(encoder, pair)
        one, other = (mechanism.log_probability(read[row]) for row in (0, 1))
        return float(np.abs(one - other).max())
    if isinstance(mechanism, TruncatedLaplace):
        read = embed(encoder, pair)
        (mean, other), (scale, _) = mechanism.clipped_mean(read), mechanism.scale(read)
        return float((np.abs(mean - other) / scale).sum()) if np.ptp(read.sizes) == 0 else np.nan
    return np.nan


# --- Token by token -----------------------------------------------------------------------------


def prompt_law(mechanism: DPPrompt, texts: Sequence[str], outputs: Sequence[str]) -> FloatArray:
    """Of DP-Prompt by a causal model, for an output as its tokenizer writes it.

    Other tokens may spell the same output: they are not added up, and where others were drawn, more
    of them perhaps, what is computed is not what was drawn. In bfloat16 scores differ in their last
    digits from those of the draws.
    """

    def law(scores: torch.Tensor) -> torch.Tensor:
        return mechanism.log_weights(scores).double().log_softmax(1)

    asked = [[prompt] for prompt in mechanism.prompts(texts)]
    return _along(mechanism.generator, asked, outputs, mechanism.tokens, law)


def fusion_law(
    mechanism: DPFusion, texts: Sequence[str], redacted: Sequence[str], outputs: Sequence[str]
) -> FloatArray:
    """Of DP-Fusion, each text being redacted as it would be; see `prompt_law`."""
    asked = mechanism._pairs(texts, redacted)
    return _along(mechanism.generator, asked, outputs, mechanism.tokens, mechanism.log_law)


@torch.inference_mode()
def _along(
    generator: Generator,
    asked: Sequence[Sequence[Sequence[int]]],
    outputs: Sequence[str],
    tokens: int,
    law: Callable[..., torch.Tensor],
) -> FloatArray:
    """ln P of every output, its end included, after the prompts of each text: (outputs, texts).

    So many outputs at once stand in one tree, which is read once after each prompt; `law` gives
    ln P of the next token, (rows, sayable), from the scores after each prompt of a text.
    """
    if len(outputs) > _OUTPUTS:  # the tree's mask grows with its square
        parts = (outputs[start : start + _OUTPUTS] for start in range(0, len(outputs), _OUTPUTS))
        return np.concatenate([_along(generator, asked, part, tokens, law) for part in parts])
    said = [[*each, generator.end][:tokens] for each in generator.encode(outputs)]
    nodes: dict[tuple[int, ...], int] = {(): ROOT}
    paths = [
        [nodes.setdefault(tuple(row[: end + 1]), len(nodes)) for end in range(len(row))]
        for row in said
    ]
    grown = list(nodes)[1:]
    parents, drawn = np.array([nodes[key[:-1]] for key in grown]), np.array([k[-1] for k in grown])
    head, sayable = generator.model.get_output_embeddings(), torch.from_numpy(generator.sayable)
    columns = np.searchsorted(generator.sayable, drawn)
    result, gained = np.empty((len(said), len(asked))), np.zeros(len(nodes))
    for text, prompts in enumerate(tqdm(asked, unit="text", mininterval=5, disable=len(asked) < 3)):
        trees = (Prefixes(generator, prompt) for prompt in prompts)
        states = [torch.cat([tree.root, tree.grow(parents, drawn)]) for tree in trees]
        for start in range(0, len(grown), _ROWS):
            part = slice(start, start + _ROWS)
            with autocast(generator.device):
                scores = [head(each[parents[part]]).float()[:, sayable] for each in states]
            rows = law(*scores)
            gained[1:][part] = rows[np.arange(len(rows)), columns[part]].cpu().numpy()
        result[:, text] = [gained[path].sum() for path in paths]
    return result
