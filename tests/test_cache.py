from __future__ import annotations

import errno
import os
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from textpriv import cache as cache_module
from textpriv import errors, seeds
from textpriv.cache import arrays, canonical_json, code_digest, write_atomic

KEY = {"eps": [19.0, 25.0], "asset": "abc", "draws": 1000}


class Counted:
    """A computation that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, object]:
        self.calls += 1
        return {"kept": np.arange(5) / 4, "words": np.array(["a", "bé"]), "n": 3}


def test_computes_once_and_reads_back_the_same(cache: Path) -> None:
    compute = Counted()
    first = arrays("envelopes", KEY, compute)
    second = arrays("envelopes", KEY, compute)
    assert compute.calls == 1
    assert list(first) == list(second) == ["kept", "words", "n"]
    for name in first:
        assert first[name].dtype == second[name].dtype
        np.testing.assert_array_equal(first[name], second[name])
    assert list((cache / "computed" / "envelopes").glob("*.npz"))


def test_key_decides_and_its_order_does_not(cache: Path) -> None:
    compute = Counted()
    arrays("envelopes", {"a": 1, "b": 2}, compute)
    arrays("envelopes", {"b": 2, "a": 1}, compute)
    assert compute.calls == 1
    arrays("envelopes", {"a": 1, "b": 2.0}, compute)
    arrays("other", {"a": 1, "b": 2}, compute)
    assert compute.calls == 3


@pytest.mark.parametrize("damage", ["torn", "garbage", "empty", "other key", "no key"])
def test_damaged_file_is_computed_again(tmp_path: Path, damage: str) -> None:
    compute = Counted()
    arrays("envelopes", KEY, compute, directory=tmp_path)
    (path,) = tmp_path.glob("envelopes/*.npz")
    whole = path.read_bytes()
    if damage == "other key":
        np.savez(path, kept=np.zeros(1), __key__=np.array("{}"))
    elif damage == "no key":
        np.savez(path, kept=np.zeros(1))
    else:
        path.write_bytes({"torn": whole[: len(whole) // 2], "garbage": b"no zip"}.get(damage, b""))
    with pytest.warns(UserWarning, match="damaged"):
        found = arrays("envelopes", KEY, compute, directory=tmp_path)
    assert compute.calls == 2
    np.testing.assert_array_equal(found["kept"], np.arange(5) / 4)
    arrays("envelopes", KEY, compute, directory=tmp_path)
    assert compute.calls == 2


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    compute = Counted()
    arrays("envelopes", KEY, compute, directory=tmp_path)
    (path,) = tmp_path.glob("envelopes/*.npz")
    data = bytearray(path.read_bytes())
    data[data.index(np.float64(0.75).tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="damaged"):
        arrays("envelopes", KEY, compute, directory=tmp_path)
    assert compute.calls == 2


def test_failed_computation_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> dict[str, object]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        arrays("envelopes", KEY, fail, directory=tmp_path)
    assert not list(tmp_path.rglob("*.npz"))
    arrays("envelopes", KEY, Counted(), directory=tmp_path)  # the lock was released


@pytest.mark.parametrize(
    ("purpose", "key", "result", "message"),
    [
        ("Envelopes", KEY, {}, "purpose"),
        ("../up", KEY, {}, "purpose"),
        ("a", {"x": np.zeros(2)}, {}, "JSON"),
        ("a", {"x": float("nan")}, {}, "JSON"),
        ("a", KEY, {"x": [object()]}, "objects"),
        ("a", KEY, {"file": [1]}, "taken"),
        ("a", KEY, {"__key__": [1]}, "taken"),
    ],
)
def test_refuses(tmp_path: Path, purpose: str, key: dict, result: dict, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        arrays(purpose, key, lambda: result, directory=tmp_path)


def test_folder_that_cannot_be_written_is_found_out_first(tmp_path: Path) -> None:
    (tmp_path / "envelopes").write_text("a file where the folder should be")
    compute = Counted()
    with pytest.raises(errors.StorageError, match="TEXTPRIV_CACHE"):
        arrays("envelopes", KEY, compute, directory=tmp_path)
    assert compute.calls == 0


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module.os, "fsync", full)
    with pytest.raises(errors.StorageError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def _slow(folder: str) -> float:
    """Computes with a mark left behind, so that the number of computations can be counted."""

    def compute() -> dict[str, object]:
        Path(folder, f"ran-{os.getpid()}-{os.urandom(4).hex()}").touch()
        return {"x": np.random.default_rng().random(1000)}

    return float(arrays("race", {"k": 1}, compute, directory=Path(folder))["x"].sum())


def test_two_processes_compute_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        sums = list(pool.map(_slow, [str(tmp_path)] * 6))
    assert len(set(sums)) == 1
    assert len(list(tmp_path.glob("ran-*"))) == 1


def test_code_digest_follows_the_source() -> None:
    assert code_digest(seeds) == code_digest(seeds)
    assert len({code_digest(seeds), code_digest(errors), code_digest(seeds, errors)}) == 3
    assert code_digest(seeds.stream) != code_digest(seeds)


def test_canonical_json() -> None:
    assert canonical_json({"b": (1, 2.0), "a": None}) == '{"a":null,"b":[1,2.0]}'


def test_no_test_reaches_the_network() -> None:
    with pytest.raises(OSError, match="tried to reach"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)  # an address kept for examples
