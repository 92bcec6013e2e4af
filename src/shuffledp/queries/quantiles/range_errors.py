"""The errors of range counts, which are weighted sums of many observations."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp.numbers.lattice import Floats
from shuffledp.numbers.tails import error_ends

LATTICE_REACH = 0.5
"""Observations are whole numbers: a continuous law may miss half a step at an end."""
LEAST_ERROR, FLAT, POSITION_DIGITS = 1e-6, 1e-3, 9
"""Limits for averaging over errors: smaller errors are raised to the first; a step that changes by
less than the second, relative to its error, counts as flat. Both are far above float rounding."""
Cumulants = tuple[Floats, Floats, Floats]
"""The second, third and fourth cumulants of errors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Common:
    """What the errors of all buckets of a level have in common: two buckets with f and g users have
    the covariance fixed + by_user·(f + g)."""

    fixed: float
    by_user: float
    held: Floats
    """The users of each bucket."""


@dataclass(frozen=True, eq=False)
class RangeErrors:
    """The weights of the observations in each bucket's estimate, and the observations' errors."""

    weights: Floats
    """One row per bucket, one column per observation."""
    cumulants: Cumulants
    """Of the observations' errors, less what those of a level have in common."""
    common: tuple[Common, ...]
    """Of each level, in the order of the observations."""

    def ends(self, weights: Floats, outside: float) -> tuple[Floats, Floats]:
        """The range of the errors of sums with these weights (a row each), with probability
        outside/2 left out on each side."""
        low, high = error_ends(*self.of_sums(weights), outside)
        step = LATTICE_REACH * np.abs(weights).max(axis=1, initial=0.0)
        return low - step, high + step

    def of_sums(self, weights: Floats) -> Cumulants:
        """The cumulants of the errors of sums with these weights."""
        second, third, fourth = self.cumulants
        squares = weights * weights  # products: powers of arrays are slow
        variances = squares @ second + self._in_common(weights)
        return variances, (squares * weights) @ third, (squares * squares) @ fourth

    def _in_common(self, weights: Floats) -> Floats:
        """What the errors of whole levels add to the variances: a level has the covariances
        diag + fixed·11ᵀ + by_user·(h1ᵀ + 1hᵀ)."""
        found, end = np.zeros(len(weights)), 0
        for level in self.common:
            first, end = end, end + len(level.held)
            if level.fixed or level.by_user:
                own = weights[:, first:end]
                total = own.sum(axis=1)
                found += total * (level.fixed * total + 2 * level.by_user * (own @ level.held))
        return found

    def below_edges(self) -> Floats:
        """The weights of the estimated numbers of users below each edge, including both ends."""
        return np.vstack([np.zeros(self.weights.shape[1]), np.cumsum(self.weights, axis=0)])


def steps_below(heights: Floats, wanted: float) -> float:
    """The number of steps for which a piecewise linear curve is below a height.

    For a rising curve, this is where it reaches the height. For a noisy one, it is where the curve
    with the same heights in sorted order reaches it.

    >>> steps_below(np.array([0.0, 2.0, 0.0, 4.0]), 1.0)
    1.25
    """
    low, high = (part(heights[:-1], heights[1:]) for part in (np.minimum, np.maximum))
    rise = high - low
    parts = np.where(rise > 0, (wanted - low) / np.where(rise > 0, rise, 1.0), low < wanted)
    return float(np.clip(parts, 0.0, 1.0).sum())


def mean_steps_below(heights: Floats, wanted: float, errors: Floats) -> float:
    """The mean of `steps_below` over normal errors of the heights, one step at a time and with the
    mean of the errors at its two ends.

    Small errors change nothing where the curve rises evenly, and smooth the jumps of a noisy one.

    >>> round(mean_steps_below(np.array([0.0, 2.0, 0.0, 4.0]), 1.0, np.full(4, 0.25)), 3)
    1.256
    """
    distances = wanted - heights
    scales = np.maximum((errors[:-1] + errors[1:]) / 2, LEAST_ERROR)
    start, end = distances[:-1] / scales, distances[1:] / scales
    fall = start - end
    flat = np.abs(fall) < FLAT
    means = (_mean_excess(start) - _mean_excess(end)) / np.where(flat, 1.0, fall)
    parts = np.where(flat, _normal_below((start + end) / 2), means)
    return round(float(np.clip(parts, 0.0, 1.0).sum()), POSITION_DIGITS)


def _normal_below(places: Floats) -> Floats:
    law = NormalDist()
    return np.array([law.cdf(place) for place in places.tolist()])


def _mean_excess(places: Floats) -> Floats:
    """The mean of max(0, place − N) for a standard normal N, for each place."""
    densities = np.exp(-(places**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(places * _normal_below(places) + densities)


def mean_squares(
    later: Floats, centre: float, variance_inside: float, parts: int = 1
) -> tuple[Floats, Floats]:
    """(probability, mean square distance from `centre` times the probability) of every bin of
    `parts` steps, for a position that is beyond each of the points 0, 1, … with these estimated
    probabilities; between two points its variance is `variance_inside`."""
    falling = np.minimum.accumulate(later) + np.maximum.accumulate(later[::-1])[::-1]
    masses = np.maximum(falling[:-1] - falling[1:], 0.0)
    masses /= masses.sum()
    squares = (np.arange(len(masses)) + 0.5 - centre) ** 2 + variance_inside
    shares, sums = (one.reshape(-1, parts).sum(axis=1) for one in (masses, masses * squares))
    return shares, sums
