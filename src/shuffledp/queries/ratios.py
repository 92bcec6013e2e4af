"""Intervals of ratios of two private numbers."""

from __future__ import annotations

import math
from typing import NamedTuple


class Spread(NamedTuple):
    """The variances of the errors of a part and of its whole, and their covariance."""

    part: float
    whole: float
    shared: float = 0.0


def ratio_interval(
    part: float, whole: float, spread: Spread, reaches: tuple[float, float]
) -> tuple[float, float]:
    """The ratios r in 0 … 1 for which part − r·whole is not an outlier (Fieller): its square is at
    most t² times its variance, for a reach t on each side. All of 0 … 1 if the whole may be 0."""
    ends = []
    for reach, side in zip(reaches, (-1, 1), strict=True):
        a = whole**2 - reach**2 * spread.whole
        b = part * whole - reach**2 * spread.shared
        inside = b * b - a * (part**2 - reach**2 * spread.part)
        if whole <= 0 or a <= 0 or inside < 0:
            return 0.0, 1.0
        ends.append(min(max((b + side * math.sqrt(inside)) / a, 0.0), 1.0))
    low, high = ends
    return low, high
