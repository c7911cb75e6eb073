"""What documents say of results, registries and claims: made by `make readme`, never by hand.

`python -m tools.documents` rewrites the generated blocks of README.md and `docs/` in place,
REPRODUCING.md, and what the preview has learned from notebook 06; tests fail when they are stale.
README is for a first look; tables that are longer stand in `docs/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import as_file
from typing import Any

import numpy as np
import pandas as pd

from textpriv import assets, paths, profiles
from textpriv.evaluation import summaries
from textpriv.experiments import scoreboard, scoreboard_headline
from textpriv.experiments import scoreboard_advice as advice
from textpriv.experiments import scoreboard_findings as findings
from textpriv.privacy import Audit
from textpriv.report import board, claims, results, verdicts
from textpriv.report.verdicts import Judgement, Verdict
from tools import forecast
from tools.notebooks import Notebook, find, heading, needed

REPRODUCING = paths.REPOSITORY / "REPRODUCING.md"
WITH_BLOCKS = (
    paths.REPOSITORY / "README.md",
    paths.REPOSITORY / "ARTIFACT-APPENDIX.md",
    *sorted(paths.REPOSITORY.glob("docs/*.md")),
)
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite them all."""
    for path in WITH_BLOCKS:
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    REPRODUCING.write_text(reproducing(), encoding="utf-8")
    with as_file(summaries.LEARNED) as path:
        path.write_text(learned_by_the_preview(), encoding="utf-8")


def rendered(text: str) -> str:
    """The text of a document with every generated block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def table(header: str | Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = header.split(", ") if isinstance(header, str) else header
    lines = [list(names), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- Blocks ---------------------------------------------------------------------------------


def score() -> str:
    """What became of the papers' statements."""
    names = dict.fromkeys(claim.notebook for claim in claims.load())
    measured = {name: results.load_or_default(name, "full").by_name() for name in names}
    said = verdicts.Findings.of(verdicts.judge(measured))
    return f"{said} [07](notebooks/07_scoreboard.ipynb) lists all."


def headline() -> str:
    """Whether a changed word is a hidden one: the sentences beside the first figure."""
    gathered = board.gather("full")
    points = scoreboard.word_points(gathered)
    said = scoreboard_headline.headline(scoreboard_headline.settings(points)).text
    return f"{said}\n\n{scoreboard_headline.alone(gathered)}".strip()


def conclusions() -> str:
    """What notebook 07 concludes beside the choice of a mechanism, in a list."""
    gathered = board.gather("full")
    said = [
        ("05", findings.context(gathered)),
        ("09", findings.against_both(gathered, scoreboard.equal_utility(gathered))),
        ("03", findings.window(gathered, scoreboard.manipulated_tokens(gathered))),
        ("04", findings.documents(gathered)),
        ("08", findings.vectors(gathered)),
        ("08", findings.rewritten(scoreboard.whole_texts(gathered), "full")),
        ("02", findings.search(gathered)),
    ]
    files = {notebook.name[:2]: notebook.file for notebook in find()}
    return "\n".join(
        f"- {finding} ([{number}](notebooks/{files[number]}))" for number, finding in said
    )


def choice() -> str:
    """Which mechanism stands out for what one wants to send, and what is proved."""
    gathered = board.gather("full")
    sizes = profiles.load("full", "07_scoreboard", scoreboard.Sizes, {})
    at = scoreboard.equal_risk(scoreboard.word_points(gathered), [sizes.shown_risk])
    rows = advice.choice(gathered, at)
    return f"{table(rows.columns, rows.to_numpy())}\n\n{findings.proved(scoreboard.statements())}"


def chapters() -> str:
    """Every notebook with what it asks."""
    return "\n".join(f"- {_link(each, 'notebooks')}: {_question(each)}" for each in find())


def costs() -> str:
    """A row per notebook: minutes and memory of the runs that git holds, and their sum."""
    runs = [
        [results.load_if_present(notebook.name, run) for run in ("default", "full")]
        for notebook in find()
    ]
    rows = [
        [_link(notebook, "notebooks"), *(cell for run in pair for cell in _cost_and_place(run))]
        for notebook, pair in zip(find(), runs, strict=True)
    ]
    columns = [[run for run in column if run] for column in zip(*runs, strict=True)]
    rows.append(["together", *(cell for column in columns for cell in _sum(column))])
    return table("notebook, minutes (default), GB (default), minutes (full), GB (full)", rows)


def _cost_and_place(run: results.Results | None) -> tuple[str, str]:
    """Minutes, with the devices where it was not the processor alone, and memory."""
    minutes, memory = _cost(run)
    return f"{minutes} ({run.devices})" if run and run.devices != "cpu" else minutes, memory


def _cost(run: results.Results | None) -> tuple[str, str]:
    return (f"{run.seconds / 60:.1f}", f"{run.peak_mb / 1000:.1f}") if run else ("", "")


def _sum(runs: list[results.Results]) -> tuple[str, str]:
    """Minutes add up, and the most memory counts."""
    minutes, most = sum(run.seconds for run in runs) / 60, max(run.peak_mb for run in runs)
    return f"{minutes:.0f}", f"{most / 1000:.1f}"


def notebooks() -> str:
    """A row per notebook: question, what it replicates, cost, figures, verdicts on claims."""
    header = "notebook, question, of the papers, minutes, GB, on, figures, claims of the papers"
    return table(header, map(_notebook, find()))


def _link(notebook: Notebook, folder: str) -> str:
    return f"[{notebook.name}]({folder}/{notebook.name}.ipynb)"


def _question(notebook: Notebook) -> str:
    return heading(notebook.cells, 0).partition("· ")[2]


def _notebook(notebook: Notebook) -> list[str]:
    name, run = notebook.name, results.load_or_default(notebook.name, "full")
    row = [_link(notebook, "../notebooks"), _question(notebook), _replicated(name)]
    counted = verdicts.count(name, run.by_name(), "default")
    said = ", ".join(f"{n} {label}" for label, n in counted.items()) or "none"
    first, *others = run.figures
    alt = first.partition("_")[2].replace("_", " ")
    drawn = paths.output_directory(run.profile, "figures").relative_to(paths.REPOSITORY)
    folder = f"../{drawn}"
    shown = f'[<img src="{folder}/{first}.png" width="180" alt="{alt}">]({folder}/{first}.png)'
    more = " ".join(f"[{other[6:]}]({folder}/{other}.png)" for other in others)
    newcomer = results.load(name)
    return [*row, *_cost(newcomer), newcomer.devices, f"{shown} {more}".strip(), said]


def _replicated(notebook: str) -> str:
    """The tables and figures of the papers that a notebook compares with its own results."""
    by_paper: dict[str, set[str]] = {}
    for claim in claims.for_notebook(notebook):
        places = re.findall(r"(?:Table|Figure) \w+", claim.place)
        by_paper.setdefault(claim.paper.capitalize(), set()).update(places)
    return "; ".join(
        f"{paper} {', '.join(sorted(named))}" for paper, named in sorted(by_paper.items())
    )


def mechanisms() -> str:
    """A row per mechanism, from the claims that the mechanisms themselves state."""
    from textpriv.mechanisms.allotted import Allotted
    from textpriv.mechanisms.dp_fusion import DPFusion
    from textpriv.mechanisms.dp_mlm import DPMLM
    from textpriv.mechanisms.prompt import DPPrompt
    from textpriv.mechanisms.registry import examples
    from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace

    made = examples()
    santext = made["santext"]
    by_group = Allotted(santext, np.arange(santext.size) % 2, [0.5, 1])
    stated = {name: each.claim for name, each in made.items()} | {by_group.name: by_group.claim}
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

    kept, performed = audits.load("audits.json"), audits.audits()
    rows = [
        [
            audit.label, audit.setting, audit.method, f"{audit.pairs:,}",
            _draws(audit),
            "by proof" if audit.by_proof
            else "" if np.isnan(audit.worst_ratio) else f"{audit.worst_ratio:.3f}",
            f"{audit.excess:.3f}",
            "" if audit.caught_from is None else f"{audit.caught_from:.2f}",
            audit.verdict,
        ]
        for audit in performed
    ]  # fmt: skip
    header = "mechanism, setting, audit, pairs, draws, worst ratio, detectable excess, "
    claimed = [audit for audit in performed if not audit.published and audit.verdict != "no claim"]
    watched, broken = (
        sum(audit.by_proof for audit in claimed),
        sum(audit.verdict == "broken" for audit in claimed),
    )
    read = [audit.verdict for audit in performed if audit.published]
    caught = f"{kept['mutants_caught']} of {kept['mutants_tried']}"
    commit = f" All of it at commit {kept['commit'][:7]}." if kept["commit"] else ""
    return (
        f"{table(header + 'caught from, verdict', rows)}\n\nOf {len(claimed)} audits of a claim "
        "(an exact one of every pair has the draws of that of nearest pairs, which counts too) "
        f"{broken} broke it; "
        f"{watched} of them compared noise with a proof. Of {len(read)} "
        f"stronger readings {read.count('broken')} are broken. Of mechanisms that were made wrong "
        f"on purpose the same checks caught {caught}.{commit}"
    )


def _draws(audit: Audit) -> str:
    """How many outputs were counted, or released ones compared with the probabilities of all."""
    if audit.draws or not audit.fit_draws:
        return f"{audit.draws:,}" if audit.draws else "all outputs"
    gap = f", gap {audit.fit_gap:.3f}" if audit.fit_gap else ""
    return f"all outputs; {audit.fit_draws:,} released{gap}"


def statements() -> str:
    """A row per mechanism: the bound of one text, what is really lost, and the best attack."""
    from tools import audits

    header = "mechanism, setting and text, claimed eps, tight eps, eps (delta), best attack, "
    rows = [
        [
            each["mechanism"], f"{each['setting']}; {each['text']}", _bound(each["nominal"]),
            _tight(each), f"{_bound(each['composed'])} ({each['delta']:g})",
            *_attacked(each["attacked"], each["note"]),
        ]
        for each in audits.load("statements.json")["statements"]
    ]  # fmt: skip
    return table(header + "what it achieved", rows)


def _bound(value: object) -> str:
    number = float(str(value))  # infinity is kept as a word
    return f"{number:,.0f}" if np.isfinite(number) else "none claimed"


def _tight(row: dict[str, Any]) -> str:
    """What really can be lost: exactly, at least, or unknown."""
    tight, least = float(row["tight"]), float(row["least"])
    if not np.isnan(tight) or not np.isfinite(float(row["nominal"])):
        return _bound(tight)
    return "unknown" if np.isnan(least) else f"at least {least:,.0f}"


def _attacked(attacked: dict[str, Any] | None, note: str) -> tuple[str, str]:
    """The best attack and what it achieved, and what else a reader must know."""
    if attacked is None:
        return "none measured", note
    value, low, high = (attacked["success"][each] for each in ("value", "low", "high"))
    whole, _, ends = scoreboard_headline.told(value, low, high, unit="").partition(" (")
    did = f"{attacked['did'].format(whole)} ({ends}"
    return attacked["attack"], f"{did}. {note}" if note else did


BLOCKS: dict[str, Callable[[], str]] = {
    "score": score,
    "headline": headline,
    "found": conclusions,
    "choice": choice,
    "chapters": chapters,
    "costs": costs,
    "notebooks": notebooks,
    "mechanisms": mechanisms,
    "audits": audited,
    "statements": statements,
    "data": data,
}


# --- REPRODUCING.md -------------------------------------------------------------------------

_HEAD = """# Reproducing

*Made by `make readme`; do not edit.*

One notebook, one command, the statements of the papers that it tests. Results are those of the
full profile where it has been run, else of the default one; minutes and memory (in
most of these runs without the workers that it starts) are those of that run.

**Tolerance.** A statement is an ordering or a bound, of one or many cells of a table. It is
*confirmed* or *contradicted* where a test says so in each of its cells, in most, or on average over
them, as its words ask; at 5% over all findings (Holm), those withdrawn since among them, and apart
from them over what holds by construction or by theorem. (Where few trainings of an attacker carry
the error, tests at so small levels are surer than they should be.) Where the test decides nothing,
our estimate *leans towards the paper* or *leans against the paper*; measurements that mathematics
makes one *tie*. That there is nothing, or that two are comparable, no sample can show: it is read
as less than a point (of F1, which is printed to one, two points). Only findings are evidence: what
holds by construction or by theorem tests the code. Whether a statement is read of each cell or on
average was settled when first results were known, by the papers' words alone (what higher
temperatures do, and windows and sigmas of the punctuated stencil, tables show and no sentence says:
these are read as tendencies), and checked by a reader who had not seen them; *reread* marks every
statement whose reading, cells or margin were settled or changed then or later, and {throughout} of
the {tested} would be confirmed if each were read as true of every one of its cells. A printed
number may lie half a unit of its last digit from ours, to which our error is added, and the paper's
where its number of trials is known; each is judged by itself, at 5%.

Every number and ordering of the papers is a row of [claims.csv](claims/claims.csv), which
[claims/README](claims/README.md) explains, with the reason where it is not compared; each notebook
ends with those it compares, and the site sorts and filters them. `lib/textpriv/report/verdicts.py`
has the tests. [ARTIFACT-APPENDIX](ARTIFACT-APPENDIX.md) says how to check the whole.
"""


def reproducing() -> str:
    """REPRODUCING.md: every statement with its notebook, command, minutes and verdict."""
    runs = {each.name: results.load_or_default(each.name, "full") for each in find()}
    judged = verdicts.judge({name: run.by_name() for name, run in runs.items()})
    of_claim = {claim.id: claim.notebook for claim in claims.load()}
    by_notebook: dict[str, list[Judgement]] = {}
    for each in judged:
        by_notebook.setdefault(of_claim[next(iter(each.cells))], []).append(each)
    parts = (_section(each, runs[each.name], by_notebook.get(each.name, [])) for each in find())
    tally = verdicts.Findings.of(judged)
    head = _HEAD.format(throughout=tally.throughout, tested=tally.tested)
    return "\n".join([head, *("\n".join(part) for part in parts)])


def _section(
    notebook: Notebook, run: results.Results, judged: Iterable[Judgement]
) -> Iterator[str]:
    name, profile = notebook.name, run.profile
    chosen = "" if profile == "default" else f" --profile {profile}"
    cost = "{} minutes and {} GB on {}".format(*_cost(run), run.devices)
    if run.elsewhere:
        cost += ", longer on a processor alone"
    made, drawn = (
        paths.output_directory(profile, kind).relative_to(paths.REPOSITORY)
        for kind in ("results", "figures")
    )
    yield f"## {name}\n"
    yield f"`./run_all.sh{chosen} --only {name[:2]} --force`: {cost}. It makes"
    count = len(notebook.declares.figures)
    pictures = f" and {count} figures, `{drawn}/fig{name[:2]}_*`" if count else ""
    yield f"`{made}/{name}.json`{pictures}.\n"
    stated = claims.for_notebook(name)
    if not stated:
        yield "No paper states a number that it measures.\n"
        return
    tested = [each for each in judged if each.verdict != Verdict.NOT_COMPARABLE]
    if tested:
        header = "place, statement, verdict, because"
        yield table(header, map(_judged, tested)) + "\n"
    compared = sum(claim.is_compared("default") for claim in stated)
    bigger = sum(claim.compared == claims.PAPER for claim in stated)
    untested = sum(each.verdict == Verdict.NOT_COMPARABLE for each in judged)
    yield (
        f"{compared} of its {len(stated)} claims are compared here, and {bigger} more with the "
        f"paper profile; statements that were not tested: {untested}.\n"
    )


_READ = {claims.Reading.MOST: "in most cells", claims.Reading.AVERAGE: "on average"}


def _judged(judgement: Judgement) -> list[str]:
    """Place, statement (with what it is evidence of, and of how many cells), verdict, reason."""
    kind = "" if judgement.kind == claims.Kind.FINDING else f" ({judgement.kind})"
    reading = judgement.statement.reading
    remark = f" ({_READ[reading]})" if reading in _READ else ""
    remark += " *reread*" if judgement.statement.reread else ""
    place = f"{claims.PAPERS[judgement.paper].removesuffix(' et al.')}, {judgement.place}"
    return [
        place,
        f"{judgement.statement.says}{kind}{remark}",
        str(judgement.verdict),
        judgement.reason,
    ]


def learned_by_the_preview() -> str:
    """From the rows behind the boxes of notebook 06."""
    run = results.load_or_default("06_slm_utility", "full")
    rows = paths.output_directory(run.profile, "figures") / "fig06_distributions.csv"
    return summaries.learned_from(pd.read_csv(rows))


if __name__ == "__main__":
    main()
