from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from textpriv.errors import InvalidInput
from textpriv.report import claims, results, verdicts
from textpriv.report.claims import Claim
from textpriv.report.results import Measurement, measure
from textpriv.report.verdicts import EXACT, Comparison, Verdict, compare_all

VALUE: dict[str, Any] = {
    "id": "tong.t",
    "paper": "tong",
    "notebook": "05_reconstruction_attacks",
    "place": "Table 1",
    "setting": "eps 4",
    "value": 0.5,
    "rounding": 0.01,
    "measurement": "a.b",
    "compared": "always",
}
STATED = {key: VALUE[key] for key in ("id", "paper", "notebook", "place", "setting", "compared")}


def claim(**changes: Any) -> Claim:
    return Claim.model_validate({**VALUE, **changes})


def stated_as(form: str, *measurements: str, bound: float | None = None) -> dict[str, Any]:
    return {"form": form, "measurements": [*measurements], "bound": bound}


def trend(form: str, *measurements: str, bound: float | None = None, **changes: Any) -> Claim:
    stated = stated_as(form, *measurements, bound=bound)
    return Claim.model_validate({**STATED, "trend": stated, **changes})


def compare(claim: Claim, measured: Any, profile: str = "default") -> Comparison:
    """As if it were the only one."""
    return compare_all([claim], measured, profile)[0]


def exact(name: str, value: float) -> Measurement:
    """A number without error."""
    return measure(name, value, unit=EXACT)


def by_name(*measurements: Measurement) -> dict[str, Measurement]:
    return {each.name: each for each in measurements}


def verdict(claim: Claim, *measurements: Measurement, profile: str = "default") -> Verdict:
    return compare(claim, by_name(*measurements), profile).verdict


def paired(measurement: Measurement, **errors: float) -> Measurement:
    """With the errors of its differences to others, a.x by its x."""
    pairs = {f"a.{name}": error for name, error in errors.items()}
    return measurement.model_copy(update={"paired_errors": pairs})


@pytest.mark.parametrize(
    ("n", "value", "half", "matches"),
    [
        (None, 0.505, 0.0, True),  # the rounding alone: 0.005 to either side
        (None, 0.495, 0.0, True),
        (None, 0.506, 0.0, False),
        (None, 0.54, 0.04, True),  # our interval widens it: 0.005 + 0.04
        (None, 0.55, 0.04, False),
        (1000, 0.53, 0.0, True),  # so does the paper's count: 0.005 + 1.96 * 0.0158
        (10000, 0.53, 0.0, False),
        (1000, 0.554, 0.04, True),  # errors add as squares: 0.005 + hypot(0.04, 0.031) = 0.0556
        (1000, 0.558, 0.04, False),  # a plain sum would allow 0.076
    ],
)
def test_a_number_matches_inside_rounding_and_errors(
    n: int | None, value: float, half: float, matches: bool
) -> None:
    ours = measure("a.b", value, value - half, value + half) if half else exact("a.b", value)
    assert verdict(claim(n=n), ours) == (Verdict.MATCH if matches else Verdict.CONTRADICTED)


def test_measurements_of_the_same_documents_are_compared_in_pairs() -> None:
    order = trend("greater", "a.x", "a.y")
    x, y = measure("a.x", 0.6, 0.5, 0.7), measure("a.y", 0.5, 0.4, 0.6)
    assert verdict(order, x, y) == Verdict.LEANS_FOR  # as if independent: 0.1, its error 0.072
    assert verdict(order, paired(x, y=0.02), y) == Verdict.CONFIRMED
    assert verdict(order, x, paired(y, x=0.02)) == Verdict.CONFIRMED  # either may know it
    assert verdict(order, paired(x, z=0.02), y) == Verdict.LEANS_FOR
    assert verdict(trend("greater", "a.y", "a.x"), paired(x, y=0.02), y) == Verdict.CONTRADICTED
    # Pairs that all agree are no certainty.
    alone = verdicts.error_of_difference(x, y)
    assert verdicts.error_of_difference(paired(x, y=0.0), y) == alone > 0.07


def test_pairs_are_the_steps_and_the_ends_of_the_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = [trend("decreasing", "a.x", "a.y", "a.z"), trend("greater", "a.v", "a.w"),
              trend("at_least", "a.x", "a.y", bound=0.5), claim()]  # fmt: skip
    monkeypatch.setattr(claims, "for_notebook", lambda notebook, profile: stated)
    steps = [("a.x", "a.y"), ("a.y", "a.z"), ("a.x", "a.z"), ("a.v", "a.w")]
    assert claims.pairs("any") == steps


def test_a_falling_order_is_known_by_its_ends_or_by_its_steps() -> None:
    """Three measurements with errors of 1, 2 down; by hand."""
    x, y, z = spread("a.x", 2.0, 1.0), spread("a.y", 1.5, 1.0), spread("a.z", 0.0, 1.0)
    order = trend("decreasing", "a.x", "a.y", "a.z").trend
    assert order is not None

    for ours, error in (
        ((x, y, z), math.sqrt(2) / 2),
        ((paired(x, z=0.5), y, z), 0.25),
        ((paired(x, y=0.1), paired(y, z=0.2), z), 0.15),
    ):
        assert verdicts._average_step(order, by_name(*ours)) == pytest.approx((1.0, error))


@pytest.mark.parametrize(
    ("apart", "error", "expected"),
    [
        (0.004, 0.002, Verdict.CONFIRMED),  # 3 errors short of a point
        (-0.004, 0.002, Verdict.CONFIRMED),
        (0.004, 0.004, Verdict.LEANS_FOR),  # a sample too small to show that there is nothing
        (0.012, 0.002, Verdict.LEANS_AGAINST),
        (0.02, 0.002, Verdict.CONTRADICTED),
    ],
)
def test_that_two_are_equal_is_certain_once_they_are_certainly_within_a_point(
    apart: float, error: float, expected: Verdict
) -> None:
    ours = [exact("a.y", 0.5), spread("a.x", 0.5 + apart, error)]
    assert verdict(trend("equal", "a.x", "a.y"), *ours) == expected


def test_a_bound_is_averaged_over_what_it_bounds() -> None:
    bound = trend("at_least", "a.x", "a.y", bound=-0.01).trend
    assert bound is not None
    ours = by_name(spread("a.x", 0.01, 0.004), spread("a.y", -0.02, 0.002))
    assert verdicts._average_step(bound, ours) == pytest.approx((0.005, 0.003))


def test_without_an_interval_nothing_that_was_measured_is_certain() -> None:
    """Nor is a share of one, nor do equal numbers refute an order."""
    comparison = compare(claim(), {"a.b": measure("a.b", 0.5)})
    assert comparison[:2] == (Verdict.NOT_COMPARABLE, "the error of the measurement is unknown")
    order = trend("greater", "a.x", "a.y")
    assert verdict(order, measure("a.x", 0.1), measure("a.y", 0.9)) == Verdict.LEANS_AGAINST
    assert verdict(order, measure("a.x", 0.9), measure("a.y", 0.1)) == Verdict.LEANS_FOR
    assert verdict(claim(value=1.0, rounding=0.001, n=1000), exact("a.b", 0.997)) == Verdict.MATCH
    assert verdict(order, exact("a.x", 0.1), exact("a.y", 0.1)) == Verdict.LEANS_AGAINST


def test_an_interval_that_was_cut_has_the_error_of_its_wider_side() -> None:
    """0.02 below and 0.06 above: a bound at 0.07 is within the error, by the mean it would not."""
    bound = trend("at_least", "a.x", bound=0.075)
    assert verdict(bound, measure("a.x", 0.02, 0.0, 0.08)) == Verdict.LEANS_AGAINST
    assert verdict(bound, measure("a.x", 0.02, 0.0, 0.04)) == Verdict.CONTRADICTED


@pytest.mark.parametrize(
    ("compared", "profiles"),
    [("always", {"default", "paper"}), ("paper", {"paper"}), ("never", set())],
)
def test_a_claim_is_compared_under_its_profiles(compared: str, profiles: set[str]) -> None:
    stated, ours = claim(compared=compared, reason="why"), by_name(exact("a.b", 0.5))
    for profile in ("smoke", "default", "paper"):
        comparison, missing = compare(stated, ours, profile), compare(stated, {}, profile)
        assert missing.verdict == Verdict.NOT_COMPARABLE
        if profile in profiles:
            assert comparison == (Verdict.MATCH, "0 apart, 0.005 allowed")
            assert missing.reason == "not measured: a.b"
        else:
            small = "smoke runs are too small to compare"
            reason = small if compared == "always" else "why"
            assert comparison == missing == (Verdict.NOT_COMPARABLE, reason)


def test_the_paper_profile_may_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"tomatoes": "sst2"}
    value = claim(measurement="a.tomatoes.b", under_paper=other)
    order = trend("greater", "a.tomatoes.b", "a.c", id="tong.u", under_paper=other)
    bound = trend("at_least", "a.tomatoes.b", bound=0.4, id="tong.v", under_paper=other)
    monkeypatch.setattr(claims, "load", lambda: [value, order, bound])
    for profile, name in (("default", "a.tomatoes.b"), ("smoke", "a.tomatoes.b"),
                          ("paper", "a.sst2.b")):  # fmt: skip
        measurements = [
            each.measurements for each in claims.for_notebook(VALUE["notebook"], profile)
        ]
        assert measurements == [[name], [name, "a.c"], [name]]
        assert claims.pairs(VALUE["notebook"], profile) == [(name, "a.c")]
    ours = by_name(exact("a.sst2.b", 0.5), exact("a.c", 0.4))
    (first, comparison), *_ = verdicts.verdicts_of(VALUE["notebook"], ours, "paper")
    assert (comparison.verdict, verdicts.ours(first, ours)) == (Verdict.MATCH, "0.5")
    assert verdicts.ours(order.under("paper"), ours) == "0.5, 0.4"
    assert verdicts.count(VALUE["notebook"], ours, "paper") == {"match": 1, "confirmed": 2}
    assert verdicts.count(VALUE["notebook"], ours) == {"not comparable": 3}


@pytest.mark.parametrize(
    ("form", "values", "holds"),
    [
        (("greater", "a.x", "a.y"), (0.2, 0.1), True),
        (("greater", "a.x", "a.y"), (0.1, 0.2), False),
        (("decreasing", "a.x", "a.y", "a.z"), (0.3, 0.2, 0.1), True),
        (("decreasing", "a.x", "a.y", "a.z"), (0.3, 0.1, 0.2), False),
        (("at_least", "a.x", "a.y"), (0.98, 1.0), True),
        (("at_least", "a.x", "a.y"), (0.979, 1.0), False),
        (("at_most", "a.x", "a.y"), (0.1, 0.0), True),
        (("at_most", "a.x", "a.y"), (0.11, 0.0), False),
        (("equal", "a.x", "a.y", "a.z"), (0.2, 0.2, 0.2), True),
        (("equal", "a.x", "a.y", "a.z"), (0.2, 0.2, 0.1), False),
        (("equal", "a.x", "a.y"), (0.2, 0.191), True),
        (("equal", "a.x", "a.y"), (0.2, 0.189), False),
    ],
)
def test_trends(form: tuple[str, ...], values: tuple[float, ...], holds: bool) -> None:
    ours = [exact(f"a.{name}", value) for name, value in zip("xyz", values, strict=False)]
    bound = {"at_least": 0.98, "at_most": 0.1}.get(form[0])
    on_the_bound = values[0] == bound  # nothing is certain
    held = Verdict.LEANS_FOR if on_the_bound else Verdict.CONFIRMED
    stated = trend(*form, bound=bound)
    assert verdict(stated, *ours) == (held if holds else Verdict.CONTRADICTED)
    assert verdict(stated, *ours[1:]) == Verdict.NOT_COMPARABLE


@pytest.mark.parametrize(
    ("half", "expected"), [(0.06, Verdict.LEANS_AGAINST), (0.01, Verdict.CONTRADICTED)]
)
def test_an_order_that_fails_within_the_error_is_undecided(half: float, expected: Verdict) -> None:
    def ours(name: str, value: float) -> Measurement:
        return measure(name, value, value - half, value + half)

    order = trend("decreasing", "a.x", "a.y", "a.z")
    assert verdict(order, ours("a.x", 0.5), ours("a.y", 0.55), ours("a.z", 0.3)) == expected
    held = Verdict.LEANS_FOR if expected == Verdict.LEANS_AGAINST else Verdict.CONFIRMED
    assert verdict(order, ours("a.x", 0.6), ours("a.y", 0.55), ours("a.z", 0.3)) == held
    # One step beyond the error decides, whatever the other does.
    far = ours("a.x", 0.3), ours("a.y", 0.55), ours("a.z", 0.3)
    assert verdict(order, *far) == Verdict.CONTRADICTED
    for bound in (trend("at_most", "a.x", bound=0.5), trend("at_least", "a.x", bound=0.6)):
        assert verdict(bound, ours("a.x", 0.55)) == expected  # 0.05 beyond it
        # Without an interval the error of what was measured is unknown.
        assert verdict(bound, measure("a.x", 0.55)) == Verdict.LEANS_AGAINST


def spread(name: str, value: float, error: float) -> Measurement:
    """With that standard error."""
    half = 1.96 * error
    return measure(name, value, value - half, value + half, unit="points")


def test_tests_are_corrected_for_their_number() -> None:
    """2.4 errors are certain alone (p 0.016), not among six (0.05 / 6); 4 errors are in both."""

    def refuted(*apart: float, others: Sequence[Claim] = ()) -> list[Verdict]:
        stated = [trend("greater", "a.zero", f"a.y{number}") for number in range(len(apart))]
        ours = [exact(f"a.y{number}", each) for number, each in enumerate(apart)]
        comparisons = compare_all([*stated, *others], by_name(spread("a.zero", 0.0, 1.0), *ours))
        return [each.verdict for each in comparisons]

    assert refuted(2.4) == [Verdict.CONTRADICTED]
    # Holm goes on after the first rejection with 0.05 / 5, which 0.016 does not reach.
    assert refuted(*[2.4] * 5, 4.0) == [Verdict.LEANS_AGAINST] * 5 + [Verdict.CONTRADICTED]
    # After three rejections 0.05 is left, which 0.016 does reach, unlike 0.05 / 4: a step down.
    assert refuted(2.4, 4.0, 4.0, 4.0) == [Verdict.CONTRADICTED] * 4
    # What cannot be compared is no test: it costs the others nothing.
    others = [trend("greater", "a.zero", "a.y0", compared="never", reason="another corpus")] * 20
    outcomes = refuted(2.4, others=[*others, trend("greater", "no.x", "no.y")])
    assert outcomes == [Verdict.CONTRADICTED] + [Verdict.NOT_COMPARABLE] * 21


def test_the_steps_of_an_order_are_corrected_for_too() -> None:
    """One step of three fails by 2.2 errors: p 0.028 alone, 0.083 among three."""
    values = [3.0, 5.2, 1.0, 0.0]
    ours = [
        spread(f"a.{name}", value, 0.5**0.5) for name, value in zip("wxyz", values, strict=True)
    ]
    assert verdict(trend("decreasing", "a.w", "a.x"), *ours) == Verdict.CONTRADICTED
    order = trend("decreasing", "a.w", "a.x", "a.y", "a.z")
    assert verdict(order, *ours) == Verdict.LEANS_AGAINST


def test_a_trend_is_certain_by_its_weakest_step() -> None:
    def comparison(*values: float) -> Comparison:
        ours = [spread(f"a.{name}", value, 0.1) for name, value in zip("xyz", values, strict=True)]
        return compare(trend("decreasing", "a.x", "a.y", "a.z"), by_name(*ours))

    assert comparison(3, 2, 1) == (Verdict.CONFIRMED, "ours: 3, 2, 1")
    assert comparison(3, 2, 1.9) == (Verdict.LEANS_FOR, "ours: 3, 2, 1.9")


def test_observations_that_all_agree_are_not_certain() -> None:
    order = trend("greater", "a.x", "a.y")
    few, many = measure("a.y", 1.0, 1.0, 1.0, n=10), measure("a.y", 1.0, 1.0, 1.0, n=10_000)
    assert verdict(order, exact("a.x", 0.9), few) == Verdict.LEANS_AGAINST
    assert verdict(order, exact("a.x", 0.9), many) == Verdict.CONTRADICTED
    tokens = measure("a.y", 1.0, 1.0, 1.0, n=10, unit="tokens")
    assert verdict(order, exact("a.x", 0.0), tokens) == Verdict.LEANS_AGAINST
    alike = measure("a.b", 3.0, 3.0, 3.0, n=10, unit="tokens")
    assert verdict(claim(value=3.0), alike) == Verdict.NOT_COMPARABLE
    unknown = measure("a.y", 1.0, 1.0, 1.0)  # of how many
    assert verdict(order, exact("a.x", 0.9), unknown) == Verdict.LEANS_AGAINST


def test_a_share_is_held_against_a_bound_with_the_error_at_the_bound() -> None:
    """One of a hundred: 0.05 is four of its own errors away, and 1.8 of those at the bound."""
    bound = trend("at_least", "a.x", bound=0.05)
    assert verdict(bound, measure("a.x", 0.01, 0.0, 0.0295, n=100)) == Verdict.LEANS_AGAINST
    assert verdict(bound, measure("a.x", 0.01, 0.0, 0.0295, n=1000)) == Verdict.CONTRADICTED
    assert verdict(bound, measure("a.x", 0.01, 0.0, 0.0295)) == Verdict.CONTRADICTED  # n is unknown


NO_TREND = [
    stated_as("greater", "a.x"),
    stated_as("greater", "a.x", "a.y", "a.z"),
    stated_as("decreasing", "a.x"),
    stated_as("at_least", "a.x"),
    stated_as("at_most", bound=0.5),
    stated_as("equal", "a.x", "a.y", bound=0.5),
    stated_as("rising", "a.x", "a.y"),
]
NO_NUMBER = dict.fromkeys(("value", "rounding", "measurement"))


@pytest.mark.parametrize(
    "changes",
    [
        {"value": None},
        {"rounding": 0.0},
        {"rounding": None},
        {"measurement": None},
        {"trend": stated_as("at_least", "a.b", bound=0.5)},
        {"paper": "feyisetan"},
        {"compared": "never"},
        {"compared": "paper"},
        {"compared": True},
        {"compared": "sometimes", "reason": "why"},
        {"under_paper": {"absent": "present"}},
        {"under_paper": {"a.": "b."}, "compared": "never", "reason": "why"},
        {"notebook": "attacks"},
        {"extra": 1},
        {"statement": "tong.s"},
        {"kind": "by theorem"},
        {"tie": "one map"},
        *({**NO_NUMBER, "trend": form} for form in NO_TREND),
    ],
)
def test_claims_are_checked(changes: dict) -> None:
    with pytest.raises(ValueError):
        claim(**changes)


SHARED_TEXTS = """
[reason]
other-model = "another model"
sizes = "other sizes"
[tie]
one-map = "one map"
[under_paper]
sst2 = { tomatoes = "sst2" }
[statement]
"tong.s" = { says = "More is better", reading = "most" }
"""
ROW = {**STATED, "measurements": "a.b"}
NUMBER = {**ROW, "value": "0.5", "rounding": "0.01"}
CELL_ROW = {**ROW, "id": "tong.u", "trend": "greater", "measurements": "a.x; a.y",
            "statement": "tong.s"}  # fmt: skip


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Claim]]:
    """Claims of a file with these rows."""

    def from_rows(*rows: dict[str, str]) -> list[Claim]:
        monkeypatch.setattr(claims, "FILE", tmp_path / f"{len([*tmp_path.iterdir()])}.csv")
        pd.DataFrame([*rows]).to_csv(claims.FILE, index=False)
        return claims.load()

    (tmp_path / "shared.toml").write_text(SHARED_TEXTS)
    return from_rows


def test_rows_are_claims(read: Callable[..., list[Claim]]) -> None:
    keyed = {**NUMBER, "measurements": "a.tomatoes", "compared": "paper",
             "under_paper": "sst2", "reason": "other-model; sizes"}  # fmt: skip
    tied = {**CELL_ROW, "id": "tong.v", "tie": "one-map", "n": ""}
    bound = {**CELL_ROW, "id": "tong.w", "trend": "at_most", "bound": "0.2"}
    order = {**CELL_ROW, "id": "tong.x", "trend": "decreasing", "measurements": "a.x; a.y; a.z"}
    assert read(keyed, tied, bound, order) == [
        claim(measurement="a.tomatoes", compared="paper", reason="another model; other sizes",
              under_paper={"tomatoes": "sst2"}),
        trend(*ORDER, id="tong.v", tie="one map", statement="tong.s"),
        trend("at_most", "a.x", "a.y", bound=0.2, id="tong.w", statement="tong.s"),
        trend("decreasing", "a.x", "a.y", "a.z", id="tong.x", statement="tong.s"),
    ]  # fmt: skip
    assert claims.statements() == [
        claims.Statement(id="tong.s", says="More is better", reading=claims.Reading.MOST)
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "colour\n"),
        ({"place": ""}, "place\n"),
        ({"value": "0,5"}, "value\n"),
        ({"value": "nan"}, "value\n"),
        ({"reason": "sizes; absent"}, "'absent'"),
        ({"trend": "at_most"}, "trend\n"),
        ({"bound": "0.5"}, "bound\n"),
        ({"measurements": ""}, "expected 1, got 0"),
    ],
)
def test_a_wrong_row_is_named(
    read: Callable[..., list[Claim]], changes: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"\.csv, line 3: (?s:.*){message}"):
        read(CELL_ROW, {**NUMBER, **changes})


def test_what_rows_share_is_used() -> None:
    shared = tomllib.loads(claims.FILE.with_name("shared.toml").read_text(encoding="utf-8"))
    rows = pd.read_csv(claims.FILE, dtype=str, keep_default_na=False)
    for column, known in shared.items():
        assert {key for cell in rows[column] for key in cell.split("; ") if key} == set(known)


ORDER = ("greater", "a.x", "a.y")


def tie(form: str, *measurements: str) -> Claim:
    return trend(form, *measurements, tie="one map")


def test_a_tie_is_one_only_where_the_measurements_are_identical() -> None:
    x, y = measure("a.x", 0.4, 0.3, 0.5, n=100), measure("a.y", 0.4, 0.3, 0.5, n=100)
    assert compare(tie(*ORDER), by_name(x, y)) == (Verdict.TIE, "one map; ours: 0.4, 0.4")
    assert verdict(tie("equal", "a.x", "a.y"), x, y) == Verdict.TIE
    # Equal by chance, without a reason in mathematics: nothing is decided.
    assert verdict(trend(*ORDER), x, y) == Verdict.LEANS_AGAINST
    # Equal shares of other tokens: pairs tell them apart.
    assert verdict(tie(*ORDER), paired(x, y=0.02), y) == Verdict.LEANS_AGAINST
    assert verdict(tie(*ORDER), paired(x, y=0.0), y) == Verdict.TIE
    for other in (measure("a.y", 0.4, 0.3, 0.5, n=99), measure("a.y", 0.4, 0.2, 0.5, n=100)):
        assert verdict(tie(*ORDER), x, other) == Verdict.LEANS_AGAINST
    reason = "expected a tie (one map), but they differ; ours: 0.4, 0.3"
    apart = by_name(exact("a.x", 0.4), exact("a.y", 0.3))
    assert compare(tie(*ORDER), apart) == (Verdict.CONFIRMED, reason)


def test_ties_cost_the_other_tests_nothing() -> None:
    """p 0.016 is certain alone, and not among two tests."""
    ours = [spread("a.x", 2.4, 1.0), exact("a.y", 0.0), exact("a.v", 1.0), exact("a.w", 1.0)]
    comparisons = compare_all([trend(*ORDER), tie("greater", "a.v", "a.w")], by_name(*ours))
    assert [comparison.verdict for comparison in comparisons] == [Verdict.CONFIRMED, Verdict.TIE]


@pytest.mark.parametrize(
    ("kind", "expected"), [("finding", Verdict.LEANS_FOR), ("by theorem", Verdict.CONFIRMED)]
)
def test_only_findings_are_tested_with_findings(kind: str, expected: Verdict) -> None:
    ours = by_name(spread("a.x", 2.4, 1.0), exact("a.y", 0.0))
    first, *_ = compare_all([trend(*ORDER), *[trend(*ORDER, kind=kind)] * 9], ours)
    assert first.verdict == expected


def state(monkeypatch: pytest.MonkeyPatch, cells: Sequence[Claim], **statement: Any) -> None:
    """A paper with these cells, and one statement."""
    said = claims.Statement.model_validate({"id": "tong.s", "says": "more", **statement})
    monkeypatch.setattr(claims, "load", lambda: [*cells])
    monkeypatch.setattr(claims, "statements", lambda: [said])


def judged(
    monkeypatch: pytest.MonkeyPatch,
    apart: Sequence[float],
    *,
    reading: str = "each",
    **changes: Any,
) -> verdicts.Judgement:
    """The verdict on a statement whose cells have these differences, with errors of 1."""
    cells = [
        trend("greater", f"a.x{n}", f"a.y{n}", id=f"tong.c{n}", statement="tong.s", **changes)
        for n in range(len(apart))
    ]
    ours = [spread(f"a.x{n}", each, 1.0) for n, each in enumerate(apart)]
    ours += [exact(f"a.y{n}", 0.0) for n in range(len(apart))]
    state(monkeypatch, cells, reading=reading)
    (judgement,) = verdicts.judge({STATED["notebook"]: by_name(*ours)})
    return judgement


@pytest.mark.parametrize(
    ("apart", "reading", "expected"),
    [
        ([3, 3, 3], "each", Verdict.CONFIRMED),  # every cell is certain
        ([9, 9, 1], "each", Verdict.LEANS_FOR),  # the weakest cell decides
        ([9, 9, -1], "each", Verdict.LEANS_AGAINST),
        ([9, 9, -2.2], "each", Verdict.LEANS_AGAINST),  # p 0.028, times three cells
        ([9, 9, -2.5], "each", Verdict.CONTRADICTED),  # p 0.012, times three cells
        ([3, 3, -9], "most", Verdict.CONFIRMED),  # two of three are most; p 2 * 0.0027
        ([2.1, 9, -9], "most", Verdict.LEANS_FOR),  # p 2 * 0.036
        ([9, -3, -3], "most", Verdict.CONTRADICTED),  # two of three fail; p 2 * 0.0027
        ([9, -1, -9], "most", Verdict.LEANS_AGAINST),  # one failure leaves most open
        ([9, 1, -1], "average", Verdict.CONFIRMED),  # 3 with an error of at most 1
        ([3, 3, -1], "average", Verdict.LEANS_FOR),  # 1.7, p 0.096
        ([1, -1, -3], "average", Verdict.LEANS_AGAINST),
        ([1, -5, -3], "average", Verdict.CONTRADICTED),
    ],
)
def test_a_statement_is_tested_as_one(
    monkeypatch: pytest.MonkeyPatch, apart: list[float], reading: str, expected: Verdict
) -> None:
    judgement = judged(monkeypatch, apart, reading=reading)
    assert (judgement.verdict, len(judgement.cells)) == (expected, len(apart))
    holding = sum(each > 0 for each in apart)
    step = "the average step is " * (reading == "average")
    says = f"{step}as the paper says in {holding} of {len(apart)} cells, p = "
    assert judgement.reason.startswith(says)
    if reading == "each":
        assert judgement.throughout == (expected == Verdict.CONFIRMED)


def test_what_holds_on_average_says_what_is_decided_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judgement = judged(monkeypatch, [9, 9, -4], reading="average")
    assert judgement.verdict == Verdict.CONFIRMED and not judgement.throughout
    assert judgement.reason.startswith(
        "the average step is as the paper says in 2 of 3 cells, p = 3"
    )
    assert judgement.reason.endswith("; 1 contradicted by itself")


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_an_average_keeps_its_level_however_its_cells_depend(shared: float) -> None:
    """Under no difference at most 5% of 2,000 are below 0.05: 7% would show in all but 0.1%."""
    rng = np.random.default_rng(3)
    cells = [trend("greater", f"a.x{n}", f"a.y{n}") for n in range(4)]
    zero = {f"a.y{n}": exact(f"a.y{n}", 0.0) for n in range(4)}
    wrong = 0
    for _ in range(2000):
        noise = np.sqrt(shared) * rng.normal() + np.sqrt(1 - shared) * rng.normal(size=4)
        ours = zero | {f"a.x{n}": spread(f"a.x{n}", z, 1.0) for n, z in enumerate(noise)}
        test = verdicts._test(claims.Reading.AVERAGE, cells, {STATED["notebook"]: ours})
        wrong += test is not None and test.p < 0.05
    assert wrong <= binom.isf(0.001, 2000, 0.05)


def test_what_is_not_compared_or_ties_leaves_the_other_cells_to_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert judged(monkeypatch, [3], compared="never", reason="why").reason == "why"
    measured = by_name(exact("a.x", 0.4), exact("a.y", 0.4), exact("a.z", 0.1))
    ours = {STATED["notebook"]: measured}
    one = trend("greater", "a.x", "a.y", statement="tong.s", tie="one map")
    two = trend("greater", "a.x", "a.z", statement="tong.s", id="tong.u")
    same = trend("equal", "a.x", "a.y", statement="tong.s", id="tong.w", tie="one map")
    absent = trend("greater", "a.x", "a.absent", statement="tong.s", id="tong.v")
    for cells, expected, reason in (
        ([one], Verdict.TIE, "one map; ours: 0.4, 0.4"),
        ([one, absent], Verdict.TIE, "one map; ours: 0.4, 0.4"),
        ([one, two, absent], Verdict.LEANS_AGAINST, "as the paper says in 1 of 2 cells, p = 1"),
        ([two, same, absent], Verdict.CONFIRMED, "as the paper says in 1 of 1 cells, p < 1e-12"),
        ([absent], Verdict.NOT_COMPARABLE, "not measured: a.absent"),
    ):
        state(monkeypatch, cells)
        (judgement,) = verdicts.judge(ours)
        assert (judgement.verdict, judgement.reason) == (expected, reason)
        assert verdicts.judge(ours, "smoke")[0].verdict == Verdict.NOT_COMPARABLE


def test_a_withdrawn_statement_stays_in_the_number_of_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test at 0.03 is one at 5%; beside one that was withdrawn it is not (0.05 / 2)."""
    ours = {STATED["notebook"]: by_name(spread("a.x", 2.17, 1.0), exact("a.y", 0.0))}
    kept = trend(*ORDER, id="tong.u")
    gone = trend(*ORDER, statement="tong.s", compared="never", reason="why")
    for withdrawn, expected in ((False, Verdict.CONFIRMED), (True, Verdict.LEANS_FOR)):
        state(monkeypatch, [kept, gone], withdrawn=withdrawn)
        judgements = verdicts.judge(ours)
        assert [judgement.verdict for judgement in judgements] == [expected, Verdict.NOT_COMPARABLE]


def test_findings_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    judgements = [judged(monkeypatch, apart) for apart in ([9], [9], [-9], [1], [-1])]
    judgements.append(judged(monkeypatch, [9], kind="by theorem"))
    judgements.append(judged(monkeypatch, [9], compared="never", reason="why"))
    counted = verdicts.Findings.of(judgements)
    assert counted == (2, 1, 0, 2, 1, 1, 0, 2, 0) and counted.tested == 5
    marks = {"reread": True, "set_aside": True}
    marked = [
        each._replace(statement=each.statement.model_copy(update=marks)) for each in judgements
    ]
    assert verdicts.Findings.of(marked)[-3:] == (2, 2, 1)  # what is compared was not set aside
    aside = verdicts.not_counted(marked)
    assert aside.count("(why)") == 1 and not verdicts.not_counted(judgements)
    assert "15 are confirmed, 2 contradicted" in str(verdicts.Findings(15, 2, 3, 14, 5, 7, 8, 9, 4))
    assert "can be tested under this profile" in str(verdicts.Findings.of([]))
    assert "Of 5" in verdicts.score(judgements)


def test_verdicts_on_a_notebook_are_counted_by_statement() -> None:
    ours = by_name(exact("table2.hockey.eps19.exact.kept", 0.988),
                   exact("table2.hockey.eps19.annoy.kept", 0.45))  # fmt: skip
    stated = verdicts.by_statement("02_ann_vs_exact", ours)
    assert [*stated["verdict"]].count("confirmed") == 1
    assert {*stated["verdict"]} == {"confirmed", "not comparable"}
    more = by_name(*ours.values(), exact("table2.hockey.eps25.exact.kept", 0.5),
                   exact("table2.hockey.eps25.annoy.kept", 0.51))  # fmt: skip
    (said,) = {*verdicts.by_statement("02_ann_vs_exact", more)["verdict"]} - {"not comparable"}
    assert said == "confirmed, on average over 2"  # though the paper is contradicted at 25


# Ids of numbers in tables, how many there are, and the measurement that each is compared with. The
# numbers themselves are held by TABLES of tests/test_scoreboard.py.
UTPALA = r"\.(?:imdb|yelp)\.[\w-]+\.(\w+)\.(t[\d.]+)\.(\w+)"
MEASURED = [
    (r"carpentier\.table1\.(\w+\.\w+)", 8, r"regressor.boosting.\1.by_row"),
    (r"carpentier\.(table2\.\w+\.eps\d+\.\w+)", 24, r"\1.kept"),
    (r"utpala\.table2" + UTPALA, 80, r"f1.dp-prompt-clipped.\2.\3.\1.embedding"),
    (r"utpala\.table3" + UTPALA, 80, r"f1.dp-prompt.\2.\3.\1.embedding"),
]


@pytest.mark.parametrize(("pattern", "count", "measurement"), MEASURED)
def test_a_number_is_compared_with_its_own(pattern: str, count: int, measurement: str) -> None:
    numbers = [each for each in claims.load() if each.value is not None]
    matching = [each for each in numbers if re.fullmatch(pattern, each.id)]
    assert len(matching) == count
    for each in matching:
        assert each.measurement == re.sub(pattern, measurement, each.id), each.id
        assert each.n == (1000 if measurement.endswith("kept") else None), each.id


@pytest.mark.parametrize("notebook", ["04_dp_prompt", "06_slm_utility"])
def test_numbers_of_other_models_are_not_compared_here_but_orderings_are(notebook: str) -> None:
    stated = claims.for_notebook(notebook)
    assert not [c.id for c in stated if c.value is not None and c.is_compared("default")]
    assert [c.id for c in stated if c.value is not None and c.is_compared("paper")]
    orderings = [c for c in stated if c.trend and c.is_compared("paper")]
    assert sum(c.is_compared("default") for c in orderings) > len(orderings) / 2
    assert not [c.id for c in stated if not c.reason]  # on what it is held, or why it is not


def test_orderings_are_about_what_the_papers_used() -> None:
    compared = [each for each in claims.load() if each.trend and each.compared != "never"]
    names = " ".join(name for each in compared for name in each.measurements)
    assert not re.search(r"\.static\.text|\.adaptive\.text", names)  # TF-IDF, in no paper
    assert not re.search(r"(asr|paired|names|constant|gain)\.\w+\.imdb", names)  # Tong has no IMDb
    assert not re.search(r"eps\d\.contextual_bound ", names + " ")  # trained on other sentences
    assert all(each.statement for each in compared)
    ours = [each.id for each in compared if re.search(r"is ours", each.reason)]
    assert not ours  # thresholds that no paper prints


def test_every_statement_is_words_for_its_cells() -> None:
    """Of one paper and kind; what is read on average is no equality."""
    cells: dict[str, list[Claim]] = {}
    for each in claims.load():
        if each.statement:
            cells.setdefault(each.statement, []).append(each)
    said = claims.statements()
    assert {each.id for each in said} == cells.keys()
    assert len({each.says for each in said}) == len(said)
    for statement in said:
        own = cells[statement.id]
        assert len({(each.paper, each.kind) for each in own}) == 1, statement.id
        forms = {each.trend.form for each in own if each.trend}
        assert statement.reading != claims.Reading.AVERAGE or "equal" not in forms, statement.id
    most = {each.id for each in said if each.reading == claims.Reading.MOST}
    assert most == {  # section 5.2: "in most cases"
        "tong.above_baselines",
    }


def test_what_is_always_compared_is_recorded() -> None:
    absent: dict[str, set[str]] = {}
    for each in claims.load():
        if each.compared == "always":
            missing = {*each.measurements} - {*results.committed(each.notebook).by_name()}
            if missing:
                absent[each.id] = missing
    assert not absent


def test_stated_ties_are_ties_in_the_committed_results() -> None:
    notebooks = sorted({claim.notebook for claim in claims.load() if claim.tie})
    assert notebooks == ["03_lossy_and_stencil", "05_reconstruction_attacks"]
    for notebook in notebooks:
        measured = results.load_or_default(notebook, "full").by_name()
        for claim in claims.for_notebook(notebook):
            if claim.tie:
                assert compare(claim, measured).verdict == Verdict.TIE, claim.id


def test_ids_are_distinct_and_names_can_be_recorded() -> None:
    every = claims.load()
    assert len({stated.id for stated in every}) == len(every)
    for stated in every:
        assert stated.id.startswith(f"{stated.paper}.")
        for name in stated.measurements:
            measure(name, 0.5)


# Parts of names that its data, temperatures and epsilons alone give.
PAPER_ALONE = {"sst2", "qnli", "eps35", "eps75"}


def test_the_paper_profile_records_what_it_alone_is_compared_with() -> None:
    """Names have the parts of those that the full run has recorded, each in its place."""
    wanted = [each for each in claims.load() if each.compared == "paper" or each.under_paper]
    absent = set()
    for notebook in {each.notebook for each in wanted}:
        measured = results.load_or_default(notebook, "full").by_name()
        recorded = [name.split(".") for name in measured]
        known = {(len(parts), *place) for parts in recorded for place in enumerate(parts)}
        names = [each.under("paper").measurements for each in wanted if each.notebook == notebook]
        for parts in (name.split(".") for each in names for name in each):
            absent |= {part for at, part in enumerate(parts) if (len(parts), at, part) not in known}
    assert absent == PAPER_ALONE
