"""A file of a rehearsal as people save it, read once into a Parquet file with types.

.xlsx, .xls and .ods sheets; CSV files with any common encoding, delimiter and decimal sign, which
are found and shown; Parquet. Every column is kept as texts, and besides as what it holds.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from shuffledp.data.arrays import ColumnType
from shuffledp.data.arrow import arrow_type
from shuffledp.errors import DataError
from shuffledp.studio.cells import DECIMALS, HOLDS, Coded, Typed, decimal_sign, typed

SHEETS, TEXTS = (".xlsx", ".xlsm", ".xls", ".ods"), (".csv", ".tsv", ".txt")
KINDS = (*SHEETS[:1], *TEXTS[:2], ".csv.gz", ".parquet")
"""The endings that the page names."""
IMPORTED = "imported.parquet"
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8"}
DELIMITERS = (",", ";", "\t", "|")
SAMPLE_BYTES, SAMPLE_ROWS, PREVIEW_ROWS = 1 << 18, 40, 20
BLOCK_BYTES = 1 << 24
MOST_COLUMNS, MOST_DIFFERENT = 1000, 40
SHORT = "utf-16-le"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of texts, before types are known."""

    names: list[str]
    table: Any
    """A column of texts for each name."""
    first_row: int
    """The number of the first row of data, in the file as people see it."""
    found: dict[str, Any] = field(default_factory=dict)
    """How it was read: encoding, delimiter, sheet, header."""
    left_out: int = 0
    """Lines that have another number of columns."""


def import_file(path: Path, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Reads a file into `imported.parquet` beside it; says what was found. `chosen` overrules the
    encoding, delimiter, decimal sign or sheet."""
    name = path.name.lower()
    with _readable(path):
        if name.endswith(".parquet"):
            return _parquet(path)
        if name.endswith(SHEETS):
            sheet = _workbook(path, chosen)
        elif name.removesuffix(".gz").endswith(TEXTS):
            sheet = _text_file(path, chosen)
        else:
            raise DataError(
                f"{path.name} cannot be read: the studio reads {', '.join(KINDS)}. Save it as one "
                "of these in the program that made it."
            )
    return _described(path, sheet, chosen)


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
    table, left_out = _read_csv(plain, delimiter, at, len(names))
    shown = {"encoding": encoding, "delimiter": delimiter, "header": at + 1 if at >= 0 else 0}
    return Sheet(names=names, table=table, first_row=at + 2, found=shown, left_out=left_out)


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


def _read_csv(path: Path, delimiter: str, header: int, columns: int) -> tuple[Any, int]:
    """All rows after the header as texts, and how many lines had another number of columns."""
    left_out = 0

    def skip(_: Any) -> str:
        nonlocal left_out
        left_out += 1
        return "skip"

    names = [str(number) for number in range(columns)]
    table = pacsv.read_csv(
        path,
        pacsv.ReadOptions(skip_rows=header + 1, column_names=names, block_size=BLOCK_BYTES),
        pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return table, left_out


# Sheets


def _workbook(path: Path, chosen: Mapping[str, str]) -> Sheet:
    from python_calamine import CalamineWorkbook

    with CalamineWorkbook.from_path(str(path)) as book:
        sheets = list(book.sheet_names)
        if not sheets:
            raise DataError(f"{path.name} has no sheet; save it with one.")
        name = chosen.get("sheet") or _largest(book, sheets)
        if name not in sheets:
            raise DataError("There is no such sheet in the file; choose one of those listed.")
        rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    at, names = _header([[_text(cell) for cell in row] for row in rows[:SAMPLE_ROWS]], path)
    comma = any(
        isinstance(cell, str) and cell.strip().count(",") == 1 and _is_decimal(cell)
        for row in rows[at + 1 :]
        for cell in row
    )
    sign = "," if comma else "."
    data = [row for row in rows[at + 1 :]]
    while data and not any(_text(cell) for cell in data[-1]):
        data.pop()
    columns = [
        pa.array([_text(row[at], sign) or None for row in data], pa.string())
        for at in range(len(names))
    ]
    table = pa.table(columns, names=[str(number) for number in range(len(names))])
    shown = {"sheet": name, "sheets": sheets, "header": at + 1 if at >= 0 else 0}
    return Sheet(names=names, table=table, first_row=at + 2, found=shown)


def _largest(book: Any, sheets: Sequence[str]) -> str:
    """The sheet with the most cells: the first ones are often notes."""
    if len(sheets) == 1:
        return sheets[0]
    sizes = {name: book.get_sheet_by_name(name) for name in sheets}
    return max(sheets, key=lambda name: sizes[name].height * sizes[name].width)


def _is_decimal(cell: str) -> bool:
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


def _described(path: Path, sheet: Sheet, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Types of all columns, kept beside their texts; what the page shows of them."""
    if not sheet.table.num_rows:
        raise DataError(f"{path.name} has no rows; choose a file with one row for each person.")
    coded = [Coded.of(column) for column in sheet.table.columns]
    used = [
        place
        for place, one in enumerate(coded)
        if len(one.texts) or not sheet.names[place].startswith("Column ")
    ]
    coded = [coded[place] for place in used]
    usual = "," if sheet.found.get("delimiter") == ";" else "."
    decimal = chosen.get("decimal") or decimal_sign(coded, usual)
    if decimal not in DECIMALS:
        raise DataError("The decimal sign must be a comma or a point.")
    types = [typed(one, decimal) for one in coded]
    _keep(path, coded, types)
    names = [sheet.names[place] for place in used]
    return {
        "rows": sheet.table.num_rows,
        "left_out": sheet.left_out,
        "format": {**sheet.found, "decimal": decimal},
        "columns": [
            _column(name, one, kind, sheet.first_row)
            for name, one, kind in zip(names, coded, types, strict=True)
        ],
        "preview": _preview(coded),
        "first_row": sheet.first_row,
    }


def _keep(path: Path, coded: Sequence[Coded], types: Sequence[Typed]) -> None:
    """Writes texts (t0, t1, …) and values (v0, v1, …) of all columns."""
    columns: dict[str, Any] = {}
    for number, (one, kind) in enumerate(zip(coded, types, strict=True)):
        places = pa.array(one.codes.astype(np.int32), mask=one.codes < 0)
        columns[f"t{number}"] = pa.DictionaryArray.from_arrays(places, one.texts)
        if kind.values is not None:
            columns[f"v{number}"] = one.spread(kind.values)
    pq.write_table(pa.table(columns), path.with_name(IMPORTED))


def _column(name: str, coded: Coded, kind: Typed, first_row: int) -> dict[str, Any]:
    """What the page says about a column."""
    unfit = kind.unfit(coded)
    odd = None
    if len(unfit):
        row = int(unfit[0])
        text = str(coded.texts[int(coded.codes[row])])
        odd = {"count": len(unfit), "row": first_row + row, "text": text[:60]}
    counts = coded.counts
    order = np.argsort(-counts, kind="stable")[:MOST_DIFFERENT]
    different = len(coded.texts)
    return {
        "name": name,
        "holds": kind.holds if different else "empty",
        "words": kind.words if different else "empty",
        "empty": coded.empty,
        "odd": odd,
        "different": different,
        "texts": [str(coded.texts[int(at)]) for at in order] if different <= 200 else [],
    }


def _preview(coded: Sequence[Coded]) -> list[list[str]]:
    rows = min(PREVIEW_ROWS, len(coded[0].codes) if coded else 0)
    return [
        ["" if one.codes[row] < 0 else str(one.texts[int(one.codes[row])])[:60] for one in coded]
        for row in range(rows)
    ]


# Parquet


def _parquet(path: Path) -> dict[str, Any]:
    """A Parquet file, which has types already."""
    table = pq.read_table(path)
    if not table.num_rows:
        raise DataError(f"{path.name} has no rows; choose a file with one row for each person.")
    names, coded, types = [], [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        plain = column.cast(column.type.value_type) if _is_dictionary(column) else column
        holds = arrow_type(plain.type)
        if holds not in HOLDS:
            continue
        one = Coded.of(plain.cast(pa.string()))
        names.append(name)
        coded.append(one)
        types.append(_of_type(one, plain, holds))
    if not names:
        raise DataError(f"{path.name} has no column of texts, numbers or dates.")
    _keep(path, coded, types)
    return {
        "rows": table.num_rows,
        "left_out": 0,
        "format": {},
        "columns": [
            _column(name, one, kind, 1) for name, one, kind in zip(names, coded, types, strict=True)
        ],
        "preview": _preview(coded),
        "first_row": 1,
    }


def _is_dictionary(column: Any) -> bool:
    return bool(pa.types.is_dictionary(column.type))


def _of_type(coded: Coded, column: Any, holds: ColumnType) -> Typed:
    """The column's own type; its values from a row for each different text."""
    if holds == "text":
        return Typed(holds=holds, values=None)
    first = np.full(len(coded.texts), -1, np.int64)
    rows = np.flatnonzero(coded.codes >= 0)[::-1]
    first[coded.codes[rows]] = rows
    return Typed(holds=holds, values=column.combine_chunks().take(pa.array(first)))
