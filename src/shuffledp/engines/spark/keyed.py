"""Random bits for Spark tasks that stay the same when a task runs again.

Spark runs a task a second time after a failure, when the first copy is slow, or when a frame is
evaluated again. With bits from the operating system each run would draw different noise, and two
noisy answers reveal more than the one that was charged. So the driver draws one secret per job from
its operating system, every part of the data gets its own keystream from it, and the secret is
dropped with the job.
"""

from __future__ import annotations

import hashlib

import numpy as np

from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SECRET_BYTES, SYSTEM, Entropy

JOB_SECRET_BYTES, ROW_KEY_BYTES = 32, 16


def row_key(entropy: Entropy) -> str:
    """A key, drawn by the driver, from which expressions of Spark hash a row's random choices."""
    return entropy.words(ROW_KEY_BYTES, np.uint8).tobytes().hex()


class JobSecret:
    """The secret of one job; its repr does not show it."""

    def __init__(self, entropy: Entropy = SYSTEM) -> None:
        self._secret = entropy.words(JOB_SECRET_BYTES, np.uint8).tobytes()
        self.seeded = entropy.seeded

    def part(self, number: int) -> PartEntropy:
        """The random bits for the part of the data with this number."""
        label = b"shuffledp spark part" + number.to_bytes(8, "big")
        return PartEntropy(
            hashlib.shake_256(label + self._secret).digest(SECRET_BYTES), self.seeded
        )


class PartEntropy(Entropy):
    """The keystream of one part: uniform bits to anyone without the job's secret.

    Ensures: one stream only. A second thread or process would repeat it, and is refused.
    """

    def __init__(self, first: bytes, seeded: bool = False) -> None:
        super().__init__()
        self._first: bytes | None = first
        self.seeded = seeded

    def _first_secret(self) -> bytes:
        if self._first is None:
            raise ParameterError("A part's keystream works only in the thread that started it.")
        first, self._first = self._first, None
        return first
