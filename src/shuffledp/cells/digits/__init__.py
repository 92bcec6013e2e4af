"""Shared cells: the digits of a number, bounded, with one way up for all (docs/mathematics §18)."""

from collections.abc import Sequence

from shuffledp.cells.digits.cell import SCHEMA, SharedCell, SharedDigits
from shuffledp.cells.digits.proof import prove
from shuffledp.cells.digits.search import search_digits
from shuffledp.cells.kind import CellKind


def _one_group(cells: Sequence[SharedCell]) -> tuple[SharedDigits]:
    return (SharedDigits(tuple(cells)),)


KIND = CellKind(
    cell=SharedCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="bounded",
    digits=_one_group,
    search_digits=search_digits,
)
