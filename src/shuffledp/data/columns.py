"""A column of an array, a data frame or a file, as batches of NumPy arrays; the whole is never
copied.

A source is a list or NumPy array, a Series or a DataFrame's column (pandas, Polars, PyArrow, DuckDB
and anything else that narwhals supports), a CSV or Parquet file, or a folder of Parquet files;
files are streamed. One row is one user. docs/data.md says which values a column may have.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import (
    MISSING,
    MIXED,
    NO_ROWS,
    UNKNOWN_TYPE,
    Coded,
    ColumnType,
    Counted,
    as_label,
    from_array,
    from_objects,
)
from shuffledp.data.arrow import (
    arrow_type,
    plain,
    pyarrow,
    text_counts,
    to_dictionary,
    to_numpy,
)
from shuffledp.data.filling import filled_array, filled_objects
from shuffledp.data.sources import Source
from shuffledp.errors import DataError, ParameterError
from shuffledp.extras import require

T = TypeVar("T")
READ_AS_THEY_ARE = ("pandas", "polars", "pyarrow", "duckdb", "modin", "cudf", "narwhals", "pyspark")
"""Libraries whose frames, and frames of classes derived from theirs, are read directly, although
they also offer an Arrow stream."""
STEP = 1 << 20
"""How many rows of an array are processed together."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its number of rows, the type of its values, and the values batch by batch."""

    rows: int
    holds: ColumnType
    batches: Callable[[], Iterator[NDArray[Any]]]
    chunks: Callable[[], Iterator[Any]] | None = None
    """The same as plain Arrow arrays, in which values may be missing; None if it is not from
    Arrow."""
    coded: Callable[[], Iterator[Coded]] | None = None
    """The same with each different value once; None if values are not texts."""
    counted: Callable[[], Iterator[Counted]] | None = None
    """How many rows have each value; None if `coded` is given. A value may occur several times."""

    def values(self) -> NDArray[Any]:
        """All values in one array."""
        return np.concatenate(list(self.batches()))

    def refuse_missing(self) -> None:
        """Reads all values; raises `DataError` if one is missing."""
        for _ in self.batches():
            pass


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How to read a text file, if it does not say so itself."""

    encoding: str | None = None
    """The text encoding; UTF-8 by default."""
    delimiter: str | None = None
    """The delimiter; by default a comma, or a tab in .tsv files."""
    as_text: bool = False
    """Treat every value as a text, even if all look like numbers or dates."""
    fill: Any = None
    """The replacement for missing values, in any source; None refuses them."""
    known: tuple[object, ...] = ()
    """Values that the query names; a column with such a name seems to have no header line."""

    def __post_init__(self) -> None:
        if not isinstance(self.encoding, str | None):
            raise ParameterError("encoding must be a text, for example latin-1.")
        one = self.delimiter
        if one is not None and (
            not isinstance(one, str) or len(one) != 1 or one in '\r\n"' or not one.isascii()
        ):
            raise ParameterError("delimiter must be one character, for example ; or a tab.")

    def refuse(self) -> None:
        """Raises `ParameterError` if options were given for a source that is not a text file."""
        if self.encoding is not None or self.delimiter is not None:
            raise ParameterError(
                "encoding and delimiter are for CSV files; leave them out for other data."
            )


AS_IT_IS = FileFormat()


def column_of(
    source: object, column: str | None = None, file_format: FileFormat = AS_IT_IS
) -> Column:
    """The column of a source. Reading its batches raises an error for missing values, which would
    be users without a value."""
    if isinstance(source, str | Path | Source):
        return _file_column(source, column, file_format)
    file_format.refuse()
    fill = file_format.fill
    if isinstance(source, np.ndarray):
        refuse_name(column)
        whole: Any = source if fill is None else filled_array(source, fill)
        return in_steps(*(from_objects(whole) if isinstance(whole, list) else from_array(whole)))
    if isinstance(source, list | tuple | range):
        refuse_name(column)
        return in_steps(*from_objects(source if fill is None else filled_objects(source, fill)))
    return _frame_column(source, column, fill)


def arrow_column(source: object, column: str | None, file_format: FileFormat = AS_IT_IS) -> Any:
    """A column of a data frame or a file as an Arrow array in memory; values may be missing."""
    if isinstance(source, str | Path | Source):
        chunks = _file_column(source, column, file_format).chunks
        assert chunks is not None
        return pyarrow().chunked_array(list(chunks()))
    file_format.refuse()
    return plain(_as_arrow(_frame_series(source, column)))


def _file_column(source: str | Path | Source, column: str | None, format_: FileFormat) -> Column:
    from shuffledp.data.files import file_column

    found = source if isinstance(source, Source) else Source.of(source)
    return file_column(found, column, format_)


def settled_source(source: object) -> object:
    """The data itself, or a table of it if it is an Arrow record batch or a stream, which can be
    read only once."""
    module, name = type(source).__module__.split(".")[0], type(source).__name__
    if module == "pyarrow" and name == "RecordBatch":
        return pyarrow().table(source)
    if module == "pyarrow" and name == "RecordBatchReader":
        return source.read_all()  # type: ignore[attr-defined]
    packages = {base.__module__.split(".")[0] for base in type(source).__mro__}
    if not hasattr(source, "__arrow_c_stream__") or not packages.isdisjoint(READ_AS_THEY_ARE):
        return source
    pa = pyarrow()
    try:
        return pa.table(source)
    except (TypeError, pa.ArrowInvalid):
        return pa.chunked_array(source)


def collected(source: object, names: Sequence[str | None], *, for_function: bool = False) -> object:
    """The columns of a lazy frame or a DuckDB relation in memory, if there are several to read;
    anything else unchanged. `names` has None for the only column.

    Evaluated again for each column, the rows of a join or an aggregate may have another order, so
    that the columns would not belong together. `for_function` refuses such data, because a
    function may read any column.
    """
    one = len(names) < 2 and not for_function
    if one or isinstance(source, np.ndarray | list | tuple | range | str | Path | Source):
        return source
    require("frames")
    import narwhals.stable.v2 as nw

    _check_names(source)
    frame = nw.from_native(cast("Any", source), pass_through=True)
    if not isinstance(frame, nw.LazyFrame):
        return source
    if for_function:
        raise ParameterError(
            "For a lazy frame, where must be a condition such as \"way = 'bus'\", because a "
            "function may see its rows in another order; or collect the frame first."
        )
    known = frame.collect_schema().names()
    wanted = {known[0] if name is None and len(known) == 1 else name for name in names}
    if not wanted <= set(known):
        return source  # a name that the frame does not have is refused where it is read
    return frame.select([name for name in known if name in wanted]).collect()


def refuse_name(column: str | None) -> None:
    """Refuses a column name if the data is already a single column."""
    if column is not None:
        raise ParameterError(
            "A list, array or Series is already one column; leave column out, or pass a DataFrame."
        )


def check_index(data: object, beside: object, name: str, other: str = "the data") -> None:
    """Refuses a pandas Series whose index differs from that of the data: matched by position, its
    rows would be combined with the wrong rows."""
    first, second = _pandas_index(data), _pandas_index(beside)
    if first is not None and second is not None and not first.equals(second):
        raise ParameterError(
            f"The index of {name} differs from that of {other}, so it is not clear which rows "
            "belong together; use the same index for both, or name a column of the data."
        )


def _pandas_index(source: object) -> Any:
    """The index of a pandas Series or DataFrame, of a class derived from them, or of one that
    narwhals wraps; None for anything else."""
    if "pandas" not in sys.modules:
        return None
    import pandas as pd

    if "narwhals" in sys.modules:
        import narwhals.stable.v2 as nw

        source = nw.to_native(cast("Any", source), pass_through=True)
    return source.index if isinstance(source, pd.Series | pd.DataFrame) else None


def in_steps(array: NDArray[Any], holds: ColumnType) -> Column:
    """An array as a column."""

    def batches() -> Iterator[NDArray[Any]]:
        return (array[at : at + STEP] for at in range(0, len(array), STEP))

    return Column(rows=len(array), holds=holds, batches=batches)


def _frame_column(source: object, column: str | None, fill: object) -> Column:
    frame = _frame_series(source, column)
    if fill is not None:
        return in_steps(*from_objects(filled_objects(frame.to_list(), fill)))
    return _series_column(frame)


def _frame_series(source: object, column: str | None) -> Any:
    """A Series, or the column of a data frame, as a Series of narwhals."""
    require("frames")
    import narwhals.stable.v2 as nw

    _check_names(source)
    try:
        frame = nw.from_native(_as_series(source), allow_series=True)
    except (TypeError, NotImplementedError):  # pandas has no Series of a MultiIndex
        raise DataError(
            f"A {type(source).__name__} is not a column; pass a list, a NumPy array, a Series, "
            "a DataFrame with column=, or the path of a CSV or Parquet file."
        ) from None
    if isinstance(frame, nw.Series):
        refuse_name(column)
    else:
        name = known_column(column, frame.collect_schema().names())
        frame = frame.select(name).collect() if isinstance(frame, nw.LazyFrame) else frame
        frame = frame[name]
    if len(frame) == 0:
        raise DataError(NO_ROWS)
    native = frame.to_native()
    sparse = type(native).__module__.startswith("pandas") and hasattr(native, "sparse")
    return nw.from_native(native.sparse.to_dense(), series_only=True) if sparse else frame


def _as_series(source: Any) -> Any:
    """A pandas Categorical or Index, or a single Arrow array, as a Series; anything else
    unchanged."""
    module, name = type(source).__module__.split(".")[0], type(source).__name__
    if module == "pandas" and (name == "Categorical" or name.endswith("Index")):
        import pandas as pd

        return pd.Series(source)
    if module == "pyarrow" and hasattr(source, "dictionary_encode"):
        return pyarrow().chunked_array(source if hasattr(source, "chunks") else [source])
    return source


def _check_names(source: Any) -> None:
    """Refuses a frame whose column names are not texts or not all different; in DuckDB, names
    differ in more than capital letters."""
    library = type(source).__module__.split(".")[0]
    attribute = {"pandas": "columns", "pyarrow": "column_names", "duckdb": "columns"}.get(library)
    names = list(getattr(source, attribute, ())) if attribute else []
    if not all(isinstance(name, str) for name in names):
        raise ParameterError(
            "Column names must be texts; rename them, for example with "
            "df.columns = df.columns.map(str)."
        )
    keys = [name.casefold() for name in names] if library == "duckdb" else names
    times = Counter(keys)
    double = next((name for name, key in zip(names, keys, strict=True) if times[key] > 1), None)
    if double is not None:
        raise ParameterError(f"Two columns are named {double!r}; rename one of them.")


def known_column(column: object, names: Sequence[str]) -> str:
    """The intended column: the one that is named, or the only one."""
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if column is None:
        if len(names) == 1:
            return names[0]
        raise ParameterError(f"Which column? There are {shown}; name one with column (--column).")
    if not isinstance(column, str):
        raise ParameterError(f"column must be the name of a column, as text; there are {shown}.")
    if names.count(column) > 1:
        raise ParameterError(f"Two columns are named {column!r}; rename one of them.")
    if column not in names:
        hint = ""
        if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
            hint = " Are these several columns? Then set delimiter=… (--delimiter)."
        raise ParameterError(f"There is no column {column!r}; there are {shown}.{hint}")
    return column


def _series_column(series: Any) -> Column:
    native = series.to_native()
    if type(native).__module__.split(".")[0] == "pandas":
        found = _pandas_objects(native)
        if found is not None:
            return found
    if series.null_count():
        raise DataError(MISSING)
    chunks = _as_arrow(series)
    parts = getattr(chunks, "chunks", [chunks])
    return arrow_parts(len(series), arrow_type(chunks.type), lambda: parts)


def arrow_parts(
    rows: int,
    holds: ColumnType,
    parts: Callable[[], Iterable[Any]],
    reading: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Column:
    """A column of Arrow arrays; `reading` turns errors that occur while they are read."""

    def each(work: Callable[[Any], T]) -> Callable[[], Iterator[T]]:
        def read() -> Iterator[T]:
            with reading():
                yield from (work(plain(part)) for part in parts() if len(part))

        return read

    def coded() -> Iterator[Coded]:
        with reading():
            for part in parts():
                for at in range(0, len(part), STEP):
                    yield to_dictionary(plain(part[at : at + STEP]))

    column = Column(rows=rows, holds=holds, batches=each(to_numpy), chunks=each(lambda part: part))
    return replace(column, coded=coded, counted=each(text_counts)) if holds == "text" else column


def _as_arrow(series: Any) -> Any:
    pa = pyarrow()
    try:
        return series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise DataError(MIXED) from None
    except (pa.ArrowException, TypeError, OverflowError):
        raise DataError(UNKNOWN_TYPE) from None


def _pandas_objects(native: Any) -> Column | None:
    """A pandas column of Python objects or of categories; None if it is of another type."""
    if hasattr(native.dtype, "categories") and hasattr(native, "cat"):
        codes = native.cat.codes.to_numpy()
        if codes.min() < 0:
            raise DataError(MISSING)
        named, holds = from_objects([as_label(one) for one in native.cat.categories.tolist()])
        return _coded_column(Coded(named, codes), holds)
    if native.dtype.kind in "c":
        raise DataError(UNKNOWN_TYPE)
    arrow_knows = native.dtype.kind in "biufM" or native.dtype.name in ("string", "str")
    if arrow_knows or "pyarrow" in native.dtype.name:
        return None
    import pandas as pd

    if native.dtype == object and pd.api.types.infer_dtype(native, skipna=False) == "string":
        codes, names = pd.factorize(native)
        return _coded_column(Coded(np.asarray(names, object), codes), "text")
    return in_steps(*from_objects(native.tolist()))


def _coded_column(coded: Coded, holds: ColumnType) -> Column:
    """A column of coded values, which are decoded only on demand."""
    names, codes = coded

    def batches() -> Iterator[NDArray[Any]]:
        return (names[codes[at : at + STEP]] for at in range(0, len(codes), STEP))

    return Column(
        rows=len(codes),
        holds=holds,
        batches=batches,
        coded=lambda: iter([coded]),
        counted=lambda: iter([coded.counts()]),
    )
