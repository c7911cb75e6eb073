"""A tiny BERT with random weights and a WordPiece tokenizer, made on the spot: no downloads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import transformers

from textpriv.channel import FloatArray, IntArray
from textpriv.embeddings import Embedding, from_arrays
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.models import Encoder, from_folder

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# "snowball" is two pieces, "xyz" is unknown to the tokenizer, all other words are one piece.
WORDS = ("cat", "dog", "fish", "snowball", "the", "sat", "ran", "xyz", "on", "mat")
PIECES = [*SPECIAL, "cat", "dog", "fish", "snow", "##ball", "the", "sat", "ran", "on", "mat", "!"]
CAT, DOG, FISH, SNOWBALL, THE, SAT, RAN, XYZ, ON, MAT = range(len(WORDS))


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
        vocab_size=len(PIECES),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=longest,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kind = transformers.BertForMaskedLM if head else transformers.BertModel
        kind(config).save_pretrained(folder)
    return folder


def tiny_encoder(folder: Path, *, seed: int = 0, longest: int = 40, head: bool = False) -> Encoder:
    where = write_tiny_model(folder, seed=seed, longest=longest, head=head)
    return from_folder("tiny", where, digest=f"tiny {seed} {longest} {head}")


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
