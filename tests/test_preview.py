"""Preview: token tables, features by hand, an attacker's success in closed form, one whole text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import normal_embedding, refused, share_fits
from tiny_generators import tiny_generator
from tiny_models import PIECES, SPECIAL

from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import UNKNOWN
from textpriv.mechanisms import Madlib, RankRepair
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.models import Encoder
from textpriv.utility.prediction import ALL, FREE, TARGET, Predictor
from textpriv.utility.preview import PieceTable, Preview, Reader, preview, recovered
from textpriv.utility.summaries import similarity

Rng = np.random.default_rng
PUBLIC = ["cat sat on the mat !", "dog ran on the mat", "cat sat on the mat !"]


class FirstWord:
    """A small model that writes the first word, and nothing where that is "fish"."""

    def summarize(self, texts: Sequence[str]) -> list[str]:
        words = [text.split()[0] if text else "" for text in texts]
        return ["" if word == "fish" else word for word in words]


@pytest.fixture(scope="module")
def reader(encoder: Encoder) -> Reader:
    return Reader.of(encoder, FirstWord(), PUBLIC, PieceTable.of(encoder))


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    rng, rows = Rng(0), 60
    table = pd.DataFrame(rng.random((rows, 6)), columns=[*ALL, *FREE])
    table = table.assign(epsilon=np.tile([1.0, 5.0, 25.0], 20), document=np.arange(rows) // 3)
    table[TARGET] = 0.5 * table["small_sanitized"] + 0.1 * rng.random(rows)
    return Predictor.fit(table, [*ALL, *FREE], regressor="linear")


def test_the_table_holds_the_pieces_that_text_is_made_of(encoder: Encoder) -> None:
    """What it lacks is unknown, and left out where texts come out again."""
    table = PieceTable.of(encoder)
    assert table.embedding.words == tuple(PIECES[len(SPECIAL) :])
    np.testing.assert_array_equal(
        table.embedding.vectors, encoder.table.detach().numpy()[len(SPECIAL) :]
    )
    corpus = table.encode(["cat sat", "the snowball ran", "cat xyz sat", "xyz"])
    words = ["" if row == UNKNOWN else table.embedding.words[row] for row in corpus.ids]
    assert " ".join(words) == "cat sat the snow ##ball ran cat  sat "
    assert table.decode(corpus) == ["cat sat", "the snowball ran", "cat sat", ""]
    assert len(table.encode(["cat xyz sat"], longest=2).ids) == 2


def test_a_generator_has_a_table_too(tmp_path: Path) -> None:
    generator = tiny_generator(tmp_path)
    table = PieceTable.of(generator)
    assert len(table.embedding) == len(generator.tokenizer) - 1  # without what opens a text
    assert table.decode(table.encode(["the cat do"])) == ["the cat do"]


def test_features_by_hand(reader: Reader, encoder: Encoder) -> None:
    table = reader.table
    plain, changed = ["cat sat on", "fish ran"], ["dog sat mat", "fish ran"]
    original, version = table.encode(plain), table.encode(changed)
    rows = reader.features(original, [original, version], [9.0, 3.0])
    assert rows["document"].tolist() == [0, 1, 0, 1]
    assert rows["epsilon"].tolist() == [9, 9, 3, 3]
    assert rows["changed"].tolist() == pytest.approx([0, 0, 2 / 3, 0])
    assert rows["original"].tolist() == plain * 2
    assert rows["sanitized"].tolist() == plain + changed
    cat, dog = (similarity(encoder, ["cat sat on"], [word])[0] for word in ("cat", "dog"))
    assert rows["small_original"].tolist() == pytest.approx([cat, 0, cat, 0], abs=1e-3)
    assert rows["small_sanitized"].tolist() == pytest.approx([cat, 0, dog, 0], abs=1e-3)
    text = similarity(encoder, [plain[0]], [changed[0]])[0]
    assert rows["text_similarity"].tolist() == pytest.approx([1, 1, text, 1], abs=1e-3)


def test_surprise_is_bits_per_token_under_the_public_language(reader: Reader) -> None:
    table, language = reader.table, reader.language
    original = table.encode(["dog ran on the mat", "cat sat on the mat !"])
    version = table.encode(["cat sat on the mat", "mat the on sat cat !"])
    rows = reader.features(original, [version], [1.0])
    nats = -language.log_likelihood(version)
    bits = [nats[:5].mean() / np.log(2), nats[5:].mean() / np.log(2)]
    assert rows["surprise"].tolist() == pytest.approx(bits)
    assert bits[0] < bits[1]


def test_the_prior_is_public_and_misses_nothing(reader: Reader) -> None:
    words = reader.table.embedding.words
    prior = dict(zip(words, reader.prior, strict=True))
    assert prior["mat"] > prior["cat"] > prior["dog"] > prior["fish"] > 0
    assert sum(prior.values()) == pytest.approx(1, abs=0.05)


class Swap(FiniteMechanism):
    """Two words: the output is the other one with probability 0.7, whatever epsilon is."""

    name = "swap"

    def log_rows(self, inputs: Any) -> Any:
        return np.log(np.array([[0.3, 0.7], [0.7, 0.3]])[inputs])

    def log_columns(self, outputs: Any) -> Any:
        return self.log_rows(outputs)


class Keep(Swap):
    """Two words that stay what they are."""

    def log_rows(self, inputs: Any) -> Any:
        return np.array([[0.0, -np.inf], [-np.inf, 0.0]])[inputs]


def swap() -> Swap:
    return Swap(from_arrays("two", ["a", "b"], np.array([[0.0], [1.0]])), epsilon=1.0)


def test_an_attacker_who_knows_the_law_turns_it_round() -> None:
    ids, even = np.zeros(2000, dtype=np.int64), np.array([0.5, 0.5])
    shares = recovered(swap(), ids, [1.0], prior=even, draws=1, rng=Rng(0))
    assert share_fits(round(shares[0] * 2000), 2000, 0.7)  # 0.3 at its word
    # A prior that is sure enough guesses it whatever it sees.
    sure = recovered(swap(), ids, [1.0], prior=np.array([0.9, 0.1]), rng=Rng(0))
    assert sure[0] == 1


def test_without_a_channel_a_token_is_taken_at_its_word() -> None:
    """Laplace noise on a line: kept with probability 1 - exp(-epsilon) / 2."""
    embedding = from_arrays("two", ["a", "b"], np.array([[0.0], [2.0]]))
    ids, epsilons = np.zeros(500, dtype=np.int64), [0.5, 2.0]
    shares = recovered(
        Madlib(embedding, epsilon=1.0), ids, epsilons, prior=np.ones(2), draws=4, rng=Rng(0)
    )
    for share, epsilon in zip(shares, epsilons, strict=True):
        assert share_fits(round(share * 2000), 2000, 1 - np.exp(-epsilon) / 2)


def test_nobody_guesses_an_unknown_word() -> None:
    ids = np.array([UNKNOWN, 0])
    even = np.array([0.5, 0.5])
    shares = recovered(swap(), ids, [1.0], prior=even, draws=500, rng=Rng(0))
    assert 0.25 < shares[0] < 0.45  # half of 0.7


def test_nobody_is_right_who_has_no_guess_for_an_unknown_word() -> None:
    """A word of weight 0 alone gives the second output, so that there is no guess: -1, as unknown.

    A wrong version compares the numbers, and half of the unknown words are recovered.
    """
    keep = Keep(swap().embedding, epsilon=1.0)
    ids, first = np.full(500, UNKNOWN), np.array([1.0, 0.0])
    assert recovered(keep, ids, [1.0], prior=first, draws=1, rng=Rng(0))[0] == 0


def test_what_only_runs_is_counted_and_turned_round() -> None:
    """Rank repair puts near words in place of a frequent one; at its word it is hardly read."""
    table = normal_embedding(300, 6)
    repair = RankRepair(Madlib(table, epsilon=1.0), c=0.01)
    prior = 1 / (1.0 + np.arange(300))
    ids = Rng(1).choice(300, 2000, p=prior / prior.sum())
    (shared,) = recovered(repair, ids, [20.0], prior=prior, draws=1, rng=Rng(0))
    at_its_word = (repair.with_epsilon(20.0).sanitize_ids(ids, Rng(0)) == ids).mean()
    assert shared > at_its_word + 0.1


def shown_by(reader: Reader, predictor: Predictor, **options: Any) -> Preview:
    mechanism = Madlib(reader.table.embedding, epsilon=1.0)
    given: dict[str, Any] = {"epsilons": [1.0, 5.0, 1e5], "rng": Rng(3)} | options
    text = given.pop("text", "cat sat on the mat")
    return preview(text, mechanism, reader=reader, predictor=predictor, **given)


def test_a_preview_says_what_it_measured(reader: Reader, predictor: Predictor) -> None:
    shown = shown_by(reader, predictor)
    table = shown.rows.set_index("epsilon")
    assert shown.text == "cat sat on the mat"
    assert table.index.tolist() == [1, 5, 1e5]
    assert table.loc[1e5, "sanitized"] == "cat sat on the mat"
    assert table.loc[1e5, "changed"] == 0 and table.loc[1e5, "recovered"] == 1
    original = reader.table.encode([shown.text])
    versions = reader.table.encode(table["sanitized"].tolist())
    rows = reader.features(
        original, [versions.subset(np.array([row])) for row in range(3)], [1.0, 5.0, 1e5]
    )
    assert rows["changed"].tolist() == pytest.approx(table["changed"].tolist())
    assert table["predicted"].to_numpy() == pytest.approx(predictor.predict(rows), abs=1e-3)
    low, high = predictor.interval(rows)
    assert table["low"].to_numpy() == pytest.approx(low, abs=1e-3)
    assert table["high"].to_numpy() == pytest.approx(high, abs=1e-3)


def test_the_seed_decides_and_entropy_is_the_default(reader: Reader, predictor: Predictor) -> None:
    first, again = (shown_by(reader, predictor).rows for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    text = "cat sat on the mat " * 6
    drawn = {
        shown_by(reader, predictor, text=text, rng=None).rows["sanitized"][0] for _ in range(2)
    }
    assert len(drawn) == 2


def test_short_and_long_texts(reader: Reader, predictor: Predictor) -> None:
    assert shown_by(reader, predictor, text="cat").text == "cat"
    assert shown_by(reader, predictor, text="fish ran").rows["low"].notna().all()  # no summary
    long = shown_by(reader, predictor, text="cat " * 300, longest=10)
    assert long.text == " ".join(["cat"] * 10)
    assert len(long.figure().axes) == 1


test_bad_input_is_named = refused(
    (lambda reader, predictor: shown_by(reader, predictor, text=" \n"), "nothing to sanitize in"),
    (lambda reader, predictor: shown_by(reader, predictor, text=["cat"]), "expected a string"),
    (lambda reader, predictor: shown_by(reader, predictor, epsilons=[5.0, 1.0]), "ascending and"),
    (lambda reader, predictor: preview("cat", swap(), [1.0], reader=reader, predictor=predictor),
     "is not the reader's"),
    (lambda: recovered(swap(), np.empty(0, np.int64), [1.0], prior=np.ones(2)), "ids: got no"),
)  # fmt: skip
