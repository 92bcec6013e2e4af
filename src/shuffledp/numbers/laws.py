"""The distributions ("laws") of [GKM23], with exact rational parameters and probabilities as `arb`
balls.

`pmf` and `cdf` enclose the true value at the current working precision; `mean` and `variance`
likewise. A noise parameter is the decay a: the success probability is 1 − e^−a, as in the paper,
which is never rational.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from flint import arb

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ball

TAIL_DECAYS = 48  # e^−48 is below 2^−64: a table this long decides almost every draw
FEW_MASSES = 1024  # up to here, probabilities are summed one by one


class Law(ABC):
    """A probability distribution on the integers."""

    @property
    def first(self) -> int | None:
        """The least value with positive probability; None if there is none."""
        return 0

    @property
    def last(self) -> int | None:
        """The largest value with positive probability; None if there is none."""
        return None

    def tail(self) -> int:
        """How many values beyond the mean a table should have if the probabilities fall off only
        like e^(−decay·k); 0 if they fall off faster."""
        return 0

    @abstractmethod
    def pmf(self, k: int) -> arb:
        """The probability of k: P(X = k)."""

    @abstractmethod
    def cdf(self, k: int) -> arb:
        """The probability of at most k: P(X ≤ k)."""

    def exact_cdf(self, k: int) -> Fraction | None:
        """P(X ≤ k) as a fraction if it is rational; otherwise None."""
        return None

    @abstractmethod
    def ratio(self, k: int) -> arb:
        """P(X = k+1) / P(X = k)."""

    @abstractmethod
    def mean(self) -> arb:
        """The mean: E[X]."""

    @abstractmethod
    def variance(self) -> arb:
        """The variance: Var[X]."""

    def share(self, users: int) -> Law:
        """The law of one of `users` independent summands that add up to this law."""
        raise ParameterError(
            f"A {type(self).__name__} law cannot be split into shares of the same law; use a "
            "Poisson or a negative binomial law."
        )

    def _outside(self, k: int) -> arb | None:
        """The cdf if k is outside the possible values (0 or 1); otherwise None."""
        if self.first is not None and k < self.first:
            return arb(0)
        if self.last is not None and k >= self.last:
            return arb(1)
        return None


@dataclass(frozen=True)
class Binomial(Law):
    """Bin(n, p): the number of successes in n independent trials."""

    trials: int
    probability: Fraction

    def __post_init__(self) -> None:
        if self.trials < 0 or not 0 <= self.probability <= 1:
            raise ParameterError("Binomial needs trials ≥ 0 and a probability in [0, 1].")

    @property
    def first(self) -> int:
        return self.trials if self.probability == 1 else 0

    @property
    def last(self) -> int:
        return 0 if self.probability == 0 else self.trials

    def pmf(self, k: int) -> arb:
        n, p = self.trials, self.probability
        if k < 0 or k > n:
            return arb(0)
        if p in (0, 1):
            return arb(int(k == n * p))
        choose = (arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()).exp()
        return choose * ball(p) ** k * ball(1 - p) ** (n - k)

    def cdf(self, k: int) -> arb:
        outside = self._outside(k)
        if outside is not None:
            return outside
        if k < FEW_MASSES:  # adding up a few masses beats the incomplete beta function
            total = mass = ball(1 - self.probability) ** self.trials
            odds = self._odds()
            for j in range(k):
                mass = mass * odds * (self.trials - j) / (j + 1)
                total = total + mass
            return total
        above = ball(self.probability).beta_lower(arb(k + 1), arb(self.trials - k), 1)
        return 1 - above  # this side is fast for small probabilities

    def exact_cdf(self, k: int) -> Fraction | None:
        if k >= self.trials:
            return Fraction(1)
        if self.trials > FEW_MASSES:
            return None
        p = self.probability
        return sum(
            (comb(self.trials, j) * p**j * (1 - p) ** (self.trials - j) for j in range(k + 1)),
            start=Fraction(0),
        )

    def ratio(self, k: int) -> arb:
        return self._odds() * (self.trials - k) / (k + 1)

    def _odds(self) -> arb:
        return ball(self.probability) / ball(1 - self.probability)

    def mean(self) -> arb:
        return ball(self.trials * self.probability)

    def variance(self) -> arb:
        return ball(self.trials * self.probability * (1 - self.probability))


def Bernoulli(probability: Fraction) -> Binomial:
    """Ber(p): 1 with this probability, else 0."""
    return Binomial(1, probability)


@dataclass(frozen=True)
class Poisson(Law):
    """The Poisson law Poi(λ): λ^k e^−λ / k!"""

    rate: Fraction

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ParameterError("A Poisson law needs a mean of at least 0.")

    @property
    def last(self) -> int | None:
        return 0 if self.rate == 0 else None

    def pmf(self, k: int) -> arb:
        if k < 0 or self.rate == 0:
            return arb(int(k == 0))
        rate = ball(self.rate)
        return (k * rate.log() - rate - arb(k + 1).lgamma()).exp()

    def cdf(self, k: int) -> arb:
        outside = self._outside(k)
        if outside is not None:
            return outside
        return ball(self.rate).gamma_upper(arb(k + 1), 1)

    def ratio(self, k: int) -> arb:
        return ball(self.rate) / (k + 1)

    def mean(self) -> arb:
        return ball(self.rate)

    def variance(self) -> arb:
        return ball(self.rate)

    def share(self, users: int) -> Poisson:
        return Poisson(self.rate / users)


@dataclass(frozen=True)
class NegativeBinomial(Law):
    """NB(r, 1 − e^−decay): C(k+r−1, k) (1−e^−decay)^r e^(−decay·k), for any real r > 0."""

    shape: Fraction
    decay: Fraction

    def __post_init__(self) -> None:
        if self.shape <= 0 or self.decay <= 0:
            raise ParameterError("A negative binomial law needs a shape and a decay above 0.")

    def tail(self) -> int:
        return int(TAIL_DECAYS / self.decay)

    def _success(self) -> arb:
        return -(-ball(self.decay)).expm1()

    def pmf(self, k: int) -> arb:
        if k < 0:
            return arb(0)
        if self.shape == 1:
            return self._success() * (-ball(self.decay * k)).exp()
        r = ball(self.shape)
        choose = (r + k).lgamma() - r.lgamma() - arb(k + 1).lgamma() if k else arb(0)
        return (choose + r * self._success().log() - ball(self.decay * k)).exp()

    def cdf(self, k: int) -> arb:
        if k < 0:
            return arb(0)
        if self.shape == 1:
            return -(-ball(self.decay * (k + 1))).expm1()
        return self._success().beta_lower(ball(self.shape), arb(k + 1), 1)

    def ratio(self, k: int) -> arb:
        return (-ball(self.decay)).exp() * (ball(self.shape) + k) / (k + 1)

    def mean(self) -> arb:
        return ball(self.shape) / ball(self.decay).expm1()

    def variance(self) -> arb:
        return ball(self.shape) * (-ball(self.decay)).exp() / self._success() ** 2

    def share(self, users: int) -> NegativeBinomial:
        return NegativeBinomial(self.shape / users, self.decay)


def Geometric(decay: Fraction) -> NegativeBinomial:
    """Geo(1 − e^−decay): failures before the first success (erratum 6: the paper has the sign
    wrong)."""
    return NegativeBinomial(Fraction(1), decay)


@dataclass(frozen=True)
class DiscreteLaplace(Law):
    """DLap(a): mass proportional to e^(−a|k|), the difference of two Geo(1 − e^−a)."""

    decay: Fraction

    def __post_init__(self) -> None:
        if self.decay <= 0:
            raise ParameterError("A discrete Laplace law needs a decay above 0.")

    @property
    def first(self) -> None:
        return None

    def tail(self) -> int:
        return int(TAIL_DECAYS / self.decay)

    def pmf(self, k: int) -> arb:
        a = ball(self.decay)
        return (a / 2).tanh() * (-a * abs(k)).exp()

    def cdf(self, k: int) -> arb:
        a = ball(self.decay)
        tail = (-a * (-k if k < 0 else k + 1)).exp() / (1 + (-a).exp())
        return tail if k < 0 else 1 - tail

    def ratio(self, k: int) -> arb:
        a = ball(self.decay)
        return a.exp() if k < 0 else (-a).exp()

    def mean(self) -> arb:
        return arb(0)

    def variance(self) -> arb:
        a = ball(self.decay)
        return 2 * (-a).exp() / (-a).expm1() ** 2
