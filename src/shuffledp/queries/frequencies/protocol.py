"""Frequencies of labels of any domain, at a cost that does not depend on it (MATH §13).

Users are split at random into groups, which are public and independent of their values. Group g
counts over k cells a public hash of its users' labels; with k = 2 one cell counts one of both. How
often a label occurs is estimated from its cell in every group: other labels fall into the same cell
with probability 1/k and cancel out on average.

A user takes part in the cells of its own group alone, so groups compose in parallel: replacing a
user's value costs up + down within its group, or max(up, down) where the group has one cell. Every
report also adds one message to its group's counter in the roll call. That makes the groups' sizes
public, and a batch in which a group has fewer reports than its cells need is never released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import (
    MOST_USERS,
    Buckets,
    Copies,
    Counts,
    IndependentCell,
    Values,
    check_one_value_each,
    independent_cell,
)
from shuffledp.cells.registry import cell_from_dict
from shuffledp.errors import ParameterError, ShortGroupError, ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.chernoff import Unlikely
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import positive, show, whole
from shuffledp.protocols.base import Progress, Protocol
from shuffledp.protocols.plausibility import CellCounts
from shuffledp.protocols.report import Report, View
from shuffledp.queries.frequencies.hashing import (
    GroupHashes,
    checked_candidates,
    checked_seed,
    new_hash_seed,
)
from shuffledp.queries.frequencies.plausibility import unlikely_calls, unlikely_groups
from shuffledp.queries.frequencies.result import FrequenciesResult, GroupCounts, GroupNoise
from shuffledp.queries.histogram.protocol import Label

MOST_GROUPS = 10**6
MOST_CELLS_PER_GROUP = 1 << 12


@dataclass(frozen=True, kw_only=True)
class FrequenciesProtocol(Protocol[FrequenciesResult]):
    """How many users hold each label of any domain, by groups of users and a hash for each."""

    epsilon: Fraction
    reports: int
    """How many users take part in all groups together."""
    groups: int
    cells_per_group: int
    """k, a power of two; with 2 a group has one cell, which counts one of the two hash values."""
    cell: IndependentCell
    """Its `users` are those that each group must have."""
    spread: Fraction
    """What the error is forecast for: as if values were spread evenly over so many labels."""
    hash_seed: str
    candidates: tuple[Label, ...] = ()
    """Labels that results show; a result can be asked about any other."""
    query: ClassVar[str] = "frequencies"
    loss_rule: ClassVar[str] = (
        "groups in parallel; in a group up + down, or max(up, down) where it has one cell"
    )

    def __post_init__(self) -> None:
        whole(self.reports, "users", most=MOST_USERS)
        whole(self.groups, "groups", most=MOST_GROUPS)
        checked_seed(self.hash_seed)
        checked_candidates(self.candidates)
        if not positive(self.spread, "spread") >= 1:
            raise ParameterError("spread must be at least 1, which means that all hold the same.")
        k = self.cells_per_group
        if not 2 <= k <= MOST_CELLS_PER_GROUP or k & (k - 1):
            raise ParameterError(
                f"A group needs 2, 4, 8, … cells, at most {MOST_CELLS_PER_GROUP:,}."
            )
        if self.cell.largest != 1 or self.cell.absent_value != 0:
            raise ParameterError("A group needs cells for the values 0 and 1, without a stand-in.")
        if self.groups * self.cell.users > self.reports:
            raise ParameterError("There are fewer users than all groups need together.")

    # What it consists of

    @property
    def copies(self) -> int:
        """How many cells a group has: k, or one that counts one of two."""
        return self.cells_per_group if self.cells_per_group > 2 else 1

    @property
    def users(self) -> int:
        return self.reports

    @property
    def users_of_cells(self) -> int:
        return self.cell.users

    @property
    def public_counters(self) -> int:
        return self.groups

    @property
    def public_messages(self) -> int:
        return 1

    @cached_property
    def cell_groups(self) -> tuple[Copies]:
        """Of one group of users: its cells, or the one that counts one of two hash values."""
        up = self.cell.up_loss
        if self.copies == 1:
            return (Copies(cell=self.cell, up=up, down=self.epsilon),)
        return (Buckets.of(self.cell, self.copies, up, self.epsilon - up),)

    @property
    def cohorts(self) -> int:
        return self.groups

    def loss(self) -> Fraction:
        """In the user's group one cell goes down and another one up; a single cell goes one way."""
        (group,) = self.cell_groups
        return group.up + group.down if self.copies > 1 else max(group.up, group.down)

    @cached_property
    def hashes(self) -> GroupHashes:
        """Every group's hash function."""
        bits = self.cells_per_group.bit_length() - 1
        return GroupHashes(checked_seed(self.hash_seed), self.groups, bits)

    def renewed(self, entropy: Entropy = SYSTEM) -> Self:
        """The same protocol with new hash functions, on which its privacy does not depend."""
        return replace(self, hash_seed=new_hash_seed(entropy))

    # Values

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """group · k + cell for each user; the group is drawn here, whatever the value."""
        array = np.asarray(values)
        check_one_value_each(array)
        if array.dtype.kind not in "iuUO":
            raise ValueOutOfRange(
                f"Values must be texts or whole numbers; an array of {array.dtype} was given."
            )
        groups = uniform_below(self.groups, len(array), entropy)
        return groups * self.cells_per_group + self.hashes.cells(self.hashes.numbers(array), groups)

    def parse(self, text: str) -> Label:
        numbers = bool(self.candidates) and isinstance(self.candidates[0], int)
        digits = text.strip().removeprefix("-")
        if not numbers:
            return text
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
            raise ValueOutOfRange("The value must be a whole number of at most 64 bits.")
        return int(text)

    def sample_values(self, size: int) -> Values:
        return np.arange(size) if not self.candidates else np.resize(self.candidates, size)

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=self.groups * self.cells_per_group).astype(np.int64)

    # The randomizer

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        if np.ndim(value) != 0:
            raise ValueOutOfRange("One user holds one value; use randomize_all for many users.")
        codes = self.encode(np.array([value], None if isinstance(value, int) else object), entropy)
        group, own = divmod(int(codes[0]), self.cells_per_group)
        plus, minus = np.zeros((2, self.groups, self.copies), np.int64)
        plus[group], minus[group] = self.cell_groups[0].randomize(own, entropy)
        present = np.zeros(self.groups, np.int64)
        present[group] = 1
        return self._report(plus, minus, present, entropy)

    def randomize_all(
        self, values: NDArray[Any], entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        codes = self.encode(values, entropy)
        groups, own = np.divmod(codes, self.cells_per_group)
        plus, minus = np.zeros((2, self.groups, self.copies), np.int64)
        for copy in range(self.copies):
            held = self.cell_groups[0].held(own, copy)
            sent = self.cell.randomize_each(held, entropy)
            np.add.at(plus[:, copy], groups, sent[0])
            np.add.at(minus[:, copy], groups, sent[1])
        if progress:
            progress(len(codes))
        return self._report(plus, minus, np.bincount(groups, minlength=self.groups), entropy)

    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        held = tally.reshape(self.groups, self.cells_per_group)
        present = held.sum(axis=1)
        ones = held if self.copies > 1 else held[:, 1:]
        plus, minus = np.zeros((2, self.groups, self.copies), np.int64)
        for users in np.unique(present):  # groups of the same size are drawn together
            same = present == users
            sent = self.cell.aggregate_copies(ones[same].ravel(), int(users), entropy)
            plus[same], minus[same] = (side.reshape(-1, self.copies) for side in sent)
        return self._report(plus, minus, present, entropy)

    def _report(self, plus: Counts, minus: Counts, present: Counts, entropy: Entropy) -> Report:
        """A report of the cells' messages and the roll call."""
        return self.whole_report(int(present.sum()), plus.ravel(), minus.ravel(), present, entropy)

    # Absent users

    def shares_per_group(self, absent: int) -> int:
        """How many users' noise each group gets where so many of all are absent: as many as its
        cells need, if all are."""
        return -(-absent * self.cell.users // self.reports)

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> Report:
        cells, nobody = self.groups * self.copies, np.zeros(self.groups, np.int64)
        sent = self.cell.top_up(self.shares_per_group(absent), cells, entropy)
        return replace(self.whole_report(absent, *sent, nobody, entropy), absent=absent)

    def top_up_reports(self, absent: int) -> int:
        """Of `shares_per_group` users in each group: no more than the users of the protocol."""
        return self.groups * self.shares_per_group(absent)

    # How many messages

    @property
    def bits_per_message(self) -> int:
        """To name a cell or a group's counter, and a sign."""
        return math.ceil(math.log2(2 * self.groups * (self.copies + 1)))

    def messages_per_user(self) -> float:
        return 1 + super().messages_per_user()

    # The analyzer

    def present(self, batch: Report | View) -> Counts:
        """How many reports each group has: the roll call."""
        return batch.plus[self.groups * self.copies :]

    def slack(self, batch: Report | View) -> int:
        """By the smallest group. Calls beyond one per report, which no honest user makes, may all
        have been for this group."""
        present = self.present(batch)
        excess = max(0, int(present.sum()) + batch.absent - batch.users)
        least = int(present.min()) + self.shares_per_group(batch.absent)
        return min(super().slack(batch), least - excess - self.cell.users)

    def check_batch(self, batch: Report | View) -> None:
        super().check_batch(batch)
        slack = self.slack(batch)
        if slack < 0:
            raise ShortGroupError(max(0, self.cell.users + slack), self.cell.users)

    def counts(self, view: View | Report) -> GroupCounts:
        """What a view says about every group."""
        present, k = self.present(view), self.cells_per_group
        shares = present + self.shares_per_group(view.absent)
        sums = (view.plus - view.minus)[: self.groups * self.copies]
        zero, one = self.cell.estimates(np.array([0, 1]), 1)
        held = (one - zero) * sums.reshape(self.groups, self.copies) + zero * shares[:, None]
        centred = held - present[:, None] / k
        return GroupCounts(
            hashes=self.hashes,
            centred=centred if self.copies > 1 else np.hstack((-centred, centred)),
            users=int(present.sum()),
            noise=self._noise(int(shares.sum())),
        )

    def _noise(self, shares: int) -> GroupNoise:
        return GroupNoise(
            of_zero=self.cell.variance_at(1, 0, 0),
            of_one=self.cell.variance_at(1, 1, 1),
            shares=shares,
        )

    def result_of(self, view: View, confidence: float) -> FrequenciesResult:
        """Every candidate's unbiased estimate and its interval; see `GroupCounts`."""
        nothing = np.zeros(0, np.int64)
        counts = self.counts(view)
        return FrequenciesResult(
            labels=(),
            values=np.zeros(0),
            low=nothing,
            high=nothing,
            joint_low=nothing,
            joint_high=nothing,
            counts=counts,
            confidence=confidence,
            rmse=0.0,
            epsilon=self.epsilon,
            users=view.users,
            messages_per_user=self.messages_per_user(),
            seeded=view.seeded,
        ).showing(self.candidates)

    def rmse(self, users: int, spread: Fraction | None = None) -> float:
        """The root mean squared error of a label that nobody holds, if values are spread as evenly
        as over so many labels (over `spread` of the protocol if none is said)."""
        k, even = self.cells_per_group, float(self.spread if spread is None else spread)
        others = users + max(0.0, users * users / even - users) / self.groups
        noise = float(self._noise(users).total(users / k))
        return math.sqrt(others / (k - 1) + (k / (k - 1)) ** 2 * noise)

    @property
    def assumption(self) -> str:
        return f"values spread as evenly as over {show(self.spread)} labels; else it errs more"

    def unlikely(self, batch: Report) -> list[Unlikely]:
        """Looks at the cells, given how many reports each group has, and at the roll call."""
        cells, both = self.groups * self.copies, (batch.plus, batch.minus)
        plus, minus = (side[:cells].reshape(self.groups, self.copies) for side in both)
        present, shares = self.present(batch), self.shares_per_group(batch.absent)
        calls = unlikely_calls(present, batch.minus[cells:], batch.users - batch.absent)
        return calls + unlikely_groups(CellCounts(self.cell, plus, minus, present, shares))

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "epsilon": str(self.epsilon),
            "users": self.reports,
            "groups": self.groups,
            "cells_per_group": self.cells_per_group,
            "cell": self.cell.to_dict(),
            "spread": str(self.spread),
            "hash_seed": self.hash_seed,
            "candidates": list(self.candidates),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            reports=data["users"],
            groups=data["groups"],
            cells_per_group=data["cells_per_group"],
            cell=independent_cell(cell_from_dict(data["cell"])),
            spread=Fraction(data["spread"]),
            hash_seed=data["hash_seed"],
            candidates=tuple(data["candidates"]),
        )
