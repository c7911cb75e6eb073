"""What a notebook measured, as one JSON file per notebook.

Names are dotted and stable (`table2.hockey.eps19.exact.kept`), so that a script finds
them. Shares and rates lie in 0..1. A file holds the latest finished run of its notebook.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from textpriv import paths
from textpriv.errors import InvalidInput, RunError
from textpriv.files import write_atomic
from textpriv.report import DEFAULT_SEED

FIGURE_SUFFIXES = (".png", ".pdf", ".csv", ".json")
"""What one saved figure consists of: picture, picture, plotted numbers, provenance."""

RUNNER = "TEXTPRIV_RUNNER"
"""Environment variable with the run's folder, in a notebook that the runner executes."""

POINTS = "points"
"""In the run's folder: what `study.measure` has finished of notebooks that are not."""

DRAWINGS = "drawings"
"""In the run's folder: from what its figures were drawn, for `./run_all.sh --redraw`."""

NOTEBOOK = re.compile(r"\d{2}_[a-z0-9_]+")
_NAME = re.compile(r"[a-z][a-z0-9_+-]*(\.[a-z0-9_+-]+)+")


class Measurement(BaseModel, frozen=True, extra="forbid"):
    """One number, its 95% interval, and how many observations it rests on.

    `paired_errors` has standard errors of its differences to other measurements of the same
    documents, by their names: document by document, and as if there were no difference, which is
    what a test asks for. Without one, the errors of two measurements add up as squares. `columns`
    has those of the row that it was recorded from, which its name is made of (`Run.record_rows`).
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: str = "share"
    paired_errors: dict[str, float] = Field(default_factory=dict, exclude_if=lambda each: not each)
    columns: dict[str, str | int | float] = Field(
        default_factory=dict, exclude_if=lambda each: not each
    )

    def told(self, style: str = ".3g") -> str:
        """The value with its interval, for a sentence."""
        if self.low is None or self.high is None:
            return format(self.value, style)
        return f"{self.value:{style}} ({self.low:{style}} to {self.high:{style}})"


class Results(BaseModel, frozen=True, extra="forbid"):
    """One notebook's file in `results/`.

    `dtype` is what networks multiplied in, which `processor` decides, on so many `threads`. Numbers
    that rest on networks differ with any of the three in their last digits, and where a language
    model writes, in what it writes. `elsewhere` are other machines that made points of it.
    """

    notebook: str
    profile: str
    seed: int | None
    overrides: dict[str, Any]
    commit: str | None
    dirty: bool | None
    device: str
    dtype: str
    processor: str = ""
    threads: int | None = None
    elsewhere: list[str] = []
    seconds: float
    peak_mb: float
    versions: dict[str, str]
    assets: dict[str, dict[str, Any]]
    figures: list[str]
    measurements: list[Measurement]

    @property
    def devices(self) -> str:
        """Where it was made: "cpu", or "cuda and cpu" where points were made on a GPU."""
        others = [machine.partition(",")[0] for machine in self.elsewhere]
        return " and ".join(dict.fromkeys([*others, self.device]))

    def by_name(self) -> dict[str, Measurement]:
        """The measurements, to be looked up by their name."""
        return {measurement.name: measurement for measurement in self.measurements}


def measure(
    name: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    n: int | None = None,
    unit: str = "share",
) -> Measurement:
    """A checked measurement. An interval that is open, the error being unknown, is left out."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"measurement: expected a name like 'asr.custext.sst2', got {name!r}")
    if low is not None and high is not None and not (math.isnan(low) or math.isnan(high)):
        low, high = (low, high) if math.isfinite(high - low) else (None, None)
    numbers = {"value": value, "low": low, "high": high}
    given = {what: float(number) for what, number in numbers.items() if number is not None}
    for what, number in given.items():
        if not math.isfinite(number):
            raise InvalidInput(f"{name}: expected a finite {what}, got {number}")
        if unit == "share" and not 0 <= number <= 1:
            raise InvalidInput(f"{name}: expected a share in 0..1 as {what}, got {number}")
    if (low is None) != (high is None):
        raise InvalidInput(f"{name}: expected low and high together, got {low} and {high}")
    if "low" in given and not given["low"] <= given["value"] <= given["high"]:
        raise InvalidInput(f"{name}: expected low <= value <= high, got {low}, {value}, {high}")
    if n is not None and (n != int(n) or n < 1):
        raise InvalidInput(f"{name}: expected a positive count as n, got {n}")
    return Measurement(name=name, n=None if n is None else int(n), unit=unit, **given)


def run_name(profile: str, seed: int | None, overrides: Mapping[str, Any]) -> str:
    """What a run is called: its profile, or `default-custom` and the like.

    The committed figures and results come from profiles as they stand, so a run with another
    seed or with overrides is kept apart.
    """
    return f"{profile}-custom" if seed != DEFAULT_SEED or overrides else profile


def load(notebook: str, profile: str = "default") -> Results:
    """Results of a notebook's latest finished run under a profile."""
    path = file(notebook, profile)
    if not path.exists():
        raise RunError(
            f"no results of {notebook} under {profile!r}: expected {_shown(path)}; "
            f"run ./run_all.sh --profile {profile} --only {notebook[:2]}"
        )
    try:
        return Results.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise RunError(f"{_shown(path)} is not a result: {error}") from error


def load_if_present(notebook: str, profile: str) -> Results | None:
    """As `load`; None where no run has left any."""
    return load(notebook, profile) if file(notebook, profile).exists() else None


def file(notebook: str, profile: str = "default") -> Path:
    """Where a notebook's results lie."""
    return paths.output_directory(profile, "results") / f"{notebook}.json"


def committed(notebook: str) -> Results | None:
    """What documents quote: the full run where git holds one, else the default run."""
    return load_if_present(notebook, "full") or load_if_present(notebook, "default")


def load_or_default(notebook: str, profile: str) -> Results:
    """As `load`; in place of a full run that is missing, the default run."""
    if profile == "full" and not file(notebook, profile).exists():
        profile = "default"
    return load(notebook, profile)


def write(made: Results, path: Path) -> None:
    """Write results, complete or not at all: a measurement to a line, as a diff shows it."""
    head = made.model_copy(update={"measurements": []}).model_dump_json(indent=1)
    lines = ",\n".join(f"  {each.model_dump_json()}" for each in made.measurements)
    head = head.removesuffix("]\n}")  # the end of no measurement, and of all
    write_atomic(path, f"{head}\n{lines}\n ]\n}}\n".encode())


def _shown(path: Path) -> str:
    root = paths.REPOSITORY
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
