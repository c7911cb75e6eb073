"""Inversion BERT: an encoder learns from shadow pairs what stood in place of a sanitized word.

    attack = InversionBert(mechanism, shadow, encoder=encoder, training=Training(steps=1000))
    attack.curve                                       # held-out accuracy along the training
    attack.guess(observed, targets)                    # words by score

The encoder reads the sanitized sentence; its state at a sanitized token, through the masked-LM
head, is compared with the vectors of words, and softmax over the classes is trained to name
the original. One model serves all tokens (`classes` says what it chooses from), and a
sentence is read once for all its tokens. `InversionPerToken` is the form that Tong et al. run,
a classifier for each output that reads the output alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from textpriv.attacks.base import (
    NONE,
    Attack,
    Guesses,
    IntArray,
    Observed,
    TokenAttack,
    is_input,
    is_sensitive,
    observe,
)
from textpriv.attacks.contextual import repeat
from textpriv.channel import Channel
from textpriv.checks import COUNT, StrOptions, check_kind, checked
from textpriv.data.tokens import Corpus, check_corpus, ranges
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Mechanism
from textpriv.models import (
    BoolArray,
    Encoder,
    LearningCurve,
    Pieces,
    Training,
    autocast,
    endless,
    fine_tune,
    held_out_documents,
    pieces_of,
)
from textpriv.seeds import stream

HELD_OUT = 0.1  # share of the shadow documents that measure the accuracy and do not train
POOLED = 8  # batches whose sentences are sorted by length
MEASURED = 200  # held-out sentences at most, so that measuring costs less than training
Classes = Literal["possible", "vocabulary"]


class InversionBert(Attack):
    """Names the original word of a sanitized token by its state in the sanitized sentence.

    Parameters
    ----------
    mechanism : what the attacker runs on the shadow data
    shadow : sentences in clear, of the kind of the private ones, disjoint from them
    encoder : pretrained, best a masked LM (its head is trained further); left as it is
    classes : what the softmax chooses from. "vocabulary": all words that the mechanism
        replaces, as in Kugler et al.; nothing is known of the mechanism but its outputs.
        "possible": for each token the inputs that can give it, P(y|x) > 0, which are the classes
        of the classifier per token that Tong et al. train (`InversionPerToken`)
    training : `batch` counts sentences
    seed : of sanitizing and of the order

    Attributes
    ----------
    curve : held-out share of first guesses that are right, along the training

    Notes
    -----
    A word's vector is the mean of the vectors of its WordPieces and is not trained; its bias
    starts at the logarithm of its smoothed frequency in the shadow data and is trained. With
    some thousand shadow tokens most words are rare or never seen, so that a free row per class
    would learn nothing of them; tied vectors let the encoder name words that it never saw.

    References
    ----------
    Kugler et al. 2021, InvBERT; Tong et al. 2025, section 5.1 (baselines).
    """

    name = "inversion-bert"
    posterior = True
    copies = 10  # of the shadow data, sanitized; fewer where the training uses fewer
    limit = 256  # classes per token that are "possible", those with the largest P(y|x)

    @checked(classes=StrOptions({"possible", "vocabulary"}))
    def __init__(
        self,
        mechanism: Mechanism,
        shadow: Corpus,
        *,
        encoder: Encoder,
        training: Training,
        classes: Classes = "possible",
        seed: int = 0,
    ) -> None:
        check_kind(mechanism, Mechanism, what="mechanism", expected="one that replaces words")
        if classes == "possible" and not isinstance(mechanism, Channel):
            raise InvalidInput(
                f"classes: got 'possible' with {mechanism.name}, expected a mechanism whose P(y|x) "
                "is known and says which inputs an output has; use classes='vocabulary'"
            )
        check_corpus(shadow, mechanism.size, mechanism.vocabulary, what="shadow")
        is_held = held_out_documents(len(shadow), HELD_OUT, seed)
        self.channel = mechanism if isinstance(mechanism, Channel) else None
        self.words, self.vocabulary = mechanism.embedding.words, mechanism.vocabulary
        self.classes = classes
        self.encoder = encoder.clone(dropout=training.dropout)
        self._inputs = np.flatnonzero(is_input(mechanism))
        self._vectors = word_vectors(encoder, self.words)
        counts = np.bincount(shadow.ids[is_sensitive(mechanism, shadow)], minlength=len(self.words))
        bias = torch.from_numpy(np.log((counts + 1.0) / (counts + 1.0).sum())).float()
        self._bias = torch.nn.Embedding.from_pretrained(bias[:, None], freeze=False)
        self._bias.to(encoder.device)

        used = max(1, -(-training.steps * training.batch // len(shadow)))
        clear = repeat(shadow, min(self.copies, used))
        observed = observe(mechanism, clear, stream(seed, "shadow copies"))
        self.curve = self._train(clear.ids, observed, is_held, training, seed)

    def _train(
        self, truth: IntArray, observed: Observed, is_held: BoolArray, training: Training, seed: int
    ) -> LearningCurve:
        reader = _Reader(self, observed, observed.targets)
        is_tested = is_held[observed.corpus.document[reader.targets] % len(is_held)]
        passages = np.unique(reader.passage[~is_tested])
        measured = np.unique(reader.passage[is_tested])[:MEASURED]
        if not len(passages) or not len(measured):
            raise InvalidInput("shadow: expected sanitized tokens to train on and to hold out")
        order = endless(passages, stream(seed, "inversion", "order"))
        lengths = reader.pieces.stretch(reader.bounds[:-1], reader.bounds[1:])[1]

        def scored(batch: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
            rows, scores = reader.scores(batch)
            classes = reader.classes_of(rows)
            is_right = (classes == truth[reader.targets[rows], None]) & (classes != NONE)
            # A word beyond the limit of classes cannot be taught; held out, it is a failure.
            place = np.where(is_right.any(1), is_right.argmax(1), NONE)
            return scores, torch.from_numpy(place).to(scores.device)

        def loss(step: int) -> torch.Tensor:
            batch = batch_of_similar_length(order, lengths, training.batch, step, seed)
            return F.cross_entropy(*scored(batch), ignore_index=NONE)

        def measure() -> float:
            batches = np.array_split(measured, -(-len(measured) // 64))
            hits = [scores.argmax(1) == place for scores, place in map(scored, batches)]
            return float(torch.cat(hits).double().mean())

        modules = [self.encoder.model, self._bias]
        return fine_tune(modules, loss, training, seed=seed, measure=measure)

    @torch.inference_mode()
    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        ascending, back = np.unique(positions, return_inverse=True)
        reader = _Reader(self, observed, ascending)
        words = np.full((len(ascending), top), NONE, dtype=np.int64)
        logs = np.full((len(ascending), top), -np.inf)
        passages = np.unique(reader.passage)
        for start in range(0, len(passages), 64):
            rows, scores = reader.scores(passages[start : start + 64])
            log_share = F.log_softmax(scores.double(), dim=1)
            ranked, column = torch.topk(log_share, min(top, scores.shape[1]), dim=1)
            width = ranked.shape[1]
            logs[rows, :width] = ranked.cpu().numpy()
            words[rows, :width] = np.take_along_axis(
                reader.classes_of(rows), column.cpu().numpy(), axis=1
            )
        scores_of = np.where(words == NONE, -np.inf, np.exp(logs))
        return Guesses(words[back], scores_of[back])


class InversionPerToken(TokenAttack):
    """Inversion BERT as Tong et al. run it: a classifier for each output, which reads it alone.

    The input of such a classifier is the same in all its examples, so that all it can learn is
    how often each original stands behind the output. Where its cross-entropy is least, its
    probabilities are the shares of the originals among the sanitized copies of the shadow data;
    no network is needed to count them. A training that ends earlier knows less.

    Parameters
    ----------
    mechanism, shadow : see `InversionBert`
    copies : sanitized copies of the shadow data
    seed : of sanitizing

    Notes
    -----
    An output that no copy shows has no classifier and gets no guess, which counts as a failure,
    as in the released code, whose classifiers train on pairs of a sanitized token and its original
    for three epochs of 100 copies (Tong et al. 2025, section 2, "on a one-to-one basis"). With ever
    more copies the guess becomes that of `ContextFreeBayes` without its constant.
    """

    name = "inversion-bert-token"
    posterior = True

    @checked(copies=COUNT)
    def __init__(
        self, mechanism: Mechanism, shadow: Corpus, *, copies: int = 100, seed: int = 0
    ) -> None:
        clear = repeat(shadow, copies)
        observed = observe(mechanism, clear, stream(seed, "shadow copies"))
        self.vocabulary = mechanism.vocabulary
        shown = observed.targets[clear.ids[observed.targets] >= 0]
        size = len(mechanism.embedding)
        pairs = observed.corpus.ids[shown] * size + clear.ids[shown]
        pair, count = np.unique(pairs, return_counts=True)
        output, original = np.divmod(pair, size)
        ranked = np.lexsort((-count, output))
        self._output, self._original = output[ranked], original[ranked]
        self._share = (count / np.bincount(output, count)[output])[ranked]

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        first, last = (np.searchsorted(self._output, outputs, side) for side in ("left", "right"))
        place = first[:, None] + np.arange(top)
        is_seen = place < last[:, None]
        place = np.minimum(place, len(self._output) - 1)
        words = np.where(is_seen, self._original[place], NONE)
        return Guesses(words, np.where(is_seen, self._share[place], -np.inf))


class _Reader:
    """Sanitized sentences as rows, and the scores of the classes at their targets, ascending."""

    def __init__(self, attack: InversionBert, observed: Observed, targets: IntArray) -> None:
        self.attack, self.targets = attack, targets
        longest = attack.encoder.longest
        self.pieces = Pieces(attack.encoder.tokenizer, attack.words, observed.corpus)
        self.bounds = self.pieces.passages(longest)
        self.passage = np.searchsorted(self.bounds, targets, side="right") - 1
        self.column = 1 + self.pieces.stretch(self.bounds[self.passage], targets)[1]
        if attack.classes == "vocabulary":
            self.kind = np.zeros(len(targets), dtype=np.int64)
            self.classes = attack._inputs[None]
            self.vectors = attack._vectors[attack._inputs]
            return
        assert attack.channel is not None
        outputs, self.kind = np.unique(observed.corpus.ids[targets], return_inverse=True)
        uniform = np.zeros(len(attack.words))
        uniform[attack._inputs] = 1.0
        limit = min(attack.limit, len(attack._inputs))
        self.classes, _, _ = attack.channel.likeliest_inputs(outputs, uniform, limit)

    def classes_of(self, rows: IntArray) -> IntArray:
        """Words that the targets number `rows` may be, NONE beyond their number."""
        return self.classes[self.kind[rows]]

    def scores(self, passages: IntArray) -> tuple[IntArray, torch.Tensor]:
        """Numbers of the targets in these passages, and scores (targets, classes)."""
        attack, encoder = self.attack, self.attack.encoder
        first = np.searchsorted(self.passage, passages, side="left")
        count = np.searchsorted(self.passage, passages, side="right") - first
        rows = ranges(first, count)
        ends = [self.pieces.special(which, len(passages)) for which in ("first", "last")]
        inside = self.pieces.stretch(self.bounds[passages], self.bounds[passages + 1])
        read = self.pieces.rows([ends[0], inside, ends[1]])
        at = encoder.states_at(read, np.repeat(np.arange(len(passages)), count), self.column[rows])
        with autocast(encoder.device):
            asked = encoder.asked(at)
            if attack.classes == "vocabulary":
                scores = asked @ self.vectors.T
                return rows, scores.float() + attack._bias.weight[self.classes[0], 0]
        classes = self.classes_of(rows)
        used = max(1, int((classes != NONE).sum(1).max()))  # the first ones; NONE stands behind
        named = torch.from_numpy(np.maximum(classes[:, :used], 0)).to(encoder.device)
        scores = torch.einsum("nw,ncw->nc", asked.float(), attack._vectors[named])
        scores = scores + attack._bias(named)[..., 0]
        absent = torch.from_numpy(classes[:, :used] == NONE).to(encoder.device)
        return rows, scores.masked_fill(absent, -torch.inf)


def batch_of_similar_length(
    order: endless, lengths: IntArray, batch: int, step: int, seed: int
) -> IntArray:
    """Elements of step 0, 1, ...: as in `order`, but that little of a batch is padding.

    Of the elements of POOLED steps, those of similar length share a batch; the batches come in
    random order.
    """
    block, place = divmod(step, POOLED)
    pool = order(block * POOLED * batch, (block + 1) * POOLED * batch)
    pool = pool[np.argsort(lengths[pool], kind="stable")].reshape(POOLED, batch)
    turn = stream(seed, "inversion", "batches", block).permutation(POOLED)
    return np.asarray(pool[turn[place]])


def word_vectors(encoder: Encoder, words: Sequence[str]) -> torch.Tensor:
    """Mean of the vectors of every word's WordPieces: (words, width), without gradient."""
    pieces, bounds = (
        torch.from_numpy(each.copy()).to(encoder.device)
        for each in pieces_of(encoder.tokenizer, tuple(words))
    )
    with torch.no_grad():
        return F.embedding_bag(pieces, encoder.table, bounds[:-1], mode="mean")
