"""Notebook 05: the attacks that train or use a neural network, on fewer sentences.

The first `model_sentences` private sentences are attacked, by every attack, so that all are
compared on the same tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from textpriv import corpora, parallel, splits, stats
from textpriv.attacks.base import NONE, Attack, FloatArray, Guesses, Observed
from textpriv.attacks.bayes import ContextFreeBayes, ContextFreeBound, EmbeddingInversion
from textpriv.attacks.contextual import ContextualBayes, ContextualBound, Detector, weigh
from textpriv.attacks.inversion import Classes, InversionBert, InversionPerToken
from textpriv.attacks.masked import MaskInference
from textpriv.attacks.neural_prior import NeuralChannel
from textpriv.corpora import Documents
from textpriv.errors import InvalidInput
from textpriv.experiments.reconstruction import (
    PUBLIC,
    SHADOW,
    Knowledge,
    Material,
    Outcome,
    Sizes,
    compare,
    noisy,
    outcome_of,
    public_bayes,
    weights_of,
)
from textpriv.experiments.reconstruction import sanitized as sanitized_text
from textpriv.generators import load_generator
from textpriv.mechanisms import FiniteMechanism
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
from textpriv.tokens import KEEP_UNKNOWN, Corpus, Tokenizer

if TYPE_CHECKING:
    from textpriv.report.run import Run

TOKEN = "inversion-bert-token"  # the paper's: a classifier per output, which reads it alone
SENTENCE = "inversion-bert"  # reads the sentence, and chooses among what the channel allows
FREE = "inversion-bert-free"  # reads the sentence, and chooses among all words
INVERSIONS = (TOKEN, SENTENCE, FREE)
CLASSES: dict[str, Classes] = {SENTENCE: "possible", FREE: "vocabulary"}
HEADLINE_EPSILON = 4  # of CusText+, in the paper's abstract
EXTENDED = "contextual-bayes-public"  # the contextual attack, given public text as well
SEEN = "contextual-bound-seen"  # the bound with a detector that knows the attacked sentences


def masked_model(
    material: Material, words: Sequence[str], sizes: Sizes, device: str, seed: int | None
) -> Encoder:
    """The encoder of all attacks, trained to fill in words of public text; kept in the cache."""
    encoder = load_encoder(sizes.encoder, device=device)
    if encoder.can_fill:  # BERT is a masked LM already
        return encoder
    reviews = corpora.load("imdb")
    apart = np.flatnonzero(~splits.shares_ngram(reviews.texts, material.texts))
    chosen = reviews.subset(apart[: sizes.masked_texts])
    texts = Tokenizer(words, KEEP_UNKNOWN).words_of(chosen.texts)
    training = Training(steps=sizes.masked_steps, learning_rate=3e-4, weight_decay=0.01, marks=4)
    return masked_language_model(encoder, texts, MaskedSizes(training=training), seed=seed or 0)


K = 10  # candidates of the contextual attack, as in the paper


@dataclass(frozen=True, eq=False)
class Trained:
    """What the attacks with a network achieved in one setting.

    Parameters
    ----------
    outcome : success of every attack, those without a network too, on the same sentences
    curves : attack, training (its number), step, accuracy (held out), seconds of training
    spread : by inversion network, standard deviation of its success between trainings
    untrained : held-out accuracy of the detector before it is fine-tuned
    tested : pairs that its accuracies are shares of
    by_k : attack, k, value, low, high, n, influence, and coverage (with coverage_low,
        coverage_high): truths among the K best candidates
    guessable : share of the targets that mask inference can guess at all (a single WordPiece)
    alone : success of each detector by itself, ranking the same K candidates
    observed : the sanitized sentences
    """

    outcome: Outcome
    curves: pd.DataFrame
    untrained: float
    tested: int
    by_k: pd.DataFrame
    guessable: float
    alone: dict[str, float]
    observed: Observed
    spread: dict[str, float] = field(default_factory=dict)


def detector_training(sizes: Sizes, *, further: bool) -> Training | None:
    """Fewer steps than the paper's, from a higher learning rate; None: as in the paper.

    A detector that goes on from another one (`further`) takes fewer, and is measured half as often.
    """
    if not sizes.detector_steps:
        return None
    steps = sizes.detector_further_steps if further else sizes.detector_steps
    marks = max(1, sizes.detector_marks // 2) if further else sizes.detector_marks
    return Training(steps=steps, learning_rate=3e-4, marks=marks, from_start=not further)


def inversion_training(sizes: Sizes) -> Training:
    """`batch` counts sentences."""
    return Training(steps=sizes.inversion_steps, learning_rate=3e-4, marks=4)


def headline_epsilon(sizes: Sizes) -> float:
    """The epsilon of CusText+, of those with networks, that is nearest to the paper's headline."""
    return min(sizes.model_focus["custext"], key=lambda epsilon: abs(epsilon - HEADLINE_EPSILON))


def public_sentences(
    material: Material, words: Sequence[str], count: int, rng: np.random.Generator
) -> Corpus:
    """Sentences of the public text, of 5 to 60 words: what a detector can be trained on too."""
    reviews = Documents("public", material.public_texts).sample(
        min(count, len(material.public_texts)), rng
    )
    found = splits.sentences(reviews, 5, 60)
    return Tokenizer(words, KEEP_UNKNOWN).encode(found.sample(min(count, len(found)), rng).texts)


def attack_with_models(
    material: Material,
    defense: str,
    mechanism: FiniteMechanism,
    knowledge: Knowledge,
    encoder: Encoder,
    sizes: Sizes,
    seed: int | None,
    with_variants: bool = False,
    many_candidates: bool = False,
) -> Trained:
    """Every attack, with and without a network, on the first private sentences.

    Parameters
    ----------
    with_variants : also train the detector further on public text
    many_candidates : also weigh more than K candidates, as far as the sizes say
    """
    private = material.first(sizes.model_sentences)
    observed = sanitized_text(mechanism, private, material.name, seed)
    found = outcome_of(material, defense, mechanism, private, observed)
    words, number = mechanism.embedding.words, seed or 0
    counts = [k for k in sizes.contextual_k if many_candidates or k <= K]
    curves: list[pd.DataFrame] = []
    by_k: list[pd.DataFrame] = []
    alone: dict[str, float] = {}

    def plain(name: str, make: Callable[[], Attack]) -> Attack:
        began = time.perf_counter()
        made = make()
        guesses = made.guess(observed)
        found.seconds[name] = time.perf_counter() - began
        found.add(name, guesses, words, posterior=made.posterior)
        return made

    def contextual(
        name: str,
        kind: type[ContextualBayes],
        shadow: Corpus,
        context_free: Attack,
        goes_on_from: Detector | None = None,
        copies: int = 100,
    ) -> Detector:
        began = time.perf_counter()
        made = kind(
            mechanism,
            shadow,
            context_free=context_free,
            encoder=encoder,
            training=detector_training(sizes, further=goes_on_from is not None),
            window=sizes.window or None,
            pooling=sizes.pooling,
            copies=copies,
            start=goes_on_from,
            seed=number,
        )
        ranked, unaided = by_candidates(made, observed, counts)
        found.seconds[name] = time.perf_counter() - began
        found.add(name, ranked[K], words, posterior=False)
        alone[name] = float(unaided.hits(found.truth).mean())
        by_k.append(_k_table(name, ranked, found))
        curves.append(_curve(name, made.detector.curve))
        return made.detector

    weights = rehearsed(material, mechanism, knowledge, seed)
    found.weights.update(weights)
    bayes = ContextFreeBayes(mechanism, material.shadow)
    bound = ContextFreeBound(mechanism, material.private)
    by_public = public_bayes(mechanism, knowledge)
    plain("embedding-inversion", lambda: EmbeddingInversion(mechanism, mechanism.embedding))
    plain("context-free-bayes", lambda: bayes)
    plain("context-free-public", lambda: by_public)
    plain("context-free-bound", lambda: bound)
    plain(SHADOW, lambda: noisy(mechanism, knowledge.shadow, SHADOW, weights, sizes))
    plain(PUBLIC, lambda: noisy(mechanism, knowledge.public, PUBLIC, weights, sizes))
    mask = plain("mask-inference", lambda: MaskInference(mechanism, words, encoder))
    plain(
        "mask-inference-support",
        lambda: MaskInference(mechanism, words, encoder, knows="support"),
    )
    plain("mask-bayes", lambda: MaskInference(mechanism, words, encoder, knows="likelihood"))
    plain(TOKEN, lambda: InversionPerToken(mechanism, material.shadow, seed=number))
    own = contextual("contextual-bayes", ContextualBayes, material.shadow, bayes)
    others = np.arange(len(private), min(len(private) + sizes.private // 10, len(material.private)))
    contextual(
        "contextual-bound",
        ContextualBound,
        material.private.subset(others),
        bound,
        own,
        copies=30,
    )
    # As the paper trains it: on other sanitized copies of the sentences under attack.
    contextual(SEEN, ContextualBound, private, bound, own, copies=30)
    if with_variants:
        rng = stream(seed, "05", "public sentences", material.name)
        text = public_sentences(material, words, 4000, rng)
        contextual(EXTENDED, ContextualBayes, text, by_public, own)
    return Trained(
        found,
        curves=pd.concat(curves, ignore_index=True),
        untrained=own.curve.accuracy[0],
        tested=own.tested,
        alone=alone,
        observed=observed,
        by_k=pd.concat(by_k, ignore_index=True),
        guessable=float(cast(MaskInference, mask).can_guess[found.truth].mean()),
    )


def by_candidates(
    attack: ContextualBayes, observed: Observed, counts: Sequence[int]
) -> tuple[dict[int, Guesses], Guesses]:
    """The attack's guesses with each number of candidates, from one pass of the detector.

    Beside them the guesses with K candidates by the detector alone, whatever their context-free
    probability.
    """
    counts = sorted({*counts, K})
    before, weights = attack.judged(observed, None, counts[-1])

    def weighed(k: int, scores: FloatArray) -> Guesses:
        return weigh(Guesses(before.words[:, :k], scores[:, :k]), weights[:, :k], top=k)

    flat = np.where(before.words == NONE, -np.inf, 1.0)
    return {k: weighed(k, before.scores) for k in counts}, weighed(K, flat)


def _k_table(name: str, ranked: Mapping[int, Guesses], found: Outcome) -> pd.DataFrame:
    rows = []
    for k, guesses in ranked.items():
        rate, covered = (
            stats.clustered_share(
                guesses.hits(found.truth, top=top), found.document, sample=found.corpus
            )
            for top in (1, k)
        )
        coverage = {
            "coverage": covered.value,
            "coverage_low": covered.low,
            "coverage_high": covered.high,
        }
        rows.append({"attack": name, "k": k, **coverage, **rate.columns()})
    return pd.DataFrame(rows)


def _curve(name: str, curve: LearningCurve, training: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "attack": name,
            "training": training,
            "step": curve.steps,
            "accuracy": curve.accuracy,
            "seconds": curve.seconds,
        }
    )


@dataclass(frozen=True, eq=False)
class Inverted:
    """One training of an inversion network, and its guesses for the sentences under attack."""

    guesses: Guesses
    curve: LearningCurve
    seconds: float


def invert(
    mechanism: FiniteMechanism,
    shadow: Corpus,
    observed: Observed,
    encoder: Encoder,
    sizes: Sizes,
    classes: Classes,
    seed: int,
) -> Inverted:
    """Train one inversion network and attack with it."""
    start = time.perf_counter()
    made = InversionBert(
        mechanism,
        shadow,
        encoder=encoder,
        classes=classes,
        training=inversion_training(sizes),
        seed=seed,
    )
    return Inverted(made.guess(observed), made.curve, time.perf_counter() - start)


def with_inversions(
    trained: Trained, name: str, inverted: Sequence[Inverted], words: Sequence[str]
) -> Trained:
    """The same with an inversion network, whose hits are averaged over its trainings."""
    found = trained.outcome
    found.add_trainings(name, [each.guesses for each in inverted], words)
    found.seconds[name] = float(np.mean([each.seconds for each in inverted]))
    rates = [each.guesses.hits(found.truth).mean() for each in inverted]
    spread = float(np.std(rates, ddof=1)) if len(rates) > 1 else float("nan")
    curves = [_curve(name, each.curve, number) for number, each in enumerate(inverted)]
    return replace(
        trained,
        curves=pd.concat([trained.curves, *curves], ignore_index=True),
        spread=trained.spread | {name: spread},
    )


def run_models(
    materials: Mapping[str, Material],
    mechanisms: Mapping[str, Mapping[float, FiniteMechanism]],
    knowledge: Mapping[str, Knowledge],
    encoder: Encoder,
    sizes: Sizes,
    seed: int | None,
    device: str,
) -> list[Trained]:
    """`attack_with_models` on the first corpus, at the epsilons in its focus, and the inversions.

    The first setting also trains a detector on public text, the last of CusText+ weighs more
    candidates, a pretrained causal model attacks CusText+ at the epsilons that are looked at
    closely, and the inversion network that may name any word is trained at the headline's.
    Settings and trainings run side by side, one per core, and share nothing but the encoder that
    all start from.
    """
    material = next(iter(materials.values()))
    settings = [
        (defense, epsilon) for defense in mechanisms for epsilon in sizes.model_focus[defense]
    ]
    if not settings:
        raise InvalidInput("model_focus: got no epsilon, expected at least one")
    custext = [number for number, (defense, _) in enumerate(settings) if defense == "custext"]
    known = knowledge[material.name]
    shards: list[tuple[Any, ...]] = [
        (
            attack_with_models,
            material,
            defense,
            mechanisms[defense][epsilon],
            known,
            encoder,
            sizes,
            seed,
            number == 0,
            number in custext[-1:],
        )
        for number, (defense, epsilon) in enumerate(settings)
    ]
    generated = [
        number
        for number in custext
        if sizes.pretrained and settings[number][1] in sizes.focus["custext"]
    ]
    for number in generated:
        mechanism = mechanisms["custext"][settings[number][1]]
        shards.append((attack_with_generator, material, mechanism, known, sizes, seed, device))

    def trainings(number: int) -> int:  # several where the headline is
        return sizes.inversion_seeds if number in custext else 1

    inversions = [(number, SENTENCE) for number in range(len(settings))]
    inversions += [(n, FREE) for n in custext if settings[n][1] == headline_epsilon(sizes)]
    private = material.first(sizes.model_sentences)
    for number, name in inversions:
        mechanism = mechanisms[settings[number][0]][settings[number][1]]
        observed = sanitized_text(mechanism, private, material.name, seed)
        given = mechanism, material.shadow, observed, encoder, sizes, CLASSES[name]
        shards += [(invert, *given, (seed or 0) + more) for more in range(trainings(number))]

    results = iter(parallel.map(_called, shards, processes=-1, label="attacks with models"))
    trained = cast(list[Trained], [next(results) for _ in settings])
    words = next(iter(mechanisms["custext"].values())).embedding.words
    for number in generated:
        name, guesses, seconds = next(results)
        trained[number].outcome.seconds[name] = seconds
        trained[number].outcome.add(name, guesses, words, posterior=True)
    for number, name in inversions:
        inverted = [next(results) for _ in range(trainings(number))]
        trained[number] = with_inversions(trained[number], name, inverted, words)
    return trained


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Attacks of two kinds side by side."""
    return function(*arguments)


def attack_with_generator(
    material: Material,
    mechanism: FiniteMechanism,
    knowledge: Knowledge,
    sizes: Sizes,
    seed: int | None,
    device: str,
) -> tuple[str, Guesses, float]:
    """The noisy channel with a pretrained causal model as its prior: name, guesses, seconds."""
    observed = sanitized_text(mechanism, material.first(sizes.model_sentences), material.name, seed)
    weights = rehearsed(material, mechanism, knowledge, seed)
    generator = load_generator(device=device)
    start = time.perf_counter()
    attack = NeuralChannel(
        noisy(mechanism, knowledge.public, PUBLIC, weights, sizes),
        mechanism.embedding.words,
        generator,
        material.read,
        weight=1.0,  # did well on other shadow sentences, at both epsilons
    )
    guesses = attack.guess(observed)
    return attack.name, guesses, time.perf_counter() - start


def rehearsed(
    material: Material, mechanism: FiniteMechanism, knowledge: Knowledge, seed: int | None
) -> dict[str, float]:
    """Weights of the language models, the same for every attack of a setting."""
    rng = stream(seed, "05", "rehearsal of models", material.name, mechanism.epsilon)
    return weights_of(mechanism, knowledge, rng)


# --- Tables of the notebook -----------------------------------------------------------------

# The order of the figure: by what an attack uses.
LADDER = (
    "mask-inference",
    "mask-inference-support",
    "embedding-inversion",
    *INVERSIONS,
    "context-free-bayes",
    "contextual-bayes",
    "context-free-public",
    EXTENDED,
    "context-free-bound",
    "contextual-bound",
    SEEN,
    "mask-bayes",
    SHADOW,
    PUBLIC,
    "noisy-channel-lm",
)

# The paper's headline: both of its attacks are above Inversion BERT, in each of its forms.
HEADLINE = tuple(
    (first, second) for first in ("contextual-bayes", "context-free-bayes") for second in INVERSIONS
)
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
    *((bound, inversion) for bound in ("context-free-bound", SEEN) for inversion in INVERSIONS),
    ("noisy-channel-lm", PUBLIC),
)
# What the notebook set out to show, above both of the paper's attacks; and the headline, which
# was added after a first training had Inversion BERT ahead.
PLANNED = (*DUELS[:2], *HEADLINE)


def duels(trained: Sequence[Trained], rng: np.random.Generator) -> pd.DataFrame:
    """`compare` on all settings, with what was planned apart."""
    outcomes = [each.outcome for each in trained]
    return compare(outcomes, DUELS, rng, planned=PLANNED, resamples=19_999)


def setting(each: Trained) -> str:
    """What figures call the setting of an outcome."""
    return f"{each.outcome.defense}, eps {each.outcome.epsilon:g}"


def curves(trained: Sequence[Trained]) -> pd.DataFrame:
    """Held-out accuracy along all trainings; column `setting` says where."""
    return pd.concat([each.curves.assign(setting=setting(each)) for each in trained])


def by_k(trained: Sequence[Trained]) -> pd.DataFrame:
    """Success of the contextual attacks by K; column `setting` says where."""
    return pd.concat([each.by_k.assign(setting=setting(each)) for each in trained])


def training_table(trained: Sequence[Trained]) -> pd.DataFrame:
    """Held-out accuracy along every training, and what the detector alone achieves (Fig. 3)."""
    rows = []
    for each in trained:
        for name, part in each.curves.groupby("attack", sort=False):
            curve = part.groupby("step")["accuracy"].mean()  # over the trainings
            rows.append(
                {
                    "setting": setting(each),
                    "attack": name,
                    "trainings": part["training"].nunique(),
                    "untrained": each.untrained if name == "contextual-bayes" else np.nan,
                    "accuracy": curve.iloc[-1],
                    "gain at the end": float(np.diff(curve)[-1:].sum()),
                    "steps": curve.index[-1],
                    "success": each.outcome.hits[str(name)].mean(),
                    "between trainings": each.spread.get(str(name), np.nan),
                    "success of the detector alone": each.alone.get(str(name), np.nan),
                }
            )
    return pd.DataFrame(rows).set_index(["setting", "attack"])


def record_claims(run: Run, trained: Sequence[Trained]) -> None:
    """Record what the paper's claims about attacks with networks are compared with."""
    for each in trained:
        found = each.outcome
        where = f"{found.defense}.{found.corpus}.eps{found.epsilon:g}"
        for name in ("mask-inference", *INVERSIONS, "contextual-bayes", "contextual-bound", SEEN):
            if name not in found.hits:
                continue
            rate = stats.clustered_share(found.hits[name], found.document, sample=found.corpus)
            label = name.replace("-", "_")
            if name != TOKEN:  # needs no network: recorded with the attacks on all sentences
                run.record(f"asr.{where}.{label}", **rate.columns())
            run.record(f"minutes.{where}.{label}", found.seconds[name] / 60, unit="min")
        for name in ("embedding-inversion", "context-free-bayes"):
            minutes = found.seconds[name] / 60
            run.record(f"minutes.{where}.{name.replace('-', '_')}", minutes, unit="min")
        _record_gains(run, found, where)
        _record_trainings(run, each, where)
        own = each.curves[each.curves["attack"] == "contextual-bayes"]
        accuracies = {"finetuned": float(own["accuracy"].iloc[-1]), "original": each.untrained}
        for kind, accuracy in accuracies.items():
            # A right and a wrong word of each token: tokens count, not pairs.
            tokens = each.tested // 2
            rate = stats.share(round(accuracy * tokens), tokens)
            run.record(f"detector.{where}.{kind}", accuracy, rate.low, rate.high, tokens)
    last = max(
        (each for each in trained if each.outcome.defense == "custext"),
        key=lambda each: each.outcome.epsilon,
    )
    kinds = {"contextual-bayes": "attack", "contextual-bound": "bound", SEEN: "bound_seen"}
    by_size = last.by_k[last.by_k["attack"].isin(kinds)].set_index(["attack", "k"])
    for (attack, k), row in by_size.iterrows():
        run.record(f"table1.k{k}.{kinds[attack]}", **Estimate.of(row).columns())
    if ("contextual-bayes", K) in by_size.index:
        row = by_size.loc[("contextual-bayes", K)]
        interval = row["coverage_low"], row["coverage_high"], row["n"]
        run.record(f"table1.k{K}.coverage", row["coverage"], *interval)
    for attack, kind in kinds.items():
        for small, large in ((1, K), (K, 20)):
            if {(attack, small), (attack, large)} <= set(by_size.index):
                two = [Estimate.of(by_size.loc[(attack, k)]) for k in (large, small)]
                gain = stats.combined((1, -1), two, bounds=(-1.0, 1.0))
                name = f"table1.gain_k{small}_to_k{large}.{kind}"
                run.record(name, **gain.columns(), unit="difference")


GAINS = (
    *HEADLINE,
    *((bound, other) for bound in ("context-free-bound", "contextual-bound", SEEN)
      for other in INVERSIONS),
    ("contextual-bayes", "context-free-bayes"),
    ("contextual-bound", "context-free-bound"),
    (SEEN, "context-free-bound"),
)  # fmt: skip


def _record_gains(run: Run, found: Outcome, where: str) -> None:
    """Record the differences in pairs that the paper's claims are about."""
    for first, second in GAINS:
        on_all = second == TOKEN and first.startswith("context-free")  # recorded with these
        if second in found.hits and not on_all:
            name = f"{first}_over_{second}".replace("-", "_")
            gain = found.gain(first, second).columns()
            run.record(f"gain.{where}.{name}", **gain, unit="difference")


def _record_trainings(run: Run, each: Trained, where: str) -> None:
    """Record how far the trainings of the inversion networks differ, and how they went."""
    for name, spread in each.spread.items():
        label = name.replace("-", "_")
        curves = each.curves[each.curves["attack"] == name]
        trainings = curves["training"].nunique()
        if trainings > 1:
            run.record(f"spread.{where}.{label}", spread, n=trainings, unit="standard deviation")
        for step, accuracy in curves.groupby("step")["accuracy"]:
            run.record(f"accuracy.{where}.{label}.step{step}", accuracy.mean(), n=trainings)


def costs(rates: pd.DataFrame, modelled: pd.DataFrame, corpus: str, epsilon: float) -> pd.DataFrame:
    """Seconds of every attack on CusText+ at one epsilon, and per 1,000 tokens.

    Attacks without a network are timed on all sentences, the others on their few.
    """
    both = pd.concat([rates, modelled[~modelled["attack"].isin(rates["attack"].unique())]])
    chosen = both[
        (both["corpus"] == corpus) & (both["defense"] == "custext") & (both["epsilon"] == epsilon)
    ]
    chosen = chosen[["attack", "seconds", "n"]]
    return chosen.assign(per_thousand=1000 * chosen["seconds"] / chosen["n"])
