"""A channel: what an attacker knows of a mechanism, P(output | input) over a vocabulary.

The attacks ask a channel and never a mechanism by name. Inputs and outputs are ids of the
same vocabulary; probabilities are float64 natural logarithms, -inf where impossible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from scipy.special import logsumexp

from textpriv.checks import FloatArray, IntArray, check_count, check_ids
from textpriv.errors import InvalidInput

ROW_BYTES = 16 << 20  # dense rows held at once


def check_aligned(
    ids: object, others: object, size: int, *, names: tuple[str, str]
) -> tuple[IntArray, IntArray]:
    """Two arrays of ids, one of the other for each; or InvalidInput."""
    x, y = (
        check_ids(each, size, what=name) for each, name in zip((ids, others), names, strict=True)
    )
    if x.shape != y.shape:
        raise InvalidInput(f"{names[1]}: got {y.shape}, expected the {names[0]}' shape {x.shape}")
    return x, y


class Channel(ABC):
    """P(y|x) over a vocabulary of `size` words."""

    size: int
    vocabulary: str = ""  # `tokens.fingerprint` of the words; "" where it is not known
    inputs: IntArray | None = None  # words that are replaced, the others pass; None: all
    outputs: IntArray | None = None  # words that may be output, ascending; None: all

    @abstractmethod
    def log_rows(self, inputs: IntArray) -> FloatArray:
        """log P(. | x) for some inputs: (len(inputs), size); each row sums to 1."""

    @abstractmethod
    def log_columns(self, outputs: IntArray) -> FloatArray:
        """log P(y | .) for some outputs, the likelihoods of all inputs: (len(outputs), size)."""

    def log_prob(self, inputs: IntArray, outputs: IntArray) -> FloatArray:
        """log P(y | x) of aligned inputs and outputs."""
        x, y = check_aligned(inputs, outputs, self.size, names=("inputs", "outputs"))
        result = np.empty(len(x))
        for words, occurrences in by_distinct(x, self.row_chunk):
            rows = self.log_rows(words)
            for row, where in zip(rows, occurrences, strict=True):
                result[where] = row[y[where]]
        return result

    def sample(self, inputs: IntArray, rng: np.random.Generator) -> IntArray:
        """One output per input, by inversion of the cumulative row.

        Probabilities below 2^-53 of a row are out of reach of the uniform draw's grid.
        """
        x = check_ids(inputs, self.size, what="inputs")
        uniform = rng.random(len(x))  # in the order of the text, whatever the chunks are
        column = inverted(x, uniform, self._cumulative, self.row_chunk)
        return column if self.outputs is None else self.outputs[column]

    def _cumulative(self, inputs: IntArray) -> FloatArray:
        """Cumulative weights of the possible outputs, up to one factor per row."""
        rows = np.exp(self.log_rows(inputs))
        return np.cumsum(rows if self.outputs is None else rows[:, self.outputs], axis=1)

    def posterior(self, outputs: IntArray, prior: FloatArray) -> FloatArray:
        """P(x | y) for every input, (len(outputs), size), from weights >= 0 of the inputs, (size,).

        InvalidInput for an invalid prior, or an output that no input of the prior can give.
        """
        joint = self.log_columns(outputs) + self._log_prior(prior)
        total = logsumexp(joint, axis=1, keepdims=True)
        if not np.isfinite(total).all():
            first = int(np.asarray(outputs)[np.flatnonzero(~np.isfinite(total[:, 0]))[0]])
            raise InvalidInput(f"outputs: {first} has probability 0 under this prior")
        return np.exp(joint - total)

    @torch.inference_mode()
    def likeliest_inputs(
        self, outputs: IntArray, prior: FloatArray, count: int
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """The inputs with the largest P(y|x) P(x), for some outputs.

        Parameters
        ----------
        prior : (size,) weights >= 0 of the inputs, of any sum
        count : how many inputs, >= 1

        Returns
        -------
        words : (len(outputs), count) inputs, the likeliest first; ties go to the lower id;
            -1 where fewer are possible
        log_joint : (len(outputs), count) log P(y|x) + log P(x), -inf beside -1
        log_evidence : (len(outputs),) log sum_x P(y|x) P(x) over all inputs
        """
        y = check_ids(outputs, self.size, what="outputs")
        log_prior = self._log_prior(prior)
        check_count(count, what="count")
        words = np.full((len(y), count), -1, dtype=np.int64)
        log_joint = np.full((len(y), count), -np.inf)
        log_evidence = np.full(len(y), -np.inf)
        possible = np.flatnonzero(log_prior > -np.inf)
        kept = min(count, len(possible))
        if not kept:
            return words, log_joint, log_evidence
        joint_of = self._joint(possible, log_prior[possible])
        for start in range(0, len(y), self.row_chunk):
            rows = slice(start, start + self.row_chunk)
            joint = joint_of(y[rows])
            best = _largest(joint, kept)
            log_joint[rows, :kept] = np.take_along_axis(joint, best, axis=1)
            words[rows, :kept] = possible[best]
            log_evidence[rows] = torch.logsumexp(torch.from_numpy(joint), dim=1).numpy()
        words[np.isneginf(log_joint)] = -1
        return words, log_joint, log_evidence

    def _joint(self, inputs: IntArray, log_prior: FloatArray) -> Callable[[IntArray], FloatArray]:
        """log P(y|x) + log P(x) of these inputs (ascending), for outputs: (outputs, inputs)."""
        return lambda outputs: self.log_columns(outputs)[:, inputs] + log_prior

    def check(self, inputs: IntArray | None = None) -> None:
        """Look whether rows are probabilities, and columns hold what the rows hold.

        Attacks take a channel at its word: rows that sum to 1.1, or P(x|y) in place of P(y|x),
        give wrong guesses and no error. Own channels should pass this once, for some inputs or all.
        """
        every = (
            np.arange(self.size) if inputs is None else check_ids(inputs, self.size, what="inputs")
        )
        for start in range(0, len(every), self.row_chunk):
            words = every[start : start + self.row_chunk]
            rows = np.exp(self.log_rows(words))
            check_sums(rows, words)
            likeliest = np.unique(rows.argmax(1)[:: max(1, len(words) // 8)])
            columns = np.exp(self.log_columns(likeliest))[:, words].T
            wrong = np.abs(columns - rows[:, likeliest]) > _TOLERANCE
            if wrong.any():
                at, to = np.argwhere(wrong)[0]
                raise InvalidInput(
                    f"channel: P({likeliest[to]} | {words[at]}) is {rows[at, likeliest[to]]:.6g} "
                    f"in the row and {columns[at, to]:.6g} in the column"
                )

    def _log_prior(self, prior: FloatArray) -> FloatArray:
        weights = np.asarray(prior, dtype=np.float64)
        if weights.shape != (self.size,) or not np.isfinite(weights).all() or weights.min() < 0:
            raise InvalidInput(
                f"prior: expected {self.size} finite weights >= 0, got shape {weights.shape}"
            )
        with np.errstate(divide="ignore"):
            return np.log(weights)

    @property
    def row_chunk(self) -> int:
        """Dense rows that fit in ROW_BYTES."""
        return max(1, ROW_BYTES // (8 * self.size))


class SparseChannel(Channel):
    """A channel in which a word has few outputs: P(y|x) as a sparse matrix."""

    @property
    @abstractmethod
    def matrix(self) -> scipy.sparse.csr_array:
        """P(y|x): (size, size)."""

    @cached_property
    def log_matrix(self) -> scipy.sparse.csr_array:
        """log P(y|x) where P(y|x) > 0: (size, size); what is not stored is impossible.

        A channel whose probabilities may underflow makes it from its own logarithms: a
        probability that is 0 in float64 only must not look impossible.
        """
        logs = self.matrix.copy()
        logs.eliminate_zeros()
        logs.data = np.log(logs.data)
        return logs

    def log_rows(self, inputs: IntArray) -> FloatArray:
        x = check_ids(inputs, self.size, what="inputs")
        return _dense(self.log_matrix[x])

    def log_columns(self, outputs: IntArray) -> FloatArray:
        y = check_ids(outputs, self.size, what="outputs")
        return _dense(self._log_columns[:, y].tocsr()).T

    def likeliest_inputs(
        self, outputs: IntArray, prior: FloatArray, count: int
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        y = check_ids(outputs, self.size, what="outputs")
        log_prior = self._log_prior(prior)
        check_count(count, what="count")
        words = np.full((len(y), count), -1, dtype=np.int64)
        log_joint = np.full((len(y), count), -np.inf)
        columns = self._log_columns[:, y]
        column = np.repeat(np.arange(len(y)), np.diff(columns.indptr))
        joint = columns.data + log_prior[columns.indices]
        possible = np.isfinite(joint)
        column, joint, inputs = column[possible], joint[possible], columns.indices[possible]
        order = np.lexsort((inputs, -joint, column))
        column, joint, inputs = column[order], joint[order], inputs[order]
        rank = np.arange(len(column)) - np.searchsorted(column, column)
        near = rank < count
        words[column[near], rank[near]] = inputs[near]
        log_joint[column[near], rank[near]] = joint[near]
        with np.errstate(divide="ignore"):
            highest = np.where(np.isfinite(log_joint[:, 0]), log_joint[:, 0], 0.0)
            total = np.bincount(column, np.exp(joint - highest[column]), minlength=len(y))
            return words, log_joint, highest + np.log(total)

    @cached_property
    def _log_columns(self) -> scipy.sparse.csc_array:
        return self.log_matrix.tocsc()


def _dense(logs: scipy.sparse.csr_array) -> FloatArray:
    """Stored logarithms at their places, -inf where none is stored."""
    entries = logs.tocoo()
    result = np.full(logs.shape, -np.inf)
    result[entries.row, entries.col] = entries.data
    return result


def _largest(values: FloatArray, count: int) -> IntArray:
    """Columns of the `count` largest values of each row, in decreasing order, ties by column."""
    near = torch.topk(torch.from_numpy(values), count, dim=1).indices.numpy()
    near = np.sort(near, axis=1)
    largest = np.take_along_axis(values, near, axis=1)
    best = np.take_along_axis(near, np.argsort(-largest, axis=1, kind="stable"), axis=1)
    # Where a tie was cut off, others of equal value may come first.
    lowest = largest.min(1, keepdims=True)
    tied = (values >= lowest).sum(1) > count
    cut = np.flatnonzero(tied & np.isfinite(lowest[:, 0]))
    if len(cut):
        best[cut] = np.argsort(-values[cut], axis=1, kind="stable")[:, :count]
    return best


_TOLERANCE = 1e-6


def check_sums(rows: FloatArray, words: IntArray) -> None:
    """Rows of probabilities P(. | word) sum to 1, or InvalidInput."""
    total = rows.sum(1)
    wrong = np.flatnonzero(~(np.abs(total - 1) <= _TOLERANCE))
    if len(wrong):
        raise InvalidInput(
            f"channel: the row of input {words[wrong[0]]} sums to {total[wrong[0]]:.6g}, expected 1"
        )


def by_distinct(ids: IntArray, chunk: int) -> Iterator[tuple[IntArray, list[IntArray]]]:
    """Distinct ids, `chunk` at a time, with the positions at which each occurs.

    The positions come from building a sparse matrix (id x position), which sorts in linear time.
    """
    if not len(ids):
        return
    shape = (int(ids.max()) + 1, len(ids))
    entries = (np.ones(len(ids), dtype=np.bool_), (ids, np.arange(len(ids))))
    matrix = scipy.sparse.csr_array(entries, shape=shape)
    bounds, positions = matrix.indptr, matrix.indices
    distinct = np.flatnonzero(np.diff(bounds))
    for start in range(0, len(distinct), chunk):
        words = distinct[start : start + chunk]
        yield words, [positions[bounds[word] : bounds[word + 1]] for word in words]


def inverted(
    keys: IntArray, uniform: FloatArray, cumulative: Callable[[IntArray], FloatArray], chunk: int
) -> IntArray:
    """Columns drawn by inversion of the cumulative row of every key: (keys,)."""
    result = np.empty(len(keys), dtype=np.int64)
    for distinct, occurrences in by_distinct(keys, chunk):
        for row, where in zip(cumulative(distinct), occurrences, strict=True):
            column = np.searchsorted(row, uniform[where] * row[-1], side="right")
            result[where] = np.minimum(column, len(row) - 1)  # where rounding passed the last
    return result
