"""The web pages: whole, escaped, self-contained, and fine in a browser where there is one."""

from __future__ import annotations

import base64
import functools
import http.server
import io
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from browser import Page, find, launched
from bs4 import BeautifulSoup
from nbformat import v4
from PIL import Image

from textpriv import assets, paths
from textpriv.errors import RunError
from textpriv.report import claims, notebooks, results, site

HOSTILE = "<script>alert(1)</script> \"quoted\" & 'single' <b>bold"
README = """# A title

A first sentence that says it all. A second one.

![A small figure](figures/fig01_line.png)

*What it shows, see [01](notebooks/01_tiny.ipynb).*

## Two commands

```
./run_all.sh
make test
```
"""


# --- A small repository with everything a page can show -----------------------------------


class Project:
    """A repository of one notebook, in which every kind of output occurs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "notebooks" / "01_tiny.ipynb"
        self.executed = root / "runs" / "default" / "01_tiny.ipynb"
        for folder in ("notebooks", "figures", "results", "runs/default"):
            (root / folder).mkdir(parents=True)
        (root / "README.md").write_text(README)
        self.figure("fig01_line")
        self.write(notebook(), self.source)
        self.write(ran(notebook()), self.executed)
        found = results.Results(
            notebook="01_tiny", profile="default", seed=7, overrides={}, commit="c0ffee",
            dirty=False, device="cpu", dtype="float32", seconds=90.0, peak_mb=1500.0, versions={},
            assets={}, figures=["fig01_line"], measurements=[],
        )  # fmt: skip
        results.write(found, root / "results" / "01_tiny.json")

    def figure(self, stem: str) -> None:
        path = self.root / "figures" / stem
        Image.new("RGB", (40, 30), "white").save(path.with_suffix(".png"))
        path.with_suffix(".pdf").write_bytes(b"%PDF")
        path.with_suffix(".csv").write_text('x,"y, z"\n1,"two\nlines"\n3,4\n')
        origin = {
            "alt": HOSTILE, "assets": {"glove-6b-50d": {"source": "here", "digest": "d"}},
            "commit": "c0ffee", "dirty": True, "profile": "default", "seed": 7,
            "versions": {"numpy": "9.9"},
        }  # fmt: skip
        path.with_suffix(".json").write_text(json.dumps(origin))

    @staticmethod
    def write(node: nbformat.NotebookNode, path: Path) -> None:
        nbformat.write(node, path)

    def build(self, name: str = "site") -> Path:
        site.build(self.root / name)
        return self.root / name

    def page(self) -> BeautifulSoup:
        """The notebook's page, made anew."""
        return soup(self.build() / "notebooks" / "01_tiny.html")


def notebook() -> nbformat.NotebookNode:
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# 01 · Is <i>it</i> so?\n\n$x < y$ and `a|b`", id="a"),
            v4.new_markdown_cell(
                "## Part & parcel\n\n[x](javascript:alert(1)) [z](other.md)", id="b"
            ),
            v4.new_markdown_cell("## Part & parcel\n\n| a | b |\n|---|---|\n| $x$ | 2 |", id="c"),
            v4.new_code_cell('run.save_figure("fig01_line", f, d, "<alt>")', id="d"),
            v4.new_code_cell('"<b>"', id="e"),
        ],
        metadata={"textpriv": {"figures": ["fig01_line"], "assets": ["glove-6b-50d"]}},
    )


def ran(node: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with outputs, one of every kind, some of them hostile."""
    drawn = io.BytesIO()
    Image.new("RGB", (30, 30), "white").save(drawn, "PNG")
    picture = base64.b64encode(drawn.getvalue()).decode()
    table = (
        "<style scoped>td {color: red}</style><table border='1' onclick='x()' style='width: 9em'>"
        "<thead><tr><th scope='col' colspan='2'>head</th></tr></thead><tbody><tr><td>cell<br>2</td>"
        "<td><img src=x onerror=alert(1)><a href='javascript:x()'>link</a></td></tr></tbody>"
        "</table>"
        "<script>alert('from an output')</script><iframe src='https://example.org'></iframe>"
    )
    view = "application/vnd.jupyter.widget-view+json"

    def shown(data: dict[str, Any], **metadata: Any) -> nbformat.NotebookNode:
        return v4.new_output("display_data", data=data, metadata=metadata)

    inner = shown({"text/html": "<table><tr><td>shown by a widget</td></tr></table>"})
    node.metadata["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {
            "state": {
                "box": {"state": {"children": ["IPY_MODEL_list", "IPY_MODEL_out"]}},
                "list": {"state": {}},
                "out": {"state": {"outputs": [inner]}},
                "bar": {"state": {"children": []}},
            }
        }
    }
    node.cells[3].outputs = [
        shown({"image/png": picture}, **{"image/png": {"alt": HOSTILE}}),
        shown({"image/png": picture}, **{"image/png": {"alt": "another picture"}}),
        shown({"image/png": picture}),
        shown({view: {"model_id": "bar"}, "text/plain": "0%| progress"}),
        shown({view: {"model_id": "box"}, "text/plain": "VBox(children"}),
        v4.new_output("stream", name="stderr", text="a warning"),
    ]
    node.cells[4].outputs = [
        v4.new_output("stream", name="stdout", text="\x1b[31mred\x1b[0m <b>printed</b>"),
        shown({"text/html": table, "text/plain": "plain form of the table"}),
        shown({"text/markdown": "**Found**: $\\varepsilon = 1$ <script>alert(2)</script>"}),
        v4.new_output("execute_result", data={"text/plain": "'<b>'"}),
    ]
    node.cells[3].execution_count, node.cells[4].execution_count = 1, 3
    given = v4.new_code_cell("seed = 7", metadata={"tags": ["injected-parameters"]})
    given.execution_count = 2
    node.cells.insert(4, given)
    return node


def place(root: Path, patch: pytest.MonkeyPatch) -> Project:
    project = Project(root)
    patch.setattr(paths, "REPOSITORY", root)
    patch.setattr(paths, "RUNS", root / "runs")
    patch.setattr(paths, "NOTEBOOKS", root / "notebooks")
    return project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return place(tmp_path / "project", monkeypatch)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """This repository's site, as a fresh clone would make it, and the small one's."""
    folder = tmp_path_factory.mktemp("some") / "sub path"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "RUNS", folder / "nothing has run")
        site.build(folder / "real")
    with pytest.MonkeyPatch.context() as patch:
        place(tmp_path_factory.mktemp("small"), patch)
        site.build(folder / "small")
    return {name: folder / name for name in ("real", "small")}


def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def pages(sites: dict[str, Path]) -> dict[Path, BeautifulSoup]:
    return {path: soup(path) for root in sites.values() for path in sorted(root.rglob("*.html"))}


# --- Every page ---------------------------------------------------------------------------


class Strict(HTMLParser):
    """Notes tags that close nothing, or stay open, and attributes given twice."""

    VOID = {"meta", "link", "img", "br", "input", "hr"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> stays open" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.wrong.append(f"<{tag}> repeats an attribute")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass  # <mspace/> of MathML

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.wrong.append(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")


@pytest.mark.parametrize("text", ["<p>", "</p>", "<b><i></b></i>", "<p id='a' id='b'></p>"])
def test_the_strict_reader_notices(text: str) -> None:
    assert Strict(text).wrong


def test_pages_are_well_formed(pages: dict[Path, BeautifulSoup]) -> None:
    for path in pages:
        assert Strict(path.read_text(encoding="utf-8")).wrong == [], path


def test_every_link_leads_somewhere(pages: dict[Path, BeautifulSoup]) -> None:
    for path, page in pages.items():
        for tag in page.find_all(href=True) + page.find_all(src=True):
            target = tag.get("href") or tag.get("src")
            if target.startswith(("https://", "http://", "data:")):
                continue
            name, fragment = urldefrag(unquote(target))
            found = (path.parent / name).resolve() if name else path
            assert found.is_file(), (path, target)
            if fragment:
                assert pages[found].find(id=fragment), (path, target)


def test_nothing_is_loaded_from_elsewhere(
    sites: dict[str, Path], pages: dict[Path, BeautifulSoup]
) -> None:
    for path, page in pages.items():
        outside = [tag for tag in page.find_all(href=re.compile("^[a-z]+:")) if tag.name != "a"]
        assert [tag for tag in outside if tag["href"] != "data:,"] == [], path
        for link in page("a", href=re.compile("^[a-z]+:")):
            assert link["href"].startswith(("https://", "http://")), path
        sources = [tag["src"] for tag in page.find_all(src=True)]
        assert not [s for s in sources if ":" in s and not s.startswith("data:image/png;")], path
        assert page.find_all(["iframe", "object", "embed", "base", "style"]) == [], path
        assert not [t for t in page.find_all(True) for name in t.attrs if name.startswith("on")]
        for script in page("script"):
            assert not script.attrs and not re.search("fetch|import|http|eval", script.string)
    for root in sites.values():
        assert not re.search(r"url\(|@import|http", (root / "style.css").read_text())


def test_pages_can_be_read_without_seeing_them(pages: dict[Path, BeautifulSoup]) -> None:
    for path, page in pages.items():
        assert page.html["lang"] == "en" and page.title.get_text().strip(), path
        assert len(page("h1")) == len(page("main")) == len(page("header")) == 1, path
        assert page.find("a", class_="skip")["href"] == f"#{page.main['id']}"
        assert all(image.get("alt", "").strip() for image in page("img")), path
        assert all(table("th") for table in page("table") if "widget" not in table.text), path
        identifiers = [tag["id"] for tag in page.find_all(id=True)]
        assert len(set(identifiers)) == len(identifiers), path
        for control in page(["input", "select"]):
            assert page.find("label", attrs={"for": control["id"]}), path
        levels = [int(tag.name[1]) for tag in page(re.compile("^h[1-6]$"))]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), path


def test_the_same_input_gives_the_same_bytes(project: Project) -> None:
    first, second = project.build("first"), project.build("second")
    made = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert made == sorted(p.relative_to(second) for p in second.rglob("*") if p.is_file())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in made)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_apart() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    text = (site.TEMPLATES / "style.css").read_text()
    schemes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in text.split("@media")[:2]]
    for colours in schemes:
        assert len(colours) == 16
        grounds = [colours.pop(name) for name in ("paper", "panel", "note")]
        lines = {name: colours.pop(name) for name in ("line", "note-line")}
        assert all(contrast(colour, grounds[0]) > 1.3 for colour in lines.values())
        for name, colour in colours.items():
            assert min(contrast(colour, ground) for ground in grounds) >= 4.5, name


# --- What the pages say -------------------------------------------------------------------


def test_every_figure_has_its_place(
    pages: dict[Path, BeautifulSoup], sites: dict[str, Path]
) -> None:
    root = sites["real"]
    stems = [stem for notebook in notebooks.find() for stem in notebook.declares.figures]
    made = [stem for stem in stems if (paths.REPOSITORY / "figures" / f"{stem}.json").exists()]
    gallery = pages[root / "gallery.html"]
    assert [item["data-item"].split()[0] for item in gallery.select("[data-item]")] == made
    for stem in made:
        origin = json.loads((paths.REPOSITORY / "figures" / f"{stem}.json").read_text())
        page = pages[root / "figures" / f"{stem}.html"]
        assert page.img["alt"] == page.figcaption.get_text() == origin["alt"]
        wanted = {f"{stem}{suffix}" for suffix in results.FIGURE_SUFFIXES}
        assert {link["href"] for link in page("a", download=True)} == wanted
        for text in (origin["commit"], *origin["versions"].values(), *origin["assets"]):
            assert text in page.main.get_text()
        there = pages[root / "notebooks" / f"{origin['notebook']}.html"].find(id=stem)
        assert there and there.img["alt"] == origin["alt"]


def test_every_claim_is_in_the_table(
    pages: dict[Path, BeautifulSoup], sites: dict[str, Path]
) -> None:
    page = pages[sites["real"] / "claims.html"]
    rows = page.select("[data-item]")
    here = {notebook.name for notebook in notebooks.find()}
    known = {claim.id: claim for claim in claims.load() if claim.notebook in here}
    assert sorted(row["data-item"] for row in rows) == sorted(known)
    for row in rows:
        claim = known[row["data-item"]]
        cells = [cell.get_text().strip() for cell in row(["th", "td"])]
        assert row["data-paper"] == claim.paper
        assert cells[0] == claim.setting and cells[2] == claim.stated and cells[5]
        assert cells[4] == row["data-verdict"]
        if not claim.is_compared("default"):
            assert cells[4:] == ["not comparable", claim.reason]
    counted = Counter((row["data-paper"], row["data-verdict"]) for row in rows)
    *papers, everything = [
        [int(cell.get_text()) for cell in line("td")] for line in page.table.tbody("tr")
    ]
    verdicts = [str(verdict) for verdict in claims.Verdict]
    for line, paper in zip(papers, claims.PAPERS, strict=True):
        numbers = [counted[paper, verdict] for verdict in verdicts]
        assert line == [*numbers, sum(numbers)]
    assert everything == [sum(column) for column in zip(*papers, strict=True)]
    assert everything[-1] == len(rows)


def test_papers_are_those_of_the_claims() -> None:
    assert {claim.paper for claim in claims.load()} == set(claims.PAPERS)


def test_every_asset_has_its_card(pages: dict[Path, BeautifulSoup], sites: dict[str, Path]) -> None:
    root = sites["real"]
    users = {notebook.name: notebook.declares.assets for notebook in notebooks.find()}
    listed = pages[root / "assets.html"].select("tbody tr")
    assert len(listed) == len(assets.registry())
    for asset in assets.registry().values():
        page = pages[root / "assets" / f"{asset.id}.html"]
        text = " ".join(page.main.get_text().split())
        for wanted in (asset.title, asset.data_licence, asset.digest, *asset.flaws):
            assert " ".join(wanted.split()) in text, asset.id
        for member in asset.members:
            assert member.name in text and (member.pin or "by revision") in text
        links = {Path(link["href"]).stem for link in page.select('main a[href*="notebooks/"]')}
        assert links >= {name for name, used in users.items() if asset.id in used}


def test_the_first_page_tells_the_story(
    pages: dict[Path, BeautifulSoup], sites: dict[str, Path]
) -> None:
    page = pages[sites["small"] / "index.html"]
    assert page.h1.get_text() == "A title"
    assert page.find(class_="lead").get_text() == "A first sentence that says it all."
    assert page.figure.img["src"] == "figures/fig01_line.png"
    assert page.figcaption.a["href"] == "notebooks/01_tiny.html"
    assert page.pre.get_text() == "./run_all.sh\nmake test\n"
    row = page.select_one("tbody tr")
    assert [cell.get_text().strip() for cell in row("td")[1:]] == ["1.5", "1", "none"]
    assert row.th.a.get_text() == "Is <i>it</i> so?"
    real = pages[sites["real"] / "index.html"]
    assert "./run_all.sh" in real.pre.get_text()
    assert len(real.select("tbody tr")) == len(notebooks.find())


@pytest.mark.parametrize("lacking", ["# A title", "![A small", "## Two", "./run_all.sh\nmake test"])
def test_a_readme_that_tells_no_story(lacking: str) -> None:
    site.story(README)
    text = README.replace(lacking, "").replace("```\n\n```", "")
    with pytest.raises(RunError, match="README.md: expected a title"):
        site.story(text)


# --- Formulas, links and hostile text -----------------------------------------------------


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        ("x < y", "x<y"),
        (r"\varepsilon = 10", "ε=10"),
        (r"\arg\max_x P", "argmaxxP"),
        (r"\Big\{ h \Big\}", "{h}"),
        (r"\tfrac12", "12"),
    ],
)
def test_formulas(tex: str, text: str) -> None:
    made = BeautifulSoup(site.formula(tex), "html.parser")
    assert made.math.get_text().replace("\u2009", "") == text
    assert made.math["display"] == "inline"
    assert BeautifulSoup(site.formula(tex, "block"), "html.parser").math["display"] == "block"


def test_a_formula_that_cannot_be_converted_stays_tex() -> None:
    assert site.formula(r"\unknown{a} < b") == r"<code>\unknown{a} &lt; b</code>"


def test_a_long_formula_can_scroll() -> None:
    made = BeautifulSoup(site.formula("+".join("x" * 30)), "html.parser")
    assert made.span["class"] == ["long"] and made.span.math
    assert not BeautifulSoup(site.formula("x + y"), "html.parser").span


def test_every_formula_of_the_notebooks_is_drawn(
    pages: dict[Path, BeautifulSoup], sites: dict[str, Path]
) -> None:
    drawn = 0
    for notebook in notebooks.find():
        page = pages[sites["real"] / "notebooks" / f"{notebook.name}.html"]
        drawn += len(page("math"))
        for code in page(["details", "pre", "code"]):
            code.extract()
        assert "$" not in page.main.get_text() and "\\" not in page.main.get_text(), notebook.name
    assert drawn > 50


def test_a_notebook_with_every_kind_of_output(project: Project) -> None:
    page = project.page()
    text = page.main.get_text()
    assert "It has run" not in text and not page.find(class_="note")
    for wanted in ("red <b>printed</b>", "shown by a widget", "live controls", "cell", "'<b>'"):
        assert wanted in text
    for unwanted in (
        "a warning", "progress", "VBox", "seed = 7", "plain form", "\x1b", "color: red",
        "from an output",
    ):  # fmt: skip
        assert unwanted not in text
    assert page("script") == []
    assert page.find("math").get_text() == "x<y"
    assert [m for m in page("math") if m.get_text() == "ε=1"]
    assert "alert(2)" in text  # shown, not obeyed
    alts = [image["alt"] for image in page("img")]
    assert alts == [HOSTILE, "another picture", "Picture: Part & parcel"]
    assert page("img")[0]["src"] == "../figures/fig01_line.png"
    assert [tag["id"] for tag in page("h2")] == ["s-part-parcel", "s-part-parcel--2"]
    assert [link.get_text() for link in page.select(".sections a")] == ["Part & parcel"] * 2


def test_an_output_keeps_its_table_and_nothing_else(project: Project) -> None:
    (box,) = [box for box in project.page().select(".output .scroll") if "head" in box.text]
    assert {tag.name for tag in box.find_all(True)} == set("table thead tbody tr th td br".split())
    kept = {name for tag in box.find_all(True) for name in tag.attrs}
    assert kept == {"scope", "colspan"}
    assert "link" in box.text


def test_hostile_text_is_escaped(project: Project) -> None:
    folder = project.build()
    for name in ("gallery.html", "figures/fig01_line.html", "notebooks/01_tiny.html"):
        page = soup(folder / name)
        assert HOSTILE in page.main.get_text() and page.find("img", alt=HOSTILE), name
        assert not [script for script in page("script") if "alert" in script.string]
    links = [link["href"] for link in soup(folder / "notebooks" / "01_tiny.html").article("a")]
    assert not [link for link in links if "javascript" in link or "other.md" in link]


@pytest.mark.parametrize("why", ["missing", "changed", "failed", "unfinished"])
def test_a_notebook_that_has_not_run(project: Project, why: str) -> None:
    node = ran(notebook())
    if why == "changed":
        node.cells[1].source += " more"
    elif why == "failed":
        node.cells[-1].outputs = [v4.new_output("error", ename="E", evalue="no", traceback=[])]
    elif why == "unfinished":
        node.cells[-1].execution_count = None
    project.write(node, project.executed)
    if why == "missing":
        project.executed.unlink()
    page = project.page()
    assert "./run_all.sh --only 01" in page.find(class_="note").get_text()
    assert page.find(id="fig01_line").img["alt"] == HOSTILE
    assert "printed" not in page.get_text() and "more" not in page.article.get_text()


def test_a_notebook_without_results_or_figures(project: Project) -> None:
    (project.root / "results" / "01_tiny.json").unlink()
    for path in (project.root / "figures").iterdir():
        path.unlink()
    project.figure("fig01_line")
    (row,) = soup(project.build() / "index.html").select("tbody tr")
    assert row("td")[1].get_text() == "not run"
    (project.root / "figures" / "fig01_line.json").unlink()
    site.build(project.root / "without", "default")
    assert soup(project.root / "without" / "gallery.html").select("[data-item]") == []


def test_figures_say_how_many_numbers_they_plot(project: Project) -> None:
    page = soup(project.build() / "figures" / "fig01_line.html")
    assert "the plotted numbers, 2 rows, 2 columns" in page.get_text()
    assert "40 x 30 pixels" in page.get_text()
    assert "with changes that were not committed" in page.get_text()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("../notebooks/02_b.ipynb", "../notebooks/02_b.html"),
        ("02_b.ipynb", "../notebooks/02_b.html"),
        ("figures/fig01_a.png", "../figures/fig01_a.html"),
        ("https://example.org/?a=1&b=2", "https://example.org/?a=1&b=2"),
        ("benchmarks/x.md", None),
        ("javascript:alert(1)", None),
        ("/etc/passwd", None),
    ],
)
def test_links_in_text(url: str, target: str | None) -> None:
    made = BeautifulSoup(site.markdown(f"[a `b`]({url})", "../"), "html.parser")
    assert made.get_text().strip() == "a b"
    assert (made.a and made.a["href"]) == target


# --- The command --------------------------------------------------------------------------


def test_the_command_replaces_the_site(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = project.root / "site" / "old.html"
    stale.parent.mkdir()
    stale.write_text("old")
    assert site.main([]) == 0
    assert "open site/index.html" in capsys.readouterr().out
    assert (project.root / "site" / "index.html").exists() and not stale.exists()
    assert not list(project.root.glob(".site*"))


def test_a_failure_keeps_the_old_site(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.main([]) == 0
    (project.root / "README.md").write_text("nothing")
    assert site.main([]) == 2
    assert capsys.readouterr().err.startswith("error: README.md: expected")
    assert (project.root / "site" / "index.html").exists()
    assert not list(project.root.glob(".site*"))


def test_the_command_knows_the_profiles(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.main(["--profile", "smoek"]) == 2
    assert "smoek" in capsys.readouterr().err
    assert site.main(["--profile", "smoke"]) == 0
    page = soup(project.root / "site" / "notebooks" / "01_tiny.html")
    assert "./run_all.sh --profile smoke --only 01" in page.get_text()
    assert "a run of the profile smoke" in page.get_text()


# --- In a browser -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    program = find()
    if program is None:
        pytest.skip("no Chromium is installed (chromium, google-chrome)")
    with launched(program) as page:
        yield page


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def served(sites: dict[str, Path]) -> Iterator[str]:
    """Address of a folder that holds both sites two levels down, in one with a blank."""
    folder = sites["real"].parents[1]
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/sub%20path"
        server.shutdown()


LOADED = """
Promise.all([...document.images].map((image) => {
  image.loading = "eager";
  return image.complete || new Promise((done) => { image.onload = image.onerror = done; });
})).then(() => [...document.images]
  .filter((image) => !(image.naturalWidth > 0 && image.width > 20 && image.checkVisibility()))
  .map((image) => image.src.slice(0, 200)))
"""
WIDTH = "document.scrollingElement.scrollWidth"
SHOWN = """
[...document.querySelectorAll("[data-item]")]
  .filter((item) => item.checkVisibility()).map((item) => item.dataset.item)
"""
HEADINGS = "[...document.querySelectorAll('h2')].filter((h) => h.checkVisibility()).length"


def typed(control: str, value: str) -> str:
    """JavaScript that enters a value as a reader would."""
    return (
        f"(() => {{ const c = document.querySelector({control!r}); c.value = {value!r};"
        "c.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_every_page_in_a_browser(tab: Page, served: str, sites: dict[str, Path]) -> None:
    root = sites["real"].parent
    names = [path.relative_to(root).as_posix() for path in sorted(sites["real"].rglob("*.html"))]
    for name in [*names, "small/notebooks/01_tiny.html"]:  # of the small one what else is new
        tab.resize(1280)
        tab.open(f"{served}/{name}")
        assert tab.run(LOADED) == [], name
        assert tab.problems == [], name
        assert [r for r in tab.requests if not r.startswith((served, "data:"))] == [], name
        assert tab.run(WIDTH) <= 1280, name
        tab.resize(360)
        assert tab.run(WIDTH) <= 360, name


def test_the_browser_notices_what_is_wrong(tab: Page, served: str, sites: dict[str, Path]) -> None:
    tab.resize(360)
    wrong = {
        "<img src='absent.png' alt='a'>": lambda: any("404" in p for p in tab.problems),
        "<img src='absent.png' alt=''>": lambda: tab.run(LOADED) != [],
        "<img src='https://example.invalid/a.png'>": lambda: (
            "https://example.invalid/a.png" in tab.requests
        ),
        "<script>console.error('no')</script>": lambda: bool(tab.problems),
        "<script>absent()</script>": lambda: bool(tab.problems),
        "<p style='width: 999px'>wide</p>": lambda: tab.run(WIDTH) > 360,
        "<p>fine</p>": lambda: not tab.problems and tab.run(WIDTH) == 360,
    }
    page = sites["small"].parent / "wrong.html"
    head = "<!DOCTYPE html><link rel=icon href='data:,'>"
    head += "<meta name=viewport content='width=device-width'>"
    for text, is_noticed in wrong.items():
        page.write_text(head + text)
        tab.open(f"{served}/wrong.html")
        assert is_noticed(), text


def test_search_finds_a_figure(tab: Page, served: str, sites: dict[str, Path]) -> None:
    tab.resize(1280)
    tab.open(f"{served}/real/gallery.html")
    everything = tab.run(SHOWN)
    assert len(everything) == len(list((sites["real"] / "figures").glob("*.html")))
    tab.run(typed("#words", "  KNEE  slm_utility "))
    (found,) = tab.run(SHOWN)
    assert found.startswith("fig06_knee ")
    assert tab.run("document.querySelector('output').value") == f"1 of {len(everything)} figures"
    assert tab.run(HEADINGS) == 1  # notebooks without a match are hidden as well
    tab.run(typed("#words", "no such words"))
    assert tab.run(SHOWN) == []
    tab.run(typed("#words", ""))
    assert tab.run(SHOWN) == everything


def test_claims_are_filtered_by_paper_and_verdict(tab: Page, served: str) -> None:
    tab.resize(360)
    tab.open(f"{served}/real/claims.html")
    rows = tab.run("[...document.querySelectorAll('[data-item]')].map((i) => ({...i.dataset}))")
    assert len(tab.run(SHOWN)) == len(rows)
    tab.run(typed("#paper", "tong"))
    tab.run(typed("#verdict", "same trend"))
    wanted = [r["item"] for r in rows if (r["paper"], r["verdict"]) == ("tong", "same trend")]
    assert wanted and tab.run(SHOWN) == wanted


def test_lists_are_whole_without_javascript(tab: Page, served: str, sites: dict[str, Path]) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        for name in ("gallery", "claims"):
            tab.open(f"{served}/real/{name}.html")
            items = len(soup(sites["real"] / f"{name}.html").select("[data-item]"))
            assert len(tab.run(SHOWN)) == items
            assert not tab.run("document.querySelector('form').checkVisibility()")
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_site_opens_from_a_file(tab: Page, sites: dict[str, Path]) -> None:
    tab.resize(1280)
    for name in ("index.html", "gallery.html", "notebooks/01_mechanisms.html"):
        tab.open((sites["real"] / name).as_uri())
        assert tab.problems == [] and tab.run(LOADED) == []
        assert tab.run("getComputedStyle(document.body).margin") == "0px"  # the sheet is there


def test_dark_where_the_reader_wants_dark(tab: Page, served: str) -> None:
    tab.open(f"{served}/real/figures/fig02_kept_words.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.resize(1280, dark=True)
    assert tab.run(ground) == "rgb(13, 17, 23)"
    assert tab.run("getComputedStyle(document.querySelector('img')).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    tab.resize(1280)
    assert tab.run(ground) == "rgb(255, 255, 255)"
