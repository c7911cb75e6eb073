"""The word-level mechanisms with their usual settings and their looks, one entry for each.

    WORD_LEVEL["vickrey"].make(embedding, ExactSearch(embedding.vectors))

Notebook 01, the guarantees in docs/PRIVACY.md, the styles of figures, the audits, the mutants, the
statements and the tests of claims read this table: a mechanism that is entered here appears in all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.mechanisms.base import Mechanism
from textpriv.mechanisms.clusant import CluSanT
from textpriv.mechanisms.diffractor import Diffractor
from textpriv.mechanisms.finite import (
    TEM,
    CusText,
    CusTextPlus,
    SanText,
    SanTextPlus,
    least_frequent,
)
from textpriv.mechanisms.noise import Madlib, Mahalanobis, RankRepair
from textpriv.mechanisms.polar import Polar
from textpriv.mechanisms.rantext import RanText
from textpriv.mechanisms.response import RandomizedResponse
from textpriv.mechanisms.vickrey import Vickrey
from textpriv.neighbors import ExactSearch, Search


class Entry(NamedTuple):
    """One mechanism.

    Attributes
    ----------
    make : builds it over an embedding and a search over the embedding's vectors, at a nominal
        epsilon (`with_epsilon` gives the others)
    label, color, marker, line : how figures show it; the colour is one of `report.figures.COLORS`,
        the line that of its family
    """

    make: Callable[[Embedding, Search], Mechanism]
    label: str
    color: str
    marker: str
    line: str


NOISE, FINITE = "-", "--"  # lines of the two families


def _noise(embedding: Embedding, search: Search) -> Madlib:
    return Madlib(embedding, epsilon=10, search=search)


def _santext_plus(embedding: Embedding, search: Search) -> SanTextPlus:
    rarity = np.arange(len(embedding))[::-1]  # counts that decrease along the vocabulary
    return SanTextPlus(embedding, epsilon=3, sensitive=least_frequent(rarity, 0.999))


WORD_LEVEL: Mapping[str, Entry] = MappingProxyType(
    {
        "madlib": Entry(_noise, "MADLIB", "blue", "o", NOISE),
        "mahalanobis": Entry(
            lambda embedding, search: Mahalanobis(embedding, epsilon=10, search=search),
            "Mahalanobis", "sky", "s", NOISE,
        ),
        "rank-repair": Entry(
            lambda embedding, search: RankRepair(_noise(embedding, search), c=0.006),
            "rank repair", "green", "^", NOISE,
        ),
        "santext": Entry(
            lambda embedding, _: SanText(embedding, epsilon=3), "SanText", "orange", "o", FINITE
        ),
        "santext+": Entry(_santext_plus, "SanText+", "orange", "s", FINITE),
        "custext-conservative": Entry(
            lambda embedding, _: CusText(embedding, epsilon=4, mapping="conservative"),
            "conservative CusText", "purple", "s", FINITE,
        ),
        "custext+": Entry(
            lambda embedding, _: CusTextPlus(
                embedding, epsilon=4, stopwords=sorted(ENGLISH_STOP_WORDS)
            ),
            "CusText+", "purple", "^", FINITE,
        ),
        "tem": Entry(lambda embedding, _: TEM(embedding, epsilon=3), "TEM", "red", "D", FINITE),
        "vickrey": Entry(
            lambda embedding, search: Vickrey(_noise(embedding, search), t=0.75),
            "Vickrey", "red", "v", NOISE,
        ),
        "clusant": Entry(
            lambda embedding, _: CluSanT(embedding, epsilon=16), "CluSanT", "green", "P", FINITE
        ),
        "diffractor": Entry(
            lambda embedding, _: Diffractor(embedding, epsilon=1), "1-Diffractor", "sky", "^",
            FINITE,
        ),
        "rantext": Entry(
            lambda embedding, _: RanText(embedding, epsilon=6), "RANTEXT", "blue", "s", FINITE
        ),
        "polar": Entry(
            lambda embedding, _: Polar(embedding, epsilon=400), "STAMP polar", "orange", "D", NOISE
        ),
        "randomized-response": Entry(
            lambda embedding, _: RandomizedResponse.keeping(embedding, 0.5), "randomized response",
            "black", "X", FINITE,
        ),
    }
)  # fmt: skip
"""By name, in the order of tables; add at the end, so that random draws of the others stay."""


def examples(words: int = 40) -> dict[str, Mechanism]:
    """Every mechanism over made-up words: for what does not depend on the vocabulary."""
    vectors = np.random.default_rng(0).standard_normal((words, 3))
    table = from_arrays("made up", [f"word{number}" for number in range(words)], vectors)
    search = ExactSearch(table.vectors)
    return {name: entry.make(table, search) for name, entry in WORD_LEVEL.items()}
