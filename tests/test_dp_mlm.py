"""DP-MLM: its law against the model asked row by row, draws, and what n draws of a text lose.

Error rates: see `helpers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers import ALARM, POWER, FloatArray, fits, power_of_fit
from tiny_models import tiny_encoder

from textpriv import models
from textpriv.errors import InvalidInput
from textpriv.mechanisms import dp_mlm
from textpriv.mechanisms.dp_mlm import DPMLM, learn_range
from textpriv.models import Encoder, Rows
from textpriv.privacy.exact import audit_texts

TEXT, OTHER = "The cat sat on the mat!", "the dog sat on the mat"
LIMITS = (-1.5, 1.0)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), head=True)


def plain_law(encoder: Encoder, words: list[str], epsilon: float) -> FloatArray:
    """Gap by gap, from the description: the text, and beside it the text with the gap."""
    tokenizer, rows = encoder.tokenizer, []
    choices = [tokenizer.convert_tokens_to_ids(word) for word in DPMLM(
        encoder, epsilon=1, limits=LIMITS).words]  # fmt: skip
    for gap in range(len(words)):
        hidden = [*words[:gap], tokenizer.mask_token, *words[gap + 1 :]]
        pair = tokenizer(" ".join(words), " ".join(hidden))
        ids, types = np.array([pair["input_ids"]]), np.array([pair["token_type_ids"]]) == 1
        with torch.inference_mode():
            states = encoder.states(Rows(ids, np.zeros_like(ids)), types=types)
            at = ids[0].tolist().index(tokenizer.mask_token_id)
            logits = encoder.logits(states)[0, at, choices].double().numpy()
        weights = np.exp(epsilon * np.clip(logits, *LIMITS) / (2 * (LIMITS[1] - LIMITS[0])))
        rows.append(weights / weights.sum())
    return np.array(rows)


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 100.0])
def test_the_law_is_that_of_the_model_asked_gap_by_gap(
    encoder: Encoder, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32: bfloat16 rounds rows otherwise when they are read together."""
    monkeypatch.setattr(models.encoders, "bfloat16_is_fast", lambda _: False)
    mechanism = DPMLM(encoder, epsilon=epsilon, limits=LIMITS)
    expected = plain_law(encoder, TEXT.lower().rstrip("!").split(), epsilon)
    np.testing.assert_allclose(np.exp(mechanism.log_law(TEXT)), expected, rtol=1e-4)


def test_words_are_the_whole_pieces_of_letters(encoder: Encoder) -> None:
    words = DPMLM(encoder, epsilon=1.0, limits=LIMITS).words
    assert words == ("cat", "dog", "fish", "snow", "the", "sat", "ran", "on", "mat")


@pytest.mark.parametrize("batch", [1, 64])
def test_draws_follow_the_law(
    encoder: Encoder, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarm at most ALARM per gap; logits that are not clipped are caught at some gap."""
    monkeypatch.setattr(dp_mlm, "BATCH", batch)
    n, mechanism = 2000 if batch == 1 else 6000, DPMLM(encoder, epsilon=8.0, limits=LIMITS)
    with pytest.warns(UserWarning, match="generator was passed"):
        outputs = mechanism.sanitize([TEXT] * n, np.random.default_rng(1))
    drawn = np.array([[mechanism.words.index(word) for word in each.split()] for each in outputs])
    law = np.exp(mechanism.log_law(TEXT))
    wide = np.exp(DPMLM(encoder, epsilon=8.0 * 40 / 2.5, limits=(-20, 20)).log_law(TEXT))
    powers = []
    for gap in range(6):
        assert fits(np.bincount(drawn[:, gap], minlength=9), law[gap], ALARM)
        powers.append(power_of_fit(wide[gap], law[gap], n))
    assert max(powers) >= POWER


class Rare(DPMLM):
    """A law of hand-made logarithms at every gap."""

    law: FloatArray

    def _laws(self, corpus: Any, vocabulary: Any) -> Any:
        positions = np.arange(len(corpus.ids))
        yield positions, np.tile(self.law, (len(positions), 1))


class Next:
    """A stand-in for a generator whose spawned streams give these uniforms in turn."""

    def __init__(self, *uniforms: float) -> None:
        self.uniforms = iter(uniforms)

    def random(self) -> float:
        return next(self.uniforms)


def test_words_rarer_than_the_grid_of_uniforms_are_drawn(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word of probability e^-50 is drawn by a uniform below it, which float64 holds.

    A cumulative sum that ends in 1, as the wrong version inverts, has no step for such a word in
    last place: nothing below 1 reaches it.
    """
    mechanism = Rare(encoder, epsilon=1.0, limits=LIMITS)
    log_law = np.full(len(mechanism.words), -50.0)
    log_law[0] = np.log1p(-(len(log_law) - 1) * np.exp(-50.0))
    mechanism.law = log_law
    assert (np.cumsum(np.exp(log_law)) <= np.nextafter(1, 0)).sum() == 0  # all steps lost
    # 2.0^-27 asks for finer bits: two times, and then for 2^-78, which is below 8 e^-50 (2^-69).
    finer = Next(2.0**-27, 2.0**-27, 2.0**-26, 0.99)
    monkeypatch.setattr(dp_mlm, "entropy", lambda _: Spawning(finer))
    assert mechanism.sanitize(["cat"]) == [mechanism.words[-1]]
    monkeypatch.setattr(dp_mlm, "entropy", lambda _: Spawning(Next(0.3)))
    assert mechanism.sanitize(["cat"]) == [mechanism.words[0]]


class Spawning:
    """A stand-in for a generator with one child."""

    def __init__(self, child: Next) -> None:
        self.child = child

    def spawn(self, count: int) -> list[Next]:
        assert count == 1
        return [self.child]


def test_equal_texts_are_read_once_and_drawn_anew(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, seen = DPMLM(encoder, epsilon=4.0, limits=LIMITS), []
    read = mechanism._laws

    def counted(corpus: Any, words: Any) -> Any:
        seen.append(len(corpus.ids))
        return read(corpus, words)

    monkeypatch.setattr(mechanism, "_laws", counted)
    outputs = mechanism.sanitize([TEXT, "cat", TEXT, OTHER] * 5)
    assert seen == [13] and [len(each.split()) for each in outputs[:4]] == [6, 1, 6, 6]
    assert len({outputs[place] for place in range(0, 20, 2)}) > 1


def test_texts_of_other_lengths_and_none(encoder: Encoder) -> None:
    mechanism = DPMLM(encoder, epsilon=4.0, limits=LIMITS)
    outputs = mechanism.sanitize([TEXT, "", "cat", "!", "snowball xyz cat"])
    assert [len(each.split()) for each in outputs] == [6, 0, 1, 0, 3]
    long = " ".join(["cat", "snowball"] * 30)  # more pieces than fit in half of the rows
    assert len(mechanism.sanitize([long])[0].split()) == 60
    assert mechanism.sanitize([TEXT] * 20) != mechanism.sanitize([TEXT] * 20)


def test_a_loss_is_the_sum_of_what_the_draws_lose(encoder: Encoder) -> None:
    mechanism = DPMLM(encoder, epsilon=6.0, limits=LIMITS)
    first, second = mechanism.log_law(TEXT), mechanism.log_law(OTHER)
    by_hand = max(
        sum(max(a - b for a, b in zip(x, z, strict=True)) for x, z in zip(*pair, strict=True))
        for pair in ((first, second), (second, first))
    )
    assert mechanism.loss(TEXT, OTHER) == pytest.approx(by_hand)
    assert mechanism.loss(TEXT, TEXT) == 0 and mechanism.spent(TEXT) == 36
    with pytest.raises(InvalidInput, match="got 1 words, expected 6"):
        mechanism.loss(TEXT, "cat")


class Hostile(DPMLM):
    """A model that gives one word the greatest logit at every gap, by a single word of the text."""

    def log_law(self, text: str) -> FloatArray:
        words = text.lower().rstrip("!").split()
        logits = np.where(np.arange(len(self.words)) == ("cat" in words), self.high, self.low)
        heated = self.epsilon * logits / (2 * (self.high - self.low))
        return np.tile(heated - np.logaddexp.reduce(heated), (len(words), 1))


def test_one_changed_word_costs_up_to_n_epsilons(encoder: Encoder) -> None:
    """A word that moves all gaps from one end of the limits to the other loses nearly eps at each.

    So n eps holds, and eps, as if draws of different words composed in parallel, does not.
    """
    mechanism, pair = Hostile(encoder, epsilon=2.0, limits=LIMITS), (TEXT, OTHER)
    assert mechanism.loss(*pair) == pytest.approx(6 * 1.0)  # eps / 2 either way: normalisers agree
    assert audit_texts(mechanism, [pair]).verdict == "not broken"
    stated = audit_texts(mechanism, [pair], published=True)
    assert stated.verdict == "broken" and stated.worst_ratio == pytest.approx(3.0)
    assert stated.worst_pair == pair


def test_no_pair_of_texts_loses_more_than_n_epsilons(encoder: Encoder) -> None:
    pairs = [(TEXT, OTHER), ("cat dog fish", "mat ran on"), ("the the the", "cat the the")]
    for epsilon in (0.5, 10.0, 300.0):
        mechanism = DPMLM(encoder, epsilon=epsilon, limits=LIMITS)
        audit = audit_texts(mechanism, pairs)
        assert audit.verdict == "not broken" and 0 < audit.worst_ratio <= 1


def test_limits_are_the_least_and_greatest_logit_of_public_texts(encoder: Encoder) -> None:
    low, high = learn_range(encoder, [OTHER, "fish ran"])
    wide = DPMLM(encoder, epsilon=2 * 100.0, limits=(-50, 50))  # softmax of the logits as they are
    spread = [np.ptp(row) for text in (OTHER, "fish ran") for row in wide.log_law(text)]
    assert low < high and max(spread) <= high - low + 1e-4
    with pytest.raises(InvalidInput, match="got no word"):
        learn_range(encoder, ["", "!"])


@pytest.mark.parametrize("limits", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (1, 2, 3), (1,), 1])
def test_wrong_limits(encoder: Encoder, limits: Any) -> None:
    with pytest.raises(InvalidInput, match="expected two finite numbers, rising"):
        DPMLM(encoder, epsilon=1.0, limits=limits)


def test_an_encoder_that_cannot_fill(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(InvalidInput, match="whose masked-LM head is untrained"):
        DPMLM(tiny_encoder(tmp_path_factory.mktemp("tiny")), epsilon=1.0, limits=LIMITS)
