"""[LWY22] Frequency estimation in the shuffle model with almost a single message (Luo, Wang, Yi,
CCS 2022): FE1, for domains of any size.

A user picks a hash function h(x) = ((u x + v) mod q) mod b at random and sends (u, v, h(x)); all
send their shares of nρ noise messages, uniform over (u, v, w). A noise message fits bucket x
with probability 1/b, so S ~ Poi(2nρ(1−c)/b) of them fit exactly one of two buckets, c the chance
of a collision: δ ≤ `swap_delta`(S). With b = n/ln n the messages are 1 + O(log(1/δ)/(ε² ln n)).
Domains of at most b buckets need no hash: the message is the bucket. Here the number of a user's
noise messages is Poisson (the paper: a constant and a coin).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Messages, Promised, QueryName, Setting, collected, needs
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.divergence import settles, swap_delta
from shuffledp.baselines.draws import draw, uniform, whole_values
from shuffledp.baselines.prime_hash import PrimeHash
from shuffledp.baselines.protocols.bbgn19 import least_hidden
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ball, round_to
from shuffledp.numbers.laws import Poisson


@dataclass(frozen=True, kw_only=True)
class FrequencyOracle(Promised):
    """A histogram of hashed buckets among uniform messages."""

    users: int
    buckets: int
    cells: int
    """b: the range of the hash functions; equal to the number of buckets without hashing."""
    noise: Fraction
    """ρ: how many noise messages a user sends, expected."""
    promise: Claim
    query: ClassVar[QueryName] = "histogram"

    @classmethod
    def plan(cls, setting: Setting) -> FrequencyOracle:
        """The histogram with the smallest ρ whose computed δ is small enough, at b = n/ln n."""
        epsilon, delta, buckets = setting.epsilon, setting.required_delta, setting.required_buckets
        needs(setting.users >= 10, "LWY22 needs at least 10 users.")
        cells = min(buckets, max(2, int(setting.users / math.log(setting.users))))
        claim = setting.claim("computed", "hockey-stick divergence of the noise messages ≤ δ")
        draft = cls(
            users=setting.users, buckets=buckets, cells=cells, noise=Fraction(1), promise=claim
        )
        hidden = least_hidden(epsilon, delta)
        share = hidden * cells / (2 * setting.users * (1 - draft.collision))
        oracle = replace(draft, noise=round_to(float(share), 6, up=True))
        needs(
            settles(lambda: ball(1 - oracle.collision) * swap_delta(oracle.hidden, epsilon), delta),
            "The calibration did not settle; change epsilon or delta slightly.",
        )
        return oracle

    @property
    def hashed(self) -> bool:
        """Whether buckets are hashed: there are more of them than hash values."""
        return self.cells < self.buckets

    @cached_property
    def hash(self) -> PrimeHash:
        """The functions that users pick from."""
        return PrimeHash(self.buckets, self.cells)

    @property
    def collision(self) -> Fraction:
        """c: the chance that two buckets share their hash."""
        return self.hash.collision if self.hashed else Fraction(0)

    @cached_property
    def hidden(self) -> Poisson:
        """The law of S: how many noise messages fit exactly one of two buckets."""
        return Poisson(2 * self.users * self.noise * (1 - self.collision) / self.cells)

    @property
    def bits_per_message(self) -> int:
        if not self.hashed:
            return (self.buckets - 1).bit_length()
        return self.hash.bits

    def _keys(self, size: int, entropy: Entropy) -> Messages:
        """(u, v) with u ≠ 0; zeros where nothing is hashed."""
        return self.hash.keys(size, entropy) if self.hashed else np.zeros((size, 2), np.int64)

    def _own(self, values: NDArray[Any], entropy: Entropy) -> Messages:
        codes = whole_values(values, self.buckets - 1)
        keys = self._keys(codes.size, entropy)
        return np.column_stack([keys, self.hash.values(keys, codes) if self.hashed else codes])

    def _noise(self, size: int, entropy: Entropy) -> Messages:
        return np.column_stack([self._keys(size, entropy), uniform(size, self.cells, entropy)])

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages as rows (u, v, w): a hash function and the bucket's hash."""
        count = int(draw(Poisson(self.noise), 1, entropy)[0])
        return np.concatenate([self._own(np.array([value]), entropy), self._noise(count, entropy)])

    def collect(self, messages: Messages, users: int) -> Bag:
        """How many messages fit each bucket: those whose hash is the bucket's."""
        if not self.hashed:
            return Bag(users, np.bincount(messages[:, 2], minlength=self.buckets))
        return Bag(users, self.hash.fits(messages))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        own = self._own(values, entropy)
        count = int(draw(Poisson(len(own) * self.noise), 1, entropy)[0])
        return collected(self, own, self._noise, count, entropy)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        clash = float(self.collision)
        centre = bag.users * (clash + float(self.noise) / self.cells)
        return np.asarray(bag.counts - centre) / (1 - clash)

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        clash = float(self.collision)
        others = users - (total or 0.0)
        spread = others * clash * (1 - clash) + users * float(self.noise) / self.cells
        return spread / (1 - clash) ** 2

    def messages_per_user(self) -> float:
        return 1.0 + float(self.noise)
