"""Mechanisms with an explicit law: formulas, exact privacy, samples, claims, bad input.

Error rates: see `helpers`. Privacy is checked exactly, on every ordered pair of words, and
so are wrong versions, which must be found out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers import (
    POWER,
    FloatArray,
    Given,
    distances,
    embedding,
    fits,
    law_of,
    likeliest_by_hand,
    normal_embedding,
    power_of_fit,
    refused,
)
from scipy.special import logsumexp

from textpriv import channel
from textpriv.data.embeddings import Embedding
from textpriv.errors import InvalidInput
from textpriv.mechanisms import (
    TEM,
    CusText,
    CusTextPlus,
    FiniteMechanism,
    SanText,
    SanTextPlus,
    clusant,
    least_frequent,
    rantext,
)
from textpriv.mechanisms.clusant import CluSanT
from textpriv.mechanisms.diffractor import Diffractor
from textpriv.mechanisms.finite import greedy_groups, nearest_sets
from textpriv.mechanisms.rantext import RanText
from textpriv.neighbors.distances import Towards
from textpriv.privacy import claimed_loss, tight_loss

SMALL = normal_embedding(40, 3, seed=2)
SENSITIVE = np.array([3, 4, 9, *range(15, 33), 35])  # neither the first words nor the last
STOPWORDS = ("w1", "w7", "w20", "not in the vocabulary")

MAKERS: dict[str, Callable[[Embedding, float], FiniteMechanism]] = {
    "santext": lambda e, eps: SanText(e, epsilon=eps),
    "santext+ keeps": lambda e, eps: SanTextPlus(e, epsilon=eps, sensitive=SENSITIVE),
    "santext+ 0.3": lambda e, eps: SanTextPlus(e, epsilon=eps, sensitive=SENSITIVE, replace=0.3),
    "santext+ 1": lambda e, eps: SanTextPlus(e, epsilon=eps, sensitive=SENSITIVE, replace=1),
    "tem": lambda e, eps: TEM(e, epsilon=eps, beta=0.1),
    "custext": lambda e, eps: CusText(e, epsilon=eps, set_size=6),
    "custext conservative": lambda e, eps: CusText(
        e, epsilon=eps, set_size=6, mapping="conservative"
    ),
    "custext+": lambda e, eps: CusTextPlus(e, epsilon=eps, set_size=6, stopwords=STOPWORDS),
    "custext+ conservative": lambda e, eps: CusTextPlus(
        e, epsilon=eps, set_size=6, stopwords=STOPWORDS, mapping="conservative"
    ),
}
ALL = MAKERS | {  # of which the others have their laws in test files of their own
    "clusant": lambda e, eps: CluSanT(e, epsilon=eps),
    "diffractor": lambda e, eps: Diffractor(e, epsilon=eps),
    "rantext": lambda e, eps: RanText(e, epsilon=eps),
}
every_mechanism = pytest.mark.parametrize("name", MAKERS)
every_law = pytest.mark.parametrize("name", ALL)


def normalised(weights: FloatArray) -> FloatArray:
    return weights / weights.sum(axis=1, keepdims=True)


def plain_santext_plus(distance: FloatArray, epsilon: float, replace: float) -> FloatArray:
    law = np.zeros_like(distance)
    law[:, SENSITIVE] = normalised(np.exp(-epsilon / 2 * distance[:, SENSITIVE]))
    for word in set(range(len(distance))) - set(SENSITIVE.tolist()):
        law[word] *= replace
        law[word, word] += 1 - replace
    return law


def plain_tem(distance: FloatArray, epsilon: float, beta: float) -> FloatArray:
    """The algorithm as published: near words and one bottom, which is then spread."""
    size = len(distance)
    gamma = 2 / epsilon * np.log((1 - beta) * (size - 1) / beta)
    law = np.zeros_like(distance)
    for word, row in enumerate(distance):
        near = row <= gamma
        far = size - near.sum()
        score = -row[near]
        if far:
            score = np.append(score, -gamma + 2 / epsilon * np.log(far))
        share = np.exp(epsilon / 2 * score)
        share /= share.sum()
        law[word, near] = share[: near.sum()]
        if far:
            law[word, ~near] = share[-1] / far
    return law


def plain_custext(table: Embedding, epsilon: float, sets: list[list[int]]) -> Any:
    x = table.vectors.astype(np.float64)
    law = np.zeros((len(x), len(x)))
    for word, members in enumerate(sets):
        similarity = -np.linalg.norm(x[members] - x[word], axis=1)
        span = np.ptp(similarity)
        score = (similarity - similarity.min()) / span if span else np.zeros(len(members))
        weights = np.exp(epsilon / 2 * score)
        law[word, members] = weights / weights.sum()
    return law


def nearest_first(table: Embedding) -> Any:
    return np.argsort(distances(table), axis=1, kind="stable")


def plain_groups(table: Embedding, size: int) -> list[list[int]]:
    ranking, free = nearest_first(table), set(range(len(table)))
    group_of: dict[int, list[int]] = {}
    for word in range(len(table)):
        if word in free:
            group = [int(other) for other in ranking[word] if int(other) in free][:size]
            free -= set(group)
            group_of |= dict.fromkeys(group, group)
    return [group_of[word] for word in range(len(table))]


def plain_law(name: str, epsilon: float) -> FloatArray:
    distance = distances(SMALL)
    if name.startswith("santext+"):
        replace = {"santext+ keeps": 0.0, "santext+ 0.3": 0.3, "santext+ 1": 1.0}[name]
        return plain_santext_plus(distance, epsilon, replace)
    if name == "santext":
        return normalised(np.exp(-epsilon / 2 * distance))
    if name == "tem":
        return plain_tem(distance, epsilon, 0.1)
    conservative = "conservative" in name
    sets = plain_groups(SMALL, 6) if conservative else nearest_first(SMALL)[:, :6].tolist()
    law = plain_custext(SMALL, epsilon, sets)
    for word in (1, 7, 20) if "+" in name else ():
        law[word] = np.eye(40)[word]
    return law


@every_mechanism
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_the_law_is_the_formula(name: str, epsilon: float) -> None:
    law = law_of(MAKERS[name](SMALL, epsilon))
    np.testing.assert_allclose(law, plain_law(name, epsilon), rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(law == 0, plain_law(name, epsilon) == 0)
    np.testing.assert_allclose(law.sum(1), 1, rtol=0, atol=1e-12)


@every_law
def test_columns_are_the_columns_of_the_rows(name: str) -> None:
    mechanism, words = ALL[name](SMALL, 2.0), np.arange(40)
    mechanism.check()
    rows, columns = mechanism.log_rows(words), mechanism.log_columns(words)
    np.testing.assert_allclose(columns, rows.T, rtol=1e-9, atol=1e-12)
    chosen = np.array([39, 0, 39])
    np.testing.assert_allclose(mechanism.log_columns(chosen), columns[chosen], rtol=1e-12)
    np.testing.assert_allclose(mechanism.log_rows(chosen), rows[chosen], rtol=1e-12)
    x, y = (grid.ravel() for grid in np.meshgrid(words, words))
    np.testing.assert_allclose(mechanism.log_prob(x, y), rows[x, y], rtol=1e-12)


def test_tem_reaches_every_word_and_is_santext_where_no_word_is_far() -> None:
    tight, wide = TEM(SMALL, epsilon=8.0, beta=0.1), TEM(SMALL, epsilon=1e-3)
    assert 0 < (distances(SMALL) > tight.gamma).mean() < 1 and (law_of(tight) > 0).all()
    assert distances(SMALL).max() < wide.gamma
    np.testing.assert_allclose(law_of(wide), law_of(SanText(SMALL, epsilon=1e-3)), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("beta", [0.001, 0.3])
def test_tem_stays_within_gamma_with_probability_one_minus_beta(
    epsilon: float, beta: float
) -> None:
    tem = TEM(SMALL, epsilon=epsilon, beta=beta)
    beyond = (law_of(tem) * (distances(SMALL) > tem.gamma)).sum(1)
    assert beyond.max() <= beta + 1e-12


def test_tem_with_a_beta_that_allows_anything_is_uniform() -> None:
    np.testing.assert_allclose(law_of(TEM(SMALL, epsilon=3.0, beta=0.99)), 1 / 40)


def test_custext_with_equal_candidates_is_uniform() -> None:
    table = embedding(np.ones((5, 2)))
    np.testing.assert_allclose(law_of(CusText(table, epsilon=9.0, set_size=5)), 0.2)


def test_every_word_is_in_its_own_group_even_among_equals() -> None:
    mechanism = CusText(
        embedding(np.ones((13, 2))), epsilon=1.0, set_size=3, mapping="conservative"
    )
    groups = mechanism.candidates
    assert (groups == np.arange(13)[:, None]).any(1).all()
    assert all((groups[row[row >= 0]] == row).all() for row in groups)  # one group for all
    np.testing.assert_allclose(law_of(mechanism).sum(1), 1)


def test_the_least_frequent_words() -> None:
    counts = np.array([9, 5, 0, 5, 1, 0])
    assert least_frequent(counts, 1.0).tolist() == [5, 2, 4, 3, 1, 0]  # ties: higher id first
    assert least_frequent(counts, 0.5).tolist() == [5, 2, 4]
    assert least_frequent(counts, 0.0).tolist() == []
    assert len(least_frequent(np.zeros(33_860, dtype=int), 0.999)) == 33_826
    assert len(least_frequent(np.zeros(10, dtype=int), 0.29)) == 3


MANY = 1200


@cache
def vocabulary() -> Embedding:
    """MANY words in 30 dimensions, among them nearly and exactly equal vectors."""
    rng = np.random.default_rng(11)
    x = (rng.standard_normal((MANY, 30)) * rng.gamma(2, 1, (MANY, 1)) + 2).astype(np.float32)
    x[1:40:2] = x[0:40:2]  # equal
    x[41:80:2] = np.nextafter(x[40:80:2], np.float32(9))  # the nearest that float32 knows
    for row, step in zip(range(81, 120, 2), np.logspace(-7, 0, 20), strict=True):
        x[row] = x[row - 1]
        x[row, row % 30] += np.float32(step)
    return embedding(x)


def excess(log_rows: FloatArray, epsilon: float) -> float:
    """By how much the worst pair of the first words exceeds its claim, over all outputs."""
    x = torch.from_numpy(vocabulary().vectors[: len(log_rows)].astype(np.float64))
    losses = torch.pdist(torch.from_numpy(np.ascontiguousarray(log_rows)), p=float("inf"))
    return float((losses - epsilon * torch.pdist(x)).max())


SLACK = 1e-9  # of rounding, in units of the privacy loss; the product form alone errs by 1e-7


@pytest.mark.parametrize("kind", [SanText, TEM])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 30.0])
def test_every_pair_of_words_is_within_the_claim(kind: Any, epsilon: float) -> None:
    rows = kind(vocabulary(), epsilon=epsilon).log_rows(np.arange(MANY))
    np.testing.assert_allclose(np.exp(rows).sum(1), 1, rtol=0, atol=1e-12)
    assert excess(rows, epsilon) <= SLACK
    assert np.abs(rows[0] - rows[1]).max() <= SLACK  # equal vectors, equal laws


@pytest.mark.parametrize("epsilon", [1e3, 1.6e3, 1e4, 1e5])
@every_law
def test_probabilities_that_underflow_are_not_impossible(name: str, epsilon: float) -> None:
    """exp(-epsilon / 2) is 0 in float64 from epsilon 1,490 on, and nothing to be told apart by."""
    mechanism = ALL[name](SMALL, epsilon)
    few = ALL[name](SMALL, 1.0)
    every = np.arange(40)
    possible = np.isfinite(few.log_rows(every))
    np.testing.assert_array_equal(np.isfinite(mechanism.log_rows(every)), possible)
    rows = mechanism.log_rows(every)
    np.testing.assert_allclose(mechanism.log_columns(every).T, rows, rtol=1e-9, atol=1e-9)
    likeliest = mechanism.likeliest_inputs(every, np.ones(40), 40)
    by_hand = likeliest_by_hand(mechanism, every, np.ones(40), 40)
    for each, expected in zip(likeliest[1:], by_hand[1:], strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-9, atol=1e-9)
    if np.isfinite(claimed_loss(few).between(*np.triu_indices(40, 1))).any():
        assert 0 < tight_loss(mechanism).share <= 1 + 1e-9


def test_a_word_stands_first_in_its_own_set() -> None:
    """Also where others have its vector, be they as many as the set is large."""
    mechanism = CusText(vocabulary(), epsilon=1.0)
    np.testing.assert_array_equal(mechanism.candidates[:, 0], np.arange(MANY))
    x = np.random.default_rng(3).standard_normal((60, 3)).astype(np.float32)
    x[20:45] = x[20]
    sets = nearest_sets(x, 4)
    np.testing.assert_array_equal(sets[:, 0], np.arange(60))
    assert all(len(set(row)) == 4 for row in sets.tolist())
    apart = np.linalg.norm(x[sets].astype(np.float64) - x[:, None], axis=2)
    every = np.sort(np.linalg.norm(x[:, None].astype(np.float64) - x, axis=2), axis=1)[:, :4]
    np.testing.assert_allclose(np.sort(apart, axis=1), every, atol=1e-6)


def counted(mechanism: FiniteMechanism, word: int, n: int, seed: int) -> FloatArray:
    drawn = mechanism.sanitize_ids(np.full(n, word), np.random.default_rng(seed))
    return np.bincount(drawn, minlength=mechanism.size)


@every_mechanism
def test_samples_follow_the_law(name: str) -> None:
    n, words = 200_000, (0, 3, 20, 30, 39)
    mechanism, wrong = MAKERS[name](SMALL, 2.0), MAKERS[name](SMALL, 3.0)
    law, wrong_law = law_of(mechanism), law_of(wrong)
    for word in words:
        assert fits(counted(mechanism, word, n, seed=word), law[word], 1e-6 / len(words))
        if not np.allclose(law[word], wrong_law[word]):  # a word that stays whatever epsilon is
            assert power_of_fit(wrong_law[word], law[word], n) >= POWER
            assert not fits(counted(wrong, word, n, seed=word), law[word])
    assert not np.allclose(law[list(words)], wrong_law[list(words)])


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
@every_law
def test_extreme_uniform_draws_give_possible_words(name: str, uniform: float) -> None:
    mechanism = ALL[name](SMALL, 6.0)
    drawn = mechanism.sample(np.arange(40), Given(uniform))
    assert np.isfinite(mechanism.log_prob(np.arange(40), drawn)).all()


@every_law
def test_draws_do_not_depend_on_how_the_work_is_cut(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = np.random.default_rng(1).integers(-1, 40, 3000)
    whole = ALL[name](SMALL, 2.0).sanitize_ids(words, np.random.default_rng(5))
    columns = ALL[name](SMALL, 2.0).log_columns(np.arange(40))
    for module in (channel, clusant, rantext):
        monkeypatch.setattr(module, "ROW_BYTES", 8 * 40 * 3)
    cut = ALL[name](SMALL, 2.0)
    np.testing.assert_array_equal(cut.sanitize_ids(words, np.random.default_rng(5)), whole)
    np.testing.assert_allclose(cut.log_columns(np.arange(40)), columns, rtol=1e-12, atol=1e-15)


@every_law
def test_another_epsilon_gives_the_mechanism_made_with_it(name: str) -> None:
    mechanism, words = ALL[name](SMALL, 2.0), np.arange(40)
    before = mechanism.log_rows(words)
    mechanism.log_columns(words), mechanism.sample(words, np.random.default_rng(0))  # fill caches
    other, fresh = mechanism.with_epsilon(7.0), ALL[name](SMALL, 7.0)
    np.testing.assert_array_equal(other.log_rows(words), fresh.log_rows(words))
    np.testing.assert_array_equal(other.log_columns(words), fresh.log_columns(words))
    one, two = (m.sample(words, np.random.default_rng(3)) for m in (other, fresh))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(mechanism.log_rows(words), before)
    assert np.abs(np.exp(before) - np.exp(other.log_rows(words))).max() > 0.01


@every_mechanism
def test_an_unknown_word_is_a_uniform_word_of_the_fallback_sanitized(name: str) -> None:
    mechanism, n = MAKERS[name](SMALL, 2.0), 200_000
    fallback = {"santext+": SENSITIVE, "custext+": np.setdiff1d(np.arange(40), [1, 7, 20])}.get(
        name.split()[0], np.arange(40)
    )
    np.testing.assert_array_equal(mechanism.fallback, fallback)
    right = law_of(mechanism)[fallback].mean(0)
    drawn = mechanism.sanitize_ids(np.full(n, -1), np.random.default_rng(8))
    counts = np.bincount(drawn, minlength=40)
    assert fits(counts, right)
    wrong = np.zeros(40)  # the stand-in is put out as it is
    wrong[fallback] = 1 / len(fallback)
    assert power_of_fit(wrong, right, n) >= POWER
    assert not fits(np.random.default_rng(8).multinomial(n, wrong), right)


@pytest.mark.parametrize("name", ["santext", "tem", "santext+ 0.3"])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_an_unknown_word_keeps_the_bound_that_the_claim_states(name: str, epsilon: float) -> None:
    mechanism = MAKERS[name](SMALL, epsilon)
    words = mechanism.fallback
    rows = mechanism.log_rows(words)[:, words]  # these words alone may replace them
    unknown = logsumexp(rows, axis=0) - np.log(len(words))
    loss = np.abs(rows - unknown).max(1)
    distance = distances(SMALL)[np.ix_(words, words)]
    assert (loss <= epsilon * distance.max(1) + SLACK).all()
    nearest = np.sort(distance, axis=1)[:, 1]  # wrong: as if it were the nearest known word
    assert (loss > epsilon * nearest).any()
    assert "largest distance" in mechanism.claim.unknown


@every_mechanism
@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-9, 1e9, 1e300, 1.7e308])
def test_extreme_epsilons_give_a_law(name: str, epsilon: float) -> None:
    mechanism = MAKERS[name](SMALL, epsilon)
    np.testing.assert_allclose(law_of(mechanism).sum(1), 1, rtol=0, atol=1e-12)
    drawn = mechanism.sample(np.arange(40), np.random.default_rng(0))
    assert np.isfinite(mechanism.log_prob(np.arange(40), drawn)).all()


def with_(make: Any, **options: Any) -> Callable[[], Any]:
    return lambda: make(SMALL, epsilon=1.0, **options)


test_wrong_options = refused(
    (with_(TEM, beta=1), "beta: got .*expected"),
    *(
        (with_(CusText, set_size=size, mapping=mapping), "set_size: got .*from 2 to 40")
        for size, mapping in ((1, "aggressive"), (41, "conservative"))
    ),
    (with_(SanTextPlus, sensitive=[]), "sensitive: got no word"),
    (with_(SanTextPlus, sensitive=[40]), "sensitive: got ids 40..40, expected 0..39"),
    (with_(SanTextPlus, sensitive=[1], replace=1.5), "replace: got 1.5, expected a number"),
    (with_(CusTextPlus, stopwords="the"), "stopwords: got the text 'the'"),
    (with_(CusTextPlus, stopwords=SMALL.words), "stopwords: got all words"),
    (lambda: least_frequent(np.arange(5), 1.1), "fraction: got 1.1.*a number >= 0 and <= 1"),
    (lambda: least_frequent([1.5], 0.5), "counts: got .*expected a 1-d integer array"),
)


@pytest.mark.parametrize(("size", "sizes"), [(41, {20, 21}), (42, {20, 2}), (40, {20}), (21, {21})])
def test_no_word_is_alone_in_its_group(size: int, sizes: set[int]) -> None:
    """Alone, it could only be replaced by itself, and the claim would be empty."""
    groups = greedy_groups(np.random.default_rng(0).standard_normal((size, 3)), 20)
    assert set((groups >= 0).sum(1).tolist()) == sizes
    for word, group in enumerate(groups):
        assert word in group and (groups[group[group >= 0]] == group).all()


@every_mechanism
@pytest.mark.parametrize("epsilon", [0.5, 6.0, 60.0])
def test_the_likeliest_inputs_are_those_of_the_columns(
    name: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mechanisms' own ways against the general one, for several priors and counts."""
    mechanism, rng = MAKERS[name](SMALL, epsilon), np.random.default_rng(3)
    sensitive = np.isin(np.arange(40), SENSITIVE)
    sparse = rng.random(40) * (rng.random(40) < 0.5)
    outputs = rng.integers(0, 40, 25)
    for prior in (rng.random(40), sparse, np.where(sensitive, sparse, 0), sparse * ~sensitive):
        best, joints, evidence = likeliest_by_hand(mechanism, outputs, prior, 45)
        for count, memory in itertools.product((1, 4, 45), (1, 8 << 20)):
            monkeypatch.setattr(channel, "ROW_BYTES", memory)
            words, log_joint, log_evidence = mechanism.likeliest_inputs(outputs, prior, count)
            assert words.shape == log_joint.shape == (25, count)
            np.testing.assert_array_equal(words, best[:, :count])
            np.testing.assert_allclose(log_joint, joints[:, :count], rtol=0, atol=1e-9)
            np.testing.assert_allclose(log_evidence, evidence, rtol=0, atol=1e-9)
    none = mechanism.likeliest_inputs(outputs, np.zeros(40), 2)
    assert (none[0] == -1).all() and np.isneginf(none[1]).all() and np.isneginf(none[2]).all()
    assert mechanism.likeliest_inputs([], sparse, 3)[0].shape == (0, 3)


@pytest.mark.parametrize(
    "make", [lambda e: SanText(e, epsilon=1.0), lambda e: TEM(e, epsilon=1.0, beta=0.1)]
)
def test_tied_inputs_come_in_order(make: Any) -> None:
    """The corners of a square are alike seen from its center, and the center comes first."""
    square = embedding([[1, 0], [0, 1], [0, 0], [-1, 0], [0, -1]])
    mechanism = make(square)
    for count in range(1, 6):
        words, _, _ = mechanism.likeliest_inputs([2], np.ones(5), count)
        assert words.tolist() == [[2, 0, 1, 3, 4][:count]]


SWEPT = ["santext", "santext+ keeps", "santext+ 0.3", "tem", "clusant", "rantext"]


@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("memory", [1, 8 << 20])
def test_a_sweep_is_a_mechanism_at_each_epsilon(
    name: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "ROW_BYTES", memory)
    epsilons = [0.3, 2.0, 9.0, 2.0]
    every = np.arange(40)
    used = ALL[name](SMALL, 7.0)
    before = used.log_columns(every)
    swept = used.sweep(epsilons)
    assert [other.epsilon for other in swept] == epsilons
    for other, epsilon in zip(swept, epsilons, strict=True):
        fresh = ALL[name](SMALL, epsilon)
        np.testing.assert_allclose(other.log_columns(every), fresh.log_columns(every), atol=1e-10)
        np.testing.assert_allclose(other.log_rows(every), fresh.log_rows(every), atol=1e-10)
        likeliest = other.likeliest_inputs(SENSITIVE, np.ones(40), 4)
        expected = fresh.likeliest_inputs(SENSITIVE, np.ones(40), 4)
        np.testing.assert_array_equal(likeliest[0], expected[0])
        # Another epsilon afterwards does not keep the normalisers of this one.
        np.testing.assert_allclose(other.with_epsilon(7.0).log_columns(every), before, atol=1e-10)
    np.testing.assert_array_equal(used.log_columns(every), before)
    assert used.sweep([]) == []
    with pytest.raises(InvalidInput, match="epsilon: got"):
        used.sweep([1.0, 0.0])


def test_a_sweep_passes_over_the_distances_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks at one of its epsilons ask for the distances of their outputs alone."""
    asked: list[int] = []
    measured = Towards.__call__

    def counted(self: Towards, rows: Any) -> Any:
        asked.append(len(rows))
        return measured(self, rows)

    monkeypatch.setattr(Towards, "__call__", counted)
    for name in SWEPT:
        made = ALL[name](SMALL, 7.0)
        asked.clear()
        swept = made.sweep([0.3, 2.0, 9.0])
        assert sum(asked) == 40, name
        for other in swept:
            other.log_columns([3, 5])
        assert sum(asked) == 40 + 3 * 2, name


def test_what_is_replaced_and_put_out_is_stated() -> None:
    """`inputs` and `outputs` against the rows: a word that passes has probability 1 of itself."""
    for name, make in MAKERS.items():
        mechanism = make(SMALL, 1.0)
        law, inputs = law_of(mechanism), mechanism.inputs
        replaced = np.arange(40) if inputs is None else inputs
        assert (np.diag(law)[np.setdiff1d(np.arange(40), replaced)] == 1).all(), name
        assert (np.diag(law)[replaced] < 1).all(), name
        if mechanism.outputs is not None and mechanism.inputs is not None:
            assert law[np.ix_(replaced, np.setdiff1d(np.arange(40), mechanism.outputs))].sum() == 0
