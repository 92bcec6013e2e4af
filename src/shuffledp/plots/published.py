"""The picture of a task's published results: every batch's estimates with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import percent
from shuffledp.plots.figures import BAND, BAR, DOTS_PER_INCH, INK, new_figure, save
from shuffledp.plots.fonts import set_plainly, shown_labels
from shuffledp.tasks.results import result_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LINES = 60


def plot_published(
    results: Sequence[Mapping[str, Any]], path: str | None = None, note: str = ""
) -> Figure:
    """The picture of published results, newest below, saved to a file if a path is given; `note`
    stands above it."""
    if not results:
        raise ParameterError("There is no published result yet; wait for the first batch.")
    lines = [(one["number"], line) for one in results for line in result_lines(one["result"])]
    lines = lines[-MOST_LINES:]
    figure, (axes,) = new_figure(high=max(2.4, 1.2 + 0.28 * len(lines)))
    for place, (_, line) in enumerate(lines):
        axes.plot([line.low, line.high], [place, place], color=BAND, linewidth=7)
        axes.plot([line.estimate], [place], "o", color=BAR, markersize=6)
    names = [f"batch {number}: {line.label}" for number, line in lines]
    texts, font, _ = shown_labels(names)
    axes.set_yticks(range(len(lines)), texts)
    set_plainly(axes.get_yticklabels(), font)
    axes.invert_yaxis()
    last = results[-1]["result"]
    title = f"estimates with {percent(last['confidence'])} intervals"
    axes.set_title("\n".join(filter(None, (note, title))), color=INK)
    axes.set_xlabel(f"ε = {last['epsilon']:g} for every batch")
    return save(figure, path)


def published_png(results: Sequence[Mapping[str, Any]], note: str = "") -> bytes:
    """The same picture as the bytes of a PNG file."""
    content = BytesIO()
    plot_published(results, note=note).savefig(content, dpi=DOTS_PER_INCH, format="png")
    return content.getvalue()
