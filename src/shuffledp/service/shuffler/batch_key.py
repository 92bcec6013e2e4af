"""The secret of one batch, and what is derived from it."""

from __future__ import annotations

import hmac
import os

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES, NONCE_BYTES = 32, 12


class BatchKey:
    """The secret of one batch: reports are stored under it, and it is destroyed after delivery."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._cipher = AESGCM(self._derived(b"reports"))

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, b"shuffledp/v1 batch " + purpose, "sha256")

    @property
    def batch_id(self) -> bytes:
        """The batch's id: the same whenever the batch is closed again, after a restore for example,
        so that the analyzer takes it once."""
        return self._derived(b"id")[:16]

    @property
    def order_secret(self) -> bytes:
        """The secret of a uniform order."""
        return self._derived(b"order")

    def parts_secret(self, folder: str) -> bytes:
        """The secret under which the ordered parts in a folder wait for their delivery. It opens no
        other folder, where the same batch may be with another top-up."""
        return self._derived(b"parts " + folder.encode())

    def encrypt(self, messages: bytes, name: bytes) -> bytes:
        """Messages as they are stored under a name."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, messages, name)

    def decrypt(self, stored: bytes, name: bytes) -> bytes:
        """The messages that were stored under this name."""
        return self._cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], name)
