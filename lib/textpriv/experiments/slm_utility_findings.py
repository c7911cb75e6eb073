"""What notebook 06 found, in sentences that its recorded numbers choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from textpriv.experiments.slm_utility import MILD, Sizes, knee_verdict
from textpriv.prediction import worst_coverage

if TYPE_CHECKING:
    from textpriv.report.run import Run


def findings(
    run: Run,
    sizes: Sizes,
    grid: Sequence[float],
    *,
    knee: pd.DataFrame,
    headlines: pd.DataFrame,
    corrected: pd.DataFrame,
) -> str:
    """A list in Markdown.

    Parameters
    ----------
    run : has recorded every table of the notebook
    grid : the epsilons, ascending
    knee, headlines, corrected : tables of `slm_utility`
    """
    bullets = {
        "Which model is better": _models(run),
        "Tokens changed": knee_verdict(knee),
        "Losses": _losses(run, grid, set(headlines["name"])),
        "Prediction": _prediction(run),
        "Regressors": _regressors(run, sizes),
        "Too much or too little promised": _misjudged(run),
        "Intervals": _intervals(run, sizes),
        "The decision": _decision(run, sizes),
        "Another mechanism": " ".join(_transfer(run, name) for name in sizes.transfer),
        "Grammar corrected": _corrected(run, sizes, corrected),
    }
    return "\n".join(f"- **{title}.** {text}" for title, text in bullets.items())


def _told(run: Run, name: str) -> str:
    found = run.measurement(name)
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _apart(run: Run, first: str, second: str, above: str, below: str) -> str:
    """Whether one measurement is above another, and by how much."""
    found = run.difference(first, second)
    said = found.says(above=above, below=below, undecided="undecided at this size")
    return f"{said}, {found}"


def _models(run: Run) -> str:
    large, small = "similarity.llm.original", "similarity.slm.original"
    return (
        f"Summaries of originals by the small one reach {_told(run, small)}, by the large one "
        f"{_told(run, large)}: the large one is {_apart(run, large, small, 'better', 'worse')}."
    )


def _losses(run: Run, grid: Sequence[float], recorded: set[str]) -> str:
    first, last = f"loss.llm.eps{grid[0]:g}", f"loss.llm.eps{grid[-1]:g}"
    knees = [name for name in ("knee.slm.eps", "knee.llm.eps") if name in recorded]
    told = "; ".join(f"{name} {_told(run, name)}" for name in knees) or "none on this grid"
    text = (
        f"The large model's mean loss is {_told(run, first)} at the smallest epsilon and "
        f"{_told(run, last)} at the largest. Knees, in epsilon: {told}."
    )
    if "loss.llm.mild" in recorded:
        mild = _apart(run, "loss.llm.mild", "loss.slm.mild", "greater", "smaller")
        text += (
            f" Where at most {MILD:.0%} of the tokens change, its loss compared with the small "
            f"model's: {mild}."
        )
    return text


def _prediction(run: Run) -> str:
    def r2(features: str, by: str = "document") -> str:
        return f"regression.{features}.r2.by_{by}"

    def over(features: str) -> str:
        return _apart(run, r2(features), r2("eps_only"), "a gain", "a loss")

    return (
        f"R2 on unseen documents: {_told(run, r2('eps_only'))} from the mean at each epsilon, "
        f"{_told(run, r2('all'))} with the small model ({over('all')}), {_told(run, r2('free'))} "
        f"with free features instead ({over('free')}), {_told(run, r2('everything'))} with "
        f"everything ({over('everything')}). By row, as the released code cuts its folds, all of "
        f"A, B and C have {_told(run, r2('all', 'row'))}."
    )


def _regressors(run: Run, sizes: Sizes) -> str:
    def r2(name: str, features: str = "all") -> str:
        return f"regressor.{name}.{features}.r2.by_document"

    best = max(sizes.regressors, key=lambda name: run.measurement(r2(name)).value)
    text = (
        f"Of {len(sizes.regressors)}, {best} has the highest R2 with the small model, "
        f"{_told(run, r2(best))}."
    )
    if "boosting" in sizes.regressors:
        alone = r2("boosting", "no_bc")
        with_it = _apart(run, r2("boosting"), alone, "a gain", "a loss")
        text += (
            f" Boosting, the paper's, has {_told(run, r2('boosting'))}, and {_told(run, alone)} "
            f"without the small model ({with_it})."
        )
    return text


def _misjudged(run: Run) -> str:
    def shares(features: str) -> str:
        kinds = ("optimistic", "pessimistic")
        return " and ".join(_told(run, f"misjudged.{features}.{k}.by_document") for k in kinds)

    return (
        f"By more than 0.1: {shares('everything')} of the rows; from the mean at each epsilon "
        f"{shares('eps_only')}."
    )


def _intervals(run: Run, sizes: Sizes) -> str:
    width = "interval.{}.width.every".format
    trained = sizes.documents - -(-sizes.documents // sizes.folds)
    worst = worst_coverage(sizes.level, trained, sizes.folds)
    return (
        f"Those of {sizes.level:.0%} cover {_told(run, 'interval.everything.covered.every')} of "
        f"new documents' rows; with {trained} documents in {sizes.folds} folds theory guarantees "
        f"{worst:.2f}. They are {_told(run, width('everything'))} wide, those around the mean at "
        f"each epsilon {_told(run, width('eps_only'))}: "
        f"{_apart(run, width('everything'), width('eps_only'), 'wider', 'narrower')}."
    )


def _decision(run: Run, sizes: Sizes) -> str:
    threshold = sizes.thresholds[len(sizes.thresholds) // 2]

    def cost(features: str, rule: str = "predicted") -> str:
        return f"decision.{features}.{rule}.cost.at{threshold}"

    def over(features: str) -> str:
        return _apart(run, cost(features), cost("eps_only"), "more", "less")

    return (
        f"At a threshold of {threshold:g} all three kinds of waste sum to "
        f"{_told(run, cost('eps_only'))} with the mean at each epsilon, "
        f"{_told(run, cost('free'))} with the free features ({over('free')}) and "
        f"{_told(run, cost('everything'))} with everything ({over('everything')}); with the "
        f"interval's lower end {_told(run, cost('eps_only', 'low'))} and "
        f"{_told(run, cost('everything', 'low'))}."
    )


def _transfer(run: Run, mechanism: str) -> str:
    error = f"transfer.{mechanism}.{{}}.{{}}.rmse".format
    elsewhere, own = error("no_epsilon", "elsewhere"), error("no_epsilon", "own")
    return (
        f"Root mean squared error on {mechanism} without epsilon: {_told(run, elsewhere)} learned "
        f"elsewhere, {_told(run, own)} learned on it "
        f"({_apart(run, elsewhere, own, 'more', 'less')}); with epsilon in the wrong units "
        f"{_told(run, error('all', 'elsewhere'))}."
    )


def _corrected(run: Run, sizes: Sizes, corrected: pd.DataFrame) -> str:
    worth = "correction.summary.{}.eps{:g}".format
    said = "; ".join(
        f"at epsilon {epsilon:g} "
        + _apart(run, worth("corrected", epsilon), worth("as_is", epsilon), "better", "worse")
        for epsilon in corrected["epsilon"].unique()
    )
    return (
        f"Summaries of the corrected text, compared with those of the text as it is, on "
        f"{sizes.corrected_documents} documents: {said}."
    )
