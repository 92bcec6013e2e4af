"""What random rounding to a grid adds to a sum, in squared grid steps (MATH §9). Exact.

A value at y grid steps is rounded to ⌊y + T⌋ with T uniform in [0, 1). With k dither values, the
leading part of T, u = ⌊kT⌋, is sent openly and subtracted again: (u − (k−1)/2)/k.
"""

from __future__ import annotations

from fractions import Fraction

FINEST_GRID = 1 << 24
"""The most grid points of a sum by digits, times the values of its dither."""
MOST_DITHER = 64
"""The most dither values. With 8, the variance is 3 % above the least, 1/12 of a squared step."""


def worst_rounding(dither: int) -> Fraction:
    """The largest variance, at b = ½."""
    return Fraction(dither**2 + 2, 12 * dither**2)


def even_rounding(dither: int) -> Fraction:
    """The average variance, for values spread evenly between grid points."""
    return Fraction(dither**2 + 1, 12 * dither**2)
