"""Budgets by groups: laws and losses by hand, what holds inside a group, and what breaks outside.

Error rates: see `helpers`.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import ALARM, POWER, embedding, fits, normal_embedding, power_of_fit, refused
from scipy.spatial.distance import cdist

from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import SanText
from textpriv.mechanisms.allotted import STAMP, Allotted, at_positions, by_sensitivity
from textpriv.mechanisms.polar import Polar
from textpriv.privacy import account_texts, audit_exactly, claimed_loss, exact, published_loss
from textpriv.privacy.exact import every_loss, losses

LINE = embedding([[0.0], [1.0], [10.0]])
GROUP = [0, 1, 1]
CLOUD = normal_embedding(60, 3, seed=2)
HALVES = np.arange(60) % 2


def by_hand(epsilon: float, word: int) -> np.ndarray:
    points = LINE.vectors[:, 0].astype(np.float64)
    weights = np.exp(-epsilon / 2 * np.abs(points - points[word]))
    return np.asarray(weights / weights.sum())


def test_laws_and_a_loss_by_hand() -> None:
    """Words at 0, 1 and 10; the first at epsilon 0.5, the others at 2.

    The third word comes from the first with weight e^-2.5, from the second with weight e^-9: their
    loss there is far beyond 2 d = 2, the claim of the larger epsilon, and beyond 0.5 d.
    """
    mechanism = Allotted(SanText(LINE, epsilon=2.0), GROUP, [0.25, 1.0])
    expected = np.array([by_hand(0.5, 0), by_hand(2.0, 1), by_hand(2.0, 2)])
    np.testing.assert_allclose(np.exp(mechanism.log_rows(np.arange(3))), expected)
    np.testing.assert_allclose(np.exp(mechanism.log_columns(np.arange(3))), expected.T)
    mechanism.check()
    (loss,) = losses(mechanism, np.array([0]), np.array([1]))
    assert loss == pytest.approx(np.abs(np.log(expected[0] / expected[1])).max())
    assert loss > 6 > published_loss(mechanism).between(np.array([0]), np.array([1]))[0] == 2.0
    half = mechanism.with_epsilon(1.0)
    np.testing.assert_allclose(np.exp(half.log_rows(np.array([0])))[0], by_hand(0.25, 0))


def test_draws_follow_the_law_of_the_group() -> None:
    """False alarm at most ALARM a word; the other group's epsilon is caught."""
    n, mechanism = 4000, Allotted(SanText(LINE, epsilon=2.0), GROUP, [0.25, 1.0])
    for word, epsilon, other in [(0, 0.5, 2.0), (1, 2.0, 0.5)]:
        drawn = mechanism.sample(np.full(n, word), np.random.default_rng(1))
        law = by_hand(epsilon, word)
        assert fits(np.bincount(drawn, minlength=3), law, ALARM)
        assert power_of_fit(by_hand(other, word), law, n) >= POWER


def test_inside_a_group_its_claim_holds_and_read_as_one_for_all_it_breaks() -> None:
    mechanism = Allotted(SanText(CLOUD, epsilon=4.0), HALVES, [0.25, 1.0])
    assert audit_exactly(mechanism).verdict == "not broken"
    read = audit_exactly(mechanism, published=True)
    assert read.verdict == "broken" and read.worst_ratio > 1.5
    one, other = (int(word[1:]) for word in read.worst_pair)
    assert HALVES[one] != HALVES[other]
    uniform = Allotted(SanText(CLOUD, epsilon=4.0), HALVES, [1.0, 1.0])
    assert audit_exactly(uniform, published=True).verdict == "not broken"


def test_the_claim_is_that_of_the_group() -> None:
    claim = claimed_loss(Allotted(SanText(LINE, epsilon=2.0), GROUP, [0.25, 1.0]))
    words, others = np.array([0, 1, 1, 0]), np.array([1, 2, 0, 0])
    assert claim.between(words, others).tolist() == [np.inf, 18.0, np.inf, 0.0]
    assert claim.protected.tolist() == [1, 2] and claim.largest() == 18.0
    several = claimed_loss(Allotted(SanText(CLOUD, epsilon=2.0), HALVES, [0.5, 1.0]))
    assert several.largest() == np.inf and len(several.protected) == 60


def test_texts_have_no_bound_where_words_may_change_their_group() -> None:
    """The output does not tell the group, so that the worst other text has words of another."""
    texts = Corpus(ids=np.array([1, 2]), offsets=np.array([0, 2]))
    several = Allotted(SanText(CLOUD, epsilon=2.0), HALVES, [0.5, 1.0])
    assert account_texts(several, texts).epsilon == np.inf
    one = Allotted(SanText(LINE, epsilon=2.0), GROUP, [0.25, 1.0])  # word 0 is alone in its group
    assert account_texts(one, texts).epsilon == 2 * 18.0


def test_the_loss_between_groups_is_bounded_by_the_vocabulary() -> None:
    """(a d + |a - b| D) / 2 and the difference of the normalisers: the bound of the module."""
    low, high = 1.0, 4.0
    mechanism = Allotted(SanText(CLOUD, epsilon=high), HALVES, [low / high, 1.0])
    apart = cdist(CLOUD.vectors, CLOUD.vectors)
    normalizer = {a: np.log(np.exp(-a / 2 * apart).sum(1)) for a in (low, high)}
    i, j = np.triu_indices(60, 1)
    pair_losses = every_loss(mechanism, np.arange(60))
    for loss, x, z in zip(pair_losses, i, j, strict=True):
        a, b = (high if HALVES[word] else low for word in (x, z))
        farthest = max(apart[x].max(), apart[z].max())
        shift = abs(normalizer[a][x] - normalizer[b][z])
        assert loss <= (min(a, b) * apart[x, z] + abs(a - b) * farthest) / 2 + shift + 1e-9


def test_the_audit_compares_words_of_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "EVERY_PAIR", 10)
    mechanism = Allotted(SanText(CLOUD, epsilon=2.0), HALVES, [1.0, 0.5])
    first, second = exact.near_and_random(
        CLOUD.vectors, claimed_loss(mechanism).parts(), 100, np.random.default_rng(0)
    )
    assert (HALVES[first] == HALVES[second]).all() and len(first) == 60 + 100
    apart = cdist(CLOUD.vectors, CLOUD.vectors) + 1e9 * (HALVES[:, None] != HALVES)
    np.fill_diagonal(apart, np.inf)
    for word in range(60):
        near = second[np.flatnonzero(first == word)[0]]
        assert apart[word, near] == pytest.approx(apart[word].min(), abs=1e-6)
    audit = audit_exactly(mechanism, random_pairs=100, rng=np.random.default_rng(0))
    assert audit.pairs == 60 + 100 and audit.verdict == "not broken"
    read = audit_exactly(mechanism, random_pairs=100, rng=np.random.default_rng(0), published=True)
    assert read.label == f"{mechanism.name}, in the stronger reading" and read.pairs == 160


def test_public_positions_keep_their_claims() -> None:
    """Whatever the word, a position loses at most its own epsilon times the distance."""
    for epsilon in (0.5, 2.0):
        fixed = SanText(CLOUD, epsilon=epsilon)
        i, j = np.triu_indices(60, 1)
        assert (every_loss(fixed, np.arange(60)) <= claimed_loss(fixed).between(i, j) + 1e-9).all()
    n = 4000
    drawn = at_positions(
        SanText(LINE, epsilon=1.0), [0, 1] * n, [0.5, 2.0] * n, np.random.default_rng(3)
    )
    for place, epsilon in enumerate((0.5, 2.0)):
        assert fits(np.bincount(drawn[place::2], minlength=3), by_hand(epsilon, place), ALARM)
    with pytest.raises(InvalidInput, match="epsilons: got"):
        at_positions(SanText(LINE, epsilon=1.0), [0, 1], [1.0])


def test_any_mechanism_can_be_wrapped() -> None:
    """The polar one, which is no channel: a group of a huge epsilon stays, the other moves."""
    mechanism = Allotted(Polar(CLOUD, epsilon=1e5), HALVES, [1e-5, 1.0])
    drawn = mechanism.sanitize_ids(np.arange(60).repeat(20), np.random.default_rng(0))
    kept = (drawn == np.arange(60).repeat(20)).reshape(60, 20).mean(1)
    assert kept[1::2].min() == 1 and kept[::2].mean() < 0.2
    with pytest.raises(InvalidInput, match="explicit"):
        mechanism.log_rows(np.array([0]))


def test_groups_by_sensitivity_and_importance() -> None:
    table = embedding([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    groups = by_sensitivity(table, sensitive=[1, 3], task=f"{table.words[0]} unheard", share=0.5)
    assert groups.tolist() == [2, 0, 3, 1] and len(STAMP) == 4
    with pytest.raises(InvalidInput, match="expected some word of the vocabulary"):
        by_sensitivity(table, sensitive=[], task="unheard")


SANTEXT = SanText(LINE, epsilon=1.0)

test_wrong_use = refused(
    (lambda: Allotted(SANTEXT, [0, 1], [1.0, 0.5]), "expected 3"),
    (lambda: Allotted(SANTEXT, [0, 1, 2], [1.0, 0.5]), "group: got ids"),
    (lambda: Allotted(SANTEXT, [0, 1, 1], [0.9, 0.5]), "expected the largest to be 1"),
    (lambda: Allotted(SANTEXT, [0, 1, 1], [1.0, -0.5]), "expected a finite number > 0"),
)
