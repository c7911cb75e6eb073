"""Attacks on stencils: direct solves per document, hand-made tables, loops per token and candidate.

The weights come from `test_stencil.plain_weights`, sentences are enumerated as in
`test_noisy_channel`. Wrong versions stand beside the right ones where a plausible mistake would
give another number.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from helpers import ALARM, FloatArray, assert_form, ids, refused
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax
from test_ngrams import corpus as texts
from test_noisy_channel import (
    LAW,
    LEXICON,
    OBSERVED,
    SEEN,
    enumerated,
    model_of,
    plain_of,
    sentence_weight,
)
from test_stencil import both_forms, both_measures, corpora, plain_weights, windows

from textpriv.attacks import deconvolution
from textpriv.attacks.base import NONE, Attack, Guesses, Observed, hits_anywhere
from textpriv.attacks.calibration import Calibration, chosen, likeliest_factors
from textpriv.attacks.deconvolution import (
    Deconvolution,
    LanguageDeconvolution,
    Rehearsal,
    StencilSimulation,
    TokenInversion,
    singular_values,
    undone,
    watch,
)
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.data.tokens import Corpus
from textpriv.mechanisms.stencil import Measure, Stencil, TokenTable

FIXED = ids(0, 4)


def table_of(vectors: Any, measure: Measure = "cosine", fixed: Any = FIXED) -> TokenTable:
    return TokenTable(np.asarray(vectors, dtype=np.float64), fixed=ids(*fixed), measure=measure)


def random_table(
    size: int = 30, dimension: int = 6, seed: int = 0, measure: Measure = "cosine"
) -> TokenTable:
    rng = np.random.default_rng(seed)
    return table_of(rng.standard_normal((size, dimension)), measure)


def random_text(lengths: Any, size: int = 30, seed: int = 0, first: int = -2) -> Corpus:
    """Documents of these lengths; some tokens are special, some have no id."""
    drawn = np.random.default_rng(seed).integers(first, size, sum(lengths))
    kept = {place: "Anna" for place in np.flatnonzero(drawn == -2).tolist()}
    return Corpus(drawn, np.cumsum([0, *lengths]), kept)


def weights_by_hand(stencil: Stencil, text: Corpus) -> FloatArray:
    return plain_weights(
        text, stencil.table.fixed.tolist(), stencil.window, stencil.sigma, stencil.punctuated
    )


def mixtures_of(stencil: Stencil, text: Corpus) -> FloatArray:
    return weights_by_hand(stencil, text) @ stencil.table.vectors[text.ids]


@both_measures
def test_the_attack_is_right_where_every_output_is_its_mixture(measure: Measure) -> None:
    """A table that holds the mixtures of a text: the nearest token to each is the mixture."""
    small = Stencil(random_table(measure=measure))
    text = random_text([12, 1, 4, 25], seed=3, first=0)
    vectors = np.concatenate([small.table.vectors, mixtures_of(small, text)])
    vectors[30 + np.flatnonzero(~small.replaced(text))] = 100.0  # without a mixture
    stencil = Stencil(table_of(vectors, measure))
    observed = watch(stencil, text)
    assert observed.targets.tolist() == np.flatnonzero(small.replaced(text)).tolist()
    here = stencil.table.vectors[observed.corpus.ids[observed.targets]]
    np.testing.assert_allclose(here, mixtures_of(small, text)[observed.targets])
    truth = text.ids[observed.targets]
    assert Deconvolution(stencil, ridge=0.0).guess(observed).hits(truth).all()
    estimate = Deconvolution(stencil, ridge=0.0).estimate(observed)[observed.targets]
    np.testing.assert_allclose(estimate, stencil.table.vectors[truth], rtol=0, atol=1e-9)
    # A ridge shrinks the estimates, and the same position alone is no answer.
    shrunk = Deconvolution(stencil).estimate(observed)[observed.targets]
    assert np.linalg.norm(shrunk) < 0.95 * np.linalg.norm(estimate)
    assert TokenInversion(stencil.table).guess(observed).hits(truth).mean() < 0.7


@given(
    corpora(),
    windows,
    st.sampled_from([0.2, 0.8, 2.0, 50.0]),
    st.booleans(),
    st.sampled_from([0.01, 0.05, 3.0]),
    st.integers(0, 100),
)
def test_undone_is_the_direct_solution(
    text: Corpus, window: int, sigma: float, punctuated: bool, ridge: float, seed: int
) -> None:
    table = random_table(9, 3)
    stencil = Stencil(table, window=window, sigma=sigma, punctuated=punctuated)
    observed = watch(stencil, text)
    outputs = np.random.default_rng(seed).standard_normal((len(text.ids), 2))
    estimate, gain = undone(stencil, observed, outputs, ridge)
    expected, diagonal = np.zeros_like(outputs), np.zeros(len(outputs))
    every, replaced = weights_by_hand(stencil, text), stencil.replaced(text)
    for first, end in pairwise(text.offsets.tolist()):
        rows = first + np.flatnonzero(replaced[first:end])
        weights = every[rows][:, rows]
        left = weights.T @ weights + ridge * np.eye(len(rows))
        expected[rows] = np.linalg.solve(left, weights.T @ outputs[rows])
        diagonal[rows] = np.linalg.solve(left, weights.T @ weights).diagonal()
    np.testing.assert_allclose(estimate, expected, rtol=0, atol=1e-7)
    np.testing.assert_allclose(gain, diagonal, rtol=0, atol=1e-7)
    assert (gain >= 0).all() and (gain <= 1 + 1e-12).all()


@pytest.mark.parametrize("length", [5, 7, 9, 15])
def test_what_a_singular_map_loses_does_not_blow_up(length: int) -> None:
    stencil = Stencil(random_table(), window=3, punctuated=True)
    text = texts([[7] * length])
    weights = weights_by_hand(stencil, text)
    assert np.linalg.matrix_rank(weights) == length - 1
    values = singular_values(stencil, length)
    np.testing.assert_allclose(values, np.linalg.svd(weights)[1], rtol=0, atol=1e-9)
    outputs = np.random.default_rng(1).standard_normal((length, 2))
    estimate, gain = undone(stencil, watch(stencil, text), outputs, 0.0)
    inverse = np.linalg.pinv(weights, rcond=1e-10)
    np.testing.assert_allclose(estimate, inverse @ outputs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(gain, (inverse @ weights).diagonal(), rtol=0, atol=1e-9)


# Id 0 is special. By direction 1 and 5 are equal; from 1 on tokens lie ever farther from 1.
FAN = [[0, 9], [1, 0], [9, 1], [5, 5], [0, 3], [2, 0]]
LINE = [[0.0], [1.0], [2.0], [4.0], [8.0], [1.0]]


def inverted(table: TokenTable, seen: list[int], skip: bool, top: int) -> Guesses:
    observed = Observed(texts([seen]), np.ones(len(seen), dtype=bool))
    return TokenInversion(table, skip=skip).guess(observed, top=top)


def test_inversion_by_hand() -> None:
    line = table_of(LINE, "euclidean", fixed=(0,))
    guesses = inverted(line, [3, 1, 3], False, 3)
    assert guesses.words.tolist() == [[3, 2, 1], [1, 5, 2], [3, 2, 1]]
    assert guesses.scores.tolist() == [[0, -2, -3], [0, 0, -1], [0, -2, -3]]
    skipped = inverted(line, [3, 1, 3], True, 3)
    assert skipped.words.tolist() == [[2, 1, 5], [5, 2, 3], [2, 1, 5]]
    assert skipped.scores.tolist() == [[-2, -3, -3], [0, -1, -3], [-2, -3, -3]]
    directions = table_of(FAN, fixed=(0,))
    assert inverted(directions, [2], True, 5).words.tolist() == [[1, 5, 3, 4, NONE]]


def test_tokens_that_share_a_vector() -> None:
    """Of 5, 1 comes first; what is left out is 5 all the same."""
    line = table_of(LINE, "euclidean", fixed=(0,))
    assert inverted(line, [5], False, 2).words.tolist() == [[1, 5]]
    assert inverted(line, [5], True, 2).words.tolist() == [[1, 2]]
    # So many that the observed one is not among the nearest.
    same = table_of(np.ones((6, 2)), fixed=(0,))
    assert inverted(same, [5], True, 2).words.tolist() == [[1, 2]]
    assert inverted(same, [2], True, 2).words.tolist() == [[1, 3]]


@given(st.integers(0, 1000))
def test_anywhere_is_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = random_text([4, 0, 1, 6], seed=seed, first=0)
    targets = np.flatnonzero(rng.random(11) < 0.7)
    words = rng.integers(-1, 8, (len(targets), 3))
    truth = rng.integers(-1, 10, len(targets))
    hits = hits_anywhere(Guesses(words, np.zeros(words.shape)), text, targets, truth)
    for row, position in enumerate(targets):
        same = text.document[targets] == text.document[position]
        assert hits[row] == (truth[row] >= 0 and truth[row] in words[same])


class Rigged(Stencil):
    """Answers with the last tokens of its table, the mixtures of one text with a known error."""

    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        first = self.size - len(corpus.ids)
        last = first + np.arange(len(corpus.ids))
        return corpus.with_ids(np.where(self.replaced(corpus), last, corpus.ids))


def rigged(
    scale: float, law: FloatArray, seed: int = 0, words: int = 3000
) -> tuple[Rigged, Corpus, FloatArray]:
    """scale * output = mixture + error, both centred; the rows of the error follow N(0, law)."""
    rng = np.random.default_rng(seed)
    text = random_text([words // 20] * 20, seed=seed, first=0)
    own = rng.standard_normal((30, len(law))) + 3.0  # a mean that must be taken off
    plain = Stencil(table_of(own))
    replaced = plain.replaced(text)
    mean = own[text.ids[replaced]].mean(0)
    mixtures = weights_by_hand(plain, text) @ (own - mean)[text.ids]
    error = rng.multivariate_normal(np.zeros(len(law)), law, words)
    outputs = mean + (mixtures + error) / scale
    made = Rigged(table_of(np.concatenate([own, outputs])))
    return made, text, mixtures[replaced]


def test_rehearsal_recovers_the_scale() -> None:
    """With mixtures m and an isotropic error e it is the true one / (1 + sum m e / sum m^2).

    The ratio is normal. False alarm at most ALARM.
    """
    scale, noise, dimension = 0.6, 0.5, 4
    stencil, text, mixtures = rigged(scale, noise * np.eye(dimension))
    rehearsal = Rehearsal.learn(stencil, text)
    power, count = float((mixtures**2).sum()), mixtures.size
    reach = float(stats.norm.isf(ALARM / 2)) * np.sqrt(noise / power)
    assert reach < 0.1
    assert scale / (1 + reach) <= rehearsal.scale <= scale / (1 - reach)
    # Backwards, from outputs to mixtures, it would be pulled towards 0.
    assert scale * power / (power + count * noise) < scale / (1 + reach) - 0.05


def test_whitening() -> None:
    """A mapping by the inverse root of the error's law plus its mean, from the same data."""
    law = np.diag([4.0, 1.0, 0.01]) + 0.05
    stencil, text, mixtures = rigged(0.6, law)
    rehearsal = Rehearsal.learn(stencil, text)
    replaced = stencil.replaced(text)
    centered = stencil.table.vectors - stencil.table.vectors[text.ids[replaced]].mean(0)
    error = rehearsal.scale * centered[watch(stencil, text).corpus.ids[replaced]] - mixtures
    second = error.T @ error / len(error)
    # The error is what was drawn, but for the error of the scale: of 3,000 rows, within a tenth.
    np.testing.assert_allclose(np.trace(second), np.trace(law), rtol=0.1)
    mapping = np.linalg.inv(scipy.linalg.sqrtm(second + np.trace(second) / 3 * np.eye(3)))
    np.testing.assert_allclose(rehearsal.points, centered @ mapping, rtol=0, atol=1e-9)
    assert rehearsal.noise == pytest.approx(np.trace(mapping @ second @ mapping) / 3)
    own = rehearsal.points[text.ids[replaced]]
    assert rehearsal.spread == pytest.approx((own**2).mean())
    powers = np.linalg.eigvalsh(mapping @ second @ mapping)
    assert powers[-1] / powers[0] < 0.5 * np.linalg.cond(second)


def made_up(stencil: Stencil) -> Rehearsal:
    return Rehearsal(points=stencil.table.vectors - 0.25, scale=0.7, noise=0.3, spread=1.5)


def model_from(documents: list[list[int]], size: int, order: int) -> NGrams:
    return NGrams.train(Lexicon(size), [texts(documents)], order=order)


def even(size: int = 30) -> NGrams:
    """A language model to which all words are alike."""
    return NGrams(Lexicon(size), np.ones(size + 2), [])


@both_forms
def test_candidates_are_all_that_a_model_chooses_from(punctuated: bool) -> None:
    stencil = Stencil(random_table(), punctuated=punctuated)
    observed = watch(stencil, random_text([9, 9]))
    for model in (even(), model_from([[1, 2, 3]], 30, 2)):
        attack = LanguageDeconvolution(stencil, made_up(stencil), model, candidates=3)
        guesses = attack.guess(observed, top=5)
        words, evidence, possible = attack.evidence(observed)
        assert words.shape == (len(observed.targets), 5)  # three of one estimate, two of the other
        for guessed, row, allowed in zip(guesses.words, words, possible, strict=True):
            assert sorted(guessed[guessed != NONE]) == sorted(row[allowed])
        np.testing.assert_allclose(guesses.scores.clip(0).sum(1), 1)
        if model.order == 1:
            expected = softmax(np.where(possible, 0.3 * evidence[:, :, 2], -np.inf), axis=1)
            np.testing.assert_allclose(guesses.scores[:, 0], expected.max(1), rtol=1e-6)
    # No more than there are; and one alone is not ruled out.
    small = Stencil(random_table(8, 3), punctuated=punctuated)
    few, single = (
        LanguageDeconvolution(small, made_up(small), even(8), candidates=each) for each in (50, 1)
    )
    seen = watch(small, texts([[1, 2, 3], [5, 6, 7, 3, 2, 1, 5, 6]]))
    assert few.evidence(seen)[0].shape == (11, 12)
    assert (single.guess(seen, top=2).words[:, 0] != NONE).all()


@both_measures
def test_an_output_that_must_differ_is_no_guess(measure: Measure) -> None:
    """The next nearest come in its place, and stay as many."""
    table, text = random_table(8, 3, measure=measure), random_text([15, 1, 6], size=8, first=0)
    for change in (True, False):
        stencil = Stencil(table, change=change)
        observed = watch(stencil, text)
        attack = Deconvolution(stencil, ridge=3.0)
        output = observed.corpus.ids[observed.targets]
        guesses = attack.guess(observed, top=6)
        near, distance = table.nearest(attack.estimate(observed)[observed.targets], 6)
        for row, seen in enumerate(output.tolist()):
            allowed = [each for each in range(6) if not change or near[row, each] != seen]
            expected = near[row, allowed].tolist()
            assert guesses.words[row].tolist() == expected + [NONE] * change
            assert (
                guesses.scores[row, : len(allowed)].tolist() == (-distance[row, allowed]).tolist()
            )
        assert (attack.guess(observed, top=3).words == guesses.words[:, :3]).all()


POSSIBLE = LAW.copy()
POSSIBLE[0, 2] = POSSIBLE[2, 0] = 0.0  # no sentence has these
SENTENCES = np.tile([2, 0, 1], (len(OBSERVED.targets), 1))


def chosen_of(model: NGrams) -> Guesses:
    with np.errstate(divide="ignore"):
        known = np.log(POSSIBLE[SENTENCES, SEEN.ids[OBSERVED.targets][:, None]])
    shifted = known + np.arange(len(known))[:, None] * 300.0  # up to a factor per token
    candidates = chosen(SENTENCES, shifted, OBSERVED, model, 1.0)
    assert np.diff(candidates.offsets).min() > 0
    token = np.repeat(np.arange(len(SEEN.ids)), candidates.counts)
    np.testing.assert_allclose(np.bincount(token, candidates.posterior), 1)
    clear = ~OBSERVED.sanitized
    assert (candidates.counts[clear] == 1).all()
    assert (
        candidates.words[candidates.offsets[:-1][clear]].tolist()
        == LEXICON.ids(SEEN)[clear].tolist()
    )
    return candidates.guesses(OBSERVED.targets, 3)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_chosen_sums_over_all_sentences(order: int) -> None:
    """Words in clear, a known and an unknown name among them, count as they are."""
    reference = plain_of(order)
    expected, _ = enumerated(OBSERVED, POSSIBLE, lambda s: sentence_weight(reference, s, 1.0))
    assert min(min(law.values()) for law in expected.values()) == 0.0
    guesses = chosen_of(model_of(order))
    for row, law in enumerate(expected.values()):
        possible = {word: share for word, share in law.items() if share > 0}
        assert by_token(guesses, row) == pytest.approx(possible, rel=1e-9)
        assert (guesses.words[row] != NONE).sum() == len(possible)


def chain(documents: int, seed: int, law: int = 0, size: int = 200, length: int = 20) -> Corpus:
    """Texts of a Markov chain; `law` is the chain."""
    follow = np.random.default_rng(law).dirichlet(np.full(size, 0.3), size).cumsum(1)
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, size, documents)]
    for _ in range(length - 1):
        drawn = (follow[rows[-1]] < rng.random((documents, 1))).sum(1)
        rows.append(np.minimum(drawn, size - 1))
    return Corpus(np.stack(rows, axis=1).ravel(), np.arange(documents + 1) * length)


@pytest.fixture(scope="module")
def unequal() -> Stencil:
    """A punctuated stencil on tokens of very unequal lengths, which a cosine does not see."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((200, 24)) * np.exp(rng.standard_normal((200, 1)))
    return Stencil(TokenTable(vectors), window=5, sigma=1.0, punctuated=True)


@pytest.mark.parametrize(("law", "least"), [(0, 0.04), (9, -0.02)])
def test_a_true_language_model_adds_first_guesses(unequal: Stencil, law: int, least: float) -> None:
    """As does what the rehearsal teaches, once it is calibrated; a false one (9) is not heard."""
    model = NGrams.train(Lexicon(200), [chain(400, 2, law=law)], order=2)
    start = LanguageDeconvolution(
        unequal, Rehearsal.learn(unequal, chain(60, 3)), model, candidates=30
    )
    calibrated = start.calibrated(chain(60, 4))
    private = chain(60, 5)
    observed = watch(unequal, private)
    ridge, new = (
        attack.guess(observed, top=1).hits(private.ids)
        for attack in (Deconvolution(unequal), calibrated)
    )
    # About 1,200 tokens: a standard error below 0.02 of the difference.
    assert new.mean() > ridge.mean() + least
    weight = calibrated.calibration.weight
    assert weight < 1 if law else weight > 0


def test_factors_in_closed_form() -> None:
    """Of two candidates, one with the sign: the log odds that it is the truth."""
    evidence = np.tile([[[1.0], [0.0]]], (1000, 1, 1))
    true = np.repeat([0, 1], [800, 200])
    factors = likeliest_factors(evidence, np.zeros((1000, 2)), true)
    assert factors == pytest.approx([np.log(4)], rel=0.02)
    # What the prior says already the sign need not say; what cannot be does not count.
    prior = np.tile(np.log([0.8, 0.2]), (1000, 1))
    assert likeliest_factors(evidence, prior, true) == pytest.approx([0], abs=1e-3)
    third = np.concatenate([evidence, np.full((1000, 1, 1), 50.0)], axis=1)
    prior = np.tile([0.0, 0.0, -np.inf], (1000, 1))
    assert likeliest_factors(third, prior, true) == pytest.approx([np.log(4)], rel=0.1)


@both_forms
@both_measures
def test_evidence_is_the_loop(measure: Measure, punctuated: bool) -> None:
    table = random_table(measure=measure)
    stencil = Stencil(table, punctuated=punctuated)
    observed = watch(stencil, random_text([6, 1, 14]))
    known = made_up(stencil)
    attack = LanguageDeconvolution(stencil, known, even(), candidates=6)
    words, evidence, possible = attack.evidence(observed)
    assert words.shape == possible.shape == (len(observed.targets), 9)
    solved = Deconvolution(stencil).estimate(observed)[observed.targets]
    assert (words[:, 6:] == table.nearest(solved, 3)[0]).all()
    outputs = 0.7 * known.points[observed.corpus.ids]
    estimate, gain = undone(stencil, observed, outputs, 0.3 / 1.5)
    for row, place in enumerate(observed.targets):
        u, variance = estimate[place] / gain[place], 1.5 * (1 / gain[place] - 1)
        for column, word in enumerate(words[row].tolist()):
            p, vector, ridge = known.points[word], table.vectors[word], solved[row]
            if measure == "cosine":
                vector, ridge = vector / np.linalg.norm(vector), ridge / np.linalg.norm(ridge)
            expected = [
                -((vector - ridge) ** 2).sum() / 2,
                u @ p / np.linalg.norm(u) / np.linalg.norm(p),
                -((u - p) ** 2).sum() / (2 * variance),
                -(p**2).sum() / (2 * variance),
            ]
            np.testing.assert_allclose(evidence[row, column], expected, rtol=1e-6, atol=1e-9)
            first = word not in words[row, :column]
            output = observed.corpus.ids[place]
            assert possible[row, column] == (first and (punctuated or word != output))


def test_the_ridge_alone_is_among_the_choices() -> None:
    """With its factor alone the first guesses are those of `Deconvolution`."""
    stencil = Stencil(random_table(), punctuated=True)
    observed = watch(stencil, random_text([9, 9, 4]))
    alone = Calibration(np.array([5.0, 0, 0, 0]), 0.0)
    model = model_from([[1, 2, 3], [5, 3, 2, 6]], 30, 2)
    attack = LanguageDeconvolution(stencil, made_up(stencil), model)
    attack.calibration = alone
    expected = Deconvolution(stencil).guess(observed, top=3).words
    np.testing.assert_array_equal(attack.guess(observed, top=3).words, expected)


def simulation(stencil: Stencil, model: NGrams | None = None, **changed: Any) -> StencilSimulation:
    text = random_text([20] * 10, size=stencil.size, seed=9, first=0)
    known = Rehearsal.learn(stencil, text)
    made = StencilSimulation(LanguageDeconvolution(stencil, known, model or even(stencil.size)))
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def nearness(table: TokenTable, one: FloatArray, other: FloatArray) -> float:
    if table.measure == "euclidean":
        return -float(((one - other) ** 2).sum()) / 2
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def plain_likelihoods(
    attack: StencilSimulation, text: Corpus, observed: Observed, words: Any, believed: FloatArray
) -> FloatArray:
    """One token, candidate, output and rival after the other."""
    stencil, table = attack.stencil, attack.table
    rows = observed.targets.tolist()
    weights = weights_by_hand(stencil, text)
    result = np.zeros(words.shape)
    for (row, token), column in product(enumerate(rows), range(words.shape[1])):
        candidate = int(words[row, column])
        vectors = {place: believed[each] for each, place in enumerate(rows)}
        vectors[token] = table.vectors[candidate]
        for place in rows:
            if weights[place, token] < attack.least_weight:
                continue
            output = int(observed.corpus.ids[place])
            mixture = sum(weights[place, each] * vectors[each] for each in rows)
            here = table.vectors[output]
            near = {int(each): nearness(table, table.vectors[each], here) for each in table.inputs}
            if table.measure == "cosine":  # the search compares scaled vectors
                assert near[output] == pytest.approx(1)
            rivals = sorted(near, key=lambda each: -near[each])[: attack.rivals]
            if place == token and (stencil.change or stencil.punctuated):
                rivals = [each for each in rivals if each != candidate]
            if output not in rivals:
                result[row, column] = -np.inf
                continue
            scores = {r: attack.sharpness * nearness(table, mixture, table.vectors[r])  # type: ignore[arg-type]
                      for r in rivals}  # fmt: skip
            result[row, column] += scores[output] - np.logaddexp.reduce(list(scores.values()))
    return result


@both_forms
@both_measures
@pytest.mark.parametrize("change", [None, False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_likelihoods_are_the_loop(
    punctuated: bool, measure: Measure, change: bool | None, kind: Any
) -> None:
    vectors = np.random.default_rng(4).standard_normal((11, 3)).astype(kind)
    table = TokenTable(vectors, fixed=FIXED, measure=measure)
    stencil = Stencil(table, window=5, sigma=0.9, punctuated=punctuated, change=change)
    text = random_text([7, 1, 2, 4], size=11, seed=6)  # one document has one token
    observed = watch(stencil, text)
    attack = simulation(stencil, sharpness=7.0, rivals=4)
    rng = np.random.default_rng(1)
    words = rng.choice(table.inputs, (len(observed.targets), 6))
    words[:, 0] = observed.corpus.ids[observed.targets]
    believed = rng.standard_normal((len(words), 3))
    expected = plain_likelihoods(attack, text, observed, words, believed)
    likelihoods = attack.likelihoods(observed, words, believed, attack.near(observed, 4))
    np.testing.assert_allclose(likelihoods, expected, rtol=1e-4, atol=1e-4)
    must = stencil.change or punctuated
    assert np.isneginf(likelihoods).any() == must and np.isfinite(likelihoods).any(1).all()


def test_likelihoods_do_not_depend_on_how_many_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stencil = Stencil(random_table())
    observed = watch(stencil, random_text([9, 3, 15]))
    attack = simulation(stencil)
    words, _ = attack.propose(observed, attack.start.evidence(observed)[0])
    believed = stencil.table.vectors[observed.corpus.ids[observed.targets]]
    given = observed, words, believed, attack.near(observed, attack.rivals)
    together = attack.likelihoods(*given)
    monkeypatch.setattr(deconvolution, "_PAIRS", 3)
    np.testing.assert_allclose(attack.likelihoods(*given), together, atol=1e-3)


FIVE = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.2], [0.3, -1.0], [0.8, 0.9]]


def five(**changed: Any) -> Stencil:
    return Stencil(table_of(FIVE, fixed=()), window=3, **changed)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("sharpness", [3.0, 1e4])
@both_forms
def test_what_is_ruled_out_never_comes_out(punctuated: bool, sharpness: float, order: int) -> None:
    """Among five tokens, ten candidates: half of them twice, and one was the output."""
    stencil = five(punctuated=punctuated)
    model = model_from([[0, 1, 2, 3, 4], [1, 1, 0]], 5, order)
    text = random_text([6, 3, 1, 8], size=5, seed=2, first=0)
    observed = watch(stencil, text)
    attack = simulation(stencil, model, sharpness=sharpness)
    output = observed.corpus.ids[observed.targets]
    words, possible = attack.propose(observed, attack.start.evidence(observed)[0])
    for row, allowed, seen in zip(words, possible, output, strict=True):
        expected = set(range(5)) - (set() if punctuated else {int(seen)})
        assert sorted(row[allowed].tolist()) == sorted(expected)
    guesses = attack.guess(observed, top=6)
    for row, seen in zip(guesses.words.tolist(), output.tolist(), strict=True):
        guessed = [word for word in row if word != NONE]
        assert len(guessed) == len(set(guessed)) >= 4
        assert punctuated or seen not in guessed
    held = guesses.scores.clip(0).sum(1)
    np.testing.assert_allclose(held, 1, rtol=0, atol=1e-6)
    # A token that stands alone is never its own output, not even in the punctuated form.
    single = np.flatnonzero(np.diff(text.offsets)[text.document] == 1)
    assert output[single] not in guesses.words[single]


def test_simulation_finds_what_nearest_tokens_cannot() -> None:
    """Of all texts of three among five tokens, and of one in particular."""
    stencil = five()
    every = texts([list(each) for each in product(range(5), repeat=3)])
    observed = watch(stencil, every)
    simulated = simulation(stencil).guess(observed).hits(every.ids)
    near = TokenInversion(stencil.table).guess(observed).hits(every.ids)
    assert simulated.mean() > near.mean() + 0.15
    whole = simulated.reshape(-1, 3).all(1) & ~near.reshape(-1, 3).any(1)
    assert whole.any()  # every token of a text, where the nearest token is wrong throughout


def by_token(guesses: Guesses, row: int) -> dict[int, float]:
    pairs = zip(guesses.words[row].tolist(), guesses.scores[row].tolist(), strict=True)
    return {word: score for word, score in pairs if word != NONE}


def test_a_round_starts_from_the_mean_of_the_last_one() -> None:
    """Two rounds by hand: the mean vectors that are believed, then the likelihoods."""
    stencil = five()
    observed = watch(stencil, texts([[0, 3, 1, 2], [4, 1]]))
    guesses = simulation(stencil).start.guess(observed, top=5)
    for rounds in (1, 2):
        attack = simulation(stencil, rounds=rounds, candidates=3)
        words, possible = attack.propose(observed, attack.start.evidence(observed)[0])
        laws = [by_token(guesses, row) for row in range(len(words))]
        believed = np.array(
            [
                sum(share * stencil.table.vectors[word] for word, share in law.items())
                for law in laws
            ]
        )
        rivals = attack.near(observed, attack.rivals)
        log_likelihood = attack.likelihoods(observed, words, believed, rivals)
        before, guesses = guesses, attack.guess(observed, top=6)
        for row, allowed in enumerate(possible):
            expected = softmax(log_likelihood[row, allowed])
            law = by_token(guesses, row)
            assert law.keys() == set(words[row, allowed].tolist())
            for word, share in zip(words[row, allowed].tolist(), expected, strict=True):
                assert law[word] == pytest.approx(share, abs=1e-6)
        assert not np.array_equal(guesses.scores[:, :5], before.scores)


def every_attack(stencil: Stencil) -> list[Attack]:
    model = model_from([[1, 2, 3], [5, 3, 2, 6]], stencil.size, 3)
    known = made_up(stencil)
    return [
        TokenInversion(stencil.table),
        TokenInversion(stencil.table, skip=False),
        Deconvolution(stencil),
        LanguageDeconvolution(stencil, known, model),
        StencilSimulation(LanguageDeconvolution(stencil, known, model)),
    ]


@both_forms
@both_measures
def test_form(measure: Measure, punctuated: bool) -> None:
    stencil = Stencil(random_table(measure=measure), punctuated=punctuated)
    observed = watch(stencil, random_text([5, 0, 1, 9, 3]))
    for attack in every_attack(stencil):
        guesses = assert_form(attack, observed, top=4, chosen=[3, 0, 3])
        assert not np.isin(guesses.words, stencil.table.fixed).any()
        assert (np.diff(guesses.scores, axis=1) <= 0).all()
        if attack.posterior:
            assert (guesses.scores >= 0).all() and (guesses.scores.sum(1) <= 1 + 1e-9).all()


@both_forms
def test_texts_without_replaced_tokens(punctuated: bool) -> None:
    stencil = Stencil(random_table(), punctuated=punctuated)
    for text in (texts([]), texts([[], []]), texts([[0, 4], [0]])):
        for attack in every_attack(stencil):
            assert attack.guess(watch(stencil, text), top=2).words.shape == (0, 2)


MADE = Stencil(random_table())
KNOWN = made_up(MADE)
by_language: Any = partial(LanguageDeconvolution, MADE)

test_bad_settings = refused(
    (lambda: by_language(KNOWN, even()).calibrated(texts([[0, 4], [0]])), "public: got no token"),
    (lambda: singular_values(MADE, 0), "length: got 0"),
    (lambda: by_language(KNOWN, model_of(2)), "model: got a vocabulary of 4, expected 30"),
)
