"""Notebook 03: what attackers get back from manipulated text, and what is left of its language."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from textpriv import grammar, parallel, pieces, stats
from textpriv.attacks import oracle
from textpriv.attacks.base import Guesses, Observed
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
from textpriv.attacks.noisy_channel import NoisyChannel
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
    stencil,
)
from textpriv.generators import Generator
from textpriv.models import FloatArray
from textpriv.seeds import stream
from textpriv.tokens import Corpus

if TYPE_CHECKING:
    from textpriv.report.run import Run

NAIVE, SKIP, ANYWHERE = "naive", "naive_skip", "anywhere"
CHANCE = "naive_skip_elsewhere"  # the guesses of SKIP held against the tokens of all places
RAW, RIDGE, LANGUAGE = "deconvolution_raw", "deconvolution", "deconvolution_lm"
SIMULATION, CHANNEL, FREQUENCY = "stencil_simulation", "noisy_channel", "context_free"


def language_model(tools: Tools) -> NGrams:
    """Triples of pieces in the public reviews."""
    lexicon = Lexicon(tools.table.size, [tools.public])
    return NGrams.train(lexicon, [tools.public], order=3)


def attacked(
    materials: Mapping[str, Material],
    tools: Tools,
    settings: Sequence[Setting],
    sizes: Sizes,
    seed: int | None,
    model: NGrams | None = None,
) -> pd.DataFrame:
    """Every attack on every setting; with `model` those with a language model too.

    A corpus that another encoder reads is attacked with the tools and a model of its own pieces.

    Columns: corpus, label, kind, window, sigma, eta, attack, top (1 or 5), value, low, high, n,
    influence, seconds. Intervals are clustered by document (`Material.cluster`).
    """
    models = {
        name: language_model(tools.of(name))
        if model is not None and name in tools.others
        else model
        for name in materials
    }
    shards = [
        (name, private, cluster, own, setting, sizes, seed, models[name])
        for name, each in materials.items()
        for count in [sizes.attacked[name]]
        for private, cluster, own in [(each.first(count), each.cluster[:count], tools.of(name))]
        for setting in settings
    ]
    found = parallel.map(_attacked, shards, processes=-1, label="attacks")
    return pd.concat(found, ignore_index=True)


def _attacked(
    name: str,
    private: Corpus,
    cluster: IntArray,
    tools: Tools,
    setting: Setting,
    sizes: Sizes,
    seed: int | None,
    model: NGrams | None,
) -> pd.DataFrame:
    rows = []
    for attack, guess in _attacks(name, private, tools, setting, sizes, seed, model).items():
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


Scored = dict[int, tuple[BoolArray | FloatArray, IntArray]]  # by top: hits and documents


def _attacks(
    name: str,
    private: Corpus,
    tools: Tools,
    setting: Setting,
    sizes: Sizes,
    seed: int | None,
    model: NGrams | None,
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
        if model is not None:
            found[CHANNEL] = lambda: scored(NoisyChannel(made, model=model).guess(observed))
    if setting.kind in STENCILS:
        under = stencil(setting, tools)
        found |= {
            ANYWHERE: anywhere,
            CHANCE: elsewhere,
            RAW: lambda: scored(Deconvolution(under, ridge=0.0).guess(observed)),
            RIDGE: lambda: scored(Deconvolution(under).guess(observed)),
        }
        if model is not None:
            public = tools.public.subset(np.arange(min(sizes.rehearsed, len(tools.public))))
            informed = LanguageDeconvolution(
                under, Rehearsal.learn(under, public), model, candidates=sizes.guesses
            )
            found[LANGUAGE] = lambda: scored(informed.guess(observed))
            if not under.punctuated:
                found[SIMULATION] = lambda: scored(StencilSimulation(informed).guess(observed))
    return found


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
    `edit_missed` is the edit distance over the texts that were not found.
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
                "mrr": stats.mean(ranks, bounds=(0.0, 1.0), sample=name),
                "pr5": replace(
                    stats.share(int(first.sum()), len(first)),
                    influence=stats.mean(first, sample=name).influence,
                ),
                "edit": stats.mean(edits, bounds=most, sample=name),
                "token_success": stats.clustered_share(right, document, sample=name),
            }
            if (edits > 0).sum() > 1:
                # Other texts are missed under another map: nothing pairs them.
                measures["edit_missed"] = stats.mean(
                    edits[edits > 0], bounds=most, sample=f"{name}, missed under {kind}"
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


def best(table: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """The strongest attack on every setting: its row of the table."""
    chosen = table[(table["top"] == top) & ~table["attack"].isin([ANYWHERE, CHANCE])]
    return chosen.loc[chosen.groupby(["corpus", "label"], sort=False)["value"].idxmax()]
