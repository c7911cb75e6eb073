"""The page "Play": sliders over the plotted numbers of figures, without a kernel or a network.

`page` reads the CSV files that a run left beside its figures, and the scoreboard from the results,
by their columns: a figure that is missing, or lacks a column, leaves its part out.
`static/play.js` draws what the page embeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from nbformat import NotebookNode, v4

from textpriv.data import corpora
from textpriv.errors import InvalidInput
from textpriv.report import figures
from textpriv.report.board import Board
from tools.site.knowledge import ASIDE, FACTS, NEEDS

Read = Callable[[str], pd.DataFrame]  # from the stem of a figure to its numbers
Json = dict[str, Any]
SCOREBOARD = "fig07_risk_utility"  # shows one risk; the results have several


class Part(NamedTuple):
    """One thing to play with: its figure, what the page says above it, and what it embeds."""

    key: str
    stem: str
    title: str
    says: str
    made: Callable[[pd.DataFrame], Json]


def sentence(table: pd.DataFrame) -> Json:
    """Sentences word by word at every epsilon: what was sent, and the attacker's posterior."""
    places = [number for number in range(1, 10) if f"guess_{number}" in table]
    texts = []
    for (mechanism, number), part in table.groupby(["mechanism", "sentence"], sort=False):
        blocks = [block for _, block in part.groupby("epsilon", sort=True)]
        texts.append(
            {
                "label": f"sentence {int(number) + 1}, {_label(mechanism)}",
                "words": blocks[0]["original"].tolist(),
                "values": sorted(part["epsilon"].unique().tolist()),
                "sent": [[_word(row, places) for _, row in each.iterrows()] for each in blocks],
            }
        )
    return {"texts": texts}


def _word(row: pd.Series, places: Iterable[int]) -> Json:
    """A word as it was sent, how many words are nearer to the original, and the guesses."""
    scored = [(row[f"guess_{place}"], row[f"posterior_{place}"]) for place in places]
    guesses = [[word, round(float(score), 4)] for word, score in scored if not pd.isna(word)]
    sent = {"sent": row["sanitized"], "state": row["state"], "rank": int(row["rank"])}
    return sent | {"guesses": guesses}


def lines(table: pd.DataFrame) -> Json:
    """Scores of words against the length of the noise along one direction."""
    wide = table.pivot(index="radius", columns="other", values="score").sort_index().round(3)
    own = wide.abs().max().idxmin()  # scores are relative to the word itself
    drawn = [{"word": name, "scores": wide[name].tolist()} for name in wide]
    return {"word": own, "values": wide.index.to_numpy().round(3).tolist(), "lines": drawn}


def stencil(table: pd.DataFrame) -> Json:
    """What each attack recovers of stencilled tokens, at every sigma of the usual window."""
    table = table[table["kind"].str.contains("stencil")]
    window = table.groupby("window")["sigma"].nunique().idxmax()  # the one that sigma varies in
    table = table[table["window"] == window]
    said = {1: "the first guess", 5: "one of five guesses"}
    choices = []
    for (corpus, kind, top), part in table.groupby(["corpus", "kind", "top"], sort=False):
        where = f"{corpora.label(corpus)}, {kind.replace('-', ' ')}, {said.get(top, f'top {top}')}"
        choices.append(_bars(where, part.assign(name=part["attack"]), "sigma"))
    return {"choices": choices}


def ladder(table: pd.DataFrame) -> Json:
    """Success of every attack at a few settings, with what it has to know."""
    settings = []
    order = ["corpus", "defense", "epsilon"]
    for (corpus, defense, epsilon), part in table.groupby(order, sort=False):
        rows = [
            _bar(row) | {"needs": NEEDS.get(row["attack"].replace("_", "-"), [*FACTS])}
            for _, row in part.assign(name=part["attack"]).iterrows()
        ]
        where = f"{_label(f'{defense}+')}, ε = {epsilon:g}, {corpora.label(corpus)}"
        settings.append({"label": where, "rows": rows})
    return {"facts": FACTS, "settings": settings}


def scoreboard(table: pd.DataFrame) -> Json:
    """Utility of each mechanism where attacks succeed equally often, panel by panel.

    Parameters
    ----------
    table : of `at_equal_risk`
    """
    choices = []
    for panel, part in table.groupby("panel", sort=False):
        shared = part.groupby("risk")["mechanism"].nunique() > 1
        part = part[part["risk"].isin(shared.index[shared]) & part["value"].notna()]
        if shared.sum() > 1 and not part.duplicated(["mechanism", "risk"]).any():
            choices.append(_bars(str(panel), part.assign(name=part["mechanism"]), "risk"))
    return {"choices": choices}


def at_equal_risk(board: Board) -> pd.DataFrame:
    """What the results say of mechanisms at the same risk: panel, mechanism, risk and a share."""
    words = board.rows("equal_risk", "risk", "mechanism", "task")
    documents = board.rows("f1_at_risk", "risk", "mechanism")
    names = {task: corpora.label(task).replace("_", " ") for task in words["task"].unique()}
    words = words.assign(panel="words, sentiment of " + words["task"].map(names).astype(str))
    documents = documents.assign(panel="documents, sentiment of those whose author is asked for")
    return pd.concat([words, documents])


def _bars(label: str, table: pd.DataFrame, by: str) -> Json:
    """The values of a slider, and at each of them a bar for every name, empty where it has none."""
    names = list(dict.fromkeys(table["name"]))
    steps = []
    for _, part in table.groupby(by, sort=True):
        bars = {row["name"]: _bar(row) for _, row in part.iterrows()}
        steps.append([bars.get(name, {"label": _label(name)}) for name in names])
    return {"label": label, "values": sorted(table[by].unique().tolist()), "steps": steps}


def _bar(row: pd.Series) -> Json:
    """A share with its interval, the number of trials and the epsilon where there are any."""
    shares = {key: round(float(row[key]), 4) for key in ("value", "low", "high")}
    made: Json = {"label": _label(row["name"]), **shares}
    if aside := ASIDE.get(str(row["name"]).replace("_", "-")):
        made["aside"] = aside
    if not pd.isna(row.get("n", np.nan)):
        made["n"] = int(row["n"])
    if "mechanism" in row and not pd.isna(row.get("epsilon", np.nan)):
        made["note"] = f"ε = {row['epsilon']:.3g}"
    return made


def _label(name: str) -> str:
    """What figures call it; the name where they do not know it."""
    try:
        return figures.label(name)
    except InvalidInput:
        return name


PARTS = (
    Part(
        "sentence", "fig00_every_epsilon", "A sentence at every epsilon",
        "A film sentence as a sanitizer sends it, and below each word what an attacker takes it "
        "for. The attacker knows the mechanism and has read film reviews. Choose a word to see "
        "what else it may have been, with the attacker's probabilities.",
        sentence,
    ),
    Part(
        "lines", "fig02_lines", "How far the noise has to go",
        "Noise moves a word's vector along one direction, and the nearest word is sent. The score "
        "of each word is a straight line in the length of the noise; the highest line is the word "
        "that is sent. That is why all lengths can be searched at once.",
        lines,
    ),
    Part(
        "stencil", "fig03_attackers", "What a stencil hides",
        "A stencil sends the token nearest to a weighted mean of neighbouring vectors; sigma is "
        "how widely the weights spread. Each bar is the share of tokens that an attack recovers.",
        stencil,
    ),
    Part(
        "ladder", "fig05_ladder", "What the attacker knows",
        "All attackers know the embedding and see the same output. Tick what else yours knows: an "
        "attack whose needs are met stands in colour, and the strongest of them is what "
        "the sanitizer has to withstand.",
        ladder,
    ),
    Part(
        "scoreboard", SCOREBOARD, "Mechanisms at equal risk",
        "Epsilons of different mechanisms cannot be compared. Here each mechanism has the epsilon "
        "at which the strongest attack succeeds as often as the slider says; the bar is what is "
        "left of the use: accuracy, or F1, of a classifier for the sentiment.",
        scoreboard,
    ),
)  # fmt: skip


def plotted(path: Path) -> pd.DataFrame:
    """The numbers beside a figure; a word may be "null" or "nan"."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def page(read: Read) -> NotebookNode:
    """The page, whose parts are those figures that a run has left."""
    intro = (
        "# Play\n\nMove the sliders: everything shown was computed by the run that made the "
        "figures and lies in this page, so that nothing is fetched and nothing is executed. "
        "Sliders move by the arrow keys, too."
    )
    cells, data = [v4.new_markdown_cell(intro)], {}
    for part in PARTS:
        try:
            made = part.made(read(part.stem))
        except (FileNotFoundError, KeyError):
            continue
        if not any(made.get(key) for key in ("texts", "lines", "choices", "settings")):
            continue
        data[part.key] = made
        text = f"## {part.title}\n\n{part.says} ([the figure and its numbers](#{part.stem}))"
        cells += [
            v4.new_markdown_cell(text),
            shown(f"<div class='play' id='play-{part.key}'></div>"),
        ]
    if not data:
        cells.append(v4.new_markdown_cell("No figure of this run can be played with."))
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    cells.append(shown(f"<script type='application/json' id='play-data'>{embedded}</script>"))
    return v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def shown(html: str) -> NotebookNode:
    """A cell that shows HTML as it is: for what the site itself has made, never for a text."""
    output = v4.new_output("display_data", data={"text/html": html})
    return v4.new_code_cell("0", outputs=[output], metadata={"tags": ["remove-input"]})
