"""Integer sums: the sum of values 0..D in one cell (MATH §8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from shuffledp.cells.base import Copies, Counts, IndependentCell, Values, independent_cell
from shuffledp.cells.registry import cell_from_dict
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import to_float
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import View
from shuffledp.protocols.results import Estimate


@dataclass(frozen=True)
class IntegerSumProtocol(Protocol[Estimate]):
    """The sum of values 0..D, one per user."""

    epsilon: Fraction
    cell: IndependentCell
    query: ClassVar[str] = "integer-sum"
    loss_rule: ClassVar[str] = "max(up, down)"
    encodes_alike: ClassVar[bool] = True

    @property
    def cell_groups(self) -> tuple[Copies]:
        return (Copies(cell=self.cell, up=self.cell.up_loss, down=self.epsilon),)

    def loss(self) -> Fraction:
        """A replacement goes up or down, not both."""
        (group,) = self.cell_groups
        return max(group.up, group.down)

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        return self.cell.checked(values)

    def parse(self, text: str) -> int:
        digits = text.strip()
        if (
            not digits.isascii()
            or not digits.isdigit()
            or int(digits[:8]) > self.cell.largest
            or len(digits) > 8
        ):
            raise ValueOutOfRange(
                f"The value must be a whole number from 0 to {self.cell.largest:,}."
            )
        return int(digits)

    def sample_values(self, size: int) -> Values:
        values: Values = np.arange(size) % (self.cell.largest + 1)
        return values

    def tally(self, codes: Values) -> Counts:
        if self.cell.largest == 1:
            ones = int(np.count_nonzero(codes))
            return np.array([len(codes) - ones, ones])
        return np.bincount(codes, minlength=self.cell.largest + 1).astype(np.int64)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        yield tally

    def result_of(self, view: View, confidence: float) -> Estimate:
        """The unbiased estimate with its exact interval."""
        plus, minus = int(view.plus[0]), int(view.minus[0])
        value = to_float(lambda: self.cell.estimate(plus, minus, view.users))
        low, high = self.cell.intervals(view.users, np.array([plus - minus]), 1 - confidence)
        return Estimate(
            query=self.query,
            value=value,
            low=min(int(low[0]), math.floor(value)),  # the estimate is not a whole number
            high=max(int(high[0]), math.ceil(value)),
            possible=self.possible(view.users),
            rmse=self.rmse(view.users, value),
            errors=partial(self.cell.error_law, view.users, self._inside(value, view.users)),
            **self.promise(view, confidence),
        )

    def _inside(self, value: float, users: int) -> int:
        """The possible total nearest to a value."""
        return min(max(round(value), 0), users * self.cell.largest)

    def possible(self, users: int) -> tuple[float, float]:
        return 0.0, float(users * self.cell.largest)

    def largest_answer(self, users: int) -> float:
        return float(users * self.cell.largest)

    def rmse(self, users: int, total: float | None = None) -> float:
        """The root mean squared error at a true total; at the worst one if none is given."""
        return self.cell.rmse(users, None if total is None else self._inside(total, users))

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, 0)

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        return self.cell.error_range(users, users * self.cell.largest, outside)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "cell": self.cell.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(Fraction(data["epsilon"]), independent_cell(cell_from_dict(data["cell"])))
