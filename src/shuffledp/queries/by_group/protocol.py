"""Counts, sums and means by group, where nobody may learn which group a user is in (MATH §17).

A user holds a pair: its group and a value. The value's digits go to the cells of that group's
copies, and every other copy gets 0. Moving a user to another group lowers the digits in one group's
copies and raises them in another's, on independent randomness, so the loss is the sum over the
digits of up + down. Where the sizes of groups are needed (means, and sums of values whose lower
bound is not 0), one more cell counts the users of each group in the same way.

A count may also take cells that draw all groups at once (sparse or pooled). It is then a histogram
with one more bucket, for the users who hold 0, and a replacement costs what it costs there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from shuffledp.cells.base import (
    Buckets,
    Cell,
    CellGroup,
    Copies,
    Counts,
    IndependentCell,
    Values,
    independent_cell,
)
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.chernoff import Unlikely
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import show, to_float
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.bounds import parsed_number, reals_within
from shuffledp.protocols.report import Report, View
from shuffledp.queries.by_group import intervals as group_intervals
from shuffledp.queries.by_group.result import (
    ANSWERS,
    COUNT,
    INTEGER_SUM,
    MEAN,
    Floats,
    GroupsResult,
)
from shuffledp.queries.histogram.protocol import Label, checked_labels, encode_labels
from shuffledp.queries.real_sum.protocol import TALLY_ARRAYS, RealSumProtocol

MOST_GROUPS, MOST_COUNTED_GROUPS = 1_000, 100_000
"""Of sums and means, and of counts."""
PAIR = np.dtype([("group", np.int64), ("value", np.float64)])
"""A user's group number and value, as `ByGroup.encode` takes them."""
UNKNOWN_GROUP = (
    "Some users are in groups that were not declared; nothing was randomized: declare every "
    "group that a user may be in."
)


class DirectedCell(NamedTuple):
    """A cell and what a change downwards may cost."""

    cell: Cell
    down: Fraction

    def to_dict(self) -> dict[str, Any]:
        """The cell and the cost as a JSON object exactly."""
        return {"cell": self.cell.to_dict(), "down": str(self.down)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DirectedCell:
        """What `to_dict` gave."""
        return cls(cell_from_dict(data["cell"]), Fraction(data["down"]))


def checked_groups(labels: object, most: int = MOST_GROUPS) -> tuple[Label, ...]:
    """The labels of groups: 2 to `most` texts or whole numbers, all different."""
    listed = isinstance(labels, Sized) and not isinstance(labels, str)
    number_fits = not listed or 1 < len(labels) <= most  # type: ignore[arg-type]
    names = checked_labels(labels) if number_fits else ()
    if not 1 < len(names) <= most or len({type(name) for name in names}) > 1:
        raise ParameterError(
            f"Groups must be 2 to {most:,} labels, all texts or all whole numbers; for counts of "
            "more, ask for a histogram."
        )
    return names


def most_groups(answer: str) -> int:
    """How many private groups an answer can have."""
    return MOST_COUNTED_GROUPS if answer == COUNT else MOST_GROUPS


@dataclass(frozen=True, kw_only=True)
class ByGroupProtocol(Protocol[GroupsResult]):
    """A count, sum or mean of the users' values in each private group."""

    epsilon: Fraction
    answer: str
    """What is estimated for each group: count, integer-sum, real-sum or mean."""
    labels: tuple[Label, ...]
    low: Fraction
    high: Fraction
    digits: tuple[DirectedCell, ...]
    """Most significant first; a cell for 0..D is a digit of base D + 1."""
    sizes: DirectedCell | None = None
    """Counts the users of each group, if the answer needs it."""
    query: ClassVar[str] = "by-group"
    loss_rule: ClassVar[str] = "sum over cells of up + down"

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise ParameterError(f"The answer by group must be one of {', '.join(ANSWERS)}.")
        checked_groups(self.labels, most_groups(self.answer))
        if any(part.cell.absent_value != 0 for part in self.directed):
            raise ParameterError("Cells of groups must not have a stand-in.")
        if (self.sizes is not None) != (self.answer == MEAN or self.low != 0):
            raise ParameterError(
                "Sizes of groups are counted for means and for sums whose lower bound is not 0, "
                "and for nothing else."
            )
        if self.sizes is not None and self.sizes.cell.largest != 1:
            raise ParameterError("Sizes of groups need a cell for the values 0 and 1.")
        _ = self.cell_groups if self.together else self.values  # refuse what does not fit
        one_digit = len(self.digits) == 1 and self.low == 0 and self.high == self.grid
        if self.whole and not one_digit:
            raise ParameterError("Whole numbers by group need one digit that starts at 0.")
        if self.answer == COUNT and self.high != 1:
            raise ParameterError("A count needs the values 0 and 1.")

    @cached_property
    def together(self) -> bool:
        """Whether the cell of a count draws all groups at once."""
        cells = [digit.cell for digit in self.digits]
        alone = self.answer == COUNT and len(cells) == 1
        return alone and not isinstance(cells[0], IndependentCell)

    @property
    def grid(self) -> int:
        """The largest grid number of a value."""
        return math.prod(digit.cell.largest + 1 for digit in self.digits) - 1

    @cached_property
    def values(self) -> RealSumProtocol:
        """The values as the digits of a sum; its losses are not those of groups."""
        cells = tuple(digit.cell for digit in self.digits)
        return RealSumProtocol(epsilon=self.epsilon, digits=cells, low=self.low, high=self.high)

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers, which are not rounded."""
        return self.answer in (COUNT, INTEGER_SUM)

    @property
    def directed(self) -> tuple[DirectedCell, ...]:
        """The digits' cells, and last the one that counts users, if there is one."""
        return self.digits if self.sizes is None else (*self.digits, self.sizes)

    @cached_property
    def cell_groups(self) -> tuple[CellGroup, ...]:
        groups = len(self.labels)
        if self.together:
            ((cell, down),) = self.digits
            group = group_of_buckets(cell, groups + 1, cell.up_loss, down)
            if group.members[0].down != down:
                raise ParameterError("The cell of a count is for its own losses; plan it again.")
            return (group,)
        digits = tuple(
            Copies(cell=independent_cell(cell), copies=groups, up=cell.up_loss, down=down)
            for cell, down in self.digits
        )
        if self.sizes is None:
            return digits
        cell, down = self.sizes
        return (*digits, Buckets.of(independent_cell(cell), groups, cell.up_loss, down))

    def loss(self) -> Fraction:
        """Every digit may go down in one group and up in another."""
        return sum((group.replacement_loss for group in self.cell_groups), start=Fraction(0))

    @property
    def loss_in_words(self) -> str:
        rule = self.cell_groups[0].replacement_rule
        return self.loss_rule if rule == CellGroup.replacement_rule else rule

    # values

    def one_value(self, value: Any) -> Values:
        """A pair of a group's label and a number."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ValueOutOfRange("One user has one group and one value; pass them as a pair.")
        label, number = value
        try:
            (group,) = encode_labels(super().one_value(label), self.labels, None)
        except ValueOutOfRange:
            raise ValueOutOfRange(UNKNOWN_GROUP) from None
        try:
            return np.array([(group, float(number))], PAIR)
        except (TypeError, ValueError, OverflowError):
            raise ValueOutOfRange(
                "The value in a pair of group and value must be a number."
            ) from None

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """A group's number times the number of grid points, plus the value's grid number."""
        pairs = np.asarray(values)
        if pairs.dtype != PAIR or pairs.ndim != 1:
            raise ValueOutOfRange("Queries by group need pairs of a group and a value; pass both.")
        group, numbers = pairs["group"], pairs["value"]
        if pairs.size and (int(group.min()) < 0 or int(group.max()) >= len(self.labels)):
            raise ValueOutOfRange(UNKNOWN_GROUP)
        codes = self._whole(numbers) if self.whole else self.values.encode(numbers, entropy)
        return group * (self.grid + 1) + codes

    def _whole(self, numbers: Values) -> Values:
        exact = reals_within(numbers, self.low, self.high)
        if (exact != np.floor(exact)).any():
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{show(self.high)}; nothing was randomized."
            )
        return exact.astype(np.int64)

    def group_codes(self, codes: Values) -> Iterable[Values]:
        group, grid = np.divmod(codes, self.grid + 1)
        if self.together:
            yield np.where(grid == 1, group, len(self.labels))
            return
        for (cell, _), digit in zip(self.digits, self.values.group_codes(grid), strict=True):
            yield group * (cell.largest + 1) + digit
        if self.sizes is not None:
            yield group

    def parse(self, text: str) -> tuple[Label, float]:
        """A group and a value with = between them: march=3.5."""
        name, _, number = text.rpartition("=")
        label = next((one for one in self.labels if str(one) == name.strip()), None)
        if label is None:
            raise ValueOutOfRange(
                "Write your group and your value with = between them, for example "
                f"{self.labels[0]}={show(self.high)}; the group must be one of the task's."
            )
        return label, parsed_number(number, self.low, self.high)

    def sample_values(self, size: int) -> Values:
        pairs = np.zeros(size, PAIR)
        pairs["group"] = np.arange(size) % len(self.labels)
        steps = np.arange(size) % (self.grid + 1)
        pairs["value"] = steps if self.whole else self.values.sample_values(size)
        return pairs

    def tally(self, codes: Values) -> Counts:
        points = len(self.labels) * (self.grid + 1)
        return np.bincount(codes, minlength=points).astype(np.int64)

    def messages_per_user(self) -> float:
        """The expected number of messages: one copy of each cell has the largest value, the others
        0."""
        return sum(to_float(group.messages_per_user) for group in self.cell_groups)

    def working_bytes(self) -> int:
        """Also the tally of all grid points of all groups."""
        points = len(self.labels) * (self.grid + 1)
        return super().working_bytes() + TALLY_ARRAYS * 8 * points

    # the decoder

    def result_of(self, view: View, confidence: float) -> GroupsResult:
        """Every group's estimate, its own interval, and one that holds for all at once (independent
        groups may miss with 1 − confidence^(1/groups) each, others with an equal part of
        1 − confidence)."""
        groups, sums = len(self.labels), (view.plus - view.minus).reshape(len(self.directed), -1)
        sums = sums[:, :groups]  # the others hold 0
        joint = -math.expm1(math.log(confidence) / groups)
        if self.together:
            joint = (1 - confidence) / groups
        found = group_intervals.answers(self, sums, view.users, (1 - confidence, joint))
        return GroupsResult(
            answer=self.answer,
            labels=self.labels,
            possible=self.possible(view.users),
            **found,
            **self.promise(view, confidence),
        )

    def totals(self, sums: Counts, users: int) -> Floats:
        """The estimates from all cells' sums: one row per cell, one column per group."""
        rows = zip(self.directed, sums, strict=True)
        return np.array([part.cell.estimates(row, users) for part, row in rows])

    def size_weight(self) -> float:
        """What one more user in a group's estimated size adds to the error, in grid steps: the
        lower bound for a sum, the largest value for a mean."""
        worth = self.high - self.low if self.answer == MEAN else abs(self.low)
        return float(worth / self.values.step)

    def possible(self, users: int) -> tuple[float, float]:
        low, high = float(self.low), float(self.high)
        if self.answer == MEAN:
            return low, high
        return users * min(low, 0.0), users * max(high, 0.0)

    def rmse(self, users: int) -> float:
        """A group's root mean squared error at the worst data: all users in this group or, for a
        mean, a group with an equal share of all users."""
        rounding = 0.0 if self.whole else users * group_intervals.WORST_ROUNDING
        return self._error(users, rounding, [part.cell.rmse(users) for part in self.directed])

    def rmse_at(self, users: int, count: Fraction) -> float:
        if self.answer != COUNT:
            return self.rmse(users)
        return self.digits[0].cell.rmse(users, min(count, Fraction(users)))

    def rmse_at_zero(self, users: int) -> float:
        return self._error(users, 0.0, [part.cell.rmse(users, 0) for part in self.directed])

    def _error(self, users: int, rounding: float, errors: list[float]) -> float:
        """What rounding and the errors of all cells together make of an answer."""
        if self.whole:
            return errors[0]
        weights: list[float] = list(self.values.weights)
        if self.sizes is not None:
            weights.append(self.size_weight())
        mse = rounding + sum((w * e) ** 2 for w, e in zip(weights, errors, strict=True))
        error = math.sqrt(mse) * float(self.values.step)
        return error * len(self.labels) / users if self.answer == MEAN else error

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        if not self.whole:
            return super().error_range(users, outside)
        cell = self.digits[0].cell
        return cell.error_range(users, users * cell.largest, outside)

    def unlikely(self, batch: Report) -> list[Unlikely]:
        found = super().unlikely(batch)
        return found + self._unlikely_totals(batch) if self.together else found

    @property
    def assumption(self) -> str:
        if self.answer != MEAN:
            return ""
        return (
            "a mean by group is a ratio of two private numbers; its error is forecast for a group "
            "with an equal share of all users, and is larger for smaller groups"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "answer": self.answer,
            "labels": list(self.labels),
            "low": str(self.low),
            "high": str(self.high),
            "digits": [digit.to_dict() for digit in self.digits],
            **({} if self.sizes is None else {"sizes": self.sizes.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        sizes = data.get("sizes")
        return cls(
            epsilon=Fraction(data["epsilon"]),
            answer=data["answer"],
            labels=tuple(data["labels"]),
            low=Fraction(data["low"]),
            high=Fraction(data["high"]),
            digits=tuple(DirectedCell.from_dict(digit) for digit in data["digits"]),
            sizes=None if sizes is None else DirectedCell.from_dict(sizes),
        )
