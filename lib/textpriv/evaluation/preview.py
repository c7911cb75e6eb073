"""Before anything is sent: what texts would look like at several epsilons, and who could read them.

The epsilon of a mechanism covers the one version that is sent. Who chooses among several after a
look at them lets the texts choose, and that choice is not covered: this shows a trade-off, and who
must keep a promise chooses epsilon by public texts like the private ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from textpriv.attacks import linkage
from textpriv.attacks.base import observe
from textpriv.data.splits import shares_ngram
from textpriv.data.tokens import Tokenizer
from textpriv.errors import InvalidInput
from textpriv.evaluation.rehearsal import parted
from textpriv.evaluation.risks import attack_for, language, vectors_of
from textpriv.evaluation.sanitizers import sanitizer
from textpriv.mechanisms.base import check_epsilons

BY_PUBLIC = (
    "If these texts are private: an epsilon chosen by them is not covered by its own guarantee; "
    "choose it by public texts like them."
)


def previewed(
    texts: Sequence[str],
    mechanism: object,
    epsilons: Sequence[float],
    *,
    public: Sequence[str] | None,
    policy: str,
    summary: bool,
) -> pd.DataFrame:
    """A row per epsilon: the first text, and over all texts what is changed, kept and recovered.

    Parameters
    ----------
    mechanism, policy : see `sanitizer`; one that replaces words
    epsilons : numbers > 0
    public : texts that the attacker has read; None: a weaker one, who has read none
    summary : predict what a language model's summary of the first text would be worth, in further
        columns worth, low and high; see `summary_worth`

    Returns
    -------
    columns epsilon, sanitized (the first text), changed (share of the sanitized tokens), meaning
    (mean cosine of word vectors with the original), recovered (share of the sanitized tokens of the
    vocabulary that the attack guesses; NaN where no attack knows the mechanism)
    """
    wanted = check_epsilons(epsilons)
    if summary:
        from textpriv.evaluation import summaries  # late: it takes scikit-learn's regressors

        summaries.encoder()  # before the work, since it may be missing
    made = sanitizer(mechanism, epsilon=wanted[0], policy=policy)
    if made.mechanism is None or made.policy is None:
        raise InvalidInput(
            f"mechanism: got {made.name}, expected one that replaces words; judge others by "
            "`evaluate` or `textpriv report`"
        )
    embedding = made.mechanism.embedding
    tokenizer = Tokenizer(embedding.words, made.policy)
    private = tokenizer.encode(texts)
    known = vectors_of(embedding, texts, texts)
    # Learned once for every epsilon.
    model, words, aside = None, None, None
    if public is not None:
        shared = shares_ngram(public, texts)  # nobody has read the texts themselves
        public = [text for text, own in zip(public, shared, strict=True) if not own]
    if public:
        rest, aside = parted(read := tokenizer.encode(public))
        model, words = language(len(embedding), rest), read.ids
    rng, rows = np.random.default_rng(), []
    for epsilon in wanted:
        at = made.mechanism.with_epsilon(epsilon)
        observed = observe(at, private, rng)
        truth = private.ids[observed.targets]
        after = tokenizer.decode(observed.corpus)
        meaning = linkage.meaning_kept(known, vectors_of(embedding, after, texts))
        try:
            attack = attack_for(at, model, words=words, aside=aside)
            guesses = attack.guess(observed, top=1)
            recovered = float(guesses.hits(truth)[truth >= 0].mean())
        except InvalidInput:
            recovered = np.nan
        rows.append(
            {
                "epsilon": epsilon,
                "sanitized": after[0],
                "changed": float((observed.corpus.ids[observed.targets] != truth).mean()),
                "meaning": float(meaning.mean()),
                "recovered": recovered,
            }
        )
    table = pd.DataFrame(rows)
    if summary:
        worth = summaries.summary_worth([texts[0]] * len(table), list(table["sanitized"]))
        table[["worth", "low", "high"]] = np.stack(worth, axis=1)
    return table
