"""Tiny models with random weights and a byte-level tokenizer, made on the spot: no downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from textpriv.models.generators import Generator, from_folder

OPENING = "<|endoftext|>"
PADDING = 3  # rows of every table but the Llama's that stand for no token
CHAT = (  # in the style of Zephyr: a role, the message, what ends the turn
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}<|turn|>"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
# Pieces of several letters; all else is written letter by letter.
MERGES = ["c a", "ca t", "d o", "do g", "Ġ t", "h e", "Ġt he", "Ġ ca", "Ġca t", "Ġ do", "s a"]


def tiny_tokenizer() -> transformers.PreTrainedTokenizerFast:
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pieces = [OPENING, *letters, *(merge.replace(" ", "") for merge in MERGES)]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={piece: number for number, piece in enumerate(pieces)},
            merges=[(merge.split()[0], merge.split()[1]) for merge in MERGES],
        )
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=OPENING, eos_token=OPENING
    )


def _sizes(*, longest: int) -> dict[str, Callable[[int], transformers.PreTrainedConfig]]:
    """Configuration of every family of the paper profile, for a number of rows of the table."""
    common = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))}  # fmt: skip
    body = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": longest,
        "initializer_range": 0.5,
    } | common
    t5 = {
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 2,
        "n_positions": longest,
        "initializer_factor": 6.0,
        "decoder_start_token_id": 0,
    } | common
    bart = {
        "d_model": 16,
        "max_position_embeddings": longest,
        "init_std": 0.5,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": None,
    } | common | sides  # fmt: skip
    gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": longest,
            "initializer_range": 0.5} | common  # fmt: skip
    return {
        "t5": lambda rows: transformers.T5Config(vocab_size=rows, **t5),
        "flan-t5": lambda rows: transformers.T5Config(
            vocab_size=rows, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **t5
        ),
        "bart": lambda rows: transformers.BartConfig(vocab_size=rows, **bart),
        "gpt2": lambda rows: transformers.GPT2Config(vocab_size=rows, **gpt2),
        "gpt-neox": lambda rows: transformers.GPTNeoXConfig(vocab_size=rows, **body),
        "llama": lambda rows: transformers.LlamaConfig(vocab_size=rows, **body),
        "stablelm": lambda rows: transformers.StableLmConfig(
            vocab_size=rows, num_key_value_heads=2, **body
        ),
    }


FAMILIES = tuple(_sizes(longest=64))
WITH_ENCODER = ("t5", "flan-t5", "bart")


def write_tiny_family(
    folder: Path, family: str, *, seed: int = 0, longest: int = 64, chat: bool = False
) -> Path:
    """A family of the paper profile in the format of the hub, from its configuration."""
    tokenizer = tiny_tokenizer()
    if chat:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
        tokenizer.chat_template = CHAT
    config = _sizes(longest=longest)[family](len(tokenizer) + PADDING)
    kind = (
        transformers.AutoModelForSeq2SeqLM
        if family in WITH_ENCODER
        else transformers.AutoModelForCausalLM
    )
    return _written(folder, tokenizer, kind.from_config, config, seed)


def _written(folder: Path, tokenizer: Any, made: Any, config: Any, seed: int) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_family(
    folder: Path, family: str, *, seed: int = 0, longest: int = 64, chat: bool = False
) -> Generator:
    where = write_tiny_family(folder, family, seed=seed, longest=longest, chat=chat)
    return from_folder(family, where, digest=f"{family} {seed} {longest} {chat}")


def write_tiny_generator(folder: Path, *, seed: int = 0, longest: int = 64) -> Path:
    """Configuration, weights and tokenizer in the format of the hub."""
    tokenizer = tiny_tokenizer()
    config = _sizes(longest=longest)["llama"](len(tokenizer))
    config.num_key_value_heads = 1
    return _written(folder, tokenizer, transformers.LlamaForCausalLM, config, seed)


def tiny_generator(folder: Path, *, seed: int = 0, longest: int = 64) -> Generator:
    where = write_tiny_generator(folder, seed=seed, longest=longest)
    return from_folder("tiny", where, digest=f"tiny {seed} {longest}")


def log_by_hand(generator: Generator, tokens: Iterable[int]) -> float:
    """ln P of tokens one by one, each from a run of its own over all that is before it."""
    given, total = [generator.opening], 0.0
    for token in map(int, tokens):
        with torch.inference_mode():
            scores = generator.model(torch.tensor([given])).logits[0, -1].double()
        total += float(scores.log_softmax(0)[token])
        given = [*given, token]
    return total
