"""The oracle attack on lossy maps: a language model picks among the preimages of every token.

    generator = load_generator()
    mapper = LossyMap.random(len(generator.tokenizer), 2, rng, fixed=special)
    attack = OracleBeam(generator, mapper)
    found = attack.search_corpus(mapper.sanitize_corpus(private))
    found[0].sequences[0], found[0].log_probability[0]             # the likeliest original
    (1 / ranks(found, private)).mean()                             # MRR

The attacker knows the partition. A map is deterministic, so all that is left of Bayes' rule is
the prior: P(x | y) is P_LM(x) among the texts that are sent to y, and 0 elsewhere. There are
2^n of them, or 3^n. They are searched from left to right: every prefix that is left goes on with
every preimage of the next token, the model says how likely each became, and the least likely
ones are dropped. A prefix is at least as likely as all that begins with it, so that a text
which is likely at every step stays. One that begins oddly is lost, however well it goes on: with
a larger `mass` fewer are.

The released search runs every prefix afresh at each step, prunes from step 6 on, and gives a
text up when more prefixes are needed than it allows. Here every token of the tree of prefixes
is run once, every step prunes, and a text that needs too many prefixes is searched with those
that are allowed; `Found.capped` and `Found.kept` say so. The paper scales the model's probabilities
to sum to 1 over the preimages of each token; without that, as here, they are the posterior itself.

References
----------
Harel et al. 2024, "Protecting Privacy in Classifiers by Token Manipulation", sections 2.2-2.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
import torch
from scipy.special import softmax

from textpriv.attacks.base import BoolArray, FloatArray, IntArray
from textpriv.channel import check_ids
from textpriv.checks import COUNT, Interval, checked
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms.maps import LossyMap
from textpriv.models import by_length
from textpriv.models.generators import ROOT, Generator, Prefixes

# --- The search ---------------------------------------------------------------------------------


class OracleBeam:
    """Searches the texts that are sent to what is seen for those that a language model likes.

    Parameters
    ----------
    generator : the language model
    mapper : the map, over the tokens of the model: ids are the model's
    mass : 0 < mass <= 1; after every step the fewest prefixes are kept that hold this share of
        the probability of all that the step has made. 1 keeps all.
    most : >= 1, prefixes that are kept at most, whatever they hold; time and memory grow with it

    Notes
    -----
    Which member of a group represents it does not matter to this attack. That a text ends is
    not part of its probability. Probabilities are those of the whole vocabulary, and only in
    pruning are they related to the prefixes that are left.
    """

    name = "oracle-beam"
    batch = 8  # texts that are searched side by side; it changes only time, memory and rounding

    @checked(mass=Interval(Real, 0, 1, closed="right"), most=COUNT)
    def __init__(
        self, generator: Generator, mapper: LossyMap, *, mass: float = 0.9975, most: int = 150
    ) -> None:
        size = len(generator.tokenizer)
        if mapper.size != size:
            raise InvalidInput(
                f"mapper: got a map over {mapper.size} ids, expected {size} (the tokens of "
                f"{generator.name})"
            )
        self.generator, self.mapper, self.mass, self.most = generator, mapper, mass, most

    def search_corpus(self, output: Corpus) -> list[Found]:
        """The likeliest originals of every text.

        `output` is what the map has put out; a text is shorter than the model's `longest`, for
        the token that opens it.
        """
        ids = check_ids(output.ids, self.mapper.size, what="output")
        sent = np.bincount(self.mapper.representative, minlength=self.mapper.size) > 0
        if not sent[ids].all():
            raise InvalidInput(
                f"output: got id {ids[np.argmin(sent[ids])]}, to which the map sends no token; "
                "expected what this map has put out, mapper.sanitize_corpus(private)"
            )
        lengths = np.diff(output.offsets)
        if lengths.max(initial=0) >= self.generator.longest:
            raise InvalidInput(
                f"output: got a text of {lengths.max()} tokens, expected at most "
                f"{self.generator.longest - 1}"
            )
        texts = (output[number].tolist() for number in range(len(output)))
        beams = [_Beam([*map(self.mapper.preimages, text)]) for text in texts]
        for numbers in by_length(lengths, self.batch):
            together = [beams[number] for number in numbers.tolist()]
            for step in range(int(lengths[numbers].max())):
                self._advance([beam for beam in together if step < len(beam.choices)])
        return [beam.remaining for beam in beams]

    def _advance(self, beams: Sequence[_Beam]) -> None:
        """Take the next step of some texts that have come equally far."""
        states = self._states(beams)
        counts = [len(beam.nodes) for beam in beams]
        most = max(len(beam.options) for beam in beams)
        # Where a token has fewer preimages than another, some are asked for again.
        asked = np.repeat([np.resize(beam.options, most) for beam in beams], counts, axis=0)
        known = self.generator.next_log_probability(states, asked)
        for beam, part in zip(beams, np.split(known, np.cumsum(counts)[:-1]), strict=True):
            beam.advance(part[:, : len(beam.options)], mass=self.mass, most=self.most)

    def _states(self, beams: Sequence[_Beam]) -> torch.Tensor:
        """What the model knows after each prefix, text after text: (prefixes, width).

        The last token of a text is never run, since what is known after it is never asked for.
        """
        prefixes = self._prefixes
        if not beams[0].remaining.sequences.shape[1]:
            return prefixes.root.expand(len(beams), -1)
        # At first all hang on the root: what an earlier search has left is forgotten.
        parents = prefixes.keep(np.concatenate([beam.nodes for beam in beams]))
        first = len(prefixes)
        tokens = np.concatenate([beam.remaining.sequences[:, -1] for beam in beams])
        states = prefixes.grow(parents, tokens)
        for beam in beams:
            beam.nodes = first + np.arange(len(beam.nodes))
            first += len(beam.nodes)
        return states

    @cached_property
    def _prefixes(self) -> Prefixes:
        """The tree, in which the opening token is run once for all texts."""
        return Prefixes(self.generator, [self.generator.opening])


class _Beam:
    """The prefixes that are left of one text; `choices` are what each place may have been."""

    def __init__(self, choices: Sequence[IntArray]) -> None:
        self.choices = choices
        self.remaining = Found(np.zeros((1, 0), dtype=np.int64), np.zeros(1), 0, 1.0, 0)
        # Of each in the tree or, before its last token was run, of what stands before that.
        self.nodes = np.array([ROOT])

    @property
    def options(self) -> IntArray:
        """What the next token may have been."""
        return self.choices[self.remaining.sequences.shape[1]]

    def advance(self, known: FloatArray, *, mass: float, most: int) -> None:
        """Go on with every option and prune, given ln P(option | prefix): (prefixes, options)."""
        options, before = self.options, self.remaining
        candidates = (before.log_probability[:, None] + known).ravel()
        best, held, is_capped = prune(candidates, mass=mass, most=most)
        prefix, option = np.divmod(best, len(options))
        self.nodes = self.nodes[prefix]
        self.remaining = Found(
            np.column_stack([before.sequences[prefix], options[option]]),
            candidates[best],
            before.capped + is_capped,
            min(before.kept, held),
            before.scored + len(candidates),
        )


@dataclass(frozen=True, eq=False)
class Found:
    """The texts that are left of a search, all different."""

    sequences: IntArray  # (count, length) ids, the likeliest first; count >= 1
    log_probability: FloatArray  # (count,) ln P_LM(sequence), whole vocabulary
    capped: int  # steps that needed more prefixes than were allowed
    kept: float  # the smallest share of the probability that a step has kept, 0 to 1
    scored: int  # prefixes whose probability was computed, in all steps together

    def rank(self, truth: IntArray) -> int:
        """The place of a text, from 1; 0 where it is not among the sequences."""
        (places,) = np.nonzero((self.sequences == truth).all(1))
        return int(places[0]) + 1 if len(places) else 0


def prune(log_probability: FloatArray, *, mass: float, most: int) -> tuple[IntArray, float, bool]:
    """The fewest candidates that hold a share of the probability, at most `most` of them.

    Beside their numbers, the likeliest first (of equal ones the first), the share that they hold
    and whether more were needed than `most`.
    """
    order = np.argsort(-log_probability, kind="stable")
    shares = softmax(log_probability[order])
    # What is dropped is summed, from its smallest share on, because it may be far below 1.
    dropped = np.append(np.cumsum(shares[::-1])[::-1], 0.0)  # where so many are kept
    needed = max(1, int((dropped > 1 - mass).sum())) if mass < 1 else len(order)
    count = min(needed, most)
    return order[:count], 1 - float(dropped[count]), needed > most


# --- Success over many texts --------------------------------------------------------------------


def ranks(remaining: Sequence[Found], truth: Corpus) -> FloatArray:
    """The place of each true text, from 1, infinite where it was pruned: (texts,).

    `remaining` is what the search has left of each text, `truth` the texts in clear. The mean of
    1 / rank is the MRR.
    """
    places = [each.rank(text) or np.inf for each, text in _pairs(remaining, truth)]
    return np.array(places, dtype=np.float64)


def edit_distances(remaining: Sequence[Found], truth: Corpus) -> IntArray:
    """Edits from each text's best guess to the truth, in tokens: (texts,)."""
    pairs = [edit_distance(each.sequences[0], text) for each, text in _pairs(remaining, truth)]
    return np.array(pairs, dtype=np.int64)


def token_success(
    remaining: Sequence[Found], truth: Corpus, mapper: LossyMap
) -> tuple[BoolArray, IntArray]:
    """Whether the best guesses have each token right that had more than one preimage: (tokens,).

    Beside it the number of each token's text, the cluster of an interval.
    """
    best = (each.sequences[0] for each, _ in _pairs(remaining, truth))
    guessed = np.concatenate([np.zeros(0, np.int64), *best])
    check_ids(truth.ids, mapper.size, what="truth")
    members = np.bincount(mapper.representative, minlength=mapper.size)
    hidden = members[mapper.representative[truth.ids]] > 1
    return (guessed == truth.ids)[hidden], truth.document[hidden]


def edit_distance(first: IntArray, second: IntArray) -> int:
    """Fewest tokens to insert, delete or replace (Levenshtein 1966) between two texts.

    A row of the table of prefixes at a time: what a cell takes from the row above is known at
    once, and a run of insertions along the row is a running minimum of value minus place.
    """
    places = np.arange(len(second) + 1)
    row = places
    for token in first.tolist():
        above = row + 1
        above[1:] = np.minimum(above[1:], row[:-1] + (second != token))
        row = np.minimum.accumulate(above - places) + places
    return int(row[-1])


def _pairs(remaining: Sequence[Found], truth: Corpus) -> Iterator[tuple[Found, IntArray]]:
    lengths = [each.sequences.shape[1] for each in remaining]
    if lengths != np.diff(truth.offsets).tolist():
        raise InvalidInput(
            f"truth: got texts of {np.diff(truth.offsets).tolist()!r:.60} tokens, expected "
            f"{lengths!r:.60}, as they were searched"
        )
    return ((each, truth[number]) for number, each in enumerate(remaining))
