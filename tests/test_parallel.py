"""Shards: the same bits here and on a real cluster of two processes, one of which is killed."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sharded
import torch
from distributed import Client, LocalCluster

from textpriv import parallel, study
from textpriv.errors import InvalidInput, RunError
from textpriv.experiments import ann_vs_exact
from textpriv.report import cluster
from textpriv.seeds import stream

SEED = 7


def local_cluster(**changes: Any) -> LocalCluster:
    """Worker processes, one by default, that talk over the loopback alone."""
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "worker_dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,  # dead workers are what is tested
    }
    return LocalCluster(**{**options, **changes})


@pytest.fixture(scope="module")
def dask() -> Iterator[LocalCluster]:
    with local_cluster(n_workers=2) as made:
        yield made


@pytest.fixture
def on_dask(dask: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """Shards go to the cluster, whose two workers are there (one may have died)."""
    dask.wait_for_workers(2)
    monkeypatch.setenv(parallel.SCHEDULER, dask.scheduler_address)
    return dask


@pytest.fixture(autouse=True)
def _here_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(parallel.SCHEDULER, raising=False)


def table() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((50, 4000))


def bits(results: list[tuple[int, np.ndarray]]) -> list[tuple[int, bytes]]:
    return [(number, values.tobytes()) for number, values in results]


def numbers(count: int, first: int = 0) -> list[dict[str, int]]:
    return study.grid(number=range(first, first + count))


def noise() -> Callable[..., tuple[int, np.ndarray]]:
    return partial(sharded.drawn, seed=SEED, table=table())


def by_hand(count: int) -> list[tuple[int, bytes]]:
    drawn = noise()
    return bits([drawn(number) for number in range(count)])


@pytest.mark.parametrize("processes", [1, 2])
def test_on_this_machine(processes: int) -> None:
    assert bits(study.measure(noise(), numbers(8), processes=processes)) == by_hand(8)
    used = study.measure(sharded.process, [{"_": 0}, {"_": 1}], processes=processes)
    assert (os.getpid() in used) == (processes == 1)


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    for points in (1, 2):  # whatever an interrupted run has left
        used = study.measure(sharded.threads, study.grid(_=range(points)), processes=2)
        assert used == [max(1, joblib.cpu_count() // 2)] * points


def test_a_gpu_has_room_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_used, expected in ((False, 50), (True, parallel.ON_GPU)):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda is_used=is_used: is_used)
        assert parallel._processes(50) == expected
        assert parallel._processes(3) == 3


def test_on_a_cluster(on_dask: LocalCluster) -> None:
    assert bits(study.measure(noise(), numbers(8), processes=2)) == by_hand(8)
    assert os.getpid() not in study.measure(sharded.process, study.grid(_=range(8)))


def test_a_killed_worker_costs_nothing_but_time(on_dask: LocalCluster, tmp_path: Path) -> None:
    """One worker of two is gone, with all that it held; what the shards share goes on."""
    dying = partial(sharded.drawn_by_the_dying, seed=SEED, table=table(), folder=tmp_path)
    assert bits(study.measure(dying, numbers(12))) == by_hand(12)
    begun = [path.name.split("-") for path in tmp_path.iterdir()]
    assert (tmp_path / "killed").exists()
    again = [number for number, *_ in begun if number == "5"]
    assert len(again) == 2  # in the process that died, and in another


def test_what_only_the_dead_held_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    """The only worker dies, so that nobody has the table that its shards share."""
    with local_cluster() as alone:
        monkeypatch.setenv(parallel.SCHEDULER, alone.scheduler_address)
        dying = partial(sharded.drawn_by_the_dying, seed=SEED, table=table(), folder=tmp_path)
        assert bits(study.measure(dying, numbers(8))) == by_hand(8)
        assert (tmp_path / "killed").exists()


def test_what_shards_share_is_sent_once(on_dask: LocalCluster) -> None:
    """Each worker holds the function and its table, where every shard finds them."""
    own, over = partial(sharded.place_of, table()), study.grid(_=range(8))
    places = study.measure(own, over)
    assert all(len({place for pid, place in places if pid == each}) == 1 for each, _ in places)
    sent: list[Any] = []
    submit = Client.submit

    def counted(self: Client, function: Any, *arguments: Any, **options: Any) -> Any:
        sent.extend(each.value for each in arguments if isinstance(each, parallel._Held))
        return submit(self, function, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "submit", counted)
        study.measure(own, over)
    assert sent == [own, *over]


def test_loops_inside_a_shard_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker that might start processes of its own."""
    with local_cluster(processes=False, protocol="tcp://") as threads:
        monkeypatch.setenv(parallel.SCHEDULER, threads.scheduler_address)
        assert study.measure(sharded.inside, [{"_": 0}]) == [(1, [os.getpid()] * 3)]


@pytest.mark.parametrize("where", ["here", "processes", "dask"])
def test_errors_arrive_with_type_and_message(
    where: str, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    if where == "dask":
        request.getfixturevalue("on_dask")
    with pytest.raises(InvalidInput, match="^shard 3: got 3, expected another number$"):
        study.measure(sharded.fails, numbers(8), processes=2 if where == "processes" else 1)


def test_after_an_error_the_cluster_is_free(on_dask: LocalCluster, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        study.measure(partial(sharded.fails_first, folder=tmp_path), numbers(200))
    assert study.measure(sharded.fails, numbers(1)) == [0]
    assert len(list(tmp_path.iterdir())) < 100


def test_bad_input_is_refused() -> None:
    for processes in (0, -2, 1.5, True):
        with pytest.raises(InvalidInput, match="processes: got .*expected an integer >= 1"):
            study.measure(sharded.fails, numbers(1), processes=processes)  # type: ignore[arg-type]
    for address in ("127.0.0.1:8786", "tcp://", "tcp://host", "x y:1"):
        with pytest.raises(RunError, match=r"expected an address like tcp://10.0.0.1:8786"):
            parallel.connected(address)


def test_a_cluster_that_goes_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 1)
    with local_cluster(processes=False, protocol="tcp://") as brief:
        monkeypatch.setenv(parallel.SCHEDULER, brief.scheduler_address)

        def close() -> None:
            while not list(tmp_path.iterdir()):  # until a shard runs
                time.sleep(0.01)
            brief.close()

        threading.Thread(target=close, daemon=True).start()
        with pytest.raises(RunError, match=f"scheduler at {brief.scheduler_address} went away"):
            study.measure(partial(sharded.fails_first, folder=tmp_path), numbers(20, first=1))


def test_a_cluster_with_all_that_is_here(dask: LocalCluster) -> None:
    assert cluster.check(dask.scheduler_address) == 2
    own = cluster.described()
    assert re.fullmatch(r"[0-9a-f]{12}", own["code of textpriv"])
    assert {"python", "numpy", "torch"} <= set(own)


def test_other_versions(dask: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "described", sharded.described)
    with pytest.raises(RunError) as caught:
        cluster.check(dask.scheduler_address)
    workers = r"tcp://127\.0\.0\.1:\d+ \(1\.0\)"
    expected = rf"numpy: {workers}, {workers}, expected 2\.0 as here; update and restart them"
    assert re.fullmatch(expected, str(caught.value))


def test_a_cluster_is_asked_whether_it_can_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORKER_SECONDS", 0.2)
    for workers, says in ((0, "has no worker; start some"), (1, "at once.*--nthreads 1")):
        with (
            local_cluster(
                n_workers=workers, processes=False, protocol="tcp://", threads_per_worker=2
            ) as made,
            pytest.raises(RunError, match=says),
        ):
            cluster.check(made.scheduler_address)


def test_the_loop_over_a_grid(on_dask: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function that stands in a notebook, with what was defined before it."""
    tables = {"one": table(), "other": table() + 1}

    def measured(corpus: str, epsilon: float) -> bytes:
        noise = stream(SEED, corpus, epsilon).standard_normal((8, 50))
        return np.tanh(epsilon * noise @ tables[corpus]).tobytes()

    over = study.grid(corpus=tables, epsilon=[1.0, 2.0, 4.0])
    there = study.measure(measured, over)
    monkeypatch.delenv(parallel.SCHEDULER)  # on this machine, in this process and in others
    for processes in (1, 2):
        assert study.measure(measured, over, processes=processes) == there
    assert len(set(there)) == len(over)


def test_blocks_of_words_draw_what_all_together_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(at_once: int) -> bytes:
        monkeypatch.setattr(ann_vs_exact, "WORDS_AT_ONCE", at_once)
        rng = stream(SEED, "words")
        blocks = ann_vs_exact.blocks(np.arange(300), 12, rng)
        normals = [block["rng"].standard_normal(12 * len(block["words"])) for block in blocks]
        return np.concatenate(normals).tobytes() + rng.bytes(8)  # and the stream goes on alike

    assert drawn(100) == drawn(1024)
