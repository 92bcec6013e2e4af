"""Real sums: a value is rounded at random to a grid and its digits go to one cell each (MATH §9).

The radix may be mixed; (2, 2, …, 2) is the paper's bit by bit. A replacement may change every
digit, each up or down, so the loss is the sum over the digits of max(up, down).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from shuffledp.accuracy.digit_spread import likely_squares
from shuffledp.accuracy.weighted_sum import Part, error_masses, error_quantiles
from shuffledp.cells import cell_from_dict
from shuffledp.cells.base import Cell, Counts, Values
from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.numbers import ball
from shuffledp.exact.uniform import Uniform
from shuffledp.protocols.base import Protocol, check_bounds, parsed_number, reals_within
from shuffledp.protocols.cell_use import CellUse
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import ErrorLaw, Estimate

FINEST_GRID = 1 << 24
TALLY_ARRAYS = 5  # of one number per grid point that are held at once
ROUNDING_VARIANCE = 1 / 6
"""Of a value that lies anywhere between two grid points, in squared steps."""


@dataclass(frozen=True, kw_only=True)
class RealSum(Protocol[Estimate]):
    """The sum of values in [low, high], one per user."""

    epsilon: Fraction
    digits: tuple[Cell, ...]
    """Most significant first; a cell for 0..D is a digit of base D + 1."""
    low: Fraction
    high: Fraction
    query: ClassVar[str] = "real-sum"
    loss_rule: ClassVar[str] = "sum over cells of max(up, down)"

    def __post_init__(self) -> None:
        if not self.digits or len({cell.users for cell in self.digits}) != 1:
            raise ParameterError("A sum needs at least one digit, all for the same users.")
        check_bounds(self.low, self.high)
        if self.grid >= FINEST_GRID:
            raise ParameterError(f"The digits span more than {FINEST_GRID:,} grid points.")

    @property
    def radix(self) -> tuple[int, ...]:
        return tuple(cell.largest + 1 for cell in self.digits)

    @cached_property
    def grid(self) -> int:
        """The largest grid number: values are rounded to 0..grid."""
        return math.prod(self.radix) - 1

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """What one unit of each digit is worth, in grid steps."""
        return tuple(math.prod(self.radix[place + 1 :]) for place in range(len(self.digits)))

    @property
    def step(self) -> Fraction:
        """The distance of two grid points."""
        return (self.high - self.low) / self.grid

    @property
    def uses(self) -> tuple[CellUse, ...]:
        return tuple(
            CellUse(cell=cell, copies=1, up=cell.up_loss, down=cell.up_loss) for cell in self.digits
        )

    def loss(self) -> Fraction:
        """Every digit may change, each in one direction."""
        return sum((max(use.up, use.down) for use in self.uses), start=Fraction(0))

    # the encoder: random rounding, exact

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """Grid numbers whose expectation is the value: ⌊y + U⌋, floats proposing, fractions
        deciding wherever a float might be wrong."""
        numbers = reals_within(values, self.low, self.high)
        words = entropy.words(numbers.size, np.uint64)
        scale = self.grid / float(self.high - self.low)
        y = (numbers - float(self.low)) * scale
        total = y + words * 2.0**-64
        wrong = 2.0**-48 * (1 + abs(float(self.low)) + abs(float(self.high))) * (scale + 1)
        codes = np.floor(total - wrong).astype(np.int64)
        for place in np.flatnonzero(np.floor(total + wrong) != codes):
            uniform = Uniform(int(words[place]), 64, entropy)
            codes[place] = self._round_exactly(numbers[place], uniform)
        return codes

    def _round_exactly(self, number: float, uniform: Uniform) -> int:
        y = (Fraction(float(number)) - self.low) / self.step
        whole = math.floor(y)
        stays = 1 - (y - whole)
        return whole if uniform.below(lambda: ball(stays), lambda: stays) else whole + 1

    def split(self, codes: Values, cell: int) -> Values:
        return codes // self.weights[cell] % self.radix[cell]

    def parse(self, text: str) -> float:
        return parsed_number(text, self.low, self.high)

    def sample_values(self, size: int) -> Values:
        return np.linspace(float(self.low), float(self.high), size)

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=self.grid + 1).astype(np.int64)

    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        codes = np.arange(self.grid + 1)
        sent = []
        for place, cell in enumerate(self.digits):
            digits = np.zeros(cell.largest + 1, np.int64)
            np.add.at(digits, self.split(codes, place), tally)
            sent.append(cell.aggregate(digits, entropy))
        plus, minus = np.array(sent, np.int64).T
        return Report(users=int(tally.sum()), plus=plus, minus=minus, seeded=entropy.seeded)

    def working_bytes(self) -> int:
        """Also the tally of all grid points, and their digits."""
        return super().working_bytes() + TALLY_ARRAYS * 8 * (self.grid + 1)

    # the decoder

    def result_of(self, view: View, confidence: float) -> Estimate:
        """The unbiased estimate, with an interval from the law of its whole error."""
        sums = view.plus - view.minus
        totals = [
            float(cell.estimates(sums[place : place + 1], view.users)[0])
            for place, cell in enumerate(self.digits)
        ]
        units = sum(w * total for w, total in zip(self.weights, totals, strict=True))
        value = view.users * float(self.low) + units * float(self.step)
        outside = (1 - confidence) / 2
        low, high = self.error_quantiles(view.users, totals, [outside, 1 - outside])
        return Estimate(
            query=self.query,
            value=value,
            low=value - high,
            high=value - low,
            confidence=confidence,
            rmse=self.rmse(view.users, totals),
            epsilon=self.epsilon,
            users=view.users,
            messages_per_user=self.messages_per_user(),
            seeded=view.seeded,
            errors=partial(self.error_law, view.users, totals),
        )

    def error_quantiles(
        self, users: int, totals: list[float] | None, levels: list[float]
    ) -> list[float]:
        """Quantiles of the error, in the values' own unit; at the worst data if no digit totals
        are given."""
        quantiles = error_quantiles(self.parts(users, totals), users / 4, levels)
        return [quantile * float(self.step) for quantile in quantiles]

    def error_law(self, users: int, totals: list[float]) -> ErrorLaw:
        """Errors and how likely each is, thinned out for a picture."""
        places, masses = error_masses(self.parts(users, totals), users / 4)
        return places[::16] * float(self.step), masses[::16] * 16

    def parts(self, users: int, totals: list[float] | None) -> list[Part]:
        """The digits' independent errors, in grid steps; at the worst data without totals."""
        known = totals or [math.inf] * len(self.digits)
        parts = []
        for cell, weight, total in zip(self.digits, self.weights, known, strict=True):
            likely = likely_total(cell, users, total)
            parts.append(
                Part(
                    weight=weight,
                    variance=cell.rmse(users, Fraction(likely)) ** 2,
                    log_error=partial(cell.log_error, users=users, total=likely),
                )
            )
        return parts

    def largest_answer(self, users: int) -> float:
        return users * float(self.high - self.low)

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        low, high = self.error_quantiles(users, None, [outside / 2, 1 - outside / 2])
        return low, high

    def rmse(self, users: int, totals: list[float] | None = None) -> float:
        """The root mean squared error at these digit totals; at the worst data if none are given.

        Totals do not say how the values are spread. At the worst, rounding is counted as half a
        step and every digit at the end that costs most. At totals, values are taken as spread
        evenly between grid points (a sixth of a squared step) and digits as spread as far as
        their mean allows (`likely_squares`): exact for values that are spread like that, above
        the truth for values that lie close together or on the grid.
        """
        if totals is None:
            worst = sum(w**2 * c.rmse(users) ** 2 for w, c in self._weighted)
            return math.sqrt(users / 4 + worst) * float(self.step)
        mse = users * ROUNDING_VARIANCE
        for (weight, cell), total in zip(self._weighted, totals, strict=True):
            mean = min(max(total / users, 0.0), float(cell.largest))
            squares = users * likely_squares(mean, cell.largest)
            mse += weight**2 * cell.variance_at(users, users * mean, squares)
        return math.sqrt(mse) * float(self.step)

    @property
    def _weighted(self) -> list[tuple[int, Cell]]:
        return list(zip(self.weights, self.digits, strict=True))

    @property
    def absent_value(self) -> Fraction:
        digits = zip(self.weights, self.digits, strict=True)
        return self.low + self.step * sum(weight * cell.absent_value for weight, cell in digits)

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "epsilon": str(self.epsilon),
            "low": str(self.low),
            "high": str(self.high),
            "digits": [cell.to_dict() for cell in self.digits],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            digits=tuple(cell_from_dict(digit) for digit in data["digits"]),
            low=Fraction(data["low"]),
            high=Fraction(data["high"]),
        )


def likely_total(cell: Cell, users: int, total: float) -> float:
    """An upper guess at a cell's true total, two errors above its estimate."""
    most = users * cell.largest
    return float(min(max(total, 0.0) + 2 * cell.rmse(users), most))
