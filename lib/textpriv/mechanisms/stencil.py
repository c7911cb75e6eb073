"""Stencils: every token replaced by the one nearest to a weighted mean of its neighbourhood.

    stencil = Stencil(TokenTable(vectors), window=9, sigma=0.8)
    stencil.sanitize_corpus(corpus)
    stencil.weights(corpus)          # the linear map behind it, which an attacker knows too

The weights are a Gaussian over a window. Where the window meets nothing (beyond the text, a
special token, the centre of the punctuated form) the weight that is missing goes to the
positions that are left, in equal parts. A stencil is deterministic and carries no privacy claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from textpriv.channel import FloatArray, IntArray, check_ids
from textpriv.checks import BoolArray, StrOptions, at_least, checked
from textpriv.data.tokens import Corpus, check_corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms.base import check_epsilon
from textpriv.mechanisms.maps import NO_IDS
from textpriv.neighbors import ExactSearch
from textpriv.neighbors.table import check_vectors

Measure = Literal["cosine", "euclidean"]
_TOKENS = 1 << 14  # tokens whose mixtures are held at once


class TokenTable:
    """Vectors of the tokens, and which token is nearest to a point.

    Parameters
    ----------
    vectors : (size, dimension) float array, finite
    fixed : ids that are no answer and are not replaced: special tokens, unused rows
    measure : "cosine" compares directions, "euclidean" distances

    Raises
    ------
    InvalidInput : fewer than two tokens to answer with; a vector of length 0 under "cosine"
    """

    @checked(measure=StrOptions({"cosine", "euclidean"}))
    def __init__(
        self,
        vectors: NDArray[np.floating],
        *,
        fixed: IntArray = NO_IDS,
        measure: Measure = "cosine",
    ) -> None:
        self.vectors, self.measure = check_vectors(vectors, what="vectors"), measure
        self.size = len(self.vectors)
        self.fixed = np.unique(check_ids(fixed, self.size, what="fixed"))
        self.inputs = np.setdiff1d(np.arange(self.size), self.fixed)
        if len(self.inputs) < 2:
            raise InvalidInput(f"fixed: leaves {len(self.inputs)} tokens, expected at least two")
        self.search = ExactSearch(self.scaled(self.vectors[self.inputs]))

    def nearest(self, points: NDArray[np.floating], count: int) -> tuple[IntArray, FloatArray]:
        """Ids of the tokens nearest to each point, nearest first, and their distances.

        Distances are Euclidean; under "cosine" between vectors scaled to length 1.
        """
        rows, distances = self.search.nearest(self.scaled(points), min(count, len(self.inputs)))
        return self.inputs[rows], distances

    def scaled(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Points as the table compares them: under "cosine" of length 1."""
        if self.measure == "euclidean":
            return points
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        if not lengths.all():
            row = int(np.flatnonzero(lengths[:, 0] == 0)[0])
            raise InvalidInput(
                f"vectors: row {row} has length 0 and no direction; use measure='euclidean'"
            )
        return points / lengths


class Stencil:
    """Replaces a token by the one nearest to the weighted mean of its window.

    Parameters
    ----------
    table : see `TokenTable`
    window : odd, >= 3: the token and (window - 1) / 2 on either side
    sigma : > 0, standard deviation of the Gaussian, in tokens
    punctuated : leave the token itself out of the mean
    change : whether the output must differ from the input (then the next nearest is taken).
        None: for the plain stencil, as the paper says, and not for the punctuated one, as in its
        code.

    Notes
    -----
    The released code divides 0 by 0 where a token has no neighbour and is left out itself: a
    text of one token. Here the token is then its own neighbour, and its output must differ.

    References
    ----------
    Harel et al. 2024, section 3, Eq. 1.
    """

    @checked(window=at_least(3))
    def __init__(
        self,
        table: TokenTable,
        *,
        window: int = 9,
        sigma: float = 0.8,
        punctuated: bool = False,
        change: bool | None = None,
    ) -> None:
        if window % 2 == 0:
            raise InvalidInput(f"window: got {window}, expected an odd number")
        self.table, self.window = table, window
        self.sigma = check_epsilon(sigma, what="sigma")  # finite and > 0
        self.punctuated = punctuated
        self.change = not punctuated if change is None else change
        self.name = "punctuated-stencil" if punctuated else "stencil"
        self.size, self.inputs = table.size, table.inputs
        offsets = self._offsets
        # Divided before it is squared: the square of a small sigma underflows, and the centre
        # would be 0 / 0. Its neighbours may well overflow: exp(-inf) is 0.
        with np.errstate(over="ignore"):
            kernel = np.exp(-((offsets / self.sigma) ** 2) / 2)
        self.kernel: FloatArray = kernel / kernel.sum()

    @property
    def _offsets(self) -> IntArray:
        return np.arange(self.window) - self.window // 2

    def replaced(self, corpus: Corpus) -> BoolArray:
        """Tokens that the stencil replaces: not special, and with an id."""
        check_corpus(corpus, self.size)
        ids = corpus.ids
        return (ids >= 0) & ~np.isin(ids, self.table.fixed)

    def weights(self, corpus: Corpus, replaced: BoolArray | None = None) -> scipy.sparse.csr_array:
        """g, the linear map from tokens' vectors to their mixtures: (tokens, tokens).

        A replaced token's row sums to 1; the others' rows are empty. It depends on the lengths
        of the documents and on what is special, which the output shows, and on nothing else.
        """
        active = self.replaced(corpus) if replaced is None else replaced
        count, document = len(corpus.ids), corpus.document
        place = np.arange(count)[:, None] + self._offsets
        near = np.clip(place, 0, max(0, count - 1))
        present = (near == place) & active[:, None]
        if count:
            present &= active[near] & (document[near] == document[:, None])
        centre = self.window // 2
        if self.punctuated:
            alone = present.sum(1) <= 1  # at most the token itself
            present[:, centre] &= alone
        left = present.sum(1, keepdims=True)
        missing = 1 - (present * self.kernel).sum(1, keepdims=True)
        weight = self.kernel + missing / np.maximum(left, 1)
        row, column = np.nonzero(present)
        return scipy.sparse.csr_array(
            (weight[row, column], (row, place[row, column])), shape=(count, count)
        )

    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        """The corpus with every token replaced; special tokens and those without id stay."""
        check_corpus(corpus, self.size)
        result = corpus.ids.copy()
        for part, positions in _parts(corpus):
            active = self.replaced(part)
            weights = self.weights(part, active)
            rows = np.flatnonzero(active)
            if not len(rows):
                continue
            ids = part.ids[rows]
            mixtures = weights[rows][:, rows] @ self.table.vectors[ids].astype(np.float64)
            nearest, _ = self.table.nearest(mixtures, 2)
            differ = np.full(len(rows), self.change)
            if self.punctuated:
                differ |= weights.diagonal()[rows] > 0  # its own neighbour
            output = np.where(differ & (nearest[:, 0] == ids), nearest[:, 1], nearest[:, 0])
            result[positions[rows]] = output
        return corpus.with_ids(result)


def _parts(corpus: Corpus) -> Iterator[tuple[Corpus, IntArray]]:
    """Documents a few thousand tokens at a time, and where these stand in the corpus."""
    group = corpus.offsets[:-1] // _TOKENS
    for documents in np.split(np.arange(len(corpus)), np.flatnonzero(np.diff(group)) + 1):
        if len(documents):
            first, last = corpus.offsets[documents[0]], corpus.offsets[documents[-1] + 1]
            yield corpus.subset(documents), np.arange(first, last)
