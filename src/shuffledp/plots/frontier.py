"""The picture of a comparison: error against messages, ours as curves, baselines as points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shuffledp.baselines.base import BaselineForecast, QueryName, Setting
from shuffledp.baselines.ours import PRINTED_FOR, our_plan, printed
from shuffledp.baselines.protocols.ggkmpv20 import frontier as ggkmpv20_frontier
from shuffledp.baselines.table import Row, Table
from shuffledp.baselines.words import in_words
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import counted, show
from shuffledp.plans.plan import Forecast
from shuffledp.plots.figures import INK, new_figure, save
from shuffledp.plots.labels import SOFT, Labelled, label_points
from shuffledp.queries.real_sum.planner import plan_real_sum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, PRINTED, LIMIT = "#1664c0", "#c2571a", "#7aa7dd"
PURE, APPROXIMATE = "#14795b", "#9a3b8f"
GRID = "#e6ebf1"
CURVE_COLOURS = (OURS, LIMIT, PRINTED, PURE)

MOST_MESSAGES = 1e6  # rows with more messages are listed below the picture, not drawn
SUM_OVERHEADS = (1, 2, 4, 8, 16, 32, 80, 200, 600, 2000)
QUERY_WORDS = {"count": "A count", "real-sum": "A real sum", "histogram": "A histogram"}
PRINTED_PERCENT = (2, 5, 10, 20, 30, 50)


@dataclass(frozen=True)
class Curve:
    """Points (messages per user, RMSE) that a line joins, with the line's label."""

    label: str
    messages: tuple[float, ...]
    errors: tuple[float, ...]

    @classmethod
    def through(cls, label: str, forecasts: Iterable[Forecast | BaselineForecast]) -> Curve:
        """The curve through the errors and costs of forecasts."""
        points = [(forecast.messages_per_user, forecast.rmse) for forecast in forecasts]
        return cls(label, tuple(x for x, _ in points), tuple(y for _, y in points))


def our_curves(
    query: QueryName, setting: Setting, overheads: Iterable[float]
) -> tuple[Curve, Curve]:
    """(shuffledp over its error targets, the limit that its kind of cell has at these errors)."""
    forecasts = []
    for overhead in overheads:
        try:
            forecasts.append(our_plan(query, setting, Fraction(str(overhead))).forecast)
        except PlanningError:
            continue
    ours = Curve.through("shuffledp (pure ε)", forecasts)
    limits = tuple(forecast.limit_messages or math.nan for forecast in forecasts)
    return ours, Curve("lower bound for this design", limits, ours.errors)


def printed_curve(query: QueryName, setting: Setting) -> Curve | None:
    """[GKM23] with the printed constants, ρ up to ½; None if they do not apply."""
    if query not in PRINTED_FOR:
        return None
    try:
        found = [printed(query, setting, Fraction(percent, 100)) for percent in PRINTED_PERCENT]
    except PlanningError:
        return None
    return Curve.through("GKM23 as printed", found)


def fixed_size_curve(setting: Setting) -> Curve:
    """[GGKMPV20] by number of messages, as long as more messages reduce the error."""
    best, kept = math.inf, []
    for option in ggkmpv20_frontier(setting.users, setting.epsilon):
        forecast = option.forecast()
        if forecast.rmse < 0.999 * best:
            best = forecast.rmse
            kept.append(forecast)
    return Curve.through("GGKMPV20 (pure ε)", kept)


def bits_curve(setting: Setting) -> Curve:
    """Our sums bit by bit, as in the paper, with the better of two numbers of bits at each
    point."""
    found = []
    for overhead in SUM_OVERHEADS:
        mse = (1 + overhead) * 2 / float(setting.epsilon) ** 2
        fewest = max(1, math.ceil(math.log2(math.sqrt(setting.users / (4 * 0.5 * mse)) + 1)))
        costs = []
        for bits in (fewest, fewest + 1):
            how: dict[str, Any] = {"mse_overhead": overhead, "radix": (2,) * bits, "dither": 1}
            with suppress(PlanningError):
                costs.append(plan_real_sum(setting.users, setting.epsilon, **how).forecast)
        found += [min(costs, key=lambda cost: cost.messages_per_user)] if costs else []
    return Curve.through("shuffledp, bit by bit", found)


OVERHEADS: dict[QueryName, tuple[float, ...]] = {
    "count": (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 40, 120, 400, 1500),
    "real-sum": SUM_OVERHEADS,
    "histogram": (0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 20, 60, 200, 800),
}
"""The error targets of shuffledp's curve."""
SQUARES = {"color": PRINTED, "marker": "s", "markersize": 4}
MORE_CURVES: dict[QueryName, tuple[Callable[[Setting], Curve], dict[str, Any]]] = {
    "count": (fixed_size_curve, {"color": PURE, "linewidth": 1.2}),
    "real-sum": (bits_curve, SQUARES),
}
"""A further curve of some queries, and how it is drawn."""


def frontier(table: Table, path: str | None = None, *, citations: bool = False) -> Figure:
    """The picture of a table, saved to a file if a path is given. Protocols are named in words, and
    each by its best variant; with `citations`, all of them by their papers."""
    figure, (axes,) = new_figure(9.6, 6.2)
    curves = _draw_curves(axes, table)
    shown = [row for row in table.rows if not row.ours and _in_sight(row)]
    central = next(row for row in shown if row.claim.trust == "central")
    axes.axhline(central.forecast.rmse, color=SOFT, linestyle="--", linewidth=1.2)
    points = [row for row in shown if row is not central]
    points += [row for row in table.rows if row.name.startswith("sparse-")]
    if not citations:
        points = [row for row in points if not row.name.endswith("-published")]
    _draw_points(axes, points)
    _finish(axes, table, citations=citations)
    level = Curve("", axes.get_xlim(), (central.forecast.rmse,) * 2)
    bars = [Curve("", (row.forecast.messages_per_user,) * 2, _bar(row)) for row in points]
    lines = [(one.messages, one.errors) for one in (*curves, level, *bars)]
    named = [*_named_curves(curves, citations), *(_labelled(row, citations) for row in points)]
    middle = math.sqrt(math.prod(axes.get_xlim()))
    trusted = "trusted central party (sees all raw values)"
    named.append(Labelled(text=trusted, x=middle, y=central.forecast.rmse, colour=SOFT))
    label_points(figure, axes, named, lines)
    return save(figure, path)


def _named_curves(curves: Sequence[Curve], citations: bool) -> list[Labelled]:
    """A label at the end of each curve with the largest error."""
    named = []
    for curve, colour in zip(curves, CURVE_COLOURS, strict=False):
        ends = zip(curve.errors, curve.messages, strict=True)
        error, messages = max(end for end in ends if not math.isnan(end[1]))
        text = curve.label if citations else in_words(curve.label)
        named.append(Labelled(text=text, x=messages, y=error, colour=colour))
    return named


def _draw_curves(axes: Axes, table: Table) -> list[Curve]:
    query, setting = table.query, table.setting
    ours, limit = our_curves(query, setting, OVERHEADS[query])
    drawn: list[tuple[Curve, dict[str, Any]]] = [
        (ours, {"color": OURS, "marker": "o", "markersize": 4, "linewidth": 2.2, "zorder": 3}),
        (limit, {"color": LIMIT, "linestyle": ":", "linewidth": 2}),
    ]
    as_printed = printed_curve(query, setting)
    if as_printed is not None:
        drawn.append((as_printed, SQUARES))
    if query in MORE_CURVES:
        make, style = MORE_CURVES[query]
        drawn.append((make(setting), style))
    for curve, style in drawn:
        axes.plot(curve.messages, curve.errors, **style)
    return [curve for curve, _ in drawn]


def _finish(axes: Axes, table: Table, *, citations: bool) -> None:
    """Sets scales and title and, below the picture, explains the marks and lists rows not drawn."""
    error = (
        f"error of a bucket of {counted(table.setting.error_at, 'user')} (RMSE)"
        if table.query == "histogram"
        else "error of the answer (RMSE, worst data)"
    )
    log_scales(axes, "messages per user, on average", error)
    axes.set_title(title_of(table), loc="left", color=INK, fontsize=11)
    axes.margins(0.08, 0.07)
    beyond = [
        f"{row.title if citations else in_words(row.title)} "
        f"({row.forecast.messages_per_user:.0e} messages, RMSE {row.forecast.rmse:.3g})"
        for row in table.rows
        if not _in_sight(row)
    ]
    delta = table.setting.delta
    circles = "only (ε, δ)" + ("" if delta is None else f", with δ = {float(delta):g}")
    bars = "\nBars: from the error of an empty bucket to that of the worst data."
    text = (
        f"Lower left is better. Diamonds: pure ε. Circles: {circles}. Crosses: claim not verified. "
        "Lines: one design at several error targets."
        + (bars if table.query == "histogram" else "")
        + ("\nFar to the right: " + "; ".join(beyond) if beyond else "")
    )
    axes.text(0.0, -0.115, text, transform=axes.transAxes, fontsize=8, color=INK, va="top")


def log_scales(axes: Axes, xlabel: str, ylabel: str) -> None:
    """Logarithmic scales with a grid and labels."""
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)


def _in_sight(row: Row) -> bool:
    return row.runnable and row.forecast.messages_per_user <= MOST_MESSAGES


def title_of(table: Table) -> str:
    """What a comparison's picture shows, in one line."""
    setting = table.setting
    buckets = f" and {counted(setting.buckets, 'bucket')}" if setting.buckets else ""
    users = counted(setting.users, "user")
    what = QUERY_WORDS.get(table.query, table.query)
    return (
        f"{what} with {users}{buckets}, ε = {show(setting.epsilon)}: "
        "error and messages of each protocol"
    )


POINT_STYLES: dict[str, dict[str, Any]] = {
    "pure": {"marker": "D", "color": PURE},
    "approximate": {
        "marker": "o",
        "facecolors": "white",
        "edgecolors": APPROXIMATE,
        "linewidths": 1.6,
    },
    "not verified": {"marker": "x", "color": INK},
    "violated": {"marker": "X", "color": "#b3261e"},
}


def _draw_points(axes: Axes, rows: Sequence[Row]) -> None:
    """Full points for pure baselines, hollow for approximate ones, crosses if nothing supports the
    claim."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        group = row.claim.kind if row.claim.holds else row.claim.basis
        groups.setdefault(group, []).append(row)
    for named, members in groups.items():
        x = [row.forecast.messages_per_user for row in members]
        y = [row.forecast.at_count for row in members]
        axes.scatter(x, y, s=42, zorder=4, **POINT_STYLES[named])
    for row in rows:
        ends = _bar(row)
        if ends[0] < ends[1]:
            colour = PURE if row.claim.pure else APPROXIMATE
            axes.vlines(row.forecast.messages_per_user, *ends, colors=colour, linewidth=1, zorder=2)


def _bar(row: Row) -> tuple[float, float]:
    """The error if nobody has the value, and the worst-case error."""
    return row.forecast.at_zero, row.forecast.rmse


def _labelled(row: Row, citations: bool) -> Labelled:
    colour = PURE if row.claim.pure else APPROXIMATE
    return Labelled(
        text=row.title if citations else in_words(row.title).removesuffix(", calibrated"),
        x=row.forecast.messages_per_user,
        y=row.forecast.at_count,
        colour=colour,
    )
