"""Reports, which are secret, and views, which are public; `release` turns one into the other.

A `Report` contains what one user, or many together, send. Reports can be added anywhere. Only
`release` turns a report into a `View`, and it refuses a batch that is too small (MATH §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import InputError, ShortBatchError
from shuffledp.numbers.arrangement import arrange, permutation
from shuffledp.numbers.entropy import SYSTEM, Entropy

Counts = NDArray[np.int64]
Messages = NDArray[np.int64]
"""One row per message: the cell's number, and the sign +1 or −1."""

ENCRYPTED_MESSAGE_BYTES = 52
"""An encrypted message: 32 bytes of key, 4 of content, 16 of tag (`tasks.wire`)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Report:
    """What users send to the shuffler, per cell. Secret: it prints no counts."""

    users: int
    plus: Counts = field(repr=False)
    minus: Counts = field(repr=False)
    seeded: bool = False
    absent: int = 0
    """How many of the users are missing users whose noise was added (`Protocol.top_up`)."""

    def __add__(self, other: Report) -> Report:
        if self.plus.shape != other.plus.shape:
            raise InputError("Reports of different protocols cannot be added.")
        return Report(
            users=self.users + other.users,
            plus=self.plus + other.plus,
            minus=self.minus + other.minus,
            seeded=self.seeded or other.seeded,
            absent=self.absent + other.absent,
        )

    def __radd__(self, other: int) -> Report:
        """The report itself, because `sum(reports)` starts at 0."""
        return self if other == 0 else NotImplemented

    def messages(self) -> Messages:
        """Every single message, one row each: (cell, ±1), in the order of the cells."""
        cells = np.arange(self.plus.size)
        numbers = np.repeat(np.concatenate([cells, cells]), np.concatenate([self.plus, self.minus]))
        signs = np.repeat([1, -1], [int(self.plus.sum()), int(self.minus.sum())])
        return np.stack([numbers, signs], axis=1)

    def signs(self) -> NDArray[np.int8]:
        """Every single message of a one-cell protocol as +1 or −1: the paper's one bit."""
        if self.plus.size != 1:
            raise InputError("Only a protocol of one cell sends bare signs; use messages().")
        return np.repeat(np.array([1, -1], np.int8), [self.plus[0], self.minus[0]])


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """What the analyzer sees: how many +1 and −1 arrived for each cell. Public."""

    users: int
    plus: Counts
    minus: Counts
    seeded: bool = False
    absent: int = 0

    def arranged(self, cell: int = 0, entropy: Entropy = SYSTEM) -> NDArray[np.int8]:
        """A cell's messages in uniformly random order, as the paper's shuffler emits them."""
        return arrange(int(self.plus[cell]), int(self.minus[cell]), entropy)


@overload
def shuffle(items: Iterable[Report], entropy: Entropy = SYSTEM) -> Report: ...
@overload
def shuffle(items: Iterable[NDArray[Any]], entropy: Entropy = SYSTEM) -> NDArray[Any]: ...
def shuffle(items: Iterable[Any], entropy: Entropy = SYSTEM) -> Any:
    """All users' reports mixed together.

    Reports are added, because after mixing only the counts matter. Explicit messages
    (`Report.signs` or `Report.messages`) are returned in a uniformly random order, drawn with
    cryptographic bits.
    """
    things = list(items)
    if not things:
        raise InputError("There is nothing to shuffle; collect at least one report.")
    if all(isinstance(thing, Report) for thing in things):
        return sum(things[1:], start=things[0])
    together = np.concatenate(things)
    return together[permutation(len(together), entropy)]


def release(batch: Report, users: int) -> View:
    """The public view of a secret batch.

    Requires: `users` as planned. Ensures: raises `ShortBatchError` and releases nothing unless at
    least `users` users are in the batch.
    """
    if not isinstance(batch, Report):
        raise InputError("Only a report can be released: the sum of the users' reports.")
    if batch.users < users:
        raise ShortBatchError(batch.users, users)
    return View(
        users=batch.users,
        plus=batch.plus.copy(),
        minus=batch.minus.copy(),
        seeded=batch.seeded,
        absent=batch.absent,
    )


def count_messages(messages: NDArray[np.integer], users: int, cells: int = 1) -> Report:
    """The report that consists of these messages, in any order."""
    numbers, signs = (
        (np.zeros(len(messages), np.int64), messages) if messages.ndim == 1 else messages.T
    )
    plus, minus = (np.bincount(numbers[signs == sign], minlength=cells) for sign in (1, -1))
    return Report(users=users, plus=plus.astype(np.int64), minus=minus.astype(np.int64))
