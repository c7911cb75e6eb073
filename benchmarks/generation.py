"""Generation in batches against transformers' own loop, one prompt at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.compare import Row, compare
from textpriv.data import corpora
from textpriv.mechanisms.prompt import DPPrompt, learn_limits
from textpriv.models.generators import Sampled, generate, load_generator

TOKENS, ROWS, FEW = 48, 32, 4


def generation_rows() -> Iterator[Row]:
    """DP-Prompt with 32 rows, against `generate` with its cache: prompts of about 90 tokens."""
    generator = load_generator()
    reviews = corpora.load("rented-clothes").texts[:400]
    texts = [text for text in reviews if 35 <= len(text.split()) <= 50][:ROWS]
    limits = learn_limits(generator, texts[:8], tokens=2, seed=0)
    mechanism = DPPrompt(generator, temperature=1.5, tokens=TOKENS, limits=limits)
    prompts = mechanism.prompts(texts)
    law = Sampled(seed=0)
    column = int(np.flatnonzero(generator.sayable == generator.end)[0])

    def choose(scores: torch.Tensor, numbers: np.ndarray) -> np.ndarray:
        weights = mechanism.log_weights(scores)
        weights[:, column] = -torch.inf  # the same number of tokens on both sides
        return law(weights, numbers)

    def ours() -> None:
        for _, outputs in generate(generator, prompts, choose, tokens=TOKENS):
            assert {len(output) for output in outputs} == {TOKENS}

    @torch.inference_mode()
    def loop() -> None:
        for prompt in prompts[:FEW]:
            ids = torch.tensor([prompt])
            output = generator.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.5,
                top_k=0,
                min_new_tokens=TOKENS,
                max_new_tokens=TOKENS,
                pad_token_id=generator.end,
            )
            assert output.shape[1] == len(prompt) + TOKENS

    length = int(np.median([len(prompt) for prompt in prompts]))
    yield compare(
        f"DP-Prompt, {ROWS} rows of {length} + {TOKENS} tokens, against a loop",
        "tokens/s",
        (ours, ROWS * TOKENS),
        (loop, FEW * TOKENS),
        5,
        repeats=2,
    )
