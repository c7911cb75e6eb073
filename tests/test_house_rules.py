"""Rules that every notebook and every source file keeps; each rule is shown to bite.

That none loads code in the guise of data is in test_supply_chain.py.

The tree is walked, not asked from git, so that an unpacked archive is tested as well.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode, v4
from tools.notebooks import check_parameters, parse, plain_python
from tools.outputs import MOST_BYTES, RUN, digest, edited

from textpriv import profiles, report
from textpriv.errors import TextprivError

REPOSITORY = Path(__file__).resolve().parents[1]
NOT_OURS = {".git", ".venv", "__pycache__"}  # ignored by git
MADE = {REPOSITORY / name for name in ("runs", "site", "build", "dist")}  # and so are these
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))

MOST_LINES, FEWEST_WORDS = 300, 250
LARGEST = 1_500_000  # bytes of one file

# What opens a file, a folder or a connection: the library does that, a notebook does not.
ACCESS_CALLS = re.compile(
    r"open|urlopen|urlretrieve|savefig|savetxt|loadtxt|genfromtxt|fromfile|tofile|memmap"
    r"|read_(csv|table|json|parquet|pickle|excel|feather|text|bytes)"
    r"|to_(csv|json|parquet|pickle|excel|feather)|write_(text|bytes)|mkdir|unlink|glob|rglob"
)
ACCESS_MODULES = {
    "os", "io", "pathlib", "glob", "shutil", "tempfile", "subprocess", "sys", "requests", "urllib",
    "httpx", "socket", "zipfile", "tarfile", "sqlite3", "pickle",
}  # fmt: skip

# Imports go one way, and say all of it: relative ones would escape the runner's up-to-date checks.
ROOMS = (
    ("assets",), ("neighbors",), ("data",), ("models",), ("mechanisms",), ("attacks", "privacy"),
    ("utility",), ("evaluation",), ("report",), ("experiments",),
)  # fmt: skip
AGAINST_THE_WAY = {"lib": re.compile(r"\.|(tools|tests)\b")} | {
    f"lib/textpriv/{room}": re.compile(rf"textpriv\.({'|'.join(beside_or_above)})\b")
    for floor, rooms in enumerate(ROOMS)
    for room in rooms
    if (beside_or_above := [each for level in ROOMS[floor:] for each in level if each != room])
}
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|Users|root|work|mnt|tmp)/\w|[A-Z]:\\Users")


def files(*suffixes: str) -> Iterator[Path]:
    """Files of the repository with one of these suffixes; every file when there is none."""
    for folder, folders, names in os.walk(REPOSITORY):
        folders[:] = [
            name
            for name in folders
            if name not in NOT_OURS
            and Path(folder, name) not in MADE
            and not name.endswith((".egg-info", "_cache", "_checkpoints"))
        ]
        for name in names:
            if not suffixes or name.endswith(suffixes):
                yield Path(folder, name)


def notebook_problems(name: str, node: NotebookNode) -> list[str]:
    """What is wrong with a notebook by the rules of the house."""
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    tree = ast.parse("\n".join(plain_python(cell.source) for cell in code))
    text = "\n".join(cell.source for cell in node.cells if cell.cell_type == "markdown")
    return [
        *_form(node, code),
        *_size(tree, code, text),
        *_parameters(name, node, code),
        *_access(tree),
        *_reports(name, node, tree),
        *(f"picture without alternative text: {p}" for p in re.findall(r"!\[\s*\]\([^)]*\)", text)),
    ]


def _form(node: NotebookNode, code: list[NotebookNode]) -> Iterator[str]:
    try:
        nbformat.validate(node)
    except nbformat.ValidationError as error:
        yield f"invalid: {error.message}"
    if edited(node):
        yield "outputs of other code: run it, or `python -m tools.outputs NN` to take them out"
    if any(" at 0x" in json.dumps(cell.outputs) for cell in code):
        yield "outputs name a place in memory"
    kernel = node.metadata.get("kernelspec", {}).get("name")
    if kernel != "python3":
        yield f"kernel {kernel!r}, expected 'python3'"
    if any(not cell.source.strip() for cell in node.cells):
        yield "an empty cell"


def _size(tree: ast.Module, code: list[NotebookNode], text: str) -> Iterator[str]:
    lines = sum(bool(line.strip()) for cell in code for line in cell.source.splitlines())
    if lines > MOST_LINES:
        yield f"{lines} lines of code, at most {MOST_LINES}"
    if any(isinstance(n, ast.ClassDef) for n in ast.walk(tree)):
        yield "a class"
    words = len(text.split())
    if words < FEWEST_WORDS:
        yield f"{words} words of text, at least {FEWEST_WORDS}"


def _parameters(name: str, node: NotebookNode, code: list[NotebookNode]) -> Iterator[str]:
    try:
        check_parameters(parse(name, node))
    except TextprivError as error:
        yield str(error)
        return
    (cell,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    expected = {"profile": "default", "seed": report.DEFAULT_SEED, "overrides": {}}
    values = {}
    for statement in ast.parse(cell.source).body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            values[ast.unparse(statement.target)] = ast.literal_eval(statement.value)
    if values != expected:
        yield f"typed parameters {values}, expected {expected}"


def _access(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if ACCESS_CALLS.fullmatch(called):
                yield f"file access: {called}"
        for module in _modules(node):
            if module.split(".")[0] in ACCESS_MODULES:
                yield f"file access: import {module}"


def _reports(name: str, node: NotebookNode, tree: ast.Module) -> Iterator[str]:
    """Calls of `report`: the notebook's own name, declared figures, alternative texts."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    begins = [_argument(c) for c in calls if _called(c) == "begin"]
    if begins != [name]:
        yield f"report.begin is called with {begins}, expected once with {name!r}"
    if [_called(c) for c in calls].count("finish") != 1:
        yield "expected one call of finish"
    figures = [c for c in calls if _called(c) == "save_figure"]
    declared = node.metadata.get("textpriv", {}).get("figures", [])
    if [_argument(c) for c in figures] != declared:
        yield f"declares figures {declared}, makes {[_argument(c) for c in figures]}"
    for call in figures:
        alt = [k.value for k in call.keywords if k.arg == "alt"] or call.args[3:]
        if not alt or (isinstance(alt[0], ast.Constant) and not str(alt[0].value).strip()):
            yield f"figure {_argument(call)} without alternative text"


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).split(".")[-1]


def _argument(call: ast.Call) -> Any:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) else None


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path) -> None:
    assert re.fullmatch(r"\d{2}_[a-z0-9_]+", path.stem)
    assert notebook_problems(path.stem, nbformat.read(path, as_version=4)) == []


def test_every_table_of_a_profile_has_its_notebook() -> None:
    names = {path.stem for path in NOTEBOOKS}
    for profile in profiles.names():
        tables = {key for key, value in profiles._read(profile).items() if isinstance(value, dict)}
        assert tables <= names, profile


def good_notebook() -> NotebookNode:
    parameters = 'profile: str = "default"\nseed: int = 7\noverrides: dict = {}'
    body = (
        'from textpriv import report\nrun = report.begin("01_good", profile, seed, overrides)\n'
        'run.save_figure("fig01_a", fig, data, alt="A line")\nrun.finish()'
    )
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Title\n" + "word " * FEWEST_WORDS),
            v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}),
            v4.new_code_cell(body),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"},
                  "textpriv": {"figures": ["fig01_a"]}},
    )  # fmt: skip


def test_a_good_notebook_keeps_the_rules() -> None:
    node = good_notebook()
    assert notebook_problems("01_good", node) == []
    node.cells[2].source = node.cells[2].source.replace("alt=", "")
    assert notebook_problems("01_good", node) == []


def show(node: NotebookNode, text: str) -> None:
    """Give a cell an output, as a run of its code would."""
    cell = node.cells[2]
    cell.outputs.append(v4.new_output("stream", text=text))
    node.metadata[RUN] = {"cells": {cell.id: digest(cell)}}


def test_outputs_of_the_code_that_was_run_are_kept() -> None:
    node = good_notebook()
    show(node, "0.5")
    assert notebook_problems("01_good", node) == []
    node.cells[2].source += "\n"
    assert "outputs of other code" in notebook_problems("01_good", node)[0]


def edit(cell: int, old: str, new: str) -> Callable[[NotebookNode], None]:
    def change(node: NotebookNode) -> None:
        assert old in node.cells[cell].source
        node.cells[cell].source = node.cells[cell].source.replace(old, new)

    return change


def end(code: str) -> Callable[[NotebookNode], None]:
    """Code before the last line of the notebook."""
    return edit(2, "run.finish()", f"{code}\nrun.finish()")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (edit(0, "word ", ""), "words of text"),
        (edit(0, "Title", "Title\n![](x.png)"), "without alternative text"),
        (edit(1, "seed", "sede"), "sets ['profile', 'sede', 'overrides']"),
        (edit(1, "7", "8"), "typed parameters"),
        (end("class A:\n    pass"), "a class"),
        (end("x = 1\n" * 300), "lines of code"),
        (end("open('x')"), "file access: open"),
        (end("pd.read_csv('x')"), "file access: read_csv"),
        (end("from pathlib import Path"), "import pathlib"),
        (edit(2, "run.finish()", ""), "one call of finish"),
        (edit(2, "01_good", "02_other"), "report.begin"),
        (edit(2, "fig01_a", "fig01_b"), "declares figures"),
        (edit(2, ', alt="A line"', ""), "without alternative text"),
        (lambda node: node.cells[2].outputs.append(v4.new_output("stream")), "outputs of other"),
        (lambda node: show(node, "<f at 0x7f3a>"), "outputs name a place in memory"),
        (lambda node: node.metadata.kernelspec.update(name="my-env"), "kernel 'my-env', expected"),
        (lambda node: node.cells.append(v4.new_code_cell("")), "an empty cell"),
        (lambda node: node.cells[2].update(colour="red"), "invalid: "),
    ],
)
def test_notebook_rules_bite(change: Callable[[NotebookNode], None], problem: str) -> None:
    node = good_notebook()
    change(node)
    (message,) = notebook_problems("01_good", node)
    assert problem in message


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = f"{'.' * node.level}{node.module or ''}." if hasattr(node, "level") else ""
            yield from (f"{base}{alias.name}" for alias in node.names)


def test_imports_go_one_way() -> None:
    wrong = [
        (path.name, name)
        for folder, against in AGAINST_THE_WAY.items()
        for path in (REPOSITORY / folder).rglob("*.py")
        for name in imports(path.read_text(encoding="utf-8"))
        if against.match(name)
    ]
    assert wrong == []
    planted = "def f():\n    from tools import runner\nfrom . import a\nfrom textpriv import tools"
    matches = [bool(AGAINST_THE_WAY["lib"].match(name)) for name in imports(planted)]
    assert sorted(matches) == [False, True, True]
    assert AGAINST_THE_WAY["lib/textpriv/attacks"].match("textpriv.privacy.claims")
    assert not AGAINST_THE_WAY["lib/textpriv/attacks"].match("textpriv.mechanisms.base")
    rooms = {path.name for path in (REPOSITORY / "lib" / "textpriv").iterdir() if path.is_dir()}
    assert rooms - {"__pycache__"} == {room for level in ROOMS for room in level}


TEXT = (".py", ".md", ".toml", ".yml", ".sh", ".lock", ".ipynb", ".json", ".csv", ".mplstyle")


LONGEST_MODULE = 600  # lines
STAND_INS = {"found", "of", "some"}  # say nothing of what they hold


def stand_ins(source: str) -> list[str]:
    """Variables and parameters that have no name of their own."""
    return [
        f"line {node.lineno}: {name}"
        for node in ast.walk(ast.parse(source))
        for name in [getattr(node, "arg", None) or getattr(node, "id", None)]
        if name in STAND_INS
    ]


def test_names_say_what_they_hold_and_modules_stay_small() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in files(".py")}
    assert {path: named for path, text in texts.items() if (named := stand_ins(text))} == {}
    assert stand_ins("def f(found):\n    return [some for some in found]") == [
        "line 1: found", "line 2: some", "line 2: some", "line 2: found",
    ]  # fmt: skip
    rooms = [REPOSITORY / room for room in ("lib", "tools")]
    lines = {path: len(text.splitlines()) for path, text in texts.items()
             if any(path.is_relative_to(room) for room in rooms)}  # fmt: skip
    assert len(lines) > 100
    assert {path: count for path, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_machine_paths() -> None:
    for path in [*files(*TEXT), REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run"]:
        assert MACHINE_PATH.findall(path.read_text(encoding="utf-8")) == [], path

    for place in ("home/me", "Users/me", "root/x", "tmp/x"):
        assert MACHINE_PATH.search(f'open("/{place}")')
        assert not MACHINE_PATH.search(f"https://example.org/{place}")


def test_no_large_file() -> None:
    assert sum(path.stat().st_size for path in NOTEBOOKS) <= MOST_BYTES
    large = {p.relative_to(REPOSITORY).as_posix(): p.stat().st_size for p in files()}
    assert {name: size for name, size in large.items() if size > LARGEST} == {}


def test_shell_scripts_parse_and_stop_at_errors() -> None:
    for path in files(".sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)
    for path in (REPOSITORY / "run_all.sh", REPOSITORY / ".ci" / "run"):
        assert "\nset -euo pipefail\n" in path.read_text()
        assert os.access(path, os.X_OK)
