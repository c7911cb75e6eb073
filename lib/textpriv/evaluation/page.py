"""An evaluation as one page that works offline, and its picture."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np

from textpriv.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from textpriv.evaluation.evaluate import Evaluation
    from textpriv.evaluation.reading import Reading

SAID = {
    "words": "{:.0%} of the content words are recovered",
    "texts": "{:.0%} of the texts are linked to their originals",
    "authors": "The author is named with a macro F1 of {:.0%}",
}
TITLES = {
    "words": "Content words, recovered",
    "texts": "Texts linked to their originals",
    "authors": "Authors named (macro F1)",
}
COLORS = {"words": "#0072b2", "texts": "#d55e00", "authors": "#009e73"}


def drawn(evaluation: Evaluation) -> Figure:
    """Each attack with its interval, and what guessing finds."""
    from matplotlib.figure import Figure

    rows = evaluation.risks.iloc[::-1].reset_index(drop=True)
    figure = Figure(figsize=(6.2, 1.1 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for finds, part in rows.groupby("finds"):
        reach = np.abs(part[["low", "high"]].to_numpy().T - part["value"].to_numpy())
        look: dict[str, Any] = {
            "color": COLORS[str(finds)],
            "fmt": "o",
            "capsize": 3,
            "label": TITLES[str(finds)],
        }
        axes.errorbar(part["value"], part.index, xerr=reach, **look)
    axes.plot(rows["chance"], rows.index, "|", color="black", markersize=11, label="guessing")
    axes.set_yticks(rows.index, rows["attack"])
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share found, with 95% interval")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", fontsize="small", ncols=2, frameon=False)
    return figure


def written(evaluation: Evaluation, path: str | Path | None = None) -> str:
    """The page as HTML; written to a file where one is named."""
    page = _template("page.html").render(evaluation=evaluation, body=fragment(evaluation))
    if path is not None:
        write_atomic(Path(path), page.encode())
    return page


def fragment(evaluation: Evaluation) -> str:
    """The inside of the page: for a notebook's cell, too."""
    return _template("evaluation.html").render(
        evaluation=evaluation,
        picture=_svg(evaluation),
        strongest={finds: evaluation.strongest(finds) for finds in SAID},
        said=SAID,
        titles=TITLES,
        described="; ".join(  # for those who cannot see the picture
            f"{row.attack}: {row.value:.0%}, guessing {row.chance:.0%}"
            for row in evaluation.risks.itertuples()
        ),
    )


def marked(reading: Reading) -> str:
    """A text as it was sent and as the attacker guessed it; the recovered words are marked."""
    return _template("reading.html").render(reading=reading)


def _svg(evaluation: Evaluation) -> str:
    if evaluation.risks.empty:
        return ""
    out = io.StringIO()
    drawn(evaluation).savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


@cache
def _template(name: str) -> jinja2.Template:
    """A template of this package; whatever it shows is escaped."""
    loader = jinja2.PackageLoader("textpriv.evaluation")  # its folder "templates"
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["percent"] = lambda value: f"{value:.0%}"
    return environment.get_template(name)
