"""Columns of CSV and Parquet files and of folders of Parquet files, streamed."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from shuffledp.data.arrays import ColumnType
from shuffledp.data.arrow import arrow_type, plain, pyarrow
from shuffledp.data.columns import Column, FileFormat, arrow_parts, known_column
from shuffledp.data.filling import filled_chunk
from shuffledp.data.headers import (
    OPEN_QUOTE,
    UNCLEAR_POINTS,
    looks_like_value,
    may_be_thousands,
    warn_of_header,
)
from shuffledp.data.sources import Source
from shuffledp.errors import DataError, ParameterError

TEXT_FILES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
FILE_KINDS = (*TEXT_FILES, ".parquet")
BATCH_ROWS = 1 << 18
BLOCK_BYTES = 1 << 24


def file_column(source: Source, column: str | None, file_format: FileFormat) -> Column:
    """A column of a file, or of a folder of Parquet files."""
    if source.is_folder():
        file_format.refuse()
        reader = _folder
    elif not source.name.endswith(FILE_KINDS):
        raise ParameterError(
            f"{source.shown} must end in {', '.join(FILE_KINDS[:-1])} or {FILE_KINDS[-1]} to be "
            "read, or be a folder of Parquet files. Save an Excel workbook as CSV first, or open "
            "it in the studio."
        )
    elif not source.is_file():
        raise ParameterError(f"There is no file {source.shown}; check the path.")
    elif source.name.endswith(".parquet"):
        file_format.refuse()
        reader = _parquet
    else:
        return _csv(source, column, file_format)
    with _reading(source):
        return _with_rows(source, reader(source, column, file_format.fill))


def _with_rows(source: Source, found: Column) -> Column:
    if found.rows == 0:
        raise DataError(f"{source.shown} has no rows; a protocol needs at least one user.")
    return found


@contextmanager
def _reading(source: Source) -> Iterator[None]:
    """Turns pyarrow's errors about a file into one sentence without the file's values."""
    pa = pyarrow()
    try:
        yield
    except UnicodeError:
        raise DataError(_not_utf8(source)) from None
    except (pa.ArrowException, OSError) as error:
        if "UTF8" in str(error) or "codec" in str(error):
            raise DataError(_not_utf8(source)) from None
        ending = source.name.removesuffix(".gz").rpartition(".")[2].upper()
        shown = "Parquet" if source.is_folder() or ending == "PARQUET" else ending
        raise DataError(
            f"{source.shown} cannot be read as {shown}; check that it is complete and has one type "
            "of values in each column."
        ) from None


def _not_utf8(source: Source) -> str:
    return (
        f"{source.shown} has text that is not UTF-8 (or not in the encoding you named); "
        "name its encoding with encoding (--encoding), for example latin-1."
    )


def _column(
    source: Source, parts: Callable[[], Iterator[Any]], rows: int, holds: ColumnType, fill: object
) -> Column:
    """The column of Arrow arrays that are read from a file."""

    def filled() -> Iterator[Any]:
        return (filled_chunk(plain(part), fill) for part in parts())

    return arrow_parts(rows, holds, parts if fill is None else filled, lambda: _reading(source))


def _parquet(source: Source, column: str | None, fill: object) -> Column:
    import pyarrow.parquet as pq

    with source.open() as opened, pq.ParquetFile(opened) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    name = known_column(column, schema.names)

    def parts() -> Iterator[Any]:
        # no pre-buffering, which would load the whole column of a large file
        with source.open() as opened, pq.ParquetFile(opened, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[name]):
                yield batch.column(name)  # a name with a point also reads a field of a structure

    holds = arrow_type(schema.field(name).type)
    return _column(source, parts, rows, holds, fill)


def _folder(source: Source, column: str | None, fill: object) -> Column:
    """All Parquet files in a folder tree, such as Spark writes."""
    import pyarrow.dataset as ds

    files = source.parquet_files()
    if not files:
        raise ParameterError(
            f"{source.shown} is a folder without Parquet files; name a file, or a folder that has "
            "some."
        )
    data = ds.dataset(
        files,
        format="parquet",
        filesystem=source.system,
        partitioning="hive",
        partition_base_dir=source.inside,
    )
    name = known_column(column, data.schema.names)

    def parts() -> Iterator[Any]:
        few = {"batch_readahead": 1, "fragment_readahead": 1}
        for batch in data.to_batches(columns=[name], batch_size=BATCH_ROWS, **few):
            yield batch.column(0)

    holds = arrow_type(data.schema.field(name).type)
    return _column(source, parts, data.count_rows(), holds, fill)


def _csv(source: Source, column: str | None, file_format: FileFormat) -> Column:
    """Two passes: the first counts the rows and determines the type, the second returns values."""
    if source.is_empty():
        raise DataError(f"{source.shown} is empty; it needs a header line and a line per user.")
    with _reading(source):
        header = _header(source, file_format)
        name = known_column(column, header.names)
        place, pa = header.names.index(name), pyarrow()
        found, point = header.types[place], header.points[place]
        if found in (pa.binary(), pa.large_binary()):
            raise DataError(_not_utf8(source))
        tried = [*_wider_types(found), pa.string()]
        only, marks = len(header.names) == 1, Marks()
        reader = partial(_csv_reader, source, file_format, name, marks, point=point, only=only)
        for arrow in tried[-1:] if file_format.as_text else tried:
            parts = reader(arrow)  # later lines may contain what the first ones do not
            try:
                rows = sum(len(part) for part in parts())
                break
            except pa.ArrowInvalid as error:
                if arrow == tried[-1] or "conversion error" not in str(error):
                    raise
        if marks.open and header.names.count(header.names[-1]) == 1:
            last = header.names[-1]
            parts_of_last = _csv_reader(
                source, file_format, last, marks, pa.string(), point=point, only=only
            )
            _refuse_open_quote(parts_of_last())
        if arrow == pa.float64() and point == "." and "," in header.points:
            _refuse_thousands(reader(pa.string())())
    types = [*header.types[:place], arrow, *header.types[place + 1 :]]
    like_values = map(looks_like_value, header.names, map(arrow_type, types))
    known = any(isinstance(one, str) and one == name for one in file_format.known)
    if any(like_values) or header.first_has(place, name) or known:
        warn_of_header(source.shown)
    return _with_rows(source, _column(source, parts, rows, arrow_type(arrow), file_format.fill))


def _wider_types(found: Any) -> list[Any]:
    """The types that a column of a CSV file may have if its first lines have this one, narrow ones
    first. If these are empty, it may have any."""
    pa = pyarrow()
    numbers = [pa.int64(), pa.uint64(), pa.float64()]
    times = [pa.date32(), pa.timestamp("s"), pa.timestamp("ns")]
    instants = [pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")]
    if found == pa.null():
        return [found, *numbers, pa.bool_(), *times, *instants]
    if found == pa.int64():  # 0 and 1 may be false and true
        return [*numbers, pa.bool_()]
    return next((kinds for kinds in (numbers, times, instants) if found in kinds), [found])


def _csv_options(source: Source, file_format: FileFormat) -> dict[str, Any]:
    import pyarrow.csv as pc

    tabs = source.name.removesuffix(".gz").endswith(".tsv")
    delimiter = file_format.delimiter or ("\t" if tabs else ",")
    encoding = file_format.encoding or "utf8"
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ParameterError(
            f"There is no encoding {encoding!r}; use for example utf-8, latin-1 or cp1252."
        ) from None
    return {
        "read_options": pc.ReadOptions(block_size=BLOCK_BYTES, encoding=encoding),
        "parse_options": pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    }


class Header(NamedTuple):
    """What the first lines of a CSV file reveal about its columns."""

    names: list[str]
    types: list[Any]
    points: list[str]
    """The decimal separator of each column: a point or a comma."""
    first: Any
    """Its first rows; None if there are none."""

    def first_has(self, place: int, text: str) -> bool:
        """Whether one of the first rows has a text in a column of texts."""
        if self.first is None or self.first.schema.types[place] != pyarrow().string():
            return False
        return text in self.first.column(place).to_pylist()


def _header(source: Source, file_format: FileFormat) -> Header:
    """The columns of a CSV file. If the delimiter is not a comma, as in files from spreadsheets
    that use decimal commas, numbers with commas are numbers."""
    names, types, first = _first_lines(source, file_format, ".")
    points, pa = ["."] * len(names), pyarrow()
    delimiter = _csv_options(source, file_format)["parse_options"].delimiter
    if delimiter != "," and pa.string() in types and not file_format.as_text:
        _, others, _ = _first_lines(source, file_format, ",")
        for place, (read, other) in enumerate(zip(types, others, strict=True)):
            if read == pa.string() and other == pa.float64():
                types[place], points[place] = other, ","
    return Header(names, types, points, first)


class Marks:
    """What the quotation marks of a file look like while it is read."""

    def __init__(self) -> None:
        self.odd, self._end = False, b""

    def of(self, stream: Any) -> Any:
        """The stream, whose quotation marks are looked at from here on."""
        self.odd, self._end = False, b""
        return _Watched(stream, self)

    def see(self, block: bytes) -> None:
        """Takes the next bytes of the file into account."""
        self.odd ^= bool(block.count(b'"') % 2)
        self._end = (self._end + block[-16:])[-16:]

    @property
    def open(self) -> bool:
        """Whether a quotation mark may never be closed: the number is odd, and none is last."""
        return self.odd and not self._end.rstrip(b"\r\n\0").endswith(b'"')


class _Watched:
    """A stream for pyarrow that tells `Marks` what is read."""

    closed = False

    def __init__(self, stream: Any, marks: Marks) -> None:
        self._stream, self._marks = stream, marks

    def read(self, size: int) -> bytes:
        block: bytes = self._stream.read(size)
        self._marks.see(block)
        return block


def _refuse_open_quote(parts: Iterator[Any]) -> None:
    """Refuses a file whose last value has a quotation mark before it but none after it, so that it
    contains all the lines that follow."""
    last = None
    for part in parts:
        last = part[-1].as_py() if len(part) else last
    if last is not None and ("\n" in last or "\r" in last):
        raise DataError(OPEN_QUOTE)


def _refuse_thousands(parts: Iterator[Any]) -> None:
    """Refuses numbers whose points may separate thousands, in a file whose other columns have
    decimal commas."""
    texts = (text for part in parts for text in part.drop_null().to_pylist())
    if may_be_thousands(texts):
        raise DataError(UNCLEAR_POINTS)


def _first_lines(
    source: Source, file_format: FileFormat, point: str
) -> tuple[list[str], list[Any], Any]:
    """The columns' names, the types that the first lines of a CSV file suggest, and these lines;
    None if there are none."""
    import pyarrow.csv as pc

    convert = pc.ConvertOptions(strings_can_be_null=True, decimal_point=point)
    options = _csv_options(source, file_format)
    with (
        source.stream() as stream,
        pc.open_csv(stream, convert_options=convert, **options) as opened,
    ):
        first = next((part for part in opened if len(part)), None)
        return list(opened.schema.names), list(opened.schema.types), first


def _csv_reader(
    source: Source,
    file_format: FileFormat,
    name: str,
    marks: Marks,
    arrow: Any,
    *,
    point: str,
    only: bool,
) -> Callable[[], Iterator[Any]]:
    import pyarrow.csv as pc

    options = _csv_options(source, file_format)
    # in a file of one column, an empty line is a row without a value
    options["parse_options"].ignore_empty_lines = not only
    convert = pc.ConvertOptions(
        include_columns=[name],
        column_types={name: arrow},
        strings_can_be_null=True,
        decimal_point=point,
    )

    def parts() -> Iterator[Any]:
        with (
            source.stream() as stream,
            pc.open_csv(marks.of(stream), convert_options=convert, **options) as opened,
        ):
            for batch in opened:
                yield batch.column(0)

    return parts
