"""What the second program says of an entry of vectors/bounded.json, pooled.json, shared.json,
sparse.json or kept.json: everything that is claimed of a cell, before and beside its proof."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from shuffledp_check.bounded import BoundedCell, Rejected
from shuffledp_check.document import CELL
from shuffledp_check.pooled import PooledCell
from shuffledp_check.shared import SharedCell, check_together
from shuffledp_check.sparse import KeptCell, SparseCell


def check_bounded(entry: dict[str, Any]) -> None:
    """Raises `Rejected` unless an entry of vectors/bounded.json holds."""
    CELL(entry["cell"])
    cell = BoundedCell(entry["cell"])
    if cell.users != entry["users"]:
        raise Rejected("the number of users differs")
    if cell.most_messages != entry["most_messages"]:
        raise Rejected("the largest number of messages is not what is claimed")
    cell.check(Fraction(entry["up"]), Fraction(entry["down"]))


def check_pooled(entry: dict[str, Any]) -> None:
    """Raises `Rejected` unless an entry of vectors/pooled.json holds."""
    CELL(entry["cell"])
    cell = PooledCell(entry["cell"])
    if (cell.users, cell.buckets) != (entry["users"], entry["buckets"]):
        raise Rejected("the number of users or buckets differs")
    if cell.most_messages != entry["most_messages"]:
        raise Rejected("the largest number of messages is not what is claimed")
    cell.check(Fraction(entry["up"]), Fraction(entry["down"]))


def check_shared(entry: dict[str, Any]) -> None:
    """Raises `Rejected` unless an entry of vectors/shared.json holds."""
    for data in entry["cells"]:
        CELL(data)
    cells = [SharedCell(data) for data in entry["cells"]]
    check_together(cells)
    most = sum(cell.down.z + cell.down.w + cell.largest for cell in cells) + 2 * cells[0].cut + 1
    if cells[0].users != entry["users"] or most != entry["most_messages"]:
        raise Rejected("the users or the largest number of messages are not what is claimed")
    for cell, loss in zip(cells, entry["losses"], strict=True):
        cell.check(Fraction(loss), Fraction(loss))


def check_sparse(entry: dict[str, Any]) -> None:
    """Raises `Rejected` unless an entry of vectors/sparse.json holds."""
    CELL(entry["cell"])
    kind = KeptCell if entry["cell"]["kind"] == KeptCell.kind else SparseCell
    cell = kind(entry["cell"])
    if (cell.users, cell.buckets) != (entry["users"], entry["buckets"]):
        raise Rejected("the number of users or buckets differs")
    if cell.most_messages != entry["most_messages"]:
        raise Rejected("the largest number of messages is not what is claimed")
    if isinstance(cell, KeptCell):
        cell.check(Fraction(entry["up"]), Fraction(entry["down"]))
    else:
        cell.check(Fraction(entry["epsilon"]), Fraction(entry["epsilon"]))


def check_files(check: Callable[[dict[str, Any]], None]) -> int:
    """Checks the named files; 1 if an entry's verdict differs from its `holds`, otherwise 0."""
    status = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            try:
                check(entry)
                verdict = True
            except (Rejected, ArithmeticError, LookupError, TypeError, ValueError):
                verdict = False
            if verdict != entry["holds"]:
                print(f"{entry['name']}: wrongly {'accepted' if verdict else 'rejected'}")
                status = 1
    return status
