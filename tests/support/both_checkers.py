"""What the package and the second program say of a certificate."""

from __future__ import annotations

from typing import Any

from shuffledp import verify
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
    try:
        checker.check(data)
    except REFUSED:
        return first, False
    return first, True
