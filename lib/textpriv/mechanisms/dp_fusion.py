"""DP-Fusion: a language model's words, held near those that it would write without the secrets.

    mechanism = DPFusion(generator, bound=0.2, order=2, tokens=48)
    mechanism.sanitize(["Ann Lee is ill."], ["_ _ is ill."], seed)    # documents, their redactions

For every next token the model is asked twice: with the document, whose law is p, and with its
redaction, whose law is r. The token is drawn from q = weight p + (1 - weight) r with the largest
weight that keeps max(D(q || r), D(r || q)) at or below the bound, D being the Renyi divergence of
an order.

What that bounds is how far an output is from one of the *redaction*. Two documents with the same
redaction are each near it, and are as near to each other as a triangle inequality allows. Where the
order is infinite, |ln q/r| <= bound for both gives |ln q/q'| <= 2 bound. At a finite order a there
is one of a lower order (Mironov 2017, Proposition 11, with p = 2 - 1/a): the divergence of order
a^2 / (2a - 1) is at most (2a - 1) / (a - 1) bound; for a = 2, order 4/3 and 3 bound. There is none
of the same order. Let a token have probability t under r, and let one document say nothing else and
another never say it. At order 2 the mixtures give it about sqrt(bound t) and t^2 / bound: both lie
within the bound of r, and from each other they lie about ln(bound^2 / t) apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from textpriv.channel import IntArray
from textpriv.checks import COUNT, POSITIVE, check_texts, checked
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import Claim, warn_of
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.models.generators import Generator, Sampled, draw, generate_both
from textpriv.models.rows import by_length

TEMPLATE = "Document: {text}\nParaphrase of the document:"
_STEPS = 60  # of the search for a weight, most of which take fewer than ten
_NEAR = 1e-8  # share of what the bound allows that a search may leave unused
_ROWS = 8  # of laws at once in a search: they stay in the processor's cache


class DPFusion:
    """Paraphrases by a language model whose every token is nearly that of the redacted document.

    Parameters
    ----------
    generator : not trained on the private documents
    bound : > 0, in nats: largest divergence, either way, of a token's law from the redaction's
    order : > 1 of the Renyi divergence; infinite: of the log-ratio itself
    tokens : the public cap on an output
    template : what is asked, with {text} where the document stands

    Notes
    -----
    Redactions are read apart from the documents, in batches made by their own lengths, so that two
    documents with one redaction meet the same law of it to the last bit: in one batch with the
    documents, bfloat16 moved its log-probabilities by up to 0.4 when a name was swapped. Weights
    and sums are in float64; their rounding is left out of account.

    References
    ----------
    Mironov 2017, Renyi Differential Privacy. Thareja, Nakov, Vepakomma, Lukas 2025, DP-Fusion:
    Token-Level Differentially Private Inference for Large Language Models. Their bound is called
    alpha beta (here: order times beta); their library takes order 2, one group of secrets by
    default, and raises every probability to at least 1e-10 before it compares. Their research
    script bounds the divergence by beta alone and has a group for each kind of secret.
    """

    name = "dp-fusion"
    claim = Claim(
        definition=(
            "for two documents with one redaction: of infinite order P(M(x)=y) <= "
            "exp(2 n bound) * P(M(x')=y) for every output y; of finite order a a Renyi divergence "
            "of order a^2 / (2 a - 1) of at most n (2 a - 1) / (a - 1) bound, and no epsilon "
            "without delta"
        ),
        protects="the secrets of a document against any others in their place",
        unit="none: the bound is one of log-ratios or of divergences, in nats",
        in_clear="all that the redaction shows: every word that is no secret, and where secrets "
        "stand",
        unknown="none: every text has tokens",
        composition="sum over the tokens of an output and over repeated queries",
    )
    published: Claim | None = Claim(
        definition=(
            "Renyi divergence of at most 4 bound / order for each token of two documents that "
            "differ in their secrets, summed over tokens and turned into (eps, delta)"
        ),
        protects="the secrets of a document against any others in their place",
        unit=claim.unit,
        in_clear=claim.in_clear,
        unknown=claim.unknown,
        composition=claim.composition,
    )

    @checked(bound=POSITIVE, tokens=COUNT)
    def __init__(
        self,
        generator: Generator,
        *,
        bound: float,
        order: float = 2.0,
        tokens: int,
        template: str = TEMPLATE,
    ) -> None:
        if not order > 1:
            raise InvalidInput(f"order: got {order!r}, expected a number > 1, or infinity")
        self.generator, self.bound, self.order = generator, float(bound), float(order)
        self.tokens = int(tokens)
        self._asks = DPPrompt(generator, temperature=1.0, tokens=tokens, template=template)

    @property
    def epsilon(self) -> float:
        """For two documents with one redaction, whatever their secrets; inf at a finite order."""
        return 2 * self.tokens * self.bound if np.isinf(self.order) else np.inf

    @property
    def published_loss(self) -> float:
        """What one token of two such documents is said to differ by, in divergence."""
        return 4 * self.bound / self.order

    def log_law(self, private: torch.Tensor, redacted: torch.Tensor) -> torch.Tensor:
        """ln q of the next token from the scores of both: float64 (rows, vocabulary)."""
        p, r = (torch.log_softmax(each.double(), dim=1) for each in (private, redacted))
        weight = largest_weight(p, r, bound=self.bound, order=self.order)[:, None]
        return torch.logaddexp(weight.log() + p, torch.log1p(-weight) + r)

    def sanitize(
        self,
        texts: Sequence[str],
        redacted: Sequence[str],
        seed: int | None = None,
        *,
        batch: int = 32,
    ) -> list[str]:
        """One paraphrase per document.

        Parameters
        ----------
        texts, redacted : documents, and what of each may be known
        seed : integer >= 0, with the warning `SeededOutput`; None: the system's entropy
        batch : prompts that are run together, two for a document; an output depends, by rounding,
            on the redactions in its batch

        Raises
        ------
        InvalidInput : not one redaction for each document; one that does not fit the context
        """
        prompts = self._pairs(texts, redacted)
        if seed is not None:
            warn_of("seed")
        # The temperature, 1.0, is a part of the name of every stream.
        law = Sampled(seed=seed, keys=("dp-fusion", self.bound, self.order, 1.0))

        outputs: list[list[int]] = [[] for _ in prompts]
        lengths = np.array([len(shown) for _, shown in prompts], dtype=np.int64)
        for part in by_length(lengths, max(1, batch // 2)):

            def choose(
                private: torch.Tensor, shown: torch.Tensor, rows: IntArray, part: IntArray = part
            ) -> IntArray:
                return draw(self.log_law(private, shown), law.streams(part[rows]))

            known, shown = ([prompts[row][side] for row in part.tolist()] for side in (0, 1))
            made = generate_both(self.generator, known, shown, choose, tokens=self.tokens)
            for row, output in zip(part.tolist(), made, strict=True):
                outputs[row] = output
        return self.generator.say(outputs)

    def laws_along(self, text: str, redacted: str, output: str) -> torch.Tensor:
        """ln q before each token of an output, its end included: float64 (tokens, vocabulary).

        The output is read anew, so that its tokens may be others than were drawn.
        """
        said = [*self.generator.encode([output])[0], self.generator.end][: self.tokens]
        columns = np.searchsorted(self.generator.sayable, said)
        laws: list[torch.Tensor] = []

        def follow(private: torch.Tensor, shown: torch.Tensor, _: IntArray) -> IntArray:
            laws.append(self.log_law(private, shown))
            return columns[len(laws) - 1 : len(laws)]

        ((private, shown),) = self._pairs([text], [redacted])
        generate_both(self.generator, [private], [shown], follow, tokens=len(said))
        return torch.cat(laws)

    def _pairs(
        self, texts: Sequence[str], redacted: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        known, shown = check_texts(texts), check_texts(redacted, what="redacted")
        if len(known) != len(shown):
            raise InvalidInput(f"redacted: got {len(shown)} texts, expected {len(known)}, as texts")
        return list(zip(self._asks.prompts(known), self._asks.prompts(shown), strict=True))


def divergence(first: torch.Tensor, second: torch.Tensor, *, order: float) -> torch.Tensor:
    """The larger Renyi divergence of two laws, either way: (rows,) from ln P (rows, columns)."""
    apart = first - second
    if np.isinf(order):
        return apart.abs().amax(1)
    towards = torch.logsumexp(first + (order - 1) * apart, dim=1)
    back = torch.logsumexp(second - (order - 1) * apart, dim=1)
    return torch.maximum(towards, back).clamp(min=0) / (order - 1)


def largest_weight(
    private: torch.Tensor, redacted: torch.Tensor, *, bound: float, order: float
) -> torch.Tensor:
    """The largest weight of the private law in a mixture that stays within the bound: (rows,).

    At infinite order in closed form, from the largest and the least ratio p/r. At a finite one by a
    search between two ends: f = exp((order - 1) D) is convex in the weight and least at 0, where it
    is 1, either way, so that the divergences grow with it. The weight is the lower end, which keeps
    the bound; where f is within a share t of the limit, the weight is within t of the largest, as
    the slope there is at least that of the chord from 0.

    Parameters
    ----------
    private, redacted : ln p and ln r, float64 (rows, columns), finite
    bound, order : see `DPFusion`
    """
    ratio = (private - redacted).exp()  # may overflow to inf, which leaves the weight 0
    if np.isinf(order):
        above = np.expm1(bound) / (ratio.amax(1) - 1).clamp(min=0)
        below = -np.expm1(-bound) / (1 - ratio.amin(1)).clamp(min=0)
        return torch.minimum(above, below).clamp(max=1 - 1e-12)  # of ratios of 1: 1/0, hence 1
    parts = zip(ratio.split(_ROWS), redacted.split(_ROWS), strict=True)
    return torch.cat([_searched(*each, bound=bound, order=order) for each in parts])


def _searched(
    ratio: torch.Tensor, redacted: torch.Tensor, *, bound: float, order: float
) -> torch.Tensor:
    """The largest weight at a finite order, for a few rows that stay in the processor's cache."""
    limit, r, excess = float(np.exp((order - 1) * bound)), redacted.exp(), ratio - 1
    squared = (r * excess**2).sum(1) if order == 2 else None

    def reached(weight: torch.Tensor) -> torch.Tensor:
        """exp((order - 1) D), the larger of both directions; inf where a token is impossible."""
        mixed = 1 + weight[:, None] * excess
        power = mixed if order == 2 else mixed ** (order - 1)
        back = (r / power).sum(1)
        if squared is not None:  # the mean of the squared ratio, 1 + weight^2 var
            return torch.maximum(1 + weight**2 * squared, back)
        return torch.maximum((r * mixed * power).sum(1), back)

    low = torch.zeros(len(ratio), dtype=torch.float64, device=ratio.device)
    high = torch.ones_like(low)
    at_low, at_high = torch.ones_like(low), reached(high)
    keeps_all = at_high <= limit
    # Of 1 / f, which is finite at a pole, and nearly straight before one.
    below, above = 1 / at_low - 1 / limit, 1 / at_high - 1 / limit
    for step in range(_STEPS):
        if bool((keeps_all | (limit - at_low <= _NEAR * (limit - 1))).all()):
            break
        chord = low + (high - low) * below / (below - above)
        middle = (low + high) / 2 if step % 4 == 3 else chord
        at_middle = reached(middle)
        keeps, value = at_middle <= limit, 1 / at_middle - 1 / limit
        # An end that stays weighs half in the next chord (Illinois), so that both move.
        below, above = torch.where(keeps, value, below / 2), torch.where(keeps, above / 2, value)
        low, high = torch.where(keeps, middle, low), torch.where(keeps, high, middle)
        at_low = torch.where(keeps, at_middle, at_low)
    return torch.where(keeps_all, 1.0, low).clamp(max=1 - 1e-12)
