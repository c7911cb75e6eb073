"""The fine-tuned paraphraser: a causal language model that has learned to reword sentences.

    paraphraser = train_paraphraser(generator, pairs, training, seed=0)   # kept in the cache
    paraphraser.curve                                  # how well it knows held-out paraphrases
    DPPrompt(paraphraser.generator, template=PARAPHRASE, temperature=1.0, tokens=48, ...)

Trained on (sentence, paraphrase) pairs written one after the other, it is then sampled exactly
as DP-Prompt, with its own prompt. The pairs are public: whatever was learned from them is free.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from textpriv import assets
from textpriv.checks import COUNT, check_count, checked
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.models import LearningCurve, Training, autocast, endless, fine_tune, quiet
from textpriv.models.generators import Generator, IntArray, from_folder
from textpriv.seeds import stream

PARAPHRASE = "{text}\nParaphrase:"
_FORMAT = "paraphraser, 1"  # part of the cache key; raise it when the training changes
_IGNORED = -100  # torch's mark for what is not to be predicted

Pair = tuple[str, str]


@dataclass(frozen=True)
class Paraphraser:
    """A trained model and how it got there.

    Attributes
    ----------
    generator : for `DPPrompt`, with the template that it was trained with
    curve : held-out accuracy: the share of tokens of a paraphrase, its end included, that are
        the model's first guess after those before them
    """

    generator: Generator
    curve: LearningCurve


@checked(held_out=COUNT)
def train_paraphraser(
    generator: Generator,
    pairs: Sequence[Pair],
    training: Training,
    *,
    seed: int,
    held_out: int = 100,
    longest: int = 256,
    template: str = PARAPHRASE,
) -> Paraphraser:
    """A causal model, trained to write the second of a pair after the first; kept in the cache.

    The loss is the mean over the tokens of the paraphrase and the one that ends it; the sentence
    is given.

    Parameters
    ----------
    generator : causal; not changed
    pairs : public (sentence, paraphrase), more than `held_out`; the last ones are held out
    training : see `textpriv.models.Training`
    seed : of the order of the pairs and of dropout
    held_out : pairs at which the accuracy is measured, > 0
    longest : most tokens of a pair with its prompt; longer pairs are left out
    template : see `DPPrompt`

    Raises
    ------
    InvalidInput : an encoder-decoder model, or too few pairs that are short enough

    References
    ----------
    Mattern et al. 2022; Witteveen and Andrews 2019; Utpala et al. 2023, C.3 (gpt2-xl on PAWS,
    the best of several marks; here the last one is kept).
    """
    generator.check_causal()
    check_count(longest, 2, generator.longest, what="longest")
    if template.count("{text}") != 1:
        raise InvalidInput(f"template: got {template!r}, expected one {{text}} in it")
    digest = hashlib.sha256(canonical_json([list(pair) for pair in pairs]).encode()).hexdigest()
    model = [_FORMAT, generator.name, generator.digest, digest]
    key = canonical_json([*model, asdict(training), [int(seed), held_out, longest], template])

    def build(folder: Path) -> None:
        rows = _rows(generator, pairs, template, longest)
        if len(rows) <= held_out:
            raise InvalidInput(
                f"pairs: got {len(rows)} of at most {longest} tokens, expected more than the "
                f"{held_out} that are held out"
            )
        model, curve = _train(generator, rows[:-held_out], rows[-held_out:], training, seed)
        with quiet():
            model.save_pretrained(folder)
            generator.tokenizer.save_pretrained(folder)
        (folder / "curve.json").write_text(json.dumps(asdict(curve)) + "\n")

    name = f"{generator.name}-paraphraser"
    return _kept(generator, name, assets.derived(name, key=key, build=build), key)


def _kept(generator: Generator, name: str, folder: Path, key: str) -> Paraphraser:
    """What lies in the cache."""
    curve = json.loads((folder / "curve.json").read_text())
    trained = from_folder(
        name,
        folder,
        digest=hashlib.sha256(key.encode()).hexdigest(),
        device=str(generator.device),
    )
    return Paraphraser(
        trained, LearningCurve(*(tuple(curve[k]) for k in ("steps", "seconds", "accuracy")))
    )


def _rows(
    generator: Generator, pairs: Sequence[Pair], template: str, longest: int
) -> list[tuple[list[int], list[int]]]:
    """(prompt, paraphrase with its end) of every pair that is short enough."""
    space = "" if generator.tokenizer.chat_template else " "  # after the colon of a plain prompt
    said = generator.encode([space + paraphrase.strip() for _, paraphrase in pairs])
    rows = [
        (generator.ask(template.replace("{text}", sentence)), [*tokens, generator.end])
        for (sentence, _), tokens in zip(pairs, said, strict=True)
    ]
    return [row for row in rows if len(row[0]) + len(row[1]) <= longest]


def _train(
    generator: Generator,
    rows: list[tuple[list[int], list[int]]],
    held_out: list[tuple[list[int], list[int]]],
    training: Training,
    seed: int,
) -> tuple[Any, LearningCurve]:
    model: Any = copy.deepcopy(generator.model).float()  # steps are lost in bfloat16
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = training.dropout
    learner = replace(generator, model=model)
    order = endless(np.arange(len(rows)), stream(seed, "paraphraser", "order"))

    def loss(step: int) -> torch.Tensor:
        chosen = order(step * training.batch, (step + 1) * training.batch)
        logits, wanted = _predict(learner, [rows[row] for row in chosen.tolist()])
        return F.cross_entropy(logits, wanted)

    def measure() -> float:
        right = total = 0
        for start in range(0, len(held_out), training.batch):
            logits, wanted = _predict(learner, held_out[start : start + training.batch])
            right += int((logits.argmax(1) == wanted).sum())
            total += len(wanted)
        return right / total

    curve = fine_tune([model], loss, training, seed=seed, measure=measure)
    return model, curve


def _predict(
    generator: Generator, rows: list[tuple[list[int], list[int]]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at the places before the tokens of the paraphrases, and these: (tokens, ids)."""
    width = max(len(prompt) + len(said) for prompt, said in rows)
    ids: IntArray = np.zeros((len(rows), width), dtype=np.int64)
    wanted: IntArray = np.full((len(rows), width), _IGNORED, dtype=np.int64)
    for row, (prompt, said) in enumerate(rows):
        end = len(prompt) + len(said)
        ids[row, :end] = prompt + said
        wanted[row, len(prompt) : end] = said
    # What fills up a row stands at its end, where nothing that counts can see it.
    states = generator.states(torch.from_numpy(ids).to(generator.device))[:, :-1]
    labels = torch.from_numpy(wanted[:, 1:]).to(generator.device)
    counts = labels != _IGNORED
    head: Any = generator.model.get_output_embeddings()
    with autocast(generator.device):
        logits = head(states[counts]).float()
    return logits, labels[counts]
