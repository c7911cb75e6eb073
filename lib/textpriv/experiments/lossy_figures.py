"""The pictures of notebook 03; each takes tables and a title that says what they show.

Hollow markers stand for a classifier that knows plain text only or for the paper's numbers, filled
ones for one that has seen manipulated text or for our own. Intervals are those of the tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from textpriv.corpora import label as corpus_label
from textpriv.experiments.lossy import MAPS, STENCILS
from textpriv.report import claims
from textpriv.report.figures import GREY, PAGE, band, label, style

SCENARIOS = {"all": "trained on manipulated text", "test": "trained on plain text"}
HOLLOW = {"markerfacecolor": "white"}
WEIGHT = {  # the naive attacker as a broad stripe, the one with a language model as a thick line
    "naive": {"lw": 4.5, "ms": 9, "alpha": 0.45},
    "deconvolution_lm": {"lw": 2.6, "ms": 8},
}
PAPER = "as the paper prints it (SST2 for Rotten Tomatoes, other models and lengths)"


def published() -> pd.DataFrame:
    """What the paper prints about the oracle: columns kind, corpus, measure, value.

    What stands under Rotten Tomatoes was measured on SST2.
    """
    rows = [
        (*(claim.measurement or "").split(".")[1:], claim.value)
        for claim in claims.of("03_lossy_and_stencil")
        if re.fullmatch(r"oracle\.[^. ]+\.[^. ]+\.(mrr|pr5)", claim.measurement or "")
    ]
    return pd.DataFrame(rows, columns=["kind", "corpus", "measure", "value"])


# --- What a classifier still achieves -----------------------------------------------------------


def accuracy(probed: pd.DataFrame, tuned: pd.DataFrame, title: str) -> Figure:
    """Accuracy on maps and noise in both scenarios: a panel per corpus, a row per setting.

    Parameters
    ----------
    probed, tuned : of the probes (small markers) and of the fine-tuned encoder (large ones)
    """
    settings = probed[probed["kind"].isin((*MAPS, "noise"))].drop_duplicates("label")
    corpora, shared = probed["corpus"].unique(), {"sharex": True, "sharey": True}
    fig, axes = _panels(1, corpora, (PAGE, 4.4), title, **shared)
    for ax, (corpus, part) in zip(axes[0], probed.groupby("corpus", sort=False), strict=True):
        fitted = tuned[tuned["corpus"] == corpus]
        place = _name_rows(ax, settings)
        for found, size, side in ((part, 4.5, 1), (fitted, 8.0, -1)):
            for row in found[found["label"].isin(place)].itertuples():
                shift = 0.2 * side * (row.label in set(fitted["label"]))
                shift += 0.1 if row.scenario == "all" else -0.1
                look = _look(row.kind, row.scenario)
                _dot(ax, row, place[row.label] + shift, ms=size, lw=1, **look)
            is_plain = (found["kind"] == "plain") & (found["scenario"] == "all")
            for value in found.loc[is_plain, "value"]:
                ax.axvline(value, lw=1.4 - 0.6 * side, zorder=1, **_line("plain"))
        ax.axvline(0.5, lw=1, **_line("chance"))
        counts = f"{_n(part, 'answers')}; {_n(fitted, 'fine-tuned')}"
        _title(ax, f"{corpus_label(corpus)}\n({counts})")
        ax.set(xlabel="accuracy of sentiment")
        _percent(ax.xaxis)
    keys = [
        _key(SCENARIOS["all"], marker="o"),
        _key(SCENARIOS["test"], marker="o", **HOLLOW),
        _key("small, thin: linear probe", marker="o", ms=4.5),
        _key("large, thick: encoder fine-tuned", marker="o", ms=8),
    ]
    return _legend(fig, ncols=3, keys=keys)


def sigma_window(table: pd.DataFrame, crossing: tuple[int, float], title: str) -> Figure:
    """Accuracy on both stencils against sigma and against the window: a row per corpus.

    Parameters
    ----------
    crossing : the window at which sigma varies, the sigma at which the window varies
    """
    window, sigma = crossing
    varied = {
        "sigma": (table["window"] == window, f"sigma in tokens (window {window})"),
        "window": (np.isclose(table["sigma"], sigma), f"window in tokens (sigma {sigma:g})"),
    }
    corpora = table["corpus"].unique()
    size = PAGE, 1.2 + 2.4 * len(corpora)
    fig, axes = _panels(len(corpora), ["sigma", "window"], size, title, sharey="row")
    for row, corpus in zip(axes, corpora, strict=True):
        of_corpus = table["corpus"] == corpus
        plain = table[of_corpus & (table["kind"] == "plain") & (table["scenario"] == "all")]
        for ax, (column, (chosen, text)) in zip(row, varied.items(), strict=True):
            part = table[chosen & of_corpus & table["kind"].isin(STENCILS)]
            for (kind, scenario), line in part.groupby(["kind", "scenario"], sort=False):
                name = f"{label(kind)}, {SCENARIOS[scenario]}"
                _band(ax, line, column, label=name, **_look(kind, scenario))
            for value in plain["value"]:
                ax.axhline(value, lw=1, **_line("plain"))
            ax.axhline(0.5, lw=1, **_line("chance"))
            ax.set_xticks(sorted(part[column].unique()))
            ax.set(xlabel=text)
            _percent(ax.yaxis)
        _title(row[0], f"{corpus_label(corpus)} ({_n(part, 'answers')})")
        row[0].set(ylabel="accuracy of sentiment")
    return _legend(fig, ncols=2)


# --- What attackers get back --------------------------------------------------------------------


def attackers(table: pd.DataFrame, window: int, title: str) -> Figure:
    """Success among five guesses of every attack on both stencils against sigma: a row per corpus.

    The naive attacker is a broad stripe, the one with a language model a thick line.
    """
    part = table[(table["top"] == 5) & (table["window"] == window)]
    corpora = table["corpus"].unique()
    size = PAGE, 1.4 + 2.5 * len(corpora)
    fig, axes = _panels(len(corpora), STENCILS[::-1], size, title, sharex=True, sharey=True)
    for row, corpus in zip(axes, corpora, strict=True):
        for ax, kind in zip(row, STENCILS[::-1], strict=True):
            shown = part[(part["corpus"] == corpus) & (part["kind"] == kind)]
            for name, line in shown.groupby("attack", sort=False):
                look = {**style(name), "label": label(name), **WEIGHT.get(name, {"lw": 1.2})}
                _band(ax, line, "sigma", **look)
            _title(ax, f"{label(kind)}\n{corpus_label(corpus)} ({_n(shown, 'tokens')})")
            ax.set_ylim(-0.02, 1.02)
        row[0].set(ylabel="tokens among five guesses")
        _percent(row[0].yaxis)
    for ax in axes[-1]:
        ax.set_xticks(sorted(part["sigma"].unique()))
        ax.set(xlabel=f"sigma in tokens (window {window})")
    return _legend(fig, ncols=2)


def heat(table: pd.DataFrame, title: str) -> Figure:
    """Success among five guesses by sigma and window: a column per stencil, a row per attack.

    The attacks are the paper's and deconvolution with a ridge.
    """
    attacks = ("naive_skip", "deconvolution")
    size = PAGE, 5.4
    fig, axes = _panels(2, STENCILS[::-1], size, title, sharex=True, sharey=True)
    for row, attack in zip(axes, attacks, strict=True):
        for ax, kind in zip(row, STENCILS[::-1], strict=True):
            part = table[(table["attack"] == attack) & (table["kind"] == kind)]
            part = part[part["top"] == 5]
            grid = part.pivot(index="sigma", columns="window", values="value")
            sns.heatmap(grid, ax=ax, vmin=0, vmax=1, cmap="cividis", annot=True, fmt=".0%",
                        annot_kws={"fontsize": 8}, cbar=False)  # fmt: skip
            _title(ax, f"{label(kind)}:\n{label(attack)} ({_n(part, 'tokens')})")
            ax.set(xlabel="window in tokens", ylabel="sigma in tokens")
            ax.tick_params(axis="y", rotation=0)
            ax.label_outer()
    axes[0][0].invert_yaxis()  # of all: sigma grows upwards
    return fig


def oracle(table: pd.DataFrame, paper: pd.DataFrame, title: str) -> Figure:
    """MRR and Pr@5 of the oracle per map beside the paper's (`published`): a row per corpus."""
    measures = {"mrr": "mean reciprocal rank", "pr5": "true text among the first 5"}
    maps = table.assign(label=table["kind"]).drop_duplicates("label")
    corpora = table["corpus"].unique()
    size = PAGE, 1.3 + 1.6 * len(corpora)
    fig, axes = _panels(len(corpora), list(measures), size, title, sharey=True)
    for row, corpus in zip(axes, corpora, strict=True):
        place = _name_rows(row[0], maps)
        for ax, (measure, text) in zip(row, measures.items(), strict=True):
            ours = table[(table["corpus"] == corpus) & (table["measure"] == measure)]
            for each in ours.itertuples():
                _dot(ax, each, place[each.kind] + 0.12, ms=6, **style(each.kind))
            printed = paper[(paper["corpus"] == corpus) & (paper["measure"] == measure)]
            for each in printed[printed["kind"].isin(place)].itertuples():
                look = {**style(each.kind), "linestyle": "", **HOLLOW}
                ax.plot(each.value, place[each.kind] - 0.2, ms=6, **look)
            _title(ax, f"{corpus_label(corpus)} ({_n(ours, 'texts')})")
            ax.set(xlim=(-0.03, 1.03), xlabel=text)
    _percent(*(ax.xaxis for ax in axes[:, 1]))
    keys = [_key("here, with 95% interval", marker="o"), _key(PAPER, marker="o", **HOLLOW)]
    return _legend(fig, ncols=1, keys=keys)


def grammar(table: pd.DataFrame, title: str) -> Figure:
    """Bits per character, and share of words that keep their part of speech: a row per setting."""
    size, corpus = (PAGE, 1.4 + 0.15 * len(table)), table["corpus"].iloc[0]
    fig, ((bits, speech),) = _panels(1, ["bits", "speech"], size, title, sharey=True)
    place = _name_rows(bits, table)
    for row in table.assign(value=table["speech"]).itertuples():
        look: dict[str, Any] = {**style(row.kind), "linestyle": ""}
        bits.plot(row.bits, place[row.label], ms=5, **look)
        _dot(speech, row, place[row.label], ms=5, **look)
        speech.plot(row.chance, place[row.label], "|", color=GREY, ms=5, mew=1.5)
    bits.set(xlabel="bits per character", xlim=(0, None))
    speech.set(xlabel="part of speech kept", xlim=(0, 1.02))
    _title(bits, corpus_label(corpus))
    _title(speech, _n(table, "words"))
    _percent(speech.xaxis)
    return _legend(fig, ncols=1, keys=[_key(label("chance"), marker="|", mew=1.5)])


# --- What the pictures share ---------------------------------------------------------------------


def _panels(
    rows: int, columns: Sequence[str], size: tuple[float, float], title: str, **share: Any
) -> tuple[Figure, Any]:
    """A figure with its title, and its panels: (rows, columns)."""
    fig, axes = plt.subplots(rows, len(columns), figsize=size, squeeze=False, **share)
    fig.suptitle(title, x=0.01, ha="left")
    return fig, axes


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, fontsize=8.5)


def _name_rows(ax: Axes, settings: pd.DataFrame) -> dict[str, int]:
    """The height of every setting's row, by label, the first at the top; names them at the axis."""
    place = {row.label: len(settings) - 1 - i for i, row in enumerate(settings.itertuples())}
    ax.set_yticks([*place.values()], [_named(row) for row in settings.itertuples()], fontsize=7.5)
    ax.set_ylim(-0.7, len(settings) - 0.3)
    return place


def _named(row: Any) -> str:
    if row.kind in STENCILS:
        return f"{label(row.kind)}, window {row.window}, sigma {row.sigma:.1f}"
    return f"{label(row.kind)}, eta {row.eta:g}" if row.kind == "noise" else label(row.kind)


def _look(kind: str, scenario: str) -> dict[str, Any]:
    """The look of a kind, hollow and dotted where the classifier knows plain text only."""
    return {**style(kind), **({**HOLLOW, "linestyle": ":"} if scenario == "test" else {})}


def _line(name: str) -> dict[str, str]:
    """The look of a line across a panel."""
    known = style(name)
    return {"color": known["color"], "ls": known["linestyle"] or "-", "label": label(name)}


def _band(ax: Axes, line: pd.DataFrame, x: str, **look: Any) -> None:
    """A line with its interval."""
    line = line.sort_values(x)
    band(ax, line[x], line["value"], line["low"], line["high"], **look)


def _dot(ax: Axes, row: Any, height: float, **look: Any) -> None:
    """A measurement and its interval along the x axis."""
    reach = np.clip([[row.value - row.low], [row.high - row.value]], 0, None)
    ax.errorbar(row.value, height, xerr=reach, **{**look, "linestyle": ""})


def _percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _n(found: pd.DataFrame, what: str) -> str:
    """How many observations every point rests on."""
    least, most = (0, 0) if found.empty else (int(found["n"].min()), int(found["n"].max()))
    return f"n = {most:,} {what}" if least == most else f"n = {least:,} to {most:,} {what}"


def _key(text: str, **look: Any) -> Line2D:
    """An entry of a legend that stands for no single line."""
    return Line2D([], [], **{"color": GREY, "linestyle": "", "label": text, **look})


def _legend(fig: Figure, *, ncols: int, keys: Iterable[Any] = ()) -> Figure:
    """The figure with one legend below all panels, each name once."""
    drawn = [handle for ax in fig.axes for handle in ax.get_legend_handles_labels()[0]]
    named: dict[str, Any] = {}
    for each in (*keys, *drawn):
        named.setdefault(str(each.get_label()), each)
    fig.legend([*named.values()], [*named], loc="outside lower center", ncols=ncols, fontsize=7.5)
    return fig
