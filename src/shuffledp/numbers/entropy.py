"""Random bits: an AES-256-CTR keystream keyed by the operating system, erased as it is used.

Never a statistical generator. Each thread has its own keystream, and a forked child starts a new
one. After every block the key is replaced by fresh keystream, so a later compromise does not reveal
earlier draws. `SecretEntropy` draws the same again from the same secret. `SeededEntropy` is for
tests and figures only.
"""

from __future__ import annotations

import hashlib
import os
import threading

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 20  # keystream per key: 1 MiB keeps the buffer in the L2 cache
POOL_BYTES = 1 << 12  # small requests are served from a pool of this size
SECRET_BYTES = 48  # a 32-byte key and a 16-byte counter block


class Keystream:
    """A stream of uniform bytes; earlier bytes cannot be computed from its present state."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._zeros = np.zeros(BLOCK_BYTES, np.uint8)
        self._pool = np.zeros(POOL_BYTES, np.uint8)
        self._used = POOL_BYTES

    def fill(self, target: NDArray[np.uint8]) -> None:
        """Overwrites `target` (contiguous bytes) with uniform bytes."""
        if target.size > POOL_BYTES // 4:
            for start in range(0, target.size, BLOCK_BYTES):
                self._block(target[start : start + BLOCK_BYTES])
            return
        if self._used + target.size > POOL_BYTES:
            self._block(self._pool)
            self._used = 0
        taken = self._pool[self._used : self._used + target.size]
        self._used += target.size  # before use: an interrupt may waste bytes, never repeat them
        target[:] = taken
        taken[:] = 0

    def _block(self, target: NDArray[np.uint8]) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        stream = Cipher(AES(self._secret[:32]), CTR(self._secret[32:])).encryptor()
        self._secret = stream.update(bytes(SECRET_BYTES))  # fast key erasure: the old key is gone
        stream.update_into(self._zeros[: target.size].data, target.data)


_forks = 0
"""How often this process and its ancestors were forked: a child must not continue its parent's
stream."""


def _count_fork() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


if hasattr(os, "register_at_fork"):  # systems without it cannot fork
    os.register_at_fork(after_in_child=_count_fork)


class Entropy:
    """Uniform bits from the operating system, through one keystream per thread."""

    seeded = False

    def __init__(self) -> None:
        self._local = threading.local()

    def _stream(self) -> Keystream:
        here = os.getpid(), _forks
        if getattr(self._local, "born", None) != here:
            self._local.stream = Keystream(self._first_secret())
            self._local.born = here
        stream: Keystream = self._local.stream
        return stream

    def _first_secret(self) -> bytes:
        return os.urandom(SECRET_BYTES)

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        """`count` independent uniform words of an unsigned integer type."""
        words = np.empty(count, dtype)
        self._stream().fill(words.view(np.uint8))
        return words

    def bits(self, count: int) -> int:
        """A uniform integer of `count` bits: 0..2^count − 1."""
        size = (count + 7) // 8
        return int.from_bytes(self.words(size, np.uint8).tobytes(), "big") >> (8 * size - count)

    def below(self, bound: int) -> int:
        """A uniform integer in 0..bound − 1, by rejection, so without bias."""
        width = (bound - 1).bit_length()
        while (number := self.bits(width) if width else 0) >= bound:
            pass
        return number


SYSTEM = Entropy()


class SecretEntropy(Entropy):
    """Bits that depend only on a secret, for draws that must be the same when they are repeated.

    Requires: the secret is uniform, and used for one draw.
    Ensures: only one thread of one process gets the bits; for any other it raises `RuntimeError`,
    because it would get the same ones.
    """

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        if len(secret) != SECRET_BYTES:
            raise ValueError
        self._secrets = [secret]

    def _first_secret(self) -> bytes:
        if not self._secrets:
            raise RuntimeError("Another thread or process draws from this secret.")
        return self._secrets.pop()


class SeededEntropy(Entropy):
    """Bits that depend only on the seed, for tests and reproducible figures; never for real data.
    Every thread starts from the beginning.

    Everything drawn with it is marked `seeded`, all the way to the estimate; services and ledgers
    refuse it.
    """

    seeded = True

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self._seed = f"shuffledp seed {seed}".encode()

    def _first_secret(self) -> bytes:
        return hashlib.shake_256(self._seed).digest(SECRET_BYTES)
