"""The oracle of the bounded cell: the exact law of the view, by multiplying polynomials.

The view is one number, the messages of all users, so its law is the coefficients of a product of
one polynomial per user. The oracle knows nothing of the proof: it multiplies integers (every mass
times a common denominator, the same for every value) and takes the largest ratio of coefficients.
It tests the certificate and never replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement

from flint import arb_poly, fmpz, fmpz_poly

from shuffledp.cells.bounded.cell import BoundedCell, CutCell, Direction
from shuffledp.numbers.exact import at_precision, ball

Masses = list[Fraction]


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """The largest ratio of probabilities in each direction, and the view where it was found."""

    up: Fraction | None
    """A larger value against a smaller one; None where the smaller one cannot give the view."""
    down: Fraction | None
    up_at: int
    down_at: int

    def loss(self, direction: str) -> float:
        """The ratio's logarithm."""
        ratio = self.up if direction == "up" else self.down
        if ratio is None:
            return math.inf
        return math.log(ratio.numerator) - math.log(ratio.denominator)

    def within(self, cell: CutCell) -> tuple[bool, bool]:
        """Whether each direction keeps the bound β^(−D) of the proof; decided exactly."""
        pairs = ((self.up, cell.up), (self.down, cell.down))
        up, down = (
            ratio is not None and ratio * side.decay**cell.largest <= 1 for ratio, side in pairs
        )
        return up, down


def noise(users: int, direction: Direction, cut: int) -> Masses:
    """The law of one user's noise in one direction, cut there."""
    masses, r = [Fraction(1)], Fraction(1, users)
    for j in range(cut):
        masses.append(masses[-1] * direction.decay * (r + j) / (j + 1))
    total = sum(masses)
    return [mass / total for mass in masses]


def user_law(cell: BoundedCell, value: int) -> Masses:
    """The law of a user's number of messages: entry k holds P(k) times 1 + the sum of all odds."""
    up, down, d = cell.up, cell.down, cell.largest
    law = [Fraction(0)] * (cell.most_messages + 1)
    plus = {cut: noise(cell.users, up, cut) for cut in (up.cut, up.muted_cut)}
    minus = {cut: noise(cell.users, down, cut) for cut in (down.cut, down.muted_cut)}
    branches = [(Fraction(1), value, up.cut, down.cut)]
    rising = up.ratio if value == d else 1  # κ: for a value that cannot rise
    falling = down.ratio if value == 0 else 1
    for y in range(1, d + 1):
        branches.append((rising * up.odds[y - 1], up.cut + y, up.muted_cut, down.cut))
        branches.append((falling * down.odds[y - 1], d - down.cut - y, up.cut, down.muted_cut))
    for weight, middle, plus_cut, minus_cut in branches:
        for i, p in enumerate(plus[plus_cut]):
            for j, q in enumerate(minus[minus_cut]):
                law[down.cut + down.muted_cut + middle + i - j] += weight * p * q
    return law


def polynomials(cell: BoundedCell) -> list[fmpz_poly]:
    """One polynomial per value, all scaled by the same number."""
    laws = [user_law(cell, value) for value in range(cell.largest + 1)]
    scale = math.lcm(*(mass.denominator for law in laws for mass in law))
    return [fmpz_poly([int(mass * scale) for mass in law]) for law in laws]


def largest_ratio(above: fmpz_poly, below: fmpz_poly) -> tuple[Fraction | None, int]:
    """The largest ratio of two laws and where it is; None where only the first is possible."""
    best, at = (fmpz(0), fmpz(1)), -1
    for view in range(len(above)):
        top, bottom = above[view], below[view]
        if top and not bottom:
            return None, view
        if top * best[1] > best[0] * bottom:
            best, at = (top, bottom), view
    return Fraction(int(best[0]), int(best[1])), at


def ratios(cell: BoundedCell, others: Sequence[int]) -> Ratios:
    """The largest ratios between any two values of one user, with the others' values fixed.

    `others[x]` of the other users hold x; in all there may be any number of users.
    """
    return _ratios(polynomials(cell), others)


def all_ratios(cell: BoundedCell, users: int) -> Ratios:
    """The largest ratios over all values of all users."""
    found, laws, possible = [], polynomials(cell), range(cell.largest + 1)
    for values in combinations_with_replacement(possible, users - 1):
        found.append(_ratios(laws, [values.count(x) for x in possible]))
    up = max(found, key=lambda entry: _size(entry.up))
    down = max(found, key=lambda entry: _size(entry.down))
    return Ratios(up=up.up, down=down.down, up_at=up.up_at, down_at=down.down_at)


def _size(ratio: Fraction | None) -> Fraction | float:
    """What ratios are compared by, exactly."""
    return math.inf if ratio is None else ratio


def _ratios(users: list[fmpz_poly], others: Sequence[int]) -> Ratios:
    rest = fmpz_poly([1])
    for value, count in enumerate(others):
        rest *= users[value] ** count
    ups, downs = [], []
    views = [rest * user for user in users]
    for high, view in enumerate(views):
        for lower in views[:high]:
            ups.append(largest_ratio(view, lower))
            downs.append(largest_ratio(lower, view))
    up, up_at = max(ups, key=lambda way: _size(way[0]))
    down, down_at = max(downs, key=lambda way: _size(way[0]))
    return Ratios(up=up, down=down, up_at=up_at, down_at=down_at)


def first_violation(cell: BoundedCell, others: int, views: int, bits: int = 1024) -> int | None:
    """The first view at which a larger value is certainly more than β^(−D) times as likely as a
    smaller one, among the `views` smallest; None if there is none.

    Everybody else holds `others`. The smallest coefficients of a product need no larger ones, so
    this takes any number of users; views are counted from what all others send at least.
    """
    found: int | None = at_precision(bits, lambda: _first_violation(cell, others, views))
    return found


def _first_violation(cell: BoundedCell, others: int, views: int) -> int | None:
    def start(masses: Masses) -> arb_poly:
        return arb_poly([ball(mass) for mass in masses[:views]])

    def times(a: arb_poly, b: arb_poly) -> arb_poly:
        return arb_poly((a * b).coeffs()[:views])

    laws = [user_law(cell, value) for value in range(cell.largest + 1)]
    least = next(k for k, mass in enumerate(laws[others]) if mass)
    rest, square, left = arb_poly([1]), start(laws[others][least:]), cell.users - 1
    while left:
        rest = times(rest, square) if left % 2 else rest
        square, left = times(square, square), left // 2
    users = [times(rest, start(law)) for law in laws]
    bound = 1 / ball(cell.up.decay) ** cell.largest
    for view in range(views):
        for high, user in enumerate(users):
            if any(user[view] > bound * lower[view] for lower in users[:high]):
                return view
    return None
