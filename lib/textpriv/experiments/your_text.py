"""Notebook 00: sizes of a first look, and its one picture."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from pydantic import BaseModel, ConfigDict, Field

from textpriv.report.figures import label


class Sizes(BaseModel):
    """Sizes of notebook 00, set by the profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: int | None  # of the vocabulary, the most frequent; None: all
    public: int = Field(ge=10)  # reviews that the attacker has read
    corpus: str  # a corpus of the registry, or the path of a file of one's own
    texts: int = Field(ge=8)  # of it that are sanitized and attacked
    settings: dict[str, float]  # epsilon by mechanism


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
