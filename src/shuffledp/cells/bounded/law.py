"""What one user of a bounded cell sends: its exact law and moments (MATH §12, §21).

A user with value x sends z_d + w_d + v messages. With P the chance of the data branch and A_k, B_k
the generating functions of the up and down noise cut at k, the number sent has the generating
function

    P · [ t^(w_d+x)·A_z·B̃_z  +  t^(w_d+z_u)·Σ o^u_y t^y·A_w·B̃_z  +  Σ o^d_y t^(D−y)·A_z·B̃_w ],

where B̃_k is B_k with its coefficients in reverse order. Its mean is affine and its variance a
quadratic in x, whose leading coefficient is P(1−P): only muting makes the error depend on x. Where
the odds depend on x, which is 0 or 1, two laws have two means and variances, and E[v|1] − E[v|0]
takes the place of P.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flint import ctx

from shuffledp.numbers.exact import ball
from shuffledp.numbers.finite import CutNegativeBinomial

if TYPE_CHECKING:
    from shuffledp.cells.bounded.cell import BoundedCell, Direction


@dataclass(frozen=True, kw_only=True)
class Moments:
    """E[v | x] = kept·x + shift and Var[v | x] = kept(1−kept)·x² + slope·x + spread for every value
    x, in fractions or in balls."""

    kept: Any
    shift: Any
    slope: Any
    spread: Any

    @property
    def lost(self) -> Any:
        """1 − kept; without cancellation in balls alone."""
        return 1 - self.kept

    def variance(self, users: int, total: Any, squares: Any) -> Any:
        """The variance of the sum of v over users with these sums of x and x²."""
        muting = self.kept * (1 - self.kept) * squares
        return muting + self.slope * total + self.spread * users


def moments(cell: BoundedCell) -> Moments:
    """The moments of one user's v, in balls of the working precision."""
    return _moments_at(cell, ctx.prec)


@lru_cache(maxsize=256)
def _moments_at(cell: BoundedCell, bits: int) -> Moments:
    assert bits == ctx.prec
    return moments_in(cell, ball, CutNegativeBinomial.moments)


def moments_in(
    cell: BoundedCell,
    number: Callable[[Fraction], Any],
    noise_moments: Callable[[CutNegativeBinomial], tuple[Any, Any]],
) -> Moments:
    """The moments of one user's v, in numbers of this kind."""
    up, up_variance = noise_moments(cell.up_noise)
    down, down_variance = noise_moments(cell.down_noise)
    up_muted, up_muted_variance = noise_moments(cell.up_muted_noise)
    down_muted, down_muted_variance = noise_moments(cell.down_muted_noise)
    sent, noise = number(cell.data_probability), up - down
    branches = (
        (cell.up_jump, up_muted - down, up_muted_variance + down_variance),
        (cell.down_jump, up - down_muted, up_variance + down_muted_variance),
    )

    def at(x: int) -> tuple[Any, Any]:
        """E[v | x] and Var[v | x]."""
        mean = sent * (x + noise)
        square = sent * ((x + noise) * (x + noise) + up_variance + down_variance)
        for odds, (jump, centre, variance) in zip(cell.odds_at(x), branches, strict=True):
            weight, first, second = (
                number(cell.data_probability * sum(o * jump(y) ** k for y, o in enumerate(odds, 1)))
                for k in range(3)
            )
            mean = mean + first + weight * centre
            square = square + second + 2 * centre * first + weight * (centre * centre + variance)
        return mean, square - mean * mean

    mean, spread = at(0)
    if not cell.by_value:
        slope = 2 * sent * (noise - mean)
        return Moments(kept=sent, shift=mean, slope=slope, spread=spread)
    one, other_spread = at(1)
    kept = one - mean
    slope = other_spread - spread - kept * (1 - kept)
    return Moments(kept=kept, shift=mean, slope=slope, spread=spread)


def noise_law(direction: Direction, cut: int, users: int) -> CutNegativeBinomial:
    """One user's share of a direction's noise, cut at `cut`."""
    return CutNegativeBinomial(Fraction(1, users), direction.decay, cut)
