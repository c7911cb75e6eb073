"""What a guarantee means for one text, in sentences for readers who know no mathematics.

print(document_statement(mechanism, text, policy=KEEP_UNKNOWN))     a text at hand
print(document_statement(mechanism, words=100, tight=tight_loss(mechanism).loss))

A mechanism that replaces words protects nothing that the token policy passes by it, so that its
statement is about both, and counts what stands in clear where the text is known. Bounds come from
the claims, what attackers achieved is measured elsewhere and handed in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import singledispatch
from numbers import Real
from typing import Any

import numpy as np

from textpriv.checks import SHARE, check_count, check_kind, check_number, check_texts
from textpriv.data.tokens import PRIVATE, Corpus, Tokenizer, TokenPolicy, check_corpus, check_policy
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import DPPrompt, Guarantee
from textpriv.mechanisms.sentences import SentenceMechanism
from textpriv.mechanisms.stencil import Stencil
from textpriv.privacy.accounting import Account, account
from textpriv.privacy.claims import claimed_loss, token_range
from textpriv.privacy.texts import TokenCounts, account_texts, token_counts
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
        check_number(self.success.value, SHARE, what="success")

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
    nominal : the bound as claimed, summed over the text, for the worst text of that length
    tight : the same with the largest loss that can really occur; NaN where it is not known
    least : a loss that can really occur, where `tight` is not known; NaN where none is known
    composed, delta : (composed, delta)-differential privacy
    attacked : what the best attack achieved; None where none was measured
    in_clear : what the output shows of the text as it is; "" where nothing is hidden on purpose
    not_protected : in plain words
    note : what else a reader must know
    policy : name of the token policy; "" where there is none, or it is that of an encoded text
    tokens : what becomes of the tokens of the text at hand; None: of a text of that length
    scope : which texts it holds for, and what is passed on as it is, in a sentence
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
    policy: str = ""
    tokens: TokenCounts | None = None
    scope: str = ""

    def __str__(self) -> str:
        *first, last = self.not_protected
        parts = [
            f"{self.mechanism} ({self.setting}), {self.text}.",
            self.scope,
            self._bound,
            str(self.attacked) if self.attacked else "No attack was measured at this setting.",
            self.note,
            f"The output shows {self.in_clear}." if self.in_clear else "",
            f"Not protected: {'; '.join(first)}; and {last}.",
        ]
        return " ".join(part for part in parts if part)

    @property
    def _bound(self) -> str:
        if not self.count:
            return "Nothing in it is sanitized, and nothing is protected."
        if not math.isfinite(self.nominal):
            return "Nothing is guaranteed: no bound is claimed on how well texts can be told apart."
        pure = self.nominal if math.isnan(self.tight) else min(self.nominal, self.tight)
        parts = [
            "The claimed bound for the worst two texts that agree in all that the output shows "
            f"is eps = {_number(self.nominal)}."
        ]
        if not math.isnan(self.tight):
            what = (
                "The sharpest bound that the same limits give"
                if self.unit == "tokens"
                else "The largest loss between such texts, by the mechanism's exact probabilities,"
            )
            parts.append(f"{what} is eps = {_number(self.tight)}.")
        elif not math.isnan(self.least):
            parts.append(
                "Between two texts of near words, sampling shows a loss of at least eps = "
                f"{_number(self.least)}; for the worst two nothing better is known."
            )
        else:
            parts.append("How much of that is really lost is unknown.")
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
    text: str | Iterable[str] | Corpus | None = None,
    *,
    policy: TokenPolicy | None = None,
    tight: float = math.nan,
    least: float = math.nan,
    attacked: Attacked | None = None,
    words: int = 100,
    sentences: int = 5,
) -> Statement:
    """The statement of any mechanism for one text.

    Parameters
    ----------
    mechanism : word-level, sentence-level, DP-Prompt or its `Guarantee`, or a map or stencil,
        which claims nothing
    text : for word-level mechanisms: a text at hand, several of one person, whose costs add up,
        or a corpus that is encoded already. None: a text of `words` words, all of which are
        sanitized
    policy : what becomes of tokens that a word-level mechanism cannot sanitize; None: PRIVATE. A
        corpus has been encoded under one, and takes none.
    tight : largest loss of one word or sentence, where known (`exact.tight_loss`); DP-Prompt
        knows its own
    least : a loss of one word that was shown to occur (`certified_losses`), where `tight` is not
        known
    attacked : what the best attack achieved, under the same policy
    words, sentences : of the text; word-level mechanisms count its words, sentence-level ones
        its sentences, DP-Prompt the tokens of its output

    Raises
    ------
    InvalidInput : no mechanism, counts below 1, losses that are negative or no numbers, a text or
        a policy for what replaces no words, a policy for an encoded corpus
    """
    check_count(words, what="words")
    check_count(sentences, what="sentences")
    for what, value in (("tight", tight), ("least", least)):
        check_kind(value, Real, what=what, expected="a number >= 0, or NaN where it is not known")
        if value < 0:
            raise InvalidInput(f"{what}: got {value!r}, expected a number >= 0")
    return _stated(mechanism, _About(words, sentences, tight, least, attacked, text, policy))


@dataclass(frozen=True)
class _About:
    """What `document_statement` was asked."""

    words: int
    sentences: int
    tight: float
    least: float
    attacked: Attacked | None
    text: str | Iterable[str] | Corpus | None
    policy: TokenPolicy | None


@singledispatch
def _stated(mechanism: object, about: _About) -> Statement:
    """The statement of one kind of mechanism."""
    kinds = tuple(kind for kind in _stated.registry if kind is not object)
    expected = "an object that sanitizes texts: a mechanism, a map or a stencil"
    check_kind(mechanism, kinds, what="mechanism", expected=expected)
    raise NotImplementedError


@_stated.register
def _(mechanism: Mechanism, about: _About) -> Statement:
    claim = claimed_loss(mechanism)
    largest = claim.largest()
    setting = f"eps {mechanism.epsilon:.3g} per {claim.per}"
    if about.text is None:
        policy = PRIVATE if about.policy is None else about.policy
        check_policy(policy)
        each = np.full(about.words, largest)
        spent = account(each, ranges=each if mechanism.claim.bounded_range else None)
        return replace(
            _statement(mechanism, about, setting, spent),
            text=f"a text of {about.words} words (token policy {policy.name})",
            policy=policy.name,
            scope=_of_length(policy, about.words),
            in_clear=mechanism.claim.in_clear + _as_they_are(", ".join(policy.kept)),
        )
    corpus = _encoded(mechanism, about.text, about.policy)
    counts = token_counts(mechanism, corpus)
    spent = account_texts(mechanism, corpus)
    several = f"{counts.texts} texts of {counts.tokens} tokens together, of one person"
    under = "" if isinstance(about.text, Corpus) else (about.policy or PRIVATE).name
    unbounded = counts.unknown and math.isinf(spent.epsilon) and math.isfinite(largest)
    return replace(
        _statement(mechanism, about, setting, spent, count=counts.sanitized),
        text=f"a text of {counts.tokens} tokens" if counts.texts == 1 else several,
        policy=under,
        tokens=counts,
        scope=_of_tokens(under, counts)
        + " Nothing bounds what is lost of the unknown words: the output that stands for one may "
        "come from any group." * bool(unbounded),
        in_clear=mechanism.claim.in_clear + _as_they_are(_listed(counts)),
    )


@_stated.register
def _(mechanism: SentenceMechanism, about: _About) -> Statement:
    # One draw for the whole document: its sentences are one loss of their sum, none of which
    # cancels as those of separate draws do.
    whole = [about.sentences * mechanism.epsilon]
    return replace(
        _statement(
            mechanism,
            about,
            f"eps {mechanism.epsilon:g} per sentence",
            account(whole, ranges=whole if mechanism.claim.bounded_range else None),
            count=about.sentences,
            shown="the number of sentences",
        ),
        unit="sentences",
        text=f"a text of {about.words} words in {about.sentences} sentences",
    )


@_stated.register
def _(mechanism: DPPrompt | Guarantee, about: _About) -> Statement:
    guarantee = mechanism.guarantee if isinstance(mechanism, DPPrompt) else mechanism
    length = guarantee.paper_loss  # infinite where the guarantee is withdrawn
    if isinstance(mechanism, DPPrompt) and mechanism.limits is not None and not guarantee.withdrawn:
        length = token_range(mechanism.limits, guarantee.temperature)
    clipped = "scores without bounds" if guarantee.withdrawn else "scores clipped"
    losses, ranges = (np.full(guarantee.tokens, each) for each in (guarantee.paper_loss, length))
    stated = _statement(
        DPPrompt,
        replace(about, tight=guarantee.tight_loss),
        f"temperature {guarantee.temperature:g}, at most {guarantee.tokens} tokens written, "
        f"{clipped}",
        account(losses, ranges=ranges, adaptive=True),
        shown="the number of texts",
    )
    return replace(stated, unit="tokens", text="a text that fits the context")


@_stated.register
def _(mechanism: LossyMap | Stencil, about: _About) -> Statement:
    setting = "deterministic"
    if isinstance(mechanism, Stencil):
        setting = f"window {mechanism.window}, sigma {mechanism.sigma:g}"
    spent = account(np.full(about.words, math.inf))  # it claims nothing
    return _statement(mechanism, about, setting, spent, repeats=KNOWN_MAP)


def _statement(
    mechanism: Any,
    about: _About,
    setting: str,
    spent: Account,
    *,
    count: int | None = None,
    shown: str = "the number of words",
    repeats: str = REPEATED,
) -> Statement:
    """What all statements have in common; `count`: None for as many as the account has losses."""
    count = spent.tokens if count is None else count
    for what, given in (("text", about.text), ("policy", about.policy)):
        if given is not None and not isinstance(mechanism, Mechanism):
            raise InvalidInput(
                f"{what}: got one for {mechanism.name}, which replaces no words; "
                "give the numbers of words and sentences"
            )
    claim = getattr(mechanism, "claim", None)
    tight = about.tight * count
    if math.isinf(spent.epsilon) and not math.isnan(tight):
        tight = math.inf  # of the words that have a bound only
    return Statement(
        mechanism=mechanism.name,
        setting=setting,
        text=f"a text of {about.words} words",
        unit="words",
        count=count,
        nominal=spent.epsilon,
        tight=tight,
        least=about.least * count,
        composed=min(spent.composed, math.inf if math.isnan(tight) else tight),
        delta=spent.delta,
        attacked=about.attacked,
        in_clear=claim.in_clear if claim else "",
        not_protected=(shown, repeats, *NOT_PROTECTED),
    )


# --- What stands in clear -----------------------------------------------------------------------


def _encoded(
    mechanism: Mechanism, text: str | Iterable[str] | Corpus, policy: TokenPolicy | None
) -> Corpus:
    if isinstance(text, Corpus):
        if policy is not None:
            raise InvalidInput(
                "policy: got one for a corpus, which is encoded already; leave it out, or give the "
                "texts as strings"
            )
        check_corpus(text, mechanism.size, mechanism.vocabulary, what="text")
        return text
    texts = [text] if isinstance(text, str) else check_texts(text, what="text")
    tokenizer = Tokenizer(mechanism.embedding.words, PRIVATE if policy is None else policy)
    return tokenizer.encode(texts)


def _of_length(policy: TokenPolicy, words: int) -> str:
    """Which texts of a number of words are meant."""
    if policy.kept:
        return (
            f"This holds for {words} words that are sanitized. The policy passes on "
            f"{', '.join(policy.kept)} as they are; how many stand beside them depends on the text."
        )
    return (
        f"This holds for {words} words of the vocabulary that the mechanism replaces; the policy "
        "passes nothing on as it is."
    )


def _of_tokens(policy: str, counts: TokenCounts) -> str:
    """What becomes of the tokens of a text at hand."""
    under = f"Under the token policy {policy}" if policy else "As it was encoded"
    unknown = (
        f", {counts.unknown} of them unknown words, in whose place random ones are sanitized"
        if counts.unknown
        else ""
    )
    if not counts.tokens:
        return f"{under}, it has no token."
    if not counts.passed:
        return (
            f"{under}, all {counts.tokens} tokens are sanitized{unknown}, and none is passed on as "
            "it is."
        )
    return (
        f"{under}, {counts.passed} of {counts.tokens} tokens "
        f"({counts.passed / counts.tokens:.1%}) are passed on as they are: {_listed(counts)}; "
        f"{counts.sanitized} are sanitized{unknown}."
    )


def _listed(counts: TokenCounts) -> str:
    return ", ".join(f"{kind} ({count})" for kind, count in counts.in_clear.items())


def _as_they_are(kinds: str) -> str:
    return f"; and, as they are, {kinds}" if kinds else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
