"""Notebooks as the tools see them: code, parameters, headings, and what they declare.

A notebook's metadata has a table `textpriv` that says which figures it makes, which assets it
needs, and which other notebooks' results it reads.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from textpriv import assets, paths, profiles
from textpriv.errors import ProfileError, RunError

PARAMETERS = ("profile", "seed", "overrides")
"""What the parameters cell of every notebook sets, and nothing else."""

NAMING = ("corpora", "corpus", "encoder", "encoders", "generator", "table", "small", "large")
"""Keys of a profile's tables whose texts name corpora, data sets and models."""


class Declaration(BaseModel):
    """The metadata table `textpriv` of a notebook."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    figures: list[str] = []
    assets: list[str] = []
    results: list[str] = []
    reads: list[str] = []  # files of the repository, which need not be there


@dataclass(frozen=True)
class Cell:
    """One cell, as far as the tools care."""

    id: str
    kind: str
    source: str
    tags: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether the cell has code to run."""
        return self.kind == "code" and bool(self.source.strip())


@dataclass(frozen=True)
class Notebook:
    """One file of `notebooks/`."""

    name: str
    cells: tuple[Cell, ...]
    declares: Declaration

    @property
    def file(self) -> str:
        return f"{self.name}.ipynb"

    @property
    def code(self) -> list[str]:
        """Sources of the code cells, as plain Python."""
        return [plain_python(cell.source) for cell in self.cells if cell.runs]


def find() -> list[Notebook]:
    """Every notebook of the repository, in order."""
    return [read(path) for path in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]


def read(path: Path) -> Notebook:
    """Read one notebook; RunError says what is wrong with it."""
    try:
        return parse(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        wrong = f"expected a notebook of format 4.5, got {type(error).__name__}: {error}"
        raise RunError(f"{path.name}: {wrong}") from error


def parse(name: str, node: Mapping[str, Any]) -> Notebook:
    """A notebook from its JSON. (nbformat, which could do it, takes a second to import.)"""
    cells = tuple(
        Cell(
            cell["id"],
            cell["cell_type"],
            "".join(cell["source"]),  # one text, or a list of its lines
            tuple(cell["metadata"].get("tags", [])),
        )
        for cell in node["cells"]
    )
    return Notebook(name, cells, Declaration.model_validate(node["metadata"].get("textpriv", {})))


def check_parameters(notebook: Notebook) -> None:
    """Refuse a notebook that would silently ignore a parameter.

    papermill passes whatever it is given: without a cell tagged `parameters`, or with a
    mistyped name in it, the notebook's own default would win without a word.
    """
    tagged = [cell for cell in notebook.cells if cell.runs and "parameters" in cell.tags]
    if len(tagged) != 1:
        raise ProfileError(
            f"{notebook.name}: expected one cell tagged 'parameters', got {len(tagged)}"
        )
    got: list[str] = []
    for statement in ast.parse(plain_python(tagged[0].source)).body:
        if isinstance(statement, ast.Assign):
            got += map(ast.unparse, statement.targets)
        elif isinstance(statement, ast.AnnAssign):
            got.append(ast.unparse(statement.target))
    if sorted(got) != sorted(PARAMETERS):
        raise ProfileError(
            f"{notebook.name}: the parameters cell sets {got}, expected {list(PARAMETERS)}"
        )


def needed(notebook: Notebook, profile: str) -> list[str]:
    """Ids of the assets that a notebook declares or that a profile's table names for it.

    A name that is neither an asset nor a corpus is one of the notebook's own and is passed over.
    """
    names = set(named(profiles.table(profile, notebook.name)))
    ids = {*notebook.declares.assets, *(names & set(assets.registry()))}
    if others := names - ids:
        from textpriv.data import corpora  # late: pandas is slow to import

        ids.update(map(corpora.asset_of, others & set(corpora.names())))
    return sorted(ids)


def named(table: Mapping[str, Any]) -> list[str]:
    """Texts under `NAMING`: a text itself, the items of a list, keys and values of a table."""
    entries: list[Any] = []
    for value in (table[key] for key in NAMING if key in table):
        if isinstance(value, Mapping):
            entries += [*value, *value.values()]
        else:
            entries += [value] if isinstance(value, str) else value
    return sorted({entry for entry in entries if isinstance(entry, str) and entry})


def heading(cells: Sequence[Cell], index: int) -> str:
    """Text of the nearest Markdown heading at or above a cell; "top" when there is none."""
    for cell in reversed(cells[: index + 1]):
        if cell.kind == "markdown":
            lines = [line for line in cell.source.splitlines() if line.startswith("#")]
            if lines:
                return lines[-1].lstrip("#").strip()
    return "top"


def plain_python(source: str) -> str:
    """A cell without IPython's magics, so that it parses as Python."""
    lines = source.splitlines()
    if lines and lines[0].startswith("%%"):
        return ""  # the whole cell is in another language, or timed
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def say(name: str, text: str) -> None:
    """A line about a notebook, whole even where several run side by side."""
    print(f"{name}  {text}\n", end="", flush=True)
