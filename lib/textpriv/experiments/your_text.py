"""Notebook 00: sizes of a first look, and its one picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.ticker import PercentFormatter
from pydantic import BaseModel, ConfigDict, Field

from textpriv.drawing import drawing
from textpriv.evaluation.evaluate import Evaluation
from textpriv.evaluation.reading import CLEAR, RIGHT, WRONG, Reading
from textpriv.report.figures import label


class Sizes(BaseModel):
    """Sizes of notebook 00, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: int | None  # of the vocabulary, the most frequent; None: all
    draws: int = Field(ge=1)  # of the first sentence
    public: int = Field(ge=10)  # reviews that the attacker has read
    corpus: str  # a corpus of the registry, or the path of a file of one's own
    texts: int = Field(ge=8)  # of it that are sanitized and attacked
    settings: dict[str, float]  # epsilon by mechanism


def rows(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """The strongest attack on words and on texts, for each mechanism.

    Columns: mechanism, epsilon, finds, attack, value, low, high, chance, n.
    """
    best = [
        {"mechanism": name, "epsilon": each.epsilon, **strongest}
        for name, each in found.items()
        for finds in ("words", "texts")
        if (strongest := each.strongest(finds)) is not None
    ]
    return pd.DataFrame(best).drop(columns="knows").astype({"n": int})


@drawing
def read_and_linked(table: pd.DataFrame, title: str) -> Figure:
    """Words read back and texts linked, a point with its interval for each mechanism.

    Parameters
    ----------
    table : columns mechanism, finds ("words", "texts"), value, low, high, chance
    """
    figure = Figure(figsize=(5.2, 0.9 + 0.5 * table["mechanism"].nunique()), layout="constrained")
    axes = figure.subplots()
    order = list(dict.fromkeys(table["mechanism"]))[::-1]
    looks = zip(
        (("words", "words read back"), ("texts", "texts linked")),
        sns.color_palette("colorblind"),
        strict=False,
    )
    for (finds, said), color in looks:
        rows = table[table["finds"] == finds]
        height = [
            order.index(name) + (0.12 if finds == "words" else -0.12) for name in rows["mechanism"]
        ]
        reach = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
        axes.errorbar(
            rows["value"], height, xerr=reach, fmt="o", color=color, capsize=3, label=said
        )
        axes.plot(
            rows["chance"],
            height,
            "|",
            color="black",
            label="guessing" if finds == "texts" else None,
        )
    axes.set_yticks(range(len(order)), [label(name) for name in order])
    axes.set(xlim=(-0.02, 1.02), xlabel="share found by the strongest attack that was run")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_title(title, loc="left")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


LOOKS = {CLEAR: ("#777777", "none"), RIGHT: ("black", "#f5d48a"), WRONG: ("#b03a2e", "none")}


@drawing
def read_back(reading: Reading, title: str) -> Figure:
    """A sentence as it was written, sent, and read back: the words that are named are marked.

    Words stand one below the other, so that each can be followed down.
    """
    lines = (reading.original, reading.sanitized, reading.guessed)
    figure = Figure(
        figsize=(7.2, 2.9),
        layout=PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=True),
    )
    axes = figure.add_axes((0.01, 0.02, 0.98, 0.84))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    widths = [
        0.0135 * max(len(words[at]) for words in lines) + 0.012 for at in range(len(lines[0]))
    ]
    row, left, margin = 0, 0.11, 0.11
    starts = []
    for width in widths:
        if left + width > 1:
            row, left = row + 1, margin
        starts.append((row, left))
        left += width
    height = 1 / (row + 1)
    for name, offset in (("written", 0.15), ("sent", 0.45), ("read back", 0.75)):
        for each in range(row + 1):
            top = 1 - (each + offset) * height
            axes.text(0, top, name, fontsize=7.5, color="#555555", va="baseline")
    for at, (each, left) in enumerate(starts):
        color, marked = LOOKS[reading.states[at]]
        grey: dict[str, Any] = {"fontsize": 9, "va": "baseline", "color": "#777777"}
        hidden = reading.states[at] != CLEAR
        axes.text(left, 1 - (each + 0.15) * height, lines[0][at], **grey | {"color": "black"})
        axes.text(
            left,
            1 - (each + 0.45) * height,
            lines[1][at],
            **grey | ({"color": "black"} if hidden else {}),
        )
        box = {"facecolor": marked, "edgecolor": "none", "pad": 1.5}
        look = {"color": color, "fontweight": "bold" if marked != "none" else "normal"}
        axes.text(left, 1 - (each + 0.75) * height, lines[2][at], bbox=box, **grey | look)
    return figure
