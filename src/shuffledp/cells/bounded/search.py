"""The cheapest bounded cell for a target: for an error, or for a number of messages.

MATH §12 and §21. Floats propose the cuts (`Side`, `Pair`); the odds follow from them and are
rounded up to short decimals. For values 0 and 1 each direction's κ is the least that is allowed,
the other direction's β; if the two directions would then mute users of the two values unequally
often, the κ of one of them is raised until they are equal (`Pair.balanced`). Exact and ball
arithmetic decide twice: `prove` about privacy, and the cell's mean squared error about the target.
If the odds fail in their last digit, they are raised and proved again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from shuffledp.cells.base import Copies
from shuffledp.cells.bounded.cell import MOST_CUT, BoundedCell, CutCell, Direction
from shuffledp.cells.bounded.proof import prove
from shuffledp.cells.search import KEPT_SEARCHES, CellTarget, FoundCells, counted_messages
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.bisection import bisect, bisect_found, first_whole
from shuffledp.numbers.exact import (
    as_fraction,
    at_precision,
    ball,
    counted,
    fraction_above,
    round_to,
    show,
)
from shuffledp.numbers.lattice import Floats

MOST_KEPT = 500_000  # floats stored for each direction


@dataclass(frozen=True, kw_only=True)
class Muting:
    """A direction's muting at two cuts, with the least odds that the proof allows."""

    cut: int
    muted_cut: int
    first_odds: float
    """o_1; each later one is β times the one before."""
    odds: float
    """Their sum."""
    jump: float
    """Σ o_y·(z+y)."""
    squares: float
    """Σ o_y·(z+y)²."""
    lost: float
    """1 − κ, without cancellation: the odds of users whose value cannot change in this direction
    are κ times as large."""

    @property
    def ratio(self) -> float:
        """κ."""
        return 1 - self.lost

    @property
    def lost_odds(self) -> float:
        """(1 − κ)·o_1."""
        return self.lost * self.odds

    def times(self, factor: float) -> Muting:
        """The same with all odds multiplied by a factor."""
        return replace(
            self,
            first_odds=self.first_odds * factor,
            odds=self.odds * factor,
            jump=self.jump * factor,
            squares=self.squares * factor,
        )

    @property
    def total(self) -> int:
        """What the direction adds to the largest number of messages."""
        return self.cut + self.muted_cut


class Side:
    """One direction: its noise, and the muting for every pair of cuts up to `size`."""

    def __init__(
        self, users: int, largest: int, decay: float, size: int, ratio: float = 1.0
    ) -> None:
        self.users, self.largest, self.decay, self.size = users, largest, decay, size
        self.ratio = ratio  # κ, at least
        self.r = 1 / users
        self.first = (users - 2) / users  # s₀
        self.places = np.arange(size + 2, dtype=float)
        steps = self.places[1:]
        self.rho = np.concatenate([[1.0], np.cumprod(1 + self.r / steps)])
        self.powers = decay**self.places
        shares = self.r * self.powers[1:] * self.rho[:-1]  # j·c_j
        self.sums = np.concatenate([[1.0], 1 + np.cumsum(shares / steps)])  # C_k
        self.means = np.concatenate([[0.0], np.cumsum(shares)]) / self.sums
        seconds = np.concatenate([[0.0], np.cumsum(shares * steps)]) / self.sums
        self.variances = seconds - self.means**2
        ratios = (self.first + self.places[:-1]) / steps
        self.most = np.concatenate([[1.0], np.cumprod(ratios)])  # N_n
        self.fade = float(decay**largest)
        jumps = np.arange(1, largest + 1)
        self.weights = decay ** (jumps - 1.0)
        self.moments = [float((self.weights * jumps**k).sum()) for k in range(3)]
        self.harmonic = float((1 / jumps).sum())
        self._near: dict[int, Floats] = {}
        self._muting: dict[tuple[int, int], Muting | None] = {}
        self._best: dict[int, Muting | None] = {}
        self._latest: tuple[tuple[int, int], tuple[Floats, Floats, float]]
        self._latest = (-1, -1), (self.places, self.places, 1.0)

    def near(self, w: int) -> Floats:
        """e(I) for I = w+1 .. size: what the muted users' cut asks for at I, up to the cut z."""
        if w not in self._near:
            most, n = self.most, self.places
            sums = np.concatenate([[0.0], np.cumsum(most / (n + w + 1))])
            tail = self.first * self.rho[w] / (most[1:] * n[1:])
            tail[:w] = 0
            left = np.concatenate([[1.0], 1 - np.cumsum(tail)])
            covered = np.cumsum(most * np.maximum(left, 0))  # U_{I}, at place I − 1
            place = n[w + 1 : self.size + 1]
            count = np.arange(1, len(place) + 1)
            window = sums[count] - sums[np.maximum(count - self.largest, 0)]
            while len(self._near) * self.size > MOST_KEPT:
                self._near.pop(next(iter(self._near)))
            self._near[w] = place * window / covered[w : self.size]
        return self._near[w]

    def spare(self, ratio: float) -> float:
        """A."""
        return -math.expm1(self.largest * math.log(self.decay) + math.log(ratio))

    def share(self, z: int, w: int, ratio: float) -> float:
        """The largest φ that the per-index rule allows; at most 0 where it allows none."""
        d = self.largest
        if self.users < 3 or w < d - 1 or z < w + d or z > self.size:
            return 0.0
        if self._latest[0] != (z, w):  # usually called again with another κ
            self._latest = (z, w), self._rule(z, w)
        claims, places, past = self._latest[1]
        spared = claims / self.spare(ratio)
        here = float(((1 - spared) * places).min())
        swapped = float(((1 - self.fade * spared) * (places - d)).min())
        return min(1.0, here / (z + 1), swapped / (z + 1)) / past

    def _rule(self, z: int, w: int) -> tuple[Floats, Floats, float]:
        """The per-index rule without A, by which the first part is to be divided."""
        d = self.largest
        steps = np.arange(1, d + 1)
        gaps = z - w + 1 - steps
        past = float(self.rho[w] * (z / ((z + 1 - steps) * gaps)).sum())
        kappa = self.r * float(self.rho[max(z - w - 2, 0)]) * self.harmonic * (w + d + 1) / (w + 2)
        claims = np.empty(z - w + 1)
        claims[:-1] = self.near(w)[: z - w]
        claims[-1] = ((z + 1) / ((z + 2 - steps) * gaps)).sum()
        claims += kappa
        claims *= self.rho[w]
        return claims, z + 1 + self.places[w + 1 : z + 2], 1 + self.r * past

    def muting(self, z: int, w: int) -> Muting | None:
        """The muting that the cuts need, or None if no rule covers them."""
        if (z, w) not in self._muting:
            self._muting[z, w] = self.muting_with(z, w, 1 - self.ratio)
        return self._muting[z, w]

    def muting_with(self, z: int, w: int, lost: float) -> Muting | None:
        """The same with another κ, of which 1 − κ is given."""
        share = self.share(z, w, 1 - lost) if z > w else float(z <= self.size)
        return self._with_share(z, w, share, lost) if share > 1e-9 else None

    def _with_share(self, z: int, w: int, share: float, lost: float) -> Muting:
        # users·c_{z+1}·(C_w/C_z)·β^(1−D−1)/(φ(β^(−D)−κ)) with users·c_{z+1} = β^(z+1)·ρ_z/(z+1)
        first = float(self.powers[z + 1] * self.rho[z] / (z + 1))
        first *= float(self.sums[w] / self.sums[z]) / (share * self.spare(1 - lost))
        m0, m1, m2 = (first * moment for moment in self.moments)
        return Muting(
            cut=z,
            muted_cut=w,
            first_odds=first,
            odds=m0,
            jump=z * m0 + m1,
            squares=z * z * m0 + 2 * z * m1 + m2,
            lost=lost,
        )

    def best(self, total: int) -> Muting | None:
        """The least muting with cuts that add up to `total` (or 1 less, where no rule fits)."""
        if total < 0:
            return None
        if total not in self._best:
            self._best[total] = self._search(total) or (self.best(total - 1) if total % 2 else None)
        return self._best[total]

    def _search(self, total: int) -> Muting | None:
        def cost(w: int) -> float:
            muting = self.muting(total - w, w)
            return math.inf if muting is None else muting.squares

        lowest, highest = self.largest - 1, (total - self.largest) // 2
        found = [total // 2] if total % 2 == 0 else []  # equal cuts: rule A
        if highest >= lowest:
            # the muting falls and then rises with w; where it is infinite w is too small
            start, step = self._near_best(total)
            w, stride = min(max(start, lowest), highest), 1
            while math.isinf(cost(w)) and w < highest:
                w, stride = min(w + stride, highest), 2 * stride
            step = max(step, stride // 2)
            while step:
                moved = [v for v in (w - step, w + step) if lowest <= v <= highest]
                nearest = min(moved, key=cost, default=w)
                if cost(nearest) < cost(w):
                    w = nearest
                else:
                    step //= 2
            found.append(w)
        found = [w for w in found if math.isfinite(cost(w))]
        return self.muting(total - (w := min(found, key=cost)), w) if found else None

    def _near_best(self, total: int) -> tuple[int, int]:
        """A muted cut to start from, and how far away the best one may be; totals hardly change
        it."""
        known = [best for best in self._best.values() if best and best.cut > best.muted_cut]
        if not known:
            w = int(2 * self.largest / self.spare(1.0))
            return w, max(1, w // 4)
        w = min(known, key=lambda best: abs(best.total - total)).muted_cut
        return w, max(1, w // 32)


def reach(users: int, expected: int, largest: int, decay: float) -> int:
    """A cut beyond which muting no longer matters for any error."""
    fall = -math.log(decay)
    weight = math.log(expected + 2.0) + 4 * math.log(2 + largest + 1 / fall)
    return int(weight / fall) + 4 * largest + 16


DECAY_DIGITS = 12
ODDS_DIGITS = 10
EPSILON_SPLITS = [Fraction(percent, 100) for percent in range(30, 71)]
"""The shares of ε that are tried for the way up."""
NUDGES = (1e-10, 1e-9, 1e-8, 1e-7)
"""By how much odds are raised, one after the other, until they are proved."""
SMALLEST = 1e-300  # what a float is divided by
LEVEL = 1e-5  # how far (1 − κ)·o of two directions may differ; the lesser odds are then raised
NEAR_ALIKE = 4  # totals tried on each side of where both directions mute equally
WIDEST_WINDOW = 24  # with cuts of thousands, a few messages do not matter


def short_decay(epsilon: Fraction, largest: int) -> Fraction:
    """The least short decimal β with D·ln(1/β) ≤ ε: 12 digits, more where β is close to 1.

    Ensures: β ≥ e^(−ε/D), shown in ball arithmetic.
    """
    value = as_fraction(at_precision(256, lambda: (-ball(epsilon / largest)).exp().upper()))
    digits = DECAY_DIGITS + max(0, math.ceil(-math.log10(float(epsilon / largest))))
    step = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / step) * step


class Pair:
    """Both directions of a task, in floats."""

    def __init__(self, task: CellTarget) -> None:
        self.task = task
        self.ratios = tuple(least_ratio(task.largest, other) for other in (task.down, task.up))
        self.up, self.down = (
            side_of(task.users, task.expected, task.largest, epsilon, ratio)
            for epsilon, ratio in zip((task.up, task.down), self.ratios, strict=True)
        )
        self._balanced: dict[tuple[int, int, int, int], tuple[Muting, Muting]] = {}

    def balanced(self, up: Muting, down: Muting) -> tuple[Muting, Muting]:
        """The same cuts with equal (1 − κ)·o in both directions."""
        cuts = (up.cut, up.muted_cut, down.cut, down.muted_cut)
        if cuts not in self._balanced:
            if up.lost_odds > down.lost_odds:
                self._balanced[cuts] = self._level(self.up, up, down)
            else:
                self._balanced[cuts] = self._level(self.down, down, up)[::-1]
        return self._balanced[cuts]

    def _level(self, side: Side, more: Muting, less: Muting) -> tuple[Muting, Muting]:
        """Raises the κ of the direction whose (1 − κ)·o is larger; if no rule allows that, raises
        the odds of the other direction."""
        wanted = less.lost_odds
        found = more
        while found.lost_odds > wanted * (1 + LEVEL):  # decreases to the wanted (1 − κ)·o(κ)
            again = side.muting_with(more.cut, more.muted_cut, wanted / found.odds)
            if again is None:
                return more, less.times(more.lost_odds / max(wanted, SMALLEST))
            found = again
        return found, less

    def error(self, up: Muting, down: Muting) -> float:
        """The mean squared error with the worst data."""
        up, down = self.balanced(up, down)
        d, u, v = self.task.largest, self.up, self.down
        worst, moved = 0.0, []
        for x in (0, d):  # the variance is convex in x
            rise = up if x == 0 else up.times(up.ratio)
            fall = down if x == d else down.times(down.ratio)
            kept = 1 / (1 + rise.odds + fall.odds)
            noise = u.variances[up.cut] * (1 - kept * rise.odds)
            noise += v.variances[down.cut] * (1 - kept * fall.odds)
            noise += kept * rise.odds * u.variances[up.muted_cut]
            noise += kept * fall.odds * v.variances[down.muted_cut]
            above = x + u.means[up.cut] - u.means[up.muted_cut]
            below = d - x + v.means[down.cut] - v.means[down.muted_cut]
            mean = rise.jump - above * rise.odds - fall.jump + below * fall.odds
            square = rise.squares - 2 * above * rise.jump + above**2 * rise.odds
            square += fall.squares - 2 * below * fall.jump + below**2 * fall.odds
            worst = max(worst, noise + kept * square - (kept * mean) ** 2)
            moved.append(kept * mean)
        scale = 1 + (moved[1] - moved[0]) / d
        return float(self.task.expected * worst / scale**2) if scale > 0 else math.inf

    def directions(self, high: Muting, low: Muting, nudge: float) -> dict[str, Direction]:
        """Both directions with short numbers, every rounding towards privacy."""
        d, losses = self.task.largest, (self.task.up, self.task.down)
        up, down = (
            direction_of(loss, d, muting, nudge, ratio)
            for loss, muting, ratio in zip(losses, (high, low), self.ratios, strict=True)
        )
        if up.lost_odds > down.lost_odds:
            down = leveled(down, up)
        elif up.lost_odds < down.lost_odds:
            up = leveled(up, down)
        return {"up": up, "down": down}

    def meets(self, up: int, down: int) -> bool:
        """Whether cuts that add up so, in each direction, meet the error."""
        high, low = self.up.best(up), self.down.best(down)
        if high is None or low is None:
            return False
        return self.error(high, low) <= float(self.task.mse) * (1 - 1e-9)

    def candidates(self, most: int | None = None) -> Iterator[tuple[int, int]]:
        """Totals of both directions, the cheapest first; all meet the error. Where reports are
        counted on average, none with a down total above `most`."""
        high, low = self.up.size, self.down.size
        if not self.meets(high, low):
            return
        yield from self._padded() if self.task.padded else self._average(most)

    def _padded(self) -> Iterator[tuple[int, int]]:
        """By the sum of both totals, near those where both directions have equal errors."""
        rate = [-math.log(side.decay) for side in (self.up, self.down)]
        last = max(self.up.size * rate[0], self.down.size * rate[1])

        def at(s: float) -> tuple[int, int]:
            return min(int(s / rate[0]), self.up.size), min(int(s / rate[1]), self.down.size)

        high = bisect(lambda s: self.meets(*at(s)), 0.0, last, width=0.25 * max(rate))
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

    def _average(self, most: int | None) -> Iterator[tuple[int, int]]:
        """By the down total alone: on average a user sends that plus its value. Long cuts upwards
        then cost nothing on average; the shortest sufficient ones are taken."""
        ups = self._ups_alike if self.task.largest == 1 else self._ups

        def first(down: int) -> int | None:
            return next(ups(down), None)

        if most is not None and first(most) is None:
            return
        last = self.down.size if most is None else most
        least = first_whole(lambda down: first(down) is not None, -1, last)
        for down in range(least, least + 3):
            up = first(down)
            if up is not None:
                yield up, down

    def _ups(self, down: int) -> Iterator[int]:
        """The shortest cuts upwards that are sufficient."""
        if self.meets(self.up.size, down):
            yield first_whole(lambda total: self.meets(total, down), -1, self.up.size)

    def _ups_alike(self, down: int) -> Iterator[int]:
        """The same for odds that depend on the value, which need muting upwards as much as
        downwards: totals near the one where (1 − κ)·o is equal in both directions."""
        low = self.down.best(down)
        if low is None:
            return

        def enough(total: int) -> bool:
            high = self.up.best(total)
            return high is not None and high.lost_odds <= low.lost_odds

        middle = first_whole(enough, -1, self.up.size)
        near = range(middle - NEAR_ALIKE, middle + NEAR_ALIKE + 1)
        found = (up for up in near if up <= self.up.size and self.meets(up, down))
        first = next(found, None)
        yield from self._ups(down) if first is None else (first, *found)


@lru_cache(maxsize=16)
def _side_of(users: int, largest: int, decay: float, size: int, ratio: float) -> Side:
    return Side(users, largest, decay, size, ratio)


def side_of(
    users: int, expected: int, largest: int, epsilon: Fraction, least_ratio: Fraction = Fraction(1)
) -> Side:
    """One direction with this loss, in floats, with the longest useful cuts."""
    decay = float(short_decay(epsilon, largest))
    size = reach(users, expected, largest, decay)
    return _side_of(users, largest, decay, min(size, MOST_CUT), float(least_ratio))


def least_ratio(largest: int, other: Fraction) -> Fraction:
    """The least κ if the other direction has this loss: its β for the values 0 and 1, else 1."""
    return short_decay(other, 1) if largest == 1 else Fraction(1)


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
        f"No bounded cell for {counted(task.users, 'user')} has an RMSE of at most "
        f"{math.sqrt(task.mse):.6g} with losses of {show(task.up)} and {show(task.down)}: their "
        f"noise is larger, or takes more than {MOST_CUT:,} messages; allow a larger error or "
        "epsilon."
    )


def settle(pair: Pair, up: int, down: int) -> BoundedCell | None:
    """The proved cell with such totals, or None if its error is too large after rounding."""
    task = pair.task
    high, low = pair.up.best(up), pair.down.best(down)
    assert high is not None and low is not None
    high, low = pair.balanced(high, low)
    for nudge in NUDGES:
        cell = BoundedCell(
            users=task.users,
            largest=task.largest,
            **pair.directions(high, low, nudge),
        )
        with contextlib.suppress(CertificateError):
            prove(cell, task.up, task.down)
            return cell if worst_error(cell, task.expected) <= ball(task.mse) else None
    return None


def direction_of(
    epsilon: Fraction,
    largest: int,
    muting: Muting,
    nudge: float,
    least_ratio: Fraction = Fraction(1),
) -> Direction:
    """A direction with short numbers, every rounding towards privacy."""
    first, decay = muting.first_odds * (1 + nudge), short_decay(epsilon, largest)
    ratio = least_ratio
    if muting.ratio > float(least_ratio) * (1 + 1e-12):
        lost = round_to(muting.lost * (1 - nudge), ODDS_DIGITS, up=False)
        ratio = max(least_ratio, 1 - lost)
    return Direction(
        epsilon=epsilon,
        decay=decay,
        cut=muting.cut,
        muted_cut=muting.muted_cut,
        odds=tuple(
            round_to(first * float(decay) ** (y - 1), ODDS_DIGITS, up=True)
            for y in range(1, largest + 1)
        ),
        ratio=ratio,
    )


def leveled(less: Direction, more: Direction) -> Direction:
    """A direction with odds raised until (1 − κ)·o is as large as in the other one."""
    return replace(less, odds=(more.lost_odds / (1 - less.ratio),))


def split_epsilon(epsilon: Fraction, task: CellTarget) -> CellTarget:
    """The task with losses that add up to ε and the fewest messages: for histograms, where a
    change moves one bucket up and another one down."""
    found: list[tuple[float, float, Fraction]] = []
    for share in EPSILON_SPLITS:
        up = epsilon * share
        pair = Pair(replace(task, up=up, down=epsilon - up))
        totals = next(pair.candidates(int(min(found)[0]) if found else None), None)
        if totals is not None:
            sent = sum(totals) if task.padded else totals[1] + sum(totals) / 10**6
            high, low = pair.up.best(totals[0]), pair.down.best(totals[1])
            assert high is not None and low is not None
            found.append((sent, pair.error(high, low), up))
    if not found:
        raise PlanningError(
            f"No split of epsilon = {show(epsilon)} between up and down has an RMSE of at most "
            f"{math.sqrt(task.mse):.6g}; allow a larger error or epsilon."
        )
    up = min(found)[2]
    return replace(task, up=up, down=epsilon - up)


def worst_error(cell: CutCell, expected: int) -> arb:
    """The mean squared error of the estimate from `expected` reports, with the worst data."""
    return at_precision(256, lambda: cell.mean_squared_error(expected))


def worst_error_above(cell: CutCell, expected: int) -> Fraction:
    """A fraction just above `worst_error`."""
    return fraction_above(worst_error(cell, expected))


LOOSEST_ERROR = 40.0
"""ln of the largest squared error that is tried for few messages, over that of noise alone."""
ERROR_TOLERANCE = 1e-4
"""Relative tolerance of the least error for a number of messages."""
UP_SHARES = (Fraction(38, 100), Fraction(1, 2))
"""The shares of ε that a search for few messages tries for the way up."""


@lru_cache(maxsize=KEPT_SEARCHES)
def search_cell(
    task: CellTarget, messages: float | None, found: FoundCells | None = None
) -> FoundCells:
    """One cell: the cheapest for the task's error, or of least error for `max_messages`."""

    def cheapest(mse: Fraction) -> FoundCells:
        return search_copies(replace(task, mse=mse), 1)

    return cheapest(task.mse) if messages is None else least_error(task, cheapest, messages)


@lru_cache(maxsize=KEPT_SEARCHES)
def search_buckets(
    epsilon: Fraction,
    task: CellTarget,
    messages: float | None,
    buckets: int,
    found: FoundCells | None = None,
) -> FoundCells:
    """The cell of each bucket; a replacement moves one up and one down, at ε in total."""
    if messages is None:
        return search_copies(split_epsilon(epsilon, task), buckets)
    choices = []
    for share in UP_SHARES:
        split = replace(task, up=epsilon * share, down=epsilon * (1 - share))

        def cheapest(mse: Fraction, split: CellTarget = split) -> FoundCells:
            return search_copies(replace(split, mse=mse), buckets)

        choices.append(least_error(split, cheapest, messages))
    return min(choices, key=lambda choice: choice.mse)


def search_copies(task: CellTarget, copies: int) -> FoundCells:
    """Copies of the cheapest cell, with the losses that the task says."""
    cell = cheapest_bounded_cell(task)
    group = Copies(cell=cell, copies=copies, up=task.up, down=task.down)
    return FoundCells(
        cells=(cell,),
        mse=task.mse,
        cost=counted_messages([group], task.users, bool(task.padded)),
    )


def least_error(
    task: CellTarget, cheapest: Callable[[Fraction], FoundCells], messages: float
) -> FoundCells:
    """The choice with the least error that fits into the message budget."""
    least = math.log(noise_alone(task))

    def found(log_error: float) -> FoundCells | None:
        try:
            choice = cheapest(Fraction(math.exp(log_error)))
        except PlanningError:
            return None
        return choice if choice.cost <= messages else None

    best = bisect_found(found, least, least + LOOSEST_ERROR, ERROR_TOLERANCE)
    if best is None:
        raise PlanningError("No plan uses so few messages; allow more messages.")
    cells = [cell for cell in best.cells if isinstance(cell, BoundedCell)]
    if len(cells) == 1:  # report the actual error, not the requested one
        best = replace(best, mse=worst_error_above(cells[0], task.expected))
    return best


def noise_alone(task: CellTarget) -> float:
    """The mean squared error of the noise without any muting."""
    variances = (
        math.exp(-float(loss) / task.largest) / math.expm1(-float(loss) / task.largest) ** 2
        for loss in (task.up, task.down)
    )
    return task.expected / task.users * sum(variances)
