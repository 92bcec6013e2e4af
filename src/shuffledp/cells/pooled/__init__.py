"""Pooled cells: buckets of a histogram that share one noise upwards (docs/mathematics.md §22)."""

from shuffledp.cells.kind import CellKind
from shuffledp.cells.pooled.cell import SCHEMA, PooledBuckets, PooledCell
from shuffledp.cells.pooled.proof import prove
from shuffledp.cells.pooled.search import search_buckets

KIND = CellKind(
    cell=PooledCell,
    schema=SCHEMA,
    prove=prove,
    chosen_by="pooled",
    buckets=PooledBuckets.of,
    search_buckets=search_buckets,
)
