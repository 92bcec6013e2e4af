"""Places labels next to the points of a picture so that they cover nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

SOFT = "#8a97a6"

Box: TypeAlias = tuple[float, float, float, float]
"""Left, low, right, high, in pixels."""
Point: TypeAlias = NDArray[np.float64]
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
    """Labels all points so that no label covers another one, a line or the legend."""
    figure.draw_without_rendering()
    centres = [axes.transData.transform((point.x, point.y)) for point in points]
    taken: list[Box] = [(x - 9, y - 9, x + 9, y + 9) for x, y in centres]
    for line in lines:
        taken += _along(axes, line)
    frame = axes.get_window_extent()
    legend = axes.get_legend()
    if legend is not None:
        box = legend.get_window_extent()
        taken.append((box.x0, box.y0, box.x1, box.y1))
    marks = len(taken)
    for point, centre in zip(points, centres, strict=True):
        taken.append(_label(axes, point, centre, _Taken(taken, taken[marks:], frame)))


@dataclass(frozen=True)
class _Taken:
    """Where a label must not go, and the labels that its leader must not cross."""

    boxes: Sequence[Box]
    labels: Sequence[Box]
    frame: Bbox


def _label(axes: Axes, point: Labelled, centre: Point, taken: _Taken) -> Box:
    """Writes one label and returns its box."""
    text = axes.annotate(
        point.text,
        (point.x, point.y),
        xytext=(0, 0),
        textcoords="offset pixels",
        fontsize=8,
        color=point.colour,
    )
    extent = text.get_window_extent()
    size = (extent.width, extent.height)
    places = list(_places(*size))
    free = (
        place
        for place in places
        if _free(_box(centre, place, size), taken.boxes, taken.frame)
        and not any(_inside(dot, taken.labels) for dot in _way(centre, _nearest(place, size)))
    )
    place = next(free, places[0])
    text.set_position(place)
    _leader(axes, point, place, size)
    return _box(centre, place, size)


def _leader(
    axes: Axes, point: Labelled, place: tuple[float, float], size: tuple[float, float]
) -> None:
    """A thin line from a point to the nearest end of a label that had to go far."""
    near = _nearest(place, size)
    if math.hypot(*near) > 16:
        style = {"arrowstyle": "-", "color": SOFT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
        axes.annotate(
            "",
            (point.x, point.y),
            xytext=near,
            textcoords="offset pixels",
            arrowprops=style,
        )


def _nearest(place: tuple[float, float], size: tuple[float, float]) -> tuple[float, float]:
    """The offset of the point of a label nearest to its point."""
    (left, low), (width, height) = place, size
    return min(max(0.0, left), left + width), min(max(0.0, low), low + height)


def _way(centre: Point, offset: tuple[float, float]) -> Iterable[tuple[float, float]]:
    """Points along the leader from a label to its point."""
    for part in np.linspace(0, 1, 12):
        yield centre[0] + part * offset[0], centre[1] + part * offset[1]


def _inside(dot: tuple[float, float], boxes: Iterable[Box]) -> bool:
    return any(box[0] < dot[0] < box[2] and box[1] < dot[1] < box[3] for box in boxes)


def _places(width: float, height: float) -> Iterable[tuple[float, float]]:
    """Offsets of a label's lower left corner, nearest first."""
    for away in (12, 22, 34, 48, 66, 88, 112, 140):
        left, below = -away - width, -away / 2 - height
        yield from ((away, -height / 2), (left, -height / 2))
        yield from ((-width / 2, away), (-width / 2, -away - height))
        yield from ((away, away / 2), (away, below), (left, away / 2), (left, below))


def _box(centre: Point, place: tuple[float, float], size: tuple[float, float]) -> Box:
    left, low = centre[0] + place[0], centre[1] + place[1]
    return left - 2, low - 1, left + size[0] + 2, low + size[1] + 1


def _free(box: Box, taken: Iterable[Box], frame: Bbox) -> bool:
    left, low, right, high = box
    inside = frame.x0 <= left and right <= frame.x1 and frame.y0 <= low and high <= frame.y1
    return inside and not any(
        left < other[2] and other[0] < right and low < other[3] and other[1] < high
        for other in taken
    )


def _along(axes: Axes, line: Line) -> list[Box]:
    """Small boxes along a line, for labels to stay off it."""
    ends = axes.transData.transform(np.column_stack(line))
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(ends):
        for part in np.linspace(0, 1, 12):
            x, y = x0 + part * (x1 - x0), y0 + part * (y1 - y0)
            boxes.append((x - 4, y - 4, x + 4, y + 4))
    return boxes
