"""What one cell must achieve: the task that the searches of both kinds of cell work on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shuffledp.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class CellTarget:
    """What a cell must achieve."""

    users: int
    """Reports that are sure to come: they carry the whole noise."""
    expected: int
    """Reports that may come: the error must hold for them."""
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
    """What a muted user is taken to hold (the paper's cell only)."""
    padded: int = 0
    """With so many copies here, what counts is the size of a report that is filled up to the most
    that all copies may need; with 0 it is one copy's messages on average."""

    def __post_init__(self) -> None:
        if not 1 <= self.users <= self.expected or self.largest < 1:
            raise ParameterError("A cell is planned for 1 ≤ users ≤ expected and D ≥ 1.")
        if min(self.up, self.down, self.mse) < 0:
            raise ParameterError("Losses and the error that a cell may have cannot be negative.")

    @property
    def shape(self) -> tuple[int, int]:
        """The largest value and what a muted user is taken to hold."""
        return self.largest, self.stand_in
