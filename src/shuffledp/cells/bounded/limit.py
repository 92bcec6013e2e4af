"""The fewest messages of any cell with one kind of message, the same losses and the same error.

The proof is in MATH §12, "How far from the limit?". It is computed in floats, with a margin far
above their rounding errors in each comparison."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from shuffledp.numbers.exact import to_float

if TYPE_CHECKING:
    from shuffledp.cells.bounded.cell import CutCell

MARGIN = 1e-9
"""Margin for comparing logarithms."""
FINENESS = 1e-5
"""Relative step size of the search for the limit."""


def fewest_messages(cell: CutCell, loss: Fraction, copies: int) -> float:
    """A lower bound on the average number of messages that a user sends to `copies` such cells (the
    largest value in one, 0 in the others), if a change of a value costs at most `loss` and one
    user's estimate has at most the variance that it has here."""
    variance = to_float(lambda: cell.mean_squared_error(1)) * (1 + MARGIN)
    scale = min(1 / (4 * variance), 2 / (1 + math.sqrt(1 + 16 * variance)))
    held = least_offset(float(loss), variance / cell.largest**2)
    return scale * cell.largest * (copies * held + 1) * (1 - MARGIN)


def least_offset(loss: float, variance: float) -> float:
    """At most u, the mean at value 0 divided by the distance of the means at 0 and D.

    F(u) = max over τ of e^(−τu)(e^(−loss) − e^(−τ)) must be at most R(u) = v/((1+u)² + v). Both
    fall, so no u between two places is possible where F at the second exceeds R at the first."""

    def log_f(u: float) -> float:
        return -loss * (u + 1) + u * math.log(u) - (u + 1) * math.log1p(u)

    def log_r(u: float) -> float:
        return math.log(variance) - math.log((1 + u) ** 2 + variance)

    at, step = 0.0, 1e-3
    while step > FINENESS * max(at, FINENESS):
        if log_f(at + step) - log_r(at) > MARGIN:
            at, step = at + step, 1.5 * step
        else:
            step /= 2
    return at
