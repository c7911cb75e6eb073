"""What the papers print, and whether what we measured agrees.

`claims.toml` holds the papers' numbers and stated orderings as data. `compare` gives one
of four verdicts with its reason: *match* (inside the paper's rounding plus the combined
error), *same trend* (the stated ordering or bound holds), *differs*, *not comparable*. An
ordering that fails by less than the combined error is undecided, and not comparable.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from textpriv.errors import InvalidInput
from textpriv.report import results
from textpriv.report.results import Measurement

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).with_name("claims.toml")
_Z = 1.96  # intervals are 95% throughout


class Verdict(StrEnum):
    MATCH = "match"
    SAME_TREND = "same trend"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


class Comparison(NamedTuple):
    verdict: Verdict
    reason: str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trend(_Strict):
    """A stated ordering or bound, in exactly one of four forms.

    greater/than : the first measurement exceeds the second
    decreasing : each measurement exceeds the next
    at_least/of, at_most/of : all of the measurements lie on that side of the bound
    """

    greater: str | None = None
    than: str | None = None
    decreasing: Annotated[list[str], Field(min_length=2)] | None = None
    at_least: float | None = None
    at_most: float | None = None
    of: Annotated[list[str], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Trend:
        given = set(self.model_dump(exclude_none=True))
        forms = ({"greater", "than"}, {"decreasing"}, {"at_least", "of"}, {"at_most", "of"})
        if given not in forms:
            raise ValueError(f"expected one of {[sorted(form) for form in forms]}, got {given}")
        return self

    @property
    def measurements(self) -> list[str]:
        if self.greater and self.than:
            return [self.greater, self.than]
        return self.decreasing or self.of or []

    @property
    def is_order(self) -> bool:
        """Whether it says which is larger, and not on which side of a bound."""
        return self.at_least is None and self.at_most is None

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it is true of these values."""
        found = [values[name] for name in self.measurements]
        if self.at_least is not None:
            return min(found) >= self.at_least
        if self.at_most is not None:
            return max(found) <= self.at_most
        return all(left > right for left, right in pairwise(found))

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least}"
        if self.at_most is not None:
            return f"at most {self.at_most}"
        return " > ".join(self.measurements)


class Claim(_Strict):
    """One number or ordering that a paper states, and where.

    A value comes with its rounding unit and the name of the measurement to hold against
    it; `n` is given when the value is a share of n independent draws.
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
    comparable: bool
    reason: str = ""

    @model_validator(mode="after")
    def _value_or_trend(self) -> Claim:
        value = {"value", "rounding", "measurement"}
        given = value & set(self.model_dump(exclude_none=True))
        if given != (set() if self.trend else value):
            raise ValueError("expected a trend, or value and rounding and measurement")
        if not self.comparable and not self.reason:
            raise ValueError("expected a reason why it is not comparable")
        return self

    @property
    def stated(self) -> str:
        """The claim as a table shows it."""
        return str(self.trend) if self.trend else f"{self.value:g}"

    @property
    def measurements(self) -> list[str]:
        return self.trend.measurements if self.trend else [str(self.measurement)]


def load() -> list[Claim]:
    """Every claim, in the order of the file."""
    return list(_load(FILE))


def of(notebook: str) -> list[Claim]:
    """The claims that a notebook is held against."""
    return [claim for claim in load() if claim.notebook == notebook]


def compare(
    claim: Claim, measured: Mapping[str, Measurement], profile: str = "default"
) -> Comparison:
    """Hold one claim against what was measured.

    Parameters
    ----------
    claim : the paper's statement
    measured : measurements by name
    profile : the profile that they come from; smoke runs are never compared
    """
    if not claim.comparable:
        return Comparison(Verdict.NOT_COMPARABLE, claim.reason)
    if profile == "smoke":
        return Comparison(Verdict.NOT_COMPARABLE, "smoke runs are too small to compare")
    missing = [name for name in claim.measurements if name not in measured]
    if missing:
        return Comparison(Verdict.NOT_COMPARABLE, f"not measured: {', '.join(missing)}")
    return _compare_trend(claim.trend, measured) if claim.trend else _compare_value(claim, measured)


def table(
    notebook: str,
    profile: str = "default",
    measured: Mapping[str, Measurement] | None = None,
) -> pd.DataFrame:
    """Claims about a notebook with our values and verdicts, for display.

    `measured` is read from the notebook's results when None.
    """
    import pandas as pd

    if measured is None:
        measured = results.load(notebook, profile).by_name()
    rows = [_row(claim, measured, profile) for claim in of(notebook)]
    return pd.DataFrame(rows, columns=["claim", "place", "paper", "ours", "verdict", "reason"])


def count(
    notebook: str, measured: Mapping[str, Measurement], profile: str = "default"
) -> Counter[str]:
    """How often each verdict is given to the claims about a notebook."""
    return Counter(str(compare(claim, measured, profile).verdict) for claim in of(notebook))


def _row(claim: Claim, measured: Mapping[str, Measurement], profile: str) -> dict[str, Any]:
    ours = [f"{measured[name].value:.3g}" for name in claim.measurements if name in measured]
    verdict, reason = compare(claim, measured, profile)
    return {
        "claim": claim.id,
        "place": claim.place,
        "paper": claim.stated,
        "ours": ", ".join(ours),
        "verdict": str(verdict),
        "reason": reason,
    }


def _compare_value(claim: Claim, measured: Mapping[str, Measurement]) -> Comparison:
    assert claim.value is not None and claim.rounding is not None  # the model guarantees it
    ours = measured[str(claim.measurement)]
    spread = math.hypot(_standard_error(ours), _binomial_error(claim.value, claim.n))
    tolerance = claim.rounding / 2 + _Z * spread
    apart = abs(ours.value - claim.value)
    # ulps of the subtraction must not decide a value that lies on the edge of the rounding
    inside = apart <= tolerance or math.isclose(apart, tolerance)
    verdict = Verdict.MATCH if inside else Verdict.DIFFERS
    return Comparison(verdict, f"{apart:.3g} apart, {tolerance:.3g} allowed")


def _compare_trend(trend: Trend, measured: Mapping[str, Measurement]) -> Comparison:
    values = {name: measured[name].value for name in trend.measurements}
    ours = "ours: " + ", ".join(f"{value:.3g}" for value in values.values())
    if trend.holds(values):
        return Comparison(Verdict.SAME_TREND, ours)
    if trend.is_order and all(
        right.value - left.value <= _Z * math.hypot(_standard_error(left), _standard_error(right))
        for left, right in pairwise(measured[name] for name in trend.measurements)
    ):
        # Equal numbers without an interval are no error of measurement.
        if any(_standard_error(measured[name]) for name in trend.measurements):
            return Comparison(Verdict.NOT_COMPARABLE, f"undecided within the error; {ours}")
    return Comparison(Verdict.DIFFERS, ours)


def _standard_error(measurement: Measurement) -> float:
    """Standard error behind a 95% interval; 0 for a number without one, which is exact."""
    if measurement.low is None or measurement.high is None:
        return 0.0
    return (measurement.high - measurement.low) / (2 * _Z)


def _binomial_error(share: float, n: int | None) -> float:
    """Standard error of a share of n draws (Agresti & Coull 1998, so never 0 at 0 or 1)."""
    if n is None:
        return 0.0
    centre = (share * n + 2) / (n + 4)
    return math.sqrt(centre * (1 - centre) / (n + 4))


@lru_cache
def _load(path: Path) -> tuple[Claim, ...]:
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])
    found = tuple(_parse(entry, path.name) for entry in entries)
    _refuse_duplicates((claim.id for claim in found), path.name)
    return found


def _parse(entry: Mapping[str, Any], where: str) -> Claim:
    try:
        return Claim.model_validate(entry)
    except ValidationError as error:
        raise InvalidInput(f"{where}, claim {entry.get('id', entry)!r}: {error}") from error


def _refuse_duplicates(ids: Iterable[str], where: str) -> None:
    twice = [name for name, times in Counter(ids).items() if times > 1]
    if twice:
        raise InvalidInput(f"{where}: expected distinct ids, got twice: {', '.join(twice)}")
