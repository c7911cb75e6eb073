"""CluSanT: its law against a plain second writing, draws, limits, and what it keeps of its claims.

Error rates: see `helpers`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers import (
    FloatArray,
    assert_draws_follow,
    assert_within_claim,
    embedding,
    law_of,
    normal_embedding,
    refused,
)
from hypothesis import given
from hypothesis import strategies as st

from textpriv.data.embeddings import Embedding
from textpriv.mechanisms.clusant import CluSanT, greedy_clusters
from textpriv.privacy import audit_exactly, claimed_loss, published_loss
from textpriv.privacy.exact import every_loss, losses

SMALL = normal_embedding(40, 3, seed=2)
LABELS = np.random.default_rng(3).choice([5, 2, 9], 40)
# Two clusters on a line, whose borders lie one apart and whose centroids ten.
BORDER = embedding([[-9.0], [0.0], [1.0], [10.0]])
SIDES = np.array([0, 0, 1, 1])


def on_border(epsilon: float, **options: Any) -> CluSanT:
    return CluSanT(BORDER, epsilon=epsilon, clusters=SIDES, **options)


def plain_law(table: Embedding, clusters: Any, epsilon: float, scale: float) -> FloatArray:
    """The two choices word by word, from the description of the mechanism."""
    points = table.vectors.astype(np.float64)
    names = sorted(set(clusters.tolist()))
    members = {name: [w for w in range(len(points)) if clusters[w] == name] for name in names}
    centroid = {name: points[members[name]].mean(0) for name in names}
    law = np.zeros((len(points), len(points)))
    for x, point in enumerate(points):
        own = centroid[clusters[x]]
        first = [np.exp(-epsilon * scale / 2 * np.linalg.norm(own - centroid[n])) for n in names]
        for name, weight in zip(names, first, strict=True):
            words = points[members[name]]
            diameter = max(np.linalg.norm(one - other) for one in words for other in words)
            distance = np.linalg.norm(words - point, axis=1)
            second = np.exp(-epsilon / 2 * distance / (diameter or np.inf))
            law[x, members[name]] = weight / sum(first) * second / second.sum()
    return law


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 16.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_the_law_is_that_of_the_two_choices(epsilon: float, scale: float) -> None:
    mechanism = CluSanT(SMALL, epsilon=epsilon, cluster_scale=scale, clusters=LABELS)
    expected = plain_law(SMALL, LABELS, epsilon, scale)
    np.testing.assert_allclose(law_of(mechanism), expected, rtol=1e-9, atol=1e-300)


def test_the_law_of_two_clusters_by_hand() -> None:
    law = law_of(on_border(1.0, cluster_scale=0.2))  # P(the other cluster) = 1 / (1 + e)
    stays, near = np.e / (1 + np.e), 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(law[1], [stays * (1 - near), stays * near,
                                        (1 - stays) * near, (1 - stays) * (1 - near)])  # fmt: skip


def test_words_that_coincide_or_are_alone_in_their_cluster() -> None:
    table = embedding([[0.0], [0.0], [3.0], [4.0], [6.0]])
    clusters = np.array([7, 7, 1, 3, 3])
    law = law_of(CluSanT(table, epsilon=4.0, clusters=clusters))
    np.testing.assert_allclose(law, plain_law(table, clusters, 4.0, 1.0))
    np.testing.assert_allclose(law[:, 0], law[:, 1])  # neither is nearer to any word


def test_draws_follow_the_law() -> None:
    """Other diameters, or another scale, are caught."""
    mechanism = CluSanT(SMALL, epsilon=4.0, cluster_scale=2.0, clusters=LABELS)
    without = mechanism.with_epsilon(4.0)
    without.diameters = np.ones(3)
    wrong = plain_law(SMALL, LABELS, 4.0, 1.0)
    assert_draws_follow(mechanism, [0, 13, 39], 50_000, wrong, law_of(without))


def test_near_words_of_two_clusters_pay_for_their_centroids() -> None:
    """Words one apart: 2 eps is stated, 5 eps lost, and 10 1/9 eps is the bound of the claim."""
    mechanism, pair = on_border(2.0), (np.array([1]), np.array([2]))
    # The second choice is the same for both words; of the first, e^(-5 eps) is the ratio.
    assert every_loss(mechanism, np.array([1, 2]))[0] == pytest.approx(10)
    assert claimed_loss(mechanism).between(*pair)[0] == pytest.approx(2 * (10 + 1 / 9))
    own, stated = audit_exactly(mechanism), audit_exactly(mechanism, published=True)
    assert own.verdict == "not broken" and stated.verdict == "broken"
    assert stated.worst_pair == ("w1", "w2") and stated.worst_ratio == pytest.approx(5 / 2)


def drawn_mechanism(seed: int, epsilon: float, scale: float) -> CluSanT:
    """Few words in few dimensions, some of which may coincide, in clusters of any sizes."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 14))
    table = embedding(rng.standard_normal((size, int(rng.integers(1, 4)))).round(1))
    clusters = rng.integers(0, int(rng.integers(1, 6)), size)
    return CluSanT(table, epsilon=epsilon, cluster_scale=scale, clusters=clusters)


def test_theorem_5_holds_where_its_condition_does() -> None:
    """2 eps d, the distance in the stretched embedding, bounds pairs of near enough clusters."""
    covered = exceeded = 0
    for seed in range(60):
        mechanism = drawn_mechanism(seed, 2.0, [1.0, 1.5, 4.0][seed % 3])
        one, other = np.triu_indices(mechanism.size, 1)
        places = mechanism.cluster[one], mechanism.cluster[other]
        stated = published_loss(mechanism).between(one, other)
        distance = stated / (2 * mechanism.epsilon)
        apart = mechanism.cluster_scale * mechanism.between_centroids[places]
        holds = (places[0] != places[1]) & (apart + 1 <= 2 * distance)
        wide = mechanism.diameters[mechanism.diameters > 0].min(initial=np.inf) >= 1 / 2
        holds |= (places[0] == places[1]) & wide
        loss = losses(mechanism, one, other)
        assert (loss[holds] <= stated[holds] * (1 + 1e-9) + 1e-12).all()
        covered += int(holds.sum())
        exceeded += int((loss[~holds] > stated[~holds] * (1 + 1e-9) + 1e-12).sum())
    assert covered > 200 and exceeded > 0  # without the condition it is broken


@given(st.integers(0, 100_000), st.floats(0.01, 60), st.floats(0, 4))
def test_no_pair_loses_more_than_is_claimed(seed: int, epsilon: float, scale: float) -> None:
    assert_within_claim(drawn_mechanism(seed, epsilon, scale))


@pytest.mark.parametrize("apart", [False, True])
def test_no_smaller_bound_would_do(apart: bool) -> None:
    """One word, and a crowd at the other end of its cluster, or each in a cluster of its own.

    Of the weights e^0 and n e^-1 of the word, e^-1 and n e^0 of one of the crowd, the crowd's make
    up nearly all, so that what the word has of itself changes by nearly e^2, which is the bound.
    """
    table = embedding(np.repeat([[0.0], [1.0]], [1, 400], axis=0))
    mechanism = CluSanT(
        table, epsilon=2.0, clusters=np.arange(401) if apart else np.zeros(401, int)
    )
    bound = claimed_loss(mechanism).between(np.array([0]), np.array([1]))[0]
    expected = 2 + np.log((400 + np.exp(-1)) / (400 + np.e))
    assert bound == pytest.approx(2) and expected > 0.99 * bound
    assert every_loss(mechanism, np.array([0, 1]))[0] == pytest.approx(expected)


def test_clusters_are_the_first_free_word_and_what_is_nearest() -> None:
    line = np.array([[0.0], [9.0], [1.0], [8.0], [5.0]])
    assert greedy_clusters(line, 2).tolist() == [0, 1, 0, 1, 0]
    assert greedy_clusters(line, 1).tolist() == [0] * 5
    assert greedy_clusters(line, 5).tolist() == [0, 1, 2, 3, 4]
    usual = CluSanT(SMALL, epsilon=1.0)  # six of seven words; 40 = 5 * 7 + 5
    assert np.bincount(usual.cluster).tolist() == [7, 7, 7, 7, 7, 5]
    assert [each.tolist() for each in usual.members] == [
        np.flatnonzero(usual.cluster == number).tolist() for number in range(6)
    ]


clustered: Any = partial(CluSanT, SMALL, epsilon=1.0)
greedy: Any = partial(greedy_clusters, SMALL.vectors)
FROM_1 = "count: got .*, expected an integer from 1 to 40"

test_wrong_settings = refused(
    (lambda: clustered(clusters=np.zeros(39, dtype=int)), r"clusters: got int64 of shape \(39,\)"),
    (lambda: clustered(clusters="animals"), "clusters: got .*, expected 40 integers"),
    (lambda: greedy(41), FROM_1),
)
