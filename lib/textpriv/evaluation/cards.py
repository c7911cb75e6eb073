"""Cards: what one mechanism at one setting came to, on texts that are the same for all.

    card = make_card(sanitizer("custext+", epsilon=2))
    table(read_cards("cards"))             # a row for each, ours and those that were sent in
    differences(card, make_card(...))      # made again: what lies outside the joint error

A card is a JSON file without texts. Two cards can be compared because both are of COUNT sentences
of the corpus CORPUS, drawn by the same seed, attacked by every attack that applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from textpriv.errors import InvalidInput
from textpriv.evaluation.evaluate import CARD, evaluate
from textpriv.evaluation.risks import AS_THEY_ARE, strongest
from textpriv.paths import REPOSITORY

CORPUS, COUNT = "rotten-tomatoes", 1000
FOLDER = REPOSITORY / "cards"
KEYS = (
    "format", "mechanism", "label", "setting", "corpus", "texts", "risks",
    "epsilon_lower_bound_per_text", "largest_shown", "utility", "versions",
)  # fmt: skip


def make_card(mechanism: object, *, seed: int = 0) -> dict[str, Any]:
    """The card of a mechanism: a `sanitizer`, or what `evaluate.evaluate` takes for one.

    `seed` decides the draws of the mechanism and not the sentences, so that a card can be made
    again with other draws.
    """
    from textpriv.data import corpora

    documents = corpora.load(CORPUS).sample(COUNT, np.random.default_rng(0))
    evaluation = evaluate(
        list(documents.texts),
        mechanism=mechanism,
        labels=list(documents.columns["label"]),
        seed=seed,
    )
    return evaluation.card() | {"corpus": CORPUS, "seed": seed}


def read_cards(folder: str | Path = FOLDER) -> list[dict[str, Any]]:
    """Every card of a folder, in the order of their files' names; by default this repository's."""
    return [read_card(path) for path in sorted(Path(folder).glob("*.json"))]


def read_card(path: Path) -> dict[str, Any]:
    """The card in a file, or InvalidInput."""
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InvalidInput(f"{path}: expected a card, got: {error}") from error
    if not isinstance(card, dict) or card.get("format") != CARD:
        raise InvalidInput(f"{path}: expected format {CARD!r}; make it with `textpriv card`")
    if missing := [key for key in KEYS if key not in card]:
        raise InvalidInput(f"{path}: lacks {missing}; make it anew with `textpriv card`")
    if card["corpus"] != CORPUS or card["texts"] != COUNT:
        raise InvalidInput(
            f"{path}: is about {card['texts']} texts of {card['corpus']}, expected {COUNT} of "
            f"{CORPUS}"
        )
    return card


def table(cards: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row per card: how much of it is read and linked by the strongest attack, and what is left.

    Columns: mechanism, setting, kept (words sent unchanged; NaN where that is not known), read and
    linked (each with _low, _high, _by and _tried, the number of attacks), epsilon_at_least (per
    text, shown by linkage), largest_shown (what linkage of so many texts could show at all), and
    one for each measure of utility.
    """
    rows = []
    for card in cards:
        row = {"mechanism": card["label"], "setting": card["setting"]}
        kept = [each["value"] for each in card["risks"] if each["attack"] == AS_THEY_ARE]
        row["kept"] = kept[0] if kept else np.nan
        for finds, name in (("words", "read"), ("texts", "linked")):
            row[f"{name}_tried"] = sum(each["finds"] == finds for each in card["risks"])
            best = strongest(pd.DataFrame(card["risks"]), finds)
            if best is not None:
                row |= {name: best["value"], f"{name}_by": best["attack"]}
                row |= {f"{name}_{end}": best[end] for end in ("low", "high")}
        row["epsilon_at_least"] = card["epsilon_lower_bound_per_text"]
        row["largest_shown"] = card["largest_shown"]
        row |= {each["measure"]: each["value"] for each in card["utility"]}
        rows.append(row)
    return pd.DataFrame(rows)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> pd.DataFrame:
    """What two cards of one mechanism and setting say differently: rows beyond the joint error.

    Joint error: the half width of the second card, which one has made, times the root of two; the
    first card's own intervals are not trusted. Both are of the same sentences, so that at most one
    row in twenty of those that agree stands here by chance. Empty where all agree.
    """
    if (first["mechanism"], first["setting"]) != (second["mechanism"], second["setting"]):
        raise InvalidInput(
            f"cards: got {first['mechanism']} ({first['setting']}) and {second['mechanism']} "
            f"({second['setting']}), expected one mechanism and setting"
        )
    one, two = (
        pd.concat(
            [
                pd.DataFrame(card["risks"]).rename(columns={"attack": "measure"}),
                pd.DataFrame(card["utility"]),
            ]
        ).set_index("measure")[["value", "low", "high"]]
        for card in (first, second)
    )
    both = one.join(two.add_suffix("_again"), how="outer")
    joint = (both["high_again"] - both["low_again"]) / 2 * np.sqrt(2)
    apart = (both["value"] - both["value_again"]).abs()
    return both[~(apart <= joint)]
