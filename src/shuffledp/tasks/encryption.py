"""Encryption of single messages with HPKE (RFC 9180: X25519, HKDF-SHA256, AES-128-GCM).

Every message is encrypted separately: keys derived from one key per user would reveal which
messages come from the same user. The task's id is part of HPKE's `info`, so a ciphertext can be
opened only with its own task.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from shuffledp.tasks.keys import PublicKey

SUITE_NAME = "HPKE X25519 HKDF-SHA256 AES-128-GCM"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def encrypt_all(numbers: Iterable[int], key: PublicKey, task_id: bytes) -> bytes:
    """The encrypted messages of these numbers, one after the other."""
    recipient = X25519PublicKey.from_public_bytes(key.raw)
    info = key.info(task_id)
    return b"".join(
        _SUITE.encrypt(struct.pack(">I", number), recipient, info) for number in numbers
    )


def open_all(messages: Iterable[bytes], secret: bytes, info: bytes) -> tuple[list[int], int]:
    """The numbers inside encrypted messages, and how many messages could not be opened."""
    key = X25519PrivateKey.from_private_bytes(secret)
    numbers, unopened = [], 0
    for message in messages:
        try:
            (number,) = struct.unpack(">I", _SUITE.decrypt(message, key, info))
            numbers.append(number)
        except (InvalidTag, ValueError, struct.error):
            unopened += 1
    return numbers, unopened
