"""What a worker process does with a generator that it shares; light to import."""

from __future__ import annotations

import numpy as np

SHARED = np.random.default_rng(7)  # wrong: every forked worker has this very generator


def by_shared_generator(document: int) -> tuple[int, bytes]:
    """Draws from a generator made before the workers were."""
    return document, SHARED.random(3).tobytes()
