"""Protocols made of cells: counting and integer sums, histograms, real sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.protocols.base import Protocol, cell_from_dict
from shuffledp.protocols.histogram import Histogram
from shuffledp.protocols.integer_sum import Counting, IntegerSum
from shuffledp.protocols.quantiles import Quantiles
from shuffledp.protocols.real_sum import RealSum

__all__ = [
    "Counting",
    "Histogram",
    "IntegerSum",
    "Protocol",
    "Quantiles",
    "RealSum",
    "protocol_from_dict",
]


def protocol_from_dict(data: Any) -> Protocol:
    """The protocol behind `Protocol.describe`; refuses what is not one."""
    try:
        kind, epsilon = data["kind"], Fraction(data["epsilon"])
        if kind == "counting":
            return Counting(epsilon, cell_from_dict(data["cell"]))
        if kind == "integers":
            return IntegerSum(epsilon, cell_from_dict(data["cell"]))
        if kind == "histogram":
            labels, other = tuple(data["labels"]), data.get("other")
            return Histogram(epsilon, cell_from_dict(data["cell"]), labels, other)
        if kind == "summation":
            digits = tuple(cell_from_dict(digit) for digit in data["digits"])
            return RealSum(epsilon, digits, Fraction(data["low"]), Fraction(data["high"]))
        if kind == "ranges":
            levels = tuple(
                (int(level["buckets"]), cell_from_dict(level["cell"]), Fraction(level["down"]))
                for level in data["levels"]
            )
            return Quantiles(epsilon, levels, Fraction(data["low"]), Fraction(data["high"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ParameterError(
            f"The protocol's description is incomplete or malformed: {error}."
        ) from None
    raise ParameterError(f"There is no protocol of kind {kind!r}.")
