"""Places labels next to the points of a picture so that they cover nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

SOFT = "#8a97a6"
STEPS = np.linspace(0, 1, 12)
"""Where lines are looked at, as shares of their length."""

Point: TypeAlias = tuple[float, float]
"""(x, y) in pixels."""
Line: TypeAlias = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A point of the picture with its label."""

    text: str
    x: float
    y: float
    colour: str


def label_points(
    figure: Figure, axes: Axes, points: Sequence[Labelled], lines: Iterable[Line]
) -> None:
    """Labels all points so that no label covers another one, a point or a line."""
    figure.draw_without_rendering()
    centres = [tuple(axes.transData.transform((point.x, point.y))) for point in points]
    taken = [_around(centre, 9) for centre in centres]
    for line in lines:
        ends = axes.transData.transform(np.column_stack(line))
        dots = [dot for a, b in pairwise(ends) for dot in _between(a, b)]
        taken += [_around(dot, 4) for dot in dots if np.isfinite(dot).all()]  # lines have gaps
    labels: list[Bbox] = []
    for point, centre in zip(points, centres, strict=True):
        labels.append(_label(axes, point, centre, [*taken, *labels], labels))


def _label(
    axes: Axes, point: Labelled, centre: Point, taken: Sequence[Bbox], labels: Sequence[Bbox]
) -> Bbox:
    """Writes one label and returns its box; a line leads to one that had to go far."""
    how: dict[str, Any] = {"xy": (point.x, point.y), "textcoords": "offset pixels"}
    text = axes.annotate(point.text, xytext=(0, 0), fontsize=8, color=point.colour, **how)
    extent, frame = text.get_window_extent(), axes.get_window_extent()
    size = (extent.width, extent.height)
    offsets = list(_offsets(*size))

    def free(offset: Point) -> bool:
        box = _box(centre, offset, size)
        return (
            frame.x0 <= box.x0
            and box.x1 <= frame.x1
            and frame.y0 <= box.y0
            and box.y1 <= frame.y1
            and not box.count_overlaps(taken)
        )

    def in_sight(offset: Point) -> bool:
        near = _nearest(offset, size)
        way = _between(centre, (centre[0] + near[0], centre[1] + near[1]))
        return not any(label.fully_contains(*dot) for label in labels for dot in way)

    places = [*filter(free, offsets)] or offsets[:1]  # better behind a label than on one
    offset = next(filter(in_sight, places), places[0])
    text.set_position(offset)
    near = _nearest(offset, size)
    if math.hypot(*near) > 16:
        style = {"arrowstyle": "-", "color": SOFT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
        axes.annotate("", xytext=near, arrowprops=style, **how)
    return _box(centre, offset, size)


def _offsets(width: float, height: float) -> Iterable[Point]:
    """Offsets of a label's lower left corner, nearest first."""
    for away in (12, 22, 34, 48, 66, 88, 112, 140):
        left, below = -away - width, -away / 2 - height
        yield from ((away, -height / 2), (left, -height / 2))
        yield from ((-width / 2, away), (-width / 2, -away - height))
        yield from ((away, away / 2), (away, below), (left, away / 2), (left, below))


def _nearest(offset: Point, size: Point) -> Point:
    """The offset of the point of a label nearest to its point."""
    (left, low), (width, height) = offset, size
    return min(max(0.0, left), left + width), min(max(0.0, low), low + height)


def _box(centre: Point, offset: Point, size: Point) -> Bbox:
    """The box of a label with a little space around it."""
    from matplotlib.transforms import Bbox

    return Bbox.from_bounds(centre[0] + offset[0], centre[1] + offset[1], *size).padded(2, 1)


def _around(dot: Point, away: float) -> Bbox:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(dot[0] - away, dot[1] - away, dot[0] + away, dot[1] + away)


def _between(a: Point, b: Point) -> list[Point]:
    """Points along the line from one point to another."""
    return [(a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1])) for part in STEPS]
