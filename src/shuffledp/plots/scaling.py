"""The picture of how protocols scale: error and messages as ε or the number of users grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from shuffledp.baselines.base import QueryName, Setting
from shuffledp.baselines.table import Row, Table, compare, our_name
from shuffledp.baselines.words import in_words
from shuffledp.numbers.exact import counted, show
from shuffledp.plots.figures import INK, new_figure, save
from shuffledp.plots.frontier import OURS, QUERY_WORDS, log_scales
from shuffledp.plots.labels import SOFT, Labelled, label_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPSILONS = ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2", "3")
USERS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000)
BASELINE_COLOURS = ("#14795b", "#6a8f1f", "#0f8a9d", "#9a3b8f", "#c23b62", "#c2571a", "#7a5cc4")

Over = Literal["epsilon", "users"]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The horizontal axis: its label, the setting at each point, and the point's position."""

    label: str
    words: str
    """The label in a sentence."""
    settings: Callable[[Setting], list[Setting]]
    place: Callable[[Setting], float]
    fixed: Callable[[Setting], str]
    """What stays the same, in words."""


AXES: dict[Over, Axis] = {
    "epsilon": Axis(
        label="privacy loss ε",
        words="privacy loss",
        settings=lambda setting: [replace(setting, epsilon=Fraction(e)) for e in EPSILONS],
        place=lambda setting: float(setting.epsilon),
        fixed=lambda setting: counted(setting.users, "user"),
    ),
    "users": Axis(
        label="number of users",
        words="number of users",
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


def scaling(
    query: QueryName,
    setting: Setting,
    over: Over,
    path: str | None = None,
    *,
    citations: bool = False,
) -> Figure:
    """The picture of RMSE over central and of messages per user, saved if a path is given.
    Protocols are named in words, or with `citations` by their papers."""
    axis = AXES[over]
    settings = axis.settings(setting)
    places = [axis.place(one) for one in settings]
    baselines = SHOWN_BASELINES[query]
    tables = [compare(query, one, [OUR_OVERHEAD[query]], baselines) for one in settings]
    figure, panels = new_figure(11.5, 4.8, panels=2)
    drawn: list[_Line] = []
    for name, style in _line_styles(query, tables, citations):
        found = zip(places, (table.row(name) for table in tables), strict=True)
        held = [(place, row) for place, row in found if row is not None]
        x = [place for place, _ in held]
        heights = (
            [row.over_central for _, row in held],
            [row.forecast.messages_per_user for _, row in held],
        )
        for panel, y in zip(panels, heights, strict=True):
            panel.plot(x, y, **style)
        drawn.append(_Line(label=style["label"], colour=style["color"], x=x, heights=heights))
    what = f"{QUERY_WORDS.get(query, query)} with {axis.fixed(setting)}"
    _finish(panels, f"{what}: error and messages by {axis.words}", axis.label)
    lines = f"Lower is better. Full lines: pure ε. Dashed lines: only (ε, δ){_delta(setting)}."
    panels[0].text(0.0, -0.17, lines, transform=panels[0].transAxes, fontsize=8, color=INK)
    _label_lines(figure, panels, drawn)
    return save(figure, path)


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A protocol's line in both panels."""

    label: str
    colour: str
    x: list[float]
    heights: tuple[list[float], list[float]]


def _label_lines(figure: Figure, panels: Sequence[Axes], drawn: Sequence[_Line]) -> None:
    """Names each line at its right end, in both panels."""
    for side, panel in enumerate(panels):
        low, high = panel.get_xlim()
        for minor in (False, True):
            ticks = [tick for tick in panel.get_xticks(minor=minor) if low <= tick <= high]
            panel.set_xticks(ticks, minor=minor)
        panel.set_xlim(low, high * (high / low) ** 0.55)
        points = [
            Labelled(text=one.label, x=one.x[-1], y=one.heights[side][-1], colour=one.colour)
            for one in drawn
        ]
        label_points(figure, panel, points, [(one.x, one.heights[side]) for one in drawn])


def _delta(setting: Setting) -> str:
    return "" if setting.delta is None else f", with δ = {float(setting.delta):g}"


def _line_styles(
    query: QueryName, tables: Sequence[Table], citations: bool
) -> list[tuple[str, dict[str, Any]]]:
    """(row name, style of its line) of every protocol with at least one row."""
    colours = iter(BASELINE_COLOURS)
    styles: list[tuple[str, dict[str, Any]]] = []
    for name in (our_name(OUR_OVERHEAD[query]), *SHOWN_BASELINES[query]):
        row = next((row for table in tables if (row := table.row(name)) is not None), None)
        if row is not None:
            styles.append((name, _line_style(row, OURS if row.ours else next(colours), citations)))
    return styles


def _line_style(row: Row, colour: str, citations: bool) -> dict[str, Any]:
    """A full line for a pure protocol, a dashed one for an approximate one."""
    name = row.title if citations else in_words(row.title).removesuffix(", calibrated")
    return {
        "label": "shuffledp" if row.ours and not citations else name,
        "linestyle": "-" if row.claim.pure else "--",
        "marker": ".",
        "color": colour,
        "linewidth": 2.6 if row.ours else 1.5,
    }


def _finish(panels: Sequence[Axes], title: str, label: str) -> None:
    """Sets scales, title and axis labels."""
    heights = ("error (RMSE), as a multiple of a trusted party's", "messages per user, on average")
    for panel, height in zip(panels, heights, strict=True):
        log_scales(panel, label, height)
    panels[0].axhline(1.0, color=SOFT, linestyle=":", linewidth=1.2)
    panels[0].set_title(title, loc="left", color=INK, fontsize=11)
