"""Tiny encoders with random weights and their tokenizers, made on the spot: no downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from textpriv.channel import FloatArray, IntArray
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.models import Encoder, from_folder

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# "snowball" is two pieces, "xyz" is unknown to the tokenizer, all other words are one piece.
WORDS = ("cat", "dog", "fish", "snowball", "the", "sat", "ran", "xyz", "on", "mat")
PIECES = [*SPECIAL, "cat", "dog", "fish", "snow", "##ball", "the", "sat", "ran", "on", "mat", "!"]
CAT, DOG, FISH, SNOWBALL, THE, SAT, RAN, XYZ, ON, MAT = range(len(WORDS))


SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "initializer_range": 0.3,
}  # fmt: skip


def piece(name: str) -> int:
    return PIECES.index(name)


def write_tiny_model(folder: Path, *, seed: int = 0, longest: int = 40, head: bool = False) -> Path:
    """Configuration, weights and tokenizer in the format of the hub."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    tokenizer = transformers.BertTokenizerFast(
        vocab={name: row for row, name in enumerate(PIECES)}, do_lower_case=True
    )
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(PIECES), max_position_embeddings=longest, **SIZES
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kind = transformers.BertForMaskedLM if head else transformers.BertModel
        kind(config).save_pretrained(folder)
    return folder


def tiny_encoder(folder: Path, *, seed: int = 0, longest: int = 40, head: bool = False) -> Encoder:
    where = write_tiny_model(folder, seed=seed, longest=longest, head=head)
    return from_folder("tiny", where, digest=f"tiny {seed} {longest} {head}")


FAMILIES = ("bert", "bert-cased", "roberta", "mpnet", "t5")
BEYOND = 3  # rows of T5's table that stand for no piece
TELLING = ("cat", "dog")
FILLERS = ("the", "sat", "ran", "on", "mat")
_MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]"]


def _byte_level() -> transformers.PreTrainedTokenizerFast:
    """Each of the words is a piece where it follows a space; all else is written in letters."""
    words = [*TELLING, *FILLERS]
    heads = dict.fromkeys(word[:end] for word in words for end in range(1, len(word) + 1))
    merges = [("Ġ" + head[:-1], head[-1]) for head in heads]
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names = ["<s>", "<pad>", "</s>", "<unk>", *letters, *("".join(each) for each in merges)]
    names += ["madeupword0000", "<mask>"]
    vocab = {name: row for row, name in enumerate(names)}
    return transformers.RobertaTokenizerFast(vocab=vocab, merges=merges)


def _tokenizer(family: str) -> transformers.PreTrainedTokenizerFast:
    words = ["snow", "##ball", *TELLING, *FILLERS]
    if family == "roberta":
        return _byte_level()
    if family == "t5":
        names = ["<pad>", "</s>", "<unk>", "▁", "ball"]
        names += [f"▁{word}" for word in words if "#" not in word]
        names += ["<extra_id_1>", "<extra_id_0>"]
        return transformers.T5TokenizerFast(vocab=[(name, -1.0) for name in names], extra_ids=2)
    if family == "mpnet":
        names = [*_MPNET, *words, "<mask>"]
        return transformers.MPNetTokenizerFast(vocab={name: row for row, name in enumerate(names)})
    names = [*SPECIAL, *words, *(word.title() for word in TELLING)]
    vocab = {name: row for row, name in enumerate(names)}
    return transformers.BertTokenizerFast(vocab=vocab, do_lower_case=family == "bert")


def write_family(folder: Path, family: str, *, head: bool = False, longest: int = 40) -> Path:
    """A tiny model as the hub has it: RoBERTa and MPNet with positions for the padding, T5 whole.

    Parameters
    ----------
    longest : pieces that fit in a row
    """
    tokenizer = _tokenizer(family)
    tokenizer.save_pretrained(folder)
    common = SIZES | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    roberta = common | {
        "max_position_embeddings": longest + 2, "bos_token_id": 0, "eos_token_id": 2
    }  # fmt: skip
    t5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2,
          "vocab_size": len(tokenizer) + BEYOND, "initializer_factor": 1.0,
          "decoder_start_token_id": 0}  # fmt: skip
    made = {
        "bert": lambda: (
            transformers.BertForMaskedLM if head else transformers.BertModel,
            transformers.BertConfig(max_position_embeddings=longest, **common),
        ),
        "roberta": lambda: (
            transformers.RobertaForMaskedLM if head else transformers.RobertaModel,
            transformers.RobertaConfig(type_vocab_size=1, **roberta),
        ),
        "mpnet": lambda: (
            transformers.MPNetForMaskedLM if head else transformers.MPNetModel,
            transformers.MPNetConfig(**roberta),
        ),
        "t5": lambda: (transformers.T5ForConditionalGeneration, transformers.T5Config(**t5)),
    }
    kind, config = made[family.removesuffix("-cased")]()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind(config).save_pretrained(folder)
    return folder


def tiny_family(folder: Path, family: str, *, head: bool = False, longest: int = 40) -> Encoder:
    where = write_family(folder, family, head=head, longest=longest)
    return from_folder(f"tiny-{family}", where, digest=family)


def words_of_many_lengths(count: int, seed: int, *, longest: int = 12) -> list[str]:
    """Different texts of the words of every family, of up to `longest`; the last one is empty."""
    rng = np.random.default_rng(seed)
    words = [*TELLING, *FILLERS]
    texts: dict[str, None] = {}
    while len(texts) < count - 1:
        texts[" ".join(rng.choice(words, size=rng.integers(1, longest + 1)))] = None
    return [*texts, ""]


def vocabulary() -> Embedding:
    """WORDS on a line."""
    return from_arrays("line", WORDS, np.arange(len(WORDS), dtype=np.float32)[:, None])


class TableMechanism(FiniteMechanism):
    """The mechanism of a matrix P(y|x); words outside `inputs` pass."""

    name = "table"

    def __init__(self, law: FloatArray, inputs: IntArray | None = None) -> None:
        super().__init__(vocabulary(), epsilon=1.0)
        self.law, self.inputs = np.asarray(law, dtype=np.float64), inputs

    def log_rows(self, inputs: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.law[inputs])

    def log_columns(self, outputs: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.law[:, outputs].T)


def swapping(stay: float = 0.5) -> Mechanism:
    """cat <-> dog and fish <-> snowball with probability 1 - stay; other words pass."""
    law = np.eye(len(WORDS))
    for a, b in ((CAT, DOG), (FISH, SNOWBALL)):
        law[a, a] = law[b, b] = stay
        law[a, b] = law[b, a] = 1 - stay
    return TableMechanism(law, np.array([CAT, DOG, FISH, SNOWBALL]))
