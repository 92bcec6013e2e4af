"""Whether honest users can have sent the messages of a batch, whatever their values.

Each cell is tested alone, and all cells together: is an estimate below 0, or above what all users
together can have? If cells send −1, their number, which does not depend on the values, is tested,
too. Too much in one cell and too little in another do not cancel out. If every user has a 1 in one
cell of several, these must add up to the number of users. Everything here is computed from the
released report and from public numbers. The outcome is post-processing of ε-DP data, so publishing
it costs nothing. (Holding a batch *because* of it does cost ε if the batch would have been
published otherwise: see `tasks.results`.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffledp.cells.base import Cell, CellGroup, Counts, Floats
from shuffledp.numbers.chernoff import LogMoment, Unlikely, log_sum_tail, log_tails
from shuffledp.numbers.exact import to_float

UP, DOWN = 1, -1


class Deviation(NamedTuple):
    """How far cells deviate from what is expected in one direction, and the laws of these
    deviations."""

    sign: int
    excess: Floats
    """The deviation of each cell; cells of one row have the same law."""
    moment: LogMoment
    """The moments, with a row for each row of cells."""
    spread: float
    """The approximate standard deviation of one cell."""


class CellCounts(NamedTuple):
    """The messages in equal cells, and how many users take part in them."""

    cell: Cell
    plus: Counts
    """A row for cells in which the same users take part."""
    minus: Counts
    reports: Counts
    """Of each row."""
    absent: int
    """Users whose noise was topped up, in each row."""

    @property
    def users(self) -> Counts:
        """How many users' noise each row has."""
        return self.reports + self.absent

    @property
    def spread(self) -> float:
        """The error of a cell in a row of middle size."""
        return self.cell.rmse(max(1, int(np.median(self.users))))

    @property
    def known(self) -> int:
        """What missing users add to an estimate."""
        return self.cell.absent_value * self.absent

    def held(self) -> Floats:
        """The estimate of each cell, for the users who reported."""
        first, share = int(self.users[0]), self.cell.users
        each = float(self.cell.estimates(np.zeros(1, np.int64), share)[0]) / share
        found = self.cell.estimates(self.plus - self.minus, first) - self.known
        return np.asarray(found + each * (self.users - first)[:, None])

    def error_moment(self, theta: Floats, held: Counts, cells: int = 1) -> Floats:
        """ln E[e^(θ·error)] of the sum of `cells` cells of each row, in which the values of the
        users who reported add up to this total: users are independent, so each adds its own
        part."""
        nothing, ones = _moments_of_a_user(self.cell, theta.tobytes())
        logs = np.outer(cells * self.users, nothing)
        return np.asarray(logs + np.outer(cells * self.known + held, ones - nothing))

    def outside(self) -> Iterator[Deviation]:
        """How far estimates are above what the reports can add up to, and below 0.

        Derived: with the true sum t the estimate is t plus an error, and ln E[e^(±θ·estimate)] is
        linear in t (users are independent and, in the worst case, have 0 or D), so its largest
        value over all t is at an end.
        """
        none, most = np.zeros_like(self.reports), self.reports * self.cell.largest
        held = self.held()
        above = held - most[:, None]
        if not self.cell.sends_minus:  # honest users never send a −1
            above = np.where(self.minus > 0, np.maximum(self.minus, above), above)

        def moment(sign: int, end: Counts) -> LogMoment:
            def at(theta: Floats) -> Floats:
                low, high = (
                    self.error_moment(sign * theta, t) + np.outer(t - end, sign * theta)
                    for t in (none, most)
                )
                return np.asarray(np.maximum(low, high))

            return at

        yield Deviation(UP, above, moment(UP, most), self.spread)
        yield Deviation(DOWN, -held, moment(DOWN, none), self.spread)

    def sums_away(self) -> Iterator[Deviation]:
        """How far the cells of a row are from adding up to the number of users who reported.
        Requires: every user has a 1 in one cell of its row and 0 in all others."""
        cells = self.plus.shape[1]
        away = self.held().sum(axis=1, keepdims=True) - self.reports[:, None]
        for sign in (UP, DOWN):

            def at(theta: Floats, sign: int = sign) -> Floats:
                return self.error_moment(sign * theta, self.reports, cells)

            yield Deviation(sign, sign * away, at, self.spread * math.sqrt(cells))

    def minus_away(self) -> Iterator[Deviation]:
        """How far the numbers of −1 are from their mean, if honest users send any."""
        cell, share = self.cell, self.cell.users
        if not cell.sends_minus:
            return
        (sent, spread), (topped_up, _) = cell.minus_law(share, 0), cell.minus_law(0, share)
        away = self.minus - (sent * self.reports + topped_up * self.absent)[:, None] / share
        for sign in (UP, DOWN):

            def at(theta: Floats, sign: int = sign) -> Floats:
                reported = cell.minus_moment(sign * theta, share, 0) / share
                added = cell.minus_moment(sign * theta, 0, share) / share
                return np.asarray(np.outer(self.reports, reported) + self.absent * added)

            typical = spread * math.sqrt(max(1, int(np.median(self.users))) / share)
            yield Deviation(sign, sign * away, at, typical)


@lru_cache(maxsize=64)
def _moments_of_a_user(cell: Cell, theta: bytes) -> tuple[Floats, Floats]:
    """What a user who holds 0 adds to ln E[e^(θ·error)], and one who holds 1. Remembered, because
    most tests of a batch, and of the next batches of its task, look at the same θ."""
    at, share = np.frombuffer(theta), cell.users
    return cell.log_moment(at, share, 0) / share, cell.log_moment(at, share, share) / share


def unlikely_counts(
    parts: Iterable[CellCounts], *, add_up: bool = False, independent: bool = True
) -> list[Unlikely]:
    """All tests of the cells of a batch, in both directions: of each cell alone and, if their
    messages are independent, of all together. Requires: with `add_up`, every user has a 1 in one
    cell of its row and 0 in all others."""
    parts = [part for part in parts if part.plus.size]
    found: list[Unlikely] = []
    for looks, cut in (
        ([one for part in parts for one in part.outside()], True),
        ([one for part in parts for one in part.minus_away()], False),
        ([one for part in parts if add_up for one in part.sums_away()], False),
    ):
        found += [alone(one) for one in looks]
        for sign in (UP, DOWN) if independent else ():
            same = [one for one in looks if one.sign == sign]
            if sum(one.excess.size for one in same) > 1:
                found.append(together(sign, same, cut=cut))
    return found


def unlikely_total(
    group: CellGroup, sent: int, users: int, fewest: int, most: int
) -> list[Unlikely]:
    """How unlikely it is that the counters of a group, which depend on each other, get `sent`
    messages in total from `users` users, `fewest` to `most` of whom have a value. Requires: the
    group has the moments of that number, which more values only raise."""
    cell = group.members[0].cell
    held = to_float(group.messages_per_user)
    empty = held - to_float(lambda: cell.messages_per_user() - cell.messages_per_user(0))
    found = []
    for sign, holders in ((UP, most), (DOWN, fewest)):

        def at(theta: Floats, sign: int = sign, holders: int = holders) -> Floats:
            logs = group.log_total_moment(sign * theta, users, holders)
            assert logs is not None
            return np.asarray(logs)[None, :]

        away = np.array([[sign * (sent - users * empty - holders * (held - empty))]])
        found.append(alone(Deviation(sign, away, at, math.sqrt(users))))
    return found


def alone(one: Deviation) -> Unlikely:
    """The most unlikely of some cells, with the level divided among them."""
    chances = log_tails(one.excess.max(axis=1), one.moment, one.spread)
    return Unlikely(one.sign, float(chances.min()) + math.log(one.excess.size))


def together(sign: int, looks: list[Deviation], *, cut: bool) -> Unlikely:
    """The sum over all cells; with `cut`, only of what is outside the range."""
    total = sum(float((np.maximum(one.excess, 0) if cut else one.excess).sum()) for one in looks)
    moments = [(one.excess.shape[1], one.moment) for one in looks]
    spread = min(one.spread for one in looks)
    if not cut:  # cut parts have a mean above 0, so it grows with their number
        spread *= math.sqrt(sum(one.excess.size for one in looks))
    return Unlikely(sign, log_sum_tail(total, moments, spread, cut=cut))
