"""What notebook 06 found, in sentences that its recorded numbers choose."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from textpriv.experiments.slm_utility import MILD, Sizes
from textpriv.report import claims
from textpriv.report.difference import Finding
from textpriv.report.run import Run
from textpriv.utility.prediction import worst_coverage


def _told(run: Run, name: str, digits: int = 3) -> str:
    return run.measurement(name).told(f".{digits}f")


def _apart(run: Run, first: str, second: str, above: str, below: str) -> str:
    """Whether one measurement is above another, and by how much."""
    difference = run.difference(first, second)
    said = difference.says(above=above, below=below, undecided="undecided at this size")
    return f"{said}, {difference}"


def knee(table: pd.DataFrame) -> Finding:
    """Where the prediction of `slm_utility.knee` misses, by the intervals of the difference."""
    off = table[table["what"] == "difference"].sort_values("epsilon")
    missed = off[(off["low"] > 0) | (off["high"] < 0)]
    most = off.loc[off["value"].abs().idxmax()]
    where = "; ".join(
        f"{row.epsilon:g}: {row.value:+.4f}, {row.low:+.4f} to {row.high:+.4f}"
        for row in missed.itertuples()
    )
    good = f"{len(off) - len(missed)} of {len(off)} epsilons"
    text = (
        f"The prediction lies inside the 95% interval at {good}, which share one draw of the noise"
        f"{where and f' (outside at {where})'}; the largest difference is {most['value']:+.4f} at "
        f"epsilon {most['epsilon']:g}."
    )
    return Finding(f"The share of changed tokens is predicted within the error at {good}", text)


def models(run: Run, *, people: bool) -> Finding:
    """Which model's summaries lie nearer to the originals, and where those by people lie."""
    large, small, theirs = (f"similarity.{who}.original" for who in ("llm", "slm", "people"))
    title = run.difference(large, small).says(
        above="The large model's summaries lie nearer to the originals",
        below="The small model's summaries lie nearer to the originals",
        undecided="Whose summaries lie nearer to the originals is undecided at this size",
    )
    written = f"; those that people wrote reach {_told(run, theirs)}" if people else ""
    return Finding(
        title,
        f"Summaries of originals by the small one reach {_told(run, small)}, by the large one "
        f"{_told(run, large)}: the large one's lie "
        f"{_apart(run, large, small, 'nearer', 'farther')}{written}.",
    )


def losses(run: Run, epsilons: Sequence[float], headlines: pd.DataFrame) -> Finding:
    """What is lost along the grid, ascending, and where it comes back, if it does."""
    recorded = set(headlines["name"])
    first, last = f"loss.llm.eps{epsilons[0]:g}", f"loss.llm.eps{epsilons[-1]:g}"
    title = run.difference(first, last).says(
        above="The large model's loss falls as epsilon grows",
        below="The large model's loss rises as epsilon grows",
        undecided="Whether the large model's loss falls is undecided at this size",
    )
    places = {"small": "knee.slm.eps", "large": "knee.llm.eps"}
    knees = [f"at epsilon {_told(run, name, 1)} for the {size} model"
             for size, name in places.items() if name in recorded]  # fmt: skip
    told = " and ".join(knees) or "nowhere on this grid"
    text = (
        f"The large model's mean loss is {_told(run, first)} at the smallest epsilon and "
        f"{_told(run, last)} at the largest. The knee lies {told}."
    )
    if "loss.llm.mild" in recorded:
        mild = _apart(run, "loss.llm.mild", "loss.slm.mild", "greater", "smaller")
        text += (
            f" Where at most {MILD:.0%} of the tokens change, its loss compared with the small "
            f"model's: {mild}."
        )
    return Finding(title, text)


def prediction(run: Run, spread: float) -> Finding:
    """What features add to the mean at each epsilon; `spread` is the truth's standard deviation."""
    r2, alone = "regression.{}.r2.by_document".format, "regression.eps_only.r2.by_document"
    title = run.difference(r2("everything"), alone).says(
        above="The text predicts better than its epsilon alone",
        below="The text predicts worse than its epsilon alone",
        undecided="Whether the text improves the prediction is undecided at this size",
    )
    looks = {
        "all": "with the small model",
        "free": "with free features instead",
        "text": "from the similarity of the two texts alone",
    }
    said = ", ".join(
        f"{_told(run, r2(each))} {text} ({_apart(run, r2(each), alone, 'a gain', 'a loss')})"
        for each, text in {**looks, "everything": "with everything"}.items()
    )
    left = 1 - run.measurement(alone).value
    explained = run.difference(r2("everything"), alone).value / left
    printed = {each.id: each.value for each in claims.for_notebook("06_slm_utility")}
    theirs, error = (printed[f"carpentier.table1.all.{each}"] for each in ("r2", "rmse"))
    assert theirs is not None and error is not None  # they are printed
    return Finding(
        title,
        f"R2 on unseen documents: {_told(run, alone)} from the mean at each epsilon, {said}: "
        f"everything explains {explained:.0%} of what epsilon leaves open. The paper's R2 of "
        f"{theirs:.2f} with an error of {error:.2f} implies a standard deviation of the truth "
        f"of {error / (1 - theirs) ** 0.5:.2f}. Here it is {spread:.2f}, and the error of "
        "this regressor with the paper's features and folds "
        f"{_told(run, 'regression.all.rmse.by_row')}.",
    )


def small_model(run: Run) -> Finding:
    """What B and C add by the paper's regressor, in its folds and on unseen documents."""
    r2 = "regressor.boosting.{}.r2.by_document".format
    title = run.difference(r2("all"), r2("no_bc")).says(
        above="With the paper's regressor B and C help on unseen documents",
        below="With the paper's regressor B and C do harm on unseen documents",
        undecided="Whether B and C help the paper's regressor is undecided at this size",
    )
    by_row, by_document = (_told(run, f"boosting.gain.r2.by_{by}") for by in ("row", "document"))
    return Finding(
        title,
        f"With boosting, as the release has it, what the small model says adds {by_row} to the R2 "
        f"of epsilon alone in the release's folds by row, and {by_document} on unseen documents: "
        f"{_told(run, r2('no_bc'))} with A alone, {_told(run, r2('no_c'))} with A and B, "
        f"{_told(run, r2('no_b'))} with A and C.",
    )


def intervals(run: Run, sizes: Sizes) -> Finding:
    """Whether the intervals cover, and how wide they are."""
    width = "interval.{}.width.every".format
    trained = sizes.documents - -(-sizes.documents // sizes.folds)
    worst = worst_coverage(sizes.level, trained, sizes.folds)
    return Finding(
        "Intervals",
        f"At the {sizes.level:.0%} level they cover "
        f"{_told(run, 'interval.everything.covered.every')} of the rows of new documents; with "
        f"{trained} documents in {sizes.folds} folds theory guarantees {worst:.2f}. All intervals "
        f"of a document, one for each epsilon, cover together in "
        f"{_told(run, 'interval.everything.together.every')} of the documents. The mean width is "
        f"{_told(run, width('everything'))} with everything, {_told(run, width('all'))} with the "
        f"paper's features and {_told(run, width('eps_only'))} around the mean at each epsilon.",
    )


def decision(run: Run, sizes: Sizes) -> Finding:
    """What is wasted by each rule at the middle threshold, and how often it is more or less."""
    threshold = sizes.thresholds[len(sizes.thresholds) // 2]
    cost = f"decision.{{}}.{{}}.cost.at{threshold}".format
    fixed = cost("eps_only", "cost")
    rules = {
        "everything.predicted": "sending where the prediction reaches it costs",
        "everything.margin": "with a margin",
        "everything.cost": "choosing by the cost predicted from everything",
        "all.cost": "from what the small model makes of it",
        "text.cost": "from the similarity of the two texts",
    }
    counted = "; ".join(
        f"{text} {_counted(run, sizes, rule, 'eps_only.cost')}" for rule, text in rules.items()
    )
    said = ", ".join(
        f"{_told(run, cost(*rule))} {text} ({_apart(run, cost(*rule), fixed, 'more', 'less')})"
        for rule, text in {
            ("everything", "predicted"): "to send where the predicted worth reaches the threshold",
            ("everything", "margin"): "with a margin chosen on other documents",
            ("everything", "cost"): "to choose by the predicted cost",
            ("text", "cost"): "to choose by the cost that the similarity of the two texts predicts",
        }.items()
    )
    where = f"At a threshold of {threshold:g}"
    title = run.difference(cost("everything", "predicted"), fixed).says(
        above=f"{where}, to send where the prediction reaches it costs more than one epsilon",
        below=f"{where}, to send where the prediction reaches it costs less than one epsilon",
        undecided=f"{where}, to send by the prediction or at one epsilon: undecided",
    )
    return Finding(
        title,
        f"{where} all three kinds of waste sum to {_told(run, fixed)} at one epsilon for all "
        f"documents, the cheapest on other documents. With everything that is known of the text "
        f"it costs {said}. Of {len(sizes.thresholds)} thresholds, each by itself, compared with "
        f"one epsilon: {counted}.",
    )


def _counted(run: Run, sizes: Sizes, one: str, other: str) -> str:
    """At how many thresholds features under a rule cost more, and less, than others do."""
    ends = [f"decision.{each}.cost.at{{}}" for each in (one, other)]
    differences = [run.difference(*(end.format(at) for end in ends)) for at in sizes.thresholds]
    said = [difference.says(above="more", below="less", undecided="") for difference in differences]
    return f"significantly more at {said.count('more')}, less at {said.count('less')}"
