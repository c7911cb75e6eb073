"""The pictures of notebook 02; each takes a table of `ann_vs_exact` and returns a figure."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter

from textpriv.experiments.ann_vs_exact import RANK_BANDS
from textpriv.report import claims
from textpriv.report.figures import PAGE, STYLES, band, label, style

# Near to far; the word itself stands out from all that is not the word.
BAND_COLORS = dict(zip(RANK_BANDS, ("#0072B2", "#56B4E9", "#E69F00", "#D9D9D9"), strict=True))
EMBEDDINGS = {
    "glove840b300": "GloVe 840B, 33,860 words x 300",
    "glove6b50": "GloVe 6B, 400,000 words x 50",
}


def lines(found: pd.DataFrame, word: str, dimension: int) -> Figure:
    """Lines of all rivals along one direction, and their upper envelope."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.4))
    wide = found.pivot(index="radius", columns="other", values="score")
    winners = list(dict.fromkeys(found.loc[found["wins"], "other"]))
    ax.plot(wide.index, wide.drop(columns=winners), color="#C8C8C8", lw=0.6, zorder=1)
    top = wide.max(axis=1)
    for number, winner in enumerate(winners):
        (drawn,) = ax.plot(wide.index, wide[winner], lw=1.2, label=winner)
        best = (wide[winner] >= top - 1e-12).to_numpy()
        ax.plot(wide.index[best], wide[winner][best], lw=3.4, color=drawn.get_color())
        if number:
            ax.axvline(wide.index[best][0], color="#555555", lw=0.8, ls=":")
    ax.set_ylim(float(wide[winners].min().min()) - 12, float(top.max()) * 1.05 + 2)
    ax.set(xlabel="length of the noise r along one direction u (distance units)")
    top_axis = ax.secondary_xaxis("top")
    ticks = [t for t in ax.get_xticks() if 0 < t <= wide.index.max()]
    top_axis.set_xticks(ticks, [f"{dimension / t:.0f}" for t in ticks])
    top_axis.set_xlabel("epsilon whose noise has this mean length", fontsize=8.5)
    ax.set(ylabel="score  r <u, z - x> - |z - x|²/2")
    ax.set_title(f"Who is nearest to “{word}” + r u? The highest line")
    ax.legend(title="wins somewhere", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def check(found: pd.DataFrame) -> Figure:
    """P(kept) by the all-radii form against the share in independent draws."""
    fig, ax = plt.subplots(figsize=(3.6, 3.4))
    ax.plot([0, 1], [0, 1], color="#7F7F7F", lw=0.8, zorder=1)
    for marker, (word, part) in zip("osD^vP", found.groupby("word", sort=False), strict=False):
        ax.errorbar(
            part["all_radii"],
            part["drawn"],
            xerr=_reach(part, "all_radii"),
            yerr=_reach(part, "drawn"),
            fmt=marker,
            label=word,
        )
    ax.set(xlabel="P(kept), all-radii form", ylabel="share kept in independent draws")
    ax.set_title("One pass against draws")
    ax.legend(loc="lower right")
    return fig


def _reach(part: pd.DataFrame, name: str) -> np.ndarray:
    value, low, high = (part[name + suffix] for suffix in ("", "_low", "_high"))
    return np.clip(np.array([value - low, high - value]), 0, None)


def kept_words(found: pd.DataFrame, paper: pd.DataFrame) -> Figure:
    """N_w against epsilon, exact and Annoy, one panel per embedding, the paper's points on top."""
    names = [name for name in EMBEDDINGS if name in set(found["embedding"])]
    fig, axes = plt.subplots(1, len(names), figsize=(PAGE, 3.2), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        overall = found[(found["embedding"] == name) & (found["stratum"] < 0)]
        counts = []
        for search in ("exact", "annoy"):
            part = overall[overall["search"] == search]
            look = {**style(search), "label": label(search)}
            band(ax, part["epsilon"], part["kept"], part["low"], part["high"], **look)
            counts.append(f"{label(search)} {int(part['n'].max()):,}")
        for row in paper.itertuples() if name == "glove840b300" else ():
            ax.plot(
                row.epsilon,
                row.kept,
                marker="*",
                ms=11,
                ls="",
                color=STYLES[row.search].color,
                mec="black",
                mew=0.6,
                label=f"{label(row.search)}, paper\n(319,774 words x 300)",
            )
        ax.set(xlabel="epsilon (1 / distance)")
        ax.set_title(f"{EMBEDDINGS[name]}\nwords: {', '.join(counts)}", fontsize=8.5)
    axes[0, 0].set(ylabel="share of words kept, N_w", ylim=(-0.02, 1.04))
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return fig


def kept_by_frequency(found: pd.DataFrame) -> Figure:
    """N_w against epsilon for frequent and rare words, exact search."""
    exact = found[(found["search"] == "exact") & (found["stratum"] >= 0)]
    names = [name for name in EMBEDDINGS if name in set(exact["embedding"])]
    fig, axes = plt.subplots(1, len(names), figsize=(PAGE, 3.2), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        part = exact[exact["embedding"] == name]
        strata = int(part["stratum"].max()) + 1
        colors = plt.get_cmap("cividis")(np.linspace(0, 0.92, strata))
        for stratum, rows in part.groupby("stratum"):
            text = {0: "most frequent", strata - 1: "rarest"}.get(int(stratum))
            look = {"color": colors[int(stratum)], "label": text, "marker": ""}
            band(ax, rows["epsilon"], rows["kept"], rows["low"], rows["high"], **look)
        ax.set(xlabel="epsilon (1 / distance)", xlim=(5, 30))
        n = int(part["n"].min())
        ax.set_title(f"{EMBEDDINGS[name]}\n{strata} strata, {n:,} or more words each", fontsize=8.5)
    axes[0, 0].set(ylabel="share of words kept, N_w", ylim=(-0.02, 1.04))
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0, -1].legend(title="frequency rank", loc="lower right")
    return fig


def replacements(found: pd.DataFrame, title: str) -> Figure:
    """Where the output ranks among the word's neighbours, against epsilon: a stack of shares."""
    fig, ax = plt.subplots(figsize=(5.5, 3.3))
    wide = found.pivot(index="epsilon", columns="band", values="share")[list(RANK_BANDS)]
    ax.stackplot(
        wide.index, wide.T, labels=RANK_BANDS, colors=[BAND_COLORS[b] for b in RANK_BANDS], lw=0
    )
    # Beyond its last half per cent the curve only repeats that every word is kept.
    end = wide.index[min(int((wide["itself"] < 0.995).sum()), len(wide) - 1)]
    ax.set(xscale="log", xlim=(wide.index.min(), end), ylim=(0, 1))
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="epsilon (1 / distance)", ylabel="share of outputs")
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_title(f"{title}, n = {int(found['n'].max()):,} words", fontsize=9)
    handles, names = ax.get_legend_handles_labels()
    fig.legend(handles[::-1], names[::-1], loc="outside right center", title="output is")
    return fig


def near_words_by_dimension(found: pd.DataFrame) -> Figure:
    """Share of near words (rank 1-10) among all outputs, against the share kept."""
    fig, ax = plt.subplots(figsize=(5.5, 3.3))
    dimensions = sorted(found["dimension"].unique())
    colors = plt.get_cmap("cividis")(np.linspace(0, 0.9, len(dimensions)))
    for marker, color, dimension in zip("osD^vP", colors, dimensions, strict=False):
        part = found[found["dimension"] == dimension]
        kept = part[part["band"] == "itself"].set_index("epsilon")["share"]
        near = part[part["band"] == "rank 1-10"].set_index("epsilon").loc[kept.index]
        spread = np.vstack([near["share"] - near["low"], near["high"] - near["share"]]).clip(0)
        ax.errorbar(
            kept, near["share"], yerr=spread, marker=marker, color=color, lw=1.2, ms=4,
            label=f"{dimension} dimensions",
        )  # fmt: skip
    ax.set(xlabel="share of outputs that are the word itself")
    ax.set(ylabel="share that is one of the\n10 nearest words", ylim=(0, None))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1))  # as many decimals as its steps need
    n = int(found["n"].max())
    most = found.loc[found["band"] == "rank 1-10", "share"].max()
    ax.set_title(f"At most {most:.0%} of outputs are near words, n = {n:,} words", fontsize=9)
    ax.legend()
    return fig


def index_trade_off(found: pd.DataFrame) -> Figure:
    """Recall@1 on noisy queries against queries per second."""
    epsilons = sorted(found["epsilon"].unique())
    fig, axes = plt.subplots(1, len(epsilons), figsize=(PAGE, 3.4), sharey=True, squeeze=False)
    names = {"exact": "exact, this library", "faiss-flat": "exact, faiss flat"}
    for ax, epsilon in zip(axes[0], epsilons, strict=True):
        for index, part in found[found["epsilon"] == epsilon].groupby("index", sort=False):
            look = (
                {"color": "black", "marker": "X", "linestyle": ""}
                if index == "faiss-flat"
                else style(str(index))
            )
            part = part.sort_values("recall")
            spread = np.vstack([part["recall"] - part["low"], part["high"] - part["recall"]])
            ax.errorbar(
                part["queries_per_second"], part["recall"], yerr=spread.clip(0), **look, ms=6,
                label=names.get(str(index)) or label(str(index)),
            )  # fmt: skip
        ax.set(xscale="log", xlabel="queries per second (batch, this machine)")
        ax.set_title(f"epsilon {epsilon:g}, n = {int(found['n'].max()):,} noisy queries")
    axes[0, 0].set(ylabel="recall@1", ylim=(0, 1.04))
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return fig


def rank_repair(matched: pd.DataFrame, n: int) -> Figure:
    """Bands of rank at equal shares of kept words, with and without the repair."""
    targets = sorted(matched["kept"].unique())
    fig, axes = plt.subplots(1, len(targets), figsize=(PAGE, 2.9), sharey=True, squeeze=False)
    for ax, target in zip(axes[0], targets, strict=True):
        part = matched[matched["kept"] == target].sort_values("c")
        names = ["none" if np.isinf(c) else f"{c:g}" for c in part["c"]]
        bottom = np.zeros(len(part))
        for band_name in RANK_BANDS:
            ax.bar(
                names, part[band_name], bottom=bottom, color=BAND_COLORS[band_name],
                edgecolor="white", linewidth=0.5, label=band_name,
            )  # fmt: skip
            bottom += part[band_name].to_numpy()
        ax.set(xlabel="c of the repair", ylim=(0, 1))
        for bar, epsilon in enumerate(part["epsilon"]):
            ax.annotate(
                f"{epsilon:.0f}", (bar, 1.0), (0, 2), ha="center", textcoords="offset points"
            )
        ax.set_title(f"{target:.0%} of words kept,\nat epsilon:", pad=14)
        ax.grid(False)
    axes[0, 0].set(ylabel="share of outputs")
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(
        handles[::-1], labels[::-1], loc="outside right center", title=f"output is\n(n = {n:,})"
    )
    return fig


def paper_points() -> pd.DataFrame:
    """The paper's N_w: epsilon, search, kept."""
    rows = []
    for claim in claims.of("02_ann_vs_exact"):
        if claim.value is not None and str(claim.measurement).startswith("nw."):
            epsilon, search = str(claim.measurement).split(".")[-2:]
            row = {"epsilon": float(epsilon.removeprefix("eps")), "search": search}
            rows.append({**row, "kept": claim.value})
    return pd.DataFrame(rows)
