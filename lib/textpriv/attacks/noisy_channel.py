"""The noisy-channel attack: decode the whole sentence with a language model.

A word-level mechanism replaces every word on its own, so what an attacker knows of a sentence
x after seeing y factorises into a language model and the channel,

    P(x | y) is proportional to P_LM(x) prod_i P(y_i | x_i),

as in spelling correction or speech recognition. Forward-backward sums over all sentences and
gives each position's posterior, whose maximum is the best guess for that token; Viterbi gives
the likeliest sentence. Words in clear (stopwords, punctuation) take part as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from textpriv.attacks.base import (
    NONE,
    Attack,
    FloatArray,
    Guesses,
    IntArray,
    Observed,
    check_channel,
    check_targets,
    is_input,
)
from textpriv.attacks.lattice import Lattice, forward_backward, viterbi
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.channel import Channel
from textpriv.checks import COUNT, SHARE, StrOptions, checked
from textpriv.data.tokens import Corpus, check_corpora, ranges
from textpriv.errors import InvalidInput

_EDGES = 1 << 22  # pairs (order 3: triples) of neighbouring candidates held at once
_LONGEST = 1 << 24  # of a document, 800 MB


class SentenceAttack(Attack):
    """An attack that decodes whole documents: a subclass gives `decode`."""

    posterior = True

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        return self.decode(observed).guesses(positions, top)

    def decode(self, observed: Observed) -> Candidates:
        """Every token's candidates with their posterior probabilities."""
        raise NotImplementedError


class NoisyChannel(SentenceAttack):
    """Decodes with an n-gram prior.

    Parameters
    ----------
    channel : P(y|x)
    text : what the attacker has read: shadow data, and public text if there is any
    order : of the n-grams, 1 to 3. Order 1 looks at one token: Bayes' rule with the
        frequencies of all that was read.
    candidates : words that are considered for each token, those with the largest P(y|x) P(x)
    kept : how many of these order 3 keeps after decoding with order 2
    weight : exponent of the language model, in [0, 1]. Below 1 it counts for less than its word,
        as is usual where a model was learned from other text than it is used on; see
        `tuned_weight`.
    decoding : "posterior" maximises the expected number of right tokens; "viterbi" gives the
        words of the likeliest sentence, with scores 1
    model : a trained model in place of `text` and `order`

    Notes
    -----
    Scores are posterior probabilities; the candidates of a token share the probability that
    the truth is one of them.
    """

    name = "noisy-channel"

    @checked(
        candidates=COUNT, kept=COUNT, weight=SHARE, decoding=StrOptions({"posterior", "viterbi"})
    )
    def __init__(
        self,
        channel: Channel,
        text: Sequence[Corpus] = (),
        *,
        order: int = 2,
        candidates: int = 50,
        kept: int = 8,
        weight: float = 1.0,
        decoding: Literal["posterior", "viterbi"] = "posterior",
        model: NGrams | None = None,
    ) -> None:
        check_channel(channel)
        check_corpora(text, channel.size, channel.vocabulary)
        if model is None:
            model = NGrams.train(Lexicon(channel.size, text), text, order=order)
        if model.lexicon.size != channel.size:
            raise InvalidInput(
                f"model: got a vocabulary of {model.lexicon.size}, expected {channel.size}"
            )
        self.channel, self.model, self.decoding = channel, model, decoding
        self.vocabulary = channel.vocabulary
        self.candidates, self.kept, self.weight = candidates, kept, weight

    def decode(self, observed: Observed) -> Candidates:
        return decode_each(
            self.context_free(observed),
            observed.corpus,
            self.model,
            [self.weight],
            kept=self.kept,
            decoding=self.decoding,
        )[0]

    def context_free(self, observed: Observed) -> Candidates:
        """What each token may have been by itself: the word if in clear, else likely inputs."""
        prior = self.model.unigram[: self.channel.size] * is_input(self.channel)
        outputs = observed.corpus.ids[observed.sanitized]
        types, inverse = np.unique(outputs, return_inverse=True)
        words, joint, evidence = self.channel.likeliest_inputs(types, prior, self.candidates)
        present = words != NONE
        if not present[:, 0].all():
            first = int(types[np.argmin(present[:, 0])])
            raise InvalidInput(
                f"observed: no input of the channel gives the output {first}; give the mechanism "
                "and the epsilon that made these texts"
            )
        held = np.minimum(np.exp(joint - evidence[:, None]).sum(1), 1.0)
        joint = np.exp(joint - joint[:, :1])
        posterior = joint / joint.sum(1, keepdims=True)
        with np.errstate(invalid="ignore"):
            likelihood = np.where(present, joint / prior[words], 0.0)
        clear = self.model.lexicon.ids(observed.corpus)
        weights = likelihood[inverse], posterior[inverse], held[inverse]
        return Candidates.from_targets(observed, clear, words[inverse], *weights)


def decode_each(
    candidates: Candidates,
    corpus: Corpus,
    model: NGrams,
    weights: Sequence[float],
    *,
    kept: int,
    decoding: Literal["posterior", "viterbi"] = "posterior",
) -> list[Candidates]:
    """Candidates with the posterior that a language model brings about, with each of some weights.

    See `NoisyChannel`. What the lattices of pairs cost, they cost once.
    """
    solve = viterbi if decoding == "viterbi" else forward_backward
    if model.order < 3:
        return _solved(candidates, corpus, model, model.order, weights, solve)
    pairs = _solved(candidates, corpus, model, 2, weights, forward_backward)
    return [
        _solved(each.keep(kept), corpus, model, 3, [weight], solve)[0]
        for each, weight in zip(pairs, weights, strict=True)
    ]


def _solved(
    candidates: Candidates,
    corpus: Corpus,
    model: NGrams,
    order: int,
    weights: Sequence[float],
    solve: Callable[[Lattice], NDArray[Any]],
) -> list[Candidates]:
    """The candidates, for each weight, as lattices of one order judge them."""
    posteriors = np.zeros((len(weights), len(candidates.words)))
    for lattice, candidate in lattices(candidates, corpus, model, order):
        for posterior, weight in zip(posteriors, weights, strict=True):
            np.add.at(posterior, candidate, solve(lattice.tempered(weight)))
    held = np.ones(len(candidates.held)) if solve is viterbi else candidates.held
    return [replace(candidates, posterior=each, held=held) for each in posteriors]


def tuned_weight(
    channel: Channel,
    model: NGrams,
    rehearsal: Observed,
    shadow: Corpus,
    targets: IntArray | None = None,
    *,
    weights: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
) -> float:
    """The weight of the language model that does best on sanitized shadow data.

    An attacker knows the mechanism and can rehearse: sanitize the shadow data, decode it, and
    compare. The model of the rehearsal must not have read what it decodes.

    Parameters
    ----------
    model : learned from text without the documents of the targets
    rehearsal, shadow : the shadow data sanitized, and in clear
    targets : positions that count; None takes all that were sanitized
    weights : to choose from; the highest mean log probability of the truth wins
    """
    positions = check_targets(rehearsal, targets)
    if not len(positions):
        raise InvalidInput("targets: got none, expected sanitized tokens to rehearse with")
    truth = shadow.ids[positions]

    attack = NoisyChannel(channel, model=model)
    candidates = attack.context_free(rehearsal)
    decodings = decode_each(candidates, rehearsal.corpus, model, weights, kept=attack.kept)

    def log_score(decoded: Candidates) -> float:
        guesses = decoded.guesses(positions, attack.candidates)
        probability = np.where(guesses.words == truth[:, None], guesses.scores, 0.0).sum(1)
        return float(np.log(np.maximum(probability, 1e-6)).mean())

    return weights[int(np.argmax([log_score(each) for each in decodings]))]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Words that each token of a corpus may have been.

    The candidates of token i are at offsets[i] .. offsets[i + 1] - 1. `held` is the probability
    that the truth is among them, judged by the token alone, under the model of single words.
    """

    offsets: IntArray  # (tokens + 1,)
    words: IntArray  # ids of the lexicon
    likelihood: FloatArray  # P(y|x), up to a factor per token
    posterior: FloatArray  # probabilities, which sum to 1 for each token
    held: FloatArray  # (tokens,)

    @classmethod
    def from_targets(
        cls,
        observed: Observed,
        clear: IntArray,
        words: IntArray,
        likelihood: FloatArray,
        posterior: FloatArray,
        held: FloatArray | float = 1.0,
    ) -> Candidates:
        """Candidates of the sanitized tokens; all others stand for themselves.

        Parameters
        ----------
        clear : (tokens,) ids of the lexicon
        words, likelihood, posterior : (targets, candidates); NONE where a target has no more
        held : (targets,)
        """
        present = words != NONE
        counts = np.ones(len(clear), dtype=np.int64)
        counts[observed.targets] = present.sum(1)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        every, one = np.repeat(clear, counts), np.ones(offsets[-1])
        result = cls(offsets, every, one, one.copy(), np.ones(len(clear)))
        uncertain = np.repeat(observed.sanitized, counts)
        result.words[uncertain] = words[present]
        result.likelihood[uncertain] = likelihood[present]
        result.posterior[uncertain] = posterior[present]
        result.held[observed.sanitized] = held
        return result

    @property
    def counts(self) -> IntArray:
        """Number of candidates of each token."""
        return np.diff(self.offsets)

    @property
    def token(self) -> IntArray:
        """The token of each candidate."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def ranked(self) -> tuple[IntArray, IntArray]:
        """Candidates by decreasing posterior within their token, and the rank of each."""
        order = np.lexsort((-self.posterior, self.token))
        return order, np.arange(len(order)) - self.offsets[self.token]

    def keep(self, count: int) -> Candidates:
        """The `count` likeliest candidates of each token."""
        order, rank = self.ranked()
        chosen = order[rank < count]
        offsets = np.concatenate([[0], np.cumsum(np.minimum(self.counts, count))])
        token, posterior = self.token[chosen], self.posterior[chosen]
        share = np.bincount(token, posterior, minlength=len(self.counts))
        words, likelihood = self.words[chosen], self.likelihood[chosen]
        return Candidates(offsets, words, likelihood, posterior / share[token], self.held * share)

    def guesses(self, positions: IntArray, top: int) -> Guesses:
        """The `top` likeliest candidates at some positions."""
        (order, rank), token = self.ranked(), self.token
        distinct, inverse = np.unique(positions, return_inverse=True)
        row = np.full(len(self.counts), -1)
        row[distinct] = np.arange(len(distinct))
        wanted = (rank < top) & (row[token] >= 0)
        words = np.full((len(distinct), top), NONE)
        scores = np.full((len(distinct), top), -np.inf)
        place = row[token[wanted]], rank[wanted]
        words[place] = self.words[order[wanted]]
        scores[place] = (self.posterior * self.held[token])[order[wanted]]
        return Guesses(words[inverse], scores[inverse])


def lattices(
    candidates: Candidates, corpus: Corpus, model: NGrams, order: int
) -> Iterator[tuple[Lattice, IntArray]]:
    """Lattices of some documents at a time, and the candidate that each node stands for."""
    counts = candidates.counts
    size = counts.copy()
    for back in range(1, order):
        size[back:] *= counts[:-back]
    cost = np.concatenate([[0], np.cumsum(size)])
    # A document beyond that is cut: at a cut the language model begins anew.
    cuts = 1 + np.flatnonzero(np.diff(cost[:-1] // _LONGEST))
    after = np.searchsorted(corpus.offsets, cuts, side="right")
    is_long = cost[corpus.offsets[after]] - cost[corpus.offsets[after - 1]] > _LONGEST
    offsets = np.union1d(corpus.offsets, cuts[is_long])
    lengths = np.diff(offsets)
    documents = np.flatnonzero(lengths)
    group = cost[offsets[1:][documents]] // _EDGES
    build = _lattice_of_pairs if order == 3 else _lattice_of_words
    for chunk in np.split(documents, np.flatnonzero(np.diff(group)) + 1):
        if len(chunk):
            first, length = offsets[chunk], lengths[chunk]
            step = np.concatenate([np.arange(each) for each in length])
            document = np.repeat(np.arange(len(chunk)), length)
            by_step = np.argsort(step, kind="stable")
            position = (first[document] + step)[by_step]
            yield build(candidates, position, step[by_step], document[by_step], model)


def _lattice_of_words(
    candidates: Candidates, position: IntArray, step: IntArray, document: IntArray, model: NGrams
) -> tuple[Lattice, IntArray]:
    """A node for each candidate; an edge where the two words were seen side by side.

    For a model of single words there are no edges, and every word is by itself.
    """
    counts = candidates.counts[position]
    node_place = np.repeat(np.arange(len(position)), counts)
    candidate = ranges(candidates.offsets[position], counts)
    word, start = candidates.words[candidate], model.lexicon.start
    nodes = step[node_place], document[node_place], candidates.likelihood[candidate]
    base = model.unigram[word]
    if model.order == 1:
        one, none = np.ones(len(word)), np.empty(0, dtype=np.int64)
        return Lattice(*nodes, one, base, one, none, none, np.empty(0)), candidate
    # Place of the same document's position one step before; the first step has none.
    before = _place_before(step, document)
    target, source = _pairs(counts, before)
    edges, seen = model.find(word[target], word[source])
    first = np.flatnonzero(step[node_place] == 0)
    base[first] = model.probability(word[first], np.full((len(first), model.order - 1), start))
    return Lattice(
        *nodes,
        backoff=model.backoff(word),
        base=base,
        last=model.probability(np.full(len(word), model.lexicon.end), word[:, None]),
        source=source[edges],
        target=target[edges],
        edge=seen,
    ), candidate


def _lattice_of_pairs(
    candidates: Candidates, position: IntArray, step: IntArray, document: IntArray, model: NGrams
) -> tuple[Lattice, IntArray]:
    """A node for each pair of a candidate before and a candidate; all edges, with no backoff."""
    counts = candidates.counts[position]
    before = _place_before(step, document)
    own = ranges(candidates.offsets[position], counts)
    own_place = np.repeat(np.arange(len(position)), counts)
    words, start = candidates.words[own], model.lexicon.start
    earlier = np.where(before < 0, 1, counts[before])  # words before, one at the first step
    node_own = np.repeat(np.arange(len(own)), earlier[own_place])
    node_place = own_place[node_own]
    # The number of the earlier candidate.
    node_before = ranges(np.zeros(len(own), dtype=np.int64), earlier[own_place])
    first_of = np.concatenate([[0], np.cumsum(counts)])  # of a place among `own`
    is_first = before[node_place] < 0
    place_before = np.where(is_first, 0, before[node_place])
    previous = np.where(is_first, start, words[first_of[place_before] + node_before])
    word = words[node_own]
    # Nodes of a place: own candidate slow, earlier candidate fast.
    nodes_of = np.concatenate([[0], np.cumsum(counts * earlier)])
    fan = np.where(is_first, 0, earlier[place_before])
    target = np.repeat(np.arange(len(node_own)), fan)
    source = ranges(nodes_of[place_before] + node_before * earlier[place_before], fan)
    history = np.stack([previous[source], word[source]], axis=1)
    first = np.flatnonzero(is_first)
    base = np.zeros(len(word))
    base[first] = model.probability(word[first], np.full((len(first), 2), start))
    return Lattice(
        step=step[node_place],
        document=document[node_place],
        likelihood=candidates.likelihood[own[node_own]],
        backoff=np.zeros(len(word)),
        base=base,
        last=model.probability(
            np.full(len(word), model.lexicon.end), np.stack([previous, word], axis=1)
        ),
        source=source,
        target=target,
        edge=model.probability(word[target], history),
    ), own[node_own]


def _place_before(step: IntArray, document: IntArray) -> IntArray:
    """For positions sorted by step and document: where the position before stands, -1 if none."""
    documents = int(document.max()) + 1
    key = step * documents + document  # ascending
    place = np.searchsorted(key, key - documents)
    return np.where(key[place] == key - documents, place, -1)


def _pairs(counts: IntArray, before: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs of a node and a node of the place before, sorted by the later node."""
    nodes = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(np.arange(len(counts)), counts)
    earlier = np.where(before < 0, 0, counts[before])[place]
    target = np.repeat(np.arange(len(place)), earlier)
    return target, ranges(nodes[before[place]], earlier)
