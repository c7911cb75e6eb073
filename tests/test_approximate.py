"""Approximate indexes: saved and loaded, and searched with more or less effort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from textpriv.errors import InvalidInput
from textpriv.neighbors import AnnoySearch, annoy_build

TABLE = np.random.default_rng(0).normal(size=(400, 12)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(50, 12))


def test_a_loaded_annoy_index_answers_as_the_one_that_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "index.ann"
    built = AnnoySearch(TABLE, trees=3, search_k=30, seed=5)
    before = built.nearest(QUERIES, 5)[0]
    built.save(file)
    loaded = AnnoySearch.load(TABLE, file, search_k=30)
    np.testing.assert_array_equal(built.nearest(QUERIES, 5)[0], before)
    np.testing.assert_array_equal(loaded.nearest(QUERIES, 5)[0], before)
    assert (AnnoySearch(TABLE, trees=3, search_k=30).nearest(QUERIES, 5)[0] != before).any()


def test_the_build_of_annoy_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compiled otherwise, it has another name: what it built is not taken for ours."""
    import annoy.annoylib

    ours = annoy_build()
    assert ours == annoy_build() and ours.startswith("1.")
    other = tmp_path / "annoylib.so"
    other.write_bytes(Path(annoy.annoylib.__file__).read_bytes() + b"0")
    monkeypatch.setattr(annoy.annoylib, "__file__", str(other))
    assert annoy_build() != ours


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    AnnoySearch(TABLE, trees=1).save(tmp_path / "index.ann")
    with pytest.raises(InvalidInput, match="got an index of 400 rows, expected 399"):
        AnnoySearch.load(TABLE[:-1], tmp_path / "index.ann")
    with pytest.raises(InvalidInput, match="search_k: got -2"):
        AnnoySearch.load(TABLE, tmp_path / "index.ann", search_k=-2)
    with pytest.raises(OSError, match="Unable to open"):
        AnnoySearch.load(TABLE, tmp_path / "absent")


def test_effort_set_anew_is_that_of_an_index_made_with_it() -> None:
    search, made = AnnoySearch(TABLE, trees=3), AnnoySearch(TABLE, trees=3, search_k=5)
    before = search.nearest(QUERIES, 5)[0]
    assert search.effort == -1
    search.effort = 5
    assert search.effort == made.effort == 5
    after = search.nearest(QUERIES, 5)[0]
    np.testing.assert_array_equal(after, made.nearest(QUERIES, 5)[0])
    assert (after != before).any()
