"""The fine-tuned paraphraser: a tiny model learns to copy, and is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_generators import tiny_family, tiny_generator

from textpriv.errors import InvalidInput
from textpriv.mechanisms import paraphraser
from textpriv.mechanisms.paraphraser import PARAPHRASE, train_paraphraser
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.models import Training
from textpriv.models.generators import Generator, generate, likeliest

WORDS = ("cat", "dog")
SENTENCES = [f"{a} {b}" for a in WORDS for b in WORDS]
TEMPLATE = "{text}:"
SIZES = Training(steps=100, batch=8, learning_rate=0.01, from_start=True)


@pytest.fixture
def generator(tmp_path: Path, exact: None, cache: Path) -> Generator:
    return tiny_generator(tmp_path / "tiny")


def copies(count: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    return [(text, text) for text in rng.choice(SENTENCES, count).tolist()]


def test_it_learns_to_copy_and_is_kept(generator: Generator, monkeypatch: Any) -> None:
    before = [each.clone() for each in generator.model.parameters()]
    trained = train_paraphraser(
        generator, copies(60), SIZES, seed=0, held_out=20, longest=40, template=TEMPLATE
    )
    start, end = trained.curve.accuracy
    assert trained.curve.steps == (0, 100) and start < 0.3 and end > 0.95
    prompts = [generator.ask(f"{text}:") for text in SENTENCES]
    said = dict(
        (int(number), output)
        for numbers, outputs in generate(trained.generator, prompts, likeliest, tokens=12)
        for number, output in zip(numbers, outputs, strict=True)
    )
    found = trained.generator.say([said[number] for number in range(len(prompts))])
    assert found == SENTENCES  # and it ends
    for old, now in zip(before, generator.model.parameters(), strict=True):
        assert torch.equal(old, now)
    made = DPPrompt(
        trained.generator,
        temperature=0.5,
        tokens=12,
        template=TEMPLATE,
        limits=Limits.same(-30.0, 30.0, len(generator.sayable)),
    )
    assert made.sanitize(SENTENCES, seed=0) == SENTENCES
    # Again: from the cache, and anew for other pairs, another seed, another template.
    trainings: list[int] = []
    real = paraphraser._train
    monkeypatch.setattr(paraphraser, "_train", lambda *given: trainings.append(1) or real(*given))
    quick = Training(steps=1, batch=2)
    options: dict[str, Any] = {"held_out": 5, "longest": 40, "template": TEMPLATE}
    first = train_paraphraser(generator, copies(10), quick, seed=0, **options)
    again = train_paraphraser(generator, copies(10), quick, seed=0, **options)
    assert len(trainings) == 1 and first.curve == again.curve
    assert first.generator.digest == again.generator.digest != generator.digest
    train_paraphraser(generator, copies(11), quick, seed=0, **options)
    train_paraphraser(generator, copies(10), quick, seed=1, **options)
    train_paraphraser(generator, copies(10), quick, seed=0, **options | {"template": PARAPHRASE})
    assert len(trainings) == 4


def test_only_the_paraphrase_is_learned(generator: Generator) -> None:
    """Its tokens and its end, each after all before it: against the model's own loss."""
    rows = paraphraser._rows(generator, [("cat", "the dog"), ("a dog", "cat")], TEMPLATE, 40)
    assert [row[0] for row in rows] == [generator.ask("cat:"), generator.ask("a dog:")]
    assert generator.tokenizer.decode(rows[0][1][:-1]) == " the dog"
    assert all(said[-1] == generator.end for _, said in rows)
    logits, wanted = paraphraser._predict(generator, rows)
    assert wanted.tolist() == rows[0][1] + rows[1][1]
    alone = [
        generator.model(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1]
        for prompt, said in rows
    ]
    assert torch.allclose(logits, torch.cat(alone), atol=1e-4)


def test_what_cannot_be_trained(generator: Generator, tmp_path: Path) -> None:
    quick = Training(steps=1, batch=2)

    def train(generator: Generator, **options: Any) -> None:
        given = {"seed": 0, "held_out": 5, "longest": 40} | options
        train_paraphraser(generator, copies(10), quick, **given)

    for options, message in (
        ({"held_out": 10}, "pairs: got 10 of at most 40 tokens, expected more than the 10"),
        ({"longest": 5}, "pairs: got 0 of at most 5 tokens"),
        ({"longest": 65}, "longest: got 65"),
        ({"template": "x"}, "template: got 'x'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train(generator, **options)
    with pytest.raises(InvalidInput, match="t5: got an encoder-decoder model"):
        train(tiny_family(tmp_path / "t5", "t5"))
