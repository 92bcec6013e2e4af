"""Which kind of cell: the planners' argument `cell`, and how two kinds are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.cells.base import Cell
from shuffledp.cells.report_size import bucket_messages, padded_size
from shuffledp.cells.use import CellUse
from shuffledp.errors import ParameterError, PlanningError

BEST, BOUNDED, PAPER = "best", "bounded", "paper"
CELL_CHOICES = (BEST, BOUNDED, PAPER)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A cell that a search found, or the cells of all digits."""

    cells: tuple[Cell, ...]
    mse: Fraction
    """The error that the search kept to."""
    cost: float
    """What the target counts: a padded report's messages, or a user's on average."""
    limit: float
    """The messages that no protocol with this kind of cell can beat for this error."""
    dither: int = 1
    """How many values the public dither of a sum by digits has."""

    @property
    def cell(self) -> Cell:
        """The one cell, where there is only one."""
        (cell,) = self.cells
        return cell


Search = Callable[[Choice | None], Choice]
"""A search for the best cell. Its argument is what another search found: it may give up, by raising
`PlanningError`, as soon as it cannot find anything better."""


def checked_cell_choice(cell: object) -> str:
    """The planners' argument `cell`, or a refusal."""
    if cell not in CELL_CHOICES:
        raise ParameterError(f"cell must be one of {', '.join(CELL_CHOICES)}.")
    return str(cell)


def choose(cell: str, searches: dict[str, Search], least_error: bool) -> Choice:
    """The choice with the fewest messages, or with `least_error` with the least error.

    Raises the last search's `PlanningError` where no search finds anything.
    """

    def better(new: Choice, old: Choice) -> bool:
        return new.mse < old.mse if least_error else new.cost < old.cost

    refusal: PlanningError | None = None
    best: Choice | None = None
    for kind, search in searches.items():
        if cell not in (BEST, kind):
            continue
        try:
            choice = search(best)
        except PlanningError as error:
            refusal = error
            continue
        if best is None or better(choice, best):
            best = choice
    if best is None:
        raise refusal or PlanningError("No cell does it; allow a larger error.")
    return best


def counted_messages(uses: tuple[CellUse, ...], padded: bool) -> float:
    """A padded report's messages, or what a user sends on average in all copies, of which one
    holds the largest value and the others 0."""
    if padded:
        return padded_size(uses, uses[0].cell.users)
    return sum(bucket_messages(use.cell, use.copies) for use in uses)


def digit_messages(cells: Sequence[Cell], dither: int, padded: bool) -> float:
    """The same for one cell per digit, each with the same loss in both directions, and the public
    counter of a dither with so many values."""
    uses = (CellUse(cell=cell, copies=1, up=cell.up_loss, down=cell.up_loss) for cell in cells)
    return counted_messages(tuple(uses), padded) + dither_messages(dither, padded)


def dither_messages(dither: int, padded: bool) -> float:
    """How many messages the public counter of a dither gets from a report, at most or on
    average."""
    return (dither - 1) if padded else (dither - 1) / 2
