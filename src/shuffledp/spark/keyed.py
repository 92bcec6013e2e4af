"""Noise that a cluster may draw again and again and always finds the same.

Spark runs a task anew after a failure, beside a slow one, or when somebody asks a second time.
Noise from the operating system would then differ from run to run, and two answers for one budget
are one too many. So the driver draws one secret per job from its operating system, every part of
the data gets a keystream of its own from it, and the secret is dropped with the job.
"""

from __future__ import annotations

import hashlib

import numpy as np

from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SECRET_BYTES, SYSTEM, Entropy

SECRET = 32


class JobSecret:
    """A secret for one job. It prints nothing of itself."""

    def __init__(self, entropy: Entropy = SYSTEM) -> None:
        self._secret = entropy.words(SECRET, np.uint8).tobytes()
        self.seeded = entropy.seeded

    def part(self, number: int) -> PartEntropy:
        """The bits of one part of the data."""
        label = b"shuffledp spark part" + number.to_bytes(8, "big")
        return PartEntropy(
            hashlib.shake_256(label + self._secret).digest(SECRET_BYTES), self.seeded
        )


class PartEntropy(Entropy):
    """The keystream of one part: uniform bits to whoever lacks the job's secret.

    Ensures: one stream only. A second thread or process would repeat it, and is refused.
    """

    def __init__(self, first: bytes, seeded: bool = False) -> None:
        super().__init__()
        self._first: bytes | None = first
        self.seeded = seeded

    def _first_secret(self) -> bytes:
        if self._first is None:
            raise ParameterError("A part's keystream belongs to one thread; it began in another.")
        first, self._first = self._first, None
        return first
