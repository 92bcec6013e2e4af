"""The law and the moments of a bounded cell in fractions, whose length grows with the cuts."""

from __future__ import annotations

from fractions import Fraction

from flint import fmpq, fmpq_poly

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.law import Moments, masses_in, moments_in
from shuffledp.numbers.finite import CutNegativeBinomial


def exact_moments(cell: BoundedCell) -> Moments:
    """The moments of one user's v."""
    return moments_in(cell, lambda number: number, CutNegativeBinomial.exact_moments)


def exact_message_masses(cell: BoundedCell, value: int) -> list[Fraction]:
    """P(a user with this value sends k messages) for k = 0..K."""

    def rational(number: Fraction) -> fmpq:
        return fmpq(number.numerator, number.denominator)

    def noise(law: CutNegativeBinomial) -> list[fmpq]:
        return [rational(mass) for mass in law.masses()]

    masses = masses_in(cell, value, rational, noise, fmpq_poly)
    return [Fraction(int(mass.p), int(mass.q)) for mass in masses]
