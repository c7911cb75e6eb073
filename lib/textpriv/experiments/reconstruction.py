"""Notebook 05: how many words an attacker gets back.

Every attack answers for the same tokens of the same sanitized text, so that attacks are compared
in pairs. What is attacked and what attackers have read is in `reconstruction_texts`, what trains a
network in `reconstruction_models`. Of the outcomes (`Outcome`) of all settings:

    success_rates, gains, compare          every attack; two of them; tested
    by_frequency, on_words, calibration    by the true word; of some words; by what was stated
    closed_form, schemes                   what is expected; the paper's scheme of sampling tokens
    by_constant, shadow_sizes, misaligned  other constants; more or less to read; another domain
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t
from statsmodels.stats.multitest import multipletests

from textpriv import stats, study
from textpriv.attacks.base import (
    Attack,
    BoolArray,
    FloatArray,
    Guesses,
    IntArray,
    Observed,
    is_input,
    is_sensitive,
    observe,
)
from textpriv.attacks.bayes import (
    Bayes,
    ContextFreeBayes,
    ContextFreeBound,
    EmbeddingInversion,
    bayes_success,
    prior_of,
)
from textpriv.attacks.inversion import InversionPerToken
from textpriv.attacks.ngrams import NGrams
from textpriv.attacks.noisy_channel import NoisyChannel
from textpriv.channel import Channel
from textpriv.data import splits
from textpriv.data.tokens import Corpus
from textpriv.experiments.reconstruction_texts import (
    ELSEWHERE,
    PUBLIC,
    SHADOW,
    Knowledge,
    Material,
    Sizes,
    learn,
    weights_of,
)
from textpriv.mechanisms import FiniteMechanism
from textpriv.seeds import stream
from textpriv.stats import Estimate

if TYPE_CHECKING:
    from textpriv.report.run import Run

COMPARED = ("embedding-inversion", "context-free-bayes", "context-free-bound", SHADOW, PUBLIC)
PAIRS = tuple(product((PUBLIC, SHADOW), ("context-free-bayes", "context-free-bound")))
SETTING = ("defense", "corpus", "epsilon", "attack")


# --- The attacks ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the attacks, by their names, made of one sanitized text."""

    corpus: str
    defense: str
    epsilon: float
    truth: IntArray  # (targets,) original words
    guessed_from: IntArray  # (targets,) observed words
    document: IntArray  # (targets,) clusters
    # (targets,) whether the best guess was right, or as a string that holds the word; of an attack
    # that was trained several times, the share of its trainings.
    hits: dict[str, FloatArray] = field(default_factory=dict)
    substring: dict[str, FloatArray] = field(default_factory=dict)
    # (targets,) the probability of the best guess; of attacks with a posterior.
    confidence: dict[str, FloatArray] = field(default_factory=dict)
    # (trainings, targets) `hits` of each; of attacks that were trained several times.
    trainings: dict[str, FloatArray] = field(default_factory=dict)
    # What a training of these attacks draws anew. Detectors that go on from one another share it.
    drawn: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)  # of language models, as tuned

    @property
    def setting(self) -> dict[str, Any]:
        """Corpus, defense and epsilon, as tables name them."""
        return {"corpus": self.corpus, "defense": self.defense, "epsilon": self.epsilon}

    def share(self, name: str, chosen: BoolArray | None = None) -> Estimate:
        """Success of one attack, on some of the tokens; what one document holds is alike.

        The interval holds what another training would change, too.
        """
        every = self.trainings.get(name, self.hits[name][None])
        return self.over_trainings(every, self.drawn.get(name, name), chosen)

    def over_trainings(
        self, hits: FloatArray, drawn: str, chosen: BoolArray | None = None
    ) -> Estimate:
        """Share of right guesses, on some of the tokens, over documents and trainings.

        `hits` are (trainings, targets), `drawn` is what each training draws anew.
        """
        selected = np.ones(len(self.truth), bool) if chosen is None else chosen
        right, document = hits[:, selected], self.document[selected]
        rate = stats.clustered_share(right.mean(0), document, sample=self.corpus)
        return self._with_trainings(rate, right.mean(1), drawn, (0.0, 1.0))

    def _with_trainings(
        self, estimate: Estimate, rates: FloatArray, drawn: str, bounds: tuple[float, float]
    ) -> Estimate:
        """An estimate whose interval holds that its trainings have these rates."""
        where = f"{drawn} {self.corpus} {self.defense} {self.epsilon:g}"
        labels = stats.draw_labels(where, np.arange(len(rates)))
        return stats.over_draws(estimate, rates, labels, bounds=bounds)

    @contextmanager
    def timed(self, *names: str) -> Iterator[None]:
        """Add the seconds that the block takes to these attacks."""
        began = time.perf_counter()
        yield
        for name in names:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def add(self, name: str, guesses: Guesses, words: Sequence[str], *, posterior: bool) -> None:
        """Keep what one attack achieved."""
        self.add_trainings(name, [guesses], words)
        if posterior:
            self.confidence[name] = np.maximum(guesses.scores[:, 0], 0.0)

    def run(
        self, attack: Attack, observed: Observed, words: Sequence[str], suffix: str = ""
    ) -> None:
        """Let an attack guess, and keep what it achieved."""
        name = attack.name + suffix
        self.add(name, attack.guess(observed), words, posterior=attack.posterior)

    def add_trainings(
        self, name: str, trainings: Sequence[Guesses], words: Sequence[str], drawn: str = ""
    ) -> None:
        """Keep what one attack achieved on average over its trainings; see `drawn` above."""
        parts = [guesses.substring_hits(self.truth, words) for guesses in trainings]
        hits = np.array([guesses.hits(self.truth) for guesses in trainings], dtype=np.float64)
        self.hits[name] = hits.mean(0)
        if len(hits) > 1:
            self.trainings[name], self.drawn[name] = hits, drawn or name
        self.substring[name] = np.mean(parts, axis=0)

    def gain(self, first: str, second: str) -> Estimate:
        """Success of one attack minus that of another, on the same tokens, by document."""
        apart, bounds = self.hits[first] - self.hits[second], (-1.0, 1.0)
        gain = stats.clustered_mean(apart, self.document, bounds=bounds, sample=self.corpus)
        for drawn, rates in self.gains_by_training(first, second).items():
            gain = self._with_trainings(gain, rates, drawn, bounds)
        return gain

    def gains_by_training(self, first: str, second: str) -> dict[str, FloatArray]:
        """What each training adds to success of the first minus that of the second: (trainings,).

        By what is drawn anew; attacks that share their draws are subtracted training by training.
        """
        rates: dict[str, FloatArray] = {}
        for name, sign in ((first, 1), (second, -1)):
            if name in self.trainings:
                drawn = self.drawn.get(name, name)
                rates[drawn] = rates.get(drawn, 0.0) + sign * self.trainings[name].mean(1)
        return rates


def sanitized(
    material: Material,
    defense: str,
    mechanism: FiniteMechanism,
    private: Corpus,
    rng: np.random.Generator,
    *,
    reuse: bool = False,
) -> tuple[Observed, Outcome]:
    """The first private documents sanitized, and an outcome without attacks yet."""
    observed = observe(mechanism, private, rng, reuse=reuse)
    targets = observed.targets
    cluster = material.cluster[private.document[targets]]
    texts = private.ids[targets], observed.corpus.ids[targets], cluster
    return observed, Outcome(material.name, defense, mechanism.epsilon, *texts)


def public_bayes(mechanism: FiniteMechanism, knowledge: Knowledge) -> Bayes:
    """Bayes' rule on one token with the word frequencies of all that was read."""
    prior = np.where(is_input(mechanism), knowledge.counts + 1.0, 0.0)
    return Bayes(mechanism, prior, name="context-free-public")


# --- What the outcomes show -----------------------------------------------------------------


def success_rates(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Success rate of every attack, with an interval that allows for tokens of one document.

    Columns: corpus, defense, epsilon, attack, value, low, high, n, influence (by document),
    inflation (points that the substring test adds), seconds.
    """
    return pd.DataFrame(
        {
            **outcome.setting,
            "attack": name,
            **(rate := outcome.share(name)).columns(),
            "inflation": float(outcome.substring[name].mean() - rate.value),
            "seconds": outcome.seconds.get(name, np.nan),
        }
        for outcome in outcomes
        for name in outcome.hits
    )


def one(outcomes: Iterable[Outcome], corpus: str, defense: str, epsilon: float) -> Outcome:
    """The outcome of one setting."""
    setting = {"corpus": corpus, "defense": defense, "epsilon": epsilon}
    return next(outcome for outcome in outcomes if outcome.setting == setting)


def in_focus(outcomes: Iterable[Outcome], epsilons: Mapping[str, Sequence[float]]) -> list[Outcome]:
    """The outcomes at some epsilons of each defense."""
    return [outcome for outcome in outcomes if outcome.epsilon in epsilons[outcome.defense]]


def _met(
    outcomes: Iterable[Outcome], pairs: Sequence[tuple[str, str]]
) -> list[tuple[Outcome, str, str]]:
    """The pairs of which both attacks were run, outcome by outcome."""
    every = product(outcomes, pairs)
    return [(outcome, *pair) for outcome, pair in every if {*pair} <= {*outcome.hits}]


def gains(outcomes: Iterable[Outcome], pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """By how much one attack is above another, on the same tokens, at every setting.

    Columns: those of the setting, first, second, and of the estimate.
    """
    return pd.DataFrame(
        {
            **outcome.setting,
            "first": first,
            "second": second,
            **outcome.gain(first, second).columns(),
        }
        for outcome, first, second in _met(outcomes, pairs)
    )


def compare(
    outcomes: Sequence[Outcome],
    pairs: Sequence[tuple[str, str]],
    rng: np.random.Generator,
    *,
    planned: Sequence[tuple[str, str]] = (),
    resamples: int = 9999,
) -> pd.DataFrame:
    """Paired tests between attacks on the same tokens, corrected for their number (Holm).

    Columns: corpus, defense, epsilon, first, second, difference (first minus second), low, high
    (95%, by document and training), n, planned, p. The tests under CusText+ of the pairs in
    `planned` are corrected among themselves, all others among themselves. Where a network was
    trained several times, p is the larger of the permutation test's, which takes these trainings as
    given, and that of the error over documents and trainings.
    """
    table = gains(outcomes, pairs).rename(columns={"value": "difference"})
    del table["influence"]
    couples = zip(table["defense"], table["first"], table["second"], strict=True)
    table["planned"] = [couple[0] == "custext" and couple[1:] in planned for couple in couples]
    table["p"] = [
        max(
            stats.paired_test(
                outcome.hits[first],
                outcome.hits[second],
                outcome.document,
                rng,
                resamples=resamples,
            ),
            _p_over_trainings(outcome, first, second),
        )
        for outcome, first, second in _met(outcomes, pairs)
    ]
    families = table.groupby("planned")["p"]
    table["p"] = families.transform(lambda p: multipletests(p, method="holm")[1])
    return table


def _p_over_trainings(outcome: Outcome, first: str, second: str) -> float:
    """Two-sided p of no difference for other documents and other trainings; 0 of single trainings.

    Student's t, as the normal law with an error that is widened for few trainings is right at 5%
    alone: of three, a corrected test at 0.25% would reject in 2% of the cases. The degrees of
    freedom are those of the part of the variance that each estimate has (Satterthwaite 1946).
    """
    trained = [*outcome.gains_by_training(first, second).values()]
    if not trained:
        return 0.0
    apart = stats.clustered_mean(
        outcome.hits[first] - outcome.hits[second], outcome.document, sample=outcome.corpus
    )
    assert apart.influence is not None
    counts = np.array([max(2, len(apart.influence.unit)), *(len(rates) for rates in trained)])
    spreads = [float(np.var(rates, ddof=1)) / len(rates) for rates in trained]
    parts = np.array([apart.influence.error**2, *spreads])
    if not parts.sum():
        return 1.0
    degrees = parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()
    return float(2 * student_t.sf(abs(apart.value) / np.sqrt(parts.sum()), degrees))


def _share_of(outcome: Outcome, attack: str, chosen: BoolArray, **columns: Any) -> dict[str, Any]:
    """A row: success of an attack on some of the tokens, with columns that say which."""
    rate = outcome.share(attack, chosen).columns()
    return {**outcome.setting, "attack": attack, **columns, **rate}


def by_frequency(
    outcomes: Iterable[Outcome], attacks: Sequence[str], edges: Sequence[int]
) -> pd.DataFrame:
    """Success by the rank of the true word in the vocabulary's order of frequency."""
    ends = [*(f"{low:,}-{high:,}" for low, high in pairwise([0, *edges])), f"from {edges[-1]:,}"]
    rows = []
    for outcome in outcomes:
        group = np.digitize(outcome.truth, edges)
        for name, number in product(attacks, np.unique(group)):
            chosen = group == number
            rows.append(_share_of(outcome, name, chosen, ranks=ends[number], group=number))
    return pd.DataFrame(rows)


def on_words(outcomes: Iterable[Outcome], words: IntArray, attacks: Sequence[str]) -> pd.DataFrame:
    """Success on the tokens whose original is one of these words (person names, say); column words.

    Without a row where no token is.
    """
    rows = []
    for outcome in outcomes:
        chosen = np.isin(outcome.truth, words)
        distinct = len(np.unique(outcome.truth[chosen]))
        rows += [
            _share_of(outcome, attack, chosen, words=distinct) for attack in attacks if distinct
        ]
    return pd.DataFrame(rows, columns=None if rows else [*SETTING, "value", "low", "high", "n"])


def calibration(
    outcomes: Iterable[Outcome], corpus: str, epsilons: Mapping[str, Sequence[float]], *, bins: int
) -> pd.DataFrame:
    """Share of right guesses against the probability that an attack gave them.

    Of one corpus, at the `epsilons` of each defense.
    """
    chosen = [outcome for outcome in in_focus(outcomes, epsilons) if outcome.corpus == corpus]
    rows = []
    for outcome, name in product(chosen, ("context-free-bayes", SHADOW, PUBLIC)):
        stated = outcome.confidence[name]
        group = np.minimum((stated * bins).astype(int), bins - 1)
        for number in np.unique(group):
            here = group == number
            rows.append(_share_of(outcome, name, here, stated=float(stated[here].mean())))
    return pd.DataFrame(rows)


def closed_form(
    materials: Mapping[str, Material],
    mechanisms: Mapping[str, Mapping[float, FiniteMechanism]],
    sizes: Sizes,
    rates: pd.DataFrame,
) -> pd.DataFrame:
    """sum_y max_x P(y|x) P(x) with the private frequencies: what the bound is in expectation.

    CusText+ at every epsilon; SanText+, whose rows are dense, for the first corpus and in the
    middle of the grid. Beside it the success rate that was measured, with its interval.
    """
    focus = sizes.focus["santext"]
    middle = focus[len(focus) // 2 :][:1]
    over = [
        {"corpus": name, "defense": defense, "epsilon": epsilon}
        for name in materials
        for defense, by_epsilon in mechanisms.items()
        for epsilon in (by_epsilon if defense == "custext" else middle)
        if defense == "custext" or name == next(iter(materials))
    ]

    def success(corpus: str, defense: str, epsilon: float) -> float:
        mechanism = mechanisms[defense][epsilon]
        return bayes_success(mechanism, prior_of(mechanism, materials[corpus].private))

    table = pd.DataFrame(over).assign(value=study.measure(success, over=over))
    measured = rates[rates["attack"] == "context-free-bound"]
    columns = {"value": "measured", "low": "measured low", "high": "measured high"}
    measured = measured[[*over[0], *columns, "n"]].rename(columns={**columns, "n": "tokens"})
    return table.merge(measured, on=[*over[0]])


def schemes(
    outcomes: Iterable[Outcome], attacks: Sequence[str], sizes: Sizes, rng: np.random.Generator
) -> pd.DataFrame:
    """All tokens against the scheme of the released code of Tong et al.

    That code draws output types uniformly and evaluates random occurrences of these types, so
    that rare outputs count for more than they occur.
    """
    rows = []
    for outcome in in_focus(outcomes, sizes.focus):
        types = np.unique(outcome.guessed_from)
        count = min(sizes.output_types, len(types))
        drawn = np.isin(outcome.guessed_from, rng.choice(types, size=count, replace=False))
        places = np.flatnonzero(drawn)
        places = rng.choice(places, size=min(sizes.output_tokens, len(places)), replace=False)
        for name in attacks:
            rate = stats.clustered_share(outcome.hits[name][places], outcome.guessed_from[places])
            row = {**outcome.setting, "attack": name, "all tokens": outcome.share(name).value}
            rows.append(row | rate.columns())
    return pd.DataFrame(rows).rename(columns={"value": "types"})


# --- What a setting changes -----------------------------------------------------------------


def by_constant(
    start: Callable[..., tuple[FiniteMechanism, Observed, Outcome]],
    over: Sequence[Mapping[str, Any]],
    materials: Mapping[str, Material],
    sizes: Sizes,
) -> pd.DataFrame:
    """Success of the context-free attack with other constants than 1/alpha; 0 adds none.

    `start` is the notebook's, `over` are points of corpus, defense and epsilon.
    """

    def with_constant(corpus: str, defense: str, epsilon: float) -> Outcome:
        count, material = sizes.under_attack(defense, corpus), materials[corpus]
        mechanism, seen, outcome = start(corpus, defense, epsilon, count)
        alpha = int(is_sensitive(mechanism, material.shadow).sum())  # tokens it would replace
        for times in sizes.constants:
            attack = ContextFreeBayes(mechanism, material.shadow, constant=times * (1 / alpha))
            words = mechanism.embedding.words
            outcome.add(f"{times:g}", attack.guess(seen), words, posterior=True)
        return outcome

    table = success_rates(study.measure(with_constant, over=over, label="constants"))
    table["constant"] = table["attack"].astype(float)
    names = {0.0: "without", 1.0: "with"}
    table["attack"] = [names.get(constant, f"times_{constant:g}") for constant in table["constant"]]
    return table


def shadow_sizes(
    material: Material, mechanisms: Mapping[float, FiniteMechanism], sizes: Sizes, seed: int | None
) -> pd.DataFrame:
    """Attacks that read shadow data, by its size in percent of the private data (Table 2)."""
    rows = []
    private = material.first(sizes.under_attack("custext", material.name))
    for percent in sizes.shadow_percents:
        documents = len(material.shadow_of(percent))
        knowledge = learn(material, next(iter(mechanisms.values())).size, documents=documents)
        for epsilon in sizes.focus["custext"]:
            mechanism = mechanisms[epsilon]
            # The sanitized text of all other experiments.
            rng = stream(seed, "05", material.name, mechanism.name, epsilon)
            observed, outcome = sanitized(material, "custext", mechanism, private, rng)
            rng = stream(seed, "05", "shadow size", percent, epsilon)
            for attack in reading(mechanism, knowledge.read, knowledge, sizes, rng):
                outcome.run(attack, observed, mechanism.embedding.words)
            rows.append(success_rates([outcome]).assign(percent=percent, documents=documents))
    return pd.concat(rows, ignore_index=True)


def misaligned(
    materials: Mapping[str, Material],
    mechanisms: Mapping[float, FiniteMechanism],
    knowledge: Mapping[str, Knowledge],
    sizes: Sizes,
    seed: int | None,
) -> list[Outcome]:
    """Attacks on clothes reviews by an attacker who has read such reviews, or films' only.

    Sentences that share a run of words with a film review are left out. Beside the paper's
    attacks stands the inversion that it trains on the same shadow data.
    """
    target, other = materials[ELSEWHERE], next(iter(materials.values()))
    count = sizes.under_attack("santext", target.name)
    apart = np.flatnonzero(~splits.shares_ngram(target.texts[:count], other.public_texts))
    attacked = replace(target, private=target.private.subset(apart), cluster=target.cluster[apart])
    outcomes = []
    for epsilon in sizes.focus["custext"]:
        mechanism = mechanisms[epsilon]
        words = mechanism.embedding.words
        rng = stream(seed, "05", target.name, mechanism.name, epsilon)
        observed, outcome = sanitized(attacked, "custext", mechanism, attacked.private, rng)
        outcome.run(EmbeddingInversion(mechanism, mechanism.embedding), observed, words)
        outcome.run(ContextFreeBound(mechanism, target.private), observed, words)
        for read, suffix in ((target, ""), (other, ", misaligned")):
            rng = stream(seed, "05", "misaligned", read.name, epsilon)
            inversion = InversionPerToken(mechanism, read.shadow, seed=seed or 0)
            bayes, *channels = reading(mechanism, read.shadow, knowledge[read.name], sizes, rng)
            for attack in (bayes, inversion, *channels):
                outcome.run(attack, observed, words, suffix)
        outcomes.append(outcome)
    return outcomes


def noisy(
    channel: Channel, model: NGrams, name: str, weights: Mapping[str, float], sizes: Sizes
) -> NoisyChannel:
    """The noisy-channel attack under one of its names, with its tuned weight."""
    lattice: dict[str, Any] = {"candidates": sizes.candidates, "kept": sizes.kept}
    attack = NoisyChannel(channel, model=model, weight=weights[name], **lattice)
    attack.name = name
    return attack


def reading(
    mechanism: FiniteMechanism,
    shadow: Corpus,
    knowledge: Knowledge,
    sizes: Sizes,
    rng: np.random.Generator,
) -> list[Attack]:
    """The attacks that read shadow data; the noisy channels rehearse on it."""
    weights = weights_of(mechanism, knowledge, rng)
    return [
        ContextFreeBayes(mechanism, shadow),
        noisy(mechanism, knowledge.shadow, SHADOW, weights, sizes),
        noisy(mechanism, knowledge.public, PUBLIC, weights, sizes),
    ]


def largest_of(named: pd.DataFrame) -> pd.DataFrame:
    """The rows of the corpus with the most tokens, under CusText+."""
    part = named[named["defense"] == "custext"]
    return part if part.empty else part[part["corpus"] == part.loc[part["n"].idxmax(), "corpus"]]


# --- What the notebook records --------------------------------------------------------------


def by_epsilon(rates: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Success rates of each defense: a row per corpus and attack, a column per epsilon."""
    pivot: dict[str, Any] = {"index": ["corpus", "attack"], "columns": "epsilon", "sort": False}
    defenses = rates.groupby("defense", sort=False)
    return {str(name): part.pivot_table("value", **pivot) for name, part in defenses}


def record_grid(run: Run, outcomes: Sequence[Outcome], rates: pd.DataFrame) -> None:
    """Record the success rates, the gains of context-free Bayes and the tuned weights."""
    where = "{defense}.{corpus}.eps{epsilon:g}"
    run.record_rows(rates, f"asr.{where}.{{attack!n}}")
    apart = gains(outcomes, [("context-free-bayes", "embedding-inversion")])
    run.record_rows(apart, f"gain.{where}.{{first!n}}_over_{{second!n}}", unit="difference")
    weights = [
        {**outcome.setting, "attack": name, "value": weight}
        for outcome in outcomes
        for name, weight in outcome.weights.items()
    ]
    run.record_rows(pd.DataFrame(weights), f"weight.{where}.{{attack!n}}", unit="exponent")


def record_table2(run: Run, larger: pd.DataFrame) -> None:
    """Record success by shadow size at the largest epsilon that was measured."""
    kinds = {"context-free-bayes": "context_free", SHADOW: "noisy_channel_shadow"}
    chosen = larger[(larger["epsilon"] == larger["epsilon"].max()) & larger["attack"].isin(kinds)]
    chosen = chosen.assign(kind=chosen["attack"].map(kinds))
    run.record_rows(chosen, "table2.shadow{percent:g}.{kind}")


MISALIGNED = (
    ("context-free-bayes, misaligned", "embedding-inversion"),
    ("context-free-bayes, misaligned", "inversion-bert-token, misaligned"),
    ("context-free-bayes", "context-free-bayes, misaligned"),
)  # what reading text of another domain leaves of the paper's attack (its Figure 8)
