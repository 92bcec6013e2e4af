"""Intervals of numbers that are shown only because they came out large. Reporting only."""

from __future__ import annotations

import math

STEPS = 60
FARTHEST = 30.0


def above(deviations: float) -> float:
    """P(Z ≥ z) of a standard normal Z."""
    return math.erfc(deviations / math.sqrt(2)) / 2


def least_behind(value: float, error: float, shown_from: float, outside: float) -> float:
    """The least true number, 0 or above, behind an estimate that was shown because it is at least
    `shown_from`: below it, a normal estimate that is shown would reach the value with a chance of
    less than `outside`.

    >>> round(least_behind(20.0, 1.0, 5.0, 0.025), 2)  # far above: as if nothing had been chosen
    18.04
    >>> least_behind(5.1, 1.0, 5.0, 0.025)  # just shown: it may be chance alone
    0.0
    """

    def chance(true: float) -> float:
        return above((value - true) / error) / above((shown_from - true) / error)

    low, high = 0.0, max(value, 0.0)
    low = max(low, shown_from - FARTHEST * error)  # farther below, floats know no chances
    if chance(low) >= outside:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < outside else (low, middle)
    return low
