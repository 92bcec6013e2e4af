"""Hash functions h(x) = ((u x + v) mod q) mod b, one of which each user picks at random."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpz
from numpy.typing import NDArray

from shuffledp.baselines.base import Messages
from shuffledp.baselines.draws import uniform
from shuffledp.numbers.entropy import Entropy


@dataclass(frozen=True)
class PrimeHash:
    """All such functions from `buckets` buckets to `cells` cells."""

    buckets: int
    cells: int

    @cached_property
    def prime(self) -> int:
        """q: the first prime number above B and b."""
        number = max(self.buckets, self.cells) + 1
        while not fmpz(number).is_prime():
            number += 1
        return number

    @cached_property
    def collision(self) -> Fraction:
        """c: the chance that two buckets share their hash, exactly: pairs of residues modulo q
        that agree modulo b."""
        q, b = self.prime, self.cells
        return Fraction((q // b) * (q % b + q - b), q * (q - 1))

    @property
    def bits(self) -> int:
        """How many bits a function and one of its values take."""
        return 2 * (self.prime - 1).bit_length() + (self.cells - 1).bit_length()

    def keys(self, size: int, entropy: Entropy) -> Messages:
        """`size` random functions: (u, v) with u ≠ 0."""
        u = 1 + uniform(size, self.prime - 1, entropy)
        return np.stack([u, uniform(size, self.prime, entropy)], axis=1)

    def values(self, keys: Messages, buckets: Any) -> NDArray[np.int64]:
        """The value of each function at its bucket."""
        found: NDArray[np.int64] = (keys[:, 0] * buckets + keys[:, 1]) % self.prime % self.cells
        return found

    def fits(self, messages: Messages) -> NDArray[np.int64]:
        """How many messages (u, v, w) fit each bucket: those whose w is the bucket's hash."""
        found = [
            int((self.values(messages, np.int64(bucket)) == messages[:, 2]).sum())
            for bucket in range(self.buckets)
        ]
        return np.array(found, np.int64)
