"""What random rounding to a grid adds to a sum, in squared grid steps (MATH §9). Exact.

A value at y grid steps is rounded to ⌊y + T⌋ with T uniform in [0, 1). With k dither values, the
leading part of T, u = ⌊kT⌋, is told openly and taken off again: (u − (k−1)/2)/k.
"""

from __future__ import annotations

from fractions import Fraction

MOST_DITHER = 64
"""Dither values: with 8 the variance is 3 % above the least one, a twelfth of a squared step."""


def rounding_variance(place: Fraction, dither: int) -> Fraction:
    """Of one value that lies `place` steps above 0: (k²−1)/12k² + (b−b²)/k², where b is the
    fractional part of k·place."""
    b = dither * place % 1
    return (Fraction(dither**2 - 1, 12) + b - b * b) / dither**2


def worst_rounding(dither: int) -> Fraction:
    """Of the values for which it is largest, b = ½."""
    return Fraction(dither**2 + 2, 12 * dither**2)


def even_rounding(dither: int) -> Fraction:
    """Of values that are spread evenly between grid points, on average."""
    return Fraction(dither**2 + 1, 12 * dither**2)
