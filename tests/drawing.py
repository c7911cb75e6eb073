"""What tests read off a drawn figure."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from matplotlib.figure import Figure

from textpriv.report.figures import wrap_titles


def drawn(figure: Figure) -> None:
    """It can be drawn, and no panel with its labels covers another, the legend, or the margin."""
    wrap_titles(figure)  # as when it is saved
    figure.canvas.draw()
    boxes: list[Any] = [each.get_tightbbox() for each in (*figure.axes, *figure.legends)]
    for first, second in combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, up) < 1  # pixels
    for box in boxes:
        assert box.x0 > -1 and box.x1 < figure.bbox.width + 1
