"""How many messages a report needs, from the exact tail of the number that a user sends.

The number of messages is a sum of independent parts. Their masses are multiplied out as
polynomials in ball arithmetic, so the probability of needing more than K messages has a certain
bound; K is the least number for which a union bound over a whole batch stays below 2⁻⁶⁴.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, arb_poly, ctx

from shuffledp.numbers.deadline import check_time
from shuffledp.numbers.exact import ball
from shuffledp.numbers.laws import Law, NegativeBinomial, Poisson

OVERFLOW_BITS = 64
"""A batch overflows with probability at most 2⁻⁶⁴."""
PRECISION_BITS = 320
LONGEST_EXACT = 1 << 16
"""Longer reserves are too long for the service; Chernoff's inequality alone bounds them."""
NEGLIGIBLE_BITS = 200
LARGEST_TILT = 8.0


@dataclass(frozen=True)
class NoiseMessages:
    """The law of one independent part of a user's number of messages: groups of `step`, of which
    there are as many as a noise law says."""

    law: NegativeBinomial | Poisson
    step: int = 1

    @property
    def tilt_limit(self) -> float:
        """E[e^(tN)] is finite for every t below this."""
        if isinstance(self.law, NegativeBinomial):
            return float(self.law.decay) / self.step
        return math.inf

    def masses(self, most: int) -> arb_poly:
        """P(N = k) for k = 0..most as coefficients; negligible ones may be left out."""
        coefficients = [arb(0)] * (most + 1)
        law: Law = self.law
        mass, negligible = law.pmf(0), arb(2) ** -NEGLIGIBLE_BITS
        for k in range(most // self.step + 1):
            coefficients[k * self.step] = mass
            ratio = law.ratio(k)
            mass = mass * ratio
            if mass < negligible and ratio < 1:  # ratios fall, or rise to e^−decay: so it stays
                break
        return arb_poly(coefficients)

    def log_moment(self, t: arb) -> arb:
        """ln E[e^(tN)]."""
        t = t * self.step
        if isinstance(self.law, Poisson):
            return ball(self.law.rate) * t.expm1()
        below, shifted = -(-ball(self.law.decay)).expm1(), -(t - ball(self.law.decay)).expm1()
        return ball(self.law.shape) * (below / shifted).log()


def tails(laws: Sequence[NoiseMessages], most: int) -> list[arb]:
    """P(the sum of the parts exceeds k) for k = 0..most, in balls that may be above it by the
    omitted masses, but never below."""
    with ctx.workprec(PRECISION_BITS):
        product = arb_poly([1])
        for law in laws:
            full = (product * law.masses(most)).coeffs()
            product = arb_poly(full[: most + 1])
        found, below = [], arb(0)
        for mass in product.coeffs() + [arb(0)] * (most + 1 - product.length()):
            below = below + mass
            found.append(1 - below)
        return found


def least_capacity(laws: Sequence[NoiseMessages], reports: int) -> int:
    """The least k that any of `reports` reports exceeds with probability at most 2⁻⁶⁴.

    Ensures: reports · P(N > k) ≤ 2⁻⁶⁴ in ball arithmetic; up to `LONGEST_EXACT` no smaller k was
    shown to suffice.
    """
    bound = chernoff_capacity(laws, reports)
    if bound > LONGEST_EXACT:
        return bound
    found = tails(laws, bound)
    with ctx.workprec(PRECISION_BITS):
        limit = arb(2) ** -OVERFLOW_BITS / reports
        return next((k for k, tail in enumerate(found) if tail <= limit), bound)


def chernoff_capacity(laws: Sequence[NoiseMessages], reports: int) -> int:
    """A number that the sum exceeds in any of `reports` reports with probability at most 2⁻⁶⁴, by
    the bound e^(−tk)·E[e^(tN)] in ball arithmetic, at a t that floats propose."""
    top = min([LARGEST_TILT, *(law.tilt_limit for law in laws)])
    best = min(
        (top * step / 200 for step in range(1, 200)),
        key=lambda t: float(_chernoff(laws, t, reports)),
    )
    with ctx.workprec(PRECISION_BITS):
        return max(0, math.ceil(float(_chernoff(laws, best, reports).upper())) + 1)


def _chernoff(laws: Sequence[NoiseMessages], t: float, reports: int) -> arb:
    """The k at which Chernoff's bound, for all reports together, reaches 2⁻⁶⁴."""
    exponent = OVERFLOW_BITS * arb(2).log() + arb(reports).log()
    for law in laws:
        check_time()
        exponent += law.log_moment(arb(t))
    return exponent / arb(t)
