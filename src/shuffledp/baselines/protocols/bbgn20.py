"""[BBGN20] Private summation in the multi-message shuffle model (Balle, Bell, Gascón, Nissim,
CCS 2020): split and mix.

A value is rounded at random to X in 0..D, Pólya noise makes it X + A − A′, and the result is split
into m shares modulo q: m−1 uniform ones and what is missing. Shuffled shares of n users look the
same for all inputs with the same sum, up to a distance of 2^−σ; so the view is that of a noisy
sum, and (ε, (1 + e^ε) 2^−σ)-DP.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Messages, QueryName, Setting, needs
from shuffledp.baselines.claim import Basis, Claim
from shuffledp.baselines.draws import draw, round_randomly, share_of, uniform
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, sign, to_float
from shuffledp.numbers.laws import DiscreteLaplace, Geometric, NegativeBinomial

FEWEST_USERS = 19  # with fewer, the bound on the number of shares does not apply


@dataclass(frozen=True, kw_only=True)
class SplitAndMix(Baseline):
    """What counts and sums by split and mix have in common."""

    users: int
    setting: Setting
    """What it is planned for, with a δ."""
    units: int
    """D: a value in [0, 1] is rounded to one of 0..D."""
    shares: int
    """m: how many shares each user sends."""
    lost_shares: int
    """How many shares the bound that gave m counts as lost: 2 in the worst case, which is proved,
    or 1 in the average case, which is not sufficient."""

    @classmethod
    def _planned(cls, setting: Setting, units: int, lost_shares: int) -> Self:
        needs(setting.users >= FEWEST_USERS, f"BBGN20 needs at least {FEWEST_USERS} users.")
        delta, modulus = setting.required_delta, modulus_for(setting.users, units)
        sigma = math.log2((1 + math.exp(setting.epsilon)) / delta)
        shares = (2 * sigma + math.log2(modulus)) / (math.log2(setting.users) - math.log2(math.e))
        return cls(
            users=setting.users,
            setting=setting,
            units=units,
            shares=math.ceil(shares + lost_shares),
            lost_shares=lost_shares,
        )

    @abstractmethod
    def rounding_variance(self, users: int) -> float:
        """What rounding the users' values adds to the error's variance, in units², at most."""

    @property
    def epsilon(self) -> Fraction:
        return self.setting.epsilon

    @cached_property
    def modulus(self) -> int:
        """q: twice the largest possible sum, so that noise does not wrap around."""
        return modulus_for(self.users, self.units)

    @cached_property
    def claim(self) -> Claim:
        if self.lost_shares < 2:
            note = "m−1 rule: the distance between equal sums exceeds it (docs/baselines.md)"
            return self.setting.claim("not verified", note)
        enough = sign(lambda: self._delta_left())[0] > 0
        basis: Basis = "theorem" if enough else "violated"
        return self.setting.claim(basis, "m−2 rule for the shares")

    def _delta_left(self) -> arb:
        """ln δ − ln((1+e^ε) 2^−σ), with σ = ((m−2)(log₂ n − log₂ e) − log₂ q)/2."""
        sigma = (self.shares - 2) * (arb(self.users).log() - 1) / 2 - arb(self.modulus).log() / 2
        delta = self.setting.required_delta
        return ball(delta).log() - (1 + ball(self.epsilon).exp()).log() + sigma

    @property
    def bits_per_message(self) -> int:
        return (self.modulus - 1).bit_length()

    @cached_property
    def noise(self) -> NegativeBinomial:
        return Geometric(self.epsilon / self.units)

    def check_batch(self, users: int) -> None:
        if users > 5 * self.users // 4:
            raise ParameterError(
                f"The shares are planned for {self.users:,} users and wrap around with many more; "
                "plan for the number that takes part."
            )

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        share = self.noise.share(self.users)
        noisy = round_randomly(np.array([value]), self.units, entropy)
        noisy += draw(share, 1, entropy) - draw(share, 1, entropy)
        shares = uniform(self.shares, self.modulus, entropy)
        missing = (int(noisy[0]) - sum(int(one) for one in shares[1:])) % self.modulus
        shares[0] = missing
        return shares

    def collect(self, messages: Messages, users: int) -> Bag:
        """The sum of all shares modulo q, which is all the analyzer needs."""
        total = sum(int(one) for one in messages) % self.modulus
        return Bag(users, np.array([total]))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        units = round_randomly(values, self.units, entropy)
        law = share_of(self.noise, units.size, self.users)
        noise = draw(law, 2, entropy)
        total = int(units.sum()) + int(noise[0]) - int(noise[1])
        return Bag(units.size, np.array([total % self.modulus]), entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        least = -(self.modulus // 4)  # noisy sums are between −q/4 and 3q/4
        return ((bag.counts - least) % self.modulus + least) / self.units

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        noise = users / self.users * to_float(DiscreteLaplace(self.epsilon / self.units).variance)
        return (noise + self.rounding_variance(users)) / self.units**2

    def messages_per_user(self) -> float:
        return float(self.shares)


class SplitAndMixCount(SplitAndMix):
    """How many users hold 1, by split and mix with D = 1."""

    query: ClassVar[QueryName] = "count"

    @classmethod
    def plan(cls, setting: Setting) -> SplitAndMixCount:
        """The protocol with as many shares as the worst case needs."""
        return cls._planned(setting, 1, lost_shares=2)

    @classmethod
    def average_case(cls, setting: Setting) -> SplitAndMixCount:
        """The protocol with one share fewer, as in some implementations: not verified."""
        return cls._planned(setting, 1, lost_shares=1)

    def rounding_variance(self, users: int) -> float:
        return 0.0

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction] | None:
        return (DiscreteLaplace(self.epsilon), Fraction(1)) if users == self.users else None


class SplitAndMixSum(SplitAndMix):
    """The sum of values in [0, 1], by split and mix with D units per 1."""

    query: ClassVar[QueryName] = "real-sum"

    @classmethod
    def plan(cls, setting: Setting) -> SplitAndMixSum:
        """The protocol with D = ⌈√n⌉ and as many shares as the worst case needs."""
        return cls._planned(setting, math.isqrt(setting.users - 1) + 1, lost_shares=2)

    def rounding_variance(self, users: int) -> float:
        return users / 4


def modulus_for(users: int, units: int) -> int:
    """q = 2nD: twice the largest possible sum."""
    return 2 * users * units
