"""The pictures of notebook 06; each takes tables of `slm_utility` and returns a figure.

Filled markers stand for folds that keep documents apart and for what was learned on the spot,
hollow ones for the paper's folds between rows, for rules that look at an interval's lower end, and
for what was learned elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from textpriv import stats
from textpriv.experiments.slm_utility import EPS_ONLY, LOSSES, LOST, RULES, SETS, TABLE_1
from textpriv.prediction import TARGET
from textpriv.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    RED,
    SKY,
    Style,
    band,
    label,
)

# What is summarized, and by whom.
LOOKS: Mapping[str, Style] = {
    "large": Style("large model", BLUE, "o", "-"),
    "small": Style("small model", ORANGE, "s", "--"),
    "people": Style("people", BLACK, "^", ":"),
    "text": Style("text itself", GREEN, "D", "-."),
    "changed": Style("tokens changed", GREY, "v", ":"),
}
# What a prediction looks at; A, B and C are the paper's names.
FEATURES: Mapping[str, Style] = {
    "all": Style("epsilon, small model (A, B, C)", ORANGE, "o", "-"),
    "no_b": Style("the same without B", ORANGE, "s", "-"),
    "no_c": Style("the same without C", ORANGE, "D", "-"),
    "no_bc": Style("epsilon alone, regressed (A)", GREY, "^", "-"),
    "free": Style("epsilon, free features", GREEN, "o", "-"),
    "everything": Style("epsilon, small model, free", BLUE, "o", "-"),
    "no_epsilon": Style("the same without epsilon", SKY, "D", "-"),
    EPS_ONLY: Style("mean at each epsilon", BLACK, "v", "-"),
}
MEASURES = {"r2": "R2", "rmse": "root mean squared error"}
WASTE = {
    "wasted": "paid for nothing",
    "missed": "kept, though of use",
    "exposed": "revealed for nothing",
    "cost": "all three, summed",
}
DECIDING = ("everything", "free", EPS_ONLY)  # more lines would hide each other
HOLLOW = {"markerfacecolor": "white"}
SMALL_PRINT = 7.5


# --- What sanitizing does -----------------------------------------------------------------------


def knee(table: pd.DataFrame) -> Figure:
    """Share of tokens changed against epsilon, predicted and measured, and their difference.

    On the left the band and the bars are the errors of the directions and of the documents, on the
    right those of the difference on the same tokens.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 2.9))
    by_what = {what: part.sort_values("epsilon") for what, part in table.groupby("what")}
    predicted, measured, off = (by_what[w] for w in ("predicted", "measured", "difference"))
    x = predicted["epsilon"].to_numpy()
    ends = (predicted[each].to_numpy() for each in ("value", "low", "high"))
    band(left, x, *ends, color=RED, label="predicted")
    look: dict[str, Any] = {"marker": "o", "ls": "", "color": BLUE, "ms": 5}
    left.errorbar(x, measured["value"], yerr=_reach(measured), label="measured", **look)
    left.set(ylabel="share of tokens changed", ylim=(-0.03, 1.03))
    left.legend(fontsize=SMALL_PRINT)
    left.set_title(f"n = {_n(measured)} documents, {_n(predicted):,} tokens", fontsize=9)
    right.errorbar(x, off["value"], yerr=_reach(off), **look)
    right.axhline(0, color=RED)
    right.set(ylabel="difference of shares")
    right.set_title("measured less predicted, same tokens", fontsize=9)
    for ax in (left, right):
        _epsilons(ax, x)
    return fig


def originals(table: pd.DataFrame, worth: pd.DataFrame) -> Figure:
    """Similarity of originals and their summaries (the paper's Fig. 2).

    Parameters
    ----------
    table, worth : of the functions with these names
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 2.9))
    models = list(dict.fromkeys(table["model"]))
    for place, model in enumerate(models):
        look = LOOKS[model]
        values = np.sort(table.loc[table["model"] == model, "similarity"])
        share = np.arange(1, len(values) + 1) / len(values)
        left.step(values, share, where="post", color=look.color, ls=look.linestyle)
        for row in worth[worth["model"] == model].itertuples():
            face = {} if row.what == "mean" else HOLLOW
            _dot(right, row, place, color=look.color, marker=look.marker, ms=6, **face)
    left.axhline(0.1, color=GREY, lw=0.8)
    left.set(xlabel="similarity to the original", ylabel="share of documents below")
    left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.set(xlabel="similarity to the original", ylim=(-0.5, len(models) - 0.5))
    right.set_yticks(range(len(models)), [LOOKS[model].label for model in models])
    right.set_title(f"n = {_n(worth)} documents", fontsize=9)
    keys = [
        *(_key(LOOKS[m].label, ls=LOOKS[m].linestyle, color=LOOKS[m].color) for m in models),
        _key("mean", marker="o", ms=6),
        _key("exceeded by nine in ten (grey line)", marker="o", ms=6, **HOLLOW),
    ]
    _legend(fig, keys, 3)
    return fig


def distributions(rows: pd.DataFrame) -> Figure:
    """Similarity of the original and the summary of its sanitized text, by epsilon (Fig. 3).

    Boxes hold the middle half and the median, whiskers nine documents in ten; dots are documents,
    large markers means with 95% intervals.
    """
    fig, ax = plt.subplots(figsize=(PAGE, 3.6))
    epsilons = np.unique(rows["epsilon"])
    columns = {"small": "small_sanitized", "large": TARGET}
    for shift, (model, column) in zip((-0.2, 0.2), columns.items(), strict=True):
        look = LOOKS[model]
        groups = [rows.loc[rows["epsilon"] == each, column].to_numpy() for each in epsilons]
        places = np.arange(len(epsilons)) + shift
        lines = {"color": look.color, "lw": 0.9}
        ax.boxplot(
            groups,
            positions=places,
            widths=0.34,
            whis=(5, 95),
            showfliers=False,
            manage_ticks=False,
            boxprops=lines,
            whiskerprops=lines,
            capprops=lines,
            medianprops=lines,
        )
        for place, values in zip(places, groups, strict=True):
            across = place + np.linspace(-0.13, 0.13, len(values))
            ax.plot(across, values, ".", color=look.color, ms=2.5, alpha=0.35)
            found = stats.mean(values, bounds=(-1.0, 1.0))
            reach = [[found.value - found.low], [found.high - found.value]]
            shape: dict[str, Any] = {"marker": look.marker, "color": look.color, "ms": 5}
            ax.errorbar(place, found.value, yerr=reach, ls="", zorder=3, **shape)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set_xticks(range(len(epsilons)), [f"{each:g}" for each in epsilons])
    ax.tick_params(axis="x", rotation=60 if len(epsilons) > 10 else 0)
    ax.set(xlabel="epsilon", ylabel="similarity to the original")
    ax.set_title(f"n = {rows['document'].nunique()} documents at each epsilon", fontsize=9)
    keys = [
        _key(f"{LOOKS[m].label} (mean, 95% interval)", marker=LOOKS[m].marker, color=LOOKS[m].color)
        for m in columns
    ]
    _legend(fig, keys, 2)
    return fig


def losses(table: pd.DataFrame, *, lost: float = LOST) -> Figure:
    """Tokens changed and similarity lost against epsilon (Fig. 4).

    Parameters
    ----------
    lost : loss below which the paper takes a model as recovered
    """
    fig, ax = plt.subplots(figsize=(PAGE, 3.7))
    for what in LOSSES:
        part, look = table[table["what"] == what].sort_values("epsilon"), LOOKS[what]
        shape = {"color": look.color, "marker": look.marker, "linestyle": look.linestyle, "ms": 5}
        band(
            ax, part["epsilon"], part["value"], part["low"], part["high"], label=look.label, **shape
        )
    ax.axhline(lost, color=BLACK, lw=0.8, ls=":", label=f"loss of {lost:g}")
    ax.axhline(0, color=GREY, lw=0.8)
    _epsilons(ax, table["epsilon"])
    ax.set(ylabel="share of tokens, loss of similarity")
    ax.set_title(f"n = {_n(table)} documents, 95% intervals", fontsize=9)
    _legend(fig, ax.get_legend_handles_labels()[0], 3)
    return fig


# --- What can be predicted ----------------------------------------------------------------------


def regressions(table: pd.DataFrame) -> Figure:
    """R2 and RMSE of every set of features in both kinds of folds (Table 1)."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.6), sharey=True)
    sets = [name for name in SETS if name in set(table["features"])]
    for ax, (measure, text) in zip(axes, MEASURES.items(), strict=True):
        part = table[table["measure"] == measure]
        for height, name in zip(_heights(sets), sets, strict=True):
            look = FEATURES[name]
            _by_folds(ax, part[part["features"] == name], height, look.color, look.marker)
        alone = part[(part["features"] == EPS_ONLY) & (part["by"] == "document")]
        for value in alone["value"]:
            ax.axvline(value, color=GREY, lw=0.8, zorder=0)
        ax.set(xlabel=text)
    axes[0].set_yticks(_heights(sets), [FEATURES[name].label for name in sets])
    axes[0].set_title(f"n = {_n(table):,} rows", fontsize=9)
    _legend(fig, _folds_keys(), 2)
    return fig


def regressors(table: pd.DataFrame) -> Figure:
    """R2 of every regressor with the features of Table 1, in both kinds of folds."""
    names = list(dict.fromkeys(table["regressor"]))
    size = PAGE, 1.3 + 0.28 * len(names)
    fig, axes = plt.subplots(1, len(TABLE_1), figsize=size, sharex=True, sharey=True)
    for ax, features in zip(axes, TABLE_1, strict=True):
        part = table[(table["measure"] == "r2") & (table["features"] == features)]
        for height, name in zip(_heights(names), names, strict=True):
            _by_folds(ax, part[part["regressor"] == name], height, BLUE, "o")
        ax.set_title(_TABLE_1[features], fontsize=9)
        ax.set(xlabel="R2")
    axes[0].set_yticks(_heights(names), names)
    fig.suptitle(f"n = {_n(table):,} rows", fontsize=9)
    _legend(fig, _folds_keys(), 2)
    return fig


_TABLE_1 = {"all": "A, B and C", "no_b": "without B", "no_c": "without C", "no_bc": "A alone"}


def _by_folds(ax: Axes, part: pd.DataFrame, height: float, color: str, marker: str) -> None:
    """Folds by document filled, the paper's by row hollow and a little below."""
    for row in part.itertuples():
        is_row = row.by == "row"
        face = HOLLOW if is_row else {}
        _dot(ax, row, height - 0.16 + 0.32 * (not is_row), color=color, marker=marker, ms=5, **face)


def _folds_keys() -> list[Line2D]:
    return [
        _key("folds by document", marker="o"),
        _key("folds by row, as in the paper", marker="o", **HOLLOW),
    ]


# --- Intervals and decisions --------------------------------------------------------------------


def intervals(table: pd.DataFrame, level: float) -> Figure:
    """Coverage and mean width of the prediction intervals against epsilon."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.5))
    part = table[table["epsilon"].notna()]
    names = list(dict.fromkeys(part["features"]))
    panels = {"covered": "share of documents covered", "width": "mean width"}
    for ax, (what, text) in zip(axes, panels.items(), strict=True):
        for shift, name in zip(_shifts(names), names, strict=True):
            chosen = part[(part["features"] == name) & (part["what"] == what)]
            chosen, look = chosen.sort_values("epsilon"), FEATURES[name]
            x = chosen["epsilon"] * np.exp(shift * _span(part["epsilon"]))
            shape: dict[str, Any] = {"color": look.color, "marker": look.marker, "ms": 4.5}
            line = {"lw": 1.2 if what == "width" else 0, "elinewidth": 0.9, "label": look.label}
            ax.errorbar(x, chosen["value"], yerr=_reach(chosen), **shape, **line)
        _epsilons(ax, part["epsilon"])
        ax.set(ylabel=text)
    axes[0].axhline(level, color=BLACK, lw=0.9, ls=":")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1))
    axes[0].set_title(f"n = {_n(part)} documents; dotted: {level:.0%}", fontsize=9)
    axes[1].set_ylim(bottom=0)
    _legend(fig, [_feature_key(name) for name in names], 2)
    return fig


def decisions(table: pd.DataFrame) -> Figure:
    """What is wasted, missed and revealed against the threshold that an answer must reach."""
    fig, axes = plt.subplots(2, 2, figsize=(PAGE, 5.0), sharex=True)
    thresholds = np.unique(table["threshold"])
    gap = float(np.diff(thresholds).min()) if len(thresholds) > 1 else 0.1
    lines = [(name, rule) for rule in RULES for name in DECIDING]
    for ax, (what, text) in zip(axes.ravel(), WASTE.items(), strict=True):
        for shift, (name, rule) in zip(_shifts(lines), lines, strict=True):
            chosen = (table["features"] == name) & (table["rule"] == rule)
            part = table[chosen & (table["what"] == what)].sort_values("threshold")
            look: dict[str, Any] = {"color": FEATURES[name].color, "marker": FEATURES[name].marker}
            look |= {"ls": ":", **HOLLOW} if rule == "low" else {"ls": "-"}
            x = part["threshold"] + 8 * gap * shift
            ax.errorbar(x, part["value"], yerr=_reach(part), ms=4.5, lw=1, elinewidth=0.6, **look)
        ax.set_title(text, fontsize=9)
        ax.set_ylim(bottom=-0.03)
        ax.set_xticks(thresholds)
    for ax in axes[-1]:
        ax.set(xlabel="similarity that an answer must reach")
    axes[0][0].set(ylabel="share of documents")
    axes[1][0].set(ylabel="share of tokens")
    fig.suptitle(f"n = {_n(table)} documents, 95% intervals", fontsize=9)
    keys = [
        *map(_feature_key, DECIDING),
        _key("sent if the prediction reaches it", marker="o", ls="-"),
        _key("sent if the interval's lower end does", marker="o", ls=":", **HOLLOW),
    ]
    _legend(fig, keys, 2)
    return fig


# --- Another mechanism, and mended text ---------------------------------------------------------


def transfer(table: pd.DataFrame) -> Figure:
    """RMSE on another mechanism: learned there, on other documents, and learned elsewhere."""
    part = table[table["measure"] == "rmse"]
    pairs = list(dict.fromkeys(zip(part["mechanism"], part["features"], strict=True)))
    fig, ax = plt.subplots(figsize=(PAGE * 0.75, 1.2 + 0.4 * len(pairs)))
    for height, (mechanism, name) in zip(_heights(pairs), pairs, strict=True):
        chosen = part[(part["mechanism"] == mechanism) & (part["features"] == name)]
        look = FEATURES[name]
        for row in chosen.itertuples():
            face = HOLLOW if row.source == "elsewhere" else {}
            up = -0.14 if row.source == "elsewhere" else 0.14
            _dot(ax, row, height + up, color=look.color, marker=look.marker, ms=6, **face)
    names = [f"{label(mechanism)}: {FEATURES[name].label}" for mechanism, name in pairs]
    ax.set_yticks(_heights(pairs), names)
    ax.set(xlabel=MEASURES["rmse"], xlim=(0, None), ylim=(-0.6, len(pairs) - 0.4))
    ax.set_title(f"n = {_n(part)} rows", fontsize=9)
    keys = [
        _key("learned on the mechanism itself", marker="o"),
        _key("learned on another", marker="o", **HOLLOW),
    ]
    _legend(fig, keys, 2)
    return fig


def corrections(table: pd.DataFrame) -> Figure:
    """Similarity to the original as the text is and with its grammar corrected."""
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 2.9), sharey=True)
    panels = {"text": "sanitized text", "summary": "large model's summary of it"}
    epsilons = np.unique(table["epsilon"])
    for ax, (what, text) in zip(axes, panels.items(), strict=True):
        for corrected, shift in ((False, -0.1), (True, 0.1)):
            chosen = (table["what"] == what) & (table["corrected"] == corrected)
            part = table[chosen].sort_values("epsilon")
            place = np.searchsorted(epsilons, part["epsilon"]) + shift
            face = {} if corrected else HOLLOW
            look: dict[str, Any] = {"color": LOOKS["large"].color, "marker": "o", "ms": 6, **face}
            ax.errorbar(place, part["value"], yerr=_reach(part), ls="", **look)
        ax.set_xticks(range(len(epsilons)), [f"{each:g}" for each in epsilons])
        ax.set(xlabel="epsilon", xlim=(-0.5, len(epsilons) - 0.5))
        ax.set_title(f"{text} (n = {_n(table)} documents)", fontsize=9)
    axes[0].set(ylabel="similarity to the original")
    look = {"marker": "o", "color": LOOKS["large"].color}
    _legend(fig, [_key("as it is", **look, **HOLLOW), _key("corrected", **look)], 2)
    return fig


# --- What the pictures share --------------------------------------------------------------------


def _epsilons(ax: Axes, epsilons: ArrayLike) -> None:
    """A logarithmic axis that names its epsilons as far as there is room."""
    values = np.unique(np.asarray(epsilons, dtype=np.float64))
    named = [float(values[0])]
    for each in values[1:]:
        if np.log(each / named[-1]) > 0.08 * np.log(values[-1] / values[0]):
            named.append(float(each))
    ax.set(xscale="log", xlabel="epsilon")
    ax.set_xticks(named, [f"{each:g}" for each in named], rotation=60)
    ax.minorticks_off()


def _span(epsilons: ArrayLike) -> float:
    """Logarithm of the largest epsilon by the smallest."""
    values = np.asarray(epsilons, dtype=np.float64)
    return float(np.log(values.max() / values.min())) or 1.0


def _shifts(lines: Sequence[Any]) -> NDArray[np.float64]:
    """Small distances that keep intervals of several lines apart, around 0."""
    middle = (len(lines) - 1) / 2
    return 0.009 * (np.arange(len(lines), dtype=np.float64) - middle)


def _heights(names: Sequence[Any]) -> NDArray[np.float64]:
    """Of rows, the first at the top."""
    return np.arange(len(names), dtype=np.float64)[::-1]


def _reach(found: Any) -> NDArray[np.float64]:
    """How far an interval goes below and above its value: (2, points)."""
    below, above = found.value - found.low, found.high - found.value
    return np.clip(np.vstack([below, above]), 0, None)


def _dot(ax: Axes, row: Any, height: float, **look: Any) -> None:
    """A measurement and its interval along the x axis."""
    ax.errorbar(row.value, height, xerr=_reach(row), **{**look, "linestyle": ""})


def _n(found: pd.DataFrame) -> int:
    """Observations that every point rests on; tables of this notebook have one number."""
    return int(found["n"].max())


def _key(text: str, **look: Any) -> Line2D:
    """An entry of a legend that stands for no single line."""
    return Line2D([], [], **{"color": GREY, "linestyle": "", "label": text, **look})


def _feature_key(name: str) -> Line2D:
    look = FEATURES[name]
    return _key(look.label, color=look.color, marker=look.marker, ls="-")


def _legend(fig: Figure, handles: Iterable[Any], columns: int) -> None:
    """One legend below all panels."""
    fig.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, fontsize=SMALL_PRINT
    )
