"""Packages of the extras, imported when they are first used: the core is there without them.

from textpriv.later import transformers
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from textpriv.errors import MissingPackage


class _Later:
    """Stands for a package until something of it is asked for."""

    def __init__(self, name: str, extra: str) -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        try:
            package = importlib.import_module(self._name)
        except ModuleNotFoundError as error:
            raise MissingPackage(
                f"{error.name or self._name}: not installed, and needed here; "
                f"pip install 'textpriv[{self._extra}]'"
            ) from error
        return getattr(package, attribute)


def later(name: str, *, extra: str) -> Any:
    """A package of an extra, which is imported when an attribute of it is first asked for.

    Raises
    ------
    MissingPackage : then, where it is not installed; it names the extra
    """
    return _Later(name, extra)


if TYPE_CHECKING:
    import transformers as transformers
else:
    transformers = later("transformers", extra="models")
