"""No number stands in the documents that nothing holds to its source; and CITATION.

Numbers of the documents at the root, of `docs/` and of the notebooks' Markdown are in a
generated block (held against the results by a test), in code or a formula, or explained by a rule
below, which compares the value with the library, a profile, a result or a paper's claim.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from test_house_rules import MOST_LINES
from tools.notebooks import find, needed

from textpriv import __version__, assets, paths, profiles, stats
from textpriv.attacks.inversion import InversionPerToken
from textpriv.attacks.oracle import OracleBeam
from textpriv.data import authors
from textpriv.experiments import ann_vs_exact, slm_utility
from textpriv.mechanisms import CusText
from textpriv.privacy import audit_exactly, fit, noise
from textpriv.privacy.results import LEAST_NOISE, LEVEL
from textpriv.report import claims
from textpriv.utility import prediction

ROOT = paths.REPOSITORY
NAMES = ("README.md", "CONTRIBUTING.md", "ARTIFACT-APPENDIX.md")
DOCUMENTS = [ROOT / name for name in NAMES]
DOCUMENTS += sorted(ROOT.glob("docs/**/*.md"))
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?")

Match = re.Match[str]


class Rule(NamedTuple):
    """Where a number may stand, why, and whether this one is right."""

    pattern: str
    why: str
    holds: Callable[[Match], bool] = lambda _: True

    @property
    def regex(self) -> str:
        """The pattern, whose spaces may be line ends."""
        return self.pattern.replace(" ", r"\s+")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def default(call: Any, name: str) -> Any:
    return inspect.signature(call).parameters[name].default


def described(*asset_ids: str) -> str:
    entries = [assets.registry()[asset_id] for asset_id in asset_ids]
    return " ".join(f"{asset.title} {asset.contents}" for asset in entries)


def in_profile(notebook: str, key: str) -> Callable[[Match], bool]:
    """All groups of the match are values that the full profile has: the notebooks show its run."""

    def holds(match: Match) -> bool:
        value = profiles.table("full", notebook)[key]
        values = value if isinstance(value, list) else [value]
        return all(number(group) in values for group in match.groups() if group)

    return holds


def stated_by_a_paper(match: Match) -> bool:
    """The number, as printed, stands in a claim's place, setting, reason or value."""
    texts = [f"{each.place} {each.setting} {each.reason} {each.stated}" for each in claims.load()]
    return any(match[1] in text for text in texts)


def describes_glove(match: Match) -> bool:
    text = described("glove-840b-300d-34k", "glove-6b-50d")
    return all(re.search(rf"\b{group}\b", text) for group in match.groups() if group)


def is_kept_of_assets(match: Match) -> bool:
    """Rounded up to half a GB: the default assets as downloaded, unpacked and derived."""
    ids = {each for notebook in find() for each in needed(notebook, "default")}
    known = [assets.registry()[each] for each in ids]
    data = sum((each.download_size or 0) + (each.size or 0) for each in known)
    return data <= 1e9 * number(match[1]) <= data + 1e9


PLACE = r"\d+(?:\.\d+)*"
RULES = [
    # Names and order
    Rule(r"[Nn]otebooks? \[?\d\d\]?(?:'s)?(?:(?:,| to| and) \d\d)*|\(\[\d\d\][),]",
         "a notebook's number"),
    Rule(r"^# \d\d ·|\A\d\d_\w+$|^\| \d\d \|", "a notebook's number"),
    Rule(r"^\d\. |\(\d\) ", "an item of a list"),
    Rule(rf"(?:[Tt]able|[Ff]igure|[Ss]ection)s? {PLACE}(?:, {PLACE})*(?: and {PLACE})?",
         "a place in a paper"),
    Rule(r"et al\. \(?(?:19|20)\d\d\)?", "the year of a paper"),
    Rule(r"GloVe (?:840B|6B)|SST-2|SHA-256|Llama-3-8B|Recall@1|2-Random, 3-Random|1-Diffractor",
         "a name of the field"),
    Rule(r"be the 21st century's new conan", "a quoted sentence"),
    Rule(r"[Oo]rder [12]|Rank 1 |1/distance|\[0, 1\]|ratio of 1 |ratio\* above 1 ", "a definition"),
    # The library
    Rule(r"Python (3\.\d+)", "the oldest version that pyproject takes",
         lambda m: f'requires-python = ">={m[1]}"' in (ROOT / "pyproject.toml").read_text("utf-8")),
    Rule(r"at most (\d+) lines of code", "the house rule", lambda m: int(m[1]) == MOST_LINES),
    Rule(r"below (2)\^-(53)|times (2)\^-(53)", "half the spacing of floats at 1",
         lambda _: sys.float_info.epsilon / 2 == 2.0**-53),
    # What was installed when it was written: no test may depend on what lies in .venv.
    Rule(r"([\d.]+) GB of disk with PyTorch|([\d.]+) to ([\d.]+) GB with its CUDA",
         "environment, seen once"),
    Rule(r"another\s+([\d.]+) GB", "data and models", is_kept_of_assets),
    Rule(r"caught with probability (0\.99)", "the audits' power",
         lambda m: float(m[1]) == noise.POWER == fit.POWER),
    Rule(r"not catch (0\.8) is", "the least noise", lambda m: float(m[1]) == LEAST_NOISE),
    Rule(r"probability (0\.001) to (0\.003)", "one to three tests of a row",
         lambda m: (float(m[1]), float(m[2])) == (LEVEL, 3 * LEVEL)),
    Rule(r"nearest one and ([\d,]+) random pairs", "the audit's default",
         lambda m: number(m[1]) == default(audit_exactly, "random_pairs")),
    Rule(r"in (\d+) sanitized copies", "the attack's default",
         lambda m: int(m[1]) == default(InversionPerToken, "copies")),
    Rule(r"(?:set of|at most|one of its) (\d+)(?: outputs| nearest|, likelier)", "CusText's sets",
         lambda m: int(m[1]) == default(CusText, "set_size")),
    Rule(r"blocks of ([\d,]+) words", "the experiment's constant",
         lambda m: number(m[1]) == ann_vs_exact.WORDS_AT_ONCE),
    Rule(r"as long as (0\.\d+) of the mass", "the oracle's default",
         lambda m: float(m[1]) == default(OracleBeam, "mass")),
    Rule(r"([\d,]+) draws limit how small", "the permutation test's default",
         lambda m: number(m[1]) == default(stats.paired_test, "resamples")),
    Rule(r"at (\d+)%|(\d+)% intervals", "the level of intervals",
         lambda m: int(m[1] or m[2]) == 100 * stats.CONFIDENCE),
    Rule(r"decides, at the (\d+)% level", "the level of the tests of claims",
         lambda m: math.isclose(int(m[1]) / 100, 1 - stats.CONFIDENCE)),
    Rule(r"rating \((\d+) against at most (\d+)\)", "sentiment from ratings",
         lambda m: (int(m[1]), int(m[2])) == (authors.POSITIVE, authors.NEGATIVE)),
    Rule(r"falls below (0\.\d+)", "what counts as recovered",
         lambda m: float(m[1]) == slm_utility.LOST),
    Rule(r"too low by more than (0\.\d+)", "the follow-up's threshold",
         lambda m: float(m[1]) == prediction.MISJUDGED),
    # Data and models
    Rule(r"\(([\d,]+) words(?: x (\d+)|, (\d+) dimensions)?\)", "a table of GloVe",
         describes_glove),
    Rule(r"with (50) and (300) dimensions|all words of the table with (50) dimensions",
         "a table of GloVe", describes_glove),
    Rule(r"points \(\*vectors\*, (300) numbers|d_X-privacy in (300) dimensions", "GloVe 840B",
         describes_glove),
    Rule(r"([\d,]+) WordPieces", "MiniLM's table", lambda m: m[1] in described("minilm-l6")),
    Rule(r"(\d+) million parameters", "SmolLM2's weights",
         lambda m: abs(assets.registry()["smollm2-135m-instruct"].weights / 1e6 - int(m[1])) < 0.5),
    # Settings
    Rule(r"tried, from (\d+) up|[Aa]t epsilon (19) and (25)", "a setting of Table 2",
         in_profile("02_ann_vs_exact", "table2_epsilons")),
    Rule(r"evaluates ([\d,]+) and 1,000 tokens", "a setting",
         in_profile("05_reconstruction_attacks", "output_tokens")),
    # Papers
    Rule(r"\(([\d,]+) words of GloVe 6B in (300) dimensions\)", "the paper's table",
         stated_by_a_paper),
    Rule(r"of the paper \(GloVe 6B in (300) dimensions", "the paper's table",
         stated_by_a_paper),
    Rule(r"comes back more than (98)%", "the paper's bound",
         lambda m: any(each.trend is not None and each.trend.bound == int(m[1]) / 100
                       for each in claims.for_notebook("02_ann_vs_exact"))),
    Rule(r"finds \*\*(0\.0)%\*\*", "the paper's number",
         lambda m: any(each.value == 0 and re.fullmatch(r"harel.*\.punctuated-.*\.pr5", each.id)
                       for each in claims.load())),
]  # fmt: skip


def unexplained(text: str) -> list[str]:
    """Numbers, with what stands around them, that no rule explains or whose rule does not hold."""
    right: list[tuple[int, int]] = []
    for rule in RULES:
        for match in re.finditer(rule.regex, text, re.MULTILINE):
            if rule.holds(match):
                right.append(match.span())
    return [
        " ".join(text[max(0, candidate.start() - 40) : candidate.end() + 30].split())
        for candidate in NUMBER.finditer(text)
        if not any(low <= candidate.start() and candidate.end() <= high for low, high in right)
    ]


def prose(text: str) -> str:
    """A document without generated blocks, code, formulas and the targets of links.

    Code and formulas count only where they hold a letter: `0.97` by itself is a number.
    """
    patterns = [
        r"<!-- generated: \w+ -->.*?<!-- end -->",
        r"```.*?```",
        r"`[^`\n]*[A-Za-z][^`\n]*`",
        r"\$\$.*?\$\$",
        r"\$[^$]*[A-Za-z\\][^$]*\$",
        r"(?<=\])\([^)\n]*\)",
    ]
    for pattern in patterns:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return text


def texts(path: Path) -> str:
    """The prose of a document; of a notebook its name, and then all cells with text."""
    if path.suffix == ".md":
        return prose(path.read_text(encoding="utf-8"))
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    markdown = [prose("".join(c["source"])) for c in cells if c["cell_type"] == "markdown"]
    return "\n".join([path.stem, *markdown])


def test_every_number_is_explained() -> None:
    by_file = {path.name: unexplained(texts(path)) for path in [*DOCUMENTS, *NOTEBOOKS]}
    assert {name: numbers for name, numbers in by_file.items() if numbers} == {}


def test_a_planted_number_is_found() -> None:
    for planted in (
        "It keeps 93.2% of the words.",
        "with F1 of `0.87`",
        "by a factor of $17$",
        "a set of 25, likelier",
        "GloVe 840B (33,861 words, 300 dimensions)",
        "Notebook 05 finds 5 of them",
    ):
        assert unexplained(prose(planted)), planted


def test_every_rule_is_needed() -> None:
    """A rule that explains nothing any more is to be removed."""
    together = "\n".join(texts(path) for path in [*DOCUMENTS, *NOTEBOOKS])
    idle = [r.pattern for r in RULES if not re.search(r.regex, together, re.MULTILINE)]
    assert idle == []


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__ and cited["license"] == "MIT"
