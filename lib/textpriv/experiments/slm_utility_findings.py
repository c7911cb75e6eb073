"""What notebook 06 found, in sentences that its recorded numbers choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from textpriv.experiments.slm_utility import MILD, Sizes
from textpriv.report.difference import Finding
from textpriv.utility.prediction import worst_coverage

if TYPE_CHECKING:
    from textpriv.report.run import Run


def _told(run: Run, name: str, digits: int = 3) -> str:
    return run.measurement(name).told(f".{digits}f")


def _apart(run: Run, first: str, second: str, above: str, below: str) -> str:
    """Whether one measurement is above another, and by how much."""
    found = run.difference(first, second)
    said = found.says(above=above, below=below, undecided="undecided at this size")
    return f"{said}, {found}"


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


def models(run: Run) -> Finding:
    """Which of the two models summarizes originals better."""
    large, small = "similarity.llm.original", "similarity.slm.original"
    title = run.difference(large, small).says(
        above="The large model summarizes the originals better",
        below="The small model summarizes the originals better",
        undecided="Which model summarizes originals better is undecided at this size",
    )
    return Finding(
        title,
        f"Summaries of originals by the small one reach {_told(run, small)}, by the large one "
        f"{_told(run, large)}: the large one is {_apart(run, large, small, 'better', 'worse')}.",
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


def prediction(run: Run) -> Finding:
    """What features add to the mean at each epsilon."""
    r2 = "regression.{}.r2.by_document".format
    title = run.difference(r2("everything"), r2("eps_only")).says(
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
        f"{_told(run, r2(each))} {text} "
        f"({_apart(run, r2(each), r2('eps_only'), 'a gain', 'a loss')})"
        for each, text in {**looks, "everything": "with everything"}.items()
    )
    return Finding(
        title,
        f"R2 on unseen documents: {_told(run, r2('eps_only'))} from the mean at each epsilon, "
        f"{said}. By row, as the released code cuts its folds, all of A, B and C have "
        f"{_told(run, 'regression.all.r2.by_row')}.",
    )


def intervals(run: Run, sizes: Sizes) -> Finding:
    """Whether the intervals cover, and whether they are narrower than those of the mean."""
    width = "interval.{}.width.every".format
    trained = sizes.documents - -(-sizes.documents // sizes.folds)
    worst = worst_coverage(sizes.level, trained, sizes.folds)
    return Finding(
        "Intervals",
        f"At the {sizes.level:.0%} level they cover "
        f"{_told(run, 'interval.everything.covered.every')} of the rows of new documents; with "
        f"{trained} documents in {sizes.folds} folds theory guarantees {worst:.2f}. "
        f"They are {_told(run, width('everything'))} wide, those around the mean at each epsilon "
        f"{_told(run, width('eps_only'))}: "
        f"{_apart(run, width('everything'), width('eps_only'), 'wider', 'narrower')}. With the "
        f"paper's features they are {_told(run, width('all'))} wide: "
        f"{_apart(run, width('all'), width('eps_only'), 'wider', 'narrower')}.",
    )


def decision(run: Run, sizes: Sizes) -> Finding:
    """What is wasted by each rule at the middle threshold."""
    threshold = sizes.thresholds[len(sizes.thresholds) // 2]
    cost = f"decision.{{}}.{{}}.cost.at{threshold}".format
    alone = cost("eps_only", "predicted")
    said = " and ".join(
        f"{_told(run, cost(each, 'predicted'))} with {text} "
        f"({_apart(run, cost(each, 'predicted'), alone, 'more', 'less')})"
        for each, text in {"free": "the free features", "everything": "everything"}.items()
    )
    return Finding(
        "The decision",
        f"At a threshold of {threshold:g} all three kinds of waste sum to {_told(run, alone)} with "
        f"the mean at each epsilon, {said}; with the interval's lower end "
        f"{_told(run, cost('eps_only', 'low'))} and {_told(run, cost('everything', 'low'))} "
        f"({_apart(run, cost('everything', 'low'), cost('eps_only', 'low'), 'more', 'less')}).",
    )
