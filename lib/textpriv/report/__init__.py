"""What a notebook needs to report: figures, measurements, and the papers' claims.

>>> from textpriv import report
>>> run = report.begin("02_ann_vs_exact", profile, seed, overrides)
>>> sizes = run.sizes(ann_vs_exact.Sizes)
>>> run.save_figure("fig02_kept_words", figure, data, alt="Share of words kept ...")
>>> run.record("table2.hockey.eps19.exact.kept", 0.988, low=0.979, high=0.993, n=1000)
>>> run.finish()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.display import Markdown

    from textpriv.report.run import Run

DEFAULT_SEED = 7
"""The seed of every notebook's parameters cell, and of the committed results."""


def begin(
    notebook: str,
    profile: str = "default",
    seed: int | None = DEFAULT_SEED,
    overrides: Mapping[str, Any] | None = None,
) -> Run:
    """Start a notebook's run: settings, random streams, clock and figure style.

    Parameters
    ----------
    notebook : the notebook's name, "02_ann_vs_exact"
    profile, seed, overrides : the three values of its parameters cell
    """
    from textpriv.report.run import Run  # late: the runner needs no pandas or matplotlib

    return Run(notebook, profile, seed, dict(overrides or {}))


def versions() -> Markdown:
    """Versions of Python and of the libraries that results depend on, in one line."""
    from IPython.display import Markdown

    from textpriv.report import provenance

    return Markdown(", ".join(f"{name} {each}" for name, each in provenance.versions().items()))
