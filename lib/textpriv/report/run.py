"""One notebook's run: what its cells ask for and what they leave behind."""

from __future__ import annotations

import os
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pydantic import BaseModel

from textpriv import drawing, paths, profiles, seeds, study
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json, write_atomic
from textpriv.report import claims, figures, provenance, results, verdicts
from textpriv.report.difference import Difference
from textpriv.stats import Influence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Model = TypeVar("Model", bound=BaseModel)


class Run:
    """Made by `report.begin`; one per notebook.

    Attributes
    ----------
    settings : device of the profile, and the time limit of a cell
    root : folder whose `figures/` and `results/` the run writes
    """

    def __init__(
        self, notebook: str, profile: str, seed: int | None, overrides: dict[str, Any]
    ) -> None:
        if not results.NOTEBOOK.fullmatch(notebook):
            raise InvalidInput(f"notebook: expected a name like '02_ann', got {notebook!r}")
        canonical_json(overrides)  # they go into the results, so they must be plain values
        self.notebook = notebook
        self.profile = profile
        self.seed = seed
        self.overrides = overrides
        self.settings = profiles.settings(profile, overrides).here()
        self._name = results.run_name(profile, seed, overrides)
        self._runner = runner = os.environ.get(results.RUNNER)
        if self._name in paths.COMMITTED and not runner:
            self._name = "by-hand"  # only ./run_all.sh writes what git holds
        points = Path(runner) / results.POINTS / notebook if runner else None
        study.keep_in(points, provenance.machine(self.settings.device) if runner else "")
        self._commit, self._dirty = provenance.commit(), provenance.dirty()
        self._assets: dict[str, dict[str, Any]] = {}
        self._measurements: dict[str, results.Measurement] = {}
        self._influences: dict[str, Influence] = {}
        self._figures: list[str] = []
        self._start = time.perf_counter()
        provenance.memory()  # watches from here on
        figures.use_style()
        if self._name != profile:
            why = "not run by ./run_all.sh, or with another seed or overrides"
            print(f"Writing under {self._shown}: {why}")

    def sizes(self, model: type[Model]) -> Model:
        """The notebook's sizes, from the profile and the overrides."""
        return profiles.load(self.profile, self.notebook, model, self.overrides)

    def stream(self, *keys: seeds.Key) -> np.random.Generator:
        """The random stream of this notebook that `keys` name."""
        return seeds.stream(self.seed, self.notebook, *keys)

    @property
    def others(self) -> str:
        """Under what the other notebooks have left their results; overrides are this one's own."""
        return results.run_name(self.profile, self.seed, {})

    def uses(self, *asset_ids: str) -> None:
        """Note down which data and models the results rest on."""
        from textpriv import assets

        for asset_id in asset_ids:
            self._assets[asset_id] = dict(assets.provenance(asset_id))

    def record(
        self,
        name: str,
        value: float,
        low: float | None = None,
        high: float | None = None,
        n: int | None = None,
        unit: str = "share",
        influence: Influence | None = None,
        columns: dict[str, str | int | float] | None = None,
    ) -> None:
        """Keep one measurement under a dotted name that no other has (see `results.measure`).

        With its influence, claims compare it in pairs with others from the same sample. By its
        columns other notebooks select it.
        """
        new = results.measure(name, value, low, high, n, unit)
        new = new.model_copy(update={"columns": columns or {}})
        if (kept := self._measurements.setdefault(name, new)) != new:
            raise InvalidInput(
                f"{name}: got {value} with columns {columns}, recorded is {kept.value} with "
                f"{kept.columns}; take another name, or restart from `begin` after changing a cell"
            )
        if influence is not None:
            self._influences[name] = influence

    def record_rows(
        self, table: pd.DataFrame, name: str, *, unit: str = "share", also: Sequence[str] = ()
    ) -> None:
        """Keep a measurement of every row of a table, named by the row's own columns.

            run.record_rows(rates, "asr.{defense}.{corpus}.eps{epsilon:g}.{attack!n}")

        Parameters
        ----------
        table : with a column `value` and, where they are known, `low`, `high`, `n` and `influence`
            (see `stats.Estimate.columns`); what is missing in a row (NaN, None) is left out
        name : of the measurements, a format string over the columns; `!n` writes a text as names
            have it, "context-free bound, public" as "context_free_bound.public"
        unit : of all of them
        also : columns that are kept beside those in the name, "p" for instance
        """
        asked = [field for _, field, _, _ in string.Formatter().parse(name) if field]
        asked = [*asked, *also]
        if missing := sorted({*asked, "value"} - {*table.columns}):
            raise InvalidInput(f"{name}: the table lacks {missing}, it has {[*table.columns]}")
        optional = [each for each in ("low", "high", "n", "influence") if each in table]
        for row in table.to_dict("records"):
            known = {each: row[each] for each in optional if not pd.isna(row[each])}
            columns = {each: _plain(row[each]) for each in asked if not pd.isna(row[each])}
            self.record(
                _NAMES.vformat(name, (), row), row["value"], **known, unit=unit, columns=columns
            )

    def measurement(self, name: str) -> results.Measurement:
        """A measurement recorded in this run, to be quoted in the text."""
        if name not in self._measurements:
            raise InvalidInput(f"nothing recorded as {name!r}; recorded: {[*self._measurements]}")
        return self._measurements[name]

    def difference(self, first: str, second: str) -> Difference:
        """First minus second of two recorded measurements: in pairs where they share a sample."""
        both = self.measurement(first), self.measurement(second)
        return Difference.between(*both, self._one_sample(first, second))

    def save_figure(self, stem: str, fig: Figure, data: pd.DataFrame, alt: str) -> None:
        """Write a figure with its numbers and provenance (see `figures.save`), and show it."""
        if not stem.startswith(f"fig{self.notebook[:2]}_"):
            raise InvalidInput(
                f"figure: expected a name like 'fig{self.notebook[:2]}_...', got {stem!r}"
            )
        origin = {**self._origin(), "assets": self._assets}
        figures.save(self.directory("figures"), stem, fig, data, alt, origin)
        if stem not in self._figures:
            self._figures.append(stem)
        if self._runner and (call := drawing.call_of(fig)):
            write_atomic(Path(self._runner) / results.DRAWINGS / stem, call)
        plt.close(fig)  # or the notebook would show it a second time
        _show(fig, alt)

    def claims(self) -> pd.DataFrame:
        """The papers' statements about this notebook against what this run has recorded."""
        return verdicts.by_statement(self.notebook, self._paired(), self.profile)

    def finish(self) -> None:
        """Write the results, and say where; the notebook's last call."""
        seconds = time.perf_counter() - self._start + study.seconds_before()
        peak = provenance.memory().peak_mb
        import torch  # late: notebook 07 needs none of it until here

        from textpriv.models import network_dtype

        cost = [
            results.measure("run.seconds", seconds, unit="s"),
            results.measure("run.peak_mb", peak, unit="MB"),
        ]
        run_results = results.Results(
            **self._origin(),
            device=self.settings.device,
            dtype=network_dtype(self.settings.device),
            processor=provenance.processor(),
            threads=torch.get_num_threads(),
            elsewhere=study.other_machines(),
            seconds=seconds,
            peak_mb=peak,
            assets=self._assets,
            figures=self._figures,
            measurements=[*self._paired().values(), *cost],
        )
        path = self.directory("results") / f"{self.notebook}.json"
        results.write(run_results, path)
        print(f"{len(run_results.measurements)} measurements, {len(self._figures)} figures, in")
        print(f"{seconds:.0f} s and {peak:.0f} MB, written under {self._shown}")

    def _paired(self) -> dict[str, results.Measurement]:
        """The measurements with the errors of the differences that claims are about."""
        paired = dict(self._measurements)
        for left, right in claims.pairs(self.notebook, self.profile):
            if both := self._one_sample(left, right):
                one, other = both
                error = one.error_if_equal(other, paired[left].value - paired[right].value)
                if error is not None:
                    errors = {**paired[left].paired_errors, right: error}
                    paired[left] = paired[left].model_copy(update={"paired_errors": errors})
        return paired

    def _one_sample(self, first: str, second: str) -> tuple[Influence, Influence] | None:
        """The influences on two measurements, where they share a sample."""
        one, other = self._influences.get(first), self._influences.get(second)
        return (one, other) if one and other and one.sample == other.sample else None

    def _origin(self) -> dict[str, Any]:
        """What results and figures say alike about where they come from."""
        return {
            "notebook": self.notebook,
            "profile": self.profile,
            "seed": self.seed,
            "overrides": self.overrides,
            "commit": self._commit,
            "dirty": self._dirty,
            "versions": provenance.versions(),
        }

    def directory(self, kind: str) -> Path:
        """Where its "figures" or "results" go."""
        return paths.output_directory(self._name, kind)

    @property
    def _shown(self) -> str:
        """The folders as a reader of the repository would write them."""
        both = (self.directory(kind) for kind in ("figures", "results"))
        return " and ".join(f"{each.relative_to(paths.REPOSITORY)}/" for each in both)


class _Names(string.Formatter):
    """Format strings with the conversion `!n`."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "n":
            return str(value).lower().replace(", ", ".").replace("-", "_").replace(" ", "_")
        return super().convert_field(value, conversion)


_NAMES = _Names()


def _plain(value: Any) -> str | int | float:
    """A cell as JSON has it."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, str | int | float) else str(plain)


def _show(fig: Figure, alt: str) -> None:
    """In a notebook, display a figure, small enough for outputs that git holds."""
    from IPython import get_ipython  # late: comes with the notebooks
    from IPython.display import Image, display

    if get_ipython() is not None:
        display(Image(data=figures.drawn(fig, "png", dpi=figures.SCREEN), alt=alt))
