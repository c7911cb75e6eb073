"""One figure alone, and figures drawn again."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from test_runner import BEGIN, Project
from tools import figure, notebooks
from tools.notebooks import Cell, Declaration, Notebook

from textpriv import drawing, kept
from textpriv.errors import InvalidInput, RunError

LINE = """\
from textpriv.experiments.your_text import read_and_linked
finds = {"mechanism": ["custext+"] * 2, "epsilon": 2.0, "finds": ["words", "texts"]}
shares = {"value": [height] * 2, "low": [0.1] * 2, "high": [0.9] * 2, "chance": [0.0] * 2}
rows = pd.DataFrame({**finds, **shares})
run.save_figure("fig01_line", read_and_linked(rows, "Two points"), rows, alt="Two points")"""


def notebook(*sources: str) -> Notebook:
    parameters = Cell("p", "code", 'profile = "default"', ("parameters",))
    cells = [Cell(str(number), "code", each, ()) for number, each in enumerate(sources)]
    return Notebook("01_tiny", (parameters, *cells), Declaration(figures=["fig01_x"]))


@pytest.mark.parametrize(
    ("source", "reads", "sets", "changes"),
    [
        ("b = a + 1\nc = b", "a", "b c", ""),
        ("def f(x):\n    y = 2\n    return x + y + z", "z", "f", ""),
        ("for row in rows:\n    row + 1", "rows", "row", ""),
        ("rows.append(1)\ntable['x'] = 2\nn += k", "rows table n k", "n", "rows table n"),
        ("print([x for x in xs])", "print xs", "", ""),
        ("import numpy as np\nnp.random.seed(1)", "", "np", "np"),
    ],
)
def test_names_are_told_apart(source: str, reads: str, sets: str, changes: str) -> None:
    assert figure.names(source) == (set(reads.split()), set(sets.split()), set(changes.split()))


def test_a_figure_needs_what_its_cell_reads_and_no_more() -> None:
    tiny = notebook(
        "run = begin(profile)",
        "rows = []",
        "rows = [1]",  # in place of the list before it
        "rows.append(2)",
        "other = run.measure()",
        'run.record("a", 1)',
        'table = rows\nrun.save_figure("fig01_x", table)',
        "rows = late",
    )
    assert figure.alone(tiny, "fig01_x") == {"p", "0", "2", "3", "6"}
    quoting = notebook("run = 1", 'run.record("a", 1)', 'run.measurement("a")\ns("fig01_x")')
    assert figure.alone(quoting, "fig01_x") == {"p", "0", "1", "2"}  # what was recorded is read


def test_every_figure_of_the_notebooks_has_a_cell() -> None:
    known = notebooks.find()
    for each in known:
        code = sum(cell.runs for cell in each.cells)
        for stem in each.declares.figures:
            assert figure.declared_by(stem, known) == each
            assert 3 <= len(figure.alone(each, stem)) < code
    with pytest.raises(RunError, match=r"got 'fig99_x', expected one of fig00_"):
        figure.declared_by("fig99_x", known)


def test_one_figure_and_then_all_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    cells = [
        BEGIN,
        "import pandas as pd\nheight = 0.5",
        "raise SystemExit  # the figure reads nothing of this cell",
        LINE,
    ]
    project.notebook("01_tiny", cells, {"figures": ["fig01_line"]})
    status, output = project.run("--figure", "fig01_line")
    assert status == 0, output
    assert "fig01_line: 4 of 5 cells of 01_tiny" in output
    assert "runs/smoke/figures/fig01_line.png: git holds no figure of that name" in output

    project.notebook("01_tiny", [*cells[:2], cells[3], "run.finish()"], {"figures": ["fig01_line"]})
    assert project.run()[0] == 0
    picture = project.root / "runs" / "smoke" / "figures" / "fig01_line.png"
    before = picture.read_bytes()
    assert project.run("--redraw")[0] == 0
    assert picture.read_bytes() == before  # nothing has changed, to the last bit

    drawn_in = project.package / "experiments" / "your_text.py"
    drawn_in.write_text(drawn_in.read_text().replace("(5.2", "(6.2"))
    status, output = project.run("--redraw")
    assert status == 0 and "1 figures drawn again; not kept by this run: none" in output
    assert picture.read_bytes() != before  # by the function as it is now


def test_only_the_package_draws() -> None:
    for module, name in (
        ("os", "system"),
        ("textpriv.files", "os.system"),
        ("textpriv.files", "x"),
    ):
        with pytest.raises(InvalidInput, match=f"got {module}.{name}, expected a drawing"):
            drawing.drawn_again(kept.encoded((module, name, ("true",), {})))
    with pytest.raises(InvalidInput, match="no call that can be read"):
        drawing.drawn_again(b"torn")
    assert drawing.call_of(plt.figure()) is None
    plt.close()
