"""`CellKind`, which describes a kind of cell; each folder next to this file defines one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.cells.base import Buckets, Cell, CellGroup, Proof, one_by_one
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.search import CellTarget, FoundCells
from shuffledp.documents.schema import Record

Prover = Callable[[Any, Fraction, Fraction, Callable[[int], None] | None], Proof]
"""(cell, up, down, progress) → the proof that a change upwards costs at most `up`, and one
downwards at most `down`.

Ensures: returns only if that was proved; raises `PrivacyViolation` with a witness if it fails,
`Undecided` if the precision limit is reached first."""
GroupOfBuckets = Callable[[Any, int, Fraction, Fraction], CellGroup]
"""(cell, buckets, up, down) → `buckets` equal cells; a user has a 1 in one of them."""
GroupsOfDigits = Callable[[Any], Sequence[CellGroup]]
"""A sum's cells, one per digit → the groups that are drawn at once, in their order."""

# Searches get the best result so far and may return None as soon as they cannot improve on it. If
# `messages` is given, it limits the messages, and the error is minimised. Searches raise
# `PlanningError` if they find nothing at all.
CellSearch = Callable[[CellTarget, float | None, FoundCells | None], FoundCells | None]
BucketSearch = Callable[
    [Fraction, CellTarget, float | None, int, FoundCells | None], FoundCells | None
]
"""For equal cells; one may go up and one down, at ε (the first argument) in total."""
DigitSearch = Callable[[SumTarget, float | None, FoundCells | None], FoundCells | None]


@dataclass(frozen=True, kw_only=True)
class CellKind:
    """A kind of cell; a search that it does not offer is None."""

    cell: type[Cell]
    schema: Record
    """The JSON schema of a cell."""
    prove: Prover
    chosen_by: str
    """The planners' argument `cell` that allows it, beside "best"."""
    buckets: GroupOfBuckets = Buckets.of
    digits: GroupsOfDigits = one_by_one
    """How groups are made; the defaults refuse cells that are not independent of each other."""
    search_cell: CellSearch | None = None
    search_buckets: BucketSearch | None = None
    search_digits: DigitSearch | None = None

    @property
    def name(self) -> str:
        """Its name in JSON."""
        return self.cell.kind
