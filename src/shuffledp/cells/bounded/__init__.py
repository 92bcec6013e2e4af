"""Bounded cells: one kind of message, at most K of them per user, exactly ε-DP (MATH §12)."""

from shuffledp.cells.base import Buckets, one_by_one
from shuffledp.cells.bounded.cell import SCHEMA, BoundedCell
from shuffledp.cells.bounded.digit_search import search_digits
from shuffledp.cells.bounded.proof import prove
from shuffledp.cells.bounded.search import search_buckets, search_cell
from shuffledp.cells.kind import CellKind

KIND = CellKind(
    cell=BoundedCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="bounded",
    buckets=Buckets.of,
    digits=one_by_one,
    search_cell=search_cell,
    search_buckets=search_buckets,
    search_digits=search_digits,
)
