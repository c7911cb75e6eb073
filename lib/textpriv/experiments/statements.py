"""One text under every mechanism: its bound, what is really lost, and the best attack on it.

    statements(board, losses)       # what the notebooks recorded, tight losses

Every setting is one at which a notebook measured attacks, where any did. Of these the strongest is
quoted, with an interval that allows for the choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from textpriv.attacks.f1 import strongest
from textpriv.attacks.neural_prior import NeuralChannel
from textpriv.attacks.registry import ON_TOKENS, ON_WORDS
from textpriv.data.tokens import KEEP_UNKNOWN, PRIVATE, TokenPolicy
from textpriv.errors import InvalidInput
from textpriv.experiments.audits import over_table
from textpriv.experiments.scoreboard import CORPUS, DEFENSES
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import Guarantee
from textpriv.mechanisms.registry import examples
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.models.vectors import SentenceVectors
from textpriv.privacy.statement import Attacked, Statement, document_statement
from textpriv.report.board import Board
from textpriv.stats import Estimate

WORDS, SENTENCES = 100, 5  # of the text
WITHDRAWN = "the logits are not clipped, and no public bound of them is used"


# --- The best attack at a setting ---------------------------------------------------------------

# Who an attack is. Bounds are attacks too: by somebody who knows how often each word occurs in the
# private texts.
ATTACKERS = {name: entry.attacker for name, entry in {**ON_WORDS, **ON_TOKENS}.items()} | {
    "token_success": "whole texts against a causal language model, the map known",
    "static.embedding": "a classifier of vectors that has learned from original texts",
    "adaptive.embedding": "a classifier of vectors that has learned from sanitized texts",
    "static.linear": "a linear classifier of vectors that has learned from original texts",
    "informed.linear": "a linear classifier of vectors that has learned from texts of both kinds",
    "static.text": "a classifier of texts that has learned from original texts",
    "adaptive.text": "a classifier of texts that has learned from sanitized texts",
    "rehearsed.text": "a classifier of texts that has learned from both kinds, in several runs",
    "added.text": "a classifier of texts that has learned from originals and all their outputs",
    "static.surface": "a classifier of surface traits that has learned from original texts",
    "adaptive.surface": "a classifier of surface traits that has learned from sanitized texts",
    "static.tuned": "a fine-tuned network that has learned from original texts",
    "adaptive.tuned": "a fine-tuned network that has learned from sanitized texts",
}


class Source(NamedTuple):
    """Which measurements tell of a setting."""

    rows: pd.DataFrame  # attack, value, low, high, n
    did: str  # see `privacy.Attacked`
    policy: TokenPolicy = PRIVATE  # of the attacked texts, by mechanisms that replace words


_CLEAR = " (punctuation, numbers and unknown words stood in clear)"
WORD_BY_WORD = "named {} of 100 replaced words at its first guess" + _CLEAR
TOKEN_BY_TOKEN = "named {} of 100 tokens at its first guess"
CONTENT = (
    "named {} of 100 content words at its first guess (function words, punctuation, numbers and "
    "unknown words stood in clear)"
)


def risk(board: Board, mechanism: str, epsilon: float) -> Source:
    """Content words that were named, with a language model of the first sentences alone."""
    at: dict[str, str | float] = {"mechanism": mechanism, "epsilon": epsilon}
    told = board.rows("spoken", "attack", attack=NeuralChannel.name, **at)
    return Source(pd.concat([board.rows("risk", "attack", **at), told]), CONTENT, KEEP_UNKNOWN)


def asr(board: Board, mechanism: str, epsilon: float) -> Source:
    """Replaced words that were named, of the corpus of `risk`."""
    (defense,) = (short for short, name in DEFENSES.items() if name == mechanism)
    rows = board.rows("asr", "attack", defense=defense, epsilon=epsilon, corpus=CORPUS)
    return Source(rows, WORD_BY_WORD, KEEP_UNKNOWN)


def author(board: Board, mechanism: str, setting: str) -> Source:
    """Who wrote it, with what guessing and the unchanged texts give beside it."""
    rows = board.rows(
        "f1", "attacker", "access", mechanism=mechanism, setting=setting, target="author"
    )
    # Who was asked about one output by an attacker who was not run at every setting.
    once = board.rows("repeated", mechanism=mechanism, setting=setting, access="added", k=1)
    rows = pd.concat([rows, once.assign(attacker="added", access="text")])
    guessing = board.measured["f1.random.plain.author"].value
    clear = board.rows("f1", mechanism="clean", setting="plain", target="author")["value"].max()
    return Source(
        rows.assign(attack=rows["attacker"] + "." + rows["access"]),
        "told the authors of shortened reviews apart with a macro F1, in hundredths, of {} "
        f"(guessing reaches {100 * guessing:.0f}, the best attack on the texts as they are "
        f"{100 * clear:.0f})",
    )


def tokens(board: Board, label: str) -> Source:
    """Tokens that were named."""
    return Source(board.rows("pr1", "attack", label=label), TOKEN_BY_TOKEN)


def stencil(board: Board, label: str) -> tuple[Source, Source]:
    """The same of a stencil, and what its outputs show of the corpus of `risk` as they are."""
    shown = board.rows("in_sight", label=label, corpus=CORPUS, what="tokens")
    did = "showed {} of 100 tokens, in whatever place"
    return tokens(board, label), Source(shown.assign(attack="in-sight"), did)


def random_map(board: Board, label: str) -> tuple[Source, Source]:
    """The same of a map, which whole texts were tried on too; known sentences are another task."""
    named, whole = tokens(board, label), board.rows("oracle", kind=label, measure="token_success")
    named = named._replace(
        rows=named.rows[named.rows["attack"].isin(["naive", "context-free", "noisy-channel"])]
    )
    did = "named {} of 100 tokens that had a choice, under a map of a language model's tokens"
    return named, Source(whole.assign(attack=whole["measure"]), did)


def best(*sources: Source) -> Attacked | None:
    """The measured attack of greatest success; None where none was measured.

    Risk is the maximum over the attackers that were run, so that few documents are no reason to
    leave one out: they show in its interval, which is simultaneous over all of them. Among equals
    it is the one whose interval begins highest.
    """
    attacks = pd.concat(
        [source.rows.assign(did=source.did) for source in sources] or [pd.DataFrame()]
    )
    if attacks.empty:
        return None
    if unknown := sorted(set(attacks["attack"]) - set(ATTACKERS)):
        raise InvalidInput(
            f"attackers: got {unknown}, expected some of ATTACKERS; say who they are in "
            "attacks/registry.py"
        )
    known = {end: attacks[end].fillna(attacks["value"]) for end in ("low", "high")}
    attacks = attacks.assign(**known, n=attacks["n"].fillna(0))
    attacks = attacks.sort_values(
        ["value", "low"], ascending=False, kind="stable", ignore_index=True
    )
    numbers = attacks[["value", "low", "high", "n"]].itertuples(index=False)
    rates = {
        row: Estimate(value, low, high, int(n)) for row, (value, low, high, n) in enumerate(numbers)
    }
    who, success = strongest(rates)
    attack, did = attacks.loc[who, ["attack", "did"]]
    return Attacked(success, ATTACKERS[attack], did, attacks["attack"].nunique())


# --- The statements -----------------------------------------------------------------------------


def statements(board: Board, losses: Iterable[Mapping[str, Any]]) -> list[Statement]:
    """One statement per mechanism, for a text of WORDS words.

    `losses` are results of the tasks "tight" and "certified" of `experiments.audits`: mechanism,
    epsilon, claimed, and loss or low. A certain loss above its claim is said.
    """
    rows = list(losses)
    half = board.measured["matched.rank-repair.kept0.5"].value  # keeps half of the content words
    of_words, tried = partial(_of_words, rows), partial(risk, board)
    stated = [
        of_words("madlib", 13.0, tried("madlib", 13.0)),
        of_words("mahalanobis", 17.0, author(board, "mahalanobis-300d", "eps17")),
        of_words("rank-repair", float(round(half)), tried("rank-repair", float(round(half)))),
        of_words("vickrey", 13.0, tried("vickrey", 13.0)),
        of_words("santext", 2.4, note="SanText+, which was attacked, spares the most frequent "
                 "words and is otherwise the same."),
        of_words("santext+", 2.4, tried("santext+", 2.4), asr(board, "santext+", 2.4),
                 note="Two texts that differ in a spared word are told apart for certain; no bound "
                 "covers them."),
        of_words("custext-conservative", 4.0, tried("custext-conservative", 4.0),
                 note="Two texts that differ in the group of a word are told apart for certain; no "
                 "bound covers them."),
        of_words("custext-aggressive", 4.0, note="CusText+, which was attacked, leaves stopwords "
                 "in clear and is otherwise the same."),
        of_words("custext+", 4.0, tried("custext+", 4.0), asr(board, "custext+", 4.0)),
        of_words("tem", 2.4, tried("tem", 2.4)),
        of_words("clusant", 16.0, tried("clusant", 16.0)),
        of_words("diffractor", 1.0, tried("diffractor", 1.0)),
        of_words("rantext", 21.0, tried("rantext", 21.0)),
        of_words("polar", 320.0, tried("polar", 320.0)),
        of_words("randomized-response", 10.4, tried("randomized-response", 10.4)),
    ]  # fmt: skip
    listed = {each.mechanism for each in stated}
    stated += [
        of_words(name, made.epsilon) for name, made in examples().items() if name not in listed
    ]
    return [*stated, *_others(board)]


def _of_words(
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
        attacked=best(*sources),
        policy=sources[0].policy if sources else PRIVATE,
        words=WORDS,
    )
    return replace(stated, note=note)


def _others(board: Board) -> list[Statement]:
    """Sentences, documents, maps and stencils; their bounds depend on no vocabulary."""
    state = partial(document_statement, words=WORDS, sentences=SENTENCES)
    points = SentenceVectors(np.eye(2, dtype=np.float32), np.arange(3))
    table = TokenTable(np.eye(3, dtype=np.float32))
    epsilon = {
        kind: board.measured[f"epsilon.dp-prompt-clipped.t0.75.{kind}"].value
        for kind in ("token_paper", "token_tight", "tight")
    }
    written = round(epsilon["tight"] / epsilon["token_tight"])
    return [
        replace(
            state(
                TruncatedLaplace(Box(np.zeros(2), np.ones(2)), epsilon=25),
                tight=25.0,
                attacked=best(author(board, "truncated-laplace", "eps25")),
            ),
            note="Only sentences whose vectors lie in opposite corners of the box lose that much. "
            "All this holds in exact arithmetic; the last digits of the numbers put out tell more.",
        ),
        state(
            DeepCandidate(points, partial(np.asarray, dtype=np.float64), epsilon=25),
            attacked=best(author(board, "deep-candidate", "eps25")),
        ),
        state(
            Guarantee(written, 0.75, epsilon["token_paper"], epsilon["token_tight"]),
            attacked=best(author(board, "dp-prompt-clipped", "t0.75")),
        ),
        state(
            Guarantee(written, 0.75, np.inf, np.inf, WITHDRAWN),
            attacked=best(author(board, "dp-prompt", "t0.75")),
        ),
        state(
            LossyMap.random(4, 2, np.random.default_rng(0)),
            attacked=best(*random_map(board, "2-random")),
        ),
        state(
            Stencil(table, window=9, sigma=0.8),
            attacked=best(*stencil(board, "stencil-w9-s0.8")),
        ),
        state(
            Stencil(table, window=9, sigma=1.0, punctuated=True),
            attacked=best(*stencil(board, "punctuated-stencil-w9-s1.0")),
        ),
    ]
