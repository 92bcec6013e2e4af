"""Seeded randomness, for tests and for reproducing a figure. Never for data of real people.

Whatever is drawn with it is marked `seeded`, all the way to the estimate; services and ledgers
refuse it.
"""

from __future__ import annotations

import hashlib

from shuffledp.exact.entropy import KEY, Entropy


class SeededEntropy(Entropy):
    """The same keystream for the same seed (in every thread anew)."""

    seeded = True

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self._seed = f"shuffledp seed {seed}".encode()

    def _first_secret(self) -> bytes:
        return hashlib.shake_256(self._seed).digest(KEY)
