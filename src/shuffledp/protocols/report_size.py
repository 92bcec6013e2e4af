"""K: how many messages every report carries, from the exact tail of the message count.

A report holds at most its input, Σ (2s + h + x) over the cells, and then its shares of noise: per
cell NB(1/n, ·) twice and Poi(λ/n) twice over. Equal cells add up to one law of each kind. Their
masses are multiplied out as polynomials in ball arithmetic, so that the chance of needing more
than K messages is known with certainty; K is the least number for which a union bound over a
whole batch stays below 2⁻⁶⁴.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from flint import arb, arb_poly, ctx

from shuffledp.exact.laws import Law, NegativeBinomial, Poisson
from shuffledp.exact.numbers import ball
from shuffledp.protocols.base import CellUse

OVERFLOW_BITS = 64
"""A batch overflows with probability at most 2⁻⁶⁴."""
PRECISION = 320
LONGEST_EXACT = 1 << 16
"""Longer reserves, too long for the service, are bounded by Chernoff's inequality alone."""
NEGLIGIBLE_BITS = 200


def most_input(uses: Sequence[CellUse]) -> int:
    """The most messages that a value itself can take: pairs of every cell, and the value."""
    pairs = sum((2 * use.cell.input_pairs + use.cell.stand_in) * use.copies for use in uses)
    return pairs + sum(use.cell.largest for use in uses)


def noise_laws(uses: Sequence[CellUse], share: Fraction) -> Iterator[tuple[Law, int]]:
    """(law, messages per unit) of the noise that a share of all users' noise consists of."""
    for use in uses:
        shape = share * use.copies
        for noise in (use.cell.plus_noise, use.cell.minus_noise):
            yield NegativeBinomial(shape, noise.decay), 1
        yield Poisson(shape * use.cell.flood_mean), 2


def masses(law: Law, step: int, most: int) -> arb_poly:
    """P(step·X = k) for k = 0..most, as a polynomial; from where they fall below 2⁻²⁰⁰, 0."""
    coefficients = [arb(0)] * (most + 1)
    mass, negligible = law.pmf(0), arb(2) ** -NEGLIGIBLE_BITS
    for k in range(most // step + 1):
        coefficients[k * step] = mass
        ratio = law.ratio(k)
        mass = mass * ratio
        if mass < negligible and ratio < 1:  # and so it stays: ratios only fall, or rise to e^−d
            break
    return arb_poly(coefficients)


def noise_tail(uses: Sequence[CellUse], most: int) -> list[arb]:
    """P(a user's noise takes more than k messages) for k = 0..most, in balls that may lie above it
    by masses that were left out, never below."""
    with ctx.workprec(PRECISION):
        product = arb_poly([1])
        for law, step in noise_laws(uses, Fraction(1, uses[0].cell.users)):
            full = (product * masses(law, step, most)).coeffs()
            product = arb_poly(full[: most + 1])
        tails, below = [], arb(0)
        for mass in product.coeffs() + [arb(0)] * (most + 1 - product.length()):
            below = below + mass
            tails.append(1 - below)
        return tails


@lru_cache(maxsize=64)
def report_size(uses: tuple[CellUse, ...], reports: int) -> int:
    """K for batches of so many reports.

    Ensures: reports · P(a report needs more than K messages) ≤ 2⁻⁶⁴, whatever the values, in ball
    arithmetic; up to `LONGEST_EXACT` messages of reserve no smaller K was shown to do.
    """
    laws = list(noise_laws(uses, Fraction(1, uses[0].cell.users)))
    reserve = chernoff_capacity(laws, reports)
    if reserve <= LONGEST_EXACT:
        tails = noise_tail(uses, reserve)
        with ctx.workprec(PRECISION):
            limit = arb(2) ** -OVERFLOW_BITS / reports
            reserve = next((k for k, tail in enumerate(tails) if tail <= limit), reserve)
    return most_input(uses) + reserve


def top_up_capacity(uses: Sequence[CellUse], share: Fraction) -> int:
    """How many messages a noise top-up is filled up to, so that its size says nothing.

    Ensures: a share of all users' noise needs more with probability at most 2⁻⁶⁴.
    """
    return chernoff_capacity(list(noise_laws(uses, share)), 1)


def chernoff_capacity(laws: list[tuple[Law, int]], reports: int) -> int:
    """A number of messages that the noise of one of so many reports exceeds with probability at
    most 2⁻⁶⁴, by the bound e^(−tk)·E[e^(tN)] in ball arithmetic, at a t that floats propose."""
    decay = min(float(law.decay) for law, _ in laws if isinstance(law, NegativeBinomial))
    top = min(decay, 8.0)  # a thinned plan may have a decay beyond any use
    best = min(
        (top * place / 200 for place in range(1, 200)),
        key=lambda t: float(_chernoff(laws, t, reports)),
    )
    with ctx.workprec(PRECISION):
        return math.ceil(float(_chernoff(laws, best, reports).upper())) + 1


def _chernoff(laws: list[tuple[Law, int]], t: float, reports: int) -> arb:
    """The k at which Chernoff's bound, for all reports together, reaches 2⁻⁶⁴."""
    exponent = OVERFLOW_BITS * arb(2).log() + arb(reports).log()
    for law, step in laws:
        exponent += _log_moment(law, arb(t) * step)
    return exponent / arb(t)


def _log_moment(law: Law, t: arb) -> arb:
    """ln E[e^(tX)]."""
    if isinstance(law, Poisson):
        return ball(law.rate) * t.expm1()
    assert isinstance(law, NegativeBinomial)
    below, shifted = -(-ball(law.decay)).expm1(), -(t - ball(law.decay)).expm1()
    return ball(law.shape) * (below / shifted).log()
