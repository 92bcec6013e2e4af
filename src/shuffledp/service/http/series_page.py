"""The page of a series: for every label a chart with intervals, and a table.

The template is `service/templates/series.html`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shuffledp.numbers.exact import counted
from shuffledp.service.http.templates import templates
from shuffledp.tasks.results import result_lines

MOST_LABELS = 50
MOST_OPEN_TABLES = 3
"""With more labels than this, their tables are folded."""
TOP, BOTTOM = 8.0, 84.0
"""The heights in percent between which values are drawn; dates are written below."""
LEFT, RIGHT = 10.0, 97.0
STEPS = (1.0, 2.0, 5.0, 10.0)


class Point(NamedTuple):
    """One published number of a series."""

    place: int
    """The number of its task in the series, from 1."""
    across: float
    """Its position within its period, from 0 to 1."""
    day: str
    batch: int
    estimate: float
    low: float
    high: float
    reports: int
    anomaly: float
    implausible: bool


class Scale(NamedTuple):
    """The smallest and largest value of a chart, and the values at its grid lines."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def height(self, value: float) -> float:
        """Where a value is drawn, in percent from the top."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return BOTTOM - (BOTTOM - TOP) * share


class Date(NamedTuple):
    """A date below a chart."""

    x: float
    """Its position in percent."""
    anchor: str
    """Which end of the text is there: start, middle or end."""
    day: str


def day(seconds: int) -> str:
    """The day of a moment, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


_PAGES = templates("shuffledp.service")
_PAGES.filters["day"] = day


def render_series(series: Mapping[str, Any]) -> str:
    """The page of a series, whose JSON is given."""
    points = points_of(series)
    labels = dict(itertools.islice(points.items(), MOST_LABELS))
    every = list(itertools.chain.from_iterable(labels.values()))
    end = series["begin"] + series["tasks"] * series["seconds"]
    return _PAGES.get_template("series.html").render(
        title=series["name"],
        about=f"one question, asked every {series['every']}",
        series=series,
        first_day=day(series["begin"]),
        last_day=day(end),
        published=sum(bool(member["results"]) for member in series["members"]),
        labels=labels,
        more=len(points) - len(labels),
        most_open_tables=MOST_OPEN_TABLES,
        scale=_scale_of_all(every),
        dates=list(_dates(series)),
        x=lambda point: f"{_x(point.place - 1 + point.across, series['tasks']):.2f}",
        joined=_joined,
        described=_described,
    )


def points_of(series: Mapping[str, Any]) -> dict[str, list[Point]]:
    """The published numbers of a series by label, in the order of their dates."""
    found: dict[str, list[Point]] = {}
    for member in series["members"]:
        results = member["results"]
        for order, published in enumerate(results):
            for line in result_lines(published["result"]):
                found.setdefault(line.label, []).append(
                    Point(
                        member["place"],
                        (order + 0.5) / len(results),
                        day(member["not_before"]),
                        published["number"],
                        line.clipped,
                        line.low,
                        line.high,
                        published["reports"],
                        published["anomaly"],
                        published["implausible"],
                    )
                )
    return found


def scale_of(low: float, high: float) -> Scale:
    """A scale that covers these values, with grid lines at round numbers."""
    span = (high - low) or max(abs(high), 1.0)
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in STEPS if one * power >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    return Scale(first * step, last * step, tuple(k * step for k in range(first, last + 1)))


def _scale_of_all(points: Sequence[Point]) -> Scale | None:
    """One scale for all charts of a page; None if nothing is published."""
    if not points:
        return None
    return scale_of(min(one.low for one in points), max(one.high for one in points))


def _described(label: str, points: Sequence[Point]) -> str:
    """A chart in words."""
    ends = [points[0]] if len(points) == 1 else [points[0], points[-1]]
    said = ", then ".join(
        f"{one.estimate:,.1f} from {one.day} on (interval {one.low:,.1f} to {one.high:,.1f})"
        for one in ends
    )
    return f"{label}, {counted(len(points), 'result')}: {said}. The table lists them all."


def _x(periods: float, tasks: int) -> float:
    """The position in percent of a moment, given in periods since the series began."""
    return LEFT + (RIGHT - LEFT) * periods / tasks


def _dates(series: Mapping[str, Any]) -> Iterator[Date]:
    """The first day of the first, middle and last period."""
    tasks = series["tasks"]
    for place in sorted({0, (tasks - 1) // 2, tasks - 1}) if tasks > 2 else range(tasks):
        anchor = "end" if place == tasks - 1 and tasks > 1 else "start" if place == 0 else "middle"
        when = series["begin"] + place * series["seconds"]
        yield Date(_x(place + 0.5, tasks), anchor, day(when))


def _joined(points: Sequence[Point]) -> Iterable[tuple[Point, Point]]:
    """Points of the same or of consecutive periods, which a thin line joins; none across a gap."""
    pairs = itertools.pairwise(points)
    return (pair for pair in pairs if pair[1].place - pair[0].place <= 1)
