"""A series of results as a page: for every number a picture with intervals, and a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

from shuffledp.numbers.exact import counted, percent
from shuffledp.service.http.page import page_frame
from shuffledp.tasks.results import result_lines

MOST_LABELS = 50
MOST_OPEN_TABLES = 3
"""With more numbers than this, their tables are folded."""
TOP, BOTTOM = 8.0, 84.0
"""Between which heights of the picture, in percent, values are drawn; dates stand below."""
LEFT, RIGHT = 10.0, 97.0
STEPS = (1.0, 2.0, 5.0, 10.0)


class Point(NamedTuple):
    """One published number of a series."""

    place: int
    """Of its task in the series, from 1."""
    across: float
    """Where it stands within its period, from 0 to 1."""
    day: str
    batch: int
    estimate: float
    low: float
    high: float
    reports: int
    anomaly: float
    implausible: bool


class Scale(NamedTuple):
    """The values between which a picture is drawn, and the values at its lines."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def height(self, value: float) -> float:
        """Where a value is drawn, in percent from the top."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return BOTTOM - (BOTTOM - TOP) * share


def render_series(series: Mapping[str, Any]) -> str:
    """The page of a series, which is given as its JSON holds it."""
    points = points_of(series)
    shown = list(points.items())[:MOST_LABELS]
    folded = len(shown) > MOST_OPEN_TABLES
    every = [point for _, found in shown for point in found]
    cards = ""
    if every:
        scale = scale_of(min(one.low for one in every), max(one.high for one in every))
        cards = "".join(_card(label, found, series, scale, folded) for label, found in shown)
    more = len(points) - len(shown)
    if more > 0:
        cards += f'<p class="empty">{more:,} more numbers are in the CSV file.</p>'
    main = _summary(series) + (cards or '<p class="empty">Nothing is published yet.</p>')
    about = f"one question, asked every {series['every']}"
    return page_frame(series["name"], about, main, script=False)


def points_of(series: Mapping[str, Any]) -> dict[str, list[Point]]:
    """The published numbers of a series by their labels, in the order of their dates."""
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
                        line.estimate,
                        line.low,
                        line.high,
                        published["reports"],
                        published["anomaly"],
                        published["implausible"],
                    )
                )
    return found


def day(seconds: int) -> str:
    """The day of a moment, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def scale_of(low: float, high: float) -> Scale:
    """A scale that holds these values, with lines at round numbers."""
    span = (high - low) or max(abs(high), 1.0)
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in STEPS if one * power >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    return Scale(first * step, last * step, tuple(k * step for k in range(first, last + 1)))


def _summary(series: Mapping[str, Any]) -> str:
    published = sum(bool(member["results"]) for member in series["members"])
    first, last = series["begin"], series["begin"] + series["tasks"] * series["seconds"]
    name = series["series"]
    return (
        f"<article><h2>{escape(series['question'])}</h2>"
        f'<p class="facts">{escape(series["query"])} · ε = {escape(series["epsilon"])} for each '
        f"answer, {escape(series['epsilon_in_all'])} for all · {day(first)} to {day(last)} · "
        f"<code>{name[:16]}…</code></p>"
        f"<p>{counted(series['tasks'], 'task')}, {len(series['members']):,} of them registered "
        f"here, {published:,} with results.</p>"
        f'<p><a href="/series/{name}/results.csv">All results as CSV</a> · '
        f'<a href="/series/{name}/results">as JSON</a></p></article>'
    )


def _card(
    label: str, points: Sequence[Point], series: Mapping[str, Any], scale: Scale, folded: bool
) -> str:
    table = _table(label, points, series)
    if folded:
        table = f"<details><summary>Table</summary>{table}</details>"
    picture = series_svg(label, points, series, scale)
    if any(point.implausible for point in points):
        picture += (
            '<p class="facts">A hollow red dot is implausible: honest clients hardly ever send '
            "such messages; distrust it.</p>"
        )
    return f"<article><h2>{escape(label)}</h2>{picture}{table}</article>"


def _table(label: str, points: Sequence[Point], series: Mapping[str, Any]) -> str:
    found: dict[int, list[Point]] = {}
    for point in points:
        found.setdefault(point.place, []).append(point)
    rows = []
    for member in series["members"]:
        own = found.get(member["place"], [])
        rows += [_row(point) for point in own]
        if not own:
            state = "forgotten" if member["forgotten"] else "not published"
            rows.append(
                f"<tr><th scope=row>{day(member['not_before'])}</th>"
                f'<td colspan=5 class="empty">{state}</td></tr>'
            )
    return (
        f'<div class="wide" tabindex=0 role=region aria-label="Table: {escape(label)}"><table>'
        f"<caption>{escape(label)}, from the given day on for a {escape(series['every'])}</caption>"
        "<thead><tr><th scope=col>from</th><th scope=col class=number>batch</th>"
        "<th scope=col class=number>estimate</th>"
        f"<th scope=col class=number>{percent(series['confidence'])} interval</th>"
        "<th scope=col class=number>reports</th><th scope=col class=number>anomaly (σ)</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(point: Point) -> str:
    odd = f"{point.anomaly:+.1f}"
    if point.implausible:
        odd = f'<span class="odd">{odd}, implausible</span>'
    return (
        f"<tr><th scope=row>{point.day}</th><td class=number>{point.batch}</td>"
        f"<td class=number>{point.estimate:,.2f}</td>"
        f"<td class=number>{point.low:,.1f} … {point.high:,.1f}</td>"
        f"<td class=number>{point.reports:,}</td><td class=number>{odd}</td></tr>"
    )


def series_svg(label: str, points: Sequence[Point], series: Mapping[str, Any], scale: Scale) -> str:
    """Estimates as dots on their intervals, by date. Places are in percent, so that a narrow page
    moves the dots together and keeps letters and lines as they are."""
    parts = [
        *_lines(scale),
        *_dates(series),
        *_joined(points, series["tasks"], scale),
        *(_dot(point, series["tasks"], scale) for point in points),
    ]
    return (
        f'<svg class="series" role="img" aria-label="{escape(_words(label, points))}">'
        f"{''.join(parts)}</svg>"
    )


def _words(label: str, points: Sequence[Point]) -> str:
    """The picture in words."""
    ends = [points[0]] if len(points) == 1 else [points[0], points[-1]]
    said = ", then ".join(
        f"{one.estimate:,.1f} from {one.day} on (interval {one.low:,.1f} to {one.high:,.1f})"
        for one in ends
    )
    return f"{label}, {counted(len(points), 'result')}: {said}. All of them are in the table."


def _x(point: Point, tasks: int) -> float:
    return LEFT + (RIGHT - LEFT) * (point.place - 1 + point.across) / tasks


def _lines(scale: Scale) -> Iterator[str]:
    for value in scale.ticks:
        y, style = scale.height(value), "axis zero" if value == 0 else "axis"
        yield f'<line class="{style}" x1="0%" x2="100%" y1="{y:.2f}%" y2="{y:.2f}%"/>'
        yield (f'<text x="0" y="{y:.2f}%" dy="-.3em">{value:,.12g}</text>')


def _dates(series: Mapping[str, Any]) -> Iterator[str]:
    """The first day of the first, middle and last period."""
    tasks = series["tasks"]
    places = sorted({0, (tasks - 1) // 2, tasks - 1}) if tasks > 2 else range(tasks)
    for place in places:
        x = LEFT + (RIGHT - LEFT) * (place + 0.5) / tasks
        anchor = "end" if place == tasks - 1 and tasks > 1 else "start" if place == 0 else "middle"
        style = ' class="between"' if anchor == "middle" else ""
        text = day(series["begin"] + place * series["seconds"])
        yield f'<text{style} x="{x:.2f}%" y="98%" text-anchor="{anchor}">{text}</text>'


def _joined(points: Sequence[Point], tasks: int, scale: Scale) -> Iterator[str]:
    """Thin lines between estimates of periods that follow each other; none over a gap."""
    for one, two in itertools.pairwise(points):
        if two.place - one.place <= 1:
            yield (
                f'<line class="join" x1="{_x(one, tasks):.2f}%" x2="{_x(two, tasks):.2f}%" '
                f'y1="{scale.height(one.estimate):.2f}%" y2="{scale.height(two.estimate):.2f}%"/>'
            )


def _dot(point: Point, tasks: int, scale: Scale) -> str:
    x, style = _x(point, tasks), " doubtful" if point.implausible else ""
    low, middle, high = (scale.height(one) for one in (point.low, point.estimate, point.high))
    return (
        f'<g class="point{style}"><title>{point.day}: {point.estimate:,.2f}, interval '
        f"{point.low:,.1f} to {point.high:,.1f}</title>"
        f'<line class="span" x1="{x:.2f}%" x2="{x:.2f}%" y1="{low:.2f}%" y2="{high:.2f}%"/>'
        f'<circle class="dot" cx="{x:.2f}%" cy="{middle:.2f}%" r="5"/></g>'
    )
