"""Sparse cells: any number of buckets, at most K messages, about one on average (MATH §19)."""

from fractions import Fraction

from shuffledp.cells.base import CellGroup
from shuffledp.cells.kind import CellKind
from shuffledp.cells.sparse.cell import (
    KEPT_SCHEMA,
    SCHEMA,
    KeptCell,
    SparseBuckets,
    SparseCell,
)
from shuffledp.cells.sparse.proof import prove, prove_kept
from shuffledp.cells.sparse.search import search_buckets
from shuffledp.errors import ParameterError


def _only_beside(cell: KeptCell, buckets: int, up: Fraction, down: Fraction) -> CellGroup:
    raise ParameterError(
        "A kept cell needs a list of heavy labels; pass heavy, or choose another cell."
    )


KIND = CellKind(
    cell=SparseCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="sparse",
    buckets=SparseBuckets.of,
    search_buckets=search_buckets,
)
KEPT_KIND = CellKind(
    cell=KeptCell,
    schema=KEPT_SCHEMA,
    prove=prove_kept,
    chosen_by="sparse",
    buckets=_only_beside,
)
