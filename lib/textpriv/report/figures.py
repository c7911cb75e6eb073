"""Figures: one style, one look per mechanism and attack, and where each comes from.

`style("santext")` gives a mechanism the same colour, marker and line in every notebook.
`save` writes the picture (PNG and PDF), the plotted numbers (CSV) and the provenance
(JSON, and again inside the picture); saved twice from the same state, the bytes agree.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.text import Text
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from textpriv.attacks.registry import ON_TOKENS, ON_WORDS
from textpriv.data import corpora
from textpriv.errors import InvalidInput
from textpriv.files import write_atomic
from textpriv.mechanisms.registry import WORD_LEVEL

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PAGE = 5.4
"""Inches; printed in a column of 3.3 inches, text of 8 points has 5."""

SCREEN = 100
"""Dots per inch of figures as notebooks show them."""

_STEM = re.compile(r"fig\d{2}_[a-z0-9_]+")
_NOISE = re.compile(r"noise-([\d.]+)")
_STENCIL = re.compile(r"(.*stencil)-w(\d+)-s([\d.]+)")

# Okabe & Ito (2008), told apart with every common colour blindness; their yellow is
# left out, being too pale for lines on white, and a grey stands in.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"


class Style(NamedTuple):
    """How one mechanism, attack or search looks, and what a legend calls it."""

    label: str
    color: str
    marker: str
    linestyle: str


COLORS = {
    "black": BLACK, "orange": ORANGE, "sky": SKY, "green": GREEN,
    "blue": BLUE, "red": RED, "purple": PURPLE, "grey": GREY,
}  # fmt: skip
"""By the names that the registries of mechanisms and attacks use."""


def _registered(entries: Mapping[str, Any]) -> dict[str, Style]:
    """How the entries of a registry look, by their names."""
    return {
        name: Style(entry.label, COLORS[entry.color], entry.marker, entry.line)
        for name, entry in entries.items()
    }


# A family shares its line style; inside a group no two share colour and marker.
MECHANISMS = {
    **_registered(WORD_LEVEL),
    "noise": Style("noise", GREY, "v", "-"),
    "custext-aggressive": Style("CusText, aggressive", PURPLE, "o", "--"),
    "truncated-laplace": Style("truncated Laplace", GREY, "s", "-."),
    "deep-candidate": Style("DeepCandidate", GREEN, "o", "-."),
    "left-out": Style("words left out", BLACK, "s", "-"),
    "first-words": Style("first words alone", GREY, "^", "-"),
    "dp-prompt": Style("unclipped DP-Prompt", BLACK, "o", ":"),
    "dp-prompt-clipped": Style("clipped DP-Prompt", ORANGE, "P", ":"),
    "dp-prompt-top-k40": Style("DP-Prompt, 40 likeliest tokens", PURPLE, "X", ":"),
    "dp-prompt-top-k80": Style("DP-Prompt, 80 likeliest tokens", PURPLE, "v", ":"),
    "madlib-whole": Style("MADLIB, whole table", GREEN, "v", "-"),
    "2-random": Style("2-random", SKY, "P", "-."),
    "3-random": Style("3-random", BLUE, "P", "-."),
    "high-freq": Style("high-freq", GREEN, "X", "-."),
    "low-freq": Style("low-freq", ORANGE, "X", "-."),
    "stencil": Style("stencil", RED, "s", "-"),
    "punctuated-stencil": Style("punctuated stencil", PURPLE, "D", "-"),
}
ATTACKS, TOKEN_ATTACKS = _registered(ON_WORDS), _registered(ON_TOKENS)
SEARCHES = {
    "exact": Style("exact", BLUE, "o", "-"),
    "annoy": Style("Annoy", RED, "s", "--"),
    "ivf": Style("IVF", GREEN, "^", "-."),
    "hnsw": Style("HNSW", PURPLE, "D", ":"),
}
BASELINES = {
    "original": Style("original text", BLACK, "", "--"),
    "plain": Style("plain text", BLACK, "*", ""),
    "chance": Style("chance", GREY, "", ":"),
}
STYLES = {**MECHANISMS, **ATTACKS, **TOKEN_ATTACKS, **SEARCHES, **BASELINES}


def use_style() -> None:
    """Make the style file the current one."""
    plt.style.use(Path(__file__).with_name("style.mplstyle"))


def style(name: str) -> dict[str, str]:
    """Keywords for `Axes.plot`: colour, marker and line style of `name`.

    Underscores may stand for hyphens, so that a name from the results can be passed on.
    """
    look = _look(name)._asdict()
    return {key: look[key] for key in ("color", "marker", "linestyle")}


def label(name: str) -> str:
    """What a legend calls `name`."""
    return _look(name).label


def of_hundred(share: float) -> str:
    """A share of a hundred, 100 only where it is all of them."""
    rounded = f"{100 * share:.0f}"
    return f"{min(100 * share, 99.9):.1f}" if rounded == "100" and share < 1 else rounded


def called(name: str) -> str:
    """A mechanism or attack as figures call it; other names as they are."""
    if setting := _STENCIL.fullmatch(name):
        return f"{called(setting[1])}, window {setting[2]}, sigma {setting[3]}"
    if noise := _NOISE.fullmatch(name):
        return f"noise on token vectors, eta {noise[1]}"
    if name.endswith(", allotted"):
        return f"{called(name.removesuffix(', allotted'))} with an epsilon per word"
    bare, large = name.removesuffix("-300d"), name.endswith("-300d")
    look = STYLES.get(bare)
    return f"{look.label}, 300 dimensions" if look and large else look.label if look else name


def listing(names: Iterable[str]) -> str:
    """Mechanisms or attacks as a sentence lists them; "none" for none."""
    *most, last = [called(each) for each in names] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is read: labels of mechanisms, attacks and corpora in place of their ids.

    In cells, index and columns.
    """

    def said(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        name = called(cell)
        return corpora.label(cell) if name == cell else name

    return table.map(said).rename(index=said, columns=said)


def band(ax: Axes, table: pd.DataFrame, x: str, y: str = "value", **style: Any) -> None:
    """A column of a table against another, with its interval, `low` to `high`, shaded."""
    (line,) = ax.plot(table[x], table[y], **style)
    interval = table[x], table["low"], table["high"]
    ax.fill_between(*interval, color=line.get_color(), alpha=0.18, lw=0)


def reach(table: pd.DataFrame, value: str = "value") -> NDArray[np.float64]:
    """How far the intervals of a column reach below and above it, as `errorbar` asks: (2, rows)."""
    return np.clip([table[value] - table["low"], table["high"] - table[value]], 0, None)


def dot(ax: Axes, row: Any, height: float, **look: Any) -> None:
    """The value of a row, at some height, and its interval along the x axis."""
    spread = reach(pd.DataFrame([row]))
    ax.errorbar(row.value, height, xerr=spread, **{**look, "linestyle": ""})


def percent(*axes: Axis) -> None:
    """Write the ticks of these axes, which are shares, as percentages."""
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def legend_below(fig: Figure, ncols: int, keys: Iterable[Artist] = (), **look: Any) -> None:
    """One legend below all panels: `keys`, then what the panels name, each name once.

    In `ncols` columns, or as many as there is room for.
    """
    drawn = [handle for ax in fig.axes for handle in ax.get_legend_handles_labels()[0]]
    named: dict[object, Artist] = {}
    for each in (*keys, *drawn):
        named.setdefault(each.get_label(), each)
    look |= {"handles": [*named.values()], "loc": "outside lower center"}
    for columns in range(ncols, 0, -1):
        legend = fig.legend(ncols=columns, **look)
        fig.draw_without_rendering()
        if columns == 1 or legend.get_window_extent().width <= 0.95 * fig.bbox.width:
            return
        legend.remove()


def wrap_titles(fig: Figure) -> None:
    """Break titles into lines that the figure has room for, but not what stands in parentheses."""
    titles = {ax.get_title(place) for ax in fig.axes for place in ("left", "center")} - {""}
    fig.draw_without_rendering()  # makes room: above the figure each word would be a line
    for text in fig.findobj(Text):
        if text.get_text() in titles | {fig.get_suptitle()}:
            whole = re.sub(r"\(n = [^)]*\)", lambda n: n[0].replace(" ", "\xa0"), text.get_text())
            text.set(text=whole, wrap=True)


def save(
    directory: Path,
    stem: str,
    fig: Figure,
    data: pd.DataFrame,
    alt: str,
    provenance: Mapping[str, Any],
) -> None:
    """Write `<stem>.png`, `.pdf`, `.csv` and `.json` into `directory`.

    Parameters
    ----------
    stem : "fig02_kept_words"
    data : the plotted numbers, one row per point; its index and influences are not written
    alt : what the figure shows, in a sentence or two, for those who cannot see it
    provenance : JSON values; the alternative text joins them
    """
    if not _STEM.fullmatch(stem):
        raise InvalidInput(f"figure: expected a name like 'fig02_kept_words', got {stem!r}")
    if not alt.strip():
        raise InvalidInput(f"{stem}: expected an alternative text that says what the figure shows")
    written = data.drop(columns=[each for each in data if str(each).endswith("influence")])
    if written.empty or not written.columns.is_unique:
        raise InvalidInput(f"{stem}: expected rows of plotted numbers under distinct columns")
    named = {"figure": stem, "title": title_of(fig), "alt": " ".join(alt.split())}
    origin = {**provenance, **named}
    contents = {
        **pictures(fig, origin),
        ".csv": written.to_csv(index=False, lineterminator="\n").encode(),
        ".json": about(origin),
    }
    for suffix, data in contents.items():
        write_atomic(directory / f"{stem}{suffix}", data)


def title_of(fig: Figure) -> str:
    """What a figure says of itself: the title over all of it, or that of its only titled panel."""
    panels = {ax.get_title(place) for ax in fig.axes for place in ("left", "center")} - {""}
    title = fig.get_suptitle() or (panels.pop() if len(panels) == 1 else "")
    return " ".join(title.split())


def about(origin: Mapping[str, Any]) -> bytes:
    """The file that says where a figure comes from."""
    return f"{json.dumps(origin, indent=1, sort_keys=True)}\n".encode()


def pictures(fig: Figure, origin: Mapping[str, Any]) -> dict[str, bytes]:
    """The files .png and .pdf of a figure, which say what its .json does."""
    stem, alt = origin["figure"], origin["alt"]
    text = about(origin).decode().strip()
    described = {"Title": stem, "Subject": alt, "Keywords": text, "CreationDate": None}
    return {
        ".png": drawn(fig, "png", {"Title": stem, "Description": alt, "Comment": text}),
        ".pdf": drawn(fig, "pdf", described),
    }


def drawn(
    fig: Figure,
    kind: str,
    metadata: dict[str, str | None] | None = None,
    dpi: float | str | None = None,
) -> bytes:
    """A figure as the bytes of a file; in the dots per inch of the style where `dpi` is None."""
    wrap_titles(fig)
    buffer = io.BytesIO()
    fig.savefig(buffer, format=kind, metadata=metadata, dpi=dpi or plt.rcParams["savefig.dpi"])
    return buffer.getvalue()


def _look(name: str) -> Style:
    style = STYLES.get(name) or STYLES.get(name.replace("_", "-"))
    if style is None:
        raise InvalidInput(f"no style for {name!r}; known: {', '.join(STYLES)}")
    return style
