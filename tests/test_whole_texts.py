"""Notebook 08: secrets and redactions by hand, what counts as found, and the other encoder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from textpriv.attacks.game import Played
from textpriv.data.embeddings import from_arrays
from textpriv.experiments import whole_texts as experiment
from textpriv.stats import share

NAMES = ["ann", "bob", "will"]


def test_names_are_capitalised_words_of_the_list() -> None:
    text = "Ann will see Bob's film, said O'Ann and will"
    assert experiment.names_in(text, NAMES) == {"ann", "bob"}
    assert experiment.names_in("nobody", NAMES) == frozenset()


def test_names_are_replaced_wherever_they_have_a_capital() -> None:
    swap = {"ann": "Eve", "will": "_"}
    assert experiment.replaced("Ann will, Will and Ann.", swap) == "Eve will, _ and Eve."
    assert experiment.replaced("Annabel, Ann's", swap) == "Annabel, Eve's"


def test_content_words_and_names_by_hand() -> None:
    texts, guesses = ["The old film was dull", "Bob saw it"], ["an old OLD play", "bob slept"]
    found = experiment.words_found(texts, guesses)  # old, film, dull; bob, saw
    assert (found.value, found.n) == (pytest.approx(2 / 5), 5)
    names = experiment.names_found([frozenset({"ann", "eve"}), frozenset({"bob"})], guesses)
    assert (names.value, names.n) == (pytest.approx(1 / 3), 3)


def test_the_strongest_game_is_told() -> None:
    weak, strong = (Played(shown, share(5, 10), share(1, 10), share(1, 10)) for shown in (0.1, 2.0))
    assert experiment.strongest([weak, strong, weak])["shown"] == 2.0


def test_the_mean_of_known_words() -> None:
    table = from_arrays("made up", ["a", "b"], np.array([[1.0, 0.0], [0.0, 3.0]]))
    found = experiment.mean_of_words(table, ["A b", "b b zzz", "zzz", ""])
    assert found.tolist() == [[0.5, 1.5], [0.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_figures_show_what_they_are_given() -> None:
    games = pd.DataFrame(
        {"mechanism": ["a", "b"], "pair": "name", "shown": [0.0, 2.0], "claimed": [np.nan, 9.0]}
    )
    bars = experiment.claims_and_games(games, 3.0, "title").axes[0].patches
    assert sorted(bar.get_width() for bar in bars) == [0.0, 2.0]
    rows = [("x", "one", "names", 0.1), ("y", "one", "names", 0.4), ("x", "two", "names", 0.2)]
    found = pd.DataFrame(rows, columns=["release", "attack", "what", "value"])
    found = found.assign(low=found["value"] - 0.05, high=found["value"] + 0.05)
    widths = [bar.get_width() for bar in experiment.inversions(found, "title").axes[0].patches]
    assert sorted(width for width in widths if np.isfinite(width)) == pytest.approx([0.1, 0.2, 0.4])
