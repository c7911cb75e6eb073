"""Linkage: which of N known texts was sanitized? For outputs of any tool, whatever it does inside.

    scores = bm25(originals, sanitized)            # (sanitized, originals): how well each fits
    ranks = ranks_of_truth(scores)                 # 1: the attacker names the right original
    link = linked(scores)                          # top-1 success, chance is 1 / N
    epsilon_lower_bound(scores, rng)               # what no smaller epsilon per text could allow

The attacker holds the sanitized texts and N candidates, among which are the originals: a leaked
mailbox, a scrape of the web, an older release. Row i of the scores belongs to the i-th sanitized
text, column i to its original.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit, logsumexp
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from textpriv import stats
from textpriv.attacks.style import shape
from textpriv.checks import LEVEL, BoolArray, FloatArray, check_generator, check_texts, checked
from textpriv.errors import InvalidInput
from textpriv.stats import Estimate

FEWEST = 8  # texts, from which there are two games of pairs to count

_WORD = r"\w+(?:['’]\w+)*"
_ROUNDS = 200  # in which matched chances are scaled
_SATURATION, _LENGTH = 1.5, 0.75  # k1 and b of BM25, its usual values

_share = lru_cache(maxsize=4096)(stats.share)  # the same few at the many margins of a game


# --- How well each candidate fits ---------------------------------------------------------------


def bm25(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
    """BM25 of every candidate, the sanitized text being the query: words that were kept.

    (sanitized, originals) scores >= 0; all 0 where no word is in common. Robertson & Zaragoza 2009,
    The Probabilistic Relevance Framework, equation 3.15, with the inverse document frequency that
    stays positive.
    """
    known, seen = checked_pair_of_lists(originals, sanitized)
    words = CountVectorizer(token_pattern=_WORD)
    try:
        counts = words.fit_transform(known).astype(np.float64).tocsr()
    except ValueError:  # scikit-learn's only answer to texts without a word
        return np.zeros((len(seen), len(known)))
    length = np.asarray(counts.sum(axis=1)).ravel()
    norm = 1 - _LENGTH + _LENGTH * length / length.mean()
    rows = np.repeat(np.arange(len(known)), np.diff(counts.indptr))
    frequency = counts.data
    counts.data = frequency * (_SATURATION + 1) / (frequency + _SATURATION * norm[rows])
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = np.log1p((len(known) - having + 0.5) / (having + 0.5))
    return _product(words.transform(seen).multiply(rarity).tocsr(), counts)


def letters(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
    """Cosine of TF-IDF weights of runs of 3 to 5 letters: parts of words that were kept, style."""
    view = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    return _cosine(view, originals, sanitized)


def shapes(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
    """The same of runs of 2 to 8 characters with every letter alike: lengths of words, marks."""
    view = TfidfVectorizer(
        preprocessor=lambda text: shape(text).lower(),
        analyzer="char",
        ngram_range=(2, 8),
        sublinear_tf=True,
    )
    return _cosine(view, originals, sanitized)


def _cosine(
    view: TfidfVectorizer, originals: Sequence[str], sanitized: Sequence[str]
) -> FloatArray:
    known, seen = checked_pair_of_lists(originals, sanitized)
    try:
        candidates = view.fit_transform(known)
    except ValueError:  # no text has any of these runs
        return np.zeros((len(seen), len(known)))
    return _product(view.transform(seen), candidates)


def by_vectors(originals: NDArray[np.floating], sanitized: NDArray[np.floating]) -> FloatArray:
    """Cosine of document vectors, centred on the candidates: meaning that was kept.

    From vectors (texts, width) to (sanitized, originals) in -1 .. 1, 0 where a vector is the
    candidates' mean.
    """
    known, seen = _directions(originals, sanitized)
    return seen @ known.T


def by_likelihood(log_law: FloatArray) -> FloatArray:
    """ln of the chance of every candidate, given the output, all being as likely beforehand.

    From ln P(output | text), (sanitized, originals), of `attacks.likelihood`, to the same shape.
    What is impossible (-inf) scores 1 below the least of its row; a row with nothing else tells
    nothing, 0.
    """
    law = np.asarray(log_law, dtype=np.float64)
    if law.ndim != 2 or np.isnan(law).any() or np.isposinf(law).any():
        raise InvalidInput(
            f"log_law: got shape {law.shape}, expected (sanitized, originals) of numbers or -inf"
        )
    possible = np.isfinite(law)
    total = logsumexp(law, axis=1, keepdims=True)
    scores = law - np.where(possible.any(1, keepdims=True), total, 0.0)
    least = np.where(possible, scores, np.inf).min(1, keepdims=True, initial=np.inf)
    return np.where(possible, scores, np.where(np.isfinite(least), least - 1, 0.0))


def by_matching(log_law: FloatArray) -> FloatArray:
    """`by_likelihood` for who has all outputs and knows that each is of another candidate.

    The chances of every output are scaled in turn (Sinkhorn and Knopp 1967) until no candidate has
    made more than one output in expectation, nearly: an approximation of the chances under all
    ways to match them. A row has looked at all outputs: not for `epsilon_lower_bound`.

    From ln P(output | text), (sanitized, originals), at most as many outputs as candidates.
    """
    by_likelihood(log_law)  # refuses what is no law
    outputs, candidates = np.shape(log_law)
    if outputs > candidates:
        raise InvalidInput(
            f"log_law: got {outputs} outputs of {candidates} candidates, expected at most as many: "
            "each output is of another candidate; see by_likelihood for several of one"
        )
    law = np.where(np.isfinite(log_law).any(1, keepdims=True), log_law, 0.0)
    unseen = law.shape[1] - len(law)
    matched = np.vstack([law, np.zeros((unseen, law.shape[1]))])  # unseen outputs tell nothing
    for _ in range(_ROUNDS):
        for axis in (0, 1):
            total = logsumexp(matched, axis=axis, keepdims=True)
            matched -= np.where(np.isfinite(total), total, 0.0)
    return by_likelihood(matched[: len(law)])


def meaning_kept(
    originals: NDArray[np.floating], sanitized: NDArray[np.floating]
) -> NDArray[np.float64]:
    """What `by_vectors` gives for each text and its own original: (texts,)."""
    known, seen = _directions(originals, sanitized)
    return np.asarray(np.einsum("ij,ij->i", seen, known))


def _directions(
    originals: NDArray[np.floating], sanitized: NDArray[np.floating]
) -> tuple[FloatArray, FloatArray]:
    """Both about the mean of the originals, as vectors of length 1; 0 stays 0."""
    centre = np.mean(originals, axis=0, dtype=np.float64)
    known, seen = (np.asarray(each, dtype=np.float64) - centre for each in (originals, sanitized))
    for values, given in ((known, originals), (seen, sanitized)):
        values *= np.any(given, axis=1, keepdims=True)  # no known word: no direction
        values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return known, seen


def _product(seen: sparse.csr_matrix, known: sparse.csr_matrix) -> FloatArray:
    return np.asarray((seen @ known.T).toarray(), dtype=np.float64)


# --- What the attacker achieves -----------------------------------------------------------------


def ranks_of_truth(scores: FloatArray) -> FloatArray:
    """Rank of the true original of every sanitized text, from 1; ties share their mean rank."""
    own = _own(scores)[:, None]
    above, level = (scores > own).sum(1), (scores == own).sum(1)
    return 1 + above + (level - 1) / 2


def named_first(scores: FloatArray) -> FloatArray:
    """Probability of naming the true original; a tie is broken by drawing: (sanitized,)."""
    own, best = _own(scores), scores.max(1)
    return np.where(own == best, 1 / (scores == best[:, None]).sum(1), 0.0)


def linked(scores: FloatArray, *, sample: str | None = None) -> Estimate:
    """Share of texts whose original the attacker names; guessing blindly gives 1 / candidates.

    The interval is over texts, for as many candidates as there are: with more of them less is
    linked. `sample` is that of `stats.clustered_share`.
    """
    _check_scores(scores)
    return stats.clustered_share(named_first(scores), np.arange(len(scores)), sample=sample)


@checked(false_positive_rate=LEVEL)
def true_positive_rate(scores: FloatArray, false_positive_rate: float) -> Estimate:
    """Share of true pairs above the score that so few of the false pairs exceed.

    Scores are compared across texts, each standardised over its candidates first. With N texts
    there are N (N - 1) false pairs.
    """
    _check_scores(scores)
    spread = scores.std(1, keepdims=True)
    standard = (scores - scores.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    own = _own(standard)
    false = standard.copy()
    false[np.arange(len(false)), np.arange(len(false))] = np.nan
    ordered = np.sort(false[np.isfinite(false)])[::-1]
    threshold = ordered[int(false_positive_rate * len(ordered))]
    return stats.share(int((own > threshold).sum()), len(own))


def epsilon_lower_bound(
    scores: FloatArray, rng: np.random.Generator, *, confidence: float = stats.CONFIDENCE
) -> tuple[float, Estimate]:
    """A pure epsilon per text that the sanitizer cannot be below, and how often the game was won.

    Three games are played, and the largest bound counts; all hold together (Bonferroni).

    Pairs: texts are paired at random. Of a pair (a, b) the attacker sees the sanitized a and says
    which of the two it is. If the sanitizer is epsilon-differentially private for whole texts, any
    two of them, then whatever it puts out, the odds are at most exp(epsilon) for either, so that no
    attacker is right with a probability above exp(epsilon) / (1 + exp(epsilon)), among all games
    or among those chosen by the outputs. Half of the games choose the margin from which the
    attacker commits itself, the other half are counted.

    Names: of all N texts the attacker names the one that fits an output best, or none if several
    do. The outputs for which it names text i are no more than exp(epsilon) times as likely under
    text i as under each of the N - 1 others; summed over all texts, no attacker is right on average
    with a probability above exp(epsilon) / (exp(epsilon) + N - 1). So a few hundred texts can show
    an epsilon beyond ten.

    Sure names: the same, but that the attacker names none either where the best text leads the
    second best by too little, and only among N' texts, half of all; the outputs of the other half
    choose how little. Text i is named with some probability a_i under itself, so with at least
    exp(-epsilon) a_i under each of the N' - 1 others; summed over all pairs of texts, (N' - 1)
    times the expected right names are at most exp(epsilon) times the wrong ones. Who is sure of a
    tenth of the texts and silent of the others shows more than who has to name all.

    Two things have to hold: each text is sanitized by draws of its own, and each row of the scores
    looks at one sanitized text only (who sees both a and b sanitized has seen two outputs).

    It says nothing against (epsilon, delta), nor against a guarantee for texts that agree in
    something, their length for instance. A small result says that this attacker shows no more with
    so few texts; see `largest_lower_bound`.

    Parameters
    ----------
    scores : (texts, texts), at least FEWEST
    rng : of the pairs
    confidence : of the lower bound, one-sided

    Returns
    -------
    the lower bound (0: nothing shown), and the share of all games won (guessing gives 0.5)
    """
    _check_scores(scores, least=FEWEST)
    check_generator(rng)
    level = _each_of_three(confidence)
    order = rng.permutation(len(scores))
    half = len(order) // 2
    first, second = order[:half], order[half : 2 * half]
    # The true one is first by construction, and the attacker, who compares scores, cannot know it.
    margin = scores[first, first] - scores[first, second]
    choosing, counted = margin[: half // 2], margin[half // 2 :]
    sizes = np.unique(np.abs(choosing[choosing != 0]))
    candidates = _thinned(sizes)
    bounds = [_by_pairs(choosing, size, level) for size in candidates]
    by_pairs = _by_pairs(counted, candidates[np.argmax(bounds)], level) if len(bounds) else 0.0
    fits = (scores >= _own(scores)[:, None]).sum(1)  # 1: the original fits best, and alone
    by_names = _by_names(int((fits == 1).sum()), len(scores), level)
    choosing, counted = (scores[np.ix_(part, part)] for part in (first, second))
    by_sure_names = _by_sure_names(choosing, counted, level)
    won = np.where(margin == 0, 0.5, margin > 0)
    return max(0.0, by_pairs, by_names, by_sure_names), stats.clustered_share(won, np.arange(half))


def largest_lower_bound(texts: int, *, confidence: float = stats.CONFIDENCE) -> float:
    """What `epsilon_lower_bound` would show of so many texts if all were named.

    That is by the game of names: those of the other two have fewer texts to count.
    """
    return _by_names(texts, texts, _each_of_three(confidence))


def _each_of_three(confidence: float) -> float:
    """At which each of three bounds has to hold, so that all do together (Bonferroni)."""
    return (2 + confidence) / 3


def _thinned(values: FloatArray) -> FloatArray:
    """Some fifty of ascending values, the least among them."""
    return values[:: max(1, len(values) // 50)]


def _by_pairs(margins: FloatArray, least: float, confidence: float) -> float:
    """Lower bound on epsilon from the games of pairs in which the margin is at least so large."""
    committed = margins[np.abs(margins) >= least]
    return float(logit(_lower(int((committed > 0).sum()), len(committed), confidence)))


def _by_names(right: int, texts: int, confidence: float) -> float:
    """Lower bound on epsilon from outputs of which so many are assigned to the right text.

    Clopper and Pearson's end holds for shares that differ by text too, where two are right
    (Hoeffding 1956); where one is, the bound is below 0.
    """
    return float(logit(_lower(right, texts, confidence)) + np.log(texts - 1))


def _by_sure_names(choosing: FloatArray, counted: FloatArray, confidence: float) -> float:
    """Lower bound on epsilon from outputs whose best text leads by enough.

    Two halves of texts and outputs, the right ones on the diagonal: (half, half) scores each. The
    first chooses the lead, the second is counted.
    """

    def bound(named: tuple[FloatArray, BoolArray], least: float) -> float:
        lead, is_right = named
        sure = lead >= least
        right = int((sure & is_right).sum())
        return _of_sure_names(right, int(sure.sum()) - right, len(lead), confidence)

    tried, unseen = _led(choosing), _led(counted)
    candidates = _thinned(np.unique(tried[0][tried[0] > 0]))
    if not len(candidates):
        return 0.0
    return bound(unseen, candidates[np.argmax([bound(tried, least) for least in candidates])])


def _led(scores: FloatArray) -> tuple[FloatArray, BoolArray]:
    """By how much the best text of every output leads the second, and whether it is the right one.

    Where two are best neither is named: the lead is 0.
    """
    second, best = np.partition(scores, -2, axis=1)[:, -2:].T
    return best - second, _own(scores) == best


def _of_sure_names(right: int, wrong: int, texts: int, confidence: float) -> float:
    """Lower bound on epsilon from so many outputs that are given the right and the wrong text.

    Both ends are Clopper and Pearson's and hold together. They do so for shares that differ by
    text, as in `_by_names`, from two right names on.
    """
    if right < 2:
        return 0.0
    likely, unlikely = (_share(each, texts, confidence=confidence) for each in (right, wrong))
    return float(np.log(texts - 1) + np.log(likely.low) - np.log(unlikely.high))


def _lower(right: int, trials: int, confidence: float) -> float:
    """One-sided lower bound on the probability of being right."""
    if not trials:
        return 0.0
    # The lower end of this two-sided interval is the one-sided one.
    return _share(right, trials, confidence=2 * confidence - 1).low


def _own(scores: FloatArray) -> FloatArray:
    return np.diagonal(scores)[: len(scores)]


def _check_scores(scores: FloatArray, *, least: int = 2) -> None:
    shape = np.shape(scores)
    if len(shape) != 2 or not least <= shape[0] <= shape[1] or not np.isfinite(scores).all():
        raise InvalidInput(
            f"scores: got shape {shape}, expected (sanitized, originals) of finite numbers for at "
            f"least {least} texts, the i-th original being that of the i-th sanitized text"
        )


def checked_pair_of_lists(
    originals: Sequence[str], sanitized: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Two lists of at least one text each, or InvalidInput."""
    known, seen = check_texts(originals, what="originals"), check_texts(sanitized, what="sanitized")
    if not known or not seen:
        raise InvalidInput("originals, sanitized: got no text, expected at least one of each")
    return known, seen
