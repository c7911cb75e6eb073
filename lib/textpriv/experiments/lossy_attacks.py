"""Notebook 03: what attackers get back from manipulated text, and what is left of its language."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from textpriv import grammar, parallel, pieces, stats
from textpriv.attacks import oracle
from textpriv.attacks.base import NONE, Attack, Guesses, Observed
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.deconvolution import (
    Deconvolution,
    LanguageDeconvolution,
    Rehearsal,
    StencilSimulation,
    TokenInversion,
    hits_anywhere,
    singular_values,
    watch,
)
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.experiments.lossy import (
    MAPS,
    STENCILS,
    BoolArray,
    IntArray,
    Material,
    Setting,
    Sizes,
    Tools,
    manipulate,
    mapper,
    noise,
    stencil,
)
from textpriv.generators import Generator
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.stencil import Stencil
from textpriv.models import FloatArray
from textpriv.seeds import stream
from textpriv.tokens import Corpus

if TYPE_CHECKING:
    from textpriv.report.run import Run

NAIVE, SKIP, ANYWHERE = "naive", "naive_skip", "anywhere"
CHANCE = "naive_skip_elsewhere"  # the guesses of SKIP compared with the tokens of all places
RAW, RIDGE, LANGUAGE = "deconvolution_raw", "deconvolution", "deconvolution_lm"
SIMULATION, CHANNEL, FREQUENCY = "stencil_simulation", "noisy_channel", "context_free"


def language_model(tools: Tools, sizes: Sizes) -> NGrams:
    """Triples of pieces in the public reviews but for those of a `rehearsal`."""
    unread = tools.public.subset(np.arange(rehearsed(sizes, tools.public)[1], len(tools.public)))
    return NGrams.train(Lexicon(tools.table.size, [unread]), [unread], order=3)


def rehearsed(sizes: Sizes, public: Corpus) -> tuple[int, int]:
    """Where the public reviews end that teach the error, and those that then calibrate."""
    learned = min(sizes.rehearsed, len(public) - 2)
    return learned, min(learned + -(-learned // 4), len(public) - 1)


def rehearsal(setting: Setting, tools: Tools, sizes: Sizes, model: NGrams) -> LanguageDeconvolution:
    """The deconvolution with a language model, calibrated on public text for a stencil."""
    learned, last = rehearsed(sizes, tools.public)
    under = stencil(setting, tools)
    known = Rehearsal.learn(under, tools.public.subset(np.arange(learned)))
    attack = LanguageDeconvolution(under, known, model, candidates=sizes.guesses)
    return attack.calibrated(tools.public.subset(np.arange(learned, last)))


def attacked(
    materials: Mapping[str, Material],
    tools: Tools,
    settings: Sequence[Setting],
    sizes: Sizes,
    seed: int | None,
    model: NGrams | None = None,
) -> pd.DataFrame:
    """Every attack on every setting; with `model` those that learn from public text too.

    A corpus that another encoder reads is attacked with the tools and a model of its own pieces.
    What is learned for a setting serves all corpora of one encoder.

    Columns: corpus, label, kind, window, sigma, eta, attack, top (1 or 5), value, low, high, n,
    influence, seconds. Intervals are clustered by document (`Material.cluster`).
    """
    readers: dict[str, list[str]] = {}  # corpora by encoder, "" for the one that most share
    for name in materials:
        readers.setdefault(name if name in tools.others else "", []).append(name)
    shards = []
    for reader, names in readers.items():
        own = tools.of(reader)
        own_model = language_model(own, sizes) if model is not None and reader else model
        private = {
            name: (materials[name].first(sizes.attacked[name]),
                   materials[name].cluster[: sizes.attacked[name]])
            for name in names
        }  # fmt: skip
        shards += [(private, own, setting, sizes, seed, own_model) for setting in settings]
    found = parallel.map(_attacked, shards, processes=-1, label="attacks")
    place = {name: number for number, name in enumerate(materials)}
    table = pd.concat(found, ignore_index=True)
    return table.sort_values("corpus", key=lambda names: names.map(place), kind="stable",
                             ignore_index=True)  # fmt: skip


def _attacked(
    private: Mapping[str, tuple[Corpus, IntArray]],
    tools: Tools,
    setting: Setting,
    sizes: Sizes,
    seed: int | None,
    model: NGrams | None,
) -> pd.DataFrame:
    """The attacks on one setting: private texts of one encoder, by corpus, with their clusters."""
    learned = None if model is None else _learned(setting, tools, sizes, seed, model)
    rows = []
    for name, (texts, cluster) in private.items():
        for attack, guess in _attacks(name, texts, tools, setting, seed, learned).items():
            start = time.perf_counter()
            for top, (hits, document) in guess().items():
                of_pair = document % len(cluster)  # second texts stand behind the first ones
                rate = stats.clustered_share(hits, cluster[of_pair], sample=name)
                rows.append(
                    {
                        "corpus": name,
                        "label": setting.label,
                        **asdict(setting),
                        "attack": attack,
                        "top": top,
                        **rate.columns(),
                        "seconds": time.perf_counter() - start,
                    }
                )
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class _Learned:
    """What public text teaches about one setting.

    Parameters
    ----------
    model : the language model, for lossy maps
    informed : of a stencil
    noise : of noise, on the rows of its own table
    """

    model: NGrams
    informed: LanguageDeconvolution | None = None
    noise: NoisyChannel | None = None


def _learned(
    setting: Setting, tools: Tools, sizes: Sizes, seed: int | None, model: NGrams
) -> _Learned:
    if setting.kind in STENCILS:
        return _Learned(model, informed=rehearsal(setting, tools, sizes, model))
    if setting.kind != "noise":
        return _Learned(model)
    madlib, row = noise(setting.eta, tools)
    rng = stream(seed, "03", "noise-channel", setting.label)
    channel = NoiseChannel.estimate(madlib, [setting.eta], rng, directions=8, sampled_words=64)
    known = channel[setting.eta]
    in_rows = tools.public.with_ids(row[tools.public.ids])
    learned, last = rehearsed(sizes, in_rows)
    shadow = in_rows.subset(np.arange(learned, last))
    unread = in_rows.subset(np.arange(last, len(in_rows)))
    triples = NGrams.train(Lexicon(madlib.size, [unread]), [unread], order=3)
    replaced, seen = shadow.ids >= 0, shadow.ids.copy()
    seen[replaced] = madlib.sanitize_ids(seen[replaced], rng)
    tried = Observed(shadow.with_ids(seen), replaced)
    weight = tuned_weight(known, triples, tried, shadow, weights=(0.25, 0.5, 1.0))
    return _Learned(model, noise=NoisyChannel(known, model=triples, weight=weight))


Scored = dict[int, tuple[BoolArray | FloatArray, IntArray]]  # by top: hits and documents


def _attacks(
    name: str,
    private: Corpus,
    tools: Tools,
    setting: Setting,
    seed: int | None,
    learned: _Learned | None,
) -> dict[str, Callable[[], Scored]]:
    """The attacks that a setting calls for."""
    rng = stream(seed, "03", "attacked", name, setting.label)
    seen = manipulate(setting, private, tools, rng)
    observed = Observed(seen, (private.ids >= 0) & ~np.isin(private.ids, tools.table.fixed))
    targets = observed.targets
    truth, document = private.ids[targets], private.document[targets]

    def scored(guesses: Guesses) -> Scored:
        return {top: (guesses.hits(truth, top=top), document) for top in (1, 5)}

    def anywhere() -> Scored:
        guesses = TokenInversion(tools.table, skip=False).guess(observed)
        return {5: (hits_anywhere(guesses, seen, targets, truth), document)}

    def elsewhere() -> Scored:
        # Who is no better has learned from the place nothing but how frequent tokens are.
        words = TokenInversion(tools.table).guess(observed, top=5).words
        frequency = np.bincount(truth, minlength=tools.table.size + 1) / len(truth)  # NONE: 0
        return {5: (frequency[words].sum(1), document)}

    def inversion(skip: bool) -> Callable[[], Scored]:
        return lambda: scored(TokenInversion(tools.table, skip=skip).guess(observed))

    found = {NAIVE: inversion(False), SKIP: inversion(True)}
    if setting.kind in MAPS:
        # The same draw as in `manipulate`.
        rng = stream(seed, "03", "attacked", name, setting.label)
        made = mapper(setting, tools.counts, tools.table.fixed, rng)
        prior = np.zeros(made.size)
        prior[made.inputs] = tools.counts[made.inputs] + 0.5
        found = {
            NAIVE: lambda: {1: (seen.ids[targets] == truth, document)},
            FREQUENCY: lambda: scored(Bayes(made, prior, name=FREQUENCY).guess(observed)),
        }
        if learned is not None:
            by_words = NoisyChannel(made, model=learned.model)
            found[CHANNEL] = lambda: scored(by_words.guess(observed))
    if learned is not None and learned.noise is not None:
        _, row = noise(setting.eta, tools)
        decoder = learned.noise
        counts = tools.counts[tools.table.inputs].astype(np.float64) + 0.5
        in_rows = Observed(seen.with_ids(row[seen.ids]), observed.sanitized)

        def of_noise(attack: Attack) -> Callable[[], Scored]:
            return lambda: scored(_renamed(attack.guess(in_rows), tools.table.inputs))

        found[FREQUENCY] = of_noise(Bayes(decoder.channel, counts, name=FREQUENCY))
        found[CHANNEL] = of_noise(decoder)
    if setting.kind in STENCILS:
        under = stencil(setting, tools)
        found |= {
            ANYWHERE: anywhere,
            CHANCE: elsewhere,
            RAW: lambda: scored(Deconvolution(under, ridge=0.0).guess(observed)),
            RIDGE: lambda: scored(Deconvolution(under).guess(observed)),
        }
        if learned is not None and (informed := learned.informed) is not None:
            found[LANGUAGE] = lambda: scored(informed.guess(observed))
            if not under.punctuated:
                found[SIMULATION] = lambda: scored(StencilSimulation(informed).guess(observed))
    return found


def _renamed(guesses: Guesses, ids: IntArray) -> Guesses:
    """Guesses of rows as guesses of their ids."""
    return Guesses(np.where(guesses.words == NONE, NONE, ids[guesses.words]), guesses.scores)


def conditioning(settings: Sequence[Setting], tools: Tools, lengths: Sequence[int]) -> pd.DataFrame:
    """How badly W is conditioned: label, kind, ..., length, condition, smallest, damped.

    `damped` is the share of the squared singular values that the ridge of `Deconvolution` exceeds.
    """
    rows = []
    for setting in settings:
        for length in lengths if setting.kind in STENCILS else ():
            values = singular_values(stencil(setting, tools), length)
            smallest = float(values[-1])
            rows.append(
                {
                    "label": setting.label,
                    **asdict(setting),
                    "length": length,
                    "condition": float(values[0] / max(smallest, np.finfo(float).tiny)),
                    "smallest": smallest,
                    "damped": float((values**2 < 0.05).mean()),
                }
            )
    return pd.DataFrame(rows)


def ridges(
    material: Material, tools: Tools, settings: Sequence[Setting], sizes: Sizes
) -> pd.DataFrame:
    """Deconvolution against its ridge: label, kind, window, sigma, ridge, top, value, ..."""
    rows = []
    private = material.first(sizes.attacked[material.name])
    for setting in settings:
        under = stencil(setting, tools.of(material.name))
        observed = watch(under, private)
        truth = private.ids[observed.targets]
        document = private.document[observed.targets]
        for ridge in (0.0, 0.001, 0.01, 0.05, 0.2, 1.0):
            guesses = Deconvolution(under, ridge=ridge).guess(observed)
            for top in (1, 5):
                rate = stats.clustered_share(guesses.hits(truth, top=top), document)
                rows.append(
                    {"label": setting.label, **asdict(setting), "ridge": ridge, "top": top}
                    | rate.columns()
                )
    return pd.DataFrame(rows)


# --- The oracle ---------------------------------------------------------------------------------


def oracle_beam(
    materials: Mapping[str, Material],
    tools: Tools,
    generator: Generator,
    kinds: Sequence[str],
    sizes: Sizes,
    seed: int | None,
) -> pd.DataFrame:
    """The oracle on maps over the causal model's own vocabulary (the paper's Table 3).

    Columns: corpus, kind, measure (mrr, pr5, edit, edit_missed, token_success), value, low, high,
    n, influence, texts, tokens (mean length), capped (texts that met the cap), kept, seconds.
    `edit_missed` is the edit distance over the texts that were not found. Intervals are clustered
    as `Material.cluster` says.
    """
    fixed = pieces.special_ids(generator.tokenizer)
    public = pieces.encode(
        generator.tokenizer,
        pieces.decode(
            tools.encoder.tokenizer, tools.public.subset(np.arange(min(2000, len(tools.public))))
        ),
    )
    counts = public.counts(len(generator.tokenizer))
    rows = []
    for name, material in materials.items():
        texts = material.documents.texts[: sizes.oracle[name]]
        cluster = material.cluster[: len(texts)]
        truth = pieces.encode(generator.tokenizer, texts, longest=sizes.oracle_longest[name])
        for kind in kinds:
            rng = stream(seed, "03", "oracle", name, kind)
            made = mapper(Setting(kind), counts, fixed, rng)
            start = time.perf_counter()
            attack = oracle.OracleBeam(generator, made, most=sizes.oracle_most)
            found = attack.search_corpus(made.sanitize_corpus(truth))
            seconds = time.perf_counter() - start
            right, document = oracle.token_success(found, truth, made)
            edits = oracle.edit_distances(found, truth).astype(float)
            ranks, first = oracle.reciprocal_rank(found, truth), oracle.among_first(found, truth)
            most = (0.0, float(np.diff(truth.offsets).max()))
            measures = {
                "mrr": stats.clustered_mean(ranks, cluster, bounds=(0.0, 1.0), sample=name),
                "pr5": stats.clustered_share(first, cluster, sample=name),
                "edit": stats.clustered_mean(edits, cluster, bounds=most, sample=name),
                "token_success": stats.clustered_share(right, cluster[document], sample=name),
            }
            missed = edits > 0
            if missed.sum() > 1:
                # Other texts are missed under another map: nothing pairs them.
                measures["edit_missed"] = stats.clustered_mean(
                    edits[missed],
                    cluster[missed],
                    bounds=(1.0, most[1]),
                    sample=f"{name}, missed under {kind}",
                )
            for measure, rate in measures.items():
                rows.append(
                    {
                        "corpus": name,
                        "kind": kind,
                        "measure": measure,
                        **rate.columns(),
                        "texts": len(found),
                        "tokens": len(truth.ids) / len(truth),
                        "capped": sum(each.capped > 0 for each in found),
                        "kept": min(each.kept for each in found),
                        "seconds": seconds,
                    }
                )
    return pd.DataFrame(rows)


# --- What is left of the language ----------------------------------------------------------------


def readable(
    material: Material,
    tools: Tools,
    settings: Sequence[Setting],
    generator: Generator,
    count: int,
    seed: int | None,
) -> pd.DataFrame:
    """Grammar and readability: label, kind, ..., bits per character, perplexity, speech, judged.

    `speech` is the share of whole words whose replacement is the same part of speech, `chance`
    what two unrelated words of both texts would give, `judged` the share of pieces that are
    whole words on either side.
    """
    tools = tools.of(material.name)
    names = np.array(pieces.as_wordpieces(tools.encoder.tokenizer), dtype=object)
    private = material.first(count)
    rows = []
    for setting in settings:
        rng = stream(seed, "03", "readable", material.name, setting.label)
        seen = manipulate(setting, private, tools, rng)
        texts = [text for text in pieces.decode(tools.encoder.tokenizer, seen) if text]
        text = grammar.readability(generator, texts)
        before, after = names[private.ids], names[seen.ids]
        whole = grammar.whole_words(before, after, offsets=private.offsets)
        kept = grammar.kept(before[whole], after[whole])
        rate = stats.clustered_share(kept, private.document[whole])
        shares = [grammar.tag_shares(words[whole]) for words in (before, after)]
        rows.append(
            {
                "corpus": material.name,
                "label": setting.label,
                **asdict(setting),
                "bits": text.bits_per_character,
                "perplexity": text.perplexity_per_token,
                "speech": rate.value,
                "low": rate.low,
                "high": rate.high,
                "n": rate.n,
                "chance": grammar.chance(*shares),
                "judged": float(whole.mean()),
            }
        )
    return pd.DataFrame(rows)


def lengths(materials: Mapping[str, Material]) -> pd.DataFrame:
    """What the number of pieces alone says: it passes every manipulation unchanged."""
    rows = []
    for name, material in materials.items():
        count = np.diff(material.corpus.offsets)
        rows.append(
            {
                "corpus": name,
                "texts": len(count),
                "bits": grammar.length_bits(count),
                "of": float(np.log2(len(count))),
                "identified": grammar.identified(count),
            }
        )
    return pd.DataFrame(rows)


# --- Tables of the notebook -----------------------------------------------------------------


def record_attacks(run: Run, table: pd.DataFrame) -> None:
    """pr1.<label>.<corpus>.<attack> and pr5...: shares of tokens that an attack gets back."""
    for row in table.itertuples():
        name = f"pr{row.top}.{row.label}.{row.corpus}.{row.attack}"
        run.record(name, row.value, row.low, row.high, row.n, influence=row.influence)


def record_oracle(run: Run, table: pd.DataFrame) -> None:
    """oracle.<kind>.<corpus>.<measure>; edit distances are in tokens."""
    for row in table.itertuples():
        unit = "tokens" if row.measure.startswith("edit") else "share"
        name = f"oracle.{row.kind}.{row.corpus}.{row.measure}"
        run.record(name, row.value, row.low, row.high, row.n, unit=unit, influence=row.influence)


def record_windows(run: Run, materials: Mapping[str, Material], tools: Tools, sizes: Sizes) -> None:
    """identical.stencil-s<sigma>.<corpus>: tokens on which the stencils of all windows agree.

    At the sigma at which the window varies. Where it is 1 they are one map on these texts, so that
    whatever differs between them is no property of theirs.
    """
    sigma = sizes.crossing[1]
    shards = [
        (stencil(Setting("stencil", window, sigma), tools.of(name)), each)
        for name, material in materials.items()
        for each in [material.first(sizes.attacked[name])]
        for window in sizes.windows
    ]
    seen = parallel.map(Stencil.sanitize_corpus, shards, processes=-1)
    for number, (name, material) in enumerate(materials.items()):
        count = sizes.attacked[name]
        outputs = np.stack([each.ids for each in seen[number * len(sizes.windows) :]
                            [: len(sizes.windows)]])  # fmt: skip
        document = material.first(count).document
        cluster = material.cluster[:count]
        same = (outputs == outputs[0]).all(0)
        rate = stats.clustered_share(same, cluster[document % len(cluster)], sample=name)
        run.record(f"identical.stencil-s{sigma:.1f}.{name}", **rate.columns())


def best(table: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """The strongest attack on every setting: its row of the table."""
    chosen = table[(table["top"] == top) & ~table["attack"].isin([ANYWHERE, CHANCE])]
    return chosen.loc[chosen.groupby(["corpus", "label"], sort=False)["value"].idxmax()]
