"""The pictures of notebook 03 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawing import drawn, legend
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from textpriv.experiments import lossy
from textpriv.experiments import lossy_figures as figures
from textpriv.experiments.lossy import MAPS, STENCILS, Setting
from textpriv.report.figures import label, use_style

matplotlib.use("Agg")

CORPORA = ("rotten-tomatoes", "imdb")
SIZES: Any = SimpleNamespace(
    windows=(5, 7, 9, 11),
    sigmas=(0.2, 0.6, 0.8, 1.0),
    crossing=(9, 0.2),
    etas=(100.0, 150.0),
    tuned=(),
)
SETTINGS = lossy.crossing(SIZES)
GRID = [Setting(k, w, s) for k in STENCILS for w in SIZES.windows for s in SIZES.sigmas]
TITLE = "What it shows"
TUNED = ("plain", "high-freq", "2-random", "stencil-w9-s0.8", "punctuated-stencil-w9-s1.0")
OF_MAPS = {"2-random": 0.83, "3-random": 0.76, "high-freq": 0.88, "low-freq": 0.55}


# --- Made-up tables -----------------------------------------------------------------------------


def rate(value: float, n: int) -> dict[str, float]:
    reach = 1.96 * (value * (1 - value) / n) ** 0.5 + 0.002
    return {"value": value, "low": max(value - reach, 0), "high": min(value + reach, 1), "n": n}


def one(corpus: str, setting: Setting, **rest: Any) -> dict[str, Any]:
    return {"corpus": corpus, **setting.columns(), **rest}


def made_up_accuracy(setting: Setting, scenario: str) -> float:
    if setting.kind in MAPS:
        return OF_MAPS[setting.kind] - 0.1 * (scenario == "test")
    if setting.kind == "noise":
        return 0.62 + setting.eta / 1000 - 0.05 * (scenario == "test")
    if setting.kind == "stencil":
        found = 0.84 - 0.08 * setting.sigma - 0.004 * (setting.window - 9)
        return found - 0.03 * (scenario == "test")
    if setting.kind == "punctuated-stencil":
        found = 0.62 + 0.17 * setting.sigma - 0.012 * (setting.window - 9)
        return found - 0.05 * (scenario == "test")
    return 0.86


def made_up_unchanged(setting: Setting) -> float:
    if setting.kind in MAPS:
        return {"2-random": 0.51, "3-random": 0.34, "high-freq": 0.93}.get(setting.kind, 0.07)
    return {"noise": 0.3 + setting.eta / 300, "plain": 1.0}.get(setting.kind, 0.02)


def accuracies(corpora: Sequence[str], *, tuned: bool = False) -> pd.DataFrame:
    """As `lossy_tables.accuracies`."""
    return pd.DataFrame(
        [
            one(corpus, setting, scenario=scenario, unchanged=made_up_unchanged(setting))
            | rate(
                made_up_accuracy(setting, scenario) + 0.03 * tuned + 0.02 * (corpus == "imdb"),
                1000 if tuned else 3000,
            )
            for corpus in corpora
            for setting in SETTINGS
            if not tuned or setting.label in TUNED
            for scenario in ("test", "all")
        ]
    )


def made_up_success(setting: Setting) -> dict[tuple[str, int], float]:
    """By attack and top."""
    sigma, window = setting.sigma, setting.window
    if setting.kind in MAPS:
        kept = made_up_unchanged(setting)
        back = 0.6 * kept + 0.4
        found = {("naive", 1): kept, ("context_free", 1): kept + 0.02, ("noisy_channel", 1): back}
        return {**found, ("context_free", 5): 0.97, ("noisy_channel", 5): 0.99}
    if setting.kind in STENCILS:
        mixed = setting.kind == "punctuated-stencil"
        naive = 0.02 if mixed else 0.95 - 0.75 * sigma**2
        ridge = 0.5 + 0.3 * sigma - 0.01 * (window - 9) if mixed else 0.96 - 0.2 * sigma**2
        found = {
            ("naive", 5): naive,
            ("naive_skip", 5): naive + 0.01,
            ("anywhere", 5): 0.28 if mixed else naive + 0.03,
            ("deconvolution_raw", 5): ridge - 0.25 * sigma,
            ("deconvolution", 5): ridge,
            ("deconvolution_lm", 5): ridge + 0.08 * (1 - ridge) + 0.05 * mixed,
        }
        if not mixed:
            found["stencil_simulation", 5] = 0.99 - 0.1 * sigma**2
        return {**found, ("naive", 1): naive / 2, ("deconvolution_lm", 1): ridge * 0.8}
    kept = made_up_unchanged(setting)
    return {("naive", 5): min(kept + 0.12, 1), ("naive_skip", 5): kept * 0.9}


def successes(corpora: Sequence[str], settings: Sequence[Setting] = SETTINGS) -> pd.DataFrame:
    """As the notebook's attacks."""
    return pd.DataFrame(
        [
            one(corpus, setting, attack=attack, top=top)
            | rate(value * (0.97 if corpus == "imdb" else 1), 2600 if corpus == "imdb" else 3100)
            for corpus in corpora
            for setting in settings
            for (attack, top), value in made_up_success(setting).items()
        ]
    )


def oracles(corpora: Sequence[str]) -> pd.DataFrame:
    """As `lossy_tables.oracle_success`."""
    return pd.DataFrame(
        [
            {"corpus": corpus, "kind": kind, "measure": measure}
            | rate(value - 0.2 * (corpus == "imdb"), 10 if corpus == "imdb" else 50)
            for corpus in corpora
            for kind, base in (("2-random", 0.8), ("3-random", 0.7), ("high-freq", 0.85))
            for measure, value in (("mrr", base), ("pr5", base + 0.1), ("token_success", 0.9))
        ]
    )


def readable(corpus: str) -> pd.DataFrame:
    """As `lossy_tables.language`."""
    rows = []
    for number, setting in enumerate(SETTINGS):
        speech = 0.35 + 0.6 * made_up_unchanged(setting)
        found = rate(min(speech, 0.999), 1500 + 13 * number)
        found["speech"] = found.pop("value")
        bits = 1.2 + 1.6 * (1 - made_up_unchanged(setting))
        rows.append(one(corpus, setting, bits=bits, chance=0.19, judged=0.8, **found))
    return pd.DataFrame(rows)


# --- What is read off a figure ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    use_style()
    yield
    plt.close("all")


@pytest.fixture(params=[CORPORA, CORPORA[:1]], ids=["two", "one"])
def corpora(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param)


def points(ax: Axes, fill: str | None = None) -> list[tuple[float, float]]:
    """What stands on a panel as a single marker, rounded; `fill` chooses by the marker's face."""
    found = [
        line
        for line in ax.lines
        if len(line.get_xdata()) == 1 and line.get_marker() not in ("|", "_", "x", "")
    ]
    if fill is not None:
        found = [
            line for line in found if (line.get_markerfacecolor() == "white") == (fill == "hollow")
        ]
    return sorted((round(float(x), 6), round(float(y), 6)) for x, y in map(only, found))


def only(line: Line2D) -> tuple[float, float]:
    return float(np.asarray(line.get_xdata())[0]), float(np.asarray(line.get_ydata())[0])


def lines(ax: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in ax.lines if len(line.get_xdata()) > 1}


# --- The figures --------------------------------------------------------------------------------


def test_published_reads_the_claims() -> None:
    table = figures.published()
    assert set(table["corpus"]) >= set(CORPORA) and table["value"].notna().all()
    values = table.set_index(["kind", "corpus", "measure"])["value"]
    assert values.index.is_unique
    assert values["high-freq", "imdb", "mrr"] == 0.63
    assert values["2-random", "rotten-tomatoes", "pr5"] == 0.97
    assert {*table["kind"]} <= {*MAPS} and {*table["measure"]} == {"mrr", "pr5"}


def test_accuracy_draws_every_setting(corpora: tuple[str, ...]) -> None:
    probed, tuned = accuracies(corpora), accuracies(corpora[:1], tuned=True)
    figure = figures.accuracy(probed, tuned, TITLE)
    drawn(figure)
    assert len(figure.axes) == len(corpora)
    for ax, corpus in zip(figure.axes, corpora, strict=True):
        expected = [
            row.value
            for table in (probed, tuned)
            for row in table[table["corpus"] == corpus].itertuples()
            if row.kind in (*MAPS, "noise")
        ]
        assert sorted(x for x, _ in points(ax)) == pytest.approx(sorted(expected))
        hollow = probed[(probed["corpus"] == corpus) & (probed["scenario"] == "test")]
        worst = hollow.loc[hollow["label"] == "low-freq", "value"].iloc[0]
        assert points(ax, "hollow")[0][0] == pytest.approx(worst)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sorted(names) == sorted([*map(label, MAPS), "noise, eta 100", "noise, eta 150"])
    assert "n = 3,000 answers; n = 1,000 fine-tuned" in figure.axes[0].get_title(loc="left")
    plain = [
        line.get_xdata()[0] for line in figure.axes[0].lines if line.get_label() == "plain text"
    ]
    assert plain == pytest.approx([0.86, 0.89])
    assert {"plain text", "chance", *figures.SCENARIOS.values()} <= legend(figure)


def test_accuracy_without_a_fine_tuned_encoder() -> None:
    probed = accuracies(CORPORA[:1])
    figure = figures.accuracy(probed, probed.iloc[:0], TITLE)
    assert len(points(figure.axes[0])) == 12  # six settings in two scenarios


def test_sigma_window_draws_the_crossing(corpora: tuple[str, ...]) -> None:
    table = accuracies(corpora)
    figure = figures.sigma_window(table, (9, 0.2), TITLE)
    drawn(figure)
    assert len(figure.axes) == 2 * len(corpora)
    for number, column in enumerate(("sigma", "window")):
        line = lines(figure.axes[number])["punctuated stencil, trained on plain text"]
        fixed = table["window"] == 9 if column == "sigma" else table["sigma"] == 0.2
        part = table[
            fixed
            & (table["corpus"] == corpora[0])
            & (table["kind"] == "punctuated-stencil")
            & (table["scenario"] == "test")
        ].sort_values(column)
        assert len(part) == 4
        np.testing.assert_allclose(line.get_xdata(), part[column])
        np.testing.assert_allclose(line.get_ydata(), part["value"])
    assert len(legend(figure)) == 6  # two stencils in two scenarios, plain text, chance


def test_attackers_draw_every_attack(corpora: tuple[str, ...]) -> None:
    table = successes(corpora, GRID)
    figure = figures.attackers(table, 9, TITLE)
    drawn(figure)
    assert len(figure.axes) == 2 * len(corpora)
    punctuated, plain = figure.axes[:2]
    assert "punctuated" in punctuated.get_title(loc="left")
    assert set(lines(plain)) - set(lines(punctuated)) == {label("stencil_simulation")}
    part = table[(table["window"] == 9) & (table["top"] == 5) & (table["corpus"] == corpora[0])]
    for ax, kind in ((punctuated, "punctuated-stencil"), (plain, "stencil")):
        shown = part[part["kind"] == kind]
        assert len(lines(ax)) == shown["attack"].nunique()
        for attack, each in shown.groupby("attack"):
            line = lines(ax)[label(str(attack))]
            np.testing.assert_allclose(line.get_ydata(), each.sort_values("sigma")["value"])


def test_attackers_of_whom_some_are_missing() -> None:
    table = successes(CORPORA[:1])
    few = table[table["attack"] == "naive"]
    assert legend(figures.attackers(few, 9, TITLE)) == {label("naive")}


def test_heat_writes_every_cell() -> None:
    table = successes(CORPORA[:1], GRID)
    figure = figures.heat(table, TITLE)
    drawn(figure)
    assert len(figure.axes) == 4  # two attacks on two stencils
    part = table[(table["attack"] == "deconvolution") & (table["top"] == 5)]
    for ax, kind in zip(figure.axes[2:], STENCILS[::-1], strict=True):
        found = part[part["kind"] == kind].pivot(index="sigma", columns="window", values="value")
        np.testing.assert_allclose(ax.collections[0].get_array().ravel(), found.to_numpy().ravel())
        texts = [text.get_text() for text in ax.texts]
        assert texts == [f"{value:.0%}" for value in found.to_numpy().ravel()]
        assert ax.get_ylim() == (0, 4)  # sigma grows upwards
        assert [text.get_text() for text in ax.get_xticklabels()] == ["5", "7", "9", "11"]


def test_heat_leaves_a_missing_cell_empty() -> None:
    settings = [each for each in GRID if each.label != "stencil-w5-s0.2"]
    figure = figures.heat(successes(CORPORA[:1], settings), TITLE)
    assert [len(ax.texts) for ax in figure.axes] == [16, 15, 16, 15]


def test_oracle_beside_the_paper(corpora: tuple[str, ...]) -> None:
    table, paper = oracles(corpora), figures.published()
    figure = figures.oracle(table, paper, TITLE)
    drawn(figure)
    for (corpus, measure), ax in zip(
        [(corpus, measure) for corpus in corpora for measure in ("mrr", "pr5")],
        figure.axes,
        strict=True,
    ):
        ours = table[(table["corpus"] == corpus) & (table["measure"] == measure)]
        assert [x for x, _ in points(ax, "filled")] == pytest.approx(sorted(ours["value"]))
        theirs = paper[(paper["corpus"] == corpus) & (paper["measure"] == measure)]
        assert [x for x, _ in points(ax, "hollow")] == sorted(theirs["value"])
    one_map = figures.oracle(table[table["kind"] == "2-random"], paper, TITLE)
    assert len(points(one_map.axes[0])) == 2


def test_grammar_draws_both_measures() -> None:
    part = readable("imdb")
    figure = figures.grammar(part, TITLE)
    drawn(figure)
    assert figure.get_suptitle() == TITLE
    bits, speech = figure.axes
    assert [x for x, _ in points(bits)] == pytest.approx(sorted(part["bits"]), abs=1e-6)
    assert [x for x, _ in points(speech)] == pytest.approx(sorted(part["speech"]), abs=1e-6)
    assert "n = 1,500 to 1,760 words" in speech.get_title(loc="left")
    # The first setting stands at the top.
    assert max(points(bits), key=lambda point: point[1])[0] == part["bits"].iloc[0]
    names = [text.get_text() for text in bits.get_yticklabels()]
    assert len(names) == len(SETTINGS) and "stencil, window 9, sigma 1.0" in names
