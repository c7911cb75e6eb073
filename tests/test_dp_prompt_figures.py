"""The pictures of notebook 04 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import drawn, legend
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from textpriv.experiments import dp_prompt_figures as figures
from textpriv.experiments.dp_prompt import EMBEDDING, TEXT, name_of
from textpriv.experiments.dp_prompt_figures import TARGETS
from textpriv.experiments.dp_prompt_risk import ADAPTIVE, STATIC
from textpriv.report.figures import style, use_style

matplotlib.use("Agg")

RANDOM = {"author": 0.1, "sentiment": 0.47}
WORDS = ("madlib", "mahalanobis", "tem")
LEVELS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(WORDS, (14.0, 2.0, 8.0)),  # not in order
    **{f"{name}-300d": (3.0, 11.0) for name in WORDS},
    "madlib-whole": (8.0,),
    "truncated-laplace": (5.0, 400.0),
    "deep-candidate": (5.0, 400.0),
    "dp-prompt": (0.75, 1.25, 1.75),
    "dp-prompt-clipped": (1.75, 0.75, 1.25),
    "dp-prompt-top-k40": (0.75, 1.25),
}
PLANE = [*WORDS, "truncated-laplace", "deep-candidate", "dp-prompt", "dp-prompt-clipped"]
ACCESSES, ATTACKERS = (EMBEDDING, TEXT), (STATIC, ADAPTIVE)
N = 300
SAID = "What is seen, in words"


# --- Made-up tables -----------------------------------------------------------------------------


def made_up(mechanism: str, level: float, target: str, attacker: str, access: str) -> float:
    """Between 0.1 and 0.9, another number for all that it is of."""
    rank = np.argsort(np.argsort(LEVELS[mechanism]))[LEVELS[mechanism].index(level)]
    found = 0.2 + 0.15 * rank / len(LEVELS[mechanism]) + 0.02 * list(LEVELS).index(mechanism)
    found += 0.1 * (attacker == ADAPTIVE) + 0.05 * (access == TEXT)
    return float(found + 0.2 * (target == "sentiment"))


def rate(value: float, n: int = N) -> dict[str, float]:
    return {"value": value, "low": value - 0.03, "high": value + 0.05, "n": n}


def f1() -> pd.DataFrame:
    """As the notebook's; truncated Laplace has no texts, clean text one attacker."""
    rows = [
        {
            "mechanism": "clean",
            "setting": "plain",
            "level": 0.0,
            "target": target,
            "attacker": STATIC,
            "access": access,
            **rate((0.9 if target == "author" else 0.8) - 0.05 * (access == TEXT)),
        }
        for target, access in product(TARGETS, ACCESSES)
    ]
    rows += [
        {
            "mechanism": name,
            "setting": name_of(name, level).split()[1],
            "level": level,
            "target": target,
            "attacker": attacker,
            "access": access,
            **rate(made_up(name, level, target, attacker, access)),
        }
        for name, levels in LEVELS.items()
        for level in levels
        for target, attacker, access in product(TARGETS, ATTACKERS, ACCESSES)
        if (name, access) != ("truncated-laplace", TEXT)
    ]
    return pd.DataFrame(rows)


def guarantees() -> pd.DataFrame:
    """As `dp_prompt.guarantees`."""
    return pd.DataFrame(
        [
            {
                "mechanism": name,
                "setting": f"t{level:g}",
                "temperature": level,
                "tokens": 32,
                "tight": 900 / level if name == "dp-prompt-clipped" else np.inf,
                "paper": 1500 / level if name == "dp-prompt-clipped" else np.inf,
                "withdrawn": "" if name == "dp-prompt-clipped" else "not clipped",
            }
            for name, levels in LEVELS.items()
            for level in levels
            if name.startswith("dp-prompt")
        ]
    )


def levels_at(risks: dict[float, tuple[str, ...]]) -> pd.DataFrame:
    """As `dp_prompt_risk.at_equal_risk`."""
    rows = []
    for risk, names in risks.items():
        for name in names:
            value = 0.5 + risk / 2 + 0.02 * list(LEVELS).index(name)
            found = {"value": value, "low": value - 0.03, "high": value + 0.05}
            rows.append({"mechanism": name, "risk": risk, "level": 3.0, **found})
    return pd.DataFrame(rows)


GUESSING = "guessing at random"


# --- What is read off a figure ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


def bars(ax: Axes) -> dict[str, ErrorbarContainer]:
    found = [each for each in ax.containers if isinstance(each, ErrorbarContainer)]
    named = {str(each.get_label()): each for each in found}
    assert len(named) == len(found)
    return named


def lines(ax: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in ax.lines if len(line.get_xdata()) > 1}


def points(line: Any) -> Any:
    """(points, 2) as drawn."""
    return np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)


def title(ax: Axes) -> str:
    return str(ax.get_title(loc="left"))


def called(mechanism: str) -> str:
    return figures._name(mechanism)


def marks(ax: Axes) -> list[tuple[float, float]]:
    """What stands alone: the star of clean text."""
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in ax.lines
        if line.get_marker() == "*" and len(line.get_xdata()) == 1
    ]


def guesses(ax: Axes) -> set[tuple[str, float]]:
    """Dotted lines across the whole panel."""
    found = set()
    for line in ax.lines:
        xs, ys = map(list, (line.get_xdata(), line.get_ydata()))
        if line.get_linestyle() == ":" and xs == [0, 1] and ys[0] == ys[1]:
            found.add(("sentiment", float(ys[0])))
        if line.get_linestyle() == ":" and ys == [0, 1] and xs[0] == xs[1]:
            found.add(("author", float(xs[0])))
    return found


def check_line(
    container: ErrorbarContainer, table: pd.DataFrame, name: str, attacker: str, access: str
) -> None:
    """Every setting in the order of levels, with the intervals of both targets."""
    part = table[
        (table["mechanism"] == name) & (table["attacker"] == attacker) & (table["access"] == access)
    ].sort_values("level")
    author, sentiment = (part[part["target"] == target] for target in ("author", "sentiment"))
    assert len(author) == len(LEVELS[name])
    expected = np.column_stack([author["value"], sentiment["value"]])
    np.testing.assert_allclose(points(container[0]), expected)
    across, up = (np.array(each.get_segments()) for each in container[2])
    np.testing.assert_allclose(across[:, :, 0], author[["low", "high"]])
    np.testing.assert_allclose(up[:, :, 1], sentiment[["low", "high"]])


# --- The figures --------------------------------------------------------------------------------


def test_plane_draws_all_attackers() -> None:
    table = f1()
    figure = figures.plane(table, RANDOM, SAID)
    drawn(figure)
    assert figure.get_suptitle() == SAID
    looks = set()
    for ax, (access, attacker) in zip(figure.axes, product(ACCESSES, ATTACKERS), strict=True):
        found = bars(ax)
        shown = [each for each in PLANE if access == EMBEDDING or each != "truncated-laplace"]
        assert list(found) == [called(name) for name in shown]
        for name in shown:
            check_line(found[called(name)], table, name, attacker, access)
            line = found[called(name)][0]
            assert to_hex(line.get_color()).upper() == style(name)["color"].upper()
            looks.add((name, line.get_color(), line.get_marker()))
        clean = (0.9, 0.8) if access == EMBEDDING else (0.85, 0.75)
        assert marks(ax) == [pytest.approx(clean)]
        assert guesses(ax) == set(RANDOM.items())
        assert attacker in title(ax) and f"n = {N}" in title(ax)
        assert figures.ACCESS[access] in title(ax)
    assert len(looks) == len({look[1:] for look in looks}) == len(PLANE)
    assert legend(figure) == {*map(called, [*PLANE, "clean"]), GUESSING}


def test_a_line_needs_data() -> None:
    """Nothing is drawn, and nothing named, of which there is no number."""
    table = f1()
    few = table[table["mechanism"].isin(["clean", "madlib"])]
    figure = figures.plane(few, RANDOM, SAID)
    assert [list(bars(ax)) for ax in figure.axes] == [[called("madlib")]] * 4
    assert len(legend(figure)) == 3
    no_static = table[(table["attacker"] == ADAPTIVE) | (table["mechanism"] != "tem")]
    figure = figures.plane(no_static, RANDOM, SAID)
    assert [called("tem") in bars(ax) for ax in figure.axes] == [False, True, False, True]


def test_an_interval_that_does_not_hold_its_value() -> None:
    """By rounding alone: the bar ends at the value."""
    table = f1()
    table.loc[table["mechanism"] == "tem", "low"] = table["value"] + 1e-12
    container = bars(figures.plane(table, RANDOM, SAID).axes[0])[called("tem")]
    across, _ = (np.array(each.get_segments()) for each in container[2])
    np.testing.assert_allclose(across[:, 0, 0], points(container[0])[:, 0])


def test_dimensions_are_told_apart_by_the_filling() -> None:
    table = f1()
    figure = figures.dimensions(table, RANDOM, SAID)
    drawn(figure)
    shown = [*WORDS, *(f"{name}-300d" for name in WORDS), "madlib-whole"]
    for ax, access in zip(figure.axes, ACCESSES, strict=True):
        found = bars(ax)
        assert list(found) == [called(name) for name in shown]
        for name in shown:
            check_line(found[called(name)], table, name, ADAPTIVE, access)
            face = to_hex(found[called(name)][0].get_markerfacecolor())
            assert (face == "#ffffff") == name.endswith("-300d")
        for name in WORDS:
            same, large = (found[called(each)][0] for each in (name, f"{name}-300d"))
            assert same.get_color() == large.get_color()
            assert same.get_marker() == large.get_marker()
    assert len(legend(figure)) == len(shown) + 2
    few = table[~table["mechanism"].isin(["tem-300d", "madlib-whole"])]
    expected = ["madlib", "mahalanobis", "madlib-300d", "mahalanobis-300d"]
    assert list(bars(figures.dimensions(few, RANDOM, SAID).axes[0])) == [*map(called, expected)]


def test_clipping_draws_both_targets_and_epsilon() -> None:
    table = f1()
    figure = figures.clipping(table, guarantees(), RANDOM, SAID)
    drawn(figure)
    *panels, bound = figure.axes
    prompted = ["dp-prompt", "dp-prompt-clipped", "dp-prompt-top-k40"]
    for ax, target in zip(panels, TARGETS, strict=True):
        assert list(lines(ax)) == [*(called(name) for name in prompted), GUESSING]
        assert set(lines(ax)[GUESSING].get_ydata()) == {RANDOM[target]}
        for name, band in zip(prompted, ax.collections, strict=True):
            part = table[(table["mechanism"] == name) & (table["target"] == target)]
            part = part[(part["attacker"] == ADAPTIVE) & (part["access"] == EMBEDDING)]
            part = part.sort_values("level")
            np.testing.assert_allclose(
                points(lines(ax)[called(name)]), part[["level", "value"]].to_numpy()
            )
            heights = {round(float(y), 6) for y in band.get_paths()[0].vertices[:, 1]}
            assert heights == {round(y, 6) for y in [*part["low"], *part["high"]]}
    found = {line.get_linestyle(): points(line) for line in bound.lines}
    temperatures = np.array([0.75, 1.25, 1.75])
    for look, top in (("--", 1500), ("-", 900)):
        np.testing.assert_allclose(found[look], np.column_stack([temperatures, top / temperatures]))
    # The bound's name stands at its own line.
    assert sorted(text.xy for text in bound.texts) == [(0.75, 1200.0), (0.75, 2000.0)]
    assert "32" in bound.get_ylabel()
    assert legend(figure) == {*(called(name) for name in prompted), GUESSING}


def test_equal_risk_has_a_row_for_each_mechanism() -> None:
    risks = {0.3: ("madlib", "tem-300d"), 0.15: ("madlib", "tem", "dp-prompt-clipped")}
    table = levels_at(risks)
    figure = figures.equal_risk(table, RANDOM, SAID)
    drawn(figure)
    rows = list(table.groupby("mechanism")["value"].mean().sort_values().index)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [called(name) for name in rows]
    for ax, risk in zip(figure.axes, (0.15, 0.3), strict=True):
        found = {}
        for container in ax.containers:
            ((x, y),) = points(container[0])
            ((low, high),) = [segment[:, 0] for segment in container[2][0].get_segments()]
            found[rows[int(y)]] = (x, low, high)
            hollow = to_hex(container[0].get_markerfacecolor()) == "#ffffff"
            assert hollow == rows[int(y)].endswith("-300d")
        part = table[table["risk"] == risk].set_index("mechanism")
        assert set(found) == set(risks[risk])  # words where a mechanism has no such risk
        missing = [rows[int(text.get_position()[1])] for text in ax.texts]
        assert missing == [name for name in rows if name not in found]
        (guess,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert set(guess.get_xdata()) == {RANDOM["sentiment"]}
        for name, numbers in found.items():
            assert numbers == pytest.approx(tuple(part.loc[name, ["value", "low", "high"]]))
        assert f"{risk:g}" in title(ax)
    drawn(figures.equal_risk(table.iloc[:0], RANDOM, SAID))  # no mechanism has any of the risks


def test_ledger_writes_every_cell() -> None:
    features = ["length", "case", "unknown words", "all"]
    outputs = [("clean", "plain"), ("madlib", "eps8"), ("dp-prompt", "t0.75")]
    values = np.linspace(0.05, 0.9, 12).reshape(3, 4)
    table = pd.DataFrame(
        {"mechanism": name, "setting": setting, "feature": feature, **rate(value)}
        for (name, setting), row in zip(outputs, values, strict=True)
        for feature, value in zip(features, row, strict=True)
    )
    figure = figures.ledger(table, RANDOM, SAID)
    drawn(figure)
    ax, bar = figure.axes
    assert [text.get_text() for text in ax.texts] == [f"{value:.2f}" for value in values.flat]
    assert [text.get_text() for text in ax.get_xticklabels()] == features
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        called("clean"), f"{called('madlib')}, eps8", f"{called('dp-prompt')}, t0.75",
    ]  # fmt: skip
    assert SAID in title(ax) and f"n = {N}" in title(ax)
    assert bar.get_ylabel() == TARGETS["author"]
    light = ax.collections[0].get_facecolors()[:, :3].sum(axis=1)  # about what guessing gives
    assert light.argmax() == np.abs(values.ravel() - RANDOM["author"]).argmin()


def test_repeated_draws_both_attackers() -> None:
    settings = (("madlib", "eps8", (1, 30, 10, 3)), ("dp-prompt-clipped", "t0.75", (1, 3)))
    table = pd.DataFrame(
        {"mechanism": name, "setting": setting, "k": k, "attacker": attacker}
        | rate(0.3 + 0.1 * float(np.log10(k)) + 0.1 * (attacker == ADAPTIVE), 100)
        for name, setting, ks in settings
        for attacker in ATTACKERS
        for k in ks
    )
    figure = figures.repeated(table, RANDOM, SAID)
    drawn(figure)
    for ax, (mechanism, setting, ks) in zip(figure.axes, settings, strict=True):
        found = {each: line for each, line in lines(ax).items() if each in ATTACKERS}
        assert set(found) == set(ATTACKERS) and len(ax.collections) == 2
        part = table[table["mechanism"] == mechanism].sort_values("k")
        for attacker, line in found.items():
            expected = part[part["attacker"] == attacker][["k", "value"]].to_numpy()
            np.testing.assert_allclose(points(line), expected)
        assert len({line.get_linestyle() for line in found.values()}) == 2
        assert ax.get_xscale() == "log"
        assert [text.get_text() for text in ax.get_xticklabels()] == [str(k) for k in sorted(ks)]
        assert ("sentiment", RANDOM["author"]) in guesses(ax)  # a level line
        assert called(mechanism) in title(ax) and setting in title(ax) and "n = 100" in title(ax)


def test_similarity_parts_epsilons_from_temperatures() -> None:
    settings = [(name, level) for name, levels in LEVELS.items() for level in levels]
    table = pd.DataFrame(
        {"mechanism": name, "level": level, "n": 100}
        | {f"{measure}{end}": 0.3 + 0.01 * number + by + shift
           for measure, by in (("bertscore", 0.0), ("cosine", -0.1))
           for end, shift in (("", 0.0), ("_low", -0.05), ("_high", 0.02))}
        for number, (name, level) in enumerate([("other document", 0.0), *settings])
    )  # fmt: skip
    figure = figures.similarity(table, SAID)
    drawn(figure)
    assert SAID in figure.get_suptitle() and "n = 100" in figure.get_suptitle()
    for ax, (measure, is_heat) in zip(
        figure.axes, product(("bertscore", "cosine"), (False, True)), strict=True
    ):
        names = [name for name in LEVELS if name.startswith("dp-prompt") == is_heat]
        found = bars(ax)
        assert set(found) == {called(name) for name in names}
        for name in names:
            part = table[table["mechanism"] == name].sort_values("level")
            container = found[called(name)]
            np.testing.assert_allclose(points(container[0]), part[["level", measure]].to_numpy())
            (up,) = (np.array(each.get_segments()) for each in container[2])
            np.testing.assert_allclose(up[:, :, 1], part[[f"{measure}_low", f"{measure}_high"]])
        (other,) = (line for line in ax.lines if list(line.get_xdata()) == [0, 1])
        level = 0.3 if measure == "bertscore" else 0.2
        assert list(other.get_ydata()) == pytest.approx([level, level])
        assert ax.get_xscale() == ("linear" if is_heat else "log")
    assert legend(figure) == {*map(called, LEVELS), "other document"}


def test_mechanisms_have_names_of_their_own() -> None:
    assert len({called(name) for name in (*LEVELS, "clean")}) == len(LEVELS) + 1
    for name in WORDS:
        large = called(f"{name}-300d")
        assert large.startswith(called(name)) and "300" in large
