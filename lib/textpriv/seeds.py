"""Named random streams: the same draws whatever the order or the number of workers.

A stream is keyed by what it is for (`stream(7, "table2", "hockey", 19.0)`), never by
when it is asked for. Two different keys give statistically independent streams.
"""

from __future__ import annotations

import hashlib

import numpy as np

from textpriv.errors import InvalidInput

Key = str | int | float


def stream(seed: int | None, *keys: Key) -> np.random.Generator:
    """Generator of the stream that `seed` and `keys` name; InvalidInput for those of another kind.

    Parameters
    ----------
    seed : non-negative int, or None for operating-system entropy (then `keys` are moot)
    keys : what the stream is for; order and type matter (1, 1.0 and "1" differ). A numpy
        number counts as the Python number that it equals.
    """
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"seed: got {seed!r}, expected an integer >= 0 or None")
    plain = [key.item() if isinstance(key, np.generic) else key for key in keys]
    for key in plain:
        if not isinstance(key, str | int | float):
            raise InvalidInput(f"key: got {key!r:.60}, expected a string or a number")
    text = "\x1f".join(f"{type(key).__name__}:{key!r}" for key in plain)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence(entropy=int(seed), spawn_key=tuple(words)))
