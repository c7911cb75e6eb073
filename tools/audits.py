"""Runs the long audits and writes what they found: `make audit`, or

    python -m tools.audits                     everything, on two processes
    python -m tools.audits exact tight         some parts; nothing is written
    python -m tools.audits --restate           the statements anew, after new results

It writes `results/audits/audits.json` and `statements.json`. Interrupted, the same call goes on
where it was: tasks are kept in the cache, whole or not at all (`experiments.audits`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from tqdm import tqdm

from textpriv import paths
from textpriv.errors import RunError, TextprivError
from textpriv.experiments import audits as experiments
from textpriv.experiments.audits import Done, Task, audits_of, code_digest
from textpriv.experiments.statements import statements
from textpriv.files import write_atomic
from textpriv.privacy import Audit, audit_table, read_audits, write_audits
from textpriv.privacy.exact import SLACK
from textpriv.privacy.results import plain
from textpriv.report import DEFAULT_SEED, provenance
from textpriv.report.board import gather

DRAWS = 1_000_000  # per input and half
PARTS = (*experiments.PARTS, "mutants")
MUTANTS = paths.REPOSITORY / "tests" / "mutants.py"
_ABOUT = ("seed", "draws", "commit", "dirty", "seconds", "task_seconds", "versions")


def folder() -> Path:
    """Where both files lie."""
    return paths.REPOSITORY / "results" / "audits"


def load(name: str) -> Any:
    """What `audits.json` or `statements.json` holds."""
    return json.loads((folder() / name).read_text(encoding="utf-8"))


def audits() -> list[Audit]:
    """The audits of the last complete run."""
    return read_audits(folder() / "audits.json")


def tasks(parts: Sequence[str], *, draws: int, seed: int) -> list[Task]:
    """The tasks of some parts, and that of the mutants."""
    own = [part for part in parts if part != "mutants"]
    wrong = [Task("mutants", "wrong mechanisms", mutants, (_mutants_digest(),))]
    own_tasks = experiments.tasks(own, draws=draws, seed=seed)
    return [*own_tasks, *(wrong if "mutants" in parts else [])]


def _mutants_digest() -> str:
    files = [MUTANTS, MUTANTS.with_name("helpers.py")]
    return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()


def mutants(digest: str) -> list[dict[str, Any]]:
    """Wrong mechanisms under the small audits: flaw, audit, worst ratio, whether it was caught.

    `digest` is of the files that hold them, which the result depends on; RunError where one has
    changed meanwhile, or fails.
    """
    if digest != _mutants_digest():
        raise RunError(f"{MUTANTS} has changed since the audits began: start them again")
    ran = subprocess.run(
        [sys.executable, str(MUTANTS), "--json"], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RunError(f"{MUTANTS} failed: {ran.stderr.strip()[-500:]}")
    rows: list[dict[str, Any]] = json.loads(ran.stdout)
    return rows


def run(chosen: Sequence[Task], jobs: int) -> dict[Task, Done]:
    """All tasks, several at a time, with a bar and a line per audit that ends."""
    code = code_digest()
    for part, count in Counter(task.part for task in chosen).items():
        print(f"{part}: {count} tasks", flush=True)
    finished: dict[int, Done] = {}
    numbered = delayed(lambda number, task: (number, task.done(code)))
    work = (numbered(number, task) for number, task in enumerate(chosen))
    with tqdm(total=len(chosen), mininterval=5) as bar:
        for number, done in Parallel(n_jobs=jobs, return_as="generator_unordered")(work):
            finished[number] = done
            bar.update()
            if not done.kept and done.seconds > 5:
                bar.write(f"{chosen[number].part}: {chosen[number].label}, {done.seconds:.0f} s")
    return {task: finished[number] for number, task in enumerate(chosen)}


def summary(finished: Mapping[Task, Done]) -> dict[str, Any]:
    """What stands beside the audits in the file: losses, bounds of losses, and the mutants."""

    def values(part: str) -> list[Any]:
        return [done.value for task, done in finished.items() if task.part == part]

    mutants = [row for rows in values("mutants") for row in rows]
    return {
        "tight": values("tight"),
        "certified": [row for rows in values("certified") for row in rows],
        "mutants_caught": sum(row["caught"] for row in mutants),
        "mutants_tried": len(mutants),
        "mutants": mutants,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 when no claim is broken and every audit could tell, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.audits", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--draws", type=int, default=DRAWS, help="per input and half")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--restate", action="store_true", help="after new results: no audit at all")
    asked = parser.parse_args(arguments)
    start, parts = time.monotonic(), asked.part or PARTS
    try:
        if asked.restate:
            restate()
            return 0
        finished = run(tasks(parts, draws=asked.draws, seed=asked.seed), asked.jobs)
        judged = audits_of({task: done.value for task, done in finished.items()})
        judged, also = [*every_pair(judged, finished), *judged], summary(finished)
        if not asked.part:
            about = {
                "seed": asked.seed,
                "draws": asked.draws,
                "commit": provenance.commit(),
                "dirty": provenance.dirty(),
                "seconds": round(time.monotonic() - start, 1),
                "task_seconds": round(sum(done.seconds for done in finished.values()), 1),
                "versions": provenance.versions(),
            }
            _state(also, about)  # first, so that the audits stand for a complete run
            write_audits(judged, folder() / "audits.json", {**about, **also})
    except TextprivError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; finished tasks are kept", file=sys.stderr)
        return 130
    if judged:
        print(audit_table(judged).drop(columns="claim").to_string(index=False))
    if also["mutants_tried"]:
        print(f"mutants caught: {also['mutants_caught']} of {also['mutants_tried']}")
    print(f"{time.monotonic() - start:.0f} s")
    held = all(audit.as_expected for audit in judged)
    return 0 if held and also["mutants_caught"] == also["mutants_tried"] else 1


def every_pair(judged: Sequence[Audit], finished: Mapping[Task, Done]) -> list[Audit]:
    """What `tight_loss` says of every pair, where that is exact: as audits of their own.

    Of SanText and TEM no output tells two words apart better than one of the two words, so that
    one pass over the columns covers all pairs of the whole table. Only the worst pair is kept, so
    that a violation counts once.
    """
    exact = {(each.mechanism, each.setting.split(",")[0]): each for each in reversed(judged)}
    losses = [done.value for task, done in finished.items() if task.part == "tight"]
    like = [
        (exact.get((value["mechanism"], f"eps {value['epsilon']:g}")), value)
        for value in losses
        if value["mechanism"] in ("santext", "santext+", "tem")
    ]
    return [
        replace(
            audit,
            method="exact, the worst output of every pair",
            pairs=value["words"] * (value["words"] - 1) // 2,
            worst_ratio=value["share"],
            worst_pair=(value["share_pair"][0], value["share_pair"][1]),
            violations=int(value["share"] > 1 + SLACK),
        )
        for audit, value in like
        if audit  # or the exact audits were not asked for
    ]


def restate() -> None:
    """Make the statements anew from the losses that are kept and the results as they are now."""
    kept = load("audits.json")
    _state(kept, {name: kept[name] for name in _ABOUT})


def _state(also: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    stated = [
        {**plain(each), "said": str(each)}
        for each in statements(gather("full"), [*also["tight"], *also["certified"]])
    ]
    text = json.dumps({**about, "statements": stated}, indent=1, allow_nan=False) + "\n"
    write_atomic(folder() / "statements.json", text.encode())


if __name__ == "__main__":
    sys.exit(main())
