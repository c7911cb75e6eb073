"""Outputs that git holds: what is kept of a run, and what is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import NotebookNode, v4
from tools import notebooks, outputs

from textpriv import assets, paths
from textpriv.data import corpora
from textpriv.report import results

REVIEW = "this dress came in two sizes and neither of them did fit my sister at all"


def cells() -> list[NotebookNode]:
    text = v4.new_markdown_cell("# 05 · A question", id="a")
    return [text, v4.new_code_cell("attack()", id="b"), v4.new_code_cell("show()", id="c")]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook, and its executed copy: a progress bar, a warning, two tables, a widget."""
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    record = SimpleNamespace(profile="default", seed=7, commit="c0ffee")
    monkeypatch.setattr(outputs.results, "load", lambda *_: record)
    metadata = {"textpriv": {"assets": ["rented-clothes-reviews"]}}
    nbformat.write(v4.new_notebook(cells=cells(), metadata=metadata), tmp_path / "05_x.ipynb")
    monkeypatch.setattr(corpora, "load", lambda name: SimpleNamespace(texts=[REVIEW]))

    given = v4.new_code_cell("seed = 7", id="given", metadata={"tags": ["injected-parameters"]})
    run = [cells()[0], given, *cells()[1:]]
    table = {"text/html": "<td>0.5</td>", "text/plain": "0.5"}
    inside = v4.new_output("display_data", {"text/plain": "by a widget"})
    run[2].outputs = [
        v4.new_output("display_data", {outputs.VIEW: {"model_id": "bar"}, "text/plain": "0%"}),
        v4.new_output("stream", name="stderr", text="a warning"),
        v4.new_output("stream", name="stdout", text="printed"),
        v4.new_output("execute_result", table, metadata={"text/html": {"isolated": True}}),
        v4.new_output("display_data", {outputs.VIEW: {"model_id": "box"}}),
    ]
    words = "".join(f"<td>{word}</td>" for word in REVIEW.split()[2:10])
    run[3].outputs = [v4.new_output("display_data", {"text/html": f"<table>{words}</table>"})]
    for cell in run[1:]:
        cell.execution_count = 1
    state = {"box": {"state": {"children": ["IPY_MODEL_o"]}}, "o": {"state": {"outputs": [inside]}}}
    executed = v4.new_notebook(cells=run, metadata={"widgets": {outputs.STATE: {"state": state}}})
    nbformat.write(executed, tmp_path / "executed.ipynb")
    return tmp_path / "executed.ipynb"


def kept(executed: Path) -> NotebookNode:
    (notebook,) = notebooks.find()
    outputs.keep(notebook, executed, "default")
    return nbformat.read(paths.NOTEBOOKS / "05_x.ipynb", as_version=4)


def test_what_is_kept_of_a_run(ran: Path) -> None:
    node = kept(ran)
    nbformat.validate(node)
    assert [cell.id for cell in node.cells] == ["a", "b", "c"]
    texts = [each.get("text") or each["data"] for each in node.cells[1].outputs]
    assert texts == ["printed", {"text/html": "<td>0.5</td>"}, {"text/plain": "by a widget"}]
    assert node.metadata[outputs.RUN]["commit"] == "c0ffee"
    assert outputs.edited(node) == []
    node.cells[1].source = "other()"
    assert outputs.edited(node) == ["b"]
    bare = outputs.stripped(node)
    assert not any(cell.get("outputs") for cell in bare.cells) and outputs.RUN not in bare.metadata


@pytest.mark.parametrize(("allowed", "withheld"), [("no", True), ("unclear", False)])
def test_a_long_quotation_is_withheld(
    ran: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, withheld: bool
) -> None:
    """Eight words in a row, over the cells of a table, of what may not be passed on."""
    entry = assets.registry()["rented-clothes-reviews"].model_copy(
        update={"redistribution": allowed}
    )
    monkeypatch.setattr(assets, "registry", lambda: {entry.id: entry})
    monkeypatch.setattr(corpora, "names", lambda: ("rented-clothes",))
    (shown,) = kept(ran).cells[2].outputs
    assert ("may not be passed on" in str(shown)) == withheld
    assert ("sizes" in str(shown)) != withheld


def test_the_same_run_is_not_written_again(ran: Path) -> None:
    kept(ran)
    path = paths.NOTEBOOKS / "05_x.ipynb"
    before = path.stat().st_mtime_ns
    kept(ran)
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "path", sorted(paths.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)
def test_the_last_output_counts_what_git_holds(path: Path) -> None:
    """Parts that were run apart are in the results, and in their count."""
    said = [
        output.text
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "measurements, " in output.get("text", "")
    ]
    run = "full" if "full" in said[-1] else "default"
    written = results.load(path.stem, run)
    counts = f"{len(written.measurements)} measurements, {len(written.figures)} figures, in"
    assert said[-1].startswith(counts)
