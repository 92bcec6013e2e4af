"""The proof that a pooled cell is private, for these exact parameters (docs/mathematics.md §22).

Let r = 1/m and s_t = β_u^t·(B·r)_t/t!. Replacing any user's label by another one costs at most
ln 1/(β_u·β_d) among m or more users if

    (i)    R ≥ β_d·m·s_(Z+1)/(1 − β_u·β_d),
    (ii)   β_u ≤ κ ≤ 1,
    (iii)  a rule of the bounded cell holds downwards, for β_d, z, w, o and κ.

The two parts of the loss are counted separately, as up and down: ln 1/β_u ≤ up, ln 1/β_d ≤ down.
Every comparison is made in ball arithmetic, whose precision is raised until it is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

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
from shuffledp.cells.pooled.cell import PooledCell
from shuffledp.numbers.exact import ball

POOLED = "pooled way up"
DROP = "β_d·m·s_(Z+1) / ((1 − β_u·β_d)·R) ≤ 1"


def prove(
    cell: PooledCell,
    up: Fraction,
    down: Fraction,
    progress: Callable[[int], None] | None = None,
) -> BoundedProof:
    """The proof that replacing a user's label by another one costs at most `up` + `down`.

    Requires: at least `cell.users` users take part, each an exact draw of the randomizer of a
    `PooledBuckets` group.
    Ensures: as `cells.bounded.proof.prove`.
    """
    exponent = loss_exponent(cell, "up", cell.up, up)
    found = decide(cell, "up", cell.up, exponent, {POOLED: pooled_way_up(cell)})
    return BoundedProof(
        cell.buckets * cell.base + 2 * cell.up.cut + 1,
        replace(found, share=found.inequalities[0].left),  # drops that the cut uses up
        prove_direction(cell, "down", cell.down, down),
    )


def pooled_way_up(cell: PooledCell) -> Rule:
    """The inequality for the odds with which labels are dropped."""

    def inequalities(scale: Scale, share: arb) -> Iterator[Inequality]:
        up, down = ball(cell.up.decay), ball(cell.down.decay)
        term, shape = arb(1), scale.r * cell.buckets
        for t in range(cell.up.cut + 1):
            term *= up * (shape + t) / (t + 1)
        left = down * cell.users * term / ((1 - up * down) * ball(cell.drop_odds))
        yield Inequality(DROP, left)

    return inequalities
