"""The constants of [GKM23] as printed, for comparison (proof of its near-optimal theorem).

    ε′ = ε − 0.01 ρ min(ε, 1),   q = 0.1 ρ Var(DLap(ε))/n,
    s ≥ 2 ln(1/((e^ε − 1) q))/(ε − ε′),   λ ≥ e^(ε−ε′)/(1 − e^((ε′−ε)/2)) · s

Erratum 3: for small ε the bias q²n² of the printed analyzer exceeds what the proof allows it, so
the recipe misses its own error; that is flagged. Erratum 4: q may reach 1; that is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import ball, round_to, sign, to_float
from shuffledp.numbers.laws import DiscreteLaplace


@dataclass(frozen=True, kw_only=True)
class PrintedRecipe:
    """The paper's parameters, their cost, and whether they achieve the error that the paper
    claims."""

    cell: PaperCell
    messages_per_user: float
    rmse: float
    """Of the printed analyzer, Σy, which is biased by q·count (erratum 7), at the worst count."""
    keeps_its_error: bool
    """False if the error exceeds (1 + ρ)·Var(DLap(ε)): erratum 3."""


def printed_recipe(users: int, epsilon: Fraction, mse_overhead: Fraction) -> PrintedRecipe:
    """The recipe for ρ = `mse_overhead` in (0, 1/2]."""
    if not 0 < mse_overhead <= Fraction(1, 2):
        raise PlanningError("The paper's constants are stated for an MSE overhead in (0, 1/2].")
    inner = epsilon - mse_overhead * min(epsilon, Fraction(1)) / 100
    variance = to_float(lambda: DiscreteLaplace(epsilon).variance())
    q = round_to(float(mse_overhead) * variance / (10 * users), 9, up=True)
    if q >= 1:
        raise PlanningError(
            f"The paper's constants give a muting probability of {float(q):.3g} here, "
            "which is none (erratum 4); they need more users or a larger epsilon."
        )
    gap = float(epsilon - inner)
    pairs = max(1, math.ceil(-2 * math.log(math.expm1(float(epsilon)) * float(q)) / gap))
    flood = math.exp(gap) / -math.expm1(-gap / 2) * pairs * (1 + 1e-12)
    cell = PaperCell(
        users=users,
        largest=1,
        up_epsilon=inner,
        down_epsilon=inner,
        mute_probability=q,
        input_pairs=pairs,
        flood_mean=round_to(flood, 9, up=True),
    )
    left = sign(lambda: _allowed(epsilon, mse_overhead) - _printed_error(cell))[0]
    return PrintedRecipe(
        cell=cell,
        messages_per_user=to_float(cell.messages_per_user),
        rmse=to_float(lambda: _printed_error(cell).sqrt()),
        keeps_its_error=left > 0,
    )


def _allowed(epsilon: Fraction, mse_overhead: Fraction) -> arb:
    return ball(1 + mse_overhead) * DiscreteLaplace(epsilon).variance()


def _printed_error(cell: PaperCell) -> arb:
    """Var(DLap(ε′)) + qn + q²n(n−1): the error of Σy if every user has the value 1."""
    q, n = cell.mute_probability, cell.users
    return DiscreteLaplace(cell.up_epsilon).variance() + ball(q * n + q * q * n * (n - 1))
