"""Digits of real sums as bounded cells: radix, ε and error shared at once (MATH §9 and §12).

x in [0, 1] is rounded at random to a multiple of 1/(P−1), with a public dither of k values, which
adds at most n(k²+2)/(12k²(P−1)²) to the error. Digit j has values 0..D_j, weight w_j/(P−1), its own
share of ε and of the error that muting may cost; a report holds the sum of the digits' K_j. A
formula for K evaluates thousands of points at once. Then the cells of the best few are searched and
proved one after the other, and error that one digit does not use goes to the next.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.cells.base import one_by_one
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.search import cheapest_bounded_cell, worst_error_above
from shuffledp.cells.digit_search import (
    LOOSEST_SUM,
    DigitCosts,
    SumTarget,
    best_radices,
    digit_messages,
    digit_weights,
    no_digits,
    no_digits_within,
    search,
    shares_of_one,
)
from shuffledp.cells.search import KEPT_SEARCHES, CellTarget, FoundCells
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import bisect, bisect_found
from shuffledp.numbers.exact import round_to
from shuffledp.numbers.lattice import Floats

SEARCH_ROUNDS = ((0, 120), (5, 24), (12, 8))
"""Rounds of the search, and how many radices remain after each."""
QUICK_ROUNDS = ((0, 40), (5, 8), (12, 3))
"""The same if many errors are tried."""
EPSILON_DIGITS = 4


def noise_error(decay: Floats) -> Floats:
    """The variance of both noises of all users together, hardly cut."""
    return np.asarray(2 * decay / (1 - decay) ** 2)


def bounded_cost(
    users: float, largest: Floats, epsilon: Floats, mse: Floats, padded: bool = True
) -> Floats:
    """The approximate number of messages of a bounded cell: floats, arrays, within 3 %.

    Counts the maximum (`padded`) or the average at the largest value. On average, muting upwards
    costs almost nothing, and the way down gets all of the error. ∞ if the noise alone exceeds the
    error. The muted cut and the share φ are fitted to what the search finds; the cut then follows
    from the error that muting may cost.
    """
    d, epsilon, left = np.asarray(largest, float), np.asarray(epsilon, float), np.asarray(mse)
    fall = epsilon / d
    decay, spare = np.exp(-fall), -np.expm1(-epsilon)
    left = (left - noise_error(decay)) * (1 if padded else 2)
    possible = left > 0
    muted = np.maximum((1.15 + 0.55 * np.exp(-1.05 * epsilon)) * d / spare - 1, d - 1)
    share = np.maximum(0.425 - 0.03 * epsilon, 0.2)
    weight = spare / (1 - decay)  # Σ β^(y−1)
    middle = 1 / (1 - decay) - d * (1 - spare) / spare  # the mean jump y
    off, half, least = middle - d / 2, d * d / 2, muted + d
    with np.errstate(divide="ignore", invalid="ignore"):
        aim = np.log(np.where(possible, left, 1.0) * share * spare / (users * weight))
        cut = np.maximum(-aim / fall, d)
        for _ in range(6):  # the cut at which muting costs exactly what is left
            centre, more = cut + off, cut + 1
            rest = more * fall + aim + np.log(more / (2 * centre * centre + half))
            cut = np.maximum(cut - rest / (fall + 1 / more - 2 / centre), least)
    sent = cut + muted
    return np.asarray(np.where(possible, (2 * sent if padded else sent) + d, np.inf))


class BoundedDigitCosts(DigitCosts):
    """The cost of points for one radix: shares of ε, and of what the error leaves for muting."""

    def start(self) -> Floats:
        """ε by the digits' weight in the sum; muting costs each digit the same."""
        return np.concatenate([self.equal_start(), np.zeros(len(self.radix))])

    def split(self, points: Floats) -> tuple[Floats, Floats]:
        """(ε, mean squared error in the digit's own units) per digit, at each point."""
        k = len(self.radix)
        epsilon, muting = shares_of_one(points[:, :k]), shares_of_one(points[:, k:])
        epsilon = self.epsilon * epsilon
        many = self.task.expected / self.task.users
        noise = many * noise_error(np.exp(-epsilon / self.largest))
        left = (self.left - (noise * self.weight**2).sum(axis=1))[:, None]
        return epsilon, noise + left * muting / self.weight**2

    def cost(self, points: Floats) -> Floats:
        """The sum of the digits' messages, counted as the task says; ∞ where the error is
        exceeded."""
        epsilon, mse = self.split(points)
        many = self.task.expected / self.task.users
        found = bounded_cost(self.task.users, self.largest, epsilon, mse / many, self.task.padded)
        return np.asarray(found.sum(axis=1), float)


@lru_cache(maxsize=KEPT_SEARCHES)
def search_digits(
    task: SumTarget, messages: float | None, found: FoundCells | None = None
) -> FoundCells:
    """The digits with the fewest messages, or with the least error for `max_messages`."""
    if messages is None:
        return replace(bounded_digits(task), mse=task.mse)
    return _best_for_messages(task, messages)


def bounded_digits(task: SumTarget) -> FoundCells:
    """The bounded cells with the fewest messages, counted as the task says, for a sum of reals in
    [0, 1], the most significant digit first, and the error they reach.

    Ensures: every cell is proved for its share of ε, the shares add up to at most ε, and the mean
    squared error of `expected` reports is at most `mse` for any data, rounding included.
    """
    settled = (
        settle_digits(costs) for costs in best_radices(task, BoundedDigitCosts, SEARCH_ROUNDS)
    )
    found = [digits for digits in settled if digits is not None]
    if not found:
        raise no_digits(task)
    return min(found, key=lambda digits: digits.cost)


def settle_digits(costs: BoundedDigitCosts) -> FoundCells | None:
    """Proved cells at the cheapest point, or None if a digit cannot meet its error."""
    task, point = costs.task, search(costs, 60)[1]
    losses, errors = (row[0] for row in costs.split(point[None, :]))
    exact = [round_to(float(loss), EPSILON_DIGITS, up=False) for loss in losses]
    exact[0] += task.epsilon - sum(exact)  # the rest goes to the most significant digit
    squares = [Fraction(weight, costs.grid) ** 2 for weight in digit_weights(costs.radix)]
    asked = [Fraction(float(error)) * square for error, square in zip(errors, squares, strict=True)]
    left = task.mse - task.rounding(costs.grid, costs.dither)
    cells = list[BoundedCell]()
    for j, base in enumerate(costs.radix):
        allowed = (left - sum(asked[j + 1 :])) / squares[j]
        if allowed <= 0:
            return None
        digit = CellTarget(
            users=task.users,
            expected=task.expected,
            largest=base - 1,
            up=exact[j],
            down=exact[j],
            mse=allowed,
            padded=int(task.padded),
        )
        try:
            cells.append(cheapest_bounded_cell(digit))
        except PlanningError:
            return None
        left -= worst_error_above(cells[j], task.expected) * squares[j]
    if left < 0:
        return None
    return FoundCells(
        cells=tuple(cells),
        mse=task.mse - left,
        cost=digit_messages(one_by_one(cells), task.users, costs.dither, task.padded),
        dither=costs.dither,
    )


def _best_for_messages(task: SumTarget, messages: float) -> FoundCells:
    """The least error, within 1 %, for which the digits fit into the message budget."""

    def rough_cost(log_error: float) -> tuple[float, list[BoundedDigitCosts]]:
        here = replace(task, mse=Fraction(math.exp(log_error)))
        finalists = best_radices(here, BoundedDigitCosts, QUICK_ROUNDS)
        costs = [search(costs, 20)[0] for costs in finalists]
        return min(costs, default=math.inf), finalists

    low = math.log(2 / task.epsilon**2)
    last = bisect(lambda log: rough_cost(log)[0] <= messages, low, low + LOOSEST_SUM, width=0.1)
    radices_near = {costs.radix for costs in rough_cost(last)[1]}
    found = [
        digits
        for radix in sorted(radices_near)
        if (digits := _radix_for_messages(replace(task, radix=radix), messages, last)) is not None
    ]
    if not found:
        raise no_digits_within(messages)
    return min(found, key=lambda digits: digits.mse)


def _radix_for_messages(task: SumTarget, messages: float, near: float) -> FoundCells | None:
    """The same for one radix, for errors whose logarithm is near a given number."""
    radix = task.radix
    assert radix is not None

    def found(log_error: float) -> FoundCells | None:
        here = replace(task, mse=Fraction(math.exp(log_error)))
        digits = settle_digits(BoundedDigitCosts(here, radix))
        return digits if digits is not None and digits.cost <= messages else None

    return bisect_found(found, near - 0.4, near + 0.4, 0.01)
