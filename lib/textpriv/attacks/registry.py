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
    color, marker, line : how figures draw it; the colour is one of `report.figures.COLORS`
    attacker : who it is, in a sentence for those who have not read a legend
    """

    label: str
    color: str
    marker: str
    line: str
    attacker: str


ON_WORDS: Mapping[str, Entry] = MappingProxyType(
    {
        "as-sent": Entry("each word as sent", "grey", "v", ":",
            "the word that came out"),
        "embedding-inversion": Entry("embedding inversion", "grey", "o", "-",
            "the word nearest to what came out"),
        "inversion-bert-token": Entry("inversion BERT, the token alone", "sky", "o", ":",
            "the word that most often gave this output in similar texts"),
        "inversion-bert": Entry("inversion BERT, the sentence", "sky", "s", "-",
            "a language model trained to undo the mechanism"),
        "inversion-bert-free": Entry("inversion BERT, all words", "sky", "D", "--",
            "a language model trained to undo the mechanism, free in its words"),
        "mask-inference": Entry("mask inference", "green", "^", "-",
            "a language model that fills in the word"),
        "mask-inference-support": Entry("mask inference, possible words", "green", "v", "--",
            "a language model that fills in one of the words that can give the output"),
        "mask-bayes": Entry("mask inference times channel", "green", "D", "-",
            "Bayes' rule with a language model that fills in the word"),
        "context-free-bayes": Entry("context-free Bayes", "orange", "o", "-",
            "Bayes' rule word by word, with frequencies from similar texts"),
        "context-free-public": Entry("context-free, public text", "orange", "s", ":",
            "Bayes' rule word by word, with frequencies from public texts"),
        "context-free-bound": Entry("context-free bound", "orange", "D", "--",
            "Bayes' rule word by word, knowing the frequencies in the private texts"),
        "contextual-bayes": Entry("contextual Bayes", "blue", "s", "-",
            "Bayes' rule with a network that reads the context"),
        "contextual-bayes-public": Entry("contextual, public text", "blue", "^", ":",
            "Bayes' rule with a network that reads the context, from public texts"),
        "contextual-bound": Entry("contextual K-ASR bound", "blue", "D", "--",
            "the same with the context of the private texts"),
        "contextual-bound-seen": Entry("K-ASR bound, sentences seen", "blue", "v", ":",
            "the same, with a network trained on the private texts"),
        "noisy-channel-shadow": Entry("noisy channel, shadow data", "red", "o", ":",
            "whole sentences against what people write, from similar texts"),
        "noisy-channel": Entry("noisy channel, public text", "red", "P", "-",
            "whole sentences against what people write, from public texts"),
        "noisy-channel-lm": Entry("noisy channel, pretrained model", "purple", "*", "-",
            "whole sentences against a pretrained language model"),
        "prior-only": Entry("prior only", "black", "x", ":",
            "always the most frequent words"),
    }
)  # fmt: skip
"""On what replaces words (notebook 05); no two share colour and marker, here or below."""

ON_TOKENS: Mapping[str, Entry] = MappingProxyType(
    {
        "naive": Entry("nearest tokens", "grey", "o", "-",
            "the output taken for the input"),
        "naive-skip": Entry("nearest tokens, output skipped", "grey", "s", "--",
            "the nearest tokens but the output itself"),
        "naive-skip-elsewhere": Entry("the same guesses for another place", "black", ".", ":",
            "the nearest tokens of another output: what chance gives"),
        "anywhere": Entry("nearest tokens, any position", "sky", "^", ":",
            "the nearest tokens of all outputs in the window"),
        "in-sight": Entry("the outputs as they are, in any place", "sky", "v", "-",
            "the outputs, taken for tokens of the text"),
        "deconvolution-raw": Entry("deconvolution, no ridge", "green", "v", ":",
            "the linear map solved without regularisation"),
        "deconvolution": Entry("deconvolution, ridge", "orange", "o", "-",
            "the linear map solved"),
        "deconvolution-lm": Entry("deconvolution, language model", "red", "P", "-",
            "the linear map solved, with what people write"),
        "stencil-simulation": Entry("simulated stencil, language model", "purple", "*", "-",
            "the stencil tried out on what people write"),
        "context-free": Entry("context-free, public text", "orange", "s", ":",
            "the likeliest word of those that give the output"),
        "oracle-beam": Entry("oracle beam, causal model", "blue", "D", "-",
            "whole texts against a causal language model"),
    }
)  # fmt: skip
"""On lossy maps, stencils and noise over tokens (notebook 03)."""
