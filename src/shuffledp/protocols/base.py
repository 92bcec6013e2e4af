"""The interface of every protocol: an encoder, groups of cells, and a decoder.

A protocol encodes a value into a code for each of its groups, lets each group draw, and decodes the
sums of all users' messages into a result. Code outside this package uses protocols only through
`Protocol`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells import report_size as sizes
from shuffledp.cells.base import USERS_AT_ONCE, Cell, CellGroup, Counts, Member, Values
from shuffledp.errors import InputError, ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.numbers.chernoff import Unlikely, as_anomaly
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import checked_confidence, to_float
from shuffledp.numbers.rounding import FINEST_GRID
from shuffledp.protocols.plausibility import CellCounts, unlikely_counts, unlikely_total
from shuffledp.protocols.report import Report, View, release
from shuffledp.protocols.results import Result

FIXED_BYTES, BYTES_PER_VALUE = 8 << 20, 16 << 10
"""Bytes of memory, in any case and for each value of a cell; tests measure whether this and
`Cell.bytes_per_copy` are enough."""

MOST_BUCKETS = 10**6
"""The most copies of one cell."""
MOST_DIGITS = FINEST_GRID.bit_length()
"""The most cells of one protocol that are not copies of each other."""

Progress = Callable[[int], None]
R = TypeVar("R", bound=Result)
R_co = TypeVar("R_co", bound=Result, covariant=True)


class Protocol(ABC, Generic[R_co]):
    """One query's randomizer and analyzer, with a privacy target; `R_co` is its kind of result."""

    query: ClassVar[str]
    """The name of its query on the command line and in JSON."""
    loss_rule: ClassVar[str]
    """In words, how the losses of the cells add up."""
    allows_top_up: ClassVar[bool] = True
    """Whether the noise of absent users may be added to a batch."""
    encodes_alike: ClassVar[bool] = False
    """Whether `encode` draws nothing, so that equal values have equal codes."""
    encodes_counted: ClassVar[bool] = False
    """Whether `tally_of_counted` is much faster with all values at once, each once."""
    one_cell_each: ClassVar[bool] = False
    """Whether every user has a 1 in exactly one cell and 0 in the others."""
    epsilon: Fraction

    # What it consists of

    @property
    @abstractmethod
    def cell_groups(self) -> tuple[CellGroup, ...]:
        """What a user draws: groups of cells, independent of each other."""

    @property
    def members(self) -> tuple[Member, ...]:
        """The cells of all groups, with what a change in each direction may cost."""
        return tuple(member for group in self.cell_groups for member in group.members)

    @abstractmethod
    def loss(self) -> Fraction:
        """What replacing one user's value costs, if every cell costs what its `Member` allows."""

    @property
    def loss_in_words(self) -> str:
        """`loss_rule`, or another rule if it depends on the cells."""
        return self.loss_rule

    @property
    def cells(self) -> list[Cell]:
        """The cell of every counter, in the order of their numbers in messages."""
        return [member.cell for member in self.members for _ in range(member.copies)]

    @property
    def counters(self) -> int:
        """How many counters a report has: those of the cells plus the public ones."""
        return sum(group.counters for group in self.cell_groups) + self.public_counters

    @property
    def public_counters(self) -> int:
        """How many public counters follow the cells. Reports add +1 messages to them without noise;
        they carry data that does not depend on a value, such as the dither of a user's rounding."""
        return 0

    @property
    def public_messages(self) -> int:
        """The most messages that a report adds to the public counters."""
        return 0

    @property
    def users(self) -> int:
        """How many reports a release needs."""
        return self.members[0].cell.users

    def to_dict(self) -> dict[str, Any]:
        """All parameters of the protocol, as a JSON object with exact numbers; each adds its
        own."""
        return {"query": self.query, "epsilon": str(self.epsilon)}

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The protocol that `to_dict` describes."""

    def renewed(self, entropy: Entropy = SYSTEM) -> Self:
        """The same protocol with fresh public random choices; most have none."""
        return self

    # Values

    def one_value(self, value: Any) -> Values:
        """One user's value as `encode` takes it."""
        if np.ndim(value) != 0:
            raise ValueOutOfRange("One user has one value; use randomize_all for many users.")
        if isinstance(value, str):  # NumPy's own texts lose NUL characters at the end
            return np.array([str(value)], object)
        return np.array([value])

    @abstractmethod
    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """One code per user, which represents the user's whole value; refuses values that do not
        fit."""

    def group_codes(self, codes: Values) -> Iterable[Values]:
        """For each group of cells, its codes for the protocol's codes; the same codes if there is
        one group."""
        yield codes

    @abstractmethod
    def tally(self, codes: Values) -> Counts:
        """How many users have each code: everything that `aggregate_tally` needs."""

    def tally_of(self, values: Values, entropy: Entropy = SYSTEM) -> Counts:
        """The tally of the codes of values."""
        return self.tally(self.encode(values, entropy))

    def tally_of_counted(self, values: Values, counts: Counts, entropy: Entropy = SYSTEM) -> Counts:
        """The tally of different values, if `counts[i]` users have `values[i]`."""
        return self.tally_of(np.repeat(values, counts), entropy)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        """For each group of cells, how many users of a tally have each of its codes."""
        codes = np.arange(len(tally))
        for group, own in zip(self.cell_groups, self.group_codes(codes), strict=True):
            found = np.zeros(group.codes, np.int64)
            np.add.at(found, own, tally)
            yield found

    def public_totals(self, codes: Values) -> Counts:
        """What users with these codes add to the public counters in total."""
        return np.zeros(0, np.int64)

    def public_totals_of_tally(self, tally: Counts) -> Counts:
        """The same for all users in a tally."""
        return np.zeros(0, np.int64)

    @abstractmethod
    def parse(self, text: str) -> Any:
        """A user's value from text; the error for an invalid text does not repeat it."""

    @abstractmethod
    def sample_values(self, size: int) -> Values:
        """`size` valid values, for measuring how fast the protocol is."""

    # The randomizer

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        """One user's report: what runs on a device.

        Ensures: the cells' messages are an exact draw of their randomizer.
        """
        codes = self.encode(self.one_value(value), entropy)
        drawn = [
            group.randomize(int(own[0]), entropy)
            for group, own in zip(self.cell_groups, self.group_codes(codes), strict=True)
        ]
        return self.whole_report(1, *joined(drawn), self.public_totals(codes), entropy)

    def randomize_all(
        self, values: NDArray[Any], entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        """The reports of many users, each randomized independently, added up."""
        codes, groups = self.encode(values, entropy), self.cell_groups
        plus, minus = np.zeros((2, sum(group.counters for group in groups)), np.int64)
        for begin in range(0, len(codes), USERS_AT_ONCE):
            part = codes[begin : begin + USERS_AT_ONCE]
            drawn = [
                group.randomize_total(own, entropy)
                for group, own in zip(groups, self.group_codes(part), strict=True)
            ]
            sent = joined(drawn)
            plus += sent[0]
            minus += sent[1]
            if progress:
                progress(len(part))
        return self.whole_report(len(codes), plus, minus, self.public_totals(codes), entropy)

    def whole_report(
        self, users: int, plus: Counts, minus: Counts, public: Counts, entropy: Entropy
    ) -> Report:
        """A report of the messages to the cells and to the public counters."""
        return Report(
            users=users,
            plus=np.concatenate([plus, public]),
            minus=np.concatenate([minus, np.zeros_like(public)]),
            seeded=entropy.seeded,
        )

    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        """The reports of all users in a tally, added up, in one draw of the same law."""
        drawn = [
            group.aggregate(own, entropy)
            for group, own in zip(self.cell_groups, self.group_tallies(tally), strict=True)
        ]
        public = self.public_totals_of_tally(tally)
        return self.whole_report(int(tally.sum()), *joined(drawn), public, entropy)

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Report:
        """The same law as `randomize_all`, at a cost that hardly grows with the users."""
        return self.aggregate_tally(self.tally(self.encode(values, entropy)), entropy)

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> Report:
        """Messages that replace the noise of `absent` missing users, as if they had reported
        `absent_value`; public counters have no noise and get nothing.

        Ensures: an exact draw, never repeated (MATH §6).
        """
        drawn = [group.top_up(absent, entropy) for group in self.cell_groups]
        nothing = np.zeros(self.public_counters, np.int64)
        topped = self.whole_report(absent, *joined(drawn), nothing, entropy)
        return replace(topped, absent=absent)

    # How many messages

    def messages_per_user(self) -> float:
        """The expected number of messages of a user with any value (an upper bound)."""
        return to_float(lambda: sum(group.messages_per_user() for group in self.cell_groups))

    def fewest_messages(self) -> float | None:
        """A proved lower bound on `messages_per_user` of cells of the same design with the same
        losses and errors; None if none is known."""
        total = 0.0
        for member in self.members:
            fewest = member.cell.fewest_messages(max(member.up, member.down), member.copies)
            if fewest is None:
                return None
            total += fewest
        return total

    @property
    def padding(self) -> str:
        """How reports of the service are padded."""
        return sizes.padding_of(self.cell_groups)

    def report_size(self, reports: int) -> int:
        """K: how many messages every report carries in batches of `reports` reports."""
        return sizes.padded_size(self.cell_groups, reports) + self.public_messages

    @property
    def most_messages(self) -> int | None:
        """The most messages that a user sends; None if there is no limit."""
        most = sizes.most_messages(self.cell_groups)
        return None if most is None else most + self.public_messages

    # The analyzer

    def check_batch(self, batch: Report | View) -> None:
        """Raises `ShortBatchError` if a batch has less noise than the certificate needs, and
        `InputError` if another protocol made it."""
        if batch.plus.size != self.counters:
            raise InputError("This batch was made by another protocol; use the one that made it.")
        if batch.users < self.users:
            raise ShortBatchError(batch.users, self.users)

    def release(self, batch: Report) -> View:
        """The public view of a batch that is large enough; raises `ShortBatchError` otherwise."""
        view = release(batch, self.users)
        self.check_batch(view)
        return view

    def analyze(self, view: View, confidence: float = 0.95) -> R_co:
        """The result of a released view, with its intervals.

        Ensures: refuses a report, which is secret, and a view of fewer users than the guarantee
        needs.
        """
        if not isinstance(view, View):
            raise ParameterError(
                "Only a view, which release returns, can be analyzed; a report is secret. Release "
                "a batch of enough reports first."
            )
        self.check_batch(view)
        return self.result_of(view, checked_confidence(confidence))

    @abstractmethod
    def result_of(self, view: View, confidence: float) -> R_co:
        """The result of `analyze` for a view that it accepts."""

    def promise(self, view: View, confidence: float) -> dict[str, Any]:
        """The fields of every result that do not depend on its numbers."""
        return {
            "epsilon": self.epsilon,
            "users": view.users,
            "messages_per_user": self.messages_per_user(),
            "confidence": confidence,
            "seeded": view.seeded,
        }

    @abstractmethod
    def rmse(self, users: int) -> float:
        """The root mean squared error of the result, at the worst data."""

    def rmse_at_zero(self, users: int) -> float:
        """The same when the true answer is 0, if the error depends on it."""
        return self.rmse(users)

    def rmse_at(self, users: int, count: Fraction) -> float:
        """The same for an answer that `count` users give; the worst case unless a protocol
        overrides it."""
        return self.rmse(users)

    @property
    def bits_per_message(self) -> int:
        """Bits that identify a counter and a sign; public counters get no −1."""
        counters = sum(member.copies for member in self.members)
        return math.ceil(math.log2(2 * counters + self.public_counters))

    def working_bytes(self) -> int:
        """About how many bytes it takes to draw and analyze all users' reports."""
        return FIXED_BYTES + sum(
            member.cell.largest * BYTES_PER_VALUE + member.copies * member.cell.bytes_per_copy
            for member in self.members
        )

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        """The range of the result's error with the worst data, with probability outside/2 left out
        on each side; normal unless a protocol has the exact distribution."""
        reach = NormalDist().inv_cdf(1 - outside / 2) * self.rmse(users)
        return -reach, reach

    def largest_answer(self, users: int) -> float | None:
        """The difference of the largest and the smallest possible answer for `users` users; None if
        there are several answers."""
        return None

    def possible(self, users: int) -> tuple[float, float]:
        """The least and the largest possible answer for a number of users."""
        return -math.inf, math.inf

    @property
    def assumption(self) -> str:
        """In words, what the error forecast assumes about the data; empty if nothing."""
        return ""

    def further_forecast(self, users: int) -> dict[str, Any]:
        """Further fields of a plan's JSON."""
        return {}

    def forecast_lines(self, users: int) -> list[tuple[str, str]]:
        """The same for people, as (name, text)."""
        return []

    @property
    def absent_value(self) -> Fraction:
        """The value that the estimate assumes for every missing user whose noise was topped up."""
        return Fraction(self.members[0].cell.absent_value)

    def anomaly(self, batch: Report) -> float:
        """How implausible a batch is: how rarely honest users with any values send such messages,
        in standard deviations of a normal law; negative if there are too few messages."""
        return as_anomaly(self.unlikely(batch))

    def unlikely(self, batch: Report) -> list[Unlikely]:
        """How unlikely honest users are to send the messages of a batch, by several tests."""
        reports, end = np.array([batch.users - batch.absent]), 0
        parts = []
        for member in self.members:
            first, end = end, end + member.copies
            plus, minus = (side[None, first:end] for side in (batch.plus, batch.minus))
            parts.append(CellCounts(member.cell, plus, minus, reports, batch.absent))
        independent = all(group.independent for group in self.cell_groups)
        add_up = self.one_cell_each and independent
        found = unlikely_counts(parts, add_up=add_up, independent=independent)
        if self.one_cell_each and not independent:
            found += self._unlikely_totals(batch)
        return found

    def _unlikely_totals(self, batch: Report) -> list[Unlikely]:
        """A look at all messages to each group whose counters depend on each other: everybody has
        a value in every group or, with `one_cell_each`, in one of several."""
        reports, end = batch.users - batch.absent, 0
        found = []
        for group in self.cell_groups:
            first, end = end, end + group.counters
            sent = int(batch.plus[first:end].sum() - batch.minus[first:end].sum())
            fewest = 0 if self.one_cell_each and len(self.cell_groups) > 1 else reports
            if not group.independent:
                found += unlikely_total(group, sent, batch.users, fewest, reports)
        return found


def joined(drawn: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """The +1 and the −1 of all counters, group by group."""
    plus, minus = (np.concatenate(side) for side in zip(*drawn, strict=True))
    return plus, minus
