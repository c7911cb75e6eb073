from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from textpriv import files
from textpriv.errors import InvalidInput, StorageError
from textpriv.files import canonical_json, write_atomic


def test_written_file_is_whole_and_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomic(path, b"first")
    write_atomic(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["file"]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="cannot write .*make its folder writable"):
        write_atomic(tmp_path / "results" / "file", b"data")


def test_canonical_json() -> None:
    assert canonical_json({"b": (1, 2.0), "a": None}) == '{"a":null,"b":[1,2.0]}'


@pytest.mark.parametrize("value", [np.zeros(2), float("nan"), object()])
def test_canonical_json_refuses(value: Any) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        canonical_json({"x": value})


def test_no_test_reaches_the_network() -> None:
    with pytest.raises(OSError, match="tried to reach"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)  # an address kept for examples


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_atomic(pipe, b"bytes")
    assert os.read(reader, 10) == b"bytes" and pipe.is_fifo()
    os.close(reader)
    with pytest.raises(StorageError, match=r"cannot write .*pipes.*directory"):
        (tmp_path / "pipes").mkdir()
        files.write_atomic(tmp_path / "pipes", b"")
