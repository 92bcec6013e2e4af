"""[WBLJ17] Locally differentially private protocols for frequency estimation (Wang and others,
USENIX Security 2017): optimized local hashing, for domains of any size.

A user picks a hash function from the buckets to g = e^ε + 1 cells at random and sends it with the
hash of its bucket, through randomized response over the cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Baseline, Messages, QueryName, Setting
from shuffledp.baselines.claim import Claim, pure_claim
from shuffledp.baselines.draws import draw, uniform, whole_values
from shuffledp.baselines.prime_hash import PrimeHash
from shuffledp.baselines.protocols.local import check_ratio, keep_chance
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import Bernoulli


@dataclass(frozen=True, kw_only=True)
class LocalHashing(Baseline):
    """A histogram in which every user sends a random hash function and a hash of its bucket, mostly
    the true one."""

    users: int
    buckets: int
    cells: int
    truth: Fraction
    epsilon: Fraction
    query: ClassVar[QueryName] = "histogram"

    @classmethod
    def plan(cls, setting: Setting) -> LocalHashing:
        cells = max(2, round(math.exp(min(float(setting.epsilon), 20.0))) + 1)
        return cls(
            users=setting.users,
            buckets=setting.required_buckets,
            cells=cells,
            truth=keep_chance(setting.epsilon, cells - 1),
            epsilon=setting.epsilon,
        )

    @property
    def lie(self) -> Fraction:
        """The probability of naming one particular other cell."""
        return (1 - self.truth) / (self.cells - 1)

    @cached_property
    def claim(self) -> Claim:
        check_ratio(self.truth, self.lie, self.epsilon)
        return pure_claim(self.epsilon, "local", "computed", "truth/lie ≤ e^ε")

    @cached_property
    def hash(self) -> PrimeHash:
        """The functions that users pick from."""
        return PrimeHash(self.buckets, self.cells)

    @property
    def bits_per_message(self) -> int:
        return self.hash.bits

    @property
    def fit(self) -> Fraction:
        """How likely a message fits a bucket that its sender does not hold."""
        clash = self.hash.collision
        return clash * self.truth + (1 - clash) * self.lie

    def _sent(self, values: NDArray[Any], entropy: Entropy) -> Messages:
        codes = whole_values(values, self.buckets - 1)
        keys = self.hash.keys(codes.size, entropy)
        own = self.hash.values(keys, codes)
        other = uniform(codes.size, self.cells - 1, entropy)
        told = draw(Bernoulli(self.truth), codes.size, entropy) == 1
        return np.column_stack([keys, np.where(told, own, other + (other >= own))])

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """One message as a row (u, v, cell): a hash function and a cell."""
        return self._sent(np.array([value]), entropy)

    def collect(self, messages: Messages, users: int) -> Bag:
        """How many messages fit each bucket."""
        fits = [
            int((self.hash.values(messages, np.int64(bucket)) == messages[:, 2]).sum())
            for bucket in range(self.buckets)
        ]
        return Bag(users, np.array(fits, np.int64))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        sent = self._sent(values, entropy)
        return Bag(len(sent), self.collect(sent, len(sent)).counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        fit = float(self.fit)
        return np.asarray(bag.counts - bag.users * fit) / (float(self.truth) - fit)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        p, q = float(self.truth), float(self.fit)

        def error(held: float) -> float:
            return (held * p * (1 - p) + (users - held) * q * (1 - q)) / (p - q) ** 2

        return error(total) if total is not None else max(error(0), error(users))

    def messages_per_user(self) -> float:
        return 1.0
