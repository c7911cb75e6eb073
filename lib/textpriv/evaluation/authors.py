"""Who wrote it? The same authors under several mechanisms, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from textpriv.attacks.author import random_baseline
from textpriv.attacks.f1 import f1_estimate
from textpriv.evaluation.risks import guessed_labels
from textpriv.evaluation.sanitizers import sanitizer
from textpriv.evaluation.texts import column_of, texts_of
from textpriv.mechanisms.base import simulation


def identify_authors(
    texts: object,
    authors: Iterable[object],
    mechanisms: Mapping[str, object] | Iterable[object] = (),
    *,
    column: str = "text",
    repeats: int = 3,
    seed: int | None = None,
) -> pd.DataFrame:
    """How well an attacker names the author, in clear and under each mechanism.

    Every text is asked about once in each repeat, by a classifier that has learned from others:
    originals (static) or texts that the same mechanism has sanitized (adaptive). No other label is
    needed.

    Parameters
    ----------
    texts, column : see `texts_of`
    authors : who wrote each; at least three texts of every author
    mechanisms : sanitizers by what they shall be called, or a list of them (see `sanitizer`), with
        an epsilon of their own, for instance `sanitizer("madlib", epsilon=12)`
    repeats : how often texts are sanitized and divided anew; intervals are over texts, each with
        all its repeats
    seed : of all draws; None: fresh entropy

    Returns
    -------
    a row per mechanism and attacker: mechanism, attacker, value (macro F1), low, high, n, chance
    """
    given = texts_of(texts, column=column)
    who = column_of(authors, len(given), what="authors")
    classes = int(who.max()) + 1
    rng = np.random.default_rng(seed)
    chance = random_baseline(who, classes)
    if isinstance(mechanisms, Mapping):
        made = {name: sanitizer(each) for name, each in mechanisms.items()}
    else:
        made = {f"{each.name} ({each.setting})": each for each in map(sanitizer, mechanisms)}
    rows = []
    for name, each in {"in clear": None, **made}.items():
        guesses: dict[str, list[np.ndarray]] = {}
        for _ in range(repeats):
            split = int(rng.integers(2**31))
            with simulation():  # what comes out is attacked, and not released
                after = given if each is None else each.sanitize(given, rng)
            for kind in ("static", "adaptive") if each else ("static",):
                found = guessed_labels(given, after, who, split, adaptive=kind == "adaptive")
                guesses.setdefault(kind, []).append(found)
        document = np.tile(np.arange(len(given)), repeats)
        for kind, several in guesses.items():
            rate = f1_estimate(
                np.tile(who, repeats), np.concatenate(several), classes, rng, document=document
            )
            rows.append({"mechanism": name, "attacker": kind, **rate.columns(), "chance": chance})
    return pd.DataFrame(rows)
