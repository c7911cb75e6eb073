"""Settings of notebook 03, what they do to a text, and what public text may hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from pandas.testing import assert_frame_equal
from tiny_models import BEYOND, PIECES, SPECIAL, piece, tiny_encoder, tiny_family

from textpriv import corpora, pieces, profiles, splits
from textpriv.corpora import Documents
from textpriv.experiments import lossy, lossy_attacks
from textpriv.experiments.lossy import Setting, Sizes, Tools
from textpriv.models import FAMILIES, NAMES, Encoder
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


# --- Pairs, and corpora that another encoder reads ----------------------------------------------


def with_pairs(name: str) -> Documents:
    """For "qnli" questions with a sentence, the first ten of which quote the first ten reviews."""
    if name != "qnli":
        return documents(name)
    rng = np.random.default_rng(6)
    second = [" ".join(rng.choice(WORDS, size=rng.integers(1, 12))) for _ in range(30)]
    second[:10] = [" ".join(text.split()[:9]) for text in documents("imdb").texts[40:50]]
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 9))) for _ in range(30)]
    columns = {"label": np.arange(30) % 2, "second": np.array(second, dtype=object)}
    return Documents(name, tuple(texts), columns)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_family(tmp_path_factory.mktemp("lossy-t5"), "t5")


def with_t5(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, lossy.Material], Tools]:
    """Rotten Tomatoes and IMDb as before, and pairs that a T5 reads."""
    monkeypatch.setattr(corpora, "load", with_pairs)
    monkeypatch.setattr(
        lossy, "load_encoder", lambda name, device: {("t5-small", "cpu"): t5}[name, device]
    )
    changes = {
        "encoders": {"qnli": "t5-small", "sst2": "roberta-base"},  # no sst2 among the corpora
        "corpora": {**sizes.corpora, "qnli": 30},
        "longest": {**sizes.longest, "qnli": 5},
    }
    larger = sizes.model_copy(update=changes)
    return lossy.gather(encoder, larger, lambda *keys: np.random.default_rng(len(str(keys))))


def test_pairs_become_two_texts_each(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    materials, _ = with_t5(encoder, t5, sizes, monkeypatch)
    given = materials["qnli"]
    assert materials["imdb"].second is None
    assert materials["imdb"].texts is materials["imdb"].corpus
    assert given.second is not None and len(given.second) == len(given.corpus) == 30
    first, second = given.documents.texts, given.documents.columns["second"]
    for corpus, texts in ((given.corpus, first), (given.second, second)):
        expected = pieces.encode(t5.tokenizer, list(texts), longest=5)
        assert (corpus.ids == expected.ids).all() and (corpus.offsets == expected.offsets).all()
    every = [*given.corpus, *given.second]
    assert [row.tolist() for row in given.texts] == [row.tolist() for row in every]
    four = [*(given.corpus[row] for row in range(4)), *(given.second[row] for row in range(4))]
    assert [row.tolist() for row in given.first(4)] == [row.tolist() for row in four]
    assert len(given.first(99)) == 60


def test_another_encoder_has_tools_of_its_own(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tools = with_t5(encoder, t5, sizes, monkeypatch)
    assert list(tools.others) == ["qnli"]
    assert tools.of("imdb").encoder is encoder and not tools.of("imdb").others
    own = tools.of("qnli")
    assert own.encoder is t5
    assert own.table.size == len(own.counts) == len(t5.table) - BEYOND
    assert np.array_equal(own.table.vectors, t5.table.detach().numpy()[:-BEYOND])
    assert own.table.fixed.tolist() == pieces.special_ids(t5.tokenizer).tolist()
    assert pieces.decode(t5.tokenizer, own.public)
    words = [pieces.decode(each.encoder.tokenizer, each.public) for each in (own, tools)]
    assert len(words[0]) == len(words[1]) > 0
    assert (own.counts == own.public.counts(own.table.size)).all()


def test_public_text_holds_no_second_text(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    materials, tools = with_t5(encoder, t5, sizes, monkeypatch)
    _, before = gathered(encoder, sizes, monkeypatch)
    public, more = (
        {"".join(PIECES[i] for i in each.public[d]) for d in range(len(each.public))}
        for each in (tools, before)
    )
    assert public < more  # what a second text quotes is gone
    second = materials["qnli"].documents.columns["second"]
    assert not any(text.replace(" ", "") in review for text in second[:10] for review in public)


def test_no_window_reaches_across_a_pair(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both texts come out as they do alone; a map is the same one for both."""
    materials, tools = with_t5(encoder, t5, sizes, monkeypatch)
    given, own = materials["qnli"], tools.of("qnli")
    assert given.second is not None
    for setting in (Setting("stencil", 5, 0.8), Setting("punctuated-stencil", 5, 1.0)):
        both = lossy.manipulate(setting, given.texts, own, np.random.default_rng(0))
        alone = [
            lossy.manipulate(setting, each, own, np.random.default_rng(0)).ids
            for each in (given.corpus, given.second)
        ]
        assert (both.ids == np.concatenate(alone)).all()
        end_to_end = Corpus(given.texts.ids, np.array([0, len(given.texts.ids)]))
        across = lossy.manipulate(setting, end_to_end, own, np.random.default_rng(0))
        assert (across.ids != both.ids).any()
    made = lossy.manipulate(Setting("2-random"), given.texts, own, np.random.default_rng(0))
    pairs = set(zip(given.texts.ids.tolist(), made.ids.tolist(), strict=True))
    assert len(pairs) == len(set(given.texts.ids.tolist()))


def test_attacks_on_pairs_use_the_tools_of_their_encoder(
    encoder: Encoder, t5: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    materials, tools = with_t5(encoder, t5, sizes, monkeypatch)
    few = sizes.model_copy(update={"attacked": {"qnli": 12}, "guesses": 5})
    settings = [Setting("2-random"), Setting("stencil", 3, 0.8)]
    given, own = {"qnli": materials["qnli"]}, tools.of("qnli")
    with parallel_config(backend="sequential"):
        found = lossy_attacks.attacked(
            given, tools, settings, few, 0, lossy_attacks.language_model(tools, few)
        )
        expected = lossy_attacks.attacked(
            given, own, settings, few, 0, lossy_attacks.language_model(own, few)
        )
    assert {"noisy_channel", "deconvolution_lm"} <= set(found["attack"])
    numbers = ["attack", "top", "value", "low", "high", "n"]
    assert_frame_equal(found[numbers], expected[numbers])
    ids = materials["qnli"].first(12).ids
    assert (found["n"] == (~np.isin(ids, own.table.fixed)).sum()).all()


def test_the_paper_profile_has_every_size_of_every_corpus() -> None:
    sizes = profiles.load("paper", "03_lossy_and_stencil", Sizes)
    names = set(sizes.corpora)
    assert "qnli" in names and (sizes.encoder, sizes.encoders["qnli"]) == (
        "roberta-base",
        "t5-small",
    )
    for each in (
        sizes.longest, sizes.tuned_steps, sizes.attacked, sizes.oracle, sizes.oracle_longest
    ):  # fmt: skip
        assert set(each) == names
    assert set(sizes.encoders) <= names and set(sizes.tuned_rates) <= names
    assert {sizes.encoder, *sizes.encoders.values()} <= set(NAMES)
    assert 2 * sizes.longest["qnli"] + 4 <= FAMILIES["t5"].longest(None)  # type: ignore[arg-type]
