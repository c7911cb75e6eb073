"""The pictures of notebook 02; each takes a table of the notebook and returns a figure."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter

from textpriv.drawing import drawing
from textpriv.experiments.ann_vs_exact import RANK_BANDS
from textpriv.report import claims
from textpriv.report.figures import PAGE, band, label, legend_below, percent, reach, style

# Near to far; the word itself stands out from all that is not the word.
BAND_COLORS = ("#0072B2", "#56B4E9", "#E69F00", "#D9D9D9")
MARKERS = "osD^vP"
EMBEDDINGS = {
    "glove840b300": "GloVe 840B, 33,860 words x 300",
    "glove6b50": "GloVe 6B, 400,000 words x 50",
}


@drawing
def lines(scores: pd.DataFrame, word: str, dimension: int) -> Figure:
    """Lines of all rivals along one direction, and their upper envelope."""
    fig, ax = plt.subplots(figsize=(PAGE, 3.4))
    look: dict[str, Any] = {"x": "radius", "y": "score", "estimator": None, "ax": ax}
    losers, winners = scores[~scores["wins"]], scores[scores["wins"]]
    top = scores.groupby("radius")["score"].transform("max")
    best = winners[winners["score"] >= top[winners.index] - 1e-12]
    sns.lineplot(losers, units="other", color="#C8C8C8", lw=0.6, zorder=1, **look)
    look |= {"hue": "other", "hue_order": winners["other"].unique()}
    sns.lineplot(winners, lw=1.2, **look)
    sns.lineplot(best, lw=3.4, legend=False, **look)
    crossings = best.groupby("other", sort=False)["radius"].min().drop(word)
    for crossing in crossings:
        ax.axvline(crossing, color="#555555", lw=0.8, ls=":")
    ax.set_ylim(winners["score"].min() - 12, top.max() * 1.05 + 2)
    ax.set(xlabel="length of the noise r along one direction u (distance units)")
    top_axis = ax.secondary_xaxis("top")
    ticks = [t for t in ax.get_xticks() if 0 < t <= scores["radius"].max()]
    top_axis.set_xticks(ticks, [f"{dimension / t:.0f}" for t in ticks])
    top_axis.set_xlabel("epsilon whose noise has this mean length", fontsize=8.5)
    ax.set(ylabel="score of a word (the highest comes out)")
    ax.set_title(
        f"Along this direction “{word}” comes out up to a noise\n"
        f"of length {crossings.min():.0f}, then other words"
    )
    sns.move_legend(ax, "center left", bbox_to_anchor=(1.0, 0.5), title="comes out somewhere")
    return fig


@drawing
def kept_words(curves: pd.DataFrame, paper: pd.DataFrame) -> Figure:
    """N_w against epsilon, exact and Annoy, one panel per embedding, the paper's points on top."""
    panels = curves[curves["stratum"] < 0].groupby("embedding", sort=False)
    fig, axes = plt.subplots(1, len(panels), figsize=(PAGE, 3.4), sharey=True, squeeze=False)
    for ax, (name, panel) in zip(axes[0], panels, strict=True):
        for search, part in panel.groupby("search", sort=False):
            look = {**style(str(search)), "label": label(str(search))}
            band(ax, part, "epsilon", "kept", **look)
        wide = panel.pivot(index="epsilon", columns="search", values=["kept", "n"])
        widest = wide.loc[(wide["kept", "exact"] - wide["kept", "annoy"]).abs().idxmax()]
        kept, n = widest["kept"], widest["n"]
        ax.set_title(
            f"Widest gap, epsilon {widest.name:g}: the exact\nsearch keeps {kept['exact']:.0%}, "
            f"Annoy {kept['annoy']:.0%}\n{EMBEDDINGS[str(name)]}\n"
            f"(n = {n['exact']:,.0f} and {n['annoy']:,.0f} words)",
            fontsize=8.5,
        )
        ax.set(xlabel="epsilon (1 / distance)", ylim=(-0.02, 1.04))
    first = axes[0, 0]  # its table is the one like theirs
    first.set(ylabel="share of words kept")
    percent(first.yaxis)
    star: dict[str, Any] = {"ls": "", "marker": "*", "ms": 11, "mec": "black", "mew": 0.6}
    for row in paper.itertuples():
        text = f"{label(row.search)}, paper\n(319,774 words x 300)"
        first.plot(row.epsilon, row.kept, color=style(row.search)["color"], label=text, **star)
    legend_below(fig, ncols=4)
    return fig


@drawing
def replacements(shares: pd.DataFrame, embedding: str) -> Figure:
    """Where the output ranks among the word's neighbours, against epsilon: a stack of shares."""
    fig, ax = plt.subplots(figsize=(5.5, 3.3))
    wide = shares.pivot(index="epsilon", columns="band", values="share")[list(RANK_BANDS)]
    ax.stackplot(wide.index, wide.T, labels=RANK_BANDS, colors=BAND_COLORS, lw=0)
    # Beyond its last half per cent the curve only repeats that every word is kept.
    end = wide.index[min(int((wide["itself"] < 0.995).sum()), len(wide) - 1)]
    ax.set(xscale="log", xlim=(wide.index.min(), end), xlabel="epsilon (1 / distance)")
    ax.set(ylim=(0, 1), ylabel="share of outputs")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    percent(ax.yaxis)
    most = wide["rank 1-10"].max()
    finding = f"The ten nearest words are at most {most:.1%} of outputs, at any epsilon tried"
    ax.set_title(f"{finding}\n({embedding}, n = {int(shares['n'].max()):,} words)", fontsize=9)
    legend_below(fig, ncols=4)
    return fig


@drawing
def near_words_by_dimension(shares: pd.DataFrame) -> Figure:
    """Share of near words (rank 1-10) among all outputs, against the share kept."""
    fig, ax = plt.subplots(figsize=(5.5, 3.3))
    panels = shares.groupby("dimension")
    colors = sns.color_palette("cividis", len(panels))
    for marker, color, (dimension, part) in zip(MARKERS, colors, panels, strict=False):
        kept, near = (part[part["band"] == name] for name in ("itself", "rank 1-10"))
        look = {"marker": marker, "color": color, "label": f"{dimension} dimensions"}
        ax.errorbar(kept["share"], near["share"], reach(near, "share"), lw=1.2, ms=4, **look)
    ax.set(xlabel="share of outputs that are the word itself")
    ax.set(ylabel="share that is one of the\n10 nearest words", ylim=(0, None))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1))  # as many decimals as its steps need
    most = shares[shares["band"] == "rank 1-10"].groupby("dimension")["share"].max()
    few, many = most.index[[0, -1]]
    n = f"n = {int(shares['n'].max()):,} words"
    ax.set_title(
        f"The ten nearest words are at most {most[few]:.1%} of outputs\n"
        f"in {few} dimensions, at most {most[many]:.1%} in {many} ({n})",
        fontsize=9,
    )
    ax.legend()
    return fig


@drawing
def index_trade_off(scores: pd.DataFrame) -> Figure:
    """Recall@1 on noisy queries against queries per second."""
    panels = scores.groupby("epsilon")
    fig, axes = plt.subplots(1, len(panels), figsize=(PAGE, 3.4), sharey=True, squeeze=False)
    exact = {"exact": "exact, this library", "faiss-flat": "exact, faiss flat"}
    flat = {"color": "black", "marker": "X", "linestyle": ""}
    for ax, (epsilon, panel) in zip(axes[0], panels, strict=True):
        for index, part in panel.sort_values("recall").groupby("index", sort=False):
            look: dict[str, Any] = dict(flat if index == "faiss-flat" else style(str(index)))
            look["label"] = exact.get(str(index)) or label(str(index))
            speed = part["queries_per_second"]
            ax.errorbar(speed, part["recall"], reach(part, "recall"), ms=6, **look)
        ax.set(xscale="log", xlabel="queries per second", ylim=(0, 1.04))
        best = panel.loc[~panel["index"].isin(exact), "recall"].max()
        n = f"{int(panel['n'].max()):,} noisy vectors"
        ax.set_title(
            f"At epsilon {epsilon:g} indexes find the\nnearest word for at best {best:.0%}\nof {n}",
            fontsize=9,
        )
    axes[0, 0].set(ylabel="nearest word found")
    percent(axes[0, 0].yaxis)
    legend_below(fig, ncols=5)
    return fig


def paper_points() -> pd.DataFrame:
    """The paper's N_w: epsilon, search, kept."""
    stated = [
        (str(claim.measurement), claim.value) for claim in claims.for_notebook("02_ann_vs_exact")
    ]
    rows = [(*name.split(".")[2:], value) for name, value in stated if name.startswith("nw.")]
    points = pd.DataFrame(rows, columns=["epsilon", "search", "kept"]).dropna()
    return points.assign(epsilon=points["epsilon"].str.removeprefix("eps").astype(float))
