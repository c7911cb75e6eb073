"""The attack with a neural prior against sums over all sentences, with a tiny random Llama."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_generators import tiny_generator
from tiny_models import CAT, DOG, FISH, SNOWBALL, WORDS, TableMechanism, swapping

from textpriv.attacks.base import Guesses, Observed
from textpriv.attacks.neural_prior import NeuralChannel, rehearsed_weight, written
from textpriv.attacks.noisy_channel import Candidates, NoisyChannel
from textpriv.channel import FloatArray
from textpriv.data.tokens import KEEP_UNKNOWN, UNKNOWN, Corpus, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.models.generators import Generator

READ = ["the cat sat on the mat .", "the dog ran , the fish ran !", "a snowball on the cat ."] * 3
TARGETS = [
    "the cat sat on the mat , the fish ran !",
    "sat on the mat .",  # nothing in it is replaced
    "dog-cat zorro's snowball",  # begins and ends with a target, has a word that is unknown
]
SOFT = 0.25 * np.array([[1.0, 1, 1, 1]] * 4) + np.eye(4)


def encode(texts: list[str]) -> Corpus:
    return Tokenizer(WORDS, KEEP_UNKNOWN).encode(texts)


def channel(law: FloatArray) -> TableMechanism:
    """Four animals that may become each other; all other words pass."""
    whole = np.eye(len(WORDS))
    animals = np.array([CAT, DOG, FISH, SNOWBALL])
    whole[np.ix_(animals, animals)] = law / law.sum(1, keepdims=True)
    return TableMechanism(whole, animals)


def seen(texts: list[str]) -> Observed:
    corpus = encode(texts)
    return Observed(corpus, np.isin(corpus.ids, [CAT, DOG, FISH, SNOWBALL]))


@pytest.fixture(scope="module")
def generator(exact_throughout: None, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"), longest=160)


def uniform(generator: Generator, folder: Path) -> Generator:
    """The same, but every token is as likely as any other."""
    blank = tiny_generator(folder, longest=160)
    with torch.no_grad():
        blank.model.get_output_embeddings().weight.zero_()
    return replace(generator, model=blank.model)


def made_of(
    generator: Generator,
    lattice: NoisyChannel,
    shadow: Corpus,
    weight: float = 0.75,
    beam: int = 8,
    **how: Any,
) -> NeuralChannel:
    """The attack with other settings than its own."""
    kind = type("Changed", (NeuralChannel,), how)
    made: NeuralChannel = kind(lattice, WORDS, generator, shadow, weight=weight, beam=beam)
    return made


def attack(generator: Generator, **options: Any) -> NeuralChannel:
    lattice = NoisyChannel(channel(SOFT), [encode(READ)], candidates=4, kept=4)
    plain = {"examples": 2, "trust": 1.0, "beam": 300}
    return made_of(generator, lattice, encode(READ), **plain | options)


def all_sentences(
    made: NeuralChannel, observed: Observed, document: int
) -> tuple[list[list[int]], FloatArray, Candidates]:
    """All sentences that a document may have been, with ln of their weights, the slow way."""
    candidates, corpus = made.lattice.decode(observed).keep(made.lattice.kept), observed.corpus
    tokens = range(*corpus.offsets[document : document + 2].tolist())
    prompt = made.generator.tokenizer.decode(made.prompt[1:])
    paths = list(
        itertools.product(
            *(
                range(*candidates.offsets[token : token + 2]) if observed.sanitized[token] else [-1]
                for token in tokens
            )
        )
    )
    texts, log_q = [], []
    for path in paths:
        names = [
            WORDS[candidates.words[candidate]]
            if candidate >= 0
            else corpus.kept.get(token, WORDS[corpus.ids[token]])
            for token, candidate in zip(tokens, path, strict=True)
        ]
        texts.append(written(names) + "\n")
        log_q.append(
            sum(np.log(candidates.posterior[candidate]) for candidate in path if candidate >= 0)
        )
    with_prompt = made.generator.log_likelihood([prompt, *(prompt + text for text in texts)])
    likelihood = with_prompt[1:] - with_prompt[0]
    return [list(path) for path in paths], np.array(log_q) + made.weight * likelihood, candidates


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("examples", [0, 2])
def test_a_wide_beam_sums_over_all_sentences(
    generator: Generator, weight: float, examples: int
) -> None:
    """Exact: every sentence written out, its likelihood computed alone, and all summed.

    Labels that are shifted by a token, a forgotten piece, end of line or channel would all show.
    """
    observed = seen(TARGETS)
    made = attack(generator, weight=weight, examples=examples)
    got = made.decode(observed)
    farthest = 0.0
    for document in (0, 2):
        paths, log_weights, candidates = all_sentences(made, observed, document)
        shares = np.exp(log_weights - log_weights.max())
        shares /= shares.sum()
        expected = np.zeros(len(candidates.words))
        for path, share in zip(paths, shares, strict=True):
            for candidate in path:
                expected[candidate] += share if candidate >= 0 else 0
        first, last = observed.corpus.offsets[document : document + 2]
        for token in range(first, last):
            place = slice(*candidates.offsets[token : token + 2])
            if observed.sanitized[token]:
                assert (got.words[place] == candidates.words[place]).all()
                assert np.abs(got.posterior[place] - expected[place]).max() < 1e-4
                farthest = max(farthest, np.abs(expected - candidates.posterior)[place].max())
    assert farthest > 0.05  # the model has a say


def test_a_narrow_beam_keeps_true_weights(generator: Generator, monkeypatch: Any) -> None:
    """Of the sentences that a narrow beam returns, each has the weight that it has alone."""
    kept = []
    search = NeuralChannel.search

    def remember(self: NeuralChannel, *arguments: Any) -> Any:
        beams = search(self, *arguments)
        kept.extend((beam.taken, beam.scores) for beam in beams)
        return beams

    monkeypatch.setattr(NeuralChannel, "search", remember)
    observed = seen(TARGETS)
    for beam in (1, 3):
        kept.clear()
        made = attack(generator, beam=beam)
        made.decode(observed)
        assert len(kept) == 2  # the document without a target is not searched
        for document, (sentences, scores) in zip((0, 2), kept, strict=True):
            paths, log_weights, candidates = all_sentences(made, observed, document)
            assert scores.shape == (beam,)
            known = {tuple(path): weight for path, weight in zip(paths, log_weights, strict=True)}
            first, last = observed.corpus.offsets[document : document + 2].tolist()
            is_target = observed.sanitized[first:last]
            starts = candidates.offsets[first:last][is_target]
            for taken, score in zip(sentences, scores, strict=True):
                path = np.full(last - first, -1)
                path[is_target] = starts + taken[-len(starts) :]
                assert score == pytest.approx(known[tuple(path.tolist())], abs=1e-3)
            assert len(np.unique(sentences, axis=0)) == beam


def test_a_model_that_says_nothing_leaves_the_lattice(generator: Generator, tmp_path: Path) -> None:
    """Exactly: cat and dog have as many pieces, so a uniform model cannot tell them apart."""
    observed = seen(["the cat sat , the dog ran .", "cat ran on the dog"])
    blank = uniform(generator, tmp_path)
    lattice = NoisyChannel(swapping(0.7), [encode(READ)], candidates=4, kept=4)
    wide: Any = {"shadow": encode(READ), "beam": 16, "trust": 1.0}
    for made in (made_of(blank, lattice, **wide), made_of(generator, lattice, weight=0.0, **wide)):
        expected, got = lattice.decode(observed).keep(lattice.kept), made.decode(observed)
        assert np.abs(got.posterior - expected.posterior).max() < 1e-5
        assert np.ptp(expected.posterior[observed.corpus.offsets[1] :]) > 0.1
    told = made_of(generator, lattice, **wide)
    assert np.abs(told.decode(observed).posterior - expected.posterior).max() > 0.01


@pytest.mark.parametrize("beam", [1, 8])
def test_the_channel_decides_where_nothing_else_does(
    generator: Generator, tmp_path: Path, beam: int
) -> None:
    """A single prefix that is kept has to be the best one."""
    blank = uniform(generator, tmp_path)
    observed = seen(["the cat ran", "the dog ran"])
    for stay, expected in ((0.95, [CAT, DOG]), (0.05, [DOG, CAT])):
        lattice = NoisyChannel(swapping(stay), [encode(["the cat ran the dog ran"])], candidates=4)
        made = made_of(blank, lattice, encode(READ), beam=beam)
        guesses = made.guess(observed, top=2)
        assert guesses.words[:, 0].tolist() == expected
        assert (guesses.scores[:, 0] > 0.8).all()


def test_trust(generator: Generator) -> None:
    observed = seen(TARGETS)
    sure = attack(generator)
    lattice, got = sure.lattice.decode(observed).keep(4), sure.decode(observed)
    mixed = attack(generator, trust=0.25).decode(observed)
    assert np.allclose(mixed.posterior, 0.25 * got.posterior + 0.75 * lattice.posterior)
    token = np.repeat(np.arange(len(got.counts)), got.counts)
    for candidates in (got, mixed):
        assert np.allclose(np.bincount(token, candidates.posterior), 1)


def test_targets_choose_documents_and_rows(generator: Generator, monkeypatch: Any) -> None:
    """A few targets get what they get among all; other documents are not decoded."""
    observed = seen([*TARGETS, "the fish ran"])
    made = attack(generator, beam=4)
    every = made.guess(observed, top=4)
    assert every.words.shape == (len(observed.targets), 4)
    decoded: list[Observed] = []
    decode = NeuralChannel.decode

    def remember(self: NeuralChannel, part: Observed) -> Candidates:
        decoded.append(part)
        return decode(self, part)

    monkeypatch.setattr(NeuralChannel, "decode", remember)
    rows = [4, 5, 2]  # the last document, then two targets of the third, in this order
    subset = made.guess(observed, observed.targets[rows], top=4)
    assert (subset.words == every.words[rows]).all()
    assert np.allclose(subset.scores, every.scores[rows])
    (part,) = decoded
    assert len(part.corpus) == 2 and "zorro" in part.corpus.kept.values()
    assert made.guess(observed, np.zeros(0, np.int64), top=2).words.shape == (0, 2)


def test_the_prompt_shows_shadow_text(generator: Generator) -> None:
    corpus = encode(["the cat sat on the mat .", "", "the dog's zorro-like , fish", "a cat"])
    hidden = corpus.with_ids(np.where(corpus.ids == DOG, UNKNOWN, corpus.ids))
    for shadow, expected in (
        (corpus, "the cat sat on the mat.\nthe dog's zorro-like, fish\n"),
        (hidden, "the cat sat on the mat.\na cat\n"),
    ):
        lattice = NoisyChannel(channel(SOFT), [encode(READ)])
        made = made_of(generator, lattice, shadow, examples=2)
        assert made.prompt[0] == generator.opening
        assert generator.tokenizer.decode(made.prompt[1:]) == expected


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("the film 's n't bad , is it ?", "the film'sn't bad, is it?"),
        ("( a well - made film ) - - no . . . yes", "(a well-made film)--no... yes"),
        (", the", ", the"),
        ("", ""),
    ],
)
def test_written_as_people_write(tokens: str, text: str) -> None:
    assert written(tokens.split()) == text


def test_the_weight_that_names_most_is_chosen() -> None:
    """An attack that is right as often as its weight is near 1.5; of equal ones the first wins."""
    clear = encode(["the cat ran .", "the dog sat .", "a fish ran ."])
    hidden = np.isin(clear.ids, [CAT, DOG, FISH])
    rehearsal = Observed(clear.with_ids(np.where(hidden, DOG, clear.ids)), hidden)
    asked: list[float] = []

    def knowing(weight: float) -> Any:
        asked.append(weight)
        right = {1.0: 1, 1.5: 3, 2.0: 3}.get(weight, 0)
        truth = clear.ids[rehearsal.targets]
        words = np.where(np.arange(len(truth)) < right, truth, CAT + 100)[:, None]
        return SimpleNamespace(guess=lambda seen, top: Guesses(words, np.ones(words.shape)))

    assert rehearsed_weight(knowing, rehearsal, clear) == 1.5
    assert asked == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_wrong_use(generator: Generator) -> None:
    lattice = NoisyChannel(channel(SOFT), [encode(READ)])
    with pytest.raises(InvalidInput, match="words: got 9, expected 10"):
        NeuralChannel(lattice, WORDS[1:], generator, encode(READ))
    observed = seen(["the cat ran"])
    hidden = observed.corpus.with_ids(np.where(observed.sanitized, observed.corpus.ids, UNKNOWN))
    with pytest.raises(InvalidInput, match="unknown words have no text"):
        attack(generator).guess(Observed(hidden, observed.sanitized))
    with pytest.raises(InvalidInput, match="expected at most 160"):
        attack(generator, beam=1).guess(seen(["the cat sat on the mat " * 12]))
