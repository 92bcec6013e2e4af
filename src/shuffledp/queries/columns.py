"""A column of an array, a data frame or a file, as batches of NumPy arrays; the whole is never
copied.

A source is a list or NumPy array, a Series or a DataFrame's column (pandas, Polars, PyArrow and
whatever else narwhals knows), or a CSV or Parquet file, which is streamed. One row is one user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import DataError, MissingExtra, ParameterError

FILE_KINDS = (".csv", ".parquet")


@dataclass(frozen=True)
class Column:
    """A column: how many rows it has, and its values batch by batch."""

    rows: int
    batches: Callable[[], Iterator[NDArray[Any]]]


def column_of(source: object, column: str | None = None) -> Column:
    """The column behind a source; refuses missing values, which would be users without a value."""
    if isinstance(source, str | Path):
        return _file_column(Path(source), column)
    if isinstance(source, np.ndarray):
        _refuse_name(column)
        return _array_column(source)
    if isinstance(source, list | tuple | range):
        _refuse_name(column)
        return _array_column(_from_list(list(source)))
    return _frame_column(source, column)


def _refuse_name(column: str | None) -> None:
    """Refuses a column's name beside data that is one column already."""
    if column is not None:
        raise ParameterError(
            "A list, array or Series is one column already; leave column out, or give a DataFrame."
        )


def _from_list(values: list[Any]) -> NDArray[Any]:
    if any(value is None for value in values):
        raise DataError(_missing(sum(value is None for value in values)))
    if all(isinstance(value, str) for value in values) and values:
        return np.array(values, dtype=object)
    try:
        return np.array(values)
    except ValueError:
        raise DataError(
            "The list mixes values of different shapes; give one value per user."
        ) from None


def _missing(count: int) -> str:
    return (
        f"The column has {count:,} missing values; every row is one user with one value: "
        "fill or drop them first."
    )


def _array_column(array: NDArray[Any]) -> Column:
    if array.ndim != 1:
        raise DataError(f"One value per user is needed; an array of shape {array.shape} was given.")
    if array.size == 0:
        raise DataError("There are no rows; a protocol needs at least one user.")
    if np.issubdtype(array.dtype, np.floating) and np.isnan(array).any():
        raise DataError(_missing(int(np.isnan(array).sum())))
    step = 1 << 20
    return Column(len(array), lambda: (array[at : at + step] for at in range(0, len(array), step)))


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtra("pyarrow", "frames") from None
    return pyarrow


def to_numpy(chunk: Any) -> NDArray[Any]:
    """An Arrow array as NumPy: numbers without a copy, texts through their dictionary."""
    pa = _arrow()
    if chunk.null_count:
        raise DataError(_missing(chunk.null_count))
    if pa.types.is_dictionary(chunk.type):
        labels = np.asarray(chunk.dictionary.to_pylist(), dtype=object)
        return np.asarray(labels[chunk.indices.to_numpy()])
    if pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type):
        return to_numpy(chunk.dictionary_encode())
    if pa.types.is_decimal(chunk.type):
        chunk = chunk.cast(pa.float64())
    array: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
    if np.issubdtype(array.dtype, np.floating) and np.isnan(array).any():
        raise DataError(_missing(int(np.isnan(array).sum())))
    return array


def _frame_column(source: object, column: str | None) -> Column:
    native: Any = source  # narwhals finds out whether it is a frame
    try:
        import narwhals.stable.v2 as nw
    except ImportError:
        raise MissingExtra("narwhals", "frames") from None
    try:
        frame = nw.from_native(native, allow_series=True)
    except TypeError:
        raise DataError(
            f"A {type(source).__name__} is no column; give a list, a NumPy array, a Series, "
            "a DataFrame with column=, or the path of a CSV or Parquet file."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        names = frame.collect_schema().names()
        frame = frame.select(_known(column, names)).collect()
    if isinstance(frame, nw.DataFrame):
        frame = frame[_known(column, frame.columns)]
    else:
        _refuse_name(column)
    if len(frame) == 0:
        raise DataError("There are no rows; a protocol needs at least one user.")
    if frame.null_count():
        raise DataError(_missing(int(frame.null_count())))
    try:
        chunks = frame.to_arrow()
    except (_arrow().ArrowInvalid, _arrow().ArrowTypeError):
        raise DataError("The column mixes values of different types; give one type.") from None
    parts = getattr(chunks, "chunks", [chunks])
    return Column(len(frame), lambda: (to_numpy(part) for part in parts if len(part)))


def _known(column: str | None, names: list[str]) -> str:
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if column is None:
        if len(names) == 1:
            return names[0]
        raise ParameterError(f"Which column? There are {shown}; name one with column (--column).")
    if names.count(column) > 1:
        raise ParameterError(f"Two columns are named {column!r}; rename one of them.")
    if column not in names:
        raise ParameterError(f"There is no column {column!r}; there are {shown}.")
    return column


def _file_column(path: Path, column: str | None) -> Column:
    pa = _arrow()
    if path.suffix.lower() not in FILE_KINDS:
        raise ParameterError(f"{path} must end in .csv or .parquet to be read.")
    if not path.is_file():
        raise ParameterError(f"There is no file {path}; check the path.")
    reader = _parquet if path.suffix.lower() == ".parquet" else _csv
    try:
        found = reader(path, column)
    except (pa.ArrowInvalid, OSError):
        raise DataError(
            f"{path} cannot be read as {path.suffix[1:].upper()}; check that it is complete."
        ) from None
    if found.rows == 0:
        raise DataError(f"{path} has no rows; a protocol needs at least one user.")
    return found


def _parquet(path: Path, column: str | None) -> Column:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        name, rows = _known(column, file.schema_arrow.names), file.metadata.num_rows

    def batches() -> Iterator[NDArray[Any]]:
        # without pre-buffering: it would hold the whole column of a large file
        with pq.ParquetFile(path, pre_buffer=False) as opened:
            for batch in opened.iter_batches(batch_size=1 << 18, columns=[name]):
                yield to_numpy(batch.column(0))

    return Column(rows, batches)


def _csv(path: Path, column: str | None) -> Column:
    """Two passes: one counts the rows and settles the type, one gives the values."""
    import pyarrow.csv as pc

    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; it needs a header line and a line per user.")
    blocks = pc.ReadOptions(block_size=1 << 24)
    with pc.open_csv(path, read_options=blocks) as opened:
        name = _known(column, opened.schema.names)
        kind = opened.schema.field(name).type
        options = pc.ConvertOptions(
            include_columns=[name], column_types={name: kind}, strings_can_be_null=True
        )

    def open_again() -> Any:
        return pc.open_csv(path, read_options=blocks, convert_options=options)

    with open_again() as opened:
        rows = sum(batch.num_rows for batch in opened)

    def batches() -> Iterator[NDArray[Any]]:
        with open_again() as again:
            for batch in again:
                if batch.num_rows:
                    yield to_numpy(batch.column(0))

    return Column(rows, batches)
