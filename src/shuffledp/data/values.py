"""Prepares values before a protocol encodes them: comparing, reading as 0/1, clipping."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

import numpy as np

from shuffledp.data.arrays import ColumnType, Values, array_type
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import exact
from shuffledp.protocols.bounds import outermost_floats

TRUTHS = {"true": True, "1": True, "false": False, "0": False}
NOT_A_TRUTH = (
    "A count needs a column of true/false or 0/1; say which value to count with equals= (--equals)."
)
WORDS: dict[ColumnType, str] = {
    "truth": "true/false values",
    "whole": "whole numbers",
    "real": "real numbers",
    "text": "texts",
    "date": "dates without a time",
    "time": "dates with a time and without a time zone",
    "instant": "dates with a time and a time zone",
    "other": "values other than texts, numbers and dates",
}
EXAMPLES: dict[ColumnType, str] = {
    "date": "2020-01-31",
    "time": "2020-01-31T12:00",
    "instant": "2020-01-31T12:00+01:00",
}
"""How to write a value to count, for each kind of date."""
ISO_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?"
)

Comparable = bool | int | float | str | dt.date
"""A value to count; a `datetime` for dates with a time."""


def comparable(wanted: object, holds: ColumnType, what: str = "the value to count") -> Comparable:
    """A value to compare a column with, in the column's type; refuses one that no row can have, and
    an ambiguous date."""
    if isinstance(wanted, np.generic) and not isinstance(wanted, np.datetime64):
        wanted = wanted.item()
    if holds == "truth" and str(wanted).lower() in TRUTHS:
        return TRUTHS[str(wanted).lower()]
    if holds in ("whole", "real"):
        number = exact(wanted, what)  # type: ignore[arg-type]
        if holds == "real":
            return float(number)
        if number.denominator == 1:
            return int(number)
    if holds == "text" and isinstance(wanted, str):
        return wanted
    if holds in EXAMPLES:
        return _moment(wanted, holds, what)
    raise ParameterError(
        f"The column has {WORDS[holds]}, which {what} is not; use a value of the same type."
    )


def _moment(wanted: object, holds: ColumnType, what: str) -> dt.date:
    """A date, a time or an instant, in the column's type."""
    refusal = ParameterError(
        f"The column has {WORDS[holds]}; write {what} in the same way, for example "
        f"{EXAMPLES[holds]}."
    )
    if isinstance(wanted, np.datetime64):
        wanted = str(wanted)
    if isinstance(wanted, dt.datetime):
        found = "time" if wanted.tzinfo is None else "instant"
    elif isinstance(wanted, dt.date):
        found = "date"
    else:
        parts = ISO_TIME.fullmatch(wanted) if isinstance(wanted, str) else None
        if parts is None or not isinstance(wanted, str):
            raise refusal
        found = "date" if wanted == parts[1] else "time" if parts[2] is None else "instant"
        try:
            wanted = dt.datetime.fromisoformat(wanted)
        except ValueError:
            raise refusal from None
        wanted = wanted.date() if found == "date" else wanted
    if found != holds:
        raise refusal
    return wanted


def compared(values: Values, wanted: object, holds: ColumnType | None = None) -> Values:
    """For each row, whether it is the wanted value. `holds` says whether times are in UTC, which an
    array does not record."""
    one = comparable(wanted, array_type(values) if holds is None else holds)
    if isinstance(one, dt.datetime) and one.tzinfo is not None:
        one = one.astimezone(dt.UTC).replace(tzinfo=None)
    return np.asarray(values == (np.datetime64(one) if isinstance(one, dt.date) else one))


def zeros_and_ones(values: Values) -> Values:
    """A column of true/false or of numbers as whole numbers; the protocol refuses anything but 0
    and 1."""
    if values.dtype == np.bool_:
        return values.astype(np.int64)
    if np.issubdtype(values.dtype, np.floating) and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values
    raise ValueOutOfRange(NOT_A_TRUTH)


def clamped(values: Values, low: Fraction, high: Fraction, *, whole_numbers: bool) -> Values:
    """Values clipped to the bounds; the protocol refuses values that are not numbers."""
    if values.dtype.kind not in "biuf":
        return values
    if np.issubdtype(values.dtype, np.floating) and np.isnan(values).any():
        return values
    if whole_numbers and values.dtype.kind in "biu":
        if values.dtype == np.uint64:  # may be too large for a signed number
            values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
        return np.clip(values.astype(np.int64), int(low), int(high))
    return np.clip(values.astype(np.float64), *outermost_floats(low, high))
