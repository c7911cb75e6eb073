"""Notebook 05: word-level mechanisms where an attacker is equally successful.

Epsilon has another unit in every mechanism, so they are compared by what attacks recover and by
what a classifier still achieves, on the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv import stats, study
from textpriv.attacks.base import is_input, observe
from textpriv.attacks.bayes import Bayes
from textpriv.channel import Channel
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEEP_UNKNOWN, Tokenizer
from textpriv.experiments.mechanisms import classifier
from textpriv.experiments.reconstruction import noisy
from textpriv.experiments.reconstruction_texts import PUBLIC, Knowledge, Material, Sizes
from textpriv.mechanisms import FiniteMechanism, Madlib, Mechanism
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import ExactSearch
from textpriv.seeds import stream


def risk_mechanisms(
    embedding: Embedding,
    known: Mapping[str, Mapping[float, FiniteMechanism]],
    sizes: Sizes,
    rng: np.random.Generator,
) -> list[tuple[Mechanism, Channel]]:
    """Word-level mechanisms at each of their epsilons, with the channel that is attacked.

    The finite mechanisms are their own channels; that of MADLIB is an estimate. CusText+ and
    SanText+ come from `known`, the others from the registry. SanText without the plus spares no
    word and is left out, being the same otherwise.
    """
    search = ExactSearch(embedding.vectors)
    given = {"custext+": known["custext"], "santext+": known["santext"]}
    result: list[tuple[Mechanism, Channel]] = []
    for name, epsilons in sizes.risk_epsilons.items():
        if name in given:
            made = [given[name][epsilon] for epsilon in epsilons]
        else:
            mechanism = WORD_LEVEL[name].make(embedding, search)
            if isinstance(mechanism, Madlib):
                channels = NoiseChannel.estimate(mechanism, epsilons, rng)
                result += [(mechanism.with_epsilon(e), channel) for e, channel in channels.items()]
                continue
            made = cast(FiniteMechanism, mechanism).sweep(epsilons)
        result += [(each, each) for each in made]
    return result


def risk(
    material: Material,
    mechanisms: Sequence[tuple[Mechanism, Channel]],
    knowledge: Knowledge,
    sizes: Sizes,
    seed: int | None,
) -> tuple[pd.DataFrame, float]:
    """Success of attacks on content words, and accuracy of sentiment on the sanitized text.

    All mechanisms sanitize the same sentences. The classifier has learned from other sentences,
    in clear; its accuracy on the sentences in clear is returned beside the table. Of a corpus
    without labels every accuracy is NaN.
    """
    weights = {PUBLIC: 0.75}  # what most rehearsals choose; the results list them
    count = min(sizes.risk_sentences, len(material.texts) // 2)
    embedding = mechanisms[0][0].embedding
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    words = tokenizer.words_of(material.texts)
    labels = np.zeros(len(words)) if material.labels is None else material.labels
    model = None if material.labels is None else classifier(0).fit(words[count:], labels[count:])
    unknown = stats.Estimate(np.nan, np.nan, np.nan, 0)
    private, prior = material.first(count), material.private.counts(len(embedding)).astype(float)
    spared = embedding.ids(sorted(ENGLISH_STOP_WORDS))
    content = np.flatnonzero((private.ids >= 0) & ~np.isin(private.ids, spared))

    def attacked(number: int) -> list[dict[str, Any]]:
        mechanism, channel = mechanisms[number]
        rng = stream(seed, "05", "risk", mechanism.name, mechanism.epsilon)
        seen = observe(mechanism, private, rng)
        accuracy = unknown
        if model:
            right = model.predict(tokenizer.decode(seen.corpus)) == labels[:count]
            accuracy = stats.share(int(right.sum()), len(right))
        targets = content[seen.sanitized[content]]
        bound = Bayes(channel, prior * is_input(channel), name="context-free-bound")
        rows = []
        for attack in (bound, noisy(channel, knowledge.public, PUBLIC, weights, sizes)):
            recovered = np.ones(len(private.ids), dtype=bool)  # what passes in clear is
            recovered[targets] = attack.guess(seen, targets).hits(private.ids[targets])
            rate = stats.clustered_share(recovered[content], private.document[content])
            rows.append(
                {
                    "mechanism": mechanism.name,
                    "epsilon": mechanism.epsilon,
                    "attack": attack.name,
                    **rate.columns(),
                    "accuracy": accuracy.value,
                    "accuracy_low": accuracy.low,
                    "accuracy_high": accuracy.high,
                    "sentences": accuracy.n,
                    "kept": float((seen.corpus.ids[content] == private.ids[content]).mean()),
                }
            )
        return rows

    rows = study.measure(attacked, over=study.grid(number=range(len(mechanisms))))
    clean = float((model.predict(words[:count]) == labels[:count]).mean()) if model else np.nan
    return pd.DataFrame([*chain.from_iterable(rows)]), clean
