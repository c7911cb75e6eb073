"""Run the notebooks: `./run_all.sh`, or `python -m tools.runner`.

Each notebook runs in a kernel of its own. What is up to date is skipped; a notebook that
fails, or does not make what it declares, is named and the exit status says so; the others
still run. Interrupted, the same command resumes, without `--force` if it had that.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Event
from typing import Any

import joblib
from filelock import FileLock, Timeout

from textpriv import assets, parallel, paths, profiles
from textpriv.errors import ProfileError, RunError, TextprivError
from textpriv.files import cannot_write, canonical_json, write_atomic
from textpriv.report import cluster, provenance, results, verdicts
from tools import compare, forecast, notebooks, options, redraw, state
from tools.notebooks import Notebook, say

RAN, UP_TO_DATE, FAILED, NOT_RUN = "ran", "up to date", "failed", "not run"


@dataclass(frozen=True)
class Plan:
    """What one call of the runner is about."""

    parameters: dict[str, Any]
    jobs: int = 1
    force: bool = False
    any_machine: bool = False  # may have made finished points
    scheduler: str = ""  # address of a Dask cluster; empty: this machine
    interrupted: Event = field(default_factory=Event)

    @property
    def run(self) -> str:
        return results.run_name(**self.parameters)

    @property
    def folder(self) -> Path:
        """Executed notebooks and their state."""
        return paths.RUNS / self.run

    def executed(self, notebook: Notebook) -> Path:
        return self.folder / f"{notebook.name}.ipynb"

    def state(self, notebook: Notebook) -> Path:
        return self.folder / "state" / f"{notebook.name}.json"

    def points(self, notebook: Notebook) -> Path:
        """Where `study.measure` keeps what it has finished, until the notebook is."""
        return self.folder / results.POINTS / notebook.name

    def products(self, notebook: Notebook) -> list[Path]:
        """The results and figures that a notebook has to make."""
        figures = paths.output_directory(self.run, "figures")
        stems = notebook.declares.figures
        return [
            results.file(notebook.name, self.run),
            *(figures / f"{stem}{suffix}" for stem in stems for suffix in results.FIGURE_SUFFIXES),
        ]

    def outputs(self, notebook: Notebook) -> list[Path]:
        return [self.executed(notebook), *self.products(notebook)]

    def stale(self, notebook: Notebook) -> str | None:
        """Why a notebook has to run; None when it is up to date."""
        if self.force:
            return "forced"
        key = state.key(notebook, self.parameters)
        return state.stale(key, self.outputs(notebook), self.state(notebook))


@dataclass
class Job:
    """One notebook on its way through the runner."""

    notebook: Notebook
    state: str = NOT_RUN
    seconds: float | None = None


def main(argv: Sequence[str] | None = None) -> int:
    arguments = options.parser().parse_args(argv)
    try:
        plan = _plan(arguments)
        available = notebooks.find()
        if arguments.redraw:
            return redraw.redraw(available, plan.parameters)
        chosen = _in_order(_choose(available, arguments.only))
        if arguments.corpus:
            chosen = [each for each in chosen if _reads_a_corpus(each, arguments.profile)]
        plan = replace(plan, jobs=min(plan.jobs, max(1, len(chosen))))
        for notebook in chosen:
            notebooks.check_parameters(notebook)
        if arguments.list:
            rows = [(each.name, plan.stale(each) or UP_TO_DATE) for each in chosen]
            print(_aligned([("notebook", "state"), *rows]))
            return 0
        if arguments.dry_run:
            print(forecast.text(chosen, arguments.profile))
            return 0
        with _locked(plan):
            return _run(plan, chosen)
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        anew = " without --force" if arguments.force else ""  # which starts from the beginning
        print(f"interrupted; the same command{anew} resumes", flush=True)
        return 130


def _plan(arguments: argparse.Namespace) -> Plan:
    device, jobs = profiles.settings(arguments.profile).here().device, arguments.jobs
    if jobs is None:  # two notebooks start fewer workers and leave fewer cores idle than one does,
        jobs = 2 if device == "cpu" else 1  # but would share a GPU's memory
    if jobs < 1:
        raise ProfileError(f"--jobs: expected at least 1, got {jobs}")
    if arguments.seed < 0:
        raise ProfileError(f"--seed: expected 0 or more, got {arguments.seed}")
    if (arguments.backend == "dask") != bool(arguments.scheduler):
        got = f"--backend {arguments.backend} --scheduler {arguments.scheduler or '(none)'}"
        raise RunError(f"got {got}, expected --backend dask with the address of its scheduler")
    own = {"corpus": _own_file(arguments.corpus)} if arguments.corpus else {}
    parameters = {"profile": arguments.profile, "seed": arguments.seed, "overrides": own}
    return Plan(parameters, jobs, arguments.force, arguments.any_machine, arguments.scheduler)


def _own_file(name: str) -> str:
    """A file by its whole path, since notebooks run elsewhere."""
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise RunError(f"--corpus: got {name!r}, expected a file: csv, tsv, jsonl, parquet or txt")
    return str(path)


def _choose(available: Sequence[Notebook], only: Sequence[str] | None) -> list[Notebook]:
    """The notebooks that `--only` names by their leading number or name; all without it."""
    known = [notebook.name for notebook in available]
    for prefix in only or []:
        if not any(name.startswith(prefix) for name in known):
            raise RunError(f"no notebook {prefix!r}; there are: {', '.join(known) or 'none'}")
    return [each for each in available if only is None or each.name.startswith(tuple(only))]


def _reads_a_corpus(notebook: Notebook, profile: str) -> bool:
    return not {"corpus", "corpora"}.isdisjoint(profiles.table(profile, notebook.name))


def _in_order(chosen: Sequence[Notebook]) -> list[Notebook]:
    """Each after those whose results it reads: it may rest on one with a higher number."""
    known = {notebook.name: notebook for notebook in chosen}
    reads = {
        name: [each for each in notebook.declares.results if each in known]
        for name, notebook in known.items()
    }
    return [known[name] for name in TopologicalSorter(reads).static_order()]


def _locked(plan: Plan) -> AbstractContextManager[object]:
    """The lock of a run of this clone, taken; it is freed whenever its process ends."""
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(plan.folder / ".lock", timeout=0).acquire()
    except Timeout as error:
        raise RunError(f"another run of {plan.run!r} is under way in this repository") from error
    except OSError as error:
        raise cannot_write(plan.folder, error.strerror or str(error)) from error


def _run(plan: Plan, chosen: Sequence[Notebook]) -> int:
    settings = profiles.settings(plan.parameters["profile"]).here()
    print(f"profile {plan.parameters['profile']}, seed {plan.parameters['seed']},", end=" ")
    folders = [paths.output_directory(plan.run, kind) for kind in ("figures", "results")]
    figures, numbers = (os.path.relpath(each, paths.REPOSITORY) for each in folders)
    print(f"{settings.device}; writes {figures} and {numbers}")
    if plan.scheduler:
        workers = cluster.check(plan.scheduler)
        print(f"shards of work go to the Dask cluster at {plan.scheduler} ({workers} workers)")
    if stale := [notebook for notebook in chosen if plan.stale(notebook)]:
        _prepare(plan)
        _fetch(stale, plan.parameters["profile"])
    jobs = [Job(notebook) for notebook in chosen]
    try:
        _work_through(plan, jobs)
        if plan.run in paths.COMMITTED:
            _keep_outputs(plan, jobs)
    finally:
        print(f"\n{_table(plan, jobs)}", flush=True)
    if plan.run == "default" and (beside := compare.with_full(n.name for n in chosen)):
        print(compare.summary(beside))
    return 0 if all(job.state in (RAN, UP_TO_DATE) for job in jobs) else 1


def _prepare(plan: Plan) -> None:
    """Make this process one that kernels can be started from, and be the only one that does."""
    from tools import execute  # late: papermill takes a second, which what is up to date can spare

    os.environ.update(_environment(plan))
    os.chdir(paths.NOTEBOOKS)
    while execute.end_processes(plan.folder):  # of a runner that was killed just now
        time.sleep(0.1)


def _fetch(chosen: Sequence[Notebook], profile: str) -> None:
    """Bring every asset that is declared, or named by the profile, before anything starts."""
    wanted = sorted({each for notebook in chosen for each in notebooks.needed(notebook, profile)})
    for number, asset_id in enumerate(wanted, start=1):
        print(f"asset {number}/{len(wanted)}: {asset_id}", flush=True)
        assets.fetch(asset_id)


def _work_through(plan: Plan, jobs: Sequence[Job]) -> None:
    """Bring the notebooks up to date, `plan.jobs` at a time; each waits for those it reads.

    These come before it (`_in_order`), so that they have begun when it begins to wait.
    """
    pool = ThreadPoolExecutor(plan.jobs)
    begun: dict[str, tuple[Job, Future[None]]] = {}
    try:
        for job in jobs:
            before = [begun[name] for name in job.notebook.declares.results if name in begun]
            begun[job.notebook.name] = job, pool.submit(_bring_up_to_date, plan, job, before)
        for _, done in begun.values():
            done.result()
    except BaseException:
        _stop(plan, pool, [done for _, done in begun.values()])
        raise
    pool.shutdown()


def _stop(plan: Plan, pool: ThreadPoolExecutor, begun: Sequence[Future[None]]) -> None:
    """Return when no process of a notebook is left; a second Ctrl-C changes nothing."""
    from tools import execute

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    plan.interrupted.set()
    pool.shutdown(wait=False, cancel_futures=True)
    while execute.end_processes(plan.folder) or not all(each.done() for each in begun):
        time.sleep(0.1)


def _bring_up_to_date(plan: Plan, job: Job, before: Sequence[tuple[Job, Future[None]]]) -> None:
    """Run a notebook, unless it is up to date or rests on one that failed."""
    wait([done for _, done in before])
    if plan.interrupted.is_set():
        return
    notebook = job.notebook
    if broken := [each.notebook.name for each, _ in before if each.state in (FAILED, NOT_RUN)]:
        say(notebook.name, f"not run: it reads the results of {', '.join(broken)}")
        return
    why = plan.stale(notebook)
    if why is None:
        job.state = UP_TO_DATE
        return
    from tools import execute

    say(notebook.name, f"starts ({why})")
    key, began = state.key(notebook, plan.parameters), time.time()
    minutes = profiles.settings(plan.parameters["profile"]).cell_minutes
    problem: str | None
    try:
        _clear_points(plan, notebook, key)
        execute.execute(
            notebook, plan.executed(notebook), plan.parameters, minutes, plan.interrupted
        )
        problem = _problem(plan, notebook, began)
    except Exception as error:
        known = isinstance(error, TextprivError)
        problem = str(error) if known else f"{type(error).__name__}: {error}"
    if plan.interrupted.is_set():
        return
    job.seconds = time.time() - began
    if problem is None:
        state.remember(key, plan.outputs(notebook), plan.state(notebook))
        shutil.rmtree(plan.points(notebook), ignore_errors=True)
        job.state = RAN
        return
    job.state = FAILED
    say(notebook.name, f"FAILED: {problem}")
    executed = plan.executed(notebook)
    if executed.exists() and executed.stat().st_mtime >= began:
        say(notebook.name, f"its output: {executed.relative_to(paths.REPOSITORY)}")


def _keep_outputs(plan: Plan, jobs: Sequence[Job]) -> None:
    """Put what was printed and drawn into the notebooks that git holds, when all have run.

    Not sooner: what has changed in git by then would be taken for changed code. Where git holds a
    full run, its outputs stay.
    """
    from tools import outputs  # late: nbformat takes a second

    for job in jobs:
        is_behind = plan.run == "default" and results.file(job.notebook.name, "full").exists()
        if job.state in (RAN, UP_TO_DATE) and not is_behind:
            outputs.keep(job.notebook, plan.executed(job.notebook), plan.run)


def _clear_points(plan: Plan, notebook: Notebook, key: dict[str, str]) -> None:
    """Take away finished points that this run would not make to the last bit.

    With `plan.any_machine` those stay that another environment, processor or number of threads has
    made; the results name them.
    """
    folder, threads = plan.points(notebook), _environment(plan)["OMP_NUM_THREADS"]
    code = {name: digest for name, digest in key.items() if name != "environment"}
    machine = [key.get("environment"), threads, provenance.processor()]
    path = folder / "key.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    is_ours = known.get("code") == code and (plan.any_machine or known.get("machine") == machine)
    if plan.force or not is_ours:
        path.unlink(missing_ok=True)  # first: killed before the rest is gone, it is still stale
        if folder.exists():
            shutil.rmtree(folder)
    write_atomic(path, canonical_json({"code": code, "machine": machine}).encode())


def _problem(plan: Plan, notebook: Notebook, began: float) -> str | None:
    """What a notebook that ran did not make, or did not declare; None where all is well."""
    for path in plan.products(notebook):
        if not path.exists() or path.stat().st_mtime < began:
            made = "is not there" if not path.exists() else "is from an earlier run"
            return f"it declares {path.relative_to(paths.REPOSITORY)}, which {made}"
    made_figures = results.load(notebook.name, plan.run).figures
    undeclared = sorted(set(made_figures) - set(notebook.declares.figures))
    return f"it makes figures that it does not declare: {undeclared}" if undeclared else None


def _table(plan: Plan, jobs: Sequence[Job]) -> str:
    head = ("notebook", "state", "seconds", "peak MB", "figures", "claims")
    return _aligned([head, *(_row(plan, job) for job in jobs)])


def _row(plan: Plan, job: Job) -> tuple[str, ...]:
    name = job.notebook.name
    if job.state not in (RAN, UP_TO_DATE):
        seconds = "" if job.seconds is None else f"{job.seconds:.0f}"
        return (name, job.state, seconds, "", "", "")
    finished = results.load(name, plan.run)
    counted = verdicts.count(name, finished.by_name(), plan.parameters["profile"])
    return (
        name,
        job.state,
        f"{job.seconds or finished.seconds:.0f}",
        f"{finished.peak_mb:.0f}",
        str(len(finished.figures)),
        ", ".join(f"{times} {verdict}" for verdict, times in counted.items()) or "none",
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _environment(plan: Plan) -> dict[str, str]:
    """What the notebooks' processes find in their environment beside the user's own."""
    share = str(max(1, joblib.cpu_count() // plan.jobs))  # of the cores, for each notebook
    return {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share),
        "LOKY_MAX_CPU_COUNT": os.environ.get("LOKY_MAX_CPU_COUNT", share),  # for `joblib`
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # silences the debugger's start-up warning
        parallel.SCHEDULER: plan.scheduler,
        results.RUNNER: str(plan.folder),
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped is interrupted
    sys.exit(main())
