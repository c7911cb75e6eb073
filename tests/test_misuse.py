"""What a user may hand in by mistake: each gives one error that says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import normal_embedding
from hypothesis import given
from hypothesis import strategies as st

from textpriv import profiles
from textpriv.attacks.base import observe
from textpriv.attacks.bayes import Bayes, ContextFreeBayes, EmbeddingInversion, PriorOnly
from textpriv.attacks.noisy_channel import NoisyChannel
from textpriv.checks import check_texts
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, Corpus, Tokenizer
from textpriv.errors import InvalidInput, ProfileError
from textpriv.mechanisms import TEM, Madlib, Mechanism, RankRepair, SanText
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.sweep import sweep
from textpriv.privacy import (
    audit_exactly,
    audit_map,
    claimed_loss,
    document_statement,
    tight_loss,
)

TABLE = normal_embedding(12, 3, seed=4)
OTHER = from_arrays("other", [f"x{row}" for row in range(12)], TABLE.vectors)  # as many words
SANTEXT, MADLIB = SanText(TABLE, epsilon=3.0), Madlib(TABLE, epsilon=3.0)
TEXTS = ["w0 w1 w2", "w3 w4"]
TOKENIZER = Tokenizer(TABLE.words)
CORPUS = TOKENIZER.encode(TEXTS)
FOREIGN = Tokenizer(OTHER.words).encode(["x0 x1 x2", "x3 x4"])
SEEN = observe(SANTEXT, CORPUS, np.random.default_rng(0))
BAYES = ContextFreeBayes(SANTEXT, CORPUS)
MAP = LossyMap("m", np.arange(12))
ANOTHERS = observe(SanText(OTHER, epsilon=3.0), FOREIGN, np.random.default_rng(0))
FRAME = pd.DataFrame({"text": TEXTS, "label": [0, 1]})

ENCODE = r"expected a Corpus; encode texts first, Tokenizer\(mechanism.embedding.words\)"
ANOTHER = "got ids of another vocabulary.*encode it with Tokenizer"
ESTIMATE = r"got madlib, expected a Channel.*NoiseChannel.estimate\(mechanism, \[epsilon\], rng\)"
GENERATOR = "rng: got 7, expected a numpy.random.Generator; to release text leave it out"
ONE = "; make one, "

MISUSES: dict[str, tuple[Callable[[], Any], str]] = {
    # Texts
    "a table of data": (
        lambda: SANTEXT.sanitize(FRAME),
        r"texts: got a DataFrame.*one column, frame\[name\] with a name out of \['text', 'label'\]",
    ),
    "one text": (lambda: SANTEXT.sanitize("w1 w2"), r"got one string.*use \[text\]"),
    "bytes": (lambda: SANTEXT.sanitize(b"w1"), r"texts: got one bytes object.*use \[text\]"),
    "a missing text": (
        lambda: SANTEXT.sanitize(pd.Series(["w1", np.nan])),
        "texts: got nan in number 1, expected a string; drop it or put a text in its place",
    ),
    "a set": (lambda: SANTEXT.sanitize({"w1", "w2"}), "texts: got an object of type set"),
    # Generators, policies, epsilons
    "a seed for a generator": (lambda: SANTEXT.sanitize(TEXTS, 7), GENERATOR),
    "the name of a policy": (
        lambda: SANTEXT.sanitize(TEXTS, policy="private"),
        "policy: got 'private', expected a TokenPolicy; take PRIVATE or KEEP_UNKNOWN",
    ),
    "a policy for a tokenizer": (lambda: Tokenizer(TABLE.words, "x"), "policy: got 'x'"),
    "an embedding for words": (lambda: Tokenizer(TABLE), "words: got .*use embedding.words"),
    "one epsilon for several": (lambda: sweep(SANTEXT, CORPUS.ids, 3.0), "epsilons: got 3.0, exp"),
    "text for overrides": (
        lambda: profiles.settings("smoke", "words=10"),
        r"overrides: got 'words=10', expected a mapping such as \{'seed': 1\}",
    ),
    # Corpora
    "texts for a corpus": (lambda: SANTEXT.sanitize_corpus(TEXTS), ENCODE),
    "strings as public text": (lambda: NoisyChannel(SANTEXT, TEXTS), f"got 'w0 w1 w2', {ENCODE}"),
    "a string as public text": (lambda: NoisyChannel(SANTEXT, "w1"), "got 'w1', expected a list"),
    "one corpus as public text": (lambda: NoisyChannel(SANTEXT, CORPUS), r"one corp.*\[corpus\]"),
    # Another vocabulary of the same size
    "another vocabulary": (lambda: SANTEXT.sanitize_corpus(FOREIGN), ANOTHER),
    "another vocabulary to decode": (lambda: TOKENIZER.decode(FOREIGN), ANOTHER),
    "public text of another": (lambda: NoisyChannel(SANTEXT, [CORPUS, FOREIGN]), ANOTHER),
    "vectors of another": (lambda: EmbeddingInversion(SANTEXT, OTHER), r"embedding: got .*'other'"),
    "outputs of another": (lambda: BAYES.guess(ANOTHERS), "over another vocab.*with one Tokenizer"),
    # Mechanisms without a channel
    "noise for Bayes' rule": (lambda: ContextFreeBayes(MADLIB, CORPUS), ESTIMATE),
    "ranks for Bayes' rule": (
        lambda: ContextFreeBayes(RankRepair(MADLIB, c=0.1), CORPUS),
        "got rank-repair, expected a Channel.*PriorOnly and EmbeddingInversion need none",
    ),
    "noise for a tight loss": (lambda: tight_loss(MADLIB), r"explicit P\(y\|x\).*certified_losses"),
    "noise for an exact audit": (lambda: audit_exactly(MADLIB), r"explicit P\(y\|x\).*audit_words"),
    "a law for an estimate": (
        lambda: NoiseChannel.estimate(SANTEXT, [1.0], np.random.default_rng(0)),
        "mechanism: got an object of type SanText, expected a Madlib",
    ),
    # Classes for objects
    "a class to state": (lambda: document_statement(TEM), rf"got the class TEM.*{ONE}TEM\(...\)"),
    "a class to attack": (lambda: NoisyChannel(SanText, [CORPUS]), rf"the class SanText.*{ONE}"),
    "a class for its claim": (lambda: claimed_loss(TEM), "class TEM.*made with its epsilon"),
    # Other kinds
    "nothing to state": (lambda: document_statement(None), "mechanism: got None, expected an obj"),
    "a name to state": (lambda: document_statement("santext"), "mechanism: got 'santext', expect"),
    "text for a loss": (lambda: document_statement(SANTEXT, tight="1"), "tight: got '1', expected"),
    "a loss below 0": (lambda: document_statement(SANTEXT, least=-1.0), "least: got -1.0, expect"),
    "a policy for a corpus": (
        lambda: document_statement(SANTEXT, CORPUS, policy=KEEP_UNKNOWN),
        "policy: got one for a corpus, which is encoded already",
    ),
    "its name to state": (lambda: document_statement(SANTEXT, policy="x"), "policy: got 'x'"),
    "a text for a map": (lambda: document_statement(MAP, "w1"), "for m, which replaces no words"),
    "a mechanism for a map": (lambda: audit_map(SANTEXT), "got .*SanText, expected a LossyMap"),
    "a corpus to guess from": (lambda: BAYES.guess(CORPUS), r"observed: got .*Corpus.*observe\("),
    "texts to guess from": (lambda: BAYES.guess(TEXTS), r"observed: got .*list.*observe\("),
    "words for vectors": (lambda: EmbeddingInversion(SANTEXT, TABLE.words), "embedding: got"),
    "a dictionary of weights": (lambda: Bayes(SANTEXT, {"w1": 1}, name="x"), "prior: got .*dict"),
    "text for a constant": (lambda: ContextFreeBayes(SANTEXT, CORPUS, constant="1"), "got '1'"),
    "text for a weight": (lambda: NoisyChannel(SANTEXT, [CORPUS], weight="1"), "weight: got '1'"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_has_one_clear_error(name: str) -> None:
    misuse, says = MISUSES[name]
    with pytest.raises((InvalidInput, ProfileError), match=says):
        misuse()


@pytest.mark.parametrize(
    "kind", [list, tuple, iter, pd.Series, np.array, lambda texts: (text for text in texts)]
)
def test_texts_come_in_many_kinds(kind: Callable[[list[str]], Any]) -> None:
    assert check_texts(kind(TEXTS)) == TEXTS
    sanitized = SANTEXT.with_epsilon(1e6).sanitize(kind(TEXTS), np.random.default_rng(0))
    assert sanitized == TEXTS  # at this epsilon words stay what they are


@given(st.lists(st.one_of(st.text(), st.none(), st.binary(), st.floats(), st.lists(st.text()))))
def test_only_strings_are_texts(values: list[Any]) -> None:
    if all(isinstance(value, str) for value in values):
        assert check_texts(values) == values
    else:
        first = next(at for at, value in enumerate(values) if not isinstance(value, str))
        with pytest.raises(InvalidInput, match=f"in number {first}, expected a string"):
            check_texts(values)


def test_a_corpus_of_ids_alone_is_taken_at_its_word() -> None:
    bare = Corpus(CORPUS.ids, CORPUS.offsets)
    assert not bare.vocabulary and len(observe(SANTEXT, bare).targets) == 5
    NoisyChannel(SANTEXT, [bare]).guess(SEEN)


def test_the_vocabulary_stays_with_a_corpus() -> None:
    sanitized = SANTEXT.sanitize_corpus(CORPUS)
    part = sanitized.subset(np.array([1]))
    same = Tokenizer(list(TABLE.words), KEEP_UNKNOWN).encode(TEXTS)
    assert CORPUS.vocabulary == sanitized.vocabulary == part.vocabulary == same.vocabulary
    turned = Tokenizer(TABLE.words[::-1]).encode(TEXTS)
    assert CORPUS.vocabulary != turned.vocabulary  # the same words, other numbers


def test_an_estimated_channel_knows_its_vocabulary() -> None:
    channels = NoiseChannel.estimate(MADLIB, [3.0], np.random.default_rng(0))
    seen = observe(MADLIB, CORPUS, np.random.default_rng(0))
    assert len(ContextFreeBayes(channels[3.0], CORPUS).guess(seen).words) == 5
    with pytest.raises(InvalidInput, match=ANOTHER):
        ContextFreeBayes(channels[3.0], FOREIGN)


def test_a_mechanism_of_ones_own_needs_no_more_than_before() -> None:
    class Same(Mechanism):
        name = "same"

        def _replace(self, ids: Any, rng: np.random.Generator) -> Any:
            return ids

    seen = observe(Same(TABLE, epsilon=1.0), CORPUS)
    assert PriorOnly(Same(TABLE, epsilon=1.0), CORPUS).guess(seen).words.shape == (5, 5)
