"""What the pages "Play", claims and reference are made of, on tables of a few rows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tools.site import judged, knowledge, play, reference

from textpriv.attacks.registry import ON_TOKENS, ON_WORDS
from textpriv.report import board, claims, results

SENTENCES = """\
mechanism,epsilon,sentence,original,sanitized,state,rank,guess_1,posterior_1,guess_2,posterior_2
custext+,1,0,the,the,in clear,0,,,,
custext+,1,0,null,</script>,near,3,null,0.75,nan,0.125
custext+,4,0,the,the,in clear,0,,,,
custext+,4,0,null,null,kept,0,null,0.99999,,
"""
LINES = "other,radius,score\nhockey,0,0\nhockey,2,0\nteam,0,-4\nteam,2,1.5\n"
ATTACKERS = """corpus,label,kind,window,sigma,attack,top,value,low,high,n
imdb,a,stencil,9,0.2,naive,1,0.5,0.4,0.6,10
imdb,b,stencil,9,0.8,naive,1,0.25,0.2,0.3,10
imdb,b,stencil,9,0.8,anywhere,1,0.9,0.8,1,10
imdb,c,stencil,5,0.2,naive,1,0.7,0.6,0.8,10
imdb,d,plain,0,0.0,naive,1,1,0.9,1,10
"""
LADDER = """corpus,defense,epsilon,attack,value,low,high,n
imdb,custext,2.0,embedding-inversion,0.1,0.05,0.2,40
imdb,custext,2.0,an-attack-to-come,0.9,0.8,1,40
"""
BOARD = """panel,mechanism,risk,epsilon,value,low,high
words,tem,0.3,2.1,0.6,0.5,0.7
words,tem,0.4,2.2,0.7,0.6,0.8
words,madlib,0.3,11,0.5,0.4,0.6
words,madlib,0.4,12,,,
words,santext,0.3,3,0.4,0.3,0.5
words,santext,0.4,3.5,0.5,0.4,0.6
words,santext,0.9,7,0.8,0.7,0.9
"""
TABLES = {
    "fig00_every_epsilon": SENTENCES,
    "fig02_lines": LINES,
    "fig03_attackers": ATTACKERS,
    "fig05_ladder": LADDER,
    "fig07_risk_utility": BOARD,
}


def embedded(folder: Path) -> tuple[dict[str, Any], str]:
    """What the page made of these tables embeds, and all of its text."""
    cells = play.page(lambda stem: play.plotted(folder / f"{stem}.csv")).cells
    html = cells[-1].outputs[0].data["text/html"]
    inside = html.removeprefix("<script type='application/json' id='play-data'>")
    data: dict[str, Any] = json.loads(inside.removesuffix("</script>"))
    return data, "\n".join(cell.source for cell in cells) + html


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for stem, text in TABLES.items():
        (tmp_path / f"{stem}.csv").write_text(text)
    return tmp_path


def test_sentences_word_by_word(tables: Path) -> None:
    data, text = embedded(tables)
    (only,) = data["sentence"]["texts"]
    assert only["words"] == ["the", "null"] and only["values"] == [1, 4]
    clear, hidden = only["sent"][0]
    assert clear == {"sent": "the", "state": "in clear", "rank": 0, "guesses": []}
    assert hidden["guesses"] == [["null", 0.75], ["nan", 0.125]]  # words, and not missing values
    assert hidden["sent"] == "</script>" and text.count("</script>") == 1
    assert only["sent"][1][1]["guesses"] == [["null", 1.0]]


def test_lines_are_relative_to_the_word(tables: Path) -> None:
    section = embedded(tables)[0]["lines"]
    assert section["word"] == "hockey" and section["values"] == [0, 2]
    assert {line["word"]: line["scores"] for line in section["lines"]}["team"] == [-4, 1.5]


def test_the_stencil_of_the_window_that_sigma_varies_in(tables: Path) -> None:
    (choice,) = embedded(tables)[0]["stencil"]["choices"]
    assert choice["label"] == "IMDb, stencil, the first guess" and choice["values"] == [0.2, 0.8]
    first, second = choice["steps"]
    assert [row.get("value") for row in first] == [0.5, None]  # not measured at this sigma
    assert [row["value"] for row in second] == [0.25, 0.9]
    assert second[0]["label"] == ON_TOKENS["naive"].label and second[0]["n"] == 10
    assert "aside" in second[1] and "aside" not in second[0]


def test_what_attackers_know(tables: Path) -> None:
    (setting,) = embedded(tables)[0]["ladder"]["settings"]
    assert setting["label"] == "CusText+, ε = 2, IMDb"
    known, unknown = setting["rows"]
    assert known["needs"] == [] and known["label"] == ON_WORDS["embedding-inversion"].label
    assert unknown["needs"] == [*knowledge.FACTS] and unknown["label"] == "an-attack-to-come"
    assert set(knowledge.NEEDS) == set(ON_WORDS), "an attack was added: what does it know?"
    assert {fact for needs in knowledge.NEEDS.values() for fact in needs} == set(knowledge.FACTS)
    assert set(knowledge.ASIDE) <= set(ON_TOKENS)


def test_risks_that_mechanisms_share(tables: Path) -> None:
    (choice,) = embedded(tables)[0]["scoreboard"]["choices"]
    assert choice["values"] == [0.3, 0.4]  # 0.9 is one mechanism's alone
    names = [row["label"] for row in choice["steps"][0]]
    assert names == ["TEM", "MADLIB", "SanText"]
    assert [row.get("value") for row in choice["steps"][1]] == [0.7, None, 0.5]
    assert choice["steps"][0][1]["note"] == "ε = 11"
    two = pd.read_csv(tables / f"{play.SCOREBOARD}.csv")
    both = pd.concat([two.assign(panel="words"), two.assign(panel="documents")])
    labels = [each["label"] for each in play.scoreboard(both)["choices"]]
    assert labels == ["words", "documents"]
    points = two.assign(risk=range(len(two)))  # measured points share no risk: no slider for them
    assert play.scoreboard(points) == {"choices": []}


def test_the_scoreboard_is_read_from_results() -> None:
    """By the columns that notebooks 04 and 07 record, and not by names."""
    measurements = {
        f"{quantity}.{number}": results.Measurement(
            name=f"{quantity}.{number}", value=0.5, low=0.4, high=0.6, unit="share", columns=columns
        )
        for number, (quantity, columns) in enumerate(
            [
                ("equal_risk", {"risk": 0.4, "mechanism": "tem", "task": "imdb"}),
                ("equal_risk", {"risk": 0.4, "mechanism": "tem", "task": "a_new_task"}),
                ("f1_at_risk", {"risk": 0.2, "mechanism": "tem"}),
                ("other", {"risk": 0.2, "mechanism": "tem"}),
            ]
        )
    }
    made = board.Board("default", {}, {})
    made.__dict__["measured"] = measurements
    table = play.at_equal_risk(made)
    assert table["panel"].str.contains("IMDb|a new task|documents").tolist() == [True] * 3
    assert table["risk"].tolist() == [0.4, 0.4, 0.2]
    none = board.Board("default", {}, {})
    none.__dict__["measured"] = {}
    assert play.scoreboard(play.at_equal_risk(none)) == {"choices": []}


@pytest.mark.parametrize("missing", [*TABLES])
def test_a_figure_that_is_missing_leaves_its_part_out(tables: Path, missing: str) -> None:
    (tables / f"{missing}.csv").unlink()
    key = {part.stem: part.key for part in play.PARTS}[missing]
    data, text = embedded(tables)
    assert key not in data and f"play-{key}" not in text and len(data) == len(TABLES) - 1
    (tables / f"{missing}.csv").write_text("other,columns\n1,2\n")
    assert key not in embedded(tables)[0]


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or ""


def in_browser(folder: Path, html: str) -> str:
    """A page as it stands after its scripts have run."""
    for script in Path(play.__file__).with_name("static").glob("*.js"):
        html += f"<script>{script.read_text(encoding='utf-8')}</script>"
    (folder / "page.html").write_text(f"<meta charset='utf-8'>{html}", encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    command += [f"--user-data-dir={folder / 'browser'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (folder / "page.html").as_uri()], capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode()


@pytest.mark.skipif(not BROWSER, reason="needs Chromium")
def test_a_browser_fills_every_part_and_obeys_no_text(tables: Path) -> None:
    cells = play.page(lambda stem: play.plotted(tables / f"{stem}.csv")).cells
    shown = [cell.outputs[0].data["text/html"] for cell in cells if cell.cell_type == "code"]
    made = in_browser(tables, "\n".join(shown)).partition("<script>")[0]
    assert made.count("<output") == len(play.PARTS)
    assert made.count('type="range"') == 4 and made.count('type="checkbox"') == 6
    assert "1 sanitized words: 1 sent as they are" in made  # the middle of two epsilons
    assert "&lt;/script&gt;" not in made  # sent at the other one
    assert "“team” is sent for “hockey”" not in made and "“hockey” is sent as it is" in made
    assert "1 of 2 attacks are possible; the strongest, embedding inversion" in made
    assert "Its interval overlaps with those of SanText." in made
    assert not any(wrong in made for wrong in ("undefined", "NaN", "[object"))


def test_the_script_knows_every_part_and_nothing_from_elsewhere() -> None:
    script = Path(play.__file__).with_name("static") / "play.js"
    text = script.read_text(encoding="utf-8")
    for part in play.PARTS:
        assert f"function {part.key}(" in text or f"const {part.key} =" in text
    assert not any(word in text for word in ("fetch(", "XMLHttp", "import ", "innerHTML", "eval("))


def claim(*names: str, form: str = "greater", bound: float | None = None) -> claims.Claim:
    trend = claims.Trend(form=form, measurements=[*names], bound=bound)  # type: ignore[arg-type]
    where: dict[str, Any] = {"notebook": "02_ann_vs_exact", "place": "Table 2", "setting": "s"}
    return claims.Claim(id="a", paper="tong", trend=trend, compared="always", **where)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (claim("asr.eps2.4.strong_one", "asr.eps2.4.weak"), "strong one > weak"),
        (claim("f1.t0.75.author", "f1.t1.5.author"), "t0.75 > t1.5"),
        (claim("acc.test", "acc.other.test"), "test > other test"),  # else nothing is left of one
        (claim("a.b", form="at_least", bound=0.5), "at least 0.5"),
    ],
)
def test_an_ordering_is_said_by_what_differs(stated: claims.Claim, said: str) -> None:
    assert judged.shortened(stated) == said


SOURCE = '''"""About `this` module & <that>."""

class Shown(Base):
    """A class.

    Parameters
    ----------
    first, second : two *things*,
        in two lines
    """

    def method(self, x: float) -> int:
        """What it does."""

    def _hidden(self) -> None:
        """Never."""

def plain_function(*args: int) -> None:
    """Says [so](javascript:x)."""

def _private() -> None: ...
'''


def test_the_reference_shows_what_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room := tmp_path / "package" / "room").mkdir(parents=True)
    for name in ("module", "__main__"):
        (room / f"{name}.py").write_text(SOURCE)
    monkeypatch.setattr(reference, "ROOMS", {"room": ("A room", "It has `modules`.")})
    ((_, page),) = reference.pages(tmp_path / "package")
    assert "## package.room.module\n\nAbout `this` module \\& \\<that\\>\\." in page
    assert "- `first, second`: two \\*things\\*\\, in two lines" in page
    assert "- `method(x: float) -> int`: What it does\\." in page
    assert "plain_function(*args: int) -> None" in page and "](javascript" not in page
    assert not any(word in page for word in ("_hidden", "_private", "main", "Never"))
