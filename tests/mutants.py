"""Flaws of released code and of libraries as small wrong mechanisms, and the audit of each.

Every case names a flaw, the audit that must catch it, the wrong mechanism and the right one, which
the same audit must pass. `python tests/mutants.py` prints which audit caught what.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from helpers import FloatArray, embedding, normal_embedding
from scipy.special import logsumexp

from textpriv.embeddings import Embedding
from textpriv.mechanisms import (
    TEM,
    CusText,
    FiniteMechanism,
    Madlib,
    Mahalanobis,
    Mechanism,
    RankRepair,
    SanText,
    SanTextPlus,
)
from textpriv.mechanisms.prompt import Limits
from textpriv.mechanisms.sentences import Box, DeepCandidate, TruncatedLaplace
from textpriv.neighbors import random_directions
from textpriv.privacy import (
    Audit,
    PlainSearch,
    at_most,
    audit_candidates,
    audit_exactly,
    audit_laplace,
    audit_next_token,
    audit_words,
    draw_words,
    spread_words,
)
from textpriv.vectors import SentenceVectors

IntArray = Any
Rng = np.random.Generator


def normalised(weights: FloatArray) -> FloatArray:
    """Logarithms of weights, as logarithms of probabilities."""
    return weights - logsumexp(weights, axis=1, keepdims=True)


def distances(table: Embedding) -> FloatArray:
    x = table.vectors.astype(np.float64)
    return np.linalg.norm(x[:, None] - x[None], axis=2)


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


# --- Exponential mechanisms ----------------------------------------------------------------------


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
        distance, found = distances(self.embedding), one_leaf(self.embedding)
        farthest = np.where(found, distance, 0.0).max(1, keepdims=True)
        return normalised(-self.epsilon / 2 * np.where(found, distance, farthest))


class SanTextWithoutHalf(SanText):
    """exp(-eps d) in place of exp(-eps d / 2)."""

    def _energy(self, distance: torch.Tensor) -> torch.Tensor:
        return distance.mul_(self.epsilon)


class CusTextWithoutHalf(CusText):
    """exp(eps u) in place of exp(eps u / 2)."""

    @cached_property
    def log_probabilities(self) -> FloatArray:
        return normalised(np.where(self.candidates >= 0, self.epsilon * self.scores, -np.inf))


class CusTextApproximateGroups(CusText):
    """Groups from an index that words cannot be taken out of, so that they overlap."""

    def __init__(self, table: Embedding, *, epsilon: float) -> None:
        super().__init__(table, epsilon=epsilon, set_size=6, mapping="conservative")
        self.candidates = CusText(table, epsilon=epsilon, set_size=6).candidates
        self.scores = self._scores(self._points())


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


# --- Noise -----------------------------------------------------------------------------------


class _OtherNoise(Madlib):
    """MADLIB with noise of another law."""

    def drawn(self, count: int, rng: Rng) -> FloatArray:
        raise NotImplementedError

    def _noise(self, count: int, chunk: int, rng: Rng) -> Iterator[FloatArray]:
        noise = self.drawn(count, rng)
        for start in range(0, max(1, count), chunk):
            yield noise[start : start + chunk]


class ShapeTooSmall(_OtherNoise):
    """A radius of Gamma(n - 1)."""

    def drawn(self, count: int, rng: Rng) -> FloatArray:
        n = self.embedding.dimension
        return rng.gamma(n - 1, 1 / self.epsilon, (count, 1)) * random_directions(count, n, rng)


class ScaleTooSmall(_OtherNoise):
    """A radius of scale 1 / (1.25 eps): a quarter more is lost than is claimed."""

    def drawn(self, count: int, rng: Rng) -> FloatArray:
        n = self.embedding.dimension
        return rng.gamma(n, 0.8 / self.epsilon, (count, 1)) * random_directions(count, n, rng)


class GaussianNoise(_OtherNoise):
    """Normal coordinates of the same variance as MADLIB's: the tails are too thin."""

    def drawn(self, count: int, rng: Rng) -> FloatArray:
        n = self.embedding.dimension
        return rng.normal(scale=np.sqrt(n + 1) / self.epsilon, size=(count, n))


class LaplacePerCoordinate(_OtherNoise):
    """A Laplace variable of scale 1/eps per coordinate: private in another metric."""

    def drawn(self, count: int, rng: Rng) -> FloatArray:
        return rng.laplace(scale=1 / self.epsilon, size=(count, self.embedding.dimension))


class Renormalised(Mahalanobis):
    """A^(1/2) u scaled to length 1 again."""

    def stretched(self, directions: FloatArray) -> FloatArray:
        shaped = super().stretched(directions)
        return shaped / np.linalg.norm(shaped, axis=1, keepdims=True)


class NeverTheInput(Madlib):
    """The nearest word but the input."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        points = np.concatenate(list(self.noisy_vectors(ids, rng)))
        found = self.search.nearest(points, 2)[0]
        return np.where(found[:, 0] == ids, found[:, 1], found[:, 0])


class VickreyWithoutTheInput(Madlib):
    """The second nearest word of those that are not the input, half of the time."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        points = np.concatenate(list(self.noisy_vectors(ids, rng)))
        found = self.search.nearest(points, 3)[0]
        first = np.where(found[:, 0] == ids, found[:, 1], found[:, 0])
        second = np.where((found[:, :2] == ids[:, None]).any(1), found[:, 2], found[:, 1])
        return np.where(rng.random(len(ids)) < 0.5, first, second)


class NoNeighbour(Madlib):
    """The index finds nothing now and then, and its -1 is passed on."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        return np.where(rng.random(len(ids)) < 0.01, -1, super()._replace(ids, rng))


class RanksAroundTheWord(RankRepair):
    """Words ranked around the word itself, in place of around the noisy vector."""

    def _replace(self, ids: IntArray, rng: Rng) -> IntArray:
        ranked = np.argsort(distances(self.embedding), axis=1, kind="stable")
        return ranked[ids, self.ranks(len(ids), rng)]


# --- Sentences -------------------------------------------------------------------------------


class LaplaceWithoutWidth(TruncatedLaplace):
    """Noise of scale range / (k eps): every coordinate spends the whole epsilon."""

    def scale(self, sentences: SentenceVectors) -> FloatArray:
        return super().scale(sentences) / self.width


class LaplaceClipsTheMean(TruncatedLaplace):
    """The mean is clipped, not each sentence: it can move by the whole range."""

    def clipped_mean(self, sentences: SentenceVectors) -> FloatArray:
        return np.clip(sentences.mean().astype(np.float64), self.box.low, self.box.high)


class DepthWithoutHalf(DeepCandidate):
    """exp(eps depth) in place of exp(eps depth / 2)."""

    def _log_law(self, depth: IntArray) -> FloatArray:
        return normalised((self.epsilon * depth)[None].astype(np.float64))[0]


# --- The cases -------------------------------------------------------------------------------

LINE = embedding(np.append(0.0, np.linspace(1.0, 1.2, 50))[:, None])  # one word beside a crowd
CLOUD = normal_embedding(60, 3, seed=2)
PLANE = normal_embedding(150, 2, seed=4)
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


def exactly(mechanism: Any) -> Audit:
    return audit_exactly(mechanism)


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


def noisy(mechanism: Any) -> Audit:
    return audit_laplace(mechanism, CORNERS, draws=DRAWS, seed=5, kept=np.array([[0.5, 0.5]]))


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


def madlib(kind: type[Madlib], table: Embedding = PLANE) -> Callable[[], Mechanism]:
    return lambda: kind(table, epsilon=1.0, search=PlainSearch(table.vectors))


MADLIB = madlib(Madlib)  # one object, so that it is audited once


def recode(vectors: Any) -> FloatArray:
    return np.asarray(vectors, dtype=np.float64)


@dataclass(frozen=True)
class Case:
    """A flaw, the audit that is to catch it, and both versions of the mechanism."""

    flaw: str
    audit: Callable[[Any], Audit]
    wrong: Callable[[], Any]
    right: Callable[[], Any]


CASES = [
    Case("TEM with ln(|V|/|L|) for bottom", exactly,
         lambda: TemBottomOfRatio(CLOUD, epsilon=8.0, beta=0.1),
         lambda: TEM(CLOUD, epsilon=8.0, beta=0.1)),
    Case("TEM whose bottom returns the input", exactly,
         lambda: TemBottomReturnsInput(CLOUD, epsilon=8.0, beta=0.1),
         lambda: TEM(CLOUD, epsilon=8.0, beta=0.1)),
    Case("approximate search inside TEM", exactly,
         lambda: TemApproximate(CLOUD, epsilon=4.0), lambda: TEM(CLOUD, epsilon=4.0)),
    Case("approximate search inside SanText", exactly,
         lambda: SanTextApproximate(CLOUD, epsilon=4.0), lambda: SanText(CLOUD, epsilon=4.0)),
    Case("approximate search inside CusText's groups", exactly,
         lambda: CusTextApproximateGroups(CLOUD, epsilon=4.0),
         lambda: CusText(CLOUD, epsilon=4.0, set_size=6, mapping="conservative")),
    Case("SanText with eps for eps / 2", exactly,
         lambda: SanTextWithoutHalf(LINE, epsilon=2.0), lambda: SanText(LINE, epsilon=2.0)),
    Case("CusText with eps for eps / 2", exactly,
         lambda: CusTextWithoutHalf(CLOUD, epsilon=4.0, set_size=6, mapping="conservative"),
         lambda: CusText(CLOUD, epsilon=4.0, set_size=6, mapping="conservative")),
    Case("SanText+ with a sensitive set off by one", exactly,
         lambda: SensitiveSetOffByOne(CLOUD, epsilon=2.0, sensitive=np.arange(20, 60)),
         lambda: SanTextPlus(CLOUD, epsilon=2.0, sensitive=np.arange(20, 60))),
    Case("noise of Gamma(n - 1)", sampled, madlib(ShapeTooSmall), MADLIB),
    Case("noise a quarter too small", sampled, madlib(ScaleTooSmall), MADLIB),
    Case("Gaussian noise", sampled, madlib(GaussianNoise), MADLIB),
    Case("Laplace noise per coordinate", sampled, madlib(LaplacePerCoordinate), MADLIB),
    Case("Mahalanobis renormalised", sampled,
         madlib(Renormalised, STRETCHED), madlib(Mahalanobis, STRETCHED)),
    Case("noise that never returns the input", sampled, madlib(NeverTheInput), MADLIB),
    Case("Vickrey that drops the input", sampled, madlib(VickreyWithoutTheInput), MADLIB),
    Case("ranks around the word itself", ranked,
         lambda: RanksAroundTheWord(MADLIB(), c=0.05),  # type: ignore[arg-type]
         lambda: RankRepair(MADLIB(), c=0.05)),  # type: ignore[arg-type]
    Case("Laplace scale without the width", noisy,
         lambda: LaplaceWithoutWidth(BOX, epsilon=2.0), lambda: TruncatedLaplace(BOX, epsilon=2.0)),
    Case("the mean clipped and not the sentences", noisy,
         lambda: LaplaceClipsTheMean(BOX, epsilon=2.0), lambda: TruncatedLaplace(BOX, epsilon=2.0)),
    Case("DeepCandidate with eps for eps / 2", candidates,
         lambda: DepthWithoutHalf(CANDIDATES, recode, epsilon=2.0),
         lambda: DeepCandidate(CANDIDATES, recode, epsilon=2.0)),
    Case("DP-Prompt without clipping", next_token,
         lambda: (not_clipped, None), lambda: (clipped, None)),
    Case("DP-Prompt with top-k", next_token, lambda: (top_two, None), lambda: (clipped, None)),
    Case("DP-Prompt's scalar form with the widest range", next_token,
         lambda: (clipped, scalar_form(LIMITS)), lambda: (clipped, None)),
]  # fmt: skip


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
        "test_reconstruction.py::test_success_rates_are_those_of_the_hits",),
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
        "test_audits.py::test_streams_do_not_depend_on_workers"),
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
    "everyone: pickles": ("test_house_rules.py::test_source_rules_bite",),
    "everyone: global generators": (
        "test_models.py::test_fine_tuning_leaves_the_global_generator_alone",
        "test_utility.py::test_the_global_generator_is_left_alone"),
}  # fmt: skip


def verdicts() -> list[dict[str, Any]]:
    """What the audits say of every wrong mechanism, as `make audit` records it."""
    rows = []
    for case in CASES:
        found = case.audit(case.wrong())
        rows.append(
            {
                "flaw": case.flaw,
                "audit": f"{case.audit.__name__}, {found.pairs} pairs",
                "worst_ratio": f"{found.worst_ratio:.4g}",
                "violations": found.violations,
                "caught": found.verdict == "broken",
            }
        )
    return rows


if __name__ == "__main__":
    if "--json" in sys.argv[1:]:
        print(json.dumps(verdicts()))
    else:
        for row in verdicts():
            print(" | ".join(str(value) for value in row.values()))
