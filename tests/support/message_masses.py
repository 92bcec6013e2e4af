"""How likely a user is to send each number of messages: in fractions, or in balls of the working
precision. The laws of a cell's error are checked against these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from flint import arb, arb_poly, fmpq, fmpq_poly

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.law import Moments, moments_in
from shuffledp.cells.digits.cell import SharedCell
from shuffledp.cells.digits.law import stray_masses
from shuffledp.cells.pooled.cell import PooledCell
from shuffledp.cells.sparse.cell import UrnCell
from shuffledp.cells.sparse.law import masses_in
from shuffledp.cells.urn import urn_masses
from shuffledp.numbers.exact import ball
from shuffledp.numbers.finite import CutNegativeBinomial


def exact_moments(cell: BoundedCell) -> Moments:
    """The moments of one user's v, in fractions."""
    return moments_in(cell, lambda number: number, CutNegativeBinomial.exact_moments)


def exact_message_masses(cell: BoundedCell, value: int) -> list[Fraction]:
    """P(a user with this value sends k messages) for k = 0..K, in fractions."""

    def rational(number: Fraction) -> fmpq:
        return fmpq(number.numerator, number.denominator)

    def noise(law: CutNegativeBinomial) -> list[fmpq]:
        return [rational(mass) for mass in law.masses()]

    masses = _of_bounded(cell, value, rational, noise, fmpq_poly)
    return [Fraction(int(mass.p), int(mass.q)) for mass in masses]


def message_masses(cell: BoundedCell | SharedCell | PooledCell, value: int) -> list[arb]:
    """P(a user with this value sends k messages to the cell) for k = 0.., in balls."""
    if isinstance(cell, SharedCell):
        return _of_shared(cell, value)
    if isinstance(cell, PooledCell):
        return _of_pooled(cell, value)
    return _of_bounded(cell, value, ball, _noise, arb_poly)


def _noise(law: CutNegativeBinomial) -> list[arb]:
    return [law.pmf(k) for k in range(law.cut + 1)]


def _of_bounded(
    cell: BoundedCell,
    value: int,
    number: Callable[[Fraction], Any],
    noise: Callable[[CutNegativeBinomial], list[Any]],
    polynomial: Callable[[Sequence[Any]], Any],
) -> list[Any]:
    """In numbers of this kind."""
    zero = number(Fraction(0))

    def branch(offset: int, weights: Sequence[Fraction], up: list[Any], down: list[Any]) -> Any:
        """t^offset · weights · up noise · reversed down noise."""
        chances = [number(cell.data_probability * weight) for weight in weights]
        jump = polynomial([zero] * offset + chances)
        return jump * polynomial(up) * polynomial(down[::-1])

    up, down = noise(cell.up_noise), noise(cell.down_noise)
    muted_up, muted_down = noise(cell.up_muted_noise), noise(cell.down_muted_noise)
    below = cell.down.muted_cut
    up_odds, down_odds = cell.odds_at(value)
    product = (
        branch(below + value, [Fraction(1)], up, down)
        + branch(below + cell.up.cut + 1, up_odds, muted_up, down)
        + branch(0, down_odds[::-1], up, muted_down)
    )
    masses = list(product.coeffs())
    return masses + [zero] * (cell.most_messages + 1 - len(masses))


def _of_shared(cell: SharedCell, value: int) -> list[arb]:
    d, z, below = cell.largest, cell.up.cut, cell.down.muted_cut
    up = arb_poly(_noise(cell.up_noise))
    stays = ball(1 / (1 + cell.down_odds))
    jumps = arb_poly([stays * ball(o) for o in cell.down.odds[::-1]])
    jumps *= arb_poly(_noise(cell.down_muted_noise)[::-1])
    stay = arb_poly([stays * mass for mass in _noise(cell.down_noise)[::-1]])

    def through(weights: list[arb]) -> arb_poly:
        """The way down of values with these weights."""
        total = sum(weights, arb(0))
        return arb_poly([arb(0)] * below + weights) * stay + total * jumps

    own = ball(1 / (1 + cell.up_odds))
    one = through([arb(0)] * value + [own])
    jumped = through([own * ball(o) for o in cell.up.odds]) * arb_poly(
        [arb(0)] * (z + 1) + [arb(1)]
    )
    strays = [ball(mass) for mass in stray_masses(cell)]
    strays[0] += ball(cell.way_up.other_odds)
    uniform = through([own / (d + 1)] * (d + 1)) * arb_poly(strays)
    masses = list((up * (one + jumped + uniform)).coeffs())
    return masses + [arb(0)] * (cell.most_messages + 1 - len(masses))


def _of_pooled(cell: PooledCell, value: int) -> list[arb]:
    noise, dealt = urn_masses(
        cell, cell.up.cut, cell.together, ball(Fraction(1, cell.users)), ball(cell.up.decay)
    )
    w = cell.down.muted_cut

    def through(x: int) -> arb_poly:
        odds = cell.jump_odds(x)
        stay = [ball(1 / (1 + odds)) * mass for mass in _noise(cell.down_noise)[::-1]]
        jump = [ball(odds / (1 + odds)) * mass for mass in _noise(cell.down_muted_noise)[::-1]]
        return arb_poly([arb(0)] * (w + x) + stay) + arb_poly(jump)

    none, one = through(0), through(1)
    others = arb_poly([1])
    for _ in range(cell.together - 1):
        others = others * none
    dropped = cell.drop_odds / (1 + cell.drop_odds)
    kept = (one if value else none) * ball(1 - dropped)
    lost = none * arb_poly(dealt) * ball(dropped)
    masses = list((arb_poly(noise) * others * (kept + lost)).coeffs())
    return masses + [arb(0)] * (cell.most_messages + 1 - len(masses))


def token_masses(cell: UrnCell) -> list[Fraction]:
    """P(a user without a value sends k tokens) for k = 0..K."""
    noise, jump = cell.noise.masses(), cell.jump
    jumped = [Fraction(0)] * (cell.cut + 1) + (noise if cell.keeps_noise else [Fraction(1)])
    kept = [*noise, *[Fraction(0)] * (len(jumped) - len(noise))]
    return [(1 - jump) * a + jump * b for a, b in zip(kept, jumped, strict=True)]


def exact_masses(cell: UrnCell) -> tuple[list[Fraction], list[Fraction]]:
    """(P₀, P₁): P(k tokens in a bucket) for k = 0..K, of a user that does not hold it and of one
    that does, exactly."""
    noise, jumped = masses_in(cell, Fraction(1, cell.users), cell.decay)
    noise, moved = [*noise, Fraction(0)], [Fraction(0), *noise]
    p, q, o = cell.data, cell.muted, cell.jump
    without = [(1 - o) * a + o * c for a, c in zip(noise, jumped, strict=True)]
    held = [p * b + q * a + o * c for a, b, c in zip(noise, moved, jumped, strict=True)]
    return without, held
