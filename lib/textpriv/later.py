"""transformers, imported when it is first used: the core is there without the extra `models`.

from textpriv.later import transformers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from textpriv.errors import MissingPackage


class _Later:
    """Stands for the package until something of it is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        try:
            package = import_module("transformers")
        except ModuleNotFoundError as error:
            raise MissingPackage(
                f"{error.name or 'transformers'}: not installed, and needed here; "
                "pip install 'textpriv[models]'"
            ) from error
        return getattr(package, attribute)


if TYPE_CHECKING:
    import transformers as transformers
else:
    transformers = _Later()
