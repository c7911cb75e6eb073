"""What documents say of results, registries and claims: made by `make readme`, never by hand.

`python -m tools.documents` rewrites the generated blocks of README.md and `docs/` in place,
REPRODUCING.md, and what the preview has learned from notebook 06; tests fail when they are stale.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import as_file
from typing import Any

import numpy as np
import pandas as pd

from textpriv import assets, paths
from textpriv.evaluation import summaries
from textpriv.report import claims, results, verdicts
from textpriv.report.claims import Claim
from tools import forecast
from tools.notebooks import Notebook, find, heading, needed

REPRODUCING = paths.REPOSITORY / "REPRODUCING.md"
WITH_BLOCKS = (paths.REPOSITORY / "README.md", *sorted(paths.REPOSITORY.glob("docs/*.md")))
_NOT_RUN = "Not run yet: `make audit` makes this table."
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: str | Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = header.split(", ") if isinstance(header, str) else header
    lines = [list(names), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- Blocks ---------------------------------------------------------------------------------


def score() -> str:
    """What became of the papers' statements."""
    found = {claim.notebook: results.committed(claim.notebook) for claim in claims.load()}
    measured = {name: each.by_name() for name, each in found.items() if each}
    if len(measured) < len(found):
        return "Not run yet: `./run_all.sh` compares the papers' claims with its results."
    said = verdicts.score(verdicts.judge(measured))
    return f"{said} [07](notebooks/07_scoreboard.ipynb) lists them all."


def notebooks() -> str:
    """A row per notebook: question, what it replicates, cost, figures, verdicts on claims."""
    header = "notebook, question, of the papers, minutes, GB, on, figures, claims of the papers"
    return table(header, map(_notebook, find()))


def _notebook(notebook: Notebook) -> list[str]:
    name, found = notebook.name, results.committed(notebook.name)
    title = heading(notebook.cells, 0).partition("· ")[2]
    row = [f"[{name}](notebooks/{name}.ipynb)", title, _replicated(name)]
    if not found:
        return [*row, "not run yet", *[""] * 4]
    counted = verdicts.count(name, found.by_name(), "default")
    said = ", ".join(f"{n} {label}" for label, n in counted.items()) or "none"
    first, *others = found.figures
    alt = first.partition("_")[2].replace("_", " ")
    folder = paths.output_directory(found.profile, "figures").relative_to(paths.REPOSITORY)
    shown = f'[<img src="{folder}/{first}.png" width="180" alt="{alt}">]({folder}/{first}.png)'
    more = " ".join(f"[{other[6:]}]({folder}/{other}.png)" for other in others)
    run = results.load(name)  # what a newcomer's run costs
    cost = [f"{run.seconds / 60:.1f}", f"{run.peak_mb / 1000:.1f}", run.device]
    return [*row, *cost, f"{shown} {more}".strip(), said]


def _replicated(notebook: str) -> str:
    """The tables and figures of the papers that a notebook compares with its own results."""
    found: dict[str, set[str]] = {}
    for claim in claims.of(notebook):
        places = re.findall(r"(?:Table|Figure) \w+", claim.place)
        found.setdefault(claim.paper.capitalize(), set()).update(places)
    return "; ".join(
        f"{paper} {', '.join(sorted(named))}" for paper, named in sorted(found.items())
    )


def mechanisms() -> str:
    """A row per mechanism, from the claims that the mechanisms themselves state."""
    from textpriv.mechanisms.dp_fusion import DPFusion
    from textpriv.mechanisms.dp_mlm import DPMLM
    from textpriv.mechanisms.prompt import DPPrompt
    from textpriv.mechanisms.registry import examples
    from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace

    stated = {name: made.claim for name, made in examples().items()}
    whole = (TruncatedLaplace, DeepCandidate, DPPrompt, DPMLM, DPFusion)
    stated |= {each.name: each.claim for each in whole}
    header = "mechanism, guarantee, what is protected, unit of eps, stays in clear, unknown words, "
    rows = [
        [name, each.definition, each.protects, each.unit, each.in_clear, each.unknown,
         each.composition]
        for name, each in stated.items()
    ]  # fmt: skip
    return table(header + "several uses cost", rows)


def data() -> str:
    """A row per registered data set or model: what it weighs, who needs it, what is allowed."""
    default, paper = (
        {notebook.name[:2]: needed(notebook, profile) for notebook in find()}
        for profile in ("default", "paper")
    )
    rows = [
        [
            asset.id, asset.title, asset.kind, str(forecast.size(asset)),
            *(", ".join(n for n, ids in needs.items() if asset.id in ids)
              for needs in (default, paper)),
            asset.data_licence, asset.redistribution,
        ]
        for asset in assets.registry().values()
    ]  # fmt: skip
    header = "id, what, kind, download, notebooks, with the paper profile, licence of the data, "
    return table(header + "may be passed on", rows)


def audited() -> str:
    """A row per audit: what was put to the test, how, and the verdict; and the mutants caught."""
    from tools import audits  # late, because it needs torch

    if not (audits.folder() / "audits.json").exists():
        return _NOT_RUN
    kept, found = audits.load("audits.json"), audits.audits()
    rows = [
        [
            each.label, each.setting, each.method, f"{each.pairs:,}",
            f"{each.draws:,}" if each.draws else "all outputs",
            "" if np.isnan(each.worst_ratio) else f"{each.worst_ratio:.3f}",
            f"{each.excess:.3f}",
            "" if each.caught_from is None else f"{each.caught_from:.2f}",
            each.verdict,
        ]
        for each in found
    ]  # fmt: skip
    header = "mechanism, setting, audit, pairs, draws, worst ratio, detectable excess, "
    kept_claims = [each for each in found if not each.published and each.verdict != "no claim"]
    claimed, broken = len(kept_claims), sum(each.verdict == "broken" for each in kept_claims)
    overstated = sum(each.published and each.verdict == "broken" for each in found)
    caught = f"{kept['mutants_caught']} of {kept['mutants_tried']}"
    return (
        f"{table(header + 'caught from, verdict', rows)}\n\n{claimed} attempts to break a claim, "
        f"{broken} successful.{_overstated(overstated)} Of mechanisms that were made wrong on "
        f"purpose the same audits caught {caught}."
    )


def _overstated(count: int) -> str:
    """What papers state and their mechanisms do not keep, which the audits show."""
    return f" Claims as published that do not hold: {count}." if count else ""


def statements() -> str:
    """A row per mechanism: the bound of one text, what is really lost, and the best attack."""
    from tools import audits

    if not (audits.folder() / "statements.json").exists():
        return _NOT_RUN
    header = "mechanism, setting and text, published eps, tight eps, eps (delta), best attack, "
    rows = [
        [
            each["mechanism"], f"{each['setting']}; {each['text']}", _bound(each["nominal"]),
            _tight(each), f"{_bound(each['composed'])} ({each['delta']:g})",
            *_attacked(each["attacked"]),
        ]
        for each in audits.load("statements.json")["statements"]
    ]  # fmt: skip
    return table(header + "what it achieved", rows)


def _bound(value: object) -> str:
    number = float(str(value))  # infinity is kept as a word
    return f"{number:,.0f}" if np.isfinite(number) else "no bound"


def _tight(row: dict[str, Any]) -> str:
    """What really can be lost: exactly, at least, or unknown."""
    tight, least = float(row["tight"]), float(row["least"])
    if not np.isnan(tight) or not np.isfinite(float(row["nominal"])):
        return _bound(tight)
    return "unknown" if np.isnan(least) else f"at least {least:,.0f}"


def _attacked(attacked: dict[str, Any] | None) -> tuple[str, str]:
    """The best attack and what it achieved."""
    if attacked is None:
        return "none measured", ""
    value, low, high = (f"{100 * attacked['success'][k]:.0f}" for k in ("value", "low", "high"))
    return attacked["attack"], f"{attacked['did'].format(value)} ({low} to {high})"


BLOCKS: dict[str, Callable[[], str]] = {
    "score": score,
    "notebooks": notebooks,
    "mechanisms": mechanisms,
    "audits": audited,
    "statements": statements,
    "data": data,
}


def rendered(text: str) -> str:
    """The text of a document with every generated block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


# --- REPRODUCING.md -------------------------------------------------------------------------

_HEAD = """# Reproducing

*Made by `make readme`; do not edit.*

One notebook, one command, the claims that it is compared with. Results are those of the full
profile where it has been run, else of the default one; minutes and memory are those of that run.
The tolerance is half a unit of the last digit that the paper prints, to which our error is added,
and the paper's where its number of trials is known. An ordering or a bound *differs* only where
that is certain; one that holds by less than the error is *same trend within the error*, one that
fails by less is *undecided*, and two numbers that mathematics makes one *tie*. Only a *finding* is
evidence: what holds by construction or by theorem tests the code. A paper says one thing of many
cells, and notebook 07 tests each such statement as one. The claims are rows of
[claims.csv](claims/claims.csv), which [claims/README](claims/README.md) explains;
`lib/textpriv/report/verdicts.py` compares, and the table at the end of a run counts. What cannot be
compared stands below each table, with the reason; where it says *paper profile*, a run with the
papers' own models and data is compared. What that would fetch and cost, `./run_all.sh --profile
paper --dry-run` says.
"""


def reproducing() -> str:
    """REPRODUCING.md: every claim with its notebook, command, minutes and tolerance."""
    return "\n".join([_HEAD, *("\n".join(_section(each)) for each in find())])


def tolerance(claim: Claim) -> str:
    """How far a measurement may lie from the paper's, before errors of measurement are added."""
    if claim.trend is not None:
        return "the ordering" if claim.trend.bound is None else "the bound"
    assert claim.rounding is not None  # the model guarantees it
    return f"{claim.rounding / 2:g}"


def _section(notebook: Notebook) -> Iterator[str]:
    name, found = notebook.name, results.committed(notebook.name)
    profile = found.profile if found else "default"
    chosen = "" if profile == "default" else f" --profile {profile}"
    cost = "not run yet"
    if found:
        minutes, memory = found.seconds / 60, found.peak_mb / 1000
        cost = f"{minutes:.1f} minutes and {memory:.1f} GB on {found.device}"
    made, drawn = (
        paths.output_directory(profile, kind).relative_to(paths.REPOSITORY)
        for kind in ("results", "figures")
    )
    yield f"## {name}\n"
    yield f"`./run_all.sh{chosen} --only {name[:2]} --force`: {cost}. It makes"
    figures = ", ".join(f"`{drawn}/{stem}.png`" for stem in notebook.declares.figures)
    yield f"`{made}/{name}.json`{' and ' + figures if figures else ''}.\n"
    stated = claims.of(name)
    compared = verdicts.table(name, measured={} if found is None else found.by_name())
    rows = [
        [claim.id, claim.place, claim.setting, claim.stated, tolerance(claim), row.kind,
         row.verdict, row.reason]
        for claim, row in zip(stated, compared.itertuples(), strict=True)
        if claim.is_compared("default")
    ]  # fmt: skip
    if rows:
        header = "claim, place, setting, paper, tolerance, kind, verdict, because"
        yield table(header, rows) + "\n"
    reasons = Counter(
        (claim.is_compared(claims.PAPER), claim.reason)
        for claim in stated
        if not claim.is_compared("default")
    )
    if reasons:
        yield "Not comparable:\n"
        for (in_paper, reason), count in reasons.items():
            counted = "1 claim" if count == 1 else f"{count} claims"
            yield f"- {counted}{', *paper profile*' if in_paper else ''}: {reason}"
        yield ""
    if not stated:
        yield "No paper states a number that it measures.\n"


def learned_by_the_preview() -> str:
    """From the rows behind the boxes of notebook 06."""
    return summaries.learned_from(pd.read_csv(paths.REPOSITORY / "figures/fig06_distributions.csv"))


def main() -> None:
    """Rewrite them all."""
    for path in WITH_BLOCKS:
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    REPRODUCING.write_text(reproducing(), encoding="utf-8")
    with as_file(summaries.LEARNED) as path:
        path.write_text(learned_by_the_preview(), encoding="utf-8")


if __name__ == "__main__":
    main()
