"""The results as web pages that need no server and no network: `make site`.

    python -m textpriv.report.site                    writes site/, to be opened at site/index.html
    python -m textpriv.report.site --profile smoke    the same from what a smoke run wrote

Input are the notebooks, executed where `runs/` has a copy of what stands in `notebooks/`, the
figures, the results and the registries. Every page is plain HTML with relative links and one
style sheet; formulas become MathML, widgets what they showed. What the search and the filters
do is extra: without JavaScript the lists are whole. Same input, same bytes.
"""

from __future__ import annotations

import argparse
import csv
import html
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from bleach import clean
from bs4 import BeautifulSoup, Tag
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from latex2mathml.converter import convert
from nbconvert.filters import Highlight2HTML, strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from PIL import Image

from textpriv import assets, paths, profiles
from textpriv.errors import RunError, TextprivError
from textpriv.report import claims, notebooks, results

TEMPLATES = Path(__file__).with_name("templates")

_WIDGET = "application/vnd.jupyter.widget-view+json"
_WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
_TABLE_TAGS = {"table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"}
_TEXT_TAGS = {"b", "br", "code", "em", "i", "p", "pre", "strong", "sub", "sup"}
_SPANS = {"th": ["colspan", "rowspan", "scope"], "td": ["colspan", "rowspan"]}
_ONE_LINE = 40  # characters of TeX that fit into a line on a phone
# TeX that the converter passes on as it is, and what a reader should see in its place.
_LEFT_AS_TEX = {r"\arg": "arg", r"\{": "{", r"\}": "}"}


# --- What the pages show ------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A saved figure: its files, what it shows, and where it comes from."""

    stem: str
    notebook: str
    heading: str
    folder: Path

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return json.loads(self.file(".json").read_text(encoding="utf-8"))

    @property
    def alt(self) -> str:
        return self.provenance["alt"]

    @property
    def name(self) -> str:
        """The stem in words: `fig02_kept_words` is "kept words"."""
        return self.stem.partition("_")[2].replace("_", " ")

    @cached_property
    def pixels(self) -> tuple[int, int]:
        """Width and height of the picture."""
        with Image.open(self.file(".png")) as picture:
            return picture.size

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the plotted numbers."""
        with self.file(".csv").open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        return len(rows), len(header)

    def file(self, suffix: str) -> Path:
        return self.folder / f"{self.stem}{suffix}"


@dataclass(frozen=True)
class Chapter:
    """A notebook with all that is known about it under one profile."""

    source: notebooks.Notebook
    node: NotebookNode  # executed, or as it stands in git
    is_executed: bool
    profile: str

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def title(self) -> str:
        """The question of its first heading, without the number."""
        return notebooks.heading(self.source.cells, 0).partition("· ")[2] or self.name

    @cached_property
    def recorded(self) -> results.Results | None:
        """What it measured; None when it has not run."""
        if not results.file(self.name, self.profile).exists():
            return None
        return results.load(self.name, self.profile)

    @property
    def measured(self) -> Mapping[str, results.Measurement]:
        return self.recorded.by_name() if self.recorded else {}

    @cached_property
    def verdicts(self) -> list[tuple[str, int]]:
        """How often each of `claims.Verdict` is given."""
        return list(claims.count(self.name, self.measured, self.profile).items())

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures that were saved, in the order of the notebook."""
        folder = paths.output_directory(self.profile) / "figures"
        made = [
            Figure(stem, self.name, notebooks.heading(self.source.cells, index), folder)
            for index, cell in enumerate(self.source.cells)
            for stem in self.stems(cell.source if cell.runs else "")
        ]
        return [figure for figure in made if figure.file(".json").exists()]

    def stems(self, code: str) -> list[str]:
        """Declared figures that a cell saves."""
        named = re.findall(r"save_figure\(\s*[\"'](\w+)[\"']", code)
        return [stem for stem in named if stem in self.source.declares.figures]

    @property
    def assets(self) -> list[str]:
        recorded = self.recorded.assets if self.recorded else {}
        return sorted({*self.source.declares.assets, *recorded})

    @property
    def command(self) -> str:
        """What runs this notebook, and this one alone."""
        profile = "" if self.profile == "default" else f" --profile {self.profile}"
        return f"./run_all.sh{profile} --only {self.name[:2]}"


def chapters(profile: str = "default") -> list[Chapter]:
    """Every notebook of the repository, in order; ProfileError for an unknown profile."""
    profiles.settings(profile)
    return [_chapter(notebook, profile) for notebook in notebooks.find()]


def _chapter(source: notebooks.Notebook, profile: str) -> Chapter:
    executed = paths.RUNS / profile / f"{source.name}.ipynb"
    if executed.exists():
        node = nbformat.read(executed, as_version=4)
        node.cells = [
            c for c in node.cells if "injected-parameters" not in c.metadata.get("tags", ())
        ]
        if _is_run_of(node, source):
            return Chapter(source, node, True, profile)
    node = nbformat.read(paths.NOTEBOOKS / f"{source.name}.ipynb", as_version=4)
    return Chapter(source, node, False, profile)


def _is_run_of(node: NotebookNode, source: notebooks.Notebook) -> bool:
    """Whether an executed notebook is this one, run to its end."""
    written = [(cell.kind, cell.source) for cell in source.cells]
    if [(cell.cell_type, cell.source) for cell in node.cells] != written:
        return False
    code = [cell for cell in node.cells if cell.cell_type == "code" and cell.source.strip()]
    failed = any(output.output_type == "error" for cell in code for output in cell.outputs)
    return not failed and all(cell.execution_count for cell in code)


# --- Text, formulas, code and tables ------------------------------------------------------


def formula(tex: str, display: str = "inline") -> str:
    """A formula as MathML, which browsers draw themselves; as TeX where that fails.

    Parameters
    ----------
    tex : without the dollars around it
    display : "inline" or "block"
    """
    shown = convert(tex, display=display)
    for left, meant in _LEFT_AS_TEX.items():
        shown = shown.replace(f">{left}<", f">{meant}<")
    if "\\" in shown:
        return f"<code>{html.escape(tex)}</code>"
    if display == "inline" and len(tex) > _ONE_LINE:  # cannot break, so it has to scroll
        return f'<span class="long">{shown}</span>'
    return shown


class _Renderer(IPythonRenderer):
    """Markdown of notebooks, README and data cards, as it stands on a page.

    HTML inside the text is shown and not obeyed. A link into the repository leads to the page of
    the same thing; where there is none, its text remains.

    Parameters
    ----------
    root : the way from the page to the site's top folder, "" or "../"
    """

    def __init__(self, root: str) -> None:
        super().__init__(escape=True, exclude_anchor_links=True)
        self.root = root
        self.sections: list[tuple[str, str]] = []  # identifier and HTML of each second heading

    def inline_math(self, body: str) -> str:
        return formula(body)

    def block_math(self, body: str) -> str:
        return formula(body.strip(), "block")

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        words = re.sub(r"<[^>]*>|&\w+;", " ", text).lower()
        identifier = "-".join(["s", *re.findall(r"[a-z0-9]+", words)])
        taken = sum(identifier == known.partition("--")[0] for known, _ in self.sections)
        identifier += f"--{taken + 1}" if taken else ""
        if level == 2:
            self.sections.append((identifier, text))
        return f'<h{level} id="{identifier}">{text}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        target = self._target(url)
        return f'<a href="{html.escape(target)}">{text}</a>' if target else text

    def image(self, text: str, url: str, title: str | None = None) -> str:
        picture = re.fullmatch(r"(?:\.\./)?figures/(fig\w+)\.png", url)
        alt = html.escape(" ".join(text.split()))
        if not picture:
            return alt
        place = f"{self.root}figures/{picture[1]}"
        return f'<a href="{place}.html"><img class="frame" src="{place}.png" alt="{alt}"></a>'

    def table(self, text: str) -> str:
        return f"{_BOX}<table>\n{text}</table></div>\n"

    def _target(self, url: str) -> str | None:
        if url.startswith(("https://", "http://")):
            return url
        inside = re.fullmatch(r"(?:\.\./)?(?:(notebooks)/)?(\d\d_\w+)\.ipynb", url)
        if inside:
            return f"{self.root}notebooks/{inside[2]}.html"
        picture = re.fullmatch(r"(?:\.\./)?figures/(fig\w+)\.\w+", url)
        return f"{self.root}figures/{picture[1]}.html" if picture else None


_BOX = '<div class="scroll" role="region" aria-label="Table" tabindex="0">'


def markdown(text: str, root: str = "") -> str:
    """HTML of a text in Markdown; see `_Renderer`."""
    return MarkdownWithMath(renderer=_Renderer(root)).render(text)


def table(shown: str) -> str:
    """A table that a cell displayed, without scripts, styles and handlers, in a box of its own."""
    soup = BeautifulSoup(shown, "html.parser")
    for tag in soup(["style", "script"]):
        tag.decompose()
    allowed = clean(str(soup), tags=_TABLE_TAGS | _TEXT_TAGS, attributes=_SPANS, strip=True)
    return f"{_BOX}{allowed.strip()}</div>"


# --- Cells --------------------------------------------------------------------------------


def cells(chapter: Chapter) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The cells of a notebook for its page, and its sections.

    Returns
    -------
    for each cell `html` (a text) or `code` with `outputs` and `figures`; then identifier and
    title of every section
    """
    renderer = _Renderer("../")
    render = MarkdownWithMath(renderer=renderer).render
    highlight = Highlight2HTML(pygments_lexer="python")
    known = {figure.stem: figure for figure in chapter.figures}
    shown: list[dict[str, Any]] = []
    for index, cell in enumerate(chapter.node.cells):
        if cell.cell_type == "markdown":
            shown.append({"html": render(cell.source)})
        elif cell.cell_type == "code" and cell.source.strip():
            here = [known[stem] for stem in chapter.stems(cell.source) if stem in known]
            around = notebooks.heading(chapter.source.cells, index)
            outputs = list(_outputs(chapter.node, cell, here, around, render))
            code = highlight(cell.source, "python")
            shown.append({"code": code, "outputs": outputs, "figures": here})
    return shown, renderer.sections


def _outputs(
    node: NotebookNode, cell: NotebookNode, figures: Sequence[Figure], around: str, render: Any
) -> Iterator[dict[str, str]]:
    """What a cell showed, without progress bars and warnings, and without its saved figures."""
    saved = {figure.alt for figure in figures}
    for output in _static(node, cell.get("outputs", [])):
        if output.output_type == "stream":
            if output.name == "stdout":
                yield {"text": strip_ansi(output.text)}
            continue
        data = output.get("data", {})
        if "text/html" in data:
            yield {"html": table(data["text/html"])}
        elif "text/markdown" in data:
            yield {"html": render(data["text/markdown"])}
        elif "image/png" in data:
            alt = output.metadata.get("image/png", {}).get("alt") or f"Picture: {around}"
            if alt not in saved:  # those stand below, as they were saved
                yield {"picture": "".join(data["image/png"].split()), "alt": alt}
        elif "text/plain" in data:
            yield {"text": strip_ansi(data["text/plain"])}


def _static(node: NotebookNode, outputs: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    """Outputs with every widget replaced by what it displayed; a progress bar by nothing."""
    widgets = node.metadata.get("widgets", {}).get(_WIDGET_STATE, {}).get("state", {})
    for output in outputs:
        view = output.get("data", {}).get(_WIDGET)
        if view is None:
            yield output
            continue
        inside = widgets.get(view["model_id"], {}).get("state", {})
        children = [key.removeprefix("IPY_MODEL_") for key in inside.get("children", [])]
        displays = [widgets.get(key, {}).get("state", {}).get("outputs", ()) for key in children]
        for display in displays:
            yield from display
        if any(displays):
            note = "*In JupyterLab (`make lab`) this has live controls.*"
            yield nbformat.v4.new_output("display_data", data={"text/markdown": note})


# --- Claims -------------------------------------------------------------------------------


def judged(found: Sequence[Chapter]) -> list[dict[str, str]]:
    """Every claim with the paper's number, ours, the verdict and its reason."""
    rows = []
    for chapter in found:
        compared = claims.table(chapter.name, chapter.profile, chapter.measured)
        stated = claims.of(chapter.name, chapter.profile)
        for claim, row in zip(stated, compared.to_dict("records"), strict=True):
            rows.append(
                {
                    "id": claim.id,
                    "paper": claim.paper,
                    "notebook": chapter.name,
                    "place": claim.place,
                    "setting": claim.setting,
                    "theirs": claim.stated,
                    "ours": row["ours"],
                    "kind": row["kind"],
                    "verdict": row["verdict"],
                    "reason": row["reason"],
                }
            )
    return sorted(rows, key=lambda row: list(claims.PAPERS).index(row["paper"]))


def totals(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, list[int]]]:
    """Per paper, and for all of them, how often each verdict is given."""
    counted = Counter((row["paper"], row["verdict"]) for row in rows)
    verdicts = [str(verdict) for verdict in claims.Verdict]
    each = [
        (claims.PAPERS[paper], [counted[paper, v] for v in verdicts]) for paper in claims.PAPERS
    ]
    return [*each, ("all", [sum(column) for column in zip(*(n for _, n in each), strict=True)])]


# --- README -------------------------------------------------------------------------------


def story(readme: str) -> dict[str, Any]:
    """What README.md says first, as HTML: `title`, `sentence`, `figures`, and `commands`.

    Raises
    ------
    RunError : the README has no title, no first text, no figure or no block of commands
    """
    soup = BeautifulSoup(markdown(readme), "html.parser")
    title, sentence = soup.h1, soup.p
    heading = next((h for h in soup("h2") if h.get_text() == "Two commands"), None)
    block = heading and heading.find_next("pre")
    before: list[Tag] = heading.find_previous_siblings("p")[::-1] if heading else []
    figures = [
        {"picture": str(picture.a), "caption": caption.decode_contents()}
        for picture, caption in zip(before[1:], before[2:], strict=False)
        if picture.img
    ]
    if not (title and sentence and figures and block):
        raise RunError(
            "README.md: expected a title, a text, figures with captions, and under the heading "
            "'Two commands' a block of commands; the site begins with them"
        )
    first = re.split(r"(?<=\.)\s", sentence.get_text(), maxsplit=1)[0]
    return {
        "title": title.get_text(),
        "sentence": " ".join(first.split()),
        "figures": figures,
        "commands": block.get_text(),
    }


# --- The site -----------------------------------------------------------------------------


def build(folder: Path, profile: str = "default") -> list[Path]:
    """Write the whole site into a folder.

    Parameters
    ----------
    folder : made where it is missing; a file that is there already is replaced
    profile : whose figures, results and executed notebooks to show

    Returns
    -------
    the pages, index.html first

    Raises
    ------
    RunError : a notebook, a result or the README cannot be read
    ProfileError : there is no such profile
    """
    found = chapters(profile)
    figures = [figure for chapter in found for figure in chapter.figures]
    _copy(figures, folder)
    pages = dict(_pages(found, figures, profile))
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in pages]


def _copy(figures: Sequence[Figure], folder: Path) -> None:
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(TEMPLATES / "style.css", folder / "style.css")
    for figure in figures:
        for suffix in results.FIGURE_SUFFIXES:
            shutil.copyfile(figure.file(suffix), folder / "figures" / f"{figure.stem}{suffix}")


def _pages(
    found: Sequence[Chapter], figures: Sequence[Figure], profile: str
) -> Iterator[tuple[str, str]]:
    """Name and text of every page."""
    # StrictUndefined: a page with a hole in it is an error and not a page
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(papers=claims.PAPERS, verdicts=[str(v) for v in claims.Verdict])
    registry = assets.registry()
    environment.globals.update(registry=registry, profile=profile)

    def page(name: str, template: str, **context: Any) -> tuple[str, str]:
        root = "../" * name.count("/")
        return name, environment.get_template(template).render(root=root, page=name, **context)

    begins = story((paths.REPOSITORY / "README.md").read_text(encoding="utf-8"))
    yield page("index.html", "index.html", story=begins, chapters=found)
    yield page("gallery.html", "gallery.html", chapters=found, figures=figures)
    rows = judged(found)
    yield page("claims.html", "claims.html", rows=rows, totals=totals(rows))
    for chapter in found:
        shown, sections = cells(chapter)
        name = f"notebooks/{chapter.name}.html"
        yield page(name, "notebook.html", chapter=chapter, cells=shown, sections=sections)
    for before, figure, after in zip([None, *figures], figures, [*figures[1:], None], strict=False):
        name = f"figures/{figure.stem}.html"
        yield page(name, "figure.html", figure=figure, before=before, after=after)
    users = {key: [chapter for chapter in found if key in chapter.assets] for key in registry}
    yield page("assets.html", "assets.html", users=users)
    for key, asset in registry.items():
        card = markdown(assets.card(key).replace("## ", "# ", 1), "../")
        name = f"assets/{key}.html"
        yield page(name, "asset.html", asset=asset, card=card, users=users[key])


def main(argv: Sequence[str] | None = None) -> int:
    """Replace `site/` by one made anew."""
    parser = argparse.ArgumentParser(
        prog="python -m textpriv.report.site", description="Write the results as web pages."
    )
    parser.add_argument("--profile", default="default", help="default: the committed figures")
    arguments = parser.parse_args(argv)
    output = paths.REPOSITORY / "site"
    try:
        with tempfile.TemporaryDirectory(dir=paths.REPOSITORY, prefix=".site.") as scratch:
            pages = build(Path(scratch) / "site", arguments.profile)
            if output.exists():
                shutil.rmtree(output)
            (Path(scratch) / "site").rename(output)
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(pages)} pages in site/; open site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
