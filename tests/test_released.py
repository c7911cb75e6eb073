"""What is released, against the law that was judged: right draws pass, wrong ones do not.

Right draws are taken for wrong ones with probability 0.001 at most, and a law that is off by as
much as is stated is found out with probability 0.99; both are held to here by simulation, with
bounds on the counts that fail once in 10^6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import normal_embedding
from mutants import BOX, PLANE, POOL, TEXT, TOKENS
from scipy import stats

from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.experiments.audits import small_generator
from textpriv.mechanisms import Madlib, SanText
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.mechanisms.sentences import TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil
from textpriv.privacy import audit_noise, released
from textpriv.privacy.fit import LEVEL, fit_draws, fit_of
from textpriv.privacy.released import (
    readable,
    released_laplace,
    released_map,
    released_prompt,
    released_stencil,
    released_words,
    sanitized,
)

CLOUD = normal_embedding(30, 3, seed=2)
LAWS = np.array([[0.5, 0.3, 0.15, 0.05, 0.0], [0.05, 0.9, 0.02, 0.0, 0.03]])


def tilted(factor: float) -> Any:
    """Laws whose logarithms are multiplied: an exponential mechanism at another epsilon."""
    powers = LAWS**factor
    return powers / powers.sum(1, keepdims=True)


def draws_of(laws: Any, count: int, rng: np.random.Generator) -> Any:
    return np.stack([rng.choice(len(law), size=count, p=law) for law in laws])


def test_right_draws_fail_no_more_often_than_is_said() -> None:
    """400 fits; p below 0.1 in 40 of them at most, but for chance."""
    rng = np.random.default_rng(1)
    low = sum(
        fit_draws(lambda factor: LAWS, draws_of(LAWS, 60, rng), rng).p <= 0.1 for _ in range(400)
    )
    assert low <= stats.binom.isf(1e-6, 400, 0.1)


def test_draws_at_the_factor_that_is_said_are_caught() -> None:
    """Power 0.99: of 200 fits at most so many may miss as would once in 10^6."""
    rng = np.random.default_rng(2)
    factor = fit_draws(tilted, draws_of(LAWS, 500, rng), rng).factor
    assert 1.1 < factor < 3
    wrong = tilted(factor)
    p_values = [
        fit_draws(lambda factor: LAWS, draws_of(wrong, 500, rng), rng).p for _ in range(200)
    ]
    assert sum(p < LEVEL for p in p_values) >= stats.binom.ppf(1e-6, 200, 0.99)


def test_the_gap_is_caught() -> None:
    """A distribution function that is off by `gap` at one point."""
    rng = np.random.default_rng(3)
    gap = fit_of([rng.random(1000)], lambda factor: [0.0]).gap
    missed = 0
    for _ in range(200):
        places = np.where(rng.random(1000) < 0.5 + gap, 0.5 * rng.random(1000),
                          0.5 + 0.5 * rng.random(1000))  # fmt: skip
        missed += fit_of([places], lambda factor: [0.0]).p >= LEVEL
    assert missed <= stats.binom.isf(1e-6, 200, 0.01)


def test_more_draws_see_more() -> None:
    rng = np.random.default_rng(4)
    few, many = (fit_draws(tilted, draws_of(LAWS, n, rng), rng) for n in (200, 20_000))
    assert many.gap < 0.15 * few.gap and many.factor < few.factor
    assert (few.draws, many.draws) == (400, 40_000)
    none = fit_draws(lambda factor: LAWS, draws_of(LAWS, 200, rng), rng)
    assert none.factor == np.inf  # epsilon changes nothing here


@pytest.mark.parametrize("wrong", [-1, 4])
def test_one_output_that_cannot_be_is_enough(wrong: int) -> None:
    rng = np.random.default_rng(5)
    drawn = draws_of(LAWS, 5000, rng)
    assert fit_draws(tilted, drawn, rng).p >= LEVEL
    drawn[0, 17] = wrong
    assert fit_draws(tilted, drawn, rng).p == 0


def test_the_same_law_over_other_words_is_seen() -> None:
    """Words of one probability, of which only some ever come: the random order tells."""
    flat, rng = np.full((3, 64), 1 / 64), np.random.default_rng(6)
    assert fit_draws(lambda factor: flat, rng.integers(64, size=(3, 4000)), rng).p >= LEVEL
    assert fit_draws(lambda factor: flat, rng.integers(32, size=(3, 4000)) * 2, rng).p < LEVEL


def test_right_draws_in_texts_fail_no_more_often_than_is_said() -> None:
    """Over all tests, by word, by place and in pairs: p below 0.1 in 10% of 200 at most."""
    mechanism, rng = SanText(CLOUD, epsilon=2.0), np.random.default_rng(7)
    low = sum(released_words(mechanism, rng, draws=40).p <= 0.1 for _ in range(200))
    assert low <= stats.binom.isf(1e-6, 200, 0.1)


def test_texts_hold_every_word_as_often_as_is_asked() -> None:
    """By a mechanism that returns its input; each text is sent twice."""
    mechanism: Any = SanText(CLOUD, epsilon=2.0)
    sent: list[str] = []
    mechanism.sanitize = lambda texts, rng: sent.extend(texts) or texts
    drawn = sanitized(mechanism, np.array([3, 5, 9]), 40, np.random.default_rng(8))
    assert (drawn.outputs == np.array([[3], [5], [9]])).all() and drawn.outputs.shape == (3, 40)
    assert sent[::2] == sent[1::2] and len(sent) == len(drawn.offsets) - 1
    words = np.array([word for text in sent for word in text.split()])
    assert [CLOUD.words[[3, 5, 9][row]] for row in drawn.words] == words.tolist()
    first, second = drawn.copies
    assert (words[first] == words[second]).all() and len(first) == 60
    again, neighbours, copies = (len(first) for first, _ in drawn.pairs)
    assert (again, neighbours, copies) == (3 * 39, 120 - len(sent), 60)
    first, second = drawn.neighbours
    assert (second == first + 1).all() and len(first) == 120 - len(sent)
    begins, ends, lengths = (each.flat[drawn.order] for each in drawn.strata)
    assert begins[0] == 0 and ends[drawn.offsets[1:] - 1].tolist() == [0] * len(sent)
    assert lengths[0] == len(sent[0].split()).bit_length()


@pytest.mark.parametrize(
    "layer", ["sanitize", "sanitize_corpus", "sanitize_ids", "_replace", "sample"]
)
def test_every_layer_between_the_law_and_the_user_is_seen(layer: str) -> None:
    """The same mechanism at 1.5 eps, put in at one layer."""
    mechanism = SanText(CLOUD, epsilon=4.0)
    other: Any = getattr(mechanism.with_epsilon(6.0), layer)
    setattr(mechanism, layer, other)
    assert released_words(mechanism, np.random.default_rng(8)).p < LEVEL


def test_a_sanitizer_that_drops_words_is_seen() -> None:
    mechanism: Any = SanText(CLOUD, epsilon=4.0)
    whole = mechanism.sanitize
    mechanism.sanitize = lambda texts, rng: [text.rpartition(" ")[0] for text in whole(texts, rng)]
    assert released_words(mechanism, np.random.default_rng(8), draws=50).p == 0


def test_words_are_those_that_a_text_can_hold() -> None:
    rng = np.random.default_rng(9)
    words = ("the", "!", "n't", "New York", "Film", "is")
    assert sorted(readable(words, None, 10, rng).tolist()) == [0, 2, 5]
    assert len(readable(words, None, 2, rng)) == 2
    assert len(readable(words, np.array([], dtype=np.int64), 3, rng)) == 0


def test_noise_in_another_direction_is_seen() -> None:
    mechanism: Any = Madlib(normal_embedding(40, 3), epsilon=2.0)
    mechanism.stretched = lambda directions: np.abs(directions)
    assert audit_noise(mechanism, np.random.default_rng(11)).verdict == "broken"


def test_an_output_without_noise_is_seen() -> None:
    mechanism: Any = Madlib(PLANE, epsilon=2.0)
    mechanism._replace = lambda ids, rng: ids
    assert audit_noise(mechanism, np.random.default_rng(12)).fit == 0


def test_maps_and_stencils_have_one_output() -> None:
    assert released_map(LossyMap.random(9, 2, np.random.default_rng(1), fixed=np.array([4]))).p == 1
    for options in ({}, {"punctuated": True}, {"change": False}, {"window": 3, "sigma": 2.0}):
        stencil: Any = Stencil(TOKENS, **options)  # type: ignore[arg-type]
        assert released_stencil(stencil, TEXT).p == 1
        once = stencil.sanitize_corpus
        worse = TEXT.ids[7] + 1 - 2 * (TEXT.ids[7] == 59)
        right = once(TEXT).ids[7]
        other = worse if worse != right else (right + 1) % 60

        def changed(corpus: Corpus, once: Any = once, other: int = other) -> Corpus:
            ids = once(corpus).ids.copy()
            ids[7] = other
            return corpus.with_ids(ids)

        stencil.sanitize_corpus = changed
        assert released_stencil(stencil, TEXT).p == 0


def test_sentences_with_noise_pass_and_with_less_do_not() -> None:
    documents, rng = [POOL[:2], POOL[2:4]], np.random.default_rng(13)
    noisy = TruncatedLaplace(BOX, epsilon=2.0)
    assert released_laplace(noisy, documents, rng).p >= LEVEL
    noisy.scale = noisy.with_epsilon(2.6).scale  # type: ignore[method-assign]
    assert released_laplace(noisy, documents, rng).p < LEVEL


def test_paraphrases_that_cannot_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "DRAWS", 20)
    generator = small_generator(4, 1)
    with pytest.raises(InvalidInput, match="mechanism: got no limits"):
        released_prompt(DPPrompt(generator, temperature=1, tokens=1), ["t1"], 1)
    limited = DPPrompt(generator, temperature=1, tokens=1, limits=Limits.same(0, 1, 4))
    generator.__dict__["say"] = lambda outputs: ["alike"] * len(outputs)
    with pytest.raises(InvalidInput, match="outputs that read alike"):
        released_prompt(limited, ["t1"], 1)


def test_a_vocabulary_of_signs_has_no_text() -> None:
    table = from_arrays("signs", ["!", "?", ";"], np.eye(3))
    with pytest.raises(InvalidInput, match="vocabulary: got no word"):
        released_words(SanText(table, epsilon=1.0), np.random.default_rng(1))
