"""The results as web pages that need no server and no network: `make site`.

    python -m tools.site.build                    writes site/, to be opened at site/index.html

Lays out Markdown and notebooks as they lie in the repository, so that their links hold, beside
pages of their own for play (play.py), claims (judged.py) and the library (reference.py), and has
Sphinx make the pages (conf.py); a link that leads nowhere is an error. Nothing is executed: a
notebook shows the outputs that git holds of its run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from nbformat import NotebookNode, v4

import textpriv
from textpriv import assets, paths
from textpriv.errors import RunError, TextprivError
from textpriv.report import board, results
from tools import notebooks
from tools.notebooks import Notebook
from tools.outputs import FORMS, RUN, edited, stripped
from tools.site import judged, play, reference

DOCUMENTS = (
    "REPRODUCING.md", "ARTIFACT-APPENDIX.md", "CONTRIBUTING.md", "docs/*.md", "claims/*",
    "benchmarks/*.md", "CITATION.cff", "LICENSE",
)  # fmt: skip
DOWNLOADS = "downloads"  # folder of the notebooks as they are, which Sphinx makes no pages of
MOST_ROWS = 500  # of plotted numbers that a page shows; the file beside it has them all
_TAGS = set(
    "table caption thead tbody tfoot tr th td b br code em i p pre strong sub sup details summary"
    .split()
)  # fmt: skip
_SPANS = {"th": ["colspan", "rowspan", "scope"], "td": ["colspan", "rowspan"]}


def lay_out(folder: Path) -> None:
    """Write what Sphinx reads: the pages, the notebooks, and the files that they link to."""
    sources = notebooks.find()
    pages = {
        "index.md": front(sources),
        "gallery.md": findings(sources),
        "claims.ipynb": nbformat.writes(judged.page(sources)),
        "play.ipynb": nbformat.writes(play.page(_numbers)),
        "data.md": cards(),
    }
    pages |= documents()
    package = Path(textpriv.__file__).parent
    pages |= {f"reference/{name}.md": text for name, text in reference.pages(package)}
    for source in sources:
        pages[f"notebooks/{source.name}.ipynb"] = nbformat.writes(notebook(source))
        pages[f"figures/{source.name}.ipynb"] = nbformat.writes(gallery(source))
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / DOWNLOADS).mkdir()
    for source in sources:
        shutil.copy(paths.NOTEBOOKS / source.file, folder / DOWNLOADS)
    for stem in (stem for source in sources for stem in figures(source)):
        for suffix in results.FIGURE_SUFFIXES:
            shutil.copy(_saved(stem, suffix), folder / "figures")


def plain(text: object) -> str:
    """A text as Markdown that shows it, and obeys nothing in it. (`table` takes care of bars.)"""
    return re.sub(r"([!-/:-@\[-`{}~])", r"\\\1", " ".join(str(text).split()))


# --- Notebooks ----------------------------------------------------------------------------


def notebook(source: Notebook) -> NotebookNode:
    """A notebook for its page: what is missing on top, safe outputs, figures as they were saved."""
    node = nbformat.read(paths.NOTEBOOKS / source.file, as_version=4)
    has_run = RUN in node.metadata and not edited(node)
    if not has_run:
        node = stripped(node)
    saved = figures(source)
    pictures = {origin["alt"] for origin in saved.values()}
    cells: list[NotebookNode] = []
    for index, cell in enumerate(node.cells):
        cells.append(cell)
        if cell.cell_type == "code":
            otherwise = f"Picture: {notebooks.heading(source.cells, index)}"
            cell.outputs = list(_safe(cell.outputs, pictures, otherwise))
            cell.metadata = NotebookNode()
            made = [stem for stem in saved if re.search(rf"[\"']{stem}[\"']", cell.source)]
            cells += [v4.new_markdown_cell(_picture(stem, saved[stem])) for stem in made]
    if not has_run:
        full = "--profile full " if results.file(source.name, "full").exists() else ""
        missing = (
            "```{warning}\nThis page shows the notebook's text and code with the saved figures. "
            "Its tables and computed sentences are there only after it has run: "
            f"`./run_all.sh {full}--only {source.name[:2]}`, then `make site`.\n```"
        )
        cells.insert(1, v4.new_markdown_cell(missing))
    link = f"{{download}}`Download this notebook </{DOWNLOADS}/{source.file}>`"
    cells.insert(1, v4.new_markdown_cell(link))
    node.cells = cells
    return node


def _safe(
    outputs: Iterable[NotebookNode], pictures: Collection[str], otherwise: str
) -> Iterator[NotebookNode]:
    """Outputs in one form each: tables without scripts and styles, no saved figure twice."""
    from bleach import clean

    for output in outputs:
        data = output.get("data", {})
        form = next((each for each in FORMS if each in data), "")
        if output.output_type == "stream":
            yield output
        elif form == "text/html":
            text = re.sub(r"<(style|script)\b.*?</\1>", "", data[form], flags=re.DOTALL)
            text = clean(text, tags=_TAGS, attributes=_SPANS, strip=True)
            yield v4.new_output("display_data", data={form: text})
        elif form == "image/png":
            alt = output.metadata.get(form, {}).get("alt") or otherwise
            text = f"![{plain(alt)}](data:image/png;base64,{''.join(data[form].split())})"
            if " ".join(alt.split()) not in pictures:
                yield v4.new_output("display_data", data={"text/markdown": text})
        elif form:
            yield v4.new_output("display_data", data={form: data[form]})


# --- Figures ------------------------------------------------------------------------------


def figures(source: Notebook) -> dict[str, dict[str, Any]]:
    """Where each saved figure of a notebook comes from."""
    saved = {stem: _saved(stem, ".json") for stem in source.declares.figures}
    return {
        stem: json.loads(path.read_text(encoding="utf-8"))
        for stem, path in saved.items()
        if path.exists()
    }


def _saved(stem: str, suffix: str) -> Path:
    """A file of a figure that git holds: that of the full run where there is one."""
    full, default = (
        paths.output_directory(run, "figures") / f"{stem}{suffix}" for run in ("full", "default")
    )
    return full if full.exists() else default


def _numbers(stem: str) -> pd.DataFrame:
    """What the page of sliders shows of a figure; of mechanisms at equal risk, what results say."""
    if stem == play.SCOREBOARD:
        return play.at_equal_risk(board.gather("full", ("04_dp_prompt", "07_scoreboard")))
    return play.plotted(_saved(stem, ".csv"))


def _finding(stem: str, origin: dict[str, Any]) -> str:
    """The title of a figure, which is its finding; its stem in words where none was kept."""
    name = stem.partition("_")[2].replace("_", " ")
    return plain(origin.get("title") or name.capitalize())


def _picture(stem: str, origin: dict[str, Any]) -> str:
    alt = plain(origin["alt"])
    return (
        f"[![{alt}](/figures/{stem}.png)](#{stem})\n\n[The figure and its numbers](#{stem}) · {alt}"
    )


def findings(sources: Sequence[Notebook]) -> str:
    """All figures on one page, small, each under its finding; and the menu of their pages."""
    parts = ["# Figures by finding"]
    for source in sources:
        if saved := figures(source):
            parts.append(f"## {plain(notebooks.heading(source.cells, 0))}")
            parts.append(
                "\n".join(
                    f"- [![{plain(origin['alt'])}](/figures/{stem}.png)](#{stem}) "
                    f"[{plain(origin.get('title') or origin['alt'].partition('. ')[0])}](#{stem})"
                    for stem, origin in saved.items()
                )
            )
    return "\n\n".join(parts) + _menu("", [f"/figures/{source.name}.ipynb" for source in sources])


def gallery(source: Notebook) -> NotebookNode:
    """The figures of a notebook, each with its caption, origin, files and plotted numbers."""
    title = plain(notebooks.heading(source.cells, 0))
    intro = f"# Figures of {title}\n\nFrom [the notebook](/notebooks/{source.name}.ipynb)."
    cells = [v4.new_markdown_cell(intro)]
    for stem, origin in figures(source).items():
        numbers = pd.read_csv(_saved(stem, ".csv"), dtype=str, keep_default_na=False)
        cut = f", the first {MOST_ROWS} below" if len(numbers) > MOST_ROWS else ""
        ends = ", ".join(f"[{end[1:]}]({stem}{end})" for end in results.FIGURE_SUFFIXES[1:])
        changed = " with changes that were not committed" if origin["dirty"] else ""
        parts = [
            f"({stem})=\n## {_finding(stem, origin)}",
            f"![{plain(origin['alt'])}]({stem}.png)",
            plain(origin["alt"]),
            f"Files: {ends}. Made at commit {plain(str(origin['commit'])[:12])}{changed}, profile "
            f"{plain(origin['profile'])}, seed {origin['seed']}, with "
            f"{plain(', '.join(origin['assets'])) or 'no data'}. "
            f"Plotted: {len(numbers)} rows, {len(numbers.columns)} columns{cut}.",
        ]
        # the output of a cell stays as it is: Sphinx would take minutes to make these tables
        shown = numbers.head(MOST_ROWS).to_html(index=False, border=0)
        html = f"<details class='numbers'><summary>The plotted numbers</summary>{shown}</details>"
        cells += [v4.new_markdown_cell("\n\n".join(parts)), play.shown(html)]
    return v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


# --- Data and documents ---------------------------------------------------------------------


def cards() -> str:
    """The data card of every data set and model."""
    return "\n".join(["# Data and models\n", *map(assets.card, assets.registry())])


def documents() -> dict[str, str]:
    """The files of the repository that are pages, or that one links to."""
    root = paths.REPOSITORY
    files = (path for pattern in DOCUMENTS for path in sorted(root.glob(pattern)))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    return {
        path.relative_to(root).as_posix(): pictured(text) if path.suffix == ".md" else text
        for path, text in texts.items()
    }


def pictured(text: str) -> str:
    """The text with its pictures where the site has them, and links to them into the galleries."""
    text = text.replace("figures/full/", "figures/")
    text = re.sub(r"(?<!!)\[([^\]]*)\]\((?:\.\./)?figures/(\w+)\.png\)", r"[\1](#\2)", text)
    return re.sub(r'<img src="(?:\.\./)?([^"]*)"[^>]* alt="([^"]*)">', r"![\2](/\1)", text)


def front(sources: Sequence[Notebook]) -> str:
    """README.md and the menu."""
    text = (paths.REPOSITORY / "README.md").read_text(encoding="utf-8")
    text = pictured(re.sub(r"<!--.*?-->\n", "", text))
    ways = "[Play](/play.ipynb) · [Figures](/gallery.md) · [Claims](/claims.ipynb)"
    title, _, rest = text.partition("\n")
    text = f"{title}\n\n{ways}\n{rest}"
    menu = {
        "Results": ["/play.ipynb", "/gallery.md", "/claims.ipynb", "/data.md"],
        "Notebooks": [f"/notebooks/{source.name}.ipynb" for source in sources],
        "Documents": [f"/{name}" for name in documents() if name.endswith(".md")],
        "Library": [f"/reference/{name}.md" for name in reference.names()],
    }
    return text + "".join(_menu(caption, pages) for caption, pages in menu.items())


def _menu(caption: str, pages: Iterable[str]) -> str:
    """Pages for the bar at the side, under a caption where there is one."""
    named = [f":caption: {caption}"] if caption else []
    return "\n".join(["\n\n```{toctree}", ":hidden:", *named, "", *pages, "```\n"])


# --- Sphinx --------------------------------------------------------------------------------


def build() -> None:
    """Replace `site/` by one made anew; where that fails it stays, and RunError says why."""
    if not (find_spec("myst_nb") and find_spec("furo")):
        raise RunError(
            "Sphinx with MyST-NB and Furo is not installed; `make site` installs it into .venv, in "
            "an environment of your own: python -m pip install -r requirements-site.lock"
        )
    with tempfile.TemporaryDirectory(dir=paths.REPOSITORY, prefix=".site.") as scratch:
        source, made = Path(scratch, "source"), Path(scratch, "site")
        lay_out(source)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning"]
        command += ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", f"{scratch}/trees"]
        if subprocess.run([*command, str(source), str(made)], check=False).returncode:
            raise RunError("expected pages without a warning, got what Sphinx says above")
        shutil.rmtree(paths.REPOSITORY / "site", ignore_errors=True)
        made.rename(paths.REPOSITORY / "site")


def main() -> int:
    """Make the site; 2 and a message where that fails."""
    try:
        build()
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("open site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
