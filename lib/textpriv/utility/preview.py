"""Before a prompt is sent: what it would look like, what it would be worth, who could read it.

    reader = Reader.of(encoder, small, public, table)     # once, from public text
    shown = preview(text, mechanism, epsilons, reader=reader, predictor=predictor)
    shown.rows             # per epsilon: the text, the expected similarity, the attacker's success
    shown.figure()

Nothing here asks the large model. The text is sanitized at every epsilon, the small model
summarizes it, and a `textpriv.utility.prediction.Predictor`, fitted to other documents, says what
the large model's summary would be worth.

The epsilon of a mechanism covers the one text that is sent. Who chooses among several after a
look at them lets the text choose, and that choice is not covered: `preview` shows a trade-off,
and a rule that must keep its promise fixes epsilon beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from textpriv.attacks.bayes import Bayes
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.simulated import channel_of
from textpriv.checks import COUNT, FloatArray, IntArray, check_texts, checked
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import UNKNOWN, Corpus
from textpriv.drawing import drawing
from textpriv.errors import InvalidInput
from textpriv.mechanisms import Madlib, Mechanism
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.sweep import check_grid, sweep
from textpriv.models import Encoder, FastTokenizer, pieces
from textpriv.models.generators import Generator
from textpriv.utility.prediction import Predictor
from textpriv.utility.summaries import Extractive, Writer, similarity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --- Text as a mechanism sees it ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PieceTable:
    """A model's token table as the vocabulary of a mechanism.

    Special tokens and rows that no text uses take no part: they are never put out, and one in a
    text (an unknown character) is UNKNOWN, in whose place a random piece is sanitized.
    """

    tokenizer: FastTokenizer
    embedding: Embedding  # the pieces that are left, with their vectors
    inputs: IntArray  # (rows,) the tokenizer's id for each row of the embedding, ascending

    @classmethod
    def of(cls, model: Encoder | Generator) -> Self:
        """The table of a model's inputs. Rows beyond the tokenizer's pieces take no part."""
        inner: Any = model.model
        vectors = inner.get_input_embeddings().weight.detach().float().cpu().numpy()
        names = pieces.vocabulary(model.tokenizer)[: len(vectors)]
        inputs = np.setdiff1d(np.arange(len(names)), pieces.special_ids(model.tokenizer))
        words = [names[number] for number in inputs]
        embedding = from_arrays(f"{model.name} pieces", words, vectors[inputs])
        return cls(model.tokenizer, embedding, inputs)

    def encode(self, texts: Sequence[str], *, longest: int | None = None) -> Corpus:
        """Rows of the embedding, the first `longest` of each text, which has at least one."""
        texts = check_texts(texts)
        corpus = pieces.encode(self.tokenizer, texts, longest=longest)
        empty = np.flatnonzero(np.diff(corpus.offsets) == 0)
        if len(empty):
            raise InvalidInput(
                f"texts: got nothing to sanitize in number {empty[0]}, {texts[empty[0]]!r:.40}; "
                "expected at least one token in each"
            )
        row = np.full(max(int(self.inputs[-1]), int(corpus.ids.max(initial=0))) + 1, UNKNOWN)
        row[self.inputs] = np.arange(len(self.inputs))
        return corpus.with_ids(row[corpus.ids])

    def decode(self, corpus: Corpus) -> list[str]:
        """The texts that the rows spell; UNKNOWN is left out."""
        known = np.flatnonzero(corpus.ids != UNKNOWN)
        kept = np.bincount(corpus.document[known], minlength=len(corpus))
        offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        ids = self.inputs[corpus.ids[known]]
        return pieces.decode(self.tokenizer, Corpus(ids=ids, offsets=offsets))


# --- What is measured of it ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reader:
    """Measures features of sanitized texts, at home and for nothing."""

    table: PieceTable  # vocabulary of the mechanism
    encoder: Encoder  # whose vectors are compared
    small: Extractive | Writer
    language: NGrams  # of public text over the table's rows
    counts: IntArray  # (rows,) how often each row occurs in that text

    @classmethod
    def of(
        cls, encoder: Encoder, small: Extractive | Writer, public: Sequence[str], table: PieceTable
    ) -> Self:
        """A reader that knows public texts, which share nothing with the private ones."""
        corpus, size = table.encode(public), len(table.embedding)
        language = NGrams.train(Lexicon(size), [corpus], order=2)
        return cls(table, encoder, small, language, corpus.counts(size))

    @property
    def prior(self) -> FloatArray:
        """Public weights of the rows: (rows,) their share, and a little for those never seen."""
        total = int(self.counts.sum())
        weights: FloatArray = (self.counts + 1 / total) / total
        return weights

    def features(
        self, original: Corpus, versions: Sequence[Corpus], epsilons: Sequence[float]
    ) -> pd.DataFrame:
        """One line per version and document, version after version.

        Columns: document, epsilon, small_original (similarity of the original and the small
        model's summary of it), small_sanitized (of the original and the summary of the sanitized
        text), changed (share of tokens), surprise (bits per token of the sanitized text under the
        n-grams), text_similarity (of original and sanitized text), and the texts: original,
        sanitized.
        """
        plain = self.table.decode(original)
        alone = similarity(self.encoder, plain, self.small.summarize(plain))
        parts = []
        for version, epsilon in zip(versions, epsilons, strict=True):
            texts = self.table.decode(version)
            summaries = self.small.summarize(texts)
            part = {
                "document": np.arange(len(original)),
                "epsilon": float(epsilon),
                "small_original": alone,
                "small_sanitized": similarity(self.encoder, plain, summaries),
                "changed": _mean(version.ids != original.ids, original),
                "surprise": _mean(-self.language.log_likelihood(version) / np.log(2), version),
                "text_similarity": similarity(self.encoder, plain, texts),
                "original": plain,
                "sanitized": texts,
            }
            parts.append(pd.DataFrame(part))
        return pd.concat(parts, ignore_index=True)


def _mean(values: NDArray[np.generic], corpus: Corpus) -> FloatArray:
    """Mean over the tokens of each document."""
    return np.bincount(corpus.document, values) / np.diff(corpus.offsets)


# --- What an attacker reads ---------------------------------------------------------------------


@checked(draws=COUNT)
def recovered(
    mechanism: Mechanism,
    ids: IntArray,
    epsilons: Sequence[float],
    *,
    prior: FloatArray,
    draws: int = 8,
    rng: np.random.Generator | None = None,
) -> FloatArray:
    """Share of a text's tokens that an attacker is expected to guess, per epsilon: (epsilons,).

    The attacker knows the mechanism and a public prior, sees the sanitized text and takes the
    likeliest input of each token (`attacks.bayes`). The share is the mean over `draws`. A finite
    mechanism is its own channel; another one is run on words drawn by the prior and counted
    (`attacks.simulated`), a minute for a large vocabulary and some seconds for each epsilon. Only
    noise by itself, MADLIB's, is taken at its word, which with the table of MiniLM is within 0.04
    of the estimated channel.

    The prior is (size,) weights >= 0 of the words; no guess for an UNKNOWN token is right.
    """
    if not len(ids):
        raise InvalidInput("ids: got no token, expected at least one")
    truth = np.tile(ids, draws)
    with simulation():
        outputs = sweep(mechanism, truth, epsilons, rng)
    shares = []
    for epsilon, seen in zip(epsilons, outputs, strict=True):
        types, inverse = np.unique(seen, return_inverse=True)
        guesses = types
        if not isinstance(mechanism, Madlib):
            channel = channel_of(mechanism.with_epsilon(epsilon), prior=prior)
            guesses = Bayes(channel, prior, name="bayes").guess_words(types, 1).words[:, 0]
        # No guess and an unknown word are both -1.
        shares.append(((guesses[inverse] == truth) & (truth >= 0)).mean())
    return np.array(shares)


# --- The preview --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Preview:
    """What `preview` found, epsilon by epsilon.

    `rows` has the columns epsilon, sanitized (the text), changed (share of tokens), predicted, low,
    high (similarity of the large model's summary and the original), recovered (share of tokens that
    an attacker is expected to guess).
    """

    text: str  # the original, as far as it is sanitized
    level: float  # of the intervals
    rows: pd.DataFrame

    @drawing
    def figure(self) -> Figure:
        """Usefulness with its interval, and what an attacker reads, against epsilon."""
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        epsilon, predicted, low, high, read = (
            self.rows[each] for each in ("epsilon", "predicted", "low", "high", "recovered")
        )
        (line,) = axes.plot(epsilon, predicted, marker="o", label="summary's worth")
        interval = f"{self.level:.0%} interval at each epsilon"
        shade: dict[str, Any] = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
        axes.fill_between(epsilon, low, high, label=interval, **shade)
        axes.plot(epsilon, read, "s--", color="black", label="read by a simple attacker")
        axes.set(xscale="log", xlabel="epsilon", ylabel="similarity, share of tokens")
        axes.set_xticks(epsilon, [f"{each:g}" for each in epsilon], rotation=60)
        axes.minorticks_off()
        axes.legend(fontsize="small")
        half = self.rows.loc[(read - 0.5).abs().idxmin()]
        axes.set_title(
            f"At epsilon {half['epsilon']:g}, where {half['recovered']:.0%} of the tokens would be "
            f"read,\nthe summary is expected to be worth {half['predicted']:.2f}",
            fontsize=9,
        )
        return figure


def preview(
    text: str,
    mechanism: Mechanism,
    epsilons: Sequence[float],
    *,
    reader: Reader,
    predictor: Predictor,
    level: float = 0.9,
    longest: int = 256,
    rng: np.random.Generator | None = None,
) -> Preview:
    """What sending a text would show and yield, at several epsilons, without sending it.

    Parameters
    ----------
    text : at least one token; what follows the first `longest` is left out
    mechanism : over the reader's table; its own epsilon does not count
    epsilons : ascending, none twice. Intervals hold at the predictor's epsilons and are borrowed
        from the nearest of these elsewhere.
    reader, predictor : the predictor from rows of this reader, of other documents
    level : 0 < level < 1, of the intervals
    rng : None: entropy of the operating system, as privacy needs
    """
    wanted = check_grid(epsilons)
    table = reader.table
    if mechanism.embedding.words != table.embedding.words:
        raise InvalidInput(
            f"mechanism: its vocabulary {mechanism.embedding!r} is not the reader's, "
            f"{table.embedding!r}; make it over reader.table.embedding"
        )
    original = table.encode([text], longest=longest)
    versions = [original.with_ids(ids) for ids in sweep(mechanism, original.ids, wanted, rng)]
    rows = reader.features(original, versions, wanted)
    low, high = predictor.interval(rows, level=level)
    shown = rows[["epsilon", "sanitized", "changed"]].assign(
        predicted=predictor.predict(rows),
        low=low,
        high=high,
        recovered=recovered(mechanism, original.ids, wanted, prior=reader.prior, rng=rng),
    )
    return Preview(table.decode(original)[0], level, shown)
