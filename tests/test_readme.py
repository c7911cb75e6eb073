"""README.md says what the results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tools import audits, readme

from textpriv.privacy import Attacked, Audit, Statement, write_audits
from textpriv.privacy.results import plain
from textpriv.report import claims, results
from textpriv.stats import Estimate


def test_generated_parts_are_up_to_date() -> None:
    text = readme.FILE.read_text(encoding="utf-8")
    assert readme.rendered(text) == text, "run `make readme`"


def test_every_block_is_used_and_a_stale_one_is_noticed() -> None:
    text = readme.FILE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == set(readme.BLOCKS)
    stale = text.replace("| madlib |", "| madlib, changed by hand |")
    assert stale != text and readme.rendered(stale) == text


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", readme.FILE.read_text("utf-8")))
def test_links_within_the_repository_lead_somewhere(path: str) -> None:
    assert (readme.FILE.parent / path).exists()


# --- What the papers' claims come to -------------------------------------------------------------


def test_the_score_counts_every_statement_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said = readme.score()
    assert said.startswith("No printed number is compared on these models. Of ")
    tested, holds, against, tie, left_open, leaning, settled, untested = map(
        int, re.findall(r"(\d+) [a-z]", said.replace("07_", ""))
    )
    assert tested == holds + against + tie + left_open and leaning <= left_open
    notebooks = {claim.notebook for claim in claims.load()}
    judged = claims.judge({each: results.load(each).by_name() for each in notebooks})
    assert claims.Findings.of(judged) == (
        holds, against, tie, left_open, leaning, untested, settled,
    )  # fmt: skip
    monkeypatch.setattr(readme.results, "file", lambda *_: Path("missing"))
    assert readme.score().startswith("Not run yet")


def test_the_data_table_says_who_needs_an_asset() -> None:
    rows = [line.split(" | ") for line in readme.data().splitlines()]
    by_id = {row[0].removeprefix("| "): row for row in rows}
    assert by_id["pos-lexicon"][3:6] == ["0.6 MB", "03", "03"]
    assert by_id["roberta-base"][4:6] == ["", "03"]
    assert by_id["movie-reviews"][4].split(", ")[0] == "01"


# --- Blocks of the audits ------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(audits, "folder", lambda: tmp_path)
    return tmp_path


def test_without_audits_the_blocks_say_which_command_makes_them(folder: Path) -> None:
    for block in (readme.audited, readme.statements):
        assert block() == "Not run yet: `make audit` makes this table."


def audit(mechanism: str, worst_ratio: float, draws: int, violations: int = 0) -> Audit:
    return Audit(
        mechanism, "eps 1", "a claim", "exact | sampled", 12345, draws, worst_ratio, ("a", "b"),
        violations, 0.0625 * (draws > 0), caught_from=0.93 if draws else None,
    )  # fmt: skip


def test_the_table_of_audits(folder: Path) -> None:
    made = [audit("tem", 0.98765, 0), audit("madlib", 1.25, 1_000_000, 3), audit("map", np.nan, 0)]
    write_audits(made, folder / "audits.json", {"mutants_caught": 21, "mutants_tried": 22})
    assert readme.audited().splitlines()[2:] == [
        "| tem | eps 1 | exact \\| sampled | 12,345 | all outputs | 0.988 | 0.000 |  | holds |",
        "| madlib | eps 1 | exact \\| sampled | 12,345 | 1,000,000 | 1.250 | 0.062 | 0.93 | "
        "broken |",
        "| map | eps 1 | exact \\| sampled | 12,345 | all outputs |  | 0.000 |  | no claim |",
        "",
        "2 attempts to break a claim, 1 successful. Of mechanisms that were made wrong on purpose "
        "the same audits caught 21 of 22.",
    ]


def test_the_table_of_statements(folder: Path) -> None:
    attacked = Attacked(Estimate(0.456, 0.44, 0.48, 100), "Bayes", "named {} of 100 words", 3)
    rows = [
        (1234.5, 900.0, np.nan, 1000.0, attacked),
        (1234.5, np.nan, 420.0, 1234.5, None),
        (1234.5, np.nan, np.nan, 1234.5, None),
        (np.inf, np.nan, np.nan, np.inf, None),
        (np.inf, np.inf, np.nan, np.inf, None),
    ]
    made = [
        Statement(
            "tem", "eps 2", "a text of 100 words", "words", 100, nominal, tight, least, composed,
            1e-6, who, "", ("the length",),
        )
        for nominal, tight, least, composed, who in rows
    ]  # fmt: skip
    kept = {"statements": [plain(each) for each in made]}
    (folder / "statements.json").write_text(json.dumps(kept, allow_nan=False))
    found = [line.split(" | ")[2:] for line in readme.statements().splitlines()[2:]]
    assert found == [
        ["1,234", "900", "1,000 (1e-06)", "Bayes", "named 46 of 100 words (44 to 48) |"],
        ["1,234", "at least 420", "1,234 (1e-06)", "none measured", " |"],
        ["1,234", "unknown", "1,234 (1e-06)", "none measured", " |"],
        ["no bound", "no bound", "no bound (1e-06)", "none measured", " |"],
        ["no bound", "no bound", "no bound (1e-06)", "none measured", " |"],
    ]
