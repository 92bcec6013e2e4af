"""Digits of real sums that share their way up (docs/mathematics.md §18): for the smallest report.

A report holds Σ(z_d + w_d + D) + 2Z + 1 messages: each digit's way down, and one way up for all.
The unknowns are each digit's share of ε, of the error that muting downwards may cost, and what is
left of it for jumps upwards. A formula rates thousands of points at once; then the cells of the
best few are built, proved and measured.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial, reduce

import numpy as np
from flint import arb

from shuffledp.cells.bounded.cell import MOST_CUT, Direction
from shuffledp.cells.bounded.digit_search import (
    EPSILON_DIGITS,
    bounded_cost,
    noise_error,
)
from shuffledp.cells.bounded.search import (
    NUDGES,
    ODDS_DIGITS,
    Side,
    direction_of,
    short_decay,
    side_of,
)
from shuffledp.cells.digit_search import (
    DigitCosts,
    SumTarget,
    best_radices,
    digit_messages,
    digit_weights,
    search,
    shares_of_one,
)
from shuffledp.cells.digits.cell import SharedCell, SharedDigits, SharedWayUp
from shuffledp.cells.digits.proof import prove
from shuffledp.cells.search import KEPT_SEARCHES, FoundCells
from shuffledp.errors import CertificateError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import at_precision, ball, fraction_above, round_to
from shuffledp.numbers.lattice import Floats

SEARCH_ROUNDS = ((0, 120), (5, 20), (16, 4))
"""Rounds of the search, and how many radices remain after each."""
FEWEST_USERS = 3
MOST_STEPS = 40
"""The most messages by which a cut may grow until the exact error meets the target."""


class SharedDigitCosts(DigitCosts):
    """The cost of points for one radix: shares of ε, and of what the error leaves for muting."""

    def start(self) -> Floats:
        return np.concatenate([self.equal_start(), np.zeros(len(self.radix) + 1)])

    def split(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """(ε, the squared error of each digit's noise and muting downwards, in its own units; the
        squared error that jumps upwards may cost, of the whole sum) at each point."""
        k = len(self.radix)
        epsilon = self.epsilon * shares_of_one(points[:, :k])
        muting = shares_of_one(points[:, k:])
        many = self.task.expected / self.task.users
        noise = many * noise_error(np.exp(-epsilon / self.largest))
        left = self.left - (noise * self.weight**2).sum(axis=1)
        return epsilon, noise + left[:, None] * muting[:, :k] / self.weight**2, left * muting[:, k]

    def cost(self, points: Floats) -> Floats:
        epsilon, mse, jumps = self.split(points)
        many = self.task.expected / self.task.users
        down = bounded_cost(self.task.users, self.largest, epsilon, mse / many, padded=False)
        with np.errstate(invalid="ignore"):
            up = 2 * self.cut(epsilon, jumps) + 1
        return np.asarray(np.where(jumps > 0, down.sum(axis=1) + up, np.inf), float)

    def cut(self, epsilon: Floats, jumps: Floats) -> Floats:
        """The approximate cut Z at which the jumps of all digits cost this much."""
        fall, codes = epsilon / self.largest, self.grid + 1
        many, k = float(self.task.expected), len(self.radix)
        scale = np.log(many * codes / (self.largest + 1) * self.weight**2 / -np.expm1(-fall))
        widest = fall.min(axis=1)
        stray = many / self.task.users * math.comb(k, 2) * codes * float(self.weight.max()) ** 2
        strays = np.log(max(stray, 1e-300) / -np.expm1(-epsilon.min(axis=1)))
        aim = np.log(np.where(jumps > 0, jumps, 1.0))
        cut = np.maximum((scale.max(axis=1) - aim) / widest, 1.0)
        for _ in range(5):  # ln of the error is nearly linear in the cut
            far = cut[:, None] + 1 + self.largest / 2
            logs = scale - fall * (cut[:, None] + 1) + 2 * np.log(far) - np.log(cut[:, None] + 1)
            last = strays - widest * (cut + 1) + 2 * np.log(cut + 1)
            total = reduce(np.logaddexp, [*logs.T, last])  # much faster than along an axis
            cut = np.maximum(
                cut + (total - aim) / np.maximum(widest - 2 / (cut + 1), widest / 4), k
            )
        return np.asarray(cut)


@lru_cache(maxsize=KEPT_SEARCHES)
def search_digits(
    task: SumTarget, messages: float | None, found: FoundCells | None = None
) -> FoundCells | None:
    """The digits that share their way up with the smallest padded report; None if reports are not
    padded, or if no other digits meet the target either."""
    padded = messages is None and task.padded
    return shared_sum(task) if padded and found and task.users >= FEWEST_USERS else None


def shared_sum(task: SumTarget) -> FoundCells | None:
    """The digits that share their way up with the smallest padded report, or None."""
    finalists = best_radices(task, SharedDigitCosts, SEARCH_ROUNDS)
    choices = [choice for costs in finalists if (choice := settle(costs)) is not None]
    return min(choices, key=lambda choice: choice.cost, default=None)


def settle(costs: SharedDigitCosts) -> FoundCells | None:
    """Proved cells at the cheapest point, or None if none fit."""
    if len(costs.radix) < 2:
        return None
    task, point = costs.task, search(costs, 60)[1]
    losses, errors, jumps = (row[0] for row in costs.split(point[None, :]))
    exact = [round_to(float(loss), EPSILON_DIGITS, up=False) for loss in losses]
    exact[0] += task.epsilon - sum(exact)  # the rest goes to the most significant digit
    many = task.expected / task.users
    downs = list[tuple[Side, int]]()
    for j, base in enumerate(costs.radix):
        side = side_of(task.users, task.expected, base - 1, exact[j])
        noise = many * float(noise_error(np.asarray(side.decay)))
        allowed = (float(errors[j]) - noise) / task.expected
        downs.append((side, first_whole(partial(_mutes_at_most, side, allowed), -1, side.size)))
    cut = max(math.ceil(float(costs.cut(losses[None, :], jumps[None])[0])), len(exact))
    for step in range(MOST_STEPS):  # towards the requested error, as measured exactly
        if cut + step > MOST_CUT:
            break
        cells = _proved(task, costs, exact, downs, cut + step)
        if cells is None:
            return None
        if error_above(cells, costs, task) <= task.mse:
            return FoundCells(
                cells=cells,
                mse=task.mse,
                cost=digit_messages([SharedDigits(cells)], task.users, costs.dither, True),
                dither=costs.dither,
            )
        if step % 2:  # perhaps the ways down are too short
            downs = [(side, total + 1) for side, total in downs]
    return None


def _mutes_at_most(side: Side, allowed: float, total: int) -> bool:
    """Whether cuts with this total cost a user at most this squared error downwards."""
    muting = side.best(total)
    return muting is not None and muting.squares <= allowed


def _proved(
    task: SumTarget,
    costs: SharedDigitCosts,
    losses: Sequence[Fraction],
    downs: Sequence[tuple[Side, int]],
    cut: int,
) -> tuple[SharedCell, ...] | None:
    """Cells with these cuts whose odds are proved; rounded towards privacy."""
    codes = costs.grid + 1
    rho = math.exp(sum(math.log1p(1 / task.users / i) for i in range(1, cut + 1)))
    decays = [short_decay(loss, base - 1) for loss, base in zip(losses, costs.radix, strict=True)]
    for nudge in NUDGES:
        ups = [
            _up(base - 1, loss, decay, cut, codes // base * rho * (1 + nudge))
            for loss, base, decay in zip(losses, costs.radix, decays, strict=True)
        ]
        odds = sum((sum(up.odds) for up in ups), start=Fraction(0))
        stray = _stray_odds(task.users, rho, costs.radix, losses, max(decays), cut, nudge)
        cells = []
        for up, base, (side, total) in zip(ups, costs.radix, downs, strict=True):
            muting = side.best(total)
            if muting is None:
                return None
            way_up = SharedWayUp(
                cells=len(ups),
                others=codes // base,
                decay=max(decays),
                other_odds=odds - sum(up.odds, start=Fraction(0)),
                stray_odds=stray,
            )
            down = direction_of(up.epsilon, base - 1, muting, nudge)
            cells.append(
                SharedCell(users=task.users, largest=base - 1, up=up, down=down, way_up=way_up)
            )
        with contextlib.suppress(CertificateError):
            for cell, loss in zip(cells, losses, strict=True):
                prove(cell, loss, loss)
            return tuple(cells)
    return None


def _up(largest: int, loss: Fraction, decay: Fraction, cut: int, scale: float) -> Direction:
    """A digit's own jumps: users·c_{Z+1}·β^(y−1)/(1−β^D) for each combination of the others, where
    users·c_{Z+1} = β^(Z+1)·ρ_Z/(Z+1); `scale` is ρ_Z times their number, rounded up."""
    beta = float(decay)
    first = beta ** (cut + 1) * scale / (cut + 1) / -math.expm1(largest * math.log(beta))
    return Direction(
        epsilon=loss,
        decay=decay,
        cut=cut,
        muted_cut=cut,
        odds=tuple(round_to(first * beta**y, ODDS_DIGITS, up=True) for y in range(largest)),
    )


def _stray_odds(
    users: int,
    rho: float,
    radix: Sequence[int],
    losses: Sequence[Fraction],
    decay: Fraction,
    cut: int,
    nudge: float,
) -> tuple[Fraction, ...]:
    """The odds of stray jumps with 2, 3, … parts that the proof asks for."""
    r, k, beta = 1 / users, len(radix), float(decay)
    spare = min(-math.expm1(-float(loss)) for loss in losses) * (1 - 1e-9)
    found = []
    for parts in range(2, k + 1):
        ways = math.comb(k, parts) * math.comb(cut, parts - 1) * math.prod(radix)
        odds = users * (r * rho) ** parts * beta ** (cut + 1) * ways / ((cut + 2 - parts) * spare)
        found.append(round_to(odds * (1 + nudge), ODDS_DIGITS, up=True))
    return tuple(found)


def error_above(cells: Sequence[SharedCell], costs: SharedDigitCosts, task: SumTarget) -> Fraction:
    """A fraction just above the mean squared error of the whole sum, with the worst data."""

    def error() -> arb:
        weights = [Fraction(weight, costs.grid) for weight in digit_weights(costs.radix)]
        total = ball(task.rounding(costs.grid, costs.dither))
        for cell, weight in zip(cells, weights, strict=True):
            total += ball(weight**2) * cell.mean_squared_error(task.expected)
        return total + task.expected * ball(SharedDigits(tuple(cells)).joint_variance(weights))

    return fraction_above(at_precision(256, error))
