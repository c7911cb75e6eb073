"""Generation in batches, with a key-value cache, by models with an encoder and without.

    for numbers, outputs in generate(generator, prompts, likeliest, tokens=48):
        ...                                        # a batch: numbers of prompts, tokens of each
    generate_both(generator, documents, redactions, choose, tokens=48)     # of two prompts at once

What chooses the next token is a function of the scores and of the numbers of their prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from textpriv.channel import IntArray
from textpriv.checks import COUNT, checked
from textpriv.errors import InvalidInput
from textpriv.later import transformers
from textpriv.models.encoders import autocast
from textpriv.models.generators.generator import Generator
from textpriv.models.generators.sampling import Choose
from textpriv.models.rows import by_length


@checked(tokens=COUNT, batch=COUNT)
def generate(
    generator: Generator,
    prompts: Sequence[Sequence[int]],
    choose: Choose,
    *,
    tokens: int,
    batch: int = 32,
    progress: bool = False,
) -> Iterator[tuple[IntArray, list[list[int]]]]:
    """Outputs of all prompts, batch after batch, those of the longest prompts first.

    Prompts of similar length are run together; equal ones in a batch are read once, and a row that
    has ended leaves its batch. What is in which batch depends on the prompts' lengths alone.

    Parameters
    ----------
    prompts : tokens of each, at least one; see `Generator.ask`
    choose : see `Choose`; `likeliest`, `Sampled`, or a mechanism
    tokens : most tokens of an output, the one that ends it included
    batch : prompts that are run together
    progress : show a bar

    Yields
    ------
    numbers of the prompts of a batch, and their outputs (without the token that ends them)

    Raises
    ------
    InvalidInput : no tokens; a prompt that is empty or, with its output, too long
    """
    lengths = _checked_lengths(generator, prompts, tokens)
    with tqdm(total=len(prompts), unit="text", disable=not progress, mininterval=5) as bar:
        for numbers in by_length(lengths, batch):
            rows = [list(prompts[row]) for row in numbers.tolist()]

            def chosen(
                scores: torch.Tensor, rows: IntArray, numbers: IntArray = numbers
            ) -> IntArray:
                return choose(scores, numbers[rows])

            yield numbers, _written(generator, [rows], chosen, tokens)
            bar.update(len(numbers))


def generate_both(
    generator: Generator,
    first: Sequence[Sequence[int]],
    second: Sequence[Sequence[int]],
    choose: Callable[[torch.Tensor, torch.Tensor, IntArray], IntArray],
    *,
    tokens: int,
) -> list[list[int]]:
    """One output for every two prompts, which both go on with the same tokens.

    The prompts of the second kind are read by themselves: to the last bit their scores depend on
    each other and on what was chosen, and not on those of the first kind.

    Parameters
    ----------
    first, second : as many prompts each, one batch; see `generate`
    choose : a column for every row, from the scores after either prompt and the rows' numbers
    tokens : see `generate`
    """
    kinds = [[list(each) for each in prompts] for prompts in (first, second)]
    for prompts in kinds:
        _checked_lengths(generator, prompts, tokens)
    return _written(generator, kinds, choose, tokens)


def _checked_lengths(
    generator: Generator, prompts: Sequence[Sequence[int]], tokens: int
) -> IntArray:
    """Lengths of prompts that leave room for the output, or InvalidInput."""
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
    return lengths


@torch.inference_mode()
def _written(
    generator: Generator,
    kinds: Sequence[list[list[int]]],
    choose: Callable[..., IntArray],
    tokens: int,
) -> list[list[int]]:
    """An output for every row of prompts; prompts of one kind are read together.

    `choose` gets the scores after each kind of prompt, and the numbers of the rows that go on.
    """
    sayable, columns = generator.sayable, _columns(generator)
    readers, scores = zip(*(_begun(generator, prompts) for prompts in kinds), strict=True)
    outputs: list[list[int]] = [[] for _ in kinds[0]]
    active = np.arange(len(outputs))
    for step in range(tokens):
        chosen = sayable[choose(*(each[:, columns].float() for each in scores), active)]
        going = chosen != generator.end
        for row, token in zip(active[going].tolist(), chosen[going].tolist(), strict=True):
            outputs[row].append(token)
        active = active[going]
        if not len(active) or step == tokens - 1:
            break
        if not going.all():
            left = torch.from_numpy(np.flatnonzero(going)).to(generator.device)
            for reader in readers:
                reader.keep(left)
        ids = torch.from_numpy(chosen[going]).to(generator.device)
        scores = tuple(reader.next(ids) for reader in readers)
    return outputs


def _columns(generator: Generator) -> slice | torch.Tensor:
    """Where the scores of the tokens that may be said stand."""
    sayable, size = generator.sayable, len(generator.sayable)
    if sayable[-1] == size - 1:  # no copy where the tokens are numbered without a gap
        return slice(size)
    return torch.from_numpy(sayable).to(generator.device)


def _begun(
    generator: Generator, prompts: list[list[int]]
) -> tuple[_Causal | _WithEncoder, torch.Tensor]:
    """A batch that has read its prompts, equal ones once, and the scores of what comes next."""
    different = {
        tuple(prompt): place for place, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))
    }
    read = [list(prompt) for prompt in different]
    with_encoder = generator.is_encoder_decoder
    reader = _WithEncoder(generator, read) if with_encoder else _Causal(generator, read)
    scores = reader.first()
    if len(different) < len(prompts):  # equal prompts part here
        copies = torch.tensor([different[tuple(prompt)] for prompt in prompts])
        copies = copies.to(generator.device)
        reader.keep(copies)
        scores = scores[copies]
    return reader, scores


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
    """What a batch of texts knows: filled up on the left, so that all go on in one column.

    `first` and `next` give the scores of each one's next token: (rows, ids).
    """

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
        embed = model.get_decoder().get_input_embeddings()
        with autocast(self._generator.device):
            output = model(
                encoder_outputs=transformers.modeling_outputs.BaseModelOutput(
                    last_hidden_state=self._states
                ),
                attention_mask=self._given,
                decoder_inputs_embeds=embed(ids[:, None]).float(),
                past_key_values=self._cache,
                use_cache=True,
            )
        return output.logits[:, -1]

    def keep(self, rows: torch.Tensor) -> None:
        self._given, self._states = self._given[rows], self._states[rows]
        self._cache.batch_select_indices(rows)
