"""Checks of a stranger's mechanism or attack: right ones pass, each planted fault is named."""

from __future__ import annotations

import codecs
import secrets
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from textpriv.attacks.base import Guesses, Observed
from textpriv.attacks.bayes import Bayes
from textpriv.channel import IntArray, SparseChannel
from textpriv.data.embeddings import from_arrays
from textpriv.evaluation.trial import WORDS, check_attack, check_mechanism
from textpriv.mechanisms import CusText, Mechanism, SanText

VOCABULARY = sorted({*WORDS, *"the a my in of with hotel paris house number name is and".split()})
EMBEDDING = from_arrays(
    "tiny", VOCABULARY, np.random.default_rng(2).normal(size=(len(VOCABULARY), 4))
)
CHOICES = list(WORDS)


def responses(texts: list[str], epsilon: float, rng: np.random.Generator) -> list[str]:
    """Randomized response on the words of WORDS; all others become a random one of them."""
    stay = np.expm1(epsilon) / (np.exp(epsilon) + len(CHOICES) - 1)
    outputs = []
    for text in texts:
        words = [word.strip(".,").lower() for word in text.split()]
        drawn = rng.choice(CHOICES, len(words))
        kept = rng.random(len(words)) < stay
        outputs.append(
            " ".join(
                word if same and word in CHOICES else other
                for word, same, other in zip(words, kept, drawn, strict=True)
            )
        )
    return outputs


def right(texts: list[str], epsilon: float) -> list[str]:
    return responses(texts, epsilon, np.random.default_rng())


def wrong_claim(texts: list[str], epsilon: float) -> list[str]:
    return right(texts, 3 * epsilon)


def shared_seed(texts: list[str], epsilon: float) -> list[str]:
    return responses(texts, epsilon, np.random.default_rng(42))


def shared_draws(texts: list[str], epsilon: float) -> list[str]:
    seed = int(np.random.default_rng().integers(2**31))
    return [responses([text], epsilon, np.random.default_rng(seed))[0] for text in texts]


def no_text(texts: list[str], epsilon: float) -> list[str]:
    return right([text for text in texts if text.strip()], epsilon)


def in_clear(texts: list[str], epsilon: float) -> list[str]:
    rng = np.random.default_rng()
    return [
        " ".join(
            responses([word], epsilon, rng)[0] if word.strip(".,").lower() in CHOICES else word
            for word in text.split()
        )
        for text in texts
    ]


def first_in_clear(texts: list[str], epsilon: float) -> list[str]:
    """Of several words: texts of one, by which the claim is judged, show nothing."""
    drawn = right(texts, epsilon)
    return [
        " ".join([*text.split()[:1], *other.split()[1:]]) if " " in text else other
        for text, other in zip(texts, drawn, strict=True)
    ]


def only_word_in_clear(texts: list[str], epsilon: float) -> list[str]:
    drawn = right(texts, epsilon)
    return [
        other if " " in text else text.lower() for text, other in zip(texts, drawn, strict=True)
    ]


def crash(texts: list[str], epsilon: float) -> list[str]:
    return right([text.split()[0] for text in texts], epsilon)


class Stated(SparseChannel, Mechanism):
    """Randomized response over the whole vocabulary, as a stranger would write it."""

    name = "stated"
    claim = replace(SanText.claim, loss="constant")

    @property
    def matrix(self) -> Any:
        other = 1 / (np.exp(self.factor * self.epsilon) + self.size - 1)
        full = np.full((self.size, self.size), other)
        np.fill_diagonal(full, 1 - (self.size - 1) * other)
        return csr_array(full)

    factor = 1.0

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        return self.sample(ids, rng)


class Overstated(Stated):
    factor = 2.0


class WrongSampler(SanText):
    """Its probabilities are right, and it draws by others."""

    def _replace(self, ids: IntArray, rng: np.random.Generator) -> IntArray:
        kept = rng.random(len(ids)) < 0.3
        return np.where(kept, ids, super()._replace(ids, rng))


class Reversed(SanText):
    """Attackers would read P(x|y) for P(y|x)."""

    def log_columns(self, outputs: IntArray) -> Any:
        return self.log_rows(outputs)


class Leaky(Stated):
    """Its rows sum to less than 1."""

    def log_rows(self, inputs: IntArray) -> Any:
        return super().log_rows(inputs) - 0.1


@pytest.mark.parametrize(
    "mechanism", [right, SanText(EMBEDDING, epsilon=2.0), Stated(EMBEDDING, epsilon=2.0)]
)
def test_right_ones_pass(mechanism: Any) -> None:
    checks = check_mechanism(mechanism, epsilon=2.0)
    assert checks.passed, str(checks)
    assert "passed" in str(checks) and "FAILED" not in str(checks)


@pytest.mark.parametrize(
    ("mechanism", "check", "says"),
    [
        (WrongSampler(EMBEDDING, epsilon=2.0), "draws follow the stated law", "the sampler"),
        (Reversed(EMBEDDING, epsilon=2.0), "stated probabilities add up", "in the column"),
        (Leaky(EMBEDDING, epsilon=2.0), "stated probabilities add up", "expected 1"),
        (Overstated(EMBEDDING, epsilon=2.0), "the claim", "exact loss is 4, above the 2"),
        (wrong_claim, "the claim", "eps 2 per word is broken"),
        (shared_seed, "fresh randomness", "the same seed"),
        (shared_draws, "fresh randomness", "share draws"),
        (no_text, "the empty text", "put out 1 texts for 2"),
        (in_clear, "unknown words are replaced", "leak in clear"),
        (first_in_clear, "first, last and lone words are replaced", "stand first came out"),
        (only_word_in_clear, "first, last and lone words are replaced", "stand alone came out"),
        (crash, "the empty text", "raises IndexError"),
        (lambda texts: texts, "fresh randomness", "it does not draw at all"),
        (lambda texts: texts[:1], "as many texts out as in", "put out 1 texts for 4"),
    ],
)
def test_each_planted_fault_is_named(mechanism: Any, check: str, says: str) -> None:
    checks = check_mechanism(mechanism, epsilon=2.0)
    assert not checks.passed
    assert says in checks.failed[check], checks.failed
    if mechanism in (wrong_claim, in_clear):  # and blamed on no other check
        assert set(checks.failed) == {check}


def spelled_with_a_nonce(text: str) -> str:
    """The text itself, in another alphabet, beside something that never comes again."""
    return f"{codecs.encode(text, 'rot13')} {secrets.token_hex(8)}"


def nonce(text: str) -> str:
    return secrets.token_hex(8)


def test_outputs_that_never_come_again_are_judged_by_a_classifier() -> None:
    """A wrong version counts whole outputs, sees each once and passes what is in clear."""
    says = check_mechanism(spelled_with_a_nonce, epsilon=0.1).failed["the claim"]
    assert "a classifier tells outputs" in says
    checks = check_mechanism(nonce, epsilon=0.1)
    assert checks.passed and "not broken by a classifier" in str(checks)
    (claim,) = check_mechanism(nonce, epsilon=9.0).rows.query("check == 'the claim'").itertuples()
    assert claim.result == "not run" and "cannot show a loss above" in claim.says


def test_what_claims_nothing_has_not_kept_a_claim() -> None:
    """Aggressive CusText is audited at no pair of words, and that is no success."""
    checks = check_mechanism(CusText(EMBEDDING, epsilon=2.0, set_size=6), epsilon=2.0)
    (claim,) = checks.rows[checks.rows["check"] == "the claim"].itertuples()
    assert claim.result == "not run" and "claims no bound" in claim.says
    assert str(checks).endswith("no check failed; not tested: the claim")


def test_a_claim_beyond_what_draws_can_show_is_not_judged() -> None:
    claim = check_mechanism(right, epsilon=9.0).rows.set_index("check").loc["the claim"]
    assert claim["result"] == "not run" and "cannot show a loss above" in claim["says"]


def turned(guesses: Guesses) -> Guesses:
    """The worst guess first."""
    return Guesses(guesses.words[:, ::-1], guesses.scores[:, ::-1])


def unsure(guesses: Guesses) -> Guesses:
    """Scores that are no numbers."""
    return Guesses(guesses.words, np.full_like(guesses.scores, np.nan))


def restless(guesses: Guesses) -> Guesses:
    """Drawn anew in each call."""
    return Guesses(np.random.default_rng().permuted(guesses.words, axis=1), guesses.scores)


@pytest.mark.parametrize(
    ("change", "check", "says"),
    [
        (None, "", ""),
        (turned, "guesses are ranked", "scores grow"),
        (unsure, "guesses are ranked", "no finite number"),
        (restless, "the same call gives the same guesses", "two calls"),
    ],
)
def test_attacks_are_checked(change: Any, check: str, says: str) -> None:
    class Changed(Bayes):
        def guess(self, observed: Observed, targets: Any = None, *, top: int = 5) -> Guesses:
            guesses = super().guess(observed, targets, top=top)
            return change(guesses) if change else guesses

    mechanism = SanText(EMBEDDING, epsilon=2.0)
    checks = check_attack(Changed(mechanism, np.ones(len(VOCABULARY)), name="own"), mechanism)
    assert checks.passed if change is None else says in checks.failed[check]
