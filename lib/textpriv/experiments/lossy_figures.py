"""The pictures of notebook 03; each takes tables of the experiments and returns a figure.

Hollow markers stand for a classifier that knows plain text only, for the paper's attacker or for
the paper's numbers; filled ones for what is stronger or our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from textpriv.experiments.lossy import MAPS, PLAIN, STENCILS
from textpriv.experiments.lossy_attacks import LANGUAGE, NAIVE, RIDGE, SKIP, best
from textpriv.experiments.lossy_utility import ALL, TEST
from textpriv.experiments.reconstruction_figures import CORPUS
from textpriv.report import claims
from textpriv.report.figures import BLACK, GREY, PAGE, band, label, style

NOISE = "noise"
PUNCTUATED = "punctuated-stencil"
KINDS = (PLAIN, *MAPS, NOISE, *STENCILS)
CROSSING = 9, 0.2  # window and sigma at which the paper varies the other
SCENARIOS = {ALL: "trained on manipulated text", TEST: "trained on plain text"}
HOLLOW = {"markerfacecolor": "white"}
MARKERS = "osD^vPX*"  # of windows and sigmas, which have no style
WEIGHT = {  # the naive attacker as a broad stripe, the one with a language model as a thick line
    NAIVE: {"lw": 4.5, "ms": 9, "alpha": 0.45},
    LANGUAGE: {"lw": 2.6, "ms": 8},
}
PAPER = "as the paper prints it (SST2 for Rotten Tomatoes"
SINGULAR = 1e16  # beyond this, floating point cannot tell a condition number


def published(corpora: Sequence[str]) -> pd.DataFrame:
    """What the paper prints about these corpora, under the labels of our settings.

    Returns
    -------
    Columns: label, corpus, quantity, value. Quantities are "accuracy.test", "accuracy.all",
    "unchanged", "pr5.naive_skip", "oracle.mrr", "oracle.pr5" and "oracle.edit". Where several
    tables of the paper print a number, the first of them counts. What stands under Rotten
    Tomatoes was measured on SST2.
    """
    name = re.compile(rf"(\w+)\.(.+)\.({'|'.join(map(re.escape, corpora))})(\.\w+)?")
    rows = []
    for claim in claims.load():
        found = name.fullmatch(claim.measurement or "") if claim.paper == "harel" else None
        if found:
            what, setting, corpus, detail = found.groups(default="")
            rows.append((setting, corpus, what + detail, claim.value))
    table = pd.DataFrame(rows, columns=["label", "corpus", "quantity", "value"])
    return table.drop_duplicates(["label", "corpus", "quantity"], ignore_index=True)


# --- What a classifier still achieves -----------------------------------------------------------


def accuracy(table: pd.DataFrame, tuned: pd.DataFrame) -> Figure:
    """Accuracy on maps and noise in both scenarios: a panel per corpus, a row per setting.

    Parameters
    ----------
    table, tuned : of the probes (small markers) and of the fine-tuned encoder (large ones)
    """
    settings = _settings(table[table["kind"].isin((*MAPS, NOISE))])
    place = _places(settings)
    corpora = _corpora(table)
    fig, axes = plt.subplots(
        1, len(corpora), figsize=(PAGE, 4.2), sharex=True, sharey=True, squeeze=False
    )
    for ax, corpus in zip(axes[0], corpora, strict=True):
        both = set(tuned.loc[tuned["corpus"] == corpus, "label"])
        for number, (found, size) in enumerate(((table, 4.5), (tuned, 8.0))):
            part = found[found["corpus"] == corpus]
            for row in part[part["label"].isin(place)].itertuples():
                shift = (0.2 - 0.4 * number) * (row.label in both)
                height = place[row.label] + shift + (0.1 if row.scenario == ALL else -0.1)
                _dot(ax, row, height, ms=size, lw=1, **_look(row.kind, row.scenario))
            plain = part[(part["kind"] == PLAIN) & (part["scenario"] == ALL)]
            for value in plain["value"]:
                _baseline(ax.axvline, PLAIN, value, lw=0.8 + 1.2 * number, zorder=1)
        _baseline(ax.axvline, "chance", 0.5, lw=1)
        _title(ax, corpus, answers=table, fine_tuned=tuned)
        ax.set(xlabel="accuracy of sentiment")
        _percent(ax.xaxis)
    _name_rows(axes[0][0], settings)
    keys = [
        _key(SCENARIOS[ALL], marker="o"),
        _key(SCENARIOS[TEST], marker="o", **HOLLOW),
        _key("small, thin: linear probe", marker="o", ms=4.5),
        _key("large, thick: encoder fine-tuned", marker="o", ms=8),
        *_drawn(axes[0]),
    ]
    _legend(fig, keys, ncols=3)
    return fig


def sigma_window(table: pd.DataFrame, *, crossing: tuple[int, float] = CROSSING) -> Figure:
    """Accuracy on both stencils against sigma and against the window: a row per corpus.

    Parameters
    ----------
    crossing : the window at which sigma varies, the sigma at which the window varies
    """
    window, sigma = crossing
    stencils = table[table["kind"].isin(STENCILS)]
    varied = {
        "sigma": (stencils["window"] == window, f"sigma in tokens (window {window})"),
        "window": (np.isclose(stencils["sigma"], sigma), f"window in tokens (sigma {sigma:g})"),
    }
    corpora = _corpora(table)
    size = PAGE, 1.0 + 2.4 * len(corpora)
    fig, axes = plt.subplots(len(corpora), 2, figsize=size, sharey="row", squeeze=False)
    for row, corpus in zip(axes, corpora, strict=True):
        plain = table[(table["corpus"] == corpus) & (table["kind"] == PLAIN)]
        for ax, (column, (chosen, text)) in zip(row, varied.items(), strict=True):
            part = stencils[chosen & (stencils["corpus"] == corpus)].sort_values(column)
            for kind, scenario in product(STENCILS, SCENARIOS):
                line = part[(part["kind"] == kind) & (part["scenario"] == scenario)]
                if not line.empty:
                    look = {
                        **_look(kind, scenario),
                        "label": f"{label(kind)}, {SCENARIOS[scenario]}",
                    }
                    band(ax, line[column], line["value"], line["low"], line["high"], **look)
            for value in plain.loc[plain["scenario"] == ALL, "value"]:
                _baseline(ax.axhline, PLAIN, value, lw=1)
            _baseline(ax.axhline, "chance", 0.5, lw=1)
            ax.set_xticks(sorted(part[column].unique()))
            ax.set(xlabel=text)
            _percent(ax.yaxis)
        _title(row[0], corpus, answers=stencils)
        row[0].set(ylabel="accuracy of sentiment")
    _legend(fig, _drawn(axes.ravel()), ncols=2)
    return fig


# --- What attackers get back --------------------------------------------------------------------


def attackers(table: pd.DataFrame, top: int, *, window: int = CROSSING[0]) -> Figure:
    """Success of every attack on both stencils against sigma: a row per corpus.

    The naive attacker is a broad stripe, the one with a language model a thick line.
    """
    part = table[(table["top"] == top) & (table["window"] == window)].sort_values("sigma")
    corpora = _corpora(table)
    size = PAGE, 1.2 + 2.5 * len(corpora)
    fig, axes = plt.subplots(len(corpora), 2, figsize=size, squeeze=False, sharex=True, sharey=True)
    for row, corpus in zip(axes, corpora, strict=True):
        for ax, kind in zip(row, reversed(STENCILS), strict=True):
            shown = part[(part["corpus"] == corpus) & (part["kind"] == kind)]
            for name in dict.fromkeys(table["attack"]):
                line = shown[shown["attack"] == name]
                if not line.empty:
                    look = {**style(name), "label": label(name), **WEIGHT.get(name, {"lw": 1.2})}
                    band(ax, line["sigma"], line["value"], line["low"], line["high"], **look)
            _title(ax, corpus, f"{label(kind)}\n", tokens=shown)
            ax.set_ylim(-0.02, 1.02)
        row[0].set(ylabel=_success(top))
        _percent(row[0].yaxis)
    for ax in axes[-1]:
        ax.set_xticks(sorted(part["sigma"].unique()))
        ax.set(xlabel=f"sigma in tokens (window {window})")
    _legend(fig, _drawn(axes.ravel()), ncols=2)
    return fig


def heat(table: pd.DataFrame, *, top: int = 5) -> Figure:
    """Success of the paper's attacker and of deconvolution by sigma and window.

    On the first corpus of the table; a column per stencil, a row per attack.
    """
    corpus = _corpora(table)[0]
    part = table[(table["corpus"] == corpus) & (table["top"] == top)]
    part = part[part["kind"].isin(STENCILS)]
    attacks = [name for name in (SKIP, RIDGE) if name in set(part["attack"])]
    size = PAGE, 0.7 + 2.3 * len(attacks)
    fig, axes = plt.subplots(len(attacks), 2, figsize=size, squeeze=False, sharex=True, sharey=True)
    for row, attack in zip(axes, attacks, strict=True):
        for ax, kind in zip(row, reversed(STENCILS), strict=True):
            chosen = part[(part["attack"] == attack) & (part["kind"] == kind)]
            grid = chosen.pivot(index="sigma", columns="window", values="value")
            image = ax.imshow(grid, origin="lower", aspect="auto", cmap="cividis", vmin=0, vmax=1)
            for (i, j), value in np.ndenumerate(grid.to_numpy()):
                if np.isnan(value):
                    continue
                ink = BLACK if value > 0.5 else "white"
                ax.text(j, i, f"{value:.0%}", color=ink, ha="center", va="center", fontsize=8)
            ax.set_xticks(range(grid.shape[1]), list(grid.columns))
            ax.set_yticks(range(grid.shape[0]), [f"{each:.1f}" for each in grid.index])
            ax.grid(visible=False)
            ax.set_title(f"{label(kind)}:\n{label(attack)}", fontsize=9)
        row[0].set(ylabel="sigma in tokens")
    for ax in axes[-1]:
        ax.set(xlabel="window in tokens")
    bar = fig.colorbar(image, ax=list(axes.ravel()))
    _percent(bar.ax.yaxis)
    bar.set_label(f"{_success(top)}\n({CORPUS.get(corpus, corpus)}, {_n(part, 'tokens')})")
    return fig


def ridge(
    table: pd.DataFrame,
    conditioning: pd.DataFrame,
    *,
    top: int = 5,
    window: int = CROSSING[0],
) -> Figure:
    """Deconvolution of the punctuated stencil against its ridge; how badly W is conditioned."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 4.2))
    part = table[(table["kind"] == PUNCTUATED) & (table["top"] == top)]
    _against_ridge(left, part[part["window"] == window].sort_values("ridge"))
    left.set(ylabel=_success(top))
    left.set_title(f"{label(PUNCTUATED)}, window {window}\n({_n(part, 'tokens')})", fontsize=9)
    _conditions(right, conditioning)
    for ax in (left, right):
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=7.5)
    return fig


def _against_ridge(ax: Axes, part: pd.DataFrame) -> None:
    """A line per sigma on a logarithmic axis; what no ridge gives stands apart, on the left."""
    values = np.unique(part["ridge"])
    smallest = values[values > 0].min()
    apart = smallest / 8
    for look, (sigma, line) in zip(_shades(part["sigma"]), part.groupby("sigma"), strict=True):
        some, none = line[line["ridge"] > 0], line[line["ridge"] == 0]
        text = f"sigma {sigma:.1f}"
        band(ax, some["ridge"], some["value"], some["low"], some["high"], label=text, **look)
        reach = _reach(none)
        ax.errorbar([apart] * len(none), none["value"], yerr=reach, **{**look, "linestyle": ""})
    ax.set(xscale="log", xlabel="ridge, on squared singular values")
    ax.set_xticks([each or apart for each in values], [f"{each:g}" for each in values])
    ax.minorticks_off()
    ax.axvline(smallest / 8**0.5, color=GREY, lw=0.8)
    _percent(ax.yaxis)


def _conditions(ax: Axes, found: pd.DataFrame) -> None:
    """Median condition number over the lengths of a text by sigma and window, with its extremes."""
    windows = sorted(found["window"].unique())
    for number, (look, window) in enumerate(zip(_shades(windows), windows, strict=True)):
        ax.plot([], [], color=look["color"], lw=3, label=f"window {window}")
        shift = 0.02 * (number - (len(windows) - 1) / 2)
        for kind, line in zip(STENCILS, (":", "-"), strict=True):
            part = found[(found["kind"] == kind) & (found["window"] == window)]
            values = part["condition"].clip(upper=SINGULAR).groupby(part["sigma"])
            middle = values.median()
            reach = [middle - values.min(), values.max() - middle]
            shape = {**look, "marker": style(kind)["marker"], "linestyle": line, "lw": 1.1}
            ax.errorbar(middle.index + shift, middle, yerr=reach, elinewidth=0.8, **shape)
    for kind, line in zip(STENCILS, (":", "-"), strict=True):
        ax.plot([], [], color=GREY, marker=style(kind)["marker"], ls=line, label=label(kind))
    ax.set(yscale="log", xlabel="sigma in tokens", ylabel="largest by smallest singular value")
    ax.set_xticks(sorted(found["sigma"].unique()))
    lengths = found["length"]
    n = f"n = {lengths.nunique()} lengths, {lengths.min():,} to {lengths.max():,} tokens"
    ax.set_title(f"condition number, median and range\n({n})", fontsize=9)


def oracle(table: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """MRR and Pr@5 of the oracle beam per map beside the paper's: a row per corpus."""
    measures = {"mrr": "mean reciprocal rank", "pr5": "true text among the first 5"}
    settings = _settings(table.assign(label=table["kind"]))
    place = _places(settings)
    corpora = _corpora(table)
    size = PAGE, 1.1 + 1.6 * len(corpora)
    fig, axes = plt.subplots(len(corpora), 2, figsize=size, sharey=True, squeeze=False)
    for row, corpus in zip(axes, corpora, strict=True):
        for ax, (measure, text) in zip(row, measures.items(), strict=True):
            ours = table[(table["corpus"] == corpus) & (table["measure"] == measure)]
            for each in ours.itertuples():
                _dot(ax, each, place[each.kind] + 0.12, ms=6, **style(each.kind))
            paper = _quoted(published, corpus, f"oracle.{measure}")
            for kind, value in paper[paper.index.isin(place)].items():
                look = {**style(str(kind)), "linestyle": "", **HOLLOW}
                ax.plot(value, place[str(kind)] - 0.2, ms=6, **look)
            _title(ax, corpus, texts=ours)
            ax.set(xlim=(-0.03, 1.03), xlabel=text)
        _name_rows(row[0], settings)
    _percent(*(ax.xaxis for ax in axes[:, 1]))
    keys = [
        _key("here, with 95% interval", marker="o"),
        _key(f"{PAPER}, other models and lengths)", marker="o", **HOLLOW),
    ]
    _legend(fig, keys, ncols=2)
    return fig


# --- Both at once -------------------------------------------------------------------------------


def frontier(utility: pd.DataFrame, attacks: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """Accuracy against what an attacker gets back, by the paper's attacker and by the best one.

    Parameters
    ----------
    utility : accuracy of every setting
    attacks : success of all attacks on them, not of the best alone; settings without are left out
    published : the table of `published`
    """
    points = _exposed(utility, attacks)
    paper = _exposed_in_paper(published)
    corpora = _corpora(utility)
    fig, axes = plt.subplots(1, len(corpora), figsize=(PAGE, 5.2), sharey=True, squeeze=False)
    for ax, corpus in zip(axes[0], corpora, strict=True):
        part = points[points["corpus"] == corpus]
        for row in part.itertuples():
            look: dict[str, Any] = {**style(row.kind), "linestyle": ""}
            arrow = {"arrowstyle": "->", "color": GREY, "lw": 0.7, "alpha": 0.7}
            ends = (row.strongest, row.value), (row.naive, row.value)
            ax.annotate("", *ends, arrowprops={**arrow, "shrinkA": 2, "shrinkB": 2}, zorder=1)
            ax.plot(row.naive, row.value, ms=4, **look, **HOLLOW)
            ax.plot(row.strongest, row.value, ms=6, **look)
        for row in paper[paper["corpus"] == corpus].itertuples():
            ax.plot(row.naive, row.value, "x", color=style(row.kind)["color"], ms=6, mew=1)
        _name_extremes(ax, part)
        _title(ax, corpus, answers=utility, tokens=attacks)
        ax.text(0.5, 0.99, "\N{NORTH WEST ARROW} better", ha="center", va="top", fontsize=8,
                transform=ax.transAxes)  # fmt: skip
        ax.set(xlim=(-0.04, 1.04), xlabel="share of tokens that an attacker gets back")
        _percent(ax.xaxis, ax.yaxis)
    axes[0][0].set(ylabel="accuracy of sentiment, trained on manipulated text")
    kinds = [kind for kind in KINDS if kind in {*points["kind"], *paper["kind"]}]
    keys = [
        *(_key(label(kind), **{**style(kind), "linestyle": ""}) for kind in kinds),
        _key("best attacker, among 5 guesses (maps: 1)", marker="o", ms=6),
        _key("paper's attacker (maps: share unchanged)", marker="o", ms=4, **HOLLOW),
        _key(f"{PAPER}, RoBERTa)", marker="x", ms=6, mew=1),
    ]
    _legend(fig, keys, ncols=3)
    return fig


def _exposed(utility: pd.DataFrame, attacks: pd.DataFrame) -> pd.DataFrame:
    """Accuracies under `value` with what the paper's attacker (`naive`) and the `strongest` get.

    Plain text is all there for both.
    """
    keys = ["corpus", "label"]
    attacks = attacks.drop_duplicates([*keys, "attack", "top"], ignore_index=True)
    of_map = attacks["kind"].isin(MAPS)
    strongest = pd.concat([best(attacks[of_map], top=1), best(attacks[~of_map], top=5)])
    naive = attacks[(attacks["attack"] == SKIP) & (attacks["top"] == 5)]
    found = utility[utility["scenario"] == ALL]
    for name, rates in (("strongest", strongest), ("naive", naive)):
        rates = rates[[*keys, "value"]].rename(columns={"value": name})
        found = found.merge(rates, on=keys, how="left", validate="one_to_one")
    found["naive"] = found["naive"].mask(found["kind"].isin(MAPS), found["unchanged"])
    found.loc[found["kind"] == PLAIN, ["naive", "strongest"]] = 1.0
    return found.dropna(subset=["naive", "strongest"])


def _exposed_in_paper(published: pd.DataFrame) -> pd.DataFrame:
    """The paper's accuracies under `value` and what its attacker gets (`naive`)."""
    columns = ["accuracy.all", "pr5.naive_skip", "unchanged"]
    wide = published.pivot(index=["corpus", "label"], columns="quantity", values="value")
    wide = wide.reindex(columns=columns).reset_index()
    wide["naive"] = wide["pr5.naive_skip"].fillna(wide["unchanged"])
    wide["kind"] = [next(kind for kind in KINDS if name.startswith(kind)) for name in wide["label"]]
    return wide.rename(columns={"accuracy.all": "value"}).dropna(subset=["value", "naive"])


def _name_extremes(ax: Axes, points: pd.DataFrame) -> None:
    """Name the most and the least accurate setting of every kind that has several."""
    for kind, part in points.groupby("kind", sort=False):
        if len(part) > 1:
            part = part.sort_values("value")
            for index, up, below in ((-1, 5, "bottom"), (0, -5, "top")):
                row = next(part.iloc[[index]].itertuples())
                side = "left" if row.naive < 0.3 else "right" if row.naive > 0.7 else "center"
                text = ax.annotate(_parameters(row), (row.naive, row.value), (0, up), ha=side,
                                   va=below, textcoords="offset points", fontsize=6.5,
                                   color=style(str(kind))["color"], zorder=1.5)  # fmt: skip
                text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def grammar(table: pd.DataFrame) -> Figure:
    """Bits per character and part of speech kept: a row of panels per corpus."""
    settings = _settings(table)
    place = _places(settings)
    corpora = _corpora(table)
    size = PAGE, 1.0 + (0.4 + 0.15 * len(settings)) * len(corpora)
    fig, axes = plt.subplots(len(corpora), 2, figsize=size, sharey=True, squeeze=False)
    for (bits, speech), corpus in zip(axes, corpora, strict=True):
        part = table[table["corpus"] == corpus]
        for row in part.assign(value=part["speech"]).itertuples():
            look: dict[str, Any] = {**style(row.kind), "linestyle": ""}
            bits.plot(row.bits, place[row.label], ms=5, **look)
            _dot(speech, row, place[row.label], ms=5, **look)
            speech.plot(row.chance, place[row.label], "|", color=GREY, ms=5, mew=1.5)
        bits.set(xlabel="bits per character", xlim=(0, None))
        speech.set(xlabel="part of speech kept", xlim=(0, 1.02))
        bits.set_title(CORPUS.get(corpus, corpus), fontsize=9)
        speech.set_title(_n(part, "words"), fontsize=9)
        _percent(speech.xaxis)
        _name_rows(bits, settings)
    _legend(fig, [_key(label("chance"), marker="|", mew=1.5)], ncols=1)
    return fig


# --- What the pictures share ---------------------------------------------------------------------


def _corpora(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["corpus"]))


def _settings(table: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, in the order of the table."""
    return table.drop_duplicates("label")


def _places(settings: pd.DataFrame) -> dict[str, int]:
    """The height of every setting's row, by label: the first stands at the top."""
    return {name: len(settings) - 1 - i for i, name in enumerate(settings["label"])}


def _name_rows(ax: Axes, settings: pd.DataFrame) -> None:
    """Name the row of every setting."""
    names = [
        ", ".join(filter(None, (label(row.kind), _parameters(row))))
        for row in settings.itertuples()
    ]
    ax.set_yticks(list(_places(settings).values()), names, fontsize=7.5)
    ax.set_ylim(-0.7, len(settings) - 0.3)


def _parameters(row: Any) -> str:
    """What sets a setting apart from others of its kind."""
    if row.kind in STENCILS:
        return f"window {row.window}, sigma {row.sigma:.1f}"
    return f"eta {row.eta:g}" if row.kind == NOISE else ""


def _look(kind: str, scenario: str) -> dict[str, Any]:
    """The look of a kind, hollow and dotted where the classifier knows plain text only."""
    return {**style(kind), **({**HOLLOW, "linestyle": ":"} if scenario == TEST else {})}


def _shades(values: Iterable[float]) -> list[dict[str, Any]]:
    """A look for each distinct value, from dark to light as it grows."""
    distinct = len(set(values))
    colors = plt.get_cmap("cividis")(np.linspace(0, 0.85, distinct))
    return [
        {"color": color, "marker": marker, "linestyle": "-", "ms": 4.5}
        for color, marker in zip(colors, MARKERS, strict=False)
    ]


def _reach(found: Any) -> NDArray[np.float64]:
    """How far an interval goes below and above its value: (2, points)."""
    below, above = found.value - found.low, found.high - found.value
    return np.clip(np.vstack([below, above]), 0, None)


def _dot(ax: Axes, row: Any, height: float, **look: Any) -> None:
    """A measurement and its interval along the x axis."""
    ax.errorbar(row.value, height, xerr=_reach(row), **{**look, "linestyle": ""})


def _quoted(published: pd.DataFrame, corpus: str, quantity: str) -> pd.Series[float]:
    """The paper's values by label."""
    chosen = (published["corpus"] == corpus) & (published["quantity"] == quantity)
    return published[chosen].set_index("label")["value"]


def _baseline(draw: Callable[..., Any], name: str, place: float, **look: Any) -> None:
    """A line across a panel."""
    known = style(name)
    draw(place, color=known["color"], ls=known["linestyle"] or "-", label=label(name), **look)


def _title(ax: Axes, corpus: str, before: str = "", **counted: pd.DataFrame) -> None:
    """The corpus, and by what is counted how many observations every point rests on."""
    counts = [
        _n(found[found["corpus"] == corpus], what.replace("_", "-"))
        for what, found in counted.items()
    ]
    gap = "\n" if len(counts) > 1 else " "
    ax.set_title(f"{before}{CORPUS.get(corpus, corpus)}{gap}({'; '.join(counts)})", fontsize=8.5)


def _percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0))


def _success(top: int) -> str:
    return "tokens that are guessed" if top == 1 else f"tokens among {top} guesses"


def _n(found: pd.DataFrame, what: str) -> str:
    """How many observations every point rests on."""
    least, most = (0, 0) if found.empty else (int(found["n"].min()), int(found["n"].max()))
    return f"n = {most:,} {what}" if least == most else f"n = {least:,} to {most:,} {what}"


def _key(text: str, **look: Any) -> Line2D:
    """An entry of a legend that stands for no single line."""
    return Line2D([], [], **{"color": GREY, "linestyle": "", "label": text, **look})


def _legend(fig: Figure, handles: Iterable[Any], ncols: int) -> None:
    """One legend below all panels, each name once."""
    named: dict[str, Any] = {}
    for each in handles:
        named.setdefault(str(each.get_label()), each)
    fig.legend(handles=list(named.values()), loc="outside lower center", ncols=ncols, fontsize=7.5)


def _drawn(axes: Iterable[Axes]) -> list[Any]:
    """What the panels have names for."""
    return [handle for ax in axes for handle in ax.get_legend_handles_labels()[0]]
