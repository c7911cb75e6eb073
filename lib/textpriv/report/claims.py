"""What the papers print: `claims/claims.csv` holds their numbers and stated orderings, one a row.

    for claim in for_notebook("02_ann_vs_exact"):
        claim.stated, claim.measurements

Some claims can be compared under any profile, some only under the one that has the papers' models
and data, some never (`Claim.compared`). Only a *finding* is evidence. What holds *by construction*
(a map that keeps frequent words changes few), or *by theorem* (nobody beats Bayes' rule with the
true frequencies), tests our code and not the paper. `report.verdicts` compares.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from textpriv import paths
from textpriv.errors import InvalidInput
from textpriv.report import results

FILE = paths.REPOSITORY / "claims" / "claims.csv"
SHARED = "shared.toml"  # beside it: what rows name by a key
PAPERS: Mapping[str, str] = {
    "tong": "Tong et al.",
    "harel": "Harel et al.",
    "utpala": "Utpala et al.",
    "carpentier": "Carpentier et al.",
}
PAPER = "paper"  # the profile with the papers' own models and data
POINT = 0.01  # a share that differs by less is the same to papers that speak in points


class Kind(StrEnum):
    """What an ordering that holds is evidence of."""

    FINDING = "finding"
    CONSTRUCTION = "by construction"
    THEOREM = "by theorem"


class Reading(StrEnum):
    """Of which of its cells a statement says what it says."""

    EACH = "each"
    MOST = "most"
    AVERAGE = "average"  # a tendency of one quantity


class _Strict(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What `claims/` states, with nothing beside it."""


class Trend(_Strict):
    """A stated ordering or bound.

    greater : the first of two measurements exceeds the second
    decreasing : each measurement exceeds the next
    equal : each measurement is less than a point (`POINT`) from the next
    at_least, at_most : all of the measurements lie on that side of the bound
    """

    form: Literal["greater", "decreasing", "equal", "at_least", "at_most"]
    measurements: list[str]
    bound: float | None = None

    @model_validator(mode="after")
    def _complete(self) -> Trend:
        count, bounded = len(self.measurements), self.form in ("at_least", "at_most")
        right = count >= 1 if bounded else count == 2 if self.form == "greater" else count >= 2
        if not right or bounded != (self.bound is not None):
            raise ValueError(
                "expected greater (of two), decreasing or equal (of two or more), or at_least or "
                "at_most (with a bound)"
            )
        return self

    @property
    def ends(self) -> tuple[str, str]:
        """The first and the last of its measurements."""
        return self.measurements[0], self.measurements[-1]

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it is true of these values."""
        measured = [values[name] for name in self.measurements]
        if self.bound is not None:
            return (
                min(measured) >= self.bound
                if self.form == "at_least"
                else max(measured) <= self.bound
            )
        if self.form == "equal":
            return all(abs(left - right) < POINT for left, right in pairwise(measured))
        return all(left > right for left, right in pairwise(measured))

    def __str__(self) -> str:
        if self.bound is not None:
            return f"{self.form.replace('_', ' ')} {self.bound}"
        return (" = " if self.form == "equal" else " > ").join(self.measurements)


class Statement(_Strict):
    """What a paper says, of one or many cells.

    reading : each of the cells, most of them, or their average; by the paper's words, never by ours
    reread : whether its cells or its reading were settled after a result had been seen
    set_aside : whether it was contradicted here, and then held to be no test of these models
    withdrawn : whether it was tested here once, whatever came out, and is compared no longer; tests
        stay corrected for it
    """

    id: str
    says: str
    reading: Reading = Reading.EACH
    reread: bool = False
    set_aside: bool = False
    withdrawn: bool = False


class Claim(_Strict):
    """One number or ordering that a paper states, and where.

    A value comes with its rounding unit and the name of the measurement to compare with
    it; `n` is given when the value is a share of n independent draws.

    statement : id of the statement whose cell an ordering is; its own id when empty
    kind : what it is evidence of when it holds
    tie : why mathematics makes the measurements one, where it does
    compared : under which profiles: all, PAPER alone, or none
    under_paper : parts of the measurements' names, and what PAPER has in their place
    reason : why it is not compared everywhere, or with what it is compared here
    """

    id: str
    paper: Literal["tong", "harel", "utpala", "carpentier"]
    notebook: Annotated[str, Field(pattern=results.NOTEBOOK.pattern)]
    place: str
    setting: str
    value: float | None = None
    rounding: Annotated[float, Field(gt=0)] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    measurement: str | None = None
    trend: Trend | None = None
    statement: str = ""
    kind: Kind = Kind.FINDING
    tie: str = ""
    compared: Literal["always", "paper", "never"]
    under_paper: Mapping[str, str] = Field(default_factory=dict)
    reason: str = ""

    @model_validator(mode="after")
    def _value_or_trend(self) -> Claim:
        value = {"value", "rounding", "measurement"}
        given = value & set(self.model_dump(exclude_none=True))
        if given != (set() if self.trend else value):
            raise ValueError("expected a trend, or value and rounding and measurement")
        if not self.trend and (self.statement or self.tie or self.kind != Kind.FINDING):
            raise ValueError("expected a statement, a kind and a tie of orderings and bounds alone")
        if self.tie and self.trend and self.trend.bound is not None:
            raise ValueError("tie: expected two measurements or more, got a bound")
        if self.compared != "always" and not self.reason:
            raise ValueError("expected a reason why it is not compared under every profile")
        unknown = [part for part in self.under_paper if part not in " ".join(self.measurements)]
        if unknown or (self.under_paper and self.compared == "never"):
            raise ValueError(f"under_paper: expected parts of names to compare, got {unknown}")
        return self

    @property
    def stated(self) -> str:
        """The claim as a table shows it."""
        return str(self.trend) if self.trend else f"{self.value:g}"

    @property
    def measurements(self) -> list[str]:
        return self.trend.measurements if self.trend else [str(self.measurement)]

    def is_compared(self, profile: str) -> bool:
        """Whether it can be compared with what a profile measures."""
        return self.compared == "always" or self.compared == profile == PAPER

    def under(self, profile: str) -> Claim:
        """The claim about what a profile measures, under the names that it records."""
        if profile != PAPER or not self.under_paper:
            return self
        names = self.measurements
        for ours, other in self.under_paper.items():
            names = [name.replace(ours, other) for name in names]
        if self.trend:
            trend = self.trend.model_copy(update={"measurements": names})
            return self.model_copy(update={"trend": trend})
        return self.model_copy(update={"measurement": names[0]})


def load() -> list[Claim]:
    """Every claim, in the order of the file."""
    return list(_load(FILE)[0])


def statements() -> list[Statement]:
    """Every statement that is more than one claim's own, in the order of the file."""
    return list(_load(FILE)[1])


def for_notebook(notebook: str, profile: str = "default") -> list[Claim]:
    """The claims about a notebook, under the names that a profile records."""
    return [claim.under(profile) for claim in load() if claim.notebook == notebook]


def pairs(notebook: str, profile: str = "default") -> list[tuple[str, str]]:
    """Which two measurements the orderings about a notebook compare: neighbours, and the ends."""
    stated = for_notebook(notebook, profile)
    orders = [claim.trend for claim in stated if claim.trend and claim.trend.bound is None]
    return [
        pair
        for order in orders
        for pair in dict.fromkeys([*pairwise(order.measurements), order.ends])
    ]


@lru_cache
def _load(path: Path) -> tuple[tuple[Claim, ...], tuple[Statement, ...]]:
    shared = tomllib.loads(path.with_name(SHARED).read_text(encoding="utf-8"))
    entries = shared.get("statement", {}).items()
    statements = tuple(Statement.model_validate({"id": name, **entry}) for name, entry in entries)
    claims = []
    with path.open(encoding="utf-8-sig", newline="") as lines:  # spreadsheets begin with a BOM
        rows = csv.DictReader(lines, restkey="beyond the last column")
        for row in rows:
            try:
                claims.append(_claim(row, shared))
            except (KeyError, ValueError) as error:
                raise InvalidInput(f"{path.name}, line {rows.line_num}: {error}") from error
    return tuple(claims), statements


def _claim(row: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> Claim:
    """What a row says: an empty cell leaves its field out, a key stands for what it names."""
    cells: dict[str, Any] = {column: cell for column, cell in row.items() if cell}

    def named(column: str) -> list[Any]:
        return [shared[column][key] for key in _parts(cells.get(column, ""))]

    for column in ("reason", "tie"):
        cells[column] = "; ".join(named(column))
    cells["under_paper"] = {
        ours: other for each in named("under_paper") for ours, other in each.items()
    }
    names = _parts(cells.pop("measurements", ""))
    if form := cells.pop("trend", None):
        bound = cells.pop("bound", None)
        cells["trend"] = {"form": form, "measurements": names, "bound": bound}
    else:
        (cells["measurement"],) = names
    return Claim.model_validate(cells)


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]
