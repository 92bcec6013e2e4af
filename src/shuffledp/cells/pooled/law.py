"""What one user sends to a bucket of a pooled cell, or to several together: moments and laws.

Of t tokens by the urn, j are in k given buckets with probability c_j·c′_(t−j)/s_t, where c and c′
are the masses of s with k·r and (B−k)·r for B·r: a beta-binomial number. With N the share of the
noise in the k buckets, J that of the Z+1 tokens of a user that drops its label, ψ_x the law of one
way down with the value x, and a the chance that a label is kept, the k buckets get

    a user that holds one of them    N · [ a·ψ_1·ψ_0^(k−1)  +  (1 − a)·J·ψ_0^k ]
    any other                        N · [ a + (1 − a)·J ]·ψ_0^k

(products of generating functions). v is the number sent less k(z + w).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from flint import arb, ctx

from shuffledp.cells.base import Floats
from shuffledp.cells.bounded.error import Points, UserParts, noise_masses
from shuffledp.cells.bounded.law import Moments
from shuffledp.cells.urn import float_masses, urn_masses
from shuffledp.numbers.exact import ball

if TYPE_CHECKING:
    from shuffledp.cells.pooled.cell import PooledCell


class WayDown(NamedTuple):
    """The moments of what one bucket sends after its way down, less z + w."""

    mean: Any
    variance: Any


def way_down(cell: PooledCell, value: int) -> WayDown:
    """With this value."""
    mean, variance = cell.down_noise.moments()
    muted, muted_variance = cell.down_muted_noise.moments()
    odds = cell.jump_odds(value)
    stays, jumps = ball(1 / (1 + odds)), ball(odds / (1 + odds))
    here, there = value - mean, -cell.down.cut - muted
    centre = stays * here + jumps * there
    square = stays * (here * here + variance) + jumps * (there * there + muted_variance)
    return WayDown(centre, square - centre * centre)


def moments(cell: PooledCell) -> Moments:
    """The moments of one user's v in the buckets that are looked at together, in balls of the
    working precision: E[v | x] = kept·x + shift, x = 1 for a user that holds one of them."""
    return _moments_at(cell, ctx.prec)


@lru_cache(maxsize=256)
def _moments_at(cell: PooledCell, bits: int) -> Moments:
    assert bits == ctx.prec
    k, tokens = cell.together, cell.up.cut + 1
    part = Fraction(k, cell.buckets)
    pair = part * Fraction(k + cell.users, cell.buckets + cell.users)  # two tokens are both here
    mean, variance = cell.tokens.moments()
    pairs = variance + mean * mean - mean  # E[t(t−1)]
    noise = mean * ball(part)
    spread = pairs * ball(pair) + noise - noise * noise
    dealt = ball(tokens * part)
    dealt_square = ball(tokens * (tokens - 1) * pair) + dealt
    none, one = way_down(cell, 0), way_down(cell, 1)
    dropped = ball(cell.drop_odds / (1 + cell.drop_odds))

    def at(x: int) -> tuple[arb, arb]:
        """E[v | x] and Var[v | x]."""
        kept = one.mean + (k - 1) * none.mean if x else k * none.mean
        kept_variance = one.variance + (k - 1) * none.variance if x else k * none.variance
        lost = k * none.mean + dealt
        lost_variance = k * none.variance + dealt_square - dealt * dealt
        centre = kept + dropped * (lost - kept)
        between = dropped * (1 - dropped) * (lost - kept) * (lost - kept)
        within = kept_variance + dropped * (lost_variance - kept_variance)
        return noise + centre, spread + within + between

    (shift, spread_none), (held, spread_one) = at(0), at(1)
    kept = held - shift
    slope = spread_one - spread_none - kept * (1 - kept)
    return Moments(kept=kept, shift=shift, slope=slope, spread=spread_none)


# In floats, for reporting


@lru_cache(maxsize=64)
def _float_masses(cell: PooledCell) -> tuple[Floats, Floats]:
    """The masses of N and J."""
    cut, k = cell.up.cut, cell.together
    return float_masses(cell, cut, k, cell.up.decay, partial(urn_masses, cell, cut, k))


def user_parts(cell: PooledCell, at: Points) -> UserParts:
    """What one user's v is made of; x is 1 for a user that holds one of the buckets."""
    up_masses, dealt_masses = _float_masses(cell)
    up, dealt = at.off(up_masses), 1 + at.off(dealt_masses)
    down = at.off(noise_masses(cell.down_noise), -1)
    muted = at.off(noise_masses(cell.down_muted_noise), -1)
    none, one = cell.jump_odds(0), cell.jump_odds(1)
    dropped = cell.drop_odds / (1 + cell.drop_odds)
    kept, lost = float(1 - dropped), float(dropped)
    jumped = np.exp(at.argument * -cell.down.cut) * (1 + muted)
    share = float(none / (1 + none))
    empty = (1 - share) * down + share * (jumped - 1)  # ψ_0 − 1
    rest = np.expm1((cell.together - 1) * np.log1p(empty))  # ψ_0^(k−1) − 1
    others = up + rest + up * rest
    fixed = (1 + others) * lost * dealt * (1 + empty)
    sooner = float((one - none) / ((1 + one) * (1 + none)))  # jumps less often with the value 0
    without = kept * (sooner * (1 + down) + share * jumped)
    held = kept * float(one / (1 + one)) * jumped
    noise = float(cell.data_probability) * (down + others + down * others)
    return UserParts(noise, (1 + others) * without + fixed, (1 + others) * held + fixed)
