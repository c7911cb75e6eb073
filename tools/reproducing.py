"""REPRODUCING.md: every claim with its notebook, command, minutes and tolerance.

`make readme` writes it, from the results, the notebooks and the papers' claims; a test fails when
it is stale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from textpriv import paths
from textpriv.report import claims, results
from textpriv.report.claims import Claim
from textpriv.report.results import Results
from tools import notebooks
from tools.notebooks import Notebook

FILE = paths.REPOSITORY / "REPRODUCING.md"

_HEAD = """# Reproducing

*Made by `make readme`; do not edit.*

One notebook, one command, the claims that it is compared with. Minutes and memory are those of the
committed results. The tolerance is half a unit of the last digit that the paper prints, to which
our error is added, and the paper's where its number of trials is known. An ordering or a bound
*differs* only where that is certain; one that holds by less than the error is *same trend within
the error*, one that fails by less is *undecided*, and two numbers that mathematics makes one *tie*.
Only a *finding* is evidence: what holds by construction or by theorem tests the code. A paper says
one thing of many cells, and notebook 07 tests each such statement as one. The claims are rows of
[claims.csv](claims/claims.csv), which [claims/README](claims/README.md) explains;
`lib/textpriv/report/claims.py` compares, and the table at the end of every run counts. What cannot
be compared stands below each table, with the reason; where it says *paper profile*, a run with the
papers' own models and data is compared. What that would fetch and cost,
`./run_all.sh --profile paper --dry-run` says.
"""


_HEADER = ["claim", "place", "setting", "paper", "tolerance", "kind", "verdict", "because"]


def text() -> str:
    """The whole file."""
    return "\n".join([_HEAD, *("\n".join(_section(each)) for each in notebooks.find())])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(header), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tolerance(claim: Claim) -> str:
    """How far a measurement may lie from the paper's, before errors of measurement are added."""
    if claim.trend is not None:
        bound = claim.trend.at_least is not None or claim.trend.at_most is not None
        return "the bound" if bound else "the ordering"
    assert claim.rounding is not None  # the model guarantees it
    return f"{claim.rounding / 2:g}"


def _section(notebook: Notebook) -> Iterator[str]:
    name = notebook.name
    found = results.load(name) if results.file(name).exists() else None
    yield f"## {name}\n"
    yield f"`./run_all.sh --only {name[:2]} --force`: {_cost(found)}. It makes"
    figures = ", ".join(f"`figures/{stem}.png`" for stem in notebook.declares.figures)
    yield f"`results/{name}.json`{' and ' + figures if figures else ''}.\n"
    stated = claims.of(name)
    verdicts = claims.table(name, measured={} if found is None else found.by_name())
    rows = [
        [claim.id, claim.place, claim.setting, claim.stated, tolerance(claim), row.kind,
         row.verdict, row.reason]
        for claim, row in zip(stated, verdicts.itertuples(), strict=True)
        if claim.is_compared("default")
    ]  # fmt: skip
    if rows:
        yield table(_HEADER, rows) + "\n"
    reasons = Counter(
        (claim.is_compared(claims.PAPER), claim.reason)
        for claim in stated
        if not claim.is_compared("default")
    )
    if reasons:
        yield "Not comparable:\n"
        for (in_paper, reason), count in reasons.items():
            yield f"- {_claims(count)}{', *paper profile*' if in_paper else ''}: {reason}"
        yield ""
    if not stated:
        yield "No paper states a number that it measures.\n"


def _cost(found: Results | None) -> str:
    if found is None:
        return "not run yet"
    minutes, memory = found.seconds / 60, found.peak_mb / 1000
    return f"{minutes:.1f} minutes and {memory:.1f} GB on {found.device}"


def _claims(count: int) -> str:
    return "1 claim" if count == 1 else f"{count} claims"
