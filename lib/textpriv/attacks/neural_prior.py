"""The noisy-channel attack with a pretrained language model: the third level of knowledge.

    lattice = NoisyChannel(mechanism, [shadow, public], order=3, candidates=100, kept=12)
    attack = NeuralChannel(lattice, words, load_generator(), shadow)

Besides shadow data and public text the attacker has a model that has read much of the web. Its
P_LM(x) looks at the whole sentence so far, and no sum over all sentences is possible. So they
are searched from left to right: every prefix that is kept goes on with every candidate of the
next token, and those with the largest

    sum_i  ln Q_i(x_i | y) + weight * ln P_LM(x_i | x_<i)

stay (a beam). Q_i is the posterior of `NoisyChannel`. It holds the channel P(y_i | x_i), what
shadow data and public text say, and a view of the words to the right, which the model of
prefixes has not seen when a prefix is judged. Where the model says nothing the attack is
`NoisyChannel`. In the end the sentences that are left vote on every token.

Text that stands on the web may be in the training data of the model, the reviews of a public
data set too. Nothing here holds it out: an attacker with a pretrained model has that advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from scipy.special import softmax

from textpriv.attacks.base import Attack, FloatArray, Guesses, IntArray, Observed
from textpriv.attacks.noisy_channel import Candidates, NoisyChannel
from textpriv.checks import COUNT, NOT_NEGATIVE, checked
from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.errors import InvalidInput
from textpriv.models.generators import ROOT, Generator, Prefixes

_NO_SPACE_BEFORE = frozenset(", . ; : ! ? ) ] } % - / 's n't 're 've 'll 'd 'm".split())
_NO_SPACE_AFTER = frozenset("( [ { - /".split())


def rehearsed_weight(
    attack: Callable[[float], Attack],
    rehearsal: Observed,
    clear: Corpus,
    weights: Sequence[float] = (0.0, 0.5, 1.0, 1.5, 2.0),
) -> float:
    """The weight of the neural model with which most words of a rehearsal are named, or none.

    Parameters
    ----------
    attack : what attacks with a weight; it must not have read what it rehearses with
    rehearsal, clear : shadow documents as the mechanism sanitizes them, and in clear
    """
    truth = clear.ids[rehearsal.targets]
    hits = [attack(weight).guess(rehearsal, top=1).hits(truth).sum() for weight in weights]
    return weights[int(np.argmax(hits))]


class NeuralChannel(Attack):
    """Searches sentences that the channel, n-grams and a neural model find likely together.

    Parameters
    ----------
    lattice : the n-gram attack, which knows the channel; it proposes the words of every token, by
        their posterior
    words : the channel's vocabulary
    generator : the neural model
    shadow : documents in clear. The first ones without unknown words are written before each
        sentence, so that the model knows what kind of text to expect.
    weight : >= 0, exponent of the neural model, to be chosen by rehearsal (`rehearsed_weight`)
    beam : >= 1, prefixes of a text that are kept; time grows with it, roughly in proportion

    Notes
    -----
    Only documents with targets are decoded. The model reads text as people write it: no space
    before punctuation and clitics, none around a hyphen, one document to a line. Lower case
    stays, as the examples show. Scores are meant as posterior probabilities, but they come from
    a search, not from a sum over all sentences.
    """

    name = "noisy-channel-lm"
    posterior = True
    examples = 6  # shadow documents that are shown
    together = 16  # texts that are searched at once
    # Share of the sentences' votes in a posterior; the rest is that of the lattice. With 1 the
    # attack is too sure of itself: n-grams and neural model have much in common, and the few
    # sentences that are left agree on most of their words.
    trust = 0.75

    @checked(weight=NOT_NEGATIVE, beam=COUNT)
    def __init__(
        self,
        lattice: NoisyChannel,
        words: Sequence[str],
        generator: Generator,
        shadow: Corpus,
        *,
        weight: float = 0.75,
        beam: int = 8,
    ) -> None:
        if len(words) != lattice.channel.size:
            raise InvalidInput(
                f"words: got {len(words)}, expected {lattice.channel.size} (the channel's)"
            )
        self.lattice, self.words, self.generator = lattice, tuple(words), generator
        self.vocabulary, self.weight, self.beam = lattice.vocabulary, weight, beam
        text = "".join(f"{each}\n" for each in self._examples(shadow))
        self.prompt = [generator.opening, *generator.encode([text])[0]]

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        corpus = observed.corpus
        documents = np.unique(corpus.document[positions])
        held = np.flatnonzero(np.isin(corpus.document, documents))
        part = Observed(corpus.subset(documents), observed.sanitized[held])
        return self.decode(part).guesses(np.searchsorted(held, positions), top)

    def decode(self, observed: Observed) -> Candidates:
        """Candidates of the lattice with the posterior that the neural model brings about."""
        candidates = self.lattice.decode(observed).keep(self.lattice.kept)
        prefixes = Prefixes(self.generator, self.prompt)
        posterior = candidates.posterior.copy()
        for first in range(0, len(observed.corpus), self.together):
            documents = range(len(observed.corpus))[first : first + self.together]
            texts = [self._choices(observed, candidates, document) for document in documents]
            texts = [each for each in texts if any(choice.place is not None for choice in each)]
            for choices, beam in zip(texts, self.search(prefixes, texts), strict=True):
                shares = softmax(beam.scores)
                for choice, options in zip(choices, beam.taken.T, strict=True):
                    if choice.place is not None:
                        votes = np.bincount(options, shares, len(choice.options))
                        mixed = self.trust * votes + (1 - self.trust) * posterior[choice.place]
                        posterior[choice.place] = mixed
        return replace(candidates, posterior=posterior)

    def search(self, prefixes: Prefixes, texts: Sequence[Sequence[Choice]]) -> list[Beam]:
        """For each text, the sentences that are left of all that can be made of its choices.

        All texts take their next choice at once, so that the model reads many prefixes in one go.
        """
        prefixes.keep()
        model, weight = self.generator, self.weight
        none = np.zeros((1, 0), dtype=np.int64)
        beams = [Beam(np.array([ROOT]), prefixes.root, np.zeros(1), none) for _ in texts]
        for step in range(max(map(len, texts), default=0)):
            going = [each for each, text in zip(beams, texts, strict=True) if step < len(text)]
            choices = [text[step] for text in texts if step < len(text)]
            parts = self._best(going, choices)
            rows = [
                choice.options[number]
                for beam, choice in zip(going, choices, strict=True)
                for number in beam.taken[:, -1].tolist()
            ]
            # Each row of pieces is a chain of nodes, one row after the other.
            pieces: IntArray = np.concatenate(rows)
            lengths = np.array([*map(len, rows)])
            row, last = np.repeat(np.arange(len(rows)), lengths), np.cumsum(lengths) - 1
            is_first = np.diff(row, prepend=-1) > 0
            before = np.concatenate([beam.nodes for beam in going])
            chained = len(prefixes) + np.arange(len(pieces)) - 1
            grown = prefixes.grow(np.where(is_first, before[row], chained), pieces)
            # Of a word of many pieces the first one decides whether it stays; the others count
            # from here on, once they have been run. To guess them first changes next to nothing.
            later = np.flatnonzero(~is_first)
            inner = model.next_log_probability(grown[later - 1], pieces[later, None])
            added = weight * np.bincount(row[later], inner[:, 0], len(rows))
            nodes = prefixes.keep(len(prefixes) - len(pieces) + last)
            for beam, part in zip(going, parts, strict=True):
                beam.scores = beam.scores + added[part]
                beam.nodes, beam.states = nodes[part], grown[last[part]]
        return beams

    def _best(self, beams: Sequence[Beam], choices: Sequence[Choice]) -> list[slice]:
        """Go on with the best options, judged by their first piece.

        Changes the beams; returns where the rows of each stand, one beam after the other.
        """
        widest = max(len(choice.options) for choice in choices)
        first = np.zeros((sum(len(beam.scores) for beam in beams), widest), dtype=np.int64)
        parts = _slices([len(beam.scores) for beam in beams])
        for part, choice in zip(parts, choices, strict=True):
            first[part, : len(choice.options)] = [option[0] for option in choice.options]
        states = torch.cat([beam.states for beam in beams])
        known = self.generator.next_log_probability(states, first)
        for beam, part, choice in zip(beams, parts, choices, strict=True):
            count = len(choice.options)
            likely = choice.log_q + self.weight * known[part, :count]
            reached = beam.scores[:, None] + likely
            best = np.argsort(-reached, axis=None, kind="stable")[: self.beam]
            prefix, option = np.divmod(best, count)
            beam.taken = np.concatenate([beam.taken[prefix], option[:, None]], axis=1)
            beam.nodes, beam.scores = beam.nodes[prefix], reached.ravel()[best]
        return _slices([len(beam.scores) for beam in beams])

    def _choices(self, observed: Observed, candidates: Candidates, document: int) -> list[Choice]:
        """What is to be chosen in a document, each with the words in clear that follow it."""
        corpus = observed.corpus
        tokens = range(*corpus.offsets[document : document + 2].tolist())
        places = [slice(*candidates.offsets[token : token + 2].tolist()) for token in tokens]
        texts: list[list[str]] = []
        before = None
        for token, place in zip(tokens, places, strict=True):
            if observed.sanitized[token]:
                options = [self.words[word] for word in candidates.words[place].tolist()]
            else:
                options = [_text(self.words, corpus, token)]
            texts.append([_spaced(before, each) for each in options])
            before = options[0] if len(options) == 1 else ""
        pieces = iter(self.generator.encode([each for options in texts for each in options]))
        choices = [Choice(None, [[]], np.zeros(1))]
        for token, place, options in zip(tokens, places, texts, strict=True):
            encoded = [next(pieces) for _ in options]
            if observed.sanitized[token]:
                with np.errstate(divide="ignore"):
                    choices.append(Choice(place, encoded, np.log(candidates.posterior[place])))
            else:
                choices[-1].follow(encoded[0])
        choices[-1].follow(self.generator.encode(["\n"])[0])
        return choices if choices[0].options[0] else choices[1:]

    def _examples(self, shadow: Corpus) -> list[str]:
        """The first documents that can be written."""
        examples: list[str] = []
        for first, last in pairwise(shadow.offsets.tolist()):
            if len(examples) == self.examples:
                break
            if first < last and (shadow.ids[first:last] != UNKNOWN).all():
                texts = [_text(self.words, shadow, token) for token in range(first, last)]
                examples.append(written(texts))
        return examples


@dataclass(eq=False)
class Beam:
    """The sentences of a text that are left, so far."""

    nodes: IntArray  # (sentences,) of the tree of prefixes
    states: torch.Tensor  # (sentences, width) what the model knows after each
    scores: FloatArray  # (sentences,) logarithm of the weight, up to a constant
    taken: IntArray  # (sentences, choices) number of the option


@dataclass(frozen=True, eq=False)
class Choice:
    """A sanitized token, or none, and the words in clear up to the next."""

    place: slice | None  # the token's candidates in `Candidates`; None: no token, one option
    options: list[list[int]]  # pieces that can stand here
    log_q: FloatArray  # (options,) what is known of each without the neural model

    def follow(self, pieces: list[int]) -> None:
        """Write pieces behind every option."""
        for option in self.options:
            option.extend(pieces)


def _slices(lengths: Sequence[int]) -> list[slice]:
    """Where rows of some lengths stand, one after the other."""
    return [slice(*ends) for ends in pairwise([0, *np.cumsum(lengths).tolist()])]


def written(texts: Sequence[str]) -> str:
    """Tokens as people write them: no space before punctuation, none around a hyphen."""
    before = [None, *texts]
    return "".join(_spaced(last, text) for last, text in zip(before, texts, strict=False))


def _spaced(before: str | None, text: str) -> str:
    """A token after another, or at the start."""
    joined = before is None or before in _NO_SPACE_AFTER or text in _NO_SPACE_BEFORE
    return text if joined else f" {text}"


def _text(words: Sequence[str], corpus: Corpus, token: int) -> str:
    number = int(corpus.ids[token])
    if number == UNKNOWN:
        raise InvalidInput(f"corpus: token {token} is an unknown word; unknown words have no text")
    return corpus.kept[token] if number == KEPT else words[number]
