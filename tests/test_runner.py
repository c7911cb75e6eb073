"""The runner on small real notebooks, in a copy of the repository that each test may change."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat import v4
from tools import execute, notebooks, runner, state

from textpriv import paths
from textpriv.errors import ProfileError, RunError
from textpriv.report import claims, results

REPOSITORY = Path(__file__).resolve().parents[1]
PARAMETERS = 'profile = "default"\nseed = 7\noverrides = {}'
BEGIN = "from textpriv import report\nrun = report.begin({name!r}, profile, seed, overrides)"
FIGURE = """\
import matplotlib.pyplot as plt
import pandas as pd
fig, ax = plt.subplots()
ax.plot([1, 2])
run.save_figure("fig01_line", fig, pd.DataFrame({"y": [1, 2]}), alt="A rising line")"""
TINY = [BEGIN, "# Draw", FIGURE, 'run.record("tiny.value", 0.5)', "run.finish()"]

Cells = list[str]


def write_notebook(folder: Path, name: str, cells: Cells, declares: dict | None = None) -> Path:
    """A notebook whose cells that begin with "# " are headings; `{name!r}` becomes its name."""
    parameters = v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    body = [
        v4.new_markdown_cell(f"#{cell}")
        if cell.startswith("# ")
        else v4.new_code_cell(cell.replace("{name!r}", repr(name)))
        for cell in cells
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    node = v4.new_notebook(
        cells=[v4.new_markdown_cell(f"# {name}"), parameters, *body],
        metadata={"kernelspec": kernel, "textpriv": declares or {}},
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.ipynb"
    nbformat.write(node, path)
    return path


class Project:
    """A copy of the library with notebooks of its own, and the runner as a user calls it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("lib", "tools"):
            ignored = shutil.ignore_patterns("__pycache__", "*.egg*")
            shutil.copytree(REPOSITORY / name, root / name, ignore=ignored)
        shutil.copy(REPOSITORY / "requirements.lock", root)
        self.claims.parent.mkdir()
        self.claims.with_name("shared.toml").write_text("")
        self.claims.write_text(
            "id,paper,notebook,place,setting,value,rounding,measurements,compared\n"
            "tong.x,tong,01_tiny,T,tiny,0.5,0.1,tiny.value,always\n"
        )
        for profile in ("default", "smoke"):
            (self.package / "experiments" / "profiles" / f"{profile}.toml").write_text(
                'device = "cpu"\n'
            )

    @property
    def package(self) -> Path:
        return self.root / "lib" / "textpriv"

    @property
    def claims(self) -> Path:
        return self.root / "claims" / "claims.csv"

    def notebook(self, name: str, cells: Cells, declares: dict | None = None) -> Path:
        return write_notebook(self.root / "notebooks", name, cells, declares)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tools.runner", *arguments],
            env={**os.environ, "PYTHONPATH": f"{self.root / 'lib'}{os.pathsep}{self.root}"},
            cwd=self.root.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output


def rows(output: str) -> dict[str, list[str]]:
    """The closing table: columns by notebook."""
    lines = output[output.rindex("\nnotebook ") :].splitlines()[2:]
    return {line.split()[0]: re.split(r" {2,}", line)[1:] for line in lines if line}


# One call over notebooks that end in every possible way


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, int, str]:
    project = Project(tmp_path_factory.mktemp("many"))
    project.notebook("01_tiny", TINY, {"figures": ["fig01_line"]})
    project.notebook("02_fails", ["x = 0", "# Division", "y = 1\ny / x", "never = 1"])
    project.notebook("03_missing", [BEGIN, "run.finish()"], {"figures": ["fig03_absent"]})
    project.notebook("04_killed", ["# Memory", "import os\nos.kill(os.getpid(), 9)"])
    project.notebook("05_reads", ["x = 1"], {"results": ["02_fails"]})
    status, output = project.run("--profile", "smoke", "--jobs", "2")
    return project, status, output


def test_a_notebook_runs_to_its_end(many: tuple[Project, int, str]) -> None:
    project, _, output = many
    state_, seconds, peak, figures, claims = rows(output)["01_tiny"]
    assert (state_, figures, claims) == ("ran", "1", "1 not comparable")
    assert float(seconds) > 0 and float(peak) > 20
    assert "01_tiny  cell 3/5 (Draw) ...\n" in output
    assert re.search(r"01_tiny  cell 3/5 \(Draw\) done in \d+\.\d s\n", output)
    folder = project.root / "runs" / "smoke"
    made = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*01_*"))
    assert made == [
        ".01_tiny.lock",
        "01_tiny.ipynb",
        *(f"figures/fig01_line{suffix}" for suffix in (".csv", ".json", ".pdf", ".png")),
        "results/01_tiny.json",
        "state/01_tiny.json",
    ]
    assert not (project.root / "figures").exists()  # a smoke run leaves the committed ones alone


def test_parameters_reach_the_notebook(many: tuple[Project, int, str]) -> None:
    project, *_ = many
    found = json.loads((project.root / "runs/smoke/results/01_tiny.json").read_text())
    assert (found["profile"], found["seed"], found["overrides"]) == ("smoke", 7, {})
    executed = nbformat.read(project.root / "runs/smoke/01_tiny.ipynb", as_version=4)
    (shown,) = (
        output.metadata["image/png"]
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    )
    assert shown["alt"] == "A rising line"


def test_a_failing_cell_is_named(many: tuple[Project, int, str]) -> None:
    project, status, output = many
    assert status == 1
    assert re.search(
        r"02_fails  cell 3/4 \(Division\) failed after \d+\.\d s: ZeroDivisionError", output
    )
    assert "    ----> 2 y / x" in output and "\x1b" not in output
    assert "02_fails  its output: runs/smoke/02_fails.ipynb" in output
    assert "02_fails  cell 4/4" not in output
    assert rows(output)["02_fails"][0] == "failed"
    assert (project.root / "runs/smoke/02_fails.ipynb").exists()


def test_a_missing_figure_fails(many: tuple[Project, int, str]) -> None:
    _, _, output = many
    assert (
        "03_missing  FAILED: it declares runs/smoke/figures/fig03_absent.png, which is not there"
        in output
    )


def test_a_killed_kernel_fails(many: tuple[Project, int, str]) -> None:
    _, _, output = many
    assert "04_killed  cell 2/2 (Memory): the kernel died" in output
    assert rows(output)["04_killed"][0] == "failed"


def test_what_reads_failed_results_does_not_run(many: tuple[Project, int, str]) -> None:
    _, _, output = many
    assert "05_reads  not run: it reads the results of 02_fails" in output
    assert rows(output)["05_reads"] == ["not run"]


def test_failures_leave_no_state(many: tuple[Project, int, str]) -> None:
    project, *_ = many
    assert os.listdir(project.root / "runs/smoke/state") == ["01_tiny.json"]


def test_a_second_run_skips_quickly(many: tuple[Project, int, str]) -> None:
    project, *_ = many
    start = time.monotonic()
    status, output = project.run("--profile", "smoke", "--only", "01")
    assert (status, rows(output)["01_tiny"][0]) == (0, "up to date")
    assert time.monotonic() - start < 6


# Interrupted and resumed


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"the runner ended before it said {text!r}")


def gone(processes: list[psutil.Process], seconds: float = 20) -> bool:
    """Whether they ended in time; whose child nobody waits for has ended all the same."""
    _, left = psutil.wait_procs(processes, timeout=seconds)
    return not [each for each in left if each.is_running() and each.status() != "zombie"]


def test_interrupted_it_resumes(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    slow = "import pathlib, time\nwhile pathlib.Path('slow').exists():\n    time.sleep(0.1)"
    done = [BEGIN, "run.finish()"]
    project.notebook("01_quick", done)
    project.notebook("02_slow", ["# Wait", slow, *done])
    marker = project.root / "notebooks" / "slow"
    marker.touch()

    killed = project.start("--profile", "smoke")  # the power goes off
    wait_for(killed, "02_slow  cell 2/4 (Wait) ...")
    orphans = psutil.Process(killed.pid).children(recursive=True)
    status, output = project.run("--profile", "smoke")
    assert status == 2 and "another run of 'smoke' is under way" in output
    killed.kill()
    killed.wait()
    assert len(orphans) >= 2  # the notebook's process and its kernel
    assert gone(orphans)
    assert os.listdir(project.root / "runs/smoke/state") == ["01_quick.json"]

    stopped = project.start("--profile", "smoke")  # Ctrl-C, or a time limit
    wait_for(stopped, "02_slow  cell 2/4 (Wait) ...")
    orphans = psutil.Process(stopped.pid).children(recursive=True)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(timeout=60) == 130
    assert gone(orphans)
    output, _ = stopped.communicate()
    assert "interrupted; the same command resumes" in output
    assert (rows(output)["01_quick"][0], rows(output)["02_slow"][0]) == ("up to date", "not run")

    marker.unlink()
    status, output = project.run("--profile", "smoke")
    assert status == 0
    assert (rows(output)["01_quick"][0], rows(output)["02_slow"][0]) == ("up to date", "ran")


# What makes a notebook run again. These need no kernel: state is written by hand.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that this very process works in."""
    made = Project(tmp_path / "project")
    monkeypatch.setattr(paths, "REPOSITORY", made.root)
    monkeypatch.setattr(paths, "RUNS", made.root / "runs")
    monkeypatch.setattr(paths, "NOTEBOOKS", made.root / "notebooks")
    monkeypatch.setattr(state, "PACKAGE", made.package)
    monkeypatch.setattr(state, "LOCK", made.root / "requirements.lock")
    monkeypatch.setattr(state.profiles, "PROFILES", made.package / "experiments" / "profiles")
    monkeypatch.setattr(state.claims, "FILE", made.claims)
    return made


@pytest.fixture
def ask(project: Project) -> Callable[..., str | None]:
    """Why `01_tiny` would run now, after it once ran to its end."""
    imports = "from textpriv.profiles import load"
    project.notebook("01_tiny", [imports, *TINY[:1]], {"figures": ["fig01_line"]})
    parameters = {"profile": "smoke", "seed": 7, "overrides": {}}

    def plan(**changes: object) -> runner.Plan:
        return runner.Plan({**parameters, **changes}, jobs=1, force=False)

    (notebook,) = notebooks.find()
    for path in plan().outputs(notebook):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    key = state.key(notebook, parameters)
    state.remember(key, plan().outputs(notebook), plan().state(notebook))

    def why(**changes: object) -> str | None:
        (notebook,) = notebooks.find()
        return plan(**changes).stale(notebook)

    return why


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def edit_notebook(project: Project, index: int, text: str) -> None:
    path = project.root / "notebooks" / "01_tiny.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[index].source += text
    nbformat.write(node, path)


def test_up_to_date_until_something_changes(ask: Callable[..., str | None]) -> None:
    assert ask() is None


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("profiles.py", "# x", "changed: library"),  # imported by the notebook
        ("errors.py", "# x", "changed: library"),  # imported by what it imports
        ("report/run.py", "# x", "changed: library"),  # imported inside a function
        ("report/style.mplstyle", "# x", "changed: library"),
        ("report/cluster.py", "# x", None),  # not reached
        ("experiments/profiles/smoke.toml", '["01_tiny"]\nx = 1', "changed: profile"),
        ("experiments/profiles/smoke.toml", '["02_other"]\nx = 1', None),
        ("experiments/profiles/smoke.toml", "cell_minutes = 1", "changed: profile"),
        ("experiments/profiles/default.toml", '["01_tiny"]\nx = 1', None),
    ],
)
def test_files_that_matter(
    project: Project, ask: Callable[..., str | None], file: str, text: str, expected: str | None
) -> None:
    append(project.package / file, f"\n{text}\n")
    assert ask() == expected


def test_code_matters_and_prose_does_not(project: Project, ask: Callable[..., str | None]) -> None:
    edit_notebook(project, 0, "\nMore prose.")
    assert ask() is None
    edit_notebook(project, 2, "\nx = 1")
    assert ask() == "changed: notebook"


def test_parameters_and_environment_matter(
    project: Project, ask: Callable[..., str | None]
) -> None:
    assert ask(seed=8) == "changed: parameters"
    assert ask(profile="default") == "not run before"
    append(project.root / "requirements.lock", "no-such-package==1\n")
    assert ask() == "changed: environment"


def test_claims_of_this_notebook_matter(
    project: Project, ask: Callable[..., str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = project.claims
    for value, expected in (("0.5", None), ("0.6", "changed: claims")):
        new = old.with_name(f"claims{value}.csv")
        new.write_text(old.read_text().replace("0.5", value))
        monkeypatch.setattr(state.claims, "FILE", new)
        assert ask() == expected


def test_outputs_matter(project: Project, ask: Callable[..., str | None]) -> None:
    figure = project.root / "runs/smoke/figures/fig01_line.pdf"
    text = figure.read_text()
    figure.write_text("by hand")
    assert ask() == "overwritten: fig01_line.pdf"
    figure.unlink()
    assert ask() == "missing: fig01_line.pdf"
    figure.write_text(text)
    assert ask() is None
    (project.root / "runs/smoke/state/01_tiny.json").write_text("{torn")
    assert ask() == "not run before"


def test_assets_matter(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from textpriv import assets

    digest = {"glove": "a" * 64}
    known = {name: type("Asset", (), {"digest": value}) for name, value in digest.items()}
    monkeypatch.setattr(assets, "registry", lambda: known)
    monkeypatch.setattr(assets, "local", lambda asset_id: None)
    project.notebook("01_tiny", ["x = 1"], {"assets": ["glove"]})
    (notebook,) = notebooks.find()
    parameters = {"profile": "smoke", "seed": 7, "overrides": {}}
    first = state.key(notebook, parameters)["assets"]
    known["glove"].digest = "b" * 64
    assert state.key(notebook, parameters)["assets"] != first
    known.clear()
    with pytest.raises(RunError, match="'glove', which nobody has registered"):
        state.key(notebook, parameters)


def test_other_notebooks_results_matter(project: Project) -> None:
    project.notebook("07_board", ["x = 1"], {"results": ["01_tiny"]})
    (notebook,) = notebooks.find()
    parameters = {"profile": "smoke", "seed": 7, "overrides": {}}

    def key(value: float, seconds: float) -> str:
        found = results.Results(
            notebook="01_tiny", profile="smoke", seed=7, overrides={}, commit=None, dirty=None,
            device="cpu", dtype="float32", seconds=seconds, peak_mb=1, versions={}, assets={},
            figures=[], measurements=[results.measure("a.b", value),
                                      results.measure("run.seconds", seconds, unit="s")],
        )  # fmt: skip
        results.write(found, results.file("01_tiny", "smoke"))
        return state.key(notebook, parameters)["results"]

    absent = state.key(notebook, parameters)["results"]
    assert len({absent, key(0.5, 1), key(0.5, 2), key(0.6, 1)}) == 3  # what it cost is no matter


def test_files_that_are_read_and_claims_of_other_notebooks_matter(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    declares = {"results": ["01_tiny"], "reads": ["results/audits/audits.json"]}
    project.notebook("07_board", ["x = 1"], declares)
    (notebook,) = notebooks.find()
    parameters = {"profile": "smoke", "seed": 7, "overrides": {}}
    keys = [state.key(notebook, parameters)]  # what is read need not be there
    for content in ("[]", "[1]"):
        (project.root / "results" / "audits").mkdir(parents=True, exist_ok=True)
        (project.root / "results" / "audits" / "audits.json").write_text(content)
        keys.append(state.key(notebook, parameters))
    assert len({key["reads"] for key in keys}) == 3 and len({key["claims"] for key in keys}) == 1
    # Figures are those of the run.
    project.notebook("08_picture", ["x = 1"], {"reads": ["figures/fig01_a.csv"]})
    picture = notebooks.find()[-1]
    without = state.key(picture, parameters)["reads"]
    for folder in (project.root / "figures", project.root / "runs" / "smoke" / "figures"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fig01_a.csv").write_text("a")
        assert (state.key(picture, parameters)["reads"] == without) == ("smoke" not in folder.parts)
    trend = claims.Trend(greater="a.b", than="c.d")
    claim = claims.Claim(
        id="x",
        paper="tong",
        notebook="01_tiny",
        place="",
        setting="",
        trend=trend,
        compared="always",
    )
    monkeypatch.setattr(claims, "of", lambda name: [claim] if name == "01_tiny" else [])
    assert state.key(notebook, parameters)["claims"] != keys[0]["claims"]


def test_reached_follows_every_form_of_import(project: Project) -> None:
    (project.package / "pack").mkdir()
    files = {
        "pack/__init__.py": "from .first import thing",
        "pack/first.py": "from . import second\nfrom ..seeds import stream",
        "pack/second.py": "def f():\n    import textpriv.files as f",
        "pack/third.py": "",
    }
    for name, text in files.items():
        (project.package / name).write_text(text)
    project.notebook("01_tiny", ["%matplotlib inline\n!ls\nfrom textpriv import pack"])
    (notebook,) = notebooks.find()
    found = {path.relative_to(project.package).as_posix() for path in state.reached(notebook)}
    assert found == {
        "__init__.py", "pack/__init__.py", "pack/first.py", "pack/second.py",
        "seeds.py", "files.py", "errors.py",
    }  # fmt: skip


# Before it starts


def replace_parameters(project: Project, source: str, tags: list[str]) -> notebooks.Notebook:
    path = project.notebook("01_tiny", ["x = 1"])
    node = nbformat.read(path, as_version=4)
    node.cells[1].source = source
    node.cells[1].metadata["tags"] = tags
    nbformat.write(node, path)
    return notebooks.read(path)


@pytest.mark.parametrize(
    ("source", "tags", "message"),
    [
        (PARAMETERS, [], "one cell tagged 'parameters', got 0"),
        (PARAMETERS.replace("seed", "sede"), ["parameters"], "'sede'.*did you mean 'seed'"),
        (PARAMETERS + "\ndraws = 5", ["parameters"], "unknown parameter 'draws'"),
        ("profile: str = 'x'\nseed: int = 7", ["parameters"], r"does not set \['overrides'\]"),
    ],
)
def test_mistyped_parameters(project: Project, source: str, tags: list[str], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        notebooks.check_parameters(replace_parameters(project, source, tags))


def test_typed_parameters_are_fine(project: Project) -> None:
    source = "profile: str = 'default'\nseed: int = 7\noverrides: dict = {}"
    notebooks.check_parameters(replace_parameters(project, source, ["parameters"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "smok"], "did you mean 'smoke'"),
        (["--only", "09"], "no notebook '09'; there are: 01_tiny, 02_other"),
        (["--from", "x"], "no notebook 'x'"),
        (["--jobs", "0"], "--jobs: expected at least 1"),
        (["--seed", "-1"], "--seed: expected 0 or more"),
    ],
)
def test_bad_arguments(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    project.notebook("01_tiny", ["x = 1"])
    project.notebook("02_other", ["x = 1"])
    assert runner.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_mistyped_parameter_stops_everything(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_parameters(project, PARAMETERS.replace("seed", "sede"), ["parameters"])
    assert runner.main(["--profile", "smoke"]) == 2
    captured = capsys.readouterr()
    assert "'sede'" in captured.err and captured.out == ""
    assert not (project.root / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["01_a", "02_b", "03_c"]),
        (["--only", "02"], ["02_b"]),
        (["--only", "03_c", "01"], ["01_a", "03_c"]),
        (["--only", "03_c", "--only", "01"], ["01_a", "03_c"]),
        (["--from", "02"], ["02_b", "03_c"]),
        (["--only", "01", "03", "--from", "02"], ["03_c"]),
    ],
)
def test_list_says_what_would_run(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    for name in ("01_a", "02_b", "03_c"):
        project.notebook(name, ["x = 1"])
    assert runner.main(["--list", "--profile", "smoke", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(maxsplit=1) for line in lines] == [[n, "not run before"] for n in expected]


@pytest.mark.parametrize("reads", ["01_tiny", "03_absent", "02_self", "04_later"])
def test_results_come_from_earlier_notebooks(
    project: Project, capsys: pytest.CaptureFixture[str], reads: str
) -> None:
    project.notebook("01_tiny", ["x = 1"])
    project.notebook("02_self", ["x = 1"], {"results": [reads]})
    project.notebook("04_later", ["x = 1"])
    assert runner.main(["--list", "--profile", "smoke"]) == (0 if reads == "01_tiny" else 2)
    refused = f"02_self declares the results of '{reads}', expected a notebook before it: 01_tiny"
    assert (refused in capsys.readouterr().err) == (reads != "01_tiny")


def test_assets_are_fetched_first(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from textpriv import assets

    fetched: list[str] = []
    monkeypatch.setattr(assets, "fetch", fetched.append)
    project.notebook("01_a", ["x = 1"], {"assets": ["b", "a"]})
    project.notebook("02_b", ["x = 1"], {"assets": ["b"]})
    runner._fetch(notebooks.find(), "default")
    assert fetched == ["a", "b"]
    assert capsys.readouterr().out == "asset 1/2: a\nasset 2/2: b\n"


def test_invalid_notebooks_are_named(project: Project) -> None:
    path = project.notebook("01_tiny", ["x = 1"], {"figure": ["fig01_line"]})
    with pytest.raises(RunError, match=r"01_tiny: its metadata 'textpriv' is wrong.*\nfigure"):
        notebooks.find()
    path.write_text("{")
    with pytest.raises(RunError, match=r"01_tiny.ipynb cannot be read"):
        notebooks.find()
    path.write_text("{}")
    with pytest.raises(RunError, match=r"01_tiny: expected a notebook of format 4.5"):
        notebooks.find()


def test_code_that_does_not_parse_is_found_before_the_start(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.notebook("01_tiny", ["x = (1"])
    assert runner.main(["--profile", "smoke"]) == 2
    assert "01_tiny is not valid Python" in capsys.readouterr().err


@pytest.fixture
def finished(project: Project) -> Callable[..., str | None]:
    """What the runner finds wrong with `01_tiny` after its process ended."""
    project.notebook("01_tiny", ["x = 1"], {"figures": ["fig01_line"]})
    (notebook,) = notebooks.find()
    plan = runner.Plan({"profile": "smoke", "seed": 7, "overrides": {}}, jobs=1, force=False)

    def problem(figures: list[str], status: int = 0, began: float = 0.0) -> str | None:
        for path in plan.products(notebook):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        found = results.Results(
            notebook="01_tiny",
            profile="smoke",
            seed=7,
            overrides={},
            commit=None,
            dirty=None,
            device="cpu",
            dtype="float32",
            seconds=1,
            peak_mb=1,
            versions={},
            assets={},
            figures=figures,
            measurements=[],
        )
        results.write(found, results.file("01_tiny", "smoke"))
        return runner._problem(plan, runner.Job(notebook, began=began), status)

    return problem


def test_products_are_judged(project: Project, finished: Callable[..., str | None]) -> None:
    assert finished(["fig01_line"]) is None
    assert finished(["fig01_line"], status=-9) == "its process ended with status -9"
    assert finished(["fig01_line"], status=1) == "see the lines above"
    stale = finished(["fig01_line"], began=time.time() + 60)
    assert stale is not None and "which is from an earlier run" in stale
    undeclared = finished(["fig01_line", "fig01_more"])
    assert undeclared == "it makes figures that it does not declare: ['fig01_more']"


def test_headings() -> None:
    cells = [
        v4.new_code_cell("a = 1"),
        v4.new_markdown_cell("# One\ntext\n## Two\ntext"),
        v4.new_code_cell("b = 1"),
        v4.new_markdown_cell("no heading"),
        v4.new_code_cell("c = 1"),
    ]
    found = notebooks.parse("01_tiny", v4.new_notebook(cells=cells)).cells
    assert [notebooks.heading(found, i) for i in (0, 2, 4)] == ["top", "Two", "Two"]


# The environment of a notebook


@pytest.fixture
def user_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A kernel `python3` that the user installed for another Python."""
    folder = tmp_path / "user" / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/elsewhere/python"], "display_name": "x", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "user"))
    yield


def test_our_own_kernel_comes_first(user_kernel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="starts /elsewhere/python, expected"):
        execute.check_kernel()
    plan = runner.Plan({"profile": "smoke", "seed": 7, "overrides": {}}, jobs=1, force=False)
    monkeypatch.setenv("JUPYTER_PATH", runner._environment(plan)["JUPYTER_PATH"])
    execute.check_kernel()


@pytest.mark.parametrize(("jobs", "threads"), [(1, "8"), (3, "2"), (16, "1")])
def test_threads_are_shared_out(monkeypatch: pytest.MonkeyPatch, jobs: int, threads: str) -> None:
    monkeypatch.setattr(runner, "_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    plan = runner.Plan({"profile": "smoke", "seed": 7, "overrides": {}}, jobs, force=False)
    assert runner._environment(plan)["OMP_NUM_THREADS"] == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert runner._environment(plan)["OMP_NUM_THREADS"] == "5"  # the user knows best


def test_cells_must_run_in_order() -> None:
    cells = [v4.new_code_cell("a", execution_count=1), v4.new_code_cell("b", execution_count=3)]
    with pytest.raises(RunError, match=r"got \[1, 3\]"):
        execute._check_counts(v4.new_notebook(cells=cells))


def as_user(**changes: str) -> dict[str, str]:
    """This environment, with the library of the repository that is tested."""
    library = os.pathsep.join([str(REPOSITORY / "lib"), str(REPOSITORY)])
    return {**os.environ, "PYTHONPATH": library, **changes}


def test_the_runner_itself_needs_no_torch() -> None:
    code = (
        "import sys, tools.runner as r; "
        "print([m for m in ('torch', 'pandas', 'matplotlib', 'nbformat') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=as_user(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_all_works_from_any_folder(tmp_path: Path) -> None:
    command = ["bash", str(REPOSITORY / "run_all.sh"), "--profile", "nonsense"]
    env = as_user(TEXTPRIV_PYTHON=sys.executable)
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown profile 'nonsense'" in done.stderr


def test_help_needs_nothing_installed(tmp_path: Path) -> None:
    """Of a clone without .venv, by an interpreter that has no package of ours."""
    for name in ("run_all.sh", "setup.sh"):
        shutil.copy(REPOSITORY / name, tmp_path)
    package = "lib/textpriv"
    for path in ("tools/__init__.py", "tools/options.py",
                 f"{package}/__init__.py", f"{package}/report/__init__.py"):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / path)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without site-packages
    bare.chmod(0o755)
    done = subprocess.run(
        ["bash", str(tmp_path / "run_all.sh"), "--only", "01", "--help"],
        env=as_user(PYTHON=str(bare)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "--scheduler ADDRESS" in done.stdout, done.stderr
    assert not (tmp_path / ".venv").exists()
