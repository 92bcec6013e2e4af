"""Dates as whole numbers: days or seconds since the beginning of 1970, exactly; those with a time
zone in UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange

DAY, SECOND = "day", "second"
UNITS = {DAY: timedelta(days=1), SECOND: timedelta(seconds=1)}
DTYPES = {DAY: "datetime64[D]", SECOND: "datetime64[s]"}
BEGINNING = datetime(1970, 1, 1)
ALLOWED = "Write dates like 2013-01-31, 2013-01-31T08:30:00 or 2013-01-31T08:30:00+01:00."


def is_date(value: object) -> bool:
    """Whether a value is a date: a date object, or text that begins like one."""
    if isinstance(value, str):
        return re.match(r"\s*\d{4}-\d\d", value) is not None
    return isinstance(value, date | np.datetime64)


def unit_of(*values: object) -> str:
    """The unit of these dates: days if none of them has a time."""
    return DAY if all(_has_no_time(value) for value in values) else SECOND


def _has_no_time(value: object) -> bool:
    if isinstance(value, str):
        return len(value.strip()) <= 10
    if isinstance(value, np.datetime64):
        return value == value.astype("datetime64[D]") and "[D]" in value.dtype.str
    return not isinstance(value, datetime)


def has_zone(value: object) -> bool:
    """Whether a date has a time zone."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return False
    return isinstance(value, datetime) and value.tzinfo is not None


def date_number(value: object, unit: str) -> int:
    """A date in whole units since 1970; a time within a unit counts as the unit's beginning."""
    if isinstance(value, np.datetime64):
        value = str(value.astype("datetime64[us]"))
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise ParameterError(f"This is not a date that can be used here. {ALLOWED}")
    east = moment.utcoffset() or timedelta()
    # subtracted last: the same time in UTC may be in a year that Python does not have
    return (moment.replace(tzinfo=None) - BEGINNING - east) // UNITS[unit]


def date_text(number: float, unit: str) -> str:
    """The date a number of units after 1970 began, as ISO text."""
    return str(date_at(int(number), unit))


def date_at(number: int, unit: str) -> np.datetime64:
    """The date a number of units after 1970 began; any year, unlike Python's dates."""
    return np.datetime64(number, "D" if unit == DAY else "s")


def date_numbers(values: NDArray[Any], unit: str) -> NDArray[np.int64]:
    """Many dates in whole units since 1970; the error for an invalid one does not show it."""
    if values.dtype.kind in "O":
        values = _from_objects(values)
    if values.dtype.kind != "M" or np.isnat(values).any():
        raise ValueOutOfRange(f"Some values are missing or are not dates. {ALLOWED}")
    return values.astype(DTYPES[unit]).astype(np.int64)


def _from_objects(values: NDArray[Any]) -> NDArray[Any]:
    if not all(isinstance(value, date) for value in values.tolist()):
        return values
    moments = [
        value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for value in values.tolist()
    ]
    return np.array(moments, dtype="datetime64[us]")
