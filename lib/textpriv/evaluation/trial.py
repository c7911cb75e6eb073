"""Does a mechanism, or an attack, of one's own do what it says? In words, check by check.

    print(check_mechanism(MyMechanism, epsilon=2))
    check_mechanism(my_function, epsilon=2).passed

In the way of scikit-learn's `check_estimator`, but a failed check is a row, not an exception.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from textpriv.attacks.base import NONE, Attack, Observed, observe
from textpriv.attacks.game import most_shown, play
from textpriv.channel import Channel
from textpriv.checks import check_kind
from textpriv.data.tokens import Corpus
from textpriv.errors import InvalidInput
from textpriv.evaluation.sanitizers import Sanitizer, sanitizer
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.finite import FiniteMechanism
from textpriv.privacy import sampled
from textpriv.privacy.claims import ClaimedLoss, claimed_loss
from textpriv.privacy.exact import audit_exactly, losses
from textpriv.privacy.released import Noisy, audit_noise, fit_words, readable, released_words
from textpriv.privacy.results import LEVEL, Audit

SENTENCES = (
    "The hotel in Paris was wonderful, and the staff spoke good English.",
    "My doctor told me that the results of the test would come on Monday.",
    "She bought a small house near the river, with a garden and two old trees.",
    "I would not watch this film again, even if somebody paid me for it.",
)
WORDS = ("doctor", "river", "wonderful", "english", "film", "garden", "monday", "money")
CANARIES = ("zqxjvkw", "493817265")  # a word and a number that no vocabulary has
COPIES = 40  # of the sentences, where chance has to be told from habit
VOCABULARY = 2000  # words of a mechanism that is made here, the most frequent
DRAWS = 4000  # of each word, where a claim is judged by draws alone
GAMES = 400  # of them, where a classifier judges


@dataclass(frozen=True)
class Checked:
    """What the checks of one mechanism or attack said.

    Attributes
    ----------
    name : of what was checked
    rows : columns check, result ("passed", "failed", "not run") and says
    """

    name: str
    rows: pd.DataFrame

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not (self.rows["result"] == "failed").any()

    @property
    def failed(self) -> dict[str, str]:
        """What each failed check says."""
        rows = self.rows[self.rows["result"] == "failed"]
        return dict(zip(rows["check"], rows["says"], strict=True))

    def __str__(self) -> str:
        marks = {"passed": "ok    ", "failed": "FAILED", "not run": "-     "}
        lines = [f"{marks[row.result]} {row.check}: {row.says}" for row in self.rows.itertuples()]
        end = f"{len(self.failed)} of {len(self.rows)} checks failed"
        if self.passed:
            skipped = self.rows.loc[self.rows["result"] == "not run", "check"]
            end = f"no check failed; not tested: {', '.join(skipped)}" if len(skipped) else "passed"
        return "\n".join([f"{self.name}:", *lines, end])

    def _repr_html_(self) -> str:
        return str(self.rows.style.hide(axis="index").to_html())


class _NotRun(Exception):
    """A check that has nothing to go by."""


def check_mechanism(
    mechanism: object, *, epsilon: float | None = None, policy: str = "private", seed: int = 0
) -> Checked:
    """Texts in and out, seeds, words in clear, the law of the draws, and the claim.

    Parameters
    ----------
    mechanism, epsilon, policy : see `sanitizers.sanitizer`. Of a function epsilon is what
        each word is said to be worth: a claim that is put to the test, not an argument only
    seed : of the tests' own draws

    Notes
    -----
    A check of the law or the claim by draws fails a right mechanism with a probability of at most
    0.001. What passes is not proved: an audit of sampled outputs sees no loss that is rare or
    small (see docs/PRIVACY.md).
    """
    made = sanitizer(mechanism, epsilon=epsilon, policy=policy, words=VOCABULARY)
    rng = np.random.default_rng(seed)
    checks = {
        "as many texts out as in": _counts,
        "the empty text": _empty,
        "fresh randomness": _fresh,
        "the same generator gives the same output": _seeded,
        "unknown words are replaced": _canaries,
        "first, last and lone words are replaced": _places,
        "stated probabilities add up": _consistent,
        "draws follow the stated law": _law,
        "the claim": _claim,
    }
    return _all(made.label, checks, made, rng)


def check_attack(attack: object, mechanism: Mechanism, *, seed: int = 0) -> Checked:
    """Ranks, scores, targets and repeated calls of an attack on words.

    Parameters
    ----------
    attack : an `Attack`, made for the channel of `mechanism`
    mechanism : whose outputs it is shown
    """
    expected = "an Attack, or register a function of texts with register_attack"
    check_kind(attack, Attack, what="attack", expected=expected)
    assert isinstance(attack, Attack)
    rng = np.random.default_rng(seed)
    inputs = np.arange(mechanism.size) if mechanism.inputs is None else mechanism.inputs
    ids = rng.choice(inputs, size=60).astype(np.int64)
    private = Corpus(ids, np.arange(0, 61, 12), vocabulary=mechanism.vocabulary)
    observed = observe(mechanism, private, rng)
    checks = {
        "guesses are ranked": _ranked,
        "posteriors are probabilities": _probabilities,
        "targets are answered one by one": _targets,
        "the same call gives the same guesses": _repeatable,
    }
    return _all(attack.name, checks, attack, observed, mechanism.size)


def _all(name: str, checks: Mapping[str, Callable[..., str]], *given: Any) -> Checked:
    rows = []
    for title, check in checks.items():
        try:
            with simulation():
                result, says = "passed", check(*given)
        except _NotRun as reason:
            result, says = "not run", str(reason)
        except AssertionError as failure:
            result, says = "failed", str(failure)
        except Exception as error:  # whatever a stranger's code raises is what the row says
            result, says = "failed", f"raises {type(error).__name__}: {error}"
        rows.append({"check": title, "result": result, "says": says})
    return Checked(name, pd.DataFrame(rows))


# --- Mechanisms ---------------------------------------------------------------------------------


def _counts(made: Sanitizer, rng: np.random.Generator) -> str:
    sanitized = made.sanitize(SENTENCES)
    assert made.sanitize(list(SENTENCES[:1])), "nothing came out for one text"
    return f"{len(sanitized)} texts in, {len(sanitized)} out"


def _empty(made: Sanitizer, rng: np.random.Generator) -> str:
    for text in ("", " ", "\n"):
        try:
            sanitized = made.function([text, SENTENCES[0]], None)
        except InvalidInput as error:
            return f"refused with a clear error: {error}"
        made.checked(sanitized, 2)
    return "an empty text is passed through"


def _fresh(made: Sanitizer, rng: np.random.Generator) -> str:
    size = len(SENTENCES)
    calls = [made.sanitize(list(SENTENCES) * COPIES) for _ in range(2)]
    copies = [
        {tuple(call[start : start + size]) for start in range(0, len(call), size)} for call in calls
    ]
    one_for_all = max(map(len, copies)) == 1
    assert calls[0] != calls[1] or not one_for_all, (
        "two calls, and all copies inside them, gave the same output: it draws from a seed that is "
        "always the same, or it does not draw at all (which is private only if the output is the "
        "same for every text)"
    )
    assert calls[0] != calls[1], "two calls gave the same output: the same seed each time"
    assert not one_for_all, "all copies of a text in one call got the same output: they share draws"
    return f"{len(copies[0] | copies[1])} different outputs of {2 * COPIES} for the same texts"


def _seeded(made: Sanitizer, rng: np.random.Generator) -> str:
    if not made.seeded:
        raise _NotRun("it takes no generator, so that its outputs cannot be made again")
    first, second = (made.sanitize(SENTENCES, np.random.default_rng(1)) for _ in range(2))
    assert first == second, "it takes a generator, and draws from something else as well"
    return "a result can be made again"


def _canaries(made: Sanitizer, rng: np.random.Generator) -> str:
    if made.policy and made.policy.kept:
        raise _NotRun(f"the token policy passes in clear: {', '.join(made.policy.kept)}")
    texts = [f"My name is {CANARIES[0]} and my number is {CANARIES[1]} in Paris."] * COPIES
    sanitized = made.sanitize(texts)
    leaked = {canary: sum(canary in text.lower() for text in sanitized) for canary in CANARIES}
    worst = max(leaked, key=lambda canary: leaked[canary])
    assert not leaked[worst], (
        f"a {'word' if worst == CANARIES[0] else 'number'} that no vocabulary has came out as it "
        f"is in {leaked[worst]} of {COPIES} outputs: names and numbers leak in clear"
    )
    return "neither an unknown word nor an unknown number came out"


def _places(made: Sanitizer, rng: np.random.Generator) -> str:
    """Whether words at the ends of texts, or alone, come out as they are, and the others do not."""
    orders = [rng.permutation(WORDS) for _ in range(COPIES * len(WORDS))]
    texts = [words[: 1 + number % len(WORDS)].tolist() for number, words in enumerate(orders)]
    outputs = [text.lower().split() for text in made.sanitize([" ".join(text) for text in texts])]
    if [len(text) for text in texts] != [len(output) for output in outputs]:
        raise _NotRun("its outputs have other lengths than the texts")
    same: dict[str, list[bool]] = defaultdict(list)
    for text, output in zip(texts, outputs, strict=True):
        ends = {len(text) - 1: "last", 0: "alone" if len(text) == 1 else "first"}
        for place, (sent, came) in enumerate(zip(text, output, strict=True)):
            same[ends.get(place, "inside")].append(sent == came)
    inside = same.pop("inside")
    for end, kept in same.items():
        table = [[sum(each), len(each) - sum(each)] for each in (kept, inside)]
        p = len(same) * fisher_exact(table, alternative="greater").pvalue
        assert not all(kept) or p >= LEVEL, (
            f"words that stand {end} came out as they are in all of {len(kept)} texts, and inside "
            f"a text {np.mean(inside):.0%} of them"
        )
    return "no words leave in clear for standing first, last or alone"


def _consistent(made: Sanitizer, rng: np.random.Generator) -> str:
    """What no draw shows: attacks read the columns P(y|.), a sampler the rows P(.|x)."""
    mechanism: Any = made.mechanism
    if not (isinstance(mechanism, Channel) and isinstance(mechanism, Mechanism)):
        raise _NotRun("it states no probabilities P(y|x)")
    mechanism.check(readable(mechanism.embedding.words, mechanism.inputs, 60, rng))
    return "P(y|x) sums to 1 over the outputs, and is the same by rows and by columns"


def _law(made: Sanitizer, rng: np.random.Generator) -> str:
    mechanism: Any = made.mechanism
    if isinstance(mechanism, FiniteMechanism):
        fit = released_words(mechanism, rng, draws=1000)
    elif isinstance(mechanism, Channel) and isinstance(mechanism, Mechanism):
        ids = readable(mechanism.embedding.words, mechanism.inputs, 60, rng)
        rows = mechanism.log_rows(ids)
        with simulation():
            fit = fit_words(mechanism, ids, lambda _: np.exp(rows), 1000, rng)
    elif isinstance(mechanism, Noisy):
        return _judged(audit_noise(mechanism, rng))
    else:
        raise _NotRun("it states no probabilities P(y|x)")
    assert fit.p >= LEVEL, (
        f"outputs are not drawn from the probabilities that it states (p = {fit.p:.2g}): the "
        "sampler or the law is wrong"
    )
    return f"draws agree with P(y|x) (p = {fit.p:.2g})"


def _claim(made: Sanitizer, rng: np.random.Generator) -> str:
    mechanism: Any = made.mechanism
    if isinstance(mechanism, Noisy):
        return _judged(audit_noise(mechanism, rng))
    try:
        claim = None if mechanism is None else claimed_loss(mechanism)
    except InvalidInput:
        claim = None
    if isinstance(mechanism, FiniteMechanism) and claim is not None:
        return _judged(audit_exactly(mechanism, rng=rng))
    if isinstance(mechanism, Channel):
        return _by_law(mechanism, claim, rng)
    if made.epsilon is None:
        raise _NotRun("it claims no epsilon")
    if claim is not None and claim.per != "word":
        raise _NotRun("its claim grows with a distance; see textpriv.privacy.audit_words")
    return _by_draws(made)


def _judged(audit: Audit) -> str:
    if audit.verdict == "no claim":
        raise _NotRun("it claims no bound for any pair of words, at any epsilon")
    assert audit.verdict != "broken", (
        f"broken: {audit.claim}; the largest loss found is {audit.worst_ratio:.3g} times the "
        f"claim, for {' and '.join(audit.worst_pair)}"
        + (f"; draws of another law (p = {audit.fit:.2g})" if (audit.fit or 1) < LEVEL else "")
    )
    if audit.verdict == "undecided":
        raise _NotRun(f"undecided by these draws: {audit.method}, {audit.pairs:,} pairs")
    return f"{audit.verdict}: {audit.method}, {audit.pairs:,} pairs"


def _by_law(mechanism: Any, claim: ClaimedLoss | None, rng: np.random.Generator) -> str:
    """An exact law against its claim, or against epsilon between any two words without one."""
    words = np.arange(mechanism.size) if mechanism.inputs is None else mechanism.inputs
    chosen = np.sort(rng.choice(words, min(200, len(words)), replace=False))
    first, second = np.triu_indices(len(chosen), 1)
    loss = losses(mechanism, chosen[first], chosen[second])
    bound = np.full(len(loss), mechanism.epsilon)
    if claim is not None:
        bound = claim.between(chosen[first], chosen[second])
    finite = np.isfinite(bound)
    if not finite.any():
        raise _NotRun("it claims a bound for none of the pairs that were drawn")
    first, second, loss, bound = (each[finite] for each in (first, second, loss, bound))
    worst = int(np.argmax(loss - bound * (1 + 1e-6)))
    pair = " and ".join(mechanism.embedding.words[chosen[at[worst]]] for at in (first, second))
    assert loss[worst] <= bound[worst] * (1 + 1e-6), (
        f"between {pair} the exact loss is {loss[worst]:.3g}, above the {bound[worst]:.3g} that "
        "are claimed; a claim that grows with a distance says so by its `loss`"
    )
    return f"holds between all of {len(chosen)} words: {len(loss):,} pairs, exact losses"


def _by_draws(made: Sanitizer) -> str:
    """Epsilon per word, by the outputs of texts of one word each, whatever makes them.

    `privacy.sampled` says how the two halves of the draws judge every pair of words. It counts
    outputs that come again; where few do, a classifier looks at parts of them (`attacks.game`).
    """
    assert made.epsilon is not None
    level = sampled.bound_level(math.comb(len(WORDS), 2))
    examined = partial(sampled.examine, claim=made.epsilon, level=level)
    apart = np.array([DRAWS, 0]), np.array([0, DRAWS])  # two words that share no output
    most = examined(apart, apart).loss
    if made.epsilon >= most:
        raise _NotRun(f"{DRAWS:,} draws cannot show a loss above {most:.2g}")
    outputs = [made.sanitize([word for word in WORDS for _ in range(DRAWS)]) for _ in range(2)]
    every, numbers = np.unique(np.array(outputs, dtype=object), return_inverse=True)
    if len(every) > len(WORDS) * DRAWS:  # of twice as many: most came once
        return _by_games(made, np.array(outputs[0], dtype=object).reshape(len(WORDS), DRAWS))
    drawn = numbers.reshape(2, len(WORDS), DRAWS)
    first, second = ([np.bincount(row, minlength=len(every)) for row in half] for half in drawn)
    losses = {
        (one, other): examined((first[x], first[z]), (second[x], second[z])).loss
        for (x, one), (z, other) in permutations(enumerate(WORDS), 2)
    }
    worst, pair = max((loss, pair) for pair, loss in losses.items())
    assert worst <= made.epsilon, (
        f"eps {made.epsilon:g} per word is broken, read as a bound for any two words: between "
        f"{pair[0]!r} and {pair[1]!r} the loss is at least {worst:.3g} (confidence "
        f"{sampled.CONFIDENCE:.1%})"
    )
    return (
        f"not broken by {DRAWS:,} draws of {len(WORDS)} words each (least loss shown: "
        f"{max(0.0, worst):.2g})"
    )


def _by_games(made: Sanitizer, outputs: NDArray[np.object_]) -> str:
    """Epsilon per word, by a classifier that tells GAMES outputs of one word from another's."""
    assert made.epsilon is not None
    rng, pairs = np.random.default_rng(0), list(combinations(range(len(WORDS)), 2))
    confidence = 1 - (1 - sampled.CONFIDENCE) / len(pairs)
    if made.epsilon >= (most := most_shown(GAMES, confidence=confidence)):
        raise _NotRun(
            f"hardly an output comes twice, and {GAMES} of them cannot show a loss above {most:.2g}"
        )
    seen = [row.tolist() for row in outputs[:, :GAMES]]
    shown = {
        pair: play(seen[pair[0]], seen[pair[1]], rng, confidence=confidence).epsilon
        for pair in pairs
    }
    worst, (one, other) = max((epsilon, pair) for pair, epsilon in shown.items())
    assert worst <= made.epsilon, (
        f"eps {made.epsilon:g} per word is broken, read as a bound for any two words: a classifier "
        f"tells outputs of {WORDS[one]!r} and {WORDS[other]!r} apart, which takes a loss of at "
        f"least {worst:.3g} (confidence {sampled.CONFIDENCE:.1%})"
    )
    return (
        f"not broken by a classifier of {GAMES} outputs of {len(WORDS)} words each, most of which "
        f"came once (least loss shown: {worst:.2g})"
    )


# --- Attacks ------------------------------------------------------------------------------------


def _ranked(attack: Attack, observed: Observed, size: int) -> str:
    guesses = attack.guess(observed, top=5)
    shape = len(observed.targets), 5
    assert guesses.words.shape == guesses.scores.shape == shape, (
        f"guesses have shape {guesses.words.shape} and {guesses.scores.shape}, expected {shape}"
    )
    inside = (guesses.words == NONE) | ((guesses.words >= 0) & (guesses.words < size))
    assert inside.all(), f"some guess is no word of the vocabulary, 0 .. {size - 1}"
    named = guesses.words != NONE
    assert np.isfinite(guesses.scores[named]).all(), "some score of a guess is no finite number"
    finite = np.where(named, guesses.scores, -1e300)
    assert (np.diff(finite, axis=1) <= 1e-9).all(), (
        "scores grow along a row: the best guess comes first"
    )
    rows = [row[row != NONE] for row in guesses.words]
    assert all(len(set(row.tolist())) == len(row) for row in rows), "a word is guessed twice"
    return "five words for each target, the best first, none twice"


def _probabilities(attack: Attack, observed: Observed, size: int) -> str:
    if not attack.posterior:
        raise _NotRun("its scores are no probabilities")
    scores = attack.guess(observed, top=5).scores
    finite = np.where(np.isfinite(scores), scores, 0.0)
    assert finite.min() >= 0 and finite.sum(1).max() <= 1 + 1e-6, (
        f"scores go from {finite.min():.3g} and sum to {finite.sum(1).max():.3g}; expected "
        "probabilities (or posterior = False)"
    )
    return "they are, and sum to at most 1"


def _targets(attack: Attack, observed: Observed, size: int) -> str:
    every = attack.guess(observed, top=1).words
    chosen = observed.targets[::7]
    part = attack.guess(observed, chosen, top=1).words
    assert np.array_equal(part, every[::7]), "other guesses for the same tokens when asked for some"
    return "asked for some tokens it says the same of them"


def _repeatable(attack: Attack, observed: Observed, size: int) -> str:
    first, second = (attack.guess(observed, top=3).words for _ in range(2))
    assert np.array_equal(first, second), "two calls gave different guesses"
    return "it does"
