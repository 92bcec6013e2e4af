"""Randomness from a seed, for tests and for reproducing a figure; never for real people's data.

Whatever is drawn with it is marked `seeded`, all the way to the estimate; services and ledgers
refuse it.
"""

from __future__ import annotations

import hashlib

from shuffledp.numbers.entropy import SECRET_BYTES, Entropy


class SeededEntropy(Entropy):
    """Bits that are the same for the same seed; every thread starts from the beginning."""

    seeded = True

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self._seed = f"shuffledp seed {seed}".encode()

    def _first_secret(self) -> bytes:
        return hashlib.shake_256(self._seed).digest(SECRET_BYTES)
