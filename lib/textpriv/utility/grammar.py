"""What replaced tokens leave of a text: its grammar, its readability, its length.

    kept(original, replaced).mean()                  # share of words with the same part of speech
    chance(tag_shares(original), tag_shares(replaced))   # what unrelated words of both would give
    readability(generator, texts)                    # bits per character, the fewer the better
    length_bits(lengths), identified(lengths)        # what the length of a text alone tells

The part of speech of a word is the most frequent one, whatever stands around it: the baseline of
the tagging literature. That suits texts whose context is noise: a tagger that
reads the context would repair what a mechanism broke. Harel et al. (2024) name grammar,
readability and length as open problems of token-wise sanitization.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textpriv import assets
from textpriv.checks import BoolArray, FloatArray, IntArray, check_integers, check_texts
from textpriv.errors import InvalidInput
from textpriv.models.generators import Generator

Words = Sequence[str] | NDArray[np.str_] | NDArray[np.object_]


# --- Parts of speech ----------------------------------------------------------------------------


class PartOfSpeech(IntEnum):
    """Coarse classes of words: ids 0 .. 9."""

    NOUN = 0
    VERB = 1
    ADJECTIVE = 2
    ADVERB = 3
    PRONOUN = 4
    DETERMINER = 5
    LINK = 6  # prepositions, conjunctions, particles, "to"
    NUMBER = 7
    PUNCTUATION = 8
    OTHER = 9  # interjections, foreign words, possessive 's, special tokens, pieces of words


# Tags of the Penn Treebank (Marcus, Santorini and Marcinkiewicz 1993).
_PENN = {
    PartOfSpeech.NOUN: "NN NNS NNP NNPS",
    PartOfSpeech.VERB: "VB VBD VBG VBN VBP VBZ MD",
    PartOfSpeech.ADJECTIVE: "JJ JJR JJS",
    PartOfSpeech.ADVERB: "RB RBR RBS WRB",
    PartOfSpeech.PRONOUN: "PRP PRP$ WP WP$ EX",
    PartOfSpeech.DETERMINER: "DT PDT WDT",
    PartOfSpeech.LINK: "IN CC TO RP",
    PartOfSpeech.NUMBER: "CD",
    PartOfSpeech.PUNCTUATION: "# $ £ . , : ( ) `` '' \"",
    PartOfSpeech.OTHER: "FW LS POS SYM UH",
}
_OF_PENN = {tag: coarse for coarse, names in _PENN.items() for tag in names.split()}

# What a contraction is broken into: "n't", or by WordPiece "doesn", "'", "t".
_VERBS = """re ve ll d m ain aren couldn didn doesn don hadn hasn haven isn mustn needn shouldn wasn
weren wouldn"""
_BROKEN = {
    **dict.fromkeys(_VERBS.split(), PartOfSpeech.VERB),
    "t": PartOfSpeech.ADVERB,
    "n't": PartOfSpeech.ADVERB,
    "s": PartOfSpeech.OTHER,
}
_ENDS_IN_CLITIC = re.compile(r"(?<=.)(?:n't|'(?:s|re|ve|ll|d|m)?)$")
_SPECIAL = re.compile(r"\[(?:[A-Z]+|unused\d+)\]|##.+")  # [MASK], ##ing

# Endings by which more than half of the lexicon's lower-case words with them belong to the class.
_SUFFIXES = {
    PartOfSpeech.ADVERB: ("ly",),
    PartOfSpeech.VERB: tuple("ing ed ize izes ify ifies ate ates".split()),
    PartOfSpeech.ADJECTIVE: tuple("able ible al ary esque est ful ic ish ive less ory ous".split()),
}
_FEWEST_BEFORE = 3  # letters before a suffix: "bring" and "shed" end in none


def tags(words: Words) -> IntArray:
    """Coarse part of speech of every word, its most frequent one: (words,) of PartOfSpeech.

    Case is ignored; the lexicon's entry in lower case counts before the one with capitals. In
    this order:
    special tokens ([MASK]) and WordPieces inside a word (##ing) are OTHER;
    what has no letter is a NUMBER if it has a digit, else PUNCTUATION;
    a clitic at the end does not count ("film's" is tagged as "film", "doesn't" as "does"), and
    has a tag of its own where it stands alone ('s OTHER, 'll a VERB, n't an ADVERB);
    then the lexicon decides, asset "pos-lexicon";
    and where it lacks the word, its form: with a hyphen an ADJECTIVE, after its
    suffix ("ly", "ing", ...) an ADVERB, VERB or ADJECTIVE, and a NOUN otherwise. That is right for
    76% of the lexicon's own lower-case nouns, verbs, adjectives and adverbs.

    `words` are none of them empty, as a tokenizer parts them (with punctuation apart).
    """
    lexicon = _lexicon(assets.file("pos-lexicon", "en-lexicon.txt"))
    return np.array(_each(words, lambda word: _tag(word, lexicon)), dtype=np.int64)


def kept(original: Words, replaced: Words) -> BoolArray:
    """Where the replacement has the part of speech of the word that it stands for: (words,).

    A word that was not replaced is kept. Both are aligned; compare the share with `chance`.
    """
    first, second = np.stack([tags(original), tags(replaced)])
    same: BoolArray = first == second
    return same


def whole_words(original: Words, replaced: Words, *, offsets: IntArray) -> BoolArray:
    """Where both of two aligned sequences of WordPieces have a whole word: (pieces,).

    A piece is a whole word if neither itself nor the next one of its text continues a word
    ("##"). Where pieces are replaced one by one, all others are parts of words that nobody wrote,
    so only these positions of both sequences should go to `kept`. Special tokens count as whole;
    `offsets` (texts + 1,) say where the texts begin and end, as in `Corpus.offsets`.
    """
    inner = np.any([_each(original, _is_inner), _each(replaced, _is_inner)], axis=0)
    if offsets[-1] != len(inner):
        raise InvalidInput(f"offsets: got an end at {offsets[-1]}, expected {len(inner)} pieces")
    continued = np.append(inner, False)[1:]
    continued[offsets[offsets > 0] - 1] = False
    whole: BoolArray = ~(inner | continued)
    return whole


def tag_shares(words: Words) -> FloatArray:
    """Share of each part of speech among the words, at least one: (10,), sums to 1."""
    parts = tags(words)
    if not len(parts):
        raise InvalidInput("words: got none, expected at least one")
    return np.bincount(parts, minlength=len(PartOfSpeech)) / len(parts)


def chance(first: FloatArray, second: FloatArray) -> float:
    """Probability that two unrelated words have the same part of speech, in 0..1.

    The sum over classes of the product of two `tag_shares`: of the original words, and of the words
    that stand for them. What `kept` gives beyond it is grammar that survived, and not a text of
    nouns that became other nouns.
    """
    return float(first @ second)


def _tag(word: str, lexicon: Mapping[str, PartOfSpeech]) -> PartOfSpeech:
    """What the characters say for certain, else the lexicon, else the form."""
    if _SPECIAL.fullmatch(word):
        return PartOfSpeech.OTHER
    if not any(letter.isalpha() for letter in word):
        has_digit = any(letter.isdigit() for letter in word)
        return PartOfSpeech.NUMBER if has_digit else PartOfSpeech.PUNCTUATION
    plain = _plain(word)
    if (part := plain.removeprefix("'")) in _BROKEN:
        return _BROKEN[part]
    stem = _ENDS_IN_CLITIC.sub("", plain)
    if stem in lexicon:
        return lexicon[stem]
    if "-" in stem:
        return PartOfSpeech.ADJECTIVE
    by_suffix = (
        coarse for coarse, suffixes in _SUFFIXES.items() if stem[_FEWEST_BEFORE:].endswith(suffixes)
    )
    return next(by_suffix, PartOfSpeech.NOUN)


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


def _is_inner(piece: str) -> bool:
    return piece.startswith("##") and len(piece) > 2


@lru_cache
def _lexicon(path: Path) -> Mapping[str, PartOfSpeech]:
    """Words in lower case: lines of a word and its tag, comments after ";;;"."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: got {error.reason}, expected UTF-8; convert it") from error
    entries = [line.split() for line in lines if line.strip() and not line.startswith(";;;")]
    wrong = next((fields for fields in entries if len(fields) != 2), None)
    if wrong or not entries:
        got = " ".join(wrong or ["nothing"])
        raise InvalidInput(f"{path}: got {got!r:.80}, expected lines of a word and its Penn tag")
    # Lower case last, so that it stays: "Will NNP" gives way to "will MD".
    entries.sort(key=lambda fields: -sum(letter.isupper() for letter in fields[0]))
    # Of "NN|JJ" the first counts, and misprints are OTHER.
    classes = (_OF_PENN.get(tag.split("|")[0], PartOfSpeech.OTHER) for _, tag in entries)
    return {_plain(word): coarse for (word, _), coarse in zip(entries, classes, strict=True)}


def _each(words: Words, judge: Callable[[str], int]) -> list[int]:
    """Judge every word, each form once."""
    if isinstance(words, str) or not all(word.strip() for word in words):
        raise InvalidInput(f"words: got {words!r:.80}, expected several, none of them empty")
    judged = {form: judge(form) for form in set(words)}
    return [judged[word] for word in words]


# --- Readability --------------------------------------------------------------------------------


def readability(generator: Generator, texts: Sequence[str]) -> float:
    """Bits per character of texts under a causal language model: the fewer, the better they read.

    -log2 P(all texts) / characters, >= 0, comparable between models and tokenizers; a short text
    weighs less than a long one, and an empty one nothing. The end of a text is not part of its
    likelihood. Original and sanitized text must be written the same way (case, spaces around
    punctuation), or the difference is one of style. At least one of the texts has a word in it,
    none is too long for the model.
    """
    texts = check_texts(texts)
    if not any(text.strip() for text in texts):
        raise InvalidInput(f"texts: got {len(texts)} without any word, expected at least one word")
    # Rounding can leave a certain text with a likelihood just above 1.
    nats = np.maximum(-generator.log_likelihood(texts), 0)
    return float(nats.sum() / (np.log(2) * sum(map(len, texts))))


# --- Length -------------------------------------------------------------------------------------


def length_bits(lengths: ArrayLike) -> float:
    """Entropy of the length of a text, in bits: 0 .. log2(texts).

    A mechanism that replaces token by token publishes the length. To one who knows the n texts
    and is shown the length of one drawn uniformly, it tells

        H = -sum_l (c_l / n) log2(c_l / n) = log2 n - (1/n) sum_l c_l log2 c_l

    bits about which text it is, c_l being the number of texts of length l: the mutual information
    of text and length, since the text determines its length. Exact for these n texts; as an
    estimate for the source that they come from it is too small (Miller 1955).
    """
    counts = _counts(lengths)
    total = counts.sum()
    # The second form, written so that texts of one length give 0 and not -0.
    return float((counts * np.log2(total / counts)).sum() / total)


def identified(lengths: ArrayLike) -> float:
    """Share of texts that no other text shares its length with: #{l : c_l = 1} / n, in 0..1.

    Such a text is known by its length alone to one who knows the n texts. The share falls as
    n grows, so state n beside it.
    """
    counts = _counts(lengths)
    return float((counts == 1).sum() / counts.sum())


def _counts(lengths: ArrayLike) -> IntArray:
    """How many texts have each length that occurs."""
    given = check_integers(lengths, what="lengths")
    if not len(given) or given.min() < 0:
        got = f"got {given.min()}" if len(given) else "got none"
        raise InvalidInput(f"lengths: {got}, expected those of at least one text, each >= 0")
    counts: IntArray = np.bincount(given)
    return counts[counts > 0]
