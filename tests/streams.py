"""What a worker process does with its stream; light to import, since workers are spawned."""

from __future__ import annotations

import numpy as np

from textpriv.seeds import stream

SHARED = np.random.default_rng(7)  # wrong: every forked worker has this very generator


def by_document(document: int) -> tuple[int, bytes]:
    """Draws of the kinds that mechanisms use, from the document's own stream."""
    return document, draws(stream(7, "sanitize", document))


def by_shared_generator(document: int) -> tuple[int, bytes]:
    """The same from a generator made before the workers were."""
    return document, draws(SHARED)


def draws(rng: np.random.Generator) -> bytes:
    parts = rng.random(3), rng.gamma(5, 1 / 2, 3), rng.standard_normal(3), rng.integers(0, 99, 3)
    return b"".join(part.tobytes() for part in parts)
