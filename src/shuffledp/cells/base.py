"""What every kind of cell promises: the randomizer and the analyzer of one counter, 0..D.

A user's messages for a cell are of one or two kinds, +1 and −1; what the analyzer sees of a cell
is how many of each came in. Privacy, planning, service and Spark use a cell through this class
alone; only its own proof (`privacy/…_proof`) and its own planner look at its parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import positive, show, to_float
from shuffledp.numbers.message_law import MessageLaw

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]

MOST_USERS = 10**13
LARGEST_VALUE = 10**6
SMALLEST_EPSILON_OF_CELL, LARGEST_EPSILON_OF_CELL = Fraction(1, 10**9), Fraction(1000)
"""What a change may cost; plans are made for a narrower range."""
USERS_AT_ONCE = 1 << 18
"""Users that are randomized together, so that their arrays stay in the processor's cache."""


def check_epsilon(
    epsilon: Fraction, name: str, largest: Fraction = LARGEST_EPSILON_OF_CELL
) -> None:
    """Refuses an ε so small or so large that no proof about it would end."""
    positive(epsilon, name)
    if not SMALLEST_EPSILON_OF_CELL <= epsilon <= largest:
        raise ParameterError(
            f"{name} must lie between {show(SMALLEST_EPSILON_OF_CELL)} and {show(largest)}."
        )


def check_one_value_each(values: Values) -> None:
    """Refuses anything but one value per user: a row of values would count as one user."""
    if values.ndim != 1:
        raise ValueOutOfRange(
            f"One value per user is needed; an array of shape {values.shape} was given."
        )


class Cell(ABC):
    """The randomizer and the analyzer of one counter, with every parameter an exact number."""

    kind: ClassVar[str]
    """How this kind of cell is named in JSON and by the planners' argument `cell`."""
    sends_minus: ClassVar[bool] = True
    """Whether honest users send −1 messages; where they do not, such a message is malformed."""
    draws_together: ClassVar[bool] = False
    """Whether a user's cells are drawn together; then only the `…_together` methods draw."""
    users: int
    """How many honest users are sure to take part: together they carry the whole noise."""
    largest: int
    """D: a user's value is one of 0..D."""

    @property
    @abstractmethod
    def up_loss(self) -> Fraction:
        """ε that a change of one user's value upwards costs."""

    # The randomizer

    @abstractmethod
    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many +1 and −1 one user sends: what runs on a device.

        Requires: a whole number in 0..D (`checked` makes sure).
        Ensures: an exact draw of the law that the certificate is about.
        """

    @abstractmethod
    def randomize_each(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """How many +1 and −1 each user sends, each drawn on its own.

        Ensures: position i is an independent draw of `randomize` at values[i], exactly.
        """

    @abstractmethod
    def randomize_total(self, values: Values, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """The sums of `randomize_each`: every user is drawn on its own, only sums are kept."""

    @abstractmethod
    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[int, int]:
        """How many +1 and −1 users send in all, of whom `tally[x]` hold x.

        Ensures: the law of the sum of `randomize` over these users, at a cost that does not grow
        with their number.
        """

    @abstractmethod
    def aggregate_copies(
        self, ones: Counts, users: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """`aggregate` for many copies of a cell for 0 and 1: in copy b, `ones[b]` of so many users
        hold 1 and the others 0."""

    @abstractmethod
    def top_up(self, absent: int, copies: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """Messages that bring the noise of so many absent users, for each of the copies.

        Ensures: together with `top_up_shift`, the noise of as many users who hold `absent_value`.
        """

    # All cells of a protocol: each on its own, unless a kind draws them together

    @staticmethod
    def check_together(cells: Sequence[Cell]) -> None:
        """Refuses cells that do not fit together; cells that are drawn on their own always do."""
        return

    @staticmethod
    def most_together(cells: Sequence[Cell], copies: Sequence[int] | None = None) -> int | None:
        """What a user sends at most to so many copies of each of these cells (one, if nothing is
        said); None where there is no such number."""
        total = 0
        for cell, count in zip(cells, copies or [1] * len(cells), strict=True):
            most = cell.most_messages
            if most is None:
                return None
            total += most * count
        return total

    @staticmethod
    def randomize_together(
        cells: Sequence[Cell], values: Sequence[int], entropy: Entropy = SYSTEM
    ) -> list[tuple[int, int]]:
        """`randomize` for every cell, in their order: what runs on a device."""
        return [cell.randomize(value, entropy) for cell, value in zip(cells, values, strict=True)]

    @staticmethod
    def randomize_total_together(
        cells: Sequence[Cell], values: Iterable[Values], entropy: Entropy = SYSTEM
    ) -> list[tuple[int, int]]:
        """`randomize_total` for every cell, with a row of values for each."""
        return [cell.randomize_total(row, entropy) for cell, row in zip(cells, values, strict=True)]

    @staticmethod
    def aggregate_together(
        cells: Sequence[Cell], values: Iterable[Values], tally: Counts, entropy: Entropy = SYSTEM
    ) -> list[tuple[int, int]]:
        """`aggregate` for every cell: tally[c] users hold values[i][c] in cell i."""
        sent = []
        for cell, row in zip(cells, values, strict=True):
            held = np.zeros(cell.largest + 1, np.int64)
            np.add.at(held, row, tally)
            sent.append(cell.aggregate(held, entropy))
        return sent

    @staticmethod
    def top_up_together(
        cells: Sequence[tuple[Cell, int]], absent: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """`top_up` for every cell and its number of copies, one after the other."""
        drawn = [cell.top_up(absent, copies, entropy) for cell, copies in cells]
        plus, minus = (np.concatenate(side) for side in zip(*drawn, strict=True))
        return plus, minus

    @staticmethod
    def joint_variance(cells: Sequence[Cell], weights: Sequence[Fraction]) -> Fraction:
        """At most what drawing the cells together adds to the variance of one user's share of the
        sum of their estimates with these weights."""
        return Fraction(0)

    def checked(self, values: Values) -> Values:
        """`values` as integers in 0..D (not copied), or a refusal that does not name them."""
        array = np.asarray(values)
        check_one_value_each(array)
        if array.dtype.kind not in "biu":
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; "
                f"an array of type {array.dtype} was given: round or encode it first."
            )
        if (
            array.size
            and array.dtype != np.bool_
            and (int(array.min()) < 0 or int(array.max()) > self.largest)
        ):
            raise ValueOutOfRange(
                f"Some value lies outside 0..{self.largest}; nothing was randomized: "
                "correct the data, or ask for a sum of larger values."
            )
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    def checked_tally(self, tally: Counts) -> int:
        """How many users a tally counts; refuses one that does not fit the values 0..D."""
        if tally.shape != (self.largest + 1,) or (tally < 0).any():
            raise ValueOutOfRange(f"A tally holds one count for each value 0..{self.largest}.")
        return int(tally.sum())

    # How many messages

    @abstractmethod
    def messages_per_user(self, mean_value: Fraction | int | None = None) -> arb:
        """The expected number of messages of a user, at the largest value unless a mean is
        given."""

    @property
    @abstractmethod
    def most_messages(self) -> int | None:
        """What a user sends at most; None where there is no such number."""

    @abstractmethod
    def message_laws(self, copies: int) -> tuple[int, list[MessageLaw]]:
        """(a, laws): in so many copies, of which at most one does not hold 0, a user sends at most
        a + a sum of independent draws of these laws, in stochastic order."""

    @abstractmethod
    def top_up_laws(self, absent: int, copies: int) -> tuple[int, list[MessageLaw]]:
        """The same for `top_up`."""

    # The analyzer

    @property
    @abstractmethod
    def absent_value(self) -> int:
        """The value that the estimate counts for every absent user whose noise was topped up."""

    @abstractmethod
    def top_up_shift(self, absent: int) -> int:
        """What must be added to V₊ − V₋ where the noise of so many users was topped up."""

    @abstractmethod
    def estimate(self, plus: int, minus: int, users: int) -> arb:
        """The unbiased estimate of the sum of the users' values."""

    @abstractmethod
    def estimates(self, sums: Counts, users: int) -> Floats:
        """The estimates behind many differences V₊ − V₋, in floats, for reporting."""

    @abstractmethod
    def mean_squared_error(self, users: int, total: Fraction | int | None = None) -> arb:
        """The estimate's mean squared error at the worst data with this true sum; at the worst of
        all data if none is given."""

    @abstractmethod
    def variance_at(self, users: int, total: float, squares: float) -> float:
        """The estimate's mean squared error when the users' values add up to `total` and their
        squares to `squares`, for reporting."""

    def rmse(self, users: int, total: Fraction | int | None = None) -> float:
        """The root of `mean_squared_error`, for reporting."""
        return to_float(lambda: self.mean_squared_error(users, total).sqrt())

    @abstractmethod
    def intervals(self, users: int, sums: Counts, outside: float) -> tuple[Counts, Counts]:
        """For each difference V₊ − V₋ the true sums that explain it: below and above them the
        difference would be an outlier, each with a chance of at most outside/2."""

    @abstractmethod
    def error_range(self, users: int, total: int, outside: float) -> tuple[float, float]:
        """Between which errors the estimate lies when the true sum is `total`, but for a chance of
        outside/2 on each side."""

    @abstractmethod
    def error_law(self, users: int, total: int) -> tuple[Floats, Floats]:
        """Errors of the estimate and how likely each is, when the true sum is `total`."""

    @abstractmethod
    def log_error(self, t: Floats, users: int, total: float) -> NDArray[np.complex128]:
        """ln E[e^(it·error)] of the estimate when the true sum is `total`; for sums of cells."""

    @abstractmethod
    def log_moment(self, theta: Floats, users: int, total: float) -> Floats:
        """ln E[e^(θ·error)] of the estimate when the true sum is `total`; not finite where the
        expectation is not."""

    def minus_law(self, reports: int, absent: int) -> tuple[float, float]:
        """(mean, standard deviation) of the number of −1 that so many reports and the noise of so
        many absent users hold. Requires: the cell sends −1."""
        raise NotImplementedError

    def minus_moment(self, theta: Floats, reports: int, absent: int) -> Floats:
        """ln E[e^(θ·X)] where X is that number less its mean. Requires: the cell sends −1."""
        raise NotImplementedError

    # As JSON

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The kind and all parameters, rationals as exact text."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The cell behind `to_dict`."""
