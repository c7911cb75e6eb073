"""The attacks that notebook 03 adds, on made-up text in sixteen pieces, five of them special."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_models import PIECES, SPECIAL, piece, tiny_encoder

from textpriv.attacks.base import NONE, Guesses, Observed
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.deconvolution import TokenInversion, watch
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus
from textpriv.experiments import lossy as experiment
from textpriv.experiments.lossy import TokenNoise, Vocabulary
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.models import Encoder
from textpriv.seeds import stream

SEED = 3
WORDS = np.arange(len(SPECIAL), len(PIECES))


def made_up(documents: int, seed: int) -> Corpus:
    """Any pieces but the rarer ones, with a special one now and then."""
    rng = np.random.default_rng(seed)
    likely = 1.0 / (1 + np.arange(len(WORDS)))
    rows = []
    for count in rng.integers(3, 9, size=documents).tolist():
        row = rng.choice(WORDS, size=count, p=likely / likely.sum())
        row[rng.random(count) < 0.1] = piece("[SEP]")
        rows.append(row.tolist())
    ids = np.array([number for row in rows for number in row], dtype=np.int64)
    return Corpus(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("lossy-attacks"))


@pytest.fixture(scope="module")
def vocabulary(encoder: Encoder) -> Vocabulary:
    table = TokenTable(encoder.table.detach().numpy(), fixed=np.arange(len(SPECIAL)))
    public = made_up(120, 9)
    counts = public.counts(len(PIECES))
    return Vocabulary(counts, table.fixed, encoder.tokenizer, table, public, 50)


@pytest.fixture(scope="module")
def private() -> Corpus:
    return made_up(30, 1)


def test_the_output_is_right_where_a_word_stands_for_its_group(
    private: Corpus, vocabulary: Vocabulary
) -> None:
    mapper = LossyMap.random(len(PIECES), 2, np.random.default_rng(0), fixed=vocabulary.fixed)
    seen = Observed(mapper.sanitize_corpus(private), private.ids >= len(SPECIAL))
    guesses = experiment.OutputItself().guess(seen)
    truth = private.ids[seen.targets]
    assert guesses.words.shape == (len(truth), 1)  # so that no five guesses are counted
    found = experiment.hits("naive", guesses, seen, truth)
    assert list(found) == [1]
    assert found[1].tolist() == (mapper.representative[truth] == truth).tolist()


def in_rows(corpus: Corpus) -> Corpus:
    """The words' own numbers, 0 for the first that is not special, -1 for all that are."""
    return corpus.with_ids(np.maximum(corpus.ids - len(SPECIAL), -1))


def by_hand(vocabulary: Vocabulary, eta: float) -> dict[str, Any]:
    """Bayes and the noisy channel on the words of the noise, from parts of the library."""
    vectors = vocabulary.table.vectors[WORDS]
    madlib = Madlib(from_arrays("words", [PIECES[i] for i in WORDS], vectors), epsilon=eta)
    rng = stream(SEED, "noise")
    known = NoiseChannel.estimate(madlib, [eta], rng, directions=8, sampled_words=64)[eta]
    read = in_rows(vocabulary.public)
    shadow, unread = read.subset(np.arange(50, 63)), read.subset(np.arange(63, 120))
    model = NGrams.train(Lexicon(len(WORDS), [unread]), [unread], order=3)
    seen = np.where(shadow.ids >= 0, 0, shadow.ids)
    seen[shadow.ids >= 0] = madlib.sanitize_ids(shadow.ids[shadow.ids >= 0], rng)
    tried = Observed(shadow.with_ids(seen), shadow.ids >= 0)
    weight = tuned_weight(known, model, tried, shadow, weights=(0.25, 0.5, 1.0))
    return {
        "context_free": Bayes(known, vocabulary.counts[WORDS] + 0.5, name="same"),
        "noisy_channel": NoisyChannel(known, model=model, weight=weight),
    }


def test_attacks_on_noise_are_those_on_its_words(private: Corpus, vocabulary: Vocabulary) -> None:
    eta = 2.0
    noise = TokenNoise(vocabulary, eta, stream(SEED, "noise"))
    decoder = experiment.noise_decoder(noise, vocabulary)
    counts = vocabulary.counts[noise.inputs] + 0.5
    attacks = {
        "context_free": Bayes(decoder.channel, counts, name="context_free"),
        "noisy_channel": decoder,
    }
    output = TokenNoise(vocabulary, eta, stream(SEED, "text")).sanitize_corpus(private)
    seen = Observed(output, private.ids >= len(SPECIAL))
    assert not seen.sanitized.all()
    truth = private.ids[seen.targets]
    for name, expected in by_hand(vocabulary, eta).items():
        found = experiment.InRows(noise, attacks[name]).guess(seen)
        guesses = expected.guess(Observed(in_rows(output), seen.sanitized))
        words = np.where(guesses.words == NONE, NONE, guesses.words + len(SPECIAL))
        assert (found.words == words).all() and (found.scores == guesses.scores).all()
        right = experiment.hits(name, found, seen, truth)
        assert list(right) == [1, 5] and 0 < right[1].mean() < right[5].mean()


@pytest.mark.parametrize("punctuated", [False, True])
def test_other_ways_to_count_are_loops(
    private: Corpus, vocabulary: Vocabulary, punctuated: bool
) -> None:
    stencil = Stencil(vocabulary.table, window=5, sigma=0.6, punctuated=punctuated)
    seen = watch(stencil, private)
    truth, document = private.ids[seen.targets], private.document[seen.targets]
    # A token is found where it is among the five nearest to any output of its document.
    guesses = TokenInversion(vocabulary.table, skip=False).guess(seen)
    anywhere = experiment.hits("anywhere", guesses, seen, truth)
    assert list(anywhere) == [5]
    assert anywhere[5].tolist() == [
        word in guesses.words[document == number]
        for word, number in zip(truth, document, strict=True)
    ]
    # By chance it is found as often as the guesses for a place fit the tokens of all places.
    guesses = TokenInversion(vocabulary.table).guess(seen)
    elsewhere = experiment.hits("naive_skip_elsewhere", guesses, seen, truth)
    assert list(elsewhere) == [5]
    expected = [np.isin(truth, guess).mean() for guess in guesses.words]
    np.testing.assert_allclose(elsewhere[5], expected)


def test_no_guess_is_not_right_elsewhere() -> None:
    guesses = Guesses(np.array([[7, NONE], [9, 2]]), np.zeros((2, 2)))
    found = experiment.hits(
        "naive_skip_elsewhere", guesses, SimpleNamespace(), np.array([2, 7])  # type: ignore[arg-type]
    )  # fmt: skip
    assert found[5].tolist() == [0.5, 0.5]
