"""What is done to values before a protocol encodes them: comparing, reading as 0/1, clamping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.numbers import exact
from shuffledp.protocols.base import outermost_floats
from shuffledp.queries.query import ColumnType, Values

KINDS: dict[str, ColumnType] = {
    "b": "truth",
    "i": "whole",
    "u": "whole",
    "f": "real",
    "O": "text",
    "U": "text",
    "M": "date",
}
"""The kind of a NumPy array's values, by the letter of its dtype."""
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
NOT_A_TRUTH = (
    "A count needs a column of true/false or 0/1; say which value to count with equals= (--equals)."
)


def column_type(values: Values) -> ColumnType:
    """What an array holds, by its dtype."""
    return KINDS.get(values.dtype.kind, "other")


def comparable(wanted: object, holds: ColumnType) -> bool | int | float | str:
    """The value to count, in the column's own type (dates as text); refuses one that no row could
    hold."""
    if holds == "truth" and str(wanted).lower() in TRUTHS:
        return TRUTHS[str(wanted).lower()]
    if holds in ("whole", "real"):
        number = exact(wanted, "the value to count")  # type: ignore[arg-type]
        if holds == "real":
            return float(number)
        if number.denominator == 1:
            return int(number)
    if holds == "date" and _is_date(str(wanted)):
        return str(wanted)
    if holds == "text" and isinstance(wanted, str):
        return wanted
    raise ParameterError(
        f"The column holds {WORDS[holds]}, among which the value to count cannot be; give one of "
        "the same type."
    )


WORDS: dict[ColumnType, str] = {
    "truth": "true/false values",
    "whole": "whole numbers",
    "real": "numbers",
    "text": "texts",
    "date": "dates",
    "other": "values that are no texts, numbers or dates",
}


def _is_date(text: str) -> bool:
    try:
        np.datetime64(text)
    except ValueError:
        return False
    return True


def compared(values: Values, wanted: object) -> Values:
    """True or false per row: is it the wanted value?"""
    holds = column_type(values)
    one = comparable(wanted, holds)
    return np.asarray(values == (np.datetime64(str(one)) if holds == "date" else one))


def zeros_and_ones(values: Values) -> Values:
    """A column of true/false or of numbers as whole numbers; what is not 0 or 1 is left for the
    protocol to refuse."""
    if values.dtype == np.bool_:
        return values.astype(np.int64)
    if np.issubdtype(values.dtype, np.floating) and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values
    raise ValueOutOfRange(NOT_A_TRUTH)


def clamped(values: Values, low: Fraction, high: Fraction, *, whole_numbers: bool) -> Values:
    """Values moved into the bounds; what is no number is left for the protocol to refuse."""
    if values.dtype.kind not in "biuf":
        return values
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        return values
    if whole_numbers and values.dtype.kind in "biu":
        return np.clip(values.astype(np.int64), int(low), int(high))
    return np.clip(values.astype(np.float64), *outermost_floats(low, high))
