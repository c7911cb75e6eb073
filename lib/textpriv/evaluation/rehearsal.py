"""What an attacker learns who runs a known mechanism on public text before the attack.

    rest, aside = parted(tokenizer.encode(public_texts))     # read by the model, and by no model
    language_weight(mechanism, channel, NGrams.train(...), aside)

Draws are those of one stream: what is attacked is judged elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv.attacks.base import is_input, observe
from textpriv.attacks.ngrams import NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, decode_each
from textpriv.channel import Channel
from textpriv.data.tokens import Corpus
from textpriv.mechanisms import Mechanism

LANGUAGE_WEIGHT = 0.75  # of the language model: what most rehearsals of notebook 05 choose
WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # to choose from; 0 reads each word by itself
ASIDE = 4000  # tokens of public text to rehearse with: a quarter of a minute


def parted(read: Corpus) -> tuple[Corpus, Corpus]:
    """Public text for a model, and what is put aside: a tenth of the documents, ASIDE tokens.

    Nothing is put aside of less than two documents.
    """
    read = read.subset(np.flatnonzero(np.diff(read.offsets)))  # an empty one teaches nothing
    tenth = -(-len(read) // 10) if len(read) > 1 else 0
    count = min(tenth, 1 + int(np.searchsorted(read.offsets[1:], ASIDE)))
    offsets = np.minimum(read.offsets[: count + 1], ASIDE)
    aside = replace(read, ids=read.ids[: offsets[-1]], offsets=offsets)
    return read.subset(np.arange(count, len(read))), aside


def language_weight(
    mechanism: Mechanism,
    channel: Channel,
    model: NGrams,
    aside: Corpus | None,
    *,
    candidates: int = 50,
    kept: int = 8,
) -> float:
    """The weight of the language model with which most content words of public text are named.

    `aside` is text that the model has not read, and which the mechanism sanitizes here; where none
    of its content words is replaced, or there is none, the weight is the usual one. First guesses
    are counted, as in the report: by log probability (`tuned_weight`) a model may be too sure of
    itself, and name more words all the same. `candidates` and `kept` are those of the attack.
    """
    if aside is None:
        return LANGUAGE_WEIGHT
    spared = np.isin(mechanism.embedding.words, list(ENGLISH_STOP_WORDS))
    counted = np.append(is_input(mechanism) & ~spared, False)  # the last: unknown or kept
    targets = np.flatnonzero(counted[np.maximum(aside.ids, -1)])
    if not len(targets):
        return LANGUAGE_WEIGHT
    observed = observe(mechanism, aside, np.random.default_rng(0))
    attack = NoisyChannel(channel, model=model, candidates=candidates, kept=kept)
    single = attack.context_free(observed)
    read = decode_each(single, observed.corpus, model, WEIGHTS, kept=attack.kept)
    hits = [each.guesses(targets, 1).hits(aside.ids[targets]).sum() for each in read]
    return WEIGHTS[int(np.argmax(hits))]
