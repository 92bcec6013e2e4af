"""Laws on 0..k whose masses are all rational: the noise of the bounded cell, and tables (MATH §12).

They are enclosed by balls at the working precision, so that a sampler can decide any comparison.
`masses` returns the fractions themselves, whose length grows with k.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from math import lcm, log
from typing import Any

from flint import arb, ctx

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ball
from shuffledp.numbers.laws import TAIL_DECAYS, Law

SMALLEST, LARGEST = 5e-324, 1 - 2**-53
"""The floats next to 0 and 1."""


@dataclass(frozen=True)
class Finite(Law):
    """P(X = k) = weights[k] / the sum of the weights."""

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights) <= 0:
            raise ParameterError("A finite law needs weights, all of them above 0.")

    @classmethod
    def of(cls, odds: Iterable[Fraction]) -> Finite:
        """The law of an index with these odds."""
        ratios = [one.as_integer_ratio() for one in odds]
        scale = lcm(*(below for _, below in ratios))
        return cls(tuple(above * (scale // below) for above, below in ratios))

    @property
    def last(self) -> int:
        return len(self.weights) - 1

    @cached_property
    def _sums(self) -> list[int]:
        return list(accumulate(self.weights))

    def _moment(self, order: int) -> Fraction:
        return Fraction(sum(k**order * w for k, w in enumerate(self.weights)), self._sums[-1])

    def pmf(self, k: int) -> arb:
        inside = 0 <= k <= self.last
        return ball(Fraction(self.weights[k], self._sums[-1])) if inside else arb(0)

    def cdf(self, k: int) -> arb:
        return ball(self.exact_cdf(k))

    def exact_cdf(self, k: int) -> Fraction:
        return Fraction(self._sums[min(k, self.last)], self._sums[-1]) if k >= 0 else Fraction(0)

    def ratio(self, k: int) -> arb:
        return arb(self.weights[k + 1]) / self.weights[k] if k < self.last else arb(0)

    def mean(self) -> arb:
        return ball(self._moment(1))

    def variance(self) -> arb:
        return ball(self._moment(2) - self._moment(1) ** 2)


@dataclass(frozen=True)
class CutNegativeBinomial(Law):
    """NB(shape, 1 − β) given that it is at most `cut`: P(X = j) = c_j/C_cut with
    c_j = β^j·r(r+1)⋯(r+j−1)/j!, r the shape, and C_k = c_0 + … + c_k."""

    shape: Fraction
    beta: Fraction
    cut: int

    def __post_init__(self) -> None:
        if self.shape <= 0 or not 0 < self.beta < 1 or self.cut < 0:
            raise ParameterError(
                "A cut negative binomial law needs a shape above 0, a β between 0 and 1 and a "
                "cut of at least 0."
            )

    @property
    def last(self) -> int:
        return self.cut

    def tail(self) -> int:
        """See `Law.tail`: the masses fall about as β^j = e^(−decay·j)."""
        beta = min(max(float(self.beta), SMALLEST), LARGEST)
        return int(TAIL_DECAYS / -log(beta))

    def pmf(self, k: int) -> arb:
        if not 0 <= k <= self.cut:
            return arb(0)
        weights = _weights(self, ctx.prec)
        return weights[k] / _sums(self, ctx.prec)[-1]

    def cdf(self, k: int) -> arb:
        outside = self._outside(k)
        if outside is not None:
            return outside
        sums = _sums(self, ctx.prec)
        return sums[k] / sums[-1]

    def exact_cdf(self, k: int) -> Fraction:
        weights = self.whole_weights()
        return Fraction(sum(weights[: max(k + 1, 0)]), sum(weights))

    def ratio(self, k: int) -> arb:
        return ball(self.beta * (self.shape + k) / (k + 1)) if k < self.cut else arb(0)

    def spill(self) -> arb:
        """c_{cut+1}/C_cut: the first mass beyond the cut, in units of what is kept."""
        following = ball(self.beta * (self.shape + self.cut) / (self.cut + 1))
        return _weights(self, ctx.prec)[-1] * following / _sums(self, ctx.prec)[-1]

    def moments(self) -> tuple[arb, arb]:
        """(mean, variance), at the working precision."""
        return self._moments(ball(self.shape), ball(self.beta), self.spill())

    def exact_moments(self) -> tuple[Fraction, Fraction]:
        """(mean, variance) as fractions."""
        weights = self.whole_weights()
        following = self.beta * (self.shape + self.cut) / (self.cut + 1)
        spill = Fraction(weights[-1], sum(weights)) * following
        mean, variance = self._moments(self.shape, self.beta, spill)
        return Fraction(mean), Fraction(variance)

    def _moments(self, r: Any, beta: Any, spill: Any) -> tuple[Any, Any]:
        """From (1 − βt)·μ′ = βr·μ − (k+1)·spill·t^k, which the generating function μ obeys, and
        its derivative, both at t = 1."""
        if self.cut == 0:
            return r * 0, r * 0
        beyond = (self.cut + 1) * spill
        mean = (beta * r - beyond) / (1 - beta)
        pairs = (beta * (r + 1) * mean - self.cut * beyond) / (1 - beta)  # E[X(X−1)]
        return mean, pairs + mean - mean * mean

    def mean(self) -> arb:
        return self.moments()[0]

    def variance(self) -> arb:
        return self.moments()[1]

    def masses(self) -> list[Fraction]:
        """c_0/C_cut, …, c_cut/C_cut, exactly, in O(cut²) digits."""
        weights = self.whole_weights()
        total = sum(weights)
        return [Fraction(weight, total) for weight in weights]

    def whole_weights(self) -> list[int]:
        """The c_j times a common denominator; avoids reducing fractions."""
        (a, b), (p, q) = self.shape.as_integer_ratio(), self.beta.as_integer_ratio()
        rising = [1]  # p^j · a(a+b)⋯(a+(j−1)b)
        for j in range(self.cut):
            rising.append(rising[-1] * p * (a + j * b))
        falling = [1]  # (q·b)^(cut−j) · cut!/j!, from j = cut downwards
        for j in range(self.cut, 0, -1):
            falling.append(falling[-1] * q * b * j)
        return [up * down for up, down in zip(rising, reversed(falling), strict=True)]


@lru_cache(maxsize=64)
def _weights(law: CutNegativeBinomial, precision: int) -> list[arb]:
    """c_0, …, c_cut, enclosed with `precision` bits."""
    with ctx.workprec(precision):
        beta, shape = ball(law.beta), ball(law.shape)
        weights = [arb(1)]
        for j in range(law.cut):
            weights.append(weights[-1] * beta * (shape + j) / (j + 1))
        return weights


@lru_cache(maxsize=64)
def _sums(law: CutNegativeBinomial, precision: int) -> list[arb]:
    """C_0, …, C_cut."""
    with ctx.workprec(precision):
        return list(accumulate(_weights(law, precision)))
