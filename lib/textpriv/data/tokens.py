"""From strings to ids and back, under a policy that says what may leave in clear.

    tokenizer = Tokenizer(embedding.words)             # the policy PRIVATE: nothing in clear
    corpus = tokenizer.encode(["Hockey is great!"])    # ids, flat, with offsets
    tokenizer.decode(corpus)                           # ["hockey is great"]

A token is a word (letters and digits with inner apostrophes or full stops), a number, or a
single other character; white space separates and is not kept. English contractions are
split as in the Penn Treebank ("don't": do, n't), as for GloVe; where the vocabulary lacks
the clitic its full form stands in ("not"), and a clitic without one ('s) is punctuation.

What a policy decides is what happens to tokens that a mechanism cannot sanitize because
the vocabulary lacks them. `keep` copies them to the output: that is what released code
does, and it hands the rarest and most telling words (names) to the attacker.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, get_args, get_type_hints

import numpy as np

from textpriv.checks import IntArray, check_kind, check_offsets, check_texts
from textpriv.errors import InvalidInput

UNKNOWN = -1  # a mechanism puts a word of its vocabulary, drawn uniformly, in its place
KEPT = -2  # leaves in clear; the text is in `Corpus.kept`

_TOKEN = re.compile(r"[^\W_]+(?:['’.,][^\W_]+)*|[^\s]")
_CONTRACTION = re.compile(r"(?<=.)(n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_FULL_FORM = {
    "n't": "not", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'m": "am"
}  # fmt: skip
_FULL_STEM = {"ca": "can", "wo": "will", "sha": "shall"}
_NUMBER = re.compile(r"\d[\d.,]*")
KINDS = ("punctuation", "numbers", "unknown words")  # of tokens that a policy may keep
# Normalisation takes quadratic time on runs of combining marks: no script stacks 30 of them
# (Unicode's "stream-safe" limit), so what follows is dropped.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.combining(c))
_LONG_RUN = re.compile(f"([{_MARKS}]{{30}})[{_MARKS}]+")


@dataclass(frozen=True, kw_only=True)
class TokenPolicy:
    """What happens to punctuation, numbers and unknown words; words are mapped to lower case.

    Parameters
    ----------
    name : how results and figures call it
    punctuation, numbers : "word" treats them as words (sanitized where the vocabulary has
        them, else unknown), "drop" leaves them out, "keep" copies them to the output
    unknown : "replace" puts a word drawn uniformly from the vocabulary in its place before
        sanitizing, so that all unknown words have the same output law; "drop" leaves them
        out (their number then shows in the length); "keep" copies them to the output
    """

    name: str
    punctuation: Literal["word", "drop", "keep"] = "drop"
    numbers: Literal["word", "drop", "keep"] = "word"
    unknown: Literal["replace", "drop", "keep"] = "replace"

    def __post_init__(self) -> None:
        for key, kind in get_type_hints(TokenPolicy).items():
            if key != "name" and getattr(self, key) not in get_args(kind):
                got, allowed = getattr(self, key), get_args(kind)
                raise InvalidInput(f"{key}: got {got!r}, expected one of {allowed}")

    @property
    def kept(self) -> tuple[str, ...]:
        """Kinds of tokens that reach the output unsanitized."""
        choices = (self.punctuation, self.numbers, self.unknown)
        return tuple(kind for kind, choice in zip(KINDS, choices, strict=True) if choice == "keep")

    @property
    def in_clear(self) -> str:
        """What reaches the output unsanitized, in words."""
        return ", ".join(self.kept) or "nothing but the number of tokens"


PRIVATE = TokenPolicy(name="private")
KEEP_UNKNOWN = TokenPolicy(name="keep-unknown", punctuation="keep", numbers="keep", unknown="keep")
PUNCTUATION_AS_WORDS = TokenPolicy(name="punctuation-as-words", punctuation="word")


@lru_cache(maxsize=8)
def fingerprint(words: tuple[str, ...]) -> str:
    """What tells one vocabulary from another: of the words and their order."""
    joined = "\0".join(words).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as one flat array of ids with offsets.

    Parameters
    ----------
    ids : (tokens,) int64: rows of the vocabulary, UNKNOWN or KEPT
    offsets : (documents + 1,) int64: document i is ids[offsets[i]:offsets[i + 1]]
    kept : text of every token whose id is KEPT, by position in `ids`
    vocabulary : `fingerprint` of the words that the ids number; "" where it is not known
    """

    ids: IntArray
    offsets: IntArray
    kept: Mapping[int, str] = field(default_factory=dict)
    vocabulary: str = ""

    def __post_init__(self) -> None:
        if np.ndim(self.ids) != 1 or np.asarray(self.ids).dtype != np.int64:
            raise InvalidInput(f"ids: expected a 1-d int64 array, got {self.ids!r:.60}")
        check_offsets(self.offsets, len(self.ids))
        if not self.kept.keys() >= set(np.flatnonzero(self.ids == KEPT).tolist()):
            raise InvalidInput("kept: expected a text for every token whose id is KEPT")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> IntArray:
        return self.ids[self.offsets[document] : self.offsets[document + 1]]

    @property
    def document(self) -> IntArray:
        """Document number of every token."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def with_ids(self, ids: IntArray) -> Corpus:
        """The same documents with other ids, one for one."""
        if ids.shape != self.ids.shape:
            raise InvalidInput(f"ids: got shape {ids.shape}, expected {self.ids.shape}")
        return replace(self, ids=ids)

    def subset(self, documents: IntArray) -> Corpus:
        """The documents of these numbers, in that order; repeats are allowed."""
        lengths = np.diff(self.offsets)[documents]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = ranges(self.offsets[:-1][documents], lengths)
        ids = self.ids[positions]
        kept = {
            new: self.kept[old]
            for new, old in zip(
                np.flatnonzero(ids == KEPT).tolist(), positions[ids == KEPT].tolist(), strict=True
            )
        }
        return replace(self, ids=ids, offsets=offsets, kept=kept)

    @property
    def in_clear(self) -> dict[str, int]:
        """How many tokens of each kind stand in clear; kinds of which there are none are absent."""
        counts = Counter(kind_of(self.kept[at]) for at in np.flatnonzero(self.ids == KEPT).tolist())
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    def counts(self, size: int) -> IntArray:
        """How often each word of a vocabulary of `size` words occurs."""
        return np.bincount(self.ids[self.ids >= 0], minlength=size)


def check_corpus(corpus: object, size: int, vocabulary: str = "", *, what: str = "corpus") -> None:
    """A corpus over one vocabulary of `size` words and this `fingerprint`, or InvalidInput.

    Without a fingerprint only the size is compared.
    """
    do = "encode texts first, Tokenizer(mechanism.embedding.words).encode(texts)"
    check_kind(corpus, Corpus, what=what, expected="a Corpus", do=do)
    assert isinstance(corpus, Corpus)
    if vocabulary and corpus.vocabulary and corpus.vocabulary != vocabulary:
        raise InvalidInput(
            f"{what}: got ids of another vocabulary, expected those of the mechanism's words; "
            "encode it with Tokenizer(mechanism.embedding.words)"
        )
    if len(corpus.ids) and corpus.ids.max() >= size:
        raise InvalidInput(f"{what}: got id {corpus.ids.max()}, expected 0..{size - 1}")


def check_corpora(corpora: object, size: int, vocabulary: str = "", *, what: str = "text") -> None:
    """Several corpora over one vocabulary, see `check_corpus`, or InvalidInput."""
    if isinstance(corpora, Corpus):
        raise InvalidInput(f"{what}: got one corpus, expected a list of them; use [corpus]")
    check_kind(corpora, (list, tuple), what=what, expected="a list of corpora")
    assert isinstance(corpora, list | tuple)
    for corpus in corpora:
        check_corpus(corpus, size, vocabulary, what=what)


def check_policy(policy: object) -> None:
    """A token policy, or InvalidInput."""
    do = "take PRIVATE or KEEP_UNKNOWN from textpriv.data.tokens, or make one"
    check_kind(policy, TokenPolicy, what="policy", expected="a TokenPolicy", do=do)


def kind_of(token: str) -> str:
    """The kind of a token that the vocabulary lacks: one of KINDS."""
    if _NUMBER.fullmatch(token):
        return "numbers"
    return "unknown words" if token[0].isalnum() else "punctuation"


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """start, start + 1, ... of every range, one range after the other."""
    first = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - first, lengths)


class Tokenizer:
    """Encodes and decodes under one policy and one vocabulary; a word's id is its position."""

    def __init__(self, words: Sequence[str], policy: TokenPolicy = PRIVATE) -> None:
        check_policy(policy)
        check_kind(
            words, (list, tuple), what="words", expected="a list of words", do="use embedding.words"
        )
        if len(words) < 2:
            raise InvalidInput(f"words: got {words!r:.60}, expected at least two words")
        self.words, self.policy = tuple(words), policy
        self.index = {word: row for row, word in enumerate(self.words)}
        if len(self.index) != len(self.words):
            raise InvalidInput("words: expected no word twice; drop the repeated ones")

    def split(self, text: str) -> list[str]:
        """Tokens of one text, in lower case."""
        if not isinstance(text, str):
            raise InvalidInput(f"text: got {type(text).__name__}, expected a string")
        if not text.isascii():
            text = unicodedata.normalize("NFC", _LONG_RUN.sub(r"\1", text))
        return [part for token in _TOKEN.findall(text.lower()) for part in self._parts(token)]

    def _parts(self, token: str) -> tuple[str, ...]:
        """A token, or stem and clitic of a contraction."""
        if token in self.index or not ("'" in token or "’" in token):
            return (token,)
        match = _CONTRACTION.search(token)
        if not match:
            return (token,)
        stem, clitic = token[: match.start()], match.group().replace("’", "'")
        if clitic not in self.index and clitic in _FULL_FORM:
            if clitic == "n't":
                stem = _FULL_STEM.get(stem, stem)
            clitic = _FULL_FORM[clitic]
        return stem, clitic

    def _resolve(self, token: str) -> int | None:
        """Id of a token, UNKNOWN, KEPT, or None when it is dropped."""
        policy, kind = self.policy, kind_of(token)
        if kind == "numbers":
            choice = policy.numbers
        elif kind == "punctuation" and not (token in self.index and len(token) > 1):
            choice = policy.punctuation
        else:
            choice = "word"
        if choice == "drop":
            return None
        if choice == "keep":
            return KEPT
        known = self.index.get(token)
        if known is not None:
            return known
        return {"replace": UNKNOWN, "keep": KEPT, "drop": None}[policy.unknown]

    def encode(self, texts: Iterable[str]) -> Corpus:
        """Ids of the tokens of every text.

        Any string is accepted (empty, control characters, lone surrogates, any script);
        a text without tokens is a document of length 0.
        """
        ids: list[int] = []
        kept: dict[int, str] = {}
        offsets = [0]
        resolved: dict[str, int | None] = {}
        for text in check_texts(texts):
            for token in self.split(text):
                if token not in resolved:
                    resolved[token] = self._resolve(token)
                number = resolved[token]
                if number is None:
                    continue
                if number == KEPT:
                    kept[len(ids)] = token
                ids.append(number)
            offsets.append(len(ids))
        return Corpus(
            ids=np.array(ids, dtype=np.int64),
            offsets=np.array(offsets, dtype=np.int64),
            kept=kept,
            vocabulary=fingerprint(self.words),
        )

    def words_of(self, texts: Iterable[str]) -> list[str]:
        """Tokens that reach a mechanism, joined by single spaces; unknown words as they are."""
        return [
            " ".join(token for token in self.split(text) if self._resolve(token) is not None)
            for text in check_texts(texts)
        ]

    def decode(self, corpus: Corpus) -> list[str]:
        """Tokens joined by single spaces, a string per document; InvalidInput for UNKNOWN ones."""
        check_corpus(corpus, len(self.words), fingerprint(self.words))
        ids = corpus.ids
        if len(ids) and ids.min() < KEPT:
            raise InvalidInput(f"ids: got {ids.min()}, expected none below {KEPT}")
        if (ids == UNKNOWN).any():
            raise InvalidInput(
                "ids: some tokens are unknown words, which have no text here; sanitize first"
            )
        words = [
            corpus.kept[position] if number == KEPT else self.words[number]
            for position, number in enumerate(ids.tolist())
        ]
        bounds = corpus.offsets.tolist()
        return [" ".join(words[a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
