"""Settings of notebook 03, what they do to a text, and what public text may hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import PIECES, SPECIAL, piece, tiny_encoder

from textpriv import corpora, profiles, splits
from textpriv.corpora import Documents
from textpriv.experiments import lossy
from textpriv.experiments.lossy import Setting, Sizes, Tools
from textpriv.models import Encoder
from textpriv.tokens import Corpus

WORDS = ["cat", "dog", "fish", "the", "sat", "ran", "on", "mat"]


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    changes: dict[str, Any] = {
        "corpora": {"rotten-tomatoes": 30, "imdb": 20},
        "longest": {"rotten-tomatoes": 6, "imdb": 12},
        "public": 40,
    }
    return profiles.load("smoke", "03_lossy_and_stencil", Sizes, changes)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("lossy"))


def documents(name: str) -> Documents:
    """Short texts for "rotten-tomatoes", longer ones for "imdb", half of which quote one."""
    rng = np.random.default_rng(5)
    short = [" ".join(rng.choice(WORDS, size=9)) for _ in range(50)]
    long = [" ".join(rng.choice(WORDS, size=20)) for _ in range(80)]
    long[:40] = [f"{text} {quoted}" for text, quoted in zip(long[:40], short, strict=False)]
    texts = short if name == "rotten-tomatoes" else long
    return Documents(name, tuple(texts), {"label": np.arange(len(texts)) % 2})


def gathered(
    encoder: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, lossy.Material], Tools]:
    monkeypatch.setattr(corpora, "load", documents)
    return lossy.gather(encoder, sizes, lambda *keys: np.random.default_rng(len(str(keys))))


def test_labels() -> None:
    assert Setting("stencil", 9, 0.8).label == "stencil-w9-s0.8"
    assert Setting("punctuated-stencil", 11, 1.0).label == "punctuated-stencil-w11-s1.0"
    assert [Setting("noise", eta=100.0).label, Setting("plain").label] == ["noise-100", "plain"]
    random = [kind for kind in ("plain", *lossy.MAPS, "noise") if Setting(kind).is_random]
    assert random == ["2-random", "3-random", "noise"]


def test_the_crossing_is_that_of_the_papers_tables() -> None:
    sizes = profiles.load("default", "03_lossy_and_stencil", Sizes)
    labels = [each.label for each in lossy.crossing(sizes)]
    assert len(set(labels)) == len(labels)
    for kind in lossy.STENCILS:
        shown = {f"w9-s{sigma}" for sigma in (0.2, 0.6, 0.8, 1.0)}
        shown |= {f"w{window}-s0.2" for window in (5, 7, 11)}
        assert {each for each in labels if each.startswith(kind)} == {f"{kind}-{s}" for s in shown}
    assert set(sizes.tuned) <= set(labels)
    assert len(lossy.grid(sizes)) == 32


def test_public_text_holds_nothing_private(
    encoder: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    materials, tools = gathered(encoder, sizes, monkeypatch)
    assert {name: len(each.corpus) for name, each in materials.items()} == sizes.corpora
    lengths = np.diff(materials["rotten-tomatoes"].corpus.offsets)
    assert lengths.max() == 6
    private = [text for each in materials.values() for text in each.documents.texts]
    public = ["".join(PIECES[i] for i in tools.public[d]) for d in range(len(tools.public))]
    assert 0 < len(public) <= sizes.public
    joined = [text.replace(" ", "") for text in private]
    assert not set(public) & set(joined)
    reviews = documents("imdb").texts
    read = [text for text in reviews if text.replace(" ", "") in set(public)]
    assert len(read) == len(public)
    assert not splits.shares_ngram(read, private).any()
    # Without the filter some review that quotes a sentence would be read.
    assert splits.shares_ngram(reviews, private)[:40].sum() > len(materials["imdb"].corpus)
    assert (tools.counts == np.bincount(tools.public.ids, minlength=len(PIECES))).all()


def test_manipulations(encoder: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    _, tools = gathered(encoder, sizes, monkeypatch)
    unknown = piece("[UNK]")
    ids = np.array([piece("cat"), piece("the"), unknown, piece("mat"), piece("sat")])
    corpus = Corpus(ids=ids, offsets=np.array([0, 3, 5]))

    def changed(setting: Setting, seed: int = 0) -> np.ndarray[Any, Any]:
        found = lossy.manipulate(setting, corpus, tools, np.random.default_rng(seed))
        assert (found.offsets == corpus.offsets).all()
        assert found.ids[2] == unknown and not np.isin(found.ids[[0, 1, 3, 4]], range(5)).any()
        return found.ids

    assert (changed(Setting("plain")) == ids).all()
    assert (changed(Setting("noise", eta=1e6)) == ids).all()
    assert (changed(Setting("noise", eta=0.01), 1) != changed(Setting("noise", eta=0.01), 2)).any()
    plain = changed(Setting("stencil", 3, 0.2))
    assert (plain[[0, 1, 3, 4]] != ids[[0, 1, 3, 4]]).all()
    assert (
        plain == lossy.stencil(Setting("stencil", 3, 0.2), tools).sanitize_corpus(corpus).ids
    ).all()
    for kind in ("2-random", "3-random", "high-freq", "low-freq"):
        made = lossy.mapper(
            Setting(kind), tools.counts, np.arange(len(SPECIAL)), np.random.default_rng(0)
        )
        assert made.name == kind
        assert (changed(Setting(kind)) == made.representative[ids]).all()
    most = int(np.argmax(tools.counts))
    high, low = (
        lossy.mapper(Setting(kind), tools.counts, tools.table.fixed, np.random.default_rng(0))
        for kind in ("high-freq", "low-freq")
    )
    assert high.representative[most] == most != low.representative[most]
