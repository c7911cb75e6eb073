from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from textpriv import errors, models, paths, report, seeds, study
from textpriv.report import claims, provenance, results
from textpriv.report.results import measure
from textpriv.stats import clustered_mean


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of the test's own, so that nothing is written into the real one."""
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setenv(results.RUNNER, str(tmp_path / "runner"))
    yield tmp_path
    study.keep_in(None)  # or later tests would find these points


def test_an_open_interval_is_left_out() -> None:
    measurement = measure("a.b", 0.5, -np.inf, np.inf, 1)
    assert (measurement.low, measurement.high, measurement.n) == (None, None, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": float("nan")}, "finite value"),
        ({"value": float("inf"), "unit": "s"}, "finite value"),
        ({"value": 0.5, "low": float("nan"), "high": 1}, "finite low"),
        ({"value": 1.01}, "share in 0..1 as value"),
        ({"value": -0.01}, "share"),
        ({"value": 0.9, "low": 0.8, "high": 1.1}, "share in 0..1 as high"),
        ({"value": 0.5, "low": 0.4}, "together"),
        ({"value": 0.5, "high": 0.6}, "together"),
        ({"value": 0.5, "low": 0.51, "high": 0.6}, "low <= value <= high"),
        ({"value": 0.5, "low": 0.4, "high": 0.49}, "low <= value <= high"),
        ({"value": 0.5, "n": 0}, "positive count"),
        ({"value": 0.5, "n": 1.5}, "positive count"),
        *(
            ({"name": name, "value": 1}, "measurement")
            for name in ("", "kept", "A.b", "a..b", "a.b ", ".a.b", "a/b.c", "2.a")
        ),
    ],
)
def test_bad_measurements(fields: dict, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        measure(**{"name": "a.b", **fields})


def test_pairs_that_claims_name_are_written_with_the_error_of_their_difference(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that differ in one of six documents, and of two that differ in all of ten.

    Ten of ten are not certain: an exact test of signs has p 0.002, and this error gives 0.0016.
    """
    six, ten = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0]), np.ones(10)
    measured: dict[str, tuple[Any, str | None]] = {
        "a.x": (six, "one"),
        "a.y": (np.where(np.arange(6) < 1, 1 - six, six), "one"),
        "a.z": (six, None),
        "a.elsewhere": (six, "other"),
        "b.x": (ten, "one"),
        "b.y": (1 - ten, "one"),
        "b.alone": (ten[:1], "one"),  # one document has no error
    }
    stated = [(f"{name[0]}.x", name) for name in measured if not name.endswith("x")]
    monkeypatch.setattr(claims, "pairs", lambda *_: stated)
    run = report.begin("03_lossy_and_stencil", "smoke")
    for name, (hits, sample) in measured.items():
        estimate = clustered_mean(hits, np.arange(len(hits)), bounds=(0, 1), sample=sample)
        run.record(name, **estimate.columns())
    run.finish()
    written = results.load("03_lossy_and_stencil", "smoke").by_name()
    # Residuals are 5/6 and five times -1/6; the difference is 1/6 on average.
    error = np.hypot(np.sqrt(6 / 5 * (25 + 5) / 36) / 6, 1 / 6 / np.sqrt(6))
    assert written["a.x"].paired_errors == {"a.y": pytest.approx(error)}
    assert written["b.x"].paired_errors == {"b.y": pytest.approx(1 / np.sqrt(10))}
    text = (root / "runs/smoke/results/03_lossy_and_stencil.json").read_text()
    assert text.count("paired_errors") == 2  # what is empty is not written


def test_finish_writes_what_the_design_lists(root: Path) -> None:
    run = report.begin("98_try", "smoke", 3, {"cell_minutes": 4})
    run.record("a.b", 0.5, 0.4, 0.6, n=100)
    run.finish()
    path = root / "runs" / "smoke-custom" / "results" / "98_try.json"
    written = json.loads(path.read_text())
    assert written["measurements"][0] == {
        "name": "a.b", "value": 0.5, "low": 0.4, "high": 0.6, "n": 100, "unit": "share",
    }  # fmt: skip
    assert [row["name"] for row in written["measurements"]] == ["a.b", "run.seconds", "run.peak_mb"]
    assert (written["seed"], written["overrides"]) == (3, {"cell_minutes": 4})
    assert written["peak_mb"] > 20
    assert written["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize(("fast", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_results_state_what_networks_multiplied_in(
    monkeypatch: pytest.MonkeyPatch, fast: bool, dtype: str
) -> None:
    monkeypatch.setattr(models.encoders, "bfloat16_is_fast", lambda device: fast)
    product = models.encoders.torch.ones(1, 1)
    with models.autocast(models.encoders.torch.device("cpu")):
        product = product @ product
    report.begin("98_try", "smoke").finish()
    written = results.load("98_try", "smoke")
    assert written.dtype == dtype == str(product.dtype).removeprefix("torch.")
    assert written.processor and written.threads == models.encoders.torch.get_num_threads()


def test_a_notebook_run_by_hand_leaves_what_git_holds(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv(results.RUNNER, raising=False)
    run = report.begin("98_try")
    assert run.directory("figures") == root / "runs/by-hand/figures"
    assert "run_all.sh" in capsys.readouterr().out
    monkeypatch.setenv(results.RUNNER, str(root / "runner"))
    assert report.begin("98_try").directory("results") == root / "results"
    assert report.begin("98_try", "full").directory("results") == root / "results" / "full"


@pytest.mark.parametrize(
    ("profile", "seed", "overrides", "folder", "others"),
    [
        ("default", 7, {}, ".", "default"),
        ("default", 8, {}, "runs/default-custom", "default-custom"),
        ("default", None, {}, "runs/default-custom", "default-custom"),
        ("default", 7, {"cell_minutes": 1}, "runs/default-custom", "default"),
        ("smoke", 7, {}, "runs/smoke", "smoke"),
        ("smoke", 5, {"cell_minutes": 1}, "runs/smoke-custom", "smoke-custom"),
        ("paper", 7, {}, "runs/paper", "paper"),
    ],
)
def test_only_the_plain_default_is_committed(
    root: Path, profile: str, seed: int, overrides: dict, folder: str, others: str
) -> None:
    """Overrides are one notebook's own: the others have none of them."""
    run = report.begin("98_try", profile, seed, overrides)
    assert run.others == others
    run.finish()
    (made,) = root.rglob("98_try.json")
    assert made == root / folder / "results" / "98_try.json"


def test_documents_quote_the_full_run_where_there_is_one(root: Path) -> None:
    assert results.committed("98_try") is None
    for profile in ("default", "full"):
        report.begin("98_try", profile).finish()
        committed = results.committed("98_try")
        assert committed is not None and committed.profile == profile
        assert results.load_or_default("98_try", "default").profile == "default"
    results.file("98_try", "full").unlink()
    assert results.load_or_default("98_try", "full").profile == "default"


def test_record_refuses_a_second_value_but_not_a_cell_run_twice() -> None:
    run = report.begin("98_try", "smoke")
    run.record("a.b", 0.5)
    run.record("a.b", 0.5)
    with pytest.raises(errors.InvalidInput, match=r"a.b: got 0.6 with .*, recorded is 0.5 with"):
        run.record("a.b", 0.6)
    with pytest.raises(errors.InvalidInput, match="'epsilon': 2"):
        run.record("a.b", 0.5, columns={"epsilon": 2})
    assert run.measurement("a.b").value == 0.5
    with pytest.raises(errors.InvalidInput, match="nothing recorded as 'a.c'"):
        run.measurement("a.c")


def test_rows_are_named_by_their_columns() -> None:
    run = report.begin("01_mechanisms", "smoke", 7)
    columns = ["attack", "epsilon", "value", "low", "high", "n"]
    rows = [("Bayes, the-public one", 2.0, 0.5, 0.4, 0.6, 10), ("none", 0.5, 0.1, *[np.nan] * 3)]
    run.record_rows(pd.DataFrame(rows, columns=columns), "asr.{attack!n}.eps{epsilon:g}")
    names = "asr.bayes.the_public_one.eps2", "asr.none.eps0.5"
    first, second = (run.measurement(name) for name in names)
    assert (first.value, first.low, first.high, first.n, first.unit) == (0.5, 0.4, 0.6, 10, "share")
    assert (second.value, second.low, second.n) == (0.1, None, None)


def test_streams_are_the_notebooks_own() -> None:
    first = report.begin("98_try", "smoke", 1).stream("a").random()
    assert first == seeds.stream(1, "98_try", "a").random()
    assert first != report.begin("97_other", "smoke", 1).stream("a").random()


def test_begin_checks_its_arguments() -> None:
    with pytest.raises(errors.InvalidInput, match="notebook"):
        report.begin("try", "smoke")
    with pytest.raises(errors.ProfileError, match="smok"):
        report.begin("98_try", "smok")
    with pytest.raises(errors.InvalidInput, match="JSON"):
        report.begin("98_try", "smoke", overrides={"x": np.zeros(2)})


def test_figures_and_assets_reach_the_results(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from textpriv import assets

    monkeypatch.setattr(
        assets, "provenance", lambda asset_id: {"source": "wheel", "digest": f"d-{asset_id}"}
    )
    run = report.begin("98_try", "smoke")
    run.uses("glove", "reviews")
    fig, ax = plt.subplots()
    ax.plot([1, 2])
    run.save_figure("fig98_line", fig, pd.DataFrame({"y": [1, 2]}), alt="A rising line")
    run.finish()
    written = results.load("98_try", "smoke")
    assert written.figures == ["fig98_line"]
    assert written.assets["reviews"] == {"source": "wheel", "digest": "d-reviews"}
    beside = json.loads((root / "runs/smoke/figures/fig98_line.json").read_text())
    assert beside["assets"] == written.assets
    assert (beside["profile"], beside["seed"]) == ("smoke", report.DEFAULT_SEED)
    assert not plt.fignum_exists(fig.number)
    with pytest.raises(errors.InvalidInput, match="fig98_"):
        run.save_figure("fig02_line", fig, pd.DataFrame({"y": [1, 2]}), alt="A rising line")


def _git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def test_commit_and_dirty(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (provenance.commit(), provenance.dirty()) == (None, None)
    _git(root, "init")
    assert (provenance.commit(), provenance.dirty()) == (None, None)
    (root / "code.py").write_text("1")
    _git(root, "add", ".")
    _git(root, "commit", "-m", "first")
    assert len(provenance.commit() or "") == 40
    assert provenance.dirty() is False
    (root / "figures").mkdir()
    (root / "figures" / "a.png").write_text("made by a run")
    assert provenance.dirty() is False
    (root / "code.py").write_text("2")
    assert provenance.dirty() is True
    inside = root / "unpacked"
    inside.mkdir()
    monkeypatch.setattr(paths, "REPOSITORY", inside)
    assert provenance.commit() is None  # somebody else's repository around an archive of ours


HOLDING = """
held = bytearray(300_000_000)
held[::4096] = bytes(1 for _ in held[::4096])
print("held", flush=True)
input()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it sees its own process only")
def test_memory_counts_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "peak_mb", lambda: 0.0)  # of this process alone: not here
    watched, before = provenance.Memory(), provenance.held_mb()
    command = [sys.executable, "-c", HOLDING]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as worker:
        assert worker.stdout and worker.stdout.readline() == "held\n"
        deadline = time.monotonic() + 20
        while watched.peak_mb < before + 250 and time.monotonic() < deadline:
            time.sleep(0.1)
        worker.communicate("\n")
    after = provenance.held_mb()  # the system may have taken back some of this process's own
    assert after < before + 50  # the worker's is given back
    assert min(before, after) + 250 < watched.peak_mb < before + 400  # and the most is kept
