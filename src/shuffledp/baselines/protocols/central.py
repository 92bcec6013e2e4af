"""The central model: one party collects everybody's value and adds discrete Laplace noise.

Every table shows errors as multiples of its error. Messages are the raw values, so the party that
collects them must be trusted; nothing is shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Counter, Messages, QueryName, Setting
from shuffledp.baselines.buckets import PerBucket
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.draws import Counts, draw, round_randomly, whole_values
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.laws import DiscreteLaplace

SUM_UNITS = 1 << 20  # of a real sum, per 1: rounding adds n/4 · 10⁻¹² to the MSE


@dataclass(frozen=True)
class CentralCount(Counter):
    """The count plus noise DLap(ε): one user changes the count by at most 1."""

    users: int
    epsilon: Fraction
    bits_per_message: ClassVar[int] = 1

    @classmethod
    def plan(cls, setting: Setting) -> CentralCount:
        return cls(setting.users, setting.epsilon)

    @cached_property
    def claim(self) -> Claim:
        return pure_claim(self.epsilon, "central", "computed", "P(k)/P(k+1) = e^±ε")

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon)

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """The user's value as it is: in the central model nothing happens on the device."""
        return np.array([int(value)])

    def collect(self, messages: Messages, users: int, entropy: Entropy = SYSTEM) -> Bag:
        """The collector's noisy count."""
        return Bag(users, self.draw(int(messages.sum()), users, entropy), entropy.seeded)

    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        return ones + draw(self.noise, 1, entropy)

    def estimate(self, counts: Counts, users: int) -> float:
        return float(counts[0])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return to_float(self.noise.variance)

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction]:
        return self.noise, Fraction(1)

    def messages(self, value: int) -> float:
        return 1.0


@dataclass(frozen=True)
class CentralSum(Baseline):
    """The sum of values in [0, 1] on a fine grid plus DLap(ε/D)/D, D units per 1."""

    users: int
    epsilon: Fraction
    query: ClassVar[QueryName] = "real-sum"
    bits_per_message: ClassVar[int] = SUM_UNITS.bit_length()

    @classmethod
    def plan(cls, setting: Setting) -> CentralSum:
        return cls(setting.users, setting.epsilon)

    @cached_property
    def claim(self) -> Claim:
        return pure_claim(self.epsilon, "central", "computed", "P(k)/P(k+D) = e^±ε")

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon / SUM_UNITS)

    def randomize(self, value: float, entropy: Entropy = SYSTEM) -> Messages:
        return round_randomly(np.array([value]), SUM_UNITS, entropy)

    def collect(self, messages: Messages, users: int, entropy: Entropy = SYSTEM) -> Bag:
        """The collector's noisy sum."""
        return Bag(users, int(messages.sum()) + draw(self.noise, 1, entropy), entropy.seeded)

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        units = round_randomly(values, SUM_UNITS, entropy)
        return self.collect(units, units.size, entropy)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return bag.counts / SUM_UNITS

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return (to_float(self.noise.variance) + users / 4) / SUM_UNITS**2

    def messages_per_user(self) -> float:
        return 1.0


@dataclass(frozen=True)
class CentralHistogram(PerBucket):
    """DLap(ε/2) on every bucket: a replacement moves two of them by one."""

    @classmethod
    def plan(cls, setting: Setting) -> CentralHistogram:
        claim = pure_claim(setting.epsilon, "central", "computed", "ε/2 up, ε/2 down")
        return cls(
            CentralCount(setting.users, setting.epsilon / 2), setting.required_buckets, claim
        )

    @property
    def bits_per_message(self) -> int:
        return (self.buckets - 1).bit_length()

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """The user's bucket as it is: in the central model nothing happens on the device."""
        return whole_values(np.array([value]), self.buckets - 1)

    def collect(self, messages: Messages, users: int, entropy: Entropy = SYSTEM) -> Bag:
        """The collector's noisy counts."""
        return self.aggregate(messages, entropy)

    def messages_per_user(self) -> float:
        return 1.0
