"""One figure alone, and all of them again.

`./run_all.sh --figure fig05_ladder` runs the cells that it needs: the one that draws it, and those
that set or change what a needed cell reads. Draws come from streams that are named, not from one
that runs on, so that a figure made alone has the numbers that it has in the whole run; whether it
has is said at the end.

`./run_all.sh --redraw` draws the figures of a run again, from the numbers that it kept, with the
functions as they are now.
"""

from __future__ import annotations

import ast
import json
import os
import symtable
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from textpriv import assets, drawing, paths, profiles
from textpriv.errors import InvalidInput, RunError
from textpriv.files import write_atomic
from textpriv.report import results
from tools import notebooks
from tools.notebooks import Notebook, plain_python

_RECORDED = "run's record"  # what `run.record` adds to and `run.measurement` reads, as a name
_WRITES, _READS = {"record", "record_rows"}, {"measurement", "difference", "claims", "finish"}


def make(stem: str, found: Sequence[Notebook], parameters: Mapping[str, Any]) -> Path:
    """Run what a figure needs; its picture lies beside those that git holds, not over them."""
    from tools import execute  # late: papermill takes a second

    notebook, profile = declared_by(stem, found), parameters["profile"]
    chosen = alone(notebook, stem)
    node = json.loads((paths.NOTEBOOKS / notebook.file).read_text(encoding="utf-8"))
    node["cells"] = [cell for cell in node["cells"] if cell["id"] in chosen]
    whole = sum(cell.runs for cell in notebook.cells)
    print(f"{stem}: {len(chosen)} of {whole} cells of {notebook.name}", flush=True)
    for asset_id in notebooks.needed(notebook, profile):
        assets.fetch(asset_id)
    run = results.run_name(**parameters)
    run = "by-hand" if run in paths.COMMITTED else run
    executed = paths.RUNS / run / f"{stem}.ipynb"
    write_atomic(executed, json.dumps(node).encode())
    os.environ.pop(results.RUNNER, None)
    os.chdir(paths.NOTEBOOKS)
    minutes = profiles.settings(profile).cell_minutes
    execute.execute(notebook, executed, parameters, minutes, Event(), source=executed)
    made = paths.output_directory(run, "figures") / f"{stem}.png"
    held = paths.output_directory("full" if profile == "full" else "default", "figures")
    print(f"{made.relative_to(paths.REPOSITORY)}: {_compared(made, held)}")
    return made


def _compared(made: Path, held: Path) -> str:
    """Whether the numbers of a figure are those of the one that git holds."""
    other = (held / made.name).with_suffix(".csv")
    if not other.exists():
        return "git holds no figure of that name"
    same = made.with_suffix(".csv").read_bytes() == other.read_bytes()
    return f"its numbers are {'' if same else 'not '}those of {other.relative_to(paths.REPOSITORY)}"


def redraw(found: Sequence[Notebook], parameters: Mapping[str, Any]) -> int:
    """Draw the figures of a run again, in its files and in the notebooks that show them."""
    from textpriv.report import figures  # late: matplotlib takes a second
    from tools import outputs

    run = results.run_name(**parameters)
    folder, missing = paths.output_directory(run, "figures"), []
    figures.use_style()
    for notebook in found:
        shown = {}
        for stem in notebook.declares.figures:
            call = paths.RUNS / run / results.DRAWINGS / stem
            try:
                about = json.loads((folder / f"{stem}.json").read_bytes())
                figure = drawing.drawn_again(call.read_bytes())
            except (FileNotFoundError, InvalidInput):
                missing.append(stem)
                continue
            about["title"] = figures.title_of(figure)
            files = {**figures.pictures(figure, about), ".json": figures.about(about)}
            for suffix, data in files.items():
                write_atomic(folder / f"{stem}{suffix}", data)
            shown[about["alt"]] = figures.drawn(figure, "png", dpi=figures.SCREEN)
            figures.plt.close(figure)
        kept = results.committed(notebook.name)  # of which run git holds what it printed and drew
        if shown and kept and kept.profile == run:
            outputs.redraw(notebook, shown)
    drawn = sum(len(notebook.declares.figures) for notebook in found) - len(missing)
    print(f"{drawn} figures drawn again; not kept by this run: {', '.join(missing) or 'none'}")
    return 1 if missing else 0


def declared_by(stem: str, found: Sequence[Notebook]) -> Notebook:
    """The notebook that makes a figure."""
    for notebook in found:
        if stem in notebook.declares.figures:
            return notebook
    known = ", ".join(each for notebook in found for each in notebook.declares.figures)
    raise RunError(f"--figure: got {stem!r}, expected one of {known}")


def alone(notebook: Notebook, stem: str) -> set[str]:
    """Ids of the code cells that a figure needs, its own with them."""
    code = [cell for cell in notebook.cells if cell.runs]
    own = [number for number, cell in enumerate(code) if f'"{stem}"' in cell.source]
    chosen: set[str] = set()
    missing: set[str] = set()
    for cell in reversed(code[: own[-1] + 1]):
        reads, sets, changes = names(plain_python(cell.source))
        is_asked = cell is code[own[-1]] or "parameters" in cell.tags
        if is_asked or missing & (sets | changes):
            chosen.add(cell.id)
            missing = (missing - (sets - changes)) | reads
    return chosen


def names(source: str) -> tuple[set[str], set[str], set[str]]:
    """The names that a cell reads from cells before it, those that it sets, those it changes."""
    reads: set[str] = set()
    sets: set[str] = set()
    for statement in _in_order(ast.parse(source).body):
        table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
        own = table.get_symbols()
        read = {each.get_name() for each in own if each.is_referenced()}
        for scope in _scopes(table):
            read |= {each.get_name() for each in scope.get_symbols() if each.is_global()}
        if isinstance(statement, ast.AugAssign):  # which reads what it sets
            read.add(_base(statement.target))
        reads |= read - sets
        sets |= {
            each.get_name()
            for each in own
            if each.is_assigned() or each.is_imported() or each.is_namespace()
        }
    changes = set(map(_changed, ast.walk(ast.parse(source))))
    called = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and _base(node) == "run"
    }
    changes |= {_RECORDED} if called & _WRITES else set()
    reads |= {_RECORDED} if called & _READS else set()
    return reads, sets, changes - {"", "run"}


def _in_order(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements as they run, a loop as what it sets before what it does."""
    for statement in statements:
        if isinstance(statement, ast.For):
            yield ast.Assign([statement.target], statement.iter, lineno=statement.lineno)
            yield from _in_order(statement.body)
        else:
            yield statement


def _changed(node: ast.AST) -> str:
    """The name of what a node of a cell changes in place; "" where it changes nothing."""
    if isinstance(node, ast.AugAssign):
        return _base(node.target)
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _base(node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func  # as in `rows.append(row)`
        return _base(called) if isinstance(called, ast.Attribute) else ""
    return ""


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _scopes(child)


def _base(node: ast.expr) -> str:
    """The name that an expression like `rows[0].values` starts from; "" where it has none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
