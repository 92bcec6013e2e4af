"""The search behind confidence intervals that invert tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.lattice import Integers


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
