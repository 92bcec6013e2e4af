"""Pictures of comparisons: the frontier (error against messages) and how it scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from shuffledp.errors import MissingExtra, PlanningError
from shuffledp.exact.numbers import show
from shuffledp.planning.plan import Plan
from shuffledp.planning.real_sum import plan_real_sum
from shuffledp.plots.labels import SOFT, Labelled, label_points
from shuffledp.plots.results import INK, save
from shuffledp.rivals.base import Task
from shuffledp.rivals.protocols.ggkmpv20 import frontier as ggkmpv20_frontier
from shuffledp.rivals.table import Row, Table, compare, our_plan, printed_forecast

OURS, PRINTED, LIMIT = "#1664c0", "#c2571a", "#7aa7dd"
PURE, APPROXIMATE = "#14795b", "#9a3b8f"

DOTS = 150  # per inch: label offsets are in pixels
MOST_MESSAGES = 1e6  # what lies beyond is told, not drawn
CURVES = {
    "count": (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 40, 120, 400, 1500),
    "histogram": (0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 20, 60, 200, 800),
    "sum": (1, 2, 4, 8, 16, 32, 80, 200, 600, 2000),
}


def _figure(panels: int, wide: float, high: float) -> tuple[Any, Any]:
    """A figure and its axes, without a window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    figure = Figure(figsize=(wide, high), layout="constrained", dpi=DOTS)
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(colors=INK)
        one.grid(True, which="major", color="#e6ebf1", linewidth=0.8)
        one.set_axisbelow(True)
    return figure, axes


# The frontier


@dataclass(frozen=True)
class Curve:
    """Points (messages, RMSE) that belong together."""

    label: str
    messages: tuple[float, ...]
    errors: tuple[float, ...]


def our_curves(query: str, task: Task) -> tuple[Curve, Curve]:
    """Ours over ρ, and the family's limit at the same errors."""
    plans = []
    for overhead in CURVES[query]:
        try:
            plans.append(our_plan(query, task, Fraction(str(overhead))).forecast)
        except PlanningError:
            continue
    errors = tuple(plan.rmse for plan in plans)
    ours = Curve("shuffledp (pure), over ρ", tuple(p.messages_per_user for p in plans), errors)
    return ours, Curve(
        "limit of the family (any flood)", tuple(p.limit_messages for p in plans), errors
    )


def printed_curve(query: str, task: Task) -> Curve | None:
    """[GKM23] with the printed constants, ρ up to ½; None for sums, which have none."""
    found = []
    for percent in (2, 5, 10, 20, 30, 50):
        try:
            found.append(printed_forecast(query, task, Fraction(percent, 100)))
        except PlanningError:
            return None
    return Curve(
        "GKM23, constants as printed",
        tuple(forecast.messages_per_user for forecast in found),
        tuple(forecast.rmse for forecast in found),
    )


def bounded_curve(task: Task) -> Curve:
    """[GGKMPV20] over its width, as far as wider is better."""
    best, kept = math.inf, []
    for option in ggkmpv20_frontier(task.users, task.epsilon):
        forecast = option.forecast()
        if forecast.rmse < 0.999 * best:
            best = forecast.rmse
            kept.append(forecast)
    return Curve(
        "GGKMPV20 (pure), over its width",
        tuple(f.messages_per_user for f in kept),
        tuple(f.rmse for f in kept),
    )


def bits_curve(task: Task) -> Curve:
    """Our sums bit by bit, the paper's way, with the better of two numbers of bits each."""
    found = []
    for overhead in CURVES["sum"]:
        mse = (1 + overhead) * 2 / float(task.epsilon) ** 2
        fewest = max(1, math.ceil(math.log2(math.sqrt(task.users / (4 * 0.5 * mse)) + 1)))
        plans = [_bits_plan(task, overhead, bits) for bits in (fewest, fewest + 1)]
        costs = [plan.forecast for plan in plans if plan is not None]
        found += [min(costs, key=lambda cost: cost.messages_per_user)] if costs else []
    return Curve(
        "shuffledp, bit by bit",
        tuple(forecast.messages_per_user for forecast in found),
        tuple(forecast.rmse for forecast in found),
    )


def _bits_plan(task: Task, overhead: float, bits: int) -> Plan | None:
    try:
        return plan_real_sum(task.users, task.epsilon, mse_overhead=overhead, radix=(2,) * bits)
    except PlanningError:
        return None


def frontier(table: Table, path: str | None = None) -> Any:
    """Error against messages per user: ours as a curve, rivals as points."""
    figure, (axes,) = _figure(1, 9.6, 6.2)
    ours, limit = our_curves(table.query, table.task)
    _draw(axes, ours, color=OURS, marker="o", markersize=4, linewidth=2.2, zorder=3)
    _draw(axes, limit, color=LIMIT, linestyle=":", linewidth=2)
    others = []
    printed = printed_curve(table.query, table.task)
    if printed is not None:
        _draw(axes, printed, color=PRINTED, marker="s", markersize=4)
        others.append(printed)
    if table.query == "count":
        others.append(bounded_curve(table.task))
        _draw(axes, others[-1], color=PURE, linewidth=1.2)
    if table.query == "sum":
        others.append(bits_curve(table.task))
        _draw(axes, others[-1], color=PRINTED, marker="s", markersize=4)
    shown = [row for row in table.rows if not row.ours and _in_sight(row)]
    central = next(row for row in shown if row.claim.trust == "central")
    axes.axhline(
        central.forecast.rmse,
        color=SOFT,
        linestyle="--",
        linewidth=1.2,
        label="central optimum (trusts a curator)",
    )
    points = [row for row in shown if row is not central]
    _points(axes, points)
    axes.set(xscale="log", yscale="log", xlabel="messages per user (expected)")
    axes.set_ylabel("root mean squared error at the worst data")
    axes.set_title(_title(table), loc="left", color=INK, fontsize=11)
    axes.margins(0.08, 0.07)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.95)
    level = Curve("", axes.get_xlim(), (central.forecast.rmse,) * 2)
    lines = [(one.messages, one.errors) for one in (ours, limit, *others, level)]
    label_points(figure, axes, [_labelled(row) for row in points], lines)
    _tell_beyond(axes, table.rows)
    return save(figure, path)


def _in_sight(row: Row) -> bool:
    return row.runnable and row.forecast.messages_per_user <= MOST_MESSAGES


def _tell_beyond(axes: Any, rows: Sequence[Row]) -> None:
    """What the picture leaves out, in a line under it."""
    beyond = [
        f"{row.title}: {row.forecast.messages_per_user:.0e} messages, RMSE {row.forecast.rmse:.3g}"
        for row in rows
        if not _in_sight(row)
    ]
    if beyond:
        text = "off to the right: " + "; ".join(beyond)
        axes.text(0.0, -0.115, text, transform=axes.transAxes, fontsize=8, color=SOFT, va="top")


def _title(table: Table) -> str:
    task = table.task
    buckets = f", {task.buckets:,} buckets" if task.buckets else ""
    delta = "" if task.delta is None else f", δ = {float(task.delta):g} where approximate"
    return f"{table.query}: {task.users:,} users, ε = {show(task.epsilon)}{delta}{buckets}"


def _draw(axes: Any, curve: Curve, **style: Any) -> None:
    axes.plot(curve.messages, curve.errors, label=curve.label, **style)


def _points(axes: Any, rows: Iterable[Row]) -> None:
    """Full for pure, hollow for approximate, crosses where nothing supports the claim."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        kind = f"{row.claim.kind}" if row.claim.holds else row.claim.basis
        groups.setdefault(kind, []).append(row)
    styles: dict[str, dict[str, Any]] = {
        "pure": {"marker": "D", "color": PURE, "label": "pure rival"},
        "approximate": {
            "marker": "o",
            "facecolors": "white",
            "edgecolors": APPROXIMATE,
            "linewidths": 1.6,
            "label": "only (ε, δ)-private",
        },
        "not verified": {"marker": "x", "color": INK, "label": "claim not verified"},
        "violated": {"marker": "X", "color": "#b3261e", "label": "claim found violated"},
    }
    for kind, members in groups.items():
        x = [row.forecast.messages_per_user for row in members]
        y = [row.forecast.rmse for row in members]
        axes.scatter(x, y, s=42, zorder=4, **styles[kind])


def _labelled(row: Row) -> Labelled:
    colour = PURE if row.claim.kind == "pure" else APPROXIMATE
    return Labelled(row.title, row.forecast.messages_per_user, row.forecast.rmse, colour)


# How it scales

LINES: dict[str, tuple[str, ...]] = {
    "count": ("local", "ggkmpv20", "thinning", "gkmp20", "bbgn20", "csuzz19"),
    "sum": ("local", "bbgn20", "bbgn20-recursive", "bbgn19"),
    "histogram": ("local-hadamard", "thinning", "gkmp20", "bc20", "lwy22"),
}
EPSILONS = ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2", "3")
USERS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000)
TARGET = {"count": Fraction(1, 2), "histogram": Fraction(1, 2), "sum": Fraction(8)}


def scaling(query: str, task: Task, over: str, path: str | None = None) -> Any:
    """RMSE over central and messages per user, as ε or the number of users grows."""
    steps: dict[str, Callable[[], list[Task]]] = {
        "epsilon": lambda: [replace(task, epsilon=Fraction(e)) for e in EPSILONS],
        "users": lambda: [replace(task, users=n) for n in USERS],
    }
    tasks = steps[over]()
    x = [float(t.epsilon) if over == "epsilon" else float(t.users) for t in tasks]
    tables = [compare(query, t, [TARGET[query]], LINES[query]) for t in tasks]
    figure, axes = _figure(2, 11.5, 4.8)
    for name, style in _line_styles(query, tables):
        rows = [table.row(name) for table in tables]
        held = [(place, row) for place, row in zip(x, rows, strict=True) if row is not None]
        for one, height in ((axes[0], _over_central), (axes[1], _messages)):
            one.plot([p for p, _ in held], [height(row) for _, row in held], **style)
    _finish_scaling(figure, axes, query, task, over)
    return save(figure, path)


def _over_central(row: Row) -> float:
    return row.over_central


def _messages(row: Row) -> float:
    return row.forecast.messages_per_user


def _line_styles(query: str, tables: Sequence[Table]) -> list[tuple[str, dict[str, Any]]]:
    """Full lines for pure, dashed for approximate."""
    ours = f"ours-{float(TARGET[query]):g}"
    colours = iter(("#14795b", "#6a8f1f", "#0f8a9d", "#9a3b8f", "#c23b62", "#c2571a", "#7a5cc4"))
    styles: list[tuple[str, dict[str, Any]]] = []
    for name in (ours, *LINES[query]):
        row = next((row for table in tables if (row := table.row(name)) is not None), None)
        if row is None:
            continue
        pure = row.claim.kind == "pure"
        label = row.title + ("" if pure else ", (ε, δ)")
        style = {
            "label": label,
            "linestyle": "-" if pure else "--",
            "marker": ".",
            "color": OURS if row.ours else next(colours),
            "linewidth": 2.6 if row.ours else 1.5,
        }
        styles.append((name, style))
    return styles


def _finish_scaling(figure: Any, axes: Any, query: str, task: Task, over: str) -> None:
    fixed = f"{task.users:,} users" if over == "epsilon" else f"ε = {show(task.epsilon)}"
    delta = "" if task.delta is None else f", δ = {float(task.delta):g} where approximate"
    for one, label in zip(
        axes, ("RMSE over the central optimum", "messages per user"), strict=True
    ):
        one.set(xscale="log", yscale="log", ylabel=label)
        one.set_xlabel("ε" if over == "epsilon" else "users")
    axes[0].axhline(1.0, color=SOFT, linestyle=":", linewidth=1.2)
    axes[0].set_title(f"{query}: {fixed}{delta}", loc="left", color=INK, fontsize=11)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
