"""Converts the Arrow arrays of data frames, files and Spark to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import MISSING, ColumnType, from_objects, settled
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


def to_numpy(chunk: Any) -> NDArray[Any]:
    """An Arrow array as NumPy: numbers without a copy, texts through their dictionary; raises
    `DataError` if a value is missing."""
    pa = pyarrow()
    if chunk.null_count:
        raise DataError(MISSING)
    if pa.types.is_struct(chunk.type):
        return _records(chunk)
    if pa.types.is_dictionary(chunk.type):
        return _decoded(chunk)
    if pa.types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    if pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type):
        return to_numpy(chunk.dictionary_encode())
    if pa.types.is_decimal(chunk.type):
        chunk = chunk.cast(pa.float64())
    if pa.types.is_date64(chunk.type):
        chunk = chunk.cast(pa.date32())
    array: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
    return settled(array)


def to_dictionary(chunk: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """(different texts, each row's index into them) of an Arrow array of texts, which may already
    be dictionary-encoded; raises `DataError` if a value is missing."""
    pa = pyarrow()
    if chunk.null_count:
        raise DataError(MISSING)
    if not pa.types.is_dictionary(chunk.type):
        if pa.types.is_string_view(chunk.type):
            chunk = chunk.cast(pa.large_string())
        chunk = chunk.dictionary_encode()
    chunk = _without_null(chunk)
    return np.array(chunk.dictionary.to_pylist(), dtype=object), chunk.indices.to_numpy()


def _without_null(chunk: Any) -> Any:
    """A dictionary-encoded column whose dictionary has no null; refuses rows that have it."""
    if not chunk.dictionary.null_count:
        return chunk
    plain = chunk.dictionary_decode()
    if plain.null_count:
        raise DataError(MISSING)
    return plain.dictionary_encode()


def text_counts(chunk: Any) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """(different texts, how many rows have each) of an Arrow array of texts; None if it is already
    dictionary-encoded. Raises `DataError` if a value is missing."""
    pa = pyarrow()
    if chunk.null_count:
        raise DataError(MISSING)
    if pa.types.is_dictionary(chunk.type):
        return None
    if pa.types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    found = chunk.value_counts()
    names = np.array(found.field("values").to_pylist(), dtype=object)
    return names, found.field("counts").to_numpy()


def _decoded(chunk: Any) -> NDArray[Any]:
    """The values of a dictionary-encoded column, whose dictionary may contain missing values."""
    if not len(chunk):
        return np.zeros(0, object)
    if arrow_type(chunk.type) == "text":
        names, codes = to_dictionary(chunk)
        return np.asarray(names[codes])
    chunk = _without_null(chunk)
    return np.asarray(from_objects(chunk.dictionary.to_pylist())[0][chunk.indices.to_numpy()])


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
