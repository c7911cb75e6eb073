"""The length of released noise: closed forms, errors and power as stated.

A right mechanism is called broken with probability 0.001 at most (over seeds, which are fixed).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import embedding
from mutants import MADLIB, PLANE, STRETCHED, lacking
from scipy import stats
from scipy.special import gammainc

from textpriv.errors import InvalidInput
from textpriv.experiments import audits as long
from textpriv.mechanisms import Madlib, Mahalanobis, RankRepair, SanText
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.privacy import audit_noise_length, audit_words, draw_words, noise
from textpriv.privacy.noise import released_noise
from textpriv.privacy.sampled import PlainSearch

WORDS = np.arange(0, 150, 15)


def counted(mechanism: Any, words: Any, draws: int, seed: int) -> Any:
    drawn = draw_words(mechanism, words, draws=draws, seed=seed)
    return drawn.first + drawn.second


@pytest.mark.parametrize("share", noise.SHARES)
def test_two_words_on_a_line_are_kept_as_often_as_the_formula_says(share: float) -> None:
    """Words at 0 and 1: kept unless the noise is beyond 1/2, P = 1 - e^(-eps / (2 share)) / 2. Five
    standard errors of 40,000 draws; fails once in 10^6."""
    madlib = Madlib(embedding([[0.0], [1.0]]), epsilon=3.0)
    words = np.array([0, 1])
    ranks = noise.ranks_around(madlib, words)
    assert ranks.tolist() == [[0, 1], [1, 0]]
    counts = noise._simulated(
        madlib, words, ranks, 20_000, np.array([share]), np.random.default_rng(1)
    )
    kept = 1 - np.exp(-1.5 / share) / 2
    assert abs(counts[0, 0] / 40_000 - kept) < 5 * np.sqrt(kept * (1 - kept) / 40_000)
    assert counts.sum() == 40_000


@pytest.mark.parametrize(
    "make",
    [
        lambda search: Madlib(STRETCHED, epsilon=2.0, search=search),
        lambda search: Mahalanobis(STRETCHED, epsilon=2.0, search=search),
        lambda search: Mahalanobis(STRETCHED, epsilon=2.0, strength=0.2, search=search),
        lambda search: RankRepair(Madlib(STRETCHED, epsilon=2.0, search=search), c=0.1),
        lambda search: Vickrey(Madlib(STRETCHED, epsilon=2.0, search=search), t=0.75),
    ],
    ids=["madlib", "mahalanobis", "mahalanobis 0.2", "rank repair", "vickrey"],
)
def test_what_is_simulated_is_what_is_released(make: Any) -> None:
    """All ranks of the output, not the one event that is judged: chi-square of two samples."""
    mechanism = make(PlainSearch(STRETCHED.vectors))
    ranks = noise.ranks_around(mechanism, WORDS)
    released = np.zeros(150, dtype=np.int64)
    for row, rank in zip(counted(mechanism, WORDS, 600, seed=2), ranks, strict=True):
        released[rank] += row
    (expected,) = noise._simulated(
        mechanism, WORDS, ranks, 1200, np.array([1.0]), np.random.default_rng(3)
    )
    edges = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    cells = np.stack([np.add.reduceat(each, edges) for each in (released, expected)])
    cells = cells[:, cells.sum(0) > 20]
    assert cells.shape[1] >= 4
    assert stats.chi2_contingency(cells).pvalue > 1e-4


def test_an_interval_misses_no_more_often_than_it_says() -> None:
    """200 audits at confidence 0.9 of which 20 may miss on average; 0.001 against 40 or more. At
    0.999 none of them does."""
    madlib, missed, broken = MADLIB().with_epsilon(3.0), 0, 0
    for seed in range(200):
        counts = counted(madlib, WORDS, 60, seed)
        released = released_noise(madlib, WORDS, counts, confidence=0.9, seed=seed)
        missed += not released.low <= 1 <= released.high
        if seed % 4 == 0:
            sure = released_noise(madlib, WORDS, counts, seed=seed)
            broken += not sure.low <= 1 <= sure.high
            assert sure.low < released.low < released.high < sure.high
    assert missed <= stats.binom.isf(0.001, 200, 0.1) and broken <= 2


def test_less_noise_is_caught_from_the_share_that_is_stated() -> None:
    """Of 24 mechanisms with `caught_from` of their noise 0.99 are caught, 20 at the least (fails
    once in 10^5); half as far from 1 few are."""
    madlib = MADLIB().with_epsilon(3.0)
    stated = released_noise(madlib, WORDS, counted(madlib, WORDS, 300, 1)).caught_from
    assert 0.7 < stated < 0.95

    def caught(share: float) -> int:
        wrong = lacking(madlib, share)
        return sum(
            released_noise(wrong, WORDS, counted(wrong, WORDS, 300, seed), seed=seed).high < 1
            for seed in range(24)
        )

    assert caught(stated) >= 20 and caught((1 + stated) / 2) <= 12


@pytest.mark.parametrize("share", [0.5, 0.8, 1.25, 2.0])
def test_the_share_of_the_noise_is_found(share: float) -> None:
    wrong = lacking(MADLIB().with_epsilon(3.0), share)
    released = released_noise(wrong, WORDS, counted(wrong, WORDS, 2000, 4))
    assert 0.85 * share < released.low < share < released.high < 1.15 * share


def test_too_few_draws_leave_the_noise_undecided() -> None:
    madlib = MADLIB().with_epsilon(3.0)
    audit = audit_noise_length(madlib, draw_words(madlib, WORDS, draws=5, seed=1))
    assert audit.verdict == "undecided" and audit.caught_from is not None
    assert audit.caught_from < 0.8


def test_where_all_words_are_kept_nothing_is_known_of_the_noise() -> None:
    madlib = MADLIB().with_epsilon(1e4)
    released = released_noise(madlib, WORDS, counted(madlib, WORDS, 100, 1))
    assert (released.low, released.caught_from) == (0.0, 0.0) and released.high > 1
    audit = audit_noise_length(madlib, draw_words(madlib, WORDS, draws=100, seed=1))
    assert audit.verdict == "undecided" and audit.excess == np.inf


def test_what_is_not_simulated_says_so() -> None:
    santext = SanText(PLANE, epsilon=1.0)
    assert not noise.is_simulated(santext)
    with pytest.raises(InvalidInput, match="mechanism: got santext, expected noise"):
        released_noise(santext, WORDS, np.ones((10, 150), dtype=np.int64))
    audit = audit_words(santext, draw_words(santext, [0, 1], draws=100, seed=1))
    assert audit.noise is None and audit.caught_from is None
    told = audit_words(MADLIB(), draw_words(MADLIB(), [0, 1], draws=100, seed=1))
    assert told.noise is not None and told.caught_from is not None


@pytest.mark.parametrize("width", [1, 3])
def test_laplace_noise_has_the_law_of_gamma(width: int) -> None:
    radius = noise.laplace_radius(width)
    draws = np.abs(np.random.default_rng(1).laplace(size=(100_000, width))).sum(1)
    for share in (0.5, 0.8, 1.0, 1.25):
        inside = int((share * draws <= radius).sum())
        expected = gammainc(width, radius / share)
        assert inside / 1e5 == pytest.approx(expected, abs=5 * np.sqrt(0.25 / 1e5))
        released = noise.laplace_noise(inside, 100_000, width)
        assert released.low < share < released.high and released.high / released.low < 1.1
        assert released.caught_from > 0.95


def test_the_digest_covers_every_module_of_privacy_that_the_audits_reach() -> None:
    package = Path(long.__file__).parents[1]
    covered = {path for pattern in long.CODE for path in package.glob(pattern)}
    reached: set[Path] = set()
    left = [package / "experiments" / "audits.py"]
    while left:
        text = left.pop().read_text(encoding="utf-8")
        for name in re.findall(r"^from textpriv\.privacy\.(\w+) import", text, re.M):
            path = package / "privacy" / f"{name}.py"
            if path not in reached:
                reached.add(path)
                left.append(path)
    assert package / "privacy" / "noise.py" in reached
    assert reached <= covered
