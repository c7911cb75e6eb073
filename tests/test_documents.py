"""README.md and REPRODUCING.md say what the results, the registries and the claims say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import as_file
from pathlib import Path

import numpy as np
import pytest
from tools import audits, documents, notebooks

from textpriv import paths
from textpriv.errors import RunError
from textpriv.evaluation import summaries
from textpriv.privacy import Attacked, Audit, Statement, write_audits
from textpriv.privacy.results import FROM_INSIDE, plain
from textpriv.report import claims, results, verdicts
from textpriv.stats import Estimate


def test_the_documents_are_up_to_date() -> None:
    for path in documents.WITH_BLOCKS:
        text = path.read_text(encoding="utf-8")
        assert documents.rendered(text) == text, "run `make readme`"
    reproducing = documents.REPRODUCING.read_text(encoding="utf-8")
    assert reproducing == documents.reproducing(), "run `make readme`"


def test_the_preview_has_learned_from_the_rows_of_notebook_06() -> None:
    with as_file(summaries.LEARNED) as path:
        assert path.read_text(encoding="utf-8") == documents.learned_by_the_preview()


def test_every_block_is_used_once_and_a_stale_one_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = "".join(path.read_text(encoding="utf-8") for path in documents.WITH_BLOCKS)
    used = re.findall(r"<!-- generated: (\w+) -->", together)
    assert sorted(used) == sorted(documents.BLOCKS)
    monkeypatch.setattr(documents, "BLOCKS", {"data": lambda: "made"})
    text = "a\n<!-- generated: data -->\n{}\n<!-- end -->\nb"
    assert documents.rendered(text.format("old")) == text.format("made")


def test_git_holds_the_figures_that_notebooks_draw_and_no_others() -> None:
    figures = paths.REPOSITORY / "figures"
    declared = {stem for each in notebooks.find() for stem in each.declares.figures}
    assert {path.stem for path in figures.glob("*.png")} == declared
    assert {path.stem for path in figures.glob("full/*.png")} <= declared


# --- Blocks of the audits ------------------------------------------------------------------------


def test_without_results_the_score_says_which_command_makes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "file", lambda *_: Path("missing"))
    with pytest.raises(RunError, match=r"run \./run_all\.sh --profile default --only"):
        documents.score()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(audits, "folder", lambda: tmp_path)
    return tmp_path


def audit(mechanism: str, worst_ratio: float, draws: int, violations: int = 0) -> Audit:
    return Audit(
        mechanism, "eps 1", "a claim", "exact | sampled", 12345, draws, worst_ratio, ("a", "b"),
        violations, 0.0625 * (draws > 0), caught_from=0.93 if draws else None,
    )  # fmt: skip


def test_the_table_of_audits(folder: Path) -> None:
    fit = {"fit": 0.5, "fit_draws": 220_000, "fit_gap": 0.0091}
    made = [
        replace(audit("tem", 0.98765, 0), **fit),
        audit("madlib", 1.25, 1_000_000, 3),
        audit("map", np.nan, 0),
    ]
    made.append(replace(audit("toy", 2.0, 0, 1), published=True))
    made.append(replace(audit("polar", 1.0, 0), method=FROM_INSIDE))
    write_audits(
        made,
        folder / "audits.json",
        {"mutants_caught": 21, "mutants_tried": 22, "commit": "0123456789"},
    )
    assert documents.audited().splitlines()[2:] == [
        "| tem | eps 1 | exact \\| sampled | 12,345 | all outputs; 220,000 released, gap 0.009 | "
        "0.988 | 0.000 |  | not broken |",
        "| madlib | eps 1 | exact \\| sampled | 12,345 | 1,000,000 | 1.250 | 0.062 | 0.93 | "
        "broken |",
        "| map | eps 1 | exact \\| sampled | 12,345 | all outputs |  | 0.000 |  | no claim |",
        "| toy, in the stronger reading | eps 1 | exact \\| sampled | 12,345 | all outputs | "
        "2.000 | 0.000 |  | broken |",
        f"| polar | eps 1 | {FROM_INSIDE} | 12,345 | all outputs | by proof | 0.000 |  | "
        "not broken |",
        "",
        "Of 3 audits of a claim (an exact one of every pair has the draws of the one before it) "
        "1 broke it; 1 of them compared noise with a proof. Of 1 stronger "
        "readings 1 are broken. Of mechanisms that were made wrong on purpose the same checks "
        "caught 21 of 22. All of it at commit 0123456.",
    ]


def test_the_table_of_statements(folder: Path) -> None:
    attacked = Attacked(Estimate(0.456, 0.44, 0.48, 100), "Bayes", "named {} of 100 words", 3)
    rows = [
        (1234.5, 900.0, np.nan, 1000.0, attacked),
        (1234.5, np.nan, 420.0, 1234.5, None),
        (1234.5, np.nan, np.nan, 1234.5, None),
        (np.inf, np.nan, np.nan, np.inf, None),
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
    found = [line.split(" | ")[2:] for line in documents.statements().splitlines()[2:]]
    assert found == [
        ["1,234", "900", "1,000 (1e-06)", "Bayes", "named 46 of 100 words (44 to 48) |"],
        ["1,234", "at least 420", "1,234 (1e-06)", "none measured", " |"],
        ["1,234", "unknown", "1,234 (1e-06)", "none measured", " |"],
        ["none claimed", "none claimed", "none claimed (1e-06)", "none measured", " |"],
    ]


# --- REPRODUCING.md ------------------------------------------------------------------------------


def test_reproducing_has_every_statement_once_with_its_command() -> None:
    runs = {each.name: results.committed(each.name) for each in notebooks.find()}
    judged = verdicts.judge({name: run.by_name() for name, run in runs.items() if run})
    parts = documents.reproducing().split("\n## ")[1:]
    assert [part.split("\n", 1)[0] for part in parts] == [*runs]
    listed, untested = 0, 0
    for part in parts:
        name = part.split("\n", 1)[0]
        assert f" --only {name[:2]} --force`" in part
        ids = {claim.id for claim in claims.of(name)}
        own = [each for each in judged if ids >= {*each.cells}]
        for each in own:
            rows = re.findall(
                rf"^\| .*{re.escape(each.place)} \| {re.escape(each.statement.says)}.* \| "
                rf"{each.verdict} \| {re.escape(each.reason)} \|$".replace("\\|", "[|]"),
                part, re.MULTILINE,
            )  # fmt: skip
            assert len(rows) == int(each.verdict != verdicts.Verdict.NOT_COMPARABLE), each.statement
        listed += len(own)
        untested += sum(map(int, re.findall(r"not tested: (\d+)\.$", part, re.MULTILINE)))
    assert listed == len(judged)  # no statement has cells of two notebooks
    assert untested == sum(each.verdict == verdicts.Verdict.NOT_COMPARABLE for each in judged)
    assert len(documents.reproducing().split()) < 3500


# --- README and the appendix ---------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(documents.WITH_BLOCKS[0].read_text(encoding="utf-8").split()) <= 1800


def test_costs_add_up() -> None:
    lines = [line.strip("| ").split(" | ") for line in documents.costs().splitlines()[2:]]
    *rows, together = [[cell.strip() for cell in line] for line in lines]
    assert [row[0].partition("]")[0][1:] for row in rows] == [e.name for e in notebooks.find()]
    minutes = [float(row[1]) for row in rows]
    assert float(together[1]) == pytest.approx(sum(minutes), abs=0.05 * len(rows) + 0.5)
    assert float(together[2]) == max(float(row[2]) for row in rows)


def test_links_within_the_documents_lead_somewhere() -> None:
    for document in documents.WITH_BLOCKS:
        text = document.read_text(encoding="utf-8")
        for path in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (document.parent / path).exists(), (document.name, path)
