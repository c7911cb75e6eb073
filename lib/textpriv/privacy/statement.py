"""What a guarantee means for one text, in sentences for readers who know no mathematics.

print(document_statement(mechanism, tight=tight_loss(mechanism).loss, success=measured,
                         attack="the noisy-channel attack"))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.sentences import SentenceMechanism
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import claimed_loss, has_bounded_range, token_range
from textpriv.stats import Estimate

NOT_PROTECTED = (
    "Not protected: how long the text is; what an observer learns from several sanitized copies "
    "of the same text, whose costs add up; who sent what and when, to an observer of the network; "
    "and what a language model remembers from its own training."
)
WEAK = 10.0  # nats: odds of 22,000 to 1, beyond which a bound alone assures a person of little


@dataclass(frozen=True)
class Statement:
    """What one text of a stated length costs, and what an attacker achieved.

    Attributes
    ----------
    mechanism, setting : what was used
    unit, count : what a text consists of ("words"), and of how many
    nominal : the bound as published, summed over the text, for the worst text of that length
    tight : the same with the largest loss that is really possible; NaN where it is not known
    composed, delta : a bound for all but a chance of delta
    success : share of the words that the best attacker got right, where that was measured
    attack : who that was
    in_clear : what the output shows of the text as it is
    """

    mechanism: str
    setting: str
    unit: str
    count: int
    nominal: float
    tight: float
    composed: float
    delta: float
    success: Estimate | None
    attack: str
    in_clear: str

    def __str__(self) -> str:
        opening = f"{self.mechanism} ({self.setting}), a text of {self.count} {self.unit}."
        attacker = (
            "No attack was measured at this setting."
            if self.success is None
            else f"The best attacker we tried ({self.attack}) got "
            f"{100 * self.success.value:.0f} of 100 words right "
            f"(95% interval {100 * self.success.low:.0f} to {100 * self.success.high:.0f})."
        )
        clear = f"The output shows {self.in_clear}."
        return " ".join([opening, self._bound, attacker, clear, NOT_PROTECTED])

    @property
    def _bound(self) -> str:
        if not math.isfinite(self.nominal):
            return "It states no bound: some texts can be told apart with certainty."
        pure = self.nominal if math.isnan(self.tight) else min(self.nominal, self.tight)
        best = min(pure, self.composed)
        parts = [f"The stated bound for the worst text is eps = {_number(self.nominal)}"]
        if not math.isnan(self.tight):
            parts.append(f"what can really be lost is eps = {_number(self.tight)}")
        if self.composed < self.nominal:
            parts.append(f"but for a chance of {self.delta:g} it is eps = {_number(self.composed)}")
        besides = f", plus a chance of {self.delta:g}" if self.composed < pure else ""
        meaning = (
            "By itself this assures a person of little: two texts may still be told apart"
            if best > WEAK
            else f"So no output is more than {_number(math.exp(best))} times likelier for one "
            f"text than for another{besides}"
        )
        return "; ".join(parts) + f". {meaning}."


def document_statement(
    mechanism: object,
    *,
    tight: float = math.nan,
    success: Estimate | None = None,
    attack: str = "",
    words: int = 100,
    sentences: int = 5,
    delta: float = 1e-6,
) -> Statement:
    """The statement of any mechanism for one text.

    Parameters
    ----------
    mechanism : word-level, sentence-level, DP-Prompt, or a map or stencil, which claims nothing
    tight : largest loss of one word, where known (`exact.tight_loss`); DP-Prompt knows its own
    success, attack : share of the words that the best attacker got right, and its name
    words : of the text, for a word-level mechanism
    sentences : of the text, for a sentence-level one; DP-Prompt counts the tokens of its output
    delta : in (0, 1)

    Raises
    ------
    InvalidInput : a success without the name of the attack
    """
    check_count(words, what="words")
    check_count(sentences, what="sentences")
    if success is not None and not attack:
        raise InvalidInput("attack: got no name, expected one for the success that is given")
    unit, count, each, length, adaptive = "words", words, math.inf, math.inf, False
    setting = ""
    if isinstance(mechanism, Mechanism):
        each = length = claimed_loss(mechanism).largest()
        setting = f"eps {mechanism.epsilon:g} per word and unit of distance"
    elif isinstance(mechanism, SentenceMechanism):
        unit, count, each, length = "sentences", sentences, mechanism.epsilon, mechanism.epsilon
        setting = f"eps {mechanism.epsilon:g} per sentence"
    elif isinstance(mechanism, DPPrompt):
        found = mechanism.guarantee
        unit, count, each, tight = "tokens", found.tokens, found.paper_loss, found.tight_loss
        setting, adaptive = f"temperature {found.temperature:g}", True
        if mechanism.limits is not None and not found.withdrawn:
            length = token_range(mechanism.limits, found.temperature)
    bounded = has_bounded_range(mechanism) or adaptive
    spent: Account = account(
        np.full(count, each),
        ranges=np.full(count, length) if bounded else None,
        adaptive=adaptive,
        delta=delta,
    )
    claim = getattr(mechanism, "claim", None)
    return Statement(
        mechanism=str(getattr(mechanism, "name", type(mechanism).__name__)),
        setting=setting or "no parameter",
        unit=unit,
        count=count,
        nominal=spent.epsilon,
        tight=tight * count,
        composed=min(spent.composed, math.inf if math.isnan(tight) else tight * count),
        delta=delta,
        success=success,
        attack=attack,
        in_clear=claim.in_clear if claim else "that the same words always come out the same way",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
