"""Checks of arguments: declared above a function, or called inside where a check needs more.

    @checked(tokens=COUNT, mass=SHARE, longest=(None, COUNT), kind=StrOptions({"word", "token"}))
    def generate(tokens, mass, longest=None, kind="word"): ...

The constraints are scikit-learn's; the errors are ours: what, got, expected. They come from a
module that scikit-learn keeps to itself, since none that it offers holds them (`check_scalar` looks
at one number). requirements.lock pins it, and tests/test_checks.py fails where a new one differs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

from textpriv.errors import InvalidInput

__all__ = ["Interval", "StrOptions"]  # of scikit-learn, for what has no name below

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")  # and finite
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")  # and finite
SHARE = Interval(Real, 0, 1, closed="both")
LEVEL = Interval(Real, 0, 1, closed="neither")
DROPOUT = Interval(Real, 0, 1, closed="left")


def at_least(least: int, most: int | None = None) -> Interval:
    """An integer from `least`, at most `most`."""
    return Interval(Integral, least, most, closed="left" if most is None else "both")


def checked(
    **constraints: Any,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorator: InvalidInput where an argument meets none of its constraints.

    Parameters
    ----------
    constraints : by parameter: one of the above, whatever scikit-learn takes for one (a type, None,
        `StrOptions`), or a tuple of these, of which one has to hold
    """
    allowed = {
        name: [make_constraint(each) for each in (one if isinstance(one, tuple) else (one,))]
        for name, one in constraints.items()
    }

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(function)
        if unknown := sorted(allowed.keys() - signature.parameters.keys()):
            raise TypeError(f"{function.__qualname__} has no parameter {unknown}")

        @functools.wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            given = signature.bind(*args, **kwargs).arguments
            for name, constraint in allowed.items():
                if name in given and not any(_meets(given[name], each) for each in constraint):
                    expected = " or ".join(map(str, constraint))
                    raise InvalidInput(f"{name}: got {described(given[name])}, expected {expected}")
            return function(*args, **kwargs)

        return call

    return decorate


def _meets(value: object, constraint: Any) -> bool:
    """Whether it does; True is no number."""
    if isinstance(constraint, Interval) and isinstance(value, bool | np.bool_):
        return False
    return bool(constraint.is_satisfied_by(value))


def check_count(value: object, least: int = 1, most: float = np.inf, *, what: str) -> None:
    """An integer in least .. most (no bool, no float), or InvalidInput."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_integer and least <= value <= most):  # type: ignore[operator]
        limits = f">= {least}" if most == np.inf else f"from {least} to {most}"
        raise InvalidInput(f"{what}: got {value!r}, expected an integer {limits}")


def check_number(value: Any, limits: Interval, *, what: str) -> float:
    """A number inside the limits, as a float (no bool, no string), or InvalidInput."""
    if not (_meets(value, limits) and abs(value) <= sys.float_info.max):
        least = ">=" if limits.closed in ("left", "both") else ">"
        most = "<=" if limits.closed in ("right", "both") else "<"
        inside = f"{least} {limits.left}"
        expected = (
            f"a finite number {inside}"
            if limits.right is None
            else f"a number {inside} and {most} {limits.right}"
        )
        raise InvalidInput(f"{what}: got {described(value)}, expected {expected}")
    return float(value)


def check_integers(values: object, count: int | None = None, *, what: str) -> IntArray:
    """A one-dimensional integer array, of `count` numbers where it is given; or InvalidInput."""
    array = np.asarray(values)
    is_integer = np.issubdtype(array.dtype, np.integer) or array.size == 0
    if array.ndim != 1 or not is_integer or count not in (None, len(array)):
        expected = "a 1-d integer array" if count is None else f"{count} integers"
        raise InvalidInput(f"{what}: got {array.dtype} of shape {array.shape}, expected {expected}")
    return array.astype(np.int64)


def check_ids(ids: object, size: int, *, what: str) -> IntArray:
    """A one-dimensional integer array of ids in 0..size-1, or InvalidInput."""
    array, given = check_integers(ids, what=what), np.asarray(ids)  # unsigned may not fit int64
    if len(array) and (given.min() < 0 or given.max() >= size):
        raise InvalidInput(f"{what}: got ids {given.min()}..{given.max()}, expected 0..{size - 1}")
    return array


def check_offsets(offsets: object, count: int) -> None:
    """Where documents begin in `count` rows, and where the last ends: int64; or InvalidInput."""
    array = np.asarray(offsets)
    if array.ndim != 1 or array.dtype != np.int64 or not len(array):
        raise InvalidInput(
            f"offsets: got {array.dtype} of shape {array.shape}, expected int64 (documents + 1,)"
        )
    if array[0] != 0 or array[-1] != count:
        raise InvalidInput(
            f"offsets: got {array[0]} .. {array[-1]}, expected 0 .. {count}, all rows"
        )
    if (np.diff(array) < 0).any():
        raise InvalidInput("offsets: got some that decrease, expected them never to")


def check_ends(
    low: object, high: object, *, what: str, each: str, rising: bool = False, do: str = ""
) -> tuple[FloatArray, FloatArray]:
    """Finite low <= high (with `rising` low < high), one of both for each `each`; or InvalidInput.

    Both are float64 copies that nobody writes to.
    """
    ends = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    advice = f"; {do}" if do else ""
    if ends[0].ndim != 1 or ends[0].shape != ends[1].shape or not len(ends[0]):
        raise InvalidInput(
            f"{what}: got shapes {ends[0].shape} and {ends[1].shape}, expected one of both for "
            f"every {each}{advice}"
        )
    if not np.isfinite(ends).all():
        raise InvalidInput(f"{what}: got NaN or infinity, expected finite numbers")
    wrong = np.flatnonzero(ends[0] >= ends[1] if rising else ends[0] > ends[1])
    if len(wrong):
        least, most = (end[wrong[0]] for end in ends)
        raise InvalidInput(
            f"{what}: got {least:.6g} to {most:.6g} for {each} {wrong[0]}, expected low "
            f"{'<' if rising else '<='} high{advice}"
        )
    for end in ends:
        end.flags.writeable = False
    return ends


def described(value: object) -> str:
    """What was got, in few words: "the class TEM", "None", "7", "a DataFrame"."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, bool | int | float | str | np.number):
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
    if isinstance(value, type) and issubclass(value, kinds):
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
    strings = list(texts)
    for number, text in enumerate(strings):
        if not isinstance(text, str):
            raise InvalidInput(
                f"{what}: got {described(text)} in number {number}, expected a string; drop it or "
                "put a text in its place"
            )
    return strings
