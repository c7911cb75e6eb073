"""What a user pays before sending: a text at many epsilons, and summaries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.compare import Row, compare
from textpriv import corpora
from textpriv.generators import load_generator
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.sweep import epsilons_for, sweep
from textpriv.models import load_encoder
from textpriv.preview import PieceTable
from textpriv.summaries import INSTRUCTION, Writer

TOKENS = 1024
ARTICLES, FEW = 32, 4


def preview_rows() -> Iterator[Row]:
    """A document at many epsilons, and summaries of many."""
    yield from sweep_rows()
    yield summary_row()


def sweep_rows() -> Iterator[Row]:
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


def summary_row() -> Row:
    """Summaries of news cut at 200 words, against transformers' own loop over documents."""
    generator = load_generator()
    writer = Writer(generator, tokens=48)
    articles = [
        " ".join(text.split()[:200])
        for text in corpora.load("xsum").texts
        if len(text.split()) >= 200
    ][:ARTICLES]
    prompts = [generator.ask(f"{INSTRUCTION}\n\n{text}") for text in articles[:FEW]]

    @torch.inference_mode()
    def loop() -> None:
        for prompt in prompts:
            ids = torch.tensor([prompt])
            generator.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=writer.tokens,
                pad_token_id=generator.end,
            )

    return compare(
        f"{ARTICLES} summaries of {writer.tokens} tokens, against a loop",
        "summaries/min",
        (lambda: writer.summarize(articles), 60 * ARTICLES),
        (loop, 60 * FEW),
        2,
        repeats=2,
    )
