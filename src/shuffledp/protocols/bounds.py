"""Real values within exact bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Values, check_one_value_each
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import show

LARGEST_BOUND = 10**100
"""Limits on the bounds of real values, which are also used as floats."""


def check_bounds(low: Fraction, high: Fraction) -> None:
    """Refuses bounds that do not enclose a range of floats."""
    if not low < high:
        raise ParameterError("The lower bound must be below the upper bound.")
    if max(abs(low), abs(high)) > LARGEST_BOUND or high - low < Fraction(1, LARGEST_BOUND):
        raise ParameterError("Bounds must be within ±10¹⁰⁰ and at least 10⁻¹⁰⁰ apart.")


def parsed_number(text: str, low: Fraction, high: Fraction) -> float:
    """A number in [low, high] from text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    first, last = outermost_floats(low, high)
    if not (first <= last and float(low) <= value <= float(high)):  # also if it is NaN
        raise ValueOutOfRange(f"The value must be a number from {show(low)} to {show(high)}.")
    return min(max(value, first), last)


def reals_within(values: Values, low: Fraction, high: Fraction) -> NDArray[np.float64]:
    """`values` as floats in [low, high], exact, and not copied if they are already floats; raises
    an error that does not show them.

    A bound such as 1/10 is not a float. The float nearest to it, which is what people write as 0.1,
    may lie just outside, and counts as the outermost float inside.

    Ensures: no value is outside the exact bounds.
    """
    array = np.asarray(values)
    check_one_value_each(array)
    if array.dtype.kind not in "biuf":
        raise ValueOutOfRange(f"Values must be numbers; an array of {array.dtype} was given.")
    numbers = array.astype(np.float64, copy=False)
    if not numbers.size:
        return numbers
    least, most = numbers.min(), numbers.max()
    first, last = outermost_floats(low, high)
    if not (first <= last and least >= float(low) and most <= float(high)):  # also for NaN
        raise ValueOutOfRange(
            f"Some values are missing, not finite, or outside [{show(low)}, {show(high)}]; "
            "nothing was randomized: widen the bounds, or clip the values "
            "with clamp=True (--clamp)."
        )
    return numbers if first <= least and most <= last else np.clip(numbers, first, last)


@lru_cache(maxsize=64)
def outermost_floats(low: Fraction, high: Fraction) -> tuple[float, float]:
    """The least and the largest float within exact bounds; the first is larger if there is none."""
    first, last = float(low), float(high)
    first = first if Fraction(first) >= low else math.nextafter(first, math.inf)
    last = last if Fraction(last) <= high else math.nextafter(last, -math.inf)
    return first, last
