"""The parts of README.md that are made from results, registries and claims, never by hand.

`python -m textpriv.report.readme` rewrites them in place; a test fails when they are stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable

import numpy as np

from textpriv import assets, paths
from textpriv.report import claims, results

FILE = paths.REPOSITORY / "README.md"
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def notebooks() -> str:
    """A row per notebook: question, minutes, memory, figures, verdicts on the paper's claims."""
    rows = []
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb")):
        found = results.load(path.stem, "default")
        verdicts = claims.count(path.stem, found.by_name(), "default")
        said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items())) or "none"
        pictures = " ".join(f"[{f[6:]}](figures/{f}.png)" for f in found.figures)
        rows.append(
            [
                f"[{path.stem}](notebooks/{path.name})",
                _title(path.read_text(encoding="utf-8")),
                f"{found.seconds / 60:.1f}",
                f"{found.peak_mb / 1000:.1f}",
                pictures,
                said,
            ]
        )
    return _table(["notebook", "question", "minutes", "GB", "figures", "claims of the paper"], rows)


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
    """A row per registered data set or model."""
    rows = [
        [asset.id, asset.title, asset.kind, asset.data_licence, asset.redistribution]
        for asset in assets.registry().values()
    ]
    return _table(["id", "what", "kind", "licence of the data", "may be passed on"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "notebooks": notebooks,
    "mechanisms": mechanisms,
    "data": data,
}


def rendered(text: str) -> str:
    """README text with every generated block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def _title(notebook: str) -> str:
    heading = re.search(r'"# \d+ · (.+?)(?:\\n)?"', notebook)
    return heading[1].encode().decode("unicode_escape") if heading else ""


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(header), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Rewrite README.md; with --check only say whether it is up to date."""
    text = FILE.read_text(encoding="utf-8")
    new = rendered(text)
    if "--check" in sys.argv[1:]:
        print("README.md is up to date" if new == text else "README.md is stale: run make readme")
        return int(new != text)
    FILE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
