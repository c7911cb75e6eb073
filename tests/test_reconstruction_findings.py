"""Sentences of notebook 05: they follow the numbers, whatever these are, and never print NaN."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from textpriv import profiles, stats
from textpriv.attacks.base import Guesses
from textpriv.experiments import reconstruction as experiment
from textpriv.experiments import reconstruction_findings as findings
from textpriv.experiments import reconstruction_models as networks
from textpriv.experiments import reconstruction_texts as sources
from textpriv.experiments.reconstruction_models import FREE, TOKEN
from textpriv.experiments.statements import ATTACKERS
from textpriv.models import LearningCurve
from textpriv.report.difference import Difference
from textpriv.report.results import measure

WORDS = [f"word{number}" for number in range(50)]
TOKENS = 400
ATTACKS = sorted({name for pair in networks.DUELS for name in pair})


def guesses(share: float, seed: int) -> Guesses:
    """Right at about this share of the tokens, whose truth is word 1."""
    right = np.random.default_rng(seed).random(TOKENS) < share
    return Guesses(np.where(right, 1, 2)[:, None], np.ones((TOKENS, 1)))


def trained(sizes: sources.Sizes, rates: dict[str, float]) -> list[networks.Trained]:
    """A setting at each epsilon of the profile, with these rates (0.3 where none is given)."""
    found = []
    for defense in sizes.model_focus:
        for epsilon in sizes.model_focus[defense]:
            truth = np.ones(TOKENS, dtype=np.int64)
            outcome = experiment.Outcome(
                "rotten-tomatoes", defense, epsilon, truth, truth, np.arange(TOKENS) // 4
            )
            for number, name in enumerate(ATTACKS):
                made = guesses(rates.get(name, 0.3), number)
                outcome.add(name, made, WORDS, posterior=False)
            found.append(networks.Trained(outcome, untrained=0.5, tested=100))
    return found


def inverted(share: float, seed: int) -> tuple[Guesses, LearningCurve]:
    return guesses(share, seed), LearningCurve((5, 10), (1.0, 2.0), (0.1, share))


def run(apart: float) -> Any:
    """A run in which every recorded difference is this one."""

    def difference(first: str, second: str) -> Difference:
        assert first != second
        p = 0.001 if apart else 1.0
        return Difference(apart, apart - 0.01, apart + 0.01, p)

    return SimpleNamespace(
        measurement=lambda name: measure(name, 0.25, n=17_519), difference=difference
    )


@pytest.mark.parametrize("profile", ["smoke", "default", "paper"])
@pytest.mark.parametrize(
    ("rates", "apart", "says"),
    [
        ({"contextual-bayes": 0.6, TOKEN: 0.3}, 0.05, "contextual +"),
        ({"contextual-bayes": 0.2, TOKEN: 0.6}, -0.05, "contextual -"),
        ({"contextual-bayes": 0.0, TOKEN: 0.0}, 0.0, "contextual (of none)"),
    ],
)
def test_verdicts_follow_the_numbers(
    profile: str,
    rates: dict[str, float],
    apart: float,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quick(first: Any, second: Any, *_: Any, **__: Any) -> float:
        return 0.0 if abs(first.mean() - second.mean()) > 0.1 else 1.0

    monkeypatch.setattr(stats, "paired_test", quick)
    sizes = profiles.load(profile, "05_reconstruction_attacks", sources.Sizes)
    found = trained(sizes, rates)
    duels = networks.duels(found, np.random.default_rng(0))
    text = findings.findings(run(apart), found, duels, sizes)
    assert text.startswith("- **The headline.**")
    assert "nan" not in text.lower().replace("finance", "")
    form = next(line for line in text.splitlines() if findings.FORMS[TOKEN] in line)
    ours = form.split("; ")[0]
    assert says in ours
    expected = {0.05: "above", -0.05: "below", 0.0: "undecided"}[apart]
    assert f", {expected}" in ours
    assert f"compared with that bound it is {expected}" in text.lower()
    above = len(sizes.santext_epsilons) if apart > 0 else 0
    assert f"is above context-free Bayes at {above} of {len(sizes.santext_epsilons)}" in text
    assert ("at epsilon 6 it recovers" in text) == (profile == "smoke")  # the one epsilon, once


def test_trainings_of_a_network_are_averaged_and_their_spread_is_kept() -> None:
    sizes = profiles.load("default", "05_reconstruction_attacks", sources.Sizes)
    made = trained(sizes, {})[0]
    several = [inverted(share, seed) for share, seed in ((0.2, 1), (0.4, 2), (0.6, 3))]
    made.add_inversions(FREE, several, 9.0, WORDS)
    each = [training.hits(made.outcome.truth) for training, _ in several]
    assert made.outcome.seconds[FREE] == 3.0
    assert np.allclose(made.outcome.hits[FREE], np.mean(each, axis=0))  # token by token
    assert made.spread[FREE] == pytest.approx(np.std([hits.mean() for hits in each], ddof=1))
    assert made.curves["training"].tolist() == [0, 0, 1, 1, 2, 2]
    table = networks.training_table([made])
    assert table["trainings"].tolist() == [3]
    assert table["accuracy"].iloc[0] == pytest.approx(0.4)
    assert table["between trainings"].iloc[0] == made.spread[FREE]


def test_the_budget_leaves_out_what_the_sizes_say() -> None:
    sizes = profiles.load("default", "05_reconstruction_attacks", sources.Sizes)
    first, *_, last = sizes.model_focus["custext"]
    assert networks.EXTENDED not in networks.budget(sizes, "custext", first)[1]
    assert networks.EXTENDED in networks.budget(sizes, "custext", last)[1]
    counts, spared = networks.budget(sizes, "santext", sizes.model_focus["santext"][0])
    assert max(counts) == networks.K and networks.PRETRAINED in spared
    assert max(networks.budget(sizes, "custext", last)[0]) == max(sizes.contextual_k)


def test_every_attack_that_is_recorded_is_described_for_the_statements() -> None:
    recorded = {*networks.INVERSIONS, networks.SEEN, "contextual-bayes", "contextual-bound"}
    assert recorded <= set(ATTACKERS)


def test_the_headline_is_tested_with_what_was_planned() -> None:
    assert set(networks.HEADLINE) <= set(networks.PLANNED) <= set(networks.DUELS)
    assert len(set(networks.DUELS)) == len(networks.DUELS)
