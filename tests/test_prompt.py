"""DP-Prompt: the loss against every output of a toy model, the guard, resuming, all families."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from helpers import fits, power_of_fit, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from tiny_generators import FAMILIES, tiny_family

from textpriv.errors import InvalidInput
from textpriv.mechanisms.prompt import (
    PAPER,
    DPPrompt,
    Limits,
    learn_limits,
    paper_loss,
    sanitize_at,
    tight_loss,
)
from textpriv.models.generators import Generator, IntArray, generate

WORDS = ("</s>", "a", "b", "c", "d", "e")  # the first one ends an output
SIZE, TOKENS = len(WORDS), 3
ROWS = SIZE + 2  # of the table; the last two stand for no token and have the largest scores
DOCUMENTS = ("", "a", "b", "c d", "a a e b", "e e e")


class Toy(torch.nn.Module):
    """Scores of the next token: one row of a table for each token so far, added up."""

    dtype = torch.float64

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.config = transformers.LlamaConfig(vocab_size=ROWS, max_position_embeddings=40)
        self.embedding = torch.nn.Embedding.from_pretrained(torch.eye(ROWS))
        self.table = torch.as_tensor(np.asarray(table), dtype=torch.float32)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embedding

    get_output_embeddings = get_input_embeddings

    def forward(
        self, inputs_embeds: Any, attention_mask: Any, past_key_values: Any, **_: Any
    ) -> Any:
        new = inputs_embeds[:, None]
        every, _ = past_key_values.update(new, new, 0)
        seen = (every[:, 0] * attention_mask[:, :, None]).sum(1)
        scores = seen @ self.table
        scores[:, SIZE:] = 1e4
        return transformers.modeling_outputs.CausalLMOutput(logits=scores[:, None])


def toy(table: Any) -> Generator:
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="a")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=WORDS[0], eos_token=WORDS[0]
    )
    model: Any = Toy(table)
    return Generator("toy", tokenizer, model, torch.device("cpu"), "toy")


def random_toy(seed: int, *, strength: float = 4.0) -> Generator:
    return toy(np.random.default_rng(seed).normal(0, strength, (ROWS, ROWS)))


def toy_limits(seed: int) -> Limits:
    """Wide and narrow, overlapping and not."""
    rng = np.random.default_rng(seed)
    low = rng.normal(0, 3, SIZE)
    return Limits(low, low + rng.exponential(3, SIZE))


SAME = Limits.same(-2.0, 3.0, SIZE)
EVERY = [SAME, toy_limits(1), toy_limits(2)]


def outputs(tokens: int = TOKENS) -> list[tuple[int, ...]]:
    """All that can be said: columns, with the one that ends it where it stands before the cap."""
    said = range(1, SIZE)
    ended = [(*each, 0) for k in range(tokens) for each in itertools.product(said, repeat=k)]
    return ended + list(itertools.product(said, repeat=tokens))


def law(mechanism: DPPrompt, text: str) -> Any:
    """ln P of every output, by the library's own loop and clipping."""
    every = outputs(mechanism.tokens)
    total, step = np.zeros(len(every)), np.zeros(len(every), dtype=int)

    def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
        chosen = np.array([every[number][step[number]] for number in numbers])
        log_probabilities = mechanism.log_weights(scores.double()).log_softmax(1).numpy()
        assert log_probabilities.dtype == np.float64
        total[numbers] += log_probabilities[np.arange(len(numbers)), chosen]
        step[numbers] += 1
        return chosen

    prompts = mechanism.prompts([text]) * len(every)
    for _ in generate(mechanism.generator, prompts, choose, tokens=mechanism.tokens, batch=300):
        pass
    assert step.tolist() == [len(output) for output in every]
    assert np.exp(total).sum() == pytest.approx(1, abs=1e-9)
    return total


def mechanism(generator: Generator, limits: Limits | None, **options: Any) -> DPPrompt:
    given = {"temperature": 1.3, "tokens": TOKENS, "template": "{text}"} | options
    return DPPrompt(generator, limits=limits, **given)


@pytest.mark.parametrize("limits", EVERY, ids=["scalar", "per id", "per id 2"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_pair_of_documents_exceeds_the_loss(limits: Limits, seed: int) -> None:
    """Every output of every pair of documents; and the documents do differ."""
    made = mechanism(random_toy(seed), limits)
    laws = np.array([law(made, text) for text in DOCUMENTS])
    widest = (laws.max(0) - laws.min(0)).max()
    assert 0.1 * made.guarantee.epsilon < widest <= made.guarantee.epsilon + 1e-9
    assert made.guarantee.epsilon <= made.guarantee.epsilon_paper


def losses(limits: Limits, temperature: float) -> Any:
    """What saying each token tells at most, by the formula."""
    low, high = limits.low / temperature, limits.high / temperature
    said = np.eye(len(low), dtype=bool)
    with_high, with_low = (
        logsumexp(np.where(said, one, other), axis=1) for one, other in ((high, low), (low, high))
    )
    return high - with_high - low + with_low


def corner(limits: Limits, temperature: float) -> tuple[Generator, int]:
    """A model that puts two documents at opposite corners of the box, and the token to say."""
    best = int(losses(limits, temperature).argmax())
    table = np.zeros((ROWS, ROWS))
    a, b = map(WORDS.index, _pair(best))
    table[a], table[b] = -1e3, 1e3
    table[a, best], table[b, best] = 1e3, -1e3
    return toy(table), best


def _pair(best: int) -> tuple[str, str]:
    """Two documents whose tokens are not the one that tells most."""
    first, second = [word for word in WORDS[1:] if word != WORDS[best]][:2]
    return first, second


def test_the_guarantee_counts_tokens_and_heat() -> None:
    limits = toy_limits(1)
    guarantee = mechanism(random_toy(0), limits, tokens=7, temperature=2.0).guarantee
    assert (guarantee.tokens, guarantee.temperature, guarantee.withdrawn) == (7, 2.0, "")
    assert guarantee.epsilon == pytest.approx(7 * tight_loss(limits, 2.0))
    width = (limits.high - limits.low).max()
    assert guarantee.epsilon_paper == pytest.approx(2 * 7 * width / 2.0)
    unclipped = mechanism(random_toy(0), None).guarantee
    assert unclipped.epsilon == unclipped.epsilon_paper == np.inf
    assert "not clipped" in unclipped.withdrawn


@pytest.mark.parametrize("limits", EVERY, ids=["scalar", "per id", "per id 2"])
def test_a_constructed_pair_reaches_the_loss(limits: Limits) -> None:
    generator, best = corner(limits, 1.3)
    made = mechanism(generator, limits)
    one, other = _pair(best)
    gap = law(made, one) - law(made, other)
    if best:  # the token that ends it can be said once only
        assert gap.max() == pytest.approx(made.guarantee.epsilon, rel=1e-9)
        assert outputs()[int(gap.argmax())] == (best,) * TOKENS
    else:
        assert gap.max() > made.guarantee.epsilon / TOKENS - 1e-9
    assert gap.max() <= made.guarantee.epsilon + 1e-9


def test_top_k_breaks_the_bound_and_the_guard_sees_it() -> None:
    generator, limits = random_toy(0), toy_limits(1)
    with pytest.raises(InvalidInput, match="top_k: got 2.*no epsilon is finite.*ablation=True"):
        mechanism(generator, limits, top_k=2)
    cut = mechanism(generator, limits, top_k=2, ablation=True)
    laws = np.array([law(cut, text) for text in DOCUMENTS])
    assert (np.isfinite(laws).any(0) & np.isneginf(laws).any(0)).any()
    assert cut.guarantee.epsilon == np.inf and cut.guarantee.withdrawn.startswith("top_k = 2")
    assert np.isfinite(law(mechanism(generator, limits), "a")).all()


@settings(max_examples=60)
@given(
    pairs=st.lists(st.tuples(st.floats(-80, 80), st.floats(0, 120)), min_size=1, max_size=12),
    temperature=st.floats(0.1, 10),
)
def test_the_loss_is_its_formula(pairs: list[tuple[float, float]], temperature: float) -> None:
    low = np.array([pair[0] for pair in pairs])
    limits = Limits(low, low + np.array([pair[1] for pair in pairs]))
    loss = tight_loss(limits, temperature)
    assert loss == pytest.approx(losses(limits, temperature).max(), rel=1e-9, abs=1e-9)
    assert -1e-9 <= loss <= paper_loss(limits, temperature) + 1e-9


@settings(max_examples=30)
@given(low=st.floats(-100, 100), width=st.floats(0, 100), size=st.sampled_from([1, 2, 20, 50_000]))
def test_the_loss_of_one_pair_has_a_closed_form(low: float, width: float, size: int) -> None:
    limits, temperature = Limits.same(low, low + width, size), 0.75
    range_ = float((limits.high - limits.low)[0]) / temperature
    rest = np.log(size - 1) if size > 1 else -np.inf
    closed = range_ + np.logaddexp(0, rest + range_) - np.logaddexp(range_, rest)
    assert tight_loss(limits, temperature) == pytest.approx(closed, rel=1e-9, abs=1e-9)
    assert paper_loss(limits, temperature) == pytest.approx(2 * range_)


def test_the_loss_is_stable_in_a_large_vocabulary() -> None:
    """50,000 ids and ranges of 100: a token that outweighs all others by e^150 included."""
    rng = np.random.default_rng(0)
    low = rng.uniform(-60, 0, 50_000)
    high = low + rng.uniform(0, 100, 50_000)
    low[17], high[17] = 90.0, 110.0
    loss = tight_loss(Limits(low, high), 0.75)
    few = np.concatenate([[17], np.argsort(low - high)[:20], np.argsort(-high)[:20]])
    by_hand = []
    for i in few:
        others = np.arange(50_000) != i
        sums = (logsumexp(each[others] / 0.75) for each in (low, high))
        under, over = sums
        l, h = low[i] / 0.75, high[i] / 0.75  # noqa: E741
        by_hand.append(h - np.logaddexp(h, under) - l + np.logaddexp(l, over))
    assert loss == pytest.approx(max(by_hand), rel=1e-9)


def test_clipping() -> None:
    limits = Limits(np.array([-1.0, 0.1, 5.0]), np.array([2.0, 0.3, 5.0]))
    scores = torch.tensor([[-9.0, 0.2, 0.0], [9.0, 9.0, 9.0], [torch.nan, torch.inf, -torch.inf]])
    clipped = limits.clip(scores.double())
    assert clipped.dtype == torch.float64
    assert clipped.tolist() == [[-1.0, pytest.approx(0.2), 5.0], [2.0, 0.3, 5.0], [-1.0, 0.1, 5.0]]
    single = limits.clip(scores)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, clipped, rtol=1e-7)
    low, high = torch.tensor(limits.low), torch.tensor(limits.high)
    assert (single >= low).all() and (single <= high).all()  # 0.1 and 0.3 are rounded inwards
    with pytest.raises(ValueError, match="read-only"):
        limits.low[0] = 7
    assert limits.digest != Limits(limits.low, limits.high + 1).digest
    assert limits.digest == Limits(limits.low, limits.high).digest


def test_a_model_that_overflows_stays_within_the_loss() -> None:
    table = np.random.default_rng(0).normal(0, 4, (ROWS, ROWS))
    table[1, 2], table[2, 3], table[3, 1] = np.nan, -np.inf, np.inf
    made = mechanism(toy(table), SAME)
    laws = np.array([law(made, text) for text in DOCUMENTS])
    assert np.isfinite(laws).all()
    assert (laws.max(0) - laws.min(0)).max() <= made.guarantee.epsilon + 1e-9


def test_limits_are_those_of_the_logits_on_public_documents() -> None:
    """A table whose rows are zero but for the document: its logits are known at every step."""
    table = np.zeros((ROWS, ROWS))
    table[1, :SIZE] = np.arange(SIZE) - 30  # "a" hardly ever ends: -30 against the others
    generator = toy(table)
    options: dict[str, Any] = {"tokens": 1, "seed": 0, "template": "{text}"}
    limits = learn_limits(generator, ["a", "a a", "b"], **options)
    expected = np.array([table[1] * times for times in (0, 1, 2)])[:, :SIZE]
    assert limits.low.tolist() == expected.min(0).tolist()
    assert limits.high.tolist() == expected.max(0).tolist()


def test_every_step_counts_for_the_limits() -> None:
    table = np.zeros((ROWS, ROWS))
    table[3, :SIZE] = 7.0
    table[1, :SIZE] = [-50, -50, -50, 0, -50, -50]  # after "a" comes "c"
    limits = learn_limits(toy(table), ["a"], tokens=2, seed=0, template="{text}")
    assert limits.high.tolist() == [-43, -43, -43, 7, -43, -43] and limits.low[3] == 0


def test_outputs_follow_the_law() -> None:
    """False alarm at most 1e-6; without clipping, or at another temperature, it would be seen."""
    generator, limits, n = random_toy(3, strength=2.0), toy_limits(1), 4_000
    made = mechanism(generator, limits, tokens=2)
    texts = made.sanitize(["c d"] * n, seed=4, batch=500)
    said = {" ".join(WORDS[i] for i in each if i): row for row, each in enumerate(outputs(2))}
    counts = np.bincount([said[text] for text in texts], minlength=len(said))
    right = np.exp(law(made, "c d"))
    assert fits(counts, right)
    for other in (
        mechanism(generator, None, tokens=2),
        mechanism(generator, limits, tokens=2, temperature=1.0),
    ):
        wrong = np.exp(law(other, "c d"))
        assert power_of_fit(np.maximum(wrong, 1e-12), right, n) > 0.999


def test_seeds_and_settings_name_the_draws() -> None:
    generator = random_toy(3, strength=1.0)
    made = mechanism(generator, SAME)
    texts = list(DOCUMENTS) * 10
    first = made.sanitize(texts, seed=1)
    assert first == made.sanitize(texts, seed=1, batch=7) == made.sanitize(texts, seed=1, batch=1)
    assert first != made.sanitize(texts, seed=2)
    assert made.sanitize(texts) != made.sanitize(texts)
    # Nearly the same law, other draws.
    assert first != mechanism(generator, SAME, temperature=1.3001).sanitize(texts, seed=1)
    assert made.sanitize([]) == []
    assert len(made.sanitize([""], seed=0)) == 1


def test_the_longest_document_that_fits() -> None:
    made = mechanism(random_toy(0), SAME)
    fits_in = " ".join(["a"] * 36)  # with the opening token and three more: 40
    assert len(made.sanitize([fits_in], seed=0)) == 1


ASKED = ["the cat sat", "", "a dog", "the cat sat", "dog dog sat"]


def several(generator: Generator) -> list[DPPrompt]:
    """Without limits, hotter, clipped, clipped harder and cut: all that may differ."""
    size = len(generator.sayable)
    limits = learn_limits(generator, ["a cat", "the dog"], tokens=3, seed=0, template="{text}:")
    options: dict[str, Any] = {"tokens": 6, "template": "{text}:"}
    return [
        DPPrompt(generator, temperature=6.0, **options),
        DPPrompt(generator, temperature=15.0, **options),
        DPPrompt(generator, temperature=6.0, limits=limits, **options),
        DPPrompt(generator, temperature=6.0, limits=Limits.same(-1, 1, size), **options),
        DPPrompt(generator, temperature=6.0, top_k=1, ablation=True, **options),
    ]


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_at_once_as_by_themselves(family: str, tmp_path: Path, exact: None) -> None:
    made = several(tiny_family(tmp_path / family, family))
    expected = [each.sanitize(ASKED, seed=3) for each in made]
    for batch in (1, 4, 32):
        assert sanitize_at(made, ASKED, 3, batch=batch) == expected
    assert sanitize_at(made[::-1], ASKED, 3) == expected[::-1]
    assert sanitize_at(made[2:3], ASKED, 3) == expected[2:3]
    assert sanitize_at(made, ASKED, 4) != expected
    # Every setting matters: no two mechanisms say the same, and one token cannot vary.
    assert len({tuple(each) for each in expected}) == len(made)
    assert expected[4][0] == expected[4][3] and expected[0][0] != expected[0][3]


def test_what_clipping_moves_by_hand() -> None:
    """At T = 2: weights 4 and e^-0.5 for each other token, and with the limits 1 and e^-0.5."""
    made = mechanism(random_toy(0), Limits.same(-1.0, 0.0, SIZE), temperature=2.0)
    scores = torch.full((2, SIZE), -1.0)
    scores[0, 0] = 2 * np.log(4)
    changed, moved = made.moved_by_clipping(scores)
    assert changed.tolist() == pytest.approx([1 / SIZE, 0])
    rest = (SIZE - 1) * np.exp(-0.5)
    assert moved[0] == pytest.approx(4 / (4 + rest) - 1 / (1 + rest), abs=1e-6) and moved[1] == 0


def test_who_watches_sees_every_draw_and_changes_none() -> None:
    generator = random_toy(3, strength=1.0)
    mechanisms, texts = [mechanism(generator, SAME), mechanism(generator, None)], list(DOCUMENTS)
    seen: dict[tuple[int, int], int] = {}

    def watch(which: int, scores: torch.Tensor, documents: IntArray) -> None:
        assert scores.shape == (len(documents), SIZE)
        for document in documents.tolist():
            seen[which, document] = seen.get((which, document), 0) + 1

    paraphrases = sanitize_at(mechanisms, texts, 1, watch=watch)
    assert paraphrases == sanitize_at(mechanisms, texts, 1)
    for which, own in enumerate(paraphrases):
        for document, text in enumerate(own):
            length = len(text.split())  # and the token that ends it, where it is within the cap
            assert seen[which, document] == min(length + 1, TOKENS)
    assert len(seen) == len(mechanisms) * len(texts)


def test_each_document_is_read_once_for_all(tmp_path: Path, exact: None) -> None:
    generator = tiny_family(tmp_path / "t5", "t5")
    rows: list[int] = []
    generator.model.get_encoder().register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["inputs_embeds"])), with_kwargs=True
    )
    made, different = several(generator), ["the cat sat", "a dog", "dog"]
    rows.clear()
    sanitize_at(made, different, 0)
    assert rows == [3]


def test_at_once_without_a_seed_or_a_document() -> None:
    generator = random_toy(3, strength=1.0)
    made = [mechanism(generator, SAME), mechanism(generator, None)]
    texts = list(DOCUMENTS) * 5
    assert sanitize_at(made, texts) != sanitize_at(made, texts)
    first, second = sanitize_at([made[0]] * 2, texts)
    assert first != second  # with entropy each draws for itself
    first, second = sanitize_at([made[0]] * 2, texts, 1)
    assert first == second
    assert sanitize_at(made, [], 1) == [[], []]


def test_who_asks_differently_asks_alone() -> None:
    generator = random_toy(0)
    one = mechanism(generator, SAME)
    for other in (
        mechanism(generator, SAME, template="b {text}"),
        mechanism(generator, SAME, tokens=TOKENS + 1),
        mechanism(random_toy(0), SAME),
    ):
        with pytest.raises(InvalidInput, match="mechanisms: got 3 that ask in 2 ways"):
            sanitize_at([one, other, one], ["a"], 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_paraphrases(family: str, tmp_path: Path, exact: None) -> None:
    """From its configuration, saved and loaded offline; in batches as alone."""
    generator = tiny_family(tmp_path / family, family)
    options: dict[str, Any] = {"template": "{text}:", "tokens": 6}
    public, private = ["a cat", "the dog sat", "dog"], ["the cat sat", "", "a dog"]
    limits = learn_limits(generator, public, seed=0, **options)
    prompt = DPPrompt(generator, temperature=2.0, limits=limits, **options)
    paraphrases = prompt.sanitize(private, seed=3, batch=3)
    assert paraphrases == prompt.sanitize(private, seed=3, batch=1) and len(set(paraphrases)) == 3
    assert 0 < prompt.guarantee.epsilon <= prompt.guarantee.epsilon_paper < np.inf


def test_a_chat_model_is_asked_in_its_form(tmp_path: Path, exact: None) -> None:
    generator = tiny_family(tmp_path / "chat", "llama", chat=True, longest=128)
    made = DPPrompt(generator, temperature=1.0, tokens=4)
    (prompt,) = made.prompts(["a cat"])
    expected = f"<user>{PAPER.replace('{text}', 'a cat')}<|turn|><assistant>"
    assert generator.tokenizer.decode(prompt) == expected
    assert len(made.sanitize(["a cat", "the dog"], seed=0)) == 2


TOY, LONG, NAN, INF = random_toy(0), " ".join(["a"] * 37), float("nan"), float("inf")
PLAIN: Any = mechanism(TOY, SAME)
limits: Any = Limits


def made(temperature: float = 1.0, tokens: Any = 3, limits: Limits = SAME, **options: Any) -> Any:
    return DPPrompt(TOY, temperature=temperature, tokens=tokens, limits=limits, **options)


test_bad_input_is_named = refused(
    (lambda: limits([0.0, 1.0], [1.0, 0.5]), "got 1 to 0.5 for id 1, expected low <= high"),
    (lambda: limits([0.0, NAN], [1.0, 1.0]), "got NaN or infinity"),
    (lambda: limits([0.0], [1.0, 2.0]), "got shapes"),
    (lambda: limits([], []), "got shapes"),
    (lambda: limits(0.0, 1.0), "see Limits.same"),
    (lambda: Limits.same(0, 1, 3).clip(torch.zeros(1, 2)), "got 3 for a vocabulary of 2"),
    (lambda: learn_limits(TOY, [], tokens=1, seed=0, template="{text}"), "texts: got none"),
    (lambda: made(temperature=0), "temperature: got 0"),
    (lambda: made(temperature=1e-40), "temperature: got 1e-40, expected at least 1e-20"),
    (lambda: made(tokens=0), "tokens: got 0"),
    (lambda: made(tokens=[3, 4]), "tokens: got list.*private text"),
    (lambda: made(tokens=len), "tokens: got builtin_function_or_method.*private text"),
    (lambda: made(template="{text} {text}"), "template: got"),
    (lambda: made(limits=Limits.same(0, 1, 5)), "limits: got 5 for the 6 tokens of toy"),
    (lambda: PLAIN.sanitize(["a", 3], seed=0), "texts: got .* in number 1, expected a string"),
    (lambda: PLAIN.sanitize(["a", LONG], seed=0), "got 38 tokens in number 1, expected 1 to 37"),
    (
        lambda: mechanism(TOY, None).moved_by_clipping(torch.zeros(2, SIZE)),
        "expected a mechanism that clips",
    ),
    (lambda: sanitize_at([], ["a"], 0), "mechanisms: got 0 that ask in 0 ways"),
)
