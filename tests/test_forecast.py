"""What a run would fetch and cost: sizes by hand, and the forecast of the real profiles."""

from __future__ import annotations

from typing import Any

import pytest
from tools import forecast, notebooks, runner
from tools.notebooks import Declaration, Notebook, needed

from textpriv import assets, profiles

NOTEBOOKS = notebooks.find()
ASSETS = assets.registry()


def test_what_is_declared_and_what_the_table_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def required(declared: list[str], **table: Any) -> list[str]:
        monkeypatch.setattr(profiles, "table", lambda *_: table)
        return needed(Notebook("01_x", (), Declaration(assets=declared)), "paper")

    assert required(
        ["pos-lexicon", "qnli"],
        encoder="roberta-base",
        encoders={"qnli": "t5-small"},
        corpora={"qnli": 40_000, "rotten-tomatoes": 100},
        small="extractive",  # a word of the notebook's own
        table="",
        attacked={"sst2": 5},  # no field that names assets
    ) == ["movie-reviews", "pos-lexicon", "qnli", "roberta-base", "t5-small"]
    assert required([], corpora=["imdb", "sst2"], corpus="xsum") == [
        "movie-reviews", "sst2", "xsum-test",
    ]  # fmt: skip
    assert required([]) == []


def test_the_runner_fetches_what_the_profile_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(assets, "fetch", fetched.append)
    chosen = [each for each in NOTEBOOKS if each.name == "06_slm_utility"]
    runner._fetch(chosen, "paper")
    assert {"llama-3-8b-instruct", "multi-news", "bart-large-cnn"} <= set(fetched)
    assert f"asset 1/{len(fetched)}: {fetched[0]}\n" in capsys.readouterr().out
    fetched.clear()
    runner._fetch([*chosen, *chosen], "default")
    assert fetched == sorted(chosen[0].declares.assets)
    assert all(ASSETS[each].sources[0].kind == "wheel" for each in fetched)


def changed(name: str, **fields: Any) -> assets.Asset:
    return ASSETS[name].model_copy(update=fields)


def test_sizes_and_how_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    model = changed("t5-small", weights=1_000_000_000, weight_bytes=2)
    pinned = assets.Member(name="a.json", size=5_000_000)
    partly = changed("qnli", members=(pinned, assets.Member(name="b.json")))
    whole = changed("qnli", members=(pinned,))
    entries = [ASSETS["minilm-l6"], model, partly, whole, ASSETS["qnli"]]
    assert [str(forecast.size(each)) for each in entries] == [
        "83.5 MB", "about 2.0 GB", "at least 5.0 MB", "5.0 MB", "unknown size"
    ]  # fmt: skip
    monkeypatch.setattr(forecast, "is_here", {"minilm-l6"}.__contains__)
    assert forecast.total(["minilm-l6"]) == "nothing to download"
    assert forecast.total(["minilm-l6", "movie-reviews", "pos-lexicon"]) == "13.9 MB to download"
    everything = forecast.total(["movie-reviews", "flan-t5-xl", "qnli", "multi-news"])
    assert everything == "about 11.4 GB to download, and 2 of unknown size"


def test_weights_agree_with_sizes_that_are_pinned() -> None:
    """Within 0.1%, for the file's header; GPT-2's file also holds its masks."""
    masks = {"gpt2": 12 * 1024 * 1024 * 4}
    checked = 0
    for asset in ASSETS.values():
        member = next((m for m in asset.members if m.name == "model.safetensors"), None)
        if asset.weights and member and member.size:
            stored = asset.weights * asset.weight_bytes + masks.get(asset.id, 0)
            assert stored == pytest.approx(member.size, rel=1e-3)
            checked += 1
    assert checked >= 4
    assert all(asset.weights for asset in ASSETS.values() if asset.kind == "model")


@pytest.mark.parametrize("profile", profiles.names())
def test_a_dry_run_names_everything_and_fetches_nothing(
    profile: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(assets, "fetch", lambda _: pytest.fail("nothing may be fetched"))
    monkeypatch.setattr(forecast, "is_here", lambda _: False)
    assert runner.main(["--profile", profile, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for notebook in NOTEBOOKS:
        assert f"\n{notebook.name}\n" in printed
        for each in needed(notebook, profile):
            assert f"\n  {each} | {ASSETS[each].sources[0]} | " in printed
    assert printed.count("  cost: ") == len(NOTEBOOKS)
    assert " free in the cache" in printed.splitlines()[-1]
    if profile == "paper":
        assert "Meta Llama 3 Community License | gated (accept" in printed
        assert "  GPU: at least 16.1 GB for the weights of llama-3-8b-instruct" in printed
        assert " | not gated | to download\n" in printed
