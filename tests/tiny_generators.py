"""A tiny Llama with random weights and a byte-level tokenizer, made on the spot: no downloads."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import torch
import transformers

from textpriv.generators import Generator, from_folder

OPENING = "<|endoftext|>"
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


def write_tiny_generator(folder: Path, *, seed: int = 0, longest: int = 64) -> Path:
    """Configuration, weights and tokenizer in the format of the hub."""
    tokenizer = tiny_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=longest,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_generator(folder: Path, *, seed: int = 0, longest: int = 64) -> Generator:
    where = write_tiny_generator(folder, seed=seed, longest=longest)
    return from_folder("tiny", where, digest=f"tiny {seed} {longest}")
