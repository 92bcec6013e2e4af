"""The errors of range counts that are weighted sums of many independent observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffledp.accuracy.lattice import Floats
from shuffledp.accuracy.tails import error_ends

LATTICE_REACH = 0.5
"""Observations are whole numbers: a continuous law may miss half a step at an end."""
Cumulants = tuple[Floats, Floats, Floats]
"""The second, third and fourth cumulants of errors."""


@dataclass(frozen=True, eq=False)
class RangeErrors:
    """What each bucket's estimate takes of every observation, and the observations' errors."""

    weights: Floats
    """One row per bucket, one column per observation."""
    cumulants: Cumulants
    """Of the observations' errors."""

    def ends(self, weights: Floats, outside: float) -> tuple[Floats, Floats]:
        """Between which errors the sums with these weights (a row each) lie, but for a chance of
        outside/2 on each side."""
        low, high = error_ends(*self.of_sums(weights), outside)
        step = LATTICE_REACH * np.abs(weights).max(axis=1, initial=0.0)
        return low - step, high + step

    def of_sums(self, weights: Floats) -> Cumulants:
        """The cumulants of the errors of sums with these weights."""
        second, third, fourth = self.cumulants
        return weights**2 @ second, weights**3 @ third, weights**4 @ fourth

    def below_edges(self) -> Floats:
        """The weights of the estimates of how many users lie below each edge, both ends
        included."""
        return np.vstack([np.zeros(self.weights.shape[1]), np.cumsum(self.weights, axis=0)])


def first_and_last_crossing(heights: Floats, wanted: float) -> tuple[float, float]:
    """Where a curve that goes from below to above a wanted height reaches it for the first time
    and for the last, in steps from its beginning; it is straight between its points.

    >>> first_and_last_crossing(np.array([0.0, 2.0, 0.0, 4.0]), 1.0)
    (0.5, 2.25)
    """
    return crossing(heights, wanted), len(heights) - 1 - crossing(-heights[::-1], -wanted)


def crossing(heights: Floats, wanted: float) -> float:
    """Where the running maximum of a curve reaches a height; at its end if it never does."""
    rising = np.maximum.accumulate(heights)
    at = int(np.searchsorted(rising, wanted))
    if at == 0 or at == len(rising):
        return float(max(at - 1, 0))
    return float(at - 1 + (wanted - rising[at - 1]) / (rising[at] - rising[at - 1]))


def root_mean_square(later: Floats, centre: float, variance_inside: float) -> float:
    """How far from `centre` a place typically is that lies behind each of the points 0, 1, … with
    these estimated chances; between two points its variance is `variance_inside`."""
    falling = np.minimum.accumulate(later) + np.maximum.accumulate(later[::-1])[::-1]
    masses = np.maximum(falling[:-1] - falling[1:], 0.0)
    squares = (np.arange(len(masses)) + 0.5 - centre) ** 2 + variance_inside
    return float(np.sqrt(masses @ squares / masses.sum()))
