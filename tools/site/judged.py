"""The page of claims: every number and ordering of the papers with ours, and what became of it.

What was compared stands first; what was not is folded away. `static/claims.js` makes one list of
both that can be sorted and filtered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from nbformat import NotebookNode, v4

from textpriv.report import claims, results, verdicts
from textpriv.report.claims import Claim
from textpriv.report.verdicts import Verdict
from tools.documents import table
from tools.notebooks import Notebook
from tools.site.play import shown

COLUMNS = ("Paper", "Claim", "Theirs", "Ours", "Verdict")


class Row(NamedTuple):
    """One claim: of which paper, what it says and where, the numbers, the verdict and why."""

    paper: str
    says: str  # of the statement whose cell it is; "" where it is a number
    setting: str
    place: str
    notebook: str
    stated: str
    ours: str
    verdict: str
    reason: str

    @property
    def html(self) -> str:
        """A row of the table; whatever it shows is escaped."""
        where = (
            f"{escape(self.place)}, <a href='notebooks/{escape(self.notebook)}.html'>"
            f"notebook {escape(self.notebook[:2])}</a>"
        )
        said = f"{escape(self.says)} " if self.says else ""
        cells = (
            escape(claims.PAPERS[self.paper]),
            f"{said}<small>{escape(self.setting)} ({where})</small>",
            escape(self.stated),
            escape(self.ours),
            f"<b>{escape(self.verdict)}</b> <small>{escape(self.reason)}</small>",
        )
        named = zip(COLUMNS, cells, strict=True)
        drawn = "".join(f"<td data-label='{name}'>{cell}</td>" for name, cell in named)
        return f"<tr data-verdict='{escape(self.verdict)}'>{drawn}</tr>"


def rows(notebooks: Sequence[Notebook]) -> list[Row]:
    """The claims about these notebooks, in the order of the papers."""
    made, says = [], {each.id: each.says for each in claims.statements()}
    for name in (source.name for source in notebooks):
        run = results.committed(name)
        measured = run.by_name() if run else {}
        for claim, outcome in verdicts.verdicts_of(name, measured, "default"):
            place = f"{claim.place}, {claim.kind}" if claim.trend else claim.place
            ours = verdicts.ours(claim, measured) or "not measured"
            reason = re.sub(rf"(; |^)ours: {re.escape(ours)}$", "", outcome.reason)
            of_what = (says.get(claim.statement, ""), claim.setting, place, name)
            made.append(
                Row(claim.paper, *of_what, shortened(claim), ours, str(outcome.verdict), reason)
            )
    return sorted(made, key=lambda row: [*claims.PAPERS].index(row.paper))


def shortened(claim: Claim) -> str:
    """What a paper prints; of an ordering, in what the names of its measurements differ."""
    if claim.trend is None or claim.trend.bound is not None:
        return claim.stated
    names = [re.split(r"(?<!\d)\.|\.(?!\d)", name) for name in claim.measurements]
    first, last = 0, 0
    while all(len(name) > first + 1 and name[first] == names[0][first] for name in names):
        first += 1
    while all(len(name) - last > first + 1 and name[~last] == names[0][~last] for name in names):
        last += 1
    apart = [" ".join(name[first : len(name) - last]).replace("_", " ") for name in names]
    return (" = " if claim.trend.form == "equal" else " > ").join(apart)


def page(notebooks: Sequence[Notebook]) -> NotebookNode:
    """The page: what verdicts mean, how many there are, and the claims."""
    every = rows(notebooks)
    counted = Counter((row.paper, row.verdict) for row in every)
    kinds = [str(verdict) for verdict in Verdict]
    totals = [
        [name, *(str(counted[paper, kind]) for kind in kinds)]
        for paper, name in claims.PAPERS.items()
    ]
    apart = [row for row in every if row.verdict == Verdict.NOT_COMPARABLE]
    compared = [row for row in every if row.verdict != Verdict.NOT_COMPARABLE]
    text = (
        "# Claims of the papers",
        "The numbers and orderings that the four papers print, and what became of them. "
        "**Match**: inside the paper's rounding plus our error. **Confirmed**, "
        "**contradicted**: a test decides that the stated ordering or bound holds, or fails; where "
        "it decides nothing, our estimate **leans towards the paper** or **against the paper**. "
        "**Tie**: mathematics makes the two numbers one. **Not comparable**: other data, models or "
        "settings, for the reason given. Only a *finding* is evidence; what holds by construction "
        "or by theorem is none.",
        table(["Paper", *kinds], totals),
        "## What was compared",
    )
    cells = [v4.new_markdown_cell("\n\n".join(text)), shown(listed(compared, apart))]
    return v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def listed(compared: Sequence[Row], apart: Sequence[Row]) -> str:
    """Both tables, the second folded."""
    return (
        f"<div class='claims'>{_table(compared)}<details><summary>Not compared: {len(apart):,} "
        f"claims, each with the reason</summary>{_table(apart)}</details></div>"
    )


def _table(rows: Iterable[Row]) -> str:
    heads = "".join(f"<th scope='col'>{name}</th>" for name in COLUMNS)
    body = "\n".join(row.html for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
