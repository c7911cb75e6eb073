"""Figures that can be drawn again: with a figure is kept which function drew it, and from what.

@drawing
def ladder(rates: pd.DataFrame, title: str) -> Figure: ...

drawn_again(call_of(ladder(rates, title)))           # the same picture, from the kept numbers
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec
from weakref import WeakKeyDictionary

from textpriv import kept
from textpriv.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")

_DRAWINGS: dict[tuple[str, str], Callable[..., Figure]] = {}
_CALLS: WeakKeyDictionary[Figure, tuple[Any, ...]] = WeakKeyDictionary()


def drawing(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws, of whose figures `call_of` knows how they were made."""

    @wraps(draw)
    def remembered(*arguments: P.args, **keywords: P.kwargs) -> Figure:
        figure = draw(*arguments, **keywords)
        _CALLS[figure] = (draw.__module__, draw.__qualname__, arguments, keywords)
        return figure

    _DRAWINGS[draw.__module__, draw.__qualname__] = remembered
    return remembered


def call_of(figure: Figure) -> bytes | None:
    """The call that drew a figure, for `drawn_again`.

    None where no `drawing` function did, or from what cannot be kept (see `textpriv.kept`).
    """
    try:
        return kept.encoded(_CALLS[figure])
    except (KeyError, InvalidInput):
        return None


def drawn_again(call: bytes) -> Figure:
    """The figure, by the function as it is now.

    InvalidInput where the bytes are damaged, or name what is no `drawing` of the package: nothing
    else is ever called.
    """
    try:
        module, name, arguments, keywords = kept.decoded(call)
    except Exception as error:  # whatever a damaged archive leads to
        raise InvalidInput(f"drawing: got no call that can be read ({error})") from error
    if module.startswith("textpriv."):
        import_module(module)  # which registers its drawings
    if (module, name) not in _DRAWINGS:
        raise InvalidInput(f"drawing: got {module}.{name}, expected a drawing of textpriv")
    return _DRAWINGS[module, name](*arguments, **keywords)
