"""Claims as numbers, what texts cost, and bounds of what is lost: closed forms and enumeration.

Bounds are held against privacy losses that are computed output by output, and must be neither
exceeded nor idle; wrong rules stand beside the right ones and must be found out.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import FloatArray, corpus, embedding, normal_embedding, refused, renyi
from hypothesis import given
from hypothesis import strategies as st
from mutants import BOX, CANDIDATES, acting_at, drawing_at, recode
from scipy.special import logsumexp
from tiny_generators import tiny_generator
from tools.documents import WITH_BLOCKS

from textpriv import mechanisms
from textpriv.attacks.base import is_input
from textpriv.attacks.f1 import bonferroni
from textpriv.data.tokens import (
    KEEP_UNKNOWN,
    KEPT,
    PRIVATE,
    PUNCTUATION_AS_WORDS,
    UNKNOWN,
    Corpus,
    Tokenizer,
    TokenPolicy,
)
from textpriv.errors import InvalidInput
from textpriv.experiments import audits as long
from textpriv.experiments import statements as experiment
from textpriv.mechanisms import (
    TEM,
    Claim,
    CusText,
    CusTextPlus,
    Madlib,
    Mahalanobis,
    Mechanism,
    RankRepair,
    SanText,
    SanTextPlus,
)
from textpriv.mechanisms.allotted import Allotted
from textpriv.mechanisms.dp_fusion import DPFusion
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import DPPrompt, Guarantee, Limits, paper_loss, tight_loss
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.mechanisms.response import RandomizedResponse
from textpriv.mechanisms.sentences import DeepCandidate, SentenceVectors, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.neighbors import AnnoySearch, ExactSearch
from textpriv.privacy import (
    Attacked,
    account_texts,
    audit_exactly,
    certified,
    certified_losses,
    claimed_loss,
    claims,
    document_statement,
    token_counts,
)
from textpriv.privacy import tight_loss as tight_loss_of
from textpriv.privacy.accounting import (
    account,
    composed_epsilon,
    optimal_delta,
    optimal_epsilon,
    renyi_divergence,
)
from textpriv.privacy.certified import _least_mean, _mean_bounds
from textpriv.privacy.claims import diameter, token_range
from textpriv.privacy.texts import SPARED
from textpriv.report.board import gather
from textpriv.stats import Estimate

SMALL = normal_embedding(40, 3, seed=2)
STRETCHED = embedding(np.random.default_rng(6).standard_normal((60, 3)) * [6.0, 1.0, 0.3])


# Those of the registry at their usual settings; some of them again, at hand-picked ones.
REGISTERED = [entry.make(SMALL, ExactSearch(SMALL.vectors)) for entry in WORD_LEVEL.values()]
MAKERS: dict[type, Callable[[], Any]] = {
    **{type(each): lambda each=each: each for each in REGISTERED},  # type: ignore[misc]
    Madlib: lambda: Madlib(SMALL, epsilon=2.0),
    Mahalanobis: lambda: Mahalanobis(SMALL, epsilon=2.0),
    RankRepair: lambda: RankRepair(Madlib(SMALL, epsilon=2.0), c=0.1),
    SanText: lambda: SanText(SMALL, epsilon=2.0),
    SanTextPlus: lambda: SanTextPlus(SMALL, epsilon=2.0, sensitive=np.arange(10, 40)),
    TEM: lambda: TEM(SMALL, epsilon=2.0),
    CusText: lambda: CusText(SMALL, epsilon=2.0, set_size=6, mapping="conservative"),
    CusTextPlus: lambda: CusTextPlus(
        SMALL, epsilon=2.0, set_size=6, mapping="conservative", stopwords=["w1", "w7"]
    ),
    Allotted: lambda: Allotted(SanText(SMALL, epsilon=2.0), np.arange(40) % 2, [0.5, 1]),
    TruncatedLaplace: lambda: TruncatedLaplace(BOX, epsilon=2.0),
    DeepCandidate: lambda: DeepCandidate(CANDIDATES, recode, epsilon=2.0),
}


def mechanism_classes() -> set[type]:
    """Classes of textpriv.mechanisms that sanitize texts or documents."""
    kinds = set()
    for module in pkgutil.iter_modules(mechanisms.__path__, mechanisms.__name__ + "."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__.startswith(mechanisms.__name__) and hasattr(kind, "sanitize"):
                kinds.add(kind)
    return {kind for kind in kinds if not inspect.isabstract(kind)}


def incomplete(claim: object) -> list[str]:
    """Fields of a claim that say nothing."""
    if not isinstance(claim, Claim):
        return ["not a Claim"]
    return [name for name, text in vars(claim).items() if not str(text).strip()]


@pytest.mark.parametrize("kind", sorted(mechanism_classes(), key=lambda kind: kind.__name__))
def test_every_mechanism_states_its_claim(kind: type) -> None:
    by_text = kind in (DPPrompt, DPMLM, DPFusion)  # whose claim stands on the class
    claim = kind.claim if by_text else MAKERS[kind]().claim  # type: ignore[attr-defined]
    assert incomplete(claim) == []


def test_a_mechanism_without_a_claim_is_found() -> None:
    assert {SanText, RankRepair, CusTextPlus, TruncatedLaplace, DPPrompt} <= mechanism_classes()
    assert incomplete(None) == ["not a Claim"]
    assert incomplete(Claim("a", "b", " ", "d", "e", "")) == ["unit", "composition"]


def by_hand(name: str) -> FloatArray:
    """Claimed losses of all pairs at epsilon 2, from their definitions."""
    x = SMALL.vectors.astype(np.float64)
    euclidean = 2 * np.linalg.norm(x[:, None] - x[None], axis=2)
    if name == "euclidean":
        return euclidean
    if name == "mahalanobis":
        scatter = np.cov(x.T)
        inverse = np.linalg.inv(scatter * 3 / np.trace(scatter))
        offset = x[:, None] - x[None]
        return 2 * np.sqrt(np.einsum("abi,ij,abj->ab", offset, inverse, offset))
    if name == "sensitive":
        spared = np.arange(40) < 10
        euclidean[spared] = euclidean[:, spared] = np.inf
        np.fill_diagonal(euclidean, 0)
        return euclidean
    mechanism = MAKERS[CusText if name == "groups" else CusTextPlus]()
    table = np.full((40, 40), np.inf)
    for word, members in enumerate(mechanism.candidates):
        if (members >= 0).sum() > 1:
            table[word, members[members >= 0]] = 2.0
    if name == "kept":
        table[:, [1, 7]] = np.inf
    np.fill_diagonal(table, 0)
    return table


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Madlib, "euclidean"),
        (RankRepair, "euclidean"),
        (SanText, "euclidean"),
        (TEM, "euclidean"),
        (Mahalanobis, "mahalanobis"),
        (SanTextPlus, "sensitive"),
        (CusText, "groups"),
        (CusTextPlus, "kept"),
    ],
)
def test_claims_are_their_definition(kind: type, name: str) -> None:
    claim, expected, words = claimed_loss(MAKERS[kind]()), by_hand(name), np.arange(40)
    np.testing.assert_allclose(claim.rows(words), expected, rtol=1e-9, atol=1e-9)
    x, z = (grid.ravel() for grid in np.meshgrid(words, words, indexing="ij"))
    losses = claim.between(x, z).reshape(40, 40)
    np.testing.assert_allclose(losses, expected, rtol=1e-9, atol=1e-9)
    finite = expected[np.isfinite(expected)]
    assert claim.largest() == pytest.approx(finite.max())
    bounded = np.isfinite(expected).sum(1) > 1
    np.testing.assert_array_equal(claim.protected, np.flatnonzero(bounded))


def test_aggressive_custext_claims_nothing() -> None:
    claim = claimed_loss(CusText(SMALL, epsilon=2.0, set_size=6))
    assert claim.largest() == np.inf and not len(claim.protected)
    assert claim.between(np.array([1, 1]), np.array([1, 2])).tolist() == [0, np.inf]
    assert (np.isinf(claim.rows(np.array([3]))[0]) == (np.arange(40) != 3)).all()


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_part_of_a_covariance_is_mixed_with_the_identity(share: float) -> None:
    mechanism = Mahalanobis(STRETCHED, epsilon=1.0, strength=share)
    offset = STRETCHED.vectors[4].astype(np.float64) - STRETCHED.vectors[9]
    length = np.linalg.norm(np.linalg.solve(mechanism.root, offset))
    loss = claimed_loss(mechanism).between(np.array([4]), np.array([9]))
    assert loss == pytest.approx(length, rel=1e-9)


def test_a_mechanism_whose_claim_nobody_wrote_down() -> None:
    class New(Mechanism):
        name, claim = "new", replace(SanText.claim, loss=None)

        def _replace(self, ids: Any, rng: Any) -> Any:
            return ids

    with pytest.raises(
        InvalidInput, match="got an object of type New, expected one whose claim is"
    ):
        claimed_loss(New(SMALL, epsilon=1.0))


def test_a_constant_claim_needs_no_function_of_its_own() -> None:
    mechanism = RandomizedResponse(SMALL, epsilon=2.0)
    mechanism.check()
    claim = claimed_loss(mechanism)
    assert claim.largest() == 2.0 and len(claim.protected) == 40 and claim.pairs() is None
    assert claim.between(np.array([1, 3]), np.array([1, 4])).tolist() == [0, 2]
    audit = audit_exactly(mechanism)
    assert (audit.verdict, audit.pairs) == ("not broken", 780)
    assert audit.worst_ratio == pytest.approx(1) == tight_loss_of(mechanism).share
    assert audit_exactly(acting_at(mechanism, 1.1)).violations == 780  # type: ignore[arg-type]
    assert audit_exactly(drawing_at(mechanism, 2.0)).verdict == "broken"
    assert document_statement(mechanism, words=7).nominal == 14
    mechanism.inputs = np.arange(5, 40)  # the others pass in clear
    claim = claimed_loss(mechanism)
    assert claim.protected.tolist() == list(range(5, 40))
    assert claim.between(np.array([4, 5]), np.array([5, 6])).tolist() == [np.inf, 2]


@pytest.mark.parametrize("wrong", [([40], [0]), ([-1], [0]), ([0, 1], [0]), ([0.5], [1])])
@pytest.mark.parametrize("kind", [SanText, CusText, SanTextPlus])
def test_words_that_are_none(kind: type, wrong: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="(words|others): got .*expected"):
        claimed_loss(MAKERS[kind]()).between(*(np.array(each) for each in wrong))


@pytest.mark.parametrize("rows", [1, 256])
@given(st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 4), st.booleans())
def test_the_diameter_is_the_largest_of_all_distances(
    rows: int, seed: int, count: int, dimension: int, normal: bool
) -> None:
    rng = np.random.default_rng(seed)
    points = (rng.standard_normal if normal else rng.standard_cauchy)((count, dimension))
    apart = torch.pdist(torch.from_numpy(points))
    expected = float(apart.max()) if len(apart) else 0.0
    with mock.patch.object(claims, "_ROWS", rows):
        assert diameter(points) == pytest.approx(expected, rel=1e-9)


def test_points_of_one_place_have_no_diameter() -> None:
    assert diameter(np.ones((600, 2))) == 0


def test_exponential_mechanisms_have_bounded_range_and_noise_has_not() -> None:
    bounded = {kind for kind, make in MAKERS.items() if make().claim.bounded_range}
    assert bounded == {SanText, SanTextPlus, TEM, CusText, CusTextPlus, DeepCandidate}
    assert not CusText(SMALL, epsilon=2.0, set_size=6).claim.bounded_range


@pytest.mark.parametrize("kind", [SanText, SanTextPlus, TEM, CusText])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_ranges_of_exponential_mechanisms_are_as_bounded(kind: type, epsilon: float) -> None:
    mechanism = MAKERS[kind]().with_epsilon(epsilon)
    claim = claimed_loss(mechanism)
    rows = mechanism.log_rows(np.arange(40))
    for x, z in itertools.combinations(claim.protected.tolist(), 2):
        bound = claim.between(np.array([x]), np.array([z]))[0]
        possible = np.isfinite(rows[x]) & np.isfinite(rows[z])
        if np.isfinite(bound):
            assert np.ptp(rows[x][possible] - rows[z][possible]) <= bound + 1e-9


@given(st.integers(0, 10_000), st.floats(0.25, 4))
def test_the_range_of_a_token_lies_between_the_tight_loss_and_the_papers(
    seed: int, temperature: float
) -> None:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=5) * 3
    limits = Limits(low, low + rng.gamma(1, 2, size=5))
    bound = token_range(limits, temperature)
    assert tight_loss(limits, temperature) <= bound * (1 + 1e-12)
    assert bound <= paper_loss(limits, temperature) * (1 + 1e-12)
    scores = np.where(rng.random((60, 5)) < 0.5, limits.low, limits.high) / temperature
    rows = scores - logsumexp(scores, axis=1, keepdims=True)
    ranges = [np.ptp(one - other) for one, other in itertools.combinations(rows, 2)]
    assert max(ranges) <= bound + 1e-9
    if len(np.unique(scores, axis=0)) == 32:  # all corners are there
        assert max(ranges) == pytest.approx(bound)


def test_a_vocabulary_of_one_token_tells_nothing() -> None:
    assert token_range(Limits.same(0, 9, 1), 1.0) == 0 == tight_loss(Limits.same(0, 9, 1), 1.0)


def response(bound: float, shift: Any) -> tuple[FloatArray, FloatArray]:
    """Both laws of generalised randomised response with losses shift and shift - bound."""
    q = (np.exp(-shift) - np.exp(-bound)) / -np.expm1(-bound)
    p = -np.expm1(shift - bound) / -np.expm1(-bound)
    return np.array([p, 1 - p]), np.array([q, 1 - q])


def delta_of(laws: list[tuple[FloatArray, FloatArray]], epsilon: float) -> float:
    """Exact delta of independent steps, from all outputs."""
    p = q = np.ones(1)
    for one, other in laws:
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("bound", [0.01, 0.3, 2.0, 9.0])
@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 8.0, 100.0])
def test_the_renyi_divergence_is_that_of_the_worst_response(bound: float, order: float) -> None:
    worst = renyi(*response(bound, np.linspace(0, bound, 4002)[1:-1]), order)  # over all shifts
    (divergence,) = renyi_divergence([bound], order)
    assert worst * (1 - 1e-9) - 1e-12 <= divergence <= worst * (1 + 1e-4) + 1e-9


@given(st.integers(0, 10_000), st.floats(0.01, 6), st.floats(1.01, 50), st.integers(2, 6))
def test_no_law_of_a_range_has_a_larger_renyi_divergence(
    seed: int, bound: float, order: float, outputs: int
) -> None:
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(outputs, 0.5)) + 1e-9
    q /= q.sum()
    p = q * np.exp(rng.choice([0.0, 0.3, 1.0], outputs) * bound)
    p /= p.sum()
    assert np.ptp(np.log(p / q)) <= bound + 1e-9
    assert renyi(p, q, order) <= renyi_divergence([bound], order)[0] + 1e-9


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("bound", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_the_optimal_delta_is_the_worst_of_all_responses(
    count: int, bound: float, share: float
) -> None:
    epsilon, rng = share * bound * count, np.random.default_rng(1)
    alike = [delta_of([response(bound, t)] * count, epsilon) for t in np.linspace(0, bound, 201)]
    mixed = [
        delta_of([response(bound, t) for t in rng.uniform(0, bound, count)], epsilon)
        for _ in range(100)
    ]
    delta = optimal_delta(bound, count, epsilon)
    assert max(alike) <= delta * (1 + 1e-12) and delta <= max(alike) * (1 + 1e-2)
    assert max(mixed) <= delta * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 7, 100])
@pytest.mark.parametrize("bound", [0.1, 3.0, 60.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-9])
def test_the_bounds_are_in_order_and_not_idle(count: int, bound: float, delta: float) -> None:
    optimal = optimal_epsilon(bound, count, delta)
    general = composed_epsilon(np.full(count, bound), delta)
    assert optimal_delta(bound, count, optimal) <= delta
    assert optimal <= general + 1e-7 <= count * bound + 2e-7
    if optimal > 0.01 * bound * count:  # what adaptivity and Renyi orders may cost
        assert general <= 1.35 * optimal
        assert optimal_delta(bound, count, 0.98 * optimal) > delta
    rho = count * bound**2 / 8
    concentrated = rho + 2 * np.sqrt(rho * np.log(1 / delta))  # Bun & Steinke 2016
    assert general <= concentrated + 1e-9


def test_a_hundred_repeats_of_range_one_by_the_literature() -> None:
    """The sum is 100; by the simple form of Bun & Steinke it would be 50."""
    assert optimal_epsilon(1.0, 100, 1e-6) == pytest.approx(34.77, abs=0.02)
    assert composed_epsilon(np.ones(100), 1e-6) == pytest.approx(36.36, abs=0.02)


def exact_epsilon(laws: list[tuple[FloatArray, FloatArray]], delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(laws, middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_documents_of_santext_keep_what_is_computed_for_them(epsilon: float, delta: float) -> None:
    """Six words against six others, over a vocabulary of five: all 15,625 outputs."""
    table = normal_embedding(5, 2, seed=3)
    mechanism = SanText(table, epsilon=epsilon)
    claim, law = claimed_loss(mechanism), np.exp(mechanism.log_rows(np.arange(5)))
    rng = np.random.default_rng(4)
    for _ in range(5):
        words, others = rng.integers(0, 5, (2, 6))
        losses = claim.between(words, others)
        spent = account(losses, ranges=losses, delta=delta)
        laws = [(law[x], law[z]) for x, z in zip(words, others, strict=True)]
        assert exact_epsilon(laws, delta) <= spent.composed + 1e-9
        assert exact_epsilon(laws, 1e-300) <= spent.epsilon + 1e-9


def test_steps_that_depend_on_each_other_need_the_adaptive_bound() -> None:
    """Who chooses the second shift by the first output does more harm than the optimum of fixed
    mechanisms allows (Dong et al. 2020, section 3.3)."""
    grid = np.linspace(0, 1, 101)[1:-1]
    laws = [response(1.0, shift) for shift in grid]
    both = np.array(laws)  # (shifts, 2 laws, 2 outputs)

    def worst(epsilon: float) -> float:
        return float(np.maximum(both[:, 0] - np.exp(epsilon) * both[:, 1], 0).sum(1).max())

    def adaptive(epsilon: float) -> float:
        return max(
            sum(one * worst(epsilon - np.log(one / other)) for one, other in zip(p, q, strict=True))
            for p, q in laws
        )

    delta = optimal_delta(1.0, 2, 0.04)
    assert adaptive(0.04) > 1.03 * delta
    assert adaptive(composed_epsilon([1.0, 1.0], delta)) <= delta


def test_noise_under_the_rule_of_ranges_is_caught() -> None:
    """Twenty responses with losses +-1, as of a noise mechanism: range 2, and not 1."""
    p = np.array([np.e, 1.0]) / (1 + np.e)
    laws, delta = [(p, p[::-1])] * 14, 1e-3
    exact = exact_epsilon(laws, delta)
    assert exact > composed_epsilon(np.ones(14), delta)  # wrong
    assert exact <= account(np.ones(14), delta=delta).composed == 14
    assert exact <= composed_epsilon(np.full(14, 2.0), delta)


def test_an_account_by_hand() -> None:
    spent = account([1.0, 2.0, 0.5], delta=1e-3)
    assert (spent.tokens, spent.delta) == (3, 1e-3)
    assert spent.epsilon == spent.composed == pytest.approx(3.5)
    assert account([]).epsilon == 0 == account([], ranges=[]).composed
    assert account([0.0, 0.0], ranges=[0.0, 0.0]).composed == 0
    unbounded = account([1.0, np.inf], ranges=[1.0, np.inf])
    assert unbounded.epsilon == unbounded.composed == np.inf


def test_an_account_takes_the_best_rule_that_holds() -> None:
    each = np.full(50, 0.5)
    total = account(each).composed
    fixed = account(each, ranges=each).composed
    adaptive = account(each, ranges=each, adaptive=True).composed
    assert fixed == pytest.approx(optimal_epsilon(0.5, 50, 1e-6))
    assert adaptive == pytest.approx(composed_epsilon(each, 1e-6))
    assert fixed < adaptive < total == 25
    uneven = np.append(each, 0.7)
    assert account(uneven, ranges=uneven).composed == composed_epsilon(uneven, 1e-6)
    assert account(each / 100, ranges=each).composed == pytest.approx(0.25)  # the sum is less


def test_huge_losses_give_numbers() -> None:
    for each in (500.0, 1e4):
        losses = np.full(100, each)
        spent = account(losses, ranges=losses)
        assert 0.9 * spent.epsilon < spent.composed < spent.epsilon == 100 * each


def cost(mechanism: Any, texts: Corpus) -> float:
    return account_texts(mechanism, texts).epsilon


def test_texts_cost_what_their_words_do() -> None:
    claim = claimed_loss(Madlib(SMALL, epsilon=2.0))
    texts = corpus([1, 2, 3], [], [4, UNKNOWN])
    assert cost(Madlib(SMALL, epsilon=2.0), texts) == pytest.approx(5 * claim.largest())
    noise, finite = (
        account_texts(kind(SMALL, epsilon=0.1), corpus([1] * 200)) for kind in (Madlib, SanText)
    )
    assert finite.composed < finite.epsilon == noise.epsilon == noise.composed


def test_unknown_words_cost_at_most_the_worst_pair() -> None:
    mechanism, worst = SanText(SMALL, epsilon=2.0), 2 * diameter(SMALL.vectors)
    assert cost(mechanism, corpus([UNKNOWN] * 40)) == pytest.approx(40 * worst)


@pytest.mark.parametrize("kind", [CusText, CusTextPlus])
def test_unknown_words_have_no_bound_where_supports_differ(kind: type) -> None:
    """A known word gives words of its group, an unknown one those of every group."""
    mechanism = MAKERS[kind]()
    assert cost(mechanism, corpus([3])) == 2.0 and cost(mechanism, corpus([UNKNOWN])) == np.inf
    one = CusText(SMALL, epsilon=2.0, set_size=40, mapping="conservative")  # a single group
    rows = one.log_rows(np.arange(40))
    assert np.abs(rows - (logsumexp(rows, axis=0) - np.log(40))).max() <= 2.0
    assert cost(one, corpus([3, UNKNOWN])) == 4.0


def test_what_leaves_in_clear_costs_nothing_since_it_agrees() -> None:
    plus, madlib = MAKERS[SanTextPlus](), MAKERS[Madlib]()  # words 10 to 39 are sensitive
    assert cost(plus, corpus([3, 20])) == pytest.approx(claimed_loss(plus).largest())
    one = corpus([KEPT, 2], kept={0: "Xanadu"})
    assert cost(madlib, one) == claimed_loss(madlib).largest()
    assert cost(CusText(SMALL, epsilon=1.0, set_size=6), corpus([3])) == np.inf


@given(st.lists(st.sampled_from(["w1", "w7", "w12", "Xanadu", "7", "w3.", "!"]), max_size=12))
def test_every_token_is_sanitized_or_counted_as_passed_on(tokens: list[str]) -> None:
    for name in (SanText, SanTextPlus, CusText, CusTextPlus):
        mechanism = MAKERS[name]().with_epsilon(1e6)
        for policy in (PRIVATE, KEEP_UNKNOWN):
            texts = Tokenizer(SMALL.words, policy).encode([" ".join(tokens)])
            counts = token_counts(mechanism, texts)
            assert counts.tokens == len(texts.ids) and counts.texts == 1
            assert counts.unknown == (texts.ids == UNKNOWN).sum()
            assert set(counts.in_clear) <= {*policy.kept, SPARED}
            spared = np.isin(texts.ids, np.flatnonzero(~is_input(mechanism))).sum()
            assert counts.passed == (texts.ids == KEPT).sum() + spared


@pytest.mark.parametrize("kind", [Madlib, Mahalanobis])
def test_certain_bounds_hold_what_draws_show(kind: type[Madlib]) -> None:
    """Error of the draws: six standard errors."""
    table = embedding(np.random.default_rng(1).standard_normal((30, 3)) * [3.0, 1.0, 0.5])
    near = np.linalg.norm(table.vectors - table.vectors[0], axis=1).argsort()[1]
    madlib, n = kind(table, epsilon=1.0), 60_000
    rng = np.random.default_rng(2)
    intervals = certified_losses(madlib, "w0", f"w{near}", [2.0, 4.0], rng, directions=3000)
    for interval in intervals:
        tried = madlib.with_epsilon(interval.epsilon)
        kept, came = (
            (tried.sanitize_ids(np.full(n, word), np.random.default_rng(3)) == 0).mean()
            for word in (0, near)
        )
        loss = np.log(kept / came)
        error = 6 * np.sqrt((1 - kept) / (n * kept) + (1 - came) / (n * came))
        assert interval.low - error <= loss <= interval.high + error
        assert 0 < interval.low < interval.high < interval.claimed  # and they say something
        assert abs(interval.kept - kept) <= error
        x, z = (np.array([word]) for word in (0, near))
        assert interval.claimed == claimed_loss(tried).between(x, z)[0]


class HalfTheNoise(Madlib):
    """A claim of eps d, and noise half as long."""

    def stretched(self, directions: FloatArray) -> FloatArray:
        return directions / 2


def test_in_one_dimension_the_loss_has_a_closed_form_and_may_exceed_the_claim() -> None:
    """Words at 0, 1 and 3: 0 is kept with 1 - tail, and reached from 1 with the tail, which is
    e^(-eps / 2) / 2. With half the noise it is e^-eps / 2: the claim is eps, the loss ln 2 more."""
    line, epsilon = embedding([[0.0], [1.0], [3.0]]), 4.0
    for kind, share in ((HalfTheNoise, 0.5), (Madlib, 1.0)):
        (interval,) = certified_losses(
            kind(line, epsilon=1.0), "w0", "w1", [epsilon], np.random.default_rng(5),
            directions=20_000,
        )  # fmt: skip
        tail = np.exp(-epsilon / 2 / share) / 2
        loss = np.log((1 - tail) / tail)
        assert loss - 0.2 < interval.low <= loss and interval.claimed == pytest.approx(epsilon)
        assert (interval.low > interval.claimed) == (share < 1)
    assert loss <= interval.high < interval.low + 0.2  # of the right noise


def test_bounds_that_say_nothing_are_infinite() -> None:
    """Few directions, little noise: neither bound is cut at a claim that is to be tested."""
    crowd = embedding([[0.0, 0], [9.0, 0], [0, 9.0], [5.0, 5.0]])
    (interval,) = certified_losses(
        Madlib(crowd, epsilon=1.0), "w0", "w1", [0.01], np.random.default_rng(1), directions=16
    )
    assert interval.low < -interval.claimed and interval.high > interval.claimed


def test_each_bound_of_a_loss_takes_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified, "_mean_bounds", lambda *_: (0.25, 0.5))
    monkeypatch.setattr(certified, "_least_mean", lambda *_: 0.1)
    rng = np.random.default_rng(0)
    (interval,) = certified_losses(
        Madlib(SMALL, epsilon=1.0), "w0", "w1", [50.0], rng, directions=16
    )
    assert interval.low == pytest.approx(np.log(0.25 / 0.5))
    assert interval.high == pytest.approx(np.log(0.5 / 0.1))


def test_bounds_of_means_hold_and_fail_where_they_may() -> None:
    """Of 4,000 samples of a law with mean 0.2, at most 10% and 6 standard errors may fail."""
    rng = np.random.default_rng(6)
    samples = rng.beta(0.5, 2.0, (4000, 200))
    bounds = np.array([_mean_bounds(each, 0.1) for each in samples])
    for failed in ((bounds[:, 0] > 0.2).mean(), (bounds[:, 1] < 0.2).mean()):
        assert failed <= 0.1 + 6 * np.sqrt(0.09 / 4000)
    heavy = rng.lognormal(0, 2, (2000, 400))
    least = np.array([_least_mean(each, 0.1) for each in heavy])
    assert (least > np.exp(2)).mean() <= 0.1 + 6 * np.sqrt(0.09 / 2000)
    assert np.median(least) > 0.2 * np.exp(2)
    narrow = np.full(200, 0.2)
    assert _mean_bounds(narrow, 0.1)[0] == pytest.approx(0.2 - 7 * np.log(20) / (3 * 199))
    assert _least_mean(np.zeros(64), 0.1) == 0


ATTACKED = Attacked(Estimate(0.46, 0.44, 0.48, 1000), "noisy channel", "named {} of 100 words", 3)


def test_a_statement_by_hand() -> None:
    mechanism = SanText(SMALL, epsilon=2.0)
    statement = document_statement(mechanism, tight=1.5, attacked=ATTACKED, words=100)
    worst = claimed_loss(mechanism).largest()
    assert statement.nominal == pytest.approx(100 * worst) and statement.tight == 150
    assert statement.composed == 150  # the tight loss is less than any composition of claims
    assert str(statement) == (
        "santext (eps 2 per word and unit of distance), a text of 100 words (token policy "
        "private). This holds for 100 words of the vocabulary that the mechanism replaces; the "
        "policy passes nothing on as it is. The claimed bound for the worst two texts that "
        "agree in all that the output shows is eps = "
        f"{100 * worst:,.0f}. The largest loss between such texts, by the mechanism's exact "
        "probabilities, is eps = 150. A bound this large rules out almost nothing: it would allow "
        "an attacker to tell the two texts apart almost with certainty. The best of the 3 attacks "
        "that we measured (noisy channel) named 46 of 100 words; 95% interval 44 to 48. The output "
        "shows the number of tokens. Not protected: the number of words; a text that is sanitized "
        "several times, since every copy costs as much again; who sends something to whom and "
        "when, which an observer of the network sees; and what a language model remembers of the "
        "texts that it was trained on."
    )


def test_small_bounds_are_told_as_odds() -> None:
    little = document_statement(SanText(SMALL, epsilon=0.001), words=10)
    bound = f"Any event is at most {np.exp(little.composed):.3g} times likelier for one text"
    assert little.composed < little.nominal
    assert f"{bound} than for another, plus 1 in 1,000,000." in str(little)
    assert f"every event, it is at most eps = {little.composed:.3g}." in str(little)
    assert "No attack was measured" in str(little) and "is unknown." in str(little)
    noise = document_statement(Madlib(SMALL, epsilon=0.001), words=10, least=0.002)
    assert f"at most {np.exp(noise.nominal):.3g} times likelier for one text" in str(noise)
    assert "sampling shows a loss of at least eps = 0.02; for the worst two nothing" in str(noise)
    assert "1,000,000" not in str(noise)
    tight = document_statement(SanText(SMALL, epsilon=0.001), words=10, tight=0.0001)
    assert f"at most {np.exp(0.001):.3g} times" in str(tight) and "1,000,000" not in str(tight)


def test_what_each_kind_of_mechanism_states() -> None:
    noise = replace(document_statement(Madlib(SMALL, epsilon=2.0)), note="Something else.")
    assert noise.composed == noise.nominal and np.isnan(noise.tight)
    assert "Something else." in str(noise)
    finite = document_statement(SanText(SMALL, epsilon=2.0))
    assert finite.nominal == noise.nominal > finite.composed
    groups = document_statement(MAKERS[CusText](), words=7)
    assert groups.nominal == pytest.approx(14)
    assert groups.setting == "eps 2 per word"
    assert groups.text == "a text of 7 words (token policy private)"
    for kind, count in ((TruncatedLaplace, 4), (DeepCandidate, 4)):
        statement = document_statement(MAKERS[kind](), sentences=count, tight=1.0)
        assert (statement.unit, statement.count, statement.nominal, statement.tight) == (
            "sentences", 4, 8.0, 4.0,
        )  # fmt: skip
        assert statement.text == "a text of 100 words in 4 sentences"
        assert "Not protected: the number of sentences;" in str(statement)
    aggressive = document_statement(CusText(SMALL, epsilon=2.0, set_size=6))
    assert aggressive.nominal == np.inf and "Nothing is guaranteed" in str(aggressive)


@pytest.mark.parametrize(("epsilon", "sentences", "others"), [(1.0, 20, 2000), (0.5, 20, 148)])
def test_what_is_stated_of_a_document_that_is_drawn_whole_holds(
    epsilon: float, sentences: int, others: int
) -> None:
    """One draw is no composition: taken for separate draws, its sentences lose too little."""
    places = np.repeat([0.0, 1.0], [1, others])[:, None].astype(np.float32)
    candidates = SentenceVectors(places, np.arange(others + 2))
    mechanism = DeepCandidate(candidates, np.float64, epsilon=epsilon)
    here, there = (
        mechanism.log_probability(np.full((sentences, 1), place)) for place in (0.0, 1.0)
    )

    def delta(bound: float) -> float:
        return float(np.maximum(np.exp(here) - np.exp(bound + there), 0).sum())

    statement = document_statement(mechanism, sentences=sentences)
    assert delta(statement.composed) <= statement.delta
    losses = np.full(sentences, epsilon)
    assert delta(account(losses, ranges=losses, delta=statement.delta).composed) > 0.4


SECRET = "W1, call Zelda Quux: 079 123 45 67. w7!"  # w1 and w7 are all that SMALL knows


def test_a_statement_counts_what_the_policy_passes_on() -> None:
    """A name and a number in clear, and a statement that the output shows the number of tokens."""
    mechanism = SanText(SMALL, epsilon=2.0)
    (out,) = mechanism.sanitize([SECRET], np.random.default_rng(0), policy=KEEP_UNKNOWN)
    assert "zelda quux : 079 123 45 67" in out
    statement = document_statement(mechanism, SECRET, policy=KEEP_UNKNOWN)
    assert statement.tokens is not None and statement.policy == "keep-unknown"
    assert dict(statement.tokens.in_clear) == {"punctuation": 4, "numbers": 4, "unknown words": 3}
    assert (statement.tokens.sanitized, statement.count) == (2, 2)
    assert statement.nominal == pytest.approx(2 * claimed_loss(mechanism).largest())
    assert str(statement).startswith(
        "santext (eps 2 per word and unit of distance), a text of 13 tokens. Under the token "
        "policy keep-unknown, 11 of 13 tokens (84.6%) are passed on as they are: punctuation (4), "
        "numbers (4), unknown words (3); 2 are sanitized."
    )
    shown = "The output shows the number of tokens; and, as they are, punctuation (4), numbers (4)"
    assert shown in str(statement) and "The output shows the number of tokens." not in str(
        statement
    )
    encoded = document_statement(mechanism, Tokenizer(SMALL.words, KEEP_UNKNOWN).encode([SECRET]))
    assert encoded.tokens == statement.tokens and encoded.nominal == statement.nominal
    assert "As it was encoded, 11 of 13 tokens" in str(encoded)


def test_a_statement_says_what_is_passed_on_where_nothing_is_or_all() -> None:
    mechanism = SanText(SMALL, epsilon=2.0)
    statement = document_statement(mechanism, SECRET)
    assert statement.scope == (
        "Under the token policy private, all 9 tokens are sanitized, 7 of them unknown words, in "
        "whose place random ones are sanitized, and none is passed on as it is."
    )
    assert statement.in_clear == mechanism.claim.in_clear and statement.count == 9
    several = document_statement(mechanism, [SECRET, "w3"])
    assert several.text == "2 texts of 10 tokens together, of one person" and several.count == 10
    none = document_statement(mechanism, " !", tight=1.0)
    assert "it has no token. Nothing in it is sanitized, and nothing is pro" in str(none)
    assert none.nominal == none.tight == none.composed == 0
    unknown = document_statement(mechanism, "Zelda 79", policy=KEEP_UNKNOWN)
    assert "2 of 2 tokens (100.0%)" in str(unknown) and "nothing is protected" in str(unknown)
    for replaced in (0.0, 0.5):  # of these words SanText+ replaces w20
        plus = SanTextPlus(SMALL, epsilon=2.0, sensitive=np.arange(10, 40), replace=replaced)
        statement = document_statement(plus, "w3 w4 w20 Xanadu")
        assert (statement.count, statement.nominal) == (2, 2 * claimed_loss(plus).largest())
        assert f"2 of 4 tokens (50.0%) are passed on as they are: {SPARED} (2)" in str(statement)


@pytest.mark.parametrize("policy", [PRIVATE, KEEP_UNKNOWN, PUNCTUATION_AS_WORDS])
def test_a_statement_of_a_length_says_under_which_policy_it_holds(policy: TokenPolicy) -> None:
    for kind in (SanText, SanTextPlus, CusText, Madlib):
        statement = document_statement(MAKERS[kind](), policy=policy, words=7)
        assert statement.text == f"a text of 7 words (token policy {policy.name})"
        assert (
            statement.scope.startswith("This holds for 7 words ")
            and statement.policy == policy.name
        )
        for passed in policy.kept:
            assert passed in statement.scope and passed in statement.in_clear
        assert ("passes nothing on" in statement.scope) == (not policy.kept)


def test_a_statement_names_the_group_and_what_has_none() -> None:
    known, unknown = (
        document_statement(MAKERS[CusText](), text, tight=1.5) for text in ("w1 w2", "w1 Zelda")
    )
    assert (known.nominal, known.tight) == (4.0, 3.0)
    assert "The output shows the number of tokens, and the group of every word." in str(known)
    assert unknown.nominal == unknown.tight == unknown.composed == np.inf
    assert "Nothing bounds what is lost of the unknown words: the output that" in str(unknown)
    assert "Nothing is guaranteed" in str(unknown) and "Nothing bounds" not in str(known)


def test_maps_and_stencils_say_that_they_can_be_tried_out() -> None:
    lossy = LossyMap.random(40, 2, np.random.default_rng(0))
    stencil = Stencil(TokenTable(SMALL.vectors), window=9, sigma=0.8)
    for text in (str(document_statement(made)) for made in (lossy, stencil)):
        assert "Nothing is guaranteed" in text and "can try inputs until one fits" in text
        assert "costs as much again" not in text  # a copy tells nothing new
    assert "try inputs" not in str(document_statement(Madlib(SMALL, epsilon=2.0)))


def test_dp_prompt_states_the_papers_loss_and_the_tight_one(tmp_path: Path) -> None:
    generator = tiny_generator(tmp_path)
    limits = Limits.same(-1.0, 2.0, len(generator.sayable))
    prompt = DPPrompt(generator, temperature=1.5, tokens=48, limits=limits)
    statement = document_statement(prompt)
    assert statement.nominal == pytest.approx(48 * 2 * 3 / 1.5)
    assert statement.tight == pytest.approx(prompt.guarantee.epsilon)
    assert statement.composed <= min(statement.tight, composed_epsilon(np.full(48, 4.0), 1e-6))
    assert (statement.unit, statement.count) == ("tokens", 48)
    assert "The sharpest bound that the same limits give is eps" in str(statement)
    recorded = document_statement(prompt.guarantee)  # of numbers alone
    assert (recorded.nominal, recorded.tight) == (statement.nominal, statement.tight)
    assert recorded.composed >= statement.composed and recorded.in_clear == statement.in_clear
    bare = document_statement(DPPrompt(generator, temperature=1.5, tokens=48))
    assert bare.nominal == np.inf and "Nothing is guaranteed" in str(bare)
    assert "scores without bounds" in bare.setting
    assert str(document_statement(Guarantee(48, 1.5, np.inf, np.inf, "not clipped"))) == str(bare)


def made(success: Any = ATTACKED.success, attack: str = "a", **changed: Any) -> Attacked:
    rest: Any = {"did": "named {} of 100", "tried": 1} | changed
    return Attacked(success, attack, **rest)


def attacked(*rows: tuple[str, float, float | None]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["attack", "value", "low"])
    return table.assign(high=table["low"].where(table["low"].isna(), 1.0), n=5)


def test_the_strongest_attack_is_quoted_however_few_its_texts() -> None:
    source = experiment.Source(
        attacked(("prior-only", 0.1, 0.05), ("noisy-channel", 0.9, 0.2),  # of few texts
                 ("noisy-channel", 0.5, 0.4)),
        "named {} of 100",
    )  # fmt: skip
    other = experiment.Source(attacked(("inversion-bert", 0.9, 0.3)), "found {} of 100")
    best = experiment.best(source)
    assert best is not None and best.success.value == 0.9
    assert best.success.low == pytest.approx(0.5 - bonferroni(3) * 0.1)  # the highest of all
    # Attackers count, not the corpora on which each was run.
    assert best.tried == 2 and best.attack == experiment.ATTACKERS["noisy-channel"]
    both = experiment.best(source, other)
    assert both is not None and both.attack == experiment.ATTACKERS["inversion-bert"]
    assert (both.did, both.tried) == ("found {} of 100", 3)
    assert both.success.low == pytest.approx(0.5 - bonferroni(4) * 0.1)
    assert experiment.best(experiment.Source(attacked(), "{}")) is None
    assert experiment.best() is None
    alone = experiment.best(experiment.Source(attacked(("naive", 0.3, None)), "{}"))
    assert alone is not None and alone.success == Estimate(0.3, 0.3, 0.3, 5)


@pytest.fixture(scope="module")
def stated() -> dict[str, Any]:
    """Statements from the committed results, over a made-up table."""
    rows = [
        {"mechanism": "santext", "epsilon": 2.4, "loss": 2.0},
        {"mechanism": "santext", "epsilon": 1.0, "loss": 99.0},
        {"mechanism": "madlib", "epsilon": 13.0, "low": 1.0},
        {"mechanism": "madlib", "epsilon": 13.0, "low": 3.0},
    ]
    with mock.patch.object(long, "_table", lambda name: SMALL):
        long.shared_words.cache_clear()
        statements = experiment.statements(gather("full"), rows)
        long.shared_words.cache_clear()
    return {f"{statement.mechanism} {statement.setting}": statement for statement in statements}


def test_every_mechanism_of_the_readme_has_a_statement(stated: dict[str, Any]) -> None:
    names = {each.mechanism for each in stated.values()}
    documents = "".join(path.read_text("utf-8") for path in WITH_BLOCKS)
    table = re.search(r"generated: mechanisms -->\n(.*?)<!-- end", documents, re.S)
    assert table is not None
    of_readme = set(re.findall(r"^\| ([a-z+-]+) \|", table[1], re.M)) - {"mechanism", "---"}
    assert len(of_readme) >= 11
    of_texts = {DPMLM.name, DPFusion.name}  # put to the test in notebook 08
    missing = (of_readme | set(WORD_LEVEL)) - names - of_texts
    assert not missing, f"state {missing} in experiments/statements.py"


def test_every_registered_mechanism_is_audited() -> None:
    audited = {name for name, _ in (*long.EXACT, *long.INSIDE)}
    sampled = {setting.label for setting in (*long.SETTINGS, *long.WORKING)}
    audited |= {name for name, _ in long.unlisted()}
    missing = set(WORD_LEVEL) - audited - sampled
    assert not missing, f"enter {missing} in a list of experiments/audits.py"
    noise = {name for name in WORD_LEVEL if name in sampled}
    assert noise == {name for name, _ in long.INSIDE}
    assert noise - {"polar"} == {each.label for each in long.WORKING}  # whose noise has a length


def test_the_noise_of_every_listed_mechanism_can_be_watched() -> None:
    with mock.patch.object(long, "_table", lambda name: SMALL):
        long.shared_words.cache_clear()
        audits = [long.inside(name, epsilon, 7) for name, epsilon in long.INSIDE]
        long.shared_words.cache_clear()
    assert [audit["mechanism"] for audit in audits] == [name for name, _ in long.INSIDE]


def test_statements_quote_what_was_measured(stated: dict[str, Any]) -> None:
    by_name = {statement.mechanism: statement for statement in stated.values()}
    attacked = {
        statement.mechanism for statement in stated.values() if statement.attacked is not None
    }
    assert not attacked & {"santext", "custext-aggressive"}
    assert attacked >= {"rank-repair", "vickrey", "randomized-response"}
    assert attacked >= {"madlib", "mahalanobis", "santext+", "custext+", "tem", "dp-prompt"}
    assert by_name["santext"].tight == 200 and by_name["madlib"].least == 300
    assert np.isnan(by_name["tem"].tight) and np.isnan(by_name["mahalanobis"].least)
    measured = gather("full").measured
    told = r"(risk|spoken(?=.+_lm$))"  # the language model's sentences count for it alone
    for name, pattern in (
        ("tem", rf"{told}\.tem\.eps2\.4\.[a-z_]+"),
        ("clusant", rf"{told}\.clusant\.eps16\.[a-z_]+"),
        ("diffractor", rf"{told}\.diffractor\.eps1\.[a-z_]+"),
        ("rantext", rf"{told}\.rantext\.eps21\.[a-z_]+"),
        ("santext+", rf"({told}\.santext\+|asr\.santext\.rotten-tomatoes)\.eps2\.4\..+"),
        ("custext+", rf"({told}\.custext\+|asr\.custext\.rotten-tomatoes)\.eps4\..+"),
    ):
        run = [
            estimate.value for label, estimate in measured.items() if re.fullmatch(pattern, label)
        ]
        attack = by_name[name].attacked
        assert (attack and attack.success.value) == max(run, default=None)
        assert len(run) > 8 or "+" not in name
    for name, statement in by_name.items():  # the policy of the texts that were attacked
        attacked_as_in_09 = name in {
            "madlib", "santext+", "custext-conservative", "custext+", "tem", "clusant",
            "diffractor", "rantext", "polar", "rank-repair", "vickrey", "randomized-response",
        }  # fmt: skip
        words = statement.mechanism in WORD_LEVEL or name == "custext-aggressive"
        expected = "keep-unknown" if attacked_as_in_09 else "private" if words else ""
        assert statement.policy == expected and (
            expected in statement.text if words else not statement.scope
        )
    clipped = next(statement for name, statement in stated.items() if "scores clipped" in name)
    assert clipped.nominal == pytest.approx(measured["epsilon.dp-prompt-clipped.t0.75.paper"].value)
    assert clipped.tight == pytest.approx(measured["epsilon.dp-prompt-clipped.t0.75.tight"].value)
    unclipped = next(statement for name, statement in stated.items() if "without bounds" in name)
    assert unclipped.attacked != clipped.attacked
    for statement in stated.values():
        if statement.mechanism in (
            "mahalanobis", "dp-prompt", "deep-candidate", "truncated-laplace",
        ):  # fmt: skip
            blind = measured["f1.random.plain.author"].value
            assert f"guessing reaches {100 * blind:.0f}" in str(statement.attacked)


MADLIB = MAKERS[Madlib]()
APPROXIMATE = Madlib(SMALL, epsilon=1.0, search=AnnoySearch(SMALL.vectors, trees=1))
lost: Any = partial(certified_losses, word="w0", rng=np.random.default_rng(0))
MAGIC = experiment.Source(attacked(("magic", 0.3, None)), "{}")


test_bad_input_is_named = refused(
    (lambda: diameter(np.ones(3)), "points: got shape"),
    (lambda: diameter(np.ones((0, 2))), "points: got shape"),
    (lambda: account([-1.0]), "losses: got shape"),
    (lambda: account([[1.0]]), r"losses: got shape \(1, 1\)"),
    (lambda: account([1.0], ranges=[1.0, 2.0]), r"ranges: got \(2,\), expected the losses'"),
    (lambda: renyi_divergence([np.inf], 2.0), "ranges: got inf"),
    (lambda: optimal_epsilon(1.0, 5000, 0.1), "count: got 5000"),
    (lambda: account_texts(MADLIB, corpus()), "corpus: got no document"),
    (lambda: lost(APPROXIMATE, other="w1", epsilons=[1.0]), "expected a Madlib with exact"),
    (lambda: lost(MADLIB, other="no", epsilons=[1.0]), "the vocabulary lacks one"),
    (lambda: lost(MADLIB, other="w1", epsilons=[0.0]), "epsilon: got 0.0"),
    (lambda: lost(MADLIB, other="w1", epsilons=[]), "epsilons: got none, expected at least one"),
    (lambda: lost(MADLIB, other="w1", epsilons=[1.0], directions=3), "directions: got"),
    (lambda: made(attack=""), "attack: got no name"),
    (lambda: made(did="named some"), "did: got 'named some', expected one {} in it"),
    (lambda: made(Estimate(46.0, 44.0, 48.0, 10)), "success: got 46.0, expected a number >= 0"),
    (lambda: document_statement(SanText(SMALL, epsilon=2.0), words=0), "words: got 0"),
    (lambda: experiment.best(MAGIC), r"attackers: got \['magic'\]"),
)
