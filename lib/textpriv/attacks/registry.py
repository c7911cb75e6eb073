"""The attacks on words and tokens: what figures and statements call them, one entry for each.

    ON_WORDS["noisy-channel"].label          # "noisy channel, public text"

A result names an attack by its key here (with underscores for hyphens). The styles of figures, the
statements of notebook 07 and their tests read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Entry(NamedTuple):
    """One attack.

    Attributes
    ----------
    label : in legends and tables
    attacker : who it is, in a sentence for those who have not read a legend
    color, marker, line : how figures draw it; the colour is one of `report.figures.COLORS`
    """

    label: str
    attacker: str
    color: str
    marker: str
    line: str


ON_WORDS: Mapping[str, Entry] = MappingProxyType(
    {
        "as-sent": Entry("each word as sent", "the word that came out", "grey", "v", ":"),
        "embedding-inversion": Entry(
            "embedding inversion", "the word nearest to what came out", "grey", "o", "-"
        ),
        "inversion-bert-token": Entry(
            "inversion BERT, the token alone",
            "the word that most often gave this output in similar texts",
            "sky", "o", ":",
        ),
        "inversion-bert": Entry(
            "inversion BERT, the sentence",
            "a language model trained to undo the mechanism",
            "sky", "s", "-",
        ),
        "inversion-bert-free": Entry(
            "inversion BERT, all words",
            "a language model trained to undo the mechanism, free in its words",
            "sky", "D", "--",
        ),
        "mask-inference": Entry(
            "mask inference", "a language model that fills in the word", "green", "^", "-"
        ),
        "mask-inference-support": Entry(
            "mask inference, possible words",
            "a language model that fills in one of the words that can give the output",
            "green", "v", "--",
        ),
        "mask-bayes": Entry(
            "mask inference times channel",
            "Bayes' rule with a language model that fills in the word",
            "green", "D", "-",
        ),
        "context-free-bayes": Entry(
            "context-free Bayes",
            "Bayes' rule word by word, with frequencies from similar texts",
            "orange", "o", "-",
        ),
        "context-free-public": Entry(
            "context-free, public text",
            "Bayes' rule word by word, with frequencies from public texts",
            "orange", "s", ":",
        ),
        "context-free-bound": Entry(
            "context-free bound",
            "Bayes' rule word by word, knowing the frequencies in the private texts",
            "orange", "D", "--",
        ),
        "contextual-bayes": Entry(
            "contextual Bayes",
            "Bayes' rule with a network that reads the context",
            "blue", "s", "-",
        ),
        "contextual-bayes-public": Entry(
            "contextual, public text",
            "Bayes' rule with a network that reads the context, from public texts",
            "blue", "^", ":",
        ),
        "contextual-bound": Entry(
            "contextual K-ASR bound",
            "the same with the context of the private texts",
            "blue", "D", "--",
        ),
        "contextual-bound-seen": Entry(
            "K-ASR bound, sentences seen",
            "the same, with a network trained on the private texts",
            "blue", "v", ":",
        ),
        "noisy-channel-shadow": Entry(
            "noisy channel, shadow data",
            "whole sentences against what people write, from similar texts",
            "red", "o", ":",
        ),
        "noisy-channel": Entry(
            "noisy channel, public text",
            "whole sentences against what people write, from public texts",
            "red", "P", "-",
        ),
        "noisy-channel-lm": Entry(
            "noisy channel, pretrained model",
            "whole sentences against a pretrained language model",
            "purple", "*", "-",
        ),
        "prior-only": Entry("prior only", "always the most frequent words", "black", "x", ":"),
    }
)  # fmt: skip
"""On what replaces words (notebook 05); no two share colour and marker, here or below."""

ON_TOKENS: Mapping[str, Entry] = MappingProxyType(
    {
        "naive": Entry("nearest tokens", "the output taken for the input", "grey", "o", "-"),
        "naive-skip": Entry(
            "nearest tokens, output skipped",
            "the nearest tokens but the output itself",
            "grey", "s", "--",
        ),
        "naive-skip-elsewhere": Entry(
            "the same guesses for another place",
            "the nearest tokens of another output: what chance gives",
            "black", ".", ":",
        ),
        "anywhere": Entry(
            "nearest tokens, any position",
            "the nearest tokens of all outputs in the window",
            "sky", "^", ":",
        ),
        "in-sight": Entry(
            "the outputs as they are, in any place",
            "the outputs, taken for tokens of the text",
            "sky", "v", "-",
        ),
        "deconvolution-raw": Entry(
            "deconvolution, no ridge",
            "the linear map solved without regularisation",
            "green", "v", ":",
        ),
        "deconvolution": Entry("deconvolution, ridge", "the linear map solved", "orange", "o", "-"),
        "deconvolution-lm": Entry(
            "deconvolution, language model",
            "the linear map solved, with what people write",
            "red", "P", "-",
        ),
        "stencil-simulation": Entry(
            "simulated stencil, language model",
            "the stencil tried out on what people write",
            "purple", "*", "-",
        ),
        "context-free": Entry(
            "context-free, public text",
            "the likeliest word of those that give the output",
            "orange", "s", ":",
        ),
        "oracle-beam": Entry(
            "oracle beam, causal model",
            "whole texts against a causal language model",
            "blue", "D", "-",
        ),
    }
)  # fmt: skip
"""On lossy maps, stencils and noise over tokens (notebook 03)."""
