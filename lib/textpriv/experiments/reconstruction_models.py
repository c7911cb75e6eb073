"""Notebook 05: the attacks that train or use a neural network, on fewer sentences.

The first `model_sentences` private sentences are attacked, by every attack, so that all are
compared on the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from textpriv import stats, study
from textpriv.attacks.base import BoolArray, Guesses, Observed
from textpriv.attacks.bayes import ContextFreeBayes
from textpriv.attacks.contextual import ContextualBayes, Detector, Reader, weigh
from textpriv.attacks.inversion import Classes
from textpriv.data import corpora, splits
from textpriv.data.corpora import Documents
from textpriv.data.tokens import KEEP_UNKNOWN, Corpus, Tokenizer
from textpriv.experiments.reconstruction import SETTING, Outcome, compare, success_rates
from textpriv.experiments.reconstruction_texts import PUBLIC, SHADOW, Material, Sizes
from textpriv.models import (
    Encoder,
    LearningCurve,
    MaskedSizes,
    Training,
    load_encoder,
    masked_language_model,
)
from textpriv.seeds import stream
from textpriv.stats import Estimate

if TYPE_CHECKING:
    from textpriv.mechanisms import FiniteMechanism
    from textpriv.report.run import Run

    Start = Callable[[str, str, float, int], tuple[FiniteMechanism, Observed, Outcome]]

TOKEN = "inversion-bert-token"  # the paper's: a classifier per output, which reads it alone
SENTENCE = "inversion-bert"  # reads the sentence, and chooses among what the channel allows
FREE = "inversion-bert-free"  # reads the sentence, and chooses among all words
INVERSIONS = (TOKEN, SENTENCE, FREE)
CLASSES: dict[str, Classes] = {SENTENCE: "possible", FREE: "vocabulary"}
HEADLINE_EPSILON = 4  # of CusText+, in the paper's abstract
EXTENDED = "contextual-bayes-public"  # the contextual attack, given public text as well
PRETRAINED = "noisy-channel-lm"
SEEN = "contextual-bound-seen"  # the bound with a detector that knows the attacked sentences
DETECTOR = "detector"  # what all contextual attacks draw anew: the later ones go on from the first
K = 10  # candidates of the contextual attack, as in the paper


@dataclass(frozen=True, eq=False)
class DetectorTraining:
    """One training of a detector, and what the contextual attack guesses with it."""

    ranked: dict[int, Guesses]  # as `by_candidates` gives them
    curve: LearningCurve
    tested: int  # pairs that its accuracies are shares of
    seconds: float


@dataclass(eq=False)
class Trained:
    """What the attacks with a network achieved in one setting."""

    outcome: Outcome  # of every attack, those without a network too, on the same sentences
    # Setting, attack, training (its number), step, accuracy (held out).
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    # Setting, attack, k, value, low, high, n, influence, and coverage (with coverage_low, _high):
    # truths among the k best candidates.
    by_k: pd.DataFrame = field(default_factory=pd.DataFrame)
    untrained: float = float("nan")  # held-out accuracy of the first detector before fine-tuning
    tested: int = 0  # pairs that its accuracies are shares of
    spread: dict[str, float] = field(default_factory=dict)  # by network, between trainings (SD)

    def add_detectors(
        self, name: str, trainings: Sequence[DetectorTraining], words: Sequence[str]
    ) -> None:
        """Keep a contextual attack, whose hits and seconds are averaged over its trainings."""
        outcome, curves = self.outcome, [training.curve for training in trainings]
        if not self.tested:
            self.untrained = float(np.mean([curve.accuracy[0] for curve in curves]))
            self.tested = trainings[0].tested
        guesses = [training.ranked for training in trainings]
        outcome.add_trainings(name, [ranked[K] for ranked in guesses], words, DETECTOR)
        outcome.seconds[name] = float(np.mean([training.seconds for training in trainings]))
        rows = []
        for k in guesses[0]:
            hits = [[each[k].hits(outcome.truth, top=top) for each in guesses] for top in (1, k)]
            rate, covered = (
                outcome.over_trainings(each, DETECTOR) for each in np.array(hits, float)
            )
            ends = {"coverage_low": covered.low, "coverage_high": covered.high}
            row = {**outcome.setting, "attack": name, "k": k, "coverage": covered.value}
            rows.append(row | ends | rate.columns())
        self.by_k = pd.concat([self.by_k, pd.DataFrame(rows)], ignore_index=True)
        self._add_curves(name, curves)

    def add_inversions(
        self,
        name: str,
        trainings: Sequence[tuple[Guesses, LearningCurve, float]],
        words: Sequence[str],
    ) -> None:
        """Keep an inversion network, whose hits and seconds are averaged over its trainings.

        A training is its guesses for the sentences under attack, its curve, and its seconds.
        """
        every, curves, seconds = zip(*trainings, strict=True)
        self.outcome.add_trainings(name, every, words)
        self.outcome.seconds[name] = float(np.mean(seconds))
        self._add_curves(name, curves)

    def _add_curves(self, name: str, curves: Sequence[LearningCurve]) -> None:
        hits = self.outcome.trainings.get(name)
        self.spread[name] = float("nan") if hits is None else float(np.std(hits.mean(1), ddof=1))
        for number, curve in enumerate(curves):
            about = {**self.outcome.setting, "attack": name, "training": number}
            marks = pd.DataFrame({**about, "step": curve.steps, "accuracy": curve.accuracy})
            self.curves = pd.concat([self.curves, marks], ignore_index=True)


def masked_model(
    attacked: Sequence[Material], words: Sequence[str], sizes: Sizes, device: str, seed: int | None
) -> Encoder:
    """The encoder of all attacks, trained to fill in words of public text; kept in the cache.

    It reads nothing that shares a run of eight words with a private text of `attacked`.
    """
    encoder = load_encoder(sizes.encoder, device=device)
    if encoder.can_fill:  # BERT is a masked LM already
        return encoder
    reviews = corpora.load("imdb")
    private = [text for material in attacked for text in material.texts]
    apart = np.flatnonzero(~splits.shares_ngram(reviews.texts, private))
    chosen = reviews.subset(apart[: sizes.masked_texts])
    texts = Tokenizer(words, KEEP_UNKNOWN).words_of(chosen.texts)
    training = Training(steps=sizes.masked_steps, learning_rate=3e-4, weight_decay=0.01, marks=4)
    return masked_language_model(encoder, texts, MaskedSizes(training=training), seed=seed or 0)


def detector_options(
    encoder: Encoder, sizes: Sizes, seed: int, *, start: Detector | None
) -> dict[str, Any]:
    """How a detector reads and learns: keyword arguments of `ContextualBayes`.

    Fewer steps than the paper's, from a higher learning rate, unless the sizes say none. One that
    goes further from another, `start`, takes fewer, and is measured half as often.
    """
    training, further = None, start is not None
    if sizes.detector_steps:
        training = Training(
            steps=sizes.detector_further_steps if further else sizes.detector_steps,
            learning_rate=3e-4,
            marks=max(1, sizes.detector_marks // 2) if further else sizes.detector_marks,
            from_start=not further,
        )
    reader = Reader(encoder, window=sizes.window or None, pooling=sizes.pooling)
    return {"reader": reader, "training": training, "start": start, "seed": seed}


def inversion_options(encoder: Encoder, sizes: Sizes, reader: str) -> dict[str, Any]:
    """What an inversion network names and how it learns: keyword arguments of `InversionBert`."""
    training = Training(steps=sizes.inversion_steps, learning_rate=3e-4, marks=4)
    return {"encoder": encoder, "classes": CLASSES[reader], "training": training}


def headline_epsilon(sizes: Sizes) -> float:
    """The epsilon of CusText+, of those with networks, that is nearest to the paper's headline."""
    return min(sizes.model_focus["custext"], key=lambda epsilon: abs(epsilon - HEADLINE_EPSILON))


def with_trainings(
    settings: Sequence[Mapping[str, Any]], sizes: Sizes, times: int
) -> list[dict[str, Any]]:
    """Every setting with the number of each training; so many of the first corpus."""
    first = settings[0]["corpus"]
    return [
        {**setting, "number": number}
        for setting in settings
        for number in range(times if setting["corpus"] == first else sizes.elsewhere_seeds)
    ]


def by_setting(
    points: Sequence[Mapping[str, Any]],
    measured: Sequence[tuple[Outcome, dict[str, DetectorTraining]]],
    words: Sequence[str],
) -> list[Trained]:
    """Trainings of the detectors put together; the first of a setting has its other attacks."""
    trained = []
    for point, (outcome, attacks) in zip(points, measured, strict=True):
        if point["number"]:
            continue
        trained.append(Trained(outcome))
        own = [every for other, every in measured if other.setting == outcome.setting]
        for name in attacks:
            trained[-1].add_detectors(name, [every[name] for every in own], words)
    return trained


def public_sentences(
    material: Material, words: Sequence[str], count: int, seed: int | None
) -> Corpus:
    """Sentences of the public text, of 5 to 60 words: what a detector can be trained on too."""
    rng = stream(seed, "05", "public sentences", material.name)
    reviews = corpora.at_most(Documents("public", material.public_texts), count, rng)
    sentences = corpora.at_most(splits.sentences(reviews, 5, 60), count, rng)
    return Tokenizer(words, KEEP_UNKNOWN).encode(sentences.texts)


def budget(
    sizes: Sizes, defense: str, epsilon: float, *, is_first: bool = True
) -> tuple[list[int], set[str]]:
    """What a setting has time for: the numbers of candidates weighed, and the attacks left out.

    More than K candidates are weighed in the last setting of CusText+. Of the first corpus only, a
    detector reads public text in the first setting, and a pretrained model attacks CusText+ where
    it is looked at closely.
    """
    is_custext, networked = defense == "custext", sizes.model_focus["custext"]
    many = is_custext and epsilon == networked[-1]
    extended = is_custext and is_first and epsilon == networked[0]
    pretrained = is_custext and is_first and sizes.pretrained and epsilon in sizes.focus["custext"]
    spared = {name for name, run in {EXTENDED: extended, PRETRAINED: pretrained}.items() if not run}
    return [k for k in sizes.contextual_k if many or k <= K], spared


def by_candidates(
    attack: ContextualBayes, observed: Observed, counts: Sequence[int]
) -> dict[int, Guesses]:
    """The attack's guesses with each number of candidates, from one pass of the detector.

    The best guess is exact, what comes after it is not.
    """
    counts = sorted({*counts, K})
    before, weights = attack.judged(observed, None, counts[-1], only_best=True)
    return {
        k: weigh(Guesses(before.words[:, :k], before.scores[:, :k]), weights[:, :k], top=k)
        for k in counts
    }


def by_shadow_size(
    start: Start, material: Material, encoder: Encoder, sizes: Sizes, seed: int
) -> pd.DataFrame:
    """Success of the contextual attack by the size of its shadow data (Table 2), in percent.

    At the largest epsilon of CusText+ that is looked at closely; `start` is the notebook's.
    """
    if not sizes.detector_percents:
        return pd.DataFrame(columns=["percent", "value"])
    attacked = material.name, "custext", sizes.focus["custext"][-1], sizes.detector_sentences

    def with_shadow(percent: float, number: int) -> BoolArray:
        mechanism, seen, outcome = start(*attacked)
        shadow = material.shadow_of(percent)
        how = detector_options(encoder, sizes, seed + number, start=None)
        free = ContextFreeBayes(mechanism, shadow)
        attack = ContextualBayes(mechanism, shadow, context_free=free, **how)
        return attack.guess(seen, top=1).hits(outcome.truth)

    over = study.grid(percent=sizes.detector_percents, number=range(sizes.detector_seeds))
    measured = study.measure(with_shadow, over=over, label="shadow sizes")
    hits = np.array(measured, np.float64).reshape(-1, sizes.detector_seeds, len(measured[0]))
    *_, outcome = start(*attacked)
    return pd.DataFrame(
        {"percent": percent, **outcome.over_trainings(each, f"shadow {percent:g}").columns()}
        for percent, each in zip(sizes.detector_percents, hits, strict=True)
    )


# --- Tables of the notebook -----------------------------------------------------------------

# The paper's headline: both of its attacks are above Inversion BERT, in each of its forms.
HEADLINE = tuple(product(("contextual-bayes", "context-free-bayes"), INVERSIONS))
DUELS = (
    (PUBLIC, "contextual-bayes"),
    (PUBLIC, "contextual-bound"),
    *HEADLINE,
    (PUBLIC, SEEN),
    (PUBLIC, EXTENDED),
    (PUBLIC, "context-free-bayes"),
    (PUBLIC, "context-free-bound"),
    (PUBLIC, "mask-bayes"),
    (SHADOW, "contextual-bayes"),
    (SHADOW, "contextual-bound"),
    (SHADOW, SENTENCE),
    ("contextual-bayes", "context-free-bayes"),
    ("contextual-bound", "context-free-bound"),
    (SEEN, "context-free-bound"),
    *product(("context-free-bound", SEEN), INVERSIONS),
    (PRETRAINED, PUBLIC),
)
# What the notebook set out to show, above both of the paper's attacks; and the headline, which
# was added after a first training had Inversion BERT ahead.
PLANNED = (*DUELS[:2], *HEADLINE)


def duels(trained: Sequence[Trained], rng: np.random.Generator) -> pd.DataFrame:
    """`compare` on all settings, with what was planned apart."""
    outcomes = [each.outcome for each in trained]
    return compare(outcomes, DUELS, rng, planned=PLANNED, resamples=19_999)


def training_table(trained: Sequence[Trained]) -> pd.DataFrame:
    """Held-out accuracy along every training (Fig. 3), and the attack's success."""
    rows = []
    for each in trained:
        outcome = each.outcome
        for name, part in each.curves.groupby("attack", sort=False):
            curve = part.groupby("step")["accuracy"].mean()  # over the trainings
            rows.append(
                {
                    "corpus": outcome.corpus,
                    "setting": f"{outcome.defense}, eps {outcome.epsilon:g}",
                    "attack": name,
                    "trainings": part["training"].nunique(),
                    "untrained": each.untrained if name == "contextual-bayes" else np.nan,
                    "accuracy": curve.iloc[-1],
                    "gain at the end": float(np.diff(curve)[-1:].sum()),
                    "steps": curve.index[-1],
                    "success": outcome.hits[str(name)].mean(),
                    "between trainings": each.spread.get(str(name), np.nan),
                }
            )
    return pd.DataFrame(rows).set_index(["corpus", "setting", "attack"])


def by_candidate_count(trained: Sequence[Trained]) -> pd.DataFrame:
    """Success by the number of candidates K (Table 1): a row per setting and attack."""
    table = pd.concat([each.by_k for each in trained])
    return table.pivot_table("value", [*SETTING], "k", sort=False).sort_index(axis=1)


def record_claims(run: Run, trained: Sequence[Trained]) -> None:
    """Record what the paper's claims about attacks with networks are compared with."""
    where, attack = "{defense}.{corpus}.eps{epsilon:g}", "{attack!n}"
    rates = success_rates([each.outcome for each in trained])
    claimed = ["mask-inference", SENTENCE, FREE, "contextual-bayes", "contextual-bound", SEEN]
    run.record_rows(rates[rates["attack"].isin(claimed)], f"asr.{where}.{attack}")
    timed = [*claimed, TOKEN, "embedding-inversion", "context-free-bayes"]
    minutes = rates.assign(value=rates["seconds"] / 60)[[*SETTING, "value"]]
    run.record_rows(minutes[minutes["attack"].isin(timed)], f"minutes.{where}.{attack}", unit="min")

    learned = pd.concat([each.curves for each in trained])
    learned = learned[learned["attack"].isin(CLASSES)]
    by_step = learned.groupby([*SETTING, "step"], sort=False)["accuracy"]
    marks = by_step.agg(value="mean", n="count").reset_index()
    run.record_rows(marks, f"accuracy.{where}.{attack}.step{{step}}")
    spreads = [
        {**each.outcome.setting, "attack": name, "value": each.spread[name], "n": len(rates)}
        for each in trained
        for name, rates in each.outcome.trainings.items()
    ]
    # The columns are stated, since there are no rows where nothing is trained twice.
    spread = pd.DataFrame(spreads, columns=[*SETTING, "value", "n"])
    run.record_rows(spread, f"spread.{where}.{attack}", unit="standard deviation")
    run.record_rows(detector_accuracies(trained), f"detector.{where}.{{when}}")
    _record_table1(run, trained)


def detector_accuracies(trained: Sequence[Trained]) -> pd.DataFrame:
    """Held-out accuracy of the contextual attack's detector, before and after it is fine-tuned."""
    rows = []
    for each in trained:
        own = each.curves[each.curves["attack"] == "contextual-bayes"]
        reached = own.groupby("training")["accuracy"].last().mean()
        accuracies = {"finetuned": float(reached), "original": each.untrained}
        tokens = each.tested // 2  # a right and a wrong word of each: tokens count, not pairs
        for when, accuracy in accuracies.items():
            rate = stats.share(round(accuracy * tokens), tokens).columns()
            rows.append({**each.outcome.setting, "when": when, **rate, "value": accuracy})
    return pd.DataFrame(rows)


def _record_table1(run: Run, trained: Sequence[Trained]) -> None:
    """Record success by the number of candidates, in the last setting of CusText+."""
    custext = (each for each in trained if each.outcome.defense == "custext")
    by_size = max(custext, key=lambda each: each.outcome.epsilon).by_k
    kinds = {"contextual-bayes": "attack", "contextual-bound": "bound", SEEN: "bound_seen"}
    by_size = by_size.assign(kind=by_size["attack"].map(kinds)).dropna(subset="kind")
    run.record_rows(by_size, "table1.k{k}.{kind}")
    covered = by_size[(by_size["attack"] == "contextual-bayes") & (by_size["k"] == K)]
    covered = covered[["k", "coverage", "coverage_low", "coverage_high", "n"]]
    covered = covered.rename(columns=lambda name: name.removeprefix("coverage_"))
    run.record_rows(covered.rename(columns={"coverage": "value"}), "table1.k{k}.coverage")
    estimates = {(row["kind"], row["k"]): Estimate.from_row(row) for _, row in by_size.iterrows()}
    for kind in kinds.values():
        for small, large in ((1, K), (K, 20)):
            if {(kind, small), (kind, large)} <= set(estimates):
                two = [estimates[kind, large], estimates[kind, small]]
                gain = stats.combined((1, -1), two, bounds=(-1.0, 1.0)).columns()
                run.record(f"table1.gain_k{small}_to_k{large}.{kind}", **gain, unit="difference")


def costs(rates: pd.DataFrame, modelled: pd.DataFrame, corpus: str, epsilon: float) -> pd.DataFrame:
    """Seconds of every attack on CusText+ at one epsilon, and per 1,000 tokens.

    Attacks without a network are timed on all sentences, the others on their few. The training of
    networks is counted.
    """
    both = pd.concat([rates, modelled[~modelled["attack"].isin(rates["attack"])]])
    chosen = both.set_index(["corpus", "defense", "epsilon"]).loc[(corpus, "custext", epsilon)]
    table = chosen.set_index("attack")[["n", "seconds"]]
    table["per 1,000 tokens"] = 1000 * table["seconds"] / table["n"]
    return table.sort_values("per 1,000 tokens")
