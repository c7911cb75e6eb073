"""What an audit found, as a row of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from textpriv.errors import InvalidInput
from textpriv.files import write_atomic

MOST_EXCESS = 0.1  # of the claim, beyond which an audit would overlook too much
LEVEL = 0.001  # probability that right draws are taken for those of another law, per audit
FROM_INSIDE = "density of the noise, every pair; from inside"  # method of what a proof says
LEAST_NOISE = 0.8  # of the noise, which every audit of noise has to catch


@dataclass(frozen=True)
class Audit:
    """An attempt to break one claim.

    Attributes
    ----------
    mechanism : its name
    setting : epsilon, vocabulary and whatever else was chosen, in words
    claim : what was put to the test, in words
    method : how; "exact" methods see all outputs, sampled ones count draws
    pairs : ordered or unordered pairs of inputs that were compared, as the method says; words,
        where the length of the noise alone was tested
    draws : per input and half; 0 for an exact audit
    worst_ratio : largest loss over its claim: exact, or what is certain at the confidence of
        the method; above 1 the claim is broken; NaN where nothing is claimed. Where the length
        of the noise alone was tested, the released epsilon over the claimed one
    worst_pair : the two inputs that it was found for
    violations : pairs whose loss exceeds the claim
    excess : largest detectable excess of the claim, at the events chosen, over all pairs; 0 for an
        exact audit. It says nothing of the noise: with less of it the loss between two words need
        not grow as much, nor at all
    noise : the noise behind the draws as a share of the noise that is claimed, at the confidence
        of the method: it lies between both; None where that was not tested
    caught_from : the largest share of the noise with which a mechanism would have been found out
        with probability 0.99; None where that was not tested
    fit : probability of draws as strange as those released, if they follow the law that was
        judged; over all tests of it. None where the draws themselves were judged
    fit_draws : how many there were
    fit_gap : an error of their distribution function that would be caught with probability 0.99
    published : whether the claim is the stronger reading of `Mechanism.published`, which is
        expected to be broken; what the mechanism claims has an audit of its own
    """

    mechanism: str
    setting: str
    claim: str
    method: str
    pairs: int
    draws: int = 0
    worst_ratio: float = np.nan
    worst_pair: tuple[str, str] = ("", "")
    violations: int = 0
    excess: float = 0.0
    noise: tuple[float, float] | None = None
    caught_from: float | None = None
    fit: float | None = None
    fit_draws: int = 0
    fit_gap: float | None = None
    published: bool = False

    @property
    def verdict(self) -> str:
        """ "broken", "not broken", "undecided" or "no claim".

        Broken is a loss beyond the claim, noise of another length than is claimed, or a release
        of another law than the one judged. Undecided is an audit that could not have seen a
        tenth more loss, or 0.8 of the noise.
        """
        if self.fit is not None and self.fit < LEVEL:
            return "broken"
        if self.violations or (self.noise and not self.noise[0] <= 1 <= self.noise[1]):
            return "broken"
        if np.isnan(self.worst_ratio):
            return "no claim"
        told = self.caught_from is None or self.caught_from >= LEAST_NOISE
        return "not broken" if self.pairs and self.excess <= MOST_EXCESS and told else "undecided"

    @property
    def label(self) -> str:
        """The mechanism, and whether the claim is its own or a stronger one."""
        return self.mechanism + ", in the stronger reading" * self.published

    @property
    def by_proof(self) -> bool:
        """Whether the density of the noise says the loss, and draws were compared with that."""
        return self.method == FROM_INSIDE

    @property
    def as_expected(self) -> bool:
        """Whether the claim was not broken, or is a stronger reading and was."""
        return self.verdict in (("broken",) if self.published else ("not broken", "no claim"))


def audited(
    mechanism: Any, method: str, pairs: int, setting: str | None = None, **measured: Any
) -> Audit:
    """An audit of a mechanism's claim; the setting is by default epsilon and the vocabulary."""
    setting = setting or f"eps {mechanism.epsilon:g}, {mechanism.size:,} words"
    return Audit(mechanism.name, setting, mechanism.claim.definition, method, pairs, **measured)


def audit_table(results: Sequence[Audit]) -> pd.DataFrame:
    """One row per audit: claim, audit, pairs, draws, worst ratio, power, verdict.

    "detectable excess" is of the loss, "caught from" of the noise; see `Audit`.
    """
    rows = [
        {
            "mechanism": each.label,
            "setting": each.setting,
            "claim": each.claim,
            "audit": each.method,
            "pairs": each.pairs,
            "draws": each.draws,
            "worst ratio": each.worst_ratio,
            "worst pair": " / ".join(each.worst_pair),
            "violations": each.violations,
            "detectable excess": each.excess,
            "noise": "{:.3f} to {:.3f}".format(*each.noise) if each.noise else "",
            "caught from": np.nan if each.caught_from is None else each.caught_from,
            "fit of draws": np.nan if each.fit is None else each.fit,
            "verdict": each.verdict,
        }
        for each in results
    ]
    return pd.DataFrame(rows)


def audit_numbers(results: Iterable[Audit]) -> dict[str, tuple[float, str]]:
    """Values with units by name, `audit.<mechanism>.<worst_ratio|pairs|draws|violations>`.

    Over all audits of each mechanism's own claim; one without a claim has no worst ratio. Of a name
    like "santext, allotted" the words are joined by hyphens.
    """
    numbers: dict[str, tuple[float, str]] = {}
    audits = [audit for audit in results if not audit.published]
    for mechanism in dict.fromkeys(audit.mechanism for audit in audits):
        own = [audit for audit in audits if audit.mechanism == mechanism]
        name = mechanism.replace(", ", "-")
        ratios = [audit.worst_ratio for audit in own if not np.isnan(audit.worst_ratio)]
        if ratios:
            numbers[f"audit.{name}.worst_ratio"] = max(ratios), "ratio"
        numbers[f"audit.{name}.pairs"] = float(sum(audit.pairs for audit in own)), "pairs"
        numbers[f"audit.{name}.draws"] = float(sum(audit.draws for audit in own)), "draws per input"
        numbers[f"audit.{name}.violations"] = float(sum(audit.violations for audit in own)), "pairs"
    return numbers


def plain(instance: Any) -> dict[str, Any]:
    """A dataclass as JSON values, for `Audit`s and statements alike.

    JSON knows neither infinity nor NaN, which become "inf" and "nan".
    """
    return {each.name: _value(getattr(instance, each.name)) for each in fields(instance)}


def _value(value: Any) -> Any:
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else repr(float(value))
    return [_value(each) for each in value] if isinstance(value, tuple) else value


def audit_of(row: Mapping[str, Any]) -> Audit:
    """The audit that became this row; InvalidInput of another one."""
    try:
        numbers = {name: float(row[name]) for name in ("worst_ratio", "excess")}
        first, second = row["worst_pair"]
        noise = row.get("noise")
        interval = None if noise is None else (float(noise[0]), float(noise[1]))
        return Audit(**{**row, **numbers, "worst_pair": (first, second), "noise": interval})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"audit: expected a row that `plain` made, got {row!r}") from error


def write_audits(
    results: Iterable[Audit], path: Path, about: Mapping[str, Any] | None = None
) -> None:
    """Keep audits as JSON, and other values `about` them beside; or nothing."""
    record = {**(about or {}), "audits": [plain(each) for each in results]}
    write_atomic(path, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())


def read_audits(path: Path) -> list[Audit]:
    """Audits that `write_audits` kept; InvalidInput where the file is missing or another one."""
    try:
        return [audit_of(row) for row in json.loads(path.read_text(encoding="utf-8"))["audits"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{path}: expected audits that write_audits kept: {error}") from error
