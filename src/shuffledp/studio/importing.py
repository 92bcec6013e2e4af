"""A file of a rehearsal as people save it, read once, part by part, into a Parquet file of texts.

.xlsx, .xls and .ods sheets; CSV files with any common encoding, delimiter and decimal sign, which
are found and shown; Parquet. Each column is kept with how to read its texts as numbers or dates.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from shuffledp.data.arrays import ColumnType
from shuffledp.data.arrow import arrow_type
from shuffledp.errors import DataError
from shuffledp.studio.cells import DECIMALS, HOLDS, READERS, Column, decimal_sign, trimmed

SHEETS, TEXTS = (".xlsx", ".xlsm", ".xls", ".ods"), (".csv", ".tsv", ".txt")
KINDS = (*SHEETS[:1], *TEXTS[:2], ".csv.gz", ".parquet")
"""The endings that the page names."""
IMPORTED, COLUMNS = "imported.parquet", "columns.json"
"""The texts of all columns, and how they are read."""
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8"}
DELIMITERS = (",", ";", "\t", "|")
SAMPLE_BYTES, SAMPLE_ROWS, PREVIEW_ROWS = 1 << 18, 40, 20
BLOCK_BYTES, BLOCK_ROWS = 1 << 20, 20_000
"""As much is read at once."""
MOST_COLUMNS = 1000
SHORT = "utf-16-le"


Part = tuple[float, list[Any]]
"""The share of the file that is read by then, and the next texts of all columns."""


@dataclass(kw_only=True)
class Sheet:
    """A table of texts, before types are known."""

    names: list[str]
    parts: Iterator[Part]
    first_row: int = 1
    """The number of the first row of data, in the file as people see it."""
    found: dict[str, Any] = field(default_factory=dict)
    """How it was read: encoding, delimiter, sheet, header."""
    left_out: int = 0
    """Lines that have another number of columns, of the parts that were read."""
    types: list[ColumnType] | None = None
    """What the columns hold, where the file says it."""


def import_file(path: str | Path, chosen: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Reads a file into `imported.parquet` beside it; says how far it is, then its columns with
    their types, and its first rows. `chosen` overrules the encoding, delimiter, decimal sign or
    sheet."""
    path = Path(path)
    name = path.name.lower()
    with _readable(path):
        if name.endswith(".parquet"):
            sheet = _parquet(path)
        elif name.endswith(SHEETS):
            sheet = _workbook(path, chosen)
        elif name.removesuffix(".gz").endswith(TEXTS):
            sheet = _text_file(path, chosen)
        else:
            raise DataError(
                f"{path.name} cannot be read: the studio reads {', '.join(KINDS)}. Save it as one "
                "of these in the program that made it."
            )
        columns = [Column(() if sheet.types else READERS) for _ in sheet.names]
        first: list[Any] = []
        for share, texts in _kept(path, sheet):
            for column, some in zip(columns, texts, strict=True):
                column.add(some)
            first = first or [some.slice(0, PREVIEW_ROWS).to_pylist() for some in texts]
            yield {"progress": share}
    yield {"found": _described(path, sheet, columns, first, chosen)}


def _kept(path: Path, sheet: Sheet) -> Iterator[Part]:
    """The parts of a sheet without spaces around texts, each written to the Parquet file."""
    schema = pa.schema([(f"t{number}", pa.string()) for number in range(len(sheet.names))])
    with pq.ParquetWriter(path.with_name(IMPORTED), schema) as writer:
        for share, texts in sheet.parts:
            texts = [trimmed(some) for some in texts]
            writer.write_batch(pa.record_batch(texts, schema))
            yield share, texts


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Says in one sentence that a file is broken or protected."""
    from python_calamine import CalamineError, PasswordError

    try:
        yield
    except PasswordError:
        raise DataError(
            f"{path.name} is protected by a password; save a copy without one."
        ) from None
    except (CalamineError, pa.ArrowException, csv.Error, EOFError, OSError, UnicodeError):
        kind = path.name.lower().rpartition(".")[2]
        raise DataError(
            f"{path.name} cannot be read as a .{kind} file: it is damaged, or of another kind. "
            "Open it in the program that made it and save it again."
        ) from None


# Text files


def _text_file(path: Path, chosen: Mapping[str, str]) -> Sheet:
    plain = path
    if path.name.lower().endswith(".gz"):
        plain = path.with_name("unpacked.csv")
        with gzip.open(path) as packed, open(plain, "wb") as file:
            shutil.copyfileobj(packed, file)
    encoding = chosen.get("encoding") or _encoding(plain)
    if encoding not in ENCODINGS:
        raise DataError(f"The text encoding must be one of {', '.join(ENCODINGS.values())}.")
    plain = plain if encoding == "utf-8" else _as_utf8(plain, encoding)
    sample = _sample(plain)
    delimiter = chosen.get("delimiter") or _delimiter(sample)
    if delimiter not in DELIMITERS:
        raise DataError("The delimiter must be a comma, a semicolon, a tab or a vertical bar.")
    rows = [row for row in csv.reader(sample, delimiter=delimiter)]
    at, names = _header(rows[:SAMPLE_ROWS], path)
    shown = {"encoding": encoding, "delimiter": delimiter, "header": at + 1 if at >= 0 else 0}
    sheet = Sheet(names=names, parts=iter(()), first_row=at + 2, found=shown)
    sheet.parts = _csv_parts(plain, sheet, at + 1)
    return sheet


def _encoding(path: Path) -> str:
    """The text encoding: by the file's first bytes, else UTF-8 if all of it is that."""
    with open(path, "rb") as file:
        first = file.read(SAMPLE_BYTES)
        for mark, name in BOMS.items():
            if first.startswith(mark):
                return name
        if first[1:400:2].count(0) > len(first[1:400:2]) // 2:
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while part := file.read(BLOCK_BYTES):
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _as_utf8(path: Path, encoding: str) -> Path:
    """A copy of the file in UTF-8."""
    copy = path.with_name("utf8.csv")
    with open(path, "rb") as file:
        marked = file.read(2) in BOMS
    name = encoding if encoding != "utf-16" or marked else SHORT
    with (
        open(path, encoding=name, errors="replace", newline="") as file,
        open(copy, "w", encoding="utf-8", newline="") as written,
    ):
        shutil.copyfileobj(file, written, BLOCK_BYTES)
    return copy


def _sample(path: Path) -> list[str]:
    with open(path, "rb") as file:
        first = file.read(SAMPLE_BYTES)
    return first.decode("utf-8-sig", errors="replace").splitlines()[:SAMPLE_ROWS]


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter that divides most lines into the same number of columns."""

    def score(delimiter: str) -> float:
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
        width, often = widths.most_common(1)[0] if widths else (0, 0)
        return width * often if width > 1 else 0

    return max(DELIMITERS, key=score)


def _csv_parts(path: Path, sheet: Sheet, skipped: int) -> Iterator[Part]:
    """All rows after the header as texts; lines with another number of columns are counted."""

    def skip(_: Any) -> str:
        sheet.left_out += 1
        return "skip"

    names, size, done = [str(number) for number in range(len(sheet.names))], path.stat().st_size, 0
    with pacsv.open_csv(
        path,
        pacsv.ReadOptions(skip_rows=skipped, column_names=names, block_size=BLOCK_BYTES),
        pacsv.ParseOptions(
            delimiter=sheet.found["delimiter"], newlines_in_values=True, invalid_row_handler=skip
        ),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    ) as reader:
        for part in reader:
            done += part.nbytes - 3 * part.num_rows * len(names)  # a delimiter, not four bytes
            yield min(done / size, 1.0), part.columns


# Sheets


def _workbook(path: Path, chosen: Mapping[str, str]) -> Sheet:
    from python_calamine import CalamineWorkbook

    with CalamineWorkbook.from_path(str(path)) as book:
        sheets = list(book.sheet_names)
        if not sheets:
            raise DataError(f"{path.name} has no sheet; save it with one.")
        if chosen.get("sheet", sheets[0]) not in sheets:
            raise DataError("There is no such sheet in the file; choose one of those listed.")
        named = [chosen["sheet"]] if chosen.get("sheet") else sheets
        read = max(map(book.get_sheet_by_name, named), key=lambda one: one.height * one.width)
    first = [[_text(cell) for cell in row] for row in islice(read.iter_rows(), SAMPLE_ROWS)]
    at, names = _header(first, path)
    sign, last = ".", 0
    for number, row in enumerate(read.iter_rows(), start=1):
        last = number if any(_text(cell) for cell in row) else last
        if sign == "." and number > at + 1 and any(map(_is_decimal, row)):
            sign = ","
    shown = {"sheet": read.name, "sheets": sheets, "header": at + 1 if at >= 0 else 0}
    parts = _sheet_parts(read, len(names), at + 1, last, sign)
    return Sheet(names=names, parts=parts, first_row=at + 2, found=shown)


def _sheet_parts(sheet: Any, columns: int, first: int, last: int, sign: str) -> Iterator[Part]:
    """The rows from `first` to `last` as texts."""
    data, done = islice(sheet.iter_rows(), first, last), first
    while rows := list(islice(data, BLOCK_ROWS)):
        done += len(rows)
        texts = ([_text(row[at], sign) or None for row in rows] for at in range(columns))
        yield done / last, [pa.array(some, pa.string()) for some in texts]


def _is_decimal(cell: Any) -> bool:
    """Whether a cell is a text that is a number with a decimal comma."""
    if not isinstance(cell, str) or "," not in cell:
        return False
    before, _, after = cell.strip().partition(",")
    return before.lstrip("+-").isdigit() and after.isdigit() and len(after) != 3


def _text(cell: Any, decimal: str = ".") -> str:
    """A cell as text: numbers with the decimal sign of the sheet, dates as year-month-day."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        plain = str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
        return plain.replace(".", decimal)
    if isinstance(cell, datetime):
        midnight = (cell.hour, cell.minute, cell.second) == (0, 0, 0)
        return cell.date().isoformat() if midnight else cell.strftime("%Y-%m-%d %H:%M:%S")
    return cell.isoformat() if isinstance(cell, date) else str(cell)


# What is common


def _header(rows: Sequence[Sequence[str]], path: Path) -> tuple[int, list[str]]:
    """(the number of the row with the columns' names, or -1; the names). Titles and notes above the
    table have fewer cells than it."""
    widths = [sum(bool(cell.strip()) for cell in row) for row in rows]
    there = [width for width in widths if width]
    if not there:
        raise DataError(f"{path.name} has no rows; choose a file with one row for each person.")
    usual = sorted(there)[len(there) // 2]
    at = next(place for place, width in enumerate(widths) if width >= 0.7 * usual)
    columns = max(len(row) for row in rows[at : at + 2])
    if columns > MOST_COLUMNS:
        raise DataError(f"The table has more than {MOST_COLUMNS:,} columns; remove some first.")
    cells = [*rows[at], *[""] * columns][:columns]
    if all(_looks_like_a_number(cell) for cell in cells if cell.strip()):
        return at - 1, [f"Column {number + 1}" for number in range(columns)]
    seen: Counter[str] = Counter()
    names = []
    for number, cell in enumerate(cells):
        name = " ".join(cell.split()) or f"Column {number + 1}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return at, names


def _looks_like_a_number(cell: str) -> bool:
    return cell.strip().lstrip("+-").replace(".", "", 1).replace(",", "", 1).isdigit()


def _described(
    path: Path,
    sheet: Sheet,
    columns: Sequence[Column],
    first: Sequence[Sequence[str | None]],
    chosen: Mapping[str, str],
) -> dict[str, Any]:
    """What the page shows of a file; how its columns are read is kept beside their texts."""
    if not columns or not columns[0].rows:
        raise DataError(f"{path.name} has no rows; choose a file with one row for each person.")
    usual = "," if sheet.found.get("delimiter") == ";" else "."
    decimal = chosen.get("decimal") or decimal_sign(columns, usual)
    if decimal not in DECIMALS:
        raise DataError("The decimal sign must be a comma or a point.")
    used = [
        place
        for place, one in enumerate(columns)
        if one.filled or not sheet.names[place].startswith("Column ")
    ]
    read = [
        {"text": f"t{place}", "source": sheet.names[place]}
        if sheet.types
        else {"text": f"t{place}", "reader": columns[place].reader(decimal)}
        for place in used
    ]
    path.with_name(COLUMNS).write_text(json.dumps(read), encoding="utf-8")
    return {
        "name": path.name,
        "rows": columns[0].rows,
        "left_out": sheet.left_out,
        "format": {} if sheet.types else {**sheet.found, "decimal": decimal},
        "columns": [
            _column(sheet, place, columns[place], how.get("reader", ""))
            for place, how in zip(used, read, strict=True)
        ],
        "preview": [
            [(text or "")[:60] for text in row]
            for row in zip(*(first[place] for place in used), strict=True)
        ],
        "first_row": sheet.first_row,
    }


def _column(sheet: Sheet, place: int, column: Column, reader: str) -> dict[str, Any]:
    """What the page says about a column."""
    holds: ColumnType = READERS[reader].holds if reader else "text"
    holds = sheet.types[place] if sheet.types else holds
    words = READERS[reader].words if reader else HOLDS[holds]
    return {
        "name": sheet.names[place],
        "holds": holds if column.filled else "empty",
        "words": words if column.filled else "empty",
        "empty": column.empty,
        "odd": column.odd(reader, sheet.first_row),
        "texts": [text for text, _ in (column.different or Counter()).most_common()],
    }


# Parquet


def _parquet(path: Path) -> Sheet:
    """A Parquet file, which has types already."""
    file = pq.ParquetFile(path)
    types = {one.name: arrow_type(_plain(one.type)) for one in file.schema_arrow}
    names = [name for name, holds in types.items() if holds in HOLDS]
    if not names:
        raise DataError(f"{path.name} has no column of texts, numbers or dates.")
    parts = _parquet_parts(file, names)
    return Sheet(names=names, parts=parts, types=[types[name] for name in names])


def _parquet_parts(file: Any, names: list[str]) -> Iterator[Part]:
    done = 0
    for part in file.iter_batches(BLOCK_ROWS, columns=names):
        done += part.num_rows
        texts = (one.cast(_plain(one.type)).cast(pa.string()) for one in part.columns)
        yield done / file.metadata.num_rows, list(texts)


def _plain(kind: Any) -> Any:
    """The type of the values of a column, which may be written as a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# What a rehearsal reads


def read_texts(path: Path, number: int) -> Any:
    """The texts of a column of an imported file."""
    name = _how(path)[number]["text"]
    return pq.read_table(path.with_name(IMPORTED), columns=[name]).column(0).combine_chunks()


def read_values(path: Path, number: int) -> Any:
    """What the texts of a column mean; None if it is a column of texts."""
    how = _how(path)[number]
    if "source" in how:
        column = pq.read_table(path, columns=[how["source"]]).column(0).combine_chunks()
        plain = column.cast(_plain(column.type))
        return None if arrow_type(plain.type) == "text" else plain
    return READERS[how["reader"]].column(read_texts(path, number)) if how["reader"] else None


def column_count(path: Path) -> int:
    """The number of columns of an imported file."""
    return len(_how(path))


def _how(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(path.with_name(COLUMNS).read_text("utf-8"))
    return found
