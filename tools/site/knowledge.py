"""What the attackers of the figures know, for the page on which readers choose it."""

from __future__ import annotations

from collections.abc import Mapping

FACTS: Mapping[str, str] = {
    "channel": "how the mechanism chooses: its probabilities",
    "shadow": "similar texts, and what the mechanism makes of them",
    "public": "public texts of the same domain",
    "network": "a pretrained language model",
    "private": "how often words occur in the private texts (a bound)",
    "answers": "the attacked sentences themselves, to train on (the paper's bound)",
}
"""What an attacker may know beside the embedding and the output, in the words of the page."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "as-sent": (),
    "embedding-inversion": (),
    "prior-only": ("shadow",),
    "inversion-bert-token": ("shadow",),
    "context-free-bayes": ("channel", "shadow"),
    "context-free-public": ("channel", "shadow", "public"),
    "context-free-bound": ("channel", "private"),
    "noisy-channel-shadow": ("channel", "shadow"),
    "noisy-channel": ("channel", "shadow", "public"),
    "noisy-channel-lm": ("channel", "shadow", "public", "network"),
    "mask-inference": ("network",),
    "mask-inference-support": ("channel", "network"),
    "mask-bayes": ("channel", "network"),
    "inversion-bert": ("channel", "shadow", "network"),
    "inversion-bert-free": ("shadow", "network"),
    "contextual-bayes": ("channel", "shadow", "network"),
    "contextual-bayes-public": ("channel", "shadow", "public", "network"),
    "contextual-bound": ("channel", "network", "private"),
    "contextual-bound-seen": ("channel", "network", "private", "answers"),
}
"""What each attack of notebook 05 knows, as its tables say; an attack not listed needs all."""


ASIDE: Mapping[str, str] = {
    "anywhere": "counts a token that is found at any position",
    "naive-skip-elsewhere": "what chance gives",
}
"""Of notebook 03, what is measured beside the attacks and answers another question."""
