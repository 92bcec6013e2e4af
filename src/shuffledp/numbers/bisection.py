"""Bisection: finds where a monotone condition becomes true.

The condition is assumed to fail at one end and to hold at the other; the ends are not evaluated.
The result is always a point at which it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FARTHEST_STEP = 1 << 60
Found = TypeVar("Found")


def first_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least whole number in low+1..high at which the condition holds; it fails at `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def bisect(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    width: float = 0.0,
    steps: int | None = None,
) -> float:
    """A number at which the condition holds, at most `width` away from one at which it fails; or
    the one after `steps` halvings. It fails at `low`, which may also be the larger end."""
    while steps is None or steps > 0:
        if steps is None and not abs(high - low) > width:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
        steps = None if steps is None else steps - 1
    return high


def bisect_arrays(
    holds: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats, steps: int
) -> Floats:
    """`bisect` with a number of steps, for all elements of arrays at once."""
    for _ in range(steps):
        middle = (low + high) / 2
        found = holds(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high


def bisect_found(
    find: Callable[[float], Found | None], low: float, high: float, width: float
) -> Found | None:
    """The result of `find` at the smallest number (to within `width`) for which it is not None;
    None if there is no such number."""
    best: Found | None = None

    def holds(middle: float) -> bool:
        nonlocal best
        found = find(middle)
        best = best if found is None else found
        return found is not None

    bisect(holds, low, high, width=width)
    return best


def first_true(holds: Callable[[Integers], NDArray[np.bool_]], start: Integers) -> Integers:
    """The least integers at which monotone conditions hold, searched from `start` for all elements
    at once. With the right start, each condition is evaluated twice."""
    at_start = holds(start)
    way, step = np.where(at_start, -1, 1), np.ones_like(start)
    inner, outer = start, start + way
    while (going := holds(outer) == at_start).any():  # not yet past the change
        if (step > FARTHEST_STEP).any():
            raise ParameterError(
                "An interval is wider than can be computed: with these parameters, the answer says "
                "nothing."
            )
        step = np.where(going, 2 * step, step)
        inner, outer = np.where(going, outer, inner), np.where(going, outer + way * step, outer)
    low, high = np.minimum(inner, outer), np.maximum(inner, outer)
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        found = holds(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high
