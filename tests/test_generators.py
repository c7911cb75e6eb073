"""Likelihood and prefixes of causal language models, with a tiny random Llama."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_generators import OPENING, tiny_generator, write_tiny_generator

from textpriv import assets, generators, models
from textpriv.errors import InvalidInput
from textpriv.generators import ROOT, Generator, Prefixes, load_generator
from textpriv.neighbors.table import bfloat16_is_fast

TEXTS = ["the cat sat", "", "a dog", "the dog sat on the cat again", "x", "the cat sat"]


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 throughout, so that two ways to the same number agree."""
    for module in (models, generators):
        monkeypatch.setattr(module, "bfloat16_is_fast", lambda _: False)


@pytest.fixture
def generator(tmp_path: Path, exact: None) -> Generator:
    return tiny_generator(tmp_path / "tiny")


def by_hand(generator: Generator, text: str, after: str = "") -> float:
    """ln P of a text token by token, each from a run of its own over all that is before it."""
    given = [generator.opening, *generator.tokenizer(after, add_special_tokens=False)["input_ids"]]
    total = 0.0
    for token in generator.tokenizer(text, add_special_tokens=False)["input_ids"]:
        with torch.inference_mode():
            scores = generator.model(torch.tensor([given])).logits[0, -1].double()
        total += float(scores.log_softmax(0)[token])
        given = [*given, token]
    return total


# --- Likelihood ---------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["", "a cat\n"])
def test_likelihood_is_the_sum_over_tokens(generator: Generator, after: str) -> None:
    expected = [by_hand(generator, text, after) for text in TEXTS]
    got = generator.log_likelihood(TEXTS, after=after)
    assert got.dtype == np.float64 and got.shape == (len(TEXTS),)
    assert np.abs(got - expected).max() < 1e-4
    assert got[1] == 0 and got[0] == pytest.approx(got[5], abs=1e-5)
    # The model is no uniform one: tokens that are shifted by a place have another likelihood.
    assert np.std(np.array(expected)[[0, 2, 3, 4]] / [len(TEXTS[i]) for i in (0, 2, 3, 4)]) > 0.1


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_what_fills_a_batch_does_not_matter(generator: Generator, batch: int) -> None:
    alone = np.array([generator.log_likelihood([text])[0] for text in TEXTS])
    assert np.abs(generator.log_likelihood(TEXTS, batch=batch) - alone).max() < 1e-4


def test_probabilities_of_the_next_token_sum_to_one(generator: Generator, monkeypatch: Any) -> None:
    states = generator.states(torch.tensor([[0, 5, 9]]))[0].detach()
    size = len(generator.tokenizer)
    every = np.tile(np.arange(size), (3, 1))
    found = generator.next_log_probability(states, every)
    assert found.shape == (3, size) and np.abs(np.exp(found).sum(1) - 1).max() < 1e-5
    monkeypatch.setattr(generators, "_LOGITS", 2 * size)  # in chunks
    assert np.abs(generator.next_log_probability(states, every) - found).max() < 1e-5
    assert generator.next_log_probability(states[:0], every[:0]).shape == (0, size)


def test_nothing_to_do_and_too_much(generator: Generator) -> None:
    assert generator.log_likelihood([]).shape == (0,)
    longest = "x" * (generator.longest - 1)
    assert np.isfinite(generator.log_likelihood([longest])[0])
    with pytest.raises(InvalidInput, match="got 65 tokens in one, expected at most 64"):
        generator.log_likelihood(["a", longest + "x"])
    with pytest.raises(InvalidInput, match="texts: got one string"):
        generator.log_likelihood("a cat")


def test_bfloat16_is_close_to_float32(tmp_path: Path, monkeypatch: Any) -> None:
    """What the layers add up stays in float32: bfloat16 throughout is farther off, on average."""
    if not bfloat16_is_fast():
        pytest.skip("this processor has no fast bfloat16")
    where = write_tiny_generator(tmp_path / "tiny")
    fast = generators.from_folder("tiny", where, digest="")
    assert fast.dtype == torch.bfloat16
    assert fast.states(torch.tensor([[0, 5, 9]])).dtype == torch.float32
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdt "), size=40)) for _ in range(60)]
    got = fast.log_likelihood(texts)
    with torch.inference_mode():
        pure = np.array([by_hand(fast, text) for text in texts[:20]])
    for module in (models, generators):
        monkeypatch.setattr(module, "bfloat16_is_fast", lambda _: False)
    expected = replace(fast, model=fast.model.float()).log_likelihood(texts)
    error = np.abs(got - expected)
    assert 0 < error.mean() < 0.005 * np.abs(expected).mean()
    assert error[:20].mean() < np.abs(pure - expected[:20]).mean()


# --- Prefixes -----------------------------------------------------------------------------------


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
    tree.grow(np.array([ROOT, 1, 1, ROOT, 4]), np.arange(3, 8))
    assert tree.keep([5, 5, 2]).tolist() == [4, 4, 2] and len(tree) == 5
    assert tree.keep([4]).tolist() == [2] and len(tree) == 3


def test_a_tree_starts_anew(generator: Generator) -> None:
    tree = Prefixes(generator, [generator.opening, 7])
    first = tree.grow(np.array([ROOT, 1, 2]), np.array([3, 4, 5]))
    assert tree.keep().tolist() == [] and len(tree) == 1
    assert torch.allclose(tree.grow(np.array([ROOT, 1, 2]), np.array([3, 4, 5])), first, atol=1e-5)


@pytest.mark.parametrize("parents", [[1], [-1], [0, 2], [0, 0]])
def test_wrong_parents(generator: Generator, parents: list[int]) -> None:
    tree = Prefixes(generator, [generator.opening])
    with pytest.raises(InvalidInput, match="parents: got"):
        tree.grow(np.array(parents), np.zeros(max(1, len(parents) - (parents == [0, 0])), np.int64))


def test_a_tree_has_a_prompt_and_an_end(generator: Generator) -> None:
    with pytest.raises(InvalidInput, match="prompt: got no token"):
        Prefixes(generator, [])
    tree = Prefixes(generator, [generator.opening] * 60)
    tree.grow(np.arange(4), np.ones(4, np.int64))
    with pytest.raises(InvalidInput, match="a text of 65 with the prompt, expected at most 64"):
        tree.grow(np.array([4]), np.ones(1, np.int64))
    assert len(tree) == 5


# --- Loading ------------------------------------------------------------------------------------


def test_the_opening_token(generator: Generator) -> None:
    assert generator.tokenizer.convert_ids_to_tokens(generator.opening) == OPENING


def test_names(monkeypatch: Any) -> None:
    with pytest.raises(InvalidInput, match="name: got 'gpt5'"):
        load_generator("gpt5")
    for name, member in generators._MEMBERS.items():
        assert assets.registry()[name].member(member).sha256


def test_it_is_unpacked_once_and_again_when_damaged(
    tmp_path: Path, cache: Path, exact: None, monkeypatch: Any
) -> None:
    """`_unpack` stands aside: the GGUF file is 100 MB and no test downloads."""
    unpacked = []

    def unpack(member: Path, folder: Path) -> None:
        unpacked.append(member.name)
        write_tiny_generator(folder, seed=3)

    monkeypatch.setattr(generators, "_unpack", unpack)
    monkeypatch.setattr(assets, "file", lambda asset, name: tmp_path / name)
    monkeypatch.setattr(assets, "provenance", lambda name: {"digest": "abc", "source": "x"})
    first, again = load_generator(), load_generator()
    assert unpacked == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert first.log_likelihood(TEXTS).tolist() == again.log_likelihood(TEXTS).tolist()
    assert (first.name, first.digest) == ("smollm2-135m-instruct", "abc")
    (folder,) = (cache / "derived").glob("smollm2-135m-instruct-*/")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    mended = load_generator()
    assert len(unpacked) == 2
    assert first.log_likelihood(TEXTS).tolist() == mended.log_likelihood(TEXTS).tolist()


def test_loading_is_quiet_and_leaves_the_settings(tmp_path: Path, exact: None) -> None:
    before = transformers.logging.get_verbosity()
    tiny_generator(tmp_path / "tiny")
    assert transformers.logging.get_verbosity() == before


def test_the_real_one_knows_english() -> None:
    """What the four-bit file gives when its weights are read right; only where it lies cached."""
    if not assets.is_cached("smollm2-135m-instruct"):
        pytest.skip("smollm2-135m-instruct is not in the cache, and tests download nothing")
    real = load_generator()
    found = real.log_likelihood(["It is raining cats and dogs.", "dogs and cats raining is It."])
    assert found[0] == pytest.approx(-29.3, abs=1.0)  # -29.6 in float32, straight from the file
    assert found[1] < found[0] - 10
