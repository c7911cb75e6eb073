"""What is released, against the law that was judged: draws by the path that a user calls.

    fit = released_words(SanText(embedding, epsilon=3), np.random.default_rng(7))
    fit.p                       # below LEVEL: the words are not drawn from `log_rows`
    fit.gap, fit.factor         # what would have been caught with probability 0.99

An exact audit reads probabilities, and the output comes from other code. Here it is drawn by
`sanitize` and compared with the probabilities; see `fit` for the test.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta, gamma, laplace

from textpriv.data.tokens import Corpus, Tokenizer
from textpriv.errors import InvalidInput
from textpriv.mechanisms import FiniteMechanism, Madlib, Mechanism, RankRepair
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.polar import Polar, angle_law, mirrored
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.mechanisms.sentences import DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.models.generators import generate
from textpriv.models.vectors import SentenceVectors
from textpriv.privacy.claims import metric_root
from textpriv.privacy.fit import (
    GRID,
    Fit,
    FloatArray,
    IntArray,
    equal,
    fit_draws,
    fit_of,
    with_fit,
)
from textpriv.privacy.results import FROM_INSIDE, Audit, audited

WORDS, DRAWS = 100, 2000  # inputs, and draws of each
LONGEST = 200  # words of a text
AT_ENDS = 4  # words at either end of a text that are compared place by place
_NEAR = 1e-5  # relative: distances closer than this may be either way round in float32

# --- Words -------------------------------------------------------------------------------------


@simulation()
def released_words(
    mechanism: FiniteMechanism, rng: np.random.Generator, *, draws: int = DRAWS
) -> Fit:
    """`sanitize` of random texts against `log_rows`, `draws` of each word: see `fit_words`.

    Of WORDS random words that the mechanism replaces, and a tenth as many that it leaves.
    """
    ids = readable(mechanism.embedding.words, mechanism.inputs, WORDS, rng)
    if mechanism.inputs is not None:
        spared = np.setdiff1d(np.arange(mechanism.size), mechanism.inputs)
        ids = np.append(ids, readable(mechanism.embedding.words, spared, WORDS // 10, rng))

    def law(factor: float) -> FloatArray:
        return np.asarray(np.exp(_scaled(mechanism, factor).log_rows(ids)))

    return fit_words(mechanism, ids, law, draws, rng)


def readable(
    vocabulary: Sequence[str], among: IntArray | None, count: int, rng: np.random.Generator
) -> IntArray:
    """Random words that the tokenizer reads as what they are: at most `count` ids."""
    tokenizer = Tokenizer(vocabulary)
    order = rng.permutation(len(vocabulary) if among is None else among)
    words = [
        word
        for word in order[: 4 * count].tolist()
        if tokenizer.encode([vocabulary[word]]).ids.tolist() == [word]
    ]
    if not words and len(order):
        raise InvalidInput("vocabulary: got no word that a text can hold, expected words")
    return np.array(words[:count], dtype=np.int64)


def fit_words(
    mechanism: Any,
    ids: IntArray,
    law: Callable[[float], FloatArray],
    draws: int,
    rng: np.random.Generator,
) -> Fit:
    """`sanitize` of random texts of some words, `draws` of each, against a law of their outputs.

    Outputs are compared word by word, place by place and by the length of the text; and repeated
    words, neighbours and copies of a text must not share their draws.
    """
    drawn = sanitized(mechanism, ids, draws, rng)
    return fit_draws(law, drawn.outputs, rng, strata=drawn.strata, pairs=drawn.pairs)


@dataclass(frozen=True)
class Drawn:
    """Outputs for words that stood in random texts, each of which was sent twice.

    Attributes
    ----------
    outputs : (words, draws) ids, -1 for what is no word; draws in the order of the texts
    order : (tokens,) place in `outputs`, flat, of every token of the texts, in their order
    offsets : (texts + 1,) where texts begin; text 2i + 1 is a copy of text 2i
    """

    outputs: IntArray
    order: IntArray
    offsets: IntArray

    @property
    def words(self) -> IntArray:
        """Row of `outputs` of every token of the texts, in their order."""
        return self.order // self.outputs.shape[1]

    @property
    def strata(self) -> list[IntArray]:
        """How far from its text's begin and end every output stood, and how long that text was.

        Each of the shape of `outputs`. Distances of AT_ENDS and more are one, and so are lengths of
        one power of two.
        """
        lengths = np.diff(self.offsets).repeat(np.diff(self.offsets))
        before = np.arange(len(lengths)) - self._begins
        told = [before, lengths - 1 - before]
        told = [*(np.minimum(each, AT_ENDS) for each in told), np.frexp(lengths)[1]]
        strata = [np.empty(self.outputs.shape, dtype=np.int64) for _ in told]
        for stratum, each in zip(strata, told, strict=True):
            stratum.flat[self.order] = each
        return strata

    @property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Tokens beside each other in a text."""
        second = np.flatnonzero(np.arange(len(self.order)) > self._begins)
        return second - 1, second

    @property
    def copies(self) -> tuple[IntArray, IntArray]:
        """Tokens of a text, and the same of its copy."""
        lengths = np.diff(self.offsets)
        first = np.flatnonzero((np.arange(len(lengths)) % 2 == 0).repeat(lengths))
        return first, first + lengths[::2].repeat(lengths[::2])

    @property
    def pairs(self) -> list[tuple[IntArray, IntArray]]:
        """Outputs that must not share a draw, as places in `outputs`, flat.

        Of a word and of its next occurrence, of neighbours, and of copies.
        """
        places = np.arange(self.outputs.size).reshape(self.outputs.shape)
        again = places[:, :-1].ravel(), places[:, 1:].ravel()
        apart = (self.neighbours, self.copies)
        return [again, *((self.order[first], self.order[second]) for first, second in apart)]

    @property
    def _begins(self) -> IntArray:
        """Where the text of every token begins."""
        return self.offsets[:-1].repeat(np.diff(self.offsets))


def sanitized(mechanism: Any, ids: IntArray, draws: int, rng: np.random.Generator) -> Drawn:
    """Outputs for words that stand `draws` times each, an even number, in random texts.

    Texts have 1 to LONGEST words, short ones likelier: the logarithm of the length is uniform.
    """
    vocabulary = mechanism.embedding.words
    rows = rng.permutation(np.repeat(np.arange(len(ids)), draws // 2))
    lengths = np.exp(rng.random(len(rows)) * np.log(LONGEST + 1)).astype(np.int64)
    ends = np.cumsum(lengths)
    once = np.split(rows, ends[ends < len(rows)])
    sent = [rows for rows in once for _ in range(2)]
    outputs = mechanism.sanitize([" ".join(vocabulary[word] for word in ids[t]) for t in sent], rng)
    index = {word: row for row, word in enumerate(vocabulary)}
    read = []
    for text, output in zip(sent, outputs, strict=True):
        words = [index.get(word, -1) for word in output.split(" ")]
        read += words if len(words) == len(text) else [-1] * len(text)
    places = np.argsort(np.concatenate(sent), kind="stable")
    order = np.empty(len(places), dtype=np.int64)
    order[places] = np.arange(len(places))
    drawn = np.array(read, dtype=np.int64)[places].reshape(len(ids), -1)
    return Drawn(drawn, order, np.cumsum([0, *map(len, sent)]))


def _scaled(mechanism: Any, factor: float) -> Any:
    return mechanism if factor == 1 else mechanism.with_epsilon(factor * mechanism.epsilon)


@simulation()
def released_map(mapper: LossyMap) -> Fit:
    """Every word of the vocabulary through `sanitize_corpus`."""
    every = np.arange(mapper.size)
    corpus = Corpus(ids=every, offsets=np.array([0, mapper.size]), kept={})
    return equal(mapper.sanitize_corpus(corpus).ids, mapper.representative)


def released_stencil(stencil: Stencil, corpus: Corpus) -> Fit:
    """Every token against the one nearest to its mean, by distances to all of them."""
    table, active = stencil.table, stencil.replaced(corpus)
    rows = np.flatnonzero(active)
    weights = stencil.weights(corpus)[rows]
    known = np.where(active, corpus.ids, 0)
    points, vectors = weights @ table.vectors[known].astype(np.float64), table.vectors
    if table.measure == "cosine":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = torch.cdist(torch.from_numpy(points), torch.from_numpy(vectors.astype(np.float64)))
    distance = apart.numpy()
    distance[:, table.fixed] = np.inf
    other = np.full(len(rows), stencil.change) | (
        stencil.punctuated & (weights[np.arange(len(rows)), rows] > 0)
    )
    distance[other, corpus.ids[rows[other]]] = np.inf  # must be another token
    outputs = stencil.sanitize_corpus(corpus).ids
    expected = corpus.ids.copy()
    expected[rows] = distance.argmin(axis=1)
    at_hand = distance[np.arange(len(rows)), outputs[rows]]
    level = rows[at_hand <= distance.min(axis=1) * (1 + _NEAR)]  # as near as the nearest
    expected[level] = outputs[level]
    return equal(outputs, expected)


# --- Sentences and texts -------------------------------------------------------------------------


@simulation()
def released_candidates(
    mechanism: DeepCandidate,
    documents: Sequence[NDArray[np.float32]],
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
) -> Fit:
    """`sanitize` of copies of some documents against `log_probability`."""
    drawn = [mechanism.sanitize(copies(each, draws), rng) for each in documents]

    def law(factor: float) -> FloatArray:
        scaled = _scaled(mechanism, factor)
        return np.exp(np.stack([scaled.log_probability(each) for each in documents]))

    return fit_draws(law, np.stack(drawn), rng)


@simulation()
def released_laplace(
    mechanism: TruncatedLaplace,
    documents: Sequence[NDArray[np.float32]],
    rng: np.random.Generator,
) -> Fit:
    """`sanitize` of copies of some documents against the Laplace law around clipped means."""
    box, each = mechanism.box, []
    for document in documents:
        mean = np.clip(document.astype(np.float64), box.low, box.high).mean(0)
        scale = box.range * mechanism.width / (len(document) * mechanism.epsilon)
        y = mechanism.sanitize(copies(document, DRAWS), rng)
        each.append(np.asarray(laplace.cdf((y - mean) / scale)))

    def errors(factor: float) -> list[float]:
        return [float(np.abs(laplace.cdf(factor * laplace.ppf(GRID)) - GRID).max())]

    return fit_of([np.concatenate(each).ravel(), *(part for one in each for part in one.T)], errors)


def copies(document: NDArray[np.float32], count: int) -> SentenceVectors:
    """A document so many times."""
    offsets = np.arange(count + 1, dtype=np.int64) * len(document)
    return SentenceVectors(np.tile(document, (count, 1)), offsets)


@simulation()
def released_prompt(mechanism: DPPrompt, texts: Sequence[str], seed: int) -> Fit:
    """`sanitize` of copies of some texts against softmax(clip(scores) / T), token by token.

    The scores are those that the model gives in the loop that generates; they are clipped, heated
    and normalised here.

    Parameters
    ----------
    mechanism : of a small vocabulary and at most two tokens, each output of which reads
        differently

    Raises
    ------
    InvalidInput : no limits; outputs that read alike
    """
    generator, limits = mechanism.generator, mechanism.limits
    if limits is None:
        raise InvalidInput("mechanism: got no limits, expected a DPPrompt with a guarantee")
    end = int(np.searchsorted(generator.sayable, generator.end))
    size = len(generator.sayable)
    said = [place for place in range(size) if place != end]
    outputs: list[tuple[int, ...]] = [(end,), *((place,) for place in said)]
    if mechanism.tokens > 1:
        outputs = [(end,), *((one, two) for one in said for two in range(size))]
    scores = _scores_along(mechanism, texts, outputs)
    column = np.array([[*each, *[end] * (mechanism.tokens - len(each))] for each in outputs])

    def law(factor: float) -> FloatArray:
        low = np.where(np.isfinite(scores), scores, limits.low)
        heated = np.clip(low, limits.low, limits.high) * factor / mechanism.temperature
        chance = np.exp(heated - np.logaddexp.reduce(heated, axis=-1, keepdims=True))
        taken = np.take_along_axis(chance, column[None, :, :, None], axis=-1)[..., 0]
        given = np.arange(mechanism.tokens) < np.array([len(each) for each in outputs])[:, None]
        return np.asarray(np.where(given, taken, 1.0).prod(-1))

    spoken = generator.say([[generator.sayable[p] for p in each if p != end] for each in outputs])
    index = {text: place for place, text in enumerate(spoken)}
    if len(index) < len(outputs):
        raise InvalidInput("mechanism: got outputs that read alike, expected each to differ")
    copies = [text for text in texts for _ in range(DRAWS)]
    drawn = [index.get(text, -1) for text in mechanism.sanitize(copies, seed, batch=1024)]
    rng = np.random.default_rng(seed)
    return fit_draws(law, np.array(drawn, dtype=np.int64).reshape(len(texts), DRAWS), rng)


def _scores_along(
    mechanism: DPPrompt, texts: Sequence[str], outputs: Sequence[tuple[int, ...]]
) -> FloatArray:
    """Scores before each token of each output: (texts, outputs, tokens, vocabulary), else NaN."""
    generator, tokens = mechanism.generator, mechanism.tokens
    scores = np.full((len(texts), len(outputs), tokens, len(generator.sayable)), np.nan)
    step = np.zeros((len(texts), len(outputs)), dtype=np.int64)

    def follow(logits: torch.Tensor, numbers: IntArray) -> IntArray:
        text, output = np.divmod(numbers, len(outputs))
        at = step[text, output]
        scores[text, output, at] = logits.double().cpu().numpy()
        step[text, output] += 1
        return np.array([outputs[o][s] for o, s in zip(output, at, strict=True)], dtype=np.int64)

    prompts = [prompt for prompt in mechanism.prompts(texts) for _ in outputs]
    for _ in generate(generator, prompts, follow, tokens=tokens, batch=1024):
        pass
    return scores


# --- Noise from inside ---------------------------------------------------------------------------
# A vector of density proportional to exp(-eps |z|) loses eps d between any two words, by the
# triangle inequality, and no more is lost by what is done with it. Here the noise that `sanitize`
# really uses is taken down and compared with that law: its length, its direction, what two draws
# have in common, and the word that is made of the noisy vector. Flaws that leave no trace in words,
# of which there are many in 300 dimensions, show all the same.

Noisy = Madlib | Polar | AfterNoise
_NOISY_WORDS, _NOISY_DRAWS = 20, 200  # inputs, and draws of each
_BYTES = 64 << 20


@simulation()
def audit_noise(mechanism: Noisy, rng: np.random.Generator) -> Audit:
    """Noise by its density, for all pairs of words, and the noise of `sanitize` against it.

    Tested are the radius (Gamma; the angle for Polar), the direction along every axis and where
    some of the draws have least noise, what two draws have in common, and the output given the
    noisy vector: the nearest word (MADLIB, Mahalanobis, Polar), a word of geometric rank around it
    (rank repair), one of the nearest two (Vickrey). A length that depends on the direction is not
    looked for otherwise.

    Parameters
    ----------
    mechanism : with exact search
    """
    noise = mechanism.madlib if isinstance(mechanism, AfterNoise) else mechanism
    ids = readable(mechanism.embedding.words, None, _NOISY_WORDS, rng)
    drawn, vectors = _watched(mechanism, noise, ids, _NOISY_DRAWS, rng)
    outputs = drawn.outputs.flat[drawn.order]
    origins, n = _points(noise)[ids[drawn.words]], noise.embedding.dimension
    if len(vectors) != len(outputs) or (outputs < 0).any():
        places = [np.full(len(outputs), np.nan)]  # some output came without noise
    else:
        given = _given_noise(mechanism, vectors, outputs, rng)
        together = (drawn.neighbours, drawn.copies)
        places = [*_noise_places(noise, vectors, origins, together, rng), given]

    def errors(factor: float) -> list[float]:
        if isinstance(noise, Polar):
            angles, reached = angle_law(n, factor * noise.concentration)
            stated = np.interp(angles, *angle_law(n, noise.concentration))
            return [float(np.abs(np.interp(GRID, reached, stated) - GRID).max())]
        return [float(np.abs(gamma.cdf(factor * gamma.ppf(GRID, n), n) - GRID).max())]

    audit = audited(
        mechanism,
        FROM_INSIDE,
        mechanism.size * (mechanism.size - 1) // 2,
        f"eps {mechanism.epsilon:g}, {mechanism.size:,} words, dimension {n}",
        worst_ratio=1.0,
    )
    return with_fit(audit, fit_of(places, errors))


def _watched(
    mechanism: Noisy,
    noise: Madlib | Polar,
    ids: IntArray,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Drawn, FloatArray]:
    """Outputs of `sanitize`, and all noisy vectors that it made on the way."""
    seen = []

    def recorded(ids: IntArray, rng: np.random.Generator) -> Iterator[FloatArray]:
        for vectors in noise.noisy_vectors(ids, rng):
            seen.append(vectors.copy())
            yield vectors

    watched = copy.copy(noise)
    watched.noisy_vectors = recorded  # type: ignore[method-assign]
    tried: Noisy = watched
    if isinstance(mechanism, AfterNoise):
        tried = copy.copy(mechanism)
        tried.madlib = watched  # type: ignore[assignment]
    drawn = sanitized(tried, ids, draws, rng)
    return drawn, np.concatenate([*seen, np.empty((0, noise.embedding.dimension))])


def _points(mechanism: Mechanism) -> FloatArray:
    """Where the words lie among which the noisy vector chooses."""
    points = mechanism.embedding.vectors.astype(np.float64)
    if isinstance(mechanism, Polar):
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def _noise_places(
    noise: Madlib | Polar,
    vectors: FloatArray,
    origins: FloatArray,
    together: Sequence[tuple[IntArray, IntArray]],
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Places of the length, Gamma(n, 1 / eps), or the angle; of the direction; of two draws."""
    if isinstance(noise, Polar):
        turned = mirrored(vectors, origins)  # the word's direction is the first axis
        sine = np.linalg.norm(turned[:, 1:], axis=1)
        law = angle_law(noise.embedding.dimension, noise.concentration)
        place = np.interp(np.arctan2(sine, turned[:, 0]), *law)
        units = turned[:, 1:] / sine[:, None]
    else:
        added = np.linalg.solve(metric_root(noise), (vectors - origins).T).T
        radius = np.linalg.norm(added, axis=1)
        place = np.asarray(gamma.cdf(noise.epsilon * radius, noise.embedding.dimension))
        units = added / radius[:, None]
    if not np.isfinite(units).all():
        return [place, np.full(len(place), np.nan)]  # no noise has no direction
    shared = [part for pair in together for part in _together(place, units, *pair, rng)]
    return [place, *_directions(place, units, rng), *shared]


def _directions(place: FloatArray, units: FloatArray, rng: np.random.Generator) -> list[FloatArray]:
    """Places of uniform directions along every axis, and where noise may be missing.

    The shorter half of the noise says where it has least, where most and where its mean lies, and
    the longer half is tested there: a direction without noise shows however it is turned.
    """
    shorter, longer = np.array_split(units[np.argsort(place, kind="stable")], 2)
    _, axes = np.linalg.eigh(shorter.T @ shorter)
    mean = shorter.mean(axis=0)
    suspected = longer @ np.stack([axes[:, 0], axes[:, -1], mean / np.linalg.norm(mean)], axis=1)
    n = units.shape[1]
    return [_cosine_places(each, n, rng) for each in (*units.T, *suspected.T)]


def _together(
    place: FloatArray,
    units: FloatArray,
    first: IntArray,
    second: IntArray,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Places of what two draws have in common: their lengths, and the angle between them."""
    cosines = (units[first] * units[second]).sum(1)
    return [(place[second] - place[first]) % 1, _cosine_places(cosines, units.shape[1], rng)]


def _cosine_places(cosine: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Places of the cosine of a direction that is uniform in n dimensions with another one."""
    if n == 1:  # a sign
        return (rng.random(len(cosine)) + (cosine > 0)) / 2
    half = (n - 1) / 2
    return np.asarray(beta.cdf((1 + cosine) / 2, half, half))


@torch.inference_mode()
def _given_noise(
    mechanism: Noisy, vectors: FloatArray, outputs: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Place of every output by its rank around the noisy vector, or the word nearest to it."""
    table = torch.from_numpy(_points(mechanism))
    rank, nearest = np.empty(len(outputs)), np.empty((len(outputs), 2))
    parts = -(-len(vectors) * 16 * len(table) // _BYTES)
    for part in np.array_split(np.arange(len(vectors)), max(1, parts)):
        apart = torch.cdist(torch.from_numpy(vectors[part]), table)
        if isinstance(mechanism, RankRepair):
            apart = torch.cdist(table[apart.argmin(1)], table)
        own = apart.gather(1, torch.from_numpy(outputs[part])[:, None])
        rank[part] = (apart < own * (1 - _NEAR)).sum(1).numpy()
        nearest[part] = apart.topk(2, largest=False).values.numpy()
    share = rng.random(len(outputs))
    if isinstance(mechanism, RankRepair):
        rate = mechanism.c * mechanism.epsilon
        upto = np.expm1(-rate * np.stack([rank, rank + 1])) / np.expm1(-rate * mechanism.size)
        return np.asarray(upto[0] + share * (upto[1] - upto[0]))
    first = np.ones(len(outputs))
    if isinstance(mechanism, Vickrey):
        near, far = mechanism.t * nearest[:, 0], (1 - mechanism.t) * nearest[:, 1]
        first = far / (near + far)
    second = first + share * (1 - first)
    place = np.where(rank == 0, share * first, np.where(rank == 1, second, np.nan))
    return np.where((rank == 1) & (first == 1), np.nan, place)
