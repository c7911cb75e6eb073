"""What attackers of a known mechanism use beside texts: the number of words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_evaluation import TEXTS, VOCABULARY, WORDS, evaluated, vocabulary

import textpriv
from textpriv.data.tokens import Tokenizer
from textpriv.evaluation import evaluate as evaluation
from textpriv.evaluation import risks
from textpriv.evaluation.risks import Linker

__all__ = ["vocabulary"]  # the small one, for every test here

TOKENIZER = Tokenizer(VOCABULARY.words)


def test_candidates_of_another_length_come_last() -> None:
    """The wrong version takes the best of all: a text that no such output can come from."""
    candidates = [" ".join(WORDS[:count]) for count in (2, 3, 3)]
    fits = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]])
    linker = Linker("any", "the candidates", lambda known, seen: fits)
    masked = risks.of_equal_length(linker, TOKENIZER)
    scores = masked.scores(candidates, ["a b c", "a b c d"])
    assert fits[0].argmax() == 0 and scores[0].argsort().tolist() == [0, 1, 2]
    assert scores[1].argsort().tolist() == [0, 2, 1]  # no candidate is that long: as before
    assert masked.knows == "the candidates, the number of words"


def test_the_number_of_words_is_used_where_the_output_shows_it() -> None:
    varied = [" ".join(text.split()[: 3 + number % 10]) for number, text in enumerate(TEXTS)]

    def linked(mechanism: object = "santext", **options: Any) -> tuple[set[str], float]:
        settings = {"epsilon": 1.0, "public": None, "seed": 1, "attacks": ["bm25"]} | options
        found = textpriv.evaluate(varied, mechanism=mechanism, **settings)
        return set(found.risks["knows"]), float(found.risks["value"].max())

    knows, shown = linked()
    assert knows == {"the candidates, the number of words"}
    for others in (
        linked(policy="keep-unknown"),
        linked(mechanism=textpriv.sanitizer("santext", epsilon=1.0).sanitize, epsilon=None),
        linked(sanitized=[*varied[:-1], f"{varied[-1]} more"], epsilon=9.0),
    ):
        assert others[0] == {"the candidates"}
    hidden = textpriv.sanitizer("santext", epsilon=1.0).sanitize(varied, np.random.default_rng(1))
    blind = textpriv.evaluate(varied, hidden, attacks=["bm25"], seed=1)
    assert shown > 1.5 * blind.risks["value"].max()


def test_an_attack_of_ones_own_sees_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LINKERS", dict(evaluation.LINKERS))
    monkeypatch.setattr(evaluation, "_REGISTERED", set())
    textpriv.register_attack("alike", lambda known, seen: np.zeros((len(seen), len(known))))
    assert evaluated(attacks=["alike"]).risks["knows"].tolist() == ["the candidates"]
