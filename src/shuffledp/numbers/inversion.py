"""Confidence intervals by inverting tests: the true sums that are consistent with the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.lattice import Floats, Integers

Chances = Callable[[Integers, Integers], Floats]
"""(true sums, observed differences) → P(difference ≤ observed), pair by pair."""


def invert_tests(
    at_most: Chances, sums: Integers, outside: float, middle: Floats, reach: Floats
) -> tuple[Integers, Integers]:
    """For each observed difference, the least and the largest true sum under which it is not an
    outlier; each side misses with probability at most outside/2. `middle` and `reach` guess where
    to search; equal differences are computed once."""
    known, index = np.unique(sums, return_inverse=True)
    first = np.unique(sums, return_index=True)[1]
    middle, reach = middle[first], reach[first]

    def not_too_low(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(1 - at_most(totals, known - 1) > outside / 2)

    def too_high(totals: Integers) -> NDArray[np.bool_]:
        return np.asarray(at_most(totals, known) <= outside / 2)

    low = first_true(not_too_low, np.rint(middle - reach).astype(np.int64))
    high = first_true(too_high, np.rint(middle + reach).astype(np.int64)) - 1
    return low[index], high[index]


def normal_reach(outside: float, variances: Floats) -> Floats:
    """Half the width of an interval if the error were normal."""
    from statistics import NormalDist  # imported here, because it is slow to import

    return np.asarray(-NormalDist().inv_cdf(outside / 2) * np.sqrt(variances))


def first_true(holds: Callable[[Integers], NDArray[np.bool_]], start: Integers) -> Integers:
    """The least integers at which monotone conditions hold, searched from `start` for all elements
    at once. With the right start, each condition is evaluated twice."""
    at_start = holds(start)
    way, step = np.where(at_start, -1, 1), np.ones_like(start)
    inner, outer = start, start + way
    while (going := holds(outer) == at_start).any():  # not yet past the change
        step = np.where(going, 2 * step, step)
        inner, outer = np.where(going, outer, inner), np.where(going, outer + way * step, outer)
    low, high = np.minimum(inner, outer), np.maximum(inner, outer)
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        found = holds(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high
