"""The axis of quantiles: the finest bins, and how values on them are read and shown.

Bins are equal parts of [low, high] or, for whole numbers and dates, points or equally large groups
of points. Positions on an axis are counted in bins from its beginning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Values, check_one_value_each
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import exact, show
from shuffledp.protocols.bounds import parsed_number, reals_within
from shuffledp.queries.quantiles.dates import (
    DTYPES,
    UNITS,
    date_at,
    date_number,
    date_numbers,
    date_text,
    is_date,
)

Floats = NDArray[np.float64]
MOST_POINTS = 1 << 53
"""Whole numbers up to here are exact as floats."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The bins of quantiles, and the meaning of values on them."""

    low: Fraction
    high: Fraction
    bins: int
    points: bool = False
    """Whether values are whole numbers, so that bins are points or groups of points."""
    unit: str = ""
    """The unit of whole numbers that represent dates since 1970: day or second."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ParameterError("The lower bound must be below the upper bound.")
        if self.unit and (self.unit not in UNITS or not self.points):
            raise ParameterError(f"The unit of dates must be one of {', '.join(UNITS)}.")
        if self.points and (
            self.low.denominator != 1
            or self.high.denominator != 1
            or max(abs(self.low), abs(self.high)) >= MOST_POINTS
        ):
            raise ParameterError("The bounds of whole numbers must be whole numbers within ±2⁵³.")

    @property
    def group(self) -> int:
        """How many points a bin has; more than one for bins that are parts of an interval."""
        if not self.points:
            return 2
        return math.ceil((self.high - self.low + 1) / self.bins)

    @cached_property
    def edges(self) -> Floats:
        """The bins' ends; for points, the first point of each bin, and the one after the last."""
        if self.points:
            return float(self.low) + self.group * np.arange(self.bins + 1, dtype=np.float64)
        return np.linspace(float(self.low), float(self.high), self.bins + 1)

    # values in

    @cached_property
    def _starts(self) -> Floats:
        """The least float at or above each bin's exact beginning, so that comparing floats with it
        gives the exact result."""
        width = (self.high - self.low) / self.bins
        return np.array([_float_from(self.low + k * width) for k in range(self.bins)])

    def bins_of(self, values: Values) -> NDArray[np.int64]:
        """The bin of every value, exactly ⌊(value − low)·bins/(high − low)⌋, the last one for the
        upper bound; refuses values that do not fit."""
        if not self.points:
            numbers = reals_within(values, self.low, self.high)
            return np.searchsorted(self._starts, numbers, side="right").astype(np.int64) - 1
        array = np.asarray(values)
        check_one_value_each(array)
        whole = date_numbers(array, self.unit) if self.unit else self._whole(array)
        if whole.size and (int(whole.min()) < self.low or int(whole.max()) > self.high):
            raise ValueOutOfRange(
                f"Some values are outside {self.text(self.low)} … {self.text(self.high)}; "
                "nothing was randomized: widen the bounds, or clip the data (clamp)."
            )
        return ((whole.astype(np.int64) - int(self.low)) // self.group).astype(np.int64)

    def _whole(self, array: Values) -> NDArray[Any]:
        if array.dtype.kind in "biu":
            return array.astype(np.int64) if array.dtype.kind in "b" else array
        numbers = reals_within(array, self.low, self.high)
        if (numbers != np.floor(numbers)).any():
            raise ValueOutOfRange("Values must be whole numbers here; leave points out for others.")
        return numbers.astype(np.int64)

    def parse(self, text: str) -> Any:
        """One user's value from text."""
        if self.unit:
            return self._parsed_date(text)
        number = parsed_number(text, self.low, self.high)
        if self.points and number != math.floor(number):
            raise ValueOutOfRange("The value must be a whole number.")
        return int(number) if self.points else number

    def _parsed_date(self, text: str) -> np.datetime64:
        try:
            number = date_number(text, self.unit)
        except ParameterError:
            number = int(self.low) - 1
        if not self.low <= number <= self.high:
            raise ValueOutOfRange(
                f"The value must be a date from {self.text(self.low)} to {self.text(self.high)}."
            )
        return date_at(number, self.unit)

    def samples(self, size: int) -> Values:
        """`size` values between the bounds."""
        if not self.points:
            return np.linspace(float(self.low), float(self.high), size)
        whole = np.linspace(float(self.low), float(self.high), size).astype(np.int64)
        if not self.unit:
            return whole
        return whole.astype(DTYPES[self.unit])

    def position(self, value: object, name: str) -> float:
        """The position of a value, in bins from the beginning; clipped to the range."""
        if self._dated(value):
            number = Fraction(date_number(value, self.unit))
        else:
            number = exact(value, name)  # type: ignore[arg-type]
        if self.points:
            place = float((math.ceil(number) - self.low) / self.group)
        else:
            place = float((number - self.low) / (self.high - self.low) * self.bins)
        return min(max(place, 0.0), float(self.bins))

    def _dated(self, value: object) -> bool:
        if bool(self.unit) != is_date(value):
            wanted = "dates like 2013-01-31" if self.unit else "numbers"
            raise ParameterError(f"The ends of a range must be {wanted}, as the bounds are.")
        return bool(self.unit)

    # answers out

    def value_at(self, position: float) -> float:
        """The value at a position; a whole number if values are."""
        if self.points:
            return min(float(self.low) + math.ceil(position * self.group) - 1, float(self.high))
        return float(np.interp(position, np.arange(self.bins + 1), self.edges))

    def ends(self, first: int, last: int) -> tuple[float, float]:
        """The least and the largest value of bins first..last."""
        low, high = float(self.edges[first]), float(self.edges[last + 1])
        return (low, min(high - 1, float(self.high))) if self.points else (low, high)

    @property
    def width(self) -> float:
        """The length of a bin, in the values' unit."""
        return float(self.group) if self.points else float(self.edges[1] - self.edges[0])

    @property
    def exact_width(self) -> Fraction:
        """The same, exactly."""
        return Fraction(self.group) if self.points else (self.high - self.low) / self.bins

    def middle_of(self, value: float, position: float) -> float:
        """The position from which errors of an answer are measured."""
        return (value - float(self.low) + 0.5) / self.group if self.points else position

    def round_place(self, bin_number: int) -> float:
        """Where in a bin its roundest number is, from 0 to 1; NaN if values are dates."""
        if self.unit:
            return math.nan
        start = self.low + bin_number * self.exact_width
        last = bin_number == self.bins - 1  # contains its upper end, which for points is beyond it
        number = roundest(start, self.exact_width, closed=last and not self.points)
        return float((number - start + (Fraction(1, 2) if self.points else 0)) / self.exact_width)

    def parts_of_bin(self, most: int) -> int:
        """The number of parts of a bin for computing errors: its points, or `most`."""
        return min(self.group, most) if self.points else most

    def variance_inside(self, parts: int) -> float:
        """The variance of a value anywhere in one part of its bin, for parts of length 1."""
        points = self.group / parts
        return (1 - 1 / points**2 if self.points else 1.0) / 12

    def text(self, number: Fraction | float) -> str:
        """A value for people: a date, or a number with as many digits as the bounds need."""
        if self.unit:
            return date_text(float(number), self.unit)
        if self.points:
            return f"{int(number):,}"
        return show(number) if isinstance(number, Fraction) else f"{number:,.2f}"

    @property
    def unit_text(self) -> str:
        """The unit printed after a length on the axis."""
        return f" {self.unit}s" if self.unit else ""

    def edge_text(self, position: int) -> str:
        """An edge between bins, for people."""
        edge = float(self.edges[position])
        return f"{edge:g}" if not self.points else self.text(edge)

    def to_dict(self) -> dict[str, Any]:
        """How the axis differs from equal parts of an interval; empty if it does not."""
        points = {"points": True} if self.points else {}
        return {**points, **({"unit": self.unit} if self.unit else {})}


def roundest(start: Fraction, width: Fraction, *, closed: bool = False) -> Fraction:
    """The number from `start` to below `start + width` (or up to it, if closed) that is a multiple
    of the largest 1, 2 or 5 times a power of ten; the least if there are several.

    >>> roundest(Fraction(147, 10), Fraction(3, 4))
    Fraction(15, 1)
    """
    end, step = start + width, Fraction(5)
    while step < max(abs(start), abs(end)):
        step *= 10
    while True:
        for part in (Fraction(1), Fraction(2, 5), Fraction(1, 5)):
            number = math.ceil(start / (step * part)) * step * part
            if number < end or (closed and number == end):
                return number
        step /= 10


def _float_from(number: Fraction) -> float:
    """The least float at or above a number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
