"""The reference of the library: what its modules offer, from their source; nothing is imported."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOMS: Mapping[str, tuple[str, str]] = {
    "evaluation": ("Your own texts", "`textpriv.evaluate` and what it is made of."),
    "mechanisms": ("Mechanisms", "What sanitizes."),
    "attacks": ("Attacks", "What an attacker gets back."),
    "privacy": ("Privacy", "Claims, and audits that put them to the test."),
    "neighbors": ("Search", "Exact and approximate neighbours, and all lengths of noise at once."),
    "data": ("Data", "Texts, words and ids."),
    "models": ("Models", "Networks, their classifiers and tokenizers."),
    "utility": ("Utility", "What is left of a text's language, and what a prompt is still worth."),
    "assets": ("Assets", "What is pinned, fetched and verified."),
    "report": ("Reports", "A run, its results as rows, figures, the papers' claims."),
    "": ("Ground floor", "The loop of the notebooks, channels, statistics, streams, processes."),
}
"""Rooms of the library, a page each, with their titles; the empty one holds single modules."""

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w[\w., *()]*?) : ", re.MULTILINE)


def names() -> list[str]:
    """Of the pages, in the order of the menu."""
    return [room or "ground_floor" for room in ROOMS]


def pages(package: Path) -> Iterator[tuple[str, str]]:
    """The name and the Markdown of a page for each room.

    Parameters
    ----------
    package : the folder of the package
    """
    for name, (room, (title, says)) in zip(names(), ROOMS.items(), strict=True):
        files = sorted((package / room).rglob("*.py") if room else package.glob("*.py"))
        parts = [_module(path, package) for path in files if path.stem != "__main__"]
        yield name, "\n\n".join([f"# {title}", says, *filter(None, parts)])


def _module(path: Path, package: Path) -> str:
    """A module: what it says of itself, its classes and functions; "" where it offers none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    offered = [
        _offered(node)
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
    about = ast.get_docstring(tree)
    if not offered and path.stem != "__init__":
        return ""
    heading = f"## {name.removesuffix('.__init__')}"
    return "\n\n".join([heading, *([markdown(about)] if about else []), *offered])


def _offered(node: ast.ClassDef | ast.FunctionDef) -> str:
    """A class with its public methods, or a function."""
    parts = [f"### {node.name}", f"```python\n{_broken(_signature(node))}\n```"]
    if about := ast.get_docstring(node):
        parts.append(markdown(about))
    if isinstance(node, ast.ClassDef):
        methods = [
            f"- `{_signature(each)}`: {_inline(first)}"
            for each in node.body
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
            if (first := (ast.get_docstring(each) or "").partition("\n\n")[0])
        ]
        parts += ["\n".join(methods)] if methods else []
    return "\n\n".join(parts)


def _signature(node: ast.ClassDef | ast.FunctionDef) -> str:
    """How it is called: a class by the arguments of its `__init__`, where it has one."""
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        if not (made and isinstance(made[0], ast.FunctionDef)):
            bases = ", ".join(map(ast.unparse, node.bases))
            return f"class {node.name}({bases})" if bases else f"class {node.name}"
        node, kind = made[0], f"class {node.name}"
    else:
        kind = node.name
    drawn = ast.unparse(node.args)
    drawn = re.sub(r"^(self|cls)(, |$)", "", drawn)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and "class" not in kind else ""
    return f"{kind}({drawn}){returns}"


def _broken(signature: str) -> str:
    """A long call in several lines."""
    return textwrap.fill(signature, 88, subsequent_indent="    ", break_long_words=False)


def markdown(text: str) -> str:
    """A docstring as Markdown: sections as lists, indented lines as code, the rest as text."""
    pieces = _SECTION.split(inspect.cleandoc(text))
    parts = [_text(pieces[0])]
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts += [f"**{heading}**", _entries(body) if _ENTRY.search(body) else _text(body)]
    return "\n\n".join(filter(None, parts))


def _entries(body: str) -> str:
    """Lines "name : text", with what follows them indented, as a list."""
    items = re.split(r"\n(?=\S)", body.strip("\n"))
    made = []
    for item in items:
        entry = _ENTRY.match(item)
        named = f"`{entry[1]}`: " if entry else ""
        made.append(f"- {named}{_inline(item[entry.end() :] if entry else item)}")
    return "\n".join(made)


def _text(body: str) -> str:
    """Paragraphs; those whose lines are all indented are code."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", body.strip("\n")):
        lines = paragraph.split("\n")
        if paragraph.strip() and all(line.startswith("    ") for line in lines):
            parts.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        elif paragraph.strip():
            parts.append(_inline(paragraph))
    return "\n\n".join(parts)


def _inline(text: str) -> str:
    """A text in one line that shows what it has, with `code` in its backticks as code."""
    pieces = re.split(r"(`+[^`]+`+)", " ".join(text.split()))
    escaped = [
        piece if place % 2 else re.sub(r"([!-/:-@\[-`{}~])", r"\\\1", piece)
        for place, piece in enumerate(pieces)
    ]
    return "".join(escaped)
