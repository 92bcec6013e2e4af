"""The cheapest bounded cell that meets an error and a privacy budget (MATH §12).

Floats propose the cuts; the odds follow from them and are rounded up to short decimals. Exact and
ball arithmetic decide twice: `prove` about privacy, and the cell's mean squared error about the
target. Where the last digit of the odds fails, they are raised and proved again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from flint import arb

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.direction import MOST_CUT, Direction
from shuffledp.cells.bounded.proof import prove
from shuffledp.cells.bounded.side import Muting, Side, reach
from shuffledp.cells.target import CellTarget
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.exact import at_precision, ball, counted, fraction_above, round_to, show

DECAY_DIGITS = 12
ODDS_DIGITS = 10
EPSILON_SPLITS = [Fraction(percent, 100) for percent in range(30, 71)]
"""Shares of ε for the way up that are looked at."""
WIDEST_WINDOW = 24  # with cuts of thousands, a few messages more or less are not looked for


def short_decay(epsilon: Fraction, largest: int) -> Fraction:
    """The least short decimal β with D·ln(1/β) ≤ ε: 12 digits, more where β is close to 1.

    Ensures: β ≥ e^(−ε/D), shown in ball arithmetic.
    """
    bound = at_precision(256, lambda: (-ball(epsilon / largest)).exp().upper())
    mantissa, exponent = bound.man_exp()
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    digits = DECAY_DIGITS + max(0, math.ceil(-math.log10(float(epsilon / largest))))
    step = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / step) * step


class Pair:
    """Both directions of a task, in floats."""

    def __init__(self, task: CellTarget) -> None:
        self.task = task
        self.up, self.down = (
            side_of(task.users, task.expected, task.largest, epsilon)
            for epsilon in (task.up, task.down)
        )

    def error(self, up: Muting, down: Muting) -> float:
        """The mean squared error with the worst data."""
        d, u, v = self.task.largest, self.up, self.down
        kept = 1 / (1 + up.odds + down.odds)
        noise = u.variances[up.cut] * (1 - kept * up.odds) + kept * (
            up.odds * u.variances[up.muted_cut] + down.odds * v.variances[down.muted_cut]
        )
        noise += v.variances[down.cut] * (1 - kept * down.odds)
        worst = 0.0
        for x in (0, d):  # the variance is convex in x
            above = x + u.means[up.cut] - u.means[up.muted_cut]
            below = d - x + v.means[down.cut] - v.means[down.muted_cut]
            mean = up.jump - above * up.odds - down.jump + below * down.odds
            square = up.squares - 2 * above * up.jump + above**2 * up.odds
            square += down.squares - 2 * below * down.jump + below**2 * down.odds
            worst = max(worst, noise + kept * square - (kept * mean) ** 2)
        return float(self.task.expected * worst / kept**2)

    def meets(self, up: int, down: int) -> bool:
        """Whether cuts that add up so, in each direction, meet the error."""
        high, low = self.up.best(up), self.down.best(down)
        if high is None or low is None:
            return False
        return self.error(high, low) <= float(self.task.mse) * (1 - 1e-9)

    def candidates(self) -> Iterator[tuple[int, int]]:
        """Totals of both directions, the cheapest first; all meet the error."""
        high, low = self.up.size, self.down.size
        if not self.meets(high, low):
            return
        yield from self._padded() if self.task.padded else self._average()

    def _padded(self) -> Iterator[tuple[int, int]]:
        """By the sum of both totals; near those where both directions err alike."""
        rate = [-math.log(side.decay) for side in (self.up, self.down)]
        last = max(self.up.size * rate[0], self.down.size * rate[1])

        def at(s: float) -> tuple[int, int]:
            return min(int(s / rate[0]), self.up.size), min(int(s / rate[1]), self.down.size)

        low, high = 0.0, last
        while high - low > 0.25 * max(rate):
            middle = (low + high) / 2
            low, high = (low, middle) if self.meets(*at(middle)) else (middle, high)
        middle_up, total = at(high)[0], sum(at(high))
        window = min(3 + int(2 / min(rate)), WIDEST_WINDOW)
        near = sorted(range(-window, window + 1), key=abs)
        fits: dict[int, tuple[int, int]] = {}
        missed = 0
        while missed < 2 and total >= 0:
            splits = ((middle_up + j, total - middle_up - j) for j in near)
            found = next((split for split in splits if self.meets(*split)), None)
            missed = 0 if found else missed + 1
            if found:
                fits[total] = middle_up, _ = found
            total -= 1
        yield from (fits[key] for key in sorted(fits))
        yield from ((u + 1, d + 1) for u, d in list(fits.values())[:1])

    def _average(self) -> Iterator[tuple[int, int]]:
        """By the down total alone: what a user sends on average is that and its value. The up cuts
        may then be long, which costs nothing on average; the shortest that will do are taken."""
        down = least(self.down.size, lambda total: self.meets(self.up.size, total))
        for low in range(down, down + 3):
            yield self._least_up(low), low

    def _least_up(self, down: int) -> int:
        return least(self.up.size, lambda total: self.meets(total, down))


def least(last: int, holds: Callable[[int], bool]) -> int:
    """The least total at which a property holds that, once it holds, keeps holding."""
    low, high = -1, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=16)
def _side_of(users: int, largest: int, decay: float, size: int) -> Side:
    return Side(users, largest, decay, size)


def side_of(users: int, expected: int, largest: int, epsilon: Fraction) -> Side:
    """One direction with this loss, in floats, with cuts as long as can be of use."""
    decay = float(short_decay(epsilon, largest))
    size = reach(users, expected, largest, decay)
    return _side_of(users, largest, decay, min(size, MOST_CUT))


def cheapest_bounded_cell(task: CellTarget) -> BoundedCell:
    """The bounded cell with the fewest messages per user: at most (`padded`) or on average.

    Ensures: `prove(cell, task.up, task.down)` holds, and the mean squared error of `expected`
    users' reports is at most `mse` for any data. Raises `PlanningError` where no cuts reach that.
    """
    pair = Pair(task)
    for totals in pair.candidates():
        cell = settle(pair, *totals)
        if cell is not None:
            return cell
    raise PlanningError(
        f"No bounded cell for {counted(task.users, 'user')} errs by at most "
        f"{math.sqrt(task.mse):.6g} with losses of {show(task.up)} and {show(task.down)}: their "
        f"noise is larger, or takes more than {MOST_CUT:,} messages; allow a larger error or "
        "epsilon."
    )


def settle(pair: Pair, up: int, down: int) -> BoundedCell | None:
    """The proved cell with such totals, or None if its error is too large after rounding."""
    task = pair.task
    high, low = pair.up.best(up), pair.down.best(down)
    assert high is not None and low is not None
    for nudge in (1e-10, 1e-9, 1e-8, 1e-7):
        cell = BoundedCell(
            users=task.users,
            largest=task.largest,
            up=direction_of(task.up, pair.up, high, nudge),
            down=direction_of(task.down, pair.down, low, nudge),
        )
        with contextlib.suppress(CertificateError):
            prove(cell, task.up, task.down)
            return cell if worst_error(cell, task.expected) <= ball(task.mse) else None
    return None


def direction_of(epsilon: Fraction, side: Side, muting: Muting, nudge: float) -> Direction:
    """A direction with short numbers, every rounding towards privacy."""
    first = muting.first_odds * (1 + nudge)
    return Direction(
        epsilon=epsilon,
        decay=short_decay(epsilon, side.largest),
        cut=muting.cut,
        muted_cut=muting.muted_cut,
        odds=tuple(
            round_to(first * side.decay ** (y - 1), ODDS_DIGITS, up=True)
            for y in range(1, side.largest + 1)
        ),
    )


def split_epsilon(epsilon: Fraction, task: CellTarget) -> CellTarget:
    """The task with losses that add up to ε and the fewest messages: for histograms, where a
    change moves one bucket up and another one down."""
    found: list[tuple[float, float, Fraction]] = []
    for share in EPSILON_SPLITS:
        up = epsilon * share
        pair = Pair(replace(task, up=up, down=epsilon - up))
        totals = next(pair.candidates(), None)
        if totals is not None:
            sent = sum(totals) if task.padded else totals[1] + sum(totals) / 10**6
            high, low = pair.up.best(totals[0]), pair.down.best(totals[1])
            assert high is not None and low is not None
            found.append((sent, pair.error(high, low), up))
    if not found:
        raise PlanningError(
            f"No split of epsilon = {show(epsilon)} between up and down errs by at most "
            f"{math.sqrt(task.mse):.6g}; allow a larger error or epsilon."
        )
    up = min(found)[2]
    return replace(task, up=up, down=epsilon - up)


def worst_error(cell: BoundedCell, expected: int) -> arb:
    """The mean squared error of the estimate from so many reports, with the worst data."""
    return at_precision(256, lambda: cell.mean_squared_error(expected))


def worst_error_above(cell: BoundedCell, expected: int) -> Fraction:
    """A fraction just above `worst_error`."""
    return fraction_above(worst_error(cell, expected))
