"""Whether honest users can have sent the messages of a batch, whatever their values.

Each cell is looked at alone, and all of them together: an estimate below 0 or above what everybody
together can hold, and, of cells that send −1, their number, which does not depend on the values.
What is too much in one cell and too little in another does not cancel out.

Everything here is computed from the report that is released and from public numbers. So the outcome
is post-processing of what is ε-DP anyway, and telling it costs nothing. (Holding a batch *because*
of it does cost ε where the batch would have been published otherwise: see `queries.batches`.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from shuffledp.accuracy.chernoff import LogMoment, Unlikely, log_sum_tail, log_tails
from shuffledp.cells.base import Cell, Counts, Floats

UP, DOWN = 1, -1


class Deviation(NamedTuple):
    """How far equal cells lie from what is expected in one direction, and the law of that."""

    sign: int
    excess: Floats
    """Of each cell."""
    moment: LogMoment
    spread: float


class CellCounts(NamedTuple):
    """The messages in some equal cells."""

    cell: Cell
    plus: Counts
    minus: Counts

    def outside(self, reports: int, absent: int) -> Iterator[Deviation]:
        """How far estimates lie above what so many reports can hold, and below 0.

        Derived: with the true sum t the estimate is t plus an error, and ln E[e^(±θ·estimate)] is
        linear in t (users are independent, and hold 0 or D at worst), so that its largest value
        over all t is at an end.
        """
        cell, users = self.cell, reports + absent
        known = float(cell.absent_value * absent)
        most = float(reports * cell.largest)
        estimates = cell.estimates(self.plus - self.minus, users) - known
        above = estimates - most
        if not cell.sends_minus:  # nobody honest sends a −1
            above = np.where(self.minus > 0, np.maximum(self.minus, above), above)

        def moment(sign: int, end: float) -> LogMoment:
            def at(theta: Floats) -> Floats:
                low, high = (
                    cell.log_moment(sign * theta, users, known + t) + sign * theta * (t - end)
                    for t in (0.0, most)
                )
                return np.asarray(np.maximum(low, high))

            return at

        spread = cell.rmse(users)
        yield Deviation(UP, above, moment(UP, most), spread)
        yield Deviation(DOWN, -estimates, moment(DOWN, 0.0), spread)

    def minus_away(self, reports: int, absent: int) -> Iterator[Deviation]:
        """How far the numbers of −1 lie from their mean, where honest users send any."""
        cell = self.cell
        if cell.sends_minus:
            mean, spread = cell.minus_law(reports, absent)
            for sign in (UP, DOWN):

                def at(theta: Floats, sign: int = sign) -> Floats:
                    return cell.minus_moment(sign * theta, reports, absent)

                away = np.asarray(sign * (self.minus - mean), np.float64)
                yield Deviation(sign, away, at, spread)


def unlikely_counts(parts: Iterable[CellCounts], reports: int, absent: int) -> list[Unlikely]:
    """All looks at the cells of a batch: at each alone and at all together, in both directions."""
    parts = [part for part in parts if len(part.plus)]
    found: list[Unlikely] = []
    for looks, cut in (
        ([one for part in parts for one in part.outside(reports, absent)], True),
        ([one for part in parts for one in part.minus_away(reports, absent)], False),
    ):
        found += [alone(one) for one in looks]
        if any(part.cell.draws_together for part in parts):
            continue  # these are not independent: what is known of their sum is too little
        for sign in (UP, DOWN):
            same = [one for one in looks if one.sign == sign]
            if sum(len(one.excess) for one in same) > 1:
                found.append(together(sign, same, cut=cut))
    return found


def alone(one: Deviation) -> Unlikely:
    """The most unlikely of equal cells; the level is shared among them."""
    chances = log_tails(one.excess, one.moment, one.spread)
    return Unlikely(one.sign, float(chances.min()) + math.log(len(chances)))


def together(sign: int, looks: list[Deviation], *, cut: bool) -> Unlikely:
    """The sum over all cells; with `cut`, of what lies outside alone."""
    total = sum(float((np.maximum(one.excess, 0) if cut else one.excess).sum()) for one in looks)
    moments = [(len(one.excess), one.moment) for one in looks]
    spread = min(one.spread for one in looks)
    return Unlikely(sign, log_sum_tail(total, moments, spread, cut=cut))
