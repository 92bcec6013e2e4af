"""The target of a search for a cell, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.cells.base import Cell, CellGroup
from shuffledp.cells.report_size import padded_size
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import to_float

BEST, BOUNDED, PAPER, POOLED, SPARSE = "best", "bounded", "paper", "pooled", "sparse"
CELL_CHOICES = (BEST, BOUNDED, PAPER, POOLED, SPARSE)
"""The planners' argument `cell`."""
KEPT_SEARCHES = 256
"""Of how many targets each search remembers what it found: the same ones are often asked for again,
by another choice of `cell` or another plan."""


@dataclass(frozen=True, kw_only=True)
class CellTarget:
    """What a cell must achieve."""

    users: int
    """The guaranteed number of reports; together they contain all the noise."""
    expected: int
    """The expected number of reports, for which the error must hold."""
    largest: int
    up: Fraction
    """What a larger value instead of a smaller one may cost."""
    down: Fraction
    """What a smaller value instead of a larger one may cost."""
    mse: Fraction
    """The mean squared error allowed, whatever the data …"""
    relative: Fraction | None = None
    """… or, with R here, mse + (R · true sum)² for every true sum (the paper's cell only)."""
    stand_in: int = 0
    """The value assumed for a muted user (the paper's cell only)."""
    error_at: int | None = None
    """The true count at which the error is measured, instead of the worst one (buckets only)."""
    padded: int = 0
    """How many copies share a padded report, whose size is minimised; 0 minimises the average
    number of messages of one copy."""

    def __post_init__(self) -> None:
        if not 1 <= self.users <= self.expected or self.largest < 1:
            raise ParameterError("A cell is planned for 1 ≤ users ≤ expected and D ≥ 1.")
        if min(self.up, self.down, self.mse) < 0:
            raise ParameterError("Losses and the error that a cell may have cannot be negative.")

    @property
    def shape(self) -> tuple[int, int]:
        """The largest value, and the value assumed for a muted user."""
        return self.largest, self.stand_in


@dataclass(frozen=True, kw_only=True)
class FoundCells:
    """What a search found: one cell, or the cells of all digits."""

    cells: tuple[Cell, ...]
    mse: Fraction
    """The error that the search met."""
    cost: float
    """The cost as the target counts it: a padded report's messages, or a user's on average."""
    dither: int = 1
    """How many values the public dither of a sum by digits has."""

    @property
    def cell(self) -> Cell:
        """The cell, if there is only one."""
        (cell,) = self.cells
        return cell

    def beats(self, other: FoundCells, least_error: bool) -> bool:
        """Whether it costs fewer messages or, with `least_error`, has a smaller error."""
        return self.mse < other.mse if least_error else self.cost < other.cost


def checked_cell_choice(cell: object) -> str:
    """Checks the planners' argument `cell`."""
    if cell not in CELL_CHOICES:
        raise ParameterError(f"cell must be one of {', '.join(CELL_CHOICES)}.")
    return str(cell)


def counted_messages(groups: Sequence[CellGroup], users: int, padded: bool) -> float:
    """A padded report's messages in batches of `users`, or what a user sends on average."""
    if padded:
        return padded_size(tuple(groups), users)
    return sum(to_float(group.messages_per_user) for group in groups)
