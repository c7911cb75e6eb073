"""The one training loop: schedules, seeds, and the held-out accuracy along the way.

    order = endless(documents, stream(seed, "order"))
    curve = fine_tune([network], loss, Training(steps=400), seed=seed, measure=accuracy)

`loss` takes the number of a step and chooses what it trains on, `order(32 * step, 32 * step + 32)`
for instance. `accuracy` looks at what is held out (`held_out_documents`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from textpriv.channel import IntArray
from textpriv.checks import (
    DROPOUT,
    LEVEL,
    NOT_NEGATIVE,
    POSITIVE,
    BoolArray,
    check_count,
    check_number,
)
from textpriv.errors import InvalidInput
from textpriv.seeds import stream


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long and how fast to train.

    Parameters
    ----------
    steps, batch : >= 1, and rows per step, >= 1
    learning_rate : > 0, its largest value
    schedule : "linear" warms up over a tenth of the steps, then falls to 0; "tenths" starts at
        once and falls to a tenth every 1,000 steps, as in Tong et al. (appendix F)
    dropout : 0 <= p < 1; short trainings do better without
    weight_decay : >= 0; with 0 the optimizer is Adam
    marks : >= 1 times that the held-out accuracy is measured, evenly spaced, the last at the end
    from_start : measure it before the first step as well ("Original" in Tong et al., Fig. 3)
    """

    steps: int
    batch: int = 32
    learning_rate: float = 5e-5
    schedule: Literal["linear", "tenths"] = "linear"
    dropout: float = 0.0
    weight_decay: float = 0.0
    marks: int = 1
    from_start: bool = False

    def __post_init__(self) -> None:
        for what in ("steps", "batch", "marks"):
            check_count(getattr(self, what), what=what)
        check_number(self.learning_rate, POSITIVE, what="learning_rate")
        check_number(self.dropout, DROPOUT, what="dropout")
        check_number(self.weight_decay, NOT_NEGATIVE, what="weight_decay")
        if self.schedule not in ("linear", "tenths"):
            raise InvalidInput(f"schedule: got {self.schedule!r}, expected 'linear' or 'tenths'")

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        if self.schedule == "tenths":
            return self.learning_rate * 0.1 ** (step // 1000)
        warm = max(1, self.steps // 10)
        left = (self.steps - step) / max(1, self.steps - warm)
        return self.learning_rate * min((step + 1) / warm, left, 1.0)

    @property
    def marked(self) -> frozenset[int]:
        """Numbers of finished steps after which the accuracy is measured."""
        return frozenset(
            max(1, round(self.steps * (mark + 1) / self.marks)) for mark in range(self.marks)
        )


@dataclass(frozen=True)
class LearningCurve:
    """Held-out accuracy (0..1) after so many steps and seconds, the measuring left out."""

    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    accuracy: tuple[float, ...]


def fine_tune(
    modules: Sequence[torch.nn.Module],
    loss: Callable[[int], torch.Tensor],
    sizes: Training,
    *,
    seed: int,
    measure: Callable[[], float],
) -> LearningCurve:
    """Train modules in place and leave them in evaluation mode.

    Parameters
    ----------
    loss : the loss of step 0, 1, ... as a scalar with gradient
    seed : of dropout; the global generator of torch is left as it was
    measure : held-out accuracy, called without gradients and in evaluation mode
    """
    weights = {id(w): w for m in modules for w in m.parameters() if w.requires_grad}
    optimizer = torch.optim.AdamW(
        weights.values(), lr=sizes.learning_rate, weight_decay=sizes.weight_decay, fused=True
    )
    marks: list[tuple[int, float, float]] = []
    seconds = 0.0

    def mark(step: int) -> None:
        for module in modules:
            module.eval()
        with torch.inference_mode():
            marks.append((step, seconds, measure()))

    if sizes.from_start:
        mark(0)
    with torch.random.fork_rng():
        torch.manual_seed(int(stream(seed, "dropout").integers(2**62)))
        for step in range(sizes.steps):
            start = time.perf_counter()
            for module in modules:
                module.train()
            for group in optimizer.param_groups:
                group["lr"] = sizes.rate(step)
            loss(step).backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            seconds += time.perf_counter() - start
            if step + 1 in sizes.marked:
                mark(step + 1)
    return LearningCurve(*zip(*marks, strict=True))


def held_out_documents(count: int, share: float, seed: int) -> BoolArray:
    """Whether each of `count` documents measures a training: a random share, at least one.

    At least one trains, too: InvalidInput for fewer than two documents.
    """
    check_number(share, LEVEL, what="held_out")
    if count < 2:
        raise InvalidInput(
            f"documents: got {count}, expected at least 2: one trains, and another measures"
        )
    chosen = stream(seed, "held out").permutation(count)
    result = np.zeros(count, dtype=bool)
    result[chosen[: min(max(1, round(share * count)), count - 1)]] = True
    return result


class endless:
    """Elements in random order, in a new order every time that all have been used."""

    def __init__(self, elements: IntArray, rng: np.random.Generator) -> None:
        self.elements, self.rng = elements, rng
        self.drawn = rng.permutation(elements)

    def __call__(self, start: int, end: int) -> IntArray:
        while len(self.drawn) < end:
            self.drawn = np.concatenate([self.drawn, self.rng.permutation(self.elements)])
        return self.drawn[start:end]
