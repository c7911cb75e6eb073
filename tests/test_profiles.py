from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import BaseModel, ConfigDict

from textpriv import profiles
from textpriv.errors import ProfileError
from textpriv.profiles import load, settings


class Inner(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    trees: int = 50


class Sizes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    draws: int
    eps: tuple[float, ...]
    words: tuple[str, ...] = ("hockey",)
    annoy: Inner = Inner()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(profiles, "PROFILES", tmp_path)
    (tmp_path / "default.toml").write_text(
        'device = "cpu"\n["02_ann"]\ndraws = 1000\neps = [19, 25.5]\n["03_other"]\nx = 1\n'
    )
    (tmp_path / "smoke.toml").write_text(
        'inherits = "default"\ncell_minutes = 2\n["02_ann"]\ndraws = 9\n'
    )
    return tmp_path


def test_values_come_from_the_table() -> None:
    """Or from the profile that it inherits from."""
    sizes = load("default", "02_ann", Sizes)
    assert (sizes.draws, sizes.eps, sizes.words) == (1000, (19.0, 25.5), ("hockey",))
    assert load("smoke", "02_ann", Sizes) == Sizes(draws=9, eps=(19.0, 25.5))
    assert settings("default").model_dump() == {"device": "cpu", "cell_minutes": None}
    assert settings("smoke").model_dump() == {"device": "cpu", "cell_minutes": 2}
    assert profiles.table("smoke", "03_other") == {"x": 1}
    assert profiles.names() == ["default", "smoke"]


def test_overrides_reach_sizes_and_settings() -> None:
    overrides = {"draws": 5, "device": "cuda", "annoy": {"trees": 7}}
    sizes = load("default", "02_ann", Sizes, overrides)
    assert (sizes.draws, sizes.annoy.trees) == (5, 7)
    assert settings("default", overrides).device == "cuda"


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert profiles.Settings(device="auto").here().device == device
        assert profiles.Settings(device="cpu").here().device == "cpu"


def test_a_corpus_of_ones_own_takes_the_place_of_the_others() -> None:
    class BySize(Sizes):
        corpus: str = ""

        @classmethod
        def for_corpus(cls, values: dict, corpus: str) -> dict:
            return {**values, "words": (corpus,)}

    own = load("default", "02_ann", BySize, {"corpus": "mine.csv", "draws": 5})
    assert (own.words, own.corpus, own.draws) == (("mine.csv",), "mine.csv", 5)
    assert load("default", "02_ann", BySize).words == ("hockey",)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"drows": 5}, "unknown override 'drows'.*did you mean 'draws'.*eps.*device"),
        ({"draws": "5"}, "'draws'.*integer.*got '5'"),
        ({"draws": 5.5}, "'draws'.*integer.*got 5.5"),
        ({"eps": [1, "x"]}, "'eps.1'.*got 'x'"),
        ({"annoy": {"tress": 7}}, "annoy.tress"),
    ],
)
def test_wrong_overrides_are_named(overrides: dict, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        load("default", "02_ann", Sizes, overrides)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[t]\ndraws = 1\n", "odd.*'eps' is missing"),
        ("[t]\ndraws = 1\neps = []\ndraw = 2\n", "odd.*unknown key 'draw'.*mean 'draws'"),
        ("[t]\ndraws =\n", "odd.*not valid TOML"),
        ('inherits = "default"\ndevice = "gpu"', "'device'.*'cpu'.*got 'gpu'"),
        ('inherits = "default"\ncell_minute = 1', "unknown key 'cell_minute'.*mean 'cell_minutes'"),
        ("cell_minutes = 1", "'device' is missing"),
        ('inherits = "defualt"', "unknown profile 'defualt'.*did you mean 'default'"),
    ],
)
def test_wrong_tables_and_settings_are_named(folder: Path, text: str, message: str) -> None:
    (folder / "odd.toml").write_text(text)
    with pytest.raises(ProfileError, match=message):
        load("odd", "t", Sizes) if text.startswith("[t]") else settings("odd")
