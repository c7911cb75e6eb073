"""Word-level mechanisms: each replaces every word of a text by a random word.

    mechanism = Madlib(embedding, epsilon=10)
    mechanism.sanitize(["the rock is destined to be the new conan"])
    mechanism.claim                      what is guaranteed, and what is not

Noise then nearest word: `Madlib`, `Mahalanobis`, `RankRepair`. With an explicit
P(output | input), which makes them channels: `SanText`, `SanTextPlus`, `CusText`,
`CusTextPlus`, `TEM`. Mechanisms for sentences and documents, and those that claim nothing, are in
`sentences`, `prompt`, `maps` and `stencil`.
"""

from textpriv.mechanisms.base import Claim, Mechanism
from textpriv.mechanisms.finite import (
    TEM,
    CusText,
    CusTextPlus,
    FiniteMechanism,
    SanText,
    SanTextPlus,
    least_frequent,
)
from textpriv.mechanisms.noise import Madlib, Mahalanobis, RankRepair

__all__ = [
    "TEM",
    "Claim",
    "CusText",
    "CusTextPlus",
    "FiniteMechanism",
    "Madlib",
    "Mahalanobis",
    "Mechanism",
    "RankRepair",
    "SanText",
    "SanTextPlus",
    "least_frequent",
]
