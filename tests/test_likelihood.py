"""Laws of outputs: each sums to 1 over all outputs of a text, and agrees with another way to it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from helpers import FloatArray
from scipy.stats import laplace
from tiny_generators import tiny_generator
from tiny_models import tiny_encoder

from textpriv.attacks import likelihood, linkage
from textpriv.channel import IntArray
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, PRIVATE, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms import SanText, SanTextPlus
from textpriv.mechanisms.dp_fusion import DPFusion
from textpriv.mechanisms.dp_mlm import DPMLM
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.models.generators import Generator, generate
from textpriv.models.vectors import SentenceVectors
from textpriv.privacy.released import copies

TABLE = from_arrays("made up", list("bcde"), np.array([[0.0], [1.0], [3.0], [3.5]]))
SPELLING = Tokenizer(TABLE.words, PRIVATE)
TEXTS = ["b e", "e b", "zzz c", "d", "b c d"]


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


def test_outputs_that_a_text_cannot_give_have_no_ratio(tmp_path: Any) -> None:
    """DP-MLM shows the number of words: no classifier has to tell these texts apart."""
    made = DPMLM(tiny_encoder(tmp_path, head=True), epsilon=20.0, limits=(-1.5, 1.0))
    for pair in (["the cat", "cat"], ["cat", "dog"]):
        with pytest.raises(InvalidInput, match="got 1 of 1 that one of the texts cannot give"):
            likelihood.log_ratio(made, pair, "", ["the cat"], encoder=NOBODY)


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


SAID = ["the cat", "the dog sat", "", "the cat", "cat"]  # equal ones, and one begins another
ASKED = ["do the cat", "", "sat sat sat"]
NOBODY: Any = None  # where an encoder is not asked


@pytest.fixture(scope="module")
def generator(exact_throughout: None, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"), longest=256)


def forced(mechanism: DPPrompt, text: str, output: str) -> float:
    """ln P of one output by the loop that draws, which is told what to draw."""
    ends = [*mechanism.generator.encode([output])[0], mechanism.generator.end]
    total, columns = [], np.searchsorted(mechanism.generator.sayable, ends[: mechanism.tokens])

    def choose(scores: torch.Tensor, _: IntArray) -> IntArray:
        chosen = columns[len(total)]
        total.append(float(mechanism.log_weights(scores.double()).log_softmax(1)[0, chosen]))
        return np.array([chosen])

    made = generate(
        mechanism.generator, mechanism.prompts([text]), choose, tokens=mechanism.tokens, batch=1
    )
    assert len(list(made)) == 1 and len(total) == len(columns)
    return sum(total)


@pytest.mark.parametrize("tokens", [3, 12])
def test_a_paraphrase_is_as_likely_as_its_tokens(generator: Generator, tokens: int) -> None:
    """The end counts where it stands before the cap."""
    limits = Limits.same(-2.0, 3.0, len(generator.sayable))
    about = {"temperature": 1.3, "tokens": tokens, "template": "{text}"}
    made = DPPrompt(generator, limits=limits, **about)
    law = likelihood.prompt_law(made, ASKED, SAID)
    expected = [[forced(made, text, output) for text in ASKED] for output in SAID]
    np.testing.assert_allclose(law, expected, rtol=1e-5)
    np.testing.assert_array_equal(law[0], law[3])


@pytest.mark.parametrize("order", [2.0, np.inf])
def test_a_fused_paraphrase_reads_both(generator: Generator, order: float) -> None:
    """Each text goes with its own redaction, whatever their order."""
    made = DPFusion(generator, bound=0.3, order=order, tokens=12)
    redacted = ["do the _", "_", "sat _ sat"]
    law = likelihood.fusion_law(made, ASKED, redacted, SAID)
    for column, (text, shown) in enumerate(zip(ASKED, redacted, strict=True)):
        for row, output in enumerate(SAID):
            ends = [*generator.encode([output])[0], generator.end]
            columns = np.searchsorted(generator.sayable, ends)
            along = made.laws_along(text, shown, output)
            told = float(along[np.arange(len(columns)), columns].sum())
            assert law[row, column] == pytest.approx(told, rel=1e-5)
    assert abs(law - likelihood.fusion_law(made, ASKED, ASKED, SAID)).max() > 0.1


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


def test_outputs_are_read_in_parts(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DPPrompt(generator, temperature=1.3, tokens=12, template="{text}",
                    limits=Limits.same(-2.0, 3.0, len(generator.sayable)))  # fmt: skip
    whole = likelihood.prompt_law(made, ASKED, SAID)
    monkeypatch.setattr(likelihood, "_OUTPUTS", 2)
    np.testing.assert_allclose(likelihood.prompt_law(made, ASKED, SAID), whole, rtol=1e-5)
    pair = ASKED[:2]
    ratio = likelihood.log_ratio(made, pair, "", SAID, encoder=NOBODY)
    np.testing.assert_allclose(ratio[:, 0], whole[:, 0] - whole[:, 1], rtol=1e-4, atol=1e-4)
    assert np.isnan(likelihood.worst_log_ratio(made, pair, NOBODY))


def test_the_worst_log_ratio_is_reached_and_never_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    public, known = sentences(rng, np.ones(20, dtype=int)), sentences(rng, np.array([6, 6]))
    monkeypatch.setattr(likelihood, "embed", lambda *_: known)
    deep = DeepCandidate(public, lambda vectors: np.asarray(vectors, dtype=float), epsilon=4.0)
    noisy = TruncatedLaplace(Box.learn(public), epsilon=3.0)
    outputs = noisy.sanitize(copies(known[0], 500), rng)
    signs = np.sign(np.subtract(*noisy.clipped_mean(known)))
    outputs = np.vstack([outputs, 1e3 * signs[None]])  # beyond both means, each on its own side
    for mechanism, seen in ((deep, np.arange(20)), (noisy, outputs)):
        ratio = likelihood.log_ratio(mechanism, ["", ""], "", seen, encoder=NOBODY)
        worst = likelihood.worst_log_ratio(mechanism, ["", ""], NOBODY)
        assert 0 < np.abs(ratio).max() == pytest.approx(worst)
