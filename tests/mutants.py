"""Flaws of released code and of libraries as small wrong mechanisms, and the audit of each.

Every case names a flaw, the audit that must catch it, the wrong mechanism and the right one, which
the same audit must pass. `python tests/mutants.py` prints which audit caught what.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from helpers import FloatArray, distances, embedding, normal_embedding
from scipy.special import logsumexp

from textpriv.channel import SparseChannel
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import Corpus
from textpriv.experiments.audits import small_generator
from textpriv.mechanisms import (
    TEM,
    CusText,
    CusTextPlus,
    FiniteMechanism,
    Madlib,
    Mahalanobis,
    Mechanism,
    RankRepair,
    SanText,
    SanTextPlus,
)
from textpriv.mechanisms.clusant import CluSanT
from textpriv.mechanisms.diffractor import Diffractor
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.noise import AfterNoise
from textpriv.mechanisms.polar import Polar
from textpriv.mechanisms.prompt import DPPrompt, Limits
from textpriv.mechanisms.rantext import RanText
from textpriv.mechanisms.registry import examples
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.models.vectors import SentenceVectors
from textpriv.neighbors import random_directions
from textpriv.privacy import (
    Audit,
    audit_exactly,
    audit_laplace,
    audit_map,
    audit_noise,
    audit_noise_length,
    audit_words,
    draw_words,
)
from textpriv.privacy.exact import audit_candidates, audit_next_token, audit_prompt, audit_stencil
from textpriv.privacy.fit import with_fit
from textpriv.privacy.released import released_laplace
from textpriv.privacy.sampled import PlainSearch, at_most, spread_words

IntArray = Any
Rng = np.random.Generator


def normalised(weights: FloatArray) -> FloatArray:
    """Logarithms of weights, as logarithms of probabilities."""
    return weights - logsumexp(weights, axis=1, keepdims=True)


def one_leaf(table: Embedding) -> Any:
    """Which words an index of one tree and one split finds from which: those on its side."""
    side = table.vectors @ np.random.default_rng(3).standard_normal(table.dimension) > 0
    return side[:, None] == side[None]


class _Tabled(FiniteMechanism):
    """A mechanism whose law is a table of logarithms."""

    def log_table(self) -> FloatArray:
        raise NotImplementedError

    @cached_property
    def _table(self) -> FloatArray:
        return self.log_table()

    def log_rows(self, inputs: IntArray) -> FloatArray:
        return self._table[inputs]

    def log_columns(self, outputs: IntArray) -> FloatArray:
        return self._table.T[outputs]

    def _cumulative(self, inputs: IntArray) -> FloatArray:
        return np.cumsum(np.exp(self._table[inputs]), axis=1)


class TemBottomOfRatio(_Tabled, TEM):
    """ln(|V| / |L|) in the score of bottom, in place of ln|V - L|."""

    def log_table(self) -> FloatArray:
        distance = distances(self.embedding)
        near = distance <= self.gamma
        far = (~near).sum(1, keepdims=True)
        bottom = -self.epsilon / 2 * self.gamma + np.log(self.size / near.sum(1, keepdims=True))
        with np.errstate(divide="ignore"):
            each = bottom - np.log(far)
        return normalised(np.where(near, -self.epsilon / 2 * distance, each))


class TemBottomReturnsInput(_Tabled, TEM):
    """Bottom raises an error, and the caller puts out the word as it is."""

    def log_table(self) -> FloatArray:
        right = np.exp(TEM.log_rows(self, np.arange(self.size)))
        near = distances(self.embedding) <= self.gamma
        law = np.where(near, right, 0.0)
        law[np.diag_indices(self.size)] += np.where(near, 0.0, right).sum(1)
        with np.errstate(divide="ignore"):
            return np.log(law)


class TemApproximate(_Tabled, TEM):
    """The near words come from an index that misses some; these count as far."""

    def log_table(self) -> FloatArray:
        seen = np.where(one_leaf(self.embedding), distances(self.embedding), np.inf)
        return normalised(-self.epsilon / 2 * np.minimum(seen, self.gamma))


class SanTextApproximate(_Tabled, SanText):
    """Distances to what an index finds; all else is as far as the farthest of these."""

    def log_table(self) -> FloatArray:
        distance, same_leaf = distances(self.embedding), one_leaf(self.embedding)
        farthest = np.where(same_leaf, distance, 0.0).max(1, keepdims=True)
        return normalised(-self.epsilon / 2 * np.where(same_leaf, distance, farthest))


class SanTextAtABudgetByTheWord(_Tabled, SanText):
    """Every other word, as if it were listed as a secret, has a quarter of the epsilon."""

    def log_table(self) -> FloatArray:
        epsilon = np.where(np.arange(self.size) % 2, self.epsilon, self.epsilon / 4)
        return normalised(-epsilon[:, None] / 2 * distances(self.embedding))


class CusTextApproximateGroups(CusText):
    """Groups from an index that words cannot be taken out of, so that they overlap."""

    def __init__(self, table: Embedding, **options: Any) -> None:
        super().__init__(table, **options)
        self.candidates = CusText(table, **{**options, "mapping": "aggressive"}).candidates
        self.scores = self._scores()


class CluSanTWithoutDiameters(CluSanT):
    """Distances of words that are not divided by the diameter of their cluster."""

    @property
    def rates(self) -> FloatArray:
        return np.full(len(self.members), self.epsilon / 2)


class DiffractorRenormalised(Diffractor):
    """Steps beyond an end are drawn anew, in place of ending there."""

    def _log_law(self, origin: IntArray, end: IntArray) -> FloatArray:
        each = [self._normalised(one, other) for one, other in zip(origin, end, strict=True)]
        return np.asarray(np.logaddexp.reduce(each) - np.log(len(each)))

    def _normalised(self, one: IntArray, other: IntArray) -> FloatArray:
        down, up = one, self.size - 1 - one
        total = 1 + sum((1 - np.exp(-self.epsilon * far)) for far in (down, up)) / np.expm1(
            self.epsilon
        )
        return np.asarray(-self.epsilon * np.abs(one - other) - np.log(total))


class SensitiveSetOffByOne(SanTextPlus):
    """The most frequent sensitive word is taken for one that is not."""

    def log_rows(self, inputs: IntArray) -> FloatArray:
        rows = super().log_rows(inputs)
        spared = np.asarray(inputs) == np.flatnonzero(self.is_sensitive)[0]
        rows[spared] = -np.inf
        rows[spared, np.asarray(inputs)[spared]] = 0.0
        return rows


def tem_by_gumbel(mechanism: TEM, word: int, dtype: Any) -> set[int]:
    """Words that TEM with Gumbel noise of one precision can put out at all.

    The noise is -ln(-ln u) with u on the grid of that precision: largest and smallest values.
    """
    digits = np.finfo(dtype).nmant + 1
    least, most = (-np.log(-np.log(u)) for u in (2.0**-digits, 1 - 2.0**-digits))
    score = (
        -mechanism.epsilon / 2 * np.minimum(distances(mechanism.embedding)[word], mechanism.gamma)
    )
    return set(np.flatnonzero(score + most >= (score + least).max()).tolist())


class OtherNoise(Madlib):
    """MADLIB with noise of another law: (count, n) numbers at an epsilon."""

    def __init__(self, table: Embedding, drawn: Callable[..., FloatArray], **options: Any) -> None:
        super().__init__(table, **options)
        self.drawn = drawn

    def _noise(self, count: int, chunk: int, rng: Rng) -> Iterator[FloatArray]:
        noise = self.drawn(count, self.embedding.dimension, self.epsilon, rng)
        for start in range(0, max(1, count), chunk):
            yield noise[start : start + chunk]


def shape_too_small(count: int, n: int, epsilon: float, rng: Rng) -> FloatArray:
    """A radius of Gamma(n - 1)."""
    return rng.gamma(n - 1, 1 / epsilon, (count, 1)) * random_directions(count, n, rng)


def scale_too_small(count: int, n: int, epsilon: float, rng: Rng) -> FloatArray:
    """A radius of scale 1 / (1.25 eps): a quarter more is lost than is claimed."""
    return rng.gamma(n, 0.8 / epsilon, (count, 1)) * random_directions(count, n, rng)


def gaussian(count: int, n: int, epsilon: float, rng: Rng) -> FloatArray:
    """Normal coordinates of the same variance as MADLIB's: the tails are too thin."""
    return rng.normal(scale=np.sqrt(n + 1) / epsilon, size=(count, n))


def laplace_per_coordinate(count: int, n: int, epsilon: float, rng: Rng) -> FloatArray:
    """A Laplace variable of scale 1/eps per coordinate: private in another metric."""
    return rng.laplace(scale=1 / epsilon, size=(count, n))


class Renormalised(Mahalanobis):
    """A^(1/2) u scaled to length 1 again."""

    def stretched(self, directions: FloatArray) -> FloatArray:
        shaped = super().stretched(directions)
        return shaped / np.linalg.norm(shaped, axis=1, keepdims=True)


class NeverTheInput(Madlib):
    """The nearest word but the input."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        points = np.concatenate(list(self.noisy_vectors(ids, rng)))
        nearest = self.search.nearest(points, 2)[0]
        return np.where(nearest[:, 0] == ids, nearest[:, 1], nearest[:, 0])


class VickreyWithoutTheInput(Madlib):
    """The second nearest word of those that are not the input, half of the time."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        points = np.concatenate(list(self.noisy_vectors(ids, rng)))
        nearest = self.search.nearest(points, 3)[0]
        first = np.where(nearest[:, 0] == ids, nearest[:, 1], nearest[:, 0])
        second = np.where((nearest[:, :2] == ids[:, None]).any(1), nearest[:, 2], nearest[:, 1])
        return np.where(rng.random(len(ids)) < 0.5, first, second)


class NoNeighbour(Madlib):
    """The index finds nothing now and then, and its -1 is passed on."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        return np.where(rng.random(len(ids)) < 0.01, -1, super()._replace(ids, rng))


class RanksAroundTheWord(RankRepair):
    """Words ranked around the word itself, in place of around MADLIB's output."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        ranked = np.argsort(distances(self.embedding), axis=1, kind="stable")
        return ranked[ids, self.ranks(len(ids), rng)]


def lacking(mechanism: Any, share: float) -> Any:
    """The same mechanism with a share of its noise, at every epsilon."""
    short = copy.copy(mechanism)
    if isinstance(mechanism, AfterNoise):
        short.madlib = lacking(mechanism.madlib, share)
    else:
        short.stretched = lambda directions: share * mechanism.stretched(directions)
    return short


class LaplaceClipsTheMean(TruncatedLaplace):
    """The mean is clipped, not each sentence: it can move by the whole range."""

    def clipped_mean(self, sentences: SentenceVectors) -> FloatArray:
        return np.clip(sentences.mean().astype(np.float64), self.box.low, self.box.high)


class LaplaceLacking(TruncatedLaplace):
    """A share of the noise."""

    def __init__(self, box: Box, *, epsilon: float, share: float) -> None:
        super().__init__(box, epsilon=epsilon)
        self.share = share

    def scale(self, sentences: SentenceVectors) -> FloatArray:
        return super().scale(sentences) * self.share


class DepthWithoutHalf(DeepCandidate):
    """exp(eps depth) in place of exp(eps depth / 2)."""

    def _log_law(self, depth: IntArray) -> FloatArray:
        return normalised((self.epsilon * depth)[None].astype(np.float64))[0]


def drawing_at(mechanism: Any, factor: float) -> Any:
    """The right probabilities, and draws at so many times epsilon."""
    wrong = copy.copy(mechanism)
    wrong.sample = mechanism.with_epsilon(factor * mechanism.epsilon).sample
    return wrong


def acting_at(mechanism: Any, factor: float) -> Any:
    """Probabilities and draws at so many times the epsilon that is claimed."""
    wrong = drawing_at(mechanism, factor)
    scaled = mechanism.with_epsilon(factor * mechanism.epsilon)
    wrong.log_rows, wrong.log_columns = scaled.log_rows, scaled.log_columns
    if isinstance(mechanism, SparseChannel):
        wrong.log_matrix = scaled.log_matrix
    return wrong


class SanTextPlusSparesOneInTwenty(SanTextPlus):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        return np.where(rng.random(len(inputs)) < 0.05, inputs, super().sample(inputs, rng))


class TemDrawsTheInputForBottom(TEM):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        drawn = super().sample(inputs, rng)
        far = distances(self.embedding)[inputs, drawn] > self.gamma
        return np.where(far, inputs, drawn)


class CluSanTKeepsTheCluster(CluSanT):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        kept = CluSanT(self.embedding, epsilon=self.epsilon, cluster_scale=1e6)
        return kept.sample(inputs, rng)


class DiffractorOfOneList(Diffractor):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        other = copy.copy(self)
        other.order, other.place = self.order[:1], self.place[:1]
        return Diffractor.sample(other, inputs, rng)


class RanTextOfOneRadius(RanText):
    """The mean radius in place of a random one."""

    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        class Even(np.random.Generator):
            def laplace(self, *rest: Any, **options: Any) -> FloatArray:
                drawn = super().laplace(*rest, **options)
                length = np.linalg.norm(drawn, axis=1, keepdims=True)
                return np.asarray(drawn / length * length.mean())

        return super().sample(inputs, Even(rng.bit_generator))


class PolarWithoutPi(Polar):
    """kappa = eps."""

    @property
    def concentration(self) -> float:
        return self.epsilon


class PolarLessNoise(Polar):
    """Angles of 1.25 kappa, of whose law nothing is said."""

    def noisy_vectors(self, ids: IntArray, rng: Rng) -> Iterator[FloatArray]:
        yield from Polar.noisy_vectors(self.with_epsilon(1.25 * self.epsilon), ids, rng)


class SanTextAroundThePreviousWord(SanText):
    """Each output is of the word before, the first of the last."""

    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        return super().sample(np.roll(inputs, 1), rng)


class SanTextByTexts(SanText):
    """Some words of every text leave in clear."""

    def in_clear(self, corpus: Corpus) -> Any:
        raise NotImplementedError

    def sanitize_corpus(self, corpus: Corpus, rng: Any = None, *, reuse: bool = False) -> Corpus:
        drawn = super().sanitize_corpus(corpus, rng, reuse=reuse)
        return corpus.with_ids(np.where(self.in_clear(corpus), corpus.ids, drawn.ids))


class SanTextWithoutTheFirst(SanTextByTexts):
    def in_clear(self, corpus: Corpus) -> Any:
        return np.isin(np.arange(len(corpus.ids)), corpus.offsets[:-1])


class SanTextWithoutTheLast(SanTextByTexts):
    def in_clear(self, corpus: Corpus) -> Any:
        return np.isin(np.arange(len(corpus.ids)), corpus.offsets[1:] - 1)


class SanTextWithoutShortTexts(SanTextByTexts):
    def in_clear(self, corpus: Corpus) -> Any:
        lengths = np.diff(corpus.offsets)
        return np.repeat(lengths < 4, lengths)


class SanTextOfOneDraw(SanText):
    """A word that is repeated in a text gets one draw."""

    def sanitize_corpus(self, corpus: Corpus, rng: Any = None, *, reuse: bool = False) -> Corpus:
        return super().sanitize_corpus(corpus, rng, reuse=True)


class SanTextOfOneUniform(SanText):
    """Two words beside each other are drawn by one uniform number."""

    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        uniform = rng.random((len(inputs) + 1) // 2).repeat(2)[: len(inputs)]
        upto = np.exp(self.log_rows(inputs)).cumsum(1)
        return np.asarray(np.minimum((upto < uniform[:, None]).sum(1), self.size - 1))


class SanTextStartsAnew(SanText):
    """Every text is sanitized from the same seed."""

    def sanitize(self, texts: Sequence[str], rng: Rng, **options: Any) -> list[str]:
        seed, whole = int(rng.integers(2**62)), super().sanitize
        return [whole([text], np.random.default_rng(seed), **options)[0] for text in texts]


class MadlibAroundThePreviousWord(Madlib):
    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        return super()._replace(np.roll(ids, 1), rng)


class CusTextReturnsItsInput(CusText):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        return np.asarray(inputs).copy()


class CusTextPlusReplacesStopwords(CusTextPlus):
    def sample(self, inputs: IntArray, rng: Rng) -> IntArray:
        plain = CusText(self.embedding, epsilon=self.epsilon, set_size=self.set_size)
        return plain.sample(inputs, rng)


class MadlibPrefersTheInput(Madlib):
    """The input itself if it is among the five nearest words: a leak through the look-up."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        points = np.concatenate(list(self.noisy_vectors(ids, rng)))
        nearest = self.search.nearest(points, 5)[0]
        return np.where((nearest == ids[:, None]).any(1), ids, nearest[:, 0])


class MadlibSparesADirection(Madlib):
    """Noise of the right length that never leaves the plane across (1, ..., 1)."""

    def stretched(self, directions: FloatArray) -> FloatArray:
        across = directions - directions.mean(axis=1, keepdims=True)
        length = [np.linalg.norm(each, axis=1, keepdims=True) for each in (directions, across)]
        return np.asarray(across * length[0] / length[1])


class MadlibSharesNoise(Madlib):
    """Two words beside each other get the same noise, so that their difference has none."""

    def _noise(self, count: int, chunk: int, rng: Rng) -> Iterator[FloatArray]:
        for part in super()._noise(count, chunk, rng):
            part[1::2] = part[: 2 * (len(part) // 2) : 2]
            yield part


class MadlibStartsAnew(Madlib):
    """Every text gets the noise of the first."""

    def sanitize(self, texts: Sequence[str], rng: Rng, **options: Any) -> list[str]:
        def anew() -> Rng:
            return np.random.default_rng(seed)

        seed = int(rng.integers(2**62))
        return [Madlib.sanitize(self, [each], anew(), **options)[0] for each in texts]


class RanksAtMoreEpsilon(RankRepair):
    def ranks(self, count: int, rng: Rng) -> IntArray:
        return super().ranks(2 * count, rng).reshape(2, count).min(0)  # of twice the rate


class VickreyOfAnotherT(Vickrey):
    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        return Vickrey(self.madlib, t=self.t / 2)._replace(ids, rng)


class DeepestCandidate(DeepCandidate):
    def sanitize(self, sentences: SentenceVectors, rng: Rng | None = None) -> IntArray:
        return np.array([self.depth(sentences[i]).argmax() for i in range(len(sentences))])


class LaplaceAtMoreEpsilon(TruncatedLaplace):
    def sanitize(self, sentences: SentenceVectors, rng: Rng | None = None) -> FloatArray:
        return TruncatedLaplace(self.box, epsilon=1.25 * self.epsilon).sanitize(sentences, rng)


class PromptColder(DPPrompt):
    """The temperature divided by 1.25 in the loop that generates."""

    def sanitize(self, texts: Sequence[str], *rest: Any, **options: Any) -> list[str]:
        other = DPPrompt(self.generator, temperature=self.temperature / 1.25, tokens=self.tokens,
                         limits=self.limits)  # fmt: skip
        return other.sanitize(texts, *rest, **options)


class PromptForgetsToClip(DPPrompt):
    """Scores as they are, in the loop that generates."""

    def sanitize(self, texts: Sequence[str], *rest: Any, **options: Any) -> list[str]:
        other = DPPrompt(self.generator, temperature=self.temperature, tokens=self.tokens)
        return other.sanitize(texts, *rest, **options)


class MapLeavesOneWord(LossyMap):
    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        sanitized, word = super().sanitize_corpus(corpus), self.inputs[
            self.representative != np.arange(self.size)][0]  # fmt: skip
        return corpus.with_ids(np.where(corpus.ids == word, word, sanitized.ids))


class StencilReturnsTheToken(Stencil):
    """The nearest token, be it the one that stands there."""

    def sanitize_corpus(self, corpus: Corpus) -> Corpus:
        plain = Stencil(self.table, window=self.window, sigma=self.sigma, change=False)
        return plain.sanitize_corpus(corpus)


LINE = embedding(np.append(0.0, np.linspace(1.0, 1.2, 50))[:, None])  # one word beside a crowd
CLOUD = normal_embedding(60, 3, seed=2)
PLANE = normal_embedding(150, 2, seed=4)
SPHERE = normal_embedding(150, 3, seed=4)
STRETCHED = embedding(np.random.default_rng(6).standard_normal((150, 2)) * [6.0, 1.0])
LIMITS = Limits(np.array([-10.0, 0.0, 0.0, 0.0]), np.array([-7.0, 3.0, 3.0, 3.0]))
HOSTILE = np.array([[0.0, 0, 0, 0], [np.inf, 0, 0, 0], [np.nan] * 4, [-np.inf, 1e30, 0, 0],
                    [-1e308, 1e308, 2, 2], [1.0, -40, 3, 2]])  # fmt: skip
POOL = np.random.default_rng(8).standard_normal((5, 2)).astype(np.float32)
CANDIDATES = SentenceVectors(
    np.random.default_rng(9).standard_normal((40, 2)).astype(np.float32), np.arange(41)
)
CORNERS = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0], [9, -9]])
BOX = Box(np.zeros(2), np.ones(2))
DRAWS = 60_000  # per word and half
SHARES = {"four fifths": 0.8, "a third": 1 / 3}  # of the noise
WIDE = {n: normal_embedding(400, n, seed=n) for n in (50, 300)}
KEEPS_HALF = {50: 3.2, 300: 3.0}  # epsilons at which about half of these words are kept
KEEPS_MORE = 10.0  # at which Vickrey, whose outputs are further from the word, shows it


TOKENS = TokenTable(CLOUD.vectors)
TEXT = Corpus(ids=np.random.default_rng(10).integers(60, size=300), offsets=np.array([0, 1, 300]),
              kept={})  # fmt: skip


def exactly(mechanism: Any) -> Audit:
    return audit_exactly(mechanism)


def inside(mechanism: Any) -> Audit:
    return audit_noise(mechanism, np.random.default_rng(11))


def stencilled(mechanism: Any) -> Audit:
    return audit_stencil(mechanism, TEXT)


def paraphrased(mechanism: Any) -> Audit:
    return audit_prompt(mechanism, ["t1", "t2 t3", "t3", "t1 t2 t2"], HOSTILE, seed=12)


def sampled(mechanism: Any) -> Audit:
    """At the epsilon where the farthest two of six words have a claimed loss of 3."""
    ids = spread_words(mechanism, 6)
    tried = at_most(mechanism, ids)
    return audit_words(tried, draw_words(tried, ids, draws=DRAWS, seed=5))


def ranked(mechanism: Any) -> Audit:
    """Three words, since ranks are drawn one after the other."""
    ids = spread_words(mechanism, 3)
    tried = at_most(mechanism, ids)
    return audit_words(tried, draw_words(tried, ids, draws=DRAWS // 3, seed=5))


def lengthwise(mechanism: Any) -> Audit:
    """Eighty words, at the epsilon that the mechanism has."""
    ids = np.arange(0, mechanism.size, mechanism.size // 80)
    return audit_noise_length(mechanism, draw_words(mechanism, ids, draws=100, seed=5))


def noisy(mechanism: Any) -> Audit:
    kept, rng = np.array([[0.5, 0.5]]), np.random.default_rng(13)
    documents = [np.vstack([row, kept]).astype(np.float32) for row in CORNERS]
    audit = audit_laplace(mechanism, CORNERS, draws=DRAWS, seed=5, kept=kept)
    return with_fit(audit, released_laplace(mechanism, documents, rng))


def candidates(mechanism: Any) -> Audit:
    return audit_candidates(mechanism, POOL, size=3)


def next_token(law: Any) -> Audit:
    log_weights, claimed = law
    return audit_next_token(log_weights, LIMITS, 1.0, HOSTILE, claimed=claimed)


def clipped(scores: torch.Tensor) -> torch.Tensor:
    return LIMITS.clip(scores)


def not_clipped(scores: torch.Tensor) -> torch.Tensor:
    return scores.double().nan_to_num(0.0, 1e30, -1e30)


def top_two(scores: torch.Tensor) -> torch.Tensor:
    """What `generate` does to the scores with top_k = 50, on a vocabulary of four."""
    kept = LIMITS.clip(scores)
    return kept.masked_fill(kept < kept.topk(2, dim=1).values[:, -1:], -torch.inf)


def scalar_form(limits: Limits) -> float:
    """The closed form for one pair of limits, with the widest range of unequal ones."""
    a, size = float(np.exp((limits.high - limits.low).max())), len(limits)
    return float(np.log(a * (1 + (size - 1) * a) / (a + size - 1)))


def prompt(kind: type[DPPrompt]) -> DPPrompt:
    """Limits that bind: the scores of the small network lie farther apart."""
    limits = Limits(np.array([-1.0, -0.5, 0.0, 0.0]), np.array([0.5, 1.0, 0.5, 1.5]))
    return kind(small_generator(4, 1), temperature=0.75, tokens=2, limits=limits)


def recode(vectors: Any) -> FloatArray:
    return np.asarray(vectors, dtype=np.float64)


@dataclass(frozen=True)
class Case:
    """A flaw, the audit that is to catch it, and both versions of the mechanism.

    `drawn`: the probabilities are right, so that only draws can show it.
    """

    flaw: str
    audit: Callable[[Any], Audit]
    wrong: Callable[[], Any]
    right: Callable[[], Any]
    drawn: bool = False


@cache
def maker(kind: Any, *parts: Any, **options: Any) -> Callable[[], Any]:
    """Makes one: the same object for the same arguments, so that it is audited once."""
    return partial(kind, *parts, **options)


def flawed(
    flaw: str,
    audit: Callable[[Any], Audit],
    wrong: Any,
    right: Any,
    *parts: Any,
    drawn: bool = False,
    **options: Any,
) -> Case:
    """A case whose two versions are made alike."""
    return Case(
        flaw, audit, partial(wrong, *parts, **options), maker(right, *parts, **options), drawn
    )


FLAT, LONG = (PlainSearch(table.vectors) for table in (PLANE, STRETCHED))
MADLIB = maker(Madlib, PLANE, epsilon=1.0, search=FLAT)
on_plane = partial(flawed, epsilon=1.0, search=FLAT)
on_stretched = partial(flawed, epsilon=1.0, search=LONG)
SHAPED = maker(Mahalanobis, STRETCHED, epsilon=1.0, search=LONG)
RIGHT = MADLIB()
SETS = {"epsilon": 4.0, "set_size": 6}
GROUPS = {**SETS, "mapping": "conservative"}
RARE = {"epsilon": 2.0, "sensitive": range(20, 60)}
TRUNCATED = {"epsilon": 8.0, "beta": 0.1}


def other_noise(flaw: str, drawn: Callable[..., FloatArray]) -> Case:
    wrong = partial(OtherNoise, PLANE, drawn, epsilon=1.0, search=FLAT)
    return Case(flaw, sampled, wrong, MADLIB)


def without_half(flaw: str, kind: Any, *parts: Any, **options: Any) -> Case:
    """exp(-eps d) in place of exp(-eps d / 2), and as much of other scores: twice the epsilon."""
    right = maker(kind, *parts, **options)
    return Case(flaw, exactly, lambda: acting_at(right(), 2.0), right)


CASES = [
    flawed("TEM with ln(|V|/|L|) for bottom", exactly, TemBottomOfRatio, TEM, CLOUD, **TRUNCATED),
    flawed("TEM whose bottom returns the input", exactly, TemBottomReturnsInput, TEM, CLOUD,
           **TRUNCATED),
    flawed("approximate search inside TEM", exactly, TemApproximate, TEM, CLOUD, epsilon=4.0),
    flawed("approximate search inside SanText", exactly, SanTextApproximate, SanText, CLOUD,
           epsilon=4.0),
    flawed("approximate search inside CusText's groups", exactly, CusTextApproximateGroups, CusText,
           CLOUD, **GROUPS),
    without_half("SanText with eps for eps / 2", SanText, LINE, epsilon=6.0),
    flawed("SanText at a budget by the word", exactly, SanTextAtABudgetByTheWord, SanText, LINE,
           epsilon=6.0),
    without_half("CusText with eps for eps / 2", CusText, CLOUD, **GROUPS),
    without_half("CluSanT with eps for eps / 2", CluSanT, CLOUD, epsilon=2.0),
    flawed("CluSanT without its diameters", exactly, CluSanTWithoutDiameters, CluSanT, CLOUD,
           epsilon=2.0),
    flawed("1-Diffractor that draws steps beyond an end anew", exactly, DiffractorRenormalised,
           Diffractor, CLOUD, epsilon=0.5, lists=1),
    flawed("SanText+ with a sensitive set off by one", exactly, SensitiveSetOffByOne, SanTextPlus,
           CLOUD, **RARE),
    other_noise("noise of Gamma(n - 1)", shape_too_small),
    other_noise("noise a quarter too small", scale_too_small),
    other_noise("Gaussian noise", gaussian),
    other_noise("Laplace noise per coordinate", laplace_per_coordinate),
    on_stretched("Mahalanobis renormalised", sampled, Renormalised, Mahalanobis, STRETCHED),
    on_plane("noise that never returns the input", sampled, NeverTheInput, Madlib, PLANE),
    on_plane("Vickrey that drops the input", sampled, VickreyWithoutTheInput, Madlib, PLANE),
    flawed("polar mechanism with kappa = eps", sampled, PolarWithoutPi, Polar, SPHERE, epsilon=1.0),
    flawed("ranks around the word itself", ranked, RanksAroundTheWord, RankRepair, RIGHT, c=0.05),
    Case("Laplace scale without the width", noisy,
         partial(LaplaceLacking, BOX, epsilon=2.0, share=1 / 2),  # range / (k eps), of two columns
         maker(TruncatedLaplace, BOX, epsilon=2.0)),
    flawed("the mean clipped and not the sentences", noisy, LaplaceClipsTheMean, TruncatedLaplace,
           BOX, epsilon=2.0),
    flawed("DeepCandidate with eps for eps / 2", candidates, DepthWithoutHalf, DeepCandidate,
           CANDIDATES, recode, epsilon=2.0),
    Case("DP-Prompt without clipping", next_token,
         lambda: (not_clipped, None), lambda: (clipped, None)),
    Case("DP-Prompt with top-k", next_token, lambda: (top_two, None), lambda: (clipped, None)),
    Case("DP-Prompt's scalar form with the widest range", next_token,
         lambda: (clipped, scalar_form(LIMITS)), lambda: (clipped, None)),
    flawed("SanText+ sampler that spares one sensitive word in twenty", exactly,
           SanTextPlusSparesOneInTwenty, SanTextPlus, CLOUD, **RARE, drawn=True),
    flawed("TEM sampler whose bottom returns the input", exactly, TemDrawsTheInputForBottom, TEM,
           CLOUD, **TRUNCATED, drawn=True),
    flawed("CluSanT sampler that keeps the cluster", exactly, CluSanTKeepsTheCluster, CluSanT,
           CLOUD, epsilon=2.0, drawn=True),
    flawed("1-Diffractor sampler that knows one list", exactly, DiffractorOfOneList, Diffractor,
           CLOUD, epsilon=0.5, drawn=True),
    flawed("RANTEXT with a fixed radius", exactly, RanTextOfOneRadius, RanText, CLOUD, epsilon=6.0,
           drawn=True),
    flawed("conservative CusText that returns its input", exactly, CusTextReturnsItsInput, CusText,
           CLOUD, **GROUPS, drawn=True),
    Case("aggressive CusText sampled at 1.25 eps", exactly,
         lambda: drawing_at(CusText(CLOUD, epsilon=4.0, set_size=6), 1.25),
         maker(CusText, CLOUD, **SETS), drawn=True),
    flawed("CusText+ sampler that replaces stopwords", exactly, CusTextPlusReplacesStopwords,
           CusTextPlus, CLOUD, **SETS, stopwords=("w7",), drawn=True),
    *(flawed(f"SanText {flaw}", exactly, wrong, SanText, CLOUD, epsilon=4.0, drawn=True)
      for flaw, wrong in (
          ("that draws around the word before", SanTextAroundThePreviousWord),
          ("with the first word of every text in clear", SanTextWithoutTheFirst),
          ("with the last word of every text in clear", SanTextWithoutTheLast),
          ("with texts of three words or fewer in clear", SanTextWithoutShortTexts),
          ("with one draw for a repeated word", SanTextOfOneDraw),
          ("with one uniform number for two neighbours", SanTextOfOneUniform),
          ("whose draws start anew with each text", SanTextStartsAnew),
      )),
    on_plane("MADLIB around the word before", inside, MadlibAroundThePreviousWord, Madlib, PLANE,
             drawn=True),
    Case("MADLIB with 0.8 of the noise", inside, lambda: lacking(RIGHT, 0.8), MADLIB, drawn=True),
    on_plane("MADLIB whose look-up prefers the input", inside, MadlibPrefersTheInput, Madlib, PLANE,
             drawn=True),
    flawed("MADLIB without noise along one of 50 directions", inside, MadlibSparesADirection,
           Madlib, WIDE[50], epsilon=20.0, drawn=True),
    flawed("MADLIB whose neighbouring words share their noise", inside, MadlibSharesNoise, Madlib,
           WIDE[50], epsilon=20.0, drawn=True),
    flawed("MADLIB whose noise starts anew with each text", inside, MadlibStartsAnew, Madlib,
           WIDE[50], epsilon=20.0, drawn=True),
    Case("Mahalanobis with 0.8 of the noise", inside, lambda: lacking(SHAPED(), 0.8), SHAPED,
         drawn=True),
    flawed("polar mechanism with angles of 1.25 eps", inside, PolarLessNoise, Polar, SPHERE,
           epsilon=20.0, drawn=True),
    flawed("rank repair with ranks of 2 eps", inside, RanksAtMoreEpsilon, RankRepair, RIGHT, c=0.05,
           drawn=True),
    flawed("Vickrey with half of t", inside, VickreyOfAnotherT, Vickrey, RIGHT, t=0.75, drawn=True),
    flawed("DeepCandidate that takes the deepest", candidates, DeepestCandidate, DeepCandidate,
           CANDIDATES, recode, epsilon=2.0, drawn=True),
    flawed("Laplace noise of 1.25 eps", noisy, LaplaceAtMoreEpsilon, TruncatedLaplace, BOX,
           epsilon=2.0),
    Case("DP-Prompt that generates at a lower temperature", paraphrased,
         maker(prompt, PromptColder), maker(prompt, DPPrompt), drawn=True),
    Case("DP-Prompt that clips its law and not what it draws", paraphrased,
         maker(prompt, PromptForgetsToClip), maker(prompt, DPPrompt), drawn=True),
    Case("lossy map that leaves a word in clear", audit_map,
         lambda: MapLeavesOneWord.random(60, 2, np.random.default_rng(14)),
         lambda: LossyMap.random(60, 2, np.random.default_rng(14)), drawn=True),
    flawed("stencil that may return the token itself", stencilled, StencilReturnsTheToken, Stencil,
           TOKENS, window=3, drawn=True),
]  # fmt: skip

LAWS = {name: made for name, made in examples(60).items() if isinstance(made, FiniteMechanism)}
for _name, _made in LAWS.items():
    _itself = partial(copy.copy, _made)
    _flaw, _wrong = f"{_name} sampled at 4 eps", partial(drawing_at, _made, 4.0)
    CASES.append(Case(_flaw, exactly, _wrong, _itself, drawn=True))
    if _made.claim.loss:
        _flaw, _wrong = f"{_name} acting at 4 eps", partial(acting_at, _made, 4.0)
        CASES.append(Case(_flaw, exactly, _wrong, _itself))


def noise(kind: str, dimension: int) -> Callable[[], Mechanism]:
    """A noise mechanism in as many dimensions as real vectors have."""
    table = WIDE[dimension]
    epsilon = KEEPS_MORE if kind == "Vickrey" else KEEPS_HALF[dimension]

    def make() -> Mechanism:
        search = PlainSearch(table.vectors)
        madlib = Madlib(table, epsilon=epsilon, search=search)
        if kind == "Vickrey":
            return Vickrey(madlib, t=0.75)
        if kind == "rank repair":
            return RankRepair(madlib, c=0.2)
        if kind == "MADLIB":
            return madlib
        strength = 0.2 if "0.2" in kind else 1.0
        return Mahalanobis(table, epsilon=epsilon, strength=strength, search=search)

    return make


KINDS = ("MADLIB", "Mahalanobis", "Mahalanobis of strength 0.2", "rank repair", "Vickrey")
for _kind, _dimension in [("MADLIB", 50), *((kind, 300) for kind in KINDS)]:
    _right = noise(_kind, _dimension)
    CASES += [
        Case(f"{_kind} in {_dimension} dimensions with {_named} of its noise", lengthwise,
             lambda right=_right, share=_share: lacking(right(), share), _right)
        for _named, _share in SHARES.items()
    ]  # fmt: skip
CASES += [
    Case(f"truncated Laplace with {named} of its noise", noisy,
         partial(LaplaceLacking, BOX, epsilon=2.0, share=share),
         maker(TruncatedLaplace, BOX, epsilon=2.0))
    for named, share in SHARES.items()
]  # fmt: skip


def on_real_words() -> list[Case]:
    """Every noise mechanism as it is used, over public vectors that have to be downloaded."""
    from textpriv.experiments.audits import WORKING, working

    def audit(mechanism: Any) -> Audit:
        ids = np.arange(0, mechanism.size, mechanism.size // 200)
        return audit_noise_length(mechanism, draw_words(mechanism, ids, draws=20, seed=5))

    audit.__name__ = "lengthwise"
    cases = []
    for setting in WORKING:
        right = working(setting)[0]
        shape = f" of strength {right.strength:g}" if isinstance(right, Mahalanobis) else ""
        cases += [
            Case(f"{right.name}{shape} on words in {setting.dimension} dimensions with {named} of "
                 "its noise", audit,
                 lambda right=right, share=share: lacking(right, share), lambda right=right: right)
            for named, share in SHARES.items()
        ]  # fmt: skip
    return cases


# Every flaw of released code and of libraries that we know, and what catches it: one of CASES, or a
# test of another kind.
_POLICY = "test_audits.py::test_a_policy_that_leaks_is_caught"
FLAWS = {
    "Tong: a guess counts when the word is a part of it": (
        "test_attacks.py::test_the_released_test_is_for_substrings",),
    "Tong: the candidate's sentence is glued together without spaces": (
        "test_contextual.py::test_the_pair_is_the_sentence_and_the_same_with_the_candidate",),
    "Tong: long words are dropped, so that equal pairs have opposite labels": (
        "test_contextual.py::test_the_sentences_differ_in_the_target_only",
        "test_contextual.py::test_labels_that_say_the_opposite_are_seen"),
    "Tong: totals of one attack run on over all epsilons": (
        "test_reconstruction.py::test_success_rates_are_those_of_the_same_tokens",),
    "Tong: a detector learns from the sentences that it is asked about": (
        "test_reconstruction.py::test_nothing_private_is_read",
        "test_contextual.py::test_held_out_tokens_measure_and_do_not_train"),
    "Utpala: the index measures angles": (
        "test_neighbors.py::test_annoy_measures_euclidean_distance_and_not_angles",),
    "Utpala: unknown words vanish": (_POLICY,),
    "Utpala: the generator clips nothing": ("DP-Prompt without clipping",),
    "Utpala: the best weights are a reference to the last ones": (
        "test_author.py::test_the_weights_of_the_best_epoch_are_copied",),
    "Utpala: the attacker keeps the model that it trained first": (
        "test_author.py::test_nothing_is_kept_between_calls",),
    "Utpala: splits are not stratified": (
        "test_authors.py::test_parts_are_balanced_in_every_cell",),
    "Carpentier: rows of a table follow the hash seed": (
        "test_dp_prompt.py::test_tables_have_the_same_words",),
    "Harel: noise that never returns the input": ("noise that never returns the input",),
    "Harel: noise that may return -1": (
        "test_audits.py::test_a_neighbour_that_is_none_is_caught",
        "test_noise.py::test_where_an_index_finds_nothing_any_word_is_put"),
    "Harel: the first neighbour is skipped": ("test_deconvolution.py::test_inversion_by_hand",),
    "SanText: forked workers share a stream": (
        "test_audits.py::test_a_generator_shared_by_forked_workers_is_caught",
        "test_parallel.py::test_on_this_machine"),
    "SanText: a sensitive set off by one": ("SanText+ with a sensitive set off by one",),
    "SanText: a vocabulary of the private corpus": (
        "test_audits.py::test_a_vocabulary_of_the_private_corpus_is_caught",),
    "SanText as copied by Tong: unknown words in clear": (_POLICY,),
    "CusText: unknown words in clear": (_POLICY,),
    "CusText: numbers nearly in clear": (_POLICY,),
    "libraries: TEM with ln(|V|/|L|) for bottom": ("TEM with ln(|V|/|L|) for bottom",),
    "libraries: TEM whose bottom returns the input": ("TEM whose bottom returns the input",),
    "libraries: Mahalanobis renormalised": ("Mahalanobis renormalised",),
    "libraries: Vickrey that drops the input": ("Vickrey that drops the input",),
    "libraries: an approximate index taken for exact": (
        "approximate search inside TEM", "approximate search inside SanText",
        "approximate search inside CusText's groups"),
    "everyone: pickles": ("test_supply_chain.py::test_rules_for_sources_bite",),
    "everyone: global generators": (
        "test_models.py::test_fine_tuning_leaves_the_global_generator_alone",
        "test_classifiers.py::test_the_global_generator_is_left_alone"),
}  # fmt: skip


def verdicts(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """What the audits say of every wrong mechanism, as `make audit` records it."""
    rows = []
    for case in cases:
        audit = case.audit(case.wrong())
        rows.append(
            {
                "flaw": case.flaw,
                "audit": f"{case.audit.__name__}, {audit.pairs} pairs",
                "worst_ratio": f"{audit.worst_ratio:.4g}",
                "violations": audit.violations,
                "fit": None if audit.fit is None else f"{audit.fit:.2g}",
                "caught": audit.verdict == "broken",
            }
        )
    return rows


if __name__ == "__main__":
    rows = verdicts([*CASES, *on_real_words()])
    if "--json" in sys.argv[1:]:
        print(json.dumps(rows))
    else:
        for row in rows:
            print(" | ".join(str(value) for value in row.values()))
