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


def steps_below(heights: Floats, wanted: float) -> float:
    """Over how many steps a curve lies below a wanted height; it is straight between its points.

    For a rising curve this is where it reaches the height. For one that rises with noise, it is
    where the curve reaches it whose heights are the same ones in rising order.

    >>> steps_below(np.array([0.0, 2.0, 0.0, 4.0]), 1.0)
    1.25
    """
    low, high = (part(heights[:-1], heights[1:]) for part in (np.minimum, np.maximum))
    rise = high - low
    parts = np.where(rise > 0, (wanted - low) / np.where(rise > 0, rise, 1.0), low < wanted)
    return float(np.clip(parts, 0.0, 1.0).sum())


def root_mean_square(later: Floats, centre: float, variance_inside: float) -> float:
    """How far from `centre` a place typically is that lies behind each of the points 0, 1, … with
    these estimated chances; between two points its variance is `variance_inside`."""
    falling = np.minimum.accumulate(later) + np.maximum.accumulate(later[::-1])[::-1]
    masses = np.maximum(falling[:-1] - falling[1:], 0.0)
    squares = (np.arange(len(masses)) + 0.5 - centre) ** 2 + variance_inside
    return float(np.sqrt(masses @ squares / masses.sum()))
