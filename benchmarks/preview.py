"""What a user pays before sending: a text at many epsilons."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.compare import Row, compare
from textpriv.data import corpora
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.sweep import epsilons_for, sweep
from textpriv.models import load_encoder
from textpriv.utility.preview import PieceTable

TOKENS = 1024


def preview_rows() -> Iterator[Row]:
    """A document of 1,024 tokens at 20 epsilons in one pass, against one epsilon at a time.

    On the paper's grid of 21, on its first 20, and at 20 epsilons at which from 99% to 1% of the
    tokens change. The smaller an epsilon, the farther its noise leads, and the more it costs.
    """
    table, rng = PieceTable.of(load_encoder()), np.random.default_rng(0)
    text = max(corpora.load("multilexsum").texts, key=len)
    ids = table.encode([text], longest=TOKENS).ids[:TOKENS]
    mechanism = Madlib(table.embedding, epsilon=1.0)
    paper = np.array([1.0, *np.arange(5.0, 101.0, 5.0)])
    grids = {
        "eps 1, 5 .. 100, the paper's": paper,
        "eps 1, 5 .. 95": paper[:-1],
        "eps by shares": epsilons_for(mechanism, ids, np.linspace(0.99, 0.01, 20), rng),
    }
    for name, grid in grids.items():

        def each(grid: np.ndarray = grid) -> None:
            for epsilon in grid:
                mechanism.with_epsilon(epsilon).sanitize_ids(ids, rng)

        def whole(grid: np.ndarray = grid) -> None:
            sweep(mechanism, ids, grid, rng)

        yield compare(
            f"{len(ids):,} tokens at {len(grid)} epsilons ({name}), against one at a time",
            "documents/min",
            (whole, 60),
            (each, 60),
            10,
            repeats=7,
        )
