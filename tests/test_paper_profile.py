"""Every profile is whole: settings validate, names exist, and each model and corpus can be read.

Models are tiny and random, of the architecture of the real one, and read where the real ones are,
by the same calls.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import tiny_generators
import tiny_models
from tools.notebooks import Notebook, find, named, needed

from textpriv import assets, models, profiles
from textpriv.data import corpora
from textpriv.models import generators

NOTEBOOKS = [each for each in find() if profiles.table("default", each.name)]
OWN_WORDS = {"extractive", "sst2-by-sentence"}  # of a notebook; made of what others name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda each: each.name)
def test_every_setting_validates_and_every_name_exists(notebook: Notebook) -> None:
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for source in notebook.code
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "textpriv.experiments"
        for alias in node.names
    }
    called = re.search(r"run\.sizes\((\w+)\.Sizes\)", "\n".join(notebook.code))
    assert called
    sizes = importlib.import_module(imported[called[1]]).Sizes
    for profile in profiles.names():
        assert profiles.load(profile, notebook.name, sizes)
        known = {*assets.registry(), *corpora.names(), *OWN_WORDS}
        assert set(named(profiles.table(profile, notebook.name))) <= known
        assert set(needed(notebook, profile)) <= set(assets.registry())


# Model of the paper profile: how it is read, and the architecture of the tiny one.
FAMILIES = {
    "minilm-l6": ("encoder", "bert"),
    "bert-base-uncased": ("encoder", "bert"),
    "roberta-base": ("encoder", "roberta"),
    "all-mpnet-base-v2": ("encoder", "mpnet"),
    "t5-small": ("encoder", "t5"),
    "flan-t5-xl": ("generator", "flan-t5"),
    "bart-large-cnn": ("generator", "bart"),
    "llama-3-8b-instruct": ("generator", "llama"),
}
PACKED = {"smollm2-135m-instruct"}  # a GGUF file of the default profile, tested in test_generators


def of_the_paper(kind: str) -> set[str]:
    ids = {each for notebook in NOTEBOOKS for each in needed(notebook, "paper")}
    return {each for each in ids if assets.registry()[each].kind == kind}


def test_every_model_of_the_paper_profile_has_a_family() -> None:
    assert of_the_paper("model") - PACKED == set(FAMILIES)


def replaced(mine: Path, name: str) -> Path:
    """A folder in place of an asset."""
    (mine / "local.toml").write_text(f'[{name}]\npath = "mine"\n', encoding="utf-8")
    (mine / "mine").mkdir()
    return mine / "mine"


@pytest.mark.parametrize("name", [name for name, (how, _) in FAMILIES.items() if how == "encoder"])
def test_encoders_of_the_paper_profile(name: str, mine: Path) -> None:
    tiny_models.write_family(replaced(mine, name), FAMILIES[name][1])
    encoder = models.load_encoder(name)
    ids = encoder.tokenizer(["the cat sat"], add_special_tokens=False)["input_ids"][0]
    states = encoder.table.detach().numpy()[ids]
    assert encoder.name == name and len(states) >= 3 and np.isfinite(states).all()


@pytest.mark.parametrize(
    "name", [name for name, (how, _) in FAMILIES.items() if how == "generator"]
)
def test_generators_of_the_paper_profile(name: str, mine: Path) -> None:
    family = FAMILIES[name][1]
    tiny_generators.write_tiny_family(replaced(mine, name), family, chat=family == "llama")
    generator = generators.load_generator(name)
    asked = [generator.ask("the cat"), generator.ask("a dog sat")]
    (batch,) = generators.generate(generator, asked, generators.likeliest, tokens=5)
    assert generator.name == name and sorted(batch[0].tolist()) == [0, 1]
    assert all(0 < len(output) <= 5 for output in batch[1])
