"""The pictures of notebook 03 on made-up tables: what they draw is what the tables hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
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

from textpriv.experiments import lossy, lossy_attacks
from textpriv.experiments import lossy_figures as figures
from textpriv.experiments.lossy import MAPS, PLAIN, STENCILS, Setting
from textpriv.report.figures import label, use_style

matplotlib.use("Agg")

CORPORA = ("rotten-tomatoes", "imdb")
SIZES: Any = SimpleNamespace(
    windows=(5, 7, 9, 11), sigmas=(0.2, 0.6, 0.8, 1.0), crossing=(9, 0.2), etas=(100.0, 150.0)
)
SETTINGS = lossy.crossing(SIZES)
TUNED = ("plain", "high-freq", "2-random", "stencil-w9-s0.8", "punctuated-stencil-w9-s1.0")
RIDGES = (0.0, 0.001, 0.01, 0.05, 0.2, 1.0)
OF_MAPS = {"2-random": 0.83, "3-random": 0.76, "high-freq": 0.88, "low-freq": 0.55}


# --- Made-up tables -----------------------------------------------------------------------------


def rate(value: float, n: int) -> dict[str, float]:
    reach = 1.96 * (value * (1 - value) / n) ** 0.5 + 0.002
    return {"value": value, "low": max(value - reach, 0), "high": min(value + reach, 1), "n": n}


def one(corpus: str, setting: Setting, **rest: Any) -> dict[str, Any]:
    return {"corpus": corpus, "label": setting.label, **asdict(setting), **rest}


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
    return {"noise": 0.3 + setting.eta / 300, PLAIN: 1.0}.get(setting.kind, 0.02)


def accuracies(corpora: Sequence[str], *, tuned: bool = False) -> pd.DataFrame:
    """As `lossy_utility.probes` or `tuned`."""
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
    """As `lossy_attacks.attacked`."""
    return pd.DataFrame(
        [
            one(corpus, setting, attack=attack, top=top)
            | rate(value * (0.97 if corpus == "imdb" else 1), 2600 if corpus == "imdb" else 3100)
            for corpus in corpora
            for setting in settings
            for (attack, top), value in made_up_success(setting).items()
        ]
    )


def ridges() -> pd.DataFrame:
    """As `lossy_attacks.ridges`."""
    rows = []
    for sigma in SIZES.sigmas:
        setting = Setting("punctuated-stencil", 9, sigma)
        for ridge in RIDGES:
            for top in (1, 5):
                value = 0.5 + 0.25 * sigma - 0.06 * np.log10((ridge + 1e-4) / 0.03) ** 2
                found = rate(max(value - 0.1 * (top == 1), 0.01), 3100)
                rows.append(
                    {"label": setting.label, **asdict(setting), "ridge": ridge, "top": top, **found}
                )
    return pd.DataFrame(rows)


def conditions() -> pd.DataFrame:
    """As `lossy_attacks.conditioning`."""
    rng = np.random.default_rng(0)
    rows = []
    for setting in lossy.grid(SIZES):
        for length in (20, 62, 126):
            value = 1 + 70 * setting.sigma**6
            if setting.kind == "punctuated-stencil":
                value = 40 * (1 + length / 20) * float(rng.lognormal(0, 0.7)) / setting.sigma
            rows.append(
                {"label": setting.label, **asdict(setting), "length": length, "condition": value}
            )
    return pd.DataFrame(rows)


def oracles(corpora: Sequence[str]) -> pd.DataFrame:
    """As `lossy_attacks.oracle_beam`."""
    return pd.DataFrame(
        [
            {"corpus": corpus, "kind": kind, "measure": measure}
            | rate(value - 0.2 * (corpus == "imdb"), 10 if corpus == "imdb" else 50)
            for corpus in corpora
            for kind, base in (("2-random", 0.8), ("3-random", 0.7), ("high-freq", 0.85))
            for measure, value in (("mrr", base), ("pr5", base + 0.1), ("token_success", 0.9))
        ]
    )


def readable(corpora: Sequence[str]) -> pd.DataFrame:
    """As `lossy_attacks.readable`."""
    rows = []
    for corpus in corpora:
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
    table = figures.published(CORPORA)
    assert list(table.columns) == ["label", "corpus", "quantity", "value"]
    assert set(table["corpus"]) == set(CORPORA)
    values = table.set_index(["label", "corpus", "quantity"])["value"]
    assert values.index.is_unique and values.notna().all()
    assert values["stencil-w9-s0.8", "imdb", "accuracy.test"] == 0.902  # Table 4, before Table 5
    assert values["noise-150", "rotten-tomatoes", "pr5.naive_skip"] == 0.75
    assert values["2-random", "imdb", "unchanged"] == 0.5
    assert values["high-freq", "imdb", "oracle.mrr"] == 0.63
    assert set(figures.published(["imdb"])["corpus"]) == {"imdb"}
    known = {setting.label for setting in SETTINGS}
    assert set(table["label"]) <= known


def test_accuracy_draws_every_setting(corpora: tuple[str, ...]) -> None:
    probed, tuned = accuracies(corpora), accuracies(corpora[:1], tuned=True)
    figure = figures.accuracy(probed, tuned)
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
    figure = figures.accuracy(probed, probed.iloc[:0])
    assert len(points(figure.axes[0])) == 12  # six settings in two scenarios


def test_sigma_window_draws_the_crossing(corpora: tuple[str, ...]) -> None:
    table = accuracies(corpora)
    figure = figures.sigma_window(table)
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
    table = successes(corpora, lossy.grid(SIZES))
    figure = figures.attackers(table, 5)
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


def test_attackers_without_language_model_or_second_guess() -> None:
    table = successes(CORPORA[:1])
    few = table[table["attack"].isin([lossy_attacks.NAIVE, lossy_attacks.LANGUAGE])]
    assert legend(figures.attackers(few[few["attack"] == "naive"], 5)) == {label("naive")}
    figure = figures.attackers(few, 1)
    assert set(lines(figure.axes[0])) == {label("naive"), label("deconvolution_lm")}
    assert "that are guessed" in figure.axes[0].get_ylabel()


def test_heat_writes_every_cell() -> None:
    table = successes(CORPORA, lossy.grid(SIZES))
    figure = figures.heat(table)
    drawn(figure)
    assert len(figure.axes) == 5  # two attacks on two stencils, one colour bar
    part = table[(table["corpus"] == CORPORA[0]) & (table["attack"] == "deconvolution")]
    part = part[(part["kind"] == "punctuated-stencil") & (part["top"] == 5)]
    grid = part.pivot(index="sigma", columns="window", values="value")
    np.testing.assert_allclose(figure.axes[2].images[0].get_array(), grid)
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts == [f"{value:.0%}" for value in grid.to_numpy().ravel()]
    alone = figures.heat(table[table["attack"] != "deconvolution"])
    assert len(alone.axes) == 3


def test_heat_leaves_a_missing_cell_empty() -> None:
    settings = [each for each in lossy.grid(SIZES) if each.label != "stencil-w5-s0.2"]
    figure = figures.heat(successes(CORPORA[:1], settings))
    assert [len(ax.texts) for ax in figure.axes[:4]] == [16, 15, 16, 15]


def test_ridge_sets_zero_apart() -> None:
    table, conditioning = ridges(), conditions()
    figure = figures.ridge(table, conditioning)
    drawn(figure)
    left, right = figure.axes
    part = table[(table["top"] == 5) & (table["sigma"] == 0.8)]
    line = lines(left)["sigma 0.8"]
    np.testing.assert_allclose(line.get_xdata(), RIDGES[1:])
    np.testing.assert_allclose(line.get_ydata(), part["value"][1:])
    none = table[(table["top"] == 5) & (table["ridge"] == 0)]
    assert [y for _, y in points(left)] == pytest.approx(sorted(none["value"]), abs=1e-6)
    assert {x for x, _ in points(left)} == {0.001 / 8}
    assert [text.get_text() for text in left.get_xticklabels()][0] == "0"

    medians = conditioning.groupby(["kind", "window", "sigma"])["condition"].median()
    found = [line for line in right.lines if line.get_linestyle() in ("-", ":")]
    found = [line for line in found if len(line.get_xdata()) == 4]
    assert len(found) == 8  # windows by stencils
    heights = sorted(float(y) for line in found for y in np.asarray(line.get_ydata()))
    assert heights == pytest.approx(sorted(medians))


def test_ridge_bounds_what_is_singular_and_takes_one_stencil() -> None:
    conditioning = conditions()
    conditioning = conditioning[conditioning["kind"] == "punctuated-stencil"]
    figure = figures.ridge(ridges(), conditioning.assign(condition=1e300))
    figure.canvas.draw()
    assert figure.axes[1].get_ylim()[1] < 1e20


def test_oracle_beside_the_paper(corpora: tuple[str, ...]) -> None:
    table, paper = oracles(corpora), figures.published(corpora)
    figure = figures.oracle(table, paper)
    drawn(figure)
    for (corpus, measure), ax in zip(
        [(corpus, measure) for corpus in corpora for measure in ("mrr", "pr5")],
        figure.axes,
        strict=True,
    ):
        ours = table[(table["corpus"] == corpus) & (table["measure"] == measure)]
        assert [x for x, _ in points(ax, "filled")] == pytest.approx(sorted(ours["value"]))
        theirs = paper[(paper["corpus"] == corpus) & (paper["quantity"] == f"oracle.{measure}")]
        assert [x for x, _ in points(ax, "hollow")] == sorted(theirs["value"])
    one_map = figures.oracle(table[table["kind"] == "2-random"], paper)
    assert len(points(one_map.axes[0])) == 2


def test_frontier_joins_the_two_attackers(corpora: tuple[str, ...]) -> None:
    utility, attacks, paper = accuracies(corpora), successes(corpora), figures.published(corpora)
    figure = figures.frontier(utility, attacks, paper)
    drawn(figure)
    utility = utility[utility["scenario"] == "all"]
    for ax, corpus in zip(figure.axes, corpora, strict=True):
        accuracy = utility[utility["corpus"] == corpus].set_index("label")["value"]
        hits = attacks[attacks["corpus"] == corpus].set_index(["label", "attack", "top"])["value"]

        def point(setting: str, share: float, accuracy: Any = accuracy) -> tuple[float, float]:
            return round(share, 6), round(float(accuracy[setting]), 6)

        hollow, filled = points(ax, "hollow"), points(ax, "filled")
        assert len(hollow) == len(filled) == len(SETTINGS)
        name = "punctuated-stencil-w9-s1.0"
        assert point(name, hits[name, "naive_skip", 5]) in hollow
        assert point(name, hits[name, "deconvolution_lm", 5]) in filled
        assert point("2-random", 0.51) in hollow
        assert point("2-random", hits["2-random", "noisy_channel", 1]) in filled
        assert point("plain", 1.0) in hollow and point("plain", 1.0) in filled

        crosses = {only(line) for line in ax.lines if line.get_marker() == "x"}
        printed = paper[paper["corpus"] == corpus].set_index(["label", "quantity"])["value"]
        assert (printed[name, "pr5.naive_skip"], printed[name, "accuracy.all"]) in crosses
        assert (printed["3-random", "unchanged"], printed["3-random", "accuracy.all"]) in crosses
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {"eta 100", "eta 150", "window 11, sigma 0.2"} <= texts


def test_frontier_without_language_models_and_some_attacks() -> None:
    utility, attacks = accuracies(CORPORA[:1]), successes(CORPORA[:1])
    few = attacks[attacks["attack"].isin(["naive", "naive_skip", "context_free"])]
    figure = figures.frontier(utility, few[few["kind"] != "noise"], figures.published(CORPORA))
    assert len(points(figure.axes[0], "filled")) == len(SETTINGS) - len(SIZES.etas)
    twice = figures.frontier(utility, pd.concat([attacks, attacks]), figures.published(CORPORA))
    assert len(points(twice.axes[0], "filled")) == len(SETTINGS)


def test_grammar_draws_both_measures(corpora: tuple[str, ...]) -> None:
    table = readable(corpora)
    figure = figures.grammar(table)
    drawn(figure)
    for number, corpus in enumerate(corpora):
        bits, speech = figure.axes[2 * number : 2 * number + 2]
        part = table[table["corpus"] == corpus]
        assert [x for x, _ in points(bits)] == pytest.approx(sorted(part["bits"]), abs=1e-6)
        assert [x for x, _ in points(speech)] == pytest.approx(sorted(part["speech"]), abs=1e-6)
        assert "n = 1,500 to 1,760 words" in speech.get_title(loc="left")
        # The first setting stands at the top.
        assert max(points(bits), key=lambda point: point[1])[0] == part["bits"].iloc[0]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(names) == len(SETTINGS) and "stencil, window 9, sigma 1.0" in names
    assert {setting.kind for setting in SETTINGS} == {PLAIN, "noise", *MAPS, *STENCILS}
