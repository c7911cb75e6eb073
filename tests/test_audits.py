"""Audits: they find every flaw of `mutants`, pass what is right, and say what they overlook.

A valid mechanism is called broken with probability 0.001 per sampled audit, over seeds (which
are fixed here).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, Given, embedding, normal_embedding
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import (
    BOX,
    CASES,
    CLOUD,
    CORNERS,
    FLAWS,
    HOSTILE,
    LIMITS,
    MADLIB,
    PLANE,
    POOL,
    Case,
    NoNeighbour,
    clipped,
    tem_by_gumbel,
    verdicts,
)
from scipy import stats
from streams import by_shared_generator
from tools import audits as command

from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import KEPT, PRIVATE, UNKNOWN, Tokenizer, TokenPolicy
from textpriv.errors import InvalidInput
from textpriv.experiments import audits as long
from textpriv.mechanisms import TEM, CusText, CusTextPlus, Madlib, SanText, SanTextPlus
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import tight_loss as tight_token_loss
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.mechanisms.sentences import Box, TruncatedLaplace
from textpriv.neighbors import ExactSearch
from textpriv.privacy import (
    Audit,
    audit_exactly,
    audit_laplace,
    audit_map,
    audit_numbers,
    audit_table,
    audit_words,
    claimed_loss,
    draw_words,
    exact,
    read_audits,
    released,
    sampled,
    tight_loss,
    write_audits,
)
from textpriv.privacy.claims import diameter
from textpriv.privacy.exact import audit_next_token
from textpriv.privacy.results import LEVEL, audit_of, plain
from textpriv.privacy.sampled import Drawn, PlainSearch, at_most, spread_words
from textpriv.seeds import stream

EXAMPLES = int(os.environ.get("AUDIT_EXAMPLES", "500"))  # `make audit` asks for 10,000


@cache
def audited(audit: Callable[[Any], Audit], right: Callable[[], Any]) -> Audit:
    return audit(right())


def twin(case: Case) -> Audit:
    """The audit of the right version; cases that share it are audited once."""
    return audited(case.audit, case.right)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.flaw}: {case.audit.__name__}")
def test_the_audit_catches(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if not case.drawn:  # losses show it, of few draws as of many
        monkeypatch.setattr(released, "WORDS", 10)
        monkeypatch.setattr(exact, "DRAWS", 100)
    audit = case.audit(case.wrong())
    assert audit.verdict == "broken"
    if case.drawn:  # its probabilities alone show nothing
        assert audit.fit is not None and audit.fit < LEVEL
        assert replace(audit, fit=None).verdict != "broken"
    else:
        assert audit.violations > 0 and audit.worst_ratio > 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.flaw}: {case.audit.__name__}")
def test_the_audit_passes_the_right_version(case: Case) -> None:
    audit = twin(case)
    if audit.verdict != "no claim":
        assert audit.violations == 0 and 0.5 < audit.worst_ratio <= 1 + 1e-9
        assert audit.verdict == "not broken"
    if case.drawn:
        assert audit.fit is not None and audit.fit >= LEVEL and audit.fit_draws > 0
        most = 0.065 if "dimension 50" in audit.setting else 0.06  # fifty axes are tested there
        assert audit.fit_gap is not None and audit.fit_gap < most


def test_every_law_that_is_known_has_a_sampler_that_draws_another() -> None:
    entries = {*WORD_LEVEL, "custext-aggressive", "2-random", "stencil", "deep-candidate"}
    drawn = {twin(case).mechanism for case in CASES if case.drawn}
    missing = (entries | {"dp-prompt"}) - drawn
    assert not missing, f"enter a Case with drawn=True for {missing} in tests/mutants.py"
    assert any(case.flaw == "Laplace noise of 1.25 eps" for case in CASES)  # seen in losses too


class Overstated(SanText):
    """SanText, of which somebody states that epsilon bounds the loss whatever the distance."""

    published = replace(SanText.claim, definition="eps-DP", loss="constant")


def test_a_claim_that_says_more_than_is_kept_is_broken_as_expected() -> None:
    mechanism = Overstated(CLOUD, epsilon=2.0)
    own, stated = audit_exactly(mechanism), audit_exactly(mechanism, published=True)
    assert own.verdict == "not broken" and own.as_expected and not own.published
    assert stated.verdict == "broken" and stated.as_expected and stated.claim == "eps-DP"
    assert 1 < stated.worst_ratio <= own.worst_ratio * diameter(CLOUD.vectors)
    close = from_arrays("close", CLOUD.words, CLOUD.vectors / (4 * diameter(CLOUD.vectors)))
    kept = audit_exactly(Overstated(close, epsilon=2.0), published=True)
    assert not kept.violations and not kept.as_expected  # so that the note on it is wrong
    with pytest.raises(InvalidInput, match="got santext, expected one with a `published` claim"):
        audit_exactly(SanText(CLOUD, epsilon=2.0), published=True)


def test_a_neighbour_that_is_none_is_caught() -> None:
    mechanism = NoNeighbour(PLANE, epsilon=1.0)
    with pytest.raises(InvalidInput, match="outputs: got ids -1"):
        draw_words(mechanism, [3], draws=2000, seed=1)


def loss_by_hand(rows: FloatArray, x: int, z: int) -> float:
    possible = np.isfinite(rows[x])
    if (possible != np.isfinite(rows[z])).any():
        return np.inf
    return float(np.abs(rows[x][possible] - rows[z][possible]).max())


ENUMERATED = [
    SanText(CLOUD, epsilon=1.0),
    SanText(CLOUD, epsilon=15.0),
    TEM(CLOUD, epsilon=6.0, beta=0.1),
    SanTextPlus(CLOUD, epsilon=3.0, sensitive=np.arange(20, 60)),
    CusText(CLOUD, epsilon=3.0, set_size=6, mapping="conservative"),
    CusTextPlus(CLOUD, epsilon=3.0, set_size=6, mapping="conservative", stopwords=["w1", "w30"]),
]


def named(mechanism: Any) -> str:
    return f"{getattr(mechanism, 'name', mechanism)} {getattr(mechanism, 'epsilon', '')}"


@pytest.mark.parametrize(
    "mechanism",
    [
        *ENUMERATED[:-1],
        SanTextPlus(CLOUD, epsilon=3.0, sensitive=np.arange(20, 60), replace=0.3),
        CusText(CLOUD, epsilon=3.0, set_size=6),
        CusText(CLOUD, epsilon=1e5, set_size=6, mapping="conservative"),  # underflows
    ],
    ids=named,
)
def test_losses_are_the_largest_over_all_outputs(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = mechanism.log_rows(np.arange(60))
    x, z = np.random.default_rng(1).integers(0, 60, (2, 150))
    if isinstance(mechanism, CusText):  # some of one group
        x, z = np.append(x, np.arange(60)), np.append(z, mechanism.candidates[:, 1])
    expected = [loss_by_hand(rows, *pair) for pair in zip(x, z, strict=True)]
    np.testing.assert_allclose(exact.losses(mechanism, x, z), expected, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(exact, "_BYTES", 24 * 60 * 7)
    np.testing.assert_allclose(exact.losses(mechanism, x, z), expected, rtol=1e-9, atol=1e-9)
    if not isinstance(mechanism, CusText):
        i, j = np.triu_indices(60, 1)
        every = exact.every_loss(mechanism, np.arange(60))
        np.testing.assert_allclose(every, exact.losses(mechanism, i, j), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("memory", [1, 1 << 26])
@pytest.mark.parametrize("mechanism", ENUMERATED, ids=named)
def test_the_tight_loss_is_the_worst_of_every_pair(
    mechanism: Any, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, rows = claimed_loss(mechanism), mechanism.log_rows(np.arange(60))
    pairs = [
        (loss_by_hand(rows, x, z), claimed, x, z)
        for x in claim.protected.tolist()
        for z, claimed in enumerate(claim.rows(np.array([x]))[0].tolist())
        if x < z and np.isfinite(claimed)
    ]
    loss, _, x, z = max(pairs)
    share, one, other = max((loss / claimed, x, z) for loss, claimed, x, z in pairs)
    monkeypatch.setattr(exact, "_BYTES", memory)
    tight = tight_loss(mechanism)
    assert tight.loss == pytest.approx(loss) and tight.share == pytest.approx(share)
    assert set(tight.pair) == {f"w{x}", f"w{z}"}
    assert set(tight.share_pair) == {f"w{one}", f"w{other}"}
    assert tight.claimed == pytest.approx(claim.largest()) and tight.epsilon == mechanism.epsilon
    assert 0.2 < tight.loss / tight.claimed < tight.share + 1e-12 <= 1 + 1e-12


def test_the_tight_loss_is_that_of_the_algebra_on_two_words() -> None:
    """P(0|0) / P(0|1) = e^(eps d / 2) for words alike in all else: half the claim."""
    tight = tight_loss(SanText(embedding([[0.0], [3.0]]), epsilon=2.0))
    assert tight.loss == pytest.approx(3.0) and tight.claimed == pytest.approx(6.0)
    assert tight.share == pytest.approx(0.5)


def test_what_protects_no_pair_has_no_tight_loss() -> None:
    with pytest.raises(InvalidInput, match="custext-aggressive protects no pair of words"):
        tight_loss(CusText(CLOUD, epsilon=1.0, set_size=6))


def test_larger_vocabularies_are_audited_on_nearest_and_random_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "EVERY_PAIR", 50)
    mechanism, rng = SanText(CLOUD, epsilon=3.0), np.random.default_rng(1)
    audit = audit_exactly(mechanism, rng=rng, random_pairs=40)
    assert audit.pairs == 100 and audit.verdict == "not broken"
    assert audit.method == "exact, every nearest pair and 40 random ones"
    plus = SanTextPlus(CLOUD, epsilon=3.0, sensitive=np.arange(5, 60))
    assert audit_exactly(plus, rng=rng, random_pairs=0).pairs == 55
    wrong = CASES[0].wrong()
    assert audit_exactly(wrong, rng=rng, random_pairs=0).verdict == "broken"
    with pytest.raises(InvalidInput, match="rng: got None"):
        audit_exactly(mechanism)


def test_every_word_is_paired_with_its_nearest_neighbour() -> None:
    words = np.array([0, *range(7, 60)])
    first, second = exact.nearest_pairs(CLOUD.vectors, words)
    apart = np.linalg.norm(CLOUD.vectors[words][:, None] - CLOUD.vectors[words][None], axis=2)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_array_equal(second, words[apart.argmin(1)])
    np.testing.assert_array_equal(first, words)
    twins = embedding([[0.0], [0.0], [5.0]])
    assert exact.nearest_pairs(twins.vectors, np.arange(3))[1].tolist()[:2] == [1, 0]


def test_words_of_one_vector_break_no_claim() -> None:
    table = embedding(np.repeat(CLOUD.vectors[:20], 2, axis=0))
    audit = audit_exactly(SanText(table, epsilon=3.0))
    assert audit.verdict == "not broken" and tight_loss(SanText(table, epsilon=3.0)).share <= 1


def test_an_audit_without_a_claim_says_so() -> None:
    audit = audit_exactly(CusText(CLOUD, epsilon=1.0, set_size=6))
    assert (audit.pairs, audit.violations, audit.verdict) == (0, 0, "no claim")
    assert np.isnan(audit.worst_ratio) and audit.worst_pair == ("", "")


@pytest.mark.parametrize("group", [2, 3])
def test_a_map_tells_words_of_different_groups_apart(group: int) -> None:
    mapper = LossyMap.random(20, group, np.random.default_rng(1), fixed=np.array([0, 7]))
    audit, words = audit_map(mapper), mapper.inputs
    told = sum(
        mapper.representative[x] != mapper.representative[z] for x in words for z in words if x < z
    )
    assert audit.pairs == 18 * 17 // 2 and audit.verdict == "no claim"
    assert audit.setting == f"{18 // group} groups; {told} pairs told apart for certain"


def test_all_documents_of_a_few_sentences_are_compared() -> None:
    """Three sentences of five: 35 documents; neighbours share two."""
    case = next(each for each in CASES if each.flaw == "DeepCandidate with eps for eps / 2")
    mechanism, audit = case.right(), twin(case)
    documents = {tuple(sorted(each)) for each in np.ndindex(5, 5, 5)}
    pairs = [
        (one, other)
        for one in documents
        for other in documents
        if one < other
        and any(
            sorted(one[:i] + one[i + 1 :]) == sorted(other[:j] + other[j + 1 :])
            for i in range(3)
            for j in range(3)
        )
    ]
    assert audit.pairs == len(pairs)
    rows = {each: mechanism.log_probability(POOL[list(each)]) for each in documents}
    worst = max(np.abs(rows[one] - rows[other]).max() for one, other in pairs) / 2
    assert audit.worst_ratio == pytest.approx(worst)


def test_the_corners_of_dp_prompt_reach_the_tight_loss() -> None:
    audit = audit_next_token(clipped, LIMITS, 1.0, HOSTILE)
    assert audit.worst_ratio == pytest.approx(1.0) and audit.violations == 0
    none = audit_next_token(clipped, LIMITS, 1.0, np.empty((0, 4)))
    assert none.worst_ratio == pytest.approx(1.0)  # they are added
    idle = audit_next_token(clipped, LIMITS, 1.0, HOSTILE, claimed=2 * tight_token_loss(LIMITS, 1))
    assert idle.worst_ratio == pytest.approx(0.5)


def test_tem_reaches_words_that_gumbel_noise_in_float32_cannot() -> None:
    """Log-weights more than 19.5 apart are out of its reach: an output with no way to come, which
    another word gives, has an infinite loss. A uniform draw in float64 reaches 36.7."""
    table = embedding([[0.0], [1.0], [10.0]])
    tem = TEM(table, epsilon=5.0, beta=1e-11)
    assert tem.gamma > 10
    assert tem_by_gumbel(tem, 0, np.float32) == {0, 1} != tem_by_gumbel(tem, 0, np.float64)
    assert tem.sample(np.array([0]), Given(1 - 2.0**-53)).tolist() == [2]


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 50), (20, 50), (49, 50), (50, 50), (7, 10**6)])
@pytest.mark.parametrize("level", [0.025, 1e-7])
def test_bounds_are_those_of_clopper_and_pearson(k: int, n: int, level: float) -> None:
    """At the bound, what was seen or more extreme has just that probability."""
    low = float(sampled.lower_bound(np.array(k), n, level))
    high = float(sampled.upper_bound(np.array(k), n, level))
    assert low <= k / n <= high
    if k:
        assert stats.binom.sf(k - 1, n, low) == pytest.approx(level, rel=1e-4)
    else:
        assert low < 1e-200
    if k < n:
        assert stats.binom.cdf(k, n, high) == pytest.approx(level, rel=1e-4)
    else:
        assert high == 1


def test_an_audit_errs_no_more_often_than_it_says() -> None:
    """Two laws with a loss of exactly the claim: 2,000 audits at confidence 0.9, of which 200
    may call it broken; the bound on the count fails once in 10^6."""
    p = np.array([np.e, 1.0, 0.5]) / (1.5 + np.e)
    q = np.array([p[0] / np.e, 0, 0])
    q[1:] = (1 - q[0]) * p[1:] / p[1:].sum()
    rng, level, wrong = np.random.default_rng(2), sampled.bound_level(1, 0.9), 0
    for _ in range(2000):
        first, second = ((rng.multinomial(3000, p), rng.multinomial(3000, q)) for _ in range(2))
        wrong += sampled.examine(first, second, 1.0, level=level).loss > 1.0
    assert wrong <= stats.binom.isf(1e-6, 2000, 0.1)


def test_all_bounds_of_an_audit_share_its_chance_to_err() -> None:
    """200 pairs, two directions, three events, two bounds."""
    assert sampled.bound_level(200) == pytest.approx(0.001 / (200 * 12))
    assert sampled.bound_level(7, 0.9) == pytest.approx(0.1 / (7 * 12))


@pytest.mark.parametrize("flipped", [False, True])
def test_both_directions_of_a_pair_are_looked_at(flipped: bool) -> None:
    """Word 0 is nearly always kept; word 1 gives two outputs, alike often."""
    mechanism = SanText(embedding([[0.0], [1.0], [9.0]]), epsilon=1.0)
    counts = np.array([[99_999, 1, 0], [50_000, 50_000, 0]])
    half = counts[::-1] if flipped else counts
    assert audit_words(mechanism, Drawn(np.arange(2), half, half)).verdict == "broken"
    one_way = sampled.examine(tuple(counts), tuple(counts), 1.0, level=1e-6)  # type: ignore[arg-type]
    assert one_way.loss < 1


def test_choosing_and_judging_on_the_same_draws_is_caught() -> None:
    """Wrong: 200 outputs of one law for both inputs, judged on the draws that chose the set."""
    rng, level = np.random.default_rng(3), sampled.bound_level(1, 0.9)

    def broken(same: bool) -> float:
        count = 0
        for _ in range(300):
            drawn = rng.multinomial(4000, np.full(200, 1 / 200), size=4)
            halves = (drawn[0], drawn[1]), (drawn[2], drawn[3])
            finding = sampled.examine(halves[0], halves[0 if same else 1], 0.02, level=level)
            count += finding.loss > 0.02
        return count / 300

    assert broken(same=True) > 0.5 and broken(same=False) <= 0.1


def test_the_detectable_excess_is_what_is_detected_half_of_the_time() -> None:
    """Two outputs; the loss of the first is (1 + excess) times the claim."""
    draws, claim, level, share = 200_000, 1.5, sampled.bound_level(200), 0.5
    excess = sampled._excess(int(share * draws), draws, claim, level)
    assert 0.01 < excess < 0.1
    rng, caught = np.random.default_rng(4), {0.7: 0, 1.0: 0, 1.3: 0}
    for factor in caught:
        other = share * np.exp(-claim * (1 + factor * excess))
        for _ in range(200):
            halves = [[rng.multinomial(draws, [p, 1 - p]) for p in (share, other)] for _ in "12"]
            caught[factor] += sampled.examine(*halves, claim, level=level).loss > claim
    assert caught[0.7] < 60 and 40 < caught[1.0] < 160 and caught[1.3] > 140


def test_a_set_finds_what_no_single_output_shows() -> None:
    """Forty outputs that are each a little likelier: together they break the claim."""
    p, q = np.full(80, 1 / 80), np.full(80, 1 / 80)
    p[:40], p[40:], q[:40], q[40:] = 1.3 / 80, 0.7 / 80, 0.7 / 80, 1.3 / 80
    rng, level = np.random.default_rng(5), sampled.bound_level(200)
    first, second = ((rng.multinomial(20_000, p), rng.multinomial(20_000, q)) for _ in range(2))
    assert sampled.examine(first, second, 0.45, level=level).loss > 0.45 < np.log(1.3 / 0.7)
    singles = np.log(sampled.lower_bound(second[0], 20_000, level)) - np.log(
        sampled.upper_bound(second[1], 20_000, level)
    )
    assert singles.max() < 0.45


def test_a_support_that_differs_is_found() -> None:
    """Outputs of one input, three draws in a thousand, which the other never gives."""
    p, q = np.full(50, 0.3 / 25), np.full(50, 0.3 / 25)
    p[26:], q[26:] = 0.003 / 24, 0
    p[0], q[0] = 0.697, 0.7
    rng, level = np.random.default_rng(6), sampled.bound_level(200)
    first, second = ((rng.multinomial(60_000, p), rng.multinomial(60_000, q)) for _ in range(2))
    assert sampled.examine(first, second, 0.5, level=level).loss > 0.5


def test_draws_are_named_and_add_up() -> None:
    mechanism = MADLIB()
    words = np.array([3, 9])
    drawn = draw_words(mechanism, words, draws=5000, seed=1, label="a")
    assert drawn.draws == 5000 and drawn.first.shape == (2, 150)
    assert (drawn.first.sum(1) == 5000).all() and (drawn.second.sum(1) == 5000).all()
    again = draw_words(mechanism, words[::-1], draws=5000, seed=1, label="a")
    np.testing.assert_array_equal(again.first[::-1], drawn.first)
    for other in (
        drawn.second,
        draw_words(mechanism, words, draws=5000, seed=2, label="a").first,
        draw_words(mechanism, words, draws=5000, seed=1, label="b").first,
    ):
        assert (other != drawn.first).any(1).all()
    rng = stream(1, "audit", "a", 3, 0, 0)
    ids = mechanism.sanitize_ids(np.full(5000, 3), rng)
    np.testing.assert_array_equal(np.bincount(ids, minlength=150), drawn.first[0])


def test_parts_of_the_draws_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "DRAWS", 1000)
    drawn = draw_words(MADLIB(), [3], draws=2000, seed=1)
    assert drawn.draws == 2000
    assert (drawn.first % 2).any()  # equal parts would make all counts even
    assert draw_words(MADLIB(), [3], draws=2500, seed=1).draws == 2500


def test_the_plain_search_is_exact_but_for_near_ties() -> None:
    rng = np.random.default_rng(7)
    for table in (PLANE, normal_embedding(300, 50)):
        queries = rng.standard_normal((9000, table.dimension)) * 2
        plain, exactly = PlainSearch(table.vectors), ExactSearch(table.vectors)
        assert (plain.nearest(queries)[0] == exactly.nearest(queries)[0]).mean() > 0.999
        near, distance = plain.nearest(queries[:50], 3)
        expected = exactly.nearest(queries[:50], 3)
        np.testing.assert_array_equal(near, expected[0])
        np.testing.assert_allclose(distance, expected[1], rtol=1e-6)
        assert (plain.size, plain.dimension) == table.vectors.shape


def test_pairs_are_those_whose_loss_can_be_decided() -> None:
    mechanism = SanText(embedding([[0.0], [0.1], [1.0], [9.0]]), epsilon=1.0)
    counts = np.ones((4, 4), dtype=np.int64)
    audit = audit_words(mechanism, Drawn(np.arange(4), counts, counts))
    assert audit.pairs == 2 and audit.verdict == "undecided"  # w2 with w0 and w1; four draws
    far = audit_words(mechanism, Drawn(np.array([0, 3]), counts[:2], counts[:2]))
    assert far.pairs == 0 and far.verdict == "no claim"


def test_words_are_spread_around_one() -> None:
    mechanism = MADLIB()
    words = spread_words(mechanism, 6, around=20)
    assert words[0] == 20 and len(set(words.tolist())) == 6
    claim = claimed_loss(mechanism)
    near = np.argsort(claim.rows(np.array([20]))[0])[:24]
    assert set(words.tolist()) <= set(near.tolist())
    apart = claim.rows(words)[:, words]
    tried = at_most(mechanism, words)
    assert claimed_loss(tried).rows(words)[:, words].max() == pytest.approx(3.0)
    assert claimed_loss(tried).rows(words)[:, words].max() <= 3.0
    assert apart[np.triu_indices(6, 1)].min() > apart.max() / 6
    with pytest.raises(InvalidInput, match="count: got 1"):
        spread_words(mechanism, 1)
    with pytest.raises(InvalidInput, match="words: their largest claimed loss is inf"):
        at_most(CusText(CLOUD, epsilon=1.0, set_size=6), np.array([0, 1]))


def test_rounding_of_the_noise_is_no_event() -> None:
    """Beyond both means the last digits of the output show which mean was added to: cells whose
    edges cut there would find a loss of twice the claim, of the numbers and not of the law."""
    mechanism = TruncatedLaplace(Box(np.zeros(1), np.ones(1)), epsilon=2.0)
    ends, middle = np.array([[0.0], [1.0]]), np.array([[0.5]])
    audit = audit_laplace(mechanism, ends, draws=20_000, seed=7, kept=middle)
    assert audit.verdict == "not broken" and audit.worst_ratio > 0.9


def test_epsilons_of_laplace_are_such_that_draws_can_decide() -> None:
    for epsilon in (0.1, 5.0):
        with pytest.raises(InvalidInput, match="epsilon: got .* expected 0.3 to 3"):
            audit_laplace(TruncatedLaplace(BOX, epsilon=epsilon), CORNERS, draws=10, seed=1)


def tried(**changes: Any) -> Audit:
    plain: dict[str, Any] = {
        "mechanism": "santext", "setting": "eps 1", "claim": "c", "method": "exact", "pairs": 10,
        "draws": 0, "worst_ratio": 0.7, "worst_pair": ("a", "b"), "violations": 0,
    }  # fmt: skip
    return Audit(**plain | changes)


def test_verdicts() -> None:
    assert tried().verdict == "not broken"
    assert tried(violations=1, worst_ratio=1.2).verdict == "broken"
    assert tried(excess=0.2).verdict == "undecided"
    assert tried(excess=0.2, violations=1).verdict == "broken"
    assert tried(worst_ratio=np.nan, pairs=0).verdict == "no claim"
    for claimed in (0.7, np.nan):  # what is released follows another law than the one judged
        assert tried(worst_ratio=claimed, fit=LEVEL / 2).verdict == "broken"
        assert tried(worst_ratio=claimed, fit=LEVEL).verdict != "broken"
    assert tried(noise=(0.97, 1.02), caught_from=0.9).verdict == "not broken"
    for wrong in ((0.5, 0.99), (1.01, 1.2)):
        assert tried(noise=wrong, caught_from=0.9).verdict == "broken"
    assert tried(noise=(0.5, 1.6), caught_from=0.7).verdict == "undecided"


def test_tables_and_numbers() -> None:
    audits = [
        tried(),
        tried(worst_ratio=0.9, pairs=5),
        tried(mechanism="madlib", draws=100, excess=0.05),
        tried(mechanism="custext-aggressive", worst_ratio=np.nan, pairs=0),
    ]
    table = audit_table([*audits, tried(noise=(0.97, 1.02), caught_from=0.93)])
    assert table["verdict"].tolist() == [*["not broken"] * 3, "no claim", "not broken"]
    assert table["worst pair"].iloc[0] == "a / b" and table["fit of draws"].isna().all()
    assert table["noise"].tolist() == ["", "", "", "", "0.970 to 1.020"]
    numbers = audit_numbers(audits)
    expected = {"santext.worst_ratio": 0.9, "santext.pairs": 15.0, "madlib.draws": 100.0}
    for name, value in expected.items():
        assert numbers[f"audit.{name}"][0] == value
    assert "audit.custext-aggressive.worst_ratio" not in numbers
    read = tried(worst_ratio=9.0, violations=2, published=True)
    assert audit_numbers([*audits, read]) == numbers  # what is read is not what is claimed
    assert "audit.tem-allotted.pairs" in audit_numbers([tried(mechanism="tem, allotted")])
    assert audit_table([]).empty and audit_numbers([]) == {}


def test_audits_are_kept(tmp_path: Path) -> None:
    fitted = tried(fit=0.3, fit_draws=10, fit_gap=0.1, caught_from=0.9)
    unknown = tried(worst_ratio=np.inf, excess=np.inf, noise=(0.9, np.inf), caught_from=0.7)
    audits = [tried(), unknown, tried(worst_ratio=np.nan), fitted]
    write_audits(audits, tmp_path / "audits.json", {"seed": 7})
    reread = read_audits(tmp_path / "audits.json")
    for read, kept in zip(reread, audits, strict=True):
        assert plain(read) == plain(kept)
    assert np.isnan(reread[2].worst_ratio) and reread[3] == fitted
    assert json.loads((tmp_path / "audits.json").read_text())["seed"] == 7
    (tmp_path / "other.json").write_text('[{"a": 1}]')
    (tmp_path / "row.json").write_text('{"audits": [{"a": 1}]}')
    for name in ("other.json", "row.json", "none.json"):
        with pytest.raises(InvalidInput, match="expected (audits that write_audits|a row)"):
            read_audits(tmp_path / name)


def few_mutants(digest: str) -> list[dict[str, Any]]:
    return [{"flaw": "a", "caught": True}, {"flaw": "b", "caught": True}]


CACHES = (long._table, long.shared_words, long.prepared, long.working)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> Iterator[Path]:
    """Made-up tables in place of GloVe, and a folder in place of the repository's."""
    words = ["hockey", "soccer", "good", "great", "doctor", "nurse", *(f"w{i}" for i in range(94))]
    table = from_arrays("made up", words, np.random.default_rng(1).standard_normal((100, 6)))
    monkeypatch.setattr(long.embeddings, "load", lambda name: table)
    monkeypatch.setattr(long, "INPUTS", 4)
    monkeypatch.setattr(released, "WORDS", 10)  # whose draws are held against the law
    monkeypatch.setattr(long, "EXACT", (("tem", 2.4), ("custext-aggressive", 4.0)))
    monkeypatch.setattr(long, "TIGHT", (("tem", 2.4),))
    monkeypatch.setattr(long, "overstated", lambda: [("rantext", 6.0)])  # CluSanT's holds here
    monkeypatch.setattr(long, "PAIRS", (("hockey", "soccer"),))
    few = [
        replace(each, dimension=min(each.dimension, 3), words=60)
        for each in long.SETTINGS
        if each.dimension < 50
    ]
    monkeypatch.setattr(long, "SETTINGS", tuple(few))
    working = [replace(each, dimension=6, words=80) for each in long.WORKING]
    monkeypatch.setattr(long, "WORKING", tuple(working))
    monkeypatch.setattr(long, "WORKING_INPUTS", 10)
    monkeypatch.setattr(command, "mutants", few_mutants)
    monkeypatch.setattr(long, "toy", lambda name, seed: plain(tried(mechanism=name)))
    monkeypatch.setattr(long, "INSIDE", (("madlib", 13.0),))
    monkeypatch.setattr(command, "folder", lambda: tmp_path / "audits")
    for kept in CACHES:
        kept.cache_clear()
    yield tmp_path / "audits"
    for kept in CACHES:
        kept.cache_clear()


FEW = ["--draws", "2000", "--jobs", "1"]


def test_the_long_audits_write_both_files_and_go_on_from_what_is_kept(
    small_tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(FEW) == 1  # so few draws decide nothing
    said = capsys.readouterr().out
    assert "undecided" in said and "mutants caught: 2 of 2" in said and "sampled: 36 tasks" in said
    audits, record = read_audits(small_tables / "audits.json"), command.load("audits.json")
    assert {each.mechanism for each in audits} == {
        *WORD_LEVEL, "custext-aggressive", "2-random", "stencil", "punctuated-stencil",
        "deep-candidate", "dp-prompt", "truncated-laplace",
    } and all((each.violations > 0) == each.published for each in audits)  # fmt: skip
    mechanism, ids = long.prepared(long.SETTINGS[0])
    drawn = draw_words(mechanism, ids, draws=2000, seed=7, label="madlib 2")
    direct = audit_words(mechanism, drawn, setting=audits[-7].setting)
    assert audits[-7] == direct and "dimension 2" in direct.setting
    assert (record["mutants_caught"], record["mutants_tried"]) == (2, 2)
    stated = {each["mechanism"]: each for each in command.load("statements.json")["statements"]}
    losses = {row["mechanism"]: row["loss"] for row in record["tight"]}
    assert stated["tem"]["tight"] == pytest.approx(100 * losses["tem"])
    low = [
        r["low"] for r in record["certified"] if r["epsilon"] == 13 and r["mechanism"] == "madlib"
    ]
    assert stated["madlib"]["least"] == pytest.approx(100 * max(low))

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("made again")

    for name in ("draw_word", "audit_exactly", "tight_loss", "certified_losses", "audit_laplace",
                 "audit_noise"):  # fmt: skip
        monkeypatch.setattr(long, name, never)
    assert command.main(FEW) == 1
    again = command.load("audits.json")
    changing = ("seconds", "commit", "dirty")
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in record.items() if k not in changing
    }
    first = (small_tables / "statements.json").read_text()
    (small_tables / "statements.json").unlink()
    assert command.main(["--restate"]) == 0  # from what is kept, without any audit
    kept, made = (json.loads(t) for t in (first, (small_tables / "statements.json").read_text()))
    assert made["statements"] == kept["statements"] and command.load("audits.json") == again
    for other in (["sampled", "--draws", "2001"], ["exact", "--seed", "8"]):
        with pytest.raises(AssertionError, match="made again"):
            command.main([*other, "--jobs", "1"])
    monkeypatch.setattr(command, "code_digest", lambda: "other code")
    with pytest.raises(AssertionError, match="made again"):
        command.main(FEW)


def test_a_part_alone_writes_nothing(
    small_tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(["exact", "mutants", *FEW]) == 0
    assert "no claim" in capsys.readouterr().out and not small_tables.exists()
    missed = [{"flaw": "a", "caught": True}, {"flaw": "b", "caught": False}]
    monkeypatch.setattr(command, "mutants", lambda digest: missed)
    assert command.main(["mutants", *FEW]) == 1
    assert "mutants caught: 1 of 2" in capsys.readouterr().out


@pytest.mark.usefixtures("small_tables")
def test_a_broken_claim_or_an_error_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> dict[str, Any]:
        return plain(tried(violations=1))

    def lost(*_: Any) -> Any:
        raise InvalidInput("no table")

    for wrong in (broken, lost):
        monkeypatch.setattr(long, "exact", wrong)
        assert command.main(["exact", *FEW]) == 1


@pytest.mark.usefixtures("small_tables")
def test_what_is_kept_depends_on_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = long.code_digest()
    assert before == long.code_digest()
    monkeypatch.setattr(long, "CODE", long.CODE[:-1])
    assert long.code_digest() != before
    package = Path(long.__file__).parents[1]
    assert all(list(package.glob(pattern)) for pattern in long.CODE)


@pytest.mark.parametrize("name", long.TOYS)
def test_what_can_be_enumerated_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer draws than `make audit` takes: which of them are caught is asked of the mutants."""
    monkeypatch.setattr(long, "_table", lambda name: CLOUD)
    for module in (exact, released):  # of DeepCandidate and DP-Prompt
        monkeypatch.setattr(module, "DRAWS", 800)
    audit = audit_of(long.toy(name, 7))
    deterministic = "random" in name or "stencil" in name
    assert audit.mechanism == name and audit.verdict == (
        "no claim" if deterministic else "not broken"
    )
    assert audit.fit is not None and audit.fit >= LEVEL and audit.fit_draws > 0


def test_a_certain_loss_above_its_claim_is_a_broken_audit(
    small_tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"mechanism": "madlib", "word": "hockey", "other": "soccer", "epsilon": 13.0,
           "claimed": 4.0, "low": 4.5, "high": "inf", "kept": 0.9}  # fmt: skip
    assert long.breaches([row | {"low": 3.9}, row | {"low": "-inf"}]) == []
    (breach,) = long.breaches([row])
    assert (breach.verdict, breach.worst_ratio, breach.violations) == ("broken", 4.5 / 4, 1)
    assert breach.worst_pair == ("hockey", "soccer")

    monkeypatch.setattr(long, "certified", lambda *_: [row])
    assert command.main(["certified", *FEW]) == 1
    assert "broken" in capsys.readouterr().out and not small_tables.exists()


def missing(flaws: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What is named as catching a flaw, and is neither a case nor a test."""
    tests = {
        f"{path.name}::{name}"
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    known = tests | {case.flaw for case in CASES}
    return [name for names in flaws.values() for name in names or ("",) if name not in known]


def test_every_known_flaw_is_caught_by_a_case_or_a_test() -> None:
    assert missing(FLAWS) == []
    assert missing({"a": ("test_audits.py::test_none",), "b": ()}) == [
        "test_audits.py::test_none", ""
    ]  # fmt: skip


def test_the_record_of_the_mutants_is_that_of_the_audits() -> None:
    cases = [CASES[0], Case("none", CASES[0].audit, CASES[0].right, CASES[0].right)]
    wrong, right_one = verdicts(cases)
    assert wrong["caught"] and float(wrong["worst_ratio"]) > 1 and wrong["violations"] > 0
    assert not right_one["caught"] and right_one["violations"] == 0
    assert json.loads(json.dumps([wrong, right_one])) == [wrong, right_one]


VOCABULARY = ("the", "film", "is", "great", "n't", "3", "!", "it")
TABLE = from_arrays("tiny", VOCABULARY, np.random.default_rng(3).standard_normal((8, 2)))
NASTY = st.sampled_from(
    [
        "Xanadu", "don't", "DON’T", "can't've", "42", "3,000.50", "٣٤", "\u0301" * 40, "e\u0301",
        "\ud800", "\x00", "\u200b", "\u202e", "İ", "ß", "ﬁ", "字", "👩‍👧", "...", "_", "a_b", "'",
        "n't", "-1", "<unk>", "[MASK]", "\x1f", "\u2028", "word" * 50, "ǅ", "1e9", "½", "w\u0338",
    ]
)  # fmt: skip
HOSTILE_TEXT = st.lists(
    st.one_of(NASTY, st.sampled_from(VOCABULARY), st.text(st.characters(), max_size=8)), max_size=8
).flatmap(lambda parts: st.sampled_from([" ", "", "\n", "\u00a0"]).map(lambda by: by.join(parts)))


def public_length(text: str) -> int:
    """Words and numbers of a text, known or not: what the output shows."""
    index, tokens = set(VOCABULARY), Tokenizer(VOCABULARY).split(text)
    return sum(token[0].isalnum() or (token in index and len(token) > 1) for token in tokens)


def support(words: tuple[str, ...], possible: Any, text: str, policy: TokenPolicy) -> list[Any]:
    """Which words may come out at every position of a text.

    `possible`: (words, words) bool, which output an input may have.
    """
    corpus = Tokenizer(words, policy).encode([text])
    outputs = []
    for position, token in enumerate(corpus.ids.tolist()):
        if token == KEPT:
            outputs.append(frozenset([corpus.kept[position]]))
        else:  # an unknown word is any word, which is then sanitized
            can = possible.any(0) if token == UNKNOWN else possible[token]
            outputs.append(frozenset(np.array(words)[can].tolist()))
    return outputs


MECHANISMS = (SanText(TABLE, epsilon=4.0), TEM(TABLE, epsilon=4.0, beta=0.01))
POSSIBLE = [np.isfinite(each.log_rows(np.arange(8))) for each in MECHANISMS]


@settings(max_examples=EXAMPLES)
@given(HOSTILE_TEXT)
def test_fallback_all_texts_of_a_length_have_the_same_possible_outputs(text: str) -> None:
    plain = "film " * public_length(text)
    for possible in POSSIBLE:
        outputs = support(VOCABULARY, possible, text, PRIVATE)
        assert outputs == support(VOCABULARY, possible, plain, PRIVATE)
        assert all(each == frozenset(VOCABULARY) for each in outputs)


@settings(max_examples=max(1, EXAMPLES // 5))
@given(HOSTILE_TEXT)
def test_fallback_what_is_put_out_is_possible(text: str) -> None:
    madlib = Madlib(TABLE, epsilon=4.0)
    for mechanism in (*MECHANISMS, madlib):
        (output,) = mechanism.sanitize([text], np.random.default_rng(0))
        assert len(output.split()) == public_length(text)
        assert set(output.split()) <= set(VOCABULARY)


def leaks(policy: TokenPolicy, text: str) -> bool:
    plain = "film " * public_length(text)
    outputs = support(VOCABULARY, POSSIBLE[0], text, policy)
    return outputs != support(VOCABULARY, POSSIBLE[0], plain, policy)


@pytest.mark.parametrize(
    ("flaw", "options", "text"),
    [
        ("unknown words in clear", {"unknown": "keep"}, "the Xanadu"),
        ("unknown words vanish", {"unknown": "drop"}, "the Xanadu"),
        ("numbers in clear", {"numbers": "keep"}, "the 42"),
        ("numbers vanish", {"numbers": "drop"}, "the 42"),
        ("punctuation in clear", {"punctuation": "keep"}, "the , film"),
    ],
)
def test_a_policy_that_leaks_is_caught(flaw: str, options: dict[str, Any], text: str) -> None:
    assert leaks(TokenPolicy(name=flaw, **options), text)
    assert not leaks(PRIVATE, text)


def test_a_vocabulary_of_the_private_corpus_is_caught() -> None:
    """Released SanText and CusText: two corpora that differ in one rare word have vocabularies
    that do, and so outputs that only one of them can give."""

    def outputs(texts: list[str], table: Embedding, *, private: bool) -> set[str]:
        if private:
            seen = {word for text in texts for word in text.split()}
            table = table.subset(np.flatnonzero([word in seen for word in table.words]))
        mechanism = SanText(table, epsilon=1.0)
        possible = np.isfinite(mechanism.log_rows(np.arange(len(table))))
        return set().union(*support(table.words, possible, texts[0], PRIVATE))

    corpora = ["the film is it", "great"], ["the film is it", "it"]
    wrong, right_one = (
        [outputs(each, TABLE, private=p) for each in corpora] for p in (True, False)
    )
    assert wrong[0] != wrong[1]
    assert right_one[0] == right_one[1] == set(VOCABULARY)


def test_a_generator_shared_by_forked_workers_is_caught() -> None:
    """Released SanText: every worker starts with the same state.

    `test_parallel.py` has the right version. Nothing forks this process, whose threads a fork would
    not copy.
    """
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["streams"])  # what every worker is then a copy of
    with context.Pool(2, maxtasksperchild=1) as pool:  # a process per document
        draws = dict(pool.imap_unordered(by_shared_generator, range(6), chunksize=1))
    assert len(set(draws.values())) == 1


def test_every_pair_of_the_table_is_an_audit_of_its_own() -> None:
    """What one pass says of all pairs agrees with comparing all of them, output by output."""
    mechanism = SanText(normal_embedding(12, 3), epsilon=2.4)
    exact = audit_exactly(mechanism)
    few = replace(exact, setting="eps 2.4, 12 words", pairs=5, worst_ratio=0.1)
    value = {"mechanism": "santext", **plain(tight_loss(mechanism))}
    task = long.Task("tight", "santext", long.tight, ("santext", 2.4))
    other = long.Task("tight", "custext", long.tight, ("custext-conservative", 4.0))
    finished = {
        task: long.Done(value, 1.0, kept=False),
        other: long.Done(value | {"mechanism": "custext-conservative"}, 1.0, kept=False),
    }
    (audit,) = command.every_pair([few], finished)
    assert audit.pairs == exact.pairs == 66 and audit.verdict == "not broken"
    assert audit.worst_ratio == pytest.approx(exact.worst_ratio, rel=1e-12)
    assert set(audit.worst_pair) == set(exact.worst_pair)
    finished[task] = long.Done(value | {"share": 1.01}, 1.0, kept=False)
    assert command.every_pair([few], finished)[0].verdict == "broken"
