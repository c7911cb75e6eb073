"""Names are told from words by how cased text writes them."""

from __future__ import annotations

import pytest

from textpriv.data import names
from textpriv.data.names import Usage, listed_names, person_names, usage
from textpriv.errors import InvalidInput

TEXTS = [
    "We like Kevin and he will, Grace willing, meet Will in Paris.",
    "There Kevin will find grace with Grace Kelly, and Will will not.",
    "From Paris, Kevin O’Brien may go to our Paris of O'Brien in May.",
    "Nobody in Paris says Kevin's young, KEVIN is kevin. Kevin knows.",
]


def test_lists_are_lower_case_single_words() -> None:
    names = listed_names()
    assert {"john", "mary", "smith", "o'brien", "will", "paris"} <= names
    assert all(name == name.lower() and " " not in name and name for name in names)
    assert not names & {"the", "of", "", "first_names", "random_element"}
    assert len(names) > 10_000


def test_usage_counts_inside_sentences() -> None:
    usages = usage(TEXTS, {"kevin", "will", "grace", "paris", "o'brien", "absent", "nobody"})
    # "Kevin knows" begins a sentence, KEVIN is shouted; "'s" is no part of a name.
    assert usages["kevin"] == Usage(5, 4 / 5, 0)
    assert usages["will"] == Usage(5, 2 / 5, 0)
    assert usages["grace"] == Usage(3, 2 / 3, 0)
    assert usages["paris"] == Usage(4, 1.0, 3 / 4)
    assert usages["o'brien"] == Usage(2, 1.0, 0)
    assert not usages.keys() & {"absent", "nobody"}


def test_only_capitals_count_as_placed() -> None:
    assert usage(["to will, to Will, so Will"], {"will"})["will"] == Usage(3, 2 / 3, 1 / 2)


def test_names_by_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    for fewest, capital, placed, expected in (
        (2, 0.7, 0.5, {"kevin", "o'brien"}),
        (3, 0.7, 0.5, {"kevin"}),
        (2, 0.7, 0.75, {"kevin", "o'brien", "paris"}),
        (2, 0.8, 0.5, {"kevin", "o'brien"}),
        (2, 0.9, 0.5, {"o'brien"}),
        (2, 0.6, 0.5, {"kevin", "o'brien", "grace"}),
    ):
        for name, value in (("FEWEST", fewest), ("CAPITAL", capital), ("PLACED", placed)):
            monkeypatch.setattr(names, name, value)
        assert person_names(TEXTS) == expected


def test_the_default_rule_on_repeated_use() -> None:
    texts = ["the actor Humphrey Bogart may win", "we saw Paris", "go to Paris", "in Paris"] * 3
    assert person_names(texts) == {"humphrey"}  # Bogart is in none of the lists


def test_text_without_capitals_says_nothing() -> None:
    with pytest.raises(InvalidInput, match="give cased text"):
        person_names(text.lower() for text in TEXTS)
