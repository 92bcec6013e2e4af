"""How a protocol uses a cell."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shuffledp.cells.base import Cell


@dataclass(frozen=True, kw_only=True)
class CellUse:
    """A cell, how many copies of it run side by side, and what a change may cost."""

    cell: Cell
    copies: int
    """How many copies a user takes part in; at most one of them holds a value, the others 0."""
    groups: int = 1
    """How many such sets of copies there are, each for users of its own."""
    up: Fraction
    """ε that a change upwards may cost; the certificate proves it."""
    down: Fraction
    """ε that a change downwards may cost; the certificate proves it."""
