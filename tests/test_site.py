"""The web site: pages are whole and offline, show what was run, and obey nothing in a text."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from nbformat import v4
from tools import notebooks
from tools.outputs import RUN, digest
from tools.site import build, reference

from textpriv import paths
from textpriv.report import claims

HOSTILE = "<script>alert(1)</script> \"quoted\" & 'single' <b>bold | $x$ `y` [z](w)"
NAMES = ("02_ann_vs_exact", "07_scoreboard")  # the first has claims, the second has not run
README = """# A title

![A small figure](figures/fig01_line.png) See [02](notebooks/02_ann_vs_exact.ipynb).

<!-- generated: notebooks -->
| [<img src="figures/fig01_line.png" width="9" alt="line">](figures/fig01_line.png) |
| --- |
<!-- end -->
"""
PICTURE = (  # one white pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.text = path, ""
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        code = self.tags and self.tags[-1][0] == "script"
        assert not (code and re.search(r"alert|fetch\(|import\(|XMLHttp", data)), data
        self.text += data

    def all(self, *names: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def written() -> nbformat.NotebookNode:
    """A notebook that was not run."""
    formulas = r"$x < y$ $d\big(a\big)$ $\Big\{h\Big\}$ $y_1 \dots y_n$ $$\textstyle\sum_i i$$"
    cells = [
        v4.new_markdown_cell(f"# 02 · Is <i>it</i> so?\n\n{formulas}", id="a"),
        v4.new_markdown_cell("## Part & parcel\n\n[x](javascript:alert(1)) <b onclick=x>", id="b"),
        v4.new_code_cell('run.save_figure("fig01_line", f, d, "<alt>")', id="c"),
        v4.new_code_cell('"<b>"', id="d"),
    ]
    language = {"name": "python", "pygments_lexer": "ipython3"}
    declared = {"textpriv": {"figures": ["fig01_line"]}, "language_info": language}
    return v4.new_notebook(cells=cells, metadata=declared)


def ran() -> nbformat.NotebookNode:
    """The same with outputs of every kind, some of them hostile."""
    picture = {"image/png": PICTURE}
    html = (
        "<style scoped>td {color: red}</style><table onclick='x()' style='width: 9em'><tr>"
        "<th colspan='2'>head</th></tr><tr><td><img src=x onerror=alert(1)>cell</td></tr></table>"
        "<script>alert('from an output')</script><iframe src='https://example.org'></iframe>"
    )
    shown: list[tuple[dict[str, Any], str]] = [
        (picture, HOSTILE),
        (picture, "another picture"),
        ({"application/javascript": "alert('run me')"}, ""),
        ({"text/html": html, "text/plain": "plain form of the table"}, ""),
        ({"text/markdown": "**Found**: $\\varepsilon = 1$ <script>alert(2)</script>"}, ""),
    ]
    node = written()
    node.cells[2].outputs = [
        v4.new_output("display_data", data, metadata={"image/png": {"alt": alt}} if alt else {})
        for data, alt in shown
    ]
    node.cells[3].outputs = [
        v4.new_output("stream", name="stderr", text="a warning"),
        v4.new_output("stream", name="stdout", text="\x1b[31mred\x1b[0m <b>printed</b>"),
    ]
    node.metadata[RUN] = {"cells": {cell.id: digest(cell) for cell in node.cells[2:]}}
    return node


def place(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """A small repository; its first notebook has run."""
    for folder in ("notebooks", "figures", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "README.md").write_text(README)
    nbformat.write(ran(), root / "notebooks" / f"{NAMES[0]}.ipynb")
    other = v4.new_notebook(cells=[v4.new_markdown_cell("# 07 · Other", id="a")])
    nbformat.write(other, root / "notebooks" / f"{NAMES[1]}.ipynb")
    figure = root / "figures" / "fig01_line"
    for suffix in (".png", ".pdf"):
        figure.with_suffix(suffix).write_bytes(base64.b64decode(PICTURE))
    figure.with_suffix(".csv").write_text('x,"y, z"\n1,"<two>\nlines"\n3,4\n')
    origin = {"alt": HOSTILE, "assets": {}, "commit": "c0ffee", "dirty": True}
    figure.with_suffix(".json").write_text(json.dumps(origin | {"profile": "default", "seed": 7}))
    for name, folder in {"REPOSITORY": "", "NOTEBOOKS": "notebooks"}.items():
        patch.setattr(paths, name, root / folder)
    patch.setattr(reference, "ROOMS", {"neighbors": ("Search", "Of the library, one room.")})
    return root


def test_the_figures_of_a_full_run_stand_first(project: Path) -> None:
    default = project / "figures" / "fig01_line.png"
    assert build._saved("fig01_line", ".png") == default
    full = project / "figures" / "full" / "fig01_line.png"
    full.parent.mkdir()
    shutil.copy(default, full)
    assert build._saved("fig01_line", ".png") == full


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return place(tmp_path / "project", monkeypatch)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Page]]:
    """The small repository's site, by the names of its pages."""
    for module in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(module, reason="`make site` installs what makes the pages")
    with pytest.MonkeyPatch.context() as patch:
        root = place(tmp_path_factory.mktemp("small"), patch)
        build.build()
        files = sorted((root / "site").rglob("*.html"))
        yield {path.relative_to(root / "site").as_posix(): Page(path) for path in files}


def test_every_link_leads_somewhere(pages: dict[str, Page]) -> None:
    by_path = {page.path: page for page in pages.values()}
    for page in pages.values():
        for tag in page.all("a", "link", "script", "img"):
            name, fragment = urldefrag(unquote(tag.get("href", tag.get("src", ""))))
            if re.match("https?:|data:", name):
                continue
            target = (page.path.parent / name.partition("?")[0]).resolve() if name else page.path
            assert target.is_file(), (page.path, tag)
            if fragment and target in by_path:
                assert any(a.get("id") == fragment for _, a in by_path[target].tags), (tag, target)


def test_nothing_is_loaded_from_elsewhere(pages: dict[str, Page]) -> None:
    for page in pages.values():
        loaded = page.all("link", "script", "img", "source", "iframe", "object", "embed")
        sources = {tag.get("src", tag.get("href", "")).partition(",")[0] for tag in loaded}
        assert {each for each in sources if re.match(r"\w+:|//", each)} <= {"data:image/png;base64"}
    for sheet in pages["index.html"].path.parent.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(\w+:)?//", sheet.read_text()), sheet


def test_hostile_text_is_shown_and_not_obeyed(pages: dict[str, Page]) -> None:
    for name in ("figures/02_ann_vs_exact.html", "notebooks/02_ann_vs_exact.html"):
        page = pages[name]
        assert HOSTILE in page.text and any(tag.get("alt") == HOSTILE for tag in page.all("img"))
        assert "javascript:" not in str(page.all("a")) and not page.all("iframe", "b")
        assert not [
            tag for tag in page.all("table", "td", "img") if {"onclick", "onerror"} & set(tag)
        ]
    assert "<two>" in pages["figures/02_ann_vs_exact.html"].text


def test_a_notebook_shows_every_kind_of_output(pages: dict[str, Page]) -> None:
    page = pages["notebooks/02_ann_vs_exact.html"]
    wanted = ("red <b>printed</b>", "cell", "alert(2)", "Is <i>it</i> so?")
    unwanted = ("a warning", "plain form", "\x1b", "color: red")
    assert [text for text in wanted if text not in page.text] == []
    assert [text for text in unwanted if text in page.text] == []
    assert "from an output" not in page.text and "./run_all.sh" not in page.text
    assert "./run_all.sh --only 07" in pages["notebooks/07_scoreboard.html"].text
    assert len(page.all("math")) == 6 and "\\" not in page.text
    alts = [tag["alt"] for tag in page.all("img")]
    assert sorted(alts) == sorted([HOSTILE, "another picture"])
    assert len(page.all("table")) == 1


def test_every_claim_has_a_row(pages: dict[str, Page]) -> None:
    page = pages["claims.html"]
    expected = [claim for claim in claims.load() if claim.notebook in NAMES]
    totals = 1 + len(claims.PAPERS) + 2  # and the heads of the two tables of claims
    assert expected and len(page.all("tr")) == totals + len(expected)
    for claim in expected:
        assert claim.setting in page.text
        assert claim.trend or claim.stated in page.text
    folded = page.text.index("Not compared: ")
    verdict = "not comparable"  # nothing of the small project was measured
    assert page.text.count(verdict, folded) >= len(expected)


def test_figures_stand_under_their_findings(project: Path) -> None:
    every_notebook = notebooks.find()
    alone = build.findings(every_notebook)
    assert f"[{build.plain(HOSTILE)}](#fig01_line)" in alone  # no title was kept: what it shows
    path = project / "figures" / "fig01_line.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"title": "Lines are <straight>"}))
    assert r"[Lines are \<straight\>](#fig01_line)" in build.findings(every_notebook)
    assert r"## Lines are \<straight\>" in build.gallery(every_notebook[0]).cells[1].source


@pytest.mark.parametrize("why", ["not run", "other code"])
def test_a_run_that_does_not_count(project: Path, why: str) -> None:
    path, node = project / "notebooks" / f"{NAMES[0]}.ipynb", ran()
    assert "./run_all.sh" not in build.notebook(notebooks.find()[0]).cells[2].source
    if why == "not run":
        node = written()
    else:
        node.cells[2].source += " "
    nbformat.write(node, path)
    made = build.notebook(notebooks.find()[0])  # the saved figure is shown all the same
    assert "./run_all.sh --only 02" in made.cells[2].source
    assert not any(cell.get("outputs") for cell in made.cells)
    assert "/figures/fig01_line.png" in made.cells[5].source
