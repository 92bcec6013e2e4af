"""What reports of two sizes would save, and what the rare long report would show the shuffler.

    python scripts/spill.py

A report would carry B messages, or K in the rare draw that needs more than B. Which of the two it
is depends on the value: P(long | 1) : P(long | 0) is computed here from the exact tail of the
noise, for counts at ε = 1. docs/decisions/0007 says why such reports are not built.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, arb_poly, ctx

from shuffledp import plan_count
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.numbers.exact import ball
from shuffledp.numbers.laws import NegativeBinomial
from shuffledp.numbers.message_law import PRECISION_BITS, NoiseMessages, tails
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate

PLANNERS: dict[str, Callable[[int], Plan[Estimate]]] = {
    "MSE within 1 + 1/2": lambda users: plan_count(users, 1, mse_overhead="1/2"),
    "MSE within 1 + 2": lambda users: plan_count(users, 1, mse_overhead=2),
    "1 + 1/2, or within 1 %": lambda users: plan_count(users, 1, relative_error="0.01"),
}


def long_chances(plan: Plan[Estimate]) -> list[tuple[int, arb, arb]]:
    """(B, P(long | 1), P(long | 0)) for every B between a value's own messages and K."""
    (cell,), most = plan.protocol.cells, plan.report_size
    assert isinstance(cell, PaperCell)  # its reports have no longest one
    _, noise = cell.message_laws(copies=1)
    tail, q = tails(noise, most), ball(cell.mute_probability)
    own = 2 * cell.input_pairs
    return [
        (short, *((1 - q) * tail[short - own - value] + q * tail[short] for value in (1, 0)))
        for short in range(own + 1, most)
    ]


def shortest(plan: Plan[Estimate]) -> tuple[int, arb, arb]:
    """The least B from which on a long report changes the odds by e^ε at most."""
    limit = ball(plan.epsilon).exp()
    found: tuple[int, arb, arb] | None = None
    for chances in reversed(long_chances(plan)):
        _, one, zero = chances
        if not one / zero <= limit:
            break
        found = chances
    assert found is not None
    return found


def cut_noise(users: int, decay: int, cut: int, most: int) -> list[arb]:
    """P(all users' noise = k) for k = 0..most, given that nobody's share exceeds `cut`."""
    share = NoiseMessages(NegativeBinomial(Fraction(1, users), Fraction(decay))).masses(cut)
    product, power = arb_poly([1]), share * (1 / share(arb(1)))
    while users:
        if users & 1:
            product = arb_poly((product * power).coeffs()[: most + 1])
        power = arb_poly((power * power).coeffs()[: most + 1])
        users >>= 1
    return list(product.coeffs())


def print_losses() -> None:
    """How much faster than e^(−a) per step the noise falls when nobody is long."""
    with ctx.workprec(PRECISION_BITS):
        law = cut_noise(10**4, 1, 16, 80)
        for k in (10, 16, 17, 40):
            loss, rest = float((law[k] / law[k + 1]).log()), float(sum(law[k:], arb(0)))
            print(
                f"n = 10,000, a = 1, shares cut at 16: from {k} to {k + 1} a loss of {loss:.3f}; "
                f"{rest:.1g} of the noise lies from {k} on"
            )


def main() -> None:
    print(f"{'target':<24}{'n':>10}{'K':>6}{'B':>6}{'ln odds':>9}{'long reports per batch':>24}")
    for words, planner in PLANNERS.items():
        for users in (10**4, 10**6):
            plan = planner(users)
            with ctx.workprec(PRECISION_BITS):
                short, one, zero = shortest(plan)
                odds, often = float((one / zero).log()), float(users * one)
            print(
                f"{words:<24}{users:>10,}{plan.report_size:>6}{short:>6}{odds:>9.3f}{often:>24.2g}"
            )
    print_losses()


if __name__ == "__main__":
    main()
