"""What a guarantee means for one text, in sentences for readers who know no mathematics.

print(document_statement(mechanism, tight=tight_loss(mechanism).loss, attacked=attacked))

Bounds come from the claims, what attackers achieved is measured elsewhere and handed in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.mechanisms import CusText, Mechanism
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import DPPrompt, Guarantee
from textpriv.mechanisms.sentences import SentenceMechanism
from textpriv.mechanisms.stencil import Stencil
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import claimed_loss, has_bounded_range, token_range
from textpriv.stats import Estimate

REPEATED = "a text that is sanitized several times, since every copy costs as much again"
NOT_PROTECTED = (
    "who sends something to whom and when, which an observer of the network sees",
    "what a language model remembers of the texts that it was trained on",
)
KNOWN_MAP = (
    "the text as such: the same input always gives the same output, so that whoever knows the "
    "map, or has seen it at work, can try inputs until one fits"
)
WEAK = 10.0  # nats: odds of 22,000 to 1, beyond which a bound alone assures a person of little


@dataclass(frozen=True)
class Attacked:
    """What the best of several attacks achieved.

    Attributes
    ----------
    success : in 0..1
    attack : which one that was, in plain words
    did : what it did, with {} where the success in hundredths stands:
        "named {} of 100 words"
    tried : how many attacks were compared, >= 1

    Raises
    ------
    InvalidInput : an attack without a name, a text without {}, a success outside 0..1
    """

    success: Estimate
    attack: str
    did: str
    tried: int = 1

    def __post_init__(self) -> None:
        check_count(self.tried, what="tried")
        if not self.attack:
            raise InvalidInput("attack: got no name, expected one for the success that is given")
        if self.did.count("{}") != 1:
            raise InvalidInput(f"did: got {self.did!r}, expected one {{}} in it")
        if not 0 <= self.success.value <= 1:
            raise InvalidInput(f"success: got {self.success.value!r}, expected a number in 0..1")

    def __str__(self) -> str:
        value, low, high = (
            f"{100 * each:.0f}"
            for each in (self.success.value, self.success.low, self.success.high)
        )
        who = "The attack" if self.tried == 1 else f"The best of the {self.tried} attacks"
        return (
            f"{who} that we measured ({self.attack}) {self.did.format(value)}; "
            f"95% interval {low} to {high}."
        )


@dataclass(frozen=True)
class Statement:
    """What one text of a stated length costs, and what an attacker achieved.

    Attributes
    ----------
    mechanism, setting : what was used
    text : which text: "a text of 100 words"
    unit, count : what the cost adds up over ("words"), and how many there are
    nominal : the bound as published, summed over the text, for the worst text of that length
    tight : the same with the largest loss that can really occur; NaN where it is not known
    least : a loss that can really occur, where `tight` is not known; NaN where none is known
    composed, delta : (composed, delta)-differential privacy
    attacked : what the best attack achieved; None where none was measured
    in_clear : what the output shows of the text as it is; "" where nothing is hidden on purpose
    not_protected : in plain words
    note : what else a reader must know
    """

    mechanism: str
    setting: str
    text: str
    unit: str
    count: int
    nominal: float
    tight: float
    least: float
    composed: float
    delta: float
    attacked: Attacked | None
    in_clear: str
    not_protected: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        *first, last = self.not_protected
        parts = [
            f"{self.mechanism} ({self.setting}), {self.text}.",
            self._bound,
            str(self.attacked) if self.attacked else "No attack was measured at this setting.",
            self.note,
            f"The output shows {self.in_clear}." if self.in_clear else "",
            f"Not protected: {'; '.join(first)}; and {last}.",
        ]
        return " ".join(part for part in parts if part)

    @property
    def _bound(self) -> str:
        if not math.isfinite(self.nominal):
            return "No bound holds on how well two texts can be told apart."
        pure = self.nominal if math.isnan(self.tight) else min(self.nominal, self.tight)
        parts = [
            "The published bound for the worst two texts that agree in all that the output shows "
            f"is eps = {_number(self.nominal)}."
        ]
        if not math.isnan(self.tight):
            what = (
                "The sharpest bound that the same limits give"
                if self.unit == "tokens"
                else "The largest loss that can really occur between such texts"
            )
            parts.append(f"{what} is eps = {_number(self.tight)}.")
        elif not math.isnan(self.least):
            parts.append(
                f"Between two texts of near words a loss of eps = {_number(self.least)} can occur; "
                "for the worst two nothing better is known."
            )
        else:
            parts.append("How much of that can really be lost is unknown.")
        extra = f"1 in {1 / self.delta:,.0f}"
        if self.composed < pure:
            parts.append(
                f"With {extra} added to the probability of every event, it is at most "
                f"eps = {_number(self.composed)}."
            )
        best = min(pure, self.composed)
        parts.append(
            "A bound this large rules out almost nothing: it would allow an attacker to tell the "
            "two texts apart almost with certainty."
            if best > WEAK
            else f"Any event is at most {_number(math.exp(best))} times likelier for one text "
            f"than for another{f', plus {extra}' if self.composed < pure else ''}."
        )
        return " ".join(parts)


def document_statement(
    mechanism: object,
    *,
    tight: float = math.nan,
    least: float = math.nan,
    attacked: Attacked | None = None,
    words: int = 100,
    sentences: int = 5,
    delta: float = 1e-6,
    note: str = "",
) -> Statement:
    """The statement of any mechanism for one text.

    Parameters
    ----------
    mechanism : word-level, sentence-level, DP-Prompt or its `Guarantee`, or a map or stencil,
        which claims nothing
    tight : largest loss of one word or sentence, where known (`exact.tight_loss`); DP-Prompt
        knows its own
    least : a loss of one word that can really occur (`certified_losses`), where `tight` is not
        known
    attacked : what the best attack achieved
    words, sentences : of the text; word-level mechanisms count its words, sentence-level ones
        its sentences, DP-Prompt the tokens of its output
    delta : in (0, 1)
    note : see `Statement`

    Raises
    ------
    InvalidInput : counts below 1
    """
    check_count(words, what="words")
    check_count(sentences, what="sentences")
    unit, count, each, length = "words", words, math.inf, math.inf
    setting, shown, adaptive = "deterministic", "the number of words", False
    text = f"a text of {words} words"
    if isinstance(mechanism, Mechanism):
        each = length = claimed_loss(mechanism).largest()
        distance = "" if isinstance(mechanism, CusText) else " and unit of distance"
        setting = f"eps {mechanism.epsilon:.3g} per word{distance}"
    elif isinstance(mechanism, SentenceMechanism):
        unit, count, each, length = "sentences", sentences, mechanism.epsilon, mechanism.epsilon
        setting, shown = f"eps {mechanism.epsilon:g} per sentence", "the number of sentences"
        text += f" in {sentences} sentences"
    elif isinstance(mechanism, DPPrompt | Guarantee):
        found = mechanism if isinstance(mechanism, Guarantee) else mechanism.guarantee
        unit, count, each, tight = "tokens", found.tokens, found.paper_loss, found.tight_loss
        length, adaptive, shown = found.paper_loss, True, "the number of texts"
        text = "a text of any length"
        clipped = "scores without bounds" if found.withdrawn else "scores clipped"
        setting = f"temperature {found.temperature:g}, at most {count} tokens written, {clipped}"
        if isinstance(mechanism, DPPrompt) and mechanism.limits is not None:
            if not found.withdrawn:
                length = token_range(mechanism.limits, found.temperature)
    elif isinstance(mechanism, Stencil):
        setting = f"window {mechanism.window}, sigma {mechanism.sigma:g}"
    bounded = has_bounded_range(mechanism) or adaptive
    spent: Account = account(
        np.full(count, each),
        ranges=np.full(count, length) if bounded else None,
        adaptive=adaptive,
        delta=delta,
    )
    named = DPPrompt if isinstance(mechanism, Guarantee) else mechanism
    claim = getattr(named, "claim", None)
    repeats = KNOWN_MAP if isinstance(mechanism, LossyMap | Stencil) else REPEATED
    return Statement(
        mechanism=str(getattr(named, "name", type(mechanism).__name__)),
        setting=setting,
        text=text,
        unit=unit,
        count=count,
        nominal=spent.epsilon,
        tight=tight * count,
        least=least * count,
        composed=min(spent.composed, math.inf if math.isnan(tight) else tight * count),
        delta=delta,
        attacked=attacked,
        in_clear=claim.in_clear if claim else "",
        not_protected=(shown, repeats, *NOT_PROTECTED),
        note=note,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
