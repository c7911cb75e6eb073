"""Likelihood, prefixes and generation, with tiny random models of every family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import fits, power_of_fit
from tiny_generators import (
    FAMILIES,
    PADDING,
    WITH_ENCODER,
    log_by_hand,
    tiny_family,
    write_tiny_generator,
)

from textpriv import assets, models
from textpriv.errors import InvalidInput
from textpriv.models import generators
from textpriv.models.generators import (
    ROOT,
    Generator,
    IntArray,
    Prefixes,
    Sampled,
    draw,
    generate,
    likeliest,
    load_generator,
)
from textpriv.neighbors.table import bfloat16_is_fast

TEXTS = ["the cat sat", "", "a dog", "the dog sat on the cat again", "x", "the cat sat"]


def test_likelihood_is_the_sum_over_tokens(generator: Generator, monkeypatch: Any) -> None:
    ids = generator.tokenizer(TEXTS, add_special_tokens=False)["input_ids"]
    expected = [log_by_hand(generator, tokens) for tokens in ids]
    got = generator.log_likelihood(TEXTS)
    assert got.dtype == np.float64 and got.shape == (len(TEXTS),)
    assert np.abs(got - expected).max() < 1e-4
    monkeypatch.setattr(generators.generator, "_TEXTS", 2)
    assert np.abs(generator.log_likelihood(TEXTS) - got).max() < 1e-4
    assert got[1] == 0 and got[0] == pytest.approx(got[5], abs=1e-5)
    # The model is no uniform one: tokens that are shifted by a place have another likelihood.
    assert np.std(np.array(expected)[[0, 2, 3, 4]] / [len(TEXTS[i]) for i in (0, 2, 3, 4)]) > 0.1


def test_probabilities_of_the_next_token_sum_to_one(generator: Generator, monkeypatch: Any) -> None:
    states = generator.states(torch.tensor([[0, 5, 9]]))[0].detach()
    size = len(generator.tokenizer)
    every = np.tile(np.arange(size), (3, 1))
    scores = generator.next_log_probability(states, every)
    assert scores.shape == (3, size) and np.abs(np.exp(scores).sum(1) - 1).max() < 1e-5
    monkeypatch.setattr(generators.generator, "_LOGITS", 2 * size)  # in chunks
    assert np.abs(generator.next_log_probability(states, every) - scores).max() < 1e-5
    assert generator.next_log_probability(states[:0], every[:0]).shape == (0, size)


def test_nothing_to_do_and_too_much(generator: Generator) -> None:
    assert generator.log_likelihood([]).shape == (0,)
    longest = "x" * (generator.longest - 1)
    assert np.isfinite(generator.log_likelihood([longest])[0])
    with pytest.raises(InvalidInput, match="got 65 tokens in one, expected at most 64"):
        generator.log_likelihood(["a", longest + "x"])
    with pytest.raises(InvalidInput, match="texts: got one string"):
        generator.log_likelihood("a cat")


@torch.inference_mode()
def in_its_own_type(generator: Generator, text: str) -> float:
    """ln P of a text as the bare model gives it, its sums in the type of its weights."""
    ids = torch.tensor([generator.opening, *generator.encode([text])[0]])
    law = generator.model(ids[None]).logits[0, :-1].double().log_softmax(1)
    return float(law.gather(1, ids[1:, None]).sum())


def test_bfloat16_is_close_to_float32(tmp_path: Path, monkeypatch: Any) -> None:
    """What the layers add up stays in float32: bfloat16 throughout is farther off, on average.

    By about a tenth, over models and texts enough to see it: how sums are rounded depends on the
    processor.
    """
    if not bfloat16_is_fast():
        pytest.skip("this processor has no fast bfloat16")
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdt "), size=40)) for _ in range(200)]
    errors, throughout = [], []
    for seed in range(4):
        where = write_tiny_generator(tmp_path / f"tiny{seed}", seed=seed)
        with monkeypatch.context() as patch:
            fast = generators.from_folder("tiny", where, digest="")
            assert fast.dtype == torch.bfloat16
            assert fast.states(torch.tensor([[0, 5, 9]])).dtype == torch.float32
            got, pure = fast.log_likelihood(texts), [in_its_own_type(fast, text) for text in texts]
            for module in (models.encoders, generators.generator):
                patch.setattr(module, "bfloat16_is_fast", lambda _: False)
            expected = replace(fast, model=fast.model.float()).log_likelihood(texts)
        errors.append(np.abs(got - expected))
        throughout.append(np.abs(pure - expected))
        assert 0 < errors[-1].mean() < 0.005 * np.abs(expected).mean()
    assert np.mean(errors) < np.mean(throughout)


PROMPTS = ("the cat", "a dog sat", "x", "the dog sat on the cat again", "dog dog", "the cat")


@pytest.fixture(params=FAMILIES)
def family(request: Any, tmp_path: Path, exact: None) -> Generator:
    return tiny_family(tmp_path / "tiny", request.param)


def outputs(generator: Generator, prompts: Any, choose: Any, **options: Any) -> list[list[int]]:
    """By the number of the prompt."""
    collected = {
        int(number): output
        for numbers, batch in generate(generator, prompts, choose, **options)
        for number, output in zip(numbers, batch, strict=True)
    }
    assert sorted(collected) == list(range(len(prompts)))
    return [collected[number] for number in range(len(prompts))]


def never_ends(generator: Generator) -> Any:
    """Greedy, but for the token that ends a text."""

    def choose(scores: torch.Tensor, _: IntArray) -> IntArray:
        scores = scores.clone()
        scores[:, np.flatnonzero(generator.sayable == generator.end)] = -torch.inf
        return likeliest(scores, _)

    return choose


def test_scores_are_those_of_one_run_over_all(family: Generator) -> None:
    """Every step's scores in a batch, against the model over the whole text without a cache."""
    prompts = [family.ask(text) for text in PROMPTS]
    seen: dict[int, list[torch.Tensor]] = {number: [] for number in range(len(prompts))}

    def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
        assert scores.dtype == torch.float32
        for row, number in zip(scores, numbers.tolist(), strict=True):
            seen[number].append(row)
        return never_ends(family)(scores, numbers)

    said = outputs(family, prompts, choose, tokens=5)
    size = len(family.tokenizer)
    for number, prompt in enumerate(prompts):
        with torch.inference_mode():
            if family.is_encoder_decoder:
                written = torch.tensor([[0, *said[number][:-1]]])
                logits = family.model(torch.tensor([prompt]), decoder_input_ids=written).logits[0]
            else:
                logits = family.model(torch.tensor([prompt + said[number][:-1]])).logits[0, -5:]
        assert torch.allclose(torch.stack(seen[number]), logits[:, :size], atol=1e-4, rtol=1e-3)


REPEATED = ("the cat", "a dog sat", "the cat", "x", "the cat", "a dog sat", "the cat again")
DIFFERENT = 4  # of them


def test_equal_prompts_are_read_once(family: Generator) -> None:
    """By the encoder, or at the first step of a causal model; then each goes its own way."""
    prompts = [family.ask(text) for text in REPEATED]
    reader = family.model.get_encoder() if family.is_encoder_decoder else family.model
    rows: list[int] = []
    reader.register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["inputs_embeds"])), with_kwargs=True
    )

    def read(batch: int) -> list[int]:
        rows.clear()
        outputs(family, prompts, never_ends(family), tokens=3, batch=batch)
        return rows if family.is_encoder_decoder else rows[::3]  # of every batch the first step

    assert read(len(prompts)) == [DIFFERENT]
    assert rows == ([DIFFERENT] if family.is_encoder_decoder else [DIFFERENT, 7, 7])
    # Those of another batch are not known; the longest prompts come first.
    assert sum(read(1)) == len(prompts)
    lengths = [len(prompt) for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda row: -lengths[row])
    parts = [order[start : start + 3] for start in (0, 3, 6)]
    assert read(3) == [len({REPEATED[row] for row in part}) for part in parts]


def test_copies_part_and_end_each_for_itself(family: Generator) -> None:
    """Sampled, so that copies differ; each says what it says alone, whoever has left."""
    prompts, ends = [family.ask(text) for text in REPEATED], np.array([3, 0, 6, 2, 5, 1, 4])
    column = int(np.flatnonzero(family.sayable == family.end)[0])

    def sampled(batch: int) -> tuple[list[list[int]], list[int]]:
        law, said, active = Sampled(seed=5), np.zeros(len(prompts), dtype=np.int64), []

        def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
            active.append(len(numbers))
            scores = scores.clone()
            scores[:, column] = -torch.inf
            chosen = np.where(said[numbers] == ends[numbers], column, law(scores / 3, numbers))
            said[numbers] += 1
            return chosen

        return outputs(family, prompts, choose, tokens=7, batch=batch), active

    alone, _ = sampled(1)
    together, active = sampled(len(prompts))
    assert together == alone == sampled(3)[0]
    assert [len(each) for each in alone] == ends.tolist()
    assert active == [7, 6, 5, 4, 3, 2, 1]
    assert alone[2][:5] != alone[4]


def test_the_cap_counts_the_token_that_ends(generator: Generator) -> None:
    end, column = generator.end, int(np.flatnonzero(generator.sayable == generator.end)[0])
    steps: list[int] = []

    def choose(scores: torch.Tensor, numbers: IntArray) -> IntArray:
        """Prompt n says n tokens and ends."""
        steps.append(len(numbers))
        return np.where(numbers < len(steps), column, 7)

    prompts = [generator.ask("a")] * 5
    said = outputs(generator, prompts, choose, tokens=3)
    assert [len(each) for each in said] == [0, 1, 2, 3, 3]
    assert steps == [5, 4, 3]  # who has ended costs nothing
    assert not any(end in each for each in said)
    steps.clear()
    outputs(generator, prompts, choose, tokens=30)
    assert steps == [5, 4, 3, 2, 1]  # and when all have ended, it is over


def test_every_token_can_be_said_and_nothing_else(tmp_path: Path, exact: None) -> None:
    generator = tiny_family(tmp_path / "gap", "gpt2")
    size, rows = len(generator.tokenizer), generator.model.config.vocab_size
    assert generator.sayable.tolist() == list(range(size)) and rows == size + PADDING
    generator.tokenizer.add_tokens(["zebra"])
    vocabulary = {**generator.tokenizer.get_vocab(), "zebra": size + 1}  # leaves a gap
    gap = replace(generator)

    class WithGap:
        def __getattr__(self, name: str) -> Any:
            return getattr(generator.tokenizer, name)

        def get_vocab(self) -> dict[str, int]:
            return vocabulary | {"beyond the table": rows}

    object.__setattr__(gap, "tokenizer", WithGap())
    assert gap.sayable.tolist() == [*range(size), size + 1]
    last = outputs(gap, [[0, 5]], lambda scores, _: np.array([scores.shape[1] - 1]), tokens=2)
    assert last == [[size + 1, size + 1]]


def test_what_cannot_be_generated(generator: Generator) -> None:
    def run(*prompts: list[int], **options: Any) -> None:
        list(generate(generator, prompts, likeliest, **options))

    with pytest.raises(InvalidInput, match="fewer than the 64"):
        run([1], tokens=64)
    run(tokens=4)  # of no prompt
    run([1] * 60, tokens=4)
    with pytest.raises(InvalidInput, match="got 61 tokens in number 1, expected 1 to 60"):
        run([1], [1] * 61, tokens=4)
    with pytest.raises(InvalidInput, match="got 0 tokens in number 0"):
        run([], tokens=4)


def test_an_encoder_has_a_context_of_its_own(tmp_path: Path, exact: None) -> None:
    generator = tiny_family(tmp_path / "t5", "t5")
    assert len(outputs(generator, [[1] * 64], never_ends(generator), tokens=63)[0]) == 63
    with pytest.raises(InvalidInput, match="got 65 tokens in number 0, expected 1 to 64"):
        list(generate(generator, [[1] * 65], likeliest, tokens=4))
    for ask in (lambda: generator.log_likelihood(["a"]), lambda: Prefixes(generator, [0])):
        with pytest.raises(InvalidInput, match="t5: got an encoder-decoder model"):
            ask()


def test_plain_prompts(family: Generator) -> None:
    plain = family.tokenizer("the cat", add_special_tokens=False)["input_ids"]
    with_encoder = family.name in WITH_ENCODER
    assert family.ask("the cat") == (plain if with_encoder else [family.opening, *plain])
    assert family.is_encoder_decoder == with_encoder
    assert family.end == family.tokenizer.eos_token_id


def test_chats(tmp_path: Path, exact: None) -> None:
    chat = tiny_family(tmp_path / "chat", "llama", chat=True)
    turn = chat.tokenizer.convert_tokens_to_ids("<|turn|>")
    assert chat.end == turn != chat.tokenizer.eos_token_id
    assert chat.tokenizer.decode(chat.ask("the cat")) == "<user>the cat<|turn|><assistant>"
    assert chat.say([[turn, *chat.encode([" a cat "])[0], turn], []]) == ["a cat", ""]
    assert chat.say([]) == []


def counts(log_weights: list[float], n: int, seed: int = 0) -> IntArray:
    rng = np.random.default_rng(seed)
    rows = torch.tensor([log_weights] * n, dtype=torch.float64)
    return np.bincount(draw(rows, [rng] * n), minlength=len(log_weights))


def softmax(log_weights: list[float]) -> Any:
    return torch.tensor(log_weights, dtype=torch.float64).softmax(0).numpy()


def test_draws_follow_the_softmax() -> None:
    """False alarm at most 1e-6; a temperature that is off by a fifth would be seen."""
    weights = [0.0, 1.5, -3.0, -torch.inf, 0.5, 2.5, -9.0]
    law, n = softmax(weights), 6_000
    assert fits(counts(weights, n), law)
    scores = torch.tensor([[2 * each for each in weights]] * n)
    sampled = Sampled(seed=1)(scores.float() / 2, np.arange(n))
    assert fits(np.bincount(sampled, minlength=len(weights)), law)
    wrong = softmax([each / 1.2 for each in weights])
    assert power_of_fit(wrong[law > 0], law[law > 0], n) > 0.999


def test_rare_tokens_follow_the_softmax_too() -> None:
    """Half of the mass is tens of thousands of tokens, each below 2^-20 of the one that leads."""
    many = 1_200_000  # each below 2^-20
    weights = torch.full((1, many + 1), -float(np.log(many)), dtype=torch.float64)
    weights[0, 0] = 0.0
    weights[0, 1 : 1 + many // 2] -= np.log(3)
    rng = np.random.default_rng(0)
    drawn = np.array([draw(weights, [rng])[0] for _ in range(60)])
    shares = np.array([(drawn == 0).sum(), (drawn > many // 2).sum()])
    assert fits([*shares, 60 - shares.sum()], np.array([3, 1.5, 0.5]) / 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_draw_is_that_of_float64_but_at_a_boundary(dtype: torch.dtype) -> None:
    """The column by one cumulative sum in float64; float32 moves its boundaries by 1e-5 at most.

    Sums by blocks that began one column late would be seen.
    """
    rng = np.random.default_rng(4)
    scores = torch.tensor(rng.normal(0, 4, (30, 50_000)), dtype=dtype)
    scores[:, ::7000] += 12  # some lead, as in a language model
    weights = torch.softmax(scores.double(), 1).numpy()
    is_rare = weights < 2.0**-20 * weights.max(1, keepdims=True)
    rare, frequent = (np.where(each, weights, 0).sum(1) for each in (is_rare, ~is_rare))
    cumulative = np.where(is_rare, 0, weights).cumsum(1)
    certain = 0
    for uniform in rng.uniform(2.0**-20, 1, 20):
        drawn = draw(scores, [Fixed(uniform, 0.5) for _ in scores])
        for row in np.flatnonzero(uniform > rare * 1.001):
            place = uniform * (rare[row] + frequent[row]) - rare[row]
            low, high = (np.searchsorted(cumulative[row], place + e) for e in (-1e-5, 1e-5))
            assert low <= drawn[row] <= high
            certain += low == high
    assert certain > 500


class Fixed:
    """A stream of given numbers."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random(self) -> float:
        return self.values.pop(0)


def test_a_token_of_probability_e_to_minus_90_is_drawn() -> None:
    """Just below its probability, at a uniform with all its bits, and not just above."""
    weights = torch.tensor([[0.0, -90.0, -91.0]], dtype=torch.float64)
    rare = np.exp(-90.0) + np.exp(-91.0)
    levels = 0
    value = rare * 0.999
    while value < 2.0**-26:
        value, levels = value * 2.0**26, levels + 1
    below, above = [1e-9] * levels + [value], [1e-9] * levels + [value / 0.998]
    assert draw(weights, [Fixed(*below, 0.72)]).tolist() == [1]  # type: ignore[list-item]
    assert draw(weights, [Fixed(*below, 0.74)]).tolist() == [2]  # type: ignore[list-item]
    assert draw(weights, [Fixed(*above)]).tolist() == [0]  # type: ignore[list-item]


def test_draws_at_the_edges() -> None:
    weights = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]], dtype=torch.float64)
    for value, expected in ((0.0, 1), (0.499, 1), (0.5, 3), (1 - 2.0**-53, 3)):
        stream: Any = Fixed(*([value] if value else [0.0] * 60))
        assert draw(weights, [stream]).tolist() == [expected]
    for damaged in ([0.0, torch.nan], [-torch.inf] * 2, [torch.inf, 0.0]):
        with pytest.raises(InvalidInput, match="scores: got NaN"):
            draw(torch.tensor([damaged], dtype=torch.float64), [np.random.default_rng(0)])


def test_streams_are_named() -> None:
    one, same, other = Sampled(seed=1), Sampled(seed=1), Sampled(seed=1, keys=["x"])
    scores, numbers = torch.zeros(50, 1000), np.arange(50)
    first, second = one(scores, numbers), one(scores, numbers)
    assert first.tolist() == same(scores, numbers).tolist() != second.tolist()
    assert first.tolist() != other(scores, numbers).tolist()
    assert len(set(first.tolist())) > 40
    backwards = Sampled(seed=1)(scores, numbers[::-1].copy())
    assert backwards[::-1].tolist() == first.tolist()
    entropy = [Sampled(seed=None)(scores, numbers).tolist() for _ in range(2)]
    assert entropy[0] != entropy[1]


def test_a_tree_knows_what_each_of_its_texts_knows(generator: Generator) -> None:
    """Random trees, grown in parts and pruned in between, against runs of single texts."""
    rng = np.random.default_rng(1)
    prompt = [generator.opening, 7, 8]
    for _ in range(5):
        tree = Prefixes(generator, prompt)
        texts: dict[int, list[int]] = {ROOT: []}  # of the nodes that were asked to be kept
        for _ in range(4):
            old, new = len(tree), int(rng.integers(1, 9))
            parents = np.array([rng.choice([*texts, *range(old, old + at)]) for at in range(new)])
            tokens = rng.integers(len(generator.tokenizer), size=new)
            states = tree.grow(parents, tokens)
            assert len(tree) == old + new
            for at, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
                texts[old + at] = text = [*texts[parent], int(token)]
                alone = generator.states(torch.tensor([prompt + text]))[0, -1]
                assert torch.allclose(states[at], alone, atol=1e-4)
            kept = rng.choice(list(texts), size=min(3, len(texts)), replace=False)
            beginnings = {tuple(texts[node][:end]) for node in kept for end in range(1, 40)}
            numbers = tree.keep(kept)
            assert len(tree) <= 1 + len(beginnings - {()}) + new  # equal texts may be two nodes
            texts = {ROOT: []} | dict(
                zip(numbers.tolist(), [texts[node] for node in kept], strict=True)
            )


def test_forgotten_nodes_are_gone(generator: Generator) -> None:
    tree = Prefixes(generator, [generator.opening])
    first = tree.grow(np.array([ROOT, 1, 1, ROOT, 4]), np.arange(3, 8))
    assert tree.keep([5, 5, 2]).tolist() == [4, 4, 2] and len(tree) == 5
    assert tree.keep([4]).tolist() == [2] and len(tree) == 3
    assert tree.keep().tolist() == [] and len(tree) == 1  # and it starts anew
    again = tree.grow(np.array([ROOT, 1, 1, ROOT, 4]), np.arange(3, 8))
    assert torch.allclose(again, first, atol=1e-5)


def test_a_tree_has_a_prompt_and_an_end(generator: Generator) -> None:
    with pytest.raises(InvalidInput, match="prompt: got no token"):
        Prefixes(generator, [])
    tree = Prefixes(generator, [generator.opening])
    for parents, tokens in (([1], 1), ([-1], 1), ([0, 2], 2), ([0, 0], 1)):
        with pytest.raises(InvalidInput, match="parents: got"):
            tree.grow(np.array(parents), np.zeros(tokens, np.int64))
    tree = Prefixes(generator, [generator.opening] * 60)
    tree.grow(np.arange(4), np.ones(4, np.int64))
    with pytest.raises(InvalidInput, match="a text of 65 with the prompt, expected at most 64"):
        tree.grow(np.array([4]), np.ones(1, np.int64))
    assert len(tree) == 5


def test_it_is_unpacked_once(tmp_path: Path, cache: Path, exact: None, monkeypatch: Any) -> None:
    """`_unpack` stands aside: the GGUF file is 100 MB and no test downloads."""
    unpacked = []

    def unpack(member: Path, folder: Path) -> None:
        unpacked.append(member.name)
        write_tiny_generator(folder, seed=3)

    monkeypatch.setattr(generators.generator, "_unpack", unpack)
    monkeypatch.setattr(assets, "file", lambda asset, name: tmp_path / name)
    monkeypatch.setattr(assets, "provenance", lambda name: {"digest": "abc", "source": "x"})
    first, again = load_generator(), load_generator()
    assert unpacked == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert first.log_likelihood(TEXTS).tolist() == again.log_likelihood(TEXTS).tolist()
    assert (first.name, first.digest) == ("smollm2-135m-instruct", "abc")


def test_the_real_one_knows_english() -> None:
    """What the four-bit file gives when its weights are read right; only where it lies cached."""
    if not assets.is_cached("smollm2-135m-instruct"):
        pytest.skip("smollm2-135m-instruct is not in the cache, and tests download nothing")
    real = load_generator()
    scores = real.log_likelihood(["It is raining cats and dogs.", "dogs and cats raining is It."])
    assert scores[0] == pytest.approx(-29.3, abs=1.0)  # -29.6 in float32, straight from the file
    assert scores[1] < scores[0] - 10
