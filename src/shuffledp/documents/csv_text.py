"""CSV that spreadsheet programs open without running anything.

They treat a cell that begins with =, +, −, @, a tab or a carriage return as a formula, and labels
come from people. Such texts get an apostrophe in front; numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, with a line of column names first."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    table.writerows([csv_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def csv_cell(cell: Any) -> Any:
    """The cell, with an apostrophe in front if it is a text that a spreadsheet would run.

    A carriage return becomes a line feed: `csv` would not quote it, and a new row would begin.
    """
    if not isinstance(cell, str) or NUMBER.fullmatch(cell):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if cell.lstrip(" \n").startswith(FORMULA_STARTS) else text
