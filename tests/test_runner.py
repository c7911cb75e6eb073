"""The runner on small real notebooks, in a copy of the repository that each test may change."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
import zmq.asyncio
from helpers import results_of
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.session import Session
from nbformat import v4
from tools import execute, notebooks, runner, state
from tools.notebooks import Declaration, Notebook

from textpriv import assets, paths, report, study
from textpriv.errors import ProfileError, RunError, UnknownAsset
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
# Leaves results as `report` does, without what takes seconds to import.
QUICK = """\
found = results.Results(
    notebook={name!r}, profile=profile, seed=seed, overrides=overrides, commit=None, dirty=None,
    device="cpu", dtype="float32", seconds=1, peak_mb=1, versions={}, assets={}, figures=[],
    measurements=[results.measure("all.points", sum(points), unit="points")],
)
results.write(found, results.file({name!r}, profile))"""
POINTS = """\
import os, pathlib
from textpriv import study
from textpriv.report import results
study.keep_in(pathlib.Path(os.environ[results.RUNNER]) / results.POINTS / {name!r})
def one(x):
    with open('log', 'a') as log:
        log.write(str(x))
    return x
points = study.measure(one, [{'x': 1}, {'x': 2}], processes=1)"""
SMOKE = {"profile": "smoke", "seed": 7, "overrides": {}}

Cells = list[str]
Why = Callable[..., str | None]


class Project:
    """A copy of the library with notebooks of its own, and the runner as a user calls it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "lib" / "textpriv"
        self.claims = root / "claims" / "claims.csv"
        self.environment: dict[str, str] = {}
        for name in ("lib", "tools"):
            ignored = shutil.ignore_patterns("__pycache__", "*.egg*")
            shutil.copytree(REPOSITORY / name, root / name, ignore=ignored)
        (root / "requirements.lock").write_text("numpy==1.0\n")  # one installed package
        self.claims.parent.mkdir()
        self.claims.with_name("shared.toml").write_text("")
        self.claims.write_text(
            "id,paper,notebook,place,setting,value,rounding,measurements,compared\n"
            "tong.x,tong,01_tiny,T,tiny,0.5,0.1,tiny.value,always\n"
        )
        for profile in ("default", "smoke"):
            path = self.package / "experiments" / "profiles" / f"{profile}.toml"
            path.write_text('device = "cpu"\n')

    def notebook(
        self, name: str, cells: Cells, declares: dict | None = None, parameters: str = PARAMETERS
    ) -> Path:
        """With cells that begin with "# " as headings; `{name!r}` becomes its name."""
        tags = {"tags": ["parameters"]} if parameters else {}
        body = [
            v4.new_markdown_cell(f"#{cell}")
            if cell.startswith("# ")
            else v4.new_code_cell(cell.replace("{name!r}", repr(name)))
            for cell in cells
        ]
        first = v4.new_code_cell(parameters or "x = 0", metadata=tags)
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        node = v4.new_notebook(
            cells=[v4.new_markdown_cell(f"# {name}"), first, *body],
            metadata={"kernelspec": kernel, "textpriv": declares or {}},
        )
        path = self.root / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(node, path)
        return path

    def start(self, *arguments: str, ignored: signal.Signals | None = None) -> subprocess.Popen:
        """The runner; as in the background of a shell, a signal may be ignored from the start."""
        library = f"{self.root / 'lib'}{os.pathsep}{self.root}"
        return subprocess.Popen(
            [sys.executable, "-m", "tools.runner", "--profile", "smoke", *arguments],
            env={**os.environ, **self.environment, "PYTHONPATH": library},
            cwd=self.root.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=ignored and (lambda: signal.signal(ignored, signal.SIG_IGN)),
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output


def rows(output: str) -> dict[str, list[str]]:
    """The closing table: columns by notebook."""
    lines = output[output.rindex("\nnotebook ") :].splitlines()[2:]
    return {line.split()[0]: re.split(r" {2,}", line)[1:] for line in lines if line}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, int, str]:
    project = Project(tmp_path_factory.mktemp("many"))
    foreign = project.root / "user" / "kernels" / "python3" / "kernel.json"
    foreign.parent.mkdir(parents=True)  # that the user has installed for another Python
    foreign.write_text('{"argv": ["/elsewhere/python"], "display_name": "x", "language": "python"}')
    project.environment["JUPYTER_PATH"] = str(project.root / "user")
    project.notebook("01_tiny", TINY, {"figures": ["fig01_line"]})
    project.notebook("02_fails", ["x = 0", "# Division", "y = 1\ny / x", "never = 1"])
    project.notebook("04_killed", ["# Memory", "import os\nos.kill(os.getpid(), 9)"])
    project.notebook("05_reads", ["x = 1"], {"results": ["02_fails"]})
    status, output = project.run("--jobs", "2")
    return project, status, output


def test_a_notebook_runs_to_its_end(many: tuple[Project, int, str]) -> None:
    project, _, output = many
    state_, seconds, peak, figures, claims = rows(output)["01_tiny"]
    assert (state_, figures, claims) == ("ran", "1", "1 not comparable")
    assert float(seconds) > 0 and float(peak) > 20
    assert "01_tiny  cell 3/5 (Draw) ...\n" in output
    assert re.search(r"01_tiny  cell 3/5 \(Draw\) done in \d+\.\d s\n", output)
    folder = project.root / "runs" / "smoke"
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*01_*"))
    assert files == [
        "01_tiny.ipynb",
        *(f"figures/fig01_line{suffix}" for suffix in (".csv", ".json", ".pdf", ".png")),
        "results/01_tiny.json",
        "state/01_tiny.json",
    ]
    assert not (project.root / "figures").exists()  # a smoke run leaves the committed ones alone
    written = json.loads((folder / "results/01_tiny.json").read_text())
    assert (written["profile"], written["seed"], written["overrides"]) == ("smoke", 7, {})
    executed = (folder / "01_tiny.ipynb").read_text()
    assert '"alt": "A rising line"' in executed


def test_what_went_wrong_is_named(many: tuple[Project, int, str]) -> None:
    project, status, output = many
    assert status == 1
    assert re.search(
        r"02_fails  FAILED: cell 3/4 \(Division\) failed after \d+\.\d s: ZeroDivisionError", output
    )
    assert "    ----> 2 y / x" in output and "\x1b" not in output
    assert "02_fails  its output: runs/smoke/02_fails.ipynb" in output
    assert (project.root / "runs/smoke/02_fails.ipynb").exists()
    assert "02_fails  cell 4/4" not in output
    assert "04_killed  FAILED: cell 2/2 (Memory): the kernel died" in output
    assert "05_reads  not run: it reads the results of 02_fails" in output
    summary = rows(output)
    assert {summary[name][0] for name in ("02_fails", "04_killed")} == {"failed"}
    assert summary["05_reads"] == ["not run"]
    assert os.listdir(project.root / "runs/smoke/state") == ["01_tiny.json"]


def test_a_second_run_skips_quickly(many: tuple[Project, int, str]) -> None:
    project, *_ = many
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, output = project.run("--only", "01")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (status, rows(output)["01_tiny"][0]) == (0, "up to date")
    assert after.ru_utime - before.ru_utime < 6  # whatever else the machine does


def started_slowly(project: Project) -> tuple[subprocess.Popen, list[psutil.Process]]:
    """A runner whose notebook waits, and the processes that it has started.

    As in the background of a shell, where Ctrl-C is ignored.
    """
    process = project.start(ignored=signal.SIGINT)
    for line in process.stdout:
        if "02_slow  cell 3/4 (Wait) ..." in line:
            return process, psutil.Process(process.pid).children(recursive=True)
    pytest.fail("the runner ended before its notebook waited")


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; nobody may have waited for one that has."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_interrupted_it_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a time limit."""
    project = Project(tmp_path / "project")
    monkeypatch.setattr(paths, "RUNS", project.root / "runs")
    slow = "import time\nwhile pathlib.Path('slow').exists():\n    time.sleep(0.1)"
    project.notebook("02_slow", [POINTS, "# Wait", slow, QUICK])
    marker = project.root / "notebooks" / "slow"
    marker.touch()

    stopped, started = started_slowly(project)
    status, output = project.run()
    assert status == 2 and "another run of 'smoke' is under way" in output
    stopped.send_signal(signal.SIGTERM)
    output, _ = stopped.communicate(timeout=60)
    assert started and not running(started)
    assert stopped.returncode == 130 and "interrupted; the same command resumes" in output
    assert rows(output)["02_slow"][0] == "not run"
    assert not list((project.root / "runs/smoke").glob("*02_slow*"))

    marker.unlink()
    status, output = project.run()
    assert (status, rows(output)["02_slow"][0]) == (0, "ran")
    assert sorted(marker.with_name("log").read_text()) == ["1", "2"]  # no point twice
    assert results.load("02_slow", "smoke").by_name()["all.points"].value == 3
    assert not list((project.root / "runs/smoke/points").iterdir())


def test_a_run_keeps_its_points_where_the_runner_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(results.RUNNER, str(tmp_path))
    report.begin("01_tiny", "smoke")
    study.measure(float, [{}], processes=1)
    study.keep_in(None)
    assert (tmp_path / results.POINTS / "01_tiny" / "1" / "0.npz").exists()


def test_what_a_killed_runner_left_is_ended(tmp_path: Path) -> None:
    """It ends by itself in a second, but until then it could write into the new run's files."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    mine, another = (
        subprocess.Popen(command, env={**os.environ, results.RUNNER: str(folder)})
        for folder in (tmp_path, tmp_path / "another")
    )
    assert execute.end_processes(tmp_path) and mine.poll() is not None
    assert not execute.end_processes(tmp_path) and another.poll() is None
    another.kill()
    another.wait()


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
def ask(project: Project) -> Why:
    """Why `01_tiny` would run now, after it once ran to its end."""
    imports = "%matplotlib inline\n!ls\nfrom textpriv.profiles import load"
    project.notebook("01_tiny", [imports, *TINY[:1]], {"figures": ["fig01_line"]})
    (notebook,) = notebooks.find()
    plan = runner.Plan(SMOKE)
    for path in plan.outputs(notebook):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    state.remember(state.key(notebook, SMOKE), plan.outputs(notebook), plan.state(notebook))

    def why(**changes: object) -> str | None:
        (notebook,) = notebooks.find()
        return runner.Plan({**SMOKE, **changes}).stale(notebook)

    return why


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_files_that_matter(project: Project, ask: Why) -> None:
    assert ask() is None
    for file, text, expected in (
        ("profiles.py", "# x", "changed: library"),  # imported by the notebook
        ("errors.py", "# x", "changed: library"),  # imported by what it imports
        ("report/run.py", "# x", "changed: library"),  # imported inside a function
        ("report/style.mplstyle", "# x", "changed: library"),
        ("report/cluster.py", "# x", None),  # not reached
        ("experiments/profiles/smoke.toml", '["01_tiny"]\nx = 1', "changed: profile"),
        ("experiments/profiles/smoke.toml", '["02_other"]\nx = 1', None),
        ("experiments/profiles/smoke.toml", "cell_minutes = 1", "changed: profile"),
        ("experiments/profiles/default.toml", '["01_tiny"]\nx = 1', None),
    ):
        path = project.package / file
        before = path.read_text()
        append(path, f"\n{text}\n")
        assert ask() == expected, (file, text)
        path.write_text(before)


def test_code_matters_and_prose_does_not(project: Project, ask: Why) -> None:
    path = project.root / "notebooks" / "01_tiny.ipynb"
    for index, expected in ((0, None), (2, "changed: notebook")):
        node = nbformat.read(path, as_version=4)
        node.cells[index].source += "\nx = 1"
        nbformat.write(node, path)
        assert ask() == expected


def test_parameters_claims_and_environment_matter(
    project: Project, ask: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(seed=8) == "not run before"
    assert ask(profile="default") == "not run before"
    for value, expected in (("0.5", None), ("0.6", "changed: claims")):
        new = project.claims.with_name(f"claims{value}.csv")
        new.write_text(project.claims.read_text().replace("0.5", value))
        monkeypatch.setattr(claims, "FILE", new)
        assert ask() == expected
    append(project.root / "requirements.lock", "no-such-package==1\n")
    assert ask() == "changed: claims, environment"


def test_outputs_matter(project: Project, ask: Why) -> None:
    figure = project.root / "runs/smoke/figures/fig01_line.pdf"
    text = figure.read_text()
    figure.write_text("by hand")
    assert ask() == "overwritten: fig01_line.pdf"
    figure.unlink()
    assert ask() == "missing: fig01_line.pdf"
    figure.write_text(text)
    assert ask() is None
    for torn in ("{torn", "[]", '{"key": {}}', '{"key": 1, "outputs": {}}'):
        (project.root / "runs/smoke/state/01_tiny.json").write_text(torn)
        assert ask() == "not run before"


def test_assets_matter(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"glove": assets.registry()["glove-6b-50d"]}
    monkeypatch.setattr(assets, "registry", lambda: known)
    monkeypatch.setattr(assets, "local", lambda asset_id: None)
    project.notebook("01_tiny", ["x = 1"], {"assets": ["glove"]})
    (notebook,) = notebooks.find()
    first = state.key(notebook, SMOKE)["assets"]
    known["glove"] = known["glove"].model_copy(update={"members": ()})
    assert state.key(notebook, SMOKE)["assets"] != first
    known.clear()
    with pytest.raises(UnknownAsset, match="no asset is called 'glove'"):
        state.key(notebook, SMOKE)


def write_results(seconds: float = 1, value: float = 0.5, figures: Cells | None = None) -> None:
    measured = [results.measure("a.b", value)]
    written = results_of("01_tiny", measured, "smoke", seconds=seconds, figures=figures or ())
    results.write(written, results.file("01_tiny", "smoke"))


def test_what_is_read_matters(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other notebooks' results and claims, files of the repository, figures of the run."""
    reads = ["results/audits/audits.json", "figures/fig01_a.csv"]
    project.notebook("07_board", ["x = 1"], {"results": ["01_tiny"], "reads": reads})
    (notebook,) = notebooks.find()
    keys = [state.key(notebook, SMOKE)]  # what is read need not be there

    def differs(part: str) -> bool:
        keys.append(state.key(notebook, SMOKE))
        return keys[-1][part] != keys[-2][part]

    write_results()
    assert differs("results")
    write_results(seconds=2)
    assert not differs("results")  # what it cost is no matter
    write_results(value=0.6)
    assert differs("results")
    for place, expected in (("results/audits/audits.json", True), ("figures/fig01_a.csv", False),
                            ("runs/smoke/figures/fig01_a.csv", True)):  # fmt: skip
        (project.root / place).parent.mkdir(parents=True, exist_ok=True)
        (project.root / place).write_text("a")
        assert differs("reads") == expected
    more = project.claims.with_name("more.csv")
    more.write_text(project.claims.read_text() + "tong.y,tong,01_tiny,T,t,7,1,tiny.value,always\n")
    monkeypatch.setattr(claims, "FILE", more)
    assert differs("claims")


def test_parameters_are_the_known_ones(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = "profile: str = 'x'\nseed: int = 7"
    for parameters, message in (
        ("", "one cell tagged 'parameters', got 0"),
        (PARAMETERS.replace("seed", "sede"), r"sets \['profile', 'sede', 'overrides'\]"),
    ):
        project.notebook("01_tiny", ["x = 1"], parameters=parameters)
        with pytest.raises(ProfileError, match=message):
            notebooks.check_parameters(notebooks.find()[0])
        assert runner.main(["--profile", "smoke"]) == 2  # and nothing starts
        assert capsys.readouterr().out == "" and not (project.root / "runs").exists()
    project.notebook("01_tiny", ["x = 1"], parameters=f"{typed}\noverrides: dict = {{}}")
    notebooks.check_parameters(notebooks.find()[0])


def test_what_cannot_start_says_so(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.notebook("01_tiny", ["x = (1"])
    for arguments, message in (
        (["--profile", "smok"], "did you mean 'smoke'"),
        (["--only", "09"], "no notebook '09'; there are: 01_tiny"),
        (["--jobs", "0"], "--jobs: expected at least 1"),
        (["--seed", "-1"], "--seed: expected 0 or more"),
        (["--backend", "dask"], "expected --backend dask with the address of its scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1"], "expected --backend dask with the address"),
        ([], "01_tiny is not valid Python"),
    ):
        assert runner.main(["--profile", "smoke", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_a_notebook_comes_after_those_it_reads() -> None:
    unordered = [
        Notebook(name, (), Declaration(results=reads))
        for name, reads in (("01_tiny", []), ("02_board", ["01_tiny", "04_late", "08_not_chosen"]),
                            ("03_next", ["02_board"]), ("04_late", ["01_tiny"]))
    ]  # fmt: skip
    names = [notebook.name for notebook in runner._in_order(unordered)]
    assert names == ["01_tiny", "04_late", "02_board", "03_next"]


def test_results_come_from_notebooks_that_do_not_rest_on_the_reader() -> None:
    every = notebooks.find()
    names = {notebook.name for notebook in every}
    assert all(names.issuperset(notebook.declares.results) for notebook in every)
    assert {each.name for each in runner._in_order(every)} == names  # or a circle is an error


def test_a_corpus_goes_to_the_notebooks_that_read_one(
    project: Project, capsys: pytest.CaptureFixture
) -> None:
    profile = project.package / "experiments" / "profiles" / "smoke.toml"
    append(profile, '\n["02_reads"]\ncorpus = "imdb"\n')
    for name in ("01_tiny", "02_reads"):
        project.notebook(name, ["x = 1"])
    (mine := project.root / "mine.csv").write_text("text\nfine\n")
    assert runner.main(["--list", "--profile", "smoke", "--corpus", str(mine)]) == 0
    out = capsys.readouterr().out
    assert "02_reads" in out and "01_tiny" not in out
    assert runner.main(["--list", "--corpus", "no.csv"]) == 2
    assert "--corpus: got 'no.csv', expected a file" in capsys.readouterr().err


def test_invalid_notebooks_are_named(project: Project) -> None:
    path = project.notebook("01_tiny", ["x = 1"], {"figure": ["fig01_line"]})
    for text in (path.read_text(), "{", "{}"):
        path.write_text(text)
        with pytest.raises(RunError, match="01_tiny.ipynb: expected a notebook"):
            notebooks.find()


def test_finished_points_are_kept_for_the_same_run_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.notebook("01_tiny", ["x = 1"])
    (notebook,) = notebooks.find()
    plan = runner.Plan(SMOKE)
    point = plan.points(notebook) / "1" / "0.npz"

    def stays(plan: runner.Plan, **key: str) -> bool:
        point.parent.mkdir(parents=True, exist_ok=True)
        point.touch()
        runner._clear_points(plan, notebook, {"notebook": "a", **key})
        return point.exists()

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    stayed = [stays(plan), stays(plan), stays(plan, library="b"), stays(plan, library="b")]
    assert stayed == [False, True, False, True]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [stays(plan, library="b") for _ in range(2)] == [False, True]
    assert not stays(runner.Plan(SMOKE, force=True), library="b")

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    elsewhere = {"library": "b", "environment": "another"}
    assert stays(runner.Plan(SMOKE, any_machine=True), **elsewhere)
    assert not stays(runner.Plan(SMOKE, any_machine=True), library="c", environment="another")


def test_notebooks_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    for jobs, share in ((1, "8"), (2, "4"), (16, "1")):
        environment = runner._environment(runner.Plan(SMOKE, jobs=jobs))
        assert environment["OMP_NUM_THREADS"] == environment["LOKY_MAX_CPU_COUNT"] == share


def test_products_are_judged(project: Project) -> None:
    project.notebook("01_tiny", ["x = 1"], {"figures": ["fig01_line"]})
    (notebook,), plan = notebooks.find(), runner.Plan(SMOKE)
    for path in plan.products(notebook):
        problem = runner._problem(plan, notebook, 0.0)
        assert problem and f"{path.name}, which is not there" in problem
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    write_results(figures=["fig01_line"])
    assert runner._problem(plan, notebook, 0.0) is None
    later = runner._problem(plan, notebook, time.time() + 60)
    assert later and "which is from an earlier run" in later
    write_results(figures=["fig01_line", "fig01_more"])
    undeclared = "it makes figures that it does not declare: ['fig01_more']"
    assert runner._problem(plan, notebook, 0.0) == undeclared


def as_user(*command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """What a command says in this environment, with the library that is tested."""
    library = os.pathsep.join([str(REPOSITORY / "lib"), str(REPOSITORY)])
    environment = {**os.environ, "PYTHONPATH": library, **changes}
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/")


def test_the_runner_itself_needs_no_torch() -> None:
    others = 'print([m for m in ("torch", "matplotlib", "papermill") if m in sys.modules])'
    done = as_user(sys.executable, "-c", f"import sys, tools.runner; {others}")
    assert done.stdout.strip() == "[]", done.stderr


def test_help_needs_nothing_installed(tmp_path: Path) -> None:
    """Of a clone without .venv, by an interpreter that has no package of ours; from any folder."""
    package = "lib/textpriv"
    for name in ("run_all.sh", "setup.sh", "tools/__init__.py", "tools/options.py",
                 f"{package}/__init__.py", f"{package}/report/__init__.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without site-packages
    bare.chmod(0o755)
    done = as_user("bash", str(tmp_path / "run_all.sh"), "--only", "01", "--help", PYTHON=str(bare))
    assert done.returncode == 0 and "--scheduler ADDRESS" in done.stdout, done.stderr
    assert not (tmp_path / ".venv").exists()


async def heard(channel: type[AsyncZMQSocketChannel]) -> bool:
    """Whether a message is read that comes while its socket is used past the event loop."""
    context, session = zmq.asyncio.Context(), Session(key=b"")
    kernel, client = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    try:
        client.connect(f"tcp://127.0.0.1:{kernel.bind_to_random_port('tcp://127.0.0.1')}")
        session.send(client, "here")  # both ends are connected once this has arrived
        await kernel.recv_multipart()
        waiting = asyncio.create_task(channel(client, session).get_msg())
        await asyncio.sleep(0.1)
        session.send(kernel, "execute_reply")
        time.sleep(0.2)  # without the loop, as when an output widget's state is sent
        session.send(client, "comm_msg")
        done, _ = await asyncio.wait([waiting], timeout=3)
        waiting.cancel()
        return bool(done)
    finally:
        context.destroy(linger=0)


def test_a_reply_that_comes_while_a_widget_is_shown_ends_its_cell() -> None:
    assert not asyncio.run(heard(AsyncZMQSocketChannel))  # else the class is needed no more
    assert asyncio.run(heard(execute.Watched))
