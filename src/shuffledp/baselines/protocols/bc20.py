"""[BC20] Separating local and shuffled DP via histograms (Balcer, Cheu, ITC 2020).

A user sends its bit and one more "1" with probability p: the view is k + Bin(n, p). The paper
takes p near 1. Bin(n, 1−p) is n − Bin(n, p), so a p near 0 is exactly as private (the directions
swap) and sends almost no noise: the calibrated variant uses it. The paper's analyzer treats small
counts as 0; ours does not, so the estimate is unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.baselines.base import Bag, Counter, Messages, Promised, Setting, needs
from shuffledp.baselines.buckets import PerBucket
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.divergence import least, pair_delta, settles, shift_delta
from shuffledp.baselines.draws import Counts, draw, successes, whole_values
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import round_to
from shuffledp.numbers.laws import Bernoulli, Binomial

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class BC20(Promised, Counter):
    """A counter of which every user sends x + Ber(p) messages."""

    users: int
    chance: Fraction
    """p: the probability of one more message."""
    promise: Claim
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> BC20:
        """The counter with the least p whose computed δ is small enough."""
        chance = least_chance(setting.users, setting.epsilon, setting.required_delta, pair=False)
        claim = setting.claim("computed", "hockey-stick divergence ≤ δ")
        return cls(setting.users, chance, claim)

    @classmethod
    def published(cls, setting: Setting) -> BC20:
        """The counter with p = 1 − 50 ln(2/δ)/(ε² n), for n ≥ 100 ln(2/δ)/ε² and ε ≤ 1; its δ is
        computed."""
        epsilon, delta, users = setting.epsilon, setting.required_delta, setting.users
        noise = 50 * math.log(2 / delta) / float(epsilon) ** 2
        needs(epsilon <= 1, "BC20's theorem is for ε ≤ 1.")
        needs(
            users >= 2 * noise,
            f"BC20's theorem needs at least {math.ceil(2 * noise):,} users here.",
        )
        chance = 1 - round_to(noise / users, 9, up=True)
        holds = settles(lambda: shift_delta(Binomial(users, chance), epsilon), delta)
        return cls(users, chance, setting.checked(holds))

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        extra = draw(Bernoulli(self.chance), 1, entropy)
        return np.ones(int((whole_values(np.array([value]), 1) + extra)[0]), np.int64)

    def collect(self, messages: Messages, users: int) -> Bag:
        return Bag(users, np.array([len(messages)]))

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        return np.array([ones + successes(users, self.chance, entropy)])

    def estimate(self, counts: Counts, users: int) -> float:
        return float(int(counts[0]) - users * self.chance)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return float(users * self.chance * (1 - self.chance))

    def messages(self, value: int) -> float:
        return value + float(self.chance)


@lru_cache(maxsize=256)
def least_chance(users: int, epsilon: Fraction, delta: Fraction, *, pair: bool) -> Fraction:
    """The smallest p ≤ ½ for which δ is computed to be small enough: of one count that moves, or
    of a pair of counts that move in opposite directions."""
    measure = pair_delta if pair else shift_delta

    def private(chance: Fraction) -> bool:
        return chance <= HALF and settles(lambda: measure(Binomial(users, chance), epsilon), delta)

    needs(
        private(HALF), f"With {users:,} users even p = ½ is not enough noise; plan for more users."
    )
    return least(private, min(8 / users, 0.25), most=0.5)


def histogram(setting: Setting) -> PerBucket:
    """A counter per bucket, with δ computed for the pair of buckets that a replacement moves."""
    chance = least_chance(setting.users, setting.epsilon, setting.required_delta, pair=True)
    claim = setting.claim("computed", "hockey-stick divergence of the pair ≤ δ")
    return PerBucket(BC20(setting.users, chance, claim), setting.required_buckets, claim)
