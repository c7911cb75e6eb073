"""README.md and REPRODUCING.md say what the results, the registries and the claims say."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import as_file
from pathlib import Path

import pytest
from tools import audits, documents, notebooks

from textpriv import paths
from textpriv.errors import RunError
from textpriv.evaluation import summaries
from textpriv.report import claims, results, verdicts


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


def test_without_results_the_score_says_which_command_makes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "file", lambda *_: Path("missing"))
    with pytest.raises(RunError, match=r"run \./run_all\.sh --profile default --only"):
        documents.score()


def test_what_the_audits_that_git_holds_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every claim broken and no stronger reading, no output compared, a flaw that none caught."""
    made = [replace(a, violations=int(not a.published), fit_draws=0) for a in audits.audits()]
    kept = audits.load("audits.json")
    tried = kept["mutants_tried"]
    monkeypatch.setattr(audits, "audits", lambda: made)
    monkeypatch.setattr(audits, "load", lambda _: {**kept, "mutants_caught": tried - 1})
    told = documents.audited()
    assert " | all outputs | " in told and " | broken |\n" in told
    assert re.search(
        r"Of (\d+) audits of a claim \(.*\) \1 broke it; .* readings 0 are broken", told
    )
    assert f" caught {tried - 1} of {tried}." in told


def test_reproducing_has_every_statement_once_with_its_command() -> None:
    runs = {each.name: results.committed(each.name) for each in notebooks.find()}
    judged = verdicts.judge({name: run.by_name() for name, run in runs.items() if run})
    parts = documents.reproducing().split("\n## ")[1:]
    assert [part.split("\n", 1)[0] for part in parts] == [*runs]
    listed, untested = 0, 0
    for part in parts:
        name = part.split("\n", 1)[0]
        assert f" --only {name[:2]} --force`" in part
        ids = {claim.id for claim in claims.for_notebook(name)}
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
