"""What the papers print, and whether what we measured agrees.

`claims/claims.csv` holds the papers' numbers and stated orderings as data, one a row. `compare`
gives a verdict with its reason. A number is a *match* (inside the paper's rounding plus our error,
and the paper's where its n is known) or *differs*. A stated ordering or bound holds (*same trend*)
or *differs* by a test, corrected (Holm 1979) for all that are compared with the same notebook's
results; what holds within the error is told apart, and what fails within it is *undecided*. Where
mathematics makes two numbers one, and the measured ones are identical, they *tie*.

A paper says one thing of many cells of a table. The claims that share a `statement` are its cells,
and `judge` tests each statement as one. It says that its property holds in at least u of n cells:
in all of them, or in more than half where the paper says "in most cases". That is the partial
conjunction of Benjamini & Heller (2008). With the p-values of the cells in rising order:

    it holds in at least u cells       p = (n - u + 1) p_holds(u)
    it fails in at least n - u + 1     p = u p_fails(n - u + 1)

so that for u = n it holds by its weakest cell, and fails by its worst one with Bonferroni's
correction. Holm's step-down then keeps the level over all statements of the four papers. Cells that
were not compared, or that tie, decide nothing and are left out; where all tie, the statement does.

Only a *finding* is evidence. What holds *by construction* (a map that keeps frequent words changes
few), or *by theorem* (nobody beats Bayes' rule with the true frequencies), tests our code and not
the paper, and is counted apart.

Some claims can be compared under any profile, some only under the one that has the papers' models
and data, some never (`Claim.compared`).

Where a notebook kept what each document did to two measurements, they are compared in pairs: the
error of their difference is worked out document by document (`Measurement.paired_errors`). Where
nothing pairs them, their errors add up as if independent. Certainty is about other documents:
random draws of a mechanism and the training of an attacker are taken as they came.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from textpriv import paths
from textpriv.checks import described
from textpriv.errors import InvalidInput
from textpriv.report import results
from textpriv.report.results import Measurement

if TYPE_CHECKING:
    import pandas as pd

FILE = paths.REPOSITORY / "claims" / "claims.csv"
SHARED = "shared.toml"  # beside it: what rows name by a key
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
    TIE = "tie"
    UNDECIDED = "undecided"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


class Kind(StrEnum):
    """What an ordering that holds is evidence of."""

    FINDING = "finding"
    CONSTRUCTION = "by construction"
    THEOREM = "by theorem"


class Comparison(NamedTuple):
    """A verdict, and why."""

    verdict: Verdict
    reason: str


class Judgement(NamedTuple):
    """A statement of a paper with the verdict on all of its cells as one."""

    statement: Statement
    paper: str
    kind: Kind
    place: str
    cells: Mapping[str, Comparison]
    verdict: Verdict
    reason: str


class Findings(NamedTuple):
    """How the statements fared that are evidence; for those that are not, `settled`.

    open : hold or fail within the error
    leaning : those of the open ones that hold
    untested : not compared on these models, or not measured
    settled : hold by construction or by theorem, whatever the paper found
    """

    holds: int
    against: int
    tie: int
    open: int
    leaning: int
    untested: int
    settled: int

    @classmethod
    def of(cls, judged: Iterable[Judgement]) -> Findings:
        """Count statements by their verdicts."""
        every = list(judged)
        found = Counter(each.verdict for each in every if each.kind == Kind.FINDING)
        return cls(
            holds=found[Verdict.SAME_TREND],
            against=found[Verdict.DIFFERS],
            tie=found[Verdict.TIE],
            open=found[Verdict.WITHIN] + found[Verdict.UNDECIDED],
            leaning=found[Verdict.WITHIN],
            untested=found[Verdict.NOT_COMPARABLE],
            settled=sum(
                each.kind != Kind.FINDING and each.verdict in (Verdict.SAME_TREND, Verdict.WITHIN)
                for each in every
            ),
        )

    @property
    def tested(self) -> int:
        return self.holds + self.against + self.tie + self.open

    def __str__(self) -> str:
        if not self.tested:
            return "No statement of the four papers can be tested under this profile."
        return (
            f"Of {self.tested} statements of the four papers that these models can test, "
            f"{self.holds} hold, {self.against} are decided against, {self.tie} tie and "
            f"{self.open} are open ({self.leaning} of them hold, by less than the error). "
            f"{self.settled} more hold by construction or by theorem and are no evidence; "
            f"{self.untested} are about other models and settings or were not measured."
        )


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Trend(_Strict):
    """A stated ordering or bound, in exactly one of five forms.

    greater/than : the first measurement exceeds the second
    decreasing : each measurement exceeds the next
    equal : each measurement equals the next; a test can only refute it
    at_least/of, at_most/of : all of the measurements lie on that side of the bound
    """

    greater: str | None = None
    than: str | None = None
    decreasing: Annotated[list[str], Field(min_length=2)] | None = None
    equal: Annotated[list[str], Field(min_length=2)] | None = None
    at_least: float | None = None
    at_most: float | None = None
    of: Annotated[list[str], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Trend:
        given = set(self.model_dump(exclude_none=True))
        bounds = ({"at_least", "of"}, {"at_most", "of"})
        forms = ({"greater", "than"}, {"decreasing"}, {"equal"}, *bounds)
        if given not in forms:
            raise ValueError(f"expected one of {[sorted(form) for form in forms]}, got {given}")
        return self

    @property
    def measurements(self) -> list[str]:
        if self.greater and self.than:
            return [self.greater, self.than]
        return self.decreasing or self.equal or self.of or []

    def renamed(self, name: Callable[[str], str]) -> Trend:
        """The same about other measurements."""
        greater, than = (each and name(each) for each in (self.greater, self.than))
        lists = {"decreasing": self.decreasing, "equal": self.equal, "of": self.of}
        renamed = {form: each and [*map(name, each)] for form, each in lists.items()}
        return self.model_copy(update={"greater": greater, "than": than, **renamed})

    def margins(self, found: Mapping[str, Measurement]) -> list[tuple[float, float]]:
        """By how much each step of an order, or each side of a bound, holds; and its error."""
        chosen = [found[name] for name in self.measurements]
        if self.at_least is not None:
            least = self.at_least
            return [(each.value - least, _error_at(least, each)) for each in chosen]
        if self.at_most is not None:
            most = self.at_most
            return [(most - each.value, _error_at(most, each)) for each in chosen]
        steps = [
            (left.value - right.value, error_of_difference(left, right))
            for left, right in pairwise(chosen)
        ]
        return [(-abs(apart), error) for apart, error in steps] if self.equal else steps

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether it is true of these values."""
        found = [values[name] for name in self.measurements]
        if self.at_least is not None:
            return min(found) >= self.at_least
        if self.at_most is not None:
            return max(found) <= self.at_most
        if self.equal:
            return min(found) == max(found)
        return all(left > right for left, right in pairwise(found))

    def ties(self, found: Mapping[str, Measurement]) -> bool:
        """Whether all that is compared is identical: values, intervals, and what each unit did."""
        if self.of is not None:
            return False
        chosen = [found[name] for name in self.measurements]
        return all(_identical(left, right) for left, right in pairwise(chosen))

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least}"
        if self.at_most is not None:
            return f"at most {self.at_most}"
        return (" = " if self.equal else " > ").join(self.measurements)


class Statement(_Strict):
    """What a paper says, of one or many cells.

    most : whether it says so of most of the cells, and not of all
    """

    id: str
    says: str
    most: bool = False

    def needed(self, cells: int) -> int:
        """In how many of the cells its property must hold."""
        return cells // 2 + 1 if self.most else cells


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
        if self.tie and self.trend and self.trend.of is not None:
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
        if self.trend:
            return self.model_copy(update={"trend": self.trend.renamed(self._renamed)})
        return self.model_copy(update={"measurement": self._renamed(str(self.measurement))})

    def _renamed(self, name: str) -> str:
        for ours, other in self.under_paper.items():
            name = name.replace(ours, other)
        return name


def load() -> list[Claim]:
    """Every claim, in the order of the file."""
    return list(_load(FILE)[0])


def statements() -> list[Statement]:
    """Every statement that is more than one claim's own, in the order of the file."""
    return list(_load(FILE)[1])


def of(notebook: str, profile: str = "default") -> list[Claim]:
    """The claims about a notebook, under the names that a profile records."""
    return [claim.under(profile) for claim in load() if claim.notebook == notebook]


def pairs(notebook: str, profile: str = "default") -> list[tuple[str, str]]:
    """Which two measurements the orderings about a notebook compare with each other."""
    stated = of(notebook, profile)
    orders = [claim.trend for claim in stated if claim.trend and claim.trend.of is None]
    return [pair for order in orders for pair in pairwise(order.measurements)]


def compare(
    claim: Claim, measured: Mapping[str, Measurement], profile: str = "default"
) -> Comparison:
    """Compare one claim with what was measured, as if it were the only one.

    Parameters
    ----------
    claim : the paper's number or ordering
    measured : measurements by name
    profile : the profile that they come from; more can be compared under PAPER, nothing under smoke
    """
    return compare_all([claim], measured, profile)[0]


def compare_all(
    stated: Sequence[Claim], measured: Mapping[str, Measurement], profile: str = "default"
) -> list[Comparison]:
    """Compare claims with what was measured; tests are corrected for their number.

    Findings are one family of tests; what holds by construction or by theorem is another.
    """
    chances: dict[int, float] = {}
    for number, claim in enumerate(stated):
        if claim.trend and not _obstacle(claim, measured, profile) and not _ties(claim, measured):
            chances[number] = _p_value(claim.trend, measured)
    certain = _certain(chances, {number: stated[number].kind for number in chances})
    return [
        _compare_one(claim, measured, profile, certain.get(number, False))
        for number, claim in enumerate(stated)
    ]


def judge(
    measured: Mapping[str, Mapping[str, Measurement]], profile: str = "default"
) -> list[Judgement]:
    """Every statement of the papers, tested as one; see the top of this module.

    Parameters
    ----------
    measured : by notebook, its measurements by name; what is not there was not measured
    """
    compared = {
        claim.id: (claim, found)
        for notebook in dict.fromkeys(claim.notebook for claim in load())
        for claim, found in _compared(notebook, measured.get(notebook, {}), profile)
    }
    known = {each.id: each for each in statements()}
    cells: dict[str, list[Claim]] = {}
    for claim, _ in compared.values():
        if claim.trend:
            cells.setdefault(claim.statement or claim.id, []).append(claim)
    judged = []
    for name, group in cells.items():
        statement = known.get(name) or Statement(id=name, says=group[0].setting)
        found = {claim.id: compared[claim.id][1] for claim in group}
        tested = [
            c for c in group if found[c.id].verdict not in (Verdict.NOT_COMPARABLE, Verdict.TIE)
        ]
        judged.append((statement, group, found, _test(statement, tested, measured)))
    chances = {number: test.p for number, (*_, test) in enumerate(judged) if test}
    kinds = {number: group[0].kind for number, (_, group, *_) in enumerate(judged)}
    certain = _certain(chances, kinds)
    return [
        _judgement(statement, group, found, test, certain.get(number, False))
        for number, (statement, group, found, test) in enumerate(judged)
    ]


def score(judged: Iterable[Judgement], profile: str = "default") -> str:
    """What became of the papers' numbers and statements, in sentences."""
    numbers = [claim for claim in load() if claim.value is not None]
    compared = sum(claim.is_compared(profile) for claim in numbers) if profile != "smoke" else 0
    said = f"{compared} of the {len(numbers)} numbers" if compared else "No printed number"
    verb = "are" if compared > 1 else "is"
    return f"{said} {verb} compared on these models. {Findings.of(judged)}"


class _Test(NamedTuple):
    """Whether a statement holds, how easily chance would make it so, and in how many cells."""

    holds: bool
    p: float
    holding: int
    cells: int


def _test(
    statement: Statement,
    cells: Sequence[Claim],
    measured: Mapping[str, Mapping[str, Measurement]],
) -> _Test | None:
    """The partial conjunction test of a statement; None without a cell that can decide."""
    if not cells:
        return None
    found = [(cell.trend, measured[cell.notebook]) for cell in cells if cell.trend]
    chances = [_chances(trend, each) for trend, each in found]
    count, needed = len(cells), statement.needed(len(cells))
    holding = sum(trend.holds(_values(trend, each)) for trend, each in found)
    if holding >= needed:
        weakest = sorted(chance.holds for chance in chances)[needed - 1]
        return _Test(True, min(1.0, (count - needed + 1) * weakest), holding, count)
    weakest = sorted(chance.fails for chance in chances)[count - needed]
    return _Test(False, min(1.0, needed * weakest), holding, count)


def _judgement(
    statement: Statement,
    group: Sequence[Claim],
    found: Mapping[str, Comparison],
    test: _Test | None,
    certain: bool,
) -> Judgement:
    if test:
        verdict = _verdict(test.holds, certain)
        reason = f"holds in {test.holding} of {test.cells} cells, p = {test.p:.2g}"
    else:
        tied = [each for each in found.values() if each.verdict == Verdict.TIE]
        first = next(iter(tied or found.values()))
        verdict, reason = first.verdict, first.reason
    first_cell = group[0]
    shared = statement, first_cell.paper, first_cell.kind, first_cell.place
    return Judgement(*shared, found, verdict, reason)


def _compared(
    notebook: str, measured: Mapping[str, Measurement], profile: str
) -> list[tuple[Claim, Comparison]]:
    stated = of(notebook, profile)
    return list(zip(stated, compare_all(stated, measured, profile), strict=True))


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
    compared = _compared(notebook, measured, profile)
    rows = [_row(claim, measured, found) for claim, found in compared]
    columns = ["claim", "place", "paper", "ours", "kind", "verdict", "reason"]
    return pd.DataFrame(rows, columns=columns)


def count(
    notebook: str, measured: Mapping[str, Measurement], profile: str = "default"
) -> Counter[str]:
    """How often each verdict is given to the claims about a notebook, in their order."""
    found = Counter(each.verdict for _, each in _compared(notebook, measured, profile))
    return Counter({str(verdict): found[verdict] for verdict in Verdict if found[verdict]})


def _row(claim: Claim, measured: Mapping[str, Measurement], found: Comparison) -> dict[str, Any]:
    return {
        "claim": claim.id,
        "place": claim.place,
        "paper": claim.stated,
        "ours": ours(claim, measured),
        "kind": str(claim.kind) if claim.trend else "number",
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


def _compare_one(
    claim: Claim, measured: Mapping[str, Measurement], profile: str, certain: bool
) -> Comparison:
    reason = _obstacle(claim, measured, profile)
    if reason:
        return Comparison(Verdict.NOT_COMPARABLE, reason)
    return (
        _compare_trend(claim, claim.trend, measured, certain)
        if claim.trend
        else _compare_value(claim, measured)
    )


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


def _compare_trend(
    claim: Claim, trend: Trend, measured: Mapping[str, Measurement], certain: bool
) -> Comparison:
    values = _values(trend, measured)
    shown = "ours: " + ", ".join(f"{value:.3g}" for value in values.values())
    if _ties(claim, measured):
        return Comparison(Verdict.TIE, f"{claim.tie}; {shown}")
    if claim.tie:
        shown = f"expected a tie ({claim.tie}), but they differ; {shown}"
    return Comparison(_verdict(trend.holds(values), certain), shown)


def _verdict(holds: bool, certain: bool) -> Verdict:
    if holds:
        return Verdict.SAME_TREND if certain else Verdict.WITHIN
    return Verdict.DIFFERS if certain else Verdict.UNDECIDED


def _values(trend: Trend, measured: Mapping[str, Measurement]) -> dict[str, float]:
    return {name: measured[name].value for name in trend.measurements}


def _ties(claim: Claim, measured: Mapping[str, Measurement]) -> bool:
    """Mathematics says that they are one, and they are."""
    return bool(claim.tie and claim.trend and claim.trend.ties(measured))


def _identical(left: Measurement, right: Measurement) -> bool:
    """Whether two are one number: equal shares of other tokens have an error in pairs."""
    apart = left.paired_errors.get(right.name) or right.paired_errors.get(left.name)
    same = all(
        getattr(left, each) == getattr(right, each) for each in ("value", "low", "high", "n")
    )
    return same and not apart


class _Chances(NamedTuple):
    """How easily chance would make a trend hold, or fail, as it does; 1 where it does not."""

    holds: float
    fails: float


def _chances(trend: Trend, measured: Mapping[str, Measurement]) -> _Chances:
    """It holds by its weakest step (all must hold, so no correction), and fails by its worst one
    (any may fail, so Bonferroni's over the steps). Two equal numbers decide nothing.
    """
    steps = trend.margins(measured)
    chances = [_two_sided(abs(margin), error) for margin, error in steps]
    if trend.holds(_values(trend, measured)):
        return _Chances(max(chances), 1.0)
    failing = [p for (margin, _), p in zip(steps, chances, strict=True) if margin <= 0]
    return _Chances(1.0, min(1.0, len(steps) * min(failing)))


def _p_value(trend: Trend, measured: Mapping[str, Measurement]) -> float:
    """How easily chance would make a trend hold, or fail, whichever it does."""
    return min(_chances(trend, measured))


def _two_sided(apart: float, error: float) -> float:
    if not apart or math.isinf(error):
        return 1.0
    return 2 * (1 - NormalDist().cdf(apart / error)) if error else 0.0


def _certain(chances: Mapping[int, float], kinds: Mapping[int, Kind]) -> dict[int, bool]:
    """Which tests are certain: findings among themselves, and so all others."""
    certain: dict[int, bool] = {}
    for findings in (True, False):
        family = {n: p for n, p in chances.items() if (kinds[n] == Kind.FINDING) == findings}
        certain |= _holm(family)
    return certain


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
    """Standard error with which to compare a measurement with a bound.

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
def _load(path: Path) -> tuple[tuple[Claim, ...], tuple[Statement, ...]]:
    with _telling(SHARED):
        shared = tomllib.loads(path.with_name(SHARED).read_text(encoding="utf-8"))
        entries = shared.get("statement", {}).items()
        said = tuple(Statement.model_validate({"id": name, **entry}) for name, entry in entries)
    with path.open(encoding="utf-8-sig", newline="") as lines:  # spreadsheets begin with a BOM
        rows = csv.DictReader(lines, restkey="beyond the last column")
        found = tuple(_claim(row, shared, f"{path.name}, line {rows.line_num}") for row in rows)
    _refuse_duplicates((claim.id for claim in found), path.name)
    _check_statements(found, {statement.id for statement in said}, path.name)
    return found, said


def _claim(row: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]], where: str) -> Claim:
    """What a row says: an empty cell leaves its field out, a key stands for what it names."""
    cells = {column: cell for column, cell in row.items() if cell}
    with _telling(f"{where}, claim {cells.get('id')!r}"):
        for column in ("reason", "tie"):
            cells[column] = "; ".join(_named(column, cells, shared))
        maps = _named("under_paper", cells, shared)
        cells["under_paper"] = {ours: other for each in maps for ours, other in each.items()}
        names = _parts(cells.pop("measurements", ""))
        return Claim.model_validate(
            cells | _stated(cells.pop("trend", None), cells.pop("bound", None), names)
        )


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]


def _named(
    column: str, cells: Mapping[str, str], shared: Mapping[str, Mapping[str, Any]]
) -> list[Any]:
    """What the keys in a column's cell stand for."""
    keys, known = _parts(cells.get(column, "")), shared.get(column, {})
    if unknown := [key for key in keys if key not in known]:
        raise ValueError(f"{column}: got {unknown}, expected keys of [{column}] in {SHARED}")
    return [known[key] for key in keys]


def _stated(form: str | None, bound: str | None, names: list[str]) -> dict[str, Any]:
    """The field of a number's measurement or of a trend."""
    match form, bound, names:
        case None, None, [name]:
            return {"measurement": name}
        case "greater", None, [greater, than]:
            return {"trend": {"greater": greater, "than": than}}
        case "decreasing" | "equal", None, [_, _, *_]:
            return {"trend": {form: names}}
        case "at_least" | "at_most", str(), [_, *_]:
            return {"trend": {form: bound, "of": names}}
    raise ValueError(
        f"trend: got {form!r} with bound {bound!r} and measurements {names}, expected greater (of "
        "two), decreasing or equal (of two or more), at_least or at_most (with a bound), or none "
        "of them and one measurement"
    )


def _check_statements(found: Iterable[Claim], known: set[str], where: str) -> None:
    """Every cell's statement is there, every statement has cells, and they are of one kind."""
    kinds: dict[str, set[tuple[str, Kind]]] = {}
    for claim in found:
        if claim.statement:
            kinds.setdefault(claim.statement, set()).add((claim.paper, claim.kind))
    if kinds.keys() != known:
        unknown = sorted(kinds.keys() ^ known)
        raise InvalidInput(f"{where}: expected cells of every statement, got {', '.join(unknown)}")
    mixed = [name for name, each in kinds.items() if len(each) > 1]
    if mixed:
        raise InvalidInput(f"{where}: expected one paper and kind, got more: {', '.join(mixed)}")


@contextmanager
def _telling(where: str) -> Iterator[None]:
    """Say where it stands that something is wrong, and what to do."""
    try:
        yield
    except ValueError as error:
        wrong = [*map(_wrong, error.errors())] if isinstance(error, ValidationError) else [error]
        told = "; ".join(map(str, wrong))
        raise InvalidInput(f"{where}: {told}; correct it as claims/README.md says") from error


def _wrong(problem: Any) -> str:
    field, message = ".".join(map(str, problem["loc"])), problem["msg"]
    got = "nothing" if problem["type"] == "missing" else described(problem["input"])
    return f"{field}: got {got}, {message}" if field else message


def _refuse_duplicates(ids: Iterable[str], where: str) -> None:
    twice = [name for name, times in Counter(ids).items() if times > 1]
    if twice:
        raise InvalidInput(f"{where}: expected distinct ids, got twice: {', '.join(twice)}")
