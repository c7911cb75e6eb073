"""What the titles of notebook 05's figures say is what their tables hold."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from textpriv.experiments import reconstruction_figures as figures


def rows(*named: tuple[str, float, str, float]) -> pd.DataFrame:
    """Defense, epsilon, attack and value; of one corpus, 100 tokens each."""
    made = [
        {"defense": defense, "epsilon": epsilon, "attack": attack, "value": value,
         "corpus": "imdb", "low": value - 0.01, "high": value + 0.01, "n": 100}
        for defense, epsilon, attack, value in named
    ]  # fmt: skip
    return pd.DataFrame(made)


def title(figure: Any) -> str:
    return str(figure.get_suptitle())


def test_the_ladder_names_the_setting_that_leaves_the_bound_behind_most() -> None:
    table = rows(
        ("custext", 2.0, "embedding-inversion", 0.1),
        ("custext", 2.0, "noisy-channel", 0.6),
        ("custext", 2.0, "noisy-channel-lm", 0.7),
        ("custext", 2.0, "contextual-bound", 0.3),
        ("custext", 6.0, "noisy-channel", 0.8),
        ("custext", 6.0, "contextual-bound", 0.7),
        ("custext", 6.0, "mask-inference", 0.9),  # no step of the ladder
    )
    figure = figures.ladder(table)
    assert title(figure) == (
        "Farthest above the bound, CusText+ at ε 2: 60% of the words are recovered\n"
        "(noisy channel, public text; pretrained model: 70%; estimated bound: 30%)"
    )
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[::-1] == [
        "embedding\ninversion", "noisy channel,\npublic text", "noisy channel,\npretrained model"
    ]  # fmt: skip
    assert [ax.lines[-1].get_xdata()[0] for ax in figure.axes] == [0.3, 0.7]
    without = figures.ladder(table[table["attack"] != "contextual-bound"])
    assert title(without) == (
        "CusText+ at ε 6: 80% of the words are recovered\n(noisy channel, public text)"
    )


def test_the_lines_name_the_setting_where_sentences_tell_most() -> None:
    table = rows(
        ("custext", 2.0, "context-free-public", 0.2),
        ("custext", 2.0, "noisy-channel", 0.5),
        ("santext", 2.4, "context-free-public", 0.3),
        ("santext", 2.4, "noisy-channel", 0.4),
    )
    said = title(figures.success(table))
    assert said.startswith("Largest gain from public text (CusText+, ε 2, IMDb): decoding")
    assert said.endswith("recovers 50% of the words, word by word 20%")


@pytest.mark.parametrize(("stated", "how"), [(0.6, "sure"), (0.4, "modest")])
def test_calibration_names_the_attack_and_setting_that_are_off_most(
    stated: float, how: str
) -> None:
    """Over both settings the attack would be right on average, as they err in opposite ways."""
    table = rows(
        ("custext", 2.0, "noisy-channel", 0.5), ("custext", 2.0, "context-free-bayes", 0.5),
        ("custext", 4.0, "context-free-bayes", 0.5),
    )  # fmt: skip
    table = table.assign(stated=[0.45, stated, 0.99 - stated if stated < 0.5 else 1.01 - stated])
    expected = "Farthest off: under CusText+, ε 2, context-free Bayes\nis too "
    assert title(figures.calibration(table)) == f"{expected}{how} by 10 points on average"
