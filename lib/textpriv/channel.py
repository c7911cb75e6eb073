"""A channel: what an attacker knows of a mechanism, P(output | input) over a vocabulary.

The attacks ask a channel and never a mechanism by name. Inputs and outputs are ids of the
same vocabulary; probabilities are float64 natural logarithms, -inf where impossible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import logsumexp

from textpriv.errors import InvalidInput

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

ROW_BYTES = 16 << 20  # dense rows held at once


def check_ids(ids: object, size: int, *, what: str) -> IntArray:
    """A one-dimensional integer array of ids in 0..size-1, or InvalidInput."""
    array = np.asarray(ids)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise InvalidInput(
            f"{what}: got {array.dtype} of shape {array.shape}, expected a 1-d integer array"
        )
    if len(array) and (array.min() < 0 or array.max() >= size):
        raise InvalidInput(f"{what}: got ids {array.min()}..{array.max()}, expected 0..{size - 1}")
    return array.astype(np.int64)


class Channel(ABC):
    """P(y|x) over a vocabulary of `size` words."""

    size: int
    outputs: IntArray | None = None  # words that may be output, ascending; None: all

    @abstractmethod
    def log_rows(self, inputs: IntArray) -> FloatArray:
        """log P(. | x) for some inputs: (len(inputs), size); each row sums to 1."""

    @abstractmethod
    def log_columns(self, outputs: IntArray) -> FloatArray:
        """log P(y | .) for some outputs, the likelihoods of all inputs: (len(outputs), size)."""

    def log_prob(self, inputs: IntArray, outputs: IntArray) -> FloatArray:
        """log P(y | x) of aligned inputs and outputs."""
        x = check_ids(inputs, self.size, what="inputs")
        y = check_ids(outputs, self.size, what="outputs")
        if x.shape != y.shape:
            raise InvalidInput(f"outputs: got {y.shape}, expected the inputs' shape {x.shape}")
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
        result = np.empty(len(x), dtype=np.int64)
        for words, occurrences in by_distinct(x, self.row_chunk):
            for row, where in zip(self._cumulative(words), occurrences, strict=True):
                result[where] = np.searchsorted(row, uniform[where] * row[-1], side="right")
        columns = self.size if self.outputs is None else len(self.outputs)
        result = np.minimum(result, columns - 1)  # where rounding passed the last word
        return result if self.outputs is None else self.outputs[result]

    def _cumulative(self, inputs: IntArray) -> FloatArray:
        """Cumulative weights of the possible outputs, up to one factor per row."""
        rows = np.exp(self.log_rows(inputs))
        return np.cumsum(rows if self.outputs is None else rows[:, self.outputs], axis=1)

    def posterior(self, outputs: IntArray, prior: FloatArray) -> FloatArray:
        """P(x | y) for every input: (len(outputs), size).

        Parameters
        ----------
        prior : (size,) weights >= 0 of the inputs, of any sum

        Raises
        ------
        InvalidInput : an invalid prior, or an output that no input of the prior can give
        """
        weights = np.asarray(prior, dtype=np.float64)
        if weights.shape != (self.size,) or not np.isfinite(weights).all() or weights.min() < 0:
            raise InvalidInput(
                f"prior: expected {self.size} finite weights >= 0, got shape {weights.shape}"
            )
        with np.errstate(divide="ignore"):
            joint = self.log_columns(outputs) + np.log(weights)
        total = logsumexp(joint, axis=1, keepdims=True)
        if not np.isfinite(total).all():
            first = int(np.asarray(outputs)[np.flatnonzero(~np.isfinite(total[:, 0]))[0]])
            raise InvalidInput(f"outputs: {first} has probability 0 under this prior")
        return np.exp(joint - total)

    @property
    def row_chunk(self) -> int:
        """Dense rows that fit in ROW_BYTES."""
        return max(1, ROW_BYTES // (8 * self.size))


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
