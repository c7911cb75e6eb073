"""A sentence that compares two measurements is chosen by their difference, never typed.

>>> gain = run.difference("asr.custext.imdb.eps2.noisy_channel", "asr.custext.imdb.eps2.bayes")
>>> gain.says(above=f"finds more: {gain}", below="finds less", undecided="undecided at this size")
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from scipy.stats import norm
from scipy.stats import t as student_t

from textpriv.report.results import Measurement
from textpriv.report.verdicts import error_of_difference
from textpriv.stats import CONFIDENCE, Influence

ALONE = 1 - CONFIDENCE  # the level of one comparison, whatever else is compared


class Finding(NamedTuple):
    """What is seen, which a figure may have as its title, and the numbers behind it; sentences."""

    title: str
    text: str
    details: str = ""  # for who wants to know how far it goes

    def __str__(self) -> str:
        return f"**{self.title}.** {self.text}"

    def as_html(self) -> str:
        """A paragraph, its details behind a line to click on."""
        title, text, details = map(escape, self)
        folded = f"<details><summary>details</summary>{details}</details>" if details else ""
        return f"<p><b>{title}.</b> {text}</p>{folded}"


@dataclass(frozen=True)
class Difference:
    """First minus second, with its 95% interval, in the unit of the two."""

    value: float
    low: float  # -inf where the error is unknown
    high: float
    p: float  # two-sided, of no difference, for this comparison alone

    @classmethod
    def between(
        cls,
        first: Measurement,
        second: Measurement,
        influences: tuple[Influence, Influence] | None = None,
    ) -> Difference:
        """Unit by unit with the influences of both, from one sample; without, as independent.

        Where nothing differs, p is below 0.05 in at most 5% (of few units, in fewer), and in up to
        8% where a few units lie far off the others.
        """
        value = first.value - second.value
        if influences is None:
            error = under_none = error_of_difference(first, second)
            quantile = norm.ppf((1 + CONFIDENCE) / 2)
        else:
            one, other = influences
            units = min(len(one.unit), len(other.unit))
            if units < 2:
                return cls(value, -math.inf, math.inf, 1.0)
            under_none = one.error_if_equal(other, value) or 0.0
            error = (one - other).error or under_none  # units that all agree are not certain
            quantile = student_t.ppf((1 + CONFIDENCE) / 2, units - 1)
        reach = float(quantile) * error
        if not value or math.isinf(under_none):
            p = 1.0
        else:
            # Few units are allowed for in the error already: Student's t would do it twice.
            p = 2 * float(norm.sf(abs(value) / under_none)) if under_none else 0.0
        return cls(value, value - reach, value + reach, p)

    @property
    def verdict(self) -> Literal["above", "below", "undecided"]:
        """Whether the first is above the second, at the 5% level of this comparison alone."""
        if self.p >= ALONE:
            return "undecided"
        return "above" if self.value > 0 else "below"

    def says(self, *, above: str, below: str, undecided: str) -> str:
        """The sentence that is true of it."""
        return {"above": above, "below": below, "undecided": undecided}[self.verdict]

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.value:+.3f} (error unknown)"
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"
