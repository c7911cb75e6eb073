"""The pictures of notebook 04 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from textpriv.experiments import dp_prompt_figures as figures
from textpriv.experiments.dp_prompt_attacks import ADAPTIVE, EMBEDDING, STATIC, TARGETS, TEXT
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


# --- Made-up tables -----------------------------------------------------------------------------


def unit(mechanism: str) -> str:
    return "t" if mechanism.startswith("dp-prompt") else "eps"


def made_up(mechanism: str, level: float, target: str, attacker: str, access: str) -> float:
    """Between 0.1 and 0.9, another number for all that it is of."""
    rank = np.argsort(np.argsort(LEVELS[mechanism]))[LEVELS[mechanism].index(level)]
    found = 0.2 + 0.15 * rank / len(LEVELS[mechanism]) + 0.02 * list(LEVELS).index(mechanism)
    found += 0.1 * (attacker == ADAPTIVE) + 0.05 * (access == TEXT)
    return float(found + 0.2 * (target == "sentiment"))


def rate(value: float, n: int = N) -> dict[str, float]:
    return {"value": value, "low": value - 0.03, "high": value + 0.05, "n": n}


def f1() -> pd.DataFrame:
    """As `dp_prompt_attacks.attacked`; truncated Laplace has no texts, clean text one attacker."""
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
            "setting": f"{unit(name)}{level:g}",
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
    """As `dp_prompt_attacks.at_equal_risk`."""
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


def drawn(figure: Figure) -> None:
    """It can be drawn, and nothing of a panel covers anything of another one or the legend."""
    figure.canvas.draw()
    parts = [*map(boxes, figure.axes), *([each.get_tightbbox()] for each in figure.legends)]
    for some, others in combinations(parts, 2):
        for first, second in product(some, others):
            across = min(first.x1, second.x1) - max(first.x0, second.x0)
            up = min(first.y1, second.y1) - max(first.y0, second.y0)
            assert min(across, up) < 1  # pixels


def boxes(ax: Axes) -> list[Any]:
    """The panel, both axes with their labels, and what is written on it."""
    texts = [each for each in ax.get_children() if isinstance(each, Text) and each.get_text()]
    found = [ax.xaxis.get_tightbbox(), ax.yaxis.get_tightbbox()]
    found += [each.get_window_extent() for each in (ax.patch, *texts)]
    return [each for each in found if each is not None]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


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


def name_of(mechanism: str) -> str:
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
    figure = figures.plane(table, RANDOM)
    drawn(figure)
    assert len(figure.axes) == 4
    for ax, (access, attacker) in zip(figure.axes, product(ACCESSES, ATTACKERS), strict=True):
        found = bars(ax)
        shown = [each for each in PLANE if access == EMBEDDING or each != "truncated-laplace"]
        assert list(found) == [name_of(name) for name in shown]
        for name in shown:
            check_line(found[name_of(name)], table, name, attacker, access)
        clean = (0.9, 0.8) if access == EMBEDDING else (0.85, 0.75)
        assert marks(ax) == [pytest.approx(clean)]
        assert guesses(ax) == set(RANDOM.items())
        assert attacker in title(ax) and f"n = {N}" in title(ax)
        assert figures.ACCESS[access] in title(ax)
    names = legend(figure)
    assert set(map(name_of, [*PLANE, "clean"])) < set(names)
    assert len(names) == len(set(names)) == len(PLANE) + 2  # with guessing


def test_mechanisms_look_different() -> None:
    (first, *_) = figures.plane(f1(), RANDOM).axes
    looks = set()
    for name in PLANE:
        line = bars(first)[name_of(name)][0]
        assert to_hex(line.get_color()).upper() == style(name)["color"].upper()
        looks.add((line.get_color(), line.get_marker()))
    assert len(looks) == len(PLANE)


def test_a_line_needs_data() -> None:
    """Nothing is drawn, and nothing named, of which there is no number."""
    table = f1()
    few = table[table["mechanism"].isin(["clean", "madlib"])]
    figure = figures.plane(few, RANDOM)
    assert [list(bars(ax)) for ax in figure.axes] == [[name_of("madlib")]] * 4
    assert len(legend(figure)) == 3
    no_static = table[(table["attacker"] == ADAPTIVE) | (table["mechanism"] != "tem")]
    figure = figures.plane(no_static, RANDOM)
    tem = name_of("tem")
    assert [tem in bars(ax) for ax in figure.axes] == [False, True, False, True]


def test_an_interval_that_does_not_hold_its_value() -> None:
    """By rounding alone: the bar ends at the value."""
    table = f1()
    table.loc[table["mechanism"] == "tem", "low"] = table["value"] + 1e-12
    figure = figures.plane(table, RANDOM)
    across, _ = (np.array(each.get_segments()) for each in bars(figure.axes[0])[name_of("tem")][2])
    np.testing.assert_allclose(
        across[:, 0, 0], points(bars(figure.axes[0])[name_of("tem")][0])[:, 0]
    )


def test_dimensions_are_told_apart_by_the_filling() -> None:
    table = f1()
    figure = figures.dimensions(table, RANDOM)
    drawn(figure)
    shown = [*WORDS, *(f"{name}-300d" for name in WORDS), "madlib-whole"]
    assert len(figure.axes) == 2
    for ax, access in zip(figure.axes, ACCESSES, strict=True):
        found = bars(ax)
        assert list(found) == [name_of(name) for name in shown]
        for name in shown:
            check_line(found[name_of(name)], table, name, ADAPTIVE, access)
            face = to_hex(found[name_of(name)][0].get_markerfacecolor())
            assert (face == "#ffffff") == name.endswith("-300d")
        for name in WORDS:
            same, large = (found[name_of(each)][0] for each in (name, f"{name}-300d"))
            assert same.get_color() == large.get_color()
            assert same.get_marker() == large.get_marker()
        assert len(marks(ax)) == 1 and guesses(ax) == set(RANDOM.items())
    assert len(set(legend(figure))) == len(shown) + 2


def test_dimensions_without_a_large_table_of_some() -> None:
    table = f1()
    few = table[~table["mechanism"].isin(["tem-300d", "madlib-whole"])]
    figure = figures.dimensions(few, RANDOM)
    expected = ["madlib", "mahalanobis", "madlib-300d", "mahalanobis-300d"]
    assert list(bars(figure.axes[0])) == [name_of(name) for name in expected]


def test_clipping_draws_both_targets_and_epsilon() -> None:
    table = f1()
    figure = figures.clipping(table, guarantees(), RANDOM)
    drawn(figure)
    *panels, bound = figure.axes
    prompted = ["dp-prompt", "dp-prompt-clipped", "dp-prompt-top-k40"]
    for ax, target in zip(panels, ("author", "sentiment"), strict=True):
        assert list(lines(ax)) == [*(name_of(name) for name in prompted), GUESSING]
        assert set(lines(ax)[GUESSING].get_ydata()) == {RANDOM[target]}
        assert len(ax.collections) == len(prompted)  # an interval for each
        for name, band in zip(prompted, ax.collections, strict=True):
            part = table[(table["mechanism"] == name) & (table["target"] == target)]
            part = part[(part["attacker"] == ADAPTIVE) & (part["access"] == EMBEDDING)]
            part = part.sort_values("level")
            np.testing.assert_allclose(
                points(lines(ax)[name_of(name)]), part[["level", "value"]].to_numpy()
            )
            heights = {round(float(y), 6) for y in band.get_paths()[0].vertices[:, 1]}
            assert heights == {round(y, 6) for y in [*part["low"], *part["high"]]}
        assert ax.get_ylim() == (0, 1)
    found = {line.get_linestyle(): points(line) for line in bound.lines}
    temperatures = np.array([0.75, 1.25, 1.75])
    for look, top in (("--", 1500), ("-", 900)):
        np.testing.assert_allclose(found[look], np.column_stack([temperatures, top / temperatures]))
    assert len(bound.lines) == len(bound.texts) == 2
    # The bound's name stands at its own line.
    ends = sorted(text.xy for text in bound.texts)
    assert ends == [(0.75, 1200.0), (0.75, 2000.0)]
    assert "32" in bound.get_ylabel()
    assert set(legend(figure)) == {*(name_of(name) for name in prompted), GUESSING}


def test_equal_risk_has_a_row_for_each_mechanism() -> None:
    risks = {0.3: ("madlib", "tem-300d"), 0.15: ("madlib", "tem", "dp-prompt-clipped")}
    table = levels_at(risks)
    figure = figures.equal_risk(table, 0.45)
    drawn(figure)
    means = table.groupby("mechanism")["value"].mean().sort_values()
    rows = list(means.index)
    assert len(figure.axes) == 2
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [name_of(name) for name in rows]
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
        assert set(guess.get_xdata()) == {0.45}
        for name, numbers in found.items():
            assert numbers == pytest.approx(tuple(part.loc[name, ["value", "low", "high"]]))
        assert f"{risk:g}" in title(ax)


def test_no_mechanism_has_any_of_the_risks() -> None:
    empty = levels_at({0.15: ("tem",)}).iloc[:0]
    drawn(figures.equal_risk(empty, 0.45))


def test_ledger_writes_every_cell() -> None:
    features = ["length", "case", "unknown words", "all"]
    outputs = [("clean", "plain"), ("madlib", "eps8"), ("dp-prompt", "t0.75")]
    values = np.linspace(0.05, 0.9, 12).reshape(3, 4)
    table = pd.DataFrame(
        [
            {"mechanism": name, "setting": setting, "feature": feature, **rate(value)}
            for (name, setting), row in zip(outputs, values, strict=True)
            for feature, value in zip(features, row, strict=True)
        ]
    )
    figure = figures.ledger(table, 0.123)
    drawn(figure)
    ax, bar = figure.axes
    np.testing.assert_allclose(ax.images[0].get_array(), values)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {
        (column, row): f"{values[row, column]:.2f}" for row in range(3) for column in range(4)
    }
    assert [text.get_text() for text in ax.get_xticklabels()] == features
    first, second, third = (text.get_text() for text in ax.get_yticklabels())
    assert first == name_of("clean")
    assert second == f"{name_of('madlib')}, eps8" and third == f"{name_of('dp-prompt')}, t0.75"
    assert "0.12" in title(ax) and f"n = {N}" in title(ax)
    assert bar.get_ylabel()
    # Dark cells have light numbers.
    colours = {text.get_text(): text.get_color() for text in ax.texts}
    assert colours["0.05"] == "white" and colours["0.90"] == "black"
    low, high = ax.images[0].get_clim()
    assert low == 0 and high >= 0.9


def repeats() -> pd.DataFrame:
    rows = []
    for name, setting, ks in (
        ("madlib", "eps8", (1, 30, 10, 3)),
        ("dp-prompt-clipped", "t0.75", (1, 3)),
    ):
        for attacker in ATTACKERS:
            for k in ks:
                value = 0.3 + 0.1 * np.log10(k) + 0.1 * (attacker == ADAPTIVE)
                rows.append({"mechanism": name, "setting": setting, "k": k, "epsilon": 8.0 * k,
                             "attacker": attacker, **rate(float(value), 100)})  # fmt: skip
    return pd.DataFrame(rows)


def test_repeated_draws_both_attackers() -> None:
    table = repeats()
    figure = figures.repeated(table, 0.1)
    drawn(figure)
    groups = list(table.groupby(["mechanism", "setting"], sort=False))
    assert len(figure.axes) == len(groups) == 2
    for ax, ((mechanism, setting), part) in zip(figure.axes, groups, strict=True):
        found = {each: line for each, line in lines(ax).items() if each in ATTACKERS}
        assert set(found) == set(ATTACKERS) and len(ax.collections) == 2
        for attacker, line in found.items():
            expected = part[part["attacker"] == attacker].sort_values("k")
            np.testing.assert_allclose(points(line), expected[["k", "value"]].to_numpy())
        assert len({line.get_linestyle() for line in found.values()}) == 2
        assert ax.get_xscale() == "log"
        assert [text.get_text() for text in ax.get_xticklabels()] == [
            str(k) for k in sorted(part["k"].unique())
        ]
        assert ("sentiment", 0.1) in guesses(ax)  # the level line at what guessing gives
        assert name_of(mechanism) in title(ax) and setting in title(ax)
        assert "n = 100" in title(ax)
        box: Any = ax.get_legend()
        assert {text.get_text() for text in box.get_texts()} == set(ATTACKERS)


def likeness() -> pd.DataFrame:
    """As `dp_prompt_attacks.alike`."""
    rows = [("other document", "plain", 0.0, 0.3, 0.2)]
    for number, (name, levels) in enumerate(LEVELS.items()):
        if name != "truncated-laplace":
            for level in levels:
                score = 0.35 + 0.02 * number + 0.1 * levels.index(level)
                rows.append((name, f"{unit(name)}{level:g}", level, score, score - 0.1))
    columns = ["mechanism", "setting", "level", "bertscore", "cosine"]
    return pd.DataFrame(rows, columns=columns).assign(words=30.0, n=100)


def test_similarity_parts_epsilons_from_temperatures() -> None:
    table = likeness()
    figure = figures.similarity(table)
    drawn(figure)
    assert len(figure.axes) == 4
    for ax, (measure, is_heat) in zip(
        figure.axes, product(("bertscore", "cosine"), (False, True)), strict=True
    ):
        names = [
            name
            for name in LEVELS
            if name != "truncated-laplace" and name.startswith("dp-prompt") == is_heat
        ]
        found = {
            str(line.get_label()): line for line in ax.lines if list(line.get_xdata()) != [0, 1]
        }
        assert set(found) == {name_of(name) for name in names}
        for name in names:
            part = table[table["mechanism"] == name].sort_values("level")
            np.testing.assert_allclose(
                points(found[name_of(name)]), part[["level", measure]].to_numpy()
            )
        (other,) = (line for line in ax.lines if list(line.get_xdata()) == [0, 1])
        assert set(other.get_ydata()) == {0.3 if measure == "bertscore" else 0.2}
        assert ax.get_xscale() == ("linear" if is_heat else "log")
    names = legend(figure)
    assert len(names) == len(set(names))
    assert {name_of(name) for name in LEVELS if name != "truncated-laplace"} < set(names)


def test_names_and_looks() -> None:
    names = {name_of(name) for name in (*LEVELS, "clean")}
    assert len(names) == len(LEVELS) + 1
    for name in WORDS:
        assert name_of(f"{name}-300d").startswith(name_of(name)) and "300" in name_of(
            f"{name}-300d"
        )
