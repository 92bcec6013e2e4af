"""The status page of a server: tasks, waiting reports, batches, and results with their intervals.

The templates are in `service/templates`, the style sheet and the script in `service/pages`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shuffledp.service.http.templates import static, templates
from shuffledp.tasks.results import result_lines

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}
STYLE = static("shuffledp.service", "page.css")
SCRIPT = static("shuffledp.service", "page.js")
MARKED_ANOMALY = 5.0
"""A result is marked if its anomaly is more than this many standard deviations."""
MOST_LINES = 50
MOST_BATCHES = 12
_PAGES = templates("shuffledp.service")


class ResultRow(NamedTuple):
    """One line of the table of results."""

    name: str
    estimate: float
    low: float
    high: float
    anomaly: float
    marked: bool


def render(status: dict[str, Any], about: str) -> str:
    """The status page of a role; `about` says in one line what the role does."""
    return _PAGES.get_template("status.html").render(
        title=status["role"],
        about=about,
        tasks=status["tasks"],
        most_batches=MOST_BATCHES,
        result_rows=result_rows,
        across=across,
    )


def result_rows(results: list[dict[str, Any]]) -> list[ResultRow]:
    """The newest results: one row for a single number, else one for each bucket."""
    rows = []
    for published in results:
        lines, z = result_lines(published["result"]), published["anomaly"]
        for line in lines:
            batch = str(published["number"])
            name = batch if len(lines) == 1 else f"{batch} · {line.label}"
            marked = abs(z) > MARKED_ANOMALY
            rows.append(ResultRow(name, line.clipped, line.low, line.high, z, marked))
    return rows[-MOST_LINES:]


def across(value: float, low: float, high: float) -> str:
    """The position of a value on the scale from low to high, in percent of a picture's width."""
    return f"{3 + 94 * (value - low) / ((high - low) or 1.0):.1f}"
