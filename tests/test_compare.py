"""A run beside the full run: agreement where the law is the same, names where it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools import compare

from textpriv import paths
from textpriv.report.results import Measurement, measure


def shares(n: int, probability: np.ndarray, seed: int) -> dict[str, Measurement]:
    """Shares of n draws each, with the interval of a large sample."""
    observed = np.random.default_rng(seed).binomial(n, probability) / n
    error = 1.96 * np.sqrt(observed * (1 - observed) / n)
    return {
        f"share.s{i}": measure(f"share.s{i}", value, value - e, value + e, n)
        for i, (value, e) in enumerate(zip(observed, error, strict=True))
    }


def test_by_hand() -> None:
    ours = {
        "a.near": measure("a.near", 0.5, 0.402, 0.598, 100),  # a standard error of 0.05
        "a.far": measure("a.far", 0.9, 0.802, 0.998, 100),
        "a.alone": measure("a.alone", 0.5, 0.4, 0.6, 100),
        "a.sure": measure("a.sure", 3.0, unit="epsilon"),
        "run.seconds": measure("run.seconds", 5.0, 4.0, 6.0, unit="s"),
        "accuracy.of": measure("accuracy.of", 0.6, 0.5, 0.7, 100),  # learned from fewer documents
        "cosine.dp-prompt.t1": measure("cosine.dp-prompt.t1", 0.4, 0.3, 0.5, 100),  # shorter
    }
    full = {
        "a.near": measure("a.near", 0.56, 0.4816, 0.6384, 200),  # 0.04
        "a.far": measure("a.far", 0.5, 0.4216, 0.5784, 200),
        "a.sure": measure("a.sure", 4.0, unit="epsilon"),
        "run.seconds": measure("run.seconds", 50.0, 40.0, 60.0, unit="s"),
        "accuracy.of": measure("accuracy.of", 0.8, 0.7, 0.9, 200),
        "cosine.dp-prompt.t1": measure("cosine.dp-prompt.t1", 0.6, 0.5, 0.7, 200),
    }
    comparison = compare.compared("01_try", ours, full)
    assert list(comparison.table["name"]) == ["a.near", "a.far"]
    error = np.hypot(0.05, 0.04)
    np.testing.assert_allclose(comparison.table["z"], [-0.06 / error, 0.4 / error], rtol=1e-3)
    assert comparison.inside == 0.5 and list(comparison.outside["name"]) == ["a.far"]
    assert str(comparison) == "01_try: 50% of 2 numbers agree; apart: a.far 0.9 (full 0.5)"


def test_the_same_law_agrees_and_another_is_named() -> None:
    """Of 400 shares 95% lie inside, 90 to 98% but for 1 run in 10,000; a planted one is named."""
    probability = np.random.default_rng(0).uniform(0.2, 0.8, 400)
    full, same = shares(20_000, probability, 1), shares(2000, probability, 2)
    agreed = compare.compared("01_try", same, full)
    assert compare.EXPECTED[0] <= agreed.inside <= compare.EXPECTED[1]
    assert agreed.outside.empty
    planted = probability.copy()
    planted[:40] += 0.1  # some 9 standard errors
    other = compare.compared("01_try", shares(2000, planted, 2), full)
    assert set(other.outside["name"]) == {f"share.s{i}" for i in range(40)}
    assert "as expected of separate samples" in compare.summary([agreed])
    assert "fewer than expected" in compare.summary([other])
    twice = compare.compared("01_try", same, same)
    assert "more than separate samples would" in compare.summary([twice])


def test_what_has_not_run_in_both_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    assert compare.with_full(["01_try"]) == []
