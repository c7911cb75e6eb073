"""Notebook 00: sizes of a first look, a sentence at every epsilon, and the pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.ticker import PercentFormatter
from pydantic import BaseModel, Field

from textpriv.attacks.base import NONE, Guesses, Observed, observe
from textpriv.data.tokens import KEPT, Corpus
from textpriv.drawing import drawing
from textpriv.evaluation import risks
from textpriv.evaluation.evaluate import Evaluation
from textpriv.evaluation.reading import CLEAR, RIGHT, WRONG, Reader, Reading
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.report.figures import PAGE, label, reach


class Sizes(BaseModel, extra="forbid", frozen=True):
    """Sizes of notebook 00, set by the profile."""

    words: int | None  # of the vocabulary, the most frequent; None: all
    draws: int = Field(ge=1)  # of the first sentence
    public: int = Field(ge=10)  # reviews that the attacker has read
    corpus: str  # a corpus of the registry, or the path of a file of one's own
    texts: int = Field(ge=8)  # of it that are sanitized and attacked
    settings: dict[str, float]  # epsilon by mechanism
    quoted: tuple[int, ...] = Field(min_length=1)  # film sentences of the second figure
    epsilons: dict[str, tuple[float, ...]]  # of that figure, rising, by mechanism


def rows(evaluations: Mapping[str, Evaluation]) -> pd.DataFrame:
    """The strongest attack on words and on texts, for each mechanism.

    Columns: mechanism, epsilon, finds, attack, value, low, high, chance, n, unchanged (the share
    of the words that is recovered by who takes each as it was sent).
    """
    best = [
        {"mechanism": name, "epsilon": each.epsilon, **strongest}
        | {"unchanged": _unchanged(each, finds)}
        for name, each in evaluations.items()
        for finds in ("words", "texts")
        if (strongest := each.strongest(finds)) is not None
    ]
    columns = ["mechanism", "epsilon", "finds", "attack", "value", "low", "high", "chance", "n"]
    return pd.DataFrame(best, columns=[*columns, "unchanged"]).astype({"n": int})


def _unchanged(evaluation: Evaluation, finds: str) -> float:
    own = evaluation.risks
    return float(
        own.loc[(own["attack"] == risks.AS_THEY_ARE) & (own["finds"] == finds), "value"].max()
    )


KEPT_WORD, NEAR, FAR = "kept", "near", "far"
NEAREST = 20  # words around the original that count as near: as many as a set of CusText holds
GUESSES = 5  # of the attacker, for each word


def every_epsilon(
    reader: Reader,
    sentences: Sequence[str],
    mechanisms: Mapping[str, FiniteMechanism],
    epsilons: Mapping[str, Sequence[float]],
    stream: Callable[[str], np.random.Generator],
) -> pd.DataFrame:
    """Sentences as they are sent and guessed by the noisy channel, at every epsilon.

    A mechanism draws from the same stream, which `stream` gives by its name, at each epsilon, so
    that neighbouring settings differ by epsilon alone. A row for each mechanism, epsilon, sentence
    and word: original, sanitized; state (CLEAR, KEPT_WORD, NEAR or FAR); rank (words nearer to the
    original than what was sent, by Euclidean distance); named (whether the first guess is right);
    guess_1 .. and posterior_1 .., which are empty for words in clear.
    """
    private = reader.tokenizer.encode(list(sentences))
    written = " ".join(reader.tokenizer.words_of(list(sentences))).split()
    place = np.arange(len(written)) - private.offsets[private.document]
    tables = []
    for name, grid in epsilons.items():
        for mechanism in mechanisms[name].sweep(grid):
            observed = observe(mechanism, private, stream(name))
            attack = risks.attack_for(mechanism, reader.language)
            setting = {"mechanism": name, "epsilon": float(mechanism.epsilon)}
            words = {"sentence": private.document, "position": place, "original": written}
            table = pd.DataFrame({**setting, **words})
            every = zip(private.ids, observed.corpus.ids, observed.sanitized, strict=True)
            sent = [
                (private.kept[at], CLEAR, 0) if to == KEPT else _moved(reader, word, to, hidden)
                for at, (word, to, hidden) in enumerate(every)
            ]
            table = table.join(pd.DataFrame(sent, columns=["sanitized", "state", "rank"]))
            guesses = attack.guess(observed, top=GUESSES)
            tables.append(table.join(_guessed(reader, private, observed, guesses)))
    return pd.concat(tables, ignore_index=True)


def _moved(reader: Reader, original: int, sent: int, hidden: bool) -> tuple[str, str, int]:
    """The word that was sent, its state, and how many words are nearer to the original.

    An original that the vocabulary lacks has no neighbours: what stands for it counts as far.
    """
    word = reader.tokenizer.words[sent]
    if not hidden or sent == original:
        return word, KEPT_WORD if hidden else CLEAR, 0
    if original < 0:
        return word, FAR, len(reader.embedding)
    vectors = reader.embedding.vectors
    distance = np.linalg.norm(vectors - vectors[original], axis=1)
    rank = int((distance < distance[sent]).sum())
    return word, NEAR if rank <= NEAREST else FAR, rank


def _guessed(reader: Reader, private: Corpus, observed: Observed, guesses: Guesses) -> pd.DataFrame:
    """The attacker's guesses with their posterior, and whether the first one is right."""
    table = pd.DataFrame({"named": pd.array([pd.NA] * len(private.ids), dtype="boolean")})
    targets = observed.targets
    table.loc[targets, "named"] = guesses.words[:, 0] == private.ids[targets]
    for place in range(GUESSES):
        known = guesses.words[:, place] != NONE
        words = [reader.tokenizer.words[each] for each in guesses.words[known, place]]
        table.loc[targets[known], f"guess_{place + 1}"] = words
        table.loc[targets[known], f"posterior_{place + 1}"] = guesses.scores[known, place]
    return table


def named_at(table: pd.DataFrame) -> pd.DataFrame:
    """How many of the sanitized words of `every_epsilon` the attacker names, by setting.

    Columns: mechanism, epsilon, hidden (sanitized words), named, kept (named and sent as they are).
    """
    hidden = table[table["state"] != CLEAR]
    named = hidden["named"].astype(bool)
    hidden = hidden.assign(named=named, kept=named & (hidden["state"] == KEPT_WORD))
    groups = hidden.groupby(["mechanism", "epsilon"], sort=False)
    counts = groups.agg(hidden=("named", "size"), named=("named", "sum"), kept=("kept", "sum"))
    return counts.reset_index()


@drawing
def read_and_linked(table: pd.DataFrame, title: str) -> Figure:
    """Words recovered and texts linked, a point with its interval for each mechanism.

    Of columns mechanism, epsilon, finds ("words", "texts"), value, low, high, chance, unchanged.
    """
    figure = Figure(figsize=(5.2, 0.9 + 0.5 * table["mechanism"].nunique()), layout="constrained")
    axes = figure.subplots()
    order = list(dict.fromkeys(table["mechanism"]))[::-1]
    blue, orange = sns.color_palette("colorblind", 2)
    for finds, said, color, shift, guessing in (
        ("words", "words recovered", blue, 0.12, None),
        ("texts", "texts linked", orange, -0.12, "guessing"),
    ):
        rows = table[table["finds"] == finds]
        height = rows["mechanism"].map(order.index) + shift
        look: dict[str, Any] = {"fmt": "o", "color": color, "capsize": 3, "label": said}
        axes.errorbar(rows["value"], height, xerr=reach(rows), **look)
        axes.plot(rows["chance"], height, "|", color="black", label=guessing)
        if finds == "words":
            hollow: dict[str, Any] = {"markerfacecolor": "none", "markersize": 9, "clip_on": False}
            axes.plot(rows["unchanged"], height, "D", color=blue, label="sent unchanged", **hollow)
    epsilons = table.drop_duplicates("mechanism").set_index("mechanism")["epsilon"]
    named = [f"{label(name)}, ε {epsilons[name]:g}" for name in order]
    axes.set_yticks(range(len(order)), named)
    axes.set(xlim=(-0.02, 1.02), xlabel="share found by the strongest attack that was run")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_title(title, loc="left")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


LOOKS = {CLEAR: ("#777777", "none"), RIGHT: ("black", "#f5d48a"), WRONG: ("#b03a2e", "none")}


@drawing
def read_back(reading: Reading, title: str) -> Figure:
    """A sentence as it was written, sent, and guessed: the words that are recovered are marked.

    Words stand one below the other, so that each can be followed down.
    """
    columns = [*zip(reading.original, reading.sanitized, reading.guessed, strict=True)]
    starts = _flowed(columns)
    rows = starts[-1][0] + 1
    figure, axes = _sheet(title, 1.1 * rows)
    axes.set(xlim=(0, 1), ylim=(rows, 0))  # in rows, from the top
    offsets = (0.15, 0.45, 0.75)
    for name, offset in zip(("written", "sent", "guessed"), offsets, strict=True):
        for row in range(rows):
            axes.text(0, row + offset, name, fontsize=7.5, color="#555555")
    for words, state, (row, left) in zip(columns, reading.states, starts, strict=True):
        color, marked = LOOKS[state]
        weight = "bold" if marked != "none" else "normal"
        looks: tuple[dict[str, Any], ...] = (
            {"color": "black"},
            {"color": "#777777" if state == CLEAR else "black"},
            {"color": color, "fontweight": weight, "bbox": _box(marked)},
        )
        for word, offset, look in zip(words, offsets, looks, strict=True):
            axes.text(left, row + offset, word, fontsize=9, **look)
    return figure


MARKS = {KEPT_WORD: "#dcc6ee", NEAR: "#bfe0f2", FAR: "#e4e4e4"}
"""Backgrounds of the words that were sent; the site has its own for dark pages."""


@drawing
def at_five_epsilons(table: pd.DataFrame, title: str) -> Figure:
    """One sentence as it is sent at up to five epsilons; words that the attacker names are bold.

    Of one mechanism and one sentence of `every_epsilon`.
    """
    every = table["epsilon"].unique()
    shown = every[np.unique(np.linspace(0, len(every) - 1, 5).round().astype(int))]
    blocks = [table[table["epsilon"] == epsilon] for epsilon in shown]
    written = blocks[0]["original"].tolist()
    starts = _flowed(zip(written, *(block["sanitized"] for block in blocks), strict=True))
    lines = starts[-1][0] + 1
    bottom = lines * (len(blocks) + 1)
    figure, axes = _sheet(title, 0.26 * (bottom + 2))
    axes.set(xlim=(0, 1), ylim=(bottom + 2, 0))  # in lines, from the top
    for number, name in enumerate(["written", *(f"ε = {each:g}" for each in shown)]):
        axes.text(0, number * lines + 0.6, name, fontsize=8, color="#333333")
    for word, (line, left) in zip(written, starts, strict=True):
        axes.text(left, line + 0.6, word, fontsize=9)
    for number, block in enumerate(blocks, 1):
        for row, (line, left) in zip(block.itertuples(), starts, strict=True):
            look: dict[str, Any] = {"color": "#777777"}
            if row.state != CLEAR:
                weight = "bold" if row.named else "normal"
                look = {"fontweight": weight, "bbox": _box(MARKS[row.state])}
            axes.text(left, number * lines + 0.6 + line, row.sanitized, fontsize=9, **look)
    # What the backgrounds and the letters mean, in two lines.
    states = {KEPT_WORD: "sent as it is", NEAR: f"one of the {NEAREST} nearest words"}
    states |= {FAR: "a farther word"}
    occurs = [state for state in states if any((block["state"] == state).any() for block in blocks)]
    for state, left in zip(occurs, (MARGIN, 0.35, 0.7), strict=False):
        axes.text(left, bottom + 0.7, states[state], fontsize=8, bbox=_box(MARKS[state]))
    axes.text(MARGIN, bottom + 1.7, "not replaced", fontsize=8, color="#777777")
    bold: dict[str, Any] = {"fontsize": 8, "fontweight": "bold"}
    axes.text(0.35, bottom + 1.7, "the original is recovered by the attacker", **bold)
    return figure


MARGIN = 0.15  # what stands to the left of a sentence, as a share of the picture's width


def _sheet(title: str, height: float) -> tuple[Figure, Axes]:
    """A picture under a title, to write words on: its axes have so many inches of height."""
    lines = fill(title.replace(" = ", "\u00a0=\u00a0"), 58)  # an epsilon stays in one line
    above = 0.12 + 0.2 * (lines.count("\n") + 1)
    engine = PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=True)
    figure = Figure(figsize=(PAGE, above + height), layout=engine)
    axes = figure.add_axes((0.01, 0.0, 0.98, height / (above + height)))
    axes.set_axis_off()
    figure.suptitle(lines, x=0.01, ha="left", fontsize=10, fontweight="bold")
    return figure, axes


def _box(color: str) -> dict[str, Any]:
    """A background of this colour."""
    return {"facecolor": color, "edgecolor": "none", "pad": 1.5}


def _flowed(columns: Iterable[Sequence[str]]) -> list[tuple[int, float]]:
    """Line and left edge of each column of words, from the margin to 1, wide as its longest."""
    starts, line, left = [], 0, MARGIN
    for words in columns:
        width = (0.097 * max(map(len, words)) + 0.086) / PAGE
        if left + width > 1 and left > MARGIN:
            line, left = line + 1, MARGIN
        starts.append((line, left))
        left += width
    return starts
