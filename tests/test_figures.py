from __future__ import annotations

import inspect
import json
from collections import Counter
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from helpers import normal_embedding
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from textpriv import mechanisms
from textpriv.errors import InvalidInput
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.neighbors import ExactSearch
from textpriv.report import figures

DATA = pd.DataFrame({"eps": [1.1, 2.2, 3.3], "kept": [1 / 3, 0.1 + 0.2, 1e-17]})
ORIGIN = {"commit": "0" * 40, "dirty": False, "profile": "smoke", "seed": 7, "overrides": {}}
ALT = "Share of words kept\n  against eps: it rises – always."


@pytest.fixture(autouse=True)
def style_file() -> None:
    figures.use_style()


def drawn() -> Figure:
    fig, ax = plt.subplots()
    table = DATA.assign(low=DATA.kept - 0.1, high=DATA.kept + 0.1)
    figures.band(ax, table, "eps", "kept", **figures.style("tem"))
    ax.set_xlabel("eps (1/distance)")
    return fig


def test_tables_are_read_with_labels() -> None:
    index = pd.MultiIndex.from_tuples([("imdb", 2.0)], names=["corpus", "epsilon"])
    cells = {"attack": "noisy-channel", "defense": "santext+", "imdb": 0.5}
    labelled = figures.labelled(pd.DataFrame(cells, index=index))
    label = figures.label("noisy-channel")
    assert labelled.to_dict("list") == {"attack": [label], "defense": ["SanText+"], "IMDb": [0.5]}
    assert [*labelled.index] == [("IMDb", 2.0)] and labelled.index.names == index.names


def test_provenance_beside_and_inside(tmp_path: Path) -> None:
    figures.save(tmp_path, "fig02_kept", drawn(), DATA, ALT, ORIGIN)
    beside = json.loads((tmp_path / "fig02_kept.json").read_text())
    flat = "Share of words kept against eps: it rises – always."
    assert beside == {**ORIGIN, "figure": "fig02_kept", "title": "", "alt": flat}
    with Image.open(tmp_path / "fig02_kept.png") as picture:
        assert json.loads(picture.text["Comment"]) == beside
        assert picture.text["Description"] == flat
        assert picture.size == (1100, 680)  # 5.5 x 3.4 inches at 200 dots
    pdf = (tmp_path / "fig02_kept.pdf").read_bytes()
    assert b"/Keywords" in pdf and b"/Subject" in pdf and b"/CreationDate" not in pdf
    assert "0" * 40 in pdf.decode("latin-1").replace("\x00", "").replace("\\", "")


def test_a_figure_says_its_title() -> None:
    fig, panels = plt.subplots(1, 2)
    panels[0].set_title("The only  title", loc="left")
    assert figures.title_of(fig) == "The only title"
    panels[1].set_title("another panel's")
    assert figures.title_of(fig) == ""  # two names of panels are no finding
    fig.suptitle("Over both")
    assert figures.title_of(fig) == "Over both"


def test_a_long_title_has_room_though_it_came_late() -> None:
    """Laid out without it, the figure has it above its edge: a word a line, and out of sight."""
    figures.use_style()
    fig, ax = plt.subplots()
    ax.plot([0], [0], label="a line")
    figures.legend_below(fig, 1)
    ax.set_title(title := "many words " * 16)
    figures.wrap_titles(fig)
    fig.draw_without_rendering()
    (drawn,) = (each for each in fig.findobj(Text) if each.get_text() == title)
    assert drawn.get_window_extent().y1 <= fig.bbox.y1 and ax.get_position().height > 0.5
    plt.close(fig)


def test_saved_twice_the_bytes_agree(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        figures.save(tmp_path / folder, "fig02_kept", drawn(), DATA, ALT, ORIGIN)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name
    figures.save(tmp_path / "third", "fig02_kept", drawn(), DATA, ALT, {**ORIGIN, "seed": 8})
    for suffix in (".png", ".pdf", ".json"):  # and they do carry where they come from
        first, third = (tmp_path / which / f"fig02_kept{suffix}" for which in ("first", "third"))
        assert first.read_bytes() != third.read_bytes()


@pytest.mark.parametrize(
    ("stem", "data", "alt", "message"),
    [
        ("fig2_kept", DATA, ALT, "name like"),
        ("fig02_Kept", DATA, ALT, "name like"),
        ("../fig02_kept", DATA, ALT, "name like"),
        ("fig02_kept", DATA, " \n", "alternative text"),
        ("fig02_kept", DATA.iloc[:0], ALT, "plotted numbers"),
        ("fig02_kept", DATA.set_axis(["x", "x"], axis=1), ALT, "distinct"),
    ],
)
def test_refuses(tmp_path: Path, stem: str, data: pd.DataFrame, alt: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        figures.save(tmp_path, stem, drawn(), data, alt, ORIGIN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "group", ["MECHANISMS", "ATTACKS", "TOKEN_ATTACKS", "SEARCHES", "BASELINES"]
)
def test_looks_are_told_apart_by_colour_and_marker(group: str) -> None:
    looks = getattr(figures, group)
    pairs = Counter((look.color, look.marker) for look in looks.values())
    assert [pair for pair, times in pairs.items() if times > 1] == []
    assert len({look.label for look in looks.values()}) == len(looks)


def test_colours_stand_out_from_paper() -> None:
    """At least 2:1 against white (WCAG's ratio); their yellow would have 1.3:1."""
    for look in figures.STYLES.values():
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in matplotlib.colors.to_rgb(look.color)]  # fmt: skip
        assert 1.05 / (np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05) > 2, look


def test_style_takes_names_from_results() -> None:
    assert figures.style("noisy_channel") == figures.style("noisy-channel")
    with pytest.raises(InvalidInput, match="no style for 'santxt'; known: madlib"):
        figures.style("santxt")


def test_every_mechanism_has_a_look_under_its_name() -> None:
    table = normal_embedding(40, 3, seed=0)
    search = ExactSearch(table.vectors)
    made = [entry.make(table, search) for entry in WORD_LEVEL.values()]
    assert [each.name for each in made] == [*WORD_LEVEL]
    for name, entry in WORD_LEVEL.items():
        assert (figures.label(name), figures.style(name)["marker"]) == (entry.label, entry.marker)
    made.append(mechanisms.CusText(table, epsilon=1, mapping="aggressive"))
    looks = [tuple(figures.style(mechanism.name).items()) for mechanism in made]
    assert len(set(looks)) == len(made)
    known = {
        kind
        for kind in vars(mechanisms).values()
        if inspect.isclass(kind) and not inspect.isabstract(kind)
    }
    assert known - {mechanisms.Claim} <= set(map(type, made))
    named = [f"`{type(mechanism).__name__}`" for mechanism in made]
    assert [name for name in named if name not in (mechanisms.__doc__ or "")] == []
