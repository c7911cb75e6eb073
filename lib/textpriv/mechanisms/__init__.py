"""Word-level mechanisms: each replaces every word of a text by a random word.

    mechanism = Madlib(embedding, epsilon=10)
    mechanism.sanitize(["the rock is destined to be the new conan"])
    mechanism.claim                      what is guaranteed, and what is not

Noise then nearest word: `Madlib`, `Mahalanobis`, `RankRepair`, and `Vickrey` and `Polar` in modules
of their names. With an explicit P(output | input), which makes them channels: `SanText`,
`SanTextPlus`, `CusText`, `CusTextPlus`, `TEM`, `RandomizedResponse`, and `CluSanT`, `Diffractor`,
`RanText`, `Allotted`.
`registry` lists those with their usual settings.

Words by a language model are drawn in `dp_mlm`, `dp_fusion` and `prompt` (DP-Prompt); `sentences`
hides whole sentences; `maps` and `stencil` claim nothing.
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
