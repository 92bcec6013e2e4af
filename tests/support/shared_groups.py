"""Groups of cells that share their way up, with odds at the limit of what is proved (MATH §18)."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb, prod

from shuffledp.cells.bounded.direction import Direction
from shuffledp.cells.digits.cell import SharedCell, Together
from shuffledp.numbers.exact import round_to

F = Fraction
TINY = F(1, 2**50)


def just_above(odds: F) -> F:
    """By less than a part in 10⁸ more, with few digits, so that exact products stay short."""
    return round_to(float(odds) * (1 + 1e-9), 9, up=True)


def mass_after(decay: F, users: int, cut: int) -> F:
    """c_{cut+1}: the first mass that the cut removes."""
    mass = F(1)
    for j in range(cut + 1):
        mass *= decay * (F(1, users) + j) / (j + 1)
    return mass


def equal_cuts_odds(decay: F, users: int, cut: int, largest: int) -> tuple[F, ...]:
    """The odds of a bounded direction with equal cuts, just above what is asked."""
    first = users * mass_after(decay, users, cut) / (1 - decay**largest)
    return tuple(just_above(first * decay ** (y - 1)) for y in range(1, largest + 1))


def own_odds(decay: F, users: int, cut: int, largest: int, others: int) -> tuple[F, ...]:
    return tuple(others * odds for odds in equal_cuts_odds(decay, users, cut, largest))


def stray_odds(decays: Sequence[F], users: int, cut: int, largest: Sequence[int]) -> tuple[F, ...]:
    """s_2..s_k, just above what is asked."""
    k, rho = len(decays), F(1)
    for i in range(1, cut + 1):
        rho *= 1 + F(1, users * i)
    spare = min(1 - decay**d for decay, d in zip(decays, largest, strict=True))
    codes = prod(d + 1 for d in largest)
    found = []
    for q in range(2, k + 1):
        ways = comb(k, q) * comb(cut, q - 1) * codes
        odds = users * (rho / users) ** q * max(decays) ** (cut + 1) * ways
        found.append(just_above(odds / ((cut + 2 - q) * spare)))
    return tuple(found)


def silent(largest: int) -> Direction:
    """A way down that does nothing: it gives the way up no cover. It is not private."""
    return Direction(epsilon=F(20), decay=F(1, 2), cut=0, muted_cut=0, odds=(TINY,) * largest)


def downwards(users: int, largest: int, decay: F, cut: int) -> Direction:
    """A way down with odds at its limit."""
    odds = equal_cuts_odds(decay, users, cut, largest)
    return Direction(epsilon=F(20), decay=decay, cut=cut, muted_cut=cut, odds=odds)


def fitted(cells: Sequence[SharedCell]) -> list[SharedCell]:
    """The cells, each told the truth about the others' odds."""
    total = sum((sum(cell.up.odds) for cell in cells), start=F(0))
    return [
        replace(
            cell, together=replace(cell.together, other_odds=total - sum(cell.up.odds, start=F(0)))
        )
        for cell in cells
    ]


def group(
    users: int,
    largest: Sequence[int],
    cut: int,
    decays: Sequence[F],
    downs: Sequence[Direction] | None = None,
) -> list[SharedCell]:
    """Cells with all odds at the limit; without ways down unless they are given."""
    codes = prod(d + 1 for d in largest)
    stray = stray_odds(decays, users, cut, largest)
    cells = []
    for place, (d, decay) in enumerate(zip(largest, decays, strict=True)):
        others = codes // (d + 1)
        up = Direction(
            epsilon=F(20),
            decay=decay,
            cut=cut,
            muted_cut=cut,
            odds=own_odds(decay, users, cut, d, others),
        )
        together = Together(
            cells=len(largest), others=others, decay=max(decays), other_odds=F(1), stray_odds=stray
        )
        down = silent(d) if downs is None else downs[place]
        cells.append(SharedCell(users=users, largest=d, up=up, down=down, together=together))
    return fitted(cells)
