"""Statistical tests with stated error rates, tables of bad calls, what is made up for tests.

A test with a fixed seed never flickers; what its seed could have done is bounded. ALARM is
the probability, over seeds, that a right implementation is rejected; POWER the least
probability with which the named wrong version is. Both follow from the inequality of
Dvoretzky, Kiefer, Wolfowitz and Massart,

    P(sup |empirical cdf - cdf| > c) <= 2 exp(-2 n c^2)          for every law and every n,

from exact binomial tests or, for counts in many cells, from the chi-square approximation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import logsumexp

from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.report.results import Measurement, Results, measure
from textpriv.stats import Estimate

FloatArray = NDArray[np.float64]
Cdf = Callable[[FloatArray], FloatArray]
Sampler = Callable[[int, np.random.Generator], FloatArray]

ALARM = 1e-6
POWER = 0.999


def half_width(estimate: Estimate) -> float:
    """Half the width of an interval."""
    return (estimate.high - estimate.low) / 2


def margin(n: int, alarm: float) -> float:
    """Distance that n observations exceed with probability at most `alarm`."""
    return float(np.sqrt(np.log(2 / alarm) / (2 * n)))


def cdf_distance(sample: ArrayLike, cdf: Cdf) -> float:
    """sup |empirical cdf - cdf|, for a continuous cdf."""
    ordered = np.sort(np.asarray(sample, dtype=np.float64))
    expected, steps = cdf(ordered), np.arange(len(ordered) + 1) / len(ordered)
    return float(max((expected - steps[:-1]).max(), (steps[1:] - expected).max()))


def follows(sample: ArrayLike, cdf: Cdf, alarm: float = ALARM) -> bool:
    """Whether the sample passes for one of the law; errs with probability at most `alarm`."""
    return cdf_distance(sample, cdf) <= margin(len(np.asarray(sample)), alarm)


def assert_follows(sampler: Sampler, cdf: Cdf, *, n: int = 20_000, seed: int = 1) -> None:
    """False alarm at most ALARM."""
    assert follows(sampler(n, np.random.default_rng(seed)), cdf)


def assert_caught(wrong: Sampler, cdf: Cdf, *, n: int = 20_000, seed: int = 1) -> None:
    """`assert_follows` rejects the wrong version, and does so with probability >= POWER.

    A pilot bounds the distance of the wrong law from below (but for a chance of 1e-6); what
    is left of it over both margins bounds the power.
    """
    pilot = cdf_distance(wrong(n, np.random.default_rng(seed + 1)), cdf)
    rest = pilot - margin(n, 1e-6) - margin(n, ALARM)
    assert rest > 0 and 2 * np.exp(-2 * n * rest**2) <= 1 - POWER
    assert not follows(wrong(n, np.random.default_rng(seed)), cdf)


def fits(counts: ArrayLike, probabilities: ArrayLike, alarm: float = ALARM) -> bool:
    """G-test of counts against a law; a count where the law has 0 fails at once.

    Cells with an expected count below 10 are pooled.
    """
    observed = np.asarray(counts, dtype=np.float64)
    law = np.asarray(probabilities, dtype=np.float64)
    assert observed.shape == law.shape and abs(law.sum() - 1) < 1e-9
    if observed[law == 0].any():
        return False
    observed, expected = _pooled(observed, law * observed.sum())
    seen = observed > 0
    statistic = 2 * (observed[seen] * np.log(observed[seen] / expected[seen])).sum()
    return bool(stats.chi2.sf(statistic, max(1, len(expected) - 1)) >= alarm)


def power_of_fit(wrong: ArrayLike, right: ArrayLike, n: int, alarm: float = ALARM) -> float:
    """Probability with which `fits` rejects n draws of the wrong law (non-central chi-square)."""
    observed, expected = _pooled(np.asarray(wrong) * n, np.asarray(right) * n)
    freedom = max(1, len(expected) - 1)
    distance = ((observed - expected) ** 2 / expected).sum()
    return float(stats.ncx2.sf(stats.chi2.isf(alarm, freedom), freedom, distance))


def _pooled(observed: FloatArray, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
    small = expected < 10
    if not small.any():
        return observed, expected
    tail = max(float(expected[small].sum()), 1e-12)
    return (np.append(observed[~small], observed[small].sum()), np.append(expected[~small], tail))


def share_fits(successes: int, n: int, probability: float, alarm: float = ALARM) -> bool:
    """Exact binomial test."""
    return bool(stats.binomtest(int(successes), n, probability).pvalue >= alarm)


def power_of_share(wrong: float, right: float, n: int, alarm: float = ALARM) -> float:
    """Probability with which `share_fits` rejects n trials of the wrong probability."""
    mass = stats.binom.pmf(np.arange(n + 1), n, right)
    order = np.argsort(mass)
    rejected = order[np.cumsum(mass[order]) < alarm]
    return float(stats.binom.pmf(rejected, n, wrong).sum())


def refused(*calls: tuple[Callable[..., object], str]) -> Callable[..., None]:
    """A test that each call raises InvalidInput, with that in its message.

    A call names the fixtures that it needs, as a test does.
    """

    @pytest.mark.parametrize(("call", "says"), calls, ids=[says for _, says in calls])
    def test(request: pytest.FixtureRequest, call: Callable[..., object], says: str) -> None:
        needed = [request.getfixturevalue(name) for name in inspect.signature(call).parameters]
        with pytest.raises(InvalidInput, match=says):
            call(*needed)

    return test


def embedding(vectors: ArrayLike, name: str = "synthetic") -> Embedding:
    """Words w0, w1, ... with these vectors."""
    table = np.asarray(vectors, dtype=np.float32)
    return from_arrays(name, [f"w{row}" for row in range(len(table))], table)


def normal_embedding(size: int, dimension: int, seed: int = 0) -> Embedding:
    """Standard normal vectors."""
    return embedding(np.random.default_rng(seed).standard_normal((size, dimension)))


def distances(table: Embedding) -> FloatArray:
    """Between all words, from their definition."""
    x = table.vectors.astype(np.float64)
    return np.asarray(np.linalg.norm(x[:, None] - x[None], axis=2))


def units(words: int, k: int, dimension: int, seed: int = 0) -> FloatArray:
    """Random directions, k for each word."""
    from textpriv.neighbors import random_directions  # which takes a second to import

    rng = np.random.default_rng(seed)
    return random_directions(words * k, dimension, rng).reshape(words, k, dimension)


def ids(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def corpus(*documents: Any, kept: dict[int, str] | None = None) -> Corpus:
    """Of documents of ids; the texts of kept tokens by their place."""
    ids = np.array([token for document in documents for token in document], dtype=np.int64)
    return Corpus(ids, np.cumsum([0, *map(len, documents)], dtype=np.int64), kept or {})


def results_of(
    notebook: str,
    measured: Iterable[Measurement] = (),
    profile: str = "default",
    *,
    seconds: float = 90.0,
    peak_mb: float = 100.0,
    figures: Sequence[str] = (),
) -> Results:
    """Results of a notebook that has not run."""
    return Results(
        notebook=notebook, profile=profile, seed=7, overrides={}, commit="0123456789", dirty=True,
        device="cpu", dtype="float32", seconds=seconds, peak_mb=peak_mb, versions={}, assets={},
        figures=[*figures], measurements=[*measured, measure("run.seconds", seconds, unit="s")],
    )  # fmt: skip


class Given(np.random.Generator):
    """A generator that draws the uniform numbers, or the one number, that it is given."""

    def __init__(self, values: ArrayLike) -> None:
        super().__init__(np.random.PCG64(0))
        self.values = values

    def random(self, size: Any = None, *_: Any) -> Any:  # type: ignore[override]
        return np.broadcast_to(self.values, size).copy()


class Sparse:
    """An index that finds row 0 alone, or none, as inverted lists may."""

    name = "sparse"

    def __init__(self, count: int, table: Embedding) -> None:
        self.count, (self.size, self.dimension) = count, table.vectors.shape

    def nearest(self, queries: FloatArray, k: int = 1) -> tuple[Any, FloatArray]:
        ids = np.full((len(queries), k), -1)
        ids[:, : self.count] = 0
        return ids, np.where(ids < 0, np.inf, 1.0)


def renyi(p: FloatArray, q: FloatArray, order: float) -> float:
    """The larger of both directions, from the definition, and of several laws in columns."""
    if np.isinf(order):
        return float(np.abs(np.log(p / q)).max())
    both = (
        logsumexp(order * np.log(x) - (order - 1) * np.log(y), axis=0) for x, y in ((p, q), (q, p))
    )
    return float(max(np.max(each) for each in both) / (order - 1))


def law_of(mechanism: Any) -> FloatArray:
    """P(y|x): inputs in rows."""
    return np.exp(mechanism.log_rows(np.arange(mechanism.size)))


def assert_draws_follow(mechanism: Any, words: Any, n: int, *wrong: FloatArray) -> None:
    """False alarm at most ALARM per word; draws of each wrong law would be found out."""
    right = law_of(mechanism)
    with pytest.warns(UserWarning, match="generator was passed"):
        drawn = mechanism.sanitize_ids(np.repeat(words, n), np.random.default_rng(5))
    for word, outputs in zip(words, drawn.reshape(-1, n), strict=True):
        assert fits(np.bincount(outputs, minlength=mechanism.size), right[word])
        assert all(power_of_fit(law[word], right[word], n) >= POWER for law in wrong)


def assert_form(
    attack: Any, observed: Any, tolerance: float = 0.0, *, top: int = 9, chosen: Any = (2, 0, 2)
) -> Any:
    """Guesses have one shape, and are the same few or many, for targets in any order and twice.

    `tolerance` is that of scores which depend on what is computed together.
    """
    rows, every = np.array(chosen), attack.guess(observed, top=top)
    assert every.words.shape == every.scores.shape == (len(observed.targets), top)
    assert every.words.dtype == np.int64 and every.scores.dtype == np.float64
    assert (np.isneginf(every.scores) == (every.words < 0)).all()
    selected = attack.guess(observed, observed.targets[rows], top=2)
    words, scores = every.words[rows, :2], every.scores[rows, :2]
    if tolerance:
        order, expected = np.argsort(selected.words, 1), np.argsort(words, 1)
        scores = np.take_along_axis(scores, expected, 1)
        made = np.take_along_axis(selected.scores, order, 1)
        np.testing.assert_allclose(made, scores, rtol=0, atol=tolerance)
    else:
        np.testing.assert_array_equal(selected.words, words)
        np.testing.assert_array_equal(selected.scores, scores)
    assert attack.guess(observed, ids(), top=2).words.shape == (0, 2)
    return every


def assert_within_claim(mechanism: Any) -> None:
    """No two words lose more than is claimed, and all that a claim says of them agrees."""
    from textpriv.privacy import claimed_loss
    from textpriv.privacy.exact import every_loss

    claim, every = claimed_loss(mechanism), np.arange(mechanism.size)
    first, second = np.triu_indices(mechanism.size, 1)
    bound = claim.between(first, second)
    assert (every_loss(mechanism, every) <= bound * (1 + 1e-9) + 1e-9).all()
    np.testing.assert_allclose(claim.rows(every)[first, second], bound, rtol=1e-9, atol=1e-9)
    assert claim.largest() == pytest.approx(bound.max(), rel=1e-9, abs=1e-9)


def likeliest_by_hand(channel: Any, outputs: Any, prior: Any, count: int) -> tuple[Any, Any, Any]:
    """`Channel.likeliest_inputs` from the columns, one output and one input at a time."""
    words = np.full((len(outputs), count), -1)
    joints, evidence = np.full((len(outputs), count), -np.inf), np.full(len(outputs), -np.inf)
    for row, column in enumerate(channel.log_columns(np.asarray(outputs))):
        pairs = [
            (-(value + np.log(weight)), word)
            for word, (value, weight) in enumerate(zip(column, prior, strict=True))
            if weight > 0 and value > -np.inf
        ]
        for rank, (negative, word) in enumerate(sorted(pairs)[:count]):
            words[row, rank], joints[row, rank] = word, -negative
        if pairs:
            evidence[row] = logsumexp([-negative for negative, _ in pairs])
    return words, joints, evidence
