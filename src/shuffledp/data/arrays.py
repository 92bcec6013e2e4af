"""Lists and NumPy arrays as columns with one type of values and none missing.

Every reader ends here or in `arrow.py`, so a table has the same values, or is refused with the same
error, whichever library it comes from.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import DataError
from shuffledp.protocols.base import MOST_BUCKETS

Values = NDArray[Any]
ColumnType = Literal["truth", "whole", "real", "text", "date", "time", "instant", "other"]
"""The type of a column's values: true/false, whole numbers, other numbers, texts, dates without a
time, dates with a time but no time zone, dates with both, or anything else."""

MISSING = (
    "The column has missing values. Declare what they count as with missing=… (--missing), or fill "
    "them or drop their rows first."
)
MIXED = "The column mixes values of different types; use one type."
NO_ROWS = "There are no rows; a protocol needs at least one user."
UNKNOWN_TYPE = (
    "The column has values other than true/false, numbers, texts and dates; convert them first."
)
KINDS: dict[str, ColumnType] = {
    "b": "truth",
    "i": "whole",
    "u": "whole",
    "f": "real",
    "O": "text",
    "U": "text",
    "M": "time",
}
"""The kind of a NumPy array's values, by the letter of its dtype."""
DAYS = ("Y", "M", "W", "D")
"""NumPy's units of dates without a time."""
MISSING_TYPES = ("NoneType", "NAType", "NaTType", "MaskedConstant")
BLOCK = 1 << 16
"""How many rows are counted or coded together: as many as fit in the processor's cache."""


class Counted(NamedTuple):
    """Different values and how many rows have each."""

    names: Values
    rows: NDArray[np.int64]


class Coded(NamedTuple):
    """Values as indices into a dictionary."""

    names: Values
    """Different values; some may not occur in any row."""
    codes: NDArray[Any]
    """For each row, the index of its value."""

    def counts(self) -> Counted:
        """The values that occur, and how often."""
        rows = np.zeros(len(self.names), np.int64)
        for at in range(0, len(self.codes), BLOCK):  # NumPy converts each block to 64-bit numbers
            rows += np.bincount(self.codes[at : at + BLOCK], minlength=len(rows))
        there = np.flatnonzero(rows)
        return Counted(self.names[there], rows[there])


def array_type(values: Values) -> ColumnType:
    """The type of an array's values, from its dtype."""
    if values.dtype.kind in "M" and np.datetime_data(values.dtype)[0] in DAYS:
        return "date"
    return KINDS.get(values.dtype.kind, "other")


def settled(values: Values) -> Values:
    """The same values, signed if they fit; raises `DataError` if one is NaN or NaT."""
    if values.dtype == np.uint64 and (not values.size or int(values.max()) < 2**63):
        return values.astype(np.int64)
    if values.dtype.kind in "f" and values.size and np.isnan(values.min()):
        raise DataError(MISSING)
    if values.dtype.kind in "Mm" and np.isnat(values).any():
        raise DataError(MISSING)
    return values


def from_array(array: Values) -> tuple[Values, ColumnType]:
    """A NumPy array as a column: its values and their type."""
    if array.ndim != 1:
        raise DataError(f"One value per user is needed; an array of shape {array.shape} was given.")
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.getmaskarray(array).any():
            raise DataError(MISSING)
        array = np.asarray(array.data)
    if array.size == 0:
        raise DataError(NO_ROWS)
    if array.dtype.kind in "OT":
        return from_objects(array.tolist())
    if array.dtype.kind in "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind in "M" and array_type(array) == "date":
        array = array.astype("datetime64[D]")
    return settled(array), array_type(array)


def from_objects(values: Sequence[object]) -> tuple[Values, ColumnType]:
    """Python objects as a column: their values and their type.

    Ensures: raises `DataError` if one is missing, if types are mixed (other than whole numbers
    among reals) or if a whole number has more than 64 bits.
    """
    if not len(values):
        raise DataError(NO_ROWS)
    types = set(map(type, values))
    if any(kind.__name__ in MISSING_TYPES for kind in types):
        raise DataError(MISSING)
    if any(issubclass(kind, np.generic) or kind.__name__ == "Interval" for kind in types):
        values = [as_label(value) for value in values]
        types = set(map(type, values))
        if type(None) in types:  # NaT
            raise DataError(MISSING)
    if _has_nan(values, types):
        raise DataError(MISSING)
    kinds = {_kind(kind) for kind in types}
    if kinds == {"whole", "real"}:
        kinds = {"real"}
    if len(kinds) > 1:
        raise DataError(MIXED)
    (holds,) = kinds
    if holds == "other":
        raise DataError(UNKNOWN_TYPE)
    return _times(values) if holds == "time" else (_MAKERS[holds](values), holds)


def _plain(value: Any) -> object:
    """The Python object for a NumPy scalar, if there is one."""
    if not isinstance(value, np.generic) or isinstance(value, np.timedelta64):
        return value
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.datetime64) and array_type(np.asarray(value)) != "date":
        value = value.astype("datetime64[us]")  # of nanoseconds, `item` would make a whole number
    found: object = value.item()
    beyond = isinstance(value, np.datetime64) and isinstance(found, int)  # Python's years
    return value if beyond else found


def as_labels(values: Iterable[object]) -> list[Any]:
    """Labels in the form that columns use; stops one above the limit, so that too many are
    refused."""
    arrow = getattr(values, "to_pylist", None)
    labels = list(islice(values if arrow is None else arrow(), MOST_BUCKETS + 1))
    return labels if {*map(type, labels)} <= {str, int, bool} else [as_label(one) for one in labels]


def as_label(value: object) -> object:
    """A label as a text or a number: intervals of `pandas.cut` become their text."""
    value = _plain(value)
    return str(value) if type(value).__name__ == "Interval" else value


def _has_nan(values: Iterable[object], types: set[type]) -> bool:
    if any(issubclass(kind, float) for kind in types) and any(
        isinstance(value, float) and math.isnan(value) for value in values
    ):
        return True
    return Decimal in types and any(
        isinstance(value, Decimal) and value.is_nan() for value in values
    )


def _kind(kind: type) -> ColumnType:
    if issubclass(kind, bool):
        return "truth"
    if issubclass(kind, int):
        return "whole"
    if issubclass(kind, float | Decimal | Fraction):
        return "real"
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, dt.datetime):
        return "time"
    return "date" if issubclass(kind, dt.date) else "other"


def _wholes(values: Sequence[Any]) -> Values:
    low, high = min(values), max(values)
    if low >= -(2**63) and high < 2**63:
        return np.array(values, np.int64)
    if low >= 0 and high < 2**64:
        return np.array(values, np.uint64)
    raise DataError("The column has whole numbers of more than 64 bits; use smaller ones.")


def _reals(values: Sequence[Any]) -> Values:
    try:
        return np.array([float(value) for value in values], np.float64)
    except OverflowError:
        raise DataError("The column has numbers that are too large; use smaller ones.") from None


def _times(values: Sequence[Any]) -> tuple[Values, ColumnType]:
    """Dates with a time, either all with a time zone (converted to UTC) or all without."""
    zoned = {value.tzinfo is not None for value in values}
    if len(zoned) > 1:
        raise DataError("The column mixes times with and without a time zone; use one type.")
    if zoned == {False}:
        return np.array(values, "datetime64[us]"), "time"
    in_utc = [value.astimezone(dt.UTC).replace(tzinfo=None) for value in values]
    return np.array(in_utc, "datetime64[us]"), "instant"


_MAKERS: dict[ColumnType, Callable[[Sequence[Any]], Values]] = {
    "truth": lambda values: np.array(values, np.bool_),
    "whole": _wholes,
    "real": _reals,
    "text": lambda values: np.array([str(value) for value in values], dtype=object),
    "date": lambda values: np.array(values, "datetime64[D]"),
}
