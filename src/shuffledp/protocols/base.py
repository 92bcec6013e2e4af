"""A protocol is an encoder (value → cell values), its cells, and a decoder (cells → estimate)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.paper import STRIDE, Cell, Counts, Values, one_each
from shuffledp.errors import ValueOutOfRange
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.numbers import show, to_float
from shuffledp.protocols.report import Report, View, release

Progress = Callable[[int], None]


@dataclass(frozen=True)
class CellUse:
    """A cell, how many copies of it run side by side, and what each direction may cost."""

    cell: Cell
    copies: int
    """Of a user's copies at most one holds a value; the others hold 0."""
    up: Fraction
    """ε that a change upwards may cost: at most the cell's up_epsilon."""
    down: Fraction
    """ε that a change downwards may cost: what the certificate proves."""


class Protocol(ABC):
    """P = (randomize, shuffle, analyze) with a privacy target."""

    kind: ClassVar[str]
    epsilon: Fraction

    @property
    @abstractmethod
    def uses(self) -> tuple[CellUse, ...]:
        """The cells, with the budget of each direction."""

    @abstractmethod
    def loss(self) -> Fraction:
        """What replacing one user's value costs, if every cell keeps its budgets."""

    @abstractmethod
    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """The users' cell values before randomizing; refuses what does not fit."""

    @abstractmethod
    def split(self, codes: Values, cell: int) -> Values:
        """The values of one cell (by its number among all copies) behind encoded values."""

    @abstractmethod
    def tally(self, codes: Values) -> Counts:
        """How many users hold each code: all that `aggregate_tally` needs."""

    @abstractmethod
    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        """The report of all users in a tally together, in one go."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything that fixes the protocol, as JSON can hold it exactly."""

    @property
    def cells(self) -> list[Cell]:
        """Every copy of every cell, in wire order."""
        return [use.cell for use in self.uses for _ in range(use.copies)]

    @property
    def users(self) -> int:
        """How many reports a release needs."""
        return self.uses[0].cell.users

    def messages_per_user(self) -> float:
        """The expected number of messages of a user, whatever it holds (an upper bound)."""
        return to_float(
            lambda: sum((use.cell.messages_per_user() * use.copies for use in self.uses), start=0)
        )

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        """One user's report."""
        if np.ndim(value) != 0:
            raise ValueOutOfRange("One user holds one value; use randomize_all for many users.")
        return self.randomize_all(np.array([value]), entropy)

    def randomize_all(
        self, values: NDArray[Any], entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        """The reports of many users, each randomized on its own, added up."""
        codes = self.encode(values, entropy)
        cells = self.cells
        plus, minus = np.zeros((2, len(cells)), np.int64)
        for begin in range(0, len(codes), STRIDE):
            part = codes[begin : begin + STRIDE]
            for number, cell in enumerate(cells):
                sent = cell.randomize_total(self.split(part, number), entropy)
                plus[number] += sent[0]
                minus[number] += sent[1]
            if progress:
                progress(len(part))
        return Report(len(codes), plus, minus, entropy.seeded)

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Report:
        """The same law as `randomize_all`, at a cost that hardly grows with the users."""
        return self.aggregate_tally(self.tally(self.encode(values, entropy)), entropy)

    def release(self, batch: Report) -> View:
        """The view of a batch that is large enough; raises `ShortBatchError` otherwise."""
        return release(batch, self.users)


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """A cell's parameters as exact text."""
    return {
        "users": cell.users,
        "largest": cell.largest,
        "up_epsilon": str(cell.up_epsilon),
        "down_epsilon": str(cell.down_epsilon),
        "mute_probability": str(cell.mute_probability),
        "input_pairs": cell.input_pairs,
        "flood_mean": str(cell.flood_mean),
        "stand_in": cell.stand_in,
    }


def cell_from_dict(data: dict[str, Any]) -> Cell:
    """The cell behind `cell_to_dict`."""
    return Cell(
        int(data["users"]),
        int(data["largest"]),
        Fraction(data["up_epsilon"]),
        Fraction(data["down_epsilon"]),
        Fraction(data["mute_probability"]),
        int(data["input_pairs"]),
        Fraction(data["flood_mean"]),
        int(data["stand_in"]),
    )


def reals_within(values: Values, low: Fraction, high: Fraction) -> NDArray[np.float64]:
    """`values` as floats in [low, high], exactly; or a refusal that does not name them."""
    array = np.asarray(values)
    one_each(array)
    if array.dtype.kind not in "biuf":
        raise ValueOutOfRange(f"Values must be numbers; an array of {array.dtype} was given.")
    numbers = array.astype(np.float64)
    first, last = outermost_floats(low, high)
    if not ((numbers >= first) & (numbers <= last)).all():
        raise ValueOutOfRange(
            f"Some value is missing, not finite, or outside [{show(low)}, {show(high)}]; "
            "nothing was randomized: widen the bounds, or clamp the data."
        )
    return numbers


def outermost_floats(low: Fraction, high: Fraction) -> tuple[float, float]:
    """The least and the largest float within exact bounds."""
    first, last = float(low), float(high)
    first = first if Fraction(first) >= low else math.nextafter(first, math.inf)
    last = last if Fraction(last) <= high else math.nextafter(last, -math.inf)
    return first, last
