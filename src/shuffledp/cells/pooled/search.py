"""The cheapest pooled cell for a histogram: for an error, or for a number of messages.

docs/mathematics.md §22. Floats propose how ε is split, the cuts downwards (z, w) and the cut
upwards (Z); the odds follow from them and are rounded up to short decimals, and κ is the least that
is allowed, β upwards. Exact and ball arithmetic decide twice: `prove` about privacy, and the cell's
mean squared error about the target.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.cells.base import Floats
from shuffledp.cells.bounded.cell import MOST_CUT, Direction
from shuffledp.cells.bounded.search import (
    NUDGES,
    ODDS_DIGITS,
    Muting,
    Side,
    direction_of,
    reach,
    short_decay,
    side_of,
    worst_error_above,
)
from shuffledp.cells.pooled.cell import (
    LARGEST_URN,
    MOST_POOLED_BUCKETS,
    PooledBuckets,
    PooledCell,
)
from shuffledp.cells.pooled.proof import prove
from shuffledp.cells.search import CellTarget, FoundCells, counted_messages
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import counted, round_to, show

SPLITS = [Fraction(percent, 100) for percent in range(20, 61)]
"""The shares of ε that are tried for the way up."""
MORE_NOISE = 6
"""If noise upwards is not rare, the cut is this many times its mean longer."""
SAME_ERROR = 1.0001
"""A shorter cut upwards is taken if the squared error is at most this many times the least."""
TRIED = 8
"""How many proposals are proved at most, the best first, until one succeeds."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Cuts that meet the error, in floats."""

    split: Split
    cut: int
    """Z."""
    muting: Muting
    """z and w, and the odds downwards."""
    mse: float

    def most_messages(self) -> int:
        """The most messages in a report."""
        return self.split.buckets * self.muting.total + 2 * self.cut + 1


class Split:
    """A split of ε: the noise upwards for every cut, and the noise downwards."""

    def __init__(self, task: CellTarget, buckets: int, up: Fraction, down: Fraction) -> None:
        self.task, self.buckets, self.up, self.down = task, buckets, up, down
        self.ratio = short_decay(up, 1)  # β upwards, and κ
        beta = float(self.ratio)
        self.side: Side = side_of(task.users, task.expected, 1, down, self.ratio)
        size = reach(task.users, task.expected * buckets, 1, beta)
        more = MORE_NOISE * buckets / (task.users * -math.log(beta))
        self.size = min(size + int(more), MOST_CUT, (LARGEST_URN - buckets) // task.users)
        self._noise(beta)

    def _noise(self, beta: float) -> None:
        """For every cut Z: the moments of t, and the least odds R of dropping a label."""
        m, t = self.task.users, np.arange(self.size + 2, dtype=float)
        shape = self.buckets / m
        logs = np.concatenate([[0.0], np.cumsum(np.log(beta * (shape + t[:-1]) / t[1:]))])
        top = float(logs.max())
        masses = np.exp(logs - top)
        kept = np.cumsum(masses)
        some = kept > 0  # else a float is too coarse: nearly all mass is at the cut itself
        kept = np.where(some, kept, 1.0)
        self.mean = np.where(some, np.cumsum(masses * t) / kept, t)
        self.pairs = np.where(some, np.cumsum(masses * t * (t - 1)) / kept, t * (t - 1))
        spare = -math.expm1(math.log(beta) + math.log(self.side.decay))
        with np.errstate(over="ignore"):
            self.odds: Floats = np.exp(logs[1:]) * (m * self.side.decay / spare)

    def error(self, cut: int, muting: Muting) -> float:
        """The mean squared error of a bucket with the worst data."""
        m, b = self.task.users, self.buckets
        part, pair = 1 / b, (1 + m) / (b * (b + m))
        noise = self.mean[cut] * part
        spread = self.pairs[cut] * pair + noise - noise**2
        dealt = (cut + 1) * part
        dealt_spread = (cut + 1) * cut * pair + dealt - dealt**2
        dropped = 1 - 1 / (1 + self.odds[cut])
        (none, none_spread), (one, one_spread) = (self._way_down(muting, x) for x in (0, 1))
        found, means = [], []
        for kept, kept_spread in ((none, none_spread), (one, one_spread)):
            lost = none + dealt - kept
            within = kept_spread + dropped * (none_spread + dealt_spread - kept_spread)
            found.append(spread + within + dropped * (1 - dropped) * lost**2)
            means.append(kept + dropped * lost)
        scale = means[1] - means[0]
        return float(self.task.expected * max(found) / scale**2) if scale > 0 else math.inf

    def _way_down(self, muting: Muting, value: int) -> tuple[float, float]:
        """The mean and the variance of what a bucket sends after its way down."""
        side, z, w = self.side, muting.cut, muting.muted_cut
        odds = muting.odds if value else muting.odds * float(self.ratio)
        jumps = odds / (1 + odds)
        gap = z + value - float(side.means[z]) + float(side.means[w])
        spread = (1 - jumps) * float(side.variances[z]) + jumps * float(side.variances[w])
        mean = value - float(side.means[z]) - jumps * gap
        return mean, spread + jumps * (1 - jumps) * gap**2

    def cuts(self, total: int, limit: float, most: int | None = None) -> Proposal | None:
        """The least Z, up to `most`, with which cuts downwards that add up to `total` meet the
        error."""
        muting, last = self.side.best(total), self.size if most is None else most
        if muting is None or self.error(last, muting) > limit:
            return None
        cut = first_whole(lambda z: self.error(z, muting) <= limit, -1, last)
        return Proposal(split=self, cut=cut, muting=muting, mse=self.error(cut, muting))

    def proposals(self, limit: float, padded: bool) -> Iterator[Proposal]:
        """The proposals that may cost least, starting with the shortest cuts downwards."""
        if self.cuts(self.side.size, limit) is None:
            return
        total = first_whole(lambda one: self.cuts(one, limit) is not None, -1, self.side.size)
        best = math.inf
        while total <= self.side.size:
            found = self.cuts(total, limit)
            if found is not None:
                yield found
                best = min(best, found.most_messages())
            total += 1
            if not padded or self.buckets * total >= best:
                return

    def within(self, messages: float, padded: bool) -> Iterator[Proposal]:
        """Those of least error with a number of messages, for all cuts downwards."""
        for total in range(min(int(messages / self.buckets), self.side.size) + 1):
            muting = self.side.best(total)
            cut = int((messages - self.buckets * total - 1) / 2) if padded else self.size
            if muting is None or cut < 0:
                continue
            most = min(cut, self.size)
            limit = SAME_ERROR * self.error(most, muting)
            if math.isfinite(limit):
                found = self.cuts(total, limit, most)
                assert found is not None
                yield found

    def cell(self, found: Proposal, nudge: float) -> PooledCell:
        """The cell with short numbers, every rounding towards privacy."""
        odds = round_to(float(self.odds[found.cut]) * (1 + nudge), ODDS_DIGITS, up=True)
        up = Direction(
            epsilon=self.up, decay=self.ratio, cut=found.cut, muted_cut=found.cut, odds=(odds,)
        )
        down = direction_of(self.down, 1, found.muting, nudge, self.ratio)
        return PooledCell(users=self.task.users, buckets=self.buckets, up=up, down=down)


def search_buckets(
    epsilon: Fraction,
    task: CellTarget,
    messages: float | None,
    buckets: int,
    found: FoundCells | None = None,
) -> FoundCells:
    """A pooled cell for all buckets; a replacement moves one up and one down, at ε in total."""
    if not 2 <= buckets <= MOST_POOLED_BUCKETS:
        raise PlanningError("A pooled cell is for two buckets or more.")
    splits = [Split(task, buckets, epsilon * share, epsilon * (1 - share)) for share in SPLITS]
    if messages is not None:
        best = least_error_cell(splits, messages)
        return FoundCells(
            cells=(best,), mse=worst_error_above(best, task.expected), cost=cost(best, task)
        )
    cell = cheapest_cell(splits)
    if cell is None:
        raise PlanningError(
            f"No pooled cell for {counted(task.users, 'user')} has an RMSE of at most "
            f"{math.sqrt(task.mse):.6g} with epsilon = {show(epsilon)}: its noise is larger, or "
            f"takes more than {MOST_CUT:,} messages; allow a larger error or epsilon."
        )
    return FoundCells(cells=(cell,), mse=task.mse, cost=cost(cell, task))


def cost(cell: PooledCell, task: CellTarget) -> float:
    """The cost as the target counts it: messages of a padded report, or of a user on average."""
    return counted_messages([PooledBuckets(cell=cell)], task.users, bool(task.padded))


def cheapest_cell(splits: list[Split]) -> PooledCell | None:
    """The pooled cell with the shortest report, or with the fewest messages on average."""
    task = splits[0].task
    limit, padded = float(task.mse) * (1 - 1e-9), bool(task.padded)

    def rank(one: Proposal) -> tuple[float, ...]:
        most = one.most_messages()
        return (most, one.mse) if padded else (one.muting.total, most, one.mse)

    found = [one for split in splits for one in split.proposals(limit, padded)]
    for proposal in sorted(found, key=rank)[:TRIED]:
        cell = settle(proposal)
        if cell is not None and worst_error_above(cell, task.expected) <= task.mse:
            return cell
    return None


def least_error_cell(splits: list[Split], messages: float) -> PooledCell:
    """The pooled cell with the least error within a number of messages."""
    task = splits[0].task
    found = [one for split in splits for one in split.within(messages, bool(task.padded))]
    for proposal in sorted(found, key=lambda one: one.mse)[:TRIED]:
        cell = settle(proposal)
        if cell is not None and cost(cell, task) <= messages:
            return cell
    raise PlanningError("No plan uses so few messages; allow more messages.")


def settle(found: Proposal) -> PooledCell | None:
    """The proved cell of a proposal."""
    for nudge in NUDGES:
        cell = found.split.cell(found, nudge)
        with contextlib.suppress(CertificateError):
            prove(cell, found.split.up, found.split.down)
            return cell
    return None
