"""A run beside the committed full run: do their numbers agree within the joint error?

A default run ends with it. The full run has the same names with larger samples. Two intervals of
95% give the error of a difference as if the samples had nothing in common; where the smaller is a
part of the larger one this is too wide, and more than 95% of the differences lie inside. Those that
lie outside whatever their number (Bonferroni, 5% over all) are named: a run with another law is
told by them. A classifier that the full run gives more documents to learn from is another one, and
its accuracy another number: see `LEARNED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from textpriv.report import results, verdicts
from textpriv.report.results import Measurement
from textpriv.stats import CONFIDENCE

# Quantities that change with what was learned from: accuracies, F1 of the author and the sentiment,
# what a prediction of worth decides; and traces of DP-Prompt's limits and DeepCandidate's
# candidates, which come from public documents. Mechanisms are compared at levels of utility between
# the ends that a run itself has measured, or where classifiers reach an accuracy.
LEARNED = (
    "accuracy", "accuracy_tuned", "decision", "equal", "equal_risk", "f1", "f1_strongest",
    "f1_untuned", "f1_at_risk", "f1_at_risk_rehearsed", "f1_by_every_run", "f1_over_left-out",
    "f1_over_left-out_rehearsed", "ledger", "left", "read", "repeated", "trace",
)  # fmt: skip
LONGER = ".dp-prompt"  # what it writes is as long as the profile lets it be
EXPECTED = (0.90, 0.98)  # share of differences inside the joint error
_WIDTH = norm.ppf((1 + CONFIDENCE) / 2)  # of an interval to one side, in standard errors


@dataclass(frozen=True)
class Comparison:
    """One notebook of one run beside the full run.

    `table` has the columns name, value, full, z (the difference in joint standard errors).
    """

    notebook: str
    table: pd.DataFrame

    @property
    def inside(self) -> float:
        """Share of the differences inside the joint error."""
        return float((self.table["z"].abs() <= _WIDTH).mean()) if len(self.table) else 1.0

    @property
    def outside(self) -> pd.DataFrame:
        """Differences that chance explains in none of so many, the largest first."""
        bound = norm.isf((1 - CONFIDENCE) / (2 * max(1, len(self.table))))
        apart = self.table[self.table["z"].abs() > bound]
        return apart.sort_values("z", key=np.abs, ascending=False)

    def __str__(self) -> str:
        said = f"{self.notebook}: {self.inside:.0%} of {len(self.table)} numbers agree"
        named = [f"{r.name} {r.value:.3g} (full {r.full:.3g})" for r in self.outside.itertuples()]
        return f"{said}; apart: {', '.join(named[:5]) or 'none'}{' ...' * (len(named) > 5)}"


def compared(
    notebook: str, default: Mapping[str, Measurement], full: Mapping[str, Measurement]
) -> Comparison:
    """Every number with an error in both runs, of what does not depend on the profile's sizes.

    `LEARNED`, DP-Prompt's outputs and what the run cost are left out.
    """
    rows = []
    for name, ours in default.items():
        other = full.get(name)
        if other is None or LONGER in name or name.partition(".")[0] in {"run", *LEARNED}:
            continue
        error = verdicts.error_of_difference(ours, other)
        if np.isfinite(error) and error > 0:
            rows.append((name, ours.value, other.value, (ours.value - other.value) / error))
    return Comparison(notebook, pd.DataFrame(rows, columns=["name", "value", "full", "z"]))


def with_full(notebooks: Iterable[str]) -> list[Comparison]:
    """Of the notebooks that the default and the full run have finished."""
    both = (
        (name, results.load_if_present(name, "default"), results.load_if_present(name, "full"))
        for name in notebooks
    )
    return [
        compared(name, ours.by_name(), full.by_name()) for name, ours, full in both if ours and full
    ]


def summary(comparisons: Sequence[Comparison]) -> str:
    """A line for each of some notebooks, and one over all."""
    every = Comparison(
        "all", pd.concat([comparison.table for comparison in comparisons], ignore_index=True)
    )
    low, high = EXPECTED
    lies = "as expected of separate samples"
    if not low <= every.inside <= high:
        lies = "fewer than expected" if every.inside < low else "more than separate samples would"
    agreement = (
        f"{every.inside:.0%} of {len(every.table)} numbers agree, {lies} ({low:.0%} to {high:.0%})"
    )
    return "\n".join([*map(str, comparisons), f"beside the full run: {agreement}"])
