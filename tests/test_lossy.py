"""Notebook 03: settings, texts in pieces, what public text may hold, and noise over tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import BEYOND, PIECES, SPECIAL, piece, tiny_family

from textpriv import profiles
from textpriv.data import corpora, splits
from textpriv.data.corpora import Documents
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput, ProfileError
from textpriv.experiments import lossy
from textpriv.experiments.lossy import Setting, Sizes, Text, TokenNoise, Vocabulary
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil
from textpriv.models import FAMILIES, NAMES, Encoder, pieces
from textpriv.seeds import stream

WORDS = ["cat", "dog", "fish", "the", "sat", "ran", "on", "mat"]
SEED = 3


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    changes: dict[str, Any] = {
        "corpora": {"rotten-tomatoes": 30, "imdb": 20},
        "longest": {"rotten-tomatoes": 6, "imdb": 12, "qnli": 5, "sst2": 12},
        "public": 40,
    }
    return profiles.load("smoke", "03_lossy_and_stencil", Sizes, changes)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_family(tmp_path_factory.mktemp("lossy-t5"), "t5")


def documents(name: str) -> Documents:
    """Short texts, longer ones for "imdb", half of which quote one; "qnli" has pairs.

    The first ten second texts quote ten reviews.
    """
    rng = np.random.default_rng(5)
    short = [" ".join(rng.choice(WORDS, size=9)) for _ in range(50)]
    long = [" ".join(rng.choice(WORDS, size=20)) for _ in range(80)]
    long[:40] = [f"{text} {quoted}" for text, quoted in zip(long[:40], short, strict=False)]
    texts = long if name == "imdb" else short
    columns: dict[str, Any] = {"label": np.arange(len(texts)) % 2}
    if name == "qnli":
        second = [" ".join(rng.choice(WORDS, size=rng.integers(1, 12))) for _ in texts]
        second[:10] = [" ".join(text.split()[:9]) for text in long[40:50]]
        columns["second"] = np.array(second, dtype=object)
    return Documents(name, tuple(texts), columns)


def stream_of(*keys: Any) -> np.random.Generator:
    return np.random.default_rng(len(str(keys)))


def text(name: str, encoder: Encoder, sizes: Sizes) -> Text:
    return Text.of(documents(name), "tiny", encoder, sizes, SEED)


def test_the_crossing_is_that_of_the_papers_tables() -> None:
    """A label that it does not have is refused."""
    wrong = profiles.load("smoke", "03_lossy_and_stencil", Sizes, {"tuned": ["high-frequency"]})
    with pytest.raises(InvalidInput, match=r"tuned: got \['high-frequency'\], expected .*plain"):
        lossy.crossing(wrong)
    sizes = profiles.load("default", "03_lossy_and_stencil", Sizes)
    labels = [each.label for each in lossy.crossing(sizes)]
    assert len(set(labels)) == len(labels)
    random = [kind for kind in ("plain", *lossy.MAPS, "noise") if Setting(kind).is_random]
    assert random == ["2-random", "3-random", "noise"]
    for kind in lossy.STENCILS:
        shown = {f"w9-s{sigma}" for sigma in (0.2, 0.6, 0.8, 1.0)}
        shown |= {f"w{window}-s0.2" for window in (5, 7, 11)}
        assert {each for each in labels if each.startswith(kind)} == {f"{kind}-{s}" for s in shown}


@pytest.mark.parametrize("profile", ["smoke", "default", "full", "paper"])
def test_every_draw_of_a_map_is_attacked_on_some_document(profile: str) -> None:
    sizes = profiles.load(profile, "03_lossy_and_stencil", Sizes)
    least = min([*sizes.attacked.values(), *sizes.oracle.values()])
    with pytest.raises(ProfileError, match=f"expected at most {least}, the least number of doc"):
        profiles.load(profile, "03_lossy_and_stencil", Sizes, {"maps": least + 1})


def test_the_paper_profile_has_every_size_of_every_corpus() -> None:
    sizes = profiles.load("paper", "03_lossy_and_stencil", Sizes)
    names = set(sizes.corpora)
    known = (sizes.longest, sizes.tuned_steps, sizes.attacked, sizes.oracle, sizes.oracle_longest)
    assert all(set(each) == names for each in known)
    assert set(sizes.encoders) <= names and set(sizes.tuned_rates) <= names
    assert {sizes.encoder, *sizes.encoders.values()} <= set(NAMES)
    assert 2 * sizes.longest["qnli"] + 4 <= FAMILIES["t5"].longest


def test_public_text_holds_nothing_private(sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "load", documents)
    private, public = lossy.documents(sizes, stream_of)
    assert {name: len(each) for name, each in private.items()} == sizes.corpora
    known = [text for each in private.values() for text in each.texts]
    assert 0 < len(public) <= sizes.public and not set(public) & set(known)
    assert not splits.shares_ngram(public, known).any()
    # Without the filter some review that quotes a sentence would be read.
    reviews = documents("imdb").texts
    assert splits.shares_ngram(reviews, known)[:40].sum() > len(private["imdb"])

    # What a second text quotes is gone as well.
    pairs = sizes.model_copy(update={"corpora": {**sizes.corpora, "qnli": 50}})
    more, fewer = lossy.documents(pairs, stream_of)
    assert set(fewer) < set(public)
    second = more["qnli"].columns["second"]
    assert not splits.shares_ngram(fewer, [str(each) for each in second]).any()


def test_a_text_is_cut_and_split(encoder: Encoder, sizes: Sizes) -> None:
    given = text("rotten-tomatoes", encoder, sizes)
    assert np.diff(given.pieces.offsets).max() == 6 and given.longest == 6 + 2
    assert len(given.splits) == sizes.seeds
    for train, test in given.splits:
        assert sorted([*train, *test]) == list(range(50))
        assert given.labels[test].mean() == 0.5
    assert len({tuple(sorted(test)) for _, test in given.splits}) == sizes.seeds
    few = given.first(3)
    assert few.documents == given.documents[:3]
    assert few.pieces.ids.tolist() == given.pieces.ids[: given.pieces.offsets[3]].tolist()
    changed = given.pieces.ids.copy()
    changed[: given.pieces.offsets[10]] = piece("[MASK]")
    kept = given.unchanged(given.pieces.with_ids(changed))
    assert kept.value == 1 - given.pieces.offsets[10] / len(changed)
    assert kept.influence is not None and kept.influence.sample == "rotten-tomatoes"


def test_phrases_of_one_sentence_stay_on_one_side_and_are_one_unit(
    encoder: Encoder, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SST-2's phrases: a classifier that has read one knows the others."""
    parents = np.arange(50) // 2
    monkeypatch.setattr(lossy.splits, "parent_sentences", lambda texts: parents)
    phrases = text("sst2", encoder, sizes)
    assert (phrases.cluster == parents).all()
    assert (text("imdb", encoder, sizes).cluster == np.arange(80)).all()
    for train, test in phrases.splits:
        assert not set(parents[train]) & set(parents[test])
        assert sorted([*train, *test]) == list(range(50))
    share = phrases.unchanged(phrases.pieces)
    assert share.influence is not None and len(share.influence.unit) == 25


def test_pairs_become_two_texts_each(t5: Encoder, sizes: Sizes) -> None:
    given, source = text("qnli", t5, sizes), documents("qnli")
    second = [str(each) for each in source.columns["second"]]
    expected = pieces.encode(t5.tokenizer, [*source.texts, *second], longest=5)
    assert [row.tolist() for row in given.pieces] == [row.tolist() for row in expected]
    assert given.longest == 2 * 5 + sum(map(len, t5.framed(2)))
    assert given.unit.tolist() == [*np.repeat(np.tile(np.arange(50), 2), np.diff(expected.offsets))]
    four = [given.pieces[row].tolist() for row in (*range(4), *range(50, 54))]
    assert [row.tolist() for row in given.first(4).pieces] == four
    assert len(given.first(99).pieces) == 100
    one, other = given.read(given.pieces, np.array([7, 2]))
    assert other is not None
    assert [row.tolist() for row in (*one, *other)] == [
        given.pieces[row].tolist() for row in (7, 2, 57, 52)
    ]
    assert text("imdb", t5, sizes).read(expected.subset(np.arange(80)))[1] is None


def test_no_window_reaches_across_a_pair(t5: Encoder, sizes: Sizes) -> None:
    """Both texts come out as they do alone."""
    given, vocabulary = text("qnli", t5, sizes), Vocabulary.of(t5, documents("imdb").texts, 3)
    stencil = Stencil(vocabulary.table, window=5, sigma=0.8)
    both = stencil.sanitize_corpus(given.pieces)
    halves = (given.pieces.subset(np.arange(50) + start) for start in (0, 50))
    alone = [stencil.sanitize_corpus(each).ids for each in halves]
    assert (both.ids == np.concatenate(alone)).all()
    end_to_end = Corpus(given.pieces.ids, np.array([0, len(given.pieces.ids)]))
    assert (stencil.sanitize_corpus(end_to_end).ids != both.ids).any()


def test_a_vocabulary_has_the_pieces_that_are_named(encoder: Encoder, t5: Encoder) -> None:
    public = documents("imdb").texts
    for each, beyond in ((encoder, 0), (t5, BEYOND)):
        vocabulary = Vocabulary.of(each, public, 3)
        assert vocabulary.table.size == len(vocabulary.counts) == len(each.table) - beyond
        named = each.table.detach().numpy()[: vocabulary.table.size]
        assert np.array_equal(vocabulary.table.vectors, named)
        assert vocabulary.fixed.tolist() == pieces.special_ids(each.tokenizer).tolist()
        assert (
            vocabulary.counts == np.bincount(vocabulary.public.ids, minlength=vocabulary.table.size)
        ).all()


@pytest.mark.parametrize(("rehearsed", "ends"), [(3, (3, 4)), (50, (50, 63)), (500, (78, 79))])
def test_the_language_model_reads_what_no_rehearsal_does(
    encoder: Encoder, rehearsed: int, ends: tuple[int, int]
) -> None:
    vocabulary = Vocabulary.of(encoder, documents("imdb").texts, rehearsed)
    assert np.cumsum([len(part) for part in vocabulary.parts]).tolist() == [*ends, 80]
    together = [row.tolist() for part in vocabulary.parts for row in part]
    assert together == [row.tolist() for row in vocabulary.public]


def test_public_text_is_counted_in_the_tokens_of_another_model(
    encoder: Encoder, t5: Encoder
) -> None:
    known = Vocabulary.of(encoder, documents("imdb").texts, 3)
    counted = known.counted_in(t5.tokenizer)
    expected = pieces.encode(t5.tokenizer, pieces.decode(encoder.tokenizer, known.public))
    assert (counted.counts == np.bincount(expected.ids, minlength=len(t5.tokenizer))).all()
    LossyMap.random(len(counted.counts), 2, np.random.default_rng(0), fixed=counted.fixed)


def test_noise_over_tokens(encoder: Encoder) -> None:
    """Fixed pieces stay; the others go through MADLIB in its own numbers."""
    vocabulary = Vocabulary.of(encoder, documents("imdb").texts, 3)
    names = ("cat", "the", "[UNK]", "mat", "sat")
    corpus = Corpus(ids=np.array([piece(each) for each in names]), offsets=np.array([0, 3, 5]))
    still = TokenNoise(vocabulary, 1e6, stream(SEED, "still"))
    assert (still.sanitize_corpus(corpus).ids == corpus.ids).all()
    assert still.in_rows(corpus).ids.tolist() == [
        each - len(SPECIAL) if each >= len(SPECIAL) else -1 for each in corpus.ids
    ]
    assert still.madlib.embedding.words == tuple(PIECES[len(SPECIAL) :])
    loud = TokenNoise(vocabulary, 0.01, stream(SEED, "loud"))
    seen = loud.sanitize_corpus(corpus)
    rows = loud.madlib.sanitize_ids(corpus.ids[[0, 1, 3, 4]] - len(SPECIAL), stream(SEED, "loud"))
    assert seen.ids[[0, 1, 3, 4]].tolist() == (rows + len(SPECIAL)).tolist()
    assert seen.ids[2] == corpus.ids[2] and (seen.offsets == corpus.offsets).all()
    assert (seen.ids != corpus.ids).any()
