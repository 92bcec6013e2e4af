"""The law that only baselines need: a discrete Laplace law cut to an interval."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ball
from shuffledp.numbers.laws import Law


@dataclass(frozen=True)
class CutLaplace(Law):
    """On 0..2w+1, mass proportional to e^(−slope·|k − (w + ½)|): symmetric about w + ½."""

    width: int
    """w: the law lives on 0..2w+1."""
    slope: Fraction
    """1/σ: how fast the probabilities fall off."""

    def __post_init__(self) -> None:
        if self.width < 0 or self.slope <= 0:
            raise ParameterError(
                "A cut Laplace law needs a width of at least 0 and a slope above 0."
            )

    @property
    def last(self) -> int:
        return 2 * self.width + 1

    def _half(self) -> arb:
        """Σ e^(−slope·j) for j = 0..w: half of the mass, in units of the middle's."""
        return self._sum(self.width + 1)

    def _sum(self, terms: int) -> arb:
        a = ball(self.slope)
        return (-a * terms).expm1() / (-a).expm1()

    def pmf(self, k: int) -> arb:
        if k < 0 or k > self.last:
            return arb(0)
        distance = self.width - k if k <= self.width else k - self.width - 1
        return (-ball(self.slope * distance)).exp() / (2 * self._half())

    def cdf(self, k: int) -> arb:
        outside = self._outside(k)
        if outside is not None:
            return outside
        if k > self.width:
            return 1 - self.cdf(self.last - 1 - k)
        lowest = (-ball(self.slope * (self.width - k))).exp()
        return lowest * self._sum(k + 1) / (2 * self._half())

    def ratio(self, k: int) -> arb:
        if k == self.width:
            return arb(1)
        return ball(self.slope if k < self.width else -self.slope).exp()

    def mean(self) -> arb:
        return ball(Fraction(2 * self.width + 1, 2))

    def variance(self) -> arb:
        total = arb(0)
        for distance in range(self.width + 1):
            weight = (-ball(self.slope * distance)).exp()
            total += weight * ball(Fraction(2 * distance + 1, 2) ** 2)
        return total / self._half()
