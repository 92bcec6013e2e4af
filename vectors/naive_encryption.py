"""How the messages of a report are encrypted, and its bytes: docs/protocol.md written out.

HPKE is that of RFC 9180 on the primitives of `cryptography`, without any code of the package.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Data = dict[str, Any]

# HPKE (RFC 9180): base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM

KEM = b"KEM" + (0x0020).to_bytes(2, "big")
SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0001))


def extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    labelled = b"HPKE-v1" + suite + label + key
    return hmac.new(salt or bytes(32), labelled, hashlib.sha256).digest()


def expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.new(key, labelled + b"\x01", hashlib.sha256).digest()[:length]


def public(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def info_of(task_id: bytes, key: Data) -> bytes:
    return (
        b"shuffledp/v1 msg"
        + task_id
        + int(key["epoch"]).to_bytes(4, "big")
        + int(key["key_id"]).to_bytes(2, "big")
    )


def sealed(number: int, recipient: bytes, info: bytes, ephemeral: bytes) -> bytes:
    """One encrypted message of 52 bytes."""
    enc = public(ephemeral)
    shared = X25519PrivateKey.from_private_bytes(ephemeral).exchange(
        X25519PublicKey.from_public_bytes(recipient)
    )
    secret = expand(
        KEM, extract(KEM, b"", b"eae_prk", shared), b"shared_secret", enc + recipient, 32
    )
    context = b"\x00" + extract(SUITE, b"", b"psk_id_hash", b"")
    context += extract(SUITE, b"", b"info_hash", info)
    schedule = extract(SUITE, secret, b"secret", b"")
    key = expand(SUITE, schedule, b"key", context, 16)
    nonce = expand(SUITE, schedule, b"base_nonce", context, 12)
    return enc + AESGCM(key).encrypt(nonce, number.to_bytes(4, "big"), b"")


def report_bytes(task: Data, task_id: bytes, report_id: bytes, messages: list[bytes]) -> bytes:
    key_id = task["analyzer_key"]["key_id"]
    head = b"SDP1\x01" + task_id + report_id
    head += b"".join(number.to_bytes(2, "big") for number in (key_id, len(messages), 52))
    return head + b"".join(messages)
