"""What the package and the second program say of a certificate, or of one cell of the vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shuffledp import verify
from shuffledp.cells.registry import CELL, cell_from_dict
from shuffledp.errors import CertificateError, InputError
from shuffledp_check import certificate as checker
from shuffledp_check.bounded import Rejected

REFUSED = (Rejected, ArithmeticError, LookupError, TypeError, ValueError)
"""What the second program raises for a file that does not hold."""


def accepted(data: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the package, and whether the second program, accepts a certificate."""
    try:
        verify(data)
        first = True
    except (CertificateError, InputError):
        first = False
    return first, second_accepts(checker.check, data)


def second_accepts(check: Callable[[Any], object], data: dict[str, Any]) -> bool:
    """Whether a check of the second program accepts these data."""
    try:
        check(data)
    except REFUSED:
        return False
    return True


def package_accepts(entry: dict[str, Any], prove: Callable[[Any], int]) -> bool:
    """Whether the package accepts the cell of an entry, with the numbers that the entry states;
    `prove` proves it and gives the most messages of a user."""
    try:
        CELL.check(entry["cell"], "cell")
        cell: Any = cell_from_dict(entry["cell"])
        most = prove(cell)
    except (CertificateError, InputError):
        return False
    told = (entry["users"], entry["buckets"], entry["most_messages"])
    return (cell.users, cell.buckets, most) == told
