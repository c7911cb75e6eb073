"""Checks of arguments that many modules share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import numpy as np

from textpriv.errors import InvalidInput


def check_count(value: object, least: int = 1, most: float = np.inf, *, what: str) -> None:
    """An integer in least .. most (no bool, no float), or InvalidInput."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_integer and least <= value <= most):  # type: ignore[operator]
        limits = f">= {least}" if most == np.inf else f"from {least} to {most}"
        raise InvalidInput(f"{what}: got {value!r}, expected an integer {limits}")


def described(value: object) -> str:
    """What was got, in few words: "the class TEM", "None", "7", "a DataFrame"."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, bool | int | float | str):
        return f"{value!r:.60}"
    return f"an object of type {type(value).__name__}"


def check_kind(
    value: object, kinds: type | tuple[type, ...], *, what: str, expected: str, do: str = ""
) -> None:
    """An object of one of these kinds, or InvalidInput.

    Parameters
    ----------
    expected, do : what it should have been, and how to get one
    """
    if isinstance(value, kinds):
        return
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, type) and issubclass(value, wanted):
        do = f"make one, {value.__name__}(...)"
    advice = f"; {do}" if do else ""
    raise InvalidInput(f"{what}: got {described(value)}, expected {expected}{advice}")


def check_generator(rng: object) -> None:
    """A NumPy generator, or InvalidInput."""
    check_kind(
        rng,
        np.random.Generator,
        what="rng",
        expected="a numpy.random.Generator",
        do="to release text leave it out, in an experiment use textpriv.seeds.stream(seed, ...)",
    )


def check_texts(texts: object, *, what: str = "texts") -> list[str]:
    """Strings in a list, a Series or whatever else has an order, or InvalidInput."""
    if isinstance(texts, str | bytes):
        name = "string" if isinstance(texts, str) else "bytes object"
        raise InvalidInput(f"{what}: got one {name}, expected a list of strings; use [text]")
    if hasattr(texts, "columns"):  # iterates over the names of its columns
        raise InvalidInput(
            f"{what}: got a {type(texts).__name__}, expected a list of strings; give one column, "
            f"frame[name] with a name out of {list(texts.columns)}"
        )
    if isinstance(texts, Mapping | Set) or not isinstance(texts, Iterable):
        raise InvalidInput(f"{what}: got {described(texts)}, expected a list of strings")
    found = list(texts)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise InvalidInput(
                f"{what}: got {described(text)} in number {number}, expected a string; drop it or "
                "put a text in its place"
            )
    return found
