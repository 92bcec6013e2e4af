"""Real sums: a value is rounded at random to a grid and its digits go to one cell each (MATH §9).

The radix may be mixed; (2, 2, …, 2) is the paper's bit by bit. A replacement may change every
digit, each up or down, so the loss is the sum over the digits of max(up, down).

With a dither, a report also says openly how far its rounding was shifted, as one of k values: u
messages to a public counter. The shift does not depend on the value, and the digits have the same
loss for every shift. Subtracting all shifts from the sum reduces the rounding error.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Cell, CellGroup, Counts, Floats, Values
from shuffledp.cells.registry import cell_from_dict, groups_of_digits
from shuffledp.errors import ParameterError
from shuffledp.numbers.chernoff import Unlikely
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, whole
from shuffledp.numbers.lattice import Part, error_masses, error_quantiles
from shuffledp.numbers.rounding import FINEST_GRID, MOST_DITHER, even_rounding, worst_rounding
from shuffledp.numbers.uniform import Uniform
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.bounds import check_bounds, parsed_number, reals_within
from shuffledp.protocols.plausibility import DOWN, UP, Deviation, alone
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import ErrorLaw, Estimate

TALLY_ARRAYS = 5  # arrays of one number per grid point in memory at once
BLOCK = 1 << 15
"""How many values are rounded together."""
WORDS = 1 << 17
"""How many random words are drawn together; a multiple of BLOCK."""
LEADING_HALF = 1 if sys.byteorder == "little" else 0
"""Which half of a word of 64 bits, as two of 32 bits in memory, has its leading bits."""
STEEPEST = 60.0


@dataclass(frozen=True, kw_only=True)
class RealSumProtocol(Protocol[Estimate]):
    """The sum of values in [low, high], one per user."""

    epsilon: Fraction
    digits: tuple[Cell, ...]
    """Most significant first; a cell for 0..D is a digit of base D + 1."""
    low: Fraction
    high: Fraction
    dither: int = 1
    """How many values the public dither has; 1 means no dither."""
    query: ClassVar[str] = "real-sum"
    loss_rule: ClassVar[str] = "sum over cells of max(up, down)"

    def __post_init__(self) -> None:
        if not self.digits or len({cell.users for cell in self.digits}) != 1:
            raise ParameterError("A sum needs at least one digit, all for the same users.")
        _ = self.cell_groups  # refuses cells that do not fit together
        check_bounds(self.low, self.high)
        whole(self.dither, "dither", most=MOST_DITHER)
        if (self.grid + 1) * self.dither > FINEST_GRID:
            raise ParameterError(
                f"The digits span more than {FINEST_GRID:,} grid points, each counted once for "
                "every value of the dither; use fewer or smaller digits or a smaller dither."
            )

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

    @cached_property
    def cell_groups(self) -> tuple[CellGroup, ...]:
        return groups_of_digits(self.digits)

    @property
    def public_counters(self) -> int:
        return int(self.dither > 1)

    @property
    def public_messages(self) -> int:
        return self.dither - 1

    def loss(self) -> Fraction:
        """Every digit may change, each in one direction, whatever the public dither is."""
        return sum((max(one.up, one.down) for one in self.members), start=Fraction(0))

    # the encoder: random rounding, exact

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """Grid numbers whose expectation is the value, ⌊y + T⌋, times k plus the dither ⌊kT⌋:
        floats propose, and fractions decide wherever a float might be wrong."""
        numbers = reals_within(values, self.low, self.high)
        words = entropy.words(numbers.size, np.uint64)
        leading = words.view(np.uint32)[LEADING_HALF::2]
        codes = np.empty(numbers.size, np.int64)
        for place in self._propose(numbers, leading, codes, np.empty((3, numbers.size))):
            uniform = Uniform(int(words[place]), 64, entropy)
            codes[place] = self._round_exactly(numbers[place], uniform)
        return codes

    def _propose(
        self, numbers: Floats, words: NDArray[np.uint32], codes: Values, scratch: Floats
    ) -> Values:
        """Writes the codes of numbers from the first 32 bits of each T; returns the places where
        a rounding error of the floats, or more bits of T, could change a code.

        Floats are off by less than `wrong`, which is subtracted first, so a code can only be too
        small, and only if the sum is within 2·wrong + 2⁻³² below a whole number.
        """
        k, (scale, offset, wrong) = self.dither, self._scaling
        t, total, rounded = scratch
        np.multiply(words, 2.0**-32, out=t)
        np.multiply(numbers, scale, out=total)
        total += offset
        total += t
        np.floor(total, out=rounded)
        total -= rounded
        open_ = _near_one(total, 2 * wrong + 2.0**-32)
        if k > 1:
            t *= k  # exactly
            dithers = np.floor(t, out=total)
            t -= dithers
            open_dithers = _near_one(t, k * 2.0**-32)
            if open_dithers.size:
                open_ = np.union1d(open_, open_dithers)
            rounded *= k
            rounded += dithers
        np.copyto(codes, rounded, casting="unsafe")
        return open_

    @cached_property
    def _scaling(self) -> tuple[float, float, float]:
        """(grid points per unit, what is added to a scaled value, how far that may be wrong)."""
        scale = float(1 / self.step)
        wrong = 2.0**-48 * (1 + abs(float(self.low)) + abs(float(self.high))) * (scale + 1)
        return scale, float(-self.low / self.step) - wrong, wrong

    def _round_exactly(self, number: float, uniform: Uniform) -> int:
        y = (Fraction(float(number)) - self.low) / self.step
        rounded = math.floor(y)
        stays = 1 - (y - rounded)
        rounded += not uniform.below(lambda: ball(stays), lambda: stays)
        dither = uniform.value * self.dither >> uniform.bits
        next_one = Fraction(dither + 1, self.dither)  # all others are certain
        dither += not uniform.below(lambda: ball(next_one), lambda: next_one)
        return rounded * self.dither + dither

    def group_codes(self, codes: Values) -> Iterable[Values]:
        """The digits of each group."""
        return self._parts_of(codes // self.dither)

    def _parts_of(self, numbers: Values) -> Iterable[Values]:
        """The part of grid numbers that each group's digits represent."""
        last = -1
        for group in self.cell_groups:
            last += group.counters
            yield numbers // self.weights[last] % group.codes

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        held = tally.reshape(self.grid + 1, self.dither).sum(axis=1)
        for group, own in zip(
            self.cell_groups, self._parts_of(np.arange(self.grid + 1)), strict=True
        ):
            found = np.zeros(group.codes, np.int64)
            np.add.at(found, own, held)
            yield found

    def public_totals(self, codes: Values) -> Counts:
        return np.array([(codes % self.dither).sum()] * self.public_counters, np.int64)

    def parse(self, text: str) -> float:
        return parsed_number(text, self.low, self.high)

    def sample_values(self, size: int) -> Values:
        return np.linspace(float(self.low), float(self.high), size)

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=(self.grid + 1) * self.dither).astype(np.int64)

    def tally_of(self, values: Values, entropy: Entropy = SYSTEM) -> Counts:
        """The tally of all values, by blocks that stay in the processor's cache."""
        tally = np.zeros((self.grid + 1) * self.dither, np.int64)
        codes, scratch = np.empty(BLOCK, np.int64), np.empty((3, BLOCK))
        words = np.zeros(0, np.uint32)
        for at in range(0, len(values), BLOCK):
            numbers = reals_within(values[at : at + BLOCK], self.low, self.high)
            if not words.size:
                words = entropy.words(min(WORDS, len(values) - at), np.uint32)
            size = numbers.size
            own, words, found = words[:size], words[size:], codes[:size]
            for place in self._propose(numbers, own, found, scratch[:, :size]):
                uniform = Uniform(int(own[place]), 32, entropy)
                found[place] = self._round_exactly(numbers[place], uniform)
            tally += np.bincount(found, minlength=len(tally))
        return tally

    def public_totals_of_tally(self, tally: Counts) -> Counts:
        dithers = tally.reshape(self.grid + 1, self.dither).sum(axis=0) @ np.arange(self.dither)
        return np.array([dithers] * self.public_counters, np.int64)

    def messages_per_user(self) -> float:
        return super().messages_per_user() + self.public_messages / 2

    def working_bytes(self) -> int:
        """Also the tally of all grid points and dithers, and their digits."""
        return super().working_bytes() + TALLY_ARRAYS * 8 * (self.grid + 1) * self.dither

    # the decoder

    def result_of(self, view: View, confidence: float) -> Estimate:
        """The unbiased estimate, with an interval from the law of its whole error."""
        sums = view.plus - view.minus
        totals = [
            float(cell.estimates(sums[place : place + 1], view.users)[0])
            for place, cell in enumerate(self.digits)
        ]
        units = sum(w * total for w, total in zip(self.weights, totals, strict=True))
        units -= self.shift(view)
        value = view.users * float(self.low) + units * float(self.step)
        outside = (1 - confidence) / 2
        low, high = self.error_quantiles(view.users, totals, [outside, 1 - outside])
        return Estimate(
            query=self.query,
            value=value,
            low=value - high,
            high=value - low,
            possible=self.possible(view.users),
            rmse=self.rmse(view.users, totals),
            errors=partial(self.error_law, view.users, totals),
            **self.promise(view, confidence),
        )

    def shift(self, batch: Report | View) -> float:
        """By how many grid steps the dither of all users who reported moved the sum; missing users
        whose noise was topped up have no dither."""
        if self.dither == 1:
            return 0.0
        reports = batch.users - batch.absent
        return (int(batch.plus[-1]) - reports * (self.dither - 1) / 2) / self.dither

    def unlikely(self, batch: Report) -> list[Unlikely]:
        """Also tests the dither, whose law does not depend on the values, and −1 messages to its
        counter, which no honest user sends."""
        found = super().unlikely(batch)
        if self.dither == 1:
            return found
        reports = max(1, batch.users - batch.absent)
        away = int(batch.plus[-1]) - reports * (self.dither - 1) / 2
        away += math.copysign(int(batch.minus[-1]), away)
        spread = math.sqrt(reports * (self.dither**2 - 1) / 12)
        moment = partial(dither_moment, reports, self.dither)
        return found + [
            alone(Deviation(sign, np.array([[sign * away]]), moment, spread)) for sign in (UP, DOWN)
        ]

    def error_quantiles(
        self, users: int, totals: list[float] | None, levels: list[float]
    ) -> list[float]:
        """Quantiles of the error, in the values' own unit; at the worst data if no digit totals
        are given."""
        rounding = users * float(worst_rounding(self.dither))
        parts, spread = self.parts(users, totals), self.widest_spread(users)
        quantiles = error_quantiles(parts, rounding, levels, spread)
        return [quantile * float(self.step) for quantile in quantiles]

    def error_law(self, users: int, totals: list[float]) -> ErrorLaw:
        """Errors and how likely each is, thinned out for a picture."""
        rounding = users * float(worst_rounding(self.dither))
        parts, spread = self.parts(users, totals), self.widest_spread(users)
        places, masses = error_masses(parts, rounding, spread)
        return places[::16] * float(self.step), masses[::16] * 16

    def widest_spread(self, users: int) -> float:
        """The variance of the whole error with the worst data, in squared grid steps; all error
        laws of a plan are computed on the same cached grid."""
        worst = sum(part.weight**2 * part.variance for part in self.parts(users, None))
        return users * float(worst_rounding(self.dither)) + worst

    def parts(self, users: int, totals: list[float] | None) -> list[Part]:
        """The digits' errors, in grid steps; with the worst data if no totals are given. They are
        treated as independent; those of digits that share their way up are, except for rare
        jumps."""
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

    def possible(self, users: int) -> tuple[float, float]:
        return users * float(self.low), users * float(self.high)

    def largest_answer(self, users: int) -> float:
        return users * float(self.high - self.low)

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        low, high = self.error_quantiles(users, None, [outside / 2, 1 - outside / 2])
        return low, high

    def rmse(self, users: int, totals: list[float] | None = None) -> float:
        """The root mean squared error at these digit totals; at the worst data if none are given.

        Totals do not say how the values are spread. At the worst, rounding is counted at its
        largest (`worst_rounding`) and every digit at the end that costs most. At totals, values are
        taken as spread evenly between grid points (`even_rounding`) and digits as spread as far as
        their mean allows (`likely_squares`): exact for values that are spread like that, above
        the truth for values that lie close together or on the grid.
        """
        joint = users * float(self._joint_variance())
        if totals is None:
            worst = sum(w**2 * c.rmse(users) ** 2 for w, c in self._weighted)
            rounding = users * float(worst_rounding(self.dither))
            return math.sqrt(rounding + worst + joint) * float(self.step)
        mse = users * float(even_rounding(self.dither)) + joint
        for (weight, cell), total in zip(self._weighted, totals, strict=True):
            mean = min(max(total / users, 0.0), float(cell.largest))
            squares = users * likely_squares(mean, cell.largest)
            mse += weight**2 * cell.variance_at(users, users * mean, squares)
        return math.sqrt(mse) * float(self.step)

    def _joint_variance(self) -> Fraction:
        """What drawing digits at once adds to one user's variance, in squared grid steps."""
        total, first = Fraction(0), 0
        for group in self.cell_groups:
            weights = self.weights[first : first + group.counters]
            total += group.joint_variance([Fraction(weight) for weight in weights])
            first += group.counters
        return total

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, [0.0] * len(self.digits))

    @property
    def _weighted(self) -> list[tuple[int, Cell]]:
        return list(zip(self.weights, self.digits, strict=True))

    @property
    def absent_value(self) -> Fraction:
        digits = zip(self.weights, self.digits, strict=True)
        return self.low + self.step * sum(weight * cell.absent_value for weight, cell in digits)

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "low": str(self.low),
            "high": str(self.high),
            "digits": [cell.to_dict() for cell in self.digits],
            **({} if self.dither == 1 else {"dither": self.dither}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            digits=tuple(cell_from_dict(digit) for digit in data["digits"]),
            low=Fraction(data["low"]),
            high=Fraction(data["high"]),
            dither=data.get("dither", 1),
        )


def _near_one(parts: Floats, distance: float) -> NDArray[np.intp]:
    """Where fractional parts are at most this distance below 1."""
    if not parts.size or parts.max() < 1 - distance:
        return np.zeros(0, np.intp)
    return np.flatnonzero(parts >= 1 - distance)


def dither_moment(reports: int, dither: int, theta: Floats) -> Floats:
    """ln E[e^(θX)], X the dithers of `reports` users less their mean: each is uniform on 0..k−1."""
    places = np.arange(dither) - (dither - 1) / 2
    return np.asarray(reports * np.log(np.exp(np.outer(theta, places)).mean(axis=1)))


def likely_total(cell: Cell, users: int, total: float) -> float:
    """An upper guess at a cell's true total, two errors above its estimate."""
    most = users * cell.largest
    return float(min(max(total, 0.0) + 2 * cell.rmse(users), most))


def likely_squares(mean: float, largest: int) -> float:
    """The mean square of a digit 0..largest under the law of largest entropy with this mean, whose
    chances rise or fall by the same factor from one value to the next.

    >>> likely_squares(1.0, 2), likely_squares(0.0, 2)
    (1.6666666666666667, 0.0)
    """
    if mean <= 0 or mean >= largest:
        return float(min(max(mean, 0.0), largest)) ** 2
    values = np.arange(largest + 1, dtype=np.float64)
    low, high = -STEEPEST, STEEPEST
    for _ in range(60):
        slope = (low + high) / 2
        chances = np.exp(slope * values - max(slope * largest, 0.0))
        chances /= chances.sum()
        low, high = (slope, high) if chances @ values < mean else (low, slope)
    return float(chances @ values**2)
