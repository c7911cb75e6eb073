"""The pictures of notebook 03; each takes tables and a title that says what they show.

Hollow markers stand for a classifier that knows plain text only or for the paper's numbers, filled
ones for one that has seen manipulated text or for our own. Intervals are those of the tables.
"""

from __future__ import annotations

import re
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from textpriv.data.corpora import label as corpus_label
from textpriv.drawing import drawing
from textpriv.experiments.lossy import MAPS, STENCILS
from textpriv.report import claims
from textpriv.report.figures import GREY, PAGE, band, dot, label, legend_below, percent, style

HOLLOW = {"markerfacecolor": "white"}
LOOKS: dict[str, dict[str, Any]] = {  # beside colour and marker
    "naive": {"lw": 4.5, "ms": 9, "alpha": 0.45},
    "deconvolution_lm": {"lw": 2.6, "ms": 8},
}


def published() -> pd.DataFrame:
    """What the paper prints about the oracle: columns kind, corpus, measure, value.

    What stands under Rotten Tomatoes was measured on SST2.
    """
    rows = [
        (*(claim.measurement or "").split(".")[1:], claim.value)
        for claim in claims.for_notebook("03_lossy_and_stencil")
        if re.fullmatch(r"oracle\.[^. ]+\.[^. ]+\.(mrr|pr5)", claim.measurement or "")
    ]
    return pd.DataFrame(rows, columns=["kind", "corpus", "measure", "value"])


@drawing
def accuracy(probed: pd.DataFrame, tuned: pd.DataFrame, title: str) -> Figure:
    """Accuracy on maps and noise in both scenarios: a panel per corpus, a row per setting.

    Of the probes (small markers) and of the fine-tuned encoder (large ones).
    """
    fig, axes = _panels(1, probed["corpus"].nunique(), 4.4, title, sharex=True)
    shown = probed[probed["kind"].isin((*MAPS, "noise"))].drop_duplicates("label")
    for ax, (corpus, part) in zip(axes[0], probed.groupby("corpus", sort=False), strict=True):
        fitted = tuned[tuned["corpus"] == corpus]
        place = _name_rows(ax, shown)
        for table, size, side in ((part, 4.5, 1), (fitted, 8.0, -1)):
            for row in table[table["label"].isin(place)].itertuples():
                shift = 0.2 * side * (row.label in set(fitted["label"]))
                shift += 0.1 if row.scenario == "all" else -0.1
                look = style(row.kind) | (HOLLOW if row.scenario == "test" else {})
                dot(ax, row, place[row.label] + shift, ms=size, lw=1, **look)
            plain = table.query("kind == 'plain' and scenario == 'all'")
            known = {"color": style("plain")["color"], "label": label("plain")}
            for value in plain["value"]:
                ax.axvline(value, lw=1.4 - 0.6 * side, zorder=1, **known)
        ax.axvline(0.5, lw=1, label=label("chance"), **style("chance"))
        counts = f"{_n(part, 'answers')};\n{_n(fitted, 'fine-tuned')}"
        ax.set_title(f"{corpus_label(str(corpus))}\n({counts})", fontsize=8.5)
        ax.set(xlabel="accuracy of sentiment")
        percent(ax.xaxis)
    keys = [
        _key("trained on manipulated text", marker="o"),
        _key("trained on plain text", marker="o", **HOLLOW),
        _key("small, thin: linear probe", marker="o", ms=4.5),
        _key("large, thick: encoder fine-tuned", marker="o", ms=8),
    ]
    legend_below(fig, 3, keys, fontsize=7.5)
    return fig


@drawing
def attackers(table: pd.DataFrame, window: int, title: str) -> Figure:
    """Success among five guesses of every attack on both stencils against sigma: a row per corpus.

    The naive attacker is a broad stripe, the one with a language model a thick line. What asks for
    less, a hit at any position of the text, is left out.
    """
    part = table[(table["top"] == 5) & (table["window"] == window)]
    part = part[part["attack"] != "anywhere"].sort_values("sigma", kind="stable")
    corpora = table["corpus"].unique()
    fig, axes = _panels(len(corpora), 2, 1.4 + 2.5 * len(corpora), title, sharex=True)
    for row, corpus in zip(axes, corpora, strict=True):
        for ax, kind in zip(row, STENCILS[::-1], strict=True):
            shown = part[(part["corpus"] == corpus) & (part["kind"] == kind)]
            for name, line in shown.groupby("attack", sort=False):
                look = {**style(name), "label": label(name), **LOOKS.get(name, {"lw": 1.2})}
                band(ax, line, "sigma", **look)
            subtitle = f"{corpus_label(corpus)} ({_n(shown, 'tokens')})"
            ax.set_title(f"{label(kind)}\n{subtitle}", fontsize=8.5)
            ax.set_ylim(-0.02, 1.02)
        row[0].set(ylabel="tokens among five guesses")
        percent(row[0].yaxis)
    for ax in axes[-1]:
        ax.set_xticks(sorted(part["sigma"].unique()))
        ax.set(xlabel=f"sigma in tokens (window {window})")
    legend_below(fig, 2, fontsize=7.5)
    return fig


@drawing
def oracle(table: pd.DataFrame, paper: pd.DataFrame, title: str) -> Figure:
    """MRR and Pr@5 of the oracle per map beside the paper's (`published`): a row per corpus."""
    measures = {"mrr": "mean reciprocal rank", "pr5": "true text among the first 5"}
    corpora = table["corpus"].unique()
    fig, axes = _panels(len(corpora), 2, 1.3 + 1.6 * len(corpora), title)
    for row, corpus in zip(axes, corpora, strict=True):
        place = _name_rows(row[0], table.assign(label=table["kind"]).drop_duplicates("label"))
        for ax, (measure, text) in zip(row, measures.items(), strict=True):
            ours, printed = (
                each[(each["corpus"] == corpus) & (each["measure"] == measure)]
                for each in (table, paper)
            )
            for each in ours.itertuples():
                dot(ax, each, place[each.kind] + 0.12, ms=6, **style(each.kind))
            for each in printed[printed["kind"].isin(place)].itertuples():
                look = {**style(each.kind), "linestyle": "", **HOLLOW}
                ax.plot(each.value, place[each.kind] - 0.2, ms=6, **look)
            ax.set_title(f"{corpus_label(corpus)} ({_n(ours, 'texts')})", fontsize=8.5)
            ax.set(xlim=(-0.03, 1.03), xlabel=text)
        percent(row[1].xaxis)
    other = "as the paper prints it (SST2 for Rotten Tomatoes, other models and lengths)"
    keys = [_key("here, with 95% interval", marker="o"), _key(other, marker="o", **HOLLOW)]
    legend_below(fig, 1, keys, fontsize=7.5)
    return fig


# --- What the pictures share ---------------------------------------------------------------------


def _panels(rows: int, columns: int, height: float, title: str, **share: Any) -> tuple[Figure, Any]:
    """A figure with its title, and its panels: (rows, columns)."""
    size = PAGE, height
    fig, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, **share)
    fig.suptitle(title, x=0.01, ha="left")
    return fig, axes


def _name_rows(ax: Axes, settings: pd.DataFrame) -> dict[str, int]:
    """The height of every setting's row, by label, the first at the top; names them at the axis."""
    place = {name: len(settings) - 1 - i for i, name in enumerate(settings["label"])}
    names = [
        f"{label(row.kind)}, eta {row.eta:g}" if row.kind == "noise" else label(row.kind)
        for row in settings.itertuples()
    ]
    ax.set_yticks([*place.values()], names, fontsize=7.5)
    ax.set_ylim(-0.7, len(settings) - 0.3)
    return place


def _n(table: pd.DataFrame, what: str) -> str:
    """How many observations every point rests on."""
    least, most = (0, 0) if table.empty else (int(table["n"].min()), int(table["n"].max()))
    return f"n = {most:,} {what}" if least == most else f"n = {least:,} to {most:,} {what}"


def _key(text: str, **look: Any) -> Line2D:
    """An entry of a legend that stands for no single line."""
    return Line2D([], [], **{"color": GREY, "linestyle": "", "label": text, **look})
