"""Attacks on stencils: the window is a known linear map, and what it mixes can be parted again.

    Deconvolution(stencil, ridge=0.05).guess(observed, top=5)

Every output stands for a mixture m = W x of the vectors of the text (W: `Stencil.weights`, known
to all). Four attackers, from the one of the paper to the strongest here:

- `TokenInversion` looks at the same position only. Against the punctuated stencil it finds
  little (in the paper 0.0%), since the token itself has no part in its mixture.
- `Deconvolution` solves W x = vectors of the outputs, with a ridge, since W is badly conditioned
  and an output is not quite its mixture.
- `LanguageDeconvolution` knows by rehearsal how large that error is and in which directions, and
  lets a language model choose.
- `StencilSimulation` asks of every candidate which output the stencil would have given: that an
  output differs from its input, no linear map expresses.

Harel et al. report the first; their released file of attacks holds an unregularised deconvolution
and the test of `hits_anywhere`, with the call commented out and the best guess sliced off.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse
import torch

from textpriv.attacks.base import Attack, BoolArray, Guesses, Observed, TokenAttack, padded
from textpriv.attacks.calibration import Calibration, chosen, likeliest_factors, named_first
from textpriv.attacks.ngrams import NGrams
from textpriv.attacks.noisy_channel import Candidates, SentenceAttack
from textpriv.checks import COUNT, NOT_NEGATIVE, FloatArray, IntArray, check_count, checked
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.neighbors import ExactSearch

_PAIRS = 512  # pairs of a token and an output near it that are looked at together


def watch(stencil: Stencil, private: Corpus) -> Observed:
    """What an attacker sees of a corpus after the stencil."""
    return Observed(stencil.sanitize_corpus(private), stencil.replaced(private))


class TokenInversion(TokenAttack):
    """The tokens nearest to the output, as if it were the input with noise (Qu et al. 2021).

    `skip` leaves out the observed token itself, as Harel et al. 2024 (section 3.2) do for Noise and
    Stencil.
    """

    name = "embedding-inversion"

    def __init__(self, table: TokenTable, *, skip: bool = True) -> None:
        self.table, self.skip = table, skip

    def guess_words(self, outputs: IntArray, top: int) -> Guesses:
        words, distances = self.table.nearest(self.table.vectors[outputs], top + self.skip)
        if self.skip:
            words, distances = _without(outputs, words, distances)
        return padded(words, -distances, top)


def _without(ids: IntArray, words: IntArray, distances: FloatArray) -> tuple[IntArray, FloatArray]:
    """Ranked words without one id per row, or without the last where the id is not among them."""
    # Tokens with the same vector may stand before the id.
    order = np.argsort(words == ids[:, None], axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(words, order, axis=1), np.take_along_axis(distances, order, axis=1)


class Deconvolution(Attack):
    """Solves for the vectors of the text, then takes the nearest tokens.

    `ridge` >= 0 is added to the squared singular values of W; 0 inverts W as it is, where its
    smallest singular values blow up whatever an output is off its mixture. Where outputs differ
    from inputs, which is no secret, the output is never a guess.
    """

    name = "deconvolution"

    @checked(ridge=NOT_NEGATIVE)
    def __init__(self, stencil: Stencil, *, ridge: float = 0.05) -> None:
        self.stencil, self.ridge = stencil, ridge

    def estimate(self, observed: Observed) -> FloatArray:
        """The vector that each token may have had: (tokens, dimension)."""
        vectors = self.stencil.table.vectors[observed.corpus.ids].astype(np.float64)
        return undone(self.stencil, observed, vectors, self.ridge)[0]

    def _guess(self, observed: Observed, positions: IntArray, top: int) -> Guesses:
        change = self.stencil.change
        words, distances = self.stencil.table.nearest(
            self.estimate(observed)[positions], top + change
        )
        if change:
            words, distances = _without(observed.corpus.ids[positions], words, distances)
        return padded(words, -distances, top)


# --- The linear map -------------------------------------------------------------------------


def blocks(stencil: Stencil, observed: Observed) -> Iterator[tuple[IntArray, FloatArray]]:
    """Documents in which the same positions are replaced, with their common W.

    Yields places in the corpus (documents, replaced) and weights (replaced, replaced).
    """
    corpus = observed.corpus
    alike: dict[bytes, list[int]] = {}
    for document in range(len(corpus)):
        first, last = corpus.offsets[document : document + 2].tolist()
        alike.setdefault(observed.sanitized[first:last].tobytes(), []).append(document)
    for documents in alike.values():
        first, last = corpus.offsets[documents[0] : documents[0] + 2].tolist()
        inside = np.flatnonzero(observed.sanitized[first:last])
        if not len(inside):
            continue
        one = corpus.subset(np.array(documents[:1]))
        weights = stencil.weights(one, observed.sanitized[first:last])
        yield (corpus.offsets[documents][:, None] + inside, weights[inside][:, inside].toarray())


def singular_values(stencil: Stencil, length: int) -> FloatArray:
    """Singular values of W of a text of `length` tokens, the largest first."""
    check_count(length, what="length")
    ids = np.full(length, stencil.inputs[0])
    corpus = Corpus(ids=ids, offsets=np.array([0, length]))
    values: FloatArray = scipy.linalg.svdvals(stencil.weights(corpus).toarray())
    return values


def undone(
    stencil: Stencil, observed: Observed, outputs: FloatArray, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """Ridge solution of W x = outputs (tokens, dimension), and how much of each comes through.

    Returns
    -------
    estimate : (tokens, dimension) (W'W + ridge)^-1 W' outputs; 0 where nothing was replaced
    gain : (tokens,) the diagonal of (W'W + ridge)^-1 W'W, from 0 to 1: the factor at which a
        token's own vector is in its estimate
    """
    estimate, gain = np.zeros_like(outputs), np.zeros(len(outputs))
    for positions, weights in blocks(stencil, observed):
        left, values, right = scipy.linalg.svd(weights)
        inverse = values / np.maximum(values**2 + ridge, np.finfo(float).tiny)
        inverse[values < 1e-10 * values[0]] = 0.0  # of a W without inverse: the shortest solution
        solved = (right.T * inverse) @ left.T
        estimate[positions] = np.matmul(solved, outputs[positions])
        gain[positions] = (solved * weights.T).sum(1)
    return estimate, gain


# --- With a language model --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What an attacker learns by running the stencil on public text.

    Vectors are centred, and mapped so that the error of the outputs is about alike in all
    directions: there, scale * output = mixture + noise.
    """

    points: FloatArray  # (size, dimension) the tokens' vectors, centred and mapped
    scale: float  # what brings outputs, which are longer, to the length of their mixtures
    noise: float  # mean square per coordinate of the error
    spread: float  # and of the tokens' own vectors

    @classmethod
    def learn(cls, stencil: Stencil, public: Corpus) -> Self:
        """From public text that is not the attacked one; some thousand tokens suffice."""
        observed = watch(stencil, public)
        rows = observed.targets
        vectors = stencil.table.vectors.astype(np.float64)
        centered = vectors - vectors[public.ids[rows]].mean(0)
        weights = stencil.weights(public)[rows][:, rows]
        own = centered[public.ids[rows]]
        mixtures, outputs = weights @ own, centered[observed.corpus.ids[rows]]
        # Forwards, from mixture to output: the other way round would pull towards the mean.
        scale = float((mixtures**2).sum() / (mixtures * outputs).sum())
        error = scale * outputs - mixtures
        power, directions = np.linalg.eigh(error.T @ error / len(error))
        # Half way to equal power: the weakest directions are known from few errors.
        mapping = (directions / np.sqrt(power + power.mean())) @ directions.T
        return cls(
            points=centered @ mapping,
            scale=scale,
            noise=float(((error @ mapping) ** 2).mean()),
            spread=float(((own @ mapping) ** 2).mean()),
        )


class LanguageDeconvolution(SentenceAttack):
    """Deconvolution with the error learned by rehearsal, and a language model to choose.

    Parameters
    ----------
    rehearsal : see `Rehearsal`; its noise / spread is the ridge
    model : n-grams over the token table
    candidates : >= 1 nearest tokens of the whitened estimate that the model chooses from, to
        which come half as many of the estimate of `Deconvolution`
    """

    name = "deconvolution-lm"
    # What counts how much; see `calibrated`. Here it is the whitened estimate alone, below 1, since
    # the errors of 384 coordinates are no 384 independent witnesses.
    calibration = Calibration(np.array([0.0, 0.0, 0.3, 0.0]), weight=1.0)

    @checked(candidates=COUNT)
    def __init__(
        self, stencil: Stencil, rehearsal: Rehearsal, model: NGrams, *, candidates: int = 50
    ) -> None:
        if model.lexicon.size != stencil.size:
            raise InvalidInput(
                f"model: got a vocabulary of {model.lexicon.size}, expected {stencil.size}"
            )
        self.ridge = rehearsal.noise / rehearsal.spread
        self.stencil, self.rehearsal, self.model = stencil, rehearsal, model
        self.candidates = candidates
        self.search = ExactSearch(rehearsal.points[stencil.inputs].astype(np.float32))
        self.nearest_count = min(candidates, len(stencil.inputs))  # to the whitened estimate

    def decode(self, observed: Observed) -> Candidates:
        return self.judged(observed, *self.evidence(observed))

    def judged(
        self, observed: Observed, words: IntArray, evidence: FloatArray, possible: BoolArray
    ) -> Candidates:
        """What follows from what `evidence` gives."""
        log_likelihood = np.where(possible, evidence @ self.calibration.factors, -np.inf)
        return chosen(words, log_likelihood, observed, self.model, self.calibration.weight)

    def evidence(self, observed: Observed) -> tuple[IntArray, FloatArray, BoolArray]:
        """What speaks for each candidate, the nearest to either of two estimates.

        Neither estimate is the better one throughout. The whitened one is nearly normal where a
        token has part in its own output; the stencil, though, compares directions, so that the
        lengths that it adds up are not those that were mixed, and where the token has no part
        the direction of `Deconvolution`'s estimate says more.

        Returns
        -------
        words : (replaced, candidates)
        evidence : (replaced, candidates, 4) minus half the squared distance to the estimate of
            `Deconvolution`, scaled as the table compares; of the whitened estimate the cosine,
            minus half the squared distance, and minus half the squared length of the candidate,
            both over the variance of the estimate
        possible : (replaced, candidates) not named before and, where outputs must differ, not
            the output
        """
        table, points = self.stencil.table, self.rehearsal.points
        unbiased, variance = self._unbiased(observed)
        solved = Deconvolution(self.stencil).estimate(observed)[observed.targets]
        ridge = table.nearest(solved, -(-self.candidates // 2))[0]
        near = self.stencil.inputs[self.search.nearest(unbiased, self.nearest_count)[0]]
        words = np.concatenate([near, ridge], axis=1)
        evidence = np.empty((*words.shape, 4))
        for first in range(0, len(words), _PAIRS):
            rows = slice(first, first + _PAIRS)
            ids, u = words[rows], unbiased[rows]
            apart = table.scaled(table.vectors[ids.ravel()]).reshape(*ids.shape, -1)
            apart = apart - table.scaled(solved[rows])[:, None]
            own = points[ids]
            squared, inner = (own**2).sum(2), np.matmul(own, u[:, :, None])[:, :, 0]
            length = np.linalg.norm(u, axis=1)[:, None]
            doubled = 2 * variance[rows, None]
            evidence[rows, :, 0] = -(apart**2).sum(2) / 2
            evidence[rows, :, 1] = inner / np.maximum(np.sqrt(squared) * length, 1e-12)
            evidence[rows, :, 2] = -(squared - 2 * inner + length**2) / doubled
            evidence[rows, :, 3] = -squared / doubled
        possible = named_first(words)
        if self.stencil.change:
            possible &= words != observed.corpus.ids[observed.targets][:, None]
            possible[~possible.any(1), 0] = True
        return words, evidence, possible

    def calibrated(self, public: Corpus) -> LanguageDeconvolution:
        """This attack with the calibration that names most tokens of a rehearsal first.

        Under the weights 1 and 0.5 of the language model the factors are those of greatest
        likelihood, with the frequencies of single words for the language model. Beside these stand
        the factors without a language model, and `Deconvolution` by itself, so that what is added
        to it loses by no more than the error of the rehearsal.

        Parameters
        ----------
        public : text that neither the `Rehearsal` nor the language model has read; some
            thousand tokens suffice
        """
        observed = watch(self.stencil, public)
        truth = public.ids[observed.targets]
        words, evidence, possible = self.evidence(observed)
        is_true = (words == truth[:, None]) & possible
        held, true = is_true.any(1), is_true.argmax(1)
        if not held.any():
            raise InvalidInput("public: got no token that is replaced and among its candidates")
        log_prior = np.log(self.model.unigram[words])

        def fitted(weight: float, signs: int) -> LanguageDeconvolution:
            prior = np.where(possible, weight * log_prior, -np.inf)[held]
            factors = np.zeros(evidence.shape[2])
            factors[:signs] = likeliest_factors(evidence[held, :, :signs], prior, true[held])
            attack = copy(self)
            attack.calibration = Calibration(factors, weight)
            return attack

        def first_hits(attack: LanguageDeconvolution) -> int:
            candidates = attack.judged(observed, words, evidence, possible)
            return int(candidates.guesses(observed.targets, 1).hits(truth).sum())

        return max([fitted(1.0, 4), fitted(0.5, 4), fitted(0.0, 4), fitted(0.0, 1)], key=first_hits)

    def _unbiased(self, observed: Observed) -> tuple[FloatArray, FloatArray]:
        """Of every replaced token the whitened estimate, not shrunk, and its variance."""
        known = self.rehearsal
        outputs = known.scale * known.points[observed.corpus.ids]
        estimate, gain = undone(self.stencil, observed, outputs, self.ridge)
        share = np.clip(gain[observed.targets], 1e-6, 1 - 1e-6)
        return estimate[observed.targets] / share[:, None], known.spread * (1 / share - 1)


class StencilSimulation(SentenceAttack):
    """Decodes by asking which outputs the stencil would give if a token were this or that.

    For every token and candidate the mixtures of the window are made, with what is believed of
    the other tokens (their mean vectors under the posterior so far). The candidate is the more
    likely the better the outputs that were seen do in these mixtures against the tokens near
    them: a softmax with a sharpness, since the other tokens are not known for certain. A few
    rounds, each with the language model, from the beliefs of the deconvolution on. It pays where a
    token outweighs its neighbours (a small sigma); where it has little or no part in its own
    mixture, the deconvolution by itself is the better attack.

    `start` proposes candidates and the first beliefs.
    """

    name = "stencil-simulation"
    candidates = 40  # of either kind: nearest to the output, nearest to the deconvolution
    rivals = 40  # tokens near an output that it is compared with
    sharpness = 50.0  # factor of the cosines (or of minus half the squared distances)
    rounds = 3
    least_weight = 0.03  # outputs that a token enters with less say next to nothing about it

    def __init__(self, start: LanguageDeconvolution) -> None:
        self.start, self.stencil, self.table = start, start.stencil, start.stencil.table

    def decode(self, observed: Observed) -> Candidates:
        known = self.start.evidence(observed)
        candidates = self.start.judged(observed, *known)
        words, possible = self.propose(observed, known[0])
        rivals = self.near(observed, self.rivals)
        for _ in range(self.rounds):
            believed = self._means(candidates, observed)
            log_likelihood = self.likelihoods(observed, words, believed, rivals)
            log_likelihood = np.where(possible, log_likelihood, -np.inf)
            candidates = chosen(words, log_likelihood, observed, self.start.model, 1.0)
        return candidates

    def propose(self, observed: Observed, start: IntArray) -> tuple[IntArray, BoolArray]:
        """Candidates, and which of them count: (replaced, 2 candidates) each.

        One that is proposed twice counts once, and one that cannot be, since outputs differ
        from inputs, does not. `start` are the words of `LanguageDeconvolution.evidence`, of which
        the first are nearest to the whitened estimates.
        """
        output = observed.corpus.ids[observed.targets]
        near = self.near(observed, self.candidates)
        far = start[:, : min(self.candidates, self.start.nearest_count)]
        words = np.concatenate([near, far], axis=1)
        possible = named_first(words)
        if self.stencil.change:
            possible &= words != output[:, None]
        return words, possible

    @torch.inference_mode()
    def likelihoods(
        self, observed: Observed, words: IntArray, believed: FloatArray, rivals: IntArray
    ) -> FloatArray:
        """Log-likelihood of every candidate, given the mean vectors of the others.

        `words` are (replaced, candidates), what is `believed` is (replaced, dimension), `rivals`
        are the tokens near every output, (replaced, rivals).
        """
        rows = observed.targets
        weights = self.stencil.weights(observed.corpus, observed.sanitized)[rows][:, rows].tocoo()
        enough = weights.data >= self.least_weight
        place, token = weights.row[enough], weights.col[enough]
        by_token = np.argsort(token, kind="stable")
        place, token, share = place[by_token], token[by_token], weights.data[enough][by_token]
        mixtures = torch.from_numpy((weights @ believed).astype(np.float32))
        means = torch.from_numpy(believed.astype(np.float32))
        output = observed.corpus.ids[rows]
        result = torch.zeros(words.shape, dtype=torch.float64)
        for part in np.array_split(np.arange(len(token)), -(-len(token) // _PAIRS) or 1):
            i, k = token[part], place[part]
            factor = torch.from_numpy(share[part].astype(np.float32))[:, None]
            rest = mixtures[k] - factor * means[i]
            scores = self._scores(words[i], rivals[k], rest, factor)
            # A rival that is the token itself was out of the race; where a token has part in its
            # own mixture in the punctuated form, it stands alone, and the same holds.
            if self.stencil.change or self.stencil.punctuated:
                itself = (words[i][:, :, None] == rivals[k][:, None, :]) & (i == k)[:, None, None]
                scores.masked_fill_(torch.from_numpy(itself), -torch.inf)
            seen = torch.from_numpy(rivals[k] == output[k][:, None])[:, None, :]
            won = torch.where(seen, scores, 0.0).sum(2) - scores.logsumexp(2)
            result.index_add_(0, torch.from_numpy(i), won.double())
        return result.numpy()

    def _scores(
        self, words: IntArray, rivals: IntArray, rest: torch.Tensor, factor: torch.Tensor
    ) -> torch.Tensor:
        """Sharpness times nearness of rivals to mixtures: (pairs, candidates, rivals)."""
        vectors = self.table.vectors
        own, other = (torch.from_numpy(vectors[each]).float() for each in (words, rivals))
        inner = torch.bmm(own, other.transpose(1, 2)).mul_(factor[:, :, None])
        inner.add_(torch.bmm(other, rest[:, :, None]).transpose(1, 2))
        if self.table.measure == "euclidean":
            return self.sharpness * (inner - (other**2).sum(2)[:, None, :] / 2)
        along = torch.bmm(own, rest[:, :, None]).squeeze(2)
        squared = (rest**2).sum(1, keepdim=True) + 2 * factor * along
        squared += factor**2 * (own**2).sum(2)
        length = squared.clamp_min(1e-12).sqrt()[:, :, None] * other.norm(dim=2)[:, None, :]
        return self.sharpness * inner / length

    def near(self, observed: Observed, count: int) -> IntArray:
        """The tokens nearest to each output, itself among them: (replaced, count)."""
        output = observed.corpus.ids[observed.targets]
        types, inverse = np.unique(output, return_inverse=True)
        near, _ = self.table.nearest(self.table.vectors[types], count)
        absent = ~(near == types[:, None]).any(1)
        near[absent, -1] = types[absent]  # where many share its vector
        result: IntArray = near[inverse]
        return result

    def _means(self, candidates: Candidates, observed: Observed) -> FloatArray:
        """Mean vectors of the tokens under a posterior: (replaced, dimension)."""
        uncertain = np.repeat(observed.sanitized, candidates.counts)
        token = np.repeat(np.arange(len(observed.targets)), candidates.counts[observed.targets])
        place = token, candidates.words[uncertain]
        belief = scipy.sparse.csr_array(
            (candidates.posterior[uncertain], place), shape=(len(observed.targets), self.table.size)
        )
        result: FloatArray = belief @ self.table.vectors.astype(np.float64)
        return result
