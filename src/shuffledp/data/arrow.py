"""Converts the Arrow arrays of data frames, files and Spark to NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import MISSING, Coded, ColumnType, Counted, settled
from shuffledp.errors import DataError
from shuffledp.extras import require


def pyarrow() -> Any:
    """The package pyarrow; raises `MissingExtra` if it is not installed."""
    require("frames")
    import pyarrow as pa

    return pa


def arrow_type(kind: Any) -> ColumnType:
    """The type of a column's values, from its Arrow type."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        return arrow_type(kind.value_type)
    if types.is_timestamp(kind):
        return "time" if kind.tz is None else "instant"
    tests: list[tuple[Any, ColumnType]] = [
        (types.is_boolean, "truth"),
        (types.is_integer, "whole"),
        (types.is_floating, "real"),
        (types.is_decimal, "real"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_string_view, "text"),
        (types.is_date, "date"),
    ]
    return next((holds for test, holds in tests if test(kind)), "other")


def plain(column: Any) -> Any:
    """An Arrow array in one of the few types that are read here: doubles for decimals, days for
    dates, and a dictionary only for texts."""
    pa = pyarrow()
    kind = column.type
    if pa.types.is_dictionary(kind) and arrow_type(kind) != "text":
        return plain(column.cast(kind.value_type))
    if pa.types.is_decimal(kind):  # as text, because Arrow's own conversion rounds twice
        return column.cast(pa.string()).cast(pa.float64())
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_date64(kind):
        from pyarrow import compute

        return compute.floor_temporal(column.cast(pa.timestamp("ms")), unit="day").cast(pa.date32())
    return column


def to_numpy(chunk: Any) -> NDArray[Any]:
    """A plain Arrow array as NumPy: numbers without a copy, texts through their dictionary; raises
    `DataError` if a value is missing."""
    if chunk.null_count:
        raise DataError(MISSING)
    if pyarrow().types.is_struct(chunk.type):
        return _records(chunk)
    if arrow_type(chunk.type) == "text":
        names, codes = to_dictionary(chunk)
        return np.asarray(names[codes])
    array: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
    return settled(array)


def to_dictionary(chunk: Any) -> Coded:
    """The different texts of a plain Arrow array and each row's index into them; raises `DataError`
    if a value is missing."""
    if chunk.null_count:
        raise DataError(MISSING)
    chunk = _without_null(chunk.dictionary_encode())
    return Coded(np.array(chunk.dictionary.to_pylist(), dtype=object), chunk.indices.to_numpy())


def text_numbers(chunks: Sequence[Any]) -> NDArray[np.int64]:
    """A number for each row of plain Arrow arrays, equal for equal texts; raises `DataError` if a
    value is missing."""
    pa = pyarrow()
    texts = pa.chunked_array(
        [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in chunks]
    )
    if texts.null_count:
        raise DataError(MISSING)
    coded = texts.dictionary_encode()  # all chunks share one dictionary
    return np.concatenate([one.indices.to_numpy() for one in coded.chunks]).astype(np.int64)


def _without_null(chunk: Any) -> Any:
    """A dictionary-encoded column whose dictionary has no null; refuses rows that have it."""
    if not chunk.dictionary.null_count:
        return chunk
    decoded = chunk.dictionary_decode()
    if decoded.null_count:
        raise DataError(MISSING)
    return decoded.dictionary_encode()


def text_counts(chunk: Any) -> Counted:
    """How many rows of a plain Arrow array have each text; raises `DataError` if a value is
    missing."""
    if pyarrow().types.is_dictionary(chunk.type):
        return to_dictionary(chunk).counts()
    if chunk.null_count:
        raise DataError(MISSING)
    found = chunk.value_counts()
    names = np.array(found.field("values").to_pylist(), dtype=object)
    return Counted(names, found.field("counts").to_numpy())


def _records(chunk: Any) -> NDArray[Any]:
    """Several numbers in each row as a NumPy array with a field for each."""
    parts = {
        chunk.type.field(place).name: chunk.field(place) for place in range(chunk.type.num_fields)
    }
    columns = {name: to_numpy(part) for name, part in parts.items()}
    found = np.zeros(len(chunk), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        found[name] = column
    return found
