"""The picture of how protocols scale: error and messages as ε or the number of users grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from shuffledp.baselines.base import QueryName, Setting
from shuffledp.baselines.table import Row, Table, compare, our_name
from shuffledp.numbers.exact import counted, show
from shuffledp.plots.figures import INK, new_figure, save
from shuffledp.plots.frontier import GRID, OURS
from shuffledp.plots.labels import SOFT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPSILONS = ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2", "3")
USERS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000)
BASELINE_COLOURS = ("#14795b", "#6a8f1f", "#0f8a9d", "#9a3b8f", "#c23b62", "#c2571a", "#7a5cc4")

Over = Literal["epsilon", "users"]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What grows from left to right: its label, the setting at each place, and where that is."""

    label: str
    settings: Callable[[Setting], list[Setting]]
    place: Callable[[Setting], float]
    fixed: Callable[[Setting], str]
    """What stays the same, in words."""


AXES: dict[Over, Axis] = {
    "epsilon": Axis(
        label="ε",
        settings=lambda setting: [replace(setting, epsilon=Fraction(e)) for e in EPSILONS],
        place=lambda setting: float(setting.epsilon),
        fixed=lambda setting: counted(setting.users, "user"),
    ),
    "users": Axis(
        label="users",
        settings=lambda setting: [replace(setting, users=n) for n in USERS],
        place=lambda setting: float(setting.users),
        fixed=lambda setting: f"ε = {show(setting.epsilon)}",
    ),
}

SHOWN_BASELINES: dict[QueryName, tuple[str, ...]] = {
    "count": ("local", "ggkmpv20", "thinning", "gkmp20", "bbgn20", "csuzz19"),
    "real-sum": ("local", "bbgn20", "bbgn20-recursive", "bbgn19"),
    "histogram": ("local-hadamard", "thinning", "gkmp20", "bc20", "lwy22"),
}
OUR_OVERHEAD: dict[QueryName, Fraction] = {
    "count": Fraction(1, 2),
    "real-sum": Fraction(8),
    "histogram": Fraction(1, 2),
}


def scaling(query: QueryName, setting: Setting, over: Over, path: str | None = None) -> Figure:
    """The picture of RMSE over central and of messages per user, saved if a path is given."""
    axis = AXES[over]
    settings = axis.settings(setting)
    places = [axis.place(one) for one in settings]
    baselines = SHOWN_BASELINES[query]
    tables = [compare(query, one, [OUR_OVERHEAD[query]], baselines) for one in settings]
    figure, panels = new_figure(11.5, 4.8, panels=2)
    for name, style in _line_styles(query, tables):
        found = zip(places, (table.row(name) for table in tables), strict=True)
        held = [(place, row) for place, row in found if row is not None]
        x = [place for place, _ in held]
        panels[0].plot(x, [row.over_central for _, row in held], **style)
        panels[1].plot(x, [row.forecast.messages_per_user for _, row in held], **style)
    _finish(figure, panels, f"{query}: {axis.fixed(setting)}{_delta(setting)}", axis.label)
    return save(figure, path)


def _delta(setting: Setting) -> str:
    return "" if setting.delta is None else f", δ = {float(setting.delta):g} where approximate"


def _line_styles(query: QueryName, tables: Sequence[Table]) -> list[tuple[str, dict[str, Any]]]:
    """(row name, style of its line) of every protocol that has a row anywhere."""
    colours = iter(BASELINE_COLOURS)
    styles: list[tuple[str, dict[str, Any]]] = []
    for name in (our_name(OUR_OVERHEAD[query]), *SHOWN_BASELINES[query]):
        row = next((row for table in tables if (row := table.row(name)) is not None), None)
        if row is not None:
            styles.append((name, _line_style(row, OURS if row.ours else next(colours))))
    return styles


def _line_style(row: Row, colour: str) -> dict[str, Any]:
    """A full line for a pure protocol, a dashed one for an approximate one."""
    return {
        "label": row.title + ("" if row.claim.pure else ", (ε, δ)"),
        "linestyle": "-" if row.claim.pure else "--",
        "marker": ".",
        "color": colour,
        "linewidth": 2.6 if row.ours else 1.5,
    }


def _finish(figure: Figure, panels: Sequence[Axes], title: str, label: str) -> None:
    """Sets the scales, the title and the legend."""
    heights = ("RMSE over the central optimum", "messages per user")
    for panel, height in zip(panels, heights, strict=True):
        panel.grid(True, which="major", color=GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.set(xscale="log", yscale="log", ylabel=height)
        panel.set_xlabel(label)
    panels[0].axhline(1.0, color=SOFT, linestyle=":", linewidth=1.2)
    panels[0].set_title(title, loc="left", color=INK, fontsize=11)
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
