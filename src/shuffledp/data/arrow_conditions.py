"""Conditions (`where=`) evaluated on data frames and files, as Arrow arrays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import MISSING, ColumnType
from shuffledp.data.arrow import arrow_type, plain, pyarrow
from shuffledp.data.columns import FileFormat, arrow_column, check_index, column_of
from shuffledp.data.conditions import Literal, Meaning, Name, columns_of, parsed
from shuffledp.data.sources import Source
from shuffledp.data.values import comparable
from shuffledp.errors import DataError, ParameterError

Where = str | Callable[[Any], Any]
"""A condition on columns, or a function of the data that returns true or false for each row."""
NUMBERS: tuple[ColumnType, ...] = ("whole", "real")
WHOLE_DIGITS = 20
"""The digits of a whole number of 64 bits, with or without a sign."""
FIRST_YEAR, LAST_YEAR = 1677, 2262
"""Those in which nanoseconds of 64 bits since 1970 end."""
KERNELS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def kept_rows(where: Where, data: object, rows: int, file_format: FileFormat) -> NDArray[np.bool_]:
    """Which rows satisfy a condition or a function of the data."""
    if not isinstance(where, str):
        return _by_function(where, data, rows)
    condition = parsed(where)
    if isinstance(data, np.ndarray | list | tuple | range):
        raise ParameterError(
            "A condition names columns, but a list or an array has none; pass a DataFrame or a "
            "file, or a function as where."
        )
    columns = {
        name: _comparable(arrow_column(data, name, file_format)) for name in columns_of(condition)
    }
    found = _compute().fill_null(_meaning(columns).of(condition), False)
    kept = np.asarray(found, np.bool_)
    if len(kept) != rows:
        raise DataError("where must return exactly one true or false for every row.")
    return kept


def _compute() -> Any:
    pyarrow()
    from pyarrow import compute

    return compute


def _by_function(where: Callable[[Any], Any], data: object, rows: int) -> NDArray[np.bool_]:
    if isinstance(data, str | Path | Source):
        raise ParameterError("For a file, where must be a condition such as \"way = 'bus'\".")
    said = where(data)
    check_index(data, said, "where")
    try:
        column = column_of(said)
        kept = column.values()
    except DataError as error:
        raise (
            DataError("where returned missing values; return true or false for every row.")
            if str(error) == MISSING
            else error
        ) from None
    if column.holds != "truth" or len(kept) != rows:
        raise DataError("where must return exactly one true or false for every row.")
    return kept.astype(np.bool_)


def _comparable(column: Any) -> Any:
    """A plain Arrow column with null for NaN, and without a dictionary."""
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        column = plain(column.cast(column.type.value_type))
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        nothing = pa.scalar(None, column.type)
        column = _compute().if_else(_compute().is_nan(column), nothing, column)
    return column


def _meaning(columns: Mapping[str, Any]) -> Meaning:
    """What conditions mean on Arrow arrays."""
    compute = _compute()

    def compared(column: Name, operator: str, other: Name | Literal) -> Any:
        first = columns[column.name]
        if isinstance(other, Name):
            pair = _two_columns(first, columns[other.name])
        else:
            pair = _with_value(first, literal_of(other, arrow_type(first.type), operator))
        return getattr(compute, KERNELS[operator])(*pair)

    return Meaning(
        both=compute.and_kleene,
        either=compute.or_kleene,
        opposite=compute.invert,
        missing=lambda column: compute.is_null(columns[column.name]),
        compared=compared,
    )


def _with_value(column: Any, one: Any) -> tuple[Any, Any]:
    """A column and a value of the same kind, in types that can be compared."""
    pa = pyarrow()
    holds, kind = arrow_type(column.type), column.type
    if holds == "whole" and isinstance(one, float):
        kind = pa.float64()
        column = column.cast(kind, safe=False)
    elif holds == "whole":
        kind = _wide(column) if abs(one) < 2**63 else pa.decimal128(WHOLE_DIGITS)
        column, one = column.cast(kind), Decimal(one) if pa.types.is_decimal(kind) else one
    elif holds in ("time", "instant"):
        kind = pa.timestamp("us", tz=None if holds == "time" else "UTC")
        if not FIRST_YEAR < one.year < LAST_YEAR:  # no value of nanoseconds is so far away
            column = column.cast(kind, safe=False)
    return column, pa.scalar(one, kind)


def _two_columns(first: Any, second: Any) -> tuple[Any, Any]:
    """Two columns of the same kind, in types that can be compared."""
    pa = pyarrow()
    one, other = arrow_type(first.type), arrow_type(second.type)
    check_kinds(one, other)
    if one != other:
        first, second = (part.cast(pa.float64(), safe=False) for part in (first, second))
    elif one == "whole":
        kind = _wide(first, second)
        first, second = (part.cast(kind) for part in (first, second))
    elif one == "text":
        first, second = (part.cast(pa.large_string()) for part in (first, second))
    elif one in ("time", "instant"):
        kind = pa.timestamp("us", tz=None if one == "time" else "UTC")
        first, second = (part.cast(kind, safe=False) for part in (first, second))
    return first, second


def _wide(*columns: Any) -> Any:
    """A type that holds the whole numbers of these columns exactly."""
    pa = pyarrow()
    unsigned = any(pa.types.is_uint64(column.type) for column in columns)
    return pa.decimal128(WHOLE_DIGITS) if unsigned else pa.int64()


def check_kinds(one: ColumnType, other: ColumnType) -> None:
    """Refuses to compare two columns of different kinds; all numbers are one kind."""
    if one == "other" or (one != other and not (one in NUMBERS and other in NUMBERS)):
        raise ParameterError(
            "where compares two columns of different kinds; compare numbers with numbers, texts "
            "with texts, and dates with dates of the same kind."
        )


def literal_of(value: Literal, holds: ColumnType, operator: str) -> bool | float | str | dt.date:
    """A value of a condition, converted to the type of the column that it is compared with."""
    if holds in NUMBERS:
        if isinstance(value, str | bool):
            raise ParameterError(
                "where compares a column of numbers with a text or with true/false; write the "
                "number without quotes."
            )
        return value if holds == "whole" else float(value)
    if holds == "truth" and operator not in ("=", "!="):
        raise ParameterError("where orders true/false values; use = or !=.")
    if holds == "text" and not isinstance(value, str):
        raise ParameterError(
            "where compares a column of texts with another type; write texts in quotes, for "
            "example way = 'bus'."
        )
    if holds == "truth" and not isinstance(value, bool) and value not in (0, 1):
        raise ParameterError("where compares true/false with another type; use true or false.")
    return comparable(value, holds, "the value in where")
