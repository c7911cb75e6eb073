"""Parts of speech with a lexicon of a few lines, readability with a tiny model, lengths by hand.

Wrong versions stand beside the right ones where a plausible mistake would give another number.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from textpriv import assets
from textpriv.errors import InvalidInput
from textpriv.models.generators import Generator
from textpriv.utility import grammar
from textpriv.utility.grammar import (
    PartOfSpeech,
    chance,
    identified,
    kept,
    length_bits,
    readability,
    tag_shares,
    tags,
    whole_words,
)

N, V, A, R = (PartOfSpeech.NOUN, PartOfSpeech.VERB, PartOfSpeech.ADJECTIVE, PartOfSpeech.ADVERB)
P, D, L = PartOfSpeech.PRONOUN, PartOfSpeech.DETERMINER, PartOfSpeech.LINK
NUMBER, MARK, OTHER = PartOfSpeech.NUMBER, PartOfSpeech.PUNCTUATION, PartOfSpeech.OTHER

LEXICON = """\
;;; A comment, not an entry.

the DT
film NN
films NNS
Kelly NNP
WILL NNP
Will NNP
will MD
good JJ
very RB
he PRP
his PRP$
of IN
and CC
does VBZ
wo MD
saw VBD
2 IN
% NN
zilch NN|JJ
bon FW
oddity 1991)
s PRP
ma'am UH
"""


@pytest.fixture
def lexicon(mine: Path) -> Path:
    (where := mine / "lexicon.txt").write_text(LEXICON, encoding="utf-8")
    (mine / "local.toml").write_text('[pos-lexicon]\npath = "lexicon.txt"\n')
    return where


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("the", D), ("film", N), ("films", N), ("good", A), ("very", R), ("he", P), ("his", P)),
        *(("of", L), ("and", L), ("saw", V), ("wo", V), ("bon", OTHER), ("zilch", N)),
        *(("oddity", OTHER), ("ma'am", OTHER)),  # a misprinted tag; no clitic
        *(("The", D), ("FILM", N), ("kelly", N), ("Will", V), ("WILL", V)),  # case is ignored
        *(("2", NUMBER), ("1,000.50", NUMBER), ("$200", NUMBER), ("%", MARK), ("--", MARK)),
        *(("[MASK]", OTHER), ("[unused7]", OTHER), ("##film", OTHER), ("##!", OTHER), ("##", MARK)),
        *(("[film]", N), ("'", MARK)),
        *(("film's", N), ("films'", N), ("he's", P), ("he’s", P), ("doesn't", V), ("won't", V)),
        *(("'s", OTHER), ("s", OTHER), ("n't", R), ("t", R), ("'ll", V), ("d", V), ("’re", V)),
        *(("doesn", V), ("Isn", V), ("'m", V)),
        # Guessed, since the lexicon lacks them.
        *(("clumsily", R), ("texting", V), ("texted", V), ("remake-like", A), ("crapulous", A)),
        *(("plotless", A), ("filmic", A), ("kafkaesque", A), ("digitize", V), ("digitizes", V)),
        *(("scorsese", N), ("scorsese's", N), ("plotless's", A), ("filmgoers", N), ("q", N)),
        *(("zing", N), ("xly", N), ("xyzed", V), ("xyed", N), ("70s", N), ("été", N)),
    ],
)
def test_tags(lexicon: Path, word: str, expected: PartOfSpeech) -> None:
    assert tags([word]).tolist() == [expected]


def test_rules_by_form_do_not_overlap() -> None:
    endings = [each for suffixes in grammar._SUFFIXES.values() for each in suffixes]
    pairs = [(a, b) for a in endings for b in endings if a != b and a.endswith(b)]
    assert pairs == []  # so their order does not matter


@pytest.mark.parametrize("words", ["film", ["film", ""], ["film", " "]])
def test_what_is_no_list_of_words(lexicon: Path, words: Any) -> None:
    for judge in (tags, tag_shares):
        with pytest.raises(InvalidInput, match="words: got"):
            judge(words)


@pytest.mark.parametrize(
    "text", [b"film NN\nfilm\n", b"a b NN\n", b";;; film NN\n", b"", b"\xff N\n"]
)
def test_what_is_no_lexicon(lexicon: Path, text: bytes) -> None:
    lexicon.with_name("other.txt").write_bytes(text)
    lexicon.with_name("local.toml").write_text('[pos-lexicon]\npath = "other.txt"\n')
    with pytest.raises(InvalidInput, match=r"other\.txt: got .*, expected"):
        tags(["film"])


def test_kept_compares_coarse_classes(lexicon: Path) -> None:
    original = ["the", "film", "saw", "his", "good"]
    replaced = ["The", "Kelly", "will", "he", "very"]  # NN and NNP, VBD and MD, PRP$ and PRP
    is_kept = kept(original, replaced)
    assert is_kept.dtype == np.bool_ and is_kept.tolist() == [True, True, True, True, False]
    assert kept(original, original).all()


def test_kept_of_unrelated_words_is_chance(lexicon: Path) -> None:
    """All pairs of two lists, each counted once, are two independent draws."""
    first, second = "the film of films".split(), ["good", "film", "2", "the", "the"]
    pairs = [(a, b) for a in first for b in second]
    share = kept([a for a, _ in pairs], [b for _, b in pairs]).mean()
    assert chance(tag_shares(first), tag_shares(second)) == pytest.approx(share)
    assert share == pytest.approx((1 * 2 + 2 * 1) / 20)


def test_shares_by_hand(lexicon: Path) -> None:
    shares = tag_shares(["the", "film", "films", ","])
    assert shares[[D, N, MARK]].tolist() == [0.25, 0.5, 0.25] and shares.shape == (10,)
    with pytest.raises(InvalidInput, match="got none"):
        tag_shares([])


def test_whole_words_by_hand() -> None:
    original = ["the", "film", "##go", "##ers", "saw", "it", ".", "[SEP]"]
    replaced = ["a", "book", "##s", "of", "new", "##ly", "##!", "the"]
    # "the" alone is whole in both, and what closes; "saw" is, but "new" goes on.
    expected, one = [True, *[False] * 6, True], np.array([0, 8])
    assert whole_words(original, replaced, offsets=one).tolist() == expected
    assert whole_words(replaced, original, offsets=one).tolist() == expected
    assert whole_words(["a"], ["##"], offsets=one // 8).tolist() == [True]  # no piece
    with pytest.raises(InvalidInput, match="offsets: got an end at 8, expected 1"):
        whole_words(["a"], ["b"], offsets=one)


PIECES = st.sampled_from(["a", "b", "##c", "##d", "[SEP]"])


@given(st.lists(st.lists(st.tuples(PIECES, PIECES), max_size=6), max_size=4))
def test_whole_words_text_by_text(texts: list[list[tuple[str, str]]]) -> None:
    expected = []
    for text in texts:
        for place in range(len(text)):
            near = [*text[place], *(text[place + 1] if place + 1 < len(text) else ())]
            expected.append(not any(piece.startswith("##") for piece in near))
    flat = [pair for text in texts for pair in text]
    is_whole = whole_words(
        [a for a, _ in flat], [b for _, b in flat], offsets=np.cumsum([0, *map(len, texts)])
    )
    assert is_whole.tolist() == expected


def test_the_real_lexicon_knows_english() -> None:
    """Only where it lies cached."""
    if not assets.is_cached("pos-lexicon"):
        pytest.skip("pos-lexicon is not in the cache, and tests download nothing")
    sentence = "the film's young director never explains why 3 of them left , and she doesn't go ."
    expected = [D, N, A, N, R, V, R, NUMBER, L, P, V, MARK, L, P, V, V, MARK]
    assert tags(sentence.split()).tolist() == expected
    lexicon = grammar._lexicon(assets.file("pos-lexicon", "en-lexicon.txt"))
    assert len(lexicon) == 81_197  # the card has one more: it’s and it's


TEXTS = ["the cat sat", "", "a dog", "the dog sat on the cat again"]


def test_readability_counts_what_the_model_reads(generator: Generator) -> None:
    nats = -generator.log_likelihood(TEXTS)
    assert (nats >= 0).all() and nats[1] == 0
    assert readability(generator, TEXTS) == pytest.approx(nats.sum() / math.log(2) / 44)


@pytest.mark.parametrize("texts", [[], [""], ["", " \n"], "a dog"])
def test_texts_without_a_word(generator: Generator, texts: Any) -> None:
    with pytest.raises(InvalidInput, match="texts: got"):
        readability(generator, texts)


@pytest.mark.parametrize(
    ("lengths", "bits", "alone"),
    [
        ([7], 0, 1),
        ([5, 5, 5, 5], 0, 0),
        ([1, 2, 3, 4], 2, 1),
        ([3, 3, 9, 9], 1, 0),  # two lengths, yet nobody is alone
        ([0, 0, 4, 8], 1.5, 0.5),
        ([2, 2, 2, 9], 2 - 0.75 * math.log2(3), 0.25),
    ],
)
def test_lengths_by_hand(lengths: list[int], bits: float, alone: float) -> None:
    assert length_bits(lengths) == pytest.approx(bits, abs=1e-12)
    assert identified(lengths) == alone
    assert math.copysign(1, length_bits(lengths)) == 1  # no -0.0 in a table


@pytest.mark.parametrize("lengths", [[], [3, -1], [1.5]])
@pytest.mark.parametrize("measure", [length_bits, identified])
def test_no_lengths_tell_nothing(measure: Any, lengths: Any) -> None:
    with pytest.raises(InvalidInput, match="lengths: got"):
        measure(lengths)


LENGTHS = st.lists(st.integers(0, 8), min_size=1, max_size=30)


@given(LENGTHS)
def test_bits_are_the_entropy_and_the_mutual_information(lengths: list[int]) -> None:
    bits, counts = length_bits(lengths), Counter(lengths)
    assert bits == pytest.approx(entropy(list(counts.values()), base=2), abs=1e-12)
    # I(text; length) = H(text) - H(text | length): given l, one of c_l texts.
    left = sum(c / len(lengths) * math.log2(c) for c in counts.values())
    assert bits == pytest.approx(math.log2(len(lengths)) - left, abs=1e-12)


@given(LENGTHS)
def test_identified_counts_those_who_are_alone(lengths: list[int]) -> None:
    alone = [sum(other == length for other in lengths) == 1 for length in lengths]
    assert identified(lengths) == sum(alone) / len(lengths)
    assert identified(lengths * 2) == 0  # each has a twin
    assert length_bits(lengths * 2) == pytest.approx(length_bits(lengths), abs=1e-12)
