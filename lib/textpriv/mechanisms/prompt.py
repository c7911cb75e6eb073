"""DP-Prompt: a language model writes a paraphrase, one clipped and heated draw per token.

    limits = learn_limits(generator, public, tokens=48, seed=0)   # of the logits, per token id
    mechanism = DPPrompt(generator, temperature=1.5, tokens=48, limits=limits)
    mechanism.guarantee.epsilon                       # for any two documents; see `Guarantee`
    mechanism.sanitize(["the rock is destined to be ...", ...])

Every next token is drawn from softmax(clip(logits) / T) over the whole vocabulary, which is the
exponential mechanism with the logit as utility. The document enters through the logits alone,
and these lie between public limits: that, and nothing about the model, carries the guarantee.
Whatever looks at the logits after the clipping voids it (top-k, top-p, beams, penalties), and so
does a length that depends on the document.

What one token tells. Let l <= h be the limits over T, one pair per id, and u, v the clipped
logits over T of two documents after the same beginning. The log-ratio at token i is
f_i(u) - f_i(v) with f_i(u) = u_i - ln sum_j e^{u_j}, which grows with u_i and falls with every
other u_j. So over the box f_i is largest at (h_i, all others l_j), smallest at (l_i, all others
h_j), and as u and v vary freely the supremum is

    max_i { h_i - ln(e^{h_i} + sum_{j!=i} e^{l_j}) - l_i + ln(e^{l_i} + sum_{j!=i} e^{h_j}) },

reached by a model that puts the two documents at these corners. It is at most the paper's
2 max_i (h_i - l_i), since either difference is at most max_i (h_i - l_i). For one pair of limits
and V ids it is ln[a (1 + (V-1) a) / (a + V - 1)] with a = e^(h-l). That closed form with the
widest range of unequal limits put in is NOT a bound: l = (-10, 0, 0, 0), h = l + 3 loses 6.00
per token, and the closed form says 3.98. Over n tokens the losses add up, since each step is
bounded whatever stands before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.channel import FloatArray, IntArray
from textpriv.checks import COUNT, check_count, check_ends, check_texts, checked
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.mechanisms.base import Claim, check_epsilon, warn_of
from textpriv.models.generators import Generator, Sampled, draw, generate

SUPPORT = "it decides by the private logits which tokens can occur, so that no epsilon is finite"
LEAST_TEMPERATURE = 1e-20  # at which logits up to 1e18 still fit float32
PAPER = "Review: {text}\nParaphrase of the review:"


# --- Limits of the logits -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Limits:
    """Between which numbers every logit is clipped; public, or learned on public documents.

    Parameters
    ----------
    low, high : (vocabulary,) finite, low <= high, in the order of `Generator.sayable`. Where
        they are equal, that token's logit tells nothing.
    """

    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        do = "see Limits.same for one pair"
        low, high = check_ends(self.low, self.high, what="limits", each="id", do=do)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def same(cls, low: float, high: float, size: int) -> Self:
        """One pair for all `size` ids."""
        check_count(size, what="size")
        return cls(np.full(size, low), np.full(size, high))

    def __len__(self) -> int:
        return len(self.low)

    @property
    def digest(self) -> str:
        """What results depend on."""
        return hashlib.sha256(self.low.tobytes() + self.high.tobytes()).hexdigest()

    def clip(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) between the limits; NaN and infinite ones become the low one.

        A model that overflows, or that forbids a token by -inf, thus keeps the guarantee. Scores
        keep their type; in float32 the limits are rounded towards each other.
        """
        if scores.shape[-1] != len(self):
            raise InvalidInput(
                f"limits: got {len(self)} for a vocabulary of {scores.shape[-1]} tokens"
            )
        limits: tuple[NDArray[np.floating], ...] = self.low, self.high
        if scores.dtype == torch.float32:
            limits = _rounded(self.low, np.inf), _rounded(self.high, -np.inf)
        ends = (torch.tensor(each, device=scores.device) for each in limits)
        return scores.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf).clamp(*ends)


def _rounded(values: FloatArray, towards: float) -> NDArray[np.float32]:
    """The nearest numbers in float32 that do not lie on the other side."""
    near = values.astype(np.float32)
    beyond = near < values if towards > 0 else near > values
    return np.where(beyond, np.nextafter(near, np.float32(towards)), near)


def learn_limits(
    generator: Generator,
    texts: Sequence[str],
    *,
    tokens: int,
    seed: int | None,
    template: str = PAPER,
    batch: int = 32,
) -> Limits:
    """The least and the greatest logit of each token that DP-Prompt meets on public documents.

    Parameters
    ----------
    texts : public documents, at least one, none of them to be sanitized
    tokens, template : those of the mechanism, see `DPPrompt`; here nothing is clipped, and the
        temperature is 1
    seed : of the draws
    batch : see `DPPrompt.sanitize`

    Raises
    ------
    InvalidInput : no texts, or a token without a finite logit

    References
    ----------
    Utpala et al. 2023, C.3 (minimum and maximum where Meehan et al. 2022 take quantiles).
    """
    prompts = DPPrompt(generator, temperature=1.0, tokens=tokens, template=template).prompts(texts)
    if not prompts:
        raise InvalidInput("texts: got none, expected public documents to learn the limits from")
    law = Sampled(seed=seed, keys=("limits",))
    low = torch.full((len(generator.sayable),), torch.inf, device=generator.device)
    high = -low

    def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
        finite = scores.isfinite()
        torch.minimum(low, scores.masked_fill(~finite, torch.inf).amin(0), out=low)
        torch.maximum(high, scores.masked_fill(~finite, -torch.inf).amax(0), out=high)
        return law(scores, numbers)

    for _ in generate(generator, prompts, choose, tokens=tokens, batch=batch):
        pass
    return Limits(*(each.double().cpu().numpy() for each in (low, high)))


def paper_loss(limits: Limits, temperature: float) -> float:
    """What one token tells, as in the paper: 2 max_i (h_i - l_i) / T.

    References
    ----------
    Utpala et al. 2023, Theorem 1.
    """
    temperature = check_epsilon(temperature, what="temperature")
    return float(2 * (limits.high - limits.low).max() / temperature)


def tight_loss(limits: Limits, temperature: float) -> float:
    """What one token tells at most, exactly: see the head of this module.

    In logarithms, and sums without one id from those before it and behind it: nothing cancels.
    """
    temperature = check_epsilon(temperature, what="temperature")
    low, high = limits.low / temperature, limits.high / temperature
    gained = high - np.logaddexp(high, _without_each(low))
    lost = low - np.logaddexp(low, _without_each(high))
    return float((gained - lost).max())


def _without_each(values: FloatArray) -> FloatArray:
    """ln of the sum of exp over all entries but one, for each one left out."""
    before = np.logaddexp.accumulate(np.concatenate([[-np.inf], values[:-1]]))
    behind = np.logaddexp.accumulate(np.concatenate([[-np.inf], values[:0:-1]]))[::-1]
    return np.asarray(np.logaddexp(before, behind))


# --- The guarantee ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guarantee:
    """What an output tells at most of the document that it was made from.

    Attributes
    ----------
    tokens : the public cap n, the token that ends an output included
    temperature : T
    paper_loss, tight_loss : of one token, in nats; infinite when withdrawn
    withdrawn : why there is no guarantee; "" when there is one
    """

    tokens: int
    temperature: float
    paper_loss: float
    tight_loss: float
    withdrawn: str = ""

    @property
    def epsilon_paper(self) -> float:
        """n times the paper's loss: 2 n max_i (h_i - l_i) / T."""
        return self.tokens * self.paper_loss

    @property
    def epsilon(self) -> float:
        """n times the tight loss."""
        return self.tokens * self.tight_loss


# --- The mechanism ------------------------------------------------------------------------------


class DPPrompt:
    """Paraphrases of documents by a language model, with local differential privacy.

    Parameters
    ----------
    generator : causal or encoder-decoder, not trained on the private documents. It is asked by
        its chat template where it has one.
    temperature : finite number >= LEAST_TEMPERATURE
    tokens : the public cap on an output, one number for all documents; the token that ends an
        output counts
    limits : of this generator, see `learn_limits`; without them the guarantee is withdrawn
    template : what is asked, with {text} where the document stands
    top_k : only with `ablation`: draw from the k largest logits (and those equal to the last)
    ablation : the run is to show what top-k does; the guarantee is withdrawn

    Notes
    -----
    Any token of the tokenizer can be drawn, special ones included; of these one ends the output
    and the others are left out of the text. Rows of the model's table that stand for no token
    are never drawn. Reading the tokens as a text is post-processing.

    In bfloat16 the logits of a document differ in their last digits with the other documents in
    its batch. Each is bounded all the same, but to be exact a document may cost its epsilon once
    for every output of its batch: with `batch=1` every output depends on its own document only.

    References
    ----------
    Utpala et al. 2023, Algorithm 1 and Theorem 1.
    """

    name = "dp-prompt"
    claim = Claim(
        definition="local differential privacy: P(M(x)=y) <= exp(eps) * P(M(x')=y) for any two "
        "documents x, x' and every output y, with eps the sum over at most n tokens",
        protects="a whole document against any other that the model can read; one that is longer "
        "than its context is refused, which shows",
        unit="none: epsilon bounds a log-ratio, in nats",
        in_clear="the number of documents; the length of an output, up to the cap, is drawn with "
        "it and is part of what epsilon covers",
        unknown="none: every text has tokens",
        composition="sum over the tokens of an output and over repeated queries",
    )

    @checked(top_k=(None, COUNT))
    def __init__(
        self,
        generator: Generator,
        *,
        temperature: float,
        tokens: int,
        limits: Limits | None = None,
        template: str = PAPER,
        top_k: int | None = None,
        ablation: bool = False,
    ) -> None:
        if isinstance(tokens, Sequence | np.ndarray) or callable(tokens):
            raise InvalidInput(
                f"tokens: got {type(tokens).__name__}, expected one integer for all documents: "
                "a cap that depends on the private text tells of it"
            )
        check_count(tokens, what="tokens")
        if template.count("{text}") != 1:
            raise InvalidInput(f"template: got {template!r}, expected one {{text}} in it")
        if top_k is not None and not ablation:
            raise InvalidInput(
                f"top_k: got {top_k}, expected None: {SUPPORT}; ablation=True lets it pass "
                "and withdraws the guarantee"
            )
        if limits is not None and len(limits) != len(generator.sayable):
            raise InvalidInput(
                f"limits: got {len(limits)} for the {len(generator.sayable)} tokens of "
                f"{generator.name}; learn them with the same generator"
            )
        self.generator, self.limits, self.template = generator, limits, template
        self.temperature = check_epsilon(temperature, what="temperature")
        if self.temperature < LEAST_TEMPERATURE:
            raise InvalidInput(
                f"temperature: got {self.temperature!r}, expected at least {LEAST_TEMPERATURE:g}: "
                "below it logits over the temperature leave float32"
            )
        self.tokens, self.top_k = int(tokens), top_k

    @property
    def guarantee(self) -> Guarantee:
        """Of one output per document; see `Guarantee`."""
        if self.limits is None or self.top_k is not None:
            unbounded = "the logits are not clipped, and no public bound of them is used"
            cut = f"top_k = {self.top_k}: {SUPPORT}"
            withdrawn = unbounded if self.top_k is None else cut
            return Guarantee(self.tokens, self.temperature, np.inf, np.inf, withdrawn)
        paper, tight = (loss(self.limits, self.temperature) for loss in (paper_loss, tight_loss))
        return Guarantee(self.tokens, self.temperature, paper, tight)

    def log_weights(self, scores: torch.Tensor) -> torch.Tensor:
        """The law of the next token up to a constant, ln: (rows, vocabulary), in float32 or 64.

        `scores` of that shape and type are what the model gives for the tokens `generator.sayable`.
        """
        clipped = scores if self.limits is None else self.limits.clip(scores)
        heated = clipped / self.temperature
        if self.top_k is None:
            return heated
        least = heated.topk(min(self.top_k, heated.shape[1]), dim=1).values[:, -1:]
        return heated.masked_fill(heated < least, -torch.inf)

    def moved_by_clipping(self, scores: torch.Tensor) -> tuple[FloatArray, FloatArray]:
        """What the limits do to the law of the next token: (rows,) twice.

        The share of the scores (see `log_weights`) that they change, and the probability that this
        moves from some tokens to others (total variation), without regard to top-k.
        """
        if self.limits is None:
            raise InvalidInput("limits: got none, expected a mechanism that clips")
        clipped = self.limits.clip(scores)
        changed = (clipped != scores).float().mean(1)
        free, bound = (
            torch.softmax(each.float() / self.temperature, 1) for each in (scores, clipped)
        )
        moved = (bound - free).abs().sum(1) / 2
        return changed.double().cpu().numpy(), moved.double().cpu().numpy()

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """What the model is asked for each document, as tokens."""
        ask = self.generator.ask
        return [ask(self.template.replace("{text}", text)) for text in check_texts(texts)]

    def sanitize(
        self,
        texts: Sequence[str],
        seed: int | None = None,
        *,
        batch: int = 32,
    ) -> list[str]:
        """One paraphrase per document.

        Parameters
        ----------
        texts : documents; the empty one is asked about like any other
        seed : integer >= 0, with the warning `SeededOutput`: who knows it can undo the output.
            None: the operating system's entropy
        batch : documents that are run together

        Raises
        ------
        InvalidInput : a document that does not fit the context
        """
        return sanitize_at([self], texts, seed, batch=batch)[0]

    @property
    def _settings(self) -> str:
        """All that the law of an output depends on."""
        generator, limits = self.generator, self.limits and self.limits.digest
        model = [generator.name, generator.digest, str(generator.dtype), generator.device.type]
        # None: there was a cap on documents, and every stream has the name of these settings.
        own = [self.template, None, self.temperature, self.tokens, limits, self.top_k]
        return canonical_json([*model, *own])


def sanitize_at(
    mechanisms: Sequence[DPPrompt],
    texts: Sequence[str],
    seed: int | None = None,
    *,
    batch: int = 32,
    watch: Callable[[int, torch.Tensor, IntArray], None] | None = None,
) -> list[list[str]]:
    """Paraphrases by several mechanisms that differ in temperature, limits or top-k only.

    Every document is read once for all of them. Each output is drawn as by the mechanism's own
    `sanitize` with this seed.

    Parameters
    ----------
    mechanisms : at least one, with the same generator, template and `tokens`
    texts, seed, batch : see `DPPrompt.sanitize`; `batch` counts outputs
    watch : is shown, before every draw, the number of a mechanism, the scores that it draws from
        and of which document each row is; what it sees is private

    Returns
    -------
    of every mechanism, one paraphrase per document

    Raises
    ------
    InvalidInput : no mechanism, or some that ask differently; see `DPPrompt.sanitize`
    """
    asked = {(id(m.generator), m.template, m.tokens) for m in mechanisms}
    if len(asked) != 1:
        raise InvalidInput(
            f"mechanisms: got {len(mechanisms)} that ask in {len(asked)} ways, expected at least "
            "one, all with the same generator, template and tokens"
        )
    if seed is not None:
        warn_of("seed")
    first, count = mechanisms[0], len(mechanisms)
    laws = [Sampled(seed=seed, keys=("dp-prompt", mechanism._settings)) for mechanism in mechanisms]

    def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
        result = np.empty(len(numbers), dtype=np.int64)
        for which in np.unique(numbers % count).tolist():
            rows = np.flatnonzero(numbers % count == which)
            own, documents = scores[torch.from_numpy(rows)], numbers[rows] // count
            if watch is not None:
                watch(which, own, documents)
            result[rows] = draw(mechanisms[which].log_weights(own), laws[which].streams(documents))
        return result

    prompts = [prompt for prompt in first.prompts(texts) for _ in mechanisms]
    outputs: list[list[int]] = [[] for _ in prompts]
    for numbers, sequences in generate(
        first.generator, prompts, choose, tokens=first.tokens, batch=batch
    ):
        for number, output in zip(numbers.tolist(), sequences, strict=True):
            outputs[number] = output
    return [first.generator.say(outputs[which::count]) for which in range(count)]
