"""What the papers print, and whether what we measured agrees.

`claims.toml` holds the papers' numbers and stated orderings as data. `compare` gives a verdict
with its reason. A number is a *match* (inside the paper's rounding plus our error, and the paper's
where its n is known) or *differs*. A stated ordering or bound holds (*same trend*) or *differs* by
a test, corrected (Holm 1979) for all that are held against the same notebook's results; what holds
within the error is told apart, and what fails within it is *undecided*.

Some claims can be compared under any profile, some only under the one that has the papers' models
and data, some never (`Claim.compared`).

Where a notebook kept what each document did to two measurements, they are compared in pairs: the
error of their difference is worked out document by document (`Measurement.paired_errors`). Where
nothing pairs them, their errors add up as if independent. Certainty is about other documents:
random draws of a mechanism and the training of an attacker are taken as they came.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from textpriv.errors import InvalidInput
from textpriv.report import results
from textpriv.report.results import Measurement

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).with_name("claims.toml")
PAPERS: Mapping[str, str] = {
    "tong": "Tong et al.",
    "harel": "Harel et al.",
    "utpala": "Utpala et al.",
    "carpentier": "Carpentier et al.",
}
PAPER = "paper"  # the profile with the papers' own models and data
Z = 1.96  # intervals are 95% throughout
_LEVEL = 0.05  # of all tests of one notebook's claims together
EXACT = "nats"  # unit of what is computed and has no error


class Verdict(StrEnum):
    """In the order in which tables count them."""

    MATCH = "match"
    SAME_TREND = "same trend"
    WITHIN = "same trend within the error"
    UNDECIDED = "undecided"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


class Comparison(NamedTuple):
    """A verdict, and why."""

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

    def renamed(self, name: Callable[[str], str]) -> Trend:
        """The same about other measurements."""
        greater, than = (each and name(each) for each in (self.greater, self.than))
        decreasing, of = (each and [*map(name, each)] for each in (self.decreasing, self.of))
        renamed = {"greater": greater, "than": than, "decreasing": decreasing, "of": of}
        return self.model_copy(update=renamed)

    def margins(self, found: Mapping[str, Measurement]) -> list[tuple[float, float]]:
        """By how much each step of an order, or each side of a bound, holds; and its error."""
        chosen = [found[name] for name in self.measurements]
        if self.at_least is not None:
            least = self.at_least
            return [(each.value - least, _error_at(least, each)) for each in chosen]
        if self.at_most is not None:
            most = self.at_most
            return [(most - each.value, _error_at(most, each)) for each in chosen]
        return [
            (left.value - right.value, error_of_difference(left, right))
            for left, right in pairwise(chosen)
        ]

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

    compared : under which profiles: all, PAPER alone, or none
    under_paper : parts of the measurements' names, and what PAPER has in their place
    reason : why it is not compared everywhere, or on what it is held here
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
    compared: Literal["always", "paper", "never"]
    under_paper: Mapping[str, str] = Field(default_factory=dict)
    reason: str = ""

    @model_validator(mode="after")
    def _value_or_trend(self) -> Claim:
        value = {"value", "rounding", "measurement"}
        given = value & set(self.model_dump(exclude_none=True))
        if given != (set() if self.trend else value):
            raise ValueError("expected a trend, or value and rounding and measurement")
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
        """Whether what a profile measures can be held against it."""
        return self.compared == "always" or self.compared == profile == PAPER

    def under(self, profile: str) -> Claim:
        """The claim about what a profile measures, under the names that it records."""
        if profile != PAPER or not self.under_paper:
            return self
        if self.trend:
            return self.model_copy(update={"trend": self.trend.renamed(self._renamed)})
        return self.model_copy(update={"measurement": self._renamed(str(self.measurement))})

    def _renamed(self, name: str) -> str:
        for ours, other in self.under_paper.items():
            name = name.replace(ours, other)
        return name


def load() -> list[Claim]:
    """Every claim, in the order of the file."""
    return list(_load(FILE))


def of(notebook: str, profile: str = "default") -> list[Claim]:
    """The claims that a notebook is held against, under the names that a profile records."""
    return [claim.under(profile) for claim in load() if claim.notebook == notebook]


def pairs(notebook: str, profile: str = "default") -> list[tuple[str, str]]:
    """Which two measurements the orderings about a notebook set against each other."""
    stated = of(notebook, profile)
    orders = [claim.trend for claim in stated if claim.trend and claim.trend.of is None]
    return [pair for order in orders for pair in pairwise(order.measurements)]


def compare(
    claim: Claim, measured: Mapping[str, Measurement], profile: str = "default"
) -> Comparison:
    """Hold one claim against what was measured, as if it were the only one.

    Parameters
    ----------
    claim : the paper's statement
    measured : measurements by name
    profile : the profile that they come from; PAPER can be held against more, smoke against none
    """
    return compare_all([claim], measured, profile)[0]


def compare_all(
    stated: Sequence[Claim], measured: Mapping[str, Measurement], profile: str = "default"
) -> list[Comparison]:
    """Hold claims against what was measured; tests are corrected for their number."""
    found = {
        number: (claim.trend, _p_value(claim.trend, measured))
        for number, claim in enumerate(stated)
        if claim.trend and not _obstacle(claim, measured, profile)
    }
    certain = _holm({number: p for number, (_, p) in found.items()})
    return [
        _compare_trend(found[number][0], measured, certain[number])
        if number in found
        else _compare_other(claim, measured, profile)
        for number, claim in enumerate(stated)
    ]


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
    stated = of(notebook, profile)
    verdicts = compare_all(stated, measured, profile)
    rows = [_row(claim, measured, found) for claim, found in zip(stated, verdicts, strict=True)]
    return pd.DataFrame(rows, columns=["claim", "place", "paper", "ours", "verdict", "reason"])


def count(
    notebook: str, measured: Mapping[str, Measurement], profile: str = "default"
) -> Counter[str]:
    """How often each verdict is given to the claims about a notebook, in their order."""
    stated = of(notebook, profile)
    found = Counter(each.verdict for each in compare_all(stated, measured, profile))
    return Counter({str(verdict): found[verdict] for verdict in Verdict if found[verdict]})


def _row(claim: Claim, measured: Mapping[str, Measurement], found: Comparison) -> dict[str, Any]:
    return {
        "claim": claim.id,
        "place": claim.place,
        "paper": claim.stated,
        "ours": ours(claim, measured),
        "verdict": str(found.verdict),
        "reason": found.reason,
    }


def ours(claim: Claim, measured: Mapping[str, Measurement]) -> str:
    """What we measured of it, as a table shows it."""
    return ", ".join(
        f"{measured[name].value:.3g}" for name in claim.measurements if name in measured
    )


def _obstacle(claim: Claim, measured: Mapping[str, Measurement], profile: str) -> str:
    """Why a claim cannot be compared; empty when it can."""
    if not claim.is_compared(profile):
        return claim.reason
    if profile == "smoke":
        return "smoke runs are too small to compare"
    missing = [name for name in claim.measurements if name not in measured]
    return f"not measured: {', '.join(missing)}" if missing else ""


def _compare_other(claim: Claim, measured: Mapping[str, Measurement], profile: str) -> Comparison:
    """A value, or whatever cannot be compared."""
    reason = _obstacle(claim, measured, profile)
    if reason:
        return Comparison(Verdict.NOT_COMPARABLE, reason)
    return _compare_value(claim, measured)


def _compare_value(claim: Claim, measured: Mapping[str, Measurement]) -> Comparison:
    assert claim.value is not None and claim.rounding is not None  # the model guarantees it
    found = measured[str(claim.measurement)]
    spread = math.hypot(_standard_error(found), _binomial_error(claim.value, claim.n))
    if math.isinf(spread):
        return Comparison(Verdict.NOT_COMPARABLE, "the error of the measurement is unknown")
    tolerance = claim.rounding / 2 + Z * spread
    apart = abs(found.value - claim.value)
    # ulps of the subtraction must not decide a value that lies on the edge of the rounding
    inside = apart <= tolerance or math.isclose(apart, tolerance)
    verdict = Verdict.MATCH if inside else Verdict.DIFFERS
    return Comparison(verdict, f"{apart:.3g} apart, {tolerance:.3g} allowed")


def _compare_trend(trend: Trend, measured: Mapping[str, Measurement], certain: bool) -> Comparison:
    values = {name: measured[name].value for name in trend.measurements}
    shown = "ours: " + ", ".join(f"{value:.3g}" for value in values.values())
    if trend.holds(values):
        return Comparison(Verdict.SAME_TREND if certain else Verdict.WITHIN, shown)
    return Comparison(Verdict.DIFFERS if certain else Verdict.UNDECIDED, shown)


def _p_value(trend: Trend, measured: Mapping[str, Measurement]) -> float:
    """How easily chance would make a trend hold, or fail, as it does.

    It holds by its weakest step (all must hold, so no correction), and fails by its worst one
    (any may fail, so Bonferroni's over the steps). Two equal numbers decide nothing.
    """
    steps = trend.margins(measured)
    chances = [_two_sided(abs(margin), error) for margin, error in steps]
    if trend.holds({name: measured[name].value for name in trend.measurements}):
        return max(chances)
    failing = [p for (margin, _), p in zip(steps, chances, strict=True) if margin <= 0]
    return min(1.0, len(steps) * min(failing))


def _two_sided(apart: float, error: float) -> float:
    if not apart or math.isinf(error):
        return 1.0
    return 2 * (1 - NormalDist().cdf(apart / error)) if error else 0.0


def _holm(chances: Mapping[int, float]) -> dict[int, bool]:
    """Which of the tests are certain when the level is kept over all of them (Holm 1979)."""
    certain: dict[int, bool] = {}
    going = True
    for done, (number, p) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        going = going and p <= _LEVEL / (len(chances) - done)
        certain[number] = going
    return certain


def _standard_error(measurement: Measurement) -> float:
    """Standard error behind a 95% interval, of its wider side where it was cut at a bound.

    Without an interval it is unknown (infinite), but for a loss in nats, which is computed and not
    measured. Observations that all agree leave an interval without width, which is no certainty: a
    share then has the error of as many draws, and that of anything else is unknown.
    """
    if measurement.low is None or measurement.high is None:
        return 0.0 if measurement.unit == EXACT else math.inf
    if measurement.low == measurement.high and measurement.n:
        share = measurement.unit == "share"
        return _binomial_error(measurement.value, measurement.n) if share else math.inf
    return max(measurement.high - measurement.value, measurement.value - measurement.low) / Z


def _error_at(bound: float, found: Measurement) -> float:
    """Standard error to hold a measurement against a bound with.

    A share near 0 or 1 seems surer of itself than it would be if it lay at the bound.
    """
    own = _standard_error(found)
    if found.unit != "share" or not found.n or not 0 < bound < 1:
        return own
    return max(own, math.sqrt(bound * (1 - bound) / found.n))


def error_of_difference(left: Measurement, right: Measurement) -> float:
    """Standard error of left minus right: in pairs where they share documents."""
    paired = left.paired_errors.get(right.name) or right.paired_errors.get(left.name)
    return paired or math.hypot(_standard_error(left), _standard_error(right))


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
