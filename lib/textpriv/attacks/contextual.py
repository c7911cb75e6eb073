"""The contextual Bayesian attack of Tong et al. and its K-ASR bound: a detector of contexts.

    attack = ContextualBayes(mechanism, shadow, context_free=free, reader=Reader(encoder))
    attack.detector.curve                              # held-out accuracy along the training
    attack.guess(observed, targets)                    # joint P(x) P(y|x) times D, ranked

For a sanitized token y in its sanitized sentence c the attack takes the K words x with the
largest context-free score P(y|x) P(x), and multiplies each score by D(c, x): the probability,
by a fine-tuned encoder that reads the sanitized sentence and the same sentence with x in
place of y, that c is what the mechanism made of a context of x. The encoder is trained on
sanitized copies of sentences in clear, the attacker's shadow data; `training_pairs` has the
rule. The bound is the same with the private sentences as training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from textpriv.attacks.base import (
    NONE,
    Attack,
    BoolArray,
    FloatArray,
    Guesses,
    IntArray,
    Observed,
    check_targets,
    is_sensitive,
    observe,
    padded,
)
from textpriv.checks import COUNT, check_kind, checked
from textpriv.data.tokens import Corpus, check_corpus, ranges
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism
from textpriv.models import (
    Encoder,
    LearningCurve,
    Pieces,
    Rows,
    Training,
    by_length,
    endless,
    fine_tune,
    held_out_documents,
)
from textpriv.seeds import stream

Pooling = Literal["target", "first"]
HELD_OUT = 0.1  # share of the shadow documents that measure the detector and do not train it
MEASURED = 1000  # held-out pairs at most, so that measuring costs less than training
SECOND = 5  # segments of a pair from here on are its second sequence; see `Reader.rows`


@dataclass(frozen=True, eq=False)
class Pairs:
    """A token, a candidate for its original word, and whether it is the original: (pairs,)."""

    rows: IntArray  # numbers of tokens; a token's two pairs stand beside each other
    candidates: IntArray  # ids of words
    labels: BoolArray


def training_pairs(best: IntArray, truth: IntArray) -> Pairs:
    """The training data of the detector (Tong et al., section 4.3).

    Where the best context-free guess is right: (guess, 1) and (second guess, 0). Where it is
    wrong: (guess, 0) and (truth, 1). Labels are balanced, but for tokens that have a single
    candidate, which is right and gives its first pair only.

    `best` are the two best context-free guesses (tokens, 2), NONE where there is no second, `truth`
    the original words (tokens,).
    """
    is_right = best[:, 0] == truth
    other = np.where(is_right, best[:, 1], truth)
    candidates = np.stack([best[:, 0], other], axis=1).ravel()
    labels = np.stack([is_right, ~is_right], axis=1).ravel()
    present = np.flatnonzero(candidates != NONE)
    return Pairs(present // 2, candidates[present], labels[present])


# --- The detector -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reader:
    """How a detector reads.

    Parameters
    ----------
    encoder : pretrained; see `textpriv.models`
    window : words on either side of the token; None: the whole sentence, as in the paper
    pooling : what the linear layer sees. "first": the state of the opening token, through a
        layer with tanh (BERT's pooled output, as in the paper). "target": the states of the
        token and of its candidate, which spares the encoder to learn where to look.
    """

    encoder: Encoder
    window: int | None = None
    pooling: Pooling = "target"

    def rows(self, pieces: Pieces, positions: IntArray, candidates: IntArray) -> Rows:
        """Sanitized sentence and the same with a candidate in place of the token, as WordPieces.

        Segments: 0 opening, 1 before, 2 token, 3 after, 4 end; 5 before, 6 candidate, 7 after,
        8 end. A sentence that is too long for the encoder loses what is farthest away.
        """
        count = len(positions)
        token, candidate = pieces.tokens(positions), pieces.words(candidates)
        room = (self.encoder.longest - 3 - token[1] - candidate[1]) // 2
        before, after = pieces.around(positions, window=self.window, room=room)
        first, last = pieces.special("first", count), pieces.special("last", count)
        return pieces.rows([first, before, token, after, last, before, candidate, after, last])


class Detector(torch.nn.Module):
    """D(c, x): an encoder that reads a pair of sentences, and a linear layer.

    The reader's encoder is taken as it is and trained in place (see `fit`), `words` are the
    vocabulary, `seed` is of the new layers.
    """

    curve: LearningCurve
    tested: int  # pairs that the curve's accuracies are shares of

    def __init__(self, reader: Reader, words: Sequence[str], *, seed: int = 0) -> None:
        super().__init__()
        encoder = reader.encoder
        self.reader, self.encoder, self.words = reader, encoder, tuple(words)
        self.body = encoder.body
        width = encoder.width
        inputs = width if reader.pooling == "first" else 2 * width
        with torch.random.fork_rng():
            torch.manual_seed(int(stream(seed, "detector").integers(2**62)))
            self.pooler = torch.nn.Linear(inputs, width)
            self.classifier = torch.nn.Linear(width, 1)
        for layer in (self.pooler, self.classifier):
            torch.nn.init.zeros_(layer.bias)
        self.to(encoder.device)

    def forward(self, rows: Rows) -> torch.Tensor:
        """log odds of label 1: (rows,)."""
        columns = [np.zeros(len(rows.ids), dtype=np.int64)]
        if self.reader.pooling == "target":
            columns = [rows.first(2), rows.first(6)]
        at = np.stack(columns, axis=1)
        row = np.repeat(np.arange(len(at)), at.shape[1])
        is_second = rows.segments >= SECOND
        seen = self.encoder.states_at(rows, row, at.ravel(), types=is_second).view(len(at), -1)
        pooled = torch.tanh(self.pooler(seen.float()))
        return self.classifier(pooled)[:, 0]

    @classmethod
    def fit(
        cls,
        reader: Reader,
        words: Sequence[str],
        observed: Observed,
        pairs: Pairs,
        *,
        held_out: BoolArray,
        training: Training,
        start: Detector | None = None,
        seed: int = 0,
    ) -> Detector:
        """Fine-tune a copy of the encoder; `curve` has the held-out accuracy along the way.

        Parameters
        ----------
        observed, pairs : sanitized sentences, and the training data, whose `rows` are numbers of
            the observed targets
        held_out : (targets,) tokens whose pairs do not train; the first 1,000 of these pairs
            measure the accuracy
        training : rows per step are pairs; both pairs of a token are in one step
        start : an earlier detector, of another epsilon for instance, to go on from
        """
        targets = observed.targets
        if held_out.shape != targets.shape or not held_out.any() or held_out.all():
            raise InvalidInput(
                f"held_out: got {int(held_out.sum())} of {held_out.shape}, expected some but not "
                f"all of the {len(targets)} targets"
            )
        copy = replace(reader, encoder=reader.encoder.clone(dropout=training.dropout))
        detector = cls(copy, words, seed=seed)
        if start is not None:
            detector.load_state_dict(start.state_dict())
        pieces = Pieces(reader.encoder.tokenizer, words, observed.corpus)
        groups = np.searchsorted(pairs.rows, np.arange(len(targets) + 1))  # a token's pairs
        tokens = np.flatnonzero(~held_out)
        order = endless(tokens, stream(seed, "detector", "order"))
        per_step = max(1, training.batch // 2)

        def loss(step: int) -> torch.Tensor:
            chosen = order(step * per_step, (step + 1) * per_step)
            drawn = ranges(groups[chosen], groups[chosen + 1] - groups[chosen])
            positions, candidates = targets[pairs.rows[drawn]], pairs.candidates[drawn]
            labels = pairs.labels[drawn].astype(np.float32)
            odds = detector(reader.rows(pieces, positions, candidates))
            return F.binary_cross_entropy_with_logits(odds, torch.from_numpy(labels).to(odds))

        tested = np.flatnonzero(held_out[pairs.rows])[:MEASURED]

        def measure() -> float:
            odds = detector._log_odds(pieces, targets[pairs.rows[tested]], pairs.candidates[tested])
            return float(((odds > 0) == pairs.labels[tested]).mean())

        detector.curve = fine_tune([detector], loss, training, seed=seed, measure=measure)
        detector.tested = len(tested)
        return detector

    def probability(
        self, observed: Observed, positions: IntArray, candidates: IntArray
    ) -> FloatArray:
        """Probability of label 1 for aligned positions and candidate words: (positions,)."""
        pieces = Pieces(self.encoder.tokenizer, self.words, observed.corpus)
        return 1.0 / (1.0 + np.exp(-self._log_odds(pieces, positions, candidates)))

    @torch.inference_mode()
    def _log_odds(self, pieces: Pieces, positions: IntArray, candidates: IntArray) -> FloatArray:
        odds = np.empty(len(positions))
        room = np.full(len(positions), self.encoder.longest)
        before, after = pieces.around(positions, window=self.reader.window, room=room)
        lengths = 2 * (before[1] + after[1]) + pieces.tokens(positions)[1]
        for batch in by_length(lengths + pieces.words(candidates)[1], 64):
            rows = self.reader.rows(pieces, positions[batch], candidates[batch])
            odds[batch] = self(rows).double().cpu().numpy()
        return odds


# --- The attack ---------------------------------------------------------------------------------


class ContextualBayes(Attack):
    """Context-free candidates, weighed by a detector that was trained on shadow data.

    Parameters
    ----------
    mechanism : what the attacker knows and runs on the shadow data
    shadow : sentences in clear, of the kind of the private ones, disjoint from them
    context_free : gives candidates with scores proportional to (P(x) + 1/alpha) P(y|x)
    reader : how the detector reads
    training : of the detector; None: three epochs as in the paper, with its optimizer
    copies : sanitized copies of the shadow data; fewer are made where the training uses fewer
    start : see `Detector.fit`
    seed : of sanitizing, of the order and of the network's new layers

    Attributes
    ----------
    candidates : K >= 1; more than a token has is no error, its further places stay empty. With
        K = 1 this is the context-free attack, by definition.

    After Tong et al. 2025, section 4.3, equations 11 and 12, appendix F.2. Other than in the
    released code, words of any length stay in both sentences, and these differ in one word.
    """

    name = "contextual-bayes"
    candidates = 10

    @checked(copies=COUNT)
    def __init__(
        self,
        mechanism: Mechanism,
        shadow: Corpus,
        *,
        context_free: Attack,
        reader: Reader,
        training: Training | None = None,
        copies: int = 100,
        start: Detector | None = None,
        seed: int = 0,
    ) -> None:
        check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
        check_corpus(shadow, mechanism.size, mechanism.vocabulary, what="shadow")
        is_held = held_out_documents(len(shadow), HELD_OUT, seed)
        self.context_free, self.vocabulary = context_free, mechanism.vocabulary
        sensitive = int(is_sensitive(mechanism, shadow).sum())
        if training is not None:
            used = -(-training.steps * training.batch // 2)
            copies = min(copies, max(1, -(-used // sensitive)))
        clear = repeat(shadow, copies)
        observed = observe(mechanism, clear, stream(seed, "shadow copies"))
        targets = observed.targets
        best = context_free.guess(observed, targets, top=2).words
        pairs = training_pairs(best, clear.ids[targets])
        if training is None:
            steps = 3 * len(pairs.rows) // 32 + 1
            training = Training(
                steps=steps, schedule="tenths", dropout=0.1, marks=10, from_start=True
            )
        self.detector = Detector.fit(
            reader,
            mechanism.embedding.words,
            observed,
            pairs,
            held_out=is_held[clear.document[targets] % len(shadow)],
            training=training,
            start=start,
            seed=seed,
        )

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        judged = self.judged(observed, positions, self.candidates, only_best=top == 1)
        return weigh(*judged, top=top)

    def judged(
        self,
        observed: Observed,
        targets: IntArray | None,
        candidates: int,
        *,
        only_best: bool = False,
    ) -> tuple[Guesses, FloatArray]:
        """The best context-free guesses, and the detector's probability of each.

        With `only_best` a guess is not read, and has probability 0, once it cannot become the best
        any more: a probability is at most 1, so that a guess whose own score does not exceed the
        product of an earlier one has lost. The best guess is the same, of the first k too.
        """
        positions = check_targets(observed, targets, self.vocabulary)
        before = self.context_free.guess(observed, positions, top=candidates)
        weights = np.zeros(before.words.shape)
        best = np.full(len(positions), -np.inf)
        width = before.words.shape[1]
        together = 1 if only_best else max(1, width)  # columns that are read at a time
        for start in range(0, width, together):
            part = slice(start, start + together)
            can_win = before.scores[:, part] > best[:, None]
            rows, columns = np.nonzero((before.words[:, part] != NONE) & can_win)
            weights[rows, start + columns] = self.detector.probability(
                observed, positions[rows], before.words[rows, start + columns]
            )
            if only_best:
                products = before.scores[rows, start] * weights[rows, start]
                best[rows] = np.maximum(best[rows], products)
        return before, weights


class ContextualBound(ContextualBayes):
    """The contextual K-ASR bound: the attack with the private sentences as its shadow data.

    It is called with `shadow` the private sentences and `context_free` the context-free bound
    (P(x) of the private sentences, no constant). The detector sees other sanitized copies of
    the private sentences than the one under attack. In spite of its name it bounds no attacker: it
    is what one trained detector achieves in place of the exact P(c|x, y) of Theorem 2 (Tong et al.
    2025, Definition 2 and appendix F.1: 30 copies).
    """

    name = "contextual-bound"


def weigh(guesses: Guesses, weights: FloatArray, *, top: int) -> Guesses:
    """Guesses in the order of score times weight, the first `top` of them.

    `weights` (targets, candidates) are >= 0, as scores are; what stands beside NONE does not
    matter, and NONE fills up what exceeds the candidates.
    """
    present = guesses.words != NONE
    scores = np.full(weights.shape, -np.inf)
    np.multiply(guesses.scores, weights, out=scores, where=present)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    words = np.take_along_axis(guesses.words, order, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    return padded(words, ranked, top)


def repeat(corpus: Corpus, times: int) -> Corpus:
    """The documents of a corpus, `times` over: document i is i % len(corpus) of the original."""
    return corpus.subset(np.tile(np.arange(len(corpus)), times))
