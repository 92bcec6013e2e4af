"""HPKE with exported secrets (RFC 9180, base mode: X25519, HKDF-SHA256, AES-128-GCM), for one
message in each direction.

`cryptography` encrypts and decrypts with HPKE but exports no secrets, which Oblivious HTTP needs
for its answers; this is the key schedule of RFC 9180 §5.1 on the library's primitives.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shuffledp.tasks.errors import TaskError

KEM_ID, KDF_ID, AEAD_ID = b"\x00\x20", b"\x00\x01", b"\x00\x01"
PUBLIC_BYTES, KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 16, 12, 16
_VERSION = b"HPKE-v1"
_KEM_SUITE, _SUITE = b"KEM" + KEM_ID, b"HPKE" + KEM_ID + KDF_ID + AEAD_ID


def extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract with SHA-256."""
    return hmac.digest(salt, secret, "sha256")


def expand(key: bytes, info: bytes, size: int) -> bytes:
    """HKDF-Expand with SHA-256."""
    return HKDFExpand(SHA256(), size, info).derive(key)


def _extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return extract(salt, _VERSION + suite + label + secret)


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return expand(key, size.to_bytes(2, "big") + _VERSION + suite + label + info, size)


@dataclass(frozen=True, kw_only=True)
class HpkeContext:
    """What both sides derive. Secret: it prints nothing."""

    enc: bytes
    """The sender's ephemeral public key."""
    key: bytes
    nonce: bytes
    exporter: bytes

    def __repr__(self) -> str:
        return "HpkeContext()"

    @classmethod
    def sending(
        cls, recipient: bytes, info: bytes, ephemeral: X25519PrivateKey | None = None
    ) -> HpkeContext:
        """The sender's context; `ephemeral` is for tests."""
        own = ephemeral or X25519PrivateKey.generate()
        enc = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        try:
            shared = own.exchange(X25519PublicKey.from_public_bytes(recipient))
        except ValueError:
            raise TaskError("The gateway's key is no X25519 key; ask for another one.") from None
        return cls._of(shared, enc, recipient, info)

    @classmethod
    def receiving(cls, secret: bytes, enc: bytes, info: bytes) -> HpkeContext:
        """The recipient's context; raises `TaskError` if `enc` is no key."""
        own = X25519PrivateKey.from_private_bytes(secret)
        public = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        try:
            shared = own.exchange(X25519PublicKey.from_public_bytes(enc))
        except ValueError:
            raise TaskError("The message's key is no X25519 key; encrypt it again.") from None
        return cls._of(shared, enc, public, info)

    @classmethod
    def _of(cls, exchanged: bytes, enc: bytes, recipient: bytes, info: bytes) -> HpkeContext:
        pseudorandom = _extract(_KEM_SUITE, b"", b"eae_prk", exchanged)
        shared = _expand(_KEM_SUITE, pseudorandom, b"shared_secret", enc + recipient, 32)
        psk_hash = _extract(_SUITE, b"", b"psk_id_hash", b"")
        context = b"\x00" + psk_hash + _extract(_SUITE, b"", b"info_hash", info)
        secret = _extract(_SUITE, shared, b"secret", b"")
        return cls(
            enc=enc,
            key=_expand(_SUITE, secret, b"key", context, KEY_BYTES),
            nonce=_expand(_SUITE, secret, b"base_nonce", context, NONCE_BYTES),
            exporter=_expand(_SUITE, secret, b"exp", context, 32),
        )

    def seal(self, plain: bytes) -> bytes:
        """The one message of this context, encrypted."""
        return AESGCM(self.key).encrypt(self.nonce, plain, None)

    def open(self, sealed: bytes) -> bytes:
        """The one message of this context; raises `TaskError` unless it is whole."""
        return open_with(self.key, self.nonce, sealed)

    def export(self, label: bytes, size: int) -> bytes:
        """A secret that only both sides know."""
        return _expand(_SUITE, self.exporter, b"sec", label, size)


def open_with(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    """What was encrypted with AES-128-GCM; raises `TaskError` unless it is whole."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise TaskError(
            "The message cannot be opened; it was changed, or is for another key."
        ) from None
