"""Exact inversion of a law: a uniform number whose bits are drawn on demand.

X is the number of cumulative probabilities F(first), F(first+1), … that are at most U, a uniform
number. U is drawn 64 bits at a time, and `arb` encloses F(k) more and more tightly, until the
comparison is certain (MATH §10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from flint import arb, ctx

from shuffledp.errors import Undecided
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.exact import LAST_PRECISION, at_precision, to_float
from shuffledp.numbers.laws import Law

MOST_STEPS = 256  # masses near an anchor are added one by one; distant ones are evaluated afresh
MOST_UNIFORM_BITS = 1 << 12  # more are needed with a probability of 2^−4000


def uniform_whole(size: int, entropy: Entropy) -> int:
    """A uniform integer in 0..size − 1, the same in every language (docs/protocol.md): ⌊U·size⌋.
    Another word of U is drawn only if the previous ones do not decide."""
    value, bits = entropy.bits(64), 64
    while True:
        found = value * size >> bits
        if (found + 1) << bits >= (value + 1) * size:
            return found
        value, bits = value << 64 | entropy.bits(64), bits + 64


@dataclass
class Uniform:
    """A uniform number in [0, 1) of which the leading `bits` bits are known."""

    value: int
    bits: int
    entropy: Entropy

    def below(
        self, threshold: Callable[[], arb], exactly: Callable[[], Fraction | None] = lambda: None
    ) -> bool:
        """Whether U < threshold, with as many bits of U as that takes. `exactly` returns the
        threshold itself if it is rational.

        Ensures: the answer is that of the infinitely long U. 64 more bits are drawn if and only if
        the threshold lies strictly between two neighbouring values of the known bits.
        """
        while (verdict := self._verdict(threshold, exactly)) is None:
            if self.bits > MOST_UNIFORM_BITS:
                raise Undecided(
                    f"A draw was not decided with {MOST_UNIFORM_BITS} random bits: its law cannot "
                    "be enclosed at these parameters; choose less extreme ones."
                )
            self.value = (self.value << 64) | self.entropy.bits(64)
            self.bits += 64
        return verdict

    def _verdict(
        self, threshold: Callable[[], arb], exactly: Callable[[], Fraction | None]
    ) -> bool | None:
        """Whether U < threshold, from the known bits; None if they do not decide."""
        precision = self.bits + 64
        while True:
            bound: arb | Fraction
            bound = at_precision(precision, lambda: threshold() * arb(2) ** self.bits)
            if bound >= self.value + 1:
                return True
            if bound <= self.value:
                return False
            if (bound > self.value and bound < self.value + 1) or precision > LAST_PRECISION:
                return None
            known = exactly()
            if known is not None:
                bound = known * 2**self.bits
                return True if bound >= self.value + 1 else False if bound <= self.value else None
            precision *= 2


def invert(law: Law, uniform: Uniform) -> int:
    """The value k with F(k−1) ≤ U < F(k). Floats propose where to look; `arb` decides."""
    guess = _guess(law, uniform)
    cdf = _near(law, guess)

    def below(k: int) -> bool:
        return uniform.below(lambda: cdf(k), lambda: law.exact_cdf(k))

    low, high = _bracket(law, below, guess)
    return first_whole(below, low, high)  # F(low) ≤ U < F(high)


def _near(law: Law, anchor: int) -> Callable[[int], arb]:
    """The cdf, from one evaluation at an anchor and sums of nearby masses: an incomplete beta
    function costs a thousand times as much as a step."""
    known: dict[int, dict[int, tuple[arb, arb]]] = {}

    def cdf(k: int) -> arb:
        inside = (law.first is None or k >= law.first) and (law.last is None or k <= law.last)
        if abs(k - anchor) > MOST_STEPS or not inside:
            return law.cdf(k)
        here = known.setdefault(ctx.prec, {anchor: (law.cdf(anchor), law.pmf(anchor))})
        for j in range(anchor + 1, k + 1):
            if j not in here:
                mass = here[j - 1][1] * law.ratio(j - 1)
                here[j] = here[j - 1][0] + mass, mass
        for j in range(anchor - 1, k - 1, -1):
            if j not in here:
                total, mass = here[j + 1]
                here[j] = total - mass, mass / law.ratio(j)
        return here[k][0]

    return cdf


def _guess(law: Law, uniform: Uniform) -> int:
    """A first guess of the value: the normal quantile of U, within the possible values."""
    middle = min(max((uniform.value + 0.5) / 2**uniform.bits, 1e-300), 1 - 2**-53)
    deviation = to_float(law.variance) ** 0.5
    guess = round(to_float(law.mean) + deviation * NormalDist().inv_cdf(middle))
    if law.first is not None:
        guess = max(guess, law.first)
    return int(guess if law.last is None else min(guess, law.last))


def _bracket(law: Law, below: Callable[[int], bool], guess: int) -> tuple[int, int]:
    """(low, high) with F(low) ≤ U < F(high), by doubling steps away from the guess."""
    step = 1
    if below(guess):
        low, high = guess - 1, guess
        while (law.first is None or low >= law.first) and below(low):
            low, high, step = low - step, low, 2 * step
        return low, high
    low, high = guess, guess + 1
    while not below(high):
        low, high, step = high, high + step, 2 * step
    return low, high
