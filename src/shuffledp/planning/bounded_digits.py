"""Digits of real sums as bounded cells: radix, ε and error shared at once (MATH §9 and §12).

x in [0, 1] is rounded at random to a multiple of 1/(P−1), which adds at most n/(4(P−1)²) to the
error. Digit j has values 0..D_j, weight w_j/(P−1), its own share of ε and of the error that muting
may cost; a report holds the sum of the digits' K_j. A formula for K judges thousands of points at
once; then the cells of the best few are searched and proved one after the other, and what one
digit leaves of its error goes to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.cells.bounded import BoundedCell
from shuffledp.errors import PlanningError
from shuffledp.exact.numbers import round_to
from shuffledp.planning.bounded_search import cheapest_bounded_cell, worst_error
from shuffledp.planning.digits import Landscape, SumTask, radices, search
from shuffledp.planning.special import Floats

ROUNDS = ((0, 120), (5, 24), (12, 8))  # rounds of the search, and how many radices stay
EPSILON_DIGITS = 4


def noise_error(decay: Floats) -> Floats:
    """The variance of both noises of all users together, hardly cut."""
    result: Floats = 2 * decay / (1 - decay) ** 2
    return result


def bounded_cost(users: float, largest: Floats, epsilon: Floats, mse: Floats) -> Floats:
    """About how many messages at most a bounded cell takes: floats, arrays, within 3 %.

    ∞ where the noise alone exceeds the error. The muted cut and the share φ are fitted to what the
    search finds; the cut then follows from the error that muting may cost.
    """
    d, epsilon, left = np.asarray(largest, float), np.asarray(epsilon, float), np.asarray(mse)
    fall = epsilon / d
    decay, spare = np.exp(-fall), -np.expm1(-epsilon)
    left = left - noise_error(decay)
    possible = left > 0
    muted = np.maximum((1.15 + 0.55 * np.exp(-1.05 * epsilon)) * d / spare - 1, d - 1)
    share = np.maximum(0.425 - 0.03 * epsilon, 0.2)
    weight = spare / (1 - decay)  # Σ β^(y−1)
    middle = 1 / (1 - decay) - d * (1 - spare) / spare  # the mean jump y
    with np.errstate(divide="ignore", invalid="ignore"):
        aim = np.log(np.where(possible, left, 1.0) * share * spare / (users * weight))
        cut = np.maximum(-aim / fall, d)
        for _ in range(6):  # the cut at which muting costs just what is left
            centre = cut + middle - d / 2
            rest = (cut + 1) * fall + np.log(cut + 1) + aim - np.log(2 * centre**2 + d * d / 2)
            cut = np.maximum(cut - rest / (fall + 1 / (cut + 1) - 2 / centre), muted + d)
    result: Floats = np.where(possible, 2 * (cut + muted) + d, np.inf)
    return result


def _shares(logs: Floats) -> Floats:
    """Numbers that add up to 1 in each row."""
    parts = np.exp(logs - logs.max(axis=1, keepdims=True))
    result: Floats = parts / parts.sum(axis=1, keepdims=True)
    return result


class BoundedLandscape(Landscape):
    """The cost of points for one radix: shares of ε, and of what the error leaves for muting."""

    @property
    def size(self) -> int:
        return 2 * len(self.radix)

    def start(self) -> Floats:
        """ε by the digits' weight in the sum; muting costs each digit the same."""
        share = np.log((self.weight * self.largest) ** (2 / 3))
        return np.concatenate([share - share[0], np.zeros(len(self.radix))])

    def split(self, points: Floats) -> tuple[Floats, Floats]:
        """(ε, mean squared error in the digit's own units) per digit, at each point."""
        k = len(self.radix)
        epsilon, muting = _shares(points[:, :k]), _shares(points[:, k:])
        epsilon = self.task.epsilon * epsilon
        many = self.task.expected / self.task.users
        noise = many * noise_error(np.exp(-epsilon / self.largest))
        left = self.left - (noise * self.weight**2).sum(axis=1, keepdims=True)
        return epsilon, noise + left * muting / self.weight**2

    def cost(self, points: Floats) -> Floats:
        """The sum of the digits' messages; ∞ where the error is exceeded."""
        epsilon, mse = self.split(points)
        many = self.task.expected / self.task.users
        found = bounded_cost(self.task.users, self.largest, epsilon, mse / many)
        return np.asarray(found.sum(axis=1), float)


@dataclass(frozen=True)
class BoundedDigits:
    """A radix and its proved cells, the most significant digit first."""

    radix: tuple[int, ...]
    cells: tuple[BoundedCell, ...]

    @property
    def most_messages(self) -> int:
        """What a user sends at most, over all digits."""
        return sum(cell.most_messages for cell in self.cells)

    def cost(self, padded: bool) -> int:
        """What plans are compared by: messages at most, or about those of the largest value."""
        if padded:
            return self.most_messages
        return sum(cell.base + cell.largest for cell in self.cells)

    @property
    def epsilon(self) -> Fraction:
        """The loss of a change, over all digits."""
        losses = (max(cell.up.epsilon, cell.down.epsilon) for cell in self.cells)
        return sum(losses, start=Fraction(0))


def bounded_digits(
    users: int,
    expected: int,
    epsilon: Fraction,
    mse: Fraction,
    padded: bool = True,
    fixed_radix: Sequence[int] | None = None,
) -> BoundedDigits:
    """The bounded cells with the fewest messages for a sum of reals in [0, 1]: at most (`padded`),
    or on average, which is about half of that with the same shares.

    Ensures: every cell is proved for its share of ε, the shares add up to at most ε, and the mean
    squared error of `expected` reports is at most `mse` for any data, rounding included.
    """
    task = SumTask(
        users=users, expected=expected, epsilon=float(epsilon), mse=float(mse), padded=padded
    )
    known = [tuple(fixed_radix)] if fixed_radix is not None else list(radices(task))
    rough = [(0.0, radix) for radix in known]
    for rounds, kept in ROUNDS:  # all radices at a glance, the better ones more closely
        costs = [(search(BoundedLandscape(task, radix), rounds)[0], radix) for _, radix in rough]
        rough = sorted(costs)[:kept]
    best: BoundedDigits | None = None
    for cost, radix in rough:
        if math.isfinite(cost):
            landscape = BoundedLandscape(task, radix)
            found = settle_digits(task, landscape, search(landscape, 60)[1], epsilon, mse)
            if found and (best is None or found.cost(padded) < best.cost(padded)):
                best = found
    if best is None:
        raise PlanningError(
            f"No digits sum up reals of {users:,} users with an error of at most "
            f"{math.sqrt(mse):.6g}; allow a larger error or epsilon."
        )
    return best


def settle_digits(
    task: SumTask, landscape: BoundedLandscape, point: Floats, epsilon: Fraction, mse: Fraction
) -> BoundedDigits | None:
    """Proved cells at a point, or None if a digit cannot meet its error."""
    losses, errors = (row[0] for row in landscape.split(point[None, :]))
    exact = [round_to(float(loss), EPSILON_DIGITS, up=False) for loss in losses]
    exact[0] += epsilon - sum(exact)  # what rounding left goes to the most significant digit
    rounding = Fraction(task.expected, 4 * landscape.grid**2)
    left, cells = mse - rounding, list[BoundedCell]()
    places = range(len(landscape.radix))
    squares = [Fraction(math.prod(landscape.radix[j + 1 :]), landscape.grid) ** 2 for j in places]
    asked = [Fraction(float(errors[j])) * squares[j] for j in places]
    for j, base in enumerate(landscape.radix):
        allowed = (left - sum(asked[j + 1 :])) / squares[j]
        if allowed <= 0:
            return None
        users = task.users, task.expected
        try:
            cell = cheapest_bounded_cell(*users, base - 1, exact[j], exact[j], allowed, task.padded)
        except PlanningError:
            return None
        cells.append(cell)
        mantissa, power = worst_error(cell, task.expected).upper().man_exp()
        left -= Fraction(int(mantissa)) * Fraction(2) ** int(power) * squares[j]
    return BoundedDigits(landscape.radix, tuple(cells)) if left >= 0 else None
