"""What every protocol promises: an encoder, its cells, and a decoder.

A protocol encodes a value into the values of its cells, randomizes each, and decodes the sums of
all users' messages into a result. Code outside this room uses a protocol through `Protocol` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells import report_size as sizes
from shuffledp.cells.base import USERS_AT_ONCE, Cell, Counts, Values
from shuffledp.cells.use import CellUse
from shuffledp.errors import ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.numbers.chernoff import Unlikely, as_anomaly
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import checked_confidence, to_float
from shuffledp.protocols.plausibility import CellCounts, unlikely_counts
from shuffledp.protocols.report import Report, View, release
from shuffledp.protocols.results import Result

FIXED_BYTES, BYTES_PER_VALUE, BYTES_PER_COPY = 8 << 20, 16 << 10, 1 << 10
"""Of memory: in any case, for each value of a cell, and for each copy of a cell; tests measure
whether this is enough."""

MOST_BUCKETS = 10**6
"""Copies of one cell."""
FINEST_GRID = 1 << 24
"""Grid points of a sum by digits, each counted once for every value of its dither."""
MOST_DIGITS = FINEST_GRID.bit_length()
"""Cells of one protocol that are not copies of each other."""

Progress = Callable[[int], None]
R = TypeVar("R", bound=Result)
R_co = TypeVar("R_co", bound=Result, covariant=True)


class Protocol(ABC, Generic[R_co]):
    """One query's randomizer and analyzer, with a privacy target; `R_co` is its kind of result."""

    query: ClassVar[str]
    """What it answers, as the command line and JSON name it."""
    loss_rule: ClassVar[str]
    """How the losses of the cells add up, in words."""
    allows_top_up: ClassVar[bool] = True
    """Whether the noise of absent users may be added to a batch."""
    draws_cells_together: ClassVar[bool] = False
    """Whether its cells may be of a kind that is drawn together."""
    one_cell_each: ClassVar[bool] = False
    """Whether everybody holds 1 in one of all cells and 0 in the others."""
    epsilon: Fraction

    # What it consists of

    @property
    @abstractmethod
    def uses(self) -> tuple[CellUse, ...]:
        """The cells, with what a change in each direction may cost."""

    @abstractmethod
    def loss(self) -> Fraction:
        """What replacing one user's value costs, if every cell keeps to its `CellUse`."""

    @property
    def cells(self) -> list[Cell]:
        """Every copy of every cell, in the order of their numbers in messages."""
        return [use.cell for use in self.uses for _ in range(use.copies * use.groups)]

    @property
    def public_counters(self) -> int:
        """How many counters follow the cells. Reports add +1 messages to them without noise: they
        tell what does not depend on a value, as a user's group or the dither of its rounding."""
        return 0

    @property
    def public_messages(self) -> int:
        """How many messages a report adds to the public counters at most."""
        return 0

    @property
    def users(self) -> int:
        """How many reports a release needs."""
        return self.uses[0].cell.users

    @property
    def users_of_cells(self) -> int:
        """How many users take part in every cell of a batch that is released."""
        return self.users

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything that fixes the protocol, as JSON can hold it exactly."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The protocol behind `to_dict`."""

    def renewed(self, entropy: Entropy = SYSTEM) -> Self:
        """The same protocol with its public random choices drawn anew; most have none."""
        return self

    # Values

    def one_value(self, value: Any) -> Values:
        """One user's value as `encode` takes it."""
        if np.ndim(value) != 0:
            raise ValueOutOfRange("One user holds one value; use randomize_all for many users.")
        return np.array([value])

    @abstractmethod
    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """One code per user, from which `split` reads the cells' values; refuses what does not
        fit."""

    @abstractmethod
    def split(self, codes: Values, cell: int) -> Values:
        """The values of one cell (by its number among all copies) behind codes."""

    @abstractmethod
    def tally(self, codes: Values) -> Counts:
        """How many users hold each code: all that `aggregate_tally` needs."""

    def public_totals(self, codes: Values) -> Counts:
        """What the users behind codes add to the public counters, together."""
        return np.zeros(0, np.int64)

    @abstractmethod
    def parse(self, text: str) -> Any:
        """A user's value from text; refuses what is none, without repeating it."""

    @abstractmethod
    def sample_values(self, size: int) -> Values:
        """So many values that the protocol takes, for measuring how fast it is."""

    # The randomizer

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        """One user's report: what runs on a device.

        Ensures: the cells' messages are an exact draw of their randomizer.
        """
        codes = self.encode(self.one_value(value), entropy)
        cells = self.cells
        values = [int(self.split(codes, number)[0]) for number in range(len(cells))]
        sent = type(cells[0]).randomize_together(cells, values, entropy)
        plus, minus = np.array(sent, np.int64).T
        return self.whole_report(1, plus, minus, self.public_totals(codes), entropy)

    def randomize_all(
        self, values: NDArray[Any], entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        """The reports of many users, each randomized on its own, added up."""
        codes = self.encode(values, entropy)
        cells = self.cells
        plus, minus = np.zeros((2, len(cells)), np.int64)
        for begin in range(0, len(codes), USERS_AT_ONCE):
            part = codes[begin : begin + USERS_AT_ONCE]
            rows = (self.split(part, number) for number in range(len(cells)))
            sent = type(cells[0]).randomize_total_together(cells, rows, entropy)
            plus += [both[0] for both in sent]
            minus += [both[1] for both in sent]
            if progress:
                progress(len(part))
        return self.whole_report(len(codes), plus, minus, self.public_totals(codes), entropy)

    def whole_report(
        self, users: int, plus: Counts, minus: Counts, public: Counts, entropy: Entropy
    ) -> Report:
        """A report of the cells' messages and what public counters get."""
        return Report(
            users=users,
            plus=np.concatenate([plus, public]),
            minus=np.concatenate([minus, np.zeros_like(public)]),
            seeded=entropy.seeded,
        )

    @abstractmethod
    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        """The reports of all users in a tally, added up, in one draw of the same law."""

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Report:
        """The same law as `randomize_all`, at a cost that hardly grows with the users."""
        return self.aggregate_tally(self.tally(self.encode(values, entropy)), entropy)

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> Report:
        """Messages that bring the noise of so many absent users, and nothing of any value; public
        counters have no noise and get nothing."""
        cells = [(use.cell, use.copies) for use in self.uses]
        plus, minus = type(cells[0][0]).top_up_together(cells, absent, entropy)
        nothing = np.zeros(self.public_counters, np.int64)
        return self.whole_report(absent, plus, minus, nothing, entropy)

    # How many messages

    def messages_per_user(self) -> float:
        """The expected number of messages of a user, whatever it holds (an upper bound)."""
        return to_float(
            lambda: sum((use.cell.messages_per_user() * use.copies for use in self.uses), start=0)
        )

    def best_padding(self, reports: int) -> str:
        """The padding that a batch of so many reports gets unless another one is asked for."""
        return sizes.best_padding(self.uses, reports)

    def report_size(self, reports: int, padding: str | None = None) -> int:
        """K: how many messages every report carries in batches of so many reports."""
        return sizes.padded_size(self.uses, reports, padding) + self.public_messages

    @property
    def most_messages(self) -> int | None:
        """What a user sends at most; None where there is no such number."""
        most = sizes.most_messages(self.uses)
        return None if most is None else most + self.public_messages

    def top_up_size(self, absent: int) -> int:
        """To how many messages the noise of so many absent users is filled up."""
        return sizes.top_up_size(self.uses, absent)

    # The analyzer

    def slack(self, batch: Report | View) -> int:
        """How many reports of a batch may be incomplete, whichever they are, so that every cell
        still has the noise that the certificate needs; below 0 where it has not now."""
        return batch.users - self.users

    def check_batch(self, batch: Report | View) -> None:
        """Raises `ShortBatchError` where a batch has less noise than the certificate needs."""
        if batch.users < self.users:
            raise ShortBatchError(batch.users, self.users)

    def release(self, batch: Report) -> View:
        """The public view of a batch that is large enough; raises `ShortBatchError` otherwise."""
        view = release(batch, self.users)
        self.check_batch(batch)
        return view

    def analyze(self, view: View, confidence: float = 0.95) -> R_co:
        """The result of a released view, with its intervals.

        Ensures: refuses a report, which is secret, and a view of fewer users than the guarantee
        needs.
        """
        if not isinstance(view, View):
            raise ParameterError(
                "Only a view can be analyzed, which release gives; a report is secret: release a "
                "batch of enough reports first."
            )
        self.check_batch(view)
        return self.result_of(view, checked_confidence(confidence))

    @abstractmethod
    def result_of(self, view: View, confidence: float) -> R_co:
        """What `analyze` gives, for a view that it accepts."""

    @abstractmethod
    def rmse(self, users: int) -> float:
        """The root mean squared error of the result, at the worst data."""

    def working_bytes(self) -> int:
        """About how much memory it takes to draw everybody's reports and to analyze them."""
        return FIXED_BYTES + sum(
            use.cell.largest * BYTES_PER_VALUE + use.copies * use.groups * BYTES_PER_COPY
            for use in self.uses
        )

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        """Between which errors the result lies at the worst data, but for a chance of outside/2 on
        each side; by the normal law unless a protocol knows the exact one."""
        reach = NormalDist().inv_cdf(1 - outside / 2) * self.rmse(users)
        return -reach, reach

    def largest_answer(self, users: int) -> float | None:
        """How far apart the largest and the smallest possible answer for so many users lie; None
        where there are several answers."""
        return None

    @property
    def assumption(self) -> str:
        """What the forecast of the error assumes about the data, in words; empty if nothing."""
        return ""

    @property
    def absent_value(self) -> Fraction:
        """What the estimate counts for every absent user whose noise was topped up."""
        return Fraction(self.uses[0].cell.absent_value)

    def with_top_up(self, batch: Report, absent: int) -> Report:
        """A batch in which the noise of so many absent users was topped up, as `analyze` expects
        it: as if they had reported `absent_value`."""
        plus, cells = batch.plus.copy(), self.cells
        plus[: len(cells)] += [cell.top_up_shift(absent) for cell in cells]
        return replace(batch, plus=plus, absent=batch.absent + absent)

    def anomaly(self, batch: Report) -> float:
        """How implausible the messages of a batch are: as rare among batches of honest users, with
        any values, as so many standard deviations of a normal law; below 0 if too few."""
        return as_anomaly(self.unlikely(batch))

    def unlikely(self, batch: Report) -> list[Unlikely]:
        """How unlikely honest users are to send the messages of a batch, looked at in several
        ways."""
        reports, end = np.array([batch.users - batch.absent]), 0
        parts = []
        for use in self.uses:
            first, end = end, end + use.copies * use.groups
            plus, minus = (side[None, first:end] for side in (batch.plus, batch.minus))
            parts.append(CellCounts(use.cell, plus, minus, reports, batch.absent))
        return unlikely_counts(parts, add_up=self.one_cell_each)
