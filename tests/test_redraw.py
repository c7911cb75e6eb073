"""Figures drawn again, by `./run_all.sh --redraw`."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from test_runner import BEGIN, Project

from textpriv import drawing, kept
from textpriv.errors import InvalidInput

LINE = """\
from textpriv.experiments.your_text import read_and_linked
finds = {"mechanism": ["custext+"] * 2, "epsilon": 2.0, "finds": ["words", "texts"]}
shares = {"value": [height] * 2, "low": 0.1, "high": 0.9, "chance": 0.0, "unchanged": 0.1}
rows = pd.DataFrame({**finds, **shares})
run.save_figure("fig01_line", read_and_linked(rows, "Two points"), rows, alt="Two points")"""


def test_figures_are_drawn_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    cells = [BEGIN, "import pandas as pd\nheight = 0.5", LINE, "run.finish()"]
    project.notebook("01_tiny", cells, {"figures": ["fig01_line"]})
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
