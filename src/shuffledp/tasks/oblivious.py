"""Oblivious HTTP (RFC 9458): requests that a relay passes on and only the gateway can read.

device     sent, context = seal_request(key, request)
gateway    request, context = open_request(find, sent)
gateway    answer = seal_answer(context, response)
device     response = open_answer(context, answer)

`HpkeContext` is HPKE with exported secrets (RFC 9180, base mode: X25519, HKDF-SHA256, AES-128-GCM)
for one message in each direction. `cryptography` encrypts and decrypts with HPKE but exports no
secrets, which Oblivious HTTP needs for its responses, so the key schedule of RFC 9180 §5.1 is
written here with the library's primitives.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from shuffledp.documents.schema import Pattern, Text
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


def _exchanged(own: X25519PrivateKey, other: bytes, trouble: str) -> bytes:
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise TaskError(trouble) from None


@dataclass(frozen=True, kw_only=True)
class HpkeContext:
    """The keys that both sides derive. Secret: it prints nothing."""

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
        trouble = "The gateway's key is not an X25519 key; ask its operator for a valid one."
        shared = _exchanged(own, recipient, trouble)
        return cls._of(shared, own.public_key().public_bytes_raw(), recipient, info)

    @classmethod
    def receiving(cls, secret: bytes, enc: bytes, info: bytes) -> HpkeContext:
        """The recipient's context; raises `TaskError` if `enc` is not a key."""
        own = X25519PrivateKey.from_private_bytes(secret)
        trouble = "The message's key is not an X25519 key; encrypt the message again."
        shared = _exchanged(own, enc, trouble)
        return cls._of(shared, enc, own.public_key().public_bytes_raw(), info)

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
        """The one message of this context; raises `TaskError` if it was changed."""
        return open_with(self.key, self.nonce, sealed)

    def export(self, label: bytes, size: int) -> bytes:
        """A secret that only both sides know."""
        return _expand(_SUITE, self.exporter, b"sec", label, size)


def open_with(key: bytes, nonce: bytes, sealed: bytes) -> bytes:
    """Decrypts with AES-128-GCM; raises `TaskError` if the message was changed."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise TaskError(
            "The message cannot be opened: it was changed, or is for another key; encrypt it again."
        ) from None


KEY_IDS = 256
GATEWAY_KEY_BYTES = 1 + 2 + PUBLIC_BYTES + 2 + 4
GATEWAY = Text(2 * GATEWAY_KEY_BYTES, 2 * GATEWAY_KEY_BYTES, Pattern("[0-9a-f]*", "hex digits"))
HEADER_BYTES = 7
ANSWER_NONCE_BYTES = max(KEY_BYTES, NONCE_BYTES)
REQUEST_OVERHEAD = HEADER_BYTES + PUBLIC_BYTES + TAG_BYTES
"""How many bytes longer an encapsulated request is than the request itself."""
_REQUEST, _RESPONSE = b"message/bhttp request", b"message/bhttp response"


@dataclass(frozen=True)
class GatewayKey:
    """The public half of a gateway's key, as a key configuration of RFC 9458 §3.1 holds it."""

    number: int
    public: bytes

    def to_bytes(self) -> bytes:
        """The key configuration, with the one suite that is used here."""
        suite = KDF_ID + AEAD_ID
        return bytes([self.number]) + KEM_ID + self.public + len(suite).to_bytes(2, "big") + suite

    @classmethod
    def from_hex(cls, text: str) -> GatewayKey:
        """The key in a task; raises `TaskError` if it is malformed."""
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        key = cls(data[0] if data else 0, data[3 : 3 + PUBLIC_BYTES])
        if len(data) != GATEWAY_KEY_BYTES or key.to_bytes() != data:
            raise TaskError(
                "The gateway's key is malformed; use what `shuffledp relay key` prints."
            )
        return key

    @property
    def header(self) -> bytes:
        """The first bytes of every request for this key."""
        return bytes([self.number]) + KEM_ID + KDF_ID + AEAD_ID


def seal_request(
    key: GatewayKey, request: bytes, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, HpkeContext]:
    """(the encapsulated request, the context that opens its answer); `ephemeral` is for tests."""
    context = HpkeContext.sending(key.public, _REQUEST + b"\x00" + key.header, ephemeral)
    return key.header + context.enc + context.seal(request), context


def open_request(find: Callable[[int], bytes | None], sealed: bytes) -> tuple[bytes, HpkeContext]:
    """(the request, the context that seals its answer); `find` returns the secret key of a number.

    Ensures: raises `TaskError` unless the request was sealed for one of these keys.
    """
    header, rest = sealed[:HEADER_BYTES], sealed[HEADER_BYTES:]
    secret = find(header[0]) if len(sealed) >= REQUEST_OVERHEAD else None
    if secret is None or header[1:] != KEM_ID + KDF_ID + AEAD_ID:
        raise TaskError(
            "The request is for a key that the gateway does not have; get the task, or the key, "
            "again."
        )
    enc, body = rest[:PUBLIC_BYTES], rest[PUBLIC_BYTES:]
    context = HpkeContext.receiving(secret, enc, _REQUEST + b"\x00" + header)
    return context.open(body), context


def _answer_keys(context: HpkeContext, nonce: bytes) -> tuple[bytes, bytes]:
    secret = context.export(_RESPONSE, ANSWER_NONCE_BYTES)
    key = extract(context.enc + nonce, secret)
    return expand(key, b"key", KEY_BYTES), expand(key, b"nonce", NONCE_BYTES)


def seal_answer(context: HpkeContext, response: bytes, nonce: bytes | None = None) -> bytes:
    """An encapsulated response; `nonce` is for tests."""
    nonce = nonce or os.urandom(ANSWER_NONCE_BYTES)
    key, base = _answer_keys(context, nonce)
    return nonce + AESGCM(key).encrypt(base, response, None)


def open_answer(context: HpkeContext, sealed: bytes) -> bytes:
    """The response; raises `TaskError` unless it answers this request."""
    nonce, body = sealed[:ANSWER_NONCE_BYTES], sealed[ANSWER_NONCE_BYTES:]
    return open_with(*_answer_keys(context, nonce), body)
