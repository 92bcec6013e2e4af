"""What one user sends to a shared cell: the law of that cell alone (see `cells.digits.cell`).

A value in 0..D (the user's own, y−1 after the cell's own jump, uniform after any other jump) goes
through the way down, then n and Z₊ are added. With R_x the generating function of the way down for
a value x, A that of Z₊, p the chance of the user's own values, the number sent has

    A · p · [ R_x  +  t^(Z+1) Σ_y o_y R_(y−1)  +  (Σ_other o + Σ_q s_q S_q(t)) · mean of R_0..R_D ],

where S_q is the law of one part of a uniform n with q parts above 0.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from shuffledp.cells.bounded.error import Points, UserParts, noise_masses
from shuffledp.cells.bounded.law import Moments
from shuffledp.numbers.exact import ball

if TYPE_CHECKING:
    from shuffledp.cells.digits.cell import SharedCell


@lru_cache(maxsize=64)
def stray_masses(cell: SharedCell) -> tuple[Fraction, ...]:
    """The odds that a stray jump adds j to this cell, for j = 0..Z+1."""
    way_up, cut = cell.way_up, cell.up.cut
    k = way_up.cells
    masses = [Fraction(0)] * (cut + 2)
    for parts, odds in enumerate(way_up.stray_odds, start=2):
        inside = odds * Fraction(parts, k)  # the cell is one of the `parts` that get something
        masses[0] += odds - inside
        ways = comb(cut, parts - 1)
        for j in range(1, cut + 3 - parts):
            masses[j] += inside * Fraction(comb(cut - j, parts - 2), ways)
    return tuple(masses)


def stray_moments(cell: SharedCell) -> tuple[Fraction, Fraction, Fraction]:
    """The odds of all jumps but the cell's own, and the sums of odds · addition and of
    odds · addition². A part of Z+1 in q parts is 1 + a with a of a uniform way to write Z+1−q as q
    numbers from 0 on: E[a] = (Z+1−q)/q, E[a(a−1)] = 2(Z+1−q)(Z−q)/(q(q+1))."""
    way_up, total = cell.way_up, cell.up.cut + 1
    odds, first, second = way_up.other_odds, Fraction(0), Fraction(0)
    for parts, stray in enumerate(way_up.stray_odds, start=2):
        rest = total - parts
        mean = Fraction(rest, parts)
        square = Fraction(2 * rest * (rest - 1), parts * (parts + 1)) + mean
        inside = stray * Fraction(parts, way_up.cells)
        odds += stray
        first += inside * (1 + mean)
        second += inside * (1 + 2 * mean + square)
    return odds, first, second


def moments(cell: SharedCell) -> Moments:
    """The moments of one user's v + n + Z₊, in balls of the working precision."""
    d, z = cell.largest, cell.up.cut
    up, up_variance = cell.up_noise.moments()
    down, down_variance = cell.down_noise.moments()
    muted, muted_variance = cell.down_muted_noise.moments()
    own = ball(1 / (1 + cell.up_odds))
    stays = ball(1 / (1 + cell.down_odds))
    jump, jump_square = (
        sum((ball(o) * cell.down_jump(y) ** k for y, o in enumerate(cell.down.odds, 1)), arb(0))
        for k in (1, 2)
    )
    lost = ball(cell.down_odds)
    # the part of the way down that does not depend on the value
    fixed = stays * (jump - lost * muted)
    fixed_square = stays * (
        jump_square - 2 * jump * muted + lost * (muted * muted + muted_variance)
    )

    def through(weight: Any, first: Any, second: Any) -> tuple[Any, Any, Any]:
        """(weight, Σ, Σ²) of what leaves the way down, for values with these moments."""
        kept = stays * (first - weight * down)
        square = stays * (second - 2 * first * down + weight * (down * down + down_variance))
        return weight, kept + weight * fixed, square + weight * fixed_square

    def lifted(part: tuple[Any, Any, Any], by: Any, by_square: Any) -> tuple[Any, Any]:
        """(Σ, Σ²) after an independent addition with this mean and mean square."""
        weight, first, second = part
        return first + weight * by, second + 2 * first * by + weight * by_square

    noise_square = up * up + up_variance
    values = [ball(Fraction(d, 2)), ball(Fraction(d * (2 * d + 1), 6))]  # uniform on 0..D
    branches = [lifted(through(own, arb(0), arb(0)), up, noise_square)]
    mass, first, second = (
        own * sum((ball(o) * (y - 1) ** k for y, o in enumerate(cell.up.odds, 1)), arb(0))
        for k in range(3)
    )
    far = z + 1 + up
    branches.append(lifted(through(mass, first, second), far, far * far + up_variance))
    elsewhere_odds, first_added, second_added = stray_moments(cell)
    odds = own * ball(elsewhere_odds)
    added, added_square = (own * ball(moment) / odds for moment in (first_added, second_added))
    elsewhere = through(odds, odds * values[0], odds * values[1])
    branches.append(lifted(elsewhere, added + up, added_square + 2 * added * up + noise_square))
    mean = sum((branch[0] for branch in branches), arb(0))
    square = sum((branch[1] for branch in branches), arb(0))
    kept = ball(cell.data_probability)
    return Moments(
        kept=kept, shift=mean, slope=2 * kept * (up - down - mean), spread=square - mean * mean
    )


def user_parts(cell: SharedCell, at: Points) -> UserParts:
    """What one user's v + n + Z₊ is made of, in floats."""
    d, z = cell.largest, cell.up.cut
    own, stays = 1 / float(1 + cell.up_odds), 1 / float(1 + cell.down_odds)
    up = at.off(noise_masses(cell.up_noise))
    down = at.off(noise_masses(cell.down_noise), -1)
    muted = 1 + at.off(noise_masses(cell.down_muted_noise), -1)
    down_odds = np.append(0.0, [float(o) for o in cell.down.odds])
    fixed = stays * np.exp(at.argument * cell.down_jump(0)) * at.sums(down_odds, -1) * muted
    up_odds = np.array([float(o) for o in cell.up.odds])
    strays = np.array([float(mass) for mass in stray_masses(cell)])
    strays[0] += float(cell.way_up.other_odds)
    jumped = stays * (1 + down) * at.sums(up_odds) + up_odds.sum() * fixed
    uniform = stays * (1 + down) * at.sums(np.full(d + 1, 1 / (d + 1))) + fixed
    elsewhere = fixed + np.exp(at.argument * (z + 1)) * jumped + at.sums(strays) * uniform
    return UserParts(own * stays * (up + down + up * down), own * elsewhere * (1 + up))
