"""What is done to values before a protocol encodes them: comparing, reading as 0/1, clamping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.numbers import exact
from shuffledp.protocols.base import outermost_floats
from shuffledp.queries.query import ColumnKind, Values

KINDS: dict[str, ColumnKind] = {
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


def kind_of(values: Values) -> ColumnKind:
    """What kind of values an array holds, by its dtype."""
    return KINDS.get(values.dtype.kind, "other")


def comparable(wanted: object, kind: ColumnKind) -> bool | int | float | str:
    """The value to count, in the column's own type (dates as text); refuses one that no row could
    hold."""
    if kind == "truth" and str(wanted).lower() in TRUTHS:
        return TRUTHS[str(wanted).lower()]
    if kind in ("whole", "real"):
        number = exact(wanted, "the value to count")  # type: ignore[arg-type]
        if kind == "real":
            return float(number)
        if number.denominator == 1:
            return int(number)
    if kind == "date" and _is_date(str(wanted)):
        return str(wanted)
    if kind == "text" and isinstance(wanted, str):
        return wanted
    raise ParameterError(
        f"The column holds {WORDS[kind]}, among which the value to count cannot be; give one of "
        "the same type."
    )


WORDS: dict[ColumnKind, str] = {
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
    kind = kind_of(values)
    one = comparable(wanted, kind)
    return np.asarray(values == (np.datetime64(str(one)) if kind == "date" else one))


def zeros_and_ones(values: Values) -> Values:
    """A column of true/false or of numbers as whole numbers; what is not 0 or 1 is left for the
    protocol to refuse."""
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind == "f" and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values
    raise ValueOutOfRange(NOT_A_TRUTH)


def clamped(values: Values, low: Fraction, high: Fraction, *, whole_numbers: bool) -> Values:
    """Values moved into the bounds; what is no number is left for the protocol to refuse."""
    if values.dtype.kind not in "biuf":
        return values
    if values.dtype.kind == "f" and np.isnan(values).any():
        return values
    if whole_numbers and values.dtype.kind in "biu":
        return np.clip(values.astype(np.int64), int(low), int(high))
    return np.clip(values.astype(np.float64), *outermost_floats(low, high))
