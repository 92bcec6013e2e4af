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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Messages, Setting
from shuffledp.baselines.draws import draw, uniform, whole_values
from shuffledp.baselines.prime_hash import PrimeHash
from shuffledp.baselines.protocols.local import LocalHistogram
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import Bernoulli


@dataclass(frozen=True, kw_only=True)
class LocalHashing(LocalHistogram):
    """A histogram in which every user sends a random hash function and a hash of its bucket, mostly
    the true one."""

    cells: int

    @classmethod
    def plan(cls, setting: Setting) -> LocalHashing:
        cells = max(2, round(math.exp(min(float(setting.epsilon), 20.0))) + 1)
        return cls.among(setting, cells, cells=cells)

    @property
    def lie(self) -> Fraction:
        return (1 - self.truth) / (self.cells - 1)

    @cached_property
    def hash(self) -> PrimeHash:
        """The functions that users pick from."""
        return PrimeHash(self.buckets, self.cells)

    @property
    def bits_per_message(self) -> int:
        return self.hash.bits

    @property
    def fit(self) -> Fraction:
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
        return Bag(users, self.hash.fits(messages))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        sent = self._sent(values, entropy)
        return Bag(len(sent), self.collect(sent, len(sent)).counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        fit = float(self.fit)
        return np.asarray(bag.counts - bag.users * fit) / (float(self.truth) - fit)
