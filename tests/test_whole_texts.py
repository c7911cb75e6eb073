"""Notebook 08: secrets and redactions by hand, what counts as found, and what is named."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from textpriv.attacks.game import GameOutcome
from textpriv.data.embeddings import from_arrays
from textpriv.experiments import whole_texts as experiment
from textpriv.mechanisms import SanText
from textpriv.mechanisms.allotted import Allotted
from textpriv.mechanisms.registry import WORD_LEVEL, examples
from textpriv.privacy.exact import losses
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
    names = [frozenset({"ann", "eve"}), frozenset({"bob"})]
    made = {"vector": {"blind": ["", ""], "beam": guesses}}
    table = experiment.read_off(made, texts, names, "blind", np.random.default_rng(0))
    words, people = table[table["attack"] == "beam"].itertuples()
    assert (words.what, people.what) == ("content words", "names")
    assert (words.value, words.n, words.share) == (pytest.approx(2 / 5), 5, "40%")
    assert (people.value, people.n) == (pytest.approx(1 / 3), 3)
    assert (table["p"] == 1).all()  # two sentences show nothing
    title = experiment.read_from_vectors(table, "blind", "vector")
    assert title.endswith(
        "vector: 40% (not significant) and 33% (not significant);\nblind: 0% and 0%"
    )
    title = experiment.read_from_vectors(table.assign(p=0.01), "blind", "vector")
    assert title.startswith(
        "The best attack reads 40% of a vector's content words, 33% of its names"
    )
    assert title.endswith("vector: 40% and 33%;\nblind: 0% and 0%")


def test_what_is_found_is_tested_against_the_same_guesses_elsewhere() -> None:
    """Twelve sentences in turn of two words, each found: 2 / 2^12, times two tests.

    A name that is guessed of every sentence is found as often in the next.
    """
    texts, names = ["dull", "grand"] * 6, [frozenset({"ann"})] * 12
    made = {"vector": {"blind": ["ann"] * 12, "beam": ["dull ann", "grand ann"] * 6}}
    table = experiment.read_off(made, texts, names, "blind", np.random.default_rng(0))
    p = table.set_index(["attack", "what"])["p"]
    assert p["beam", "content words"] == pytest.approx(2 * 2 / 2**12)
    assert p["beam", "names"] == p["blind", "names"] == 1.0


def test_links_by_attack_and_what_is_known_of_the_strongest() -> None:
    right, wrong = np.eye(3), np.eye(3)[[1, 2, 0]]
    laws = {"b": 9 * right, "a": np.zeros((3, 3))}
    links = experiment.linkage_table({"b": {"words": wrong}, "a": {"words": wrong}}, laws)
    assert links["attack"].tolist() == ["words", "likelihood", "matched"] * 2
    links.loc[5, "value"] = 1.0  # who sees all outputs is another attacker
    table = experiment.by_attack(links)
    assert table.index.tolist() == ["b", "a"]
    told = ["words", "likelihood", "mean_rank", "candidates"]
    assert table.loc["b", told].tolist() == [0.0, 1.0, 1.0, 3]
    assert table.loc["a", "likelihood"] == pytest.approx(1 / 3)
    assert table.loc["a", ["mean_rank", "matched"]].tolist() == [2.0, 1.0]
    alone = experiment.by_attack(experiment.linkage_table({"a": {"words": wrong}}, {}))
    assert alone.loc["a", ["words", "mean_rank"]].tolist() == [0.0, 2.5]


def test_laws_of_mechanisms_on_words() -> None:
    """Known where there is a channel, estimated for noise on vectors, else none."""
    rng, kinds = np.random.default_rng(0), defaultdict[str, set[str]](set)
    for name, mechanism in examples().items():
        channel = experiment.channel_of(mechanism, rng)
        kinds[type(channel).__name__].add(name)
        if channel is not None:
            rows = np.exp(channel.log_rows(np.arange(mechanism.size)))
            np.testing.assert_allclose(rows.sum(1), 1)
    assert kinds["NoneType"] == {"polar"}
    assert kinds["NoiseChannel"] == {"madlib", "mahalanobis", "rank-repair", "vickrey"}


def test_the_strongest_game_is_told_beside_its_own_claim() -> None:
    """One that shows less but refutes its pair's claim comes first: not the least of all claims."""
    weak, strong = (GameOutcome(shown, share(5, 10)) for shown in (0.9, 2.0))
    games, claimed = [weak, strong, weak, weak, strong, weak], [9.0, 8.0, 7.0, 0.5, 8.0, np.inf]
    table = experiment.game_table(
        {"mechanism": name, "claimed": claim, **experiment.told(game)}
        for name, claim, game in zip("aaabbc", claimed, games, strict=True)
    )
    assert table["mechanism"].tolist() == ["a", "b", "c"]
    assert table["shown"].tolist() == [2.0, 0.9, 0.9] and (table["right"] == 0.5).all()
    assert table["claimed"].fillna(0).tolist() == [8.0, 0.5, 0]
    assert table["refuted"].tolist() == [False, True, False]


def test_pairs_that_differ_in_one_word() -> None:
    texts = ["Ann saw Bob", "Ann saw Bob", "Ann, Ann", "Ann saw", "Ann saw"]
    others = ["Eve saw Bob", "Eve saw Dan", "Eve, Eve", "Ann saw", "Eve saw it"]
    assert experiment.one_word_apart(texts, others) == [0]


def test_the_nearest_word_is_another_one() -> None:
    table = from_arrays("made up", list("abcd"), np.array([[0.0], [1.0], [3.0], [3.5]]))
    every = np.arange(4)
    assert experiment.nearest_among(table, every, every).tolist() == [1, 0, 3, 2]
    assert experiment.nearest_among(table, np.array([0, 1]), np.array([2, 3])).tolist() == [2, 2]


def test_names_are_compared_with_names_of_their_own_group() -> None:
    """Names at 0, 1, 2 and 3, in two groups by turns: the nearest of all is of the other group."""
    points = np.array([[0.0], [1.0], [2.0], [3.0], [9.0], [20.0]])
    table = from_arrays("made up", list("abcdef"), points)
    allotted = Allotted(SanText(table, epsilon=2.0), [0, 1, 0, 1, 2, 2], [0.5, 0.25, 1.0])
    listed = np.arange(4)
    between = experiment.between_groups(allotted, listed)
    pairs = np.array([0, 1]), np.array([2, 3])
    expected = (losses(allotted, *pairs) / [2.0, 1.0]).max()  # epsilon of the group times 2
    assert between.inside == pytest.approx(expected) and 0 < between.inside <= 1
    assert (between.secret, between.stranger, between.share) == ("d", "e", 0.25)


def test_mechanisms_on_words_are_made_alike() -> None:
    rng = np.random.default_rng(0)
    table = from_arrays("made up", [f"word{n:c}" for n in range(97, 123)] + [
        f"other{n:c}" for n in range(97, 123)], rng.standard_normal((52, 3)))  # fmt: skip
    texts = [" ".join(rng.choice(table.words, 10)) for _ in range(60)]
    made = experiment.half_kept(table, texts, rng)
    assert len(made) == len(WORD_LEVEL)
    ids = rng.integers(52, size=4000)
    for name, mechanism in made.items():
        changed = (mechanism.sanitize_ids(ids, rng) != ids).mean()
        assert 0.35 < changed < 0.65, name


def test_the_likeliest_names_and_other_words_are_named() -> None:
    """A name is never named among the others, however likely."""
    words = ["film", "ann", "bob", "eve", "dull", "old", "plot", "sad", "odd"]
    scores = np.array([[0.0, 9, 8, 7, 1, 2, 3, 4, 5], np.arange(9)])
    named = experiment.named(words, scores, {"ann", "bob", "eve"})
    assert named == ["ann bob odd sad plot old dull", "eve bob odd sad plot old dull"]
    assert experiment.named(["film", "ann"], np.zeros((1, 2)), {"ann"}) == ["ann film"]
    assert experiment.content_words("The old film, Bob's film.") == {"old", "film", "bob"}


def test_no_more_is_found_than_is_known_and_named() -> None:
    """Of six learned words five are named; of three names two, and one is not learned."""
    goal = ["Ann Bob Eve: sad, odd, old, dull, grand long plot"]
    people = frozenset({"ann", "bob", "eve"})

    def told(words: str) -> str:
        public = [frozenset(words.split())] * 5 + [frozenset({"plot"})] * 4
        return experiment.ceiling(goal, [people], public, people)

    learned = "ann bob sad odd old dull grand long"
    assert told(learned).startswith("Two names and five other words, out of 8 that at least 5")
    assert "70% of the content words and 67% of the names" in told(learned)
    assert "70% of the content words and 67% of the names" in told(learned + " eve")
    assert "10% of the content words and 33% of the names" in told("ann")


def test_a_lower_bound_is_not_rounded_up() -> None:
    bounds = (2.1502, 0.0451, 0.3, 10.99, 3.0)
    rounded = ["2.1", "0.045", "0.30", "10", "3.0"]
    assert [experiment.rounded_down(each) for each in bounds] == rounded


def test_figures_show_what_they_are_given() -> None:
    games = pd.DataFrame(
        {"mechanism": ["a", "b"], "pair": "name", "shown": [0.0, 2.0], "claimed": [np.nan, 9.0]}
    ).assign(exact=[1.5, np.nan], refuted=False)
    fig = experiment.claims_and_games(games, 3.0, 50)
    assert "1 of 2 tools" in fig.get_suptitle() and "1 claims lie beyond" in fig.get_suptitle()
    refuted = experiment.claims_and_games(games.assign(refuted=[False, True]), 3.0, 50)
    assert "refuted: b" in refuted.get_suptitle()
    assert sorted(bar.get_width() for bar in fig.axes[0].patches) == [0.0, 2.0]
    said = [text.get_text() for text in fig.axes[0].texts]
    assert {"no epsilon shown", "at least 2.0", "no pure epsilon claimed"} <= set(said)
    rows = [("x", "one", "names", 0.1), ("y", "one", "names", 0.4), ("x", "two", "names", 0.2),
            ("x", "blind", "names", 0.05), ("y", "blind", "names", 0.05)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["release", "attack", "what", "value"])
    table = table.assign(low=table["value"] - 0.05, high=table["value"] + 0.05, n=9)
    ax = experiment.inversions(table, "blind", "title").axes[0]
    widths = [bar.get_width() for bar in ax.patches]
    assert sorted(width for width in widths if np.isfinite(width)) == pytest.approx([0.1, 0.2, 0.4])
    assert any(np.allclose(line.get_xdata(), 0.05) for line in ax.lines)
