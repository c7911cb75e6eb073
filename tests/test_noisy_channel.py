"""The noisy-channel attack against the enumeration of all sentences of a toy vocabulary.

The reference multiplies the language model of `test_ngrams.Plain` and the matrix of the
channel over every sentence, and knows no lattice. Wrong versions that must be caught are run
in place of the code's parts: no prior, a transposed channel, words in clear forgotten; those of the
language model are in `test_ngrams`, those of the sums over sentences in `test_lattice`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, assert_form, normal_embedding, refused
from hypothesis import given
from hypothesis import strategies as st
from test_channel import Table
from test_ngrams import Plain, corpus

from textpriv.attacks import noisy_channel
from textpriv.attacks.base import NONE, Observed, observe
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.data.tokens import KEPT, UNKNOWN
from textpriv.mechanisms import CusText

# Words 0 to 3; 3 is a stopword, which passes. "!" is a kept token with an id of its own (4).
LAW = np.array([[0.5, 0.3, 0.2, 0], [0.25, 0.6, 0.15, 0], [0.1, 0.4, 0.5, 0], [0, 0, 0, 1]])
CHANNEL = Table(LAW)
CHANNEL.inputs = np.array([0, 1, 2])
BANG, OTHER = 4, 5
TEXT = [[0, 1], [0, 1, 2, BANG], [3, 0, 2], [1, 3, BANG], [2, 2, 0], [0, 1, BANG], [2], [3, 1, 0]]
READ = corpus(
    [[KEPT if word == BANG else word for word in document] for document in TEXT],
    {i: "!" for i, word in enumerate(sum(TEXT, [])) if word == BANG},
)
LEXICON = Lexicon(4, [READ])
SEEN = corpus(
    [[0, 2, 3, KEPT, 1], [], [1], [3], [2, 2, KEPT, 0, 1], [], [0, 3]],
    {3: "!", 9: "a name that was never read"},
)
OBSERVED = Observed(SEEN, np.isin(SEEN.ids, [0, 1, 2]))


def model_of(order: int) -> NGrams:
    return NGrams.train(LEXICON, [READ], order=order)


def plain_of(order: int) -> Plain:
    return Plain(TEXT, 6, order)


Sets = Callable[[int], list[int]]  # candidates of the token at a position


def all_words(position: int) -> list[int]:
    return [0, 1, 2]


def sentence_weight(model: Plain, words: list[int], weight: float) -> float:
    """P_LM(sentence)^weight."""
    factors = model.sentence(words)
    if model.order == 1:
        factors = factors[:-1]
    return float(np.prod(factors)) ** weight


def enumerated(
    observed: Observed,
    law: FloatArray,
    prior: Callable[[list[int]], float],
    sets: Sets = all_words,
    lexicon: Lexicon = LEXICON,
) -> tuple[dict[int, dict[int, float]], dict[int, int]]:
    """Posterior of every word at every sanitized position, and the words of the best sentences."""
    posterior: dict[int, dict[int, float]] = {}
    best: dict[int, int] = {}
    clear = lexicon.ids(observed.corpus)
    for document in range(len(observed.corpus)):
        start, end = observed.corpus.offsets[document : document + 2].tolist()
        places = list(range(start, end))
        choices = [sets(i) if observed.sanitized[i] else [int(clear[i])] for i in places]
        total, highest = 0.0, -1.0
        sums: dict[int, dict[int, float]] = {i: dict.fromkeys(sets(i), 0.0) for i in places}
        for sentence in product(*choices) if places else ():
            weight = prior(list(sentence))
            for place, word in zip(places, sentence, strict=True):
                if observed.sanitized[place]:
                    weight *= law[word, observed.corpus.ids[place]]
            total += weight
            if weight > highest:
                highest, chosen = weight, sentence
            for place, word in zip(places, sentence, strict=True):
                if observed.sanitized[place]:
                    sums[place][word] += weight
        for place, word in zip(places, chosen if places else (), strict=True):
            if observed.sanitized[place]:
                posterior[place] = {w: p / total for w, p in sums[place].items()}
                best[place] = word
    return posterior, best


def assert_posterior(
    attack: NoisyChannel, observed: Observed, expected: dict[int, dict[int, float]]
) -> None:
    guesses = attack.guess(observed, top=3)
    assert observed.targets.tolist() == list(expected)
    for row, law in enumerate(expected.values()):
        posterior = dict(
            zip(guesses.words[row].tolist(), guesses.scores[row].tolist(), strict=True)
        )
        assert {word for word in posterior if word != NONE} == set(law)
        for word, probability in law.items():
            assert posterior[word] == pytest.approx(probability, rel=1e-10, abs=1e-12)
    assert (guesses.scores[:, 1:] <= guesses.scores[:, :-1]).all()


def check(attack: NoisyChannel, order: int, weight: float = 1.0, observed: Any = OBSERVED) -> None:
    """The attack gives the posteriors of the enumeration."""
    reference = plain_of(order)
    expected, _ = enumerated(observed, LAW, lambda s: sentence_weight(reference, s, weight))
    assert_posterior(attack, observed, expected)


orders = pytest.mark.parametrize("order", [1, 2, 3])
weights = pytest.mark.parametrize("weight", [1.0, 0.6, 0.0])


@orders
@weights
def test_posteriors_sum_over_all_sentences(order: int, weight: float) -> None:
    check(NoisyChannel(CHANNEL, model=model_of(order), weight=weight), order, weight)


@orders
@weights
def test_viterbi_finds_the_best_sentence(order: int, weight: float) -> None:
    attack = NoisyChannel(CHANNEL, model=model_of(order), weight=weight, decoding="viterbi")
    reference = plain_of(order)
    _, best = enumerated(OBSERVED, LAW, lambda s: sentence_weight(reference, s, weight))
    made = attack.guess(OBSERVED, top=1)
    assert made.words[:, 0].tolist() == list(best.values())
    assert (made.scores == 1).all()


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, 3, KEPT]), max_size=5), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=6).filter(any),
    st.integers(1, 3),
    st.sampled_from([1.0, 0.5]),
    st.integers(0, 2**32 - 1),
)
def test_any_text_any_prior_any_channel(
    seen: list[list[int]], read: list[list[int]], order: int, weight: float, seed: int
) -> None:
    """Kept tokens here are unknown to the prior, whose own are 4 and 5."""
    text = sum(read, [])
    known = corpus(
        [[KEPT if word > 3 else word for word in document] for document in read],
        {i: "!?"[word - 4] for i, word in enumerate(text) if word > 3},
    )
    lexicon = Lexicon(4, [known] * 3)
    ids = lexicon.ids(known)
    documents = [ids[a:b].tolist() for a, b in zip(known.offsets, known.offsets[1:], strict=False)]
    reference = Plain(documents, lexicon.unknown + 1, order)
    law = np.eye(4)
    law[:3, :3] = np.random.default_rng(seed).dirichlet(np.full(3, 0.7), 3) + 1e-3
    law /= law.sum(1, keepdims=True)
    channel = Table(law)
    channel.inputs = np.array([0, 1, 2])
    tokens = sum(seen, [])
    text_seen = corpus(seen, {i: "#" for i, word in enumerate(tokens) if word == KEPT})
    observed = Observed(text_seen, np.isin(text_seen.ids, [0, 1, 2]))
    model = NGrams.train(lexicon, [known], order=order)
    expected, _ = enumerated(
        observed, law, lambda s: sentence_weight(reference, s, weight), lexicon=lexicon
    )
    assert_posterior(NoisyChannel(channel, model=model, weight=weight), observed, expected)


def most_likely(count: int, order: int) -> tuple[Sets, dict[int, float]]:
    """Candidates by P(y|x) P(x) with the frequencies of words, and what they hold of it."""
    single = np.array([plain_of(order).probability(word, ()) for word in range(3)])
    joint = single[:, None] * LAW[:3]
    ranked = np.argsort(-joint, axis=0)
    held = {y: float(joint[ranked[:count, y], y].sum() / joint[:, y].sum()) for y in range(3)}
    return lambda position: ranked[:count, SEEN.ids[position]].tolist(), held


@pytest.mark.parametrize("weight", [1.0, 0.6])
@pytest.mark.parametrize("count", [1, 2])
@orders
def test_the_candidates_share_the_probability_that_they_hold(
    order: int, count: int, weight: float
) -> None:
    reference = plain_of(order)
    sets, held = most_likely(count, order)
    expected, _ = enumerated(OBSERVED, LAW, lambda s: sentence_weight(reference, s, weight), sets)
    scaled = {
        place: {word: p * held[int(SEEN.ids[place])] for word, p in law.items()}
        for place, law in expected.items()
    }
    attack = NoisyChannel(CHANNEL, model=model_of(order), candidates=count, weight=weight)
    assert_posterior(attack, OBSERVED, scaled)


class TwoPass:
    """The bigram part of a trigram model: full history at the start, one word after."""

    order = 3

    def __init__(self) -> None:
        self.model = plain_of(3)

    def sentence(self, words: list[int]) -> list[float]:
        first = self.model.probability(words[0], ("<s>", "<s>"))
        steps = zip(words, [*words[1:], "</s>"], strict=True)
        return [first, *(self.model.probability(b, (a,)) for a, b in steps)]


def test_order_3_keeps_the_best_of_order_2() -> None:
    two_pass: Any = TwoPass()
    before, _ = enumerated(OBSERVED, LAW, lambda s: sentence_weight(two_pass, s, 1.0))
    kept = {
        place: sorted(law, key=law.__getitem__, reverse=True)[:2] for place, law in before.items()
    }
    reference = plain_of(3)
    expected, _ = enumerated(
        OBSERVED, LAW, lambda s: sentence_weight(reference, s, 1.0), lambda i: kept.get(i, [])
    )
    # What the second order gave to the dropped words is no longer claimed.
    held = {place: sum(before[place][word] for word in words) for place, words in kept.items()}
    expected = {
        place: {word: held[place] * each for word, each in law.items()}
        for place, law in expected.items()
    }
    assert max(held.values()) < 1
    assert_posterior(NoisyChannel(CHANNEL, model=model_of(3), kept=2), OBSERVED, expected)


@orders
@pytest.mark.parametrize("decoding", ["posterior", "viterbi"])
def test_form(order: int, decoding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = NoisyChannel(CHANNEL, model=model_of(order), decoding=decoding)
    every = assert_form(attack, OBSERVED, top=5, chosen=[3, 0, 3])
    assert (every.words[:, 3:] == NONE).all() and np.isneginf(every.scores[:, 3:]).all()
    np.testing.assert_allclose(every.scores[:, :3].sum(1), 1)
    for empty in (corpus([]), corpus([[], []]), corpus([[3, 3], [KEPT]], {2: "!"})):
        nothing = Observed(empty, np.zeros(len(empty.ids), dtype=bool))
        assert attack.guess(nothing, top=2).words.shape == (0, 2)
    # Documents are decoded some at a time; how many at once changes nothing.
    monkeypatch.setattr(noisy_channel, "_EDGES", 1)
    apart = attack.guess(OBSERVED, top=5)
    np.testing.assert_array_equal(apart.words, every.words)
    np.testing.assert_allclose(apart.scores, every.scores, rtol=1e-12)


@orders
def test_a_document_beyond_what_is_held_at_once_is_read_in_parts(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the least limit every token stands for itself; the others' places stay theirs."""
    ids = [[0, 2, 1], [1, 2]]
    attack = NoisyChannel(CHANNEL, model=model_of(order))
    apart = corpus([[word] for document in ids for word in document])
    expected = attack.guess(Observed(apart, np.ones(5, dtype=bool)), top=3)
    monkeypatch.setattr(noisy_channel, "_LONGEST", 1)
    guesses = attack.guess(Observed(corpus(ids), np.ones(5, dtype=bool)), top=3)
    np.testing.assert_array_equal(guesses.words, expected.words)
    np.testing.assert_allclose(guesses.scores, expected.scores, rtol=1e-12)


def test_likelihoods_that_differ_by_hundreds_of_orders_of_magnitude() -> None:
    """The best input is 1e-280, and rarer outputs are as possible as others to the attacker."""
    law = np.array([[1 - 3e-280, 1e-280, 2e-280, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    law[1, 1] = 3e-290
    channel = Table(law)
    channel.inputs = np.array([0, 1, 2])
    seen = corpus([[1] * 300])
    made = NoisyChannel(channel, model=model_of(2)).guess(
        Observed(seen, np.ones(300, dtype=bool)), top=2
    )
    assert np.isfinite(made.scores).all() and (made.words[:, 0] == 0).all()


def no_prior(patch: pytest.MonkeyPatch) -> NoisyChannel:
    model = model_of(2)
    even = np.full_like(model.unigram, 1 / len(model.unigram))
    patch.setattr(NGrams, "find", lambda self, words, *_: (words[:0], np.empty(0)))
    patch.setattr(NGrams, "backoff", lambda self, before: np.ones(len(before)))
    return NoisyChannel(CHANNEL, model=NGrams(model.lexicon, even, model._orders))


def transposed(patch: pytest.MonkeyPatch) -> NoisyChannel:
    wrong = Table(LAW.T / LAW.T.sum(1, keepdims=True))
    wrong.inputs = CHANNEL.inputs
    return NoisyChannel(wrong, model=model_of(2))


def words_in_clear_forgotten(patch: pytest.MonkeyPatch) -> NoisyChannel:
    patch.setattr(Lexicon, "ids", lambda self, text: np.full(len(text.ids), self.unknown))
    return NoisyChannel(CHANNEL, model=model_of(2))


@pytest.mark.parametrize("wrong", [no_prior, transposed, words_in_clear_forgotten])
def test_wrong_versions_are_found_out(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check(NoisyChannel(CHANNEL, model=model_of(2)), 2)
    reference, prior = plain_of(2), enumerated  # made before anything is replaced
    expected, _ = prior(OBSERVED, LAW, lambda s: sentence_weight(reference, s, 1.0))
    model_of(2)
    with monkeypatch.context() as patch:
        attack = wrong(patch)
        with pytest.raises(AssertionError):
            assert_posterior(attack, OBSERVED, expected)


def test_context_finds_more_words_than_bayes_rule() -> None:
    """Text of two cycles, in which all words are equally frequent: only context tells them."""
    embedding = normal_embedding(6, 2, seed=1)
    mechanism = CusText(embedding, epsilon=3.0, set_size=6)
    cycles = [[(i + start) % 3 + 3 * (start % 2) for i in range(24)] for start in range(60)]
    read, private = corpus(cycles), corpus(cycles[:40])
    seen = observe(mechanism, private, np.random.default_rng(0))
    hits = {
        order: NoisyChannel(mechanism, [read], order=order).guess(seen).hits(private.ids).mean()
        for order in (1, 2, 3)
    }
    assert hits[1] < 0.4 and min(hits[2], hits[3]) > 0.6, hits


def test_the_tuned_weight_gives_the_truth_the_highest_probability() -> None:
    rng = np.random.default_rng(4)
    shadow = corpus([rng.permutation(3).tolist() for _ in range(30)])
    rehearsal = Observed(
        shadow.with_ids(CHANNEL.sample(shadow.ids, rng)), np.ones(len(shadow.ids), dtype=bool)
    )
    model, grid = model_of(2), (0.0, 0.3, 0.7, 1.0)

    def chance_of_truth(weight: float) -> np.ndarray:
        guesses = NoisyChannel(CHANNEL, model=model, weight=weight).guess(rehearsal, top=3)
        return np.asarray(guesses.scores[guesses.words == shadow.ids[:, None]])

    chances = [chance_of_truth(weight) for weight in grid]
    best, wrong = (
        grid[int(np.argmax([score(each) for each in chances]))]
        for score in (lambda each: np.log(each).mean(), np.mean)
    )
    assert best != wrong  # the mean probability rewards boldness
    assert tuned_weight(CHANNEL, model, rehearsal, shadow, weights=grid) == best
    targets = np.array([0, 4, 5])
    assert tuned_weight(CHANNEL, model, rehearsal, shadow, targets, weights=grid) in grid


def seen(*ids: int) -> Observed:
    return Observed(corpus([[*ids]]), np.array([True] * len(ids)))


attack: Any = partial(NoisyChannel, CHANNEL)
FIVE = NGrams.train(Lexicon(5), [corpus([[0, 4]])], order=2)

test_bad_input_is_named = refused(
    (lambda: attack([READ], order=4), "order: got 4, expected 1, 2 or 3"),
    (lambda: attack([]), "corpora: got no token"),
    (lambda: attack([corpus([[], []])]), "corpora: got no token"),
    (lambda: attack(model=FIVE), "model: got a vocabulary of 5, expected 4"),
    (lambda: attack([corpus([[0, 4]])]), "text: got id 4, expected 0..3"),
    (
        lambda: attack([READ]).guess(seen(0, 3)),
        "observed: no input of the channel gives the output 3",
    ),
    (
        lambda: tuned_weight(CHANNEL, model_of(2), OBSERVED, SEEN, np.array([], dtype=int)),
        "targets: got none",
    ),
)


def test_an_unknown_word_in_clear_is_one_word_to_the_prior() -> None:
    """UNKNOWN does not occur in sanitized text; where it is passed on, it is a word in clear."""
    seen = Observed(corpus([[0, UNKNOWN, 1]]), np.array([True, False, True]))
    reference = plain_of(2)
    expected, _ = enumerated(seen, LAW, lambda s: sentence_weight(reference, s, 1.0))
    assert_posterior(NoisyChannel(CHANNEL, model=model_of(2)), seen, expected)
