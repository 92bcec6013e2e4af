"""The noise of this process, made repeatable: each test draws the same every time.

A bar that a test's noise crosses once in 10,000 runs would otherwise fail somewhere every week, and
nobody could repeat it. Other processes (servers, devices, workers) draw real noise.
SHUFFLEDP_TEST_SEED chooses other draws, and `none` real ones.
"""

from __future__ import annotations

import hashlib
import os
import threading

from shuffledp.numbers import entropy

SEED = os.environ.get("SHUFFLEDP_TEST_SEED", "1")
_real = entropy.Entropy._first_secret


class RepeatableNoise:
    """Where the entropy of this process gets its secrets from, test by test."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.begin("no test")

        def first_secret(stream: entropy.Entropy) -> bytes:
            return self._secret(stream)

        entropy.Entropy._first_secret = first_secret  # type: ignore[method-assign, assignment]

    def begin(self, test: str) -> None:
        """From now on, `test` draws."""
        self._test, self._secrets = test, 0
        entropy.SYSTEM.__init__()  # type: ignore[misc]  # no stream goes on from an earlier test

    def _secret(self, stream: entropy.Entropy) -> bytes:
        if os.getpid() != self._process:  # a forked child must not draw what its parent draws
            return _real(stream)
        with self._lock:
            self._secrets += 1
            name = f"{SEED} {self._test} {self._secrets}"
        return hashlib.shake_256(name.encode()).digest(entropy.SECRET_BYTES)
