"""Run the notebooks: `./run_all.sh`, or `python -m tools.runner`.

Each notebook runs in a process of its own. What is up to date is skipped; a notebook that
fails, or does not make what it declares, is named and the exit status says so; the others
still run. Interrupted, the same command resumes.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from textpriv import assets, parallel, paths, profiles
from textpriv.errors import ProfileError, RunError, TextprivError
from textpriv.files import cannot_write, canonical_json
from textpriv.report import claims, cluster, results
from tools import notebooks, options, state
from tools.notebooks import Notebook

RAN, UP_TO_DATE, FAILED, NOT_RUN = "ran", "up to date", "failed", "not run"


@dataclass(frozen=True)
class Plan:
    """What one call of the runner is about."""

    parameters: dict[str, Any]
    jobs: int
    force: bool
    scheduler: str = ""  # address of a Dask cluster; empty: this machine

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

    def products(self, notebook: Notebook) -> list[Path]:
        """The results and figures that a notebook has to make."""
        figures = paths.output_directory(self.run) / "figures"
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
    key: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    seconds: float | None = None

    @property
    def name(self) -> str:
        return self.notebook.name


def main(argv: Sequence[str] | None = None) -> int:
    arguments = options.parser().parse_args(argv)
    try:
        plan = _plan(arguments)
        found = notebooks.find()
        chosen = _choose(found, arguments.only, arguments.start)
        for notebook in chosen:
            _check(notebook, found)
        if arguments.list:
            return _list(plan, chosen)
        if arguments.dry_run:
            from tools import forecast

            print(forecast.text(chosen, arguments.profile))
            return 0
        return _locked_run(plan, chosen)
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _plan(arguments: argparse.Namespace) -> Plan:
    profiles.settings(arguments.profile)  # an unknown profile is an error now
    if arguments.jobs < 1:
        raise ProfileError(f"--jobs: expected at least 1, got {arguments.jobs}")
    if arguments.seed < 0:
        raise ProfileError(f"--seed: expected 0 or more, got {arguments.seed}")
    if (arguments.backend == "dask") != bool(arguments.scheduler):
        got = f"--backend {arguments.backend} --scheduler {arguments.scheduler or '(none)'}"
        raise RunError(f"got {got}, expected --backend dask with the address of its scheduler")
    parameters = {"profile": arguments.profile, "seed": arguments.seed, "overrides": {}}
    return Plan(parameters, arguments.jobs, arguments.force, arguments.scheduler)


def _check(notebook: Notebook, found: Sequence[Notebook]) -> None:
    """Refuse what would go wrong unnoticed, before anything starts."""
    notebooks.check_parameters(notebook)
    earlier = [other.name for other in found if other.name < notebook.name]
    for name in notebook.declares.results:
        if name not in earlier:
            raise RunError(
                f"{notebook.name} declares the results of {name!r}, expected a notebook before it: "
                f"{', '.join(earlier) or 'none'}"
            )


def _choose(
    found: Sequence[Notebook], only: Sequence[str] | None, start: str | None
) -> list[Notebook]:
    """The notebooks that `--only` and `--from` name by their leading number or name."""
    known = [notebook.name for notebook in found]
    for prefix in [*(only or []), *([start] if start else [])]:
        if not any(name.startswith(prefix) for name in known):
            raise RunError(f"no notebook {prefix!r}; there are: {', '.join(known) or 'none'}")
    chosen = [n for n in found if only is None or n.name.startswith(tuple(only))]
    first = next((name for name in known if start and name.startswith(start)), "")
    return [notebook for notebook in chosen if notebook.name >= first]


def _list(plan: Plan, chosen: Sequence[Notebook]) -> int:
    rows = [(n.name, plan.stale(n) or UP_TO_DATE) for n in chosen]
    print(_aligned([("notebook", "state"), *rows]))
    return 0


def _locked_run(plan: Plan, chosen: Sequence[Notebook]) -> int:
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(plan.folder / ".lock", timeout=0).acquire()
    except Timeout as error:
        raise RunError(f"another run of {plan.run!r} is under way in this repository") from error
    except OSError as error:
        raise cannot_write(plan.folder, error.strerror or str(error)) from error
    with lock:
        return _run(plan, chosen)


def _run(plan: Plan, chosen: Sequence[Notebook]) -> int:
    settings = profiles.settings(plan.parameters["profile"])
    where = "." if plan.run == "default" else f"runs/{plan.run}"
    print(f"profile {plan.parameters['profile']}, seed {plan.parameters['seed']},", end=" ")
    print(f"{settings.device}; writes {where}/figures and {where}/results")
    if plan.scheduler:
        workers = cluster.check(plan.scheduler)
        print(f"shards of work go to the Dask cluster at {plan.scheduler} ({workers} workers)")
    _fetch([n for n in chosen if plan.stale(n)], plan.parameters["profile"])
    jobs = [Job(notebook) for notebook in chosen]
    try:
        _work_through(plan, jobs)
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", flush=True)
        return 130
    finally:
        _stop(jobs)
        print(f"\n{_table(plan, jobs)}", flush=True)
    return 0 if all(job.state in (RAN, UP_TO_DATE) for job in jobs) else 1


def _fetch(chosen: Sequence[Notebook], profile: str) -> None:
    """Bring every asset that is declared, or named by the profile, before anything starts."""
    wanted = sorted({each for notebook in chosen for each in notebooks.needed(notebook, profile)})
    for number, asset_id in enumerate(wanted, start=1):
        print(f"asset {number}/{len(wanted)}: {asset_id}", flush=True)
        assets.fetch(asset_id)


def _work_through(plan: Plan, jobs: Sequence[Job]) -> None:
    """Start what is ready, at most `plan.jobs` at a time, until nothing is left."""
    waiting = list(jobs)
    running: list[Job] = []
    while waiting or running:
        for job in [job for job in running if job.process and job.process.poll() is not None]:
            running.remove(job)
            _finish(plan, job)
        for job in [job for job in waiting if not _needs(job, [*waiting, *running])]:
            if len(running) == plan.jobs:
                break
            waiting.remove(job)
            if _start(plan, job, jobs):
                running.append(job)
        time.sleep(0.05)


def _needs(job: Job, unfinished: Sequence[Job]) -> list[str]:
    """Unfinished notebooks whose results this one reads."""
    return [other.name for other in unfinished if other.name in job.notebook.declares.results]


def _start(plan: Plan, job: Job, jobs: Sequence[Job]) -> bool:
    """Start a notebook, unless it is up to date or rests on one that failed."""
    broken = [j.name for j in jobs if j.state in (FAILED, NOT_RUN) and _needs(job, [j])]
    if broken:
        print(f"{job.name}  not run: it reads the results of {', '.join(broken)}", flush=True)
        return False
    why = plan.stale(job.notebook)
    if why is None:
        job.state = UP_TO_DATE
        return False
    print(f"{job.name}  starts ({why})", flush=True)
    job.key = state.key(job.notebook, plan.parameters)
    job.began = time.time()
    minutes = profiles.settings(plan.parameters["profile"]).cell_minutes
    limit = [] if minutes is None else ["--cell-minutes", str(minutes)]
    command = [sys.executable, "-m", "tools.execute", job.name]
    command += [str(plan.executed(job.notebook)), canonical_json(plan.parameters), *limit]
    # A session of its own: Ctrl-C reaches the runner alone, which passes it on once.
    job.process = subprocess.Popen(command, env=_environment(plan), start_new_session=True)
    return True


def _finish(plan: Plan, job: Job) -> None:
    """Judge a notebook whose process has ended."""
    assert job.process is not None
    job.seconds = time.time() - job.began
    problem = _problem(plan, job, job.process.returncode)
    job.process = None
    if problem is None:
        state.remember(job.key, plan.outputs(job.notebook), plan.state(job.notebook))
        job.state = RAN
        return
    job.state = FAILED
    print(f"{job.name}  FAILED: {problem}", flush=True)
    executed = plan.executed(job.notebook)
    if executed.exists() and executed.stat().st_mtime >= job.began:
        print(f"{job.name}  its output: {executed.relative_to(paths.REPOSITORY)}", flush=True)


def _problem(plan: Plan, job: Job, status: int) -> str | None:
    """What went wrong with a notebook; None when it made all that it declares."""
    if status == 1:
        return "see the lines above"
    if status:
        return f"its process ended with status {status}"
    for path in plan.products(job.notebook):
        if not path.exists() or path.stat().st_mtime < job.began:
            made = "is not there" if not path.exists() else "is from an earlier run"
            return f"it declares {path.relative_to(paths.REPOSITORY)}, which {made}"
    try:
        made_figures = results.load(job.name, plan.run).figures
    except RunError as error:
        return str(error)
    undeclared = sorted(set(made_figures) - set(job.notebook.declares.figures))
    return f"it makes figures that it does not declare: {undeclared}" if undeclared else None


def _stop(jobs: Sequence[Job]) -> None:
    """Let the notebooks that run shut down their kernels, then make sure that they are gone."""
    processes = [job.process for job in jobs if job.process]
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()


def _table(plan: Plan, jobs: Sequence[Job]) -> str:
    head = ("notebook", "state", "seconds", "peak MB", "figures", "claims")
    return _aligned([head, *(_row(plan, job) for job in jobs)])


def _row(plan: Plan, job: Job) -> tuple[str, ...]:
    if job.state not in (RAN, UP_TO_DATE):
        seconds = "" if job.seconds is None else f"{job.seconds:.0f}"
        return (job.name, job.state, seconds, "", "", "")
    found = results.load(job.name, plan.run)
    verdicts = claims.count(job.name, found.by_name(), plan.parameters["profile"])
    return (
        job.name,
        job.state,
        f"{job.seconds or found.seconds:.0f}",
        f"{found.peak_mb:.0f}",
        str(len(found.figures)),
        ", ".join(f"{times} {verdict}" for verdict, times in verdicts.items()) or "none",
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _environment(plan: Plan) -> dict[str, str]:
    """Environment variables of a notebook's process."""
    kernels = [str(Path(sys.prefix, "share", "jupyter")), os.environ.get("JUPYTER_PATH")]
    threads = str(max(1, _cores() // plan.jobs))
    return {
        **os.environ,
        "JUPYTER_PATH": os.pathsep.join(filter(None, kernels)),  # our own before the user's
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # silences the debugger's start-up warning
        parallel.SCHEDULER: plan.scheduler,
        results.RUNNER: "1",
    }


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped is interrupted
    sys.exit(main())
