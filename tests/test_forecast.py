"""What a run would fetch and cost: arithmetic by hand, and the forecast of the real profiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tools import forecast, notebooks, runner
from tools.forecast import Estimate, Work, needed

from textpriv import assets, corpora, profiles
from textpriv.report.results import Results

NOTEBOOKS = notebooks.find()
ASSETS = assets.registry()


def ran(seconds: float = 7200, peak_mb: float = 3000, device: str = "cpu") -> Results:
    return Results(
        notebook="04_dp_prompt", profile="default", seed=7, overrides={}, commit=None, dirty=None,
        device=device, dtype="float32", seconds=seconds, peak_mb=peak_mb, versions={}, assets={},
        figures=[], measurements=[],
    )  # fmt: skip


# --- What is needed -------------------------------------------------------------------------


def test_what_is_declared_and_what_the_table_names() -> None:
    table = {
        "encoder": "roberta-base",
        "encoders": {"qnli": "t5-small"},
        "corpora": {"qnli": 40_000, "rotten-tomatoes": 100},
        "small": "extractive",  # a word of the notebook's own
        "table": "",
        "attacked": {"sst2": 5},  # no field that names assets
    }
    found = needed(["pos-lexicon", "qnli"], table)
    assert found == ["movie-reviews", "pos-lexicon", "qnli", "roberta-base", "t5-small"]
    assert needed([], {"corpora": ["imdb", "sst2"], "corpus": "xsum"}) == [
        "movie-reviews", "sst2", "xsum-test",
    ]  # fmt: skip
    assert needed([], {}) == []


def test_corpora_know_their_assets() -> None:
    assert {corpora.asset_of(name) for name in corpora.names()} <= set(ASSETS)
    assert corpora.asset_of("imdb") == "movie-reviews"
    with pytest.raises(assets.UnknownAsset, match="no corpus is called 'imbd'"):
        corpora.asset_of("imbd")


def test_the_runner_fetches_what_the_profile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(assets, "fetch", fetched.append)
    chosen = [each for each in NOTEBOOKS if each.name == "06_slm_utility"]
    runner._fetch(chosen, "paper")
    assert {"llama-3-8b-instruct", "multi-news", "bart-large-cnn"} <= set(fetched)
    fetched.clear()
    runner._fetch(chosen, "default")
    assert set(fetched) == set(chosen[0].declares.assets)


@pytest.mark.parametrize("profile", ["default", "smoke"])
def test_the_profiles_without_a_hub_need_only_the_package_index(profile: str) -> None:
    for notebook in NOTEBOOKS:
        for each in needed(notebook.declares.assets, profiles.table(profile, notebook.name)):
            assert ASSETS[each].sources[0].kind == "wheel", (notebook.name, each)


# --- Sizes ----------------------------------------------------------------------------------


def changed(name: str, **fields: Any) -> assets.Asset:
    return ASSETS[name].model_copy(update=fields)


def test_sizes_and_how_they_are_known() -> None:
    wheel = forecast.size(ASSETS["minilm-l6"])
    assert (wheel.bytes, str(wheel)) == (83_506_384, "83.5 MB")
    model = forecast.size(changed("t5-small", weights=1_000_000_000, weight_bytes=2))
    assert (model.bytes, str(model)) == (2_000_000_000, "about 2.0 GB")
    pinned = assets.Member(name="a.json", size=5_000_000)
    partly = changed("qnli", members=(pinned, assets.Member(name="b.json")))
    assert str(forecast.size(partly)) == "at least 5.0 MB"
    assert str(forecast.size(changed("qnli", members=(pinned,)))) == "5.0 MB"
    assert str(forecast.size(ASSETS["qnli"])) == "unknown size"


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


def test_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"minilm-l6"}
    monkeypatch.setattr(forecast, "is_here", here.__contains__)
    assert forecast.total(["minilm-l6"]) == "nothing to download"
    assert forecast.total(["minilm-l6", "movie-reviews", "pos-lexicon"]) == "13.9 MB to download"
    everything = forecast.total(["movie-reviews", "flan-t5-xl", "qnli", "multi-news"])
    assert everything == "about 11.4 GB to download, and 2 of unknown size"


def test_gated_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "is_here", lambda _: False)
    line = forecast._asset(ASSETS["llama-3-8b-instruct"])
    assert "gated (accept" in line and "Meta Llama 3 Community License | " in line
    assert ASSETS["llama-3-8b-instruct"].sources[0].revision in line  # type: ignore[union-attr]
    assert "not gated | to download" in forecast._asset(ASSETS["t5-small"])


# --- Arithmetic -----------------------------------------------------------------------------

RATES = {"steps": (10.0, "measured on a device")}
DEFAULT = [Work("steps", 100, "steps"), Work("tokens", 1000), Work("texts", 10)]


def made(
    monkeypatch: pytest.MonkeyPatch, asked: Sequence[Work], *, device: str = "cuda", **options: Any
) -> list[Estimate]:
    """Estimates for a made-up notebook that has these works under the paper profile."""
    amounts = {"paper": asked, "default": DEFAULT}
    monkeypatch.setattr(profiles, "table", lambda profile, _: {"profile": profile})
    monkeypatch.setattr(forecast, "works", lambda _, table: amounts[table["profile"]])
    given: dict[str, Any] = {"measured": ran(), "own": None, "rates": RATES, **options}
    return forecast.estimates("x", "paper", device=device, **given)


def test_hours_on_a_gpu_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Work("steps", 72_000, "steps", per=2, cost=3, model_cost=4), Work("tokens", 5000)]
    steps, rest = made(monkeypatch, asked)
    # 72,000 x 3 / (2 x 10 a second) = 10,800 s = 3 h; at most 4 times as much
    assert (steps.low, steps.high) == (pytest.approx(3), pytest.approx(12))
    assert "72,000 of them, 7 a second by what was measured on a device" in steps.basis
    # 2 h of the default profile, of whose tokens there are five times as many
    assert (rest.low, rest.high) == (0, pytest.approx(10))
    assert "7,200 s of the default profile on cpu, times 5 (tokens)" in rest.basis
    assert forecast.summed([steps, rest]) == "3.0 h to 22 h"


def test_a_smaller_model_is_cheaper_at_most_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, _ = made(monkeypatch, [Work("steps", 36_000, "steps", model_cost=0.5)])
    assert (steps.low, steps.high) == (pytest.approx(0.5), pytest.approx(1))


def test_the_part_that_grows_most_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Work("tokens", 3000), Work("texts", 70), Work("new things", 5)]
    (rest,) = made(monkeypatch, asked)
    assert rest.high == pytest.approx(14) and "times 7 (texts)" in rest.basis
    assert rest.basis.endswith("without new things")


def test_on_a_processor_everything_scales_the_default_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Work("steps", 200, "steps", model_cost=3), Work("tokens", 1000)]
    (rest,) = made(monkeypatch, asked, device="cpu")
    assert rest.high == pytest.approx(2 * 2 * 3)  # twice the steps of a model three times as large


def test_the_profiles_own_run_is_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ran(seconds=1800, device="cuda")
    (whole,) = made(monkeypatch, DEFAULT, own=own)
    assert (whole.low, whole.high) == (0.5, 0.5)
    assert str(whole) == "the whole notebook: 30 min; measured: the profile's own run on cuda"


def test_a_notebook_whose_sizes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "table", lambda *_: {"words": 3})
    given: dict[str, Any] = {"measured": ran(), "own": None, "rates": RATES}
    (here,) = forecast.estimates("x", "other", device="cpu", **given)
    assert (here.low, here.high) == (2, 2) and "whose sizes are the same" in here.basis
    (there,) = forecast.estimates("x", "other", device="cuda", **given)
    assert (there.low, there.high) == (0, 2)


def test_where_nothing_was_measured_there_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Work("epochs", None, "steps"), Work("steps", 10, "leaps"), Work("new", 3)]
    found = made(monkeypatch, asked)
    assert all(each.low is None and each.high is None for each in found)
    assert [str(each) for each in found] == [
        "epochs: no basis (the sizes do not say how many)",
        "steps: no basis (nobody measured 'leaps')",
        "the rest: no basis (no size of it is known)",
    ]
    assert forecast.summed(found) == "no basis"
    (rest,) = made(monkeypatch, [Work("tokens", 5)], measured=None)
    assert str(rest) == "the rest: no basis (the default profile has no results)"
    known = Estimate("a", 1.0, 2.0, "")
    assert forecast.summed([known, rest]) == "1.0 h to 2.0 h, and what has no basis"


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.001, 0.002, "under a minute"),
        (0.001, 0.5, "under a minute to 30 min"),
        (0, 2.25, "at most 2.2 h"),
        (2, 2, "2.0 h"),
        (9, 1234, "9.0 h to 1,234 h"),
    ],
)
def test_spans(low: float, high: float, says: str) -> None:
    assert forecast.span(low, high) == says


def test_rates_are_read_from_every_gpu_report(tmp_path: Path) -> None:
    for name, device, rate in (("gpu_a", "A", 5.0), ("gpu_b", "B", 7.0), ("other", "C", 9.0)):
        timed = [{"what": f"steps of {name}", "per_second": rate}]
        report = json.dumps({"device": device, "timed": timed})
        (tmp_path / f"{name}.json").write_text(report, encoding="utf-8")
    rates = forecast.gpu_rates(tmp_path)
    assert rates["steps of gpu_b"] == (7.0, "measured on B (gpu_b.json: steps of gpu_b)")
    assert set(rates) == {"steps of gpu_a", "steps of gpu_b"}


def test_memory_by_hand() -> None:
    ids, table = ["roberta-base", "flan-t5-xl"], {"encoder": "roberta-base"}
    cpu = forecast.memory(ids, table, device="cpu", measured=ran(), own=None)
    assert cpu == [
        "processor: at least 3.0 GB (peak of the default profile on cpu); how it grows with the "
        "sizes was not measured"
    ]
    _, gpu = forecast.memory(ids, table, device="cuda", measured=ran(), own=None)
    assert gpu.startswith("GPU: at least 5.7 GB (weights of flan-t5-xl, in bfloat16)")  # 2 x 2.85e9
    _, gpu = forecast.memory(ids[:1], table, device="cuda", measured=ran(), own=None)
    assert gpu.startswith("GPU: at least 2.0 GB (weights of roberta-base, in training)")
    own = forecast.memory([], {}, device="cuda", measured=ran(), own=ran(peak_mb=500))
    assert own == ["processor: 0.5 GB (peak of the profile's own run)"]
    assert forecast.memory([], {}, device="cpu", measured=None, own=None) == ["processor: no basis"]


# --- The work of the notebooks --------------------------------------------------------------


def amounts(notebook: str, profile: str, **changes: Any) -> dict[str, Work]:
    table = profiles.table(profile, notebook) | changes
    return {each.what: each for each in forecast.works(notebook, table)}


@pytest.mark.parametrize("profile", profiles.names())
def test_works_are_known_for_every_notebook_that_has_results(profile: str) -> None:
    for notebook in forecast._WORKS:
        found = amounts(notebook, profile)
        assert found and all(each.amount is None or each.amount >= 0 for each in found.values())
        for each in found.values():
            assert not each.rate or each.rate in forecast.gpu_rates(), each
    assert forecast.works("99_unknown", {}) == []


def test_works_by_hand() -> None:
    two = amounts("02_ann_vs_exact", "default", nw_directions=7, nw_words_glove6b=11)
    assert two["directions over GloVe 840B"].amount == 33_860 * 7
    assert two["directions over GloVe 6B"].amount == 11 * 7
    three = amounts(
        "03_lossy_and_stencil", "default", tuned=["plain", "high-freq"],
        corpora={"imdb": 30}, tuned_steps={"imdb": 5, "qnli": 9}, longest={"imdb": 128},
        attacked={"imdb": 2, "qnli": 9}, oracle={"imdb": 3}, oracle_longest={"imdb": 4},
        encoder="roberta-base",
    )  # fmt: skip
    trained = three["training steps on imdb"]
    assert trained.amount == 10 and trained.model_cost == pytest.approx(2 * 124.7 / 22.7, rel=1e-2)
    assert three["tokens under attack"].amount == 256
    assert three["tokens under the oracle's attack"].amount == 12
    four = amounts(
        "04_dp_prompt", "default", documents=10, limit_documents=5, tokens=3, temperatures=[1, 2],
        clipped_temperatures=[1], top_k=[40, 80], top_k_temperatures=[1], word_epsilons=[1],
        large_epsilons=[1], whole_epsilons=[1], runs=2, batch=128, generator="flan-t5-xl",
    )  # fmt: skip
    written = four["tokens written"]
    assert written.amount == (10 * 5 + 5) * 3 and written.rate.endswith("batch 256")
    assert written.cost == 2 and written.model_cost == pytest.approx(2849.8 / 134.5, rel=1e-3)
    assert four["documents sanitized by word"].amount == 60
    five = amounts(
        "05_reconstruction_attacks", "default", corpora=["imdb"], detector_steps=6,
        inversion_steps=4, inversion_seeds=3, model_focus={"custext": [1, 2], "santext": [3]},
        attacked={"custext": {"imdb": 100, "sst2": 9}}, custext_epsilons=[1, 2, 3],
    )  # fmt: skip
    assert five["training steps of detectors"].amount == 18
    assert five["training steps of inverters"].amount == 4 * (3 * (2 + 1) + 1)
    assert five["sentences under attack"].amount == 300
    paper = amounts("05_reconstruction_attacks", "paper")["training steps of detectors"]
    assert paper.amount is None
    six = amounts("06_slm_utility", "default", documents=10, tokens=5, longest=7, shares=[0.5, 0.1])
    assert six["tokens written by the large model"].amount == 150
    assert "tokens written by the small model" not in six  # extractive
    assert six["tokens sanitized"].amount == 140


# --- The whole ------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", profiles.names())
def test_a_dry_run_names_everything_and_fetches_nothing(
    profile: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(assets, "fetch", lambda _: pytest.fail("nothing may be fetched"))
    assert runner.main(["--profile", profile, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    found = notebooks.find()
    for notebook in found:
        assert f"\n{notebook.name}\n" in printed
        for each in needed(notebook.declares.assets, profiles.table(profile, notebook.name)):
            assert f"\n  {each} | {ASSETS[each].sources[0]} | " in printed
    assert printed.count("  time: ") == printed.count("  processor: ") == len(found)
    assert " free in the cache" in printed.splitlines()[-1]
