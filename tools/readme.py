"""The parts of README.md that are made from results, registries and claims, never by hand.

`python -m tools.readme` rewrites them in place, and REPRODUCING.md with them; tests
fail when they are stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from textpriv import assets, paths
from textpriv.report import claims, results
from tools import forecast, reproducing
from tools.notebooks import find, heading, needed, read
from tools.reproducing import table as _table

FILE = paths.REPOSITORY / "README.md"
_NOT_RUN = "Not run yet: `make audit` makes this table."
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def score() -> str:
    """What became of the papers' statements."""
    notebooks = {claim.notebook for claim in claims.load()}
    if not all(results.file(notebook, "default").exists() for notebook in notebooks):
        return "Not run yet: `./run_all.sh` compares the papers' claims with its results."
    measured = {each: results.load(each, "default").by_name() for each in notebooks}
    said = claims.score(claims.judge(measured))
    return f"{said} [07](notebooks/07_scoreboard.ipynb) lists them all."


def notebooks() -> str:
    """A row per notebook: question, what it replicates, cost, figures, verdicts on claims."""
    rows = []
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb")):
        link, title = f"[{path.stem}](notebooks/{path.name})", _title(path)
        if not results.file(path.stem, "default").exists():
            rows.append([link, title, _replicated(path.stem), "not run yet", *[""] * 4])
            continue
        found = results.load(path.stem, "default")
        verdicts = claims.count(path.stem, found.by_name(), "default")
        said = ", ".join(f"{n} {label}" for label, n in verdicts.items()) or "none"
        first, *others = (f"figures/{figure}.png" for figure in found.figures)
        name = first.removesuffix(".png").partition("_")[2]
        shown = f'[<img src="{first}" width="180" alt="{name.replace("_", " ")}">]({first})'
        more = " ".join(f"[{other[14:-4]}]({other})" for other in others)
        rows.append(
            [
                link,
                title,
                _replicated(path.stem),
                f"{found.seconds / 60:.1f}",
                f"{found.peak_mb / 1000:.1f}",
                found.device,
                f"{shown} {more}".strip(),
                said,
            ]
        )
    header = ["notebook", "question", "of the papers", "minutes", "GB", "on", "figures"]
    return _table([*header, "claims of the papers"], rows)


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
    from textpriv.corpora import Documents
    from textpriv.embeddings import from_arrays
    from textpriv.experiments.mechanisms import prepare
    from textpriv.mechanisms.prompt import DPPrompt
    from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace

    # Claims do not depend on the vocabulary, so a small made-up one will do.
    words = [f"word{number}" for number in range(40)]
    vectors = np.random.default_rng(0).standard_normal((40, 3))
    made = prepare(from_arrays("any", words, vectors), Documents("any", ("word1",), {}))
    stated = {name: each.claim for name, each in made.mechanisms.items()}
    stated |= {each.name: each.claim for each in (TruncatedLaplace, DeepCandidate, DPPrompt)}
    rows = [
        [
            name,
            claim.definition,
            claim.protects,
            claim.unit,
            claim.in_clear,
            claim.unknown,
            claim.composition,
        ]
        for name, claim in stated.items()
    ]
    header = ["mechanism", "guarantee", "what is protected", "unit of eps", "stays in clear"]
    header += ["unknown words", "several uses cost"]
    return _table(header, rows)


def data() -> str:
    """A row per registered data set or model: what it weighs, who needs it, what is allowed."""
    default, paper = _needed("default"), _needed("paper")
    rows = [
        [
            asset.id,
            asset.title,
            asset.kind,
            str(forecast.size(asset)),
            default.get(asset.id, ""),
            paper.get(asset.id, ""),
            asset.data_licence,
            asset.redistribution,
        ]
        for asset in assets.registry().values()
    ]
    header = ["id", "what", "kind", "download", "notebooks", "with the paper profile"]
    return _table([*header, "licence of the data", "may be passed on"], rows)


def _needed(profile: str) -> dict[str, str]:
    """By asset, the numbers of the notebooks that need it under a profile."""
    found: dict[str, list[str]] = {}
    for notebook in find():
        for asset_id in needed(notebook, profile):
            found.setdefault(asset_id, []).append(notebook.name[:2])
    return {asset_id: ", ".join(numbers) for asset_id, numbers in found.items()}


def audited() -> str:
    """A row per audit: what was put to the test, how, and the verdict; and the mutants caught."""
    from tools import audits

    if not (audits.folder() / "audits.json").exists():
        return _NOT_RUN
    kept, found = audits.load("audits.json"), audits.audits()
    rows = [
        [
            each.mechanism,
            each.setting,
            each.method,
            f"{each.pairs:,}",
            f"{each.draws:,}" if each.draws else "all outputs",
            "" if np.isnan(each.worst_ratio) else f"{each.worst_ratio:.3f}",
            f"{each.excess:.3f}",
            "" if each.caught_from is None else f"{each.caught_from:.2f}",
            each.verdict,
        ]
        for each in found
    ]
    header = ["mechanism", "setting", "audit", "pairs", "draws", "worst ratio"]
    table = _table([*header, "detectable excess", "caught from", "verdict"], rows)
    claimed = sum(each.verdict != "no claim" for each in found)
    broken = sum(each.verdict == "broken" for each in found)
    caught = f"{kept['mutants_caught']} of {kept['mutants_tried']}"
    return (
        f"{table}\n\n{claimed} attempts to break a claim, {broken} successful. Of mechanisms that "
        f"were made wrong on purpose the same audits caught {caught}."
    )


def statements() -> str:
    """A row per mechanism: the bound of one text, what is really lost, and the best attack."""
    from tools import audits

    if not (audits.folder() / "statements.json").exists():
        return _NOT_RUN
    rows = []
    for each in audits.load("statements.json")["statements"]:
        attacked = each["attacked"]
        rows.append(
            [
                each["mechanism"],
                f"{each['setting']}; {each['text']}",
                _bound(each["nominal"]),
                _tight(each),
                f"{_bound(each['composed'])} ({each['delta']:g})",
                attacked["attack"] if attacked else "none measured",
                _achieved(attacked) if attacked else "",
            ]
        )
    header = ["mechanism", "setting and text", "published eps", "tight eps", "eps (delta)"]
    return _table([*header, "best attack", "what it achieved"], rows)


def _bound(value: object) -> str:
    number = float(str(value))  # infinity is kept as a word
    return f"{number:,.0f}" if np.isfinite(number) else "no bound"


def _tight(row: dict[str, Any]) -> str:
    """What really can be lost: exactly, at least, or unknown."""
    tight, least = float(row["tight"]), float(row["least"])
    if not np.isnan(tight) or not np.isfinite(float(row["nominal"])):
        return _bound(tight)
    return "unknown" if np.isnan(least) else f"at least {least:,.0f}"


def _achieved(attacked: dict[str, Any]) -> str:
    success = attacked["success"]
    value, low, high = (f"{100 * success[name]:.0f}" for name in ("value", "low", "high"))
    return f"{attacked['did'].format(value)} ({low} to {high})"


BLOCKS: dict[str, Callable[[], str]] = {
    "score": score,
    "notebooks": notebooks,
    "mechanisms": mechanisms,
    "audits": audited,
    "statements": statements,
    "data": data,
}


def rendered(text: str) -> str:
    """README text with every generated block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def _title(path: Path) -> str:
    return heading(read(path).cells, 0).partition("· ")[2]


def main() -> int:
    """Rewrite README.md and REPRODUCING.md; with --check only say whether they are up to date."""
    new = {FILE: rendered(FILE.read_text(encoding="utf-8")), reproducing.FILE: reproducing.text()}
    status = 0
    for path, text in new.items():
        stale = not path.exists() or path.read_text(encoding="utf-8") != text
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif stale:
            status = 1
            print(f"{path.name} is stale: run make readme")
        else:
            print(f"{path.name} is up to date")
    return status


if __name__ == "__main__":
    sys.exit(main())
