"""What an audit found, as a row of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from textpriv.errors import InvalidInput
from textpriv.files import write_atomic

MOST_EXCESS = 0.1  # of the claim, beyond which an audit would overlook too much


@dataclass(frozen=True)
class Audit:
    """An attempt to break one claim.

    Attributes
    ----------
    mechanism : its name
    setting : epsilon, vocabulary and whatever else was chosen, in words
    claim : what was put to the test, in words
    method : how; "exact" methods see all outputs, sampled ones count draws
    pairs : ordered or unordered pairs of inputs that were compared, as the method says
    draws : per input and half; 0 for an exact audit
    worst_ratio : largest loss over its claim: exact, or what is certain at the confidence of
        the method; above 1 the claim is broken; NaN where nothing is claimed
    worst_pair : the two inputs that it was found for
    violations : pairs whose loss exceeds the claim
    excess : largest detectable excess of the claim over all pairs; 0 for an exact audit
    details : one row per pair: word, other, claim, ratio, excess (sampled audits)
    """

    mechanism: str
    setting: str
    claim: str
    method: str
    pairs: int
    draws: int
    worst_ratio: float
    worst_pair: tuple[str, str]
    violations: int
    excess: float = 0.0
    details: pd.DataFrame | None = field(default=None, compare=False, repr=False)

    @property
    def verdict(self) -> str:
        """ "broken", "holds", "undecided" (could not have seen a tenth), or "no claim"."""
        if self.violations:
            return "broken"
        if np.isnan(self.worst_ratio):
            return "no claim"
        return "holds" if self.pairs and self.excess <= MOST_EXCESS else "undecided"


def audit_table(results: Sequence[Audit]) -> pd.DataFrame:
    """One row per audit: claim, audit, pairs, draws, worst ratio, detectable excess, verdict."""
    return pd.DataFrame(
        [
            {
                "mechanism": each.mechanism,
                "setting": each.setting,
                "claim": each.claim,
                "audit": each.method,
                "pairs": each.pairs,
                "draws": each.draws,
                "worst ratio": each.worst_ratio,
                "worst pair": " / ".join(each.worst_pair),
                "violations": each.violations,
                "detectable excess": each.excess,
                "verdict": each.verdict,
            }
            for each in results
        ]
    )


def audit_numbers(results: Iterable[Audit]) -> dict[str, tuple[float, str]]:
    """Names and values with units to be recorded, over all audits of each mechanism.

    `audit.<mechanism>.<worst_ratio|pairs|draws|violations>`; draws are those of all inputs'
    pairs together, and a mechanism without a claim has no worst ratio.
    """
    found: dict[str, tuple[float, str]] = {}
    audits = list(results)
    for name in dict.fromkeys(each.mechanism for each in audits):
        own = [each for each in audits if each.mechanism == name]
        ratios = [each.worst_ratio for each in own if not np.isnan(each.worst_ratio)]
        if ratios:
            found[f"audit.{name}.worst_ratio"] = max(ratios), "ratio"
        found[f"audit.{name}.pairs"] = float(sum(each.pairs for each in own)), "pairs"
        found[f"audit.{name}.draws"] = float(sum(each.draws for each in own)), "draws per input"
        found[f"audit.{name}.violations"] = float(sum(each.violations for each in own)), "pairs"
    return found


def plain(found: Any) -> dict[str, Any]:
    """A dataclass as JSON values, for `Audit`s and statements alike.

    JSON knows neither infinity nor NaN, which become "inf" and "nan"; a table is left out.
    """
    row = {each.name: getattr(found, each.name) for each in fields(found)}
    return {name: _value(value) for name, value in row.items() if name != "details"}


def _value(value: Any) -> Any:
    if is_dataclass(value):
        return plain(value)
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else repr(float(value))
    return list(value) if isinstance(value, tuple) else value


def audit_of(row: Mapping[str, Any]) -> Audit:
    """The audit that became this row.

    Raises
    ------
    InvalidInput : another row
    """
    try:
        numbers = {name: float(row[name]) for name in ("worst_ratio", "excess")}
        first, second = row["worst_pair"]
        return Audit(**{**row, **numbers, "worst_pair": (first, second)})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"audit: expected a row that `plain` made, got {row!r}") from error


def write_audits(
    results: Iterable[Audit], path: Path, about: Mapping[str, Any] | None = None
) -> None:
    """Keep audits as JSON, without their details; complete or not at all.

    Parameters
    ----------
    about : JSON values that stand beside the audits: seed, draws, what was caught
    """
    record = {**(about or {}), "audits": [plain(each) for each in results]}
    write_atomic(path, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())


def read_audits(path: Path) -> list[Audit]:
    """Audits that `write_audits` kept.

    Raises
    ------
    InvalidInput : no such file, or another one
    """
    try:
        return [audit_of(row) for row in json.loads(path.read_text(encoding="utf-8"))["audits"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{path}: expected audits that write_audits kept: {error}") from error
