"""One text under every mechanism: its bound, what is really lost, and the best attack on it.

    statements(measured, losses)       # by name: what the notebooks recorded, tight losses

Every setting is one at which a notebook measured attacks, where any did. Of these the strongest is
quoted; having been picked it may look a little better than it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from textpriv.attacks.registry import ON_TOKENS, ON_WORDS
from textpriv.errors import InvalidInput
from textpriv.experiments.audits import over_table
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import Guarantee
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.privacy.statement import Attacked, Statement, document_statement
from textpriv.stats import Estimate
from textpriv.tokens import KEEP_UNKNOWN, PRIVATE, TokenPolicy
from textpriv.vectors import SentenceVectors

WORDS, SENTENCES = 100, 5  # of the text
WITHDRAWN = "the logits are not clipped, and have no public bound"


class Measured(Protocol):
    """A recorded measurement, as `report.results.Measurement` is one."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def n(self) -> int | None: ...


# --- The best attack at a setting ---------------------------------------------------------------

# Endings of measurements' names, and who that is. Bounds are attacks too: by somebody who knows
# how often each word occurs in the private texts.
ATTACKERS = {
    name.replace("-", "_"): entry.attacker
    for name, entry in {**ON_WORDS, **ON_TOKENS}.items()
    if entry.attacker
} | {
    "token_success": "whole texts against an exact language model",
    "static.embedding": "a classifier of vectors that has learned from original texts",
    "adaptive.embedding": "a classifier of vectors that has learned from sanitized texts",
    "static.text": "a classifier of texts that has learned from original texts",
    "adaptive.text": "a classifier of texts that has learned from sanitized texts",
    "static.tuned": "a fine-tuned network that has learned from original texts",
    "adaptive.tuned": "a fine-tuned network that has learned from sanitized texts",
}


@dataclass(frozen=True)
class Source:
    """Which measurements tell of a setting.

    Parameters
    ----------
    pattern : of their whole names, with one group for the attacker
    did : see `privacy.Attacked`
    policy : under which the attacked texts were sanitized, by mechanisms that replace words
    """

    pattern: str
    did: str
    policy: TokenPolicy = PRIVATE


_CLEAR = " (punctuation, numbers and unknown words stood in clear)"
WORD_BY_WORD = "named {} of 100 replaced words at its first guess" + _CLEAR
TOKEN_BY_TOKEN = "named {} of 100 tokens at its first guess"
CONTENT = "named {} of 100 content words at its first guess" + _CLEAR


def risk(mechanism: str, epsilon: float) -> Source:
    """Content words that were named."""
    pattern = rf"risk\.{re.escape(mechanism)}\.eps{epsilon:g}\.(.+)"
    return Source(pattern, CONTENT, KEEP_UNKNOWN)


def asr(mechanism: str, epsilon: float) -> Source:
    """Replaced words that were named, on whatever corpus."""
    pattern = rf"asr\.{mechanism}\.[^.]+\.eps{epsilon:g}\.(.+)"
    return Source(pattern, WORD_BY_WORD, KEEP_UNKNOWN)


def author(mechanism: str, setting: str, measured: Mapping[str, Measured]) -> Source:
    """Who wrote it, with what guessing and the unchanged texts give beside it."""
    guessing = measured["f1.random.plain.author"].value
    clear = max(
        each.value for name, each in measured.items() if name.startswith("f1.clean.plain.author.")
    )
    return Source(
        rf"f1\.{re.escape(mechanism)}\.{re.escape(setting)}\.author\.(.+)",
        "told the authors of shortened reviews apart: {} out of 100 (macro F1; guessing reaches "
        f"{100 * guessing:.0f}, and the best attack on the texts as they are {100 * clear:.0f})",
    )


def best(measured: Iterable[Measured], *sources: Source) -> Attacked | None:
    """The measured attack of greatest success; None where none was measured.

    Risk is the maximum over the attackers that were run, so that few documents are no reason to
    leave one out: they show in its interval. Among equals it is the one whose interval begins
    highest.

    Raises
    ------
    InvalidInput : an attacker whom nobody has described here
    """
    found = [
        (each, match[1], source)
        for each in measured
        for source in sources
        if (match := re.fullmatch(source.pattern, each.name)) is not None
    ]
    attackers = {attacker for _, attacker, _ in found}
    if unknown := sorted(attackers - set(ATTACKERS)):
        raise InvalidInput(
            f"attackers: got {unknown}, expected some of ATTACKERS; say who they are in "
            "attacks/registry.py"
        )
    if not found:
        return None
    strongest, attacker, source = max(found, key=lambda each: (each[0].value, _low(each[0])))
    high = strongest.value if strongest.high is None else strongest.high
    success = Estimate(strongest.value, _low(strongest), high, strongest.n or 0)
    return Attacked(success, ATTACKERS[attacker], source.did, len(attackers))


def _low(measured: Measured) -> float:
    return measured.value if measured.low is None else measured.low


# --- The statements -----------------------------------------------------------------------------


def statements(
    measured: Mapping[str, Measured], losses: Iterable[Mapping[str, Any]]
) -> list[Statement]:
    """One statement per mechanism, for a text of WORDS words.

    Parameters
    ----------
    measured : of all notebooks, by name
    losses : results of the tasks "tight" and "certified" of `experiments.audits`: rows with
        mechanism, epsilon, claimed, and loss or low; a certain loss above its claim is said
    """
    rows = list(losses)
    half = measured["matched.rank-repair.kept0.5"].value  # keeps half of the content words
    of_words = partial(_of_words, measured, rows)
    return [
        of_words("madlib", 13.0, risk("madlib", 13.0)),
        of_words("mahalanobis", 17.0, author("mahalanobis-300d", "eps17", measured)),
        of_words("rank-repair", float(round(half))),
        of_words("vickrey", 13.0),
        of_words("santext", 2.4, note="SanText+, which was attacked, spares the most frequent "
                 "words and is otherwise the same."),
        # Notebook 05 calls SanText+ and CusText+ by their short names in places.
        of_words("santext+", 2.4, risk("santext+", 2.4), asr("santext", 2.4),
                 note="Two texts that differ in a spared word are told apart for certain; no bound "
                 "covers them."),
        of_words("custext-conservative", 4.0, risk("custext-conservative", 4.0),
                 note="Two texts that differ in the group of a word are told apart for certain; no "
                 "bound covers them."),
        of_words("custext-aggressive", 4.0, note="CusText+, which was attacked, leaves stopwords "
                 "in clear and is otherwise the same."),
        of_words("custext+", 4.0, risk("custext+", 4.0), asr("custext", 4.0)),
        of_words("tem", 2.4, risk("tem", 2.4)),
        *_others(measured),
    ]  # fmt: skip


def _of_words(
    measured: Mapping[str, Measured],
    rows: list[Mapping[str, Any]],
    name: str,
    epsilon: float,
    *sources: Source,
    note: str = "",
) -> Statement:
    own = [row for row in rows if (row["mechanism"], row["epsilon"]) == (name, epsilon)]
    lows = [low for row in own if (low := float(row.get("low", 0.0))) > 0]
    broken = [row for row in own if float(row.get("low", 0.0)) > row.get("claimed", np.inf)]
    if broken:
        pairs = ", ".join(f"{row['word']} and {row['other']}" for row in broken)
        note = (
            f"THE BOUND DOES NOT HOLD: more than it allows is lost between {pairs}. {note}".strip()
        )
    stated = document_statement(
        over_table(name, epsilon),
        tight=max((float(row["loss"]) for row in own if "loss" in row), default=np.nan),
        least=max(lows, default=np.nan),
        attacked=best(measured.values(), *sources),
        policy=sources[0].policy if sources else PRIVATE,
        words=WORDS,
    )
    return replace(stated, note=note)


def _others(measured: Mapping[str, Measured]) -> list[Statement]:
    """Sentences, documents, maps and stencils; their bounds depend on no vocabulary."""
    state = partial(document_statement, words=WORDS, sentences=SENTENCES)

    def attacked(source: Source) -> Attacked | None:
        return best(measured.values(), source)

    points = SentenceVectors(np.eye(2, dtype=np.float32), np.arange(3))
    table = TokenTable(np.eye(3, dtype=np.float32))
    epsilon = {
        kind: measured[f"epsilon.dp-prompt-clipped.t0.75.{kind}"].value
        for kind in ("token_paper", "token_tight", "tight")
    }
    tokens = round(epsilon["tight"] / epsilon["token_tight"])
    return [
        replace(
            state(
                TruncatedLaplace(Box(np.zeros(2), np.ones(2)), epsilon=25),
                tight=25.0,
                attacked=attacked(author("truncated-laplace", "eps25", measured)),
            ),
            note="Only sentences whose vectors lie in opposite corners of the box lose that much. "
            "All this holds in exact arithmetic; the last digits of the numbers put out tell more.",
        ),
        state(
            DeepCandidate(points, partial(np.asarray, dtype=np.float64), epsilon=25),
            attacked=attacked(author("deep-candidate", "eps25", measured)),
        ),
        state(
            Guarantee(tokens, 0.75, epsilon["token_paper"], epsilon["token_tight"]),
            attacked=attacked(author("dp-prompt-clipped", "t0.75", measured)),
        ),
        state(
            Guarantee(tokens, 0.75, np.inf, np.inf, WITHDRAWN),
            attacked=attacked(author("dp-prompt", "t0.75", measured)),
        ),
        state(
            LossyMap.random(4, 2, np.random.default_rng(0)),
            attacked=attacked(
                Source(r"(?:pr1|oracle)\.2-random\.[^.]+\.(token_success|(?:naive|context_free"
                       r"|noisy_channel))", TOKEN_BY_TOKEN)
            ),
        ),
        *(
            state(
                Stencil(table, window=9, sigma=sigma, punctuated=name != "stencil"),
                attacked=attacked(
                    Source(rf"pr1\.{name}-w9-s{re.escape(f'{sigma:.1f}')}\.[^.]+\.(.+)",
                           TOKEN_BY_TOKEN)
                ),
            )
            for name, sigma in (("stencil", 0.8), ("punctuated-stencil", 1.0))
        ),
    ]  # fmt: skip
