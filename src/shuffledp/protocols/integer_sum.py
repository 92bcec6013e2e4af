"""Counting and integer sums: one cell ([GKM23] Section 3; MATH §8)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.accuracy.cell_error import error_law, interval
from shuffledp.cells.paper import Cell, Counts, Values
from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.numbers import to_float
from shuffledp.protocols.base import CellUse, Protocol, cell_to_dict
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import Estimate


@dataclass(frozen=True)
class IntegerSum(Protocol):
    """The sum of values 0..D, one per user."""

    epsilon: Fraction
    cell: Cell
    kind: ClassVar[str] = "integers"
    query: ClassVar[str] = "sum"

    @property
    def uses(self) -> tuple[CellUse, ...]:
        return (CellUse(self.cell, 1, self.cell.up_epsilon, self.epsilon),)

    def loss(self) -> Fraction:
        """A replacement goes up or down, not both."""
        return max(self.uses[0].up, self.uses[0].down)

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        return self.cell.checked(values)

    def split(self, codes: Values, cell: int) -> Values:
        return codes

    def tally(self, codes: Values) -> Counts:
        if self.cell.largest == 1:
            ones = int(np.count_nonzero(codes))
            return np.array([len(codes) - ones, ones])
        return np.bincount(codes, minlength=self.cell.largest + 1).astype(np.int64)

    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        plus, minus = self.cell.aggregate(tally, entropy)
        return Report(int(tally.sum()), np.array([plus]), np.array([minus]), entropy.seeded)

    def randomize_each(
        self, values: NDArray[Any], entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """Every user's report: how many +1 and −1 each of them sends."""
        return self.cell.randomize(self.encode(values), entropy)

    def analyze(self, view: View, confidence: float = 0.95) -> Estimate:
        """The unbiased estimate with its exact interval."""
        plus, minus = int(view.plus[0]), int(view.minus[0])
        value = to_float(lambda: self.cell.estimate(plus, minus, view.users))
        low, high = interval(self.cell, view.users, plus - minus, 1 - confidence)
        return Estimate(
            query=self.query,
            value=value,
            low=low,
            high=high,
            confidence=confidence,
            rmse=self.rmse(view.users, value),
            epsilon=self.epsilon,
            users=view.users,
            messages_per_user=self.messages_per_user(),
            seeded=view.seeded,
            errors=lambda: error_law(self.cell, view.users, self._inside(value, view.users)),
        )

    def _inside(self, value: float, users: int) -> int:
        """The possible total nearest to a value."""
        return min(max(round(value), 0), users * self.cell.largest)

    def rmse(self, users: int, total: float | None = None) -> float:
        """The root mean squared error at a true total; at the worst one if none is given."""
        known = None if total is None else Fraction(self._inside(total, users))
        squares = self.cell.most_squares(users, known)
        return to_float(lambda: self.cell.mean_squared_error(users, squares).sqrt())

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "epsilon": str(self.epsilon), "cell": cell_to_dict(self.cell)}


@dataclass(frozen=True)
class Counting(IntegerSum):
    """How many users hold 1: the paper's protocol."""

    kind: ClassVar[str] = "counting"
    query: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        if self.cell.largest != 1:
            raise ParameterError("Counting needs a cell for the values 0 and 1.")
