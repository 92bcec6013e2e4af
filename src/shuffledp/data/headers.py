"""What is wrong with a CSV file that can be read: a missing header line, ambiguous numbers written
with points, a quotation mark that is never closed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from shuffledp.data.arrays import ColumnType

NUMBER = r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?"
WRITTEN: dict[ColumnType, str] = {
    "truth": r"(?i)true|false|[01]",
    "whole": NUMBER,
    "real": NUMBER,
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "time": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+",
    "instant": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.Z+-]+",
}
"""What values look like, by the type of their column."""
THOUSANDS = r"^[+-]?[0-9]{1,3}([.][0-9]{3})+$"
"""A number with points between its thousands, or with three decimals after a point."""
UNCLEAR_POINTS = (
    "Other columns of this file have decimal commas, and numbers such as 1.234 in this one may be "
    "1234 or 1.234; write them without points between thousands, or with a decimal comma."
)
OPEN_QUOTE = (
    "A quotation mark at the beginning of a value is never closed, so that all following lines "
    "would be part of this value; remove it or close it. A quotation mark in a value is written "
    "twice, in quotes."
)
NO_NAME = r"(?i)[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}|[+-]?nan|n/?a|null|none|nat"
"""Dates and words for missing values, which are no names of columns."""


def looks_like_value(name: str, holds: ColumnType) -> bool:
    """Whether a column's name looks like its numbers, dates or true/false values, or like a value
    of any column."""
    patterns = (NO_NAME, WRITTEN.get(holds, NO_NAME))
    return any(re.fullmatch(pattern, name.strip()) for pattern in patterns)


def warn_of_header(shown: str) -> None:
    """Warns that the first line of a file seems to contain values, not column names."""
    warnings.warn(
        f"The first line of {shown} looks like a row of data. It was read as the names of the "
        "columns and is not counted; if the file has no header line, add one.",
        stacklevel=2,
    )


def may_be_thousands(numbers: Iterable[str]) -> bool:
    """Whether there are points in the numbers and all of them may separate thousands."""
    found = False
    for number in numbers:
        if "." in number:
            found = True
            if re.match(THOUSANDS, number) is None:
                return False
    return found
