"""The picture of how protocols scale: error and messages as ε or the number of users grows."""

from __future__ import annotations

from collections.abc import Sequence
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

Over = Literal["epsilon", "users"]
AXES: dict[Over, tuple[Any, ...]] = {
    "epsilon": tuple(map(Fraction, ("0.1", "0.2", "0.35", "0.5", "0.75", "1", "1.5", "2", "3"))),
    "users": (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000, 10_000_000),
}
"""What the horizontal axis may show, and where protocols are compared."""
BASELINE_COLOURS = ("#14795b", "#6a8f1f", "#0f8a9d", "#9a3b8f", "#c23b62", "#c2571a", "#7a5cc4")
HEIGHTS = ("error (RMSE), as a multiple of a trusted party's", "messages per user, on average")

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


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A protocol's line in both panels."""

    label: str
    colour: str
    row: Row
    x: list[float]
    heights: tuple[list[float], list[float]]


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
    ours = OUR_OVERHEAD[query]
    tables = [
        compare(query, replace(setting, **{over: at}), [ours], SHOWN_BASELINES[query])
        for at in AXES[over]
    ]
    figure, panels = new_figure(11.5, 4.8, panels=2)
    lines = _lines([our_name(ours), *SHOWN_BASELINES[query]], tables, over, citations)
    for line in lines:
        for panel, y in zip(panels, line.heights, strict=True):
            panel.plot(
                line.x,
                y,
                linestyle="-" if line.row.claim.pure else "--",
                marker=".",
                color=line.colour,
                linewidth=2.6 if line.row.ours else 1.5,
            )
    if over == "epsilon":
        label, words, fixed = "privacy loss ε", "privacy loss", counted(setting.users, "user")
    else:
        label, words, fixed = "number of users", "number of users", f"ε = {show(setting.epsilon)}"
    for panel, height in zip(panels, HEIGHTS, strict=True):
        log_scales(panel, label, height)
    panels[0].axhline(1.0, color=SOFT, linestyle=":", linewidth=1.2)
    title = f"{QUERY_WORDS[query]} with {fixed}: error and messages by {words}"
    panels[0].set_title(title, loc="left", color=INK, fontsize=11)
    delta = "" if setting.delta is None else f", with δ = {float(setting.delta):g}"
    below = f"Lower is better. Full lines: pure ε. Dashed lines: only (ε, δ){delta}."
    panels[0].text(0.0, -0.17, below, transform=panels[0].transAxes, fontsize=8, color=INK)
    _label_lines(figure, panels, lines)
    return save(figure, path)


def _lines(
    names: Sequence[str], tables: Sequence[Table], over: Over, citations: bool
) -> list[_Line]:
    """The lines of all protocols with at least one row."""
    colours = iter(BASELINE_COLOURS)
    lines = []
    for name in names:
        found = zip(AXES[over], (table.row(name) for table in tables), strict=True)
        held = [(float(at), row) for at, row in found if row is not None]
        if not held:
            continue
        row = held[0][1]
        title = row.title if citations else in_words(row.title).removesuffix(", calibrated")
        lines.append(
            _Line(
                label="shuffledp" if row.ours and not citations else title,
                colour=OURS if row.ours else next(colours),
                row=row,
                x=[at for at, _ in held],
                heights=(
                    [row.over_central for _, row in held],
                    [row.forecast.messages_per_user for _, row in held],
                ),
            )
        )
    return lines


def _label_lines(figure: Figure, panels: Sequence[Axes], lines: Sequence[_Line]) -> None:
    """Names each line at its right end, in both panels."""
    for side, panel in enumerate(panels):
        low, high = panel.get_xlim()
        for minor in (False, True):
            ticks = [tick for tick in panel.get_xticks(minor=minor) if low <= tick <= high]
            panel.set_xticks(ticks, minor=minor)
        panel.set_xlim(low, high * (high / low) ** 0.55)
        points = [
            Labelled(text=one.label, x=one.x[-1], y=one.heights[side][-1], colour=one.colour)
            for one in lines
        ]
        label_points(figure, panel, points, [(one.x, one.heights[side]) for one in lines])
