"""All figures of a run again: `./run_all.sh --redraw`.

They are drawn from the numbers that the run kept, with the functions as they are now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from textpriv import drawing, paths
from textpriv.errors import InvalidInput
from textpriv.files import write_atomic
from textpriv.report import results
from tools.notebooks import Notebook


def redraw(notebooks: Sequence[Notebook], parameters: Mapping[str, Any]) -> int:
    """Draw the figures of a run again, in its files and in the notebooks that show them."""
    from textpriv.report import figures  # late: matplotlib takes a second
    from tools import outputs

    run = results.run_name(**parameters)
    folder, missing = paths.output_directory(run, "figures"), []
    figures.use_style()
    for notebook in notebooks:
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
    drawn = sum(len(notebook.declares.figures) for notebook in notebooks) - len(missing)
    print(f"{drawn} figures drawn again; not kept by this run: {', '.join(missing) or 'none'}")
    return 1 if missing else 0
