"""What a kind of cell brings: each folder beside this file describes its kind by a `CellKind`."""

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

Ensures: returns only if that was shown; raises `PrivacyViolation` with a witness where it fails,
`Undecided` where the precision limit comes first."""
GroupOfBuckets = Callable[[Any, int, Fraction, Fraction], CellGroup]
"""(cell, buckets, up, down) → that many equal cells, of which a user holds 1 in one."""
GroupsOfDigits = Callable[[Any], Sequence[CellGroup]]
"""A sum's cells, one per digit → what is drawn at once, in their order."""

# Searches get what is already found: they may give None as soon as they cannot find anything
# better. `messages` is None, or the most messages that are allowed; then the error is made least.
# They raise `PlanningError` where nothing is found at all.
CellSearch = Callable[[CellTarget, float | None, FoundCells | None], FoundCells | None]
BucketSearch = Callable[
    [Fraction, CellTarget, float | None, int, FoundCells | None], FoundCells | None
]
"""For equal cells, of which one may go up and one down at ε (the first argument) in all."""
DigitSearch = Callable[[SumTarget, float | None, FoundCells | None], FoundCells | None]


@dataclass(frozen=True, kw_only=True)
class CellKind:
    """A kind of cell; a search that it does not offer is None."""

    cell: type[Cell]
    schema: Record
    """What the JSON of a cell may hold."""
    prove: Prover
    chosen_by: str
    """The planners' argument `cell` that allows it, beside "best"."""
    buckets: GroupOfBuckets = Buckets.of
    digits: GroupsOfDigits = one_by_one
    """What is drawn at once; the defaults refuse cells that are not independent of each other."""
    search_cell: CellSearch | None = None
    search_buckets: BucketSearch | None = None
    search_digits: DigitSearch | None = None

    @property
    def name(self) -> str:
        """Its name in JSON."""
        return self.cell.kind
