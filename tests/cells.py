"""What notebooks define in their cells, to be tested like what a module defines."""

from __future__ import annotations

import ast
from code import InteractiveInterpreter
from collections.abc import Callable
from typing import Any

from tools import notebooks


def function_of(notebook: str, name: str, **space: Any) -> Callable[..., Any]:
    """A function as a notebook defines it, with these names in place of those it imports."""
    sources = next(each for each in notebooks.find() if each.name == notebook).code
    body = [
        node
        for source in sources
        for node in ast.parse(source).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.FunctionDef) and node.name == name)
    ]
    names: dict[str, Any] = {}
    InteractiveInterpreter(names).runcode(compile(ast.Module(body, []), name, "exec"))
    names.update(space)
    made: Callable[..., Any] = names[name]
    return made
