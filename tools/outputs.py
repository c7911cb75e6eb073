"""What the committed run printed and drew, kept in the notebooks that git holds.

Who opens a notebook sees its tables and figures at once. The runner writes them after a run whose
figures and results git holds too; `python -m tools.outputs 05` takes them out of a notebook again.
Outputs show no text of a data set that may not be passed on, and only short quotations of those
of which that is unclear.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode, v4

from textpriv import assets, paths
from textpriv.data import corpora, splits
from textpriv.files import write_atomic
from textpriv.report import results
from tools import notebooks
from tools.notebooks import Notebook

RUN = "textpriv_run"
"""Key of a notebook's metadata: profile, seed and commit of the run, and which code was run."""

MOST_BYTES = 8_000_000
"""Of all notebooks together."""

LONGEST_QUOTE = {"no": 7, "unclear": 40}
"""Words in a row, by whether a data set may be passed on."""

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
FORMS = ("text/html", "text/markdown", "image/png", "text/plain")  # of an output, the best first


def keep(notebook: Notebook, executed: Path, profile: str) -> None:
    """Write the outputs of an executed copy into the notebook that it is a copy of."""
    path = paths.NOTEBOOKS / notebook.file
    node = nbformat.read(path, as_version=4)
    made = results.load(notebook.name, profile)
    origin = {
        **{key: getattr(made, key) for key in ("profile", "seed", "commit")},
        "copy": assets.sha256(executed)[:12],
        "cells": {cell.id: digest(cell) for cell in _code(node)},
    }
    if node.metadata.get(RUN) == origin:
        return
    run = nbformat.read(executed, as_version=4)
    widgets = run.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    ran = {
        cell.id: (cell.execution_count, [*_lasting(without_widgets(cell.outputs, widgets))])
        for cell in run.cells
        if cell.cell_type == "code"
    }
    withheld = _quoting({name: outputs for name, (_, outputs) in ran.items()}, notebook, profile)
    for cell in _code(node):
        cell.execution_count, cell.outputs = ran[cell.id]
        if why := withheld.get(cell.id):
            cell.outputs = [v4.new_output("display_data", data={"text/markdown": why})]
    node.metadata[RUN] = origin
    write_atomic(path, f"{nbformat.writes(node)}\n".encode())


def redraw(notebook: Notebook, pictures: Mapping[str, bytes]) -> None:
    """Replace pictures in a notebook that git holds, known by their alternative texts."""
    path = paths.NOTEBOOKS / notebook.file
    node = nbformat.read(path, as_version=4)
    for output in (each for cell in _code(node) for each in cell.outputs):
        alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
        if picture := pictures.get(" ".join(alt.split())):
            output.data["image/png"] = base64.b64encode(picture).decode()
    write_atomic(path, f"{nbformat.writes(node)}\n".encode())


def stripped(node: NotebookNode) -> NotebookNode:
    """The notebook without outputs, and without the word that it has been run."""
    node.metadata.pop(RUN, None)
    for cell in _code(node):
        cell.execution_count, cell.outputs = None, []
    return node


def edited(node: NotebookNode) -> list[str]:
    """Ids of the cells whose code is not what was run, where outputs are kept."""
    ran = node.metadata.get(RUN, {}).get("cells", {})
    return [each.id for each in _code(node) if each.outputs and ran.get(each.id) != digest(each)]


def digest(cell: Mapping[str, Any]) -> str:
    """Of the source of a cell: outputs belong to the code that was run."""
    return hashlib.sha256("".join(cell["source"]).encode()).hexdigest()[:12]


def without_widgets(
    outputs: Iterable[NotebookNode], widgets: Mapping[str, Any]
) -> Iterator[NotebookNode]:
    """Outputs with every widget replaced by what it displayed; a progress bar by nothing."""
    for output in outputs:
        if view := output.get("data", {}).get(VIEW):
            inside = widgets.get(view["model_id"], {}).get("state", {}).get("children", [])
            for child in (widgets.get(key.removeprefix("IPY_MODEL_"), {}) for key in inside):
                yield from child.get("state", {}).get("outputs", ())
        else:
            yield output


def _lasting(outputs: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """Outputs in one form each, without warnings, which are about a machine."""
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield output
            continue
        form = next((each for each in FORMS if each in output.get("data", {})), None)
        if form:
            metadata = {form: output.metadata[form]} if form in output.get("metadata", {}) else {}
            yield v4.new_output("display_data", data={form: output.data[form]}, metadata=metadata)


def _quoting(
    outputs: Mapping[str, list[NotebookNode]], notebook: Notebook, profile: str
) -> dict[str, str]:
    """What to say in place of a cell's outputs where they quote more than may be passed on."""
    used = notebooks.needed(notebook, profile)
    shown = {name: " ".join(map(_text, nodes)) for name, nodes in outputs.items()}
    reasons: dict[str, str] = {}
    for name in corpora.names():
        asset = assets.registry()[corpora.asset_of(name)]
        if asset.id in used and asset.redistribution in LONGEST_QUOTE:
            longest = LONGEST_QUOTE[asset.redistribution] + 1
            texts = corpora.load(name).texts
            shared = splits.shares_ngram([*shown.values()], texts, longest, shortest=longest)
            why = (
                f"*(This output quotes {asset.id}, which may not be passed on: "
                f"{asset.redistribution_why}. Run the notebook to see it.)*"
            )
            reasons.update(
                {cell: why for cell, quotes in zip(shown, shared, strict=True) if quotes}
            )
    return reasons


def _text(output: NotebookNode) -> str:
    """The words of an output."""
    data = output.get("data", {})
    text = "".join(output.get("text", "")) + "".join(
        "".join(data[form]) for form in FORMS if form.startswith("text/") and form in data
    )
    return re.sub(r"<[^>]+>", " ", text)


def _code(node: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in node.cells if cell.cell_type == "code"]


if __name__ == "__main__":
    for each in notebooks.find():
        if each.name.startswith(tuple(sys.argv[1:])):
            without = stripped(nbformat.read(paths.NOTEBOOKS / each.file, as_version=4))
            write_atomic(paths.NOTEBOOKS / each.file, f"{nbformat.writes(without)}\n".encode())
