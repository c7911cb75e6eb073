"""Notebook 00's table of one sentence at every epsilon, on words whose distances are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from helpers import embedding

from textpriv.data.tokens import Tokenizer
from textpriv.evaluation import risks
from textpriv.evaluation.reading import CLEAR, Reader
from textpriv.experiments import your_text
from textpriv.mechanisms import SanTextPlus

LINE = np.arange(60.0)[:, None] * [1.0, 0.0]  # word k lies at k: ranks can be counted by hand
WORDS = embedding(LINE)


@pytest.fixture(scope="module")
def reader() -> Reader:
    tokenizer = Tokenizer(WORDS.words)
    read = tokenizer.encode([" ".join(WORDS.words)])
    language = risks.language(len(WORDS), read)
    made: Any = SimpleNamespace(embedding=WORDS, tokenizer=tokenizer, language=language, words=None)
    return cast(Reader, made)


def sent(reader: Reader, *epsilons: float, spared: int = 0) -> pd.DataFrame:
    """Two sentences of three words through SanText, which leaves the first `spared` words alone."""
    sensitive = np.arange(spared, len(WORDS))
    mechanism = SanTextPlus(WORDS, epsilon=1, sensitive=sensitive)
    texts = [" ".join(WORDS.words[:3]), " ".join(WORDS.words[5:8])]
    return your_text.every_epsilon(
        reader,
        texts,
        {"santext+": mechanism},
        {"santext+": epsilons},
        lambda name: np.random.default_rng(len(name)),
    )


def test_a_table_of_no_attack_is_empty() -> None:
    """No word was replaced, so that there is no strongest attack."""
    untouched: Any = SimpleNamespace(epsilon=1.0, strongest=lambda finds: None)
    assert your_text.rows({"santext": untouched}).empty


def test_ranks_are_counted_on_the_line(reader: Reader) -> None:
    table = sent(reader, 0.01, 0.1, 1.0)  # nearly uniform at first
    assert table["original"].tolist() == 3 * [*WORDS.words[:3], *WORDS.words[5:8]]
    assert table["position"].tolist() == 6 * [0, 1, 2]
    at = {word: place for place, word in enumerate(WORDS.words)}
    assert {your_text.NEAR, your_text.FAR} <= set(table["state"])
    for row in table.itertuples():
        x, y = at[row.original], at[row.sanitized]
        nearer = sum(abs(each - x) < abs(y - x) for each in range(len(WORDS)))
        assert row.rank == nearer
        near = your_text.NEAR if nearer <= your_text.NEAREST else your_text.FAR
        assert row.state == (your_text.KEPT_WORD if x == y else near)


def test_posteriors_are_those_of_bayes(reader: Reader) -> None:
    """At a huge epsilon nothing is replaced, and the attacker is sure; at none it is the prior."""
    certain = sent(reader, 50.0)
    assert (certain["state"] == your_text.KEPT_WORD).all() and certain["named"].all()
    assert (certain["guess_1"] == certain["original"]).all()
    assert (certain["posterior_1"] > 0.999).all()
    table = sent(reader, 0.5)
    scores = table[[f"posterior_{place}" for place in range(1, 6)]].to_numpy(float)
    assert (np.diff(scores, axis=1) <= 1e-12).all() and (scores.sum(1) <= 1 + 1e-9).all()
    assert (table["named"] == (table["guess_1"] == table["original"])).all()


def test_words_in_clear_have_no_guess(reader: Reader) -> None:
    table = sent(reader, 0.5, spared=2)
    clear = table[table["state"] == CLEAR]
    assert clear["original"].tolist() == list(WORDS.words[:2]) == clear["sanitized"].tolist()
    assert clear[["named", "guess_1", "posterior_1"]].isna().all(axis=None)
    counts = your_text.named_at(table)
    assert counts["hidden"].tolist() == [4]
    assert counts["named"][0] == table["named"].sum() and counts["kept"][0] <= counts["named"][0]
