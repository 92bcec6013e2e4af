"""The proof that shared cells are private, for these exact parameters (docs/mathematics.md §18).

Downwards each is a bounded cell. Upwards, with Z the cut, k cells, N combinations of the other
cells' values, β* the largest β upwards of all cells, r = 1/users, ρ_Z = (1+r)(1+r/2)⋯(1+r/Z),
A = 1 − β^D, and φ as for a bounded cell with equal cuts, a change costs at most D·ln(1/β) if

    N·φ ≤ 1, and for every q = 2..k:
    users·(rρ_Z)^q·β*^(Z+1)·C(k,q)·C(Z,q−1)·N(D+1) ≤ (Z+2−q)·A·s_q.

That the cells of a group fit together is checked by `SharedDigits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import comb

from flint import arb

from shuffledp.cells.bounded.proof import (
    BoundedProof,
    Inequality,
    Rule,
    Scale,
    decide,
    loss_exponent,
    prove_direction,
)
from shuffledp.cells.digits.cell import SharedCell, SharedWayUp
from shuffledp.errors import PrivacyViolation
from shuffledp.numbers.exact import ball

SHARED = "shared way up"
OWN_JUMP = "N·φ ≤ 1"
STRAY_JUMP = "m(rρ_Z)^q β*^(Z+1) C(k,q) C(Z,q−1) N(D+1) / ((Z+2−q) A s_q) ≤ 1"


def prove(
    cell: SharedCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> BoundedProof:
    """The proof that a larger value instead of a smaller one costs at most `up`, and a smaller one
    instead of a larger one at most `down`, whatever the other cells of the user hold.

    Requires: at least `cell.users` users take part, each an exact draw of the randomizer of a
    `SharedDigits` group that has this cell.
    Ensures: as `cells.bounded.proof.prove`.
    """
    if cell.way_up.decay < cell.up.decay:
        raise PrivacyViolation(
            "The noise upwards falls more slowly than the cells' common decay; set it to the "
            "largest decay of all cells.",
            {"decay": str(cell.up.decay), "together": str(cell.way_up.decay)},
        )
    exponent = loss_exponent(cell, "up", cell.up, up)
    rules = {SHARED: shared_way_up(cell.way_up)}
    return BoundedProof(
        cell.most_messages,
        decide(cell, "up", cell.up, exponent, rules),
        prove_direction(cell, "down", cell.down, down),
    )


def shared_way_up(way_up: SharedWayUp) -> Rule:
    """The jumps of cells that share their way up: a cell's own, and the stray ones."""

    def inequalities(scale: Scale, share: arb) -> Iterator[Inequality]:
        yield Inequality(OWN_JUMP, share * way_up.others)
        cut, k = scale.z, way_up.cells
        for parts, odds in enumerate(way_up.stray_odds, start=2):
            left = scale.users * (scale.r * scale.rho[cut]) ** parts
            left *= ball(way_up.decay) ** (cut + 1) * way_up.others * (scale.d + 1)
            left *= comb(k, parts) * comb(cut, parts - 1)
            yield Inequality(STRAY_JUMP, left / ((cut + 2 - parts) * scale.spare * ball(odds)))

    return inequalities
