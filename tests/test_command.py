"""The command `textpriv`: what it puts out, where, and how it says no."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from test_evaluation import TEXTS, own_attacks, vocabulary

from textpriv.command import main
from textpriv.evaluation import summaries

__all__ = ["own_attacks", "vocabulary"]  # the latter, a small one, for every test here

OWN = """
import textpriv

@textpriv.register_attack("nothing")
def nothing(candidates: list[str], sanitized: list[str]): ...

def vowels(text: str) -> str:
    return "".join("a" if letter in "eiou" else letter for letter in text)
"""


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


def told_by(*arguments: str) -> str:
    """What a new interpreter prints."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    asked = [sys.executable, *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=True, env=paths).stdout


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return str(path)


@pytest.mark.parametrize("what", ["mechanisms", "attacks", "corpora", "assets"])
def test_what_has_a_name_is_listed(what: str) -> None:
    listed = json.loads(run("ls", what, "--json").stdout)
    assert listed and all(name in run("ls", what).stdout for name in listed)


def test_sanitized_lines_go_to_standard_output_and_the_rest_does_not(file: str) -> None:
    result = run("sanitize", file, "-m", "santext", "-e", "2")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == len(TEXTS)
    assert "eps 2, token policy private" in result.stderr
    piped = run("sanitize", "-", "-m", "santext", "-e", "2", stdin="one text\nand another\n")
    assert len(piped.stdout.splitlines()) == 2
    nothing = run("sanitize", "-", "-m", "santext", "-e", "2", stdin="")
    assert "Error: standard input: expected at least one row" in nothing.stderr


def test_what_stays_in_clear_and_what_a_seed_costs_is_said(file: str) -> None:
    result = run(
        "sanitize", file, "-m", "tem", "-e", "2", "--policy", "keep-unknown", "--seed", "1"
    )
    assert "in clear: punctuation, numbers, unknown words" in result.stderr
    assert "can undo this" in result.stderr


def test_a_release_is_attacked_and_reported(file: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.txt")
    assert run("sanitize", file, "-m", "santext", "-e", "9", "-o", out).exit_code == 0
    options = ("--public", "none", "--seed", "1")
    blind = json.loads(run("attack", file, out, "--json", *options).stdout)
    assert "learned from pairs" in {row["attack"] for row in blind["risks"]}
    known = json.loads(
        run("attack", file, out, "-m", "santext", "-e", "9", "--json", *options).stdout
    )
    assert known["mechanism"] == "santext" and not any(text in str(known) for text in TEXTS)
    page, card = tmp_path / "report.html", tmp_path / "card.json"
    asked = ("-o", str(page), "--card", str(card), *options)
    told = run("report", file, "-m", "santext", "-e", "9", *asked)
    assert told.exit_code == 0 and "which quotes 5 originals" in told.stderr
    assert "recovered" in page.read_text() and json.loads(card.read_text())["texts"] == len(TEXTS)


def test_a_column_of_a_table_and_lines_of_standard_input_are_attacked(tmp_path: Path) -> None:
    tables = [str(tmp_path / name) for name in ("before.csv", "after.csv")]
    for table in tables:
        pd.DataFrame({"body": TEXTS}).to_csv(table, index=False)
    options = ("--public", "none", "--seed", "1", "--json")
    told = run("attack", *tables, "--column", "body", *options)
    assert json.loads(told.stdout)["texts"] == len(TEXTS)
    lines = tmp_path / "after.txt"
    lines.write_text("\n".join(["", *TEXTS]))
    told = run("attack", "-", str(lines), *options, stdin="\n".join(["", *TEXTS]))
    assert json.loads(told.stdout)["texts"] == len(TEXTS)  # the empty line is none


@pytest.mark.usefixtures("own_attacks")
def test_a_file_of_ones_own_gives_attacks_and_mechanisms(file: str, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    assert "nothing" in run("--include", str(own), "ls", "attacks").stdout
    assert run("sanitize", file, "-m", f"{own}:vowels").stdout.splitlines()[0].count("e") == 0
    audit = run("audit", f"{own}:vowels")
    assert audit.exit_code == 1 and "it does not draw at all" in audit.stdout


def test_what_a_mechanism_prints_is_no_result(file: str, tmp_path: Path) -> None:
    own = tmp_path / "loud.py"
    own.write_text("def loud(texts):\n    print('progress')\n    return texts\n")
    result = run("sanitize", file, "-m", f"{own}:loud")
    assert result.stdout.splitlines() == TEXTS and "progress" in result.stderr
    assert json.loads(run("audit", f"{own}:loud", "--json").stdout)["name"] == "loud"
    asked = ("report", file, "-m", f"{own}:loud", "-o", str(tmp_path / "page.html"), "--json")
    assert json.loads(run(*asked, "--public", "none").stdout)["texts"] == len(TEXTS)


def test_a_preview_shows_a_row_for_each_epsilon(file: str) -> None:
    asked = ("preview", file, "-m", "santext", "--epsilons", "1,9", "--json", "--public")
    for public in ("none", file):  # which has nothing but the texts under attack, and is not read
        told = run(*asked, public)
        assert "not covered by its own guarantee" in told.stderr
        rows = json.loads(told.stdout)
        assert [row["epsilon"] for row in rows] == [1, 9]
        assert rows[0]["changed"] > rows[1]["changed"]


def test_a_preview_predicts_the_worth_of_a_summary(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "encoder", lambda: None)
    monkeypatch.setattr(summaries, "similarity", lambda *_: np.array([0.1, 0.9]))
    options = ("-m", "santext", "--epsilons", "1,9", "--summary", "--json", "--public", "none")
    rows = json.loads(run("preview", file, *options).stdout)
    assert [row["low"] < row["worth"] < row["high"] for row in rows] == [True, True]
    assert rows[0]["worth"] < rows[1]["worth"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sanitize", "FILE", "-m", "madlip", "-e", "1"], "did you mean 'madlib'"),
        (["sanitize", "FILE", "-m", "madlib", "-e", "many"], "is not a valid float"),
        (["sanitize", "FILE", "-m", "madlib"], "for madlib for instance 10 (--epsilon 10)"),
        (["sanitize", "FILE", "-m", "madlib", "-e", "0"], "expected a finite number > 0"),
        (["sanitize", "missing.csv", "-m", "madlib", "-e", "1"], "expected a readable file"),
        (["sanitize", "FILE.pdf", "-m", "madlib", "-e", "1"], "convert it"),
        (["--include", "missing.py", "ls", "attacks"], "expected a Python file that exists"),
        (["audit", "no_such_module:Mine"], "expected module:Name or file.py:Name"),
        (["audit", "own.py"], "got 'own.py', expected module:Name or file.py:Name"),
        (["card", "-m", "santext", "-e", "1", "--check", "FILE"], "expected a card"),
        (["report", "FILE", "-m", "tem", "-e", "1", "-o", "/"], "'--out' / '-o'"),
        (["report", "-", "-m", "tem", "-e", "1", "--label", "x"], "standard input has no columns"),
        (["preview", "FILE", "-m", "tem", "--epsilons", "a,b"], "expected numbers with commas"),
        (["preview", "FILE", "-m", "tem", "--epsilons", "1", "-e", "2"], "No such option"),
    ],
)
def test_each_mistake_is_one_clear_error(file: str, arguments: list[str], message: str) -> None:
    result = run(*(each.replace("FILE", file) for each in arguments))
    assert result.exit_code in (1, 2) and message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_package_is_the_command() -> None:
    told = told_by("-m", "textpriv", "--help")
    assert told.startswith("Usage: textpriv") and "report" in told


def test_help_imports_nothing_heavy() -> None:
    loaded = told_by("-c", "import sys, textpriv.command; print(*sorted(sys.modules))").split()
    assert not {"numpy", "torch", "pandas", "sklearn", "transformers"} & set(loaded)


WITHOUT_EXTRAS = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"no {name}", name=name)

sys.meta_path.insert(0, Absent())
import textpriv
for name in textpriv.__all__:
    getattr(textpriv, name)
from textpriv.errors import MissingPackage
from textpriv.models.encoders import load_tokenizer
from pathlib import Path
try:
    load_tokenizer(Path("nowhere"))
except MissingPackage as error:
    print(error)
"""


def test_the_core_is_there_without_the_extras() -> None:
    absent = {"transformers", "tokenizers", "sentence_transformers", "annoy", "accelerate", "gguf"}
    absent |= {"IPython", "ipywidgets", "papermill", "nbformat", "seaborn", "faker", "psutil"}
    said = told_by("-c", WITHOUT_EXTRAS.replace("ABSENT", repr(absent)))
    assert "pip install 'textpriv[models]'" in said


def test_a_text_of_which_nothing_is_left_keeps_its_line(file: str, tmp_path: Path) -> None:
    """So that `sanitize FILE > AFTER` and `attack FILE AFTER` speak of the same pairs."""
    given, after = tmp_path / "given.txt", tmp_path / "after.txt"
    given.write_text("\n".join(["👍", TEXTS[0], "", *TEXTS[1:]]) + "\n")
    assert run("sanitize", str(given), "-m", "santext", "-e", "9", "-o", str(after)).exit_code == 0
    lines = after.read_text().split("\n")
    assert [row for row, line in enumerate(lines) if not line] == [0, 2, len(TEXTS) + 2]
    result = run("attack", str(given), str(after), "--public", "none", "--json")
    assert json.loads(result.stdout)["texts"] == len(TEXTS) + 1
