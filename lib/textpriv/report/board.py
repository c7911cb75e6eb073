"""What all notebooks measured under a profile, as rows that are selected by column.

board = gather("default")
board.rows("asr", defense="custext", corpus="imdb")      # a row per epsilon and attack
board.told("epsilon.dp-prompt-clipped.t0.75.tight")      # one of them, for a sentence
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from textpriv.errors import RunError
from textpriv.report import results
from textpriv.report.difference import Difference
from textpriv.report.results import Measurement, Results

NOTEBOOKS = (
    "01_mechanisms",
    "02_ann_vs_exact",
    "03_lossy_and_stencil",
    "04_dp_prompt",
    "05_reconstruction_attacks",
    "06_slm_utility",
    "08_whole_texts",
    "09_equal_utility",
)
FIXED = ["name", "quantity", "value", "low", "high", "n"]
OWN = {*FIXED} - {"quantity"}  # fields of a measurement
SENTENCES = 8  # tests whose outcome a sentence of notebook 07 or README words


@dataclass(frozen=True, eq=False)
class Board:
    """The results of the other notebooks under a profile."""

    profile: str
    results: Mapping[str, Results]  # by notebook
    missing: Mapping[str, str]  # what to do about each notebook that has left none

    @cached_property
    def measured(self) -> Mapping[str, Measurement]:
        """Every measurement by its name, but for what a run itself cost."""
        return {
            name: measurement
            for result in self.results.values()
            for name, measurement in result.by_name().items()
            if not name.startswith("run.")
        }

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per measurement: FIXED, and the columns that it was recorded with."""
        rows = [
            measurement.columns
            | {"quantity": name.partition(".")[0]}
            | measurement.model_dump(include=OWN)
            for name, measurement in self.measured.items()
        ]
        table = pd.DataFrame(rows, columns=None if rows else FIXED)
        numbers = ["value", "low", "high"]
        table[numbers] = table[numbers].astype(float)
        if "attack" in table:  # some notebooks write them with underscores
            table["attack"] = table["attack"].str.replace("_", "-")
        return table

    def rows(self, quantity: str, *needed: str, **where: str | float) -> pd.DataFrame:
        """The measurements of a quantity that have some columns, and these values in others.

        The quantity is the first part of their names. The columns that are `needed` are there even
        where nothing was measured.
        """
        table = self.table.reindex(columns=[*dict.fromkeys([*FIXED, *needed, *where])])
        chosen = (table["quantity"] == quantity) & table[[*needed]].notna().all(axis=1)
        for column, value in where.items():
            chosen &= table[column] == value
        return table[chosen].reset_index(drop=True)

    @property
    def by_notebook(self) -> dict[str, dict[str, Measurement]]:
        """The measurements of every notebook by their names."""
        return {notebook: result.by_name() for notebook, result in self.results.items()}

    def told(self, name: str, digits: int = 2) -> str:
        """A measurement with its interval, for a sentence."""
        measurement = self.measured.get(name)
        return measurement.told(f".{digits}f") if measurement else "(not measured here)"

    def says(
        self,
        first: str,
        second: str,
        *,
        above: str = "significantly more",
        below: str = "significantly less",
        undecided: str = "undecided at this size",
    ) -> str:
        """The sentence that is true of two measurements, by a test of their difference.

        Corrected for the number of such tests (Bonferroni).
        """
        left, right = (self.measured.get(name) for name in (first, second))
        if left is None or right is None:
            return "one of the two was not measured here"
        apart = Difference.between(left, right)
        apart = replace(apart, p=min(1.0, SENTENCES * apart.p))
        return apart.says(above=above, below=below, undecided=undecided)


def gather(profile: str, notebooks: Sequence[str] = NOTEBOOKS) -> Board:
    """Read the results of the other notebooks, as far as there are any; see `Run.others`.

    Beside full results the default ones stand in for notebooks that have no full run.
    """
    loaded, missing = {}, {}
    for notebook in notebooks:
        try:
            loaded[notebook] = results.load_or_default(notebook, profile)
        except RunError as error:
            missing[notebook] = str(error)
    return Board(profile, loaded, missing)
