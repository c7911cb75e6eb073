"""A tree of texts that share beginnings, for a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from textpriv.channel import IntArray
from textpriv.errors import InvalidInput
from textpriv.later import transformers
from textpriv.models.generators.generator import Generator

ROOT = 0  # the node of `Prefixes` that stands for the prompt


class Prefixes:
    """Texts that share beginnings: a tree whose every token is run through the model once.

    A node is a token with all that stands before it: it sees the prompt, its ancestors and
    itself. Where a text branches, nothing is computed again and nothing copied.

    Parameters
    ----------
    prompt : tokens that all texts begin with, at least one; node ROOT is the last of them, and
        `root` (1, width) what the model knows after it
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

        `parents` (new,) are the nodes that the tokens follow, which may be new too but stand
        before them. InvalidInput for a parent that is not there, or a text that becomes too long.
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
