"""Utility: what a sentence classifier still achieves on manipulated text.

    states = features(encoder, corpus)                       # (documents, width)
    probe(states, labels, train, test).mean()                # accuracy of a linear classifier
    classifier = fine_tuned(encoder, corpus, labels, training=Training(steps=150))
    (classifier.predict(others) == truth).mean()             # accuracy of a trained encoder

A corpus here holds WordPieces of the encoder itself, as `textpriv.models.pieces.encode` makes them
and as maps and stencils leave them. On which text a classifier is trained is the caller's choice.
In the terms of Harel et al. (2024, section 2) it is scenario Test when trained on plain text and
asked about manipulated text, and scenario All when trained on manipulated text as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import COUNT, at_least, check_count, check_integers, checked
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.models import (
    BoolArray,
    Encoder,
    LearningCurve,
    Rows,
    Training,
    by_length,
    fine_tune,
    held_out_documents,
)
from textpriv.seeds import stream

C = 0.01  # of the probe: standardised states of some thousand documents need a strong penalty
SECOND = 3  # part of a row in which the second text of a pair begins
SORTED = 16  # batches whose documents are sorted by length together
BATCH = 64  # documents that a classifier is asked about at once
MEASURED = 1000  # held-out documents at most, so that measuring costs less than training


# --- Sequences ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sequences:
    """What the encoder reads of every document: a text or a pair, as `Encoder.framed` says.

    Parameters
    ----------
    pool : ids of all documents and what frames them
    starts, counts : (documents, parts) stretches of the pool: what opens, the text, what closes it,
        and of a pair the `SECOND` text and what closes that
    padding : id that fills up rows
    """

    pool: IntArray
    starts: IntArray
    counts: IntArray
    padding: int

    @property
    def lengths(self) -> IntArray:
        """Pieces of every document, special ones included."""
        return self.counts.sum(1)

    def rows(self, documents: IntArray) -> Rows:
        """These documents, padded to the longest of them."""
        spans = zip(self.starts[documents].T, self.counts[documents].T, strict=True)
        return Rows.from_pool(self.pool, list(spans), self.padding)


def sequences(
    encoder: Encoder, corpus: Corpus, second: Corpus | None = None, *, longest: int
) -> Sequences:
    """What the encoder reads of every document, cut to `longest` pieces; see `features`."""
    texts = {"corpus": corpus} if second is None else {"corpus": corpus, "second": second}
    special = encoder.framed(len(texts))
    added = sum(map(len, special))
    check_count(longest, added + len(texts), encoder.longest, what="longest")
    for what, text in texts.items():
        check_ids(text.ids, len(encoder.table), what=what)
    pool = np.concatenate(
        [np.array(sum(special, []), dtype=np.int64), *(text.ids for text in texts.values())]
    )
    every = np.ones(len(corpus), dtype=np.int64)
    starts, lengths = [0 * every], [len(special[0]) * every]
    frame, begin = len(special[0]), added
    kept = _kept(list(texts.values()), longest - added)
    for text, count, after in zip(texts.values(), kept, special[1:], strict=True):
        starts += [begin + text.offsets[:-1], frame * every]
        lengths += [count, len(after) * every]
        frame, begin = frame + len(after), begin + len(text.ids)
    padding = int(encoder.tokenizer.pad_token_id)
    return Sequences(pool, np.stack(starts, axis=1), np.stack(lengths, axis=1), padding)


def _kept(texts: list[Corpus], room: int) -> list[IntArray]:
    """How many pieces of each text stay; of a pair, each may use what the other leaves."""
    lengths = [np.diff(text.offsets) for text in texts]
    if len(lengths) == 1:
        return [np.minimum(lengths[0], room)]
    first = np.minimum(lengths[0], np.maximum(room - lengths[1], room - room // 2))
    return [first, np.minimum(lengths[1], room - first)]


# --- Features and a linear classifier -----------------------------------------------------------


@checked(batch=COUNT)
@torch.inference_mode()
def features(
    encoder: Encoder,
    corpus: Corpus,
    *,
    second: Corpus | None = None,
    longest: int = 128,
    batch: int = 64,
) -> NDArray[np.float32]:
    """Mean of the encoder's last hidden states over a document: (documents, width) float32.

    The states of [CLS] and [SEP] count, as they do in the sentence vectors for which
    all-MiniLM-L6-v2 and all-mpnet-base-v2 were trained. So an empty document has features too.

    Parameters
    ----------
    encoder : in evaluation mode
    corpus : ids of the encoder's vocabulary; special pieces are added here
    second : the second sentences of pairs, as many documents as in `corpus`; None: no pairs
    longest : pieces that are read of a document, special ones included: at least one of each
        text (3 for a BERT, of a pair 5), to the encoder's longest. What follows is cut off. In a
        pair the longer sentence is cut first.
    batch : documents of similar length that are read at once
    """
    read = sequences(encoder, corpus, second, longest=longest)
    result = np.empty((len(corpus), encoder.width), dtype=np.float32)
    for documents in by_length(read.lengths, batch):
        rows = read.rows(documents)
        result[documents] = encoder.pooled(rows, types=rows.segments >= SECOND).cpu().numpy()
    return result


def probe(
    features: NDArray[np.floating],
    labels: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
) -> BoolArray:
    """Whether a logistic regression, fitted to training rows, is right about each test row: bool.

    Features, (documents, width), are standardised by the training rows; the penalty is fixed (C =
    0.01). For scenario Test they are of plain text in the training rows and of manipulated text in
    the test rows. Labels are integers, of at least two classes in the training rows.
    """
    values = np.asarray(features, dtype=np.float64)
    truth = check_integers(labels, len(values), what="labels")
    rows = check_ids(train, len(values), what="train")
    asked = check_ids(test, len(values), what="test")
    if len(shared := np.intersect1d(rows, asked)):
        raise InvalidInput(f"train, test: got {len(shared)} rows in both, expected none")
    model = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000))
    model.fit(values[rows], truth[rows])
    correct: BoolArray = model.predict(values[asked]) == truth[asked]
    return correct


# --- A fine-tuned classifier --------------------------------------------------------------------


class Classifier(torch.nn.Module):
    """An encoder with a head that chooses one of several classes; `fine_tuned` trains it.

    The head is that of BERT and RoBERTa, a layer with tanh and a linear one, each after dropout,
    on the mean of the states: with MiniLM on Rotten Tomatoes the state of [CLS] does alike. T5 gets
    it in place of its decoder, which Harel et al. let write the name of the class.

    Parameters
    ----------
    encoder : taken as it is and trained in place
    classes : >= 2
    dropout, seed : of the head
    longest : see `features`
    """

    curve: LearningCurve

    @checked(classes=at_least(2))
    def __init__(
        self,
        encoder: Encoder,
        classes: int = 2,
        *,
        dropout: float = 0.0,
        longest: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.encoder, self.longest = encoder, longest
        self.body = encoder.body  # before the head, as the optimizer has them
        with torch.random.fork_rng():
            torch.manual_seed(int(stream(seed, "classifier").integers(2**62)))
            self.pooler = torch.nn.Linear(encoder.width, encoder.width)
            self.classifier = torch.nn.Linear(encoder.width, classes)
        for layer in (self.pooler, self.classifier):
            torch.nn.init.zeros_(layer.bias)
        self.dropout = torch.nn.Dropout(dropout)
        self.to(encoder.device).eval()

    def forward(self, rows: Rows) -> torch.Tensor:
        """Scores: (rows, classes)."""
        pooled = self.encoder.pooled(rows, types=rows.segments >= SECOND)
        seen = torch.tanh(self.pooler(self.dropout(pooled)))
        scores: torch.Tensor = self.classifier(self.dropout(seen))
        return scores

    def predict(self, corpus: Corpus, second: Corpus | None = None) -> IntArray:
        """The likeliest class of every document: (documents,); errors are those of `features`."""
        read = sequences(self.encoder, corpus, second, longest=self.longest)
        return self.probability(read, np.arange(len(corpus))).argmax(1)

    @torch.inference_mode()
    def probability(self, read: Sequences, documents: IntArray) -> FloatArray:
        """Probability of every class for some of the documents: (documents, classes)."""
        result = np.empty((len(documents), self.classifier.out_features))
        for batch in by_length(read.lengths[documents], BATCH):
            scores = self(read.rows(documents[batch]))
            result[batch] = F.softmax(scores.double(), dim=1).cpu().numpy()
        return result


def fine_tuned(
    encoder: Encoder,
    corpus: Corpus,
    labels: ArrayLike,
    *,
    training: Training,
    second: Corpus | None = None,
    classes: int = 2,
    longest: int = 128,
    held_out: float = 0.1,
    seed: int = 0,
) -> Classifier:
    """Fine-tune a copy of an encoder to classify documents, with cross entropy.

    Parameters
    ----------
    encoder : pretrained; left as it is
    corpus, second, longest : see `features`
    labels : (documents,) 0 .. classes - 1, at least two different ones
    training : of batches of similar length; every document is used once before any is used again
    held_out : 0 < share < 1 of the documents that do not train; the first 1,000 of these measure
        the accuracy
    seed : of what is held out, the head, the order and dropout: same seed, same classifier, but
        for the last digits on another processor or with another number of threads

    References
    ----------
    Harel et al. 2024, sections 2 and 3.1, who fine-tune RoBERTa, and T5-small on pairs.
    """
    truth = check_ids(check_integers(labels, len(corpus), what="labels"), classes, what="labels")
    model = Classifier(
        encoder.clone(dropout=training.dropout),
        classes,
        dropout=training.dropout,
        longest=longest,
        seed=seed,
    )
    read = sequences(encoder, corpus, second, longest=longest)
    is_held = held_out_documents(len(corpus), held_out, seed)
    documents, measured = np.flatnonzero(~is_held), np.flatnonzero(is_held)[:MEASURED]
    order = _batches(documents, read.lengths, training.batch, stream(seed, "classifier", "order"))

    def loss(_: int) -> torch.Tensor:
        chosen = next(order)
        scores = model(read.rows(chosen))
        return F.cross_entropy(scores, torch.from_numpy(truth[chosen]).to(scores.device))

    def measure() -> float:
        likeliest = model.probability(read, measured).argmax(1)
        return float((likeliest == truth[measured]).mean())

    model.curve = fine_tune([model], loss, training, seed=seed, measure=measure)
    return model


def _batches(
    documents: IntArray, lengths: IntArray, batch: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Random batches of at most `batch` documents of similar length, without end.

    Documents are shuffled, sorted by length within stretches of `SORTED` batches, and cut into
    batches, which come in random order. All are used before any is used again.
    """
    while True:
        shuffled = rng.permutation(documents)
        batches: list[IntArray] = []
        for start in range(0, len(shuffled), SORTED * batch):
            stretch = shuffled[start : start + SORTED * batch]
            alike = stretch[np.argsort(lengths[stretch], kind="stable")]
            batches += np.array_split(alike, -(-len(alike) // batch))
        for which in rng.permutation(len(batches)).tolist():
            yield batches[which]
