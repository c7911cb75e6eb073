"""Whether what we measured agrees with what the papers print.

`compare_all` gives a verdict with its reason to every claim. A number is a *match* (inside the
paper's rounding plus our error, and the paper's where its n is known) or *contradicted*. A stated
ordering or bound is *confirmed* or *contradicted* by a test, corrected (Holm 1979) for all that are
compared with the same notebook's results; where the test decides nothing, our estimate *leans
towards the paper* or *leans against the paper*. Where mathematics makes two numbers one, and the
measured ones are identical, they *tie*. That numbers are equal, or that something adds nothing, no
sample can show: it is read as less than a point (`claims.POINT`), the distance at which two
one-sided tests find them equivalent (Schuirmann 1987).

A paper says one thing of many cells of a table. The claims that share a `statement` are its cells,
and `judge` tests each statement as one, in the sense of its words (`claims.Reading`):

each : all its cells; or *most*, at least u of n. This is the partial conjunction of Benjamini &
    Heller (2008): with the p-values of the cells in rising order,
    it holds in at least u cells with p = (n - u + 1) p_holds(u), and
    it fails in at least n - u + 1 with p = u p_fails(n - u + 1).
    So for u = n it holds by its weakest cell, and fails by its worst one with Bonferroni's
    correction.
average : a tendency ("A higher temperature leaves less"). Differences are averaged over the steps
    of a cell, which leaves that of its ends, and over the cells. The standard error of an average
    is at most the average of the standard errors, however the cells depend on each other; it is
    taken to be that.

Holm's step-down then keeps the level over all statements of the four papers, those included that
were tested once and are compared no longer (`Statement.withdrawn`). Cells that were not compared
decide nothing and are left out. A cell that ties is none in which an order holds; where all tie,
the statement does. What holds by construction or by theorem is a family of tests of its own.

Where a notebook kept what each document did to two measurements, they are compared in pairs: the
error of their difference is worked out document by document (`Measurement.paired_errors`). Where
nothing pairs them, their errors add up as if independent. Certainty is about other documents.
Random draws of a mechanism and trainings of an attacker enter the errors where a notebook repeats
them, and are taken as they came elsewhere. Their few repetitions are allowed for at 95%, not at the
smaller levels of corrected tests, so that what rests on them alone is less sure than it says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from textpriv.report import claims
from textpriv.report.claims import POINT, Claim, Kind, Reading, Statement, Trend
from textpriv.report.results import Measurement

Z = 1.96  # intervals are 95% throughout
LEVEL = 0.05  # of all tests of one notebook's claims together
LEAST_P = 1e-12  # smaller ones say no more
EXACT = "nats"  # unit of what is computed and has no error


class Verdict(StrEnum):
    """In the order in which tables count them."""

    MATCH = "match"
    CONFIRMED = "confirmed"
    LEANS_FOR = "leans towards the paper"
    TIE = "tie"
    LEANS_AGAINST = "leans against the paper"
    CONTRADICTED = "contradicted"
    NOT_COMPARABLE = "not comparable"


class Comparison(NamedTuple):
    """A verdict, and why."""

    verdict: Verdict
    reason: str


class Judgement(NamedTuple):
    """A statement of a paper with the verdict on all of its cells as one.

    throughout : whether it is confirmed in each of its cells, however its words are read
    """

    statement: Statement
    paper: str
    kind: Kind
    place: str
    cells: Mapping[str, Comparison]
    verdict: Verdict
    reason: str
    throughout: bool


class Findings(NamedTuple):
    """How the statements fared that are evidence; for those that are not, `settled`.

    open : no test decides
    leaning : those of the open ones that lean the paper's way
    settled : hold by construction or by theorem, whatever the paper found
    reread : confirmed ones whose cells or reading were settled after a result had been seen
    throughout : those that are confirmed if each is read as true of every one of its cells
    set_aside : contradicted ones that were then held to be no test
    """

    holds: int
    against: int
    tie: int
    open: int
    leaning: int
    settled: int
    reread: int
    throughout: int
    set_aside: int

    @classmethod
    def of(cls, judged: Iterable[Judgement]) -> Findings:
        """Count statements by their verdicts."""
        every = list(judged)
        evidence = [judgement for judgement in every if judgement.kind == Kind.FINDING]
        verdicts = Counter(judgement.verdict for judgement in evidence)
        return cls(
            holds=verdicts[Verdict.CONFIRMED],
            against=verdicts[Verdict.CONTRADICTED],
            tie=verdicts[Verdict.TIE],
            open=verdicts[Verdict.LEANS_FOR] + verdicts[Verdict.LEANS_AGAINST],
            leaning=verdicts[Verdict.LEANS_FOR],
            settled=sum(
                judgement.kind != Kind.FINDING
                and judgement.verdict in (Verdict.CONFIRMED, Verdict.LEANS_FOR)
                for judgement in every
            ),
            reread=sum(
                judgement.statement.reread and judgement.verdict == Verdict.CONFIRMED
                for judgement in evidence
            ),
            throughout=sum(judgement.throughout for judgement in evidence),
            set_aside=sum(
                judgement.statement.set_aside and judgement.verdict == Verdict.NOT_COMPARABLE
                for judgement in evidence
            ),
        )

    @property
    def tested(self) -> int:
        return self.holds + self.against + self.tie + self.open

    def __str__(self) -> str:
        if not self.tested:
            return "No statement of the four papers can be tested under this profile."
        aside = (
            f" Another {self.set_aside} were contradicted, but these models cannot test them: not "
            "counted."
        )
        return (
            f"Of {self.tested} statements of the four replicated papers that these models can "
            f"test, {self.holds} are confirmed, {self.against} contradicted, {self.tie} tie and "
            f"{self.open} are inconclusive ({self.leaning} of these lean the papers' way). If each "
            f"had to hold in every table cell, {self.throughout} would be confirmed; for "
            f"{self.reread} of the {self.holds}, how to read them (each cell or their average, "
            "with what margin) was settled after results were known."
            f"{aside * bool(self.set_aside)} {self.settled} hold by construction or "
            "by theorem, which is no evidence."
        )


def compare_all(
    stated: Sequence[Claim], measured: Mapping[str, Measurement], profile: str = "default"
) -> list[Comparison]:
    """Compare claims with what was measured; tests are corrected for their number.

    Findings are one family of tests; what holds by construction or by theorem is another.

    Parameters
    ----------
    measured : by name
    profile : the one that they come from; more can be compared under PAPER, nothing under smoke
    """
    chances: dict[int, float] = {}
    for number, claim in enumerate(stated):
        if claim.trend and not _obstacle(claim, measured, profile) and not _ties(claim, measured):
            chances[number] = p_value(claim.trend, measured)
    certain = _certain(chances, [claim.kind for claim in stated])
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
    compared: dict[str, Comparison] = {}
    cells: dict[str, list[Claim]] = {}
    for notebook in dict.fromkeys(claim.notebook for claim in claims.load()):
        for claim, comparison in verdicts_of(notebook, measured.get(notebook, {}), profile):
            compared[claim.id] = comparison
            if claim.trend:
                cells.setdefault(claim.statement or claim.id, []).append(claim)
    known = {each.id: each for each in claims.statements()}
    stated, tests, in_each = [], [], []
    for name, group in cells.items():
        statement = known.get(name) or Statement(id=name, says=group[0].setting)
        tested = [each for each in group if compared[each.id].verdict != Verdict.NOT_COMPARABLE]
        tied = [each for each in tested if compared[each.id].verdict == Verdict.TIE]
        if len(tied) == len(tested):
            tested = []
        # A tie goes against an order; that numbers are equal it can only help.
        tested = [e for e in tested if e not in tied or (e.trend and e.trend.form != "equal")]
        stated.append((statement, group[0], {each.id: compared[each.id] for each in group}))
        tests.append(_test(statement.reading, tested, measured))
        in_each.append(_test(Reading.EACH, tested, measured))
    kinds = [first.kind for _, first, _ in stated]
    certain, certain_in_each = (
        _certain(
            {
                number: test.p if test else 1.0
                for number, test in enumerate(each)
                if test or stated[number][0].withdrawn
            },
            kinds,
        )
        for each in (tests, in_each)
    )
    judgements = []
    for number, (statement, first, comparisons) in enumerate(stated):
        verdict, reason = _as_one(tests[number], comparisons, certain.get(number, False))
        every = in_each[number]
        throughout = every is not None and every.holds and certain_in_each[number]
        about = statement, first.paper, first.kind, first.place
        judgements.append(Judgement(*about, comparisons, verdict, reason, throughout))
    return judgements


def _as_one(test: _Test | None, cells: Mapping[str, Comparison], certain: bool) -> Comparison:
    """The verdict on a statement from its test; without one, that on a cell of it."""
    if test is None:  # cells that tie say more than those that were not compared
        tied = [each for each in cells.values() if each.verdict == Verdict.TIE]
        return next(iter(tied or cells.values()))
    verdict = _verdict(test.holds, certain)
    p = f"p = {test.p:.2g}" if test.p >= LEAST_P else f"p < {LEAST_P:g}"
    step = "the average step is " if test.averaged else ""
    reason = f"{step}as the paper says in {test.holding} of {test.cells} cells, {p}"
    refuted = [each for each in cells.values() if each.verdict == Verdict.CONTRADICTED]
    if verdict == Verdict.CONFIRMED and refuted:
        reason += f"; {len(refuted)} contradicted by itself"
    return Comparison(verdict, reason)


def score(judged: Iterable[Judgement], profile: str = "default") -> str:
    """What became of the papers' numbers and statements, in sentences."""
    numbers = [claim for claim in claims.load() if claim.value is not None]
    compared = sum(claim.is_compared(profile) for claim in numbers) if profile != "smoke" else 0
    sentence = "The papers' printed numbers are of other models and are not compared."
    if compared:
        sentence = f"{compared} of the {len(numbers)} printed numbers are compared on these models."
    return f"{sentence} {Findings.of(judged)}"


def not_counted(judged: Iterable[Judgement]) -> str:
    """The statements that came out contradicted and are no test of these models, with why."""
    aside = [
        f"\u201c{each.statement.says}\u201d ({each.reason})"
        for each in judged
        if each.statement.set_aside and each.verdict == Verdict.NOT_COMPARABLE
    ]
    return f"Contradicted, and not counted: {'; '.join(aside)}." if aside else ""


class _Test(NamedTuple):
    """Whether a statement holds, how easily chance would make it so, and in how many cells."""

    holds: bool
    p: float
    holding: int
    cells: int
    averaged: bool = False  # what holds in a cell is the mean of its steps, not each


def _test(
    reading: Reading,
    cells: Sequence[Claim],
    measured: Mapping[str, Mapping[str, Measurement]],
) -> _Test | None:
    """Whether a statement of these cells holds, as it is read; None without a cell."""
    tested = [(cell.trend, measured[cell.notebook]) for cell in cells if cell.trend]
    if not tested:
        return None
    if reading == Reading.AVERAGE:
        steps = np.array([_average_step(trend, measurements) for trend, measurements in tested])
        margin, error = steps.mean(axis=0).tolist()
        holding = int((steps[:, 0] > 0).sum())
        return _Test(
            margin > 0, _two_sided(abs(margin), error), holding, len(tested), averaged=True
        )
    holding = sum(trend.holds(_values(trend, measurements)) for trend, measurements in tested)
    holds, fails = zip(*(_chances(*pair) for pair in tested), strict=True)
    count = len(tested)
    needed = count // 2 + 1 if reading == Reading.MOST else count
    if holding >= needed:
        weakest = sorted(holds)[needed - 1]
        return _Test(True, min(1.0, (count - needed + 1) * weakest), holding, count)
    weakest = sorted(fails)[count - needed]
    return _Test(False, min(1.0, needed * weakest), holding, count)


def verdicts_of(
    notebook: str, measured: Mapping[str, Measurement], profile: str
) -> list[tuple[Claim, Comparison]]:
    """The claims about a notebook with their verdicts."""
    stated = claims.for_notebook(notebook, profile)
    return list(zip(stated, compare_all(stated, measured, profile), strict=True))


def by_statement(
    notebook: str, measured: Mapping[str, Measurement], profile: str = "default"
) -> pd.DataFrame:
    """What the papers state about a notebook, and how many of the cells each verdict has.

    Cells that cannot be compared are left out, where another one can. What is read as true on
    average has one verdict. Notebook 07 tests each statement as one, among those of all notebooks.

    Returns
    -------
    columns statement, place, verdict
    """
    stated = {each.id: each for each in claims.statements()}
    averaged = {}
    for judgement in judge({notebook: measured}, profile):
        verdicts = [cell.verdict for cell in judgement.cells.values()]
        count = len(verdicts) - verdicts.count(Verdict.NOT_COMPARABLE)
        if judgement.statement.reading == Reading.AVERAGE and count > 1:
            averaged[judgement.statement.id] = f"{judgement.verdict}, on average over {count}"
    cells: dict[tuple[str, str, str], list[Verdict]] = {}
    places: dict[str, str] = {}
    for claim, compared in verdicts_of(notebook, measured, profile):
        name, place = claim.statement or claim.id, claim.place.split(",")[0]
        says = stated[name].says if name in stated else claim.setting
        place = places.setdefault(name, place) if name in averaged else place
        cells.setdefault((name, says, place), []).append(compared.verdict)
    return pd.DataFrame(
        [
            [says, place, averaged.get(name, _counted(verdicts))]
            for (name, says, place), verdicts in cells.items()
        ],
        columns=["statement", "place", "verdict"],
    )


def _counted(verdicts: Sequence[Verdict]) -> str:
    """The verdict of one cell, or how many of several have which."""
    compared = [verdict for verdict in verdicts if verdict != Verdict.NOT_COMPARABLE]
    if len(compared) < 2:
        return str(compared[0] if compared else Verdict.NOT_COMPARABLE)
    return ", ".join(
        f"{compared.count(verdict)} {verdict}" for verdict in Verdict if verdict in compared
    )


def count(
    notebook: str, measured: Mapping[str, Measurement], profile: str = "default"
) -> Counter[str]:
    """How often each verdict is given to the claims about a notebook, in their order."""
    counts = Counter(
        comparison.verdict for _, comparison in verdicts_of(notebook, measured, profile)
    )
    return Counter({str(verdict): counts[verdict] for verdict in Verdict if counts[verdict]})


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
    if reason := _obstacle(claim, measured, profile):
        return Comparison(Verdict.NOT_COMPARABLE, reason)
    if claim.trend is None:
        return _compare_value(claim, measured)
    values = _values(claim.trend, measured)
    shown = "ours: " + ", ".join(f"{value:.3g}" for value in values.values())
    if _ties(claim, measured):
        return Comparison(Verdict.TIE, f"{claim.tie}; {shown}")
    if claim.tie:
        shown = f"expected a tie ({claim.tie}), but they differ; {shown}"
    return Comparison(_verdict(claim.trend.holds(values), certain), shown)


def _compare_value(claim: Claim, measured: Mapping[str, Measurement]) -> Comparison:
    assert claim.value is not None and claim.rounding is not None  # the model guarantees it
    measurement = measured[str(claim.measurement)]
    spread = math.hypot(_standard_error(measurement), _binomial_error(claim.value, claim.n))
    if math.isinf(spread):
        return Comparison(Verdict.NOT_COMPARABLE, "the error of the measurement is unknown")
    tolerance = claim.rounding / 2 + Z * spread
    apart = abs(measurement.value - claim.value)
    # ulps of the subtraction must not decide a value that lies on the edge of the rounding
    inside = apart <= tolerance or math.isclose(apart, tolerance)
    verdict = Verdict.MATCH if inside else Verdict.CONTRADICTED
    return Comparison(verdict, f"{apart:.3g} apart, {tolerance:.3g} allowed")


def _verdict(holds: bool, certain: bool) -> Verdict:
    if holds:
        return Verdict.CONFIRMED if certain else Verdict.LEANS_FOR
    return Verdict.CONTRADICTED if certain else Verdict.LEANS_AGAINST


def _values(trend: Trend, measured: Mapping[str, Measurement]) -> dict[str, float]:
    return {name: measured[name].value for name in trend.measurements}


def _ties(claim: Claim, measured: Mapping[str, Measurement]) -> bool:
    """Mathematics says that they are one, and they are: values, intervals, and what units did."""
    chosen = [measured[name] for name in claim.measurements]
    numbers = {(each.value, each.low, each.high, each.n) for each in chosen}
    # Equal shares of other tokens have an error in pairs.
    apart = any(_paired_error(left, right) for left, right in pairwise(chosen))
    return bool(claim.tie) and len(numbers) == 1 and not apart


def margins(trend: Trend, measured: Mapping[str, Measurement]) -> list[tuple[float, float]]:
    """By how much each step of an order, or each side of a bound, holds; and its error."""
    chosen = [measured[name] for name in trend.measurements]
    if trend.bound is not None:
        side = 1 if trend.form == "at_least" else -1
        return [
            (side * (measurement.value - trend.bound), _error_at(trend.bound, measurement))
            for measurement in chosen
        ]
    if trend.form == "equal":  # paired errors are too small where few documents differ
        return [
            (POINT - abs(left.value - right.value), _independent(left, right))
            for left, right in pairwise(chosen)
        ]
    return [
        (left.value - right.value, error_of_difference(left, right))
        for left, right in pairwise(chosen)
    ]


def _average_step(trend: Trend, measured: Mapping[str, Measurement]) -> tuple[float, float]:
    """By how much an order falls in each of its steps, or a bound is kept, on average; its error.

    That of an order is the error of its ends, or of its steps together, which pairs may know
    better.
    """
    steps = margins(trend, measured)
    margin, error = np.mean(steps, axis=0).tolist()
    if trend.form in ("greater", "decreasing"):
        ends = error_of_difference(*(measured[name] for name in trend.ends))
        error = min(ends / len(steps), error)
    return margin, error


def _chances(trend: Trend, measured: Mapping[str, Measurement]) -> tuple[float, float]:
    """How easily chance would make a trend hold, and fail, as it does; 1 where it does not.

    It holds by its weakest step (all must hold, so no correction), and fails by its worst one
    (any may fail, so Bonferroni's over the steps). Two equal numbers decide nothing.
    """
    steps = margins(trend, measured)
    chances = [_two_sided(abs(margin), error) for margin, error in steps]
    if trend.holds(_values(trend, measured)):
        return max(chances), 1.0
    failing = [p for (margin, _), p in zip(steps, chances, strict=True) if margin <= 0]
    return 1.0, min(1.0, len(steps) * min(failing))


def p_value(trend: Trend, measured: Mapping[str, Measurement]) -> float:
    """How easily chance would make a trend hold, or fail, whichever it does."""
    return min(_chances(trend, measured))


def _two_sided(apart: float, error: float) -> float:
    if not apart or math.isinf(error):
        return 1.0
    return math.erfc(apart / error / math.sqrt(2)) if error else 0.0


def _certain(chances: Mapping[int, float], kinds: Sequence[Kind]) -> dict[int, bool]:
    """Which numbered tests are certain: findings among themselves, and so all others."""
    certain: dict[int, bool] = {}
    for findings in (True, False):
        family = {n: p for n, p in chances.items() if (kinds[n] == Kind.FINDING) == findings}
        certain |= _holm(family)
    return certain


def _holm(chances: Mapping[int, float]) -> dict[int, bool]:
    """Which of the tests are certain when the level is kept over all of them (Holm 1979)."""
    certain: dict[int, bool] = {}  # by hand: statsmodels collects garbage at every call, 85 ms
    going = True
    for done, (number, p) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        going = going and p <= LEVEL / (len(chances) - done)
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
    if measurement.low == measurement.high:
        share = measurement.unit == "share" and measurement.n
        return _binomial_error(measurement.value, measurement.n) if share else math.inf
    return max(measurement.high - measurement.value, measurement.value - measurement.low) / Z


def _error_at(bound: float, measurement: Measurement) -> float:
    """Standard error with which to compare a measurement with a bound.

    A share near 0 or 1 seems surer of itself than it would be if it lay at the bound.
    """
    own = _standard_error(measurement)
    if measurement.unit != "share" or not measurement.n or not 0 < bound < 1:
        return own
    return max(own, math.sqrt(bound * (1 - bound) / measurement.n))


def error_of_difference(left: Measurement, right: Measurement) -> float:
    """Standard error of left minus right: in pairs where they share documents."""
    return _paired_error(left, right) or _independent(left, right)


def _paired_error(left: Measurement, right: Measurement) -> float | None:
    return left.paired_errors.get(right.name) or right.paired_errors.get(left.name)


def _independent(left: Measurement, right: Measurement) -> float:
    return math.hypot(_standard_error(left), _standard_error(right))


def _binomial_error(share: float, n: int | None) -> float:
    """Standard error of a share of n draws (Agresti & Coull 1998, so never 0 at 0 or 1)."""
    if n is None:
        return 0.0
    centre = (share * n + 2) / (n + 4)
    return math.sqrt(centre * (1 - centre) / (n + 4))
