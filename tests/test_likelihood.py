"""Laws of outputs: each sums to 1 over all outputs of a text, and agrees with another way to it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray
from scipy.stats import laplace
from test_dp_fusion import fusion
from test_dp_fusion import plain_law as plain_fusion_law
from test_prompt import SAME, WORDS, mechanism, outputs, random_toy
from test_prompt import law as plain_prompt_law
from tiny_models import tiny_encoder

from textpriv.attacks import likelihood, linkage
from textpriv.channel import IntArray
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, PRIVATE, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms import SanText, SanTextPlus
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.models.vectors import SentenceVectors

TABLE = from_arrays("made up", list("bcde"), np.array([[0.0], [1.0], [3.0], [3.5]]))
SPELLING = Tokenizer(TABLE.words, PRIVATE)
TEXTS = ["b e", "e b", "zzz c", "d", "b c d"]


# --- Word by word -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made", [SanText(TABLE, epsilon=2.0),
             SanTextPlus(TABLE, epsilon=2.0, sensitive=np.array([1, 3]), replace=0.3)],
)  # fmt: skip
def test_every_text_puts_out_something(made: SanText) -> None:
    """A law that mixed up texts and outputs would sum to 1 over the texts."""
    pairs = SPELLING.encode([" ".join(each) for each in itertools.product("bcde", repeat=2)])
    law = likelihood.word_law(made, made.fallback, SPELLING.encode(TEXTS), pairs)
    np.testing.assert_allclose(np.exp(law[:, :3]).sum(0), 1)
    assert np.isneginf(law[:, 3:]).all()  # of another length


def test_words_by_hand() -> None:
    """An unknown word is a mixture of those that take its place."""
    made = SanTextPlus(TABLE, epsilon=2.0, sensitive=np.array([1, 3]))
    law = likelihood.word_law(
        made, made.fallback, SPELLING.encode(TEXTS), SPELLING.encode(["b e", "c c"])
    )
    rows = made.log_rows(np.arange(4))
    mixed = np.logaddexp(rows[1, 1], rows[3, 1]) - np.log(2)
    expected = [[rows[3, 3], -np.inf, -np.inf], [-np.inf, -np.inf, mixed + rows[1, 1]]]
    np.testing.assert_allclose(law[:, :3], expected)


def test_kept_tokens_and_unsanitized_texts_are_refused() -> None:
    made, known = SanText(TABLE, epsilon=2.0), SPELLING.encode(["b"])
    kept = Tokenizer(TABLE.words, KEEP_UNKNOWN).encode(["zzz b"])
    for texts, seen in ((kept, known), (known, SPELLING.encode(["zzz"]))):
        with pytest.raises(InvalidInput, match="PRIVATE"):
            likelihood.word_law(made, made.fallback, texts, seen)


def test_gaps_are_filled_independently(tmp_path: Any) -> None:
    made = DPMLM(tiny_encoder(tmp_path, head=True), epsilon=20.0, limits=(-1.5, 1.0))
    every = [" ".join(each) for each in itertools.product(made.words, repeat=2)]
    texts = ["the cat", "cat the", "cat"]
    law = likelihood.gap_law(made, texts, every)
    np.testing.assert_allclose(np.exp(law[:, :2]).sum(0), 1)
    assert np.isneginf(law[:, 2]).all()
    first, second = made.log_law(texts[1])
    place = every.index(f"{made.words[3]} {made.words[1]}")
    assert law[place, 1] == pytest.approx(first[3] + second[1])


# --- Sentence by sentence -----------------------------------------------------------------------


def sentences(rng: np.random.Generator, sizes: IntArray) -> SentenceVectors:
    vectors = rng.standard_normal((int(sizes.sum()), 3)).astype(np.float32)
    return SentenceVectors(vectors, np.concatenate([[0], np.cumsum(sizes)]))


def test_the_density_of_noisy_vectors() -> None:
    """Of documents of several sizes, whose noise differs: the scale is part of the density."""
    rng = np.random.default_rng(0)
    known = sentences(rng, np.array([1, 2, 4]))
    made = TruncatedLaplace(Box(np.full(3, -1.0), np.array([1.0, 2.0, 3.0])), epsilon=9.0)
    seen = made.sanitize(known, rng)
    law = likelihood.noise_law(made, known, seen)
    for row, column in itertools.product(range(3), range(3)):
        mean, scale = made.clipped_mean(known)[column], made.scale(known)[column]
        assert law[row, column] == pytest.approx(laplace.logpdf(seen[row], mean, scale).sum())


def test_every_document_puts_out_a_candidate() -> None:
    rng = np.random.default_rng(0)
    public, known = sentences(rng, np.ones(20, dtype=int)), sentences(rng, np.array([6, 9]))
    made = DeepCandidate(public, lambda vectors: np.asarray(vectors, dtype=float), epsilon=4.0)
    law = likelihood.candidate_law(made, known, np.arange(20))
    np.testing.assert_allclose(np.exp(law).sum(0), 1)
    np.testing.assert_array_equal(law[:, 1], made.log_probability(known[1]))


# --- Token by token -----------------------------------------------------------------------------


def tried(count: int, *texts: int) -> IntArray:
    return np.tile(np.array(texts), (count, 1))


def test_a_paraphrase_is_as_likely_as_its_tokens(exact: None) -> None:
    """Against the law of every output of a toy model; what was not tried is impossible."""
    made, texts = mechanism(random_toy(5), SAME), ["a b", "", "e e e"]
    every = outputs(made.tokens)
    said = [" ".join(WORDS[each] for each in output if each) for output in every]
    law = likelihood.prompt_law(made, texts, said, tried(len(said), 2, 0), batch=7)
    assert np.isneginf(law[:, 1]).all()
    for text in (0, 2):
        np.testing.assert_allclose(law[:, text], plain_prompt_law(made, texts[text]), atol=1e-5)


@pytest.mark.parametrize("order", [2.0, np.inf])
def test_a_fused_paraphrase_reads_both(order: float, exact: None) -> None:
    """Documents with redactions of several lengths: each row goes with its own."""
    made = fusion(random_toy(3, strength=1.0), order=order)
    texts, redacted = ["a b", "e c c a", "b b"], ["d b", "e", "d b"]
    laws = [plain_fusion_law(made, *each) for each in zip(texts, redacted, strict=True)]
    said = [" ".join(WORDS[each] for each in output) for output in laws[0]]
    law = likelihood.fusion_law(made, texts, redacted, said, tried(len(said), 1, 2, 0), batch=8)
    for column, plain in enumerate(laws):
        np.testing.assert_allclose(np.exp(law[:, column]), list(plain.values()), rtol=1e-5)


def test_candidates_belong_to_outputs() -> None:
    with pytest.raises(InvalidInput, match=r"expected \(2, tried\)"):
        likelihood.prompt_law(mechanism(random_toy(5), SAME), ["a"], ["a", "b"], tried(1, 0))


# --- The attack ---------------------------------------------------------------------------------


def test_the_likeliest_text_is_named_as_often_as_bayes_rule_can() -> None:
    """Success over all outputs, weighted by their law, is the mean over outputs of the largest."""
    made = SanText(TABLE, epsilon=1.0)
    every = SPELLING.encode([" ".join(each) for each in itertools.product("bcde", repeat=2)])
    known = SPELLING.encode(["b e", "e b", "c c"])
    law: FloatArray = likelihood.word_law(made, made.fallback, known, every)
    scores = linkage.by_likelihood(law)
    np.testing.assert_allclose(np.exp(scores).sum(1), 1)
    named = scores == scores.max(1, keepdims=True)
    success = (np.exp(law) * named / named.sum(1, keepdims=True)).sum() / 3
    assert success == pytest.approx(np.exp(law).max(1).sum() / 3)


def test_what_is_impossible_comes_last() -> None:
    law = np.array([[-3.0, -np.inf, -1.0], [-np.inf, -np.inf, -np.inf]])
    total = np.logaddexp(-3, -1)
    expected = [[-3 - total, -4 - total, -1 - total], [0, 0, 0]]
    np.testing.assert_allclose(linkage.by_likelihood(law), expected)
    with pytest.raises(InvalidInput, match="log_law"):
        linkage.by_likelihood(np.array([[np.nan, 0.0]]))
