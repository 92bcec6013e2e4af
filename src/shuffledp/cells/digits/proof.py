"""The proof that a shared cell is private, for these very numbers (docs/mathematics.md §18).

Downwards it is a bounded cell. Upwards, with Z the cut, k cells, N combinations of the other cells'
values, β* the largest β upwards of all cells, r = 1/users, ρ_Z = (1+r)(1+r/2)⋯(1+r/Z),
A = 1 − β^D, and φ as for a bounded cell with equal cuts, a change costs at most D·ln(1/β) if

    N·φ ≤ 1, and for every q = 2..k:
    users·(rρ_Z)^q·β*^(Z+1)·C(k,q)·C(Z,q−1)·N(D+1) ≤ (Z+2−q)·A·s_q.

That the cells of a protocol fit together is checked by `SharedCell.check_together`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from shuffledp.cells.bounded.proof import (
    BoundedProof,
    decide,
    loss_exponent,
    prove_direction,
    refuse,
)
from shuffledp.cells.bounded.rules import SHARED, shared_way_up
from shuffledp.cells.digits.cell import SharedCell


def prove(
    cell: SharedCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> BoundedProof:
    """The proof that a larger value instead of a smaller one costs at most `up`, and a smaller one
    instead of a larger one at most `down`, whatever the other cells of the user hold.

    Requires: at least `cell.users` users take part, each an exact draw of the randomizer of all
    cells together, and `check_together` accepts the cells.
    Ensures: as `bounded_proof.prove`.
    """
    if cell.together.decay < cell.up.decay:
        refuse(
            "The noise upwards falls more slowly than the cells together say; give them the "
            "largest decay of all cells.",
            {"decay": str(cell.up.decay), "together": str(cell.together.decay)},
        )
    exponent = loss_exponent(cell, "up", cell.up, up)
    rules = {SHARED: shared_way_up(cell.together)}
    return BoundedProof(
        cell.most_messages,
        decide(cell, "up", cell.up, exponent, rules),
        prove_direction(cell, "down", cell.down, down),
    )
