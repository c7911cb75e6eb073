"""The tables of notebook 03: rows with intervals from what its loops return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv import stats
from textpriv.attacks import oracle
from textpriv.attacks.base import Guesses, Observed
from textpriv.data.tokens import Corpus
from textpriv.experiments.lossy import (
    MAPS,
    STENCILS,
    Setting,
    Sizes,
    Text,
    Vocabulary,
    crossing,
    hits,
)
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil
from textpriv.models import BoolArray, FastTokenizer, pieces
from textpriv.models.generators import Generator
from textpriv.utility import grammar

Row = dict[str, Any]


# --- Utility --------------------------------------------------------------------------------------


def answers(
    text: Text,
    setting: Setting,
    scenario: str,
    seen: Corpus,
    correct: Mapping[int, BoolArray],
    draw: int | None = None,
) -> Row:
    """How a classifier did on one draw of a manipulated text; a row for `accuracies`.

    It has learned plain text in scenario "test", manipulated text in "all". `correct` says, by
    split, whether it is right about the test documents. The `draw` is None where every split has
    draws of its own, so that these are part of what splits do.
    """
    tested = [text.splits[split][1] for split in correct]
    return {
        **{"corpus": text.name, **setting.columns(), "scenario": scenario, "draw": draw},
        "correct": np.concatenate([*correct.values()]),
        "split": np.repeat([*correct], [len(each) for each in tested]),
        "unit": text.cluster[np.concatenate(tested)],
        "unchanged": text.unchanged(seen),
    }


def accuracies(row_lists: Iterable[Iterable[Row]]) -> pd.DataFrame:
    """Accuracy over all draws and splits: a row per corpus, setting and scenario.

    Columns: corpus, label, kind, window, sigma, eta, scenario, the estimate of the accuracy (95% by
    cluster, with the error of splits and of draws of random maps), and, where draws are numbered,
    unchanged (share of pieces that stay, with the error of draws too; with unchanged_low, _high,
    _influence).
    """
    draws = pd.DataFrame([row for rows in row_lists for row in rows])
    keys, bounds = ["corpus", *Setting("plain").columns(), "scenario"], (0.0, 1.0)
    rows = []
    for key, several in draws.groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True))
        # Over documents, splits and draws; all settings share their splits, none its draws.
        every = several[["correct", "unit", "split", "draw"]].explode(["correct", "unit", "split"])
        right, unit = every["correct"].astype(float), every["unit"].astype(np.int64)
        accuracy = stats.clustered_share(right, unit, sample=row["corpus"])
        own = f"draw of {row['label']}"
        for level, what in (("split", "split"), ("draw", own)):
            means = right.groupby(every[level]).mean()  # of no draw where none is numbered
            labels = stats.draw_labels(what, means.index)
            accuracy = stats.over_draws(accuracy, means, labels, bounds=bounds)
        row |= accuracy.columns()
        if several["draw"].notna().all():  # which pieces a map exchanges: how many of them stay
            shares = [*several["unchanged"]]
            kept = stats.combined([1 / len(shares)] * len(shares), shares, bounds=bounds)
            labels = stats.draw_labels(own, several["draw"])
            kept = stats.over_draws(kept, [one.value for one in shares], labels, bounds=bounds)
            row |= {"unchanged": kept.value, "unchanged_low": kept.low}
            row |= {"unchanged_high": kept.high, "unchanged_influence": kept.influence}
        rows.append(row)
    return pd.DataFrame(rows)


def unchanged(accuracy: pd.DataFrame) -> pd.DataFrame:
    """The shares of unchanged pieces in a table of `accuracies`, to be recorded."""
    rows = accuracy[accuracy["scenario"] == "test"]
    kept = rows.filter(like="unchanged").set_axis(["value", "low", "high", "influence"], axis=1)
    return rows[["corpus", "label"]].join(kept)


# --- Attacks --------------------------------------------------------------------------------------


def oracle_success(
    text: Text, truth: Corpus, mapper: LossyMap, remaining: Sequence[oracle.Found], draw: int = 0
) -> list[Row]:
    """What the search has found of documents, `truth`, under one draw; rows for `oracle_rates`."""
    right, document = oracle.token_success(remaining, truth, mapper)
    ranks = oracle.ranks(remaining, truth)
    measures = {
        "mrr": (1 / ranks, text.cluster),
        "pr5": (ranks <= 5, text.cluster),
        "edit": (oracle.edit_distances(remaining, truth), text.cluster),
        "token_success": (right, text.cluster[document]),
    }
    about = {"corpus": text.name, "kind": mapper.name, "draw": draw}
    search = {
        "texts": len(remaining),
        "tokens": len(truth.ids),
        "longest": int(np.diff(truth.offsets).max()),
        "capped": sum(each.capped > 0 for each in remaining),
        "kept": min(each.kept for each in remaining),
    }
    return [
        {**about, "measure": measure, "found": values.astype(float), "unit": unit, **search}
        for measure, (values, unit) in measures.items()
    ]


def oracle_rates(rows: Sequence[Row]) -> pd.DataFrame:
    """What the oracle has found, over all draws of a map: a row per corpus, map and measure.

    Columns: corpus, kind, measure (mrr, pr5, edit, token_success), the estimate (95% by cluster,
    with the error of draws), texts, tokens (mean length), capped (texts that met the cap), kept
    (the smallest mass that a step kept).
    """
    rates = []
    parts = pd.DataFrame(rows).groupby(["corpus", "kind", "measure"], sort=False)
    for (corpus, kind, measure), several in parts:
        most = float(several["longest"].max()) if measure == "edit" else 1.0
        trials = measure in ("pr5", "token_success")
        rate = _over_maps(several, corpus, kind, most=most, are_trials=trials)
        about = {"corpus": corpus, "kind": kind, "measure": measure, **rate.columns()}
        search = {**several[["texts", "tokens", "capped"]].sum(), "kept": several["kept"].min()}
        rates.append({**about, **search, "tokens": search["tokens"] / search["texts"]})
    return pd.DataFrame(rates)


def success(
    text: Text, setting: Setting, attack: str, guesses: Guesses, observed: Observed, draw: int = 0
) -> list[Row]:
    """Which tokens an attack gets back under one draw; rows for `success_rates`."""
    truth, unit = text.pieces.ids[observed.targets], text.unit[observed.targets]
    about = {"corpus": text.name, **setting.columns(), "attack": attack, "draw": draw}
    return [
        {**about, "top": top, "found": right, "unit": unit}
        for top, right in hits(attack, guesses, observed, truth).items()
    ]


def success_rates(row_lists: Iterable[Iterable[Row]], corpora: Sequence[str]) -> pd.DataFrame:
    """Share of tokens that attacks get back, a corpus after the other.

    A row for each setting, attack and number of guesses that count (`top`), with the estimate over
    all draws (95% by cluster, with the error of draws of random maps).
    """
    draws = pd.DataFrame([row for rows in row_lists for row in rows])
    keys = ["corpus", *Setting("plain").columns(), "attack", "top"]
    rows = []
    for key, several in draws.groupby(keys, sort=False):
        about = dict(zip(keys, key, strict=True))
        rate = _over_maps(several, about["corpus"], about["label"], are_trials=True)
        rows.append({**about, **rate.columns()})
    return pd.DataFrame(sorted(rows, key=lambda row: corpora.index(row["corpus"])))


def blind(
    texts: Mapping[str, Text], vocabularies: Mapping[str, Vocabulary], attacked: Mapping[str, int]
) -> pd.DataFrame:
    """Share of tokens named by who names the most frequent pieces of public text everywhere.

    Of the first `attacked` documents of each corpus, which the attacks answer for too. Columns:
    corpus, top (how many pieces), value, low, high (95% by cluster), n.
    """
    rows = []
    for corpus, text in texts.items():
        known, text = vocabularies[text.encoder], text.first(attacked[corpus])
        counts = known.counts.copy()
        counts[known.fixed] = 0
        asked = ~np.isin(text.pieces.ids, known.fixed)
        for top in (1, 5):
            named = np.isin(text.pieces.ids[asked], np.argsort(-counts)[:top])
            rate = stats.clustered_share(named, text.unit[asked])
            rows.append({"corpus": corpus, "top": top, **rate.columns()})
    return pd.DataFrame(rows)


def in_sight(
    texts: Mapping[str, Text],
    vocabularies: Mapping[str, Vocabulary],
    sizes: Sizes,
    make: Callable[[Setting, Vocabulary, Any], Stencil],
) -> pd.DataFrame:
    """How much of a text stands among a stencil's outputs, in whatever place.

    Of the documents that are attacked, with the stencils of the paper's tables, as `make` makes
    them. Columns: corpus, label, what, value, low, high (95% by cluster), n. `what`: "tokens" and
    "content" (words and pieces but stop words) that stand there, each as often as it does; "other":
    "content" that stands among the outputs of another document; "own": outputs that are tokens of
    their document.
    """
    rows = []
    stencils = [setting for setting in crossing(sizes) if setting.kind in STENCILS]
    for corpus, text in texts.items():
        known, text = vocabularies[text.encoder], text.first(sizes.attacked[corpus])
        asked = ~np.isin(text.pieces.ids, known.fixed)
        content = asked & is_content(known.tokenizer)[text.pieces.ids]
        for setting in stencils:
            seen = make(setting, known, None).sanitize_corpus(text.pieces)
            shifted = seen.subset(np.roll(np.arange(len(seen)), 1))
            measured = {
                "tokens": (there(text.pieces, seen), asked),
                "content": (there(text.pieces, seen), content),
                "other": (there(text.pieces, shifted), content),
                "own": (there(seen, text.pieces, once=True), asked),
            }
            for what, (matches, counted) in measured.items():
                rate = stats.clustered_share(matches[counted], text.unit[counted])
                rows.append({"corpus": corpus, "label": setting.label, "what": what})
                rows[-1] |= rate.columns()
    return pd.DataFrame(rows)


def is_content(tokenizer: FastTokenizer) -> BoolArray:
    """(vocabulary,) which pieces are of letters, and no stop word."""
    names = tokenizer.batch_decode([[piece] for piece in range(len(tokenizer))])
    plain = [name.strip().removeprefix("##").lower() for name in names]
    return np.array([name.isalpha() and name not in ENGLISH_STOP_WORDS for name in plain])


def there(tokens: Corpus, among: Corpus, *, once: bool = False) -> BoolArray:
    """(tokens,) which stand in the same document of another corpus too, in whatever place.

    Of a token that a document has several times, as many as stand there; with `once` all of them.
    """

    def named(corpus: Corpus) -> pd.DataFrame:
        frame = pd.DataFrame({"document": corpus.document, "token": corpus.ids})
        number = frame.groupby(["document", "token"]).cumcount()
        return frame.assign(number=0 if once else number)

    merged = named(tokens).merge(named(among).drop_duplicates(), how="left", indicator=True)
    return (merged["_merge"] == "both").to_numpy()


def _over_maps(
    draws: pd.DataFrame, corpus: str, label: str, *, most: float = 1.0, are_trials: bool
) -> stats.Estimate:
    """Mean of what was found under all draws of a map, which all attacks on it share."""
    values, unit = (np.concatenate([*draws[column]]) for column in ("found", "unit"))
    bounds = (0.0, most)
    rate = stats.clustered_mean(values, unit, bounds=bounds, sample=corpus, are_trials=are_trials)
    labels = stats.draw_labels(f"attacked {label}", draws["draw"])
    return stats.over_draws(rate, [each.mean() for each in draws["found"]], labels, bounds=bounds)


# --- What is left of the language, and all of it together ---------------------------------------


def language(
    generator: Generator, tokenizer: FastTokenizer, private: Corpus, seen: Corpus
) -> dict[str, float]:
    """What is left of the language of a text: columns of one row.

    `bits` per character under the causal model; `speech`, the share of whole words that keep their
    part of speech, with low, high, n; `chance`, what two unrelated words of both texts would give.
    """
    bits = grammar.readability(generator, [each for each in pieces.decode(tokenizer, seen) if each])
    names = np.array(pieces.as_wordpieces(tokenizer), dtype=object)
    before, after = names[private.ids], names[seen.ids]
    whole = grammar.whole_words(before, after, offsets=private.offsets)
    rate = stats.clustered_share(grammar.kept(before[whole], after[whole]), private.document[whole])
    chance = grammar.chance(*(grammar.tag_shares(words[whole]) for words in (before, after)))
    kept = rate.columns()
    return {"bits": bits, "speech": kept.pop("value"), **kept, "chance": chance}


def lengths(texts: Iterable[Text]) -> pd.DataFrame:
    """What the number of pieces alone says: corpus, texts, bits, of, identified."""
    counts = [(text.name, np.diff(text.pieces.offsets)[: len(text.labels)]) for text in texts]
    return pd.DataFrame(
        {"corpus": name, "texts": len(count), "bits": grammar.length_bits(count),
         "of": float(np.log2(len(count))), "identified": grammar.identified(count)}
        for name, count in counts
    )  # fmt: skip


def exposed(accuracy: pd.DataFrame, attacked: pd.DataFrame) -> pd.DataFrame:
    """What a text is worth beside what an attacker gets back of it.

    Columns: corpus, label, accuracy (scenario "all"), paper (what the paper's attacker gets: the
    tokens among five guesses; of lossy maps, and of plain text, the share unchanged), strongest
    (what the best attack here gets among five guesses, of lossy maps at the first), attack (it).
    """
    keys = ["corpus", "label"]
    counts = attacked["top"] == np.where(attacked["kind"].isin(MAPS), 1, 5)
    counts &= ~attacked["attack"].isin(["anywhere", "naive_skip_elsewhere"])  # they say not where
    tried = attacked[counts].sort_values("value", ascending=False, kind="stable")
    best = tried.drop_duplicates(keys).rename(columns={"value": "strongest"})
    paper = tried[(tried["attack"] == "naive_skip") & (tried["kind"] != "plain")]
    paper = paper.rename(columns={"value": "paper"})
    table = accuracy[accuracy["scenario"] == "all"].rename(columns={"value": "accuracy"})
    table = table.merge(paper[[*keys, "paper"]], "left", on=keys)
    table = table.merge(best[[*keys, "strongest", "attack"]], "left", on=keys)
    table["paper"] = table["paper"].fillna(table["unchanged"])
    return table[[*keys, "accuracy", "paper", "strongest", "attack"]]
