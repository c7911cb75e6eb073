"""The results as web pages that need no server and no network: `make site`.

    python -m tools.site.build                    writes site/, to be opened at site/index.html
    python -m tools.site.build --profile smoke    the same from what a smoke run wrote

Lays out Markdown and notebooks as they lie in the repository, so that their links hold, and has
Sphinx make the pages (conf.py); a link that leads nowhere is an error. Nothing is executed: a
notebook shows the outputs of its copy in `runs/`, if that is a whole run of what stands in
`notebooks/`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from nbformat import NotebookNode, v4

from textpriv import assets, paths, profiles
from textpriv.errors import RunError, TextprivError
from textpriv.report import claims, results, verdicts
from tools import notebooks
from tools.documents import table
from tools.notebooks import Notebook
from tools.outputs import FORMS, RUN, STATE, edited, stripped, without_widgets

DOCUMENTS = (
    "REPRODUCING.md", "CONTRIBUTING.md", "docs/*.md", "claims/*", "benchmarks/*.md", "CITATION.cff"
)  # fmt: skip
MOST_ROWS = 500  # of plotted numbers that a page shows; the file beside it has them all
_TAGS = set("table caption thead tbody tfoot tr th td b br code em i p pre strong sub sup".split())
_SPANS = {"th": ["colspan", "rowspan", "scope"], "td": ["colspan", "rowspan"]}


def plain(text: object) -> str:
    """A text as Markdown that shows it, and obeys nothing in it. (`table` takes care of bars.)"""
    return re.sub(r"([!-/:-@\[-`{}~])", r"\\\1", " ".join(str(text).split()))


# --- Notebooks ----------------------------------------------------------------------------


def executed(source: Notebook, profile: str) -> NotebookNode | None:
    """A notebook with its outputs, from `runs/` or as git holds it; None where neither counts.

    It has to be this notebook, run to its end without an error.
    """
    copy, committed = paths.RUNS / profile / f"{source.name}.ipynb", paths.NOTEBOOKS / source.file
    for path in [copy, *([committed] if profile == "default" else [])]:
        if not path.exists():
            continue
        node = nbformat.read(path, as_version=4)
        node.cells = [
            each
            for each in node.cells
            if "injected-parameters" not in each.metadata.get("tags", ())
        ]
        written = [(cell.kind, cell.source) for cell in source.cells]
        changed = [(cell.cell_type, cell.source) for cell in node.cells] != written
        code = [cell for cell in node.cells if cell.cell_type == "code" and cell.source.strip()]
        failed = any(output.output_type == "error" for cell in code for output in cell.outputs)
        unfinished = not all(cell.execution_count for cell in code)
        other = path == committed and (RUN not in node.metadata or edited(node))
        if not (changed or failed or unfinished or other):
            return node
    return None


def notebook(source: Notebook, profile: str) -> NotebookNode:
    """A notebook for its page: what is missing on top, safe outputs, figures as they were saved."""
    run = executed(source, profile)
    node = run or stripped(nbformat.read(paths.NOTEBOOKS / source.file, as_version=4))
    widgets = node.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    saved = figures(source, profile)
    pictures = {origin["alt"] for origin in saved.values()}
    cells: list[NotebookNode] = []
    for index, cell in enumerate(node.cells):
        cells.append(cell)
        if cell.cell_type == "code":
            around = notebooks.heading(source.cells, index)
            outputs = list(
                _safe(without_widgets(cell.outputs, widgets), pictures, f"Picture: {around}")
            )
            cell.metadata, cell.outputs = NotebookNode(), outputs
            made = [stem for stem in saved if re.search(rf"[\"']{stem}[\"']", cell.source)]
            cells += [v4.new_markdown_cell(_picture(stem, saved[stem])) for stem in made]
    if not run:
        chosen = "" if profile == "default" else f" --profile {profile}"
        missing = (
            "```{warning}\nThis page shows the notebook's text and code with the saved figures. "
            "Its tables and computed sentences are there only after it has run: "
            f"`./run_all.sh{chosen} --only {source.name[:2]}`, then `make site`.\n```"
        )
        cells.insert(1, v4.new_markdown_cell(missing))
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
            if alt not in pictures:
                yield v4.new_output("display_data", data={"text/markdown": text})
        elif form:
            yield v4.new_output("display_data", data={form: data[form]})


# --- Figures ------------------------------------------------------------------------------


def figures(source: Notebook, profile: str) -> dict[str, dict[str, Any]]:
    """Where each saved figure of a notebook comes from."""
    saved = {stem: _saved(stem, profile, ".json") for stem in source.declares.figures}
    return {
        stem: json.loads(path.read_text(encoding="utf-8"))
        for stem, path in saved.items()
        if path.exists()
    }


def _saved(stem: str, profile: str, suffix: str) -> Path:
    """A file of a figure; among what git holds, that of the full run where there is one."""
    runs = ("full", "default") if profile == "default" else (profile,)
    files = [paths.output_directory(run, "figures") / f"{stem}{suffix}" for run in runs]
    return next((path for path in files if path.exists()), files[-1])


def _name(stem: str) -> str:
    """The stem in words: `fig02_kept_words` is "kept words"."""
    return stem.partition("_")[2].replace("_", " ")


def _picture(stem: str, origin: dict[str, Any]) -> str:
    alt = plain(origin["alt"])
    return f"[![{alt}](/figures/{stem}.png)](#{stem})\n\n[{_name(stem)}](#{stem}) · {alt}"


def gallery(source: Notebook, profile: str) -> NotebookNode:
    """The figures of a notebook, each with its caption, origin, files and plotted numbers."""
    title = plain(notebooks.heading(source.cells, 0))
    intro = f"# Figures of {title}\n\nFrom [the notebook](/notebooks/{source.name}.ipynb)."
    cells = [v4.new_markdown_cell(intro)]
    for stem, origin in figures(source, profile).items():
        numbers = pd.read_csv(_saved(stem, profile, ".csv"), dtype=str, keep_default_na=False)
        cut = f", the first {MOST_ROWS} below" if len(numbers) > MOST_ROWS else ""
        ends = ", ".join(f"[{end[1:]}]({stem}{end})" for end in results.FIGURE_SUFFIXES[1:])
        changed = " with changes that were not committed" if origin["dirty"] else ""
        parts = [
            f"({stem})=\n## {_name(stem).capitalize()}",
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
        output = v4.new_output("display_data", data={"text/html": html})
        cells.append(v4.new_markdown_cell("\n\n".join(parts)))
        hidden = {"tags": ["remove-input"]}
        cells.append(v4.new_code_cell("numbers", outputs=[output], metadata=hidden))
    return v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


# --- Claims and data ----------------------------------------------------------------------


def _results(notebook: str, profile: str) -> results.Results | None:
    return results.load(notebook, profile) if results.file(notebook, profile).exists() else None


def judged(found: Sequence[Notebook], profile: str) -> str:
    """Every claim with the paper's number, ours, the verdict and its reason."""
    rows: dict[str, list[list[str]]] = {paper: [] for paper in claims.PAPERS}
    counted: Counter[tuple[str, str]] = Counter()
    for name in (source.name for source in found):
        run = results.committed(name) if profile == "default" else _results(name, profile)
        measured = run.by_name() if run else {}
        compared = verdicts.table(name, profile, measured).to_dict("records")
        for claim, row in zip(claims.of(name, profile), compared, strict=True):
            kind = f", {row['kind']}" if claim.trend else ""
            link = f"[notebook {name[:2]}](/notebooks/{name}.ipynb)"
            stated = f"{plain(claim.setting)} ({plain(claim.place)}, {link}{kind})"
            verdict = f"**{row['verdict']}**: {plain(row['reason'])}"
            ours = row["ours"] or "not measured"
            rows[claim.paper].append([stated, plain(claim.stated), plain(ours), verdict])
            counted[claim.paper, row["verdict"]] += 1
    every = [str(verdict) for verdict in verdicts.Verdict]
    totals = [
        [name, *(str(counted[paper, verdict]) for verdict in every)]
        for paper, name in claims.PAPERS.items()
    ]
    header = ["Claim", "Theirs", "Ours", "Verdict"]
    parts = [
        "# Claims of the papers",
        "The numbers and orderings that the four papers print, and what became of them. "
        "**Match**: inside the paper's rounding plus our error. **Same trend**: the stated "
        "ordering or bound holds beyond the error, or within it. **Tie**: mathematics makes the "
        "two numbers one. **Undecided**: it fails within the error. **Differs**: it fails beyond "
        "it. **Not comparable**: other data, models or settings, for the reason given. Only a "
        "*finding* is evidence; what holds by construction or by theorem is none.",
        table(["Paper", *every], totals),
        *(f"## {claims.PAPERS[paper]}\n\n{table(header, each)}" for paper, each in rows.items()),
    ]
    return "\n\n".join(parts)


def cards() -> str:
    """The data card of every data set and model."""
    return "\n".join(["# Data and models\n", *map(assets.card, assets.registry())])


def documents() -> dict[str, str]:
    """The files of the repository that are pages, or that one links to."""
    root, found = paths.REPOSITORY, {}
    for path in (path for pattern in DOCUMENTS for path in sorted(root.glob(pattern))):
        text = path.read_text(encoding="utf-8")
        needs_heading = path.suffix == ".md" and not text.startswith("# ")
        heading = f"# {path.stem}\n\n" if needs_heading else ""
        found[path.relative_to(root).as_posix()] = heading + text
    return found


def front(found: Sequence[Notebook], profile: str) -> str:
    """README.md, which tells of the committed results; for other profiles a title; and the menu."""
    text = f"# A run of the profile {profile}\n"
    if profile == "default":
        text = (paths.REPOSITORY / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"<!--.*?-->\n", "", text).replace("figures/full/", "figures/")
        text = re.sub(r"(?<!!)\[([^\]]*)\]\(figures/(\w+)\.png\)", r"[\1](#\2)", text)
        text = re.sub(r'<img src="([^"]*)"[^>]* alt="([^"]*)">', r"![\2](\1)", text)
    names = [source.name for source in found]
    menu = {
        "Notebooks": [f"/notebooks/{name}.ipynb" for name in names],
        "Figures": [f"/figures/{name}.ipynb" for name in names],
        "Results": ["/claims.md", "/data.md"],
        "Documents": [f"/{name}" for name in documents() if name.endswith(".md")],
    }
    for caption, pages in menu.items():
        lines = ["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```\n"]
        text += "\n".join(lines)
    return text


# --- The site -----------------------------------------------------------------------------


def lay_out(folder: Path, profile: str) -> None:
    """Write what Sphinx reads: the pages, the notebooks, and the files that they link to."""
    profiles.settings(profile)  # ProfileError for an unknown one
    found = notebooks.find()
    pages = {
        "index.md": front(found, profile),
        "claims.md": judged(found, profile),
        "data.md": cards(),
    }
    pages |= documents()
    for source in found:
        pages[f"notebooks/{source.name}.ipynb"] = nbformat.writes(notebook(source, profile))
        pages[f"figures/{source.name}.ipynb"] = nbformat.writes(gallery(source, profile))
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for stem in (stem for source in found for stem in figures(source, profile)):
        for suffix in results.FIGURE_SUFFIXES:
            shutil.copy(_saved(stem, profile, suffix), folder / "figures")


def build(profile: str = "default") -> None:
    """Replace `site/` by one made anew; where that fails it stays, and RunError says why."""
    if not (find_spec("myst_nb") and find_spec("furo")):
        raise RunError(
            "Sphinx with MyST-NB and Furo is not installed; `make site` installs it into .venv, in "
            "an environment of your own: python -m pip install -r requirements-site.lock"
        )
    with tempfile.TemporaryDirectory(dir=paths.REPOSITORY, prefix=".site.") as scratch:
        source, made = Path(scratch, "source"), Path(scratch, "site")
        lay_out(source, profile)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning"]
        command += ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", f"{scratch}/trees"]
        if profile != "default":
            note = f"A run of the profile {profile}, not the committed results."
            command += ["--define", f"html_theme_options.announcement={note}"]
        if subprocess.run([*command, str(source), str(made)], check=False).returncode:
            raise RunError("expected pages without a warning, got what Sphinx says above")
        shutil.rmtree(paths.REPOSITORY / "site", ignore_errors=True)
        made.rename(paths.REPOSITORY / "site")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the site; 2 and a message where that fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.site.build")
    parser.add_argument("--profile", default="default", help="default: the committed figures")
    try:
        build(parser.parse_args(arguments).profile)
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("open site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
