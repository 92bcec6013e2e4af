"""Oblivious HTTP (RFC 9458): requests that a relay passes on and only the gateway can read.

device     sent, context = seal_request(key, request)
gateway    request, context = open_request(find, sent)
gateway    answer = seal_answer(context, response)
device     response = open_answer(context, answer)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.hpke_context import (
    AEAD_ID,
    KDF_ID,
    KEM_ID,
    KEY_BYTES,
    NONCE_BYTES,
    PUBLIC_BYTES,
    TAG_BYTES,
    HpkeContext,
    expand,
    extract,
    open_with,
)

KEY_IDS = 256
GATEWAY_KEY_BYTES = 1 + 2 + PUBLIC_BYTES + 2 + 4
HEADER_BYTES = 7
ANSWER_NONCE_BYTES = max(KEY_BYTES, NONCE_BYTES)
REQUEST_OVERHEAD = HEADER_BYTES + PUBLIC_BYTES + TAG_BYTES
"""Bytes that an encapsulated request has more than the request itself."""
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
        """The key in a task; raises `TaskError` if it is none."""
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        key = cls(data[0] if data else 0, data[3 : 3 + PUBLIC_BYTES])
        if len(data) != GATEWAY_KEY_BYTES or key.to_bytes() != data:
            raise TaskError(
                "The gateway's key is malformed; ask for what `shuffledp relay key` prints."
            )
        return key

    @property
    def header(self) -> bytes:
        """With what every request for this key begins."""
        return bytes([self.number]) + KEM_ID + KDF_ID + AEAD_ID


def seal_request(
    key: GatewayKey, request: bytes, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, HpkeContext]:
    """(the encapsulated request, what opens its answer); `ephemeral` is for tests."""
    context = HpkeContext.sending(key.public, _REQUEST + b"\x00" + key.header, ephemeral)
    return key.header + context.enc + context.seal(request), context


def open_request(find: Callable[[int], bytes | None], sealed: bytes) -> tuple[bytes, HpkeContext]:
    """(the request, what its answer is sealed with); `find` gives the secret key of a number.

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
    """The response; raises `TaskError` unless it answers this very request."""
    nonce, body = sealed[:ANSWER_NONCE_BYTES], sealed[ANSWER_NONCE_BYTES:]
    return open_with(*_answer_keys(context, nonce), body)
