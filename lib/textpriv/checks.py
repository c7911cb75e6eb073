"""Checks of arguments that many modules share."""

from __future__ import annotations

import numpy as np

from textpriv.errors import InvalidInput


def check_count(value: object, least: int = 1, most: float = np.inf, *, what: str) -> None:
    """An integer in least .. most (no bool, no float), or InvalidInput."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_integer and least <= value <= most):  # type: ignore[operator]
        limits = f">= {least}" if most == np.inf else f"from {least} to {most}"
        raise InvalidInput(f"{what}: got {value!r}, expected an integer {limits}")
