"""Notebook 04: who wrote a sanitized document, and what is it still worth?

The documents are divided into parts. Each part is asked about in turn by attackers who have
learned from the others, clean ones (static) or sanitized ones (adaptive); the answers for all
documents are pooled. Utility is the same with the sentiment in place of the author: what a
classifier of the sanitized documents achieves.

The risk of a mechanism at a setting is what the strongest of its attackers finds (`strongest_of`),
and its utility what the best of the same classifiers finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.model_selection import train_test_split

from textpriv import parallel, similarity
from textpriv.attacks.author import (
    bonferroni,
    cumulative_means,
    embedding_attack,
    f1_estimate,
    random_baseline,
    strongest,
    text_attack,
    tuned_attack,
)
from textpriv.attacks.ledger import Feature, features, ledger
from textpriv.errors import InvalidInput
from textpriv.experiments.dp_prompt import (
    CLEAN,
    CLIPPED,
    LARGE,
    PIECES,
    PROMPTED,
    WORD_LEVEL,
    FloatArray,
    IntArray,
    Material,
    Output,
    Sizes,
    Stream,
    clean,
    prompts_again,
    words_again,
)
from textpriv.mechanisms.prompt import DPPrompt
from textpriv.models import Encoder
from textpriv.seeds import stream
from textpriv.stats import CONFIDENCE, Estimate, Influence, clustered_mean, combined

if TYPE_CHECKING:
    from textpriv.report.difference import Difference
    from textpriv.report.run import Run

TARGETS = ("author", "sentiment")
STATIC, ADAPTIVE = "static", "adaptive"
EMBEDDING, TEXT, TUNED = "embedding", "text", "tuned"
STRONGEST, ANY = "strongest", "any"  # attacker and access of the greatest F1 of all
VALIDATION = 0.1  # of the documents that train, as in the paper
TUNED_EPOCHS, TUNED_RATE = 10, 3e-4  # the paper's 3 and 5e-5 are for a larger encoder
NOTEBOOK = "04"
DOCUMENTS = "private documents"  # the sample of all estimates here; a unit is a document's row


# --- Who is asked about whom --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows of the documents that train an attacker, choose its settings, and are asked about."""

    number: int
    train: IntArray
    validation: IntArray
    test: IntArray


def folds(material: Material, seed: int | None) -> list[Fold]:
    """One per part, which is asked about; a tenth of the others is validation, by author."""
    made, author = [], material.labels("author")
    for number in np.unique(material.part).tolist():
        others = np.flatnonzero(material.part != number)
        train, validation = train_test_split(
            others,
            test_size=max(round(VALIDATION * len(others)), len(np.unique(author))),
            stratify=author[others],
            random_state=int(stream(seed, NOTEBOOK, "fold", number).integers(2**32)),
        )
        test = np.flatnonzero(material.part == number)
        made.append(Fold(number, np.sort(train), np.sort(validation), test))
    return made


Seen = FloatArray | Sequence[str]  # what an attacker has of every document


def _seen(output: Output, access: str, run: int) -> Seen:
    """A run of an output; runs are used in turn, so that every part meets another one."""
    runs: Sequence[Seen] = output.vectors if access == EMBEDDING else output.texts
    return runs[run % len(runs)]


def _of(seen: Seen, rows: IntArray) -> Any:
    return seen[rows] if isinstance(seen, np.ndarray) else [seen[row] for row in rows.tolist()]


def _given(
    fold: Fold, learned: Seen, asked: Sequence[Seen], labels: IntArray
) -> tuple[Any, IntArray, Any, IntArray, list[Any]]:
    """What an attacker takes: training and validation documents with labels, and test sets."""
    return (
        _of(learned, fold.train),
        labels[fold.train],
        _of(learned, fold.validation),
        labels[fold.validation],
        [_of(each, fold.test) for each in asked],
    )


def _answers(
    fold: Fold,
    learned: Seen,
    asked: Sequence[Seen],
    labels: IntArray,
    *,
    seed: int,
    encoder: Encoder | None = None,
) -> list[IntArray]:
    """Guesses for the test documents of a fold, under each of several outputs.

    Parameters
    ----------
    learned : what the attacker has of the documents that train it
    asked : what it has of the test documents, each of all documents
    encoder : the one that is fine-tuned, for the tuned attacker; None: the other two
    """
    classes = int(labels.max()) + 1
    own = _given(fold, learned, asked, labels)
    if encoder is not None:
        return tuned_attack(
            encoder, *own, classes=classes, seed=seed, epochs=TUNED_EPOCHS, learning_rate=TUNED_RATE
        )
    if isinstance(learned, np.ndarray):
        return embedding_attack(*own, classes=classes, seed=seed)
    return text_attack(*own, classes=classes)


def _estimated(
    material: Material,
    parts: Iterable[tuple[Fold, IntArray]],
    target: str,
    rng_key: tuple[Any, ...],
) -> dict[str, Any]:
    """Macro F1 of the answers for all parts together; its influence is by row of the documents."""
    pairs = list(parts)
    document = np.concatenate([fold.test for fold, _ in pairs])
    labels = material.labels(target)
    found = f1_estimate(
        labels[document],
        np.concatenate([guess for _, guess in pairs]),
        int(labels.max()) + 1,
        stream(*rng_key),
        document=document,
        sample=DOCUMENTS,
    )
    return found.columns()


# --- The plane ----------------------------------------------------------------------------------


def attacked(
    material: Material, outputs: Sequence[Output], sizes: Sizes, seed: int | None
) -> pd.DataFrame:
    """Macro F1 for the author and for the sentiment under all four attackers.

    A static attacker learns once per part and is asked about every output; an adaptive one learns
    every output anew. What was learned is not kept. Of several runs each part meets another one,
    both to learn from and to be asked about.

    Columns: mechanism, setting, level, target, attacker ("static" or "adaptive"), access
    ("embedding" or "text", and "tuned" for the outputs in `sizes.tuned`), value, low, high, n,
    influence.
    """
    parts = folds(material, seed)
    plain = clean(material)
    asked_of: list[tuple[str, str, str, Fold, list[Output]]] = []
    shards: list[tuple[Any, ...]] = []
    for access in (EMBEDDING, TEXT):
        able = [each for each in (plain, *outputs) if access == EMBEDDING or each.texts]
        for target in TARGETS:
            labels = material.labels(target)
            for fold in parts:
                own = _seed(seed, target, fold.number)
                asked = [_seen(each, access, fold.number) for each in able]
                asked_of.append((STATIC, access, target, fold, able))
                shards.append((fold, labels, own, None, _seen(plain, access, 0), *asked))
                for each, seen in zip(able, asked, strict=True):
                    if each is not plain:
                        asked_of.append((ADAPTIVE, access, target, fold, [each]))
                        shards.append((fold, labels, own, None, seen, seen))
    found = parallel.map(_answers_to, shards, processes=-1, label="attackers")
    guesses: dict[tuple[Output, str, str, str], list[tuple[Fold, IntArray]]] = {}
    for (attacker, access, target, fold, able), answers in zip(asked_of, found, strict=True):
        for each, guess in zip(able, answers, strict=True):
            guesses.setdefault((each, target, attacker, access), []).append((fold, guess))
    return _table(material, guesses, seed)


def _answers_to(
    fold: Fold, labels: IntArray, seed: int, encoder: Encoder | None, learned: Seen, *asked: Seen
) -> list[IntArray]:
    """`_answers`; every output is an argument of its own, so that a cluster gets each once."""
    return _answers(fold, learned, asked, labels, seed=seed, encoder=encoder)


def tuned(
    material: Material, outputs: Sequence[Output], sizes: Sizes, seed: int | None
) -> pd.DataFrame:
    """The same columns for the fine-tuned encoder, on the outputs named in `sizes.tuned`.

    On the first part only, and for the author only: a training takes longer than everything that
    the other attackers do with an output. The static one is always there.
    """
    plain = clean(material)
    named = _named("tuned", sizes.tuned, (plain, *outputs))
    chosen = [each for each in named if each.mechanism != CLEAN]
    fold, labels = folds(material, seed)[0], material.labels("author")
    own = _seed(seed, "author", fold.number)
    trainings = [(STATIC, plain, [plain, *chosen]), *((ADAPTIVE, each, [each]) for each in chosen)]
    shards = [
        (fold, labels, own, material.encoder, learned.texts[0], *(each.texts[0] for each in asked))
        for _, learned, asked in trainings
    ]
    found = parallel.map(_answers_to, shards, processes=-1, label="trainings")
    guesses = {
        (each, "author", attacker, TUNED): [(fold, guess)]
        for (attacker, _, asked), answers in zip(trainings, found, strict=True)
        for each, guess in zip(asked, answers, strict=True)
    }
    return _table(material, guesses, seed)


def _named(what: str, labels: Sequence[str], outputs: Sequence[Output]) -> list[Output]:
    """The outputs of these labels; InvalidInput where there is none."""
    known = {each.label: each for each in outputs}
    unknown = set(labels) - set(known)
    if unknown:
        raise InvalidInput(f"{what}: got {sorted(unknown)}, expected among {sorted(known)}")
    return [known[label] for label in labels]


def _table(
    material: Material,
    guesses: Mapping[tuple[Output, str, str, str], Sequence[tuple[Fold, IntArray]]],
    seed: int | None,
) -> pd.DataFrame:
    rows = [
        {
            "mechanism": output.mechanism,
            "setting": output.setting,
            "level": output.level,
            "target": target,
            "attacker": attacker,
            "access": access,
            **_estimated(material, parts, target, (seed, NOTEBOOK, "resample")),
        }
        for (output, target, attacker, access), parts in guesses.items()
    ]
    return pd.DataFrame(rows)


def _seed(seed: int | None, *keys: str | int) -> int:
    return int(stream(seed, NOTEBOOK, "attacker", *keys).integers(2**31))


def baselines(material: Material) -> dict[str, float]:
    """Expected macro F1 of who guesses uniformly at random, by target."""
    return {
        target: random_baseline(labels, int(labels.max()) + 1)
        for target in TARGETS
        for labels in [material.labels(target)]
    }


# --- The strongest attacker -----------------------------------------------------------------------


def strongest_of(table: pd.DataFrame) -> pd.DataFrame:
    """The greatest F1 for each target at every setting, of all attackers in the table.

    Intervals are simultaneous over the attackers (`attacks.author.strongest`).

    Parameters
    ----------
    table : as of `attacked`, `tuned` or both

    Returns
    -------
    Their columns, with attacker "strongest" and access "any", and: by (who it is, "static text"),
    tried (number of attackers)
    """
    keys, rows = ["mechanism", "setting", "level", "target"], []
    for key, part in table.groupby(keys, sort=False):
        ran = {f"{row['attacker']} {row['access']}": Estimate.of(row) for _, row in part.iterrows()}
        by, found = strongest(ran)
        named = dict(zip(keys, key, strict=True)) | {"attacker": STRONGEST, "access": ANY}
        rows.append({**named, **found.columns(), "by": by, "tried": len(ran)})
    return pd.DataFrame(rows)


# --- At equal risk ------------------------------------------------------------------------------


_RISKS = tuple(np.linspace(0, 1, 101).tolist())
_NORMAL = float(norm.ppf((1 + CONFIDENCE) / 2))


def at_equal_risk(
    table: pd.DataFrame,
    risks: Sequence[float],
    *,
    attacker: str = STRONGEST,
    access: str = ANY,
) -> pd.DataFrame:
    """What is left of the sentiment where every mechanism gives the author away alike.

    Along a mechanism's settings, in the order of their author F1, the sentiment F1 is interpolated.
    Its interval allows for the errors of both F1 and, where they are those of the strongest, for
    the number of attackers (Bonferroni); see `_influence_at`. Where no setting has so much or so
    little risk there is no row.

    Parameters
    ----------
    table : as of `strongest_of`, or of `attacked` for one attacker

    Returns
    -------
    Columns: mechanism, risk, level (epsilon or temperature, interpolated), value, low, high, by
    (who names the author at the settings on either side), influence.
    """
    chosen = table[(table["attacker"] == attacker) & (table["access"] == access)]
    if "by" not in chosen:
        chosen = chosen.assign(by=f"{attacker} {access}", tried=1)
    rows = []
    for mechanism, part in chosen.groupby("mechanism", sort=False):
        author, sentiment = (
            part[part["target"] == target].set_index("level") for target in TARGETS
        )
        author = author.sort_values("value")
        sentiment = sentiment.loc[author.index]
        risk, value = author["value"].to_numpy(), sentiment["value"].to_numpy()
        for wanted in risks:
            if not (len(risk) > 1 and risk[0] <= wanted <= risk[-1]):
                continue
            end = max(1, int(np.searchsorted(risk, wanted)))
            influence = _influence_at(
                wanted, risk, value, author["influence"].tolist(), sentiment["influence"].tolist()
            )
            reach = bonferroni(int(part["tried"].max())) * _NORMAL * influence.error
            read = float(np.interp(wanted, risk, value))
            rows.append(
                {
                    "mechanism": mechanism,
                    "risk": wanted,
                    "level": float(np.interp(wanted, risk, author.index.to_numpy())),
                    "value": read,
                    "low": max(0.0, read - reach),
                    "high": min(1.0, read + reach),
                    "by": " or ".join(dict.fromkeys(author["by"].iloc[end - 1 : end + 1])),
                    "influence": influence,
                }
            )
    columns = ["mechanism", "risk", "level", "value", "low", "high", "by", "influence"]
    return pd.DataFrame(rows, columns=columns)


def _influence_at(
    wanted: float,
    risk: FloatArray,
    value: FloatArray,
    of_risk: Sequence[Influence],
    of_value: Sequence[Influence],
) -> Influence:
    """Influence on a value that is interpolated at a risk, where both are estimates.

    Between two settings with risks a and b the value is v = (1 - s) v_a + s v_b with s = (wanted -
    a) / (b - a), so that dv = (1 - s) (dv_a - m da) + s (dv_b - m db), with m = (v_b - v_a) /
    (b - a) the slope.

    Parameters
    ----------
    wanted : within the range of `risk`
    risk : (settings,) two or more, ascending
    value : (settings,)
    of_risk, of_value : as many
    """
    end = max(1, int(np.searchsorted(risk, wanted)))
    start, apart = end - 1, risk[end] - risk[end - 1]
    # Two equal risks have no slope; one of the two values is meant.
    share = (wanted - risk[start]) / apart if apart else 0.0
    slope = (value[end] - value[start]) / apart if apart else 0.0
    first, second = (of_value[row] - of_risk[row] * slope for row in (start, end))
    return first * (1 - share) + second * share


# --- What gives an author away ------------------------------------------------------------------


def ledgers(
    material: Material, outputs: Sequence[Output], sizes: Sizes, seed: int | None
) -> pd.DataFrame:
    """Author F1 from single traits of the surface, on clean text and on the outputs of `sizes`.

    The attacker is adaptive and sees nothing but one group of traits. Columns: mechanism, setting,
    feature, value, low, high, n, influence.
    """
    chosen = _named("ledger", sizes.ledger, (clean(material), *outputs))
    labels, parts = material.labels("author"), folds(material, seed)
    kinds = features(frozenset(material.small.words))
    jobs = [(output, fold) for output in chosen for fold in parts]
    shards = [(kinds, fold, labels, _seen(output, TEXT, fold.number)) for output, fold in jobs]
    found = parallel.map(_ledger_of, shards, processes=-1, label="traits")
    guesses: dict[tuple[Output, str], list[tuple[Fold, IntArray]]] = {}
    for (output, fold), answers in zip(jobs, found, strict=True):
        for feature, (guess,) in answers.items():
            guesses.setdefault((output, feature), []).append((fold, guess))
    rows = [
        {
            "mechanism": output.mechanism,
            "setting": output.setting,
            "feature": feature,
            **_estimated(material, pairs, "author", (seed, NOTEBOOK, "resample")),
        }
        for (output, feature), pairs in guesses.items()
    ]
    return pd.DataFrame(rows)


def _ledger_of(
    kinds: Mapping[str, Feature], fold: Fold, labels: IntArray, seen: Seen
) -> dict[str, list[IntArray]]:
    return ledger(kinds, *_given(fold, seen, [seen], labels), classes=int(labels.max()) + 1)


# --- Asked again and again ----------------------------------------------------------------------


def repeated(
    material: Material,
    output: Output,
    again: Sequence[FloatArray],
    repeats: Sequence[int],
    epsilon: float,
    seed: int | None,
) -> pd.DataFrame:
    """Author F1 when k outputs of one document are averaged before the attacker is asked.

    The documents of the first part are asked about. A static attacker has learned from the clean
    documents of the other parts, an adaptive one from the mean of their runs in `output`.

    Parameters
    ----------
    output : the mechanism at the setting of `again`
    again : vectors of further outputs, (documents of the first part, width) each
    repeats : values of k, at most len(again)
    epsilon : of one output

    Returns
    -------
    Columns: mechanism, setting, k, epsilon (k times that of one output: what composition gives),
    attacker, value, low, high, n, influence.
    """
    if max(repeats) > len(again):
        raise InvalidInput(f"repeats: got {max(repeats)}, expected at most {len(again)} outputs")
    fold, labels = folds(material, seed)[0], material.labels("author")
    asked = []
    for means in cumulative_means(np.stack(again), repeats):
        vectors = np.zeros_like(output.vectors[0])
        vectors[fold.test] = means
        asked.append(vectors)
    learned = {STATIC: clean(material).vectors[0], ADAPTIVE: np.mean(output.vectors, axis=0)}
    rows = []
    for attacker, seen in learned.items():
        own = _seed(seed, "repeated", attacker)
        for k, guess in zip(repeats, _answers(fold, seen, asked, labels, seed=own), strict=True):
            rows.append(
                {
                    "mechanism": output.mechanism,
                    "setting": output.setting,
                    "k": k,
                    "epsilon": k * epsilon,
                    "attacker": attacker,
                    **_estimated(material, [(fold, guess)], "author", (seed, NOTEBOOK, "resample")),
                }
            )
    return pd.DataFrame(rows)


def asked_again(
    material: Material,
    outputs: Sequence[Output],
    mechanisms: Sequence[tuple[str, DPPrompt]],
    sizes: Sizes,
    stream: Stream,
    seed: int | None,
) -> pd.DataFrame:
    """`repeated` for MADLIB at every k, and for clipped DP-Prompt as far as time allows.

    The epsilon of MADLIB is that of a word per unit of distance, DP-Prompt's that of a document.
    """
    test = folds(material, seed)[0].test
    known = {each.label: each for each in outputs}
    words = known[f"madlib eps{sizes.repeated_epsilon:g}"]
    written = known[f"{CLIPPED} t{sizes.repeated_temperature:g}"]
    mechanism = dict((name + f" t{each.temperature:g}", each) for name, each in mechanisms)
    prompt = mechanism[written.label]
    many, some = max(sizes.repeats), sizes.generated_repeats
    drawn = words_again(material, sizes.repeated_epsilon, test, many, stream("again", "words"))
    asked = prompts_again(prompt, material, test, some, sizes.batch, stream("again", "prompt"))
    few = [k for k in sizes.repeats if k <= some]
    return pd.concat(
        [
            repeated(material, words, drawn, sizes.repeats, words.level, seed),
            repeated(material, written, asked, few, written.epsilon, seed),
        ],
        ignore_index=True,
    )


# --- What a paraphrase keeps --------------------------------------------------------------------


def alike(
    material: Material, outputs: Sequence[Output], count: int, rng: np.random.Generator
) -> pd.DataFrame:
    """BERTScore F1 and cosine of original and sanitized document, by the encoder at hand.

    Over `count` random documents, the same for all outputs; of several runs the first. The row
    "other document" has another document's original in place of the sanitized one: what two
    texts of this corpus have in common anyway.

    Columns: mechanism, setting, level, bertscore, bertscore_low, bertscore_high, cosine,
    cosine_low, cosine_high, words (mean number in the output), n, influence (by measure).
    """
    chosen = rng.permutation(len(material.private))[:count]
    originals = _of(material.private.texts, chosen)
    compared = [("other document", "plain", 0.0, [*originals[1:], originals[0]])]
    compared += [
        (each.mechanism, each.setting, each.level, _of(each.texts[0], chosen))
        for each in outputs
        if each.texts
    ]
    rows = []
    for mechanism, setting, level, texts in compared:
        found = {}
        for measure, scores in (
            ("bertscore", similarity.bert_score(material.encoder, originals, texts).f1),
            ("cosine", similarity.cosine(material.encoder, originals, texts, longest=PIECES)),
        ):
            values = np.clip(scores, -1, 1)  # a text resembles itself by 1, but for rounding
            if mechanism == "other document":
                # Each document is in two pairs, and takes both with it, as in the jackknife.
                values = values + np.roll(values, 1) - values.mean()
            found[measure] = clustered_mean(values, chosen, bounds=(-1.0, 1.0), sample=DOCUMENTS)
        rows.append(
            {
                "mechanism": mechanism,
                "setting": setting,
                "level": level,
                **{
                    measure + end: getattr(each, what)
                    for measure, each in found.items()
                    for end, what in (("", "value"), ("_low", "low"), ("_high", "high"))
                },
                "words": float(np.mean([len(text.split()) for text in texts])),
                "n": len(texts),
                "influence": {measure: each.influence for measure, each in found.items()},
            }
        )
    return pd.DataFrame(rows)


# --- Results ------------------------------------------------------------------------------------


def record(run: Run, table: pd.DataFrame, random: Mapping[str, float] | None = None) -> None:
    """`f1.<mechanism>.<setting>.<author|sentiment>.<static|adaptive>.<embedding|text|tuned>`.

    Of clean text there is one attacker, who is static and adaptive at once, under "adaptive".
    With `random`, of `baselines`, `f1.random.plain.<author|sentiment>` and the `summaries` too.
    """
    for row in table.itertuples():
        attacker = ADAPTIVE if row.mechanism == CLEAN else row.attacker
        _keep(run, f"f1.{row.mechanism}.{row.setting}.{row.target}.{attacker}.{row.access}", row)
    if random is None:
        return
    for target, value in random.items():
        run.record(f"f1.random.plain.{target}", value)
    for name, found in _summarized(table, random).items():
        if name.startswith("f1.spread"):
            run.record(name, found.value, n=found.n)  # a maximum; an interval would be of one pair
        else:
            _keep(run, name, found, "share" if name.startswith("f1.mean") else "difference")


def record_strongest(run: Run, table: pd.DataFrame) -> None:
    """`f1_strongest.<mechanism>.<setting>.<author|sentiment>`: the greatest F1 of all attackers."""
    for row in table.itertuples():
        _keep(run, of_strongest(f"{row.mechanism} {row.setting}", str(row.target)), row)


def of_strongest(label: str, target: str = "author") -> str:
    """What results call the greatest F1 at a setting, for example at "dp-prompt t0.75"."""
    return f"f1_strongest.{label.replace(' ', '.')}.{target}"


def tally(run: Run, mechanisms: Sequence[str], first: str, second: str) -> str:
    """How often one attacker's mean author F1 over the settings is above, and below, another's.

    Parameters
    ----------
    first, second : "adaptive.embedding" and the like
    """
    pairs = ([f"f1.mean.{name}.author.{each}" for each in (first, second)] for name in mechanisms)
    tests = [run.difference(*pair).verdict for pair in pairs]
    better, worse = tests.count("above"), tests.count("below")
    return f"better on {better} of {len(tests)} mechanisms and worse on {worse}"


def record_traces(run: Run, outputs: Sequence[Output]) -> None:
    """`trace.<mechanism>.<setting>.<name>`: means of what was seen while outputs were made.

    Over all observations, with intervals by documents.
    """
    for output in outputs:
        for name, trace in output.traces.items():
            found = clustered_mean(trace.value, trace.document, bounds=(0.0, 1.0), sample=DOCUMENTS)
            _keep(run, f"trace.{output.mechanism}.{output.setting}.{name}", found)


def _keep(run: Run, name: str, found: Any, unit: str = "share") -> None:
    """Record an `Estimate`, or a row with its columns."""
    run.record(name, found.value, found.low, found.high, found.n, unit, influence=found.influence)


def summaries(table: pd.DataFrame, random: Mapping[str, float]) -> dict[str, float]:
    """The numbers that the paper's statements compare, by name.

    `f1.mean.<mechanism>.<target>.<attacker>.<access>` : over the settings
    `f1.fall.<target>.<mechanism>...` : from the lowest temperature to the highest, relative
    `f1.excess.deep-candidate.<target>.static.embedding` : the mean beyond guessing at random
    `f1.spread.word-level.sentiment...` : the largest difference between two word-level
        mechanisms at equal author F1
    `f1.gain.<mechanism>-300d.sentiment...` : what 300 dimensions add at equal author F1, on average
    `f1.gain.dp-prompt-top-k<k>.<setting>.sentiment...` : what the cut adds
    """
    return {name: found.value for name, found in _summarized(table, random).items()}


def _summarized(table: pd.DataFrame, random: Mapping[str, float]) -> dict[str, Estimate]:
    """The `summaries` with intervals by what each document did to all the F1 of a summary.

    All attackers are asked about the same documents, so that neither is the error of a mean over
    settings that of one setting, nor do errors of two attackers add up. Risks and mechanisms are
    taken as they were found: those that are farthest apart for `f1.spread`, which are rather nearer
    than the interval says, and those that both tables reach for `f1.gain`.
    """
    found: dict[str, Estimate] = {}
    keys = ["mechanism", "target", "attacker", "access"]
    for (mechanism, target, attacker, access), part in table.groupby(keys, sort=False):
        which = f"{attacker}.{access}"
        ordered = [Estimate.of(row._asdict()) for row in part.sort_values("level").itertuples()]
        found[f"f1.mean.{mechanism}.{target}.{which}"] = combined(
            [1 / len(ordered)] * len(ordered), ordered, bounds=(0.0, 1.0)
        )
        if mechanism in (PROMPTED, CLIPPED) and len(ordered) > 1:
            name = f"f1.fall.{target}.{mechanism}.{which}"
            found[name] = _relative_fall(ordered[0], ordered[-1])
    for target in TARGETS:
        mean = found.get(f"f1.mean.deep-candidate.{target}.{STATIC}.{EMBEDDING}")
        if mean is not None:
            name = f"f1.excess.deep-candidate.{target}.{STATIC}.{EMBEDDING}"
            found[name] = _moved(mean, -random[target])
    for attacker in (STATIC, ADAPTIVE):
        found |= _at_equal_risk_summarized(table, attacker)
    same = ["mechanism", "setting", "target", "attacker", "access"]
    rows = [row._asdict() for row in table[table["target"] == "sentiment"].itertuples()]
    known = {tuple(row[key] for key in same): Estimate.of(row) for row in rows}
    for (mechanism, *rest), cut in known.items():
        plain = known.get((PROMPTED, *rest))
        if mechanism.startswith(f"{PROMPTED}-top-k") and plain is not None:
            name = ".".join(["f1.gain", mechanism, *rest])
            found[name] = combined([1, -1], [cut, plain], bounds=(-1.0, 1.0))
    return found


def _at_equal_risk_summarized(table: pd.DataFrame, attacker: str) -> dict[str, Estimate]:
    """`f1.spread` and the `f1.gain` of 300 dimensions under an attacker."""
    found: dict[str, Estimate] = {}
    which = f"sentiment.{attacker}.{EMBEDDING}"
    level = at_equal_risk(table, _RISKS, attacker=attacker, access=EMBEDDING)
    documents = int(table["n"].min())
    at = {
        (row.risk, row.mechanism): Estimate(row.value, row.low, row.high, documents, row.influence)
        for row in level.itertuples()
    }
    wide = level.pivot_table(index="risk", columns="mechanism", values="value")
    words = wide[[name for name in WORD_LEVEL if name in wide]].dropna()
    if len(words) and words.shape[1] > 1:
        risk = (words.max(axis=1) - words.min(axis=1)).idxmax()
        ends = [at[risk, words.loc[risk].idxmax()], at[risk, words.loc[risk].idxmin()]]
        found[f"f1.spread.word-level.{which}"] = combined([1, -1], ends, bounds=(0.0, 1.0))
    for name in WORD_LEVEL:
        both = [name + LARGE, name]
        risks = wide[both].dropna().index.tolist() if set(both) <= set(wide) else []
        if risks:
            found[f"f1.gain.{name}{LARGE}.{which}"] = combined(
                [sign / len(risks) for sign in (1, -1) for _ in risks],
                [at[risk, each] for each in both for risk in risks],
                bounds=(-1.0, 1.0),
            )
    return found


def _relative_fall(first: Estimate, last: Estimate) -> Estimate:
    """1 - last / first, whose differential is (ratio d first - d last) / first."""
    ratio = last.value / first.value
    linear = combined(
        [ratio / first.value, -1 / first.value], [first, last], bounds=(-np.inf, ratio)
    )
    return _moved(linear, 1 - ratio)


def _moved(found: Estimate, by: float) -> Estimate:
    """The estimate plus a constant."""
    return replace(found, value=found.value + by, low=found.low + by, high=found.high + by)


def record_guarantees(run: Run, table: pd.DataFrame) -> None:
    """`epsilon.<mechanism>.<setting>.<token_tight|token_paper|tight|paper>`, in nats."""
    for row in table[table["withdrawn"] == ""].itertuples():
        for kind in ("token_tight", "token_paper", "tight", "paper"):
            name = f"epsilon.{row.mechanism}.{row.setting}.{kind}"
            run.record(name, getattr(row, kind), unit="nats")


def record_equal_risk(run: Run, table: pd.DataFrame) -> None:
    """`f1_at_risk.<risk>.<mechanism>`: sentiment F1 where the strongest author F1 is that risk."""
    for row in table.itertuples():
        name = f"f1_at_risk.{row.risk:g}.{row.mechanism}"
        run.record(name, row.value, row.low, row.high, influence=row.influence)


def corrected(found: Difference, tests: int) -> Difference:
    """A difference with the interval and the p-value that are right for `tests` of them at once.

    Two maxima over k attackers differ by at most as much as some attacker's two values do, so
    that their difference is one of k (Bonferroni).
    """
    wider = bonferroni(tests)
    return replace(
        found,
        low=found.value - wider * (found.value - found.low),
        high=found.value + wider * (found.high - found.value),
        p=min(1.0, tests * found.p),
    )


def word_level_pairs(run: Run, table: pd.DataFrame) -> dict[str, Difference]:
    """Differences of recorded `f1_at_risk` between two word-level mechanisms, by what they are.

    Parameters
    ----------
    table : as of `at_equal_risk`
    """
    found = {}
    for risk, part in table.groupby("risk"):
        there = [name for name in WORD_LEVEL if name in set(part["mechanism"])]
        for first, second in combinations(there, 2):
            names = (f"f1_at_risk.{risk:g}.{each}" for each in (first, second))
            found[f"{first} less {second} at {risk:g}"] = run.difference(*names)
    return found


def record_ledger(run: Run, table: pd.DataFrame) -> None:
    """`ledger.<mechanism>.<setting>.<feature>`."""
    for row in table.itertuples():
        name = f"ledger.{row.mechanism}.{row.setting}.{row.feature.replace(' ', '-')}"
        _keep(run, name, row)


def record_repeated(run: Run, table: pd.DataFrame) -> None:
    """`repeated.<mechanism>.<setting>.k<k>.<static|adaptive>`."""
    for row in table.itertuples():
        name = f"repeated.{row.mechanism}.{row.setting}.k{row.k}.{row.attacker}"
        _keep(run, name, row)


def record_alike(run: Run, table: pd.DataFrame) -> None:
    """`<bertscore|cosine>.<mechanism>.<setting>`, another document's under "other.plain"."""
    for row in table.itertuples():
        for measure, influence in row.influence.items():
            value, low, high = (getattr(row, measure + end) for end in ("", "_low", "_high"))
            name = f"{measure}.{row.mechanism.split()[0]}.{row.setting}"
            run.record(name, value, low, high, row.n, "cosine", influence=influence)
