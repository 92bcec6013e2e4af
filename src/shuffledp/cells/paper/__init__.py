"""The cells of [GKM23]: pairs of +1 and −1 around the value, two noises, and a flood of pairs."""

from shuffledp.cells.base import Buckets, one_by_one
from shuffledp.cells.kind import CellKind
from shuffledp.cells.paper.cell import SCHEMA, PaperCell
from shuffledp.cells.paper.digit_search import search_digits
from shuffledp.cells.paper.proof import prove
from shuffledp.cells.paper.search import search_buckets, search_cell

KIND = CellKind(
    cell=PaperCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="paper",
    buckets=Buckets.of,
    digits=one_by_one,
    search_cell=search_cell,
    search_buckets=search_buckets,
    search_digits=search_digits,
)
