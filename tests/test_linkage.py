"""Linkage: BM25 by hand, ranks and ties, and an epsilon per text that is never claimed in vain."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from helpers import refused
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import beta, binom

from textpriv.attacks import linkage
from textpriv.attacks.pairs import WordPairs

TEXTS = ["the cat sat", "the dog ran far away", "a bird sang"]


def test_bm25_by_hand() -> None:
    scores = linkage.bm25(TEXTS, ["cat the", "nothing known"])
    rarity = {"cat": np.log(1 + 2.5 / 1.5), "the": np.log(1 + 1.5 / 2.5)}
    mean = (3 + 5 + 3) / 3  # words of each text

    def once(length: int) -> float:
        return 2.5 / (1 + 1.5 * (0.25 + 0.75 * length / mean))

    expected = [sum(rarity.values()) * once(3), rarity["the"] * once(5), 0.0]
    np.testing.assert_allclose(scores[0], expected)
    np.testing.assert_array_equal(scores[1], 0.0)


@pytest.mark.parametrize("attack", [linkage.bm25, linkage.letters])
def test_a_text_is_linked_to_itself_and_without_a_word_to_none(attack: Any) -> None:
    assert linkage.linked(attack(TEXTS, TEXTS)).value == 1.0
    np.testing.assert_array_equal(linkage.ranks_of_truth(attack(TEXTS, TEXTS)), 1.0)
    np.testing.assert_array_equal(attack(["", " "], ["", "a word"]), 0.0)


def test_vectors_are_compared_about_the_candidates_mean() -> None:
    known = np.array([[1.0, 5.0], [-1.0, 5.0], [0.0, 8.0], [0.0, 2.0]])
    np.testing.assert_allclose(
        linkage.by_vectors(known, known[:1]), [[1.0, -1.0, 0.0, 0.0]], atol=1e-12
    )
    seen = np.array([[2.0, 5.0], [2.0, 5.0], [0.0, 5.0], [1.0, 4.0]])
    own = np.diagonal(linkage.by_vectors(known, seen))
    np.testing.assert_allclose(linkage.meaning_kept(known, seen), own, atol=1e-12)


def test_ties_are_broken_by_drawing() -> None:
    scores = np.array([[2.0, 2.0, 1.0], [0.0, 0.0, 0.0], [9.0, 3.0, 5.0]])
    np.testing.assert_allclose(linkage.ranks_of_truth(scores), [1.5, 2.0, 2.0])
    np.testing.assert_allclose(linkage.named_first(scores), [0.5, 1 / 3, 0.0])
    assert linkage.linked(scores).value == pytest.approx(5 / 18)


@pytest.mark.parametrize("outputs", [5, 4])
def test_matching_succeeds_nearly_as_often_as_all_ways_to_match_allow(outputs: int) -> None:
    """The exact chances of five texts, over every permutation, beside those of who is asked.

    Who looks at one output at a time is caught.
    """
    ways = np.array([way[:outputs] for way in itertools.permutations(range(5))])
    rows, success = np.arange(outputs), []
    for seed in range(200):
        law = np.random.default_rng(seed).normal(scale=1.5, size=(outputs, 5))
        weight = np.exp(law[rows, ways].sum(1))
        chance = np.array([np.bincount(way, weight, minlength=5) for way in ways.T]) / weight.sum()
        asked = chance, linkage.by_matching(law), linkage.by_likelihood(law)
        success.append([chance[rows, scores.argmax(1)].mean() for scores in asked])
    best, matched, alone = np.mean(success, axis=0)
    assert best - 0.01 < matched <= best and alone < best - 0.05


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_no_text_is_matched_more_than_once(seed: int, outputs: int) -> None:
    chances = np.exp(linkage.by_matching(np.random.default_rng(seed).normal(size=(outputs, 6))))
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-9)
    assert chances.sum(0).max() < 1 + 1e-3


def test_a_text_that_two_outputs_claim_goes_to_the_surer() -> None:
    law = np.log([[0.6, 0.4, 0.1], [0.9, 0.05, 0.1]])
    assert linkage.by_likelihood(law).argmax(1).tolist() == [0, 0]
    assert linkage.by_matching(law).argmax(1).tolist() == [1, 0]


def test_matching_names_by_chance_where_outputs_tell_nothing() -> None:
    """The right text of every output stands in its own place: ties must not go there."""
    assert linkage.linked(linkage.by_matching(np.zeros((40, 40)))).value == pytest.approx(1 / 40)
    none = np.full((40, 40), -np.inf)
    assert linkage.linked(linkage.by_matching(none)).value == pytest.approx(1 / 40)
    lengths = np.arange(40) % 8
    same = np.where(lengths[:, None] == lengths, 0.0, -np.inf)
    assert linkage.linked(linkage.by_matching(same)).value == pytest.approx(8 / 40)
    assert linkage.linked(linkage.by_matching(same[:24])).value == pytest.approx(8 / 40)


@given(st.integers(0, 10_000))
def test_scores_that_know_nothing_link_by_chance(seed: int) -> None:
    """Ranks of unrelated scores are uniform; 30 standard errors never happen."""
    scores = np.random.default_rng(seed).normal(size=(60, 60))
    mean = linkage.ranks_of_truth(scores).mean()
    assert abs(mean - 30.5) < 30 * np.sqrt(60**2 / 12 / 60)


def test_true_positives_at_a_low_rate_of_false_ones() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(300, 300))
    blind = linkage.true_positive_rate(scores, 0.01)
    assert blind.low <= 0.01 <= blind.high + 0.01  # by chance as many as false ones
    scores[np.arange(150), np.arange(150)] += 50
    assert linkage.true_positive_rate(scores, 0.01).value == pytest.approx(0.5, abs=0.02)


def test_true_positives_by_hand() -> None:
    """Three rows of equal spread; the false scores are 3, 3, 1, 0, 0, 0, the true ones 1, 3, 1."""
    scores = np.array([[1.0, 0, 3], [0, 3, 1], [3, 0, 1]])
    for rate, above in ((0.2, 0), (0.4, 1), (0.6, 3)):  # above the score of rank 2, 3 and 4
        assert linkage.true_positive_rate(scores, rate).value == pytest.approx(above / 3)


def hidden_bits(texts: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Scores of the best attacker on randomized response: one bit of each text is put out."""
    bits = rng.random(texts) < 0.5
    output = bits ^ (rng.random(texts) < 1 / (1 + np.exp(epsilon)))
    return (output[:, None] == bits).astype(float)


def exceeded(epsilon: float, runs: int, confidence: float) -> int:
    """How often the bound is above the true epsilon."""
    streams = (np.random.default_rng([run, 5]) for run in range(runs))
    bounds = [
        linkage.epsilon_lower_bound(hidden_bits(400, epsilon, rng), rng, confidence=confidence)[0]
        for rng in streams
    ]
    return int((np.array(bounds) > epsilon).sum())


def test_the_bound_exceeds_the_true_epsilon_in_one_run_of_twenty_at_most() -> None:
    """400 runs: a right bound at 95% passes but for 1e-6; one at 40% is caught."""
    most = int(binom.isf(1e-6, 400, 0.05))
    assert exceeded(1.0, 400, 0.95) <= most < exceeded(1.0, 400, 0.4)
    assert linkage.largest_lower_bound(400) > 2  # so that it could have been exceeded


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("texts", [8, 60, 500])
@pytest.mark.parametrize("spread", [0.0, 0.9])
def test_names_exceed_the_true_epsilon_as_seldom_as_they_say(
    epsilon: float, texts: int, spread: float
) -> None:
    """Every number of right names under a tool that has exactly this epsilon, with its probability.

    It puts out the text's own number, exp(epsilon) times as often as each other one; or, with a
    `spread`, half of the texts more often than the others, with the same mean. A wrong version
    takes the share in place of its lower end.
    """
    mean = np.exp(epsilon) / (np.exp(epsilon) + texts - 1)
    apart = spread * min(mean, 1 - mean)
    half = texts // 2
    law = np.convolve(*(binom.pmf(range(half + 1), half, mean + at) for at in (apart, -apart)))
    right = np.arange(texts + 1)
    bounds = np.array([linkage._by_names(each, texts, 0.95) for each in right])
    assert law[bounds > epsilon].sum() <= 0.05
    with np.errstate(divide="ignore"):
        plain = logit(right / texts) + np.log(texts - 1)
    assert law[plain > epsilon].sum() > 0.05 or mean * texts < 0.1 or mean > 1 - 0.1 / texts


def test_names_by_hand() -> None:
    """Six of eight are named, one is taken for another, and one fits as well as another."""
    scores = np.eye(8)
    scores[6, 0], scores[7, 0] = 2.0, 1.0
    bound, _ = linkage.epsilon_lower_bound(scores, np.random.default_rng(0))
    assert bound == pytest.approx(logit(beta.ppf(0.05 / 3, 6, 3)) + np.log(7))


@pytest.mark.parametrize("epsilon", [0.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("texts", [4, 30, 80])
@pytest.mark.parametrize("spread", [0.0, 0.9])
def test_sure_names_exceed_the_true_epsilon_as_seldom_as_they_say(
    epsilon: float, texts: int, spread: float
) -> None:
    """Every number of right and wrong names under randomized response over the texts, exactly.

    The text's own number is put out exp(epsilon) times as often as each other one; or, with a
    `spread`, one half of the texts is named more and the other less, right and wrong alike. A wrong
    version takes the shares in place of their ends.
    """
    right = np.exp(epsilon) / (np.exp(epsilon) + texts - 1)
    law = np.zeros((texts + 1, texts + 1))  # of right names, and of wrong ones
    law[0, 0] = 1.0
    for silent in [0.5 - spread / 2] * (texts // 2) + [0.5 + spread / 2] * (texts // 2):
        wrong = np.pad(law, ((0, 0), (1, 0)))[:, :-1] * (1 - right)
        law = silent * law + (1 - silent) * (np.pad(law, ((1, 0), (0, 0)))[:-1] * right + wrong)
    counts = [at for at in np.ndindex(law.shape) if sum(at) <= texts]
    bounds = np.array([linkage._of_sure_names(*at, texts, 0.95) for at in counts])
    chance = np.array([law[at] for at in counts])
    assert chance.sum() == pytest.approx(1) and chance[bounds > epsilon].sum() <= 0.05
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.array([np.log((texts - 1) * np.float64(r) / w) for r, w in counts])
    assert chance[plain > epsilon].sum() > 0.05


def respond(texts: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Randomized response over texts; where a coin falls so, scores show it, and else are noise."""
    keep = rng.random(texts) < np.exp(epsilon) / (np.exp(epsilon) + texts - 1)
    other = (np.arange(texts) + rng.integers(1, texts, texts)) % texts
    output = np.where(keep, np.arange(texts), other)
    scores = rng.random((texts, texts))
    shown = rng.random(texts) < 0.1
    scores[shown, output[shown]] += 5
    return scores


def test_the_bound_of_names_that_may_be_withheld_holds() -> None:
    """300 runs of 95%: a right bound is above the true epsilon in more than this but for 1e-6."""
    streams = (np.random.default_rng([run, 9]) for run in range(300))
    bounds = [linkage.epsilon_lower_bound(respond(120, 2.0, rng), rng)[0] for rng in streams]
    assert (np.array(bounds) > 2.0).sum() <= binom.isf(1e-6, 300, 0.05)


def test_who_is_sure_of_a_tenth_shows_more_than_who_names_all() -> None:
    rng = np.random.default_rng(4)
    scores = respond(400, 100.0, rng)
    by_names = linkage._by_names(int((linkage.ranks_of_truth(scores) == 1).sum()), 400, 0.975)
    epsilon, _ = linkage.epsilon_lower_bound(scores, rng)
    assert by_names + 1.5 < epsilon <= linkage.largest_lower_bound(400)


@pytest.mark.parametrize("texts", [8, 9, 40, 3000])
def test_no_game_shows_more_than_all_names(texts: int) -> None:
    level, half = linkage._each_of_three(0.95), texts // 2
    most = linkage.largest_lower_bound(texts)
    assert linkage._of_sure_names(half, 0, half, level) < most
    assert linkage._by_pairs(np.ones(half - half // 2), 1.0, level) < most


def test_a_tool_that_keeps_the_texts_is_shown_to_have_a_large_epsilon() -> None:
    epsilon, won = linkage.epsilon_lower_bound(np.eye(400), np.random.default_rng(0))
    assert won.value == 1.0 and 10 < epsilon < np.log(400**2)
    assert epsilon == pytest.approx(linkage.largest_lower_bound(400))


def test_pairs_show_what_names_cannot() -> None:
    """One bit of each text is put out: nobody is named, and three of four pairs are told apart."""
    epsilon, _ = linkage.epsilon_lower_bound(
        hidden_bits(400, 5.0, np.random.default_rng(1)), np.random.default_rng(2)
    )
    assert 1 < epsilon < 5


def test_a_tool_that_says_nothing_shows_nothing() -> None:
    epsilon, won = linkage.epsilon_lower_bound(np.zeros((400, 400)), np.random.default_rng(0))
    assert epsilon == 0.0 and won.value == 0.5


def test_words_are_paired_where_texts_have_as_many() -> None:
    pairs = WordPairs.from_texts(["The cat sat.", "One two", ""], ["a dog lay", "one", "x"])
    assert [pairs.words[number] for number in pairs.original] == ["the", "cat", "sat"]
    assert [pairs.words[number] for number in pairs.output] == ["a", "dog", "lay"]
    assert pairs.document.tolist() == [0, 0, 0]
    assert pairs.content.tolist() == [False, True, True]


def test_a_substitution_is_learned_from_other_texts() -> None:
    originals = ["red green blue"] * 8 + ["yellow"]
    pairs = WordPairs.from_texts(originals, [text[::-1] for text in originals])
    # Reversed letter by letter the words change places too: "eulb neerg der".
    assert pairs.hits(pairs.learned())[:-1].all()
    assert not pairs.hits(pairs.learned())[-1] and not pairs.hits(pairs.output).any()


def test_a_text_does_not_teach_its_own_words() -> None:
    """Each text has a substitution of its own: nothing can be learned from the others.

    A wrong version divides words, not texts, so that the second word is learned from the first.
    """
    originals = [f"word{number} word{number}" for number in range(40)]
    pairs = WordPairs.from_texts(originals, [f"x{number} x{number}" for number in range(40)])
    assert not pairs.hits(pairs.learned()).any()


NO_TABLE = "scores: got shape"

test_bad_input_is_named = refused(
    (lambda: linkage.linked(np.zeros((4, 3))), NO_TABLE),
    (lambda: linkage.linked(np.zeros(4)), NO_TABLE),
    (lambda: linkage.linked(np.zeros((1, 1))), NO_TABLE),
    (lambda: linkage.linked(np.full((9, 9), np.nan)), NO_TABLE),
    (lambda: linkage.by_matching(np.zeros((3, 2))), "log_law: got 3 outputs of 2 candidates"),
)
