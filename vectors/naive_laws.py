"""Random words and exact draws from laws, as docs/protocol.md §7 says, in the plainest way.

Rational laws are inverted in fractions, the others with mpmath at a precision far above what a
comparison needs. Shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath

Data = dict[str, Any]
F = Fraction
SPARE_BITS = 400
"""Of precision beyond the bits that are compared."""


class Words:
    """A stream of 64-bit words that counts how many were taken."""

    def __init__(self, source: Iterator[int]) -> None:
        self._source, self.taken = source, list[int]()

    def next(self) -> int:
        word = next(self._source)
        self.taken.append(word)
        return word


class Law:
    """A law on 0, 1, … by its cumulative probabilities: fractions, or as real numbers at a given
    precision."""

    def __init__(
        self, last: int | None, cumulative: Callable[[int], Fraction | mpmath.mpf]
    ) -> None:
        self._last, self._cumulative = last, cumulative

    def scaled(self, k: int, bits: int) -> Fraction:
        """2^bits · F(k); exact for rational laws, else close enough to compare with whole
        numbers."""
        if self._last is not None and k >= self._last:
            return F(1 << bits)
        with mpmath.workprec(bits + SPARE_BITS):
            value = self._cumulative(k)
            if isinstance(value, Fraction):
                return value * (1 << bits)
            scaled = mpmath.ldexp(value, bits)
            distance = abs(scaled - mpmath.nint(scaled))
            assert distance > mpmath.mpf(2) ** -(SPARE_BITS // 2), "too close to a whole number"
            sign, mantissa, exponent, _ = scaled._mpf_
            assert sign == 0
            return F(int(mantissa)) * F(2) ** int(exponent)

    def draw(self, words: Words) -> int:
        """k with F(k−1) ≤ U < F(k); another word only while some F(k) lies strictly inside."""
        value, bits, k = words.next(), 64, 0
        while True:
            bound = self.scaled(k, bits)
            if bound >= value + 1:
                return k
            if bound <= value:
                k += 1
            else:
                value, bits = (value << 64) | words.next(), bits + 64


def sums(weights: list[Any]) -> list[Any]:
    found, total = [], weights[0] * 0
    for weight in weights:
        total = total + weight
        found.append(total)
    return found


def finite(weights: list[Fraction]) -> Law:
    totals = sums(weights)
    return Law(len(weights) - 1, lambda k: F(totals[k]) / totals[-1])


def bernoulli(chance: Fraction) -> Law:
    return finite([1 - chance, chance])


def cut_negative_binomial(shape: Fraction, beta: Fraction, cut: int) -> Law:
    weights = [F(1)]
    for j in range(cut):
        weights.append(weights[-1] * beta * (shape + j) / (j + 1))
    return finite(weights)


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def negative_binomial(shape: Fraction, decay: Fraction) -> Law:
    def cumulative(k: int) -> mpmath.mpf:
        r, e = real(shape), mpmath.exp(-real(decay))
        mass = total = (1 - e) ** r
        for j in range(k):
            mass = mass * e * (r + j) / (j + 1)
            total += mass
        return total

    return Law(None, cumulative)


def poisson(mean: Fraction) -> Law:
    def cumulative(k: int) -> mpmath.mpf:
        mass = total = mpmath.exp(-real(mean))
        for j in range(k):
            mass = mass * real(mean) / (j + 1)
            total += mass
        return total

    return Law(0 if mean == 0 else None, cumulative)


LAWS: dict[str, Callable[[Data], Law]] = {
    "bernoulli": lambda law: bernoulli(F(law["probability"])),
    "finite": lambda law: finite([F(weight) for weight in law["weights"]]),
    "cut negative binomial": lambda law: cut_negative_binomial(
        F(law["shape"]), F(law["beta"]), law["cut"]
    ),
    "negative binomial": lambda law: negative_binomial(F(law["shape"]), F(law["decay"])),
    "poisson": lambda law: poisson(F(law["mean"])),
}
