"""Cells: the randomizers of one counter. `cell_from_dict` is the registry of their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.cells.base import Cell
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.digits.cell import SharedCell
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.errors import ParameterError

KINDS: dict[str, type[Cell]] = {cell.kind: cell for cell in (BoundedCell, SharedCell, PaperCell)}
"""Every kind of cell by its name; a new kind is added here."""


def cell_from_dict(data: Mapping[str, Any]) -> Cell:
    """The cell behind `Cell.to_dict`."""
    kind = KINDS.get(data["kind"])
    if kind is None:
        raise ParameterError(
            f"There is no cell of kind {str(data['kind'])[:40]!r}; there are {', '.join(KINDS)}."
        )
    return kind.from_dict(data)
